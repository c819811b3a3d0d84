"""Results of `collapse` as text and as files; either all files are written or none."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from linsolve.core.json_text import json_text, plain
from linsolve.data.archive import plain_arrays
from linsolve.studies.collapse.run import METRICS, Collapsed
from linsolve.studies.comparison import KINDS, destination, save_arrays, save_figure, whole_results
from linsolve.systems.collapse.limits import PARTS, Rate, frame_of
from linsolve.systems.collapse.network import kernel

__all__ = ["check_destination", "numbers", "read_weights", "summary", "write"]

OBSTRUCTED = (
    "obstructed: the flow ends at a saddle, with one mode not learned; the determinant of the map W H of classes is "
    "negative, that of the target is positive, and the flow keeps its sign; only rounding errors leave the saddle"
)
FRAME = {"gamma": "W W^T ~ I - gamma J, J all ones", "theta": "Gram matrix of the class means ~ I - theta J"}


def numbers(found: Collapsed) -> dict[str, Any]:
    """Return all numbers of a run by name, ready for JSON."""
    flow = found.flow
    mu = flow.rates_of_features(np)
    ends = {}
    for route, traj in found.routes.items():
        gamma, theta = frame_of(flow, type(traj.state)(*(v[-1] for v in traj.state)))
        ends[route] = {name: float(traj[name][-1]) for name in (*METRICS, "loss")} | {"gamma": gamma, "theta": theta}
    return plain(
        {
            "flow": {name: float(value) for name, value in flow.parameters().items()},
            "eigenvalues": dict(zip(("mu_s", "mu_c", "mu_g"), (float(v) for v in mu), strict=True)),
            "settings": found.settings,
            "theory": found.theory.route,
            "reason": found.reason,
            "conditions": found.conditions,
            "obstructed": found.obstructed,
            "predicted": found.predicted,
            "end": ends,
            "rates": {name: rate._asdict() for name, rate in found.rates.items()},
            "differences": found.differences,
            "seconds": found.seconds,
        }
    )


def summary(found: Collapsed) -> list[tuple[str, str]]:
    """Return the results as pairs of name and text."""
    flow, said = found.flow, numbers(found)
    mu = ", ".join(f"{name} = {v:.4g}" for name, v in said["eigenvalues"].items())
    rows = [
        ("network", f"C = {int(flow.classes)}, m = {int(flow.m)}, n = {found.settings['features']}; {mu}"),
        ("theory", "closed form" if not found.reason else "no closed form from this start; closed flow integrated"),
        *([("because", found.reason.split(": ", 1)[-1].split("; use")[0])] if found.reason else []),
        ("time followed", f"{found.settings['until']:.4g}"),
        ("loss", f"{found.theory['loss'][0]:.4g} to {found.theory['loss'][-1]:.2g}"),
        *([("parity", OBSTRUCTED)] if found.obstructed else []),
    ]
    rows += [
        (f"residual, {name}", _words(found.rates[name], float(flow.kappa_d - flow.kappa_c))) for name in PARTS[::-1]
    ]
    for name in (*METRICS, "gamma", "theta"):
        text = f"{_small(said['end']['theory'][name])}; simulated {_small(said['end']['simulated'][name])}"
        if name in found.predicted:
            text += f"; predicted at t = inf {_small(found.predicted[name])}"
        rows.append((f"{name} at the end", text + (f"; {FRAME[name]}" if name in FRAME else "")))
    for name, label in (("simulated", "DOP853 on the weights"), ("descended", "gradient descent on the weights")):
        rows.append((label, f"{found.differences[name]:.1e} from theory (largest relative difference)"))
    return rows


def _small(value: float | None) -> str:
    """Return a number as text; rounding errors print as zero."""
    if value is None:
        return "not defined"
    return "0" if abs(value) < 1e-15 else f"{value:.4g}"


def _words(rate: Rate, sample: float) -> str:
    if rate.law == "none":
        return "zero at all times"
    seen = "not converged" if rate.measured is None else f"{rate.measured:.4g} measured"
    if rate.law == "1/t":
        return f"1/t, size {1 / (2 * math.sqrt(sample)):.4g}/t predicted; power {seen}"
    if rate.predicted is None:
        return f"exponential, rate {seen}, no prediction"
    return f"exponential, rate {rate.predicted:.4g} predicted, {seen}"


def check_destination(out: str | os.PathLike[str], of: str) -> Path:
    """Return the folder of the results; raise if it contains anything but an earlier result from the start `of`.

    Raises
    ------
    ValueError
        If `out` is a file, or a folder with other contents.
    """
    from linsolve.studies.collapse.figures import FIGURES

    return destination("collapse", out, of, FIGURES, "metrics.json", "collapse.npz")


def write(found: Collapsed, out: str | os.PathLike[str], of: str | None = None) -> list[Path]:
    """Write figures, ``metrics.json`` and ``collapse.npz`` into a folder that appears only when it is complete.

    Parameters
    ----------
    found : Collapsed
    out : str or path
        Created, with its parents, if missing; replaced if it is empty or an earlier result from the same start.
    of : str, optional
        Source of the start; by default its kind.

    Returns
    -------
    list of Path

    Raises
    ------
    ValueError
        If the folder contains anything else.
    """
    of = found.settings["start"] if of is None else of
    folder = check_destination(out, of)
    with whole_results("collapse", folder, of) as made:
        names = _write_into(found, made)
    return [folder / name for name in names]


def _write_into(found: Collapsed, folder: Path) -> list[str]:
    import matplotlib.pyplot as plt

    from linsolve.plot.style import STYLE
    from linsolve.studies.collapse.figures import FIGURES

    names = []
    for name, (draw, size) in FIGURES.items():
        with plt.rc_context(STYLE):
            fig = plt.figure(figsize=size, layout="constrained")
            draw(found, fig)
            save_figure(fig, folder, name)
            names += [f"{name}.{kind}" for kind in KINDS]
            plt.close(fig)
    text = json_text(numbers(found), indent=1)
    (folder / "metrics.json").write_text(text + "\n", encoding="utf-8")
    save_arrays(folder / "collapse.npz", _arrays(found))
    return [*names, "metrics.json", "collapse.npz"]


def _arrays(found: Collapsed) -> dict[str, np.ndarray]:
    """Return the start, the kernel, the theory, and the simulations without their large Gram matrices."""
    arrays = dict(zip(("h", "w", "b"), found.weights, strict=True)) | {
        "t": found.theory.t,
        "kernel": kernel(found.flow),
    }
    for route, traj in found.routes.items():
        fields = ("product", "gram_w", "gram_h", "b") if route == "theory" else ("gram_w", "b")
        for name in (*fields, *METRICS, "loss", *(f"loss_{part}" for part in PARTS)):
            arrays[f"{route}_{name}"] = traj[name]
    return arrays


def read_weights(path: str | os.PathLike[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, classifier and bias from a ``.npz`` file with ``h``, ``w`` and ``b``.

    Raises
    ------
    ValueError
        If there is no such file, it is not of this format, or an array is missing.
    """
    if not Path(path).exists():
        raise ValueError(f"collapse: weights = {path} does not exist; save h, w, b with numpy.savez")
    found, _ = plain_arrays("collapse", "weights", Path(path), "h|w|b")
    missing = [name for name in "hwb" if name not in found]
    if missing:
        raise ValueError(f"collapse: weights = {path} has no {', '.join(missing)}; save h (n, N), w (C, n), b (C,)")
    return found["h"], found["w"], found["b"]
