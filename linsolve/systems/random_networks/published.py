"""Seleznova (2024), section 3.1, appendix E: integrals and maps of ReLU and erf units."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np

from linsolve.core.published_formula import Evidence, Source

__all__ = ["FORMULAS"]

formula = Source("seleznova_2024", "mean field at infinite width")
MOMENTS = ("NTKMoments", "NTKDispersionLimit")


@cache
def normal(count: int) -> tuple[Any, Any]:
    """Return Gauss-Hermite nodes and weights of a standard normal variable."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes, weights / weights.sum()


def gaussian(*counts: int) -> tuple[Any, Any]:
    """Return nodes (a row per variable) and weights of independent standard normal variables, by numbers of nodes."""
    nodes, weights = zip(*(normal(count) for count in counts), strict=True)
    points, shares = (np.stack(np.meshgrid(*each, indexing="ij")).reshape(len(counts), -1) for each in (nodes, weights))
    return points, np.prod(shares, axis=0)


def gates(count: int) -> Any:
    """Return all equally likely states of ReLU gates, one per row."""
    return np.array(list(product((0, 1), repeat=count)))


def mean_of_two(function: Any, first: float, second: float, mixed: float) -> float:
    """Return the mean of ``f(u) f(v)`` over normal u, v with these covariances, by quadrature."""
    nodes, weights = normal(100)
    u = np.sqrt(first) * nodes[:, None]
    v = mixed / np.sqrt(first) * nodes[:, None] + np.sqrt(second - mixed**2 / first) * nodes
    return float(weights @ (function(u) * function(v)) @ weights)


def _over_angles(power: int, a: float, b: float) -> float:
    """Return the mean of ``(u v)^power`` over the quadrant u, v > 0 of normal variables, by quadrature in the angle."""
    from scipy.integrate import quad

    # (u, v) = r (a cos t, b cos t + sqrt(a^2 - b^2) sin t), r^2 exponential of mean 2
    low = -np.arctan2(b, np.sqrt(a**2 - b**2))
    other = np.sqrt(a**2 - b**2)
    moment = 2.0**power  # of r^(2 power), power 0 or 1
    found = quad(lambda t: (a * np.cos(t) * (b * np.cos(t) + other * np.sin(t))) ** power, low, np.pi / 2, epsabs=1e-13)
    return moment * found[0] / (2 * np.pi)


@formula(
    "3.1/E.1",
    "covariance",
    "mean product of two ReLU",
    quote=(
        r"$\int Dz_1 Dz_2 \cdot \phi(az_1)\phi(bz_1 + \sqrt{a^2 - b^2}z_2) = \frac{a}{2\pi} (\sqrt{1 - c^2} + "
        r"c\pi/2 + c \arcsin(c))$"
    ),
    latex=r"\int \phi \phi = \tfrac{a^2}{2\pi} (\sqrt{1 - c^2} + \tfrac{c\pi}{2} + c \arcsin c)",
    verdict="typographical",
    reason="the square of a; the next display has it, with a^2 = q",
    about=MOMENTS,
)
def product_of_two_relu() -> Evidence:
    """Compare with quadrature over the angle of two normal variables."""
    a, b = 1.3, 0.7
    c = b / a
    shape = (np.sqrt(1 - c**2) + c * np.pi / 2 + c * np.arcsin(c)) / (2 * np.pi)
    return Evidence(_over_angles(1, a, b), a**2 * shape, a * shape)


@formula(
    "3.1/E.1",
    "derivatives",
    "mean product of two ReLU derivatives",
    quote=r"$\int Dz_1 Dz_2 \cdot \phi'(az_1)\phi'(bz_1 + \sqrt{a^2 - b^2}z_2) = \frac{1}{2\pi} (\pi/2 + \arcsin(c))$",
    latex=r"\int \phi' \phi' = \tfrac{1}{2\pi} (\tfrac\pi2 + \arcsin c)",
    about=MOMENTS,
)
def product_of_two_relu_derivatives() -> Evidence:
    """Compare with quadrature over the angle of two normal variables."""
    return Evidence(_over_angles(0, 1.3, 0.7), (np.pi / 2 + np.arcsin(0.7 / 1.3)) / (2 * np.pi))


