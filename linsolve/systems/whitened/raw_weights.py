"""Raw weights of a two-layer linear network on white inputs: along the exact trajectory, and simulated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import number, real_array
from linsolve.core.network import deep_weights
from linsolve.core.trajectory import Trajectory
from linsolve.systems.whitened.matrix_riccati import moved
from linsolve.systems.whitened.start_frame import start_frame
from linsolve.systems.whitened.starts import checked

__all__ = ["simulate", "weights"]


def simulate(route: Callable[..., Trajectory], flow: Any, t: Any, weights: Any, **options: Any) -> Trajectory:
    """Simulate the weights by `integrate` or `descend`; return the trajectory in the state of the closed form.

    Integrating Gram matrices instead of weights is unreliable in a bottleneck: they do not contain the number of hidden
    units, and rounding errors excite modes that the bottleneck forbids. Weights do not have this problem.

    Parameters
    ----------
    route : callable
        ``linsolve.integrate`` or ``linsolve.descend``.
    flow : WhitenedTwoLayer
        Target and time constant of the network.
    t : array_like
        Times.
    weights : (w1, w2)
        Initial weights.
    **options
        Passed to `route`.

    Returns
    -------
    Trajectory
        In the state of `flow`, comparable with ``flow(t, flow.of(w1, w2))``.

    Examples
    --------
    >>> import numpy as np, linsolve as ls
    >>> from linsolve.systems.whitened.raw_weights import simulate
    >>> flow, w = ls.WhitenedTwoLayer(target=np.diag([3.0, 1.0])), 0.1 * np.eye(2)
    >>> simulate(ls.integrate, flow, [1.0], (w, w))["singular_values"].round(4).tolist()
    [[1.723, 0.0695]]
    """
    found = route(deep_weights(flow.target, 2, rates=1 / float(flow.tau)), t, tuple(weights), **options)
    return Trajectory(flow, found.t, flow.of(*found.state), found.route)


def weights(flow: Any, t: Any, w1: Any, w2: Any, *, rtol: float = 1e-10) -> tuple[np.ndarray, np.ndarray]:
    r"""Return raw weights along the exact trajectory, by numerical integration of a linear ODE (not a closed form).

    .. math:: \tau \dot W_1 = W_2^\top (S - Y(t)), \qquad \tau \dot W_2 = (S - Y(t)) W_1^\top,

    linear in the weights because :math:`Y(t)` is given by the closed form. For lambda-balanced weights this is
    :math:`\tau \dot Q = (\tilde F - P(t)/2) Q` with ``Q = (W1^T; W2)``. The weights include a rotation of the hidden
    units, which is not elementary.

    Parameters
    ----------
    flow : WhitenedTwoLayer
    t : array_like, any shape
        Finite times, not negative.
    w1 : array, shape batch + (width, n_in)
    w2 : array, shape batch + (n_out, width)
    rtol : float
        Relative tolerance of ``scipy.integrate.solve_ivp`` (DOP853).

    Returns
    -------
    w1 : array, shape t.shape + batch + (width, n_in)
    w2 : array, shape t.shape + batch + (n_out, width)

    Raises
    ------
    NotExact
        If the closed form does not hold for these initial weights.
    ValueError
        If a time is negative or infinite.
    """
    who = type(flow).__name__
    w1, w2 = (arithmetic.to_numpy(w) for w in checked(who, w1, w2))
    flow, times = flow.cast(np), real_array(who, "t", t, meaning="time")
    rtol = number(f"{who}.weights", "rtol", rtol, meaning="relative tolerance", domain="[2.3e-14, 1]", example=1e-10)
    if times.min() < 0:
        raise ValueError(f"{who}.weights: t = {times.min()} must not be negative (time); give times from 0 on")
    z0 = flow.of(w1, w2)
    flow(0.0, z0)  # raises NotExact where the closed form does not hold
    batch = np.broadcast_shapes(flow.tau.shape, flow.target.shape[:-2], w1.shape[:-2], w2.shape[:-2])
    target = np.broadcast_to(flow.target, batch + flow.target.shape[-2:])
    tau = np.broadcast_to(flow.tau, batch)
    w1, w2 = (np.broadcast_to(w, batch + w.shape[-2:]) for w in (w1, w2))
    out = [np.empty(times.shape + w.shape) for w in (w1, w2)]
    for index in np.ndindex(batch):
        found = _driven(target[index], times.ravel() / tau[index], w1[index], w2[index], rtol)
        for whole, part in zip(out, found, strict=True):
            whole[(slice(None),) * times.ndim + index] = part.reshape(times.shape + part.shape[1:])
    return out[0], out[1]


def _driven(target: np.ndarray, times: np.ndarray, w1: np.ndarray, w2: np.ndarray, rtol: float) -> list[np.ndarray]:
    from scipy.integrate import solve_ivp

    frame = start_frame(np, target, w2 @ w1, w1.T @ w1, w2 @ w2.T)
    cut = w1.size

    def rate(t: float, y: np.ndarray) -> np.ndarray:
        product = moved(np, np.asarray(t), frame, w1.shape[-1])[0] if t > 0 else w2 @ w1
        gap = target - product
        a, b = y[:cut].reshape(w1.shape), y[cut:].reshape(w2.shape)
        return np.concatenate([(b.T @ gap).ravel(), (gap @ a.T).ravel()])

    y0 = np.concatenate([w1.ravel(), w2.ravel()])
    stops, back = np.unique(times, return_inverse=True)
    if stops[-1] == 0:
        path = np.repeat(y0[None], len(times), axis=0)
    else:
        floor = 1e-3 * rtol * max(float(np.abs(y0).max()), np.finfo(float).tiny)
        path = solve_ivp(rate, (0.0, stops[-1]), y0, "DOP853", stops, rtol=rtol, atol=floor).y.T[back]
    return [path[:, :cut].reshape(-1, *w1.shape), path[:, cut:].reshape(-1, *w2.shape)]
