r"""The matrix Riccati equation in JAX: values by the host, derivatives by the flow map along the solution.

The rank decisions of the algorithms keep saddles exact and depend on values. In JAX the host makes them. The flow map
over a step h is ``P -> (C + D P)(A + B P)^-1`` with

.. math:: \begin{pmatrix} A & B \\ C & D \end{pmatrix} = \exp h \begin{pmatrix} -\tilde F & 1 \\ \hat\delta & \tilde F
    \end{pmatrix} .

This map is rational. Its derivative along the solution maps a change of the start, the target or the time from step to
step. No eigenvector is differentiated.

Gradient flow keeps the rank of ``P``. The derivative is that along states of the same rank, as every change of the
weights is to first order: for N, the projection onto the kernel of ``P``, ``N dP N = 0``. Rounding errors break this
rule and would grow exponentially, so that ``N dP N`` is removed after each step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from linsolve.systems.whitened.imbalance import imbalance

__all__ = ["traced_riccati"]

_STEPS = 128
_FAR = 400.0  # largest product of time and |F| that the steps cover; later the solution must have converged
_CONVERGED = 1e-12
_ROUNDING = 2.0**-50  # share of an eigenvalue of the kernel
_SEPARATE = 1e-10  # least share of an eigenvalue outside of the kernel in the largest one


def traced_riccati(
    xp: Any, riccati: Callable[..., Any], t: Any, *given: Any, posed: Callable[..., Any] | None = None
) -> tuple[Any, Any, Any]:
    """Return product and Gram matrices at times `t`; `riccati` evaluates them in NumPy.

    Parameters
    ----------
    xp : namespace
    riccati : callable
        Function of ``(numpy, t, *given)``.
    t : array
        Times, shape lead + (1,) * len(batch).
    *given : array
        Target, product and Gram matrices, shape batch + own; with `posed` any matrices.
    posed : callable, optional
        Function of `given`: target, product, Gram matrices, and spread and total of the `imbalance`.
    """
    full = np.broadcast_shapes(t.shape, *(a.shape[:-2] for a in given))
    given = tuple(xp.broadcast_to(a, full + a.shape[-2:]) for a in given)
    equation = _Equation(xp, riccati, posed or (lambda *given: _in_class(xp, *given)))

    def values(t: Any, *given: Any) -> Any:
        y, x, z = _on_host(equation, t[..., None], *given)
        return y[..., 0, :, :], x[..., 0, :, :], z[..., 0, :, :]

    def derivative(found: Any, given: Any, changes: Any) -> Any:
        return _changes(equation, found, given, changes)

    return xp.with_derivative(values, derivative, xp.broadcast_to(t, full), *given)


class _Equation(NamedTuple):
    """Namespace, solution in NumPy, and the start with its imbalance as a function of the given matrices."""

    xp: Any
    riccati: Callable[..., Any]
    posed: Callable[..., Any]


def _in_class(xp: Any, target: Any, *start: Any) -> tuple[Any, ...]:
    kind = imbalance(xp, *start)
    return target, *start, kind.spread, kind.total


def _on_host(equation: _Equation, t: Any, *given: Any) -> tuple[Any, Any, Any]:
    """Return the solution at times `t`, shape full + (times,), of the problems of shape full."""
    xp, riccati, posed = equation
    shapes = tuple(t.shape + a.shape[-2:] for a in posed(*given)[1:4])

    def evaluated(t: np.ndarray, *given: np.ndarray) -> list[np.ndarray]:
        count = t.shape[-1]
        clock = np.moveaxis(t.reshape(-1, count), -1, 0)
        found = riccati(np, np.where(clock > _late(t), np.inf, clock), *(a.reshape(-1, *a.shape[-2:]) for a in given))
        return [np.moveaxis(a, 0, 1).reshape(*t.shape, *a.shape[-2:]) for a in found]

    return xp.on_host(evaluated, shapes, t, *given)


def _late(t: np.ndarray) -> float:
    return float(np.sqrt(np.finfo(np.float32).max)) / 2


def _changes(equation: _Equation, found: Any, given: tuple[Any, ...], changes: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    xp, t = equation.xp, given[0]
    (target, *_, spread, total), turned = xp.jvp(equation.posed, given[1:], changes[1:])
    n_in, pace = target.shape[-1], _pace(xp, target, spread, total)
    far = t * pace > _FAR
    end = xp.where(far, _FAR / pace, t)
    grid = end[..., None] * xp.arange(_STEPS + 1) / _STEPS
    path = _whole(xp, *_on_host(equation, grid, *given[1:]))
    moved = xp.where(far, xp.zeros_like(t), changes[0])
    steps, flow = _flow_map(xp, (end, target, spread, total), (moved, turned[0], *turned[4:]))
    path = xp.moveaxis(path, -3, 0)
    (kernels,) = xp.on_host(_kernels, (path.shape,), path)

    def step(carried: Any, ends: Any) -> tuple[Any, None]:
        here, there, kernel = ends
        return _of_rank(kernel, _carried(xp, steps, flow, here, there, carried)), None

    carried = xp.scan(step, _of_rank(kernels[0], _whole(xp, *turned[1:4])), (path[:-1], path[1:], kernels[1:]))
    gone = xp.max(xp.abs(path[-1] - _whole(xp, *found)), axis=(-2, -1))
    lost = far & ~(gone <= _CONVERGED * xp.max(xp.abs(path[-1]), axis=(-2, -1)))
    carried = carried * xp.where(lost, xp.nan, 1.0)[..., None, None]  # `where` would hide nan in reverse mode
    return carried[..., n_in:, :n_in], carried[..., :n_in, :n_in], carried[..., n_in:, n_in:]


def _kernels(path: np.ndarray) -> tuple[np.ndarray]:
    """Return the projections onto the kernels of ``P``, of the dimension at the start; 0 while it is not separate."""
    values, vectors = np.linalg.eigh(path)
    largest = values[..., -1:]
    inside = (values <= values.shape[-1] * _ROUNDING * largest)[0]
    separate = np.min(np.where(inside, largest, values), axis=-1, keepdims=True) > _SEPARATE * largest
    some = vectors * (inside & separate)[..., None, :]
    return (some @ np.swapaxes(vectors, -1, -2),)


def _of_rank(kernel: Any, change: Any) -> Any:
    """Return the part of a change of ``P`` that keeps its rank to first order."""
    return change - kernel @ change @ kernel


def _pace(xp: Any, target: Any, spread: Any, total: Any) -> Any:
    """Return the norm of ``F~``, 1 where it is 0."""
    size = xp.hypot(xp.sqrt(xp.sum(target * target, axis=(-2, -1))), total) + xp.sqrt(spread)
    return xp.where(size > 0, size, xp.ones_like(size))


def _whole(xp: Any, y: Any, x: Any, z: Any) -> Any:
    """Return ``[[X, Y^T], [Y, Z]]``."""
    upper = xp.concat([x, xp.matrix_transpose(y)], axis=-1)
    return xp.concat([upper, xp.concat([y, z], axis=-1)], axis=-2)


def _flow_map(xp: Any, given: tuple[Any, ...], changes: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
    """Return the four blocks of the exponential of a step, and their changes."""

    def exponential(t: Any, target: Any, spread: Any, total: Any) -> Any:
        (n_out, n_in), spread, total = target.shape[-2:], spread[..., None, None], total[..., None, None]
        zero, one = xp.zeros_like(target), xp.eye(n_in + n_out)
        ends = -total / 2 * xp.eye(n_in), total / 2 * xp.eye(n_out)
        f = _whole(xp, target, ends[0] + 0 * _gram(xp, zero), ends[1])
        unit = one + 0 * f
        upper, lower = xp.concat([-f, unit], axis=-1), xp.concat([spread * unit, f], axis=-1)
        return xp.expm((t / _STEPS)[..., None, None] * xp.concat([upper, lower], axis=-2))

    whole, moved = xp.jvp(exponential, given, changes)
    n = whole.shape[-1] // 2
    return _quarters(whole, n), _quarters(moved, n)


def _gram(xp: Any, target: Any) -> Any:
    return xp.matrix_transpose(target) @ target


def _quarters(a: Any, n: int) -> list[Any]:
    return [a[..., :n, :n], a[..., :n, n:], a[..., n:, :n], a[..., n:, n:]]


def _carried(xp: Any, blocks: list[Any], moved: list[Any], here: Any, there: Any, change: Any) -> Any:
    """Return the change of ``P`` after a step from `here` to `there`."""
    a, b, _, d = blocks
    da, db, dc, dd = moved
    under, turned = a + b @ here, xp.matrix_transpose
    over = dc + dd @ here + d @ change - there @ (da + db @ here + b @ change)
    found = turned(xp.linalg.solve(turned(under), turned(over)))
    return (found + turned(found)) / 2
