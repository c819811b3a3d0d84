"""Observables of a network with biases, from those of the equivalent network without biases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from linsolve.core.biases import Biases
from linsolve.core.network_observables import kronecker

__all__ = ["on_centered", "split_first"]

Values = dict[str, Callable[[], np.ndarray]]  # by name


def split_first(inner: Mapping[str, np.ndarray]) -> Values:
    """Return the observables of a network with a bias in its first layer, from those of the network on ``(x, 1)``."""
    found: Values = {name: partial(inner.__getitem__, name) for name in inner if name[0] == "w"}
    if "w1" in inner:
        found |= {"w1": lambda: inner["w1"][..., :-1], "b1": lambda: inner["w1"][..., -1]}
    if "map" in inner:
        found |= {"map": lambda: inner["map"][..., :-1], "offset": lambda: inner["map"][..., -1]}
    if "singular_values" in inner:
        found["singular_values"] = lambda: np.asarray(np.linalg.svd(inner["map"][..., :-1], compute_uv=False))
    return found | {name: partial(inner.__getitem__, name) for name in inner if name not in found}


def on_centered(
    inner: Mapping[str, np.ndarray], biases: Biases, rates: np.ndarray, t: np.ndarray, Y: np.ndarray
) -> Values:
    """Return the observables of a network with biases on centered inputs, from those without on centered targets.

    The hidden biases are zero and stay so; the last bias relaxes to the mean of the targets `Y` at its learning rate.
    Other observables than those of `linsolve.solve` are left out.
    """
    count, mean = len(biases), Y.mean(axis=0)
    start = np.zeros(len(mean)) if biases[-1] is None else biases[-1]
    with np.errstate(under="ignore"):
        last = mean + (start - mean) * np.exp(-rates[-1] * t)[..., None]
    left = last - mean if biases[-1] is not None else np.broadcast_to(-mean, (*t.shape, len(mean)))

    def loss() -> np.ndarray:
        return np.asarray(inner["loss"] + np.sum(left**2, axis=-1) / 2)

    def ntk() -> np.ndarray:
        total, after = np.array(inner["ntk"]), np.eye(len(mean))
        ones = np.ones((len(Y),) * 2)
        for i in range(count - 1, -1, -1):
            if biases[i] is not None:
                total = total + kronecker(ones, rates[i] * after @ np.swapaxes(after, -1, -2))
            if any(each is not None for each in biases[:i]):
                after = after @ inner[f"w{i + 1}"]
        return total

    layers = [f"w{i}" for i in range(1, count + 1)]
    found: Values = {name: partial(inner.__getitem__, name) for name in layers if name in inner}
    for i, each in enumerate(biases[:-1], start=1):
        if each is not None:
            found[f"b{i}"] = partial(np.broadcast_to, each, (*t.shape, len(each)))
    if biases[-1] is not None:
        found[f"b{count}"] = lambda: last
    if "map" in inner:
        found |= {"map": lambda: inner["map"], "offset": lambda: last if biases[-1] is not None else 0.0 * left}
    if "singular_values" in inner:
        found["singular_values"] = lambda: inner["singular_values"]
    found |= {name: loss for name in ("loss", "train_loss") if name in inner}
    needed = [name for i, name in enumerate(layers) if any(each is not None for each in biases[:i])]
    if "ntk" in inner and all(name in inner for name in needed):
        found["ntk"] = ntk
    return found
