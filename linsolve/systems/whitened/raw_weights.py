"""Raw weights of a two-layer linear network on white inputs: along the exact trajectory, and simulated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import number, real_array
from linsolve.core.network import deep_weights
from linsolve.core.parameters import batch_shape, own_sizes
from linsolve.core.trajectory import Trajectory
from linsolve.systems.whitened.layer_root import LayerRoot
from linsolve.systems.whitened.matrix_riccati import moved
from linsolve.systems.whitened.start_frame import Frame, start_frame
from linsolve.systems.whitened.starts import checked

__all__ = ["simulate", "weights"]

EPS = 2.0**-52
LATEST = 16.0  # times rtol / EPS: largest time in units of the network that is integrated


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
        Finite times, not negative. Once the state has reached its limit to rounding, the weights are constant.
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
        If a time is negative or infinite, or so late that rounding errors exceed the tolerance before the limit.
    OverflowError
        If the state of the weights, or its square, is beyond the range of doubles.
    """
    who = type(flow).__name__
    w1, w2 = (arithmetic.to_numpy(w) for w in checked(who, w1, w2))
    flow, times = flow.cast(np), real_array(who, "t", t, meaning="time")
    rtol = number(f"{who}.weights", "rtol", rtol, meaning="relative tolerance", domain="[2.3e-14, 1]", example=1e-10)
    if times.min() < 0:
        raise ValueError(f"{who}.weights: t = {times.min()} must not be negative (time); give times from 0 on")
    sizes: dict[str, tuple[int, str]] = {}
    shapes = {
        name: own_sizes(f"{who}.weights", name, value.shape, axes, sizes)
        for name, value, axes in (
            ("tau", flow.tau, ()),
            ("target", flow.target, ("n_out", "n_in")),
            ("w1", w1, ("width", "n_in")),
            ("w2", w2, ("n_out", "width")),
        )
    }
    batch, z0 = batch_shape(f"{who}.weights", shapes), flow.of(w1, w2)
    try:
        flow(0.0, z0)  # raises NotExact where the closed form does not hold
    except OverflowError as error:
        largest = f"w1 = {np.abs(w1).max():.3g} and w2 = {np.abs(w2).max():.3g} (largest entries)"
        rule = "lead beyond the range of doubles (fourth powers, products with the flow's target)"
        raise OverflowError(f"{who}.weights: {largest} {rule}; rescale weights, target and tau") from error
    target = np.broadcast_to(flow.target, batch + flow.target.shape[-2:])
    tau = np.broadcast_to(flow.tau, batch)
    w1, w2 = (np.broadcast_to(w, batch + w.shape[-2:]) for w in (w1, w2))
    out = [np.empty(times.shape + w.shape) for w in (w1, w2)]
    for index in np.ndindex(batch):
        found = _driven(f"{who}.weights", target[index], times.ravel(), float(tau[index]), w1[index], w2[index], rtol)
        for whole, part in zip(out, found, strict=True):
            whole[(slice(None),) * times.ndim + index] = part.reshape(times.shape + part.shape[1:])
    return out[0], out[1]


def _driven(
    who: str, target: np.ndarray, times: np.ndarray, tau: float, w1: np.ndarray, w2: np.ndarray, rtol: float
) -> list[np.ndarray]:
    """Return the weights of one network at times of shape (k,), integrated in units of the largest entries."""
    from scipy.integrate import solve_ivp

    largest = max(float(np.abs(v).max()) for v in (target, w2 @ w1, w1.T @ w1, w2 @ w2.T)) or 1.0
    unit = 2.0 ** np.round(np.log2(largest) / 2)  # of the weights, a power of two
    target, w1, w2 = target / unit / unit, w1 / unit, w2 / unit
    start = w2 @ w1, w1.T @ w1, w2 @ w2.T
    known = LayerRoot.of(start, w1, w2)
    frame = start_frame(np, target, *start, known.root if known is not None else None)
    scaled = _until_the_limit(who, times, unit * unit / tau, frame, w1.shape[-1], rtol)
    cut = w1.size

    def rate(t: float, y: np.ndarray) -> np.ndarray:
        product = moved(np, np.asarray(t), frame, w1.shape[-1])[0] if t > 0 else w2 @ w1
        gap = target - product
        a, b = y[:cut].reshape(w1.shape), y[cut:].reshape(w2.shape)
        return np.concatenate([(b.T @ gap).ravel(), (gap @ a.T).ravel()])

    y0 = np.concatenate([w1.ravel(), w2.ravel()])
    stops, back = np.unique(scaled, return_inverse=True)
    if stops[-1] == 0:
        path = np.repeat(y0[None], len(times), axis=0)
    else:
        floor = 1e-3 * rtol * max(float(np.abs(y0).max()), np.finfo(float).tiny)
        path = solve_ivp(rate, (0.0, stops[-1]), y0, "DOP853", stops, rtol=rtol, atol=floor).y.T[back]
    path = unit * path
    return [path[:, :cut].reshape(-1, *w1.shape), path[:, cut:].reshape(-1, *w2.shape)]


def _until_the_limit(who: str, times: np.ndarray, pace: float, frame: Frame, n_in: int, rtol: float) -> np.ndarray:
    """Return ``pace * times``, capped at the time at which the state equals its limit up to rounding.

    Rounding errors of the closed form accumulate in the weights, and exceed the tolerance after about ``rtol/eps``.
    """
    latest, small = LATEST * rtol / EPS, max(1e-3 * rtol, 64 * EPS)
    grid = latest * 2.0 ** -np.arange(40.0)[::-1]
    states, ends = (moved(np, t, frame, n_in) for t in (grid, np.asarray(np.inf)))
    sizes = [np.abs(end).max() for end in ends]
    far = [
        np.abs(v - end).max(axis=(-2, -1)) > small * max(size, EPS * max(sizes))
        for v, end, size in zip(states, ends, sizes, strict=True)
    ]
    settled = np.append(grid, np.inf)[np.flatnonzero(np.any(far, axis=0)).max(initial=-1) + 1]
    with np.errstate(over="ignore"):  # times after the limit
        scaled = times * pace
    if min(scaled.max(), settled) > latest:
        raise ValueError(
            f"{who}: t = {times.max():g} must be at most {latest / pace:.3g} (rounding errors exceed rtol before the "
            "limit); for product and Gram matrices call the flow"
        )
    return np.minimum(scaled, settled)
