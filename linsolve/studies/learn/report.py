"""Results of `learn` as files: figures, trajectories and a report page, either all are written or none."""

from __future__ import annotations

import html
import os
from pathlib import Path

import numpy as np

from linsolve import plot
from linsolve.studies.comparison import destination, save_arrays, save_figure, whole_results
from linsolve.studies.learn.figures import FIGURES, figures_of
from linsolve.studies.learn.learned import Learned
from linsolve.studies.learn.page import BODY, captions, network_words
from linsolve.studies.learn.rows import ROUTES, summary
from linsolve.studies.page import document, figure, table

__all__ = ["check_destination", "summary", "write"]

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
    """Return the folder of the results; raise if it contains anything but an earlier result on the same data `of`.

    Raises
    ------
    ValueError
        If `out` is a file, or a folder with other contents or results on other data.
    """
    return destination("learn", out, of, FIGURES, *FILES)


def write(found: Learned, folder: str | os.PathLike[str], of: str | None = None) -> dict[str, str]:
    """Write figures, trajectories and ``report.html`` into a folder that appears only when it is complete.

    Parameters
    ----------
    found : Learned
    folder : str or path
        Created, with its parents, if missing; replaced if it is empty or an earlier result on the same data.
    of : str, optional
        Source of the data; by default the name of the data set.

    Returns
    -------
    dict
        Notes by file name.

    Raises
    ------
    ValueError
        If the folder contains anything else.
    """
    of = found.dataset.name if of is None else of
    with whole_results("learn", check_destination(folder, of), of) as made:
        return _write_into(found, made)


def _write_into(found: Learned, folder: Path) -> dict[str, str]:
    notes = {"trajectories.nc": _write_netcdf(found, folder / "trajectories.nc")}
    save_arrays(folder / "trajectories.npz", _arrays(found))
    for name, shown in figures_of(found).items():
        with plot.figure(figsize=shown.size) as (fig, ax):
            shown.draw(found, ax)
            save_figure(fig, folder, name)
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
    for route in (*ROUTES, *(("theory",) if found.theory is not None else ())):
        traj = getattr(found, route)
        for name in ("product", "loss", "singular_values", "kernel_alignment"):
            arrays[f"{route}_{name}"] = traj[name]
    return arrays


def _write_netcdf(found: Learned, path: Path) -> str:
    """Write the exact trajectory with labelled axes; if it is not written, return the reason."""
    try:
        found.exact.to_xarray().to_netcdf(path)
    except ImportError:
        return 'not written: needs xarray and netCDF4; pip install ".[labelled]" in the clone'
    return ""


def _page(found: Learned, files: dict[str, str]) -> str:
    depth, aligned = found.settings["depth"], found.network is not None
    own = captions(depth, aligned)
    sections = "\n".join(table(title, rows) for title, rows in summary(found).items())
    figures = "\n".join(
        figure(name, shown.title, shown.alt, own.get(name, shown.caption)) for name, shown in figures_of(found).items()
    )
    verdict = f"<p><strong>{html.escape(OBSTRUCTED)}</strong></p>" if found.obstructed else ""
    words = network_words(depth, aligned)
    name = html.escape(found.dataset.name)
    body = BODY.substitute(name=name, verdict=verdict, sections=sections, figures=figures, **words)
    return document(f"Exact training dynamics: {found.dataset.name}", body, files)
