r"""Networks with biases, ``h_l = W_l h_{l-1} + b_l``, and the equivalent networks without biases.

A network with a bias in its first layer only is one without biases on the inputs ``(x, 1)``. On centered inputs, if the
biases of the hidden layers vanish, the weights move as without biases on centered targets, and the last bias relaxes to
the mean of the targets,

.. math:: b_L(t) = \bar y + (b_L(0) - \bar y)\, e^{-\eta_L t} ,

if the hidden layers have no biases, or if it starts there, so that zero hidden biases stay zero. For other biases no
closed form is known, and the weights are integrated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.arguments import known_array, refuse_shape, shown
from linsolve.core.network import affine_maps

__all__ = ["UNSOLVED", "Biases", "Plain", "distances", "is_first_only", "on_ones", "read_biases", "worst"]

UNSOLVED = (
    "biases: a closed form is known for a bias of the first layer alone, and on centered inputs for a bias of the last "
    "layer alone, or for zero hidden biases and a last bias at the mean of the targets."
)

Biases = tuple[np.ndarray | None, ...]  # one entry for each layer


class Plain(NamedTuple):
    """An equivalent network without biases, on samples."""

    weights: list[np.ndarray]
    data: tuple[np.ndarray, np.ndarray]


def read_biases(who: str, bias: Any, layers: Sequence[np.ndarray]) -> Biases:
    """Return the bias of each layer, None where there is none; an empty tuple if no layer has a bias."""
    if bias is None:
        return ()
    meaning = "bias, one number a unit"
    single = np.ndim(bias) == 0 if not isinstance(bias, list | tuple) else False
    given = [bias] * len(layers) if single else bias
    if not isinstance(given, list | tuple | np.ndarray) or len(given) != len(layers):
        raise ValueError(
            f"{who}: bias = {shown(bias)} must have {len(layers)} entries (one a layer, None without a bias); pass a "
            "list"
        )
    found: list[np.ndarray | None] = []
    for i, (each, layer) in enumerate(zip(given, layers, strict=True)):
        name = "bias" if single else f"bias[{i}]"
        if each is None:
            found.append(None)
            continue
        value = known_array(who, name, each, meaning=meaning)
        if value.ndim:
            fix = f"give {len(layer)} numbers"
            refuse_shape(who, name, value, (len(layer),), meaning=f"{meaning} of layer {i + 1}", fix=fix)
        size = float(np.abs(value).max())
        if size > 1e30:
            raise ValueError(f"{who}: {name} reaches {size:.3g} but must not exceed 1e+30 ({meaning}); rescale it")
        found.append(np.broadcast_to(value, (len(layer),)))
    return tuple(found) if any(each is not None for each in found) else ()


def is_first_only(biases: Biases) -> bool:
    """Return whether the first layer is the only one with a bias."""
    return biases[0] is not None and all(each is None for each in biases[1:])


def on_ones(weights: Sequence[np.ndarray], biases: Biases, X: np.ndarray, Y: np.ndarray) -> Plain:
    """Return the network on the inputs ``(x, 1)`` that a network with a bias in its first layer only is."""
    first = np.concatenate([weights[0], np.asarray(biases[0])[:, None]], axis=1)
    return Plain([first, *weights[1:]], (np.concatenate([X, np.ones((len(X), 1))], axis=1), Y))


def distances(weights: Sequence[np.ndarray], biases: Biases, X: np.ndarray, Y: np.ndarray) -> dict[str, float]:
    """Return the relative distances from the conditions under which weights move as without biases, by name."""
    mean, hidden = X.mean(axis=0), [each is not None for each in biases[:-1]]
    found = {"centered inputs": _share(mean, X)}
    if not any(hidden) and biases[-1] is not None:
        return found
    made = affine_maps(np, weights, biases)
    sizes = [
        _share(bias, X @ each[:, :-1].T + each[:, -1]) for bias, each in zip(biases[:-1], made, strict=False)
        if bias is not None
    ]  # fmt: skip
    last = 0.0 if biases[-1] is None else biases[-1]
    return found | {
        "zero hidden biases": max(sizes, default=0.0),
        "learned mean of the targets": _share(Y.mean(0) - last, Y),
    }


def worst(found: dict[str, float]) -> tuple[str, float]:
    """Return the condition with the largest distance."""
    return max(found.items(), key=lambda item: item[1])


def _share(part: np.ndarray, whole: np.ndarray) -> float:
    """Return the norm of a vector relative to the root mean square of the rows of a matrix, or to itself if larger."""
    size, rms = float(np.linalg.norm(part)), float(np.sqrt(np.mean(np.sum(whole**2, axis=1))))
    return size / max(size, rms) if size > 0 else 0.0
