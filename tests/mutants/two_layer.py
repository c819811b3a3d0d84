"""Known-wrong formulas of the two-layer network, as printed by Xu and Ziyin 2024 unless said otherwise."""

import numpy as np

import linsolve as ls
from linsolve.core.flow import Flow
from mutants import Mutant


def theorem_1(flow, xp, t, z0, *, rho=None, sign=-1, rate_w=None):
    """Theorem 1 of the paper, evaluated as printed but for what is asked to be otherwise.

    `rho` is the printed length of the input, `sign` that of ``alpha_-`` in the numerator of eq. (5), `rate_w` the
    learning rate under which the change of ``w`` is divided; by default each as it should be.
    """
    length = xp.sqrt(xp.sum(flow.x**2, axis=-1)) if rho is None else rho
    under = flow.eta_u if rate_w is None else rate_w
    h = flow.hidden(xp, z0) / length[..., None]
    b, a = xp.sqrt(flow.eta_u)[..., None] * h, xp.sqrt(flow.eta_w)[..., None] * z0.u
    p, q = (b + a) / 2, (b - a) / 2
    k = (flow.gamma * length) ** 2
    k_p, k_q = k * xp.sum(p * p, axis=-1), k * xp.sum(q * q, axis=-1)
    drive = xp.sqrt(flow.eta_u * flow.eta_w) * flow.gamma * length * flow.y
    c = xp.sqrt(drive**2 + 4 * k_p * k_q)
    plus, minus = (drive + c) / (2 * k_p), (drive - c) / (2 * k_p)
    xi = (1 - plus) / (1 - minus) * xp.exp(-4 * c * t)
    grown = xp.sqrt((plus + sign * xi * minus) / (1 - xi))[..., None]
    dp, dq = p * (grown - 1), q * (1 / grown - 1)
    w = z0.w + (dp + dq)[..., :, None] * (flow.x / (xp.sqrt(under) * length)[..., None])[..., None, :]
    return flow.State((p + dp - q - dq) / xp.sqrt(flow.eta_w)[..., None], w)


class AsItShouldBe(ls.TwoLayer):
    """Theorem 1 with all corrections: not a mutant, the control of those below."""

    def conditions(self, xp, z0):
        p = xp.sqrt(self.eta_u)[..., None] * self.hidden(xp, z0)
        p = p + xp.sqrt(self.eta_w * xp.sum(self.x**2, axis=-1))[..., None] * z0.u
        return {"P = 0": xp.where(xp.sum(p * p, axis=-1) == 0, xp.ones_like(self.y), xp.zeros_like(self.y))}

    def solution(self, xp, t, z0):
        return theorem_1(self, xp, t, z0)


class RootMeanSquareLength(ls.TwoLayer):
    """Below eq. (4): rho with 1/d0."""

    def solution(self, xp, t, z0):
        return theorem_1(self, xp, t, z0, rho=xp.sqrt(xp.sum(self.x**2, axis=-1) / self.x.shape[-1]))


class MixedSignsOfAlpha(ls.TwoLayer):
    """Eq. (5) with the alpha_- of eq. (8): two conventions for its sign at once."""

    def solution(self, xp, t, z0):
        return theorem_1(self, xp, t, z0, sign=1)


class WThroughTheOtherRate(ls.TwoLayer):
    """Theorem 1: the change of w divided by sqrt(eta_w) rho."""

    def solution(self, xp, t, z0):
        return theorem_1(self, xp, t, z0, rate_w=self.eta_w)


class KernelWithSwappedRates(ls.TwoLayer):
    """Eq. (10): each layer's learning rate on the other layer's part of the kernel."""

    def ntk_between(self, xp, z, x1, x2):
        swapped = ls.TwoLayer(y=self.y, gamma=self.gamma, eta_u=self.eta_w, eta_w=self.eta_u, x=self.x)
        return swapped.ntk_between(xp, z, x1, x2)

    def along(self, xp, t, z0):
        return super().along(xp, t, z0) | {"ntk": self.ntk(xp, self.solution(xp, t, z0))}


class ProductsWithoutRates(ls.TwoLayer):
    """Section 3.2: 4 p q = u^2 - w^2, conserved only for equal learning rates."""

    def invariants(self, xp, z):
        square = xp.sum(self.x**2, axis=-1)
        return {"balance": z.u**2 - self.hidden(xp, z) ** 2 / square[..., None]}


class OnlyWhatTheDataSee(ls.TwoLayer):
    """The part of w across the data dropped: right for the output, wrong for the weights, and not by much."""

    definition = Flow.definition

    def _project(self, xp, z):
        h = self.hidden(xp, z)
        return z._replace(w=h[..., :, None] * (self.x / xp.sum(self.x**2, axis=-1)[..., None])[..., None, :])

    def solution(self, xp, t, z0):
        exact = super().solution(xp, t, z0)
        moved = (t != 0)[..., None, None]
        return exact._replace(w=xp.where(moved, self._project(xp, exact).w, exact.w))

    def invariants(self, xp, z):
        return {"balance": super().invariants(xp, z)["balance"]}


