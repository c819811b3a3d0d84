"""Checks of the tasks of a sequence: pairs of flow and duration, with one state for all flows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import number, shown
from linsolve.core.flow import Flow
from linsolve.core.query import pose
from linsolve.core.trajectory import Trajectory

__all__ = ["checked_tasks", "posed_task", "started_task"]

SAME = 1e-12  # relative distance of two states of the same weights up to which they count as equal


def checked_tasks(tasks: Any) -> tuple[list[Flow], list[float]]:
    """Return flows and durations; raise an error that names the entry of the list that is not valid."""
    if not isinstance(tasks, list | tuple) or not tasks:
        raise TypeError(
            f"sequence: tasks = {shown(tasks)} must be a list (flow and duration of each task); say [(flow, 1.0)]"
        )
    flows, durations = [], []
    for k, task in enumerate(tasks):
        if not isinstance(task, list | tuple) or len(task) != 2 or not isinstance(task[0], Flow):
            raise TypeError(
                f"sequence: tasks[{k}] = {shown(task)} must be a pair (flow, duration); say (BalancedMode(s=1.0), 5.0)"
            )
        last = k == len(tasks) - 1
        domain, meaning = ("(0, inf]", "duration") if last else ("(0, inf)", "duration; only the last may be inf")
        flows.append(task[0])
        durations.append(number("sequence", f"tasks[{k}][1]", task[1], meaning=meaning, domain=domain, example=1.0))
        if np.isfinite(durations[-1]) and not np.isfinite(sum(durations)):
            raise ValueError(f"sequence: tasks[{k}][1] = {task[1]} makes the sum of durations infinite; take less")
        if k:
            _refuse_other_state(k, flows[0], flows[k])
    return flows, durations


def posed_task(k: int, flow: Flow, z0: Any) -> Any:
    """Return the checked query of a task from the first state."""
    try:
        return pose(flow, 0.0, z0)
    except (TypeError, ValueError) as error:
        raise type(error)(f"sequence: tasks[{k}][0] does not accept z0: {error}") from error


def started_task(k: int, run: Callable[[], Trajectory]) -> Trajectory:
    """Return the trajectory of a task; an error about its start names the task."""
    try:
        return run()
    except (ValueError, OverflowError) as error:
        start = "z0" if k == 0 else f"the end of tasks[{k - 1}]"
        raise type(error)(f"sequence: tasks[{k}][0] does not start at {start}: {error}") from error


def _refuse_other_state(k: int, first: Flow, flow: Flow) -> None:
    """Raise ValueError if two flows describe the same weights by different states."""
    fix = "give every task the state of the first: another target or duration, not another network"
    if flow.State is not first.State:
        names = f"{type(first).__name__}: {', '.join(first.State._fields)}"  # type: ignore[attr-defined]
        raise ValueError(f"sequence: tasks[{k}][0] = {type(flow).__name__} has another state than {names}; {fix}")
    if not arithmetic.readable(*first.parameters().values(), *flow.parameters().values()):
        return  # JAX traces the parameters
    try:
        definitions = [each.cast(np).definition(np) for each in (first, flow)]
    except NotImplementedError:
        return  # a flow without a raw network
    if any(definitions[0].weights.get(name) != own for name, own in definitions[1].weights.items()):
        return  # other sizes, which the query names
    batches = [np.broadcast_shapes(*(np.shape(rate) for rate in each.rates.values())) for each in definitions]
    weights = definitions[0].draw(np, np.random.default_rng(0), np.broadcast_shapes(*batches))
    for name, a, b in zip(first.State._fields, *(each.state(weights) for each in definitions), strict=True):  # type: ignore[attr-defined]
        distance = float(np.abs(a - b).max() / max(np.abs(a).max(), np.finfo(float).tiny))
        if not distance <= SAME:
            raise ValueError(
                f"sequence: tasks[{k}][0] has another {name} than tasks[0][0] for the same weights (relative distance "
                f"{distance:.2g}; its parameters change the meaning of the state); {fix}"
            )
