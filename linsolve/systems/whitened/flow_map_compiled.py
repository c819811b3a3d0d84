"""The flow map of small networks, compiled (extra ``[fast]``).

For small matrices, library calls cost more than the arithmetic (W5 of ``benchmarks/RESULTS.md``). The kernel requires
``spread = 0`` and times early enough that weights are not stored as logarithms.
"""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np

from linsolve.engines.compiled import machine_code
from linsolve.numerics.threads import forkable_lock, processors, shared
from linsolve.systems.whitened.flow_map_loops import PAGE, SHORT, WIDTH, FlowMapLoops

__all__ = ["fill"]

SHARE = 2**22  # least number of products of a part, about half a millisecond
_making = forkable_lock()
_made: list[Any] = []


def _ready() -> Any:
    """Return the machine code, compiled on first use."""
    with _making:
        if not _made:
            engine, address, *_ = machine_code(lambda _: FlowMapLoops().text(), "fill")
            _made.append((ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address), engine))
    return _made[0][0]


def _touch(arrays: list[np.ndarray], pieces: int) -> None:
    """Write one number of each page: new memory costs more in the order of the kernel, which visits many pages."""
    parts = (piece for a in arrays for piece in np.array_split(a.reshape(-1), pieces))
    shared(lambda piece: piece[::PAGE].fill(0), parts)


def fill(t: np.ndarray, start: tuple[np.ndarray, ...], n_in: int, halved: int, out: list[np.ndarray]) -> None:
    """Write product and Gram matrices and excess of all members at all times, on several threads if worthwhile.

    Parameters
    ----------
    t : array, shape (times, members)
    start : tuple of arrays
        basis, rate, q, root; first nonzero row of each column of `q`, and its magnitude; the fastest rate.
    n_in, halved : int
        Number of inputs; number of pairs ``(v, u), (v, -u)`` of columns of the basis, 0 unless all are paired.
    out : list of arrays
        product, gram_in, gram_out, excess, shape (times, members) + own, each contiguous.
    """
    basis, rate, q, root, first, size, pace = start
    (members, n, r), count = q.shape, t.shape[0]
    n_out, blocks = n - n_in, -(-count // WIDTH)
    now = np.empty((members, blocks, WIDTH))
    flat = now.reshape(members, -1)
    flat[:, :count], flat[:, count:] = t.T, t[-1][:, None]
    short = pace[:, None] * now.min(axis=2) < SHORT
    speed, modes, nonzero = np.abs(rate), np.arange(n), q != 0
    # the first mode of the same speed from the other end
    twin = np.where((speed == speed[:, ::-1]) & (modes[::-1] < modes), modes[::-1], modes)
    begin = np.where(nonzero.any(axis=2), nonzero.argmax(axis=2), r - 1)
    excess = np.empty((members, blocks, WIDTH))
    each = (basis, q, root, rate, speed, twin, begin, first, size, pace, now, short)
    given = [np.ascontiguousarray(a, dtype=float if a.dtype == float else np.int64) for a in each]
    given += [excess, *out[:3]]
    vectors = (n, n, n, n, r, r, r * r, r * r, r * r, n * r, n * r, max(n_in, n_out) ** 2)
    ends = [0, *itertools.accumulate((*(WIDTH * k for k in vectors), n * r * (r + 1) // 2))]
    places = [a.ctypes.data for a in given]
    run = _ready()

    def part(some: tuple[int, int]) -> None:
        space = np.zeros(ends[-1] + WIDTH)
        begin = -(-space.ctypes.data // 64) * 64  # each vector within one cache line
        pointers = np.array([*places, *(begin + 8 * k for k in ends[:-1])], dtype=np.uintp)
        sizes = np.array([n, r, n_in, n_out, halved, count, blocks, members, *some], dtype=np.int64)
        run(pointers.ctypes.data, sizes.ctypes.data)

    pieces = max(1, min(members, 4 * processors(), members * blocks * WIDTH * n * n * r // SHARE))
    parts = list(itertools.pairwise(members * k // pieces for k in range(pieces + 1)))
    if pieces > 1:
        _touch(out[:3], pieces)
    shared(part, parts)
    out[3][...] = excess.reshape(members, -1)[:, :count].T
