"""Dynamics of class means, projected on contrasts of classes: a matrix Riccati equation, or decoupled modes."""

from __future__ import annotations

from typing import Any, NamedTuple

from linsolve import arithmetic
from linsolve.arithmetic import precision
from linsolve.numerics.cache import Memory
from linsolve.numerics.double_double import two_prod
from linsolve.systems.collapse.contrasts import contrasts, norm
from linsolve.systems.collapse.metrics import bounded_ratio, diagonal
from linsolve.systems.two_layer.hidden_mode import HiddenMode
from linsolve.systems.whitened.imbalance import imbalance, largest
from linsolve.systems.whitened.matrix_riccati import matrix_riccati

__all__ = ["Centered", "Modes", "plane"]

# coefficients of three linear combinations of three matrices; generic joint eigenvalues are distinct in at least one
MIXED = ((17, 29, 41), (31, -19, 23), (-13, 37, 27))
ROUNDED = 64  # directions count as parallel in Gram matrices up to an angle of sqrt(ROUNDED * eps)


def _above_rounding(xp: Any, part: Any, whole: Any) -> Any:
    """Return `part`, set to zero where it does not exceed the rounding error of the matrix `whole` that contains it."""
    size = xp.max(xp.abs(whole), axis=(-2, -1), keepdims=True)
    floor = 16 * whole.shape[-1] * precision(xp) * size
    return xp.where(xp.max(xp.abs(part), axis=(-2, -1), keepdims=True) > floor, part, 0 * part)


class Centered(NamedTuple):
    r"""Classifier and class means, projected on contrasts of classes, as a two-layer network on white inputs.

    The columns of ``U`` are the `contrasts`, ``Pi = U U^T``, and ``M`` are the class means (n, C). They obey
    ``W' = -m (W M - Pi) M^T``, ``M' = -mu W^T (W M - Pi)``. With ``a^4 = mu/m`` and ``s = sqrt(m mu)``, the matrices
    ``w1 = M U/a`` and ``w2 = a W`` obey ``w1' = s w2^T (S - w2 w1)``, ``w2' = s (S - w2 w1) w1^T``. This is a matrix
    Riccati equation with the target ``S = U``. If ``1^T W = 0``, the outputs are projected on contrasts, too, and
    ``S = I``.

    Parameters
    ----------
    basis : array, shape (C, C - 1)
        ``U``.
    product, gram_in, gram_out : array, shape batch + (C, C - 1), batch + (C - 1, C - 1), batch + (C, C)
        ``w2 w1``, ``w1^T w1``, ``w2 w2^T``.
    square : array, shape batch + (1, 1)
        ``a^2``.
    closed : array of bool, shape batch
        Whether ``1^T W = 0`` to rounding.
    """

    basis: Any
    product: Any
    gram_in: Any
    gram_out: Any
    square: Any
    closed: Any

    @classmethod
    def of(cls, xp: Any, product: Any, gram_w: Any, gram_m: Any, square: Any, gram_h: Any) -> Centered:
        """Return the reduced problem of ``W M``, ``W W^T`` and ``M^T M``, each shape batch + (C, C).

        Class means that do not exceed the rounding error of the Gram matrix `gram_h` of the features are set to zero.
        Features with scatter alone then stay at their saddle in floating point, too.
        """
        u, square = contrasts(xp, gram_w.shape[-1]), square[..., None, None]
        size = xp.max(xp.abs(gram_w), axis=(-2, -1))
        sums = xp.max(xp.abs(xp.sum(gram_w, axis=-1)), axis=-1)
        closed = sums <= 16 * gram_w.shape[-1] * precision(xp) * size
        inner = _above_rounding(xp, xp.matrix_transpose(u) @ gram_m @ u, gram_h) / square
        some = xp.max(xp.abs(inner), axis=(-2, -1), keepdims=True) > 0
        product = product @ u
        return cls(u, xp.where(some, product, 0 * product), inner, gram_w * square, square, closed)

    def outputs(self, xp: Any) -> tuple[Any, Any, Any]:
        """Return the product and the Gram matrices with the outputs reduced to contrasts as well."""
        back = xp.matrix_transpose(self.basis)
        outer = _above_rounding(xp, back @ self.gram_out @ self.basis, self.gram_out)
        some = xp.max(xp.abs(outer), axis=(-2, -1), keepdims=True) > 0
        return xp.where(some, back @ self.product, 0 * (back @ self.product)), self.gram_in, outer

    def distances(self, xp: Any) -> tuple[Any, Any]:
        """Return relative distances from the solvable class, with all outputs and with projected ones, shape batch."""
        whole = imbalance(xp, self.product, self.gram_in, self.gram_out).distance
        return whole, imbalance(xp, *self.outputs(xp)).distance

    def without(self, xp: Any, gone: Any) -> Centered:
        """Return the problem with weights set to zero where `gone` holds."""
        gone = gone[..., None, None]
        none = (xp.where(gone, 0 * a, a) for a in (self.product, self.gram_in, self.gram_out))
        return self._replace(**dict(zip(("product", "gram_in", "gram_out"), none, strict=True)))

    def restored(self, xp: Any, y: Any, x: Any, z: Any) -> tuple[Any, Any, Any]:
        """Return ``W M``, ``W W^T`` and ``M^T M`` from a reduced product and reduced Gram matrices."""
        u, back = self.basis, xp.matrix_transpose(self.basis)
        return u @ y @ back, u @ z @ back / self.square, u @ x @ back * self.square

    def at(self, xp: Any, t: Any, memories: tuple[Memory, Memory]) -> tuple[Any, Any, Any]:
        """Return ``W M``, ``W W^T`` and ``M^T M`` at times `t` in units of ``1/s``, centered.

        The memories keep what does not depend on time, for reduced outputs and for others.
        """
        u, closed = self.basis, self.closed[..., None, None]
        both = []
        if arithmetic.holds(self.closed):
            one = xp.eye(u.shape[-1], dtype=xp.float64)
            both.append(self.restored(xp, *matrix_riccati(xp, t, one, *self.outputs(xp), memory=memories[0])))
        if not arithmetic.holds(self.closed, everywhere=True):
            y, x, z = matrix_riccati(xp, t, u, self.product, self.gram_in, self.gram_out, memory=memories[1])
            back = xp.matrix_transpose(u)
            both.append((y @ back, z / self.square, u @ x @ back * self.square))
        product, gram_w, means = (xp.where(closed, a, b) for a, b in zip(both[0], both[-1], strict=True))
        return product, gram_w, means


