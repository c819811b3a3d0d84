"""Wrong formulas of neural collapse, most of them as published in a thesis (2024)."""

import numpy as np

import linsolve as ls
from linsolve.systems.collapse import ZeroTarget
from mutants import Mutant

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


class EntriesForVectors(ls.NeuralCollapse):
    """Saxe et al. 2014 for one mode, ``w.h = |w| |h|``: right for parallel weights, not for vectors of hidden units."""

    def _modes(self, xp, centered):
        found = super()._modes(xp, centered)
        return found._replace(wh=xp.sqrt(xp.where(found.ww > 0, found.ww * found.hh, 0 * found.ww)))


class ScatterAtTheRateSquared(ls.NeuralCollapse):
    """Seleznova 2024, eq. (46): ``H2' = -mu_s (E + m H2 H2^T) H2``, where E has the ``mu_s`` already."""

    def _scattered(self, xp, t, scatter, used):
        return scatter.at(xp, t, used, self.rates_of_features(xp)[0] ** 2)


class ScatterWithoutM(ls.NeuralCollapse):
    """Seleznova 2024, eq. (47): ``A' = -E A - A E - 2 A^2`` for ``A = H2 H2^T``, which is ``D D^T/m``: no m."""

    def _scattered(self, xp, t, scatter, used):
        root = xp.sqrt(xp.asarray(self._each) + 0 * scatter.hh)
        less = scatter._replace(
            gram=scatter.gram / root[..., None, None] ** 2, wh=scatter.wh / root, hh=scatter.hh / root**2
        )
        row, ww, gram = super()._scattered(xp, t, less, used)
        return row * root[..., None], ww, gram * root[..., None, None] ** 2


class EndOfTrainingForEver(ls.NeuralCollapse):
    """Seleznova 2024, eq. (44), from `end_of_training`: class means held, although scatter moves their classifier.

    ``W' = -W D D^T``, ``D' = -mu_s W^T W D`` for scatter D of rank one are a `HiddenMode`.
    """

    def conditions(self, xp, z0):
        return {}

    def solution(self, xp, t, z0):
        head, scatter, pattern = (xp.asarray(v) for v in END)
        one, turned = xp.asarray([[1.0], [-1.0]]), xp.matrix_transpose
        mode = ls.HiddenMode(s=0 * z0.b[..., 0], eta_w=xp.sum(pattern**2), eta_h=2 * self.rates_of_features(xp)[0])
        z = mode.solution(xp, t, mode.State(head, scatter))
        w = one * z.w[..., None, :]
        h = xp.asarray([[1.0], [0.0], [0.0]]) * xp.asarray([1.0, 1.0, -1.0, -1.0]) + z.h[..., :, None] * pattern
        return self.State(w @ h, w @ turned(w), turned(h) @ h, z0.b + 0 * z.w[..., :1])


def modes():
    """Return the start of the example whose modes are apart."""
    return type(EXAMPLE[1])(*(v[2] for v in EXAMPLE[1]))


def seen_scatter():
    """Return four classes of two samples, in binary fractions: modes apart, scatter that the average output sees."""
    flow = ls.NeuralCollapse(kappa_d=2.25, kappa_c=1.0, kappa_n=0.375, classes=4, m=2)
    signs = np.array([[1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]])
    w, means = np.zeros((4, 8)), np.zeros((8, 4))
    for k, (a, b) in enumerate((((9, 5), (7, 12)), ((14, -3), (4, 8)), ((6, 6), (11, -2)))):
        w[:, 2 * k : 2 * k + 2], means[2 * k : 2 * k + 2] = np.outer(signs[k], a) / 32, np.outer(b, signs[k]) / 32
    w[:, 6:] = np.array([10, 4]) / 32
    h = np.repeat(means, 2, axis=1)
    h[6:] = np.outer([5, 9], [1, -1, 2, -2, -1, 1, 1, -1]) / 32
    return flow, flow.of(h, w, np.full(4, 0.25))


# what the contrast of two classes reads, where features scatter, and by how much sample by sample
END = [0.5, 0.75, 0.0], [0.0, 0.5, 0.0], [1.0, -1.0, 0.5, -0.5]


