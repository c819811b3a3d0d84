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
from linsolve.core.trajectory import Deferred, read_only
from linsolve.solvability.branched.branches import Branch, Branches
from linsolve.solvability.branched.race import Race
from linsolve.solvability.branched.tangent_kernel import tangent_kernel
from linsolve.solvability.conditions import Condition
from linsolve.solvability.deviation import ROUNDING
from linsolve.solvability.problem import LEAST, Problem
from linsolve.solvability.routes import by_closed_form
from linsolve.solvability.trajectory import WHO, NetworkTrajectory

__all__ = ["followed", "heads_of", "solve_branches"]

FINEST = 1e-15  # directions of the samples below it are rounding
EVALUATIONS = 100_000  # of the velocity, a few seconds
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


def followed(who: str, net: Branches, times: np.ndarray, rtol: float) -> list[np.ndarray]:
    """Return all layers at finite times, by DOP853."""
    refuse_beyond_memory(who, {"times": times.size, "weights": sum(w.size for w in net.start)}, "all weights")
    flow = net.flow()
    try:
        traj = integrate(flow, times, flow.State(*net.start), rtol=max(1e-3 * rtol, LEAST), max_evaluations=EVALUATIONS)
    except ArithmeticError as spent:
        end = float(np.max(times))
        raise ArithmeticError(f"{who}: t = {end:g} is too late (time; the weights are integrated): {spent}") from spent
    return list(traj.state)


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
        train_loss=lambda: net.loss(maps()),
        ntk=lambda: tangent_kernel(WHO, net, layers()),
    )


def _integrated(who: str, net: Branches, times: np.ndarray, rtol: float, failure: str) -> NetworkTrajectory:
    if not np.isfinite(times).all():
        raise ValueError(
            f"{who}: t = inf must be finite (time; no closed form holds, {failure}); say a late time instead"
        )
    layers = followed(who, net, times, rtol)
    values = _named(net, lambda: layers, cache(lambda: net.maps(layers)))
    return NetworkTrajectory(times, f"DOP853: {failure}", None, (), values, kind=KIND)


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
