"""Alignment of the first of three or more layers with the target, before the loss falls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from linsolve import arithmetic
from linsolve.core.network import deep_weights, follow, maps
from linsolve.core.network_law import Estimate, GivenNetwork, NetworkLaw
from linsolve.core.parameters import parameter
from linsolve.systems.small_start.start import refuse
from linsolve.systems.small_start.unaligned import UnalignedLearningTime, UnalignedStart, cosine, deep_network

__all__ = ["FirstLayerAlignment"]


class FirstLayerAlignment(UnalignedStart):
    r"""Alignment of the first of three or more layers with the target before the loss falls.

    In the setting of `UnalignedLearningTime` the part of the first layer orthogonal to the target is constant, and all
    layers grow alike: :math:`|V_l|^2(\tau) - |V_l|^2(0) = R(\tau)`. At :math:`t = \sigma^{2-L} \tau / (\bar\eta s)` and
    for any :math:`v \perp \beta`

    .. math:: \frac{|W_1 \beta|^2}{|W_1 v|^2} = \frac{|V_1 \beta|^2 + R(\tau)}{|V_1 v|^2}\, (1 + O(\sigma^L)), \qquad
        R(\tau) = 2 \int_0^\tau g,

    with slope :math:`2 s \bar\eta \sigma^{L-2} g_0 / |V_1 v|^2` at the start, which may be negative. The cosine between
    :math:`W_1^T W_1` and :math:`\beta \beta^T` has an error of the same order.

    Parameters
    ----------
    start, target, rates
        As in `UnalignedLearningTime`.
    across : array_like, shape (n_in,)
        ``v``, orthogonal to the target.
    fractions : array_like, shape (time,)
        Times over the blow-up time, between 0 and 1.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, shapes do not fit, `across` is not orthogonal to the
        target, or as for `UnalignedLearningTime`.

    Notes
    -----
    Approximates the network with numerically integrated weights. Source: Atanasov, Bordelon, Pehlevan (2022), (41),
    which states the order of the slope. ``linsolve card FirstLayerAlignment`` lists the published formulas and their
    verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> start, v = [np.eye(2)] * 3, [0.0, 1.0]
    >>> law = ls.laws.FirstLayerAlignment(start=start, target=[1.0, 0.0], rates=[1.0] * 3, across=v, fractions=[0.5])
    >>> law.approximation(np, 1e-2)["ratio"].round(6).tolist()  # 1/(1 - tau)^2 for equal layers
    [4.0]
    """

    across: Any = parameter("v", "direction orthogonal to the target", axes=("n_in",))
    fractions: Any = parameter(r"\tau/\tau^*", "times over the blow-up time", domain="(0, 1)", axes=("time",))

    names: ClassVar[tuple[str, ...]] = ("ratio", "cosine", "slope")
    orders: ClassVar[Mapping[str, float]] = dict.fromkeys(names, 3)

    def __post_init__(self) -> None:
        super().__post_init__()
        v, target = (arithmetic.to_numpy(x).astype(float) for x in (self.across, self.target))
        size = float(np.linalg.norm(v) * np.linalg.norm(target))
        if not size > 0 or not abs(v @ target) <= 1e-9 * size:
            angle = f"a vector at cosine {v @ target / (size or 1):.3g}"
            refuse(self, "across", angle, "must be orthogonal to the target", "project it")

    def _grown(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return times ``tau`` and the layers of the leading system."""
        growth, time, _ = self.leading
        times = np.asarray(self.fractions) * time
        return times, growth.at(times)

    def _values(self, xp: Any, first: np.ndarray, slope: float) -> dict[str, Any]:
        beta = np.asarray(self.target) / np.linalg.norm(self.target)
        ratio = np.sum((first @ beta) ** 2, axis=-1) / np.sum((first @ np.asarray(self.across)) ** 2, axis=-1)
        return {"ratio": xp.asarray(ratio), "cosine": xp.asarray(cosine(first, beta)), "slope": xp.asarray(slope)}

    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return ratio and cosine at the times, and the slope at the start."""
        layers = self.equal_layers()
        g = float(maps(layers)[-1][0] @ self.target) * self.clock * float(small) ** (len(layers) - 2)
        slope = 2 * g / np.sum((layers[0] @ np.asarray(self.across)) ** 2)
        return self._values(xp, self._grown()[1][0], float(slope))

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the same quantities of the integrated network, the slope from its velocity."""
        layers, s = self.layers_at_start(small), float(np.linalg.norm(self.target))
        t = self._grown()[0] * float(small) ** (2 - len(layers)) / (self.clock * s)
        flow = deep_weights(np.atleast_2d(self.target), len(layers), rates=np.asarray(self.rates))
        moved = np.asarray(flow.velocity(np, flow.State(*layers))[0])
        beta, v = np.asarray(self.target) / s, np.asarray(self.across)
        along, size = layers[0] @ beta, np.sum((layers[0] @ v) ** 2)
        across = np.sum(along**2) * 2 * (layers[0] @ v) @ (moved @ v) / size**2
        return self._values(
            xp, follow(layers, self.target, t, rates=self.rates)[0], float(2 * along @ (moved @ beta) / size - across)
        )

    @classmethod
    def applied(cls, given: GivenNetwork) -> NetworkLaw:
        """Return the cosine of the first layer of a network with one output on white inputs, before the blow-up."""
        net = deep_network(cls, given, outputs=1)
        beta, depth = net.target[0] / net.strength, net.red.depth
        growth, time, _ = UnalignedStart.blown_up(UnalignedLearningTime.of_network(net), net.target, list(net.layers))

        def predict(given: GivenNetwork) -> dict[str, Estimate]:
            grown = growth.at(np.ravel(given.times) * net.clock)
            found = cosine(grown[0], beta)
            output = np.abs(maps(grown)[-1] @ beta).max() / net.strength
            return {"cosine": Estimate(lambda: found.reshape(given.times.shape), depth, float(output))}

        return net.law(cls, predict, latest=0.999 * time / net.clock)

    @classmethod
    def example(cls, rng: np.random.Generator) -> FirstLayerAlignment:
        """Return the network of `UnalignedLearningTime`."""
        base = UnalignedLearningTime.example(rng)
        v = rng.normal(size=5)
        v = v - (v @ base.target) * base.target / np.sum(base.target**2)
        return cls(**base.parameters(), across=v, fractions=[0.3, 0.6, 0.8])
