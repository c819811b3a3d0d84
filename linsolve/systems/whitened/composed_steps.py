"""The flow map of the matrix Riccati equation, composed by Cholesky factors: for batches, in any array library."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.arithmetic import precision
from linsolve.numerics.scalar import integral_of_decay
from linsolve.systems.whitened.cholesky import factored
from linsolve.systems.whitened.staircase import flipped
from linsolve.systems.whitened.start_frame import Frame

__all__ = ["carried", "log_flow_map", "relaxed", "steps"]

# a step multiplies the fastest mode's weight by at most exp(FIRST); later steps may grow as a fraction of time passed
FIRST, GROWTH = 4, 0.25
LARGE = 64


def log_flow_map(xp: Any, t: Any, rate: Any, spread: Any) -> tuple[Any, Any]:
    """Return ``ln(n/c) / 2`` and ``-ln(n c) / 2`` of each mode; every exponential inside decays.

    The second is ``ln(1/c)`` less the first, formed without their large common part.
    """
    t, spread = t[..., None], spread[..., None]
    h = xp.hypot(rate, xp.sqrt(spread))
    x = 2 * h * t
    n = integral_of_decay(xp, t, 2 * h)
    decay = xp.exp(-x)
    rising = rate > 0
    safe = xp.where(rising, h + rate, xp.ones_like(h))
    c = xp.where(rising, decay + spread / safe * n, (1 + decay) / 2 + xp.abs(rate) * n)
    pure = rising & (spread + 0 * rate == 0)
    log_c = xp.where(pure, -x, xp.log(xp.where(pure | (c == 0), xp.ones_like(c), c)))
    return (_log(xp, n) - log_c) / 2, -x / 2 - log_c / 2 - _log(xp, n) / 2


def _log(xp: Any, a: Any) -> Any:
    """Return ``ln |a|``, a huge negative number at 0."""
    size = xp.abs(a)
    return xp.where(size > 0, xp.log(xp.where(size > 0, size, xp.ones_like(size))), xp.full_like(size, -1e300))


def jump(xp: Any, q: Any, weigh: Any, lean: Any, right: bool) -> tuple[Any, Any]:
    """Return the factors of one flow map ``q -> c^-1 q L^-T``, ``L L^T = 1 + q^T (n/c) q``: the new q, and ``L^-T``.

    ``L^-T`` is upper triangular: a column is changed by those before it only, and zeros of the staircase stay exact.
    Not a number where the bracket is singular to rounding.
    """
    weigh, lean = weigh[..., None], lean[..., None]
    identity = xp.eye(q.shape[-1])
    near = (weigh < LARGE) & (weigh + lean < LARGE)
    if arithmetic.to_numpy(near).all():
        scaled, moved, left = q * xp.exp(weigh), q * xp.exp(weigh + lean), identity
    else:
        scaled, moved, left = _scaled(xp, q, weigh, lean, near)
    factor = factored(xp, xp.matrix_transpose(scaled) @ scaled + left * left)
    if not right:
        return xp.matrix_transpose(xp.linalg.solve(factor, xp.matrix_transpose(moved))), None
    both = xp.concat([moved, xp.broadcast_to(left, tuple(moved.shape[:-2]) + tuple(left.shape[-2:]))], axis=-2)
    both = xp.matrix_transpose(xp.linalg.solve(factor, xp.matrix_transpose(both)))
    return both[..., : q.shape[-2], :], both[..., q.shape[-2] :, :]


def _scaled(xp: Any, q: Any, weigh: Any, lean: Any, near: Any) -> tuple[Any, Any, Any]:
    """Return weighed and moved rows with columns scaled to largest weight one: no step leaves the exponent range.

    A logarithm costs digits in proportion to its size, so only rows that might overflow go through it.
    """
    size = _log(xp, q)
    column = xp.max(size + weigh, axis=-2, keepdims=True)
    column = xp.where(column > 0, column, xp.zeros_like(column))
    none, less = xp.zeros_like(weigh), xp.exp(-column)
    scaled = xp.where(near, q * xp.exp(xp.where(near, weigh, none)) * less, xp.sign(q) * xp.exp(size + weigh - column))
    moved = xp.where(near, q * xp.exp(xp.where(near, weigh + lean, none)) * less, scaled * xp.exp(lean))
    return scaled, moved, xp.eye(q.shape[-1]) * less


def steps(xp: Any, t: Any, seen: Frame) -> Any:
    """Return ``P`` at finite times, shape lead + batch + (n, n); not a number from where a bracket was singular on."""
    batch = tuple(seen.rate.shape[:-1])
    flat = xp.reshape(t, (-1, *batch))
    numbers = arithmetic.to_numpy(flat)
    clock = numbers * arithmetic.to_numpy(_pace(xp, seen))
    clock = clock.reshape(clock.shape[0], -1).max(axis=-1)
    found: list[Any] = [None] * len(clock)
    start = (seen.q, seen.root, 0.0, 0 * flat[0, ...])
    q, root, done, now = start
    for index in np.argsort(clock, kind="stable"):
        if (numbers[index] < arithmetic.to_numpy(now)).any():  # members disagree about which time comes first
            q, root, done, now = start
        inside = _inside(clock[index], done)
        for part in np.diff(inside) / max(inside[-1] - inside[0], 1e-300):
            h = (flat[int(index), ...] - now) * float(part)
            q, root = _advance(xp, h, q, root, seen)
        now, done = flat[int(index), ...], clock[index]
        found[index] = root @ xp.matrix_transpose(root)
    return xp.reshape(xp.stack(found), tuple(t.shape) + tuple(found[0].shape[-2:]))


def _inside(end: float, start: float) -> np.ndarray:
    """Return the ends of the steps between two readings of the clock ``2 max|f| t``."""
    points = [start]
    while points[-1] < end:
        points.append(min(end, points[-1] + max(FIRST, GROWTH * points[-1])))
    return np.asarray(points)


def _pace(xp: Any, seen: Frame) -> Any:
    pace = 2 * xp.max(xp.hypot(seen.rate, xp.sqrt(seen.spread)[..., None]), axis=-1)
    pace = pace + xp.sum(seen.q * seen.q, axis=(-2, -1)) / 4
    return xp.where(pace > 0, pace, xp.ones_like(pace))


def _advance(xp: Any, h: Any, q: Any, root: Any, seen: Frame) -> tuple[Any, Any]:
    weigh, lean = log_flow_map(xp, h, seen.rate, seen.spread)
    short = xp.max(xp.hypot(seen.rate, xp.sqrt(seen.spread)[..., None]), axis=-1) * h < 1 / 2
    gently = bool(arithmetic.to_numpy(short).any())
    old, (q, right) = q, jump(xp, q, weigh, lean, gently)
    root = seen.basis @ q if not gently else carried(xp, h, short, old, root, q, right, seen)
    spread = seen.spread[..., None]
    if not (arithmetic.to_numpy(spread) > 0).any():
        return q, root
    # the second term of the formula is a diagonal: append its root, compress by an LQ factorization
    fed = xp.exp(weigh + _log(xp, spread) / 2)[..., None, :]
    turn, upper = xp.linalg.qr(xp.matrix_transpose(xp.concat([q, fed * xp.eye(q.shape[-2])], axis=-1)))
    full = flipped(xp, xp.concat([root, fed * seen.basis], axis=-1) @ turn)
    two = spread[..., None] > 0
    return xp.where(two, flipped(xp, xp.matrix_transpose(upper)), q), xp.where(two, full, root)


def carried(xp: Any, h: Any, short: Any, old: Any, root: Any, q: Any, right: Any, seen: Frame) -> Any:
    """Return the root ``basis q`` after a step, for a short step with the relative accuracy of each of its blocks.

    The basis mixes inputs and outputs: where one block is much smaller than the other, only the change goes through it.
    """
    freely = xp.hypot(seen.rate, xp.sqrt(seen.spread)[..., None])
    h = xp.where(short, h, xp.zeros_like(h))[..., None]
    safe = xp.where(freely > 0, freely, xp.ones_like(freely))
    sinh = xp.where(freely > 0, xp.sinh(freely * h) / safe, h + 0 * freely)
    # 1/c - 1 = (1 - c)/c with c - 1 = (cosh x - 1) - f sinh(x)/h
    beyond = 2 * xp.sinh(freely * h / 2) ** 2 - seen.rate * sinh
    change = (-beyond / (1 + beyond))[..., None] * old
    gentle = (root + seen.basis @ change) @ right
    return xp.where(short[..., None, None], gentle, seen.basis @ q)


def relaxed(xp: Any, seen: Frame) -> Any:
    """Return ``P`` at ``t = inf``, shape batch + (n, n).

    With `spread`, ``f + sqrt(f^2 + spread)``. Without, each growing mode within reach of the start ends at ``2 f``, the
    others at 0. Rates equal to rounding count as equal: among them the start decides.
    """
    n = seen.rate.shape[-1]
    top = xp.max(xp.abs(seen.rate), axis=-1, keepdims=True)
    top = xp.where(top > 0, top, xp.ones_like(top))
    same = 8 * n * precision(xp)
    rate = seen.rate / top
    place, places = 0 * rate[..., 0], []
    for i in range(n):
        place = place + xp.astype(rate[..., max(i - 1, 0)] > rate[..., i], xp.float64)
        places.append(place)
    growing = rate > same
    place = xp.stack(places, axis=-1)[..., None]
    # of each column only the fastest group of equal rates survives
    reached = growing[..., None] & (seen.q != 0)
    first = xp.min(xp.where(reached, place, xp.full_like(place, n)), axis=-2, keepdims=True)
    scaled = xp.where(reached & (place == first), seen.q, xp.zeros_like(seen.q))
    size = xp.max(xp.abs(scaled), axis=-2, keepdims=True)
    empty = size == 0
    scaled = scaled / xp.where(empty, xp.ones_like(size), size)
    identity = xp.eye(scaled.shape[-1]) * xp.where(empty, xp.ones_like(size), xp.zeros_like(size))
    # the projector onto the columns; a Cholesky factor of their Gram matrix would square its condition
    turn = xp.linalg.qr(xp.concat([scaled, identity], axis=-2))[0][..., :n, :]
    weight = xp.sqrt(2 * xp.where(growing, seen.rate, 0 * rate))
    root = turn * weight[..., None]
    flat = root @ xp.matrix_transpose(root)
    spread = seen.spread[..., None]
    h = xp.hypot(seen.rate, xp.sqrt(spread))
    falling = xp.where(seen.rate < 0, h - seen.rate, xp.ones_like(h))
    full = xp.where(seen.rate < 0, spread / falling, h + seen.rate)
    inside = xp.where(spread[..., None] > 0, full[..., None] * xp.eye(n), flat)
    return seen.basis @ inside @ xp.matrix_transpose(seen.basis)
