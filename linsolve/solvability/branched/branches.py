"""Networks of two-layer branches that contexts gate, with the moments of the samples in each context."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np

from linsolve.core.network_arguments import EPS, Network
from linsolve.core.reduced_network import norm, spectral
from linsolve.solvability.conditions import Condition
from linsolve.systems.gated.branched_weights import BranchedWeights, Wire, branched_weights

__all__ = ["Branch", "Branches", "listed"]


class Branch(NamedTuple):
    """Two layers of a branch, the inputs that it reads, and the contexts in which it acts.

    `heads` has shape (m, n_out, width): one head for each context, or, with `headed` False, a single one for all.
    """

    number: int
    first: np.ndarray
    heads: np.ndarray
    wire: Wire

    @property
    def columns(self) -> slice:
        """Columns of the inputs."""
        return slice(*self.wire.columns)

    @property
    def contexts(self) -> list[int]:
        """Contexts in which the branch acts."""
        return list(self.wire.contexts)

    @property
    def last(self) -> np.ndarray:
        """The heads in the shape in which they were given."""
        return self.heads if self.wire.headed else self.heads[0]

    @property
    def stacked(self) -> bool:
        """Whether several heads read the first layer."""
        return len(self.heads) > 1


def listed(numbers: list[int]) -> str:
    """Return numbers of branches in words.

    Examples
    --------
    >>> listed([1]), listed([1, 3])
    ('branch 1', 'branches 1, 3')
    """
    return f"branch{'es' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


@dataclasses.dataclass(frozen=True, eq=False)
class Branches:
    """Branches with samples, the context of each sample, and learning rates of first layers and heads.

    `inputs` has the columns of all branches; branches of a gated network read the same ones. `gated` is whether
    contexts were given, and `precision` is that of the coarsest numbers.
    """

    branches: tuple[Branch, ...]
    inputs: np.ndarray
    outputs: np.ndarray
    labels: np.ndarray
    count: int
    rates: np.ndarray
    gated: bool
    precision: str

    @property
    def clock(self) -> float:
        """Learning rate of layers scaled to equal rates."""
        return float(np.sqrt(self.rates[0] * self.rates[1]))

    @property
    def scales(self) -> np.ndarray:
        """Factors of first layers and heads that make their learning rates equal."""
        return np.asarray(np.sqrt(self.clock / self.rates))

    def rows(self, context: int) -> tuple[np.ndarray, np.ndarray]:
        """Return inputs and outputs of the samples in a context, over the root of the number of all samples."""
        chosen, root = self.labels == context, np.sqrt(len(self.labels))
        return self.inputs[chosen] / root, self.outputs[chosen] / root

    @cached_property
    def covariance(self) -> np.ndarray:
        """Second moments of the inputs in each context times its frequency, shape (context, n_in, n_in)."""
        return np.stack([x.T @ x for x, _ in map(self.rows, range(self.count))])

    @cached_property
    def cross(self) -> np.ndarray:
        """Second moments of outputs and inputs in each context times its frequency, shape (context, n_out, n_in)."""
        return np.stack([y.T @ x for x, y in map(self.rows, range(self.count))])

    @cached_property
    def target(self) -> np.ndarray:
        """Regression of the outputs on all inputs in each context, shape (context, n_out, n_in)."""
        return np.stack([np.linalg.lstsq(x, y, rcond=None)[0].T for x, y in map(self.rows, range(self.count))])

    @cached_property
    def least(self) -> float:
        """Part of the loss that no linear map of the inputs of a context explains."""
        rest = (y - x @ self.target[k].T for k, (x, y) in enumerate(map(self.rows, range(self.count))))
        return sum(norm(each) ** 2 for each in rest) / 2

    @cached_property
    def frequencies(self) -> np.ndarray:
        """Share of the samples in each context."""
        return np.bincount(self.labels, minlength=self.count) / len(self.labels)

    @cached_property
    def roots(self) -> list[np.ndarray]:
        """Matrix R of each context with ``R^T R`` its `covariance`, from the samples: without squares of them."""
        return [np.linalg.qr(x)[1] for x, _ in map(self.rows, range(self.count))]

    def rms(self, maps: np.ndarray) -> np.ndarray:
        """Return the root mean square over samples of the outputs of maps, shape t.shape + (context, n_out, n_in)."""
        made = [np.linalg.norm(maps[..., k, :, :] @ root.T, axis=(-2, -1)) for k, root in enumerate(self.roots)]
        return np.asarray(np.linalg.norm(made, axis=0))

    def loss(self, maps: np.ndarray) -> np.ndarray:
        """Return the loss of maps, shape t.shape + (context, n_out, n_in)."""
        return self.rms(self.target - maps) ** 2 / 2 + self.least

    def flow(self) -> BranchedWeights:
        """Return the gradient flow of all weights."""
        found: BranchedWeights = branched_weights(
            [each.wire for each in self.branches], self.target, self.covariance, self.rates
        )
        return found

    @property
    def start(self) -> list[np.ndarray]:
        """All layers at time 0, as the fields of the flow's state."""
        return [w for each in self.branches for w in (each.first, each.last)]

    @property
    def stationary(self) -> bool:
        """Whether the start is stationary although a branch does not fit the data of its contexts."""
        flow, start = self.flow(), self.start
        pull = (self.target - self.maps(start)) @ self.covariance
        seen = max(norm(pull[each.contexts][..., each.columns]) for each in self.branches)
        moves = zip(flow.velocity(np, flow.State(*start)), np.tile(self.rates, len(self.branches)), strict=True)
        still = max(norm(move) / rate for move, rate in moves) <= 1e-13 * seen * max(map(norm, start))
        return seen > 1e-9 * norm(self.cross) and still

    def maps(self, layers: Sequence[np.ndarray]) -> np.ndarray:
        """Return the map of each context, shape t.shape + (context, n_out, n_in), of all layers."""
        flow = self.flow()
        return flow.maps(flow.State(*layers))

    def largest(self, layers: Sequence[np.ndarray]) -> float:
        """Return the largest Frobenius norm of a layer, scaled to equal rates, over leading axes of times."""
        scales = np.tile(self.scales, len(self.branches))
        sizes = (
            scale * np.linalg.norm(w.reshape(*w.shape[: w.ndim - own.ndim], -1), axis=-1)
            for scale, w, own in zip(scales, layers, self.start, strict=True)
        )
        return max(float(np.max(each)) for each in sizes)

    def titled(self, name: str, numbers: list[int]) -> str:
        """Return the name of a flow with the numbers of its branches, unless these are all."""
        return name if len(numbers) == len(self.branches) else f"{name} of {listed(numbers)}"

    def only(self, numbers: list[int]) -> Branches:
        """Return the network of some of the branches, by their numbers."""
        kept = tuple(each for each in self.branches if each.number in numbers)
        return dataclasses.replace(self, branches=kept)

    @property
    def merged(self) -> Branch | None:
        """All branches as a single wider one, if they read the same inputs in the same contexts, else None."""
        first = self.branches[0]
        alike = {(each.wire.columns, each.wire.contexts, each.stacked) for each in self.branches}
        if len(alike) > 1:
            return None
        rows = np.concatenate([each.first for each in self.branches])
        return first._replace(first=rows, heads=np.concatenate([each.heads for each in self.branches], axis=-1))

    def network(self, branch: Branch, tolerance: float) -> Network:
        """Return a branch alone as two layers; its heads are one below the other.

        Heads of several contexts need second moments of the inputs that are the same in all of them.
        """
        pairs = [self.rows(k) for k in branch.contexts]
        x = np.concatenate([inputs[:, branch.columns] for inputs, _ in pairs])
        _, sigma, vt = np.linalg.svd(x, full_matrices=False)
        kept = sigma > max(max(x.shape) * EPS, tolerance) * sigma[0]
        power, cross = sigma[kept] ** 2, self.cross[branch.contexts][..., branch.columns]
        if branch.stacked:
            power, cross = power / len(pairs), cross.reshape(-1, cross.shape[-1])
        else:
            cross = np.sum(cross, axis=0)
        weights = branch.first, branch.heads.reshape(-1, branch.heads.shape[-1])
        return Network(weights, vt[kept].T, power, cross, self.rates, tolerance, self.precision)

    def equal_contexts(self, contexts: list[int], columns: slice, tolerance: float) -> tuple[Condition, Condition]:
        """Return the conditions of equally frequent contexts with the same second moment of the inputs."""
        counts, shares = self.frequencies[contexts], len(contexts) * self.frequencies[contexts]
        detail = "second moments of the inputs in each context, off their mean, in the directions that this whitens"
        rows = [self.rows(k)[0][:, columns] / np.sqrt(share) for k, share in zip(contexts, shares, strict=True)]
        axes = self._whitening(np.concatenate(rows))
        own = np.stack([x.T @ x for x in (len(contexts) ** 0.5 * each @ axes for each in rows)])
        away, spread = max(spectral(each - np.mean(own, axis=0)) for each in own), np.ptp(counts) / counts.max()
        return (
            Condition("equal frequencies", float(spread), "contexts, as (most - least) / most", tolerance=tolerance),
            Condition("same input moments", away, detail, tolerance=tolerance),
        )

    def _whitening(self, x: np.ndarray) -> np.ndarray:
        """Return A, shape (n_in, rank), with orthonormal columns of ``x A``; directions below rounding are left out.

        Columns are scaled to one size first, so that inputs of different units keep their digits.
        """
        least = max(x.shape) * float(np.finfo(self.precision).eps)
        sizes = np.linalg.norm(x, axis=0)
        units = np.where(sizes > least * norm(x), 1 / np.where(sizes > 0, sizes, 1.0), 0.0)
        _, sigma, vt = np.linalg.svd(x * units, full_matrices=False)
        kept = sigma > least * sigma[0]
        return np.asarray(units[:, None] * vt[kept].T / sigma[kept])

    def correlation(self, one: Branch, other: Branch) -> float:
        """Return the largest canonical correlation of the inputs of two branches in a context of both, 0 if none.

        It is that of the outputs of any first layers: a weak input that both branches share counts as much as a strong
        one, since a large weight makes its outputs as large.
        """
        worst = 0.0
        for k in set(one.contexts) & set(other.contexts):
            pair = [self.rows(k)[0][:, each.columns] for each in (one, other)]
            if all(x.any() for x in pair):
                q, r = (x @ self._whitening(x) for x in pair)
                worst = max(worst, spectral(q.T @ r))
        return worst

    def left_out(self, groups: list[list[int]]) -> float:
        """Return the largest correlation of the inputs of two branches in different groups."""
        place = {number: k for k, group in enumerate(groups) for number in group}
        pairs = ((a, b) for a in self.branches for b in self.branches if place[a.number] < place[b.number])
        return max((self.correlation(a, b) for a, b in pairs), default=0.0)

    def uncorrelated(self, tolerance: float) -> Condition:
        """Return the condition that inputs of different branches are not correlated, with the worst pair."""
        pairs = ((self.correlation(a, b), a, b) for a, b in combinations(self.branches, 2))
        far, one, other = max(pairs, key=lambda each: each[0])
        detail = f"correlation of the inputs of {listed([one.number, other.number])} in a context"
        return Condition("uncorrelated inputs", far, detail, tolerance=tolerance)

    def parts(self, tolerance: float) -> list[list[int]]:
        """Return the numbers of the branches in groups that share no output error, the lowest first."""
        groups: list[list[Branch]] = []
        for branch in self.branches:
            met = [g for g in groups if any(self.correlation(branch, each) > tolerance for each in g)]
            groups = [g for g in groups if g not in met] + [[*(each for g in met for each in g), branch]]
        return sorted(sorted(each.number for each in group) for group in groups)
