"""Base of the flows under a kernel that is constant in blocks, one for each pair of classes."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.definition import Definition
from linsolve.core.flow import observable
from linsolve.core.query import pose
from linsolve.numerics.checked import in_range
from linsolve.numerics.scalar import smallest
from linsolve.numerics.spectrum import exponents, integral_weights, rows_times, traced_decay
from linsolve.systems.kernel_regime import class_kernel_arguments as arguments
from linsolve.systems.kernel_regime.block_matrix import Blocks
from linsolve.systems.kernel_regime.descent import KernelDescent, linear_model
from linsolve.systems.kernel_regime.kernel_matrix import Memo

__all__ = ["ClassKernel", "Eigenstructure"]


class Eigenstructure(NamedTuple):
    """Distinct eigenvalues, shape batch + (k,), and their multiplicities, shape (k,) or that of `sizes` + (k,)."""

    values: Any
    multiplicities: np.ndarray


class ClassKernel(KernelDescent):
    """Residuals under a kernel that is constant in blocks: contrasts within classes, and averages of C classes.

    A subclass declares ``sizes``, ``eta`` and its entries; it defines `_entries`, `_checked`, `_diagonalized` and
    `eigenstructure`.
    """

    sizes: Any
    eta: Any
    State: Any
    cast: Any

    _memo: ClassVar[Memo]  # shared by copies of a flow in other namespaces
    _count: ClassVar[int]
    _equal: ClassVar[bool]

    def __post_init__(self) -> None:
        super().__post_init__()  # type: ignore[misc]
        who = type(self).__name__
        count, equal = arguments.counted(who, self.sizes)
        for name, value in (("_memo", Memo()), ("_count", count), ("_equal", equal)):
            object.__setattr__(self, name, value)
        for name, value in self.parameters().items():  # the spectrum is cached, so its arguments must not change
            object.__setattr__(self, name, value + 0)
        if arithmetic.readable(*self.parameters().values()):
            with np.errstate(over="ignore", invalid="ignore"):  # overflowing eigenvalues raise below
                self._checked(who, {k: arithmetic.to_numpy(v) for k, v in self.parameters().items()})

    def _checked(self, who: str, values: dict[str, np.ndarray]) -> None:
        """Raise if the entries are not those of a kernel."""
        raise NotImplementedError

    def _entries(self, xp: Any) -> tuple[Any, Any]:
        """Return the kernel of a sample with itself, shape batch + (C,), and of two samples, batch + (C, C)."""
        raise NotImplementedError

    def _diagonalized(self, xp: Any) -> Blocks:
        """Return the kernel, diagonalized."""
        raise NotImplementedError

    def eigenstructure(self) -> Eigenstructure:
        """Return eigenvalues and multiplicities."""
        raise NotImplementedError

    def kernel(self, xp: Any) -> Any:
        """Return the kernel as a matrix, shape batch + (N, N)."""
        members, (diagonal, pairs) = self.blocks(xp).members, self._entries(xp)
        itself = xp.eye(self._count, dtype=xp.float64) > 0
        entries = xp.matrix_transpose(members) @ pairs @ members
        return xp.where(itself, rows_times(xp, diagonal, members)[..., None, :], entries)

    def _own(self, xp: Any) -> Any:
        """Return the eigenvalue of contrasts within each class, shape batch + (C,)."""
        diagonal, pairs = self._entries(xp)
        return diagonal - xp.sum(xp.eye(diagonal.shape[-1], dtype=xp.float64) * pairs, axis=-1)

    def blocks(self, xp: Any) -> Blocks:
        """Return the kernel's eigenvalues and the map from residuals to modes, computed once for each arithmetic."""
        return self._memo.recall(xp, lambda: self._diagonalized(xp))

    def _blocks(self, xp: Any, r: Any) -> Blocks:
        if r.shape[-1] != self._count:
            raise ValueError(
                f"{type(self).__name__}: r has shape {tuple(r.shape)}, so N = {r.shape[-1]}, but sizes add up to "
                f"{self._count} (samples of all classes); give one residual a sample, ordered by class"
            )
        return self.blocks(xp)

    # the problem

    def loss(self, xp: Any, z: Any) -> Any:
        """Return ``|r|^2 / 2``."""
        return xp.sum(z.r**2, axis=-1) / 2

    def descent(self, xp: Any, z: Any, gradient: Any) -> Any:
        """Return ``-eta K`` times the gradient: the metric induced on the outputs by the parameters."""
        return self.State(-self.eta[..., None] * rows_times(xp, gradient.r, self.kernel(xp)))

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return ``-eta K r``, without forming K."""
        members, pairs = self._blocks(xp, z.r).members, self._entries(xp)[1]
        totals = rows_times(xp, z.r, xp.matrix_transpose(members))
        pull = rows_times(xp, self._own(xp), members) * z.r
        pull = pull + rows_times(xp, rows_times(xp, totals, pairs), members)
        return self.State(-self.eta[..., None] * pull)

    # the closed form

    def begun(self, xp: Any, z0: Any) -> tuple[Blocks, Any, Any]:
        """Return the blocks, and the contrasts within classes and the class averages at time 0."""
        blocks = self._blocks(xp, z0.r)
        return blocks, *blocks.split(xp, z0.r)

    def _followed(self, xp: Any, t: Any, z0: Any, begun: Any = None) -> tuple[Blocks, Any, Any]:
        """Return the blocks, the contrasts within classes and the class averages at times t."""
        (blocks, contrasts, y), x = begun or self.begun(xp, z0), self.eta * t
        if not arithmetic.is_jax(xp):
            weights = xp.exp(-exponents(xp, blocks.values, x))
            return blocks, *blocks.weighted_parts(xp, weights, contrasts, y)
        own = xp.exp(-exponents(xp, blocks.own, x))
        own = rows_times(xp, own, blocks.members) if own.shape[-1] > 1 else own
        spectrum = blocks.averages, blocks.vectors
        return blocks, own * contrasts, traced_decay(xp, self._averages(xp, blocks), spectrum, x, y)

    def _averages(self, xp: Any, blocks: Blocks) -> Any:
        """Return the kernel on the class averages, shape batch + (C, C)."""
        roots, pairs = blocks.roots, self._entries(xp)[1]
        own = self._own(xp)[..., None] * xp.eye(roots.shape[-1], dtype=xp.float64)
        return own + roots[..., :, None] * pairs * roots[..., None, :]

    def solution(self, xp: Any, t: Any, z0: Any, begun: Any = None) -> Any:
        """Return the residuals; at ``t = 0`` bitwise the start."""
        blocks, contrasts, y = self._followed(xp, t, z0, begun)
        return self.State(xp.where(t[..., None] == 0, z0.r, contrasts + blocks.spread(xp, y)))

    def along(self, xp: Any, t: Any, z0: Any) -> dict[str, Any]:
        """Return the loss, its three parts and class averages, without subtracting residuals at time t."""
        blocks, contrasts, y = self._followed(xp, t, z0)
        parts = self._parts(xp, blocks, contrasts, y)
        return {
            "loss": sum(parts[1:], parts[0]),
            **dict(zip(_PARTS, parts, strict=True)),
            "class_mean": y / blocks.roots,
        }

    def limit(self, xp: Any, z0: Any) -> Any:
        """Return the component of the start in the kernel's null space."""
        blocks = self._blocks(xp, z0.r)
        null = xp.where(blocks.values == 0, xp.ones_like(blocks.values), xp.zeros_like(blocks.values))
        contrasts, y = blocks.applied(xp, null, z0.r)
        return self.State(contrasts + blocks.spread(xp, y))

    def invariants(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return the component of the residual in the kernel's null space, which is constant."""
        return {"unlearnable": self.limit(xp, z).r}

    def rates(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return ``dL/dt = -eta r^T K r``."""
        return {"loss": xp.sum(z.r * self.velocity(xp, z).r, axis=-1)}

    # observables

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

    def definition(self, xp: Any) -> Definition:
        """Return a linear model whose Jacobian is a square root of the kernel and whose output is the residual."""

        def observables(w: Any, kernel: Any) -> dict[str, Any]:
            r, members = model.output(w), self.blocks(xp).members
            count = xp.sum(members, axis=-1)
            means = (members @ r[..., :, None])[..., 0] / count
            mean = xp.sum(r, axis=-1) / r.shape[-1]
            apart = r - (means[..., None, :] @ members)[..., 0, :]
            return {
                "loss_global": r.shape[-1] * mean**2 / 2,
                "loss_class": xp.sum(count * (means - mean[..., None]) ** 2, axis=-1) / 2,
                "loss_sample": xp.sum(apart**2, axis=-1) / 2,
                "class_mean": means,
            }

        model = linear_model(xp, self.kernel(xp), self._count, self.eta)._replace(
            state=lambda w: self.State(model.output(w)), observables=observables
        )
        return model

    # beyond the training outputs

    def predict(self, t: Any, r0: Any, labels: Any, f0_x: Any) -> Any:
        """Return the outputs at test points of known class; their kernel with a sample depends on the two classes only.

        The outputs depend on the class averages of the residuals only.

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

        Raises
        ------
        ValueError
            If a label is not a class, and at ``t = inf`` if outputs at test points grow without bound.
        OverflowError
            If the outputs are beyond the range of doubles.
        """
        problem = pose(self, t, r0)
        flow, xp = problem.flow, problem.xp
        labels, f0_x = arguments.test_points(problem, labels, f0_x)
        blocks = flow._blocks(xp, problem.z0.r)
        pull = flow._pull(xp, blocks, labels)
        arguments.refuse_drift(problem, blocks, pull)
        clock = xp.reshape(problem.t, problem.t.shape + (1,) * len(problem.batch))

        def outputs() -> Any:
            weights = integral_weights(xp, blocks.averages, flow.eta * clock)
            y = rows_times(xp, blocks.split(xp, problem.z0.r)[1], blocks.vectors)
            return f0_x - rows_times(xp, weights * y, xp.matrix_transpose(pull))

        return in_range(f"{type(self).__name__}.predict", outputs, r0=problem.z0.r, f0_x=f0_x, t=problem.t)

    def _pull(self, xp: Any, blocks: Blocks, labels: Any) -> Any:
        """Return the effect of each mode of the class averages on the test points, shape batch + (k, C).

        The effect is a row of the kernel times an eigenvector, or equally ``lam - lam_c`` times an entry of the
        eigenvector. The form with the smaller rounding error is used, because the effect of a slow mode is small and is
        divided by its eigenvalue.
        """
        member = xp.astype(labels[:, None] == xp.astype(xp.arange(self.sizes.shape[-1]), xp.float64), xp.float64)
        onto = member @ self._entries(xp)[1] * blocks.roots[..., None, :]
        entries = member @ blocks.vectors / (member @ blocks.roots[..., None])
        own, averages = member @ self._own(xp)[..., None], blocks.averages[..., None, :]
        bound = xp.sqrt(xp.sum(onto**2, axis=-1, keepdims=True))
        return smallest(
            xp,
            (bound + 0 * entries, onto @ blocks.vectors),
            ((averages + xp.abs(own)) * xp.abs(entries), (averages - own) * entries),
        )

    # gradient descent, exactly

    def modes(self, xp: Any) -> Blocks:
        """Return the kernel's `blocks`."""
        return self.blocks(xp)

    def after(self, xp: Any, left: Any, z0: Any) -> Any:
        """Return the residuals after their modes are multiplied by `left`."""
        blocks = self._blocks(xp, z0.r)
        contrasts, y = blocks.applied(xp, left, z0.r)
        return contrasts + blocks.spread(xp, y)


_PARTS = ("loss_global", "loss_class", "loss_sample")
