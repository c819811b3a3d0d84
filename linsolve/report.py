"""What `learn` found, on disk: figures, trajectories and a page that shows them, all in place or nothing at all."""

from __future__ import annotations

import html
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from linsolve import plot
from linsolve.learn import Learned
from linsolve.report_page import PAGE, captions, map_tex, map_text, network_words

__all__ = ["Row", "check_destination", "summary", "write"]

MARKS = ("report.html", "trajectories.npz")  # a folder that holds both was made by this command
ROADS = {"exact": "closed form", "integrated": "ODE integrator (DOP853)", "descended": "gradient descent"}

FILES = {
    "trajectories.npz": "the three roads as plain NumPy arrays",
    "trajectories.nc": "the closed form as labelled netCDF, for xarray",
}
OBSTRUCTED = (
    "This start is obstructed by parity: W₂W₁ is square, its determinant keeps its sign, and that of S has the other. "
    "The exact solution therefore ends on a saddle, with one mode unlearned. Given time, a simulation leaves "
    "the saddle through rounding, and differs from then on."
)


class Row(NamedTuple):
    """One line of the summary: a name, a value, and what it means."""

    name: str
    value: str
    meaning: str = ""


def summary(found: Learned) -> dict[str, list[Row]]:
    """Return the numbers of a run, by section, as text."""
    data, network = _data_rows(found), _network_rows(found)
    return {"The data": data, "The network": network, "How far the three roads differ": _difference_rows(found)}


def _data_rows(found: Learned) -> list[Row]:
    problem, dataset = found.problem, found.dataset
    dropped = [dataset.features[i] for i in problem.dropped]
    rows = [
        Row("samples", str(len(dataset.inputs))),
        Row("features", str(len(dataset.features)), _constant(dropped)),
        Row("rank", str(problem.rank), f"white inputs kept; weaker than {problem.tolerance:.0e} counts as rounding"),
    ]
    if dataset.classes:
        rows.append(Row("classes", str(len(dataset.classes)), _shorten(dataset.classes)))
    else:
        rows.append(Row("targets", str(dataset.targets.shape[1]), "real"))
    singular = [f"{s:.4g}" for s in found.modes.s]
    rows.append(Row("singular values", _shorten(singular), "of S: the modes to learn"))
    return rows


def _constant(dropped: list[str]) -> str:
    return f"{len(dropped)} constant and left out: {_shorten(dropped, 4)}" if dropped else ""


def _network_rows(found: Learned) -> list[Row]:
    used, loss, offset = found.settings, found.exact["loss"], found.problem.offset
    start = (
        [Row("imbalance", f"{used['imbalance']:g}", "W₂ᵀW₂ = W₁W₁ᵀ + imbalance · 1")] if found.network is None else []
    )
    rows = [
        Row("depth", str(used["depth"]), "layers"),
        *([Row("width", str(used["width"]), "hidden units")] if used["depth"] > 1 else []),
        Row("scale", f"{used['scale']:.4g}", f"of the initial weights, seed {used['seed']}"),
        *start,
        Row("learning rate", f"{used['rate']:g}", "1/τ"),
        Row("time followed", f"{found.exact.t[-1]:.4g}", f"in units where τ = {1 / used['rate']:g}"),
        Row("loss, start to end", f"{loss[0]:.4g} to {loss[-1]:.3g}", "L, what can be learned"),
        Row("remaining loss", f"{offset:.4g}", "what no linear map of these inputs explains"),
    ]
    accuracy = found.accuracy()
    if accuracy is not None:
        rows.append(Row("accuracy at the end", f"{accuracy[-1]:.1%}", "of the same samples, largest output wins"))
    if found.network is not None:
        times = [f"{t:.4g}" for t in found.network.learning_times()]
        return [*rows, Row("learning times", _shorten(times), "when each mode has half its strength; in closed form")]
    verdict = "obstructed: the exact solution ends on a saddle" if found.obstructed else "free"
    meaning = "det W₂(0)W₁(0) and det S have opposite signs, and the flow keeps them" if found.obstructed else ""
    rows.append(Row("parity", verdict, meaning))
    return rows


