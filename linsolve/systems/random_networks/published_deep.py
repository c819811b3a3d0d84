"""Seleznova (2024), section 3.2 and appendix A: tangent kernels of networks as deep as wide."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np

from linsolve.core.published_formula import Evidence, Source
from linsolve.systems.random_networks.published import MOMENTS, gates, gaussian

__all__ = ["FORMULAS"]

formula = Source("seleznova_2024")


@formula(
    "(26), Lemma A.4(1)",
    "ratio of squared lengths of the gradients of two layers",
    r"\mathbb E \mathcal N_\delta = \tfrac{\sigma_w^2}{2},\quad \mathbb E \mathcal N_\delta^2 = "
    r"\bigl(\tfrac{\sigma_w^2}{2}\bigr)^2 (1 + \tfrac{5}{n})",
    about=MOMENTS,
)
def ratio_of_lengths() -> Evidence:
    """Compare with a sum over all gates of three ReLU units and Gauss-Hermite quadrature over their weights."""
    g, share = gaussian(3, 3, 3)
    ratio = 1.4 / 3 * gates(3) @ g**2
    return Evidence([np.mean(ratio**k @ share) for k in (1, 2)], [0.7, 0.49 * (1 + 5 / 3)])


@formula(
    "(29), Lemma A.4(2)",
    "forward and backward lengths are correlated",
    r"\mathcal C_{(i,j)} = \tfrac13 \prod_k (1 + \tfrac{5}{n_k}) + \tfrac23 \prod_k (1 - \tfrac{1}{n_k})",
    printed=r"\mathcal C_{(i,j)} = \prod_k (1 + \tfrac{1}{n_k} + O(M^{-3/2}))",
    about=MOMENTS,
)
def correlation_of_lengths() -> Evidence:
    """Compare with a sum over gates and Gauss-Hermite quadrature over weights of two layers of two ReLU units."""
    # the weights between the layers enter to the fourth power, the outer weights squared
    points, share = gaussian(*[3] * 4, *[2] * 4)
    between, into, out = points[:4].reshape(2, 2, -1), points[4:6], points[6:]
    total = 0.0
    for low, high in product(gates(2), repeat=2):
        gated = high[:, None, None] * between * low[None, :, None]
        forward = np.sum(np.einsum("abk,bk->ak", gated, into) ** 2, axis=0)
        backward = np.sum(np.einsum("abk,ak->bk", gated, out) ** 2, axis=0)
        total += share @ (forward * backward) / 16
    # means of the two factors: each of two layers halves, times the number of units
    return Evidence(total, (1 / 3) * 3.5**2 + (2 / 3) * 0.5**2, 1.5**2)


@formula(
    "(13)",
    "mean square of the weights' part of the kernel",
    r"\mathcal X_{(1,L)} \sum_\ell \tfrac{n_{\ell-1}^2}{n_0^2} + 2 \sum_{\ell_1 < \ell_2} \tfrac{n_{\ell_1-1} "
    r"n_{\ell_2-1}}{n_0^2} \mathcal X_{(1,\ell_1)} \mathcal C_{(\ell_1,\ell_2)} \mathcal X_{(\ell_2,L)}",
    printed=r"\mathcal X_{(1,L)} \Bigl[ \sum_\ell \tfrac{n_{\ell-1}^2}{n_0^2} + \sum_{\ell_1 < \ell_2} "
    r"\tfrac{n_{\ell_1-1} n_{\ell_2-1}}{n_0^2} \mathcal C_{(\ell_1,\ell_2)} \Bigr]",
    about=MOMENTS,
)
def mean_square_of_the_weights() -> Evidence:
    """Compare with kernel of three ReLU on two inputs, all gates and weights by quadrature and enumeration."""
    weights, _, _ = _shallow()
    C, X, share = 1 + 1 / 3, 1 + 5 / 3, 3 / 2
    return Evidence(weights, X * (1 + share**2) + 2 * share * C, X * (1 + share**2 + share * C))


@cache
def _shallow() -> tuple[float, ...]:
    """Return mean squares of both kernel parts of one hidden layer of 3 ReLU at a = 1, and the mean of the second."""
    g, share = gaussian(3, 3, 3)
    forward = (gates(3) @ g**2)[:, :, None]  # |x^1|^2 over sigma_w^2 |x^0|^2/n_0, n_0 = 2, sigma_w^2 = 2
    backward = 2 / 3 * (gates(3) @ g**2)[:, None, :]  # |delta^1|^2
    kernel, biases = backward + 2 / 2 * forward, 1 + backward
    parts = kernel**2, biases**2 + 0 * kernel, biases + 0 * kernel
    return tuple(float(np.mean(np.einsum("gab,a,b->g", part, share, share))) for part in parts)


@formula(
    "(12), (14)",
    "mean and mean square of the biases' part of the kernel",
    r"\mathbb E \Theta_b = \sum_\ell a^{L-\ell},\quad \mathbb E \Theta_b^2/a^{2L} = \sum_\ell \mathcal X_{(\ell,L)} "
    r"a^{-2\ell} + 2 \sum_{\ell_1 < \ell_2} \mathcal X_{(\ell_2,L)} a^{-\ell_1-\ell_2}",
    condition="no layer dead",
    about=MOMENTS,
)
def mean_square_of_the_biases() -> Evidence:
    """Compare with kernel of three ReLU on two inputs, all gates and weights by quadrature and enumeration."""
    _, square, mean = _shallow()
    return Evidence([mean, square], [1 + 1, (1 + 5 / 3) + 1 + 2])


def _finite(width: int, ratio: float) -> float:
    """Return the dispersion of the weights' part at finite width from the sum (13), with the correlation (29)."""
    depth = round(ratio * width)
    up, down = 1 + 5 / width, (1 - 1 / width) / (1 + 5 / width)
    k = np.arange(1, depth)
    return up ** (depth - 1) * (1 / depth + 2 / depth**2 * np.sum((depth - k) * (1 / 3 + 2 / 3 * down**k)))


