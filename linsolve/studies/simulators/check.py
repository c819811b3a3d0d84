"""`compare`: runs of a simulator against the exact solution, with errors, observed order and a verdict."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import LinAlgWarning

from linsolve.core.arguments import number, shown
from linsolve.core.flow import Flow
from linsolve.core.named_arguments import named_arguments
from linsolve.studies.simulators.diagnosis import diagnosis
from linsolve.studies.simulators.errors import RunErrors, measured, observed_orders
from linsolve.studies.simulators.reference import Reference, of_flow, of_network
from linsolve.studies.simulators.runs import read_runs
from linsolve.studies.simulators.tables import WHO

__all__ = ["SimulatorCheck", "compare"]

SLACK = 0.25  # observed orders this much below the claimed one pass
EXACT = 1e-12  # errors below it are rounding, whose order is not seen
LIKE = 0.01  # share of the error by which a run may differ from gradient descent


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SimulatorCheck:
    """Result of `compare`; ``print`` shows it, and ``ok`` is the verdict.

    Parameters
    ----------
    ok : bool
        Whether the error of the run with the smallest step is at most `tolerance`, and the order is the claimed one.
    error : float
        Relative error of the run with the smallest step, or of the only run.
    tolerance : float
    runs : tuple of RunErrors
        From the largest to the smallest step.
    orders : tuple of float
        Observed orders between neighboring steps.
    order : float or None
        Claimed order.
    route : str
        Method of the exact solution.
    findings : tuple of str
        Reasons of a failure, and the mistake that the runs look like.
    notes : tuple of str
    references : tuple of Reference
        Exact and simulated quantities over time, one for each run.
    """

    ok: bool
    error: float
    tolerance: float
    runs: tuple[RunErrors, ...]
    orders: tuple[float, ...]
    order: float | None
    route: str
    findings: tuple[str, ...]
    notes: tuple[str, ...]
    references: tuple[Reference, ...]

    def __str__(self) -> str:
        finest = self.references[-1]
        lines = [f"{finest.kind}: {self.route}, {len(finest.t)} times up to t = {finest.t[-1]:g}"]
        lines += [line for each in self.runs for line in _about(each)]
        if self.orders:
            lines.append(f"observed order: {', '.join(f'{slope:.2f}' for slope in self.orders)}")
        limits = f"tolerance {self.tolerance:g}" + (f", order {self.order:g}" if self.order is not None else "")
        lines.append(f"{'PASS' if self.ok else 'FAIL'}: relative error {self.error:.3g} ({limits})")
        lines += [f"  {each}" for each in self.findings]
        return "\n".join([*lines, *(f"note: {each}" for each in self.notes)])

    def __repr__(self) -> str:
        verdict = "PASS" if self.ok else "FAIL"
        return f"SimulatorCheck({verdict}, error {self.error:.3g}, tolerance {self.tolerance:g}, {len(self.runs)} runs)"

    def numbers(self) -> dict[str, Any]:
        """Return everything but the arrays over time, for JSON."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "references"}

    def draw(self, path: str | os.PathLike[str]) -> None:
        """Write a figure of the runs, their errors over time and, for several steps, their errors over the step."""
        from linsolve.studies.simulators.figure import write

        write(self, path)


def _about(run: RunErrors) -> list[str]:
    """Return the lines of one run."""
    step = "" if run.step is None else f", step {run.step:g}"
    found = [f"{run.run}{step}: relative error {run.error:.3g} ({run.quantity}, at t = {run.time:g})"]
    if run.diverged is not None:
        found = [f"{run.run}{step}: {run.lost} at t = {run.diverged:g}"]
    others = [f"{name} {error:.2g}" for name, error in run.errors.items() if name != run.quantity]
    found += [f"  others: {', '.join(others)}"] if others else []
    if run.descent is not None:
        found.append(f"  distance from gradient descent with this step: {run.descent:.2g}")
    return found


