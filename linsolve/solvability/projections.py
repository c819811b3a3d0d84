"""Nearby starts in the solvable classes: balanced, lambda-balanced, isotropic, aligned and balanced."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from linsolve.core.reduced_network import Joint, Reduced, diagonal, norm, row_space
from linsolve.systems.whitened.imbalance import imbalance, is_lost
from linsolve.systems.whitened.starts import SMALLEST
from linsolve.systems.whitened.whitened_two_layer import WhitenedTwoLayer

__all__ = ["Start", "chained", "class_starts", "moved", "solved", "squared", "white_state"]

Layers = tuple[np.ndarray, ...]


class Start(NamedTuple):
    """Start in the class of `WhitenedTwoLayer`: its projection, state and layers.

    Outside the directions of the product the Gram matrix of the inputs is `rest` times the identity; otherwise `rest`
    is None.
    """

    change: str
    state: WhitenedTwoLayer.State
    layers: Layers
    rest: float | None


def white_state(red: Reduced) -> WhitenedTwoLayer.State:
    """Return the Gram matrices and the product of two layers."""
    return WhitenedTwoLayer.State(red.product, *red.grams)


def squared(layers: Layers) -> bool:
    """Return whether the Gram matrices of the layers keep their digits: squares of small entries underflow."""
    sizes = (float(np.abs(layer).max()) for layer in layers)
    return all(size == 0 or size >= SMALLEST for size in sizes)


def solved(state: WhitenedTwoLayer.State) -> bool:
    """Return whether `WhitenedTwoLayer` solves from this state, in doubles."""
    kind = imbalance(np, *state)
    return bool(kind.distance <= WhitenedTwoLayer.tolerance and not is_lost(np, kind.spread))


def moved(red: Reduced, layers: Layers) -> tuple[float, float]:
    """Return the distance of other layers from the network's, absolute and relative."""
    gap = float(np.sqrt(sum(norm(a - b) ** 2 for a, b in zip(layers, red.layers, strict=True))))
    size = float(np.sqrt(sum(norm(a) ** 2 for a in red.layers)))
    return gap, gap / size if size > 0 else 0.0


def class_starts(red: Reduced) -> Iterator[Start]:
    """Yield nearby starts in the class of `WhitenedTwoLayer` whose Gram matrices keep their digits."""
    for lam in _imbalances(red):
        layers = _balanced(red, lam)  # of vanishing layers, for example if one is zero, only rounding remains
        if layers is not None and squared(layers):
            state = WhitenedTwoLayer.of(*layers)
            if solved(state):
                change = "start balanced" if lam == 0 else f"start lambda-balanced, lambda = {lam:.4g}"
                yield Start(change, state, layers, 0.0)
    wide = _isotropic(red)
    if wide is not None and squared(wide[1]):
        whole, layers, kappa, half = wide
        r = red.product.shape[1]
        state = WhitenedTwoLayer.State(red.product, whole[:r, :r], whole[r:, r:])
        change = f"start with isotropic Gram matrices, as at infinite width (lambda = 2 kappa = {2 * kappa:.4g})"
        try:
            state = WhitenedTwoLayer.state(state)
        except ValueError:  # Gram matrices far smaller than kappa are its rounding errors
            return
        if solved(state):
            yield Start(change, state, layers, kappa - half)


def _imbalances(red: Reduced) -> list[float]:
    """Return the candidate imbalances: 0, and the best fit if weights of this width allow it."""
    w1, w2 = red.layers
    width = len(w1)
    best = (norm(w2) ** 2 - norm(w1) ** 2) / width
    limit = len(w2) if best > 0 else w1.shape[1]
    return [0.0, best] if best != 0 and width <= limit else [0.0]


def _balanced(red: Reduced, lam: float, *, steps: int = 100) -> Layers | None:
    """Return nearby layers with ``U_2^T U_2 - U_1 U_1^T = lam``, or None if the iteration does not converge.

    Newton's method with minimum-norm steps ``(-K U_1, U_2 K)``, ``K`` symmetric, from a Lyapunov equation. Balanced
    layers have the same hidden directions. Directions of a single layer are removed first, since each Newton step would
    only halve them.
    """
    w1, w2 = red.layers
    if lam == 0:
        shared = min((row_space(w1.T), row_space(w2)), key=lambda axes: axes.shape[1])
        if shared.shape[1] < len(w1):
            w1, w2 = shared @ (shared.T @ w1), (w2 @ shared) @ shared.T
    goal = lam * np.eye(len(w1))
    unit = norm(w1) ** 2 + norm(w2) ** 2
    for _ in range(steps):
        first, second = w1 @ w1.T, w2.T @ w2
        gap = goal - second + first
        if norm(gap) <= 1e-15 * unit:
            break
        s, q = np.linalg.eigh(first + second)
        pair = s[:, None] + s
        turned = q.T @ gap @ q
        kept = pair > 1e-14 * pair.max()
        k = q @ np.where(kept, turned / np.where(kept, pair, 1.0), 0.0) @ q.T
        w1, w2 = w1 - k @ w1, w2 + w2 @ k
    gap = goal - w2.T @ w2 + w1 @ w1.T
    return (w1, w2) if norm(gap) <= 1e-13 * unit else None


