"""Atanasov, Bordelon, Pehlevan (2022), section 3.1.1, appendices B.1 and B.2: phase I."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.published_formula import Evidence, Order, Source
from linsolve.systems.small_start.published_start import A0, BETA, COVARIANCE, ETA, W0, D, N, S, kernel, pull

__all__ = ["FORMULAS"]

formula = Source("atanasov_2022", "two-layer linear network, small initial weights, white inputs")


def linearized(t: float, covariance: Any = None, eta: float = ETA, start: Any = (A0, W0)) -> tuple[Any, Any]:
    """Return the weights under (6), or (20) and (21), by a matrix exponential."""
    from scipy.linalg import expm

    step = S * (np.eye(D) if covariance is None else covariance) @ BETA
    system = np.zeros((N + N * D,) * 2)
    system[:N, N:] = np.kron(np.eye(N), step[None])
    system[N:, :N] = np.kron(np.eye(N), step[:, None])
    z = expm(eta * t * system) @ np.concatenate([start[0], start[1].ravel()])
    return z[:N], z[N:].reshape(N, D)


def overlaps(a: Any, W: Any) -> tuple[float, float]:
    """Return q and r."""
    w = W @ BETA
    return (a @ a + w @ w) / 2, a @ w


@formula(
    "3.1.1",
    "(6)",
    "the flow at small weights",
    quote=(
        r"Early on, the dynamics are approximately $\frac{d}{dt}\mathbf{a} \sim s\mathbf{W}\beta + O(\sigma^3), "
        r"\quad \frac{d}{dt}\mathbf{W} \sim s\mathbf{a}\beta^\top + O(\sigma^3)$"
    ),
    latex=r"\dot a = s W\beta + O(\sigma^3),\quad \dot W = s a\beta^\top + O(\sigma^3)",
    verdict="leading order",
    reason="order 3 in sigma, as printed",
    about=("EarlyAlignment",),
    tolerance=5e-3,
)
def flow_at_small_weights() -> Order:
    """Compare with the velocities (4) at two sizes of the weights."""
    scales = 1e-2, 1e-3
    found = [np.linalg.norm(pull(k * A0, k * W0)[0] - k * S * W0 @ BETA) for k in scales]
    return Order(scales, found, 3)


@formula(
    "3.1.1",
    "(7); B.1, (19)",
    "the kernel in phase I",
    quote=(
        r"Truncating terms order $\sigma^3$ and higher, we can solve for the kernel's dynamics early on in "
        r"training $K(\mathbf{x}, \mathbf{x}'; t) \sim q_0 \cosh(2\eta st) \mathbf{x}^\top "
        r"[\boldsymbol{\beta}\boldsymbol{\beta}^\top + \mathbf{I}] \mathbf{x}' + K_0(\mathbf{x}, \mathbf{x}')$"
    ),
    latex=r"M = q_0 \cosh(2\eta s t) (\beta\beta^\top + I)\, (1 + O(e^{-\eta s t}))",
    verdict="leading order",
    reason=(
        "relative order 1 in exp(-eta s t), late in phase I and with the source's q_0 >> r_0; the rest is a "
        "constant and cross terms that grow like exp(eta s t); (19) has an equality sign, and below it the statement "
        "that the first term will eventually overwhelm the rest"
    ),
    setting="small initial weights, white inputs, q_0 >> r_0 (large D)",
    about=("EarlyAlignment",),
    tolerance=0.005,
)
def kernel_of_phase_one() -> Order:
    """Compare with the weights of the flow (6) from r_0 = 0, by a matrix exponential, at two late times."""
    w0 = W0 @ BETA
    a0 = A0 - w0 * (A0 @ w0) / (w0 @ w0)  # r_0 = 0
    q0, _ = overlaps(a0, W0)
    scales, found = (1e-3, 1e-4), []
    for scale in scales:
        t = -np.log(scale) / (ETA * S)
        a, W = linearized(t, start=(a0, W0))
        stated = kernel(a0, W0) + q0 * np.cosh(2 * ETA * S * t) * (np.outer(BETA, BETA) + np.eye(D))
        found.append(np.linalg.norm(kernel(a, W) - stated) / np.linalg.norm(stated))
    return Order(scales, found, 1)


@formula(
    "B.1",
    "(16)",
    "output and size in phase I",
    quote=(
        r"$\begin{bmatrix} q(t) \\ r(t) \end{bmatrix} \approx \frac{1}{2}(q_0 + r_0) \begin{bmatrix} 1 \\ 1 "
        r"\end{bmatrix} e^{2\eta s t} + \frac{1}{2}(q_0 - r_0) \begin{bmatrix} 1 \\ -1 \end{bmatrix} e^{-2\eta s "
        "t}$"
    ),
    latex=r"(q, r) = \tfrac12 (q_0 + r_0) (1, 1) e^{2\eta s t} + \tfrac12 (q_0 - r_0) (1, -1) e^{-2\eta s t}",
    verdict="leading order",
    reason="exact for the linear flow (6), as printed with an approximate sign",
    about=("EarlyAlignment",),
)
def overlaps_of_phase_one() -> Evidence:
    """Compare with the weights of the flow (6), by a matrix exponential."""
    t, (q0, r0) = 0.9, overlaps(A0, W0)
    up, down = (q0 + r0) / 2 * np.exp(2 * ETA * S * t), (q0 - r0) / 2 * np.exp(-2 * ETA * S * t)
    return Evidence(overlaps(*linearized(t)), (up + down, up - down))


@formula(
    "B.1",
    "(17)",
    "overlaps of a Gaussian start",
    quote=(
        r"For Gaussian initialization $a_i \sim \mathcal{N}(0, \sigma^2/N)$, $W_{ij} \sim \mathcal{N}(0, "
        r"\sigma^2/D)$ with large $D$, we have $\langle q_0 \rangle = \frac{\sigma^2}{2} \left(1 + "
        r"\frac{N}{D}\right), \quad \langle r_0 \rangle = 0, \quad \langle r_0^2 \rangle = \frac{\sigma^4}{D}$"
    ),
    latex=(
        r"\langle q_0 \rangle = \frac{\sigma^2}{2} (1 + N/D),\quad \langle r_0 \rangle = 0,\quad \langle r_0^2 "
        r"\rangle = \sigma^4/D"
    ),
    setting="Gaussian initial weights",
    about=("InitialOverlaps",),
)
def overlaps_of_a_gaussian_start() -> Evidence:
    """Compare with Gauss-Hermite quadrature over all weights of two units on two inputs, exact for polynomials."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)
    weights = weights / weights.sum()
    grid, share = np.meshgrid(*[nodes] * 6), np.prod(np.meshgrid(*[weights] * 6), axis=0)
    a, W = 0.3 * np.array(grid[:2]) / np.sqrt(2), 0.3 * np.array(grid[2:]).reshape(2, 2, *grid[0].shape) / np.sqrt(2)
    w = W[:, 0] * 0.6 + W[:, 1] * 0.8
    q, r = np.sum(a**2 + w**2, axis=0) / 2, np.sum(a * w, axis=0)
    return Evidence([np.sum(share * v) for v in (q, r, r**2)], [0.3**2 / 2 * 2, 0, 0.3**4 / 2])


