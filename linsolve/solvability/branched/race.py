r"""Gated branches that share the errors of their contexts, as a `NeuralRace` of each mode: conditions and layers.

In a race the maps of the contexts are :math:`S_k = U_k\, \mathrm{diag}(s)\, V^\top`, and branch b, in m contexts, has

.. math:: W_1^b = R_b\, \mathrm{diag}(h_b)\, V^\top, \qquad
    W_2^{bk} = U_k\, \mathrm{diag}(h_b/\sqrt m)\, R_b^\top

with orthonormal columns of :math:`U_k`, V and :math:`R_b`. A branch with one head for all its contexts has no root; it
grows like a branch of :math:`m^2` contexts.
"""

from __future__ import annotations

import dataclasses
import math
from functools import cached_property
from typing import Any

import numpy as np

from linsolve.core.network_arguments import EPS
from linsolve.core.reduced_network import norm
from linsolve.solvability.branched.branches import Branch, Branches
from linsolve.solvability.conditions import Assessment, Condition
from linsolve.solvability.deviation import ROUNDING
from linsolve.solvability.matches import Match
from linsolve.systems.gated.neural_race import NeuralRace

__all__ = ["Race", "RaceMatch"]

MOST = 1e6  # contexts of a race
NOISE, MOST_NOISE = 10.0, 0.1  # of the inequality of maps, below which a mode is noise; never above this share


class RaceMatch(Match):
    """`NeuralRace`, one for each mode; the maps of the contexts are one below the other."""

    def product(self, state: Any) -> np.ndarray:
        """Return the diagonal matrix of the modes' strengths, shape t.shape + (r, r)."""
        return np.sum(state.strengths, axis=-1)[..., None] * np.eye(self.inputs.shape[1])


def _relative(gap: np.ndarray, whole: np.ndarray) -> float:
    """Return the norm of `gap` over that of `whole`, 0 if both vanish."""
    size = norm(whole)
    return norm(gap) / size if size > 0 else float(norm(gap) > 0)


def _ratio(some: np.ndarray, whole: np.ndarray, other: float) -> np.ndarray:
    """Return ``some / whole``, and `other` where `whole` is 0."""
    return np.divide(some, whole, out=np.full(some.shape, other), where=whole > 0)


