"""The flow map of small networks at many times in NumPy: the brackets of all times are factorized at once.

The formulas are those of `flow_map`. A library call for one small matrix costs more than its arithmetic. Here each
entry of the bracket is an array over networks and times, and the products of a network with a matrix that does not
depend on time are one product for all times. ``spread = 0``, and no weight is stored as a logarithm.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.numerics.scalar import integral_of_decay
from linsolve.systems.whitened.buffers import Buffers
from linsolve.systems.whitened.flow_map_start import Start, paired

__all__ = ["fill_small"]


def fill_small(t: np.ndarray, start: Start, buffers: Buffers, out: list[np.ndarray]) -> None:
    """Write product, Gram matrices and excess of `flow_map` at times `t`, shape (times, members), into `out`."""
    n_in, k = start.inputs.shape[-1], start.halved
    with np.errstate(all="ignore"):  # a bracket that is lost has the excess nan
        pull, square = _weights(start, t.T)
        level = start.size[:, None, :] * np.sqrt(np.take_along_axis(square, start.first[:, None, :], axis=-1))
        column = np.ascontiguousarray(np.moveaxis(1 / np.where(level > 1, level, 1.0), -1, 0))
        bracket = _scaled_brackets(start.rows, square, column, buffers)
        turn, excess = _inverse_factors(bracket, buffers)
        turn *= column
        q = buffers.buffer("q", (*t.T.shape, *start.rows.shape[-2:]))
        np.matmul(turn.transpose(0, 2, 3, 1), start.rows, out=np.moveaxis(q, 2, 0))
        q *= pull[:, :, None, :]
        basis = np.swapaxes(paired(np, start.frame.basis, k), -1, -2)
        root = buffers.product("root", q.reshape(q.shape[0], -1, q.shape[-1]), basis).reshape(q.shape)
        # of one array NumPy makes a^T a by a library call that takes twice as long for small matrices
        other = buffers.buffer("copy", root.shape)
        np.copyto(other, root)
        (top, bottom), (right_in, right_out) = ((a[..., :n_in], a[..., n_in:]) for a in (root, other))
        for (a, b), into in zip(((bottom, right_in), (top, right_in), (bottom, right_out)), out[:3], strict=True):
            np.matmul(np.swapaxes(a, -1, -2), b, out=np.swapaxes(into, 0, 1))
        for gram in out[1:3]:
            i, j = np.triu_indices(gram.shape[-1], 1)
            gram[..., i, j] = gram[..., j, i]  # symmetric to the last bit in every library
    out[3][...] = excess.T


def _weights(start: Start, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``1/c`` and ``n/c`` of every mode, shape (members, times, n)."""
    k, n = start.halved, start.rate.shape[-1]
    rate, t = start.rate[:, None, :], t[..., None]
    if k == 0 or not np.array_equal(rate[..., n - k :], -rate[..., :k]):
        pull, square = np.exp(rate * t), integral_of_decay(np, t, 2 * rate)
    else:  # pairs of opposite rates
        pull, square = np.exp(rate[..., : n - k] * t), integral_of_decay(np, t, 2 * rate[..., : n - k])
        pull = np.concatenate([pull, 1 / pull[..., :k]], axis=-1)
        square = np.concatenate([square, square[..., :k]], axis=-1)
    return pull, np.where(rate > 0, square * pull * pull, square)


def _scaled_brackets(rows: np.ndarray, square: np.ndarray, column: np.ndarray, buffers: Buffers) -> np.ndarray:
    """Return the brackets in units of the scales of their columns, shape (r, r, members, times)."""
    members, r, n = rows.shape
    pairs = (rows[:, :, None, :] * rows[:, None, :, :]).reshape(members, r * r, n)
    found = buffers.buffer("bracket", (r * r, *column.shape[1:]))
    np.matmul(pairs, np.swapaxes(square, -1, -2), out=np.swapaxes(found, 0, 1))
    found = found.reshape(r, *column.shape)
    found *= column[:, None]
    found *= column
    np.einsum("iimt->imt", found)[...] += column * column
    return found


def _inverse_factors(bracket: np.ndarray, buffers: Buffers) -> tuple[np.ndarray, np.ndarray]:
    """Return the inverse Cholesky factors of brackets of shape (r, r, members, times), and the excess.

    The brackets are overwritten. Where one is not positive, its factor is nan.
    """
    shape, r = bracket.shape, bracket.shape[0]
    factor = bracket.reshape(r, r, -1)
    inverse = buffers.buffer("inverse", factor.shape)
    inverse[...] = 0
    diagonal = np.einsum("iil->il", factor).copy()
    excess: Any = -float(r)
    for i in range(r):
        factor[i:, i] -= np.einsum("ikl,kl->il", factor[i:, :i], factor[i, :i])
        pivot = 1 / np.sqrt(factor[i, i])
        factor[i:, i] *= pivot
        inverse[i, i] = pivot
        inverse[i, :i] = np.einsum("kl,kjl->jl", factor[i, :i], inverse[:i, :i]) * -pivot
        excess = excess + np.einsum("jl,jl,jl->l", inverse[i, : i + 1], inverse[i, : i + 1], diagonal[: i + 1])
    return inverse.reshape(shape), excess.reshape(shape[2:])
