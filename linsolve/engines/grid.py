"""Times and members of an ensemble as a grid of three axes, and its division into tiles."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

__all__ = ["COLUMN", "ROW", "TIME", "Grid", "Tile", "grid_of", "tiles"]

TIME, ROW, COLUMN = 1, 2, 4
_NARROW = 64  # columns, below which two axes of members are better copied into one


class Tile(NamedTuple):
    """A box of the grid: times, rows and columns, each from and to."""

    t0: int
    t1: int
    r0: int
    r1: int
    c0: int
    c1: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Its extent."""
        return self.t1 - self.t0, self.r1 - self.r0, self.c1 - self.c0

    def of(self, array: Any) -> Any:
        """Return the part of an array of three axes, of which some may have length 1, that belongs to the tile."""
        ends = ((self.t0, self.t1), (self.r0, self.r1), (self.c0, self.c1))
        return array[tuple(slice(*end) if n > 1 else slice(None) for end, n in zip(ends, array.shape, strict=True))]


class Grid(NamedTuple):
    """Times, rows and columns of members, and what is given on them.

    The batch axes of an ensemble, as far as its inputs vary along the same of them, count as one; if more than two
    remain, the inputs are copied to one. A single member takes its times as the columns.

    Parameters
    ----------
    shape : tuple of int
        Times, rows, columns.
    given : dict of str to array
        Each input by name, of three axes, of which those along which it does not vary have length 1; or a number.
    """

    shape: tuple[int, int, int]
    given: dict[str, Any]

    def axes(self, name: str) -> int:
        """Return along which axes an input varies, as a sum of `TIME`, `ROW` and `COLUMN`."""
        shape = np.shape(self.given[name])
        return sum(axis for axis, n in zip((TIME, ROW, COLUMN), shape, strict=False) if n > 1)


def grid_of(t: np.ndarray, members: Mapping[str, np.ndarray], batch: tuple[int, ...]) -> Grid:
    """Return the grid of times (any shape) and members, arrays that broadcast to `batch`."""
    count, size = t.size, math.prod(batch)
    given: dict[str, Any] = {
        name: v if v.ndim == 0 else v.reshape(1, 1, 1) for name, v in members.items() if v.size == 1
    }
    if size == 1:
        clock = t if t.ndim == 0 and not batch else t.reshape(1, 1, count)
        return Grid((1, 1, count), {**given, "t": clock})
    wide = {name: v.reshape((1,) * (len(batch) - v.ndim) + v.shape) for name, v in members.items() if v.size > 1}
    lengths = _merged(batch, [v.shape for v in wide.values()])
    if len(lengths) > 2 or (len(lengths) == 2 and lengths[1] < _NARROW):
        lengths = [size]
        wide = {name: np.broadcast_to(v, batch) for name, v in wide.items()}
    rows, columns = [1, *lengths][-2:]
    for name, v in wide.items():
        given[name] = _on(v, batch, rows, columns)
    return Grid((count, rows, columns), {**given, "t": t.reshape(count, 1, 1)})


def _merged(batch: tuple[int, ...], shapes: list[tuple[int, ...]]) -> list[int]:
    """Return the lengths of the batch axes after neighbors along which the same inputs vary have been merged."""
    found: list[list[Any]] = []
    for axis, n in enumerate(batch):
        if n > 1:
            vary = [shape[axis] > 1 for shape in shapes]
            if found and found[-1][1] == vary:
                found[-1][0] *= n
            else:
                found.append([n, vary])
    return [n for n, _ in found]


def _on(v: np.ndarray, batch: tuple[int, ...], rows: int, columns: int) -> np.ndarray:
    if v.size == rows * columns:
        return np.ascontiguousarray(v).reshape(1, rows, columns)
    # what varies varies along all of the first axes, or all of the last
    return np.ascontiguousarray(v).reshape((1, 1, columns) if v.size == columns and _last(v, batch) else (1, rows, 1))


def _last(v: np.ndarray, batch: tuple[int, ...]) -> bool:
    axis = max(k for k, n in enumerate(batch) if n > 1)
    return v.shape[axis] > 1


def tiles(shape: tuple[int, int, int], members: int, times: int | None = None) -> Iterator[Tile]:
    """Divide a grid into tiles of about `members` members and, unless None, at most `times` times, members first."""
    count, rows, columns = shape
    wide = min(columns, members)
    high = max(1, min(rows, members // wide))
    long = count if times is None else times
    for r in range(0, rows, high):
        for c in range(0, columns, wide):
            for k in range(0, count, long):
                yield Tile(k, min(k + long, count), r, min(r + high, rows), c, min(c + wide, columns))
