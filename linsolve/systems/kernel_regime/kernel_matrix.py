"""Checks of a kernel matrix: square, symmetric, positive semi-definite, in the range of doubles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import real_array
from linsolve.numerics.spectrum import Spectrum

__all__ = ["Memo", "is_symmetric", "refuse_indefinite", "refuse_infinite", "refuse_negative", "symmetric"]

Found = TypeVar("Found", bound=tuple)
_BLOCK = 256
_EPS = 2.0**-52
MARGIN = 100  # largest accepted rounding error, in units of n eps


class Memo(dict):
    """Cache of results of a flow, a tuple of arrays for each arithmetic; pickled as an empty cache."""

    def recall(self, xp: Any, answer: Callable[[], Found]) -> Found:
        """Return the result in this arithmetic, computed once; arrays that JAX traces are not kept."""
        if xp in self:
            return self[xp]
        found = answer()
        if arithmetic.readable(*found):
            self[xp] = found
        return found

    def __reduce__(self) -> tuple[type[Memo], tuple[()]]:
        return Memo, ()


def symmetric(who: str, kernel: Any) -> Any:
    """Return a kernel as a new, bitwise symmetric array; raise if it is not square or not symmetric."""
    kernel = real_array(who, "kernel", kernel, meaning="tangent kernel on the training inputs")
    xp = arithmetic.namespace(kernel)
    if kernel.ndim < 2 or kernel.shape[-1] != kernel.shape[-2]:
        raise ValueError(
            f"{who}: kernel has shape {tuple(kernel.shape)} but must be square, batch + (n, n) (every training input "
            "with every other); kernels with test inputs go to predict"
        )
    other = xp.matrix_transpose(kernel)
    if not arithmetic.readable(kernel):
        return kernel if arithmetic.is_object(xp) else kernel / 2 + other / 2
    if isinstance(kernel, np.ndarray) and kernel.dtype == np.float64 and is_symmetric(np, kernel):
        kernel = kernel.copy()
        kernel.setflags(write=False)  # its spectrum is kept
        return kernel
    gap, size = (float(np.max(arithmetic.to_numpy(xp.abs(v)))) for v in (kernel / 2 - other / 2, kernel / 2))
    if gap > MARGIN * kernel.shape[-1] * _EPS * size:
        raise ValueError(
            f"{who}: kernel - kernel^T = {gap / size:.3g} must vanish (largest entry, relative to the kernel's; "
            "tangent kernels are symmetric); if that is rounding, pass (K + K.T) / 2"
        )
    kernel = kernel / 2 + other / 2
    if isinstance(kernel, np.ndarray):
        kernel.setflags(write=False)  # its spectrum is kept
    return kernel


def is_symmetric(xp: Any, matrices: Any) -> bool:
    """Return whether matrices are bitwise symmetric, comparing blocks that fit the CPU cache."""
    n = matrices.shape[-1]
    edges = [slice(low, min(low + _BLOCK, n)) for low in range(0, n, _BLOCK)]
    pairs = [(i, j) for k, i in enumerate(edges) for j in edges[: k + 1]]
    return all(bool(xp.all(matrices[..., i, j] == xp.matrix_transpose(matrices[..., j, i]))) for i, j in pairs)


def refuse_infinite(who: str, values: Any, kernel: str = "kernel", meaning: str = "tangent kernel") -> None:
    """Raise if eigenvalues overflow."""
    if not np.isfinite(arithmetic.to_numpy(values)).all():
        raise OverflowError(
            f"{who}: largest eigenvalue of {kernel} is beyond the range of doubles ({meaning}); divide the kernel by a "
            "power of two and multiply eta by it: only their product matters"
        )


def refuse_negative(who: str, spectrum: Spectrum, power: Any = 1.0) -> None:
    """Raise if a kernel, scaled by `power`, has an eigenvalue that is negative by more than rounding."""
    least = np.asarray(arithmetic.to_numpy(spectrum.least))
    refuse_infinite(who, spectrum.values)
    top = np.maximum(np.max(arithmetic.to_numpy(spectrum.values), axis=-1), 0)
    n = spectrum.values.shape[-1]
    bad = least < -MARGIN * n * _EPS * top
    if bad.any():
        k = int(np.argmin(least[bad]))
        worst, size = float(least[bad][k]), float(np.broadcast_to(top, least.shape)[bad][k])
        unit = float(np.broadcast_to(np.asarray(arithmetic.to_numpy(power), dtype=float), least.shape)[bad][k])
        share = f"{worst / size:.3g} of the largest" if size > 0 else "with none positive"
        raise ValueError(
            f"{who}: smallest eigenvalue of kernel = {worst / unit:.3g}, {share}, must not be negative (tangent "
            "kernels are J J^T, positive semi-definite); compute it in double precision, or clip its spectrum first"
        )


def refuse_indefinite(who: str, xp: Any, kernel: Any, power: Any = 1.0) -> None:
    """Raise if a kernel, scaled by `power`, is not positive semi-definite; use Cholesky if that is conclusive."""
    if xp is np:
        margin = MARGIN / 2 * kernel.shape[-1] * _EPS * np.max(np.abs(kernel), axis=(-2, -1))
        try:
            np.linalg.cholesky(kernel + margin[..., None, None] * np.eye(kernel.shape[-1]))
        except np.linalg.LinAlgError:
            pass
        else:
            return
    refuse_negative(who, Spectrum.of(xp, kernel), power)