@named_arguments("compare")
def compare(
    runs: Any,
    exact: Any,
    *,
    start: Any = None,
    rates: Any = None,
    steps: Any = None,
    order: float | None = None,
    tolerance: float = 0.01,
    names: Any = None,
) -> SimulatorCheck:
    r"""Compare runs of a simulator with the exact solution.

    .. math:: \text{error} = \max_t |z(t) - z^*(t)| \,/\, \max_t |z^*(t)|

    for each quantity z of the run and its exact value :math:`z^*`, in the Euclidean (Frobenius) norm.

    Parameters
    ----------
    runs : str, path, mapping, Trajectory, or list of these
        Runs of the same network. A file (``.npz``, ``.csv``, ``.json``) or a mapping has the times ``t`` (learning rate
        x steps), or the numbers of steps ``k``, and arrays over time by name, of shape (T, ...): the fields of the
        state, the raw weights, or observables such as ``loss``. A number ``step`` (or ``lr``, ``dt``) is the step size.
        No part of a file is executed.
    exact : Flow, or pair of array_like
        A flow with its parameters; or the samples ``(X, Y)`` of a linear network whose layers ``w1 ... wL`` (or
        ``NAME.weight``, ``NAME.kernel``, with biases) are in the runs. The exact solution is then that of
        `linsolve.solve`.
    start : State, mapping or array, optional
        State at t = 0, for a flow; by default the first state of the run, whose time is then the origin.
    rates : array_like, shape (L,), optional
        Learning rates of the layers, for samples; 1 by default.
    steps : sequence of float, optional
        Step size of each run, in units of time; by default those in the runs.
    order : float, optional
        Claimed order of convergence in the step; needs two or more runs with step sizes.
    tolerance : float
        Largest relative error of the run with the smallest step.
    names : str or sequence of str, optional
        Quantities to compare; by default all that the run and the exact solution have in common.

    Returns
    -------
    SimulatorCheck
        ``ok``, ``error``, ``orders``, ``findings``; ``draw(path)`` writes a figure.

    Raises
    ------
    ValueError, TypeError
        If a run cannot be read, does not fit the network, or an argument is out of range.

    Notes
    -----
    If a run fails, its velocity along the simulated path is compared with gradient flow, array by array. A constant
    factor is a wrong learning rate, a negative one a wrong sign. The factor is reported if gradient flow with it
    explains the run (``tests/studies/test_simulators.py``). Without the state, one factor of time is fitted.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> flow, w, path = ls.BalancedMode(s=2.0), 0.1, []
    >>> for _ in range(301):
    ...     path.append(w)
    ...     w += 0.02 * 2 * w * (2.0 - w)  # the learning rate is twice 1 / tau
    >>> run = {"t": 0.01 * np.arange(301), "a": np.array(path)}
    >>> check = ls.compare(run, flow)
    >>> check.ok, check.findings[-1].split(":")[0]
    (False, 'the run moves 2 times as fast as gradient flow')
    """
    tolerance = number(WHO, "tolerance", tolerance, meaning="largest relative error", example=0.01)
    if order is not None:
        order = number(WHO, "order", order, meaning="claimed order of convergence", domain="(0, 20]", example=1)
    read = read_runs(runs, steps)
    if isinstance(exact, Flow):
        if rates is not None:
            raise ValueError(f"{WHO}: rates = {shown(rates)} does not go with a flow, which has its own; leave it out")
        references = [of_flow(run, exact, start, names) for run in read]
    elif not (isinstance(exact, tuple | list) and len(exact) == 2):
        raise TypeError(
            f"{WHO}: exact = {shown(exact)} must be a flow with its parameters, or samples (X, Y); such as "
            "BalancedMode(s=1.0)"
        )
    else:
        if start is not None:
            raise ValueError(
                f"{WHO}: start = {shown(start)} does not go with exact = samples (X, Y), whose start is in the runs; "
                "leave it out"
            )
        references = [of_network(run, exact, rates, names) for run in read]
    found = [measured(run, reference) for run, reference in zip(read, references, strict=True)]
    if len(read) > 1 or order is not None:
        _refuse_steps(found, order)
        ranked = sorted(range(len(found)), key=lambda k: -(found[k].step or 0.0))
        found, references = [found[k] for k in ranked], [references[k] for k in ranked]
    orders = observed_orders(found) if len(found) > 1 else []
    findings = _findings(found, orders, order, tolerance, references[-1])
    notes = dict.fromkeys(note for reference in references for note in reference.notes)
    return SimulatorCheck(
        not findings, found[-1].error, tolerance, tuple(found), tuple(orders), order, references[-1].route,
        tuple(findings), tuple(notes), tuple(references),
    )  # fmt: skip


def _refuse_steps(found: Sequence[RunErrors], order: float | None) -> None:
    """Raise unless there are several runs, each with a step size of its own."""
    if len(found) < 2:
        raise ValueError(f"{WHO}: order = {order:g} needs two or more runs (of different step sizes); add a run")
    without = [each.run for each in found if each.step is None]
    if without:
        raise ValueError(f"{WHO}: steps is missing for {', '.join(without)} (step sizes of several runs); give steps")
    if len({each.step for each in found}) < len(found):
        raise ValueError(
            f"{WHO}: steps = {', '.join(f'{each.step:g}' for each in found)} must differ (step sizes of the runs); "
            "give runs of different steps"
        )


def _findings(
    found: Sequence[RunErrors], orders: Sequence[float], order: float | None, tolerance: float, reference: Reference
) -> list[str]:
    """Return the reasons of a failure; none if the runs pass."""
    finest, reasons = found[-1], []
    if finest.diverged is not None:
        reasons.append(
            f"{finest.run}: {finest.lost} at t = {finest.diverged:g}; this and later times are not compared."
        )
    elif not finest.error <= tolerance:
        reasons.append(f"{finest.quantity} is off by {finest.error:.3g}, more than the tolerance.")
    low = order is not None and not (orders[-1] >= order - SLACK or finest.error <= EXACT)
    if low:
        reasons.append(_of_order(finest, orders[-1], order))  # type: ignore[arg-type]
    wrong = not low or not orders[-1] > 1 - SLACK  # a run that converges to the exact solution has the right rates
    return reasons + (_explained(reference, finest) if reasons and wrong else [])


def _explained(reference: Reference, finest: RunErrors) -> list[str]:
    """Return the explanation of an error, none for runs whose sizes leave the range of doubles when multiplied."""
    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"), warnings.catch_warnings():
            warnings.simplefilter("error", LinAlgWarning)
            return diagnosis(reference, finest.error, finest.step)
    except (FloatingPointError, np.linalg.LinAlgError, LinAlgWarning):
        return []


def _of_order(finest: RunErrors, observed: float, order: float) -> str:
    rounded = round(observed) if observed == observed else 0
    if rounded < 1:
        return f"The runs do not converge to the exact solution: order {observed:.2f}, where {order:g} is claimed."
    power = "" if rounded == 1 else f"^{rounded}"
    size = finest.error / (finest.step or 1.0) ** rounded
    euler = finest.descent is not None and finest.descent <= LIKE * finest.error
    like = f", as for explicit Euler steps, from which the run differs by {finest.descent:.1g}" if euler else ""
    return f"The order is {observed:.2f}, where {order:g} is claimed: the error is about {size:.2g} step{power}{like}."
