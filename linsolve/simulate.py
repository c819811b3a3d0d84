"""A two-layer linear network in its weights, to be simulated: the network itself, not the quantities that solve it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

from linsolve.flow import Flow, Trajectory, parameter
from linsolve.flows.whitened_two_layer import WhitenedTwoLayer

__all__ = ["TwoLayerWeights", "simulate"]


class TwoLayerWeights(Flow):
    r"""The network of `WhitenedTwoLayer` in its weights; for `integrate` and `descend`, as its solution is not closed.

    .. math:: L = |S - W_2 W_1|_F^2 / 2, \qquad
        \tau \dot W_1 = W_2^\top (S - W_2 W_1), \quad \tau \dot W_2 = (S - W_2 W_1) W_1^\top.

    The Gram matrices of `WhitenedTwoLayer` forget how many hidden units there are, so that an integrator in them leaves
    a bottleneck through rounding. Weights cannot.

    Parameters
    ----------
    target : array_like, shape (n_out, n_in)
        Input-output map :math:`S`.
    tau : float
        Time constant (units of time).
    """

    target: Any = parameter("S", "input-output map", axes=("n_out", "n_in"))
    tau: Any = parameter(r"\tau", "time constant", domain="(0, inf)", default=1.0)

    class State(NamedTuple):
        """Weights ``w1`` (width, n_in) and ``w2`` (n_out, width)."""

        w1: Any
        w2: Any

    axes: ClassVar[Mapping[str, tuple[str, ...]]] = {"w1": ("width", "n_in"), "w2": ("n_out", "width")}

    def loss(self, xp: Any, z: Any) -> Any:
        """Return ``|S - W2 W1|^2 / 2``."""
        return xp.sum((self.target - z.w2 @ z.w1) ** 2, axis=(-2, -1)) / 2

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return minus the gradient of the loss over `tau`."""
        gap, turned = (self.target - z.w2 @ z.w1) / self.tau[..., None, None], xp.matrix_transpose
        return self.State(turned(z.w2) @ gap, gap @ turned(z.w1))


def simulate(
    road: Callable[..., Trajectory], flow: WhitenedTwoLayer, t: Any, weights: Any, **options: Any
) -> Trajectory:
    """Follow the weights by `integrate` or `descend` and return the trajectory in the state of the closed form.

    Parameters
    ----------
    road : callable
        ``linsolve.integrate`` or ``linsolve.descend``.
    flow : WhitenedTwoLayer
        Whose network to simulate.
    t : array_like
        Times.
    weights : (w1, w2)
        Start.
    **options
        Passed to `road`.

    Returns
    -------
    Trajectory
        Of `flow`, comparable with ``flow(t, flow.of(w1, w2))``.

    Examples
    --------
    >>> import numpy as np, linsolve as ls
    >>> from linsolve.simulate import simulate
    >>> flow, w = ls.WhitenedTwoLayer(target=np.diag([3.0, 1.0])), 0.1 * np.eye(2)
    >>> simulate(ls.integrate, flow, [1.0], (w, w))["singular_values"].round(4).tolist()
    [[1.723, 0.0695]]
    """
    found = road(TwoLayerWeights(flow.target, flow.tau), t, TwoLayerWeights.State(*weights), **options)
    return Trajectory(flow, found.t, flow.of(*found.state), found.route)
