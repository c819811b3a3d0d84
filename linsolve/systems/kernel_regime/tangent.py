"""Tangent kernels of linear networks: in input space, along training, and frozen at either end of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from linsolve import arithmetic
from linsolve.core.arguments import Interval, real_array
from linsolve.systems.kernel_regime.frozen_kernel import FrozenKernel

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

    Examples
    --------
    >>> from linsolve import kernels
    >>> kernels.input_kernel([[[2.0, 0.0], [0.0, 1.0]], [[1.0, 0.0]]]).tolist()  # |a|^2 I + W^T W
    [[5.0, 0.0], [0.0, 2.0]]
    """
    who = "input_kernel"
    weights = [real_array(who, f"layers[{i}]", w, meaning="weights of a layer") for i, w in enumerate(layers)]
    shapes = [tuple(w.shape) for w in weights]
    chained = all(len(s) == 2 for s in shapes) and all(a[0] == b[1] for a, b in pairwise(shapes))
    if not weights or not chained or shapes[-1][0] != 1:
        raise ValueError(f"{who}: layers have shapes {shapes}, which must chain, the first first, to one output row")
    rates, domain = [1.0] * len(weights) if rates is None else rates, Interval("[0, inf)")
    eta = real_array(who, "rates", rates, meaning="learning rates of the layers", domain=domain)
    if tuple(eta.shape) != (len(weights),):
        raise ValueError(
            f"{who}: rates have shape {tuple(eta.shape)} but must be one for each of {len(weights)} layers"
        )
    xp = arithmetic.namespace(*weights)
    behind = [xp.ones((1, 1), dtype=xp.float64)]
    for w in weights[:0:-1]:
        behind.append(behind[-1] @ w)
    total, front = xp.zeros((shapes[0][1],) * 2, dtype=xp.float64), xp.eye(shapes[0][1], dtype=xp.float64)
    for w, b, rate in zip(weights, reversed(behind), arithmetic.to_numpy(eta).tolist(), strict=True):
        total = total + rate * xp.sum(b**2) * (xp.matrix_transpose(front) @ front)
        front = w @ front
    return scale**2 * total


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
        Falling.

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
    """Return the tangent kernel of a `TwoLayer` network in state `z` between the inputs `x`, rates included.

    Parameters
    ----------
    flow : TwoLayer
    z : State, fields of shape lead + own
        For a trajectory, ``traj.state``.
    x : array_like, shape (m, d0)
        Inputs, one a row.

    Returns
    -------
    array, shape lead + (m, m)
        On these inputs ``FrozenKernel`` with ``eta = 2`` follows the linearization, as the network's loss has no 1/2.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> flow, z = ls.TwoLayer(y=1.0, x=[1.0, 0.0]), ls.TwoLayer.State(u=np.array([2.0]), w=np.array([[1.0, 0.0]]))
    >>> ls.kernels.tangent_kernel(flow, z, np.eye(2)).tolist()  # w.x w.x' + |u|^2 x.x'
    [[5.0, 0.0], [0.0, 4.0]]
    """
    x = real_array("tangent_kernel", "x", x, meaning="inputs")
    width = z.w.shape[-1]
    if x.ndim != 2 or x.shape[-1] != width:
        raise ValueError(
            f"tangent_kernel: x has shape {tuple(x.shape)} but must be (m, {width}), inputs of the network"
        )
    xp = arithmetic.namespace(z.w)
    x, flow = arithmetic.cast(xp, x), flow.cast(xp)
    hidden = x @ xp.matrix_transpose(z.w)
    rates = [rate[..., None, None] for rate in (flow.gamma**2 * flow.eta_u, flow.gamma**2 * flow.eta_w)]
    first, second = hidden @ xp.matrix_transpose(hidden), x @ xp.matrix_transpose(x)
    return rates[0] * first + rates[1] * xp.sum(z.u**2, axis=-1)[..., None, None] * second


