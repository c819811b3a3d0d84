"""Pathways of a gated deep linear network that race for one target (Saxe, Sodhani and Lewallen 2022)."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import Interval, real_array
from linsolve.core.definition import Definition
from linsolve.core.flow import Flow, observable
from linsolve.core.parameters import batch_shape, parameter
from linsolve.numerics.cache import once_a_call
from linsolve.numerics.scalar import root_of_twice
from linsolve.systems.gated.race_clock import FARTHEST, NONE, RaceClock
from linsolve.systems.whitened.whitened_two_layer import WhitenedTwoLayer

__all__ = ["NeuralRace"]


class NeuralRace(Flow):
    r"""Race of the pathways of a gated deep linear network: shared pathways learn faster.

    Contexts :math:`k = 1, \dots, K` are equally frequent. Gates let the pathways of a context act, and each context
    trains the pathways that it uses. Pathway p has a first layer that serves :math:`m_p` contexts, and one head for
    each of them. On a mode of singular value s, with heads of equal size and
    :math:`|h_p|^2 = \sum_k w_{pk}^2` (balanced), its strength :math:`a_p = w_{pk} h_p` in each context obeys

    .. math:: L = \frac12 \Bigl(s - \sum_p a_p\Bigr)^2, \qquad
        \tau \dot a_p = \frac{2 \sqrt{m_p}}{K} |a_p| \Bigl(s - \sum_q a_q\Bigr) .

    The first layer averages the gradients of all contexts that it serves, each head has those of one context alone. A
    pathway that all contexts share grows at the rate :math:`2 s/(\sqrt K \tau)`, a private one at
    :math:`2 s/(K \tau)`. With the integral of the error as the clock, :math:`\dot\theta = s - \sum_p a_p`, all
    strengths are exponentials, so that :math:`|a_p/a_p(0)|^{1/\sqrt{m_p}}` is the same for all pathways at all times.
    The time is a quadrature in :math:`\theta`, inverted to full precision.

    Parameters
    ----------
    s : array_like, shape batch
        Singular value of the mode, positive, the same in all contexts.
    contexts : array_like, shape batch
        Number of contexts, K.
    served : array_like, shape batch + (pathway,)
        Number of contexts that each pathway serves, m; it divides K, and each context has one pathway of each kind.
    tau : array_like, shape batch
        Time constant (units of time), positive.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, `served` does not divide `contexts`, or shapes do not
        fit. At a call, also for an invalid state or time.
    NotExact
        At a call, if a pathway starts against the target, or the fastest one falls beyond ``exp(40)``.
    OverflowError
        At a call, or at the access of an observable, if results leave the range of doubles.

    Notes
    -----
    Exact for: any number of pathways, any strengths that are not negative, starts above the target, ``t = inf``. The
    maps of the contexts have the same singular values and right singular vectors; the left ones are free. Not for:
    pathways that start against the target; starts so far above the target that the fastest pathway falls by
    ``exp(40)``; unbalanced pathways, heads of unequal sizes, contexts of unequal frequencies. A single pathway in
    matrices, from more general starts: `pathway`.

    The final strengths are the solution of :math:`\sum_p a_p(0)\, x^{\sqrt{m_p}} = s`. A private pathway ends level
    with one shared by all contexts, each at s/2, if it starts at :math:`(s/2) (2 a/s)^{1/\sqrt K}`, ``a`` the start of
    the shared one. From equal starts a the private strength is at most :math:`a (s/a)^{1/\sqrt K}`, so that the shared
    pathway wins in the limit of small starts for ``K > 1``. To leading order, half of the target is learned at
    :math:`t = K \tau \log(s/a)/(2 s \sqrt m)`.

    Source: Saxe, Sodhani, Lewallen, "The neural race reduction: dynamics of abstraction in gated networks" (2022), the
    reduction to pathways. The final strengths and the quadrature follow here.

    Accuracy: 1e-12 against simulated first layers and heads, 100 random draws; strengths 3e-13 and loss 1e-12 relative
    against 40 digits, also from starts of 1e-200 (``tests/systems/gated/test_neural_race.py``).

    Examples
    --------
    >>> from linsolve import NeuralRace
    >>> race = NeuralRace(s=1.0, contexts=4, served=[4, 1])  # shared by all contexts; one for each context
    >>> race([0.0, 10.0, float("inf")], [1e-3, 1e-3])["strengths"].round(4).tolist()
    [[0.001, 0.001], [0.9247, 0.0304], [0.9689, 0.0311]]
    >>> race.speeds().tolist()
    [1.0, 0.5]
    """

    s: Any = parameter("s", "singular value of the mode", domain="(0, inf)", typical=(0.5, 3.0))
    contexts: Any = parameter("K", "number of contexts", domain="[1, 1e6]", typical=(2, 16), whole=True)
    served: Any = parameter(
        "m", "number of contexts that each pathway serves", domain="[1, 1e6]", axes=("pathway",), whole=True
    )
    tau: Any = parameter(r"\tau", "time constant", domain="(0, inf)", typical=(0.5, 2.0), default=1.0)

    class State(NamedTuple):
        """Strengths of the pathways in each context, ``a``, shape batch + (pathway,)."""

        strengths: Any

    axes: ClassVar = {"strengths": ("pathway",)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not arithmetic.readable(self.contexts, self.served):
            return
        contexts, served = (arithmetic.to_numpy(v).astype(float) for v in (self.contexts, self.served))
        batch_shape(type(self).__name__, {"contexts": contexts.shape, "served": served.shape[:-1]})
        of, m = np.broadcast_arrays(contexts[..., None], served)
        for k, bad in zip(of[of % m != 0][:1], m[of % m != 0][:1], strict=True):
            raise ValueError(
                f"{type(self).__name__}: served = {bad:g} must divide contexts = {k:g} (each context has one pathway "
                "of each kind); change one of them"
            )

    @staticmethod
    def pathway(targets: Any, tau: Any = 1.0) -> WhitenedTwoLayer:
        r"""Return the network of one pathway that all contexts share, with any weights of its layers.

        The maps :math:`S_k` of K equally frequent contexts, each read by its own head :math:`W_2^k` from one first
        layer, give the loss :math:`\sum_k |S_k - W_2^k W_1|^2/(2 K)` on white inputs: that of the two layers
        :math:`W_1` and :math:`(W_2^1; \dots; W_2^K)`, one below the other, with time constant :math:`K \tau`.

        Parameters
        ----------
        targets : array_like, shape batch + (context, n_out, n_in)
        tau : array_like, shape batch

        Returns
        -------
        WhitenedTwoLayer
            Its state is ``WhitenedTwoLayer.of(w1, w2)`` with all heads in w2, shape (context n_out, hidden).

        Raises
        ------
        ValueError
            If the targets have fewer than three axes.

        Examples
        --------
        >>> import numpy as np
        >>> flow = NeuralRace.pathway([[[2.0]], [[2.0]]])  # two contexts, one input, one output each
        >>> traj = flow([0.0, np.inf], flow.of([[0.1]], [[0.1], [0.1]]))
        >>> traj["product"][..., 0].round(3).tolist()
        [[0.01, 0.01], [2.0, 2.0]]
        """
        who = "NeuralRace.pathway"
        maps = real_array(who, "targets", targets, meaning="maps of the contexts")
        if maps.ndim < 3:
            raise ValueError(
                f"{who}: targets has shape {tuple(maps.shape)} but needs (context, n_out, n_in) (maps of the contexts);"
                " add an axis"
            )
        xp, (count, n_out, n_in) = arithmetic.namespace(maps), maps.shape[-3:]
        tau = real_array(who, "tau", tau, meaning="time constant", domain=Interval("(0, 1e300]"))
        return WhitenedTwoLayer(xp.reshape(maps, (*maps.shape[:-3], count * n_out, n_in)), tau=count * tau)

    # the race without units

    def _clock(self, xp: Any, z0: Any, last: bool = True) -> tuple[RaceClock, Any, Any]:
        """Return the clock of ``a/s``, the growth rate of the fastest pathway, and whether any pathway moves."""
        return once_a_call(self, z0, lambda: self._clock_of(xp, z0), last)

    def _clock_of(self, xp: Any, z0: Any) -> tuple[RaceClock, Any, Any]:
        root = xp.sqrt(self.served)
        top = xp.max(root, axis=-1)
        some = z0.strengths > 0
        logs = xp.log(xp.where(some, z0.strengths, xp.ones_like(z0.strengths))) - xp.log(self.s)[..., None]
        error = self._error(xp, z0) / self.s
        moving = (xp.max(xp.where(some, xp.ones_like(logs), 0 * logs), axis=-1) > 0) & (error != 0)
        # a race that moves stands for one at rest
        logs = xp.where(moving[..., None], xp.where(some, logs, xp.full_like(logs, NONE)), -xp.ones_like(logs))
        error = xp.where(moving, error, 1 - xp.sum(xp.exp(logs), axis=-1))
        return RaceClock.of(xp, logs, root / top[..., None], error), 2 * top * self.s / self.contexts / self.tau, moving

    def _error(self, xp: Any, z: Any) -> Any:
        return self.s - xp.sum(z.strengths, axis=-1)

    def _metric(self, xp: Any, z: Any) -> Any:
        return 2 * xp.sqrt(self.served) * xp.abs(z.strengths) / (self.contexts * self.tau)[..., None]

    # the problem

    def loss(self, xp: Any, z: Any) -> Any:
        """Return ``(s - sum a)^2 / 2``, the same in every context."""
        return self._error(xp, z) ** 2 / 2

    def descent(self, xp: Any, z: Any, gradient: Any) -> Any:
        """Return minus the metric ``2 sqrt(m) |a|/(K tau)`` of the layers of each pathway, times the gradient."""
        return self.State(-self._metric(xp, z) * gradient.strengths)

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return ``2 sqrt(m) |a| (s - sum a)/(K tau)``."""
        return self.State(self._metric(xp, z) * self._error(xp, z)[..., None])

    def begun(self, xp: Any, z0: Any) -> tuple[RaceClock, Any, Any]:
        """Return the clock of the race, its speed, and whether any pathway moves."""
        return self._clock(xp, z0)

    def shared(self, xp: Any, t: Any, z0: Any, begun: Any = None) -> tuple[Any, Any]:
        """Return the strengths and the error ``s - sum a`` at times `t`."""
        way, speed, moving = begun or self._clock(xp, z0)
        forever, still = t == xp.inf, (t == 0) | ~moving
        delta = way.left(xp, xp.where(forever, 0 * speed, t * speed) + 0 * way.span)
        delta = xp.where(forever, 0 * delta, delta)
        gone = way.span - delta
        near = (gone < xp.abs(delta))[..., None]
        early = z0.strengths * xp.exp(way.c * xp.where(near, gone[..., None], 0 * gone[..., None]))
        late = self.s[..., None] * xp.exp(way.logs - way.c * delta[..., None])
        strengths, error = xp.where(near, early, late), self.s * way.gap(xp, delta)
        rest = ~moving
        return (
            arithmetic.exact(xp, still[..., None], z0.strengths, strengths, rest[..., None]),
            arithmetic.exact(xp, still, self._error(xp, z0), error, rest),
        )

    def solution(self, xp: Any, t: Any, z0: Any, shared: Any = None) -> Any:
        """Return the strengths; at ``t = 0`` bitwise equal to `z0`."""
        return self.State((shared or self.shared(xp, t, z0))[0])

    def along(self, xp: Any, t: Any, z0: Any, shared: Any = None) -> dict[str, Any]:
        """Return the loss from the error, which does not cancel."""
        return {"loss": (shared or self.shared(xp, t, z0))[1] ** 2 / 2}

    def conditions(self, xp: Any, z0: Any) -> dict[str, Any]:
        """Return 1 where a pathway starts against the target, and the excess of a start too far above the target."""
        against = xp.max(xp.where(z0.strengths < 0, xp.ones_like(z0.strengths), 0 * z0.strengths), axis=-1) + 0 * self.s
        over = -self._clock(xp, z0, last=False)[0].span / FARTHEST - 1
        over = xp.where((over > 0) & (against == 0), over, 0 * over)
        return {"pathways that start against the target": against, "fall of the fastest pathway beyond exp(40)": over}

    def limit(self, xp: Any, z0: Any) -> Any:
        """Return the final strengths, of sum s unless all pathways start at 0."""
        way, _, moving = self._clock(xp, z0)
        end = self.s[..., None] * xp.exp(way.logs)
        return self.State(xp.where(moving[..., None], end, 0 * end + z0.strengths))

    def time_to(self, xp: Any, z0: Any, *, loss: Any) -> Any:
        """Return the time at which the loss has fallen to `loss`, inf where it never does."""
        way, speed, moving = self._clock(xp, z0)
        start, goal = self._error(xp, z0), root_of_twice(xp, loss)
        there = goal >= xp.abs(start)
        wanted = ~there & (goal > 0) & moving
        gap = xp.where(wanted, goal * xp.sign(start) / self.s, xp.where(way.span < 0, -0.5, 0.5) + 0 * start)
        time = way.reaching(xp, gap + 0 * way.span) / speed
        return xp.where(there, 0 * time, xp.where(wanted, time, xp.full_like(time, xp.inf)))

    def step(self, xp: Any, z: Any, h: Any) -> Any:
        """Return the strengths after one descent step of all layers, ``a (1 + h sqrt(m) (s - sum a)/(K tau))^2``."""
        change = xp.sqrt(self.served) * (h * self._error(xp, z) / self.contexts / self.tau)[..., None]
        return self.State(z.strengths * (1 + xp.sign(z.strengths) * change) ** 2)

    def speeds(self) -> Any:
        """Return the rates ``2 s sqrt(m)/(K tau)`` at which small strengths grow, shape batch + (pathway,)."""
        root = arithmetic.namespace(self.served).sqrt(self.served)
        return 2 * root * (self.s / self.contexts / self.tau)[..., None]

    # observables

    @observable()
    def output(self, xp: Any, z: Any) -> Any:
        """Return the learned strength of the mode, the sum of the pathways, shape batch."""
        return xp.sum(z.strengths, axis=-1)

    def definition(self, xp: Any) -> Definition:
        """Return pathways whose balanced layers share one weight, ``a = u |u|``."""
        pace = xp.sqrt(self.served) / (2 * self.contexts * self.tau)[..., None]
        count = self.served.shape[-1]
        return Definition(
            weights={f"u{k}": () for k in range(count)},
            rates={f"u{k}": pace[..., k] for k in range(count)},
            output=lambda w: xp.sum(_strengths(xp, w), axis=-1),
            target=self.s,
            state=lambda w: self.State(_strengths(xp, w)),
            observables=lambda w, kernel: {"output": xp.sum(_strengths(xp, w), axis=-1)},
        )

    @classmethod
    def counterexamples(cls, rng: np.random.Generator) -> dict[str, tuple[Flow, Any]]:
        """Return a private pathway that starts against the target, and one that starts far above it."""
        flow, start = cls(1.0, 10**4, [10**4, 1]), rng.uniform([0.1, 0.1], [0.2, 0.2])
        return {
            "pathways that start against the target": (flow, cls.State(start * [1.0, -1.0])),
            "fall of the fastest pathway beyond exp(40)": (flow, cls.State(start * [1.0, 30.0])),
        }

    @classmethod
    def example(cls, rng: np.random.Generator) -> tuple[Flow, Any]:
        """Return two races of a shared and a private pathway; the second starts above its target."""
        flow = cls(s=rng.uniform(0.6, 2.0, 2), contexts=[12, 9], served=[[12, 1], [3, 1]], tau=rng.uniform(0.2, 0.5))
        return flow, cls.State(rng.uniform(0.02, 0.1, (2, 2)) * [[1.0], [20.0]])


def _strengths(xp: Any, w: Any) -> Any:
    """Return the strengths of balanced pathways of weights ``u0, u1, ...``."""
    return xp.stack([w[name] * xp.abs(w[name]) for name in sorted(w)], axis=-1)
