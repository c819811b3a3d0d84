"""Figures 4, D.1 and D.3: more layers, and layers of different rates."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.network import time_to_reach
from linsolve.plot.style import COLORS, INK
from linsolve.studies.figures.networks import MARKS, closed_form, crossing, deep_start, simulated, two_layer_start
from linsolve.systems.mode.deep_mode import DeepMode
from linsolve.systems.small_start.final_kernel import FinalKernel

__all__ = ["compute_4", "compute_d1", "compute_d3", "draw_4", "draw_d1", "draw_d3", "mode_after"]


def mode_after(t: np.ndarray, output: np.ndarray, s: float, depth: int, share: float = 0.05) -> np.ndarray:
    """Return the balanced mode matched where a simulated output has learned `share` of its value; nan before."""
    begin = crossing(t, output, share * s)
    values = DeepMode(s=s, depth=depth)(np.maximum(t - begin, 0.0), share * s)["a"]
    return np.where(t >= begin, values, np.nan)


def half_time(sigma: np.ndarray, depth: int, s: float = 1.0) -> np.ndarray:
    """Return the exact time at which a balanced mode that starts at ``sigma^depth`` has lost half of its loss."""
    flow = DeepMode(s=s, depth=depth)
    start = DeepMode.State(sigma**depth)
    return flow.time_to(np, start, loss=flow.loss(np, start) / 2)


def compute_4(seed: int = 0) -> dict[str, Any]:
    """Return half-times by depth, and a three-layer network's loss and first layer by size of the start."""
    rng, sigma = np.random.default_rng(seed), np.logspace(-3, -0.6, 25)
    sizes = [30, 50, 50, 1]
    unscaled = deep_start(rng, sizes, 1.0)
    target = rng.normal(size=30)
    target /= np.linalg.norm(target)
    curves = {}
    for scale in (0.2, 0.1, 0.05, 0.02):
        t = np.linspace(0.0, 4.0 + 1.1 / scale, 361)
        found = simulated([scale * layer for layer in unscaled], target, t, rtol=1e-6)
        half = found["loss"][0] / 2
        curves[scale] = found | {
            "theory": (1 - mode_after(t, found["output"], 1.0, 3)) ** 2 / 2,
            "half": crossing(t, found["loss"], half),
            "aligned": crossing(t, found["first"], 0.5),
        }
    return {
        "sigma": sigma,
        "exact": {depth: half_time(sigma, depth) for depth in (3, 4, 5)},
        "law": {depth: sigma ** (2.0 - depth) / (depth - 2) for depth in (3, 4, 5)},
        "curves": curves,
    }


def draw_4(axes: Any, data: dict[str, Any]) -> None:
    """Draw the power laws, a three-layer network over time, and its two times."""
    for color, depth in zip(INK, data["exact"], strict=False):
        axes[0].plot(data["sigma"], data["exact"][depth], color=color, label=f"$L$ = {depth}, exact")
        axes[0].plot(data["sigma"], data["law"][depth], color=COLORS["black"], linestyle="--", linewidth=1.3)
    axes[0].plot([], [], color=COLORS["black"], linestyle="--", label=r"$\sigma^{2-L}/((L-2)\,\bar\eta s)$")
    axes[0].set(xscale="log", yscale="log", xlabel=r"$\sigma$", title="(a) time to half the loss")
    axes[0].set_ylabel(r"$t_{1/2}$  (units of $1/(\bar\eta s^{2-2/L})$)")
    axes[0].legend(fontsize=9.5)
    for color, (scale, curve) in zip(INK, data["curves"].items(), strict=False):
        axes[1].plot(curve["t"], 2 * curve["theory"], color=color)
        axes[1].plot(curve["t"][::9], 2 * curve["loss"][::9], **MARKS, color=color)
        axes[1].plot(curve["t"], curve["first"], color=color, linestyle=":", linewidth=1.6)
        axes[1].text(1.08 * curve["half"], 0.62, f"{scale:g}", color=color, fontsize=10)
        axes[2].plot(scale, curve["half"], **MARKS | {"markersize": 8}, color=color)
        axes[2].plot(scale, curve["aligned"], **MARKS | {"markersize": 8, "marker": "s"}, color=color)
    axes[1].plot([], [], **MARKS, color=COLORS["black"], label="loss, simulated")
    axes[1].plot([], [], color=COLORS["black"], label="closed form from 5 %")
    axes[1].plot([], [], color=COLORS["black"], linestyle=":", label=r"$W_1^\top W_1$ with $\beta\beta^\top$")
    axes[1].set(
        xscale="log",
        xlabel="time $t$  (1/$s$)",
        ylabel="loss / loss at 0, cosine",
        title=r"(b) three layers, by $\sigma$",
    )
    axes[1].set_xlim(0.08, 90)  # room for the key
    axes[1].legend(fontsize=8.5, loc="center left")
    scales = np.array(list(data["curves"]))
    for key in ("half", "aligned"):
        first = data["curves"][scales[-1]][key] * scales[-1]
        axes[2].plot(scales, first / scales, color="#777777", linestyle="--", linewidth=1.3, zorder=0)
    axes[2].plot([], [], **MARKS, color=COLORS["black"], label="half of the loss")
    axes[2].plot([], [], **MARKS | {"marker": "s"}, color=COLORS["black"], label="cosine at 1/2")
    axes[2].plot([], [], color="#777777", linestyle="--", label=r"$\propto \sigma^{2-L}$, $L$ = 3")
    axes[2].set(
        xscale="log", yscale="log", xlabel=r"$\sigma$", ylabel="time  (1/$s$)", title="(c) alignment comes first"
    )
    axes[2].set_xticks(scales, [f"{scale:g}" for scale in scales])
    axes[2].set_yticks([3, 10, 30], ["3", "10", "30"])
    axes[2].minorticks_off()
    axes[2].legend(fontsize=9.5)


