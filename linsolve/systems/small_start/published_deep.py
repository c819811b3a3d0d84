"""Atanasov, Bordelon, Pehlevan (2022), section 4 and appendix C: the flow and the kernel of more layers."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from linsolve.core.network import follow
from linsolve.core.published_formula import Evidence, Source

__all__ = ["FORMULAS", "around", "balanced", "each", "kernel", "product", "rotations", "velocities"]

formula = Source("atanasov_2022")
RNG = np.random.default_rng(5)
S = 1.7
D = 4
BETA = np.array([0.5, -0.5, 0.7, -0.1])
RATES = np.array([0.6, 1.7, 1.1])
GENERIC = [RNG.standard_normal((4, 4)) / 2, RNG.standard_normal((4, 4)) / 2, RNG.standard_normal((1, 4)) / 2]
X = RNG.standard_normal((7, D))
COVARIANCE = X.T @ X / len(X)
ACROSS = np.linalg.svd(BETA[None])[2][1]  # a unit vector orthogonal to BETA
PROBES = np.array([BETA, ACROSS, BETA + 2 * ACROSS])


def product(layers: Any) -> Any:
    """Return the product of layers given first layer first."""
    return reduce(lambda done, layer: layer @ done, layers)


def around(layers: Any, k: int) -> tuple[Any, Any]:
    """Return the products of the layers after and before layer k."""
    after = product(layers[k + 1 :]) if k + 1 < len(layers) else np.eye(len(layers[k]))
    return after, product(layers[:k]) if k else np.eye(layers[0].shape[1])


def velocities(layers: Any, rates: Any, covariance: Any) -> list[Any]:
    """Return the velocities (9) of all layers."""
    error = (S * BETA - product(layers)) @ covariance
    return [rate * after.T @ error @ before.T for rate, (after, before) in zip(rates, each(layers), strict=True)]


def each(layers: Any) -> list[tuple[Any, Any]]:
    """Return `around` for each layer."""
    return [around(layers, k) for k in range(len(layers))]


def kernel(layers: Any, weights: Any = None, x: Any = PROBES) -> Any:
    """Return the sum over layers of the products of gradients of the output at all pairs of points."""
    weights = np.ones(len(layers)) if weights is None else weights
    parts = zip(weights, each(layers), strict=True)
    return sum(w * (after @ after.T)[0, 0] * (x @ before.T @ before @ x.T) for w, (after, before) in parts)


def rotations(depth: int, width: int) -> list[Any]:
    """Return random rotations between the layers."""
    rng = np.random.default_rng(10 * depth + width)
    return [np.linalg.qr(rng.standard_normal((width, width)))[0] for _ in range(depth)]


def balanced(strengths: Any, out: Any, into: Any, rates: Any) -> list[Any]:
    """Return layers balanced as in (33), (53): strengths u_a, outer singular vectors of the map, generic inner ones."""
    depth, modes = len(rates), len(strengths)
    frames = [into, *(Q[:, :modes] for Q in rotations(depth - 1, D)), out]
    scales = np.sqrt(rates / rates[-1])
    return [c * (frames[k + 1] * strengths) @ frames[k].T for k, c in enumerate(scales)]


def gradients(value: Any) -> list[Any]:
    """Return the gradient of `value(layers)` at the generic layers, by a complex step in every weight."""
    found = [np.empty(layer.shape) for layer in GENERIC]
    for k, layer in enumerate(GENERIC):
        for at in np.ndindex(layer.shape):
            moved = [each.astype(complex) for each in GENERIC]
            moved[k][at] += 1e-30j
            found[k][at] = value(moved).imag / 1e-30
    return found


def mean_loss(layers: Any) -> Any:
    """Return half of the mean squared error over seven points."""
    return np.mean((X @ product(layers)[0] - S * X @ BETA) ** 2) / 2


def flat(layers: Any) -> Any:
    """Return all weights as one vector."""
    return np.concatenate([layer.ravel() for layer in layers])


U = 0.83
ALIGNED = balanced(np.array([U]), np.ones((1, 1)), BETA[:, None], RATES)
EVEN = balanced(np.array([U]), np.ones((1, 1)), BETA[:, None], np.ones(3))
FINAL = balanced(np.array([S ** (1 / 3)]), np.ones((1, 1)), BETA[:, None], np.ones(3))


@formula(
    "(9)",
    "gradient flow",
    r"\dot W^\ell = \eta_\ell (W^{>\ell})^\top (s\beta - \tilde w)^\top \Sigma (W^{<\ell})^\top",
)
def gradient_flow_of_all_layers() -> Evidence:
    """Compare with the gradient of the mean loss over seven points, by a complex step in every weight."""
    truth = [-rate * g for rate, g in zip(RATES, gradients(mean_loss), strict=True)]
    return Evidence(flat(truth), flat(velocities(GENERIC, RATES, COVARIANCE)))


@formula(
    "(29)",
    "what gradient flow conserves, layer by layer",
    r"\frac{1}{\eta_\ell} \frac{d}{dt} W^\ell W^{\ell\top} = -\textstyle\sum_\mu \ell'(f^\mu) \frac{\partial "
    r"f^\mu}{\partial W^\ell} W^{\ell\top} + \mathrm{h.c.}",
    printed=r"\ldots = \textstyle\sum_\mu \ell'(f^\mu) \ldots",
    about=("DeepMode",),
)
def motion_of_the_squares() -> Evidence:
    """Compare with the velocities of the weights by a complex step of the loss."""
    k = 1
    truth = -gradients(mean_loss)[k] @ GENERIC[k].T
    after, before = around(GENERIC, k)
    pull = np.mean((X @ (product(GENERIC)[0] - S * BETA))[:, None] * X, axis=0)  # sum of l'(f) x
    part = after.T @ pull[None] @ before.T @ GENERIC[k].T
    return Evidence(truth + truth.T, -(part + part.T), part + part.T)


@formula(
    "(30), (31)",
    "both sides of the conservation law",
    r"W^{\ell+1\top} \frac{\partial f}{\partial W^{\ell+1}} = W^{\ell+1\top} (W^{\ell+2\top} \cdots w^L) "
    r"x^\top W^{1\top} \cdots W^{\ell\top}",
    printed=r"W^{\ell+1\top} \frac{\partial f}{\partial W^{\ell+1}} = W^{\ell+1\top} (W^{\ell\top} \cdots w^L) x^\top "
    r"W^{1\top} \cdots W^{\ell\top}",
)
def both_sides_of_the_law() -> Evidence:
    """Compare with the gradient of the output with respect to the first of three layers, times that layer."""
    first, second, last = GENERIC
    truth = gradients(lambda layers: (product(layers) @ PROBES[0])[0])[0] @ first.T
    shifted = second.T @ (first.T @ second.T @ last.T) @ PROBES[:1] @ first.T
    return Evidence(truth, second.T @ last.T @ PROBES[:1] @ first.T, shifted)


@formula(
    "(32), (55)",
    "the conservation law",
    r"\frac{1}{\eta_\ell} W^\ell W^{\ell\top} - \frac{1}{\eta_{\ell+1}} W^{\ell+1\top} W^{\ell+1} = \mathrm{const}",
    about=("DeepMode", "WidthCorrection", "LayerImbalance"),
)
def conservation_law() -> Evidence:
    """Compare with the integrated weights of a generic three-layer network with three learning rates."""

    def difference(layers: Any) -> Any:
        pairs = [(layers[k], RATES[k], layers[k + 1], RATES[k + 1]) for k in (0, 1)]
        return [V @ V.T / low - W.T @ W / high for V, low, W, high in pairs]

    later = follow(GENERIC, S * BETA, [3.0], covariance=COVARIANCE, rates=RATES, rtol=1e-12)
    return Evidence(difference([layer[0] for layer in later]), difference(GENERIC))


@formula(
    "(34)",
    "the tangent kernel",
    r"K = \textstyle\sum_\ell |W^{>\ell}|^2\, x^\top (W^{<\ell})^\top W^{<\ell} x'",
)
def tangent_kernel_of_all_layers() -> Evidence:
    """Compare with the product of the gradients of the output at two points, by a complex step."""
    first, second = (flat(gradients(lambda layers, x=x: (product(layers) @ x)[0])) for x in PROBES[[0, 2]])
    return Evidence(first @ second, kernel(GENERIC)[0, 2])


@formula(
    "(10), (35), (36)",
    "the tangent kernel of a balanced network",
    r"K = u^{2L-2} x^\top [A r_1 r_1^\top + B I] x',\; A = \textstyle\sum_{\ell \ge 2} \prod_{k \ne \ell} "
    r"\frac{\eta_k}{\eta_L},\; B = \prod_{\ell \ne 1} \frac{\eta_\ell}{\eta_L}",
    condition=r"balanced; $K = \sum_\ell \langle \partial_\ell f, \partial_\ell f \rangle$ without the rates",
    about=("FinalKernel",),
)
def balanced_kernel() -> Evidence:
    """Compare with the gradients of a balanced network of three layers with three learning rates."""
    share = RATES / RATES[-1]
    A, B = sum(np.prod(np.delete(share, k)) for k in (1, 2)), np.prod(share[1:])
    M = A * np.outer(BETA, BETA) + B * np.eye(D)
    return Evidence(kernel(ALIGNED), U**4 * PROBES @ M @ PROBES.T)


@formula(
    "(37)",
    "spike over bulk",
    r"A/B = (L - 1)\, \eta_1/\eta\; \text{for } K;\quad L - 1 \text{ for } K_\eta \text{, which drives } \dot f",
    condition=r"$\eta_2 = \ldots = \eta_L = \eta$; for the kernel without the rates",
    about=("FinalKernel",),
)
def spike_over_bulk() -> Evidence:
    """Compare with the kernels of a balanced network with and without rates, along and orthogonal to the target."""
    rates = np.array([0.6, 1.7, 1.7])
    layers = balanced(np.array([U]), np.ones((1, 1)), BETA[:, None], rates)
    plain, driving = kernel(layers), kernel(layers, rates)
    return Evidence([K[0, 0] / K[1, 1] - 1 for K in (plain, driving)], [2 * 0.6 / 1.7, 2])


FORMULAS = formula.formulas
