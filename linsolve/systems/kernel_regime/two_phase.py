"""Model of silent alignment: a kernel that is small at first, then grows in scale at its final shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from linsolve import arithmetic
from linsolve.core.law import Expansion
from linsolve.core.matrix_arguments import semidefinite
from linsolve.core.parameters import parameter
from linsolve.numerics.checked import law_in_range
from linsolve.numerics.spectrum import exponents, integral_weights

__all__ = ["TwoPhaseKernel"]

SINGULAR = 1e-10  # least eigenvalue of the final kernel on the samples, relative to its largest


class TwoPhaseKernel(Expansion):
    r"""Kernel regression as the result of training under a kernel that is small until its shape is final.

    Under :math:`\dot f = \eta\, k_t(x) \cdot (y - f)` and

    .. math:: K_t = \epsilon \tilde K \; (t \leq \tau), \qquad K_t = g(t) K_\infty \; (t > \tau), \qquad
        h(t) = \int_\tau^t g,

    with residuals :math:`\Delta = y - f` on the samples, the outputs are, for any :math:`g \geq 0`,

    .. math:: f(\tau) = f_0 + \tilde k \tilde K^+ (1 - e^{-\eta \epsilon \tau \tilde K}) \Delta_0, \qquad
        f(h) = f(\tau) + k_\infty K_\infty^{-1} (1 - e^{-\eta h K_\infty}) \Delta(\tau),

    so that at the end, :math:`h = \infty`,

    .. math:: f_\infty = f_0 + k_\infty K_\infty^{-1} \Delta_0 + \eta \epsilon \tau\,
        [\tilde k - k_\infty K_\infty^{-1} \tilde K]\, \Delta_0 + O(\epsilon^2) .

    The first two terms are regression with the final kernel alone, of error :math:`O(\epsilon)`; the third vanishes on
    the samples.

    Parameters
    ----------
    early, late : array_like, shape (input, input)
        :math:`\tilde K` and :math:`K_\infty` on all inputs, the samples first; symmetric and positive semi-definite. On
        the samples `late` is not singular.
    y : array_like, shape (sample,)
        Targets of the samples.
    f0 : array_like, shape (input,)
        Outputs at time 0.
    tau : array_like
        Time at which the shape of the kernel changes.
    eta : array_like
        Learning rate.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a kernel is not symmetric or has a negative eigenvalue, there are more samples than inputs, or `late` is
        singular on the samples.

    Notes
    -----
    Approximates training under the model kernel. Source: Atanasov, Bordelon, Pehlevan (2022), (2), (3), (12)-(14). In
    (2) the exponential is ordered in time unless the kernels commute; here each phase has one kernel. For a linear
    network with more inputs than samples, the difference from regression with its final kernel is larger, see
    `KernelRegression`. ``linsolve card TwoPhaseKernel`` lists the published formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> late, f0 = [[1.0, 0.5], [0.5, 1.0]], [0.0, 0.0]
    >>> law = ls.laws.TwoPhaseKernel(early=np.eye(2), late=late, y=[2.0], f0=f0, tau=1.0)
    >>> law.approximation(np, 0.01)["function"].tolist()  # regression: 2 on the sample, 2 * 0.5 on the new input
    [2.0, 1.0]
    >>> law.exact(np, 0.01)["function"].round(4).tolist()
    [2.0, 0.99]
    """

    early: Any = parameter(r"\tilde K", "kernel of phase I over epsilon", axes=("input", "input"))
    late: Any = parameter(r"K_\infty", "kernel of phase II", axes=("input", "input"))
    y: Any = parameter("y", "targets", axes=("sample",))
    f0: Any = parameter("f_0", "outputs at time 0", axes=("input",))
    tau: Any = parameter(r"\tau", "end of phase I", domain="[0, inf)", default=1.0)
    eta: Any = parameter(r"\eta", "learning rate", domain="(0, inf)", default=1.0)

    approximates: ClassVar[str] = "training under a kernel of two phases, small in the first"
    unapplied: ClassVar[str] = "a model of the kernel; use KernelRegression.of for a network"
    timed: ClassVar[bool] = False
    symbol: ClassVar[str] = "epsilon"
    meaning: ClassVar[str] = "size of the kernel of phase I"
    orders: ClassVar[Mapping[str, float]] = {"residual": 1, "function": 1, "function with phase I": 2}
    dps = 40

    def __post_init__(self) -> None:
        super().__post_init__()
        n, who = self.y.shape[0], type(self).__name__
        if n > self.f0.shape[0]:
            raise ValueError(
                f"{who}: y has shape {tuple(self.y.shape)} but there are {self.f0.shape[0]} inputs (targets of the "
                "first inputs); give at most one for each"
            )
        for name in ("early", "late"):
            semidefinite(who, name, getattr(self, name), meaning="kernel on all inputs")
        values = np.linalg.eigvalsh(arithmetic.to_numpy(self.late).astype(float)[:n, :n])
        if not values[0] > SINGULAR * values[-1]:
            raise ValueError(
                f"{who}: late = a kernel of eigenvalue {values[0]:.3g} on the samples, which must not be singular "
                "(kernel of phase II); drop samples that repeat"
            )

    def _phase(self, xp: Any, kernel: Any, span: Any, residual: Any) -> tuple[Any, Any]:
        """Return the change of all outputs, and the residual on the samples, after a span of time under a kernel."""
        n = self.y.shape[0]
        values, vectors = xp.linalg.eigh(kernel[:n, :n])
        values = xp.maximum(values, xp.zeros_like(values))
        c, left = xp.matrix_transpose(vectors) @ residual, xp.exp(-exponents(xp, values, span))
        gone = integral_weights(xp, values, span)
        return kernel[:, :n] @ (vectors @ (gone * c)), vectors @ (left * c)

    def _after_phase_one(self, xp: Any, small: Any) -> tuple[Any, Any]:
        n = self.y.shape[0]
        moved, residual = self._phase(xp, self.early, self.eta * small * self.tau, self.y - self.f0[:n])
        return self.f0 + moved, residual

    def outputs(self, xp: Any, small: Any, h: Any) -> Any:
        """Return the outputs on all inputs at a finite integral ``h`` of the scale since the end of phase I."""
        f, residual = self._after_phase_one(xp, small)
        return f + self._phase(xp, self.late, self.eta * h, residual)[0]

    @law_in_range
    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the residual at the end of phase I, and the outputs at the end without and with phase I."""
        n = self.y.shape[0]
        residual = self.y - self.f0[:n]
        fitted = self.f0 + self.late[:, :n] @ xp.linalg.solve(self.late[:n, :n], residual)
        early = self.early[:, :n] @ residual
        across = early - self.late[:, :n] @ xp.linalg.solve(self.late[:n, :n], early[:n])
        return {
            "residual": residual,
            "function": fitted,
            "function with phase I": fitted + self.eta * small * self.tau * across,
        }

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the same quantities in closed form."""
        n = self.y.shape[0]
        f, residual = self._after_phase_one(xp, small)
        f = f + self.late[:, :n] @ xp.linalg.solve(self.late[:n, :n], residual)
        return {"residual": residual, "function": f, "function with phase I": f}

    @classmethod
    def example(cls, rng: np.random.Generator) -> TwoPhaseKernel:
        """Return four samples and two further inputs."""
        early, late = (root @ root.T for root in rng.normal(size=(2, 6, 8)) / 2)
        return cls(
            early=early,
            late=late,
            y=rng.normal(size=4),
            f0=0.3 * rng.normal(size=6),
            tau=rng.uniform(0.5, 2.0),
            eta=rng.uniform(0.5, 2.0),
        )
