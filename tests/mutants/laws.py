"""Wrong laws, most of them as published; each names the quantity whose check must reject it."""

from typing import NamedTuple

import numpy as np

import linsolve as ls
from linsolve.systems.small_start.start import kernel, outer, split


class Mutant(NamedTuple):
    law: type
    seen_by: str
    seed: int = 1


class KernelCountsTheStartTwice(ls.laws.EarlyAlignment):
    """Eqs. (7), (19): q0 cosh(2 eta s t)(beta beta^T + I) + M0."""

    def kernel(self, xp, small):
        s, beta, w, rest = split(xp, self.first, self.target)
        q0 = self.overlaps(xp, small)[2]
        x = 2 * self.eta * s * self.times
        grown = (q0 * (xp.exp(x) + xp.exp(-x)) / 2)[:, None, None] * (outer(beta, beta) + xp.eye(beta.shape[0]))
        return kernel(xp, small * self.last, small * w, small * rest, beta) + grown


class AcrossWithoutTheTarget(ls.laws.EarlyAlignment):
    """Eq. (18): d/dt v^T M v = 2 r, without eta s."""

    def approximation(self, xp, small):
        found = super().approximation(xp, small)
        return found | {"across": found["across"] / (self.eta * split(xp, self.first, self.target)[0])}


class NoOverlapAtTheStart(ls.laws.InitialOverlaps):
    """After (17): r0 = 0, with high probability."""

    def prediction(self, xp):
        found = super().prediction(xp)
        return found | {"r0 squared": 0 * found["q0"]}


class CovarianceOnlyOnce(ls.laws.EarlyAnisotropic):
    """(beta^T Sigma beta)^2 for beta^T Sigma^2 beta, as if Sigma beta were along beta."""

    def generator(self, xp):
        s = xp.sqrt(xp.sum(self.target**2))
        a = xp.sum(self.target * (self.covariance @ self.target)) / s**2
        rows = [[0, a, 1, 0, 0], [0, 0, 0, 2, 0], [a**2, 0, 0, a, 0], [0, a**2, 0, 0, 1], [0, 0, 0, 2 * a**2, 0]]
        return s * xp.asarray(rows)


class SpikeOverTheRoot(ls.laws.EarlyKernelDirection):
    """Eq. (25): 1/sqrt(b) for 1/b."""

    def approximation(self, xp, small):
        turned = self.covariance @ self.target / xp.sqrt(xp.sum(self.target**2))
        return {"kernel": outer(turned, turned) / xp.sqrt(xp.sum(turned**2)) + xp.eye(turned.shape[0])}


class StartsFromQ(ls.laws.MatchedSolution):
    """Eqs. (27), (28): q0 for p0 = q0 + r0."""

    def head_start(self, xp, small):
        w = split(xp, self.first, self.target)[2]
        return small**2 * xp.sum(self.last**2 + w**2) / 2


class NoLogarithm(ls.laws.RefinedMatchedSolution):
    """Eqs. (27), (28) with p0: "exact up to O(sigma^2)", which forgets the logarithm."""

    def clock(self, xp, small):
        s, _, t = self.pace(xp, small)
        return 2 * s * t


class KernelOfPhaseTwo(ls.laws.KernelAlignment):
    """Eq. (8): u^2 (beta beta^T + I), with error O(sigma^2) from the transition on."""

    def approximation(self, xp, small):
        a, w, rest = self.layers(xp, small)
        return self._of(xp, a, w, 0 * rest)


class ModesWaitTwice(ls.laws.MatchedOutputs):
    """Section 4.2: e^(s t) for e^(2 s t), so that every mode is learned at twice its time."""

    def gram(self, xp, small, t):
        return super().gram(xp, small, t / 2)


class TwiceTheWait(ls.laws.LearningTime):
    """Section 3.1.2: e^(st) for e^(2st)."""

    def approximation(self, xp, small):
        return {name: 2 * time for name, time in super().approximation(xp, small).items()}


class WaitWithoutTheTarget(ls.laws.LearningTime):
    """Caption of figure 2: log(s/sigma^2)/2, without 1/s."""

    def approximation(self, xp, small):
        s = split(xp, self.first, self.target)[0]
        return {name: s * time for name, time in super().approximation(xp, small).items()}


class DepthTooMany(ls.laws.DeepLearningTime):
    """Section 4.1.1: L sigma^(2-L) / (s (L - 2))."""

    def approximation(self, xp, small):
        time = self.depth * xp.pow(small, 2 - self.depth) / ((self.depth - 2) * self.eta * self.s)
        return self._named(time, time)


class ExponentOfTheAppendix(ls.laws.DeepLearningTime):
    """After (40): sigma^(-L-2)."""

    def approximation(self, xp, small):
        time = xp.pow(small, -2 - self.depth) / ((self.depth - 2) * self.eta * self.s)
        return self._named(time, time)


class WholePowerOfTheTarget(ls.laws.FinalKernel):
    """Eq. (42): s^(2L-2) for s^(2-2/L)."""

    def kernels(self, xp):
        depth, s = self.rates.shape[0], xp.sqrt(xp.sum(self.target**2))
        return tuple(s ** (2 * depth - 4 + 2 / depth) * k for k in super().kernels(xp))


class RatesInTheDrivingKernel(ls.laws.FinalKernel):
    """Eq. (37) read as the ratio of the kernel that drives the output."""

    def alignments(self, xp):
        plain = super().alignments(xp)[0]
        return plain, plain


class AlignmentOfWhiteInputs(ls.laws.FinalKernelAnisotropic):
    """The maximal alignment of the figures, on inputs that are not white."""

    def approximation(self, xp, small):
        spike, rank = self.rates[0] * xp.sum(1 / self.rates), self.target.shape[0]
        return {"alignment": spike / xp.sqrt(spike**2 + rank - 1)}


