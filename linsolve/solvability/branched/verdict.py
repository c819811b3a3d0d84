"""`applies` for networks of branches: the flow of each group of branches that share errors, or the nearest one."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from linsolve.core.arguments import number
from linsolve.core.network_arguments import read_tolerance
from linsolve.core.reduced_network import reduced
from linsolve.solvability.branched.branches import Branch, Branches
from linsolve.solvability.branched.fusion import fusion_law
from linsolve.solvability.branched.race import Race
from linsolve.solvability.branched.trajectory import fastest, followed, heads_of
from linsolve.solvability.conditions import Assessment, Condition, assess
from linsolve.solvability.decision import judged
from linsolve.solvability.integration import LONGEST, refuse_endless
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
    found = [_judged_part(net, numbers, limit, until) for numbers in net.parts(limit)]
    exact = all(each.exact for each in found)
    assessments = [a for each in found for a in each.assessments]
    remarks = [r for each in found for r in each.remarks]
    if not exact:
        alone = [each.exact[0] for each in found if each.exact]
        remarks += [f"exact by itself: {name}; no other branch shares its errors." for name in alone]
        assessments = sorted((dataclasses.replace(a, match=None) for a in assessments), key=_distance)
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
    )  # fmt: skip


def _distance(each: Assessment) -> tuple[bool, float]:
    """Return the order of an assessment of a network that is not exact: the nearest of those that fail first."""
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
    assessments = [assessed]
    if assessed.match is None:
        assessments = sorted([assessed, _separate(net, inner, limit)], key=_distance)
    else:
        end, errors[name] = _measured(inner, assessed.match, race, until)
    return Verdict(widths, tuple(assessments), (), end, remarks, errors, limit, net.precision)


def _judged_alone(net: Branches, branch: Branch, numbers: list[int], limit: float, until: float | None) -> Verdict:
    """Return the verdict on a branch, merged of `numbers`, that shares errors with no other: a two-layer network."""
    network, conditions = net.network(branch, limit), heads_of(net, branch, limit)

    def named(name: str) -> str:
        return net.titled(name, numbers)

    if any(not each.ok for each in conditions):
        assessed = [
            Assessment(named(each.name), (*conditions, *each.conditions)) for each in assess(network, reduced(network))
        ]
        return Verdict(network.widths, tuple(assessed), (), until or 0.0, (), {}, limit, net.precision)
    verdict = judged(network, until)
    assessments = (
        dataclasses.replace(
            each, name=named(each.name), conditions=(*conditions, *each.conditions),
            match=None if each.match is None else dataclasses.replace(each.match, name=named(each.name)),
        )
        for each in verdict.assessments
    )  # fmt: skip
    near = (dataclasses.replace(n, match=dataclasses.replace(n.match, name=named(n.name))) for n in verdict.neighbors)
    return dataclasses.replace(
        verdict, assessments=tuple(assessments), neighbors=tuple(near),
        errors={named(name): error for name, error in verdict.errors.items()},
    )  # fmt: skip


def _separate(net: Branches, inner: Branches, limit: float) -> Assessment:
    """Return the conditions under which every branch is exact by itself: inputs that are not correlated."""
    numbers = [each.number for each in inner.branches]
    far = max(inner.correlation(a, b) for a in inner.branches for b in inner.branches if a.number < b.number)
    found = [
        Condition("uncorrelated inputs", far, "correlation of the inputs of two branches in a context", tolerance=limit)
    ]
    for branch in inner.branches:
        network = inner.network(branch, limit)
        best = min(assess(network, reduced(network)), key=lambda a: max((c.distance for c in a.violated), default=0.0))
        found += [
            dataclasses.replace(c, name=f"branch {branch.number}: {c.name}")
            for c in (*heads_of(inner, branch, limit), *best.conditions)
        ]
    return Assessment(net.titled("separate branches", numbers), tuple(found))


def _measured(inner: Branches, match: Any, race: Race, until: float | None) -> tuple[float, float]:
    """Return the horizon of a race, and its error against the integrated weights, relative to the largest output."""
    flow, z0 = match.flow, match.z0
    if until is None:
        losses, last = (np.asarray(flow(t, z0)["loss"]) for t in (0.0, np.inf))
        goal = last + LEARNED * (losses - last)
        times = np.asarray(flow.when(z0, loss=np.maximum(goal, 1e-300)))
        until = float(np.max(times, where=np.isfinite(times) & (losses > last), initial=0.0))
        until = until or float(np.min(flow.tau))
    times = np.linspace(0.0, until, POINTS)
    layers, _ = followed("applies", inner, times, 1e-10)
    exact = race.layers(match, flow(times, z0)["strengths"])
    path, found = inner.maps(layers), inner.maps(exact)
    scale = float(inner.rms(path).max())
    return until, float(inner.rms(found - path).max()) / (scale or 1.0)
