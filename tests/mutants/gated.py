"""Known-wrong forms of the race of pathways."""

import numpy as np

import linsolve as ls
from mutants import Mutant


class SpeedWithoutTheRoot(ls.NeuralRace):
    """Speeds 2 s m/K in place of 2 s sqrt(m)/K in solution and velocity, which agree with each other."""

    def _metric(self, xp, z):
        return xp.sqrt(self.served) * super()._metric(xp, z)

    def shared(self, xp, t, z0):
        return ls.NeuralRace.shared(self._with(served=self.served**2), xp, t, z0)


class EqualSpeeds(ls.NeuralRace):
    """A closed form in which all pathways grow like the first."""

    def shared(self, xp, t, z0):
        return ls.NeuralRace.shared(self._with(served=self.served[..., :1] + 0 * self.served), xp, t, z0)


class OwnErrors(ls.NeuralRace):
    """Pathways that learn the target one by one: no race."""

    def velocity(self, xp, z):
        return self.State(self._metric(xp, z) * (self.s[..., None] - z.strengths))


class LimitOfTheFastest(ls.NeuralRace):
    """A limit in which the fastest pathway takes all of the target."""

    def limit(self, xp, z0):
        first = xp.astype(xp.arange(self.served.shape[-1]), xp.float64) == 0
        return self.State(xp.where(first, self.s[..., None] + 0 * z0.strengths, 0 * z0.strengths))


FLOW, START = ls.NeuralRace.example(np.random.default_rng(5))
GATED = {
    "speed without the root": Mutant(SpeedWithoutTheRoot(**FLOW.parameters()), START, "definition"),
    "equal speeds": Mutant(EqualSpeeds(**FLOW.parameters()), START, "dop853"),
    "own errors": Mutant(OwnErrors(**FLOW.parameters()), START, "velocity"),
    "limit of the fastest": Mutant(LimitOfTheFastest(**FLOW.parameters()), START, "limit"),
}
