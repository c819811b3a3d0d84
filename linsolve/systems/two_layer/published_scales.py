"""Xu and Ziyin (2024), sections 3.4 and 4, appendix B: initial scales and phases of training."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from linsolve.core.network import trained
from linsolve.core.published_formula import Evidence, Source
from linsolve.systems.two_layer.published_line import NETWORK

__all__ = ["FORMULAS"]

formula = Source("xu_ziyin_2024", "two-layer linear network, hyperparameters as powers of kappa")


@formula(
    "4",
    "below (14)",
    "mean and variance of P over Gaussian starts",
    quote=(
        r"P and Q are random variables with expectation $(\eta_w \sigma_u^2 + \eta_u \sigma_w^2)/4$ and variance "
        r"$(\eta_w \sigma_u^2 + \eta_u \sigma_w^2)^2/8d$"
    ),
    latex=(
        r"\mathbb{E} P = \frac{\eta_w \sigma_u^2 + \eta_u \sigma_w^2}{4},\quad \operatorname{Var} P = "
        r"\frac{(\eta_w \sigma_u^2 + \eta_u \sigma_w^2)^2}{8 d}"
    ),
    setting="Gaussian initial weights; rho = |x|, see the record of the length below (4)",
    about=("TwoLayerOrder",),
    tolerance=1e-12,
)
def moments_of_the_start() -> Evidence:
    """Compare with Gauss-Hermite quadrature over the two normal weights of one unit, exact for polynomials."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(6)
    weights = np.outer(weights, weights) / (2 * np.pi)
    su, sw, d, (eta_u, eta_w) = 0.7, 1.3, 5, (0.5, 1.9)
    p2 = (np.sqrt(eta_u) * sw * nodes[:, None] + np.sqrt(eta_w) * su * nodes) ** 2 / 4
    first, second = np.sum(weights * p2), np.sum(weights * p2**2)
    size = eta_w * su**2 + eta_u * sw**2
    return Evidence([first, (second - first**2) / d], [size / 4, size**2 / (8 * d)])


def _slope_of_the_output(c_u: float, c_w: float, c_gamma: float) -> float:
    """Return the exponent in kappa of the initial output of one draw, from its values at two kappas."""
    u, w = NETWORK.u, NETWORK.w @ NETWORK.x
    f = [k**c_gamma * (k ** (c_u / 2) * u) @ (k ** (c_w / 2) * w) for k in (1e3, 1e6)]
    return float(np.log(f[1] / f[0]) / np.log(1e3))


@formula(
    "4.2",
    "first paragraph",
    "scales at which the initial output is of order 1",
    quote=(
        r"We set $c_u = \max\{0, c_w\}$ and $c_{\gamma} = \min\{-c_w/2, 0\}$. This choice ensures that the "
        "initial model output is O(1). In this case, (15) is satisfied. By Theorem 2, the network is in the "
        "kernel phase if and only if $c_w > 0$."
    ),
    latex=r"c_u = \min\{0, c_w\},\; c_\gamma = \min\{-c_w/2, 0\}",
    verdict="typographical",
    reason=(
        "with min for max the output is of order 1, (15) holds and P/Q tends to 1 for c_w > 0; with max, for c_w > 0, "
        "the output grows as kappa^{c_w/2} and P/Q does not depend on kappa"
    ),
    setting="fixed width, Gaussian initial weights",
    about=("TwoLayer",),
)
def output_of_order_one() -> Evidence:
    """Compare with weights of one draw scaled as stated, at two values of kappa, with c_w = 1."""
    return Evidence(0.0, _slope_of_the_output(0.0, 1.0, -0.5), _slope_of_the_output(1.0, 1.0, -0.5))


@formula(
    "4.2",
    "Corollary 3 at fixed width",
    "kernel phases at fixed width",
    quote=(
        r"One important example for this section is the lazy training regime, where $c_u = c_w = c_d = 0$, and we can "
        r"choose $c_{\gamma} = 1$ and $c_{\eta} = -2$ according to Corollary 3, leading to a kernel phase in finite "
        r"width. [...] On the other hand, if we choose $\gamma = 1$ as commonly done, we have to choose $c_\eta = -c$ "
        "according to Corollary 3, leading to a kernel space."
    ),
    latex=r"\frac{K_\infty}{K_0} \to \sqrt{1 - \Bigl(\frac{P - Q}{P + Q}\Bigr)^2},\quad f_0 = 0 \iff P = Q",
    verdict="holds under a condition",
    reason=(
        "an initial output of 0, which section 4 names as the assumption of lazy training; Corollary 3 stands for "
        "infinite width, and at fixed width P/Q of independent layers of equal scale does not tend to 1"
    ),
    setting="fixed width, both layers of one scale, x = 1, gamma = 1",
    about=("TwoLayer",),
    tolerance=1e-3,
)
def kernel_phases_at_fixed_width() -> Evidence:
    """Compare with kernels of trained layers at two scales, from an output of 0 (order in kappa) and from a draw."""
    draw, first = np.random.default_rng(8).standard_normal((2, 4))
    still = draw - first * (first @ draw) / (first @ first)  # output 0
    changes = []
    for last in (still, draw):
        size = first @ first + last @ last
        for kappa in (30.0, 300.0):
            ends = trained([kappa**0.5 * first[:, None], kappa**0.5 * last[None]], [2.0])
            changes.append(sum(np.sum(layer**2) for layer in ends) / (kappa * size) - 1)
    share = 2 * first @ draw / size  # (P - Q)/(P + Q)
    order = np.log10(changes[1] / changes[0])
    return Evidence([order, changes[3]], [-2.0, np.sqrt(1 - share**2) - 1])


