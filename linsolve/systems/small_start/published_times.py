"""Atanasov, Bordelon, Pehlevan (2022), section 3 and appendix B: from the start to the end of training."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from linsolve.core.network import follow
from linsolve.core.published_formula import Evidence, Order, Source
from linsolve.systems.small_start.published_start import A0, BETA, COVARIANCE, ETA, W0, D, N, S, kernel, pull

__all__ = ["FORMULAS"]

formula = Source("atanasov_2022")


@cache
def trained(sigma: float, t: float) -> tuple[Any, Any]:
    """Return the weights at time t on white inputs, by numerical integration."""
    W, a = follow([sigma * W0, sigma * A0[None]], S * BETA, [t])
    return a[0, 0], W[0]


def linearized(t: float, covariance: Any = None, eta: float = ETA) -> tuple[Any, Any]:
    """Return the weights under (6), or (20) and (21), by a matrix exponential."""
    from scipy.linalg import expm

    step = S * (np.eye(D) if covariance is None else covariance) @ BETA
    system = np.zeros((N + N * D,) * 2)
    system[:N, N:] = np.kron(np.eye(N), step[None])
    system[N:, :N] = np.kron(np.eye(N), step[:, None])
    z = expm(eta * t * system) @ np.concatenate([A0, W0.ravel()])
    return z[:N], z[N:].reshape(N, D)


def overlaps(a: Any, W: Any) -> tuple[float, float]:
    """Return q and r."""
    w = W @ BETA
    return (a @ a + w @ w) / 2, a @ w


@formula(
    "(6)",
    "the flow at small weights",
    r"\dot a = s W\beta + O(\sigma^3),\quad \dot W = s a\beta^\top + O(\sigma^3)",
    condition="order 3",
    about=("EarlyAlignment",),
    tolerance=5e-3,
    expansion=True,
)
def flow_at_small_weights() -> Order:
    """Compare with the velocities (4) at two sizes of the weights."""
    scales = 1e-2, 1e-3
    found = [np.linalg.norm(pull(k * A0, k * W0)[0] - k * S * W0 @ BETA) for k in scales]
    return Order(scales, found, 3)


@formula(
    "(7), (19)",
    "the kernel in phase I",
    r"M = M_0 + (q - q_0) (\beta\beta^\top + I) + W_{0\perp}^\top (w - w_0) \beta^\top + \mathrm{h.c.}",
    printed=r"M = M_0 + q_0 \cosh(2\eta s t) [\beta\beta^\top + I]",
    about=("EarlyAlignment",),
)
def kernel_of_phase_one() -> Evidence:
    """Compare with the weights of the flow (6), by a matrix exponential."""
    t = 1.1
    a, W = linearized(t)
    q0, r0 = overlaps(A0, W0)
    both, c, s = np.outer(BETA, BETA) + np.eye(D), np.cosh(2 * ETA * S * t), np.sinh(2 * ETA * S * t)
    w0, start = W0 @ BETA, kernel(A0, W0)
    w = w0 * np.cosh(ETA * S * t) + A0 * np.sinh(ETA * S * t)
    mixed = np.outer((W0 - np.outer(w0, BETA)).T @ (w - w0), BETA)
    right = start + (q0 * c + r0 * s - q0) * both + mixed + mixed.T
    return Evidence(kernel(a, W), right, start + q0 * c * both)


def _grown(sigma: float, clock: float) -> tuple[Any, Any, float, float]:
    """Return the weights at a time relative to the transition, u^2 at that time, and the time."""
    c0 = sigma**2 * np.sum((A0 + W0 @ BETA) ** 2) / 4
    t = (np.log(S / c0 - 1) + clock) / (2 * S)
    a, W = trained(sigma, t)
    return a, W, S / (1 + (S / c0 - 1) * np.exp(-2 * S * t)), t


@formula(
    "(8)",
    "the kernel during the rise",
    r"K = u^2 x^\top [\beta\beta^\top + I] x' + O(\sigma)",
    printed=r"K = u^2 x^\top [\beta\beta^\top + I] x' + O(\sigma^2)",
    about=("KernelAlignment",),
    tolerance=5e-3,
)
def kernel_during_the_rise() -> Order:
    """Compare with the weights integrated to half of the target."""

    def error(sigma: float) -> float:
        a, W, u2, _ = _grown(sigma, 0.0)
        return float(np.linalg.norm(kernel(a, W) - u2 * (np.outer(BETA, BETA) + np.eye(D))))

    scales = 1e-3, 1e-4
    return Order(scales, [error(sigma) for sigma in scales], 1, 2)


@formula(
    "sec. 3.2",
    "the kernel at the end",
    r"K_\infty = s\, x^\top [\beta\beta^\top + I] x' + O(\sigma^2)",
    condition="order 2; as many samples as inputs, or on their span",
    about=("FinalKernel", "KernelAlignment"),
    tolerance=2e-2,
    expansion=True,
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
    "sec. 3.1.2, (26), B.3",
    "strength of a balanced, aligned network",
    r"u^2 = \frac{s e^{2st}}{e^{2st} - 1 + s/u_0^2}",
    condition=r"$a = u \hat a$, $W = u \hat a \beta^\top$",
    about=("BalancedMode", "LearningTime"),
)
def balanced_strength() -> Evidence:
    """Compare with the integrated weights of a balanced network."""
    direction, u0, t = A0 / np.linalg.norm(A0), 0.05, 2.2
    a = follow([u0 * np.outer(direction, BETA), u0 * direction[None]], S * BETA, [t])[1][0, 0]
    growth = np.exp(2 * S * t)
    return Evidence(a @ a, S * growth / (growth - 1 + S / u0**2))


@formula(
    "sec. 3.1.2, time",
    "when learning begins",
    r"e^{2st} \approx s/u_0^2 \implies t \approx \tfrac{1}{2s} \log(s/u_0^2)",
    printed=r"e^{st} \approx s/u_0^2 \implies t \approx s^{-1} \log(s/\sigma^2)",
    about=("LearningTime",),
    tolerance=1e-8,
)
def when_learning_begins() -> Evidence:
    """Compare with the time to half of the target, by quadrature."""
    c0 = 1e-8
    return Evidence(_half_time(c0), np.log(S / c0) / (2 * S), np.log(S / c0) / S)


@formula(
    "Fig. 2, caption",
    "the same time",
    r"t_2 = \tfrac{1}{2s} \log(s \sigma^{-2})",
    printed=r"t_2 = \tfrac12 \log(s \sigma^{-2})",
    about=("LearningTime",),
    tolerance=1e-8,
)
def time_in_the_caption() -> Evidence:
    """Compare with the time to half of the target, by quadrature."""
    c0 = 1e-8
    return Evidence(_half_time(c0), np.log(S / c0) / (2 * S), np.log(S / c0) / 2)


@formula(
    "(16)",
    "output and size in phase I",
    r"(q, r) = \tfrac12 (q_0 + r_0) (1, 1) e^{2\eta s t} + \tfrac12 (q_0 - r_0) (1, -1) e^{-2\eta s t}",
    condition="at first order in the weights' size",
    about=("EarlyAlignment",),
)
def overlaps_of_phase_one() -> Evidence:
    """Compare with the weights of the flow (6), by a matrix exponential."""
    t, (q0, r0) = 0.9, overlaps(A0, W0)
    up, down = (q0 + r0) / 2 * np.exp(2 * ETA * S * t), (q0 - r0) / 2 * np.exp(-2 * ETA * S * t)
    return Evidence(overlaps(*linearized(t)), (up + down, up - down))


@formula(
    "(17)",
    "overlaps of a Gaussian start",
    r"\langle q_0 \rangle = \frac{\sigma^2}{2} (1 + N/D),\quad \langle r_0 \rangle = 0,\quad \langle r_0^2 "
    r"\rangle = \sigma^4/D",
    about=("InitialOverlaps",),
)
def overlaps_of_a_gaussian_start() -> Evidence:
    """Compare with Gauss-Hermite quadrature over all weights of two units on two inputs, exact for polynomials."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)
    weights = weights / weights.sum()
    grid, share = np.meshgrid(*[nodes] * 6), np.prod(np.meshgrid(*[weights] * 6), axis=0)
    a, W = 0.3 * np.array(grid[:2]) / np.sqrt(2), 0.3 * np.array(grid[2:]).reshape(2, 2, *grid[0].shape) / np.sqrt(2)
    w = W[:, 0] * 0.6 + W[:, 1] * 0.8
    q, r = np.sum(a**2 + w**2, axis=0) / 2, np.sum(a * w, axis=0)
    return Evidence([np.sum(share * v) for v in (q, r, r**2)], [0.3**2 / 2 * 2, 0, 0.3**4 / 2])


