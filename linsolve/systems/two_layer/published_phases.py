"""Xu and Ziyin (2024), section 3.2 to appendix B: alignment, rescaling, saddles, scales."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.network import trained as trained_layers
from linsolve.core.published_formula import Evidence, Source
from linsolve.systems.two_layer.published_line import (
    AT_SADDLE,
    EQUAL,
    FLOWS,
    LATE,
    LINE,
    NETWORK,
    ONLY_P,
    SADDLES,
    TO_TARGET,
    Network,
    trained,
)

__all__ = ["FORMULAS"]

formula = Source("xu_ziyin_2024", "two-layer linear network, data on a line, gradient flow at the rates eta_u, eta_w")


def _cosine(network: Network, alpha: Any) -> Any:
    """Return zeta of (11) for a network on ``x = 1``."""
    p, q = network.split(network.u, network.w, 1.0)
    shrunk, crossed = (q @ q) / alpha, 2 * p @ q
    return (alpha * (p @ p) - shrunk) / ((alpha * (p @ p) + shrunk) ** 2 - crossed**2) ** 0.5


@formula(
    "3.2",
    "(11)",
    "alignment of the layers",
    quote=(
        r"$\zeta(t) = \frac{\alpha(t)P - Q/\alpha(t)}{\sqrt{(\alpha(t)P + Q/\alpha(t))^2 - (\frac{2}{d}\sum p_i "
        "q_i)^2}}$"
    ),
    latex=r"\zeta = \frac{\alpha P - Q/\alpha}{\sqrt{(\alpha P + Q/\alpha)^2 - (\frac2d \sum_i p_i q_i)^2}}",
    setting="one input, x = 1",
    about=FLOWS,
)
def alignment() -> Evidence:
    """Compare with the cosine between numerically integrated layers, at two rates."""
    u, w = trained("line", 0.15)
    return Evidence(u @ w[:, 0] / np.linalg.norm(u) / np.linalg.norm(w), _cosine(LINE, LINE.growth(0.15)))


@formula(
    "3.2",
    "(12)",
    "derivative of the alignment",
    quote=(
        r"$\frac{d\zeta}{d\alpha} = \frac{(P + \frac{Q}{\alpha^2})(4PQ - (\frac{2}{d}\sum p_i "
        r"q_i)^2)}{[(\alpha(t)P + Q/\alpha(t))^2 - (\frac{2}{d}\sum p_i q_i)^2]^{3/2}}$"
    ),
    latex=(
        r"\frac{d\zeta}{d\alpha} = \frac{(P + Q/\alpha^2) (4PQ - (\frac2d \sum_i p_i q_i)^2)}{[(\alpha P + "
        r"Q/\alpha)^2 - (\frac2d \sum_i p_i q_i)^2]^{3/2}}"
    ),
    setting="one input, x = 1",
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
    "3.2",
    "below (11)",
    "the products that do not change",
    quote="where $4p_iq_i = u_i^2 - w_i^2 = const$ does not change during training",
    latex="4 p_i q_i = w_i^2 - u_i^2",
    verdict="typographical",
    reason="the sign is that of (22); section 3.2 uses only the square of the sum of the products",
    setting="one input, x = 1, unit rates",
    about=FLOWS,
)
def conserved_products() -> Evidence:
    """Compare with the products of weights trained at unit rates."""
    u, w = trained("equal", 0.15)
    p, q = EQUAL.split(u, w, 1.0)
    right = EQUAL.w[:, 0] ** 2 - EQUAL.u**2
    return Evidence(4 * p * q, right, -right)


@formula(
    "3.2",
    "(13)",
    "condition of alignment",
    quote=(
        r"$\zeta(t)$ monotonically increases if $\alpha_+ > 1$ or, equivalently, if $\frac{\sqrt{\eta_u \eta_w} "
        r"y}{2\gamma d\rho P} + \sqrt{\left(\frac{\sqrt{\eta_u \eta_w} y}{2\gamma d\rho P}\right)^2 + "
        r"\frac{Q}{P}} > 1$"
    ),
    latex=r"\alpha_+ > 1 \iff \gamma (y - f_0) > 0",
    setting="one input, x = 1",
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
    "3.2",
    "after (13)",
    "effect of unequal learning rates on the alignment",
    quote=(
        r"For example, when $\eta_u \gg \eta_w$ (or vice versa), this condition depends monotonically and "
        r"(essentially) linearly on $\eta_w$, and making $\eta_w$ close to $\eta_u$ has the effect of making the two "
        "layers more aligned."
    ),
    latex=r"\zeta(\infty) = y \big/ \sqrt{y^2 + \gamma^2 |u_0 \wedge w_0|^2} \text{ at any learning rates}",
    verdict="incorrect",
    reason=(
        "the left side of (13) depends on the rates, but whether it exceeds 1 does not: that is the sign of "
        "gamma (y - f) at the start; the bivector of the layers is conserved at any rates, which gives one alignment "
        "to each value of the output, so that the end does not depend on the rates either"
    ),
    setting="one input, x = 1, gamma > 0, y > 0",
    about=(*FLOWS, "FinalAlignment"),
)
def unequal_rates_and_the_alignment() -> Evidence:
    """Compare with the cosine of layers trained at three ratios of the rates: its changes as the ratio tends to 1."""
    u, w, y = LINE.u, LINE.w[:, 0], 2.0
    found = []
    for ratio in (0.01, 0.1, 1.0):
        first, last = trained_layers([w[:, None], u[None]], [y], rates=[ratio, 1.0])
        found.append((last @ first).item() / (np.linalg.norm(last) * np.linalg.norm(first)))
    closed = y / np.sqrt(y**2 + (u @ u) * (w @ w) - (u @ w) ** 2)
    changes = np.where(np.abs(np.diff(found)) < 1e-8, 0.0, np.sign(np.diff(found)))
    return Evidence([*changes, found[0]], [0.0, 0.0, closed], [1.0, 1.0, closed])


@formula(
    "A.2",
    "(19), (20)",
    "conserved quantities of gradient flow",
    quote=(
        r"$\frac{d}{dt}\left(\eta_u \sum_{j=1}^{d_0} w_{ij}^2 - \eta_w u_i^2\right) = 0,$ [...] "
        r"$\frac{d}{dt}\left(\frac{w_{ij}}{x_j} - \frac{w_{ij'}}{x_{j'}}\right) = \frac{1}{x_j}\frac{dw_{ij}}{dt} "
        r"- \frac{1}{x_{j'}}\frac{dw_{ij'}}{dt} = 0$"
    ),
    latex=(
        r"\eta_u \textstyle\sum_j w_{ij}^2 - \eta_w u_i^2 = \mathrm{const},\quad w_{ij}/x_j - w_{ij'}/x_{j'} = "
        r"\mathrm{const}"
    ),
    about=FLOWS,
)
def conserved_differences() -> Evidence:
    """Compare with numerically integrated weights."""

    def conserved(u: Any, w: Any) -> Any:
        scaled = w / NETWORK.x
        squares = NETWORK.eta_u * np.sum(w**2, axis=1) - NETWORK.eta_w * u**2
        return np.concatenate([squares, (scaled[:, 1:] - scaled[:, :1]).ravel()])

    return Evidence(conserved(*trained("generic", LATE)), conserved(NETWORK.u, NETWORK.w))


@formula(
    "A.2",
    "(26)",
    "equation of motion of p",
    quote=(
        r"$\frac{dp_i}{dt} = -2p_i \left( \frac{(\gamma^2 d)\rho^2 P}{p_i(0)^2} p_i^2 - \frac{(\gamma^2 d)\rho^2 "
        r"Q p_i(0)^2}{p_i^2} - \gamma \rho y \sqrt{\eta_u \eta_w} \right)$"
    ),
    latex=(
        r"\dot p_i = -2 p_i \Bigl( \frac{\gamma^2 d \rho^2 P}{p_i(0)^2} p_i^2 - \frac{\gamma^2 d \rho^2 Q\, "
        r"p_i(0)^2}{p_i^2} - \gamma \rho y \sqrt{\eta_u \eta_w} \Bigr)"
    ),
    setting="rho = |x|; see the record of the length below (4)",
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
    "A.2",
    "(28)",
    "time as an integral over the growth",
    quote=(
        r"$t = -\int_{p_i(0)^2}^{p_i^2} \frac{d\zeta}{4\left(\frac{(\gamma^2 d)\rho^2 P}{p_i(0)^2}\zeta^2 - "
        r"\gamma xy\sqrt{\eta_u \eta_w}\zeta - (\gamma^2 d)\rho^2 Q p_i(0)^2\right)}$"
    ),
    latex=(
        r"t = -\int_{p_i(0)^2}^{p_i^2} \frac{d\zeta}{4 (\gamma^2 d \rho^2 P \zeta^2/p_i(0)^2 - \gamma \rho y "
        r"\sqrt{\eta_u \eta_w} \zeta - \gamma^2 d \rho^2 Q\, p_i(0)^2)}"
    ),
    verdict="convention",
    reason="x, without an index, is the length of the data point, rho elsewhere",
    setting="rho = |x|; see the record of the length below (4)",
    about=FLOWS,
)
def time_as_an_integral() -> Evidence:
    """Compare with the growth of p of weights integrated to a known time; the integral by quadrature."""
    from scipy.integrate import quad

    t = 0.05
    before, after = (NETWORK.split(*z, NETWORK.length)[0] for z in ((NETWORK.u, NETWORK.w), trained("generic", t)))
    g, kP, kQ, _ = NETWORK.constants()

    def rate(z: float) -> float:
        p2 = before[0] ** 2
        return -4 * (kP * z**2 / p2 - g * NETWORK.y * z - kQ * p2)

    return Evidence(t, quad(lambda z: 1 / rate(z), before[0] ** 2, after[0] ** 2, epsabs=1e-13)[0])


@formula(
    "A.2",
    "(30)",
    "the growth, implicitly",
    quote=(
        r"$\frac{p_i(t)^2/p_i(0)^2 - \alpha_+}{p_i(t)^2/p_i(0)^2 - \alpha_-} = \frac{1 - \alpha_+}{1 - \alpha_-} "
        r"\exp\left(-4t/t_c\right)$"
    ),
    latex=r"\frac{A - \alpha_+}{A - \alpha_-} = \frac{1 - \alpha_+}{1 - \alpha_-} e^{-4t/t_c}",
    setting="rho = |x|; see the record of the length below (4)",
    about=FLOWS,
)
def growth_implicitly() -> Evidence:
    """Compare with the growth of p of numerically integrated weights."""
    t, (plus, minus) = 0.05, NETWORK.alphas()
    before, after = (NETWORK.split(*z, NETWORK.length)[0] for z in ((NETWORK.u, NETWORK.w), trained("generic", t)))
    A = (after[0] / before[0]) ** 2
    return Evidence((A - plus) / (A - minus), (1 - plus) / (1 - minus) * np.exp(-4 * NETWORK.constants()[3] * t))


@formula(
    "A.2",
    "Proposition 2, (31)-(34)",
    "the solution without p",
    quote=(
        r"if $P = 0$ and $Q \neq 0$, the result becomes $p_i(t) = 0$ $q_i(t) = q_i(0) \sqrt{\frac{\alpha' "
        r"\xi'(t)}{1 - \xi'(t)}}$ where $\xi'(t) \coloneqq \frac{1}{1+\alpha'} \exp\left(-4\sqrt{\eta_u \eta_w} "
        r"\gamma \rho y t\right)$ [...] $\alpha' \coloneqq \frac{\sqrt{\eta_u \eta_w} \gamma \rho y}{(\gamma^2 d) "
        r"\rho^2 Q}$"
    ),
    latex=r"q_i = q_i(0) \sqrt{\frac{\alpha' \xi'}{1 - \xi'}}",
    verdict="holds under a condition",
    reason=(
        "unless alpha' = 0 or -1, where it reads 0/0 or divides by 0; its limits are "
        "q_i(0)/sqrt(1 + 4 gamma^2 d rho^2 Q t) and q_i(0)"
    ),
    setting="rho = |x|; see the record of the length below (4)",
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
    "A.2",
    "after (35)",
    "end of a network with P = 0",
    quote=(
        r"when $y \leq 0$, we can obtain a solution with zero loss in the end, but when y > 0, the gradient flow "
        "will converge to the trivial saddle point $p_i = q_i = 0$"
    ),
    latex=r"P = 0,\, \gamma > 0:\; f \to 0 \text{ (saddle) if } y > 0,\; f \to y \text{ if } y \le 0",
    setting="gamma > 0, a normalization factor",
    about=FLOWS,
)
def saddle_of_a_start_without_p() -> Evidence:
    """Compare with outputs of weights integrated to t = 5, before rounding leaves the saddle, for both signs of y."""
    ends = []
    for name, network in (("only q, y > 0", AT_SADDLE), ("only q, y < 0", TO_TARGET)):
        u, w = trained(name, 5.0)
        ends.append(network.gamma * u @ w @ network.x)
    return Evidence(ends, [0.0, TO_TARGET.y])


@formula(
    "3.1",
    "Theorem 1, footnote 1",
    "limit excluded by the condition",
    quote=r"Because $\alpha_+ > 0$, $\xi(t) < 1$. So, (5) is well defined.",
    latex=r"y = Q = 0:\; p_i = p_i(0)/\sqrt{1 + 4 \gamma^2 d \rho^2 P t}",
    verdict="holds under a condition",
    reason=(
        "unless y = Q = 0: there alpha_+ = 0, the characteristic time is infinite and (5) reads 0/0; its limit is the "
        "form given. For Q = 0, gamma y < 0, too, alpha_+ = 0, but xi < 1 and (5) is well defined"
    ),
    setting="rho = |x|; see the record of the length below (4)",
    about=FLOWS,
)
def infinite_characteristic_time() -> Evidence:
    """Compare with numerically integrated weights from a start with Q = 0, for the target 0."""
    p = ONLY_P.split(ONLY_P.u, ONLY_P.w, ONLY_P.length)[0]
    end = ONLY_P.split(*trained("only p", 0.4), ONLY_P.length)[0]
    return Evidence(end, p / np.sqrt(1 + 4 * ONLY_P.constants()[1] * 0.4))


FORMULAS = formula.formulas
