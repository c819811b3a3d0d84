"""Atanasov, Bordelon, Pehlevan (2022), sections 2 and 3, appendices A and B: two layers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from linsolve.core.network import follow
from linsolve.core.published_formula import Evidence, Order, Source

__all__ = ["FORMULAS"]

formula = Source("atanasov_2022")
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
    "(1)",
    "the kernel drives the output",
    r"\dot f(x) = \eta \textstyle\sum_\mu K(x, x^\mu) (y^\mu - f(x^\mu))",
    condition=r"loss $\frac12 \sum_\mu (f - y)^2$; with that of (4) a factor $1/P$",
)
def output_dynamics() -> Evidence:
    """Compare with the velocity of the output, by the chain rule from the velocities (4) of the weights."""
    da, dW = pull(A0, W0, covariance=COVARIANCE)
    error = S * BETA - W0.T @ A0
    return Evidence((da @ W0 + A0 @ dW) @ PROBE, (PROBE @ kernel(A0, W0) @ X.T) @ (X @ error) / len(X))


@formula(
    "sec. 3",
    "size of the targets",
    r"\tfrac1P |y|^2 = s^2 \beta_T^\top \Sigma \beta_T",
    printed=r"|y|^2 = s^2 \beta_T^\top \Sigma \beta_T",
    about=("KernelRegression",),
)
def size_of_the_targets() -> Evidence:
    """Compare with the sum of six squared targets."""
    y = S * X @ BETA
    return Evidence(S**2 * BETA @ COVARIANCE @ BETA, y @ y / len(X), y @ y)


@cache
def _two_kernels() -> tuple[Any, Any, Any]:
    """Return two tangent kernels of three samples and one probe that do not commute, and their first errors."""
    rng = np.random.default_rng(2)
    first, second = (J @ J.T for J in rng.standard_normal((2, 4, 5)))
    return first, second, rng.standard_normal(3)


@formula(
    "(2)",
    "the learned function, by integrating factors",
    r"f^* = f_0 + \eta \int_0^\infty k_t^\top\, \mathcal{T} \exp\Bigl(-\eta \int_0^t K\Bigr) (y - f_0)\, dt",
    printed=r"f^* = f_0 + \int_0^\infty k_t^\top \exp\Bigl(-\eta \int_0^t K\Bigr) (y - f_0)\, dt",
    about=("FrozenKernel",),
    tolerance=1e-8,
)
def learned_function() -> Evidence:
    """Compare with outputs integrated while the kernel jumps to a matrix that does not commute with the first."""
    from scipy.linalg import expm

    first, second, error = _two_kernels()
    eta, tau, end = 0.3, 0.4, 300.0
    z = np.append(error, 0.0)  # errors on the samples, and change at the probe
    for kernel, span in ((first, tau), (second, end)):
        z = ode(lambda z, k=kernel: eta * np.append(-k[:3, :3] @ z[:3], k[3, :3] @ z[:3]), z, span).y[:, -1]

    nodes, weights = np.polynomial.legendre.leggauss(200)
    x, weights = (nodes + 1) / 2, weights / 2
    K1, K2 = eta * first[:3, :3], eta * second[:3, :3]
    early = (weights * tau) @ (first[3, :3] @ expm(-tau * x[:, None, None] * K1))
    late = second[3, :3] @ np.linalg.solve(K2, expm(-tau * K1))
    far, scale = x / (1 - x), weights / (1 - x) ** 2  # the second stage, from 0 to infinity
    unordered = scale @ (second[3, :3] @ expm(-tau * K1 - far[:, None, None] * K2))
    return Evidence(z[3], eta * (early + late) @ error, (early + unordered) @ error)


def _early(epsilon: float, tau: float = 0.8) -> tuple[Any, Any, Any]:
    """Return the errors of model (3) at the start and at the end of its first stage, and the change at the probe."""
    first, _, error = _two_kernels()
    z = ode(lambda z: epsilon * np.append(-first[:3, :3] @ z[:3], first[3, :3] @ z[:3]), np.append(error, 0.0), tau)
    return error, z.y[:3, -1], z.y[3, -1]


@formula(
    "A, second display",
    "errors fall",
    r"\dot\Delta = -\epsilon K_0 \Delta\; (t \le \tau),\quad \dot\Delta = -h' K_\infty \Delta",
    printed=r"\dot\Delta = \epsilon K_0 \Delta\; (t \le \tau),\quad \dot\Delta = h' K_\infty \Delta",
    about=("KernelRegression",),
)
def errors_fall() -> Evidence:
    """Compare with the velocity of the errors of a linear model, by the chain rule from its parameters."""
    J, error = X[:4], np.array([0.4, -1.1, 0.8, 0.3])  # four samples, one parameter per input
    parameters = J.T @ error
    return Evidence(-J @ parameters, -(J @ J.T) @ error, (J @ J.T) @ error)


@formula(
    "(12)",
    "errors hardly move in the first stage",
    r"\Delta(\tau) = y - f_0 + O(\epsilon)",
    condition="order 1",
    about=("KernelRegression",),
    tolerance=5e-3,
    expansion=True,
)
def errors_of_the_first_stage() -> Order:
    """Compare with the errors of model (3) integrated in time."""
    scales = 1e-4, 1e-5
    return Order(scales, [np.linalg.norm(np.subtract(*_early(e)[:2])) for e in scales], 1)


@formula(
    "(14), (15)",
    "the learned function is a kernel regression with the final kernel",
    r"f = k_\infty \cdot K_\infty^{-1} y + O(\epsilon^{\min(1, a)})",
    condition="order 1 at a = 1; for the model kernel (3)",
    about=("KernelRegression",),
    tolerance=5e-3,
    expansion=True,
)
def regression_with_the_final_kernel() -> Order:
    """Compare with the change at a probe under model (3): first stage integrated, second stage in its limit."""
    _, second, _ = _two_kernels()
    regress = second[3, :3] @ np.linalg.inv(second[:3, :3])
    scales = 1e-4, 1e-5
    found = [abs(change + regress @ left - regress @ error) for error, left, change in map(_early, scales)]
    return Order(scales, found, 1)


@formula(
    "(15), sec. 2",
    "two-layer networks from small weights, fewer samples than inputs",
    r"f_\infty = k_\infty \cdot K_\infty^{-1} y + O(\sigma)\; (P < D)",
    printed=r"f_\infty = k_\infty \cdot K_\infty^{-1} y + O(\epsilon^{\min(1, a)}),\;\epsilon = O(\sigma^2)",
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
    return Order(scales, [gap(sigma) for sigma in scales], 1, 2)


@formula(
    "(4)",
    "gradient flow",
    r"\dot a = W \Sigma (s\beta_T - W^\top a),\quad \dot W = a (s\beta_T - W^\top a)^\top \Sigma",
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
    "(5)",
    "the tangent kernel",
    r"K = x^\top (W^\top W + |a|^2 I) x'",
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
