"""Axes of a sweep and the grid spanned by them, in blocks and tiles."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic

__all__ = ["Axis", "Block", "Grid", "free_name", "read_axes", "refuse_large"]

TILE = 16384  # cells per evaluation: enough to amortize checks, few enough to fit a cache
BLOCK = 65536  # cells of a task, enough to amortize scheduling
MOST_HELD = 2**28  # largest number of cells in memory: 2 GiB per value
MOST = 10**11  # largest number of cells: one day at a microsecond per cell
SHARE = 64  # least number of blocks of a large grid, so that every worker gets work


class Axis(NamedTuple):
    """Axis of a sweep or a phase diagram.

    Parameters
    ----------
    name : str
        Name of the parameter.
    values : array, shape (n,)
        Values of the parameter.
    label : str
        Axis label in a figure, with formulas in TeX; the name by default.
    meaning : str
        Meaning of the parameter, if known.
    log : bool, optional
        Whether the axis is drawn on a logarithmic scale; by default if its values are more evenly spaced on that scale.

    Examples
    --------
    >>> import numpy as np
    >>> Axis("width", np.array([1.0, 10.0, 100.0]), log=True).cell([1.0, 100.0]).round(6).tolist()
    [0.0, 2.0]
    """

    name: str
    values: np.ndarray
    label: str = ""
    meaning: str = ""
    log: bool | None = None

    def record(self) -> str:
        """Return the number of values, the first and the last, and a hash of all."""
        digest = hashlib.sha256(self.values.tobytes()).hexdigest()[:16]
        first, last = self.values[0], self.values[-1]
        return f"{len(self.values)} values of {self.values.dtype}, {first} to {last}, sha256 {digest}"

    @property
    def logarithmic(self) -> bool:
        """Whether the axis is drawn on a logarithmic scale."""
        if self.log is not None:
            return self.log
        values = np.sort(self.values)
        if len(values) < 3 or values[0] <= 0:
            return False
        plain, log = np.diff(values), np.diff(np.log(values))
        return bool(np.ptp(log) / log.mean() < np.ptp(plain) / plain.mean() - 1e-6)

    def edges(self) -> np.ndarray:
        """Return the edges of cells around the points, halfway between neighbors in the scale of the axis."""
        values = np.sort(self.values)
        values = np.log(values) if self.logarithmic else values
        middle = (values[1:] + values[:-1]) / 2
        edges = np.concatenate([[2 * values[0] - middle[0]], middle, [2 * values[-1] - middle[-1]]])
        return np.exp(edges) if self.logarithmic else edges

    def cell(self, points: Any) -> np.ndarray:
        """Return the positions of points on an evenly spaced axis, in cells from its first value."""
        grid, points = (np.log(v) if self.logarithmic else np.asarray(v, dtype=float) for v in (self.values, points))
        return (points - grid[0]) / (grid[-1] - grid[0]) * (len(grid) - 1)


class Block(NamedTuple):
    """Rectangle of the grid: its number, its start and stop along each axis, and the values of the axes in it."""

    number: int
    start: tuple[int, ...]
    stop: tuple[int, ...]
    values: dict[str, np.ndarray]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells along each axis."""
        return tuple(b - a for a, b in zip(self.start, self.stop, strict=True))

    @property
    def where(self) -> tuple[slice, ...]:
        """Slices of the block in the grid."""
        return tuple(slice(a, b) for a, b in zip(self.start, self.stop, strict=True))

    def __str__(self) -> str:
        """Return the block's ranges of parameters."""
        parts = []
        for (name, values), low, high in zip(self.values.items(), self.start, self.stop, strict=True):
            ends = f"{values[0]:g}" if len(values) == 1 else f"{values[0]:g} to {values[-1]:g}"
            where = f"index {low}" if len(values) == 1 else f"index {low} to {high - 1}"
            parts.append(f"{name} = {ends} ({where})")
        return ", ".join(parts)


