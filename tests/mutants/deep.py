"""Known-wrong formulas for deep modes, as printed; each names the check that must reject it."""

import linsolve as ls
from mutants import Mutant

DEEP = {"s": 1.7, "depth": 3.0, "tau": 0.6}


class WithoutTheFactorOfDepth(ls.DeepMode):
    """Atanasov et al. 2022, eq. (39) as printed, in velocity and closed form alike."""

    def velocity(self, xp, z):
        return self.State(super().velocity(xp, z).a / self.depth)

    def solution(self, xp, t, z0):
        return super().solution(xp, t / self.depth, z0)

    def gap(self, xp, t, z0):
        return super().gap(xp, t / self.depth, z0)

    def time_to(self, xp, z0, *, loss):
        return super().time_to(xp, z0, loss=loss) * self.depth

    def step(self, xp, z, h):
        return super().step(xp, z, h / self.depth)


class LeadingOrderAsExact(ls.DeepMode):
    """Atanasov et al. 2022, eq. (40), its factor corrected: the growth without saturation, held at s once there."""

    def solution(self, xp, t, z0):
        m = 1 - 2 / self.depth
        left = xp.pow(z0.a, -m) - (self.depth - 2) * self.s * t / self.tau
        return self.State(xp.pow(xp.maximum(left, xp.pow(self.s, -m) + 0 * left), -1 / m))


class RateOfDepthTwo(ls.DeepMode):
    """The metric ``depth |a|``, right at depth 2 only."""

    def _shallow(self):
        return ls.DeepMode(s=self.s, depth=2 + 0 * self.depth, tau=2 * self.tau / self.depth)

    def velocity(self, xp, z):
        return self._shallow().velocity(xp, z)

    def solution(self, xp, t, z0):
        return self._shallow().solution(xp, t, z0)


MUTANTS = {
    "without the factor of depth": Mutant(WithoutTheFactorOfDepth(**DEEP), (0.05,), "velocity"),
    "leading order taken as exact": Mutant(LeadingOrderAsExact(**DEEP), (0.05,), "residual"),
    "rate of depth two": Mutant(RateOfDepthTwo(**DEEP), (0.05,), "velocity"),
}