@formula(
    "3.1/E.1",
    "map of derivatives",
    "covariance of the gradients of ReLU from layer to layer",
    quote=r"$p_{sr}^{l-1} = \frac{\sigma_w^2}{2\pi} p^l \frac{M_l}{M_{l+1}} (\pi/2 + \arcsin c)$",
    latex=r"p_{sr}^{\ell-1} = \tfrac{\sigma_w^2}{2\pi} p_{sr}^\ell (\tfrac\pi2 + \arcsin c)",
    verdict="typographical",
    reason="p_sr of the next layer, as in (9) and E.2",
    setting="mean field at infinite width, constant width",
    about=MOMENTS,
)
def gradients_of_two_inputs() -> Evidence:
    """Compare with the mean over the weights from a ReLU unit to two units above, and both gates by quadrature."""
    weights, share = gaussian(2, 2)
    above, c = np.array([[0.8, -0.6], [0.5, 0.4]]), 0.7 / 1.3
    both = _over_angles(0, 1.3, 0.7)  # probability that the unit is active for both inputs
    truth = 1.4 * both * share @ np.prod(above @ weights, axis=0)
    factor = 1.4 / (2 * np.pi) * (np.pi / 2 + np.arcsin(c))
    return Evidence(truth, factor * above[0] @ above[1], factor * above[0] @ above[0])


@formula(
    "3.1/E.1",
    "initial conditions",
    "start of the maps",
    quote=(
        r"we only need to set the following initial conditions: $q^0 = 1$ when data is normalized, $q_{st}^0 \in [0, "
        r"1]$ is the covariance between two inputs"
    ),
    latex=r"q_{sr}^1 = \sigma_w^2\, x_s \cdot x_r/M_0 + \sigma_b^2,\; (5), (7) \text{ from } \ell = 2 \text{ on}",
    verdict="convention",
    reason=(
        "the inputs count as preactivations of a layer 0, so that depth is counted from there; no activation acts on "
        "the inputs x^0 of section 2, and the maps start one layer later"
    ),
    setting="mean field at infinite width, one Gaussian layer",
    about=MOMENTS,
)
def start_of_the_maps() -> Evidence:
    """Compare with quadrature over the weights and the bias of a unit on two inputs, and on their ReLU."""
    nodes, share = gaussian(2, 2, 2)  # exact for products of two preactivations
    inputs, weight, bias = np.array([[0.9, -0.4], [0.5, 1.1]]), 1.2, 0.1
    h = np.sqrt(weight / 2) * inputs @ nodes[:2] + np.sqrt(bias) * nodes[2]
    # a layer 0 of preactivations with variance 1 and covariance c: the first map is that of ReLU
    c = 0.7
    later = weight * _over_angles(1, 1.0, c) + bias
    mapped = weight / (2 * np.pi) * (np.sqrt(1 - c**2) + c * np.pi / 2 + c * np.arcsin(c)) + bias
    return Evidence([share @ np.prod(h, axis=0), later], [weight * inputs[0] @ inputs[1] / 2 + bias, mapped])


def erf(x: Any) -> Any:
    """Return the error function."""
    from scipy import special

    return special.erf(x)


def erf_slope(x: Any) -> Any:
    """Return the derivative of the error function."""
    return 2 / np.sqrt(np.pi) * np.exp(-(x**2))


@formula(
    "3.1/E.2",
    "variance",
    "mean squares of erf and of its derivative",
    quote=(
        r"$\int Dz \cdot \phi(az)^2 = \frac{2}{\pi} \arctan \frac{a^2}{\sqrt{a^2 + 1/4}}$, $\int Dz \cdot "
        r"[\phi'(az)]^2 = \frac{2}{\pi} \frac{1}{\sqrt{a^2 + 1/4}}$"
    ),
    latex=(
        r"\int \phi^2 = \tfrac2\pi \arctan \frac{a^2}{\sqrt{a^2 + 1/4}},\quad \int \phi'^2 = \tfrac2\pi (a^2 + "
        r"\tfrac14)^{-1/2}"
    ),
    about=MOMENTS,
)
def squares_of_erf() -> Evidence:
    """Compare with Gauss-Hermite quadrature."""
    nodes, weights = normal(100)
    a = 0.7
    root = np.sqrt(a**2 + 0.25)
    stated = 2 / np.pi * np.arctan(a**2 / root), 2 / np.pi / root
    return Evidence([weights @ f(a * nodes) ** 2 for f in (erf, erf_slope)], stated)


