r"""One network in the coordinates of the laws of small starts, and its distances from their conditions.

With :math:`U_l = \sqrt{\bar\eta/\eta_l} W_l`, :math:`\bar\eta = (\prod \eta_l)^{1/L}`, every layer learns at the rate
:math:`\bar\eta` and the map is unchanged. On inputs of second moment :math:`\kappa \Pi`, :math:`\Pi` a projector, the
laws hold in the time :math:`\tau = \bar\eta \kappa t`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Self

import numpy as np

from linsolve.core.network import maps
from linsolve.core.network_law import Estimate, GivenNetwork, NetworkLaw
from linsolve.core.query import NotExact
from linsolve.core.reduced_network import Reduced, reduced, spectral, whiteness
from linsolve.systems.deep.network import DeepNetwork
from linsolve.systems.small_start.start import LARGEST

__all__ = ["SmallNetwork", "named_losses"]

GROWING = 1e-12  # least size of the growing mode, relative to the start


@dataclasses.dataclass(frozen=True, eq=False)
class SmallNetwork:
    """A network with equal learning rates, restricted to the directions in which it learns.

    Parameters
    ----------
    given : GivenNetwork
    red : Reduced
        Layers, data, and bases of the coordinates.
    """

    given: GivenNetwork
    red: Reduced

    @classmethod
    def of(
        cls, given: GivenNetwork, *, depth: int | None = None, outputs: int | None = None, white: bool = False
    ) -> Self:
        """Return the network; raise NotExact unless it has this depth and number of outputs, white inputs, a target."""
        network = given.network
        layers, ends = len(network.weights), len(network.weights[-1])
        if depth is not None and layers != depth:
            given.refuse("depth", layers, f"must be {depth}", "number of layers", "use linsolve.solve")
        if layers < 2:
            given.refuse("depth", layers, "must be at least 2", "number of layers", "use linsolve.solve")
        if outputs is not None and ends != outputs:
            fix = "use MatchedOutputs or FinalKernelOutputs"
            given.refuse("outputs", ends, f"must be {outputs}", "one output", fix)
        cross = np.abs(network.cross @ network.span).max()
        if not cross >= 1 / LARGEST:
            rule, fix = f"must have an entry of at least {1 / LARGEST:g}", "give a target, or rescale the data"
            given.refuse("Sigma_yx", f"{cross:.3g}", rule, "correlation of inputs and targets", fix)
        found = cls(given, reduced(network, idle=True))
        if white:
            found.kappa  # noqa: B018 (raises for other inputs)
        return found

    @property
    def layers(self) -> tuple[np.ndarray, ...]:
        """The layers at equal rates."""
        return self.red.layers

    def stacked(self, width: int) -> np.ndarray:
        """Return the layers as matrices of one size, padded with zeros, shape (L, width, width)."""
        found = np.zeros((self.red.depth, width, width))
        for place, layer in zip(found, self.layers, strict=True):
            place[: len(layer), : layer.shape[1]] = layer
        return found

    @property
    def target(self) -> np.ndarray:
        """The map of the data, shape (c, r)."""
        return self.red.target

    @cached_property
    def strength(self) -> float:
        """Largest singular value of the target."""
        return spectral(self.target)

    @cached_property
    def level(self) -> float:
        """Square of the largest singular value of a layer at the end of training, ``s^(2/L)``."""
        return self.strength ** (2 / self.red.depth)

    @cached_property
    def small(self) -> float:
        """Size of the start: the largest singular value of a layer, relative to the end of training."""
        return max(spectral(layer) for layer in self.layers) / np.sqrt(self.level)

    @cached_property
    def imbalance(self) -> float:
        """Largest singular value of ``U_l U_l^T - U_(l+1)^T U_(l+1)``, relative to the end of training."""
        pairs = zip(self.layers[:-1], self.layers[1:], strict=True)
        return max(spectral_difference(low, high.T) for low, high in pairs) / self.level

    @cached_property
    def kappa(self) -> float:
        """Second moment of white inputs; raise NotExact for other inputs."""
        distance, kappa = whiteness(self.red.covariance)
        if not distance <= self.red.tolerance:
            meaning = (
                "relative distance of the second moment of the inputs from a multiple of a projector: white inputs"
            )
            fix = "whiten the inputs with data.whiten, or use linsolve.solve"
            self.given.refuse("whiteness", f"{distance:.3g}", f"must be at most {self.red.tolerance:.2g}", meaning, fix)
        return kappa

    @property
    def clock(self) -> float:
        """Time of the laws, divided by time of the network."""
        return self.red.clock * self.kappa

    def phase(self, t: Any, rate: float, start: float) -> np.ndarray:
        """Return ``2 rate clock t - start`` as a flat array, with infinite times replaced by late finite times."""
        with np.errstate(over="ignore"):  # later than 2000
            return np.minimum(2 * rate * self.clock * np.ravel(t), 2000.0 + abs(start)) - start

    def aligned(self) -> DeepNetwork:
        """Return the modes of a balanced network that is aligned with the data; raise NotExact for others."""
        red = self.red
        try:
            return DeepNetwork.of(
                red.layers, red.target, rates=red.clock, covariance=red.covariance, tolerance=red.tolerance
            )
        except NotExact as error:
            raise NotExact(str(error).replace("DeepNetwork.of", self.given.who, 1)) from None

    def growing(self, along: np.ndarray) -> np.ndarray:
        """Return the growing part of the hidden units for one output, ``a + W v/|v|``; raise if it vanishes."""
        first, last = self.layers
        found = last[0] + first @ along / np.linalg.norm(along)
        size = max(np.abs(first).max(), np.abs(last).max())
        if not np.abs(found).max() > GROWING * size:
            meaning = "part of the start that learns the target"
            self.given.refuse("growing mode", f"{np.abs(found).max():.3g}", "must not vanish", meaning, "change W2")
        return found

    def whole_map(self, product: np.ndarray) -> np.ndarray:
        """Return maps on the span of the data, shape t.shape + (n_out, n_in)."""
        return self.red.outputs @ product @ self.red.inputs.T

    def weights(self, layers: list[np.ndarray]) -> list[np.ndarray]:
        """Return the network's own weights for layers at equal rates; the other directions keep their start."""
        network, last = self.given.network, len(layers) - 1
        found = []
        for k, (layer, start) in enumerate(zip(layers, self.layers, strict=True)):
            move = (layer - start) * np.sqrt(network.rates[k] / self.red.clock)
            move = self.red.outputs @ move if k == last else move
            found.append(network.weights[k] + (move @ self.red.inputs.T if k == 0 else move))
        return found

    def law(
        self,
        law: type,
        predict: Callable[[GivenNetwork], Mapping[str, Estimate]],
        *,
        small: float | None = None,
        latest: float = np.inf,
    ) -> NetworkLaw:
        """Return the law of this network; its small parameter is the size of the start unless given."""
        return NetworkLaw(law, self.given, self.small if small is None else small, predict, latest)

    def observables(self, given: GivenNetwork, layers: list[np.ndarray]) -> dict[str, Callable[[], np.ndarray]]:
        """Return weights, map, loss and tangent kernel of layers at equal rates, by their names in `solve`."""
        weights = self.weights(layers)
        span = given.network.span
        found: dict[str, Callable[[], np.ndarray]] = {"map": lambda: maps(weights)[-1]}
        found |= named_losses(given, lambda: given.loss(maps(weights)[-1] @ span))
        if given.samples is not None:
            found["ntk"] = lambda: given.ntk(weights)
        return found | {f"w{k}": (lambda w=w: w) for k, w in enumerate(weights, 1)}  # type: ignore[misc]


def named_losses(given: GivenNetwork, loss: Callable[[], np.ndarray]) -> dict[str, Callable[[], np.ndarray]]:
    """Return the loss by its names in `solve`."""
    return {"loss": loss} if given.samples is None else {"loss": loss, "train_loss": loss}


def spectral_difference(low: np.ndarray, high: np.ndarray) -> float:
    """Return the spectral norm of ``low low^T - high high^T``; the eigenvalue problem has at most the size of both."""
    stacked = np.concatenate([low, high], axis=1)
    if len(stacked) > stacked.shape[1]:
        stacked = np.asarray(np.linalg.qr(stacked, mode="r"))
    signs = np.where(np.arange(stacked.shape[1]) < low.shape[1], 1.0, -1.0)
    return float(np.abs(np.linalg.eigvalsh((stacked * signs) @ stacked.T)).max())
