"""Figures 2, 3 and B.1: the two phases of a two-layer network on white inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.plot.style import COLORS, INK
from linsolve.studies.figures.networks import MARKS, closed_form, crossing, simulated, two_layer_start
from linsolve.systems.small_start.learning_times import LearningTime
from linsolve.systems.small_start.matched import RefinedMatchedSolution

__all__ = ["compute_2", "compute_3", "compute_b1", "draw_2", "draw_3", "draw_b1"]


def compute_2(seed: int = 0) -> dict[str, Any]:
    """Return the kernel's matrix, theory and simulation, at three times, for one sample of two inputs."""
    rng, sigma, width, s = np.random.default_rng(seed), 0.005, 400, 1.0
    beta = np.array([np.cos(0.6), np.sin(0.6)])
    first, last = two_layer_start(rng, width, 2)
    unseen = sigma * first @ (np.eye(2) - np.outer(beta, beta))
    along = (first @ beta)[:, None]  # the direction of the sample, the only one that gradient flow changes
    wait = LearningTime(last=last, first=along, target=[s]).approximation(np, np.asarray(sigma))["half of the target"]
    t = np.array([0.0, 0.5 * float(wait), 3.0 * float(wait)])
    seen = simulated([sigma * along, sigma * last[None, :]], np.array([[s]]), np.linspace(0.0, t[-1], 121))
    stops = simulated([sigma * along, sigma * last[None, :]], np.array([[s]]), t)
    law = closed_form(along, last, np.array([s]), sigma, t)
    a, w = _layers(along, last, s, sigma, t)
    return {
        "t": t,
        "beta": beta,
        "s": s,
        "theory": [_matrix(x, y, unseen, beta) for x, y in zip(a, w, strict=True)],
        "simulated": [_matrix(x[0], y[:, 0], unseen, beta) for y, x in zip(*stops["layers"], strict=True)],
        "map": law["r"][:, None] * beta + a @ unseen,
        "path": np.stack([(y[:, :1] * beta + unseen).T @ x[0] for y, x in zip(*seen["layers"], strict=True)]),
    }


