"""Random two-layer and deep networks, followed and reduced to what the figures show."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from linsolve.core.network import follow, maps
from linsolve.systems.small_start.matched import KernelAlignment

__all__ = ["MARKS", "closed_form", "crossing", "deep_start", "simulated", "two_layer_start"]

MARKS: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 4.5, "markerfacecolor": "none"}


def two_layer_start(rng: np.random.Generator, width: int, n_in: int) -> tuple[np.ndarray, np.ndarray]:
    """Return first and last layer over sigma, entries of variance one over the number of inputs of the layer."""
    return rng.normal(size=(width, n_in)) / np.sqrt(n_in), rng.normal(size=width) / np.sqrt(width)


def deep_start(rng: np.random.Generator, sizes: list[int], sigma: float) -> list[np.ndarray]:
    """Return layers of a network with these numbers of units, inputs first, outputs last."""
    return [sigma * rng.normal(size=(after, before)) / np.sqrt(before) for before, after in pairwise(sizes)]


def closed_form(
    first: np.ndarray, last: np.ndarray, target: np.ndarray, sigma: float, t: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the law `KernelAlignment` at times `t`, with q, r and the loss along the target."""
    w = first @ target / np.linalg.norm(target)
    s, p0 = np.linalg.norm(target), sigma**2 * np.sum((last + w) ** 2) / 2
    law = KernelAlignment(last=last, first=first, target=target, phases=2 * s * t - np.log(2 * s / p0))
    small = np.asarray(sigma)
    a, w, _ = law.layers(np, small)
    found = law.approximation(np, small)
    r = found["output"]
    return found | {"q": np.sum(a * a + w * w, axis=-1) / 2, "r": r, "loss": (s - r) ** 2 / 2}


def simulated(
    layers: list[np.ndarray], target: np.ndarray, t: np.ndarray, rates: Any = None, rtol: float = 1e-8
) -> dict[str, Any]:
    """Return loss, output along the target, kernel alignment and that of the first layer, of a trained network."""
    target = np.atleast_2d(target)
    path = follow(layers, target, t, rates=rates, rtol=rtol)
    made = maps(path)[-1]
    power = np.sum(target**2)
    beta = target[0] / np.linalg.norm(target[0])
    gram = path[0].mT @ path[0]
    fits, sizes = _kernel(path, target)
    return {
        "t": t,
        "layers": path,
        "loss": np.sum((target - made) ** 2, axis=(-2, -1)) / 2,
        "output": np.sum(made * target, axis=(-2, -1)) / np.sqrt(power),
        "alignment": fits / (sizes * power),
        "first": np.einsum("i,tij,j->t", beta, gram, beta) / np.linalg.norm(gram, axis=(-2, -1)),
        "modes": np.linalg.svd(made, compute_uv=False),
    }


def _kernel(path: list[np.ndarray], target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``y^T K y`` and ``|K|_F`` on white inputs, ``K = sum_l U_l x V_l`` by layers, at all times."""
    depth, count = len(path), len(path[0])
    below = [np.broadcast_to(np.eye(path[0].shape[-1]), (count, path[0].shape[-1], path[0].shape[-1]))]
    for layer in path[:-1]:
        below.append(layer @ below[-1])
    above = [np.broadcast_to(np.eye(target.shape[0]), (count, target.shape[0], target.shape[0]))]
    for layer in path[:0:-1]:
        above.insert(0, above[0] @ layer)
    inner, outer = [b.mT @ b for b in below], [a @ a.mT for a in above]
    fits = sum(np.sum(target * (u @ target @ v), axis=(-2, -1)) for u, v in zip(outer, inner, strict=True))
    squares = sum(
        np.sum(outer[i] * outer[j], axis=(-2, -1)) * np.sum(inner[i] * inner[j], axis=(-2, -1))
        for i in range(depth)
        for j in range(depth)
    )
    return np.asarray(fits), np.sqrt(squares)


def crossing(t: np.ndarray, values: np.ndarray, level: float) -> float:
    """Return the first time at which `values` passes `level`, linear between samples."""
    above = np.signbit(values - level)
    k = int(np.argmax(above != above[0]))
    share = (level - values[k - 1]) / (values[k] - values[k - 1])
    return float(t[k - 1] + share * (t[k] - t[k - 1]))