def _difference_rows(found: Learned) -> list[Row]:
    step, seconds, product = found.settings["step"], found.seconds, map_text(found.settings["depth"])
    labels = {
        "integrated": "ODE integrator",
        "descended": f"gradient descent, step {step:.3g}",
        "halved": f"gradient descent, step {step / 2:.3g}",
    }
    rows = [
        Row(label, f"{d.product:.1e}", f"from the closed form, of the map {product}; {d.loss:.1e} of the loss")
        for label, d in ((labels[name], d) for name, d in found.differences.items())
    ]
    rows.append(Row("half the step is closer by", f"{found.order:.3f}", "2 for a method of first order"))
    spent = ", ".join(f"{label} {seconds[name]:.2g} s" for name, label in ROADS.items())
    rows.append(Row("time spent", f"{sum(seconds.values()):.2g} s", spent))
    return rows


def _shorten(values: Any, most: int = 12) -> str:
    values = list(values)
    return ", ".join(values[:most]) + (f", … ({len(values)} in all)" if len(values) > most else "")


def check_destination(folder: Path) -> None:
    """Refuse a destination that would overwrite what this command did not make.

    Raises
    ------
    ValueError
        If `folder` is a file, or a folder with other contents.
    """
    if folder.is_dir():
        if any(folder.iterdir()) and not all((folder / mark).is_file() for mark in MARKS):
            raise ValueError(f"learn: out = {folder} holds other files and is not overwritten; choose another folder")
    elif folder.exists() or folder.is_symlink():
        raise ValueError(f"learn: out = {folder} is not a folder; choose another name")


