"""Phase diagram of the learning rate: gradient descent of two layers, from convergence to chaos and divergence."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.step_rules import Rule
from linsolve.numerics.threads import shared
from linsolve.plot.style import COLORS
from linsolve.studies.phases.diagrams import Axis, Curve, Diagram, Mark
from linsolve.studies.phases.two_layer import centers
from linsolve.systems.two_layer.order_parameters import OrderDescent, TwoLayerOrder

__all__ = ["descent"]

FLOW = TwoLayerOrder(y=1.0)
STEPS, LONGEST = 4096, 16384  # numbers of steps: of all runs, and of runs that still converge
PERIODS = 64  # longest period that counts as a cycle
FIRST, SMALL = 1e-4, 0.3  # residual over the target: at the start, and of runs on their way to rest
GOLDEN = 2 * (np.sqrt(5) - 1)  # where the 2-cycle of the balanced map loses its stability
REGIONS = (
    ("the minimum attracts", "#CFE6F6"),
    ("catapult to a flatter minimum", "#9CCBEA"),
    ("2-cycle", "#FBEBC8"),
    ("longer cycles", "#F3CC83"),
    ("chaos", "#E2A08A"),
    ("diverges", "#D9D9D9"),
)


def descent(cells: int, rng: np.random.Generator) -> Diagram:
    r"""Return the long-time behavior of gradient descent from a minimum, over learning rate and imbalance.

    Descent of `TwoLayerOrder` starts at a minimum of imbalance ``i = 4 A B/y^2``, ``f = A - B``, whose sharpness is
    ``sqrt(1 + i)`` times that of the flattest minimum, with a residual of 1e-4 of the target. Boundaries, with X the
    step times the sharpness of the flattest minimum:

    - ``X sqrt(1 + i) = 2``: the minimum loses its stability, and descent leaves for a flatter one;
    - ``X = 2``: the flattest minimum loses its stability to the 2-cycle of the balanced map;
    - ``X = 2 (sqrt 5 - 1)``: the multiplier ``9 - 2 (1 + X/2)^2`` of the 2-cycle falls to -1;
    - ``X sqrt(1 + i) = 4``: descent diverges.

    The last edge, at any imbalance: with ``e`` the residual and ``T = A + B``, both in units in which a step multiplies
    the layers by ``1 -+ e``, and ``mu = X/2``, a step multiplies ``2 + mu e/2 - T`` by ``1 + mu e + e^2``, which is
    positive for ``mu < 2``. The line ``T = 2 + mu e/2`` is thus invariant, and on it ``e = 2 sin(3^k phi)`` up to sign:
    solvable chaos at every imbalance. Runs below the line stay in the triangle that it forms with ``A = 0`` and
    ``B = 0``. Every minimum above it has ``T > 2`` and repels, so that no run above it converges; that these runs
    diverge is proved on the balanced line (i = 0), and measured elsewhere.
    """
    scaled, imbalance = centers(0, 4.4, cells), centers(-2, 2, cells, log=True)
    found = outcome(np.repeat(scaled[None], cells, axis=0).ravel(), np.repeat(imbalance, cells)).reshape(cells, cells)
    corners = 3.0, (4 / GOLDEN) ** 2 - 1  # where the vertical lines meet the edge of divergence
    level = np.unique(np.append(np.geomspace(1e-4, 1e4, 400), corners))
    edge, steep = 2 / np.sqrt(1 + level), 4 / np.sqrt(1 + level)
    (below, past), (doubled, golden) = ((level <= corner, level >= corner) for corner in corners)
    blue, red, gray = ({"color": COLORS[name]} for name in ("blue", "vermilion", "black"))
    hidden = {"alpha": 0.0}  # drawn as the edge of divergence
    return Diagram(
        name="descent",
        title="Gradient descent of two layers, from next to a minimum",
        x=Axis("x", scaled, r"$X$ = learning rate $\times$ sharpness of the flattest minimum", log=False),
        y=Axis("y", imbalance, r"imbalance of the initial minimum,  $i = 4AB/y^2$", log=True),
        values=found,
        label="long-time behavior",
        source=r"Output $f = u \cdot w = A - B$, $A, B = |u \pm w|^2/4$, target $y$, residual $e = f - y$,"
        "\n"
        r"$x_k = (\rho e)^2$ after $k$ steps, $\rho = X/2y$ twice the learning rate."
        "\n"
        r"Curves: multipliers of $A \to A(1 - \rho e)^2$, $B \to B(1 + \rho e)^2$;"
        "\n"
        r"edge of divergence: invariant line $\rho (A + B) = 2 + \rho^2 y e/2$. Map: order parameters,"
        "\n"
        f"{STEPS} steps, at any width. Catapult after Lewkowycz et al. (2020).",
        sides={
            "stays": found < 1,
            "comes to rest": found < 2,
            "2-cycle": _first_two(found, scaled),
            "bounded": found < 5,
        },
        curves=(
            Curve(r"$X \sqrt{1 + i} = 2$: edge of stability", edge, level, "stays", blue | {"linewidth": 2.6}),
            Curve("$X = 2$: flattest minimum", np.full(below.sum(), 2.0), level[below], "comes to rest", gray),
            Curve("", steep[past], level[past], "comes to rest", hidden),
            Curve(
                r"$X = 2(\sqrt{5} - 1)$: period doubling",
                np.full(doubled.sum(), GOLDEN),
                level[doubled],
                "2-cycle",
                gray | {"linestyle": (0, (4, 2.5))},
            ),
            Curve("", steep[golden], level[golden], "2-cycle", hidden),
            Curve(r"$X \sqrt{1 + i} = 4$: divergence", steep, level, "bounded", red | {"linewidth": 2.6}),
        ),
        regions=REGIONS,
        marks=(Mark(r"$x_k = 4 \sin^2(3^k \theta)$", 4.0, 0.0103, (-8, 8)),),
    )


def _first_two(found: np.ndarray, scaled: np.ndarray) -> np.ndarray:
    """Return where descent comes to rest or to the first 2-cycle, not to that of the window from X = 4 sqrt 2 - 2."""
    return (found < 2) | ((found == 2) & (scaled < 3))


class Run(NamedTuple):
    """Descent in its order parameters, and extremes of its residual over a window of steps.

    Parameters
    ----------
    P, Q, residual : array
    before : array
        Residual before the last step.
    drift, top : array
        Largest change of the residual in two steps, and largest residual, both in absolute value.
    """

    P: Any
    Q: Any
    residual: Any
    before: Any
    drift: Any
    top: Any


class Return(NamedTuple):
    """Descent, and the smallest distance of two successive residuals from two given ones."""

    P: Any
    Q: Any
    residual: Any
    before: Any
    gap: Any


def _moved(xp: Any, now: Any, h: Any) -> Any:
    """Return the order parameters after one step."""
    return FLOW.advanced(xp, None, OrderDescent(now.P, now.Q, 0 * now.P, now.residual), Rule(h))


def _followed(xp: Any, now: Run, h: Any, _: None = None) -> Run:
    """Return a run after one step."""
    at = _moved(xp, now, h)
    drift = xp.maximum(now.drift, xp.abs(at.residual - now.before))
    return Run(at.P, at.Q, at.residual, now.residual, drift, xp.maximum(now.top, xp.abs(at.residual)))


def _returned(xp: Any, now: Return, given: tuple[Any, Any, Any], _: None = None) -> Return:
    """Return a run after one step; `given` are the step and the two residuals."""
    h, last, before = given
    at = _moved(xp, now, h)
    off = xp.maximum(xp.abs(at.residual - last), xp.abs(now.residual - before))
    return Return(at.P, at.Q, at.residual, now.residual, xp.minimum(now.gap, off))


def _taken(step: Callable[..., Any], now: Any, given: Any, count: int, engine: str) -> Any:
    """Return a run after `count` steps, in machine code or NumPy, with the same bits."""
    if engine == "compiled":
        from linsolve.engines.recursion import recursion

        return recursion(step, step, now, given, None, now.P.shape, 1)(now, 0, count)
    with np.errstate(over="ignore", invalid="ignore"):  # runs that diverge are recognized by it
        for _ in range(count):
            now = step(np, now, given)
    return now


def outcome(scaled: np.ndarray, imbalance: np.ndarray, engine: str | None = None) -> np.ndarray:
    """Return the number of the region of each run, as in `REGIONS`.

    Parameters
    ----------
    scaled, imbalance : array, shape (n,)
        Step times the sharpness of the flattest minimum, and ``4 A B/y^2`` at the initial minimum, for ``y = 1``.
    engine : str, optional
        "plain" (NumPy) or "compiled" (extra ``[fast]``), with equal results; by default "compiled" if it is installed.
    """
    engine = engine or ("compiled" if find_spec("llvmlite") else "plain")
    parts = np.array_split(np.arange(scaled.size), max(scaled.size // 2**14, 1))  # a part stays in a cache
    return np.concatenate(shared(lambda part: _outcome(scaled[part], imbalance[part], engine), parts))


def _outcome(scaled: np.ndarray, imbalance: np.ndarray, engine: str) -> np.ndarray:
    h: np.ndarray = scaled / 4  # the flattest minimum has sharpness 4
    P = (np.sqrt(1 + imbalance) + 1) / 2
    first: np.ndarray = np.full(scaled.shape, FIRST)
    zero = np.zeros(scaled.shape)
    run = Run(P + FIRST, imbalance / 4 / P, first, first, zero, zero)
    found: np.ndarray = np.empty(scaled.shape, dtype=int)
    open_: np.ndarray = np.arange(scaled.size)
    largest: np.ndarray = first
    done = 0
    while open_.size and done < LONGEST:
        last, count = run.top, min(max(done, PERIODS), 1024)
        run = _taken(_followed, run._replace(drift=0 * h, top=0 * h), h, count, engine)
        done += count
        largest = np.fmax(largest, run.top)
        with np.errstate(invalid="ignore"):
            two = (run.drift < 1e-7 * run.top) & (np.abs(run.top - last) < 1e-6 * run.top) & (run.top > 2 * FIRST)
            slow = run.drift < 0.1 * run.top  # next to an edge of stability the residual grows or falls slowly
        region = np.select([~np.isfinite(run.top), run.top < FIRST / 100, two], [5, _at_rest(largest), 2], -1)
        if done >= STEPS:
            left = np.nonzero((region < 0) & ~slow)[0]
            region[left] = _cycle(Run(*(v[left] for v in run)), h[left], engine)
        found[open_] = np.where(region < 0, np.where(run.top < SMALL, _at_rest(largest), 4), region)
        going = region < 0
        open_, h, largest = (v[going] for v in (open_, h, largest))
        run = Run(*(v[going] for v in run))
    return found


def _cycle(run: Run, h: np.ndarray, engine: str) -> np.ndarray:
    """Return 3 where the residuals repeat within `PERIODS` steps, 4 where they do not."""
    start = Return(run.P, run.Q, run.residual, run.before, np.full(h.shape, np.inf))
    gap = _taken(_returned, start, (h, run.residual, run.before), PERIODS, engine).gap if h.size else h
    return np.where(gap < 1e-6 * run.top, 3, 4)


def _at_rest(largest: np.ndarray) -> np.ndarray:
    """Return the regions of runs that come to rest, from the largest residual seen."""
    return np.where(largest < 2 * FIRST, 0, 1)
