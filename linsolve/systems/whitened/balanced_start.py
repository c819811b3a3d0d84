"""Square root of a balanced initial state by a Cholesky factor."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.arithmetic import precision
from linsolve.systems.whitened.factorizations import RELIABLE, factored, inverted, stacked
from linsolve.systems.whitened.imbalance import Imbalance, least_normal
from linsolve.systems.whitened.starts import LARGEST, TOLERANCE

__all__ = ["balanced_start", "factor_root", "may_be_balanced"]


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


def may_be_balanced(product: Any, gram_in: Any, gram_out: Any) -> bool:
    """Return whether one state (NumPy) may be a balanced one: Gram matrices of equal trace, of a size with squares."""
    size_in, size_out = _sizes(gram_in, gram_out)
    if not (min(size_in, size_out) >= least_normal(np, gram_in) and size_in + size_out <= LARGEST):
        return False
    with np.errstate(over="ignore", invalid="ignore"):  # of large negative entries
        difference = abs(gram_in.trace() - gram_out.trace())
    return bool(difference <= _grain(product) * (size_in + size_out) * len(product))


def balanced_start(product: Any, gram_in: Any, gram_out: Any) -> tuple[Imbalance, Any] | None:
    """Return the imbalance and the square root of one state (NumPy) that its root shows to be balanced, else None.

    With ``P0 = R R^T + E`` the norm of ``P0 J P0`` is at most ``(|R^T J R| + 2 |E|) |P0|``. Where this bound is below
    rounding, `imbalance` finds zero too, from twice as many products of matrices. Where E is also below the tolerance
    in the unit of each Gram matrix, the state is one of weights. Other states, those whose squares overflow, and
    subnormal ones are left to the checks of a flow.
    """
    if not may_be_balanced(product, gram_in, gram_out):
        return None
    rows, (size_in, size_out) = len(gram_in), _sizes(gram_in, gram_out)
    wide, size = rows <= len(gram_out), size_in + size_out
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
    zero, most = np.zeros(()), min(_grain(product), TOLERANCE * min(size_in, size_out) / size)
    return (Imbalance(zero, zero, distance), root) if distance <= most else None


def _sizes(gram_in: Any, gram_out: Any) -> tuple[float, float]:
    """Return the largest diagonal entries."""
    return float(gram_in.diagonal().max()), float(gram_out.diagonal().max())


def _grain(product: Any) -> float:
    """Return the relative size of rounding errors."""
    return 8 * sum(product.shape) * precision(np)
