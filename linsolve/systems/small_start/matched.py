"""Two-layer network from small initial weights on white inputs: phase I matched to the sigmoid of phase II."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from linsolve.core.network import follow
from linsolve.core.network_law import Estimate, GivenNetwork, NetworkLaw
from linsolve.core.parameters import parameter
from linsolve.numerics.checked import law_in_range
from linsolve.systems.small_start.small_network import SmallNetwork, named_losses
from linsolve.systems.small_start.start import SmallStart, check_growth, kernel, outer, split, unit

__all__ = ["KernelAlignment", "MatchedSolution", "RefinedMatchedSolution"]

OUTPUT, KERNEL, ALIGNED = 0.04, 0.08, 0.03  # relative errors over the imbalance in random networks, within a factor 5


class MatchedSolution(SmallStart):
    r"""Output and weights of a two-layer network with small initial weights, over the whole of training.

    For :math:`f = a^\top W x` on white inputs, ``target`` :math:`= s \beta`, :math:`w = W \beta`, :math:`q = (|a|^2 +
    |w|^2)/2`, :math:`r = a \cdot w`, learning rate 1 and :math:`p_0 = q_0 + r_0 = |a_0 + w_0|^2 / 2`,

    .. math:: r = s \frac{2 \sinh 2st}{e^{2st} - 1 + 2s/p_0}, \qquad q = s \frac{2 \cosh 2st}{e^{2st} - 1 + 2s/p_0},

    with error :math:`O(\sigma^2 \log(2s/p_0))`, uniformly in time.

    Parameters
    ----------
    last, first, target
        As in `EarlyAlignment`.
    phases : array_like, shape (time,)
        Increasing times relative to the transition, ``2 s t - log(2 s/p0)``, which is 0 at half of the target.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If the target is zero, if ``p0 = 0``, so that the network never learns it, or if products of entries overflow.

    Notes
    -----
    Approximates the two-layer network on white inputs; `exact` integrates its weights numerically. The reported errors
    are divided by :math:`\log(2s/p_0)`; the quotient has order 2. `RefinedMatchedSolution` accounts for the logarithm.

    Source: Atanasov, Bordelon, Pehlevan (2022), eqs. (27), (28). The logarithm is absent if the initial first layer has
    only components along the target. ``linsolve card MatchedSolution`` lists the published formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> first = [[1.0, 0.0], [0.0, 0.0]]
    >>> law = ls.laws.MatchedSolution(last=[1.0, 0.0], first=first, target=[1.0, 0.0], phases=[-3.0, 0.0, 3.0])
    >>> law.approximation(np, 1e-3)["r"].round(4).tolist()  # a sigmoid
    [0.0474, 0.5, 0.9526]
    >>> _, _, t = law.pace(np, 1e-3)
    >>> ls.BalancedMode(s=1.0)(t, 1e-6)["a"].round(4).tolist()
    [0.0474, 0.5, 0.9526]
    """

    phases: Any = parameter(r"2st - \log(2s/p_0)", "times relative to the transition", axes=("time",))

    approximates: ClassVar[str] = "the two-layer network on white inputs from a start of size sigma, at all times"
    orders: ClassVar[Mapping[str, float]] = {"q": 2, "r": 2}
    logarithmic: ClassVar[tuple[str, ...]] = ("q", "r")
    scaling: ClassVar[str] = "sigma^2 log(1/sigma)"  # of the errors of order 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_growth(self)

    def pace(self, xp: Any, small: Any) -> tuple[Any, Any, Any]:
        """Return ``s``, ``p0`` and the times."""
        s, _, w, _ = split(xp, self.first, self.target)
        p0 = small**2 * xp.sum((self.last + w) ** 2) / 2
        return s, p0, xp.maximum(self.phases + xp.log(2 * s / p0), 0 * self.phases) / (2 * s)

    def clock(self, xp: Any, small: Any) -> Any:
        """Return the exponent ``2 s t`` of the growth."""
        s, _, t = self.pace(xp, small)
        return 2 * s * t

    def head_start(self, xp: Any, small: Any) -> Any:
        """Return ``p0``, the initial value of the growing part."""
        return self.pace(xp, small)[1]

    @law_in_range
    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return ``q`` and ``r``, from decaying exponentials only."""
        s = self.pace(xp, small)[0]
        down = xp.exp(-self.clock(xp, small))
        den = 1 - down + 2 * s / self.head_start(xp, small) * down
        return {"q": s * (1 + down**2) / den, "r": s * (1 - down**2) / den}

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the same quantities from the integrated network."""
        first, last = follow(self.layers_at_start(small), self.target, self.pace(xp, small)[2])
        a, w = last[:, 0, :], split(xp, first, self.target)[2]
        return {"q": xp.sum(a * a + w * w, axis=-1) / 2, "r": xp.sum(a * w, axis=-1)}

    def errors(self) -> dict[str, np.ndarray]:
        """Return the relative errors; those of the quantities in `logarithmic` are divided by ``log(2 s / p0)``."""
        s = split(np, self.first, self.target)[0]
        logs = np.asarray([np.log(2 * s / self.head_start(np, scale)) for scale in self.scales])
        return {name: e / (logs if name in self.logarithmic else 1) for name, e in super().errors().items()}

    @classmethod
    def applied(cls, given: GivenNetwork) -> NetworkLaw:
        """Return the law of a network with two layers and one output on white inputs."""
        net = SmallNetwork.of(given, depth=2, outputs=1, white=True)
        net.growing(net.target[0])

        def predict(given: GivenNetwork) -> dict[str, Estimate]:
            law = cls.at(net, given.times)
            return law._estimates(net, given)

        return net.law(cls, predict)

    @classmethod
    def at(cls, net: SmallNetwork, times: np.ndarray) -> Self:
        """Return the law of one network, to be evaluated at ``sigma = 1``; `times` are times of the network."""
        (first, last), s = net.layers, net.strength
        p0 = float(np.sum(net.growing(net.target[0]) ** 2)) / 2
        return cls(last[0], first, net.target[0], net.phase(times, s, np.log(2 * s / p0)))

    def _lag(self) -> float:
        """Return the relative error of the output from its decaying part and from the orthogonal first layer."""
        refined = RefinedMatchedSolution(**self.parameters()).approximation(np, 1.0)["r"]
        gap, size = np.abs(self.approximation(np, 1.0)["r"] - refined).max(), np.abs(refined).max()
        s, _, w, _ = split(np, self.first, self.target)
        decaying = abs(np.sum(self.last * w)) * np.exp(-2 * s * np.min(self.pace(np, 1.0)[2]))
        return float((gap + decaying) / size) if size > 0 else 1.0

    def _across(self) -> float:
        """Return the largest output orthogonal to the target over the target, ``|W_perp^T g|/(2 sqrt(s) |g|)``."""
        s, _, w, rest = split(np, self.first, self.target)
        g = self.last + w
        return float(np.linalg.norm(g @ rest) / np.linalg.norm(g) / np.sqrt(s) / 2)

    def _estimates(self, net: SmallNetwork, given: GivenNetwork) -> dict[str, Estimate]:
        """Return the output along the target, and map and loss without the output orthogonal to it."""
        across = self._across()
        error = self._lag() + OUTPUT * net.imbalance + across**2
        r = self.approximation(np, 1.0)["r"].reshape(given.times.shape)
        beta = net.target / net.strength
        product = r[..., None, None] * beta
        found = {"output": Estimate(lambda: r, 2, error, self.scaling)}
        found["map"] = Estimate(lambda: net.whole_map(product), 1, across + error)
        span_map = net.whole_map(product) @ given.network.span
        for name, value in named_losses(given, lambda: given.loss(span_map)).items():
            found[name] = Estimate(value, 2, across**2 + error * float(np.abs(r).max()) / net.strength, self.scaling)
        return found

    @classmethod
    def example(cls, rng: np.random.Generator) -> MatchedSolution:
        """Return a network of 8 hidden units on 12 inputs."""
        beta = unit(rng, 12)
        last, first = rng.normal(size=8) / np.sqrt(8), rng.normal(size=(8, 12)) / np.sqrt(12)
        # p0 > q0: for initial weights almost opposite to the target, the logarithm dominates only far below 1e-4
        last = last * np.sign(last @ first @ beta)
        return cls(
            last=last,
            first=first,
            target=rng.uniform(0.8, 1.6) * beta,
            phases=np.linspace(-5.0, 12.0, 35),
        )


class RefinedMatchedSolution(MatchedSolution):
    r"""The matched solution with its logarithm: error :math:`O(\sigma^2)`, uniformly in time.

    The part of the first layer orthogonal to the target, :math:`W_\perp`, slows the growth. With :math:`\hat g = (a_0 +
    w_0)/|a_0 + w_0|`, :math:`\hat b = |W_{0\perp}^\top \hat g|^2`, :math:`K = 2s/p_0 - 1`, replace :math:`2st` in
    `MatchedSolution` by

    .. math:: \theta = 2st - \frac{\hat b (1 + K)}{2 s K} \Bigl[2st - \log \frac{e^{2st} + K}{1 + K}\Bigr].

    Parameters
    ----------
    last, first, target, phases
        As in `MatchedSolution`.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, shapes do not fit, or as for `MatchedSolution`.

    Notes
    -----
    Approximates the two-layer network on white inputs; `exact` integrates its weights numerically.

    Source: derived here by averaging :math:`\dot q = 2 r (s - r) - a^\top B a`,
    :math:`\dot r = 2 q (s - r) - a^\top B w`, :math:`B = W_\perp W_\perp^\top`, along the matched solution of
    Atanasov, Bordelon, Pehlevan (2022), eqs. (27), (28); the correction has no published source.

    Accuracy: for :math:`\sigma` from 1e-1 to 1e-4 (6 inputs, 4 hidden units) the error divided by :math:`\sigma^2` is
    0.1598; without the correction for the logarithm it is 0.32 to 1.20.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> start = {"last": [1.0, 0.0], "first": [[0.5, 2.0], [0.0, 0.0]], "target": [1.0, 0.0]}
    >>> both = ls.laws.MatchedSolution, ls.laws.RefinedMatchedSolution
    >>> laws = [law(**start, phases=[-2.0, 0.0, 2.0]) for law in both]
    >>> truth = laws[1].exact(np, 0.03)["r"]
    >>> [float(abs(law.approximation(np, 0.03)["r"] - truth).max().round(4)) for law in laws]
    [0.0035, 0.0005]
    """

    logarithmic = ()
    scaling = ""

    def clock(self, xp: Any, small: Any) -> Any:
        """Return the slowed exponent."""
        s, p0, t = self.pace(xp, small)
        _, _, w, rest = split(xp, self.first, self.target)
        g = self.last + w
        b = small**2 * xp.sum((g @ rest) ** 2) / xp.sum(g**2)
        r, down = 2 * s / p0, xp.exp(-2 * s * t)  # 1 + K
        equal = r == 1
        k = xp.where(equal, xp.ones_like(r), r - 1)
        # log((e^x + K)/(1 + K)) - x over -K, without overflow
        slowed = xp.where(equal, 1 - down, xp.log(r / (1 - down + r * down)) / k)
        return 2 * s * t - b * r / (2 * s) * slowed


class KernelAlignment(RefinedMatchedSolution):
    r"""Alignment of the tangent kernel with the target over the whole of training.

    On white inputs of rank ``n_in`` the cosine between kernel and target is

    .. math:: A = \frac{\beta^\top M \beta}{|M|_F}, \qquad
        M = |a|^2 I + |w|^2 \beta \beta^\top + W_\perp^\top W_\perp + W_\perp^\top w \beta^\top + \beta w^\top W_\perp,

    and with :math:`g = (a_0 + w_0)/\sqrt 2`, :math:`h = (a_0 - w_0)/\sqrt 2`, :math:`p_0 = |g|^2`, at learning rate 1
    and with the exponent :math:`\theta` of `RefinedMatchedSolution`,

    .. math:: a, w = \frac{g \sqrt E \pm h / \sqrt E}{\sqrt 2}, \qquad
        E = \frac{2s/p_0}{1 - e^{-\theta} + (2s/p_0) e^{-\theta}}, \qquad
        W_\perp = W_{0\perp} - (1 - \sqrt{E e^{-\theta}}) \, \hat g \hat g^\top W_{0\perp},

    with error :math:`O(\sigma^2)`, uniformly in time, for alignment, kernel and loss. If
    :math:`W_\perp = 0`, the kernel is :math:`|a|^2 I + |w|^2 \beta \beta^\top` exactly, and
    :math:`A = (\alpha + \gamma) / \sqrt{(\alpha + \gamma)^2 + (r - 1) \alpha^2}`, :math:`\alpha = |a|^2`,
    :math:`\gamma = |w|^2`, ``r = n_in``. It ends at `FinalKernel`'s alignment, :math:`2/\sqrt{r + 3}`.

    Parameters
    ----------
    last, first, target, phases
        As in `MatchedSolution`.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, shapes do not fit, or as for `MatchedSolution`.

    Notes
    -----
    Approximates the two-layer network on white inputs; `exact` integrates its weights numerically. Derived here from
    :math:`\dot W_\perp = -a a^\top W_\perp`, which removes the part of :math:`W_\perp` along the hidden direction
    :math:`\hat g = g/|g|`. Source: the alignment of Atanasov et al. (2022), section 2, and their eq. (8) for phase II.
    ``linsolve card KernelAlignment`` lists the published formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> first, last = np.array([[0.6, 0.8], [0.0, 0.0]]), np.array([1.0, 0.0])
    >>> law = ls.laws.KernelAlignment(last=last, first=first, target=[1.0, 0.0], phases=[-20.0, -5.0, 10.0])
    >>> found = law.approximation(np, 1e-3)
    >>> found["output"].round(3).tolist()
    [0.0, 0.007, 1.0]
    >>> found["alignment"].round(3).tolist()  # aligned before the output grows
    [0.608, 0.894, 0.894]
    >>> start = ls.WhitenedTwoLayer.of(1e-3 * first, 1e-3 * last[None])
    >>> ls.WhitenedTwoLayer(target=[[1.0, 0.0]])(law.pace(np, 1e-3)[2], start)["kernel_alignment"].round(3).tolist()
    [0.608, 0.894, 0.894]
    """

    orders: ClassVar[Mapping[str, float]] = {"alignment": 2, "kernel": 2, "output": 2}

    def layers(self, xp: Any, small: Any) -> tuple[Any, Any, Any]:
        """Return ``a``, ``w``, shape (time, width), and ``W - w beta^T``, shape (time, width, n_in), at the times."""
        s, p0, _ = self.pace(xp, small)
        down = xp.exp(-self.clock(xp, small))
        e = (2 * s / p0 / (1 - down + 2 * s / p0 * down))[:, None]
        _, _, w, rest = split(xp, self.first, self.target)
        g = self.last + w
        plus, minus = g * xp.sqrt(e), (self.last - w) / xp.sqrt(e)
        lost = (1 - xp.sqrt(down[:, None] * e))[..., None] * outer(g, g @ rest) / xp.sum(g**2)
        return small * (plus + minus) / 2, small * (plus - minus) / 2, small * (rest - lost)

    def _estimates(self, net: SmallNetwork, given: GivenNetwork) -> dict[str, Estimate]:
        """Return the observables of the layers, and the alignment of the kernel on the samples."""
        a, w, rest = self.layers(np, 1.0)
        beta = net.target[0] / net.strength
        shape, first = given.times.shape, rest + outer(w, beta)
        layers = [first.reshape(*shape, *first.shape[1:]), a.reshape(*shape, 1, a.shape[1])]
        across, log = self._across() ** 2, 1 + abs(np.log(net.small))
        error, larger = OUTPUT * net.imbalance + across, KERNEL * net.imbalance + across
        errors = {"ntk": larger, "w1": larger * log, "w2": larger * log}
        scalings = dict.fromkeys(("w1", "w2"), MatchedSolution.scaling)
        output = np.sum(a * w, axis=-1).reshape(shape)
        found = {"output": Estimate(lambda: output, 2, error)}
        found |= {
            name: Estimate(value, 2, errors.get(name, error), scalings.get(name, ""))
            for name, value in net.observables(given, layers).items()
        }
        m, square = kernel(np, a, w, rest, beta), np.sum(a * a, axis=-1)
        idle = len(given.network.power) - len(beta)  # directions of the inputs without start and target
        size = np.sqrt(np.sum(m * m, axis=(-2, -1)) + idle * square**2)
        aligned = ((m @ beta) @ beta / size).reshape(shape)
        return found | {"alignment": Estimate(lambda: aligned, 2, ALIGNED * net.imbalance + across)}

    def _of(self, xp: Any, a: Any, w: Any, rest: Any) -> dict[str, Any]:
        beta = split(xp, self.first, self.target)[1]
        m = kernel(xp, a, w, rest, beta)
        size = xp.sqrt(xp.sum(m * m, axis=(-2, -1)))
        return {"alignment": (m @ beta) @ beta / size, "kernel": m, "output": xp.sum(a * w, axis=-1)}

    @law_in_range
    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return alignment, kernel ``M`` and output ``r``."""
        return self._of(xp, *self.layers(xp, small))

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the same quantities from the integrated network."""
        first, last = follow(self.layers_at_start(small), self.target, self.pace(xp, small)[2])
        _, _, w, rest = split(xp, first, self.target)
        return self._of(xp, last[:, 0, :], w, rest)
