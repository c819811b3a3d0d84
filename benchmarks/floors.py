"""Lower bounds of time on this machine: memory on all cores, products, calls of NumPy, and machine code alone.

Filling and reading use the arrays of the workload and the threads of the package: the rate depends on where an array
lies in memory, and threads that sleep may wake up on one processor.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from linsolve.engines.blocks import Blocks, _Bench, _choose
from linsolve.engines.compiled import Compiled
from linsolve.engines.plan import Tile, tiles
from linsolve.numerics.threads import processors, shared

__all__ = ["calls", "fill", "loop", "processors", "product", "read", "sigmoids", "triad"]

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


def loop(made: Compiled) -> Callable[[], Any]:
    """Return a call of the machine code of all tiles, in which all times of a member are one number, in the cache."""
    rows = threading.local()

    def work(tile: Tile) -> None:
        if len(getattr(rows, "row", ())) < tile.shape[2]:
            rows.row = np.zeros(tile.shape[2])
        made(tile, {name: as_strided(rows.row, tile.shape, (0, 0, 8)) for name in made.program.outputs})

    return lambda: shared(work, made.tiles())


def sigmoids(rates: np.ndarray, shares: np.ndarray, values: np.ndarray, times: np.ndarray) -> Callable[[], Any]:
    """Return a call of NumPy's operations of W1 alone: ``values / (shares + (1 - shares) exp(-rates times))``.

    All times of some members are written to one row, in the cache.
    """
    count = max(1, rates.size // 2**14)
    parts = list(zip(*(np.array_split(v, count) for v in (rates, shares, 1 - shares, values)), strict=True))

    def work(part: tuple[np.ndarray, ...]) -> None:
        rate, share, rest, value = part
        row = np.empty(rate.size)
        for t in times:
            np.exp(np.multiply(rate, -t, out=row), out=row)
            np.divide(value, np.add(share, np.multiply(rest, row, out=row), out=row), out=row)

    return lambda: shared(work, parts)


def calls(made: Blocks, u: np.ndarray, w: np.ndarray, out: dict[str, np.ndarray]) -> Callable[[], Any]:
    """Return a call that makes NumPy's calls of W3 alone, in loops that do nothing else, and fills the arrays of `out`.

    These are the sums of the weights, in blocks that fit the cache, the steps of the members, and on all threads the
    steps of all times.
    """
    rows = max(1, 2**16 // u.shape[1])
    blocks = [(u[k : k + rows], w[k : k + rows]) for k in range(0, len(u), rows)]
    sums = [(np.vecdot, pair, {}) for a, b in blocks for pair in ((a, a), (b, b), (a, b))]
    (whole,) = tiles((1, *made.grid.shape[1:]), len(u))
    first = _Bench(made.plan, len(u))
    first.prepare(whole, made.grid, made.early, {})
    members = _listed(first, first._calls(whole, made.plan.member, False))
    times: list[list[tuple]] = []
    for tile in made.tiles():
        bench = _Bench(made.plan, tile.shape[1] * tile.shape[2])
        bench.prepare(tile, made.grid, made.early, made.kept)
        bench.run(tile, {name: tile.of(v) for name, v in out.items()})
        times.append([call for stage in bench.stages for call in _listed(bench, bench._calls(tile, stage.steps, True))])

    def work(listed: list[tuple]) -> None:
        for function, given, into in listed:
            function(*given, **into)

    for v in out.values():
        v.fill(0)

    def all_calls() -> dict[str, np.ndarray]:
        with np.errstate(all="ignore"):
            work(sums)
            work(members)
            shared(work, times)
        return {name: v.reshape(v.shape[0], -1) for name, v in out.items()}

    return all_calls


def _listed(bench: _Bench, steps: list[tuple]) -> list[tuple]:
    """Return function, arguments and output of each call."""
    found, values = [], bench.values
    for function, k, args, out in steps:
        if function is not None:
            into = {} if function is _choose else {"out": values[k] if out is None else out}
            found.append((function, tuple(values[a] for a in args), into))
    return found
