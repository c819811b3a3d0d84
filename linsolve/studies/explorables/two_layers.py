"""Explorables of two layers on a line of data: any start, lazy training, silent alignment, parity."""

from __future__ import annotations

from typing import Any

from linsolve.studies.explorables.page import IMPORTS, Axis, Curve, Explorable, Orbit, Panel, Reading, Slider, flow_with
from linsolve.systems.two_layer.order_parameters import TwoLayerOrder
from linsolve.systems.two_layer.two_layer import TwoLayer

__all__ = ["EXPLORABLES"]


# any start


def _weights(xp: Any, t: Any, u: Any, w: Any, y: Any) -> dict[str, Any]:
    """Return the weights of one hidden unit, the output and the tangent kernel."""
    flow, p, q = flow_with(xp, TwoLayerOrder, y=y), (w + u) / 2, (w - u) / 2
    z0 = flow.State(p * p, q * q, p * q)
    shared = flow.shared(xp, t, z0)
    z, output = flow.solution(xp, t, z0, shared), flow.along(xp, t, z0, shared)["output"]
    p, q = xp.sign(p) * xp.sqrt(z.P), xp.sign(q) * xp.sqrt(z.Q)
    return {"u": p - q, "w": p + q, "output": output, "kernel": flow.ntk(xp, z)}


def _final(xp: Any, u: Any, w: Any, y: Any) -> dict[str, Any]:
    """Return the output at the end, and the final kernel over the initial one."""
    found = _weights(xp, xp.full_like(u, xp.inf), u, w, y)
    return {"output": found["output"], "growth": found["kernel"] / (u * u + w * w)}


def _targets(xp: Any, t: Any, y: Any) -> dict[str, Any]:
    """Return the weights whose output is the target, with the parameter `t`."""
    return {"u": t, "w": y / t, "left_u": -t, "left_w": -y / t}


_SIDE = (-1.8, -1.2, -0.6, 0.0, 0.6, 1.2, 1.8)
_EDGES = [(u, w) for u in _SIDE for w in (-1.8, 1.8)] + [(u, w) for w in _SIDE[1:-1] for u in (-1.8, 1.8)]
_BACKGROUND = tuple(Curve("", "w", "u", {"u": u, "w": w}, "faint", "", 0.8) for u, w in _EDGES)
_TARGETS = (
    Curve("target, $u w = y$", "w", "u", {}, "green", "9 4", formula="targets"),
    Curve("", "left_w", "left_u", {}, "green", "9 4", formula="targets"),
)

PHASE = Explorable(
    title="Two layers from any start: the phase portrait",
    text="Two layers with one hidden unit learn $y$ from almost every start; drag the start in the plane. The motion is"
    " a hyperbolic rotation, and $u^2 - w^2$ is conserved. The origin is a saddle: starts with $u = -w$ (for $y > 0$)"
    " end on it and learn nothing.",
    equation=r"L = (u w - y)^2, \emsp u + w = (u_0 + w_0) e^{\theta(t)}, \emsp u - w = (u_0 - w_0) e^{-\theta(t)}",
    sliders=(
        Slider("u", "second layer at the start, $u_0$", -1.8, 1.8, -0.9, 0.01),
        Slider("w", "first layer at the start, $w_0$", -1.8, 1.8, 1.1, 0.01),
        Slider("y", "target $y$", -2.0, 2.0, 1.0, 0.05),
        Slider("end", "time shown", 0.5, 20.0, 4.0, 0.5),
    ),
    panels=(
        Panel(
            "Plane of the weights",
            Axis("second layer u", -1.8, 1.8),
            Axis("first layer w", -1.8, 1.8),
            "t",
            (0.002, 50.0, "log"),
            (*_BACKGROUND, *_TARGETS, Curve("path of this start", "w", "u", width=3.2, color="vermilion")),
            formula="weights",
            points=121,
            drag=("u", "w"),
        ),
        Panel(
            "Output and tangent kernel",
            Axis("time t", 0.0, "end"),
            Axis("value"),
            "t",
            (0.0, "end", "linear"),
            (
                Curve("output $f = u w$", "output", color="vermilion", width=2.8),
                Curve("tangent kernel $u^2 + w^2$", "kernel", dash="9 4"),
            ),
            formula="weights",
        ),
    ),
    formulas={"weights": _weights, "final": _final, "targets": _targets},
    code=IMPORTS + "u, w = {u}, {w}\n"
    "flow = ls.TwoLayerOrder(y={y})\n"
    "start = flow.State(P=((w + u) / 2) ** 2, Q=((w - u) / 2) ** 2, R=(w + u) / 2 * ((w - u) / 2))\n"
    "t = np.linspace(0, {end}, 301)\n"
    "traj = flow(t, start)\n"
    'output, kernel = traj["output"], traj["ntk"]\n',
    readings=(
        Reading("The output ends at {}.", "final", "output"),
        Reading("The tangent kernel changes by a factor of {}: near 1, training is lazy.", "final", "growth"),
    ),
)