@formula(
    "(8), (32), (40)",
    "dispersion of the kernel of deep and wide networks",
    r"V = e^{5\lambda} \Bigl[\tfrac13 + \tfrac{2}{9\lambda} - \tfrac{1 - e^{-6\lambda}}{27\lambda^2}\Bigr]",
    printed=r"V = \tfrac{1}{2\lambda} e^{5\lambda} \Bigl(1 - \tfrac{1}{4\lambda} (1 - e^{-4\lambda})\Bigr)",
    about=("NTKDispersionLimit",),
    tolerance=1e-4,
)
def dispersion_of_deep_networks() -> Evidence:
    """Compare with sums over 2000 and 4000 layers of as many units, extrapolated; see (13) and (29)."""
    truth = 2 * _finite(4000, 1.0) - _finite(2000, 1.0)
    right = np.exp(5) * (1 / 3 + 2 / 9 - (1 - np.exp(-6)) / 27)
    return Evidence(truth, right, np.exp(5) / 2 * (1 - (1 - np.exp(-4)) / 4))


@formula(
    "(9)",
    "dispersion at the edge of chaos",
    r"V = (V_W + 2\alpha V_{Wb} + \alpha^2 V_b)/(1 + \alpha)^2,\; V_{Wb} = \tfrac13 (\varphi_1 + 2\varphi_2)(5\lambda) "
    r"+ \tfrac{\varphi_1(5\lambda) - \varphi_1(-\lambda)}{9\lambda}",
    printed=r"V = (V_W + 2\alpha V_{Wb} + \alpha^2 V_b)/(1 + \alpha)^2 \text{ with } V_W \text{ of (8) and } V_{Wb} = "
    r"\varphi_2(5\lambda) + \tfrac{\varphi_1(5\lambda) - \varphi_1(\lambda)}{4\lambda}",
    about=("NTKDispersionLimit",),
)
def dispersion_at_the_edge() -> Evidence:
    """Compare with integrals over pairs of layers, by Gauss-Legendre quadrature."""
    ratio, alpha = 0.7, 0.8
    nodes, weights = np.polynomial.legendre.leggauss(40)
    t, u = (nodes[:, None] + 1) / 2, (nodes + 1) / 2
    s, share = t * u, np.outer(weights, weights) / 4 * t  # 0 < s < t < 1
    grown, coupled = np.exp(5 * ratio * (1 - t)), np.exp(5 * ratio * (t - s)) / 3 + 2 / 3 * np.exp(-ratio * (t - s))
    parts = np.exp(5 * ratio * s) * coupled, 1 + coupled, 2 * 1 + 0 * s
    squares = [np.sum(share * grown * part) for part in parts]
    truth = 2 * (squares[0] + alpha * squares[1] + alpha**2 * squares[2] / 2) / (1 + alpha) ** 2

    def one(z: float) -> float:
        return float(np.expm1(z) / z)

    def two(z: float) -> float:
        return (one(z) - 1) / z

    x, own = 5 * ratio, 2 * alpha**2 * two(5 * ratio)
    right = np.exp(x) * (1 / 3 + 4 / 3 * two(-6 * ratio))
    both = (one(x) + 2 * two(x)) / 3 + (one(x) - one(-ratio)) / 9 / ratio
    printed, across = 2 * np.exp(x) * two(-4 * ratio), two(x) + (one(x) - one(ratio)) / 4 / ratio
    forms = [(w + 2 * alpha * b + own) / (1 + alpha) ** 2 for w, b in ((right, both), (printed, across))]
    return Evidence(truth, *forms)


