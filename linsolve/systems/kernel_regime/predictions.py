"""Outputs at test points and parameters of the linearized model, under a frozen kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.arithmetic import precision
from linsolve.core.arguments import real_array
from linsolve.core.parameters import own_sizes
from linsolve.numerics.double_double import length
from linsolve.numerics.spectrum import Spectrum, integral_weights, rows_times

__all__ = ["beside", "moved", "onto_modes", "refuse_other_kernel", "singular"]

_OUTSIDE = 1e-6  # of a test point's kernel outside the range: at eigenvalues of n eps no less can be asked
_MEANING = {
    "k_x": "kernel between test and training inputs",
    "f0_x": "outputs at the test points at time 0",
    "jacobian": "derivative of the training outputs by the parameters",
    "theta0": "parameters at time 0",
}


def beside(problem: Any, method: str, values: Mapping[str, Any], axes: Mapping[str, tuple[str, ...]]) -> list[Any]:
    """Return further arrays of a query, in its namespace, their sizes and batch axes checked against it."""
    who = f"{type(problem.flow).__name__}.{method}"
    sizes: dict[str, tuple[int, str]] = {"n": (problem.flow.kernel.shape[-1], "kernel")}
    found = []
    for name, value in values.items():
        array = real_array(who, name, value, meaning=_MEANING[name])
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
    with np.errstate(over="ignore", invalid="ignore"):
        gram = jacobian @ xp.matrix_transpose(jacobian)
        gap, size = (float(np.max(arithmetic.to_numpy(xp.abs(v)))) for v in (gram - kernel, kernel))
    if not gap <= problem.flow.tolerance * size:
        raise ValueError(
            f"{type(problem.flow).__name__}.parameters_at: jacobian jacobian^T - kernel = {gap:.3g} must vanish "
            f"(largest entry; the kernel's is {size:.3g}); build the flow with kernel = J @ J.T"
        )


def onto_modes(problem: Any, spectrum: Spectrum, rows: Any) -> Any:
    """Return ``rows V``, its rounding in the null space removed; at ``t = inf`` refuse rows that reach into it."""
    xp = problem.xp
    found = rows @ spectrum.vectors
    size = length(xp, rows)[..., None]
    null = (spectrum.values <= 0)[..., None, :]
    noise = null & (xp.abs(found) <= rows.shape[-1] * precision(xp) * size)
    outside = xp.where(null, xp.abs(found), xp.zeros_like(found)) / xp.where(size > 0, size, xp.ones_like(size))
    worst = float(np.max(arithmetic.to_numpy(outside)))
    if np.isinf(arithmetic.to_numpy(problem.t)).any() and worst > _OUTSIDE:
        raise ValueError(
            f"{type(problem.flow).__name__}.predict: part of k_x outside the range of the kernel = {worst:.3g} must "
            "vanish at t = inf (relative; otherwise outputs grow without bound); ask for a finite time"
        )
    return xp.where(noise, xp.zeros_like(found), found)


def singular(xp: Any, jacobian: Any) -> tuple[Any, Any, Any]:
    """Return the singular value decomposition ``U, s, W^T``; singular values at rounding level are zero."""
    u, s, onto = xp.linalg.svd(jacobian, full_matrices=False)
    floor = max(jacobian.shape[-2:]) * precision(xp) * xp.max(s, axis=-1, keepdims=True)
    return u, xp.where(s <= floor, xp.zeros_like(s), s), onto


def moved(problem: Any, values: Any, vectors: Any, onto: Any, origin: Any) -> Any:
    """Return ``origin - onto t phi(eta lam t) V^T eta (f0 - y)`` at the times of the query."""
    flow, xp = problem.flow, problem.xp
    clock = xp.reshape(problem.t, problem.t.shape + (1,) * len(problem.batch))
    c = integral_weights(xp, values, flow.eta * clock) * rows_times(xp, problem.z0.f - flow.y, vectors)
    change = rows_times(xp, c, xp.matrix_transpose(onto))
    shape = tuple(problem.t.shape) + problem.batch + (origin.shape[-1],)
    return xp.broadcast_to(xp.where(clock[..., None] == 0, origin, origin - change), shape)