# lazy and feature training


def _lazy_start(xp: Any, lengths: Any) -> tuple[Any, Any, Any]:
    """Return the order parameters of orthogonal layers ``u`` and ``W x`` of lengths `lengths` and one over it."""
    squares = lengths * lengths, 1 / (lengths * lengths)
    return (squares[0] + squares[1]) / 4, (squares[0] + squares[1]) / 4, (squares[1] - squares[0]) / 4


def _lazy(xp: Any, t: Any, alpha: Any, lengths: Any) -> dict[str, Any]:
    """Return the scaled output ``F = alpha f``, which starts at 0, and the tangent kernel over its initial value."""
    flow = flow_with(xp, TwoLayerOrder, y=1 / alpha)
    z0 = flow.State(*_lazy_start(xp, lengths))
    shared = flow.shared(xp, t, z0)
    output, z = flow.along(xp, t, z0, shared)["output"], flow.solution(xp, t, z0, shared)
    return {"F": alpha * output, "kernel": flow.ntk(xp, z) / flow.ntk(xp, z0)}


def _lazy_end(xp: Any, alpha: Any, lengths: Any) -> dict[str, Any]:
    """Return the final tangent kernel over its initial value."""
    return {"kernel": _lazy(xp, xp.full_like(alpha, xp.inf), alpha, lengths)["kernel"]}


LAZY = Explorable(
    title="From lazy to feature learning",
    text="Two layers whose output is multiplied by $\\alpha$, while the loss is divided by $\\alpha^2$. A large "
    "$\\alpha$ gives lazy training: the weights hardly move, the tangent kernel stays, and the error decays as "
    "in a linear model. A small $\\alpha$ gives feature learning: the kernel grows, and learning accelerates.",
    equation=r"L = (F - 1)^2/\alpha^2, \emsp F = \alpha u \middot W x, \emsp u_0 \perp W_0 x, \emsp "
    r"|u_0| = 1/|W_0 x| = \rho",
    sliders=(
        Slider("alpha", "scale of the output, $\\alpha$", 0.01, 100.0, 0.3),
        Slider("lengths", "length of the second layer at the start, $\\rho$", 0.2, 5.0, 1.0),
        Slider("end", "time shown", 0.2, 5.0, 1.5, 0.1),
    ),
    panels=(
        Panel(
            "Output and tangent kernel",
            Axis("time t", 0.0, "end"),
            Axis("value", 0.0, 4.0),
            "t",
            (0.0, "end", "linear"),
            (
                Curve("output $F$", "F", color="vermilion", width=2.8),
                Curve("output in the lazy limit", "F", "", {"alpha": 1e6}, "black", "3 3", 1.6),
                Curve("kernel over its initial value", "kernel", dash="9 4"),
            ),
            formula="lazy",
        ),
        Panel(
            "Tangent kernel at the end",
            Axis("scale of the output", log=True),
            Axis("final kernel over initial kernel", 0.8, 200.0, log=True),
            "alpha",
            (0.01, 100.0, "log"),
            (
                Curve("this start", "kernel", color="blue", width=2.8),
                Curve("layers of equal length", "kernel", "", {"lengths": 1.0}, "black", "3 3", 1.6),
            ),
            formula="lazy_end",
            points=161,
            line="alpha",
        ),
    ),
    formulas={"lazy": _lazy, "lazy_end": _lazy_end},
    code=IMPORTS + "squares = {lengths} ** 2, 1 / {lengths} ** 2\n"
    "flow = ls.TwoLayerOrder(y=1 / {alpha})\n"
    "start = flow.State(P=sum(squares) / 4, Q=sum(squares) / 4, R=(squares[1] - squares[0]) / 4)\n"
    "t = np.linspace(0, {end}, 301)\n"
    "traj = flow(t, start)\n"
    'F, kernel = {alpha} * traj["output"], traj["ntk"] / traj["ntk"][0]\n',
    readings=(Reading("The kernel ends at {} times its initial value.", "lazy_end", "kernel"),),
)