def linearize(flow: Any, z: Any) -> FrozenKernel:
    r"""Return the frozen kernel of a network's training data, linearized in state `z`.

    Parameters
    ----------
    flow : TwoLayer or WhitenedTwoLayer
    z : State, fields of shape lead + own
        Where the kernel is taken; for a trained network ``flow.limit`` or ``flow(t, z0).state``.

    Returns
    -------
    FrozenKernel
        With outputs ``f`` of shape lead + (1,) for `TwoLayer`, whose loss has no 1/2: twice the frozen one's, at
        ``eta = 2``. For `WhitenedTwoLayer` with the entries of the product, row by row, ``K = Z (x) 1 + 1 (x) X`` for
        the Gram matrices ``Z = w2 w2^T``, ``X = w1^T w1``, at ``eta = 1/tau``.

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
    if {"u", "w"} <= set(z._fields):
        xp = arithmetic.namespace(z.w)
        flow = flow.cast(xp)
        return FrozenKernel(flow.ntk(xp, z)[..., None, None], flow.target(xp).hi[..., None], 2)
    if {"gram_in", "gram_out"} <= set(z._fields):
        xp = arithmetic.namespace(z.product)
        flow, (rows, columns) = flow.cast(xp), z.product.shape[-2:]
        out = z.gram_out[..., :, None, :, None] * xp.eye(columns, dtype=xp.float64)[:, None, :]
        both = out + xp.eye(rows, dtype=xp.float64)[:, None, :, None] * z.gram_in[..., None, :, None, :]
        kernel = xp.reshape(both, (*both.shape[:-4], rows * columns, rows * columns))
        return FrozenKernel(kernel, _row_by_row(xp, flow.target), 1 / flow.tau)
    who = type(flow).__name__
    raise TypeError(f"linearize: flow = {who} has no data set here; pass a TwoLayer or a WhitenedTwoLayer")


def _row_by_row(xp: Any, matrix: Any) -> Any:
    return xp.reshape(matrix, (*matrix.shape[:-2], matrix.shape[-2] * matrix.shape[-1]))


def _residuals(flow: Any, z: Any, unbiased: bool) -> tuple[Any, int]:
    """Return residuals on the training data, of outputs 0 if `unbiased`, and the loss over half of their square."""
    if "product" in z._fields:
        outputs, target = (_row_by_row(arithmetic.namespace(z.product), v) for v in (z.product, flow.target))
        return (0 * outputs if unbiased else outputs) - target, 1
    xp = arithmetic.namespace(z.w)
    residual = flow.residual(xp, z)  # of a LazyTwoLayer without the cancellation of output and target
    return (-flow.target(xp).hi + 0 * residual if unbiased else residual)[..., None], 2


class Convergence(NamedTuple):
    """Losses in time, each of shape t.shape + batch, of a network and of two of its linearizations.

    Parameters
    ----------
    t : array
        Times.
    network, initial, final : array
        Losses of the network, and under its kernel at time 0 and its kernel at the end, frozen.

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
    r"""Return how fast a network learns, beside its linearizations at the start and at the end (Fig. 8).

    Each in closed form: the network's own, and `linearize` of its state at ``t = 0`` and at ``t = inf``. Training turns
    the kernel onto the task, so that from small starts the trained kernel learns fastest; the network starts as slowly
    as the first linearization and ends as fast as the second.

    Parameters
    ----------
    flow : TwoLayer or WhitenedTwoLayer
    t : array_like, any shape
        Times; ``inf`` included.
    z0 : State
        Start of the network.
    unbiased : bool
        Whether linearizations start from output 0, as in the source; by default from the network's own.

    Returns
    -------
    Convergence

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
    traj = flow(t, z0)
    z0, end = traj.start, flow(float("inf"), z0).state
    residuals, weight = _residuals(traj.flow, z0, unbiased)
    losses = []
    for frozen in (linearize(flow, z0), linearize(flow, end)):
        apart = FrozenKernel(frozen.kernel, 0 * frozen.y, frozen.eta)  # outputs counted from the target
        losses.append(weight * apart(traj.t, FrozenKernel.State(residuals))["loss"])
    return Convergence(traj.t, traj["loss"], *losses)
