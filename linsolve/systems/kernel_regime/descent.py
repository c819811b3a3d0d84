"""Gradient descent with a finite step under a frozen kernel, in closed form: what flows in the kernel regime share."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import Interval, real_array, shown
from linsolve.core.definition import Definition
from linsolve.core.query import pose
from linsolve.core.trajectory import Trajectory
from linsolve.systems.kernel_regime.momentum import descent_power, heavy_ball

__all__ = ["KernelDescent", "linear_model"]


class KernelDescent:
    """Exact gradient descent of a flow whose kernel is constant, with a state of one field.

    The flow supplies `modes`, whose ``values`` are the kernel's eigenvalues, `after`, which multiplies the modes of a
    start, and `_eigenvalues`, the ones that its own samples can show.
    """

    parameters: Any
    State: Any

    def modes(self, xp: Any) -> Any:
        """Return the kernel's eigenvalues and what turns states into modes."""
        raise NotImplementedError

    def after(self, xp: Any, left: Any, z0: Any) -> Any:
        """Return the state's field once the residual's modes are multiplied by `left`."""
        raise NotImplementedError

    def _eigenvalues(self, xp: Any) -> Any:
        return self.modes(xp).values

    def _rates(self) -> tuple[Any, Any, Any]:
        """Return the namespace of the parameters, and the slowest and the fastest rate, ``eta lam``."""
        parameters = self.parameters()
        xp = arithmetic.namespace(*(v for v in parameters.values() if arithmetic.namespace(v) is not np))
        values, eta = self._eigenvalues(xp), arithmetic.cast(xp, parameters["eta"])
        high = xp.max(values, axis=-1)
        return xp, eta * xp.min(xp.where(values > 0, values, high[..., None]), axis=-1), eta * high

    def largest_step(self, momentum: float = 0.0) -> Any:
        """Return ``2 (1 + momentum) / (eta lam_max)``, below which gradient descent converges, shape batch."""
        xp, _, fastest = self._rates()
        return _inverse(xp, 2 + 2 * _momentum(type(self).__name__, momentum), fastest)

    def best_step(self) -> Any:
        """Return ``2 / (eta (lam_max + lam_min))``, ``lam_min`` the smallest positive eigenvalue, shape batch."""
        xp, slowest, fastest = self._rates()
        return _inverse(xp, 2, slowest + fastest)

    def discrete(
        self, k: Any, z0: Any, *, step: Any, momentum: float = 0.0, allow_divergence: bool = False
    ) -> Trajectory:
        """Return gradient descent with a finite step, exactly, after `k` steps: no loop over steps.

        ``z_(k+1) = z_k - step eta K r_k + momentum (z_k - z_(k-1))`` with the residual r, started at rest.

        Parameters
        ----------
        k : array_like of int, any shape
            Numbers of steps.
        z0 : array_like, shape batch + own
            Start.
        step : float
            Length of one step in units of time, below `largest_step`; best without momentum is `best_step`.
        momentum : float
            Of the heavy ball, in [0, 1).
        allow_divergence : bool
            Whether to take steps that diverge.

        Returns
        -------
        Trajectory
            At times ``k step``; its state agrees with ``descend`` to rounding.

        Raises
        ------
        ValueError
            If `k` is not made of whole numbers, or the step is beyond the stability bound and not allowed to be.
        ArithmeticError
            If a descent that was allowed to diverge has left the doubles.
        """
        counts = _whole_numbers(type(self).__name__, k)
        problem = pose(self, counts, z0)
        flow, xp = problem.flow, problem.xp
        values = flow.modes(xp).values
        h, b = _settings(problem, flow.modes(xp), step, momentum, allow_divergence)
        trail = problem.t.shape + (1,) * (len(problem.batch) + 1)
        k, parity = (xp.reshape(arithmetic.cast(xp, v), trail) for v in (counts, 1 - 2 * (counts % 2)))
        m = h * flow.eta[..., None] * values + xp.zeros_like(k)
        with np.errstate(over="ignore", invalid="ignore"):  # divergence beyond doubles is reported below
            left = descent_power(xp, k, parity, m) if momentum == 0 else heavy_ball(xp, k, parity, m, b)
            found = flow.after(xp, left, problem.z0)
        _refuse_overflow(problem, found, k)
        found = xp.where(k == 0, problem.z0[0], found)
        return Trajectory(flow, problem.t * h, self.State(found), "gradient descent, closed form", problem.z0)


