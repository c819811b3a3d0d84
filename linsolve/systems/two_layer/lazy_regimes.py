"""The two limits of training at infinite width: lazy training (small G) and feature training (large G)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from linsolve.core.law import Expansion
from linsolve.core.network_law import Estimate, GivenNetwork, NetworkLaw
from linsolve.core.parameters import parameter
from linsolve.numerics.checked import law_in_range
from linsolve.systems.two_layer.lazy_training import LazyTraining, moved, network
from linsolve.systems.two_layer.line_network import LineNetwork

__all__ = ["FeatureRegime", "LazyRegime"]


class _Regime(Expansion):
    """A limit in ``G`` at infinite width, computed from a network of two orthogonal layers of equal length."""

    rho: Any = parameter(r"\rho", "length of the data point over sqrt(d_in)", domain="(0, inf)", default=1.0)

    timed: ClassVar[bool] = False

    def trained(self, xp: Any, G: Any) -> dict[str, Any]:
        """Return kernel change, weight change and the half time of the loss from the closed form."""
        one = xp.ones_like(G)
        flow, start = network(xp, one, G * self.rho, one, self.rho, xp.zeros_like(xp.stack([G] * 3)))
        return {
            "kernel change": flow.along(xp, xp.full_like(G, xp.inf), start)["kernel_change"],
            "weights": moved(xp, flow, start),
            "half time": flow.time_to(xp, start, loss=flow.loss(xp, start) / 2),
        }

    @classmethod
    def applied(cls, given: GivenNetwork) -> NetworkLaw:
        """Return kernel change, weight change and half time of a two-layer network with one output, data on a line."""
        net = LineNetwork.of(given)
        G, law = net.strength, LazyTraining.at(net, np.ones(1))
        small = cls.small_of(abs(G))
        found, finer = cls(rho=1.0).approximation(np, np.asarray(small)), law.approximation(np, np.ones(()))
        finer["kernel change"] = finer["kernel change with fluctuations"]
        # the overlap changes the weights and the half time, whose fluctuations `LazyTraining` leaves out
        neglected = dict.fromkeys(("weights", "half time"), abs(net.overlap * G) / (1 + abs(G)) / 2)

        def predict(given: GivenNetwork) -> dict[str, Estimate]:
            def estimate(name: str) -> Estimate:
                value = found[name] / (net.clock if name == "half time" else 1.0)
                error = abs(float(found[name] / finer[name]) - 1) + neglected.get(name, 0.0)
                return Estimate(lambda: value, cls.orders[name], error)

            return {name: estimate(name) for name in found}

        return net.law(cls, predict, small)

    @classmethod
    def small_of(cls, G: float) -> float:
        """Return the small parameter of a network."""
        raise NotImplementedError

    @classmethod
    def example(cls, rng: np.random.Generator) -> Any:
        """Return a data point of generic length."""
        return cls(rho=rng.uniform(0.6, 1.4))


class LazyRegime(_Regime):
    r"""Lazy training at infinite width, ``small`` :math:`= G \ll 1`.

    .. math:: \frac{\Delta K}{K_0} = \frac{G^2}{2}, \qquad \frac{|\Delta w|}{|w_0|} = \frac{G}{2}, \qquad
        \rho^2 t_{1/2} = \frac{\log 2}{8},

    each up to a factor :math:`1 + O(G^2)`, with ``G``, ``rho``, ``t`` of `LazyTraining`.

    Parameters
    ----------
    rho : array_like
        ``|x| / sqrt(d_in)``.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, or shapes do not fit.

    Notes
    -----
    Exact for: infinite width. Not for: ``G`` below ``h^(-1/2)``, see `FixedWidthKernelChange`.

    Source: Geiger et al. (2020). At fixed width the kernel keeps a fluctuation of size
    :math:`G h^{-1/2} \sim 1/(h \alpha)`, see `FixedWidthKernelChange`. ``linsolve card LazyRegime`` lists the published
    formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> law, G = ls.laws.LazyRegime(), np.asarray(0.1)
    >>> {name: round(float(value), 4) for name, value in law.approximation(np, G).items()}  # G^2/2, G/2, log(2)/8
    {'kernel change': 0.005, 'weights': 0.05, 'half time': 0.0866}
    >>> {name: round(float(value), 4) for name, value in law.exact(np, G).items()}
    {'kernel change': 0.005, 'weights': 0.05, 'half time': 0.0866}
    """

    approximates: ClassVar[str] = "LazyTwoLayer at infinite width, in G"
    symbol: ClassVar[str] = "G"
    meaning: ClassVar[str] = "initial residual over half of the initial kernel"
    orders: ClassVar[Mapping[str, float]] = {"kernel change": 2, "weights": 2, "half time": 2}
    constants: ClassVar[Mapping[str, float]] = {"kernel change": 0.26, "weights": 0.095, "half time": 0.016}
    dps = 50

    @classmethod
    def small_of(cls, G: float) -> float:
        """Return ``G``."""
        return G

    @law_in_range
    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the leading terms."""
        half = xp.ones_like(small) / 2
        return {"kernel change": half * small**2, "weights": half * small, "half time": -xp.log(half) / 8 / self.rho**2}

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the quantities of `approximation` from the closed form."""
        return self.trained(xp, small)


class FeatureRegime(_Regime):
    r"""Feature training at infinite width, ``small`` :math:`= 1/G \ll 1`.

    .. math:: \frac{\Delta K}{K_0} = G, \qquad \frac{|\Delta w|}{|w_0|} = G^{1/2}, \qquad
        \rho^2 t_{1/2} = \frac{\log[2 (\sqrt 2 - 1) G]}{4 G},

    up to factors :math:`1 + O(1/G)`, :math:`1 + O(G^{-1/2})`, :math:`1 + O(1/(G \log G))`, in this order, with
    ``G``, ``rho``, ``t`` of `LazyTraining`.

    Parameters
    ----------
    rho : array_like
        ``|x| / sqrt(d_in)``.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, or shapes do not fit.

    Notes
    -----
    Exact for: infinite width. Not for: ``G`` near ``h^(1/2)`` and above, where the initial weights are small relative
    to the target.

    Source: Geiger et al. (2020), (19), (24), (30) at ``L = 1``. ``linsolve card FeatureRegime`` lists the published
    formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> law, small = ls.laws.FeatureRegime(), np.asarray(1e-4)  # G = 10^4
    >>> [round(float(found["kernel change"])) for found in (law.approximation(np, small), law.exact(np, small))]
    [10000, 9999]
    """

    approximates: ClassVar[str] = "LazyTwoLayer at infinite width, in 1/G"
    symbol: ClassVar[str] = "1/G"
    meaning: ClassVar[str] = "half of the initial kernel over the initial residual"
    orders: ClassVar[Mapping[str, float]] = {"kernel change": 1, "weights": 0.5, "half time": 1}
    constants: ClassVar[Mapping[str, float]] = {"kernel change": 1.01, "weights": 0.72, "half time": 0.03}
    scales: ClassVar[tuple[float, ...]] = (1e-20, 1e-22, 1e-24)  # the logarithm in the error must vary slowly
    dps = 120

    @classmethod
    def small_of(cls, G: float) -> float:
        """Return ``1/G``."""
        return 1 / G

    @law_in_range
    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the leading terms."""
        speed = 2 * (xp.sqrt(2 * xp.ones_like(small)) - 1)
        time = small * xp.log(speed / small) / (4 * self.rho**2)
        return {"kernel change": 1 / small, "weights": 1 / xp.sqrt(small), "half time": time}

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the quantities of `approximation` from the closed form."""
        return self.trained(xp, 1 / small)
