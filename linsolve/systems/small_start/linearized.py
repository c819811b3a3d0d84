"""Linearization of a two-layer network about zero weights: phase I of one network, on inputs of any covariance."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from linsolve.core.network_law import Estimate, GivenNetwork, NetworkLaw
from linsolve.systems.small_start.small_network import SmallNetwork

__all__ = ["LinearizedNetwork"]

LATEST = 700.0  # exp(700) does not overflow
SATURATION = 0.7  # relative error over the relative size of the output, in random networks


class LinearizedNetwork(SmallNetwork):
    r"""A network with one output, ``f = a.W x``, whose layers grow as if the output were zero.

    With :math:`v = \Sigma_{yx}^\top` and the learning rate :math:`\bar\eta` of both layers,

    .. math:: \dot a = \bar\eta W v, \qquad \dot W = \bar\eta a v^\top .
    """

    @property
    def rate(self) -> float:
        """Rate of growth of the layers, ``eta |v|``."""
        return self.red.clock * float(np.linalg.norm(self.red.cross))

    def grown(self, t: np.ndarray) -> list[np.ndarray]:
        """Return the layers at equal rates, shapes t.shape + (width, r) and t.shape + (1, width)."""
        (first, last), direction = self.layers, self.red.cross[0] / np.linalg.norm(self.red.cross)
        a, w, x = last[0], first @ direction, self.rate * t[..., None]
        up, down = np.exp(x), np.exp(-x)
        cosh, sinh = (up + down) / 2, (up - down) / 2
        moved = cosh * w + sinh * a - w
        return [first + moved[..., :, None] * direction, (cosh * a + sinh * w)[..., None, :]]

    def saturation(self, layers: list[np.ndarray]) -> float:
        """Return the largest output relative to the targets, neglected by the linearization; raise if it reaches 1."""
        pull = (layers[1] @ layers[0]) @ self.red.covariance
        start = (self.layers[1] @ self.layers[0]) @ self.red.covariance
        size = max(float(np.abs(np.linalg.norm(each, axis=(-2, -1))).max()) for each in (pull, start))
        found = size / float(np.linalg.norm(self.red.cross))
        if not found < 1:
            fix = "end earlier, or use MatchedOutputs or linsolve.solve"
            self.given.refuse("largest output", f"{found:.3g} of the targets", "must be below 1", "phase I", fix)
        return found

    def phase_one(self, law: type) -> NetworkLaw:
        """Return the law of the weights, the map, the loss and the tangent kernel in phase I."""

        def predict(given: GivenNetwork) -> dict[str, Estimate]:
            layers = self.grown(given.times)
            error = SATURATION * self.saturation(layers)
            start = self.observables(given.at(np.zeros(())), list(self.layers))
            found = {}
            for name, value in self.observables(given, layers).items():
                if "loss" in name:  # the loss is linear in the map, whose relative error is `error`
                    found[name] = Estimate(value, 4, 2 * error**2 / SATURATION)
                else:
                    found[name] = Estimate(value, 2, _of_growth(error, value, start[name]))
            return found

        return self.law(law, predict, latest=LATEST / (2 * self.rate))


def _of_growth(error: float, value: Callable[[], np.ndarray], start: Callable[[], np.ndarray]) -> Callable[[], float]:
    """Return the relative error of a quantity, given the relative error of its change since the start."""

    def relative() -> float:
        now = value()
        size = float(np.abs(now).max())
        return error * float(np.abs(now - start()).max()) / size if size > 0 else error

    return relative
