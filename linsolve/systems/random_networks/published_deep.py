"""Seleznova (2024), section 3.2 and appendix A: moments of the tangent kernel at finite depth and width."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

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
        "at fixed depth it holds with its error term. The proof sums over the units of each layer independently and "
        "drops 8/M^2 for every two layers; the joint limit has of order M^2 such pairs, so that the limit differs"
    ),
    setting="ReLU networks with zero biases at initialization, widths of order M, depth and width to infinity together",
    about=MOMENTS,
    tolerance=1e-05,
)
def correlation_of_lengths() -> Evidence:
    """Compare with all gates and weights of two layers of two ReLU, and the transfer through five million layers."""
    # the weights between the layers enter to the fourth power, the outer weights squared
    points, share = gaussian(*[3] * 4, *[2] * 4)
    between, into, out = points[:4].reshape(2, 2, -1), points[4:6], points[6:]
    total = 0.0
    for low, high in product(gates(2), repeat=2):
        gated = high[:, None, None] * between * low[None, :, None]
        forward = np.sum(np.einsum("abk,bk->ak", gated, into) ** 2, axis=0)
        backward = np.sum(np.einsum("abk,ak->bk", gated, out) ** 2, axis=0)
        total += share @ (forward * backward) / 16
    two, limit = (3.5**2 + 2 * 0.5**2) / 3, (np.exp(2.5) + 2 * np.exp(-0.5)) / 3
    truth = [total, total, correlation(10**7, 5 * 10**6)]
    # two layers are within the error term; with it kept, the printed product tends to e^lambda
    return Evidence(truth, [two, correlation(2, 2), limit], [total, total, np.exp(0.5)])


def _transfer(width: int) -> Any:
    """Return the map of (E (tr G)^2, E tr G^2) by one layer of masked Gaussian weights, kappa = 2."""
    return np.eye(2) + np.array([[1, 4], [2, 3]]) / width


def correlation(width: int, depth: int) -> float:
    """Return the correlation through `depth` layers, by the transfer of both moments of a random matrix."""
    return float(np.linalg.matrix_power(_transfer(width), depth)[0, 0])


def correlations(width: int, depth: int) -> Any:
    """Return the correlations through 1 to `depth` layers, as `correlation`."""
    step, moments, found = _transfer(width), np.array([1.0, 0.0]), []
    for _ in range(depth):
        moments = step @ moments
        found.append(moments[0])
    return np.array(found)


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
    verdict="incorrect",
    reason=(
        "Consequence of Lemma A.4(2): C is the correlation (29). Separately, by a typographical omission, the factor "
        "2 of the mixed terms and the products over their own layers are missing; the proof of Lemma A.5 has them. The "
        "squares of single layers are unaffected"
    ),
    follows="correlation_of_lengths",
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
        r"$\mathbb{E}[\Theta_b(x, x)] = \sum_{\ell=1}^L a^{L-\ell}$ [...] "
        r"$\frac{\mathbb{E}[\Theta_b(x, x)^2]}{a^{2L}} = \sum_{\ell=1}^L \frac{\mathcal{X}_{(\ell,L)}}{a^{2\ell}} "
        r"+ 2 \sum_{\ell_1 < \ell_2} \frac{\mathcal{X}_{(\ell_2,L)}}{a^{\ell_1 + \ell_2}}$"
    ),
    latex=(
        r"\mathbb E \Theta_b = \sum_\ell a^{L-\ell},\quad \mathbb E \Theta_b^2/a^{2L} = \sum_\ell \mathcal "
        r"X_{(\ell,L)} a^{-2\ell} + 2 \sum_{\ell_1 < \ell_2} \mathcal X_{(\ell_2,L)} a^{-\ell_1-\ell_2}"
    ),
    reason="up to the probability 2^-n that no unit of a hidden layer is active",
    about=MOMENTS,
)
def mean_square_of_the_biases() -> Evidence:
    """Compare with kernel of three ReLU on two inputs, all gates and weights by quadrature and enumeration."""
    _, square, mean = _shallow()
    return Evidence([mean, square], [1 + 1, (1 + 5 / 3) + 1 + 2])


@formula(
    "3.2/3.2",
    "Theorem 3.2, (15)",
    "mean product of both parts of the kernel",
    quote=(
        r"$\frac{\mathbb{E}[\Theta_W(x, x)\Theta_b(x, x)]}{\|\mathbf{x}^0\|^2 a^{2L-1}} = \sum_{\ell=1}^L "
        r"\frac{n_{\ell-1}}{n_0} \frac{\mathcal{X}_{(\ell,L)}}{a^\ell} [...] + \sum_{\ell_1 < \ell_2} "
        r"\frac{\mathcal{X}_{(\ell_2,L)}}{a^{\ell_1}} \frac{n_{\ell_1-1}}{n_0} \left( "
        r"\frac{n_{\ell_2-1}}{n_{\ell_1-1}} \mathcal{C}_{(\ell_1, \ell_2)} + \frac{a^{\ell_1}}{a^{\ell_2}} \right)$"
    ),
    latex=(
        r"\sum_\ell \tfrac{n_{\ell-1}}{n_0} \mathcal X_{(\ell,L)} a^{-\ell} + \sum_{\ell_1 < \ell_2} \mathcal "
        r"X_{(\ell_2,L)} \bigl( \tfrac{n_{\ell_2-1}}{n_0} \mathcal C_{(\ell_1,\ell_2)} a^{-\ell_1} + "
        r"\tfrac{n_{\ell_1-1}}{n_0} a^{-\ell_2} \bigr),\; 3 \mathcal C = \prod (1 + \tfrac5n) + 2 \prod (1 - \tfrac1n)"
    ),
    verdict="incorrect",
    reason="Consequence of Lemma A.4(2): at fixed depth it is unaffected, to its error terms",
    setting="ReLU networks with zero biases at initialization, widths of order M, depth and width to infinity together",
    follows="correlation_of_lengths",
    about=MOMENTS,
)
def weights_times_biases_at_finite_width() -> Evidence:
    """Compare with all gates and weights of two layers of two ReLU, and with the sum over 4000 layers of as many."""
    points, share = gaussian(*[2] * 2, *[3] * 6)  # the first weights enter squared, all others to the fourth power
    into, between, out = points[:2], points[2:6].reshape(2, 2, -1), points[6:]
    total = 0.0
    for low, high in product(gates(2), repeat=2):
        x1 = np.sqrt(2) * low[:, None] * into  # one input, a = 1
        x2, back2 = high[:, None] * np.einsum("abk,bk->ak", between, x1), high[:, None] * out
        back1 = low[:, None] * np.einsum("abk,ak->bk", between, back2)
        forward = np.array([1 + 0 * share, np.sum(x1**2, axis=0), np.sum(x2**2, axis=0)])
        backward = np.array([np.sum(back1**2, axis=0), np.sum(back2**2, axis=0), 1 + 0 * share])
        total += share @ (np.sum(backward * forward, axis=0) * np.sum(backward, axis=0)) / 16
    up, both, depth = 1 + 5 / 2, [1 + 1 / 2, 3.5**2 / 3 + 0.5**2 * 2 / 3], 4000
    stated = up**2 + 2 * up + 2 + up * (2 * both[0] + 1) + (2 * both[1] + 1) + (2 * both[0] + 2)
    layers = np.arange(1, depth)
    grown, shrunk, exact = (1 + 5 / depth) ** layers, (1 - 1 / depth) ** layers, correlations(depth, depth - 1)
    printed = (1 + 1 / depth) ** layers
    long = [_long_product(depth, c) for c in (exact, grown / 3 + shrunk * 2 / 3, printed)]
    # two layers are within the error terms
    return Evidence([total, long[0]], [stated, long[1]], [total, long[2]])


def _long_product(width: int, coupled: Any) -> float:
    """Return the right side of (15) at constant width, as many layers, a = 1, over the squared depth."""
    grown = (1 + 5 / width) ** np.arange(width - 1, -1, -1)
    pairs = np.append(0.0, np.cumsum(coupled + 1))
    return float(np.sum(grown * (1 + pairs)) / width**2)


FORMULAS = formula.formulas