# silent alignment


def _aligned(xp: Any, t: Any, sigma: Any, cosine: Any) -> dict[str, Any]:
    """Return the cosine between the layers, the loss, the output, and the kernel over its final value; target 1."""
    flow, square = flow_with(xp, TwoLayerOrder), sigma * sigma
    z0 = flow.State(square * (1 + cosine) / 2, square * (1 - cosine) / 2, 0 * square)
    shared = flow.shared(xp, t, z0)
    along, z = flow.along(xp, t, z0, shared), flow.solution(xp, t, z0, shared)
    end = flow.solution(xp, xp.full_like(t, xp.inf), z0)
    return {
        "alignment": along["alignment"],
        "loss": along["loss"],
        "output": along["output"],
        "kernel": flow.ntk(xp, z) / flow.ntk(xp, end),
    }


_STARTS = ((1e-3, "black", "3 3"), (0.1, "green", "9 4"), (0.5, "purple", "9 3 2 3"))

ALIGNMENT = Explorable(
    title="Silent alignment",
    text="Two layers that start small, at a random angle. In phase I they align while the loss stands still; in phase "
    "II the aligned layers grow, and the network learns like a kernel machine whose kernel only changes in size. "
    "The smaller the start, the more silent the alignment.",
    equation=r"L = (u \middot W x - 1)^2, \emsp |u_0| = |W_0 x| = \sigma, \emsp \zeta = cos(u, W x)",
    sliders=(
        Slider("sigma", "size of the start, $\\sigma$", 1e-4, 1.0, 0.01),
        Slider("cosine", "cosine between the layers at the start, $\\zeta_0$", -0.95, 0.95, 0.1, 0.01),
        Slider("end", "time shown", 1.0, 12.0, 4.0, 0.5),
    ),
    panels=(
        Panel(
            "Alignment, loss and kernel in time",
            Axis("time t", 0.0, "end"),
            Axis("value"),
            "t",
            (0.0, "end", "linear"),
            (
                Curve("alignment $\\zeta$", "alignment", color="vermilion", width=2.8),
                Curve("loss", "loss", color="black", dash="3 3"),
                Curve("tangent kernel over its final value", "kernel", dash="9 4"),
            ),
            formula="aligned",
        ),
        Panel(
            "Alignment over output, where it is positive",
            Axis("output, of the target 1", 1e-7, 1.0, log=True),
            Axis("alignment of the layers", -1.0, 1.05),
            "t",
            (1e-3, 100.0, "log"),
            (
                *(
                    Curve(f"start of size {size:g}", "alignment", "output", {"sigma": size}, color, dash, 1.6)
                    for size, color, dash in _STARTS
                ),
                Curve("this start", "alignment", "output", color="vermilion", width=2.8),
            ),
            formula="aligned",
        ),
    ),
    formulas={"aligned": _aligned},
    code=IMPORTS + "square = {sigma} * {sigma}\n"
    "flow = ls.TwoLayerOrder(y=1.0)\n"
    "start = flow.State(P=square * (1 + {cosine}) / 2, Q=square * (1 - {cosine}) / 2, R=0.0)\n"
    "t = np.linspace(0, {end}, 301)\n"
    "traj = flow(t, start)\n"
    'alignment, loss, output = traj["alignment"], traj["loss"], traj["output"]\n',
)


# parity

STEP = 0.02  # of gradient descent


def _saddle(xp: Any, t: Any, delta: Any, size: Any, ratio: Any) -> dict[str, Any]:
    """Return the loss from a start of the wrong sign, a distance `delta` from the stable line of the saddle."""
    flow = flow_with(xp, TwoLayerOrder, eta_w=ratio)
    z0 = flow.State(delta * delta, size * size, -delta * size)
    return {"loss": flow.along(xp, t, z0)["loss"]}


def _escape(xp: Any, delta: Any, size: Any, ratio: Any) -> dict[str, Any]:
    """Return the time at which the loss is one half, half of that of the saddle."""
    flow = flow_with(xp, TwoLayerOrder, eta_w=ratio)
    z0 = flow.State(delta * delta, size * size, -delta * size)
    return {"time": flow.time_to(xp, z0, loss=xp.ones_like(delta) / 2)}


