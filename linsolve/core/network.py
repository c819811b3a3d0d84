"""Raw linear networks followed weight by weight: what the small-initialization laws are compared with.

Nothing here knows a closed form. A network is a list of layers, ``f(x) = W_L ... W_1 x``, under gradient flow of
``|y - f(x)|^2 / 2`` averaged over inputs of a given covariance, each layer with its own learning rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from linsolve.core.layers import gradient_flow, joined, maps, parted

__all__ = ["follow", "layers_of", "march", "time_to_reach", "trained", "velocity"]

Layers = list[np.ndarray]


def layers_of(start: Any, scale: Any, n_in: int, n_out: int = 1) -> Layers:
    """Return `scale` times the layers held in `start`, shape (layer, width, width).

    Of the first layer the first `n_in` columns are used, of the last the first `n_out` rows.
    """
    layers = [np.asarray(layer) * float(scale) for layer in start]
    layers[0], layers[-1] = layers[0][:, :n_in], layers[-1][:n_out, :]
    return layers


def velocity(
    layers: Sequence[np.ndarray], target: np.ndarray, covariance: np.ndarray | None, rates: Sequence[float]
) -> Layers:
    """Return ``dW_l/dt = rates_l (W_L ... W_{l+1})^T (S - W_L ... W_1) Sigma (W_{l-1} ... W_1)^T``."""
    made = maps(layers)
    pull = target - made[-1]
    return gradient_flow(np, layers, made, pull if covariance is None else pull @ covariance, rates)


class _Problem:
    """One network's gradient flow as SciPy wants it: a vector, its rate, and the way back to layers."""

    def __init__(self, layers: Sequence[np.ndarray], target: Any, covariance: Any, rates: Any) -> None:
        self.shapes = [layer.shape for layer in layers]
        self.start = joined(layers)
        self.target = np.atleast_2d(np.asarray(target, dtype=float))
        self.covariance = None if covariance is None else np.asarray(covariance, dtype=float)
        self.rates = [1.0] * len(layers) if rates is None else [float(rate) for rate in rates]

    def layers(self, y: np.ndarray) -> Layers:
        """Return the layers in a vector, or at each time in a row of a matrix."""
        return parted(y, self.shapes)

    def rate(self, _: float, y: np.ndarray) -> np.ndarray:
        return joined(velocity(self.layers(y), self.target, self.covariance, self.rates))

    def integrate(self, end: float, rtol: float, **options: Any) -> Any:
        from scipy.integrate import solve_ivp

        floor = 1e-3 * rtol * np.abs(self.start).max()
        found = solve_ivp(self.rate, (0.0, end), self.start, "DOP853", rtol=rtol, atol=floor, **options)
        if found.status < 0:
            raise ArithmeticError(f"follow: t = {end:g} is not reached by the integrator: {found.message}; end earlier")
        return found


def follow(
    layers: Sequence[np.ndarray],
    target: Any,
    t: Any,
    *,
    covariance: Any = None,
    rates: Any = None,
    rtol: float = 1e-13,
) -> Layers:
    """Return each layer at times `t`, shape (T, rows, columns), by an eighth-order integrator.

    Parameters
    ----------
    layers : sequence of ndarray
        Weights at time 0, first layer first.
    target : array_like, shape (n_out, n_in) or (n_in,)
        Map to be learned, ``Sigma_yx Sigma_xx^-1``.
    t : array_like, shape (T,)
        Increasing times, not negative.
    covariance : array_like, shape (n_in, n_in), optional
        Of the inputs; white by default.
    rates : sequence of float, optional
        Learning rate of each layer; 1 by default.
    rtol : float
        Relative tolerance of the integrator.
    """
    problem, t = _Problem(layers, target, covariance, rates), np.asarray(t, dtype=float)
    return problem.layers(problem.integrate(float(t[-1]), rtol, t_eval=t).y.T)


def trained(
    layers: Sequence[np.ndarray], target: Any, *, covariance: Any = None, rates: Any = None, rtol: float = 1e-12
) -> Layers:
    """Return the layers once what is left to learn is 1e-11 of the target."""
    problem = _Problem(layers, target, covariance, rates)
    span = problem.target if problem.covariance is None else problem.target @ problem.covariance
    small = 1e-11 * np.linalg.norm(span)

    def left(_: float, y: np.ndarray) -> float:
        gap = problem.target - maps(problem.layers(y))[-1]
        return float(np.linalg.norm(gap if problem.covariance is None else gap @ problem.covariance) - small)

    left.terminal = True  # type: ignore[attr-defined]
    found = problem.integrate(1e15, rtol, events=left)
    return problem.layers(found.y[:, -1])


def time_to_reach(layers: Sequence[np.ndarray], target: Any, *, loss: bool = False, rates: Any = None) -> float:
    """Return when the network's map first has half of the target's length along it, or half of its first loss."""
    problem = _Problem(layers, target, None, rates)
    power = float(np.sum(problem.target**2))

    def gap(y: np.ndarray) -> float:
        made = maps(problem.layers(y))[-1]
        if loss:
            return 0.5 - float(np.sum((problem.target - made) ** 2)) / first
        return float(np.sum(made * problem.target)) / power - 0.5

    first = float(np.sum((problem.target - maps(layers)[-1]) ** 2))

    def reached(_: float, y: np.ndarray) -> float:
        return gap(y)

    reached.terminal = True  # type: ignore[attr-defined]
    time = float(problem.integrate(1e15, 1e-13, events=reached).t_events[0][0])
    # the event is found on the interpolant; two Newton steps on the integrated path remove what that costs
    for _ in range(2):
        y = problem.integrate(time, 1e-13, t_eval=[time]).y[:, -1]
        step = 1e-6 * time
        slope = (gap(y + step * problem.rate(0.0, y)) - gap(y - step * problem.rate(0.0, y))) / (2 * step)
        time -= gap(y) / slope
    if not math.isfinite(time):
        raise ArithmeticError(f"time_to_reach: t = {time} must be finite (the network never gets there)")
    return time


def march(layers: Sequence[np.ndarray], target: Any, end: float, steps: int) -> Layers:
    """Return the layers at time `end` of a whole batch of networks, by the classical Runge-Kutta method of order 4."""
    h, target, rates = end / steps, np.asarray(target, dtype=float), [1.0] * len(layers)

    def rate(at: Layers) -> Layers:
        return velocity(at, target, None, rates)

    def moved(at: Layers, by: Layers, share: float) -> Layers:
        return [layer + share * h * move for layer, move in zip(at, by, strict=True)]

    now = list(layers)
    for _ in range(steps):
        k1 = rate(now)
        k2 = rate(moved(now, k1, 1 / 2))
        k3 = rate(moved(now, k2, 1 / 2))
        k4 = rate(moved(now, k3, 1))
        now = moved(now, [a + 2 * b + 2 * c + d for a, b, c, d in zip(k1, k2, k3, k4, strict=True)], 1 / 6)
    return now
