"""Stationary starts: a network at which every gradient vanishes stays there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from linsolve.core.network import gradient_flow, maps
from linsolve.core.network_arguments import Network
from linsolve.core.reduced_network import Reduced, norm
from linsolve.solvability.conditions import Assessment, Condition
from linsolve.solvability.matches import Match
from linsolve.systems.mode.deep_mode import DeepMode

__all__ = ["SADDLE", "Gradients", "gradients", "saddle", "stationary"]

Gradients = tuple[np.ndarray, list[np.ndarray]]

SADDLE = (
    "saddle: the start is a stationary point that does not fit the data, a saddle or the minimum of a bottleneck; the "
    "network stays there, but rounding decides when a simulation leaves a saddle."
)


def gradients(network: Network) -> Gradients:
    """Return minus the gradient of the loss with respect to the map and to all layers, on the span of the data."""
    layers = _on_span(network)
    made = maps(layers)
    pull = network.cross @ network.span - made[-1] * network.power
    return pull, gradient_flow(np, layers, made, pull, [1.0] * len(layers))


def saddle(network: Network, found: Gradients) -> Iterator[str]:
    """Report a start that is stationary although the map is not the target's."""
    pull, moves = found
    size = max(norm(w) for w in network.weights) ** (len(network.weights) - 1)
    size = max(size, 1.0) if network.biases else size  # the last bias moves whatever the weights are
    if norm(pull) > 1e-9 * norm(network.cross) and max(map(norm, moves)) <= 1e-13 * norm(pull) * size:
        yield SADDLE


def _on_span(network: Network) -> list[np.ndarray]:
    return [network.weights[0] @ network.span, *network.weights[1:]]


def _stays(network: Network, pull: np.ndarray) -> bool:
    """Return whether every gradient is exactly 0, from layers scaled to 1, so that products do not underflow."""
    unit = [w / (np.abs(w).max(initial=0.0) or 1.0) for w in _on_span(network)]
    return not any(move.any() for move in gradient_flow(np, unit, maps(unit), pull, [1.0] * len(unit)))


class StationaryMatch(Match):
    """A network that stays at its start: `DeepMode` of one layer, which starts at its target, the map of the start."""

    @classmethod
    def of(cls, red: Reduced) -> StationaryMatch:
        """Return the match of a network at which every gradient vanishes."""
        flow = DeepMode(s=red.product, depth=1.0, tau=1 / red.clock)
        return cls("stationary point", flow, DeepMode.State(red.product), red.inputs, red.outputs)

    def product(self, state: Any) -> np.ndarray:
        """Return the map of the start."""
        return np.asarray(state.a)

    def layers(self, state: Any, network: Network) -> list[np.ndarray]:
        """Return the layers of the start."""
        lead = state.a.shape[:-2]
        return [np.broadcast_to(w, lead + w.shape) for w in network.weights]


def stationary(network: Network, red: Reduced, found: Gradients) -> list[Assessment]:
    """Return the exact solution of a network at which every gradient vanishes exactly; none for others."""
    if not _stays(network, found[0]):
        return []
    condition = Condition("stationary start", 0.0, "every gradient is 0; the network stays there")
    return [Assessment("stationary point", (condition,), StationaryMatch.of(red))]
