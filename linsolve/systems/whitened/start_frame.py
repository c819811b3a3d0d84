"""Square root of the initial state of a matrix Riccati equation, in the eigenbasis of the target."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.arithmetic import precision
from linsolve.systems.whitened.balanced_start import factor_root
from linsolve.systems.whitened.factorizations import echelon, flipped, stacked
from linsolve.systems.whitened.imbalance import Imbalance, imbalance, largest, trace

__all__ = ["Frame", "Modes", "eigenbasis", "square_root", "start_frame"]


# imbalance, in units of the largest squares of the weights, from which no mode of the initial state is lost
GRADED = 1e-3


class Frame(NamedTuple):
    """An initial state in the eigenbasis of ``F~``: ``P0 = basis q q^T basis^T``.

    Parameters
    ----------
    basis : array, shape batch + (n, n)
        Orthonormal eigenvectors, by decreasing eigenvalue; ``n = n_in + n_out``, inputs first.
    rate : array, shape batch + (n,)
        Eigenvalues.
    q : array, shape batch + (n, r)
        Square root of the initial state, its growing rows in echelon form: the first columns have the most leading
        zeros, and these zeros are exact.
    root : array, shape batch + (n, r)
        ``basis q`` with the relative accuracy of each block: ``P0 = root root^T``.
    spread : array, shape batch
        ``-lam1 lam2``.
    lead : array, shape batch
        Largest common part ``|total|/2`` of the rates where ``spread = 0``, else 0.
    slow : array, shape batch + (n,)
        The rest of each rate, ``rate = +-lead + slow``, to full relative accuracy: modes of one sign separate at the
        speed ``s^2 / |total|``, which rounding of the rates would hide.
    """

    basis: Any
    rate: Any
    q: Any
    root: Any
    spread: Any
    lead: Any
    slow: Any


class Modes(NamedTuple):
    """A singular value decomposition with complete bases: inputs, values, outputs."""

    v: Any
    s: Any
    u: Any

    @classmethod
    def of(cls, xp: Any, matrix: Any) -> Modes:
        """Return the modes of a matrix."""
        u, s, vh = xp.linalg.svd(matrix, full_matrices=True)
        return cls(xp.matrix_transpose(vh), s, u)

    def weighed(self, xp: Any, total: Any) -> tuple[Any, Any, Any]:
        """Return the weights of each pair ``(cin v, cout u)``, ``(cout v, -cin u)`` of eigenvectors of ``F~``, and f.

        Each singular value gives ``f = +-hypot(s, total/2)``.
        """
        half = total[..., None] / 2
        high = xp.hypot(self.s, half) + xp.abs(half)
        size = xp.hypot(self.s, high)
        flat = size == 0
        scale = xp.where(flat, xp.ones_like(size), size)
        root = xp.sqrt(xp.ones_like(size) / 2)
        low, high = xp.where(flat, root, self.s / scale), xp.where(flat, root, high / scale)
        upward = half >= 0
        return xp.where(upward, low, high), xp.where(upward, high, low), xp.hypot(self.s, half)


def start_frame(
    xp: Any,
    target: Any,
    product: Any,
    gram_in: Any,
    gram_out: Any,
    layer_root: Any = None,
    *,
    modes: Modes | None = None,
    kind: Imbalance | None = None,
    basis: Basis | None = None,
    root: Any = None,
) -> Frame:
    """Return the eigenbasis of ``F~ = [[-total/2, S^T], [S, total/2]]`` and the square root of the initial state in it.

    The modes of the target, the imbalance and the `square_root` of the initial state, and the `eigenbasis` are computed
    unless given. A given `layer_root`, the square root ``(W1^T; W2)`` of NumPy weights, is used where the imbalance is
    small: there the state has lost small modes. Otherwise all modes have the size of the imbalance, and the root is
    made of the state.
    """
    shape = tuple(product.shape[-2:])
    given = (target, product, gram_in, gram_out)
    batch = np.broadcast_shapes(*(tuple(a.shape[:-2]) for a in given))
    modes = modes or Modes.of(xp, target)
    kind = kind or imbalance(xp, product, gram_in, gram_out)
    if any(tuple(a.shape[:-2]) != batch for a in given[1:]):
        product, gram_in, gram_out = (xp.broadcast_to(a, batch + tuple(a.shape[-2:])) for a in given[1:])
        kind = Imbalance(*(xp.broadcast_to(a, batch) for a in kind))
    if layer_root is not None:
        root = np.broadcast_to(layer_root, (*batch, *layer_root.shape[-2:]))
        small = GRADED * (largest(xp, gram_in) + largest(xp, gram_out))
        graded = (kind.spread == 0) & ((kind.total == 0) | (np.abs(kind.total) < small))
        if not graded.all():
            root = _chosen(graded, root, square_root(xp, product, gram_in, gram_out, kind))
    elif root is None:
        root = square_root(xp, product, gram_in, gram_out, kind)
    basis = basis or eigenbasis(xp, modes, kind.total)
    q = _in_eigenbasis(xp, modes, basis, root)
    q, root = echelon(xp, q, root, min(shape), _noise(xp, shape, kind))
    apart = kind.spread > 0
    lead = xp.where(apart, 0 * kind.total, xp.abs(kind.total) / 2)
    slow = xp.where(apart[..., None], basis.rate, basis.slow)
    return Frame(basis.vectors, basis.rate, q, root, kind.spread, lead, slow)


def _noise(xp: Any, shape: tuple[int, ...], kind: Imbalance) -> Any:
    """Return the relative size below which entries of a root count as zero, for a product of this shape."""
    return 16 * sum(shape) * precision(xp) + 8 * kind.distance


def square_root(xp: Any, product: Any, gram_in: Any, gram_out: Any, kind: Imbalance) -> Any:
    """Return a square root of the initial state from product and Gram matrices; unused columns, first, are zero."""
    noise = _noise(xp, tuple(product.shape[-2:]), kind)
    two = arithmetic.to_numpy(kind.spread) > 0
    if two.all():
        return _full_root(xp, product, kind)
    if arithmetic.to_numpy((kind.total == 0) & (kind.spread == 0)).all():
        return _balanced_root(xp, product, gram_in, gram_out, noise)
    root = _flat_root(xp, product, gram_in, gram_out, kind, noise)
    if not two.any():
        return root
    n = gram_in.shape[-1] + gram_out.shape[-1]
    free = xp.zeros((*root.shape[:-1], n - root.shape[-1]), dtype=xp.float64)
    root = xp.concat([free, root], axis=-1)
    return xp.where((kind.spread > 0)[..., None, None], _full_root(xp, product, kind), root)


def _chosen(mask: np.ndarray, root: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return a root where the mask, shape batch, holds, else the other one; unused columns, first, are zero."""
    width = max(root.shape[-1], other.shape[-1])
    root, other = (np.pad(a, [(0, 0)] * (a.ndim - 1) + [(width - a.shape[-1], 0)]) for a in (root, other))
    return np.where(mask[..., None, None], root, other)


