"""Products and sums in arrays that are used again: with NumPy large new arrays cost more than what is done with them.

The arrays of other libraries, which manage memory themselves or on a device, are new each time.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

__all__ = ["Scratch"]

# places of up to so many numbers, a megabyte, are kept for the thread's next question
KEPT = 2**17
_own = threading.local()


class Scratch:
    """Named places for results; what stood in a place is gone when it is used again. Each thread has its own.

    Parameters
    ----------
    xp : namespace
    """

    def __init__(self, xp: Any) -> None:
        self.xp = xp
        self._large: dict[str, np.ndarray] = {}
        if not hasattr(_own, "places"):
            _own.places = {}
        self._kept: dict[str, np.ndarray] = _own.places

    def place(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """Return the NumPy array of a name, with any content."""
        size = math.prod(shape)
        places = self._kept if size <= KEPT else self._large
        found = places.get(name)
        if found is None or found.size < size:
            found = places[name] = np.empty(size)
        return found[:size].reshape(shape)

    def product(self, name: str, a: Any, b: Any) -> Any:
        """Return ``a @ b``."""
        if self.xp is not np:
            return a @ b
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return np.matmul(a, b, out=self.place(name, (*lead, a.shape[-2], b.shape[-1])))

    def times(self, name: str, a: Any, b: Any) -> Any:
        """Return ``a * b``; `a` may itself stand in that place."""
        return a * b if self.xp is not np else np.multiply(a, b, out=self._for(name, a, b))

    def plus(self, name: str, a: Any, b: Any) -> Any:
        """Return ``a + b``."""
        return a + b if self.xp is not np else np.add(a, b, out=self._for(name, a, b))

    def minus(self, name: str, a: Any, b: Any) -> Any:
        """Return ``a - b``."""
        return a - b if self.xp is not np else np.subtract(a, b, out=self._for(name, a, b))

    def raised(self, a: Any, diagonal: Any) -> Any:
        """Return `a` with a diagonal added, in its own place."""
        if self.xp is not np:
            return a + diagonal[..., None] * self.xp.eye(a.shape[-1])
        np.einsum("...ii->...i", a)[...] += diagonal
        return a

    def _for(self, name: str, a: Any, b: Any) -> np.ndarray:
        return self.place(name, np.broadcast_shapes(a.shape, b.shape))