@formula(
    "after (15)",
    "limit of the correlation",
    r"\mathcal C_{(1,L)} \to \tfrac13 e^{5\lambda} + \tfrac23 e^{-\lambda}",
    printed=r"\mathcal C_{(1,L)} \to e^\lambda",
    about=("NTKDispersionLimit",),
    tolerance=1e-3,
)
def limit_of_the_correlation() -> Evidence:
    """Compare with the transfer of both moments of a random matrix through ten million layers of as many units."""
    width, ratio = 10**7, 0.5
    # (E (tr G)^2, E tr G^2) of one layer of masked Gaussian weights, kappa = 2
    step = np.eye(2) + np.array([[1, 4], [2, 3]]) / width
    end = np.linalg.matrix_power(step, int(ratio * width)) @ [1, 0]
    right = np.exp(5 * ratio) / 3 + 2 / 3 * np.exp(-ratio)
    return Evidence(end[0], right, np.exp(ratio))


@formula(
    "Theorem 4.1, chaotic phase",
    "squared output, gradient and input of neighboring layers",
    r"\mathbb E f^2 |\delta^{\ell+1}|^2 |x^{\ell-1}|^2 = |x^0|^4 \sigma_w^2 a^{2L-3} \tfrac{n_{\ell-1}}{n_0^2} "
    r"\mathcal X_{(1,\ell)} \mathcal X_{(\ell+1,L)}",
    printed=r"2 |x^0|^4 \tfrac{a^{2L-1}}{n_0} \prod_{j<\ell} (1 + \tfrac{5}{n_j}) \prod_{j>\ell} (1 + \tfrac{1}{n_j})",
    about=("NTKFirstStep",),
)
def neighboring_layers() -> Evidence:
    """Compare with a sum over gates and quadrature over weights of two layers of two ReLU units on one input."""
    points, share = gaussian(*[3] * 2, *[2] * 6)  # the first weights enter to the fourth power, all others squared
    into, between, out = points[:2], points[2:6].reshape(2, 2, -1), points[6:]
    variance, truth = 1.4, 0.0
    for low, high in product(gates(2), repeat=2):
        x = low[:, None] * into  # in units of the standard deviation for one input
        f = np.sum(high[:, None] * out * np.einsum("abk,bk->ak", between, x), axis=0)
        truth += share @ (f**2 * np.sum(x**2, axis=0)) / 16
    truth *= variance**2 * (variance / 2) ** 2  # variances of x^1 (twice), W^2 and W^3
    a = variance / 2
    return Evidence(truth, variance * a**3 * 2 * (1 + 5 / 2), 2 * a**5 * (1 + 5 / 2))


def _first_step(depth: int, width: int, a: float) -> float:
    """Return the mean relative change of the kernel in a first step over minus the rate, from the double sum."""
    k = np.arange(1, depth + 1)
    biases, later = a ** (depth - k), (1 + 5 / width) ** (depth - k)
    apart = k - k[:, None]  # m in rows, k in columns
    mixed = np.where(apart > 0, (1 + 5 / width) ** apart - (1 - 1 / width) ** np.maximum(apart, 0), 0) / 3
    weights = a ** (depth - 1)
    pairs = (weights * (1 + 5 / width) ** (k - 1) + biases)[:, None] * mixed * later
    return float(4 * weights * np.sum(pairs) / (depth * weights + np.sum(biases)))


