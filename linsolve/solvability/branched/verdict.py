"""`applies` for networks of branches: the flow of each group of branches that share errors, or the nearest one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from linsolve.core.arguments import number
from linsolve.core.network_arguments import read_tolerance
from linsolve.core.reduced_network import reduced
from linsolve.solvability.branched.branches import Branch, Branches, listed
from linsolve.solvability.branched.fusion import fusion_law
from linsolve.solvability.branched.nearest import nearest_race
from linsolve.solvability.branched.race import Race, RaceMatch
from linsolve.solvability.branched.separate import heads_of, nearest_first
from linsolve.solvability.branched.trajectory import fastest, followed
from linsolve.solvability.conditions import Assessment, assess
from linsolve.solvability.decision import judged
from linsolve.solvability.integration import LONGEST, latest, refuse_endless
from linsolve.solvability.neighbors import Neighbor
from linsolve.solvability.verdict import Verdict

__all__ = ["judge_branches"]

POINTS = 129
LEARNED = 0.05  # of the removable loss, at the default horizon
UNTIL = "[1e-300, inf)"


def judge_branches(who: str, net: Branches, until: Any, tolerance: Any) -> Verdict:
    """Return the verdict on branches: exact if every group that shares errors is."""
    limit = read_tolerance(who, tolerance, net.precision)
    if until is not None:
        until = number(who, "until", until, meaning="time; left out, a learning time", domain=UNTIL, example=10.0)
        refuse_endless(who, "until", until, fastest(net), LONGEST)
    groups = net.parts(limit)
    found = [_judged_part(net, numbers, limit, until) for numbers in groups]
    exact = all(each.exact for each in found)
    ranked = found if exact else sorted(found, key=lambda each: (bool(each.exact), _distance(each.assessments[0])))
    assessments = [a for each in ranked for a in each.assessments]
    remarks = list(dict.fromkeys(r for each in found for r in each.remarks))
    if not exact:
        alone = [each.exact[0] for each in found if each.exact]
        remarks += [f"exact by itself: {name}; no other branch shares its errors." for name in alone]
        assessments = [dataclasses.replace(a, match=None) for a in assessments]
        remarks.append("linsolve.solve with the same arguments integrates all branches.")
    units = sum(len(each.first) for each in net.branches)
    law = None if exact else fusion_law(net)
    count = len(net.branches)
    kind = f"gated linear network, {count} branch{'es' * (count > 1)} in {net.count} context{'s' * (net.count > 1)}"
    return Verdict(
        (net.inputs.shape[1], units, net.outputs.shape[1]), tuple(assessments),
        tuple(n for each in found if not each.exact for n in each.neighbors), max(each.until for each in found),
        tuple(remarks), {k: v for each in found for k, v in each.errors.items()} if exact else {}, limit, net.precision,
        subject=kind if net.gated else f"linear network of {count} branch{'es' * (count > 1)}", fusion=law,
        parts=_parts(groups, found),
    )  # fmt: skip


def _parts(groups: list[list[int]], found: list[Verdict]) -> dict[str, str]:
    """Return the branches of each flow, by its name; none for a single group."""
    pairs = zip(groups, found, strict=True) if len(groups) > 1 else ()
    return {each.name: listed(numbers) for numbers, verdict in pairs for each in verdict.assessments}


def _distance(each: Assessment) -> tuple[bool, float]:
    """Return the rank of an assessment: the nearest of those that fail first, then those that hold."""
    return not each.violated, max((c.distance for c in each.violated), default=0.0)


def _judged_part(net: Branches, numbers: list[int], limit: float, until: float | None) -> Verdict:
    inner = net.only(numbers)
    merged = inner.merged
    if merged is not None:
        return _judged_alone(net, merged, numbers, limit, until)
    race = Race(inner, limit)
    name = net.titled("NeuralRace", numbers)
    assessed = race.assessed(name)
    widths, remarks, errors, end = (0, 0, 0), tuple[str, ...](), dict[str, float](), until or 0.0
    assessments, near = [assessed], tuple[Neighbor, ...]()
    if assessed.match is None:
        assessments = nearest_first(inner, assessed, net.titled("separate branches", numbers), limit)
        if assessments[0] is assessed and (found := nearest_race(race, assessed, _horizon(inner, until), _path)):
            near, end = found[:1], found[1]
    else:
        end, errors[name] = _measured(inner, assessed.match, race, until)
    return Verdict(widths, tuple(assessments), near, end, remarks, errors, limit, net.precision)


def _judged_alone(net: Branches, branch: Branch, numbers: list[int], limit: float, until: float | None) -> Verdict:
    """Return the verdict on a branch, merged of `numbers`, that shares errors with no other: a two-layer network."""
    network, conditions = net.network(branch, limit), heads_of(net, branch, limit)

    def named(name: str) -> str:
        return net.titled(name, numbers)

    if any(not each.ok for each in conditions):
        assessed = [
            Assessment(named(each.name), (*conditions, *each.conditions)) for each in assess(network, reduced(network))
        ]
        return Verdict(
            network.widths, tuple(sorted(assessed, key=_distance)), (), until or 0.0, (), {}, limit, net.precision
        )
    verdict = judged(network, until)
    assessments = (
        dataclasses.replace(
            each, name=named(each.name), conditions=(*conditions, *each.conditions),
            match=None if each.match is None else dataclasses.replace(each.match, name=named(each.name)),
        )
        for each in verdict.assessments
    )  # fmt: skip
    near = (dataclasses.replace(n, match=dataclasses.replace(n.match, name=named(n.name))) for n in verdict.neighbors)
    ranked = assessments if verdict.exact else sorted(assessments, key=_distance)
    return dataclasses.replace(
        verdict, assessments=tuple(ranked), neighbors=tuple(near),
        errors={named(name): error for name, error in verdict.errors.items()},
    )  # fmt: skip


def _path(inner: Branches, times: np.ndarray) -> list[np.ndarray]:
    """Return the integrated layers at the given times."""
    return followed("applies", inner, times, 1e-10)[0]


def _horizon(net: Branches, until: float | None) -> Callable[[RaceMatch], float]:
    """Return a function of a race: the given horizon, or the time at which it has learned, cut off for stiff `net`."""

    def end(match: RaceMatch) -> float:
        if until is not None:
            return until
        flow: Any = match.flow
        losses, last = (np.asarray(flow(t, match.z0)["loss"]) for t in (0.0, np.inf))
        goal = last + LEARNED * (losses - last)
        times = np.asarray(flow.when(match.z0, loss=np.maximum(goal, 1e-300)))
        found = float(np.max(times, where=np.isfinite(times) & (losses > last), initial=0.0))
        return latest(found or float(np.min(flow.tau)), fastest(net), LONGEST)

    return end


def _measured(inner: Branches, match: Any, race: Race, until: float | None) -> tuple[float, float]:
    """Return the horizon of a race, and its error against the integrated weights, relative to the largest output."""
    flow, z0, end = match.flow, match.z0, _horizon(inner, until)(match)
    times = np.linspace(0.0, end, POINTS)
    layers = _path(inner, times)
    exact = race.layers(match, flow(times, z0)["strengths"])
    path, found = inner.maps(layers), inner.maps(exact)
    scale = float(inner.rms(path).max())
    return end, float(inner.rms(found - path).max()) / (scale or 1.0)
