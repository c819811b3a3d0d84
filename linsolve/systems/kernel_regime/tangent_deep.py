"""Linearization of deep linear networks of raw weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from linsolve import arithmetic
from linsolve.core.flow import Flow
from linsolve.numerics.checked import in_range
from linsolve.systems.kernel_regime.frozen_kernel import FrozenKernel

__all__ = ["is_deep", "linearized_deep", "map_kernel", "outputs_of"]


def is_deep(flow: Any) -> bool:
    """Return whether a flow is that of the raw weights of a deep linear network without biases."""
    return isinstance(flow, Flow) and list(flow.axes) == [f"w{k}" for k in range(1, len(flow.axes) + 1)]


def map_kernel(xp: Any, layers: Sequence[Any], rates: Any) -> Any:
    r"""Return the tangent matrix of the map, row by row.

    .. math:: M = \sum_l \eta_l\, W_{>l} W_{>l}^T \otimes W_{<l}^T W_{<l} .

    Parameters
    ----------
    xp : namespace
    layers : sequence of array, shapes (n_l, n_{l-1})
        First layer first.
    rates : array, shape (L,)

    Returns
    -------
    array, shape (n_out * n_in, n_out * n_in)
    """
    turned = xp.matrix_transpose
    n_out, n_in = layers[-1].shape[0], layers[0].shape[1]
    above = [xp.eye(n_out, dtype=xp.float64)]
    for layer in layers[:0:-1]:
        above.append(above[-1] @ layer)
    total, below = xp.zeros((n_out, n_in, n_out, n_in), dtype=xp.float64), xp.eye(n_in, dtype=xp.float64)
    for k, layer in enumerate(layers):
        out, inner = above[-1 - k] @ turned(above[-1 - k]), turned(below) @ below
        total = total + rates[k] * out[:, None, :, None] * inner[None, :, None, :]
        below = layer @ below
    return xp.reshape(total, (n_out * n_in, n_out * n_in))


def _root(xp: Any, covariance: Any) -> Any:
    values, vectors = xp.linalg.eigh(covariance)
    return (vectors * xp.sqrt(xp.maximum(values, 0 * values))) @ xp.matrix_transpose(vectors)


def outputs_of(xp: Any, flow: Any, layers: Sequence[Any]) -> Any:
    """Return the entries of the map times the root of the covariance, row by row."""
    made = layers[0]
    for layer in layers[1:]:
        made = layer @ made
    return xp.reshape(made @ _root(xp, flow.covariance), (-1,))


def linearized_deep(flow: Any, z: Any) -> FrozenKernel:
    """Return the frozen kernel of a deep network in a state without batch axes; see `linearize`."""
    if any(v.ndim != 2 for v in z):
        raise ValueError(
            "linearize: z has batch axes, but a deep network is linearized in one state; pass one at a time"
        )
    xp = arithmetic.namespace(*z)
    flow = flow.cast(xp)
    root, n_out = _root(xp, flow.covariance), flow.target.shape[0]
    both = xp.eye(n_out, dtype=xp.float64)[:, None, :, None] * root[None, :, None, :]
    both = xp.reshape(both, (n_out * root.shape[0],) * 2)

    def kernel() -> Any:
        found = both @ map_kernel(xp, list(z), flow.rates) @ both
        return (found + xp.matrix_transpose(found)) / 2

    target = xp.reshape(flow.target @ root, (-1,))
    return FrozenKernel(in_range("linearize", kernel, **z._asdict()), target, 1)
