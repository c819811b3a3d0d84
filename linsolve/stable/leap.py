"""The flow map of the matrix Riccati equation in one leap from the start, for all times and networks at once.

The state at time t is ``P = R R^T`` with ``R = basis c^-1 q (1 + q^T (n/c) q)^(-1/2)``. Weights n/c span hundreds of
orders of magnitude, but rows of `q` are sorted by them and in staircase form: in each column nothing stands above the
first nonzero entry, which in the end outweighs the rest. So the bracket is graded by columns, and with columns scaled
to a unit diagonal it is well-conditioned, unless the start is nearly deficient among modes of nearly equal weight. A
Cholesky factor is as accurate as that scaled matrix is well-conditioned, whatever the scaling (Demmel, "On floating
point errors in Cholesky", 1989). The trace of its inverse bounds that, and is measured at every time of every network.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.stable.frame import Frame
from linsolve.stable.scalar import integral_of_decay
from linsolve.stable.steps import carried, log_flow_map
from linsolve.stable.threads import processors, shared
from linsolve.stable.triangular import factored, inverted

__all__ = ["leap"]

# numbers in one block of matrices: they stay in cache; a device wants more at a time
CACHED, DEVICE = 2**16, 2**24
# from this number of blocks on they are shared among threads, unless the caller is a thread among others itself
SHARED = 8
# exponents up to here are multiplied out, beyond they are kept as logarithms
FAR = 300
# networks with more inputs and outputs are the business of a library
COMPILED = 64


class _Start(NamedTuple):
    """A start and, for each column of `q`, where it begins, with which magnitude, and that logarithm.

    Of the basis the number of pairs of columns ``(v, u)``, ``(v, -u)``, if all that have partners are such, else 0.
    """

    seen: Frame
    first: Any
    size: Any
    log: Any
    pace: Any
    halved: int


def leap(xp: Any, t: Any, seen: Frame, n_in: int, *, compiled: bool = False) -> tuple[Any, Any, Any, Any]:
    """Return product and Gram matrices at finite times `t`, not zero, and how well-conditioned each was.

    Parameters
    ----------
    xp : namespace
    t : array, shape (times, members)
    seen : Frame
        Members along one leading axis.
    n_in : int
    compiled : bool, optional
        Whether small networks without `spread` are left to `linsolve.stable.leap_compiled` (NumPy, extra ``[fast]``).

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
    start = _started(xp, seen, n_in)

    def empty(rows: int) -> list[Any]:
        return [xp.empty((rows, members, *own), dtype=xp.float64) for own in shapes]

    out = empty(count)
    near = _compilable(t, start) if compiled else np.zeros(count, dtype=bool)
    if not near.any():
        _plainly(xp, t, start, n_in, out)
    elif near.all():
        _compiled(t, start, n_in, out)
    else:
        for rows, way in ((near, _compiled), (~near, partial(_plainly, xp))):
            way(t[rows], start, n_in, part := empty(int(rows.sum())))
            for whole, piece in zip(out, part, strict=True):
                whole[rows] = piece
    return out[0], out[1], out[2], out[3]


def _plainly(xp: Any, t: Any, start: _Start, n_in: int, out: list[Any]) -> None:
    def fill(block: tuple[_Start, slice, slice]) -> None:
        part, rows, columns = block
        found = _block(xp, t[rows, columns], part, n_in)
        for whole, piece in zip(out, found, strict=True):
            whole[rows, columns, ...] = piece

    blocks = list(_blocks(xp, start, t.shape[0]))
    shared(fill, blocks, xp is np and len(blocks) >= SHARED)


def _compilable(t: np.ndarray, start: _Start) -> np.ndarray:
    """Return at which times the compiled kernel can be used for all members."""
    if start.seen.q.shape[-2] > COMPILED or (start.seen.spread > 0).any():
        return np.zeros(t.shape[0], dtype=bool)
    return (t * start.pace).max(axis=1) < FAR


def _compiled(t: np.ndarray, start: _Start, n_in: int, out: list[np.ndarray]) -> None:
    from linsolve.stable.leap_compiled import fill

    seen = start.seen
    first = np.argmax(start.first, axis=-2)
    given = [seen.basis, seen.rate, seen.q, seen.root, first, start.size, start.pace]
    given = [np.ascontiguousarray(a) for a in given]
    members = t.shape[1]
    ends = np.linspace(0, members, min(members, 4 * processors()) + 1).astype(int).tolist()
    parts = list(itertools.pairwise(ends))
    t = np.ascontiguousarray(t)
    shared(lambda part: fill(t, tuple(given), n_in, start.halved, part, tuple(out)), parts, len(parts) > 1)


