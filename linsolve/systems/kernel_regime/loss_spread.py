r"""Standard deviation of the loss of one run of minibatch SGD on a fixed data set, exactly, from fourth moments.

With :math:`v = (\delta - E\delta, 1)`, of D entries, the gradient of sample i is
:math:`g_i = \hat x_i\, (l_i \cdot v)`, :math:`\hat x_i = (x_i, 0)`, :math:`l_i = (x_i, \mu_i)`, where
:math:`\mu_i` is the mean residual of the sample.
A step is :math:`v' = A v - h \bar\xi`, with :math:`A = 1 - h S` on :math:`\delta` and the minibatch mean of
:math:`\xi_i = g_i - \bar g`. So the moments :math:`M = E v^{\otimes 4}` obey a linear recursion, with

.. math:: E\, \bar\xi^{\otimes j} = \sum_{\tau} w_\tau \prod_{B \in \tau} p_{|B|} , \qquad
    p_k = \frac 1n \sum_i \xi_i^{\otimes k}, \quad p_1 = 0 ,

where the sum is over set partitions :math:`\tau`; the weights :math:`w_\tau` depend on the sampling. A step takes
O(n D^4) operations.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.systems.kernel_regime.minibatch import Asked, Model, Sampling, step_and_fix

__all__ = ["loss_deviation", "partition_weight", "without_spread"]

LARGEST = 32  # parameters; with more of them a step of the moments takes more than a second
STIRLING = ((1,), (1, 1), (1, 3, 1), (1, 7, 6, 1))  # partitions of 1 to 4 elements into 1, 2, ... blocks


def partition_weight(sizes: tuple[int, ...], draw: Sampling) -> Fraction:
    """Return the weight of a set partition with these block sizes in the moment of a minibatch mean.

    Examples
    --------
    >>> from linsolve.systems.kernel_regime.loss_spread import partition_weight
    >>> from linsolve.systems.kernel_regime.minibatch import Sampling
    >>> str(partition_weight((2,), Sampling(5, 2, True))), str(partition_weight((2,), Sampling(5, 2, False)))
    ('1/2', '3/8')
    """
    n, m, order = draw.samples, draw.batch, sum(sizes)
    if draw.replacement:
        return Fraction(math.perm(m, len(sizes)), m**order)
    total = Fraction(0)
    for parts in itertools.product(*(range(1, size + 1) for size in sizes)):
        blocks = sum(parts)
        if blocks <= m:
            mobius = math.prod(
                STIRLING[size - 1][part - 1] * (-1) ** (part - 1) * math.factorial(part - 1)
                for size, part in zip(sizes, parts, strict=True)
            )
            total += Fraction(mobius * math.perm(m, blocks), math.perm(n, blocks))
    return total * n ** len(sizes) / Fraction(m) ** order


def without_spread(model: Model, *, batch: bool = False) -> str:
    """Return the reason why a model has no standard deviation of the loss, "" if it has one."""
    rank, outputs = model.rows.shape[-1], model.rest.shape[-1]
    if batch:
        return "a batch of networks (it is evaluated for one)"
    if outputs > 1:
        return f"{outputs} outputs (it is evaluated for one)"
    return f"inputs of rank {rank} (it is evaluated up to rank {LARGEST})" if rank > LARGEST else ""


def loss_deviation(who: str, xp: Any, model: Model, start: Any, counts: np.ndarray, draw: Sampling) -> Any:
    """Return the standard deviation of the mean of the samples' losses after `counts` steps, for one output.

    Parameters
    ----------
    who : str
        Name for error messages.
    xp : namespace
    model : Model
        Without batch axes, with one output, rows and residuals of order 1 (`minibatch.scaled`).
    start : array, shape (r, 1)
        Initial ``delta``.
    counts : ndarray of int
        Numbers of steps.
    draw : Sampling
        Minibatches.

    Raises
    ------
    OverflowError
        If the variance of the loss leaves the range of doubles; the message contains the step.
    """
    if not bool(xp.any(model.phi != 0)):
        return xp.zeros(counts.shape)
    rows, width = model.rows, model.rows.shape[1] + 1
    inputs = xp.concat([rows, 0 * rows[:, :1]], axis=1)
    weights = {sizes: _number(xp, partition_weight(sizes, draw)) for sizes in ((2,), (3,), (4,), (2, 2))}
    asked, found = Asked(xp, counts), {}
    corner = xp.concat([xp.zeros((width - 1,)), xp.ones((1,))])
    moments = corner[:, None, None, None] * corner[:, None, None] * corner[:, None] * corner
    decay = xp.eye(width) - model.h * xp.matrix_transpose(inputs) @ inputs / rows.shape[0]
    delta = start
    with np.errstate(over="ignore", invalid="ignore"):  # divergence raises a named error
        for step in itertools.count():
            residual = model.residual(delta)
            lines = xp.concat([rows, residual], axis=1)
            for count in asked.at(step, (moments, delta)):
                found[count] = _deviation(xp, lines, moments) * model.unit * model.unit
                _refuse_divergence(who, xp, found[count], step, model)
            if asked.done:
                break
            moments = _stepped(xp, moments, (inputs, lines), decay, model.h, weights)
            delta = delta - model.h * model.gradient(xp, residual)
    return xp.reshape(xp.stack([found[count] for count in counts.ravel().tolist()]), counts.shape)


def _refuse_divergence(who: str, xp: Any, deviation: Any, step: int, model: Model) -> None:
    if not bool(xp.isfinite(deviation)):
        raise OverflowError(
            f"{who}: k = {step} is beyond the step at which the variance of the loss leaves the range of doubles "
            f"({step_and_fix(model)}"
        )


def _number(xp: Any, value: Fraction) -> Any:
    return arithmetic.cast(xp, float(value.numerator)) / arithmetic.cast(xp, float(value.denominator))


def _deviation(xp: Any, lines: Any, moments: Any) -> Any:
    """Return the standard deviation of the mean over samples of ``(l.v)^2 / 2``, minus its value at mean weights."""
    n, width = lines.shape
    form = xp.matrix_transpose(lines) @ lines / (2 * n)
    corner = xp.concat([xp.zeros((width - 1,)), xp.ones((1,))])
    form = form - form[-1, -1] * corner[:, None] * corner  # the value at the mean has no variance
    flat = xp.reshape(form, (-1,))
    table = xp.reshape(moments, (width**2, width**2))
    mean = xp.sum(flat * table[:, -1])
    variance = xp.sum(flat * (table @ flat)) - mean**2
    return xp.sqrt(xp.where(variance < 0, xp.zeros_like(variance), variance))


def _stepped(xp: Any, moments: Any, sides: tuple[Any, Any], decay: Any, h: Any, weights: Any) -> Any:
    """Return the fourth moments after a step; in products, axes not yet multiplied by a gradient come first."""
    inputs, lines = sides
    n, width = lines.shape
    both, moved = (xp.reshape(v[:, :, None] * v[:, None, :], (n, -1)) for v in (lines, inputs))
    seen = both @ xp.reshape(moments, (width**2, width**2))  # two factors l_i, by sample

    def placed(left: Any, right: Any) -> Any:
        return xp.reshape(xp.matrix_transpose(left) @ right / n, (width,) * 4)

    gradient = xp.matrix_transpose(inputs) @ lines / n
    means = [moments]
    for _ in range(4):  # the whole gradient in 1, 2, 3, 4 axes
        means.append(_slot(xp, gradient, means[-1]))
    pair = placed(seen, moved)
    pairs = [pair, _slot(xp, gradient, pair), _slot(xp, gradient, _slot(xp, gradient, pair))]
    single = xp.sum(xp.reshape(seen, (n, width, width)) * lines[:, None, :], axis=-1)
    triple = placed(xp.reshape(single[:, :, None] * inputs[:, None, :], (n, -1)), moved)
    twice = placed(moved, both @ xp.reshape(pair, (width**2, width**2)))
    fourfold = placed(xp.sum(seen * both, axis=-1)[:, None] * moved, moved)

    second = pair - means[2]
    third = triple - 3 * pairs[1] + 2 * means[3]
    fourth = fourfold - 4 * _slot(xp, gradient, triple) + 6 * pairs[2] - 3 * means[4]
    seconds = twice - 2 * pairs[2] + means[4]
    kept = moments
    for _ in range(4):
        kept = _slot(xp, decay, kept)
    total = (
        kept
        + 6 * h**2 * weights[2,] * _slot(xp, decay, _slot(xp, decay, second))
        - 4 * h**3 * weights[3,] * _slot(xp, decay, third)
        + h**4 * (weights[4,] * fourth + 3 * weights[2, 2] * seconds)
    )
    return sum(xp.permute_dims(total, order) for order in itertools.permutations(range(4))) / 24


def _slot(xp: Any, matrix: Any, tensor: Any) -> Any:
    """Return a tensor with a matrix applied to its first axis, which becomes the last."""
    moved = matrix @ xp.reshape(tensor, (tensor.shape[0], -1))
    return xp.permute_dims(xp.reshape(moved, tensor.shape), (1, 2, 3, 0))
