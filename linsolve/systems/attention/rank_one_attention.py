"""Linear attention with separate keys and queries of rank one, eigenvector by eigenvector (Zhang et al. 2025)."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import extreme, number
from linsolve.core.definition import Definition
from linsolve.core.flow import Flow
from linsolve.core.parameters import parameter
from linsolve.core.query import pose
from linsolve.systems.attention.in_context import InContext
from linsolve.systems.attention.tokens import curvature, least_error, network_outputs, refuse_lost_rates
from linsolve.systems.mode.deep_mode import DeepMode

__all__ = ["RankOneAttention", "Stages"]


class Stages(NamedTuple):
    """Stages of learning, in order of time.

    Parameters
    ----------
    order : array of int, shape batch + (d,)
        Eigenvectors of the token covariance in the order in which they are learned.
    times : array, shape batch + (d,)
        Their learning times; inf for those that are never learned.
    losses : array, shape batch + (d + 1,)
        Plateaus of the loss before the first and after each of them.
    """

    order: Any
    times: Any
    losses: Any


class RankOneAttention(InContext, Flow):
    r"""Linear attention with separate rank-one keys and queries that learns linear regression in context, in stages.

    The task is that of `LinearAttention`. Head d has a value weight :math:`v_d`, a key :math:`k_d` and a query
    :math:`q_d`, and the map of the prediction :math:`\hat y = \beta^\top M x_q` is
    :math:`M = \sum_d v_d k_d q_d^\top`. If key and query of each head lie along one eigenvector :math:`e_d` of the
    token covariance (eigenvalue :math:`\lambda_d`), they do so at all times, and M is diagonal with strengths
    :math:`m_d = v_d (k_d \cdot e_d)(q_d \cdot e_d)`:

    .. math:: L = \frac12 \sum_d \lambda_d \left(1 - \frac{\lambda_d}{c_d}\right)
        + \frac12 \sum_d \lambda_d^2 c_d \left(\frac{1}{c_d} - m_d\right)^2, \qquad
        c_d = \lambda_d + \frac{\lambda_d + \mathrm{tr}\,\Lambda}{N} .

    With balanced heads, :math:`|v_d| = |k_d| = |q_d|`, gradient flow is

    .. math:: \tau \dot m_d = 3 \lambda_d^2 c_d\, |m_d|^{4/3} \left(\frac{1}{c_d} - m_d\right),

    the flow of `DeepMode` with depth 3, target :math:`1/c_d` and time constant :math:`\tau/(\lambda_d^2 c_d)` for each
    eigenvector. A small strength grows in the time :math:`\tau m_d(0)^{-1/3}/\lambda_d^2`, to leading order:
    eigenvectors of large variance are learned first, and the loss falls from plateau to plateau (`stages`).

    Parameters
    ----------
    context : array_like, shape batch
        Number of tokens in the training contexts, N; ``inf`` is allowed.
    variance : array_like, shape batch + (d,)
        Variances of the tokens along the eigenvectors of their covariance; repeated values are allowed.
    tau : array_like, shape batch
        Time constant (units of time), positive.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, or shapes do not fit. At a call, also for an invalid
        state or time.
    OverflowError
        If products of parameters or, at a call, results leave the range of doubles.

    Notes
    -----
    Exact for: one balanced head along each eigenvector, any token covariance, every start. Not for: unbalanced heads;
    several heads along one eigenvector; heads that start along other directions. From a small random start, heads align
    with eigenvectors before they grow: the plateaus are the same, the learning times differ. No closed form is known
    for these starts.

    Source: Zhang, Singh, Latham and Saxe, "Training dynamics of in-context learning in linear attention" (2025),
    the model with separate rank-one key and query, which it reduces to scalar equations, with the heights of the
    plateaus. The strengths in time and the learning times follow here from `DeepMode`.

    Accuracy: that of `DeepMode`; 1e-10 against simulated values, keys and queries in 100 random draws
    (``tests/systems/attention/test_rank_one_attention.py``).

    Examples
    --------
    >>> from linsolve import RankOneAttention
    >>> flow = RankOneAttention(context=31, variance=[0.5, 2.0, 1.0])
    >>> flow([0.0, 10.0, float("inf")], [1e-3, 1e-3, 1e-3])["strengths"].round(4).tolist()
    [[0.001, 0.001, 0.001], [0.0024, 0.4593, 0.7942], [1.5897, 0.4593, 0.8732]]
    >>> flow.stages([1e-3, 1e-3, 1e-3]).order.tolist()
    [1, 2, 0]
    """

    context: Any = parameter("N", "number of tokens in a context", domain="[1, inf]", typical=(4, 64))
    variance: Any = parameter(r"\lambda", "variances of the tokens", domain="(0, inf)", axes=("d",))
    tau: Any = parameter(r"\tau", "time constant", domain="(0, inf)", default=1.0)

    class State(NamedTuple):
        """Strengths of the map along the eigenvectors, ``m``, shape batch + (d,)."""

        strengths: Any

    axes: ClassVar = {"strengths": ("d",)}

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_lost_rates(type(self).__name__, self.variance, self.tau, np.asarray(self.variance.shape[-1]))

    def _modes(self, xp: Any) -> DeepMode:
        """Return the flow of each eigenvector."""
        c = curvature(xp, self.context, self.variance)
        tau = self.tau[..., None] / self.variance / self.variance / c
        return DeepMode(1.0, 3.0)._with(s=1 / c, depth=3 + 0 * c, tau=tau)

    def _loss_of(self, xp: Any, gap: Any) -> Any:
        """Return the loss from the distances ``1/c - m``."""
        weights = self.variance**2 * curvature(xp, self.context, self.variance)
        return self.least_loss(xp) + xp.sum(weights * gap**2, axis=-1) / 2

    def loss(self, xp: Any, z: Any) -> Any:
        """Return half the mean squared error."""
        return self._loss_of(xp, self._modes(xp).s - z.strengths)

    def descent(self, xp: Any, z: Any, gradient: Any) -> Any:
        """Return minus the metric ``3 |m|^(4/3) / tau`` of the heads, times the gradient."""
        modes = self._modes(xp)._with(tau=self.tau[..., None])
        return self.State(modes.descent(xp, DeepMode.State(z.strengths), DeepMode.State(gradient.strengths)).a)

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return the velocity of each strength, by `DeepMode`."""
        return self.State(self._modes(xp).velocity(xp, DeepMode.State(z.strengths)).a)

    def begun(self, xp: Any, z0: Any) -> tuple[DeepMode, Any, Any]:
        """Return the flow of each eigenvector, its start, and its quantities that do not depend on time."""
        modes, start = self._modes(xp), DeepMode.State(z0.strengths)
        return modes, start, modes.begun(xp, start)

    def shared(self, xp: Any, t: Any, z0: Any, begun: Any = None) -> tuple[Any, Any]:
        """Return the strengths at times `t` and their distances ``1/c - m``, by `DeepMode`."""
        modes, start, growth = begun or self.begun(xp, z0)
        return modes.shared(xp, t[..., None], start, growth)

    def solution(self, xp: Any, t: Any, z0: Any, shared: Any = None) -> Any:
        """Return the strengths; at ``t = 0`` bitwise equal to `z0`."""
        return self.State((shared or self.shared(xp, t, z0))[0])

    def along(self, xp: Any, t: Any, z0: Any, shared: Any = None) -> dict[str, Any]:
        """Return the loss from the closed form of ``1/c - m``, which does not cancel."""
        return {"loss": self._loss_of(xp, (shared or self.shared(xp, t, z0))[1])}

    def limit(self, xp: Any, z0: Any) -> Any:
        """Return ``1/c`` where the strength starts positive, else 0."""
        return self.State(self._modes(xp).limit(xp, DeepMode.State(z0.strengths)).a)

    def step(self, xp: Any, z: Any, h: Any) -> Any:
        """Return the strengths after one step of gradient descent on values, keys and queries."""
        return self.State(self._modes(xp).step(xp, DeepMode.State(z.strengths), h[..., None]).a)

    def least_loss(self, xp: Any) -> Any:
        """Return the smallest loss, that of the strengths ``1/c``."""
        return least_error(xp, self.context, self.variance) / 2

    def _map(self, xp: Any, z: Any) -> tuple[Any, Any]:
        return self.variance, _diagonal(xp, z.strengths)

    def stages(self, z0: Any, share: float = 0.5) -> Stages:
        """Return the learned order of the eigenvectors, their learning times, and the plateaus of the loss.

        Parameters
        ----------
        z0 : State, tuple, mapping, or array
            Initial strengths, shape batch + (d,).
        share : float
            An eigenvector is learned at the first time at which its strength is within ``(1 - share)/c`` of its final
            value ``1/c``; default 0.5.

        Returns
        -------
        Stages
            The plateaus are those of strengths 0 and ``1/c``: the limit of a small start.

        Raises
        ------
        ValueError
            If the state is invalid, or the share is not between 0 and 1.
        OverflowError
            If a time leaves the range of doubles.

        Examples
        --------
        >>> from linsolve import RankOneAttention
        >>> found = RankOneAttention(context=31, variance=[2.0, 1.0]).stages([1e-3, 1e-3])
        >>> found.times.round(3).tolist(), found.losses.round(4).tolist()
        ([2.222, 9.109], [1.5, 0.5746, 0.1318])
        """
        share = number("stages", "share", share, meaning="part of the final strength", domain="(0, 1)", example=0.5)
        posed = pose(self, 0.0, z0)
        flow, xp = posed.flow, posed.xp
        modes = flow._modes(xp)
        with np.errstate(all="ignore"):  # infinite times are valid results
            times = modes.time_to(xp, DeepMode.State(posed.z0.strengths), loss=((1 - share) * modes.s) ** 2 / 2)
        values = (times, flow.variance**2 * modes.s / 2, flow.least_loss(xp)[..., None])
        times, gains, least = (arithmetic.to_numpy(v) for v in values)
        if np.isnan(times).any():
            size = extreme(arithmetic.to_numpy(posed.z0.strengths))
            raise OverflowError(
                f"{type(self).__name__}.stages: strengths = {size:.3g} makes a time leave the range of doubles "
                "(state); rescale, or give it in linsolve.arithmetic.precise(50)"
            )
        times, gains = np.broadcast_arrays(times, gains)
        order = np.argsort(times, axis=-1, kind="stable")
        times, gains = (np.take_along_axis(v, order, axis=-1) for v in (times, gains))
        never = np.isinf(times)
        left = np.cumsum(np.where(never, 0.0, gains)[..., ::-1], axis=-1)[..., ::-1]
        left = np.concatenate([left, np.zeros_like(left[..., :1])], axis=-1)
        return Stages(order, times, least + np.sum(gains, axis=-1, keepdims=True, where=never) + left)

    def definition(self, xp: Any) -> Definition:
        """Return balanced heads on averages over tasks, tokens and queries; the three weights of a head are equal."""
        inputs, targets = network_outputs(xp, self.context, self.variance)
        query = xp.sqrt(self.variance)[..., None, None, :]

        return Definition(
            weights={"head": (self.variance.shape[-1],)},
            rates={"head": 1 / (3 * self.tau)},
            output=lambda w: inputs @ _diagonal(xp, w["head"] ** 3)[..., None, :, :] * query,
            target=targets,
            state=lambda w: self.State(w["head"] ** 3),
        )

    @classmethod
    def example(cls, rng: np.random.Generator) -> tuple[Flow, Any]:
        """Return two eigenvectors; one starts above its final strength, or with the other sign."""
        flow = cls(context=rng.integers(3, 20), variance=rng.uniform([0.4, 1.0], [0.8, 1.6]), tau=rng.uniform(0.5, 2.0))
        return flow, cls.State(rng.uniform(0.05, 0.2, 2) * [1.0, rng.choice([-1.0, 15.0])])


def _diagonal(xp: Any, values: Any) -> Any:
    return values[..., :, None] * xp.eye(values.shape[-1])
