"""Xu and Ziyin (2024), section 3.2 to appendix B: alignment, rescaling, saddles, scales."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.published_formula import Evidence, Source
from linsolve.systems.two_layer.published_line import (
    EQUAL,
    FLOWS,
    LATE,
    LINE,
    NETWORK,
    ONLY_P,
    ONLY_Q,
    SADDLES,
    Network,
    trained,
)

__all__ = ["FORMULAS"]

formula = Source("xu_ziyin_2024")


def _cosine(network: Network, alpha: Any) -> Any:
    """Return zeta of (11) for a network on ``x = 1``."""
    p, q = network.split(network.u, network.w, 1.0)
    shrunk, crossed = (q @ q) / alpha, 2 * p @ q
    return (alpha * (p @ p) - shrunk) / ((alpha * (p @ p) + shrunk) ** 2 - crossed**2) ** 0.5


@formula(
    "(11)",
    "alignment of the layers",
    r"\zeta = \frac{\alpha P - Q/\alpha}{\sqrt{(\alpha P + Q/\alpha)^2 - (\frac2d \sum_i p_i q_i)^2}}",
    about=FLOWS,
)
def alignment() -> Evidence:
    """Compare with the cosine between numerically integrated layers, at two rates."""
    u, w = trained("line", 0.15)
    return Evidence(u @ w[:, 0] / np.linalg.norm(u) / np.linalg.norm(w), _cosine(LINE, LINE.growth(0.15)))


@formula(
    "(12)",
    "derivative of the alignment",
    r"\frac{d\zeta}{d\alpha} = \frac{(P + Q/\alpha^2) (4PQ - (\frac2d \sum_i p_i q_i)^2)}{[(\alpha P + "
    r"Q/\alpha)^2 - (\frac2d \sum_i p_i q_i)^2]^{3/2}}",
    about=FLOWS,
)
def slope_of_the_alignment() -> Evidence:
    """Compare with the derivative of the cosine of two vectors by the growth of p, numerically to thirty digits."""
    import mpmath

    p, q = LINE.split(LINE.u, LINE.w, 1.0)
    P, Q, crossed, alpha = p @ p, q @ q, 2 * p @ q, 1.7

    def cosine(a: Any) -> Any:
        grown = [mpmath.sqrt(a) * x for x in p.tolist()], [x / mpmath.sqrt(a) for x in q.tolist()]
        u, v = ([x + sign * y for x, y in zip(*grown, strict=True)] for sign in (-1, 1))
        return mpmath.fdot(u, v) / mpmath.sqrt(mpmath.fdot(u, u) * mpmath.fdot(v, v))

    with mpmath.workdps(30):
        truth = float(mpmath.diff(cosine, alpha))
    size = (alpha * P + Q / alpha) ** 2 - crossed**2
    return Evidence(truth, (P + Q / alpha**2) * (4 * P * Q - crossed**2) / size**1.5)


@formula(
    "sec. 3.2",
    "the products that do not change",
    r"4 p_i q_i = \eta_u v_i^2 - \eta_w u_i^2,\quad v = W x/\rho",
    printed="4 p_i q_i = u_i^2 - w_i^2",
    about=FLOWS,
)
def conserved_products() -> Evidence:
    """Compare with the products of trained weights, at rates 1, where the two forms differ by a sign."""
    u, w = trained("equal", 0.15)
    p, q = EQUAL.split(u, w, 1.0)
    right = EQUAL.w[:, 0] ** 2 - EQUAL.u**2
    return Evidence(4 * p * q, right, -right)


@formula(
    "(13)",
    "condition of alignment",
    r"\alpha_+ > 1 \iff \gamma (y - f_0) > 0",
    condition="whatever the rates",
    about=FLOWS,
)
def condition_of_alignment() -> Evidence:
    """Compare with the sign of the velocity of the cosine of 200 random networks."""
    rng = np.random.default_rng(3)
    truth, stated = [], []
    for _ in range(200):
        u, v, (y, gamma) = rng.standard_normal(3), rng.standard_normal(3), rng.standard_normal(2)
        eta_u, eta_w = np.exp(rng.standard_normal(2))
        network = Network(np.ones(1), y, gamma, eta_u, eta_w, u, v[:, None])
        du, dv = network.rates(u, network.w)
        grown = (du @ v + u @ dv[:, 0]) - (u @ v) * (u @ du / (u @ u) + v @ dv[:, 0] / (v @ v))
        g, kP, kQ, _ = network.constants()
        x = g * y / (2 * kP)
        truth.append(np.sign(grown))
        stated.append(np.sign(x + np.sqrt(x**2 + kQ / kP) - 1))
    return Evidence(truth, stated)


@formula(
    "sec. 3.3, norms",
    "lengths of the layers",
    r"\eta_w |u|^2 = d(\alpha P + Q/\alpha) - 2 \textstyle\sum_i p_i q_i,\quad \eta_u |v|^2 = d(\alpha P + "
    r"Q/\alpha) + 2 \sum_i p_i q_i",
    printed=r"|u|^2 = d(\alpha P + Q/\alpha) - 2 \textstyle\sum_i p_i q_i,\quad |w|^2 = d(\alpha P + Q/\alpha) + 2 "
    r"\sum_i p_i q_i",
    about=FLOWS,
)
def lengths_of_the_layers() -> Evidence:
    """Compare with numerically integrated weights."""
    u, w = trained("line", 0.15)
    p, q = LINE.split(LINE.u, LINE.w, 1.0)
    alpha = LINE.growth(0.15)
    mean, crossed = alpha * p @ p + q @ q / alpha, 2 * p @ q
    printed = np.array([mean - crossed, mean + crossed])
    return Evidence([u @ u, np.sum(w**2)], printed / [LINE.eta_w, LINE.eta_u], printed)


@formula(
    "sec. 3.3, slope",
    "the norms turn where the output passes zero",
    r"\frac{d|u|^2}{d\alpha} \propto P - \frac{Q}{\alpha^2}",
    condition="up to the rates",
    about=FLOWS,
)
def slope_of_the_lengths() -> Evidence:
    """Compare with the ratio of the velocities of |u| and alpha, from the velocities of the weights."""
    du, dw = LINE.rates(LINE.u, LINE.w)
    p, q = LINE.split(LINE.u, LINE.w, 1.0)
    dp = LINE.split(du, dw, 1.0)[0]
    return Evidence(LINE.eta_w * 2 * LINE.u @ du / (2 * dp[0] / p[0]), p @ p - q @ q)


@formula(
    "(19), (20)",
    "conserved quantities of gradient flow",
    r"\eta_w u_i^2 - \eta_u (\textstyle\sum_j w_{ij} x_j)^2/\rho^2 = \mathrm{const}",
    condition=r"with $\rho = |x|$",
    about=FLOWS,
)
def conserved_differences() -> Evidence:
    """Compare with numerically integrated weights."""

    def difference(u: Any, w: Any) -> Any:
        return NETWORK.eta_w * u**2 - NETWORK.eta_u * (w @ NETWORK.x / NETWORK.length) ** 2

    return Evidence(difference(*trained("generic", LATE)), difference(NETWORK.u, NETWORK.w))


@formula(
    "(26)",
    "equation of motion of p",
    r"\dot p_i = -2 p_i \Bigl( \frac{\gamma^2 d \rho^2 P}{p_i(0)^2} p_i^2 - \frac{\gamma^2 d \rho^2 Q\, "
    r"p_i(0)^2}{p_i^2} - \gamma \rho y \sqrt{\eta_u \eta_w} \Bigr)",
    condition=r"with $\rho = |x|$",
    about=FLOWS,
)
def motion_of_p() -> Evidence:
    """Compare with velocities of trained weights."""
    u, w = trained("generic", 0.05)
    (p, _), dp = NETWORK.split(u, w, NETWORK.length), NETWORK.split(*NETWORK.rates(u, w), NETWORK.length)[0]
    p0 = NETWORK.split(NETWORK.u, NETWORK.w, NETWORK.length)[0]
    g, kP, kQ, _ = NETWORK.constants()
    return Evidence(dp, -2 * p * (kP * p**2 / p0**2 - kQ * p0**2 / p**2 - g * NETWORK.y))


@formula(
    "(28)",
    "time as an integral over the growth",
    r"t = -\int_1^{A} \frac{dz}{4 (\gamma^2 d \rho^2 P z^2 - \gamma \rho y \sqrt{\eta_u \eta_w} z - \gamma^2 "
    r"d \rho^2 Q)}",
    printed=r"t = -\int \frac{d\zeta}{4 (\ldots - \gamma x y \sqrt{\eta_u \eta_w} \zeta - \ldots)}\;\text{with } x "
    r"\text{ for } \rho",
    about=FLOWS,
)
def time_as_an_integral() -> Evidence:
    """Compare with the growth of p of weights integrated to a known time; by quadrature, x as its first entry."""
    from scipy.integrate import quad

    t = 0.05
    before, after = (NETWORK.split(*z, NETWORK.length)[0] for z in ((NETWORK.u, NETWORK.w), trained("generic", t)))
    g, kP, kQ, _ = NETWORK.constants()

    def time(pull: float) -> float:
        return -quad(lambda z: 1 / (4 * (kP * z**2 - pull * z - kQ)), 1, (after[0] / before[0]) ** 2, epsabs=1e-13)[0]

    return Evidence(t, time(g * NETWORK.y), time(g * NETWORK.y * NETWORK.x[0] / NETWORK.length))


@formula(
    "(30)",
    "the growth, implicitly",
    r"\frac{A - \alpha_+}{A - \alpha_-} = \frac{1 - \alpha_+}{1 - \alpha_-} e^{-4t/t_c}",
    about=FLOWS,
)
def growth_implicitly() -> Evidence:
    """Compare with the growth of p of numerically integrated weights."""
    t, (plus, minus) = 0.05, NETWORK.alphas()
    before, after = (NETWORK.split(*z, NETWORK.length)[0] for z in ((NETWORK.u, NETWORK.w), trained("generic", t)))
    A = (after[0] / before[0]) ** 2
    return Evidence((A - plus) / (A - minus), (1 - plus) / (1 - minus) * np.exp(-4 * NETWORK.constants()[3] * t))


@formula(
    "(31)-(34)",
    "the solution without p",
    r"q_i = q_i(0) \sqrt{\frac{\alpha' \xi'}{1 - \xi'}}",
    condition=r"$P = 0$, $y \ne 0$, $Q \ne 0$, $\alpha' \ne -1$",
    about=FLOWS,
)
def solution_without_p() -> Evidence:
    """Compare with numerically integrated weights from a start with P = 0."""
    network, t = SADDLES["only q, y > 0"], 0.1
    g, _, kQ, _ = network.constants()
    q = network.split(network.u, network.w, network.length)[1]
    slope = g * network.y / kQ
    xi = np.exp(-4 * g * network.y * t) / (1 + slope)
    end = network.split(*trained("only q, y > 0", t), network.length)[1]
    return Evidence(end, q * np.sqrt(slope * xi / (1 - xi)))


@formula(
    "after (35)",
    "end of a network with P = 0",
    r"P = 0:\; f \to 0 \text{ (saddle) if } \gamma y > 0,\; f \to y \text{ if } \gamma y \le 0",
    printed=r"P = 0:\; f \to 0 \text{ (saddle) if } y > 0,\; f \to y \text{ if } y \le 0",
    about=FLOWS,
)
def saddle_of_a_start_without_p() -> Evidence:
    """Compare with the output of weights integrated to a late time, with gamma negative and y positive."""
    u, w = trained("only q", LATE)
    return Evidence(ONLY_Q.gamma * u @ w @ ONLY_Q.x, ONLY_Q.y, 0.0)


@formula(
    "Theorem 1, condition",
    "the case that its condition P != 0 leaves out",
    r"y = Q = 0:\; p_i = p_i(0)/\sqrt{1 + 4 \gamma^2 d \rho^2 P t}",
    condition="$t_c^{-1} = 0$, where (5) is 0/0",
    about=FLOWS,
)
def infinite_characteristic_time() -> Evidence:
    """Compare with numerically integrated weights from a start with Q = 0, for the target 0."""
    p = ONLY_P.split(ONLY_P.u, ONLY_P.w, ONLY_P.length)[0]
    end = ONLY_P.split(*trained("only p", 0.4), ONLY_P.length)[0]
    return Evidence(end, p / np.sqrt(1 + 4 * ONLY_P.constants()[1] * 0.4))


@formula(
    "below (14)",
    "mean and variance of P over Gaussian starts",
    r"\mathbb{E} P = \frac{\eta_w \sigma_u^2 + \eta_u \sigma_w^2}{4},\quad \operatorname{Var} P = "
    r"\frac{(\eta_w \sigma_u^2 + \eta_u \sigma_w^2)^2}{8 d}",
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
    "sec. 4.2",
    "scales at which the initial output is of order 1",
    r"c_u = 0,\; c_\gamma = -c_w/2\; (c_w > 0)",
    condition="shown for $c_w > 0$",
    printed=r"c_u = \max\{0, c_w\},\; c_\gamma = \min\{-c_w/2, 0\}",
    about=("TwoLayer",),
)
def output_of_order_one() -> Evidence:
    """Compare with weights of one draw scaled as stated, at two values of kappa, with c_w = 1."""
    return Evidence(0.0, _slope_of_the_output(0.0, 1.0, -0.5), _slope_of_the_output(1.0, 1.0, -0.5))


@formula(
    "B.4",
    "the same scales, in the appendix",
    r"\gamma = \kappa^{\min\{0, -c/2\}}",
    printed=r"\gamma = \kappa^{-\min\{0, -c/2\}}",
    about=("TwoLayer",),
)
def output_of_order_one_in_the_appendix() -> Evidence:
    """Compare with weights of one draw scaled as stated, at two values of kappa, with c = 1 in one layer."""
    return Evidence(0.0, _slope_of_the_output(0.0, 1.0, -0.5), _slope_of_the_output(0.0, 1.0, 0.5))


FORMULAS = formula.formulas
