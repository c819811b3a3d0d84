"""The square root of a start turned into staircase form: what is zero to rounding in growing rows is made zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.systems.whitened.cholesky import inverted

__all__ = ["flipped", "stacked", "staircase"]


def staircase(xp: Any, q: Any, root: Any, growing: int, noise: Any) -> tuple[Any, Any]:
    """Turn columns so that growing rows get exact zeros wherever the start is zero there to rounding.

    An exact saddle is a rank deficiency of growing rows; rounding would leave it at the rate of the missing row. First
    the right null vectors of all growing rows are moved to the front, then row by row, by falling rate, what is left
    of a row is moved into the last column not yet used. The same turns are applied to `root`. Where one QR
    factorization shows that none is missing, or one, it does all of this.
    """
    r = q.shape[-1]
    size = noise[..., None] * xp.sqrt(xp.sum(q * q, axis=(-2, -1)))[..., None]
    if arithmetic.is_object(xp) or r > growing:
        return _sorted(xp, q, root, growing, size)
    found, regular = _independent(xp, q, root, growing, size)
    poor = np.flatnonzero(~arithmetic.to_numpy(regular))
    if poor.size == np.prod(q.shape[:-2]):
        return _sorted(xp, q, root, growing, size)
    if poor.size:
        chosen = xp.asarray(poor)
        part = (xp.take(xp.reshape(a, (-1, *a.shape[size.ndim - 1 :])), chosen, axis=0) for a in (q, root, size))
        again = _sorted(xp, *(lambda q, root, size: (q, root, growing, size))(*part))
        place = np.zeros(regular.shape, dtype=np.int64)
        place.flat[poor] = np.arange(poor.size)
        place = xp.asarray(place.ravel())
        new = (xp.reshape(xp.take(a, place, axis=0), tuple(q.shape)) for a in again)
        found = tuple(xp.where(regular[..., None, None], a, b) for a, b in zip(found, new, strict=True))
    return found[0], found[1]


def _independent(xp: Any, q: Any, root: Any, growing: int, size: Any) -> tuple[tuple[Any, Any], Any]:
    """Return both turned by one QR factorization, and where it needs no more: where what it shows is beyond doubt.

    No singular value of a triangle is larger than an entry of its diagonal, or smaller than one over the norm of its
    inverse. Either the fastest rows are independent; or, as where parity forbids the target, all but the slowest that
    grows, whose entry is the one to be made zero. That needs that no rows follow those that grow.
    """
    n, r = q.shape[-2:]
    q, root, pivots = _triangular(xp, q, root, n - growing)
    square, sound = flipped(xp, q[..., :r, :]), pivots[..., :r] > size
    last = xp.arange(r) == r - 1
    kept = sound if not r == growing == n - growing else sound | last
    inverse = inverted(xp, xp.where(sound[..., None, :], square, xp.eye(r)))
    norm = xp.sqrt(xp.sum(inverse * inverse, axis=(-2, -1)))
    if not arithmetic.to_numpy(sound).all():
        lost = (last & ~sound)[..., None, :] & (xp.arange(n) < growing)[:, None]
        q = xp.where(flipped(xp, lost), xp.zeros_like(q), q)
    return (q, root), xp.all(kept, axis=-1) & (norm * size[..., 0] < 1)


def _sorted(xp: Any, q: Any, root: Any, growing: int, size: Any) -> tuple[Any, Any]:
    """Return staircase and turned root whatever the rank."""
    n, r = q.shape[-2:]
    _, s, vh = xp.linalg.svd(q[..., :growing, :], full_matrices=True)
    turn = flipped(xp, xp.matrix_transpose(vh))
    q, root = q @ turn, root @ turn
    alive = xp.astype(s > size, xp.float64)
    alive = xp.concat([xp.zeros((*s.shape[:-1], r - s.shape[-1]), dtype=xp.float64), flipped(xp, alive)], axis=-1)
    q = stacked(xp, q[..., :growing, :] * alive[..., None, :], q[..., growing:, :])
    rows = n - growing
    if arithmetic.is_object(xp):
        return _stairs(xp, q, root, rows, size)
    *found, pivots = _triangular(xp, q, root, rows)
    # one factorization is the staircase where no row comes up short; with null vectors only if no rows follow
    count = xp.sum(alive, axis=-1, keepdims=True)
    if rows == growing:
        regular = xp.all((pivots > size) | (xp.arange(pivots.shape[-1], dtype=xp.float64) >= count), axis=-1)
    else:
        regular = xp.all(pivots > size, axis=-1) & (count[..., 0] == min(growing, r))
    if not arithmetic.to_numpy(regular).all():
        slow = _stairs(xp, q, root, rows, size)
        found = [xp.where(regular[..., None, None], a, b) for a, b in zip(found, slow, strict=True)]
    return found[0], found[1]


def _triangular(xp: Any, q: Any, root: Any, rows: int) -> tuple[Any, Any, Any]:
    """Return both turned by one QR factorization of the first `rows`, and the sizes of its pivots, row by row."""
    turn, upper = xp.linalg.qr(xp.matrix_transpose(flipped(xp, q[..., :rows, :])), mode="complete")
    pivots = xp.abs(xp.linalg.diagonal(upper))
    turn = flipped(xp, turn)[..., ::-1, :]
    stairs = flipped(xp, xp.matrix_transpose(upper))
    return stacked(xp, stairs, q[..., rows:, :] @ turn), root @ turn, pivots


def _stairs(xp: Any, q: Any, root: Any, rows: int, size: Any) -> tuple[Any, Any]:
    """Return the staircase of any rows, one after another."""
    n, r = q.shape[-2:]
    both = stacked(xp, q, root)
    alive = both[..., 0, :]
    column = xp.zeros_like(alive) + xp.asarray(list(range(r)), dtype=xp.float64)
    last = xp.full_like(column[..., :1], r - 1)
    for i in range(rows):
        both, taken = _collect(xp, both, i, column, last, size)
        last = last - xp.astype(taken, xp.float64)
    return both[..., :n, :], both[..., n:, :]


def _collect(xp: Any, q: Any, i: int, column: Any, last: Any, size: Any) -> tuple[Any, Any]:
    """Reflect what row `i` has in columns up to `last` into column `last`, or drop it if not larger than `size`."""
    free, pivot, none = column <= last, column == last, xp.zeros_like(column)
    row = xp.where(free, q[..., i, :], none)
    length = xp.sqrt(xp.sum(row * row, axis=-1, keepdims=True))
    taken = (length > size) & (last >= 0)
    head = xp.sum(xp.where(pivot, row, none), axis=-1, keepdims=True)
    length = xp.where(head < 0, -length, length)
    mirror = row + xp.where(pivot, length, none)
    weight = xp.sum(mirror * mirror, axis=-1, keepdims=True) / 2
    mirror = xp.where(taken, mirror, none)
    weight = xp.where(taken, weight, xp.ones_like(weight))
    q = q - (q @ mirror[..., :, None]) * (mirror / weight)[..., None, :]
    row = xp.where(free, xp.where(taken & pivot, -length, none), q[..., i, :])
    return xp.concat([q[..., :i, :], row[..., None, :], q[..., i + 1 :, :]], axis=-2), taken


def flipped(xp: Any, a: Any) -> Any:
    """Return `a` with its columns in reverse order."""
    order = list(range(a.shape[-1]))[::-1]
    return xp.take(a, order if arithmetic.is_object(xp) else xp.asarray(order), axis=-1)


def stacked(xp: Any, top: Any, bottom: Any) -> Any:
    """Return rows on top of rows."""
    return xp.concat([top, bottom], axis=-2)
