"""Lazy and feature training of a wide two-layer network: curves, times and kernels in the limit of large width."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from linsolve.core.law import Expansion
from linsolve.core.network_law import Estimate, GivenNetwork, NetworkLaw
from linsolve.core.parameters import parameter
from linsolve.numerics.checked import law_in_range
from linsolve.systems.two_layer.lazy import LazyTwoLayer
from linsolve.systems.two_layer.line_network import LineNetwork, refuse_other_fluctuations

__all__ = [
    "LazyTraining",
    "angle",
    "kernel_change",
    "moved",
    "network",
    "slopes",
    "weight_change",
]


SECOND = 0.3  # relative error over the square of the overlap, between lazy and feature training


def _size(value: Callable[[], np.ndarray]) -> float:
    return float(np.abs(value()).max())


def network(xp: Any, small: Any, target: Any, alpha: Any, rho: Any, xi: Any) -> tuple[LazyTwoLayer, Any]:
    """Return a network of two units, equivalent in training to ``small^-2`` units with given fluctuations.

    The training depends only on the lengths of ``u`` and ``v = W x/|x|`` and on the angle between them.

    Parameters
    ----------
    xp : namespace
    small : array
        ``h^(-1/2)``.
    target, alpha, rho : array
        Target of F, ``sqrt(h) alpha`` and ``|x| d_in^(-1/2)``.
    xi : array, shape (3,)
        ``(|u|^2 + |v|^2)/(2 h) - 1``, ``u.v/h`` and ``(|u|^2 - |v|^2)/(2 h)``, each times ``sqrt(h)``.
    """
    first, second = 1 + small * (xi[0] + xi[2]), 1 + small * (xi[0] - xi[2])
    along = small * xi[1] / xp.sqrt(first)
    across, none = xp.sqrt(second - along**2), 0 * first
    start = LazyTwoLayer.State(
        u=xp.stack([xp.sqrt(first), none]) / small, w=xp.stack([along, across])[:, None] / small
    )  # for one input v is w
    flow = LazyTwoLayer(y=target, gamma=small, x=rho[None], alpha=alpha * small, u0=start.u, w0=start.w)
    return flow.cast(xp), start


def _root(xp: Any, G: Any) -> Any:
    """Return ``q = sqrt(1 + G^2)``."""
    return xp.hypot(xp.ones_like(G), G)


def _clock(xp: Any, tau: Any, G: Any) -> tuple[Any, Any, Any, Any]:
    """Return ``4 q tau``, ``T``, ``1 - q^2 T^2`` and ``(1 + T)^2 - G^2 T^2``, each as a sum of positive terms."""
    q = _root(xp, G)
    x = 4 * q * tau
    x = xp.minimum(x, xp.full_like(x, 2.0**1000))  # finite, where exp(-x) vanishes
    e = xp.exp(-x)
    T, rest = -xp.expm1(-x) / (1 + e) / q, 4 * e / (1 + e) ** 2
    return x, T, rest, rest + 2 * T * (1 + T)


def angle(xp: Any, tau: Any, G: Any) -> tuple[Any, Any]:
    """Return ``sinh(2 theta) / G`` and ``cosh(2 theta)`` at times ``tau = rho^2 t`` at infinite width."""
    _, T, _, size = _clock(xp, tau, G)
    return 2 * T * (1 + T) / size, ((1 + T) ** 2 + (G * T) ** 2) / size


def slopes(xp: Any, tau: Any, G: Any) -> tuple[Any, Any]:
    """Return the derivatives of ``1 - F/y`` by ``k0`` and ``e0`` at ``k0 = 1``, ``e0 = 0``."""
    x, T, rest, size = _clock(xp, tau, G)
    q = _root(xp, G)
    dT = x * rest / (2 * q) - T  # q times the derivative by the rate c, as in the next line
    by_c = -(rest / size) * (x * T + 2 * (dT / size) * ((1 + T) / q - (G / q) * (G * T)))
    return by_c / q - 2 * (rest / size) * (T / size) * (1 + T), by_c * (G / q)


def kernel_change(xp: Any, G: Any) -> Any:
    """Return ``q - 1``."""
    return G * (G / (1 + _root(xp, G)))


def weight_change(xp: Any, G: Any) -> Any:
    r"""Return ``sqrt(2 C (C - 1)) / |G|``, ``C = cosh(theta(inf))``: the relative change of each layer over ``|G|``."""
    q = _root(xp, G)
    C = xp.sqrt((1 + q) / 2)
    return xp.sqrt(C / (1 + C) / (1 + q))  # 2 (C - 1) = G^2 / ((1 + q) (1 + C)), without cancellation


def half_time(xp: Any, G: Any) -> Any:
    """Return ``rho^2 t`` at half of the initial loss; ``1 - q T`` is rationalized against cancellation."""
    beta = 1 - 1 / xp.sqrt(2 + 0 * G)
    q, root = _root(xp, G), _root(xp, beta * G)
    left = (1 - beta) * (1 + (1 + beta) / (root + beta * q))
    return xp.log1p(2 * q * beta / left) / (4 * q)


def moved(xp: Any, flow: LazyTwoLayer, start: Any) -> Any:
    """Return the norm of the change of all weights, divided by their initial norm."""
    end = flow.limit(xp, start)
    far = sum(xp.sum((a - b) ** 2) for a, b in zip(end, start, strict=True))
    return xp.sqrt(far / sum(xp.sum(b**2) for b in start))


class LazyTraining(Expansion):
    r"""Training at large width, as a function of the single parameter ``G = y / (rho sqrt(h) alpha)``.

    For ``F = alpha (f - f_0)``, :math:`f = (h d_{\rm in})^{-1/2} u \cdot W x`, standard Gaussian weights,
    ``rho`` :math:`= |x| d_{\rm in}^{-1/2}`, :math:`\tau = \rho^2 t` and :math:`\sqrt h\, \alpha` fixed, at
    :math:`h \to \infty`

    .. math:: \frac{F}{y} = \frac{\sinh 2\theta}{G} = \frac{2 T (1 + T)}{(1 + T)^2 - G^2 T^2}, \quad
        \frac{K}{K_0} = \cosh 2\theta, \qquad T = \frac{\tanh 2 q \tau}{q}, \quad q = \sqrt{1 + G^2},

    .. math:: \frac{\Delta K}{K_0} = q - 1, \qquad \alpha^* = \frac{|y|}{\sqrt3\, \rho \sqrt h}, \qquad
        \frac{|\Delta w|}{|w_0|} = \sqrt{2 C (C - 1)}, \quad C = \cosh\frac{\operatorname{asinh} G}{2},

    .. math:: \rho^2 t_{1/2} = \frac{\operatorname{atanh} q T_{1/2}}{2 q}, \qquad
        T_{1/2} = \frac{\beta}{\sqrt{1 + \beta^2 G^2} + 1 - \beta}, \quad \beta = 1 - 2^{-1/2},

    where the kernel doubles at :math:`\alpha^*`, the loss has halved at :math:`t_{1/2}`, and
    :math:`|\Delta w|/|w_0|` is over both layers for one input. At finite width the relative error is
    :math:`O(h^{-1/2})`, and its leading term is known. The initial kernel and overlap, in units of :math:`\rho^2`, are
    :math:`k_0 = 1 + \xi_1 h^{-1/2}` and :math:`e_0 = \xi_2 h^{-1/2}`; with both, to :math:`O(1/h)`,

    .. math:: \frac{\Delta K}{K_0} = q - 1 + \frac{G \xi_2 - G^2 \xi_1}{q \sqrt h}, \qquad
        1 - \frac{F}{y} = \phi + \frac{\partial_{k_0} \phi\, \xi_1 + \partial_{e_0} \phi\, \xi_2}{\sqrt h} .

    Parameters
    ----------
    y : array_like
        Target of ``F``, any sign but not 0.
    scaled_alpha : array_like
        ``sqrt(h) alpha``.
    rho : array_like
        ``|x| / sqrt(d_in)``.
    xi : array_like, shape (3,)
        Fluctuations of the initial weights: ``(|u|^2 + |v|^2)/(2h) - 1``, ``u.v/h`` and ``(|u|^2 - |v|^2)/(2h)``, times
        ``sqrt(h)``. At large ``h`` they are independent standard normal numbers.
    times : array_like, shape (time,)
        Positive, for the loss ``(F - y)^2 / alpha^2``; double the times for half of that loss.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, or shapes do not fit.

    Notes
    -----
    Approximates `LazyTwoLayer` in ``small = h^(-1/2)``. Exact for: any sign of ``y``, from lazy to feature training.
    Not for: outputs off the line of the data (see `LazyFluctuations`).

    Source: Geiger, Spigler, Jacot, Wyart, "Disentangling feature and lazy training in deep neural networks" (2020).
    ``linsolve card LazyTraining`` lists the published formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> law = ls.laws.LazyTraining(y=1.0, scaled_alpha=1.0, xi=[0.0, 0.0, 0.0], times=[0.1, 1.0])  # G = 1
    >>> round(float(law.approximation(np, 0.01)["kernel change"]), 6)  # sqrt(2) - 1
    0.414214
    >>> round(float(law.alpha_star(np, 100)), 6)  # 1/sqrt(300), where the kernel doubles at width 100
    0.057735
    >>> law.approximation(np, 0.01)["F"].round(3).tolist(), law.exact(np, 0.01)["F"].round(3).tolist()
    ([0.335, 0.994], [0.335, 0.994])
    >>> network = ls.laws.LazyTraining.of([[[3.0], [0.0]], [[0.1, 3.0]]], ([[1.0]], [6.0]))  # G = (6 - 0.3)/9.005
    >>> network([0.0, 0.1, 1.0])["output"].round(3).tolist()
    [0.3, 5.184, 6.0]
    """

    y: Any = parameter("y", "target")
    scaled_alpha: Any = parameter(r"\sqrt{h}\alpha", "scale of the output times sqrt(h)", domain="(0, inf)")
    xi: Any = parameter(r"\xi", "fluctuations of the start", axes=("fluctuation",))
    times: Any = parameter("t", "times", domain="(0, inf)", axes=("time",))
    rho: Any = parameter(r"\rho", "length of the data point over sqrt(d_in)", domain="(0, inf)", default=1.0)

    approximates: ClassVar[str] = "LazyTwoLayer of width h, in h^(-1/2)"
    orders: ClassVar[Mapping[str, float]] = {
        "F": 1,
        "F with fluctuations": 2,
        "kernel": 1,
        "kernel change": 1,
        "kernel change with fluctuations": 2,
        "kernel change at alpha*": 1,
        "weights": 1,
        "half time": 1,
    }
    scales: ClassVar[tuple[float, ...]] = (1e-4, 1e-5, 1e-6)
    dps = 40

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_other_fluctuations(type(self).__name__, self.xi)

    def strength(self) -> Any:
        """Return ``G``, with its sign."""
        return self.y / (self.rho * self.scaled_alpha)

    def alpha_star(self, xp: Any, h: Any) -> Any:
        """Return the ``alpha`` at which the kernel doubles at width `h`."""
        return xp.abs(self.y) / (xp.sqrt(3 * h) * self.rho)

    def kernel_change_over(self, xp: Any, d_in: Any) -> Any:
        r"""Return the relative change of the kernel matrix on many isotropic inputs of dimension `d_in`.

        In Frobenius norm :math:`|\Delta K|_F / |K_0|_F = (q - 1) \sqrt{(d_{\rm in} + 3)/(4 d_{\rm in})}`, the quantity
        of eq. (18) of the source; `kernel change` is its value on the line of the data.
        """
        return kernel_change(xp, self.strength()) * xp.sqrt((d_in + 3) / (4 * d_in))

    @law_in_range
    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the limits at infinite width, and F and the kernel change with their fluctuations."""
        G, tau = self.strength(), self.rho**2 * self.times
        q, change = _root(xp, G), kernel_change(xp, G)
        output, kernel = angle(xp, tau, G)
        by_k, by_e = slopes(xp, tau, G)
        return {
            "F": self.y * output,
            "F with fluctuations": self.y * (output - small * (by_k * self.xi[0] + by_e * self.xi[1])),
            "kernel": kernel,
            "kernel change": change,
            "kernel change with fluctuations": change + small * (G / q) * (self.xi[1] - G * self.xi[0]),
            "kernel change at alpha*": xp.ones_like(q),
            "weights": xp.abs(G) * weight_change(xp, G),
            "half time": half_time(xp, G) / self.rho**2,
        }

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the quantities of `approximation` from the closed form at width ``small^-2``."""
        flow, start = network(xp, small, self.y, self.scaled_alpha, self.rho, self.xi)
        path, end = flow.along(xp, self.times, start), flow.along(xp, xp.full_like(self.y, xp.inf), start)
        middle, start_there = network(xp, small, self.y, self.alpha_star(xp, xp.ones_like(self.y)), self.rho, self.xi)
        doubled = middle.along(xp, xp.full_like(self.y, xp.inf), start_there)
        return {
            "F": path["F"],
            "F with fluctuations": path["F"],
            "kernel": 1 + path["kernel_change"],
            "kernel change": end["kernel_change"],
            "kernel change with fluctuations": end["kernel_change"],
            "kernel change at alpha*": doubled["kernel_change"],
            "weights": moved(xp, flow, start),
            "half time": flow.time_to(xp, start, loss=flow.loss(xp, start) / 2),
        }

    symbol: ClassVar[str] = "epsilon"
    meaning: ClassVar[str] = "overlap of the layers over their size, of order h^(-1/2) for random weights"

    @classmethod
    def applied(cls, given: GivenNetwork) -> NetworkLaw:
        """Return the law of a two-layer network with one output on data on a line, with its own fluctuations."""
        net = LineNetwork.of(given)
        G = net.strength

        def predict(given: GivenNetwork) -> dict[str, Estimate]:
            law = cls.at(net, np.ravel(given.times))
            found = law.approximation(np, np.ones(()))
            F, growth = (found[name].reshape(given.times.shape) for name in ("F with fluctuations", "kernel"))
            second = SECOND * (net.overlap * G) ** 2 / (1 + G**2)
            values = {
                name: Estimate(value, 2, second * abs(G) * net.size / _size(value))
                if "loss" not in name
                else Estimate(value, 2, second)
                for name, value in net.observables(given, F).items()
            }
            if given.samples is not None:
                first = abs(net.overlap) * abs(G) / np.sqrt(1 + G**2)
                values["ntk"] = Estimate(lambda: net.ntk(given, growth), 1, first / growth.max() + second)
            return values

        return net.law(cls, predict, abs(net.overlap))

    @classmethod
    def at(cls, net: LineNetwork, times: np.ndarray) -> LazyTraining:
        """Return the law of one network, to be evaluated at ``small = 1``; `times` are times of the network."""
        latest = 400.0 / np.sqrt(1 + net.strength**2)
        with np.errstate(over="ignore"):  # later than `latest`
            law_times = np.clip(times * net.clock, 1e-300, latest)
        return cls(y=net.strength, scaled_alpha=1.0, xi=[0.0, net.overlap, 0.0], times=law_times)

    @classmethod
    def example(cls, rng: np.random.Generator) -> LazyTraining:
        """Return a network between lazy and feature training, with generic fluctuations."""
        return cls(
            y=rng.uniform(0.5, 2.0) * rng.choice([-1, 1]),
            scaled_alpha=rng.uniform(0.5, 1.5),
            rho=rng.uniform(0.6, 1.4),
            xi=rng.uniform(0.4, 1.2, 3) * np.array([1, -1, 1]),
            times=np.array([0.03, 0.1, 0.3, 0.8]),
        )
