"""Seleznova (2024), chapter 2: least squares and kernels at infinite width."""

from __future__ import annotations

import numpy as np

from linsolve.core.published_formula import Evidence, Source
from linsolve.systems.random_networks.published import MOMENTS

__all__ = ["FORMULAS"]

formula = Source("seleznova_2024", "NTK parametrization, infinite width")


@formula(
    "2.3",
    "Theorem 2.5, (2.46)",
    "risk of least squares beyond interpolation",
    quote=r"$r^2 \left(1 - \frac{1}{\gamma}\right) + \sigma^2 \frac{1}{1 - \gamma}$ [...] $\text{for } \gamma > 1$",
    latex=r"r^2 (1 - \tfrac1\gamma) + \tfrac{\sigma^2}{\gamma - 1}\; (\gamma > 1)",
    verdict="typographical",
    reason="the variance is positive: gamma - 1 in the denominator; likewise the norm of w* is r, as in Hastie et al.",
    setting="least squares, isotropic inputs, P/N -> gamma",
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
    "2.4.1",
    "Theorem 2.6, (2.55)",
    "the tangent kernel at infinite width",
    quote=(
        r"$\Theta^\infty(\mathbf{x}, \tilde{\mathbf{x}}) = \sum_{\ell=1}^L \left( \Sigma^{\ell-1}(\mathbf{x}, "
        r"\tilde{\mathbf{x}}) \prod_{\ell'=\ell}^L \dot{\Sigma}^{\ell'}(\mathbf{x}, \tilde{\mathbf{x}}) \right)$"
    ),
    latex=r"\Theta^\infty = \sum_\ell \Sigma^\ell \prod_{k=\ell}^{L-1} \sigma_w^2 \dot\Sigma^k",
    verdict="typographical",
    reason=(
        "with the covariance (2.30) of the preactivations the index is l, and each derivative carries sigma_w^2, "
        "as in (2.31)"
    ),
    setting="NTK parametrization, linear output, infinite width",
    about=MOMENTS,
)
def kernel_at_infinite_width() -> Evidence:
    """Compare with a linear network, whose output is linear in each of L layers: each contributes its variance."""
    overlap, weight, depth = 0.6, 1.3, 4
    covariance = weight ** np.arange(depth + 1) * overlap  # Sigma^0 (of the inputs), ..., Sigma^L
    right = sum(covariance[k] * weight ** (depth - k) for k in range(1, depth + 1))
    return Evidence(depth * covariance[depth], right, covariance[:depth].sum())


@formula(
    "2.3",
    "Theorem 2.5, (2.46), noise",
    "risk of least squares below interpolation",
    quote=(
        "Then the following holds for the expected risk of the linear regression model trained using GD with MSE "
        r"loss [...] $\sigma^2 \frac{\gamma}{1 - \gamma}$ [...] $\text{for } \gamma < 1$"
    ),
    latex=(
        r"\mathbb{E} (\langle \hat w, x \rangle - \langle w^*, x \rangle)^2 \to \sigma^2 \frac{\gamma}{1 - "
        r"\gamma},\quad \mathbb{E} (\langle \hat w, x \rangle - y)^2 \to \sigma^2 \frac{\gamma}{1 - \gamma} + "
        r"\sigma^2"
    ),
    verdict="convention",
    reason=(
        "the risk is measured from the noiseless target, as in Hastie et al.; that of (2.45), with noisy labels, "
        "is larger by sigma^2"
    ),
    setting="least squares, isotropic inputs, P/N -> gamma < 1",
    tolerance=1e-08,
)
def noise_of_least_squares() -> Evidence:
    """Compare with the mean inverse eigenvalue of the Marchenko-Pastur distribution, by quadrature; noise added."""
    from scipy.integrate import quad

    gamma, noise = 0.4, 0.7
    middle, half = 1 + gamma, 2 * np.sqrt(gamma)
    # eigenvalues x = middle + half cos t of X^T X/N have density half^2 sin^2 t / (2 pi gamma x)
    inverse = quad(
        lambda t: half**2 * np.sin(t) ** 2 / (2 * np.pi * gamma * (middle + half * np.cos(t)) ** 2), 0, np.pi
    )
    excess = noise * gamma * inverse[0]
    stated = noise * gamma / (1 - gamma)
    return Evidence([excess, excess + noise], [stated, stated + noise])


FORMULAS = formula.formulas
