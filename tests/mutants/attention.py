"""Wrong formulas of linear attention; each names the check that must reject it."""

import linsolve as ls
from linsolve.systems.mode.deep_mode import DeepMode
from mutants import Mutant


class WithoutTheTrace(ls.LinearAttention):
    """The curvature ``lambda (1 + 1/N)``, without the part of the trace, in loss, velocity and closed form alike."""

    def _tokens(self, xp, z):
        context, variance = super()._tokens(xp, z)
        return context * (1 + variance.shape[-1]), variance


class ClockWithoutTheCurvature(ls.LinearAttention):
    """The time constant ``tau/lambda^2`` in the closed form."""

    def solution(self, xp, t, z0):
        _, variance = self._tokens(xp, z0)
        c = variance[..., 0] * (1 + (1 + variance.shape[-1]) / self.context)
        return super().solution(xp, t / c, z0)


class LossWithoutItsHalf(ls.LinearAttention):
    """The loss without its 1/2, on the clock of the loss with it."""

    def loss(self, xp, z):
        return 2 * super().loss(xp, z)


class MergedKeysAndQueries(ls.RankOneAttention):
    """Depth two in place of three: heads whose keys and queries are one weight."""

    def _modes(self, xp):
        modes = super()._modes(xp)
        return modes._with(depth=modes.depth - 1)


class SpeedOfTheVariance(ls.RankOneAttention):
    """Eigenvectors that grow at rates proportional to their variances, in place of their squares."""

    def _modes(self, xp):
        modes = super()._modes(xp)
        return modes._with(tau=modes.tau * self.variance)

    def descent(self, xp, z, gradient):
        modes = super()._modes(xp)._with(tau=self.tau[..., None])
        return self.State(modes.descent(xp, DeepMode.State(z.strengths), DeepMode.State(gradient.strengths)).a)


class LossFromZero(ls.RankOneAttention):
    """The loss without the error that the best strengths leave."""

    def least_loss(self, xp):
        return 0 * super().least_loss(xp)


def mutants(rng):
    """Return the mutants of random parameters, by name."""
    merged, start = ls.LinearAttention.example(rng)
    parameters = merged.parameters()
    separate, strengths = ls.RankOneAttention.example(rng)
    own = separate.parameters()
    return {
        "without the trace": Mutant(WithoutTheTrace(**parameters), start, "definition"),
        "clock without the curvature": Mutant(ClockWithoutTheCurvature(**parameters), start, "residual"),
        "loss without its half": Mutant(LossWithoutItsHalf(**parameters), start, "velocity"),
        "merged keys and queries": Mutant(MergedKeysAndQueries(**own), strengths, "definition"),
        "speed of the variance": Mutant(SpeedOfTheVariance(**own), strengths, "velocity"),
        "loss from zero": Mutant(LossFromZero(**own), strengths, "definition"),
    }
