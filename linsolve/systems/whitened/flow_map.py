"""The flow map of the matrix Riccati equation from the initial state to any time, for all times and networks at once.

In the notation of `matrix_riccati`, the state at time t is ``P = R R^T`` with
``R = basis c^-1 q (1 + q^T (n/c) q)^(-1/2)``. The weights n/c span hundreds of orders of magnitude. Rows of `q` are
sorted by weight and in echelon form, so that the first nonzero entry of each column has the largest weight. The matrix
``1 + q^T (n/c) q``, called the bracket in this package, is therefore graded by columns: with columns scaled to a unit
diagonal it is well-conditioned, unless the initial state is nearly rank-deficient among modes of nearly equal weight.
The accuracy of a Cholesky factor depends only on the condition number of that scaled matrix (Demmel, "On floating point
errors in Cholesky", 1989). The trace of its inverse bounds the condition number. It is computed at every time of every
network.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.numerics.scalar import integral_of_decay
from linsolve.numerics.threads import shared
from linsolve.systems.whitened.buffers import KEPT, NORMAL, ROOT, Buffers
from linsolve.systems.whitened.composed_steps import gained, log_flow_map
from linsolve.systems.whitened.factorizations import factored, inverted
from linsolve.systems.whitened.flow_map_small import fill_small
from linsolve.systems.whitened.flow_map_start import Start
from linsolve.systems.whitened.start_frame import Frame

__all__ = ["far", "flow_map"]

# numbers in one block of matrices: a block fits into the cache; GPUs need larger blocks
CACHED, DEVICE = 2**16, 2**24
# number of blocks for which the weights are computed together
GROUP = 4
# smallest number of groups for several threads; a caller on a worker thread uses one
SHARED = 4
# largest exponent for which weights are stored directly, not as logarithms
FAR = 300
# most inputs and outputs of a network for the kernels for small networks; BLAS is faster for larger ones
LARGEST = 64
# largest rank of the states, and least number of times, for which `flow_map_small` is faster
SMALL, MANY = 24, 16
# smaller entries of a root are taken for zero if the layers are balanced: product and Gram matrices then have one size,
# and results below the square of ROOT are subnormal
NOTHING = 1e-290
# entries below ROOT are taken for zero if the logarithm of the leading entry of every column is larger
SLIGHT = -100
# smallest block of zeros that products skip
WIDE = 16


class _Weights(NamedTuple):
    """``sqrt(n/c)`` and ``1/c`` of each mode, and the scale of each column, at some times."""

    weigh: Any
    pull: Any
    column: Any

    def at(self, times: slice) -> _Weights:
        return _Weights(*(a[times, ...] for a in self))


def flow_map(xp: Any, t: Any, start: Start, *, compiled: bool = False) -> tuple[Any, Any, Any, Any]:
    """Return product and Gram matrices at finite times `t`, not zero, and the condition of each bracket.

    Parameters
    ----------
    xp : namespace
    t : array, shape (times, members)
    start : Start
        From `linsolve.systems.whitened.flow_map_start.prepared`, members along one leading axis.
    compiled : bool, optional
        Whether small networks with ``spread = 0`` use compiled code (`flow_map_compiled`; NumPy, extra ``[fast]``).

    Returns
    -------
    product, gram_in, gram_out : array, shape (times, members) + own
    excess : array, shape (times, members)
        Trace of the inverse of the scaled bracket minus its size, 0 for a diagonal bracket. The condition number is at
        most the size times the sum of size and excess. Infinite or nan where the factorization fails.
    """
    count, members = t.shape
    n, n_in = start.frame.q.shape[-2], start.inputs.shape[-1]
    shapes = ((n - n_in, n_in), (n_in, n_in), (n - n_in, n - n_in), ())
    if xp is not np:
        return _concatenated(xp, t, start)
    out = [np.empty((count, members, *own)) for own in shapes]
    quick, kernel = _quick(t, start, n_in, compiled)
    for low, high in itertools.pairwise([0, *(np.flatnonzero(np.diff(quick)) + 1).tolist(), count]):
        way = kernel if quick[low] and (compiled or high - low >= MANY) else _by_blocks
        way(t[low:high], start, [a[low:high] for a in out])
    return out[0], out[1], out[2], out[3]


def _by_blocks(t: np.ndarray, start: Start, out: list[np.ndarray]) -> None:
    """Write the results into `out` block by block, on several threads for large problems."""

    def fill(group: tuple[Start, slice, slice, int]) -> None:
        part, rows, columns, high = group
        buffers = Buffers(np)
        now, whole = t[rows, columns], [a[rows, columns, ...] for a in out]
        weights = _weights(np, now, part) if _is_near(now, part) else None
        for i in range(0, now.shape[0], high):
            some = slice(i, min(i + high, now.shape[0]))
            of_some = None if weights is None else weights.at(some)
            _block(np, now[some, ...], part, of_some, buffers, [a[some, ...] for a in whole])

    groups = list(_groups(np, start, t.shape[0]))
    shared(fill, groups, None if len(groups) >= SHARED else 1)


def _concatenated(xp: Any, t: Any, start: Start) -> tuple[Any, Any, Any, Any]:
    """Return the results by concatenation of blocks, for libraries without in-place writes."""
    columns: dict[int, list[Any]] = {}
    for part, rows, members, _ in _groups(xp, start, t.shape[0]):
        now = t[rows, members]
        weights = _weights(xp, now, part) if _is_near(now, part) else None
        columns.setdefault(members.start, []).append(_block(xp, now, part, weights, Buffers(xp), None))
    whole = [[xp.concat(piece, axis=0) for piece in zip(*blocks, strict=True)] for blocks in columns.values()]
    product, gram_in, gram_out, excess = (xp.concat(piece, axis=1) for piece in zip(*whole, strict=True))
    return product, gram_in, gram_out, excess


def _quick(t: np.ndarray, start: Start, n_in: int, compiled: bool) -> tuple[np.ndarray, Callable[..., None]]:
    """Return, for each time, whether the kernel for small networks can be used for all members, and this kernel."""
    r, n = start.rows.shape[-2:]
    pace, fits = t * start.pace, n <= LARGEST and not (start.frame.spread > 0).any()
    near = (pace.max(axis=1) < FAR) & fits
    if compiled:
        return near, partial(_compiled, n_in=n_in)
    return near & (pace.min(axis=1) >= 1 / 2) & (r <= SMALL), _small


def _small(t: np.ndarray, start: Start, out: list[np.ndarray]) -> None:
    """Write the results of small networks into `out`, parts of the times and members on several threads."""
    room = max(1, KEPT // math.prod(start.rows.shape[-2:]))
    high = min(t.shape[0], room)
    wide = max(1, room // high)

    def fill(corner: tuple[int, int]) -> None:
        rows, columns = (slice(i, i + size) for i, size in zip(corner, (high, wide), strict=True))
        fill_small(t[rows, columns], start.of(columns), Buffers(np), [a[rows, columns] for a in out])

    corners = list(itertools.product(range(0, t.shape[0], high), range(0, t.shape[1], wide)))
    shared(fill, corners, None if len(corners) >= SHARED else 1)


def _compiled(t: np.ndarray, start: Start, out: list[np.ndarray], n_in: int) -> None:
    from linsolve.systems.whitened.flow_map_compiled import fill

    frame = start.frame
    first = np.argmax(frame.q != 0, axis=-2)
    given = frame.basis, frame.rate, frame.q, frame.root, first, start.size, start.pace
    fill(t, given, n_in, start.halved, out)


def _groups(xp: Any, start: Start, count: int) -> Iterator[tuple[Start, slice, slice, int]]:
    """Yield parts of the members, with slices of times and members, and the number of times in a block."""
    members, n, r = start.frame.q.shape
    room = max(1, (CACHED if xp is np else DEVICE) // (n * r))
    wide = min(members, room)
    high = max(1, room // wide)
    for j in range(0, members, wide):
        columns = slice(j, min(j + wide, members))
        part = start if wide == members else start.of(columns)
        for i in range(0, count, GROUP * high):
            yield part, slice(i, min(i + GROUP * high, count)), columns, high


def _block(
    xp: Any, t: Any, start: Start, weights: _Weights | None, buffers: Buffers, out: list[np.ndarray] | None
) -> list[Any]:
    """Return product, Gram matrices and excess, in the arrays `out` if given. Roots are transposed, as in `Start`."""
    frame, turned = start.frame, xp.matrix_transpose
    if weights is None:
        scaled, pull, column = far(xp, t, start, buffers)
    else:
        weigh, pull, column = weights
        scaled = buffers.times("scaled", start.rows, weigh[..., None, :])
        scaled = buffers.times("scaled", scaled, column[..., None])
    bracket = buffers.raised(buffers.product("bracket", scaled, turned(scaled)), column * column)
    if weights is None:  # its diagonal is at least 1: the change is far below the rounding error
        bracket = buffers.normal(bracket, ROOT)
    factor = factored(xp, bracket)
    inverse = inverted(xp, factor)
    if weights is None:  # its columns have the scales of the rows of the factor
        inverse = buffers.normal(inverse, ROOT * xp.abs(xp.linalg.diagonal(inverse))[..., None, :])
    squares = buffers.times("squares", inverse, inverse)
    trace = xp.sum((squares @ xp.linalg.diagonal(bracket)[..., None])[..., 0], axis=-1)
    sound = xp.all(xp.linalg.diagonal(factor) > 0, axis=-1)  # some libraries do not report failures
    excess = xp.where(sound, trace - column.shape[-1], xp.inf * xp.ones_like(trace))
    turn = buffers.times("turn", inverse, column[..., None, :])
    short = start.pace * t < 1 / 2
    brief = arithmetic.to_numpy(short)
    if brief.any():
        gently = _gently(xp, xp.where(short, t, xp.zeros_like(t)), start, turn, buffers)
    if brief.all():
        top, bottom = gently
    else:
        q = buffers.product("q", inverse, scaled) if weights is None else _led(xp, turn, start, buffers)
        q = buffers.times("q", q, pull[..., None, :])
        if weights is None:
            q = buffers.normal(q, NOTHING if start.balanced else NORMAL)
        top, bottom = _mapped(xp, start, q, buffers)
        if brief.any():
            both = zip(gently, (top, bottom), strict=True)
            top, bottom = (xp.where(short[..., None, None], a, b) for a, b in both)
    if (arithmetic.to_numpy(frame.spread) > 0).any():
        fed, n_in = turned(_fed(xp, t, frame)), start.inputs.shape[-1]
        top = xp.concat([top, fed[..., :n_in]], axis=-2)
        bottom = xp.concat([bottom, fed[..., n_in:]], axis=-2)
    pairs = (bottom, top), (top, top), (bottom, bottom)
    if out is None:
        product, gram_in, gram_out = (turned(a) @ b for a, b in pairs)
        return [product, *((gram + turned(gram)) / 2 for gram in (gram_in, gram_out)), excess]
    for (a, b), into in zip(pairs, out[:3], strict=True):  # NumPy makes a @ a.T exactly symmetric
        np.matmul(turned(a), b, out=into)
    out[3][...] = excess
    return out


def _gently(xp: Any, t: Any, start: Start, turn: Any, buffers: Buffers) -> tuple[Any, Any]:
    """Return input and output rows after short times, each with its relative accuracy.

    As `linsolve.systems.whitened.composed_steps.carried`, at half the products with the basis.
    """
    gain, n_in = gained(xp, t, start.rate, start.frame.spread), start.inputs.shape[-1]
    change = _mapped(xp, start, buffers.times("q", start.rows, gain[..., None, :]), buffers)
    root = xp.matrix_transpose(start.frame.root)
    first = root[..., :n_in], root[..., n_in:]
    names = ("top", "bottom")
    moved = (buffers.plus(name, a, b) for name, a, b in zip(names, change, first, strict=True))
    top, bottom = (buffers.product(f"gentle {name}", turn, a) for name, a in zip(names, moved, strict=True))
    return top, bottom


def _led(xp: Any, turn: Any, start: Start, buffers: Buffers) -> Any:
    """Return ``turn q^T`` for lower triangular `turn`, skipping large blocks of zeros."""
    r, n = start.rows.shape[-2:]
    half, void = r // 2, start.void
    if xp is not np or min(half, void) < WIDE:
        return buffers.product("q", turn, start.rows)
    found = buffers.buffer("q", (*turn.shape[:-1], n))
    found[..., :half, :void] = 0
    np.matmul(turn[..., :half, :half], start.rows[..., :half, void:], out=found[..., :half, void:])
    np.matmul(turn[..., half:, :], start.rows, out=found[..., half:, :])
    return found


def _mapped(xp: Any, start: Start, q: Any, buffers: Buffers) -> tuple[Any, Any]:
    """Return the input and output rows of ``basis q``, at half the cost where the basis is ``(v, v; u, -u)``."""
    k, n = start.halved, q.shape[-1]
    top, bottom = q, q
    if k > 0:
        rising, falling = q[..., :k], q[..., n - k :]
        top, bottom = buffers.plus("sum", rising, falling), buffers.minus("difference", rising, falling)
        if 2 * k < n:
            other = q[..., k : n - k]
            top, bottom = xp.concat([top, other], axis=-1), xp.concat([bottom, other], axis=-1)
    return buffers.product("top", top, start.inputs), buffers.product("bottom", bottom, start.outputs)


def _is_near(t: Any, start: Start) -> bool:
    return bool((arithmetic.to_numpy(t) * arithmetic.to_numpy(start.pace)).max() < FAR)


def _weights(xp: Any, t: Any, start: Start) -> _Weights:
    """Return the weights at times at which no weight overflows."""
    spread, t = start.frame.spread, t[..., None]
    if (arithmetic.to_numpy(spread) > 0).any():
        half, lean, shift = log_flow_map(xp, t[..., 0], start.rate, spread, start.frame.lead, start.slow)
        half = half + shift
        weigh, pull = xp.exp(half), xp.exp(half + lean)
    else:
        pull = xp.exp(start.rate * t)
        weigh = xp.sqrt(integral_of_decay(xp, t, 2 * start.rate))
        weigh = xp.where(start.rate > 0, pull * weigh, weigh)
    column = start.size * _first(xp, weigh, start)
    return _Weights(weigh, pull, 1 / xp.where(column > 1, column, xp.ones_like(column)))


def far(xp: Any, t: Any, start: Start, buffers: Buffers) -> tuple[Any, Any, Any]:
    """Return ``q^T`` times ``sqrt(n/c)`` with scaled columns, the other factor of ``1/c``, and the scales.

    The first nonzero entry of a column has the largest weight of the column.
    """
    weigh, lean, shift = log_flow_map(xp, t, start.rate, start.frame.spread, start.frame.lead, start.slow)
    first = _first(xp, weigh, start)
    level = first + start.log + shift
    size = xp.where(start.size > 0, start.size, xp.ones_like(start.size))
    less = xp.minimum(level, 0 * level)
    apart = xp.minimum(weigh[..., None, :] - first[..., None], 0 * less[..., None])
    apart = xp.exp(apart + less[..., None])
    scaled = start.rows / size[..., None] * apart
    if xp is np:
        scaled = buffers.normal(scaled, ROOT if start.balanced and less.min() > SLIGHT else NORMAL)
    return scaled, xp.exp(lean), xp.exp(less - level)


def _first(xp: Any, weigh: Any, start: Start) -> Any:
    """Return the weight of the first nonzero entry of each column, shape (times, members, r)."""
    if xp is np:  # `take_along_axis` takes twice as long for one network
        return weigh[:, np.arange(weigh.shape[1])[:, None], start.first]
    return xp.take_along_axis(weigh, start.first[None, ...], axis=-1)


def _fed(xp: Any, t: Any, frame: Frame) -> Any:
    """Return ``basis sqrt(spread n/c)``, a square root of the first term of the formula in `matrix_riccati`."""
    spread = frame.spread[..., None]
    safe = xp.where(spread > 0, spread, xp.ones_like(spread))
    weigh, _, _ = log_flow_map(xp, t, frame.rate, frame.spread, frame.lead, frame.slow)
    fed = xp.where(spread > 0, xp.exp(xp.where(spread > 0, weigh + xp.log(safe) / 2, 0 * weigh)), 0 * weigh)
    return frame.basis * fed[..., None, :]
