"""Seleznova (2024), section 3.2 and appendix A: tangent kernels of networks as deep as wide."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np

from linsolve.core.published_formula import Evidence, Source
from linsolve.systems.random_networks.published import MOMENTS, gates, gaussian

__all__ = ["FORMULAS"]

formula = Source("seleznova_2024", "ReLU networks with zero biases at initialization, widths of order M")


@formula(
    "3.2/A.1",
    "Lemma A.2, (26)",
    "ratio of squared lengths of the gradients of two layers",
    quote=(
        r"$\mathbb{E}[\mathcal{N}_\delta^\ell] = \frac{\sigma_w^2}{2}, \quad "
        r"\mathbb{E}[(\mathcal{N}_\delta^\ell)^2] = \left(\frac{\sigma_w^2}{2}\right)^2 \left(1 + "
        r"\frac{5}{n_\ell}\right)$"
    ),
    latex=(
        r"\mathbb E \mathcal N_\delta = \tfrac{\sigma_w^2}{2},\quad \mathbb E \mathcal N_\delta^2 = "
        r"\bigl(\tfrac{\sigma_w^2}{2}\bigr)^2 (1 + \tfrac{5}{n})"
    ),
    about=MOMENTS,
)
def ratio_of_lengths() -> Evidence:
    """Compare with a sum over all gates of three ReLU units and Gauss-Hermite quadrature over their weights."""
    g, share = gaussian(3, 3, 3)
    ratio = 1.4 / 3 * gates(3) @ g**2
    return Evidence([np.mean(ratio**k @ share) for k in (1, 2)], [0.7, 0.49 * (1 + 5 / 3)])


@formula(
    "3.2/A.1",
    "Lemma A.4(2), (29)",
    "forward and backward lengths are correlated",
    quote=(
        r"In particular, we have: $\mathbb{E}\left[\prod_{p=0}^k \mathcal{N}_\delta^{\ell+p} "
        r"\mathcal{N}_x^{\ell+p}\right] = \prod_{p=0}^k \mathbb{E}[\mathcal{N}_\delta^{\ell+p}] "
        r"\mathbb{E}[\mathcal{N}_x^{\ell+p}] \left(1 + \frac{1}{n_{\ell+p}} + "
        r"O\left(\frac{1}{M^{3/2}}\right)\right)$"
    ),
    latex=r"\mathcal C_{(i,j)} = \tfrac13 \prod_k (1 + \tfrac{5}{n_k}) + \tfrac23 \prod_k (1 - \tfrac{1}{n_k})",
    verdict="incorrect",
    reason=(
        "at fixed depth it holds with its error term; the step that sums over the layers one by one drops "
        "correlations of order 1/M^2 between every two layers, of which the joint limit has of order M^2, and "
        "the limit differs"
    ),
    setting="ReLU networks with zero biases at initialization, widths of order M, depth and width to infinity together",
    about=MOMENTS,
    tolerance=1e-05,
)
def correlation_of_lengths() -> Evidence:
    """Compare with all gates and weights of two layers of two ReLU, and with the limit through ten million layers."""
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
    stated = (1 / 3) * 3.5**2 + (2 / 3) * 0.5**2
    limit = _correlation(10**7, 0.5)
    # two layers are within the error term; with it kept, the printed product tends to e^lambda
    return Evidence([total, limit], [stated, np.exp(2.5) / 3 + 2 / 3 * np.exp(-0.5)], [total, np.exp(0.5)])


def _correlation(width: int, ratio: float) -> float:
    """Return the correlation through ratio * width layers, by the transfer of both moments of a random matrix."""
    # (E (tr G)^2, E tr G^2) of one layer of masked Gaussian weights, kappa = 2
    step = np.eye(2) + np.array([[1, 4], [2, 3]]) / width
    return float((np.linalg.matrix_power(step, int(ratio * width)) @ [1, 0])[0])


@formula(
    "3.2/3.2",
    "Theorem 3.2, (13)",
    "mean square of the weights' part of the kernel",
    quote=(
        r"$\frac{\mathbb{E}[\Theta_W^2(x, x)]}{\|\mathbf{x}^0\|^4 a^{2(L-1)}} = \mathcal{X}_{(1,L)} \left[ "
        r"\sum_{\ell=1}^L \frac{n_{\ell-1}^2}{n_0^2} + \sum_{\ell_1 < \ell_2} \frac{n_{\ell_2-1} "
        r"n_{\ell_1-1}}{n_0^2} \mathcal{C}_{(\ell_1, \ell_2)} \right]$"
    ),
    latex=(
        r"\mathcal X_{(1,L)} \sum_\ell \tfrac{n_{\ell-1}^2}{n_0^2} + 2 \sum_{\ell_1 < \ell_2} \tfrac{n_{\ell_1-1} "
        r"n_{\ell_2-1}}{n_0^2} \mathcal X_{(1,\ell_1)} \mathcal C_{(\ell_1,\ell_2)} \mathcal X_{(\ell_2,L)}"
    ),
    verdict="typographical",
    reason="the proof of Lemma A.5 has the factor 2 of the mixed terms and the products over their own layers",
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
    "3.2/3.2",
    "Theorem 3.2, (12), (14)",
    "mean and mean square of the biases' part of the kernel",
    quote=(
        r"$\frac{\mathbb{E}[\Theta_b(x, x)^2]}{a^{2L}} = \sum_{\ell=1}^L \frac{\mathcal{X}_{(\ell,L)}}{a^{2\ell}} "
        r"+ 2 \sum_{\ell_1 < \ell_2} \frac{\mathcal{X}_{(\ell_2,L)}}{a^{\ell_1 + \ell_2}}$"
    ),
    latex=(
        r"\mathbb E \Theta_b = \sum_\ell a^{L-\ell},\quad \mathbb E \Theta_b^2/a^{2L} = \sum_\ell \mathcal "
        r"X_{(\ell,L)} a^{-2\ell} + 2 \sum_{\ell_1 < \ell_2} \mathcal X_{(\ell_2,L)} a^{-\ell_1-\ell_2}"
    ),
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
    "3.2/3.1",
    "Theorem 3.1, (8); A.1, (32), (40)",
    "dispersion of the kernel of deep and wide networks",
    quote=(
        r"In the chaotic phase [...] the NTK dispersion grows exponentially with depth-to-width ratio $\lambda := "
        r"L/M$ as follows: $\frac{\mathbb{E}[\Theta^2(x, x)]}{\mathbb{E}^2[\Theta(x, x)]} \rightarrow "
        r"\frac{1}{2\lambda} e^{5\lambda} \left( 1 - \frac{1}{4\lambda} (1 - e^{-4\lambda}) \right)$"
    ),
    latex=r"V = e^{5\lambda} \Bigl[\tfrac13 + \tfrac{2}{9\lambda} - \tfrac{1 - e^{-6\lambda}}{27\lambda^2}\Bigr]",
    verdict="incorrect",
    reason="rests on the correlation (29); the growth as exp(5 lambda) holds",
    setting="ReLU networks with zero biases at initialization, widths of order M, L/M -> lambda",
    follows="correlation_of_lengths",
    about=("NTKDispersionLimit",),
    tolerance=1e-4,
)
def dispersion_of_deep_networks() -> Evidence:
    """Compare with sums over 2000 and 4000 layers of as many units, extrapolated; see (13) and (29)."""
    truth = 2 * _finite(4000, 1.0) - _finite(2000, 1.0)
    right = np.exp(5) * (1 / 3 + 2 / 9 - (1 - np.exp(-6)) / 27)
    return Evidence(truth, right, np.exp(5) / 2 * (1 - (1 - np.exp(-4)) / 4))


@formula(
    "3.2/3.1",
    "Theorem 3.1, (9); A.1, (41); B.1",
    "dispersion at the edge of chaos",
    quote=(
        r"$\frac{\mathbb{E}[\Theta^2(x, x)]}{\mathbb{E}^2[\Theta(x, x)]} \rightarrow \frac{1}{(1 + \alpha_0)^2} "
        r"\left[ e^{5\lambda} \left( \frac{1}{2\lambda} + \frac{2\alpha_0^2 - 8\alpha_0}{25\lambda^2} \right) + "
        r"(e^\lambda - e^{5\lambda}) \frac{1 - 4\alpha_0}{8\lambda^2} + \frac{2\alpha_0}{5\lambda} \left( \frac{4 "
        r"- \alpha_0}{5\lambda} - 1 - \alpha_0 \right) \right]$"
    ),
    latex=(
        r"V = (V_W + 2\alpha V_{Wb} + \alpha^2 V_b)/(1 + \alpha)^2,\; V_{Wb} = \tfrac13 (\varphi_1 + "
        r"2\varphi_2)(5\lambda) + \tfrac{\varphi_1(5\lambda) - \varphi_1(-\lambda)}{9\lambda}"
    ),
    verdict="incorrect",
    reason="rests on the correlation (29); (41) and the limit of appendix B.1 are the same expression",
    setting="ReLU networks with zero biases at initialization, widths of order M, L/M -> lambda",
    follows="correlation_of_lengths",
    about=("NTKDispersionLimit",),
)
def dispersion_at_the_edge() -> Evidence:
    """Compare with integrals over pairs of layers, by Gauss-Legendre quadrature."""
    x, a = 0.7, 0.8
    weights, both, biases = _squares(x)
    own = (np.exp(5 * x) * (1 / 3 + 4 / 3 * _two(-6 * x)), _both(x), 2 * _two(5 * x))
    # (9), term by term
    grown = np.exp(5 * x) * (1 / (2 * x) + (2 * a**2 - 8 * a) / (25 * x**2))
    rest = (np.exp(x) - np.exp(5 * x)) * (1 - 4 * a) / (8 * x**2)
    printed = grown + rest + 2 * a / (5 * x) * ((4 - a) / (5 * x) - 1 - a)
    forms = (w + 2 * a * m + a**2 * v for w, m, v in ((weights, both, biases), own))
    return Evidence(*(form / (1 + a) ** 2 for form in (*forms, printed)))


@formula(
    "3.2/A.1",
    "Lemma A.7(3), (37)",
    "mean product of both parts of the kernel",
    quote=(
        r"$\frac{\mathbb{E}[\Theta_W(x, x)\Theta_b(x, x)]}{L^2} \xrightarrow[M \rightarrow \infty, L \rightarrow "
        r"\infty, L/M \rightarrow \lambda \in \mathbb{R}]{} \frac{1}{4\alpha_0} \left( e^{5\lambda} "
        r"\frac{9}{25\lambda^2} - e^\lambda \frac{1}{\lambda^2} - \frac{4}{5\lambda} + \frac{16}{25\lambda^2} "
        r"\right)$"
    ),
    latex=(
        r"\frac{1}{\alpha_0} \Bigl[\tfrac13 (\varphi_1 + 2\varphi_2)(5\lambda) + \frac{\varphi_1(5\lambda) - "
        r"\varphi_1(-\lambda)}{9\lambda}\Bigr],\; \varphi_1(z) = \frac{e^z - 1}{z},\, \varphi_2 = \frac{\varphi_1 "
        "- 1}{z}"
    ),
    verdict="incorrect",
    reason="rests on the correlation (29)",
    setting="ReLU networks with zero biases at initialization, widths of order M, edge of chaos, L/M -> lambda",
    follows="correlation_of_lengths",
    about=("NTKMoments", "NTKDispersionLimit"),
)
def weights_times_biases() -> Evidence:
    """Compare with the integral over pairs of layers, by Gauss-Legendre quadrature."""
    x = 0.7
    printed = np.exp(5 * x) * 9 / (25 * x**2) - np.exp(x) / x**2 - 4 / (5 * x) + 16 / (25 * x**2)
    return Evidence(_squares(x)[1], _both(x), printed / 4)


def _squares(ratio: float) -> tuple[float, ...]:
    """Return means of the squares of the weights' part, of both parts, and of the biases' part, over their sizes."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    t, u = (nodes[:, None] + 1) / 2, (nodes + 1) / 2
    s, share = t * u, np.outer(weights, weights) / 4 * t  # 0 < s < t < 1
    grown, coupled = np.exp(5 * ratio * (1 - t)), np.exp(5 * ratio * (t - s)) / 3 + 2 / 3 * np.exp(-ratio * (t - s))
    parts = 2 * np.exp(5 * ratio * s) * coupled, 1 + coupled, 2 + 0 * s
    return tuple(float(np.sum(share * grown * part)) for part in parts)


