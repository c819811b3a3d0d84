"""One hidden unit whose product with inputs of different learning rates has target zero, by quadrature."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.definition import Definition
from linsolve.core.flow import Flow, observable
from linsolve.core.parameters import parameter
from linsolve.numerics.quadrature import double_exponential

__all__ = ["ZeroTargetRates"]

_STEPS = 80  # bracketed Newton steps in doubles
_LATE = 1e280  # times are kept below
_LEAST = 2.0**-1000  # in place of a weight that underflows, whose time has no end


class ZeroTargetRates(Flow):
    r"""One weight ``w`` and inputs ``h`` with learning rates of their own, whose products have target zero.

    .. math:: L = w^2 |h|^2 / 2, \qquad \dot w = -\eta_w w |h|^2, \qquad \dot h_j = -\mu_j w^2 h_j .

    In the time :math:`d\sigma = w^2 dt` every input decays at its own rate, and

    .. math:: h_j = h_j(0)\, e^{-\mu_j \sigma}, \qquad w^2 = E + \sum_j a_j e^{-2 \mu_j \sigma}, \quad
        a_j = \frac{\eta_w h_j(0)^2}{\mu_j}, \qquad t = \int_0^\sigma \frac{dx}{w^2(x)},

    with the conserved :math:`E = w^2 - \eta_w \sum_j h_j^2 / \mu_j`. For ``E > 0`` all inputs tend to zero and ``w^2``
    to ``E``; for ``E < 0`` the weight tends to zero at a finite :math:`\sigma_\infty`; for ``E = 0`` both decay
    algebraically.

    - Scatter within classes whose feature kernels differ, ``mu_j`` from class to class, and the mean output on a hidden
      unit of its own.
    - A weight vector ``W`` of several outputs on one hidden unit keeps its direction, and ``w = |W|``.

    Parameters
    ----------
    eta_w : array_like, shape batch
        Learning rate of ``w`` (per unit of time).
    mu : array_like, shape batch + (d,)
        Learning rates of the inputs.

    Notes
    -----
    Exact for: any start, ``t >= 0`` and ``t = inf``. The integral is computed by double-exponential quadrature, for ``E
    < 0`` without its pole at :math:`\sigma_\infty`, and inverted by Newton's method. For several hidden units and one
    rate see `ZeroTarget`; for both no closed form is known.

    Source: Seleznova, thesis (2024), section 3.3, (44)-(50), with several rates; derived here.

    Accuracy: 1e-12 norm-wise against sixty digits; 1e-11 against simulated weights, with rates up to 1000 apart
    (``tests/systems/collapse/test_zero_target_rates.py``). Where ``|E|`` is a few roundings of ``w(0)^2``, late
    states are those of the rounded ``E``.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> flow = ls.collapse.ZeroTargetRates(eta_w=1.0, mu=[1.0, 3.0])
    >>> traj = flow([0.0, 1.0, np.inf], (1.0, [0.5, 0.5]))
    >>> traj["h"].round(4).tolist()
    [[0.5, 0.5], [0.2243, 0.0451], [0.0, 0.0]]
    >>> traj["w"].round(4).tolist()  # at the end the root of 1 - 1/4 - 1/12
    [1.0, 0.8471, 0.8165]
    """

    eta_w: Any = parameter(r"\eta_w", "learning rate of w", domain="(0, inf)", typical=(1.0, 5.0))
    mu: Any = parameter(r"\mu", "learning rates of h", domain="(0, inf)", typical=(0.3, 2.0), axes=("d",))

    class State(NamedTuple):
        """``w``, shape batch, and ``h``, shape batch + (d,)."""

        w: Any
        h: Any

    axes: ClassVar = {"w": (), "h": ("d",)}

    # the problem

    def loss(self, xp: Any, z: Any) -> Any:
        """Return ``w^2 |h|^2 / 2``."""
        return z.w**2 * xp.sum(z.h**2, axis=-1) / 2

    def descent(self, xp: Any, z: Any, gradient: Any) -> Any:
        """Return minus the learning rates times the gradient."""
        return self.State(-self.eta_w * gradient.w, -self.mu * gradient.h)

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return ``(-eta_w w |h|^2, -mu w^2 h)``."""
        return self.State(-self.eta_w * z.w * xp.sum(z.h**2, axis=-1), -self.mu * (z.w**2)[..., None] * z.h)

    # the closed form

    def solution(self, xp: Any, t: Any, z0: Any) -> Any:
        """Return the state; at ``t = 0`` bitwise the start."""
        way = _Way.of(xp, z0.w, z0.h, self.eta_w, self.mu)
        forever = (t == xp.inf) & (way.square >= 0)
        clock = xp.where(t == xp.inf, xp.zeros_like(t), t) + 0 * way.square
        sigma, left = way.at(xp, xp.minimum(clock, xp.full_like(clock, _LATE)))
        decay = xp.exp(-self.mu * sigma[..., None])
        end = xp.where(way.falls[..., None], xp.exp(-self.mu * way.span[..., None]), 0 * decay)
        h = z0.h * xp.where(forever[..., None], end, decay)
        w = xp.sign(z0.w) * xp.sqrt(way.weight(xp, sigma, left))
        last = xp.where(way.rest > 0, way.rest, 0 * way.rest)
        w = xp.where(forever, xp.sign(z0.w) * xp.sqrt(last), w)
        still = (t == 0) | (way.square == 0) | (way.total == 0)
        return self.State(xp.where(still, z0.w, w), xp.where(still[..., None], z0.h, h))

    def limit(self, xp: Any, z0: Any) -> Any:
        """Return the state at ``t = inf``."""
        batch = (self.eta_w + self.mu[..., 0] + z0.w + z0.h[..., 0]).shape
        return self.solution(xp, xp.full(batch, xp.inf, dtype=xp.float64), z0)

    def invariants(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return ``w^2 - eta_w sum_j h_j^2 / mu_j``."""
        return {"imbalance": z.w**2 - self.eta_w * xp.sum(z.h**2 / self.mu, axis=-1)}

    def rates(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return ``dL/dt = -eta_w w^2 |h|^4 - w^4 sum_j mu_j h_j^2``."""
        size = xp.sum(z.h**2, axis=-1)
        return {"loss": -self.eta_w * z.w**2 * size**2 - z.w**4 * xp.sum(self.mu * z.h**2, axis=-1)}

    # observables

    @observable(bounds="[0, inf)")
    def scatter(self, xp: Any, z: Any) -> Any:
        """Return ``|h|^2``, shape batch."""
        return xp.sum(z.h**2, axis=-1)

    def definition(self, xp: Any) -> Definition:
        """Return the network of one hidden unit and three inputs."""
        names = ("h1", "h2", "h3")

        def inputs(w: Any) -> Any:
            return xp.stack([w[name] for name in names], axis=-1)

        return Definition(
            weights={"w": (), **dict.fromkeys(names, ())},
            rates={"w": self.eta_w, **{name: self.mu[..., k] for k, name in enumerate(names)}},
            output=lambda w: w["w"][..., None] * inputs(w),
            target=xp.zeros((3,), dtype=xp.float64),
            state=lambda w: self.State(w["w"], inputs(w)),
            observables=lambda w, kernel: {"scatter": xp.sum(inputs(w) ** 2, axis=-1)},
        )

    @classmethod
    def example(cls, rng: np.random.Generator) -> tuple[Flow, Any]:
        """Return two networks of three inputs, one on each side of ``E = 0``."""
        flow = cls(eta_w=rng.uniform(0.8, 1.5), mu=rng.uniform(0.3, 2.0, 3))
        return flow, cls.State(rng.uniform(0.9, 1.3, 2) * [1.5, -0.5], rng.uniform(0.4, 0.8, (2, 3)))


class _Way(NamedTuple):
    r"""The path in :math:`\sigma`; arrays of shape batch, or batch + (d,).

    Parameters
    ----------
    square, total, rest : array
        ``w(0)^2``, the sum of the ``a_j``, and ``E``.
    parts, mu : array
        ``a_j`` and ``mu_j``.
    span, ends, pace : array
        For ``E < 0`` :math:`\sigma_\infty`, :math:`a_j e^{-2 \mu_j \sigma_\infty}`, and the final rate of ``w^2``; ones
        otherwise.
    """

    square: Any
    total: Any
    rest: Any
    parts: Any
    mu: Any
    span: Any
    ends: Any
    pace: Any

    @classmethod
    def of(cls, xp: Any, w: Any, h: Any, eta: Any, mu: Any) -> _Way:
        """Return the path from a start."""
        parts = eta[..., None] * h**2 / mu
        total = xp.sum(parts, axis=-1)
        square = w**2 + 0 * total
        total, rest = total + 0 * square, square - total
        mu, falls = mu + 0 * parts, (rest < 0) & (square > 0)
        span = arithmetic.implicit(xp, partial(_root, xp), partial(_beyond, xp), square, total, parts, mu)
        ends = parts * xp.exp(-2 * mu * span[..., None])
        pace = xp.where(falls, xp.sum(2 * mu * ends, axis=-1), xp.ones_like(span))
        return cls(square, total, rest, parts, mu, span, ends, pace)

    @property
    def falls(self) -> Any:
        """Whether ``E < 0``: the weight tends to 0."""
        return (self.rest < 0) & (self.square > 0)

    def weight(self, xp: Any, sigma: Any, left: Any) -> Any:
        """Return ``w^2`` at ``sigma``, for ``E < 0`` from `left`, the rest of the span."""
        grown = xp.sum(self._grown(xp, left, 1), axis=-1)
        fallen = self.rest + xp.sum(self.parts * xp.exp(-2 * self.mu * sigma[..., None]), axis=-1)
        return xp.where(self.falls, grown, xp.where(fallen > 0, fallen, 0 * fallen))

    def _grown(self, xp: Any, left: Any, order: int) -> Any:
        """Return ``a_j e^(-2 mu_j span)`` times ``e^z - 1`` (order 1) or ``e^z - 1 - z``, ``z = 2 mu_j left``."""
        left = xp.where(self.falls, left, 0 * left)[..., None]
        z = 2 * self.mu * left
        near = z < 1
        small = xp.where(near, z, 0 * z)
        early = self.ends * (xp.expm1(small) if order == 1 else _second(xp, small))
        gone = xp.where(near, 0 * z, 2 * self.mu * (self.span[..., None] - left))
        late = self.parts * xp.exp(-gone) - self.ends * (1 if order == 1 else 1 + z)
        return xp.where(near, early, late)

    def time(self, xp: Any, u: Any) -> tuple[Any, Any]:
        """Return the time and its derivative: ``u`` is sigma, for ``E < 0`` ``log(span / left)``."""
        nodes, weights = double_exponential(xp, max(24, xp.dps // 2) if arithmetic.is_object(xp) else 24)
        far = xp.minimum(u, xp.full_like(u, 600))  # from there on the pole alone grows
        low = xp.where(self.falls, self.span * xp.exp(-far), 0 * u)
        width = xp.where(self.falls, -self.span * xp.expm1(-far), u)
        x = low[..., None] + width[..., None] * nodes
        wide = self._replace(
            **{name: getattr(self, name)[..., None] for name in ("square", "rest", "span", "pace")},
            **{name: getattr(self, name)[..., None, :] for name in ("parts", "mu", "ends")},
        )
        value, here = wide.weight(xp, x, x), self.weight(xp, u, low)
        # the pole is subtracted where it matters; far from it, as near E = 0, its two parts would cancel
        pole = self.falls & (here < 3 * self.pace * low)
        # 1/A - 1/(pace x) = -B/(pace x A) with B = A - pace x, a sum of positive terms
        bent = xp.sum(wide._grown(xp, x, 2), axis=-1)
        positive = xp.where(value > 0, value, xp.full_like(value, _LEAST))  # a weight that underflows takes for ever
        without = -bent / (wide.pace * xp.where(x > 0, x, xp.ones_like(x)))
        shape = xp.where(pole[..., None], without, xp.ones_like(value))
        integral = width * xp.sum(weights * shape / positive, axis=-1)
        here = xp.where(here > 0, here, xp.full_like(here, _LEAST))
        return (
            integral + xp.where(pole, u / self.pace, 0 * u),
            xp.where(self.falls, low, xp.ones_like(u)) / here,
        )

    def at(self, xp: Any, t: Any) -> tuple[Any, Any]:
        """Return sigma and what is left of the span at finite times."""

        def late(u: Any, way: Any, t: Any) -> Any:
            return _Way(*way).time(xp, u)[0] - t

        u = arithmetic.implicit(xp, lambda way, t: _Way(*way)._inverted(xp, t), late, tuple(self), t)
        left = xp.where(self.falls, self.span * xp.exp(-u), xp.ones_like(u))
        return xp.where(self.falls, -self.span * xp.expm1(-u), u), left

    def _inverted(self, xp: Any, t: Any) -> Any:
        """Return the argument of `time`, by Newton steps in the logarithm of the time inside a bracket."""
        if arithmetic.is_object(xp):  # start from the solution in doubles; every Newton step doubles its digits
            rough = _Way(*(arithmetic.to_numpy(v) for v in self))
            with np.errstate(all="ignore"):
                u, digits = xp.asarray(rough._inverted(np, arithmetic.to_numpy(t))), 10
            while digits < xp.dps:
                found, slope = self.time(xp, u)
                u, digits = u - (found - t) / slope, 2 * digits
            return u
        none, active = 0 * t, (t > 0) & (self.square > 0)
        square = xp.where(self.square > 0, self.square, xp.ones_like(self.square))
        high = square * t / self.span  # the time is at least sigma / w(0)^2
        slow = 2 * xp.min(self.mu, axis=-1)  # for E = 0 w^2 falls at this rate or faster
        balanced = xp.log1p(slow * self.total * xp.where(active, t, none)) / slow
        high = xp.where(self.falls, high, xp.where(self.rest == 0, balanced, square * t))
        high, goal = xp.where(active, high, xp.ones_like(high)), xp.where(active, t, xp.ones_like(t))

        def step(u: Any, low: Any, high: Any) -> tuple[Any, Any, Any]:
            found, slope = self.time(xp, u)
            above = found >= goal
            low, high = xp.where(above, low, u), xp.where(above, u, high)
            usable = (found > 0) & xp.isfinite(found) & (slope > 0) & xp.isfinite(slope)  # else the bracket is halved
            ratio = xp.where(usable, found, goal) / goal
            there = u - goal * ratio * xp.log(ratio) / xp.where(usable, slope, xp.ones_like(slope))
            inside = (there > low) & (there < high)
            # far from the root the geometric mean bisects decades
            middle = xp.where(low > 0, xp.sqrt(low) * xp.sqrt(high), high / 1024)
            other = xp.where(high > 4 * low, middle, (low + high) / 2)
            return xp.where(found == goal, u, xp.where(inside, there, other)), low, high

        u = arithmetic.repeated(xp, _STEPS, step, high, none, high)[0]
        return xp.where(active, u, none)


def _second(xp: Any, z: Any) -> Any:
    """Return ``e^z - 1 - z`` for ``0 <= z < 1``, in doubles by its series."""
    if arithmetic.is_object(xp):
        return xp.expm1(z) - z  # the digits that cancel are multiplied by z^2 in the integral
    series = 1 + 0 * z
    for k in reversed(range(3, 21)):
        series = 1 + series * z / k
    return z**2 / 2 * series


def _fallen(xp: Any, square: Any, total: Any, parts: Any) -> tuple[Any, Any, Any]:
    """Return whether ``E < 0``, and ``w(0)^2`` and the ``a_j`` there, ones elsewhere."""
    falls, one = (square < total) & (square > 0), xp.ones_like(square)
    return falls, xp.where(falls, square, one), xp.where(falls[..., None], parts, xp.ones_like(parts))


def _beyond(xp: Any, x: Any, square: Any, total: Any, parts: Any, mu: Any) -> Any:
    """Return ``sum_j a_j (1 - exp(-2 mu_j x)) - w(0)^2`` where ``E < 0``, else ``x - 1``."""
    falls, goal, own = _fallen(xp, square, total, parts)
    return xp.where(falls, xp.sum(-own * xp.expm1(-2 * mu * x[..., None]), axis=-1) - goal, x - 1)


def _root(xp: Any, square: Any, total: Any, parts: Any, mu: Any) -> Any:
    """Return the root of `_beyond`, by Newton steps that never pass it.

    From the left of a concave function; near its limit, which hides the root in rounding, of its distance from the
    limit in logarithms, a convex function.
    """
    falls, goal, own = _fallen(xp, square, total, parts)
    left = xp.where(falls, total - square, goal)
    near_limit = left < goal

    def step(x: Any) -> tuple[Any]:
        decayed = own * xp.exp(-2 * mu * x[..., None])
        kept, slope = xp.sum(decayed, axis=-1), xp.sum(2 * mu * decayed, axis=-1)
        value = xp.sum(-own * xp.expm1(-2 * mu * x[..., None]), axis=-1) - goal
        change = xp.where(near_limit, kept * xp.log(left / kept), value) / slope
        return (x - xp.where(falls, change, 0 * x),)

    rounds = 60 + xp.dps // 4 if arithmetic.is_object(xp) else 200
    x = arithmetic.repeated(xp, rounds, step, goal / xp.sum(2 * mu * own, axis=-1))[0]
    return xp.where(falls, x, xp.ones_like(x))
