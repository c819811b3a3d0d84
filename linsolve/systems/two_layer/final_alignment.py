"""Alignment of two wide layers at the end of training, and its lower bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from linsolve.core.law import Expansion
from linsolve.core.network_law import Estimate, GivenNetwork, NetworkLaw
from linsolve.core.parameters import parameter
from linsolve.numerics.checked import law_in_range
from linsolve.systems.two_layer.line_network import LineNetwork, refuse_other_fluctuations
from linsolve.systems.two_layer.two_layer import TwoLayer

__all__ = ["FinalAlignment"]


class FinalAlignment(Expansion):
    r"""Cosine :math:`\zeta` of the two layers of a wide network at the end of training.

    For :math:`f = \gamma\, u \cdot W x` on data on a line, :math:`v = W x / |x|`, the bivector :math:`u \wedge v` is
    conserved. Hence, at any width, for any initial weights and any learning rates,

    .. math:: \zeta(t) = \frac{\operatorname{sgn}(\gamma) f}{\sqrt{f^2 + \Omega^2}}, \qquad
        \Omega = |\gamma|\, |x| \sqrt{|u_0|^2 |v_0|^2 - (u_0 \cdot v_0)^2},

    and ``f = y`` at the end. For standard Gaussian weights of width :math:`d \to \infty` with
    :math:`K = y / (\gamma |x| d)` fixed,

    .. math:: \zeta(\infty) = \frac{K}{\sqrt{K^2 + 1}} + O(d^{-1/2}), \qquad
        \zeta(\infty) = \frac{K}{q} - \frac{K \xi_1}{q^3 \sqrt d} + O(1/d), \quad q = \sqrt{K^2 + 1},

    with :math:`\xi_1 = \sqrt d\, [(|u_0|^2 + |v_0|^2)/(2d) - 1]`. The published bound, for :math:`K > 0`, is
    `bound`, :math:`\zeta(\infty) \geq [(K + 1)^2 - 1] / [(K + 1)^2 + 1]`; the two agree to first order in ``K``.

    Parameters
    ----------
    strength : array_like
        ``K``, any sign but not 0.
    xi : array_like, shape (3,)
        Fluctuations of the initial weights: ``(|u|^2 + |v|^2)/(2d) - 1``, ``u.v/d`` and ``(|u|^2 - |v|^2)/(2d)``, times
        ``sqrt(d)``. At large ``d`` they are independent standard normal numbers.
    eta_u, eta_w : array_like
        Learning rates; the alignment at the end does not depend on them.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, or shapes do not fit.

    Notes
    -----
    Approximates `TwoLayer` in ``small = d^(-1/2)``. `of` computes ``K`` from the lengths of the layers of a network,
    scaled to equal rates. Its error is quadratic in the overlap of the layers and in the difference of their squared
    lengths.

    Source: Xu and Ziyin (2024), (11) and the statement below (16) on the alignment at the end, which assumes
    :math:`P \approx Q` and :math:`\sum p_i q_i \approx 0`. For :math:`Q > P` it can fail: with
    :math:`\sum p_i q_i = 0` it does if :math:`Q/P > K^2 (1/b^2 - 1)`, with the bound b; this is 1.78 for K = 1.
    ``linsolve card FinalAlignment`` lists the published formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> law = ls.laws.FinalAlignment(strength=1.0, xi=[0.0, 0.0, 0.0])
    >>> found, exact = law.approximation(np, 1e-3), law.exact(np, 1e-3)
    >>> round(float(found["alignment"]), 6), round(float(exact["alignment"]), 6), float(law.bound(np))
    (0.707107, 0.707107, 0.6)
    >>> network = ls.laws.FinalAlignment.of([[[3.0], [0.0]], [[0.1, 3.0]]], ([[1.0]], [9.0]))
    >>> round(float(network()["alignment"]), 4)  # K = 9/9.005
    0.7069
    """

    strength: Any = parameter("K", "target over the scale of the output", typical=(-3.0, 3.0))
    xi: Any = parameter(r"\xi", "fluctuations of the start", axes=("fluctuation",))
    eta_u: Any = parameter(r"\eta_u", "learning rate of u", domain="(0, inf)", typical=(0.1, 2.0), default=1.0)
    eta_w: Any = parameter(r"\eta_w", "learning rate of w", domain="(0, inf)", typical=(0.1, 2.0), default=1.0)

    approximates: ClassVar[str] = "TwoLayer of width d at the end of training, in d^(-1/2)"
    timed: ClassVar[bool] = False
    symbol: ClassVar[str] = "epsilon"
    meaning: ClassVar[str] = "overlap of the layers and difference of their squared lengths, over their mean"
    orders: ClassVar[Mapping[str, float]] = {"alignment": 1, "alignment with fluctuations": 2}
    scales: ClassVar[tuple[float, ...]] = (1e-4, 1e-5, 1e-6)
    dps = 40

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_other_fluctuations(type(self).__name__, self.xi)

    def bound(self, xp: Any) -> Any:
        """Return the published lower bound of ``|zeta|`` at infinite width, with the sign of ``K``."""
        size = xp.abs(self.strength)
        more = size * (size + 2)
        return xp.sign(self.strength) * more / (more + 2)

    @law_in_range
    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the limit, and its value with the fluctuation of the lengths."""
        q = xp.hypot(xp.ones_like(self.strength), self.strength)
        limit = self.strength / q
        return {"alignment": limit, "alignment with fluctuations": limit - small * self.xi[0] * (limit / q) / q}

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the alignment of `TwoLayer` at the end, from two units that are equivalent to ``small^-2``."""
        long, short = 1 + small * (self.xi[0] + self.xi[2]), 1 + small * (self.xi[0] - self.xi[2])
        along = small * self.xi[1] / xp.sqrt(long)
        start = TwoLayer.State(
            u=xp.stack([xp.sqrt(long), 0 * long]), w=xp.stack([along, xp.sqrt(short - along**2)])[:, None]
        )
        flow = TwoLayer(y=self.strength, eta_u=self.eta_u, eta_w=self.eta_w).cast(xp)
        found = flow.along(xp, xp.full_like(self.strength, xp.inf), start)["alignment"]
        return dict.fromkeys(self.orders, found)

    @classmethod
    def applied(cls, given: GivenNetwork) -> NetworkLaw:
        """Return the alignment at the end of a two-layer network with one output on data on a line."""
        net = LineNetwork.of(given)
        K = float(net.red.target[0, 0]) / net.size
        law = cls(strength=K, xi=np.zeros(3))
        first, last = (float(np.sum(layer**2)) for layer in net.red.layers)
        small = float(np.hypot(net.overlap, (last - first) / (2 * net.size)))

        def predict(given: GivenNetwork) -> dict[str, Estimate]:
            value = np.abs(law.approximation(np, np.zeros(()))["alignment"])
            return {"alignment": Estimate(lambda: value, 2, small**2 / (2 * (1 + K**2)))}

        return net.law(cls, predict, small)

    @classmethod
    def example(cls, rng: np.random.Generator) -> FinalAlignment:
        """Return a network of either sign between lazy and feature training, with generic fluctuations and rates."""
        return cls(
            strength=rng.uniform(0.3, 2.0) * rng.choice([-1, 1]),
            xi=rng.uniform(0.4, 1.2, 3) * np.array([1, -1, 1]),
            eta_u=rng.uniform(0.3, 3.0),
            eta_w=rng.uniform(0.3, 3.0),
        )