@formula(
    "B.4",
    "only paragraph",
    "the same scales in the appendix",
    quote=(
        r"we set $\kappa = 10$, $\sigma_u^2 = \kappa^c$, $\sigma_w^2 = \kappa^{\max\{c,0\}}$ and $\gamma = "
        r"\kappa^{-\min\{0,-c/2\}}$"
    ),
    latex=r"\sigma_u^2 = \kappa^c,\; \sigma_w^2 = \kappa^{\min\{c, 0\}},\; \gamma = \kappa^{\min\{0, -c/2\}}",
    verdict="typographical",
    reason=(
        "the exponent of gamma has the sign of section 4.2; the variances repeat the max of 4.2, with the two layers "
        "exchanged"
    ),
    setting="fixed width, Gaussian initial weights",
    about=("TwoLayer",),
)
def output_of_order_one_in_the_appendix() -> Evidence:
    """Compare with weights of one draw scaled as stated, at two values of kappa, with c = 1."""
    return Evidence(0.0, _slope_of_the_output(1.0, 0.0, -0.5), _slope_of_the_output(1.0, 1.0, 0.5))


class Powers(NamedTuple):
    """Exponents in kappa of width, output scale, variances and rates; equal rates by default."""

    d: float
    gamma: float
    u: float = 0
    w: float = 0
    eta_u: float = 0
    eta_w: float = 0

    def constants(self, kappa: float, P: float, Q: float) -> tuple[float, float, float]:
        """Return ``g``, ``kP`` and ``kQ`` (see `Network.constants`) of units whose p^2 and q^2 average to P and Q."""
        size = kappa**self.d * kappa ** (2 * self.gamma)
        largest = kappa ** max(self.eta_w + self.u, self.eta_u + self.w)
        return kappa ** ((self.eta_u + self.eta_w) / 2 + self.gamma), size * largest * P, size * largest * Q

    def phase(self) -> str:
        """Return the phase of a network with P = Q, from its learning time and scale factor at two large kappas."""
        rates = [_learning_rate(*self.constants(kappa, 1.0, 1.0)) for kappa in (1e12, 1e16)]
        slope = np.log(rates[1] / rates[0]) / np.log(1e4)
        if abs(slope) > 1e-2:
            return "unstable" if slope > 0 else "frozen"
        g, kP, kQ = self.constants(1e16, 1.0, 1.0)
        return "kernel" if abs(_scale_factor(g, kP, kQ) - 1) < 1e-2 else "learning"


def _learning_rate(g: float, kP: float, kQ: float) -> float:
    """Return ``1/t_c`` of (7) at y = 1."""
    return float(np.sqrt(g**2 + 4 * kP * kQ))


def _scale_factor(g: float, kP: float, kQ: float) -> float:
    """Return ``alpha_+`` of (8) at y = 1."""
    return float((g + _learning_rate(g, kP, kQ)) / (2 * kP))


# d, gamma, u, w, eta of Table 1, its second and its third row of exponents, and the four phases
TABLE = {
    "NTK": ((1, -0.5, 0, 0, 0), 0, (1, -1), (0, -0.5), ("kernel", "kernel")),
    "mean field": ((1, -1, 0, 0, 0), 1, (1, -1), (0, -0.5), ("frozen", "learning")),
    "Xavier": ((1, 0, -1, -1, 0), 0, (0, 0), (-2, 1), ("learning", "learning")),
    "Kaiming": ((1, 0, 0, -1, 0), -1, (1, -1), (-1, 0), ("unstable", "kernel")),
    "lazy": ((0, 1, 0, 0, 0), -2, (0, 0), (-2, 1), ("unstable", "kernel")),
}


