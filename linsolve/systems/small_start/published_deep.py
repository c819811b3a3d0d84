"""Atanasov, Bordelon, Pehlevan (2022), section 4 and appendix C: the flow and the kernel of more layers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from linsolve.core.published_formula import Evidence, Source
from linsolve.systems.small_start.published_layers import (
    ALIGNED,
    BETA,
    COVARIANCE,
    GENERIC,
    PROBES,
    RATES,
    D,
    S,
    U,
    X,
    around,
    balanced,
    kernel,
    product,
    velocities,
)

__all__ = ["FORMULAS"]

formula = Source("atanasov_2022")


@formula(
    "(9)",
    "gradient flow",
    r"\dot W^\ell = \eta_\ell (W^{>\ell})^\top (s\beta - \tilde w)^\top \Sigma (W^{<\ell})^\top",
)
def gradient_flow_of_all_layers() -> Evidence:
    """Compare with derivative of the mean loss over seven points by every weight, through a complex step."""
    y, truth = S * X @ BETA, []
    for k, layer in enumerate(GENERIC):
        for at in np.ndindex(layer.shape):
            moved = [each.astype(complex) for each in GENERIC]
            moved[k][at] += 1e-30j
            truth.append(-RATES[k] * (np.mean((X @ product(moved)[0] - y) ** 2) / 2).imag / 1e-30)
    return Evidence(truth, np.concatenate([v.ravel() for v in velocities(GENERIC, RATES, COVARIANCE)]))


@formula(
    "(29)",
    "what gradient flow conserves, layer by layer",
    r"\frac{1}{\eta_\ell} \frac{d}{dt} W^\ell W^{\ell\top} = -\textstyle\sum_\mu \ell'(f^\mu) \frac{\partial "
    r"f^\mu}{\partial W^\ell} W^{\ell\top} + \mathrm{h.c.}",
    printed=r"\ldots = \textstyle\sum_\mu \ell'(f^\mu) \ldots",
    about=("DeepMode",),
)
def motion_of_the_squares() -> Evidence:
    """Compare with velocities of the weights by a complex step of the loss."""
    y, k = S * X @ BETA, 1
    gradient = np.empty((4, 4))
    for at in np.ndindex(4, 4):
        moved = [each.astype(complex) for each in GENERIC]
        moved[k][at] += 1e-30j
        gradient[at] = (np.mean((X @ product(moved)[0] - y) ** 2) / 2).imag / 1e-30
    truth = -gradient @ GENERIC[k].T
    after, before = around(GENERIC, k)
    pull = np.mean((X @ product(GENERIC)[0] - y)[:, None] * X, axis=0)  # sum of l'(f) x
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
    """Compare with the gradient of the output by the first of three layers, a complex step, times that layer."""
    first, second, last = GENERIC
    gradient = np.empty((4, 4))
    for at in np.ndindex(4, 4):
        moved = first.astype(complex)
        moved[at] += 1e-30j
        gradient[at] = (last @ second @ moved @ PROBES[0])[0].imag / 1e-30
    truth = gradient @ first.T
    shifted = second.T @ (first.T @ second.T @ last.T) @ PROBES[:1] @ first.T
    return Evidence(truth, second.T @ last.T @ PROBES[:1] @ first.T, shifted)


@cache
def _trained(t: float) -> list[Any]:
    from scipy.integrate import solve_ivp

    shapes = [layer.shape for layer in GENERIC]
    ends = np.cumsum([layer.size for layer in GENERIC])[:-1]

    def unpack(z: Any) -> list[Any]:
        return [part.reshape(shape) for part, shape in zip(np.split(z, ends), shapes, strict=True)]

    def rate(_: float, z: Any) -> Any:
        return np.concatenate([v.ravel() for v in velocities(unpack(z), RATES, COVARIANCE)])

    z0 = np.concatenate([layer.ravel() for layer in GENERIC])
    return unpack(solve_ivp(rate, (0, t), z0, "DOP853", rtol=1e-12, atol=1e-14).y[:, -1])


@formula(
    "(32), (55)",
    "the conservation law",
    r"\frac{1}{\eta_\ell} W^\ell W^{\ell\top} - \frac{1}{\eta_{\ell+1}} W^{\ell+1\top} W^{\ell+1} = \mathrm{const}",
    about=("DeepMode", "WidthCorrection", "LayerImbalance"),
)
def conservation_law() -> Evidence:
    """Compare with weights of a generic three-layer network at three rates, integrated one by one."""

    def difference(layers: Any) -> Any:
        pairs = [(layers[k], RATES[k], layers[k + 1], RATES[k + 1]) for k in (0, 1)]
        return [V @ V.T / low - W.T @ W / high for V, low, W, high in pairs]

    return Evidence(difference(_trained(3.0)), difference(GENERIC))


@formula(
    "(34)",
    "the tangent kernel",
    r"K = \textstyle\sum_\ell |W^{>\ell}|^2\, x^\top (W^{<\ell})^\top W^{<\ell} x'",
)
def tangent_kernel_of_all_layers() -> Evidence:
    """Compare with product of the gradients of the output at two points, through a complex step."""

    def gradient(x: Any) -> Any:
        found = []
        for k, layer in enumerate(GENERIC):
            for at in np.ndindex(layer.shape):
                moved = [each.astype(complex) for each in GENERIC]
                moved[k][at] += 1e-30j
                found.append((product(moved) @ x)[0].imag / 1e-30)
        return np.array(found)

    return Evidence(gradient(PROBES[0]) @ gradient(PROBES[2]), kernel(GENERIC)[0, 2])


@formula(
    "(10), (35), (36)",
    "the tangent kernel of a balanced network",
    r"K = u^{2L-2} x^\top [A r_1 r_1^\top + B I] x',\; A = \textstyle\sum_{\ell \ge 2} \prod_{k \ne \ell} "
    r"\frac{\eta_k}{\eta_L},\; B = \prod_{\ell \ne 1} \frac{\eta_\ell}{\eta_L}",
    condition=r"balanced; $K = \sum_\ell \langle \partial_\ell f, \partial_\ell f \rangle$ without the rates",
    about=("FinalKernel",),
)
def balanced_kernel() -> Evidence:
    """Compare with gradients of a balanced network of three layers at three rates."""
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
    """Compare with kernels with and without the rates of a balanced network, along and across the target."""
    rates = np.array([0.6, 1.7, 1.7])
    layers = balanced(np.array([U]), np.ones((1, 1)), BETA[:, None], rates)
    plain, driving = kernel(layers), kernel(layers, rates)
    return Evidence([K[0, 0] / K[1, 1] - 1 for K in (plain, driving)], [2 * 0.6 / 1.7, 2])


FORMULAS = formula.formulas
