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
from linsolve.solvability.branched.branches import Branch, Branches
from linsolve.solvability.branched.race import Race
from linsolve.solvability.conditions import Condition
from linsolve.solvability.deviation import ROUNDING
from linsolve.solvability.integration import refuse_endless
from linsolve.solvability.problem import BETWEEN, EVALUATIONS, IMPLICIT, LATEST, LEAST, SMALL, Problem
from linsolve.solvability.routes import by_closed_form
from linsolve.solvability.trajectory import NetworkTrajectory

__all__ = ["fastest", "followed", "heads_of", "solve_branches"]

FINEST = 1e-15  # directions of the samples below it are rounding
EXPLICIT = 100_000  # evaluations of the velocity of a network that is too large for Radau
KIND = "network of branches"


def heads_of(net: Branches, branch: Branch, tolerance: float) -> tuple[Condition, ...]:
    """Return the conditions under which several heads of a branch are one layer."""
    return net.equal_contexts(branch.contexts, branch.columns, tolerance) if branch.stacked else ()


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
    parts: list[_Part] = []
    for numbers in net.parts(limit):
        inner = net.only(numbers)
        merged = inner.merged
        if merged is None:
            found = _solved_race(inner, times, limit)
        else:
            found = _solved_alone(inner, merged, times, rtol, given, accept, limit)
        if isinstance(found, str):
            return _integrated(who, net, times, rtol, found)
        parts.append(found._replace(name=net.titled(found.name, numbers)))

    @cache
    def maps() -> np.ndarray:
        made = np.zeros(times.shape + net.target.shape)
        for part in parts:
            part.add(made)
        return made

    def layers() -> list[np.ndarray]:
        numbers = [number for group in net.parts(limit) for number in group]
        pairs = [pair for part in parts for pair in zip(*[iter(part.layers())] * 2, strict=True)]
        return [w for _, pair in sorted(zip(numbers, pairs, strict=True), key=lambda each: each[0]) for w in pair]

    route = f"closed form: {', '.join(part.name for part in parts)}"
    notes = tuple(note for part in parts for note in part.notes)
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

    return Deferred(**{name: array(i) for i, name in enumerate(names)}) | Deferred(
        map=shown,
        singular_values=lambda: np.asarray(np.linalg.svd(shown(), compute_uv=False)),
        loss=lambda: net.loss(maps()),
    )


def _integrated(who: str, net: Branches, times: np.ndarray, rtol: float, failure: str) -> NetworkTrajectory:
    if not np.isfinite(times).all():
        raise ValueError(
            f"{who}: t = inf must be finite (time; no closed form holds, {failure}); say a late time instead"
        )
    layers, method = followed(who, net, times, rtol)
    values = _named(net, lambda: layers, cache(lambda: net.maps(layers)))
    return NetworkTrajectory(times, f"{method}: {failure}", None, (), values, kind=KIND)


def _worst(conditions: tuple[Condition, ...] | list[Condition]) -> Condition:
    return max((c for c in conditions if c.needed and not c.ok), key=lambda c: c.distance)


def _solved_alone(
    inner: Branches, branch: Branch, times: np.ndarray, rtol: float, tolerance: float, accept: bool, limit: float
) -> _Part | str:
    """Return the trajectory of branches merged to one that shares errors with no other, or the condition that fails."""
    conditions = heads_of(inner, branch, limit)
    if any(not each.ok for each in conditions):
        worst = _worst(conditions)
        return f"WhitenedTwoLayer needs {worst.name}, relative distance {worst.distance:.2g}"
    problem = Problem(inner.network(branch, FINEST), times, rtol, None)
    traj, failure, _ = by_closed_form(inner.network(branch, tolerance), problem, accept=accept)
    if traj is None:
        return failure

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

    return _Part(traj.route.removeprefix("closed form: "), traj.flow, traj.notes, layers, add)


def _solved_race(inner: Branches, times: np.ndarray, limit: float) -> _Part | str:
    """Return the trajectory of branches that share errors, or the condition that fails."""
    race = Race(inner, limit)
    assessed = race.assessed("NeuralRace")
    if assessed.match is None:
        worst = _worst(assessed.conditions)
        return f"NeuralRace needs {worst.name}, relative distance {worst.distance:.2g}"
    match: Any = assessed.match
    found = race.layers(match, match.flow(times, match.z0)["strengths"])

    def add(made: np.ndarray) -> None:
        made += inner.maps(found)

    return _Part("NeuralRace", match.flow, (), lambda: found, add)
