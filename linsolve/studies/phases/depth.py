"""Phase diagram of depth against initialization: learning time of a balanced mode and its contributions."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.numerics.quadrature import legendre
from linsolve.plot.style import COLORS
from linsolve.studies.phases.diagrams import Axis, Curve, Diagram, Mark
from linsolve.studies.phases.two_layer import centers
from linsolve.systems.mode.deep_mode import DeepMode

__all__ = ["depth"]

TIMES = (3, 5, 10, 30, 100, 1000, 10**4)
SLOW, FAST = 0.1, 0.9  # fractions of the target at the end of the wait and of the rise
NODES = 120  # of a quadrature over at most fifteen e-folds


def depth(cells: int, rng: np.random.Generator) -> Diagram:
    r"""Return the time to 1 % of the loss of a balanced mode over its start ``y0 = a0/s`` and its inverse depth.

    In units of the mode's final relaxation time ``1/(eta L s^(2 - 2/L))`` it obeys ``y' = y^(2 - 2/L) (1 - y)``, so
    that infinite depth is a line of the diagram. Boundaries, with ``m = 1 - 2/L``:

    - isochrones ``G(1 - (1 - y0)/10) - G(y0) = t``, ``G = -y^-m 2F1(1, -m; 1 - m; y)/m``; at two layers
      ``y0 = 9/(e^t - 1)``;
    - wait = rise, ``G(1/10) - G(y0) = G(9/10) - G(1/10)``: sharper sigmoids to the left; at two layers ``y0 = 1/730``;
    - ``y0 = (L - 2)/(2L - 2)``, where ``y'/y`` is largest: to the left growth speeds up, and each e-fold that the start
      is smaller costs more time than the one before, a power of ``1/y0`` in all; at two layers their logarithm, below
      two a time that stays finite;
    - ``y0 = 2^(-L/(2L - 2))``, from where the tangent kernel, of order ``y^(2 - 2/L)``, doubles.
    """
    start, inverse = centers(-6, 0, cells, log=True), centers(0, 1, cells)
    y = start + 0 * inverse[:, None]
    flow = DeepMode(s=1.0, depth=1 / inverse[:, None], tau=1 / inverse[:, None])
    needed = traveled(flow, y, 1 - (1 - y) / 10)
    wait, rise = traveled(flow, y, SLOW), traveled(flow, SLOW, FAST)
    kernel = [flow.velocity(np, flow.State(a)).a / (1 - a) for a in (y, np.nextafter(1, 0))]
    here, later = (flow.velocity(np, flow.State(a)).a / a for a in (y, y * (1 + 1e-6)))
    low, middle = np.geomspace(1e-7, 0.5, 300), np.geomspace(1e-7, 2**-0.5, 300)
    times = {k: f"t = {k}" for k in TIMES}
    return Diagram(
        name="depth",
        title="Depth against initialization: time to 1 % of the initial loss",
        x=Axis("x", start, r"start over target  $a_0 / s$   ($a_0 = \sigma^L$,  weights of size $\sigma$)", log=True),
        y=Axis("y", inverse, r"inverse depth  $1/L$   (0: infinitely deep)", log=False),
        values=np.log10(needed),
        label=r"$\log_{10} t$   (units of $1/(\bar\eta\, L\, s^{2 - 2/L})$)",
        source="Curves: exact, $t = G(y_1) - G(y_0)$, $y = a/s$,  $G = -y^{-m}\\, {}_2F_1(1, -m; 1 - m; y)/m$,  "
        "$m = 1 - 2/L$;\nwait: up to $y = 0.1$, rise: from 0.1 to 0.9. "
        "Map: velocity of the balanced mode, integrated by quadrature.\n"
        "After Saxe et al. (2014); Atanasov et al. (2022), (39), corrected: "
        "$\\dot a = \\bar\\eta L\\, a^{2 - 2/L} (s - a)$.",
        sides={name: needed < k for k, name in times.items()}
        | {"wait = rise": wait > rise, "escape": later > here, "kernel doubles": kernel[1] > 2 * kernel[0]},
        curves=(
            *(
                Curve("time $t$" * (k == TIMES[0]), *points, name, inline=f"{k:g}")
                for (k, name), points in zip(times.items(), _isochrones(), strict=True)
            ),
            Curve(
                "wait = rise  (left: plateau first)", *_sharp(), "wait = rise",
                {"color": COLORS["vermilion"], "linewidth": 2.6},
            ),
            Curve(
                r"$a_0/s = (L - 2)/(2L - 2)$  (left: $\dot a/a$ rises)",
                low, (1 - 2 * low) / (2 - 2 * low), "escape",
                {"color": COLORS["sky"], "linewidth": 2.6, "linestyle": (0, (1.2, 1.2))},
            ),
            Curve(
                r"kernel doubles: $a_0/s = 2^{-L/(2L - 2)}$  (left: rich)",
                middle, 1 + 1 / (2 * np.log2(middle)), "kernel doubles",
                {"color": COLORS["black"], "linestyle": (0, (4, 2.5))},
            ),
        ),
        marks=tuple(Mark(f"$L = {n}$", 1.3e-6, 1 / n, (8, side)) for n, side in ((2, -13), (3, -13), (5, 5))),
    )  # fmt: skip


def traveled(flow: DeepMode, low: Any, high: Any) -> np.ndarray:
    """Return the time from ``a = low`` to ``a = high``, 0 if that lies below, from the flow's velocity alone.

    By Gauss-Legendre quadrature of ``1/a'`` in the odds' logarithm, ``a = s/(1 + e^-z)``.
    """
    nodes, weights = legendre(np, NODES)
    ends = [np.log(v) - np.log1p(-np.asarray(v)) for v in (low, high)]
    span = np.maximum(ends[1] - ends[0], 0)
    total = np.zeros(np.broadcast_shapes(span.shape, flow.depth.shape))
    for node, weight in zip(nodes, weights, strict=True):
        a = 1 / (1 + np.exp(-(ends[0] + node * span)))
        total += weight * a * (1 - a) / flow.velocity(np, flow.State(a)).a
    return total * span


def _time(y: np.ndarray, goal: Any, inverse: np.ndarray) -> np.ndarray:
    """Return the time from `y` to `goal`, by the closed form."""
    endless = inverse == 0
    depth = np.where(endless, np.inf, 1 / np.where(endless, 1, inverse))
    flow = DeepMode(s=1.0, depth=depth, tau=np.where(endless, 1, depth))
    return np.asarray(flow.time_to(np, flow.State(y), loss=(1 - goal) ** 2 / 2))


def _zero(function: Any, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return where a falling function vanishes, nan where it does not between `low` and `high`, by bisection."""
    some = (function(low) > 0) & (function(high) < 0)
    for _ in range(45):
        middle = (low + high) / 2
        positive = function(middle) > 0
        low, high = np.where(positive, middle, low), np.where(positive, high, middle)
    return np.where(some, low, np.nan)


