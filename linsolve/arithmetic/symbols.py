"""Arithmetic on SymPy expressions, for printing and for symbolic proofs of the implemented formulas."""

from __future__ import annotations

import fractions
import math
import operator
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import sympy

from linsolve.arithmetic.identities import prove_zero
from linsolve.arithmetic.objects import ObjectNamespace

__all__ = ["Symbolic", "prove_zero"]

_RELATIONS: dict[Any, Any] = {
    operator.lt: sympy.Lt,
    operator.le: sympy.Le,
    operator.gt: sympy.Gt,
    operator.ge: sympy.Ge,
    operator.eq: sympy.Eq,
    operator.ne: sympy.Ne,
}
_DIGITS = 50
_FUNCTIONS = frozenset(
    (
        "exp",
        "log",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "tanh",
        "asin",
        "acos",
        "atan",
        "asinh",
        "acosh",
        "atanh",
        "atan2",
    )
)
_LARGEST = 400  # largest number of operations of an expression for which SymPy's assumptions and factorization are used


class Symbolic(ObjectNamespace):
    """Exact symbolic expressions; comparisons that the assumptions do not decide are decided at a generic point.

    Parameters
    ----------
    at : dict of Symbol to number
        The generic point; may be empty if the assumptions decide all comparisons.

    Attributes
    ----------
    assumed : list of relationals
        Relations decided at the point, not by the assumptions; expressions hold where all these relations hold.
    """

    symbolic = True

    def __init__(self, at: dict[Any, Any]) -> None:
        self.pi, self.inf = sympy.pi, sympy.oo
        for symbol in at:
            if not isinstance(symbol, sympy.Symbol):
                raise TypeError(
                    f"symbolic: at = {symbol!r} must be a SymPy Symbol (the point's coordinates); pass symbols as keys"
                )
        self.at = {symbol: self.element(value) for symbol, value in at.items()}
        self.assumed: list[Any] = []
        self.context = mpmath.MPContext()
        self.context.dps = _DIGITS
        self.values: dict[Any, Any] = {}
        super().__init__()

    def __repr__(self) -> str:
        return f"symbolic({self.at})"

    def element(self, value: Any) -> Any:
        """Return one number or expression, exactly: a double is converted to a rational number."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, sympy.Expr):
            return sympy.Rational(value) if isinstance(value, sympy.Float) else value
        if isinstance(value, int):
            return sympy.Integer(value)
        if isinstance(value, fractions.Fraction) or (isinstance(value, float) and math.isfinite(value)):
            return sympy.Rational(*value.as_integer_ratio())
        if isinstance(value, float) and math.isinf(value):
            return sympy.oo if value > 0 else -sympy.oo
        raise TypeError(
            f"symbolic: value = {value!r} must be a SymPy expression or a number (text is never parsed); "
            "make symbols with sympy.symbols"
        )

    def operand(self, value: Any) -> Any:
        """Return the other operand of an array in ``+ - * / **``; floats become exact rational numbers."""
        if isinstance(value, float | np.generic) or (isinstance(value, np.ndarray) and value.dtype != object):
            return self.asarray(value).view(np.ndarray)[()]
        return value

    def to_float(self, value: Any) -> float:
        """Return the value at the generic point."""
        return float(self._at_point(value, f"float of {value}"))

    def scalar(self, name: str) -> Callable[..., Any]:
        """Return the SymPy function `name`, or an equivalent elementary expression."""
        own: dict[str, Callable[..., Any]] = {
            "abs": self._abs,
            "sign": self._sign,
            "sqrt": self._sqrt,
            "hypot": lambda a, b: self._sqrt(a**2 + b**2),
            "expm1": lambda x: sympy.exp(x) - 1,
            "log1p": lambda x: sympy.log(1 + x),
            "isnan": lambda x: x is sympy.nan,
            "isinf": lambda x: bool(x.is_infinite),
            "isfinite": lambda x: x is not sympy.nan and not x.is_infinite,
        }
        return own[name] if name in own else getattr(sympy, name)

    def _sqrt(self, x: Any) -> Any:
        if x.is_Pow and x.exp == 2 and x.base.is_extended_real is not False:
            return self._abs(x.base)  # SymPy would look for real and imaginary parts
        # factoring the argument reveals perfect squares, whose root is the base or minus the base
        if not x.has(sympy.oo) and sympy.count_ops(x) <= _LARGEST:
            x = sympy.factor(x)
        return sympy.sqrt(x).replace(sympy.Abs, self._abs)

    def _abs(self, x: Any) -> Any:
        if self._undecidable(x):
            return sympy.Abs(x)
        return x if self.holds(operator.ge, x, sympy.Integer(0)) else -x

    def _sign(self, x: Any) -> Any:
        if self._undecidable(x):
            return sympy.sign(x)
        if self.holds(operator.eq, x, sympy.Integer(0)):
            return sympy.Integer(0)
        return sympy.Integer(1 if self.holds(operator.gt, x, sympy.Integer(0)) else -1)

    def _undecidable(self, x: Any) -> bool:
        known = x.is_extended_nonnegative or x.is_extended_nonpositive
        return not known and not x.free_symbols <= self.at.keys()

    # comparisons

    def holds(self, relation: Callable[[Any, Any], Any], a: Any, b: Any) -> bool:
        """Decide a relation by the assumptions on the symbols, else at the generic point, and record it."""
        small = sympy.count_ops(a) + sympy.count_ops(b) <= _LARGEST
        claim = _RELATIONS[relation](a, b, evaluate=small)
        if claim in (sympy.true, sympy.false):
            return bool(claim)
        difference = self._at_point(a - b, claim)
        size = abs(self._at_point(a, claim)) + abs(self._at_point(b, claim))
        if abs(difference) <= size * self.context.mpf(10) ** (-self.context.dps // 2):
            if prove_zero(a - b):
                return bool(relation(0, 0))
            difference = 0
        verdict = bool(relation(difference, 0))
        held = claim if verdict else sympy.Not(claim)
        if held not in self.assumed:
            self.assumed.append(held)
        return verdict

    def _at_point(self, x: Any, what: Any) -> Any:
        # `what` is printed in an error only: printing a long claim takes longer than its decision
        missing = sorted(x.free_symbols - self.at.keys(), key=str)
        if missing:
            names = ", ".join(map(str, missing))
            raise ValueError(
                f"symbolic: {what} is left open by the assumptions on {names} (a comparison picks a branch); "
                f"give a generic point, symbolic({{{names}: ...}}), or symbols with more assumptions"
            )
        value = self._value(x)
        if not isinstance(value, self.context.mpf) or self.context.isnan(value):
            raise ValueError(f"symbolic: {what} = {value} is not real at the generic point {self.at}; choose another")
        return value

    def _value(self, x: Any) -> Any:
        """Return `x` at the point; common subexpressions are evaluated once."""
        if x not in self.values:
            self.values[x] = self._evaluate(x)
        return self.values[x]

    def _evaluate(self, x: Any) -> Any:
        context = self.context
        if x.is_Symbol:
            x = self.at[x]
        if x.is_Rational:
            return context.mpf(x.p) / x.q
        if x.is_Add:
            return context.fsum(self._value(a) for a in x.args)
        if x.is_Mul:
            return context.fprod(self._value(a) for a in x.args)
        if x.is_Pow:
            return self._value(x.base) ** self._value(x.exp)
        name = type(x).__name__
        if name in _FUNCTIONS:
            return getattr(context, name)(*(self._value(a) for a in x.args))
        return context.convert(x.evalf(context.dps, subs=self.at))
