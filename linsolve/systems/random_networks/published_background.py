"""Seleznova (2024), chapter 2: least squares and kernels at infinite width."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.published_formula import Evidence, Source
from linsolve.systems.random_networks.published import MOMENTS, erf, erf_slope, gaussian, mean_of_two

__all__ = ["FORMULAS"]

formula = Source("seleznova_2024", "NTK parametrization, infinite width")


@formula(
    "2.3.2",
    "Theorem 2.4, (2.42)-(2.44)",
    "gradient descent for least squares",
    quote=(
        r"with initialization $\mathbf{w}^{(0)} = 0$ and learning rate $0 < \eta \leq 1/\lambda_{\max}(\mathbf{X}^\top "
        r"\mathbf{X})$ [...] the solution has the following closed-form expression: $\hat{\mathbf{w}} = "
        r"(\mathbf{X}^\top \mathbf{X})^+ \mathbf{X}^\top \mathbf{y}$"
    ),
    latex=r"\hat w = \lim_k w^{(k)} = (X^\top X)^+ X^\top y = \arg\min \{|v| : v \in \arg\min |X v - y|\}",
    setting="least squares, start at 0",
    about=("FrozenKernel", "GeneralizationOfData"),
    tolerance=1e-8,
)
def limit_of_gradient_descent() -> Evidence:
    """Compare with four thousand steps of gradient descent with more weights than samples, and with the least norm."""
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((3, 5)), rng.standard_normal(3)
    w, step = np.zeros(5), 1 / np.linalg.norm(X, 2) ** 2
    for _ in range(4000):
        w = w - step * X.T @ (X @ w - y)
    least = np.linalg.lstsq(X, y)[0]
    stated = np.linalg.pinv(X.T @ X) @ X.T @ y
    return Evidence([*w, *least], [*stated, *stated])


@formula(
    "2.3.2",
    "Theorem 2.5, (2.46)",
    "risk of least squares beyond interpolation",
    quote=r"$r^2 \left(1 - \frac{1}{\gamma}\right) + \sigma^2 \frac{1}{1 - \gamma}$ [...] $\text{for } \gamma > 1$",
    latex=r"r^2 (1 - \tfrac1\gamma) + \tfrac{\sigma^2}{\gamma - 1}\; (\gamma > 1)",
    verdict="typographical",
    reason=(
        "the variance is positive: the denominator is gamma - 1, as in Hastie et al.; there r^2 is the squared norm of "
        "w*, which the theorem prints without the square"
    ),
    setting="least squares, isotropic inputs, P/N -> gamma",
    about=("GeneralizationInTime",),
    tolerance=1e-8,
)
def risk_of_least_squares() -> Evidence:
    """Compare with the mean inverse eigenvalue of the Marchenko-Pastur distribution, by quadrature."""
    gamma, r2, noise = 2.5, 1.3, 0.7
    # X X^T/P has the aspect ratio 1/gamma
    signal = r2 * (1 - 1 / gamma)
    truth = signal + noise * _mean_inverse(1 / gamma) / gamma
    return Evidence(truth, signal + noise / (gamma - 1), signal + noise / (1 - gamma))


def _mean_inverse(ratio: float) -> float:
    """Return the mean inverse eigenvalue of the Marchenko-Pastur distribution of this aspect ratio below 1."""
    from scipy.integrate import quad

    middle, half = 1 + ratio, 2 * np.sqrt(ratio)
    # eigenvalues x = middle + half cos t have the density half^2 sin^2 t / (2 pi ratio x)
    return quad(lambda t: half**2 * np.sin(t) ** 2 / (2 * np.pi * ratio * (middle + half * np.cos(t)) ** 2), 0, np.pi)[
        0
    ]


@formula(
    "2.3.2",
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
    about=("GeneralizationInTime",),
    tolerance=1e-08,
)
def noise_of_least_squares() -> Evidence:
    """Compare with the mean inverse eigenvalue of the Marchenko-Pastur distribution, by quadrature; noise added."""
    gamma, noise = 0.4, 0.7
    excess = noise * gamma * _mean_inverse(gamma)
    stated = noise * gamma / (1 - gamma)
    return Evidence([excess, excess + noise], [stated, stated + noise])


@formula(
    "2.3.2",
    "(2.47)",
    "risk of the other minimizers",
    quote=(
        r"$\mathcal{L}_\mu(\tilde{f}) = \mathbb{E}_{(\mathbf{x}, \epsilon) \sim \mu_{\mathbf{x}} \times \mu_\epsilon} "
        r"[(\alpha \langle \Delta\mathbf{w}, \mathbf{x} \rangle - \epsilon)^2] = \alpha^2 "
        r"\|\Delta\mathbf{w}\|_\Sigma^2 + \sigma^2$"
    ),
    latex=(
        r"\mathbb E (\alpha \langle \Delta w, x \rangle - \epsilon)^2 = \alpha^2 \Delta w^\top \Sigma \Delta w + "
        r"\sigma^2"
    ),
    setting="least squares with more weights than samples, noise independent of the inputs",
    about=("GeneralizationOfData",),
)
def risk_of_other_minimizers() -> Evidence:
    """Compare with the mean over a distribution of four inputs and two values of the noise."""
    points, change = np.array([[1.0, 2.0], [-1.0, -2.0], [0.5, -1.0], [-0.5, 1.0]]), np.array([0.6, 0.8])
    noise = np.array([-0.3, 0.3])
    truth = np.mean((0.7 * (points @ change)[:, None] - noise) ** 2)
    return Evidence(truth, 0.49 * change @ (points.T @ points / 4) @ change + 0.09)


@formula(
    "2.4.1",
    "Theorem 2.6, (2.55)",
    "the tangent kernel at infinite width",
    quote=(
        r"$\Theta^\infty(\mathbf{x}, \tilde{\mathbf{x}}) = \sum_{\ell=1}^L \left( \Sigma^{\ell-1}(\mathbf{x}, "
        r"\tilde{\mathbf{x}}) \prod_{\ell'=\ell}^L \dot{\Sigma}^{\ell'}(\mathbf{x}, \tilde{\mathbf{x}}) \right)$ [...] "
        r"where $\Sigma^\ell(\mathbf{x}, \tilde{\mathbf{x}})$ is the Gaussian process covariance defined in (2.30)"
    ),
    latex=r"\Theta^\infty = \sum_\ell \Sigma^\ell \prod_{k=\ell}^{L-1} \sigma_w^2 \dot\Sigma^k",
    verdict="typographical",
    reason=(
        "with the covariance (2.30) of the preactivations the index is l, and each derivative carries sigma_w^2, as in "
        "(2.31). The printed indices are those of Arora et al. (2019b), where Sigma is the covariance of the "
        "activations with sigma_w^2, its derivative has this factor, too, and that of the linear output is 1; in these "
        "definitions and without biases it holds"
    ),
    setting="NTK parametrization, linear output, infinite width",
    about=MOMENTS,
)
def kernel_at_infinite_width() -> Evidence:
    """Compare with the mean kernel of one erf unit, its gradients by complex steps, and with linear layers."""
    weight, depth, inputs = 1.3, 4, np.array([[0.9, -0.4], [0.5, 1.1]])
    shallow = _mean_kernel(weight, inputs)
    q1, q2, overlap = np.sum(inputs[[0, 1, 0]] * inputs[[0, 1, 1]], axis=1) / 2
    first = weight * np.array([q1, q2, overlap])  # (2.30) of layer 1
    second, slope = (mean_of_two(function, *first) for function in (erf, erf_slope))
    # each of L linear layers contributes the covariance of the output
    linear = weight ** np.arange(depth + 1) * overlap  # Sigma^0 (of the inputs), ..., Sigma^L

    def summed(covariances: Any, slopes: Any) -> float:
        return sum(c * np.prod(slopes[k:]) for k, c in enumerate(covariances))

    right = summed([first[2], weight * second], [weight * slope]), summed(linear[1:], [weight] * (depth - 1))
    printed = summed([overlap, first[2]], [slope, 1.0]), summed(linear[:depth], [1.0] * depth)
    # the definitions of Arora et al.
    arora = summed([weight * overlap, weight * second], [weight * slope, 1.0])
    return Evidence([shallow, depth * linear[depth], shallow], [*right, arora], [*printed, shallow])


def _mean_kernel(weight: float, inputs: Any) -> float:
    """Return the mean kernel at two inputs of a network of two inputs and one erf unit, by quadrature over weights."""
    (first, second), share = gaussian(80, 80)

    def output(into: Any, other: Any, out: Any) -> Any:
        h = np.sqrt(weight / 2) * (inputs[:, :1] * into + inputs[:, 1:] * other)
        return np.sqrt(weight) * out * erf(h)

    steps = np.eye(3) * 1e-30j
    # the last weight enters squared, with mean 1
    slopes = [output(first + a, second + b, 1 + c).imag / 1e-30 for a, b, c in steps]
    return float(share @ sum(g[0] * g[1] for g in slopes))


FORMULAS = formula.formulas
