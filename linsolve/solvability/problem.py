"""A network with data and times: its weights by integration, its loss and tangent kernel on the samples."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any

import numpy as np

from linsolve.core.arguments import refuse_beyond_memory
from linsolve.core.integrate import integrate
from linsolve.core.network import affine_maps, deep_weights, maps
from linsolve.core.network_arguments import Network
from linsolve.core.network_observables import NetworkObservables
from linsolve.core.reduced_network import fastest_rate, norm
from linsolve.solvability.integration import latest, refuse_endless
from linsolve.solvability.stationary import Gradients, gradients
from linsolve.solvability.trajectory import WHO

__all__ = ["LEAST", "BiasedProblem", "Problem"]

BETWEEN, LEAST = 0.001, 2.3e-14  # tolerance for times between steps, over that of their ends; smallest tolerance
EVALUATIONS = 50_000  # of the velocity by DOP853, a few seconds; stiff networks need more
IMPLICIT = 500_000  # of the velocity by Radau, Jacobians included
LATEST = 1e14  # in time constants of the fastest mode; later, rounding moves weights that are not at rest
SMALL = 600  # weights of a network whose Jacobian is factorized


@dataclasses.dataclass(frozen=True, eq=False)
class Problem(NetworkObservables):
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

    who = WHO

    network: Network
    times: np.ndarray
    rtol: float
    samples: tuple[np.ndarray, np.ndarray] | None

    @property
    def weights(self) -> list[np.ndarray]:
        """All weights at time 0: the layers, then the biases."""
        return list(self.network.weights)

    @cached_property
    def gradients(self) -> Gradients:
        """Minus the gradient of the loss with respect to the map and to all weights, on the span of the data."""
        return gradients(self.network)

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

    @cached_property
    def root(self) -> np.ndarray:
        """Matrix ``R`` with ``R R^T`` the second moment of the inputs: a map M has outputs of size ``|M R|``."""
        return np.diag(np.sqrt(self.network.power))

    def remaining(self, layers: list[np.ndarray]) -> float:
        r"""Return the largest move of a layer to a global minimum, relative to its size; inf if K is singular.

        To first order layer i moves by :math:`\eta_i A_i^\top V B_i^\top`, with :math:`V = K^{-1} e`, e the map's
        distance from the target, K the tangent kernel of the map's entries, and A and B the products of the later and
        the earlier layers.
        """
        net, after, kernel, sides = self.network, np.eye(len(layers[-1])), np.zeros(()), []
        for i in reversed(range(len(layers))):
            before = maps(layers[:i])[-1] if i else np.eye(layers[0].shape[1])
            kernel = kernel + net.rates[i] * np.kron(before.T @ before, after @ after.T)
            sides.append((net.rates[i], layers[i], after, before))
            after = after @ layers[i]
        off = self.flow.target - after
        values, vectors = np.linalg.eigh(kernel)
        if values[0] <= 1e-8 * values[-1]:  # a bottleneck, or a mode that is not learned
            return float("inf")
        pull = (vectors @ ((vectors.T @ off.T.ravel()) / values)).reshape(off.T.shape).T
        moves = [(norm(rate * later.T @ pull @ earlier.T), norm(w)) for rate, w, later, earlier in sides]
        return max(move / size if size > 0 else float("inf") for move, size in moves)

    def integrated(self) -> tuple[list[np.ndarray], str]:
        """Return all weights at all times, and the integrator."""
        weights, shape, span = self.weights, self.times.shape, self.network.span
        refuse_beyond_memory(WHO, {"times": self.times.size, "weights": sum(w.size for w in weights)}, "all weights")
        if self.constant:
            return [np.broadcast_to(w, shape + w.shape) for w in weights], "constant"
        if not np.isfinite(self.times).all():
            raise ValueError(f"{WHO}: t = inf must be finite (time; the weights are integrated); say a late time")
        flow, depth = self.flow, len(self.network.weights)
        start = flow.State(weights[0] @ span, *weights[1:])
        size = sum(w.size for w in start)
        rates = self.network.rates
        clock = float(np.exp(np.mean(np.log(rates))))  # of layers scaled to equal rates
        equal = [np.sqrt(clock / rate) * w for rate, w in zip(rates, start[:depth], strict=True)]
        rate = fastest_rate(equal, flow.target, flow.covariance, clock)
        end = float(self.times.max())
        times = np.minimum(self.times, latest(end, rate, LATEST))
        narrow = min((len(w) for w in weights[: depth - 1]), default=size) < min(flow.target.shape)
        if times.max() < end and (self.network.biases or narrow or size > SMALL):
            refuse_endless(WHO, "t", end, rate, LATEST)  # no minimum is known to be reached
        late = f"{WHO}: t = {self.times.max():g} is too late (time): the network is stiff, with {size} weights; use"
        try:
            # between the steps of the integrator errors are larger than at their ends
            rtol = max(BETWEEN * self.rtol, LEAST)
            found = integrate(flow, times, start, rtol=rtol, max_evaluations=EVALUATIONS)
        except ArithmeticError as spent:
            if size > SMALL:
                raise ArithmeticError(f"{late} earlier times") from spent
            learned = np.linalg.norm(np.asarray(flow.target), 2) ** (1 / len(self.network.weights))
            # Newton's iteration of Radau does not converge for entries below the rounding errors of the others
            sizes = flow.weight_scales(start, max(learned, *(np.abs(w).max() for w in start)))
            floor = {"atol": [0.1 * self.rtol * size for size in sizes]}
            try:
                found = integrate(flow, times, start, rtol=self.rtol, method="Radau", max_evaluations=IMPLICIT, **floor)
            except (ArithmeticError, ValueError) as failed:  # ValueError: Jacobian beyond doubles
                if times.max() < end:
                    refuse_endless(WHO, "t", end, rate, LATEST)
                raise ArithmeticError(f"{late} earlier times or a larger rtol") from failed
        if times.max() < end:
            last = np.unravel_index(int(np.argmax(times)), times.shape)
            if self.remaining([w[last] for w in found.state]) > self.rtol:
                refuse_endless(WHO, "t", end, rate, LATEST)
        w1, *others = found.state
        return [self.frozen + w1 @ span.T, *others], found.route


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

    @property
    def inputs(self) -> np.ndarray:
        """The inputs ``(x, 1)``, with x in the coordinates of its span."""
        inside = super().inputs
        return np.concatenate([inside, np.ones((len(inside), 1))], axis=1)

    @cached_property
    def flow(self) -> Any:
        """Gradient flow of the weights on the span of the data."""
        net, inputs = self.network, self.inputs
        target = np.linalg.lstsq(inputs, self.samples[1], rcond=None)[0].T  # type: ignore[index]
        has = [each is not None for each in net.biases]
        second = inputs.T @ inputs / len(inputs)
        return deep_weights(target, len(has), rates=net.rates, covariance=second, bias=has)

    @cached_property
    def root(self) -> np.ndarray:
        """Matrix ``R`` with ``R R^T`` the second moment of the inputs ``(x, 1)``, from them: without squares."""
        return np.linalg.qr(self.inputs / np.sqrt(len(self.inputs)))[1].T

    @cached_property
    def gradients(self) -> Gradients:
        """Minus the gradient of the loss with respect to the map and to all weights, on the span of the data."""
        flow, net = self.flow, self.network
        first, *others = self.weights
        z = flow.State(first @ net.span, *others)
        made, inputs = affine_maps(np, *flow.parts(z)), self.inputs
        # from the samples, of which sums are more often exact than a least-squares fit
        pull = (self.samples[1].T - made[-1] @ inputs.T) @ inputs / len(inputs)  # type: ignore[index]
        rates = [*net.rates, *(rate for rate, each in zip(net.rates, net.biases, strict=True) if each is not None)]
        moves = [move / rate for move, rate in zip(flow.pulled(np, z, made, pull), rates, strict=True)]
        return pull, moves
