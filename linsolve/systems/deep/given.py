"""Starts of a deep linear network along the singular modes of its data: depth, widths and frames, checked and drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import Interval, real_array
from linsolve.core.randomness import seeded

__all__ = ["POSITIVE", "WHO", "start_of", "whole_depth"]

WHO = "DeepNetwork"
POSITIVE = Interval("(0, inf)")


def start_of(
    modes: tuple[Any, Any, Any],
    start: Any,
    depth: Any,
    widths: int | Sequence[int] | None,
    rates: Any,
    variances: Any,
    rng: np.random.Generator | int | None,
) -> tuple[Any, ...]:
    """Return the parts of a `DeepNetwork` in the order of its fields, from the arguments of ``DeepNetwork.init``."""
    depth = whole_depth(WHO, depth)
    u, s, v = (arithmetic.to_numpy(real_array(WHO, "modes", part, meaning="(u, s, v)")) for part in modes)
    start = _for_each_mode("start", real_array(WHO, "start", start, meaning="strengths at time 0"), s)
    moving = np.flatnonzero(start)
    random = None if rng is None else seeded(WHO, rng)
    frames = []
    for size in _widths(widths, depth, max(1, len(moving))):
        if size < len(moving):
            raise ValueError(
                f"{WHO}: width = {size} must be at least {len(moving)} (modes that do not start at 0, each needs "
                "a direction of its own); widen the layer or start the weakest modes at 0"
            )
        frame = np.zeros((size, len(s)))
        frame[:, moving] = _orthonormal(random, size, len(moving))
        frames.append(frame)
    rates = real_array(WHO, "rates", rates, meaning="learning rates of the layers", domain=POSITIVE)
    variances = real_array(WHO, "variances", variances, meaning="variances of the inputs", domain=POSITIVE)
    rates = np.broadcast_to(rates, (depth,)) if rates.ndim == 0 else rates
    return u, s, v, start, rates, tuple(frames), _for_each_mode("variances", variances, s)


def _for_each_mode(name: str, values: np.ndarray, s: np.ndarray) -> np.ndarray:
    if values.shape not in ((), s.shape):
        raise ValueError(
            f"{WHO}: {name} has shape {values.shape} but needs {s.shape}, one for each mode of s; or give one number"
        )
    return np.broadcast_to(values, s.shape)


def whole_depth(who: str, depth: Any) -> int:
    """Return a depth as an integer, refused where the network has no whole number of layers."""
    number = real_array(who, "depth", depth, meaning="number of layers", domain=Interval("[1, inf]"))
    if number.ndim != 0 or not float(number).is_integer():
        raise ValueError(
            f"{who}: depth = {depth} must be a whole number (weights need whole layers); take the nearest, or "
            "follow the modes alone with DeepMode, whose depth is real"
        )
    return int(number)


def _widths(widths: int | Sequence[int] | None, depth: int, default: int) -> list[int]:
    given = default if widths is None else widths
    sizes: list[Any] = [given] * (depth - 1) if np.ndim(given) == 0 else list(given)  # type: ignore[arg-type]
    if len(sizes) != depth - 1:
        raise ValueError(
            f"{WHO}: widths = {len(sizes)} numbers must be {depth - 1} (hidden layers of a network of depth {depth}); "
            "give one for each, or a single number"
        )
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise ValueError(f"{WHO}: width = {size!r} must be a positive integer (units of a hidden layer); say 4")
    return sizes


def _orthonormal(rng: np.random.Generator | None, rows: int, columns: int) -> np.ndarray:
    """Return orthonormal columns: of the identity, or uniformly distributed."""
    if rng is None:
        return np.eye(rows, columns)
    q, r = np.linalg.qr(rng.normal(size=(rows, columns)))
    return q * np.where(np.diagonal(r) < 0, -1.0, 1.0)
