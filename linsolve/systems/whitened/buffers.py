"""Reusable buffers for products and sums: allocating large temporaries costs more than the arithmetic.

NumPy only; other libraries manage their memory themselves.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

__all__ = ["KEPT", "NORMAL", "ROOT", "Buffers"]

# largest buffer, in numbers, that a thread keeps: one megabyte
KEPT = 2**17
# the smallest normal number, and the smallest whose square is normal
NORMAL = float(np.finfo(float).smallest_normal)
ROOT = math.sqrt(NORMAL)
_own = threading.local()


class Buffers:
    """Named buffers for results, overwritten when a name is used again. Each thread has its own buffers.

    Parameters
    ----------
    xp : namespace
    """

    def __init__(self, xp: Any) -> None:
        self.xp = xp
        self._large: dict[str, np.ndarray] = {}
        if not hasattr(_own, "buffers"):
            _own.buffers = {}
        self._kept: dict[str, np.ndarray] = _own.buffers

    def buffer(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """Return the buffer of a name, uninitialized."""
        size = math.prod(shape)
        buffers = self._kept if size <= KEPT else self._large
        found = buffers.get(name)
        if found is None or found.size < size:
            found = buffers[name] = np.empty(size)
        return found[:size].reshape(shape)

    def product(self, name: str, a: Any, b: Any) -> Any:
        """Return ``a @ b``."""
        if self.xp is not np:
            return a @ b
        lead = _broadcast(a.shape[:-2], b.shape[:-2])
        return np.matmul(a, b, out=self.buffer(name, (*lead, a.shape[-2], b.shape[-1])))

    def times(self, name: str, a: Any, b: Any) -> Any:
        """Return ``a * b``; `a` may be the buffer itself."""
        return a * b if self.xp is not np else np.multiply(a, b, out=self._for(name, a, b))

    def plus(self, name: str, a: Any, b: Any) -> Any:
        """Return ``a + b``."""
        return a + b if self.xp is not np else np.add(a, b, out=self._for(name, a, b))

    def minus(self, name: str, a: Any, b: Any) -> Any:
        """Return ``a - b``."""
        return a - b if self.xp is not np else np.subtract(a, b, out=self._for(name, a, b))

    def normal(self, a: Any, least: Any = NORMAL) -> Any:
        """Replace numbers in `a` below `least` by zeros in place, and return `a`; by default subnormal ones.

        Subnormal numbers have lost digits, and many processors need a hundred times as long for products that are
        subnormal, or of such numbers.
        """
        if self.xp is np:
            np.copyto(a, 0, where=np.abs(a) < least)
        return a

    def raised(self, a: Any, diagonal: Any) -> Any:
        """Add a diagonal to `a` in place, and return `a`."""
        if self.xp is not np:
            return a + diagonal[..., None] * self.xp.eye(a.shape[-1])
        np.einsum("...ii->...i", a)[...] += diagonal
        return a

    def _for(self, name: str, a: Any, b: Any) -> np.ndarray:
        return self.buffer(name, _broadcast(a.shape, b.shape))


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape to which two shapes broadcast; equally long ones take a fifth of NumPy's time."""
    if len(a) != len(b):
        return np.broadcast_shapes(a, b)
    return tuple(n if m == 1 else m for m, n in zip(a, b, strict=True))
