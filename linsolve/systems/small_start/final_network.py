"""The end of training of one network from small initial weights: coordinates and error estimates of its kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Self

import numpy as np

from linsolve.core.network import gradient_flow, maps
from linsolve.core.network_law import Estimate, GivenNetwork, NetworkLaw
from linsolve.core.reduced_network import row_space, spectral
from linsolve.systems.small_start.small_network import SmallNetwork

__all__ = ["FinalNetwork"]

# factors of the error estimates, measured in random networks: of a final kernel, over imbalance and weights without a
# mode; of its alignment, a cosine, over the sine. A single number may be closer where errors cancel.
LEFT, ALIGNED = 0.25, 0.15


class FinalNetwork(SmallNetwork):
    """A network of any depth, and the map that it learns."""

    @classmethod
    def of(
        cls, given: GivenNetwork, *, depth: int | None = None, outputs: int | None = None, white: bool = False
    ) -> Self:
        """Return the network; raise NotExact also at a saddle, and for a hidden width below the rank of the target."""
        found = super().of(given, depth=depth, outputs=outputs, white=white)
        red, made = found.red, maps(found.layers)
        pull = red.cross - made[-1] @ red.covariance
        if not any(move.any() for move in gradient_flow(np, found.layers, made, pull, [1.0] * red.depth)):
            given.refuse("gradient at the start", 0, "must not vanish", "start that learns", "change the weights")
        modes, narrow = np.linalg.matrix_rank(found.learned, rtol=1e-12), min(len(w) for w in found.layers[:-1])
        if narrow < modes:
            meaning = f"a network narrower than the {modes} modes of the target learns the strongest only"
            given.refuse("hidden width", narrow, f"must be at least {modes}", meaning, "use MatchedOutputs")
        return found

    @property
    def learned(self) -> np.ndarray:
        """The map of the data on the span of the inputs, shape (n_out, rank)."""
        network = self.given.network
        return np.asarray((network.cross @ network.span) / network.power)

    @property
    def padded(self) -> np.ndarray:
        """The layers on the span of the inputs, padded with zeros to squares, shape (layer, width, width)."""
        network = self.given.network
        layers = [network.weights[0] @ network.span, *network.weights[1:]]
        width = max(max(layer.shape) for layer in layers)
        found = np.zeros((len(layers), width, width))
        for padded, layer in zip(found, layers, strict=True):
            padded[: layer.shape[0], : layer.shape[1]] = layer
        return found

    @property
    def error(self) -> float:
        """Estimated relative error of final kernels, from the imbalance and the weights that belong to no mode."""
        v, u = (row_space(each, cut=1e-12) for each in (self.target, self.target.T))
        first, last = self.layers[0], self.layers[-1]
        idle = max(spectral(first - (first @ v) @ v.T), spectral(last - u @ (u.T @ last))) ** 2 / self.level
        return LEFT * (self.imbalance + idle)

    def kernel(self, matrix: np.ndarray) -> np.ndarray:
        """Return the kernel on the samples for a matrix of shape (n_out, n_out, rank, rank)."""
        inputs = self.given.refuse_large_kernel() @ self.given.network.span
        found = np.einsum("pi,cdij,qj->pcqd", inputs, matrix, inputs, optimize=True)
        return found.reshape(found.shape[0] * found.shape[1], -1)

    def end(self, law: type, values: Mapping[str, Callable[[], np.ndarray]]) -> NetworkLaw:
        """Return the law of quantities at the end of training; the tangent kernel needs samples.

        The alignment is a cosine: its error is proportional to the error of the kernel and to the sine of the angle.
        """
        error = self.error
        kept = {name: value for name, value in values.items() if name != "ntk" or self.given.samples is not None}

        def predict(given: GivenNetwork) -> dict[str, Estimate]:
            cosine = min(float(kept["alignment"]()), 1.0) if "alignment" in kept else 1.0
            errors = {"alignment": ALIGNED * error * np.sqrt(1 - cosine**2) / cosine}
            return {name: Estimate(value, 2, errors.get(name, error)) for name, value in kept.items()}

        return self.law(law, predict)
