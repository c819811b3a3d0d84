"""The flow map of the matrix Riccati equation in one leap from the start, for all times and networks at once.

The state at time t is ``P = R R^T`` with ``R = basis c^-1 q (1 + q^T (n/c) q)^(-1/2)``. Weights n/c span hundreds of
orders of magnitude, but rows of `q` are sorted by them and in staircase form: in each column nothing stands above the
first nonzero entry, which in the end outweighs the rest. So the bracket is graded by columns, and with columns scaled
to a unit diagonal it is well-conditioned, unless the start is nearly deficient among modes of nearly equal weight. A
Cholesky factor is as accurate as that scaled matrix is well-conditioned, whatever the scaling (Demmel, "On floating
point errors in Cholesky", 1989). The trace of its inverse bounds that, and is measured at every time of every network.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.stable.frame import Frame
from linsolve.stable.scalar import integral_of_decay
from linsolve.stable.steps import carried, log_flow_map

__all__ = ["RELIABLE", "leap"]

# numbers in one block of matrices: they stay in cache; a device wants more at a time
CACHED, DEVICE = 2**16, 2**24
# from this number of blocks on they are shared among threads, unless the caller is a thread among others itself
SHARED = 8
# up to this excess the leap loses less than 1e-13 (tests/test_matrix_leap.py)
RELIABLE = 256
# exponents up to here are multiplied out, beyond they are kept as logarithms
FAR = 300
# triangular factors of this size are inverted as they are, larger ones by halves
SMALL = 6


class _Start(NamedTuple):
    """A start and, for each column of `q`, where it begins, with which magnitude, and that logarithm."""

    seen: Frame
    first: Any
    size: Any
    log: Any
    pace: Any


def leap(xp: Any, t: Any, seen: Frame, n_in: int) -> tuple[Any, Any, Any, Any]:
    """Return product and Gram matrices at finite times `t`, not zero, and how well-conditioned each was.

    Parameters
    ----------
    xp : namespace
    t : array, shape (times, members)
    seen : Frame
        Members along one leading axis.
    n_in : int

    Returns
    -------
    product, gram_in, gram_out : array, shape (times, members) + own
    excess : array, shape (times, members)
        Trace of the inverse of the scaled bracket less its size, 0 for a diagonal one; a condition number is at most
        the size times their sum. Infinite where a bracket could not be factored.
    """
    count, members = t.shape
    n = seen.q.shape[-2]
    shapes = ((n - n_in, n_in), (n_in, n_in), (n - n_in, n - n_in), ())
    out = [xp.empty((count, members, *own), dtype=xp.float64) for own in shapes]

    def fill(block: tuple[_Start, slice, slice]) -> None:
        part, rows, columns = block
        found = _block(xp, t[rows, columns], part, n_in)
        for whole, piece in zip(out, found, strict=True):
            whole[rows, columns, ...] = piece

    blocks = list(_blocks(xp, _started(xp, seen), count))
    if xp is np and len(blocks) >= SHARED and threading.current_thread() is threading.main_thread():
        with ThreadPoolExecutor(max_workers=_processors()) as pool:
            list(pool.map(fill, blocks))
    else:
        for block in blocks:
            fill(block)
    return out[0], out[1], out[2], out[3]


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _started(xp: Any, seen: Frame) -> _Start:
    size = xp.abs(seen.q)
    row = xp.reshape(xp.arange(size.shape[-2]), (-1, 1))
    first = xp.argmax(xp.astype(size > 0, xp.int64), axis=-2, keepdims=True) == row
    first = xp.astype(first, xp.float64)
    begin = xp.sum(first * size, axis=-2)
    safe = xp.where(begin > 0, begin, xp.ones_like(begin))
    log = xp.where(begin > 0, xp.log(safe), xp.full_like(safe, -(10**300)))
    pace = xp.max(xp.hypot(seen.rate, xp.sqrt(seen.spread)[..., None]), axis=-1)
    return _Start(seen, first, begin, log, pace)


def _blocks(xp: Any, start: _Start, count: int) -> Iterator[tuple[_Start, slice, slice]]:
    """Yield members, with their slice of times and of members, in blocks."""
    members, n, r = start.seen.q.shape
    room = max(1, (CACHED if xp is np else DEVICE) // (n * r))
    wide = min(members, room)
    high = max(1, room // wide)
    for j in range(0, members, wide):
        columns = slice(j, min(j + wide, members))
        seen, *others = start
        part = _Start(Frame(*(a[columns, ...] for a in seen)), *(a[columns, ...] for a in others))
        for i in range(0, count, high):
            yield part, slice(i, min(i + high, count)), columns


def _block(xp: Any, t: Any, start: _Start, n_in: int) -> tuple[Any, Any, Any, Any]:
    seen, turned = start.seen, xp.matrix_transpose
    scaled, lean, column = (_near if _is_near(t, start) else _far)(xp, t, start)
    bracket = turned(scaled) @ scaled + (column * column)[..., None] * xp.eye(column.shape[-1])
    factor = _factor(xp, bracket)
    inverse = _inverted(xp, factor)
    trace = xp.sum(xp.sum(inverse * inverse, axis=-2) * xp.linalg.diagonal(bracket), axis=-1)
    sound = xp.all(xp.linalg.diagonal(factor) > 0, axis=-1)  # some libraries do not say where they failed
    excess = xp.where(sound, trace - column.shape[-1], xp.inf * xp.ones_like(trace))
    q = (scaled * lean[..., None]) @ turned(inverse)
    root = seen.basis @ q
    short = start.pace * t < 1 / 2
    if arithmetic.to_numpy(short).any():
        root = carried(xp, t, short, seen.q, seen.root, q, column[..., None] * turned(inverse), seen)
    if (arithmetic.to_numpy(seen.spread) > 0).any():
        root = xp.concat([root, _fed(xp, t, seen)], axis=-1)
    top, bottom = root[..., :n_in, :], root[..., n_in:, :]
    x, z = top @ turned(top), bottom @ turned(bottom)
    if xp is not np:  # NumPy knows that these are symmetric, and computes half of them
        x, z = (x + turned(x)) / 2, (z + turned(z)) / 2
    return bottom @ turned(top), x, z, excess


def _is_near(t: Any, start: _Start) -> bool:
    return bool((arithmetic.to_numpy(t) * arithmetic.to_numpy(start.pace)).max() < FAR)


def _near(xp: Any, t: Any, start: _Start) -> tuple[Any, Any, Any]:
    """Return weighed rows, with columns scaled; what weighs a row of the state against that; the columns' scales."""
    seen = start.seen
    if (arithmetic.to_numpy(seen.spread) > 0).any():
        weigh, lean = (xp.exp(a) for a in log_flow_map(xp, t, seen.rate, seen.spread))
    else:
        half = xp.sqrt(integral_of_decay(xp, t[..., None], 2 * seen.rate))
        up = xp.exp(seen.rate * t[..., None])
        rising = seen.rate > 0
        weigh, lean = xp.where(rising, up * half, half), xp.where(rising, xp.ones_like(up), up) / half
    column = start.size * (weigh[..., None, :] @ start.first)[..., 0, :]
    column = 1 / xp.where(column > 1, column, xp.ones_like(column))
    return seen.q * weigh[..., None] * column[..., None, :], lean, column


