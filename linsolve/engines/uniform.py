"""Conditions on members that all of them satisfy, or none: found by evaluating the cheap ones before the program.

Ranges of inputs do not tell whether every start is below its target; comparing them costs a few operations per member.
See W4 in ``benchmarks/RESULTS.md``: the polynomials of starts beyond their targets are then not part of the program.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from linsolve.engines.constants import by_numpy
from linsolve.engines.plan import Grid, plan_for, plan_of, tiles
from linsolve.engines.program import BOOLEAN, Program, Step

__all__ = ["uniform_conditions"]

_PIECE = 2**16  # members that are evaluated at once
_LONG = 24  # largest number of steps of a condition
_SHARE = 16  # least work of the program, in units of that of the conditions
_CHEAP = {"input", "constant", "where", "neg", "abs", "sign", "add", "sub", "mul", "div", "minimum", "maximum", "lt",
          "le", "gt", "ge", "eq", "ne", "and", "or", "not", "isinf"}  # fmt: skip


class _Tests(NamedTuple):
    """Conditions, and the number of steps that they need."""

    conditions: list[int]
    steps: int


def uniform_conditions(program: Program, grid: Grid) -> frozenset[tuple[int, bool]]:
    """Return the cheap conditions on members that hold for all of them, or for none, each with its truth value.

    Parameters
    ----------
    program : Program
    grid : Grid
    """
    plan = plan_of(program, grid)
    tests = _tests(program, plan.inputs)
    if not tests.conditions or _SHARE * tests.steps > len(plan.member) + grid.shape[0] * len(plan.full):
        return frozenset()
    found, same = dict[int, bool](), dict[int, Any]()
    for tile in tiles((1, *grid.shape[1:]), _PIECE):
        piece = _Piece(program, {name: tile.of(v) if v.ndim else v for name, v in grid.given.items()}, same)
        with np.errstate(all="ignore"):
            truths = {k: _uniform(piece[k]) for k in found or tests.conditions}
        found = {k: truth for k, truth in truths.items() if truth is not None and found.get(k, truth) == truth}
        if not found:
            break
        same = {k: v for k, v in piece.known.items() if not plan.axes[k]}
    return frozenset(found.items())


def _uniform(condition: Any) -> bool | None:
    """Return the truth value of a condition if it is the same for all members, else None."""
    true = np.count_nonzero(condition)
    return bool(true) if true in (0, np.size(condition)) else None


class _Piece:
    """Values of steps for some members, evaluated when they are needed; of a uniform choice, one side is."""

    def __init__(self, program: Program, given: dict[str, Any], known: dict[int, Any]) -> None:
        self.program, self.given, self.known = program, given, dict(known)

    def __getitem__(self, k: int) -> Any:
        if k not in self.known:
            self.known[k] = self._evaluated(self.program.steps[k])
        return self.known[k]

    def _evaluated(self, step: Step) -> Any:
        if step.op == "where" and (taken := _uniform(self[step.args[0]])) is not None:
            return self[step.args[1 if taken else 2]]
        return by_numpy(step, [self[a] for a in step.args], self.given)


@lru_cache(maxsize=64)
def _tests(program: Program, inputs: tuple[tuple[str, int], ...]) -> _Tests:
    """Return the comparisons that depend on members only, through few and cheap steps."""
    member, needs = plan_for(program, inputs).member, dict[int, frozenset[int] | None]()
    for k in program.used():
        step = program.steps[k]
        of = [needs[a] for a in step.args]
        few = frozenset[int]({k}).union(*(n for n in of if n is not None))
        cheap = step.op in _CHEAP and None not in of and len(few) <= _LONG
        needs[k] = few if cheap else None
    chosen = [k for k in member if program.steps[k].kind == BOOLEAN and needs[k] is not None]
    steps = frozenset[int]().union(*(needs[k] or () for k in chosen))
    return _Tests(chosen, len(steps))
