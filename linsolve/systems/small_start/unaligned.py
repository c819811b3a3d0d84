"""Three and more layers from any small start: learning times, and the shared parts of the laws on such starts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from linsolve import arithmetic
from linsolve.core.integrate import first_zero
from linsolve.core.network import deep_weights, maps, time_to_reach
from linsolve.core.network_law import Estimate, GivenNetwork, NetworkLaw
from linsolve.systems.deep.leading import Growth
from linsolve.systems.small_start.small_network import SmallNetwork
from linsolve.systems.small_start.start import DeepStart, refuse, unit

__all__ = ["UnalignedLearningTime", "UnalignedStart", "cosine", "deep_network", "growth_time"]

FAR = 1e20  # largest size of layers, target and rates
ALIGNED = 1 - 1e-12  # cosine above which the first layer counts as aligned
_Leading = tuple[Growth, float, list[np.ndarray]]
LATE = 1e14  # latest time of the networks of `exact`


def cosine(first: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """Return the cosine between ``W^T W`` and ``beta beta^T`` over leading axes."""
    gram = np.swapaxes(first, -1, -2) @ first
    return np.asarray(np.sum((first @ beta) ** 2, axis=-1) / np.linalg.norm(gram, axis=(-2, -1)))


def deep_network(law: Any, given: GivenNetwork, outputs: int | None = None) -> SmallNetwork:
    """Return a network of three or more layers on white inputs, from a small start; raise NotExact for others."""
    net = SmallNetwork.of(given, outputs=outputs, white=True)
    if net.red.depth < 3:
        fix = "for two layers use LearningTime"
        given.refuse("depth", net.red.depth, "must be at least 3", "number of layers", fix)
    given.require_small(law, net.small)
    return net


class UnalignedStart(DeepStart):
    """Network of three or more layers with layer-wise learning rates, neither balanced nor aligned."""

    names: ClassVar[tuple[str, ...]]
    approximates: ClassVar[str] = "networks of three or more layers on white inputs, from a start of size sigma"
    scales: ClassVar[tuple[float, ...]] = (0.1, 0.05, 0.025)

    def __post_init__(self) -> None:
        super().__post_init__()
        depth = self.start.shape[0]
        if depth < 3:
            rule, fix = "must have at least 3 layers", "for two use LearningTime"
            refuse(self, "start", f"layers of shape {self.start.shape}", rule, fix)
        layers = np.abs(arithmetic.to_numpy(self.start)).max(axis=(-2, -1))
        sizes = {"start": layers[layers > 0] if layers.any() else layers}
        sizes |= {name: np.abs(arithmetic.to_numpy(getattr(self, name))).max() for name in ("target", "rates")}
        for name, size in sizes.items():
            for bad in np.extract((size < 1 / FAR) | (size > FAR), size):
                rule = f"must lie between {1 / FAR:g} and {FAR:g} in size"
                refuse(self, name, f"{bad:.3g} at most", rule + (", layer by layer" * (name == "start")), "rescale")
        object.__setattr__(self, "orders", dict.fromkeys(self.names, depth))

    @property
    def clock(self) -> float:
        """Geometric mean of the learning rates."""
        return float(np.exp(np.mean(np.log(arithmetic.to_numpy(self.rates).astype(float)))))

    def equal_layers(self) -> list[np.ndarray]:
        """Return the layers over sigma in the coordinates in which all learn at the mean rate."""
        scales = np.sqrt(self.clock / arithmetic.to_numpy(self.rates).astype(float))
        return [scale * layer for scale, layer in zip(scales, self.layers_at_start(1.0), strict=True)]

    @classmethod
    def of_network(cls, net: SmallNetwork, **more: Any) -> Any:
        """Return the law of a network's own layers, with ``sigma = 1`` and rates 1."""
        width = max(max(layer.shape) for layer in net.layers)
        target = net.target[0] if cls.__dataclass_fields__["target"].metadata["axes"] == ("n_in",) else net.target
        return cls(start=net.stacked(width), target=target, rates=np.ones(net.red.depth), **more)

    def blown_up(self, target: np.ndarray, layers: list[np.ndarray]) -> _Leading:
        """Return the leading system, its blow-up time and its layers there; refuse a start that converges to 0."""
        growth = Growth(layers, target)
        time, end = growth.until()
        if not np.isfinite(time):
            rule, fix = "must learn the target", "change the sign of a layer"
            refuse(self, "start", "a start that converges to 0 output", rule, fix)
        return growth, time + growth.left(end), end

    @cached_property
    def leading(self) -> _Leading:
        """The leading system of the direction of one target, its blow-up time and its layers there."""
        target = np.asarray(self.target)[None]
        return self.blown_up(target / np.linalg.norm(target), self.equal_layers())


