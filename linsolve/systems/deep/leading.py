r"""Growth of three or more layers from a small start: the leading system and the time at which it blows up.

With :math:`W_l(0) = \sigma V_l`, white inputs, target ``S`` and :math:`\tau = \sigma^{L-2} t`, the flow of the network
at :math:`\sigma \to 0` is :math:`\dot V_l = V_{>l}^T S V_{<l}^T`, the gradient ascent of
:math:`g = \mathrm{tr}(S^T V_L \cdots V_1)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.arguments import real_array, refuse_shape
from linsolve.core.integrate import joined, parted
from linsolve.core.matrix_arguments import chained
from linsolve.core.network import gradient_flow, maps
from linsolve.systems.deep.leading_closed import closed_time

__all__ = ["BlowUp", "Growth", "blow_up"]

TINY = 1e-30  # share of the size below which a layer grows as one of zeros does
FAR = 1e7  # size at which the rest of the time follows from the size alone
NEVER = 1e-9  # relative velocity below which a start is taken to converge to 0 output
LONGEST = 1e5  # longest integration, in units of the inverse target
RTOL, FINE = 1e-13, 1e-16  # relative tolerance, and the absolute one over the size of each layer


class BlowUp(NamedTuple):
    r"""Blow-up of the leading system of a small start.

    Parameters
    ----------
    time : float
        :math:`\tau^*`, in units of :math:`\sigma^{2-L}` over the rate; inf if the start converges to 0.
    lower, upper : float
        Bounds from the start alone; `upper` is inf unless :math:`g > 0` at the start.
    closed : bool
        Whether the time is a closed form or quadrature; otherwise the leading system is integrated.
    layers : tuple of ndarray
        Layers divided by their common size where the system blows up, of rank one.

    Examples
    --------
    >>> from linsolve import deep
    >>> found = deep.blow_up([[[1.0]], [[1.0]], [[1.0]]], [[1.0]])
    >>> round(found.time, 12), found.closed
    (1.0, True)
    """

    time: float
    lower: float
    upper: float
    closed: bool
    layers: tuple[np.ndarray, ...]


class Growth:
    """The leading system of layers and a target, integrated in the logarithm of its size.

    Parameters
    ----------
    layers : sequence of ndarray
        ``V_l``, first layer first.
    target : ndarray, shape (n_out, n_in)
    """

    def __init__(self, layers: Sequence[np.ndarray], target: np.ndarray) -> None:
        self.layers, self.target = [np.asarray(v, dtype=float) for v in layers], np.asarray(target, dtype=float)
        self.shapes, self.depth = [v.shape for v in self.layers], len(self.layers)

    def output(self, layers: Sequence[np.ndarray]) -> float:
        """Return ``g``, the output along the target times its size."""
        return float(np.sum(self.target * maps(layers)[-1]))

    def _velocity(self, y: np.ndarray) -> np.ndarray:
        layers = parted(y, self.shapes)
        return joined(gradient_flow(np, layers, maps(layers), self.target, [1.0] * self.depth))

    def at(self, times: Any) -> list[np.ndarray]:
        """Return the layers at times before the blow-up, in any order, shapes (time, rows, columns)."""
        from scipy.integrate import solve_ivp

        stops, back = np.unique(np.asarray(times, dtype=float), return_inverse=True)
        start, floor = joined(self.layers), FINE * max(float(np.abs(v).max()) for v in self.layers)
        span = (0.0, float(stops[-1]) or 1.0)
        path = solve_ivp(lambda _, y: self._velocity(y), span, start, "DOP853", stops, rtol=RTOL, atol=floor)
        if path.status != 0:
            late = f"{stops[-1]:.6g} must be before the blow-up"
            raise ArithmeticError(f"Growth: times = {late} (of the leading system); end earlier")
        return parted(path.y.T[back], self.shapes)

    def until(self, event: Callable[[list[np.ndarray]], float] | None = None) -> tuple[float, list[np.ndarray]]:
        """Return time and layers at the first zero of a function of the layers, or by default at the size `FAR`.

        The time is inf if neither is reached.
        """
        from scipy.integrate import solve_ivp

        power = self.depth - 2
        start = np.append(joined(self.layers), 0.0)
        size = float(np.linalg.norm(start))
        far, fastest = FAR * size, self._fastest()
        if fastest == 0:
            return np.inf, self.layers

        def rate(_: float, y: np.ndarray) -> np.ndarray:
            shrunk = (np.linalg.norm(y[:-1]) / size) ** -power * (size / fastest)
            return np.append(self._velocity(y[:-1]) * shrunk, shrunk)

        def grown(_: float, y: np.ndarray) -> float:
            return float(np.linalg.norm(y[:-1]) / far - 1)

        def met(_: float, y: np.ndarray) -> float:
            return 1.0 if event is None else float(event(parted(y[:-1], self.shapes)))

        def at_rest(_: float, y: np.ndarray) -> float:
            most = strength * fastest * (np.linalg.norm(y[:-1]) / size) ** (power + 1)
            return float(np.linalg.norm(self._velocity(y[:-1])) / most - NEVER)

        strength = float(np.linalg.norm(self.target, 2))
        if at_rest(0.0, start) <= 0:
            return np.inf, self.layers
        grown.terminal = met.terminal = at_rest.terminal = True  # type: ignore[attr-defined]
        largest = [float(np.abs(v).max()) for v in self.layers]
        floors = [
            np.full(v.size, FINE * (m if m > TINY * size else size)) for v, m in zip(self.layers, largest, strict=True)
        ]
        floor = np.append(np.concatenate(floors), FINE * self.bound())
        events = (grown, met, at_rest)
        path = solve_ivp(rate, (0.0, LONGEST / strength), start, "DOP853", events=events, rtol=RTOL, atol=floor)
        layers = parted(path.y[:-1, -1], self.shapes)
        if path.status != 1 or not path.t_events[0 if event is None else 1].size:
            return np.inf, layers
        return float(path.y[-1, -1]), layers

    def _fastest(self) -> float:
        """Return the largest product of the spectral norms of all layers but one, which bounds the velocity."""
        norms = [float(np.linalg.norm(v, 2)) for v in self.layers]
        return max(math.prod(norms[:k] + norms[k + 1 :]) for k in range(self.depth))

    def bound(self) -> float:
        """Return the lower bound of the blow-up time, ``n_0^(1 - L/2) / ((L - 2) s_1)``."""
        size = sum(float(np.sum(v**2)) for v in self.layers) / self.depth
        return float(size ** (1 - self.depth / 2) / ((self.depth - 2) * np.linalg.norm(self.target, 2)))

    def left(self, layers: Sequence[np.ndarray]) -> float:
        """Return the time from large layers to the blow-up, of relative error ``|V|^-2``."""
        size = np.sqrt(sum(np.sum(v**2) for v in layers) / self.depth)
        return float(size**2 / ((self.depth - 2) * self.output(layers)))


def blow_up(layers: Sequence[Any], target: Any) -> BlowUp:
    r"""Return the time :math:`\tau^*` at which three or more layers leave a small start, a function of the draw.

    From initial weights :math:`W_l = \sigma V_l` on white inputs, at rate 1, the strongest mode of the target is
    learned at :math:`t = \sigma^{2-L} \tau^* (1 + o(1))`; see the law `UnalignedLearningTime`. The time is closed
    if every layer has one hidden unit, with :math:`x_l` the squares of the weights and ``s`` the target,

    .. math:: \tau^* = \frac{1}{2 s} \int_0^\infty \frac{dz}{\sqrt{\prod_l (z + x_l)}}
        \quad (= R_F(x_1, x_2, x_3)/s, \; L = 3),

    and, for one output at :math:`L = 3`, if one of the two hidden layers has one unit. Otherwise the leading system is
    integrated. With :math:`n_0 = \sum_l |V_l|^2/L` and :math:`g_0` at the start,

    .. math:: \frac{n_0^{1 - L/2}}{(L - 2) s_1} \leq \tau^* \leq \frac{n_0}{(L - 2) g_0} \quad (g_0 > 0).

    Parameters
    ----------
    layers : sequence of at least three array_like, shapes (n_l, n_{l-1})
        Initial weights over ``sigma``, first layer first.
    target : array_like, shape (n_out, n_in) or (n_in,)
        Map to be learned.

    Returns
    -------
    BlowUp

    Raises
    ------
    ValueError
        If there are fewer than three layers, or shapes do not fit, or layers or target are 0.

    Notes
    -----
    Equal, aligned layers of size 1 have :math:`\tau^* = 1/((L - 2) s)`, the value of Atanasov et al. (2022), section
    4.1.1. The scalar form at negative ``g`` is twice the time from the turning point less the time from the start.
    Accuracy: 1e-12 (``tests/systems/deep/test_leading.py``).

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import deep
    >>> found = deep.blow_up([np.eye(2), np.eye(2), [[1.0, 0.0]]], [2.0, 0.0])
    >>> round(found.time, 10), found.lower <= found.time <= found.upper
    (0.5, True)
    >>> round(deep.blow_up([[[-1.0]], [[2.0]], [[3.0]]], [[1.0]]).time, 6)  # the output turns from -6 sigma^3
    0.889684
    """
    given, S = _checked("blow_up", layers, target)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        found = _blow_up(given, S)
    if np.isnan([found.time, found.lower, found.upper]).any() or found.time > found.upper * (1 + 1e-9):
        raise OverflowError(
            "blow_up: layers differ by too many decades (weights): their growth is below 1e-9 of its scale, or beyond "
            "doubles; give layers of similar size"
        )
    return found


def _blow_up(given: list[np.ndarray], S: np.ndarray) -> BlowUp:
    depth, growth = len(given), Growth(given, S)
    n0, g0 = sum(float(np.sum(v**2)) for v in given) / depth, growth.output(given)
    upper = n0 / ((depth - 2) * g0) if g0 > 0 else np.inf
    time, end = growth.until()
    size = np.sqrt(sum(np.sum(v**2) for v in end) / depth)
    closed = closed_time(given, S)
    if closed is None:
        time += growth.left(end) if np.isfinite(time) else 0.0
    return BlowUp(
        time if closed is None else closed, growth.bound(), upper, closed is not None, tuple(v / size for v in end)
    )


def _checked(who: str, layers: Any, target: Any) -> tuple[list[np.ndarray], np.ndarray]:
    """Return at least three layers that chain, and a target of their shape."""
    given = [np.asarray(w) for w in chained(who, layers, least=3)]
    S = np.atleast_2d(np.asarray(real_array(who, "target", target, meaning="map to be learned")))
    ends = (given[-1].shape[0], given[0].shape[1])
    refuse_shape(who, "target", S, ends, meaning="map to be learned", fix="the layers have these outputs and inputs")
    for name, values in (("layers", given), ("target", [S])):
        size = max(float(np.abs(v).max()) for v in values)
        if not 1e-30 <= size <= 1e30:
            raise ValueError(f"{who}: {name} = {size:.3g} at most must lie between 1e-30 and 1e30 in size; rescale")
    return given, S
