"""A network with data and times: its layers by integration, its loss and tangent kernel on the samples."""

from __future__ import annotations

import dataclasses
from functools import cached_property

import numpy as np

from linsolve.core.arguments import refuse_beyond_memory
from linsolve.core.integrate import integrate
from linsolve.core.network import deep_weights, gradient_flow, maps
from linsolve.solvability.network import Network

__all__ = ["WHO", "Problem", "gradients", "kronecker"]

WHO = "solve"
EVALUATIONS = 50_000  # of the velocity by DOP853, a few seconds; stiff networks need more
IMPLICIT = 500_000  # of the velocity by Radau, Jacobians included
SMALL = 600  # weights of a network whose Jacobian is factorized


def gradients(network: Network) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return minus the gradient of the loss with respect to the map and to each layer, on the span of the data."""
    layers = [network.weights[0] @ network.span, *network.weights[1:]]
    made = maps(layers)
    pull = network.cross @ network.span - made[-1] * network.power
    return pull, gradient_flow(np, layers, made, pull, [1.0] * len(layers))


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

    @cached_property
    def constant(self) -> bool:
        """Whether every gradient vanishes exactly at the start."""
        return not any(move.any() for move in gradients(self.network)[1])

    def integrated(self) -> tuple[list[np.ndarray], str]:
        """Return the layers at all times, and the integrator."""
        net, shape = self.network, self.times.shape
        refuse_beyond_memory(
            WHO, {"times": self.times.size, "weights": sum(w.size for w in net.weights)}, "all weights"
        )
        if self.constant:
            return [np.broadcast_to(w, shape + w.shape) for w in net.weights], "constant"
        if not np.isfinite(self.times).all():
            raise ValueError(f"{WHO}: t = inf must be finite (time; the weights are integrated); say a late time")
        layers = [net.weights[0] @ net.span, *net.weights[1:]]
        target = (net.cross @ net.span) / net.power
        flow = deep_weights(target, len(layers), rates=net.rates, covariance=np.diag(net.power))
        start, size = flow.State(*layers), sum(w.size for w in layers)
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
        return [self.frozen + w1 @ net.span.T, *others], found.route

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

    def ntk(self, layers: list[np.ndarray]) -> np.ndarray:
        """Return the tangent kernel of layers on the samples."""
        X = self.refuse_large_kernel()
        signals = [X.T, *(each @ X.T for each in maps(layers[:-1]))] if len(layers) > 1 else [X.T]
        after, total = np.eye(len(self.network.cross)), np.zeros(())
        for layer, rate, signal in list(zip(layers, self.network.rates, signals, strict=True))[::-1]:
            total = total + kronecker(np.swapaxes(signal, -1, -2) @ signal, rate * after @ np.swapaxes(after, -1, -2))
            after = after @ layer
        return np.broadcast_to(total, self.times.shape + total.shape[-2:])


def kronecker(samples: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """Return Kronecker products, shape t.shape + (P n_out, P n_out)."""
    size = samples.shape[-1] * outputs.shape[-1]
    found = np.einsum("...pq,...ij->...piqj", samples, outputs)
    return found.reshape(*found.shape[:-4], size, size)
