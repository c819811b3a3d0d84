"""Seleznova (2024), section 3.3: kernels with blocks, and features under them."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.integrate import integrate
from linsolve.core.network import deep_weights
from linsolve.core.published_formula import Evidence, Source

__all__ = ["FORMULAS"]

formula = Source("seleznova_2024", "balanced classes, kernels with blocks (assumption 3.2)")
COLLAPSE = ("NeuralCollapse",)
C, M, HIDDEN = 3, 4, 5
N = C * M
KD, KC, KN = 2.0, 1.1, 0.4
Y = np.kron(np.eye(C), np.ones(M))
ALL = np.ones((C, C))
CENTER = np.eye(C) - ALL / C
KERNEL = (KD - KC) * np.eye(N) + (KC - KN) * Y.T @ Y + KN * np.ones((N, N))
SINGLE, CLASS = KD - KC, KD - KC + M * (KC - KN)
ALPHA = KN * M / (CLASS + C * KN * M)
# orthonormal contrasts within a class, as the columns of Q_2
CONTRASTS = np.linalg.qr(np.column_stack([np.ones(M), np.eye(M)[:, 1:]]))[0][:, 1:]
Q2 = np.kron(np.eye(C), CONTRASTS)
RNG = np.random.default_rng(4)
W, V, B = RNG.standard_normal((C, HIDDEN)) / 2, RNG.standard_normal((HIDDEN, N)) / 2, RNG.standard_normal(C) / 3
PHI = np.linalg.cholesky(KERNEL).T  # inputs whose Gram matrix is the kernel
H = V @ PHI


class Rates(NamedTuple):
    """Velocities of class means, scatter, classifier and bias."""

    H1: Any
    H2: Any
    W: Any
    b: Any


def parts(features: Any) -> tuple[Any, Any]:
    """Return ``H_1`` and ``H_2`` of (23), (24)."""
    return features @ Y.T / M, features @ Q2 / np.sqrt(M)


def residual(W: Any, features: Any, b: Any) -> Any:
    return W @ features + b[:, None] - Y


def raw(W: Any, V: Any, b: Any) -> tuple[Any, Any, Any]:
    """Return minus the gradients of ``|W V Phi + b 1^T - Y|^2/2``: a network whose features have the kernel K."""
    R = residual(W, V @ PHI, b)
    return -R @ (V @ PHI).T, -W.T @ R @ PHI.T, -R @ np.ones(N)


def rates(W: Any, V: Any, b: Any) -> Rates:
    """Return the velocities of class means, scatter, classifier and bias of a network with the kernel K."""
    dW, dV, db = raw(W, V, b)
    return Rates(*parts(dV @ PHI), dW, db)


def invariant(W: Any, H1: Any, H2: Any) -> Any:
    """Return E of (26)."""
    return W.T @ W / M - H1 @ (np.eye(C) - ALPHA * ALL) @ H1.T / CLASS - H2 @ H2.T / SINGLE


H1, H2 = parts(H)
R1 = W @ H1 + B[:, None] - np.eye(C)


@formula(
    "3.3/4.1",
    "Table 1",
    "eigenvalues of a kernel with blocks",
    quote=(
        r"$\lambda_{\text{single}} = \gamma_d - \gamma_c$ [...] $\lambda_{\text{class}} = \lambda_{\text{single}} "
        r"+ m(\gamma_c - \gamma_n)$ [...] $\lambda_{\text{global}} = \lambda_{\text{class}} + N\gamma_n$"
    ),
    latex=(
        r"\lambda_{s} = \gamma_d - \gamma_c\;(N - C),\; \lambda_c = \lambda_s + m(\gamma_c - \gamma_n)\;(C - "
        r"1),\; \lambda_g = \lambda_c + N\gamma_n\;(1)"
    ),
    about=("BlockKernel", *COLLAPSE),
)
def eigenvalues() -> Evidence:
    """Compare with the eigenvalues of the matrix, numerically."""
    return Evidence(np.linalg.eigvalsh(KERNEL), [*[SINGLE] * (N - C), *[CLASS] * (C - 1), CLASS + N * KN])


@formula(
    "3.3/4.1",
    "(11), (12)",
    "projections on its eigenvectors",
    quote=(
        r"$\langle \mathbf{r}_k^t, \mathbf{v}_0 \rangle = \langle \mathbf{r}_k^t, \mathbf{1}_N \rangle = N \langle "
        r"\mathbf{r}_k^t \rangle$ [...] "
        r"$\langle \mathbf{r}_k^t, \mathbf{v}_c \rangle = \frac{N}{C-1} (\langle \mathbf{r}_k^t \rangle_c - "
        r"\langle \mathbf{r}_k^t \rangle), \quad \langle \mathbf{r}_k^t, \mathbf{v}_i^c \rangle = \frac{m}{m-1} "
        r"(\mathbf{r}_k^t(x_i^c) - \langle \mathbf{r}_k^t \rangle_c)$"
    ),
    latex=(
        r"\langle r, v_0 \rangle = N \langle r \rangle,\; \langle r, v_c \rangle = \tfrac{N}{C-1} (\langle r "
        r"\rangle_c - \langle r \rangle),\; \langle r, v_i^c \rangle = \tfrac{m}{m-1} (r_i - \langle r \rangle_c)"
    ),
    about=("BlockKernel",),
)
def projections() -> Evidence:
    """Compare with explicit projections on the vectors of Table 1."""
    r = np.random.default_rng(1).standard_normal(N)
    v_class, v_single = np.where(np.arange(N) < M, 1, -1 / (C - 1)), np.zeros(N)
    v_single[:M] = -1 / (M - 1)
    v_single[1] = 1
    mean = r[:M].mean()
    truth = [r @ np.ones(N), r @ v_class, r @ v_single]
    return Evidence(truth, [N * r.mean(), N / (C - 1) * (mean - r.mean()), M / (M - 1) * (r[1] - mean)])


@formula(
    "3.3/4.1",
    "(13)-(15)",
    "one step of descent, part by part",
    quote=(
        r"where we omitted $O(\eta^2)$ for clarity. [...] $\langle \mathbf{r}_k^{t+1} \rangle = (1 - \eta "
        r"\lambda_{\text{global}}) \langle \mathbf{r}_k^t \rangle$ [...] $\langle \mathbf{r}_k^{t+1} \rangle_c - "
        r"\langle \mathbf{r}_k^{t+1} \rangle = (1 - \eta \lambda_{\text{class}}) (\langle \mathbf{r}_k^t "
        r"\rangle_c - \langle \mathbf{r}_k^t \rangle)$ [...] $\mathbf{r}_k^{t+1}(x_i^c) - \langle \mathbf{r}_k^{t+1} "
        r"\rangle_c = (1 - \eta \lambda_{\text{single}}) (\mathbf{r}_k^t(x_i^c) - \langle \mathbf{r}_k^t \rangle_c)$"
    ),
    latex=(
        r"\langle r \rangle, \langle r \rangle_c - \langle r \rangle, r - \langle r \rangle_c \to (1 - "
        r"\eta\lambda_{g}), (1 - \eta\lambda_c), (1 - \eta\lambda_s) \times"
    ),
    verdict="leading order",
    reason="to first order in eta, as stated with (9); exact for a constant kernel",
    about=("BlockKernel",),
)
def a_step_of_descent() -> Evidence:
    """Compare with one step of gradient descent that uses the whole kernel matrix."""
    r, eta = np.random.default_rng(2).standard_normal(N), 0.03
    means, mean = Y.T @ (Y @ r) / M, r.mean()
    rates_of_parts = CLASS + N * KN, CLASS, SINGLE
    pieces = mean + 0 * r, means - mean, r - means
    return Evidence(r - eta * KERNEL @ r, sum((1 - eta * k) * p for k, p in zip(rates_of_parts, pieces, strict=True)))


@formula(
    "3.3/4.2",
    "Theorem 4.1, (19)",
    "motion of the features",
    quote=(
        r"$\dot{\mathbf{H}} = -\mathbf{W}^\top [(\kappa_d - \kappa_c)\mathbf{R} + (\kappa_c - "
        r"\kappa_n)m\mathbf{R}_{\text{class}} + \kappa_n N\mathbf{R}_{\text{global}}]$"
    ),
    latex=r"\dot H = -W^\top [(\kappa_d - \kappa_c) R + (\kappa_c - \kappa_n) m R_{class} + \kappa_n N R_{global}]",
    about=COLLAPSE,
)
def motion_of_the_features() -> Evidence:
    """Compare with the velocity of the features of a network with this kernel, by the chain rule from its weights."""
    R = residual(W, H, B)
    by_class, by_all = R @ Y.T @ Y, R.sum(axis=1)[:, None] * np.ones(N)
    return Evidence(raw(W, V, B)[1] @ PHI, -W.T @ (SINGLE * R + (KC - KN) * by_class + KN * by_all))


@formula(
    "3.3/5.2",
    "Theorem 5.1, (25)",
    "motion of means and scatter",
    quote=(
        r"$\dot{\mathbf{H}}_1 = -\mathbf{W}^\top \mathbf{R}_1 (\mu_{\text{class}} \mathbb{I}_C + \kappa_n m "
        r"\mathbf{1}_C \mathbf{1}_C^\top) [...] \dot{\mathbf{W}} = -m(\mathbf{R}_1 \mathbf{H}_1^\top + \mathbf{W} "
        r"\mathbf{H}_2 \mathbf{H}_2^\top)$"
    ),
    latex=(
        r"\dot H_1 = -W^\top R_1 (\mu_c I + \kappa_n m 11^\top),\; \dot H_2 = -\mu_s W^\top W H_2,\; \dot W = -m "
        r"(R_1 H_1^\top + W H_2 H_2^\top),\; \dot b = -m R_1 1"
    ),
    about=(*COLLAPSE, "BiasedMode", "HiddenMode"),
)
def motion_of_means_and_scatter() -> Evidence:
    """Compare with the velocities of the parts of a network with this kernel, by the chain rule from its weights."""
    stated = (-W.T @ R1 @ (CLASS * np.eye(C) + KN * M * ALL), -SINGLE * W.T @ W @ H2,
              -M * (R1 @ H1.T + W @ H2 @ H2.T), -M * R1 @ np.ones(C))  # fmt: skip
    return Evidence(*(np.concatenate([np.ravel(each) for each in group]) for group in (rates(W, V, B), stated)))


@formula(
    "3.3/5.2",
    "(26); B.2, (43)",
    "the invariant",
    quote=(
        r"$\mathbf{E} := \frac{1}{m} \mathbf{W}^\top \mathbf{W} - \frac{1}{\mu_{\text{class}}} \mathbf{H}_1 "
        r"(\mathbb{I}_C - \alpha \mathbf{1}_C \mathbf{1}_C^\top) \mathbf{H}_1^\top - "
        r"\frac{1}{\mu_{\text{single}}} \mathbf{H}_2 \mathbf{H}_2^\top$ is invariant in time"
    ),
    latex=(
        r"E = \tfrac1m W^\top W - \tfrac{1}{\mu_c} H_1 (I - \alpha 11^\top) H_1^\top - \tfrac{1}{\mu_s} H_2 "
        r"H_2^\top"
    ),
    about=COLLAPSE,
)
def conserved_matrix() -> Evidence:
    """Compare with the integrated weights of a network with this kernel."""
    end = _trained(0.5)
    return Evidence(invariant(end[0], *parts(end[1] @ PHI)), invariant(W, H1, H2))


@cache
def _trained(t: float) -> tuple[Any, Any, Any]:
    return follow((W, V, B), t)


def follow(start: tuple[Any, Any, Any], t: float) -> tuple[Any, Any, Any]:
    """Return the weights at time t, by numerical integration."""
    inputs = np.vstack([PHI, np.ones(N)])
    target = np.hstack([Y @ np.linalg.inv(PHI), np.zeros((C, 1))])
    flow = deep_weights(target, 2, covariance=inputs @ inputs.T, bias=True)
    w, v, b = start
    end = integrate(flow, t, flow.State(v, w, b), rtol=1e-12, atol=1e-14).state
    return end.w2, end.w1, end.b


FORMULAS = formula.formulas