class Basis(NamedTuple):
    """Eigenvectors and eigenvalues of ``F~``, by decreasing eigenvalue.

    Parameters
    ----------
    vectors : array, shape batch + (n, n)
    rate, slow : array, shape batch + (n,)
        As in `Frame`.
    cin, cout : array, shape batch + (k,)
        Weights of the pairs, as in `Modes.weighed`.
    """

    vectors: Any
    rate: Any
    slow: Any
    cin: Any
    cout: Any


def eigenbasis(xp: Any, modes: Modes, total: Any) -> Basis:
    """Return the basis of ``F~``.

    Input directions without a singular value have the eigenvalue ``-total/2``, such output directions ``total/2``.
    """
    weights = *_, rate = modes.weighed(xp, total)
    batch, k, half = tuple(rate.shape[:-1]), rate.shape[-1], total[..., None] / 2
    rows_in, rows_out = modes.v.shape[-1], modes.u.shape[-1]
    cin, cout = (weight[..., None, :] for weight in weights[:2])
    v_k, u_k = modes.v[..., :, :k], modes.u[..., :, :k]
    alone = max(rows_in, rows_out) - k
    top, bottom, rates, values = [v_k * cin], [u_k * cout], [rate], [modes.s + 0 * rate]
    if alone:
        wide = rows_in > k
        zero = xp.zeros((*batch, k, alone), dtype=xp.float64)
        rest = xp.broadcast_to((modes.v if wide else modes.u)[..., :, k:], (*batch, k + alone, alone))
        top.append(rest if wide else zero)
        bottom.append(zero if wide else rest)
        rates.append(xp.broadcast_to(-half if wide else half, (*batch, alone)))
        values.append(xp.zeros((*batch, alone), dtype=xp.float64))
    top.append(flipped(xp, v_k * cout))
    bottom.append(flipped(xp, -u_k * cin))
    rates.append(-flipped(xp, rate))
    values.append(-flipped(xp, modes.s + 0 * rate))
    basis = stacked(xp, xp.concat(top, axis=-1), xp.concat(bottom, axis=-1))
    rate, value = _merged(xp, xp.concat(rates, axis=-1), xp.concat(values, axis=-1))
    height = xp.abs(value)
    beyond = xp.hypot(height, half) + xp.abs(half)
    slow = height * (value / xp.where(beyond > 0, beyond, xp.ones_like(beyond)))
    return Basis(basis, rate, slow, *weights[:2])