def plane(xp: Any, ww: Any, wh: Any, hh: Any, rates: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return two plane vectors with these inner products, shape batch + (2,), exactly parallel if so up to rounding.

    The longer one, in units set by its learning rate in `rates`, lies on the first axis.
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
    r"""A two-layer network with target I as decoupled modes ``w' = (1 - w.h) h``, ``h' = (1 - w.h) w``.

    ``W2 W1``, ``W1^T W1`` and ``W2 W2^T`` are diagonal in one basis: modes occupy mutually orthogonal hidden
    subspaces, each with its own imbalance and its own vectors of hidden units.

    Parameters
    ----------
    basis : array, shape batch + (k, k)
        The joint eigenvectors, as columns.
    ww, wh, hh : array, shape batch + (k,)
        ``|w|^2``, ``w.h`` and ``|h|^2`` of each mode.
    distance : array, shape batch
        Relative norm of the off-diagonal entries in that basis.
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
        best = cls._in_basis_of(xp, scaled, sum(c * a for c, a in zip(MIXED[0], even, strict=True)))
        for mixed in MIXED[1:]:
            other = cls._in_basis_of(xp, scaled, sum(c * a for c, a in zip(mixed, even, strict=True)))
            better = other.distance < best.distance
            best = cls(*(xp.where(better[(...,) + (None,) * k], b, a)
                         for a, b, k in zip(best, other, (2, 1, 1, 1, 0), strict=True)))  # fmt: skip
        ww, wh, hh = best.ww * z[..., None], best.wh * both[..., None], best.hh * x[..., None]
        none = (ww == 0) | (hh == 0)
        return cls(best.basis, ww, xp.where(none, xp.zeros_like(wh), wh), hh, best.distance)

    @classmethod
    def _in_basis_of(cls, xp: Any, scaled: list[Any], mixture: Any) -> Modes:
        """Return the modes in the eigenbasis of a linear combination of the three; rounding errors become zero."""
        basis = xp.linalg.eigh(mixture)[1]
        floor = 16 * mixture.shape[-1] * precision(xp)
        parts, left = [], []
        for a in scaled:
            inside = xp.matrix_transpose(basis) @ a @ basis
            part = diagonal(xp, inside)
            off = inside - part[..., None, :] * xp.eye(part.shape[-1], dtype=xp.float64)
            left.append(norm(xp, off))
            parts.append(part)
        ww, wh, hh = parts
        ww, hh = (xp.where(v > floor, v, xp.zeros_like(v)) for v in (ww, hh))
        return cls(basis, ww, wh, hh, xp.maximum(xp.maximum(left[0], left[1]), left[2]))

    def at(self, xp: Any, t: Any) -> tuple[Any, Any, Any]:
        """Return ``W2 W1``, ``W1^T W1`` and ``W2 W2^T`` at times `t`, shape lead + batch."""
        one = xp.ones_like(self.ww)
        mode = HiddenMode(s=one, eta_w=one, eta_h=one)
        start = mode.State(*plane(xp, self.ww, self.wh, self.hh, (one, one)))
        z, back = mode.solution(xp, t[..., None], start), xp.matrix_transpose(self.basis)
        sizes = (xp.sum(a * b, axis=-1) for a, b in ((z.w, z.h), (z.h, z.h), (z.w, z.w)))
        product, inner, outer = ((self.basis * v[..., None, :]) @ back for v in sizes)
        return product, inner, outer
