"""Feature training of several hidden layers for a large target: change of kernel and weights, and learning time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from linsolve import arithmetic
from linsolve.core.network import maps, time_to_reach, trained
from linsolve.core.parameters import parameter
from linsolve.systems.small_start.final_kernel import tangent_kernel
from linsolve.systems.small_start.start import refuse
from linsolve.systems.small_start.unaligned import UnalignedStart

__all__ = ["DeepFeatureRegime", "ScaledOutput"]


class ScaledOutput(UnalignedStart):
    """Network of two or more hidden layers whose output, times a scale, learns a target on a line."""

    target: Any = parameter("y", "sign of the target", axes=("n_in",))

    timed: ClassVar[bool] = False
    unapplied: ClassVar[str] = "a scaling with the scale of the output; use UnalignedLearningTime.of for one network"

    def __post_init__(self) -> None:
        super().__post_init__()
        target = arithmetic.to_numpy(self.target).astype(float)
        if target.shape != (1,) or abs(target[0]) != 1:
            refuse(self, "target", target.tolist(), "must be [1] or [-1]", "G sets the size")
        if not np.all(arithmetic.to_numpy(self.rates).astype(float) == 1):
            refuse(self, "rates", arithmetic.to_numpy(self.rates).tolist(), "must be 1", "rescale the layers")

    def _trained(self, unit: float) -> tuple[float, float, float]:
        """Return kernel, change of the weights and half time of the trained network, integrated in units of its end.

        The layers are divided by `unit`, the size of the gap to the power ``1/(L+1)``.
        """
        layers = self.layers_at_start(1 / unit)
        gap = np.asarray(self.target) + float(maps(layers)[-1][0, 0])  # F learns y from f_0
        end = trained(layers, gap)
        moved = sum(float(np.sum((a - b) ** 2)) for a, b in zip(end, layers, strict=True)) ** 0.5
        power = unit ** (2 * len(layers) - 2)
        half = time_to_reach(layers, gap, loss=True)
        return float(tangent_kernel(end)[0, 0, 0, 0]) * power, moved * unit, half / power


class DeepFeatureRegime(ScaledOutput):
    r"""Feature training with two or more hidden layers, ``small`` :math:`= 1/G \ll 1`.

    With ``L`` hidden layers and :math:`G = |y| / (\rho \sqrt h\, \alpha)`, for :math:`F = \alpha (f - f_0)`, :math:`f =
    h^{-1/2} W_{L+1} z_L`, :math:`z_l = h^{-1/2} W_l z_{l-1}`, :math:`z_1 = W_1 x`, weights of order 1, width ``h`` and
    data on a line, ``rho`` :math:`= |x| d_{\rm in}^{-1/2}`, let :math:`V_l = W_l / \sqrt h` (the first along the line).
    At fixed ``h``, for any draw,

    .. math:: \frac{\Theta_\infty}{(L + 1) \rho^2} = G^{2L/(L+1)} \bigl(1 + O(G^{-p})\bigr), \quad
        p = \min\Bigl(1, \frac{4}{L+1}\Bigr),

    .. math:: \frac{|w - w_0|}{\sqrt h} = \sqrt{L + 1}\, G^{1/(L+1)} \bigl(1 + O(G^{-1/(L+1)})\bigr),

    .. math:: \rho^2 t_{1/2} = \frac{\tau^*}{G} \bigl(1 + O(G^{-(L-1)/(L+1)})\bigr),

    with :math:`\tau^*` the blow-up time of the layers :math:`V_l` (`linsolve.deep.blow_up`), for the loss
    :math:`(F - y)^2 / (2 \alpha^2)`. The exponents in :math:`\sqrt h\, \alpha` are :math:`a = 2/(1 + 1/L)` and
    :math:`b = 1/(L+1)`, 4/3 and 1/3 for two hidden layers, and the time has no logarithm, unlike at ``L = 1``.

    Parameters
    ----------
    start : array_like, shape (layer, width, width)
        :math:`V_l`, ``L + 1`` layers; the first column of the first and the first row of the last are used.
    target, rates
        The target is the sign of ``y``, ``[1]`` or ``[-1]``. All rates are 1.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If there are fewer than three layers, or the start converges to 0 output.

    Notes
    -----
    Approximates the network with numerically integrated weights. The imbalance of the layers changes the kernel only at
    second order; its error at ``L = 2`` is that of the output at the start. Exponents measured at finite ``G`` exceed
    their limits, since the corrections decay slowly. Not for: one hidden layer, see `FeatureRegime`.

    Source: Geiger, Spigler, Jacot, Wyart (2020), (18), (19), (30) and table 2. ``linsolve card DeepFeatureRegime``
    lists the published formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> law = ls.laws.DeepFeatureRegime(start=[[[1.0]], [[1.0]], [[1.0]]], target=[1.0], rates=[1.0] * 3)
    >>> found = law.approximation(np, 1e-6)  # G = 10^6
    >>> round(float(found["kernel"])), round(float(found["weights"]), 2), float(found["half time"].round(9))
    (100000000, 173.21, 1e-06)
    """

    symbol: ClassVar[str] = "1/G"
    meaning: ClassVar[str] = "size of the start over the initial residual"
    names: ClassVar[tuple[str, ...]] = ("kernel", "weights", "half time")
    orders: ClassVar[Mapping[str, float]] = {"kernel": 1, "weights": 1 / 3, "half time": 1 / 3}
    scales: ClassVar[tuple[float, ...]] = (1e-6, 1e-7, 1e-8)

    def __post_init__(self) -> None:
        super().__post_init__()
        depth = self.start.shape[0]
        powers = (min(1.0, 4 / depth), 1 / depth, 1 - 2 / depth)
        object.__setattr__(self, "orders", dict(zip(self.names, powers, strict=True)))

    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return kernel, change of the weights and half time."""
        depth, G = self.start.shape[0], 1 / float(small)
        values = (G ** (2 - 2 / depth), depth**0.5 * G ** (1 / depth), self.leading[1] / G)
        return dict(zip(self.names, map(xp.asarray, values), strict=True))

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the same quantities of the trained network, in the units in which its target is of order 1."""
        depth = self.start.shape[0]
        kernel, moved, half = self._trained(float(small) ** (-1 / depth))
        return dict(zip(self.names, map(xp.asarray, (kernel / depth, moved, half)), strict=True))

    @classmethod
    def example(cls, rng: np.random.Generator) -> DeepFeatureRegime:
        """Return two hidden layers of width 4 with a positive output at the start."""
        start = rng.normal(size=(3, 4, 4)) / 2
        start[2] *= np.sign(start[2][:1] @ start[1] @ start[0][:, :1])
        return cls(start=start, target=[1.0], rates=[1.0] * 3)