def growth_time(depth: int, s: float, y: float) -> float:
    """Return the time of a balanced mode from its blow-up in the leading system to ``y s``, at rate 1 (negative)."""
    from scipy.special import hyp2f1

    m = 1 - 2 / depth
    return -(y**-m) / m * float(hyp2f1(1, -m, 1 - m, y)) / (depth * s ** (2 - 2 / depth))


class UnalignedLearningTime(UnalignedStart):
    r"""Learning and alignment times of three or more layers from any small start, a function of the draw.

    For one output, white inputs, ``target`` :math:`= s \beta`, initial weights :math:`\sigma V_l` at equal rates
    :math:`\bar\eta`, let :math:`\tau^*` be the blow-up time of the leading system (`linsolve.deep.blow_up`) for
    the target :math:`\beta`. The output is :math:`y s` at

    .. math:: \bar\eta\, t(y) = \frac{\tau^*}{s \sigma^{L-2}} + \frac{G(y)}{L s^{2 - 2/L}}
        + \Bigl(1 - \frac1L\Bigr) \frac{\hat b}{s^2}\, \sigma^2 \log\frac1\sigma + O(\sigma^2), \qquad
        G(y) = -\frac{y^{-m}}{m}\, {}_2F_1(1, -m; 1 - m; y), \; m = 1 - \frac2L,

    :math:`\hat b = |V_{1 \perp}^T \hat g|^2` with :math:`V_{1\perp} = V_1 (I - \beta \beta^T)` and :math:`\hat g` the
    direction of :math:`V_1 \beta` at :math:`\tau^*`. The loss has halved at :math:`y = 1 - 2^{-1/2}`. The cosine
    between :math:`W_1^T W_1` and :math:`\beta \beta^T` is a function of :math:`\tau` at leading order; it is half way
    from its start to 1 at :math:`\bar\eta\, t = \sigma^{2-L} \tau_a / s\, (1 + O(\sigma^L))`, before the loss falls and
    at a fixed ratio to it.

    Parameters
    ----------
    start : array_like, shape (layer, width, width)
        Layers over ``sigma``, at least three; as in `FinalKernel`.
    target : array_like, shape (n_in,)
    rates : array_like, shape (layer,)
        Learning rates; the layers are divided by ``sqrt(rate)`` over its geometric mean.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If there are fewer than three layers, the leading system converges to 0 output, or the first layer is aligned
        at the start.

    Notes
    -----
    Approximates the network with numerically integrated weights. For equal, aligned layers of size 1,
    :math:`\tau^* = 1/(L-2)`, the published form and `DeepLearningTime`.

    Source: Atanasov, Bordelon, Pehlevan (2022), section 4.1.1, (40) and figure 4(c), which state the powers of
    :math:`\sigma`. ``linsolve card UnalignedLearningTime`` lists the published formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> weights = [0.01 * np.array(w) for w in ([[1.0, 1.0]], [[1.0]], [[1.0]])]
    >>> network = ls.laws.UnalignedLearningTime.of(weights, (np.sqrt(2) * np.eye(2), np.sqrt(2) * np.array([1.0, 0.0])))
    >>> round(float(network()["half of the target"]), 3)  # tau*/sigma = 100, and G(1/2)/3 = -0.85
    99.15
    """

    timed: ClassVar[bool] = False
    names: ClassVar[tuple[str, ...]] = ("half of the target", "half of the loss", "alignment")
    orders: ClassVar[Mapping[str, float]] = dict.fromkeys(names, 3)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not arithmetic.to_numpy(self.start)[0].any():
            rule = "must not vanish, since its direction turns to the target"
            refuse(self, "start", "0 in the first layer", rule, "give the first layer a direction")

    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the times."""
        s = float(np.linalg.norm(self.target))
        beta = np.asarray(self.target) / s
        times = _times(self.leading, beta, s, float(small), float(np.log(1 / small)))
        return {name: xp.asarray(time / self.clock) for name, time in times.items()}

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the times of the integrated network."""
        layers, rates = self.layers_at_start(small), np.asarray(self.rates)
        times = [time_to_reach(layers, self.target, loss=loss, rates=rates) for loss in (False, True)]
        flow = deep_weights(np.atleast_2d(self.target), len(layers), rates=rates)
        beta = np.asarray(self.target) / np.linalg.norm(self.target)

        start = float(cosine(layers[0], beta))

        def gap(z: Any) -> float:
            return float(cosine(z[0], beta)) - (1 + start) / 2

        aligned = 0.0
        if start < ALIGNED:
            z0 = flow.State(*layers)
            aligned = first_zero(flow, z0, gap, until=LATE, rtol=1e-13, atol=1e-18, newton=2)[0]
        times.append(aligned)
        return dict(zip(self.names, map(xp.asarray, times), strict=True))

    @classmethod
    def applied(cls, given: GivenNetwork) -> NetworkLaw:
        """Return the times of a network of three or more layers with one output on white inputs."""
        net = deep_network(cls, given, outputs=1)
        s, depth = net.strength, net.red.depth
        beta = net.target[0] / s
        found = _times(cls.of_network(net).leading, beta, s, 1.0, -float(np.log(net.small)))

        def predict(given: GivenNetwork) -> dict[str, Estimate]:
            times = {name: np.asarray(time / net.clock) for name, time in found.items()}
            error = net.small**depth
            return {name: Estimate(lambda t=t: t, depth, error) for name, t in times.items()}  # type: ignore[misc]

        return net.law(cls, predict)

    @classmethod
    def example(cls, rng: np.random.Generator) -> UnalignedLearningTime:
        """Return three layers of unequal rates on 5 inputs, with a positive output at the start."""
        start = rng.normal(size=(3, 6, 6)) / np.sqrt(6)
        beta = unit(rng, 5)
        start[2] *= np.sign(maps([start[0][:, :5], start[1], start[2][:1]])[-1][0] @ beta)
        return cls(start=start, target=rng.uniform(0.8, 1.4) * beta, rates=rng.uniform(0.6, 1.6, 3))


def _times(leading: _Leading, beta: np.ndarray, s: float, small: float, log: float) -> dict[str, float]:
    """Return the times at rate 1."""
    growth, time, end = leading
    first, depth = growth.layers[0], growth.depth
    g, across = end[0] @ beta, first - np.outer(first @ beta, beta)
    b, scale = float(np.sum((across.T @ g) ** 2) / np.sum(g**2)), s * small ** (depth - 2)
    wait = time / scale + (1 - 1 / depth) * b * small**2 * log / s**2

    def late(y: float) -> float:
        return wait + growth_time(depth, s, y)

    start = float(cosine(first, beta))
    aligned = 0.0  # of a first layer along the target at the start
    if start < ALIGNED:
        aligned = growth.until(lambda v: float(cosine(v[0], beta)) - (1 + start) / 2)[0] / scale
    return {"half of the target": late(0.5), "half of the loss": late(1 - 0.5**0.5), "alignment": aligned}