@formula(
    "after (17)",
    "size of the overlap with the output",
    r"\langle r_0^2 \rangle^{1/2} / \langle q_0 \rangle = \frac{2}{\sqrt D (1 + N/D)}",
    printed=r"\langle r_0^2 \rangle^{1/2} / \langle q_0 \rangle \approx 0",
    about=("InitialOverlaps",),
    tolerance=5e-3,
)
def size_of_the_overlap() -> Evidence:
    """Compare with 200,000 Gaussian draws of ten units, projected on the target among 25 inputs."""
    a, w = np.random.default_rng(3).standard_normal((2, 200_000, 10)) / np.array([10, 25])[:, None, None] ** 0.5
    r0, q0 = np.sum(a * w, axis=1), np.sum(a**2 + w**2, axis=1) / 2
    return Evidence(np.sqrt(np.mean(r0**2)) / np.mean(q0), 2 / (5 * (1 + 10 / 25)), 0.0)


@formula(
    "(18)",
    "growth of the kernel across the target",
    r"\frac{d}{dt} v^\top M v = 2 \eta s\, r",
    printed=r"\frac{d}{dt} v^\top M v = 2 r",
    about=("EarlyAlignment",),
)
def growth_across_the_target() -> Evidence:
    """Compare with the velocities of the weights under (6)."""
    v = np.cross(BETA[:3], [1.0, 0.0, 2.0])
    v = np.append(v, 0) / np.linalg.norm(v)
    da, dW = ETA * S * W0 @ BETA, ETA * S * np.outer(A0, BETA)
    r = overlaps(A0, W0)[1]
    return Evidence(2 * (v @ W0.T @ dW @ v + A0 @ da), 2 * ETA * S * r, 2 * r)