def _layers(
    along: np.ndarray, last: np.ndarray, s: float, sigma: float, t: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    from linsolve.systems.small_start.matched import KernelAlignment

    p0 = sigma**2 * np.sum((last + along[:, 0]) ** 2) / 2
    law = KernelAlignment(last=last, first=along, target=[s], phases=2 * s * t - np.log(2 * s / p0))
    a, w, _ = law.layers(np, np.asarray(sigma))
    return a, w


def _matrix(a: np.ndarray, w: np.ndarray, unseen: np.ndarray, beta: np.ndarray) -> np.ndarray:
    first = unseen + np.outer(w, beta)
    return first.T @ first + (a @ a) * np.eye(2)


def draw_2(axes: Any, data: dict[str, Any]) -> None:
    """Draw level curves of the norm ``b^T M^-1 b`` over the plane of linear functions, and the network."""
    turn = np.linspace(0.0, 2 * np.pi, 200)
    ring = np.stack([np.cos(turn), np.sin(turn)])
    names = ("(a) at the start", "(b) end of phase I", "(c) end of phase II")
    across = np.array([-data["beta"][1], data["beta"][0]])
    line = data["s"] * data["beta"] + np.linspace(-3, 3, 2)[:, None] * across
    for ax, name, theory, found, k in zip(axes, names, data["theory"], data["simulated"], range(3), strict=True):
        for level in (0.4, 0.8, 1.2):
            for matrix, style in ((theory, {"color": COLORS["sky"]}), (found, MARKS | {"color": COLORS["black"]})):
                # scaled by the mean eigenvalue: the shape is what evolves first
                values, vectors = np.linalg.eigh(matrix / (np.trace(matrix) / 2))
                curve = vectors @ (np.sqrt(values)[:, None] * (vectors.T @ ring)) * level
                step = slice(None) if "marker" not in style else slice(None, None, 10)
                ax.plot(*curve[:, step], **style)
        ax.plot(*line.T, color=COLORS["black"], linewidth=1.5)
        until = (len(data["path"]) - 1) * data["t"][k] / data["t"][-1]
        ax.plot(*data["path"][: int(until) + 1].T, color=COLORS["vermilion"])
        ax.plot(*data["map"][k], "D", color=COLORS["vermilion"], markersize=8)
        ax.set(xlim=(-1.75, 1.75), ylim=(-2.6, 1.75), aspect="equal", title=f"{name}, $t$ = {data['t'][k]:.1f}")
        ax.set(xlabel=r"$\beta_1$", ylabel=r"$\beta_2$")
    axes[0].plot([], [], color=COLORS["sky"], label="norm, closed form")
    axes[0].plot([], [], **MARKS, color=COLORS["black"], label="norm, simulated kernel")
    axes[0].plot([], [], color=COLORS["black"], linewidth=1.5, label="fits the sample")
    axes[0].plot([], [], "D-", color=COLORS["vermilion"], label="network")
    axes[0].legend(loc="lower left", fontsize=8.5, frameon=True, framealpha=0.9, edgecolor="none")


def compute_3(seed: int = 0) -> dict[str, Any]:
    """Return losses, times to half the loss, and alignment, theory and simulation, by size of the start."""
    rng = np.random.default_rng(seed)
    first, last = two_layer_start(rng, 20, 15)
    target = rng.normal(size=15)
    target /= np.linalg.norm(target)
    law = LearningTime(last=last, first=first, target=target)
    curves, dense = {}, np.logspace(-4.3, -0.7, 40)
    for sigma in (1e-1, 1e-2, 1e-3, 1e-4):
        t = np.linspace(0.0, 14.0, 281)
        curves[sigma] = {
            "simulated": simulated([sigma * first, sigma * last[None, :]], target, t),
            "theory": closed_form(first, last, target, sigma, t),
        }
    return {
        "curves": curves,
        "sigma": dense,
        "wait": np.array([float(law.approximation(np, np.asarray(x))["half of the loss"]) for x in dense]),
        "found": {
            sigma: crossing(c["simulated"]["t"], c["simulated"]["loss"], c["simulated"]["loss"][0] / 2)
            for sigma, c in curves.items()
        },
        "final": 2 / np.sqrt(len(target) + 3),
    }


def draw_3(axes: Any, data: dict[str, Any]) -> None:
    """Draw loss, time to half the loss, and the silence of alignment."""
    for color, (sigma, curve) in zip(INK, data["curves"].items(), strict=False):
        found, theory = curve["simulated"], curve["theory"]
        name = rf"$10^{{{int(np.log10(sigma))}}}$"
        axes[0].plot(found["t"], theory["loss"], color=color)
        axes[0].plot(found["t"][::7], found["loss"][::7], **MARKS, color=color)
        axes[0].text(data["found"][sigma] + 0.25, 0.31, name, color=color, fontsize=10)
        axes[1].plot(sigma**2, data["found"][sigma], **MARKS | {"markersize": 8}, color=color)
    axes[0].set(xlabel=r"time $t$  (units of 1/$s$, rate 1)", ylabel="loss $L$", title=r"(a) loss, by $\sigma$")
    axes[0].set_xlim(right=12.5)
    axes[1].plot(data["sigma"] ** 2, data["wait"], color=COLORS["black"], zorder=0, label=r"$t_{1/2}$, closed form")
    axes[1].set(xscale="log", xlabel=r"$\sigma^2$", ylabel="time to half the loss  (1/$s$)", title=r"(b) $t_{1/2}$")
    axes[1].plot([], [], **MARKS, color=COLORS["black"], label="simulated")
    axes[1].legend()
    last = data["curves"][1e-4]
    t = last["simulated"]["t"]
    for key, color, name in (("alignment", COLORS["green"], "alignment"), ("loss", COLORS["blue"], "loss / loss at 0")):
        scale = 1.0 if key == "alignment" else last["simulated"]["loss"][0]
        axes[2].plot(t, last["theory"][key] / scale, color=color)
        axes[2].plot(t[::7], last["simulated"][key][::7] / scale, **MARKS, color=color, label=name)
    axes[2].axhline(data["final"], color=COLORS["green"], linestyle="--", linewidth=1.3, label=r"$2/\sqrt{r+3}$")
    axes[2].set(xlabel=r"time $t$  (1/$s$)", ylabel="alignment, loss", title=r"(c) $\sigma = 10^{-4}$", ylim=(0, 1.05))
    axes[2].legend(loc="upper left", bbox_to_anchor=(0.02, 0.93), fontsize=10)


def compute_b1(seed: int = 0) -> dict[str, Any]:
    """Return q and r of a synthetic problem and of two classes of digits."""
    from linsolve.data.reading import load
    from linsolve.data.whitening import whiten

    rng = np.random.default_rng(seed)
    target = rng.normal(size=25)
    digits = load("digits", classes=["0", "1"])
    white = whiten(digits.inputs, digits.targets[:, 0] - digits.targets[:, 1])
    problems = {
        "(a) synthetic, $D$ = 25, $N$ = 10": (target / np.linalg.norm(target), 10),
        f"(b) digits 0 and 1, $D$ = {white.rank}, $N$ = 100": (white.target[0], 100),
    }
    found: dict[str, Any] = {}
    for name, (goal, width) in problems.items():
        first, last = two_layer_start(rng, width, len(goal))
        sigma, s = 1e-2, np.linalg.norm(goal)
        t = np.linspace(0.0, 9.0, 91) / s
        path = simulated([sigma * first, sigma * last[None, :]], goal, t)
        w, a = path["layers"][0] @ goal / s, path["layers"][1][:, 0]
        p0 = sigma**2 * np.sum((last + first @ goal / s) ** 2) / 2
        q0 = sigma**2 * (np.sum(last**2) + np.sum((first @ goal / s) ** 2)) / 2
        law = RefinedMatchedSolution(last=last, first=first, target=goal, phases=2 * s * t - np.log(2 * s / p0))
        down = np.exp(-2 * s * t)
        found[name] = {
            "x": s * t,
            "s": s,
            "theory": law.approximation(np, np.asarray(sigma)),
            "printed": s * (1 - down**2) / (1 - down + 2 * s / q0 * down),
            "q": np.sum(a * a + w * w, axis=-1) / 2,
            "r": np.sum(a * w, axis=-1),
        }
    return found


def draw_b1(axes: Any, data: dict[str, Any]) -> None:
    """Draw q and r over s."""
    for ax, (name, found) in zip(axes, data.items(), strict=True):
        looks: tuple[tuple[str, str, float, dict[str, Any]], ...]
        looks = (("q", COLORS["blue"], 4.0, {"marker": "s", "markersize": 8}), ("r", COLORS["vermilion"], 1.5, {}))
        for key, color, width, mark in looks:
            ax.plot(found["x"], found["theory"][key] / found["s"], color=color, linewidth=width)
            ax.plot(
                found["x"][::4], found[key][::4] / found["s"], **MARKS | mark, color=color, label=f"${key}$, simulated"
            )
        ax.plot(
            found["x"],
            found["printed"] / found["s"],
            color="#777777",
            linestyle=":",
            label="$r$ with $q_0$, for large $D$",
        )
        ax.set(xlabel="time $s t$  (rate 1)", ylabel="$q/s$, $r/s$", title=name)
        ax.legend(title="lines: closed form", title_fontsize=9.5)
