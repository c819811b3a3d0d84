"""A network with data and times: its layers by integration, its loss and tangent kernel on the samples."""

from __future__ import annotations

import dataclasses
from functools import cached_property

import numpy as np

from linsolve.core.arguments import refuse_beyond_memory
from linsolve.core.integrate import integrate
from linsolve.core.network import deep_weights, gradient_flow, maps
from linsolve.core.network_arguments import Network
from linsolve.core.network_observables import NetworkObservables

__all__ = ["WHO", "Problem", "gradients"]

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
