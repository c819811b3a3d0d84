"""Lazy and feature training as Geiger et al. 2020 print it for other networks than this one; all to be rejected."""

import numpy as np

import linsolve as ls
from mutants import Mutant as FlowMutant
from mutants.laws import Mutant


class LossWithoutAlpha(ls.LazyTwoLayer):
    """Eq. (7) without its 1/alpha^2: alpha^2 as fast as what is solved."""

    def loss(self, xp, z):
        return (self.F(xp, z) - self.y) ** 2


class TargetOfTheOutput(ls.LazyTwoLayer):
    """f - f_ref in place of F compared with y, in loss and velocity alike: the closed form does not follow."""

    def loss(self, xp, z):
        return self.residual(xp, z) ** 2

    def residual(self, xp, z):
        return super().residual(xp, z) + self.y / self.alpha - self.y

    residual.observable = ls.LazyTwoLayer.declared["residual"]


class CrossoverWithoutItsCoefficient(ls.laws.LazyTraining):
    """Section 3.1: alpha* = O(h^(-1/2)), taken as G = 1."""

    def alpha_star(self, xp, h):
        return xp.abs(self.y) / (xp.sqrt(h) * self.rho)


class TimesOfHalfTheLoss(ls.laws.LazyTraining):
    """Times of the loss (F - y)^2 / (2 alpha^2)."""

    def approximation(self, xp, small):
        found = super().approximation(xp, small)
        return found | {"half time": 2 * found["half time"]}


class KernelOfTheStartFluctuatesOnly(ls.laws.LazyTraining):
    """Section 3.2: fluctuations of the output are those of the kernel at initialization; the overlap forgotten."""

    def approximation(self, xp, small):
        return super().approximation(xp, small) | {
            "F with fluctuations": type(self)._without_overlap(self).approximation(xp, small)["F with fluctuations"]
        }

    def _without_overlap(self):
        xi = self.xi * np.array([1, 0, 1])
        return ls.laws.LazyTraining(y=self.y, scaled_alpha=self.scaled_alpha, rho=self.rho, xi=xi, times=self.times)


class LazyExponentOne(ls.laws.LazyRegime):
    """After eq. (18): the kernel changes by 1/(sqrt(h) alpha) in the lazy regime."""

    def approximation(self, xp, small):
        return super().approximation(xp, small) | {"kernel change": small}


class TimeWithoutItsLogarithm(ls.laws.FeatureRegime):
    """Eq. (19): t ~ sqrt(h) alpha."""

    def approximation(self, xp, small):
        return super().approximation(xp, small) | {"half time": small / (4 * self.rho**2)}


class LazyVarianceInBothRegimes(ls.laws.LazyFluctuations):
    """Eq. (17) with the coefficient of a frozen kernel: "in both regimes"."""

    def prediction(self, xp):
        x = 4 * self.rho**2 * self.times
        return super().prediction(xp) | {"F": (x * xp.exp(-x)) ** 2}


class LazyVarianceAcross(ls.laws.LazyFluctuations):
    """The same across the line of the data."""

    def prediction(self, xp):
        return super().prediction(xp) | {"F across": (self.rho_across / self.rho) ** 2 / 4}


class ChangeWithRootOfTheWidth(ls.laws.FixedWidthKernelChange):
    """After eq. (18), 1/(sqrt(h) alpha), at fixed width."""

    def prediction(self, xp):
        return super().prediction(xp) | {"size": xp.sqrt(self.h)}


class LazyChangeWithoutItsSecondOrder(ls.laws.DeepLazyRegime):
    """After eq. (18): the change of the kernel is linear in 1/alpha."""

    def approximation(self, xp, small):
        found = super().approximation(xp, small)
        jet, g = self.jet, float(small) * float(self.target[0])
        return found | {"kernel change": xp.asarray(jet.slope / jet.kernel**2 * g)}


class LazyTimeOfOneLayer(ls.laws.DeepLazyRegime):
    """The half time of one hidden layer at every depth."""

    def approximation(self, xp, small):
        return super().approximation(xp, small) | {"half time": xp.asarray(np.log(2) / 4)}


class CurvatureOfOneLayer(ls.laws.DeepLazyFluctuations):
    """dK/K_0 = G^2/2 at every depth."""

    def prediction(self, xp):
        return super().prediction(xp) | {"kernel": xp.asarray(0.5)}


class VarianceOfOneLayer(ls.laws.DeepLazyFluctuations):
    """Eq. (17) with the coefficient 1/4 at every depth."""

    def prediction(self, xp):
        return super().prediction(xp) | {"output across": xp.asarray(0.25)}


_FLOW, _START = ls.LazyTwoLayer.example(np.random.default_rng(2))

FLOWS = {
    "loss without alpha": FlowMutant(LossWithoutAlpha(**_FLOW.parameters()), _START, "velocity"),
    "target of the output": FlowMutant(TargetOfTheOutput(**_FLOW.parameters()), _START, "residual"),
}
LAWS = {
    "alpha* at G = 1": Mutant(CrossoverWithoutItsCoefficient, "order kernel change at alpha*"),
    "times of half the loss": Mutant(TimesOfHalfTheLoss, "order half time"),
    "no overlap at the start": Mutant(KernelOfTheStartFluctuatesOnly, "order F with fluctuations"),
    "lazy exponent 1": Mutant(LazyExponentOne, "order kernel change"),
    "t ~ sqrt(h) alpha": Mutant(TimeWithoutItsLogarithm, "order half time"),
    "lazy variance in both regimes": Mutant(LazyVarianceInBothRegimes, "z F"),
    "lazy variance across": Mutant(LazyVarianceAcross, "z F across"),
    "1/(sqrt(h) alpha) at fixed width": Mutant(ChangeWithRootOfTheWidth, "z size"),
    "lazy change without its second order": Mutant(LazyChangeWithoutItsSecondOrder, "order kernel change"),
    "lazy time of one layer": Mutant(LazyTimeOfOneLayer, "order half time"),
    "curvature of one layer": Mutant(CurvatureOfOneLayer, "z kernel"),
    "variance of one layer": Mutant(VarianceOfOneLayer, "z output across"),
}
