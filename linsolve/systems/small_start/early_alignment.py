"""Phase I of a two-layer network with small initial weights on white inputs: alignment before the loss decreases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from linsolve import arithmetic
from linsolve.core.law import Statistic
from linsolve.core.network import follow
from linsolve.core.network_law import GivenNetwork, NetworkLaw
from linsolve.core.parameters import parameter
from linsolve.systems.small_start.linearized import LinearizedNetwork
from linsolve.systems.small_start.start import SmallStart, check_range, check_times, kernel, outer, split, unit

__all__ = ["EarlyAlignment", "InitialOverlaps"]


class EarlyAlignment(SmallStart):
    r"""Phase I: from small initial weights, output and kernel grow exponentially along the target.

    For :math:`f = a^\top W x` on white inputs, ``target`` :math:`= s \beta`, initial weights of size :math:`\sigma`,
    :math:`w = W \beta`, :math:`q = (|a|^2 + |w|^2)/2`, :math:`r = a \cdot w` and the kernel matrix
    :math:`M = W^\top W + |a|^2 I`, at fixed times,

    .. math:: q \pm r = (q_0 \pm r_0) e^{\pm 2 \eta s t}, \qquad
        M = M_0 + (q - q_0)(\beta \beta^\top + I) + W_{0\perp}^\top (w - w_0) \beta^\top + \mathrm{h.c.},

    and :math:`v^\top M v = v^\top M_0 v + q - q_0` for every unit vector :math:`v \perp \beta`, where
    :math:`W_{0\perp} = W_0 (I - \beta \beta^\top)`. The relative error is :math:`O(\sigma^2)`.

    Parameters
    ----------
    last : array_like, shape (width,)
        Initial second layer ``a / sigma``.
    first : array_like, shape (width, n_in)
        Initial first layer ``W / sigma``.
    target : array_like, shape (n_in,)
        Target map ``s beta``, not zero.
    times : array_like, shape (time,)
        Increasing, in the units of ``1/(eta s)``; ``2 eta s t`` is at most 700.
    eta : array_like
        Learning rate of both layers.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If the target is zero, a time is too late, or products of entries overflow.

    Notes
    -----
    Approximates the two-layer network on white inputs; `exact` integrates its weights numerically. Valid for
    ``eta s t`` much less than ``log(1/sigma)``.

    Source: Atanasov, Bordelon, Pehlevan, "Neural networks as kernel learners: the silent alignment effect" (2022), eqs.
    (7), (16), (18), (19). ``linsolve card EarlyAlignment`` lists the published formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> first, last = np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([1.0, 0.0])
    >>> law = ls.laws.EarlyAlignment(last=last, first=first, target=[1.0, 0.0], times=[0.0, 1.0, 2.0])
    >>> early = law.approximation(np, 1e-3)["r"]  # layers of size 1e-3
    >>> (early / 1e-6).round(3).tolist()  # exp(2 s t)
    [1.0, 7.389, 54.598]
    >>> start = ls.WhitenedTwoLayer.of(1e-3 * first, 1e-3 * last[None])  # balanced, so that there is a closed form
    >>> exact = ls.WhitenedTwoLayer(target=[[1.0, 0.0]])(law.times, start)
    >>> (early / exact["product"][:, 0, 0]).round(3).tolist()
    [1.0, 1.0, 1.0]
    """

    times: Any = parameter("t", "times", domain="[0, inf)", axes=("time",))
    eta: Any = parameter(r"\eta", "learning rate", domain="(0, inf)", default=1.0)

    approximates: ClassVar[str] = "the two-layer network on white inputs, at fixed times from a start of size sigma"
    orders: ClassVar[Mapping[str, float]] = {"q": 2, "r": 2, "kernel": 2, "across": 2}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_times(self, 2 * float(self.eta) * float(np.linalg.norm(arithmetic.to_numpy(self.target))))

    def overlaps(self, xp: Any, small: Any) -> tuple[Any, Any, Any, Any]:
        """Return ``q, r`` at the times and ``q0, r0``."""
        s, _, w, _ = split(xp, self.first, self.target)
        q0 = small**2 * xp.sum(self.last**2 + w**2) / 2
        r0 = small**2 * xp.sum(self.last * w)
        up = xp.exp(2 * self.eta * s * self.times)
        return ((q0 + r0) * up + (q0 - r0) / up) / 2, ((q0 + r0) * up - (q0 - r0) / up) / 2, q0, r0

    def kernel(self, xp: Any, small: Any) -> Any:
        """Return ``M`` at the times, shape (time, n_in, n_in)."""
        s, beta, w, rest = split(xp, self.first, self.target)
        q, _, q0, _ = self.overlaps(xp, small)
        x = self.eta * s * self.times[:, None]
        up, down = xp.exp(x), xp.exp(-x)
        moved = small * ((up + down) / 2 * w + (up - down) / 2 * self.last - w)
        cross = outer((moved * small) @ rest, beta)
        start = kernel(xp, small * self.last, small * w, small * rest, beta)
        grown = (q - q0)[:, None, None] * (outer(beta, beta) + xp.eye(beta.shape[0]))
        return start + grown + cross + xp.matrix_transpose(cross)

    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return ``q``, ``r``, the kernel, and the growth of the kernel orthogonal to the target."""
        q, r, q0, _ = self.overlaps(xp, small)
        return {"q": q, "r": r, "kernel": self.kernel(xp, small), "across": q - q0}

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the same quantities from the integrated network."""
        start = self.layers_at_start(small)
        first, last = follow(start, self.target, self.times, rates=[float(self.eta)] * 2)
        a = last[:, 0, :]
        _, beta, w, rest = split(xp, first, self.target)
        v = xp.linalg.svd(beta[None, :])[2][1:2].T  # a direction orthogonal to the target; none for one input

        def across(last: Any, first: Any) -> Any:
            return xp.sum(last**2, axis=(-2, -1)) + xp.sum((first @ v) ** 2, axis=(-2, -1))

        return {
            "q": xp.sum(a * a + w * w, axis=-1) / 2,
            "r": xp.sum(a * w, axis=-1),
            "kernel": kernel(xp, a, w, rest, beta),
            "across": across(last, first) - across(*reversed(start)),
        }

    @classmethod
    def applied(cls, given: GivenNetwork) -> NetworkLaw:
        """Return phase I of a network with two layers and one output on white inputs."""
        return LinearizedNetwork.of(given, depth=2, outputs=1, white=True).phase_one(cls)

    @classmethod
    def example(cls, rng: np.random.Generator) -> EarlyAlignment:
        """Return a network of 3 hidden units on 5 inputs."""
        return cls(
            last=rng.normal(size=3) / np.sqrt(3),
            first=rng.normal(size=(3, 5)) / np.sqrt(5),
            target=rng.uniform(0.8, 1.6) * unit(rng, 5),
            times=np.linspace(0.0, 2.0, 9),
            eta=rng.uniform(0.5, 1.5),
        )


class InitialOverlaps(Statistic):
    r"""Mean overlaps of Gaussian initial weights, at the beginning of phase I.

    For :math:`a_i \sim N(0, \sigma^2/N)`, :math:`W_{ij} \sim N(0, \sigma^2/D)`, with ``q``, ``r`` of `EarlyAlignment`,

    .. math:: \langle q_0 \rangle = \frac{\sigma^2}{2} \Bigl(1 + \frac{N}{D}\Bigr), \qquad
        \langle r_0 \rangle = 0, \qquad \langle r_0^2 \rangle = \frac{\sigma^4}{D}.

    Parameters
    ----------
    width, n_in : int
        Numbers ``N`` and ``D`` of hidden units and inputs.
    sigma : float
        Size of the initial weights.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, or shapes do not fit.

    Notes
    -----
    Exact for every width, number of inputs and sigma. Source: Atanasov et al. (2022), eq. (17).
    ``linsolve card InitialOverlaps`` lists the published formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> found = ls.laws.InitialOverlaps(width=10, n_in=25).prediction(np)  # (1 + 10/25)/2, 0, 1/25
    >>> {name: round(float(value), 6) for name, value in found.items()}
    {'q0': 0.7, 'r0': 0.0, 'r0 squared': 0.04}
    """

    width: Any = parameter("N", "number of hidden units", domain="[1, inf)", whole=True)
    n_in: Any = parameter("D", "number of inputs", domain="[1, inf)", whole=True)
    sigma: Any = parameter(r"\sigma", "size of the start", domain="(0, inf)", default=1.0)

    approximates: ClassVar[str] = "averages over Gaussian starts of a two-layer network"
    unapplied: ClassVar[str] = "an average over Gaussian starts; one network has the overlaps of its own weights"
    draws: ClassVar[int] = 20000
    resolution: ClassVar[float] = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self)

    def prediction(self, xp: Any) -> dict[str, Any]:
        """Return the three means."""
        q0 = self.sigma**2 / 2 * (1 + self.width / self.n_in)
        return {"q0": q0, "r0": 0 * q0, "r0 squared": self.sigma**4 / self.n_in}

    def sample(self, rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
        """Draw ``a`` and ``w = W beta``."""
        size = (count, int(self.width))
        a = rng.normal(size=size) * float(self.sigma / np.sqrt(self.width))
        w = rng.normal(size=size) * float(self.sigma / np.sqrt(self.n_in))
        r = np.sum(a * w, axis=1)
        return {"q0": np.sum(a * a + w * w, axis=1) / 2, "r0": r, "r0 squared": r**2}

    @classmethod
    def example(cls, rng: np.random.Generator) -> InitialOverlaps:
        """Return the sizes of the paper's figure B.1 (a)."""
        return cls(width=10, n_in=25, sigma=rng.uniform(0.1, 1.0))
