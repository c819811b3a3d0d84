"""Known-wrong formulas of neural collapse, most of them printed in a thesis (2024) or one slip away from it."""

import numpy as np
from mutants import Mutant

import linsolve as ls

EXAMPLE = ls.NeuralCollapse.example(np.random.default_rng(0))


def of(mutant, start=None):
    """Return a mutant with the parameters of the example, and a start of it."""
    return mutant(**EXAMPLE[0].parameters()), EXAMPLE[1] if start is None else start


class PullOfTheOtherSign(ls.NeuralCollapse):
    """Seleznova 2024, eq. (40): ``W' = -m (R1 H1^T - W H2 H2^T)``; right where no class scatters."""

    def velocity(self, xp, z):
        v, y, turned = super().velocity(xp, z), self._members(xp), xp.matrix_transpose
        means = z.product @ turned(y) @ y / self._each
        scatter = z.product - means  # W H2
        gram = z.gram_h - z.gram_h @ turned(y) @ y / self._each  # H^T H2
        return v._replace(
            product=v.product + 2 * scatter @ turned(gram),
            gram_w=v.gram_w + 4 * scatter @ turned(scatter),
        )


class ClassesWithoutM(ls.NeuralCollapse):
    """``mu_c = mu_s + kappa_c - kappa_n``: the m missing, as in eqs. (47) and (57), here in the closed form alone."""

    def _centered(self, xp, z):
        seen, wrong = super()._centered(xp, z), self.kappa_d - self.kappa_n
        square = xp.sqrt(wrong / self._each)[..., None, None]
        return seen._replace(gram_in=seen.gram_in * seen.square / square, gram_out=seen.gram_out * square / seen.square,
                             square=square)  # fmt: skip


class PaceWithoutM(ls.NeuralCollapse):
    """The time ``sqrt(mu_c) t``: an m missing in the pace of the Riccati equation."""

    def solution(self, xp, t, z0):
        z = super().solution(xp, t / xp.sqrt(xp.asarray(self._each)), z0)
        return z._replace(b=super().solution(xp, t, z0).b)


class InvariantOfTheOtherSign(ls.NeuralCollapse):
    """The sign of eq. (28): scatter within classes subtracted, and class means with it."""

    def invariants(self, xp, z):
        kh = xp.matrix_transpose(self._through(xp, z.gram_h, inverse=True))
        one = xp.eye(kh.shape[-1])
        return {"imbalance": xp.sum(z.gram_w * xp.eye(3), axis=(-2, -1)) + xp.sum(kh * one, axis=(-2, -1))}


class BiasFrozen(ls.NeuralCollapse):
    """The bias left where it is, although it has not reached 1/C."""

    def solution(self, xp, t, z0):
        z = super().solution(xp, t, z0)
        return z._replace(b=z0.b + 0 * z.b)


class BiasAtTheRateOfAClass(ls.NeuralCollapse):
    """``b' = -m R1 1`` taken for ``exp(-m t)``: the sum over classes forgotten."""

    def solution(self, xp, t, z0):
        z = super().solution(xp, t, z0)
        return z._replace(b=super().solution(xp, t / self._classes, z0).b)


class SquareRootOfTheLimit(ls.NeuralCollapse):
    """Seleznova 2024, eq. (70): a root missing in the limit of ``M^T M``, and the inverse of it in ``W W^T``."""

    def limit(self, xp, z0):
        z, root = super().limit(xp, z0), xp.sqrt(self.rates_of_features(xp)[1] / self._each)
        return z._replace(gram_h=z.gram_h * root, gram_w=z.gram_w / root)


class DescentWithoutSecondOrder(ls.NeuralCollapse):
    """A step of the wrong length: twice the gradient."""

    def step(self, xp, z, h):
        return super().step(xp, z, 2 * h)


class AnglesOfAnOrthogonalFrame(ls.NeuralCollapse):
    """NC2 with ``1/(C - 1)`` in place of ``-1/(C - 1)``: beyond its bound."""

    @ls.observable(bounds="[0, 1]")
    def nc2_angles(self, xp, z):
        return 2 / (self._classes - 1) - super().nc2_angles(xp, z)


class ConstantModeAtTheRateOfClasses(ls.NeuralCollapse):
    """``mu_g`` taken for ``mu_c``: kernels between classes forgotten, right wherever features have no mean."""

    def _constant(self, xp, z, used):
        other = type(self)(self.kappa_d, self.kappa_c, self.kappa_n, self.classes, self.m)
        sample, middle, _ = super().rates_of_features(xp)
        object.__setattr__(other, "rates_of_features", lambda xp: (sample, middle, middle))
        return super(ConstantModeAtTheRateOfClasses, other)._constant(xp, z, used)


class MetricWithoutM(ls.NeuralCollapse):
    """A metric whose class eigenvalue forgets how many samples share it: ``kappa_d - kappa_n`` for ``mu_c``."""

    def _through(self, xp, a, *, inverse=False):
        sample, _, large = super().rates_of_features(xp)
        other = type(self)(self.kappa_d, self.kappa_c, self.kappa_n, self.classes, self.m)
        object.__setattr__(other, "rates_of_features", lambda xp: (sample, self.kappa_d - self.kappa_n, large))
        return super(MetricWithoutM, other)._through(xp, a, inverse=inverse)


def apart():
    """Return the lambda-balanced example with a mean of features and outputs on hidden units of its own."""
    z = type(EXAMPLE[1])(*(v[1] for v in EXAMPLE[1]))
    return z._replace(product=z.product + 0.125, gram_w=z.gram_w + 0.25, gram_h=z.gram_h + 0.5)


def scattered():
    """Return features that scatter within classes, where eq. (40) and the right one differ."""
    rng = np.random.default_rng(5)
    flow = EXAMPLE[0]
    return flow.of(0.5 * rng.normal(size=(5, 6)), 0.5 * rng.normal(size=(3, 5)), 0.3 * rng.normal(size=3))


COLLAPSE = {
    "eq. (40): sign": Mutant(*of(PullOfTheOtherSign, scattered()), "velocity"),
    "metric without m": Mutant(*of(MetricWithoutM), "velocity"),
    "mu_c without m": Mutant(*of(ClassesWithoutM), "residual"),
    "pace without m": Mutant(*of(PaceWithoutM), "residual"),
    "eq. (28): sign": Mutant(*of(InvariantOfTheOtherSign), "invariants"),
    "mu_g without kappa_n": Mutant(*of(ConstantModeAtTheRateOfClasses, apart()), "residual"),
    "bias frozen": Mutant(*of(BiasFrozen), "residual"),
    "bias at the rate of a class": Mutant(*of(BiasAtTheRateOfAClass), "residual"),
    "eq. (70): root": Mutant(*of(SquareRootOfTheLimit), "limit"),
    "step of twice the length": Mutant(*of(DescentWithoutSecondOrder), "descent"),
    "angles beyond their bound": Mutant(*of(AnglesOfAnOrthogonalFrame), "bounds"),
}
