"""The matrix Riccati equation of two-layer linear networks: one name, three algorithms."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.stable.frame import Frame, frame
from linsolve.stable.graded import graded
from linsolve.stable.steps import relaxed, steps

__all__ = ["matrix_riccati", "moved"]

# from this size on BLAS would share one small product among threads, which costs an order of magnitude
THREADED = 32


def matrix_riccati(
    xp: Any, t: Any, target: Any, product: Any, gram_in: Any, gram_out: Any, *, method: str | None = None
) -> tuple[Any, Any, Any]:
    r"""Return product and Gram matrices of a two-layer linear network on white inputs at times `t`.

    With ``P = [[X, Y^T], [Y, Z]]``, ``J = diag(-1, 1)``, a start with ``P0 J P0 = total P0 + spread J`` follows

    .. math:: \dot P = \tilde F P + P \tilde F - P^2 + \hat\delta, \qquad
        \tilde F = \begin{pmatrix} -\lambda/2 & S^\top \\ S & \lambda/2 \end{pmatrix},

    (``total`` is :math:`\lambda`, ``spread`` is :math:`\hat\delta`), whose solution needs neither the inverse of
    :math:`\tilde F` nor any rank: in its eigenbasis, with eigenvalues f,

    .. math:: V^\top P V = \hat\delta\, n/c + c^{-1} q (1 + q^\top (n/c) q)^{-1} q^\top c^{-1}, \quad
        c = \cosh ht - (f/h) \sinh ht, \; n = \sinh(ht)/h, \; h^2 = f^2 + \hat\delta.

    Parameters
    ----------
    xp : namespace
    t : array, shape lead + (1,) * len(batch), or broadcastable to lead + batch
        Times, not negative, inf allowed, in units of the time constant.
    target : array, shape batch + (n_out, n_in)
    product, gram_in, gram_out : array
        Start, shape batch + own.
    method : {"plain", "graded", "steps"}, optional
        "plain" evaluates the formula with as many guard digits as it loses (high precision only, where it is the
        default); "steps" composes flow maps by Cholesky factors, all networks at once, in standard array functions
        (the default in floats: as accurate as the next, and faster already for one network); "graded" eliminates
        rotation by rotation on logarithms, one time and network after another (NumPy), an independent check.

    Returns
    -------
    product, gram_in, gram_out : array, shape lead + batch + own
        At ``t = 0`` bitwise the start.

    Notes
    -----
    The start is replaced by the nearest one that is in the class exactly (a change of the order of its rounding, for
    starts that `Flow.conditions` accepts of the order of their distance), and what is zero to rounding in it is made
    zero: a saddle that the exact flow never leaves is not left in floats either. Accuracy: see
    ``tests/test_matrix_riccati.py``.
    """
    target, t = xp.asarray(target), xp.asarray(t)
    with _one_thread(xp, target.shape[-1] + target.shape[-2]):
        seen = frame(xp, target, product, gram_in, gram_out)
        t = xp.broadcast_to(t, np.broadcast_shapes(tuple(t.shape), tuple(seen.rate.shape[:-1])))
        y, x, z = moved(xp, t, seen, gram_in.shape[-1], method=method)
    still = (t == 0)[..., None, None]
    return xp.where(still, product, y), xp.where(still, gram_in, x), xp.where(still, gram_out, z)


def moved(xp: Any, t: Any, seen: Frame, n_in: int, *, method: str | None = None) -> tuple[Any, Any, Any]:
    """Return product and Gram matrices at times `t`, shape lead + batch, of a start that was prepared by `frame`."""
    full = tuple(t.shape)
    numbers = arithmetic.to_numpy(t)
    chosen = method or ("plain" if arithmetic.is_object(xp) else "steps")
    forever = t == xp.inf
    usual = xp.where(forever, xp.zeros_like(t), t)
    if (np.isfinite(numbers) & (numbers != 0)).any():
        whole = {"plain": _plain, "graded": graded, "steps": steps}[chosen](xp, usual, seen)
    else:
        whole = xp.zeros((*full, seen.rate.shape[-1], seen.rate.shape[-1]), dtype=xp.float64)
    if np.isinf(numbers).any():
        whole = xp.where(forever[..., None, None], relaxed(xp, seen), whole)
    x, y, z = whole[..., :n_in, :n_in], whole[..., n_in:, :n_in], whole[..., n_in:, n_in:]
    return y, (x + xp.matrix_transpose(x)) / 2, (z + xp.matrix_transpose(z)) / 2


@cache
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _one_thread(xp: Any, n: int) -> Any:
    return _libraries().limit(limits=1, user_api="blas") if xp is np and n >= THREADED else nullcontext()


def _plain(xp: Any, t: Any, seen: Frame) -> Any:
    """Return ``P`` by the formula as it stands, each time with the digits added that its condition takes away."""
    batch = tuple(seen.rate.shape[:-1])
    flat = xp.reshape(t, (-1, *batch))
    found = xp.stack([_formula(xp, flat[i], seen) for i in range(flat.shape[0])])
    return xp.reshape(found, tuple(t.shape) + tuple(found.shape[-2:]))


def _formula(xp: Any, t: Any, seen: Frame) -> Any:
    growth = arithmetic.to_numpy(xp.max(t[..., None] * (xp.abs(seen.rate) + xp.sqrt(seen.spread)[..., None])))
    size = arithmetic.to_numpy(xp.max(xp.abs(seen.q)))
    lost = 0.87 * float(growth) + 2 * abs(np.log10(max(float(size), 1e-300)))
    more = arithmetic.precise(xp.dps + 10 + int(lost))
    t, rate, q, spread = (more.asarray(a) for a in (t, seen.rate, seen.q, seen.spread))
    t, spread = t[..., None], spread[..., None]
    h = more.sqrt(rate * rate + spread)
    up = more.exp(h * t)
    ratio = rate / more.where(h == 0, more.ones_like(h), h)
    c = (up * (1 - ratio) + (1 + ratio) / up) / 2
    n = more.where(h == 0, t + 0 * h, more.sinh(h * t) / more.where(h == 0, more.ones_like(h), h))
    weight = (n / c)[..., None]
    qt = more.matrix_transpose(q)
    inner = more.eye(q.shape[-1]) + qt @ (weight * q)
    scaled = q / c[..., None]
    body = scaled @ more.linalg.solve(inner, more.matrix_transpose(scaled))
    identity = more.eye(rate.shape[-1])
    basis = more.asarray(seen.basis)
    return xp.asarray(basis @ (body + spread[..., None] * weight * identity) @ more.matrix_transpose(basis))
