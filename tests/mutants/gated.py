"""Known-wrong forms of the race of pathways and of the law of unimodal bias."""

import numpy as np

import linsolve as ls
from linsolve.solvability.branched.branches import Branches
from linsolve.solvability.branched.race import Race
from linsolve.solvability.conditions import Condition
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


class WithoutTheTurn(ls.laws.UnimodalBias):
    """B's start taken along its correlation on the plateau, as if A were learned at once."""

    def _passage(self, near):
        left = self.moments.sizes[2]
        return np.append(1.0, self.moments.left / left) / 2


class CorrelationAlone(ls.laws.UnimodalBias):
    """B at its own correlation on the plateau: |Sigma_yB| in place of that with the residual of A."""

    @property
    def limit(self):
        return 1 + (1 - self.moments.sizes[1]) / self.moments.sizes[1]


class WholeStart(ls.laws.UnimodalBias):
    """All of A's start in place of its growing half."""

    def _branch(self, name):
        last, first = super()._branch(name)
        return (2 * last, 2 * first) if name == "a" else (last, first)

    def simulated(self, small):
        return ls.laws.UnimodalBias(**self.parameters()).simulated(small)


WRONG_LAWS = {
    "without the turn": (WithoutTheTurn, "order delay of B"),
    "whole start": (WholeStart, "order delay of A"),
}


def unnoticed(self, contexts, columns, tolerance):
    """Contexts of any frequencies and inputs taken as equal."""
    return (
        Condition("equal frequencies", 0.0, "", tolerance=tolerance),
        Condition("same input moments", 0.0, "", tolerance=tolerance),
    )


def by_norms(self, one, other):
    """Correlation of blocks by their norms, which weak inputs hardly change."""
    c = self.covariance[0]
    sizes = [np.linalg.norm(c[each.columns, each.columns]) for each in (one, other)]
    return float(np.linalg.norm(c[one.columns, other.columns]) / np.sqrt(np.prod(sizes)))


def by_norm_of_the_mean(self, contexts, columns, tolerance):
    """Second moments of contexts compared by their norms, which weak inputs hardly change."""
    own = self.covariance[contexts][:, columns, columns]
    mean = np.mean(own, axis=0)
    away = max(float(np.linalg.norm(each - mean)) for each in own) / float(np.linalg.norm(mean))
    same = Condition("same input moments", away, "", tolerance=tolerance)
    return unnoticed(self, contexts, columns, tolerance)[0], same


# wrong formulas of `applies` and `solve` for branches: the class, its attribute, and what stands there instead
BRANCHES = {
    "speed of a private pathway for the shared one": (Race, "speed", staticmethod(lambda branch: 1)),
    "speed without the root": (Race, "speed", staticmethod(lambda branch: len(branch.contexts) ** 2)),
    "all contexts counted as one": (Branches, "clock", property(lambda self: 3 * np.sqrt(self.rates.prod()))),
}
# those that replace the integrated network, too: only a simulation sees them
UNSEEN = {
    "errors that are not shared": (Branches, "correlation", lambda self, one, other: 0.0),
    "unequal contexts": (Branches, "equal_contexts", unnoticed),
}
# conditions that do not see weak inputs
WEAK = {"correlation": by_norms, "equal_contexts": by_norm_of_the_mean}
