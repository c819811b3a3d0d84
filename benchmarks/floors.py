"""Lower bounds of time on this machine: filling, reading and adding memory on all cores, and a matrix product."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from linsolve.numerics.threads import processors

__all__ = ["fill", "processors", "product", "read", "triad"]


def _shared(work: Callable[[slice], Any], size: int) -> Callable[[], None]:
    """Return a call that runs `work` on all threads, in blocks that fit the cache."""
    pool, count = ThreadPoolExecutor(processors()), processors()
    edges = np.linspace(0, size, count + 1).astype(int)

    def one(k: int) -> None:
        for low in range(edges[k], edges[k + 1], 2**17):
            work(slice(low, min(low + 2**17, edges[k + 1])))

    return lambda: [None for _ in pool.map(one, range(count))] and None


def fill(size: int) -> Callable[[], None]:
    """Return a call that fills `size` doubles whose pages were touched before."""
    out = np.zeros(size)
    return _shared(lambda part: out[part].fill(1.0), size)


def triad(size: int) -> Callable[[], None]:
    """Return a call that computes ``a = b + 3 c`` of `size` doubles."""
    a, b, c = np.zeros(size), np.ones(size), np.ones(size)

    def work(part: slice) -> None:
        np.multiply(c[part], 3.0, out=a[part])
        np.add(a[part], b[part], out=a[part])

    return _shared(work, size)


def read(size: int) -> Callable[[], None]:
    """Return a call that reads `size` doubles once."""
    given = np.ones(size)
    return _shared(lambda part: given[part].max(), size)


def product(n: int, rows: int, columns: int) -> Callable[[], None]:
    """Return a call that multiplies matrices of ``rows x n`` and ``n x columns``."""
    a, b, out = np.ones((rows, n)), np.ones((n, columns)), np.zeros((rows, columns))
    return lambda: np.matmul(a, b, out=out) is None or None
