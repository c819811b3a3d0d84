"""Legibility of figures: colors under color-vision deficiencies and in gray, and pairs of lines that look alike."""

import itertools

import matplotlib.colors
import numpy as np
from matplotlib.collections import LineCollection

# G. M. Machado, M. M. Oliveira, L. A. F. Fernandes (2009), severity 1, on linear RGB
DEFICIENCIES = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])  # of linear sRGB, D65
APART = 15.0  # CIELAB distance of colors that are told apart; about 2 is just seen side by side
GRAY = 12.0  # difference of the lightness L* of lines that are told apart in gray print


def linear(color):
    """Return linear RGB of a color of Matplotlib."""
    s = np.array(matplotlib.colors.to_rgb(color))
    return np.where(s <= 0.04045, s / 12.92, ((s + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """Return CIELAB coordinates of linear RGB."""
    x, y, z = XYZ @ rgb / XYZ.sum(axis=1)
    f = [np.cbrt(v) if v > (6 / 29) ** 3 else v / (3 * (6 / 29) ** 2) + 4 / 29 for v in (x, y, z)]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def seen(color, deficiency=None):
    """Return CIELAB coordinates of a color as seen with a deficiency, or without one."""
    rgb = linear(color)
    return lab(rgb if deficiency is None else np.clip(np.array(DEFICIENCIES[deficiency]) @ rgb, 0, 1))


def distances(first, second):
    """Return the CIELAB distance of two colors for each kind of sight, and of their lightness in gray."""
    found = {each: float(np.linalg.norm(seen(first, each) - seen(second, each))) for each in (None, *DEFICIENCIES)}
    return found | {"gray": float(abs(seen(first)[0] - seen(second)[0]))}


def faint(first, second):
    """Return the kinds of sight for which two colors are too near."""
    limits = {"gray": GRAY}
    return [str(name) for name, gap in distances(first, second).items() if gap < limits.get(name, APART)]


def look(line):
    """Return what tells a line apart without color: dashes, marker and whether it is filled, width."""
    dash = line._unscaled_dash_pattern if line.get_linestyle() not in ("None", "none", "") else None
    filled = str(line.get_markerfacecolor()).lower() not in ("none", "white", "w")
    marker = str(line.get_marker())
    return str(dash), marker, filled and marker != "None", round(line.get_linewidth() / 1.6)


def alike(ax):
    """Return the pairs of lines of a legend that have one look and colors too near for some sight."""
    lines = [line for line in ax.lines if not str(line.get_label()).startswith("_") and len(line.get_xdata()) > 1]
    ordered = ladder_of(lines)
    found = []
    for (i, a), (j, b) in itertools.combinations(enumerate(lines), 2):
        near = faint(a.get_color(), b.get_color())
        if near and look(a) == look(b) and not (ordered and abs(i - j) >= 1 and near == ["gray"]):
            found.append((a.get_label(), b.get_label(), near))
    return found


def ladder_of(lines):
    """Return whether the lightness of the lines falls or rises from each to the next, which gray print keeps."""
    steps = np.diff([seen(line.get_color())[0] for line in lines])
    return len(lines) > 2 and bool((steps > 3).all() or (steps < -3).all())


def covered(ax):
    """Return the entries of the legend of drawn axes that a line, a mark or a bar crosses; none if it is opaque."""
    legend = ax.get_legend()
    if legend is None or legend.get_frame_on():
        return []
    drawn = np.concatenate([pixels(ax, artist) for artist in (*ax.lines, *ax.collections)])
    found = []
    for text in (*legend.get_texts(), legend.get_title()):
        low, high = text.get_window_extent().get_points()
        low = low - [30 * (text is not legend.get_title()), 0]  # the handle is left of its text
        if text.get_text() and ((drawn > low) & (drawn < high)).all(axis=1).any():
            found.append(text.get_text())
    return found


def pixels(ax, artist):
    """Return points on a line or on bars, or the places of marks, that lie within the axes, in pixels."""
    if isinstance(artist, LineCollection):
        paths = artist.get_segments()
    else:
        paths = [artist.get_xydata()] if hasattr(artist, "get_xydata") else []
    marks = hasattr(artist, "get_linestyle") and artist.get_linestyle() == "None"
    found = [np.empty((0, 2))]
    for path in paths:
        corners = artist.get_transform().transform(np.ma.filled(np.ma.asarray(path, dtype=float), np.nan))
        known = corners[np.isfinite(corners).all(axis=1)]
        found += [known] if marks else [np.linspace(*pair, 200) for pair in itertools.pairwise(known)]
    points = np.concatenate(found)
    low, high = ax.bbox.get_points()
    return points[((points >= low) & (points <= high)).all(axis=1)]
