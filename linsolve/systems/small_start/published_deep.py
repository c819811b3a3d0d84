"""Atanasov, Bordelon, Pehlevan (2022), section 4 and appendix C: the flow and the kernel of more layers."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from linsolve.core.network import follow
from linsolve.core.published_formula import Evidence, Order, Source

__all__ = ["FORMULAS", "around", "balanced", "each", "kernel", "product", "rotations", "velocities"]

formula = Source("atanasov_2022", "deep linear network, one output, one rate a layer")
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
    "4",
    "(9)",
    "gradient flow",
    quote=(
        r"$\frac{d}{dt}\mathbf{W}^\ell = -\eta_\ell \frac{\partial L}{\partial \mathbf{W}^\ell} = \eta_\ell "
        r"\left(\prod_{\ell' > \ell} \mathbf{W}^{\ell'} \right)^\top (s\beta - \tilde{\mathbf{w}})^\top \Sigma "
        r"\left(\prod_{\ell' < \ell} \mathbf{W}^{\ell'} \right)^\top$"
    ),
    latex=r"\dot W^\ell = \eta_\ell (W^{>\ell})^\top (s\beta - \tilde w)^\top \Sigma (W^{<\ell})^\top",
)
def gradient_flow_of_all_layers() -> Evidence:
    """Compare with the gradient of the mean loss over seven points, by a complex step in every weight."""
    truth = [-rate * g for rate, g in zip(RATES, gradients(mean_loss), strict=True)]
    return Evidence(flat(truth), flat(velocities(GENERIC, RATES, COVARIANCE)))


@formula(
    "C",
    "(29)",
    "motion of the squares of a layer",
    quote=(
        r"$\frac{1}{\eta_\ell} \frac{d}{dt} (\mathbf{W}^\ell \mathbf{W}^{\ell\top}) = \sum_\mu \frac{\partial "
        r"\ell}{\partial f^\mu} \left[\frac{\partial f^\mu}{\partial \mathbf{W}^\ell} \mathbf{W}^{\ell\top} + "
        r"\mathbf{W}^\ell \frac{\partial f^\mu}{\partial \mathbf{W}^\ell}^\top \right]$"
    ),
    latex=(
        r"\frac{1}{\eta_\ell} \frac{d}{dt} W^\ell W^{\ell\top} = -\textstyle\sum_\mu \ell'(f^\mu) \frac{\partial "
        r"f^\mu}{\partial W^\ell} W^{\ell\top} + \mathrm{h.c.}"
    ),
    verdict="typographical",
    reason="gradient flow gives a minus sign on both sides, so that the conservation law (32) is unaffected",
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
    "C",
    "(31)",
    "both sides of the conservation law",
    quote=(
        r"$\mathbf{W}^{\ell+1\top} \frac{\partial f^\mu}{\partial \mathbf{W}^{\ell+1}} = \mathbf{W}^{\ell+1\top} "
        r"(\mathbf{W}^{\ell\top} \dots \mathbf{w}^L) \mathbf{x}^{\mu\top} \mathbf{W}^{1\top} \dots "
        r"\mathbf{W}^{\ell\top}$"
    ),
    latex=(
        r"W^{\ell+1\top} \frac{\partial f}{\partial W^{\ell+1}} = W^{\ell+1\top} (W^{\ell+2\top} \cdots w^L) "
        r"x^\top W^{1\top} \cdots W^{\ell\top}"
    ),
    verdict="typographical",
    reason="the product in brackets starts at layer l + 2, which makes (30) and (31) equal, as the next line says",
)
def both_sides_of_the_law() -> Evidence:
    """Compare with the gradient of the output with respect to the first of three layers, times that layer."""
    first, second, last = GENERIC
    truth = gradients(lambda layers: (product(layers) @ PROBES[0])[0])[0] @ first.T
    shifted = second.T @ (first.T @ second.T @ last.T) @ PROBES[:1] @ first.T
    return Evidence(truth, second.T @ last.T @ PROBES[:1] @ first.T, shifted)


@formula(
    "C",
    "(32); section 4; (55)",
    "the conservation law",
    quote=(
        r"a deep linear network has the following conservation laws $\frac{d}{dt} \left[\frac{1}{\eta_\ell} "
        r"\mathbf{W}^\ell \mathbf{W}^{\ell\top} - \frac{1}{\eta_{\ell+1}} \mathbf{W}^{\ell+1\top} "
        r"\mathbf{W}^{\ell+1} \right] = 0$"
    ),
    latex=(
        r"\frac{1}{\eta_\ell} W^\ell W^{\ell\top} - \frac{1}{\eta_{\ell+1}} W^{\ell+1\top} W^{\ell+1} = "
        r"\mathrm{const}"
    ),
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
    "D",
    "(34)",
    "the tangent kernel",
    quote=(
        r"$K(\mathbf{x}, \mathbf{x}') = \sum_{\ell=1}^L \left\langle \frac{\partial f(\mathbf{x})}{\partial "
        r"\mathbf{W}^\ell}, \frac{\partial f(\mathbf{x}')}{\partial \mathbf{W}^\ell} \right\rangle = \left| "
        r"\prod_{\ell=2}^L \mathbf{W}^\ell \right|^2 \mathbf{x} \cdot \mathbf{x}' + \sum_{\ell=2}^L \left| "
        r"\prod_{\ell'>\ell} \mathbf{W}^{\ell'} \right|^2 \mathbf{x}^\top \mathbf{W}^{1\top} \dots "
        r"\mathbf{W}^{\ell-1\top} \mathbf{W}^{\ell-1} \dots \mathbf{W}^1 \mathbf{x}'$"
    ),
    latex=r"K = \textstyle\sum_\ell |W^{>\ell}|^2\, x^\top (W^{<\ell})^\top W^{<\ell} x'",
)
def tangent_kernel_of_all_layers() -> Evidence:
    """Compare with the product of the gradients of the output at two points, by a complex step."""
    first, second = (flat(gradients(lambda layers, x=x: (product(layers) @ x)[0])) for x in PROBES[[0, 2]])
    return Evidence(first @ second, kernel(GENERIC)[0, 2])


@formula(
    "D",
    "(35), (36); section 4.1, (10)",
    "the tangent kernel of a balanced network",
    quote=(
        r"Under the balanced assumption [...] the kernel takes the form $K(\mathbf{x}, \mathbf{x}') = u(t)^{2L-2} "
        r"\mathbf{x}^\top [B\mathbf{I} + A\mathbf{r}_1(t)\mathbf{r}_1(t)^\top] \mathbf{x}'$ [...] $B = "
        r"\prod_{\ell \neq 1} \frac{\eta_\ell}{\eta_L}, \quad A = \sum_{\ell=2}^L \prod_{\ell' \neq \ell} "
        r"\frac{\eta_{\ell'}}{\eta_L}$"
    ),
    latex=(
        r"K = u^{2L-2} x^\top [A r_1 r_1^\top + B I] x',\; A = \textstyle\sum_{\ell \ge 2} \prod_{k \ne \ell} "
        r"\frac{\eta_k}{\eta_L},\; B = \prod_{\ell \ne 1} \frac{\eta_\ell}{\eta_L}"
    ),
    setting="balanced deep linear network, kernel (34) without rates",
    about=("FinalKernel",),
)
def balanced_kernel() -> Evidence:
    """Compare with the gradients of a balanced network of three layers with three learning rates."""
    share = RATES / RATES[-1]
    A, B = sum(np.prod(np.delete(share, k)) for k in (1, 2)), np.prod(share[1:])
    M = A * np.outer(BETA, BETA) + B * np.eye(D)
    return Evidence(kernel(ALIGNED), U**4 * PROBES @ M @ PROBES.T)


@formula(
    "D",
    "(37)",
    "spike over bulk",
    quote=(
        r"Suppose that all learning rates in the second and higher layers are equal $\eta_2 = \eta_3 = \dots = "
        r"\eta_L = \eta$. In this case, the ratio of the kernel eigenvalues are $\frac{A}{B} = (L-1) "
        r"\frac{\eta_1}{\eta}$"
    ),
    latex=r"A/B = (L - 1)\, \eta_1/\eta\; \text{for } K;\quad L - 1 \text{ for } K_\eta \text{, which drives } \dot f",
    setting="balanced deep linear network, kernel (34) without rates",
    about=("FinalKernel",),
)
def spike_over_bulk() -> Evidence:
    """Compare with the kernels of a balanced network with and without rates, along and orthogonal to the target."""
    rates = np.array([0.6, 1.7, 1.7])
    layers = balanced(np.array([U]), np.ones((1, 1)), BETA[:, None], rates)
    plain, driving = kernel(layers), kernel(layers, rates)
    return Evidence([K[0, 0] / K[1, 1] - 1 for K in (plain, driving)], [2 * 0.6 / 1.7, 2])


def _speeds(sigma: float) -> tuple[float, ...]:
    """Return ``|d/dt grad f|``, ``|grad f|``, ``|dL/dt|``, ``L`` and ``|y|`` on four orthonormal inputs."""
    layers = [sigma * layer for layer in GENERIC]
    velocity = velocities(layers, np.ones(3), np.eye(D))

    def jacobian(given: Any) -> Any:
        parts = zip(each(given), strict=True)
        return np.concatenate(
            [np.einsum("i,jk->kij", after[0], before).reshape(D, -1) for ((after, before),) in parts], 1
        )

    moved = [layer + 1e-30j * v for layer, v in zip(layers, velocity, strict=True)]
    error = S * BETA - product(layers)[0]
    falls = error @ product(moved)[0].imag / 1e-30
    speed = np.linalg.norm(jacobian(moved).imag) / 1e-30
    found = speed, np.linalg.norm(jacobian(layers)), abs(falls), error @ error / 2, S
    return tuple(map(float, found))


@formula(
    "H",
    "(60)-(62)",
    "speed of the features relative to the loss",
    quote=(
        r"Under a scaling of $\mathbf{f} \sim O(\sigma^L)$ we find $\frac{\left| \frac{d}{dt} "
        r"\nabla_{\boldsymbol{\theta}} \mathbf{f}(\boldsymbol{\theta}) \right|}{|\nabla \mathbf{f}|} "
        r"\frac{\mathcal{L}}{\left| \frac{d}{dt} \mathcal{L} \right|} \approx \frac{|\nabla^2 \mathbf{f}| "
        r"\mathcal{L}}{|\nabla \mathbf{f}|^2} = O(\sigma^{-L})$"
    ),
    latex=r"\frac{|\dot{\nabla f}|}{|\nabla f|} \frac{\mathcal L}{|\dot{\mathcal L}|} = O(\sigma^{-L})",
    verdict="leading order",
    reason="order -L in sigma, as printed; the factor |y| that (61) drops does not change it",
    setting="homogeneous networks, small initial weights, targets of order 1",
    about=("KernelSpeed",),
    tolerance=0.005,
)
def laziness_of_small_networks() -> Order:
    """Compare with the quotient on the left at three layers, derivatives by a complex step, at two sizes."""
    scales, found = (1e-2, 1e-3), []
    for sigma in scales:
        speed, gradient, falls, loss, _ = _speeds(sigma)
        found.append(speed / gradient * loss / falls)
    return Order(scales, found, -3)


@formula(
    "5",
    "(11)",
    "the same quotient in the main text",
    quote=(
        r"$\frac{|\frac{d}{dt}\nabla f|}{|\nabla f|} \frac{\mathcal{L}}{|\frac{d}{dt}\mathcal{L}|} \approx "
        r"\frac{|\nabla^2 f|}{\mathcal{L}|\nabla f|^2} = O(\sigma^{-L})$"
    ),
    latex=r"\frac{|\nabla^2 f| \mathcal L}{|\nabla f|^2}",
    verdict="typographical",
    reason="(60) and (61) give (62), with the loss in the numerator; the order in sigma is the same",
    setting="homogeneous networks, small initial weights, targets of order 1",
    about=("KernelSpeed",),
)
def laziness_in_the_main_text() -> Evidence:
    """Compare with the quotient of the right sides of (60) and (61), with norms taken from a network."""
    speed, gradient, _, loss, y = _speeds(0.1)
    hessian = speed / (gradient * y)  # in place of its norm
    left = hessian * gradient * y / gradient * loss / (y * gradient**2)
    return Evidence(left, hessian * loss / gradient**2, hessian / (loss * gradient**2))


FORMULAS = formula.formulas
