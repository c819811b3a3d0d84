"""Steps that depend on time only through a choice between two values of each member, computed once for both."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from linsolve.fused.grid import TIME, Grid
from linsolve.fused.trace import Program

__all__ = ["hoisted"]

_ENOUGH = 8  # times, from which computing both values of each member is worth it


class _Choice(NamedTuple):
    """A value that is `a` where `condition` holds and `b` elsewhere, not yet chosen."""

    condition: int
    a: int
    b: int


def hoisted(program: Program, grid: Grid) -> Program:
    """Return a program of the same values, bit by bit, in which ``f(where(c, a, b))`` is ``where(c, f(a), f(b))``.

    Only where `c` depends on time and `a` and `b` do not, so that both ``f`` are computed once for each member. What is
    not chosen may overflow.
    """
    if grid.shape[0] < _ENOUGH:
        return program
    return _hoisted(program, tuple(name for name in program.inputs if grid.axes(name) & TIME))


@lru_cache(maxsize=512)  # machine code is kept for what this returns
def _hoisted(program: Program, timed: tuple[str, ...]) -> Program:
    new, depends = Program(), program.depends(timed)
    found: dict[int, int | _Choice] = {}
    late: set[int] = set()

    def add(op: str, args: tuple[int, ...], like: int) -> int:
        step = program.steps[like]
        return new.add(op, args, step.kind, step.data if op == step.op else None)

    def made(k: int) -> int:
        value = found[k]
        if not isinstance(value, _Choice):
            return value
        chosen = add("where", tuple(value), k)
        late.add(chosen)
        return chosen

    for k in program.used():
        step = program.steps[k]
        if not depends[k]:
            found[k] = add(step.op, tuple(made(a) for a in step.args), k)
        elif step.op == "where" and depends[step.args[0]] and not isinstance(found[step.args[0]], _Choice):
            found[k] = _chosen(made(step.args[0]), found[step.args[1]], found[step.args[2]], late) or add(
                "where", tuple(made(a) for a in step.args), k
            )
        else:
            found[k] = _distributed(step, [found[a] for a in step.args], late, new) or add(
                step.op, tuple(made(a) for a in step.args), k
            )
        if depends[k] and isinstance(found[k], int):
            late.add(found[k])  # type: ignore[arg-type]
        if step.op == "input":
            new.inputs[step.data] = found[k]  # type: ignore[assignment]
    new.inputs = {name: new.inputs[name] for name in program.inputs if name in new.inputs}
    new.outputs = {name: made(k) for name, k in program.outputs.items()}
    return new


def _chosen(condition: int, a: int | _Choice, b: int | _Choice, late: set[int]) -> _Choice | None:
    """Return the choice, if it is one between values of members."""
    if isinstance(a, _Choice) and a.condition == condition:
        a = a.a
    if isinstance(b, _Choice) and b.condition == condition:
        b = b.b
    if isinstance(a, _Choice) or isinstance(b, _Choice) or a in late or b in late:
        return None
    return _Choice(condition, a, b)


def _distributed(step: tuple, args: list[int | _Choice], late: set[int], new: Program) -> _Choice | None:
    """Return a step as a choice between two, if its arguments depend on time through one choice only."""
    conditions = {a.condition for a in args if isinstance(a, _Choice)}
    if len(conditions) != 1 or any(not isinstance(a, _Choice) and a in late for a in args):
        return None
    op, _, kind, data = step
    sides = (
        new.add(op, tuple((a.a, a.b)[side] if isinstance(a, _Choice) else a for a in args), kind, data)
        for side in (0, 1)
    )
    return _Choice(conditions.pop(), *sides)
