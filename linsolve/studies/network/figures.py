"""Figures of the training of a network: losses, and the map by its singular values or entries."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from linsolve import plot
from linsolve.plot.axes import LABELS, falls, scale_axis
from linsolve.solvability.files import Data
from linsolve.solvability.heads import best_map
from linsolve.solvability.trajectory import NetworkTrajectory

__all__ = ["FIGURES", "Figure", "Run", "best"]

ENTRIES = 6  # maps with at most so many entries are drawn by entries
LINES = 12  # singular values drawn
WIDE = 56  # characters in a line of the title


class Run(NamedTuple):
    """A trajectory with the best linear map of its data and the loss of that map, None if unknown."""

    traj: NetworkTrajectory
    map: np.ndarray
    loss: float


class Figure(NamedTuple):
    """A figure of the page: drawing function, title, alternative text and caption."""

    draw: Callable[[Run, Any], Any]
    title: str
    alt: str
    caption: str


def best(traj: NetworkTrajectory, data: Data) -> Run:
    """Return the trajectory with the best linear map; with biases, the best affine map; that of attention."""
    if data.context is not None:
        return Run(traj, *best_map("solve", data.pair, data.context, traj["map"].shape[-1]))
    first, second = (np.asarray(each, dtype=float) for each in data.pair)
    if data.covariances:
        return Run(traj, np.atleast_2d(second) @ np.linalg.pinv(first, hermitian=True), 0.0)
    inputs, outputs = first, second.reshape(len(first), -1)
    if "offset" in traj:
        inputs = np.concatenate([inputs, np.ones((len(inputs), 1))], axis=1)
    map_ = np.linalg.lstsq(inputs, outputs, rcond=None)[0]
    loss = float(np.sum((outputs - inputs @ map_) ** 2)) / (2 * len(inputs))
    return Run(traj, map_[: first.shape[1]].T, loss)


def _draw_loss(run: Run, ax: Any) -> None:
    name = "train_loss" if "train_loss" in run.traj else "loss"
    held_out = "test_loss" in run.traj
    plot.trajectory(run.traj, name, ax, label="this network, training samples" if held_out else "this network")
    if held_out:
        plot.trajectory(run.traj, "test_loss", ax, label="this network, test samples")
        ax.autoscale(axis="y")  # the limits of the first line may cut the second
        both = np.stack([run.traj[each] for each in (name, "test_loss")])
        scale_axis(ax, both, falls(name, run.traj[name][:, None]))
        ax.set_ylabel(LABELS["loss"])
        ax.legend()
    if run.loss > 1e-12 * run.traj[name].max():
        ax.axhline(run.loss, color="#555555", linewidth=1.2, linestyle=(0, (5, 3)), label="best linear map")
        ax.legend()
    ax.set_title(textwrap.fill(run.traj.route, WIDE), fontsize=10)


def _draw_map(run: Run, ax: Any) -> None:
    small = run.map.size <= ENTRIES
    goals = run.map.ravel() if small else np.linalg.svd(run.map, compute_uv=False)[:LINES]
    plot.trajectory(run.traj, "map" if small else "singular_values", ax, top=LINES)
    for goal, line in zip(goals, ax.lines[: len(goals)], strict=False):
        ax.axhline(goal, color=line.get_color(), linewidth=0.9, linestyle=(0, (5, 3)), zorder=1)
    ax.set_ylabel("entries of the map" if small else "singular values of the map")


FIGURES = {
    "loss": Figure(
        _draw_loss,
        "Loss",
        "Line plot of the loss against time.",
        "Half the mean squared error on the data, and on test samples if given, over time; dashed: that of the best "
        "linear map on the data.",
    ),
    "map": Figure(
        _draw_map,
        "Map",
        "Line plot of the singular values of the network's map, or of its entries, against time.",
        f"The map from inputs to outputs, by its entries if it has at most {ENTRIES}, otherwise by its largest "
        "singular values; dashed: those of the best linear map.",
    ),
}
