"""Programs without the choices that an ensemble does not have, bit by bit the same."""

from __future__ import annotations

import math
import threading
from functools import lru_cache
from typing import Any

from linsolve.engines.grid import Grid
from linsolve.engines.interval import Range, Truth
from linsolve.engines.ranges import range_of, ranges, rounded
from linsolve.engines.signs import negated, turned
from linsolve.engines.trace import BOOLEAN, Program, Step

__all__ = ["BELOW_ZERO", "MODERATE", "facts", "folded", "without"]

ENOUGH, SHARE = 2**13, 8  # outputs, and for each step, from which looking at the inputs is worth it
ENOUGH_TO_COMPILE = 2**16  # outputs, from which one more machine code is worth it
EXACT = 2**20  # outputs, from which looking is worth it though no inputs with the same ends were seen before
VARIANTS = 8  # of one program, each of which is planned and compiled for itself
BELOW_ZERO, MODERATE = "below 0", "moderate"  # of the arguments of exponentials
_NUMBER = "number"  # never nan
_LARGE = 700.0  # below which 2^k and e^x are normal numbers
_HALF_ULP = 2.0**-53

Fact = tuple[int, Any]
_variants: dict[Program, dict[frozenset[Fact], Program]] = {}
_choosing = threading.Lock()


def folded(program: Program, grid: Grid, signs: bool = True) -> Program:
    """Return a program of the same values, bit by bit, for all members and times of a grid.

    Conditions that hold everywhere, or nowhere, are no longer asked, and what they exclude is not computed. Of one
    program no more than `VARIANTS` are made; then the one that takes most for granted, of those that may be.

    Parameters
    ----------
    program : Program
    grid : Grid
    signs : bool
        Whether a sign costs something, and is moved to the members: not in machine code, of which there should be few.
    """
    size = grid.shape[0] * grid.shape[1] * grid.shape[2]
    if size < (ENOUGH if signs else ENOUGH_TO_COMPILE) or size < SHARE * len(program.steps):
        return program
    inputs = {name: range_of(grid.given[name]) for name in program.inputs}
    if size < EXACT:
        inputs = {name: rounded(r) for name, r in inputs.items()}
    found = facts(program, inputs, signs)
    with _choosing:
        made = _variants.setdefault(program, {})
        if found not in made and len(made) < VARIANTS:
            made[found] = without(program, found)
        if found in made:
            return made[found]
        most = max((known for known in made if known <= found), key=len, default=None)
        return program if most is None else made[most]


def facts(program: Program, inputs: dict[str, Range], signs: bool = True) -> frozenset[Fact]:
    """Return what holds of the steps of a program whatever the member and the time, as `without` can use it."""
    zeros = tuple(math.copysign(1, end) for r in inputs.values() for end in (r.low, r.high))
    return _facts(program, tuple(inputs.items()), zeros, signs)


@lru_cache(maxsize=128)
def _facts(
    program: Program, inputs: tuple[tuple[str, Range], ...], zeros: tuple[float, ...], signs: bool
) -> frozenset[Fact]:
    """Return the facts; to the cache 0 and -0 are equal, but for their signs."""
    found, used = ranges(program, dict(inputs)), program.used()
    moved = _signs(program) if signs else frozenset()
    return frozenset((k, fact) for k in used if (fact := _fact(program, k, found, moved)) is not None)


@lru_cache(maxsize=64)
def _signs(program: Program) -> frozenset[int]:
    """Return the steps that may become ``-y``, or the `y` of it, when choices are gone."""
    after, before = set[int](), set[int]()
    for k, step in enumerate(program.steps):
        if step.op == "neg" or (step.op == "where" and not after.isdisjoint(step.args[1:])):
            after.add(k)
    for k in range(len(program.steps) - 1, -1, -1):
        step = program.steps[k]
        if step.op == "neg" or (step.op in ("abs", "where") and k in before):
            before.update(step.args)
    return frozenset(after | before)


