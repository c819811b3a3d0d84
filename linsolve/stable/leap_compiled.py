"""The leap of small networks, compiled (extra ``[fast]``): times of one network are the lanes of vector instructions.

The formulas are those of `linsolve.stable.leap`; these matrices are so small that a library spends its time on calls.
Taken are starts without `spread`, at times that are not so late that weights must be kept as logarithms.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from linsolve.stable.lanes import LANES, dot, mix

__all__ = ["fill"]

# not kept on disk: a kept kernel would not notice that another file changed, and would then write out of bounds
OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": {"contract"}, "error_model": "numpy"}


@njit(**OPTIONS)
def _weigh(now, rate, pace, up, half, square, change):
    """Set ``sqrt(n/c)``, its square, and ``1/c``, or ``1/c - 1`` where time is short, of every mode in every lane."""
    n = rate.shape[0]
    for i in range(n):
        f, twin = abs(rate[i]), n - 1 - i
        paired = twin < i and abs(rate[twin]) == f
        for k in range(LANES):
            at = i * LANES + k
            if paired:
                up[at], half[at] = up[twin * LANES + k], half[twin * LANES + k]
            else:
                x = f * now[k]
                up[at] = math.exp(x)
                if x > 1:
                    half[at] = math.sqrt((1 - 1 / (up[at] * up[at])) / (2 * f))
                elif x > 0:
                    half[at] = math.sqrt(now[k] * (-math.expm1(-2 * x) / (2 * x)))
                else:
                    half[at] = math.sqrt(now[k])
    for i in range(n):
        for k in range(LANES):
            at = i * LANES + k
            if rate[i] > 0:
                half[at] *= up[at]
            square[at] = half[at] * half[at]
            if pace * now[k] < 0.5:
                change[at] = math.expm1(rate[i] * now[k])
            else:
                change[at] = up[at] if rate[i] > 0 else 1 / up[at]


@njit(**OPTIONS)
def _bracket(pairs, first, size, weigh, square, column, bracket):
    """Set the columns' scales and the lower half of the bracket; `pairs` are products of two columns of q."""
    r, n = size.shape[0], square.shape[0] // LANES
    for a in range(r):
        for k in range(LANES):
            level = size[a] * weigh[first[a] * LANES + k]
            column[a * LANES + k] = 1 / level if level > 1 else 1.0
    row = 0
    for a in range(r):
        for b in range(a + 1):
            o, i = (a * r + b) * LANES, max(first[a], first[b])
            mix(bracket, o, 0.0, 1.0, pairs, row * n + i, 1, square, i * LANES, LANES, n - i)
            row += 1
            one = 1.0 if a == b else 0.0
            for k in range(LANES):
                scale = column[a * LANES + k] * column[b * LANES + k]
                bracket[o + k] = scale * (bracket[o + k] + one)


@njit(**OPTIONS)
def _inverse(bracket, r, column, diagonal, turn, excess):
    """Set ``turn[b, a]`` to ``column L^-T``, L the Cholesky factor, which takes the bracket's place; sum the excess.

    On the diagonal of the factor stand reciprocals. Where there is none, they and the excess are not numbers.
    """
    for a in range(r):
        for k in range(LANES):
            diagonal[a * LANES + k] = bracket[a * (r + 1) * LANES + k]
    for b in range(r):
        pivot = b * (r + 1) * LANES
        for a in range(b, r):
            at = (a * r + b) * LANES
            dot(bracket, at, 1.0, -1.0, bracket, a * r * LANES, LANES, bracket, b * r * LANES, LANES, b)
            for k in range(LANES):
                bracket[at + k] = 1 / math.sqrt(bracket[at + k]) if a == b else bracket[at + k] * bracket[pivot + k]
    for k in range(LANES):
        excess[k] = -float(r)
    for b in range(r):
        for a in range(b, r):
            at, pivot = (b * r + a) * LANES, a * (r + 1) * LANES
            dot(turn, at, 0.0, -1.0, bracket, (a * r + b) * LANES, LANES, turn, b * (r + 1) * LANES, LANES, a - b)
            for k in range(LANES):
                turn[at + k] = (turn[at + k] if a > b else 1.0) * bracket[pivot + k]
        for a in range(b, r):
            for k in range(LANES):
                at = (b * r + a) * LANES + k
                excess[k] += turn[at] * turn[at] * diagonal[b * LANES + k]
                turn[at] *= column[b * LANES + k]


@njit(**OPTIONS)
def _turned(q, begin, turn, change, moved, halved):
    """Set ``c^-1 q turn``, or where the basis is ``(v, v; u, -u)`` sums and differences of its rows, pair by pair."""
    n, r = begin.shape[0], q.shape[0] // begin.shape[0]
    for i in range(n):
        for a in range(r):
            at, b = (i * r + a) * LANES, begin[i]
            mix(moved, at, 0.0, 1.0, q, i * r + b, 1, turn, (b * r + a) * LANES, r * LANES, a + 1 - b)
            for k in range(LANES):
                moved[at + k] *= change[i * LANES + k]
    for i in range(halved):
        for k in range(r * LANES):
            x, y = i * r * LANES + k, (n - 1 - i) * r * LANES + k
            moved[x], moved[y] = moved[x] + moved[y], moved[y] - moved[x]


