"""Figures 4(b) and 10 of Geiger, Spigler, Jacot, Wyart (2020) for linear networks of one and two hidden layers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from linsolve.core.integrate import joined, parted
from linsolve.core.network import follow, gradient_flow, maps, pulls, time_to_reach
from linsolve.plot.style import COLORS, INK
from linsolve.studies.figures.networks import MARKS
from linsolve.systems.deep.leading import Growth
from linsolve.systems.small_start.deep_lazy import DeepLazyFluctuations, kernel_jet
from linsolve.systems.two_layer.lazy_fluctuations import LazyFluctuations

__all__ = ["compute_geiger_4b", "compute_geiger_10", "draw_geiger_4b", "draw_geiger_10"]

SCALED = np.logspace(-2, 2, 9)  # sqrt(h) alpha
ONE, TWO = (16, 64, 256), (8, 24, 72)  # widths of one and two hidden layers
SAMPLES, DRAWS = 4000, 40
WIDTH, SCALES = 64, (1e-3, 1e-2, 1e-1, 1.0, 10.0)  # figure 10 (a)
FEATURE, WIDTHS = 1e-2, (16, 64, 256)  # figure 10 (b), (c)
REPEATS = 4
TIMES = np.logspace(-2.5, 0.75, 14)  # t / t_1


def _start(rng: np.random.Generator, h: int, hidden: int = 2) -> list[np.ndarray]:
    """Return layers of order 1 over ``sqrt(h)``, the first along the data."""
    return [rng.standard_normal(shape[::-1]) / np.sqrt(h) for shape in pairwise([1, *[h] * hidden, 1])]


def _moved_gradients(layers: list[np.ndarray], gaps: np.ndarray) -> np.ndarray:
    """Return the squared change of the gradient at the first hidden layer when the output has moved by each gap.

    On a line the weights of all scales of the output move along one curve; it is integrated over the output.
    """
    from scipy.integrate import solve_ivp

    shapes, one = [v.shape for v in layers], np.ones((1, 1))

    def moves(_: float, y: np.ndarray) -> np.ndarray:
        here = parted(y, shapes)
        velocity = joined(gradient_flow(np, here, maps(here), one, [1.0] * len(here)))
        return velocity / (velocity @ velocity)

    path = solve_ivp(moves, (0.0, gaps[-1]), joined(layers), "DOP853", gaps, rtol=1e-6, atol=1e-8)
    start = pulls(np, layers, one)[0]
    ends = (pulls(np, parted(y, shapes), one)[0] for y in path.y.T)
    return np.array([np.sum((end - start) ** 2) for end in ends])


def compute_geiger_4b(seed: int = 0) -> dict[str, Any]:
    """Return ``h / y^2`` times the variance of the output across the data, by the number of hidden layers."""
    rng, one, two = np.random.default_rng(seed), {}, {}
    line = np.logspace(-2, 2, 81)

    def law(scaled: float, h: float) -> LazyFluctuations:
        return LazyFluctuations(y=1.0, scaled_alpha=scaled, times=[1.0], h=h)

    for h in ONE:
        drawn = np.array([law(x, h).sample(rng, SAMPLES)["F across"] for x in SCALED])
        one[h] = drawn.mean(axis=1), drawn.std(axis=1) / np.sqrt(SAMPLES)
    gaps = 1 / SCALED[::-1]
    for h in TWO:
        drawn = np.array([_moved_gradients(_start(rng, h), gaps) / gaps**2 for _ in range(DRAWS)])[:, ::-1]
        two[h] = drawn.mean(axis=0), drawn.std(axis=0) / np.sqrt(DRAWS)
    return {
        "line": line,
        "one": one,
        "two": two,
        "theory": np.array([float(law(x, 1e8).prediction(np)["F across"]) for x in line]),
        "lazy": float(DeepLazyFluctuations(hidden=2).prediction(np)["output across"]),
        "feature": line ** (2 / 3),  # G^(2 L/(L+1)) over G^2
    }


def draw_geiger_4b(axes: Any, data: dict[str, Any]) -> None:
    """Draw the variances times the width, which lie on one curve."""
    for ax, name, title in zip(
        axes, ("one", "two"), (f"one hidden layer, {SAMPLES} draws", f"two hidden layers, {DRAWS} draws"), strict=True
    ):
        for color, (h, (mean, error)) in zip(INK, data[name].items(), strict=False):
            ax.errorbar(SCALED, mean, 2 * error, fmt="o", markerfacecolor="none", color=color, label=f"$h$ = {h}")
        ax.set(xscale="log", yscale="log", xlabel=r"$\sqrt{h}\,\alpha$", title=title)
        ax.set(ylabel=r"$h\, \mathrm{Var}\, \alpha (f - f_0) / y^2$")
    axes[0].plot(data["line"], data["theory"], color=COLORS["black"], label=r"theory, $h \to \infty$")
    axes[1].axhline(data["lazy"], color=COLORS["black"], linestyle="--", label="theory: lazy asymptote, 5/9")
    low = data["feature"] < 2 * data["lazy"]
    axes[1].plot(data["line"][low], data["feature"][low], color=COLORS["black"], label="theory: feature asymptote")
    for ax in axes:
        ax.legend(fontsize=9)


def _curve(layers: list[np.ndarray], G: float) -> dict[str, np.ndarray]:
    """Return times over the half time, ``|f - f_0|`` and ``|f|`` over ``rho sqrt(h)``, of the network and in theory."""
    start = float(maps(layers)[-1][0, 0])
    unit = G ** (1 / len(layers))
    scaled = [v / unit for v in layers]
    gap = np.array([[1 + start / G]])
    half = time_to_reach(scaled, gap, loss=True)
    moved = G * (maps(follow(scaled, gap, TIMES * half, rtol=1e-10))[-1][:, 0, 0] - start / G)
    return {"half": half * unit ** (2 - 2 * len(layers)), "moved": moved, "output": moved + start}


def compute_geiger_10(seed: int = 0) -> dict[str, Any]:
    """Return outputs over time, at one width over ``sqrt(h) alpha`` and the reverse, averaged over starts."""
    rng = np.random.default_rng(seed)
    starts = {h: [_positive(_start(rng, h)) for _ in range(REPEATS)] for h in WIDTHS}
    by_scale = {scaled: _averaged(starts[WIDTH], 1 / scaled) for scaled in SCALES}
    by_width = {h: _averaged(layers, 1 / FEATURE) for h, layers in starts.items()}
    return {"scales": by_scale, "widths": by_width}


def _positive(layers: list[np.ndarray]) -> list[np.ndarray]:
    """Return layers with a positive output."""
    return [*layers[:-1], layers[-1] * np.sign(maps(layers)[-1][0, 0])]


def _averaged(starts: list[list[np.ndarray]], G: float) -> dict[str, np.ndarray]:
    """Return root mean squares of the curves over the starts, with the linear law and the leading system."""
    curves = [_curve(layers, G) for layers in starts]
    found = {name: np.sqrt(np.mean([c[name] ** 2 for c in curves], axis=0)) for name in ("moved", "output")}
    kernel = np.array([float(kernel_jet(layers).kernel) for layers in starts])
    half = np.array([c["half"] for c in curves])
    found["linear"] = np.sqrt(np.mean((G * kernel * half) ** 2)) * TIMES  # K_0 y t
    growths = [Growth(layers, np.ones((1, 1))) for layers in starts]
    early = TIMES[TIMES < 0.9]
    grown = [
        [growth.output(v) for v in zip(*growth.at(early * G * t), strict=True)]
        for growth, t in zip(growths, half, strict=True)
    ]
    before = np.array([growth.output(growth.layers) for growth in growths])
    found["leading"] = np.sqrt(np.mean((np.array(grown) - before[:, None]) ** 2, axis=0))
    return found


def draw_geiger_10(axes: Any, data: dict[str, Any]) -> None:
    """Draw the change of the output over alpha, the output over the width, and alpha times its change."""
    black, early = COLORS["black"], TIMES[TIMES < 0.9]
    for color, (scaled, curve) in zip(INK, data["scales"].items(), strict=False):
        axes[0].loglog(TIMES, curve["moved"], **MARKS, color=color, label=f"{scaled:g}")
        axes[0].loglog(TIMES[TIMES < 1], curve["linear"][TIMES < 1], color=color, linewidth=1.2)
    axes[0].plot([], [], color="gray", linewidth=1.2, label="lines: $K_0 y t$")
    axes[0].plot(early, data["scales"][SCALES[0]]["leading"], color=black, label=r"$\alpha \to 0$")
    axes[0].set(ylabel=r"$|f - f_0| / \rho \sqrt{h}$", title=f"(a) change of the output, $h$ = {WIDTH}")
    axes[0].legend(title=r"$\sqrt{h}\,\alpha$", fontsize=9)
    for color, (h, curve) in zip(INK, data["widths"].items(), strict=False):
        axes[1].loglog(TIMES, curve["output"], **MARKS, color=color, label=f"$h$ = {h}")
        axes[2].loglog(TIMES, FEATURE * curve["moved"], **MARKS, color=color, label=f"$h$ = {h}")
        axes[2].loglog(early, FEATURE * curve["leading"], color=color, linewidth=1.2)
    axes[1].set(ylabel=r"$|f| / \rho \sqrt{h}$", title=rf"(b) output, $\sqrt{{h}}\,\alpha$ = {FEATURE:g}")
    axes[2].set(
        ylabel=r"$\alpha |f - f_0| / y$", title=rf"(c), (d) change of the output, $\sqrt{{h}}\,\alpha$ = {FEATURE:g}"
    )
    for ax in axes:
        ax.set(xlabel="time $t / t_1$  (at $t_1$ half of the loss is left)")
    axes[2].plot([], [], color="gray", linewidth=1.2, label=r"lines: $\alpha \to 0$")
    for ax in axes[1:]:
        ax.legend(fontsize=9)
