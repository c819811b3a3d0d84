"""Seleznova (2024), section 3.2 and appendix A: tangent kernels of networks as deep as wide."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np

from linsolve.core.published_formula import Evidence, Source
from linsolve.systems.random_networks.published import MOMENTS, normal

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
    """Compare with all gates of three ReLU and their weights, by Gauss-Hermite quadrature and enumeration."""
    nodes, weights = normal(3)
    g, share = np.array(list(product(nodes, repeat=3))), np.prod(list(product(weights, repeat=3)), axis=1)
    ratio = 1.4 / 3 * np.array(list(product((0, 1), repeat=3))) @ (g**2).T
    return Evidence([np.mean(ratio**k @ share) for k in (1, 2)], [0.7, 0.49 * (1 + 5 / 3)])


@formula(
    "(29), Lemma A.4(2)",
    "forward and backward lengths are correlated",
    r"\mathcal C_{(i,j)} = \tfrac13 \prod_k (1 + \tfrac{5}{n_k}) + \tfrac23 \prod_k (1 - \tfrac{1}{n_k})",
    printed=r"\mathcal C_{(i,j)} = \prod_k (1 + \tfrac{1}{n_k} + O(M^{-3/2}))",
    about=MOMENTS,
)
def correlation_of_lengths() -> Evidence:
    """Compare with all gates and weights of two layers of two ReLU, by Gauss-Hermite quadrature and enumeration."""
    three, two = normal(3), normal(2)
    rules = [three] * 4 + [two] * 4  # the weights between the layers enter to the fourth power, the outer ones squared
    points = np.stack(np.meshgrid(*[rule[0] for rule in rules], indexing="ij")).reshape(8, -1)
    share = np.prod(np.stack(np.meshgrid(*[rule[1] for rule in rules], indexing="ij")).reshape(8, -1), axis=0)
    between, into, out = points[:4].reshape(2, 2, -1), points[4:6], points[6:]
    total = 0.0
    for low, high in product(product((0, 1), repeat=2), repeat=2):
        gated = np.array(high)[:, None, None] * between * np.array(low)[None, :, None]
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
    weights, _ = _shallow()
    C, X, share = 1 + 1 / 3, 1 + 5 / 3, 3 / 2
    return Evidence(weights, X * (1 + share**2) + 2 * share * C, X * (1 + share**2 + share * C))


@cache
def _shallow() -> tuple[float, float]:
    """Return mean squares of both parts of the kernel of one hidden layer of 3 ReLU, over their scales at a = 1."""
    nodes, weights = normal(3)
    g, share = np.array(list(product(nodes, repeat=3))), np.prod(list(product(weights, repeat=3)), axis=1)
    gates = np.array(list(product((0, 1), repeat=3)))
    forward = (gates @ (g**2).T)[:, :, None]  # |x^1|^2 over sigma_w^2 |x^0|^2/n_0, n_0 = 2, sigma_w^2 = 2
    backward = 2 / 3 * (gates @ (g**2).T)[:, None, :]  # |delta^1|^2
    kernel, biases = backward + 2 / 2 * forward, 1 + backward
    return tuple(
        float(np.mean(np.einsum("gab,a,b->g", part**2 + 0 * kernel, share, share))) for part in (kernel, biases)
    )  # type: ignore[return-value]


@formula(
    "(14)",
    "mean square of the biases' part of the kernel",
    r"\mathbb E \Theta_b^2/a^{2L} = \sum_\ell \mathcal X_{(\ell,L)} a^{-2\ell} + 2 \sum_{\ell_1 < \ell_2} "
    r"\mathcal X_{(\ell_2,L)} a^{-\ell_1-\ell_2}",
    condition="no layer dead",
    about=MOMENTS,
)
def mean_square_of_the_biases() -> Evidence:
    """Compare with kernel of three ReLU on two inputs, all gates and weights by quadrature and enumeration."""
    return Evidence(_shallow()[1], (1 + 5 / 3) + 1 + 2)


def _finite(width: int, ratio: float) -> float:
    """Return the dispersion of the weights' part at finite width by (13), corrected, with the exact correlation."""
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
    "(2.46)",
    "risk of least squares beyond interpolation",
    r"r^2 (1 - \tfrac1\gamma) + \tfrac{\sigma^2}{\gamma - 1}\; (\gamma > 1)",
    printed=r"r^2 (1 - \tfrac1\gamma) + \tfrac{\sigma^2}{1 - \gamma}\; (\gamma > 1)",
    tolerance=1e-8,
)
def risk_of_least_squares() -> Evidence:
    """Compare with mean inverse eigenvalue over the law of Marchenko and Pastur, by quadrature."""
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
    """Compare with a linear network: its output is linear in each of L layers, which all add its variance."""
    overlap, weight, depth = 0.6, 1.3, 4
    covariance = weight ** np.arange(depth + 1) * overlap  # Sigma^0 (of the inputs), ..., Sigma^L
    right = sum(covariance[k] * weight ** (depth - k) for k in range(1, depth + 1))
    return Evidence(depth * covariance[depth], right, covariance[:depth].sum())


FORMULAS = formula.formulas
