"""A two-layer linear network with its initial output subtracted (Geiger et al. 2020)."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import integer, real_array
from linsolve.core.definition import Definition
from linsolve.core.flow import Deferred, observable
from linsolve.core.parameters import parameter
from linsolve.core.randomness import seeded
from linsolve.numerics.double_double import DoubleDouble
from linsolve.numerics.scalar import smallest
from linsolve.systems.two_layer.hyperbolic_rotation import Rotation
from linsolve.systems.two_layer.initial_weights import gaussian, on_a_line
from linsolve.systems.two_layer.line_descent import Fixed, kernel_growth
from linsolve.systems.two_layer.rotated_layers import LayersStart
from linsolve.systems.two_layer.two_layer import TwoLayer

__all__ = ["LazyTwoLayer"]


class LazyTwoLayer(TwoLayer):
    r"""The network of `TwoLayer` with scaled output and its initial output subtracted: lazy and feature training.

    .. math:: F = \alpha\, (f - f_{\rm ref}), \quad f = \gamma\, u \cdot W x, \quad
        f_{\rm ref} = \gamma\, u_0 \cdot W_0 x, \qquad L = \frac{1}{\alpha^2} (F - y)^2, \qquad
        \dot u = -\eta_u \partial L/\partial u, \quad \dot W = -\eta_w \partial L/\partial W .

    This is `TwoLayer` with the target ``f_ref + y/alpha``. At the reference weights the residual of ``f`` is exactly
    ``-y/alpha``. The difference of output and target would lose digits: all of them at ``alpha = 1e16``.

    Parameters
    ----------
    y : array_like, shape batch
        Target of ``F``.
    gamma : array_like, shape batch
        Scale of the model, ``(h d_in)^(-1/2)`` in the source.
    eta_u, eta_w : array_like, shape batch
        Learning rates (per unit of time); 1 in the source.
    x : array_like, shape batch + (d0,)
        The data point.
    alpha : array_like, shape batch
        Scale of the output, positive; large values give lazy training, small values feature training.
    u0 : array_like, shape batch + (d,)
    w0 : array_like, shape batch + (d, d0)
        The reference weights, usually the initial weights. The solution is equally exact from other initial weights.

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
    Exact for: the networks of `TwoLayer`, from any initial weights. Not for: data off a line, or several outputs. Times
    refer to the loss above; for ``(F - y)^2/(2 alpha^2)`` double all times. ``traj["F"]`` is the scaled output,
    ``traj["kernel_change"]`` the relative change of the tangent kernel from the reference.

    Source: Geiger, Spigler, Jacot, Wyart, "Disentangling feature and lazy training in deep neural networks" (2020),
    for the linear network with one hidden layer on a line of data; `TwoLayer.from_lazy` returns its flow and initial
    weights. Laws at large width: `LazyTraining` and the laws named there.

    Accuracy for ``alpha`` from 1e-3 to 1e12 against 80 digits (``tests/systems/two_layer/test_lazy.py``): loss,
    residual, F and time to a loss 1e-13 relative, kernel_change 1e-13 of its two terms, u and w 1e-13 norm-wise. For
    `integrate`, and for a state that is not on a closed-form trajectory, the rounding of the weights limits
    ``f - f_ref``, and the error of ``F`` is about ``1e-15 alpha``. `discrete` keeps F, residual and kernel_change to
    1e-11 for ``alpha`` up to 1e200 (same file).

    Examples
    --------
    >>> from linsolve import TwoLayer
    >>> flow, z0 = TwoLayer.from_lazy(alpha=1e12, h=50, X=[1.0, 2.0], y=3.0, rng=0)
    >>> flow([0.0, float("inf")], z0)["F"].round(9).tolist()
    [0.0, 3.0]
    """

    _: dataclasses.KW_ONLY
    alpha: Any = parameter(r"\alpha", "scale of the output", domain="(0, inf)", typical=(0.1, 10.0))
    u0: Any = parameter("u_0", "second layer of the reference", typical=(-1.0, 1.0), axes=("d",))
    w0: Any = parameter("W_0", "first layer of the reference", typical=(-1.0, 1.0), axes=("d", "d0"))

    one_number: ClassVar[bool] = True

    # the problem

    def _gained(self, xp: Any, z: Any) -> Any:
        """Return ``f - f_ref`` from the differences of the weights, which are exact for small changes."""
        new = xp.sum((z.w - self.w0) * self.x[..., None, :], axis=-1)
        return self.gamma * xp.sum((z.u - self.u0) * self.hidden(xp, z) + self.u0 * new, axis=-1)

    def loss(self, xp: Any, z: Any) -> Any:
        """Return ``(F - y)^2 / alpha^2``."""
        return ((self.F(xp, z) - self.y) / self.alpha) ** 2

    # the closed form

    def target(self, xp: Any) -> DoubleDouble:
        """Return the target of the output ``gamma u.Wx``, ``f_ref + y/alpha``, shape batch."""
        return self._reference(xp) + self._shift(xp)

    def _reference(self, xp: Any) -> DoubleDouble:
        return (self._hidden(xp, self.w0) * self.u0).sum() * self.gamma

    def _shift(self, xp: Any) -> DoubleDouble:
        return DoubleDouble(xp, self.y + xp.zeros_like(self.alpha)) / self.alpha

    def _start(self, xp: Any, z0: Any) -> LayersStart:
        s, h, shift, reference = (
            DoubleDouble(xp, self.x).length(), self._hidden(xp, z0.w), self._shift(xp), self._reference(xp),
        )  # fmt: skip
        gained = (h * z0.u).sum() * self.gamma - reference  # exactly 0 at the reference
        rates = (self.eta_u, self.eta_w)
        return LayersStart.of(xp, z0.u, h, s, rates, self.gamma, reference + shift, gained - shift)

    def along(self, xp: Any, t: Any, z0: Any, shared: Any = None) -> Deferred:
        """Return the observables of `TwoLayer`, F and the kernel change from closed forms that do not cancel."""
        start, layers = shared = shared or self.shared(xp, t, z0)
        b = layers.rotation

        def F() -> Any:
            before = ((start.h * z0.u).sum() - (self._hidden(xp, self.w0) * self.u0).sum()) * self.gamma * self.alpha
            return before.hi * b.fade * b.fade + self.y * b.done

        def kernel_change() -> Any:
            first = self._first_change(xp, start)
            return first + (1 + first) * _later_change(xp, b, start)

        return super().along(xp, t, z0, shared) | Deferred(F=F, kernel_change=kernel_change)

    def described(self, xp: Any, fixed: Fixed, now: Any) -> Deferred:
        """Return the observables of `TwoLayer`, F and the kernel change from the factors of gradient descent."""
        found = super().described(xp, fixed, now)

        def kernel_change() -> Any:
            first = self._first_change(xp, fixed.start)
            return first + (1 + first) * kernel_growth(xp, fixed, now)

        return found | Deferred(F=lambda: self.alpha * found["residual"] + self.y, kernel_change=kernel_change)

    def _first_change(self, xp: Any, start: LayersStart) -> Any:
        """Return the relative difference of the initial tangent kernel from that of the reference weights."""
        root_h, root_u = DoubleDouble(xp, self.eta_u).sqrt(), DoubleDouble(xp, self.eta_w).sqrt() * start.s

        def root(h: DoubleDouble, u: Any) -> DoubleDouble:
            return (h.length() * root_h).hypot(DoubleDouble(xp, u).length() * root_u)

        reference = root(self._hidden(xp, self.w0), self.u0)
        share = (root(start.h, start.u) - reference).hi / _divisor(xp, reference.hi)
        return share * (2 + share)

    def rates(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return the time derivatives of ``f`` and ``F``; ``dF/dt = -2 ntk (F - y)`` does not contain alpha."""
        return super().rates(xp, z) | {"F": -2 * self.ntk(xp, z) * (self.F(xp, z) - self.y)}

    # observables

    @observable()
    def residual(self, xp: Any, z: Any) -> Any:
        """Return ``f - f_ref - y/alpha``, shape batch."""
        return self._gained(xp, z) - self.y / self.alpha

    @observable()
    def F(self, xp: Any, z: Any) -> Any:
        """Return ``alpha (f - f_ref)``, shape batch."""
        return self.alpha * self._gained(xp, z)

    @observable(bounds="[-1, inf)")
    def kernel_change(self, xp: Any, z: Any) -> Any:
        """Return the relative change of the tangent kernel from the reference, shape batch; 0 where the latter is 0."""
        reference = self.ntk(xp, self.State(self.u0, self.w0))
        change = (self.ntk(xp, z) - reference) / _divisor(xp, reference)
        return xp.where(reference == 0, xp.zeros_like(change), change)

    # constructors

    @classmethod
    def from_dataset(  # type: ignore[override]
        cls, X: Any, y: Any, *, reference: Any, alpha: Any, gamma: Any = 1.0, eta_u: Any = 1.0, eta_w: Any = 1.0
    ) -> LazyTwoLayer:
        r"""Return the flow of a data set that lies on a line through the origin.

        With samples ``X_k = a_k n`` and E the mean over samples, ``E (F(X) - y)^2 / alpha^2`` is this flow's loss at
        ``x = sqrt(E a^2) n``, target ``E(a y)/sqrt(E a^2)``, plus ``(E y^2 - (E a y)^2/E a^2)/alpha^2``.

        Parameters
        ----------
        X : array_like, shape (N, d0)
            Samples.
        y : array_like, shape (N,)
            Targets.
        reference : State
            The initial weights.
        alpha, gamma, eta_u, eta_w : array_like
            As for the flow.

        Raises
        ------
        NotExact
            If the relative Frobenius distance of the samples from every line through the origin exceeds 1e-9.
        """
        x, target = on_a_line(f"{cls.__name__}.from_dataset", X, y, cls.tolerance)
        u0, w0 = cls.state(reference)
        _refuse_other_inputs(f"{cls.__name__}.from_dataset", "reference", w0, x)
        return cls(y=target, gamma=gamma, eta_u=eta_u, eta_w=eta_w, x=x, alpha=alpha, u0=u0, w0=w0)

    def definition(self, xp: Any) -> Definition:
        """Return the network of raw weights, with scaled output and its initial output subtracted."""
        raw, reference = super().definition(xp), {"u": self.u0, "w": self.w0}

        def observables(w: Any, kernel: Any) -> dict[str, Any]:
            gained = raw.output(w) - raw.output(reference)
            start = {name: value + 0 * w[name] for name, value in reference.items()}
            return raw.observables(w, kernel) | {
                "F": self.alpha * gained,
                "residual": gained - self.y / self.alpha,
                "ntk": kernel(w)[..., 0, 0] / self.alpha**2,
                "sharpness": self._curvature(xp, w, gained - self.y / self.alpha),
                "kernel_change": kernel(w)[..., 0, 0] / kernel(start)[..., 0, 0] - 1,
            }

        return raw._replace(
            weights={"u": self.u0.shape[-1:], "w": self.w0.shape[-2:]},
            output=lambda w: self.alpha * (raw.output(w) - raw.output(reference)),
            observables=observables,
            share=1 / self.alpha**2,
        )

    @classmethod
    def example(cls, rng: np.random.Generator) -> tuple[LazyTwoLayer, Any]:
        """Return three networks of five units on three inputs at their references: three alphas, y of both signs."""
        z0 = cls.init(5, 3, sigma_u=0.6, sigma_w=0.7, batch=(3,), rng=rng)
        flow = cls(
            y=rng.uniform(0.5, 2.0, 3) * np.array([1, -1, 1]),
            gamma=rng.uniform(0.5, 1.5),
            eta_u=rng.uniform(0.3, 0.9),
            eta_w=rng.uniform(1.1, 2.0),
            x=rng.uniform(0.3, 1.0, 3) * np.array([1, -1, 1]),
            alpha=rng.uniform(0.8, 1.25, 3) * np.array([0.5, 1.0, 4.0]),
            u0=z0.u,
            w0=z0.w,
        )
        return flow, z0

    @classmethod
    def from_lazy(
        cls, alpha: Any, h: int, X: Any, y: Any, *, z0: Any = None, rng: Any = None
    ) -> tuple[LazyTwoLayer, Any]:
        """Return the flow and the initial weights of a scaled network; see `TwoLayer.from_lazy`."""
        who = "TwoLayer.from_lazy"
        h, rng = integer(who, "h", h, meaning="hidden units", example=10), seeded(who, rng)
        X = np.asarray(real_array(who, "X", X, meaning="samples"))
        x, target = (X, y) if X.ndim == 1 else on_a_line(who, X, y, cls.tolerance)
        if z0 is None:
            sizes, sigmas = {"h": h, "d_in": x.shape[-1]}, {"sigma_u": 1.0, "sigma_w": 1.0}
            z0 = tuple(gaussian(who, (("h",), ("h", "d_in")), sizes, sigmas, (), rng))
        start = cls.state(z0)
        if start.u.shape[-1:] != (h,):
            raise ValueError(
                f"{who}: h = {h} must be the number of hidden units of z0, whose u has shape {start.u.shape}; say "
                f"{start.u.shape[-1]}"
            )
        _refuse_other_inputs(who, "z0", start.w, x)
        gamma = 1 / np.sqrt(h * x.shape[-1])
        return cls(y=target, gamma=gamma, x=x, alpha=alpha, u0=start.u, w0=start.w), start

    @classmethod
    def symbols(cls) -> tuple[dict[str, Any], tuple[Any, ...], dict[Any, Any]]:
        """Return one unit on one input at its reference, in the symbols of `TwoLayer`."""
        import sympy

        alpha = sympy.Symbol("alpha", positive=True)
        parameters, (u, w), point = super().symbols()
        shift = parameters["y"] - parameters["gamma"] * u[0] * w[0][0] * parameters["x"][0]
        extra = {"y": alpha * sympy.expand(shift), "alpha": alpha, "u0": u, "w0": w}
        return parameters | extra, (u, w), point | {alpha: 1.7}