def _five(a: Any, W: Any) -> Any:
    out, through = BETA @ W.T, BETA @ COVARIANCE @ W.T
    return np.array([out @ a, a @ a, out @ W @ COVARIANCE @ BETA, through @ a, through @ through])


def _five_by_five() -> Any:
    alpha, b = BETA @ COVARIANCE @ BETA, BETA @ COVARIANCE @ COVARIANCE @ BETA
    rows = [0, alpha, 1, 0, 0], [0, 0, 0, 2, 0], [b, 0, 0, alpha, 0], [0, b, 0, 0, 1], [0, 0, 0, 2 * b, 0]
    return np.array(rows)


@formula(
    "(20)-(23)",
    "five overlaps close in phase I",
    r"\dot r = s A r,\; r = (\beta^\top W^\top a, |a|^2, \beta^\top W^\top W\Sigma\beta, \beta^\top\Sigma "
    r"W^\top a, \beta^\top\Sigma W^\top W\Sigma\beta)",
    about=("EarlyAnisotropic",),
)
def five_overlaps() -> Evidence:
    """Compare with the derivative of the overlaps along the weights' velocities (20), (21), by a complex step."""
    da, dW = S * W0 @ COVARIANCE @ BETA, S * np.outer(A0, BETA @ COVARIANCE)
    moved = _five(A0 + 1e-30j * da, W0 + 1e-30j * dW).imag / 1e-30
    return Evidence(moved, S * _five_by_five() @ _five(A0, W0))


@formula(
    "(24)",
    "the growing directions",
    r"\lambda = s\sqrt b, 2 s\sqrt b:\; (1, 0, \sqrt b, 0, 0), (a, \sqrt b, a\sqrt b, b, b\sqrt b)",
    about=("EarlyAnisotropic",),
)
def growing_directions() -> Evidence:
    """Compare with the eigenvectors of the matrix of (23), found numerically, scaled to a common third entry."""
    alpha, b = BETA @ COVARIANCE @ BETA, BETA @ COVARIANCE @ COVARIANCE @ BETA
    root = np.sqrt(b)
    values, vectors = np.linalg.eig(_five_by_five())
    order = [np.argmin(np.abs(values - rate)) for rate in (root, 2 * root)]
    stated = np.array([[1, 0, root, 0, 0], [alpha, root, alpha * root, b, b * root]])
    found = vectors.T.real[order]
    return Evidence(found * (stated[:, 2] / found[:, 2])[:, None], stated)


@formula(
    "(25)",
    "direction of the kernel late in phase I",
    r"M \propto \frac{\Sigma\beta\beta^\top\Sigma}{\beta^\top\Sigma^2\beta} + I",
    printed=r"M = \frac{1}{\sqrt{\beta^\top\Sigma^2\beta}} \Sigma\beta\beta^\top\Sigma + I",
    about=("EarlyKernelDirection",),
)
def direction_of_the_kernel() -> Evidence:
    """Compare with the weights of the flow (20), (21) at a late time, by a matrix exponential."""
    b = BETA @ COVARIANCE @ COVARIANCE @ BETA
    a, W = linearized(30 / S / np.sqrt(b), COVARIANCE, eta=1.0)
    spike = np.outer(COVARIANCE @ BETA, COVARIANCE @ BETA)
    return Evidence(kernel(a, W) / (a @ a), spike / b + np.eye(D), spike / np.sqrt(b) + np.eye(D))


@formula(
    "(27), (28)",
    "output and size of a small network from start to end",
    r"r, q = s \frac{2 \sinh, \cosh (2st)}{e^{2st} - 1 + 2s/p_0},\; p_0 = q_0 + r_0,\; O(\sigma^2 "
    r"\log\tfrac1\sigma)",
    printed=r"r, q = s \frac{2 \sinh, \cosh (2st)}{e^{2st} - 1 + 2s/q_0},\; O(\sigma^2)",
    about=("MatchedSolution", "RefinedMatchedSolution"),
    tolerance=1e-6,
)
def matched_solution() -> Evidence:
    """Compare with the weights integrated from size 1e-4 to half of the target."""
    sigma = 1e-4
    a, W, _, t = _grown(sigma, 0.0)
    q0, r0 = np.array(overlaps(A0, W0)) * sigma**2

    def form(size: float) -> Any:
        growth = np.exp(2 * S * t)
        return S * (growth + np.array([1, -1]) / growth) / (growth - 1 + 2 * S / size)

    return Evidence(overlaps(a, W), form(q0 + r0), form(q0))


FORMULAS = formula.formulas
