"""Ortiz-Jimenez, Moosavi-Dezfooli, Frossard (2021): linearized networks and measures of a target."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.published_formula import Evidence, Order, Source

__all__ = ["FORMULAS"]

formula = Source("ortiz_jimenez_2021")
RNG = np.random.default_rng(9)
FEATURES = RNG.standard_normal((5, 8))
KERNEL = FEATURES @ FEATURES.T
F = RNG.standard_normal(5)
LAST, FIRST = RNG.standard_normal(3) / 2, RNG.standard_normal((3, 2)) / 3


def _network(last: Any, first: Any, x: Any) -> Any:
    """Return a network of three units of tanh, at points in rows."""
    return np.tanh(x @ first.T) @ last


@formula(
    "(1)",
    "the linearized network",
    r"f_\theta(x) \approx f_{\theta_0}(x) + (\theta - \theta_0)^\top \nabla_\theta f_{\theta_0}(x)",
    condition="order 2",
    about=("FrozenKernel",),
    tolerance=5e-3,
    expansion=True,
)
def linearized_network() -> Order:
    """Compare with the outputs of a tanh network with perturbed weights; the gradient is a complex step."""
    x, (da, dW) = np.array([[0.4, -0.7]]), (LAST[::-1], FIRST[::-1])
    slope = _network(LAST + 1e-30j * da, FIRST + 1e-30j * dW, x).imag / 1e-30
    scales = 1e-3, 1e-4
    found = [
        np.abs(_network(LAST + k * da, FIRST + k * dW, x) - _network(LAST, FIRST, x) - k * slope)[0] for k in scales
    ]
    return Order(scales, found, 2)


@formula(
    "(3)",
    "norm of a function",
    r"\|f\|_\Theta^2 = \textstyle\sum_j \lambda_j^{-1} (\mathbb E\, \phi_j f)^2",
    about=("FrozenKernel",),
)
def norm_of_a_function() -> Evidence:
    """Compare with the norm of the smallest parameters that give the function, by the pseudo-inverse."""
    values, vectors = np.linalg.eigh(KERNEL / 5)
    c = np.sqrt(5) * vectors.T @ F / 5  # eigenfunctions have mean square 1
    return Evidence(np.sum((np.linalg.pinv(FEATURES) @ F) ** 2), np.sum(c**2 / values))


@formula(
    "Lemma 1",
    "bound of the norm by the alignment",
    r"\|f\|_\Theta^2 \ge |f|_2^4/\alpha(f),\; \alpha(f) = \mathbb E\, f(x) \Theta(x, x') f(x')",
    condition="equality for eigenfunctions",
    about=("FrozenKernel",),
)
def bound_by_the_alignment() -> Evidence:
    """Compare with the largest violation over 200 random functions and the ratio of both sides at an eigenfunction."""
    inverse, (_, vectors) = np.linalg.inv(KERNEL), np.linalg.eigh(KERNEL)

    def sides(f: Any) -> tuple[Any, Any]:
        norm = np.einsum("ki,ij,kj->k", f, inverse, f)
        alignment = np.einsum("ki,ij,kj->k", f, KERNEL, f) / 25
        return norm, np.mean(f**2, axis=1) ** 2 / alignment

    norm, bound = sides(np.random.default_rng(1).standard_normal((200, 5)))
    own, tight = sides(vectors.T)
    return Evidence([0.0, *own], [np.max(np.maximum(bound - norm, 0)), *tight])


@formula(
    "(4), Theorem 1",
    "alignment of a linear predictor",
    r"\alpha(g_u) = |\mathbb E_x [\nabla^2_{x,\theta} f_{\theta_0}(x)]\, u|^2",
    condition=r"$x \sim N(0, I)$",
    about=("FrozenKernel", "TwoLayer"),
)
def alignment_of_a_linear_predictor() -> Evidence:
    """Compare with the mean of ``u.x K(x, x') u.x'`` over pairs of points, by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = np.outer(weights, weights).ravel() / (2 * np.pi)
    x, u = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2), np.array([0.6, -0.8])
    h = x @ FIRST.T
    slope = 1 - np.tanh(h) ** 2
    curve = -2 * np.tanh(h) * slope

    # gradients with respect to the last and the first layer, weighted with the predictor
    g = weights * (x @ u)
    last, first = g @ np.tanh(h), np.einsum("k,ki,i,kj->ij", g, slope, LAST, x)
    truth = np.sum(last**2) + np.sum(first**2)

    # means of their directional derivatives along u
    along = FIRST @ u
    mixed_last = weights @ (slope * along)
    mixed_first = LAST[:, None] * (np.einsum("k,ki,i,kj->ij", weights, curve, along, x) + np.outer(weights @ slope, u))
    return Evidence(truth, np.sum(mixed_last**2) + np.sum(mixed_first**2))


FORMULAS = formula.formulas
