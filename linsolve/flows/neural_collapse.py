"""Neural collapse: features, classifier and bias under a block-structured feature kernel (Seleznova et al. 2023)."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.flow import Flow, observable, parameter
from linsolve.flows import neural_collapse_metrics as metrics
from linsolve.flows import neural_collapse_start as start
from linsolve.flows.neural_collapse_constant import ConstantMode, coupling, equal_bias_limit
from linsolve.stable.centered import Centered, averaged, members, split

__all__ = ["NeuralCollapse"]


class NeuralCollapse(Flow):
    r"""Features, classifier and bias of a network whose feature kernel has blocks, in products and Gram matrices.

    .. math:: L = |R|_F^2/2, \quad R = W H + b 1^T - Y, \qquad
        \dot W = -R H^T, \quad \dot b = -R 1, \quad \dot H = -W^T R K,

    ``H`` (n, N) the features of C classes of m samples, ordered by class, ``Y`` their membership, and
    :math:`K = (\kappa_d - \kappa_c) I + (\kappa_c - \kappa_n) Y^T Y + \kappa_n 1 1^T`, with eigenvalues
    :math:`\mu_s = \kappa_d - \kappa_c` (samples), :math:`\mu_c = \mu_s + m (\kappa_c - \kappa_n)` (classes),
    :math:`\mu_g = \mu_c + N \kappa_n` (global). It is the network ``f = W V Phi + b 1^T``, ``Phi^T Phi = K``.

    Features may be rotated freely, so the state is what does not depend on that, and from any start it is closed:

    .. math:: (W H)' = -R H^T H - W W^T R K, \quad (W W^T)' = -R (W H)^T - \mathrm{h.c.}, \quad
        (H^T H)' = -K R^T W H - \mathrm{h.c.}

    Conserved: :math:`m E = W^T W - H K^{-1} H^T`. Without scatter within classes, with features of mean zero, with
    :math:`b = \beta 1` and :math:`1^T W = 0` or :math:`\beta = 1/C`, the bias relaxes alone,
    :math:`b = 1/C + (b_0 - 1/C) e^{-N t}`, and classifier and class means ``M`` are a two-layer network on white
    inputs with target :math:`\Pi = I - 1 1^T/C` in the time :math:`\sqrt{m \mu_c}\, t`, a matrix Riccati equation.
    Where mean feature and mean output have hidden units of their own, they and the bias are a `BiasedMode` beside it.

    Parameters
    ----------
    kappa_d, kappa_c, kappa_n : array_like, shape batch
        Feature kernel of a sample with itself, with its class, with other classes (per unit of time):
        ``kappa_d > kappa_c >= kappa_n >= 0``.
    classes, m : int
        Classes, at least two, and samples of each.

    Notes
    -----
    Exact for: the starts above that are balanced (``E = 0``) or lambda-balanced (``E`` a multiple of the projector on
    the span of the weights), aligned or not, of any width and rank; one hidden feature; two classes with zero-sum
    classifier; two eigenvalues of the imbalance, as in `WhitenedTwoLayer`. Also for a bias with any
    ``c = C b - 1`` that classifier and means do not see (``W^T c = M c = 0``), and for equal biases with any feature
    mean ``u`` and output mean ``W^T 1`` orthogonal to contrasts of W and M. Not for: scatter within classes, a mean
    that shares hidden units, other imbalances (no closed form is known); use `linsolve.integrate`, from any start. Left
    out: the frozen head, scatter on hidden units of its own.

    Sources: Seleznova, Weitzner, Giryes, Kutyniok, Chou, "Neural (tangent kernel) collapse" (2023), Theorems 4.1, 5.1,
    5.2; Seleznova, thesis (2024), section 3.3 and appendix B, whose numbers are used. The thesis proves limits; the
    Riccati solution is not in it.

    Errata of the thesis, each shown by ``tests/test_neural_collapse.py``:

    ==========  ====================================================  =========================
    place       as printed                                            as it should be
    ==========  ====================================================  =========================
    NC2         class means tend to one another                       lengths of class means do
    (28)        ``H1 H1^T/mu_c - H2 H2^T/mu_s``                       ``+``
    (30)        ``gamma`` with ``|beta C|``                           ``|1 - beta C|``
    (40)        ``W' = -m (R1 H1^T - W H2 H2^T)``                     ``+``
    (57)        ``lam_c (W W^T)^2 - (I - beta J)^2``                  ``m (I - beta J)^2``
    (66), (68)  ``theta`` divides by ``2 - sqrt(1 - alpha C)``        ``sqrt(1 - alpha C)``
    (70)        ``M^T M`` tends to ``mu_c/m`` times ``Pi``            ``sqrt(mu_c/m)``
    ==========  ====================================================  =========================

    Accuracy: 1e-12 of each field's largest entry against fifty digits, t from 1e-6 to 1e3 and inf
    (``tests/test_neural_collapse.py``), where the start determines it. The loss is a difference, exact to rounding of
    ``|Y|^2``.

    Examples
    --------
    >>> from linsolve import NeuralCollapse
    >>> flow = NeuralCollapse(kappa_d=2.0, kappa_c=1.0, kappa_n=0.5, classes=3, m=4)
    >>> traj = flow([0.0, 1.0, float("inf")], flow.of(*flow.init(6, scale=0.3, rng=0)))
    >>> bool(traj["nc2_angles"][0] > 0.1), bool(traj["nc2_angles"][-1] < 1e-12), bool(traj["nc3"][-1] < 1e-12)
    (True, True, True)
    """

    kappa_d: Any = parameter(r"\kappa_d", "feature kernel of a sample with itself", domain="(0, inf)", typical=(1.5, 3))
    kappa_c: Any = parameter(r"\kappa_c", "feature kernel within a class", domain="[0, inf)", typical=(0.6, 1.2))
    kappa_n: Any = parameter(r"\kappa_n", "feature kernel between classes", domain="[0, inf)", typical=(0.1, 0.5))
    classes: Any = parameter("C", "number of classes", domain="[2, inf)", typical=(2, 10), whole=True)
    m: Any = parameter("m", "samples of each class", domain="[1, inf)", typical=(2, 20), whole=True)

    class State(NamedTuple):
        """``W H`` (C, N), ``W W^T`` (C, C), ``H^T H`` (N, N) and bias ``b`` (C,)."""

        product: Any
        gram_w: Any
        gram_h: Any
        b: Any

    axes: ClassVar = {"product": ("C", "N"), "gram_w": ("C", "C"), "gram_h": ("N", "N"), "b": ("C",)}
    _classes: ClassVar[int]
    _each: ClassVar[int]

    def __post_init__(self) -> None:
        super().__post_init__()
        who = type(self).__name__
        if getattr(arithmetic.namespace(self.classes), "symbolic", False):
            raise TypeError(f"{who}: classes = {self.classes} must be a number (number of classes); use floats")
        object.__setattr__(self, "_classes", start.counted(who, "classes", self.classes, "number of classes"))
        object.__setattr__(self, "_each", start.counted(who, "m", self.m, "samples of each class"))
        start.refuse_disorder(who, {k: arithmetic.to_numpy(v) for k, v in self.parameters().items()})

    # what is given

    def of(self, h: Any, w: Any, b: Any) -> Any:
        """Return the state of features `h` (n, N), classifier `w` (C, n) and bias `b` (C,), batch axes leading."""
        h, w, b = start.weights(type(self).__name__, self._classes, self._each, h, w, b)
        xp = arithmetic.namespace(h, w, b)
        turned = xp.matrix_transpose
        return self.State(w @ h, w @ turned(w), turned(h) @ h, b)

    def init(
        self, n: int, *, scale: float, imbalance: float = 0.0, batch: tuple[int, ...] = (),
        rng: np.random.Generator | int | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
        """Return random solvable features, classifier and bias, not aligned: no scatter, mean zero, ``b = 1/C``.

        Parameters
        ----------
        n : int
            Features; from ``classes - 1`` on the limit is a simplex.
        scale : float
            Size of the weights that the imbalance does not fix, positive or zero.
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
        mu = arithmetic.to_numpy(self.cast(np).rates_of_features(np)[1])
        return start.balanced(
            f"{type(self).__name__}.init", self._classes, self._each, mu, n,
            scale=scale, imbalance=imbalance, batch=batch, rng=rng,
        )  # fmt: skip

    def imbalance_of(self, h: Any, w: Any) -> Any:
        """Return ``E = (W^T W - H K^-1 H^T)/m``, eq. (26), shape batch + (n, n), conserved from any start."""
        xp = arithmetic.namespace(h, w)
        h, w, _ = start.weights(type(self).__name__, self._classes, self._each, h, w, xp.ones(self._classes))
        back = self.cast(xp)._through(xp, h, inverse=True)
        return (xp.matrix_transpose(w) @ w - back @ xp.matrix_transpose(h)) / self._each

    # the kernel

    def rates_of_features(self, xp: Any) -> tuple[Any, Any, Any]:
        """Return the eigenvalues ``mu_s, mu_c, mu_g`` of K, each shape batch."""
        sample = self.kappa_d - self.kappa_c
        classes = sample + self._each * (self.kappa_c - self.kappa_n)
        return sample, classes, classes + self._each * self._classes * self.kappa_n

    def _members(self, xp: Any) -> Any:
        return members(xp, self._classes, self._each)

    def _through(self, xp: Any, a: Any, *, inverse: bool = False) -> Any:
        """Return ``a K``, or ``a K^-1``, by the parts of the rows of `a`."""
        mu = [v[..., None, None] for v in self.rates_of_features(xp)]
        parts = split(xp, a, self._members(xp))
        return sum(p / v if inverse else p * v for p, v in zip(parts, mu, strict=True))

    # the problem

    def residual(self, xp: Any, z: Any) -> Any:
        """Return ``R = W H + b 1^T - Y``, shape batch + (C, N)."""
        if tuple(z.product.shape[-2:]) != (self._classes, self._classes * self._each):
            raise ValueError(
                f"{type(self).__name__}: product has shape {tuple(z.product.shape)} but needs trailing "
                f"{(self._classes, self._classes * self._each)} (classes, samples of all classes); the flow has "
                f"classes = {self._classes}, m = {self._each}"
            )
        return z.product + z.b[..., :, None] - self._members(xp)

    def loss(self, xp: Any, z: Any) -> Any:
        """Return ``|W H + b 1^T - Y|^2 / 2``."""
        return xp.sum(self.residual(xp, z) ** 2, axis=(-2, -1)) / 2

    def descent(self, xp: Any, z: Any, gradient: Any) -> Any:
        """Return the velocity of a gradient with respect to product and bias, by the chain rule."""
        g, turned = gradient.product, xp.matrix_transpose
        moved = self._through(xp, g)
        out, features = g @ turned(z.product), turned(moved) @ z.product
        return self.State(
            -(g @ z.gram_h + z.gram_w @ moved), -(out + turned(out)), -(features + turned(features)), -gradient.b
        )

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return the closed flow of products and Gram matrices, from any start.

        ``R K`` is formed from the entries of K, not from its eigenvalues as in `descent`, so that one checks the other.
        """
        r, y, turned = self.residual(xp, z), self._members(xp), xp.matrix_transpose
        own, mate, other = (v[..., None, None] for v in (self.kappa_d, self.kappa_c, self.kappa_n))
        total = xp.sum(r, axis=-1)
        pulled = (own - mate) * r + (mate - other) * ((r @ turned(y)) @ y) + other * total[..., :, None]
        out, features = r @ turned(z.product), turned(pulled) @ z.product
        return self.State(
            -(r @ z.gram_h + z.gram_w @ pulled), -(out + turned(out)), -(features + turned(features)), -total
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

    def _apart(self, xp: Any, z: Any) -> tuple[Any, Any]:
        """Return the coupling of the constant mode, and whether it is the mode that makes the start solvable."""
        y = self._members(xp)
        found, near = coupling(xp, z, y), start.distances(xp, z, y)
        return found, (found <= self.tolerance) & (found < xp.maximum(*list(near.values())[1:]))

    def _constant(self, xp: Any, z: Any, used: Any) -> ConstantMode:
        n = self._classes * self._each
        large = self.rates_of_features(xp)[2]
        return ConstantMode(xp, (self._each + 0 * large, large, n + 0 * large), z, self._members(xp), used)

    def _centered(self, xp: Any, z: Any) -> Centered:
        y = self._members(xp)
        means, _ = metrics.class_grams(xp, z.gram_h, y)
        square = xp.sqrt(self.rates_of_features(xp)[1] / self._each)
        return Centered.of(xp, averaged(xp, z.product, y), z.gram_w, means, square)

    def solution(self, xp: Any, t: Any, z0: Any) -> Any:
        """Return the state; at ``t = 0`` bitwise the start, at ``t = inf`` the limit."""
        self.residual(xp, z0)  # refuses a start of other sizes
        y, apart = self._members(xp), self._apart(xp, z0)[1]
        pace = xp.sqrt(self.rates_of_features(xp)[1] * self._each)
        t = t + 0 * z0.b[..., 0]
        centered = self._centered(xp, z0)
        product, gram_w, means = centered._replace(closed=centered.closed | apart).followed(xp, pace * t)
        done = -xp.expm1(-self._classes * self._each * t)[..., None]
        b = z0.b + (xp.ones_like(z0.b) / self._classes - z0.b) * done
        whole = self._constant(xp, z0, apart).followed(xp, t)
        added = [v[..., None, None] for v in whole[:3]]
        still = (t == 0)[..., None]
        return self.State(
            xp.where(still[..., None], z0.product, product @ y + added[0]),
            xp.where(still[..., None], z0.gram_w, gram_w + added[1]),
            xp.where(still[..., None], z0.gram_h, xp.matrix_transpose(y) @ means @ y + added[2]),
            xp.where(still, z0.b, xp.where(apart[..., None], whole[3][..., None], b)),
        )

    def conditions(self, xp: Any, z0: Any) -> dict[str, Any]:
        """Return scatter within classes, feature mean, what of the bias is seen, and the imbalance's distance.

        Where the constant mode is apart, its coupling and its way stand in for mean and bias.
        """
        self.residual(xp, z0)
        found, apart = self._apart(xp, z0)
        scatter, *rest = start.distances(xp, z0, self._members(xp)).items()
        centered, none = self._centered(xp, z0), xp.zeros_like(found)
        return {
            **dict([scatter]),
            **{name: xp.where(apart, none, value) for name, value in rest},
            "coupling of the constant mode": xp.where(apart, found, none),
            "span of the constant mode": self._constant(xp, z0, apart).excess(xp),
            "distance of the imbalance from two eigenvalues": centered._replace(
                closed=centered.closed | apart
            ).distance(xp),
        }

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

    # what is observed

    @observable(bounds="[0, inf)")
    def nc1(self, xp: Any, z: Any) -> Any:
        """Return scatter of features within classes over scatter between, ``tr Sigma_W / tr Sigma_B``, shape batch."""
        return metrics.scatter_ratio(xp, z.gram_h, self._members(xp))

    @observable(bounds="[0, inf)")
    def nc2_norms(self, xp: Any, z: Any) -> Any:
        """Return the spread of the lengths of centered class means over their average, shape batch."""
        return metrics.norm_spread(xp, z.gram_h, self._members(xp))

    @observable(bounds="[0, 2]")
    def nc2_angles(self, xp: Any, z: Any) -> Any:
        """Return the largest ``|cos + 1/(C - 1)|`` over pairs of centered class means, shape batch."""
        return metrics.angle_misfit(xp, z.gram_h, self._members(xp))

    @observable(bounds="[0, 2]")
    def nc3(self, xp: Any, z: Any) -> Any:
        """Return ``|W/|W| - M^T/|M||^2 / 2``, M the centered class means: one less their cosine, shape batch."""
        return metrics.unaligned(xp, z.product, z.gram_w, z.gram_h, self._members(xp))

    @observable(bounds="[0, 1]")
    def nc4(self, xp: Any, z: Any) -> Any:
        """Return the share of samples on which classifier and nearest class mean disagree, shape batch."""
        return metrics.misclassified(xp, z.product, z.gram_h, z.b, self._members(xp))

    def _part(self, xp: Any, z: Any, which: int) -> Any:
        part = split(xp, self.residual(xp, z), self._members(xp))[which]
        return xp.sum(part**2, axis=(-2, -1)) / 2

    @observable(bounds="[0, inf)")
    def loss_sample(self, xp: Any, z: Any) -> Any:
        """Return what residuals' deviations from their class average add to the loss, shape batch."""
        return self._part(xp, z, 0)

    @observable(bounds="[0, inf)")
    def loss_class(self, xp: Any, z: Any) -> Any:
        """Return what class averages' deviations from the average add to the loss, shape batch."""
        return self._part(xp, z, 1)

    @observable(bounds="[0, inf)")
    def loss_global(self, xp: Any, z: Any) -> Any:
        """Return what the average residual adds to the loss, shape batch."""
        return self._part(xp, z, 2)

    @classmethod
    def example(cls, rng: np.random.Generator) -> tuple[Flow, Any]:
        """Return three classes of two samples: one active feature, and two that are lambda-balanced, not aligned."""
        root, kappa_n = rng.integers(16, 21) / 16, rng.integers(12, 20) / 64
        kappa_c, mu = kappa_n + rng.integers(26, 33) / 64, 2 * root**2
        kappa_d = mu + kappa_c - 2 * (kappa_c - kappa_n)
        flow = cls(kappa_d=kappa_d, kappa_c=kappa_c, kappa_n=kappa_n, classes=3, m=2)
        # of one feature every imbalance is a number, so the first is solvable for any kernel
        pairs = start.one_unit(rng, 5), start.dyadic(rng, 5, root)
        means, w = (np.stack(both) for both in zip(*pairs, strict=True))
        return flow, flow.of(np.repeat(means, 2, axis=-1), w, np.full((2, 3), rng.integers(40, 60) / 64))
