"""A two-layer linear network simulated in its weights: the network itself, not the quantities that solve it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from linsolve.core.network import deep_weights
from linsolve.core.trajectory import Trajectory
from linsolve.systems.whitened.whitened_two_layer import WhitenedTwoLayer

__all__ = ["simulate"]


def simulate(
    route: Callable[..., Trajectory], flow: WhitenedTwoLayer, t: Any, weights: Any, **options: Any
) -> Trajectory:
    """Follow the weights by `integrate` or `descend` and return the trajectory in the state of the closed form.

    The Gram matrices of `WhitenedTwoLayer` forget how many hidden units there are, so that an integrator in them leaves
    a bottleneck through rounding. Weights cannot.

    Parameters
    ----------
    route : callable
        ``linsolve.integrate`` or ``linsolve.descend``.
    flow : WhitenedTwoLayer
        Whose network to simulate.
    t : array_like
        Times.
    weights : (w1, w2)
        Start.
    **options
        Passed to `route`.

    Returns
    -------
    Trajectory
        Of `flow`, comparable with ``flow(t, flow.of(w1, w2))``.

    Examples
    --------
    >>> import numpy as np, linsolve as ls
    >>> from linsolve.systems.whitened.simulation import simulate
    >>> flow, w = ls.WhitenedTwoLayer(target=np.diag([3.0, 1.0])), 0.1 * np.eye(2)
    >>> simulate(ls.integrate, flow, [1.0], (w, w))["singular_values"].round(4).tolist()
    [[1.723, 0.0695]]
    """
    found = route(deep_weights(flow.target, 2, rates=1 / float(flow.tau)), t, tuple(weights), **options)
    return Trajectory(flow, found.t, flow.of(*found.state), found.route)
