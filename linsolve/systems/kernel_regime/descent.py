r"""Gradient descent and Polyak's heavy ball under a frozen kernel, in closed form for any number of steps.

On one mode of the residual, of eigenvalue :math:`\lambda`, with step h and momentum b,

.. math:: z_{k+1} = z_k - m z_k + b (z_k - z_{k-1}), \quad z_0 = z_{-1} = 1, \qquad m = h \lambda .

With ``r = (s +- d)/2`` the roots of ``r^2 - s r + b``, ``s = 1 + b - m`` and
``d^2 = ((1 - sqrt b)^2 - m) ((1 + sqrt b)^2 - m)``,

.. math:: z_k = \frac{r_+^k + r_-^k}{2} + \frac{1 - b - m}{2} \, \frac{r_+^k - r_-^k}{r_+ - r_-} .

A factor ``(-1)^k`` makes a negative s positive. Then both terms have the same sign if the roots are real, and the
quotient is ``k r^(k-1)`` if they coincide.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import Interval, boolean, real_array, step_counts
from linsolve.core.definition import Definition
from linsolve.core.named_arguments import named_arguments
from linsolve.core.query import pose
from linsolve.core.trajectory import Trajectory
from linsolve.numerics.scalar import phi
from linsolve.numerics.spectrum import reach_backward

__all__ = ["KernelDescent", "descent_power", "heavy_ball", "linear_model"]


class KernelDescent:
    """Exact gradient descent of a flow whose kernel is constant, with a state of one field.

    A subclass defines `modes`, whose ``values`` are the kernel's eigenvalues; `after`, which multiplies the modes of a
    start; and `_eigenvalues`, the eigenvalues that have an eigenvector.
    """

    parameters: Any
    State: Any
    eta: Any

    def modes(self, xp: Any) -> Any:
        """Return the kernel's eigenvalues and the map from states to modes."""
        raise NotImplementedError

    def after(self, xp: Any, left: Any, z0: Any) -> Any:
        """Return the state's field once the residual's modes are multiplied by `left`."""
        raise NotImplementedError

    def lifetime(self, xp: Any, z0: Any) -> tuple[Any, Any]:
        """Return the negative time at which the residual overflows, and inf."""
        start = reach_backward(xp, self.eta[..., None] * self.modes(xp).values)
        return start, xp.full_like(start, xp.inf)

    def _eigenvalues(self, xp: Any) -> Any:
        return self.modes(xp).values

    def _learning(self) -> tuple[Any, Any, Any]:
        """Return the namespace of the parameters, the learning rate and the eigenvalues."""
        parameters = self.parameters()
        xp = arithmetic.namespace(*(v for v in parameters.values() if arithmetic.namespace(v) is not np))
        return xp, arithmetic.cast(xp, parameters["eta"]), self._eigenvalues(xp)

    def largest_step(self, momentum: float = 0.0) -> Any:
        """Return ``2 (1 + momentum) / (eta lam_max)``, below which gradient descent converges, shape batch.

        It is inf for a zero kernel, and if it overflows.
        """
        xp, eta, values = self._learning()
        return _over_rate(xp, 2 + 2 * _momentum(type(self).__name__, momentum), eta, xp.max(values, axis=-1))

    def best_step(self) -> Any:
        """Return ``2 / (eta (lam_max + lam_min))``, ``lam_min`` the smallest positive eigenvalue, shape batch.

        It is inf for a zero kernel, and if it overflows.
        """
        xp, eta, values = self._learning()
        high = xp.max(values, axis=-1)
        low = xp.min(xp.where(values > 0, values, high[..., None]), axis=-1)
        return _over_rate(xp, 1, eta, low / 2 + high / 2)

    @named_arguments()
    def discrete(
        self, k: Any, z0: Any, *, step: Any, momentum: float = 0.0, allow_divergence: bool = False
    ) -> Trajectory:
        """Return the exact result of `k` steps of gradient descent with a finite step, without a loop over steps.

        ``z_(k+1) = z_k - step eta K r_k + momentum (z_k - z_(k-1))`` with the residual r, started at rest.

        Parameters
        ----------
        k : array_like of int, any shape
            Numbers of steps.
        z0 : array_like, shape batch + own
            Start.
        step : float
            Length of one step in units of time, below `largest_step`. Without momentum `best_step` converges fastest.
        momentum : float
            Momentum of the heavy ball, in [0, 1).
        allow_divergence : bool
            Whether to accept steps beyond the stability bound.

        Returns
        -------
        Trajectory
            At times ``k step``; its state agrees with ``descend`` to rounding.

        Raises
        ------
        ValueError
            If an entry of `k` is not a whole number, or if the step is beyond the stability bound and
            `allow_divergence` is false.
        OverflowError
            If the outputs are beyond the range of doubles, for example in a divergent descent.
        """
        who = f"{type(self).__name__}.discrete"
        counts = step_counts(who, k)
        problem = pose(self, counts, z0)
        flow, xp = problem.flow, problem.xp
        values = flow.modes(xp).values
        h, b = self._stable(who, xp, step, momentum, allow_divergence)
        trail = problem.t.shape + (1,) * (len(problem.batch) + 1)
        k, parity = (xp.reshape(arithmetic.cast(xp, v), trail) for v in (counts, 1 - 2 * (counts % 2)))
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is reported below
            m = h * flow.eta[..., None] * values + xp.zeros_like(k)
            left = descent_power(xp, k, parity, m) if momentum == 0 else heavy_ball(xp, k, parity, m, b)
            found = xp.where(k == 0, problem.z0[0], flow.after(xp, left, problem.z0))
        if not arithmetic.is_object(xp) and not np.isfinite(arithmetic.to_numpy(found)).all():
            raise OverflowError(
                f"{who}: outputs after k = {counts.max()} steps are beyond doubles (gradient descent diverges); ask "
                "for fewer steps, or a smaller one"
            )
        return Trajectory(flow, problem.t * h, self.State(found), "gradient descent, closed form", problem.z0)

    def _stable(self, who: str, xp: Any, step: Any, momentum: Any, allow_divergence: bool) -> tuple[Any, Any]:
        """Return step and momentum as numbers of `xp`, inside the stability bound unless divergence is allowed."""
        meaning = "whether to accept steps beyond the stability bound"
        allow_divergence = boolean(who, "allow_divergence", allow_divergence, meaning=meaning)
        b = _momentum(who, momentum)
        step = _one_number(who, "step", step, "length of a step, in units of time", "(0, inf)", "best_step()")
        bound = float(np.min(arithmetic.to_numpy(self.largest_step(b))))
        if not allow_divergence and not float(step) < bound:
            raise ValueError(
                f"{who}: step = {float(step):.6g} must be below {bound:.6g} (2 (1 + momentum) / (eta lam_max); "
                "from this step on gradient descent does not converge); use best_step(), or pass allow_divergence=True"
            )
        return arithmetic.cast(xp, step), arithmetic.cast(xp, b)