def compute_d1(seed: int = 0) -> dict[str, Any]:
    """Return losses and spikes of two-layer networks by ratio of their rates."""
    rng, sigma, n_in = np.random.default_rng(seed), 0.01, 10
    first, last = two_layer_start(rng, 20, n_in)
    target = rng.normal(size=n_in)
    target /= np.linalg.norm(target)
    t, curves = np.linspace(0.0, 9.0, 181), {}
    for ratio in (0.5, 1.0, 2.0, 4.0, 8.0):
        rates = [ratio, 1.0]
        found = simulated([sigma * first, sigma * last[None, :]], target, t, rates=rates)
        # a layer with its own rate is a rescaled layer with the mean rate
        scale = ratio**-0.25
        theory = closed_form(scale * first, last / scale, target, sigma, np.sqrt(ratio) * t)
        w, a = found["layers"][0][-1], found["layers"][1][-1, 0]
        values = np.linalg.eigvalsh(w.T @ w + a @ a * np.eye(n_in))
        curves[ratio] = {"t": t, "loss": found["loss"], "theory": theory["loss"], "spike": values[-1] / values[0] - 1}
    return {"curves": curves, "ratio": np.linspace(0.25, 8.5, 50)}


def draw_d1(axes: Any, data: dict[str, Any]) -> None:
    """Draw the losses, and the spike over the ratio of the rates."""
    for color, (ratio, curve) in zip(INK, data["curves"].items(), strict=True):
        axes[0].plot(curve["t"], curve["theory"], color=color)
        axes[0].plot(curve["t"][::5], curve["loss"][::5], **MARKS, color=color)
        axes[0].plot([], [], color=color, **MARKS | {"linestyle": "-"}, label=rf"$\eta_1/\eta_2$ = {ratio:g}")
        axes[1].plot(ratio, curve["spike"], **MARKS | {"markersize": 8}, color=color)
    axes[0].set(xlabel=r"time $t$  (units of $1/(\eta_2 s)$)", ylabel="loss $L$", title=r"(a) loss, $\sigma$ = 0.01")
    axes[0].legend(title="lines: closed form", title_fontsize=10, fontsize=10)
    axes[1].plot(data["ratio"], data["ratio"], color=COLORS["black"], zorder=0, label=r"$A/B = \eta_1/\eta_2$")
    axes[1].plot([], [], **MARKS, color=COLORS["black"], label="simulated, end of training")
    axes[1].set(xlabel=r"$\eta_1/\eta_2$", ylabel="spike of the kernel, $A/B$", title="(b) rank-one spike")
    axes[1].legend()


def compute_d3(seed: int = 0) -> dict[int, dict[str, Any]]:
    """Return loss, alignment of kernel and of first layer for networks of 2 to 5 layers."""
    rng, n_in, width = np.random.default_rng(seed), 10, 16
    target = rng.normal(size=n_in)
    target /= np.linalg.norm(target)
    curves = {}
    for depth, sigma in ((2, 0.03), (3, 0.1), (4, 0.12), (5, 0.2)):
        layers = deep_start(rng, [n_in] + [width] * (depth - 1) + [1], sigma)
        half = time_to_reach(layers, target, loss=True)
        found = simulated(layers, target, np.linspace(0.0, 2.5 * half, 301), rtol=1e-7)
        law = FinalKernel(start=np.ones((depth, n_in, n_in)), target=target, rates=np.ones(depth))
        curves[depth] = found | {
            "theory": (1 - mode_after(found["t"], found["output"], 1.0, depth)) ** 2 / 2,
            "final": float(law.alignments(np)[0]),
            "sigma": sigma,
        }
    return curves


def draw_d3(axes: Any, data: dict[int, dict[str, Any]]) -> None:
    """Draw the three over time, in units of the time to half the loss."""
    for color, (depth, curve) in zip(INK, data.items(), strict=False):
        x = curve["t"] / crossing(curve["t"], curve["loss"], curve["loss"][0] / 2)
        axes[0].plot(x, curve["theory"], color=color)
        for ax, key in zip(axes, ("loss", "alignment", "first"), strict=True):
            ax.plot(x[::6], curve[key][::6], **MARKS, color=color)
        axes[1].axhline(curve["final"], color=color, linestyle="--", linewidth=1.3)
        axes[0].plot([], [], color=color, label=rf"$L$ = {depth}, $\sigma$ = {curve['sigma']:g}")
    axes[0].set(ylabel="loss $L$", title="(a) loss; lines: closed form from 5 %")
    axes[1].set(ylabel="kernel alignment", title=r"(b) kernel; dashed: $L/\sqrt{L^2 + r - 1}$", ylim=(0, 1))
    axes[2].set(ylabel=r"cosine of $W_1^\top W_1$ and $\beta\beta^\top$", title="(c) first layer", ylim=(0, 1.03))
    for ax in axes:
        ax.set(xlim=(0, 2.5), xlabel=r"time $t / t_{1/2}$")
    axes[0].legend()
