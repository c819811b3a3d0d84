"""Neural collapse: features, classifier and bias under a block-structured feature kernel (Seleznova et al. 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.definition import Definition
from linsolve.core.flow import Flow
from linsolve.numerics.cache import once_a_call
from linsolve.numerics.checked import in_range
from linsolve.systems.collapse import metrics
from linsolve.systems.collapse import starts as start
from linsolve.systems.collapse.by_host import distance_by_host, evaluated_by_host
from linsolve.systems.collapse.class_means import Centered, Modes
from linsolve.systems.collapse.constant_direction import ConstantMode, Scatter
from linsolve.systems.collapse.contrasts import averaged, contrasts
from linsolve.systems.collapse.features import BlockFeatures, bias_rate
from linsolve.systems.collapse.limits import equal_bias_limit
from linsolve.systems.collapse.solvable_sets import SolvableSets
from linsolve.systems.collapse.white_features import WhiteFeatures
from linsolve.systems.whitened.starts import refuse_impossible

__all__ = ["NeuralCollapse"]


class NeuralCollapse(BlockFeatures):
    r"""Features, classifier and bias under a feature kernel with blocks; the state holds products and Gram matrices.

    .. math:: L = |R|_F^2/2, \quad R = W H + b 1^T - Y, \qquad
        \dot W = -R H^T, \quad \dot b = -R 1, \quad \dot H = -W^T R K,

    ``H`` (n, N) the features of N samples in C classes, m of each, ordered by class, ``Y`` their membership, and
    :math:`K = (\kappa_d - \kappa_c) I + (\kappa_c - \kappa_n) Y^T Y + \kappa_n 1 1^T`, with eigenvalues
    :math:`\mu_s = \kappa_d - \kappa_c` (samples), :math:`\mu_c = \mu_s + m (\kappa_c - \kappa_n)` (classes),
    :math:`\mu_g = \mu_c + N \kappa_n` (global). A network with this kernel is ``f = W V Phi + b 1^T``,
    ``Phi^T Phi = K``.

    The dynamics is invariant under rotations of the features, and the state holds rotation invariants. From any start
    they obey a closed system:

    .. math:: (W H)' = -R H^T H - W W^T R K, \quad (W W^T)' = -R (W H)^T - \mathrm{h.c.}, \quad
        (H^T H)' = -K R^T W H - \mathrm{h.c.}

    Conserved: :math:`m E = W^T W - H K^{-1} H^T`. With ``M`` the centered class means, ``c = W^T 1/sqrt(C)`` the mean
    output and ``D`` the scatter within classes, a solution splits into parts on orthogonal hidden units:

    - contrasts of classes, ``W' = -m (W M - Pi) M^T``, ``M' = -mu_c W^T (W M - Pi)``, ``Pi = 1 - 1 1^T/C``: a two-layer
      network on white inputs in the time :math:`\sqrt{m \mu_c}\, t`, a matrix Riccati equation; or decoupled modes,
      each a `HiddenMode` with ``s = 1`` and rates ``m``, ``mu_c``;
    - the constant direction: at rest, where the bias relaxes alone, :math:`b = 1/C + (b_0 - 1/C) e^{-\eta_b N t}`, or
      a `BiasedMode` of mean feature, mean output and bias; for a frozen bias a `HiddenMode` with ``s = 1 - sum b``;
    - scatter within classes: at rest, where ``W D = 0``; or coupled to the mean output alone, ``c' = -D D^T c``,
      ``D' = -mu_s c c^T D``, a `HiddenMode` with ``s = 0`` and rates 1, ``mu_s``.

    Parameters
    ----------
    kappa_d, kappa_c, kappa_n : array_like, shape batch
        Feature kernel of a sample with itself, with its class, with other classes (per unit of time):
        ``kappa_d > kappa_c >= kappa_n >= 0``.
    classes : int
        Number of classes, at least two.
    m : int, or array_like of int, shape (C,)
        Samples of each class, one number or a number for each class.
    eta_b : array_like, shape batch
        Learning rate of the bias, ``b' = -eta_b R 1``; 0 keeps it at its initial value; with ``b = 0``
        the network has no bias.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, ``kappa_d > kappa_c >= kappa_n`` does not hold, or
        shapes do not fit. At a call, also for an invalid state or time.
    NotExact
        At a call, if the start belongs to no solvable class.
    OverflowError
        At a call, or at the access of an observable, if results leave the range of doubles.

    Notes
    -----
    Exact for the following cases, which may differ between the members of a batch, for classes of equal size:

    - contrasts, balanced (``E = 0``) or lambda-balanced (``E`` a multiple of the projector on the span of the weights),
      aligned or not, of any width and rank; one hidden feature; two classes with zero-sum classifier; the
      imbalances with two eigenvalues that `WhitenedTwoLayer` solves;
    - contrasts whose ``W M``, ``W W^T`` and ``M^T M`` are diagonal in one basis, with any imbalances and vectors of
      hidden units (aligned E with any eigenvalues, for example);
    - the constant direction at rest: mean feature zero, and a bias with ``W^T (C b - 1) = M (C b - 1) = 0`` (then ``c``
      may share hidden units with contrasts that follow a Riccati equation); or decoupled: equal biases, any mean
      feature and ``c`` orthogonal to contrasts of W and M;
    - scatter with ``W D = 0``, ``D^T H1 = 0``; scatter coupled to ``c``, with ``c`` orthogonal to contrasts, mean
      feature zero, ``b = 1/C`` and ``D^T c`` an eigenvector of ``D^T D`` (true for one scattered hidden unit, rank one,
      lambda-balanced scatter, a solvable imbalance with two eigenvalues). The scatter decays exponentially if
      ``mu_s c c^T - D D^T`` is positive.
      It decays as ``1/(2 t)`` if this matrix is zero, and otherwise converges to the negative part of this matrix.

    For classes of unequal sizes ``m_c``: ``kappa_c = kappa_n``, features of mean zero with any scatter, bias ``m_c/N``,
    and an imbalance that `WhitenedTwoLayer` solves. Scatter is then learned together with class means, a matrix Riccati
    equation with target ``Y - m 1^T/N``. For ``kappa_c > kappa_n`` the features of class averages have C different
    rates, and no closed form is known. ``E`` is taken per N/C samples, and the mean is that of all samples.

    Not for the following starts; use `linsolve.integrate`. Not implemented are contrasts in blocks of two eigenvalues
    each, and scatter coupled to contrasts where ``kappa_c = kappa_n`` makes features white. No closed form is known for
    scatter coupled to contrasts otherwise, for a mean that shares hidden units, and for other imbalances. If ``D^T c``
    changes its direction, ``D D^T`` and ``c c^T`` are a `linsolve.collapse.ZeroTarget`, but ``D^T D`` has no closed
    form. For a frozen classifier use `FrozenHead`.

    Raises `ValueError` for products and Gram matrices that belong to no weights.

    Sources: Seleznova, Weitzner, Giryes, Kutyniok, Chou, "Neural (tangent kernel) collapse" (2023), Theorems 4.1, 5.1,
    5.2; Seleznova, thesis (2024), section 3.3 and appendix B, whose equation numbers are used. The thesis proves
    limits; the solutions are derived here. ``linsolve card NeuralCollapse`` lists the published formulas and their
    verdicts.

    Accuracy: 1e-12 of each field's largest entry against sixty digits, typically 1e-14, at t from 1e-6 to 1e3 and inf
    (``tests/systems/collapse``). The tests take twenty generic starts and kernels of each kind: lambda-balanced
    contrasts, modes, modes with a constant mode, and scatter coupled to the mean output. Near a saddle the state at
    late times is ill-conditioned, and rounding of the start changes it by more than 1e-12. A start within `tolerance`
    of a solvable set is replaced by the nearest start in the set. The loss is computed as a difference, with an
    absolute error at the rounding level of ``|Y|^2``.

    Examples
    --------
    >>> from linsolve import NeuralCollapse
    >>> flow = NeuralCollapse(kappa_d=2.0, kappa_c=1.0, kappa_n=0.5, classes=3, m=4)
    >>> traj = flow([0.0, 1.0, float("inf")], flow.of(*flow.init(6, scale=0.3, rng=0)))
    >>> bool(traj["nc2_angles"][0] > 0.1), bool(traj["nc2_angles"][-1] < 1e-12), bool(traj["nc3"][-1] < 1e-12)
    (True, True, True)
    """

    eta_b: Any = bias_rate()

    class State(NamedTuple):
        """``W H`` (C, N), ``W W^T`` (C, C), ``H^T H`` (N, N) and bias ``b`` (C,)."""

        product: Any
        gram_w: Any
        gram_h: Any
        b: Any

    axes: ClassVar = {"product": ("C", "N"), "gram_w": ("C", "C"), "gram_h": ("N", "N"), "b": ("C",)}

    # states and weights

    def of(self, h: Any, w: Any, b: Any) -> State:
        """Return the state of features `h` (n, N), classifier `w` (C, n) and bias `b` (C,), batch axes leading."""
        h, w, b = start.weights(type(self).__name__, self._sizes, h, w, b)
        xp = arithmetic.namespace(h, w, b)
        turned = xp.matrix_transpose
        for name, a in (("h", h), ("w", w)):
            start.refuse_large(f"{type(self).__name__}.of", name, a)
        return self.State(w @ h, w @ turned(w), turned(h) @ h, b)

    def init(
        self, n: int, *, scale: float, imbalance: float = 0.0, batch: tuple[int, ...] = (),
        rng: np.random.Generator | int | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
        """Return random solvable features, classifier and bias, not aligned: no scatter, mean zero, ``b = 1/C``.

        Parameters
        ----------
        n : int
            Number of features. The limit is a simplex if ``n >= classes - 1``.
        scale : float
            Size of the weights not fixed by the imbalance, positive or zero.
        imbalance : float
            ``lambda`` of ``E = lambda P_S``, S the span of the weights.
        batch : tuple of int
            Leading shape.
        rng : Generator or int, optional

        Returns
        -------
        h : array, shape batch + (n, N)
        w : array, shape batch + (C, n)
        b : array, shape batch + (C,)
        """
        flow = self.cast(np)
        if self._equal:
            mu, basis = flow.rates_of_features(np)[1], contrasts(np, self._classes)
        else:
            start.refuse_blocks(f"{type(self).__name__}.init", self._sizes, flow)
            mu, basis = (flow.kappa_d - flow.kappa_c) * self._count / self._classes, contrasts(np, self._count)
        return start.balanced(
            f"{type(self).__name__}.init", self._sizes, basis, mu, n,
            scale=scale, imbalance=imbalance, batch=batch, rng=rng,
        )  # fmt: skip

    def imbalance_of(self, h: Any, w: Any) -> Any:
        """Return ``E = (W^T W - H K^-1 H^T)/m``, eq. (26), shape batch + (n, n), conserved from any start."""
        xp = arithmetic.namespace(h, w)
        h, w, _ = start.weights(type(self).__name__, self._sizes, h, w, xp.ones(self._classes))
        flow, who = self.cast(xp), f"{type(self).__name__}.imbalance_of"

        def imbalance() -> Any:
            back = flow._through(xp, h, inverse=True)
            return (xp.matrix_transpose(w) @ w - back @ xp.matrix_transpose(h)) / (self._count / self._classes)

        return in_range(who, imbalance, h=h, w=w)

    @classmethod
    def state(cls, z: Any) -> Any:
        """Return `z` as a State of real arrays; raise if it belongs to no weights."""
        found = super().state(z)
        given = z.values() if isinstance(z, Mapping) else z
        fields = {name: getattr(found, name) for name in ("product", "gram_h", "gram_w")}
        refuse_impossible(cls.__name__, fields, "flow.of(h, w, b)", given)
        return found

    # the problem

    def residual(self, xp: Any, z: Any) -> Any:
        """Return ``R = W H + b 1^T - Y``, shape batch + (C, N)."""
        if tuple(z.product.shape[-2:]) != (self._classes, self._count):
            raise ValueError(
                f"{type(self).__name__}: product has shape {tuple(z.product.shape)} but needs trailing "
                f"{(self._classes, self._count)} (classes, samples of all classes); the flow has "
                f"classes = {self._classes}, m = {self._given_sizes()}"
            )
        return z.product + z.b[..., :, None] - self._members(xp)

    def _seen(self, xp: Any, z: Any) -> tuple[Any, Any, Any]:
        """Return ``W H``, ``W W^T`` and ``H^T H``."""
        return z.product, z.gram_w, z.gram_h

    def descent(self, xp: Any, z: Any, gradient: Any) -> Any:
        """Return the velocity of a gradient with respect to product and bias, by the chain rule."""
        g, turned = gradient.product, xp.matrix_transpose
        moved = self._through(xp, g)
        out, features = g @ turned(z.product), turned(moved) @ z.product
        return self.State(
            -(g @ z.gram_h + z.gram_w @ moved),
            -(out + turned(out)),
            -(features + turned(features)),
            -self.eta_b[..., None] * gradient.b,
        )

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return the closed flow of products and Gram matrices, from any start."""
        r, turned = self.residual(xp, z), xp.matrix_transpose
        pulled = self._pulled(xp, r)
        out, features = r @ turned(z.product), turned(pulled) @ z.product
        return self.State(
            -(r @ z.gram_h + z.gram_w @ pulled),
            -(out + turned(out)),
            -(features + turned(features)),
            -self.eta_b[..., None] * xp.sum(r, axis=-1),
        )

    def step(self, xp: Any, z: Any, h: Any) -> Any:
        """Return the state after one step of gradient descent on features, classifier and bias."""
        r, turned, v = self.residual(xp, z), xp.matrix_transpose, self.velocity(xp, z)
        k = self._through(xp, r)
        return self.State(
            z.product + h * v.product + h * h * r @ turned(z.product) @ k,
            z.gram_w + h * v.gram_w + h * h * r @ z.gram_h @ turned(r),
            z.gram_h + h * v.gram_h + h * h * turned(k) @ z.gram_w @ k,
            z.b + h * v.b,
        )

    # the closed form

    def _centered(self, xp: Any, z: Any) -> Centered:
        y = self._members(xp)
        means, _ = metrics.class_grams(xp, z.gram_h, y)
        square = xp.sqrt(self.rates_of_features(xp)[1] / self._each)
        return Centered.of(xp, averaged(xp, z.product, y), z.gram_w, means, square, z.gram_h)

    def _modes(self, xp: Any, centered: Centered) -> Modes:
        return Modes.of(xp, *centered.outputs(xp))

    def _constant(self, xp: Any, z: Any, used: Any) -> ConstantMode:
        n = self._classes * self._each
        large = self.rates_of_features(xp)[2]
        rates = self._each + 0 * large, large, n * self.eta_b + 0 * large
        return ConstantMode(xp, rates, z, self._members(xp), used)

    def _scattered(self, xp: Any, t: Any, scatter: Scatter, used: Any) -> tuple[Any, Any, Any]:
        return scatter.at(xp, t, used, self.rates_of_features(xp)[0])

    def _solvable(self, xp: Any, z0: Any, last: bool) -> SolvableSets | WhiteFeatures:
        sets = SolvableSets if self._equal else WhiteFeatures
        return once_a_call(self, z0, lambda: sets(xp, self._with(_last=None), z0), last)  # what is kept has no cycle

    def begun(self, xp: Any, z0: Any) -> Any:
        """Return the start in the solvable sets."""
        return None if arithmetic.is_jax(xp) else self._solvable(xp, z0, last=True)

    def solution(self, xp: Any, t: Any, z0: Any, begun: Any = None) -> Any:
        """Return the state; at ``t = 0`` bitwise the start, at ``t = inf`` the limit."""
        self.residual(xp, z0)  # raises for a start of other sizes
        if arithmetic.is_jax(xp):
            return self.State(*evaluated_by_host(xp, self, t, z0))
        t = t + 0 * z0.b[..., 0]
        still = (t == 0)[..., None]
        shapes = still[..., None], still[..., None], still[..., None], still
        # later times, in units of the fastest rate, would overflow; the state has converged by then
        rates = self._fastest() * (1 + metrics.trace(xp, z0.gram_w)) + metrics.trace(xp, z0.gram_h)
        latest = 1e300 / (rates + self._count * (1 + self.eta_b))
        sets = begun or self.begun(xp, z0)
        later = sets.at(xp, xp.where((t > latest) & (t < xp.inf), latest, t))
        return self.State(*(xp.where(s, a, b) for s, a, b in zip(shapes, z0, later, strict=True)))

    def conditions(self, xp: Any, z0: Any) -> dict[str, Any]:
        """Return the distances from the nearest solvable set, by name; conditions of other sets are 0."""
        self.residual(xp, z0)
        if arithmetic.is_jax(xp):
            return {"distance from the solvable sets": distance_by_host(xp, self, z0)}
        return self._solvable(xp, z0, last=False).conditions(xp)

    def limit(self, xp: Any, z0: Any) -> Any:
        """Return the state at ``t = inf``."""
        return self.solution(xp, xp.inf * xp.ones_like(self.kappa_d + z0.b[..., 0]), z0)

    def invariants(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return ``tr (m E)^k``, k = 1, 2, 3: power sums of the imbalance's eigenvalues, conserved from any start."""
        turned, trace = xp.matrix_transpose, metrics.trace
        a, kp = z.gram_w, self._through(xp, z.product, inverse=True)
        kh = turned(self._through(xp, z.gram_h, inverse=True))  # K^-1 H^T H
        cross = kp @ turned(z.product)
        return {
            "imbalance": trace(xp, a) - trace(xp, kh),
            "imbalance_squared": trace(xp, a @ a) - 2 * trace(xp, cross) + trace(xp, kh @ kh),
            "imbalance_cubed": trace(xp, a @ a @ a) - 3 * trace(xp, a @ cross)
            + 3 * trace(xp, z.product @ kh @ turned(kp)) - trace(xp, kh @ kh @ kh),
        }  # fmt: skip

    equal_bias_limit = equal_bias_limit

    def definition(self, xp: Any) -> Definition:
        """Return the network in which features, classifier and bias learn."""
        turned = xp.matrix_transpose

        def state(h: Any, w: Any, b: Any) -> Any:
            return self.State(w @ h, w @ turned(w), turned(h) @ h, b)

        network = self.network(xp, lambda w: w["w"], state)
        weights, rates = {**network.weights, "w": (self._classes, 4)}, {**network.rates, "w": network.rates["v"]}
        return network._replace(weights=weights, rates=rates)

    @classmethod
    def example(cls, rng: np.random.Generator) -> tuple[Flow, Any]:
        """Return three classes of two samples: one feature, two lambda-balanced, decoupled modes, scatter at rest."""
        root, kappa_n = rng.integers(16, 21) / 16, rng.integers(12, 20) / 64
        kappa_c, mu = kappa_n + rng.integers(26, 33) / 64, 2 * root**2
        kappa_d = mu + kappa_c - 2 * (kappa_c - kappa_n)
        flow = cls(kappa_d=kappa_d, kappa_c=kappa_c, kappa_n=kappa_n, classes=3, m=2)
        # with one feature the imbalance is a scalar, so the first start is solvable for any kernel
        kinds = start.one_unit(rng, 5), start.dyadic(rng, 5, root), start.decoupled(rng, 5)
        means, w = (np.stack(both) for both in zip(*kinds, strict=True))
        h = np.repeat(means, 2, axis=-1)
        h[2, -1] = np.array([1, -1, 2, -2, -1, 1]) / 16
        return flow, flow.of(h, w, np.full((3, 3), rng.integers(40, 60) / 64))
