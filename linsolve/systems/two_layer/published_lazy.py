"""Geiger, Spigler, Jacot, Wyart (2020): lazy and feature training of linear networks with one hidden layer."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from linsolve.core.published_formula import Evidence, Order, Source

__all__ = ["FORMULAS"]

formula = Source("geiger_2020", "one hidden layer, linear, square loss, in place of three Softplus layers")
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
    "2",
    "(7)",
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
    return Evidence([_trained(4, alpha, 0.5)[0] for alpha in (1e4, 1e5)], np.log(2) / 8 / RHO**2 * np.ones(2))


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
    return Evidence([_kernel_change(h, Y / (RHO * np.sqrt(3 * h))) for h in (4, 16, 64)], np.ones(3))


@formula(
    "6",
    "(24); section 5, (18)",
    "the kernel in feature training",
    quote=(
        r"leading to an overall inflation of the kernel: $\Theta(t_2) - \Theta(0) \sim \Theta(t_2) \sim "
        r"\lambda^{2L} \sim [\alpha\sqrt{h}]^{-\frac{2}{1+1/L}}$"
    ),
    latex=r"\Delta K/K_0 \sim (\sqrt h\, \alpha)^{-a},\; a = \tfrac{2}{1 + 1/L}",
    verdict="leading order",
    reason="order -1 at L = 1, as printed",
    about=("FeatureRegime", *BOTH),
    tolerance=5e-3,
)
def kernel_of_feature_training() -> Order:
    """Compare with kernels of numerically integrated weights, at two scales of the output."""
    scales = 2e-4, 2e-5
    return Order(scales, [_kernel_change(4, alpha / 2) for alpha in scales], -2 / (1 + 1))


@formula(
    "5",
    "after (18)",
    "the kernel in lazy training",
    quote=(
        r"By contrast in the lazy-training regime $\|\Theta(w) - \Theta(w_0)\|/\|\Theta(w_0)\| \sim "
        r"1/(\sqrt{h}\alpha)$, as expected for what concerns the dependency in $h$"
    ),
    latex=(
        r"\Delta\Theta/\Theta_0 \sim (\sqrt h\, \alpha)^{-1};\; (\sqrt h\, \alpha)^{-2} \text{ for linear units, "
        r"} h \to \infty"
    ),
    verdict="holds under a condition",
    reason=(
        "the first derivative of the kernel does not vanish: nonlinear units, as in the source, or finite width; "
        "for linear units at infinite width it vanishes and the order is -2"
    ),
    about=("LazyRegime", "FixedWidthKernelChange"),
    tolerance=5e-3,
)
def kernel_of_lazy_training() -> Evidence:
    """Compare with the orders of kernels at the end of training, from the infinite-width start and from a draw."""
    balanced = [_kernel_change(4, alpha / 2) for alpha in (1e2, 1e3)]
    u, w = np.random.default_rng(2).standard_normal((2, 8))
    drawn = []
    for alpha in (1e4, 1e5):
        a = _final_scale((w + u) / 2, (w - u) / 2, alpha)
        ends = (w + u) / 2 * np.sqrt(a), (w - u) / 2 / np.sqrt(a)
        drawn.append(abs(2 * np.sum(ends[0] ** 2 + ends[1] ** 2) / (u @ u + w @ w) - 1))
    return Evidence([np.log10(found[1] / found[0]) for found in (drawn, balanced)], [-1, -2])


def _final_scale(p: Any, q: Any, alpha: float) -> Any:
    """Return the factor by which training multiplies p^2 and divides q^2, from alpha h^-1/2 rho (f - f_0) = y."""
    P, Q = np.sum(p**2, axis=-1), np.sum(q**2, axis=-1)
    target = P - Q + Y * p.shape[-1] ** 0.5 / (RHO * alpha)
    root = np.sqrt(target**2 + 4 * P * Q)
    return np.where(target > 0, (target + root) / (2 * P), 2 * Q / (root - target))


@formula(
    "5",
    "(19)",
    "half time in feature training",
    quote=r"in the feature-training regime: $t_{\mathcal{L}/2} \sim \sqrt{h}\alpha$",
    latex=(
        r"t_{1/2} \sim \sqrt h\, \alpha\; (L \ge 2);\; L = 1:\; \frac{\sqrt h\, \alpha}{4 \rho |y|} \log\Bigl[2 "
        r"(\sqrt2 - 1) \frac{|y|}{\rho \sqrt h\, \alpha}\Bigr]"
    ),
    verdict="holds under a condition",
    reason=(
        "two or more hidden layers, as in the source, whose weights grow in a finite time; with one hidden layer "
        "growth is exponential and a logarithm multiplies"
    ),
    about=("FeatureRegime", "DeepFeatureRegime"),
    tolerance=1e-3,
)
def half_time_of_feature_training() -> Evidence:
    """Compare with ratios of half times at two scales: of integrated layers and, at L = 2, three balanced ones."""
    scales = np.array([2e-3, 2e-5])
    times = [_trained(4, alpha / 2, 0.5)[0] for alpha in scales]
    logs = np.log(2 * (np.sqrt(2) - 1) * Y / (RHO * scales))
    deep = [_time_of_three_layers(1 / alpha) for alpha in (1e-12, 1e-14)]
    ratio = scales[0] / scales[1]
    return Evidence([deep[0] / deep[1] / 100, times[0] / times[1] / ratio], [1.0, logs[0] / logs[1]], [1.0, 1.0])


def _time_of_three_layers(target: float) -> float:
    """Return half-loss time over the target's scale of three equal layers that start at 1 and reach it."""
    from scipy.integrate import quad

    # c' = 3 c^(4/3) (target - c)/target in units of t_1, from c = 1
    end = target * (1 - np.sqrt(0.5))
    found = quad(
        lambda x: np.exp(-x / 3) / (3 * (1 - np.exp(x) / target)), 0, np.log(end), epsabs=0, epsrel=1e-12, limit=400
    )
    return float(found[0]) / target