class OneLayerOfTheLoss(ls.TwoLayerOrder):
    """The order parameters driven by half of what moves them, in velocity and closed form alike."""

    def velocity(self, xp, z):
        return self.State(*(v / 2 for v in super().velocity(xp, z)))

    def solution(self, xp, t, z0):
        return super().solution(xp, t / 2, z0)

    def along(self, xp, t, z0):
        return super().along(xp, t / 2, z0)

    def time_to(self, xp, z0, *, loss):
        return 2 * super().time_to(xp, z0, loss=loss)

    def lifetime(self, xp, z0):
        return tuple(2 * end for end in super().lifetime(xp, z0))

    def step(self, xp, z, h):
        return super().step(xp, z, h / 2)


class KernelNormWithoutItsCross(ls.WhitenedTwoLayer):
    """The kernel's norm without the cross term of its two layers: an alignment that may exceed one."""

    def kernel_alignment(self, xp, z):
        cross = 2 * z.gram_in[..., 0, 0] * z.gram_out[..., 0, 0]  # of a network with one input and one output
        n_out, n_in = self.target.shape[-2:]
        square = n_out * xp.sum(z.gram_in**2, axis=(-2, -1)) + n_in * xp.sum(z.gram_out**2, axis=(-2, -1))
        return super().kernel_alignment(xp, z) * xp.sqrt((square + cross) / square)

    kernel_alignment.observable = ls.WhitenedTwoLayer.declared["kernel_alignment"]


class LossFromOne(ls.WhitenedTwoLayer):
    """A constant added to the loss, which moves no weight."""

    def loss(self, xp, z):
        return super().loss(xp, z) + 1


class NoConditions(ls.WhitenedTwoLayer):
    """The closed form offered from every start."""

    def conditions(self, xp, z0):
        return {name: 0 * value for name, value in super().conditions(xp, z0).items()}


class AlignmentSquared(ls.WhitenedTwoLayer):
    """The square of the alignment, which also lies between -1 and 1."""

    def kernel_alignment(self, xp, z):
        return super().kernel_alignment(xp, z) ** 2

    kernel_alignment.observable = ls.WhitenedTwoLayer.declared["kernel_alignment"]


class HalfTheRate(ls.FrozenKernel):
    """The loss falls half as fast as stated."""

    def rates(self, xp, z):
        return {"loss": super().rates(xp, z)["loss"] / 2}


class NeverFast(ls.FrozenKernel):
    """An alignment declared to be at most 0.1."""

    @ls.observable(bounds="[0, 0.1]")
    def residual_alignment(self, xp, z):
        return super().residual_alignment(xp, z)


RATES = {"y": 1.2, "gamma": 0.8, "eta_u": 0.4, "eta_w": 1.5, "x": [0.6, -0.8, 0.5]}


def start(across=1.0):
    """A generic start, the part of w across the data scaled."""
    flow, z0 = ls.TwoLayer(**RATES), ls.TwoLayer.init(4, 3, sigma_u=0.4, sigma_w=0.7, rng=3)
    seen = np.outer(z0.w @ flow.x, flow.x) / np.sum(flow.x**2)
    return (z0.u, seen + across * (z0.w - seen))


ORDER = {"y": 1.2, "gamma": 0.8, "eta_u": 0.4, "eta_w": 1.5, "rho": 0.9}

TWO_LAYER = {
    "rho with 1/d0": Mutant(RootMeanSquareLength(**RATES), start(), "residual"),
    "two signs of alpha_-": Mutant(MixedSignsOfAlpha(**RATES), start(), "residual"),
    "w through sqrt(eta_w)": Mutant(WThroughTheOtherRate(**RATES), start(), "residual"),
    "kernel with swapped rates": Mutant(KernelWithSwappedRates(**RATES), start(), "rates"),
    "4 p q without rates": Mutant(ProductsWithoutRates(**RATES), start(), "invariants"),
    "w across the data dropped": Mutant(OnlyWhatTheDataSee(**RATES), start(1e-6), "dop853"),
    "half of the order's velocity": Mutant(OneLayerOfTheLoss(**ORDER), (0.05, 0.02, 0.01), "velocity"),
}
_WHITENED, _START = ls.WhitenedTwoLayer.example(np.random.default_rng(0))
_KERNEL, _OUTPUTS = ls.FrozenKernel.example(np.random.default_rng(0))

BOUNDED = {
    "loss from one": Mutant(LossFromOne(**_WHITENED.parameters()), _START, "definition"),
    "no conditions": Mutant(NoConditions(**_WHITENED.parameters()), _START, "conditions"),
    "alignment squared": Mutant(AlignmentSquared(**_WHITENED.parameters()), _START, "observables"),
    "half the rate": Mutant(HalfTheRate(**_KERNEL.parameters()), _OUTPUTS, "rates"),
    "never fast": Mutant(NeverFast(**_KERNEL.parameters()), _OUTPUTS, "bounds"),
    "kernel norm without its cross term": Mutant(
        KernelNormWithoutItsCross(target=[[2.0]]), tuple(ls.WhitenedTwoLayer.of([[0.1]], [[0.1]])), "bounds"
    ),
}
