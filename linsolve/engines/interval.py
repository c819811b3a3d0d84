"""Interval arithmetic on doubles for each operation of a program; used by `specialize`.

Doubles are ordered with -0 below +0, so that ``[+0, b]`` contains no number with the sign bit set. Sums, products,
quotients and roots are correctly rounded, hence monotone, and the operation itself gives the ends of the result. Other
functions are assumed to be monotone to within `_MARGIN`, many ulps, in every library, and to preserve signs and -0.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["OF", "UNKNOWN", "Range", "Truth", "hull", "largest", "least", "square", "unknown"]

_INFINITY, _MOST = math.inf, sys.float_info.max
_MARGIN, _LEAST = 2.0**-46, 2.0**-1070


class Range(NamedTuple):
    """All doubles from `low` to `high`, and nan if `nan` is True.

    Parameters
    ----------
    low, high : float
    nan : bool
    """

    low: float
    high: float
    nan: bool

    @property
    def unsigned(self) -> bool:
        """Whether no number has the sign bit set."""
        return self.low > 0 or (self.low == 0 and math.copysign(1, self.low) > 0)

    @property
    def signed(self) -> bool:
        """Whether every number has the sign bit set."""
        return self.high < 0 or (self.high == 0 and math.copysign(1, self.high) < 0)

    @property
    def zero(self) -> bool:
        """Whether a number may be 0."""
        return self.low <= 0 <= self.high

    @property
    def infinite(self) -> bool:
        """Whether a number may be infinite."""
        return self.low == -_INFINITY or self.high == _INFINITY


class Truth(NamedTuple):
    """Possible values of a condition.

    Parameters
    ----------
    false, true : bool
    """

    false: bool
    true: bool


UNKNOWN = Range(-_INFINITY, _INFINITY, True)


def unknown(*args: Any) -> Range:
    """Return all doubles."""
    return UNKNOWN


def least(*values: float) -> float:
    """Return the smallest number, -0 before +0."""
    low = min(values)
    return low if low else -0.0 if any(v == 0 and math.copysign(1, v) < 0 for v in values) else 0.0


def largest(*values: float) -> float:
    """Return the largest number, +0 before -0."""
    return -least(*(-v for v in values))


def hull(values: list[float], nan: bool) -> Range:
    """Return the smallest range of some numbers."""
    return Range(least(*values), largest(*values), nan)


# correctly rounded


def _neg(a: Range) -> Range:
    return Range(-a.high, -a.low, a.nan)


def _abs(a: Range) -> Range:
    if a.unsigned:
        return a
    return _neg(a) if a.signed else Range(0.0, max(-a.low, a.high), a.nan)


def _add(a: Range, b: Range) -> Range:
    if a is UNKNOWN or b is UNKNOWN:
        return UNKNOWN
    (a_low, a_high, a_nan), (b_low, b_high, b_nan) = a, b
    low, high = a_low + b_low, a_high + b_high
    if low != low or high != high:
        return UNKNOWN
    opposite = (a_low == -_INFINITY and b_high == _INFINITY) or (a_high == _INFINITY and b_low == -_INFINITY)
    return Range(low, high, a_nan or b_nan or opposite)


def _sub(a: Range, b: Range) -> Range:
    return _add(a, _neg(b))


def _corners(a: Range, b: Range, of: Callable[[float, float], float], nan: bool) -> Range:
    """Return the hull of a function monotone in each argument; at a corner without a value, of its limits."""
    values = []
    for x in (a.low, a.high):
        for y in (b.low, b.high):
            value = of(x, y)
            if value == value:
                values.append(value)
            else:
                sign = math.copysign(1, x) * math.copysign(1, y)
                values += [sign * 0.0, sign * _INFINITY]
    return hull(values, nan)


def _product(x: float, y: float) -> float:
    return x * y


def _mul(a: Range, b: Range) -> Range:
    if a is UNKNOWN or b is UNKNOWN:
        return UNKNOWN
    (a_low, a_high, a_nan), (b_low, b_high, b_nan) = a, b
    if a_low > 0 and b_low > 0:
        return Range(a_low * b_low, a_high * b_high, a_nan or b_nan)
    endless = (a.zero and b.infinite) or (b.zero and a.infinite)
    values = a_low * b_low, a_low * b_high, a_high * b_low, a_high * b_high
    if 0 in values or endless:  # signed zeros, and corners without a value
        return _corners(a, b, _product, a_nan or b_nan or endless)
    return Range(min(values), max(values), a_nan or b_nan)


def square(a: Range) -> Range:
    """Return the range of a number times itself."""
    a = _abs(a)
    return Range(a.low * a.low, a.high * a.high, a.nan)


def _quotient(x: float, y: float) -> float:
    if y == 0:
        return math.nan if x == 0 else math.copysign(1, x) * math.copysign(_INFINITY, y)
    return x / y


def _div(a: Range, b: Range) -> Range:
    nan = a.nan or b.nan or (a.zero and b.zero) or (a.infinite and b.infinite)
    if b.unsigned or b.signed:
        return _corners(a, b, _quotient, nan)
    return Range(-_INFINITY, _INFINITY, nan)


def _sqrt(a: Range) -> Range:
    if a.high < 0:
        return UNKNOWN
    low = math.sqrt(a.low) if a.low >= 0 else -0.0
    return Range(low, math.sqrt(a.high), a.nan or a.low < 0)


def _minimum(a: Range, b: Range) -> Range:
    high = min(a.high, b.high)
    return Range(least(a.low, b.low), high if high else 0.0, a.nan or b.nan)


def _maximum(a: Range, b: Range) -> Range:
    return _neg(_minimum(_neg(a), _neg(b)))


def _sign(a: Range) -> Range:
    low = -1.0 if a.low < 0 else -0.0 if a.low == 0 else 1.0
    return Range(low, 1.0 if a.high > 0 else 0.0 if a.high == 0 else -1.0, a.nan)


# functions whose rounding depends on the library


def _below(x: float) -> float:
    x = min(x, _MOST)
    return x - abs(x) * _MARGIN - _LEAST


def _above(x: float) -> float:
    return -_below(-x)


def _wide(low: float, high: float, nan: bool, unsigned: bool = False, signed: bool = False) -> Range:
    """Return a range with a margin on both sides, not extended across 0 if the sign is known."""
    low, high = _below(low), _above(high)
    return Range(largest(low, 0.0) if unsigned else low, least(high, -0.0) if signed else high, nan)


def _monotone(function: Callable[[float], float]) -> Callable[[Range], Range]:
    """Return the range of an increasing function with the sign of its argument."""

    def of(a: Range) -> Range:
        return _wide(_safe(function, a.low), _safe(function, a.high), a.nan, a.unsigned, a.signed)

    return of


def _safe(function: Callable[..., float], *args: float) -> float:
    try:
        return function(*args)
    except OverflowError:
        return math.copysign(_INFINITY, args[0]) if len(args) == 1 else _INFINITY


def _exp(a: Range) -> Range:
    return _wide(_safe(math.exp, a.low), _safe(math.exp, a.high), a.nan, unsigned=True)


def _logarithm(function: Callable[[float], float], end: float) -> Callable[[Range], Range]:
    """Return the range of a logarithm with the domain from `end`."""

    def of(a: Range) -> Range:
        if a.high <= end:
            return UNKNOWN
        low = function(a.low) if a.low > end else -_INFINITY
        return _wide(low, function(a.high), a.nan or a.low < end, low > 0 or (low == 0 and a.unsigned))

    return of


def _bounded(size: float) -> Callable[..., Range]:
    return lambda *args: Range(-_above(size), _above(size), any(a.nan or a.infinite for a in args))


def _atan2(a: Range, b: Range) -> Range:
    return Range(-_above(math.pi), _above(math.pi), a.nan or b.nan)


def _cosh(a: Range) -> Range:
    a = _abs(a)
    return _wide(_safe(math.cosh, a.low), _safe(math.cosh, a.high), a.nan, unsigned=True)


def _hypot(a: Range, b: Range) -> Range:
    a, b = _abs(a), _abs(b)
    high = _INFINITY if a.nan or b.nan else _safe(math.hypot, a.high, b.high)  # hypot(inf, nan) = inf
    return _wide(_safe(math.hypot, a.low, b.low), high, a.nan or b.nan, unsigned=True)


def _power(x: float, y: float) -> float:
    if x == 0 and y < 0:
        return _INFINITY
    return _safe(math.pow, x, y)


def _pow(a: Range, b: Range) -> Range:
    if not a.unsigned:
        return UNKNOWN
    found = _corners(a, b, _power, a.nan or b.nan)
    if found.nan:  # nan^0 = 1^nan = 1
        found = hull([found.low, found.high, 1.0], True)
    return _wide(*found, unsigned=True)


# truth values


def _lt(a: Range, b: Range) -> Truth:
    nan = a.nan or b.nan
    return Truth(nan or a.high >= b.low, a.low < b.high)


def _le(a: Range, b: Range) -> Truth:
    nan = a.nan or b.nan
    return Truth(nan or a.high > b.low, a.low <= b.high)


def _eq(a: Range, b: Range) -> Truth:
    same = a.low == a.high == b.low == b.high
    return Truth(a.nan or b.nan or not same, a.low <= b.high and b.low <= a.high)


def _not(a: Truth) -> Truth:
    return Truth(a.true, a.false)


def _and(a: Truth, b: Truth) -> Truth:
    return Truth(a.false or b.false, a.true and b.true)


def _or(a: Truth, b: Truth) -> Truth:
    return _not(_and(_not(a), _not(b)))


def _xor(a: Truth, b: Truth) -> Truth:
    return Truth((a.false and b.false) or (a.true and b.true), (a.true and b.false) or (a.false and b.true))


def _isfinite(a: Range) -> Truth:
    some = a.low < _INFINITY and a.high > -_INFINITY
    return Truth(a.nan or a.infinite, some)


def _isinf(a: Range) -> Truth:
    return Truth(a.nan or not (a.low == a.high and a.infinite), a.infinite)


def _isnan(a: Range) -> Truth:
    return Truth(True, a.nan)


OF: dict[str, Callable[..., Any]] = {
    "neg": _neg, "abs": _abs, "add": _add, "sub": _sub, "mul": _mul, "div": _div, "sqrt": _sqrt, "minimum": _minimum,
    "maximum": _maximum, "sign": _sign, "exp": _exp, "expm1": _monotone(math.expm1), "log": _logarithm(math.log, 0.0),
    "log1p": _logarithm(math.log1p, -1.0), "sin": _bounded(1.0), "cos": _bounded(1.0), "sinh": _monotone(math.sinh),
    "cosh": _cosh, "tanh": _monotone(math.tanh), "hypot": _hypot, "pow": _pow, "atan2": _atan2,
    "lt": _lt, "le": _le, "gt": lambda a, b: _lt(b, a), "ge": lambda a, b: _le(b, a), "eq": _eq,
    "ne": lambda a, b: _not(_eq(a, b)), "not": _not, "and": _and, "or": _or, "xor": _xor, "isfinite": _isfinite,
    "isinf": _isinf, "isnan": _isnan, "astype": lambda a: Range(float(not a.false), float(a.true), False),
}  # fmt: skip
