"""Known-wrong formulas of single modes and block-structured kernels, most of them printed in a thesis (2024)."""

import numpy as np

import linsolve as ls
from mutants import Mutant


class PullOfTheOtherSign(ls.HiddenMode):
    """Seleznova 2024, eq. (40): the pull of a layer on its own product with the wrong sign (here in w)."""

    def velocity(self, xp, z):
        r = -xp.sum(z.w * z.h, axis=-1) - self.s
        return self.State(-(self.eta_w * r)[..., None] * z.h, super().velocity(xp, z).h)


class LossWithoutHalf(ls.HiddenMode):
    """The clock of the loss ``(w.h - s)^2``, twice as fast."""

    def solution(self, xp, t, z0):
        return super().solution(xp, 2 * t, z0)


class RatesSwapped(ls.HiddenMode):
    """Learning rates of the two layers exchanged in the closed form; right wherever they are equal."""

    def solution(self, xp, t, z0):
        other = type(self).__mro__[1](self.s, self.eta_h, self.eta_w)
        return other.solution(xp, t, z0)


class SigmoidForAll(ls.HiddenMode):
    """The sigmoid of balanced modes for ``G``, with the conserved product of ``|g+|`` and ``|g-|`` dropped."""

    def solution(self, xp, t, z0):
        a, b, k = xp.sqrt(self.eta_h), xp.sqrt(self.eta_w), xp.sqrt(self.eta_w * self.eta_h)
        plus, minus = (a[..., None] * z0.w + sign * b[..., None] * z0.h for sign in (1, -1))
        size, end = xp.sum(plus**2, axis=-1), 4 * k * self.s
        e = xp.exp(-2 * k * self.s * t)
        root = xp.sqrt(abs(end / (e * (end - size) + size)))
        plus, minus = plus * root[..., None], minus / root[..., None]
        w, h = (plus + minus) / (2 * a[..., None]), (plus - minus) / (2 * b[..., None])
        start = (t == 0)[..., None]
        return self.State(xp.where(start, z0.w, w), xp.where(start, z0.h, h))


class AlongWithoutHalf(ls.HiddenMode):
    def along(self, xp, t, z0):
        closed = super().along(xp, t, z0)
        return closed | {"loss": 2 * closed["loss"]}


class TimeToResidual(ls.HiddenMode):
    """The loss taken for the squared residual."""

    def time_to(self, xp, z0, *, loss):
        return super().time_to(xp, z0, loss=loss / 2)


class BalancedLimit(ls.HiddenMode):
    """Final weights of equal length, as if the modes were balanced."""

    def limit(self, xp, z0):
        end = super().limit(xp, z0)
        size = xp.sqrt(xp.sum(end.w**2, axis=-1) / xp.sum(end.h**2, axis=-1))[..., None]
        return self.State(end.w / xp.sqrt(size), end.h * xp.sqrt(size))


class BalanceOfEqualRates(ls.HiddenMode):
    def invariants(self, xp, z):
        return {"balance": z.w**2 - z.h**2}


class KernelWithOneRate(ls.HiddenMode):
    def rates(self, xp, z):
        return {"output": -self.eta_w * (xp.sum(z.w**2, axis=-1) + xp.sum(z.h**2, axis=-1)) * self.residual(xp, z)}


class EqualSizes(ls.BlockKernel):
    """Three exponentials with the mean class size, used on classes of unequal size."""

    def blocks(self, xp):
        blocks = super().blocks(xp)
        m = xp.ones_like(self.sizes) * self._count / self.sizes.shape[-1]
        contrast, whole = (self.within - self.between)[..., None] * m, self.between * self._count
        first = xp.arange(m.shape[-1]) == m.shape[-1] - 1
        values = (self.diagonal - self.within)[..., None] + contrast
        values = values + xp.where(first, whole[..., None], xp.zeros_like(m))
        return blocks._replace(values=xp.concat([blocks.values[..., :1], values], axis=-1))


class ClassesWithoutTheirSize(ls.BlockKernel):
    """``lam_c = lam_s + (w - b)``: the number of samples of a class forgotten."""

    def blocks(self, xp):
        blocks = super().blocks(xp)
        own = blocks.values[..., :1]
        sizes = blocks.roots[..., :1] ** 2
        return blocks._replace(values=xp.concat([own, own + (blocks.values[..., 1:] - own) / sizes], axis=-1))


class OneRate(ls.BlockKernel):
    """Samples said to be learned as fast as their class."""

    def solution(self, xp, t, z0):
        blocks = self.blocks(xp)
        values = xp.concat([blocks.values[..., 1:2], blocks.values[..., 1:]], axis=-1)
        contrasts, y = blocks.applied(xp, xp.exp(-values * (self.eta * t)[..., None]), z0.r)
        return self.State(xp.where(t[..., None] == 0, z0.r, contrasts + blocks.spread(xp, y)))


class ClassAveragesUnweighted(ls.BlockKernel):
    """Class means in place of ``sqrt(m_c)`` times them: not orthonormal unless all sizes are equal."""

    def blocks(self, xp):
        blocks = super().blocks(xp)
        return blocks._replace(vectors=blocks.vectors / blocks.roots[..., :, None] * blocks.roots[..., :1, None])


class MeanLossOfTheThesis(ls.BlockKernel):
    """Seleznova 2024, eq. (2.60): the mean loss with a solution that forgot its 1/N."""

    def velocity(self, xp, z):
        return self.State(super().velocity(xp, z).r / z.r.shape[-1])

    def loss(self, xp, z):
        return super().loss(xp, z) / z.r.shape[-1]


