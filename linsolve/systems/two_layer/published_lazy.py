"""Geiger, Spigler, Jacot, Wyart (2020): lazy training, and fluctuations, of linear networks."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from linsolve.core.published_formula import Evidence, Source

__all__ = ["BOTH", "FORMULAS", "RHO", "Y", "kernel_change", "trained", "weight_change"]

formula = Source("geiger_2020", "one hidden layer, linear, square loss, in place of three Softplus layers")
Y, RHO = 1.3, 0.8
BOTH = ("LazyTraining", "LazyTwoLayer")


@cache
def trained(h: int, alpha: float, loss: float | None = None) -> tuple[float, Any, Any, Any, Any]:
    """Return the time and all weights at the end, or when the loss has fallen to a share, and the initial weights.

    The initial layers are orthogonal and of equal length sqrt(h), the limit of Gaussian layers at large width.
    """
    from scipy.integrate import solve_ivp

    u0 = np.tile([1.0, 1.0], h // 2)
    w0 = np.tile([1.0, -1.0], h // 2)
    gamma = h**-0.5

    def residual(z: Any) -> float:
        return alpha * gamma * RHO * (z[:h] @ z[h:] - u0 @ w0) - Y

    def rate(_: float, z: Any) -> Any:
        pull = -2 / alpha * residual(z) * gamma * RHO
        return pull * np.concatenate([z[h:], z[:h]])

    def reached(_: float, z: Any) -> float:
        return residual(z) ** 2 / Y**2 - (loss or 0)

    reached.terminal = loss is not None  # type: ignore[attr-defined]
    strength = Y / (RHO * h**0.5 * alpha)
    span = 12 / (4 * RHO**2 * np.sqrt(1 + strength**2)) * (1 + np.log1p(strength))
    z0 = np.concatenate([u0, w0])
    events = reached if loss is not None else None
    found = solve_ivp(rate, (0, span), z0, "DOP853", rtol=1e-13, atol=1e-15, events=events)
    return found.t[-1], found.y[:h, -1], found.y[h:, -1], u0, w0


def kernel_change(h: int, alpha: float) -> float:
    """Return the relative change of the tangent kernel at the end of training."""
    _, u, w, u0, w0 = trained(h, alpha)
    start = u0 @ u0 + w0 @ w0
    # a difference of squares as a product, so that small changes keep their digits
    return float(((u - u0) @ (u + u0) + (w - w0) @ (w + w0)) / start)


def weight_change(h: int, alpha: float) -> float:
    """Return the distance of the weights from their start at the end of training, relative to their size."""
    _, u, w, u0, w0 = trained(h, alpha)
    return float(np.sqrt((np.sum((u - u0) ** 2) + np.sum((w - w0) ** 2)) / (u0 @ u0 + w0 @ w0)))


@formula(
    "2",
    "below (7)",
    "scaling the output keeps lazy times",
    quote=(
        r"The prefactor $\alpha^{-2}$ ensures that the convergence time does not depend on $\alpha$ as $\alpha "
        r"\rightarrow \infty$"
    ),
    latex=(
        r"\mathcal L = \tfrac{1}{\alpha^2 n} \textstyle\sum \ell(\alpha (f - f_0), y):\; t_{1/2} \to \frac{\log "
        r"2}{8 \rho^2}"
    ),
    about=("LazyRegime", *BOTH),
    tolerance=1e-6,
)
def lazy_time() -> Evidence:
    """Compare with numerically integrated weights at half of the initial loss, at two scales of the output."""
    return Evidence([trained(4, alpha, 0.5)[0] for alpha in (1e4, 1e5)], np.log(2) / 8 / RHO**2 * np.ones(2))


@formula(
    "6",
    "below (23)",
    "crossover of the regimes",
    quote=r"Thus $\alpha^* \sim 1/\sqrt{h}$, as proposed for a single layer in (Chizat and Bach, 2019)",
    latex=r"\alpha^* = \frac{|y|}{\sqrt3\, \rho \sqrt h} \sim h^{-1/2}",
    about=BOTH,
    tolerance=1e-8,
)
def where_the_regimes_meet() -> Evidence:
    """Compare with kernels of numerically integrated weights, at three widths."""
    return Evidence([kernel_change(h, Y / (RHO * np.sqrt(3 * h))) for h in (4, 16, 64)], np.ones(3))


@formula(
    "5",
    "after (18)",
    "the kernel in lazy training",
    quote=(
        r"By contrast in the lazy-training regime $\|\Theta(w) - \Theta(w_0)\|/\|\Theta(w_0)\| \sim "
        r"1/(\sqrt{h}\alpha)$, as expected for what concerns the dependency in $h$"
    ),
    latex=(
        r"\Delta\Theta/\Theta_0 \sim \frac{1}{h \alpha},\; \alpha \gg 1;\quad \Delta\Theta/\Theta_0 \sim "
        r"\frac{1}{h \alpha^2},\; h \to \infty \text{ at fixed } \sqrt h\, \alpha"
    ),
    verdict="holds under a condition",
    reason=(
        "At fixed width the change falls as 1/alpha, as printed. In h it falls as 1/h, not 1/sqrt(h) (measured with "
        "Softplus units of one hidden layer; the images and the depth of the source were not used). For linear units "
        "at infinite width it falls as 1/(sqrt(h) alpha)^2"
    ),
    setting="one hidden layer, square loss, one input: linear units, and the Softplus (10)",
    about=("LazyRegime", "FixedWidthKernelChange"),
    tolerance=0.01,
)
def kernel_of_lazy_training() -> Evidence:
    """Compare with trained kernels: of a draw and of the infinite-width start at two scales, of Softplus at two widths.

    The kernel of Softplus moves by its derivative along the weights that lazy training reaches, by a complex step.
    """
    balanced = [kernel_change(4, alpha / 2) for alpha in (1e2, 1e3)]
    u, w = np.random.default_rng(2).standard_normal((2, 8))
    drawn = []
    for alpha in (1e4, 1e5):
        a = _final_scale((w + u) / 2, (w - u) / 2, alpha)
        ends = (w + u) / 2 * np.sqrt(a), (w - u) / 2 / np.sqrt(a)
        drawn.append(abs(2 * np.sum(ends[0] ** 2 + ends[1] ** 2) / (u @ u + w @ w) - 1))
    wide = np.log(_softplus_change(256) / _softplus_change(16)) / np.log(16)
    return Evidence([*(np.log10(found[1] / found[0]) for found in (drawn, balanced)), wide], [-1, -2, -1])


def _softplus_change(h: int) -> float:
    """Return the first change of the kernel times alpha, relative to its mean, as a root mean square over draws."""
    c, z = np.random.default_rng(h).standard_normal((2, 160_000 // h, h))

    def parts(c: Any, z: Any) -> tuple[Any, Any]:
        grown = np.exp(5 * z)
        value, slope = 1.404 * np.log(1 + grown) / 5, 1.404 * grown / (1 + grown)
        return value / h**0.5, c * slope / h**0.5  # gradients by c and by z

    kernel = np.sum(np.square(parts(c, z)), axis=(0, 2))
    along = [part / kernel[:, None] for part in parts(c, z)]
    moved = parts(c + 1e-30j * along[0], z + 1e-30j * along[1])
    change = np.sum(np.square(moved), axis=(0, 2)).imag / 1e-30
    return float(np.sqrt(np.mean(change**2)) / np.mean(kernel))


def _final_scale(p: Any, q: Any, alpha: float) -> Any:
    """Return the factor by which training multiplies p^2 and divides q^2, from alpha h^-1/2 rho (f - f_0) = y."""
    P, Q = np.sum(p**2, axis=-1), np.sum(q**2, axis=-1)
    target = P - Q + Y * p.shape[-1] ** 0.5 / (RHO * alpha)
    root = np.sqrt(target**2 + 4 * P * Q)
    return np.where(target > 0, (target + root) / (2 * P), 2 * Q / (root - target))


@formula(
    "B",
    "(29)",
    "weights in lazy training",
    quote=(
        r"We find: $\frac{\|w - w_0\|}{\|w_0\|} \sim \frac{1}{h\alpha}$ in the lazy-training regime. [...] "
        r"jointly implying that the $\mathcal{O}(h^2)$ internal weights evolve by $\mathcal{O}(1/(h\alpha))$"
    ),
    latex=r"|\Delta w|/|w_0| \sim \frac{1}{h \alpha}\; (L \ge 2),\; \frac{1}{\sqrt h\, \alpha}\; (L = 1)",
    verdict="leading order",
    reason=(
        "order -1 in h, as printed, for two or more hidden layers, whose h^2 internal weights the source counts; with "
        "one hidden layer it is 1/(sqrt(h) alpha)"
    ),
    setting="linear networks at their kernel limit",
    about=("LazyRegime",),
    tolerance=0.02,
)
def weights_of_lazy_training() -> Evidence:
    """Compare with the smallest changes that reach the target in drawn networks of two hidden layers, and at L = 1."""
    widths = 200, 800
    changes = [np.mean([_lazy_change(h, seed) for seed in range(10)]) for h in widths]
    deep = np.log(changes[1] / changes[0]) / np.log(4)
    shallow = np.log(weight_change(64, 1e3) / weight_change(4, 1e3)) / np.log(16)
    return Evidence([deep, shallow], [-1, -0.5])


def _lazy_change(h: int, seed: int) -> float:
    """Return ``|w - w_0|/|w_0|`` over y/alpha of a drawn linear network of two hidden layers, by its kernel."""
    rng = np.random.default_rng(seed)
    first, middle, last = rng.standard_normal((h, 1)), rng.standard_normal((h, h)), rng.standard_normal(h)
    back, forward = last @ middle, middle @ first[:, 0]
    kernel = back @ back / h**2 + (last @ last) * (first[:, 0] @ first[:, 0]) / h**2 + forward @ forward / h**2
    return float(1 / np.sqrt(kernel) / np.sqrt(np.sum(first**2) + np.sum(middle**2) + last @ last))


@formula(
    "4",
    "(17)",
    "variance of the output over initial weights",
    quote=(
        r"In both cases we find the same decay with the network width: $\text{Var } \alpha [f(w, x) - f(w_0, x)] "
        r"\sim h^{-1}$"
    ),
    latex=r"\operatorname{Var} \alpha [f - f_0] \sim h^{-1}",
    verdict="leading order",
    reason="order -1 in h, as printed, in both regimes",
    setting="one hidden layer, linear, one training point, sqrt(h) alpha fixed, lazy and feature training",
    about=("LazyFluctuations",),
    tolerance=0.02,
)
def variance_of_the_output() -> Evidence:
    """Compare with the variance at another input over many draws trained to their end, at two widths and two scales."""
    orders = []
    for scale in (1e3, 1e-3):
        found = []
        for h in (64, 1024):
            u, w = np.random.default_rng(h).standard_normal((2, 1_280_000 // h, h))
            p, q, alpha = (w + u) / 2, (w - u) / 2, scale / h**0.5
            a = np.sqrt(_final_scale(p, q, alpha))[:, None]
            # the first layer across the data keeps its standard normal weights
            found.append(alpha**2 / h * np.mean(np.sum((p * a - q / a - u) ** 2, axis=1)))
        orders.append(np.log(found[1] / found[0]) / np.log(16))
    return Evidence(orders, [-1, -1])


@formula(
    "6",
    "(22)",
    "velocity of the preactivations",
    quote=(
        r"Proceeding recursively from the input to the output we obtain: $\dot{z}^\ell = "
        r"\mathcal{O}\left(\frac{1}{\sqrt{h}\alpha}\right)$"
    ),
    latex=r"\dot{\tilde z}^\ell = O\Bigl(\frac{1}{\sqrt h\, \alpha}\Bigr)",
    verdict="leading order",
    reason="order -1/2 in h, as printed, in every layer",
    setting="linear network of three hidden layers, Gaussian weights",
    tolerance=0.05,
)
def velocity_of_the_preactivations() -> Evidence:
    """Compare with the velocities of drawn networks on one input, layer by layer, at two widths."""
    sizes = []
    for h in (64, 384):
        squares = np.zeros(3)
        for seed in range(80):
            rng = np.random.default_rng(seed)
            z = [rng.standard_normal(h)]
            middle, last = rng.standard_normal((2, h, h)), rng.standard_normal(h)
            for layer in middle:
                z.append(layer @ z[-1] / h**0.5)
            back = [last / h**0.5]
            for layer in middle[::-1]:
                back.insert(0, back[0] @ layer / h**0.5)
            moved = [back[0]]  # W^0 moves along the gradient, at alpha = 1
            for k, layer in enumerate(middle):
                moved.append((layer @ moved[-1] + back[k + 1] * (z[k] @ z[k]) / h**0.5) / h**0.5)
            squares += [np.mean(each**2) for each in moved]
        sizes.append(np.sqrt(squares))
    return Evidence(np.log(sizes[1] / sizes[0]) / np.log(6), -0.5 * np.ones(3))


FORMULAS = formula.formulas
