"""The constant mode of a classifier with a bias: two layers and a bias that learn one number together."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve.core.definition import Definition
from linsolve.core.flow import Flow, observable
from linsolve.core.parameters import parameter
from linsolve.numerics.double_double import DoubleDouble, length
from linsolve.numerics.scalar import smallest
from linsolve.systems.mode.biased_clock import LONGEST, Slide, rising_root
from linsolve.systems.mode.hidden_units import HiddenUnits

__all__ = ["BiasedMode"]


class _Start(NamedTuple):
    """A start, measured: roots of the rates, ``g+-``, residual, and the slide's ``T, N, G, F``."""

    root_h: Any
    root_w: Any
    plus: Any
    minus: Any
    r0: Any
    slide: tuple[Any, Any, Any, Any]


class BiasedMode(HiddenUnits):
    r"""One mode with vector hidden units and a bias, which share one residual.

    .. math:: L = r^2/2, \quad r = w \cdot h + B - 1, \qquad \dot w = -m\, r h, \quad \dot h = -\mu\, r w, \quad
        \dot B = -N r .

    In the time ``sigma`` with ``d sigma = -r dt`` the weights are linear: with ``s = sqrt(m mu)`` and
    ``g+- = sqrt(mu) w +- sqrt(m) h``,

    .. math:: g_\pm = g_\pm(0)\, e^{\pm s\sigma}, \quad B = B_0 + N \sigma, \quad
        t = \int_0^\sigma \frac{d\sigma'}{1 - B_0 - N\sigma' - p(\sigma')}, \quad
        p(\sigma) = \frac{|g_+(0)|^2 e^{2 s\sigma} - |g_-(0)|^2 e^{-2 s\sigma}}{4 s} .

    The denominator falls strictly, so ``sigma`` tends to its one root, the residual to 0 from every start, at the final
    rate ``mu |w|^2 + m |h|^2 + N``. For ``g- = 0`` the root is a Lambert W: ``w.h = k W(w0.h0 exp((1 - B0)/k)/k)``,
    ``k = N/(2 s)``.

    Parameters
    ----------
    m, mu, N : array_like, shape batch
        Learning rates of w, h and B (per unit of time), positive; for a classifier samples of a class, largest
        eigenvalue of the feature kernel, and samples.

    Notes
    -----
    Exact for: any width, any start with ``2 s |sigma(inf)| <= 64`` (weights grow by at most ``e^32``), ``t >= 0`` and
    ``t = inf``. Not for: a mode without bias, see `HiddenMode`; longer ways, refused by the condition `span`.

    Source: Seleznova, thesis (2024), eq. (25) on the constant mode ``w = W^T 1/sqrt(C)``, ``h = H1 1/sqrt(C)``,
    ``B = C beta``, which the thesis does not solve: its limits (59)-(68) take the final bias beta as given.

    Errata of the thesis, as mutants in ``tests/test_biased_mode.py``: eq. (46) puts the rate of the features in twice,
    (47) forgets the factor ``m``.

    The integral is taken by panels of Gauss-Legendre nodes and inverted by Newton's iteration, see
    `linsolve.numerics.Slide`; more digits take more nodes.

    Accuracy: state 1e-12 norm-wise, residual, loss and time to a loss 1e-12 relative (of ``1 + rate t`` for the
    residual), against fifty digits (``tests/test_biased_mode.py``).

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

    def _start(self, xp: Any, z0: Any) -> _Start:
        root_h, root_w = DoubleDouble(xp, self.m).sqrt(), DoubleDouble(xp, self.mu).sqrt()
        a, b = DoubleDouble(xp, z0.w) * root_w[..., None], DoubleDouble(xp, z0.h) * root_h[..., None]
        plus, minus = a + b, a - b
        r0 = ((DoubleDouble(xp, z0.w) * z0.h).sum() + z0.B - 1).hi
        sizes = (plus * plus).sum().hi, (minus * minus).sum().hi
        T = 4 * root_h.hi * root_w.hi * xp.abs(r0)
        grow, fall = (xp.where(r0 < 0, x, y) for x, y in (sizes, sizes[::-1]))
        return _Start(root_h.hi, root_w.hi, plus.hi, minus.hi, r0, (T, self.N + 0 * T, grow, fall))

    def _to_go(self, xp: Any, t: Any, slide: Slide) -> tuple[Any, Any]:
        """Return what of the way has been gone at times t, and what is left, each to full relative accuracy."""
        forever = xp.isinf(t)
        fallen = slide.fallen(xp, xp.where(forever, xp.zeros_like(t), t) + xp.zeros_like(slide.span))
        gone, left = -xp.expm1(-fallen), xp.exp(-fallen)
        gone = xp.where(forever, xp.ones_like(gone), gone)
        return slide.span * gone, slide.span * xp.where(forever, xp.zeros_like(left), left)

    def solution(self, xp: Any, t: Any, z0: Any) -> Any:
        """Return the state; at ``t = 0`` bitwise the start."""
        start = self._start(xp, z0)
        x, _ = self._to_go(xp, t, Slide.of(xp, *start.slide))
        moved = (t != 0) & (start.r0 != 0)
        turn = xp.where(start.r0 < 0, x, -x) / 2
        w = _turned(xp, turn, (z0.w, z0.h), (start.plus, start.minus), (start.root_w, start.root_h))
        h = _turned(xp, turn, (z0.h, z0.w), (start.plus, -start.minus), (start.root_h, start.root_w))
        B = z0.B + self.N * turn / (start.root_w * start.root_h)
        some = moved[..., None]
        return self.State(xp.where(some, w, z0.w), xp.where(some, h, z0.h), xp.where(moved, B, z0.B))

    def along(self, xp: Any, t: Any, z0: Any) -> dict[str, Any]:
        """Return loss, residual and ntk from closed forms that do not cancel."""
        start = self._start(xp, z0)
        slide = Slide.of(xp, *start.slide)
        _, y = self._to_go(xp, t, slide)
        size = y * slide.rate(xp, y) / (2 * start.root_w * start.root_h)
        residual = xp.where(start.r0 < 0, -size, xp.where(start.r0 > 0, size, xp.zeros_like(size)))
        still = xp.where(start.r0 == 0, slide.span, y)  # a start at the root has no way to go
        ntk = slide.N + (slide.P * xp.exp(-still) + slide.M * xp.exp(still)) / 2
        return {"loss": residual**2 / 2, "residual": residual, "ntk": ntk}

    def conditions(self, xp: Any, z0: Any) -> dict[str, Any]:
        """Return by how much the way ``2 s |sigma(inf)|`` exceeds what the quadrature reaches."""
        excess = rising_root(xp, *self._start(xp, z0).slide) / LONGEST - 1
        return {"span": xp.maximum(excess, xp.zeros_like(excess))}

    def limit(self, xp: Any, z0: Any) -> Any:
        """Return the state at ``t = inf``, where ``w.h + B = 1``."""
        batch = (self.m + self.mu + self.N + z0.w[..., 0] + z0.h[..., 0] + z0.B).shape
        return self.solution(xp, xp.full(batch, xp.inf, dtype=xp.float64), z0)

    def time_to(self, xp: Any, z0: Any, *, loss: Any) -> Any:
        """Return the first time at which the loss has fallen to `loss`, shape batch; inf for 0."""
        start = self._start(xp, z0)
        slide = Slide.of(xp, *start.slide)
        size = xp.sqrt(2 * loss) + 0 * start.r0
        there, never = size >= xp.abs(start.r0), size == 0
        idle = there | never
        goal = 4 * start.root_w * start.root_h * xp.where(idle, xp.abs(start.r0), size)
        y = rising_root(xp, goal, slide.N, slide.M, slide.P)
        y = xp.where(idle | (y > slide.span), slide.span, y)
        time = xp.where(never, xp.full_like(y, xp.inf), slide.time_at(xp, y))
        return xp.where(there, xp.zeros_like(time), time)

    def invariants(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return ``mu w^2 - m h^2``, the bivector ``w h^T - h w^T`` and ``B - N log(|g+|/|g-|)/(2 s)``.

        The last is not offered, and given as 0, where ``g+`` or ``g-`` vanishes.
        """
        root_h, root_w = xp.sqrt(self.m), xp.sqrt(self.mu)
        a, b = root_w[..., None] * z.w, root_h[..., None] * z.h
        plus, minus, pace = length(xp, a + b), length(xp, a - b), self.N / (2 * root_w * root_h)
        none = (plus == 0) | (minus == 0)
        # |g+||g-| is conserved, so the ratio of the two says as much as each
        ratio = xp.log(xp.where(none, xp.ones_like(plus), plus) / xp.where(none, xp.ones_like(plus), minus))
        return {
            "balance": self.mu[..., None] * z.w**2 - self.m[..., None] * z.h**2,
            "bivector": z.w[..., :, None] * z.h[..., None, :] - z.h[..., :, None] * z.w[..., None, :],
            "bias_growth": xp.where(none, xp.zeros_like(z.B + ratio), z.B - pace * ratio),
        }

    def rates(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return the rate of the output, ``-ntk (w.h + B - 1)``: what the tangent kernel is for."""
        return {"output": -self.ntk(xp, z) * self.residual(xp, z)}

    # what is observed

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
        """Return a start with a bias so far below the target that the weights grow by more than ``e^170``."""
        return {"span": (cls(m=2.0, mu=1.0, N=rng.uniform(0.5, 1.0)), cls.State([1.0, 0.5], [0.5, 1.0], -1e150))}

    @classmethod
    def example(cls, rng: np.random.Generator) -> tuple[Flow, Any]:
        """Return two modes of two hidden units: unequal rates, a bias below and one above the target."""
        flow = cls(m=rng.uniform(1.5, 3.0), mu=rng.uniform(0.5, 1.2), N=rng.uniform(2.0, 5.0))
        B = rng.uniform(0.3, 1.0, 2) * np.array([-1.0, 3.0])
        return flow, cls.State(0.6 * rng.normal(size=(2, 2)), 0.8 * rng.normal(size=(2, 2)), B)


def _turned(xp: Any, turn: Any, layers: tuple[Any, Any], ends: tuple[Any, Any], roots: tuple[Any, Any]) -> Any:
    """Return ``own cosh(turn) + (root of other/root of own) other sinh(turn)``, or the same through ``g+-``."""
    (own, other), (plus, minus), turn = layers, ends, turn[..., None]
    root, cross = roots[0][..., None], (roots[1] / roots[0])[..., None] * other * xp.sinh(turn)
    bend = 2 * xp.sinh(turn / 2) ** 2
    up, down = plus * xp.exp(turn) / (2 * root), minus * xp.exp(-turn) / (2 * root)
    near = xp.abs(own) * (1 + bend) + xp.abs(cross), own + (own * bend + cross)
    return smallest(xp, near, (xp.abs(up) + xp.abs(down), up + down))