@formula(
    "B.1",
    "after (17)",
    "size of the overlap with the output",
    quote=r"In the large $D$ limit, we have with high probability $q_0 \gg r_0$",
    latex=r"\langle r_0^2 \rangle^{1/2} / \langle q_0 \rangle = \frac{2}{\sqrt D (1 + N/D)}",
    verdict="leading order",
    reason="order 1/2 in 1/D, at any N, as stated for large D",
    setting="Gaussian initial weights",
    about=("InitialOverlaps",),
    tolerance=0.005,
)
def size_of_the_overlap() -> Evidence:
    """Compare with 200,000 Gaussian draws of ten units, projected on the target among 25 and 2500 inputs."""
    normal, truth, stated = np.random.default_rng(3).standard_normal((2, 200_000, 10)), [], []
    for inputs in (25, 2500):
        a, w = normal / np.array([10, inputs])[:, None, None] ** 0.5
        r0, q0 = np.sum(a * w, axis=1), np.sum(a**2 + w**2, axis=1) / 2
        truth.append(np.sqrt(inputs * np.mean(r0**2)) / np.mean(q0))
        stated.append(2 / (1 + 10 / inputs))
    return Evidence(truth, stated)


@formula(
    "B.1",
    "(18)",
    "growth of the kernel across the target",
    quote=(
        r"$\frac{d}{dt} \mathbf{v}^\top \mathbf{M}(t) \mathbf{v} = 2\mathbf{v}^\top [\boldsymbol{\beta} "
        r"\boldsymbol{\beta}^\top \mathbf{W} + \boldsymbol{\beta}^\top \mathbf{W}^\top \mathbf{a} \mathbf{I}] "
        r"\mathbf{v} = 2r(t)$"
    ),
    latex=r"\frac{d}{dt} v^\top M v = 2 \eta s\, r",
    verdict="convention",
    reason=(
        "time in units of 1/(eta s), which makes v^T M v equal to q up to a constant, as the next sentence says; the "
        "first term in brackets, by its shape beta a^T W, vanishes between v"
    ),
    about=("EarlyAlignment",),
)
def growth_across_the_target() -> Evidence:
    """Compare with the velocities of the weights under (6), per unit of eta s t."""
    v = np.cross(BETA[:3], [1.0, 0.0, 2.0])
    v = np.append(v, 0) / np.linalg.norm(v)
    da, dW = W0 @ BETA, np.outer(A0, BETA)
    return Evidence(2 * (v @ W0.T @ dW @ v + A0 @ da), 2 * overlaps(A0, W0)[1])


def _five(a: Any, W: Any) -> Any:
    out, through = BETA @ W.T, BETA @ COVARIANCE @ W.T
    return np.array([out @ a, a @ a, out @ W @ COVARIANCE @ BETA, through @ a, through @ through])