@formula(
    "4",
    "(15)",
    "condition of a learning time of order 1",
    quote=(
        r"$\max\left\{2c_{\gamma} + c_{\eta_u} + c_{\eta_w}, \ 2c_{\gamma} + c_d + \max\{c_{\eta_w} + c_u, "
        r"c_{\eta_u} + c_w\}\right\} = 0$"
    ),
    latex=(
        r"t_c = \Theta(1) \iff \max\{2c_\gamma + c_{\eta_u} + c_{\eta_w},\; 2c_\gamma + c_d + \max\{c_{\eta_w} + "
        r"c_u, c_{\eta_u} + c_w\}\} = 0"
    ),
    setting="powers of kappa, generic initial weights",
    about=("TwoLayerOrder",),
    tolerance=0.001,
)
def condition_of_learning() -> Evidence:
    """Compare with the exponents of the inverse learning times of 200 random choices of exponents, at two kappas."""
    rng = np.random.default_rng(5)
    truth: list[bool] = []
    stated: list[bool] = []
    for _ in range(200):
        powers = Powers(*rng.integers(-2, 3, 6))
        rates = [_learning_rate(*powers.constants(kappa, 0.4, 0.7)) for kappa in (1e12, 1e16)]
        truth.append(abs(np.log(rates[1] / rates[0]) / np.log(1e4)) < 1e-2)
        one = 2 * powers.gamma + powers.eta_u + powers.eta_w
        two = 2 * powers.gamma + powers.d + max(powers.eta_w + powers.u, powers.eta_u + powers.w)
        stated.append(max(one, two) == 0)
    return Evidence(truth, stated)


@formula(
    "4",
    "Theorem 2, (16)",
    "condition of the kernel phase",
    quote=(
        r"When Eq. (15) holds, a model is in the kernel phase if and only if $\lim_{\kappa \to \infty} P/Q = 1$, "
        r"a.s., and $c_d + \max\{c_{\eta_w} + c_u, c_{\eta_u} + c_w\} > c_{\eta_u} + c_{\eta_w}$"
    ),
    latex=(
        r"\alpha_+ \to 1 \iff P/Q \to 1,\; c_d + \max\{c_{\eta_w} + c_u, c_{\eta_u} + c_w\} > c_{\eta_u} + "
        r"c_{\eta_w}"
    ),
    setting="powers of kappa satisfying (15), Gaussian initial weights, whose first output is almost surely not y",
    about=("TwoLayerOrder",),
)
def condition_of_the_kernel_phase() -> Evidence:
    """Compare with the scale factor (8), 1 for a constant kernel, of random exponents under (15), P/Q = 1 or not."""
    rng = np.random.default_rng(6)
    truth: list[bool] = []
    stated: list[bool] = []
    while len(truth) < 200:
        powers = Powers(*rng.integers(-3, 4, 6))
        largest = max(powers.eta_w + powers.u, powers.eta_u + powers.w)
        one, two = powers.eta_u + powers.eta_w, powers.d + largest
        if max(one, two) + 2 * powers.gamma == 0:
            Q = rng.choice([1.0, 0.6])
            g, kP, kQ = powers.constants(1e16, 1.0, Q)
            truth.append(abs(_scale_factor(g, kP, kQ) - 1) < 1e-2)
            stated.append(Q == 1 and two > one)
    return Evidence(truth, stated)


@formula(
    "4",
    "last display before 4.1",
    "bound of the final alignment",
    quote=(
        r"This further leads to a non-zero upper bound of the alignment $\zeta(\infty) \geq "
        r"\frac{(K+1)^2-1}{(K+1)^2+1}$"
    ),
    latex=r"\zeta(\infty) \ge \frac{(K+1)^2 - 1}{(K+1)^2 + 1} \text{ (lower bound)}",
    verdict="typographical",
    reason="the inequality is a lower bound, as printed; the word upper contradicts it",
    setting="P = Q, sum of p_i q_i = 0, feature learning phase",
    about=("TwoLayerOrder", "FinalAlignment"),
)
def bound_of_the_final_alignment() -> Evidence:
    """Compare with the final alignment by (8), (11) at several K: the largest violation of each inequality."""
    K = np.linspace(0.1, 5, 50)
    alpha = np.array([_scale_factor(2 * k, 1.0, 1.0) for k in K])
    final, bound = (alpha**2 - 1) / (alpha**2 + 1), ((K + 1) ** 2 - 1) / ((K + 1) ** 2 + 1)
    return Evidence(0.0, np.max(np.maximum(bound - final, 0)), np.max(np.maximum(final - bound, 0)))


