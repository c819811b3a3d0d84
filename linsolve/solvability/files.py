"""Layers and biases from a file under the names of common frameworks, data of a network, numbers of a command line."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from linsolve.data.archive import plain_arrays
from linsolve.data.dataset import Dataset
from linsolve.data.reading import load

__all__ = ["Data", "Weights", "arranged", "is_weight", "load_for", "read_data", "read_numbers", "read_weights"]

_NUMBERED = re.compile(r"(?P<stem>[Ww]|arr_)(?P<label>\d+)$")
_BIAS = re.compile(r"(?P<stem>[Bb])(?P<label>\d+)$")
_NAMED = re.compile(r"(?P<label>.*?)[./_](?P<role>weight|kernel|bias)(:0)?$")
_MOMENTS = ("Sigma_xx", "Sigma_yx")


class Weights(NamedTuple):
    """Layers of a file, first to last, their biases (None for a layer without one), names, and notes on the names."""

    layers: list[np.ndarray]
    biases: list[np.ndarray | None] | None
    names: list[str]
    notes: list[str]


class Data(NamedTuple):
    """Samples ``(X, Y)``, or second moments, and test samples; `name` is that of the source.

    With a `context`, `pair` is the covariance of tokens or the pair (tokens, targets) of sequences.
    """

    name: str
    pair: tuple[np.ndarray, np.ndarray]
    covariances: bool
    test: tuple[np.ndarray, np.ndarray] | None = None
    context: float | None = None


class _Entry(NamedTuple):
    """Array of a file: name, label of its layer, sort key of text and numbers, whether it is a bias, transposed."""

    name: str
    label: str
    stem: str
    order: tuple[int, ...]
    bias: bool
    kernel: bool


def read_weights(source: str | os.PathLike[str], who: str = "applies", names: str | None = None) -> Weights:
    """Return the layers and biases of a file. No part of it is executed; an array that is not used raises an error.

    Parameters
    ----------
    source : str or path
        A ``.npz`` file, or a ``.safetensors`` file (extra ``[safetensors]``), with arrays ``W1, W2, ...`` (or ``w1``,
        or from 0), ``arr_0, arr_1, ...`` as `numpy.savez` names them, or ``NAME.weight`` as in PyTorch (``0.weight``,
        ``fc1.weight``), numbered consecutively, all of shape (units, inputs); or ``NAME.kernel`` as in Keras and Flax,
        of shape (inputs, units), which are transposed. ``NAME, NAME_1, NAME_2, ...`` counts from 0. Biases are ``b1``
        or ``NAME.bias``.
    who : str
        Command that reads, for errors.
    names : str, optional
        Names of the layers, first to last, separated by commas. Biases of these layers are read, other arrays are left
        out, and a note names them.

    Raises
    ------
    ValueError
        If the file is not an archive of plain arrays, a name is not in the file, an array is neither a layer nor the
        bias of one, is not finite, or the numbers have a gap.
    OSError
        If the file cannot be read.
    ImportError
        If the library that reads safetensors is missing.
    """
    path = Path(source)
    found = _safetensors(who, path) if path.suffix == ".safetensors" else plain_arrays(who, "weights", path, ".*")[0]
    return arranged(who, path, found, names)


def arranged(
    who: str, path: Path, found: Mapping[str, np.ndarray], names: str | None = None, *, option: bool = True
) -> Weights:
    """Return the layers and biases among the arrays of the file `path`; see `read_weights`.

    `option` is whether the command has the option ``--layers``, for errors.
    """
    chosen = None if names is None else _chosen(who, path, names, found)
    entries = [_entry(who, path, name) for name in (found if chosen is None else chosen)]
    for each in entries:
        _refuse_unusable(who, path, each.name, found[each.name])
    layers = [e for e in entries if not e.bias]
    if not layers:
        raise ValueError(
            f"{who}: weights = {path} must hold the layers W1, W2, ... (not {', '.join(found) or 'nothing'}); write "
            "numpy.savez(path, W1=..., W2=...)"
        )
    given = _biases(who, path, layers, [e for e in entries if e.bias], found)
    named = dict(zip([e.name for e in layers], given or [], strict=False))
    layers = _ordered(who, path, _counted(layers), option=option) if chosen is None else layers
    biases = [named[e.name] for e in layers] if named else None
    called, kernels = [e.name for e in layers], [e.name for e in layers if e.kernel]
    notes = [f"{', '.join(kernels)}: shape (inputs, units), transposed."] if kernels else []
    if called != [f"W{i}" for i in range(1, len(called) + 1)]:
        notes.insert(0, f"layers, first to last: {', '.join(called)}.")
    if left := [name for name in found if chosen is not None and name not in chosen]:
        notes.append(f"left out of {path.name}: {', '.join(left)}.")
    return Weights([found[e.name].T if e.kernel else found[e.name] for e in layers], biases, called, notes)


def _chosen(who: str, path: Path, names: str, found: Mapping[str, np.ndarray]) -> list[str]:
    """Return the named layers in their order, then their biases; raise for a name that is not one of a layer."""
    layers = [name.strip() for name in names.split(",")]
    for name in layers:
        if name not in found or layers.count(name) > 1 or _entry(who, path, name).bias:
            raise ValueError(
                f"{who}: layers = {names} names {name or 'nothing'}, but must name layers of {path} once each, "
                f"first to last (not biases); it has {', '.join(found)}"
            )
    labels = {_entry(who, path, name).label for name in layers}
    others = [name for name in found if name not in layers and _is_bias(name)]
    return layers + [name for name in others if _entry(who, path, name).label in labels]


def is_weight(name: str) -> bool:
    """Return whether a name is one of a layer or of a bias."""
    try:
        _entry("", Path(), name)
    except ValueError:
        return False
    return True


def _is_bias(name: str) -> bool:
    named = _NAMED.match(name)
    return bool(_BIAS.match(name)) or name in ("b", "bias") or (named is not None and named["role"] == "bias")


def _safetensors(who: str, path: Path) -> Mapping[str, np.ndarray]:
    if not path.is_file():
        raise FileNotFoundError(f"{who}: weights = {path} does not exist (a .safetensors file); check the path")
    try:
        from safetensors.numpy import load_file
    except ImportError as error:
        raise ImportError(
            f'{who}: weights = {path} needs the library safetensors; pip install ".[safetensors]" in the clone, or '
            "write the arrays with numpy.savez"
        ) from error
    try:
        return dict(load_file(path))
    except Exception as error:  # damaged files and types that NumPy lacks raise errors of the library
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(
            f"{who}: weights = {path} cannot be read ({reason}); convert its arrays to float32, or write them with "
            "numpy.savez"
        ) from None


def _entry(who: str, path: Path, name: str) -> _Entry:
    for pattern, bias in ((_NUMBERED, False), (_BIAS, True)):
        if match := pattern.match(name):
            return _Entry(name, str(int(match["label"])), match["stem"], (int(match["label"]),), bias, kernel=False)
    if match := _NAMED.match(name):
        label, role = match["label"], match["role"]
        numbers = tuple(int(n) for n in re.findall(r"\d+", label))
        return _Entry(name, label, re.sub(r"\d+", "#", label), numbers, role == "bias", role == "kernel")
    if name in ("weight", "kernel", "bias", "W", "w", "b"):
        return _Entry(name, "", "", (), _is_bias(name), name == "kernel")
    fix = "leave it out, or name the layers W1, W2, ..."
    if name in ("X", "Y", "Sigma_xx", "Sigma_yx"):
        fix = "the weights come first, then the data: swap the two files, or leave it out"
    raise ValueError(f"{who}: weights = {path} has an array {name} (neither a layer nor a bias); {fix}")


def _refuse_unusable(who: str, path: Path, name: str, value: np.ndarray) -> None:
    if value.dtype.kind not in "fiub":
        raise ValueError(
            f"{who}: {name} of {path} has entries of type {value.dtype}, not real numbers (layer); convert it"
        )
    if value.size == 0:
        raise ValueError(f"{who}: {name} of {path} has shape {value.shape}, which is empty (layer); give entries")
    bad = ~np.isfinite(value)
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"{who}: {name} of {path} = {value[index]} at index {index} must be finite (layer); repair or retrain it"
        )


def _biases(
    who: str, path: Path, layers: list[_Entry], biases: list[_Entry], found: Mapping[str, np.ndarray]
) -> list[np.ndarray | None] | None:
    """Return the bias of each layer, None without one; raise for a bias of no layer and for shapes that do not fit."""
    if not biases:
        return None
    at = {e.label: i for i, e in enumerate(layers)}
    result: list[np.ndarray | None] = [None] * len(layers)
    for each in biases:
        value, i = found[each.name], at.get(each.label)
        if i is None or result[i] is not None:
            raise ValueError(
                f"{who}: weights = {path} has a bias {each.name} that belongs to none of the layers "
                f"{', '.join(e.name for e in layers)} (one a layer); name it like its layer"
            )
        layer = found[layers[i].name]
        units = layer.shape[-1] if layers[i].kernel else len(layer) if layer.ndim == 2 else 1
        if value.shape not in ((units,), (units, 1), (1, units)) and not (units == 1 and value.shape == ()):
            raise ValueError(
                f"{who}: {each.name} of {path} has shape {value.shape} but must be ({units},) (bias of "
                f"{layers[i].name}, one number a unit); reshape it"
            )
        result[i] = value.reshape(units)
    return result


def _counted(layers: list[_Entry]) -> list[_Entry]:
    """Return the layers with number 0 for NAME beside NAME_1, NAME_2, ..., as Keras counts."""
    stems = {e.stem for e in layers if e.stem.endswith("_#")}
    return [e._replace(stem=f"{e.stem}_#", order=(*e.order, 0)) if f"{e.stem}_#" in stems else e for e in layers]


def _ordered(who: str, path: Path, layers: list[_Entry], *, option: bool) -> list[_Entry]:
    """Return the layers by number; raise for names of several kinds, repeated numbers and gaps."""
    names, what = ", ".join(e.name for e in layers), "weights" if option else "runs"
    if len(layers) == 1 and layers[0].order in ((), (0,), (1,)):
        return layers
    stems = {e.stem for e in layers}
    lengths = {len(e.order) for e in layers}
    if len(stems) > 1 or lengths == {0} or len(lengths) > 1 or len({e.kernel for e in layers}) > 1:
        raise ValueError(
            f"{who}: {what} = {path} has layers {names} (their order cannot be told from the names); name them W1, "
            f"W2, ...{', or say --layers FIRST,...,LAST' if option else ''}"
        )
    layers = sorted(layers, key=lambda e: e.order)
    steps = np.diff([e.order for e in layers], axis=0)
    moving = np.flatnonzero(np.any(steps, axis=0)) if len(layers) > 1 else np.arange(1)
    first = layers[0].order[int(moving[0])] if len(moving) else 0
    fix = f"say --layers {','.join(e.name for e in layers)}" if option else "name them W1, W2, ..."
    if len(moving) != 1 or (steps[:, moving[0]] != 1).any() or first > 1:
        raise ValueError(
            f"{who}: {what} = {path} has layers {names} but must have all of them, numbered without a gap from 0 or 1 "
            f"(a gap may hide a layer or a nonlinear unit); if nothing is missing, {fix}"
        )
    return layers


def read_data(
    source: str, *, target: str | None = None, center: bool = False, who: str = "applies", test: str | None = None
) -> Data:
    """Return samples by name or from a file, as `linsolve.data.load` reads them, or the second moments of a file.

    Parameters
    ----------
    source : str
        As in `load`, or a ``.npz`` file with ``Sigma_xx`` and ``Sigma_yx``.
    target : str, optional
        Label column of a ``.csv`` file.
    center : bool
        Whether the means of inputs and targets are removed.
    who : str
        Command that reads, for errors.
    test : str, optional
        File of test samples, as in `load`; with `center`, the means of the training samples are removed.
    """
    path = Path(source)
    if path.suffix.lower() == ".npz" and path.is_file():
        found, has = plain_arrays(who, "data", path, "|".join(_MOMENTS))
        if found:
            return _moments(who, path, found, has, {"center": center, "target": target, "test": test})
    dataset = load_for(who, source, target=target, test=test)
    train, held_out = (dataset.inputs, dataset.targets), dataset.test
    if center:
        X, Y = (each.mean(axis=0) for each in train)
        held_out = None if held_out is None else (held_out[0] - X, held_out[1] - Y)
        train = train[0] - X, train[1] - Y
    return Data(dataset.name, train, covariances=False, test=held_out)


def load_for(
    who: str, source: str, *, classes: list[str] | None = None, target: str | None = None, test: str | None = None
) -> Dataset:
    """Return a data set; errors of `load` name the command `who`, its argument and the file."""
    try:
        return load(source, classes=classes, target=target, test=test)
    except (ValueError, OSError, ImportError) as error:
        prefix, _, rest = str(error).partition("data.load: ")
        if prefix or not rest:  # of the operating system
            raise
        if test is not None and rest.startswith(f"test = {test}"):
            rest = rest.replace("test = ", "--test ", 1)
        elif not rest.startswith(("target = ", "class = ", "classes = ")):
            named = re.sub(r"^(file|data set) = ", "", rest)
            known = named != rest or rest.startswith(Path(source).name)
            rest = f"data = {named}" if known else f"data = {source}: {rest}"
        raise type(error)(f"{who}: {rest}") from None


def _moments(who: str, path: Path, found: Mapping[str, Any], has: str, others: Mapping[str, Any]) -> Data:
    if len(found) < len(_MOMENTS) or has.count(",") >= len(_MOMENTS):
        raise ValueError(
            f"{who}: data = {path} has the arrays {has} but must have {' and '.join(_MOMENTS)} alone (second moments); "
            "write numpy.savez(path, Sigma_xx=X.T @ X / P, Sigma_yx=Y.T @ X / P)"
        )
    for name, given in others.items():
        if given:
            raise ValueError(
                f"{who}: {name} = {given} does not go with {path}, which holds second moments (without samples); leave "
                "it out"
            )
    return Data(path.stem, (found[_MOMENTS[0]], found[_MOMENTS[1]]), covariances=True)


def read_numbers(who: str, name: str, text: str, meaning: str, example: str) -> list[float]:
    """Return numbers separated by commas."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(
            f"{who}: {name} = {text!r} must be numbers separated by commas ({meaning}); say {example}"
        ) from None