@dataclasses.dataclass(frozen=True, eq=False)
class Race:
    """Branches that share errors, in the modes of their contexts; layers are scaled to equal learning rates."""

    net: Branches
    tolerance: float

    @cached_property
    def contexts(self) -> list[int]:
        """Contexts in which a branch acts."""
        return sorted({k for each in self.net.branches for k in each.contexts})

    @property
    def columns(self) -> slice:
        """Inputs of the first branch."""
        return self.net.branches[0].columns

    @cached_property
    def axes(self) -> tuple[np.ndarray, np.ndarray]:
        """Orthonormal basis of the span of the inputs, shape (n_in, rank), and their mean power in each context."""
        rows = np.concatenate([self.net.rows(k)[0][:, self.columns] for k in self.contexts])
        _, sigma, vt = np.linalg.svd(rows, full_matrices=False)
        kept = sigma > max(max(rows.shape) * EPS, self.tolerance) * sigma[0]
        return vt[kept].T, sigma[kept] ** 2 / len(self.contexts)

    @cached_property
    def even(self) -> tuple[Condition, Condition]:
        """Conditions of equally frequent contexts with the same second moment of the inputs."""
        return self.net.equal_contexts(self.contexts, self.columns, self.tolerance)

    @cached_property
    def maps(self) -> np.ndarray:
        """Maps of the contexts on the span, shape (context, n_out, rank).

        Cross moments over the mean second moment are the maps only if contexts are even; else each has a regression.
        """
        span, power = self.axes
        rows = map(self.net.rows, self.contexts)
        if max(each.distance for each in self.even) <= ROUNDING:
            sizes = np.sqrt(power)
            return np.stack([y.T @ (x[:, self.columns] @ span / sizes) / sizes for x, y in rows])
        return np.stack([np.linalg.lstsq(x[:, self.columns] @ span, y, rcond=None)[0].T for x, y in rows])

    def _first(self, branch: Branch) -> np.ndarray:
        """Return the first layer of a branch on the span, 0 if it has other inputs."""
        span = self.axes[0]
        if branch.first.shape[1] != len(span):
            return np.zeros((len(branch.first), span.shape[1]))
        return np.asarray(self.net.scales[0] * branch.first @ span)

    def _heads(self, branch: Branch) -> np.ndarray:
        """Return the head of each context of a branch, shape (m, n_out, width)."""
        heads = self.net.scales[1] * branch.heads
        return np.broadcast_to(heads, (len(branch.contexts), *heads.shape[1:]))

    def _places(self, branch: Branch) -> list[int]:
        return [self.contexts.index(k) for k in branch.contexts]

    @staticmethod
    def speed(branch: Branch) -> int:
        """Return the square of the speed: m with one head for each of m contexts, ``m^2`` with one head for all."""
        m = len(branch.contexts)
        return m if branch.wire.headed else m**2

    @cached_property
    def spread(self) -> float:
        """Largest relative distance of the Gram matrix ``S^T S`` of the map of a context from the mean."""
        unit = self.maps / norm(self.maps)
        grams = np.swapaxes(unit, -1, -2) @ unit
        mean = np.mean(grams, axis=0)
        return max(_relative(each - mean, mean) for each in grams)

    @property
    def _least(self) -> float:
        """Share of the largest singular value below which a mode is not told from unequal maps."""
        unequal = min(NOISE * self.spread, MOST_NOISE) if self.spread > self.tolerance else 0.0
        return max(self.tolerance, unequal)

    @cached_property
    def modes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Singular values s (r,), V (rank, r), U (context, n_out, r) and input powers (r,), of the modes to be learned.

        All symmetric matrices of a race are diagonal in V; generic coefficients tell modes apart that differ in one.
        """
        power = self.axes[1]
        _, s, vt = np.linalg.svd(self.maps.reshape(-1, len(power)), full_matrices=False)
        mixed = (vt.T * s) @ vt / s[0] + 0.4142 * np.diag(power / power[0])
        for k, branch in enumerate(self.net.branches):
            gram = self._first(branch).T @ self._first(branch)
            mixed = mixed + (0.2361 / (1 + 0.6180 * k)) * gram / (norm(gram) or 1.0)
        v = np.linalg.eigh((mixed + mixed.T) / 2)[1]
        sizes = np.sqrt(np.mean(np.sum((self.maps @ v) ** 2, axis=1), axis=0))
        order = np.argsort(-sizes)[: np.count_nonzero(s > self._least * s[0])]
        s, v = sizes[order], v[:, order]
        return s, v, self.maps @ v / s, np.sum(v * v * power[:, None], axis=0)

    @cached_property
    def _projected(self) -> list[tuple[np.ndarray, np.ndarray, float]]:
        """Sizes of first layers (r,) and heads (m, r) of each branch along the modes, and the largest part off them."""
        found = []
        _, v, u, _ = self.modes
        for branch in self.net.branches:
            first, heads = self._first(branch), self._heads(branch)
            along = first @ v
            h = np.linalg.norm(along, axis=0)
            r = along / np.where(h > 0, h, 1.0)
            w = np.einsum("kor,koh,hr->kr", u[self._places(branch)], heads, r)
            made = np.einsum("kor,kr,hr->koh", u[self._places(branch)], w, r)
            gram = first.T @ first
            off = _relative(gram - (v * h**2) @ v.T, gram)
            found.append((h, w, max(off, _relative(heads - made, heads))))
        return found

    def _on_strengths(self) -> tuple[list[int], np.ndarray]:
        """Return the speeds, the largest first, and the strength of all branches of each in each context and mode."""
        speeds = sorted({self.speed(each) for each in self.net.branches}, reverse=True)
        found = np.zeros((len(self.contexts), len(self.modes[0]), len(speeds)))
        for branch, (h, w, _) in zip(self.net.branches, self._projected, strict=True):
            found[self._places(branch), :, speeds.index(self.speed(branch))] += w * h
        return speeds, found

    def _on_data(self) -> list[Condition]:
        net, columns = self.net, self.columns
        apart, one = 0.0, net.inputs[:, columns]
        for each in net.branches[1:]:
            other = net.inputs[:, each.columns]
            apart = max(apart, _relative(other - one, one) if one.shape == other.shape else 1.0)
        power, unit = np.diag(self.axes[1]), self.maps / norm(self.maps)
        grams = np.swapaxes(unit, -1, -2) @ unit
        mean = np.mean(grams, axis=0)
        swap = norm(power @ mean - mean @ power) / (norm(power) * norm(mean))
        return [
            Condition("one input for all", apart, "inputs of a branch off those of the first"),
            *self.even,
            Condition("same singular values", self.spread, "S^T S of the map S of a context, off the mean"),
            Condition("commuting covariance", swap, "commutator of the second moment of the inputs and S^T S"),
        ]

    def _on_start(self) -> list[Condition]:
        off = spread = lean = against = 0.0
        for branch, (h, w, away) in zip(self.net.branches, self._projected, strict=True):
            root = 1.0 if not branch.wire.headed else math.sqrt(len(branch.contexts))
            mean = np.mean(w, axis=0)
            off = max(off, away)
            spread = max(spread, max(_relative(each - mean, mean) for each in w))
            lean = max(lean, _relative(root * np.abs(mean) - h, h))
            against = max(against, float(np.max(-mean, initial=0.0)) / (norm(mean) or 1.0))
        kinds = [sorted(self.speed(each) for each in self.net.branches if k in each.contexts) for k in self.contexts]
        odd = sum(each != kinds[0] for each in kinds) / len(kinds)
        speeds, strengths = self._on_strengths()
        total = np.mean(strengths, axis=0)
        unequal = max(_relative(each - total, total) for each in strengths)
        whole = math.lcm(len(self.contexts), *speeds)
        return [
            Condition("same kinds of branches", odd, "contexts whose branches differ in the number of contexts served"),
            Condition("alignment", off, "layers off the modes of the maps, worst branch"),
            Condition("equal heads", spread, "sizes of the heads of a branch, off their mean"),
            Condition("balance", lean, "first layer off the joint size of all heads, worst branch"),
            Condition("same sign", against, "a branch that starts against the target"),
            Condition("equal strengths", unequal, "branches of one kind, from context to context"),
            Condition("few contexts", float(whole > MOST), f"common multiple {whole:g} of the contexts served"),
        ]

    def assessed(self, name: str) -> Assessment:
        """Return the conditions, and the match if all of them hold."""
        if not np.any(self.maps):
            found = [Condition("maps other than 0", 1.0, "nothing to learn: strengths fall like powers of time")]
        else:
            found = [*self._on_data(), *self._on_start()]
        result = Assessment(name, tuple(dataclasses.replace(each, tolerance=self.tolerance) for each in found))
        if result.violated:
            return result
        match = self._match(name)
        fall = abs(float(np.max(match.flow.conditions(np, match.z0)["fall of the fastest pathway beyond exp(40)"])))
        high = Condition("start near the target", fall, "fall of the fastest branch beyond exp(40)", tolerance=0.0)
        result = dataclasses.replace(result, conditions=(*result.conditions, high))
        return result if result.violated else dataclasses.replace(result, match=match)

    def _match(self, name: str) -> RaceMatch:
        s, v, u, power = self.modes
        speeds, strengths = self._on_strengths()
        whole = math.lcm(len(self.contexts), *speeds)
        flow = NeuralRace(
            s=s, contexts=np.full(len(s), whole), served=np.tile(speeds, (len(s), 1)),
            tau=1 / (whole * self.net.clock * power),
        )  # fmt: skip
        z0 = NeuralRace.State(np.maximum(np.mean(strengths, axis=0), 0.0))
        return RaceMatch(name, flow, z0, self.axes[0] @ v, u.reshape(-1, len(s)))

    def layers(self, match: RaceMatch, strengths: np.ndarray) -> list[np.ndarray]:
        """Return first layer and heads of each branch, for strengths of shape t.shape + (r, speed)."""
        start = match.z0.strengths
        grown = self._along(match, np.sqrt(_ratio(strengths, start, 1.0)) - 1)
        return [w + added for w, added in zip(self.net.start, grown, strict=True)]

    def moves(self, match: RaceMatch, strengths: np.ndarray) -> list[np.ndarray]:
        """Return the time derivatives of `layers`."""
        speed, start = match.flow.velocity(np, match.flow.State(strengths)).strengths, match.z0.strengths
        root = np.sqrt(_ratio(strengths, start, 1.0))
        return self._along(match, root * _ratio(speed, strengths, 0.0) / 2)

    def _along(self, match: RaceMatch, growth: np.ndarray) -> list[np.ndarray]:
        """Return the parts of all layers along the modes times `growth`, shape t.shape + (r, speed)."""
        speeds, u, found = self._on_strengths()[0], self.modes[2], []
        for branch in self.net.branches:
            own = growth[..., speeds.index(self.speed(branch))]
            found.append(((branch.first @ match.inputs) * own[..., None, :]) @ match.inputs.T)
            left = u[self._places(branch)][: len(branch.heads)]  # the same for all contexts of a single head
            signal = np.swapaxes(left, -1, -2) @ branch.heads
            heads = left @ (signal * own[..., None, :, None])
            found.append(heads if branch.wire.headed else heads[..., 0, :, :])
        return found