@formula(
    "4.1",
    "first paragraph",
    "exponents of the kernel phase",
    quote=(
        r"a sufficient and necessary condition for the kernel phase is $0 = c_\gamma + c_d + \max \big\{ "
        r"c_{\eta_w} + c_u, c_{\eta_u} + c_w\big\} > c_{\eta_u} + c_{\eta_w}.$"
    ),
    latex=r"0 = 2c_\gamma + c_d + \max\{c_{\eta_w} + c_u, c_{\eta_u} + c_w\} > 2c_\gamma + c_{\eta_u} + c_{\eta_w}",
    verdict="typographical",
    reason=(
        "by (15) the exponent of gamma counts twice, on both sides, and the NTK column of Table 1 is an example; "
        "section 4 prints the same before 4.1, after the condition in words, which holds: the first term of (15) is "
        "strictly smaller than the second"
    ),
    setting="infinite width, columns of Table 1",
    about=("TwoLayerOrder",),
)
def exponents_of_the_kernel_phase() -> Evidence:
    """Compare with the phases of the columns of Table 1, from learning times and scale factors at two kappas."""
    truth, stated, printed = [], [], []
    for (d, gamma, u, w, eta), *_ in TABLE.values():
        largest = max(eta + u, eta + w)
        truth.append(Powers(d, gamma, u, w, eta, eta).phase() == "kernel")
        stated.append(2 * gamma + d + largest == 0 > 2 * gamma + 2 * eta)
        printed.append(gamma + d + largest == 0 > 2 * eta)
    return Evidence(truth, stated, printed)


@formula(
    "4.1",
    "Corollaries 1-3",
    "choices that are stable, learn features, or keep the kernel",
    quote=(
        r"choosing $c_{\eta_u} = c_{\eta_w} = \min\{-c_{\gamma}, -2c_{\gamma} - c_d - \max\{c_u, c_w\}\}$ ensures "
        r"that the model is stable. [...] choosing $c_{\eta_u} = c_{\eta_w} = c_\eta$ and $c_\gamma = -c_\eta$ "
        r"with $c_\eta \ge c_d + \max\{c_u, c_w\}$ leads to a feature learning phase. [...] choosing $c_{\gamma} "
        r"= -\frac{1}{2}(c_d + \max\{c_u, c_w\} + c_{\eta})$ and $c_{\eta} < c_d + \max\{c_u, c_w\}$ leads to a "
        "kernel phase"
    ),
    latex=(
        r"m = c_d + \max\{c_u, c_w\}:\; t_c = \Theta(1) \text{ if } c_\eta = \min\{-c_\gamma, -2c_\gamma - m\};\; "
        r"\text{learning if } -c_\gamma = c_\eta \ge m;\; \text{kernel if } -2c_\gamma = m + c_\eta > 2c_\eta"
    ),
    setting="infinite width, lim P/Q = 1",
    about=("TwoLayerOrder",),
)
def phases_by_corollary() -> Evidence:
    """Compare with the phases of 100 random choices of exponents, from learning times and scale factors."""
    rng = np.random.default_rng(8)
    held = []
    for gamma, u, w, eta in rng.integers(-3, 4, (100, 4)):
        top = 1 + max(u, w)
        stable = min(-gamma, -2 * gamma - top)
        held.append(Powers(1, gamma, u, w, stable, stable).phase() in ("kernel", "learning"))
        if eta >= top:
            held.append(Powers(1, -eta, u, w, eta, eta).phase() == "learning")
        else:
            held.append(Powers(1, -(top + eta) / 2, u, w, eta, eta).phase() == "kernel")
    return Evidence(np.ones(200), held)


@formula(
    "3.4",
    "Table 1",
    "phases of common scalings",
    quote=(
        "Phases of learning in different scaling limits. For brevity, the learning rates of the two layers are "
        "set to be equal."
    ),
    latex=(
        r"A = 2c_\gamma + 2c_\eta,\; B = 2c_\gamma + c_d + c_\eta + \max\{c_u, c_w\}:\; \text{frozen } (\max < "
        r"0),\; \text{unstable } (\max > 0),\; \text{kernel } (A < B = 0),\; \text{learning } (A = 0 \ge B)"
    ),
    setting="lim P/Q = 1, by infinite width or by zero initial output (lazy)",
    about=("TwoLayerOrder",),
)
def phases_of_table_one() -> Evidence:
    """Compare with the phases of its 20 entries, from learning times and scale factors at two kappas."""
    held = []
    for (d, gamma, u, w, eta), stable, plus, minus, phases in TABLE.values():
        choices = (eta, gamma), (stable, gamma), plus, minus
        found = [Powers(d, c, u, w, e, e).phase() for e, c in choices]
        held += [one == other for one, other in zip(found, (*phases, "learning", "kernel"), strict=True)]
    return Evidence(np.ones(20), held)


FORMULAS = formula.formulas
