"""Wrong laws of generalization in time; each names the quantity whose check must reject it."""

import numpy as np

import linsolve as ls
from linsolve.systems.generalization.deterministic_equivalents import Equivalents
from linsolve.systems.generalization.modes import Mode
from linsolve.systems.generalization.spikes import bulk_overlap, spike
from mutants.laws import Mutant


class WithoutTheAtom(ls.laws.GeneralizationInTime):
    """The continuous spectrum alone: directions without samples are forgotten."""

    def test_moments(self, xp, t):
        mean, variance = super().test_moments(xp, t)
        return mean - self.floor(), variance


class NoiseOfOneDirection(ls.laws.GeneralizationInTime):
    """Fitted label noise without the factor d/n."""

    def _sizes(self):
        signal, start, noise = super()._sizes()
        return [signal, start, noise * (self.samples / self.dimension)[..., None]]


class AllNoiseFitted(ls.laws.GeneralizationInTime):
    """Train error without the directions of the labels that no weights fit."""

    def train_moments(self, xp, t):
        mean, variance = super().train_moments(xp, t)
        left = xp.maximum(0 * self.samples, 1 - self.dimension / self.samples)
        return mean - left * self.noise_variance, variance


class SpreadOfHalfTheSquares(ls.laws.GeneralizationInTime):
    """The variance without the factor 2 of the square of a Gaussian."""

    def test_moments(self, xp, t):
        mean, variance = super().test_moments(xp, t)
        return mean, variance / 2


class TimeOfTheSummedLoss(ls.laws.GeneralizationInTime):
    """Units of time of half the mean squared error taken for those of the mean squared error."""

    def test_moments(self, xp, t):
        return super().test_moments(xp, 2 * t)


class IsotropicTest(ls.laws.GeneralizationOfData):
    """New inputs of the same variance in each direction."""

    def _modes(self, xp):
        spectrum, mixed = super()._modes(xp)
        size = xp.sum(mixed * xp.eye(mixed.shape[0])) / mixed.shape[0]
        return spectrum, size * xp.eye(mixed.shape[0])


class UncorrelatedDirections(ls.laws.GeneralizationOfData):
    """The variance without the products of different directions."""

    def _modes(self, xp):
        spectrum, mixed = super()._modes(xp)
        return spectrum, mixed * xp.eye(mixed.shape[0])


class RidgeWithoutBias(ls.laws.GeneralizationOfData):
    """Weight decay as faster learning alone."""

    def test_moments(self, xp, t):
        spectrum, mixed = self._modes(xp)
        modes = Mode.of(xp, spectrum.values, t, self.ridge)
        c = modes._replace(teacher=modes.start).weights(*self._sizes()) / spectrum.values.shape[0]
        return c @ np.diagonal(mixed), super().test_moments(xp, t)[1]


class IndependentResolvents(ls.laws.GeneralizationOfCovariance):
    """The product of two resolvents as if they were independent: without the denominator 1 - g."""

    def _numbers(self):
        found, *others = super()._numbers()
        return (Independent(found.values, found.samples), *others)


class Independent(Equivalents):
    """Deterministic equivalents without the correlation of two resolvents."""

    def correlated(self, left, right):
        return 1.0


class UnrenormalizedInputs(ls.laws.GeneralizationOfCovariance):
    """The covariance of new inputs taken for that of the samples: kappa = p."""

    def _numbers(self):
        found, *others = super()._numbers()
        return (Equivalents(found.values, 1e9), *others)


class SpikesAlone(ls.laws.GeneralizationOfAlignedStudent):
    """No overlap of the bulk with the teacher."""

    def test_mean(self, xp, t):
        values, weights = bulk_overlap(xp, self.strengths, self._aspect())
        return super().test_mean(xp, t) + 2 * xp.sum(weights * self._mode(xp, t, values), axis=-1)


class StrengthsUnchanged(ls.laws.GeneralizationOfAlignedStudent):
    """Spikes at the singular values of the teacher."""

    def _sum(self, xp, t, function):
        above = spike(xp, self.strengths, self._aspect())[1][:1]
        given, found = (function(s, self._mode(xp, t, s)) for s in (self.strengths[:1], above))
        return super()._sum(xp, t, function) + xp.sum(given - found, axis=-1)


LAWS = {
    "without the atom": Mutant(WithoutTheAtom, "z test error"),
    "noise of one direction": Mutant(NoiseOfOneDirection, "z train error", 2),
    "all noise fitted": Mutant(AllNoiseFitted, "z train error", 2),
    "spread of half the squares": Mutant(SpreadOfHalfTheSquares, "z test variance"),
    "isotropic test": Mutant(IsotropicTest, "z test error"),
    "uncorrelated directions": Mutant(UncorrelatedDirections, "z test variance"),
    "ridge without bias": Mutant(RidgeWithoutBias, "z test error"),
    "independent resolvents": Mutant(IndependentResolvents, "z test error"),
    "unrenormalized inputs": Mutant(UnrenormalizedInputs, "z train error"),
    "spikes alone": Mutant(SpikesAlone, "z test error"),
    "strengths unchanged": Mutant(StrengthsUnchanged, "z train error"),
    "time of the summed loss": Mutant(TimeOfTheSummedLoss, "z test error"),
}
