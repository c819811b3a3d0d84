"""Where `TwoLayer` networks come from: a data set on a line, and random weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.arguments import Interval, real_array
from linsolve.core.query import NotExact
from linsolve.core.randomness import seeded

__all__ = ["gaussian", "on_a_line"]


def on_a_line(who: str, X: Any, y: Any, tolerance: float) -> tuple[np.ndarray, float]:
    """Return the data point and the target that stand for samples on a line through the origin.

    Parameters
    ----------
    who : str
        Name for error messages.
    X : array_like, shape (N, d0)
    y : array_like, shape (N,)
        Samples and their targets.
    tolerance : float
        Largest relative Frobenius distance from the line.
    """
    X = np.asarray(real_array(who, "X", np.asarray(X), meaning="samples"))
    y = np.asarray(real_array(who, "y", np.asarray(y), meaning="targets"))
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise ValueError(f"{who}: X, y = shapes {X.shape}, {y.shape} must be (N, d0) and (N,) (samples, targets)")
    scale = np.abs(X).max()
    if scale == 0:
        return X[0], 0.0
    S = X / scale
    n = S[np.argmax(np.sum(S**2, axis=1))]
    n = n / np.linalg.norm(n)
    a = S @ n
    distance = np.linalg.norm(S - a[:, None] * n) / np.linalg.norm(S)
    if distance > tolerance:
        raise NotExact(
            f"{who}: distance of the samples from a line through the origin = {distance:.3g} must vanish (relative; "
            f"at most {tolerance:g}); use WhitenedTwoLayer for whitened data, or train numerically"
        )
    size = np.sqrt(np.mean(a**2))
    return scale * size * n, float(np.mean(a * y) / size)


def gaussian(
    who: str, shapes: tuple[tuple[str, ...], ...], sizes: dict[str, Any], sigmas: dict[str, Any], batch: Any, rng: Any
) -> list[np.ndarray]:
    """Return independent Gaussian arrays of shapes named by `sizes`, with standard deviations `sigmas`.

    Parameters
    ----------
    who : str
        Name for error messages.
    shapes : tuple of tuple of str
        Own axes of each array.
    sizes, sigmas : dict
        What the user gave, by name; one sigma for each array.
    batch : int or tuple of int
    rng : None, int or numpy.random.Generator
    """
    batch = (batch,) if isinstance(batch, int | np.integer) else tuple(batch)
    for name, size in (*sizes.items(), *(("batch", n) for n in batch)):
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise ValueError(f"{who}: {name} = {size!r} must be a positive integer (a number of things); say 10")
    scales = []
    for name, value in sigmas.items():
        scale = real_array(who, name, value, meaning="standard deviation", domain=Interval("[0, inf)"))
        if scale.ndim:
            raise ValueError(f"{who}: {name} has shape {scale.shape} but must be one number (standard deviation)")
        scales.append(scale)
    rng = seeded(who, rng)
    own = [tuple(int(sizes[axis]) for axis in axes) for axes in shapes]
    return [scale * rng.standard_normal(batch + shape) for scale, shape in zip(scales, own, strict=True)]
