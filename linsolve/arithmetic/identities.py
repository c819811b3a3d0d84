"""Proof that an expression is identically zero, by exact polynomial arithmetic of bounded size.

Exponentials, roots, logarithms and other functions are replaced by independent generators. The numerator of the
resulting rational function is computed as a sparse polynomial with rational coefficients and reduced by the relations
``R^q = base`` of the roots. If it is the zero polynomial, the identity holds. There is no search, and the number of
terms of a product is bounded, so that the procedure always terminates; the result may be "not proved".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sympy
from sympy.polys.rings import PolyElement, PolyRing

__all__ = ["prove_zero"]

LARGEST_PRODUCT = 2_000_000


class _TooLargeError(Exception):
    """Raised when a polynomial has more terms than the budget."""


def prove_zero(expression: Any) -> bool:
    """Return whether `expression` is proved to be identically zero.

    Parameters
    ----------
    expression : sympy.Expr
        Rational in symbols, exponentials (including hyperbolic and trigonometric ones), roots and opaque functions.

    Returns
    -------
    bool
        True is a proof; False means that the expression is not zero or that the budget did not suffice for a proof.

    Examples
    --------
    >>> import sympy
    >>> x, t = sympy.symbols("x t", positive=True)
    >>> prove_zero(sympy.tanh(x * t).diff(t) - x * (1 - sympy.tanh(x * t) ** 2))
    True
    >>> prove_zero(sympy.tanh(x * t) - x * t)
    False
    """
    expression = _in_exponentials(sympy.sympify(expression, strict=True))
    if expression.is_zero:
        return True
    if expression.has(sympy.nan, sympy.zoo, sympy.oo):
        return False
    names = _Generators(expression)
    rational = names.replace(expression)
    roots = names.roots()
    symbols = rational.free_symbols.union(*(base.free_symbols for _, _, base in roots), {r for r, _, _ in roots})
    if not symbols:
        return bool(rational == 0)
    try:
        field = _Fractions(sorted(symbols, key=str))
        numerator = field.of(rational)[0]
        for root, degree, base in reversed(roots):  # a root may occur inside a later root only
            numerator = field.eliminate(numerator, root, degree, base)
    except (_TooLargeError, ZeroDivisionError):
        return False
    return not numerator


def _in_exponentials(expression: sympy.Expr) -> sympy.Expr:
    hyperbolic = (sympy.tanh, sympy.coth, sympy.sinh, sympy.cosh, sympy.sech, sympy.csch)
    if expression.has(*hyperbolic):
        expression = expression.rewrite(list(hyperbolic), sympy.exp)
    circular = (sympy.tan, sympy.cot, sympy.sin, sympy.cos, sympy.sec, sympy.csc)
    if expression.has(*circular):
        expression = expression.rewrite(list(circular), sympy.exp)
    return sympy.expand_log(expression) if expression.has(sympy.log) else expression


class _Generators:
    """Replacement of exponentials, roots and opaque functions by symbols, one for each independent function."""

    def __init__(self, expression: sympy.Expr) -> None:
        self.symbols: dict[Any, sympy.Symbol] = {}
        self.bases: list[tuple[sympy.Symbol, int, sympy.Expr]] = []
        self.known: dict[sympy.Expr, sympy.Expr] = {}
        self.units = self._units(expression)

    def roots(self) -> list[tuple[sympy.Symbol, int, sympy.Expr]]:
        """Return ``(symbol, q, base)`` for each root ``symbol^q = base``, inner ones first."""
        return self.bases

    def _units(self, expression: sympy.Expr) -> dict[sympy.Expr, sympy.Rational]:
        """Return, for each product in an exponent, the greatest common divisor of its rational coefficients."""
        units: dict[sympy.Expr, sympy.Rational] = {}
        for node in expression.atoms(sympy.exp, sympy.Pow):
            for coefficient, term in self._exponent(node):
                units[term] = sympy.gcd(units.get(term, 0), coefficient)
        return units

    @staticmethod
    def _exponent(node: sympy.Expr) -> list[tuple[sympy.Rational, sympy.Expr]]:
        if isinstance(node, sympy.exp):
            exponent = node.args[0]
        elif node.is_Pow and not node.exp.is_Rational:
            exponent = node.exp * sympy.log(node.base)
        else:
            return []
        return [term.as_coeff_Mul(rational=True) for term in sympy.Add.make_args(sympy.expand(exponent))]

    def _symbol(self, key: Any) -> sympy.Symbol:
        return self.symbols.setdefault(key, sympy.Symbol(f"_generator{len(self.symbols)}"))

    def replace(self, node: sympy.Expr) -> sympy.Expr:
        """Return `node` as a rational expression in symbols."""
        if node not in self.known:
            self.known[node] = self._replace(node)
        return self.known[node]

    def _replace(self, node: sympy.Expr) -> sympy.Expr:
        if node.is_Rational or node.is_Symbol:
            return node
        if node is sympy.I:
            return self._root(sympy.Integer(-1), 2)
        if terms := self._exponent(node):
            return sympy.Mul(*(self._power_of_e(coefficient, term) for coefficient, term in terms))
        if node.is_Pow:
            return self._root(self.replace(node.base), node.exp.q) ** node.exp.p
        if node.is_Add or node.is_Mul:
            return node.func(*(self.replace(a) for a in node.args))
        return self._symbol(node.func(*(self.replace(a) for a in node.args)) if node.args else node)

    def _power_of_e(self, coefficient: sympy.Rational, term: sympy.Expr) -> sympy.Expr:
        if isinstance(term, sympy.log) and coefficient.is_Integer:
            return self.replace(term.args[0]) ** coefficient
        unit = self.units[term]
        return self._symbol(("exp", unit, term)) ** (coefficient / unit)

    def _root(self, base: sympy.Expr, degree: int) -> sympy.Expr:
        if degree == 1:
            return base
        for root, q, known in self.bases:
            if q == degree and (known == base or sympy.expand(known - base) == 0):
                return root
        root = self._symbol(("root", degree, base))
        self.bases.append((root, degree, base))
        return root


class _Fractions:
    """Rational functions as a sparse numerator and a multiset of denominator factors, which are not expanded."""

    def __init__(self, symbols: Iterable[sympy.Symbol]) -> None:
        self.ring = PolyRing(list(symbols), sympy.QQ)
        self.generator = dict(zip(self.ring.symbols, self.ring.gens, strict=True))
        self.known: dict[sympy.Expr, tuple[PolyElement, dict[PolyElement, int]]] = {}

    def of(self, node: sympy.Expr) -> tuple[PolyElement, dict[PolyElement, int]]:
        """Return numerator and denominator factors of a rational expression."""
        if node not in self.known:
            self.known[node] = self._of(node)
        return self.known[node]

    def _of(self, node: sympy.Expr) -> tuple[PolyElement, dict[PolyElement, int]]:
        if node.is_Rational:
            return self.ring(sympy.QQ(node.p, node.q)), {}
        if node.is_Symbol:
            return self.generator[node], {}
        if node.is_Add:
            return self._sum([self.of(a) for a in node.args])
        if node.is_Mul:
            return self._product([self.of(a) for a in node.args])
        power = int(node.exp)
        base = self.of(node.base) if power > 0 else self._inverse(self.of(node.base))
        return self._product([base] * abs(power))

    def _times(self, left: PolyElement, right: PolyElement) -> PolyElement:
        if len(left) * len(right) > LARGEST_PRODUCT:
            raise _TooLargeError
        return left * right

    def _product(self, parts: list[Any]) -> tuple[PolyElement, dict[PolyElement, int]]:
        numerator = self.ring.one
        factors: dict[PolyElement, int] = {}
        for top, bottom in parts:
            numerator = self._times(numerator, top)
            for factor, power in bottom.items():
                factors[factor] = factors.get(factor, 0) + power
        return numerator, factors

    def _sum(self, parts: list[Any]) -> tuple[PolyElement, dict[PolyElement, int]]:
        common: dict[PolyElement, int] = {}
        for _, bottom in parts:
            for factor, power in bottom.items():
                common[factor] = max(common.get(factor, 0), power)
        total = self.ring.zero
        for top, bottom in parts:
            for factor, power in common.items():
                for _ in range(power - bottom.get(factor, 0)):
                    top = self._times(top, factor)
            total += top
        return total, common

    def _inverse(self, part: Any) -> tuple[PolyElement, dict[PolyElement, int]]:
        top, bottom = part
        if not top:
            raise ZeroDivisionError
        numerator = self.ring(1 / top.LC)
        for factor, power in bottom.items():
            for _ in range(power):
                numerator = self._times(numerator, factor)
        monomial = tuple(min(powers) for powers in zip(*top.itermonoms(), strict=True))
        rest = top.monic().quo_term((monomial, self.ring.domain.one))
        factors = {g: k for g, k in zip(self.ring.gens, monomial, strict=True) if k}
        return numerator, factors | ({rest: 1} if rest != self.ring.one else {})

    def eliminate(self, polynomial: PolyElement, root: sympy.Symbol, degree: int, base: sympy.Expr) -> PolyElement:
        """Return `polynomial` times a power of the denominator of `base`, with every ``root^degree`` replaced."""
        top, bottom = self.of(base)
        below = self._product([(factor, {}) for factor, power in bottom.items() for _ in range(power)])[0]
        place = self.ring.gens.index(self.generator[root])
        highest = max((m[place] // degree for m in polynomial.itermonoms()), default=0)
        powers = [[self.ring.one], [self.ring.one]]
        for _ in range(highest):
            powers[0].append(self._times(powers[0][-1], top))
            powers[1].append(self._times(powers[1][-1], below))
        slices: dict[int, dict[Any, Any]] = {}
        for monomial, coefficient in polynomial.iterterms():
            count, rest = divmod(monomial[place], degree)
            slices.setdefault(count, {})[(*monomial[:place], rest, *monomial[place + 1 :])] = coefficient
        total = self.ring.zero
        for count, terms in slices.items():
            factor = self._times(powers[0][count], powers[1][highest - count])
            total += self._times(self.ring.from_dict(terms), factor)
        return total
