"""Initial features, classifiers and biases: checks, distances of the constant direction from rest, random draws."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import integer, lengths, number, real_array, refuse_beyond_memory
from linsolve.core.network_arguments import meeting
from linsolve.core.parameters import batch_shape
from linsolve.core.randomness import orthonormal, seeded
from linsolve.systems.collapse.contrasts import norm, split
from linsolve.systems.collapse.metrics import bounded_ratio, class_grams, trace

__all__ = [
    *("balanced", "counted", "decoupled", "distances", "dyadic", "one_unit", "sizes", "weights"),
    *("refuse_disorder", "refuse_large"),
]


def counted(who: str, name: str, value: Any, meaning: str) -> int:
    """Return a count as an integer; raise if it is unknown or differs within the batch."""
    if not arithmetic.readable(value):
        raise TypeError(f"{who}: {name} = {value} must be a known number ({meaning}); use a Python integer")
    found = np.unique(arithmetic.to_numpy(value))
    if len(found) > 1:
        raise ValueError(
            f"{who}: {name} = {found[0]:g} and {found[1]:g} must be the same over a batch ({meaning}); make one flow "
            "for each"
        )
    return int(found[0])


def sizes(who: str, classes: int, m: Any) -> tuple[int, ...]:
    """Return the class sizes; `m` is one number or one for each class."""
    if m.ndim == 0:
        each = counted(who, "m", m, "samples of each class")
        refuse_beyond_memory(who, {"classes": classes, "m": each, "outputs": classes}, "membership of all samples")
        return (each,) * classes
    if m.shape[-1] != classes:
        raise ValueError(
            f"{who}: m has shape {tuple(m.shape)} but must be one number or {classes} (samples of each class); the "
            f"flow has classes = {classes}"
        )
    found = tuple(counted(who, "m", m[..., k], f"samples of class {k}") for k in range(classes))
    refuse_beyond_memory(who, {"sum of m": sum(found), "outputs": classes}, "membership of all samples")
    return found


def refuse_disorder(who: str, values: Mapping[str, np.ndarray]) -> None:
    """Raise unless ``kappa_d > kappa_c >= kappa_n`` and the batch axes broadcast."""
    batch_shape(who, {name: value.shape for name, value in values.items()})
    for low, high, strict in (("kappa_c", "kappa_d", True), ("kappa_n", "kappa_c", False)):
        small, large = np.broadcast_arrays(values[low], values[high])
        bad = (small >= large) if strict else (small > large)
        if bad.any():
            rule = "must be less than" if strict else "must be at most"
            raise ValueError(
                f"{who}: {low} = {small[bad][0]:g} {rule} {high} = {large[bad][0]:g} (feature kernels of samples that "
                "are farther apart are smaller); order them kappa_d > kappa_c >= kappa_n"
            )


def _largest(a: Any) -> float:
    """Return the largest magnitude; 0 in high precision, and where the entries are unknown."""
    if arithmetic.is_object(arithmetic.namespace(a)) or not arithmetic.readable(a):
        return 0.0
    return float(np.max(np.abs(arithmetic.to_numpy(a))))


def refuse_large(who: str, name: str, a: Any) -> None:
    """Raise if products of the weights overflow."""
    size = _largest(a)
    if size > 1e150:
        raise OverflowError(
            f"{who}: {name} = {size:.3g} (largest entry) leaves the range of doubles when squared (weights); rescale, "
            "or give it in linsolve.arithmetic.precise(50)"
        )


def weights(who: str, sizes: tuple[int, ...], h: Any, w: Any, b: Any) -> tuple[Any, Any, Any]:
    """Return features, classifier and bias as real arrays; raise if their shapes do not fit."""
    h, w = meeting(who, ("h", h, "features", "n, N"), ("w", w, "classifier", "C, n"), "features")
    b = real_array(who, "b", b, meaning="bias")
    if b.ndim < 1:
        raise ValueError(f"{who}: b has shape {tuple(b.shape)} but needs trailing axes (C,); add them")
    classes, m = len(sizes), sizes[0] if len(set(sizes)) == 1 else list(sizes)
    for name, size, wanted, rule in (
        ("h", h.shape[-1], sum(sizes), "samples of all classes, ordered by class"),
        ("w", w.shape[-2], classes, "classes"),
        ("b", b.shape[-1], classes, "classes"),
    ):
        if size != wanted:
            raise ValueError(
                f"{who}: {name} has {size} {'columns' if name == 'h' else 'rows'} but needs {wanted} ({rule}); "
                f"the flow has classes = {classes}, m = {m}"
            )
    return h, w, b


def distances(xp: Any, z: Any, y: Any) -> dict[str, Any]:
    """Return the relative distances of the constant direction from rest, linear in the deviation of the weights."""

    def relative(in_features: Any, in_product: Any) -> Any:
        features, product = trace(xp, z.gram_h), xp.sqrt(xp.abs(trace(xp, z.gram_w) * trace(xp, z.gram_h)))
        return xp.maximum(
            bounded_ratio(xp, norm(xp, in_features), features + 0 * product),
            bounded_ratio(xp, norm(xp, in_product), product),
        )

    rows, outputs = split(xp, z.gram_h, y)[2], split(xp, z.product, y)[2]
    # 1 - C b is the residual of the bias; classifier and class means must be orthogonal to its even and uneven parts,
    # each of which class means would otherwise turn into the other
    unlearned = (y.shape[0] * z.b - 1)[..., None]
    even = xp.sum(unlearned, axis=-2, keepdims=True) / y.shape[0]
    uneven, even = unlearned - even, even + 0 * unlearned
    means = class_grams(xp, z.gram_h, y)[1]
    seen = xp.maximum(norm(xp, z.gram_w @ even), norm(xp, z.gram_w @ uneven)), norm(xp, means @ uneven)
    share = [bounded_ratio(xp, s, trace(xp, g) + 0 * s) for s, g in zip(seen, (z.gram_w, means), strict=True)]
    return {
        "mean of the features": relative(rows, outputs),
        "bias that classifier or features see": xp.maximum(*share),
    }


def balanced(
    who: str, sizes: tuple[int, ...], basis: np.ndarray, mu: np.ndarray, n: int, *, scale: float, imbalance: float,
    batch: tuple[int, ...], rng: np.random.Generator | int | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Return features, classifier and bias, centered, with ``E = imbalance`` on the span of the weights.

    `basis` holds contrasts between classes, shape (C, C - 1), or between samples, shape (N, N - 1), and `mu` the
    eigenvalue of the kernel on them, for samples times ``N/C``.
    """
    classes, count = len(sizes), sum(sizes)
    n = integer(who, "n", n, meaning="features", example=classes)
    scale = number(who, "scale", scale, meaning="size of weights", domain="[0, 1e150]", example=0.01)
    imbalance = number(who, "imbalance", imbalance, meaning="lambda", domain="(-inf, inf)", example=0.0)
    batch = lengths(who, "batch", batch, meaning="leading shape")
    refuse_beyond_memory(who, {"n": n, "batch": math.prod(batch), "classes": classes}, "features")
    rng, rank = seeded(who, rng), min(n, classes - 1)
    batch = batch_shape(who, {"batch": batch, "the flow": mu.shape})
    drawn = rng.normal(size=(*batch, classes - 1, n)) * scale
    least = np.linalg.svd(drawn, compute_uv=False)[..., :rank]
    most = np.hypot(least, np.sqrt(abs(imbalance)))
    own, other = (most, least) if imbalance >= 0 else (least, most)
    hidden = np.swapaxes(orthonormal(rng, batch, n, rank), -1, -2)
    w = np.sqrt(count / classes) * (orthonormal(rng, batch, classes, rank) * own[..., None, :]) @ hidden
    inputs = basis @ orthonormal(rng, batch, basis.shape[1], rank)
    means = np.sqrt(mu)[..., None, None] * (inputs * other[..., None, :]) @ hidden
    h = np.swapaxes(means, -1, -2)
    h = h if len(basis) == count else np.repeat(h, count // classes, axis=-1)
    return h, w, np.broadcast_to(np.asarray(sizes) / count, (*batch, classes)).copy()


def refuse_unequal(who: str, sizes: tuple[int, ...], fix: str) -> None:
    """Raise if class sizes are unequal."""
    if len(set(sizes)) > 1:
        raise ValueError(f"{who}: m = {list(sizes)} must be one number (samples of each class); {fix}")


def refuse_blocks(who: str, sizes: tuple[int, ...], flow: Any) -> None:
    """Raise unless ``kappa_c = kappa_n``: for unequal class sizes no other kernel has a closed form."""
    if np.any(flow.kappa_c != flow.kappa_n):
        raise ValueError(
            f"{who}: m = {list(sizes)} must be one number (samples of each class) for kappa_c > kappa_n; use classes "
            "of equal size, kappa_n = kappa_c, or draw your own weights for integrate(flow, t, flow.of(h, w, b))"
        )


def one_unit(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return class means and classifier of one active feature out of `n`, in binary fractions: C = 3, zero sums."""
    h, w = np.zeros((n, 3)), np.zeros((3, n))
    h[0], w[:, 0] = _zero_sum(rng), _zero_sum(rng)[::-1]
    return h, w


def _zero_sum(rng: np.random.Generator) -> np.ndarray:
    a, b = rng.integers(10, 30, 2) / 64
    return np.array([a, b, -a - b]) * rng.choice([-1, 1])


def decoupled(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return class means and classifier of two decoupled modes on two features each, in binary fractions: C = 3."""
    h, w = np.zeros((n, 3)), np.zeros((3, n))
    for k, contrast in enumerate(([1, -1, 0], [1, 1, -2])):
        units = slice(2 * k, 2 * k + 2)
        h[units] = np.outer(rng.integers(5, 20, 2), contrast) / 64
        w[:, units] = np.outer(contrast, rng.integers(5, 20, 2) * [1, -1]) / 64
    return h, w


def dyadic(rng: np.random.Generator, n: int, ratio: float) -> tuple[np.ndarray, np.ndarray]:
    """Return class means and classifier of two active features, C = 3, ``W^T W - M M^T / ratio^2`` a multiple of P_S.

    ``P_S`` is the projector on the span of the weights. All entries are binary fractions: the weights are balanced
    without rounding error if `ratio` is one.
    """
    while True:
        a, b = (_centered(rng.integers(-5, 6, size=(4000, 2, 2))) for _ in range(2))
        spread = a @ np.swapaxes(a, -1, -2) - b @ np.swapaxes(b, -1, -2)
        good = (spread == spread[:, :1, :1] * np.eye(2, dtype=int)).all(axis=(-2, -1)) & (spread[:, 0, 0] != 0)
        good &= (np.linalg.det(a[..., :2]) != 0) & (np.linalg.det(b[..., :2]) != 0)
        # sign of the determinant as in the target, so that both modes are learned
        good &= np.linalg.det(a[..., :2]) * np.linalg.det(b[..., :2]) > 0
        if good.any():
            first = int(np.argmax(good))
            frame = np.zeros((2, n))
            frame[:, :4] = np.array([[1, 1, 1, 1], [1, -1, 1, -1]]) / 2
            return ratio * frame.T @ b[first] / 16, a[first].T @ frame / 16


def _centered(a: np.ndarray) -> np.ndarray:
    return np.concatenate([a, -a.sum(axis=-1, keepdims=True)], axis=-1)
