"""Verdict on a network for gradient descent with a given step."""

from __future__ import annotations

import dataclasses
from typing import Any

from linsolve.solvability.decision import judge
from linsolve.solvability.integration import WHO
from linsolve.solvability.solve import checked_step, solved
from linsolve.solvability.verdict import Verdict

__all__ = ["judged"]


def judged(
    weights: Any, data: Any, rates: Any, covariances: bool, until: float | None, tolerance: float | None,
    names: Any = None, bias: Any = None, step: float | None = None, within: float | None = None,
) -> Verdict:  # fmt: skip
    """Return the verdict of `judge`, and the first time at which descent with this step differs from gradient flow."""
    rule = checked_step(WHO, step, within)
    found = judge(weights, data, rates, covariances, until, tolerance, names, bias)
    if rule is None:
        return found
    end = found.until or until
    if not end:
        raise ValueError(
            f"{WHO}: step = {rule[0]:g} needs a horizon (no equivalent network without biases sets one); say until=10, "
            "on the command line --until 10"
        )
    traj = solved(weights, data, [0.0, end], rates, bias, None, 1e-10, tolerance, covariances, names, rule)
    return dataclasses.replace(found, departure=traj.departure, remarks=(*found.remarks, str(traj.departure)))
