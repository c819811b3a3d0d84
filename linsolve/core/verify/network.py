"""Checks against the raw network that a flow declares as its `definition`: loss, descent and observables."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.map import Map
from linsolve.core.step_rules import Rule
from linsolve.core.verify.case import Case, clock, distance, largest

__all__ = ["check_definition", "check_discrete", "check_observables", "check_step"]

Row = tuple[float, float, str]


def check_definition(case: Case) -> Row | None:
    """Compare loss and velocity with those of the raw network; this also detects an additive constant of the loss."""
    if case.definition is None:
        return None
    raw, w = case.definition, case.weights
    state = raw.state(w)
    loss, velocity = case.exact.loss(case.xp, state), case.exact.velocity(case.xp, state)
    moved = raw.descended(case.xp, w, case.batch, case.jacobian, case.step)
    back = {name: 2 * value - moved[name] for name, value in w.items()}
    found = [(a - b) / (2 * case.step) for a, b in zip(raw.state(moved), raw.state(back), strict=True)]
    floor = max(abs(v).max() for v in velocity)
    worst = [distance(loss, raw.loss(case.xp, w, case.batch))]
    worst += [distance(a, b, floor) for a, b in zip(velocity, found, strict=True)]
    return largest(worst), case.tolerance, "loss and velocity against the raw network"


def check_step(case: Case) -> Row | None:
    """Compare one finite descent step with a step of the raw weights, to all orders in the step."""
    if case.definition is None:
        return None
    raw, w = case.definition, case.weights
    state = raw.state(w)
    unit = clock(case.flow, type(case.z0)(*(arithmetic.to_numpy(v) for v in state))) or 1.0
    h = case.xp.asarray(unit / 16)
    found = case.exact.step(case.xp, state, h)
    expected = raw.state(raw.descended(case.xp, w, case.batch, case.jacobian, h))
    worst = [distance(a, b) for a, b in zip(found, expected, strict=True)]
    return largest(worst), case.tolerance, "one descent step against the raw weights"


def check_observables(case: Case) -> Row | None:
    """Compare each observable with its definition on the raw network; a missing definition counts as an error."""
    if case.definition is None or not case.flow.declared:
        return None
    raw, w = case.definition, case.weights

    def kernel(at: Any, *, rates: bool = True) -> Any:
        jacobian = case.jacobian if at is w else raw.jacobian(case.xp, at, case.batch, case.step)
        return raw.kernel(case.xp, jacobian, rates=rates)

    defined, state = raw.observables(w, kernel), raw.state(w)
    missing = [name for name in case.flow.declared if name not in defined]
    if missing:
        return np.inf, case.tolerance, f"observables without a definition: {', '.join(missing)}"
    worst = []
    for name, value in defined.items():
        found = getattr(case.exact, name)(case.xp, state)
        worst.append(distance(found + 0 * value, value + 0 * found))
    return largest(worst), case.tolerance, "against their definitions: " + ", ".join(defined)


_LENGTHS = (1.0, 0.4, 1.7, 0.9)  # of successive steps, in units of clock/8


def check_discrete(case: Case) -> Row | None:
    """Compare four steps of unequal length, plain and with momentum and decay, with steps of the raw weights."""
    if case.definition is None or not isinstance(case.exact, Map):
        return None
    state = case.definition.state(case.weights)
    unit = (clock(case.flow, type(case.z0)(*(arithmetic.to_numpy(v) for v in state))) or 1.0) / 8
    tenth = case.xp.asarray(1) / 10
    kinds = {"plain": (0, 0), "momentum": (3 * tenth, 0), "decay": (3 * tenth, tenth / unit)}
    chosen = [name for name in kinds if name == "plain" or name in case.exact.rules]
    worst = [error for name in chosen for error in _discrete_errors(case, state, unit, *kinds[name])]
    return largest(worst), case.tolerance, "four descent steps against the raw weights: " + ", ".join(chosen)


def _discrete_errors(case: Case, state: Any, unit: float, momentum: Any, decay: Any) -> list[float]:
    """Return the distances of state and observables of the reduced descent from those of the raw weights."""
    raw, xp, flow, w = case.definition, case.xp, case.exact, case.weights
    assert raw is not None
    assert isinstance(flow, Map)
    fixed, now = flow.reduced(xp, state)
    moves = {name: 0 * value for name, value in w.items()}
    for length in _LENGTHS:
        h = xp.asarray(length * unit)
        lost = h * decay
        after = raw.descended(xp, w, case.batch, raw.jacobian(xp, w, case.batch, case.step), h)
        moves = {name: momentum * moves[name] + after[name] - w[name] for name in w}
        w = {name: (1 - lost) * w[name] + moves[name] for name in w}
        now = flow.advanced(xp, fixed, now, Rule(h, momentum, lost) if momentum else Rule(h))
    worst = [distance(a, b) for a, b in zip(flow.restored(xp, state, fixed, now), raw.state(w), strict=True)]

    def kernel(at: Any, *, rates: bool = True) -> Any:
        return raw.kernel(xp, raw.jacobian(xp, at, case.batch, case.step), rates=rates)

    given = flow.described(xp, fixed, now)
    defined = {"loss": raw.loss(xp, w, case.batch), **(raw.observables(w, kernel) if given else {})}
    return worst + [distance(given[name], defined[name]) for name in given if name in defined]
