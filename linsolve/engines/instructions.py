"""LLVM IR of the steps of a program on vectors; the base of the loops over members, times and steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from linsolve.engines import elementary
from linsolve.engines.program import BOOLEAN, FUSED, Program
from linsolve.engines.specialize import BELOW_ZERO, MODERATE, ORDERED
from linsolve.engines.vectors import Vectors

__all__ = ["Instructions"]

_SIMPLE = ("add", "sub", "mul", "div")
_COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")
_OWN: dict[str, Callable[..., str]] = {
    "exp": elementary.exp, "expm1": elementary.expm1, "log": elementary.log, "log1p": elementary.log1p,
    "hypot": elementary.hypot, "pow": elementary.power,
}  # fmt: skip
_LIBRARY = ("sin", "cos", "tan", "asin", "sinh", "cosh", "tanh", "atan2")


class Polynomial(NamedTuple):
    """Steps of a polynomial by Horner's rule: its argument, its coefficients, constant first, the steps it replaces."""

    x: int
    coefficients: list[int]
    within: list[int]


@lru_cache(maxsize=64)
def polynomials(program: Program, steps: tuple[int, ...]) -> dict[int, Polynomial]:
    """Return the polynomials among some steps by their last step."""
    count = Counter(a for k in program.used() for a in program.steps[k].args)
    count.update(program.outputs.values())
    own, found = set(steps), dict[int, Polynomial]()
    for k in steps:
        product = program.steps[k].args[0] if program.steps[k].data == FUSED else -1
        if product not in own or count[product] != 1:
            continue
        before, x = program.steps[product].args
        term = program.steps[k].args[1]
        inner = found.get(before)
        if inner is not None and inner.x == x and count[before] == 1:
            del found[before]
            found[k] = Polynomial(x, [term, *inner.coefficients], [*inner.within, before, product])
        else:
            found[k] = Polynomial(x, [term, before], [product])
    return found


class _Values(dict[int, str]):
    """Registers of steps; those in memory are loaded when first used."""

    def __init__(self, load: Callable[[int], str]) -> None:
        self.load = load

    def __missing__(self, k: int) -> str:
        self[k] = self.load(k)
        return self[k]

    def copy(self) -> _Values:
        found = _Values(self.load)
        found.update(self)
        return found


