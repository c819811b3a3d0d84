"""Features under a kernel of matrix blocks, the most general kernel that depends on classes alone."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.flow import Flow, observable
from linsolve.core.parameters import parameter
from linsolve.core.query import NotExact
from linsolve.core.trajectory import Trajectory
from linsolve.systems.collapse.contrasts import averaged, members, split

__all__ = ["GeneralBlocks"]


class GeneralBlocks(Flow):
    r"""Features, classifier and bias under a feature kernel whose blocks are matrices over features; no closed form.

    .. math:: L = |R|_F^2/2, \quad R = W H + b 1^T - Y, \qquad \dot W = -R H^T, \quad \dot b = -R 1, \quad
        \dot H = -A_d W^T R - A_c W^T R\, Y^T Y - A_n W^T R\, 1 1^T .

    The flow is gradient flow of ``V1, V2, v3, W, b`` in the network with features
    :math:`h(x_i) = A_d^{1/2} V_1 e_i + A_c^{1/2} V_2 e_{c(i)} + A_n^{1/2} v_3`. Class means ``H1`` and deviations from
    them, ``H2``, with residuals ``R1`` of class means and ``J = 1 1^T``, obey

    .. math:: \dot H_1 = -(A_d + m A_c) W^T R_1 - m A_n W^T R_1 J, \quad \dot H_2 = -A_d W^T W H_2, \quad
        \dot W = -m (R_1 H_1^T + W H_2 H_2^T), \quad \dot b = -m R_1 1 .

    Calling the flow raises `NotExact`. Use `linsolve.integrate`, or `linsolve.descend` for gradient descent on the
    network above.

    Parameters
    ----------
    A_d, A_c, A_n : array_like, shape batch + (n, n)
        Blocks of the kernel for a sample with itself, for samples of one class, and for all samples, symmetric and
        positive semi-definite (per unit of time). ``NeuralCollapse`` is ``kappa_d - kappa_c``, ``kappa_c - kappa_n``
        and ``kappa_n`` times the identity.
    c_1, c_2 : float
        Coefficients in :math:`E = W^T W - c_1 H_1 H_1^T - c_2 H_2 H_2^T`, the observable `imbalance`.

    Notes
    -----
    If ``A_d`` is positive definite, the following is conserved for any ``A_c`` and ``A_n``:

    .. math:: \mathrm{tr}\, W W^T - \sum_k \mathrm{tr}\, H_k^T G_k^{-1} H_k, \qquad
        G_s = A_d, \;\; G_c = A_d + m A_c, \;\; G_g = A_d + m A_c + N A_n,

    with the sample, class and global parts of ``H``. The whole matrix ``E`` is conserved if :math:`A_d = (m/c_2) I`
    and :math:`A_d + m A_c = (m/c_1) I`, and either the features have mean zero or ``A_n`` is zero.

    Source: Seleznova, thesis (2024), Assumption D.1 and appendix D. Published formulas, checked: ``linsolve card
    NeuralCollapse``.

    Examples
    --------
    >>> import numpy as np, linsolve as ls
    >>> from linsolve.studies.collapse import GeneralBlocks
    >>> rng = np.random.default_rng(0)
    >>> flow = GeneralBlocks(np.diag([2.0, 1.0, 0.5, 0.3]), 0.5 * np.eye(4), 0.1 * np.eye(4))
    >>> start = flow.State(rng.normal(size=(4, 6)), rng.normal(size=(3, 4)), np.zeros(3))
    >>> traj = ls.integrate(flow, [0.0, 1.0, 200.0], start)
    >>> traj["loss"].round(6).tolist()[-1], bool(np.ptp(traj["trace"]) < 1e-8)
    (0.0, True)
    """

    A_d: Any = parameter("A_d", "kernel of a sample with itself, over features", axes=("n", "n"))
    A_c: Any = parameter("A_c", "kernel within a class, over features", axes=("n", "n"))
    A_n: Any = parameter("A_n", "kernel of all samples, over features", axes=("n", "n"))
    c_1: Any = parameter("c_1", "coefficient of class means in the imbalance", default=1.0)
    c_2: Any = parameter("c_2", "coefficient of deviations in the imbalance", default=1.0)

    class State(NamedTuple):
        """Features ``h`` (n, N), ordered by class, classifier ``w`` (C, n) and bias ``b`` (C,)."""

        h: Any
        w: Any
        b: Any

    axes: ClassVar = {"h": ("n", "N"), "w": ("C", "n"), "b": ("C",)}
    _regular: ClassVar[bool]

    def __post_init__(self) -> None:
        super().__post_init__()
        regular = True
        if arithmetic.readable(*self.parameters().values()):
            for name in ("A_d", "A_c", "A_n"):
                smallest, largest = _semidefinite(type(self).__name__, name, arithmetic.to_numpy(getattr(self, name)))
                regular &= name != "A_d" or bool((smallest > 1e-12 * largest).all())
        object.__setattr__(self, "_regular", regular)

    # the problem

    def _members(self, xp: Any, z: Any) -> Any:
        classes, samples = z.w.shape[-2], z.h.shape[-1]
        if classes < 2 or samples % classes:
            raise ValueError(
                f"{type(self).__name__}: h has {samples} columns and w has {classes} rows but samples must be a "
                "multiple of classes, at least two (as many samples of each class, ordered by class); add or drop some"
            )
        return members(xp, classes, samples // classes)

    def residual(self, xp: Any, z: Any) -> Any:
        """Return ``R = W H + b 1^T - Y``, shape batch + (C, N)."""
        return z.w @ z.h + z.b[..., :, None] - self._members(xp, z)

    def loss(self, xp: Any, z: Any) -> Any:
        """Return ``|W H + b 1^T - Y|^2 / 2``."""
        return xp.sum(self.residual(xp, z) ** 2, axis=(-2, -1)) / 2

    def descent(self, xp: Any, z: Any, gradient: Any) -> Any:
        """Return minus the kernel times the gradient of the features, entry by entry, and minus the other gradients."""
        g, y = gradient.h, self._members(xp, z)
        within, whole = g @ (xp.matrix_transpose(y) @ y), xp.sum(g, axis=-1, keepdims=True) + 0 * g
        return self.State(-(self.A_d @ g + self.A_c @ within + self.A_n @ whole), -gradient.w, -gradient.b)

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return the velocity by class means and deviations, eqs. (72), (73) as corrected."""
        y, turned = self._members(xp, z), xp.matrix_transpose
        m, wt = y.shape[1] // y.shape[0], turned(z.w)
        means, r = averaged(xp, z.h, y), averaged(xp, self.residual(xp, z), y)
        scatter, total = z.h - means @ y, xp.sum(r, axis=-1, keepdims=True)
        pulled = self._of_classes(m) @ wt @ r + m * (self.A_n @ wt @ total)
        return self.State(
            -(pulled @ y + self.A_d @ wt @ z.w @ scatter),
            -m * (r @ turned(means)) - z.w @ scatter @ turned(scatter),
            -m * total[..., 0],
        )

    def _of_classes(self, m: int) -> Any:
        return self.A_d + m * self.A_c

    def __call__(self, t: Any, z0: Any, *more: Any, **options: Any) -> Trajectory:
        """Raise `NotExact`: no closed form is known.

        Raises
        ------
        NotExact
            Always.
        """
        raise NotExact(
            f"{type(self).__name__}: no closed form is known for kernels of matrix blocks; use integrate(flow, t, z0), "
            "or NeuralCollapse where the blocks are multiples of the identity"
        )

    # invariants and rates

    @observable(axes=("n", "n"))
    def imbalance(self, xp: Any, z: Any) -> Any:
        """Return ``E = W^T W - c_1 H_1 H_1^T - c_2 H_2 H_2^T``, ``H_2 H_2^T`` per sample of a class, (n, n)."""
        y, turned = self._members(xp, z), xp.matrix_transpose
        means = averaged(xp, z.h, y)
        scatter = z.h - means @ y
        c_1, c_2, m = self.c_1[..., None, None], self.c_2[..., None, None], y.shape[1] // y.shape[0]
        return turned(z.w) @ z.w - c_1 * (means @ turned(means)) - c_2 * (scatter @ turned(scatter)) / m

    def rates(self, xp: Any, z: Any) -> dict[str, Any]:
        r"""Return the time derivative of ``E``, eqs. (77), (78) as corrected, and the term of ``A_n``.

        .. math:: \dot E = [B_1 W^T R_1 H_1^T + B_2 W^T W H_2 H_2^T + c_1 m A_n W^T R_1 J H_1^T] + \mathrm{h.c.}, \quad
            B_1 = c_1 (A_d + m A_c) - m I, \quad B_2 = c_2 A_d - m I .
        """
        half = self._half_rate(xp, z)
        return {"imbalance": half + xp.matrix_transpose(half)}

    def _half_rate(self, xp: Any, z: Any) -> Any:
        y, turned = self._members(xp, z), xp.matrix_transpose
        m, wt, one = y.shape[1] // y.shape[0], turned(z.w), xp.eye(z.h.shape[-2], dtype=xp.float64)
        means, r = averaged(xp, z.h, y), averaged(xp, self.residual(xp, z), y)
        scatter, c_1, c_2 = z.h - means @ y, self.c_1[..., None, None], self.c_2[..., None, None]
        total, mean = xp.sum(r, axis=-1, keepdims=True), xp.sum(means, axis=-1, keepdims=True)
        return (
            (c_1 * self._of_classes(m) - m * one) @ wt @ r @ turned(means)
            + (c_2 * self.A_d - m * one) @ wt @ z.w @ scatter @ turned(scatter) / m
            + c_1 * m * (self.A_n @ wt @ total @ turned(mean))
        )

    def invariants(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return ``tr W W^T - sum_k tr H_k^T G_k^-1 H_k``, conserved for any blocks; empty if ``A_d`` is singular."""
        if not self._regular:
            return {}
        y = self._members(xp, z)
        m = y.shape[1] // y.shape[0]
        large = self._of_classes(m)
        found = xp.sum(z.w * z.w, axis=(-2, -1))
        kernels = self.A_d, large, large + y.shape[1] * self.A_n
        for kernel, part in zip(kernels, split(xp, z.h, y), strict=True):
            found = found - xp.sum(part * xp.linalg.solve(kernel, part), axis=(-2, -1))
        return {"trace": found}

    @classmethod
    def example(cls, rng: np.random.Generator) -> tuple[Flow, Any]:
        """Return three classes of two samples with four features and blocks that do not commute."""
        blocks = rng.normal(size=(3, 4, 4))
        kernels = blocks @ np.swapaxes(blocks, -1, -2) / 4 + np.eye(4) / 8
        flow = cls(*(kernels + np.swapaxes(kernels, -1, -2)) / 2, *rng.uniform(0.5, 2, 2))
        return flow, cls.State(rng.normal(size=(4, 6)) / 2, rng.normal(size=(3, 4)) / 2, rng.normal(size=3) / 4)


def _semidefinite(who: str, name: str, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return smallest and largest eigenvalue; raise unless the matrix is symmetric and positive semi-definite."""
    size = np.abs(a).max(axis=(-2, -1))
    uneven = np.abs(a - np.swapaxes(a, -1, -2)).max(axis=(-2, -1))
    if (uneven > 1e-12 * size).any():
        raise ValueError(
            f"{who}: {name} = a matrix that differs from its transpose by {uneven.max():.3g} must be symmetric (block "
            f"of a kernel); take ({name} + {name}.T) / 2"
        )
    values = np.linalg.eigvalsh(a)
    if (values[..., 0] < -1e-12 * size).any():
        raise ValueError(
            f"{who}: {name} = a matrix with eigenvalue {values.min():.3g} must be positive semi-definite (block of a "
            "kernel); add to its diagonal"
        )
    return values[..., 0], values[..., -1]
