"""Features under a kernel of matrix blocks, the most general kernel that depends on classes alone."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.flow import Flow, observable
from linsolve.core.matrix_arguments import semidefinite
from linsolve.core.parameters import parameter
from linsolve.core.query import NotExact
from linsolve.core.trajectory import Trajectory
from linsolve.systems.collapse import starts as start
from linsolve.systems.collapse.contrasts import averaged, members, shares

__all__ = ["GeneralBlocks"]


class GeneralBlocks(Flow):
    r"""Features, classifier and bias under a feature kernel whose blocks are matrices over features; no closed form.

    .. math:: L = |R|_F^2/2, \quad R = W H + b 1^T - Y, \qquad \dot W = -R H^T, \quad \dot b = -R 1, \quad
        \dot H = -A_d W^T R - A_c W^T R\, Y^T Y - A_n W^T R\, 1 1^T .

    The flow is gradient flow of ``V1, V2, v3, W, b`` in the network with features
    :math:`h(x_i) = A_d^{1/2} V_1 e_i + A_c^{1/2} V_2 e_{c(i)} + A_n^{1/2} v_3`. Class means ``H1`` and deviations from
    them, ``H2``, with residuals ``R1`` of class means and class sizes ``m`` on the diagonal of ``D``, obey

    .. math:: \dot H_1 = -A_d W^T R_1 - A_c W^T R_1 D - A_n W^T R_1 m 1^T, \quad \dot H_2 = -A_d W^T W H_2, \quad
        \dot W = -R_1 D H_1^T - W H_2 H_2^T, \quad \dot b = -R_1 m .

    For equal sizes ``D = m I``.

    Calling the flow raises `NotExact`. Use `linsolve.integrate`, or `linsolve.descend` for gradient descent on the
    network above.

    Parameters
    ----------
    A_d, A_c, A_n : array_like, shape batch + (n, n)
        Blocks of the kernel for a sample with itself, for samples of one class, and for all samples, symmetric and
        positive semi-definite (per unit of time). ``NeuralCollapse`` is ``kappa_d - kappa_c``, ``kappa_c - kappa_n``
        and ``kappa_n`` times the identity.
    c_1, c_2 : float
        Coefficients in :math:`E = W^T W - (C/N) (c_1 H_1 D H_1^T + c_2 H_2 H_2^T)`, the observable `imbalance`.
    m : int, or array_like of int, shape (C,)
        Samples of each class; 0, the default, stands for N/C of each.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, a block is not symmetric and positive
        semi-definite, or shapes do not fit.
    NotExact
        At every call of the flow.

    Notes
    -----
    If ``A_d`` is positive definite, the following is conserved for any ``A_c`` and ``A_n``:

    .. math:: \mathrm{tr}\, W W^T - \langle H, K^{-1} H \rangle, \qquad
        K H = A_d H + A_c H\, Y^T Y + A_n H\, 1 1^T .

    For equal class sizes K is ``A_d`` on deviations from class means, ``A_d + m A_c`` on contrasts between classes, and
    ``A_d + m A_c + N A_n`` on the average. The whole matrix ``E`` is conserved if :math:`A_d = (m/c_2) I`
    and :math:`A_d + m A_c = (m/c_1) I`, and either the features have mean zero or ``A_n`` is zero.

    Source: Seleznova, thesis (2024), Assumption D.1 and appendix D. ``linsolve card NeuralCollapse`` lists the
    published formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np, linsolve as ls
    >>> rng = np.random.default_rng(0)
    >>> flow = ls.collapse.GeneralBlocks(np.diag([2.0, 1.0, 0.5, 0.3]), 0.5 * np.eye(4), 0.1 * np.eye(4))
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
    m: Any = parameter(
        "m", "samples of each class, 0 for N/C", domain="[0, inf)", axes=("C",), default=0.0, whole=True, uniform=True
    )

    class State(NamedTuple):
        """Features ``h`` (n, N), ordered by class, classifier ``w`` (C, n) and bias ``b`` (C,)."""

        h: Any
        w: Any
        b: Any

    axes: ClassVar = {"h": ("n", "N"), "w": ("C", "n"), "b": ("C",)}
    _regular: ClassVar[bool]
    _given: ClassVar[tuple[int, ...]]

    def __post_init__(self) -> None:
        super().__post_init__()
        regular = True
        if arithmetic.readable(*self.parameters().values()):
            for name in ("A_d", "A_c", "A_n"):
                block = getattr(self, name)
                values, _ = semidefinite(type(self).__name__, name, block, meaning="block of a kernel")
                regular &= name != "A_d" or bool((values[..., 0] > 1e-12 * values[..., -1]).all())
        object.__setattr__(self, "_regular", regular)
        given = start.sizes(type(self).__name__, self.m.shape[-1] if self.m.ndim else 1, self.m)
        if 0 in given and len(given) > 1:
            raise ValueError(
                f"{type(self).__name__}: m = {list(given)} must be at least 1 for each class (samples of each class); "
                "leave out empty classes"
            )
        object.__setattr__(self, "_given", given)

    # the problem

    def _members(self, xp: Any, z: Any) -> Any:
        classes, samples = z.w.shape[-2], z.h.shape[-1]
        who = type(self).__name__
        if classes < 2:
            raise ValueError(f"{who}: w has {classes} row but needs at least two (one row a class); add classes")
        sizes = self._given * classes if len(self._given) == 1 else self._given
        if not any(sizes):
            if samples % classes:
                raise ValueError(
                    f"{who}: h has {samples} columns and w has {classes} rows but samples must be a multiple of "
                    "classes (as many samples of each class, ordered by class); give the class sizes as m"
                )
            sizes = (samples // classes,) * classes
        if sum(sizes) != samples:
            raise ValueError(
                f"{who}: h has {samples} columns but needs {sum(sizes)} (samples of all classes, ordered by class); "
                f"the flow has m = {list(sizes)}"
            )
        return members(xp, classes, sizes)

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
        sizes, wt = xp.sum(y, axis=-1), turned(z.w)
        means, r = averaged(xp, z.h, y), averaged(xp, self.residual(xp, z), y)
        scatter, summed = z.h - means @ y, r * sizes
        total = xp.sum(summed, axis=-1, keepdims=True)
        pulled = self.A_d @ wt @ r + self.A_c @ wt @ summed + self.A_n @ wt @ total
        return self.State(
            -(pulled @ y + self.A_d @ wt @ z.w @ scatter),
            -(summed @ turned(means)) - z.w @ scatter @ turned(scatter),
            -total[..., 0],
        )

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
        """Return ``E = W^T W - (C/N) (c_1 H_1 D H_1^T + c_2 H_2 H_2^T)``, shape (n, n)."""
        y, turned = self._members(xp, z), xp.matrix_transpose
        means, share = averaged(xp, z.h, y), shares(xp, y)
        scatter = z.h - means @ y
        c_1, c_2 = self.c_1[..., None, None], self.c_2[..., None, None]
        within = scatter @ turned(scatter) * y.shape[0] / y.shape[1]
        return turned(z.w) @ z.w - c_1 * ((means * share) @ turned(means)) - c_2 * within

    def rates(self, xp: Any, z: Any) -> dict[str, Any]:
        r"""Return the time derivative of ``E``: eqs. (77), (78) as corrected, plus the term with ``A_n``.

        .. math:: \dot E = [(a_1 A_d - I) W^T R_1 D H_1^T + a_1 A_c W^T R_1 D^2 H_1^T
            + (a_2 A_d - I) W^T W H_2 H_2^T + a_1 A_n W^T R_1 m (H_1 m)^T] + \mathrm{h.c.}, \quad a_i = c_i C/N .
        """
        half = self._half_rate(xp, z)
        return {"imbalance": half + xp.matrix_transpose(half)}

    def _half_rate(self, xp: Any, z: Any) -> Any:
        y, turned = self._members(xp, z), xp.matrix_transpose
        sizes, wt, one = xp.sum(y, axis=-1), turned(z.w), xp.eye(z.h.shape[-2], dtype=xp.float64)
        means, r = averaged(xp, z.h, y), averaged(xp, self.residual(xp, z), y) * sizes
        scatter = z.h - means @ y
        c_1, c_2 = (c[..., None, None] * y.shape[0] / y.shape[1] for c in (self.c_1, self.c_2))
        total, mean = xp.sum(r, axis=-1, keepdims=True), xp.sum(means * sizes, axis=-1, keepdims=True)
        return (
            ((c_1 * self.A_d - one) @ wt @ r + c_1 * (self.A_c @ wt @ (r * sizes))) @ turned(means)
            + (c_2 * self.A_d - one) @ wt @ z.w @ scatter @ turned(scatter)
            + c_1 * (self.A_n @ wt @ total @ turned(mean))
        )

    def invariants(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return ``tr W W^T - <H, K^-1 H>``, conserved for any blocks; empty if ``A_d`` is singular."""
        if not self._regular:
            return {}
        y = self._members(xp, z)
        frame = y / xp.sqrt(xp.sum(y, axis=-1, keepdims=True))
        averages = z.h @ xp.matrix_transpose(frame)
        rest = z.h - averages @ frame
        found = xp.sum(z.w * z.w, axis=(-2, -1)) - xp.sum(rest * xp.linalg.solve(self.A_d, rest), axis=(-2, -1))
        column = xp.reshape(averages, (*averages.shape[:-2], averages.shape[-2] * averages.shape[-1], 1))
        return {"trace": found - xp.sum(column * xp.linalg.solve(self._on_averages(xp, y), column), axis=(-2, -1))}

    def _on_averages(self, xp: Any, y: Any) -> Any:
        """Return K on ``sqrt(m_c)`` times the class averages of the features, shape batch + (n C, n C)."""
        sizes = xp.sum(y, axis=-1)
        one, roots = xp.eye(y.shape[0], dtype=xp.float64), xp.sqrt(sizes)
        pairs = (self.A_d, one), (self.A_c, one * sizes), (self.A_n, roots[:, None] * roots)
        whole = sum(a[..., :, None, :, None] * b[:, None, :] for a, b in pairs)
        side = self.A_d.shape[-1] * y.shape[0]
        return xp.reshape(whole, (*whole.shape[:-4], side, side))

    @classmethod
    def example(cls, rng: np.random.Generator) -> tuple[Flow, Any]:
        """Return three classes of two samples with four features and blocks that do not commute."""
        blocks = rng.normal(size=(3, 4, 4))
        kernels = blocks @ np.swapaxes(blocks, -1, -2) / 4 + np.eye(4) / 8
        flow = cls(*(kernels + np.swapaxes(kernels, -1, -2)) / 2, *rng.uniform(0.5, 2, 2))
        return flow, cls.State(rng.normal(size=(4, 6)) / 2, rng.normal(size=(3, 4)) / 2, rng.normal(size=3) / 4)
