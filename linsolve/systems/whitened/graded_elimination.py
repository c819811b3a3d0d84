"""Graded square-root elimination: the matrix Riccati solution with every magnitude kept as a logarithm."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.systems.whitened.composed_steps import carried, log_flow_map
from linsolve.systems.whitened.start_frame import Frame

__all__ = ["graded"]

NOISE = 2e-15


def graded(xp: Any, t: Any, seen: Frame) -> Any:
    """Return ``P`` at finite times (0 unanswered), shape lead + batch + (n, n), one after another (NumPy)."""
    t = np.where(t > 0, t, 1.0)
    weigh, lean = log_flow_map(xp, t, seen.rate, seen.spread)
    n, r = seen.q.shape[-2:]
    start = np.broadcast_to(seen.q, (*t.shape, n, r))
    q, right = np.empty(start.shape), np.empty((*t.shape, r, r))
    for i in np.ndindex(t.shape):
        q[i], right[i] = _eliminate(start[i], weigh[i], lean[i])
    spread = seen.spread[..., None]
    short = np.max(np.hypot(seen.rate, np.sqrt(spread)), axis=-1) * t < 1 / 2
    root = carried(xp, t, short, seen.q, seen.root, q, right, seen)
    if (spread > 0).any():
        fed = np.exp(weigh + np.where(spread > 0, np.log(np.where(spread > 0, spread, 1.0)) / 2, -np.inf))
        root = np.concatenate([root, fed[..., None, :] * seen.basis], axis=-1)
    return root @ np.swapaxes(root, -1, -2)


def _log(a: np.ndarray) -> np.ndarray:
    size = np.abs(a)
    return np.where(size > 0, np.log(np.where(size > 0, size, 1.0)), -np.inf)


def _eliminate(q: np.ndarray, weigh: np.ndarray, lean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``c^-1 q S`` and ``S`` with ``S S^T = (1 + q^T (n/c) q)^-1``.

    The inverse is kept as ``S S^T``, ``S = turned diag(e^grade)`` with orthogonal `turned`; each row updates it by one
    rotation into a single column and a scaling of that column. Rows come by falling weight; what is left of a row
    below rounding is dropped, so that exact saddles are followed.
    """
    n, r = q.shape
    turned, grade, root = np.eye(r), np.zeros(r), np.zeros((n, r))
    with np.errstate(divide="ignore"):
        order = np.argsort(-(weigh + np.log(np.linalg.norm(q, axis=1))), kind="stable")
    done: list[int] = []
    for i in order:
        seen = turned.T @ q[i]
        seen[np.abs(seen) <= NOISE * (np.abs(turned).T @ np.abs(q[i]))] = 0.0
        level = grade + _log(seen)
        k = int(np.argmax(level))
        if level[k] == -np.inf:
            continue
        for j in np.flatnonzero((level > -np.inf) & (np.arange(r) != k)):
            _rotate(turned, grade, root, done, seen, level, k, int(j))
        level_k = level[k]
        x = 2 * (level_k + weigh[i])
        down = -x / 2 if x > 700 else -np.log1p(np.exp(x)) / 2
        root[i, k] = np.sign(seen[k]) * np.exp(lean[i] + (x / 2 + down))
        grade[k] += down
        root[done, k] *= np.exp(down)
        done.append(int(i))
    return root, turned * np.exp(grade)


def _rotate(
    turned: np.ndarray,
    grade: np.ndarray,
    root: np.ndarray,
    done: list[int],
    seen: np.ndarray,
    level: np.ndarray,
    k: int,
    j: int,
) -> None:
    """Rotate columns `k` and `j` in place so that the row's entry in column `j` moves into column `k`."""
    d = level[j] - level[k]
    log_c = -np.log1p(np.exp(2 * d)) / 2
    log_s, sign = d + log_c, np.sign(seen[j]) * np.sign(seen[k])
    a, b, grade_k, grade_j = turned[:, k].copy(), turned[:, j].copy(), grade[k], grade[j]
    # magnitudes are combined as logarithms: a sine that underflows may multiply a column that is just as much larger
    turned[:, k], grade[k] = _combine(a, log_c + grade_k, sign * b, log_s + grade_j)
    turned[:, j], grade[j] = _combine(b, log_c + grade_j, -sign * a, log_s + grade_k)
    c, s = np.exp(log_c), sign * np.exp(log_s)
    root[done, k], root[done, j] = c * root[done, k] + s * root[done, j], c * root[done, j] - s * root[done, k]
    level[k] -= log_c


def _combine(a: np.ndarray, log_a: float, b: np.ndarray, log_b: float) -> tuple[np.ndarray, float]:
    top = max(log_a, log_b)
    return a * np.exp(log_a - top) + b * np.exp(log_b - top), top