def _one_number(who: str, name: str, value: Any, meaning: str, domain: str, example: str) -> Any:
    """Return one real number inside a domain, as a zero-dimensional array."""
    number = real_array(who, name, value, meaning=meaning, domain=Interval(domain))
    if number.ndim:
        raise ValueError(
            f"{who}: {name} has shape {tuple(number.shape)} but must be one number ({meaning}); say {example}"
        )
    return number


def _momentum(who: str, value: Any) -> float:
    return float(_one_number(who, "momentum", value, "momentum of the heavy ball", "[0, 1)", "0.9"))


def _over_rate(xp: Any, top: Any, eta: Any, values: Any) -> Any:
    """Return ``top / (eta values)``, inf for the value 0 and on overflow."""
    moves = values > 0
    values = xp.where(moves, values, xp.ones_like(values))
    with np.errstate(over="ignore", divide="ignore"):
        rate = eta * values
        usual = (rate > 2.0**-900) & (rate < 2.0**900)
        found = xp.where(usual, top / xp.where(usual, rate, xp.ones_like(rate)), top / eta / values)
    return xp.where(moves, found, xp.full_like(found, xp.inf))


def descent_power(xp: Any, k: Any, parity: Any, m: Any) -> Any:
    """Return ``(1 - m)^k``, the factor of a mode after k steps of gradient descent, also accurate for small m.

    Parameters
    ----------
    xp : namespace
    k, parity : array
        Number of steps and ``(-1)^k``.
    m : array
        Step times eigenvalue.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.kernel_regime.descent import descent_power
    >>> k = np.array([0.0, 1.0, 2.0, 3.0])
    >>> descent_power(np, k, (-1) ** k, np.array(1.5)).round(6).tolist()  # (1 - 3/2)^k: it overshoots
    [1.0, -0.5, 0.25, -0.125]
    """
    gone = m == 1
    beyond = m > 1
    safe = xp.where(gone, xp.zeros_like(m), m)
    size = xp.exp(k * xp.log1p(xp.where(beyond, safe - 2, -safe)))
    left = xp.where(beyond, parity, xp.ones_like(parity)) * size
    return xp.where(gone, xp.where(k == 0, xp.ones_like(left), xp.zeros_like(left)), left)