def _started(xp: Any, seen: Frame, n_in: int) -> _Start:
    size = xp.abs(seen.q)
    row = xp.reshape(xp.arange(size.shape[-2]), (-1, 1))
    first = xp.argmax(xp.astype(size > 0, xp.int64), axis=-2, keepdims=True) == row
    first = xp.astype(first, xp.float64)
    begin = xp.sum(first * size, axis=-2)
    safe = xp.where(begin > 0, begin, xp.ones_like(begin))
    log = xp.where(begin > 0, xp.log(safe), xp.full_like(safe, -(10**300)))
    pace = xp.max(xp.hypot(seen.rate, xp.sqrt(seen.spread)[..., None]), axis=-1)
    return _Start(seen, first, begin, log, pace, _halved(xp, seen.basis, n_in))


def _halved(xp: Any, basis: Any, n_in: int) -> int:
    n = basis.shape[-1]
    k = min(n_in, n - n_in)
    rising, falling = basis[..., :k], basis[..., ::-1][..., :k]
    top = xp.all(rising[..., :n_in, :] == falling[..., :n_in, :])
    return k if bool(top & xp.all(rising[..., n_in:, :] == -falling[..., n_in:, :])) else 0


def _blocks(xp: Any, start: _Start, count: int) -> Iterator[tuple[_Start, slice, slice]]:
    """Yield members, with their slice of times and of members, in blocks."""
    members, n, r = start.seen.q.shape
    room = max(1, (CACHED if xp is np else DEVICE) // (n * r))
    wide = min(members, room)
    high = max(1, room // wide)
    for j in range(0, members, wide):
        columns = slice(j, min(j + wide, members))
        first, size, log, pace = (a[columns, ...] for a in (start.first, start.size, start.log, start.pace))
        seen = Frame(*(a[columns, ...] for a in start.seen))
        part = _Start(seen, first, size, log, pace, start.halved)
        for i in range(0, count, high):
            yield part, slice(i, min(i + high, count)), columns


def _block(xp: Any, t: Any, start: _Start, n_in: int) -> tuple[Any, Any, Any, Any]:
    seen, turned = start.seen, xp.matrix_transpose
    scaled, lean, column = (_near if _is_near(t, start) else _far)(xp, t, start)
    bracket = turned(scaled) @ scaled + (column * column)[..., None] * xp.eye(column.shape[-1])
    factor = factored(xp, bracket)
    inverse = inverted(xp, factor)
    trace = xp.sum(xp.sum(inverse * inverse, axis=-2) * xp.linalg.diagonal(bracket), axis=-1)
    sound = xp.all(xp.linalg.diagonal(factor) > 0, axis=-1)  # some libraries do not say where they failed
    excess = xp.where(sound, trace - column.shape[-1], xp.inf * xp.ones_like(trace))
    q = (scaled * lean[..., None]) @ turned(inverse)
    short = start.pace * t < 1 / 2
    late = not arithmetic.to_numpy(short).any()
    if late:
        top, bottom = _blocks_of(xp, start, q, n_in)
    else:
        root = carried(xp, t, short, seen.q, seen.root, q, column[..., None] * turned(inverse), seen)
        top, bottom = root[..., :n_in, :], root[..., n_in:, :]
    if (arithmetic.to_numpy(seen.spread) > 0).any():
        fed = _fed(xp, t, seen)
        top = xp.concat([top, fed[..., :n_in, :]], axis=-1)
        bottom = xp.concat([bottom, fed[..., n_in:, :]], axis=-1)
    x, z = top @ turned(top), bottom @ turned(bottom)
    if xp is not np:  # NumPy knows that these are symmetric, and computes half of them
        x, z = (x + turned(x)) / 2, (z + turned(z)) / 2
    return bottom @ turned(top), x, z, excess


def _blocks_of(xp: Any, start: _Start, q: Any, n_in: int) -> tuple[Any, Any]:
    """Return inputs and outputs of ``basis q``, at half the cost where the basis is ``(v, v; u, -u)``."""
    basis, k = start.seen.basis, start.halved
    if k == 0:
        root = basis @ q
        return root[..., :n_in, :], root[..., n_in:, :]
    n = basis.shape[-1]
    rising, falling = q[..., :k, :], q[..., ::-1, :][..., :k, :]
    top, bottom = rising + falling, rising - falling
    if n > 2 * k:
        other = q[..., k : n - k, :]
        top, bottom = xp.concat([top, other], axis=-2), xp.concat([bottom, other], axis=-2)
    return basis[..., :n_in, : n - k] @ top, basis[..., n_in:, : n - k] @ bottom


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
