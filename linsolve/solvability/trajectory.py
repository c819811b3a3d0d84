"""Trajectory of a network: layers, map, loss and tangent kernel by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from linsolve.core.arguments import unknown_name
from linsolve.core.flow import Flow
from linsolve.core.notebook import html_table
from linsolve.core.series import Series
from linsolve.core.trajectory import Deferred

__all__ = ["WHO", "NetworkTrajectory"]

WHO = "solve"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class NetworkTrajectory(Series):
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

    def keys(self) -> list[str]:
        """Return the names of the layers and of the observables."""
        return list(self.values)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self:
            reason = unknown_name(WHO, "observable", name, self.keys())
            raise KeyError(f"{reason} (second moments have no samples)" if name in ("ntk", "train_loss") else reason)
        return np.asarray(self.values[name])

    def __repr__(self) -> str:
        return f"NetworkTrajectory(t: shape {self.t.shape}, route: {self.route}; {', '.join(self.keys())})"

    def _repr_html_(self) -> str:
        title = f"{self.route}, t of shape {self.t.shape}"
        return html_table(title, (), (), [f"values: {', '.join(self.keys())}", *self.notes])

    def _tabled(self) -> list[str]:
        return [name for name in self.keys() if name != "ntk"]  # its size is the square of the samples'
