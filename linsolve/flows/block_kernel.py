"""The kernel regime of a classifier: a frozen tangent kernel with one value within and one between classes."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.flow import Flow, observable, parameter, pose
from linsolve.flows import block_kernel_start as checked
from linsolve.flows.frozen_kernel_start import Memo
from linsolve.flows.kernel_descent import KernelDescent
from linsolve.stable.blocks import Blocks
from linsolve.stable.spectral import exponents, integral_weights, rows_times

__all__ = ["BlockKernel", "Eigenstructure"]


class Eigenstructure(NamedTuple):
    """Distinct eigenvalues, shape batch + (k,), and how often each occurs, shape (k,)."""

    values: Any
    multiplicities: np.ndarray


class BlockKernel(KernelDescent, Flow):
    r"""The kernel regime with a block-structured kernel: global, class and sample parts, each at its own rate.

    .. math:: L = |r|^2/2, \qquad \dot r = -\eta K r, \qquad K = (d - w)\, I + (w - b)\, Y^T Y + b\, 1 1^T,

    ``r`` in R^N the residuals of one output, ordered by class, ``Y`` the membership of C classes. For equal sizes m,
    with the averages ``<r>`` over all samples and ``<r>_c`` over the class of a sample,

    .. math:: r(t) = e^{-\eta\lambda_g t} \langle r\rangle
        + e^{-\eta\lambda_c t} (\langle r\rangle_c - \langle r\rangle)
        + e^{-\eta\lambda_s t} (r - \langle r\rangle_c), \quad
        \lambda_s = d - w, \; \lambda_c = \lambda_s + m (w - b), \; \lambda_g = \lambda_c + N b .

    For unequal sizes ``y_c = sqrt(m_c) <r>_c`` obeys ``y' = -eta B y``,
    ``B = lam_s + (w - b) diag(m) + b sqrt(m) sqrt(m)^T``, a matrix of C rows.

    Parameters
    ----------
    diagonal, within, between : array_like, shape batch
        Kernel of a sample with itself, with others of its class, with samples of other classes:
        ``diagonal >= within >= between``, and no eigenvalue negative, which only a negative `between` can break.
    sizes : array_like of whole numbers, shape batch + (C,)
        Samples of each class, at least two classes; within a batch they may differ, their sum may not.
    eta : array_like, shape batch
        Learning rate (loss decrease per unit of time), positive.

    Notes
    -----
    Exact for: any class sizes, singular kernels, every time, ``t = inf`` and ``t < 0`` included. Costs C^3 + N C, not
    N^3. Several outputs are batch axes. For the mean loss ``|r|^2/(2N)`` pass ``eta/N``. Not for: kernels that move.

    Source: Seleznova, thesis (2024), Table 1 and eqs. (8)-(15), for equal sizes.

    Errata of the thesis, shown by ``tests/test_block_kernel.py``:

    ==================  ===============================================  ==========================================
    place               as printed                                       as it should be
    ==================  ===============================================  ==========================================
    Table 1             N and C vectors as eigenvectors                  they span spaces of dimension N-C and C-1
    text after (39)     ``mu_s, mu_c`` the two largest eigenvalues       the two smallest
    (2.60), (2.61)      no 1/N for the mean loss                         ``eta/N``
    ==================  ===============================================  ==========================================

    Accuracy: residuals 1e-13 norm-wise, eigenvalues 1e-13 of the largest (``tests/test_block_kernel.py``, against fifty
    digits and ``eigvalsh``); for unequal sizes residuals that still move when the fastest has long gone lose
    ``eps lam_max t``, which is what rounding the kernel does.

    Examples
    --------
    >>> from linsolve import BlockKernel
    >>> flow = BlockKernel(diagonal=2.0, within=1.0, between=0.5, sizes=[2, 2])
    >>> flow.eigenstructure().values.tolist()
    [1.0, 2.0, 4.0]
    >>> flow([0.0, 1.0], [1.0, 1.0, 0.0, 0.0])["r"].round(6).tolist()
    [[1.0, 1.0, 0.0, 0.0], [0.076825, 0.076825, -0.05851, -0.05851]]
    """

    diagonal: Any = parameter("d", "kernel of a sample with itself", domain="[0, inf)", typical=(1.5, 3.0))
    within: Any = parameter("w", "kernel with samples of the same class", typical=(0.7, 1.2))
    between: Any = parameter("b", "kernel with samples of other classes", typical=(0.1, 0.5))
    sizes: Any = parameter(
        "m", "samples of each class", domain="[1, inf)", typical=(2.0, 10.0), axes=("classes",), whole=True
    )
    eta: Any = parameter(r"\eta", "learning rate", domain="(0, inf)", typical=(0.1, 2.0), default=1.0)

    class State(NamedTuple):
        """Residuals on the training inputs, ``r``, shape batch + (N,), ordered by class."""

        r: Any

    axes: ClassVar = {"r": ("N",)}
    _memo: ClassVar[Memo]  # one a flow, shared by its casts
    _count: ClassVar[int]
    _equal: ClassVar[bool]

    def __post_init__(self) -> None:
        super().__post_init__()
        who = type(self).__name__
        count, equal = checked.counted(who, arithmetic.to_numpy(self.sizes))
        for name, value in (("_memo", Memo()), ("_count", count), ("_equal", equal)):
            object.__setattr__(self, name, value)
        for name, value in self.parameters().items():  # the spectrum is kept, so what it comes from must not change
            object.__setattr__(self, name, value + 0)
        xp = arithmetic.namespace(self.sizes)
        if not getattr(xp, "symbolic", False):
            checked.refuse_disorder(who, {k: arithmetic.to_numpy(v) for k, v in self.parameters().items()})
            checked.refuse_negative(who, arithmetic.to_numpy(self.cast(np).blocks(np).values))

    def blocks(self, xp: Any) -> Blocks:
        """Return the kernel's eigenvalues and what turns residuals into their modes, computed once an arithmetic."""
        if xp not in self._memo:
            entries = self.diagonal, self.within, self.between
            self._memo[xp] = Blocks.of(xp, entries, self.sizes, self._count, self._equal)
        return self._memo[xp]

    def _blocks(self, xp: Any, r: Any) -> Blocks:
        if r.shape[-1] != self._count:
            raise ValueError(
                f"{type(self).__name__}: r has shape {tuple(r.shape)}, so N = {r.shape[-1]}, but sizes add up to "
                f"{self._count} (samples of all classes); give one residual a sample, ordered by class"
            )
        return self.blocks(xp)

    def kernel(self, xp: Any) -> Any:
        """Return the kernel as a matrix, shape batch + (N, N)."""
        members = self.blocks(xp).members
        same = xp.sum(members[..., :, :, None] * members[..., :, None, :], axis=-3) > 0
        itself = xp.eye(self._count, dtype=xp.float64) > 0
        diagonal, within, between = (v[..., None, None] for v in (self.diagonal, self.within, self.between))
        return xp.where(itself, diagonal, xp.where(same, within, between))

    def eigenstructure(self) -> Eigenstructure:
        """Return eigenvalues and multiplicities: sample, class and global; for unequal sizes sample, then C others."""
        xp = arithmetic.namespace(self.sizes)
        values, classes = self.blocks(xp).values, self.sizes.shape[-1]
        if self._equal:
            values = xp.stack([values[..., 0], values[..., 1], values[..., -1]], axis=-1)
            return Eigenstructure(values, np.asarray([self._count - classes, classes - 1, 1]))
        return Eigenstructure(values, np.asarray([self._count - classes, *[1] * classes]))

    # the problem

    def loss(self, xp: Any, z: Any) -> Any:
        """Return ``|r|^2 / 2``."""
        return xp.sum(z.r**2, axis=-1) / 2

    def descent(self, xp: Any, z: Any, gradient: Any) -> Any:
        """Return ``-eta K`` times the gradient: the metric that the parameters induce on the outputs."""
        return self.State(-self.eta[..., None] * rows_times(xp, gradient.r, self.kernel(xp)))

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return ``-eta K r``, without forming K."""
        members = self._blocks(xp, z.r).members
        diagonal, within, between = (v[..., None] for v in (self.diagonal, self.within, self.between))
        classes = rows_times(xp, rows_times(xp, z.r, xp.matrix_transpose(members)), members)
        total = xp.sum(z.r, axis=-1, keepdims=True)
        pull = (diagonal - within) * z.r + (within - between) * classes + between * total
        return self.State(-self.eta[..., None] * pull)

    # the closed form

    def _followed(self, xp: Any, t: Any, z0: Any) -> tuple[Blocks, Any, Any]:
        """Return the blocks, the contrasts within classes and the class averages at times t."""
        blocks = self._blocks(xp, z0.r)
        return blocks, *blocks.applied(xp, xp.exp(-exponents(xp, blocks.values, self.eta * t)), z0.r)

    def solution(self, xp: Any, t: Any, z0: Any) -> Any:
        """Return the residuals; at ``t = 0`` bitwise the start."""
        blocks, contrasts, y = self._followed(xp, t, z0)
        return self.State(xp.where(t[..., None] == 0, z0.r, contrasts + blocks.spread(xp, y)))

    def along(self, xp: Any, t: Any, z0: Any) -> dict[str, Any]:
        """Return the loss, its three parts and class averages, without differences of the residuals at time t."""
        blocks, contrasts, y = self._followed(xp, t, z0)
        parts = self._parts(xp, blocks, contrasts, y)
        return {
            "loss": sum(parts[1:], parts[0]),
            **dict(zip(_PARTS, parts, strict=True)),
            "class_mean": y / blocks.roots,
        }

    def limit(self, xp: Any, z0: Any) -> Any:
        """Return what of the start lies in the kernel's null space."""
        blocks = self._blocks(xp, z0.r)
        null = xp.where(blocks.values == 0, xp.ones_like(blocks.values), xp.zeros_like(blocks.values))
        contrasts, y = blocks.applied(xp, null, z0.r)
        return self.State(contrasts + blocks.spread(xp, y))

    def lifetime(self, xp: Any, z0: Any) -> tuple[Any, Any]:
        """Return all of time: backward, residuals grow without end but stay finite."""
        return -xp.inf * xp.ones_like(self.eta), xp.inf * xp.ones_like(self.eta)

    def invariants(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return the part of the residual in the kernel's null space, which is never learned."""
        return {"unlearnable": self.limit(xp, z).r}

    def rates(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return ``dL/dt = -eta r^T K r``."""
        return {"loss": xp.sum(z.r * self.velocity(xp, z).r, axis=-1)}

    # what is observed

    def _parts(self, xp: Any, blocks: Blocks, contrasts: Any, y: Any) -> tuple[Any, Any, Any]:
        share = blocks.roots / xp.sqrt(xp.sum(blocks.roots**2, axis=-1, keepdims=True))
        whole = xp.sum(share * y, axis=-1)
        rest = y - share * whole[..., None]
        return whole**2 / 2, xp.sum(rest**2, axis=-1) / 2, xp.sum(contrasts**2, axis=-1) / 2

    def _parts_of(self, xp: Any, z: Any) -> tuple[Any, Any, Any]:
        blocks = self._blocks(xp, z.r)
        return self._parts(xp, blocks, *blocks.split(xp, z.r))

    @observable(bounds="[0, inf)")
    def loss_global(self, xp: Any, z: Any) -> Any:
        """Return ``N <r>^2 / 2``, shape batch."""
        return self._parts_of(xp, z)[0]

    @observable(bounds="[0, inf)")
    def loss_class(self, xp: Any, z: Any) -> Any:
        """Return the sum over classes of ``m_c (<r>_c - <r>)^2 / 2``, shape batch."""
        return self._parts_of(xp, z)[1]

    @observable(bounds="[0, inf)")
    def loss_sample(self, xp: Any, z: Any) -> Any:
        """Return the sum over samples of ``(r - <r>_c)^2 / 2``, shape batch."""
        return self._parts_of(xp, z)[2]

    @observable(axes=("classes",))
    def class_mean(self, xp: Any, z: Any) -> Any:
        """Return the average residual of each class, shape batch + (C,)."""
        blocks = self._blocks(xp, z.r)
        return blocks.split(xp, z.r)[1] / blocks.roots

    # beyond the training outputs

    def predict(self, t: Any, r0: Any, labels: Any, f0_x: Any) -> Any:
        """Return the outputs at test points of known class, whose kernel is `within` their class, else `between`.

        Only averages of classes propagate, never the residual of a single sample.

        Parameters
        ----------
        t : array_like, any shape
            Times; ``inf`` gives the limit.
        r0 : array_like, shape batch + (N,)
            Residuals on the training inputs at time 0.
        labels : array_like of int, shape (k,)
            Class of each test point, in ``range(C)``.
        f0_x : array_like, shape batch + (k,)
            Outputs at the test points at time 0.

        Returns
        -------
        array, shape t.shape + batch + (k,)
        """
        problem = pose(self, t, r0)
        flow, xp = problem.flow, problem.xp
        labels, f0_x = checked.test_points(problem, labels, f0_x)
        blocks = flow._blocks(xp, problem.z0.r)
        checked.refuse_drift(problem, blocks)
        clock = xp.reshape(problem.t, problem.t.shape + (1,) * len(problem.batch))
        weights = integral_weights(xp, blocks.values[..., 1:], flow.eta * clock)
        y = blocks.weighted(xp, weights, blocks.split(xp, problem.z0.r)[1])
        same = labels[:, None] == xp.astype(xp.arange(flow.sizes.shape[-1]), xp.float64)
        onto = xp.where(same, flow.within[..., None, None], flow.between[..., None, None]) * blocks.roots[..., None, :]
        return f0_x - rows_times(xp, y, xp.matrix_transpose(onto))

    # gradient descent, exactly

    def modes(self, xp: Any) -> Blocks:
        """Return the kernel's `blocks`."""
        return self.blocks(xp)

    def after(self, xp: Any, left: Any, z0: Any) -> Any:
        """Return the residuals once their modes are multiplied by `left`."""
        blocks = self._blocks(xp, z0.r)
        contrasts, y = blocks.applied(xp, left, z0.r)
        return contrasts + blocks.spread(xp, y)

    def _eigenvalues(self, xp: Any) -> Any:
        values = self.blocks(xp).values
        # classes of one sample have no contrasts
        return values[..., 1:] if self._count == self.sizes.shape[-1] else values

    @classmethod
    def example(cls, rng: np.random.Generator) -> tuple[Flow, Any]:
        """Return two outputs of a net on three classes of unequal size."""
        flow = cls(
            diagonal=rng.uniform(2.5, 3.0), within=rng.uniform(1.0, 1.2), between=rng.uniform(0.2, 0.4),
            sizes=[3, 1, 2], eta=rng.uniform(0.3, 0.9),
        )  # fmt: skip
        return flow, cls.State(rng.normal(size=(2, 6)))

    @classmethod
    def symbols(cls) -> tuple[dict[str, Any], tuple[Any, ...], dict[Any, Any]]:
        """Return two classes of two samples with any ordered kernel."""
        import sympy

        a, b, c, eta = sympy.symbols("a b c eta", positive=True)
        r = sympy.symbols("r_1:5", real=True)
        parameters = {"diagonal": a + b + c, "within": a + b, "between": a, "sizes": [2, 2], "eta": eta}
        return parameters, (list(r),), {a: 0.3, b: 0.4, c: 0.9, eta: 0.7, **dict(zip(r, (1, -2, 3, 5), strict=True))}


_PARTS = ("loss_global", "loss_class", "loss_sample")
