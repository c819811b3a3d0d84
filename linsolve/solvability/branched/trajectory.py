"""`solve` for networks of branches: every group that shares errors in closed form, or all weights integrated."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.arguments import Interval, known_array, number, refuse_beyond_memory
from linsolve.core.flow import Flow
from linsolve.core.integrate import integrate
from linsolve.core.network_arguments import read_tolerance
from linsolve.core.reduced_network import fastest_rate, spectral
from linsolve.core.trajectory import Deferred, read_only
from linsolve.solvability.branched.bound import bounded, grid
from linsolve.solvability.branched.branches import Branch, Branches
from linsolve.solvability.branched.kernel import tangent_kernel
from linsolve.solvability.branched.race import Race
from linsolve.solvability.branched.separate import heads_of, nearest_first
from linsolve.solvability.conditions import Assessment
from linsolve.solvability.deviation import ROUNDING
from linsolve.solvability.integration import refuse_endless
from linsolve.solvability.problem import BETWEEN, EVALUATIONS, IMPLICIT, LATEST, LEAST, SMALL, Problem
from linsolve.solvability.routes import by_closed_form, told
from linsolve.solvability.stationary import SADDLE
from linsolve.solvability.trajectory import WHO, NetworkTrajectory

__all__ = ["fastest", "followed", "solve_branches"]

FINEST = 1e-15  # directions of the samples below it are rounding
EXPLICIT = 100_000  # evaluations of the velocity of a network that is too large for Radau
KIND = "network of branches"
UNBOUNDED = ", error without a bound"
PREMISES = "one input for all", "uncorrelated inputs", "equal frequencies", "same input moments"


class _Part(NamedTuple):
    """Trajectory of a group of branches in closed form: names, layers by number, and additions to the maps."""

    name: str
    flow: Flow | None
    notes: tuple[str, ...]
    layers: Callable[[], list[np.ndarray]]
    add: Callable[[np.ndarray], None]


def fastest(net: Branches) -> Callable[[float], float]:
    """Return the rate of the fastest mode, as a function of time; see `fastest_rate`.

    Branches are one two-layer network: with the units of all of them, and the outputs of contexts one below the other.
    The norm of its first layer is that of its outputs, as large weights of weak inputs are not fast.
    """
    first = np.zeros((sum(len(each.first) for each in net.branches), net.inputs.shape[1]))
    heads, begin = np.zeros((*net.target.shape[:2], len(first))), 0
    for each in net.branches:
        units = slice(begin, begin + len(each.first))
        first[units, each.columns] = net.scales[0] * each.first
        heads[each.contexts, :, units] = net.scales[1] * each.heads
        begin = units.stop
    root, target = np.linalg.qr(np.concatenate(net.roots))[1], net.target.reshape(-1, first.shape[1])
    layers = [first @ root.T / spectral(root), heads.reshape(-1, len(first))]
    found: Callable[[float], float] = fastest_rate(layers, target, np.sum(net.covariance, axis=0), net.clock)
    return found


def followed(who: str, net: Branches, times: np.ndarray, rtol: float) -> tuple[list[np.ndarray], str]:
    """Return all layers at finite times, and the integrator: DOP853, or Radau for small networks that are stiff."""
    refuse_beyond_memory(who, {"times": times.size, "weights": sum(w.size for w in net.start)}, "all weights")
    end, size = float(np.max(times, initial=0.0)), sum(w.size for w in net.start)
    refuse_endless(who, "t", end, fastest(net), LATEST)
    flow = net.flow()
    start = flow.State(*net.start)
    late = f"{who}: t = {end:g} is too late (time): the network is stiff, with {size} weights; use earlier times"
    most = EVALUATIONS if size <= SMALL else EXPLICIT
    try:
        traj = integrate(flow, times, start, rtol=max(BETWEEN * rtol, LEAST), max_evaluations=most)
    except ArithmeticError as spent:
        if size > SMALL:
            raise ArithmeticError(late) from spent
        learned = float(np.sqrt(max(spectral(each) for each in flow.target)))
        # as in `Problem.integrated`: Newton's iteration does not converge for entries below rounding of the others
        sizes = flow.weight_scales(start, max(learned, *(float(np.abs(w).max()) for w in start)))
        floor = {"atol": [0.1 * rtol * size for size in sizes]}
        try:
            traj = integrate(flow, times, start, rtol=rtol, method="Radau", max_evaluations=IMPLICIT, **floor)
        except (ArithmeticError, ValueError) as failed:  # ValueError: Jacobian beyond doubles
            raise ArithmeticError(f"{late} or a larger rtol") from failed
    return list(traj.state), traj.route


def solve_branches(who: str, net: Branches, t: Any, rtol: Any, tolerance: Any) -> NetworkTrajectory:
    """Return the trajectory of branches, in closed form if every group that shares errors has one."""
    accept, given = tolerance is not None, read_tolerance(who, tolerance, net.precision)
    limit = given if accept else min(ROUNDING, given)
    rtol = number(who, "rtol", rtol, meaning="relative tolerance of doubles", domain="[2.3e-14, 1)", example=1e-10)
    times = read_only(known_array(who, "t", t, meaning="time", domain=Interval("[0, inf]")))
    parts, groups = list[_Part](), net.parts(limit)
    left_out = net.left_out(groups)
    for numbers in groups:
        inner = net.only(numbers)
        merged = inner.merged
        if merged is None:
            found = _solved_race(inner, times, rtol, given, accept)
        else:
            found = _solved_alone(inner, merged, times, rtol, given, accept, limit)
        if isinstance(found, str):
            return _integrated(who, net, groups, times, rtol, found)
        name, comma, about = found.name.partition(",")
        about = "" if left_out > ROUNDING else comma + about
        parts.append(found._replace(name=net.titled(name, numbers) + about))

    @cache
    def maps() -> np.ndarray:
        made = np.zeros(times.shape + net.target.shape)
        for part in parts:
            part.add(made)
        return made

    def layers() -> list[np.ndarray]:
        numbers = [number for group in groups for number in group]
        pairs = [pair for part in parts for pair in zip(*[iter(part.layers())] * 2, strict=True)]
        return [w for _, pair in sorted(zip(numbers, pairs, strict=True), key=lambda each: each[0]) for w in pair]

    route = f"closed form: {', '.join(part.name for part in parts)}"
    route += f"{UNBOUNDED} (correlation {left_out:.2g} left out)" * (left_out > ROUNDING)
    notes = (*_saddles(net, groups), *(note for part in parts for note in part.notes if note != SADDLE))
    return NetworkTrajectory(
        times, route, parts[0].flow if len(parts) == 1 else None, notes, _named(net, cache(layers), maps), kind=KIND
    )


def _named(net: Branches, layers: Callable[[], list[np.ndarray]], maps: Callable[[], np.ndarray]) -> Deferred:
    """Return the values by name; without contexts the maps have no axis of contexts."""
    names = [f"{layer}_{each.number}" for each in net.branches for layer in ("first", "last")]

    def array(i: int) -> Callable[[], np.ndarray]:
        return lambda: layers()[i]

    @cache
    def shown() -> np.ndarray:
        return maps() if net.gated else maps()[..., 0, :, :]

    @cache
    def loss() -> np.ndarray:
        return net.loss(maps())

    return Deferred(**{name: array(i) for i, name in enumerate(names)}) | Deferred(
        map=shown,
        singular_values=lambda: np.asarray(np.linalg.svd(shown(), compute_uv=False)),
        loss=loss,
        train_loss=loss,
        ntk=lambda: tangent_kernel(WHO, net, layers()),
    )


def _integrated(
    who: str, net: Branches, groups: list[list[int]], times: np.ndarray, rtol: float, failure: str
) -> NetworkTrajectory:
    if not np.isfinite(times).all():
        raise ValueError(
            f"{who}: t = inf must be finite (time; no closed form holds, {failure}); say a late time instead"
        )
    layers, method = followed(who, net, times, rtol)
    values = _named(net, lambda: layers, cache(lambda: net.maps(layers)))
    return NetworkTrajectory(times, f"{method}: {failure}", None, _saddles(net, groups), values, kind=KIND)


def _saddles(net: Branches, groups: list[list[int]]) -> tuple[str, ...]:
    """Report groups of branches whose start is stationary although they do not fit the data."""
    inners = [net.only(numbers) for numbers in groups]
    own = [net.titled("", numbers).removeprefix(" of ") for numbers in groups]
    return tuple(
        SADDLE + f" ({name})" * bool(name) for name, inner in zip(own, inners, strict=True) if inner.stationary
    )


def _needs(case: Assessment, given: float) -> str:
    """Return a premise that a case violates, else the condition furthest off, and the tolerance that accepts it."""
    premises = [each for each in case.violated if each.name in PREMISES]
    worst = premises[0] if premises else max(case.violated, key=lambda c: c.distance)
    accepted = f" (needs {ROUNDING:.0e}; tolerance={given:.2g} accepts it)" if worst.distance <= given else ""
    return f"{case.name} needs {worst.name}, relative distance {worst.distance:.2g}{accepted}"


def _solved_alone(
    inner: Branches, branch: Branch, times: np.ndarray, rtol: float, given: float, accept: bool, limit: float
) -> _Part | str:
    """Return the trajectory of branches merged to one that shares errors with no other, or the condition that fails."""
    heads = Assessment("WhitenedTwoLayer", heads_of(inner, branch, limit))
    if heads.violated:
        return _needs(heads, given)
    off = max((each.distance for each in heads.conditions), default=0.0)
    problem = Problem(inner.network(branch, FINEST), times, rtol, None)
    traj, failure, _ = by_closed_form(inner.network(branch, given), problem, accept=accept)
    if traj is None:
        return told(failure)

    def layers() -> list[np.ndarray]:
        last, found, begin = traj["w2"].reshape(*times.shape, *branch.heads.shape), [], 0
        for each in inner.branches:
            units = slice(begin, begin + len(each.first))
            own = last[..., units]
            found += [traj["w1"][..., units, :], own if each.wire.headed else own[..., 0, :, :]]
            begin = units.stop
        return found

    def add(made: np.ndarray) -> None:
        found = traj["map"].reshape(*times.shape, len(branch.heads), *made.shape[-2:-1], -1)
        made[..., branch.contexts, :, branch.columns] += found

    name = traj.route.removeprefix("closed form: ")
    if off > ROUNDING:  # the bound of the two layers does not contain it
        name = f"{name.partition(',')[0]}{UNBOUNDED} (conditions hold to {off:.2g})"
    return _Part(name, traj.flow, traj.notes, layers, add)


def _solved_race(inner: Branches, times: np.ndarray, rtol: float, given: float, accept: bool) -> _Part | str:
    """Return the trajectory of branches that share errors, or the condition that fails.

    A race is used as any closed form: if it holds up to rounding; if its error is at most `rtol`; or with `accept`.
    """
    limit, about = min(ROUNDING, given), ""
    race = Race(inner, limit)
    assessed = race.assessed("NeuralRace")
    if assessed.match is None and given > limit:
        race = Race(inner, given)
        assessed = race.assessed("NeuralRace")
        if assessed.match is not None:
            error = _error(race, assessed.match, float(np.max(times, initial=0.0)))
            size = f", error up to {error:.2g}" if np.isfinite(error) else UNBOUNDED
            distance = max(each.distance for each in assessed.conditions)
            about = f"{size} (conditions hold to {distance:.2g})"
            if not (accept or error <= rtol):
                return f"NeuralRace{about}, more than rtol; tolerance={given:.2g} accepts it"
    if assessed.match is None:
        cases = (nearest_first(inner, assessed, "separate branches", each)[0] for each in (given, limit))
        return _needs(next(case for case in cases if case.violated), given)
    match: Any = assessed.match
    found = race.layers(match, match.flow(times, match.z0)["strengths"])

    def add(made: np.ndarray) -> None:
        made += inner.maps(found)

    return _Part(f"NeuralRace{about}", match.flow, (), lambda: found, add)


def _error(race: Race, match: Any, end: float) -> float:
    """Return the bound on the error of a race up to a time, of weights or outputs, each relative to the largest."""
    if not np.isfinite(end):
        return float("inf")
    net, times = race.net, grid(end)
    strengths = match.flow(times, match.z0)["strengths"]
    layers = race.layers(match, strengths)
    found = bounded(net, times, layers, race.moves(match, strengths))
    outputs, largest = float(np.max(net.rms(net.maps(layers)))), net.largest(layers)
    return max(e / most if most > 0 else np.inf for e, most in ((found.distance, largest), (found.value, outputs)))
