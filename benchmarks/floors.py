"""Lower bounds of time on this machine: filling, reading and adding memory on all cores, and a matrix product.

Filling and reading use the arrays of the workload and the threads of the package: the rate depends on where an array
lies in memory, and threads that sleep may wake up on one processor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linsolve.numerics.threads import processors, shared

__all__ = ["fill", "processors", "product", "read", "triad"]

PIECES = 8  # of each thread


def _pieces(*arrays: np.ndarray) -> list[tuple[np.ndarray, ...]]:
    """Return the parts of flat arrays of one size."""
    count = min(PIECES * processors(), arrays[0].size)
    return list(zip(*(np.array_split(v.reshape(-1), count) for v in arrays), strict=True))


def fill(out: np.ndarray) -> Callable[[], Any]:
    """Return a call that fills an array whose pages were touched before."""
    parts = _pieces(out)
    return lambda: shared(lambda part: part[0].fill(1.0), parts)


def triad(size: int) -> Callable[[], Any]:
    """Return a call that computes ``a = b + 3 c`` of `size` doubles."""
    parts = _pieces(np.zeros(size), np.ones(size), np.ones(size))

    def work(part: tuple[np.ndarray, ...]) -> None:
        a, b, c = part
        for k in range(0, len(a), 2**17):  # fits the cache
            at = slice(k, k + 2**17)
            np.multiply(c[at], 3.0, out=a[at])
            np.add(a[at], b[at], out=a[at])

    return lambda: shared(work, parts)


def read(*arrays: np.ndarray) -> Callable[[], Any]:
    """Return a call that reads arrays once."""
    parts = [part for v in arrays for part in _pieces(v)]
    return lambda: shared(lambda part: part[0].max(), parts)


def product(n: int, rows: int, columns: int) -> Callable[[], None]:
    """Return a call that multiplies matrices of ``rows x n`` and ``n x columns``."""
    a, b, out = np.ones((rows, n)), np.ones((n, columns)), np.zeros((rows, columns))
    return lambda: np.matmul(a, b, out=out) is None or None