def _five_by_five() -> Any:
    alpha, b = BETA @ COVARIANCE @ BETA, BETA @ COVARIANCE @ COVARIANCE @ BETA
    rows = [0, alpha, 1, 0, 0], [0, 0, 0, 2, 0], [b, 0, 0, alpha, 0], [0, b, 0, 0, 1], [0, 0, 0, 2 * b, 0]
    return np.array(rows)


@formula(
    "B.2",
    "(20)-(23)",
    "five overlaps close in phase I",
    quote=(
        r"it is straightforward to show that $\dot{\mathbf{r}}(t) \sim s \begin{bmatrix} 0 & a & 1 & 0 & 0 \\ 0 & "
        r"0 & 0 & 2 & 0 \\ b & 0 & 0 & a & 0 \\ 0 & b & 0 & 0 & 1 \\ 0 & 0 & 0 & 2b & 0 \end{bmatrix} "
        r"\mathbf{r}(t), \quad t \ll \log(\sigma^{-2})$"
    ),
    latex=(
        r"\dot r = s A r,\; r = (\beta^\top W^\top a, |a|^2, \beta^\top W^\top W\Sigma\beta, \beta^\top\Sigma "
        r"W^\top a, \beta^\top\Sigma W^\top W\Sigma\beta)"
    ),
    verdict="leading order",
    reason="exact for the linear flow (20), (21), as printed with an asymptotic sign",
    setting="small initial weights, any covariance",
    about=("EarlyAnisotropic",),
)
def five_overlaps() -> Evidence:
    """Compare with the derivative of the overlaps along the weights' velocities (20), (21), by a complex step."""
    da, dW = S * W0 @ COVARIANCE @ BETA, S * np.outer(A0, BETA @ COVARIANCE)
    moved = _five(A0 + 1e-30j * da, W0 + 1e-30j * dW).imag / 1e-30
    return Evidence(moved, S * _five_by_five() @ _five(A0, W0))


@formula(
    "B.2",
    "(24)",
    "the growing directions",
    quote=(
        r"This matrix has eigenvalues $\lambda \in \{0, -\sqrt{b}, \sqrt{b}, -2\sqrt{b}, 2\sqrt{b}\}$ [...] "
        r"$\mathbf{r}(t) \sim c_1 e^{s\sqrt{b}t} \begin{bmatrix} 1 \\ 0 \\ \sqrt{b} \\ 0 \\ 0 \end{bmatrix} + c_2 "
        r"e^{2s\sqrt{b}t} \begin{bmatrix} a \\ \sqrt{b} \\ a\sqrt{b} \\ b \\ b\sqrt{b} \end{bmatrix}$"
    ),
    latex=r"\lambda = s\sqrt b, 2 s\sqrt b:\; (1, 0, \sqrt b, 0, 0), (a, \sqrt b, a\sqrt b, b, b\sqrt b)",
    setting="small initial weights, any covariance",
    about=("EarlyAnisotropic",),
)
def growing_directions() -> Evidence:
    """Compare with the eigenvectors of the matrix of (23), found numerically, scaled to a common third entry."""
    alpha, b = BETA @ COVARIANCE @ BETA, BETA @ COVARIANCE @ COVARIANCE @ BETA
    root = np.sqrt(b)
    values, vectors = np.linalg.eig(_five_by_five())
    order = [np.argmin(np.abs(values - rate)) for rate in (root, 2 * root)]
    stated = np.array([[1, 0, root, 0, 0], [alpha, root, alpha * root, b, b * root]])
    found = vectors.T.real[order]
    return Evidence(found * (stated[:, 2] / found[:, 2])[:, None], stated)


@formula(
    "B.2",
    "(25)",
    "direction of the kernel late in phase I",
    quote=(
        "the only self consistent solution is $v_1(t) = 0, v_2(t) = b^{-1/2}$. This implies that the kernel "
        r"evolution will take the form [...] $\mathbf{M} = \left[\frac{1}{\sqrt{\boldsymbol{\beta}^\top "
        r"\boldsymbol{\Sigma}^2 \boldsymbol{\beta}}} \boldsymbol{\Sigma} \boldsymbol{\beta} "
        r"\boldsymbol{\beta}^\top \boldsymbol{\Sigma} + \mathbf{I} \right]$"
    ),
    latex=r"M \propto \frac{\Sigma\beta\beta^\top\Sigma}{\beta^\top\Sigma^2\beta} + I",
    verdict="typographical",
    reason="v_2 = b^{-1/2} enters squared",
    setting="small initial weights, any covariance",
    about=("EarlyKernelDirection",),
)
def direction_of_the_kernel() -> Evidence:
    """Compare with the weights of the flow (20), (21) at a late time, by a matrix exponential."""
    b = BETA @ COVARIANCE @ COVARIANCE @ BETA
    a, W = linearized(30 / S / np.sqrt(b), COVARIANCE, eta=1.0)
    spike = np.outer(COVARIANCE @ BETA, COVARIANCE @ BETA)
    return Evidence(kernel(a, W) / (a @ a), spike / b + np.eye(D), spike / np.sqrt(b) + np.eye(D))


FORMULAS = formula.formulas
