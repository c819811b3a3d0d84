"""Random numbers of NumPy or of a GPU, and the array namespace that they come in."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve import arithmetic

__all__ = ["generator"]


def generator(rng: Any) -> tuple[Any, Any]:
    """Return the array namespace and the generator that an `rng` stands for.

    Parameters
    ----------
    rng : None, int, numpy.random.Generator or SeedSequence, or cupy.random.Generator
        As in SPEC 7 for NumPy; a generator of CuPy is taken as it is, and what it draws stays on its device.

    Examples
    --------
    >>> xp, rng = generator(0)
    >>> xp.__name__, type(rng).__name__
    ('numpy', 'Generator')
    """
    if type(rng).__module__.split(".")[0] == "cupy":
        return arithmetic._cupy(), rng
    return np, np.random.default_rng(rng)
