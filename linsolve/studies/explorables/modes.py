"""Explorables of single modes: learning in stages, and depth."""

from __future__ import annotations

import math
from typing import Any

from linsolve.studies.explorables.page import IMPORTS, Axis, Curve, Explorable, Panel, Reading, Slider, flow_with
from linsolve.systems.mode.balanced_mode import BalancedMode
from linsolve.systems.mode.deep_mode import DeepMode

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
    code=IMPORTS + "t = np.linspace(0, {end}, 301)\n"
    "traj = ls.BalancedMode(s=[{s1}, {s2}, {s3}, {s4}])(t, {a0})\n"
    'a1, a2, a3, a4 = traj["a"].T\n'
    'loss = traj["loss"].sum(axis=-1)\n',
    readings=tuple(
        Reading(f"Mode {k} is half learned at t = {{}}.", "half_learned", "time", {"s": f"s{k}"})
        for k in range(1, len(SINGULAR_VALUES) + 1)
    ),
)


def _growth_time(xp: Any, a: Any, a0: Any, depth: Any) -> dict[str, Any]:
    """Return the time at which a mode has the strength `a`; the time constant is the depth, 1 at infinite depth."""
    endless = xp.isinf(depth)
    flow = flow_with(xp, DeepMode, depth=depth, tau=xp.where(endless, xp.ones_like(depth), depth))
    return {"t": flow.time_to(xp, flow.State(a0), loss=(1 - a) ** 2 / 2)}


def _half_time(xp: Any, a0: Any, depth: Any) -> dict[str, Any]:
    """Return the time at which a mode is half learned."""
    return _growth_time(xp, xp.ones_like(a0) / 2, a0, depth)


_DEPTHS = tuple(
    zip((1.0, 2.0, 3.0, math.inf), ("purple", "green", "blue", "black"), ("3 3", "9 4", "", "9 3 2 3"), strict=True)
)


def _at_depths(y: str, x: str = "") -> tuple[Curve, ...]:
    """Return thin curves at four depths and a thick one at the depth of the slider."""
    fixed = (
        Curve("infinitely deep" if depth == math.inf else f"depth {depth:g}", y, x, {"depth": depth}, color, dash, 1.6)
        for depth, color, dash in _DEPTHS
    )
    return (*fixed, Curve("depth of the slider", y, x, color="vermilion", width=3.2))


DEPTH = Explorable(
    title="Depth: the plateau lengthens",
    text="One balanced mode of a linear network of depth $D$. With two layers the time to learn grows with the "
    "logarithm of the inverse start; with more layers, with a power of it. The time constant is $D$, so that the "
    "equation has a limit at infinite depth.",
    equation=r"da/dt = |a|^{2 - 2/D} (1 - a), \emsp a = u^{D}",
    sliders=(
        Slider("depth", "depth $D$", 1.0, 8.0, 4.0, 0.1),
        Slider("a0", "strength at the start, $a_0$", 1e-6, 0.3, 0.01),
        Slider("end", "time shown", 5.0, 200.0, 40.0, 1.0),
    ),
    panels=(
        Panel(
            "Strength of the mode",
            Axis("time t", 0.0, "end"),
            Axis("strength a, of the target 1", 0.0, 1.05),
            "a",
            ("a0", 0.999999999, "odds"),
            _at_depths("a", "t"),
            formula="growth_time",
        ),
        Panel(
            "Time until half is learned",
            Axis("strength at the start", log=True),
            Axis("time t", 0.1, 1e6, log=True),
            "a0",
            (1e-6, 0.3, "log"),
            _at_depths("t"),
            formula="half_time",
            points=121,
            line="a0",
        ),
    ),
    formulas={"growth_time": _growth_time, "half_time": _half_time},
    code=IMPORTS + "odds = np.geomspace({a0} / (1 - {a0}), 1e9, 301)\n"
    "a = odds / (1 + odds)\n"
    "flow = ls.DeepMode(s=1.0, depth={depth}, tau={depth})\n"
    "t = flow.when({a0}, loss=(1 - a) ** 2 / 2)\n",
    readings=(Reading("The mode is half learned at t = {}.", "half_time", "t"),),
)

EXPLORABLES = {"stages": STAGES, "depth": DEPTH}
