"""Known-wrong formulas of kernels that differ from class to class."""

import numpy as np

import linsolve as ls
from linsolve.numerics.spectrum import rows_times
from linsolve.systems.kernel_regime.block_matrix import Blocks
from mutants import Mutant


class EveryClassAlike(ls.SpecializedKernel):
    """Seleznova 2024, Assumption 3.2: one value within classes, one between, the means of what each class has."""

    def blocks(self, xp):
        classes = self.sizes.shape[-1]
        itself = xp.eye(classes, dtype=xp.float64) > 0
        none = xp.zeros_like(self.pairs)
        within = xp.sum(xp.where(itself, self.pairs, none)) / classes
        between = xp.sum(xp.where(itself, none, self.pairs)) / (classes * (classes - 1))
        pairs = xp.where(itself, within, between + none)
        return Blocks.of_pairs(xp, self.diagonal, pairs, self.sizes, self._count)


class ContrastsOfOneClass(ls.SpecializedKernel):
    """Samples of every class said to be told apart as fast as those of the first."""

    def solution(self, xp, t, z0):
        blocks = self.blocks(xp)
        own = xp.zeros_like(blocks.own) + blocks.own[..., :1]
        left = xp.exp(-xp.concat([own, blocks.averages], axis=-1) * (self.eta * t)[..., None])
        contrasts, y = blocks.applied(xp, left, z0.r)
        return self.State(xp.where(t[..., None] == 0, z0.r, contrasts + blocks.spread(xp, y)))


class PairsOfAverages(ls.SpecializedKernel):
    """``diag(lam) + P m`` for ``diag(lam) + sqrt(m) P sqrt(m)``, symmetrized: class sizes in the wrong place."""

    def blocks(self, xp):
        blocks = super().blocks(xp)
        unit = xp.eye(self.sizes.shape[-1], dtype=xp.float64)
        mean = (self.sizes[..., :, None] + self.sizes[..., None, :]) / 2
        values, vectors = xp.linalg.eigh(self._own(xp)[..., None] * unit + mean * self.pairs)
        return blocks._replace(values=xp.concat([blocks.own, values], axis=-1), vectors=vectors)


class OffTheBlocks(ls.SpecializedKernel):
    """Pull between classes alone, without what the samples of a class do to each other."""

    def velocity(self, xp, z):
        members = self.blocks(xp).members
        other = 1 - xp.eye(self.sizes.shape[-1], dtype=xp.float64)
        totals = rows_times(xp, z.r, xp.matrix_transpose(members))
        pull = rows_times(xp, self.diagonal, members) * z.r
        pull = pull + rows_times(xp, rows_times(xp, totals, other * self.pairs), members)
        return self.State(-self.eta[..., None] * pull)


class AllSpecialIsLearned(ls.SpecializedKernel):
    def limit(self, xp, z0):
        return self.State(0 * z0.r)


def _mutant(cls, seen_by):
    return Mutant(*cls.example(np.random.default_rng(3)), seen_by)


SPECIALIZED = {
    "every class alike": _mutant(EveryClassAlike, "residual"),
    "contrasts of one class": _mutant(ContrastsOfOneClass, "residual"),
    "pairs of averages": _mutant(PairsOfAverages, "residual"),
    "off the blocks": _mutant(OffTheBlocks, "velocity"),
    "all special is learned": Mutant(
        AllSpecialIsLearned([1.0, 2.0], [[1.0, 0.5], [0.5, 1.0]], [2, 3], 0.7),
        AllSpecialIsLearned.State(np.array([1.0, -0.5, 0.3, 0.2, 2.0])),
        "limit",
    ),
}
