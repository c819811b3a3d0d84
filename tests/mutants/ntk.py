"""Statements on the tangent kernel as printed, where that is wrong; each names the check that must reject it."""

import numpy as np

import linsolve as ls
from linsolve.systems.random_networks import mean_field, printed, spread
from linsolve.systems.random_networks.limits import dispersion
from mutants.laws import Mutant


def between(widths, shift):
    """Products of 1 + shift/n_k over k from l to m - 1, in row l and column m, for layers counted from 1."""
    depth = len(widths)
    found = np.ones((depth, depth))
    for row in range(depth):
        for column in range(row + 1, depth):
            found[row, column] = np.prod(1 + shift / widths[row + 1 : column + 1])
    return found


def correlation(widths, c):
    return between(widths, c) / 3 + 2 / 3 * between(widths, -1)


def weights_squared(widths, *, twice=2.0, split=True, c=5, coupled=None):
    """E Theta_W^2 / (|x|^4 a^(2L-2)) with omega = 1: (13), with or without each of its three errors."""
    share, grown = widths / widths[0], between(widths, c)
    coupled = correlation(widths, c) if coupled is None else coupled
    grow = grown[:1].T * grown[:, -1] if split else grown[0, -1]
    crossed = np.outer(share, share) * grow * coupled
    return grown[0, -1] * np.sum(share**2) + twice * np.sum(np.triu(crossed, 1))


class PrintedSecondMoment(ls.laws.NTKMoments):
    """Eq. (13) as printed: one of each cross term, all times X_1L, and C = prod (1 + 1/n)."""

    def wrong(self, c):
        return {"twice": 1.0, "split": False, "coupled": between(self.widths, 1)}

    def prediction(self, xp):
        _, c = spread(self.slope)
        # units of omega = 1: the ratio of the printed sum to the true one
        ratio = weights_squared(self.widths, c=c, **self.wrong(c)) / weights_squared(self.widths, c=c)
        right = super().prediction(xp)
        return right | {"weights squared": ratio * right["weights squared"]}


class PrintedSecondMomentOfNarrowNetworks(PrintedSecondMoment):
    """Example at widths where the errors do not nearly cancel."""

    @classmethod
    def example(cls, rng):
        ones = np.ones(5)
        return cls(widths=[3, 5, 5, 5, 5], weight_variance=2.0, slope=0.0, omega=ones, beta=ones)


class NoFactorTwo(PrintedSecondMoment):
    """Eq. (13): only the missing factor 2."""

    def wrong(self, c):
        return {"twice": 1.0}


class GrowthOfAllLayersInCrossTerms(PrintedSecondMoment):
    """Eq. (13): only X_1L for X_1l X_mL in the cross terms."""

    def wrong(self, c):
        return {"split": False}


class PrintedCorrelation(ls.laws.NTKMoments):
    """Lemma A.4(2): C = prod (1 + 1/n)."""

    def correlation(self, xp):
        return xp.prod(1 + 1 / self.widths[1:])


class WidthRatioInTheGradients(ls.laws.NTKMoments):
    """Section 3.1, (8), (9): p^l = sigma_w^2 (n_{l+1}/n_l) p^{l+1} E phi'^2."""

    def gradients(self, xp):
        return super().gradients(xp) / np.append(self.widths[1:], 1)


class NoLayerDies(ls.laws.NTKMoments):
    """Eqs. (12), (14): without the chance that a layer of ReLU units is dead."""

    def prediction(self, xp):
        gain, depth = self.weight_variance * spread(self.slope)[0], self.widths.shape[0]
        return super().prediction(xp) | {"biases": np.sum(self.beta * gain ** np.arange(depth)[::-1])}


class PrintedLimit(ls.laws.NTKDispersionLimit):
    """Eq. (8): e^(5 lambda)/(2 lambda) at large lambda."""

    def approximation(self, xp, small):
        return super().approximation(xp, small) | {"chaotic": printed.weights_limit(xp, self.ratio)}


class PrintedLimitAtTheEdge(ls.laws.NTKDispersionLimit):
    """Eq. (9), which inherits (8)."""

    def approximation(self, xp, small):
        edge = printed.edge_limit(xp, self.ratio, self.biases)
        return super().approximation(xp, small) | {"edge of chaos": edge}


class ThreePhasesOnly(ls.laws.NTKDispersionCrossover):
    """Theorem 3.1 read as it stands: the limit of the phase, however near its edge."""

    def approximation(self, xp, small):
        name = "ordered" if self.gain < 0 else "chaotic"
        return {"dispersion": dispersion(xp, name, self.ratio, spread(self.slope)[1], self.biases)}


class FirstStepRaisesTheKernel(ls.laws.NTKFirstStep):
    """Theorem 4.1, (21): the relative change goes to plus infinity."""

    def prediction(self, xp):
        found = super().prediction(xp)
        return found | {"change": -found["change"]}


class OnlyNeighboringLayers(ls.laws.NTKFirstStep):
    """The bound in the proof of theorem 4.1 taken for the sum."""

    def prediction(self, xp):
        gain, share = self.weight_variance * spread(self.slope)[0], 4 * self.omega[:-1] * self.omega[1:]
        biases = 4 * self.omega[1:] * self.beta[:-1] * self.fewer(xp, gain)
        return super().prediction(xp) | {"change": -xp.sum(share * self.neighbors(xp) + biases)}

    def fewer(self, xp, gain):
        """E f^2 |delta^(l+1)|^2, from what has a factor |x^(l-1)|^2 more."""
        n = self.widths
        before = xp.cumprod(xp.concat([xp.ones_like(n[:1]), 1 + 5 / n[1:]]))[:-1]
        depth = xp.arange(n.shape[0] - 1)
        return self.neighbors(xp) / before / (self.norm_squared * n[:-1] / n[0]) / gain**depth


