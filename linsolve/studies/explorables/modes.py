"""Explorables of single modes: learning in stages, and depth."""

from __future__ import annotations

from typing import Any

from linsolve.studies.explorables.page import Axis, Curve, Explorable, Panel, Reading, Slider, flow_with
from linsolve.systems.mode.balanced_mode import BalancedMode

__all__ = ["EXPLORABLES"]

COLORS, DASHES = ("blue", "vermilion", "green", "purple"), ("", "9 4", "3 3", "9 3 2 3")
SINGULAR_VALUES = (4.0, 2.0, 1.0, 0.5)


def _strengths(xp: Any, t: Any, s1: Any, s2: Any, s3: Any, s4: Any, a0: Any) -> dict[str, Any]:
    """Return the strengths of four modes and the loss."""
    found: dict[str, Any] = {}
    for k, s in enumerate((s1, s2, s3, s4), 1):
        flow = flow_with(xp, BalancedMode, s=s)
        z0 = flow.State(a0)
        shared = flow.shared(xp, t, z0)
        found[f"a{k}"] = flow.solution(xp, t, z0, shared).a
        loss = flow.along(xp, t, z0, shared)["loss"]
        found["loss"] = found["loss"] + loss if k > 1 else loss
    return found


def _half_learned(xp: Any, s: Any, a0: Any) -> dict[str, Any]:
    """Return the time at which the loss of a mode is that of ``a = s/2``."""
    flow = flow_with(xp, BalancedMode, s=s)
    return {"time": flow.time_to(xp, flow.State(a0), loss=(s / 2) ** 2 / 2)}


STAGES = Explorable(
    title="Learning in stages",
    text="A two-layer linear network learns the singular modes of its data one after the other, the strongest first. "
    "From small weights each mode waits, then rises as a sigmoid; the loss falls in steps.",
    equation=r"da/dt = 2 |a| (s - a), \emsp a(t) = a_0 / [e^{-2 s t} + a_0 (1 - e^{-2 s t})/s]",
    sliders=(
        *(Slider(f"s{k}", f"singular value $s_{k}$", 0.1, 5.0, s, 0.1) for k, s in enumerate(SINGULAR_VALUES, 1)),
        Slider("a0", "strength at the start, $a_0$", 1e-8, 0.1, 1e-4),
        Slider("end", "time shown", 1.0, 40.0, 12.0, 0.5),
    ),
    panels=(
        Panel(
            "Strengths of the modes",
            Axis("time t", 0.0, "end"),
            Axis("strength a", 0.0),
            "t",
            (0.0, "end", "linear"),
            tuple(
                Curve(f"mode {k}", f"a{k}", color=color, dash=dash)
                for k, (color, dash) in enumerate(zip(COLORS, DASHES, strict=True), 1)
            ),
            formula="strengths",
        ),
        Panel(
            "Loss",
            Axis("time t", 0.0, "end"),
            Axis("loss, summed over the modes", 0.0),
            "t",
            (0.0, "end", "linear"),
            (Curve("sum of $(s - a)^2/2$", "loss", color="black"),),
            formula="strengths",
        ),
    ),
    formulas={"strengths": _strengths, "half_learned": _half_learned},
    code="import numpy as np\n"
    "import linsolve as ls\n"
    "\n"
    "t = np.linspace(0, {end}, 301)\n"
    "traj = ls.BalancedMode(s=[{s1}, {s2}, {s3}, {s4}])(t, {a0})\n"
    'a1, a2, a3, a4 = traj["a"].T\n'
    'loss = traj["loss"].sum(axis=-1)\n',
    readings=tuple(
        Reading(f"Mode {k} is half learned at t = {{}}.", "half_learned", "time", {"s": f"s{k}"})
        for k in range(1, len(SINGULAR_VALUES) + 1)
    ),
)

EXPLORABLES = {"stages": STAGES}
