"""The kernel regime: a network whose tangent kernel stays frozen, on a data set, at test points and in parameters."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import real_array
from linsolve.core.definition import Definition
from linsolve.core.flow import Flow, observable
from linsolve.core.parameters import parameter
from linsolve.core.query import pose
from linsolve.numerics.double_double import length, power_of_two
from linsolve.numerics.spectrum import Spectrum, reach_backward, rows_times
from linsolve.systems.kernel_regime import given as start
from linsolve.systems.kernel_regime.descent import KernelDescent, linear_model
from linsolve.systems.kernel_regime.one_target import OneTarget, follow

__all__ = ["FrozenKernel"]


class FrozenKernel(KernelDescent, Flow):
    r"""A network in the kernel regime: linear dynamics under a frozen tangent kernel, singular or not.

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

    Notes
    -----
    Exact for: every symmetric positive semi-definite kernel, at every time, ``t = inf`` and ``t < 0`` included; what of
    ``f - y`` lies in the kernel's null space never moves. For several outputs n is data points times outputs, for the
    mean loss ``|f - y|^2/(2n)`` see `for_mean_loss`. Not for: kernels that move, see `TwoLayer`.

    Sources: Ortiz-Jimenez, Moosavi-Dezfooli, Frossard, "What can linearized neural networks actually say about
    generalization?" (2021), section 2; Seleznova, thesis (2024), eqs. (2.59)-(2.61).

    Errata of the thesis, shown by ``tests/test_frozen_kernel.py``: eqs. (2.60), (2.61) forget the 1/N of (2.59), so
    that their time runs N times too fast; (2.61) needs an invertible kernel, which ``t phi`` does not.

    Eigenvalues below ``n eps`` of the largest count as zero: in doubles they are rounding. One eigendecomposition is
    enough for all times, starts and observables of a flow.

    Accuracy: a few rounding errors of ``|f0| + |y|``, times ``1 + eta lam_max t`` for modes that still move then, which
    is what rounding K does (``benchmarks/accuracy_frozen_kernel.py``); 1e-13 at n = 40.

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
    _spectra: ClassVar[start.Memo]  # one a flow, shared by its casts

    def __post_init__(self) -> None:
        who = type(self).__name__
        object.__setattr__(self, "kernel", start.symmetric(who, self.kernel))
        object.__setattr__(self, "_spectra", start.Memo())
        super().__post_init__()
        xp = arithmetic.namespace(self.kernel)
        if not getattr(xp, "symbolic", False):
            xp = np if arithmetic.is_object(xp) else xp
            start.refuse_negative(who, self.cast(xp).spectrum(xp))

    @classmethod
    def for_mean_loss(cls, kernel: Any, y: Any, eta: Any = 1.0) -> Any:
        """Return the flow of the mean loss ``|f - y|^2/(2n)``: that of ``|f - y|^2/2`` at learning rate ``eta/n``.

        The flow's own `loss` remains ``|f - y|^2/2``, n times the mean.
        """
        who = f"{cls.__name__}.for_mean_loss"
        kernel = start.symmetric(who, kernel)
        return cls(kernel, y, real_array(who, "eta", eta, meaning="learning rate") / kernel.shape[-1])

    @classmethod
    def one_target(
        cls, kernel: Any, y: Any, t: Any, f0: Any, eta: Any = 1.0, *, tolerance: float = 1e-13, most: int = 200
    ) -> OneTarget:
        r"""Return one target at given times without the spectrum, by Lanczos, where its error is known to be small.

        :math:`e^{-\eta K t} (f_0 - y)` from the Krylov space of K and ``f0 - y``, with a bound of its error
        (`linsolve.numerics.lanczos`). Where the bound is not met, and for kernels that are not symmetric to the last
        bit, times before 0 and arithmetics other than doubles, it is ``FrozenKernel(kernel, y, eta)(t, f0)``. That no
        eigenvalue is negative is seen only where the target moves. For many targets, or many times later, the flow
        itself is cheaper.

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
            Error that the Krylov space may leave, of ``|f0 - y|``; below the rounding of products with the kernel,
            ``32 eps (1 + eta lam_max t)``, nothing is asked.
        most : int
            Products with the kernel before giving up.

        Returns
        -------
        OneTarget
            ``f``, ``residual``, ``dual`` (for predictions), ``error``, ``steps``, ``route``.

        Raises
        ------
        ValueError
            For batches, and for limits that cannot be met.

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
        """Return eigenvalues (rising) and eigenvectors of the kernel, computed once a flow and arithmetic."""
        if xp not in self._spectra:
            # the transpose is the same to the last bit, in the order in which LAPACK copies it
            self._spectra[xp] = Spectrum.of(xp, xp.matrix_transpose(self.kernel))
        return self._spectra[xp]

    # the problem

    def loss(self, xp: Any, z: Any) -> Any:
        """Return ``|f - y|^2 / 2``."""
        return xp.sum((z.f - self.y) ** 2, axis=-1) / 2

    def descent(self, xp: Any, z: Any, gradient: Any) -> Any:
        """Return ``-eta K`` times the gradient: the metric that the parameters induce on the outputs."""
        return self.State(-self.eta[..., None] * rows_times(xp, gradient.f, self.kernel))

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return ``-eta K (f - y)``."""
        return self.State(-self.eta[..., None] * rows_times(xp, z.f - self.y, self.kernel))

    # the closed form

    def _modes(self, xp: Any, t: Any, z0: Any) -> tuple[Any, Any]:
        """Return ``eta lam t`` and the residual at time 0, both by eigenvector."""
        spectrum = self.spectrum(xp)
        return spectrum.exponents(xp, self.eta * t), spectrum.coordinates(xp, z0.f - self.y)

    def solution(self, xp: Any, t: Any, z0: Any) -> Any:
        """Return the outputs, counted from the start or from the targets, whichever rounds less.

        At ``t = 0`` bitwise the start.
        """
        x, c = self._modes(xp, t, z0)
        x = -x
        left, lost = xp.exp(x), xp.expm1(x)
        # chosen before it is turned into outputs: one product with the eigenvectors, not two
        sizes = _lengths(xp, c, left, lost)
        late = (length(xp, self.y) + sizes[0] < length(xp, z0.f) + sizes[1])[..., None]
        f = xp.where(late, self.y, z0.f) + self.spectrum(xp).vector(xp, xp.where(late, left, lost) * c)
        return self.State(xp.where(t[..., None] == 0, z0.f, f))

    def along(self, xp: Any, t: Any, z0: Any) -> dict[str, Any]:
        """Return residual, its energy by mode and the loss, without the difference ``f - y``."""
        x, c = self._modes(xp, t, z0)
        c = xp.exp(-x) * c
        residual, energy = self.spectrum(xp).vector(xp, c), c**2 / 2
        return {"loss": xp.sum(energy, axis=-1), "residual": residual, "mode_energy": energy}

    def limit(self, xp: Any, z0: Any) -> Any:
        """Return ``y`` plus what of ``f0 - y`` lies in the kernel's null space."""
        return self.State(self.y + self.spectrum(xp).null_part(xp, z0.f - self.y))

    def lifetime(self, xp: Any, z0: Any) -> tuple[Any, Any]:
        """Return where backward in time the residual leaves the range of doubles, and inf."""
        start = reach_backward(xp, self.eta[..., None] * self.spectrum(xp).values)
        return start, xp.full_like(start, xp.inf)

    def invariants(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return the part of the residual in the kernel's null space, which is never learned."""
        return {"unlearnable": self.spectrum(xp).null_part(xp, z.f - self.y)}

    def rates(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return ``dL/dt = -eta r^T K r``, ``r = f - y``."""
        r = z.f - self.y
        return {"loss": -self.eta * xp.sum(r * rows_times(xp, r, self.kernel), axis=-1)}

    # what is observed

    @observable(axes=("n",))
    def residual(self, xp: Any, z: Any) -> Any:
        """Return ``f - y``, shape batch + (n,)."""
        return z.f - self.y

    @observable(bounds="[0, inf)", axes=("mode",))
    def mode_energy(self, xp: Any, z: Any) -> Any:
        """Return the loss by eigenvector of the kernel, eigenvalues rising, shape batch + (n,)."""
        return self.spectrum(xp).coordinates(xp, z.f - self.y) ** 2 / 2

    @observable(bounds="[0, inf)")
    def output_norm(self, xp: Any, z: Any) -> Any:
        """Return ``|f|``, shape batch."""
        return length(xp, z.f)

    @observable(bounds="[0, 1]")
    def residual_alignment(self, xp: Any, z: Any) -> Any:
        """Return ``r^T K r / (lam_max |r|^2)``: how fast the loss falls, of the fastest possible; 0 for no residual."""
        energy, top = self.mode_energy(xp, z), self.spectrum(xp).values
        size = xp.sum(energy, axis=-1) * xp.max(top, axis=-1)
        positive = xp.where(top > 0, top, xp.zeros_like(top))
        share = xp.sum(positive * energy, axis=-1) / xp.where(size > 0, size, xp.ones_like(size))
        return xp.minimum(share, xp.ones_like(share))

    # beyond the training outputs

    def predict(self, t: Any, f0: Any, k_x: Any, f0_x: Any) -> Any:
        """Return the outputs at test points.

        Parameters
        ----------
        t : array_like, any shape
            Times; ``inf`` gives the limit.
        f0 : array_like, shape batch + (n,)
            Outputs on the training inputs at time 0.
        k_x : array_like, shape batch + (m, n)
            Kernel between test and training inputs.
        f0_x : array_like, shape batch + (m,)
            Outputs at the test points at time 0.

        Returns
        -------
        array, shape t.shape + batch + (m,)

        Raises
        ------
        ValueError
            For shapes that do not fit, and at ``t = inf`` for a `k_x` that leaves the range of the kernel: no positive
            semi-definite kernel does, and outputs would grow for ever.
        """
        problem, more = pose(self, t, f0), {"k_x": k_x, "f0_x": f0_x}
        k_x, f0_x = start.beside(problem, "predict", more, {"k_x": ("m", "n"), "f0_x": ("m",)})
        spectrum = problem.flow.spectrum(problem.xp)
        return start.reached(problem, spectrum.values, spectrum.vectors, start.reach(problem, spectrum, k_x), f0_x)

    def parameters_at(self, t: Any, theta0: Any, jacobian: Any, f0: Any) -> Any:
        """Return the parameters of the linearized model, from the singular values of its Jacobian.

        Parameters
        ----------
        t : array_like, any shape
            Times; ``inf`` gives the limit, the solution nearest to `theta0`.
        theta0 : array_like, shape batch + (p,)
            Parameters at time 0.
        jacobian : array_like, shape batch + (n, p)
            Derivative of the training outputs with respect to the parameters; ``J J^T`` must be the kernel.
        f0 : array_like, shape batch + (n,)
            Outputs on the training inputs at time 0.

        Returns
        -------
        array, shape t.shape + batch + (p,)
        """
        problem, more = pose(self, t, f0), {"jacobian": jacobian, "theta0": theta0}
        J, theta0 = start.beside(problem, "parameters_at", more, {"jacobian": ("n", "p"), "theta0": ("p",)})
        start.refuse_other_kernel(problem, J)
        u, s, onto = start.singular(problem.xp, J)
        return start.reached(problem, s**2, u, problem.xp.matrix_transpose(s[..., None] * onto), theta0)

    # gradient descent, exactly

    def modes(self, xp: Any) -> Spectrum:
        """Return the kernel's `spectrum`."""
        return self.spectrum(xp)

    def after(self, xp: Any, left: Any, z0: Any) -> Any:
        """Return the outputs once the residual's modes are multiplied by `left`."""
        spectrum = self.spectrum(xp)
        return self.y + spectrum.vector(xp, left * spectrum.coordinates(xp, z0.f - self.y))

    def definition(self, xp: Any) -> Definition:
        """Return the linear model whose Jacobian is a root of the kernel, on top of a fixed output."""
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
        """Return four points on a kernel of rank three, singular without rounding, from generic outputs."""
        jacobian = np.round(64 * (np.eye(4, 3) + 0.4 * rng.normal(size=(4, 3)))) / 64
        flow = cls(kernel=jacobian @ jacobian.T, y=rng.normal(size=4), eta=rng.uniform(0.3, 0.9))
        return flow, cls.State(rng.normal(size=4))


def _lengths(xp: Any, c: Any, *weights: Any) -> list[Any]:
    """Return the lengths of ``weight * c`` along the last axis; squares of c neither overflow nor underflow."""
    factor = power_of_two(xp, xp.max(xp.abs(c), axis=-1))
    squares = (c * factor[..., None]) ** 2
    return [xp.sqrt(xp.vecdot(w * w, squares)) / factor for w in weights]
