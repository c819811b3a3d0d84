"""Initial values in the form that the flow map uses, prepared once for all times."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.systems.whitened.start_frame import Frame

__all__ = ["Start", "paired", "prepared"]


class Start(NamedTuple):
    """Initial values of the flow map: transposed roots, and the first nonzero entry of each column of `q`.

    Parameters
    ----------
    frame : Frame
    halved : int
        Number of pairs of columns ``(v, u)``, ``(v, -u)`` of the basis if these are all pairs, else 0.
    void : int
        Number of leading zero rows in the first half of the columns of `q`.
    balanced : bool
        Whether the layers of all networks are balanced.
    pace : array, shape (members,)
        The fastest rate.
    rate, slow, rows : array, shape (members, n), (members, n), (members, r, n)
        Rates, their rest without the common growth, and ``q^T``; decaying modes of pairs are in the order of their
        partners.
    first : array, shape (members, r)
        Index of the first nonzero entry of each column of `q`, in the order of `rate`.
    size, log : array, shape (members, r)
        Magnitude of the first nonzero entry, and its logarithm.
    inputs, outputs : array, shape (members, n - halved, n_in), (members, n - halved, n_out)
        The transposed basis, without the second vector of each pair.
    """

    frame: Frame
    halved: int
    void: int
    balanced: bool
    pace: Any
    rate: Any
    slow: Any
    rows: Any
    first: Any
    size: Any
    log: Any
    inputs: Any
    outputs: Any

    def of(self, columns: slice) -> Start:
        """Return the members of a slice."""
        frame = Frame(*(a[columns, ...] for a in self.frame))
        return Start(frame, self.halved, self.void, self.balanced, *(a[columns, ...] for a in self[4:]))


def prepared(xp: Any, frame: Frame, n_in: int) -> Start:
    """Return the initial values of the flow map, members along one leading axis."""
    balanced = not (arithmetic.to_numpy(frame.lead).any() or arithmetic.to_numpy(frame.spread).any())
    k, (n, r), rows = _halved(xp, frame, n_in, balanced), frame.q.shape[-2:], _turned(xp, frame.q)
    # NumPy finds the first True without looking further; other libraries have no order of truth values
    some = rows != 0 if xp is np else xp.astype(rows != 0, xp.int8)
    begin = xp.argmax(some, axis=-1)
    if xp is np:
        size = np.abs(rows[np.arange(len(rows))[:, None], np.arange(r), begin])
    else:
        size = xp.abs(xp.take_along_axis(rows, begin[..., None], axis=-1)[..., 0])
    empty = size == 0
    safe = xp.where(empty, xp.ones_like(size), size)
    log = xp.where(empty, xp.full_like(safe, -1e300), xp.log(safe))
    first = xp.where(begin < n - k, begin, 2 * n - k - 1 - begin)  # rows beyond n - k are reordered
    # a column of zeros has no first nonzero entry and does not limit the count
    begin = xp.where(empty, xp.full_like(begin, n), begin)[..., : r // 2]
    void = min(int(xp.min(begin)), n - k) if arithmetic.to_numpy(begin).size else 0
    pace = xp.max(xp.hypot(frame.rate, xp.sqrt(frame.spread)[..., None]), axis=-1)
    rate, slow, rows = (paired(xp, a, k) for a in (frame.rate, frame.slow, rows))
    maps = (_turned(xp, a[..., : n - k]) for a in (frame.basis[..., :n_in, :], frame.basis[..., n_in:, :]))
    return Start(frame, k, void, balanced, pace, rate, slow, rows, first, size, log, *maps)


def paired(xp: Any, a: Any, k: int) -> Any:
    """Return `a` with the last k along its last axis in reverse order."""
    n = a.shape[-1]
    return a if k == 0 else xp.concat([a[..., : n - k], a[..., ::-1][..., :k]], axis=-1)


def _turned(xp: Any, a: Any) -> Any:
    """Return the transposed matrices, contiguous in memory."""
    turned = xp.matrix_transpose(a)
    return np.ascontiguousarray(turned) if xp is np else turned


def _halved(xp: Any, frame: Frame, n_in: int, balanced: bool) -> int:
    basis, n = frame.basis, frame.basis.shape[-1]
    k = min(n_in, n - n_in)
    if balanced:  # `eigenbasis` gives both vectors of a pair the same entries
        return k
    rising, falling = basis[..., :k], basis[..., ::-1][..., :k]
    top = xp.all(rising[..., :n_in, :] == falling[..., :n_in, :])
    return k if bool(top & xp.all(rising[..., n_in:, :] == -falling[..., n_in:, :])) else 0
