"""Atanasov, Bordelon, Pehlevan (2022), sections 2 and 3, appendices A and B: two layers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from linsolve.core.network import follow
from linsolve.core.published_formula import Evidence, Order, Source

__all__ = ["FORMULAS"]

formula = Source("atanasov_2022", "two-layer linear network, mean loss, unit rate")
RNG = np.random.default_rng(7)
D, N, S, ETA = 4, 3, 1.3, 0.7
BETA = np.array([0.5, -0.5, 0.7, -0.1])
A0, W0 = RNG.standard_normal(N), RNG.standard_normal((N, D))  # start over sigma
X = RNG.standard_normal((6, D))  # six samples
COVARIANCE = X.T @ X / len(X)
PROBE = RNG.standard_normal(D)


def pull(a: Any, W: Any, s: float = S, covariance: Any = None) -> tuple[Any, Any]:
    """Return the velocities (4) at learning rate 1, on white inputs by default."""
    error = s * BETA - W.T @ a
    error = error if covariance is None else covariance @ error
    return W @ error, np.outer(a, error)


def ode(rate: Any, z: Any, t: float, **options: Any) -> Any:
    from scipy.integrate import solve_ivp

    return solve_ivp(lambda _, z: rate(z), (0, t), z, "DOP853", rtol=1e-12, atol=1e-15, **options)


def kernel(a: Any, W: Any) -> Any:
    return W.T @ W + a @ a * np.eye(len(W[0]))


@formula(
    "2",
    "(1)",
    "the kernel drives the output",
    quote=(
        r"$\frac{d}{dt}f(\mathbf{x}, t) = \eta \sum_{\mu} K(\mathbf{x}, \mathbf{x}^\mu, t)(y^\mu - "
        r"f(\mathbf{x}^\mu, t))$"
    ),
    latex=r"\dot f(x) = \eta \textstyle\sum_\mu K(x, x^\mu) (y^\mu - f(x^\mu))",
    verdict="convention",
    reason="the loss is half the sum of squares; for the mean of section 3 the rate carries 1/P",
    setting="mean square error, gradient flow at rate eta",
)
def output_dynamics() -> Evidence:
    """Compare with the velocity of the output, by the chain rule from the velocities (4) of the weights."""
    da, dW = pull(A0, W0, covariance=COVARIANCE)
    error = S * BETA - W0.T @ A0
    return Evidence((da @ W0 + A0 @ dW) @ PROBE, (PROBE @ kernel(A0, W0) @ X.T) @ (X @ error) / len(X))


@formula(
    "3",
    "second paragraph",
    "size of the targets",
    quote=(
        "The scalar $s$ merely quantifies the size of the supervised learning signal: the variance of "
        r"$|\mathbf{y}|^2 = s^2 \beta_T^\top \Sigma \beta_T$"
    ),
    latex=r"\tfrac1P |y|^2 = s^2 \beta_T^\top \Sigma \beta_T",
    verdict="convention",
    reason="the square is per sample, as the word variance says; the sum over the samples is P times as large",
    about=("KernelRegression",),
)
def size_of_the_targets() -> Evidence:
    """Compare with the mean of six squared targets."""
    y = S * X @ BETA
    return Evidence(y @ y / len(X), S**2 * BETA @ COVARIANCE @ BETA)


@cache
def _two_kernels() -> tuple[Any, Any, Any]:
    """Return two tangent kernels of three samples and one probe that do not commute, and their first errors."""
    rng = np.random.default_rng(2)
    first, second = (J @ J.T for J in rng.standard_normal((2, 4, 5)))
    return first, second, rng.standard_normal(3)


@formula(
    "2",
    "(2)",
    "the learned function, by integrating factors",
    quote=(
        r"one could solve for the final learned function $f^*$ with integrating factors $f^*(\mathbf{x}) = "
        r"f_0(\mathbf{x}) + \sum_{\mu\nu} \int_0^\infty dt \mathbf{k}_t(\mathbf{x})^\mu \exp\left(-\eta \int_0^t "
        r"\mathbf{K}(t') dt'\right)_{\mu\nu} (y^\nu - f_0(\mathbf{x}^\nu))$"
    ),
    latex=r"f^* = f_0 + \eta \int_0^\infty k_t^\top\, \mathcal{T} \exp\Bigl(-\eta \int_0^t K\Bigr) (y - f_0)\, dt",
    verdict="holds under a condition",
    reason=(
        "unit rate, and kernel matrices that commute at all times, as in model (3) after tau; in general the "
        "exponential is time-ordered and the integral carries eta"
    ),
    setting="any kernel in time, rate eta",
    about=("FrozenKernel", "TwoPhaseKernel"),
    tolerance=1e-8,
)
def learned_function() -> Evidence:
    """Compare with outputs integrated while the kernel jumps to a matrix that does not commute with the first."""
    from scipy.linalg import expm

    first, second, error = _two_kernels()
    tau, end = 0.12, 100.0
    z = np.append(error, 0.0)  # errors on the samples, and change at the probe
    for kernel, span in ((first, tau), (second, end)):
        z = ode(lambda z, k=kernel: np.append(-k[:3, :3] @ z[:3], k[3, :3] @ z[:3]), z, span).y[:, -1]

    nodes, weights = np.polynomial.legendre.leggauss(200)
    x, weights = (nodes + 1) / 2, weights / 2
    K1, K2 = first[:3, :3], second[:3, :3]
    early = (weights * tau) @ (first[3, :3] @ expm(-tau * x[:, None, None] * K1))
    late = second[3, :3] @ np.linalg.solve(K2, expm(-tau * K1))
    far, scale = x / (1 - x), weights / (1 - x) ** 2  # the second stage, from 0 to infinity
    unordered = scale @ (second[3, :3] @ expm(-tau * K1 - far[:, None, None] * K2))
    return Evidence(z[3], (early + late) @ error, (early + unordered) @ error)


def _early(epsilon: float, f0: Any = 0.0, tau: float = 0.8) -> tuple[Any, Any, Any]:
    """Return the errors of model (3) at the start and at the end of its first stage, and the change at the probe."""
    first, _, y = _two_kernels()
    error = y - f0
    z = ode(lambda z: epsilon * np.append(-first[:3, :3] @ z[:3], first[3, :3] @ z[:3]), np.append(error, 0.0), tau)
    return error, z.y[:3, -1], z.y[3, -1]


@formula(
    "A",
    "display above (12)",
    "motion of the errors",
    quote=(
        r"These satisfy the dynamics $\frac{d}{dt} \Delta(t) = \begin{cases} \epsilon \mathbf{K}_0(t) \Delta(t) & "
        r"t \leq \tau \\ h'(t) \mathbf{K}_\infty \Delta & t > \tau \end{cases}$"
    ),
    latex=r"\dot\Delta = -\epsilon K_0 \Delta\; (t \le \tau),\quad \dot\Delta = -h' K_\infty \Delta",
    verdict="typographical",
    reason="(12) and (13) carry the minus sign",
    setting="model (3)",
    about=("KernelRegression",),
)
def errors_fall() -> Evidence:
    """Compare with the velocity of the errors of a linear model, by the chain rule from its parameters."""
    J, error = X[:4], np.array([0.4, -1.1, 0.8, 0.3])  # four samples, one parameter per input
    parameters = J.T @ error
    return Evidence(-J @ parameters, -(J @ J.T) @ error, (J @ J.T) @ error)


@formula(
    "A",
    "(12)",
    "errors after the first stage",
    quote=(
        r"$\Delta(\tau) = \exp\left(-\epsilon \int_0^\tau \mathbf{K}_0(t) dt\right) \Delta_0 = \mathbf{y} - "
        r"\mathbf{f}_0 + O(\epsilon)$"
    ),
    latex=r"\Delta(\tau) = y - f_0 + O(\epsilon)",
    verdict="leading order",
    reason="order 1 in epsilon, as printed",
    setting="model (3)",
    about=("KernelRegression", "TwoPhaseKernel"),
    tolerance=5e-3,
)
def errors_of_the_first_stage() -> Order:
    """Compare with the errors of model (3) integrated in time."""
    scales = 1e-4, 1e-5
    return Order(scales, [np.linalg.norm(np.subtract(*_early(e)[:2])) for e in scales], 1)


@formula(
    "2",
    "below (3); (14)",
    "the learned function is a kernel regression with the final kernel",
    quote=(
        r"In this model, one also obtains a kernel regression solution in the limit where $\epsilon \rightarrow "
        r"0$ with the final, rather than the initial kernel: $f(\mathbf{x}) = \mathbf{k}_\infty(\mathbf{x}) \cdot "
        r"\mathbf{K}_\infty^{-1} \mathbf{y} + O(\epsilon^{\min(1,a)})$"
    ),
    latex=r"f = k_\infty \cdot K_\infty^{-1} y + O(\epsilon^{\min(1, a)})",
    verdict="leading order",
    reason="order min(1, a) in epsilon, as printed",
    setting="model (3)",
    about=("KernelRegression",),
    tolerance=5e-3,
)
def regression_with_the_final_kernel() -> Evidence:
    """Compare with orders at a probe at a = 1/2, 1 and 2: first stage integrated, second stage in its limit."""
    _, second, y = _two_kernels()
    regress = second[3, :3] @ np.linalg.inv(second[:3, :3])
    first_outputs = np.array([0.3, -0.5, 0.2, 0.4])  # over epsilon^a

    def gap(epsilon: float, a: float) -> float:
        f0 = epsilon**a * first_outputs
        _, left, change = _early(epsilon, f0[:3])
        return float(abs(f0[3] + change + regress @ left - regress @ y))

    powers = 0.5, 1.0, 2.0
    return Evidence([np.log10(gap(1e-5, a) / gap(1e-6, a)) for a in powers], np.minimum(1, powers))


@formula(
    "A",
    "(15)",
    "two-layer networks from small weights, fewer samples than inputs",
    quote=(
        r"Using this assumption of homogeneity, we have $f(\mathbf{x}) \sim \mathbf{k}_\infty(\mathbf{x}) \cdot "
        r"\mathbf{K}_\infty^{-1} \mathbf{y}, \quad \epsilon \rightarrow 0$"
    ),
    latex=r"f_\infty = k_\infty \cdot K_\infty^{-1} y + O(\sigma)\; (P < D)",
    verdict="leading order",
    reason=(
        "printed without an error term; for two-layer networks with fewer samples than inputs it is of order "
        "sigma, while that of section 2 belongs to model (3)"
    ),
    setting="homogeneous networks, small initial weights",
    about=("KernelRegression",),
    tolerance=5e-3,
)
def networks_against_regression() -> Order:
    """Compare with networks trained on two white samples of four inputs and regression by their final kernel."""
    inputs = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]])  # white on their span
    y = np.array([0.9, -0.7])

    target, P = np.linalg.pinv(inputs) @ y, len(inputs)

    def gap(sigma: float) -> float:
        layers = follow([sigma * W0, sigma * A0[None]], target, [40.0 * P], covariance=inputs.T @ inputs / P)
        W, a = layers[0][0], layers[1][0, 0]
        K = kernel(a, W)
        return float(np.linalg.norm(W.T @ a - K @ inputs.T @ np.linalg.solve(inputs @ K @ inputs.T, y)))

    scales = 1e-3, 1e-4
    return Order(scales, [gap(sigma) for sigma in scales], 1)


@formula(
    "3",
    "(4)",
    "gradient flow",
    quote=(
        r"$\frac{d}{dt} \mathbf{a} = -\frac{\partial L}{\partial \mathbf{a}} = \mathbf{W} \Sigma (s\beta_T - "
        r"\mathbf{W}^\top \mathbf{a}), \quad \frac{d}{dt} \mathbf{W} = -\frac{\partial L}{\partial \mathbf{W}} = "
        r"\mathbf{a} (s\beta_T - \mathbf{W}^\top \mathbf{a})^\top \Sigma$"
    ),
    latex=r"\dot a = W \Sigma (s\beta_T - W^\top a),\quad \dot W = a (s\beta_T - W^\top a)^\top \Sigma",
    about=("EarlyAlignment", "LearningTime"),
)
def gradient_flow() -> Evidence:
    """Compare with the gradient of the mean loss over six samples, by a complex step in every weight."""
    y = S * X @ BETA

    def loss(z: Any) -> Any:
        return np.mean((X @ z[N:].reshape(N, D).T @ z[:N] - y) ** 2) / 2

    z, h = np.concatenate([A0, W0.ravel()]), 1e-30
    truth = [-loss(z + 1j * h * unit).imag / h for unit in np.eye(len(z))]
    da, dW = pull(A0, W0, covariance=COVARIANCE)
    return Evidence(truth, np.concatenate([da, dW.ravel()]))


@formula(
    "3",
    "(5)",
    "the tangent kernel",
    quote=(
        r"$K(\mathbf{x}, \mathbf{x}'; t) = \mathbf{x}^\top \mathbf{W}^\top \mathbf{W} \mathbf{x}' + "
        r"|\mathbf{a}|^2 \mathbf{x}^\top \mathbf{x}'$"
    ),
    latex=r"K = x^\top (W^\top W + |a|^2 I) x'",
    about=("EarlyAlignment", "KernelAlignment"),
)
def tangent_kernel() -> Evidence:
    """Compare with the product of the gradients of the outputs at two points, by a complex step."""
    z, h = np.concatenate([A0, W0.ravel()]), 1e-30

    def gradient(x: Any) -> Any:
        steps = (z + 1j * h * unit for unit in np.eye(len(z)))
        return np.array([(step[:N] @ step[N:].reshape(N, D) @ x).imag / h for step in steps])

    return Evidence(gradient(PROBE) @ gradient(X[0]), PROBE @ kernel(A0, W0) @ X[0])


FORMULAS = formula.formulas