def _in_eigenbasis(xp: Any, modes: Modes, basis: Basis, root: Any) -> Any:
    """Return ``vectors^T root`` at half the cost of the product, from the two halves of each basis vector."""
    rows_in, k = modes.v.shape[-1], modes.s.shape[-1]
    cin, cout = basis.cin[..., None], basis.cout[..., None]
    a = xp.matrix_transpose(modes.v) @ root[..., :rows_in, :]
    b = xp.matrix_transpose(modes.u) @ root[..., rows_in:, :]
    a_k, b_k = a[..., :k, :], b[..., :k, :]
    parts = (a_k * cin + b_k * cout, a[..., k:, :], b[..., k:, :], (a_k * cout - b_k * cin)[..., ::-1, :])
    return xp.concat([part for part in parts if part.shape[-2] > 0], axis=-2)


def _merged(xp: Any, rate: Any, value: Any) -> tuple[Any, Any]:
    """Return decreasing rates and signed singular values; pairs that nearly agree are set equal.

    Degenerate targets then stay degenerate. Rates of different singular values may agree to rounding.
    """
    n = rate.shape[-1]
    grain = 4 * n * precision(xp)
    same, like = grain * rate[..., :1], grain * value[..., :1]
    close = arithmetic.to_numpy(rate[..., :-1] - rate[..., 1:]) <= arithmetic.to_numpy(same)
    close &= arithmetic.to_numpy(value[..., :-1] - value[..., 1:]) <= arithmetic.to_numpy(like)
    if not close.any():
        return rate, value
    rates, values = [rate[..., :1]], [value[..., :1]]
    for i in range(1, n):
        now, here = rate[..., i : i + 1], value[..., i : i + 1]
        equal = (rates[-1] - now <= same) & (values[-1] - here <= like)
        rates.append(xp.where(equal, rates[-1], now))
        values.append(xp.where(equal, values[-1], here))
    return xp.concat(rates, axis=-1), xp.concat(values, axis=-1)


def _balanced_root(xp: Any, product: Any, gram_in: Any, gram_out: Any, noise: Any) -> Any:
    """Return ``Q0`` of a balanced state, shape batch + (n, r), unused columns zero.

    The product and each Gram matrix determine one another's singular values. Where the smaller Gram matrix is
    well-conditioned, its Cholesky factor L is one block and ``product L^-T`` the other. Otherwise the blocks are the
    singular vectors of the product, with weights ``sqrt(s)``.
    """
    root = None if arithmetic.is_object(xp) else factor_root(xp, product, gram_in, gram_out)
    if root is not None:
        return root
    u, s, vh = xp.linalg.svd(product, full_matrices=False)
    used = s > noise[..., None] * s[..., :1]
    count = xp.max(xp.sum(xp.astype(used, xp.float64), axis=-1))
    first = slice(max(1, int(arithmetic.to_numpy(count))))
    root = xp.sqrt(xp.where(used, s, xp.zeros_like(s)))[..., None, first]
    return stacked(xp, xp.matrix_transpose(vh)[..., first] * root, u[..., first] * root)