def _refuse_other_inputs(who: str, name: str, w: Any, x: Any) -> None:
    if w.shape[-1] != x.shape[-1]:
        rule = f"has a first layer of {w.shape[-1]} inputs, but the samples X have {x.shape[-1]}"
        raise ValueError(f"{who}: {name} {rule} (numbers of inputs); make them equal")


def _divisor(xp: Any, x: Any) -> Any:
    return xp.where(x == 0, xp.ones_like(x), x)


def _later_change(xp: Any, b: Rotation, layers: LayersStart) -> Any:
    r"""Return ``K(t)/K(0) - 1``, accurate also where small; inf where it is beyond the range of doubles.

    Computed as ``g f0 sinh(2 theta)/(p^2 + q^2) + 2 sinh(theta)^2`` or, at saddles, as the ratio minus 1.
    """
    start, unit = layers.rotation, layers.rotation.unit
    size = _divisor(xp, xp.hypot(start.p, start.q))
    f0 = ((layers.h.scaled(unit[..., None]) * (layers.u * unit[..., None])).sum() * layers.gamma).hi
    sinh = -start.g * start.r0 * b.lift
    turn, square = (start.g / size) * (f0 / size) * (sinh * unit) * (b.up + b.down), 2 * (sinh * sinh)
    ends = start.p / size * unit * b.up, start.q / size * unit * b.down
    root = xp.hypot(*ends)
    beyond = xp.zeros_like(root) != 0 if arithmetic.is_object(xp) else root > 2.0**511
    up, down = (xp.where(beyond, xp.zeros_like(v), v) for v in ends)
    whole = up * up + down * down
    bound = xp.where(b.tame, xp.abs(turn) + square, xp.full_like(square, xp.inf))
    change = smallest(xp, (bound, turn + square), (1 + whole, whole - 1))
    change = xp.where(beyond, xp.full_like(change, xp.inf), change)
    return xp.where(b.moved, change, xp.zeros_like(change))
