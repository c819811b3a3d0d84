"""Wrong laws of alignment; each names the quantity whose check must reject it."""

import numpy as np

import linsolve as ls
from mutants.laws import Mutant


class BoundForTheAlignment(ls.laws.FinalAlignment):
    """Below (16): the published bound, read as the value."""

    def approximation(self, xp, small):
        found = super().approximation(xp, small)
        return found | {"alignment": self.bound(xp) + 0 * found["alignment"]}


class OverlapOfTheStart(ls.laws.FinalAlignment):
    """The overlap of the layers at the start added to the alignment at the end."""

    def approximation(self, xp, small):
        found = super().approximation(xp, small)
        return {name: value + small * self.xi[1] * (name != "alignment") for name, value in found.items()}


class EqualLayersOfSizeOne(ls.laws.UnalignedLearningTime):
    """Section 4.1.1: the prefactor 1/(L - 2) of equal, aligned layers, for any draw."""

    def approximation(self, xp, small):
        found, (growth, time, _) = super().approximation(xp, small), self.leading
        depth, s = growth.depth, np.linalg.norm(self.target)
        moved = (1 / (depth - 2) - time) * float(small) ** (2 - depth) / (s * self.clock)
        return {name: value + moved for name, value in found.items()}


class SlopeWithoutTheTarget(ls.laws.FirstLayerAlignment):
    """(41): 2 beta^T W^T ... w / |W v|^2, without s."""

    def approximation(self, xp, small):
        found = super().approximation(xp, small)
        return found | {"slope": found["slope"] / np.linalg.norm(self.target)}


class GrowthOfOneLayer(ls.laws.FirstLayerAlignment):
    """The integral of g for twice the integral of g."""

    def approximation(self, xp, small):
        found = super().approximation(xp, small)
        first = self.equal_layers()[0]
        start = np.sum((first @ self.target) ** 2) / np.sum(self.target**2) / np.sum((first @ self.across) ** 2)
        return found | {"ratio": (found["ratio"] + start) / 2}


class DropsByTheValuesAlone(ls.laws.SaddleToSaddle):
    """Section 4.2 from a near-equal start: drop times proportional to 1/s_k."""

    def approximation(self, xp, small):
        found, s = super().approximation(xp, small), np.linalg.svd(self.target)[1]
        return found | {f"drop {k}": found["drop 1"] * s[0] / each for k, each in enumerate(s, 1)}


class HalfOfTheLossAtTheDrop(ls.laws.SaddleToSaddle):
    """The loss taken as halved at the blow-up of the mode that halves it."""

    def approximation(self, xp, small):
        found = super().approximation(xp, small)
        return found | {"half of the loss": found["drop 1"]}


class PhaseOneAlone(ls.laws.TwoPhaseKernel):
    """The outputs of phase I added without what they spare the second phase."""

    def approximation(self, xp, small):
        found, n = super().approximation(xp, small), self.y.shape[0]
        moved = self.eta * small * self.tau * (self.early[:, :n] @ (self.y - self.f0[:n]))
        return found | {"function with phase I": found["function"] + moved}


class WithoutTheRate(ls.laws.TwoPhaseKernel):
    """(12) with the learning rate left out of phase I."""

    def approximation(self, xp, small):
        found = super().approximation(xp, small / self.eta)
        return found


class ExponentOfOneHiddenLayer(ls.laws.DeepFeatureRegime):
    """a = 1, the exponent of one hidden layer, at every depth."""

    def approximation(self, xp, small):
        return super().approximation(xp, small) | {"kernel": xp.asarray(1 / small)}


class TimeOfEqualLayers(ls.laws.DeepFeatureRegime):
    """t_1 = 1/((L - 1) G), as if the layers were equal and aligned at the start."""

    def approximation(self, xp, small):
        found = super().approximation(xp, small)
        return found | {"half time": xp.asarray(small / (self.start.shape[0] - 2))}


class LossInTheDenominator(ls.laws.KernelSpeed):
    """(11): |D^2 f| / (L |D f|^2), with the loss in the denominator."""

    def approximation(self, xp, small):
        loss = xp.sum(self.target**2) / 2
        return {name: value / loss**2 for name, value in super().approximation(xp, small).items()}


LAWS = {
    "loss in the denominator": Mutant(LossInTheDenominator, "order ratio"),
    "exponent of one hidden layer": Mutant(ExponentOfOneHiddenLayer, "order kernel"),
    "time of equal layers": Mutant(TimeOfEqualLayers, "order half time"),
    "phase one alone": Mutant(PhaseOneAlone, "order function with phase I"),
    "without the rate": Mutant(WithoutTheRate, "order function with phase I"),
    "equal layers of size one": Mutant(EqualLayersOfSizeOne, "order half of the target"),
    "slope without the target": Mutant(SlopeWithoutTheTarget, "order slope"),
    "growth of one layer": Mutant(GrowthOfOneLayer, "order ratio"),
    "half of the loss at the drop": Mutant(HalfOfTheLossAtTheDrop, "order half of the loss"),
    "drops by the values alone": Mutant(DropsByTheValuesAlone, "order drop 2"),
    "bound for the alignment": Mutant(BoundForTheAlignment, "order alignment"),
    "overlap of the start": Mutant(OverlapOfTheStart, "order alignment with fluctuations"),
}
