"""The race nearest to branches that share errors: projected maps, input moments and layers, with its error."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from linsolve.core.reduced_network import norm
from linsolve.solvability.branched.bound import bounded, grid
from linsolve.solvability.branched.branches import Branch, Branches
from linsolve.solvability.branched.race import Race, RaceMatch
from linsolve.solvability.conditions import Assessment
from linsolve.solvability.neighbors import Neighbor

__all__ = ["nearest_race"]

ENTRIES = 20_000_000  # of the layers at all times, above which no neighbor is measured
FIXED = "same kinds of branches", "few contexts", "maps other than 0"  # no change of numbers meets them


def nearest_race(
    race: Race,
    assessed: Assessment,
    horizon: Callable[[RaceMatch], float],
    follow: Callable[[Branches, np.ndarray], list[np.ndarray]],
) -> tuple[Neighbor, float] | None:
    """Return the nearest race with its error up to a horizon, and this horizon; None if there is none.

    Parameters
    ----------
    race : Race
    assessed : Assessment
        Its conditions, of which some fail; the neighbor has the same name.
    horizon : callable
        Returns the time up to which a race is compared with the integrated weights.
    follow : callable
        Returns the integrated layers of branches at given times.
    """
    net = race.net
    alike = len({each.first.shape[1] for each in net.branches}) == 1
    size = len(grid(1.0)) * sum(w.size for w in net.start)
    if not alike or size > ENTRIES or any(each.name in FIXED for each in assessed.violated):
        return None
    near = Race(_projected(race), race.tolerance)
    match = near.assessed(assessed.name).match
    if not isinstance(match, RaceMatch):
        return None
    end = horizon(match)
    times = grid(end)
    try:
        path = net.maps(follow(net, times))
    except ArithmeticError:  # too many steps to measure its error
        return None
    strengths = match.flow(times, match.z0)["strengths"]
    layers = near.layers(match, strengths)
    bound = bounded(net, times, layers, near.moves(match, strengths))
    moved = _moved(net, near.net)
    words = "start projected onto the modes of the maps", "maps and input moments of the contexts made alike"
    change = "; ".join(word for word, each in zip(words, moved, strict=True) if each > race.tolerance)
    measured, scale = float(net.rms(net.maps(layers) - path).max()), float(net.rms(path).max())
    return Neighbor(match, change, *moved, bound, measured, scale), end


def _moved(net: Branches, near: Branches) -> tuple[float, float]:
    """Return the relative changes of all layers, scaled to equal rates, and of the second moments, the larger one."""
    scales = np.tile(net.scales, len(net.branches))
    gap = sum(norm(s * (w - v)) ** 2 for s, w, v in zip(scales, net.start, near.start, strict=True))
    size = sum(norm(s * w) ** 2 for s, w in zip(scales, net.start, strict=True))
    contexts = sorted({k for each in net.branches for k in each.contexts})
    pairs = ((net.covariance, near.covariance), (net.cross, near.cross))
    data = max(norm(b[contexts] - a[contexts]) / norm(a[contexts]) for a, b in pairs)
    return float(np.sqrt(gap / size)) if size > 0 else 0.0, data


def _polar(matrix: np.ndarray) -> np.ndarray:
    """Return the nearest matrices of orthonormal columns."""
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    return np.asarray(left @ right)


def _projected(race: Race) -> Branches:
    """Return a network that meets the conditions of a race, near the given one, on as few samples as there are axes."""
    net, contexts = race.net, race.contexts
    s, v, u, _ = race.modes
    s, v, u = (np.array(each[..., : u.shape[1]]) for each in (s, v, u))
    for branch in net.branches:
        if not branch.wire.headed:
            places = [contexts.index(k) for k in branch.contexts]
            u[places] = np.mean(u[places], axis=0)
    u = _polar(u)
    inputs, outputs, labels = _samples(race, (u * s) @ v.T, v)
    frames, sizes = zip(*(_hidden(race, branch, u, v) for branch in net.branches), strict=True)
    parts = zip(net.branches, frames, _levels(net.branches, contexts, list(sizes)), strict=True)
    branches = tuple(_branch(race, branch, u, v, frame, h) for branch, frame, h in parts)
    return dataclasses.replace(net, branches=branches, inputs=inputs, outputs=outputs, labels=labels)


def _samples(race: Race, maps: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return samples with the same moments in all contexts, diagonal in the modes v, of which `maps` are the maps."""
    net, (span, power) = race.net, race.axes
    inside = v @ v.T
    rest = np.eye(len(power)) - inside
    values, axes = np.linalg.eigh((v * np.sum(v * v * power[:, None], axis=0)) @ v.T + rest @ np.diag(power) @ rest)
    rows = np.sqrt(net.count * len(power)) * (axes * np.sqrt(np.maximum(values, 0.0))) @ axes.T
    labels = np.repeat(np.arange(net.count), len(power))
    inputs, outputs = np.zeros((len(labels), net.inputs.shape[1])), np.zeros((len(labels), net.outputs.shape[1]))
    for k, own in zip(race.contexts, maps, strict=True):
        outputs[labels == k] = rows @ own.T
        for branch in net.branches:
            inputs[labels == k, branch.columns] = rows @ span.T
    return inputs, outputs, labels


def _hidden(race: Race, branch: Branch, u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return orthonormal hidden directions and sizes of the nearest balanced layers along the modes."""
    scales, span, count = race.net.scales, race.axes[0], len(branch.heads)
    axes = u[[race.contexts.index(k) for k in branch.contexts]][:count]
    along = scales[0] * branch.first @ span @ v
    pulled = scales[1] * np.sum(np.swapaxes(branch.heads, -1, -2) @ axes, axis=0) / np.sqrt(count)
    hidden = (along + pulled) / 2
    sizes = np.linalg.norm(hidden, axis=0)
    kept = np.sort(np.argsort(-sizes)[: len(hidden)])
    frame = np.zeros_like(hidden)
    frame[:, kept] = _polar(hidden[:, kept] / np.where(sizes[kept] > 0, sizes[kept], 1.0))
    return frame, np.maximum(np.sum(frame * hidden, axis=0), 0.0)


def _levels(branches: tuple[Branch, ...], contexts: list[int], sizes: list[np.ndarray]) -> list[np.ndarray]:
    """Return sizes with which the branches of one speed add up to the same strength in all contexts, or to 0."""
    found = []
    for branch, h in zip(branches, sizes, strict=True):
        kin = [(b, g**2) for b, g in zip(branches, sizes, strict=True) if Race.speed(b) == Race.speed(branch)]
        here = np.stack([np.sum([g for b, g in kin if k in b.contexts], axis=0) for k in contexts])
        own = here[contexts.index(branch.contexts[0])]
        every = np.min(here, axis=0) > 0
        found.append(h * np.sqrt(np.divide(np.mean(here, axis=0), own, out=np.zeros_like(h), where=every)))
    return found


def _branch(race: Race, branch: Branch, u: np.ndarray, v: np.ndarray, frame: np.ndarray, sizes: np.ndarray) -> Branch:
    """Return a branch with these layers along the modes of inputs v and outputs u; outside the data it stays."""
    scales, span, count = race.net.scales, race.axes[0], len(branch.heads)
    axes = u[[race.contexts.index(k) for k in branch.contexts]][:count]
    first = branch.first - branch.first @ span @ span.T + (frame * sizes) @ (span @ v).T / scales[0]
    return branch._replace(first=first, heads=(axes * sizes) @ frame.T / np.sqrt(count) / scales[1])