class Instructions:
    """Values of the steps of a program, and loops, as LLVM IR."""

    def __init__(self, program: Program, v: Vectors) -> None:
        self.program, self.v = program, v
        self.values: dict[int, str] = {}
        self.decided: dict[int, bool] = {}  # conditions that are known to hold, or not, in all lanes

    def _loaded(self, base: str, k: int, kind: str) -> str:
        return self.v.emit(f"load {kind}, ptr {self._at(base, str(8 * k))}")

    def _at(self, base: str, offset: str) -> str:
        return self.v.emit(f"getelementptr i8, ptr {base}, i64 {offset}")

    def _loop(self, name: str, before: str, end: str, step: int, body: Callable[[str], str], begin: str = "0") -> None:
        """Write ``for name in range(begin, end, step)``; `body` returns the label of its last block."""
        lines = self.v.lines
        lines += [f"  br label %{name}.test", f"{name}.test:"]
        mark = len(lines)
        lines += ["", f"  %{name}.more = icmp slt i64 %{name}, {end}"]
        lines += [f"  br i1 %{name}.more, label %{name}.body, label %{name}.done", f"{name}.body:"]
        self.v.forget()
        last = body(f"%{name}")
        self.v.forget()
        lines += [f"  %{name}.next = add i64 %{name}, {step}", f"  br label %{name}.test", f"{name}.done:"]
        lines[mark] = f"  %{name} = phi i64 [ {begin}, %{before} ], [ %{name}.next, %{last} ]"

    def _splat(self, number: str, kind: str = "double") -> str:
        v, vector = self.v, f"<{self.v.lanes} x {kind}>"
        one = v.emit(f"insertelement {vector} poison, {kind} {number}, i64 0")
        return v.emit(f"shufflevector {vector} {one}, {vector} poison, <{v.lanes} x i32> zeroinitializer")

    def _begin(self, load: Callable[[int], str] | None = None) -> None:
        """Forget all values; constants are known, other values may be loaded."""
        self.values = {} if load is None else _Values(load)
        for k, step in enumerate(self.program.steps):
            if step.op == "constant":
                self.values[k] = self.v.boolean(step.data) if step.kind == BOOLEAN else self.v.number(step.data)

    def _steps(self, steps: list[int]) -> None:
        """Write steps; a product and its sum that are both among them may be fused."""
        products = {k for k in steps if self.program.steps[k].op == "mul"}
        chains = polynomials(self.program, tuple(steps)) if self.v.shallow else {}
        within = {k for chain in chains.values() for k in chain.within}
        for k in steps:
            step = self.program.steps[k]
            if k in within:
                continue
            if step.op == "where" and step.args[0] in self.decided:
                self.values[k] = self.values[step.args[1 if self.decided[step.args[0]] else 2]]
            elif k in chains:
                chain = chains[k]
                self.values[k] = self.v.summed([self.values[c] for c in chain.coefficients], self.values[chain.x])
            elif step.data == FUSED and step.args[0] in products:
                factors = self.program.steps[step.args[0]].args
                self.values[k] = self.v.fma(*(self.values[a] for a in (*factors, step.args[1])))
            elif step.op not in ("input", "constant"):
                self.values[k] = self._operation(step.op, [self.values[a] for a in step.args], step)

    def _operation(self, op: str, args: list[str], step: Any) -> str:
        v, zero = self.v, self.v.number(0.0)
        if op in _SIMPLE:
            return v.op(op, *args)
        if op in _COMPARE:
            return v.compare(op, *args)
        if op in ("and", "or", "xor"):
            return v.logic(op, *args)
        if op in ("exp", "expm1"):
            known = step.data or ""
            below_zero = BELOW_ZERO in known or self._below_zero(step.args[0])
            return _OWN[op](v, *args, below_zero=below_zero, moderate=MODERATE in known)
        if op in _OWN:
            return _OWN[op](v, *args)
        if op in _LIBRARY:
            return v.lane_by_lane(op, *args)
        if op == "where":
            return v.select(args[0], args[1], args[2], v.truth if step.kind == BOOLEAN else v.real)
        if op in ("minimum", "maximum"):  # nan if one argument is nan
            first = v.compare("lt" if op == "minimum" else "gt", args[0], args[1])
            if step.data != ORDERED:
                first = v.logic("or", first, v.is_nan(args[0]))
            return v.select(first, args[0], args[1])
        if op == "sign":
            below = v.select(v.compare("lt", args[0], zero), v.number(-1.0), v.fma(args[0], zero, zero))
            return v.select(v.compare("gt", args[0], zero), v.number(1.0), below)
        return self._unary(op, *args)

    def _below_zero(self, k: int) -> bool:
        """Return whether a step is ``-|...|``, whose values all have the sign bit set."""
        steps = self.program.steps
        return steps[k].op == "neg" and steps[steps[k].args[0]].op == "abs"

    def _unary(self, op: str, a: str, b: str = "") -> str:
        v = self.v
        if op == "neg":
            return v.negative(a)
        if op == "not":
            return v.opposite(a)
        if op in ("abs", "sqrt"):
            return v.unary({"abs": "fabs", "sqrt": "sqrt"}[op], a)
        if op == "isnan":
            return v.is_nan(a)
        if op == "isinf":
            return v.compare("eq", v.unary("fabs", a), v.infinity)
        if op == "isfinite":
            return v.compare("lt", v.unary("fabs", a), v.infinity)
        if op == "astype":
            return v.select(a, v.number(1.0), v.number(0.0))
        # mod: the remainder has the sign of b
        rest = v.lane_by_lane("fmod", a, b)
        apart = v.logic("xor", v.compare("lt", rest, v.number(0.0)), v.compare("lt", b, v.number(0.0)))
        moved = v.select(apart, v.op("add", rest, b), rest)
        return v.select(v.compare("eq", rest, v.number(0.0)), v.copysign(v.number(0.0), b), moved)