@formula(
    "Theorem 4.1, ordered phase",
    "decay of the change by the first step with depth",
    r"\mathbb E \Delta\Theta/\mathbb E \Theta \sim a^L/M",
    printed=r"\mathbb E \Delta\Theta/\mathbb E \Theta \sim a^{2L} L^2/M",
    about=("NTKFirstStepLimit",),
    tolerance=2e-3,
    expansion=True,
)
def decay_of_the_first_step() -> Evidence:
    """Compare with the ratio of the double sums of 61 and 60 layers of 100 ReLU."""
    a = 0.5
    ratio = _first_step(61, 100, a) / _first_step(60, 100, a)
    return Evidence(ratio, a, a**2 * (61 / 60) ** 2)


@formula(
    "sec. 1.3.1",
    "change by the first step at the edge of chaos",
    r"\mathbb E \Delta\Theta/\mathbb E \Theta \sim L\, F(L/M)",
    printed=r"\mathbb E \Delta\Theta/\mathbb E \Theta \sim \exp(L/M)",
    about=("NTKFirstStepLimit",),
    tolerance=1e-3,
    expansion=True,
)
def first_step_at_the_edge() -> Evidence:
    """Compare with the ratio of the double sums of 400 layers of 800 ReLU and 200 of 400, extrapolated in 1/M."""
    by_depth = [_first_step(depth, 2 * depth, 1.0) / depth for depth in (100, 200, 400)]
    twice, once = (2 * by_depth[k + 1] - by_depth[k] for k in (1, 0))
    return Evidence(2 * twice / once, 2.0, 1.0)


@formula(
    "(2.46)",
    "risk of least squares beyond interpolation",
    r"r^2 (1 - \tfrac1\gamma) + \tfrac{\sigma^2}{\gamma - 1}\; (\gamma > 1)",
    printed=r"r^2 (1 - \tfrac1\gamma) + \tfrac{\sigma^2}{1 - \gamma}\; (\gamma > 1)",
    tolerance=1e-8,
)
def risk_of_least_squares() -> Evidence:
    """Compare with the mean inverse eigenvalue of the Marchenko-Pastur distribution, by quadrature."""
    from scipy.integrate import quad

    gamma, r2, noise = 2.5, 1.3, 0.7
    low, high = (1 - gamma**-0.5) ** 2, (1 + gamma**-0.5) ** 2
    middle, half = (low + high) / 2, (high - low) / 2
    # eigenvalues x = middle + half cos t of X X^T/P have density half^2 sin^2 t / (2 pi x/gamma)
    inverse = quad(
        lambda t: half**2 * np.sin(t) ** 2 / (2 * np.pi / gamma * (middle + half * np.cos(t)) ** 2), 0, np.pi
    )
    signal = r2 * (1 - 1 / gamma)
    return Evidence(signal + noise * inverse[0] / gamma, signal + noise / (gamma - 1), signal + noise / (1 - gamma))


@formula(
    "(2.55)",
    "the tangent kernel at infinite width",
    r"\Theta^\infty = \sum_\ell \Sigma^\ell \prod_{k=\ell}^{L-1} \sigma_w^2 \dot\Sigma^k",
    printed=r"\Theta^\infty = \sum_\ell \Sigma^{\ell-1} \prod_{k=\ell}^{L} \dot\Sigma^k",
    about=MOMENTS,
)
def kernel_at_infinite_width() -> Evidence:
    """Compare with a linear network, whose output is linear in each of L layers: each contributes its variance."""
    overlap, weight, depth = 0.6, 1.3, 4
    covariance = weight ** np.arange(depth + 1) * overlap  # Sigma^0 (of the inputs), ..., Sigma^L
    right = sum(covariance[k] * weight ** (depth - k) for k in range(1, depth + 1))
    return Evidence(depth * covariance[depth], right, covariance[:depth].sum())


FORMULAS = formula.formulas
