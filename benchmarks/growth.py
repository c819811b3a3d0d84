"""Time and peak memory over the size of a problem, with the exponents of both beside those of the arithmetic."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import linsolve as ls
from benchmarks.timing import one_thread
from linsolve.plot import COLORS, figure

__all__ = ["HEAD", "Growth", "draw", "exponent", "measure", "rows"]

HEAD = ("size", "problem", "sizes", "time", "exponent", "arithmetic", "peak memory", "exponent", "arithmetic")
FITTED = 3  # the largest sizes; smaller ones measure the call
REPEATS = 3
HUES = ("blue", "sky", "vermilion", "green", "black", "purple", "orange")
LOOKS = [*((hue, "-") for hue in HUES), ("blue", "--")]


class Growth(NamedTuple):
    """One size that grows.

    Parameters
    ----------
    size, problem : str
        Its name, and the call.
    sizes : tuple of int
        In increasing order, each twice or four times the one before.
    made : callable
        Returns the call of one size.
    time, memory : float
        Exponents of the operations and of the numbers that the call returns.
    """

    size: str
    problem: str
    sizes: tuple[int, ...]
    made: Callable[[int], Callable[[], Any]]
    time: float
    memory: float


class Cost(NamedTuple):
    """Processor times in seconds and peaks of memory in bytes, one for each size."""

    seconds: list[float]
    peaks: list[int]


def _modes(members: int, times: int) -> Callable[[], Any]:
    flow = ls.BalancedMode(s=np.linspace(0.5, 3.0, members))
    return lambda: flow(np.linspace(0.0, 3.0, times), 0.01)["loss"]


def _two_layers(width: int) -> Callable[[], Any]:
    flow = ls.TwoLayer(y=1.0, x=np.linspace(-1.0, 1.0, 8))
    z0 = ls.TwoLayer.init(width, 8, sigma_u=0.3, sigma_w=0.3, rng=0)
    return lambda: flow([0.1, 1.0], z0)["loss"]


def _matrices(width: int) -> Callable[[], Any]:
    rng = np.random.default_rng(0)
    target = rng.normal(size=(width, width)) / np.sqrt(width)
    z0 = ls.WhitenedTwoLayer.of(*ls.WhitenedTwoLayer.init(width, width, width, scale=0.3, rng=0))
    return lambda: ls.WhitenedTwoLayer(target)([0.1, 1.0], z0)["loss"]


def _deep(depth: int) -> Callable[[], Any]:
    flow = ls.DeepMode(s=np.linspace(0.5, 3.0, 4096), depth=depth)
    return lambda: flow(np.linspace(0.0, 3.0, 16), 0.1)["loss"]


def _classes(classes: int) -> Callable[[], Any]:
    flow = ls.NeuralCollapse(kappa_d=2.0, kappa_c=1.0, kappa_n=0.2, classes=classes, m=4)
    z0 = flow.of(*flow.init(classes + 2, scale=0.3, rng=0))
    return lambda: flow([0.1, 1.0], z0)["loss"]


def _samples(count: int) -> Callable[[], Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(count, count))
    kernel, y = X @ X.T / count, rng.normal(size=count)
    return lambda: ls.FrozenKernel(kernel, y)(np.linspace(0.0, 3.0, 16), np.zeros(count))["loss"]


def _blocks(each: int) -> Callable[[], Any]:
    flow = ls.BlockKernel(diagonal=2.0, within=1.0, between=0.2, sizes=[each] * 10)
    r0 = np.linspace(-1.0, 1.0, 10 * each)
    return lambda: flow(np.linspace(0.0, 3.0, 4), r0)["loss"]


GROWTHS = (
    Growth("members", "BalancedMode, 16 times", (4**5, 4**6, 4**7, 4**8, 4**9), lambda n: _modes(n, 16), 1, 1),
    Growth("times", "BalancedMode, 16 members", (4**5, 4**6, 4**7, 4**8, 4**9), lambda n: _modes(16, n), 1, 1),
    Growth("width", "TwoLayer, 8 inputs, 2 times", (4**5, 4**6, 4**7, 4**8, 4**9), _two_layers, 1, 1),
    Growth("width", "WhitenedTwoLayer, all widths equal, 2 times", (32, 64, 128, 256, 512), _matrices, 3, 2),
    Growth("depth", "DeepMode, 4096 members, 16 times", (4, 16, 64, 256, 1024), _deep, 0, 0),
    Growth("classes", "NeuralCollapse, 4 samples each, 2 times", (8, 16, 32, 64, 128), _classes, 3, 2),
    Growth("samples", "FrozenKernel, 16 times", (64, 128, 256, 512, 1024), _samples, 3, 2),
    Growth("samples of a class", "BlockKernel, 10 classes, 4 times", (4**5, 4**6, 4**7, 4**8, 4**9), _blocks, 1, 1),
)


def measure(growth: Growth) -> Cost:
    """Return the least processor time of a few calls, and the peak memory of one, for each size.

    BLAS runs on one thread: others that wait for a part count as processor time.
    """
    seconds, peaks = [], []
    for size in growth.sizes:
        call = growth.made(size)
        with one_thread():
            call()
            spent = []
            for _ in range(REPEATS):
                begin = time.process_time()
                call()
                spent.append(time.process_time() - begin)
        seconds.append(min(spent))
        tracemalloc.start()
        call()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return Cost(seconds, peaks)


def exponent(sizes: tuple[int, ...], costs: list[Any]) -> float:
    """Return the exponent of the cost over the largest sizes, by least squares of the logarithms."""
    return float(np.polyfit(np.log(sizes[-FITTED:]), np.log(costs[-FITTED:]), 1)[0])


def rows(found: list[tuple[Growth, Cost]]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each growth: cost of the largest size, fitted exponent, exponent of the arithmetic."""
    for growth, cost in found:
        own = f"{growth.sizes[0]:,} to {growth.sizes[-1]:,}"
        cells = [growth.size, growth.problem, own]
        for largest, costs, exact in (
            (f"{1e3 * cost.seconds[-1]:.3g} ms", cost.seconds, growth.time),
            (f"{cost.peaks[-1] / 2**20:.3g} MiB", cost.peaks, growth.memory),
        ):
            cells += [largest, f"{exponent(growth.sizes, costs):z.2f}", f"{exact:g}"]
        yield tuple(cells)


def draw(found: list[tuple[Growth, Cost]], path: Path) -> None:
    """Draw time and peak memory over size, one line for each growth."""
    with figure(ncols=2, figsize=(11.5, 6.4)) as (fig, axes):
        kinds = ((0, "processor time (ms)", 1e3), (1, "peak memory (MiB)", 2.0**-20))
        for ax, (k, label, unit) in zip(axes, kinds, strict=True):
            for (growth, cost), (color, style) in zip(found, LOOKS, strict=False):
                exact, fitted = (growth.time, growth.memory)[k], exponent(growth.sizes, cost[k])
                name = f"{growth.size}: {growth.problem.split(',')[0]}, {fitted:z.1f} ({exact:g})"
                costs = [unit * v for v in cost[k]]
                mark = "o" if style == "-" else "s"
                ax.plot(growth.sizes, costs, style, color=COLORS[color], marker=mark, ms=5, label=name)
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_xlabel("size")
            ax.set_ylabel(label)
            title = "size: flow, fitted exponent (exponent of the arithmetic)"
            ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, fontsize=9, title=title)
        fig.savefig(path)
