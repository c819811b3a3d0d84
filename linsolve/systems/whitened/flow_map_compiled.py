"""The flow map of small networks, compiled (extra ``[fast]``): a SIMD vector holds eight time points of one network.

The formulas are those of `flow_map`. For small matrices, library calls cost more than the arithmetic. The kernel
requires ``spread = 0`` and times early enough that weights are not stored as logarithms.

Sums of products are accumulated four at a time, which shares loads and hides latency. If fewer than four sums remain,
some of them are computed twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from linsolve.systems.whitened import simd
from linsolve.systems.whitened.kept_code import kept
from linsolve.systems.whitened.simd import (
    WIDTH,
    broadcast,
    broadcast_entry,
    exp,
    expm1,
    fma,
    if_less,
    load,
    sqrt,
    store,
    unpack,
    zeros,
)

__all__ = ["fill"]

# product of rate and time below which the change of the root is computed, as it is more accurate than the root
SHORT = 0.5
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
INNER = OPTIONS | {"no_cpython_wrapper": True}  # called by `fill` alone


@njit(**INNER)
def _weigh(now, rate, pace, any_short, up, half, square, change):
    """Set ``sqrt(n/c)``, its square, and ``1/c``, or ``1/c - 1`` at short times, of every mode.

    Twice the fastest rate times time must be below 700.
    """
    n, one, none = rate.shape[0], broadcast(1.0), broadcast(0.0)
    for i in range(n):
        f, twin = abs(rate[i]), n - 1 - i
        if twin < i and abs(rate[twin]) == f:
            store(up, i, load(up, twin))
            store(half, i, load(half, twin))
        else:
            x = broadcast(f) * now
            twice = x + x
            decayed = none - expm1(none - twice)
            store(up, i, exp(x))
            store(half, i, sqrt(now * if_less(none, x, decayed / if_less(none, x, twice, one), one)))
    for i in range(n):
        grown = load(up, i)
        if rate[i] > 0:
            store(half, i, load(half, i) * grown)
        else:
            grown = one / grown
        store(square, i, load(half, i) * load(half, i))
        if any_short:
            grown = if_less(broadcast(pace) * now, broadcast(SHORT), expm1(broadcast(rate[i]) * now), grown)
        store(change, i, grown)


@njit(**INNER)
def _bracket(pairs, first, size, weigh, square, column, bracket):
    """Set the scales of the columns and the lower triangle of the bracket; `pairs` are products of two columns of q."""
    r, n, one, row = size.shape[0], square.shape[0] // WIDTH, broadcast(1.0), 0
    for a in range(r):
        level = broadcast(size[a]) * load(weigh, first[a])
        store(column, a, if_less(one, level, one / level, one))
    for a in range(r):
        for b in range(0, a + 1, 4):
            b1, b2, b3 = min(b + 1, a), min(b + 2, a), min(b + 3, a)
            p, p1, p2, p3 = (row + b) * n, (row + b1) * n, (row + b2) * n, (row + b3) * n
            begin = max(first[a], min(min(first[b], first[b1]), min(first[b2], first[b3])))
            s = s1 = s2 = s3 = broadcast(0.0)
            for i in range(begin, n):
                weight = load(square, i)
                s, s1 = fma(broadcast_entry(pairs, p + i), weight, s), fma(broadcast_entry(pairs, p1 + i), weight, s1)
                s2, s3 = (
                    fma(broadcast_entry(pairs, p2 + i), weight, s2),
                    fma(broadcast_entry(pairs, p3 + i), weight, s3),
                )
            scale = load(column, a)
            store(bracket, a * r + b, s * (scale * load(column, b)))
            store(bracket, a * r + b1, s1 * (scale * load(column, b1)))
            store(bracket, a * r + b2, s2 * (scale * load(column, b2)))
            store(bracket, a * r + b3, s3 * (scale * load(column, b3)))
        row += a + 1
        scale = load(column, a)
        store(bracket, a * (r + 1), fma(scale, scale, load(bracket, a * (r + 1))))


@njit(**INNER)
def _factor(bracket, r, diagonal):
    """Overwrite the bracket by its Cholesky factor, reciprocals on the diagonal; nan where it is not definite."""
    none, last = broadcast(0.0), r - 1
    for b in range(r):
        store(diagonal, b, load(bracket, b * (r + 1)))
    for b in range(r):
        pivot = none
        for a in range(b, r, 4):
            a1, a2, a3 = min(a + 1, last), min(a + 2, last), min(a + 3, last)
            s, s1 = load(bracket, a * r + b), load(bracket, a1 * r + b)
            s2, s3 = load(bracket, a2 * r + b), load(bracket, a3 * r + b)
            for k in range(b):
                x = none - load(bracket, b * r + k)
                s, s1 = fma(load(bracket, a * r + k), x, s), fma(load(bracket, a1 * r + k), x, s1)
                s2, s3 = fma(load(bracket, a2 * r + k), x, s2), fma(load(bracket, a3 * r + k), x, s3)
            if a == b:
                pivot = broadcast(1.0) / sqrt(s)
            store(bracket, a3 * r + b, s3 * pivot)
            store(bracket, a2 * r + b, s2 * pivot)
            store(bracket, a1 * r + b, s1 * pivot)
            store(bracket, a * r + b, s * pivot)
        store(bracket, b * (r + 1), pivot)


@njit(**INNER)
def _inverse(factor, r, column, diagonal, turn):
    """Set ``turn[b, a]``, b up to a, to ``column L^-T``, and return the excess."""
    none = broadcast(0.0)
    for a in range(r):
        pivot = load(factor, a * (r + 1))
        for b in range(0, a, 4):
            b1, b2, b3 = min(b + 1, a - 1), min(b + 2, a - 1), min(b + 3, a - 1)
            s = s1 = s2 = s3 = none
            for k in range(b, a):  # entries left of the diagonal are zero
                x = none - load(factor, a * r + k)
                s, s1 = fma(load(turn, b * r + k), x, s), fma(load(turn, b1 * r + k), x, s1)
                s2, s3 = fma(load(turn, b2 * r + k), x, s2), fma(load(turn, b3 * r + k), x, s3)
            store(turn, b * r + a, s * pivot)
            store(turn, b1 * r + a, s1 * pivot)
            store(turn, b2 * r + a, s2 * pivot)
            store(turn, b3 * r + a, s3 * pivot)
        store(turn, a * (r + 1), pivot)
    excess = broadcast(-float(r))
    for b in range(r):
        s, scale = none, load(column, b)
        for a in range(b, r):
            x = load(turn, b * r + a)
            s = fma(x, x, s)
            store(turn, b * r + a, x * scale)
        excess = fma(s, load(diagonal, b), excess)
    return excess


@njit(**INNER)
def _product(left, at, rows, stride, begin, columns, right, low, r, into, top, add):
    """Set ``into = left right``, or add to it if `add`; `left` is common to all times; row i is 0 before `begin[i]`.

    `left` begins at entry `at`, a row every `stride` entries; `right` and `into` begin at vectors `low` and `top`.
    """
    for i in range(0, rows, 2):
        i1 = min(i + 1, rows - 1)
        p, p1, o, o1 = at + i * stride, at + i1 * stride, top + i * r, top + i1 * r
        skipped = min(begin[i], begin[i1])
        for a in range(0, r, 2):
            a1 = min(a + 1, r - 1)
            s = s1 = s2 = s3 = broadcast(0.0)
            if add > 0:
                s, s1, s2, s3 = load(into, o + a), load(into, o + a1), load(into, o1 + a), load(into, o1 + a1)
            for k in range(skipped, columns):
                x, x1 = broadcast_entry(left, p + k), broadcast_entry(left, p1 + k)
                y, y1 = load(right, low + k * r + a), load(right, low + k * r + a1)
                s, s1, s2, s3 = fma(x, y, s), fma(x, y1, s1), fma(x1, y, s2), fma(x1, y1, s3)
            store(into, o + a, s)
            store(into, o + a1, s1)
            store(into, o1 + a, s2)
            store(into, o1 + a1, s3)


@njit(**INNER)
def _paired(moved, change, r, halved):
    """Multiply rows by their changes; combine pairs ``(v, u), (v, -u)`` of the basis into sum and difference."""
    n = change.shape[0] // WIDTH
    for i in range(n):
        x = load(change, i)
        for a in range(i * r, (i + 1) * r):
            store(moved, a, load(moved, a) * x)
    for i in range(halved):
        for a in range(r):
            x, y = load(moved, i * r + a), load(moved, (n - 1 - i) * r + a)
            store(moved, i * r + a, x + y)
            store(moved, (n - 1 - i) * r + a, y - x)


@njit(**INNER)
def _outer(found, top, rows, low, columns, r, number):
    """Set the products of rows from `top` on with rows from `low` on; only one triangle where ``top == low``."""
    same = top == low
    for i in range(0, rows, 2):
        i1 = min(i + 1, rows - 1)
        p, p1 = top + i * r, top + i1 * r
        for j in range(0, i + 1 if same else columns, 2):
            j1 = min(j + 1, columns - 1)
            o, o1 = low + j * r, low + j1 * r
            s = s1 = s2 = s3 = broadcast(0.0)
            for k in range(r):
                x, x1, y, y1 = load(found, p + k), load(found, p1 + k), load(found, o + k), load(found, o1 + k)
                s, s1, s2, s3 = fma(x, y, s), fma(x, y1, s1), fma(x1, y, s2), fma(x1, y1, s3)
            store(number, i * columns + j, s)
            store(number, i * columns + j1, s1)
            store(number, i1 * columns + j, s2)
            store(number, i1 * columns + j1, s3)
            if same:
                store(number, j * columns + i, s)
                store(number, j1 * columns + i, s1)
                store(number, j * columns + i1, s2)
                store(number, j1 * columns + i1, s3)


@njit(**INNER)
def _written(number, size, active, into, where, step):
    """Write the matrices of the active times to flat memory from `where` on, `step` apart, in units of their size."""
    where, step = where * size, step * size
    if active == WIDTH and size >= WIDTH:
        for at in range(0, size, WIDTH):
            begin = min(at, size - WIDTH)
            unpack(number, begin, into, where + begin, step)
    else:
        for k in range(active):
            for at in range(size):
                into[where + k * step + at] = number[at * WIDTH + k]


@njit(**OPTIONS)
def fill(t, start, n_in, halved, members, out):
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
    basis, rate, q, origin, first, size, pace = start
    n, r, count = q.shape[1], q.shape[2], t.shape[0]
    n_out = n - n_in
    none, one = np.int64(0), np.int64(1)  # numba compiles a function again for each literal argument
    bases, roots, origins = basis.reshape(-1), q.reshape(-1), origin.reshape(-1)
    matrices = out[0].reshape(-1), out[1].reshape(-1), out[2].reshape(-1)
    times, column, diagonal = zeros(one), zeros(r), zeros(r)
    up, half, square, change = zeros(n), zeros(n), zeros(n), zeros(n)
    bracket, turn, gentle = zeros(r * r), zeros(r * r), zeros(r * r)
    moved, found, number = zeros(n * r), zeros(n * r), zeros(max(n_in, n_out) ** 2)
    pairs, begin, nowhere = np.empty(r * (r + 1) // 2 * n), np.zeros(n, np.int64), np.zeros(n, np.int64)
    for m in range(members[0], members[1]):
        _prepare(q[m], pairs, begin)
        for at in range(0, count, WIDTH):
            active, least = min(WIDTH, count - at), np.inf
            for k in range(WIDTH):
                times[k] = t[at + min(k, active - 1), m]
                least = min(least, times[k])
            now, any_short = load(times, 0), pace[m] * least < SHORT
            _weigh(now, rate[m], pace[m], any_short, up, half, square, change)
            _bracket(pairs, first[m], size[m], half, square, column, bracket)
            _factor(bracket, r, diagonal)
            store(times, 0, _inverse(bracket, r, column, diagonal, turn))
            for k in range(active):
                out[3][at + k, m] = times[k]
            _product(roots, m * n * r, n, r, begin, r, turn, none, r, moved, none, none)
            _paired(moved, change, r, halved)
            for top in (none, n_in):  # inputs, outputs
                left, rows, low = m * n * n + top * n, n_in, 0
                if top > 0:
                    left, rows, low = left + halved, n_out, halved * r
                _product(bases, left, rows, n, nowhere, n - halved, moved, low, r, found, top * r, none)
            if any_short:  # at short times only the change is transformed by the basis
                for k in range(r * r):
                    x = if_less(broadcast(pace[m]) * now, broadcast(SHORT), load(turn, k), broadcast(0.0))
                    store(gentle, k, x)
                _product(origins, m * n * r, n, r, nowhere, r, gentle, none, r, found, none, one)
            step, where = t.shape[1], at * t.shape[1] + m
            for k in range(3):
                rows, columns = n_in if k == 1 else n_out, n_out if k == 2 else n_in
                _outer(found, 0 if k == 1 else n_in * r, rows, n_in * r if k == 2 else 0, columns, r, number)
                _written(number, rows * columns, active, matrices[k], where, step)


@njit(**INNER)
def _prepare(q, pairs, begin):
    """Set the products of all pairs of columns of a member's q, and the first nonzero column of each row."""
    n, r = q.shape
    row = 0
    for a in range(r):
        for b in range(a + 1):
            for i in range(n):
                pairs[row * n + i] = q[i, a] * q[i, b]
            row += 1
    for i in range(n):
        begin[i] = 0
        while begin[i] < r - 1 and q[i, begin[i]] == 0:
            begin[i] += 1


kept(fill, simd)
