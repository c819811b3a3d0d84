"""The flow map of the matrix Riccati equation for ill-conditioned cases: composed steps and graded elimination."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.arithmetic import precision
from linsolve.numerics.scalar import integral_of_decay
from linsolve.systems.whitened.factorizations import factored, flipped
from linsolve.systems.whitened.start_frame import Frame

__all__ = ["carried", "graded", "log_flow_map", "relaxed", "steps"]

# a step multiplies the fastest weight by at most exp(FIRST); later steps are at most GROWTH of the elapsed time
FIRST, GROWTH = 4, 0.25
LARGE = 64
# entries of a row below this size, relative to the terms of their sum, count as rounding errors
NOISE = 2e-15


def log_flow_map(xp: Any, t: Any, rate: Any, spread: Any, lead: Any, slow: Any) -> tuple[Any, Any, Any]:
    """Return ``ln(n/c) / 2 - shift`` and ``-ln(n c) / 2`` of each mode (n, c of `matrix_riccati`), and the shift.

    The shift, shape batch + (1,), is the growth ``lead t`` that all growing modes share: without it they keep their
    differences. The second is ``ln(1/c)`` minus ``ln(n/c) / 2``, computed without their large common part.
    """
    t, spread = t[..., None], spread[..., None]
    h = xp.hypot(rate, xp.sqrt(spread))
    x, shift = 2 * h * t, lead[..., None] * t
    n = integral_of_decay(xp, t, 2 * h)
    decay = xp.exp(-x)
    rising = rate > 0
    safe = xp.where(rising, h + rate, xp.ones_like(h))
    c = xp.where(rising, decay + spread / safe * n, (1 + decay) / 2 + xp.abs(rate) * n)
    pure = rising & (spread + 0 * rate == 0)
    log_c = xp.where(pure, -x, xp.log(xp.where(pure | (c == 0), xp.ones_like(c), c)))
    log_n = _log(xp, n)
    first = xp.where(pure, log_n / 2 + slow * t, (log_n - log_c) / 2 - shift)
    return first, -x / 2 - log_c / 2 - log_n / 2, shift


def _log(xp: Any, a: Any) -> Any:
    """Return ``ln |a|``, -1e300 at 0."""
    size = xp.abs(a)
    return xp.where(size > 0, xp.log(xp.where(size > 0, size, xp.ones_like(size))), xp.full_like(size, -1e300))


def jump(xp: Any, q: Any, weigh: Any, lean: Any, shift: Any, right: bool) -> tuple[Any, Any]:
    """Return ``c^-1 q L^-T``, the root after one flow map, and ``L^-T``; ``L L^T = 1 + q^T (n/c) q`` is the bracket.

    ``L^-T`` is upper triangular: it adds to a column only multiples of earlier columns, so that zeros of the echelon
    form stay exact. Both factors are nan where the bracket is numerically singular.
    """
    weigh, lean, shift = weigh[..., None], lean[..., None], shift[..., None]
    identity, whole = xp.eye(q.shape[-1]), weigh + shift
    near = (whole < LARGE) & (whole + lean < LARGE)
    if arithmetic.to_numpy(near).all():
        scaled, moved, left = q * xp.exp(whole), q * xp.exp(whole + lean), identity
    else:
        scaled, moved, left = _scaled(xp, q, weigh, lean, shift, near)
    factor = factored(xp, xp.matrix_transpose(scaled) @ scaled + left * left)
    if not right:
        return xp.matrix_transpose(xp.linalg.solve(factor, xp.matrix_transpose(moved))), None
    both = xp.concat([moved, xp.broadcast_to(left, tuple(moved.shape[:-2]) + tuple(left.shape[-2:]))], axis=-2)
    both = xp.matrix_transpose(xp.linalg.solve(factor, xp.matrix_transpose(both)))
    return both[..., : q.shape[-2], :], both[..., q.shape[-2] :, :]


def _scaled(xp: Any, q: Any, weigh: Any, lean: Any, shift: Any, near: Any) -> tuple[Any, Any, Any]:
    """Return rows times ``sqrt(n/c)`` and ``1/c``; columns are scaled to a largest entry of 1, so none overflows.

    A logarithm loses digits in proportion to its size, so it is used only for rows that may overflow.
    """
    size = _log(xp, q)
    column = xp.max(size + weigh, axis=-2, keepdims=True)
    column = xp.where(column + shift > 0, column, -shift + 0 * column)
    none, less, whole = xp.zeros_like(weigh), xp.exp(-column - shift), weigh + shift
    scaled = xp.where(near, q * xp.exp(xp.where(near, whole, none)) * less, xp.sign(q) * xp.exp(size + weigh - column))
    moved = xp.where(near, q * xp.exp(xp.where(near, whole + lean, none)) * less, scaled * xp.exp(lean))
    return scaled, moved, xp.eye(q.shape[-1]) * less


def steps(xp: Any, t: Any, frame: Frame) -> Any:
    """Return ``P`` at finite times, shape lead + batch + (n, n); nan after the first singular bracket."""
    batch = tuple(frame.rate.shape[:-1])
    flat = xp.reshape(t, (-1, *batch))
    numbers = arithmetic.to_numpy(flat)
    clock = numbers * arithmetic.to_numpy(_pace(xp, frame))
    clock = clock.reshape(clock.shape[0], -1).max(axis=-1)
    found: list[Any] = [None] * len(clock)
    start = (frame.q, frame.root, 0.0, 0 * flat[0, ...])
    q, root, done, now = start
    for index in np.argsort(clock, kind="stable"):
        if (numbers[index] < arithmetic.to_numpy(now)).any():  # the order of times differs between members
            q, root, done, now = start
        inside = _inside(clock[index], done)
        for part in np.diff(inside) / max(inside[-1] - inside[0], 1e-300):
            h = (flat[int(index), ...] - now) * float(part)
            q, root = _advance(xp, h, q, root, frame)
        now, done = flat[int(index), ...], clock[index]
        found[index] = root @ xp.matrix_transpose(root)
    return xp.reshape(xp.stack(found), tuple(t.shape) + tuple(found[0].shape[-2:]))


def _inside(end: float, start: float) -> np.ndarray:
    """Return the ends of the steps between two values of ``2 max|f| t``."""
    points = [start]
    while points[-1] < end:
        points.append(min(end, points[-1] + max(FIRST, GROWTH * points[-1])))
    return np.asarray(points)


def _pace(xp: Any, frame: Frame) -> Any:
    pace = 2 * xp.max(xp.hypot(frame.rate, xp.sqrt(frame.spread)[..., None]), axis=-1)
    pace = pace + xp.sum(frame.q * frame.q, axis=(-2, -1)) / 4
    return xp.where(pace > 0, pace, xp.ones_like(pace))


def _rates(frame: Frame) -> tuple[Any, Any, Any, Any]:
    return frame.rate, frame.spread, frame.lead, frame.slow


def _advance(xp: Any, h: Any, q: Any, root: Any, frame: Frame) -> tuple[Any, Any]:
    weigh, lean, shift = log_flow_map(xp, h, *_rates(frame))
    short = xp.max(xp.hypot(frame.rate, xp.sqrt(frame.spread)[..., None]), axis=-1) * h < 1 / 2
    gently = bool(arithmetic.to_numpy(short).any())
    old, (q, right) = q, jump(xp, q, weigh, lean, shift, gently)
    root = frame.basis @ q if not gently else carried(xp, h, short, old, root, q, right, frame)
    spread = frame.spread[..., None]
    if not (arithmetic.to_numpy(spread) > 0).any():
        return q, root
    # the second term of the formula is diagonal: append its root, compress by an LQ factorization
    fed = xp.exp(weigh + _log(xp, spread) / 2)[..., None, :]  # no shift where spread > 0
    turn, upper = xp.linalg.qr(xp.matrix_transpose(xp.concat([q, fed * xp.eye(q.shape[-2])], axis=-1)))
    full = flipped(xp, xp.concat([root, fed * frame.basis], axis=-1) @ turn)
    two = spread[..., None] > 0
    return xp.where(two, flipped(xp, xp.matrix_transpose(upper)), q), xp.where(two, full, root)


def carried(xp: Any, h: Any, short: Any, old: Any, root: Any, q: Any, right: Any, frame: Frame) -> Any:
    """Return the root ``basis q`` after a step; after a short step each block keeps its relative accuracy.

    The basis mixes inputs and outputs. Only the change is computed in the basis, so that a much smaller block stays
    accurate. If all steps are short, `q` is not used.
    """
    gain = gained(xp, xp.where(short, h, xp.zeros_like(h)), frame.rate, frame.spread)
    change = gain[..., None] * old
    gentle = (root + frame.basis @ change) @ right
    if arithmetic.to_numpy(short).all():
        return gentle
    return xp.where(short[..., None, None], gentle, frame.basis @ q)


def gained(xp: Any, h: Any, rate: Any, spread: Any) -> Any:
    """Return ``1/c - 1`` of each mode after a short step, to full relative accuracy."""
    freely, h = xp.hypot(rate, xp.sqrt(spread)[..., None]), h[..., None]
    safe = xp.where(freely > 0, freely, xp.ones_like(freely))
    sinh = xp.where(freely > 0, xp.sinh(freely * h) / safe, h + 0 * freely)
    # (1 - c)/c with c - 1 = (cosh x - 1) - f sinh(x)/h
    beyond = 2 * xp.sinh(freely * h / 2) ** 2 - rate * sinh
    return -beyond / (1 + beyond)


def relaxed(xp: Any, frame: Frame) -> Any:
    """Return ``P`` at ``t = inf``, shape batch + (n, n).

    If ``spread > 0``, the limit is ``f + sqrt(f^2 + spread)``. If ``spread = 0``, each growing mode that is reachable
    from the initial state tends to ``2 f``, and the others tend to 0. Rates that agree to rounding error count as
    equal; the initial state determines the limit within such a group.
    """
    n = frame.rate.shape[-1]
    top = xp.max(xp.abs(frame.rate), axis=-1, keepdims=True)
    top = xp.where(top > 0, top, xp.ones_like(top))
    same = 8 * n * precision(xp)
    rate, slow = frame.rate / top, frame.slow
    place, places = 0 * rate[..., 0], []
    for i in range(n):
        k = max(i - 1, 0)
        place = place + xp.astype((rate[..., k] > rate[..., i]) | (slow[..., k] > slow[..., i]), xp.float64)
        places.append(place)
    growing = rate > same
    place = xp.stack(places, axis=-1)[..., None]
    # in each column only the fastest group of equal rates remains
    reached = growing[..., None] & (frame.q != 0)
    first = xp.min(xp.where(reached, place, xp.full_like(place, n)), axis=-2, keepdims=True)
    scaled = xp.where(reached & (place == first), frame.q, xp.zeros_like(frame.q))
    size = xp.max(xp.abs(scaled), axis=-2, keepdims=True)
    empty = size == 0
    scaled = scaled / xp.where(empty, xp.ones_like(size), size)
    identity = xp.eye(scaled.shape[-1]) * xp.where(empty, xp.ones_like(size), xp.zeros_like(size))
    # projector onto the columns by QR; a Cholesky factor of their Gram matrix would square the condition number
    turn = xp.linalg.qr(xp.concat([scaled, identity], axis=-2))[0][..., :n, :]
    weight = xp.sqrt(2 * xp.where(growing, frame.rate, 0 * rate))
    root = turn * weight[..., None]
    flat = root @ xp.matrix_transpose(root)
    spread = frame.spread[..., None]
    h = xp.hypot(frame.rate, xp.sqrt(spread))
    falling = xp.where(frame.rate < 0, h - frame.rate, xp.ones_like(h))
    full = xp.where(frame.rate < 0, spread / falling, h + frame.rate)
    inside = xp.where(spread[..., None] > 0, full[..., None] * xp.eye(n), flat)
    return frame.basis @ inside @ xp.matrix_transpose(frame.basis)


def graded(xp: Any, t: Any, frame: Frame) -> Any:
    """Return ``P`` at finite times other than 0, shape lead + batch + (n, n), by graded elimination (NumPy)."""
    t = np.where(t > 0, t, 1.0)
    weigh, lean, shift = log_flow_map(xp, t, *_rates(frame))
    grown = (frame.rate > 0).astype(float)
    weigh = np.where(grown > 0, weigh, weigh + shift)  # the decaying modes have no part of the shift
    n, r = frame.q.shape[-2:]
    start = np.broadcast_to(frame.q, (*t.shape, n, r))
    grown, shift = np.broadcast_to(grown, weigh.shape), np.broadcast_to(shift, (*t.shape, 1))[..., 0]
    q, right = np.empty(start.shape), np.empty((*t.shape, r, r))
    for i in np.ndindex(t.shape):
        q[i], right[i] = _eliminate(start[i], weigh[i], lean[i], grown[i], float(shift[i]))
    spread = frame.spread[..., None]
    short = np.max(np.hypot(frame.rate, np.sqrt(spread)), axis=-1) * t < 1 / 2
    root = carried(xp, t, short, frame.q, frame.root, q, right, frame)
    if (spread > 0).any():
        fed = np.exp(
            weigh
            + shift[..., None] * grown
            + np.where(spread > 0, np.log(np.where(spread > 0, spread, 1.0)) / 2, -np.inf)
        )
        root = np.concatenate([root, fed[..., None, :] * frame.basis], axis=-1)
    return root @ np.swapaxes(root, -1, -2)


def _eliminate(
    q: np.ndarray, weigh: np.ndarray, lean: np.ndarray, grown: np.ndarray, shift: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return ``c^-1 q S`` and ``S`` with ``S S^T = (1 + q^T (n/c) q)^-1``.

    The inverse is stored as ``S S^T``, ``S = turned diag(e^grade)`` with orthogonal `turned`. Each row updates it by
    rotations into a single column and a scaling of that column. Rows are processed by decreasing weight. Entries below
    rounding error are dropped, so that the solution stays on an exact saddle. Logarithms are stored in two parts, a
    multiple of `shift` and the rest: weights as ``grown shift + weigh``, columns as ``lead shift + grade``.
    """
    n, r = q.shape
    turned, lead, grade, root = np.eye(r), np.zeros(r), np.zeros(r), np.zeros((n, r))
    with np.errstate(divide="ignore"):
        order = np.argsort(-(weigh + grown * shift + np.log(np.linalg.norm(q, axis=1))), kind="stable")
    done: list[int] = []
    for i in order:
        row = turned.T @ q[i]
        row[np.abs(row) <= NOISE * (np.abs(turned).T @ np.abs(q[i]))] = 0.0
        used = row != 0
        above, rest = lead.copy(), grade + np.log(np.abs(np.where(used, row, 1.0)))
        level = np.where(used, above * shift + rest, -np.inf)
        k = int(np.argmax(level))
        if not used[k]:
            continue
        for j in np.flatnonzero(used & (np.arange(r) != k)):
            ahead = above[j] - above[k], rest[j] - rest[k]
            log_c = -np.log1p(np.exp(2 * (ahead[0] * shift + ahead[1]))) / 2
            _rotate(turned, lead, grade, root, done, np.sign(row[j]) * np.sign(row[k]), ahead, log_c, shift, k, int(j))
            rest[k] -= log_c
        own = above[k] + grown[i], rest[k] + weigh[i]
        x = 2 * (own[0] * shift + own[1])
        up, down = np.logaddexp(0.0, -x) / 2, np.logaddexp(0.0, x) / 2
        root[i, k] = np.sign(row[k]) * np.exp(lean[i] - up)
        root[done, k] *= np.exp(-down)
        if x > 0:
            lead[k], grade[k] = lead[k] - own[0], grade[k] - own[1] - up
        else:
            grade[k] -= down
        done.append(int(i))
    return root, turned * np.exp(lead * shift + grade)


