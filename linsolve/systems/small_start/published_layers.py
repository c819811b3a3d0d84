"""Networks of several layers on which the formulas of Atanasov, Bordelon, Pehlevan (2022) are checked."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

__all__ = ["around", "balanced", "each", "kernel", "product", "rotations", "velocities"]

RNG = np.random.default_rng(5)
S = 1.7
D = 4
BETA = np.array([0.5, -0.5, 0.7, -0.1])
RATES = np.array([0.6, 1.7, 1.1])
GENERIC = [RNG.standard_normal((4, 4)) / 2, RNG.standard_normal((4, 4)) / 2, RNG.standard_normal((1, 4)) / 2]
X = RNG.standard_normal((7, D))
COVARIANCE = X.T @ X / len(X)
ACROSS = np.linalg.svd(BETA[None])[2][1]  # a unit vector orthogonal to BETA
PROBES = np.array([BETA, ACROSS, BETA + 2 * ACROSS])


def product(layers: Any) -> Any:
    """Return the product of layers given first layer first."""
    return reduce(lambda done, layer: layer @ done, layers)


def around(layers: Any, k: int) -> tuple[Any, Any]:
    """Return the products of the layers after and before layer k."""
    after = product(layers[k + 1 :]) if k + 1 < len(layers) else np.eye(len(layers[k]))
    return after, product(layers[:k]) if k else np.eye(layers[0].shape[1])


def velocities(layers: Any, rates: Any, covariance: Any) -> list[Any]:
    """Return the velocities (9) of all layers."""
    error = (S * BETA - product(layers)) @ covariance
    return [rate * after.T @ error @ before.T for rate, (after, before) in zip(rates, each(layers), strict=True)]


def each(layers: Any) -> list[tuple[Any, Any]]:
    """Return `around` for each layer."""
    return [around(layers, k) for k in range(len(layers))]


def kernel(layers: Any, weights: Any = None, x: Any = PROBES) -> Any:
    """Return the sum over layers of products of gradients of the one output at all pairs of points."""
    weights = np.ones(len(layers)) if weights is None else weights
    parts = zip(weights, each(layers), strict=True)
    return sum(w * (after @ after.T)[0, 0] * (x @ before.T @ before @ x.T) for w, (after, before) in parts)


def rotations(depth: int, width: int) -> list[Any]:
    """Return random rotations between the layers."""
    rng = np.random.default_rng(10 * depth + width)
    return [np.linalg.qr(rng.standard_normal((width, width)))[0] for _ in range(depth)]


def balanced(strengths: Any, out: Any, into: Any, rates: Any) -> list[Any]:
    """Return layers balanced as in (33), (53): strengths u_a, singular vectors of the map, generic ones between."""
    depth, modes = len(rates), len(strengths)
    frames = [into, *(Q[:, :modes] for Q in rotations(depth - 1, D)), out]
    scales = np.sqrt(rates / rates[-1])
    return [c * (frames[k + 1] * strengths) @ frames[k].T for k, c in enumerate(scales)]


U = 0.83
ALIGNED = balanced(np.array([U]), np.ones((1, 1)), BETA[:, None], RATES)
EVEN = balanced(np.array([U]), np.ones((1, 1)), BETA[:, None], np.ones(3))
FINAL = balanced(np.array([S ** (1 / 3)]), np.ones((1, 1)), BETA[:, None], np.ones(3))
