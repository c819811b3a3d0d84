"""Known-wrong formulas, most of them printed in papers; each names the check that must reject it.

Those with ``definition = Flow.definition`` are flows that declare no raw network, so that fewer checks apply.
"""

from typing import NamedTuple

import linsolve as ls
from linsolve.core.flow import Flow


class Mutant(NamedTuple):
    flow: Flow
    z0: tuple
    seen_by: str


MODE = {"s": 1.7, "tau": 0.6}


class DoubledRate(ls.BalancedMode):
    """The factor 2 between the mode's equation and its loss put in twice, consistently in velocity and solution."""

    def velocity(self, xp, z):
        return self.State(2 * super().velocity(xp, z).a)

    def solution(self, xp, t, z0):
        return super().solution(xp, 2 * t, z0)

    def along(self, xp, t, z0):
        return super().along(xp, 2 * t, z0)

    def time_to(self, xp, z0, *, loss):
        return super().time_to(xp, z0, loss=loss) / 2

    def lifetime(self, xp, z0):
        return tuple(end / 2 for end in super().lifetime(xp, z0))

    def step(self, xp, z, h):
        return super().step(xp, z, 2 * h)


class AlmostTheRightTimeConstant(ls.BalancedMode):
    """A time constant wrong in the twelfth digit: any simulation agrees."""

    symbols = Flow.symbols
    definition = Flow.definition

    def _clock(self, t):
        return t * (10**12 - 1) / 10**12

    def solution(self, xp, t, z0):
        return super().solution(xp, self._clock(t), z0)

    def along(self, xp, t, z0):
        return super().along(xp, self._clock(t), z0)

    def time_to(self, xp, z0, *, loss):
        return super().time_to(xp, z0, loss=loss) / (10**12 - 1) * 10**12


class WrongInTheFortiethDigit(ls.BalancedMode):
    """The same beyond what any number checked here resolves; only symbols see it."""

    def solution(self, xp, t, z0):
        return super().solution(xp, t * (10**40 - 1) / 10**40, z0)

    def along(self, xp, t, z0):
        return super().along(xp, t * (10**40 - 1) / 10**40, z0)


class TextbookSigmoid(ls.BalancedMode):
    """Saxe's printed form, whose value at t = 0 is the start only up to rounding."""

    definition = Flow.definition

    def solution(self, xp, t, z0):
        return self.State(self.s / (1 + (self.s / z0.a - 1) * xp.exp(-2 * self.s * t / self.tau)))


class ConvergedTooSoon(ls.BalancedMode):
    """An exponential dropped as soon as it is small: right wherever one looks, except across the jump."""

    definition = Flow.definition

    def shared(self, xp, t, z0):
        sign, size, gap = super().shared(xp, t, z0)
        late = 2 * self.s * t / self.tau > 12
        return sign, xp.where(late, self.s + 0 * size, size), xp.where(late, 0 * gap, gap)


class StepOfOneLayer(ls.BalancedMode):
    """Gradient descent that moves only one of the two weights."""

    definition = Flow.definition

    def step(self, xp, z, h):
        return self.State(z.a * (1 + h * (self.s - z.a) / self.tau))


class LossWithoutItsHalf(ls.BalancedMode):
    """The closed form of the loss without the 1/2 of the loss."""

    def along(self, xp, t, z0):
        return {"loss": 2 * super().along(xp, t, z0)["loss"]}


class EveryModeIsLearned(ls.BalancedMode):
    """The textbook limit, which forgets that a balanced mode keeps its sign."""

    def limit(self, xp, z0):
        return self.State(self.s + 0 * z0.a)


class HalfTimeOfThePaper(ls.BalancedMode):
    """Atanasov et al. 2022, section 3.1.2: e^(st) in place of e^(2st), so that every learning time doubles."""

    def time_to(self, xp, z0, *, loss):
        return 2 * super().time_to(xp, z0, loss=loss)


class SumOverTheBatch(ls.BalancedMode):
    """A reduction that forgot its axis."""

    def solution(self, xp, t, z0):
        return super().solution(xp, t, self.State(xp.max(z0.a) + 0 * z0.a))


class OneTargetForTheBatch(ls.BalancedMode):
    """A reduction of a parameter that forgot its axis."""

    def solution(self, xp, t, z0):
        return self._with(s=xp.max(self.s) + 0 * self.s).mode(xp, t, z0)

    def mode(self, xp, t, z0):
        return super().solution(xp, t, z0)


class DoubledMetric(ls.BalancedMode):
    """Twice the learning rates in the descent along the loss, not in velocity and solution."""

    def descent(self, xp, z, gradient):
        return self.State(2 * super().descent(xp, z, gradient).a)


class StepWithTheOtherSign(ls.BalancedMode):
    """The term of second order in the step with its sign flipped: still of order 1."""

    def step(self, xp, z, h):
        pull = h * xp.sign(z.a) * (self.s - z.a) / self.tau
        return self.State(z.a * (1 + 2 * pull - pull**2))


class TwiceTheLifetime(ls.BalancedMode):
    """The solution backward in time offered beyond its pole."""

    def lifetime(self, xp, z0):
        return tuple(2 * end for end in super().lifetime(xp, z0))


class HalfTheLifetime(ls.BalancedMode):
    """The solution backward in time refused long before its pole."""

    def lifetime(self, xp, z0):
        return tuple(end / 2 for end in super().lifetime(xp, z0))


BALANCED = {
    "doubled rate": Mutant(DoubledRate(**MODE), (0.05,), "velocity"),
    "time constant off by 1e-12": Mutant(AlmostTheRightTimeConstant(**MODE), (0.05,), "residual"),
    "time constant off by 1e-40": Mutant(WrongInTheFortiethDigit(**MODE), (0.05,), "symbols"),
    "textbook sigmoid": Mutant(TextbookSigmoid(**MODE), (0.05,), "start"),
    "doubled metric": Mutant(DoubledMetric(**MODE), (0.05,), "velocity"),
    "step with the other sign": Mutant(StepWithTheOtherSign(**MODE), (0.05,), "step"),
    "twice the lifetime": Mutant(TwiceTheLifetime(**MODE), (2.5,), "lifetime"),
    "half of the lifetime": Mutant(HalfTheLifetime(**MODE), (2.5,), "lifetime"),
    "converged too soon": Mutant(ConvergedTooSoon(**MODE), (0.05,), "semigroup"),
    "descent of one layer": Mutant(StepOfOneLayer(**MODE), (0.05,), "descent"),
    "loss without its half": Mutant(LossWithoutItsHalf(**MODE), (0.05,), "along"),
    "every mode is learned": Mutant(EveryModeIsLearned(**MODE), (-0.05,), "limit"),
    "half-time of the paper": Mutant(HalfTimeOfThePaper(**MODE), (0.05,), "time_to"),
    "one target for the batch": Mutant(OneTargetForTheBatch(**MODE), (0.05,), "batch"),
    "sum over the batch": Mutant(SumOverTheBatch(**MODE), (0.05,), "batch"),
}
