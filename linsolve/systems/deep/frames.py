"""The parts that a deep linear network is made of, checked: one frame a layer, one column a mode, orthonormal."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.systems.deep.given import WHO

__all__ = ["TOLERANCE", "refuse_frames", "refuse_shapes"]

TOLERANCE = 1e-9


def refuse_shapes(s: Any, start: Any, variances: Any, rates: Any, frames: list[tuple[str, Any]]) -> None:
    """Refuse parts of a network whose shapes do not fit; `frames` by name, input to output."""
    if s.ndim != 1:
        raise ValueError(f"{WHO}: s has shape {tuple(s.shape)} but needs one axis (modes); pass a list")
    count = s.shape[0]
    for name, value in (("start", start), ("variances", variances)):
        if tuple(value.shape) != (count,):
            shape = tuple(value.shape)
            raise ValueError(f"{WHO}: {name} has shape {shape} but needs ({count},), one for each mode of s")
    if rates.ndim != 1 or rates.shape[0] != len(frames) - 1:
        shape, need = tuple(rates.shape), len(frames) - 1
        raise ValueError(f"{WHO}: rates have shape {shape} but need ({need},), one for each layer")
    for name, frame in frames:
        if frame.ndim != 2 or frame.shape[1] != count:
            raise ValueError(
                f"{WHO}: {name} has shape {tuple(frame.shape)} but needs (units, {count}), a column for each mode"
            )


def refuse_frames(start: Any, frames: list[tuple[str, Any]]) -> None:
    """Refuse frames whose columns are not orthonormal; those of modes that start at 0 count only at the ends."""
    moving = arithmetic.to_numpy(start) != 0
    for name, frame in frames:
        frame = arithmetic.to_numpy(frame)
        columns = frame if name in ("u", "v") else frame[:, moving]
        off = np.abs(columns.T @ columns - np.eye(columns.shape[1])).max(initial=0.0)
        if not off <= TOLERANCE:
            raise ValueError(
                f"{WHO}: {name}.T @ {name} - 1 = {off:.3g} must vanish (orthonormal columns; at most "
                f"{TOLERANCE:g}); take singular vectors, or the Q of a QR decomposition"
            )