class ProjectorForIdentity(ls.laws.FinalKernelOutputs):
    """Eq. (53): the projector on the learned inputs for the identity, in the first layer's share."""

    def approximation(self, xp, small):
        found = super().approximation(xp, small)
        n_in, depth = self.target.shape[1], self.rates.shape[0]
        u, s, vt = np.linalg.svd(self.target, full_matrices=False)
        mean = np.exp(np.mean(np.log(self.rates)))
        last = mean / self.rates[0] * (u * s ** (2 - 2 / depth)) @ u.T
        missing = last[:, :, None, None] * (np.eye(n_in) - vt.T @ vt)
        return found | {"kernel": found["kernel"] - missing}


class KernelMachineToSecondOrder(ls.laws.KernelRegression):
    """Eq. (15): the network is a kernel machine with error O(sigma^2)."""

    orders = ls.laws.KernelRegression.orders | {"function": 2}


class DirectionDoesNotTurn(ls.laws.KernelRegression):
    """The last layer along a0 + W0 beta, without what turns it during the wait."""

    def last_layer(self, xp, small):
        s = xp.sqrt(xp.sum(self.target**2))
        g = self.last + self.first @ self.target / s
        return xp.sqrt(s / xp.sum(g**2)) * g


class BetterInDeeperLayers(ls.laws.LayerKernels):
    """Eq. (43): error O(sigma^(2 l))."""

    orders = ls.laws.LayerKernels.orders | {"layer 2": 4}


class HalfTheMeanSquare(ls.laws.LayerKernels):
    """After (43): K_l = (y y^T)^(l/L), at a target of length other than 1."""

    def spike(self, xp, layer):
        depth, s = self.rates.shape[0], xp.sqrt(xp.sum(self.target**2))
        return super().spike(xp, layer) * s ** (2 - 2 * layer / depth)


class CorrectionOfThePaper(ls.laws.WidthCorrection):
    """Eq. (59): s^2 - g sigma^2 / (2 L s^(1/L))."""

    def approximation(self, xp, small):
        offsets = self.offsets(xp)
        depth = offsets.shape[0]
        last = self.s**2 - xp.sum(offsets) * small**2 / (2 * depth * xp.pow(self.s, self.s / self.s / depth))
        return {"strengths squared": last + small**2 * offsets}


class RatioOneLayerOff(ls.laws.WidthCorrection):
    """Eq. (57): N_{k+1}/N_k for N_{k+2}/N_{k+1}, in the expansion only."""

    def approximation(self, xp, small):
        steps = 1 - self.sizes[1:-1] / self.sizes[:-2]
        offsets = xp.stack([xp.sum(steps[k:]) for k in range(steps.shape[0])] + [0 * self.s])
        depth = offsets.shape[0]
        level = xp.pow(self.s, 2 * self.s / self.s / depth)
        return {"strengths squared": level + small**2 * (offsets - xp.sum(offsets) / depth)}


class DirectionIndependentOfTheStart(ls.laws.LayerImbalance):
    """Eq. (57): sigma^2 (1 - C/N)."""

    def prediction(self, xp):
        return {"imbalance": 1 - 1 / self.width}


class ErrorWithoutItsScale(ls.laws.TransferError):
    """Eq. (46): without kappa^2."""

    def prediction(self, xp):
        return {"error": super().prediction(xp)["error"] / self.scale(xp) ** 2}


LAWS = {
    "kernel counts the start twice": Mutant(KernelCountsTheStartTwice, "order kernel"),
    "across without the target": Mutant(AcrossWithoutTheTarget, "order across"),
    "no overlap at the start": Mutant(NoOverlapAtTheStart, "z r0 squared"),
    "covariance only once": Mutant(CovarianceOnlyOnce, "order output"),
    "spike over the root": Mutant(SpikeOverTheRoot, "order kernel"),
    "starts from q": Mutant(StartsFromQ, "order r"),
    "no logarithm": Mutant(NoLogarithm, "order r"),
    "kernel of phase two": Mutant(KernelOfPhaseTwo, "order kernel"),
    "modes wait twice": Mutant(ModesWaitTwice, "order product"),
    "twice the wait": Mutant(TwiceTheWait, "order half of the target"),
    "wait without the target": Mutant(WaitWithoutTheTarget, "order half of the loss"),
    "depth too many": Mutant(DepthTooMany, "order half of the loss at depth 3"),
    "exponent of the appendix": Mutant(ExponentOfTheAppendix, "order half of the target at depth 4"),
    "whole power of the target": Mutant(WholePowerOfTheTarget, "order kernel"),
    "rates in the driving kernel": Mutant(RatesInTheDrivingKernel, "order driving alignment"),
    "alignment of white inputs": Mutant(AlignmentOfWhiteInputs, "order alignment"),
    "projector for identity": Mutant(ProjectorForIdentity, "order kernel"),
    "kernel machine to second order": Mutant(KernelMachineToSecondOrder, "order function"),
    "direction does not turn": Mutant(DirectionDoesNotTurn, "order gap from the start", seed=2),
    "better in deeper layers": Mutant(BetterInDeeperLayers, "order layer 2"),
    "half the mean square": Mutant(HalfTheMeanSquare, "order layer 1"),
    "correction of the paper": Mutant(CorrectionOfThePaper, "order strengths squared"),
    "ratio one layer off": Mutant(RatioOneLayerOff, "order strengths squared"),
    "direction independent of the start": Mutant(DirectionIndependentOfTheStart, "z imbalance"),
    "error without its scale": Mutant(ErrorWithoutItsScale, "z error"),
}