def end_of_training():
    """Return two classes that are fitted but for scatter, which their contrast sees: ``R1 = 0`` and ``W H2 != 0``."""
    flow = ls.NeuralCollapse(kappa_d=2.0, kappa_c=1.0, kappa_n=0.5, classes=2, m=2)
    head, scatter, pattern = END
    h = np.outer([1, 0, 0], [1, 1, -1, -1]) + np.outer(scatter, pattern)
    return flow, flow.of(h, np.outer([1, -1], head), np.full(2, 0.5))


def apart():
    """Return the lambda-balanced example with a mean of features and outputs on hidden units of its own."""
    z = type(EXAMPLE[1])(*(v[1] for v in EXAMPLE[1]))
    return z._replace(product=z.product + 0.125, gram_w=z.gram_w + 0.25, gram_h=z.gram_h + 0.5)


def scattered():
    """Return features that scatter within classes, where eq. (40) and the right one differ."""
    rng = np.random.default_rng(5)
    flow = EXAMPLE[0]
    return flow.of(0.5 * rng.normal(size=(5, 6)), 0.5 * rng.normal(size=(3, 5)), 0.3 * rng.normal(size=3))


def seen(mutant, problem=None):
    """Return a mutant in place of a flow, and the start."""
    flow, z0 = seen_scatter() if problem is None else problem
    return mutant(**flow.parameters()), z0


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
    "entries for vectors": Mutant(*of(EntriesForVectors, modes()), "invariants"),
    "eq. (46): mu_s twice": Mutant(*seen(ScatterAtTheRateSquared), "residual"),
    "eq. (47): m": Mutant(*seen(ScatterWithoutM), "residual"),
    "eq. (44): for ever": Mutant(*seen(EndOfTrainingForEver, end_of_training()), "residual"),
    "angles beyond their bound": Mutant(*of(AnglesOfAnOrthogonalFrame), "bounds"),
}

HEAD = ls.FrozenHead.example(np.random.default_rng(0))


class HeadWithoutTheBiasRate(ls.FrozenHead):
    """Residual averages at ``mu_g W W^T``, the N of the bias forgotten."""

    def _decays(self, xp, t, s):
        found = super()._decays(xp, t, s)
        x = self.rates_of_features(xp)[2][..., None] * s[..., 0] ** 2
        return [*found[:2], type(found[2])(xp.exp(-x * t[..., None])[..., None], found[2].grown)]


class HeadOfTheOtherSign(ls.FrozenHead):
    """Seleznova 2024, eq. (72): the average's pull on features with a minus."""

    def velocity(self, xp, z):
        v, r = super().velocity(xp, z), self.residual(xp, z)
        push = self.kappa_n[..., None, None] * xp.sum(r, axis=-1)[..., :, None]
        return v._replace(h=v.h + 2 * xp.matrix_transpose(self.w) @ (push + 0 * r))


class HeadWithFrozenBias(ls.FrozenHead):
    """The bias left where it is, although it learns."""

    def solution(self, xp, t, z0):
        z = super().solution(xp, t, z0)
        return z._replace(b=z0.b + 0 * z.b)


class HeadOfSamples(ls.FrozenHead):
    """Every part at the rate of samples, as if the kernel had no blocks: the loss alone."""

    def along(self, xp, t, z0):
        found = super().along(xp, t, z0)
        return {"loss": 3 * found["loss_sample"]}


class HeadThatForgetsWhatItDoesNotSee(ls.FrozenHead):
    """A limit of features in the range of W alone."""

    def limit(self, xp, z0):
        z = super().limit(xp, z0)
        return z._replace(h=xp.linalg.pinv(self.w) @ self.w @ z.h)


FROZEN = {
    "bias rate forgotten": Mutant(HeadWithoutTheBiasRate(**HEAD[0].parameters()), HEAD[1], "residual"),
    "eq. (72): sign": Mutant(HeadOfTheOtherSign(**HEAD[0].parameters()), HEAD[1], "velocity"),
    "bias frozen": Mutant(HeadWithFrozenBias(**HEAD[0].parameters()), HEAD[1], "residual"),
    "one rate": Mutant(HeadOfSamples(**HEAD[0].parameters()), HEAD[1], "along"),
    "unseen features forgotten": Mutant(HeadThatForgetsWhatItDoesNotSee(**HEAD[0].parameters()), HEAD[1], "limit"),
}

# classes of unequal sizes