def heavy_ball(xp: Any, k: Any, parity: Any, m: Any, b: Any) -> Any:
    """Return the factor of a mode after k steps of gradient descent with momentum, started at rest.

    Parameters
    ----------
    xp : namespace
    k, parity : array
        Number of steps and ``(-1)^k``.
    m : array
        Step times eigenvalue.
    b : array
        Momentum, ``0 < b < 1``.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.kernel_regime.descent import heavy_ball
    >>> k = np.array([0.0, 1.0, 2.0])
    >>> heavy_ball(np, k, (-1) ** k, np.array(0.25), np.array(0.5)).round(6).tolist()  # 3/4 - 3/16 - 1/8 = 7/16
    [1.0, 0.75, 0.4375]
    """
    beta, s = xp.sqrt(b), 1 + b - m
    u, w = (1 - beta) ** 2 - m, (1 + beta) ** 2 - m
    back, real, half = s < 0, (u >= 0) | (w <= 0), (1 - b - m) / 2
    d, near = xp.sqrt(xp.abs(u * w)), xp.where(back, -w, u)
    slide = _real_roots(xp, k, (m, xp.where(real, near, xp.zeros_like(m)), d, half), real, back, b)
    swing = _complex_roots(xp, k, (xp.abs(near), xp.where(back, -u, w), d, half), real, back, beta)
    left = xp.where(back, parity, xp.ones_like(parity)) * xp.where(real, slide, swing)
    return xp.where(m == 0, xp.ones_like(left), left)


def _real_roots(xp: Any, k: Any, parts: tuple[Any, Any, Any, Any], real: Any, back: Any, b: Any) -> Any:
    """Return the mode for two real roots of one sign; for positive roots ``(1 - r)(1 - b/r) = m`` gives log r."""
    m, near, d, half = parts
    beta = xp.sqrt(b)
    d = xp.where(real, d, xp.zeros_like(d))
    r, apart = beta + (near + d) / 2, 2 * xp.log1p((near + d) / (2 * beta))
    slow = real & ~back & (r > 1 / 2)
    ratio = xp.where(slow, -m / (1 - b / r), xp.zeros_like(r))
    growth = xp.exp(k * xp.where(slow, xp.log1p(ratio), xp.log(r)))
    quotient = k * phi(xp, k * apart) / (phi(xp, apart) * r)
    return growth * ((1 + xp.exp(-k * apart)) / 2 + xp.abs(half) * quotient)


def _complex_roots(xp: Any, k: Any, parts: tuple[Any, Any, Any, Any], real: Any, back: Any, beta: Any) -> Any:
    """Return the mode for roots ``sqrt(b) exp(+- i angle)``, with the angle from the sine and cosine of its half."""
    near, far, d, half = parts
    one = xp.ones_like(d)
    turn = k * 2 * xp.atan2(xp.sqrt(near), xp.sqrt(xp.where(real, one, far)))
    pull = xp.where(back, -half, half) / xp.where(real, one, d / 2)
    return xp.exp(k * xp.log(beta)) * (xp.cos(turn) + pull * xp.sin(turn))


def linear_model(xp: Any, kernel: Any, n: int, eta: Any) -> Definition:
    """Return the model ``offset + J theta`` with ``J J^T`` the kernel and target 0; its state is its output."""
    values, vectors = xp.linalg.eigh(kernel)
    jacobian = vectors * xp.sqrt(xp.where(values > 0, values, 0 * values))[..., None, :]

    def output(w: Any) -> Any:
        return w["offset"] + (jacobian @ w["theta"][..., :, None])[..., 0]

    rates = {"theta": eta, "offset": 0 * eta}
    return Definition({"theta": (n,), "offset": (n,)}, rates, output, 0 * values, output)
