"""Layers from a ``.npz`` file under the names of common frameworks, and learning rates from a command line."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from linsolve.data.archive import plain_arrays
from linsolve.solvability.integration import WHO

__all__ = ["Weights", "read_rates", "read_weights"]

_NUMBERED = re.compile(r"([Ww]|arr_)(\d+)$")
_BIAS = re.compile(r"([Bb])(\d+)$")
_NAMED = re.compile(r"(?P<label>.*?)[./_](?P<role>weight|kernel|bias)(:0)?$")


class Weights(NamedTuple):
    """Layers of a file, first to last, with their names and notes on names, zero biases and transposed layers."""

    layers: list[np.ndarray]
    names: list[str]
    notes: list[str]


class _Entry(NamedTuple):
    """Array of a file: name, sort key of text and numbers, whether it is a bias, whether it is transposed."""

    name: str
    stem: str
    order: tuple[int, ...]
    bias: bool
    kernel: bool


def read_weights(source: str | os.PathLike[str]) -> Weights:
    """Return the layers of a ``.npz`` file. No part of it is executed; an array that is not used raises an error.

    Parameters
    ----------
    source : str or path
        Arrays ``W1, W2, ...`` (or ``w1``, or from 0), ``arr_0, arr_1, ...`` as `numpy.savez` names them, or
        ``NAME.weight`` as in PyTorch (``0.weight``, ``fc1.weight``), numbered consecutively, all of shape
        (units, inputs); or ``NAME.kernel`` as in Keras and Flax, of shape (inputs, units), which are transposed.
        Biases, ``b1`` or ``NAME.bias``, must be zero.

    Raises
    ------
    ValueError
        If the file is not an archive of plain arrays, an array is not a layer, is not finite, or is a nonzero bias, or
        the numbers have a gap.
    OSError
        If the file cannot be read.
    """
    path = Path(source)
    found, _ = plain_arrays(WHO, "weights", path, ".*")
    entries = [_entry(path, name) for name in found]
    for each in entries:
        _refuse_unusable(path, each.name, found[each.name])
    layers, biases = [e for e in entries if not e.bias], [e for e in entries if e.bias]
    if not layers:
        raise ValueError(
            f"{WHO}: weights = {path} must hold the layers W1, W2, ... (not {', '.join(found) or 'nothing'}); write "
            "numpy.savez(path, W1=..., W2=...)"
        )
    layers = _ordered(path, layers)
    notes = []
    for each in biases:
        if found[each.name].any():
            raise ValueError(
                f"{WHO}: weights = {path} has a bias {each.name} that is not zero (the exact solutions are those of "
                "networks without biases); train without biases, on centered data (--center), and leave it out"
            )
    if biases:
        notes.append(f"biases {', '.join(e.name for e in biases)} are zero and play no part.")
    kernels = [e.name for e in layers if e.kernel]
    if kernels:
        notes.append(f"{', '.join(kernels)}: shape (inputs, units), transposed.")
    names = [e.name for e in layers]
    if names != [f"W{i}" for i in range(1, len(names) + 1)]:
        notes.insert(0, f"layers, first to last: {', '.join(names)}.")
    arrays = [found[e.name].T if e.kernel else found[e.name] for e in layers]
    return Weights(arrays, names, notes)


def _entry(path: Path, name: str) -> _Entry:
    for pattern, bias in ((_NUMBERED, False), (_BIAS, True)):
        if match := pattern.match(name):
            return _Entry(name, match[1], (int(match[2]),), bias, kernel=False)
    if match := _NAMED.match(name):
        label, role = match["label"], match["role"]
        numbers = tuple(int(n) for n in re.findall(r"\d+", label))
        return _Entry(name, re.sub(r"\d+", "#", label), numbers, role == "bias", role == "kernel")
    if name in ("weight", "kernel", "bias", "W", "w", "b"):
        return _Entry(name, "", (), name in ("bias", "b"), name == "kernel")
    raise ValueError(
        f"{WHO}: weights = {path} has an array {name} (neither a layer nor a bias); leave it out, or name the "
        "layers W1, W2, ..."
    )


def _refuse_unusable(path: Path, name: str, value: np.ndarray) -> None:
    if value.dtype.kind not in "fiub":
        raise ValueError(
            f"{WHO}: {name} of {path} has entries of type {value.dtype}, not real numbers (layer); convert it"
        )
    if value.size == 0:
        raise ValueError(f"{WHO}: {name} of {path} has shape {value.shape}, which is empty (layer); give entries")
    bad = ~np.isfinite(value)
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"{WHO}: {name} of {path} = {value[index]} at index {index} must be finite (layer); repair or retrain it"
        )


def _ordered(path: Path, layers: list[_Entry]) -> list[_Entry]:
    """Return the layers by number; raise for names of several kinds, repeated numbers and gaps."""
    names = ", ".join(e.name for e in layers)
    if len(layers) == 1 and layers[0].order in ((), (0,), (1,)):
        return layers
    stems = {e.stem for e in layers}
    lengths = {len(e.order) for e in layers}
    if len(stems) > 1 or lengths == {0} or len(lengths) > 1 or len({e.kernel for e in layers}) > 1:
        raise ValueError(
            f"{WHO}: weights = {path} has layers {names} (their order cannot be told from the names); name them W1, "
            "W2, ..."
        )
    layers = sorted(layers, key=lambda e: e.order)
    steps = np.diff([e.order for e in layers], axis=0)
    moving = np.flatnonzero(np.any(steps, axis=0)) if len(layers) > 1 else np.arange(1)
    first = layers[0].order[int(moving[0])] if len(moving) else 0
    if len(moving) != 1 or (steps[:, moving[0]] != 1).any() or first > 1:
        raise ValueError(
            f"{WHO}: weights = {path} has layers {names} but must have all of them, numbered without a gap from 0 or 1 "
            "(a gap may hide a layer or a nonlinear unit); if nothing is missing, name them W1, W2, ..."
        )
    return layers


def read_rates(text: str) -> list[float]:
    """Return learning rates from numbers separated by commas."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(
            f"{WHO}: rates = {text!r} must be numbers separated by commas (learning rates, one a layer); say 0.1,0.5"
        ) from None
