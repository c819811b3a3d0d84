"""Laws of networks with biases, from the law of the equivalent network without biases."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from linsolve.core.biased_values import on_centered, split_first
from linsolve.core.biases import distances, is_first_only, on_ones, worst
from linsolve.core.network_law import Estimate, GivenNetwork, NetworkLaw
from linsolve.core.trajectory import Deferred

__all__ = ["biased_law"]

Estimates = Mapping[str, Estimate]


def biased_law(applied: Callable[[GivenNetwork], NetworkLaw], given: GivenNetwork) -> NetworkLaw:
    """Return the law of a network with biases, from `applied`, the law of a network without biases.

    Raises
    ------
    NotExact
        If no network without biases is equivalent, or no observable of the law is known with biases.
    """
    network = given.network
    X, Y = given.samples  # type: ignore[misc]
    weights = list(network.weights)
    if is_first_only(network.biases):
        found = applied(_plain(given, *on_ones(weights, network.biases, X, Y)))
        return dataclasses.replace(found, predict=lambda at: _split(found.predict(at)), source=given)
    name, distance = worst(distances(weights, network.biases, X, Y))
    if not distance <= network.tolerance:
        fix = "laws hold for a bias of the first layer alone, and on centered inputs as in linsolve.solve; use solve"
        given.refuse(name, f"{distance:.2g}", "must vanish", "relative distance; biases", fix)
    found = applied(_plain(given, weights, (X, Y - Y.mean(axis=0))))

    def predict(at: GivenNetwork) -> Estimates:
        inner = found.predict(at)
        times = at.times if found.law.timed else np.array(np.inf)
        values = on_centered(_values(inner), network.biases, network.rates, times, Y)
        exact = Estimate(lambda: np.zeros(()), np.inf, 0.0, "0")
        return {name: inner.get(name, exact)._replace(value=value) for name, value in values.items()}

    if not set(predict(found.given)) & set(found.predict(found.given)):
        meaning = "bias of the last layer, which this law does not describe"
        given.refuse("bias", "given", "must be left out", meaning, "center the targets and leave it out")
    return dataclasses.replace(found, predict=predict, source=given)


def _plain(given: GivenNetwork, weights: list[np.ndarray], samples: tuple[np.ndarray, np.ndarray]) -> GivenNetwork:
    network = given.network
    return GivenNetwork.read(given.who, weights, samples, network.rates, False, network.tolerance)


def _values(inner: Estimates) -> Deferred:
    return Deferred(**{name: each.value for name, each in inner.items()})


def _split(inner: Estimates) -> Estimates:
    """Return the estimates of a network with a bias in its first layer; errors are relative to the parts."""
    source, values = {"b1": "w1", "offset": "map"}, split_first(_values(inner))
    whole = {name: inner[source.get(name, name)] for name in values}
    return {
        name: whole[name]._replace(value=values[name], error=_of_part(whole[name], values[name])) for name in values
    }


def _of_part(whole: Estimate, part: Callable[[], Any]) -> Callable[[], float]:
    """Return the estimate of the error relative to the largest entry of a part."""

    def error() -> float:
        size = float(np.max(np.abs(part())))
        share = float(np.max(np.abs(whole.value()))) / size if size > 0 else 1.0
        return share * float(whole.error() if callable(whole.error) else whole.error)

    return error
