"""Trajectory of a network: layers, map, loss and tangent kernel by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.arguments import unknown_name
from linsolve.core.flow import Flow
from linsolve.core.labelled import network_dataset
from linsolve.core.notebook import html_table
from linsolve.core.series import NamedSeries
from linsolve.core.table import chosen
from linsolve.core.trajectory import Deferred

__all__ = ["WHO", "Departure", "NetworkTrajectory"]

WHO = "solve"


class Departure(NamedTuple):
    """First time at which gradient descent with a given step differs from gradient flow.

    Parameters
    ----------
    time : float
        First multiple of the step at which the outputs differ by more than `within`; inf if none up to `until`.
    step : float
        Length of a descent step, in units of time.
    within : float
        Tolerance of the difference (root mean square over samples), as a share of the largest output of the flow.
    until : float
        Horizon, in units of time.
    largest : float
        Largest difference up to the horizon, as a share of the largest output; inf if descent diverges.
    method : str
        Source of the descent: its exact solution, a simulation, or the leading correction, O(step).

    Examples
    --------
    >>> import linsolve as ls
    >>> traj = ls.solve([[[0.1]], [[0.1]]], ([[1.0]], [1.0]), [0.0, 10.0], step=0.1)
    >>> round(traj.departure.time, 6), traj.departure.method
    (1.3, 'exact descent of TwoLayer')
    >>> print(str(traj.departure).split(" on, ")[1])
    by more than 1 % of the largest output up to t = 10; by at most 3.29 % (exact descent of TwoLayer).
    """

    time: float
    step: float
    within: float
    until: float
    largest: float
    method: str

    def __str__(self) -> str:
        """Return the finding in a sentence."""
        first = f"from t = {self.time:.4g} on," if np.isfinite(self.time) else "at no time"
        size = f"by at most {100 * self.largest:.3g} %" if np.isfinite(self.largest) else "without bound"
        return (
            f"step {self.step:g}: gradient descent differs from gradient flow {first} by more than "
            f"{100 * self.within:.3g} % of the largest output up to t = {self.until:.4g}; {size} ({self.method})."
        )


class _OnAccess:
    """Text of a field that is given as a function, which is called at the first access."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_{name}"

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            raise AttributeError(self._name)  # the field has no default
        if callable(value := vars(instance)[self._name]):
            value = vars(instance)[self._name] = value()
        return value

    def __set__(self, instance: Any, value: str | Callable[[], str]) -> None:
        vars(instance)[self._name] = value


class _Routed(NamedSeries):
    """Values by name with a route, given as text or as a function that returns it."""

    route: Any = _OnAccess()


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class NetworkTrajectory(_Routed):
    """Weights, map, loss and tangent kernel of a network at given times, by name, each evaluated at its first access.

    The arrays are read-only, since others are evaluated from them; ``traj["map"].copy()`` is an array to write into.

    Parameters
    ----------
    t : ndarray
        Times.
    route : str
        "closed form: " and the flow; or the integrator, the nearest exact case that `linsolve.applies` names, and the
        conditions that fail for it, with their relative distances, evaluated at the first access. It is "closed form:
        stationary point" or "constant" for a start at which every gradient is 0. For a leaky ReLU network it also has
        the gain.
    flow : Flow or None
        The exact flow; None if the weights are integrated. That of a leaky ReLU network has its weights times the root
        of the gain.
    notes : tuple of str
        Saddles, parity, limits of rank, biases, cases without a closed form.
    values : Deferred
        Layers and observables by name.
    departure : Departure, optional
        First time at which gradient descent with the given step differs from gradient flow.
    kind : str
        Kind of the network.

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
    route: Any  # a str, also if it is given as a function
    flow: Flow | None
    notes: tuple[str, ...]
    values: Deferred
    departure: Departure | None = None
    kind: str = "linear network"

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_route": self.route}  # functions cannot be pickled

    def __getitem__(self, name: str) -> np.ndarray:
        return np.asarray(super().__getitem__(name))

    def to_xarray(self, names: str | Iterable[str] | None = None, *more: str) -> Any:
        """Return values as a labelled ``xarray.Dataset`` (extra ``[labelled]``).

        Parameters
        ----------
        names : str or iterable of str, optional
            Values to include; by default all but the tangent kernel.
        *more : str
            Further names.

        Returns
        -------
        xarray.Dataset
            The dimensions are ``t`` (``t0, t1, ...`` if the times have several axes) and those of each value: ``n_in``,
            ``unit1``, ..., ``n_out`` of the layers, ``mode`` of singular values, ``head`` and ``token`` of attention
            heads, ``sample_output`` of the tangent kernel. Route, kind and notes are attributes.

        Raises
        ------
        ImportError
            If xarray is missing.
        KeyError
            If a name is unknown.
        TypeError
            If a name is not a string.

        Examples
        --------
        >>> import linsolve as ls
        >>> traj = ls.solve([[[0.1, 0.2]], [[0.3]]], ([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0]), [0.0, 1.0])
        >>> traj.to_xarray()["w1"].dims
        ('t', 'unit1', 'n_in')
        """
        return network_dataset(self, chosen(f"{type(self).__name__}.to_xarray", names, more, self._tabled()))

    def _unknown(self, name: Any) -> str:
        if name == "test_loss":
            return f"{WHO}: observable = 'test_loss' is missing (it needs test samples); give test=(X, Y)"
        reason = unknown_name(WHO, "observable", name, self.keys())
        return f"{reason} (second moments have no samples)" if name in ("ntk", "train_loss") else reason

    def _repr_html_(self) -> str:
        title = f"{self.route}, t of shape {self.t.shape}"
        return html_table(title, (), (), [f"values: {', '.join(self.keys())}", *self.notes])