@formula(
    "B",
    "(29)",
    "weights in lazy training",
    quote=(
        r"We find: $\frac{\|w - w_0\|}{\|w_0\|} \sim \frac{1}{h\alpha}$ in the lazy-training regime. [...] "
        r"jointly implying that the $\mathcal{O}(h^2)$ internal weights evolve by $\mathcal{O}(1/(h\alpha))$"
    ),
    latex=r"|\Delta w|/|w_0| \sim \frac{1}{h \alpha}\; (L \ge 2),\; \frac{1}{\sqrt h\, \alpha}\; (L = 1)",
    verdict="holds under a condition",
    reason=(
        "two or more hidden layers, as in the source, whose h^2 internal weights dominate the norm; with one "
        "hidden layer it is 1/(sqrt(h) alpha)"
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
    shallow = np.log(_weight_change(64, 1e3) / _weight_change(4, 1e3)) / np.log(16)
    return Evidence([deep, shallow], [-1, -0.5])


def _lazy_change(h: int, seed: int) -> float:
    """Return ``|w - w_0|/|w_0|`` over y/alpha of a drawn linear network of two hidden layers, by its kernel."""
    rng = np.random.default_rng(seed)
    first, middle, last = rng.standard_normal((h, 1)), rng.standard_normal((h, h)), rng.standard_normal(h)
    back, forward = last @ middle, middle @ first[:, 0]
    kernel = back @ back / h**2 + (last @ last) * (first[:, 0] @ first[:, 0]) / h**2 + forward @ forward / h**2
    return float(1 / np.sqrt(kernel) / np.sqrt(np.sum(first**2) + np.sum(middle**2) + last @ last))


@formula(
    "B",
    "(30)",
    "weights in feature training",
    quote=(
        r"$\frac{\|w - w_0\|}{\|w_0\|} \sim \frac{(\sqrt{h}\alpha)^{-b}}{\sqrt{h}}$ in the feature-training "
        r"regime [...] as follows from the $\mathcal{O}(h^2)$ internal weights evolving by "
        r"$\mathcal{O}(1/\sqrt{h})$ on the time scale $t_1$"
    ),
    latex=r"|\Delta w|/|w_0| \sim (\sqrt h\, \alpha)^{-b}/\sqrt h\; (L \ge 2),\; (\sqrt h\, \alpha)^{-b}\; (L = 1)",
    verdict="holds under a condition",
    reason="two or more hidden layers, as in the source; without internal weights the denominator sqrt(h) is absent",
    about=("FeatureRegime",),
    tolerance=4e-3,
)
def weights_of_feature_training() -> Order:
    """Compare with integrated weights of one hidden layer, at two widths and one value of sqrt(h) alpha."""
    return Order((4, 64), [_weight_change(h, 1e-3 / h**0.5) for h in (4, 64)], 0, -0.5)


@formula(
    "B",
    "(30), exponent",
    "the exponent b",
    quote=r"where $b \approx 0.23$ is compatible with $1/(L + 1) \approx 0.17$ as proposed in Section 6",
    latex=r"b = \tfrac{1}{L + 1}",
    verdict="leading order",
    reason="order -1/(L + 1), measured at L = 1; the value 0.17 is that of L = 5",
    about=("FeatureRegime", "DeepFeatureRegime"),
    tolerance=6e-3,
)
def exponent_of_the_weights() -> Order:
    """Compare with numerically integrated weights, at two scales of the output."""
    scales = 2e-5, 2e-6
    return Order(scales, [_weight_change(4, alpha / 2) for alpha in scales], -0.5)


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


@formula(
    "C",
    "(32)",
    "output in the linear regime",
    quote=(
        r"These two facts taken together imply: $\|f(w_t) - f(w_0)\| \sim \frac{t}{t_1} \sqrt{h}, \quad t \ll t_1 "
        r"\text{ in feature training.}$"
    ),
    latex=r"|f_t - f_0| \sim \frac{t}{t_1} \sqrt h,\; t_1 = \sqrt h\, \alpha",
    verdict="leading order",
    reason="order 1 in t/t_1 and 1/2 in h, as printed",
    about=("LazyTwoLayer",),
    tolerance=0.005,
)
def output_in_the_linear_regime() -> Evidence:
    """Compare with outputs of integrated weights at two times before t_1 and two widths: the orders in t and h."""
    from scipy.integrate import solve_ivp

    def output(h: int, share: float) -> float:
        alpha = 1e-6 / h**0.5
        u0, w0 = np.tile([1.0, 1.0], h // 2), np.tile([1.0, -1.0], h // 2)

        def rate(_: float, z: Any) -> Any:
            residual = alpha * h**-0.5 * RHO * (z[:h] @ z[h:] - u0 @ w0) - Y
            return -2 / alpha * residual * h**-0.5 * RHO * np.concatenate([z[h:], z[:h]])

        z = solve_ivp(rate, (0, share * alpha * h**0.5), np.concatenate([u0, w0]), "DOP853", rtol=1e-12).y[:, -1]
        return float(h**-0.5 * RHO * (z[:h] @ z[h:] - u0 @ w0))

    late, early, wide = output(4, 1e-3), output(4, 1e-4), output(64, 1e-3)
    return Evidence([np.log10(late / early), np.log(wide / late) / np.log(16)], [1, 0.5])


@formula(
    "6",
    "below (24)",
    "value of the exponent a",
    quote="leading to $a = 1.66$ consistent with Eq. (18)",
    latex=r"a = \frac{2}{1 + 1/L} = \tfrac53 \text{ at } L = 5",
    verdict="holds under a condition",
    reason="five hidden layers, the column of Table 2 with this value; at the three of section 2 the exponent is 3/2",
    setting="balanced linear network of six weight layers",
    about=("FeatureRegime",),
    tolerance=0.01,
)
def exponent_of_five_layers() -> Order:
    """Compare with the kernels of six layers of rank 1 and equal strength, at two strengths of their product."""
    frames = np.linalg.qr(np.random.default_rng(1).standard_normal((7, 4, 4)))[0][:, 0]

    def kernel(scale: float) -> float:
        layers = [scale ** (-1 / 6) * np.outer(frames[k + 1], frames[k]) for k in range(6)]
        total = 0.0
        for k in range(6):
            before, after = frames[0], frames[6]
            for layer in layers[:k]:
                before = layer @ before
            for layer in layers[:k:-1]:
                after = after @ layer
            total += (before @ before) * (after @ after)
        return total

    scales = 1e-3, 1e-4
    return Order(scales, [kernel(scale) for scale in scales], -1.66)


FORMULAS = formula.formulas
