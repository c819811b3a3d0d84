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
from linsolve.engines.program import BOOLEAN, Program

__all__ = ["uniform_conditions"]

_PIECE = 2**14  # members that are evaluated at once
_LONG = 24  # largest number of steps of a condition
_SHARE = 16  # least work of the program, in units of that of the conditions
_CHEAP = {"input", "constant", "where", "neg", "abs", "sign", "add", "sub", "mul", "div", "minimum", "maximum", "lt",
          "le", "gt", "ge", "eq", "ne", "and", "or", "not", "isinf"}  # fmt: skip


class _Tests(NamedTuple):
    """Conditions and, in order, the steps that they need."""

    conditions: list[int]
    steps: list[int]


def uniform_conditions(program: Program, grid: Grid) -> frozenset[tuple[int, bool]]:
    """Return the cheap conditions on members that hold for all of them, or for none, each with its truth value.

    Parameters
    ----------
    program : Program
    grid : Grid
    """
    plan = plan_of(program, grid)
    tests = _tests(program, plan.inputs)
    if not tests.conditions or _SHARE * len(tests.steps) > len(plan.member) + grid.shape[0] * len(plan.full):
        return frozenset()
    found: dict[int, bool] = {}
    for tile in tiles((1, *grid.shape[1:]), _PIECE):
        given = {name: tile.of(v) if v.ndim else v for name, v in grid.given.items()}
        values = _evaluated(program, tests.steps, given)
        truths = {k: np.count_nonzero(values[k]) / values[k].size for k in found or tests.conditions}
        found = {k: bool(share) for k, share in truths.items() if share in (0, 1) and found.get(k, share) == share}
        if not found:
            break
    return frozenset(found.items())


def _evaluated(program: Program, steps: list[int], given: dict[str, Any]) -> dict[int, Any]:
    values: dict[int, Any] = {}
    with np.errstate(all="ignore"):
        for k in steps:
            step = program.steps[k]
            values[k] = by_numpy(step, [values[a] for a in step.args], given)
    return values


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
    return _Tests(chosen, sorted(steps))
