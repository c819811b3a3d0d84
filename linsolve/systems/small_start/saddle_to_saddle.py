"""Times of the successive drops of the loss of three or more layers with several outputs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from linsolve.core.arguments import number
from linsolve.core.integrate import first_zero
from linsolve.core.network import deep_weights, maps
from linsolve.core.network_law import Estimate, GivenNetwork, NetworkLaw
from linsolve.core.parameters import parameter
from linsolve.systems.small_start.unaligned import LATE, UnalignedStart, deep_network, growth_time

__all__ = ["SaddleToSaddle"]

PLATEAU = 0.01  # share of a mode, from either end, in which half of the loss is a plateau


class SaddleToSaddle(UnalignedStart):
    r"""Times of the drops of the loss of three or more layers with several outputs, from any small start.

    From :math:`\sigma V_l` on white inputs, target :math:`S = \sum_k s_k z_k v_k^T`, a first mode is learned when the
    leading system of `linsolve.deep.blow_up` blows up, at :math:`\tau_1^*`. There the singular pair that blew up is
    removed from each layer,

    .. math:: V_l \to (I - r_{l+1} r_{l+1}^T) V_l (I - r_l r_l^T), \qquad S \to S - s_1 z_1 v_1^T, \quad
        z_1 = r_{L+1}, \; v_1 = r_1,

    and the system starts again: drop k is at :math:`\bar\eta\, t_k = \sigma^{2-L} (\tau_1^* + \dots + \tau_k^*) +
    O(\log 1/\sigma)`, :math:`\bar\eta` the geometric mean of the rates. Between drops the kernel is that of a balanced
    network of k modes (`linsolve.deep.DeepNetwork`). Equal singular values are learned one after the other, too, in
    directions that the start chooses. The loss has halved at

    .. math:: \bar\eta\, t = \sigma^{2-L} (\tau_1^* + \dots + \tau_k^*) + \frac{G(y)}{L s_k^{2 - 2/L}}, \qquad
        \sum_{a > k} s_a^2 + (1 - y)^2 s_k^2 = \tfrac12 |S|^2,

    with the ``k`` for which ``y`` lies in [0, 1], and ``G`` of `UnalignedLearningTime`, unless half of the
    loss is a plateau. No network has half of its loss before `earliest`.

    Parameters
    ----------
    start : array_like, shape (layer, width, width)
        Layers over ``sigma``, at least three.
    target : array_like, shape (n_out, n_in)
        Target map ``S``.
    rates : array_like, shape (layer,)
        Learning rates.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If there are fewer than three layers, or the start converges to 0 output.

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
    {'drop 1': 50.0, 'drop 2': 100.0, 'half of the loss': 49.583}
    >>> float(law.earliest(0.01).round(3))
    34.78
    """

    target: Any = parameter("S", "map to be learned", axes=("n_out", "n_in"))

    timed: ClassVar[bool] = False
    names: ClassVar[tuple[str, ...]] = ("drop 1", "drop 2")
    orders: ClassVar[Mapping[str, float]] = dict.fromkeys(names, 1)
    scales: ClassVar[tuple[float, ...]] = (4e-3, 2e-3, 1e-3)

    def __post_init__(self) -> None:
        super().__post_init__()
        depth, s = self.start.shape[0], np.array([mode[3] for mode in self.modes])
        left = np.cumsum(s[::-1] ** 2)[::-1]  # from mode k on
        k = int(np.sum(left > left[0] / 2)) - 1
        y = 1 - float(np.sqrt(max(1 - (left[k] - left[0] / 2) / s[k] ** 2, 0.0)))
        orders = {f"drop {mode + 1}": depth - 2 for mode in range(len(s))}
        if PLATEAU < y < 1 - PLATEAU:
            orders["half of the loss"] = depth - 2 if k else min(depth, 2 * depth - 4)
        object.__setattr__(self, "orders", orders)
        object.__setattr__(self, "_half", (k, y))

    @cached_property
    def modes(self) -> list[tuple[float, np.ndarray, np.ndarray, float]]:
        """``tau_1^* + ... + tau_k^*`` in units of ``sigma^(2-L)`` at rate 1, ``z_k``, ``v_k`` and ``s_k``."""
        layers, S = self.equal_layers(), np.asarray(self.target, dtype=float)
        sizes = np.linalg.svd(S, compute_uv=False)
        found: list[tuple[float, np.ndarray, np.ndarray, float]] = []
        for _ in range(int(np.sum(sizes > 1e-12 * sizes[0]))):
            _, time, end = self.blown_up(S, layers)
            pairs = [np.linalg.svd(layer, full_matrices=False) for layer in end]
            z, v = pairs[-1][0][:, 0], pairs[0][2][0]
            z = z * np.sign(z @ S @ v)
            found.append((time + (found[-1][0] if found else 0.0), z, v, float(z @ S @ v)))
            layers = [(u[:, 1:] * size[1:]) @ vt[1:] for u, size, vt in pairs]
            S = S - np.outer(z, z @ S)
            S = S - np.outer(S @ v, v)
        return found

    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the times of the drops and of half of the loss; raise ValueError unless `small` is in [1e-30, 1]."""
        depth, size = self.start.shape[0], _scale("approximation", small)
        times = [size ** (2 - depth) * mode[0] for mode in self.modes]
        if "half of the loss" in self.orders:
            k, y = self._half  # type: ignore[attr-defined]
            times.append(times[k] + growth_time(depth, self.modes[k][3], y))
        return {name: xp.asarray(time / self.clock) for name, time in zip(self.orders, times, strict=True)}

    def earliest(self, small: float) -> Any:
        r"""Return a time before which no network of these layers has half of its loss, an exact bound; 0 if none.

        With :math:`n = \sum_l |W_l|^2 / L` at equal rates, :math:`\dot n \leq 2 s_1 n^{L/2}`, and the map, which must
        reach the size :math:`m = |S| - 2^{-1/2} |S - W(0)|`, is at most :math:`n^{L/2}` in size. Hence

        .. math:: \bar\eta\, t \geq \frac{n_0^{1 - L/2} - m^{2/L - 1}}{(L - 2) s_1} .

        Raises
        ------
        ValueError
            If `small` is not between 1e-30 and 1.
        OverflowError
            If the bound is beyond the range of doubles.

        Examples
        --------
        >>> import numpy as np
        >>> import linsolve as ls
        >>> law = ls.laws.SaddleToSaddle(start=[[[1.0]]] * 3, target=[[1.0]], rates=[1.0] * 3)
        >>> round(float(law.earliest(0.01)), 3), round(float(law.exact(np, 0.01)["half of the loss"]), 3)
        (98.494, 98.747)
        """
        size = _scale("earliest", small)
        layers = [size * layer for layer in self.equal_layers()]
        depth, S = len(layers), np.asarray(self.target, dtype=float)
        gap = np.linalg.norm(S - maps(layers)[-1])
        reached = np.linalg.norm(S) - gap / np.sqrt(2)
        n0 = np.float64(sum(float(np.sum(layer**2)) for layer in layers) / depth)
        if not reached > n0 ** (depth / 2):
            return np.zeros(())
        with np.errstate(over="ignore"):
            first = n0 ** (1 - depth / 2)
        if not np.isfinite(first):
            raise OverflowError(
                f"SaddleToSaddle.earliest: small = {size:.3g} has a bound beyond doubles at depth {depth} (scale); "
                "enlarge it"
            )
        bound = (first - reached ** (2 / depth - 1)) / ((depth - 2) * np.linalg.norm(S, 2))
        return np.asarray(bound / self.clock)

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the times at which the integrated network has learned half of each mode, and half of its loss."""
        target = np.asarray(self.target)
        flow = deep_weights(target, self.start.shape[0], rates=np.asarray(self.rates))
        z, time, found = flow.State(*self.layers_at_start(_scale("exact", small))), 0.0, {}
        first = float(np.sum((target - maps(z)[-1]) ** 2))
        k, y = self._half  # type: ignore[attr-defined]
        learned = {name: k + y if "loss" in name else n + 0.5 for n, name in enumerate(self.orders)}
        for name in sorted(learned, key=lambda name: learned[name]):  # in the order of their times

            def gap(z: Any, name: str = name) -> float:
                made = maps(z)[-1]
                if "loss" in name:
                    return 0.5 - float(np.sum((target - made) ** 2)) / first
                _, left, right, s = self.modes[int(learned[name])]
                return float(left @ made @ right / s) - 0.5

            passed, z = first_zero(flow, z, gap, until=LATE, rtol=1e-10, atol=1e-16)[:2]
            time, z = time + passed, flow.State(*z)
            found[name] = xp.asarray(time)
        return found

    @classmethod
    def applied(cls, given: GivenNetwork) -> NetworkLaw:
        """Return the times of the drops of a network of three or more layers on white inputs."""
        net = deep_network(cls, given)
        law, depth = cls.of_network(net), net.red.depth
        times = {name: np.asarray(time / net.clock) for name, time in law.approximation(np, 1.0).items()}

        def predict(given: GivenNetwork) -> dict[str, Estimate]:
            error = float(net.small ** (depth - 2) * (1 + abs(np.log(net.small))))
            return {name: Estimate(lambda t=t: t, depth - 2, error) for name, t in times.items()}  # type: ignore[misc]

        return net.law(cls, predict)

    @classmethod
    def example(cls, rng: np.random.Generator) -> SaddleToSaddle:
        """Return three layers of unequal rates with 2 outputs on 4 inputs."""
        u, v = np.linalg.qr(rng.normal(size=(2, 2)))[0], np.linalg.qr(rng.normal(size=(4, 2)))[0]
        start = rng.normal(size=(3, 6, 6)) / np.sqrt(6)
        return cls(start=start, target=u @ np.diag([1.3, 0.7]) @ v.T, rates=rng.uniform(0.7, 1.4, 3))


def _scale(method: str, small: Any) -> float:
    who = f"SaddleToSaddle.{method}"
    return number(who, "small", small, meaning="scale of the start", domain="[1e-30, 1]", example=1e-3)
