"""Atanasov, Bordelon, Pehlevan (2022), section 4 and appendices C to I: more layers, outputs, transfer."""

from __future__ import annotations

from functools import cache, reduce
from typing import Any

import numpy as np

from linsolve.errata.formula import Evidence, Source

__all__ = ["FORMULAS"]

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


def _around(layers: Any, k: int) -> tuple[Any, Any]:
    """Return the products of the layers after and before layer k."""
    after = product(layers[k + 1 :]) if k + 1 < len(layers) else np.eye(len(layers[k]))
    return after, product(layers[:k]) if k else np.eye(layers[0].shape[1])


def _velocities(layers: Any, rates: Any, covariance: Any) -> list[Any]:
    """Return the velocities (9) of all layers."""
    error = (S * BETA - product(layers)) @ covariance
    return [rate * after.T @ error @ before.T for rate, (after, before) in zip(rates, each(layers), strict=True)]


def each(layers: Any) -> list[tuple[Any, Any]]:
    return [_around(layers, k) for k in range(len(layers))]


def _kernel(layers: Any, weights: Any = None, x: Any = PROBES) -> Any:
    """Return the sum over layers of products of gradients of the one output at all pairs of points."""
    weights = np.ones(len(layers)) if weights is None else weights
    parts = zip(weights, each(layers), strict=True)
    return sum(w * (after @ after.T)[0, 0] * (x @ before.T @ before @ x.T) for w, (after, before) in parts)


def rotations(depth: int, width: int) -> list[Any]:
    rng = np.random.default_rng(10 * depth + width)
    return [np.linalg.qr(rng.standard_normal((width, width)))[0] for _ in range(depth)]


def balanced(strengths: Any, out: Any, into: Any, rates: Any) -> list[Any]:
    """Return layers balanced as in (33), (53): strengths u_a, singular vectors of the map, generic ones between."""
    depth, modes = len(rates), len(strengths)
    frames = [into, *(Q[:, :modes] for Q in rotations(depth - 1, D)), out]
    scales = np.sqrt(rates / rates[-1])
    return [c * (frames[k + 1] * strengths) @ frames[k].T for k, c in enumerate(scales)]


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
    """Compare with derivative of the mean loss over seven points by every weight, through a complex step."""
    y, truth = S * X @ BETA, []
    for k, layer in enumerate(GENERIC):
        for at in np.ndindex(layer.shape):
            moved = [each.astype(complex) for each in GENERIC]
            moved[k][at] += 1e-30j
            truth.append(-RATES[k] * (np.mean((X @ product(moved)[0] - y) ** 2) / 2).imag / 1e-30)
    return Evidence(truth, np.concatenate([v.ravel() for v in _velocities(GENERIC, RATES, COVARIANCE)]))


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
    after, before = _around(GENERIC, k)
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
        return np.concatenate([v.ravel() for v in _velocities(unpack(z), RATES, COVARIANCE)])

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

    return Evidence(gradient(PROBES[0]) @ gradient(PROBES[2]), _kernel(GENERIC)[0, 2])


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
    return Evidence(_kernel(ALIGNED), U**4 * PROBES @ M @ PROBES.T)


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
    plain, driving = _kernel(layers), _kernel(layers, rates)
    return Evidence([K[0, 0] / K[1, 1] - 1 for K in (plain, driving)], [2 * 0.6 / 1.7, 2])


@formula(
    "(38)",
    "motion of a balanced layer",
    r"\hat w\, \dot u = u^{L-1} (s - u^L)\, \hat w",
    printed=r"\hat w\, \dot u = u^{2L-2} (s - u^L)\, \hat w",
    about=("DeepMode",),
)
def motion_of_a_layer() -> Evidence:
    """Compare with velocity of the last layer of a balanced network under (9), along itself."""
    velocity = _velocities(EVEN, np.ones(3), np.eye(D))[-1][0]
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
    """Compare with velocity of the output of a balanced network, from those of its layers under (9)."""
    moved = [layer + 1e-30j * v for layer, v in zip(EVEN, _velocities(EVEN, np.ones(3), np.eye(D)), strict=True)]
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
    """Compare with time of the growth from 1e-9 to 1e-6 at depth 4, by quadrature."""
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
    """Compare with time to half of the rise from sigma^3 at depth 3, by quadrature."""
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
    """Compare with time to half of the rise from sigma^3 at depth 3, by quadrature."""
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
    """Compare with derivative of the ratio along the velocities (9) of a generic network, through a complex step."""
    velocity = _velocities(GENERIC, np.ones(3), np.eye(D))[0]
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
    about=("FinalKernel",),
)
def final_kernel() -> Evidence:
    """Compare with gradients of a balanced network of three layers whose map is s beta."""
    M = PROBES @ (2 * np.outer(BETA, BETA) + np.eye(D)) @ PROBES.T
    return Evidence(_kernel(FINAL), S ** (4 / 3) * M, S**4 * M)


@formula(
    "(43)",
    "kernels of the activations",
    r"K_\ell = s^{2\ell/L} x^\top \beta\beta^\top x'",
    condition=r"balanced, converged; error $O(\sigma^2)$ at every $\ell$",
    about=("LayerKernels",),
)
def kernels_of_the_activations() -> Evidence:
    """Compare with activations of a balanced network of three layers whose map is s beta, after two of them."""
    h = PROBES @ product(FINAL[:2]).T
    return Evidence(h @ h.T, S ** (4 / 3) * np.outer(PROBES @ BETA, PROBES @ BETA))


@formula(
    "after (43)",
    "the same on the training set",
    r"K_\ell = s^{2\ell/L - 2} y y^\top",
    printed=r"K_\ell = (y y^\top)^{\ell/L}",
    about=("LayerKernels",),
)
def activations_on_the_training_set() -> Evidence:
    """Compare with activations of that network on white inputs; a matrix power from its one eigenvector."""
    white = 2 * np.linalg.qr(np.random.default_rng(1).standard_normal((4, 4)))[0]
    h, y = white @ product(FINAL[:2]).T, S * white @ BETA
    return Evidence(h @ h.T, S ** (4 / 3 - 2) * np.outer(y, y), np.outer(y, y) * (y @ y) ** (2 / 3 - 1))


FORMULAS = formula.formulas
