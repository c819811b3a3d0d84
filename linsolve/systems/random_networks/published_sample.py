"""Seleznova (2024), section 3.2, appendices A.2 and C.3: bounds off the diagonal, dispersion from a sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.published_formula import Evidence, Source

__all__ = ["FORMULAS"]

formula = Source("seleznova_2024", "ReLU networks with zero biases at initialization, widths of order M")


def _angle(rho: Any) -> Any:
    """Return the infinite-width map of the cosine of two activations, r(t) of (18)."""
    return (np.sqrt(np.maximum(1 - rho**2, 0)) + rho * np.pi / 2 + rho * np.arcsin(rho)) / np.pi


def _gates(rho: Any) -> Any:
    """Return g(t) of (18)."""
    return (np.pi / 2 + np.arcsin(rho)) / np.pi


@formula(
    "3.2/A.2",
    "Theorem A.9, proof",
    "lower bound of the kernel off the diagonal",
    quote=(
        r"We obtain the lower bound in case of initialization in the chaotic phase by noticing that $\sum_{\ell=1}^L "
        r"g^{\circ \ell-1}(\rho_x^0) \prod_{k=\ell}^{L-1} f(g^{\circ(k-1)}(\rho_x^0)) \geq L/4$ for $L \geq 2$"
    ),
    latex=(
        r"\sum_\ell g^{\circ \ell-1}(\rho) \prod_{k=\ell}^{L-1} f(g^{\circ(k-1)}(\rho)) \ge L/4 \;(L \ge 4,\, "
        r"\rho \ge 0)"
    ),
    verdict="holds under a condition",
    reason=(
        "at least four layers, for inputs that are not at an obtuse angle: at a right angle the sum is L/(2 pi) for "
        "L = 2 and 0.229 L for L = 3; the limits (16), (17) are unaffected"
    ),
    about=("NTKDispersionLimit",),
)
def bound_off_the_diagonal() -> Evidence:
    """Compare with the largest violation of the bound over a hundred angles and up to 400 layers, from four on."""
    angles = np.linspace(0.0, 1.0, 101)
    chain = [angles]
    for _ in range(400):
        chain.append(np.minimum(_angle(chain[-1]), 1.0))
    total, missing = angles, []
    for depth in range(2, 400):
        total = total * _gates(chain[depth - 2]) + chain[depth - 1]
        missing.append(np.max(1 / 4 - total / depth))
    return Evidence(0.0, max(0.0, *missing[2:]), max(0.0, *missing))


def _estimates(samples: Any) -> Any:
    """Return the estimator of appendix C.3, with the prefactor 1/N, for samples in rows."""
    count = samples.shape[1]
    others = samples.sum(axis=1)[:, None] - samples
    squares = (samples**2).sum(axis=1)[:, None] - samples**2
    return np.mean(samples**2 * (count - 1) * (count - 2) / (others**2 - squares), axis=1)


@formula(
    "3.2/C.3",
    "estimator",
    "dispersion from a sample",
    quote=(
        r"$\hat{r} := \frac{1}{N-2} \sum_{i=1}^N \frac{\theta_i^2}{\frac{1}{(N-1)(N-2)} \left[\left(\sum_{j \neq i} "
        r"\theta_j \right)^2 - \sum_{j \neq i} \theta_j^2 \right]}$"
    ),
    latex=(
        r"\hat r = \frac1N \sum_i \frac{\theta_i^2 (N-1)(N-2)}{\bigl(\sum_{j \ne i} \theta_j\bigr)^2 - \sum_{j \ne "
        r"i} \theta_j^2}"
    ),
    verdict="typographical",
    reason="the mean over the sample has the prefactor 1/N; with the printed one equal values give N/(N - 2)",
    setting="sample of independent kernel entries",
    about=("NTKMoments",),
)
def estimator_of_the_dispersion() -> Evidence:
    """Compare with the dispersion 1 of a sample of eight equal values."""
    found = _estimates(np.full((1, 8), 3.0))[0]
    return Evidence(1.0, found, 8 / 6 * found)


@formula(
    "3.2/C.3",
    "its mean",
    "bias of the dispersion from a sample",
    quote=(
        r"$\mathbb{E}[\hat{r}] = (N-1) \sum_{i=1}^N \frac{\mathbb{E}[\theta_i^2]}{\mathbb{E} \left[\left(\sum_{j \neq "
        r"i} \theta_j \right)^2 - \sum_{j \neq i} \theta_j^2 \right]} = \frac{\mu_2}{\mu_1^2}.$ [...] Therefore, "
        r"$\hat{r}$ is an unbiased estimator of the ratio"
    ),
    latex=r"\mathbb E \hat r = r \bigl[1 + \tfrac{4 (r - 1)}{N} + O(N^{-2})\bigr],\; r = \mu_2/\mu_1^2",
    verdict="incorrect",
    reason=(
        "numerator and denominator are independent, but the mean of the inverse denominator is not the inverse of its "
        "mean; the bias vanishes as 1/N"
    ),
    setting="sample of independent kernel entries",
    about=("NTKMoments",),
    tolerance=1e-3,
)
def bias_of_the_dispersion() -> Evidence:
    """Compare with N times the bias over all samples of 200 and 400 entries of two values, extrapolated."""
    r = 5 / 4  # of the values 1 and 3
    short, long = (count * (_mean_estimate(count) / r - 1) for count in (200, 400))
    return Evidence(2 * long - short, 4 * (r - 1), 0.0)


def _mean_estimate(count: int) -> float:
    """Return the mean of the estimator over samples of the values 1 and 3, equally likely, by the number of 3."""
    from scipy.stats import binom

    often = np.arange(count + 1)
    samples = np.where(np.arange(count) < often[:, None], 3.0, 1.0)
    return float(binom.pmf(often, count, 0.5) @ _estimates(samples))


FORMULAS = formula.formulas
