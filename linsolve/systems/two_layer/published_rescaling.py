"""Xu and Ziyin (2024), section 3.3: learning by rescaling."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.published_formula import Evidence, Source
from linsolve.systems.two_layer.published_line import EQUAL, FLOWS, LINE, Network, integrated, trained

__all__ = ["FORMULAS"]

formula = Source("xu_ziyin_2024", "two-layer linear network, one input, x = 1, gradient flow at the rates eta_u, eta_w")


@formula(
    "3.3",
    "first display",
    "lengths of the layers",
    quote=(
        r"$\|\boldsymbol{u}\|^2 = d(\alpha P + \frac{Q}{\alpha}) - 2\sum_{i=1}^{d} p_{i}q_{i}, \ "
        r"\|\boldsymbol{w}\|^2 = d(\alpha P + \frac{Q}{\alpha}) + 2\sum_{i=1}^{d} p_{i}q_{i}$"
    ),
    latex=(
        r"\eta_w |u|^2 = d(\alpha P + Q/\alpha) - 2 \textstyle\sum_i p_i q_i,\quad \eta_u |v|^2 = d(\alpha P + "
        r"Q/\alpha) + 2 \sum_i p_i q_i"
    ),
    verdict="holds under a condition",
    reason=r"unit rates; else the left sides are $\eta_w |u|^2$ and $\eta_u |w|^2$",
    about=FLOWS,
)
def lengths_of_the_layers() -> Evidence:
    """Compare with weights trained at unit rates, and with weights trained at two rates, times the rates."""
    truth, stated = [], []
    for name, network in (("equal", EQUAL), ("line", LINE)):
        u, w = trained(name, 0.15)
        p, q = network.split(network.u, network.w, 1.0)
        alpha = network.growth(0.15)
        mean, crossed = alpha * p @ p + q @ q / alpha, 2 * p @ q
        truth += [network.eta_w * (u @ u), network.eta_u * np.sum(w**2)]
        stated += [mean - crossed, mean + crossed]
    return Evidence(truth, stated)


@formula(
    "3.3",
    "below the first display",
    "the norms turn where the output passes zero",
    quote=(
        r"thus, $\frac{d||\boldsymbol{u}||^2}{d\alpha} = \frac{d||\boldsymbol{w}||^2}{d\alpha} = d(P - "
        r"\frac{Q}{\alpha^2})$"
    ),
    latex=r"\eta_w \frac{d|u|^2}{d\alpha} = \eta_u \frac{d|w|^2}{d\alpha} = d \Bigl(P - \frac{Q}{\alpha^2}\Bigr)",
    verdict="holds under a condition",
    reason="unit rates, as in the display above it",
    follows="lengths_of_the_layers",
    about=FLOWS,
)
def slope_of_the_lengths() -> Evidence:
    """Compare with the ratio of the velocities of both squared lengths and of alpha, at unit and at two rates."""
    truth, stated = [], []
    for network in (EQUAL, LINE):
        du, dw = network.rates(network.u, network.w)
        p, q = network.split(network.u, network.w, 1.0)
        growth = 2 * network.split(du, dw, 1.0)[0][0] / p[0]
        truth += [network.eta_w * 2 * network.u @ du / growth, network.eta_u * 2 * np.sum(network.w * dw) / growth]
        stated += 2 * [p @ p - q @ q]
    return Evidence(truth, stated)


@formula(
    "3.3",
    "cases (1)-(4)",
    "norms that rise, fall, or fall and rise",
    quote=(
        r"(1) P > Q and $\alpha_+ > 1$, or P < Q and $\alpha_+ < 1$, or P = Q: $||\boldsymbol{u}||$ and "
        r"$||\boldsymbol{w}||$ monotonically increase. (2) P > Q and $1 > \alpha_+ \ge \sqrt{Q/P}$, or P < Q and "
        r"$1 < \alpha_+ \le \sqrt{Q/P}$: $||\boldsymbol{u}||$ and $||\boldsymbol{w}||$ and monotonically decrease. "
        r"(3) P > Q and $\alpha_+ < \sqrt{Q/P}$, or P < Q and $\alpha_+ > \sqrt{Q/P}$: $||\boldsymbol{u}||$ and "
        r"$||\boldsymbol{w}||$ first decrease, and then increase."
    ),
    latex=(
        r"(1)\; y/f_0 > 1 \text{ or } f_0 = 0,\quad (2)\; 0 \le y/f_0 < 1,\quad (3)\; y/f_0 < 0,\quad f_0 = "
        r"\gamma d (P - Q)"
    ),
    about=FLOWS,
)
def rise_and_fall_of_the_norms() -> Evidence:
    """Compare with the velocities of both norms in 20 random networks: at the start, and after integration, late."""
    rng = np.random.default_rng(4)
    truth, stated = [], []
    for _ in range(20):
        (u, w), y = rng.standard_normal((2, 3)), 2 * rng.standard_normal()
        network = EQUAL._replace(y=y, gamma=1.0, u=u, w=w[:, None])
        late = integrated(network, 3 / network.constants()[3])
        truth += np.sign([*_growth(network, u, w[:, None]), *_growth(network, *late)]).tolist()
        stated += _signs(network)
    return Evidence(truth, stated)


def _growth(network: Network, u: Any, w: Any) -> tuple[float, float]:
    """Return the velocities of the squared norms."""
    du, dw = network.rates(u, w)
    return 2 * u @ du, 2 * np.sum(w * dw)


def _signs(network: Network) -> list[int]:
    """Return the signs of the velocities of both norms, first and late, in the case that holds."""
    _, P, Q, _ = network.constants()
    grown, turning = network.alphas()[0], np.sqrt(Q / P)
    if (P > Q and grown > 1) or (P < Q and grown < 1) or P == Q:
        return [1, 1, 1, 1]
    if (P > Q and 1 > grown >= turning) or (P < Q and 1 < grown <= turning):
        return [-1, -1, -1, -1]
    return [-1, -1, 1, 1]


FORMULAS = formula.formulas
