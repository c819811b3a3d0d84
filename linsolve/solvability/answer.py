"""Answer of `applies`: the verdict on a network, the departure of gradient descent, the loss on test samples."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from linsolve.core.arguments import number, shown
from linsolve.core.network_arguments import read
from linsolve.solvability.activation import read_activation
from linsolve.solvability.architectures import recognized
from linsolve.solvability.branched.branches import Branches
from linsolve.solvability.branched.verdict import judge_branches
from linsolve.solvability.decision import judge
from linsolve.solvability.equivalent import directions
from linsolve.solvability.generalization import generalization
from linsolve.solvability.held_out import read_test
from linsolve.solvability.integration import WHO
from linsolve.solvability.rank_one import Heads, judge_heads
from linsolve.solvability.solve import checked_step, of_layers
from linsolve.solvability.trajectory import NetworkTrajectory
from linsolve.solvability.verdict import Verdict

__all__ = ["answered"]

Rule = tuple[float, float]


def answered(
    weights: Any, data: Any, rates: Any, covariances: bool, until: float | None, tolerance: float | None,
    names: Any = None, bias: Any = None, step: float | None = None, within: float | None = None, test: Any = None,
    threshold: float | None = None, activation: Any = None, base: Any = None, scale: Any = None, context: Any = None,
    contexts: Any = None, gates: Any = None,
) -> Verdict:  # fmt: skip
    """Return the verdict of `judge`, with the departure of descent and the test loss if `step` and `test` are given."""
    rule, correct = checked_step(WHO, step, within), _checked_threshold(threshold, test, covariances)
    other = recognized(
        WHO, weights, data, rates, covariances, tolerance, bias, test, names, step, activation, base, scale, context,
        contexts, gates,
    )  # fmt: skip
    if isinstance(other, Heads):
        return judge_heads(WHO, other, until, tolerance)
    if isinstance(other, Branches):
        return judge_branches(WHO, other, until, tolerance)
    if other is not None:
        weights, data, rates, covariances, test, names = other[:6]
    found = judge(weights, data, rates, covariances, until, tolerance, names, bias, activation)
    if not found.integrable:  # it is not followed
        given = [name for name, each in (("test", test), ("step", step)) if each is not None]
        remark = f"{' and '.join(given)}: not answered, because the network is not followed."
        return dataclasses.replace(found, remarks=(*found.remarks, remark)) if given else found
    end = found.until or until
    if read_activation(WHO, activation) is not None:
        tolerance = found.tolerance  # of its mirror symmetry

    def at(times: Any, rule: Rule | None = None) -> NetworkTrajectory:
        return of_layers(
            weights, data, times, rates, bias, activation, 1e-10, tolerance, covariances, names, rule, None
        )

    if test is not None:
        network = read(WHO, weights, data, rates, covariances, tolerance, names, bias)
        held_out, horizon = read_test(WHO, test, network), _horizon(end, "test")
        X, Y = (np.asarray(each, dtype=float) for each in data)
        closed = until is None and at(0.0).flow is not None
        curves = generalization(network, (X, Y.reshape(len(X), -1)), held_out, at, horizon, closed, correct)
        found = dataclasses.replace(found, generalization=curves)
    if rule is not None:
        left = at([0.0, _horizon(end, f"step = {rule[0]:g}")], rule).departure
        found = dataclasses.replace(found, departure=left, remarks=(*found.remarks, str(left)))
    if other is None:
        return found
    times = directions(other.probes, found, lambda times: at(times)["map"], found.until)
    return other.verdict(dataclasses.replace(found, directions=times))


def _horizon(end: float | None, given: str) -> float:
    if not end:
        raise ValueError(
            f"{WHO}: {given} needs a horizon (no equivalent network without biases sets one); say until=10, on the "
            "command line --until 10"
        )
    return end


def _checked_threshold(threshold: Any, test: Any, covariances: Any) -> float | None:
    if test is None:
        if threshold is not None:
            raise ValueError(
                f"{WHO}: threshold = {shown(threshold)} needs test samples (squared error that counts as correct); "
                "give test as well"
            )
        return None
    if covariances is True:
        raise ValueError(
            f"{WHO}: test needs training samples (their errors are compared), not second moments; pass (X, Y)"
        )
    if threshold is None:
        return None
    return number(WHO, "threshold", threshold, meaning="squared error that counts as correct", example=0.01)
