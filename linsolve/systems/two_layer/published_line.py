"""Xu and Ziyin (2024): a two-layer linear network on one line of data."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.published_formula import Evidence, Source

__all__ = ["FORMULAS"]

formula = Source("xu_ziyin_2024", "two-layer linear network, data on a line, gradient flow at the rates eta_u, eta_w")
FLOWS = ("TwoLayer", "TwoLayerOrder")
LATE = 30.0


class Network(NamedTuple):
    """A generic network: data point, target, scale, learning rates and initial weights."""

    x: Any = np.array([0.9, -0.4, 0.7])
    y: float = 1.3
    gamma: float = 0.8
    eta_u: float = 0.5
    eta_w: float = 1.9
    u: Any = np.array([0.31, -1.42, 0.87, 0.55])
    w: Any = np.array([[-0.6, 0.2, 1.1], [0.4, -0.9, 0.3], [0.7, 0.1, -1.3], [1.2, 0.8, -0.2]])

    @property
    def length(self) -> float:
        return float(np.linalg.norm(self.x))

    def rates(self, u: Any, w: Any) -> tuple[Any, Any]:
        """Return the velocities of both layers, minus rate times gradient of the loss (3)."""
        r = 2 * self.gamma * (self.gamma * u @ w @ self.x - self.y)
        return -self.eta_u * r * w @ self.x, -self.eta_w * r * np.outer(u, self.x)

    def split(self, u: Any, w: Any, rho: float) -> tuple[Any, Any]:
        """Return ``p`` and ``q`` of (4)."""
        a, b = np.sqrt(self.eta_w) * u, np.sqrt(self.eta_u) * w @ self.x / rho
        return (b + a) / 2, (b - a) / 2

    def constants(self, rho: float | None = None) -> tuple[float, float, float, float]:
        """Return ``g = sqrt(eta_u eta_w) gamma rho``, ``gamma^2 rho^2 d P``, the same with Q, and ``1/t_c`` of (7)."""
        rho = self.length if rho is None else rho
        p, q = self.split(self.u, self.w, rho)
        g, scale = np.sqrt(self.eta_u * self.eta_w) * self.gamma * rho, (self.gamma * rho) ** 2
        kP, kQ = scale * p @ p, scale * q @ q
        return g, kP, kQ, np.sqrt((g * self.y) ** 2 + 4 * kP * kQ)

    def alphas(self) -> tuple[float, float]:
        """Return ``alpha_+`` and ``alpha_-`` of (8)."""
        g, kP, _, c = self.constants()
        return (g * self.y + c) / (2 * kP), (g * self.y - c) / (2 * kP)

    def growth(self, t: float) -> float:
        """Return ``p_i(t)^2/p_i(0)^2`` of (5)-(8), with the sign of (8) throughout."""
        plus, minus = self.alphas()
        xi = (1 - plus) / (1 - minus) * np.exp(-4 * self.constants()[3] * t)
        return (plus - xi * minus) / (1 - xi)


NETWORK = Network()
LINE = Network(x=np.array([1.0]), w=np.array([[0.7], [-0.2], [1.1], [-0.8]]))  # one input, x = 1, as in section 3.2
EQUAL = LINE._replace(eta_u=1.0, eta_w=1.0)


@cache
def trained(which: str, t: float) -> tuple[Any, Any]:
    """Return the weights of a network on record at time t, by numerical integration."""
    return integrated({"generic": NETWORK, "line": LINE, "equal": EQUAL, **SADDLES}[which], t)


def integrated(network: Network, t: float) -> tuple[Any, Any]:
    """Return the weights at time t, by numerical integration."""
    from scipy.integrate import solve_ivp

    d = len(network.u)

    def rate(_: float, z: Any) -> Any:
        du, dw = network.rates(z[:d], z[d:].reshape(d, -1))
        return np.concatenate([du, dw.ravel()])

    z0 = np.concatenate([network.u, network.w.ravel()])
    end = solve_ivp(rate, (0, t), z0, "DOP853", rtol=1e-12, atol=1e-14).y[:, -1]
    return end[:d], end[d:].reshape(d, -1)


# initial weights with P = 0 (q only) and with Q = 0 (p only), for both signs of y
ONLY_Q = NETWORK._replace(gamma=-0.8, w=-np.sqrt(1.9 / 0.5) * np.outer(NETWORK.u, NETWORK.x) / NETWORK.length)
ONLY_P = NETWORK._replace(y=0.0, w=-ONLY_Q.w)
AT_SADDLE, TO_TARGET = ONLY_Q._replace(gamma=0.8), ONLY_Q._replace(gamma=0.8, y=-1.3)
SADDLES = {"only p": ONLY_P, "only q, y > 0": AT_SADDLE, "only q, y < 0": TO_TARGET}


@formula(
    "A.1",
    "(17)",
    "data on a line as one data point, with sums",
    quote=(
        r"where $x_j = \sqrt{\sum_{k=1}^{N} a_k^2} n_j$ and $y = \frac{\sum_{k=1}^{N} a_k "
        r"\tilde{y}_k}{\sqrt{\sum_{k=1}^{N} a_k^2}}$ [...] Finally, all these notations can also be written in "
        r"terms of $\mathbb{E}_x \coloneqq \frac{1}{N} \sum_{k=1}^{N}$"
    ),
    latex=r"\textstyle\sum_k (\gamma u^\top W n a_k - \tilde y_k)^2 = (\gamma u^\top W x - y)^2 + \mathrm{const}",
    verdict="convention",
    reason=(
        "the loss is the sum over the training set; for the mean of the first line each sum carries 1/N, as in "
        "Proposition 1 and as the last sentence of A.1 says; L is the square of (3)"
    ),
    about=("TwoLayer",),
)
def data_on_a_line() -> Evidence:
    """Compare with the gradient of the summed loss over seven points, point by point."""
    return Evidence(*_gradients(np.sum))


def _gradients(reduce: Any) -> tuple[Any, Any]:
    """Return gradients of the loss over seven points: of the data, and of one point made by sums or means."""
    n, a = NETWORK.x / NETWORK.length, np.array([0.3, -1.2, 0.8, 2.1, -0.4, 1.6, -0.9])
    target = np.array([0.5, -0.7, 1.9, 0.4, -1.1, 2.0, 0.3])
    residual = NETWORK.gamma * a * (NETWORK.u @ NETWORK.w @ n) - target
    point = Network(x=np.sqrt(reduce(a**2)) * n, y=reduce(a * target) / np.sqrt(reduce(a**2)))
    of_point = -point.rates(NETWORK.u, NETWORK.w)[0] / point.eta_u
    return reduce(2 * residual * a) * NETWORK.gamma * NETWORK.w @ n, of_point


@formula(
    "3.1",
    "Proposition 1, (3)",
    "data on a line as one data point",
    quote=(
        r"Let $x = \sqrt{\mathbb{E}[\tilde{x}^2]}n$ and $y = "
        r"\frac{\mathbb{E}[\tilde{x}y(\tilde{x})]}{\sqrt{\mathbb{E}[\tilde{x}^2]}}$. Then, the gradient flow of "
        r"Eq.(1) equals the gradient flow of $L = \left[\gamma \sum_{i=1}^{d} \sum_{j=1}^{d_0} u_i w_{ij} x_j - "
        r"y\right]^2$"
    ),
    latex=r"x = \sqrt{\mathbb E\, a^2}\, n,\quad y = \mathbb E[a \tilde y]/\sqrt{\mathbb E\, a^2}",
    setting="data on a line, not all 0; under the means, the data point stands for its coordinate a along n",
    about=("TwoLayer",),
)
def data_on_a_line_with_means() -> Evidence:
    """Compare with the gradient of the mean loss over seven points, point by point."""
    return Evidence(*_gradients(np.mean))


@formula(
    "3.1",
    "below (4)",
    "length of the data point in p, q",
    quote=r"where $\rho \coloneqq \sqrt{\frac{1}{d_0} \sum_{i=0}^{d_0} x_i^2}$",
    latex=r"\rho = \sqrt{\textstyle\sum_j x_j^2}",
    verdict="typographical",
    reason=(
        "(23) puts the plain sum of squares for rho^2, which the mean of P below (14) needs, too; both agree for one "
        "input, as in section 3.2"
    ),
    about=FLOWS,
)
def length_of_the_data_point() -> Evidence:
    """Compare with the initial products p_i q_i, which training conserves by (19) and (20)."""
    rho, after = NETWORK.length, trained("generic", 0.4)

    def products(weights: Any, rho: float) -> Any:
        p, q = NETWORK.split(weights[0], weights[1], rho)
        return p * q

    shift = products((NETWORK.u, NETWORK.w), rho)
    short = rho / np.sqrt(3)
    drift = products(after, short) - products((NETWORK.u, NETWORK.w), short)
    return Evidence(shift, products(after, rho), shift + drift)


@formula(
    "3.1",
    "(5), (6), (8); section 3.2, above (11)",
    "growth of p, shrinkage of q",
    quote=(
        r"$\xi(t) \coloneqq \frac{1 - \alpha_{+}}{1 + \alpha_{-}} \exp\left(-4t/t_c\right)$ [...] $\alpha_{\pm} "
        r"\coloneqq \frac{1}{2(\gamma^2 d)\rho^2 P} \left( \sqrt{\eta_u \eta_w} \gamma \rho y \pm t_c^{-1} "
        r"\right)$ [...] $\alpha(t) = \frac{\alpha_+ + \xi \alpha_-}{1 - \xi}$"
    ),
    latex=(
        r"\frac{p_i^2}{p_i(0)^2} = \frac{q_i(0)^2}{q_i^2} = \frac{\alpha_+ + \xi \alpha_-}{1 - \xi},\quad \xi = "
        r"\frac{1 - \alpha_+}{1 + \alpha_-} e^{-4t/t_c},\quad \alpha_- = \frac{t_c^{-1} - \sqrt{\eta_u \eta_w} "
        r"\gamma \rho y}{2 \gamma^2 d \rho^2 P}"
    ),
    verdict="convention",
    reason=(
        "with alpha_- for minus the second root, (5), (6), the product after (8) and alpha(t) of section 3.2 "
        "hold; (8), (30) and A.3 use the root itself"
    ),
    about=FLOWS,
)
def growth() -> Evidence:
    """Compare with p_i^2 of numerically integrated weights."""
    t = 0.05
    before, after = (NETWORK.split(*z, NETWORK.length)[0] for z in ((NETWORK.u, NETWORK.w), trained("generic", t)))
    plus, minus = NETWORK.alphas()[0], -NETWORK.alphas()[1]
    xi = (1 - plus) / (1 + minus) * np.exp(-4 * NETWORK.constants()[3] * t)
    return Evidence((after / before)[0] ** 2, (plus + xi * minus) / (1 - xi))


@formula(
    "3.1",
    "(7)",
    "learning rate in time",
    quote=r"$t_c \coloneqq 1/\left(\sqrt{\eta_u \eta_w \gamma^2 \rho^2 y^2 + 4\rho^4 (\gamma^2 d)^2 PQ}\right)$",
    latex=r"t_c^{-2} = \eta_u \eta_w \gamma^2 \rho^2 y^2 + 4 \rho^4 (\gamma^2 d)^2 P Q",
    setting="rho = |x|; see the record of the length below (4)",
    about=FLOWS,
)
def characteristic_time() -> Evidence:
    """Compare with half the tangent kernel of the trained weights, the final decay rate of the residual."""
    u, w = trained("generic", LATE)
    s2, hidden = NETWORK.length**2, w @ NETWORK.x
    kernel = NETWORK.gamma**2 * s2 * (NETWORK.eta_u * hidden @ hidden + NETWORK.eta_w * s2 * u @ u) / s2
    return Evidence(kernel / 2, NETWORK.constants()[3])


@formula(
    "3.1",
    "(9)",
    "final weights",
    quote=(
        r"In the limit $t \to \infty$, we have that $p_i(\infty) = p_i(0)\sqrt{\alpha_+}, \ q_i(\infty) = "
        r"q_i(0)/\sqrt{\alpha_+}$"
    ),
    latex=r"p_i(\infty) = p_i(0) \sqrt{\alpha_+},\quad q_i(\infty) = q_i(0)/\sqrt{\alpha_+}",
    setting="rho = |x|; see the record of the length below (4)",
    about=FLOWS,
)
def final_weights() -> Evidence:
    """Compare with p and q of the trained weights."""
    before = NETWORK.split(NETWORK.u, NETWORK.w, NETWORK.length)
    root = np.sqrt(NETWORK.alphas()[0])
    return Evidence(NETWORK.split(*trained("generic", LATE), NETWORK.length), (before[0] * root, before[1] / root))


@formula(
    "3.1",
    "after (8)",
    "product of the two scale factors",
    quote=r"The constants $\alpha_+\alpha_- = Q/P$ are two asymptotic scale factors",
    latex=r"\alpha_+ \alpha_- = Q/P",
    verdict="convention",
    reason="alpha_- is minus the second root, as in (5) and (6); the product of the roots of (28) is -Q/P",
    follows="growth",
    about=FLOWS,
)
def product_of_the_scale_factors() -> Evidence:
    """Compare with numerical roots of the polynomial of (28), the second with its sign changed."""
    g, kP, kQ, _ = NETWORK.constants()
    return Evidence(-np.prod(np.roots([kP, -g * NETWORK.y, -kQ])), kQ / kP)


@formula(
    "3.1",
    "after (8), u",
    "the second layer from p and q",
    quote=r"$u_i(t) = \frac{1}{\sqrt{\eta_w}} (p_i(t) - q_i(t))$",
    latex=r"u_i = (p_i - q_i)/\sqrt{\eta_w}",
    setting="rho = |x|; see the record of the length below (4)",
    about=("TwoLayer",),
)
def second_layer() -> Evidence:
    """Compare with numerically integrated weights."""
    p, q = NETWORK.split(NETWORK.u, NETWORK.w, NETWORK.length)
    root = np.sqrt(NETWORK.growth(0.4))
    return Evidence(trained("generic", 0.4)[0], (p * root - q / root) / np.sqrt(NETWORK.eta_w))


@formula(
    "3.1",
    "after (8), w",
    "the first layer from p and q",
    quote=r"$w_{ij}(t) = w_{ij}(0) + (p_i(t) - p_i(0) + q_i(t) - q_i(0)) \frac{x_j}{\sqrt{\eta_w}\rho}$",
    latex=r"w_{ij} = w_{ij}(0) + (\Delta p_i + \Delta q_i)\, x_j/(\sqrt{\eta_u}\, \rho)",
    verdict="typographical",
    reason="by the definition (4) the rate is eta_u; both agree at equal rates",
    setting="rho = |x|; see the record of the length below (4)",
    about=("TwoLayer",),
)
def first_layer() -> Evidence:
    """Compare with numerically integrated weights."""
    p, q = NETWORK.split(NETWORK.u, NETWORK.w, NETWORK.length)
    root = np.sqrt(NETWORK.growth(0.4))
    change = np.outer(p * (root - 1) + q * (1 / root - 1), NETWORK.x) / NETWORK.length
    rates = NETWORK.eta_u, NETWORK.eta_w
    return Evidence(trained("generic", 0.4)[1], *(NETWORK.w + change / np.sqrt(rate) for rate in rates))


@formula(
    "3.1",
    "after (9)",
    "directions across the data stay",
    quote=r"Let $m \perp x$, we have that $\sum_j w_{ij}(t)m_j = \sum_j w_{ij}(0)m_j$",
    latex=r"\textstyle\sum_j w_{ij}(t) m_j = \sum_j w_{ij}(0) m_j,\; m \perp x",
    about=("TwoLayer",),
)
def across_the_data() -> Evidence:
    """Compare with numerically integrated weights."""
    across = np.cross(NETWORK.x, [1.0, 2.0, -1.0])
    return Evidence(trained("generic", 0.4)[1] @ across, NETWORK.w @ across)


def _output_rate(probe: Any) -> tuple[float, Any, float]:
    """Return the velocity of the output at a probe, the residual, and the kernel as a function of the two rates."""
    du, dw = NETWORK.rates(NETWORK.u, NETWORK.w)
    velocity = NETWORK.gamma * (du @ NETWORK.w + NETWORK.u @ dw) @ probe
    hidden = (NETWORK.w @ NETWORK.x) @ (NETWORK.w @ probe)
    residual = NETWORK.gamma * NETWORK.u @ NETWORK.w @ NETWORK.x - NETWORK.y

    def kernel(of_w: float, of_u: float) -> float:
        return NETWORK.gamma**2 * (of_w * hidden + of_u * NETWORK.u @ NETWORK.u * (NETWORK.x @ probe))

    return velocity, kernel, residual


@formula(
    "3.1",
    "(10)",
    "the tangent kernel",
    quote=(
        r"$K(x, x') = \gamma^2 x^T (\eta_w W^T W + \eta_u || \boldsymbol{u} ||^2 I) x'$ [...] which follows from "
        "Eq. (2) and (3)"
    ),
    latex=r"K(x, x') = \gamma^2 x^T (\eta_u W^T W + \eta_w |u|^2 I) x'",
    verdict="typographical",
    reason="by (2) the rate of a layer multiplies the gradient with respect to that layer; both agree at equal rates",
    about=("TwoLayer",),
)
def tangent_kernel() -> Evidence:
    """Compare with the velocity of the output at another point, from those of the weights by the chain rule."""
    velocity, kernel, r = _output_rate(np.array([0.2, 1.1, -0.5]))
    rates = NETWORK.eta_u, NETWORK.eta_w
    return Evidence(velocity, -2 * kernel(*rates) * r, -2 * kernel(*rates[::-1]) * r)


@formula(
    "3.1",
    "above (10)",
    "the kernel drives the output",
    quote=r"the NTK is the quantity K that enters the following dynamics: $\frac{df(x)}{dt} = 2K(x, x')(f(x')-y)$",
    latex=r"\dot f(x) = -2 K(x, x') (f(x') - y)",
    verdict="typographical",
    reason="(10) is positive and gradient flow lowers the loss, which needs a minus sign",
    about=("TwoLayer",),
)
def output_dynamics() -> Evidence:
    """Compare with the velocity of the output at another point, from those of the weights by the chain rule."""
    velocity, kernel, r = _output_rate(np.array([-0.3, 0.6, 1.4]))
    pull = 2 * kernel(NETWORK.eta_u, NETWORK.eta_w) * r
    return Evidence(velocity, -pull, pull)


FORMULAS = formula.formulas
