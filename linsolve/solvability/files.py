"""Weights of a network from a file, and a list of numbers from a command line."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from linsolve.data.archive import plain_arrays
from linsolve.solvability.network import WHO

__all__ = ["read_rates", "read_weights"]


def read_weights(source: str | os.PathLike[str]) -> list[np.ndarray]:
    """Return layers from a ``.npz`` file with arrays ``W1, ..., WL`` (or ``w1, ...``). Nothing in it is executed.

    Raises
    ------
    ValueError
        If the file is no archive of plain arrays, or the layers are not numbered from 1 without a gap.
    OSError
        If the file cannot be read.
    """
    path = Path(source)
    if not path.is_file():
        raise FileNotFoundError(f"{WHO}: weights = {path} must be a .npz file (layers W1, W2, ...); check the path")
    found, others = plain_arrays(WHO, "weights", path, r"[Ww][1-9]\d*")
    numbered = {int(name[1:]): name for name in found}
    if len(numbered) != len(found) or sorted(numbered) != list(range(1, len(found) + 1)) or not found:
        raise ValueError(
            f"{WHO}: weights = {path} must hold W1, W2, ... without a gap (layers, first to last), not {others}; "
            "write numpy.savez(path, W1=..., W2=...)"
        )
    layers = [found[numbered[i]] for i in sorted(numbered)]
    for i, layer in enumerate(layers, 1):
        if layer.dtype.kind not in "fiub":
            raise ValueError(f"{WHO}: W{i} has entries of type {layer.dtype}, not real numbers (layer); convert it")
    return layers


def read_rates(text: str) -> list[float]:
    """Return learning rates from numbers separated by commas."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{WHO}: rates = {text!r} must be numbers (one a layer), as in 0.1,0.5") from None
