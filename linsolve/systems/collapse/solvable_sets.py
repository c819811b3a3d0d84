"""Exactly solvable sets of neural collapse, and the nearest set and its distance for each start of a batch."""

from __future__ import annotations

from typing import Any

from linsolve import arithmetic
from linsolve.numerics.cache import Memory
from linsolve.systems.collapse import starts as start
from linsolve.systems.collapse.constant_direction import Scatter, coupling, unevenness

__all__ = ["SolvableSets"]

PREFERRED = 16  # a set other than the simplest is chosen only if nearer by this factor, beyond rounding


class SolvableSets:
    """A batch of starts, each with its nearest solvable set.

    The constant direction (mean feature, mean output, bias) is at rest, decoupled, or coupled to the scatter within
    classes. The contrasts follow a matrix Riccati equation or are decoupled modes. For each member of the batch, masks
    select the nearest of these forms.

    Parameters
    ----------
    xp : namespace
    flow : NeuralCollapse
    z : State
    """

    def __init__(self, xp: Any, flow: Any, z: Any) -> None:
        self.flow, self.z, self.y = flow, z, flow._members(xp)
        self.near = start.distances(xp, z, self.y)
        self.crossed, self.uneven = coupling(xp, z, self.y), unevenness(xp, z, self.y)
        self.scatter = Scatter.of(xp, z, self.y)
        self.centered = flow._centered(xp, z)
        self.modes = flow._modes(xp, self.centered)
        flat, contrasts = self.centered.distances(xp)
        decoupled = xp.minimum(contrasts, self.modes.distance)
        mean, bias, seen = *self.near.values(), self.scatter.seen
        rest = _worst(xp, mean, bias, seen, xp.where(self.centered.closed, decoupled, flat))
        constant = _worst(xp, self.crossed, self.uneven, seen, decoupled)
        scattering = _worst(xp, mean, bias, self.crossed, self.scatter.turning, decoupled)
        self.constant = (PREFERRED * constant < rest) & (constant <= scattering)
        self.scattering = (PREFERRED * scattering < rest) & (scattering < constant)
        closed = self.centered.closed | self.constant | self.scattering
        self.decoupled = closed & (PREFERRED * self.modes.distance < contrasts)
        self.imbalance = xp.where(closed, contrasts, flat)
        self.centered = self.centered._replace(closed=closed).without(xp, self.decoupled)
        self.constant_mode = flow._constant(xp, z, self.constant)
        self.memories = Memory(), Memory()

    def conditions(self, xp: Any) -> dict[str, Any]:
        """Return, by name, the distances of each start from its nearest solvable set; those from other sets are 0."""
        none = xp.zeros_like(self.imbalance + self.crossed)
        rest, own = ~self.constant, self.constant | self.scattering
        return {
            "scatter within classes on shared hidden units": self.scatter.shared + none,
            "scatter within classes that outputs see": xp.where(self.scattering, none, self.scatter.seen),
            "turning of the scatter within classes": xp.where(self.scattering, self.scatter.turning, none),
            **{name: xp.where(rest, value, none) for name, value in self.near.items()},
            "coupling of the constant mode": xp.where(own, self.crossed, none),
            "unevenness of the biases": xp.where(self.constant, self.uneven, none),
            "span of the constant mode": self.constant_mode.excess(xp),
            "coupling of the modes": xp.where(self.decoupled, self.modes.distance, none),
            "distance of the imbalance from a solvable one": xp.where(self.decoupled, none, self.imbalance),
        }

    def _between(self, xp: Any, t: Any) -> tuple[Any, Any, Any]:
        """Return ``W M``, ``W W^T`` and ``M^T M``, projected on contrasts; ``W W^T`` includes a mean output at rest."""
        pace = xp.sqrt(self.flow.rates_of_features(xp)[1] * self.flow._each)
        both = []
        if arithmetic.holds(self.decoupled):
            both.append(self.centered.restored(xp, *self.modes.at(xp, pace * t)))
        if not arithmetic.holds(self.decoupled, everywhere=True):
            both.append(self.centered.at(xp, pace * t, self.memories))
        chosen = self.decoupled[..., None, None]
        product, gram_w, means = (xp.where(chosen, a, b) for a, b in zip(both[0], both[-1], strict=True))
        return product, gram_w, means

    def at(self, xp: Any, t: Any) -> tuple[Any, Any, Any, Any]:
        """Return product, Gram matrices and bias at times `t`, shape lead + batch."""
        product, gram_w, means = self._between(xp, t)
        row, ww, scatter = self.flow._scattered(xp, t, self.scatter, self.scattering)
        whole = self.constant_mode.at(xp, t)
        classes = self.y.shape[0]
        done = self.flow._bias_done(xp, t)[..., None]
        b = self.z.b + (xp.ones_like(self.z.b) / classes - self.z.b) * done
        row = row / xp.sqrt(xp.full_like(ww, classes))[..., None]
        return (
            product @ self.y + row[..., None, :] + whole[0][..., None, None],
            gram_w + (ww / classes + whole[1])[..., None, None],
            xp.matrix_transpose(self.y) @ means @ self.y + scatter + whole[2][..., None, None],
            xp.where(self.constant[..., None], whole[3][..., None], b),
        )


def _worst(xp: Any, *distances: Any) -> Any:
    worst = distances[0]
    for value in distances[1:]:
        worst = xp.maximum(worst, value)
    return worst
