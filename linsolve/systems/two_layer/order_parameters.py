"""The two-layer network on a line of data through its three order parameters."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import bounds, shown
from linsolve.core.definition import Definition
from linsolve.core.flow import Deferred, Flow, observable
from linsolve.core.map import Map
from linsolve.core.parameters import parameter
from linsolve.core.step_rules import Rule
from linsolve.numerics.checked import in_range
from linsolve.numerics.double_double import DoubleDouble, power_of_two, two_prod
from linsolve.numerics.scalar import full_like, power, unless
from linsolve.systems.two_layer.hyperbolic_rotation import (
    Rotation,
    RotationFixed,
    RotationStart,
    rotated_output,
    rotation,
    unit_for,
    where_moved,
)
from linsolve.systems.two_layer.lazy import LazyTwoLayer
from linsolve.systems.two_layer.line_descent import hessian_top, top_curvature
from linsolve.systems.two_layer.rotation_times import blow_up_time, time_to_loss
from linsolve.systems.two_layer.two_layer import TwoLayer

__all__ = ["TwoLayerOrder"]


class OrderDescent(NamedTuple):
    """State of gradient descent: order parameters and residual."""

    P: Any
    Q: Any
    R: Any
    residual: Any


class TwoLayerOrder(Map):
    r"""The dynamics of `TwoLayer` in three order parameters, at any width.

    .. math:: L = (\kappa (P - Q) - y)^2, \quad \kappa = \frac{\gamma\rho}{\sqrt{\eta_u \eta_w}}, \qquad
        P = |p|^2, \; Q = |q|^2, \; R = p \cdot q, \quad
        p, q = \tfrac12 (\sqrt{\eta_u}\, W x / \rho \pm \sqrt{\eta_w}\, u) .

    Gradient flow of the weights is a gradient flow of P, Q, R, in a metric that depends on P, Q, R (``L_P = dL/dP``):

    .. math:: \dot P = -\eta (2 P L_P + R L_R), \quad \dot Q = -\eta (2 Q L_Q + R L_R), \quad
        \dot R = -\eta (R (L_P + L_Q) + (P + Q) L_R / 2), \qquad \eta = \eta_u \eta_w .

    Hence ``P(t) = P0 A(t)``, ``Q(t) = Q0/A(t)``, and R is constant, with ``A = exp(2 theta)``, theta of `TwoLayer`.

    Parameters
    ----------
    y : array_like, shape batch
        Target.
    gamma : array_like, shape batch
        Scale of the model, any sign.
    eta_u, eta_w : array_like, shape batch
        Learning rates, positive. If one is 0, the order parameters do not determine the output; use `TwoLayer`.
    rho : array_like, shape batch
        Length ``|x|`` of the data point.

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
    Exact for: every ``P, Q >= 0``, every sign of ``gamma`` and ``y``. Not for: rates equal to 0.

    Source: Xu and Ziyin (2024), Theorem 1; ``d P``, ``d Q`` of the source are P, Q here.
    ``linsolve card TwoLayerOrder`` lists the published formulas and their verdicts.

    Accuracy: 1e-13 for P and Q, 1e-12 for the loss (``tests/systems/two_layer/test_two_layer.py``). Lengths and
    alignment are limited by the rounding of P, Q, R. The product of the lengths is
    ``sqrt((P - Q)^2 + 4 (P Q - R^2))`` over the rates, where ``P Q - R^2`` below ``2^-50 P Q`` is set to 0: p and q are
    treated as parallel at angles below about 3e-8. The shorter length then has the relative accuracy of ``P - Q``. The
    weights of `TwoLayer` have no such limit.

    Examples
    --------
    >>> from linsolve import TwoLayerOrder
    >>> traj = TwoLayerOrder(y=1.0)([0.0, 1.0, float("inf")], TwoLayerOrder.State(P=0.02, Q=0.01, R=0.0))
    >>> traj["output"].round(6).tolist()
    [0.01, 0.52948, 1.0]
    """

    y: Any = parameter("y", "target", typical=(-2.0, 2.0))
    gamma: Any = parameter(r"\gamma", "scale of the model", default=1.0)
    eta_u: Any = parameter(r"\eta_u", "learning rate of u", domain="(0, inf)", typical=(0.1, 2.0), default=1.0)
    eta_w: Any = parameter(r"\eta_w", "learning rate of w", domain="(0, inf)", typical=(0.1, 2.0), default=1.0)
    rho: Any = parameter(r"\rho", "length of the data point", domain="[0, inf)", typical=(0.5, 2.0), default=1.0)

    class State(NamedTuple):
        """Order parameters ``P``, ``Q``, ``R``, each of shape batch; ``P, Q >= 0`` and ``R^2 <= P Q``."""

        P: Any
        Q: Any
        R: Any

    axes: ClassVar = {"P": (), "Q": (), "R": ()}
    forward_complete: ClassVar[bool] = True
    one_number: ClassVar[bool] = True

    @classmethod
    def of(cls, flow: TwoLayer, z: Any) -> tuple[TwoLayerOrder, Any]:
        """Return the flow of the order parameters of a `TwoLayer` flow, and its state for the flow's state `z`.

        The target is ``flow.target``: for a `LazyTwoLayer`, ``f_ref + y/alpha``.

        Raises
        ------
        ValueError
            If a learning rate or the data point is 0, or if rounding the target of a `LazyTwoLayer` to a double changes
            it by more than 1e-9 of ``y/alpha``.
        """
        if not isinstance(flow, TwoLayer):
            raise TypeError(
                f"{cls.__name__}.of: flow = {shown(flow)} must be a TwoLayer (network); say TwoLayer(y=1.0)"
            )
        z = flow.state(z)
        xp = arithmetic.namespace(*z)
        flow = flow.cast(xp)
        rho = DoubleDouble(xp, flow.x).length()
        if arithmetic.readable(rho.hi) and np.any(arithmetic.to_numpy(rho.hi) == 0):
            raise ValueError(f"{cls.__name__}: x = 0 (data point) leaves p and q undefined; use TwoLayer")

        def squares() -> tuple[Any, Any, Any]:
            h = (DoubleDouble(xp, z.w) * flow.x[..., None, :]).sum() / rho[..., None]
            b = h * DoubleDouble(xp, flow.eta_u).sqrt()[..., None]
            a = DoubleDouble(xp, flow.eta_w).sqrt()[..., None] * z.u
            half = xp.ones_like(b.hi) / 2
            p, q = (b + a).scaled(half), (b - a).scaled(half)
            return (p * p).sum().hi, (q * q).sum().hi, (p * q).sum().hi

        given = z._asdict() | {"x": flow.x, "eta_u": flow.eta_u, "eta_w": flow.eta_w}
        return cls.made(flow, rho.hi), cls.State(*in_range(f"{cls.__name__}.of", squares, **given))

    @classmethod
    def made(cls, flow: TwoLayer, rho: Any) -> TwoLayerOrder:
        """Return the flow with the target, scale and learning rates of a `TwoLayer` flow, and `rho`."""
        xp = arithmetic.namespace(rho)
        target = flow.target(xp)
        if isinstance(flow, LazyTwoLayer) and arithmetic.readable(target.lo, flow.alpha, flow.y):
            lost = arithmetic.to_numpy(xp.abs(target.lo * flow.alpha) > cls.tolerance * xp.abs(flow.y))
            if lost.any():
                raise ValueError(
                    f"{cls.__name__}: alpha = {arithmetic.to_numpy(flow.alpha).max():.3g} leaves too few digits of "
                    "y/alpha in the target f_ref + y/alpha (scale of the output); use the LazyTwoLayer itself"
                )
        return cls(y=target.hi, gamma=flow.gamma, eta_u=flow.eta_u, eta_w=flow.eta_w, rho=rho)

    @classmethod
    def state(cls, z: Any) -> Any:
        """Return `z` as a State; raise ValueError if no network has these order parameters."""
        z = super().state(z)
        if not arithmetic.readable(*z):
            return z
        for name in ("P", "Q"):
            if (smallest := bounds(getattr(z, name))[0]) < 0:
                raise ValueError(
                    f"{cls.__name__}: {name} = {smallest} must be at least 0 (a squared length); pass "
                    "TwoLayerOrder.of(...)"
                )
        # |R| is at most sqrt(P Q) in exact arithmetic; for a one-unit network rounding may exceed this bound
        xp = arithmetic.namespace(*z)
        most = xp.sqrt(z.P) * xp.sqrt(z.Q) * (1 + cls.tolerance)
        if bounds(xp.abs(z.R) - most)[1] > 0:
            P, Q, R = np.broadcast_arrays(*(arithmetic.to_numpy(v) for v in z))
            excess = np.abs(R) - np.sqrt(P) * np.sqrt(Q) * (1 + cls.tolerance)
            worst = np.unravel_index(np.argmax(excess), excess.shape)
            raise ValueError(
                f"{cls.__name__}: |R| = {abs(R[worst])} must be at most sqrt(P Q) = {np.sqrt(P[worst] * Q[worst])} "
                "(R = p.q); compute all three from weights with TwoLayerOrder.of"
            )
        return z

    # the problem

    def _kappa(self, xp: Any) -> Any:
        return self.gamma * self.rho / (xp.sqrt(self.eta_u) * xp.sqrt(self.eta_w))

    def loss(self, xp: Any, z: Any) -> Any:
        """Return ``(kappa (P - Q) - y)^2``."""
        return self.residual(xp, z) ** 2

    def descent(self, xp: Any, z: Any, gradient: Any) -> Any:
        """Return the velocity that gradient descent on the weights induces; the metric is in the class docstring."""
        eta = self.eta_u * self.eta_w
        mixed = z.R * gradient.R
        return self.State(
            -eta * (2 * z.P * gradient.P + mixed),
            -eta * (2 * z.Q * gradient.Q + mixed),
            -eta * (z.R * (gradient.P + gradient.Q) + (z.P + z.Q) * gradient.R / 2),
        )

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return ``(-4 g r P, 4 g r Q, 0)`` with ``g = sqrt(eta_u eta_w) gamma rho`` and the residual ``r``."""
        rate = 4 * self._coupling(xp) * self.residual(xp, z)
        return self.State(-rate * z.P, rate * z.Q, xp.zeros_like(rate * z.R))

    def _coupling(self, xp: Any) -> Any:
        return xp.sqrt(self.eta_u) * xp.sqrt(self.eta_w) * self.gamma * self.rho

    # the closed form

    def _start(self, xp: Any, z0: Any) -> RotationStart:
        rates = DoubleDouble(xp, self.eta_u).sqrt() * DoubleDouble(xp, self.eta_w).sqrt()
        scale = DoubleDouble(xp, self.gamma) * self.rho
        f0 = (DoubleDouble(xp, z0.P) - z0.Q) * scale / rates
        about = *(xp.sqrt(v) * xp.abs(self.gamma) * self.rho for v in (z0.P, z0.Q)), self._coupling(xp)
        tiny = (xp.maximum(*about[:2]) < 1 / power(xp, 400)) & (xp.abs(scale.hi) < power(xp, 200))
        unit = unit_for(xp, tiny, about[0])
        size = scale.scaled(xp.where(self.gamma < 0, -unit, unit))
        p, q = DoubleDouble(xp, z0.P).sqrt() * size, DoubleDouble(xp, z0.Q).sqrt() * size
        return RotationStart.of(p, q, rates * scale, self.y, f0, about=about, unit=unit)

    def begun(self, xp: Any, z0: Any) -> tuple[RotationStart, RotationFixed]:
        """Return the initial values of the rotation, and further quantities that do not depend on time."""
        start = self._start(xp, z0)
        return start, RotationFixed.of(xp, start)

    def shared(self, xp: Any, t: Any, z0: Any, begun: Any = None) -> tuple[RotationStart, Rotation]:
        """Return the initial values of the rotation, and the rotation at times `t`."""
        start, fixed = begun or self.begun(xp, z0)
        return start, rotation(xp, t, start, fixed)

    def solution(self, xp: Any, t: Any, z0: Any, shared: Any = None) -> Any:
        """Return ``(P0 A, Q0/A, R0)``; at ``t = 0`` bitwise equal to the initial state."""
        return self._rotated(xp, z0, *(shared or self.shared(xp, t, z0)))

    def _rotated(self, xp: Any, z0: Any, start: RotationStart, b: Rotation) -> Any:
        p, q = xp.sqrt(z0.P) * start.unit * b.up, xp.sqrt(z0.Q) * start.unit * b.down
        P, Q = p * p, q * q
        R = z0.R + full_like(xp, P, 0)
        return self.State(where_moved(xp, b.moved, P, z0.P), where_moved(xp, b.moved, Q, z0.Q), R)

    def along(self, xp: Any, t: Any, z0: Any, shared: Any = None) -> Deferred:
        """Return loss, output, residual, alignment and layer norms from closed forms that do not cancel."""
        start, b = shared or self.shared(xp, t, z0)

        @cache
        def output() -> Any:
            return rotated_output(xp, b, start)[0]

        @cache
        def residual() -> Any:
            return start.r0 * b.fade * b.fade

        @cache
        def geometry() -> tuple[Any, Any, Any]:
            z, kappa = self._rotated(xp, z0, start, b), self._kappa(xp)
            difference = xp.where(kappa == 0, z.P - z.Q, output() / unless(xp, kappa == 0, kappa))
            return _geometry(xp, z, difference, _across(xp, z0))

        return Deferred(
            loss=lambda: residual() * residual(),
            output=output,
            residual=residual,
            alignment=lambda: geometry()[2],
            u_norm=lambda: geometry()[0] / xp.sqrt(self.eta_w),
            h_norm=lambda: geometry()[1] * self.rho / xp.sqrt(self.eta_u),
        )

    def limit(self, xp: Any, z0: Any) -> Any:
        """Return the order parameters at ``t = inf``: on the target, or at the saddle ``P = Q = 0``."""
        batch = (self.y + self._kappa(xp) + z0.P + z0.Q + z0.R).shape
        return self.solution(xp, xp.full(batch, xp.inf, dtype=xp.float64), z0)

    def time_to(self, xp: Any, z0: Any, *, loss: Any) -> Any:
        """Return the first time at which the loss has fallen to `loss`, shape batch; inf where it never does."""
        return time_to_loss(xp, self._start(xp, z0), loss=loss)

    def blow_up_time(self, xp: Any, z0: Any) -> Any:
        """Return the negative time at which the backward solution blows up, shape batch; -inf where it does not."""
        return blow_up_time(xp, self._start(xp, z0))

    def lifetime(self, xp: Any, z0: Any) -> tuple[Any, Any]:
        """Return `blow_up_time` and inf."""
        start = self.blow_up_time(xp, z0)
        return start, xp.full_like(start, xp.inf)

    def invariants(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return the products ``P Q`` and ``R``."""
        return {"product": z.P * z.Q, "overlap": z.R}

    def step(self, xp: Any, z: Any, h: Any) -> Any:
        """Return the order parameters after a descent step on the weights, ``p (1 - 2 h g r)``, ``q (1 + 2 h g r)``."""
        turn = 2 * h * self._coupling(xp) * self.residual(xp, z)
        return self.State(z.P * (1 - turn) ** 2, z.Q * (1 + turn) ** 2, z.R * (1 - turn) * (1 + turn))

    def reduced(self, xp: Any, z0: Any) -> tuple[None, OrderDescent]:
        """Return the order parameters and the residual."""
        return None, OrderDescent(z0.P, z0.Q, z0.R, self.residual(xp, z0))

    def advanced(self, xp: Any, fixed: None, now: OrderDescent, rule: Rule) -> OrderDescent:
        """Return order parameters and residual after one step; the step adds a multiple of the residual to it."""
        turn = 2 * rule.h * self._coupling(xp) * now.residual
        P, Q, R = now.P * (1 - turn) ** 2, now.Q * (1 + turn) ** 2, now.R * (1 - turn) * (1 + turn)
        change = self._kappa(xp) * turn * (turn * (now.P - now.Q) - 2 * (now.P + now.Q))
        return OrderDescent(P, Q, R, now.residual + change)

    def restored(self, xp: Any, z0: Any, fixed: None, now: OrderDescent) -> Any:
        """Return the order parameters."""
        return self.State(now.P, now.Q, now.R)

    def described(self, xp: Any, fixed: None, now: OrderDescent) -> dict[str, Any]:
        """Return loss, residual, output and sharpness from the residual, which keeps its relative accuracy.

        The product ``P Q``, which the flow conserves, is multiplied by ``(1 - turn^2)^2`` in each step.
        """
        return {
            "loss": now.residual**2,
            "residual": now.residual,
            "output": now.residual + self.y,
            "sharpness": self._sharpness(xp, now, now.residual),
        }

    def rates(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return the time derivative of the output, ``-2 ntk (f - y)``."""
        return {"output": -2 * self.ntk(xp, z) * self.residual(xp, z)}

    # observables

    @observable()
    def output(self, xp: Any, z: Any) -> Any:
        """Return ``kappa (P - Q)``."""
        return self._kappa(xp) * (z.P - z.Q)

    @observable()
    def residual(self, xp: Any, z: Any) -> Any:
        """Return ``kappa (P - Q) - y``."""
        return self.output(xp, z) - self.y

    @observable(bounds="[0, inf)")
    def ntk(self, xp: Any, z: Any) -> Any:
        """Return the tangent kernel on the data point, ``2 gamma^2 rho^2 (P + Q)``."""
        return 2 * (self.gamma * self.rho) ** 2 * (z.P + z.Q)

    @observable(bounds="[0, inf)")
    def sharpness(self, xp: Any, z: Any) -> Any:
        """Return the largest eigenvalue of the loss's Hessian in the metric of the learning rates.

        A minimum attracts gradient descent if ``step * sharpness < 2``.
        """
        return self._sharpness(xp, z, self.residual(xp, z))

    def _sharpness(self, xp: Any, z: Any, residual: Any) -> Any:
        unit = (self.gamma * self.rho) ** 2
        return top_curvature(xp, unit * z.P, unit * z.Q, self._coupling(xp) * residual)

    @observable(bounds="[-1, 1]")
    def alignment(self, xp: Any, z: Any) -> Any:
        """Return the cosine of the angle between ``u`` and ``W x``, 0 where one of them is 0."""
        return _geometry(xp, z, z.P - z.Q, _across(xp, z))[2]

    @observable(bounds="[0, inf)")
    def u_norm(self, xp: Any, z: Any) -> Any:
        """Return ``|u|``."""
        return _geometry(xp, z, z.P - z.Q, _across(xp, z))[0] / xp.sqrt(self.eta_w)

    @observable(bounds="[0, inf)")
    def h_norm(self, xp: Any, z: Any) -> Any:
        """Return ``|W x|``."""
        return _geometry(xp, z, z.P - z.Q, _across(xp, z))[1] * self.rho / xp.sqrt(self.eta_u)

    def definition(self, xp: Any) -> Definition:
        """Return the network of raw weights, with three hidden units and one input ``rho``."""

        def output(w: Any) -> Any:
            return self.gamma * self.rho * xp.sum(w["u"] * w["w"], axis=-1)

        def state(w: Any) -> Any:
            a, b = xp.sqrt(self.eta_u)[..., None] * w["w"], xp.sqrt(self.eta_w)[..., None] * w["u"]
            p, q = (a + b) / 2, (a - b) / 2
            return self.State(*(xp.sum(v, axis=-1) for v in (p * p, q * q, p * q)))

        def observables(w: Any, kernel: Any) -> dict[str, Any]:
            lengths = [xp.sqrt(xp.sum(w[name] ** 2, axis=-1)) for name in ("u", "w")]
            return {
                "output": output(w),
                "residual": output(w) - self.y,
                "ntk": kernel(w)[..., 0, 0],
                "sharpness": hessian_top(
                    xp,
                    (w["u"], w["w"][..., None], self.rho[..., None]),
                    (self.eta_u, self.eta_w),
                    self.gamma,
                    output(w) - self.y,
                ),
                "alignment": xp.sum(w["u"] * w["w"], axis=-1) / (lengths[0] * lengths[1]),
                "u_norm": lengths[0],
                "h_norm": self.rho * lengths[1],
            }

        return Definition(
            weights={"u": (3,), "w": (3,)},
            rates={"u": self.eta_u, "w": self.eta_w},
            output=output,
            target=self.y,
            state=state,
            observables=observables,
            share=1,
        )

    @classmethod
    def example(cls, rng: np.random.Generator) -> tuple[Flow, Any]:
        """Return the order parameters of the typical networks of `TwoLayer`."""
        return cls.of(*TwoLayer.example(rng))

    @classmethod
    def symbols(cls) -> tuple[dict[str, Any], tuple[Any, ...], dict[Any, Any]]:
        """Return general rates; symbols ``p, q, k > 0`` parametrize P, Q and the target so that ``c`` is rational."""
        import sympy

        p, q, k, gamma, a, b, rho = sympy.symbols("p q k gamma a b rho", positive=True)
        R = sympy.Symbol("R", real=True)
        y = gamma * rho * (k * p**2 - q**2 / k) / (a * b)
        point = {p: 0.3, q: 0.2, k: 1.9, gamma: 1.3, a: 0.7, b: 1.1, rho: 0.9, R: 0.05}
        return {"y": y, "gamma": gamma, "eta_u": b**2, "eta_w": a**2, "rho": rho}, (p**2, q**2, R), point


def _across(xp: Any, z: Any) -> Any:
    """Return the conserved ``2 sqrt(P Q - R^2)``; 0 where it is within the rounding error of P, Q and R."""
    factor = power_of_two(xp, xp.maximum(z.P, z.Q))
    P, Q, R = z.P * factor, z.Q * factor, z.R * factor
    (product, low), (square, lower) = two_prod(xp, P, Q), two_prod(xp, R, R)
    gram = (product - square) + (low - lower)
    rounding = xp.zeros_like(gram) if arithmetic.is_object(xp) else product / 2.0**50
    return 2 * xp.sqrt(unless(xp, gram <= rounding, gram, 0)) / factor


def _geometry(xp: Any, z: Any, difference: Any, across: Any) -> tuple[Any, Any, Any]:
    """Return ``|p - q|``, ``|p + q|`` and the cosine between ``p - q`` and ``p + q``, from ``P - Q`` and `_across`.

    ``(|p - q| |p + q|)^2 = (P - Q)^2 + 4 (P Q - R^2)``, a sum of squares; the larger factor is a sum of positive terms.
    """
    product = xp.hypot(difference, across)
    large = xp.sqrt(xp.full_like(product, 2)) * xp.sqrt(z.P / 2 + z.Q / 2 + xp.abs(z.R))
    small = product / unless(xp, large == 0, large)
    cosine = difference / unless(xp, product == 0, product)
    one = xp.ones_like(cosine)
    above = z.R > 0
    return xp.where(above, small, large), xp.where(above, large, small), xp.minimum(xp.maximum(cosine, -one), one)