class PrintedNeighbors(ls.laws.NTKFirstStep):
    """The proof of theorem 4.1: 2 |x|^4 a^(2L-1)/n_0, prod (1 + 5/n) of earlier, prod (1 + 1/n) of later layers."""

    def neighbors(self, xp):
        n, gain = self.widths, self.weight_variance * spread(self.slope)[0]
        one = xp.ones_like(n[:1])
        before = xp.cumprod(xp.concat([one, 1 + 5 / n[1:-1]]))
        after = xp.flip(xp.cumprod(xp.concat([one, xp.flip(1 + 1 / n[2:])])))
        return 2 * self.norm_squared**2 * gain ** (2 * n.shape[0] - 1) / n[0] * before * after


class SlowGrowthOfLaterLayers(ls.laws.NTKFirstStep):
    """The same, with only the error in the growth of later layers."""

    def neighbors(self, xp):
        later = xp.flip(self.widths[2:])
        ratio = xp.cumprod(xp.concat([xp.ones_like(self.widths[:1]), (1 + 1 / later) / (1 + 5 / later)]))
        return super().neighbors(xp) * xp.flip(ratio)


class OrderedStepFallsTwiceAsFast(ls.laws.NTKFirstStepLimit):
    """The proof of theorem 4.1: a^(2L) L^2 in the ordered phase."""

    def approximation(self, xp, small):
        found, depth = super().approximation(xp, small), self.ratio / small
        return found | {"ordered": found["ordered"] * self.gains[0] ** depth * depth**2}


class EdgeStepBySizeRatioAlone(ls.laws.NTKFirstStepLimit):
    """Section 1.3.1: at the edge of chaos the change is a function of depth over width."""

    def approximation(self, xp, small):
        found = super().approximation(xp, small)
        return found | {"edge of chaos": found["edge of chaos"] * small / self.ratio}


def printed_error_function(xp, s11, s22, s12):
    """Appendix E.2: a and b where their squares and product belong."""
    a, b = xp.sqrt(s11), xp.sqrt(s22)
    return mean_field.error_function(xp, a, b, s12 / xp.sqrt(a * b))


def printed_kernel(activation, gram, depth, weight_variance, bias_variance):
    """Eq. (2.55): Theta = sum of Sigma^l times the products of later E phi' phi', one index off, without sigma_w^2."""
    sigma = theta = weight_variance * gram + bias_variance
    for _ in range(depth - 1):
        own = np.diagonal(sigma)
        value, _ = activation.averages(np, own[:, None], own, sigma)
        sigma = weight_variance * value + bias_variance
        own = np.diagonal(sigma)
        theta = sigma + activation.averages(np, own[:, None], own, sigma)[1] * theta
    return theta


class BiasesStartAtZero(ls.laws.NTKMomentsWithBiases):
    """The moments (11)-(15), whose biases start at 0."""

    def prediction(self, xp):
        found = ls.ntk.log_moments(
            xp, self.widths, self.weight_variance, self.slope, xp.ones_like(self.widths), xp.ones_like(self.widths),
            self.widths[0],
        )  # fmt: skip
        return {"kernel": xp.exp(found.log_mean(xp)[-1]), "kernel squared": xp.exp(found.log_square(xp)[-1])}


class DispersionOfZeroBiases(BiasesStartAtZero):
    """Appendix D: the variance of the biases has no significant influence on the dispersion."""

    def prediction(self, xp):
        found, without = ls.laws.NTKMomentsWithBiases.prediction(self, xp), super().prediction(xp)
        return found | {"kernel squared": without["kernel squared"] / without["kernel"] ** 2 * found["kernel"] ** 2}


LAWS = {
    "biases start at zero": Mutant(BiasesStartAtZero, "z kernel"),
    "dispersion of zero biases": Mutant(DispersionOfZeroBiases, "z kernel squared"),
    "(13) as printed": Mutant(PrintedSecondMomentOfNarrowNetworks, "z weights squared"),
    "X_1L in the cross terms of (13)": Mutant(GrowthOfAllLayersInCrossTerms, "z weights squared"),
    "no factor 2 in (13)": Mutant(NoFactorTwo, "z weights squared"),
    "C of lemma A.4": Mutant(PrintedCorrelation, "z correlation"),
    "width ratio in the p-map": Mutant(WidthRatioInTheGradients, "z gradients"),
    "no layer dies": Mutant(NoLayerDies, "z biases"),
    "limit (8)": Mutant(PrintedLimit, "order chaotic"),
    "limit (9)": Mutant(PrintedLimitAtTheEdge, "order edge of chaos"),
    "no crossover": Mutant(ThreePhasesOnly, "order dispersion"),
    "sign of (21)": Mutant(FirstStepRaisesTheKernel, "z change"),
    "only neighbors in theorem 4.1": Mutant(OnlyNeighboringLayers, "z change"),
    "neighbors in theorem 4.1": Mutant(PrintedNeighbors, "z neighbors"),
    "growth in theorem 4.1": Mutant(SlowGrowthOfLaterLayers, "z neighbors"),
    "a^2L in the ordered phase": Mutant(OrderedStepFallsTwiceAsFast, "order ordered"),
    "no L at the edge": Mutant(EdgeStepBySizeRatioAlone, "order edge of chaos"),
}