def _whole_numbers(who: str, k: Any) -> np.ndarray:
    """Return numbers of steps as an array of integers."""
    counts = np.asarray(k)
    if counts.dtype.kind not in "iu" or (counts < 0).any() or counts.size == 0:
        raise ValueError(
            f"{who}.discrete: k = {shown(k)} must be whole numbers, not negative (numbers of steps); say 100"
        )
    if (counts > 2**53).any():
        raise ValueError(
            f"{who}.discrete: k = {counts.max()} must be at most 2^53 (numbers of steps); t = inf is the flow's"
        )
    return counts


def _momentum(who: str, value: float) -> float:
    """Return a momentum, checked."""
    number = real_array(who, "momentum", value, meaning="momentum of the heavy ball", domain=Interval("[0, 1)"))
    if number.ndim:
        raise ValueError(
            f"{who}: momentum has shape {number.shape} but must be one number (of the heavy ball); say 0.9"
        )
    return float(number)


def _inverse(xp: Any, top: Any, rate: Any) -> Any:
    """Return ``top / rate``, inf for rate 0."""
    moves = rate > 0
    return xp.where(moves, top / xp.where(moves, rate, xp.ones_like(rate)), xp.full_like(rate, xp.inf))


def _settings(problem: Any, modes: Any, step: Any, b: float, allow_divergence: bool) -> tuple[Any, Any]:
    """Return step and momentum as numbers of the question's arithmetic, inside the stability bound unless allowed."""
    who, xp = f"{type(problem.flow).__name__}.discrete", problem.xp
    b = _momentum(who, b)
    step = real_array(who, "step", step, meaning="length of a step, in units of time", domain=Interval("(0, inf)"))
    if step.ndim:
        raise ValueError(f"{who}: step has shape {step.shape} but must be one number (units of time); say best_step()")
    fastest = np.max(arithmetic.to_numpy(problem.flow.eta) * np.max(arithmetic.to_numpy(modes.values), axis=-1))
    bound = 2 * (1 + b) / fastest if fastest > 0 else np.inf
    if not allow_divergence and not float(step) < bound:
        raise ValueError(
            f"{who}: step = {float(step):.6g} must be below {bound:.6g} (2 (1 + momentum) / (eta lam_max), from which "
            "gradient descent does not converge); take best_step(), or allow_divergence=True to watch it"
        )
    return arithmetic.cast(xp, step), arithmetic.cast(xp, b)


def _refuse_overflow(problem: Any, f: Any, k: Any) -> None:
    """Raise where a diverging descent has left the doubles."""
    if not arithmetic.is_object(problem.xp) and not np.isfinite(arithmetic.to_numpy(f)).all():
        raise ArithmeticError(
            f"{type(problem.flow).__name__}.discrete: outputs after k = {float(problem.xp.max(k)):.0f} steps are "
            "beyond doubles (gradient descent diverges); ask for fewer steps, or a smaller one"
        )


def linear_model(xp: Any, kernel: Any, n: int, eta: Any) -> Definition:
    """Return the model ``offset + J theta`` ``J J^T`` the kernel, of target 0, whose state is its output."""
    values, vectors = xp.linalg.eigh(kernel)
    jacobian = vectors * xp.sqrt(xp.where(values > 0, values, 0 * values))[..., None, :]

    def output(w: Any) -> Any:
        return w["offset"] + (jacobian @ w["theta"][..., :, None])[..., 0]

    rates = {"theta": eta, "offset": 0 * eta}
    return Definition({"theta": (n,), "offset": (n,)}, rates, output, 0 * values, output)
