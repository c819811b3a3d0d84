"""Figures 5 (a), (b) and D.4: digits of many classes, or partially whitened."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.network import follow
from linsolve.plot.style import COLORS, INK
from linsolve.studies.figures.depth import mode_after
from linsolve.studies.figures.networks import MARKS, deep_start, simulated
from linsolve.systems.deep.closed_forms import kernel_alignment
from linsolve.systems.small_start.final_kernel import FinalKernelAnisotropic, tangent_kernel
from linsolve.systems.small_start.matched_outputs import MatchedOutputs

__all__ = ["compute_5", "compute_d4", "draw_5", "draw_d4"]

LINES = {2: "closed form", 3: "uncoupled modes"}
PARTLY = 0.25  # the power to which the singular values of partially whitened inputs are raised


def final_alignment(target: np.ndarray, depth: int) -> float:
    """Return the alignment at the end of training at equal rates, for a target of any rank."""
    u, s, vt = np.linalg.svd(target, full_matrices=False)
    keep = s > 1e-12 * s[0]
    u, s, vt = u[:, keep], s[keep], vt[keep]

    def side(vectors: np.ndarray, power: float) -> np.ndarray:
        return np.eye(len(vectors)) if power == 0 else vectors @ (s[:, None] ** power * vectors.T)

    outer = [side(u, 2 * k / depth) for k in range(depth - 1, -1, -1)]
    inner = [side(vt.T, 2 * k / depth) for k in range(depth)]
    fit = sum(np.sum(target * (a @ target @ b)) for a, b in zip(outer, inner, strict=True))
    square = sum(np.sum(outer[i] * outer[j]) * np.sum(inner[i] * inner[j]) for i in range(depth) for j in range(depth))
    return float(fit / (np.sqrt(square) * np.sum(target**2)))


def compute_5(seed: int = 0) -> dict[int, dict[str, Any]]:
    """Return losses and alignments of networks of two and three layers on ten classes of whitened digits."""
    from linsolve.data.reading import load
    from linsolve.data.whitening import whiten

    rng, digits = np.random.default_rng(seed), load("digits")
    white = whiten(digits.inputs, digits.targets)
    n_out, n_in = white.target.shape
    values = np.linalg.svd(white.target, compute_uv=False)
    width, found = 60, {}
    for depth, sigma, end in ((2, 1e-2, 40.0), (3, 4e-2, 210.0)):
        layers, t = deep_start(rng, [n_in] + [width] * (depth - 1) + [n_out], sigma), np.linspace(0.0, end, 221)
        path = simulated(layers, white.target, t, rtol=1e-6)
        if depth == 2:
            law = MatchedOutputs(first=layers[0] / sigma, last=layers[1] / sigma, target=white.target, phases=[0.0])
            gram = law.gram(np, np.asarray(sigma), t)
            blocks = [gram[:, n_in:, :n_in], gram[:, :n_in, :n_in], gram[:, n_in:, n_in:]]
            theory = {
                "loss": np.sum((white.target - blocks[0]) ** 2, axis=(-2, -1)) / 2,
                "alignment": _two_layers(white.target, *blocks[1:]),
            }
        else:
            modes = [mode_after(t, path["modes"][:, k], s, depth, 0.2) for k, s in enumerate(values[: n_out - 1])]
            theory = {"modes": np.stack(modes, axis=1)} | _learned(np.stack(modes, axis=1), values[: n_out - 1], n_in)
        found[depth] = path | {
            "theory": theory,
            "sigma": sigma,
            "final": final_alignment(white.target, depth),
            "values": values,
        }
    return found


def _learned(modes: np.ndarray, s: np.ndarray, n_in: int) -> dict[str, np.ndarray]:
    """Return loss and alignment of a balanced network of three layers whose modes not yet learned are 0."""
    c, n_out = np.nan_to_num(modes), len(s) + 1
    alignment = kernel_alignment(np, c, s, np.ones(3), n_out, n_in)
    return {"loss": np.sum((s - c) ** 2, axis=1) / 2, "alignment": np.where(c[:, 0] > 0, alignment, np.nan)}


def _two_layers(target: np.ndarray, gram_in: np.ndarray, gram_out: np.ndarray) -> np.ndarray:
    n_out, n_in = target.shape
    fit = np.sum(target * (target @ gram_in + gram_out @ target), axis=(-2, -1))
    traces = np.trace(gram_in, axis1=1, axis2=2) * np.trace(gram_out, axis1=1, axis2=2)
    square = n_out * np.sum(gram_in**2, axis=(1, 2)) + n_in * np.sum(gram_out**2, axis=(1, 2)) + 2 * traces
    return fit / (np.sqrt(square) * np.sum(target**2))


def draw_5(axes: Any, data: dict[int, dict[str, Any]]) -> None:
    """Draw loss and alignment over time; at three layers also the modes, each in closed form without the others."""
    for ax, (depth, found) in zip(axes, data.items(), strict=True):
        t, start = found["t"], found["loss"][0]
        final, theory = found["final"], found["theory"]
        if "loss" in theory:
            ax.plot(t, theory["loss"] / start, color=COLORS["blue"])
            ax.plot(t, theory["alignment"] / final, color=COLORS["green"])
        looks = (("alignment", COLORS["green"], final, f"alignment / its end, {final:.3f}"),)
        for key, color, scale, label in (*looks, ("loss", COLORS["blue"], start, "loss / loss at 0")):
            ax.plot(t[::5], found[key][::5] / scale, **MARKS, color=color, label=label)
        if "modes" in theory:
            for k, s in enumerate(found["values"][: theory["modes"].shape[1]]):
                ax.plot(t, theory["modes"][:, k] / s, color=COLORS["orange"], linewidth=1.1, zorder=1)
                ax.plot(t[::5], found["modes"][::5, k] / s, ".", color=COLORS["vermilion"], markersize=2.5, zorder=1)
            ax.plot([], [], ".", color=COLORS["vermilion"], label="modes / their values")
            ax.plot([], [], color=COLORS["orange"], label="each alone, from 20 %")
            ax.set_xlim(-45, None)  # room for the key
        name = f"({'ab'[depth - 2]}) {depth} layers, lines: {LINES[depth]}"
        ax.set(xlabel="time $t$  (rate 1, mean loss)", ylabel="loss, alignment, modes, relative", ylim=(0, 1.08))
        ax.set_title(rf"{name}, $\sigma$ = {found['sigma']:g}")
        place = {"loc": "center right"} if depth == 2 else {"loc": "lower left", "bbox_to_anchor": (0.0, 0.06)}
        ax.legend(fontsize=8.5 if depth == 2 else 8, **place)


def compute_d4(seed: int = 0) -> dict[str, Any]:
    """Return alignments by depth and the final kernel of three layers, on partially whitened digits 0 and 1."""
    from linsolve.data.reading import load

    rng, digits, each = np.random.default_rng(seed), load("digits", classes=["0", "1"]), 20
    picks = np.concatenate([np.flatnonzero(digits.targets[:, k])[:each] for k in range(2)])
    y = np.repeat([1.0, -1.0], each)
    x = digits.inputs[picks] - digits.inputs[picks].mean(axis=0)
    left, values, _ = np.linalg.svd(x, full_matrices=False)
    keep = values > 1e-10 * values[0]
    inputs = left[:, keep] * values[keep] ** PARTLY  # in the span of the data
    inputs *= np.sqrt(len(inputs) / np.sum(inputs**2) * inputs.shape[1])
    covariance, target = inputs.T @ inputs / len(inputs), np.linalg.pinv(inputs) @ y
    curves, gram = {}, {}
    for depth, sigma, end in ((2, 0.02, 14.0), (3, 0.1, 30.0), (4, 0.2, 45.0)):
        start = deep_start(rng, [len(target)] + [45] * (depth - 1) + [1], sigma)
        t = np.linspace(0.0, end, 61)
        path = follow(start, target, t, covariance=covariance, rtol=1e-6)
        kernels = [inputs @ tangent_kernel([w[k] for w in path])[0, 0] @ inputs.T for k in range(len(t))]
        law = FinalKernelAnisotropic(
            start=np.ones((depth, 1, 1)), target=target, rates=np.ones(depth), covariance=covariance
        )
        curves[depth] = {
            "t": t,
            "alignment": np.array([y @ k @ y / (np.linalg.norm(k) * (y @ y)) for k in kernels]),
            "final": float(law.approximation(np, 0.0)["alignment"]),
            "sigma": sigma,
        }
        s = np.linalg.norm(target)
        closed = (depth - 1) * np.outer(y, y) / s**2 + inputs @ inputs.T
        gram[depth] = (kernels[-1] / np.abs(kernels[-1]).max(), closed / np.abs(closed).max())
    return {"curves": curves, "simulated": gram[3][0], "theory": gram[3][1]}


def draw_d4(axes: Any, data: dict[str, Any]) -> None:
    """Draw the alignment over time, and the final kernel matrix, simulated and in closed form."""
    for color, (depth, curve) in zip(INK, data["curves"].items(), strict=False):
        name = rf"$L$ = {depth}, $\sigma$ = {curve['sigma']:g}"
        axes[0].plot(curve["t"], curve["alignment"], **MARKS, color=color, label=name)
        axes[0].axhline(curve["final"], color=color, linestyle="--", linewidth=1.3)
    axes[0].set(xlabel="time $t$  (rate 1, mean loss)", ylabel="kernel alignment", title="(a) dashed: closed form, end")
    axes[0].legend(title="simulated")
    names = ("(b) final kernel, $L$ = 3, simulated", r"(c) $(L-1)\, y y^\top/s^2 + X^\top X$")
    for ax, key, name in zip(axes[1:], ("simulated", "theory"), names, strict=True):
        image = ax.imshow(data[key], cmap="viridis", vmin=-0.6, vmax=1.0)
        ax.set(xlabel="sample", ylabel="sample", title=name)
        ax.grid(False)
    axes[2].figure.colorbar(image, ax=axes[2], label="kernel over its largest entry")
