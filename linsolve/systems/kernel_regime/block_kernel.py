"""The kernel regime of a classifier: a constant tangent kernel with one value within and one between classes."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.flow import Flow
from linsolve.core.parameters import parameter
from linsolve.systems.kernel_regime import class_kernel_arguments as arguments
from linsolve.systems.kernel_regime.block_matrix import Blocks
from linsolve.systems.kernel_regime.class_kernel import ClassKernel, Eigenstructure
from linsolve.systems.kernel_regime.kernel_matrix import refuse_infinite

__all__ = ["BlockKernel"]


class BlockKernel(ClassKernel, Flow):
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
        ``diagonal >= within >= between``. All eigenvalues must be nonnegative; only a negative `between` can violate
        this.
    sizes : array_like of whole numbers, shape batch + (C,)
        Samples of each class, at least two classes; within a batch they may differ, their sum may not.
    eta : array_like, shape batch
        Learning rate (loss decrease per unit of time), positive.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, ``diagonal >= within >= between`` does not hold, or
        shapes do not fit. At a call, also for an invalid state or time.
    OverflowError
        At a call, or at the access of an observable, if results leave the range of doubles.

    Notes
    -----
    Exact for: any class sizes, singular kernels, every time, ``t = inf`` and ``t < 0`` included. Costs C^3 + N C, not
    N^3. Several outputs are a batch axis. For the mean loss ``|r|^2/(2N)`` pass ``eta/N``. Not for: kernels that change
    during training. For kernel values that differ from class to class see `SpecializedKernel`.

    Source: Seleznova, thesis (2024), Table 1 and eqs. (8)-(15), for equal sizes. ``linsolve card BlockKernel`` lists
    the published formulas and their verdicts.

    Accuracy: residuals 1e-13 norm-wise at every time; eigenvalues 1e-13 of the largest, and for ``between >= 0`` 1e-13
    of themselves (``tests/systems/kernel_regime/test_block_kernel.py``, against fifty digits and ``eigvalsh``; over
    broad draws ``benchmarks/accuracy_block_kernel.py``). For unequal sizes and a negative `between`, slow modes have an
    error of ``eps lam_max t``, the effect of rounding the kernel.

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

    def _checked(self, who: str, values: dict[str, np.ndarray]) -> None:
        arguments.refuse_mixed_batches(who, values, {"sizes": 1})
        arguments.refuse_disorder(who, values)
        low, high, m = (values[name] for name in ("between", "within", "sizes"))
        lift, shared = (high - low)[..., None] * m, low[..., None] * m  # on averages over classes
        entries = f"within of up to {np.abs(high).max():.3g}, between of up to {np.abs(low).max():.3g}"
        for part in (lift, lift + shared):
            refuse_infinite(who, part, "the kernel", entries)
        arguments.refuse_negative(who, self.cast(np).blocks(np), "raise between")

    def _entries(self, xp: Any) -> tuple[Any, Any]:
        unit, same = xp.eye(self.sizes.shape[-1], dtype=xp.float64), xp.zeros(self.sizes.shape[-1], dtype=xp.float64)
        pairs = xp.where(unit > 0, self.within[..., None, None], self.between[..., None, None])
        return self.diagonal[..., None] + same, pairs

    def _diagonalized(self, xp: Any) -> Blocks:
        return Blocks.of(xp, (self.diagonal, self.within, self.between), self.sizes, self._count, self._equal)

    def eigenstructure(self) -> Eigenstructure:
        """Return eigenvalues and multiplicities: sample, class and global; for unequal sizes sample, then C others."""
        xp = arithmetic.namespace(self.sizes)
        values, classes = self.blocks(xp).values, self.sizes.shape[-1]
        if self._equal:
            values = xp.stack([values[..., 0], values[..., 1], values[..., -1]], axis=-1)
            return Eigenstructure(values, np.asarray([self._count - classes, classes - 1, 1]))
        return Eigenstructure(values, np.asarray([self._count - classes, *[1] * classes]))

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