def _flat_root(xp: Any, product: Any, gram_in: Any, gram_out: Any, kind: Imbalance, noise: Any) -> Any:
    """Return ``Q0`` of a state with one eigenvalue (``spread = 0``), shape batch + (n, r), unused columns zero.

    In eigenvectors of ``P0`` the rounding error of the largest entry affects the smallest columns. A Newton step
    towards ``Q^T J Q = total I`` balances each column to its last digit. It changes ``P0`` by rounding errors only.
    """
    rows = gram_in.shape[-1]
    whole = stacked(
        xp,
        xp.concat([gram_in, xp.matrix_transpose(product)], axis=-1),
        xp.concat([product, gram_out], axis=-1),
    )
    value, vector = xp.linalg.eigh(whole)
    value, noise = value[..., None, :], noise[..., None, None]
    used = value > noise * xp.max(xp.abs(value), axis=-1, keepdims=True)
    # |Q_j|^2 >= |Q_j^T J Q_j| = |total|: a weaker column comes from the state's distance from the class
    used = used & (2 * value >= xp.abs(kind.total)[..., None, None])
    count = xp.max(xp.sum(xp.astype(used, xp.float64), axis=-1))
    last = slice(value.shape[-1] - max(1, int(arithmetic.to_numpy(count))), None)
    used, value, vector = used[..., last], value[..., last], vector[..., last]
    value = xp.where(used, value, xp.zeros_like(value))
    q = vector * xp.sqrt(value)
    pair = value + xp.matrix_transpose(value)
    pair = xp.where(pair > 0, pair, xp.ones_like(pair))
    wanted = kind.total[..., None, None] * xp.eye(value.shape[-1]) * xp.where(used, 1 + 0 * value, 0 * value)
    for _ in range(1 + xp.dps // 15 if arithmetic.is_object(xp) else 1):
        top, bottom = q[..., :rows, :], q[..., rows:, :]
        excess = xp.matrix_transpose(bottom) @ bottom - xp.matrix_transpose(top) @ top - wanted
        turn = excess / pair
        q = stacked(xp, top + top @ turn, bottom - bottom @ turn)
    return _refined(xp, q, product, gram_in, gram_out, kind.spread == 0)


def _refined(xp: Any, q: Any, product: Any, gram_in: Any, gram_out: Any, single: Any) -> Any:
    """Return `q`; a block much smaller than the other is computed from the product instead of from ``P0``.

    Only a lambda-balanced state can have blocks of different size; the larger block is then well-conditioned. Sizes are
    traces: entries of a block of many rows are small in a state of any kind.
    """
    rows = gram_in.shape[-1]
    top, bottom = q[..., :rows, :], q[..., rows:, :]
    x, z = trace(xp, gram_in)[..., None, None], trace(xp, gram_out)[..., None, None]
    turned = xp.matrix_transpose

    def other(block: Any, map_: Any, fit: Any) -> Any:
        gram = turned(block) @ block
        size = xp.sum(block * block, axis=-2, keepdims=True)
        used = fit & (size > 0) & (turned(size) > 0)
        gram = xp.where(used, gram, xp.eye(gram.shape[-1]) + 0 * gram)
        return turned(xp.linalg.solve(gram, turned(block) @ map_))

    single = single[..., None, None]
    small_in, small_out = single & (16 * x < z), single & (16 * z < x)
    if arithmetic.to_numpy(small_in).any():
        top = xp.where(small_in, other(bottom, product, small_in), top)
    if arithmetic.to_numpy(small_out).any():
        bottom = xp.where(small_out, other(top, turned(product), small_out), bottom)
    return stacked(xp, top, bottom)


def _full_root(xp: Any, product: Any, kind: Imbalance) -> Any:
    """Return ``Q0`` of a state with two eigenvalues, shape batch + (n, n); the product determines ``P0``.

    ``X = sqrt(kappa^2 + Y^T Y) - total/2``, ``Z = sqrt(kappa^2 + Y Y^T) + total/2``,
    ``kappa^2 = total^2/4 + spread``: one 2 x 2 block for each singular value of the product.
    """
    v, s, u = Modes.of(xp, product)
    k, rows_in, rows_out = s.shape[-1], v.shape[-1], u.shape[-1]
    half = kind.total[..., None] / 2
    root = xp.sqrt(kind.spread)[..., None]
    kappa = xp.hypot(half, root)
    much = xp.hypot(kappa, s) + xp.abs(half)
    much = xp.where(much > 0, much, xp.ones_like(much))
    large = xp.sqrt(much)
    up = half >= 0
    # the larger of the two squares is the pivot, which avoids cancellation
    first_in, first_out = xp.where(up, s / large, large), xp.where(up, large, s / large)
    second = root / large
    second_in, second_out = xp.where(up, second, 0 * second), xp.where(up, 0 * second, second)
    v_k, u_k = v[..., :, :k], u[..., :, :k]
    parts = [
        stacked(xp, v_k * first_in[..., None, :], u_k * first_out[..., None, :]),
        stacked(xp, v_k * second_in[..., None, :], u_k * second_out[..., None, :]),
    ]
    batch = tuple(s.shape[:-1])
    wide = kappa + xp.abs(half)
    wide = xp.where(wide > 0, wide, xp.ones_like(wide))
    narrow = root * root / wide
    if rows_in > k:
        size = xp.sqrt(xp.where(up, narrow, wide))[..., None]
        zero = xp.zeros((*batch, rows_out, rows_in - k), dtype=xp.float64)
        parts.append(stacked(xp, v[..., :, k:] * size, zero))
    if rows_out > k:
        size = xp.sqrt(xp.where(up, wide, narrow))[..., None]
        zero = xp.zeros((*batch, rows_in, rows_out - k), dtype=xp.float64)
        parts.append(stacked(xp, zero, u[..., :, k:] * size))
    return xp.concat(parts, axis=-1)
