"""Phase diagram of the learning rate: gradient descent of two layers, from convergence to chaos and divergence."""

from __future__ import annotations

import numpy as np

from linsolve.plot.style import COLORS
from linsolve.studies.phases.diagrams import Axis, Curve, Diagram, Mark
from linsolve.studies.phases.two_layer import centers
from linsolve.systems.two_layer.order_parameters import TwoLayerOrder

__all__ = ["descent"]

STEPS, LONGEST = 4096, 16384  # of all runs, and of runs that still come to rest
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
    - ``X sqrt(1 + i) = 4``: descent diverges. On the balanced line (i = 0), where ``X = 4`` is the exactly solvable map
      ``x = 4 sin^2(3^k theta)``, this is proved; at positive imbalance it is measured.
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
        x=Axis("x", scaled, r"learning rate $\times$ sharpness of the flattest minimum", log=False),
        y=Axis("y", imbalance, r"imbalance of the initial minimum,  $i = 4AB/y^2$", log=True),
        values=found,
        label="long-time behavior",
        source="Curves: multipliers of $A \\to A(1 - \\rho e)^2$, $B \\to B(1 + \\rho e)^2$, $e = f - y$;\n"
        "the edge of divergence at positive imbalance is measured. Map: order parameters,\n"
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


def outcome(scaled: np.ndarray, imbalance: np.ndarray) -> np.ndarray:
    """Return the number of the region of each run, as in `REGIONS`.

    Parameters
    ----------
    scaled, imbalance : array, shape (n,)
        Step times the sharpness of the flattest minimum, and ``4 A B/y^2`` at the initial minimum, for ``y = 1``.
    """
    found = np.full(scaled.shape, 4)
    for block in np.array_split(np.arange(scaled.size), max(scaled.size // 2**15, 1)):  # a block stays in a cache
        found[block] = _outcome(scaled[block], imbalance[block])
    return found


def _outcome(scaled: np.ndarray, imbalance: np.ndarray) -> np.ndarray:
    flow, h = TwoLayerOrder(y=1.0), scaled / 4  # the flattest minimum has sharpness 4
    P = (np.sqrt(1 + imbalance) + 1) / 2
    z = flow.State(P + FIRST, imbalance / 4 / P, np.zeros_like(P))
    found: np.ndarray = np.empty(scaled.shape, dtype=int)
    open_: np.ndarray = np.arange(scaled.size)
    largest = last = np.full(scaled.shape, FIRST)
    for count in range(LONGEST // PERIODS):
        path, before = [], last
        with np.errstate(over="ignore", invalid="ignore"):  # runs that diverge are recognized by it
            for _ in range(PERIODS):
                z = flow.step(np, z, h)
                path.append(flow.residual(np, z))
            drift = np.abs(np.subtract(path[2:], path[:-2])).max(axis=0)
        last = np.abs(path).max(axis=0)
        largest = np.fmax(largest, last)
        two = (drift < 1e-7 * last) & (np.abs(last - before) < 1e-6 * last) & (last > 2 * FIRST)
        slow = drift < 0.1 * last  # next to an edge of stability the alternating residual grows or falls slowly
        others = np.where(slow, -1, _cycle(np.array(path))) if count >= STEPS // PERIODS else -1
        region = np.select([~np.isfinite(last), last < FIRST / 100, two], [5, _at_rest(largest), 2], others)
        still = np.where(last < SMALL, _at_rest(largest), 4)  # the answer if this is the last look
        found[open_] = np.where(region < 0, still, region)
        going = region < 0
        open_, h, largest, last = (v[going] for v in (open_, h, largest, last))
        z = flow.State(*(v[going] for v in z))
        if not open_.size:
            break
    return found


def _cycle(path: np.ndarray) -> np.ndarray:
    """Return 3 where the residuals repeat, 4 where they do not."""
    gaps = np.maximum(np.abs(path[-1] - path[-2:1:-1]), np.abs(path[-2] - path[-3:0:-1]))
    return np.where((gaps < 1e-6 * np.abs(path).max(axis=0)).any(axis=0), 3, 4)


def _at_rest(largest: np.ndarray) -> np.ndarray:
    """Return the regions of runs that come to rest, from the largest residual seen."""
    return np.where(largest < 2 * FIRST, 0, 1)
