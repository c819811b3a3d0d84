"""Class means whose modes have hidden units of their own: each is a `HiddenMode`, whatever its imbalance."""

from __future__ import annotations

from typing import Any, NamedTuple

from linsolve.arithmetic import precision
from linsolve.numerics.double_double import two_prod
from linsolve.systems.collapse.metrics import bounded_ratio, diagonal
from linsolve.systems.two_layer.hidden_mode import HiddenMode
from linsolve.systems.whitened.imbalance import largest

__all__ = ["Modes", "plane"]

# mixtures of three matrices: two joint eigenvalues that coincide in all of them take three accidents
MIXED = ((17, 29, 41), (31, -19, 23), (-13, 37, 27))
ROUNDED = 64  # Gram matrices do not tell two directions apart whose angle is the root of that many roundings


def plane(xp: Any, ww: Any, wh: Any, hh: Any, rates: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return two vectors in a plane with these products, shape batch + (2,); parallel where they are to rounding.

    The larger, each in the unit that its learning rate in `rates` gives, is laid on the first axis.
    """
    first = rates[1] * ww >= rates[0] * hh
    large = xp.where(first, ww, hh)
    root = xp.sqrt(xp.where(large > 0, large, xp.zeros_like(large)))
    both, square = two_prod(xp, ww, hh), two_prod(xp, wh, wh)
    left = (both[0] - square[0]) + (both[1] - square[1])
    left = xp.where(left > ROUNDED * precision(xp) * both[0], left, xp.zeros_like(left))
    along, across = bounded_ratio(xp, wh, root), bounded_ratio(xp, xp.sqrt(left), root)
    axis, other = xp.stack([root, 0 * root], axis=-1), xp.stack([along, across], axis=-1)
    one = first[..., None]
    return xp.where(one, axis, other), xp.where(one, other, axis)


class Modes(NamedTuple):
    r"""A two-layer network with target 1 as modes ``w' = (1 - w.h) h``, ``h' = (1 - w.h) w``, apart from one another.

    ``W2 W1``, ``W1^T W1`` and ``W2 W2^T`` are diagonal in one basis: modes occupy mutually orthogonal hidden
    subspaces, and each may have an imbalance, and vectors of hidden units, of its own.

    Parameters
    ----------
    basis : array, shape batch + (k, k)
        The joint eigenvectors, as columns.
    ww, wh, hh : array, shape batch + (k,)
        ``|w|^2``, ``w.h`` and ``|h|^2`` of each mode.
    distance : array, shape batch
        What the basis leaves off the diagonals, relative.
    """

    basis: Any
    ww: Any
    wh: Any
    hh: Any
    distance: Any

    @classmethod
    def of(cls, xp: Any, product: Any, gram_in: Any, gram_out: Any) -> Modes:
        """Return the modes of ``W2 W1``, ``W1^T W1`` and ``W2 W2^T``, each shape batch + (k, k)."""
        x, z = largest(xp, gram_in), largest(xp, gram_out)
        both = xp.sqrt(xp.where((x > 0) & (z > 0), x * z, 0 * x * z))
        units = [bounded_ratio(xp, xp.ones_like(v), v)[..., None, None] for v in (z, both, x)]
        scaled = [a * u for a, u in zip((gram_out, product, gram_in), units, strict=True)]
        even = scaled[0], (scaled[1] + xp.matrix_transpose(scaled[1])) / 2, scaled[2]
        best = cls._seen(xp, scaled, sum(c * a for c, a in zip(MIXED[0], even, strict=True)))
        for mixed in MIXED[1:]:
            other = cls._seen(xp, scaled, sum(c * a for c, a in zip(mixed, even, strict=True)))
            better = other.distance < best.distance
            best = cls(*(xp.where(better[(...,) + (None,) * k], b, a)
                         for a, b, k in zip(best, other, (2, 1, 1, 1, 0), strict=True)))  # fmt: skip
        ww, wh, hh = best.ww * z[..., None], best.wh * both[..., None], best.hh * x[..., None]
        none = (ww == 0) | (hh == 0)
        return cls(best.basis, ww, xp.where(none, xp.zeros_like(wh), wh), hh, best.distance)

    @classmethod
    def _seen(cls, xp: Any, scaled: list[Any], mixture: Any) -> Modes:
        """Return the modes in the eigenbasis of a mixture of the three, what is zero to rounding made zero."""
        basis = xp.linalg.eigh(mixture)[1]
        floor = 16 * mixture.shape[-1] * precision(xp)
        parts, left = [], []
        for a in scaled:
            inside = xp.matrix_transpose(basis) @ a @ basis
            part = diagonal(xp, inside)
            off = inside - part[..., None, :] * xp.eye(part.shape[-1], dtype=xp.float64)
            left.append(xp.sqrt(xp.sum(off * off, axis=(-2, -1))))
            parts.append(part)
        ww, wh, hh = parts
        ww, hh = (xp.where(v > floor, v, xp.zeros_like(v)) for v in (ww, hh))
        return cls(basis, ww, wh, hh, xp.maximum(xp.maximum(left[0], left[1]), left[2]))

    def followed(self, xp: Any, t: Any) -> tuple[Any, Any, Any]:
        """Return ``W2 W1``, ``W1^T W1`` and ``W2 W2^T`` at times `t`, shape lead + batch."""
        one = xp.ones_like(self.ww)
        mode = HiddenMode(s=one, eta_w=one, eta_h=one)
        start = mode.State(*plane(xp, self.ww, self.wh, self.hh, (one, one)))
        z, back = mode.solution(xp, t[..., None], start), xp.matrix_transpose(self.basis)
        sizes = (xp.sum(a * b, axis=-1) for a, b in ((z.w, z.h), (z.h, z.h), (z.w, z.w)))
        product, inner, outer = ((self.basis * v[..., None, :]) @ back for v in sizes)
        return product, inner, outer
