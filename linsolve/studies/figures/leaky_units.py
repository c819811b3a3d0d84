"""Leaky ReLU networks that train as linear networks: losses, optimizers, and starts that are not mirrored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linsolve.plot.style import COLORS
from linsolve.solvability.activation import Activation
from linsolve.solvability.leaky_network import gradients, signals
from linsolve.solvability.solve import solve
from linsolve.studies.figures.networks import MARKS
from linsolve.systems.whitened.starts import init

__all__ = ["compute_leaky_relu", "draw_leaky_relu"]

INK = [COLORS[name] for name in ("blue", "vermilion", "green", "purple")]
SIZES, SAMPLES, SCALE = (4, 7, 3), 40, 0.1  # inputs, pairs of hidden units, outputs
ALPHAS = (0.0, 0.2, 0.5, 1.0)
END, STEP, MARKED = 16.0, 0.01, 17
ALPHA, STEPS, SHIFT = 0.2, 3000, 1e-3
Layers = list[np.ndarray]


def _outputs(layers: Layers, X: np.ndarray, alpha: float) -> np.ndarray:
    return np.asarray(signals(np, Activation(alpha), layers, X)[0][-1])


def _gradients(layers: Layers, X: np.ndarray, Y: np.ndarray, alpha: float) -> Layers:
    return [each / len(X) for each in gradients(np, Activation(alpha), layers, X, Y)]


def _flow(layers: Layers, X: np.ndarray, Y: np.ndarray, alpha: float, marks: np.ndarray) -> np.ndarray:
    """Return the losses of the nonlinear network at times `marks`, integrated in all weights."""
    from scipy.integrate import solve_ivp

    cut, shapes = layers[0].size, [layer.shape for layer in layers]

    def split(y: np.ndarray) -> Layers:
        return [y[:cut].reshape(shapes[0]), y[cut:].reshape(shapes[1])]

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        return np.concatenate([each.ravel() for each in _gradients(split(y), X, Y, alpha)])

    start = np.concatenate([layer.ravel() for layer in layers])
    path = solve_ivp(rate, (0.0, marks[-1]), start, "DOP853", marks, rtol=1e-10, atol=1e-12).y.T
    return np.array([np.sum((_outputs(split(y), X, alpha) - Y) ** 2) / (2 * len(X)) for y in path])


def _adam() -> Callable[[Layers], Layers]:
    """Return the steps of Adam at a tenth of the step of gradient descent."""
    held: dict[str, Any] = {"k": 0, "first": [0.0, 0.0], "second": [0.0, 0.0]}

    def moves(slopes: Layers) -> Layers:
        held["k"] += 1
        held["first"] = [0.9 * m + 0.1 * g for m, g in zip(held["first"], slopes, strict=True)]
        held["second"] = [0.999 * v + 0.001 * g**2 for v, g in zip(held["second"], slopes, strict=True)]
        root = np.sqrt(1 - 0.999 ** held["k"]) / (1 - 0.9 ** held["k"])
        pairs = zip(held["first"], held["second"], strict=True)
        return [0.1 * STEP * root * m / (np.sqrt(v) + 1e-8) for m, v in pairs]

    return moves


def _descent() -> Callable[[Layers], Layers]:
    return lambda slopes: [STEP * g for g in slopes]


def _momentum() -> Callable[[Layers], Layers]:
    held = [np.zeros(()), np.zeros(())]

    def moves(slopes: Layers) -> Layers:
        held[:] = [0.9 * m + g for m, g in zip(held, slopes, strict=True)]
        return [0.1 * STEP * m for m in held]

    return moves


OPTIMIZERS = {"gradient descent": _descent, "momentum": _momentum, "Adam": _adam}


def _apart(layers: Layers, X: np.ndarray, Y: np.ndarray, moves: Callable[[], Callable[[Layers], Layers]]) -> np.ndarray:
    """Return the relative distance of the outputs from those of the linear network after each step."""
    gain, found = (1 + ALPHA) / 2, []
    nonlinear, linear = layers, [np.sqrt(gain) * layer for layer in layers]
    own, others = moves(), moves()
    for _ in range(STEPS):
        outputs, map_ = _outputs(nonlinear, X, ALPHA), linear[1] @ linear[0]
        found.append(np.linalg.norm(outputs - X @ map_.T) / np.linalg.norm(outputs))
        nonlinear = [w + m for w, m in zip(nonlinear, own(_gradients(nonlinear, X, Y, ALPHA)), strict=True)]
        pull = (Y - X @ map_.T).T @ X / len(X)
        # gradients of the weights W, of which the linear network has sqrt(g) W
        moved = others([np.sqrt(gain) * linear[1].T @ pull, np.sqrt(gain) * pull @ linear[0].T])
        linear = [w + np.sqrt(gain) * m for w, m in zip(linear, moved, strict=True)]
    return np.array(found)


def compute_leaky_relu(seed: int = 0) -> dict[str, Any]:
    """Return losses in closed form and simulated, and distances from the linear network over steps."""
    rng, (n_in, pairs, n_out) = np.random.default_rng(seed), SIZES
    first, last = init(n_in, pairs, n_out, scale=SCALE, rng=rng)
    layers = [np.concatenate([first, -first]), np.concatenate([last, -last], axis=1)]
    X = np.sqrt(SAMPLES / 2) * np.linalg.qr(rng.normal(size=(SAMPLES // 2, n_in)))[0]
    Y = X @ (np.linalg.qr(rng.normal(size=(n_in, n_out)))[0] * [3.0, 1.5, 0.75])
    X, Y = np.concatenate([X, -X]), np.concatenate([Y, -Y])
    t, marks, losses = np.linspace(0.0, END, 321), np.linspace(0.0, END, MARKED), {}
    for alpha in ALPHAS:
        traj = solve(layers, (X, Y), t, activation=("leaky_relu", alpha))
        losses[alpha] = {"theory": traj["loss"], "simulated": _flow(layers, X, Y, alpha, marks), "route": traj.route}
    moved = layers[0].copy()
    moved[0] *= 1 + SHIFT
    starts = {
        "mirrored": (layers, X, Y),
        "one unit moved": ([moved, layers[1]], X, Y),
        "one sample without mirror": (layers, X[1:], Y[1:]),
    }
    return {
        "t": t,
        "marks": marks,
        "losses": losses,
        "optimizers": {name: _apart(layers, X, Y, moves) for name, moves in OPTIMIZERS.items()},
        "starts": {name: _apart(*each, _descent) for name, each in starts.items()},
    }


def draw_leaky_relu(axes: Any, data: dict[str, Any]) -> None:
    """Draw losses over time, and distances from the linear network by optimizer and by start."""
    for color, (alpha, curve) in zip(INK, data["losses"].items(), strict=True):
        axes[0].plot(data["t"], curve["theory"], color=color)
        name = {0.0: "ReLU", 1.0: "linear"}.get(alpha, rf"$\alpha$ = {alpha:g}")
        axes[0].plot(data["marks"], curve["simulated"], **MARKS, color=color, label=name)
    axes[0].set(xlabel="time $t$  (rate 1, mean loss)", ylabel="loss $L$", title=r"(a) gain $g = (1 + \alpha)/2$")
    axes[0].legend(fontsize=8.5, title="lines: closed form; marks: simulated", title_fontsize=8.5)
    titles = {"optimizers": "(b) mirrored units and samples", "starts": "(c) near misses, gradient descent"}
    for ax, (key, title) in zip(axes[1:], titles.items(), strict=True):
        for color, (name, apart) in zip(INK, data[key].items(), strict=False):
            ax.semilogy(np.arange(len(apart)), np.maximum(apart, 1e-17), color=color, label=name)
        ax.set(xlabel="steps", ylabel="distance from the linear network", title=title, ylim=(1e-17, 10.0))
        ax.legend(fontsize=8.5)
