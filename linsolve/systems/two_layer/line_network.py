r"""One network with one output on data on a line, in the parameters of the laws of lazy training.

Let ``a`` and ``v = W n`` be the layers, scaled to equal learning rates, with n the direction of the line. The output
:math:`p = a \cdot v` has the kernel :math:`2 k_0 = |a|^2 + |v|^2` at the start. If s is the target of p, then
:math:`F = (p - p_0)/k_0` has the target :math:`G = (s - p_0)/k_0`. The overlap :math:`\epsilon = p_0/k_0` is
:math:`O(h^{-1/2})` for random weights of width ``h``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from linsolve.core.arguments import refuse_shape
from linsolve.core.network_law import Estimate, GivenNetwork, NetworkLaw
from linsolve.core.reduced_network import Reduced, norm, reduced

__all__ = ["LineNetwork", "refuse_other_fluctuations"]


def refuse_other_fluctuations(who: str, xi: Any) -> None:
    """Raise unless `xi` holds the three fluctuations of a wide start: of kernel, overlap and difference."""
    refuse_shape(who, "xi", xi, (3,), meaning="fluctuations of the start", fix="give kernel, overlap and difference")


@dataclasses.dataclass(frozen=True, eq=False)
class LineNetwork:
    """A two-layer network with one output on data on a line.

    Parameters
    ----------
    given : GivenNetwork
    red : Reduced
        Layers at equal rates and data along the line.
    """

    given: GivenNetwork
    red: Reduced

    @classmethod
    def of(cls, given: GivenNetwork) -> LineNetwork:
        """Return the network; raise NotExact unless it has two layers, one output and data on a line."""
        network, red = given.network, reduced(given.network, idle=True)
        if len(network.weights) != 2:
            given.refuse("depth", len(network.weights), "must be 2", "number of layers", "use linsolve.solve")
        if len(network.weights[-1]) != 1:
            given.refuse("outputs", len(network.weights[-1]), "must be 1", "one output", "use linsolve.solve")
        if red.covariance.shape[0] > 1:
            off = float(np.sqrt(np.sum(network.power[1:]) / np.sum(network.power)))
            meaning, fix = "relative distance of the inputs from a line through the origin", "use linsolve.solve"
            given.refuse("distance from a line", f"{off:.3g}", "must vanish", meaning, fix)
        found = cls(given, red)
        if not found.size > 0:
            given.refuse("kernel at the start", 0, "must be positive", "layers along the data", "change the start")
        if not abs(found.strength) > 0:
            given.refuse("initial residual", 0, "must not vanish", "output minus target", "change the start")
        return found

    @property
    def size(self) -> float:
        """Half of the kernel at the start, ``k0``."""
        return float(sum(np.sum(layer**2) for layer in self.red.layers)) / 2

    @property
    def start(self) -> float:
        """Output per unit of length at the start, ``p0``."""
        return float(self.red.product[0, 0])

    @property
    def overlap(self) -> float:
        """``epsilon = p0/k0``."""
        return self.start / self.size

    @property
    def strength(self) -> float:
        """The strength ``G``, with its sign."""
        return (float(self.red.target[0, 0]) - self.start) / self.size

    @property
    def clock(self) -> float:
        """Time of the laws, divided by time of the network."""
        return self.size * self.red.clock * float(self.red.covariance[0, 0]) / 2

    def observables(self, given: GivenNetwork, F: np.ndarray) -> dict[str, Callable[[], np.ndarray]]:
        """Return output along the target, map and loss; no map if the first layer has a part off the line."""
        output, sign = self.start + self.size * F, -1.0 if self.red.target[0, 0] < 0 else 1.0
        span_map = self.red.outputs @ output[..., None, None] @ self.red.inputs.T
        found: dict[str, Callable[[], np.ndarray]] = {"output": lambda: sign * output}
        if norm(given.frozen) <= self.red.tolerance * norm(given.network.weights[0]):
            found["map"] = lambda: span_map
        found["loss"] = lambda: given.loss(span_map @ given.network.span)
        return found if given.samples is None else found | {"train_loss": found["loss"]}

    def ntk(self, given: GivenNetwork, growth: np.ndarray) -> np.ndarray:
        """Return the tangent kernel on the samples, given its growth ``K/K0`` since the start."""
        inputs = given.refuse_large_kernel() @ self.red.inputs
        return 2 * self.size * self.red.clock * growth[..., None, None] * (inputs @ inputs.T)

    def law(
        self,
        law: type,
        predict: Callable[[GivenNetwork], Mapping[str, Estimate]],
        small: float,
    ) -> NetworkLaw:
        """Return the law of this network."""
        return NetworkLaw(law, self.given, small, predict)
