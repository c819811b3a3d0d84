"""A frozen classifier: features and bias alone learn under a block-structured feature kernel."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.arithmetic import precision
from linsolve.core.definition import Definition
from linsolve.core.flow import Flow
from linsolve.core.parameters import parameter
from linsolve.numerics.spectrum import exponents, integral_weights, reach_backward
from linsolve.systems.collapse.contrasts import split
from linsolve.systems.collapse.features import BlockFeatures, bias_rate
from linsolve.systems.collapse.head_traced import smooth_losses, smooth_state, with_derivative_of
from linsolve.systems.collapse.unequal_head import UnequalHead, padded

__all__ = ["FrozenHead"]


class _Decay(NamedTuple):
    """Exponential decay of the singular modes in one part of the kernel, and its integral, columns ``(k, 1)``."""

    left: Any
    grown: Any


def _positive(xp: Any, a: Any) -> Any:
    return xp.where(a > 0, a, xp.ones_like(a))


class FrozenHead(BlockFeatures):
    r"""Features and bias of a network whose classifier W is frozen, under a block-structured feature kernel.

    .. math:: L = |R|_F^2/2, \quad R = W H + b 1^T - Y, \qquad \dot H = -W^T R K, \quad \dot b = -R 1,

    as in `NeuralCollapse` with learning rate zero for the classifier, which may be a random head or a fixed simplex
    head. Gradient flow, or gradient descent, acts on H and b alone. The flow is linear. The residual splits into
    contrasts within classes, contrasts between classes and the average over samples, with kernel eigenvalues
    :math:`\mu_s, \mu_c, \mu_g`:

    .. math:: R(t) = e^{-\mu_s W W^T t} R_s + e^{-\mu_c W W^T t} R_c + e^{-(\mu_g W W^T + N) t} R_g,

    H and b are integrals of the residual: with ``phi(x) = (1 - e^-x)/x`` and ``B = mu_g W W^T + N``,
    ``b(t) = b_0 - t phi(B t) R_g 1``, ``H(t) = H_0 - W^T sum_j mu_j t phi(...) R_j``. For classes of unequal sizes the
    class and global parts are coupled. Each singular mode of W is then a linear least-squares problem with C + 1
    unknowns. A singular value decomposition solves it (`linsolve.systems.collapse.unequal_head`).

    Parameters
    ----------
    kappa_d, kappa_c, kappa_n : array_like, shape batch
        Feature kernel of a sample with itself, with its class, with other classes (per unit of time):
        ``kappa_d > kappa_c >= kappa_n >= 0``.
    classes : int
        Number of classes, at least two.
    m : int, or array_like of int, shape (C,)
        Samples of each class, one number or a number for each class.
    w : array_like, shape batch + (C, n)
        Classifier; any rank.
    eta_b : array_like, shape batch
        Learning rate of the bias, ``b' = -eta_b R 1``; 0 keeps it at its initial value; with ``b = 0``
        the network has no bias.
        Above, N stands for ``eta_b N``.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, ``kappa_d > kappa_c >= kappa_n`` does not hold, or
        shapes do not fit. At a call, also for an invalid state or time.
    OverflowError
        At a call, or at the access of an observable, if results leave the range of doubles.

    Notes
    -----
    Exact for: any class sizes; every classifier, also a singular one or zero; every start; every time, also ``t = inf``
    and ``t < 0``. The part of H in the null space of W is constant; contrasts outside the range of W are not learned.
    Not for: a classifier that learns, see `NeuralCollapse`.

    Sources: Seleznova, Weitzner, Giryes, Kutyniok, Chou, "Neural (tangent kernel) collapse" (2023), Theorem 4.1 without
    the equation of W; Seleznova, thesis (2024), eq. (25).

    Singular values below ``max(C, n) eps`` of the largest count as zero. In a singular mode every entry is the sum of
    the decayed initial value and the learned part of the target. The formula itself introduces no cancellation.

    Accuracy: 1e-12 of each field's largest entry against sixty digits, t from 1e-6 to 1e3 and inf, also for singular W
    (``tests/systems/collapse/test_frozen_head.py``); unequal class sizes 1e-11 against simulated weights
    (``tests/systems/collapse/test_unequal_sizes.py``).

    Examples
    --------
    >>> from linsolve import FrozenHead
    >>> flow = FrozenHead(kappa_d=2.0, kappa_c=1.0, kappa_n=0.5, classes=2, m=2, w=[[1.0, 0.0], [-1.0, 0.0]])
    >>> traj = flow([0.0, 1.0, float("inf")], ([[0.0] * 4, [1.0, -1.0, 0.0, 0.0]], [0.0, 0.0]))
    >>> traj["loss"].round(6).tolist()
    [2.0, 0.000671, 0.0]
    >>> traj["h"][-1].round(6).tolist()
    [[0.5, 0.5, -0.5, -0.5], [1.0, -1.0, 0.0, 0.0]]
    """

    w: Any = parameter("W", "classifier", typical=(-1.0, 1.0), axes=("C", "n"))  # type: ignore[misc]
    eta_b: Any = bias_rate()

    class State(NamedTuple):
        """Features ``h``, shape batch + (n, N), and bias ``b``, shape batch + (C,)."""

        h: Any
        b: Any

    axes: ClassVar = {"h": ("n", "N"), "b": ("C",)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.w.shape[-2] != self._classes:
            raise ValueError(
                f"{type(self).__name__}: w has {self.w.shape[-2]} rows but needs {self._classes} (classifier, one row "
                f"a class); the flow has classes = {self._classes}"
            )

    # the problem

    def residual(self, xp: Any, z: Any) -> Any:
        """Return ``R = W H + b 1^T - Y``, shape batch + (C, N)."""
        if z.h.shape[-1] != self._count:
            raise ValueError(
                f"{type(self).__name__}: h has {z.h.shape[-1]} columns but needs {self._count} (samples of all "
                f"classes, ordered by class); the flow has classes = {self._classes}, m = {self._given_sizes()}"
            )
        return self.w @ z.h + z.b[..., :, None] - self._members(xp)

    def _seen(self, xp: Any, z: Any) -> tuple[Any, Any, Any]:
        """Return ``W H``, ``W W^T`` and ``H^T H``."""
        turned = xp.matrix_transpose
        return self.w @ z.h, self.w @ turned(self.w), turned(z.h) @ z.h

    def descent(self, xp: Any, z: Any, gradient: Any) -> Any:
        """Return ``-G K`` for the features and ``-g`` for the bias."""
        return self.State(-self._through(xp, gradient.h), -self.eta_b[..., None] * gradient.b)

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return ``(-W^T R K, -eta_b R 1)``."""
        r = self.residual(xp, z)
        pull = xp.sum(r, axis=-1)
        return self.State(-xp.matrix_transpose(self.w) @ self._pulled(xp, r), -self.eta_b[..., None] * pull)

    # the closed form

    def _modes(self, xp: Any) -> tuple[Any, Any, Any]:
        """Return full bases of singular vectors of outputs and of features, and the singular values, decreasing."""
        u, s, vh = xp.linalg.svd(self.w, full_matrices=True)
        floor = max(self.w.shape[-2:]) * precision(xp) * s[..., :1]
        return u, xp.matrix_transpose(vh), xp.where(s > floor, s, xp.zeros_like(s))[..., None]

    def _decays(self, xp: Any, t: Any, s: Any) -> list[_Decay]:
        """Return the decays of the three parts, samples, classes and average, for singular values `s`."""
        rates = [mu[..., None] * s[..., 0] ** 2 for mu in self.rates_of_features(xp)]
        rates[2] = rates[2] + self._count * self.eta_b[..., None]
        return [_Decay(xp.exp(-exponents(xp, v, t))[..., None], integral_weights(xp, v, t)[..., None]) for v in rates]

    def solution(self, xp: Any, t: Any, z0: Any) -> Any:
        """Return the state; at ``t = 0`` bitwise the start."""
        self.residual(xp, z0)  # refuses a start of other sizes
        if arithmetic.is_jax(xp):
            h, b = with_derivative_of(xp, smooth_state, FrozenHead._later, self, t, z0)
        else:
            h, b = self._later(xp, t, z0)
        still = (t == 0)[..., None]
        return self.State(xp.where(still[..., None], z0.h, h), xp.where(still, z0.b, b))

    def _later(self, xp: Any, t: Any, z0: Any) -> tuple[Any, Any]:
        if not self._equal:
            return UnequalHead.of(xp, self).at(xp, t, z0.h, z0.b)
        u, v, s = self._modes(xp)
        outputs, features = self.w.shape[-2:]
        count = self._count * self.eta_b[..., None, None]
        y, (_, middle, large) = self._members(xp), (mu[..., None, None] for mu in self.rates_of_features(xp))
        inner, outer = xp.matrix_transpose(v), xp.matrix_transpose(u)
        sample, means, whole = (inner @ part for part in split(xp, z0.h, y))
        goal = padded(xp, outer @ (y - xp.ones_like(y) / self._classes), features)
        bias, even = outer @ z0.b[..., :, None], outer @ xp.ones_like(z0.b)[..., :, None] / self._classes
        # one mode per feature
        size = padded(xp, s, features)
        decays = self._decays(xp, t, size)
        full = _positive(xp, large * size**2 + count)
        kept = xp.where(large * size**2 + count > 0, (count + large * size**2 * decays[2].left) / full, 1 + 0 * full)
        h = (
            decays[0].left * sample
            + (decays[1].left * means + middle * size * decays[1].grown * goal)
            + (kept * whole)
            - large * size * decays[2].grown * padded(xp, bias - even, features)
        )
        # one mode per output
        size = padded(xp, s, outputs)
        decay = self._decays(xp, t, size)[2]
        full = _positive(xp, large * size**2 + count)
        kept = xp.where(large * size**2 + count > 0, (large * size**2 + count * decay.left) / full, 1 + 0 * full)
        b = kept * bias
        b = b - count * decay.grown * (size * padded(xp, whole[..., :1], outputs) - even)
        return v @ h, (u @ b)[..., 0]

    def along(self, xp: Any, t: Any, z0: Any) -> dict[str, Any]:
        """Return the loss and its three parts from exponentials, without subtracting the targets."""
        if arithmetic.is_jax(xp):
            losses = with_derivative_of(xp, smooth_losses, FrozenHead._losses, self, t, z0)
        else:
            losses = self._losses(xp, t, z0)
        return {
            "loss": losses[0] + losses[1] + losses[2],
            "loss_sample": losses[0],
            "loss_class": losses[1],
            "loss_global": losses[2],
        }

    def _losses(self, xp: Any, t: Any, z0: Any) -> tuple[Any, ...]:
        if not self._equal:
            return UnequalHead.of(xp, self).losses(xp, t, z0.h, z0.b)
        u, _, s = self._modes(xp)
        decays = self._decays(xp, t, padded(xp, s, self.w.shape[-2]))
        parts = split(xp, self.residual(xp, z0), self._members(xp))
        return tuple(
            xp.sum((decay.left * (xp.matrix_transpose(u) @ part)) ** 2, axis=(-2, -1)) / 2
            for decay, part in zip(decays, parts, strict=True)
        )

    def limit(self, xp: Any, z0: Any) -> Any:
        """Return the state at ``t = inf``: zero residual within the range of the classifier."""
        batch = xp.zeros_like(self.kappa_d + self.w[..., 0, 0] + z0.b[..., 0] + z0.h[..., 0, 0])
        return self.solution(xp, xp.full_like(batch, xp.inf), z0)

    def lifetime(self, xp: Any, z0: Any) -> tuple[Any, Any]:
        """Return the negative time at which the residual overflows, and inf."""
        large, s = self._fastest(), self._modes(xp)[2][..., 0]
        start = reach_backward(xp, large[..., None] * s**2 + self._count * self.eta_b[..., None])
        return start, xp.full_like(start, xp.inf)

    def invariants(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return the features in the null space of W, and ``mu_g (W^T b - H K^-1 1)``: ``mu_g W^T b - H 1``.

        For unequal class sizes ``mu_g`` is replaced by a bound of the eigenvalues of K.
        """
        _, v, s = self._modes(xp)
        size = padded(xp, s, v.shape[-1])
        kept = xp.where(size == 0, xp.ones_like(size), xp.zeros_like(size))
        pulled = (xp.matrix_transpose(self.w) @ z.b[..., :, None])[..., 0]
        large = self._fastest()[..., None]
        back = z.h if self._equal else self._through(xp, z.h, inverse=True) * large[..., None]
        return {
            "unseen": v @ (kept * (xp.matrix_transpose(v) @ z.h)),
            "mean_and_bias": large * pulled - self.eta_b[..., None] * xp.sum(back, axis=-1),
        }

    def rates(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return ``dL/dt = -tr(W^T R K R^T W) - eta_b |R 1|^2``."""
        r = self.residual(xp, z)
        back = xp.matrix_transpose(self.w)
        total = xp.sum(r, axis=-1)
        pull = xp.sum((back @ r) * (back @ self._pulled(xp, r)), axis=(-2, -1))
        return {"loss": -pull - self.eta_b * xp.sum(total**2, axis=-1)}

    def definition(self, xp: Any) -> Definition:
        """Return the network in which features and bias learn."""
        network = self.network(xp, lambda w: self.w, lambda h, w, b: self.State(h, b))
        return network._replace(weights={**network.weights, "v": (self.w.shape[-1], network.weights["v"][1])})

    @classmethod
    def example(cls, rng: np.random.Generator) -> tuple[Flow, Any]:
        """Return three classes of two samples with a generic classifier, and with one of rank one."""
        kappa_n = rng.uniform(0.1, 0.5)
        kappa_c = kappa_n + rng.uniform(0.2, 0.8)
        single = np.outer(rng.integers(3, 9, 3), rng.integers(-6, -2, 4)) / 32
        flow = cls(
            kappa_d=kappa_c + rng.uniform(0.4, 1.2), kappa_c=kappa_c, kappa_n=kappa_n, classes=3, m=2,
            w=np.stack([0.6 * rng.normal(size=(3, 4)), single]),
        )  # fmt: skip
        return flow, cls.State(0.5 * rng.normal(size=(2, 4, 6)), 0.4 * rng.normal(size=(2, 3)))
