"""The class of a two-layer linear network's start: which imbalances have a closed form, and how far a start is off."""

from __future__ import annotations

from typing import Any, NamedTuple

from linsolve import arithmetic

__all__ = ["Imbalance", "imbalance", "largest", "precision"]


class Imbalance(NamedTuple):
    """The imbalance ``W2^T W2 - W1 W1^T`` of a start has the eigenvalues ``lam1 >= 0 >= lam2``: its class.

    Parameters
    ----------
    total : array, shape batch
        ``lam1 + lam2``.
    spread : array, shape batch
        ``-lam1 lam2 >= 0``; zero for balanced and lambda-balanced starts.
    distance : array, shape batch
        Relative distance of the start from the class.
    """

    total: Any
    spread: Any
    distance: Any


def precision(xp: Any) -> Any:
    """Return the spacing of numbers around one."""
    if arithmetic.is_object(xp):
        if not hasattr(xp, "dps"):
            raise NotImplementedError(f"matrix Riccati: xp = {xp} has no eigenvectors; use precise(dps) or floats")
        return xp.asarray(10) ** (1 - xp.dps)
    return float(xp.finfo(xp.float64).eps)


def _norm2(xp: Any, *blocks: Any) -> Any:
    return sum(xp.sum(b * b, axis=(-2, -1)) for b in blocks)


def _inverse(xp: Any, x: Any) -> Any:
    return xp.where(x > 0, 1 / xp.where(x > 0, x, xp.ones_like(x)), xp.zeros_like(x))


def largest(xp: Any, gram: Any) -> Any:
    """Return the largest diagonal entry, of which a Gram matrix has no negative one."""
    return xp.max(gram * xp.eye(gram.shape[-1]), axis=(-2, -1))


def imbalance(xp: Any, product: Any, gram_in: Any, gram_out: Any) -> Imbalance:
    r"""Return the class of a start, by least squares from ``P0 J P0 = total P0 + spread J``.

    Input and output blocks may differ by many orders of magnitude (``lam = 1`` at scale 1e-8); each is measured in its
    own unit. Where `spread` is not larger than the rounding of the start, ``P0`` is numerically singular, and then
    `spread` is exactly zero: on a null vector of ``P0`` nothing else could balance ``spread J``.
    """
    x, y, z = gram_in, product, gram_out
    yt = xp.matrix_transpose(y)
    # a Gram matrix has no negative diagonal: a block that is all rounding may, and stands for zero
    xt, zt = (xp.maximum(each, xp.zeros_like(each)) for each in (largest(xp, x), largest(xp, z)))
    a, b = xp.sqrt(_inverse(xp, xt))[..., None, None], xp.sqrt(_inverse(xp, zt))[..., None, None]
    x, y, z, yt = x * a * a, y * a * b, z * b * b, yt * a * b
    u, v = xt[..., None, None], zt[..., None, None]  # the squares of the units
    left = (v * (yt @ y) - u * (x @ x), v * (z @ y) - u * (y @ x), v * (z @ z) - u * (y @ yt))
    unit = xp.maximum(a, b)
    share = tuple((s / xp.where(unit > 0, unit, xp.ones_like(unit))) ** 2 for s in (a, b))
    j = share[0] * xp.eye(x.shape[-1]), share[1] * xp.eye(z.shape[-1])
    pp, jj = _norm2(xp, x, y, y, z), _norm2(xp, j[0] + 0 * x, j[1] + 0 * z)
    pj = xp.sum(z * j[1], axis=(-2, -1)) - xp.sum(x * j[0], axis=(-2, -1))
    rp = sum(xp.sum(r * p, axis=(-2, -1)) for r, p in zip((left[0], 2 * left[1], left[2]), (x, y, z), strict=True))
    rj = xp.sum(left[2] * j[1], axis=(-2, -1)) - xp.sum(left[0] * j[0], axis=(-2, -1))

    def misfit(total: Any, spread: Any) -> Any:
        total, spread = total[..., None, None], spread[..., None, None]
        parts = (left[0] - total * x + spread * j[0], left[1] - total * y, left[2] - total * z - spread * j[1])
        return xp.sqrt(_norm2(xp, parts[0], parts[1], parts[1], parts[2]))

    size = xp.where(pp > 0, (xt + zt) * xp.sqrt(pp), xp.ones_like(pp))
    grain = 16 * (gram_in.shape[-1] + gram_out.shape[-1]) * size
    none = xp.zeros_like(pp)

    def noise(total: Any, spread: Any) -> Any:
        return grain * xp.maximum(precision(xp) + none, misfit(total, spread) / size)

    gap = pp * jj - pj * pj
    regular = (xt > 0) & (zt > 0) & (gap > 0)
    safe = xp.where(regular, gap, xp.ones_like(gap))
    pair = (rp * jj - rj * pj) / safe, (rj * pp - rp * pj) / safe
    kept = regular & (pair[1] * xp.sqrt(jj) > noise(*pair))
    single = rp * _inverse(xp, pp)
    single = xp.where(xp.abs(single) * xp.sqrt(pp) > noise(single, none), single, none)
    total, spread = xp.where(kept, pair[0], single), xp.where(kept, pair[1], none)
    return Imbalance(total, spread * _inverse(xp, unit[..., 0, 0]) ** 2, misfit(total, spread) / size)