def _root(a: np.ndarray, extra: float) -> np.ndarray:
    """Return ``sqrt(extra + a)`` of a symmetric matrix."""
    value, q = np.linalg.eigh(a)
    return (q * np.sqrt(np.maximum(value + extra, 0))) @ q.T


def _isotropic(red: Reduced) -> tuple[np.ndarray, Layers, float, float] | None:
    """Return ``P``, layers, ``kappa`` and ``tau/2`` of a nearby start with two eigenvalues, as in wide networks.

    ``X = sqrt(kappa^2 + Y^T Y) - tau/2``, ``Z = sqrt(kappa^2 + Y Y^T) + tau/2`` with the product ``Y`` and the traces
    of ``X`` and ``Z`` of the start; None if weights of this width cannot have them.
    """
    w1, w2 = red.layers
    y, (gram_in, gram_out) = red.product, red.grams
    r, c = len(gram_in), len(gram_out)
    if len(w1) < r + c:
        return None
    values = np.zeros(max(r, c))
    values[: min(r, c)] = np.linalg.svd(y, compute_uv=False)
    goal = np.trace(gram_in) / r, np.trace(gram_out) / c

    def means(kappa: float) -> tuple[float, float]:
        sizes = np.hypot(kappa, values)
        return float(sizes[:r].mean()), float(sizes[:c].mean())

    low, high = 0.0, float(sum(goal)) / 2
    if sum(means(low)) >= sum(goal):
        return None
    for _ in range(100):  # the sum increases with kappa
        middle = (low + high) / 2
        low, high = (middle, high) if sum(means(middle)) < sum(goal) else (low, middle)
    half = float(np.clip(((goal[1] - means(high)[1]) - (goal[0] - means(high)[0])) / 2, -high, high))
    gram_in = _root(y.T @ y, high**2) - half * np.eye(r)
    gram_out = _root(y @ y.T, high**2) + half * np.eye(c)
    whole = np.block([[gram_in, y.T], [y, gram_out]])
    # the square root nearest to the start
    square = _root(whole, 0.0)
    left, _, right = np.linalg.svd(square @ np.concatenate([w1.T, w2]), full_matrices=False)
    nearest = square @ left @ right
    return whole, (nearest[:r].T, nearest[r:]), high, half


def _polar(a: np.ndarray) -> np.ndarray:
    left, _, right = np.linalg.svd(a, full_matrices=False)
    return left @ right


def chained(red: Reduced, modes: Joint, *, rounds: int = 60) -> tuple[Joint, np.ndarray, Layers]:
    """Return nearby balanced layers aligned with the modes: indices of kept modes, strengths, layers.

    ``U_l = R_{l+1} diag(u) R_l^T``, where the outermost bases are those of the modes; bases and strengths are fitted
    alternately.
    """
    hidden = min([len(layer) for layer in red.layers[:-1]])
    order = np.argsort(-np.abs(modes.target * modes.power), kind="stable")[:hidden]
    v, u = (axes[:, order] for axes in modes.pairs)
    flips = np.where(modes.strength[order] < 0, -1.0, 1.0)
    bases = [v]
    for layer in red.layers[:-1]:
        bases.append(_polar(layer @ bases[-1]))
    bases.append(u * flips)
    layers = red.layers
    for _ in range(rounds):
        along = [diagonal(b, w, a) for w, a, b in zip(layers, bases[:-1], bases[1:], strict=True)]
        size = np.maximum(np.mean(along, axis=0), 0.0)
        weight = np.maximum(size, 1e-3 * size.max() if size.max() > 0 else 1.0)
        for i in range(1, len(layers)):
            bases[i] = _polar((layers[i - 1] @ bases[i - 1] + layers[i].T @ bases[i + 1]) * weight)
    along = [diagonal(b, w, a) for w, a, b in zip(layers, bases[:-1], bases[1:], strict=True)]
    size = np.maximum(np.mean(along, axis=0), 0.0)
    chosen = tuple((b * size) @ a.T for a, b in itertools.pairwise(bases))
    inputs = np.concatenate([v, modes.inputs[:, np.setdiff1d(np.arange(modes.inputs.shape[1]), order)]], axis=1)
    outputs = np.concatenate([u, modes.outputs[:, np.setdiff1d(np.arange(modes.outputs.shape[1]), order)]], axis=1)
    kept = modes._replace(
        inputs=inputs, outputs=outputs, number=len(order), power=modes.power[order], target=modes.target[order]
    )
    return kept, flips * size ** len(layers), chosen
