"""Metrics of neural collapse, from products and Gram matrices of the weights."""

from __future__ import annotations

from typing import Any

from linsolve.systems.collapse.contrasts import averaged, overall, shares, split

__all__ = [
    *("angle_misfit", "misclassified", "norm_spread", "scatter_ratio", "unaligned"),
    *("bounded_ratio", "class_grams", "defined", "diagonal", "trace"),
]


def class_grams(xp: Any, gram_h: Any, y: Any) -> tuple[Any, Any]:
    """Return the Gram matrices of class means and of class means minus the mean of all samples, (C, C)."""
    means = averaged(xp, xp.matrix_transpose(averaged(xp, gram_h, y)), y)
    rows = means - overall(xp, means, y)
    return means, rows - xp.sum(rows * shares(xp, y)[:, None], axis=-2, keepdims=True) / y.shape[0]


def diagonal(xp: Any, a: Any) -> Any:
    """Return the diagonal, shape batch + (n,)."""
    return xp.sum(a * xp.eye(a.shape[-1], dtype=xp.float64), axis=-1)


def trace(xp: Any, a: Any) -> Any:
    """Return the trace, shape batch."""
    return xp.sum(a * xp.eye(a.shape[-1], dtype=xp.float64), axis=(-2, -1))


def bounded_ratio(xp: Any, a: Any, b: Any) -> Any:
    """Return ``a/b``, zero where `b` is not positive."""
    good = b > 0
    return xp.where(good, a / xp.where(good, b, xp.ones_like(b)), xp.zeros_like(b))


def _positive(xp: Any, a: Any) -> Any:
    return xp.where(a > 0, a, xp.zeros_like(a))


def scatter_ratio(xp: Any, gram_h: Any, y: Any) -> Any:
    """Return ``tr Sigma_W / tr Sigma_B``, shape batch: inf if there is no scatter between classes."""
    inner = gram_h - averaged(xp, gram_h, y) @ y
    turned = xp.matrix_transpose(inner)
    within = _positive(xp, trace(xp, turned - averaged(xp, turned, y) @ y) / y.shape[1])
    between = trace(xp, class_grams(xp, gram_h, y)[1] * shares(xp, y)) / y.shape[0]
    none = (between <= 0) & (within > 0)
    return xp.where(none, xp.full_like(within, xp.inf), bounded_ratio(xp, within, between))


def norm_spread(xp: Any, gram_h: Any, y: Any) -> Any:
    """Return the standard deviation of the lengths of centered class means divided by their mean, shape batch."""
    length = xp.sqrt(_positive(xp, diagonal(xp, class_grams(xp, gram_h, y)[1])))
    mean = xp.sum(length, axis=-1) / y.shape[0]
    spread = xp.sqrt(xp.sum((length - mean[..., None]) ** 2, axis=-1) / y.shape[0])
    return bounded_ratio(xp, spread, mean)


def angle_misfit(xp: Any, gram_h: Any, y: Any) -> Any:
    """Return the largest ``|cos + 1/(C - 1)|`` over pairs of centered class means, shape batch."""
    gram, classes = class_grams(xp, gram_h, y)[1], y.shape[0]
    length = xp.sqrt(_positive(xp, diagonal(xp, gram)))
    cosine = bounded_ratio(xp, gram, length[..., :, None] * length[..., None, :])
    other = 1 - xp.eye(classes, dtype=xp.float64)
    return xp.max(xp.abs((cosine * (classes - 1) + 1) * other), axis=(-2, -1)) / (classes - 1)


def unaligned(xp: Any, product: Any, gram_w: Any, gram_h: Any, y: Any) -> Any:
    """Return 1 minus the cosine between ``W`` and the centered class means, shape batch."""
    means = averaged(xp, product, y)
    together = trace(xp, means) - xp.sum(means * shares(xp, y), axis=(-2, -1)) / y.shape[0]
    size = _positive(xp, trace(xp, gram_w)) * _positive(xp, trace(xp, class_grams(xp, gram_h, y)[1]))
    return _positive(xp, 1 - bounded_ratio(xp, together, xp.sqrt(size)))


def misclassified(xp: Any, product: Any, gram_h: Any, b: Any, y: Any) -> Any:
    """Return the fraction of training samples on which the classifier and the nearest class mean disagree."""
    to_mean = averaged(xp, gram_h, y)
    means = class_grams(xp, gram_h, y)[0]
    nearer = 2 * to_mean - diagonal(xp, means)[..., None, :]
    chosen = xp.argmax(product + b[..., :, None], axis=-2)
    differ = chosen != xp.argmax(nearer, axis=-1)
    return xp.sum(xp.astype(differ, xp.float64), axis=-1) / y.shape[1]


def defined(xp: Any, h: Any, w: Any, b: Any, y: Any) -> dict[str, Any]:
    """Return every metric by its definition, from features (n, N), classifier (C, n) and bias (C,)."""
    classes, samples = y.shape
    turned, means = xp.matrix_transpose, averaged(xp, h, y)
    centered = means - xp.sum(h, axis=-1, keepdims=True) / samples
    length = xp.sqrt(xp.sum(centered**2, axis=-2))
    mean = xp.sum(length, axis=-1) / classes
    cosines = turned(centered) @ centered / (length[..., :, None] * length[..., None, :])
    misfit = xp.abs(cosines + 1 / xp.asarray(classes - 1)) * (1 - xp.eye(classes))
    one, other = (a / xp.sqrt(xp.sum(a**2, axis=(-2, -1), keepdims=True)) for a in (w, turned(centered)))
    far = xp.sum((h[..., :, None, :] - means[..., :, :, None]) ** 2, axis=-3)
    outputs = w @ h + b[..., :, None]
    differ = xp.argmax(outputs, axis=-2) != xp.argmax(-far, axis=-2)
    within = xp.sum((h - means @ y) ** 2, axis=(-2, -1)) / samples
    between = xp.sum(xp.sum(y, axis=-1) * length**2, axis=-1) / samples
    parts = dict(zip(("sample", "class", "global"), split(xp, outputs - y, y), strict=True))
    return {
        "nc1": within / between,
        "nc2_norms": xp.sqrt(xp.sum((length - mean[..., None]) ** 2, axis=-1) / classes) / mean,
        "nc2_angles": xp.max(misfit, axis=(-2, -1)),
        "nc3": xp.sum((one - other) ** 2, axis=(-2, -1)) / 2,
        "nc4": xp.sum(xp.astype(differ, xp.float64), axis=-1) / samples,
        **{f"loss_{name}": xp.sum(part**2, axis=(-2, -1)) / 2 for name, part in parts.items()},
    }
