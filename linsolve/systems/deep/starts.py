"""Parts of a deep linear network: depth, widths and frames, checked, or drawn for the singular modes of its data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import Interval, integer, real_array, refuse_beyond_memory, refuse_shape, shown
from linsolve.core.matrix_arguments import layer_rates
from linsolve.core.randomness import orthonormal, seeded

__all__ = [
    "POSITIVE",
    "TOLERANCE",
    "WHO",
    "parts_of",
    "refuse_frames",
    "refuse_shapes",
    "whole_depth",
]

WHO = "DeepNetwork"
POSITIVE = Interval("(0, inf)")
TOLERANCE = 1e-9
DEEPEST = 10_000  # each layer is an array of its own


def parts_of(
    modes: tuple[Any, Any, Any],
    start: Any,
    depth: Any,
    widths: int | Sequence[int] | None,
    rates: Any,
    variances: Any,
    rng: np.random.Generator | int | None,
) -> tuple[Any, ...]:
    """Return the fields of a `DeepNetwork` from the arguments of ``DeepNetwork.init``."""
    depth = whole_depth(WHO, depth)
    if not isinstance(modes, tuple | list) or len(modes) != 3:
        raise ValueError(f"{WHO}: modes = {type(modes).__name__} must be (u, s, v); pass data.modes(X, Y)")
    u, s, v = (
        arithmetic.to_numpy(real_array(WHO, f"modes.{name}", part, meaning="singular modes of the data"))
        for name, part in zip("usv", modes, strict=True)
    )
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
        turned = np.eye(size, len(moving)) if random is None else orthonormal(random, (), size, len(moving))
        frame[:, moving] = turned
        frames.append(frame)
    variances = real_array(WHO, "variances", variances, meaning="variances of the inputs", domain=POSITIVE)
    return u, s, v, start, layer_rates(WHO, rates, depth), tuple(frames), _for_each_mode("variances", variances, s)


def _for_each_mode(name: str, values: np.ndarray, s: np.ndarray) -> np.ndarray:
    if values.shape not in ((), s.shape):
        raise ValueError(
            f"{WHO}: {name} has shape {values.shape} but needs {s.shape}, one for each mode of s; or give one number"
        )
    return np.broadcast_to(values, s.shape)


def whole_depth(who: str, depth: Any) -> int:
    """Return a depth as an integer; raise ValueError if it is not a positive whole number."""
    number = real_array(who, "depth", depth, meaning="number of layers", domain=Interval("[1, inf]"))
    if number.ndim != 0 or not float(number).is_integer() or number > DEEPEST:
        raise ValueError(
            f"{who}: depth = {shown(depth)} must be a whole number up to {DEEPEST} (number of layers); round it, or "
            "follow the modes alone with DeepMode, whose depth is real"
        )
    return int(number)


def _widths(widths: int | Sequence[int] | None, depth: int, default: int) -> list[int]:
    given: Any = default if widths is None else widths
    several = isinstance(given, Sequence) or getattr(given, "ndim", 0) > 0
    sizes: list[Any] = list(given) if several else [given] * (depth - 1)
    if len(sizes) != depth - 1:
        raise ValueError(
            f"{WHO}: widths = {len(sizes)} numbers must be {depth - 1} (hidden layers of a network of depth {depth}); "
            "give one for each, or a single number"
        )
    sizes = [integer(WHO, "width", size, meaning="units of a hidden layer", example=4) for size in sizes]
    refuse_beyond_memory(WHO, {"widths": max(sizes, default=0), "layers": len(sizes), "modes": default}, "frames")
    return sizes


def refuse_shapes(s: Any, start: Any, variances: Any, rates: Any, frames: list[tuple[str, Any]]) -> None:
    """Raise ValueError if the shapes of the parts do not fit; `frames` by name, input to output."""
    if s.ndim != 1:
        raise ValueError(f"{WHO}: s has shape {tuple(s.shape)} but needs one axis (modes); pass a list")
    count = s.shape[0]
    for name, value in (("start", start), ("variances", variances)):
        refuse_shape(WHO, name, value, (count,), meaning="modes", fix="give one number for each mode of s")
    meaning = "learning rates of the layers"
    refuse_shape(WHO, "rates", rates, (len(frames) - 1,), meaning=meaning, fix="give one for each layer")
    for name, frame in frames:
        if frame.ndim != 2 or frame.shape[1] != count:
            raise ValueError(
                f"{WHO}: {name} has shape {tuple(frame.shape)} but needs (units, {count}) (a column for each mode "
                "of s); transpose or reshape it"
            )


def refuse_frames(start: Any, frames: list[tuple[str, Any]]) -> None:
    """Raise ValueError for frames without orthonormal columns; in hidden layers only nonzero modes are checked."""
    moving = arithmetic.to_numpy(start) != 0
    for name, frame in frames:
        frame = arithmetic.to_numpy(frame)
        columns = (frame if name in ("u", "v") else frame[:, moving]).clip(-1e150, 1e150)  # squares are doubles
        off = np.abs(columns.T @ columns - np.eye(columns.shape[1])).max(initial=0.0)
        if not off <= TOLERANCE:
            raise ValueError(
                f"{WHO}: {name}.T @ {name} - 1 = {off:.3g} must vanish (orthonormal columns; at most "
                f"{TOLERANCE:g}); use singular vectors, or the Q of a QR decomposition"
            )
