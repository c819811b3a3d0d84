"""Numerical integration of a network's weights: horizon, map over time, tangent kernel.

A wide network is integrated in the hidden directions that training can reach. Orthonormal bases ``Q_l`` of the hidden
layers start from the columns of ``W_1`` and the rows of ``W_L`` and grow by ``W_l Q_{l-1}`` and ``W_{l+1}^T Q_{l+1}``.
With two layers the first bases are invariant under training, and the reduced network is integrated. With more layers,
the truncation error decreases faster than exponentially with the number of rounds, as in a block Lanczos method. It is
measured as the part of every layer's signal outside the bases; rounds are added until it is at rounding level.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from linsolve.core.integrate import joined, parted
from linsolve.core.network import gradient_flow, maps
from linsolve.core.network_arguments import Network
from linsolve.core.reduced_network import Reduced, spectral

__all__ = ["LONGEST", "WHO", "Path", "followed", "kernel_change", "refuse_endless"]

WHO = "applies"
STEPS = 1000
LEARNED = 0.05
STILL = 0.98
LONGEST = 1e6  # in time constants of the fastest mode, some minutes: an integration step covers a few of them
SMALL = 20_000  # networks with fewer weights are integrated without compression
LARGE = 100_000  # networks with more weights are evaluated at fewer times
LEAK = 1e-13
POINTS, FEW_POINTS = 129, 33


class Path(NamedTuple):
    """Trajectory of a network: times (n,), map (n, c, r) in reduced coordinates, first and last layers."""

    times: np.ndarray
    maps: np.ndarray
    start: list[np.ndarray]
    final: list[np.ndarray]
    model: _Model


@dataclasses.dataclass(frozen=True, eq=False)
class _Model:
    """Layers to be integrated: those of the network, or compressed layers in reduced coordinates.

    `inputs` and `outputs` map the coordinates of the layers to reduced coordinates, None if they are equal. `leaks`
    are, for each layer between two hidden layers, factors with the norms of the parts of ``W_l`` and ``W_l^T`` outside
    the bases.
    """

    layers: list[np.ndarray]
    rates: list[float]
    covariance: np.ndarray
    cross: np.ndarray
    inputs: np.ndarray | None
    outputs: np.ndarray | None
    leaks: tuple[tuple[int, np.ndarray, np.ndarray], ...] = ()

    @cached_property
    def size(self) -> int:
        """Number of weights."""
        return sum(w.size for w in self.layers)

    def split(self, y: np.ndarray) -> list[np.ndarray]:
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

    def leak(self, layers: list[np.ndarray]) -> float:
        """Return the largest part of a forward or backward signal outside the bases, relative to the signal."""
        if not self.leaks:
            return 0.0
        forward, backward, back = maps(layers), [], np.eye(len(self.cross))
        for w in reversed(layers):
            backward.append(back)
            back = back @ w
        worst = 0.0
        for i, ahead, behind in self.leaks:
            size = float(np.linalg.norm(layers[i]))
            for signal, lost in (
                (forward[i - 1], ahead @ forward[i - 1]),
                (backward[-1 - i], backward[-1 - i] @ behind),
            ):
                whole = size * float(np.linalg.norm(signal))
                worst = max(worst, float(np.linalg.norm(lost)) / whole if whole > 0 else 0.0)
        return worst


def _new_directions(basis: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Return orthonormal columns that extend `basis` to the span of `found`."""
    rest = found - basis @ (basis.T @ found)
    rest -= basis @ (basis.T @ rest)
    u, s, _ = np.linalg.svd(rest, full_matrices=False)
    fresh = u[:, s > 1e-14 * np.linalg.norm(found)][:, : len(basis) - basis.shape[1]]
    return fresh - basis @ (basis.T @ fresh)


