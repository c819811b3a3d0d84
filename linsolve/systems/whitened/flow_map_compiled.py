"""The flow map of small networks, compiled (extra ``[fast]``).

For small matrices, library calls cost more than the arithmetic (W5 of ``benchmarks/RESULTS.md``). The kernel requires
``spread = 0`` and times early enough that weights are not stored as logarithms.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np

from linsolve.engines.compiled import machine_code
from linsolve.systems.whitened.flow_map_loops import SHORT, WIDTH, FlowMapLoops

__all__ = ["fill"]

_making = threading.Lock()
_made: list[Any] = []


def _ready() -> Any:
    """Return the machine code, compiled on first use."""
    with _making:
        if not _made:
            engine, address, *_ = machine_code(lambda _: FlowMapLoops().text(), "fill")
            _made.append((ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address), engine))
    return _made[0][0]


def fill(
    t: np.ndarray, start: tuple[np.ndarray, ...], n_in: int, halved: int, members: tuple[int, int], out: tuple[Any, ...]
) -> None:
    """Write product and Gram matrices and excess of some members, at all times.

    Parameters
    ----------
    t : array, shape (times, members)
    start : tuple of arrays
        basis, rate, q, root; first nonzero row of each column of `q`, and its magnitude; the fastest rate.
    n_in, halved : int
        Number of inputs; number of pairs ``(v, u), (v, -u)`` of columns of the basis, 0 unless all are paired.
    members : tuple of int
        First member, and one beyond the last.
    out : tuple of arrays
        product, gram_in, gram_out, excess, shape (times, members) + own, each contiguous.
    """
    part = slice(*members)
    basis, rate, q, root, first, size, pace = (a[part] for a in start)
    (own, n, r), count = q.shape, t.shape[0]
    n_out, blocks = n - n_in, -(-count // WIDTH)
    now = t.T[part][:, np.minimum(np.arange(blocks * WIDTH), count - 1)].reshape(own, blocks, WIDTH)
    short = pace[:, None] * now.min(axis=2) < SHORT
    speed, modes, nonzero = np.abs(rate), np.arange(n), q != 0
    # the first mode of the same speed from the other end
    twin = np.where((speed == speed[:, ::-1]) & (modes[::-1] < modes), modes[::-1], modes)
    begin = np.where(nonzero.any(axis=2), nonzero.argmax(axis=2), r - 1)
    excess = np.empty((own, blocks, WIDTH))
    each = (basis, q, root, rate, speed, twin, begin, first, size, pace, now, short)
    given = [np.ascontiguousarray(a, dtype=float if a.dtype == float else np.int64) for a in each]
    given += [excess, *(a[:, part] for a in out[:3])]
    vectors = (n, n, n, n, r, r, r * r, r * r, r * r, n * r, n * r, max(n_in, n_out) ** 2)
    ends = np.cumsum([0, *(WIDTH * k for k in vectors), n * r * (r + 1) // 2])
    space = np.zeros(ends[-1] + WIDTH)
    space = space[-(space.ctypes.data // 8) % WIDTH :]  # each vector within one cache line
    pointers = np.array([a.ctypes.data for a in (*given, *(space[k:] for k in ends[:-1]))], dtype=np.uintp)
    sizes = np.array([n, r, n_in, n_out, halved, count, blocks, own, t.shape[1]], dtype=np.int64)
    _ready()(pointers.ctypes.data, sizes.ctypes.data)
    out[3][:, part] = excess.reshape(own, -1)[:, :count].T
