"""A two-layer linear network of any width on a line of data, from any initialization (Xu and Ziyin 2024)."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve.core.definition import Definition
from linsolve.core.flow import Deferred, observable
from linsolve.core.parameters import parameter
from linsolve.numerics.double_double import DoubleDouble, length
from linsolve.numerics.scalar import column, full_like, smallest, total, unless, where
from linsolve.systems.two_layer import line_descent
from linsolve.systems.two_layer.hyperbolic_rotation import where_moved
from linsolve.systems.two_layer.initial_weights import TwoLayerNetworks, line_samples, on_a_line
from linsolve.systems.two_layer.rotated_flow import TwoRotatedLayers
from linsolve.systems.two_layer.rotated_layers import LayersStart, usable

__all__ = ["TwoLayer"]


class TwoLayer(TwoRotatedLayers, TwoLayerNetworks):
    r"""A two-layer linear network with data on a line: all weights at all times, from any initialization.

    .. math:: L = (\gamma\, u \cdot W x - y)^2, \qquad \dot u = -\eta_u \partial L/\partial u, \quad
        \dot W = -\eta_w \partial L/\partial W .

    With ``h = W x``, ``s = |x|``, ``p, q = (sqrt(eta_u) h +- sqrt(eta_w) s u)/2`` and
    ``g = sqrt(eta_u eta_w) gamma s``, learning is a hyperbolic rotation by an angle ``theta(t)``:

    .. math:: p = p_0 e^{\theta}, \quad q = q_0 e^{-\theta}, \quad
        e^{2\theta} = \frac{1 + (2 k_Q + g y) T}{1 + (2 k_P - g y) T}, \quad T = \frac{\tanh 2ct}{c}, \quad
        c^2 = g^2 y^2 + 4 k_P k_Q, \quad k_P = \gamma^2 |p_0|^2, \; k_Q = \gamma^2 |q_0|^2 .

    Parameters
    ----------
    y : array_like, shape batch
        Target.
    gamma : array_like, shape batch
        Scale of the model, any sign.
    eta_u, eta_w : array_like, shape batch
        Learning rates of the two layers (per unit of time); 0 freezes a layer.
    x : array_like, shape batch + (d0,)
        The data point.

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
    Exact for: any width, any weights (balanced or not), every sign of ``gamma`` and ``y``, saddles, frozen layers,
    ``x = 0``, ``t = inf``, and ``t < 0`` down to `blow_up_time`. Data sets on a line through the origin: see
    `from_dataset`. Not for: data off a line, or several outputs. Steps of finite size: `discrete`, `first_step`.
    Losses, outputs and norms of many wide networks, without their weights: `TwoLayerOrder`, which takes a small part of
    the time and runs compiled.
    With ``gamma`` :math:`= (1 + \alpha) / 2` it is a leaky ReLU network of mirrored units on mirrored samples, see
    `linsolve.applies`.

    Source: Xu and Ziyin, "Three Mechanisms of Feature Learning in the Exact Solution of a Latent Variable Model"
    (2024), Theorem 1. The source divides sums over hidden units by the width d; in its
    solution these factors cancel, and here they are left out.

    ``linsolve card TwoLayer`` lists the published formulas and their verdicts.

    Accuracy over scales of 1e-15 to 1e15 against 500 digits (``tests/systems/two_layer/test_two_layer.py``, printed by
    ``benchmarks/accuracy_two_layer.py``): u and W 1e-13 norm-wise; ntk 1e-13 relative, output 1e-13 of ``|f| + |y|``;
    loss, limit and time to a loss 1e-12 relative. For initial weights of 1e-100 to 1e-303 the accuracy is 1e-13
    (``test_tiny_starts.py``). Numbers of every size give the right value or an error (``test_extremes.py``). Two cases
    are ill-conditioned: a weight of a one-unit network close to its zero, and ``t < 0`` close to the blow-up.

    Examples
    --------
    >>> from linsolve import TwoLayer
    >>> flow = TwoLayer(y=1.0, x=[3.0, 4.0])
    >>> traj = flow([0.0, 0.1, float("inf")], flow.State(u=[0.1, 0.0], w=[[0.0, 0.0], [0.0, 0.1]]))
    >>> traj["output"].round(6).tolist()
    [0.0, 0.133059, 1.0]
    """

    y: Any = parameter("y", "target", typical=(-2.0, 2.0))
    gamma: Any = parameter(r"\gamma", "scale of the model", default=1.0)
    eta_u: Any = parameter(r"\eta_u", "learning rate of u", domain="[0, inf)", typical=(0.1, 2.0), default=1.0)
    eta_w: Any = parameter(r"\eta_w", "learning rate of w", domain="[0, inf)", typical=(0.1, 2.0), default=1.0)
    x: Any = parameter("x", "data point", typical=(-1.0, 1.0), axes=("d0",), default=(1.0,))

    class State(NamedTuple):
        """Weights: ``u``, shape batch + (d,), and ``w``, shape batch + (d, d0)."""

        u: Any
        w: Any

    axes: ClassVar = {"u": ("d",), "w": ("d", "d0")}
    one_number: ClassVar[bool] = True
    norms: ClassVar = ("u_norm", "h_norm")
    rules: ClassVar = ("momentum", "decay", "samples")

    # the problem

    def hidden(self, xp: Any, z: Any) -> Any:
        """Return the hidden layer ``W x``, shape batch + (d,)."""
        return xp.sum(z.w * self.x[..., None, :], axis=-1)

    def descent(self, xp: Any, z: Any, gradient: Any) -> Any:
        """Return minus the learning rates times the gradient."""
        return self.State(-self.eta_u[..., None] * gradient.u, -self.eta_w[..., None, None] * gradient.w)

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return ``(-2 eta_u gamma r W x, -2 eta_w gamma r u x^T)``."""
        pull = -2 * self.gamma * self.residual(xp, z)
        back = (pull * self.eta_w)[..., None, None] * z.u[..., :, None] * self.x[..., None, :]
        return self.State((pull * self.eta_u)[..., None] * self.hidden(xp, z), back)

    # the closed form

    def target(self, xp: Any) -> DoubleDouble:
        """Return the target of the output ``gamma u.Wx``, shape batch."""
        return DoubleDouble(xp, self.y)

    def _pair(self, xp: Any, z: Any) -> tuple[Any, Any]:
        return z.u, self.hidden(xp, z)

    def _hidden(self, xp: Any, w: Any) -> DoubleDouble:
        return (DoubleDouble(xp, w) * self.x[..., None, :]).sum()

    def _start(self, xp: Any, z0: Any) -> LayersStart:
        s, rates = DoubleDouble(xp, self.x).length(), (self.eta_u, self.eta_w)
        return LayersStart.of(xp, z0.u, self._hidden(xp, z0.w), s, rates, self.gamma, self.target(xp))

    def begun(self, xp: Any, z0: Any) -> Any:
        """Return the initial values, and further quantities of the layers and of ``w``, that do not depend on time."""
        start, fixed = super().begun(xp, z0)
        return start, fixed, self._row(xp, z0, start)

    def _row(self, xp: Any, z0: Any, start: LayersStart) -> tuple[Any, Any, Any]:
        """Return length and direction of the data point, and the part of ``w`` orthogonal to it, which is constant."""
        unit = start.s + unless(xp, start.s.hi != 0, full_like(xp, start.s.hi, 1), 0)
        e = (DoubleDouble(xp, self.x) / unit.column())[..., None, :]
        across = (-((start.h / unit.column())[..., :, None] * e) + z0.w).hi
        alone = xp.abs(self.x) == column(total(xp, xp.abs(self.x)))  # for a single nonzero input it is exactly 0
        return column(column(unit.hi)), e.hi, unless(xp, alone[..., None, :], across, 0)

    def solution(self, xp: Any, t: Any, z0: Any, shared: Any = None, begun: Any = None) -> Any:
        """Return the weights; at ``t = 0`` bitwise equal to the initial weights."""
        start, layers = shared or self.shared(xp, t, z0, begun)
        size, e, across = begun[2] if begun else self._row(xp, z0, start)
        b, (change, bound) = layers.rotation, layers.change_of_h(start)
        grown, whole = change[..., :, None] / size * e, layers.h[..., :, None] / size * e
        terms = xp.abs(z0.w) + bound[..., :, None] / size * xp.abs(e)
        terms = where(xp, column(column(b.tame)), terms, xp.inf)
        w = smallest(xp, (terms, z0.w + grown), (usable(xp, xp.abs(across) + xp.abs(whole)), across + whole))
        return self.State(layers.u, where_moved(xp, column(column(b.moved)), w, z0.w))

    def restored(self, xp: Any, z0: Any, fixed: line_descent.Fixed, now: line_descent.Factors) -> Any:
        """Return the weights after gradient descent."""
        (u, h), start = line_descent.layers(xp, fixed, now), fixed.start
        size = xp.where(start.s.hi == 0, xp.ones_like(start.s.hi), start.s.hi)[..., None]
        change = (h - now.kept[..., None] * start.h.hi) / size
        along = change[..., :, None] * (self.x / size)[..., None, :]
        return self.State(u, now.kept[..., None, None] * z0.w + along)

    def sampled(self, who: str, xp: Any, samples: Any) -> tuple[Any, Any]:
        """Return, for each step, the weight of the output and the target that represent the weighted samples."""
        return line_samples(who, xp, samples, self.x, self.tolerance)

    def invariants(self, xp: Any, z: Any) -> Deferred:
        """Return the balance per unit, the bivector ``u h^T - h u^T`` and the part of ``w`` orthogonal to the data."""
        u, h, rate_u, rate_w = z.u, self.hidden(xp, z), self.eta_u[..., None], self.eta_w[..., None]
        square = xp.sum(self.x**2, axis=-1)
        safe = xp.where(square == 0, xp.ones_like(square), square)
        return Deferred(
            balance=lambda: rate_u * h**2 - rate_w * square[..., None] * u**2,
            bivector=lambda: u[..., :, None] * h[..., None, :] - h[..., :, None] * u[..., None, :],
            w_across=lambda: z.w - h[..., :, None] * (self.x / safe[..., None])[..., None, :],
        )

    # observables

    @observable()
    def output(self, xp: Any, z: Any) -> Any:
        """Return ``gamma u.Wx``, shape batch."""
        return self.gamma * xp.sum(z.u * self.hidden(xp, z), axis=-1)

    @observable()
    def residual(self, xp: Any, z: Any) -> Any:
        """Return ``gamma u.Wx - y``, shape batch."""
        return self.output(xp, z) - self.y

    @observable(bounds="[0, inf)")
    def ntk(self, xp: Any, z: Any) -> Any:
        """Return the tangent kernel on the data point: ``df/dt = -2 ntk (f - y)``, shape batch."""
        return self.ntk_between(xp, z, self.x, self.x)

    @observable(bounds="[0, inf)")
    def u_norm(self, xp: Any, z: Any) -> Any:
        """Return ``|u|``, shape batch."""
        return length(xp, z.u)

    @observable(bounds="[0, inf)")
    def h_norm(self, xp: Any, z: Any) -> Any:
        """Return ``|W x|``, shape batch."""
        return length(xp, self.hidden(xp, z))

    def ntk_between(self, xp: Any, z: Any, x1: Any, x2: Any) -> Any:
        r"""Return the tangent kernel ``gamma^2 (eta_u (W x1).(W x2) + eta_w |u|^2 x1.x2)``, shape batch.

        Under training on `x`, ``df(x1)/dt = -2 ntk_between(x1, x) (f(x) - y)``.
        """
        first, second = (xp.sum(z.w * v[..., None, :], axis=-1) for v in (x1, x2))
        inner = self.eta_w * xp.sum(z.u**2, axis=-1) * xp.sum(x1 * x2, axis=-1)
        return self.gamma**2 * (self.eta_u * xp.sum(first * second, axis=-1) + inner)

    # constructors, besides those of `TwoLayerNetworks`

    @classmethod
    def from_dataset(cls, X: Any, y: Any, *, gamma: Any = 1.0, eta_u: Any = 1.0, eta_w: Any = 1.0) -> TwoLayer:
        r"""Return the flow of a data set that lies on a line through the origin (Proposition 1).

        With samples ``X_k = a_k n``, ``|n| = 1``, and E the mean over samples, the loss ``E (gamma u.WX - y)^2`` is
        this flow's loss at ``x = sqrt(E a^2) n``, target ``E(a y)/sqrt(E a^2)``, plus the constant
        ``E y^2 - (E a y)^2/E a^2``. The appendix of the source has sums in place of means, which rescales time by the
        number of samples.

        Parameters
        ----------
        X : array_like, shape (N, d0)
            Samples.
        y : array_like, shape (N,)
            Targets.
        gamma, eta_u, eta_w : array_like
            As for the flow.

        Raises
        ------
        NotExact
            If the relative Frobenius distance of the samples from every line through the origin exceeds 1e-9.
        """
        x, target = on_a_line(f"{cls.__name__}.from_dataset", X, y, cls.tolerance)
        return cls(y=target, gamma=gamma, eta_u=eta_u, eta_w=eta_w, x=x)

    def definition(self, xp: Any) -> Definition:
        """Return the network of raw weights, with three hidden units."""

        def hidden(w: Any) -> Any:
            return (w["w"] @ self.x[..., :, None])[..., 0]

        def output(w: Any) -> Any:
            return self.gamma * xp.sum(w["u"] * hidden(w), axis=-1)

        def observables(w: Any, kernel: Any) -> dict[str, Any]:
            lengths = [xp.sqrt(xp.sum(v**2, axis=-1)) for v in (w["u"], hidden(w))]
            return {
                "output": output(w),
                "residual": output(w) - self.y,
                "ntk": kernel(w)[..., 0, 0],
                "sharpness": self._curvature(xp, w, output(w) - self.y),
                "alignment": xp.sum(w["u"] * hidden(w), axis=-1) / (lengths[0] * lengths[1]),
                "u_norm": lengths[0],
                "h_norm": lengths[1],
            }

        return Definition(
            weights={"u": (3,), "w": (3, self.x.shape[-1])},
            rates={"u": self.eta_u, "w": self.eta_w},
            output=output,
            target=self.y,
            state=lambda w: self.State(w["u"], w["w"]),
            observables=observables,
            share=1,
        )

    def _curvature(self, xp: Any, w: Any, residual: Any) -> Any:
        layers, rates = (w["u"], w["w"], self.x), (self.eta_u, self.eta_w)
        return line_descent.hessian_top(xp, layers, rates, self.gamma, residual)

    @classmethod
    def example(cls, rng: np.random.Generator) -> tuple[TwoLayer, Any]:
        """Return three networks of five units on three inputs: unequal rates, targets and scales of both signs."""
        flow = cls(
            y=rng.uniform(0.5, 2.0, 3) * np.array([1, -1, 1]),
            gamma=rng.uniform(0.5, 1.5, 3) * np.array([1, 1, -1]),
            eta_u=rng.uniform(0.3, 0.9),
            eta_w=rng.uniform(1.1, 2.0),
            x=rng.uniform(0.3, 1.0, 3) * np.array([1, -1, 1]),
        )
        return flow, cls.init(5, 3, sigma_u=0.4, sigma_w=0.7, batch=(3,), rng=rng)
