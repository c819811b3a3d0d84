"""Times of the successive drops of the loss of three or more layers with several outputs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from linsolve import arithmetic
from linsolve.core.integrate import first_zero
from linsolve.core.network import deep_weights, maps
from linsolve.core.network_law import Estimate, GivenNetwork, NetworkLaw
from linsolve.core.parameters import parameter
from linsolve.systems.small_start.start import refuse
from linsolve.systems.small_start.unaligned import LATE, UnalignedStart, deep_network

__all__ = ["SaddleToSaddle"]

NEAR = 1e-3  # least relative distance of two singular values that are learned in separate drops


class SaddleToSaddle(UnalignedStart):
    r"""Times of the drops of the loss of three or more layers with several outputs, from any small start.

    From :math:`\sigma V_l` on white inputs, target :math:`S = \sum_k s_k z_k v_k^T`, mode 1 is learned when the leading
    system of `linsolve.deep.blow_up` blows up, at :math:`\tau_1^*`. There the singular pair that blew up is removed
    from each layer,

    .. math:: V_l \to (I - r_{l+1} r_{l+1}^T) V_l (I - r_l r_l^T), \qquad S \to S - s_1 z_1 v_1^T,

    and the system starts again: drop k is at :math:`\bar\eta\, t_k = \sigma^{2-L} (\tau_1^* + \dots + \tau_k^*) +
    O(\log 1/\sigma)`, :math:`\bar\eta` the geometric mean of the rates. Between drops the kernel is that of a balanced
    network of k modes (`linsolve.deep.DeepNetwork`).

    Parameters
    ----------
    start : array_like, shape (layer, width, width)
        Layers over ``sigma``, at least three.
    target : array_like, shape (n_out, n_in)
        Target map ``S``, with distinct singular values other than 0.
    rates : array_like, shape (layer,)
        Learning rates.

    Raises
    ------
    ValueError
        If there are fewer than three layers, two singular values agree to 1e-3, or the start converges to 0 output.

    Notes
    -----
    Approximates the network with numerically integrated weights, whose drop k is the time at which its map along
    :math:`z_k v_k^T` is :math:`s_k/2`. The pairs that blow up are the first singular vectors of the layers at that
    time.

    Source: Atanasov, Bordelon, Pehlevan (2022), section 4.2 and figure 5(b). ``linsolve card SaddleToSaddle`` lists the
    published formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> law = ls.laws.SaddleToSaddle(start=[np.eye(2)] * 3, target=np.diag([2.0, 1.0]), rates=[1.0] * 3)
    >>> {name: float(time.round(3)) for name, time in law.approximation(np, 0.01).items()}
    {'drop 1': 50.0, 'drop 2': 100.0}
    """

    target: Any = parameter("S", "map to be learned", axes=("n_out", "n_in"))

    timed: ClassVar[bool] = False
    names: ClassVar[tuple[str, ...]] = ("drop 1", "drop 2")
    orders: ClassVar[Mapping[str, float]] = dict.fromkeys(names, 1)
    scales: ClassVar[tuple[float, ...]] = (4e-3, 2e-3, 1e-3)

    def __post_init__(self) -> None:
        super().__post_init__()
        u, s, vt = np.linalg.svd(arithmetic.to_numpy(self.target).astype(float), full_matrices=False)
        s = s[s > 1e-12 * s[0]]
        if np.any(s[1:] > (1 - NEAR) * s[:-1]):
            rule = "must have distinct ones (equal modes are learned at once)"
            refuse(self, "target", f"a map of singular values {s}", rule, "perturb the target")
        names = [f"drop {k + 1}" for k in range(len(s))]
        object.__setattr__(self, "orders", dict.fromkeys(names, self.start.shape[0] - 2))
        object.__setattr__(self, "_modes", (u[:, : len(s)], s, vt[: len(s)]))

    @cached_property
    def drops(self) -> list[float]:
        """``tau_1^*, tau_1^* + tau_2^*, ...`` in units of ``sigma^(2-L)`` at rate 1."""
        layers, (u, s, vt) = self.equal_layers(), self._modes  # type: ignore[attr-defined]
        found: list[float] = []
        for k in range(len(s)):
            _, time, end = self.blown_up((u[:, k:] * s[k:]) @ vt[k:], layers)
            found.append(time + (found[-1] if found else 0.0))
            layers = [_projected(layer) for layer in end]
        return found

    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the times of the drops."""
        scale = float(small) ** (2 - self.start.shape[0]) / self.clock
        return {name: xp.asarray(scale * tau) for name, tau in zip(self.orders, self.drops, strict=True)}

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the times at which the integrated network has learned half of each mode."""
        u, s, vt = self._modes  # type: ignore[attr-defined]
        flow = deep_weights(np.asarray(self.target), self.start.shape[0], rates=np.asarray(self.rates))
        start, found = flow.State(*self.layers_at_start(small)), {}
        for k, name in enumerate(self.orders):

            def gap(z: Any, k: int = k) -> float:
                return float(u[:, k] @ maps(z)[-1] @ vt[k] / s[k]) - 0.5

            found[name] = xp.asarray(first_zero(flow, start, gap, until=LATE, rtol=1e-10, atol=1e-16)[0])
        return found

    @classmethod
    def applied(cls, given: GivenNetwork) -> NetworkLaw:
        """Return the times of the drops of a network of three or more layers on white inputs."""
        net = deep_network(cls, given)
        law, depth = cls.of_network(net), net.red.depth
        times = [tau / net.clock for tau in law.drops]

        def predict(given: GivenNetwork) -> dict[str, Estimate]:
            error = float(net.small ** (depth - 2) * (1 + abs(np.log(net.small))))
            pairs = zip(law.orders, np.asarray(times), strict=True)
            return {name: Estimate(lambda t=t: t, depth - 2, error) for name, t in pairs}  # type: ignore[misc]

        return net.law(cls, predict)

    @classmethod
    def example(cls, rng: np.random.Generator) -> SaddleToSaddle:
        """Return three layers of unequal rates with 2 outputs on 4 inputs."""
        u, v = np.linalg.qr(rng.normal(size=(2, 2)))[0], np.linalg.qr(rng.normal(size=(4, 2)))[0]
        start = rng.normal(size=(3, 6, 6)) / np.sqrt(6)
        return cls(start=start, target=u @ np.diag([1.3, 0.7]) @ v.T, rates=rng.uniform(0.7, 1.4, 3))


def _projected(layer: np.ndarray) -> np.ndarray:
    """Return a layer without its first singular pair."""
    u, s, vt = np.linalg.svd(layer, full_matrices=False)
    return np.asarray((u[:, 1:] * s[1:]) @ vt[1:])
