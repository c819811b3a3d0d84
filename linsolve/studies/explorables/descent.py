"""Explorable of gradient descent with a finite step: convergence, cycles, chaos, divergence."""

from __future__ import annotations

from typing import Any

from linsolve.core.step_rules import Rule
from linsolve.studies.explorables.page import IMPORTS, Axis, Curve, Explorable, Orbit, Panel, Slider, flow_with
from linsolve.systems.two_layer.order_parameters import OrderDescent, TwoLayerOrder

__all__ = ["EXPLORABLES"]


def _begin(xp: Any, imbalance: Any, offset: Any) -> dict[str, Any]:
    """Return the order parameters next to a minimum of this imbalance, ``4 P Q``, and the number of steps, 0."""
    flow = flow_with(xp, TwoLayerOrder)
    P = (xp.sqrt(1 + imbalance) + 1) / 2
    _, now = flow.reduced(xp, flow.State(P + offset, imbalance / 4 / P, 0 * P))
    return {"P": now.P, "Q": now.Q, "residual": now.residual, "k": 0 * P}


def _step(xp: Any, P: Any, Q: Any, residual: Any, k: Any, rate: Any) -> dict[str, Any]:
    """Return the order parameters after one step; the flattest minimum has sharpness 4."""
    flow = flow_with(xp, TwoLayerOrder)
    now = flow.advanced(xp, None, OrderDescent(P, Q, 0 * P, residual), Rule(rate / 4))
    return {"P": now.P, "Q": now.Q, "residual": now.residual, "k": k + 1}


CHAOS = Explorable(
    title="Gradient descent: from rest to chaos",
    text="Two linear layers of any width on a line of data, trained by gradient descent with a finite step $h$, "
    "started close to a minimum. Let $X$ be the step times the sharpness of the flattest minimum. Above $X = 2$ no "
    "minimum attracts; cycles double their periods up to chaos. Above $X \\radic(1 + i) = 4$, with $i$ the imbalance, "
    "descent diverges.",
    equation=r"P \larr P (1 - 2 h r)^2, \emsp Q \larr Q (1 + 2 h r)^2, \emsp r = P - Q - 1, \emsp "
    r"X = 4 h, \emsp i = 4 P Q",
    sliders=(
        Slider("rate", "step times sharpness, $X$", 0.05, 4.2, 2.3, 0.01),
        Slider("imbalance", "imbalance at the start, $i$", 0.01, 100.0, 0.1),
        Slider("offset", "residual at the start", 1e-6, 0.5, 0.01),
    ),
    panels=(
        Panel(
            "Residual, step by step",
            Axis("step k", 0.0, 80.0),
            Axis("residual r"),
            "rate",
            (0.05, 4.2, "linear"),
            tuple(
                Curve(label, "residual", "k", dash=dash, width=width, orbit=Orbit("begin", "step", 80))
                for label, dash, width in (("residual", "points", 5.0), ("", "", 0.8))
            ),
        ),
        Panel(
            "After 300 steps: the residuals of the next 40",
            Axis("step times sharpness, X", 0.0, 4.2),
            Axis("residual r", -1.2, 1.2),
            "rate",
            (0.05, 4.2, "linear"),
            (
                Curve(
                    "long-time residuals", "residual", dash="points", width=1.3, orbit=Orbit("begin", "step", 340, 301)
                ),
            ),
            points=250,
            line="rate",
        ),
    ),
    formulas={"begin": _begin, "step": _step},
    code=IMPORTS + "flow = ls.TwoLayerOrder(y=1.0)\n"
    "P = (np.sqrt(1 + {imbalance}) + 1) / 2\n"
    "start = flow.State(P=P + {offset}, Q={imbalance} / 4 / P, R=0.0)\n"
    "k = np.arange(81)\n"
    'residual = flow.discrete(k, start, step={rate} / 4)["residual"]  # raises ArithmeticError if it diverges\n',
)

EXPLORABLES = {"chaos": CHAOS}