def _rotate(
    turned: np.ndarray, lead: np.ndarray, grade: np.ndarray, root: np.ndarray, done: list[int], sign: float,
    ahead: tuple[float, float], log_c: float, shift: float, k: int, j: int,
) -> None:  # fmt: skip
    """Rotate columns `k` and `j` in place so that the row's entry in column `j` moves into column `k`.

    The tangent of the angle is ``exp(ahead[0] shift + ahead[1])``, its cosine ``exp(log_c)``.
    """
    first, second = ((turned[:, i].copy(), lead[i], grade[i]) for i in (k, j))
    # combine magnitudes as logarithms: a sine that underflows may multiply a column that is larger by the same factor
    for column, (a, lead_a, grade_a), (b, lead_b, grade_b), by in ((k, first, second, sign), (j, second, first, -sign)):
        logs = (lead_a, grade_a + log_c), (lead_b + ahead[0], grade_b + ahead[1] + log_c)
        top = max(logs, key=lambda log: log[0] * shift + log[1])
        one, other = (np.exp((log[0] - top[0]) * shift + log[1] - top[1]) for log in logs)
        turned[:, column], lead[column], grade[column] = one * a + by * other * b, *top
    c, s = np.exp(log_c), sign * np.exp(ahead[0] * shift + ahead[1] + log_c)
    root[done, k], root[done, j] = c * root[done, k] + s * root[done, j], c * root[done, j] - s * root[done, k]
