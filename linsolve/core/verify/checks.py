"""The checks of a flow: each returns ``(value, tolerance, detail)``, or None if the check does not apply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.flow import Flow
from linsolve.core.integrate import descend, integrate
from linsolve.core.parameters import own_axes
from linsolve.core.verify.case import Case, distance, implements, largest
from linsolve.core.verify.ends import check_conditions, check_lifetime, check_limit, check_time_to
from linsolve.core.verify.network import check_definition, check_discrete, check_observables, check_step

__all__ = ["CHECKS", "NEEDED"]

Row = tuple[float, float, str]


def check_velocity(case: Case) -> Row:
    """Compare the velocity with `descent` of the gradient of the loss, by finite differences in high precision."""
    worst = []
    later = integrate(case.flow, case.clock, case.z0).state
    for z in (case.start, type(case.start)(*(arithmetic.cast(case.xp, v) for v in later))):
        velocity = case.exact.velocity(case.xp, z)
        found = case.exact.descent(case.xp, z, _gradient(case, z))
        floor = max(abs(v).max() for v in velocity)
        worst += [distance(v, w, floor) for v, w in zip(velocity, found, strict=True)]
    return largest(worst), case.tolerance, "velocity against the learning rates times the gradient of the loss"


def _gradient(case: Case, z: Any) -> Any:
    """Return the gradient of the loss by central differences, one entry of one field at a time."""
    fields = []
    for k, (name, value) in enumerate(zip(z._fields, z, strict=True)):
        own = value.shape[value.ndim - len(case.flow.axes[name]) :]
        full = case.xp.broadcast_to(value, case.batch + own)
        gradient = np.empty(case.batch + own, dtype=object)
        for index in np.ndindex(own):
            bump = np.zeros(own, dtype=int)
            bump[index] = 1
            up = z._replace(**{name: full + case.step * case.xp.asarray(bump)})
            down = z._replace(**{name: full - case.step * case.xp.asarray(bump)})
            slope = (case.exact.loss(case.xp, up) - case.exact.loss(case.xp, down)) / (2 * case.step)
            gradient[(Ellipsis, *index)] = np.broadcast_to(slope, case.batch)
        fields.append((k, case.xp.asarray(gradient)))
    return type(z)(*(g for _, g in fields))


def check_residual(case: Case) -> Row:
    """Compare the time derivative of the closed form with the velocity, in high precision."""
    multiples = [0.3, 1.0, 2.5, 6.0]
    begin = np.asarray(case.flow.lifetime(np, case.z0)[0])
    if np.min(begin) < 0:
        multiples.append(max(np.max(begin) / case.clock / 2, -1.0))
    t, step, count = case.times(*multiples), case.step * case.clock, len(multiples)
    # all times in one evaluation, since some closed forms are costly to prepare
    path = case.follow(case.xp.concat([t - step, t, t + step], axis=0))
    earlier, state, later = (type(path)(*(v[k * count : (k + 1) * count] for v in path)) for k in range(3))
    rates = [(b - a) / (2 * step) for a, b in zip(earlier, later, strict=True)]
    velocity = case.exact.velocity(case.xp, state)
    floors = [abs(v).max() / case.clock for v in state]
    worst = largest(distance(r, v, f) for r, v, f in zip(rates, velocity, floors, strict=True))
    return worst, case.tolerance, "d/dt of the closed form against the velocity"


def check_start(case: Case) -> Row:
    """Count the entries of the double-precision closed form at ``t = 0`` that differ from the initial state."""
    found = case.flow(0.0, case.z0).state
    wrong = sum(int(np.sum(~(v == z))) for v, z in zip(found, case.z0, strict=True))
    return float(wrong), 0.0, "entries at t = 0 that are not bitwise the start"


def check_semigroup(case: Case) -> Row:
    """Compare the solution at ``t1 + t2`` with two successive solutions, at later times than the other checks."""
    path = case.follow(case.times(8.0, 16.0))
    middle = type(case.start)(*(v[0] for v in path))
    twice = case.follow(case.times(8.0), middle)
    worst = largest(distance(a[1:], b) for a, b in zip(path, twice, strict=True))
    return worst, case.tolerance, "solution at t1 + t2 against the solution at t2 from that at t1"


def check_invariants(case: Case) -> Row | None:
    """Compare the conserved quantities along the closed form with their initial values."""
    before = case.exact.invariants(case.xp, case.start)
    if not before:
        return None
    after = case.exact.invariants(case.xp, case.path[1])
    size = max(abs(v).max() for v in case.start)
    worst = [distance(after[name], value + 0 * after[name], min(size, size**2)) for name, value in before.items()]
    return largest(worst), case.tolerance, "drift of " + ", ".join(before)


def check_dop853(case: Case) -> Row:
    """Compare the double-precision closed form with an adaptive Runge-Kutta integration of the velocity."""
    t = case.clock * np.array([0.3, 1.0, 2.0, 4.0])
    exact, simulated = case.flow(t, case.z0).state, integrate(case.flow, t, case.z0, rtol=1e-12).state
    worst = largest(distance(a, b) for a, b in zip(exact, simulated, strict=True))
    return worst, 1e-8, "closed form in doubles against DOP853"


def check_descent(case: Case) -> Row | None:
    """Measure the order in the step at which gradient descent converges to the closed form; it must be one."""
    if not case.moving:
        return None
    t, errors = 2 * case.clock, []
    for count in (200, 400, 800):
        found = descend(case.flow, t, case.z0, step=t / count)
        exact = case.flow(found.t, case.z0)
        errors.append(largest(distance(a, b) for a, b in zip(found.state, exact.state, strict=True)))
    orders = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    return float(np.max(np.abs(orders - 1))), 0.1, f"order of gradient descent minus 1 (error {errors[-1]:.0e})"


def check_along(case: Case) -> Row | None:
    """Compare the separate closed forms of observables with the same observables of the state."""
    if not implements(case.flow, "along"):
        return None
    t, state = case.path
    closed, worst = case.exact.along(case.xp, t, case.start), []
    for name, value in closed.items():
        expected = getattr(case.exact, name)(case.xp, state)
        worst.append(distance(value + 0 * expected, expected))
    return largest(worst), case.tolerance, "closed forms of " + ", ".join(closed)


def check_rates(case: Case) -> Row | None:
    """Compare stated time derivatives of observables with their derivatives along the velocity."""
    z = case.start
    claimed = case.exact.rates(case.xp, z)
    if not claimed:
        return None
    velocity = case.exact.velocity(case.xp, z)
    ahead, behind = (type(z)(*(a + sign * case.step * v for a, v in zip(z, velocity, strict=True))) for sign in (1, -1))
    worst = []
    for name, rate in claimed.items():
        observe = getattr(case.exact, name)
        worst.append(distance(rate, (observe(case.xp, ahead) - observe(case.xp, behind)) / (2 * case.step)))
    return largest(worst), case.tolerance, "stated rates of " + ", ".join(claimed)


def check_bounds(case: Case) -> Row | None:
    """Measure the largest distance of loss and observables from their declared intervals."""
    _, state = case.path
    excess = [-case.exact.loss(case.xp, state)]
    for name, about in case.flow.declared.items():
        value, bounds = getattr(case.exact, name)(case.xp, state), about["bounds"]
        excess += [sign * (end - value) for end, sign in ((bounds.low, 1), (bounds.high, -1)) if np.isfinite(end)]
    return (
        largest([0.0, *(np.max(arithmetic.to_numpy(v)) for v in excess)]),
        case.tolerance,
        "excess over the stated bounds of loss and observables",
    )


def check_batch(case: Case) -> Row:
    """Compare a batch of two initial states, and of two values of each parameter, with each alone."""
    t = case.clock * np.array([0.5, 2.0])
    first, later = case.flow(t, case.z0), case.flow(case.clock * np.array([0.7]), case.z0).state
    other = type(case.z0)(*(v[0] for v in later))
    pair = type(case.z0)(*(np.stack([np.broadcast_to(a, b.shape), b]) for a, b in zip(case.z0, other, strict=True)))
    worst, varied, left = [_apart(case.flow(t, pair), first, case.flow(t, other))], [], []
    for name, declared in case.flow._declarations.items():
        if declared.metadata["uniform"] and case.flow.parameters()[name].ndim == 0:
            continue  # one number that stands for all entries of an axis has no batch
        try:
            changed, both = _changed(case, name)
            worst.append(_apart(both(t, case.z0), first, changed(t, case.z0)))
            varied.append(name)
        except Exception:  # any: one number for all members, or a value beyond the conditions
            left.append(name)
    of_parameters = f", and of two values of {', '.join(varied)}" if varied else ""
    without = f"; without a batch of {', '.join(left)}" if left else ""
    return largest(worst), 1e-9, f"a batch of two starts{of_parameters}, against one by one{without}"


def _changed(case: Case, name: str) -> tuple[Flow, Flow]:
    """Return the flow with another value of a parameter, and with a batch of its own and the other value."""
    flow, value = case.flow, case.flow.parameters()[name]
    own = value.shape[value.ndim - len(own_axes(flow._declarations[name], value)) :]
    values = [np.broadcast_to(v, case.batch + own) for v in (value, 1.01 * value)]
    changed, both = (type(flow)(**{**flow.parameters(), name: v}) for v in (values[1], np.stack(values)))
    return changed, both


def _apart(together: Any, *alone: Any) -> float:
    """Return the largest distance of members of a batch from the same members alone."""
    worst = []
    for k, each in enumerate(alone):
        worst += [distance(np.asarray(together[name])[:, k], np.asarray(each[name])) for name in each.names]
    return largest(worst)


def check_symbols(case: Case) -> Row | None:
    """Prove with SymPy that the residual of the implemented closed form is exactly zero."""
    if not implements(case.flow, "symbols"):
        return None
    from linsolve.core.verify.symbols import unproved

    entries = unproved(type(case.flow))  # type: ignore[arg-type]
    return float(entries), 0.0, "state entries whose residual SymPy does not reduce to 0"


CHECKS: dict[str, Callable[[Case], Row | None]] = {
    "definition": check_definition,
    "velocity": check_velocity,
    "residual": check_residual,
    "start": check_start,
    "semigroup": check_semigroup,
    "conditions": check_conditions,
    "invariants": check_invariants,
    "dop853": check_dop853,
    "descent": check_descent,
    "step": check_step,
    "discrete": check_discrete,
    "along": check_along,
    "rates": check_rates,
    "observables": check_observables,
    "limit": check_limit,
    "time_to": check_time_to,
    "lifetime": check_lifetime,
    "bounds": check_bounds,
    "batch": check_batch,
    "symbols": check_symbols,
}

# declarations without which a check does not apply
NEEDED: dict[str, str] = {
    "definition": "definition(self, xp), the raw network as a Definition",
    "conditions": "definition(self, xp), or counterexamples(cls, rng)",
    "invariants": "invariants(self, xp, z), conserved quantities by name",
    "descent": "a start that moves",
    "step": "definition(self, xp), the raw network as a Definition",
    "discrete": "definition(self, xp), in a class derived from Map",
    "along": "along(self, xp, t, z0), observables with a closed form of their own",
    "rates": "rates(self, xp, z), time derivatives of observables by name",
    "observables": "definition(self, xp), and a method with @observable()",
    "limit": "limit(self, xp, z0), the state at t = inf",
    "time_to": "time_to(self, xp, z0, *, loss), and a start that moves",
    "lifetime": "lifetime(self, xp, z0), the times between which the solution exists",
    "symbols": "symbols(cls), a classmethod that returns the parameters by name and the fields of the start as SymPy "
    "symbols, and a dict of a number for each symbol",
}
