"""Centered classes: the two-layer problem between class means, reduced to contrasts, as a Riccati equation."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.arithmetic import precision
from linsolve.systems.whitened.imbalance import imbalance
from linsolve.systems.whitened.matrix_riccati import matrix_riccati

__all__ = ["Centered", "averaged", "contrasts", "members", "split"]


def members(xp: Any, classes: int, m: int) -> Any:
    """Return ``Y = I (x) 1^T``, shape (classes, classes m): the membership of samples ordered by class."""
    return arithmetic.cast(xp, np.repeat(np.eye(classes), m, axis=1))


def contrasts(xp: Any, classes: int) -> Any:
    """Return an orthonormal basis of what is orthogonal to ``1``, shape (classes, classes - 1) (Helmert)."""
    k = np.arange(1, classes)
    whole = np.where(np.arange(classes)[:, None] < k, 1, 0) - np.where(np.arange(classes)[:, None] == k, k, 0)
    return arithmetic.cast(xp, whole.astype(float)) / xp.sqrt(arithmetic.cast(xp, (k * (k + 1)).astype(float)))


def averaged(xp: Any, a: Any, y: Any) -> Any:
    """Return averages over the samples of each class, shape batch + (rows, C)."""
    return a @ xp.matrix_transpose(y) / (y.shape[1] // y.shape[0])


def split(xp: Any, a: Any, y: Any) -> tuple[Any, Any, Any]:
    """Return the sample, class and global parts of rows over samples: they add up to `a`."""
    means = averaged(xp, a, y)
    whole = xp.sum(means, axis=-1, keepdims=True) / y.shape[0]
    return a - means @ y, (means - whole) @ y, whole + 0 * a


def _audible(xp: Any, part: Any, whole: Any) -> Any:
    """Return `part`, zero where all of it is not larger than the rounding of the matrix that it is a part of."""
    size = xp.max(xp.abs(whole), axis=(-2, -1), keepdims=True)
    floor = 16 * whole.shape[-1] * precision(xp) * size
    return xp.where(xp.max(xp.abs(part), axis=(-2, -1), keepdims=True) > floor, part, 0 * part)


class Centered(NamedTuple):
    r"""Classifier and class means between contrasts of classes, as a two-layer network on white inputs.

    With ``U`` the `contrasts`, ``M`` the class means (n, C), and ``W' = -m (W M - Pi) M^T``,
    ``M' = -mu W^T (W M - Pi)``, the matrices ``w1 = M U/a``, ``w2 = a W``, ``a^4 = mu/m`` obey
    ``w1' = s w2^T (S - w2 w1)``, ``w2' = s (S - w2 w1) w1^T``, ``s = sqrt(m mu)``: a matrix Riccati equation whose
    target is ``S = U``. Where ``1^T W = 0`` the outputs are reduced as well, and ``S = I``.

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

        Class means that are nothing next to the rounding of the features' Gram matrix `gram_h` are made zero: a saddle
        that features with scatter alone never leave is not left in floats either.
        """
        u, square = contrasts(xp, gram_w.shape[-1]), square[..., None, None]
        size = xp.max(xp.abs(gram_w), axis=(-2, -1))
        sums = xp.max(xp.abs(xp.sum(gram_w, axis=-1)), axis=-1)
        closed = sums <= 16 * gram_w.shape[-1] * precision(xp) * size
        inner = _audible(xp, xp.matrix_transpose(u) @ gram_m @ u, gram_h) / square
        some = xp.max(xp.abs(inner), axis=(-2, -1), keepdims=True) > 0
        product = product @ u
        return cls(u, xp.where(some, product, 0 * product), inner, gram_w * square, square, closed)

    def outputs(self, xp: Any) -> tuple[Any, Any, Any]:
        """Return product and Gram matrices of the problem with contrasts of outputs, too."""
        back = xp.matrix_transpose(self.basis)
        outer = _audible(xp, back @ self.gram_out @ self.basis, self.gram_out)
        some = xp.max(xp.abs(outer), axis=(-2, -1), keepdims=True) > 0
        return xp.where(some, back @ self.product, 0 * (back @ self.product)), self.gram_in, outer

    def distances(self, xp: Any) -> tuple[Any, Any]:
        """Return relative distances from what has a closed form, with all outputs and with contrasts, shape batch."""
        whole = imbalance(xp, self.product, self.gram_in, self.gram_out).distance
        return whole, imbalance(xp, *self.outputs(xp)).distance

    def without(self, xp: Any, gone: Any) -> Centered:
        """Return the problem with nothing in it where `gone` holds."""
        gone = gone[..., None, None]
        none = (xp.where(gone, 0 * a, a) for a in (self.product, self.gram_in, self.gram_out))
        return self._replace(**dict(zip(("product", "gram_in", "gram_out"), none, strict=True)))

    def restored(self, xp: Any, y: Any, x: Any, z: Any) -> tuple[Any, Any, Any]:
        """Return ``W M``, ``W W^T`` and ``M^T M`` of a reduced product and Gram matrices."""
        u, back = self.basis, xp.matrix_transpose(self.basis)
        return u @ y @ back, u @ z @ back / self.square, u @ x @ back * self.square

    def followed(self, xp: Any, t: Any) -> tuple[Any, Any, Any]:
        """Return ``W M``, ``W W^T`` and ``M^T M`` at times `t` in units of ``1/s``, centered."""
        u, closed = self.basis, self.closed[..., None, None]
        found, both = arithmetic.to_numpy(self.closed), []
        if found.any():
            both.append(
                self.restored(xp, *matrix_riccati(xp, t, xp.eye(u.shape[-1], dtype=xp.float64), *self.outputs(xp)))
            )
        if not found.all():
            y, x, z = matrix_riccati(xp, t, u, self.product, self.gram_in, self.gram_out)
            back = xp.matrix_transpose(u)
            both.append((y @ back, z / self.square, u @ x @ back * self.square))
        product, gram_w, means = (xp.where(closed, a, b) for a, b in zip(both[0], both[-1], strict=True))
        return product, gram_w, means
