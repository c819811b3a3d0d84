"""Random generators of NumPy and CuPy, with the array namespace of their draws."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import shown

__all__ = ["generator", "halves", "orthonormal", "seeded"]

_BITS = 1000  # for more trials, NumPy's binomial variates are faster than counting bits


def seeded(who: str, rng: Any) -> np.random.Generator:
    """Return ``numpy.random.default_rng(rng)`` (SPEC 7 of Scientific Python).

    Raises
    ------
    TypeError, ValueError
        If `numpy.random.default_rng` does not accept `rng`, or it is a boolean.
    """
    try:
        return np.random.default_rng(np.bool_(rng) if isinstance(rng, bool) else rng)  # NumPy takes True as the seed 1
    except (TypeError, ValueError) as error:
        rule = "must be None, an integer of at least 0, a numpy.random.Generator or SeedSequence (seed); say 0"
        raise type(error)(f"{who}: rng = {shown(rng)} {rule}") from error


def generator(who: str, rng: Any) -> tuple[Any, Any]:
    """Return the array namespace and the random generator of an argument `rng`.

    Parameters
    ----------
    who : str
        Name of the calling function, for errors.
    rng : None, int, numpy.random.Generator or SeedSequence, or cupy.random.Generator
        As in SPEC 7 of Scientific Python; a CuPy generator is used unchanged, and its draws stay on its device.

    Examples
    --------
    >>> xp, rng = generator("wishart", 0)
    >>> xp.__name__, type(rng).__name__
    ('numpy', 'Generator')
    """
    if type(rng).__module__.split(".")[0] == "cupy":
        return arithmetic._cupy(), rng
    return np, seeded(who, rng)


def halves(rng: Any, n: int, shape: tuple[int, ...]) -> Any:
    """Return binomial variates of `n` trials of probability 1/2.

    For NumPy generators and small `n`, random bits are counted, which is faster.

    Parameters
    ----------
    rng : numpy.random.Generator or cupy.random.Generator
    n : int

    Examples
    --------
    >>> import numpy as np
    >>> halves(np.random.default_rng(0), 200, (4,)).tolist()
    [108, 104, 104, 87]
    """
    if n > _BITS or not isinstance(rng, np.random.Generator):
        return rng.binomial(n, 0.5, shape)
    found = np.zeros(shape, dtype=np.int64)
    for first in range(0, n, 64):
        found += np.bitwise_count(rng.integers(0, 2 ** min(64, n - first), shape, np.uint64))
    return found


def orthonormal(rng: np.random.Generator, batch: tuple[int, ...], rows: int, columns: int) -> np.ndarray:
    """Return matrices with orthonormal columns, uniformly distributed."""
    q, r = np.linalg.qr(rng.normal(size=(*batch, rows, columns)))
    return q * np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0)[..., None, :]