def write(found: Learned, folder: str | os.PathLike[str]) -> dict[str, str]:
    """Write figures, trajectories and ``report.html`` into a folder that appears only when it is complete.

    Parameters
    ----------
    found : Learned
    folder : str or path
        Made, with its parents; replaced if it is empty or an earlier result of this function.

    Returns
    -------
    dict
        Notes by file name, where there is something to say about it.

    Raises
    ------
    ValueError
        If the folder holds anything else.
    """
    folder = Path(folder)
    check_destination(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as scratch:
        made = Path(scratch) / "new"
        made.mkdir()
        notes = _write_into(found, made)
        if folder.exists():
            folder.replace(Path(scratch) / "old")
        made.replace(folder)
    return notes


def _write_into(found: Learned, folder: Path) -> dict[str, str]:
    notes = {"trajectories.nc": _write_netcdf(found, folder / "trajectories.nc")}
    np.savez(folder / "trajectories.npz", allow_pickle=False, **_arrays(found))
    for name, shown in FIGURES.items():
        with plot.figure(figsize=shown.size) as (fig, ax):
            shown.draw(found, ax)
            for suffix in ("png", "pdf"):
                fig.savefig(folder / f"{name}.{suffix}")
    files = {name: what for name, what in FILES.items() if (folder / name).exists()}
    (folder / "report.html").write_text(_page(found, files), encoding="utf-8")
    return {name: note for name, note in notes.items() if note}


def _arrays(found: Learned) -> dict[str, np.ndarray]:
    """Return everything as plain arrays; the roads share one time axis."""
    problem, dataset = found.problem, found.dataset
    arrays = {name: getattr(problem, name) for name in ("target", "transform", "input_mean", "target_mean", "offset")}
    arrays |= {"classes": np.array(dataset.classes, dtype=str), "features": np.array(dataset.features, dtype=str)}
    arrays["t"] = found.exact.t
    if found.network is None:
        arrays |= {name: found.exact[name] for name in ("gram_in", "gram_out")}
    else:
        arrays["strengths"] = found.network.strengths(found.exact.t)
        arrays |= {f"w{k + 1}": layer for k, layer in enumerate(found.network.layers(found.exact.t))}
    for road in ROADS:
        traj = getattr(found, road)
        for name in ("product", "loss", "singular_values", "kernel_alignment"):
            arrays[f"{road}_{name}"] = traj[name]
    return {name: np.asarray(value) for name, value in arrays.items()}


def _write_netcdf(found: Learned, path: Path) -> str:
    """Write the exact trajectory with labelled axes; return why not, where it is not written."""
    try:
        found.exact.to_xarray().to_netcdf(path)
    except ImportError:
        return "not written: needs xarray and netCDF4; pip install 'linsolve-dynamics[labelled]'"
    return ""


class Figure(NamedTuple):
    """A figure of the report: what draws it, what it shows in words, and what to see in it."""

    draw: Callable[[Learned, Any], Any]
    title: str
    alt: str
    caption: str
    size: tuple[float, float] = (6.8, 4.3)


def _draw_roads(found: Learned, ax: Any) -> None:
    labels = [ROADS["exact"], ROADS["integrated"], f"gradient descent, step {found.settings['step']:.3g}"]
    trajs = dict(zip(labels, (found.exact, found.integrated, found.descended), strict=True))
    width = found.settings["width"] if found.settings["depth"] > 1 else len(found.modes.s)
    rank = max(1, min(len(found.modes.s), width))
    plot.roads(trajs, "singular_values", ax, top=rank)
    ax.set_ylabel(f"singular values of {map_tex(found.settings['depth'])}")


def _draw_differences(found: Learned, ax: Any) -> None:
    step = found.settings["step"]
    others = {
        f"gradient descent, step {step:.3g}": found.descended,
        f"gradient descent, step {step / 2:.3g}": found.halved,
        ROADS["integrated"]: found.integrated,
    }
    plot.differences(found.exact, others, "product", ax)
    ax.set_ylabel(f"relative difference of {map_tex(found.settings['depth'])}")


def _draw_loss(found: Learned, ax: Any) -> None:
    plot.trajectory(found.exact, "loss", ax)
    ax.set_ylabel(rf"loss $L = \frac{{1}}{{2}}\,\|S - {map_tex(found.settings['depth'])[1:-1]}\|^2$")


def _draw_modes(found: Learned, ax: Any) -> None:
    plot.modes(found.exact, ax)
    ax.set_ylabel(f"singular values of {map_tex(found.settings['depth'])}")


FIGURES = {
    "loss": Figure(
        _draw_loss,
        "Loss",
        "Line plot of the loss against time on a logarithmic axis.",
        "The part of the loss that can be learned. It stays on a plateau while all modes are small, falls as one mode "
        "after the other is learned, in steps where their strengths differ much, and then exponentially.",
    ),
    "modes": Figure(
        _draw_modes,
        "Singular modes",
        "Line plot of the singular values of the network's map against time, each rising to its dashed target.",
        "Each mode of the data is learned along a sigmoid of its own; the dashed lines are the singular values of the "
        "data. Stronger modes are learned first: a mode of strength s takes a time proportional to 1/s. With fewer "
        "hidden units than modes, only the strongest are learned.",
    ),
    "alignment": Figure(
        lambda found, ax: plot.alignment(found.exact, ax),
        "Kernel alignment",
        "Line plot of the alignment of the tangent kernel with the target against time.",
        "Cosine between the network's tangent kernel on the white inputs and the target's, yyᵀ; a frozen kernel would "
        "stay on the dashed line. From small weights it rises while the two layers align with each other, and again as "
        "the modes are learned. It stays below 1 because the kernel serves all directions, and the target is one.",
    ),
    "roads": Figure(
        _draw_roads,
        "Three roads",
        "The singular values against time from the closed form, an ODE integrator and gradient descent, overlaid.",
        "The same network three times: the closed form (broad line), the ODE integrator (circles), gradient descent "
        "(dashes). The circles lie on the line; how far off the dashes are is shown next.",
    ),
    "differences": Figure(
        _draw_differences,
        "How far apart they are",
        "Line plot of the relative difference of the two simulations from the closed form against time, logarithmic.",
        "Distance of each simulation from the closed form, in the Frobenius norm, relative to the largest map. Half "
        "the step halves the distance of gradient descent; the ODE integrator stays at its tolerance.",
    ),
}


def _page(found: Learned, files: dict[str, str]) -> str:
    own = captions(found.settings["depth"])
    sections = "\n".join(_section(title, rows) for title, rows in summary(found).items())
    figures = "\n".join(
        f'<figure id="{name}"><h2>{html.escape(shown.title)}</h2>'
        f'<a href="{name}.pdf"><img src="{name}.png" alt="{html.escape(shown.alt)}"></a>'
        f"<figcaption>{html.escape(own.get(name, shown.caption))}</figcaption></figure>"
        for name, shown in FIGURES.items()
    )
    verdict = f"<p><strong>{html.escape(OBSTRUCTED)}</strong></p>" if found.obstructed else ""
    links = ", ".join(f'<a href="{name}">{name}</a> ({what})' for name, what in files.items())
    name = html.escape(found.dataset.name)
    words = network_words(found.settings["depth"])
    return PAGE.substitute(name=name, verdict=verdict, sections=sections, figures=figures, files=links, **words)


def _section(title: str, rows: list[Row]) -> str:
    body = "".join(
        f'<tr><th scope="row">{html.escape(r.name)}</th><td>{html.escape(r.value)}</td>'
        f"<td>{html.escape(r.meaning)}</td></tr>"
        for r in rows
    )
    return f"<h2>{html.escape(title)}</h2>\n<table>{body}</table>"
