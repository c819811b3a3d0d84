"""`linsolve.applies` on wide networks: its processor time, and its maps against DOP853 on all weights."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import numpy as np

import linsolve as ls
from linsolve.core.network_arguments import read
from linsolve.core.reduced_network import reduced
from linsolve.solvability import integration

WIDTHS = [(100, 100, 100, 5), (10, 300, 300, 10), (500, 1000, 10), (10, 1000, 1000, 10), (1000, 1000, 1000, 10)]
COMPARED = 50_000  # weights of the largest network that DOP853 integrates too


def rows(widths: list[tuple[int, ...]] = WIDTHS) -> Iterator[tuple[str, str, str, str]]:
    """Yield widths, number of weights, processor time, and the relative difference of the maps."""
    for sizes in widths:
        gen = np.random.default_rng(len(sizes))
        weights = [gen.normal(size=(b, a)) / np.sqrt(a) for a, b in itertools.pairwise(sizes)]
        X = gen.normal(size=(2 * sizes[0], sizes[0]))
        data = X, X @ gen.normal(size=(sizes[0], sizes[-1])) / np.sqrt(sizes[0])
        started = time.process_time()
        until = ls.applies(weights, data).until
        seconds, count = time.process_time() - started, sum(w.size for w in weights)
        off = f"{difference(weights, data, until):.1e}" if count <= COMPARED else ""
        yield "-".join(map(str, sizes)), f"{count:,}", f"{seconds:.1f} s", off


def difference(weights: list[np.ndarray], data: tuple[np.ndarray, np.ndarray], until: float) -> float:
    """Return the largest difference of maps by signals and by weights up to a time, relative to the largest entry."""
    network = read("applies", weights, data, None, False)
    red = reduced(network)
    found = integration.followed(network, red, until)
    covariance = (network.span * network.power) @ network.span.T
    moments = covariance, network.cross, red.inputs, red.outputs
    right, _ = integration.Weights(weights, list(network.rates), *moments).follow(found.times)
    return float(np.abs(found.maps - right).max() / np.abs(right).max())
