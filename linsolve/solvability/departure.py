"""Departure of gradient descent with a given step from gradient flow: the first time of a difference, and its size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from linsolve.core.map import Divergence, Map
from linsolve.core.network import affine_maps, maps
from linsolve.core.network_arguments import Network
from linsolve.core.reduced_network import joint, reduced
from linsolve.solvability.conditions import assess
from linsolve.solvability.matches import Match, PlaneMatch
from linsolve.solvability.problem import Problem
from linsolve.solvability.trajectory import WHO, Departure

__all__ = ["departure", "map_match"]

POINTS = 4096  # largest number of times at which flow and descent are compared
LINE = 257  # number of times around the first difference, and of times for a large network
STORED = 3e7  # product of the numbers of weights and of times of comparison
SHARE = 0.1  # change of the outputs between two times of comparison, over the tolerance
EXACT, SIMULATED = 100_000, 20_000  # numbers of steps; descent that still moves is then followed at a longer step
WORK = 1e9  # product of the numbers of weights and of steps of a simulation
SETTLED = 1e-3  # change of outputs that have converged, over the tolerance
COUNTED = 2.0**53  # largest number of steps that a double counts exactly
Maps = Callable[[np.ndarray], np.ndarray]  # from numbers of steps, or times, to maps on the span of the data


def departure(problem: Problem, match: Match | None, flow: Maps, rule: tuple[float, float], until: float) -> Departure:
    """Return the first time at which descent differs from the flow.

    Parameters
    ----------
    problem : Problem
        The network, for its simulation and the second moment of its inputs.
    match : Match or None
        The network as a `Map`, whose descent is solved; from `map_match`.
    flow : callable
        Function of times that returns maps under gradient flow on the span of the data, with the offset of biases.
    rule : tuple of float
        Step and tolerance.
    until : float
        Horizon, positive. At least one step is evaluated, even if it is longer.
    """
    step, within = rule
    horizon, until = until, max(until, step)
    if until / step > COUNTED:
        raise ValueError(
            f"{WHO}: step = {step!r} must be at least {until / COUNTED:.2g} (of gradient descent, in units of time; "
            f"more than 2^53 steps to t = {until:g}); say {until / 1000:g}"
        )
    _refuse_long(flow, step, horizon)
    size = sum(w.size for w in problem.weights)
    length, count = step, int(np.floor(until / step * (1 + 1e-12)))
    if match is not None:
        descent, method, most = _exact(match, problem, step), f"exact descent of {match.name}", EXACT
    else:
        descent, method, most = _simulated(problem, step), "simulated descent", SIMULATED
        most = min(most, max(int(WORK / size), 100))
    if count > most:
        ended = _ended(
            problem, descent(np.asarray([most // 2, most - 1, most])), flow(np.asarray([most * step, until])), within
        )
        if ended:
            count, method = most, f"{method}, which {ended} by t = {most * step:.4g}"
        else:
            most = min(SIMULATED, max(int(WORK / size), 100))
            length, count = until / most, most
            descent, method = _simulated(problem, length), f"leading correction, O(step), measured at step {length:.3g}"
    most = int(np.clip(STORED / size, LINE, POINTS))
    steps, flows, descents = _resolved(problem, lambda k: flow(k * length), descent, (count, most), within)
    scale = float(_sizes(problem, flows).max()) or 1.0
    gap = step / length * _sizes(problem, descents - flows) / scale
    if length != step and not np.isfinite(gap).all():
        raise ArithmeticError(
            f"{WHO}: step = {step:g} takes {until / step:.3g} steps to t = {until:g}, and descent diverges at the "
            f"longer step {length:.3g}, at which its leading correction would be measured; give earlier times"
        )
    largest = float(gap.max())
    while (above := np.nonzero(gap > within)[0]).size:
        low, high = int(steps[max(above[0] - 1, 0)]), int(steps[above[0]])
        if high - low <= 1:
            return Departure(high * length, step, within, until, largest, method)
        steps = np.unique(np.linspace(low, high, LINE).round().astype(int))
        gap = step / length * _sizes(problem, descent(steps) - flow(steps * length)) / scale
        gap[-1] = np.inf  # above the tolerance, whatever the rounding of the flow at other times
    return Departure(np.inf, step, within, until, largest, method)


def _refuse_long(flow: Maps, step: float, horizon: float) -> None:
    """Raise an error that names the step if gradient flow is not known after one."""
    if step <= horizon:
        return
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            known = bool(np.isfinite(flow(np.asarray([0.0, step]))).all())
    except (ValueError, ArithmeticError):
        known = False
    if not known:
        raise ValueError(
            f"{WHO}: step = {step!r} is too long (of gradient descent, in units of time; gradient flow is not solved "
            f"to that time); say at most {horizon:g}"
        )


def _resolved(
    problem: Problem, flow: Maps, descent: Maps, numbers: tuple[int, int], within: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return numbers of steps, ascending, and the maps of flow and descent after them.

    They contain every early step, and later steps at spacings of about a percent. More are inserted where an output
    changes by more than `SHARE` of the tolerance, up to a largest number.
    """
    count, most = numbers
    early, spread = np.arange(most // 8), np.geomspace(1, count, most // 4)
    steps = np.unique(np.minimum(np.concatenate([early, spread, [count]]).round().astype(int), count))
    flows, descents = flow(steps), descent(steps)
    while True:
        scale = float(_sizes(problem, flows).max()) or 1.0
        moved = np.maximum(*(_sizes(problem, np.diff(path, axis=0)) for path in (flows, descents))) / scale
        moved = np.where(np.isfinite(moved), moved, 0.0)  # descent has diverged
        share = float(np.clip(SHARE * within, 1e-3, 0.02))
        spaces, left = np.diff(steps), most - len(steps)
        while (pieces := np.minimum(np.ceil(np.minimum(moved, 1.0) / share), spaces)).clip(1).sum() > left + len(moved):
            share *= 2
        between = np.nonzero(pieces > 1)[0]
        if not between.size:
            return steps, flows, descents
        inner = [np.linspace(steps[i], steps[i + 1], int(pieces[i]) + 1)[1:-1].round().astype(int) for i in between]
        more = np.concatenate(inner)
        order = np.argsort(np.concatenate([steps, more]))
        steps = np.concatenate([steps, more])[order]
        flows = np.concatenate([flows, flow(more)])[order]
        descents = np.concatenate([descents, descent(more)])[order]


def _ended(problem: Problem, descents: np.ndarray, flows: np.ndarray, within: float) -> str:
    """Return how descent and flow have ended between late times, "" if they still move."""
    if not np.isfinite(descents).all():
        return "diverges"
    scale = float(_sizes(problem, flows).max()) or 1.0
    moved = max(float(_sizes(problem, path[:-1] - path[-1]).max()) for path in (descents, flows))
    return "has converged" if moved <= SETTLED * within * scale else ""


def _sizes(problem: Problem, maps: np.ndarray) -> np.ndarray:
    """Return root mean squares over samples of the outputs of maps, inf beyond doubles: of descent that diverges."""
    with np.errstate(over="ignore", invalid="ignore"):
        sizes = np.linalg.norm(maps @ problem.root, axis=(-2, -1))
    return np.where(np.isfinite(sizes), sizes, np.inf)


def _exact(match: Match, problem: Problem, step: float) -> Maps:
    """Return the map after numbers of steps, nan beyond the range of doubles."""
    flow: Map = match.flow  # type: ignore[assignment]

    def at(counts: np.ndarray) -> np.ndarray:
        try:
            state = flow.discrete(counts, match.z0, step=step).state
        except Divergence as end:
            inside = counts[counts < end.step]
            found = at(inside)
            return np.concatenate([found, np.full((len(counts) - len(inside), *found.shape[1:]), np.nan)])
        return match.map(state) @ problem.network.span

    return at


def _simulated(problem: Problem, step: float) -> Maps:
    """Return the map after numbers of steps of the weights, ascending."""
    flow, first = problem.flow, problem.weights
    start = flow.State(first[0] @ problem.network.span, *first[1:])
    biased = hasattr(flow, "parts")

    def at(counts: np.ndarray) -> np.ndarray:
        z, found, wanted = start, [], set(counts.tolist())
        with np.errstate(over="ignore", invalid="ignore"):
            for done in range(int(counts[-1]) + 1):
                if done in wanted:
                    found.append(affine_maps(np, *flow.parts(z))[-1] if biased else maps(list(z))[-1])
                z = flow.step(np, z, step)
        return np.stack(found)

    return at


def map_match(network: Network) -> Match | None:
    """Return the network as a flow whose descent is solved, None if there is none."""
    red = reduced(network)
    matches = (each.match for each in assess(network, red) if each.match is not None)
    found = next((match for match in matches if isinstance(match.flow, Map)), None)
    if isinstance(found, PlaneMatch):
        red = reduced(network, idle=True)
        return PlaneMatch.of(red, joint(red))
    return found