class AllIsLearned(ls.BlockKernel):
    def limit(self, xp, z0):
        return self.State(0 * z0.r)


class SampleLossInTheClasses(ls.BlockKernel):
    def along(self, xp, t, z0):
        closed = super().along(xp, t, z0)
        return closed | {"loss_class": closed["loss_class"] + closed["loss_sample"]}


class DecayOfTheLossWithoutTwo(ls.BlockKernel):
    def rates(self, xp, z):
        return {"loss": super().rates(xp, z)["loss"] / 2}


class BiasAlone(ls.BiasedMode):
    """The bias relaxed at its own rate, as on the set ``w = h = 0``, weights and all else as they are."""

    def solution(self, xp, t, z0):
        z = super().solution(xp, t, z0)
        end = super().solution(xp, xp.full_like(z0.B, xp.inf), z0).B
        return z._replace(B=xp.where(t == 0, z0.B, end + (z0.B - end) * xp.exp(-self.N * t)))


class BiasFrozen(ls.BiasedMode):
    """The mode without bias, whose target is what the first bias leaves."""

    def solution(self, xp, t, z0):
        mode = ls.HiddenMode(1 - z0.B, self.m + 0 * z0.B, self.mu + 0 * z0.B)
        z = mode.solution(xp, t, mode.State(z0.w, z0.h))
        return z0._replace(w=z.w, h=z.h, B=z0.B + 0 * z.w[..., 0])


class SpuriousFactor(ls.BiasedMode):
    """Seleznova 2024, eq. (46), first line: the rate of the features put in twice."""

    def velocity(self, xp, z):
        v = super().velocity(xp, z)
        return v._replace(h=self.mu[..., None] * v.h)


class MissingM(ls.BiasedMode):
    """Seleznova 2024, eqs. (47), (57): the number of samples of a class forgotten, here in the pace of the weights."""

    def solution(self, xp, t, z0):
        other = ls.BiasedMode(xp.ones_like(self.m), self.mu, self.N)
        return ls.BiasedMode.solution(other, xp, t, z0)


class LambertForAll(ls.BiasedMode):
    """The final bias of ``E = 0``, a Lambert W, from every start."""

    def limit(self, xp, z0):
        from scipy.special import lambertw

        k = self.N / (2 * np.sqrt(self.m * self.mu))
        p = k * lambertw(np.abs(np.sum(z0.w * z0.h, axis=-1)) / k * np.exp((1 - z0.B) / k)).real
        return super().limit(xp, z0)._replace(B=1 - p)


class BalanceSwapped(ls.BiasedMode):
    def invariants(self, xp, z):
        return {"balance": self.m[..., None] * z.w**2 - self.mu[..., None] * z.h**2}


class BiasedTimeToResidual(ls.BiasedMode):
    def time_to(self, xp, z0, *, loss):
        return super().time_to(xp, z0, loss=loss / 2)


class BiasedAlongWithoutHalf(ls.BiasedMode):
    def along(self, xp, t, z0):
        closed = super().along(xp, t, z0)
        return closed | {"loss": 2 * closed["loss"]}


class KernelWithoutBias(ls.BiasedMode):
    def rates(self, xp, z):
        return {"output": -(self.ntk(xp, z) - self.N) * self.residual(xp, z)}


def _singular(cls, seen_by):
    flow = cls(diagonal=1.0, within=1.0, between=0.25, sizes=[3, 1, 2], eta=0.7)
    return Mutant(flow, cls.State(np.random.default_rng(3).normal(size=6)), seen_by)


def _mutant(cls, seen_by):
    return Mutant(*cls.example(np.random.default_rng(3)), seen_by)


HIDDEN = {
    "sign of (40)": _mutant(PullOfTheOtherSign, "velocity"),
    "loss without half": _mutant(LossWithoutHalf, "residual"),
    "rates swapped": _mutant(RatesSwapped, "residual"),
    "sigmoid for all": _mutant(SigmoidForAll, "residual"),
    "along without half": _mutant(AlongWithoutHalf, "along"),
    "time to the residual": _mutant(TimeToResidual, "time_to"),
    "balanced limit": _mutant(BalancedLimit, "limit"),
    "balance of equal rates": _mutant(BalanceOfEqualRates, "invariants"),
    "kernel with one rate": _mutant(KernelWithOneRate, "rates"),
}

BLOCK = {
    "equal sizes": _mutant(EqualSizes, "residual"),
    "classes without their size": _mutant(ClassesWithoutTheirSize, "residual"),
    "one rate": _mutant(OneRate, "residual"),
    "averages unweighted": _mutant(ClassAveragesUnweighted, "residual"),
    "mean loss of the thesis": _mutant(MeanLossOfTheThesis, "residual"),
    "all is learned": _singular(AllIsLearned, "limit"),
    "sample loss in the classes": _mutant(SampleLossInTheClasses, "along"),
    "decay without two": _mutant(DecayOfTheLossWithoutTwo, "rates"),
}

BIASED = {
    "bias alone": _mutant(BiasAlone, "residual"),
    "bias frozen": _mutant(BiasFrozen, "residual"),
    "spurious factor of (46)": _mutant(SpuriousFactor, "velocity"),
    "missing m of (47)": _mutant(MissingM, "residual"),
    "Lambert W for all": _mutant(LambertForAll, "limit"),
    "balance swapped": _mutant(BalanceSwapped, "invariants"),
    "biased time to the residual": _mutant(BiasedTimeToResidual, "time_to"),
    "biased along without half": _mutant(BiasedAlongWithoutHalf, "along"),
    "kernel without bias": _mutant(KernelWithoutBias, "rates"),
}
