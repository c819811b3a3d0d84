"""Atanasov, Bordelon, Pehlevan (2022), section 3 and appendix B: from the start to the end of training."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from linsolve.core.network import follow
from linsolve.core.published_formula import Evidence, Order, Source
from linsolve.systems.small_start.published_early import overlaps
from linsolve.systems.small_start.published_start import A0, BETA, COVARIANCE, W0, D, S, kernel

__all__ = ["FORMULAS"]

formula = Source("atanasov_2022", "two-layer linear network, small initial weights, white inputs")


@cache
def trained(sigma: float, t: float) -> tuple[Any, Any]:
    """Return the weights at time t on white inputs, by numerical integration."""
    W, a = follow([sigma * W0, sigma * A0[None]], S * BETA, [t])
    return a[0, 0], W[0]


def _grown(sigma: float, clock: float) -> tuple[Any, Any, float, float]:
    """Return the weights at a time relative to the transition, u^2 at that time, and the time."""
    c0 = sigma**2 * np.sum((A0 + W0 @ BETA) ** 2) / 4
    t = (np.log(S / c0 - 1) + clock) / (2 * S)
    a, W = trained(sigma, t)
    return a, W, S / (1 + (S / c0 - 1) * np.exp(-2 * S * t)), t


@formula(
    "3.1.2",
    "(8)",
    "the kernel during the rise",
    quote=(
        r"in Phase II, the kernel evolution takes the form $K(\mathbf{x}, \mathbf{x}'; t) = u(t)^2 "
        r"\mathbf{x}^\top [\boldsymbol{\beta}\boldsymbol{\beta}^\top + \mathbf{I}] \mathbf{x}' + O(\sigma^2)$ "
        r"where $u(t)^2 = |\mathbf{a}|^2$"
    ),
    latex=(
        r"K = u^2 x^\top [\beta\beta^\top + I] x' + O(\sigma^2) \text{ at the end},\; O(\sigma) \text{ during the "
        "rise}"
    ),
    verdict="holds under a condition",
    reason=(
        "at the end of phase II, where W^T a is along beta; during the rise the cross term of W makes the error "
        "one of order sigma, measured"
    ),
    about=("KernelAlignment",),
    tolerance=0.0001,
)
def kernel_during_the_rise() -> Evidence:
    """Compare with the orders of the difference in sigma at the end of training and at half of the target."""
    both = np.outer(BETA, BETA) + np.eye(D)

    def difference(a: Any, W: Any) -> float:
        return float(np.linalg.norm(kernel(a, W) - (a @ a) * both))

    late = [difference(*trained(sigma, 22.0)) for sigma in (1e-2, 1e-3)]
    rise = [difference(*_grown(sigma, 0.0)[:2]) for sigma in (1e-3, 1e-4)]
    found = [np.log10(found[0] / found[1]) for found in (late, rise)]
    return Evidence(found, [2, 1], [2, 2])


@formula(
    "3.2",
    "only paragraph",
    "the kernel at the end",
    quote=(
        r"Thus, the final kernel will always look like $K_\infty(\mathbf{x}, \mathbf{x}') = "
        r"s\mathbf{x}^\top[\beta\beta^\top + \mathbf{I}]\mathbf{x}'$"
    ),
    latex=r"K_\infty = s\, x^\top [\beta\beta^\top + I] x' + O(\sigma^2)",
    verdict="leading order",
    reason="order 2 in sigma",
    setting="small initial weights, training set that spans the inputs",
    about=("FinalKernel", "KernelAlignment"),
    tolerance=2e-2,
)
def kernel_at_the_end() -> Order:
    """Compare with the weights integrated until the loss reaches rounding level."""
    scales = 1e-2, 1e-3
    found = [kernel(*trained(sigma, 22.0)) - S * (np.outer(BETA, BETA) + np.eye(D)) for sigma in scales]
    return Order(scales, [np.linalg.norm(each) for each in found], 2)


@cache
def _half_time(c0: float) -> float:
    """Return the time from c0 to s/2 under c' = 2 c (s - c), by quadrature over log c."""
    from scipy.integrate import quad

    return quad(lambda x: 1 / (2 * (S - np.exp(x))), np.log(c0), np.log(S / 2), epsabs=0, epsrel=1e-13)[0]


@formula(
    "3.1.2",
    "below (8); B.3, (26)",
    "strength of a balanced, aligned network",
    quote=(
        r"we can get an expression for the evolution of $u(t)^2$ analytically $u(t)^2 = \frac{se^{2st}}{e^{2st} - "
        "1 + s/u_0^2}$"
    ),
    latex=r"u^2 = \frac{s e^{2st}}{e^{2st} - 1 + s/u_0^2}",
    setting="balanced and aligned network",
    about=("BalancedMode", "LearningTime"),
)
def balanced_strength() -> Evidence:
    """Compare with the integrated weights of a balanced network."""
    direction, u0, t = A0 / np.linalg.norm(A0), 0.05, 2.2
    a = follow([u0 * np.outer(direction, BETA), u0 * direction[None]], S * BETA, [t])[1][0, 0]
    growth = np.exp(2 * S * t)
    return Evidence(a @ a, S * growth / (growth - 1 + S / u0**2))