def hadamard(n=4):
    """Return three classes of 2, 1, 1 samples, in binary fractions: balanced, white features of mean zero."""
    rows = np.array([[1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]]) / 2
    w = np.random.default_rng(3).integers(-12, 13, (3, n)) / 16
    flow = ls.NeuralCollapse(kappa_d=4.375, kappa_c=0.375, kappa_n=0.375, classes=3, m=[2, 1, 1])
    return flow, flow.of(2 * w.T @ rows, w, np.array([0.5, 0.25, 0.25]))


UNEVEN = ls.FrozenHead(2.0, 1.0, 0.4, 3, [3, 1, 2], HEAD[0].w[0])
UNEVEN_START = UNEVEN.State(HEAD[1].h[0], HEAD[1].b[0])


class HeadOfTheMeanSize(ls.FrozenHead):
    """Class sizes replaced by their mean in the kernel on class averages: right for equal sizes."""

    def kernel_of_classes(self, xp):
        mean = xp.asarray(self._count) / self._classes
        lift = (self.kappa_d - self.kappa_c + mean * (self.kappa_c - self.kappa_n)) * xp.eye(self._classes)
        return lift + self.kappa_n * mean * xp.ones((self._classes, self._classes))


class PullOfClassesCountedOnce(ls.NeuralCollapse):
    """``W' = -m R1 H1^T`` with the mean size in place of the class sizes; right for equal sizes."""

    def velocity(self, xp, z):
        v, y = super().velocity(xp, z), self._members(xp)
        mean = xp.asarray(self._count) / self._classes
        means = self.residual(xp, z) @ xp.matrix_transpose(y) / xp.sum(y, axis=-1)
        return v._replace(b=-mean * xp.sum(means, axis=-1))


class WhiteAtTheRateOfClasses(ls.NeuralCollapse):
    """The time ``sqrt(kappa_d) t`` in place of ``sqrt(kappa_d - kappa_c) t``."""

    def solution(self, xp, t, z0):
        z = super().solution(xp, t * xp.sqrt(self.kappa_d / (self.kappa_d - self.kappa_c)), z0)
        return z._replace(b=super().solution(xp, t, z0).b)


class BiasToEvenFrequencies(ls.NeuralCollapse):
    """The bias towards ``1/C``, as for equal sizes."""

    def solution(self, xp, t, z0):
        z = super().solution(xp, t, z0)
        return z._replace(b=z0.b + (1 / xp.asarray(self._classes) - z0.b) * -xp.expm1(-self._count * t)[..., None])


UNEQUAL = {
    "mean size in the kernel": Mutant(HeadOfTheMeanSize(**UNEVEN.parameters()), UNEVEN_START, "residual"),
    "mean size in the bias": Mutant(*seen(PullOfClassesCountedOnce, hadamard()), "velocity"),
    "pace of the samples": Mutant(*seen(WhiteAtTheRateOfClasses, hadamard()), "residual"),
    "even frequencies": Mutant(*seen(BiasToEvenFrequencies, hadamard()), "residual"),
}

# target zero

NOTHING = ZeroTarget.example(np.random.default_rng(0))


class ImbalanceScaledTwice(ZeroTarget):
    """Seleznova 2024, eq. (46): ``H2' = -mu_s (E + m H2 H2^T) H2``, where E has the ``mu_s`` already."""

    def solution(self, xp, t, z0):
        return self.State(*super().solution(xp, self.eta_d * t, z0))


class ScatterWithoutItsRate(ZeroTarget):
    """Seleznova 2024, eqs. (47)-(49): ``A' = -E A - A E - 2 A^2``, the m missing."""

    def solution(self, xp, t, z0):
        rate = self.eta_w[..., None, None]
        less = super().solution(xp, t, z0._replace(gram_d=z0.gram_d / rate))
        return less._replace(gram_d=less.gram_d * rate)


class EverythingDecays(ZeroTarget):
    """Scatter that always vanishes, as if the imbalance were positive semi-definite."""

    def limit(self, xp, z0):
        z = super().limit(xp, z0)
        return z._replace(gram_d=0 * z.gram_d)


ZERO = {
    "eq. (46): mu_s twice": Mutant(ImbalanceScaledTwice(**NOTHING[0].parameters()), NOTHING[1], "residual"),
    "eq. (47): m": Mutant(ScatterWithoutItsRate(**NOTHING[0].parameters()), NOTHING[1], "residual"),
    "all scatter decays": Mutant(EverythingDecays(**NOTHING[0].parameters()), NOTHING[1], "limit"),
}
