"""The kernel regime: training outputs, test outputs and parameters under a constant tangent kernel."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import real_array
from linsolve.core.definition import Definition
from linsolve.core.flow import Flow, observable
from linsolve.core.parameters import parameter
from linsolve.numerics.double_double import length, power_of_two
from linsolve.numerics.scalar import uniform
from linsolve.numerics.spectrum import Spectrum, exponents, rows_times, traced_decay
from linsolve.systems.kernel_regime.descent import KernelDescent, linear_model
from linsolve.systems.kernel_regime.kernel_matrix import Memo, refuse_negative, symmetric
from linsolve.systems.kernel_regime.kernel_sgd import KernelSGD
from linsolve.systems.kernel_regime.one_target import OneTarget, follow
from linsolve.systems.kernel_regime.predictions import Predictions

__all__ = ["FrozenKernel"]


class FrozenKernel(Predictions, KernelDescent, KernelSGD, Flow):
    r"""A network in the kernel regime: linear dynamics under a frozen tangent kernel, possibly singular.

    .. math:: L = |f - y|^2/2, \qquad \dot f = -\eta K (f - y), \qquad f(t) = y + e^{-\eta K t} (f_0 - y),

    ``f`` in R^n the outputs on the training inputs. At any other input with kernel row ``k(x)``, and for the parameters
    of the linearized model with Jacobian J, ``K = J J^T``,

    .. math:: f_t(x) = f_0(x) - \eta\, k(x)^T t\, \varphi(\eta K t) (f_0 - y), \quad
        \theta_t = \theta_0 - \eta J^T t\, \varphi(\eta K t) (f_0 - y), \quad \varphi(x) = (1 - e^{-x})/x .

    Parameters
    ----------
    kernel : array_like, shape batch + (n, n)
        Tangent kernel on the training inputs, symmetric and positive semi-definite up to rounding.
    y : array_like, shape batch + (n,)
        Targets.
    eta : array_like, shape batch
        Learning rate (loss decrease per unit of time), positive.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, the kernel is not symmetric, or shapes do not fit. At
        a call, also for an invalid state or time.
    OverflowError
        At a call, or at the access of an observable, if results leave the range of doubles.

    Notes
    -----
    Exact for: every symmetric positive semi-definite kernel, at every time, ``t = inf`` and ``t < 0`` included; the
    component of ``f - y`` in the kernel's null space is constant. For several outputs n is data points times outputs;
    for the mean loss ``|f - y|^2/(2n)`` see `for_mean_loss`. Not for: kernels that change during training, see
    `TwoLayer`.

    Sources: Ortiz-Jimenez, Moosavi-Dezfooli, Frossard, "What can linearized neural networks actually say about
    generalization?" (2021), section 2; Seleznova, thesis (2024), eqs. (2.59)-(2.61). ``linsolve card FrozenKernel``
    lists the published formulas and their verdicts.

    Eigenvalues below ``n eps`` of the largest count as zero, since this is the rounding error of an eigensolver in
    doubles. One eigendecomposition serves all times, starts and observables of a flow.

    Accuracy: a few rounding errors of ``|f0| + |y|``. Rounding of K makes the error of modes that have not converged at
    t larger by the factor ``1 + eta lam_max t``. It is 1e-13 at n = 40
    (``test_rank_deficient_kernels_agree_with_fifty_digits``; over broad draws
    ``benchmarks/accuracy_frozen_kernel.py``).

    Examples
    --------
    >>> from linsolve import FrozenKernel
    >>> flow = FrozenKernel(kernel=[[2.0, 2.0], [2.0, 2.0]], y=[1.0, 0.0])
    >>> flow([0.0, 0.1, float("inf")], [0.0, 0.0])["f"].round(6).tolist()
    [[0.0, 0.0], [0.16484, 0.16484], [0.5, 0.5]]
    """

    kernel: Any = parameter("K", "tangent kernel on the training inputs", axes=("n", "n"))
    y: Any = parameter("y", "targets", typical=(-2.0, 2.0), axes=("n",))
    eta: Any = parameter(r"\eta", "learning rate", domain="(0, inf)", typical=(0.1, 2.0), default=1.0)

    class State(NamedTuple):
        """Outputs on the training inputs, ``f``, shape batch + (n,)."""

        f: Any

    axes: ClassVar = {"f": ("n",)}
    _spectra: ClassVar[Memo]  # shared by copies of a flow in other namespaces

    def __post_init__(self) -> None:
        who = type(self).__name__
        object.__setattr__(self, "kernel", symmetric(who, self.kernel))
        object.__setattr__(self, "_spectra", Memo())
        super().__post_init__()
        xp = arithmetic.namespace(self.kernel)
        if arithmetic.readable(self.kernel):
            xp = np if arithmetic.is_object(xp) else xp
            refuse_negative(who, self.cast(xp).spectrum(xp))

    @classmethod
    def for_mean_loss(cls, kernel: Any, y: Any, eta: Any = 1.0) -> Any:
        """Return the flow of the mean loss ``|f - y|^2/(2n)``: that of ``|f - y|^2/2`` at learning rate ``eta/n``.

        The observable `loss` of the returned flow remains ``|f - y|^2/2``, n times the mean.
        """
        who = f"{cls.__name__}.for_mean_loss"
        kernel = symmetric(who, kernel)
        return cls(kernel, y, real_array(who, "eta", eta, meaning="learning rate") / kernel.shape[-1])

    @classmethod
    def one_target(
        cls, kernel: Any, y: Any, t: Any, f0: Any, eta: Any = 1.0, *, tolerance: float = 1e-13, most: int = 200
    ) -> OneTarget:
        r"""Return the solution for one target by Lanczos instead of an eigendecomposition, if its error bound is small.

        :math:`e^{-\eta K t} (f_0 - y)` is approximated in the Krylov space of K and ``f0 - y``, with an error bound
        (`linsolve.numerics.lanczos`). If the bound exceeds the tolerance, if the kernel is not bitwise symmetric, and
        for negative times or arithmetics other than doubles, the result is ``FrozenKernel(kernel, y, eta)(t, f0)``.
        Negative eigenvalues are detected only in the Krylov space. For many targets, or repeated calls with new times,
        the flow itself is cheaper.

        Parameters
        ----------
        kernel : array_like, shape (n, n)
        y : array_like, shape (n,)
        t : array_like, any shape
            Times; ``inf`` gives the limit.
        f0 : array_like, shape (n,)
            Outputs on the training inputs at time 0.
        eta : float
            Learning rate.
        tolerance : float
            Largest error of the Krylov approximation, relative to ``|f0 - y|``. The rounding error of products with the
            kernel, ``32 eps (1 + eta lam_max t)``, is always allowed in addition.
        most : int
            Largest number of products with the kernel.

        Returns
        -------
        OneTarget
            ``f``, ``residual``, ``dual`` (for predictions), ``error``, ``steps``, ``route``.

        Raises
        ------
        ValueError
            For batches, and for a `tolerance` or `most` out of range.

        Examples
        --------
        >>> import numpy as np
        >>> from linsolve import FrozenKernel
        >>> kernel, y = np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([1.0, 0.0])
        >>> found = FrozenKernel.one_target(kernel, y, [0.0, 1.0], np.zeros(2))
        >>> found.f.round(6).tolist(), found.route, found.steps
        ([[0.0, 0.0], [0.791167, 0.159046]], 'Lanczos', 2)
        """
        return follow(f"{cls.__name__}.one_target", cls, kernel, y, t, f0, eta, tolerance, most)

    def spectrum(self, xp: Any) -> Spectrum:
        """Return eigenvalues (increasing) and eigenvectors of the kernel, computed once for each arithmetic."""
        # the transpose is bitwise equal and has the memory order of LAPACK
        return self._spectra.recall(xp, lambda: Spectrum.of(xp, xp.matrix_transpose(self.kernel)))

    # the problem

    def loss(self, xp: Any, z: Any) -> Any:
        """Return ``|f - y|^2 / 2``."""
        return xp.sum((z.f - self.y) ** 2, axis=-1) / 2

    def descent(self, xp: Any, z: Any, gradient: Any) -> Any:
        """Return ``-eta K`` times the gradient: the metric induced on the outputs by the parameters."""
        return self.State(-self.eta[..., None] * rows_times(xp, gradient.f, self.kernel))

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return ``-eta K (f - y)``."""
        return self.State(-self.eta[..., None] * rows_times(xp, z.f - self.y, self.kernel))

    # the closed form

    def _modes(self, xp: Any, t: Any, z0: Any) -> tuple[Any, Any]:
        """Return ``eta lam t`` and the residual at time 0, both by eigenvector."""
        spectrum = self.spectrum(xp)
        return exponents(xp, spectrum.values, self.eta * t), spectrum.coordinates(xp, z0.f - self.y)

    def begun(self, xp: Any, z0: Any) -> Any:
        """Return spectrum, ``-eta``, residual at time 0 by eigenvector, its scaled squares, and their sum when late.

        A time is late if the sum of the squares that are left is not larger. The rounding errors of ``y + left`` and
        ``f0 - lost`` are proportional to ``|y| + |left|`` and ``|f0| + |lost|``, where
        ``|lost| >= |f0 - y| - |left|``. So a time is late if ``2 |left|`` is at most ``|f0| - |y| + |f0 - y|``; the sum
        of the chosen form is at most twice the smaller one. The last result is whether the sum is positive: otherwise
        late times have nothing left, as ``t = inf``.
        """
        if arithmetic.is_jax(xp):
            return None
        spectrum = self.spectrum(xp)
        c = spectrum.coordinates(xp, z0.f - self.y)
        factor = power_of_two(xp, xp.max(xp.abs(c), axis=-1))
        scaled = c * factor[..., None]
        squares, size = scaled**2, length(xp, scaled)
        enough = (length(xp, z0.f) - length(xp, self.y) + size / factor) / 2 * factor
        enough = xp.minimum(enough, size * (1 - 2.0**-20))  # at t = 0 all squares are left
        enough = xp.where(enough > 0, enough, xp.zeros_like(enough)) ** 2
        return spectrum, -self.eta, c, squares, enough, arithmetic.holds(enough > 0)

    def solution(self, xp: Any, t: Any, z0: Any, begun: Any = None) -> Any:
        """Return the outputs: start plus change, or from late times on target plus residual, see `begun`.

        At ``t = 0``, which is late for a start at the target only, the change is exactly zero.
        """
        if arithmetic.is_jax(xp):
            return self.State(xp.where(t[..., None] == 0, z0.f, self.y + self._left(xp, t, z0)))
        spectrum, rate, c, squares, enough, some = begun or self.begun(xp, z0)
        x = exponents(xp, spectrum.values, rate * t)
        late: Any = np.False_
        if some or arithmetic.holds(xp.isinf(t)):
            left = xp.exp(x)
            late = uniform(xp, xp.vecdot(left * left, squares) <= enough)
        if late is np.True_:
            end, share = self.y, left
        elif late is np.False_:
            end, share = z0.f, np.expm1(x, out=x) if xp is np else xp.expm1(x)
        else:  # choosing before the product with the eigenvectors saves one product
            end, share = xp.where(late[..., None], self.y, z0.f), xp.where(late[..., None], left, xp.expm1(x))
        if c.ndim == 1:  # as in the other two places, a new array of this size would take as long again
            share *= c
        else:
            share = share * c
        f = spectrum.vector(xp, share)
        f += end
        return self.State(f)

    def along(self, xp: Any, t: Any, z0: Any) -> dict[str, Any]:
        """Return the residual, its energy by mode and the loss, without subtracting y from f."""
        x, c = self._modes(xp, t, z0)
        c = xp.exp(-x) * c
        energy = c**2 / 2
        if arithmetic.is_jax(xp):
            residual = self._left(xp, t, z0)
            return {"loss": xp.sum(residual**2, axis=-1) / 2, "residual": residual, "mode_energy": energy}
        return {"loss": xp.sum(energy, axis=-1), "residual": self.spectrum(xp).vector(xp, c), "mode_energy": energy}

    def _left(self, xp: Any, t: Any, z0: Any) -> Any:
        """Return the residual in JAX."""
        values, vectors, _ = self.spectrum(xp)
        return traced_decay(xp, self.kernel, (values, vectors), self.eta * t, z0.f - self.y)

    def limit(self, xp: Any, z0: Any) -> Any:
        """Return ``y`` plus the component of ``f0 - y`` in the kernel's null space."""
        return self.State(self.y + self.spectrum(xp).null_part(xp, z0.f - self.y))

    def invariants(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return the component of the residual in the kernel's null space, which is constant."""
        return {"unlearnable": self.spectrum(xp).null_part(xp, z.f - self.y)}

    def rates(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return ``dL/dt = -eta r^T K r``, ``r = f - y``."""
        r = z.f - self.y
        return {"loss": -self.eta * xp.sum(r * rows_times(xp, r, self.kernel), axis=-1)}

    # observables

    @observable(axes=("n",))
    def residual(self, xp: Any, z: Any) -> Any:
        """Return ``f - y``, shape batch + (n,)."""
        return z.f - self.y

    @observable(bounds="[0, inf)", axes=("mode",))
    def mode_energy(self, xp: Any, z: Any) -> Any:
        """Return the loss along each eigenvector of the kernel, by increasing eigenvalue, shape batch + (n,)."""
        return self.spectrum(xp).coordinates(xp, z.f - self.y) ** 2 / 2

    @observable(bounds="[0, inf)")
    def output_norm(self, xp: Any, z: Any) -> Any:
        """Return ``|f|``, shape batch."""
        return length(xp, z.f)

    @observable(bounds="[0, 1]")
    def residual_alignment(self, xp: Any, z: Any) -> Any:
        """Return ``r^T K r / (lam_max |r|^2)``, the rate of decrease of the loss over the largest possible rate.

        It is 0 for a zero residual.
        """
        values = self.spectrum(xp).values
        top = xp.max(values, axis=-1)
        # scaled by powers of two, so that neither squares nor their sums overflow or underflow
        values = values * power_of_two(xp, top)[..., None]
        c = self.spectrum(xp).coordinates(xp, z.f - self.y)
        energy = (c * power_of_two(xp, xp.max(xp.abs(c), axis=-1))[..., None]) ** 2 / 2
        size = xp.sum(energy, axis=-1) * xp.max(values, axis=-1)
        positive = xp.where(values > 0, values, xp.zeros_like(values))
        share = xp.sum(positive * energy, axis=-1) / xp.where(size > 0, size, xp.ones_like(size))
        return xp.minimum(share, xp.ones_like(share))

    # gradient descent, exactly

    def modes(self, xp: Any) -> Spectrum:
        """Return the kernel's `spectrum`."""
        return self.spectrum(xp)

    def after(self, xp: Any, left: Any, z0: Any) -> Any:
        """Return the outputs after the residual's modes are multiplied by `left`."""
        spectrum = self.spectrum(xp)
        return self.y + spectrum.vector(xp, left * spectrum.coordinates(xp, z0.f - self.y))

    def definition(self, xp: Any) -> Definition:
        """Return the linear model with a fixed offset whose Jacobian is a square root of the kernel."""
        n = self.y.shape[-1]

        def observables(w: Any, kernel: Any) -> dict[str, Any]:
            values, vectors = xp.linalg.eigh(self.kernel)
            f = model.output(w)
            r = f - self.y
            square = xp.sum(r * r, axis=-1)
            pull = xp.sum(r * (self.kernel @ r[..., :, None])[..., 0], axis=-1)
            return {
                "residual": r,
                "mode_energy": (xp.matrix_transpose(vectors) @ r[..., :, None])[..., 0] ** 2 / 2,
                "output_norm": xp.sqrt(xp.sum(f * f, axis=-1)),
                "residual_alignment": pull / (xp.max(values, axis=-1) * square),
            }

        model = linear_model(xp, self.kernel, n, self.eta)._replace(
            target=self.y, state=lambda w: self.State(model.output(w)), observables=observables
        )
        return model

    @classmethod
    def example(cls, rng: np.random.Generator) -> tuple[Flow, Any]:
        """Return four points with an exactly singular kernel of rank three, from generic outputs."""
        jacobian = np.round(64 * (np.eye(4, 3) + 0.4 * rng.normal(size=(4, 3)))) / 64
        flow = cls(kernel=jacobian @ jacobian.T, y=rng.normal(size=4), eta=rng.uniform(0.3, 0.9))
        return flow, cls.State(rng.normal(size=4))
