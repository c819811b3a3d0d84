"""Seleznova (2024), sections 2.3, 2.4, 3.1, 3.2 and appendices A, E: random networks, wide or deep."""

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


def _mean_of_two(function: Any, first: float, second: float, mixed: float) -> float:
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


def _erf(x: Any) -> Any:
    from scipy.special import erf

    return erf(x)


def _erf_slope(x: Any) -> Any:
    return 2 / np.sqrt(np.pi) * np.exp(-(x**2))


@formula(
    "3.1/E.2",
    "variance",
    "mean squares of erf and of its derivative",
    quote=(
        r"$\int Dz \cdot \phi(az)^2 = \frac{2}{\pi} \arctan \frac{a^2}{\sqrt{a^2 + 1/4}}$ $\int Dz \cdot "
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
    return Evidence([weights @ f(a * nodes) ** 2 for f in (_erf, _erf_slope)], stated)


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
    return Evidence(_mean_of_two(_erf, q, q, q12), stated)


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
    return Evidence(_mean_of_two(_erf_slope, q, q, q12), 4 / np.pi / np.sqrt((1 + 2 * q) ** 2 - 4 * q12**2))


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
    truth = weight * _mean_of_two(_erf, qs, qr, qsr) + bias
    return Evidence(truth, *(2 * weight / np.pi * angle + bias for angle in (right, printed)))


@formula(
    "3.1/2",
    "(8), (9); E.1",
    "squared length of the gradients",
    quote=r"$p^l(x_s) = \sigma_w^2 p^{l+1}(x_s) \frac{M_{l+1}}{M_{l+2}} \int Dz [\phi'(\sqrt{q^l(x_s)}z)]^2$",
    latex=r"p^{\ell-1} = \sigma_w^2\, p^\ell\, \mathbb E \phi'^2",
    verdict="holds under a condition",
    reason=(
        "constant width, as assumed below (9); at other widths the weights that (5) needs have variance over "
        "their inputs, and the factor is 1"
    ),
    about=("NTKMoments",),
)
def length_of_the_gradients() -> Evidence:
    """Compare with a sum over all gates of three ReLU units and a quadrature over the weights to two units above."""
    back, share = gaussian(*[2] * 6)  # two nodes are exact for squares
    above = np.array([0.8, -0.6])
    lengths = np.sum(gates(3)[:, None] * (back.T.reshape(-1, 3, 2) @ above) ** 2, axis=-1) * 1.4 / 3
    return Evidence(np.mean(lengths @ share), 1.4 / 2, 1.4 / 2 * 3 / 2)


FORMULAS = formula.formulas
