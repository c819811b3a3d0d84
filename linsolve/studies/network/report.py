"""Results of `solve` as files: arrays, a table of scalars, figures and a page, either all are written or none."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from linsolve import plot
from linsolve.solvability.files import Data
from linsolve.solvability.trajectory import NetworkTrajectory
from linsolve.studies.comparison import KINDS, destination, save_arrays, save_figure, whole_results
from linsolve.studies.network.figures import FIGURES, Run, best
from linsolve.studies.page import Row, document, figure, table

__all__ = ["check_destination", "left_out", "write"]

FILES = {
    "report.html": "this page",
    "trajectories.npz": "times, weights, map, losses and tangent kernel as plain NumPy arrays",
    "scalars.csv": "times, losses and singular values of the map as a table",
}
LARGE = 10_000_000  # entries of a kernel that is not written


def check_destination(out: str | os.PathLike[str], of: str) -> Path:
    """Return the folder of the results; raise if it contains anything but an earlier result on the same files `of`.

    Raises
    ------
    ValueError
        If `out` is a file, or a folder with other contents or results on other files.
    """
    return destination("solve", out, of, FIGURES, *FILES)


def write(traj: NetworkTrajectory, data: Data, folder: Path, of: str, notes: Sequence[str] = ()) -> list[Path]:
    """Write arrays, table, figures and ``report.html`` into a folder that appears only when it is complete.

    Parameters
    ----------
    traj : NetworkTrajectory
        With a one-dimensional time axis.
    data : Data
    folder : Path
        From `check_destination`.
    of : str
        Source of the network and its data.
    notes : sequence of str
        Further notes for the page.

    Returns
    -------
    list of Path
        The files.
    """
    run, notes = best(traj, data), [*notes, *left_out(traj, data)]
    with whole_results("solve", folder, of) as made:
        save_arrays(made / "trajectories.npz", _arrays(traj, data))
        _write_scalars(traj, made / "scalars.csv")
        for name, shown in FIGURES.items():
            with plot.figure(figsize=(6.8, 4.3)) as (fig, ax):
                shown.draw(run, ax)
                save_figure(fig, made, name)
        (made / "report.html").write_text(_page(run, data, notes), encoding="utf-8")
    return [folder / name for name in (*FILES, *(f"{name}.{kind}" for name in FIGURES for kind in KINDS))]


def _arrays(traj: NetworkTrajectory, data: Data) -> dict[str, np.ndarray]:
    """Return everything by name; a large tangent kernel is left out."""
    large = bool(left_out(traj, data))
    return {"t": traj.t} | {name: traj[name] for name in traj if not (name == "ntk" and large)}


def left_out(traj: NetworkTrajectory, data: Data) -> list[str]:
    """Return a note if the tangent kernel is too large to be written."""
    if "ntk" not in traj:
        return []
    targets = np.asarray(data.pair[1])
    if len(traj.t) * (targets.size if data.context is None else len(targets)) ** 2 <= LARGE:
        return []
    return [f"the tangent kernel has more than {LARGE} entries and is not written."]


def _write_scalars(traj: NetworkTrajectory, path: Path) -> None:
    """Write a row for each time: losses and singular values of the map."""
    columns = {name: traj[name] for name in ("loss", "train_loss", "test_loss") if name in traj}
    columns |= {f"singular_value_{k + 1}": each for k, each in enumerate(traj["singular_values"].T)}
    rows = np.stack([traj.t, *columns.values()], axis=1)
    np.savetxt(path, rows, "%.17g", delimiter=",", header=",".join(["t", *columns]), comments="")


def _biases(traj: NetworkTrajectory) -> str:
    return "with biases" if "offset" in traj else "without biases"


def _page(run: Run, data: Data, notes: Sequence[str]) -> str:
    traj = run.traj
    widths = [traj["map"].shape[-1], *(traj[name].shape[-2] for name in traj if name[0] == "w")]
    subject, parts = f"a {'-'.join(map(str, widths))} {traj.kind}", Row("layers", str(len(widths) - 1), _biases(traj))
    if data.context is not None:
        subject, parts = traj.kind, Row("heads", str(traj["value"].shape[-1]), f"contexts of {data.context:g} tokens")
    title, loss = f"Training of {subject} on {data.name}", traj["loss"]
    rows = [
        Row("route", traj.route, "closed form" if traj.flow is not None else "the weights are integrated"),
        parts,
        Row("times", str(len(traj.t)), f"{traj.t[0]:.4g} to {traj.t[-1]:.4g}"),
        Row("loss, start to end", f"{loss[0]:.4g} to {loss[-1]:.4g}", "half the mean squared error"),
        Row("loss of the best linear map", f"{run.loss:.4g}", "0 by definition for second moments" * data.covariances),
    ]
    if data.test is not None:
        tests = traj["test_loss"]
        least = f"least of the times: {tests.min():.4g} at t = {traj.t[tests.argmin()]:.4g}"
        rows += [
            Row("test samples", str(len(data.test[0])), "not trained on"),
            Row("test loss, start to end", f"{tests[0]:.4g} to {tests[-1]:.4g}", least),
        ]
    said = [*notes, *traj.notes]
    body = [
        f"<h1>{html.escape(title)}</h1>",
        "<p>Gradient flow of half the mean squared error, each layer at its learning rate.</p>",
        table("The network", rows),
        *(
            [table("Notes", [Row(*each.split(": ", 1)) if ": " in each else Row("note", each) for each in said])]
            if said
            else []
        ),
        *(figure(name, shown.title, shown.alt, shown.caption) for name, shown in FIGURES.items()),
    ]
    return document(title, "\n".join(body), FILES)
