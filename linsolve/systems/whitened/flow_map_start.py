"""A start as the leap of the matrix Riccati equation uses it, prepared once for all times."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.systems.whitened.start_frame import Frame

__all__ = ["Start", "paired", "started"]


class Start(NamedTuple):
    """A start as the leap uses it: roots transposed, and what of each column of `q` stands first.

    Parameters
    ----------
    seen : Frame
    halved : int
        Number of pairs of columns ``(v, u)``, ``(v, -u)`` of the basis, if all that have partners are such, else 0.
    void : int
        So many rows on top of the first half of the columns of `q` are zero.
    pace : array, shape (members,)
        The fastest rate.
    rate, rows : array, shape (members, n), (members, r, n)
        Rates and ``q^T``; of modes that come in pairs the falling ones in the order of their partners.
    first : array, shape (members, r, n)
        1 where a column of `q` begins, else 0.
    size, log : array, shape (members, r)
        With which magnitude it begins, and the logarithm.
    inputs, outputs : array, shape (members, n - halved, n_in), (members, n - halved, n_out)
        The basis transposed, without the second of each pair.
    """

    seen: Frame
    halved: int
    void: int
    pace: Any
    rate: Any
    rows: Any
    first: Any
    size: Any
    log: Any
    inputs: Any
    outputs: Any

    def of(self, columns: slice) -> Start:
        """Return some members."""
        seen = Frame(*(a[columns, ...] for a in self.seen))
        return Start(seen, self.halved, self.void, *(a[columns, ...] for a in self[3:]))


def started(xp: Any, seen: Frame, n_in: int) -> Start:
    """Return a start prepared for the leap, members along one leading axis."""
    k, n = _halved(xp, seen.basis, n_in), seen.basis.shape[-1]
    rows = _turned(xp, seen.q)
    size = xp.abs(rows)
    some = xp.astype(size > 0, xp.int64)
    begin = xp.argmax(some, axis=-1, keepdims=True)
    first = xp.astype(begin == xp.arange(n), xp.float64)
    size = xp.sum(first * size, axis=-1)
    empty = size == 0
    safe = xp.where(empty, xp.ones_like(size), size)
    log = xp.where(empty, xp.full_like(safe, -1e300), xp.log(safe))
    # a column of zeros may be taken to begin anywhere
    begin = xp.where(empty, xp.full_like(begin[..., 0], n), begin[..., 0])[..., : rows.shape[-2] // 2]
    # beyond n - k rows change places
    void = min(int(xp.min(begin)), n - k) if arithmetic.to_numpy(begin).size else 0
    pace = xp.max(xp.hypot(seen.rate, xp.sqrt(seen.spread)[..., None]), axis=-1)
    rate, rows, first = (paired(xp, a, k) for a in (seen.rate, rows, first))
    maps = (_turned(xp, a[..., : n - k]) for a in (seen.basis[..., :n_in, :], seen.basis[..., n_in:, :]))
    return Start(seen, k, void, pace, rate, rows, first, size, log, *maps)


def paired(xp: Any, a: Any, k: int) -> Any:
    """Return `a` with the last k along its last axis in reverse order."""
    n = a.shape[-1]
    return a if k == 0 else xp.concat([a[..., : n - k], a[..., ::-1][..., :k]], axis=-1)


def _turned(xp: Any, a: Any) -> Any:
    """Return the transposed matrices, in order in memory."""
    turned = xp.matrix_transpose(a)
    return np.ascontiguousarray(turned) if xp is np else turned


def _halved(xp: Any, basis: Any, n_in: int) -> int:
    n = basis.shape[-1]
    k = min(n_in, n - n_in)
    rising, falling = basis[..., :k], basis[..., ::-1][..., :k]
    top = xp.all(rising[..., :n_in, :] == falling[..., :n_in, :])
    return k if bool(top & xp.all(rising[..., n_in:, :] == -falling[..., n_in:, :])) else 0
