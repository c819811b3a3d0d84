"""Tangent kernels of linear networks: in input space, during training, and frozen before or after training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from linsolve import arithmetic
from linsolve.core.arguments import boolean, number, real_array, shown
from linsolve.core.flow import Flow
from linsolve.core.integrate import integrate
from linsolve.core.matrix_arguments import chained, layer_rates
from linsolve.core.network import trained
from linsolve.numerics.checked import in_range
from linsolve.systems.kernel_regime.frozen_kernel import FrozenKernel
from linsolve.systems.kernel_regime.tangent_deep import is_deep, linearized_deep, outputs_of

__all__ = ["Convergence", "anisotropy_directions", "convergence", "input_kernel", "linearize", "tangent_kernel"]


def input_kernel(layers: Sequence[Any], *, scale: float = 1.0, rates: Sequence[float] | None = None) -> Any:
    r"""Return M, the tangent kernel ``x^T M x'`` of a deep linear network ``f = scale W_L ... W_1 x``.

    .. math:: M = scale^2 \sum_l \eta_l |b_l|^2 A_l^T A_l, \quad A_l = W_{l-1} \cdots W_1, \; b_l = W_L \cdots W_{l+1} .

    Parameters
    ----------
    layers : sequence of array_like, shapes (d_l, d_(l-1))
        Weights, first layer first; the last has one row.
    scale : float
        Scale of the output.
    rates : sequence of float, optional
        Learning rates of the layers, not negative; 1 by default.

    Returns
    -------
    array, shape (d_0, d_0)

    Raises
    ------
    ValueError, TypeError
        If the weights do not chain to one output row, or `scale` or `rates` are out of range.
    OverflowError
        If the kernel is beyond the range of doubles.

    Examples
    --------
    >>> from linsolve import kernels
    >>> kernels.input_kernel([[[2.0, 0.0], [0.0, 1.0]], [[1.0, 0.0]]]).tolist()  # |a|^2 I + W^T W
    [[5.0, 0.0], [0.0, 2.0]]
    """
    who = "input_kernel"
    weights = chained(who, layers)
    if len(weights[-1]) != 1:
        rule = f"layers[{len(weights) - 1}] has shape {tuple(weights[-1].shape)} but must have one row"
        raise ValueError(f"{who}: {rule} (the kernel is that of one output); pass one row of the last layer")
    scale = number(who, "scale", scale, meaning="scale of the output", domain="(-inf, inf)", example=1.0)
    eta = layer_rates(who, rates, len(weights), "[0, inf)")
    named = {f"layers[{i}]": w for i, w in enumerate(weights)} | {"scale": scale, "rates": eta}
    rates = arithmetic.to_numpy(eta).tolist()
    return in_range(who, lambda: scale * (scale * _sum_over_layers(weights, rates)), **named)


def _sum_over_layers(weights: Sequence[Any], rates: Sequence[float]) -> Any:
    xp, n = arithmetic.namespace(*weights), weights[0].shape[1]
    behind = [xp.ones((1, 1), dtype=xp.float64)]
    for w in weights[:0:-1]:
        behind.append(behind[-1] @ w)
    total, front = xp.zeros((n, n), dtype=xp.float64), xp.eye(n, dtype=xp.float64)
    for w, b, rate in zip(weights, reversed(behind), rates, strict=True):
        total = total + rate * xp.sum(b**2) * (xp.matrix_transpose(front) @ front)
        front = w @ front
    return total


def anisotropy_directions(
    layers: Sequence[Any], *, scale: float = 1.0, rates: Sequence[float] | None = None
) -> tuple[Any, Any]:
    r"""Return the neural anisotropy directions of a linear network and their alignments.

    For ``x ~ N(0, 1)`` and a linear predictor ``g_u(x) = u.x``, ``|u| = 1``,

    .. math:: \alpha(g_u) = \left| E \frac{\partial^2 f}{\partial x \partial \theta} u \right|^2 = u^T M u

    (Theorem 1), M the `input_kernel`. For two layers, ``f = a^T W x``, ``alpha(g_u) = |W u|^2 + |a|^2``, so that the
    directions are the right singular vectors of W.

    Parameters
    ----------
    layers, scale, rates
        As for `input_kernel`.

    Returns
    -------
    directions : array, shape (d_0, d_0)
        As rows, the most aligned first.
    alignments : array, shape (d_0,)
        In decreasing order.

    Examples
    --------
    >>> from linsolve import kernels
    >>> directions, alignments = kernels.anisotropy_directions([[[2.0, 0.0], [0.0, 1.0]], [[1.0, 0.0]]])
    >>> alignments.round(6).tolist(), abs(directions).round(6).tolist()
    ([5.0, 2.0], [[1.0, 0.0], [0.0, 1.0]])
    """
    M = input_kernel(layers, scale=scale, rates=rates)
    xp = arithmetic.namespace(M)
    values, vectors = xp.linalg.eigh(M)
    return xp.flip(xp.matrix_transpose(vectors), axis=0), xp.flip(values, axis=0)


# linearizing a trained network


def tangent_kernel(flow: Any, z: Any, x: Any) -> Any:
    """Return the tangent kernel of a `TwoLayer` network in state `z` between the inputs `x`, learning rates included.

    Parameters
    ----------
    flow : TwoLayer
    z : State, fields of shape lead + own
        For a trajectory, ``traj.state``.
    x : array_like, shape (m, d0)
        Inputs, one per row.

    Returns
    -------
    array, shape lead + (m, m)
        `FrozenKernel` with this kernel and ``eta = 2`` is the linearization, since the network's loss has no 1/2.

    Raises
    ------
    TypeError, ValueError
        If the flow is not two-layer, or the shapes do not fit.
    OverflowError
        If the kernel is beyond the range of doubles.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> flow, z = ls.TwoLayer(y=1.0, x=[1.0, 0.0]), ls.TwoLayer.State(u=np.array([2.0]), w=np.array([[1.0, 0.0]]))
    >>> ls.kernels.tangent_kernel(flow, z, np.eye(2)).tolist()  # w.x w.x' + |u|^2 x.x'
    [[5.0, 0.0], [0.0, 4.0]]
    """
    if not isinstance(flow, Flow) or not {"u", "w"} <= set(flow.axes):
        raise TypeError(f"tangent_kernel: flow = {_named(flow)} must be a TwoLayer (network); such as TwoLayer(y=1.0)")
    if not {"u", "w"} <= _fields(z):
        raise TypeError(f"tangent_kernel: z = {shown(z)} must be a TwoLayer.State (weights u, w); such as traj.state")
    z = flow.state(z)
    x, width = real_array("tangent_kernel", "x", x, meaning="inputs"), z.w.shape[-1]
    if x.ndim != 2 or x.shape[-1] != width:
        raise ValueError(
            f"tangent_kernel: x has shape {tuple(x.shape)} but must be (m, {width}) (inputs, one a row); reshape it"
        )
    xp = arithmetic.namespace(z.w)
    x, flow = arithmetic.cast(xp, x), flow.cast(xp)

    def gram() -> Any:
        hidden = x @ xp.matrix_transpose(z.w)
        rates = [rate[..., None, None] for rate in (flow.gamma**2 * flow.eta_u, flow.gamma**2 * flow.eta_w)]
        first, second = hidden @ xp.matrix_transpose(hidden), x @ xp.matrix_transpose(x)
        return rates[0] * first + rates[1] * xp.sum(z.u**2, axis=-1)[..., None, None] * second

    return in_range("tangent_kernel", gram, u=z.u, w=z.w, x=x)


def _fields(z: Any) -> set[str]:
    return set(getattr(z, "_fields", ()))


def linearize(flow: Any, z: Any) -> FrozenKernel:
    r"""Return the `FrozenKernel` flow of a network on its training data, linearized in state `z`.

    Parameters
    ----------
    flow : TwoLayer, WhitenedTwoLayer or deep network
        A deep network is the flow of raw weights without biases of `linsolve.deep.deep_weights`.
    z : State, fields of shape lead + own
        State in which the kernel is evaluated; for a trained network ``flow.limit`` or ``flow(t, z0).state``.

    Returns
    -------
    FrozenKernel
        For `TwoLayer` the outputs ``f`` have shape lead + (1,) and ``eta = 2``; the network's loss, without 1/2, is
        twice the frozen one. For `WhitenedTwoLayer` the outputs are the entries of the product, row by row,
        ``K = Z (x) 1 + 1 (x) X`` with the Gram matrices ``Z = w2 w2^T``, ``X = w1^T w1``, and ``eta = 1/tau``. For a
        deep network they are the entries of ``W Sigma^(1/2)``, ``W`` the map and ``Sigma`` the covariance,
        ``K = (1 (x) Sigma^(1/2)) [sum_l eta_l W_>l W_>l^T (x) W_<l^T W_<l] (1 (x) Sigma^(1/2))``, and ``eta = 1``.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> flow, z0 = ls.TwoLayer(y=1.0, x=[1.0]), ls.TwoLayer.State(u=np.array([1.0]), w=np.array([[0.5]]))
    >>> frozen = ls.kernels.linearize(flow, z0)
    >>> frozen.kernel.tolist()  # 0.5^2 + 1^2
    [[1.25]]
    >>> frozen([0.0, float("inf")], [0.5])["f"].round(6).tolist()
    [[0.5], [1.0]]
    """
    if is_deep(flow):
        return linearized_deep(flow, flow.state(z))
    if not _has_kernel(flow):
        raise TypeError(f"linearize: flow = {_named(flow)} has no data set here; pass a TwoLayer or a WhitenedTwoLayer")
    z = flow.state(z)
    if "u" in flow.axes:
        xp = arithmetic.namespace(z.w)
        flow = flow.cast(xp)
        kernel = in_range("linearize", lambda: flow.ntk(xp, z), u=z.u, w=z.w)
        return FrozenKernel(kernel[..., None, None], _target(xp, flow, z), 2)
    xp = arithmetic.namespace(z.product)
    flow, (rows, columns) = flow.cast(xp), z.product.shape[-2:]
    out = z.gram_out[..., :, None, :, None] * xp.eye(columns, dtype=xp.float64)[:, None, :]
    both = out + xp.eye(rows, dtype=xp.float64)[:, None, :, None] * z.gram_in[..., None, :, None, :]
    kernel = xp.reshape(both, (*both.shape[:-4], rows * columns, rows * columns))
    return FrozenKernel(kernel, _target(xp, flow, z), 1 / flow.tau)


def _has_kernel(flow: Any) -> bool:
    """Return whether a flow is a `TwoLayer` or a `WhitenedTwoLayer`, by the fields of its state."""
    fields = set(flow.axes) if isinstance(flow, Flow) else set()
    return {"u", "w"} <= fields or {"gram_in", "gram_out"} <= fields


def _named(flow: Any) -> str:
    """Return the name of a flow, or any other value as text."""
    return type(flow).__name__ if isinstance(flow, Flow) else shown(flow)


def _target(xp: Any, flow: Any, z: Any) -> Any:
    """Return the target in the units of the outputs: minus the residual of a network whose weights are 0."""
    if "product" in z._fields:
        return _row_by_row(xp, flow.target)
    return -flow.residual(xp, type(z)(*(xp.zeros_like(v) for v in z)))[..., None]


def _residual(xp: Any, flow: Any, z: Any) -> Any:
    if "product" in z._fields:
        return _row_by_row(xp, z.product - flow.target)
    return flow.residual(xp, z)[..., None]


def _row_by_row(xp: Any, matrix: Any) -> Any:
    return xp.reshape(matrix, (*matrix.shape[:-2], matrix.shape[-2] * matrix.shape[-1]))


class Convergence(NamedTuple):
    """Losses over time of a network and of two of its linearizations, each of shape t.shape + batch.

    Parameters
    ----------
    t : array
        Times.
    network, initial, final : array
        Losses of the network, under its frozen kernel at time 0, and under its frozen kernel at the end.

    Examples
    --------
    >>> import linsolve as ls
    >>> from linsolve.systems.kernel_regime.tangent import convergence
    >>> flow, z0 = ls.TwoLayer(y=1.0, x=[1.0]), ls.TwoLayer.State(u=[0.1], w=[[0.1]])
    >>> found = convergence(flow, [0.0, 1.0], z0)
    >>> [float(loss[0].round(6)) for loss in (found.network, found.initial, found.final)]
    [0.9801, 0.9801, 0.9801]
    """

    t: Any
    network: Any
    initial: Any
    final: Any


def convergence(flow: Any, t: Any, z0: Any, *, unbiased: bool = False) -> Convergence:
    r"""Return the losses of a network and of its linearizations at the start and at the end (Fig. 8).

    Each loss has a closed form. The linearizations are those by `linearize` in the state at ``t = 0`` and in the state
    at ``t = inf``. Training aligns the kernel with the task. From small initial weights the final kernel therefore
    learns fastest. The network starts as slowly as the first linearization and ends as fast as the second.

    Parameters
    ----------
    flow : TwoLayer, WhitenedTwoLayer or deep network
        As for `linearize`; a deep network is integrated, to its end as well.
    t : array_like, any shape
        Times; ``inf`` included, but not for a deep network.
    z0 : State
        Start of the network.
    unbiased : bool
        Whether linearizations start from output 0, as in the source; by default they start from the network's output.

    Returns
    -------
    Convergence

    Raises
    ------
    TypeError
        If the flow has no data set.

    Examples
    --------
    >>> import linsolve as ls
    >>> flow, z0 = ls.TwoLayer(y=1.0, x=[1.0]), ls.TwoLayer.State(u=[0.1], w=[[0.1]])
    >>> found = ls.kernels.convergence(flow, [0.0, 0.5, 1.0, 2.0], z0)
    >>> found.network.round(3).tolist()
    [0.98, 0.866, 0.415, 0.001]
    >>> found.initial.round(3).tolist()  # its kernel at the start, frozen, learns the slowest
    [0.98, 0.942, 0.905, 0.835]
    >>> found.final.round(3).tolist()  # its kernel at the end the fastest
    [0.98, 0.018, 0.0, 0.0]
    """
    if is_deep(flow):
        return _deep_convergence(flow, t, z0, boolean("convergence", "unbiased", unbiased, meaning="start at output 0"))
    if not _has_kernel(flow):
        raise TypeError(
            f"convergence: flow = {_named(flow)} must be a TwoLayer or a WhitenedTwoLayer (the network); pass one of "
            "them"
        )
    unbiased = boolean("convergence", "unbiased", unbiased, meaning="whether linearizations start from output 0")
    traj = flow(t, z0)
    z0, end = traj.start, flow(float("inf"), z0).state
    kernels, xp = [linearize(flow, z) for z in (z0, end)], arithmetic.namespace(*z0)
    weight = 1 if "product" in z0._fields else 2  # ratio of the loss to half the squared residual
    # from the residual itself; output minus target may cancel
    start = -_target(xp, traj.flow, z0) if unbiased else _residual(xp, traj.flow, z0)
    losses = [weight * FrozenKernel(k.kernel, 0 * k.y, k.eta)(traj.t, start)["loss"] for k in kernels]
    return Convergence(traj.t, traj["loss"], *losses)


def _deep_convergence(flow: Any, t: Any, z0: Any, unbiased: bool) -> Convergence:
    """Return the losses of a deep network, integrated, and of its linearizations, in closed form."""
    traj = integrate(flow, t, z0)
    start = flow.state(z0)
    xp = arithmetic.namespace(*start)
    end = trained(list(start), flow.target, covariance=flow.covariance, rates=flow.rates)
    kernels = [linearized_deep(flow, z) for z in (start, type(start)(*map(xp.asarray, end)))]
    first = -kernels[0].y if unbiased else outputs_of(xp, flow, list(start)) - kernels[0].y
    losses = [FrozenKernel(k.kernel, 0 * k.y, k.eta)(traj.t, first)["loss"] for k in kernels]
    return Convergence(traj.t, traj["loss"], *losses)
