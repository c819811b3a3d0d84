"""Geiger, Spigler, Jacot, Wyart (2020): lazy and feature training of linear networks with one hidden layer."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from linsolve.core.published_formula import Evidence, Order, Source

__all__ = ["FORMULAS"]

formula = Source("geiger_2020")
Y, RHO = 1.3, 0.8
BOTH = ("LazyTraining", "LazyTwoLayer")


@cache
def _trained(h: int, alpha: float, loss: float | None = None) -> tuple[float, Any, Any, Any, Any]:
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


def _kernel_change(h: int, alpha: float) -> float:
    _, u, w, u0, w0 = _trained(h, alpha)
    start = u0 @ u0 + w0 @ w0
    # a difference of squares as a product, so that small changes keep their digits
    return float(((u - u0) @ (u + u0) + (w - w0) @ (w + w0)) / start)


def _weight_change(h: int, alpha: float) -> float:
    _, u, w, u0, w0 = _trained(h, alpha)
    return float(np.sqrt((np.sum((u - u0) ** 2) + np.sum((w - w0) ** 2)) / (u0 @ u0 + w0 @ w0)))


@formula(
    "(7)",
    "scaling the output keeps lazy times",
    r"\mathcal L = \tfrac{1}{\alpha^2 n} \textstyle\sum \ell(\alpha (f - f_0), y):\; t_{1/2} \to \frac{\log "
    r"2}{8 \rho^2}",
    condition=r"$\sqrt h\, \alpha \to \infty$; square loss",
    about=("LazyRegime", *BOTH),
    tolerance=1e-6,
)
def lazy_time() -> Evidence:
    """Compare with numerically integrated weights at half of the initial loss, at two scales of the output."""
    return Evidence([_trained(4, alpha, 0.5)[0] for alpha in (1e4, 1e5)], np.log(2) / 8 / RHO**2 * np.ones(2))


@formula(
    "sec. 6",
    "crossover of the regimes",
    r"\alpha^* = \frac{|y|}{\sqrt3\, \rho \sqrt h} \sim h^{-1/2}",
    condition="one hidden layer, linear; kernel doubled",
    about=BOTH,
    tolerance=1e-8,
)
def where_the_regimes_meet() -> Evidence:
    """Compare with kernels of numerically integrated weights, at three widths."""
    return Evidence([_kernel_change(h, Y / (RHO * np.sqrt(3 * h))) for h in (4, 16, 64)], np.ones(3))


@formula(
    "(18), (24)",
    "the kernel in feature training",
    r"\Delta K/K_0 \sim (\sqrt h\, \alpha)^{-a},\; a = \tfrac{2}{1 + 1/L}",
    condition="order 1 at L = 1, linear",
    about=("FeatureRegime", *BOTH),
    tolerance=5e-3,
    expansion=True,
)
def kernel_of_feature_training() -> Order:
    """Compare with kernels of numerically integrated weights, at two scales of the output."""
    scales = 2e-4, 2e-5
    return Order(scales, [_kernel_change(4, alpha / 2) for alpha in scales], -2 / (1 + 1))


@formula(
    "after (18)",
    "the kernel in lazy training",
    r"\Delta K/K_0 \sim (\sqrt h\, \alpha)^{-2}\; (h \to \infty,\, L = 1,\, \text{linear})",
    printed=r"\Delta K/K_0 \sim (\sqrt h\, \alpha)^{-1}",
    about=("LazyRegime", "FixedWidthKernelChange"),
    tolerance=5e-3,
    elsewhere=True,
)
def kernel_of_lazy_training() -> Order:
    """Compare with kernels of numerically integrated weights, at two scales of the output."""
    scales = 1e2, 1e3
    return Order(scales, [_kernel_change(4, alpha / 2) for alpha in scales], -2, -1)


@formula(
    "(19)",
    "half time in feature training",
    r"t_{1/2} = \frac{\sqrt h\, \alpha}{4 \rho |y|} \log\Bigl[2 (\sqrt2 - 1) \frac{|y|}{\rho \sqrt h\, "
    r"\alpha}\Bigr]",
    printed=r"t_{1/2} \sim \sqrt h\, \alpha",
    about=("FeatureRegime",),
    tolerance=1e-3,
    elsewhere=True,
)
def half_time_of_feature_training() -> Evidence:
    """Compare with the ratio of half times of numerically integrated weights, at two scales of the output."""
    scales = np.array([2e-3, 2e-5])
    times = [_trained(4, alpha / 2, 0.5)[0] for alpha in scales]
    logs = np.log(2 * (np.sqrt(2) - 1) * Y / (RHO * scales))
    ratio = scales[0] / scales[1]
    return Evidence(times[0] / times[1], ratio * logs[0] / logs[1], ratio)


@formula(
    "(29)",
    "weights in lazy training",
    r"|\Delta w|/|w_0| \sim \frac{1}{\sqrt h\, \alpha}\; (L = 1)",
    printed=r"|\Delta w|/|w_0| \sim \frac{1}{h \alpha}",
    about=("LazyRegime",),
    tolerance=4e-3,
    elsewhere=True,
)
def weights_of_lazy_training() -> Order:
    """Compare with numerically integrated weights, at two widths."""
    return Order((4, 64), [_weight_change(h, 1e3) for h in (4, 64)], -0.5, -1)


@formula(
    "(30)",
    "weights in feature training",
    r"|\Delta w|/|w_0| \sim (\sqrt h\, \alpha)^{-1/(L + 1)}\; (L = 1)",
    printed=r"|\Delta w|/|w_0| \sim (\sqrt h\, \alpha)^{-1/(L + 1)}/\sqrt h",
    about=("FeatureRegime",),
    tolerance=4e-3,
    elsewhere=True,
)
def weights_of_feature_training() -> Order:
    """Compare with numerically integrated weights, at two widths and one value of sqrt(h) alpha."""
    return Order((4, 64), [_weight_change(h, 1e-3 / h**0.5) for h in (4, 64)], 0, -0.5)


@formula(
    "(30), exponent",
    "the exponent b",
    r"b = \tfrac{1}{L + 1}",
    condition="order 1/2 at L = 1, linear",
    about=("FeatureRegime",),
    tolerance=6e-3,
    expansion=True,
)
def exponent_of_the_weights() -> Order:
    """Compare with numerically integrated weights, at two scales of the output."""
    scales = 2e-5, 2e-6
    return Order(scales, [_weight_change(4, alpha / 2) for alpha in scales], -0.5)


FORMULAS = formula.formulas
