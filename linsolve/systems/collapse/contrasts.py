"""Membership, class means and contrasts of samples that are ordered by class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linsolve import arithmetic

__all__ = ["averaged", "contrasts", "members", "norm", "overall", "shares", "split"]


def members(xp: Any, classes: int, m: int | Sequence[int]) -> Any:
    """Return the membership ``Y``, shape (classes, N), of `m` samples of each class or of these class sizes."""
    return arithmetic.cast(xp, np.repeat(np.eye(classes), m, axis=1))


def contrasts(xp: Any, classes: int) -> Any:
    """Return an orthonormal basis of the complement of ``1``, shape (classes, classes - 1) (Helmert)."""
    k = np.arange(1, classes)
    whole = np.where(np.arange(classes)[:, None] < k, 1, 0) - np.where(np.arange(classes)[:, None] == k, k, 0)
    return arithmetic.cast(xp, whole.astype(float)) / xp.sqrt(arithmetic.cast(xp, (k * (k + 1)).astype(float)))


def averaged(xp: Any, a: Any, y: Any) -> Any:
    """Return averages over the samples of each class, shape batch + (rows, C)."""
    return a @ xp.matrix_transpose(y) / xp.sum(y, axis=-1)


def shares(xp: Any, y: Any) -> Any:
    """Return class sizes in units of their mean, shape (C,): 1 for equal sizes."""
    return xp.sum(y, axis=-1) * y.shape[0] / y.shape[1]


def overall(xp: Any, means: Any, y: Any) -> Any:
    """Return the average over all samples of averages over classes, shape batch + (rows, 1)."""
    return xp.sum(means * shares(xp, y), axis=-1, keepdims=True) / y.shape[0]


def split(xp: Any, a: Any, y: Any) -> tuple[Any, Any, Any]:
    """Return the sample, class and global parts of rows over samples, whose sum is `a`."""
    means = averaged(xp, a, y)
    whole = overall(xp, means, y)
    return a - means @ y, (means - whole) @ y, whole + 0 * a


def norm(xp: Any, a: Any) -> Any:
    """Return the Frobenius norm, shape batch."""
    return xp.sqrt(xp.sum(a * a, axis=(-2, -1)))