@formula(
    "3.1/E.2",
    "covariance",
    "mean product of two erf",
    quote=(
        r"$\int Dz_1 Dz_2 \cdot \phi(az_1) \phi(bz_1 + \sqrt{a^2 - b^2} z_2) = \frac{2}{\pi} \arctan "
        r"\frac{2b}{\sqrt{(1+2a)^2 - 4b^2}}$"
    ),
    latex=(
        r"\int \phi \phi = \tfrac2\pi \arctan \frac{2 q_{12}}{\sqrt{(1 + 2 q)^2 - 4 q_{12}^2}},\; q = a^2,\, "
        "q_{12} = ab"
    ),
    verdict="convention",
    reason="on the right a and b are the variance and the covariance of the arguments, a^2 and ab of the left",
    about=MOMENTS,
)
def product_of_two_erf() -> Evidence:
    """Compare with Gauss-Hermite quadrature over two normal variables."""
    a, b = 0.7, 0.3
    q, q12 = a**2, a * b
    stated = 2 / np.pi * np.arctan(2 * q12 / np.sqrt((1 + 2 * q) ** 2 - 4 * q12**2))
    return Evidence(mean_of_two(erf, q, q, q12), stated)


@formula(
    "3.1/E.2",
    "derivatives",
    "mean product of two erf derivatives",
    quote=(
        r"$\int Dz_1 Dz_2 \cdot \phi'(az_1)\phi'(bz_1 + \sqrt{a^2 - b^2}z_2) = \frac{4}{\pi} "
        r"\frac{1}{\sqrt{(1+2a)^2 - 4b^2}}$"
    ),
    latex=r"\int \phi' \phi' = \tfrac4\pi [(1 + 2q)^2 - 4 q_{12}^2]^{-1/2},\; q = a^2,\, q_{12} = ab",
    verdict="convention",
    reason="on the right a and b are the variance and the covariance, as in the integral above it",
    follows="product_of_two_erf",
    about=MOMENTS,
)
def product_of_two_erf_derivatives() -> Evidence:
    """Compare with Gauss-Hermite quadrature over two normal variables."""
    a, b = 0.7, 0.3
    q, q12 = a**2, a * b
    return Evidence(mean_of_two(erf_slope, q, q, q12), 4 / np.pi / np.sqrt((1 + 2 * q) ** 2 - 4 * q12**2))


@formula(
    "3.1/E.2",
    "map",
    "covariance of erf from layer to layer",
    quote=(
        r"$q_{sr}^l = \frac{2\sigma_w^2}{\pi} \arctan "
        r"\frac{2\sqrt{q_{sr}^{l-1}}}{\sqrt{(1+2\sqrt{q_{sr}^{l-1}})^2 - 4q_{sr}^{l-1}}} + \sigma_b^2$"
    ),
    latex=r"q_{sr}^\ell = \tfrac{2\sigma_w^2}{\pi} \arcsin \frac{2 q_{sr}}{\sqrt{(1 + 2q_s)(1 + 2q_r)}} + \sigma_b^2",
    verdict="typographical",
    reason=(
        "the integral above it is to be taken at the variance q and the covariance q_sr; here the root of q_sr "
        "stands for both, and likewise for p_sr"
    ),
    about=MOMENTS,
)
def covariance_map_of_erf() -> Evidence:
    """Compare with Gauss-Hermite quadrature over two normal variables."""
    qs, qr, qsr, weight, bias = 0.6, 0.9, 0.35, 1.2, 0.1
    right = np.arcsin(2 * qsr / np.sqrt((1 + 2 * qs) * (1 + 2 * qr)))
    printed = np.arctan(2 * np.sqrt(qsr) / np.sqrt((1 + 2 * np.sqrt(qsr)) ** 2 - 4 * qsr))
    truth = weight * mean_of_two(erf, qs, qr, qsr) + bias
    return Evidence(truth, *(2 * weight / np.pi * angle + bias for angle in (right, printed)))


FORMULAS = formula.formulas
