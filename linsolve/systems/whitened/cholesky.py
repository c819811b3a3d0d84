"""Cholesky factors and inverses of triangular matrices, in stacks of which some may be singular to rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["RELIABLE", "factored", "inverted"]

# up to this excess (trace of the inverse of a matrix scaled to a unit diagonal, less its size) a Cholesky factor is
# known to lose less than 1e-13 (tests/test_matrix_leap.py)
RELIABLE = 256
# triangular factors of this size are inverted as they are, larger ones by halves
SMALL = 13


def factored(xp: Any, bracket: Any) -> Any:
    """Return Cholesky factors, not a number where a matrix is singular to rounding."""
    try:
        return xp.linalg.cholesky(bracket)
    except np.linalg.LinAlgError:
        axis = next((k for k, size in enumerate(bracket.shape[:-2]) if size > 1), None)
        if axis is None:
            return xp.full_like(bracket, xp.nan)
        half = bracket.shape[axis] // 2
        lead = (slice(None),) * axis
        parts = (bracket[*lead, :half, ...], bracket[*lead, half:, ...])
        return xp.concat([factored(xp, part) for part in parts], axis=axis)


def inverted(xp: Any, factor: Any) -> Any:
    """Return the inverse of lower triangular matrices, by halves: ``[[A, 0], [C, D]]`` has ``-D^-1 C A^-1`` below."""
    n = factor.shape[-1]
    if n <= SMALL:
        return xp.linalg.inv(factor)
    half = n // 2
    above, below = factor[..., :half, :half], factor[..., half:, half:]
    if n % 2 == 0:
        pair = inverted(xp, xp.stack([above, below]))
        above, below = pair[0, ...], pair[1, ...]
    else:
        above, below = inverted(xp, above), inverted(xp, below)
    low = -below @ (factor[..., half:, :half] @ above)
    high = xp.concat([above, xp.zeros_like(factor[..., :half, half:])], axis=-1)
    return xp.concat([high, xp.concat([low, below], axis=-1)], axis=-2)
