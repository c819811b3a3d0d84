"""The mistake that a run looks like: a wrong learning rate, a wrong sign, or a method of lower order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.flow import Flow
from linsolve.core.integrate import integrate
from linsolve.studies.simulators.errors import distances
from linsolve.studies.simulators.reference import Reference

__all__ = ["Speeds", "diagnosis", "speeds"]

EXPLAINED = 0.95  # share of the squared moves that a factor must explain
NEAR = 0.05  # relative distance of a factor from a known one
FACTORS = 1e-6, 1e3  # factors of time that are fitted to observables
SMALL = 0.1  # factors below it, on whole times, suggest step numbers
GAIN = 3.0  # factor by which the error must fall
STEPPED = 1e-8  # share of the squared moves by which a run may differ from gradient descent
HUGE = 1e6  # size of states, relative to the start, whose velocities are not compared

_NODES = (np.array([-np.sqrt(0.6), 0.0, np.sqrt(0.6)]) + 1) / 2  # Gauss and Legendre, on [0, 1]
_SHARES = np.array([5.0, 8.0, 5.0]) / 18


class Speeds(NamedTuple):
    """For each array, the factor between its simulated velocity and gradient flow, and the share that it explains."""

    factors: dict[str, float]
    shares: dict[str, float]


def speeds(t: np.ndarray, state: Any, flow: Flow, *, steps: bool) -> Speeds:
    r"""Return the factors between the moves of a run and those of gradient flow along the simulated path.

    The factor c of an array minimizes :math:`\sum_k |z_{k+1} - z_k - c\, m_k|^2`.

    Parameters
    ----------
    t : ndarray, shape (T,)
    state : State
        Simulated state at all times.
    flow : Flow
    steps : bool
        Whether :math:`m_k = (t_{k+1} - t_k)\, v(z_k)`, the move of one step of gradient descent, or the integral of the
        velocity v along a cubic spline through the states.
    """
    width, nodes = np.diff(t), [(0.0, 1.0)] if steps else list(zip(_NODES, _SHARES, strict=True))
    if steps:
        points = [tuple(field[:-1] for field in state)]
    else:
        from scipy.interpolate import CubicSpline

        paths = [CubicSpline(t, field, axis=0) for field in state]
        points = [tuple(path(t[:-1] + node * width) for path in paths) for node, _ in nodes]
    moves: list[Any] = [0.0] * len(state)
    for point, (_, share) in zip(points, nodes, strict=True):
        for k, velocity in enumerate(flow.velocity(np, type(state)(*point))):
            moves[k] = moves[k] + share * velocity * width.reshape(-1, *(1,) * (velocity.ndim - 1))
    fitted = [_fitted(np.diff(field, axis=0), move) for field, move in zip(state, moves, strict=True)]
    factors, shares = (dict(zip(state._fields, each, strict=True)) for each in zip(*fitted, strict=True))
    return Speeds(factors, shares)


def _fitted(seen: np.ndarray, due: np.ndarray) -> tuple[float, float]:
    """Return the factor c that minimizes ``|seen - c due|``, and ``1 - |seen - c due|^2 / |seen|^2``."""
    power, total = float(np.sum(due * due)), float(np.sum(seen * seen))
    if power == 0:
        return 1.0, float(total == 0)
    factor = float(np.sum(seen * due)) / power
    return factor, 1 - float(np.sum((seen - factor * due) ** 2)) / total if total else 1.0


def diagnosis(reference: Reference, error: float, step: float | None = None) -> list[str]:
    """Return sentences on the factors of the learning rates that explain the error of a run of this step size."""
    explain = _from_times if reference.state is None else _from_speeds
    found = explain(reference, error, step)
    return found + _of_scale(reference)


def _from_speeds(reference: Reference, error: float, step: float | None) -> list[str]:
    kept = _tame(reference)
    if kept < 2:
        return []
    t, state = reference.t[:kept], type(reference.state)(*(field[:kept] for field in reference.state))
    found = speeds(t, state, reference.flow, steps=True)
    stepped = min(found.shares.values()) > 1 - STEPPED
    if not stepped:
        found = speeds(t, state, reference.flow, steps=False)
        if not min(found.shares.values()) >= EXPLAINED:
            return []
    common = float(np.median(list(found.factors.values())))
    same = all(abs(factor - common) <= NEAR * abs(common) for factor in found.factors.values())
    odd = {name: c for name, c in ({"": common} if same else found.factors).items() if abs(c - 1) > NEAR / 2}
    if stepped:
        proof = "Every step of the run is such a step of gradient descent."
        alone = [f"{proof[:-1].replace('such a', 'a')} with the stated learning rates: the error is that of its size."]
        return [f"{_said(name, factor, reference, step)} {proof}" for name, factor in odd.items()] or (
            alone if np.isfinite(error) else []
        )
    left = _error_with(reference, dict.fromkeys(found.factors, common) if same else found.factors)
    if left is not None and not left < error / GAIN:
        return []
    proof = "" if left is None else f" With this, the error is {left:.2g}."
    return [_said(name, factor, reference, step) + proof for name, factor in odd.items()]


def _tame(reference: Reference) -> int:
    """Return the number of times at which the state is not huge."""
    wide = np.zeros(len(reference.t), dtype=bool)
    for field, start in zip(reference.state, reference.start, strict=True):
        most = HUGE * max(1.0, float(np.abs(start).max()))
        wide |= (np.abs(field) > most).reshape(len(field), -1).any(axis=1)
    return int(np.argmax(wide)) if wide.any() else len(wide)


def _error_with(reference: Reference, factors: Mapping[str, float]) -> float | None:
    """Return the error against the gradient flow whose velocities are multiplied by factors, None if it blows up."""

    class Rescaled(type(reference.flow)):  # type: ignore[misc]
        def velocity(self, xp: Any, z: Any) -> Any:
            found = super().velocity(xp, z)
            return self.State(*(factors[name] * v for name, v in found._asdict().items()))

    try:
        wrong = integrate(Rescaled(**reference.flow.parameters()), reference.t, reference.start, rtol=1e-8)
    except (ArithmeticError, ValueError):
        return None
    found = distances(reference.state._asdict(), wrong.state._asdict())
    return max(float(each.max()) for each in found.values())


def _from_times(reference: Reference, error: float, step: float | None) -> list[str]:
    """Fit one factor of time to observables."""
    from scipy.optimize import minimize_scalar

    def distance(factor: float) -> float:
        try:
            exact = reference.at(factor * reference.t)
            found = distances(reference.simulated, {name: exact[name] for name in reference.simulated})
        except (ValueError, ArithmeticError):  # backward beyond the blow-up
            return float("inf")
        return max(float(each.max()) for each in found.values())

    if all((value == value[:1]).all() for value in reference.simulated.values()):
        factor, left = 0.0, distance(0.0)
    else:
        grid = np.linspace(np.log(FACTORS[0]), np.log(FACTORS[1]), 211)
        _, power, sign = min((distance(sign * np.exp(power)), power, sign) for sign in (1.0, -1.0) for power in grid)
        width = grid[1] - grid[0]
        best = minimize_scalar(lambda power: distance(sign * np.exp(power)), bounds=(power - width, power + width))
        factor, left = sign * float(np.exp(best.x)), float(best.fun)
    if not left < error / GAIN or abs(factor - 1) <= NEAR / 2:
        return []
    return [_said("", factor, reference, step) + f" With this, the error is {left:.2g}."]


def _said(name: str, factor: float, reference: Reference, step: float | None) -> str:
    """Return a sentence on one factor of the learning rates: of one array, or of all."""
    rate, what = (f"the learning rate of {name}", name) if name else ("the learning rate", "the run")
    if factor == 0:  # no weight moves
        return f"{what} does not move: {rate} is 0."
    size = f"{abs(factor):.3g}"
    if factor < 0:
        speed = "" if abs(abs(factor) - 1) <= NEAR else f", {size} times as fast"
        return f"{what} moves against its gradient flow{speed}: the sign of {rate} or of the gradient is wrong."
    speed = f"{what} moves {size} times as fast as gradient flow"
    if not name and _is_of_counts(factor, reference.t, step):
        return f"{speed}; t looks like step numbers: save step times learning rate."
    near = [cause for cause, known in reference.causes.items() if abs(factor - known) <= NEAR * known]
    why = f", as for {' or '.join(near)}" if near and not name else ""
    return f"{speed}: {rate} is {size} times the stated one{why}."


def _is_of_counts(factor: float, t: np.ndarray, step: float | None) -> bool:
    """Return whether times look like step numbers: whole, and with a factor near the step size; small, without it."""
    likely = factor <= SMALL if step is None else abs(factor - step) <= NEAR * step
    return likely and bool((t == np.rint(t)).all())


def _of_scale(reference: Reference) -> list[str]:
    """Return a sentence for each observable that is a constant multiple of the exact one."""
    found = []
    for name, seen in reference.simulated.items():
        if reference.state is not None and name in reference.state._fields:
            continue
        factor, share = _fitted(seen, np.asarray(reference.exact[name]))
        if share > 1 - 1e-4 and abs(factor - 1) > NEAR / 2:
            found.append(f"{name} is {factor:.3g} times the exact one at every time: it has another definition.")
    return found
