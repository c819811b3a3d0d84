"""One balanced singular mode of a two-layer linear network (Saxe, McClelland, Ganguli 2014)."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve.core.definition import Definition
from linsolve.core.flow import Flow
from linsolve.core.map import Map
from linsolve.core.parameters import parameter
from linsolve.core.step_rules import Rule
from linsolve.numerics.scalar import full_like, log1p_ratio, logistic, root_of_twice, where

__all__ = ["BalancedMode", "ModeDescent"]


class ModeDescent(NamedTuple):
    """Numbers of a mode under gradient descent: the product ``a`` and its distance ``s - a`` from the target."""

    a: Any
    gap: Any


class BalancedMode(Map):
    r"""One balanced singular mode of a two-layer linear network: a sigmoid in time.

    .. math:: L = (s - a)^2 / 2, \qquad \tau \dot a = 2 |a| (s - a), \qquad a = u w, \; |u| = |w|,

    where :math:`u, w` are the mode's two weights under gradient flow with time constant :math:`\tau`. For ``a >= 0``
    this is :math:`\tau \dot a = 2 a (s - a)`, solved by

    .. math:: a(t) = \frac{a_0}{e^{-2st/\tau} + a_0 (1 - e^{-2st/\tau}) / s}.

    Parameters
    ----------
    s : array_like, shape batch
        Singular value of the input-output map; any sign, zero included.
    tau : array_like, shape batch
        Time constant (units of time), positive.

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
    Exact for: every ``a0``, every sign of `s`; under gradient flow a balanced mode keeps its sign, so ``a0`` and `s` of
    opposite sign converge to 0, the saddle. Not for: unbalanced modes. Steps of finite size: `discrete`, `first_step`.

    Source: Saxe, McClelland, Ganguli, "Exact solutions to the nonlinear dynamics of learning in deep linear neural
    networks" (2014), eqs. (9)-(12). There ``a >= 0``; the absolute value extends the equation to the networks with
    ``u = -w``.

    Accuracy: for ``t >= 0``, over 60 decades of arguments, the errors of ``a`` and ``s - a`` are at most 1.5 times the
    error that rounding the arguments may cause. Backward in time, toward the blow-up, differences cancel and the errors
    reach 20 times that bound (``tests/numerics/test_stable.py``).

    ``linsolve card BalancedMode`` lists the published formulas and their verdicts.

    Examples
    --------
    >>> from linsolve import BalancedMode
    >>> traj = BalancedMode(s=2.0)([0.0, 1.0, float("inf")], 0.01)
    >>> traj["a"].round(6).tolist()
    [0.01, 0.430588, 2.0]
    """

    s: Any = parameter("s", "singular value of the input-output map", typical=(0.5, 3.0))
    tau: Any = parameter(r"\tau", "time constant", domain="(0, inf)", typical=(0.5, 2.0), default=1.0)

    class State(NamedTuple):
        """Strength of the mode, ``a``, shape batch."""

        a: Any

    axes: ClassVar = {"a": ()}
    forward_complete: ClassVar[bool] = True
    one_number: ClassVar[bool] = True

    def loss(self, xp: Any, z: Any) -> Any:
        """Return ``(s - a)^2 / 2``."""
        return (self.s - z.a) ** 2 / 2

    def descent(self, xp: Any, z: Any, gradient: Any) -> Any:
        """Return ``-2 |a| / tau`` times the gradient: the metric that the two weights induce on their product."""
        return self.State(-2 * xp.abs(z.a) / self.tau * gradient.a)

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return ``2 |a| (s - a) / tau``."""
        return self.State(2 * xp.abs(z.a) * (self.s - z.a) / self.tau)

    def shared(self, xp: Any, t: Any, z0: Any) -> tuple[Any, Any, Any]:
        """Return the sign of ``a0``, and the products of this sign with ``a`` and ``s - a`` at times `t`."""
        one = full_like(xp, z0.a, 1)
        sign = where(xp, z0.a < 0, -one, one)
        size, gap = logistic(xp, 2 * t / self.tau, sign * z0.a, sign * self.s)
        return sign, size, gap

    def solution(self, xp: Any, t: Any, z0: Any, shared: Any = None) -> Any:
        """Return the sigmoid; at ``t = 0`` bitwise equal to the initial state."""
        sign, size, _ = shared or self.shared(xp, t, z0)
        return self.State(sign * size)

    def along(self, xp: Any, t: Any, z0: Any, shared: Any = None) -> dict[str, Any]:
        """Return the loss from the closed form of ``s - a``, which does not cancel."""
        gap = (shared or self.shared(xp, t, z0))[2]
        return {"loss": gap * gap / 2}

    def limit(self, xp: Any, z0: Any) -> Any:
        """Return `s` where ``a0`` has the sign of `s`, else 0."""
        return self.State(xp.where(xp.sign(z0.a) * xp.sign(self.s) > 0, self.s + 0 * z0.a, 0 * (self.s + z0.a)))

    def time_to(self, xp: Any, z0: Any, *, loss: Any) -> Any:
        """Return the time at which the loss has fallen to `loss`, inf where it never does.

        With ``g = s - a`` going from ``g0`` to ``g1``: ``t = (tau/2) z log(1 + s z)/(s z)``, ``z = (g0 - g1)/(a0 g1)``.
        """
        sign = xp.where(z0.a < 0, -xp.ones_like(z0.a), xp.ones_like(z0.a))
        a0, s = sign * z0.a, sign * self.s
        g0, goal = s - a0, root_of_twice(xp, loss)
        g1 = xp.where(g0 < 0, -goal, goal)
        there = goal >= xp.abs(g0)
        never = ~there & ((a0 == 0) | (g1 == 0))
        one = xp.ones_like(g0 + g1)
        change, g1, a0 = (xp.where(there | never, one, v) for v in (g0 - g1, g1, a0))
        log_ratio = xp.log(xp.abs(change)) - xp.log(xp.abs(g1))
        log_z = log_ratio - xp.log(a0)
        log_x = xp.log(xp.where(s > 0, s, one)) + log_z
        late = (s > 0) & (log_x > 40)  # s z may overflow, and 1 + s z rounds to s z
        never = never | (~late & (log_z > 700))
        far = late | never | (xp.abs(log_ratio) > 700)  # the quotient may overflow although z does not
        z = xp.where(
            far,
            xp.exp(xp.where(late | never, 0 * log_z, log_z)),
            change / xp.where(far, one, g1) / xp.where(far, one, a0),
        )
        pace = xp.where(late, log_x / xp.where(late, s, one), z * log1p_ratio(xp, xp.where(late | never, 0 * z, s * z)))
        time = self.tau * pace / 2
        return xp.where(there, xp.zeros_like(time), xp.where(never, xp.full_like(time, xp.inf), time))

    def lifetime(self, xp: Any, z0: Any) -> tuple[Any, Any]:
        """Return the negative time at which the solution backward in time blows up, -inf where it does not, and inf."""
        sign = xp.where(z0.a < 0, -xp.ones_like(z0.a), xp.ones_like(z0.a))
        a0, s = sign * z0.a, sign * self.s
        beyond = (a0 > 0) & (a0 > s)
        safe = xp.where(beyond, a0, xp.ones_like(a0))
        ratio = xp.where(beyond, s / safe, xp.zeros_like(a0 + s))
        start = -self.tau / 2 / safe * log1p_ratio(xp, -ratio)
        return xp.where(beyond, start, xp.full_like(start, -xp.inf)), xp.full_like(start, xp.inf)

    def step(self, xp: Any, z: Any, h: Any) -> Any:
        """Return the product after one descent step on the two weights: ``a (1 + h (s - a) sign(a) / tau)^2``."""
        return self.State(z.a * (1 + h * xp.sign(z.a) * (self.s - z.a) / self.tau) ** 2)

    def reduced(self, xp: Any, z0: Any) -> tuple[None, ModeDescent]:
        """Return the product and its distance from the target."""
        return None, ModeDescent(z0.a + 0 * self.s, self.s - z0.a)

    def advanced(self, xp: Any, fixed: None, now: ModeDescent, rule: Rule) -> ModeDescent:
        """Return both after one step."""
        change = rule.h * xp.sign(now.a) * now.gap / self.tau
        return ModeDescent(now.a * (1 + change) ** 2, now.gap - now.a * change * (2 + change))

    def restored(self, xp: Any, z0: Any, fixed: None, now: ModeDescent) -> Any:
        """Return the product."""
        return self.State(now.a)

    def described(self, xp: Any, fixed: None, now: ModeDescent) -> dict[str, Any]:
        """Return the loss from the distance, which keeps its relative accuracy."""
        return {"loss": now.gap**2 / 2}

    def curvature(self, xp: Any, z: Any) -> Any:
        """Return ``(3 |a| - s sign(a)) / tau``: L'' in the weight that both layers share, times its learning rate."""
        return (3 * xp.abs(z.a) - self.s * xp.sign(z.a)) / self.tau

    def definition(self, xp: Any) -> Definition:
        """Return the balanced layers ``|u|`` and ``u``, which share one weight."""

        def output(w: Any) -> Any:
            return w["u"] * xp.abs(w["u"])

        return Definition({"u": ()}, {"u": 1 / (2 * self.tau)}, output, self.s, lambda w: self.State(output(w)))

    @classmethod
    def example(cls, rng: np.random.Generator) -> tuple[Flow, Any]:
        """Return three modes of both signs: one starts above its target, one sometimes with the opposite sign."""
        s = rng.uniform(0.5, 3.0, 3)
        below_and_above = np.array([0.03, 0.2, 1.5]) * rng.uniform(0.5, 1, 3)
        tau, sign = rng.uniform(0.5, 2.0, 3), rng.choice([-1, 1], 3)
        side = np.array([1, rng.choice([-1, 1]), 1])
        return cls(s=sign * s, tau=tau), cls.State(side * sign * s * below_and_above)

    @classmethod
    def symbols(cls) -> tuple[dict[str, Any], tuple[Any, ...], dict[Any, Any]]:
        """Return a positive mode that starts below its target."""
        import sympy

        a0, s, tau = sympy.symbols("a_0 s tau", positive=True)
        return {"s": s, "tau": tau}, (a0,), {a0: 0.1, s: 1.7, tau: 0.6}
