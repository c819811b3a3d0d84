"""One balanced singular mode of a linear network of any depth (Saxe et al. 2014; Atanasov et al. 2022)."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.definition import Definition
from linsolve.core.flow import Flow
from linsolve.core.map import Map
from linsolve.core.parameters import parameter
from linsolve.core.step_rules import Rule
from linsolve.numerics.scalar import root_of_twice
from linsolve.systems.mode.balanced_mode import ModeDescent
from linsolve.systems.mode.growth import deep_growth
from linsolve.systems.mode.growth_begun import Growth
from linsolve.systems.mode.growth_time import deep_growth_time

__all__ = ["OPPOSITE", "DeepMode"]

OPPOSITE = "start of the sign opposite to s at 1 < depth < 2 (a reaches 0 in finite time, and is not unique after)"


class DeepMode(Map):
    r"""One balanced singular mode of a linear network of any real depth; the plateau lengthens with depth.

    .. math:: L = (s - a)^2 / 2, \qquad \tau \dot a = D\, |a|^{2 - 2/D} (s - a), \qquad a = u^D,

    where :math:`u` is the weight of the mode in each of the :math:`D` balanced layers, under gradient flow with time
    constant :math:`\tau`. ``depth = inf`` is the limit at fixed :math:`D/\tau`: :math:`\tau \dot a = a^2 (s - a)`.

    With :math:`y = a/s`, :math:`m = 1 - 2/D`, :math:`p = 2 - 2/D`, the time to grow from ``a0`` to ``a`` is
    :math:`t = \tau\,(G(y) - G(y_0)) / (D |s|^p)` (without the ``D`` at infinite depth), where :math:`G` is

    * for ``0 < y < 1``: :math:`-y^{-m} {}_2F_1(1, -m; 1 - m; y)/m`; at depth 2 :math:`\log(y/(1 - y))`; at infinite
      depth :math:`\log(y/(1 - y)) - 1/y`;
    * for ``y > 1``: :math:`y^{-p} {}_2F_1(1, p; 1 + p; 1/y)/p`;
    * for ``y < 0``, ``v = -y``: :math:`v^{-p} {}_2F_1(1, p; 1 + p; -1/v)/p = B_{1/(1 + v)}(p, 1 - p)`, incomplete beta;
    * for integer ``D >= 3`` elementary, with :math:`z = |y|^{1/D}` and the roots of unity
      :math:`\omega_k = e^{2\pi i k/D}`: :math:`D z^{2-D}/(2-D) - \mathrm{Re} \sum_k \omega_k^2 \log(1 - z/\omega_k)`.

    ``s = 0``: :math:`a = a_0 (1 + p D |a_0|^p t/\tau)^{-1/p}`. Explicit in time: depth 1,
    :math:`a = s + (a_0 - s) e^{-t/\tau}`; depth 2, the sigmoid of `BalancedMode`; infinite depth,
    :math:`a = s/(1 + w)` with :math:`w = W(w_0 e^{w_0 - s^2 t/\tau})`, Lambert's function (branch 0 where ``a0 s > 0``,
    else -1). At every depth above 1 the closed form for the time is inverted to full double precision.

    Parameters
    ----------
    s : array_like, shape batch
        Singular value of the input-output map; any sign, zero included.
    depth : array_like, shape batch
        Number of layers, real, at least 1; ``inf`` for the depth-normalized limit. It may vary within a batch.
    tau : array_like, shape batch
        Time constant (units of time), positive. With layer-wise learning rates ``eta_l`` and weights balanced in the
        weighted sense, ``W_l W_l^T / eta_l = W_{l+1}^T W_{l+1} / eta_{l+1}``, it is one over their geometric mean.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, or shapes do not fit. At a call, also for an invalid
        state or time.
    NotExact
        At a call, if the start has the sign opposite to ``s`` at a depth between 1 and 2.
    OverflowError
        At a call, or at the access of an observable, if results leave the range of doubles.

    Notes
    -----
    Exact for: every ``a0`` where ``a0 s >= 0``; at depth 1 and at depth 2 or more also where ``a0 s < 0``. Under
    gradient flow a balanced mode of depth 2 or more keeps its sign; with ``a0 s < 0`` it converges to the saddle at 0.
    A mode of depth 1 crosses 0. Steps of finite size: `discrete`, `first_step`. ``a0 = 0``
    is a stationary point of gradient descent unless the depth is 1. Not for: unbalanced modes; negative times;
    ``a0 s < 0`` at depths between 1 and 2 (`NotExact`). There ``a`` reaches 0 in finite time and, as
    ``|a|^(2 - 2/depth)`` is not Lipschitz at 0, the continuation is not unique.

    Sources: Saxe, McClelland, Ganguli, "Exact solutions to the nonlinear dynamics of learning in deep linear neural
    networks" (2014), eqs. (14)-(16); Atanasov, Bordelon, Pehlevan, "Neural networks as kernel learners: the silent
    alignment effect" (2022), eqs. (38)-(40). ``linsolve card DeepMode`` lists the published formulas and their
    verdicts.

    Accuracy: ``1e-13 (1 + condition)`` relative for the state and for the loss against 50 digits. The condition number
    ``|t a'/a|`` (``|t (s-a)'/(s-a)|`` for the loss) is the relative effect of a relative error of `t`. It is large
    after a long plateau: from ``a0 = 1e-12 s`` at infinite depth, rounding `t` moves ``a`` by 1e-4 at ``a = s/2``
    (``tests/systems/mode/test_deep_mode.py``; ``benchmarks/accuracy_deep_mode.py``). Where `a0`, `s`, `tau` or ``a0/s``
    is beyond 1e90 or below 1e-90, the bound is ``1e-12 (1 + condition)``, up to the ends of the range of doubles
    (``tests/systems/mode/test_deep_mode_extremes.py``). `when` raises OverflowError where ``a0/s`` leaves that range.

    Examples
    --------
    >>> from linsolve import DeepMode
    >>> traj = DeepMode(s=2.0, depth=[2, 3, float("inf")])([0.0, 1.0, float("inf")], 0.1)
    >>> traj["a"].round(6).tolist()
    [[0.1, 0.1, 0.1], [1.483683, 1.746565, 0.123292], [2.0, 2.0, 2.0]]
    """

    s: Any = parameter("s", "singular value of the input-output map", typical=(0.5, 3.0))
    depth: Any = parameter(
        "D", "number of layers; inf for the depth-normalized limit", domain="[1, inf]", typical=(1, 8)
    )
    tau: Any = parameter(r"\tau", "time constant", domain="(0, inf)", typical=(0.5, 2.0), default=1.0)

    class State(NamedTuple):
        """Strength of the mode, ``a``, shape batch."""

        a: Any

    axes: ClassVar = {"a": ()}
    one_number: ClassVar[bool] = True

    def _metric(self, xp: Any, a: Any) -> Any:
        """Return ``depth |a|^(2 - 2/depth) / tau``, the metric that the layers' weights induce on their product."""
        gain = xp.where(xp.isinf(self.depth), xp.ones_like(self.depth), self.depth)
        return gain * xp.pow(xp.abs(a), 2 - 2 / self.depth) / self.tau

    def loss(self, xp: Any, z: Any) -> Any:
        """Return ``(s - a)^2 / 2``."""
        return (self.s - z.a) ** 2 / 2

    def descent(self, xp: Any, z: Any, gradient: Any) -> Any:
        """Return minus the metric ``depth |a|^(2 - 2/depth) / tau`` times the gradient."""
        return self.State(-self._metric(xp, z.a) * gradient.a)

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return ``depth |a|^(2 - 2/depth) (s - a) / tau``."""
        return self.State(self._metric(xp, z.a) * (self.s - z.a))

    def conditions(self, xp: Any, z0: Any) -> dict[str, Any]:
        """Return 1 where ``a`` reaches 0 in finite time and its continuation is not unique, else 0."""
        lost = (self.depth > 1) & (self.depth < 2) & (xp.sign(z0.a) * xp.sign(self.s) < 0)
        zero = 0 * (self.s + z0.a)
        return {OPPOSITE: xp.where(lost, 1 + zero, zero)}

    def begun(self, xp: Any, z0: Any) -> Growth | None:
        """Return the quantities of the growth that do not depend on time."""
        return None if arithmetic.is_jax(xp) else Growth.of(xp, z0.a, self.s, self.depth, self.tau)

    def shared(self, xp: Any, t: Any, z0: Any, begun: Growth | None = None) -> tuple[Any, Any]:
        """Return ``a`` and ``s - a`` at times `t`, each to full relative accuracy."""
        return deep_growth(xp, t, z0.a, self.s, self.depth, self.tau, begun)

    def solution(self, xp: Any, t: Any, z0: Any, shared: Any = None) -> Any:
        """Return the strength of the mode; at ``t = 0`` bitwise equal to the initial state."""
        return self.State((shared or self.shared(xp, t, z0))[0])

    def gap(self, xp: Any, t: Any, z0: Any) -> Any:
        """Return ``s - a`` at times `t`, to full relative accuracy."""
        return self.shared(xp, t, z0)[1]

    def along(self, xp: Any, t: Any, z0: Any, shared: Any = None) -> dict[str, Any]:
        """Return the loss from the closed form of ``s - a``, which does not cancel."""
        gap = shared[1] if shared else self.gap(xp, t, z0)
        return {"loss": gap * gap / 2}

    def limit(self, xp: Any, z0: Any) -> Any:
        """Return `s` where ``a0`` has the sign of `s` or the depth is 1, else 0."""
        learned = (self.depth == 1) | (xp.sign(z0.a) * xp.sign(self.s) > 0)
        zero = 0 * (self.s + z0.a)
        return self.State(xp.where(learned, self.s + zero, zero))

    def time_to(self, xp: Any, z0: Any, *, loss: Any) -> Any:
        """Return the time at which the loss has fallen to `loss`, inf where it never does; by the closed form."""
        g0 = self.s - z0.a + 0 / self.depth
        one = xp.ones_like(g0)
        g1 = root_of_twice(xp, loss) * xp.where(g0 < 0, -one, one)
        straight = self.depth == 1
        moving = ~straight & (z0.a != 0)
        # where a0 s < 0 or s = 0, a tends to 0 and the loss to s^2/2
        never = (g1 == 0) | (~straight & ((z0.a == 0) | ((self.s - g1) * xp.sign(z0.a) <= 0)))
        there = xp.abs(g1) >= xp.abs(g0)
        wanted = ~(never | there)
        linear = xp.log1p(xp.where(wanted & straight, (g0 - g1) / xp.where(g1 == 0, one, g1), 0 * one))
        # safe operands where the time is 0 or infinite
        a0 = xp.where(wanted & moving, z0.a + 0 * one, one)
        s = xp.where(wanted & moving, self.s + 0 * one, 2 * one)
        gap = xp.where(wanted & moving, g1, one / 2)
        depth = xp.where(wanted & moving, self.depth + 0 * one, 2 * one)
        time = self.tau * xp.where(straight, linear, deep_growth_time(xp, a0, gap, s, depth))
        return xp.where(there, 0 * time, xp.where(never, xp.inf + 0 * time, time))

    def step(self, xp: Any, z: Any, h: Any) -> Any:
        """Return the product after one descent step of all layers, ``a (1 + h (s - a) a |a|^(-2/depth) / tau)^depth``.

        At infinite depth this is the limit ``a exp(h (s - a) |a| / tau)``; at depth 1, ``a + h (s - a) / tau``. The
        minimum attracts descent if ``h depth |s|^(2 - 2/depth) < 2 tau``, at infinite depth ``h s^2 < 2 tau``.
        """
        return self.State(self._descended(xp, z.a, self.s - z.a, h).a)

    def _descended(self, xp: Any, a: Any, gap: Any, h: Any) -> ModeDescent:
        endless, straight = xp.isinf(self.depth), self.depth == 1
        depth = xp.where(endless | straight, 2 * xp.ones_like(self.depth), self.depth)
        size = xp.where(a == 0, xp.ones_like(a), xp.abs(a))
        pull = h * gap * xp.sign(a) / self.tau
        change = pull * xp.pow(size, 1 - 2 / depth)
        near = change > -0.5  # the power of a factor close to 1 loses depth digits
        power = depth * xp.log1p(xp.where(near, change, 0 * change))
        power = xp.where(endless, pull * xp.where(endless, size, 0 * size), power)
        # at odd depths a long step that moves the weights across 0 changes the sign of their product
        factor = 1 + change
        flip = xp.where((factor < 0) & (depth % 2 == 1), -xp.ones_like(factor), xp.ones_like(factor))
        far = a * flip * xp.pow(xp.abs(factor), depth)
        near = near | endless
        move = xp.where(straight, h * gap / self.tau, a * xp.expm1(power))
        found = xp.where(straight, a + move, xp.where(near, a * xp.exp(power), far))
        return ModeDescent(found, xp.where(near | straight, gap - move, self.s - found))

    def reduced(self, xp: Any, z0: Any) -> tuple[None, ModeDescent]:
        """Return the product and its distance from the target."""
        return None, ModeDescent(z0.a + 0 * self.s, self.s - z0.a)

    def advanced(self, xp: Any, fixed: None, now: ModeDescent, rule: Rule) -> ModeDescent:
        """Return both after one step."""
        return self._descended(xp, now.a, now.gap, rule.h)

    def restored(self, xp: Any, z0: Any, fixed: None, now: ModeDescent) -> Any:
        """Return the product."""
        return self.State(now.a)

    def described(self, xp: Any, fixed: None, now: ModeDescent) -> dict[str, Any]:
        """Return the loss from the distance, which keeps its relative accuracy."""
        return {"loss": now.gap**2 / 2}

    def curvature(self, xp: Any, z: Any) -> Any:
        """Return ``L''`` in the weight that all layers share, times its learning rate, for nonzero `a`.

        It is the metric times ``1 - (1 - 1/depth) (s - a) / a``.
        """
        return self._metric(xp, z.a) * (1 - (1 - 1 / self.depth) * (self.s - z.a) / z.a)

    def definition(self, xp: Any) -> Definition:
        """Return balanced layers that share one weight, ``a = u |u|^(D-1)``; at infinite depth ``sign(u) e^|u|``."""
        endless = xp.isinf(self.depth)
        depth = xp.where(endless, xp.ones_like(self.depth), self.depth)

        def output(w: Any) -> Any:
            size = xp.abs(w["u"])
            return xp.sign(w["u"]) * xp.where(endless, xp.exp(size), xp.pow(size, depth))

        return Definition({"u": ()}, {"u": 1 / (depth * self.tau)}, output, self.s, lambda w: self.State(output(w)))

    @classmethod
    def counterexamples(cls, rng: np.random.Generator) -> dict[str, tuple[Flow, Any]]:
        """Return a mode with ``a0 s < 0`` at a depth between 1 and 2."""
        return {"start of the sign opposite to s": (cls(s=1.0, depth=rng.uniform(1.2, 1.8)), cls.State(-0.5))}

    @classmethod
    def example(cls, rng: np.random.Generator) -> tuple[Flow, Any]:
        """Return three modes of both signs, of infinite, real and integer depth; the last starts above its target."""
        s = rng.uniform(0.5, 2.0, 3)
        depth = np.array([np.inf, rng.uniform(1.2, 3.8), rng.integers(3, 7)])
        start = s * np.array([0.3, 0.1, 1.6]) * rng.uniform(0.6, 1.0, 3)
        tau, sign = rng.uniform(0.5, 2.0, 3), rng.choice([-1, 1], 3)
        side = np.array([rng.choice([-1, 1]), 1, 1])  # the first sometimes starts with the opposite sign
        return cls(s=sign * s, depth=depth, tau=tau), cls.State(side * sign * start)