def _far(xp: Any, t: Any, start: _Start) -> tuple[Any, Any, Any]:
    """Return the same from logarithms: nothing in a column weighs more than its first row."""
    seen = start.seen
    weigh, lean = log_flow_map(xp, t, seen.rate, seen.spread)
    first = (weigh[..., None, :] @ start.first)[..., 0, :]
    level = first + start.log
    size = xp.where(start.size > 0, start.size, xp.ones_like(start.size))
    less = xp.where(level < 0, level, 0 * level)
    apart = weigh[..., None] - first[..., None, :]
    scaled = seen.q / size[..., None, :] * xp.exp(xp.where(apart < 0, apart, 0 * apart) + less[..., None, :])
    return scaled, xp.exp(lean), xp.exp(less - level)


def _fed(xp: Any, t: Any, seen: Frame) -> Any:
    """Return the root of the second term of the formula, ``spread n/c``."""
    spread = seen.spread[..., None]
    safe = xp.where(spread > 0, spread, xp.ones_like(spread))
    weigh, _ = log_flow_map(xp, t, seen.rate, seen.spread)
    fed = xp.where(spread > 0, xp.exp(xp.where(spread > 0, weigh + xp.log(safe) / 2, 0 * weigh)), 0 * weigh)
    return seen.basis * fed[..., None, :]


def _factor(xp: Any, bracket: Any) -> Any:
    """Return Cholesky factors, not a number where a bracket is singular to rounding."""
    try:
        return xp.linalg.cholesky(bracket)
    except np.linalg.LinAlgError:
        axis = next((k for k, size in enumerate(bracket.shape[:-2]) if size > 1), None)
        if axis is None:
            return xp.full_like(bracket, xp.nan)
        half = bracket.shape[axis] // 2
        lead = (slice(None),) * axis
        parts = (bracket[*lead, :half, ...], bracket[*lead, half:, ...])
        return xp.concat([_factor(xp, part) for part in parts], axis=axis)


def _inverted(xp: Any, factor: Any) -> Any:
    """Return the inverse of lower triangular matrices, by halves: ``[[A, 0], [C, D]]`` has ``-D^-1 C A^-1`` below."""
    n = factor.shape[-1]
    if n <= SMALL:
        return xp.linalg.inv(factor)
    half = n // 2
    above, below = factor[..., :half, :half], factor[..., half:, half:]
    if n % 2 == 0:
        pair = _inverted(xp, xp.stack([above, below]))
        above, below = pair[0, ...], pair[1, ...]
    else:
        above, below = _inverted(xp, above), _inverted(xp, below)
    inverse = xp.zeros_like(factor)
    inverse[..., :half, :half] = above
    inverse[..., half:, half:] = below
    inverse[..., half:, :half] = -below @ (factor[..., half:, :half] @ above)
    return inverse
