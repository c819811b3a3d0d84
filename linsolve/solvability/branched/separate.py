"""Conditions of branches that share errors: a race, or branches that learn apart, the nearer of both first."""

from __future__ import annotations

import dataclasses

from linsolve.core.reduced_network import reduced
from linsolve.solvability.branched.branches import Branch, Branches
from linsolve.solvability.conditions import Assessment, Condition, assess

__all__ = ["heads_of", "nearest_first"]


def heads_of(net: Branches, branch: Branch, tolerance: float) -> tuple[Condition, ...]:
    """Return the conditions under which several heads of a branch are one layer."""
    return net.equal_contexts(branch.contexts, branch.columns, tolerance) if branch.stacked else ()


def nearest_first(inner: Branches, race: Assessment, name: str, limit: float) -> list[Assessment]:
    """Return a race that fails and, for separate inputs, the branches by themselves, `name`; the nearer first.

    Branches of a race read one input, those by themselves uncorrelated ones: the smaller of both distances decides.
    """
    if len({each.wire.columns for each in inner.branches}) == 1:
        return [race]
    apart = next((c.distance for c in race.conditions if c.name == "one input for all"), 0.0)
    separate = dataclasses.replace(_separate(inner, limit), name=name)
    return [race, separate] if apart <= separate.conditions[0].distance else [separate, race]


def _separate(inner: Branches, limit: float) -> Assessment:
    """Return the conditions under which every branch is exact by itself: inputs that are not correlated."""
    found = [inner.uncorrelated(limit)]
    for branch in inner.branches:
        network = inner.network(branch, limit)
        best = min(assess(network, reduced(network)), key=lambda a: max((c.distance for c in a.violated), default=0.0))
        found += [
            dataclasses.replace(c, name=f"branch {branch.number}: {c.name}")
            for c in (*heads_of(inner, branch, limit), *best.conditions)
        ]
    return Assessment("separate branches", tuple(found))
