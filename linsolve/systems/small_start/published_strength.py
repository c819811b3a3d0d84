"""Atanasov, Bordelon, Pehlevan (2022), section 4, appendices C to I: growth, alignment and limits of deep networks."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from linsolve.core.network import trained
from linsolve.core.published_formula import Evidence, Order, Source
from linsolve.systems.small_start.published_deep import (
    ACROSS,
    BETA,
    EVEN,
    FINAL,
    GENERIC,
    PROBES,
    D,
    S,
    U,
    kernel,
    product,
    velocities,
)

__all__ = ["FORMULAS"]

formula = Source("atanasov_2022", "deep linear network, one output, balanced")


@formula(
    "D.1",
    "(38)",
    "motion of a balanced layer",
    quote=(
        r"$\frac{d}{dt} \mathbf{w}_L = \hat{\mathbf{w}} \frac{d}{dt} u(t) = [...] = u(t)^{2L-2} (s - u(t)^L) "
        r"\hat{\mathbf{w}}$ [...] which implies the fact $\dot{u}(t) = u(t)^{L-1}(s - u(t)^L)$"
    ),
    latex=r"\hat w\, \dot u = u^{L-1} (s - u^L)\, \hat w",
    verdict="typographical",
    reason="the next line, and the product of the other layers, have u^{L-1}",
    about=("DeepMode",),
)
def motion_of_a_layer() -> Evidence:
    """Compare with the component of the last layer's velocity (9) along that layer, in a balanced network."""
    velocity = velocities(EVEN, np.ones(3), np.eye(D))[-1][0]
    gap = S - U**3
    return Evidence(velocity @ EVEN[-1][0] / U, U**2 * gap, U**4 * gap)


@formula(
    "D.1",
    "(39)",
    "motion of the strength",
    quote=(
        r"Changing variables to $c(t) = u(t)^L$ we obtain $\dot{c}(t) = u(t)^{L-1}\dot{u} = u(t)^{2L-2}(s - "
        "u(t)^L) = c(t)^{2-2/L}(s - c(t))$"
    ),
    latex=r"\dot c = L\, u^{L-1} \dot u = L\, c^{2 - 2/L} (s - c)",
    verdict="typographical",
    reason="the chain rule gives a factor L; section 4.1.1 prints the same equation",
    about=("DeepMode", "DeepLearningTime"),
)
def motion_of_the_strength() -> Evidence:
    """Compare with the velocity of the output of a balanced network, from the velocities (9) of its layers."""
    moved = [layer + 1e-30j * v for layer, v in zip(EVEN, velocities(EVEN, np.ones(3), np.eye(D)), strict=True)]
    rate = (U**3) ** (4 / 3) * (S - U**3)
    return Evidence((product(moved)[0] @ BETA).imag / 1e-30, 3 * rate, rate)


@cache
def time(depth: int, start: float, end: float) -> float:
    """Return the time from start to end under c' = L c^(2 - 2/L) (s - c), by quadrature over log c."""
    from scipy.integrate import quad

    return quad(lambda x: np.exp((2 / depth - 1) * x) / (depth * (S - np.exp(x))), np.log(start), np.log(end),
                epsabs=0, epsrel=1e-12, limit=200)[0]  # fmt: skip


@formula(
    "D.1",
    "(40)",
    "growth while small",
    quote=(
        r"$\frac{d}{dt}c(t) \sim c(t)^{2-2/L}s \implies [c(t)^{-1+2/L} - c_0^{-1+2/L}] = -\frac{L-2}{L}st \\ "
        r"\implies c(t) = \left[c_0^{-\frac{L-2}{L}} - \frac{(L-2)}{L}st \right]^{-\frac{L}{L-2}}$"
    ),
    latex=r"c^{-(L-2)/L} = c_0^{-(L-2)/L} - (L - 2)\, s t",
    verdict="typographical",
    reason="the integral of (39) is right; with the factor L of (39) the time counts L times",
    follows="motion_of_the_strength",
    about=("DeepMode", "DeepLearningTime"),
    tolerance=1e-5,
)
def growth_while_small() -> Evidence:
    """Compare with the time of the growth from 1e-9 to 1e-6 at depth 4, by quadrature."""
    start, end = 1e-9, 1e-6
    t = time(4, start, end)
    return Evidence(end**-0.5, start**-0.5 - 2 * S * t, start**-0.5 - S * t / 2)


