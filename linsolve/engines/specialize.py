"""Partial evaluation of a program for an ensemble: unused branches are removed, with bitwise identical results.

Interval arithmetic gives the value ranges of all steps from the ranges of the inputs. Conditions that hold for all
members, or for none, become constants; those that ranges leave open are evaluated where this is cheap (`uniform`). See
``benchmarks/RESULTS.md``: W4 (3.3 times faster in blocks), W3, and a few percent of W1.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from linsolve.engines.interval import OF, UNKNOWN, Range, Truth, hull, largest, least, square, unknown
from linsolve.engines.plan import Grid
from linsolve.engines.program import BOOLEAN, Program, Step
from linsolve.engines.uniform import uniform_conditions
from linsolve.numerics.threads import forkable_lock

__all__ = [
    "BELOW_ZERO", "MODERATE", "ORDERED", "Ranges", "facts", "range_of", "ranges", "rounded", "specialized", "variant",
    "without",
]  # fmt: skip

ENOUGH, SHARE = 2**13, 8  # least number of outputs, and of outputs per step, for which the input ranges are computed
ENOUGH_TO_COMPILE = 2**16  # least number of outputs for which another compilation pays
EXACT = 2**20  # least number of outputs for which ranges are computed even if such inputs did not occur before
VARIANTS = 8  # largest number of variants of a program, each planned and compiled separately
BELOW_ZERO, MODERATE = "below 0", "moderate"  # facts about arguments of exponentials
ORDERED = "ordered"  # fact about arguments of a minimum or maximum: never nan
_LARGE = 700.0  # bound below which 2^k and e^x are normal numbers
_HALF_ULP = 2.0**-53
_INFINITY, _TINY = math.inf, 5e-324
_MOST = sys.float_info.max
_PIECE = 2**15  # numbers per piece, read twice while in the cache

Fact = tuple[int, Any]
Ranges = Mapping[str, Range]


class Argument(NamedTuple):
    """Fact about a minimum or maximum: it always equals the argument `which`."""

    which: int


_variants: dict[Program, dict[frozenset[Fact], Program]] = {}
_choosing = forkable_lock()


def specialized(program: Program, grid: Grid, compiled: bool = False, inputs: Ranges | None = None) -> Program:
    """Return a program with bitwise identical values for all members and times of a grid.

    Parameters
    ----------
    program : Program
    grid : Grid
    compiled : bool
        Whether each variant is compiled, which pays only for larger grids.
    inputs : mapping of str to Range, optional
        Ranges of the inputs, if known.
    """
    size = grid.shape[0] * grid.shape[1] * grid.shape[2]
    if size < (ENOUGH_TO_COMPILE if compiled else ENOUGH) or size < SHARE * len(program.steps):
        return program
    inputs = {name: inputs[name] if inputs else range_of(grid.given[name]) for name in program.inputs}
    if size < EXACT:
        inputs = {name: rounded(r) for name, r in inputs.items()}
    program = variant(program, inputs)
    if compiled and size < EXACT:
        return program
    return _among_variants(program, uniform_conditions(program, grid))


def variant(program: Program, inputs: Ranges) -> Program:
    """Return a program with bitwise identical values for all inputs in the given ranges.

    At most `VARIANTS` are created per program; afterwards the most specialized valid variant is used.
    """
    return _among_variants(program, facts(program, inputs))


def _among_variants(program: Program, found: frozenset[Fact]) -> Program:
    """Return the program simplified by known facts, or by some of them."""
    with _choosing:
        made = _variants.setdefault(program, {})
        if found not in made and len(made) < VARIANTS:
            made[found] = without(program, found)
        if found in made:
            return made[found]
        most = max((known for known in made if known <= found), key=len, default=None)
        return program if most is None else made[most]


def facts(program: Program, inputs: Ranges) -> frozenset[Fact]:
    """Return the known facts about the steps of a program for all members and times, for `without`."""
    zeros = tuple(math.copysign(1, end) for r in inputs.values() for end in (r.low, r.high))
    return _facts(program, tuple(inputs.items()), zeros)


@lru_cache(maxsize=128)
def _facts(program: Program, inputs: tuple[tuple[str, Range], ...], zeros: tuple[float, ...]) -> frozenset[Fact]:
    """Return the facts; the signs of zeros are part of the key, as 0 and -0 are equal."""
    found = ranges(program, dict(inputs))
    return frozenset((k, fact) for k in program.used() if (fact := _fact(program, k, found)) is not None)


def _fact(program: Program, k: int, found: list[Any]) -> Any:
    """Return a known fact about one step: its truth value, or a property of its argument."""
    step, may = program.steps[k], found[k]
    if isinstance(may, Truth) and step.op != "constant" and not (may.false and may.true):
        return may.true
    if step.op == "eq" and (y := _next_to_one(program, step)) is not None and found[y].low >= 0:
        return "small"
    if step.op in ("exp", "expm1"):
        a = found[step.args[0]]
        known = (MODERATE, a.low > -_LARGE and a.high < _LARGE), (BELOW_ZERO, a.signed)
        return None if a.nan else ", ".join(name for name, holds in known if holds) or None
    if step.op == "abs" and not (a := found[step.args[0]]).nan:
        return "same" if a.unsigned else "negative" if a.signed else None
    if step.op in ("minimum", "maximum"):
        return _order(step.op, *(found[a] for a in step.args))
    return None


def _order(op: str, a: Range, b: Range) -> Any:
    """Return the argument that a minimum or maximum always equals, `ORDERED` if unknown, None if one may be nan."""
    if a.nan or b.nan:
        return None
    for which, (low, high) in enumerate(((a, b), (b, a))):
        # a tie of zeros of different signs may give either
        if low.high < high.low or (low.high == high.low and (low.high != 0 or (low.unsigned and high.unsigned))):
            return Argument(which if op == "minimum" else 1 - which)
    return ORDERED


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
    """Return the program simplified by known facts."""
    new, at, fact = Program(), dict[int, int](), dict(known)
    for k in program.used():
        step = program.steps[k]
        at[k] = _left(new, program, step, [at[a] for a in step.args], at, fact.get(k))
        if step.op == "input":
            new.inputs[step.data] = at[k]
    new.outputs = {name: at[k] for name, k in program.outputs.items()}
    return _needed(new, program)


def _needed(new: Program, program: Program) -> Program:
    """Return the steps required by the outputs of a program, with inputs in the order of `program`."""
    found, at = Program(), dict[int, int]()
    for k in new.used():
        step = new.steps[k]
        at[k] = found.add(step.op, tuple(at[a] for a in step.args), step.kind, step.data)
    found.inputs = {name: at[new.inputs[name]] for name in program.inputs if new.inputs.get(name) in at}
    found.outputs = {name: at[k] for name, k in new.outputs.items()}
    return found


def _left(new: Program, program: Program, step: Step, args: list[int], at: dict[int, int], fact: Any) -> int:
    """Return the step of the new program with the value of a step."""
    if isinstance(fact, bool):
        return new.add("constant", (), BOOLEAN, fact)
    if fact == "small":  # rounding to even, 1 + y == 1 up to half the distance to the next number
        y = at[_next_to_one(program, step)]  # type: ignore[index]
        return new.add("le", (y, new.add("constant", (), "real", _HALF_ULP)), BOOLEAN)
    if isinstance(fact, Argument):
        return args[fact.which]
    if fact == "same":
        return args[0]
    if fact == "negative":
        return _simplified(new, step._replace(op="neg"), args)
    if step.op in ("exp", "expm1", "minimum", "maximum"):
        return new.add(step.op, tuple(args), step.kind, fact or step.data)
    return _simplified(new, step, args)


def _simplified(new: Program, step: Step, args: list[int]) -> int:
    """Return a step of the new program, or an earlier step of bitwise equal value."""
    given = [new.steps[a] for a in args]
    if step.op == "where":
        if given[0].op == "constant":
            return args[1] if given[0].data else args[2]
        if args[1] == args[2]:
            return args[1]
    elif step.op in ("and", "or", "xor", "not") and any(g.op == "constant" for g in given):
        return _logic(new, step, args)
    elif step.op == "neg":
        if given[0].op == "neg":
            return given[0].args[0]
        if given[0].op == "constant":
            return new.add("constant", (), step.kind, -given[0].data)
    elif step.op == "mul" and _is(new, args[0], 1.0):
        return args[1]
    elif step.op in ("mul", "div") and _is(new, args[1], 1.0):
        return args[0]
    return new.add(step.op, tuple(args), step.kind, step.data)


def _logic(new: Program, step: Step, args: list[int]) -> int:
    """Return a logical operation simplified by a known operand."""
    values = [new.steps[a].data if new.steps[a].op == "constant" else None for a in args]
    if step.op == "not":
        return new.add("constant", (), BOOLEAN, not values[0])
    known, other = (values[0], args[1]) if values[0] is not None else (values[1], args[0])
    if step.op == "xor":
        return new.add("not", (other,), BOOLEAN) if known else other
    if known is (step.op == "or"):
        return new.add("constant", (), BOOLEAN, known)
    return other


# ranges


def range_of(values: Any) -> Range:
    """Return the range of an array of doubles, `UNKNOWN` if it has a nan."""
    flat = np.asarray(values, dtype=float).reshape(-1)
    if flat.size == 1:
        value = float(flat[0])
        return UNKNOWN if value != value else Range(value, value, False)
    if not flat.size:
        return UNKNOWN
    pieces = [flat[k : k + _PIECE] for k in range(0, flat.size, _PIECE)]
    ends = [(piece.min(), piece.max()) for piece in pieces]
    low, high = min(float(a) for a, _ in ends), max(float(b) for _, b in ends)
    if any(a != a for a, _ in ends):
        return UNKNOWN
    if low == 0 or high == 0:  # signs of the zeros
        zeros = [np.signbit(piece[piece == 0]) for piece in pieces]
        low = -0.0 if low == 0 and any(z.any() for z in zeros) else low + 0.0
        high = -0.0 if high == 0 and all(z.all() for z in zeros) else high + 0.0
    return Range(low, high, False)


def rounded(a: Range) -> Range:
    """Return a wider range with ends of few bits, so that similar ensembles share a program.

    A range of a single number is unchanged.
    """
    return a if a.low == a.high else Range(-_rounded_up(-a.low), _rounded_up(a.high), a.nan)


def _rounded_up(x: float) -> float:
    if x == 0 or math.isinf(x):
        return x
    mantissa, exponent = math.frexp(x)
    if (16 * mantissa).is_integer():
        return x
    return math.ldexp(-0.5, exponent) if x < 0 else math.ldexp(1.0, exponent) if exponent <= 1023 else _MOST


def ranges(program: Program, inputs: Ranges) -> list[Range | Truth]:
    """Return the value range of each step, given those of the inputs."""
    found: list[Any] = []
    for of, args in _recipe(program):
        if of is None:
            found.append(inputs.get(args, UNKNOWN))
        elif isinstance(of, tuple):
            found.append(of)
        elif of is _chosen:
            found.append(_chosen(program, args, found))
        elif len(args) == 2:
            found.append(of(found[args[0]], found[args[1]]))
        else:
            found.append(of(found[args[0]]))
    return found


@lru_cache(maxsize=64)
def _recipe(program: Program) -> list[tuple[Any, Any]]:
    """Return for each step its function of ranges and the arguments, or a fixed range."""
    found: list[tuple[Any, Any]] = []
    for step in program.steps:
        if step.op == "input":
            found.append((None, step.data))
        elif step.op == "constant":
            found.append((_constant(step.data), ()))
        elif step.op == "nodes":
            found.append((Range(min(step.data), max(step.data), False), ()))
        elif step.op == "where":
            found.append((_chosen, step.args))
        elif step.op == "mul" and step.args[0] == step.args[1]:
            found.append((square, step.args[:1]))
        else:
            found.append((OF.get(step.op, unknown), step.args))
    return found


def _constant(value: Any) -> Range | Truth:
    if isinstance(value, bool):
        return Truth(not value, value)
    return UNKNOWN if value != value else Range(value, value, False)


def _chosen(program: Program, args: tuple[int, ...], found: list[Any]) -> Any:
    condition, one, other = args
    truth = found[condition]
    if not truth.true or not truth.false:
        return found[one if truth.true else other]
    if program.steps[one].kind == "boolean":
        return Truth(found[one].false or found[other].false, found[one].true or found[other].true)
    a, b = _given(program, condition, True, one, found), _given(program, condition, False, other, found)
    return hull([a.low, a.high, b.low, b.high], a.nan or b.nan)


_TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def _given(program: Program, condition: int, holds: bool, k: int, found: list[Any]) -> Range:
    """Return the range of step `k` given that a condition holds, or does not hold."""
    op, args = program.steps[condition].op, program.steps[condition].args
    if op == "not":
        return _given(program, args[0], not holds, k, found)
    if (op == "and" and holds) or (op == "or" and not holds):
        return _common(*(_given(program, c, holds, k, found) for c in args), found[k])
    if op in _TURNED and k in args and args[0] != args[1]:
        if k == args[1]:
            op = _TURNED[op]
        return _common(_compared(op, holds, found[args[0] if k == args[1] else args[1]], found[k]), found[k])
    return found[k]


def _compared(op: str, holds: bool, other: Range, own: Range) -> Range:
    """Return the range of a number from its comparison with another."""
    if op in ("eq", "ne"):
        if (op == "eq") == holds:
            return own if other.zero else Range(other.low, other.high, False)
        if other.low == other.high == 0:  # nonzero
            low = _TINY if own.low == 0 else own.low
            return Range(low, -_TINY if own.high == 0 else own.high, own.nan)
        return own
    if not holds:  # the comparison is also false for nan
        if own.nan or other.nan:
            return own
        return _compared({"lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}[op], True, other, own)
    low, high = -_INFINITY, _INFINITY
    if op == "lt":
        high = math.nextafter(other.high, -_INFINITY) if other.high != 0 else -_TINY
    elif op == "le":
        high = other.high if other.high != 0 else 0.0
    elif op == "gt":
        low = math.nextafter(other.low, _INFINITY) if other.low != 0 else _TINY
    else:
        low = other.low if other.low != 0 else -0.0
    return Range(low, high, False)


def _common(*several: Range) -> Range:
    """Return the intersection of ranges, or the last range if it is empty."""
    low, high = largest(*(a.low for a in several)), least(*(a.high for a in several))
    if low > high or (low == high and math.copysign(1, low) > math.copysign(1, high)):
        return several[-1]
    return Range(low, high, all(a.nan for a in several))
