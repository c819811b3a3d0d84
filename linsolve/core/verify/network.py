"""Checks against the raw network that a flow declares as its `definition`: loss, descent step and observables."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.verify.case import Case, clock, distance, largest

__all__ = ["check_definition", "check_observables", "check_step"]

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
