"""Imbalance of a two-layer linear network: its two eigenvalues, and the distance from having at most two."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.arithmetic import precision

__all__ = ["Imbalance", "imbalance", "is_lost", "largest", "least_normal", "refuse_lost_spread", "trace"]


class Imbalance(NamedTuple):
    """Initial imbalance ``W2^T W2 - W1 W1^T``, with eigenvalues ``lam1 >= 0 >= lam2`` in the solvable class.

    Parameters
    ----------
    total : array, shape batch
        ``lam1 + lam2``.
    spread : array, shape batch
        ``-lam1 lam2 >= 0``; zero for balanced and lambda-balanced weights.
    distance : array, shape batch
        Relative distance of the initial state from the class.
    """

    total: Any
    spread: Any
    distance: Any


def _inner(xp: Any, a: Any, b: Any) -> Any:
    """Return ``tr(a^T b)``."""
    return xp.vecdot(*(xp.reshape(m, (*m.shape[:-2], m.shape[-2] * m.shape[-1])) for m in (a, b)))


def trace(xp: Any, a: Any) -> Any:
    """Return the sum of the diagonal."""
    return xp.sum(_diagonal(xp, a), axis=-1)


def _diagonal(xp: Any, a: Any) -> Any:
    return xp.sum(a * xp.eye(a.shape[-1]), axis=-1) if arithmetic.is_object(xp) else xp.linalg.diagonal(a)


def _inverse(xp: Any, x: Any) -> Any:
    return xp.where(x > 0, 1 / xp.where(x > 0, x, xp.ones_like(x)), xp.zeros_like(x))


def _unit(xp: Any, size: Any) -> tuple[Any, Any]:
    """Return ``1/sqrt(size)``, 0 for 0, as two factors; in floats the first is a power of two, hence exact."""
    some = size > 0
    size = xp.where(some, size, xp.ones_like(size))
    unit = 1 / xp.sqrt(size)
    coarse = unit if arithmetic.is_object(xp) else xp.pow(xp.full_like(unit, 2.0), xp.round(-xp.log2(size) / 2))
    return xp.where(some, coarse, xp.zeros_like(unit)), unit / coarse


def largest(xp: Any, gram: Any) -> Any:
    """Return the largest diagonal entry of a Gram matrix, 0 where it is negative by rounding."""
    found = xp.max(_diagonal(xp, gram), axis=-1)
    return xp.maximum(found, xp.zeros_like(found))


class _Scaled(NamedTuple):
    """``P`` and ``P J P`` in units in which no block is small; `j` holds the sizes of the blocks of J.

    The blocks are the upper left, the lower left and the lower right; `weights` are their factors in norms.
    """

    p: tuple[Any, Any, Any]
    pjp: tuple[Any, Any, Any]
    j: tuple[Any, Any]
    weights: tuple[Any, Any, Any]

    def inner(self, xp: Any, a: tuple[Any, Any, Any], b: tuple[Any, Any, Any]) -> Any:
        """Return ``tr(A^T B)`` of symmetric matrices, each given by three of its four blocks."""
        first, lower, last = (w * _inner(xp, r, s) for w, r, s in zip(self.weights, a, b, strict=True))
        return first + 2 * lower + last

    def against_j(self, xp: Any, a: tuple[Any, Any, Any]) -> Any:
        """Return ``tr(A J)``."""
        return self.weights[2] * self.j[1] * trace(xp, a[2]) - self.weights[0] * self.j[0] * trace(xp, a[0])

    def misfit(self, xp: Any, total: Any, spread: Any) -> Any:
        """Return the norm of ``P J P - total P - spread J``."""
        first, lower, last = self.pjp
        if arithmetic.holds(total != 0):
            first, lower, last = (r - total[..., None, None] * p for r, p in zip(self.pjp, self.p, strict=True))
        if arithmetic.holds(spread != 0):
            first = first + (spread * self.j[0])[..., None, None] * xp.eye(first.shape[-1])
            last = last - (spread * self.j[1])[..., None, None] * xp.eye(last.shape[-1])
        rest = first, lower, last
        return xp.sqrt(self.inner(xp, rest, rest))


def _scaled(xp: Any, x: Any, y: Any, z: Any, sizes: tuple[Any, Any]) -> tuple[_Scaled, Any, Any]:
    """Return a state in units of the largest entries of its Gram matrices, and the units of `total` and `spread`."""
    (a, fine_a), (b, fine_b) = (_unit(xp, size) for size in sizes)
    ahead, behind = a[..., None, None], b[..., None, None]  # one after the other: their squares may overflow
    x, y, z = x * ahead * ahead, y * ahead * behind, z * behind * behind
    u, v = _inverse(xp, a) ** 2, _inverse(xp, b) ** 2
    top = xp.maximum(u, v)  # in floats a power of two
    u, v = (s / xp.where(top > 0, top, xp.ones_like(top)) for s in (u, v))
    u, v = u[..., None, None], v[..., None, None]
    xt, yt, zt = (xp.matrix_transpose(a) for a in (x, y, z))
    # NumPy makes a^T a at half the cost; Gram matrices are symmetric
    pjp = (yt @ y) * v - (xt @ x) * u, (z @ y) * v - (y @ x) * u, (zt @ z) * v - (y @ yt) * u
    unit = xp.maximum(a, b)
    share = tuple((s / xp.where(unit > 0, unit, xp.ones_like(unit))) ** 2 for s in (a, b))
    weights = fine_a**4, (fine_a * fine_b) ** 2, fine_b**4
    return _Scaled((x, y, z), pjp, (share[0], share[1]), weights), top, top * _inverse(xp, unit) ** 2


def imbalance(xp: Any, product: Any, gram_in: Any, gram_out: Any) -> Imbalance:
    r"""Return the `Imbalance` of an initial state, by least squares from ``P0 J P0 = total P0 + spread J``.

    Input and output blocks may differ by many orders of magnitude (``lam = 1`` at scale 1e-8); each is measured in its
    own unit. Where `spread` is not larger than the rounding error of the state, ``P0`` is numerically singular and
    `spread` is set to zero: a null vector of ``P0`` allows no other value.
    """
    # a block without a positive diagonal entry is zero up to rounding
    xt, zt = largest(xp, gram_in), largest(xp, gram_out)
    scaled, of_total, of_spread = _scaled(xp, gram_in, product, gram_out, (xt, zt))
    pp, rp = scaled.inner(xp, scaled.p, scaled.p), scaled.inner(xp, scaled.pjp, scaled.p)
    jj = gram_in.shape[-1] * scaled.weights[0] * scaled.j[0] ** 2
    jj = jj + gram_out.shape[-1] * scaled.weights[2] * scaled.j[1] ** 2
    pj, rj = scaled.against_j(xp, scaled.p), scaled.against_j(xp, scaled.pjp)
    unit = xp.where(of_total > 0, of_total, xp.ones_like(of_total))
    size = xp.where(pp > 0, (xt / unit + zt / unit) * xp.sqrt(pp), xp.ones_like(pp))
    grain = 16 * (gram_in.shape[-1] + gram_out.shape[-1])
    none = xp.zeros_like(pp)

    def above_rounding(amount: Any, total: Any, spread: Any) -> Any:
        """Return whether an amount exceeds the rounding error of the state and its distance from the class."""
        more = amount > grain * size * precision(xp)
        if arithmetic.holds(more):
            more = more & (amount > grain * scaled.misfit(xp, total, spread))
        return more

    gap = pp * jj - pj * pj
    regular = (xt > 0) & (zt > 0) & (gap > 0)
    safe = xp.where(regular, gap, xp.ones_like(gap))
    pair = (rp * jj - rj * pj) / safe, (rj * pp - rp * pj) / safe
    kept = regular & above_rounding(xp.where(regular, pair[1] * xp.sqrt(jj), none), *pair)
    single = rp * _inverse(xp, pp)
    above = above_rounding(xp.abs(single) * xp.sqrt(pp), single, none)
    single = xp.where(above, single, single - arithmetic.constant(xp, single))  # zero, which changes with the state
    total, spread = xp.where(kept, pair[0], single), xp.where(kept, pair[1], none)
    spread_of = spread * of_spread
    if not arithmetic.is_object(xp):  # one that underflows stays positive, as the mark of `is_lost`
        spread_of = xp.maximum(spread_of, arithmetic.constant(xp, xp.where(kept, none + least_normal(xp, none), none)))
    return Imbalance(total * of_total, spread_of, scaled.misfit(xp, total, spread) / size)


def least_normal(xp: Any, like: Any) -> float:
    """Return the least number of the type of an array that has all its digits."""
    return float(xp.finfo(like.dtype).smallest_normal)


def is_lost(xp: Any, spread: Any) -> Any:
    """Return whether a spread in floats, of the order of the fourth power of the weights, has underflowed."""
    return (spread > 0) & (spread <= least_normal(xp, spread))


def refuse_lost_spread(xp: Any, spread: Any, gram_in: Any, gram_out: Any) -> None:
    """Raise an error for starts whose spread has underflowed, known by their Gram matrices."""
    if arithmetic.is_object(xp) or not arithmetic.readable(spread):
        return
    lost = arithmetic.to_numpy(is_lost(xp, spread))
    if lost.any():
        index = tuple(int(i) for i in np.argwhere(lost)[0])
        grams = (arithmetic.to_numpy(largest(xp, gram)) for gram in (gram_in, gram_out))
        size_in, size_out = (float(np.broadcast_to(size, lost.shape)[index]) for size in grams)
        where = f"largest entries, at index {index}" if index else "largest entries"
        raise OverflowError(
            f"initial state: gram_in = {size_in:.3g}, gram_out = {size_out:.3g} ({where}) make the product of two "
            f"eigenvalues of the imbalance underflow, which must be above {least_normal(xp, spread):.3g} (of Gram "
            "matrices); rescale weights, target and tau, or give arrays of linsolve.arithmetic.precise(50)"
        )
