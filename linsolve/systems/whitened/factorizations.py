"""Factorizations of stacks of matrices, some numerically singular: Cholesky, triangular inverse, echelon form."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.numerics import one_matrix

__all__ = ["RELIABLE", "echelon", "factored", "flipped", "inverted", "stacked"]

# largest excess (trace of the inverse of a matrix scaled to a unit diagonal, minus its size) at which the error of a
# Cholesky factor is below 1e-13 (tests/systems/whitened/test_flow_map.py)
RELIABLE = 256
# largest triangular factor that is inverted in one piece
SMALL = 13


def factored(xp: Any, bracket: Any) -> Any:
    """Return Cholesky factors, nan where a matrix is numerically singular."""
    try:
        return one_matrix.cholesky(bracket) if one_matrix.is_one(bracket) else xp.linalg.cholesky(bracket)
    except np.linalg.LinAlgError:
        axis = next((k for k, size in enumerate(bracket.shape[:-2]) if size > 1), None)
        if axis is None:
            return xp.full_like(bracket, xp.nan)
        half = bracket.shape[axis] // 2
        lead = (slice(None),) * axis
        parts = (bracket[*lead, :half, ...], bracket[*lead, half:, ...])
        return xp.concat([factored(xp, part) for part in parts], axis=axis)


def inverted(xp: Any, factor: Any) -> Any:
    """Return the inverse of lower triangular matrices, by recursive halving into ``[[A, 0], [C, D]]``."""
    if one_matrix.is_one(factor):
        return one_matrix.inverted_triangle(factor)
    n = factor.shape[-1]
    if n <= SMALL:  # an inverse by pivots has rounding errors above the diagonal, which large columns would multiply
        return xp.tril(xp.linalg.inv(factor))
    half = n // 2
    above, below = factor[..., :half, :half], factor[..., half:, half:]
    if n % 2 == 0:
        pair = inverted(xp, xp.stack([above, below]))
        above, below = pair[0, ...], pair[1, ...]
    else:
        above, below = inverted(xp, above), inverted(xp, below)
    low = -below @ (factor[..., half:, :half] @ above)
    if xp is np:
        found = np.zeros_like(factor)
        found[..., :half, :half], found[..., half:, :half], found[..., half:, half:] = above, low, below
        return found
    high = xp.concat([above, xp.zeros_like(factor[..., :half, half:])], axis=-1)
    return xp.concat([high, xp.concat([low, below], axis=-1)], axis=-2)


def echelon(xp: Any, q: Any, root: Any, growing: int, noise: Any) -> tuple[Any, Any]:
    """Rotate columns of `q` into echelon form, with exact zeros wherever growing rows are numerically zero.

    At an exact saddle the growing rows are rank-deficient; after a rounding error the solution would leave the saddle
    at the rate of the missing row. First the right null vectors of all growing rows are moved to the front. Then, in
    order of decreasing rate, the remaining entries of each row are moved into the last unused column. The same
    rotations are applied to `root`. One QR factorization suffices at full rank or a rank deficiency of one.
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
    """Return `q` and `root` rotated by one QR factorization, and a mask where its rank decision is certain.

    The singular values of a triangle are at most its diagonal entries and at least one over the norm of its inverse.
    Two cases are certain: the fastest rows are independent, or all rows except the slowest growing row are independent.
    In the second case the entry of that row is set to zero. This case occurs where parity forbids the target; it
    requires that all rows grow.
    """
    n, r = q.shape[-2:]
    q, root, pivots = _triangular(xp, q, root, n - growing)
    square, sound = flipped(xp, q[..., :r, :]), pivots[..., :r] > size
    last = xp.arange(r) == r - 1
    kept = sound if not r == growing == n - growing else sound | last
    certain = bool(arithmetic.to_numpy(sound).all())
    inverse = inverted(xp, square if certain else xp.where(sound[..., None, :], square, xp.eye(r)))
    norm = xp.sqrt(xp.sum(inverse * inverse, axis=(-2, -1)))
    if not certain:
        lost = (last & ~sound)[..., None, :] & (xp.arange(n) < growing)[:, None]
        q = xp.where(flipped(xp, lost), xp.zeros_like(q), q)
    return (q, root), xp.all(kept, axis=-1) & (norm * size[..., 0] < 1)


def _sorted(xp: Any, q: Any, root: Any, growing: int, size: Any) -> tuple[Any, Any]:
    """Return the echelon form and the rotated root for any rank."""
    n, r = q.shape[-2:]
    _, s, vh = xp.linalg.svd(q[..., :growing, :], full_matrices=True)
    turn = flipped(xp, xp.matrix_transpose(vh))
    q, root = q @ turn, root @ turn
    alive = xp.astype(s > size, xp.float64)
    alive = xp.concat([xp.zeros((*s.shape[:-1], r - s.shape[-1]), dtype=xp.float64), flipped(xp, alive)], axis=-1)
    q = stacked(xp, q[..., :growing, :] * alive[..., None, :], q[..., growing:, :])
    rows = n - growing
    if arithmetic.is_object(xp):
        return _by_rows(xp, q, root, rows, size)
    *found, pivots = _triangular(xp, q, root, rows)
    # one factorization gives the echelon form at full rank, and with null vectors if no rows follow
    count = xp.sum(alive, axis=-1, keepdims=True)
    if rows == growing:
        regular = xp.all((pivots > size) | (xp.arange(pivots.shape[-1], dtype=xp.float64) >= count), axis=-1)
    else:
        regular = xp.all(pivots > size, axis=-1) & (count[..., 0] == min(growing, r))
    if not arithmetic.to_numpy(regular).all():
        slow = _by_rows(xp, q, root, rows, size)
        found = [xp.where(regular[..., None, None], a, b) for a, b in zip(found, slow, strict=True)]
    return found[0], found[1]


def _triangular(xp: Any, q: Any, root: Any, rows: int) -> tuple[Any, Any, Any]:
    """Return `q` and `root` rotated by one QR factorization of the first `rows`, and the sizes of its pivots."""
    # columns in reverse order: a column of zeros, which comes first, keeps them as the last
    leading = flipped(xp, q[..., :rows, :])
    alone = one_matrix.is_one(leading) and leading.shape[-1] <= rows
    qr = one_matrix.qr if alone else partial(xp.linalg.qr, mode="complete")
    turn, upper = qr(xp.matrix_transpose(leading))
    turn, first = flipped(xp, turn[..., ::-1, :]), flipped(xp, xp.matrix_transpose(upper))
    return stacked(xp, first, q[..., rows:, :] @ turn), root @ turn, xp.abs(xp.linalg.diagonal(upper))


def _by_rows(xp: Any, q: Any, root: Any, rows: int, size: Any) -> tuple[Any, Any]:
    """Return the echelon form of any rows, computed row by row."""
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
    """Reflect the entries of row `i` in columns up to `last` into column `last`; drop them if at most `size`."""
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
    """Return `a` with its columns in reverse order, contiguous in memory."""
    return np.ascontiguousarray(a[..., ::-1]) if xp is np else a[..., ::-1]


def stacked(xp: Any, top: Any, bottom: Any) -> Any:
    """Return rows on top of rows."""
    return xp.concat([top, bottom], axis=-2)