def _one(z: float) -> float:
    return float(np.expm1(z) / z)


def _two(z: float) -> float:
    return (_one(z) - 1) / z


def _both(ratio: float) -> float:
    x = 5 * ratio
    return (_one(x) + 2 * _two(x)) / 3 + (_one(x) - _one(-ratio)) / 9 / ratio


@formula(
    "3.2/3.2",
    "after (15)",
    "limit of the correlation",
    quote=(
        r"they simplify to the results in the limit by noticing that [...] $\mathcal{C}_{(1,L)} \rightarrow "
        r"e^\lambda$"
    ),
    latex=r"\mathcal C_{(1,L)} \to \tfrac13 e^{5\lambda} + \tfrac23 e^{-\lambda}",
    verdict="incorrect",
    reason="the limit of the products of (29)",
    setting="ReLU networks with zero biases at initialization, widths of order M, L/M -> lambda",
    follows="correlation_of_lengths",
    about=("NTKDispersionLimit",),
    tolerance=1e-3,
)
def limit_of_the_correlation() -> Evidence:
    """Compare with the transfer of both moments of a random matrix through ten million layers of as many units."""
    ratio = 0.3
    return Evidence(_correlation(10**7, ratio), np.exp(5 * ratio) / 3 + 2 / 3 * np.exp(-ratio), np.exp(ratio))


FORMULAS = formula.formulas
