"""Known-wrong formulas of the kernel regime; each names the check that must reject it."""

from typing import Any, ClassVar, NamedTuple

import numpy as np

import linsolve as ls
from linsolve.numerics.scalar import phi
from linsolve.numerics.spectrum import exponents
from mutants import Mutant


class MeanLossWithoutItsMean(ls.FrozenKernel):
    """Seleznova 2024: the velocity (2.59) of the mean loss, with the solution (2.60) that forgot its 1/N."""

    def loss(self, xp, z):
        return super().loss(xp, z) / z.f.shape[-1]

    def velocity(self, xp, z):
        return self.State(super().velocity(xp, z).f / z.f.shape[-1])


class EverythingIsLearned(ls.FrozenKernel):
    """The textbook limit of an invertible kernel, used on a singular one."""

    def limit(self, xp, z0):
        return self.State(self.y + 0 * z0.f)


class EigenvectorsTransposed(ls.FrozenKernel):
    """Rows of V taken for its columns."""

    def solution(self, xp, t, z0):
        s = self.spectrum(xp)
        c = xp.exp(-exponents(xp, s.values, self.eta * t)) * s.vector(xp, z0.f - self.y)
        return self.State(xp.where(t[..., None] == 0, z0.f, self.y + s.coordinates(xp, c)))


class CutTooHigh(ls.FrozenKernel):
    """A cut-off for eigenvalues a tenth of the largest: a slow mode never learns."""

    def spectrum(self, xp):
        s = super().spectrum(xp)
        cut = s.values * 10 < xp.max(s.values, axis=-1, keepdims=True)
        return s._replace(values=xp.where(cut, xp.zeros_like(s.values), s.values))


class SlowestModeConserved(ls.FrozenKernel):
    """The slowest mode that does learn, taken for one that does not."""

    def invariants(self, xp, z):
        return {"unlearnable": self.spectrum(xp).coordinates(xp, z.f - self.y)[..., :2]}


class StepByFlow(ls.FrozenKernel):
    """A descent step that is the flow's own: exact, so of the wrong order."""

    def step(self, xp, z, h):
        return self.solution(xp, h, z)


class HeavyBallWithoutItsMemory(ls.FrozenKernel):
    """Momentum 1/2 as twice the step."""

    def step(self, xp, z, h):
        return super().step(xp, z, 2 * h)


class LossWithoutItsHalf(ls.FrozenKernel):
    def along(self, xp, t, z0):
        closed = super().along(xp, t, z0)
        return closed | {"loss": 2 * closed["loss"]}


class RateOfTheResidual(ls.FrozenKernel):
    """The loss said to fall as the residual does, without the kernel's second factor of the residual."""

    def rates(self, xp, z):
        return {"loss": -self.eta * xp.sum(abs(super().velocity(xp, z).f), axis=-1)}


class OneKernelForTheBatch(ls.FrozenKernel):
    """Starts averaged over the batch."""

    def solution(self, xp, t, z0):
        lead = tuple(range(z0.f.ndim - 1))
        return super().solution(xp, t, self.State(0 * z0.f + xp.sum(z0.f, axis=lead) if lead else z0.f))


class WithTestPoints(ls.Flow):
    """Outputs f on training and g on test inputs, so that `predict` is proved as the flow it is."""

    kernel: Any = ls.parameter("K", "kernel", axes=("n", "n"))
    y: Any = ls.parameter("y", "targets", axes=("n",))
    k_x: Any = ls.parameter("k", "kernel with test inputs", axes=("m", "n"))
    eta: Any = ls.parameter(r"\eta", "learning rate", domain="(0, inf)", default=1.0)

    class State(NamedTuple):
        f: Any
        g: Any

    axes: ClassVar = {"f": ("n",), "g": ("m",)}

    def loss(self, xp, z):
        return xp.sum((z.f - self.y) ** 2, axis=-1) / 2

    def descent(self, xp, z, gradient):
        push = -self.eta[..., None] * gradient.f
        turned = xp.matrix_transpose
        return self.State(push @ turned(self.kernel), push @ turned(self.k_x))

    def velocity(self, xp, z):
        return self.descent(xp, z, self.State(z.f - self.y, 0 * z.g))

    def solution(self, xp, t, z0):
        kernel = self.kernel + 0 * self.k_x[..., :1, :1]  # with the batch of both
        frozen = ls.FrozenKernel(kernel, self.y, self.eta)
        times = xp.reshape(t, t.shape[: t.ndim - z0.f.ndim + 1])
        f = frozen.solution(xp, t, frozen.State(z0.f)).f
        return self.State(f, self.predicted(xp, frozen, times, z0))

    def predicted(self, xp, frozen, t, z0):
        return frozen.predict(t, frozen.State(z0.f), self.k_x, z0.g)

    @classmethod
    def example(cls, rng):
        """Return test inputs that no positive semi-definite kernel allows: their outputs drift for ever."""
        frozen, z0 = ls.FrozenKernel.example(rng)
        k_x, g = rng.normal(size=(2, 4)), rng.normal(size=2)
        return cls(frozen.kernel, frozen.y, k_x, frozen.eta), cls.State(z0.f, g)


class NullSpaceFrozenAtTestPoints(WithTestPoints):
    """``-expm1(-max(lam, 0) t) / |lam|``, which is 0, not t, where rounding made a zero eigenvalue negative."""

    def predicted(self, xp, frozen, t, z0):
        s = frozen.spectrum(xp)
        c = s.coordinates(xp, z0.f - self.y)
        t = xp.reshape(t, t.shape + (1,) * z0.f.ndim)
        weight = t * phi(xp, s.values * self.eta * t)
        weight = xp.where(s.values == 0, xp.zeros_like(weight), weight)
        return z0.g - self.eta * s.vector(xp, weight * c) @ xp.matrix_transpose(self.k_x)


def _mutant(cls, seen_by):
    return Mutant(*cls.example(np.random.default_rng(3)), seen_by)


KERNEL = {
    "mean loss without its mean": _mutant(MeanLossWithoutItsMean, "residual"),
    "everything is learned": _mutant(EverythingIsLearned, "limit"),
    "eigenvectors transposed": _mutant(EigenvectorsTransposed, "residual"),
    "cut too high": _mutant(CutTooHigh, "residual"),
    "slowest mode conserved": _mutant(SlowestModeConserved, "invariants"),
    "step by flow": _mutant(StepByFlow, "descent"),
    "momentum as step": _mutant(HeavyBallWithoutItsMemory, "descent"),
    "loss without its half": _mutant(LossWithoutItsHalf, "along"),
    "rate of the residual": _mutant(RateOfTheResidual, "rates"),
    "one start for the batch": _mutant(OneKernelForTheBatch, "batch"),
    "frozen in the null space": _mutant(NullSpaceFrozenAtTestPoints, "residual"),
}
