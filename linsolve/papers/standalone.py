"""Closed forms as short functions that need only NumPy, each equal to its flow to 1e-12."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["STANDALONE", "to_code"]


def balanced_mode(t, a, s, tau):  # type: ignore[no-untyped-def]
    """Return a(t) for tau a' = 2 |a| (s - a): one balanced mode, any signs, t >= 0, a not 0."""
    sign = np.sign(a)
    size, value = sign * a, sign * s
    x = 2 * value * t / tau
    decay = np.exp(-np.abs(x))
    nonzero = np.where(x == 0, 1, np.abs(x))
    area = 2 * t / tau * np.where(x == 0, 1, -np.expm1(-nonzero) / nonzero)  # integral of the decay
    up, down = np.where(x < 0, decay, 1), np.where(x < 0, 1, decay)
    return sign * size * up / (down + size * area)


def hidden_mode(t, w, h, s, eta_w, eta_h):  # type: ignore[no-untyped-def]
    """Return w(t), h(t) for L = (w.h - s)^2/2: vectors on the last axis, t >= 0, not both s = 0 and |g+||g-| = 0."""
    root_w, root_h = np.sqrt(eta_w)[..., None], np.sqrt(eta_h)[..., None]
    plus, minus = root_h * w + root_w * h, root_h * w - root_w * h
    G, M = np.sum(plus**2, axis=-1), np.sum(minus**2, axis=-1)
    a = 2 * np.sqrt(eta_w * eta_h) * s
    omega = np.hypot(a, np.sqrt(G * M))
    e = np.exp(-omega * t)
    theta = -np.expm1(-omega * t) / (1 + e)  # tanh(omega t/2)
    large = omega + np.abs(a) * theta
    small = G * M / (omega + np.abs(a)) + np.abs(a) * 2 * e / (1 + e)  # omega - |a| theta without cancellation
    up, down = np.where(a < 0, small, large), np.where(a < 0, large, small)
    growth = np.sqrt((up + M * theta) / (down + G * theta))[..., None]
    plus, minus = plus * growth, minus / growth
    return (plus + minus) / (2 * root_h), (plus - minus) / (2 * root_w)


def two_layer_order(t, P, Q, R, y, gamma, eta_u, eta_w, rho):  # type: ignore[no-untyped-def]
    """Return P(t), Q(t), R for L = (gamma u.W x - y)^2 on one line of data, t >= 0, 1/t_c not 0."""
    gy = np.sqrt(eta_u * eta_w) * gamma * rho * y
    p, q = (gamma * rho) ** 2 * P, (gamma * rho) ** 2 * Q
    c = np.hypot(gy, 2 * np.sqrt(p * q))  # 1/t_c
    large, small = c + np.abs(gy), 4 * p * q / (c + np.abs(gy))
    plus, minus = np.where(gy < 0, small, large), np.where(gy < 0, large, small)  # c + g y, c - g y
    e, area = np.exp(-4 * c * t), -np.expm1(-4 * c * t) / (2 * c)
    A = (e + (plus + 2 * q) * area) / (e + (minus + 2 * p) * area)
    return P * A, Q / A, R


def two_layer(t, u, w, y, gamma, eta_u, eta_w, x):  # type: ignore[no-untyped-def]
    """Return u(t), W(t) for L = (gamma u.W x - y)^2: rates > 0, x not 0, t >= 0, 1/t_c not 0."""
    rho = np.sqrt(np.sum(x**2, axis=-1))
    v = np.sum(w * x[..., None, :], axis=-1) / rho[..., None]
    root_u, root_w = np.sqrt(eta_u)[..., None], np.sqrt(eta_w)[..., None]
    p, q = (root_u * v + root_w * u) / 2, (root_u * v - root_w * u) / 2
    kP, kQ = ((gamma * rho) ** 2 * np.sum(z**2, axis=-1) for z in (p, q))
    gy = np.sqrt(eta_u * eta_w) * gamma * rho * y
    c = np.hypot(gy, 2 * np.sqrt(kP * kQ))  # 1/t_c
    large, small = c + np.abs(gy), 4 * kP * kQ / (c + np.abs(gy))
    plus, minus = np.where(gy < 0, small, large), np.where(gy < 0, large, small)  # c + g y, c - g y
    e, area = np.exp(-4 * c * t), -np.expm1(-4 * c * t) / (2 * c)
    growth = np.sqrt((e + (plus + 2 * kQ) * area) / (e + (minus + 2 * kP) * area))[..., None]
    p, q = p * growth, q / growth
    change = (p + q) / root_u - v
    return (p - q) / root_w, w + change[..., None] * (x / rho[..., None])[..., None, :]


def frozen_kernel(t, f, kernel, y, eta):  # type: ignore[no-untyped-def]
    """Return f(t) for f' = -eta K (f - y): one symmetric K >= 0, one start, t a number >= 0."""
    values, vectors = np.linalg.eigh(kernel)
    values = np.where(values > len(values) * np.finfo(float).eps * values[-1], values, 0)  # the rest is rounding
    return f + vectors @ (np.expm1(-eta * values * t) * (vectors.T @ (f - y)))


def block_kernel(t, r, diagonal, within, between, sizes, eta):  # type: ignore[no-untyped-def]
    """Return r(t) for r' = -eta K r, K of blocks: classes of one size, samples in order of class on the last axis."""
    classes, size = len(sizes), int(sizes[0])
    groups = np.reshape(r, (*np.shape(r)[:-1], classes, size))
    means = np.mean(groups, axis=-1, keepdims=True)
    mean = np.mean(means, axis=-2, keepdims=True)
    sample = diagonal - within
    of_class = sample + size * (within - between)
    whole = of_class + classes * size * between
    parts = (whole, mean), (of_class, means - mean), (sample, groups - means)
    return np.reshape(sum(np.exp(-eta * rate * t) * part for rate, part in parts), np.shape(r))


STANDALONE: dict[str, Callable[..., Any]] = {
    "BalancedMode": balanced_mode,
    "BlockKernel": block_kernel,
    "FrozenKernel": frozen_kernel,
    "HiddenMode": hidden_mode,
    "TwoLayer": two_layer,
    "TwoLayerOrder": two_layer_order,
}


def to_code(item: Any) -> str:
    """Return a flow's closed form as a short function that needs only NumPy, for the supplement of a paper.

    Parameters
    ----------
    item : Flow, class or str
        A flow, its class or its name: one of `STANDALONE`.

    Returns
    -------
    str
        Source of a function of time, state fields and parameters, all arrays, that returns the state fields.

    Raises
    ------
    ValueError
        If the flow has no such function, or there is no flow of that name.
    TypeError
        If the argument is neither a flow nor a law.

    Notes
    -----
    Exact for: the equation in the function's docstring, without overflow at late times. Not for: negative times,
    saddles, and starts so close to a saddle that the flow itself uses double-double arithmetic.

    Accuracy: norm-wise 1e-12 relative to the flow over generic draws (``tests/papers/test_cards.py`` runs the source).

    Examples
    --------
    >>> import linsolve as ls
    >>> print(ls.to_code("BalancedMode").splitlines()[3])
    def balanced_mode(t, a, s, tau):
    """
    from linsolve.papers.references import solved

    name = solved("to_code", item).__name__
    if name not in STANDALONE:
        have = ", ".join(STANDALONE)
        raise ValueError(f"to_code: {name} has no short closed form in NumPy alone; these have: {have}")
    source = inspect.getsource(STANDALONE[name]).replace("  # type: ignore[no-untyped-def]", "")
    return f"import numpy as np\n\n\n{source}"