def _raw_weights(xp: Any, delta: Any, size: Any, ratio: Any) -> dict[str, Any]:
    """Return the weights of the same start, rounded; the clock is 0, and the time of the escape infinite."""
    never = xp.full_like(delta, xp.inf)
    u, w = (delta + size) / xp.sqrt(ratio), delta - size
    return {"u": u, "w": w, "clock": 0 * delta, "descended": (u * w - 1) ** 2, "time": never}


def _raw_step(xp: Any, u: Any, w: Any, clock: Any, descended: Any, time: Any, ratio: Any) -> dict[str, Any]:
    """Return the weights after a step of gradient descent, the time, and the first time with a loss below one half."""
    flow = flow_with(xp, TwoLayer, eta_w=ratio, x=xp.ones_like(u)[..., None])
    velocity = flow.velocity(xp, flow.State(u[..., None], w[..., None, None]))
    u, w, clock = u + STEP * velocity.u[..., 0], w + STEP * velocity.w[..., 0, 0], clock + STEP
    descended = flow.loss(xp, flow.State(u[..., None], w[..., None, None]))
    escaped = xp.isinf(time) & (descended < 0.5)
    return {"u": u, "w": w, "clock": clock, "descended": descended, "time": xp.where(escaped, clock, time)}


PARITY = Explorable(
    title="Parity: an escape by rounding",
    text="A start with $u w < 0$ on the stable line of the saddle never learns a positive target: the exact flow ends "
    "on the saddle. A start at the distance $\\delta$ from this line waits there for a time of order "
    "$log(1/\\delta)$. Gradient descent in doubles rounds the weights. Unless the learning rates are equal, it "
    "leaves even the line itself: that escape measures the arithmetic, not the network.",
    equation=r"L = (u w - 1)^2, \emsp \eta_u = 1, \emsp w_0 = \delta - c, \emsp u_0 = (\delta + c)/\radic\eta_w",
    sliders=(
        Slider("delta", "distance from the stable line, $\\delta$", 1e-24, 0.1, 1e-20),
        Slider("size", "size of the weights at the start, $c$", 0.1, 2.0, 0.7, 0.05),
        Slider("ratio", "learning rate of the first layer, $\\eta_w$", 0.25, 4.0, 0.7, 0.05),
        Slider("end", "time shown", 5.0, 60.0, 40.0, 1.0),
    ),
    panels=(
        Panel(
            "Loss",
            Axis("time t", 0.0, "end"),
            Axis("loss", 0.0),
            "t",
            (0.0, "end", "linear"),
            (
                Curve("exactly on the stable line", "loss", "", {"delta": 0.0}, "black", "3 3", 1.6),
                Curve("exact flow from this start", "loss", dash="9 4", width=2.8),
                Curve(
                    "gradient descent in doubles",
                    "descended",
                    "clock",
                    {},
                    "vermilion",
                    "",
                    2.2,
                    "",
                    Orbit("raw_weights", "raw_step", 3000),
                ),
            ),
            formula="saddle",
        ),
        Panel(
            "Time of the escape",
            Axis("distance from the stable line", log=True),
            Axis("time at which the loss is 1/2", 0.0),
            "delta",
            (1e-24, 0.1, "log"),
            (
                Curve("exact flow", "time", dash="9 4"),
                Curve(
                    "gradient descent in doubles",
                    "time",
                    "",
                    {},
                    "vermilion",
                    "points",
                    5.0,
                    "",
                    Orbit("raw_weights", "raw_step", 3000, 3000),
                ),
            ),
            formula="escape",
            points=33,
            line="delta",
        ),
    ),
    formulas={"saddle": _saddle, "escape": _escape, "raw_weights": _raw_weights, "raw_step": _raw_step},
    code=IMPORTS + "delta, size, ratio = {delta}, {size}, {ratio}\n"
    "flow = ls.TwoLayerOrder(y=1.0, eta_w=ratio)\n"
    "k = np.arange(round({end} / 0.02) + 1)\n"
    "t = 0.02 * k\n"
    'loss = flow(t, flow.State(P=delta * delta, Q=size * size, R=-delta * size))["loss"]\n'
    "weights = [(delta + size) / np.sqrt(ratio)], [[delta - size]]\n"
    'descended = ls.descend(ls.TwoLayer(y=1.0, eta_w=ratio), t, weights, step=0.02)["loss"]\n',
    readings=(Reading("The exact flow from this start escapes at t = {}.", "escape", "time"),),
)

EXPLORABLES = {"phase": PHASE, "lazy": LAZY, "alignment": ALIGNMENT, "parity": PARITY}
