"""The square root of a start turned into staircase form: what is zero to rounding in growing rows is made zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.stable.triangular import inverted

__all__ = ["flipped", "stacked", "staircase"]


def staircase(xp: Any, q: Any, root: Any, growing: int, noise: Any) -> tuple[Any, Any]:
    """Turn columns so that growing rows get exact zeros wherever the start is zero there to rounding.

    An exact saddle is a rank deficiency of growing rows; rounding would leave it at the rate of the missing row. First
    the right null vectors of all growing rows are moved to the front, then row by row, by falling rate, what is left
    of a row is moved into the last column not yet used. The same turns are applied to `root`.
    """
    n, r = q.shape[-2:]
    size = noise[..., None] * xp.sqrt(xp.sum(q * q, axis=(-2, -1)))[..., None]
    both = stacked(xp, q, root)
    if arithmetic.is_object(xp) or r > growing:
        both = _sorted(xp, both, growing, size)
    else:
        batch = tuple(both.shape[:-2])
        found, regular = _independent(xp, both, n - growing, size)
        poor = np.flatnonzero(~arithmetic.to_numpy(regular))
        if poor.size == np.prod(batch):
            found = _sorted(xp, both, growing, size)
        elif poor.size:
            chosen = xp.asarray(poor)
            part = (xp.take(xp.reshape(a, (-1, *a.shape[len(batch) :])), chosen, axis=0) for a in (both, size))
            place = np.zeros(regular.shape, dtype=np.int64)
            place.flat[poor] = np.arange(poor.size)
            again = xp.take(_sorted(xp, *(lambda b, s: (b, growing, s))(*part)), xp.asarray(place.ravel()), axis=0)
            found = xp.where(regular[..., None, None], found, xp.reshape(again, tuple(found.shape)))
        both = found
    return both[..., :n, :], both[..., n:, :]


def _independent(xp: Any, both: Any, rows: int, size: Any) -> tuple[Any, Any]:
    """Return all rows turned by one QR factorization, and where the fastest rows are independent beyond doubt.

    No singular value of a triangle is smaller than one over the norm of its inverse.
    """
    r = both.shape[-1]
    found, _ = _triangular(xp, both, (r, rows), xp.ones_like(both[..., 0, :]), size)
    square = flipped(xp, found[..., :r, :])
    pivots = xp.abs(xp.linalg.diagonal(square))
    sound = pivots > size
    inverse = inverted(xp, xp.where(sound[..., None, :], square, xp.eye(r)))
    norm = xp.sqrt(xp.sum(inverse * inverse, axis=(-2, -1)))
    return found, xp.all(sound, axis=-1) & (norm * size[..., 0] < 1)


def _sorted(xp: Any, both: Any, growing: int, size: Any) -> Any:
    """Return staircase and turned roots whatever the rank."""
    n, r = both.shape[-2] // 2, both.shape[-1]
    _, s, vh = xp.linalg.svd(both[..., :growing, :], full_matrices=True)
    both = both @ flipped(xp, xp.matrix_transpose(vh))
    alive = xp.astype(s > size, xp.float64)
    alive = xp.concat([xp.zeros((*s.shape[:-1], r - s.shape[-1]), dtype=xp.float64), flipped(xp, alive)], axis=-1)
    both = stacked(xp, both[..., :growing, :] * alive[..., None, :], both[..., growing:, :])
    if arithmetic.is_object(xp):
        return _stairs(xp, both, n - growing, size)
    found, regular = _triangular(xp, both, (growing, n - growing), alive, size)
    if arithmetic.to_numpy(regular).all():
        return found
    return xp.where(regular[..., None, None], found, _stairs(xp, both, n - growing, size))


def _triangular(xp: Any, both: Any, sizes: tuple[int, int], alive: Any, size: Any) -> tuple[Any, Any]:
    """Return all rows turned by one QR factorization, and where that is the staircase: where no row comes up short.

    With null vectors only if no rows follow those that grow (`sizes` counts these, and those of the staircase).
    """
    growing, rows = sizes
    back = flipped(xp, both)
    turn, upper = xp.linalg.qr(xp.matrix_transpose(back[..., :rows, :]), mode="complete")
    pivots = xp.abs(xp.linalg.diagonal(upper))
    count = xp.sum(alive, axis=-1, keepdims=True)
    order = xp.arange(pivots.shape[-1], dtype=xp.float64)
    if rows == growing:
        regular = xp.all((pivots > size) | (order >= count), axis=-1)
    else:
        regular = xp.all(pivots > size, axis=-1) & (count[..., 0] == min(growing, both.shape[-1]))
    stairs = flipped(xp, xp.matrix_transpose(upper))
    return stacked(xp, stairs, flipped(xp, back[..., rows:, :] @ turn)), regular


def _stairs(xp: Any, both: Any, rows: int, size: Any) -> Any:
    """Return the staircase of any rows, one after another."""
    r = both.shape[-1]
    alive = both[..., 0, :]
    column = xp.zeros_like(alive) + xp.asarray(list(range(r)), dtype=xp.float64)
    last = xp.full_like(column[..., :1], r - 1)
    for i in range(rows):
        both, taken = _collect(xp, both, i, column, last, size)
        last = last - xp.astype(taken, xp.float64)
    return both


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
