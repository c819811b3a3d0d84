"""Class means, contrasts and Gram matrices of samples that are ordered by class."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve import arithmetic

__all__ = [
    *("averaged", "class_grams", "contrasts", "members", "split"),
    *("bounded_ratio", "diagonal", "norm", "trace"),
]


def members(xp: Any, classes: int, m: int) -> Any:
    """Return the membership ``Y = I (x) 1^T``, shape (classes, classes m)."""
    return arithmetic.cast(xp, np.repeat(np.eye(classes), m, axis=1))


def contrasts(xp: Any, classes: int) -> Any:
    """Return an orthonormal basis of the complement of ``1``, shape (classes, classes - 1) (Helmert)."""
    k = np.arange(1, classes)
    whole = np.where(np.arange(classes)[:, None] < k, 1, 0) - np.where(np.arange(classes)[:, None] == k, k, 0)
    return arithmetic.cast(xp, whole.astype(float)) / xp.sqrt(arithmetic.cast(xp, (k * (k + 1)).astype(float)))


def averaged(xp: Any, a: Any, y: Any) -> Any:
    """Return averages over the samples of each class, shape batch + (rows, C)."""
    return a @ xp.matrix_transpose(y) / (y.shape[1] // y.shape[0])


def split(xp: Any, a: Any, y: Any) -> tuple[Any, Any, Any]:
    """Return the sample, class and global parts of rows over samples, whose sum is `a`."""
    means = averaged(xp, a, y)
    whole = xp.sum(means, axis=-1, keepdims=True) / y.shape[0]
    return a - means @ y, (means - whole) @ y, whole + 0 * a


def class_grams(xp: Any, gram_h: Any, y: Any) -> tuple[Any, Any]:
    """Return the Gram matrices of class means, plain and centered, shape batch + (C, C)."""
    means = averaged(xp, xp.matrix_transpose(averaged(xp, gram_h, y)), y)
    rows = means - xp.sum(means, axis=-1, keepdims=True) / y.shape[0]
    return means, rows - xp.sum(rows, axis=-2, keepdims=True) / y.shape[0]


def diagonal(xp: Any, a: Any) -> Any:
    """Return the diagonal, shape batch + (n,)."""
    return xp.sum(a * xp.eye(a.shape[-1], dtype=xp.float64), axis=-1)


def trace(xp: Any, a: Any) -> Any:
    """Return the trace, shape batch."""
    return xp.sum(a * xp.eye(a.shape[-1], dtype=xp.float64), axis=(-2, -1))


def norm(xp: Any, a: Any) -> Any:
    """Return the Frobenius norm, shape batch."""
    return xp.sqrt(xp.sum(a * a, axis=(-2, -1)))


def bounded_ratio(xp: Any, a: Any, b: Any) -> Any:
    """Return ``a/b``, zero where `b` is not positive."""
    good = b > 0
    return xp.where(good, a / xp.where(good, b, xp.ones_like(b)), xp.zeros_like(b))
