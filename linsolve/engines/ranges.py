"""Between which doubles the steps of a program lie, given the ends of its inputs."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from linsolve.engines.interval import OF, UNKNOWN, Range, Truth, hull, largest, least, square, unknown
from linsolve.engines.trace import Program

__all__ = ["range_of", "ranges", "rounded"]

_INFINITY, _TINY = math.inf, 5e-324
_MOST = sys.float_info.max
_PIECE = 2**15  # numbers read twice while they are in the cache


def range_of(values: Any) -> Range:
    """Return the range of an array of doubles; one with a nan is not looked at further."""
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
    if low == 0 or high == 0:  # which zeros there are
        zeros = [np.signbit(piece[piece == 0]) for piece in pieces]
        low = -0.0 if low == 0 and any(z.any() for z in zeros) else low + 0.0
        high = -0.0 if high == 0 and all(z.all() for z in zeros) else high + 0.0
    return Range(low, high, False)


def rounded(a: Range) -> Range:
    """Return a wider range that ensembles of the same kind share: no end has digits, unless it is 0 or infinite.

    An end of few bits, likely chosen and the same another time, stays as it is; others move on to a power of two. A
    single number stays too.
    """
    return a if a.low == a.high else Range(-_rounded_up(-a.low), _rounded_up(a.high), a.nan)


def _rounded_up(x: float) -> float:
    if x == 0 or math.isinf(x):
        return x
    mantissa, exponent = math.frexp(x)
    if (16 * mantissa).is_integer():
        return x
    return math.ldexp(-0.5, exponent) if x < 0 else math.ldexp(1.0, exponent) if exponent <= 1023 else _MOST


def ranges(program: Program, inputs: Mapping[str, Range]) -> list[Range | Truth]:
    """Return what each step may be, given what the inputs may be."""
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
    """Return how the range of each step is found, or what it is, and from which."""
    found: list[tuple[Any, Any]] = []
    for step in program.steps:
        if step.op == "input":
            found.append((None, step.data))
        elif step.op == "constant":
            found.append((_constant(step.data), ()))
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
    """Return what step `k` may be where a condition holds, or does not."""
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
    """Return what a number may be that compares so with another."""
    if op in ("eq", "ne"):
        if (op == "eq") == holds:
            return own if other.zero else Range(other.low, other.high, False)
        if other.low == other.high == 0:  # not 0
            low = _TINY if own.low == 0 else own.low
            return Range(low, -_TINY if own.high == 0 else own.high, own.nan)
        return own
    if not holds:  # or one is nan
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
    """Return what is in all ranges; of none in common, the last."""
    low, high = largest(*(a.low for a in several)), least(*(a.high for a in several))
    if low > high or (low == high and math.copysign(1, low) > math.copysign(1, high)):
        return several[-1]
    return Range(low, high, all(a.nan for a in several))