@formula(
    "D.1",
    "after (40)",
    "time to learn, as a power",
    quote=r"This implies a timescale to learn of $t \sim s^{-1} \frac{L}{L-2} \sigma^{-L-2}$",
    latex=r"t \sim \sigma^{-L+2}/s",
    verdict="typographical",
    reason="the power is -L+2, as in section 4.1.1 and figures 4 and D.3; the prefactor rests on (39)",
    about=("DeepLearningTime", "UnalignedLearningTime"),
    tolerance=0.001,
)
def time_to_learn() -> Order:
    """Compare with the times to half of the target from sigma^L at depth 4, by quadrature, at two sizes."""
    scales = 1e-3, 1e-4
    return Order(scales, [time(4, sigma**4, S / 2) for sigma in scales], 2 - 4, -2 - 4)


@formula(
    "4.1.1",
    "first paragraph",
    "time to learn, in the main text",
    quote=(
        r"spectral learning occurs over a timescale on the order of $t_{1/2} \approx \frac{L}{s(L-2)} "
        r"\sigma^{-L+2}$"
    ),
    latex=r"t_{1/2} \simeq \frac{\sigma^{-L+2}}{(L - 2) s}",
    verdict="leading order",
    reason="an order of magnitude, as printed: the power of sigma holds; the prefactor rests on (39)",
    follows="motion_of_the_strength",
    about=("DeepLearningTime", "UnalignedLearningTime"),
    tolerance=0.001,
)
def time_in_the_main_text() -> Order:
    """Compare with the times to half of the target from sigma^L at depth 3, by quadrature, at two sizes."""
    scales = 1e-5, 1e-6
    return Order(scales, [time(3, sigma**3, S / 2) for sigma in scales], 2 - 3)


@formula(
    "D.1",
    "(41)",
    "alignment of the first layer",
    quote=(
        r"We can approximate the timescale for the first layer's singular vector $\mathbf{r}_1(t)$ to align to "
        r"$\beta$ as well. [...] $\frac{d}{dt} \frac{|\mathbf{W}^{(1)}\beta|^2}{|\mathbf{W}^{(1)}\mathbf{v}|^2} = "
        r"\frac{2\beta^\top \mathbf{W}^{(1)\top} \dots \mathbf{w}_L}{|\mathbf{W}^{(1)}\mathbf{v}|^2} \sim "
        r"O(\sigma^{L-2})$"
    ),
    latex=r"\frac{d}{dt} \frac{|W\beta|^2}{|Wv|^2} = \frac{2 s\, \beta \cdot \tilde w}{|Wv|^2} + O(\sigma^{2L-2})",
    verdict="leading order",
    reason=(
        "an approximation, as announced: order L - 2 in sigma; the limit carries the factor s, and the other "
        "terms are of order 2L - 2"
    ),
    setting="deep linear network, white inputs, small initial weights",
    about=("FirstLayerAlignment",),
    tolerance=0.005,
)
def alignment_of_the_first_layer() -> Evidence:
    """Compare with the derivative of the ratio along the velocities (9), by a complex step: its order and its limit."""
    rates, limits = [], []
    for sigma in (1e-2, 1e-3):
        layers = [sigma * layer for layer in GENERIC]
        moved = layers[0] + 1e-30j * velocities(layers, np.ones(3), np.eye(D))[0]
        rates.append((np.sum((moved @ BETA) ** 2) / np.sum((moved @ ACROSS) ** 2)).imag / 1e-30)
        limits.append(2 * S * product(layers)[0] @ BETA / np.sum((layers[0] @ ACROSS) ** 2))
    return Evidence([np.log10(rates[0] / rates[1]), rates[1] / limits[1]], [3 - 2, 1.0])


@formula(
    "D.2",
    "(42)",
    "the final kernel",
    quote=(
        r"the final NTK has the following form: $K(\mathbf{x}, \mathbf{x}') = s^{2L-2} \mathbf{x}^\top "
        r"[A\beta\beta^\top + B\mathbf{I}] \mathbf{x}'$ This formula is merely a consequence of the balancing "
        "condition and convergence to the optimum."
    ),
    latex=r"K_\infty = s^{2 - 2/L} x^\top [A\beta\beta^\top + B I] x'",
    verdict="typographical",
    reason="by (35) and u = s^{1/L} (D.3) the power is 2 - 2/L; section 3.2 has s at L = 2",
    about=("FinalKernel",),
)
def final_kernel() -> Evidence:
    """Compare with the gradients of a balanced network of three layers whose map is s beta."""
    M = PROBES @ (2 * np.outer(BETA, BETA) + np.eye(D)) @ PROBES.T
    return Evidence(kernel(FINAL), S ** (4 / 3) * M, S**4 * M)


