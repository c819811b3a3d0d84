"""Figure 8 of Ortiz-Jimenez, Moosavi-Dezfooli, Frossard (2021), linear case: learning speed of frozen kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.flow import Flow
from linsolve.core.integrate import integrate
from linsolve.core.network import deep_weights, trained
from linsolve.plot.style import COLORS
from linsolve.studies.figures.networks import MARKS, deep_start
from linsolve.systems.kernel_regime.tangent import convergence, linearize
from linsolve.systems.kernel_regime.tangent_deep import is_deep, outputs_of
from linsolve.systems.two_layer.two_layer import TwoLayer
from linsolve.systems.whitened.whitened_two_layer import WhitenedTwoLayer

__all__ = ["compute_8", "draw_8"]

CURVES = {
    "network": ("the network", "blue"),
    "initial": ("kernel frozen at the start", "vermilion"),
    "final": ("kernel frozen at the end", "green"),
}


def compute_8(seed: int = 0) -> dict[str, Any]:
    """Return the loss of a network and of its two linearizations, closed form and simulation, for two networks."""
    rng = np.random.default_rng(seed)
    line = TwoLayer(y=1.0, gamma=0.1, x=rng.normal(size=4) / 2)
    weights = WhitenedTwoLayer.init(6, 3, 3, scale=0.3, rng=rng)
    return {
        "one output, data on a line": _panel(line, TwoLayer.init(50, 4, sigma_u=0.3, sigma_w=0.3, rng=rng), 60.0),
        "three outputs, white inputs": _panel(
            WhitenedTwoLayer(rng.normal(size=(3, 6)) / 2), WhitenedTwoLayer.of(*weights), 20.0
        ),
        "three layers, any inputs": _panel(*_three_layers(rng), 15.0),
    }


def _three_layers(rng: np.random.Generator) -> tuple[Flow, Any]:
    root = rng.normal(size=(4, 8)) / np.sqrt(8)
    flow = deep_weights(rng.normal(size=(2, 4)) / np.sqrt(2), 3, covariance=root @ root.T)
    return flow, flow.State(*deep_start(rng, [4, 6, 6, 2], 0.6))


def _panel(flow: Flow, start: Any, end: float) -> dict[str, Any]:
    t, marks = np.linspace(0.0, end, 301), np.linspace(0.0, end, 16)
    closed, sparse = convergence(flow, t, start), convergence(flow, marks, start)
    simulated = {"network": integrate(flow, marks, start)["loss"]}
    for name, state in (("initial", start), ("final", _end(flow, start))):
        frozen, at_zero = linearize(flow, state), getattr(sparse, name)[0]
        followed = integrate(frozen, marks, _outputs(flow, start, frozen))["loss"]
        simulated[name] = at_zero * followed / followed[0]
    theory = {name: getattr(closed, name) for name in CURVES}
    return {"t": t, "marks": marks, "theory": theory, "at_marks": sparse, "simulated": simulated}


def _end(flow: Any, start: Any) -> Any:
    """Return the trained network."""
    if is_deep(flow):
        return type(start)(*trained(list(start), flow.target, covariance=flow.covariance, rates=flow.rates))
    return flow(np.inf, start).state


def _outputs(flow: Any, start: Any, frozen: Any) -> Any:
    """Return the outputs of the network at its start on the points of its linearization."""
    if is_deep(flow):
        return outputs_of(np, flow, list(start))
    value = flow.output(np, start) if isinstance(flow, TwoLayer) else np.ravel(start.product)
    return np.reshape(value, np.shape(frozen.y))


def draw_8(axes: Any, data: dict[str, Any]) -> None:
    """Draw the three losses of each network, relative to the loss at the start."""
    for k, (ax, (title, panel)) in enumerate(zip(axes, data.items(), strict=True)):
        for name, (label, color) in CURVES.items():
            first = panel["theory"][name][0]
            ax.semilogy(panel["t"], panel["theory"][name] / first, color=COLORS[color], label=label)
            ax.semilogy(panel["marks"], panel["simulated"][name] / first, color=COLORS[color], **MARKS)
        ax.set_title(f"({'abc'[k]}) {title}", loc="left")
        ax.set_xlabel("time $t$  (rate 1)")
        ax.set_ylabel("loss / loss at 0")
        ax.set_ylim(1e-6, 3)
    axes[0].legend(title="lines: closed form", loc="lower left")
