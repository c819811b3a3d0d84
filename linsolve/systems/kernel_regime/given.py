"""What is given to a frozen kernel, checked: the kernel itself, test points, Jacobians, steps of gradient descent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.arithmetic import precision
from linsolve.core.arguments import real_array
from linsolve.core.parameters import own_sizes
from linsolve.numerics.spectrum import Spectrum, integral_weights, rows_times

__all__ = [
    "Memo", "beside", "is_symmetric", "reach", "reached", "refuse_negative",
    "refuse_other_kernel", "singular", "symmetric",
]  # fmt: skip

_BLOCK = 256
_EPS = 2.0**-52
_MARGIN = 100  # by how much rounding may exceed n eps, in units of it, before it is called a mistake
_OUTSIDE = 1e-6  # of a test point's kernel outside the range: at eigenvalues of n eps no less can be asked


class Memo(dict):
    """What was computed once for a flow; forgotten when the flow is pickled."""

    def __reduce__(self) -> tuple[type[Memo], tuple[()]]:
        return Memo, ()


def symmetric(who: str, kernel: Any) -> Any:
    """Return a kernel as a new array, bitwise symmetric; refuse one that is not square or not symmetric."""
    kernel = real_array(who, "kernel", kernel, meaning="tangent kernel on the training inputs")
    xp = arithmetic.namespace(kernel)
    if kernel.ndim < 2 or kernel.shape[-1] != kernel.shape[-2]:
        raise ValueError(
            f"{who}: kernel has shape {tuple(kernel.shape)} but must be square, batch + (n, n) (every training input "
            "with every other); kernels with test inputs go to predict"
        )
    other = xp.matrix_transpose(kernel)
    if getattr(xp, "symbolic", False):
        return kernel
    if isinstance(kernel, np.ndarray) and kernel.dtype == np.float64 and is_symmetric(np, kernel):
        kernel = kernel.copy()
        kernel.setflags(write=False)  # its spectrum is kept
        return kernel
    gap, size = (float(np.max(arithmetic.to_numpy(xp.abs(v)))) for v in (kernel - other, kernel))
    if gap > _MARGIN * kernel.shape[-1] * _EPS * size:
        raise ValueError(
            f"{who}: kernel - kernel^T = {gap / size:.3g} must vanish (largest entry, relative to the kernel's; "
            "tangent kernels are symmetric); if that is rounding, pass (K + K.T) / 2"
        )
    kernel = kernel / 2 + other / 2
    if isinstance(kernel, np.ndarray):
        kernel.setflags(write=False)  # its spectrum is kept
    return kernel


def is_symmetric(xp: Any, matrices: Any) -> bool:
    """Whether matrices are their own transposes to the last bit, compared in blocks that fit the cache."""
    n = matrices.shape[-1]
    edges = [slice(low, min(low + _BLOCK, n)) for low in range(0, n, _BLOCK)]
    pairs = [(i, j) for k, i in enumerate(edges) for j in edges[: k + 1]]
    return all(bool(xp.all(matrices[..., i, j] == xp.matrix_transpose(matrices[..., j, i]))) for i, j in pairs)


def refuse_negative(who: str, spectrum: Spectrum) -> None:
    """Refuse a kernel with an eigenvalue that is negative by more than rounding; say how negative."""
    least = np.asarray(arithmetic.to_numpy(spectrum.least))
    top = np.maximum(np.max(arithmetic.to_numpy(spectrum.values), axis=-1), 0)
    n = spectrum.values.shape[-1]
    bad = least < -_MARGIN * n * _EPS * top
    if bad.any():
        worst, size = float(least[bad].min()), float(np.broadcast_to(top, least.shape)[bad][np.argmin(least[bad])])
        share = f"{worst / size:.3g} of the largest" if size > 0 else "with none positive"
        raise ValueError(
            f"{who}: smallest eigenvalue of kernel = {worst:.3g}, {share}, must not be negative (a tangent kernel is "
            "J J^T, positive semi-definite); compute it in double precision, or clip its spectrum first"
        )


def beside(problem: Any, method: str, values: Mapping[str, Any], axes: Mapping[str, tuple[str, ...]]) -> list[Any]:
    """Return arrays that go with a question, in its namespace, their sizes and batch axes checked against it."""
    who = f"{type(problem.flow).__name__}.{method}"
    sizes: dict[str, tuple[int, str]] = {"n": (problem.flow.kernel.shape[-1], "kernel")}
    found = []
    for name, value in values.items():
        array = real_array(who, name, value, meaning=" by ".join(axes[name]))
        lead = own_sizes(who, name, array.shape, axes[name], sizes)
        try:
            fits = np.broadcast_shapes(lead, problem.batch) == problem.batch
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(
                f"{who}: {name} has batch shape {lead}, which must broadcast to the flow's {problem.batch}"
            )
        found.append(arithmetic.cast(problem.xp, array))
    return found


def refuse_other_kernel(problem: Any, jacobian: Any) -> None:
    """Refuse a Jacobian whose Gram matrix is not the kernel."""
    xp, kernel = problem.xp, problem.flow.kernel
    gram = jacobian @ xp.matrix_transpose(jacobian)
    gap, size = (float(np.max(arithmetic.to_numpy(xp.abs(v)))) for v in (gram - kernel, kernel))
    if gap > problem.flow.tolerance * size:
        raise ValueError(
            f"{type(problem.flow).__name__}.parameters_at: jacobian jacobian^T - kernel = {gap:.3g} must vanish "
            f"(largest entry; the kernel's is {size:.3g}); build the flow with kernel = J @ J.T"
        )


def reach(problem: Any, spectrum: Spectrum, rows: Any) -> Any:
    """Return ``rows V``, its rounding in the null space removed; at ``t = inf`` refuse rows that reach into it."""
    xp = problem.xp
    found = rows @ spectrum.vectors
    size = xp.sqrt(xp.sum(rows * rows, axis=-1, keepdims=True))
    null = (spectrum.values <= 0)[..., None, :]
    noise = null & (xp.abs(found) <= rows.shape[-1] * precision(xp) * size)
    outside = xp.where(null, xp.abs(found), xp.zeros_like(found)) / xp.where(size > 0, size, xp.ones_like(size))
    worst = float(np.max(arithmetic.to_numpy(outside)))
    if np.isinf(arithmetic.to_numpy(problem.t)).any() and worst > _OUTSIDE:
        raise ValueError(
            f"{type(problem.flow).__name__}.predict: part of k_x outside the range of the kernel = {worst:.3g} must "
            "vanish at t = inf (relative; no kernel does that, and outputs grow for ever); ask for a finite time"
        )
    return xp.where(noise, xp.zeros_like(found), found)


def singular(xp: Any, jacobian: Any) -> tuple[Any, Any, Any]:
    """Return the singular value decomposition ``U, s, W^T``, with zero for what rounding left of a zero."""
    u, s, onto = xp.linalg.svd(jacobian, full_matrices=False)
    floor = max(jacobian.shape[-2:]) * precision(xp) * xp.max(s, axis=-1, keepdims=True)
    return u, xp.where(s <= floor, xp.zeros_like(s), s), onto


def reached(problem: Any, values: Any, vectors: Any, onto: Any, origin: Any) -> Any:
    """Return ``origin - onto t phi(eta lam t) V^T eta (f0 - y)`` at the times of the question."""
    flow, xp = problem.flow, problem.xp
    clock = xp.reshape(problem.t, problem.t.shape + (1,) * len(problem.batch))
    c = integral_weights(xp, values, flow.eta * clock) * rows_times(xp, problem.z0.f - flow.y, vectors)
    change = rows_times(xp, c, xp.matrix_transpose(onto))
    shape = tuple(problem.t.shape) + problem.batch + (origin.shape[-1],)
    return xp.broadcast_to(xp.where(clock[..., None] == 0, origin, origin - change), shape)
