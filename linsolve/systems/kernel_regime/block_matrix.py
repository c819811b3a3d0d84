r"""Block-structured symmetric matrices: one value on the diagonal, one within and one between classes.

With ``C`` classes of ``m_c`` samples, ordered by class,

.. math:: K = (d - w)\, I + (w - b)\, Y^T Y + b\, 1 1^T, \qquad Y = \text{membership}, \; C \times N .

Contrasts within a class have the eigenvalue ``lam_s = d - w``. On the class averages, in the coordinates
``y_c = sum of class c / sqrt(m_c)``, the kernel is the matrix ``lam_s + (w - b) diag(m) + b sqrt(m) sqrt(m)^T`` of C
rows. For equal sizes m its eigenvalues are ``lam_c = lam_s + m (w - b)`` and ``lam_g = lam_c + C m b`` (the average of
all samples).

With values that differ from class to class, ``d_c`` on the diagonal and ``p_cc'`` elsewhere, contrasts within class c
have the eigenvalue ``d_c - p_cc``, and the matrix on the averages is ``diag(d_c - p_cc) + sqrt(m_c) p_cc' sqrt(m_c')``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from linsolve.arithmetic import precision
from linsolve.numerics.spectrum import rows_times

__all__ = ["Blocks"]


class Blocks(NamedTuple):
    """A block-structured matrix, diagonalized.

    Parameters
    ----------
    members : array, shape batch + (C, N)
        1 where a sample belongs to a class, else 0.
    roots : array, shape batch + (C,)
        Square roots of the class sizes.
    values : array, shape batch + (1 + C,) or batch + (C + C,)
        The eigenvalue of contrasts within classes, one for all or one per class, then those of the class averages.
    vectors : array, shape batch + (C, C)
        Eigenvectors on the class averages, as columns, in the order of ``values[..., -C:]``.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.kernel_regime.block_matrix import Blocks
    >>> diagonal, within, between = np.array(2.0), np.array(1.0), np.array(0.5)
    >>> blocks = Blocks.of(np, (diagonal, within, between), np.array([2.0, 2.0]), 4, equal=True)
    >>> blocks.own.tolist(), blocks.averages.tolist()  # 2 - 1; 1 + 2 (1 - 1/2), and 4/2 more
    ([1.0], [2.0, 4.0])
    """

    members: Any
    roots: Any
    values: Any
    vectors: Any

    @classmethod
    def of(cls, xp: Any, entries: tuple[Any, Any, Any], sizes: Any, count: int, equal: bool) -> Blocks:
        """Return the blocks for values on the diagonal, within and between classes.

        Parameters
        ----------
        xp : namespace
        entries : (array, array, array), each of shape batch
            Diagonal, within, between.
        sizes : array, shape batch + (C,)
            Class sizes, whole numbers whose sum is `count`.
        count : int
            Number of samples.
        equal : bool
            Whether all sizes are equal; then eigenvalues are sums of the entries.
        """
        diagonal, within, between = entries
        roots, lift = xp.sqrt(sizes), (within - between)[..., None] * sizes
        if equal:
            vectors, shared = _contrasts(
                xp, sizes.shape[-1], between[..., None] * xp.sum(sizes, axis=-1, keepdims=True)
            )
            raised = lift + shared
        else:
            raised, vectors = _raised(xp, lift, between[..., None], roots)
        own = (diagonal - within)[..., None]
        # eigenvalues at rounding level are set to 0: eps where terms of both signs cancel, eps^2 elsewhere; inf remains
        # inf
        rounding = 0 if getattr(xp, "symbolic", False) else sizes.shape[-1] * precision(xp)
        rounding = rounding * xp.where(between < 0, xp.ones_like(between), rounding * xp.ones_like(between))
        floor = rounding[..., None] * xp.max(xp.abs(raised), axis=-1, keepdims=True)
        raised = xp.where(xp.abs(raised) < floor, xp.zeros_like(raised), raised)
        values = own + raised
        values = xp.where((raised < 0) & (xp.abs(values) < floor), xp.zeros_like(values), values)
        own = own + xp.zeros_like(values[..., :1])
        return cls(_members(xp, sizes, count), roots, xp.concat([own, values], axis=-1), vectors)

    @classmethod
    def of_pairs(cls, xp: Any, diagonal: Any, pairs: Any, sizes: Any, count: int) -> Blocks:
        """Return the blocks for one diagonal value per class and one off-diagonal value per pair of classes.

        Parameters
        ----------
        xp : namespace
        diagonal : array, shape batch + (C,)
        pairs : array, shape batch + (C, C)
            Symmetric; the diagonal holds the values within classes.
        sizes, count
            As in `of`.
        """
        roots, unit = xp.sqrt(sizes), xp.eye(sizes.shape[-1], dtype=xp.float64)
        own = diagonal - xp.sum(unit * pairs, axis=-1)
        averages = own[..., None] * unit + roots[..., :, None] * pairs * roots[..., None, :]
        values, vectors = xp.linalg.eigh(averages)
        eps = 0 if getattr(xp, "symbolic", False) else precision(xp)
        floor = sizes.shape[-1] * eps * xp.max(xp.abs(values), axis=-1, keepdims=True)
        values = xp.where(xp.abs(values) < floor, xp.zeros_like(values), values)
        # a class of one sample has no contrasts; its rate is set to 0
        own = xp.where(sizes > 1, own, xp.zeros_like(own))
        return cls(_members(xp, sizes, count), roots, xp.concat([own, values], axis=-1), vectors)

    @property
    def own(self) -> Any:
        """Eigenvalues of contrasts within classes, shape batch + (1,) or batch + (C,)."""
        return self.values[..., : -self.roots.shape[-1]]

    @property
    def averages(self) -> Any:
        """Eigenvalues on the class averages, shape batch + (C,)."""
        return self.values[..., -self.roots.shape[-1] :]

    def split(self, xp: Any, r: Any) -> tuple[Any, Any]:
        """Return contrasts within classes, shape ``... + (N,)``, and class averages ``y``, shape ``... + (C,)``."""
        y = rows_times(xp, r, xp.matrix_transpose(self.members)) / self.roots
        return r - self.spread(xp, y), y

    def spread(self, xp: Any, y: Any) -> Any:
        """Return the contribution of class averages `y` to every sample, shape ``... + (N,)``."""
        return rows_times(xp, y / self.roots, self.members)

    def weighted(self, xp: Any, weights: Any, y: Any) -> Any:
        """Apply to class averages `y` the matrix with these eigenvectors and eigenvalues `weights`, ``... + (C,)``."""
        return rows_times(xp, weights * rows_times(xp, y, self.vectors), xp.matrix_transpose(self.vectors))

    def applied(self, xp: Any, weights: Any, r: Any) -> tuple[Any, Any]:
        """Return contrasts and class averages of M r, M the matrix with eigenvalues `weights` in place of `values`."""
        return self.weighted_parts(xp, weights, *self.split(xp, r))

    def weighted_parts(self, xp: Any, weights: Any, contrasts: Any, y: Any) -> tuple[Any, Any]:
        """Return `applied` of the contrasts and class averages of ``split``."""
        classes = self.roots.shape[-1]
        own = weights[..., :-classes]
        own = rows_times(xp, own, self.members) if own.shape[-1] > 1 else own
        return own * contrasts, self.weighted(xp, weights[..., -classes:], y)


def _members(xp: Any, sizes: Any, count: int) -> Any:
    c, i = (xp.astype(xp.arange(n), xp.float64) for n in (sizes.shape[-1], count))
    before = xp.where(c[:, None] > c, sizes[..., None, :], xp.zeros_like(sizes)[..., None, :])
    first = xp.sum(before, axis=-1)[..., None]
    inside = (i >= first) & (i < first + sizes[..., None])
    return xp.where(inside, xp.ones_like(first), xp.zeros_like(first))


def _raised(xp: Any, lift: Any, between: Any, roots: Any) -> tuple[Any, Any]:
    """Return eigenvalues, increasing, and eigenvectors of ``diag(lift) + between roots roots^T``, ``lift >= 0``.

    For ``between >= 0`` they are squared singular values of ``sqrt(between) roots^T`` stacked on ``diag(sqrt(lift))``.
    With the largest row on top the singular values have high relative accuracy, however close the values within and
    between classes are. An eigenvalue solver is accurate only relative to the largest eigenvalue.
    """
    unit, none = xp.eye(roots.shape[-1], dtype=xp.float64), xp.zeros_like(between + lift)
    top = (xp.sqrt(xp.where(between > 0, between + none, none)) * roots)[..., None, :]
    rows = xp.concat([top, xp.sqrt(lift + none)[..., None, :] * unit], axis=-2)
    _, size, vectors = xp.linalg.svd(rows, full_matrices=False)
    summed = (lift + none)[..., None, :] * unit + between[..., None] * roots[..., :, None] * roots[..., None, :]
    values, others = xp.linalg.eigh(summed)
    signed = between < 0
    values = xp.where(signed, values, size[..., ::-1] ** 2)
    return values, xp.where(signed[..., None], others, xp.matrix_transpose(vectors)[..., ::-1])


def _contrasts(xp: Any, classes: int, shared: Any) -> tuple[Any, Any]:
    """Return orthonormal contrasts between classes, then the average, and eigenvalues: 0, and `shared` for the last."""
    k = xp.astype(xp.arange(classes), xp.float64)
    i, last, zero = k[:, None], k == classes - 1, xp.zeros_like(k)
    raw = xp.where(i <= k, zero + 1, xp.where(i == k + 1, -(k + 1), zero))
    squares = (k + 1) * xp.where(last, zero + 1, k + 2)
    return raw / xp.sqrt(squares), xp.where(last, shared, xp.zeros_like(shared))
