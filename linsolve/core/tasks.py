"""Task sequences: one network trained on several tasks, one after the other, each in closed form."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import Interval, integer, real_array, unknown_name
from linsolve.core.flow import Flow
from linsolve.core.parameters import batch_shape
from linsolve.core.query import library
from linsolve.core.series import Series
from linsolve.core.task_arguments import checked_tasks, posed_task, started_task
from linsolve.core.trajectory import Trajectory, read_only

__all__ = ["TaskSequence", "TaskTrajectory", "sequence"]


def sequence(tasks: Sequence[tuple[Flow, float]], z0: Any) -> TaskSequence:
    r"""Return the exact training of one network on several tasks, one after the other.

    Task k is trained from the global time :math:`t_k = T_0 + \dots + T_{k-1}` to :math:`t_k + T_k`. Its start is the
    state in which the task before it ends, so that every part of the trajectory is a closed form. The forgetting of
    task k is the increase of its loss after its own training,

    .. math:: F_k(t) = L_k(z(t)) - L_k(z(t_k + T_k)) \quad (t \ge t_k + T_k).

    Parameters
    ----------
    tasks : list of (Flow, float)
        Flow and duration of each task, in the flow's units of time. The flows have the same state: the same network,
        with another target or other learning rates. A duration is positive; the last one may be inf.
    z0 : State, tuple, mapping, or array for a state of one field
        Initial state of the first task, each field of shape ``batch + own``.

    Returns
    -------
    TaskSequence
        Function of the global time; its value is a `TaskTrajectory`.

    Raises
    ------
    NotExact
        If the closed form of a task does not hold for its start.
    TypeError, ValueError
        If the list is invalid, a duration is not positive, or the flows describe different states.

    Notes
    -----
    Exact for: every sequence of flows that accept each other's states. `WhitenedTwoLayer` conserves the imbalance of
    the layers, so that its condition holds for every further target if it holds for the first. Not for: tasks with
    other inputs than those that the state refers to, such as `FrozenKernel` with another kernel; these are refused.

    Source: Braun, Domine, Fitzgerald, Saxe, "Exact learning dynamics of deep linear networks with prior knowledge"
    (2022): reversal learning, continual learning, transfer.

    Accuracy: that of the flows; 1e-10 against raw weights simulated through all tasks
    (``tests/core/test_tasks.py``).

    Examples
    --------
    >>> import linsolve as ls
    >>> first, second = ls.BalancedMode(s=2.0), ls.BalancedMode(s=1.0)
    >>> path = ls.sequence([(first, 5.0), (second, 5.0)], 0.01)
    >>> traj = path([0.0, 5.0, 10.0])
    >>> traj["losses"].round(3).tolist()  # a row for each time, a column for each task
    [[1.98, 0.49], [0.0, 0.5], [0.5, 0.0]]
    >>> traj["forgetting"].round(3).tolist()
    [[0.0, 0.0], [0.0, 0.0], [0.5, 0.0]]
    """
    flows, durations = checked_tasks(tasks)
    problems = [posed_task(k, flow, z0) for k, flow in enumerate(flows)]
    shapes = {f"tasks[{k}][0] with z0": problem.batch for k, problem in enumerate(problems)}
    batch, xp = batch_shape("sequence", shapes), problems[0].xp
    for k, problem in enumerate(problems):
        if problem.xp is not xp:
            raise TypeError(
                f"sequence: tasks[{k}][0] has arrays of {library(problem.xp)}, but tasks[0][0] with z0 of "
                f"{library(xp)} (library of the arrays); make them equal"
            )
    flow, start = problems[0].flow, problems[0].z0
    own = {name: tuple(v.shape[v.ndim - len(flow.axes[name]) :]) for name, v in start._asdict().items()}
    start = type(start)(*(xp.broadcast_to(v, batch + own[name]) for name, v in start._asdict().items()))
    starts = [start]
    for k, (task, duration) in enumerate(zip(flows[:-1], durations[:-1], strict=True)):
        starts.append(started_task(k, partial(task, duration, starts[-1])).state)
    started_task(len(flows) - 1, partial(flows[-1], 0.0, starts[-1]))
    return TaskSequence(tuple(flows), tuple(durations), tuple(starts))


@dataclasses.dataclass(frozen=True, eq=False)
class TaskSequence:
    """Training on several tasks in closed form, a function of the global time; `sequence` makes it.

    Parameters
    ----------
    flows : tuple of Flow
    durations : tuple of float
    starts : tuple of State
        State in which each task begins.

    Examples
    --------
    >>> import linsolve as ls
    >>> path = ls.sequence([(ls.BalancedMode(s=2.0), 5.0), (ls.BalancedMode(s=1.0), 3.0)], 0.01)
    >>> path.ends, path(path.ends)["losses"].round(2).tolist()  # the loss of each task after each task
    ([5.0, 8.0], [[0.0, 0.5], [0.5, 0.0]])
    """

    flows: tuple[Flow, ...]
    durations: tuple[float, ...]
    starts: tuple[Any, ...]

    @property
    def ends(self) -> list[float]:
        """Global times at which the tasks end."""
        return [float(end) for end in np.cumsum(self.durations)]

    def __call__(self, t: Any) -> TaskTrajectory:
        """Return the trajectory at global times.

        Parameters
        ----------
        t : array_like, any shape
            Times from 0 to the end of the last task. At the time between two tasks the later one is trained.

        Raises
        ------
        ValueError
            If a time is negative, later than the last task, or not a number.
        TypeError
            If JAX traces the times.
        """
        if arithmetic.is_traced(t):
            raise TypeError(
                "TaskSequence: t is traced by JAX but must be known (it decides which task is trained); close over its "
                "value"
            )
        end = self.ends[-1]
        t = real_array("TaskSequence", "t", t, meaning="global time", domain=Interval(f"[0, {end!r}]"))
        task = np.searchsorted(self.ends[:-1], arithmetic.to_numpy(t).astype(float), side="right")
        return TaskTrajectory(self, read_only(t.copy()) if isinstance(t, np.ndarray) else t, np.asarray(task))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class TaskTrajectory(Series):
    """States of a `TaskSequence` at global times, with the losses of all tasks; values are evaluated by name.

    ``traj["loss"]`` and every other observable of a flow refer to the task in training. ``traj["losses"]`` and
    ``traj["forgetting"]`` have a last axis for the tasks. ``traj.on(k)`` has all observables of task k at all times.

    Parameters
    ----------
    sequence : TaskSequence
    t : array
        Global times.
    task : array of int, of the shape of `t`
        Task in training.

    Examples
    --------
    >>> import linsolve as ls
    >>> traj = ls.sequence([(ls.BalancedMode(s=2.0), 5.0), (ls.BalancedMode(s=1.0), 5.0)], 0.01)([1.0, 6.0])
    >>> traj.task.tolist(), traj["a"].shape, traj.on(0)["loss"].round(4).tolist()
    ([0, 1], (2,), [1.2315, 0.4301])
    """

    sequence: TaskSequence
    t: Any
    task: np.ndarray
    route = "closed form, task by task"

    @cached_property
    def parts(self) -> dict[int, Trajectory]:
        """Closed form of each task with times, at local times, by the number of the task."""
        flat, task, found = self.t.reshape(-1), self.task.ravel(), {}
        for k in np.unique(task).tolist():
            begin = self.sequence.ends[k - 1] if k else 0.0
            found[k] = self.sequence.flows[k](flat[np.flatnonzero(task == k)] - begin, self.sequence.starts[k])
        return found

    def on(self, task: int) -> Trajectory:
        """Return the states at all times as a trajectory of one task: loss and observables refer to this task.

        Raises
        ------
        ValueError
            If there is no such task.
        """
        last = len(self.sequence.flows) - 1
        k = integer("TaskTrajectory.on", "task", task, meaning="number of a task", low=0, high=last)
        return Trajectory(_like(self.sequence.flows[k], self.state[0]), self.t, self.state, self.route)

    @cached_property
    def state(self) -> Any:
        """State at all times, fields of shape ``t.shape + batch + own``."""
        first = self.sequence.starts[0]
        return type(first)(*map(self._named, first._fields))

    def keys(self) -> list[str]:
        """Return the names of the state, the losses and the observables that all tasks have."""
        names = [part.names for part in self.parts.values()]
        shared = [name for name in names[0] if all(name in others for others in names)]
        return list(dict.fromkeys([*self.state._fields, "loss", "losses", "forgetting", *shared]))

    def __getitem__(self, name: str) -> Any:
        self._require_name(name)
        if name == "losses":
            return self._by_task(self._loss)
        if name == "forgetting":
            return self._by_task(self._forgotten)
        if name not in self:
            raise KeyError(unknown_name("TaskTrajectory", "observable", name, self.keys()))
        return self._named(name)

    def _named(self, name: str) -> Any:
        """Return a value of the tasks in training by its name."""
        return self._joined(lambda k, part: part[name])

    def _loss(self, of: int, k: int, part: Trajectory) -> Any:
        """Return the loss of task `of` while task `k` is trained."""
        return part["loss"] if of == k else _loss_of(self.sequence.flows[of], part.t, part.state)

    def _forgotten(self, of: int, k: int, part: Trajectory) -> Any:
        """Return the increase of the loss of task `of` since its end while task `k` is trained."""
        if k <= of:
            return 0 * part["loss"]
        end = self.sequence.starts[of + 1]
        return self._loss(of, k, part) - _loss_of(self.sequence.flows[of], np.asarray(0.0), end)

    def _by_task(self, value: Callable[[int, int, Trajectory], Any]) -> Any:
        """Return values of all tasks, shape t.shape + batch + (task,)."""
        xp, tasks = arithmetic.namespace(*self.state), range(len(self.sequence.flows))
        return self._joined(lambda k, part: xp.stack([value(of, k, part) for of in tasks], axis=-1))

    def _joined(self, value: Callable[[int, Trajectory], Any]) -> Any:
        """Return a value of all parts in the order of the times."""
        parts = [value(k, part) for k, part in self.parts.items()]
        xp, back = arithmetic.namespace(*parts), np.argsort(np.argsort(self.task.ravel(), kind="stable"))
        whole = xp.concat(parts, axis=0)[back]
        return xp.reshape(whole, tuple(self.t.shape) + tuple(whole.shape[1:]))

    def _lead(self) -> dict[str, Any]:
        field, value = next(iter(self.state._asdict().items()))
        batch = tuple(value.shape[self.t.ndim : value.ndim - len(self.sequence.flows[0].axes[field])])
        columns = {"t": arithmetic.to_numpy(self.t), "task": self.task}
        found = {name: each.reshape(each.shape + (1,) * len(batch)) for name, each in columns.items()}
        for k, index in enumerate(np.indices(batch)):
            found[f"batch{k}"] = np.broadcast_to(index, tuple(self.t.shape) + batch)
        return found

    def plot(self, name: str = "losses", ax: Any = None, *, log: bool | None = None, **style: Any) -> Any:
        """Draw a value over the global time and return the matplotlib axes; dotted: the ends of the tasks.

        Parameters
        ----------
        name : str
            By default the losses of all tasks.
        ax : matplotlib Axes, optional
            Axes to draw on; new ones by default.
        log : bool, optional
            Logarithmic vertical axis.
        **style
            Passed to ``Axes.plot``.

        Returns
        -------
        matplotlib Axes
        """
        ax = super().plot(name, ax, log=log, **style)
        for end in self.sequence.ends[:-1]:
            ax.axvline(end, color="#777777", linewidth=1.0, linestyle=":", zorder=0)
        return ax

    def __repr__(self) -> str:
        flows = ", ".join(type(flow).__name__ for flow in self.sequence.flows)
        return f"TaskTrajectory({flows}; t: shape {tuple(self.t.shape)}; {', '.join(self.keys())})"


def _like(flow: Flow, value: Any) -> Flow:
    """Return a flow with its parameters in the library of an array."""
    return flow.cast(arithmetic.namespace(value))


def _loss_of(flow: Flow, t: Any, state: Any) -> Any:
    """Return the loss of a task in any state."""
    return Trajectory(_like(flow, state[0]), t, state, "state")["loss"]
