"""Phase diagram of a second task: plateau of reversal learning over the angle between the tasks and the imbalance."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from linsolve.core.tasks import sequence
from linsolve.numerics.scalar import phi
from linsolve.plot.style import COLORS
from linsolve.studies.phases.diagrams import Axis, Curve, Diagram, Mark
from linsolve.studies.phases.two_layer import centers
from linsolve.systems.whitened.whitened_two_layer import WhitenedTwoLayer

__all__ = ["learned_states", "measured", "reversal", "unlearned"]

TIMES = (1, 1.5, 2, 3, 4)
WIDEST = 3.0  # largest imbalance over the singular value of the tasks
SHARE = 0.01  # of the loss, at which the second task is learned
LATEST = 40.0  # end of the search for the time
ROUNDS = 17  # bisections, to 3e-4


def reversal(cells: int, rng: np.random.Generator) -> Diagram:
    r"""Return the time to 1 % of the loss of a second task, over its angle to the first task and the imbalance.

    A network of one hidden unit with second layer u and first layer w has learned ``u w = s e_1``, and then learns
    ``u w = s b``, ``b . e_1 = cos(angle)``. With :math:`\lambda = u^2 - |w|^2` and
    :math:`\omega^2 = s^2 + \lambda^2/4`, the part of the start that grows towards the second task is

    .. math:: p = \frac{|w|^2 \cos\alpha + u^2}{\sqrt{2 \omega}}, \qquad u^2 = \omega + \lambda/2, \;
        |w|^2 = \omega - \lambda/2 .

    Boundaries, with s and its time constant as units:

    - ``p = 0``, :math:`\cos \alpha = -u^2/|w|^2`: the second task is never learned. To the right u changes its sign;
    - isochrones, from ``Q = e^(F t) Q_0 / sqrt(1 + int |e^(F s) Q_0|^2 ds)``, ``Q = (w, u)``.
    """
    angle, imbalance = np.linspace(0, 180, cells + 2)[1:-1], centers(-WIDEST, WIDEST, cells)
    needed = measured(np.deg2rad(angle), imbalance)
    slowest = np.argmax(needed, axis=1)[:, None]
    inside = (slowest < cells - 1) & (imbalance[:, None] < 0)
    trap = np.linspace(-1.2 * WIDEST, 0, 200)
    times = {k: f"t = {k:g}" for k in TIMES}
    return Diagram(
        name="reversal",
        title="Time to learn a second task: transfer and reversal",
        x=Axis("x", angle, "angle between the tasks   (degrees; 180: reversal)", log=False),
        y=Axis("y", imbalance, r"imbalance of the layers  $\lambda/s = (u^2 - |w|^2)/s$", log=False),
        values=np.log10(needed),
        label=r"$\log_{10} t$ to 1 % of its loss at the switch   (units of $\tau/s$)",
        source="Curves: exact, $\\cos\\alpha = -(\\omega + \\lambda/2)/(\\omega - \\lambda/2)$, "
        "$\\omega^2 = s^2 + \\lambda^2/4$; times from the\nflow of $(w, u)$. "
        "Map: two tasks in sequence, one hidden unit, singular values $s$.\nSetting after Braun et al. (2022).",
        sides={name: needed < k for k, name in times.items()}
        | {"never learned": (np.arange(cells) > slowest) & inside},
        curves=(
            *(
                Curve("time $t$" * (k == 0), *points, name, inline=name.split()[-1])
                for k, (name, points) in enumerate(_isochrones())
            ),
            Curve(
                r"never learned: $\cos\alpha = -u^2/|w|^2$", np.rad2deg(_trap(trap)), trap, "never learned",
                {"color": COLORS["vermilion"], "linewidth": 2.6},
            ),
        ),
        notes=(Mark("transfer", 40.0, -2.0), Mark("$u$ changes\nits sign", 122.0, -2.0)),
    )  # fmt: skip


def learned_states(angle: np.ndarray, imbalance: np.ndarray) -> tuple[WhitenedTwoLayer, Any]:
    """Return the flow of the second task and the states in which the first one ends, shape batch (imbalance, angle)."""
    wide = imbalance[:, None] + 0 * angle
    learned = np.broadcast_to([1.0, 0.0], (*wide.shape, 1, 2))
    turned = np.broadcast_to(np.stack([np.cos(angle), np.sin(angle)], axis=-1)[:, None, :], learned.shape)
    first, second = WhitenedTwoLayer(learned), WhitenedTwoLayer(turned)
    w = np.sqrt(np.maximum(-wide, 0) + 0.1)  # any start of this imbalance that is not against the first task
    u = np.sqrt(w**2 + wide)
    layers = np.stack([w, 0 * w], axis=-1)[..., None, :], u[..., None, None]
    path = sequence([(first, 80.0), (second, np.inf)], WhitenedTwoLayer.of(*layers))
    return second, path.starts[1]


def measured(angle: np.ndarray, imbalance: np.ndarray) -> np.ndarray:
    """Return the time to 1 % of the loss of the second task, by bisection, shape (imbalance, angle)."""
    flow, start = learned_states(angle, imbalance)
    goal = SHARE * flow.loss(np, start)
    low, high = np.zeros_like(goal), np.full_like(goal, LATEST)
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        above = flow.loss(np, flow.solution(np, middle, start)) > goal
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return low


def _trap(imbalance: np.ndarray) -> np.ndarray:
    """Return the angle at which the second task is never learned; 180 degrees unless the imbalance is negative."""
    omega = np.sqrt(1 + imbalance**2 / 4)
    return np.arccos(-np.minimum((omega + imbalance / 2) / (omega - imbalance / 2), 1.0))


def _loss(t: float, angle: np.ndarray, imbalance: np.ndarray) -> np.ndarray:
    """Return the loss of the second task from the growing, decaying and transverse parts of the start."""
    omega, cosine = np.sqrt(1 + imbalance**2 / 4), np.cos(angle)
    u, w = np.sqrt(omega + imbalance / 2), np.sqrt(omega - imbalance / 2)
    root = np.sqrt(2 * omega)
    grows, decays, across = (w**2 * cosine + u**2) / root, u * w * (1 - cosine) / root, w * np.sin(angle)
    norm = 1 + t * (
        (grows * np.exp(omega * t)) ** 2 * phi(np, 2 * omega * t)
        + decays**2 * phi(np, 2 * omega * t)
        + across**2 * phi(np, imbalance * t)
    )
    up, down = grows * np.exp(omega * t) / root, decays * np.exp(-omega * t) / root
    along, side, last = w * up - u * down, across * np.exp(-imbalance * t / 2), u * up + w * down
    return ((1 - last * along / norm) ** 2 + (last * side / norm) ** 2) / 2


def unlearned(t: float, angle: np.ndarray, imbalance: np.ndarray) -> np.ndarray:
    """Return whether more than 1 % of the loss is left at time t, by the flow of the hidden unit."""
    return _loss(t, angle, imbalance) > SHARE * (1 - np.cos(angle))


def _isochrones() -> list[tuple[str, tuple[np.ndarray, np.ndarray]]]:
    """Return names, and angles and imbalances that take each of `TIMES`, on both sides of the trap."""
    edge, found = 1.2 * WIDEST, []
    angle, level = np.deg2rad(np.linspace(0.1, 180, 400)), np.linspace(-edge, -1e-3, 800)
    for k in TIMES:
        # above the trap the time falls with the imbalance; below it, it falls from the trap to reversal
        trap = np.maximum(-2 / np.sqrt(np.maximum(np.tan(angle / 2) ** 4 - 1, 1e-9)), -edge)
        above = _crossing(partial(unlearned, k, angle), trap, np.full_like(angle, edge))
        below = _crossing(partial(unlearned, k, imbalance=level), _trap(level), np.full_like(level, np.pi - 1e-6))
        for x, y in ((angle, above), (below, level)):
            some = np.isfinite(x + y)
            found.append((f"t = {k:g}", (np.rad2deg(x[some]), y[some])))
    return found


def _crossing(late: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return where `late` changes from True at `low` to False at `high`, nan where it does not, by bisection."""
    some = late(low) & ~late(high)
    for _ in range(50):
        middle = (low + high) / 2
        on = late(middle)
        low, high = np.where(on, middle, low), np.where(on, high, middle)
    return np.where(some, low, np.nan)