@formula(
    "3.1.2",
    "time, below (8)",
    "time at which learning begins",
    quote=(
        r"The transition time where active learning begins occurs when $e^{st} \approx s/u_0^2 \implies t \approx "
        r"s^{-1} \log(s/\sigma^2)$"
    ),
    latex=r"e^{2st} \approx s/u_0^2 \implies t \approx \tfrac{1}{2s} \log(s/u_0^2)",
    verdict="typographical",
    reason=(
        "the strength in the same paragraph rises at e^{2st} = s/u_0^2, and figure 2 has the factor 1/2; as an order "
        "of magnitude the time holds as printed"
    ),
    setting="balanced and aligned network",
    about=("LearningTime",),
    tolerance=1e-8,
)
def when_learning_begins() -> Evidence:
    """Compare with the time to half of the target, by quadrature."""
    c0 = 1e-8
    return Evidence(_half_time(c0), np.log(S / c0) / (2 * S), np.log(S / c0) / S)


@formula(
    "3.1.1",
    "figure 2, caption",
    "time of learning, in the caption",
    quote=r"significant evolution in the network predictions happens for $t > t_2 = \frac{1}{2} \log(s\sigma^{-2})$",
    latex=r"t_2 = \tfrac{1}{2s} \log(s \sigma^{-2})",
    verdict="typographical",
    reason="the factor 1/s is dropped, which the other time of the caption has; both agree at s = 1",
    setting="balanced and aligned network",
    about=("LearningTime",),
    tolerance=1e-8,
)
def time_in_the_caption() -> Evidence:
    """Compare with the time to half of the target, by quadrature."""
    c0 = 1e-8
    return Evidence(_half_time(c0), np.log(S / c0) / (2 * S), np.log(S / c0) / 2)


@formula(
    "B.4",
    "(27), (28)",
    "output and size of a small network from start to end",
    quote=(
        r"Up to $O(\sigma^2)$ we then have that $r(t) = s \frac{2 \sinh(2st)}{(e^{2st} - 1) + 2s/q_0}$ $q(t) = s "
        r"\frac{2 \cosh(2st)}{(e^{2st} - 1) + 2s/q_0}$"
    ),
    latex=(
        r"r, q = s \frac{2 \sinh, \cosh (2st)}{e^{2st} - 1 + 2s/q_0} \text{ at } r_0 = 0,\; q_0 + r_0 \text{ for "
        r"} q_0 \text{ else}"
    ),
    verdict="leading order",
    reason=(
        "q_0 >> r_0 of B.1; q_0 + r_0 for q_0 removes that assumption, and the measured error is of order "
        "sigma^2 log(1/sigma)"
    ),
    setting="small initial weights, white inputs, q_0 >> r_0 (large D)",
    about=("MatchedSolution", "RefinedMatchedSolution"),
    tolerance=1e-6,
)
def matched_solution() -> Evidence:
    """Compare with weights integrated from size 1e-4 to half of the target, from r_0 = 0 and from r_0 != 0."""
    sigma, truth, stated = 1e-4, [], []
    w0 = W0 @ BETA
    for a0 in (A0 - w0 * (A0 @ w0) / (w0 @ w0), A0):
        size = sum(overlaps(a0, W0)) * sigma**2  # q_0 + r_0
        t = np.log(2 * S / size - 1) / (2 * S)
        W, a = (layer[0] for layer in follow([sigma * W0, sigma * a0[None]], S * BETA, [t]))
        growth = np.exp(2 * S * t)
        truth.append(overlaps(a[0], W))
        stated.append(S * (growth + np.array([1, -1]) / growth) / (growth - 1 + 2 * S / size))
    return Evidence(truth, stated)


@formula(
    "3.2",
    "fixed point",
    "fixed point of the flow",
    quote=(
        r"This is the only solution which satisfies the fixed point condition $\Sigma(\beta_T - "
        r"\mathbf{W}^\top\mathbf{a}) = \mathbf{0}$ that is reachable through gradient flow"
    ),
    latex=r"\Sigma (s \beta_T - W^\top a) = 0",
    verdict="typographical",
    reason="(4) has s beta_T; both agree at s = 1",
    setting="small initial weights, any covariance",
    about=("KernelAlignment",),
)
def fixed_point_of_the_flow() -> Evidence:
    """Compare with trained weights: the largest entry of each condition, on inputs of full covariance."""
    W, a = (layer[0] for layer in follow([0.1 * W0, 0.1 * A0[None]], S * BETA, [200.0], covariance=COVARIANCE))
    ends = (np.max(np.abs(COVARIANCE @ (size * BETA - W.T @ a[0]))) for size in (S, 1.0))
    return Evidence(0.0, *ends)


FORMULAS = formula.formulas
