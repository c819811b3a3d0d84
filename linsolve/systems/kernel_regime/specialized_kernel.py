"""The kernel regime of a classifier with a constant tangent kernel that differs from class to class."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from linsolve import arithmetic
from linsolve.core.flow import Flow
from linsolve.core.parameters import parameter
from linsolve.numerics.double_double import power_of_two
from linsolve.systems.kernel_regime import class_kernel_arguments as arguments
from linsolve.systems.kernel_regime.block_matrix import Blocks
from linsolve.systems.kernel_regime.class_kernel import ClassKernel, Eigenstructure

__all__ = ["SpecializedKernel"]


class SpecializedKernel(ClassKernel, Flow):
    r"""The kernel regime with a block-structured kernel whose blocks differ from class to class.

    .. math:: L = |r|^2/2, \qquad \dot r = -\eta K r, \qquad
        K_{ij} = d_c \; (i = j), \quad P_{c(i)\, c(j)} \; (i \ne j),

    ``r`` in R^N the residuals of one output, ordered by class, ``c(i)`` the class of sample i. Contrasts within class c
    decay with :math:`\lambda_c = d_c - P_{cc}`; the averages, as ``y_c = sqrt(m_c) <r>_c``, obey

    .. math:: \dot y = -\eta B y, \qquad B = \mathrm{diag}(d_c - P_{cc}) + \sqrt m P \sqrt m, \qquad
        r_i(t) = e^{-\eta\lambda_c t} (r_i - \langle r\rangle_c) + \bigl(e^{-\eta B t} y\bigr)_c / \sqrt{m_c},
        \; c = c(i),

    where ``B`` is a C x C matrix. Every output of a network has its own kernel; the outputs are a batch axis. The
    kernel of output k is specialized if it is larger on class k, see `of_outputs`; then ``B`` is diagonal plus a matrix
    of rank 2. If ``d_c``, ``P_cc`` and ``P_cc'`` are the same for all classes, the flow is `BlockKernel`.

    Parameters
    ----------
    diagonal : array_like, shape batch + (C,)
        Kernel of a sample of each class with itself.
    pairs : array_like, shape batch + (C, C)
        Kernel of two different samples, by their classes; symmetric. For a class of one sample, ``pairs[c, c]`` is
        the kernel of a test point with the sample.
    sizes : array_like of whole numbers, shape batch + (C,)
        Samples of each class, at least two classes; within a batch they may differ, their sum may not.
    eta : array_like, shape batch
        Learning rate (loss decrease per unit of time), positive.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If sizes do not fit, if `pairs` is not symmetric, or if the kernel has a negative eigenvalue.

    Notes
    -----
    Exact for: every positive semi-definite kernel that is constant on pairs of classes, singular ones included, any
    class sizes, every time, ``t = inf`` and ``t < 0`` included. Costs C^3 + N C. Not for: kernels that change during
    training, and tangent kernels that couple outputs (``Theta_ks = 0`` for ``k != s`` is assumed, as in the source). Of
    the three parts of the loss only the sample part decouples. Global and class averages mix, except in `BlockKernel`.

    Sources: Seleznova, thesis (2024), section 3.3, Assumption 3.2 and "Limitations": specialization means different
    values in blocks of different classes, which the thesis does not treat; the term is from Shan and Bordelon (2021).

    Accuracy: residuals 1e-13 norm-wise, times ``1 + eta lam_max t`` for slow modes at late times; eigenvalues 1e-13 of
    the largest (``tests/systems/kernel_regime/test_specialized_kernel.py``; ``benchmarks/accuracy_block_kernel.py``).

    Examples
    --------
    >>> from linsolve import SpecializedKernel
    >>> flow = SpecializedKernel.of_outputs(own=(4.0, 3.0, 0.5), other=(2.0, 1.0, 0.5), sizes=[2, 2])
    >>> flow.eigenstructure().values.round(6).tolist()
    [[1.0, 1.0, 2.763932, 7.236068], [1.0, 1.0, 2.763932, 7.236068]]
    >>> flow(0.1, [1.0, 1.0, 1.0, 1.0])["class_mean"].round(6).tolist()
    [[0.438278, 0.682917], [0.682917, 0.438278]]
    """

    diagonal: Any = parameter(
        "d", "kernel of a sample with itself", domain="[0, inf)", typical=(1.5, 3.0), axes=("classes",)
    )
    pairs: Any = parameter(
        "P", "kernel of two samples, by their classes", typical=(0.1, 0.5), axes=("classes", "classes")
    )
    sizes: Any = parameter(
        "m", "samples of each class", domain="[1, inf)", typical=(2.0, 10.0), axes=("classes",), whole=True
    )
    eta: Any = parameter(r"\eta", "learning rate", domain="(0, inf)", typical=(0.1, 2.0), default=1.0)

    class State(NamedTuple):
        """Residuals on the training inputs, ``r``, shape batch + (N,), ordered by class."""

        r: Any

    axes: ClassVar = {"r": ("N",)}

    @classmethod
    def of_outputs(cls, own: Any, other: Any, sizes: Any, eta: Any = 1.0) -> Self:
        """Return the kernels of all C outputs as a batch axis, output k specialized on class k.

        Parameters
        ----------
        own : (d, w, b)
            Kernel of output k for a sample of class k: with itself, with samples of class k, with other samples.
        other : (d, w, b)
            Kernel of output k for samples of other classes: with itself, within a class, between two of these classes.
        sizes : array_like of whole numbers, shape (C,)
        eta : float

        Raises
        ------
        ValueError
            If `own` or `other` is not three numbers, or as for any kernel.
        """
        who = f"{cls.__name__}.of_outputs"
        own, other = (arguments.three(who, name, v) for name, v in (("own", own), ("other", other)))
        sizes = arguments.one_set(who, sizes)
        classes = np.arange(sizes.shape[-1])
        mine = classes[:, None] == classes  # output, class; and class, class
        between = np.where(mine[:, :, None] | mine[:, None, :], own[2], other[2])
        pairs = np.where(mine, np.where(mine, own[1], other[1])[:, :, None], between)
        diagonal = np.where(mine, own[0], other[0])
        d, p, m = (arithmetic.to_numpy(v) for v in (diagonal, pairs, sizes))
        with np.errstate(over="ignore", invalid="ignore"):  # overflowing eigenvalues raise
            blocks, fix = Blocks.of_pairs(np, d, p, m, 0), "raise the first number of each by {size}"  # no samples
            arguments.refuse_negative(who, blocks, fix, kernel="the kernel by own and other", contrasts=fix)
        return cls(diagonal, pairs, sizes, eta)

    def _checked(self, who: str, values: dict[str, np.ndarray]) -> None:
        arguments.refuse_asymmetry(who, values["pairs"])
        arguments.refuse_mixed_batches(who, values, {"diagonal": 1, "pairs": 2, "sizes": 1})
        arguments.refuse_negative(who, self.cast(np).blocks(np), "raise diagonal by {size}")

    def _entries(self, xp: Any) -> tuple[Any, Any]:
        return self.diagonal, self.pairs

    def _diagonalized(self, xp: Any) -> Blocks:
        return Blocks.of_pairs(xp, self.diagonal, self.pairs, self.sizes, self._count)

    def eigenstructure(self) -> Eigenstructure:
        """Return the C eigenvalues of contrasts, then those on averages, shape batch + (2C,), and their multiplicities.

        A class of one sample has no contrasts: its eigenvalue is set to 0, with multiplicity 0.
        """
        values = self.blocks(arithmetic.namespace(self.sizes)).values
        contrasts = arithmetic.to_numpy(self.sizes).astype(int) - 1
        return Eigenstructure(values, np.concatenate([contrasts, np.ones_like(contrasts)], axis=-1))

    def alignment(self) -> Any:
        """Return ``y_c^T K y_c / (|K| |y_c|^2)``, ``y_c`` the indicator of class c, shape batch + (C,); 0 at ``K = 0``.

        A kernel is specialized if its alignment with one class exceeds that with the others.
        """
        xp, m = arithmetic.namespace(self.sizes), self.sizes
        top = xp.maximum(xp.max(self.diagonal, axis=-1), xp.max(xp.abs(self.pairs), axis=(-2, -1)))
        factor = power_of_two(xp, top)[..., None]  # squares of the scaled entries stay in range
        diagonal, pairs = self.diagonal * factor, self.pairs * factor[..., None]
        within = xp.sum(xp.eye(m.shape[-1], dtype=xp.float64) * pairs, axis=-1)
        squares = m[..., :, None] * pairs**2 * m[..., None, :]
        size = xp.sum(xp.sum(squares, axis=-1) + m * (diagonal**2 - within**2), axis=-1)[..., None]
        return (diagonal - within + m * within) / xp.sqrt(xp.where(size > 0, size, xp.ones_like(size)))

    @classmethod
    def example(cls, rng: np.random.Generator) -> tuple[Flow, Any]:
        """Return one output of a net on three classes of unequal size, its kernel larger on one of them."""
        factor = rng.normal(size=(3, 2))
        pairs = 0.1 * (factor @ factor.T) + np.diag(rng.uniform(0.8, 1.2, 3) * [2.0, 1.0, 1.0])
        flow = cls(
            diagonal=2 * np.diag(pairs) + rng.uniform(0.5, 1.0, 3), pairs=pairs, sizes=[3, 1, 2],
            eta=rng.uniform(0.2, 0.5),
        )  # fmt: skip
        return flow, cls.State(rng.normal(size=6))
