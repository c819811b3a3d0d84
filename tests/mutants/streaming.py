"""Wrong laws of streaming SGD; each names the quantity whose check must reject it."""

import linsolve as ls
from mutants.laws import Mutant


class NoiseOfTheMeanGradient(ls.laws.StreamingSGD):
    """Minibatch noise without the fourth moment of the inputs: d for d + 1."""

    def coefficients(self, xp):
        a, b, v = super().coefficients(xp)
        k = self.step * self.input_variance / self.batch
        return a - k**2 * self.batch, b, v


class LabelNoiseOncePerBatch(ls.laws.StreamingSGD):
    """The labels' noise shared by a minibatch: m^2 for m."""

    def coefficients(self, xp):
        a, b, v = super().coefficients(xp)
        return a, b * self.batch, v


class SpreadOfTheNoiseOnly(ls.laws.StreamingSGD):
    """The variance without the random contraction."""

    def coefficients(self, xp):
        a, b, (v0, v1, v2) = super().coefficients(xp)
        return a, b, (v0, v1, 0 * v2)


class NoCouplingOfModes(ls.laws.StreamingSGDAnisotropic):
    """Each mode by itself, without the rank-one term of the noise."""

    def modes(self, xp, c):
        lam, k = self.spectrum, self.step / self.batch
        return self.decay(xp) * c + k**2 * self.batch * lam * (lam * c + self.noise_variance)


class UncorrelatedModes(ls.laws.StreamingSGDAnisotropic):
    """The variance of the loss as a sum over modes."""

    def covariance(self, xp, c, v):
        return super().covariance(xp, c, v) * xp.eye(c.shape[0])


class GaussianErrors(ls.laws.StreamingSGDAnisotropic):
    """The variance of one mode without the Wick pairings of equal indices."""

    def covariance(self, xp, c, v):
        lam, k, eye = self.spectrum, self.step / self.batch, xp.eye(c.shape[0])
        found = super().covariance(xp, c, v)
        extra = k**4 * self.batch * (self.batch + 2) * lam**2 * (xp.sum(lam * c) + self.noise_variance) ** 2
        return found - 2 * eye * extra - 4 * eye * k**2 * self.batch * lam * c * xp.sum(lam * c)


LAWS = {
    "no fourth moment": Mutant(NoiseOfTheMeanGradient, "z loss"),
    "label noise once per batch": Mutant(LabelNoiseOncePerBatch, "z loss"),
    "spread of the noise only": Mutant(SpreadOfTheNoiseOnly, "z variance"),
    "no coupling of modes": Mutant(NoCouplingOfModes, "z loss"),
    "uncorrelated modes": Mutant(UncorrelatedModes, "z variance"),
    "Gaussian errors": Mutant(GaussianErrors, "z variance"),
}
