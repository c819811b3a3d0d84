"""Geiger, Spigler, Jacot, Wyart (2020): feature training of linear networks."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from linsolve.core import network
from linsolve.core.published_formula import Evidence, Order, Source
from linsolve.systems.two_layer.published_lazy import BOTH, RHO, Y, kernel_change, trained, weight_change

__all__ = ["FORMULAS"]

formula = Source("geiger_2020", "one hidden layer, linear, square loss, in place of three Softplus layers")


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
    reason="order -a, as printed, at L = 1 and at L = 2",
    setting="one and two hidden layers, linear, square loss",
    about=("FeatureRegime", "DeepFeatureRegime", *BOTH),
    tolerance=5e-3,
)
def kernel_of_feature_training() -> Evidence:
    """Compare with kernels of integrated weights, at two scales of the output: the orders in 1/(sqrt(h) alpha)."""
    shallow = np.log10(kernel_change(4, 1e-5) / kernel_change(4, 1e-4))
    deep = np.log10(_deep_changes(8, 1e4)[1] / _deep_changes(8, 1e3)[1])
    return Evidence([shallow, deep], [2 / (1 + 1), 2 / (1 + 1 / 2)])


@cache
def _deep_changes(h: int, strength: float, seed: int = 1) -> tuple[float, float]:
    """Return the relative changes of weights and kernel in a drawn network of two hidden layers on one input.

    The strength is |y|/(rho sqrt(h) alpha).
    """
    rng = np.random.default_rng(seed)
    start = [rng.standard_normal((h, 1)), rng.standard_normal((h, h)), rng.standard_normal((1, h))]
    target = (start[2] @ start[1] @ start[0]).item() + strength * h**1.5
    end = network.trained(start, [target], rtol=1e-9)

    def kernel(first: Any, middle: Any, last: Any) -> float:
        return float(np.sum((last @ middle) ** 2) + np.sum(last**2) * np.sum(first**2) + np.sum((middle @ first) ** 2))

    moved = sum(np.sum((one - other) ** 2) for one, other in zip(end, start, strict=True))
    weights = np.sqrt(moved / sum(np.sum(each**2) for each in start))
    return float(weights), kernel(*end) / kernel(*start) - 1


@formula(
    "5",
    "(19)",
    "half time in feature training",
    quote=r"in the feature-training regime: $t_{\mathcal{L}/2} \sim \sqrt{h}\alpha$",
    latex=(
        r"t_{1/2} \sim \sqrt h\, \alpha\; (L \ge 2);\; L = 1:\; \frac{\sqrt h\, \alpha}{4 \rho |y|} \log\Bigl[2 "
        r"(\sqrt2 - 1) \frac{|y|}{\rho \sqrt h\, \alpha}\Bigr]"
    ),
    verdict="leading order",
    reason=(
        "order 1, as printed, for two or more hidden layers, as in the source, whose weights grow in a finite time; "
        "with one hidden layer growth is exponential and a logarithm multiplies"
    ),
    setting="linear networks, square loss: two hidden layers in balance, and one",
    about=("FeatureRegime", "DeepFeatureRegime"),
    tolerance=1e-3,
)
def half_time_of_feature_training() -> Evidence:
    """Compare with ratios of half times at two scales: of integrated layers and, at L = 2, three balanced ones."""
    scales = np.array([2e-3, 2e-5])
    times = [trained(4, alpha / 2, 0.5)[0] for alpha in scales]
    logs = np.log(2 * (np.sqrt(2) - 1) * Y / (RHO * scales))
    deep = [_time_of_three_layers(1 / alpha) for alpha in (1e-12, 1e-14)]
    ratio = scales[0] / scales[1]
    return Evidence([deep[0] / deep[1] / 100, times[0] / times[1] / ratio], [1.0, logs[0] / logs[1]])


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
    "(30)",
    "weights in feature training",
    quote=(
        r"$\frac{\|w - w_0\|}{\|w_0\|} \sim \frac{(\sqrt{h}\alpha)^{-b}}{\sqrt{h}}$ in the feature-training "
        r"regime [...] as follows from the $\mathcal{O}(h^2)$ internal weights evolving by "
        r"$\mathcal{O}(1/\sqrt{h})$ on the time scale $t_1$"
    ),
    latex=r"|\Delta w|/|w_0| \sim (\sqrt h\, \alpha)^{-b}/\sqrt h\; (L \ge 2),\; (\sqrt h\, \alpha)^{-b}\; (L = 1)",
    verdict="leading order",
    reason=(
        "order -1/2 in h, as printed, for two or more hidden layers, as in the source; without internal weights the "
        "denominator sqrt(h) is absent"
    ),
    setting="linear networks, square loss: two hidden layers, and one",
    about=("FeatureRegime", "DeepFeatureRegime"),
    tolerance=0.05,
)
def weights_of_feature_training() -> Evidence:
    """Compare with integrated weights of two hidden layers and of one, each at two widths: the orders in h."""
    deep = [np.mean([_deep_changes(h, 1e6, seed)[0] for seed in range(draws)]) for h, draws in ((16, 8), (64, 2))]
    shallow = [weight_change(h, 1e-3 / h**0.5) for h in (4, 64)]
    orders = np.log(deep[1] / deep[0]) / np.log(4), np.log(shallow[1] / shallow[0]) / np.log(16)
    return Evidence(orders, [-0.5, 0])


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
    return Order(scales, [weight_change(4, alpha / 2) for alpha in scales], -0.5)


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
