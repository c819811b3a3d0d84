"""Base of flows of features under a block-structured kernel: parameters, kernel, loss and observables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from linsolve import arithmetic
from linsolve.core.definition import Definition
from linsolve.core.flow import Flow, observable
from linsolve.core.parameters import parameter
from linsolve.systems.collapse import metrics
from linsolve.systems.collapse import starts as start
from linsolve.systems.collapse.contrasts import members, split

__all__ = ["BlockFeatures", "bias_rate"]


def bias_rate() -> Any:
    """Return the declaration of the learning rate of the bias."""
    return parameter(r"\eta_b", "learning rate of the bias", domain="[0, 1e300]", typical=(0.5, 2.0), default=1.0)


class BlockFeatures(Flow):
    r"""Features of C classes of m samples whose velocity is ``-W^T R K``, with a block-structured kernel K.

    Eigenvalues of K are ``mu_s = kappa_d - kappa_c`` on contrasts within classes, ``mu_c = mu_s + m (kappa_c -
    kappa_n)`` on contrasts between classes, and ``mu_g = mu_c + N kappa_n`` on the average. For classes of unequal
    sizes ``m_c`` the kernel on class averages, in the coordinates ``sqrt(m_c)`` times the average, is the matrix
    ``B = mu_s I + (kappa_c - kappa_n) diag(m_c) + kappa_n sqrt(m) sqrt(m)^T``. A subclass defines `residual` and
    `_seen`.
    """

    kappa_d: Any = parameter(r"\kappa_d", "feature kernel of a sample with itself", domain="(0, inf)", typical=(1.5, 3))
    kappa_c: Any = parameter(r"\kappa_c", "feature kernel within a class", domain="[0, inf)", typical=(0.6, 1.2))
    kappa_n: Any = parameter(r"\kappa_n", "feature kernel between classes", domain="[0, inf)", typical=(0.1, 0.5))
    classes: Any = parameter("C", "number of classes", domain="[2, inf)", typical=(2, 10), whole=True)
    m: Any = parameter(
        "m", "samples of each class", domain="[1, inf)", typical=(2, 20), axes=("C",), whole=True, uniform=True
    )

    if TYPE_CHECKING:
        eta_b: Any  # declared by the subclasses, after their own parameters
    _classes: ClassVar[int]
    _sizes: ClassVar[tuple[int, ...]]
    _equal: ClassVar[bool]

    def __post_init__(self) -> None:
        super().__post_init__()
        who = type(self).__name__
        object.__setattr__(self, "_classes", start.counted(who, "classes", self.classes, "number of classes"))
        object.__setattr__(self, "_sizes", start.sizes(who, self._classes, self.m))
        object.__setattr__(self, "_equal", len(set(self._sizes)) == 1)
        kernel = {k: getattr(self, k) for k in ("kappa_d", "kappa_c", "kappa_n", "classes")}
        kernel["m"] = self.m[..., 0] if self.m.ndim else self.m
        if arithmetic.readable(*kernel.values()):
            start.refuse_disorder(who, {k: arithmetic.to_numpy(v) for k, v in kernel.items()})

    # the kernel

    def rates_of_features(self, xp: Any) -> tuple[Any, Any, Any]:
        """Return the eigenvalues ``mu_s, mu_c, mu_g`` of K, each shape batch; `kernel_of_classes` for unequal sizes.

        Raises
        ------
        ValueError
            If class sizes are unequal, so that K has more eigenvalues.
        """
        start.refuse_unequal(
            f"{type(self).__name__}.rates_of_features", self._sizes, "use the eigenvalues of kernel_of_classes(xp)"
        )
        sample = self.kappa_d - self.kappa_c
        classes = sample + self._each * (self.kappa_c - self.kappa_n)
        return sample, classes, classes + self._count * self.kappa_n

    def kernel_of_classes(self, xp: Any) -> Any:
        """Return ``B``, the kernel K on ``sqrt(m_c)`` times the averages over classes, shape batch + (C, C)."""
        roots = xp.sqrt(arithmetic.cast(xp, np.asarray(self._sizes, dtype=float)))
        own, mate, other = (v[..., None, None] for v in (self.kappa_d, self.kappa_c, self.kappa_n))
        rows = roots[:, None] * roots
        return (own - mate + (mate - other) * rows) * xp.eye(self._classes, dtype=xp.float64) + other * rows

    def _bias_done(self, xp: Any, t: Any) -> Any:
        """Return the learned fraction of a bias that relaxes alone, 0 at all times for a frozen bias."""
        learning = self.eta_b > 0
        return -xp.expm1(-self._count * self.eta_b * xp.where(learning, t, xp.zeros_like(t)))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Samples of each class, shape (C,)."""
        return self._sizes

    def _fastest(self) -> Any:
        """Return ``mu_g``, the largest eigenvalue of K, or for unequal class sizes a bound of the eigenvalues."""
        largest = self.kappa_d - self.kappa_c + max(self._sizes) * (self.kappa_c - self.kappa_n)
        return largest + self._count * self.kappa_n

    def _given_sizes(self) -> int | list[int]:
        return self._each if self._equal else list(self._sizes)

    @property
    def _each(self) -> int:
        """Number of samples of each class, if equal."""
        return self._sizes[0]

    @property
    def _count(self) -> int:
        """Number of all samples."""
        return sum(self._sizes)

    def _members(self, xp: Any) -> Any:
        return members(xp, self._classes, self._sizes)

    def _averages_and_rest(self, xp: Any, a: Any) -> tuple[Any, Any, Any]:
        """Return the map from class averages to samples, ``Y/sqrt(m_c)``, and `a` on the averages and without them."""
        y = self._members(xp)
        frame = y / xp.sqrt(xp.sum(y, axis=-1, keepdims=True))
        averages = a @ xp.matrix_transpose(frame)
        return frame, averages, a - averages @ frame

    def _through(self, xp: Any, a: Any, *, inverse: bool = False) -> Any:
        """Return ``a K``, or ``a K^-1``, from the sample, class and global parts of the rows of `a`."""
        if not self._equal:
            frame, averages, rest = self._averages_and_rest(xp, a)
            classes, turned = self.kernel_of_classes(xp), xp.matrix_transpose
            sample = (self.kappa_d - self.kappa_c)[..., None, None]
            if inverse:
                return turned(xp.linalg.solve(classes, turned(averages))) @ frame + rest / sample
            return averages @ classes @ frame + rest * sample
        mu = [v[..., None, None] for v in self.rates_of_features(xp)]
        parts = split(xp, a, self._members(xp))
        return sum(p / v if inverse else p * v for p, v in zip(parts, mu, strict=True))

    def _pulled(self, xp: Any, r: Any) -> Any:
        """Return ``r K`` from the entries of K, to check `_through`, which uses the eigenvalues of K."""
        y = self._members(xp)
        own, mate, other = (v[..., None, None] for v in (self.kappa_d, self.kappa_c, self.kappa_n))
        total = xp.sum(r, axis=-1)[..., :, None]
        return (own - mate) * r + (mate - other) * ((r @ xp.matrix_transpose(y)) @ y) + other * total

    # the problem

    def residual(self, xp: Any, z: Any) -> Any:
        """Return ``R = W H + b 1^T - Y``, shape batch + (C, N)."""
        raise NotImplementedError

    def _seen(self, xp: Any, z: Any) -> tuple[Any, Any, Any]:
        """Return ``W H``, ``W W^T`` and ``H^T H``."""
        raise NotImplementedError

    def loss(self, xp: Any, z: Any) -> Any:
        """Return ``|W H + b 1^T - Y|^2 / 2``."""
        return xp.sum(self.residual(xp, z) ** 2, axis=(-2, -1)) / 2

    def network(self, xp: Any, classifier: Callable[[Any], Any], state: Callable[..., Any]) -> Definition:
        """Return the network with features ``V Phi``, ``Phi^T Phi = K``, a classifier of four features, and a bias."""
        y, phi = self._members(xp), self._inputs(xp)
        one = xp.ones_like(self.kappa_d)

        def output(w: Any) -> Any:
            return classifier(w) @ (w["v"] @ phi) + w["b"][..., :, None]

        return Definition(
            weights={"v": (4, y.shape[1]), "b": (y.shape[0],)},
            rates={"v": one, "b": self.eta_b + 0 * one},
            output=output,
            target=y,
            state=lambda w: state(w["v"] @ phi, classifier(w), w["b"]),
            observables=lambda w, kernel: metrics.defined(xp, w["v"] @ phi, classifier(w), w["b"], y),
        )

    def _inputs(self, xp: Any) -> Any:
        """Return a root ``Phi`` of the kernel, ``Phi^T Phi = K``."""
        one = xp.eye(self._count, dtype=xp.float64)
        if not self._equal:
            frame, averages, rest = self._averages_and_rest(xp, one)
            root = averages @ xp.linalg.cholesky(self.kernel_of_classes(xp)) @ frame
            return xp.matrix_transpose(root) + rest * xp.sqrt(self.kappa_d - self.kappa_c)[..., None, None]
        roots = [xp.sqrt(mu)[..., None, None] for mu in self.rates_of_features(xp)]
        return sum(root * part for root, part in zip(roots, split(xp, one, self._members(xp)), strict=True))

    # observables

    @observable(bounds="[0, inf)")
    def nc1(self, xp: Any, z: Any) -> Any:
        """Return the ratio of feature scatter within to between classes, ``tr Sigma_W / tr Sigma_B``, shape batch."""
        return metrics.scatter_ratio(xp, self._seen(xp, z)[2], self._members(xp))

    @observable(bounds="[0, inf)")
    def nc2_norms(self, xp: Any, z: Any) -> Any:
        """Return the standard deviation of the lengths of centered class means divided by their mean, shape batch."""
        return metrics.norm_spread(xp, self._seen(xp, z)[2], self._members(xp))

    @observable(bounds="[0, 2]")
    def nc2_angles(self, xp: Any, z: Any) -> Any:
        """Return the largest ``|cos + 1/(C - 1)|`` over pairs of centered class means, shape batch."""
        return metrics.angle_misfit(xp, self._seen(xp, z)[2], self._members(xp))

    @observable(bounds="[0, 2]")
    def nc3(self, xp: Any, z: Any) -> Any:
        """Return ``|W/|W| - M^T/|M||^2 / 2``, M the centered class means: 1 minus their cosine, shape batch."""
        return metrics.unaligned(xp, *self._seen(xp, z), self._members(xp))

    @observable(bounds="[0, 1]")
    def nc4(self, xp: Any, z: Any) -> Any:
        """Return the fraction of samples on which the classifier and the nearest class mean disagree, shape batch."""
        product, _, gram_h = self._seen(xp, z)
        return metrics.misclassified(xp, product, gram_h, z.b, self._members(xp))

    def _part(self, xp: Any, z: Any, which: int) -> Any:
        part = split(xp, self.residual(xp, z), self._members(xp))[which]
        return xp.sum(part**2, axis=(-2, -1)) / 2

    @observable(bounds="[0, inf)")
    def loss_sample(self, xp: Any, z: Any) -> Any:
        """Return the loss of the residuals' deviations from their class averages, shape batch."""
        return self._part(xp, z, 0)

    @observable(bounds="[0, inf)")
    def loss_class(self, xp: Any, z: Any) -> Any:
        """Return the loss of the class averages' deviations from the average, shape batch."""
        return self._part(xp, z, 1)

    @observable(bounds="[0, inf)")
    def loss_global(self, xp: Any, z: Any) -> Any:
        """Return the loss of the average residual, shape batch."""
        return self._part(xp, z, 2)
