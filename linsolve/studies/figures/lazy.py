"""Figures 4(a), 5 and 9 of Geiger, Spigler, Jacot, Wyart (2020) for linear networks with one hidden layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.integrate import integrate
from linsolve.plot.style import COLORS, INK
from linsolve.studies.figures.networks import MARKS
from linsolve.systems.two_layer.lazy import LazyTwoLayer
from linsolve.systems.two_layer.lazy_fluctuations import LazyFluctuations
from linsolve.systems.two_layer.lazy_training import LazyTraining

__all__ = [
    *("compute_geiger_4a", "compute_geiger_5", "compute_geiger_9"),
    *("draw_geiger_4a", "draw_geiger_5", "draw_geiger_9"),
]

WIDTHS = (30, 300, 3000)
SCALED = np.logspace(-2, 2, 9)  # sqrt(h) alpha
DRAWS = 5
CURVES = (0.03, 0.3, 3.0)


def _law(scaled: float, times: Any = (1.0,)) -> LazyTraining:
    return LazyTraining(y=1.0, scaled_alpha=scaled, xi=np.zeros(3), times=times)


def _limit(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a quantity of infinite width over ``sqrt(h) alpha``."""
    line = np.logspace(-2, 2, 81)
    return line, np.array([float(_law(x).approximation(np, 0.0)[name]) for x in line])


def _networks(rng: np.random.Generator, name: str) -> dict[int, np.ndarray]:
    """Return a quantity of the closed form, median over draws, of networks of raw weights by width."""
    found = {}
    for h in WIDTHS:
        values = []
        for scaled in SCALED:
            drawn = []
            for _ in range(DRAWS):
                flow, z0 = LazyTwoLayer.from_lazy(scaled / np.sqrt(h), h, [1.0], 1.0, rng=rng)
                drawn.append(_measured(flow, z0, name))
            values.append(np.median(drawn))
        found[h] = np.array(values)
    return found


def _measured(flow: LazyTwoLayer, z0: Any, name: str) -> float:
    if name == "half time":
        return float(flow.time_to(np, z0, loss=flow.loss(np, z0) / 2))
    end = flow(np.inf, z0)
    if name == "kernel change":
        return abs(float(end["kernel_change"]))
    pairs = zip(end.state, z0, strict=True)
    return float(np.sqrt(sum(np.sum((a - b) ** 2) for a, b in pairs) / sum(np.sum(v**2) for v in z0)))


def compute_geiger_5(seed: int = 0) -> dict[str, Any]:
    """Return kernel change and half time over ``sqrt(h) alpha``, and losses over time, in theory and of networks."""
    rng, found = np.random.default_rng(seed), {}
    for name in ("kernel change", "half time"):
        found[name] = {"theory": _limit(name), "networks": _networks(rng, name)}
    losses, h = {}, WIDTHS[-1]
    for scaled in CURVES:
        flow, z0 = LazyTwoLayer.from_lazy(scaled / np.sqrt(h), h, [1.0], 1.0, rng=rng)
        t = np.linspace(0.0, 8.0, 121)[1:] * _measured(flow, z0, "half time")
        theory = (1 - _law(scaled, t).approximation(np, 0.0)["F"]) ** 2
        losses[scaled] = {"t": t, "theory": theory, "network": (1 - integrate(flow, t[::8], z0)["F"]) ** 2}
    return found | {"losses": losses}


def _draw_over_alpha(axes: Any, curves: dict[str, Any], label: str, title: str) -> None:
    """Draw a quantity over alpha on the left, and over ``sqrt(h) alpha`` on the right."""
    line, theory = curves["theory"]
    for ax, power in zip(axes, (0.5, 0.0), strict=True):
        for color, (h, values) in zip(INK, curves["networks"].items(), strict=False):
            ax.loglog(SCALED / h**power, values, **MARKS, color=color, label=f"$h$ = {h}")
            ax.loglog(line / h**power, theory, color=color if power else COLORS["black"], linewidth=1.2)
        ax.set(xlabel=r"$\alpha$" if power else r"$\sqrt{h}\,\alpha$", ylabel=label)
    axes[0].set(title=title)
    axes[1].set(title="the same, rescaled")
    axes[0].legend(title="lines: $h \\to \\infty$", fontsize=9)


def draw_geiger_5(axes: Any, data: dict[str, Any]) -> None:
    """Draw the kernel change twice, the losses, and the half time."""
    name = r"$|\Delta\Theta| / \Theta_0$"
    _draw_over_alpha(axes[:2], data["kernel change"], name, "(a) kernel")
    for color, (scaled, curve) in zip(INK, data["losses"].items(), strict=False):
        axes[2].plot(curve["t"] / scaled, curve["theory"], color=color)
        axes[2].plot(curve["t"][::8] / scaled, curve["network"], **MARKS, color=color, label=f"{scaled:g}")
    axes[2].set(xscale="log", xlabel=r"$t / \sqrt{h}\,\alpha$", ylabel=r"$\alpha^2$ loss", title="(b) loss")
    axes[2].legend(title=r"$\sqrt{h}\,\alpha$")
    line, theory = data["half time"]["theory"]
    axes[3].loglog(line, theory / line, color=COLORS["black"])
    for color, (h, values) in zip(INK, data["half time"]["networks"].items(), strict=False):
        axes[3].loglog(SCALED, values / SCALED, **MARKS, color=color, label=f"$h$ = {h}")
    axes[3].set(
        xlabel=r"$\sqrt{h}\,\alpha$", ylabel=r"$t_{1/2} / \sqrt{h}\,\alpha$", title="(c) half time: a logarithm"
    )


def compute_geiger_9(seed: int = 0) -> dict[str, Any]:
    """Return the change of the weights, in theory and of networks."""
    return {"theory": _limit("weights"), "networks": _networks(np.random.default_rng(seed), "weights")}


def draw_geiger_9(axes: Any, data: dict[str, Any]) -> None:
    """Draw the change of the weights over alpha and over ``sqrt(h) alpha``."""
    _draw_over_alpha(axes, data, r"$|w - w_0| / |w_0|$", "change of the weights")


def compute_geiger_4a(seed: int = 0) -> dict[Any, Any]:
    """Return the variance of the output orthogonal to the data over the width, in theory and of sampled networks."""
    rng, found = np.random.default_rng(seed), {}
    for scaled in CURVES:
        rows = []
        for h in (16, 64, 256, 1024):
            law = LazyFluctuations(y=1.0, scaled_alpha=scaled, times=[0.1], h=h)
            drawn = law.sample(rng, 4000)["F across"]
            rows.append((h, float(law.prediction(np)["F across"]) / h, drawn.mean() / h, drawn.std() / h / 4000**0.5))
        found[scaled] = np.array(rows).T
    return found


def draw_geiger_4a(axes: Any, data: dict[Any, Any]) -> None:
    """Draw the variances, whose lines fall as 1/h."""
    (ax,) = np.atleast_1d(axes)
    for color, (scaled, (h, theory, mean, error)) in zip(INK, data.items(), strict=False):
        ax.loglog(h, theory, color=color)
        ax.errorbar(h, mean, 2 * error, fmt="o", markerfacecolor="none", color=color, label=f"{scaled:g}")
    ax.set(xlabel="width $h$", ylabel=r"$\mathrm{Var}\, \alpha (f - f_0)$", title="lines: theory, $1/h$")
    ax.legend(title=r"$\sqrt{h}\,\alpha$")
