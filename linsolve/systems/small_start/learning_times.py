"""Learning times from small initial weights: logarithmic in sigma for two layers, a power of sigma for more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from linsolve import arithmetic
from linsolve.core.law import Expansion
from linsolve.core.network import time_to_reach
from linsolve.core.network_law import Estimate, GivenNetwork, NetworkLaw
from linsolve.core.parameters import batch_shape, parameter
from linsolve.systems.mode.deep_mode import DeepMode
from linsolve.systems.small_start.small_network import SmallNetwork
from linsolve.systems.small_start.start import SmallStart, check_growth, check_range, check_small, outer, split, unit

__all__ = ["DeepLearningTime", "LearningTime"]

LATER = 0.1  # error of 2 s t over the imbalance, in random networks


class LearningTime(SmallStart):
    r"""Times to half of the target and to half of the loss of a two-layer network with small initial weights.

    With ``target`` :math:`= s \beta`, learning rate :math:`\eta` and :math:`c_0 = p_0/2 = |a_0 + W_0 \beta|^2 / 4`,

    .. math:: t_{1/2} = \frac{1}{2 \eta s} \log\Bigl(\frac{s}{c_0} - 1\Bigr), \qquad
        t_{\mathrm{half\ loss}} = \frac{1}{2 \eta s} \log\Bigl[(\sqrt 2 - 1) \Bigl(\frac{s}{c_0} - 1\Bigr)\Bigr],

    exact for a balanced, aligned network with :math:`a_0 = W_0 \beta` (`BalancedMode` of initial strength ``c0``); for
    any small initial weights the relative error is :math:`O(\sigma^2)`.

    Parameters
    ----------
    last, first, target
        As in `EarlyAlignment`.
    eta : array_like
        Learning rate of both layers.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If the target is zero, if ``c0 = 0``, so that the network never learns it, or if products of entries overflow.

    Notes
    -----
    Approximates the two-layer network on white inputs; `exact` integrates its weights. Source: Atanasov, Bordelon,
    Pehlevan (2022), section 3.1.2 and caption of figure 2. ``linsolve card LearningTime`` lists the published formulas
    and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> law = ls.laws.LearningTime(last=[1.0, 0.0], first=[[1.0, 0.0], [0.0, 0.0]], target=[2.0, 0.0])
    >>> time = law.approximation(np, 1e-2)["half of the target"]  # log(2/1e-4 - 1) / 4
    >>> round(float(time), 6)
    2.475859
    >>> float(ls.BalancedMode(s=2.0)(time, 1e-4)["a"].round(6))
    1.0
    >>> network = ls.laws.LearningTime.of([[[0.01, 0.0], [0.0, 0.0]], [0.01, 0.0]], (np.eye(2), [2.0, 0.0]))
    >>> round(float(network()["half of the target"]), 6)  # two samples: the second moment is 1/2
    4.951719
    """

    eta: Any = parameter(r"\eta", "learning rate", domain="(0, inf)", default=1.0)

    approximates: ClassVar[str] = "the two-layer network on white inputs from a start of size sigma"
    timed: ClassVar[bool] = False
    orders: ClassVar[Mapping[str, float]] = {"half of the target": 2, "half of the loss": 2}
    scales = (1e-3, 3e-4, 1e-4)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_growth(self)

    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return both times."""
        check_small(self, small)
        s, _, w, _ = split(xp, self.first, self.target)
        odds = s / (small**2 * xp.sum((self.last + w) ** 2) / 4) - 1
        pace = 2 * self.eta * s
        return {
            "half of the target": xp.log(odds) / pace,
            "half of the loss": xp.log((xp.sqrt(2 * odds / odds) - 1) * odds) / pace,
        }

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return both times of the integrated network."""
        start = self.layers_at_start(small)
        rates = [float(self.eta)] * 2
        times = (time_to_reach(start, self.target, loss="loss" in name, rates=rates) for name in self.orders)
        return dict(zip(self.orders, map(xp.asarray, times), strict=True))

    def special_cases(self) -> list[tuple[Expansion, float, str]]:
        """Return a balanced, aligned network, ``a0 = W0 beta``, from initial weights that are not small."""
        _, beta, w, _ = split(np, self.first, self.target)
        scale = np.sqrt(np.sum(self.target**2) ** 0.5 / np.sum(w**2)) / 3
        aligned = type(self)(w * scale, outer(w, beta) * scale, self.target, self.eta)
        return [(aligned, 1.0, "half of the target")]

    @classmethod
    def applied(cls, given: GivenNetwork) -> NetworkLaw:
        """Return the learning times of a network with two layers and one output on white inputs."""
        net = SmallNetwork.of(given, depth=2, outputs=1, white=True)
        (first, last), clock = net.layers, net.clock
        g = net.growing(net.target[0])
        law = cls(last[0], first, net.target[0])
        beta, log = net.target[0] / net.strength, np.log(4 * net.strength / np.sum(g**2))
        across = np.linalg.norm(g @ first - (g @ first @ beta) * beta) ** 2 / np.sum(g**2) / net.strength

        def predict(given: GivenNetwork) -> dict[str, Estimate]:
            error = across / 2 + LATER * net.imbalance / log
            times = law.approximation(np, 1.0)
            return {name: Estimate(lambda t=t: t / clock, 2, error) for name, t in times.items()}  # type: ignore[misc]

        return net.law(cls, predict)

    @classmethod
    def example(cls, rng: np.random.Generator) -> LearningTime:
        """Return a network of 8 hidden units on 12 inputs."""
        beta = unit(rng, 12)
        return cls(
            last=rng.normal(size=8) / np.sqrt(8),
            first=rng.normal(size=(8, 12)) / np.sqrt(12),
            target=rng.uniform(0.8, 1.6) * beta,
            eta=rng.uniform(0.5, 1.5),
        )


class DeepLearningTime(Expansion):
    r"""Half-learning time of a balanced mode of three or more layers: a power of the size of the initial weights.

    A mode of singular value ``s`` has the initial strength :math:`c_0 = \sigma^L`. With the geometric mean
    :math:`\bar\eta` of the learning rates of the layers,

    .. math:: t_{1/2} = \frac{\sigma^{2-L}}{(L - 2)\, \bar\eta s} \bigl(1 + O(\sigma^{L-2})\bigr),

    for half of the target and for half of the loss alike, since the transition is short compared with the plateau.

    Parameters
    ----------
    s : array_like, shape batch
        Singular values of the modes, positive.
    depth : array_like, shape batch
        Numbers of layers ``L``, above 2 and at most 60.
    eta : array_like, shape batch
        Geometric mean of the learning rates (per unit of time).

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, or shapes do not fit.

    Notes
    -----
    Approximates `DeepMode`. Times are named by depth, ``half of the target at depth 3``; modes of the same depth are
    also numbered, ``(mode 1)``. Source: Atanasov et al. (2022), section 4.1.1 and the line after (40).
    ``linsolve card DeepLearningTime`` lists the published formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> law = ls.laws.DeepLearningTime(s=1.0, depth=[3, 4, 5])
    >>> times = law.approximation(np, 1e-2)
    >>> [round(float(times[f"half of the target at depth {depth}"]), 3) for depth in (3, 4, 5)]
    [100.0, 5000.0, 333333.333]
    >>> ls.DeepMode(s=1.0, depth=[3, 4, 5]).when(np.array([1e-6, 1e-8, 1e-10]), loss=1 / 8).round(0).tolist()
    [99.0, 5000.0, 333333.0]
    """

    s: Any = parameter("s", "singular value", domain="(0, inf)")
    depth: Any = parameter("L", "number of layers", domain="(2, 60]")
    eta: Any = parameter(r"\bar\eta", "geometric mean of the learning rates", domain="(0, inf)", default=1.0)

    _names: ClassVar[tuple[str, ...]] = ()
    batched: ClassVar[bool] = True
    approximates: ClassVar[str] = "DeepMode, started at sigma^depth"
    timed: ClassVar[bool] = False
    orders: ClassVar[Mapping[str, float]] = {
        f"half of the {part} at depth {k}": k - 2 for k in (3, 4, 5) for part in ("target", "loss")
    }
    dps = 50

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self)
        batch = batch_shape(type(self).__name__, {name: tuple(v.shape) for name, v in self.parameters().items()})
        depths = np.broadcast_to(arithmetic.to_numpy(self.depth).astype(float), batch).ravel()
        names: dict[str, float] = {}
        for mode, depth in enumerate(depths):
            which = f" (mode {mode})" if np.sum(depths == depth) > 1 else ""
            names |= {f"half of the {part} at depth {depth:g}{which}": depth - 2 for part in ("target", "loss")}
        object.__setattr__(self, "orders", names)
        object.__setattr__(self, "_names", tuple(names))  # known where JAX traces the depths
        object.__setattr__(self, "dps", max(50, 30 + 4 * int(depths.max())))  # errors decrease to 1e-4^(L - 2)

    def _named(self, target: Any, loss: Any) -> dict[str, Any]:
        """Return the times of each mode under the names in `orders`."""
        pairs = [(target[i], loss[i]) for i in np.ndindex(target.shape)]
        return dict(zip(self._names, [time for pair in pairs for time in pair], strict=True))

    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the times by depth."""
        time = xp.pow(small, 2 - self.depth) / ((self.depth - 2) * self.eta * self.s)
        return self._named(time, time)

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the times from the closed form of `DeepMode`."""
        flow = DeepMode(s=self.s, depth=self.depth, tau=1 / self.eta)
        start, half = DeepMode.State(xp.pow(small, self.depth + 0 * self.s * self.eta)), self.s / 2
        return self._named(
            flow.time_to(xp, start, loss=half**2 / 2), flow.time_to(xp, start, loss=flow.loss(xp, start) / 2)
        )

    @classmethod
    def applied(cls, given: GivenNetwork) -> NetworkLaw:
        """Return the learning times of the modes of a balanced network, the largest singular value first."""
        depth = len(given.network.weights)
        if not 2 < depth <= 60:
            meaning, fix = "number of layers", "for two layers use LearningTime"
            given.refuse("depth", depth, "must be above 2 and at most 60", meaning, fix)
        net = SmallNetwork.of(given)
        modes = net.aligned()
        order = np.argsort(-modes.s)
        start, s, rate = modes.start[order], modes.s[order], 1 / modes.flow.tau[order]
        strength = start / s
        if not (strength > 0).all():
            meaning, fix = "strength of a mode at the start over its target", "a mode of another sign is never learned"
            given.refuse("start", f"{strength.min():.3g}", "must be positive", meaning, fix)
        small = np.power(strength, 1 / depth)

        def predict(given: GivenNetwork) -> dict[str, Estimate]:
            error = float(np.max(small ** (depth - 2)))
            laws = [cls(s=each, depth=depth, eta=eta) for each, eta in zip(s, rate, strict=True)]
            pairs = zip(laws, np.power(start, 1 / depth), strict=True)
            times = np.stack([next(iter(law.approximation(np, sigma).values())) for law, sigma in pairs])
            return {f"half of the {part}": Estimate(lambda: times, depth - 2, error) for part in ("target", "loss")}

        return net.law(cls, predict, small=float(np.max(small)))

    @classmethod
    def example(cls, rng: np.random.Generator) -> DeepLearningTime:
        """Return modes of depth 3, 4 and 5."""
        return cls(s=rng.uniform(0.5, 2.0, 3), depth=[3.0, 4.0, 5.0], eta=rng.uniform(0.5, 1.5))
