"""Seleznova (2024), section 3.1: weights, gradients and outputs of wide networks."""

from __future__ import annotations

import numpy as np

from linsolve.core.published_formula import Evidence, Source
from linsolve.systems.random_networks.published import gates, gaussian

__all__ = ["FORMULAS"]

formula = Source("seleznova_2024", "mean field at infinite width")


@formula(
    "3.1/1",
    "(1)",
    "variance of the initial weights",
    quote=r"$\mathbf{W}_{ij}^l \sim \mathcal{N}(0, \sigma_w^2/M_l), \mathbf{b}_i^l \sim \mathcal{N}(0, \sigma_b^2)$",
    latex=r"W_{ij}^\ell \sim \mathcal N(0, \sigma_w^2/M_{\ell-1}),\; W^\ell \in \mathbb R^{M_\ell \times M_{\ell-1}}",
    verdict="convention",
    reason=(
        "M_l counts the inputs of layer l, as in Schoenholz et al. (2016); in the numbering of section 2 and Lemma 2, "
        "where layer l has M_l units, (5) needs the variance over M_{l-1}. At constant width both are the same"
    ),
    about=("NTKMoments",),
)
def variance_of_the_weights() -> Evidence:
    """Compare with quadrature over the weights from three activations and the bias: (5), with a mean over units."""
    nodes, share = gaussian(2, 2, 2, 2)  # exact for squares
    x, weight, bias = np.array([0.3, 1.2, 0.0]), 1.4, 0.1
    h = np.sqrt(weight / 3) * x @ nodes[:3] + np.sqrt(bias) * nodes[3]
    return Evidence(share @ h**2, weight * np.mean(x**2) + bias)


@formula(
    "3.1/2",
    "(8), (9); E.1",
    "squared length of the gradients",
    quote=r"$p^l(x_s) = \sigma_w^2 p^{l+1}(x_s) \frac{M_{l+1}}{M_{l+2}} \int Dz [\phi'(\sqrt{q^l(x_s)}z)]^2$",
    latex=r"p^\ell = \sigma_w^2\, p^{\ell+1}\, \mathbb E \phi'^2",
    verdict="holds under a condition",
    reason=(
        "constant width, as assumed below (9). At other widths the factor is 1 for the weights that (5) needs, with "
        "variance over their inputs; weights with variance over the units that they feed have the printed ratio, the "
        "width of the layer over that of the next"
    ),
    about=("NTKMoments",),
)
def length_of_the_gradients() -> Evidence:
    """Compare with a sum over all gates of three ReLU units and a quadrature over the weights to two units above."""
    back, share = gaussian(*[2] * 6)  # two nodes are exact for squares
    above = np.array([0.8, -0.6])
    lengths = np.sum(gates(3)[:, None] * (back.T.reshape(-1, 3, 2) @ above) ** 2, axis=-1)
    mean = np.mean(lengths @ share)
    half, ratio = 1.4 / 2, 3 / 2
    return Evidence([1.4 / 3 * mean, 1.4 / 2 * mean], [half, half * ratio], [half * ratio, half * ratio])


@formula(
    "3.1/5",
    "Theorem 3",
    "variance of the output after training",
    quote=(
        r"Then the variance of its output is characterized by: $\text{Var}(f^{t=\infty}(x)) \approx \left(1 + "
        r"\frac{A^2}{S}\right)(\bar{q}^L - \bar{q}_{sr}^L) + (A - 1)^2 \bar{q}_{sr}^L$ [...] where $A = A(\kappa_1, "
        r"\kappa_2) = \frac{S}{\bar{\kappa}_1/\bar{\kappa}_2 + (S-1)}$"
    ),
    latex=(
        r"\mathrm{Var} f = (1 + \tfrac{A^2}{S})(q - q_{sr}) + (A - 1)^2 q_{sr},\; A = \frac{S}{\kappa_1/\kappa_2 + "
        r"S - 1}"
    ),
    verdict="leading order",
    reason=(
        "exact if every pair of inputs, the new one included, has the same covariance; otherwise the data-dependent "
        "part is neglected, as the approximate sign says"
    ),
    setting="kernel regime, kernel and covariance replaced by their means over the data",
)
def variance_after_training() -> Evidence:
    """Compare with the covariance of the output (10) from the matrices of four samples and a new input."""
    samples, q, pair, kappa, between = 4, 1.3, 0.5, 2.0, 0.7
    covariance, kernel = (a * np.eye(5) + b for a, b in ((q - pair, pair), (kappa - between, between)))
    row = np.append(-np.linalg.solve(kernel[:4, :4], kernel[:4, 4]), 1.0)
    A = samples / (kappa / between + samples - 1)
    return Evidence(row @ covariance @ row, (1 + A**2 / samples) * (q - pair) + (A - 1) ** 2 * pair)


FORMULAS = formula.formulas
