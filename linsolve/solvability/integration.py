"""Numerical integration of a network's weights: horizon, map over time, tangent kernel.

Two layers are reduced to the hidden directions of their rows and columns, which are invariant under training. A large
network with few inputs or outputs is integrated by the Taylor series of its signals, any other by DOP853.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from linsolve.core.integrate import joined, parted, raised
from linsolve.core.network import gradient_flow, layer_scales, maps
from linsolve.core.network_arguments import Network
from linsolve.core.reduced_network import Reduced, norm, spectral
from linsolve.solvability.signals import SignalSeries

__all__ = ["LONGEST", "WHO", "Path", "Signals", "Weights", "followed", "kernel_change", "latest", "refuse_endless"]

WHO = "applies"
STEPS = 1000
LEARNED = 0.05
STILL = 0.98
LONGEST = 1e6  # in time constants of the fastest mode; an integration step covers a few, the total takes minutes
SMALL = 20_000  # networks with fewer weights are integrated as they are
LARGE = 100_000  # networks with more weights are evaluated at fewer times
FEW = 6  # smallest number of weights for each entry of the signals, for which their series is faster
POINTS, FEW_POINTS = 129, 33


class Path(NamedTuple):
    """Trajectory of a network: times (n,), map (n, c, r) in reduced coordinates, first and last layers."""

    times: np.ndarray
    maps: np.ndarray
    start: list[np.ndarray]
    final: list[np.ndarray]
    model: Weights


@dataclasses.dataclass(frozen=True, eq=False)
class Weights:
    """Layers to be integrated: those of the network, or those in reduced coordinates.

    `inputs` and `outputs` map the coordinates of the layers to reduced coordinates, None if they are equal.
    """

    layers: list[np.ndarray]
    rates: list[float]
    covariance: np.ndarray
    cross: np.ndarray
    inputs: np.ndarray | None = None
    outputs: np.ndarray | None = None

    @cached_property
    def counts(self) -> list[int]:
        """Numbers of weights of the layers."""
        return [w.size for w in self.layers]

    @property
    def size(self) -> int:
        """Number of weights."""
        return sum(self.counts)

    @cached_property
    def start(self) -> np.ndarray:
        """All weights at time 0 in one vector."""
        return joined(self.layers)

    @cached_property
    def velocity(self) -> float:
        """Largest entry of the velocity at time 0."""
        return float(np.abs(self.rate(0.0, self.start)).max())

    @cached_property
    def scales(self) -> np.ndarray:
        """Size of each weight, for absolute tolerances, at most that of the largest at time 0."""
        goal = norm(self.cross) / norm(self.covariance)
        found = layer_scales(self.layers, goal, float(np.abs(self.start).max()))
        return np.repeat(found, self.counts)

    def split(self, y: np.ndarray) -> list[np.ndarray]:
        """Return the layers in a vector of all weights."""
        return parted(y, [w.shape for w in self.layers])

    def rate(self, _: float, y: np.ndarray) -> np.ndarray:
        """Return the velocity of all weights in one vector."""
        layers = self.split(y)
        made = maps(layers)
        pull = self.cross - made[-1] @ self.covariance
        return joined(gradient_flow(np, layers, made, pull, self.rates))

    def map(self, layers: list[np.ndarray]) -> np.ndarray:
        """Return the network's map in reduced coordinates."""
        if self.inputs is None or self.outputs is None:
            return maps(layers)[-1]
        return self.outputs.T @ maps([layers[0] @ self.inputs, *layers[1:]])[-1]

    def march(self, end: float, unit: float) -> Iterator[tuple[float, np.ndarray]]:
        """Yield increasing times up to `end`, and the map there, coarsely."""
        from scipy.integrate import DOP853

        scales = self.scales
        if not scales.any():
            scales = np.full_like(scales, self.velocity / unit)  # of weights 0: their first move
        floors = 1e-9 * scales
        solver = DOP853(self.rate, 0.0, self.start, end, rtol=1e-6, atol=floors)
        while solver.status == "running":
            solver.atol = raised(floors, solver.y, self.counts, 1e-9)
            solver.step()
            yield float(solver.t), self.map(self.split(solver.y))

    def follow(self, times: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the maps at ascending times, the first of them 0, and the layers at the last."""
        from scipy.integrate import DOP853

        found, layers = [self.map(self.layers)], self.layers
        floors = 1e-15 * (self.scales if self.scales.any() else np.ones(self.size))
        solver = DOP853(self.rate, 0.0, self.start, times[-1], rtol=1e-12, atol=floors)
        while len(found) < len(times):
            solver.atol = raised(floors, solver.y, self.counts, 1e-15)
            message = solver.step()
            if solver.status == "failed":
                raise ArithmeticError(f"{WHO}: integration stopped at t = {solver.t}: {message}; use an earlier time")
            between = None
            while len(found) < len(times) and times[len(found)] <= solver.t:
                between = between or solver.dense_output()
                layers = self.split(between(times[len(found)]))
                found.append(self.map(layers))
        return np.stack(found), layers


class Signals(Weights):
    """Layers in reduced coordinates with few inputs or outputs, integrated by the Taylor series of their signals."""

    def _series(self) -> SignalSeries:
        return SignalSeries(self.layers, self.rates, self.covariance, self.cross)

    def march(self, end: float, unit: float) -> Iterator[tuple[float, np.ndarray]]:
        """Yield increasing times up to `end`, and the map there, coarsely."""
        return self._series().march(end)

    def follow(self, times: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the maps at ascending times, and the layers at the last."""
        series = self._series()
        return series.follow(times), series.final()


def _integrated(network: Network, red: Reduced) -> Weights:
    """Return the layers to be integrated."""
    weights, rates = list(network.weights), list(network.rates)
    moments = red.covariance, red.cross
    if red.depth > 1 and sum(w.size for w in weights) > SMALL:
        if red.depth == 2:  # in the hidden units that learn
            inner = Weights(list(red.layers), [red.clock] * 2, *moments)
        else:
            inner = Weights([weights[0] @ red.inputs, *weights[1:-1], red.outputs.T @ weights[-1]], rates, *moments)
        units = sum(len(w) for w in inner.layers[:-1])
        if inner.size > max(SMALL, FEW * min(red.cross.shape) * units):
            return Signals(inner.layers, inner.rates, *moments)
        if red.depth == 2:
            return inner
    covariance = (network.span * network.power) @ network.span.T
    return Weights(weights, rates, covariance, network.cross, red.inputs, red.outputs)


def _horizon(model: Weights, red: Reduced) -> float:
    """Return a time by which the removable loss has decreased to 5 % or has stopped decreasing.

    It has stopped at a saddle: over a doubling of time, except at the start, less than 2 % has been removed. Later
    times would depend on rounding.
    """
    narrow = min(len(w) for w in red.layers[:-1]) if red.depth > 1 else len(red.target)
    strengths = np.linalg.svd(red.target @ red.root, compute_uv=False)
    least = float(np.sum(strengths[narrow:] ** 2))  # a bottleneck cannot learn more modes than it has units
    first = float(red.rms(model.map(model.layers) - red.target)) ** 2 - least
    top = float(np.linalg.norm(red.covariance, 2))
    unit = red.clock * max(float(np.linalg.norm(red.cross, 2)), top * max(1.0, float(np.linalg.norm(red.product, 2))))
    size = max(spectral(w) for w in red.layers) if red.depth > 2 else 1.0
    unit *= max(size, 1e-3) ** max(red.depth - 2, 0) if size > 0 else 1.0
    if first <= 0 or model.velocity == 0:
        return 1.0 / unit
    mark, before, now = 0.0, first, 0.0
    for now, reached in itertools.islice(model.march(1000.0 / unit, unit), STEPS):
        left = float(red.rms(reached - red.target)) ** 2 - least
        if left <= LEARNED * first:
            break
        if now >= 2 * mark:
            if before < STILL * first and left > STILL * before:
                break
            mark, before = now, left
    return now if now > 0 else 1.0 / unit


@np.errstate(over="ignore")
def latest(until: float, rate: Callable[[float], float], most: float) -> float:
    """Return the largest time up to `until` that is at most `most` time constants of the fastest mode up to it."""
    if until * rate(until) <= most:
        return until
    early, late = np.log10(max(most / rate(until), 1e-300)), np.log10(until)
    while late - early > 0.01:
        middle = (early + late) / 2
        early, late = (middle, late) if 10**middle * rate(10**middle) <= most else (early, middle)
    unit = 10.0 ** (np.floor(early) - 1)
    return float(np.floor(10**early / unit) * unit)


@np.errstate(over="ignore")
def refuse_endless(who: str, name: str, until: float, rate: Callable[[float], float], most: float) -> None:
    """Raise if a time exceeds `most` time constants of the fastest mode up to it, too long for an integrator."""
    last = latest(until, rate, most)
    if last < until:
        raise ValueError(
            f"{who}: {name} = {until:g} is {until * rate(until):.3g} times the time constant of the fastest mode but "
            f"must be at most {most:.0e} (time; the network is integrated so far); say {last:.2g}"
        )


@np.errstate(over="ignore", invalid="ignore")  # the integrator rejects overflowing trial steps
def followed(network: Network, red: Reduced, until: float | None) -> Path:
    """Return the trajectory of the network up to `until`, by default up to its horizon."""
    model = _integrated(network, red)
    end = _horizon(model, red) if until is None else until
    times = np.linspace(0.0, end, POINTS if model.size <= LARGE else FEW_POINTS)
    start = model.layers
    if model.velocity == 0:
        return Path(times, np.repeat(model.map(start)[None], len(times), axis=0), start, start, model)
    reached, final = model.follow(times)
    return Path(times, reached, start, final, model)


def kernel_change(path: Path, red: Reduced) -> float:
    """Return the relative change of the tangent kernel on the data between the first and the last weights.

    The kernel is ``sum_l A_l A_l^T (x) B_l^T B_l`` with the layers after (A) and before (B) layer l. Its change has the
    same form with twice as many terms, without differences of large matrices.
    """
    start, end = (_factors(path.model, red, layers) for layers in (path.start, path.final))
    moved = [(b[0] - a[0], b[1]) for a, b in zip(start, end, strict=True)]
    moved += [(a[0], b[1] - a[1]) for a, b in zip(start, end, strict=True)]
    size = _square(start)
    return float(np.sqrt(max(_square(moved), 0.0) / size)) if size > 0 else 0.0


def _square(terms: list[tuple[np.ndarray, np.ndarray]]) -> float:
    return float(sum(np.sum(a[0] * b[0]) * np.sum(a[1] * b[1]) for a in terms for b in terms))


def _factors(model: Weights, red: Reduced, layers: list[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    after, afters = np.eye(len(model.cross)) if model.outputs is None else model.outputs.T, []
    for w in reversed(layers):
        afters.append(after @ after.T)
        after = after @ w
    before, found = red.root if model.inputs is None else model.inputs @ red.root, []
    for w, rate, outer in zip(layers, model.rates, reversed(afters), strict=True):
        found.append((rate * outer, before.T @ before))
        before = w @ before
    return found
