"""The constant mode of a classifier with a bias: two layers and a bias with one scalar residual."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.definition import Definition
from linsolve.core.flow import Deferred, Flow, observable
from linsolve.core.parameters import parameter
from linsolve.numerics.cache import once_a_call
from linsolve.numerics.double_double import DoubleDouble, length
from linsolve.numerics.scalar import broadcast, full_like, root_of_twice, smallest, where
from linsolve.systems.mode.relaxation import Relaxation, excess, rising_root

__all__ = ["BiasedMode", "HiddenUnits"]


class HiddenUnits(Flow):
    """A flow whose state has weights ``w`` and ``h``, shape batch + (d,), of d hidden units."""

    @observable(bounds="[0, inf)")
    def w_norm(self, xp: Any, z: Any) -> Any:
        """Return ``|w|``, shape batch."""
        return length(xp, z.w)

    @observable(bounds="[0, inf)")
    def h_norm(self, xp: Any, z: Any) -> Any:
        """Return ``|h|``, shape batch."""
        return length(xp, z.h)


class _Start(NamedTuple):
    """Initial values: square roots of the rates, ``g+-``, the residual and ``T, N, G, F`` of the `Relaxation`."""

    root_h: Any
    root_w: Any
    plus: Any
    minus: Any
    r0: Any
    sizes: tuple[Any, Any, Any, Any]


class BiasedMode(HiddenUnits):
    r"""One mode of a two-layer network with vector weights and a bias, driven by one scalar residual.

    .. math:: L = r^2/2, \quad r = w \cdot h + B - 1, \qquad \dot w = -m\, r h, \quad \dot h = -\mu\, r w, \quad
        \dot B = -N r .

    In the time ``sigma`` with ``d sigma = -r dt`` the weights are linear: with ``s = sqrt(m mu)`` and
    ``g+- = sqrt(mu) w +- sqrt(m) h``,

    .. math:: g_\pm = g_\pm(0)\, e^{\pm s\sigma}, \quad B = B_0 + N \sigma, \quad
        t = \int_0^\sigma \frac{d\sigma'}{1 - B_0 - N\sigma' - p(\sigma')}, \quad
        p(\sigma) = \frac{|g_+(0)|^2 e^{2 s\sigma} - |g_-(0)|^2 e^{-2 s\sigma}}{4 s} .

    The denominator decreases strictly, so ``sigma`` tends to its only root. The residual tends to 0 from every initial
    state, at the final rate ``mu |w|^2 + m |h|^2 + N``. For ``g- = 0`` the root is given by the Lambert W function:
    ``w.h = k W(w0.h0 exp((1 - B0)/k)/k)``, ``k = N/(2 s)``.

    Parameters
    ----------
    m, mu, N : array_like, shape batch
        Learning rates of w, h and B (per unit of time), positive. For a classifier: the number of samples of a class,
        the largest eigenvalue of the feature kernel, and the number of all samples.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, or shapes do not fit. At a call, also for an invalid
        state or time.
    NotExact
        At a call, if weights grow by more than ``e^350``.
    OverflowError
        At a call, or at the access of an observable, if results leave the range of doubles.

    Notes
    -----
    Exact for: any width, any initial state whose weights grow by at most ``e^350`` (``2 s |sigma(inf)| <= 700``; 64 in
    high precision), ``t >= 0`` and ``t = inf``. Not for: a mode without bias (use `HiddenMode`); weights that grow by
    more, which the condition `span` rejects.

    Source: Seleznova, thesis (2024), eq. (25) on the constant mode ``w = W^T 1/sqrt(C)``, ``h = H1 1/sqrt(C)``,
    ``B = C beta``. The thesis states the equation without a solution; its limits (59)-(68) take the final bias beta as
    given.

    The time is an integral over ``sigma``, computed by Gauss-Legendre quadrature on panels and inverted by Newton's
    iteration (`linsolve.systems.mode.relaxation`).

    Accuracy against fifty digits (``tests/systems/mode/test_biased_mode.py``): state 1e-12 norm-wise; loss and time to
    a loss 1e-12 relative; residual 1e-12 relative, times ``1 + rate t``. Where ``X = 2 s |sigma(inf)|`` is large, fast
    transients are accurate to the rounding error of ``X``.

    ``linsolve card BiasedMode`` lists the published formulas and their verdicts.

    Examples
    --------
    >>> from linsolve import BiasedMode
    >>> traj = BiasedMode(m=2.0, mu=1.0, N=4.0)([0.0, 0.1, float("inf")], ([0.3], [0.2], 0.0))
    >>> traj["B"].round(6).tolist()
    [0.0, 0.307255, 0.887545]
    """

    m: Any = parameter("m", "learning rate of w", domain="(0, inf)", typical=(1.0, 5.0))
    mu: Any = parameter(r"\mu", "learning rate of h", domain="(0, inf)", typical=(0.5, 3.0))
    N: Any = parameter("N", "learning rate of the bias", domain="(0, inf)", typical=(1.0, 20.0))

    class State(NamedTuple):
        """Weights ``w`` and ``h``, shape batch + (d,), and bias ``B``, shape batch."""

        w: Any
        h: Any
        B: Any

    axes: ClassVar = {"w": ("d",), "h": ("d",), "B": ()}
    one_number: ClassVar[bool] = True

    # the problem

    def loss(self, xp: Any, z: Any) -> Any:
        """Return ``(w.h + B - 1)^2 / 2``."""
        return self.residual(xp, z) ** 2 / 2

    def descent(self, xp: Any, z: Any, gradient: Any) -> Any:
        """Return minus the learning rates times the gradient."""
        return self.State(-self.m[..., None] * gradient.w, -self.mu[..., None] * gradient.h, -self.N * gradient.B)

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return ``(-m r h, -mu r w, -N r)``."""
        r = self.residual(xp, z)
        return self.State(-(self.m * r)[..., None] * z.h, -(self.mu * r)[..., None] * z.w, -self.N * r)

    # the closed form

    def _way(self, xp: Any, z0: Any, last: bool = True) -> tuple[_Start, Any]:
        """Return the initial values, and the root of the relaxation."""

        def answer() -> tuple[_Start, Any]:
            start = self._start(xp, z0)
            return start, rising_root(xp, *broadcast(xp, *start.sizes))

        return once_a_call(self, z0, answer, last)

    def _start(self, xp: Any, z0: Any) -> _Start:
        root_h, root_w = DoubleDouble(xp, self.m).sqrt(), DoubleDouble(xp, self.mu).sqrt()
        a, b = DoubleDouble(xp, z0.w) * root_w[..., None], DoubleDouble(xp, z0.h) * root_h[..., None]
        plus, minus = a + b, a - b
        r0 = ((DoubleDouble(xp, z0.w) * z0.h).sum() + z0.B - 1).hi
        sizes = (plus * plus).sum().hi, (minus * minus).sum().hi
        T = 4 * root_h.hi * root_w.hi * xp.abs(r0)
        grow, fall = (where(xp, r0 < 0, x, y) for x, y in (sizes, sizes[::-1]))
        return _Start(root_h.hi, root_w.hi, plus.hi, minus.hi, r0, (T, self.N + 0 * T, grow, fall))

    def _to_go(self, xp: Any, t: Any, way: Relaxation) -> tuple[Any, Any]:
        """Return ``x(t)`` and ``X - x(t)``, each to full relative accuracy."""
        forever = xp.isinf(t)
        fallen = way.fallen(xp, where(xp, forever, full_like(xp, t, 0), t) + full_like(xp, way.span, 0))
        gone, left = -xp.expm1(-fallen), xp.exp(-fallen)
        gone = where(xp, forever, full_like(xp, gone, 1), gone)
        return way.span * gone, way.span * where(xp, forever, full_like(xp, left, 0), left)

    def begun(self, xp: Any, z0: Any) -> tuple[_Start, Relaxation]:
        """Return the initial values and the `Relaxation`."""
        start, root = self._way(xp, z0)
        return start, Relaxation.of(xp, *start.sizes, root=root)

    def shared(self, xp: Any, t: Any, z0: Any, begun: Any = None) -> tuple[_Start, Relaxation, tuple[Any, Any]]:
        """Return the initial values, the `Relaxation`, and the parts of its span before and after times `t`."""
        start, way = begun or self.begun(xp, z0)
        return start, way, self._to_go(xp, t, way)

    def solution(self, xp: Any, t: Any, z0: Any, shared: Any = None) -> Any:
        """Return the state; at ``t = 0`` bitwise equal to the initial state."""
        return self._moved(xp, t, z0, *(shared or self.shared(xp, t, z0)))

    def _moved(self, xp: Any, t: Any, z0: Any, start: _Start, way: Relaxation, parts: tuple[Any, Any]) -> Any:
        x, y = parts
        moved = (t != 0) & (start.r0 != 0)
        turn = where(xp, start.r0 < 0, x, -x) / 2
        w = _turned(xp, turn, (z0.w, z0.h), (start.plus, start.minus), (start.root_w, start.root_h))
        h = _turned(xp, turn, (z0.h, z0.w), (start.plus, -start.minus), (start.root_h, start.root_w))
        change = self.N * turn / (start.root_w * start.root_h)
        r, own = _residual(xp, start, way, y), w * h
        B = smallest(
            xp,
            (xp.abs(z0.B) + xp.abs(change), z0.B + change),
            (xp.abs(r) + 1 + xp.sum(xp.abs(own), axis=-1), r + 1 - xp.sum(own, axis=-1)),
        )
        some = moved[..., None]
        return self.State(xp.where(some, w, z0.w), xp.where(some, h, z0.h), xp.where(moved, B, z0.B))

    def along(self, xp: Any, t: Any, z0: Any, shared: Any = None) -> dict[str, Any]:
        """Return loss, residual and ntk from closed forms that do not cancel."""
        start, way, (_, y) = shared = shared or self.shared(xp, t, z0)
        residual = _residual(xp, start, way, y)
        still = where(xp, start.r0 == 0, way.span, y)  # an initial state at the root is stationary
        ntk = way.N + (way.P * xp.exp(-still) + way.F * xp.exp(still - way.span)) / 2
        w, h, B = self._moved(xp, t, z0, *shared)
        output = smallest(
            xp,
            (xp.abs(residual) + 1, residual + 1),
            (xp.abs(B) + xp.sum(xp.abs(w * h), axis=-1), B + xp.sum(w * h, axis=-1)),
        )
        return {"loss": residual * residual / 2, "residual": residual, "output": output, "ntk": ntk}

    def conditions(self, xp: Any, z0: Any) -> dict[str, Any]:
        """Return the excess of ``2 s |sigma(inf)|`` over its largest supported value."""
        start, root = self._way(xp, z0, last=False)
        growing = xp.where((start.r0 < 0)[..., None], start.plus, start.minus)
        grows = xp.max(xp.abs(growing), axis=-1) > 0
        return {"span": excess(xp, root, grows)}

    def limit(self, xp: Any, z0: Any) -> Any:
        """Return the state at ``t = inf``, where ``w.h + B = 1``."""
        batch = (self.m + self.mu + self.N + z0.w[..., 0] + z0.h[..., 0] + z0.B).shape
        return self.solution(xp, xp.full(batch, xp.inf, dtype=xp.float64), z0)

    def time_to(self, xp: Any, z0: Any, *, loss: Any) -> Any:
        """Return the first time at which the loss has fallen to `loss`, shape batch; inf for 0."""
        start = self._start(xp, z0)
        way = Relaxation.of(xp, *start.sizes)
        size = root_of_twice(xp, loss) + 0 * start.r0
        there, never = size >= xp.abs(start.r0), size == 0
        idle = there | never
        goal = 4 * start.root_w * start.root_h * xp.where(idle, xp.abs(start.r0), size)
        T, N, G, F = start.sizes
        y = rising_root(xp, goal, N, F * xp.exp(-way.span), way.P)
        early = way.span - rising_root(xp, T - goal, N, G, F)  # for large X, where exp(-X) underflows
        y = xp.where((way.span > 600) & (2 * early > way.span), early, y)
        y = xp.where(idle | (y > way.span), way.span, y)
        time = xp.where(never, xp.full_like(y, xp.inf), way.time_at(xp, y))
        if not arithmetic.is_object(xp):  # nan lets the caller raise a named overflow
            time = xp.where((y == 0) & ~never, xp.full_like(time, xp.nan), time)
        return xp.where(there, xp.zeros_like(time), time)

    def invariants(self, xp: Any, z: Any) -> Deferred:
        """Return ``mu w^2 - m h^2``, the bivector ``w h^T - h w^T`` and ``B - N log(|g+|/|g-|)/(2 s)``.

        The last is undefined where ``g+`` or ``g-`` vanishes; 0 is returned there.
        """
        root_h, root_w = xp.sqrt(self.m), xp.sqrt(self.mu)
        a, b = root_w[..., None] * z.w, root_h[..., None] * z.h
        plus, minus, pace = length(xp, a + b), length(xp, a - b), self.N / (2 * root_w * root_h)
        none = (plus == 0) | (minus == 0)
        # |g+||g-| is conserved, so the ratio of the two determines each of them
        ratio = xp.log(xp.where(none, xp.ones_like(plus), plus) / xp.where(none, xp.ones_like(plus), minus))
        return Deferred(
            balance=lambda: self.mu[..., None] * z.w**2 - self.m[..., None] * z.h**2,
            bivector=lambda: z.w[..., :, None] * z.h[..., None, :] - z.h[..., :, None] * z.w[..., None, :],
            bias_growth=lambda: xp.where(none, xp.zeros_like(z.B + ratio), z.B - pace * ratio),
        )

    def rates(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return the time derivative of the output, ``-ntk (w.h + B - 1)``."""
        return {"output": -self.ntk(xp, z) * self.residual(xp, z)}

    # observables

    @observable()
    def output(self, xp: Any, z: Any) -> Any:
        """Return ``w.h + B``, shape batch."""
        return xp.sum(z.w * z.h, axis=-1) + z.B

    @observable()
    def residual(self, xp: Any, z: Any) -> Any:
        """Return ``w.h + B - 1``, shape batch."""
        return self.output(xp, z) - 1

    @observable(bounds="[0, inf)")
    def ntk(self, xp: Any, z: Any) -> Any:
        """Return the tangent kernel ``m |h|^2 + mu |w|^2 + N``, shape batch."""
        return self.m * xp.sum(z.h**2, axis=-1) + self.mu * xp.sum(z.w**2, axis=-1) + self.N

    def definition(self, xp: Any) -> Definition:
        """Return the network of three hidden units and a bias."""

        def observables(w: Any, kernel: Any) -> dict[str, Any]:
            output = xp.sum(w["w"] * w["h"], axis=-1) + w["B"]
            lengths = {f"{name}_norm": xp.sqrt(xp.sum(w[name] ** 2, axis=-1)) for name in ("w", "h")}
            return lengths | {"output": output, "residual": output - 1, "ntk": kernel(w)[..., 0, 0]}

        return Definition(
            weights={"w": (3,), "h": (3,), "B": ()},
            rates={"w": self.m, "h": self.mu, "B": self.N},
            output=lambda w: xp.sum(w["w"] * w["h"], axis=-1) + w["B"],
            target=xp.ones_like(self.m),
            state=lambda w: self.State(w["w"], w["h"], w["B"]),
            observables=observables,
        )

    @classmethod
    def counterexamples(cls, rng: np.random.Generator) -> dict[str, tuple[Flow, Any]]:
        """Return tiny weights beside a bias far below the target: they grow by more than ``e^350``."""
        return {
            "span": (cls(m=2.0, mu=1.0, N=rng.uniform(0.5, 1.0)), cls.State([1e-150, 5e-151], [5e-151, 1e-150], -1e5))
        }

    @classmethod
    def example(cls, rng: np.random.Generator) -> tuple[Flow, Any]:
        """Return two modes of two hidden units: unequal rates, a bias below and one above the target."""
        flow = cls(m=rng.uniform(1.5, 3.0), mu=rng.uniform(0.5, 1.2), N=rng.uniform(2.0, 5.0))
        B = rng.uniform(0.3, 1.0, 2) * np.array([-1.0, 3.0])
        return flow, cls.State(0.6 * rng.normal(size=(2, 2)), 0.8 * rng.normal(size=(2, 2)), B)


def _residual(xp: Any, start: _Start, way: Relaxation, y: Any) -> Any:
    """Return the residual at distance `y` from the root."""
    size = y * way.rate(xp, y) / (2 * start.root_w * start.root_h)
    return where(xp, start.r0 < 0, -size, where(xp, start.r0 > 0, size, full_like(xp, size, 0)))


def _turned(xp: Any, turn: Any, layers: tuple[Any, Any], ends: tuple[Any, Any], roots: tuple[Any, Any]) -> Any:
    """Return ``own cosh(turn) + (root of other/root of own) other sinh(turn)``, or the same through ``g+-``."""
    (own, other), (plus, minus), turn = layers, ends, turn[..., None]
    most = xp.full_like(turn, 350)  # larger values occur only where g+ or g- is exactly 0
    up, down = xp.minimum(turn, most), xp.minimum(-turn, most)
    root, turn = roots[0][..., None], -xp.minimum(-up, most)
    cross, half = (roots[1] / roots[0])[..., None] * other * xp.sinh(turn), xp.sinh(turn / 2)
    bend = 2 * (half * half)
    up, down = plus * xp.exp(up) / (2 * root), minus * xp.exp(down) / (2 * root)
    near = xp.abs(own) * (1 + bend) + xp.abs(cross), own + (own * bend + cross)
    return smallest(xp, near, (xp.abs(up) + xp.abs(down), up + down))