def _bases(layers: list[np.ndarray], rounds: int) -> list[np.ndarray]:
    """Return bases of the hidden directions reached by training, after `rounds` rounds."""
    hidden = len(layers) - 1
    bases = [np.zeros((len(w), 0)) for w in layers[:-1]]
    found: list[list[np.ndarray]] = [[] for _ in bases]
    found[0].append(layers[0])
    found[-1].append(layers[-1].T)
    for _ in range(rounds):
        fresh = []
        for i, parts in enumerate(found):
            stacked = np.concatenate([np.zeros((len(bases[i]), 1)), *parts], axis=1)
            fresh.append(_new_directions(bases[i], stacked))
            bases[i] = np.concatenate([bases[i], fresh[i]], axis=1)
        found = [[] for _ in bases]
        for i, new in enumerate(fresh):
            if i + 1 < hidden:
                found[i + 1].append(layers[i + 1] @ new)
            if i > 0:
                found[i - 1].append(layers[i].T @ new)
    return bases


def _triangle(a: np.ndarray) -> np.ndarray:
    """Return R of ``a = Q R``."""
    return np.asarray(np.linalg.qr(a, mode="r"))


def _compressed(network: Network, red: Reduced, rounds: int) -> _Model:
    whole = [network.weights[0] @ red.inputs, *network.weights[1:-1], red.outputs.T @ network.weights[-1]]
    bases = _bases(whole, rounds)
    layers = [bases[0].T @ whole[0]]
    leaks = []
    for i in range(1, len(whole) - 1):
        ahead, behind = whole[i] @ bases[i - 1], whole[i].T @ bases[i]
        layers.append(bases[i].T @ ahead)
        ahead, behind = ahead - bases[i] @ layers[i], behind - bases[i - 1] @ layers[i].T
        leaks.append((i, _triangle(ahead), _triangle(behind).T))
    layers.append(whole[-1] @ bases[-1])
    return _Model(layers, list(network.rates), red.covariance, red.cross, None, None, tuple(leaks))


def _models(network: Network, red: Reduced) -> Iterator[_Model]:
    """Yield models of increasing size, the last one equivalent to the network."""
    covariance = (network.span * network.power) @ network.span.T
    whole = _Model(list(network.weights), list(network.rates), covariance, network.cross, red.inputs, red.outputs)
    if len(whole.layers) == 2 and whole.size > SMALL:  # two layers are reduced to the hidden units that learn
        yield _Model(list(red.layers), [red.clock] * 2, red.covariance, red.cross, None, None)
        return
    if len(whole.layers) > 2 and whole.size > SMALL:
        for rounds in (6, 12, 24, 48):
            small = _compressed(network, red, rounds)
            if small.size > 0.7 * whole.size:
                break
            yield small
    yield whole


@np.errstate(over="ignore", invalid="ignore")  # the integrator rejects overflowing trial steps
def _horizon(model: _Model, red: Reduced) -> tuple[float, list[np.ndarray]]:
    """Return a time by which the removable loss has decreased to 5 % or has stopped decreasing, and the layers.

    It has stopped at a saddle: over a doubling of time, except at the start, less than 2 % has been removed. Later
    times would depend on rounding.
    """
    from scipy.integrate import DOP853

    y = joined(model.layers)

    def excess(layers: list[np.ndarray]) -> float:
        return float(red.rms(model.map(layers) - red.target)) ** 2

    narrow = min(len(w) for w in red.layers[:-1]) if red.depth > 1 else len(red.target)
    strengths = np.linalg.svd(red.target @ red.root, compute_uv=False)
    least = float(np.sum(strengths[narrow:] ** 2))  # a bottleneck cannot learn more modes than it has units
    first = excess(model.split(y)) - least
    top = float(np.linalg.norm(red.covariance, 2))
    unit = red.clock * max(float(np.linalg.norm(red.cross, 2)), top * max(1.0, float(np.linalg.norm(red.product, 2))))
    size = max(spectral(w) for w in red.layers) if red.depth > 2 else 1.0
    unit *= max(size, 1e-3) ** max(red.depth - 2, 0) if size > 0 else 1.0
    most = 1000.0 / unit
    if first <= 0 or not np.any(model.rate(0.0, y)):
        return most / 1000, model.layers
    scale = float(np.abs(y).max() or np.abs(model.rate(0.0, y)).max() / unit)  # of weights 0: their first move
    solver = DOP853(model.rate, 0.0, y, most, rtol=1e-6, atol=1e-9 * scale)
    mark, before = 0.0, first
    for _ in range(STEPS):
        left = excess(model.split(solver.y)) - least
        if solver.status != "running" or left <= LEARNED * first:
            break
        if solver.t >= 2 * mark:
            if before < STILL * first and left > STILL * before:
                break
            mark, before = float(solver.t), left
        solver.step()
    return (float(solver.t) if solver.t > 0 else 1.0 / unit), model.split(solver.y)


