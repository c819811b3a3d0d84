r"""Derivatives of `FrozenHead` in JAX: functions of symmetric matrices, without singular vectors.

On deviations of the residual R from class averages the kernel is a number, and R decays by the matrix ``mu W W^T``. For
equal class sizes the same holds on the contrasts between classes, and on the average over samples if ``eta_b N`` is
added. For unequal sizes R on ``sqrt(m_c)`` times the class averages decays by the matrix

.. math:: W W^\top \otimes B + \eta_b\, 1 \otimes \sqrt{m} \sqrt{m}^\top .

Features and bias are integrals of R: ``H = H_0 - W^T int R K dt``, ``b = b_0 - eta_b int R 1 dt``. Exponentials and
their integrals have derivatives also where singular values are equal or 0, at which singular vectors have none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from linsolve.core.query import unbounded
from linsolve.numerics.spectrum import Spectrum, traced_decay, traced_integral
from linsolve.systems.collapse.contrasts import split

__all__ = ["smooth_losses", "smooth_state", "with_derivative_of"]

Formula = Callable[[Any, Any, Any, Any], tuple[Any, ...]]


def with_derivative_of(xp: Any, smooth: Formula, formula: Formula, flow: Any, t: Any, z0: Any) -> tuple[Any, ...]:
    """Return ``formula(flow, xp, t, z0)``, with the derivatives of the equal expression `smooth`."""
    fields = type(flow).__dataclass_fields__
    names = [name for name in flow.parameters() if not fields[name].metadata.get("whole")]

    def of(formula: Formula) -> Callable[..., tuple[Any, ...]]:
        def at(t: Any, *given: Any) -> tuple[Any, ...]:
            own = flow._with(**dict(zip(names, given, strict=False)))
            return tuple(formula(own, xp, t, flow.State(*given[len(names) :])))

        return at

    def derivative(found: Any, given: Any, changes: Any) -> Any:
        t, *rest = given
        return xp.jvp(of(smooth), (unbounded(xp, t), *rest), changes)[1]

    def values(t: Any, *given: Any) -> tuple[Any, ...]:
        return of(formula)(unbounded(xp, t), *given)

    return tuple(xp.with_derivative(values, derivative, t, *(getattr(flow, name) for name in names), *z0))


def smooth_state(flow: Any, xp: Any, t: Any, z0: Any) -> tuple[Any, Any]:
    """Return features and bias."""
    passed = _residual(xp, flow, t, z0, traced_integral)
    h = z0.h - xp.matrix_transpose(flow.w) @ flow._through(xp, passed)
    return h, z0.b - flow.eta_b[..., None] * xp.sum(passed, axis=-1)


def smooth_losses(flow: Any, xp: Any, t: Any, z0: Any) -> tuple[Any, ...]:
    """Return the losses of deviations, of contrasts and of the average."""
    parts = split(xp, _residual(xp, flow, t, z0, traced_decay), flow._members(xp))
    return tuple(xp.sum(part**2, axis=(-2, -1)) / 2 for part in parts)


def _residual(xp: Any, flow: Any, t: Any, z0: Any, function: Callable[..., Any]) -> Any:
    """Return the initial residual after a function of the matrices of its decay, shape lead + batch + (C, N)."""
    r, y = flow.residual(xp, z0), flow._members(xp)
    seen, turned = flow.w @ xp.matrix_transpose(flow.w), xp.matrix_transpose
    if flow._equal:
        rates = [mu[..., None, None] for mu in flow.rates_of_features(xp)]
        bias = flow._count * flow.eta_b[..., None, None] * xp.eye(flow._classes)
        matrices = rates[0] * seen, rates[1] * seen, rates[2] * seen + bias
        parts = zip(matrices, split(xp, r, y), strict=True)
        return sum(turned(_on_rows(xp, function, matrix, t, turned(part))) for matrix, part in parts)
    frame, averages, rest = flow._averages_and_rest(xp, r)
    sample, roots = (flow.kappa_d - flow.kappa_c)[..., None, None], xp.sqrt(xp.sum(y, axis=-1))
    whole = _kronecker(xp, seen, flow.kernel_of_classes(xp))
    whole = whole + _kronecker(xp, xp.eye(flow._classes), flow.eta_b[..., None, None] * roots[:, None] * roots)
    flat = xp.reshape(averages, (*averages.shape[:-2], 1, -1))
    after = _on_rows(xp, function, whole, t, flat)
    after = xp.reshape(after, (*after.shape[:-2], *averages.shape[-2:]))
    return turned(_on_rows(xp, function, sample * seen, t, turned(rest))) + after @ frame


def _on_rows(xp: Any, function: Callable[..., Any], matrix: Any, t: Any, rows: Any) -> Any:
    """Return a function of a matrix, shape batch + (n, n), applied to each row of ``batch + (rows, n)``."""
    matrix = matrix[..., None, :, :]
    fixed = xp.constant(matrix)
    values, vectors, _ = Spectrum.of(xp, (fixed + xp.matrix_transpose(fixed)) / 2)
    return function(xp, matrix, (xp.maximum(values, xp.zeros_like(values)), vectors), t[..., None], rows)


def _kronecker(xp: Any, a: Any, b: Any) -> Any:
    """Return the matrix that acts on rows and columns of the flattened matrix X as ``a X b^T``."""
    n, m = a.shape[-1], b.shape[-1]
    found = a[..., :, None, :, None] * b[..., None, :, None, :]
    return xp.reshape(found, (*found.shape[:-4], n * m, n * m))
