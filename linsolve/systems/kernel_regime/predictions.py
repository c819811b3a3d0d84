"""Outputs at test points and parameters of the linearized model, under a frozen kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.arithmetic import precision
from linsolve.core.arguments import real_array
from linsolve.core.parameters import own_sizes
from linsolve.core.query import pose
from linsolve.numerics.checked import in_range
from linsolve.numerics.double_double import length
from linsolve.numerics.spectrum import Spectrum, integral_weights, rows_times

__all__ = ["Predictions"]

_OUTSIDE = 1e-6  # largest fraction of a test point's kernel outside the range; eigenvalues at n eps allow no less
_MEANING = {
    "k_x": "kernel between test and training inputs",
    "f0_x": "outputs at the test points at time 0",
    "jacobian": "derivative of the training outputs by the parameters",
    "theta0": "parameters at time 0",
}


class Predictions:
    """Mixin for a flow with a `spectrum` and targets ``y``: test outputs and parameters of the linearized model."""

    y: Any

    def predict(self, t: Any, f0: Any, k_x: Any, f0_x: Any) -> Any:
        """Return the outputs at test points.

        Parameters
        ----------
        t : array_like, any shape
            Times; ``inf`` gives the limit.
        f0 : array_like, shape batch + (n,)
            Outputs on the training inputs at time 0.
        k_x : array_like, shape batch + (m, n)
            Kernel between test and training inputs.
        f0_x : array_like, shape batch + (m,)
            Outputs at the test points at time 0.

        Returns
        -------
        array, shape t.shape + batch + (m,)

        Raises
        ------
        ValueError
            If shapes do not fit, and at ``t = inf`` if `k_x` is outside the range of the kernel: outputs would grow
            without bound. This cannot happen if the kernel on all inputs is positive semi-definite.
        OverflowError
            If the outputs are beyond the range of doubles.
        """
        problem, more = pose(self, t, f0), {"k_x": k_x, "f0_x": f0_x}
        k_x, f0_x = _beside(problem, "predict", more, {"k_x": ("m", "n"), "f0_x": ("m",)})
        spectrum = problem.flow.spectrum(problem.xp)

        def outputs() -> Any:
            onto = _onto_modes(problem, spectrum, k_x)
            return _moved(problem, spectrum.values, spectrum.vectors, onto, f0_x)

        return in_range(f"{type(self).__name__}.predict", outputs, k_x=k_x, f0_x=f0_x, f0=problem.z0.f, y=self.y)

    def parameters_at(self, t: Any, theta0: Any, jacobian: Any, f0: Any) -> Any:
        """Return the parameters of the linearized model, from the singular values of its Jacobian.

        Parameters
        ----------
        t : array_like, any shape
            Times; ``inf`` gives the limit, the least-squares solution nearest to `theta0`.
        theta0 : array_like, shape batch + (p,)
            Parameters at time 0.
        jacobian : array_like, shape batch + (n, p)
            Derivative of the training outputs with respect to the parameters; ``J J^T`` must be the kernel.
        f0 : array_like, shape batch + (n,)
            Outputs on the training inputs at time 0.

        Returns
        -------
        array, shape t.shape + batch + (p,)

        Raises
        ------
        ValueError
            For shapes that do not fit, and for a Jacobian whose Gram matrix is not the kernel.
        OverflowError
            If the parameters are beyond the range of doubles.
        """
        problem, more = pose(self, t, f0), {"jacobian": jacobian, "theta0": theta0}
        J, theta0 = _beside(problem, "parameters_at", more, {"jacobian": ("n", "p"), "theta0": ("p",)})
        _refuse_other_kernel(problem, J)
        u, s, rows = _singular(problem.xp, J)
        onto = problem.xp.matrix_transpose(s[..., None] * rows)
        return in_range(
            f"{type(self).__name__}.parameters_at",
            lambda: _moved(problem, s**2, u, onto, theta0),
            jacobian=J, theta0=theta0, f0=problem.z0.f, y=self.y,
        )  # fmt: skip


def _beside(problem: Any, method: str, values: Mapping[str, Any], axes: Mapping[str, tuple[str, ...]]) -> list[Any]:
    """Return further arguments of a query in its namespace, with sizes and batch axes checked against it."""
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
                f"{who}: {name} has batch shape {lead} but must broadcast to the flow's {problem.batch} (batch axes "
                "lead); make them equal or 1"
            )
        found.append(arithmetic.cast(problem.xp, array))
    return found


def _refuse_other_kernel(problem: Any, jacobian: Any) -> None:
    """Raise if the Gram matrix of the Jacobian is not the kernel."""
    xp, kernel = problem.xp, problem.flow.kernel
    with np.errstate(over="ignore", invalid="ignore"):
        gram = jacobian @ xp.matrix_transpose(jacobian)
        gap, size = (float(np.max(arithmetic.to_numpy(xp.abs(v)))) for v in (gram - kernel, kernel))
    if not gap <= problem.flow.tolerance * size:
        raise ValueError(
            f"{type(problem.flow).__name__}.parameters_at: jacobian jacobian^T - kernel = {gap:.3g} must vanish "
            f"(largest entry; the kernel's is {size:.3g}); build the flow with kernel = J @ J.T"
        )


def _onto_modes(problem: Any, spectrum: Spectrum, rows: Any) -> Any:
    """Return ``rows V``, without rounding in the null space; raise at ``t = inf`` if rows have a part in that space."""
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
            "vanish at t = inf (relative; otherwise outputs grow without bound); give a finite time"
        )
    return xp.where(noise, xp.zeros_like(found), found)


def _singular(xp: Any, jacobian: Any) -> tuple[Any, Any, Any]:
    """Return the singular value decomposition ``U, s, W^T``; singular values at rounding level are zero."""
    u, s, onto = xp.linalg.svd(jacobian, full_matrices=False)
    floor = max(jacobian.shape[-2:]) * precision(xp) * xp.max(s, axis=-1, keepdims=True)
    return u, xp.where(s <= floor, xp.zeros_like(s), s), onto


def _moved(problem: Any, values: Any, vectors: Any, onto: Any, origin: Any) -> Any:
    """Return ``origin - onto t phi(eta lam t) V^T eta (f0 - y)`` at the times of the query."""
    flow, xp = problem.flow, problem.xp
    clock = xp.reshape(problem.t, problem.t.shape + (1,) * len(problem.batch))
    c = integral_weights(xp, values, flow.eta * clock) * rows_times(xp, problem.z0.f - flow.y, vectors)
    change = rows_times(xp, c, xp.matrix_transpose(onto))
    shape = tuple(problem.t.shape) + problem.batch + (origin.shape[-1],)
    return xp.broadcast_to(xp.where(clock[..., None] == 0, origin, origin - change), shape)