@njit(**OPTIONS)
def _product(left, rows, columns, offset, stride, right, r, keep, into, triangular):
    """Set or add ``left right`` of a matrix that is the same in every lane, some columns of it."""
    for i in range(rows):
        for a in range(r):
            count = min(columns, a + 1) if triangular else columns
            mix(into, (i * r + a) * LANES, keep, 1.0, left, offset + i * stride, 1, right, a * LANES, r * LANES, count)


@njit(**OPTIONS)
def _outer(a, i0, rows, b, j0, columns, r, number, into):
    """Write ``a b^T``, row by row of the lanes, to the first lanes' matrices."""
    same = i0 == j0
    for i in range(rows):
        for j in range(i + 1 if same else columns):
            at = (i * columns + j) * LANES
            dot(number, at, 0.0, 1.0, a, (i0 + i) * r * LANES, LANES, b, (j0 + j) * r * LANES, LANES, r)
            if same and i > j:
                for k in range(LANES):
                    number[(j * columns + i) * LANES + k] = number[at + k]
    for k in range(into.shape[0]):
        for i in range(rows):
            for j in range(columns):
                into[k, i, j] = number[(i * columns + j) * LANES + k]


@njit(**OPTIONS)
def fill(t, start, n_in, halved, members, out):
    """Write product and Gram matrices and excess of some members, at all times.

    Parameters
    ----------
    t : array, shape (times, members)
    start : tuple of arrays
        basis, rate, q, root; where each column of `q` begins, with which magnitude; the fastest rate.
    n_in, halved : int
        Inputs, and how many pairs of columns of the basis are ``(v, u), (v, -u)``: all or none.
    members : tuple of int
        From and to.
    out : tuple of arrays
        product, gram_in, gram_out, excess, shape (times, members) + own.
    """
    basis, rate, q, root, first, size, pace = start
    n, r, count = q.shape[1], q.shape[2], t.shape[0]
    n_out = n - n_in
    now, excess, column, diagonal = np.empty(LANES), np.empty(LANES), np.empty(r * LANES), np.empty(r * LANES)
    up, half, square, change = np.empty(n * LANES), np.empty(n * LANES), np.empty(n * LANES), np.empty(n * LANES)
    bracket, turn, gentle = np.zeros(r * r * LANES), np.zeros(r * r * LANES), np.zeros(r * r * LANES)
    moved, found = np.zeros(n * r * LANES), np.zeros(n * r * LANES)
    number, pairs = np.zeros(max(n_in, n_out) ** 2 * LANES), np.empty(r * (r + 1) // 2 * n)
    begin = np.zeros(n, np.int64)
    for m in range(members[0], members[1]):
        row = 0
        for a in range(r):
            for b in range(a + 1):
                for i in range(n):
                    pairs[row * n + i] = q[m, i, a] * q[m, i, b]
                row += 1
        for i in range(n):
            begin[i] = 0
            while begin[i] < r - 1 and q[m, i, begin[i]] == 0:
                begin[i] += 1
        q_m, basis_m, root_m = q[m].ravel(), basis[m].ravel(), root[m].ravel()
        for at in range(0, count, LANES):
            lanes = min(LANES, count - at)
            short = False
            for k in range(LANES):
                now[k] = t[at + min(k, lanes - 1), m]
                short = short or pace[m] * now[k] < 0.5
            _weigh(now, rate[m], pace[m], up, half, square, change)
            _bracket(pairs, first[m], size[m], half, square, column, bracket)
            _inverse(bracket, r, column, diagonal, turn, excess)
            _turned(q_m, begin, turn, change, moved, halved)
            width = n - halved
            _product(basis_m, n_in, width, 0, n, moved, r, 0.0, found, False)
            low = n_in * n + halved
            _product(
                basis_m, n_out, width, low, n, moved[halved * r * LANES :], r, 0.0, found[n_in * r * LANES :], False
            )
            if short:  # what only the change goes through the basis of
                for k in range(r * r * LANES):
                    gentle[k] = turn[k] if pace[m] * now[k % LANES] < 0.5 else 0.0
                _product(root_m, n, r, 0, r, gentle, r, 1.0, found, True)
            end = at + lanes
            _outer(found, n_in, n_out, found, 0, n_in, r, number, out[0][at:end, m])
            _outer(found, 0, n_in, found, 0, n_in, r, number, out[1][at:end, m])
            _outer(found, n_in, n_out, found, n_in, n_out, r, number, out[2][at:end, m])
            for k in range(lanes):
                out[3][at + k, m] = excess[k]
