"""Trajectory of a network: layers, map, loss and tangent kernel by name."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from linsolve.core.arguments import unknown_name
from linsolve.core.flow import Flow
from linsolve.core.notebook import html_table
from linsolve.core.series import NamedSeries
from linsolve.core.trajectory import Deferred

__all__ = ["WHO", "NetworkTrajectory"]

WHO = "solve"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class NetworkTrajectory(NamedSeries):
    """Weights, map, loss and tangent kernel of a network at given times, by name, each evaluated at its first access.

    Parameters
    ----------
    t : ndarray
        Times.
    route : str
        "closed form: " and the flow; or the integrator, "constant" for a start at which every gradient is 0, and the
        condition that fails, with its relative distance.
    flow : Flow or None
        The exact flow; None if the weights are integrated.
    notes : tuple of str
        Saddles, parity, limits of rank, biases, cases without a closed form.
    values : Deferred
        Layers and observables by name.

    Examples
    --------
    >>> import linsolve as ls
    >>> traj = ls.solve([[[1.0]]], ([[1.0]], [3.0]), [0.0, float("inf")])
    >>> traj.keys()
    ['w1', 'map', 'singular_values', 'loss', 'train_loss', 'ntk']
    >>> "ntk" in traj, traj["map"].ravel().round(12).tolist()
    (True, [1.0, 3.0])
    """

    t: np.ndarray
    route: str
    flow: Flow | None
    notes: tuple[str, ...]
    values: Deferred

    def __getitem__(self, name: str) -> np.ndarray:
        return np.asarray(super().__getitem__(name))

    def _unknown(self, name: Any) -> str:
        reason = unknown_name(WHO, "observable", name, self.keys())
        return f"{reason} (second moments have no samples)" if name in ("ntk", "train_loss") else reason

    def __repr__(self) -> str:
        return f"NetworkTrajectory(t: shape {self.t.shape}, route: {self.route}; {', '.join(self.keys())})"

    def _repr_html_(self) -> str:
        title = f"{self.route}, t of shape {self.t.shape}"
        return html_table(title, (), (), [f"values: {', '.join(self.keys())}", *self.notes])