@formula(
    "D.3",
    "(43)",
    "kernels of the activations",
    quote=(
        r"the final NNGP kernel for layer $\ell$ can also be computed $K_\ell(\mathbf{x}, \mathbf{x}') \sim "
        r"s^{2\ell/L} \mathbf{x}^\top \beta \beta^\top \mathbf{x}' + O(\sigma^{2\ell})$"
    ),
    latex=r"K_\ell = s^{2\ell/L} x^\top \beta\beta^\top x'",
    verdict="leading order",
    reason="exact at balance, as D.3 assumes; the error term has a record of its own",
    setting="converged deep linear network, balanced",
    about=("LayerKernels",),
)
def kernels_of_the_activations() -> Evidence:
    """Compare with the activations after two of the three layers of a balanced network whose map is s beta."""
    h = PROBES @ product(FINAL[:2]).T
    return Evidence(h @ h.T, S ** (4 / 3) * np.outer(PROBES @ BETA, PROBES @ BETA))


@formula(
    "D.3",
    "(43), error term",
    "error of the kernel of the second layer's activations",
    quote=(
        r"$K_\ell(\mathbf{x}, \mathbf{x}') \sim s^{2\ell/L} \mathbf{x}^\top \beta \beta^\top \mathbf{x}' + "
        r"O(\sigma^{2\ell})$"
    ),
    latex=(r"K_\ell = (s^{2\ell/L} + O(\sigma^2))\, x^\top \beta\beta^\top x' + O(\sigma^{2\ell})"),
    verdict="holds under a condition",
    reason=(
        "the error term is that of all entries but the one along beta, whose coefficient is meant by the asymptotic "
        "sign: the imbalance that footnote 1 neglects changes it by order sigma^2, as (57) and (58) say"
    ),
    setting="deep linear network trained from weights of size sigma",
    about=("LayerKernels",),
    tolerance=2e-2,
)
def error_of_the_kernel_of_activations() -> Evidence:
    """Compare with activations of three layers trained at two sizes: orders along beta and in the other entries."""
    orders = []
    for layers in (1, 2):
        found = []
        for sigma in (1.2e-2, 6e-3):
            made = product(trained([sigma * layer for layer in GENERIC], S * BETA)[:layers])
            error = made.T @ made - S ** (2 * layers / 3) * np.outer(BETA, BETA)
            along = BETA @ error @ BETA
            found.append([abs(along), np.linalg.norm(error - along * np.outer(BETA, BETA))])
        orders.append(np.log2(np.divide(found[0], found[1])))
    return Evidence(orders, [[2, 2], [2, 4]])


@formula(
    "D.3",
    "after (43)",
    "the same on the training set",
    quote=(
        r"Evaluating on the training set gives $\mathbf{K}_\ell = (\mathbf{y}\mathbf{y}^\top)^{\ell/L} \in "
        r"\mathbb{R}^{P \times P}$"
    ),
    latex=r"K_\ell = (y y^\top)^{\ell/L} = s^{2\ell/L - 2} y y^\top",
    verdict="holds under a condition",
    reason="X^T X = I; whitening alone fixes it up to a factor",
    setting="converged deep linear network, balanced, white inputs",
    about=("LayerKernels",),
)
def activations_on_the_training_set() -> Evidence:
    """Compare with the activations on orthonormal samples and on twice these; the matrix power by eigenvectors."""
    white = np.linalg.qr(np.random.default_rng(1).standard_normal((4, 4)))[0]

    def power(y: Any) -> Any:
        values, vectors = np.linalg.eigh(np.outer(y, y))
        return (vectors * np.maximum(values, 0) ** (2 / 3)) @ vectors.T

    h, y = white @ product(FINAL[:2]).T, S * white @ BETA
    scaled = 4 * h @ h.T  # activations at twice the inputs, where X^T X = 4 I
    return Evidence([h @ h.T, scaled], [power(y), 4 * power(y)], [power(y), power(2 * y)])


FORMULAS = formula.formulas