def _curves(late: Any, highest: float, count: int = 1) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return, for each of `count` curves, starts and inverse depths at which ``late(y, x)`` is 0, from depth inf on.

    Such times fall with the start, which is below `highest`, and with the inverse depth: shallow modes learn sooner.
    """
    flat = np.zeros((count, 1))
    end = np.exp(_zero(lambda v: late(np.exp(v), flat), flat - 20, flat + np.log(highest)))
    y = end * np.append(np.geomspace(1e-7, 0.1, 80), np.linspace(0.1, 1, 60)[1:-1])
    x = _zero(lambda v: late(y, v), np.zeros_like(y), np.full_like(y, 1 - 1e-9))
    pairs = zip(np.append(y, end, axis=-1), np.append(x, flat, axis=-1), strict=True)
    return [(a[np.isfinite(b)], b[np.isfinite(b)]) for a, b in pairs]


def _isochrones() -> list[tuple[np.ndarray, np.ndarray]]:
    """Return starts and inverse depths that take each of `TIMES`."""
    t = np.array(TIMES)[:, None]
    return _curves(lambda y, x: _time(y, 1 - (1 - y) / 10, x) - t, 1 - 1e-9, len(TIMES))


def _sharp() -> tuple[np.ndarray, np.ndarray]:
    """Return starts and inverse depths whose wait up to 10 % is as long as their rise from 10 % to 90 %."""
    return _curves(lambda y, x: _time(y, SLOW, x) - _time(np.full_like(y, SLOW), FAST, x), SLOW)[0]
