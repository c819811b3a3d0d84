"""`verify`: checks of every statement of a flow or law, to fifty digits, by simulation and in symbols."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import choice, shown
from linsolve.core.flow import Flow
from linsolve.core.json_text import json_text
from linsolve.core.law import Law
from linsolve.core.named_arguments import named_arguments
from linsolve.core.notebook import html_table
from linsolve.core.query import NotExact
from linsolve.core.verify.case import Case, prepare
from linsolve.core.verify.checks import CHECKS, NEEDED
from linsolve.core.verify.laws import check_law
from linsolve.core.verify.statements import refuse_unportable

__all__ = ["CHECKS", "Check", "Report", "verify"]

MOST_DIGITS = 1000


@dataclasses.dataclass(frozen=True)
class Check:
    """Result of one check.

    Parameters
    ----------
    name : str
        Name of the check.
    value, tolerance : float
        Measured value, and the largest passing value.
    detail : str
        Meaning of the value.
    """

    name: str
    value: float
    tolerance: float
    detail: str

    @property
    def ok(self) -> bool:
        """Whether the check passed; nan fails."""
        return bool(self.value <= self.tolerance)


@dataclasses.dataclass(frozen=True)
class Report:
    """Checks of one flow and one initial state: an iterable, with `ok` and `failed`, that prints as a table.

    Parameters
    ----------
    flow : str
        Name of the flow or law.
    checks : tuple of Check
        In the order of `CHECKS`.
    notes : tuple of str
        Properties of the initial state that affect the checks, and what a check that was asked for but not run needs.
    """

    flow: str
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there is at least one check and all checks passed."""
        return bool(self.checks) and all(check.ok for check in self.checks)

    @property
    def failed(self) -> list[str]:
        """Names of the checks that did not pass."""
        return [check.name for check in self.checks if not check.ok]

    def __iter__(self) -> Iterator[Check]:
        return iter(self.checks)

    def __str__(self) -> str:
        verdict = f"FAILED: {', '.join(self.failed)}" if self.failed else "passed" if self.checks else "nothing checked"
        lines = [f"{self.flow}: {verdict}"]
        for check in self.checks:
            mark = "ok  " if check.ok else "FAIL"
            lines.append(f"  {mark} {check.name:<14} {check.value:8.1e} <= {check.tolerance:7.0e}  {check.detail}")
        return "\n".join([*lines, *(f"  note {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        rows = [("ok" if c.ok else "FAIL", c.name, f"{c.value:.1e} ≤ {c.tolerance:.0e}", c.detail) for c in self.checks]
        return html_table(str(self).split("\n", 1)[0], ("", "check", "value", "meaning"), rows, self.notes)

    def to_json(self) -> str:
        """Return the report as JSON."""
        rows = [dataclasses.asdict(check) | {"ok": check.ok} for check in self.checks]
        return json_text({"flow": self.flow, "ok": self.ok, "checks": rows, "notes": self.notes})


@named_arguments("verify")
def verify(flow: Flow | Law, z0: Any = None, dps: int = 50, *, checks: Iterable[str] | None = None) -> Report:
    """Verify the statements of a flow for one initial state, or measure the order or the z-scores of a law.

    Loss, velocity, descent step and observables are checked against the raw network that the flow declares as its
    `definition`, if any; the velocity against the gradient of the loss; the closed form against the velocity; and
    invariants, limit, time to a loss, lifetime and conditions against the closed form. Random states of the raw
    network, of both signs, and the saddle of zero weights are further initial states. Times are multiples of the clock
    of the flow, ``|z0| / |velocity(z0)|``: at much later times every formula with the correct limit would pass.

    Parameters
    ----------
    flow : Flow or Law
        Parameters should be generic, since equal learning rates hide mistakes.
    z0 : State
        Initial state of a flow, also generic; omitted for a law.
    dps : int
        Decimal digits of the high-precision checks, 15 to 1000; the checks compute with twice as many digits. With more
        than 1000 digits some flows take minutes, and no further mistakes would be detected.
    checks : str or iterable of str, optional
        Names of the checks to run; by default all of `CHECKS` that apply to the flow.

    Returns
    -------
    Report
        Its `notes` report a stationary initial state, for which the checks are weak, and a state in doubles that
        satisfies a condition of the closed form only up to rounding: exact checks then fail by a similar amount. They
        state what a check in `checks` needs that the flow does not declare.

    Raises
    ------
    ValueError
        If `dps` is too small or too large, the name of a check is unknown, or `z0` is not a state of the flow.
    TypeError
        If a method of the flow fails or returns a value of the wrong form; the message names the method.
    NotImplementedError
        If the flow does not implement loss, descent, velocity or solution.
    NotExact
        If the closed form does not hold for this initial state.

    Examples
    --------
    >>> import linsolve as ls
    >>> flow = ls.BalancedMode(s=2.0, tau=0.7)
    >>> ls.verify(flow, 0.01).ok
    True
    """
    if isinstance(flow, Law):
        if z0 is not None or checks is not None:
            raise ValueError(f"verify: z0, checks must not be given for {type(flow).__name__} (a law); leave them out")
        return Report(type(flow).__name__, tuple(Check(*row) for row in check_law(flow)))
    if not isinstance(dps, int | np.integer) or dps < 15:
        raise ValueError(f"verify: dps = {dps!r} must be an integer of at least 15 (decimal digits); say 50")
    if dps > MOST_DIGITS:
        raise ValueError(f"verify: dps = {dps} must be at most {MOST_DIGITS} (decimal digits); say 50")
    try:
        names = list(CHECKS) if checks is None else [checks] if isinstance(checks, str) else list(checks)
    except TypeError:
        rule = "must be names of statements (to check); leave it out for all"
        raise TypeError(f"verify: checks = {shown(checks)} {rule}") from None
    if not names:
        raise ValueError("verify: checks = [] must name at least one (statements to check); leave it out for all")
    for name in names:
        choice("verify", "check", name, CHECKS)
    if z0 is None and isinstance(flow, Flow):
        made = f"{type(flow).__name__}.State({', '.join(flow.axes)})"
        raise ValueError(f"verify: z0 = None must be a state (start of the network; only a law has none); pass {made}")
    case = prepare(flow, z0, int(dps))
    found = [(name, _checked(case, name)) for name in names]
    rows = tuple(Check(name, *row) for name, row in found if row is not None)
    return Report(type(flow).__name__, rows, _notes(case) + _skipped(case, [] if checks is None else found))


def _checked(case: Case, name: str) -> Any:
    try:
        return CHECKS[name](case)
    except (NotExact, Warning):
        raise
    except Exception as error:
        refuse_unportable(error, case)
        raise


def _skipped(case: Case, found: list[tuple[str, Any]]) -> tuple[str, ...]:
    """Return what each check without a result needs."""
    who = type(case.flow).__name__
    return tuple(f"{name}: not checked; {who} needs {NEEDED[name]}" for name, row in found if row is None)


def _notes(case: Case) -> tuple[str, ...]:
    notes = (
        []
        if case.moving
        else ["start: stationary, so that the flow stays there; also check it from a start that moves"]
    )
    for name, distance in case.exact.conditions(case.xp, case.start).items():
        size = float(np.max(arithmetic.to_numpy(distance)))
        if size > case.tolerance:
            notes.append(
                f"start: {name} = {size:.1e}, {size * 2**52:.2g} times 2^-52 (relative): this start obeys the "
                f"condition as far as doubles go, not to {case.tolerance:.0e}, and exact checks may fail by as much; "
                f"build it in linsolve.arithmetic.{case.xp} to see the formula alone"
            )
    return tuple(notes)