def _fact(program: Program, k: int, found: list[Any], signs: frozenset[int]) -> Any:
    """Return what is known of one step: its truth, or something about its argument."""
    step, may = program.steps[k], found[k]
    if isinstance(may, Truth) and step.op != "constant" and not (may.false and may.true):
        return may.true
    if step.op == "eq" and (y := _next_to_one(program, step)) is not None and found[y].low >= 0:
        return "small"
    if step.op in ("exp", "expm1"):
        a = found[step.args[0]]
        known = (MODERATE, a.low > -_LARGE and a.high < _LARGE), (BELOW_ZERO, a.signed)
        return None if a.nan else ", ".join(name for name, holds in known if holds) or None
    if step.op == "mul" and not may.nan and (k in signs or not signs.isdisjoint(step.args)):
        return _NUMBER
    if step.op == "abs" and not (a := found[step.args[0]]).nan:
        return "same" if a.unsigned else "negative" if a.signed else None
    return None


def _next_to_one(program: Program, step: Step) -> int | None:
    """Return `y` of a step ``1 + y == 1``."""
    for total, one in (step.args, step.args[::-1]):
        if _is(program, one, 1.0) and program.steps[total].op == "add":
            a, b = program.steps[total].args
            return b if _is(program, a, 1.0) else a if _is(program, b, 1.0) else None
    return None


def _is(program: Program, k: int, value: float) -> bool:
    step = program.steps[k]
    return step.op == "constant" and step.kind != BOOLEAN and step.data == value


def without(program: Program, known: frozenset[Fact]) -> Program:
    """Return the program that is left where these facts are known."""
    new, at, fact = Program(), dict[int, int](), dict(known)
    for k in program.used():
        step = program.steps[k]
        at[k] = _left(new, program, step, [at[a] for a in step.args], at, fact.get(k))
        if step.op == "input":
            new.inputs[step.data] = at[k]
    new.outputs = {name: at[k] for name, k in program.outputs.items()}
    return _needed(turned(new, {at[k] for k, one in known if one == _NUMBER}), program)


def _needed(new: Program, program: Program) -> Program:
    """Return the steps of a program that its outputs need, with the inputs in the order of another."""
    found, at = Program(), dict[int, int]()
    for k in new.used():
        step = new.steps[k]
        at[k] = found.add(step.op, tuple(at[a] for a in step.args), step.kind, step.data)
    found.inputs = {name: at[new.inputs[name]] for name in program.inputs if new.inputs.get(name) in at}
    found.outputs = {name: at[k] for name, k in new.outputs.items()}
    return found


def _left(new: Program, program: Program, step: Step, args: list[int], at: dict[int, int], fact: Any) -> int:
    """Return what is left of one step in the new program."""
    if isinstance(fact, bool):
        return new.add("constant", (), BOOLEAN, fact)
    if fact == "small":  # rounded to even, 1 + y is 1 up to half the distance to the next number
        y = at[_next_to_one(program, step)]  # type: ignore[index]
        return new.add("le", (y, new.add("constant", (), "real", _HALF_ULP)), BOOLEAN)
    if fact == "same":
        return args[0]
    if fact == "negative":
        return _simplified(new, step._replace(op="neg"), args)
    if step.op in ("exp", "expm1"):
        return new.add(step.op, tuple(args), step.kind, fact or step.data)
    return _simplified(new, step, args)


def _simplified(new: Program, step: Step, args: list[int]) -> int:
    """Return a step of the new program, or an earlier one that has its value bit by bit."""
    given = [new.steps[a] for a in args]
    if step.op == "where":
        if given[0].op == "constant":
            return args[1] if given[0].data else args[2]
        if args[1] == args[2]:
            return args[1]
    elif step.op in ("and", "or", "xor", "not") and any(g.op == "constant" for g in given):
        return _logic(new, step, args)
    elif step.op == "neg":
        return negated(new, args[0])
    elif step.op == "mul" and _is(new, args[0], 1.0):
        return args[1]
    elif step.op in ("mul", "div") and _is(new, args[1], 1.0):
        return args[0]
    return new.add(step.op, tuple(args), step.kind, step.data)


def _logic(new: Program, step: Step, args: list[int]) -> int:
    """Return a truth value of which a part is known."""
    values = [new.steps[a].data if new.steps[a].op == "constant" else None for a in args]
    if step.op == "not":
        return new.add("constant", (), BOOLEAN, not values[0])
    known, other = (values[0], args[1]) if values[0] is not None else (values[1], args[0])
    if step.op == "xor":
        return new.add("not", (other,), BOOLEAN) if known else other
    if known is (step.op == "or"):
        return new.add("constant", (), BOOLEAN, known)
    return other
