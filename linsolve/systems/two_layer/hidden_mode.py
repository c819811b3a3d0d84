"""One mode of a two-layer linear network with any number of hidden units (Saxe, McClelland, Ganguli 2014)."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve.core.definition import Definition
from linsolve.core.flow import Deferred, Flow, observable
from linsolve.core.parameters import parameter
from linsolve.numerics.double_double import DoubleDouble
from linsolve.systems.mode.biased_mode import HiddenUnits
from linsolve.systems.two_layer import line_descent
from linsolve.systems.two_layer.rotated_flow import TwoRotatedLayers
from linsolve.systems.two_layer.rotated_layers import LayersStart

__all__ = ["HiddenMode"]


class HiddenMode(TwoRotatedLayers, HiddenUnits):
    r"""One singular mode with a hidden layer of any width, balanced or not; each layer has its own learning rate.

    .. math:: L = (w \cdot h - s)^2 / 2, \qquad \dot w = -\eta_w \partial L/\partial w, \quad
        \dot h = -\eta_h \partial L/\partial h .

    Let ``k = sqrt(eta_w eta_h)`` and ``g+- = sqrt(eta_h) w +- sqrt(eta_w) h``. The directions of ``g+`` and ``g-`` are
    conserved, and ``G = |g+|^2`` obeys a scalar Riccati equation:

    .. math:: G(t) = \frac{G_0 (\Omega + 2 k s \vartheta) + K \vartheta}{\Omega + (G_0 - 2 k s) \vartheta}, \quad
        \vartheta = \tanh\frac{\Omega t}{2}, \quad K = |g_+|^2 |g_-|^2, \quad \Omega^2 = 4 k^2 s^2 + K, \quad
        g_\pm(t) = g_\pm(0) (G/G_0)^{\pm 1/2} .

    For ``K = 0`` (balanced and aligned) this is the logistic growth of `BalancedMode`; for ``K > 0`` it is hyperbolic.

    Parameters
    ----------
    s : array_like, shape batch
        Singular value of the input-output map; any sign, zero included.
    eta_w, eta_h : array_like, shape batch
        Learning rates of the two layers (per unit of time), positive.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, or shapes do not fit. At a call, also for an invalid
        state or time.
    OverflowError
        At a call, or at the access of an observable, if results leave the range of doubles.

    Notes
    -----
    Exact for: any width, any initial state (at the saddle 0, on its stable manifold, balanced or not), every sign of
    `s`, ``t = inf``, and ``t < 0`` down to the blow-up of the solution. The modes of one network decouple into such
    flows if they occupy mutually orthogonal hidden directions. Not for: modes that share hidden directions, see
    `WhitenedTwoLayer`.

    Sources: Saxe, McClelland, Ganguli, "Exact solutions to the nonlinear dynamics of learning in deep linear neural
    networks" (2014), supplementary hyperbolic solution of one mode (scalar weights, equal rates); Seleznova, thesis
    (2024), eqs. (25), (26) restricted to one class mode, with ``eta_w = m``, ``eta_h = mu_c`` and ``s = 1``.

    The closed form is evaluated by the hyperbolic rotation of `TwoLayer` with one input, at half the time.

    Accuracy: weights 1e-13 norm-wise, loss and residual 1e-12 relative, also long after convergence, against 60 digits.
    Tested for initial weights of 1e-12 to 10 (``tests/systems/two_layer/test_hidden_mode.py``), and of 1e-100 down to
    the smallest doubles (``tests/systems/two_layer/test_tiny_starts.py``).

    ``linsolve card HiddenMode`` lists the published formulas and their verdicts.

    Examples
    --------
    >>> from linsolve import HiddenMode
    >>> traj = HiddenMode(s=2.0, eta_h=0.5)([0.0, 1.0, float("inf")], ([0.1, 0.0], [0.0, 0.2]))
    >>> traj["output"].round(6).tolist()
    [0.0, 0.239507, 2.0]
    """

    s: Any = parameter("s", "singular value of the input-output map", typical=(0.5, 3.0))
    eta_w: Any = parameter(r"\eta_w", "learning rate of w", domain="(0, inf)", typical=(0.1, 2.0), default=1.0)
    eta_h: Any = parameter(r"\eta_h", "learning rate of h", domain="(0, inf)", typical=(0.1, 2.0), default=1.0)

    class State(NamedTuple):
        """Weights out of and into the hidden units, ``w`` and ``h``, each of shape batch + (d,)."""

        w: Any
        h: Any

    axes: ClassVar = {"w": ("d",), "h": ("d",)}
    norms: ClassVar = ("w_norm", "h_norm")
    one_number: ClassVar[bool] = True
    weight: ClassVar[float] = 0.5
    pace: ClassVar[float] = 0.25  # p and q of equal layers then have no factor of sqrt(2)

    # the problem

    def descent(self, xp: Any, z: Any, gradient: Any) -> Any:
        """Return minus the learning rates times the gradient."""
        return self.State(-self.eta_w[..., None] * gradient.w, -self.eta_h[..., None] * gradient.h)

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return ``(-eta_w r h, -eta_h r w)``, ``r = w.h - s``."""
        r = self.residual(xp, z)
        return self.State(-(self.eta_w * r)[..., None] * z.h, -(self.eta_h * r)[..., None] * z.w)

    # the closed form

    def _pair(self, xp: Any, z: Any) -> tuple[Any, Any]:
        return z.w, z.h

    def _start(self, xp: Any, z0: Any) -> LayersStart:
        one, rates = xp.ones_like(self.s), (2 * self.eta_w, 2 * self.eta_h)
        return LayersStart.of(xp, z0.w, DoubleDouble(xp, z0.h), DoubleDouble(xp, one), rates, one, self.s)

    def solution(self, xp: Any, t: Any, z0: Any, shared: Any = None) -> Any:
        """Return the weights; at ``t = 0`` bitwise equal to the initial weights."""
        _, layers = shared or self.shared(xp, t, z0)
        return self.State(layers.u, layers.h)

    def restored(self, xp: Any, z0: Any, fixed: line_descent.Fixed, now: line_descent.Factors) -> Any:
        """Return the weights after gradient descent."""
        return self.State(*line_descent.layers(xp, fixed, now))

    def invariants(self, xp: Any, z: Any) -> Deferred:
        """Return the balance ``eta_h w^2 - eta_w h^2`` per unit, and the bivector ``w h^T - h w^T``."""
        return Deferred(
            balance=lambda: self.eta_h[..., None] * z.w**2 - self.eta_w[..., None] * z.h**2,
            bivector=lambda: z.w[..., :, None] * z.h[..., None, :] - z.h[..., :, None] * z.w[..., None, :],
        )

    # observables

    @observable()
    def output(self, xp: Any, z: Any) -> Any:
        """Return the strength of the mode ``w.h``, shape batch."""
        return xp.sum(z.w * z.h, axis=-1)

    @observable()
    def residual(self, xp: Any, z: Any) -> Any:
        """Return ``w.h - s``, shape batch."""
        return self.output(xp, z) - self.s

    @observable(bounds="[0, inf)")
    def ntk(self, xp: Any, z: Any) -> Any:
        """Return the tangent kernel ``eta_w |h|^2 + eta_h |w|^2``, shape batch."""
        return self.eta_w * xp.sum(z.h**2, axis=-1) + self.eta_h * xp.sum(z.w**2, axis=-1)

    def definition(self, xp: Any) -> Definition:
        """Return the network of raw weights, with three hidden units."""
        rates = (self.eta_w, self.eta_h)

        def sides(w: Any) -> tuple[Any, Any, Any]:
            return w["w"], w["h"][..., None], xp.ones_like(w["h"][..., :1])

        def observables(w: Any, kernel: Any) -> dict[str, Any]:
            output = xp.sum(w["w"] * w["h"], axis=-1)
            lengths = {f"{name}_norm": xp.sqrt(xp.sum(w[name] ** 2, axis=-1)) for name in ("w", "h")}
            return lengths | {
                "output": output,
                "residual": output - self.s,
                "ntk": kernel(w)[..., 0, 0],
                "sharpness": line_descent.hessian_top(xp, sides(w), rates, xp.ones_like(self.s), output - self.s) / 2,
                "alignment": output / (lengths["w_norm"] * lengths["h_norm"]),
            }

        return Definition(
            weights={"w": (3,), "h": (3,)},
            rates={"w": self.eta_w, "h": self.eta_h},
            output=lambda w: xp.sum(w["w"] * w["h"], axis=-1),
            target=self.s,
            state=lambda w: self.State(w["w"], w["h"]),
            observables=observables,
        )

    @classmethod
    def example(cls, rng: np.random.Generator) -> tuple[Flow, Any]:
        """Return three modes of four hidden units: unequal rates, targets of both signs, generic initial weights."""
        flow = cls(
            s=rng.uniform(0.5, 2.0, 3) * np.array([1, -1, 1]), eta_w=rng.uniform(0.3, 0.9), eta_h=rng.uniform(1.1, 2.0)
        )
        return flow, cls.State(0.4 * rng.normal(size=(3, 4)), 0.6 * rng.normal(size=(3, 4)))

    @classmethod
    def symbols(cls) -> tuple[dict[str, Any], tuple[Any, ...], dict[Any, Any]]:
        """Return one unit; symbols ``p, q, k > 0`` parametrize weights and target, which makes the rate rational."""
        import sympy

        p, q, k, a, b = sympy.symbols("p q k a b", positive=True)
        parameters = {"s": (k * p**2 - q**2 / k) / (a * b), "eta_w": 2 * b**2, "eta_h": 2 * a**2}
        return parameters, ([(p - q) / a], [(p + q) / b]), {p: 0.3, q: 0.2, k: 0.4, a: 0.7, b: 1.1}
