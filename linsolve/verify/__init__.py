"""The proof: each statement of a flow checked from the one before it, to fifty digits and by simulation."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from linsolve.flow import Flow
from linsolve.inputs import unknown_name
from linsolve.law import Law
from linsolve.verify.case import prepare
from linsolve.verify.checks import CHECKS
from linsolve.verify.laws import check_law

__all__ = ["CHECKS", "Check", "Report", "verify"]


@dataclasses.dataclass(frozen=True)
class Check:
    """One statement, checked.

    Parameters
    ----------
    name : str
        Which statement.
    value, tolerance : float
        What was measured, and the largest value that passes.
    detail : str
        What the value means.
    """

    name: str
    value: float
    tolerance: float
    detail: str

    @property
    def ok(self) -> bool:
        """Whether the check passed; nan does not."""
        return bool(self.value <= self.tolerance)


@dataclasses.dataclass(frozen=True)
class Report:
    """The checks of one flow from one start; iterate over it, ask `ok`, or print it as a table."""

    flow: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(check.ok for check in self.checks)

    @property
    def failed(self) -> list[str]:
        """Names of the checks that did not pass."""
        return [check.name for check in self.checks if not check.ok]

    def __iter__(self) -> Iterator[Check]:
        return iter(self.checks)

    def __str__(self) -> str:
        lines = [f"{self.flow}: {'proved' if self.ok else 'NOT PROVED: ' + ', '.join(self.failed)}"]
        for check in self.checks:
            mark = "ok  " if check.ok else "FAIL"
            lines.append(f"  {mark} {check.name:<14} {check.value:8.1e} <= {check.tolerance:7.0e}  {check.detail}")
        return "\n".join(lines)

    def to_json(self) -> str:
        """Return the report as JSON."""
        import json

        rows = [dataclasses.asdict(check) | {"ok": check.ok} for check in self.checks]
        return json.dumps({"flow": self.flow, "ok": self.ok, "checks": rows})


def verify(flow: Flow | Law, z0: Any = None, dps: int = 50, *, checks: Iterable[str] | None = None) -> Report:
    """Prove a flow's statements from one start, or measure the order or the z-scores of a law.

    The loss is the anchor that a reader checks by eye: the velocity is proved from the loss, the closed form from the
    velocity, and all else (invariants, limits, inverse times, observables) from the closed form. Times come from the
    flow's own clock, ``|z0| / |velocity(z0)|``, because once converged every formula with the right limit looks right.

    Parameters
    ----------
    flow : Flow or Law
        What to prove; parameters should be generic (equal learning rates hide mistakes).
    z0 : State
        Start; not for a law.
    dps : int
        Decimal digits of the high-precision checks (they compute with twice as many); at least 15.
    checks : iterable of str, optional
        Names of the checks to run; by default all of `CHECKS` that apply to the flow.

    Returns
    -------
    Report

    Raises
    ------
    ValueError
        If `dps` is too small, a check's name is unknown, or the start is not a state of the flow.

    Examples
    --------
    >>> import linsolve as ls
    >>> flow = ls.BalancedMode(s=2.0, tau=0.7)
    >>> ls.verify(flow, 0.01).ok
    True
    """
    if isinstance(flow, Law):
        return Report(type(flow).__name__, tuple(Check(*row) for row in check_law(flow)))
    if not isinstance(dps, int) or dps < 15:
        raise ValueError(f"verify: dps = {dps!r} must be an integer of at least 15 (decimal digits); say 50")
    names = list(CHECKS) if checks is None else list(checks)
    for name in names:
        if name not in CHECKS:
            raise ValueError(unknown_name("verify", "check", name, CHECKS))
    case = prepare(flow, z0, dps)
    found = [(name, CHECKS[name](case)) for name in names]
    return Report(type(flow).__name__, tuple(Check(name, *row) for name, row in found if row is not None))
