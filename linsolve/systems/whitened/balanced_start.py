"""Square root of a balanced initial state by a Cholesky factor."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.arithmetic import precision
from linsolve.systems.whitened.factorizations import RELIABLE, factored, inverted, stacked
from linsolve.systems.whitened.imbalance import Imbalance
from linsolve.systems.whitened.starts import LARGEST

__all__ = ["balanced_start", "factor_root"]

SMALLEST = float(np.finfo(float).tiny)  # largest entry of a Gram matrix without subnormal numbers


def factor_root(xp: Any, product: Any, gram_in: Any, gram_out: Any) -> Any:
    """Return the root of a balanced state by a Cholesky factor, None if the smaller Gram matrix is ill-conditioned."""
    wide = gram_in.shape[-1] <= gram_out.shape[-1]
    gram, map_ = (gram_in, product) if wide else (gram_out, xp.matrix_transpose(product))
    factor = factored(xp, gram)
    if not arithmetic.to_numpy(xp.all(xp.linalg.diagonal(factor) > 0)):
        return None
    inverse = inverted(xp, factor)
    trace = xp.sum(xp.sum(inverse * inverse, axis=-2) * xp.linalg.diagonal(gram), axis=-1)
    if not arithmetic.to_numpy(xp.all(trace - gram.shape[-1] <= RELIABLE)):
        return None
    other = map_ @ xp.matrix_transpose(inverse)
    return stacked(xp, factor, other) if wide else stacked(xp, other, factor)


def balanced_start(product: Any, gram_in: Any, gram_out: Any) -> tuple[Imbalance, Any] | None:
    """Return the imbalance and the square root of one state (NumPy) that its root shows to be balanced, else None.

    With ``P0 = R R^T + E`` the norm of ``P0 J P0`` is at most ``(|R^T J R| + 2 |E|) |P0|``. Where this bound is below
    rounding, `imbalance` finds zero too, from twice as many products of matrices, and ``P0`` is, to rounding, the state
    of weights. Other states, those whose squares overflow, and subnormal ones are left to the checks of a flow.
    """
    diagonals, rows = (gram_in.diagonal(), gram_out.diagonal()), len(gram_in)
    size_in, size_out = (float(a.max()) for a in diagonals)
    size, grain = size_in + size_out, 8 * sum(product.shape) * precision(np)
    if not (min(size_in, size_out) >= SMALLEST and size <= LARGEST):
        return None
    if abs(diagonals[0].sum() - diagonals[1].sum()) > grain * size * len(product):
        return None
    wide = rows <= len(gram_out)
    least, gram = (gram_in, gram_out) if wide else (gram_out, gram_in)
    if not np.array_equal(least, least.T):  # its factor reads one triangle
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # of a product that is too large for its Gram matrices
        root = factor_root(np, product, gram_in, gram_out)
        if root is None:
            return None
        top, bottom = root[:rows], root[rows:]
        block = bottom if wide else top
        inner, rest = bottom.T @ bottom - top.T @ top, gram - block @ block.T
        distance = np.linalg.norm(inner / size) + 2 * np.linalg.norm(rest / size)
    zero = np.zeros(())
    return (Imbalance(zero, zero, distance), root) if distance <= grain else None
