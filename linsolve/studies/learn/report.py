"""What `learn` found, on disk: figures, trajectories and a page that shows them, all in place or nothing at all."""

from __future__ import annotations

import html
import os
from pathlib import Path

import numpy as np

from linsolve import plot
from linsolve.core.results import folder_of_results, mark, whole_folder
from linsolve.studies.learn.comparison import Learned
from linsolve.studies.learn.figures import FIGURES
from linsolve.studies.learn.page import PAGE, captions, network_words
from linsolve.studies.learn.rows import ROUTES, Row, summary

__all__ = ["Row", "check_destination", "summary", "write"]

KINDS = ("png", "pdf")
FILES = {
    "report.html": "this page",
    "trajectories.npz": "the three routes as plain NumPy arrays",
    "trajectories.nc": "the closed form as labelled netCDF, for xarray",
}
OBSTRUCTED = (
    "This start is obstructed by parity: W₂W₁ is square, its determinant keeps its sign, and that of S has the other. "
    "The exact solution therefore ends on a saddle, with one mode unlearned. Given time, a simulation leaves "
    "the saddle through rounding, and differs from then on."
)


def check_destination(out: str | os.PathLike[str], of: str) -> Path:
    """Return the folder of the results; refuse one that holds anything but an earlier result on the same data `of`.

    Raises
    ------
    ValueError
        If `out` is a file, or a folder with other contents or results on other data.
    """
    names = [*FILES, *(f"{name}.{kind}" for name in FIGURES for kind in KINDS)]
    return folder_of_results("learn", out, of, names)


def write(found: Learned, folder: str | os.PathLike[str], of: str | None = None) -> dict[str, str]:
    """Write figures, trajectories and ``report.html`` into a folder that appears only when it is complete.

    Parameters
    ----------
    found : Learned
    folder : str or path
        Made, with its parents; replaced if it is empty or an earlier result on the same data.
    of : str, optional
        Source of the data; by default the name of the data set.

    Returns
    -------
    dict
        Notes by file name, where there is something to say about it.

    Raises
    ------
    ValueError
        If the folder holds anything else.
    """
    of = found.dataset.name if of is None else of
    with whole_folder(check_destination(folder, of)) as made:
        mark(made, "learn", of)
        return _write_into(found, made)


def _write_into(found: Learned, folder: Path) -> dict[str, str]:
    notes = {"trajectories.nc": _write_netcdf(found, folder / "trajectories.nc")}
    np.savez(folder / "trajectories.npz", allow_pickle=False, **_arrays(found))
    for name, shown in FIGURES.items():
        with plot.figure(figsize=shown.size) as (fig, ax):
            shown.draw(found, ax)
            for suffix in KINDS:
                fig.savefig(folder / f"{name}.{suffix}")
    files = {name: what for name, what in FILES.items() if (folder / name).exists()}
    (folder / "report.html").write_text(_page(found, files), encoding="utf-8")
    return {name: note for name, note in notes.items() if note}


def _arrays(found: Learned) -> dict[str, np.ndarray]:
    """Return everything as plain arrays; the routes share one time axis."""
    problem, dataset = found.problem, found.dataset
    arrays = {name: getattr(problem, name) for name in ("target", "transform", "input_mean", "target_mean", "offset")}
    arrays |= {"classes": np.array(dataset.classes, dtype=str), "features": np.array(dataset.features, dtype=str)}
    arrays["t"] = found.exact.t
    if found.network is None:
        arrays |= {name: found.exact[name] for name in ("gram_in", "gram_out")}
    else:
        arrays["strengths"] = found.network.strengths(found.exact.t)
        arrays |= {f"w{k + 1}": layer for k, layer in enumerate(found.network.layers(found.exact.t))}
    for route in ROUTES:
        traj = getattr(found, route)
        for name in ("product", "loss", "singular_values", "kernel_alignment"):
            arrays[f"{route}_{name}"] = traj[name]
    return {name: np.asarray(value) for name, value in arrays.items()}


def _write_netcdf(found: Learned, path: Path) -> str:
    """Write the exact trajectory with labelled axes; return why not, where it is not written."""
    try:
        found.exact.to_xarray().to_netcdf(path)
    except ImportError:
        return "not written: needs xarray and netCDF4; pip install 'linsolve-dynamics[labelled]'"
    return ""


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