@np.errstate(over="ignore")
def refuse_endless(who: str, name: str, until: float, rate: Callable[[float], float], most: float) -> None:
    """Raise if a time exceeds `most` time constants of the fastest mode up to it, too long for an integrator."""
    spent = until * rate(until)
    if spent <= most:
        return
    early, late = np.log10(max(most / rate(until), 1e-300)), np.log10(until)
    while late - early > 0.01:
        middle = (early + late) / 2
        early, late = (middle, late) if 10**middle * rate(10**middle) <= most else (early, middle)
    unit = 10.0 ** (np.floor(early) - 1)
    raise ValueError(
        f"{who}: {name} = {until:g} is {spent:.3g} times the time constant of the fastest mode but must be at most "
        f"{most:.0e} (time; the network is integrated so far); say {np.floor(10**early / unit) * unit:.2g}"
    )


def followed(network: Network, red: Reduced, until: float | None) -> Path:
    """Return the trajectory of the network up to `until`, by default up to its horizon."""
    for model in _models(network, red):
        end = until
        if end is None:
            end, reached = _horizon(model, red)
            if model.leak(reached) > 1e-6:
                continue
        points = POINTS if model.size <= LARGE else FEW_POINTS
        path, leak = _follow(model, np.linspace(0.0, end, points))
        if leak <= LEAK:
            return path
    return path  # the last model is the network itself


@np.errstate(over="ignore", invalid="ignore")
def _follow(model: _Model, times: np.ndarray) -> tuple[Path, float]:
    """Return the trajectory of a model and its largest part outside the bases."""
    from scipy.integrate import DOP853

    y0 = joined(model.layers)
    found = [model.map(model.layers)]
    scale = float(np.abs(y0).max())
    floor = 1e-15 * (scale if scale > 0 else 1.0)
    layers, leak = model.layers, model.leak(model.layers)
    if not np.any(model.rate(0.0, y0)):
        return Path(times, np.repeat(found[0][None], len(times), axis=0), model.layers, model.layers, model), leak
    solver = DOP853(model.rate, 0.0, y0, times[-1], rtol=1e-12, atol=floor)
    while len(found) < len(times):
        message = solver.step()
        if solver.status == "failed":
            raise ArithmeticError(f"{WHO}: integration stopped at t = {solver.t}: {message}; use an earlier time")
        between = None
        while len(found) < len(times) and times[len(found)] <= solver.t:
            between = between or solver.dense_output()
            layers = model.split(between(times[len(found)]))
            found.append(model.map(layers))
        leak = max(leak, model.leak(layers))
        if leak > LEAK:
            break
    return Path(times, np.stack(found), model.layers, layers, model), leak


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


def _factors(model: _Model, red: Reduced, layers: list[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    after, afters = np.eye(len(model.cross)) if model.outputs is None else model.outputs.T, []
    for w in reversed(layers):
        afters.append(after @ after.T)
        after = after @ w
    before, found = red.root if model.inputs is None else model.inputs @ red.root, []
    for w, rate, outer in zip(layers, model.rates, reversed(afters), strict=True):
        found.append((rate * outer, before.T @ before))
        before = w @ before
    return found
