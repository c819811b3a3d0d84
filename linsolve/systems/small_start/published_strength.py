"""Atanasov, Bordelon, Pehlevan (2022), section 4, appendices C to I: growth, alignment and limits of deep networks."""

from __future__ import annotations

from functools import cache

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

formula = Source("atanasov_2022")


@formula(
    "(38)",
    "motion of a balanced layer",
    r"\hat w\, \dot u = u^{L-1} (s - u^L)\, \hat w",
    printed=r"\hat w\, \dot u = u^{2L-2} (s - u^L)\, \hat w",
    about=("DeepMode",),
)
def motion_of_a_layer() -> Evidence:
    """Compare with the component of the last layer's velocity (9) along that layer, in a balanced network."""
    velocity = velocities(EVEN, np.ones(3), np.eye(D))[-1][0]
    gap = S - U**3
    return Evidence(velocity @ EVEN[-1][0] / U, U**2 * gap, U**4 * gap)


@formula(
    "(39)",
    "motion of the strength",
    r"\dot c = L\, u^{L-1} \dot u = L\, c^{2 - 2/L} (s - c)",
    printed=r"\dot c = u^{L-1} \dot u = c^{2 - 2/L} (s - c)",
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
    "(40)",
    "growth while small",
    r"c^{-(L-2)/L} = c_0^{-(L-2)/L} - (L - 2)\, s t",
    printed=r"c^{-(L-2)/L} = c_0^{-(L-2)/L} - \tfrac{L-2}{L} s t",
    about=("DeepMode", "DeepLearningTime"),
    tolerance=1e-5,
)
def growth_while_small() -> Evidence:
    """Compare with the time of the growth from 1e-9 to 1e-6 at depth 4, by quadrature."""
    start, end = 1e-9, 1e-6
    t = time(4, start, end)
    return Evidence(end**-0.5, start**-0.5 - 2 * S * t, start**-0.5 - S * t / 2)


@formula(
    "after (40)",
    "time to learn",
    r"t \simeq \frac{\sigma^{2-L}}{(L - 2) s}",
    printed=r"t \sim s^{-1} \frac{L}{L-2} \sigma^{-L-2}",
    about=("DeepLearningTime",),
    tolerance=1e-5,
)
def time_to_learn() -> Evidence:
    """Compare with the time to half of the target from sigma^3 at depth 3, by quadrature."""
    sigma = 1e-6
    return Evidence(time(3, sigma**3, S / 2), 1 / (sigma * S), 3 * sigma**-5 / S)


@formula(
    "sec. 4.1.1",
    "the same time, in the main text",
    r"t_{1/2} \simeq \frac{\sigma^{2-L}}{(L - 2) s}",
    printed=r"t_{1/2} \sim \frac{L}{s (L-2)} \sigma^{-L+2}",
    about=("DeepLearningTime",),
    tolerance=1e-5,
)
def time_in_the_main_text() -> Evidence:
    """Compare with the time to half of the target from sigma^3 at depth 3, by quadrature."""
    sigma = 1e-6
    return Evidence(time(3, sigma**3, S / 2), 1 / (sigma * S), 3 / (sigma * S))


@formula(
    "(41)",
    "alignment of the first layer",
    r"\frac{d}{dt} \frac{|W\beta|^2}{|Wv|^2} = \frac{2 (\beta \cdot \tilde w) (s - \beta \cdot \tilde "
    r"w)}{|Wv|^2} + \frac{2 |W\beta|^2 (\tilde w \cdot v)^2}{|Wv|^4}",
    printed=r"\frac{d}{dt} \frac{|W\beta|^2}{|Wv|^2} = \frac{2 \beta \cdot \tilde w}{|Wv|^2}",
)
def alignment_of_the_first_layer() -> Evidence:
    """Compare with the derivative of the ratio along the velocities (9) of a generic network, by a complex step."""
    velocity = velocities(GENERIC, np.ones(3), np.eye(D))[0]
    moved = GENERIC[0] + 1e-30j * velocity
    truth = (np.sum((moved @ BETA) ** 2) / np.sum((moved @ ACROSS) ** 2)).imag / 1e-30
    w = product(GENERIC)[0]
    along, size, other = w @ BETA, np.sum((GENERIC[0] @ ACROSS) ** 2), np.sum((GENERIC[0] @ BETA) ** 2)
    right = 2 * along * (S - along) / size + 2 * other * (w @ ACROSS) ** 2 / size**2
    return Evidence(truth, right, 2 * along / size)


@formula(
    "(42)",
    "the final kernel",
    r"K_\infty = s^{2 - 2/L} x^\top [A\beta\beta^\top + B I] x'",
    printed=r"K_\infty = s^{2L-2} x^\top [A\beta\beta^\top + B I] x'",
    condition=r"equal rates; else $s \prod_\ell (\eta_\ell/\eta_L)^{-1/2}$ in place of $s$",
    about=("FinalKernel",),
)
def final_kernel() -> Evidence:
    """Compare with the gradients of a balanced network of three layers whose map is s beta."""
    M = PROBES @ (2 * np.outer(BETA, BETA) + np.eye(D)) @ PROBES.T
    return Evidence(kernel(FINAL), S ** (4 / 3) * M, S**4 * M)


@formula(
    "(43)",
    "kernels of the activations",
    r"K_\ell = s^{2\ell/L} x^\top \beta\beta^\top x'",
    condition=r"balanced, converged; error $O(\sigma^2)$ at every $\ell$",
    about=("LayerKernels",),
)
def kernels_of_the_activations() -> Evidence:
    """Compare with the activations after two of the three layers of a balanced network whose map is s beta."""
    h = PROBES @ product(FINAL[:2]).T
    return Evidence(h @ h.T, S ** (4 / 3) * np.outer(PROBES @ BETA, PROBES @ BETA))


@formula(
    "(43), error",
    "error of the kernel of the second layer's activations",
    r"h_2(x) \cdot h_2(x') = s^{4/L} x^\top \beta\beta^\top x' + O(\sigma^2)",
    printed=r"h_2(x) \cdot h_2(x') = s^{4/L} x^\top \beta\beta^\top x' + O(\sigma^4)",
    about=("LayerKernels",),
    tolerance=2e-2,
)
def error_of_the_kernel_of_activations() -> Order:
    """Compare with the activations of three layers trained from weights of size sigma."""
    scales = 1.2e-2, 6e-3

    def error(sigma: float) -> float:
        made = product(trained([sigma * layer for layer in GENERIC], S * BETA)[:2])
        return float(np.linalg.norm(made.T @ made - S ** (4 / 3) * np.outer(BETA, BETA)))

    return Order(scales, [error(sigma) for sigma in scales], 2, 4)


@formula(
    "after (43)",
    "the same on the training set",
    r"K_\ell = s^{2\ell/L - 2} y y^\top",
    printed=r"K_\ell = (y y^\top)^{\ell/L}",
    about=("LayerKernels",),
)
def activations_on_the_training_set() -> Evidence:
    """Compare with the activations of that network on white inputs; the matrix power from its only eigenvector."""
    white = 2 * np.linalg.qr(np.random.default_rng(1).standard_normal((4, 4)))[0]
    h, y = white @ product(FINAL[:2]).T, S * white @ BETA
    return Evidence(h @ h.T, S ** (4 / 3 - 2) * np.outer(y, y), np.outer(y, y) * (y @ y) ** (2 / 3 - 1))


FORMULAS = formula.formulas
