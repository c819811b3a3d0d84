"""Factorizations of one large matrix by LAPACK itself, without the copies and checks of `numpy.linalg`.

LAPACK reads matrices by columns; to it, a matrix in C order is the transposed one. SciPy's linear algebra is imported
when first needed, since its import takes 0.1 s.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["LEAST", "cholesky", "inverted_triangle", "is_one", "load", "qr"]

# fewest rows for which these are faster than `numpy.linalg`
LEAST = 48


def load() -> None:
    """Import LAPACK."""
    import scipy.linalg.lapack  # noqa: F401


def is_one(a: Any) -> bool:
    """Return whether `a` is one large matrix of doubles, shape (1, ..., 1, m, n)."""
    return type(a) is np.ndarray and a.dtype == np.float64 and a.shape[-2] >= LEAST and math.prod(a.shape[:-2]) == 1


def cholesky(a: np.ndarray, *, overwrite: bool = False) -> np.ndarray:
    """Return the lower Cholesky factor of one matrix, whose lower triangle is read.

    With `overwrite`, a matrix in C order may be overwritten, which saves a copy.

    Raises
    ------
    LinAlgError
        If the matrix is not positive definite.
    """
    from scipy.linalg.lapack import dpotrf

    factor, failed = dpotrf(a.reshape(a.shape[-2:]).T, lower=False, overwrite_a=overwrite)
    if failed:
        raise np.linalg.LinAlgError("Matrix is not positive definite")
    return factor.T.reshape(a.shape)


def inverted_triangle(factor: np.ndarray) -> np.ndarray:
    """Return the inverse of one lower triangular matrix, nan where it is singular."""
    from scipy.linalg.lapack import dtrtri

    found, failed = dtrtri(factor.reshape(factor.shape[-2:]).T, lower=False)
    return np.full_like(factor, np.nan) if failed else found.T.reshape(factor.shape)


def qr(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the square orthogonal factor, and the upper triangular one, of one matrix with ``m <= n``."""
    from scipy.linalg.lapack import dgeqrf, dorgqr

    m, n = a.shape[-2:]
    packed, scales, _, _ = dgeqrf(a.reshape(m, n), lwork=32 * n)
    turn, _, _ = dorgqr(packed[:, :m], scales, lwork=32 * m)
    return turn.reshape(*a.shape[:-1], m), np.triu(packed).reshape(a.shape)
