r"""Gradient descent of two layers with one scalar residual, exactly: finite steps through two factors.

A step of length h of ``u' = -2 gamma eta_u r h``, ``h' = -2 gamma eta_w s^2 r u`` multiplies ``p`` and ``q``,

.. math:: p \leftarrow p\,(1 - e), \quad q \leftarrow q\,(1 + e), \qquad e = 2 h g\, r,

with the same residual in both, so that after any number of steps ``p = c_p p_0``, ``q = c_q q_0`` at any width. With
``A = gamma^2 |p|^2``, ``B = gamma^2 |q|^2``, ``g f = A - B``, the flow's invariant ``A B`` changes by
:math:`(1 - e^2)^2`, and the residual by :math:`-4 h r\,(A + B - h g r (A - B))`, without cancellation. With momentum b,
and weight decay by the share d in each step, ``v_p <- b v_p - e c_p``, ``c_p <- (1 - d) c_p + v_p``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linsolve.core.map import Take, chunks
from linsolve.core.step_rules import Rule
from linsolve.core.trajectory import Deferred
from linsolve.numerics.scalar import smallest
from linsolve.systems.two_layer.rotated_layers import LayersStart

__all__ = [
    "Factors",
    "Fixed",
    "advanced",
    "begun",
    "described",
    "hessian_top",
    "kernel_growth",
    "layers",
    "repeated",
    "top_curvature",
]


class Factors(NamedTuple):
    """State of gradient descent, shape batch: factors, residual, last moves and rounding errors.

    Parameters
    ----------
    up, down : array
        ``c_p`` and ``c_q``.
    mix : array
        ``(c_p - c_q)/(2 root_h root_u)``, also where a layer is frozen: ``u = (c_p + c_q)/2 u0 + root_h^2 mix h0``.
    kept : array
        Factor of the part of the weights that has no gradient, which only decays.
    residual : array
    move_up, move_down, move_mix : array
        Last moves of `up`, `down` and `mix`; 0 without momentum.
    low_up, low_down, low_mix, low_residual : array
        Rounding errors of the sums over steps, added with the next step (Kahan).
    """

    up: Any
    down: Any
    mix: Any
    kept: Any
    residual: Any
    move_up: Any
    move_down: Any
    move_mix: Any
    low_up: Any
    low_down: Any
    low_mix: Any
    low_residual: Any


class Fixed(NamedTuple):
    """Constants of the steps, shape batch except for the layers of the start.

    Parameters
    ----------
    start : LayersStart
    scale : array
        Inverse of the unit of the start.
    span : array
        ``|p0|^2 + |q0|^2``.
    """

    start: LayersStart
    scale: Any
    span: Any


def begun(xp: Any, start: LayersStart) -> tuple[Fixed, Factors]:
    """Return the constants, and the factors before the first step."""
    b = start.rotation
    one, zero, scale = xp.ones_like(b.r0), xp.zeros_like(b.r0), 1 / b.unit
    lengths = [xp.sum((side * scale[..., None]) ** 2, axis=-1) for side in (start.p, start.q)]
    return Fixed(start, scale, lengths[0] + lengths[1]), Factors(one, one, zero, one, b.r0, *[zero] * 7)


def _parts(fixed: Fixed, now: Factors) -> tuple[Any, Any]:
    """Return ``gamma^2 |p|^2`` and ``gamma^2 |q|^2``; multiply by the factor before the division by the unit."""
    b = fixed.start.rotation
    return (b.p * now.up * fixed.scale) ** 2, (b.q * now.down * fixed.scale) ** 2


def advanced(xp: Any, fixed: Fixed, now: Factors, rule: Rule) -> Factors:
    """Return the factors after one step."""
    start, (A, B) = fixed.start, _parts(fixed, now)
    b = start.rotation
    pull = now.residual if rule.weight is None else rule.weight * (now.residual + b.y) - rule.target
    e = 2 * rule.h * b.g * pull
    turn = -rule.h * start.gamma * pull * _twice_mean(now)
    if rule.plain:
        change = -4 * rule.h * pull * (A + B - rule.h * b.g * pull * (A - B))
        up, low_up = _added(now.up, now.low_up, -e * now.up)
        down, low_down = _added(now.down, now.low_down, e * now.down)
        mix, low_mix = _added(now.mix, now.low_mix, turn)
        residual, low_residual = _added(now.residual, now.low_residual, change)
        return Factors(up, down, mix, now.kept, residual, *now[5:8], low_up, low_down, low_mix, low_residual)
    moves = (
        rule.momentum * now.move_up - e * now.up,
        rule.momentum * now.move_down + e * now.down,
        rule.momentum * now.move_mix + turn,
    )
    sums = (_added(old, low, move - rule.lost * old) for old, low, move in zip(now[:3], now[8:11], moves, strict=True))
    (up, low_up), (down, low_down), (mix, low_mix) = sums
    kept = (1 - rule.lost) * now.kept
    found = Factors(up, down, mix, kept, now.residual, *moves, low_up, low_down, low_mix, now.low_residual)
    return found._replace(residual=_residual(xp, fixed, found))


def _added(value: Any, low: Any, change: Any) -> tuple[Any, Any]:
    """Return the sum of a value and a change of any size, and its rounding error (Knuth's two-sum)."""
    total = low + change
    found = value + total
    part = found - value
    return found, (value - (found - part)) + (total - part)


def _twice_mean(now: Factors) -> Any:
    """Return ``c_p + c_q``, also where both are far larger than their sum."""
    return (now.up + now.down) + (now.low_up + now.low_down)


def repeated(fixed: Fixed, now: Factors, h: Any, count: int, take: Take) -> Factors:
    """Return the factors after `count` equal steps in doubles; once they have converged, only the residual changes."""
    for length in chunks(count):
        if _settled(fixed, now, h):
            A, B = _parts(fixed, now)
            return now._replace(residual=now.residual * (1 - 4 * h * (A + B)) ** count)
        now = take(now, 0, length)
        count -= length
    return now


def _settled(fixed: Fixed, now: Factors, h: Any) -> bool:
    """Return whether all later changes of each factor add up to less than its rounding error."""
    start, (A, B) = fixed.start, _parts(fixed, now)
    left = 1 - np.abs(1 - 4 * h * (A + B))  # the residual decays by this share of itself in each step
    e = np.abs(2 * h * start.rotation.g * now.residual)
    turn = np.abs(2 * h * start.gamma * now.residual * now.up)
    still = (e < left * 2.0**-54) & (turn <= left * np.abs(now.mix) * 2.0**-54) & (left > 0)
    return bool(np.all(still))


def _residual(xp: Any, fixed: Fixed, now: Factors) -> Any:
    """Return the residual, from the form with the smallest terms.

    The output is ``(A - B)/g`` or that of a frozen layer; its change from the start keeps the digits of a residual that
    is much smaller than the output.
    """
    start, (A, B) = fixed.start, _parts(fixed, now)
    b = start.rotation
    gained, root = _gained(now), start.root_h * start.root_u * now.mix
    other = 2 * start.gamma * (1 + gained) * now.mix * fixed.span
    own, change = ((1 + gained) ** 2 + root**2) * b.f0, (gained * (2 + gained) + root**2) * b.f0
    frozen = b.g == 0
    g = xp.where(frozen, xp.ones_like(b.g), b.g)
    bound = xp.where(frozen, xp.full_like(g, xp.inf), (A + B) / xp.abs(g))
    return smallest(
        xp,
        (xp.abs(b.y) + xp.abs(own) + xp.abs(other), own + other - b.y),
        (xp.abs(b.y) + bound, (A - B) / g - b.y),
        (xp.abs(b.r0) + xp.abs(change) + xp.abs(other), b.r0 + (change + other)),
    )


def _gained(now: Factors) -> Any:
    """Return ``(c_p + c_q)/2 - 1``."""
    return ((now.up - 1 + now.low_up) + (now.down - 1 + now.low_down)) / 2


def kernel_growth(xp: Any, fixed: Fixed, now: Factors) -> Any:
    """Return the relative change of the tangent kernel since the start, without cancellation; 0 where that is 0."""
    start, b = fixed.start, fixed.start.rotation
    p, q = b.p * fixed.scale, b.q * fixed.scale
    size = p**2 + q**2
    share = b.g * b.f0 / xp.where(size == 0, xp.ones_like(size), size)
    gained, root = _gained(now), start.root_h * start.root_u * now.mix
    return gained * (2 + gained) + root**2 + 2 * share * (1 + gained) * root


def layers(xp: Any, fixed: Fixed, now: Factors) -> tuple[Any, Any]:
    """Return the two layers ``u`` and ``h``, shape k + batch + (d,)."""
    start = fixed.start
    mean = (_twice_mean(now) / 2)[..., None]
    up, down = (
        start.p * (now.up / start.rotation.unit)[..., None],
        start.q * (now.down / start.rotation.unit)[..., None],
    )
    found = []
    for own, other, own_root, root, sign in (
        (start.u, start.h.hi, start.root_u, start.root_h, -1),
        (start.h.hi, start.u, start.root_h, start.root_u, 1),
    ):
        first, second = mean * own, (root**2 * now.mix)[..., None] * other
        frozen = (own_root == 0)[..., None]
        safe = xp.where(own_root == 0, xp.ones_like(own_root), own_root)[..., None]
        bound = xp.where(frozen, xp.inf, (xp.abs(up) + xp.abs(down)) / safe)
        direct = (xp.abs(first) + xp.abs(second), first + second)
        found.append(smallest(xp, direct, (bound, (up + sign * down) / safe)))
    return found[0], found[1]


def described(xp: Any, fixed: Fixed, now: Factors, weight: Any, pace: Any) -> Deferred:
    """Return loss, residual, output, ntk, sharpness and invariant from the factors.

    The flow's rates are those of the start times ``pace/weight``.
    """
    b, (A, B) = fixed.start.rotation, _parts(fixed, now)
    return Deferred(
        loss=lambda: weight * now.residual**2,
        residual=lambda: now.residual,
        output=lambda: now.residual + b.y,
        ntk=lambda: 2 * (A + B) * (pace / weight),
        sharpness=lambda: top_curvature(xp, A, B, b.g * now.residual) * pace,
        invariant=lambda: A * B * (pace / weight) ** 2,
    )


def top_curvature(xp: Any, A: Any, B: Any, pull: Any) -> Any:
    r"""Return ``2 (A + B + ((A - B + g r)^2 + 4 A B)^(1/2))``, the largest eigenvalue of the Hessian of ``r^2``.

    The metric is that of the learning rates: a step h is stable at a minimum if ``h sharpness < 2``.
    """
    change = A - B + pull
    return 2 * (A + B + xp.sqrt(change * change + 4 * A * B))


def hessian_top(xp: Any, sides: tuple[Any, Any, Any], rates: tuple[Any, Any], gamma: Any, residual: Any) -> Any:
    """Return the largest eigenvalue of the Hessian of ``r^2`` of raw weights, by diagonalization; for `verify`.

    Parameters
    ----------
    xp : namespace
    sides : tuple of array
        ``u``, shape batch + (d,), ``W``, shape batch + (d, d0), and the input, shape batch + (d0,).
    rates : tuple of array, shape batch
        Learning rates of the layers.
    gamma, residual : array, shape batch
    """
    u, w, x = sides
    d, d0 = w.shape[-2:]
    root_u, root_w = (xp.sqrt(rate)[..., None] for rate in rates)
    scale = gamma[..., None]
    hidden = xp.sum(w * x[..., None, :], axis=-1)
    first = scale * root_u * hidden
    second = (scale * root_w)[..., None] * u[..., :, None] * x[..., None, :]
    gradient = xp.concat([first, xp.reshape(second, (*second.shape[:-2], d * d0))], axis=-1)
    rows = []
    for i in range(d):  # derivative of f by u_i and W_ij is gamma x_j
        unit = xp.asarray(np.eye(d)[i])
        cross = (scale * root_u * root_w)[..., None] * unit[:, None] * x[..., None, :] + 0 * second
        rows.append(xp.reshape(cross, (*second.shape[:-2], d * d0)))
    block = xp.stack(rows, axis=-2)
    left = xp.concat([xp.zeros_like(block[..., :d]), block], axis=-1)
    low = xp.concat([xp.matrix_transpose(block), xp.zeros_like(xp.matrix_transpose(block) @ block)], axis=-1)
    bent = xp.concat([left, low], axis=-2)
    full = 2 * gradient[..., :, None] * gradient[..., None, :] + 2 * residual[..., None, None] * bent
    return xp.max(xp.linalg.eigvalsh(full), axis=-1)
