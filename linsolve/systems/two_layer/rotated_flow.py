"""Flows of two layers with one scalar residual: closed form and gradient descent, from their initial layers."""

from __future__ import annotations

from functools import cache, partial
from typing import Any, ClassVar

import numpy as np

from linsolve.core.flow import Deferred, observable
from linsolve.core.map import Map, Take
from linsolve.core.step_rules import Rule
from linsolve.numerics.double_double import cosine, length
from linsolve.systems.two_layer import line_descent
from linsolve.systems.two_layer.hyperbolic_rotation import Rotation, tangent_kernel
from linsolve.systems.two_layer.rotated_layers import Layers, LayersFixed, LayersStart
from linsolve.systems.two_layer.rotation_times import blow_up_time, time_to_loss

__all__ = ["TwoRotatedLayers"]


class TwoRotatedLayers(Map):
    """Base of flows of two layers with the loss ``weight r^2``.

    They are solved with the loss ``r^2`` and learning rates multiplied by ``weight/pace``, at the time ``pace t``;
    `pace` is a power of two.
    """

    forward_complete: ClassVar[bool] = True
    weight: ClassVar[float] = 1
    pace: ClassVar[float] = 1
    norms: ClassVar[tuple[str, str]]  # names of the observables for the norms of the layers
    rules: ClassVar[tuple[str, ...]] = ("momentum", "decay")

    def _start(self, xp: Any, z0: Any) -> LayersStart:
        raise NotImplementedError

    def _pair(self, xp: Any, z: Any) -> tuple[Any, Any]:
        """Return the two layers of a state, each of shape batch + (d,)."""
        raise NotImplementedError

    def residual(self, xp: Any, z: Any) -> Any:
        """Return the output minus its target, shape batch."""
        raise NotImplementedError

    def ntk(self, xp: Any, z: Any) -> Any:
        """Return the tangent kernel on the data point, shape batch."""
        raise NotImplementedError

    def loss(self, xp: Any, z: Any) -> Any:
        """Return the squared residual times the weight of the loss, shape batch."""
        return self.residual(xp, z) ** 2 * self.weight

    def begun(self, xp: Any, z0: Any) -> Any:
        """Return the initial values, and further quantities that do not depend on time."""
        start = self._start(xp, z0)
        return start, LayersFixed.of(xp, start)

    def shared(self, xp: Any, t: Any, z0: Any, begun: Any = None) -> tuple[LayersStart, Layers]:
        """Return the initial values, and the layers at times `t`."""
        start, fixed, *_ = begun or TwoRotatedLayers.begun(self, xp, z0)
        return start, Layers.at(xp, t * self.pace, start, fixed)

    def along(self, xp: Any, t: Any, z0: Any, shared: Any = None) -> Deferred:
        """Return loss, output, residual, ntk, alignment and norms from closed forms that do not cancel."""
        start, layers = shared or self.shared(xp, t, z0)
        lengths = [cache(partial(length, xp, layer)) for layer in (layers.u, layers.h)]

        @cache
        def residual() -> Any:
            return start.rotation.r0 * layers.rotation.fade * layers.rotation.fade

        return Deferred(
            loss=lambda: residual() * residual() * self.weight,
            output=lambda: layers.output,
            residual=residual,
            ntk=lambda: tangent_kernel(xp, layers.rotation, start.rotation) * (self.pace / self.weight),
            sharpness=lambda: self._sharpness(xp, start, layers.rotation, residual()),
            alignment=lambda: layers.alignment(xp, start),
            **dict(zip(self.norms, lengths, strict=True)),
        )

    # gradient descent

    def reduced(self, xp: Any, z0: Any) -> tuple[line_descent.Fixed, line_descent.Factors]:
        """Return the initial values, and the factors before the first step."""
        return line_descent.begun(xp, self._start(xp, z0))

    def advanced(
        self, xp: Any, fixed: line_descent.Fixed, now: line_descent.Factors, rule: Rule
    ) -> line_descent.Factors:
        """Return the factors after one step."""
        return line_descent.advanced(xp, fixed, now, rule._replace(h=rule.h * self.pace))

    def repeated(
        self, xp: Any, fixed: line_descent.Fixed, now: line_descent.Factors, rule: Rule, count: int, take: Take
    ) -> Any:
        """Return the factors after `count` equal steps."""
        if xp is not np or not rule.plain:
            return super().repeated(xp, fixed, now, rule, count, take)
        return line_descent.repeated(fixed, now, rule.h * self.pace, count, take)

    def described(self, xp: Any, fixed: line_descent.Fixed, now: line_descent.Factors) -> Deferred:
        """Return loss, residual, output, ntk, sharpness and invariant from the factors."""
        return line_descent.described(xp, fixed, now, self.weight, self.pace)

    # further statements

    def limit(self, xp: Any, z0: Any) -> Any:
        """Return the weights at ``t = inf``: on the target, or at the saddle where both layers vanish."""
        return self.solution(xp, xp.full_like(self._start(xp, z0).rotation.p, xp.inf), z0)

    def time_to(self, xp: Any, z0: Any, *, loss: Any) -> Any:
        """Return the first time at which the loss has fallen to `loss`, shape batch; inf where it never does."""
        return time_to_loss(xp, self._start(xp, z0).rotation, loss=loss / self.weight) / self.pace

    def blow_up_time(self, xp: Any, z0: Any) -> Any:
        """Return the negative time at which the backward solution blows up, shape batch; -inf where it does not."""
        return blow_up_time(xp, self._start(xp, z0).rotation) / self.pace

    def lifetime(self, xp: Any, z0: Any) -> tuple[Any, Any]:
        """Return `blow_up_time` and inf."""
        start = self.blow_up_time(xp, z0)
        return start, xp.full_like(start, xp.inf)

    def rates(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return the time derivative of the output: minus the tangent kernel times ``dL/df``."""
        return {"output": -2 * self.weight * self.ntk(xp, z) * self.residual(xp, z)}

    def _sharpness(self, xp: Any, start: LayersStart, b: Rotation | None, residual: Any) -> Any:
        one = 1 / start.rotation.unit
        up, down = (one, one) if b is None else (xp.where(b.moved, v, one) for v in (b.up, b.down))
        p, q = start.rotation.p * up, start.rotation.q * down
        return line_descent.top_curvature(xp, p * p, q * q, start.rotation.g * residual) * self.pace

    @observable(bounds="[0, inf)")
    def sharpness(self, xp: Any, z: Any) -> Any:
        """Return the largest eigenvalue of the loss's Hessian in the metric of the learning rates, shape batch.

        A minimum attracts gradient descent if ``step * sharpness < 2``.
        """
        return self._sharpness(xp, self._start(xp, z), None, self.residual(xp, z))

    @observable(bounds="[-1, 1]")
    def alignment(self, xp: Any, z: Any) -> Any:
        """Return the cosine of the angle between the layers, 0 where one of them is 0, shape batch."""
        return cosine(xp, *self._pair(xp, z))
