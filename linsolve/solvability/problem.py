"""A network with data and times: its weights by integration, its loss and tangent kernel on the samples."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any

import numpy as np

from linsolve.core.arguments import refuse_beyond_memory
from linsolve.core.integrate import integrate
from linsolve.core.network import affine_maps, deep_weights, gradient_flow, maps
from linsolve.solvability.network import Network
from linsolve.solvability.trajectory import WHO

__all__ = ["BiasedProblem", "Problem", "kronecker"]

EVALUATIONS = 50_000  # of the velocity by DOP853, a few seconds; stiff networks need more
IMPLICIT = 500_000  # of the velocity by Radau, Jacobians included
SMALL = 600  # weights of a network whose Jacobian is factorized


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """A network with its data and times.

    Parameters
    ----------
    network : Network
    times : ndarray
    rtol : float
        Relative tolerance of the integrator.
    samples : (X, Y) or None
        None if only second moments are known.
    """

    network: Network
    times: np.ndarray
    rtol: float
    samples: tuple[np.ndarray, np.ndarray] | None

    @property
    def frozen(self) -> np.ndarray:
        """The part of the first layer outside the span of the data."""
        w1, span = self.network.weights[0], self.network.span
        return np.asarray(w1 - (w1 @ span) @ span.T)

    @property
    def weights(self) -> list[np.ndarray]:
        """All weights at time 0: the layers, then the biases."""
        return list(self.network.weights)

    @cached_property
    def gradients(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """Minus the gradient of the loss with respect to the map and to all weights, on the span of the data."""
        net = self.network
        layers = [net.weights[0] @ net.span, *net.weights[1:]]
        made = maps(layers)
        pull = net.cross @ net.span - made[-1] * net.power
        return pull, gradient_flow(np, layers, made, pull, [1.0] * len(layers))

    @cached_property
    def constant(self) -> bool:
        """Whether every gradient vanishes exactly at the start."""
        return not any(move.any() for move in self.gradients[1])

    @cached_property
    def flow(self) -> Any:
        """Gradient flow of the weights on the span of the data."""
        net = self.network
        target = (net.cross @ net.span) / net.power
        return deep_weights(target, len(net.weights), rates=net.rates, covariance=np.diag(net.power))

    def integrated(self) -> tuple[list[np.ndarray], str]:
        """Return all weights at all times, and the integrator."""
        weights, shape, span = self.weights, self.times.shape, self.network.span
        refuse_beyond_memory(WHO, {"times": self.times.size, "weights": sum(w.size for w in weights)}, "all weights")
        if self.constant:
            return [np.broadcast_to(w, shape + w.shape) for w in weights], "constant"
        if not np.isfinite(self.times).all():
            raise ValueError(f"{WHO}: t = inf must be finite (time; the weights are integrated); say a late time")
        flow = self.flow
        start = flow.State(weights[0] @ span, *weights[1:])
        size = sum(w.size for w in start)
        late = f"{WHO}: t = {self.times.max():g} is too late (time): the network is stiff, with {size} weights; ask for"
        try:
            found = integrate(flow, self.times, start, rtol=self.rtol, max_evaluations=EVALUATIONS)
        except ArithmeticError as spent:
            if size > SMALL:
                raise ArithmeticError(f"{late} earlier times") from spent
            try:
                found = integrate(flow, self.times, start, rtol=self.rtol, method="Radau", max_evaluations=IMPLICIT)
            except ArithmeticError as failed:
                raise ArithmeticError(f"{late} earlier times or a larger rtol") from failed
        w1, *others = found.state
        return [self.frozen + w1 @ span.T, *others], found.route

    def loss(self, span_map: np.ndarray) -> np.ndarray:
        """Return the loss of maps on the span of the data."""
        net = self.network
        target = (net.cross @ net.span) / net.power
        gap = (target - span_map) * np.sqrt(net.power)
        return np.asarray(np.sum(gap**2, axis=(-2, -1)) / 2 + self._unexplained(target))

    def _unexplained(self, target: np.ndarray) -> float:
        """Return the loss of the best map; 0 for second moments, which do not contain it."""
        if self.samples is None:
            return 0.0
        X, Y = self.samples
        return float(np.sum((Y - (X @ self.network.span) @ target.T) ** 2)) / (2 * len(X))

    def refuse_large_kernel(self) -> np.ndarray:
        """Return the inputs of the samples if their kernel fits into the memory."""
        X, Y = self.samples  # type: ignore[misc]
        sizes = {"samples * outputs": Y.size, "columns": Y.size, "times": self.times.size}
        refuse_beyond_memory(WHO, sizes, "ntk on the samples")
        return X

    def ntk(self, weights: list[np.ndarray]) -> np.ndarray:
        """Return the tangent kernel of weights on the samples."""
        X, depth = self.refuse_large_kernel(), len(self.network.weights)
        layers, biases = weights[:depth], self.biases(weights)
        signals = [X.T, *(each[..., :-1] @ X.T + each[..., -1:] for each in affine_maps(np, layers, biases)[:-1])]
        after, total = np.eye(len(self.network.cross)), np.zeros(())
        for layer, bias, rate, signal in list(zip(layers, biases, self.network.rates, signals, strict=True))[::-1]:
            inner = np.swapaxes(signal, -1, -2) @ signal + (0.0 if bias is None else 1.0)
            total = total + kronecker(inner, rate * after @ np.swapaxes(after, -1, -2))
            after = after @ layer
        return np.broadcast_to(total, self.times.shape + total.shape[-2:])

    def biases(self, weights: list[np.ndarray]) -> list[Any]:
        """Return the bias of each layer among the weights, None where there is none."""
        return [None] * len(self.network.weights)


class BiasedProblem(Problem):
    """A network with biases, on samples; its map ``[W, c]`` acts on the inputs ``(x, 1)``."""

    @property
    def weights(self) -> list[np.ndarray]:
        """All weights at time 0: the layers, then the biases."""
        return [*self.network.weights, *(each for each in self.network.biases if each is not None)]

    def biases(self, weights: list[np.ndarray]) -> list[Any]:
        """Return the bias of each layer among the weights, None where there is none."""
        found = iter(weights[len(self.network.weights) :])
        return [None if each is None else next(found) for each in self.network.biases]

    @cached_property
    def _inputs(self) -> np.ndarray:
        """The inputs ``(x, 1)``, with x in the coordinates of its span."""
        X, _ = self.samples  # type: ignore[misc]
        return np.concatenate([X @ self.network.span, np.ones((len(X), 1))], axis=1)

    @cached_property
    def flow(self) -> Any:
        """Gradient flow of the weights on the span of the data."""
        net, inputs = self.network, self._inputs
        target = np.linalg.lstsq(inputs, self.samples[1], rcond=None)[0].T  # type: ignore[index]
        has = [each is not None for each in net.biases]
        second = inputs.T @ inputs / len(inputs)
        return deep_weights(target, len(has), rates=net.rates, covariance=second, bias=has)

    @cached_property
    def gradients(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """Minus the gradient of the loss with respect to the map and to all weights, on the span of the data."""
        flow, net = self.flow, self.network
        first, *others = self.weights
        z = flow.State(first @ net.span, *others)
        map_ = affine_maps(np, *flow.parts(z))[-1]
        rates = [*net.rates, *(rate for rate, each in zip(net.rates, net.biases, strict=True) if each is not None)]
        moves = [move / rate for move, rate in zip(flow.velocity(np, z), rates, strict=True)]
        return (flow.target - map_) @ flow.covariance, moves

    def loss(self, span_map: np.ndarray) -> np.ndarray:
        """Return the loss of maps ``[W, c]`` on the span of the data."""
        flow, (_, Y) = self.flow, self.samples  # type: ignore[misc]
        gap = flow.target - span_map
        least = np.sum((Y - self._inputs @ flow.target.T) ** 2) / (2 * len(Y))
        return np.asarray(np.sum((gap @ flow.covariance) * gap, axis=(-2, -1)) / 2 + least)


def kronecker(samples: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """Return Kronecker products, shape t.shape + (P n_out, P n_out)."""
    size = samples.shape[-1] * outputs.shape[-1]
    found = np.einsum("...pq,...ij->...piqj", samples, outputs)
    return found.reshape(*found.shape[:-4], size, size)
