"""Random numbers of NumPy or of a GPU, and the array namespace that they come in."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import shown

__all__ = ["generator", "halves", "seeded"]

_BITS = 1000  # beyond, NumPy's binomial variates cost less than their bits


def seeded(who: str, rng: Any) -> np.random.Generator:
    """Return the generator of NumPy that an `rng` of SPEC 7 stands for.

    Raises
    ------
    TypeError, ValueError
        For what `numpy.random.default_rng` does not take.
    """
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        rule = "must be None, an integer of at least 0, a numpy.random.Generator or SeedSequence (seed); say 0"
        raise type(error)(f"{who}: rng = {shown(rng)} {rule}") from error


def generator(who: str, rng: Any) -> tuple[Any, Any]:
    """Return the array namespace and the generator that an `rng` stands for.

    Parameters
    ----------
    who : str
        The function that was given it, for errors.
    rng : None, int, numpy.random.Generator or SeedSequence, or cupy.random.Generator
        As in SPEC 7 for NumPy; a generator of CuPy is taken as it is, and what it draws stays on its device.

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
    """Return how many of `n` fair coins show heads: binomial variates of probability 1/2, of some shape.

    Of NumPy's generators, up to some n, it counts random bits: the very definition, and faster.

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