class Grid(Sequence):
    """Lazy sequence of the blocks of a grid, in row-major order.

    Parameters
    ----------
    axes : sequence of Axis
    block : int, optional
        Approximate number of cells per block.
    whole_tiles : bool
        Whether a block must consist of whole tiles, because each tile has its own random numbers.
    """

    def __init__(self, axes: Sequence[Axis], block: int | None, whole_tiles: bool) -> None:
        self.axes = tuple(axes)
        self.shape = tuple(len(axis.values) for axis in axes)
        size = math.prod(self.shape)
        share = max(1, size // SHARE)
        # tiles depend only on the grid, not on blocks or executor
        self.tile = _rectangle(self.shape, min(TILE, share))
        self.block = _rectangle(self.shape, min(BLOCK, share) if block is None else block)
        if whole_tiles or math.prod(self.block) > math.prod(self.tile):
            self.block = _rounded(self.block, self.tile, self.shape)
        else:
            self.tile = self.block
        self.counts = _counts(self.shape, self.block)

    def __len__(self) -> int:
        return math.prod(self.counts)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index = int(index) % len(self)
        place = np.unravel_index(index, self.counts)
        start = tuple(int(k) * b for k, b in zip(place, self.block, strict=True))
        stop = tuple(min(a + b, n) for a, b, n in zip(start, self.block, self.shape, strict=True))
        parts = zip(self.axes, start, stop, strict=True)
        return Block(index, start, stop, {axis.name: axis.values[a:b] for axis, a, b in parts})


def tiles(block: Block, tile: tuple[int, ...], shape: tuple[int, ...]) -> Iterator[tuple[int, tuple[slice, ...]]]:
    """Yield the number (in the grid) and the slices (in the block) of each tile of a block."""
    counts = _counts(shape, tile)
    ranges = [range(a, b, step) for a, b, step in zip(block.start, block.stop, tile, strict=True)]
    for corner in itertools.product(*ranges):
        number = int(np.ravel_multi_index([c // step for c, step in zip(corner, tile, strict=True)], counts))
        parts = zip(corner, tile, block.start, block.stop, strict=True)
        yield number, tuple(slice(c - a, min(c + step, b) - a) for c, step, a, b in parts)


def _counts(shape: tuple[int, ...], part: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(-(-n // p) for n, p in zip(shape, part, strict=True))


def _rectangle(shape: tuple[int, ...], cells: int) -> tuple[int, ...]:
    """Return the shape of a part of a grid with about `cells` cells, contiguous in row-major order."""
    part = [1] * len(shape)
    for k in reversed(range(len(shape))):
        part[k] = min(shape[k], max(1, cells))
        # equal parts, without a smaller remainder
        part[k] = -(-shape[k] // -(-shape[k] // part[k]))
        cells //= shape[k]
    return tuple(part)


def _rounded(block: tuple[int, ...], tile: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a block's shape, rounded up to whole tiles."""
    return tuple(min(n, -(-b // t) * t) for b, t, n in zip(block, tile, shape, strict=True))


def refuse_large(who: str, shape: tuple[int, ...], stored: bool) -> None:
    """Raise if a grid has more cells than fit in memory or can be evaluated in a day; the error suggests a fix.

    Raises
    ------
    ValueError
    """
    cells = math.prod(shape)
    if cells <= (MOST if stored else MOST_HELD):
        return
    spans = f"{who}: axes span {' x '.join(map(str, shape))} = {cells:.3g} cells"
    if cells <= MOST:
        raise ValueError(
            f"{spans}, whose values need {8 * cells / 2**30:.3g} GiB of memory each, but at most "
            f"{MOST_HELD:.3g} are held (grid); give store='sweep.zarr' (extra [store]), or fewer cells"
        )
    raise ValueError(
        f"{spans}, which take {cells * 1e-6 / 86400:.3g} days at a microsecond each, but must be at most {MOST:.3g} "
        "(grid); give fewer cells"
    )


def free_name(name: Any) -> bool:
    """Return whether a name is valid for an array of a store: printable, no path, not reserved by zarr."""
    good = isinstance(name, str) and name.isprintable() and not set(name) & set('/\\:*?"<>|')
    return good and bool(name) and not name.startswith((".", "_")) and name.lower() != "zarr.json"


def read_axes(who: str, axes: Mapping[str, Any], labels: Mapping[str, tuple[str, str]]) -> tuple[Axis, ...]:
    """Return the checked axes of a sweep.

    Parameters
    ----------
    who : str
    axes : mapping of name to values or (label, values)
    labels : mapping of name to (label, meaning)
        Labels and meanings of the parameters, if known.

    Raises
    ------
    TypeError, ValueError
    """
    if not axes:
        raise ValueError(f"{who}: axes = none, but at least one is needed (varied parameters); say sigma=[0.1, 0.2]")
    return tuple(_axis(who, name, given, *labels.get(name, (name, ""))) for name, given in axes.items())


def _axis(who: str, name: str, given: Any, label: str, meaning: str) -> Axis:
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str):
        label, given = given
    about = meaning or "axis of the grid"
    if not free_name(name):
        raise ValueError(f"{who}: axis = {name!r} must be printable, without / or \\ (its name in a store); rename it")
    try:
        values = np.array(arithmetic.to_numpy(given))
    except ValueError as error:
        raise TypeError(
            f"{who}: {name} = {given!r} is not a rectangular array ({about}); make its rows equal in length"
        ) from error
    if values.dtype.kind not in "iuf":
        raise TypeError(f"{who}: {name} is made of {values.dtype}, not of real numbers ({about}); pass floats")
    if values.ndim != 1:
        hint = "fix it with ensembles.of or functools.partial" if values.ndim == 0 else "give distinct values in a row"
        raise ValueError(f"{who}: {name} has shape {values.shape} but needs one axis ({about}); {hint}")
    if values.size == 0:
        raise ValueError(f"{who}: {name} has shape (0,), which is empty ({about}); give at least one value")
    if np.ma.is_masked(given):
        raise ValueError(f"{who}: {name} has masked entries ({about}); give its compressed() values")
    if values.dtype.kind == "f":
        with np.errstate(over="ignore"):
            doubles = values.astype(np.float64)
        if (bad := np.isnan(doubles) | (np.isinf(doubles) != np.isinf(values))).any():
            which = f"{name} = {values[bad.argmax()]!s} at index {bad.argmax()}"
            raise ValueError(f"{who}: {which} is not a number that a double holds ({about}); remove it")
        values = doubles
    elif values.dtype.itemsize < 8:  # products would overflow silently
        values = values.astype(np.int64)
    values.flags.writeable = False  # workers share views of it
    return Axis(name, values, label, meaning)
