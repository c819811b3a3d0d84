"""LLVM IR of nested loops over arrays of vectors; used by the compiled flow map of small matrices.

A function of a few nested loops compiles in a fraction of the time that a general compiler of Python takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from linsolve.engines.vectors import Vectors

__all__ = ["NestedLoops", "Value"]

_INTEGER = "i64"


class Value:
    """A 64-bit integer or a vector of doubles in a register, with the arithmetic operators.

    Parameters
    ----------
    loops : NestedLoops
    name : str
        Register or constant.
    kind : str
        Type in LLVM IR.
    """

    __slots__ = ("kind", "loops", "name")

    def __init__(self, loops: NestedLoops, name: str, kind: str) -> None:
        self.loops, self.name, self.kind = loops, name, kind

    def __add__(self, other: Value | int) -> Value:
        return self._op("add", other)

    def __sub__(self, other: Value | int) -> Value:
        return self._op("sub", other)

    def __mul__(self, other: Value | int) -> Value:
        return self._op("mul", other)

    def __truediv__(self, other: Value) -> Value:
        return self._op("div", other)

    def _op(self, name: str, other: Value | int) -> Value:
        v, b = self.loops.v, self.loops.integer(other).name
        if self.kind == _INTEGER:
            return Value(self.loops, v.pure(f"{name} i64 {self.name}, {b}"), self.kind)
        return Value(self.loops, v.op(name, self.name, b), self.kind)

    def __lt__(self, other: Value | int) -> str:
        return self._compared("slt", other)

    def __ge__(self, other: Value | int) -> str:
        return self._compared("sge", other)

    def __gt__(self, other: Value | int) -> str:
        return self._compared("sgt", other)

    def _compared(self, name: str, other: Value | int) -> str:
        return self.loops.v.pure(f"icmp {name} i64 {self.name}, {self.loops.integer(other).name}")


class NestedLoops:
    """Writer of one function of nested loops and branches.

    An array of vectors is a flat array of doubles, of which each `lanes` are one vector; memory is aligned to doubles.

    Parameters
    ----------
    name : str
        Name of the function.
    pointers, sizes : iterable of str
        Arguments: the addresses of arrays and integers, read from one array of addresses and one of integers.
    lanes : int
        Numbers of a vector.
    """

    def __init__(self, name: str, pointers: Iterable[str], sizes: Iterable[str], lanes: int) -> None:
        self.v = v = Vectors(lanes)
        self.block, self._count = "entry", 0
        v.lines += [f"define void @{name}(ptr %pointers, ptr %sizes) #0 {{", "entry:"]
        self.arrays = {name: self._given("pointers", k, "ptr") for k, name in enumerate(pointers)}
        self.sizes = {name: Value(self, self._given("sizes", k, "i64"), _INTEGER) for k, name in enumerate(sizes)}

    def _given(self, base: str, k: int, kind: str) -> str:
        return self.v.emit(f"load {kind}, ptr {self.v.emit(f'getelementptr i64, ptr %{base}, i64 {k}')}")

    def text(self) -> str:
        """Return the whole module."""
        end = ["  ret void", "}", "", 'attributes #0 = { "prefer-vector-width"="512" nounwind }', ""]
        return "\n".join([*self.v.lines, *end, *self.v.declared.values(), ""])

    # values

    def integer(self, value: Value | int) -> Value:
        """Return a number as a value."""
        return value if isinstance(value, Value) else Value(self, str(value), _INTEGER)

    def number(self, value: float) -> Value:
        """Return a constant vector."""
        return Value(self, self.v.number(value), self.v.real)

    def real(self, value: Value) -> Value:
        """Return the vector whose entries are all the same integer."""
        return self._splat(self.v.pure(f"sitofp i64 {value.name} to double"))

    def least(self, first: Value | int, *others: Value | int) -> Value:
        """Return the smallest of integers."""
        return self._extreme("smin", first, *others)

    def largest(self, first: Value | int, *others: Value | int) -> Value:
        """Return the largest of integers."""
        return self._extreme("smax", first, *others)

    def _extreme(self, name: str, first: Value | int, *others: Value | int) -> Value:
        found = self.integer(first)
        for other in others:
            two = ((_INTEGER, found.name), (_INTEGER, self.integer(other).name))
            found = Value(self, self.v.call(_INTEGER, f"llvm.{name}.i64", *two), _INTEGER)
        return found

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """Return ``a b + c``, rounded once."""
        return self._vector(self.v.fma(a.name, b.name, c.name))

    def sqrt(self, a: Value) -> Value:
        """Return the square root."""
        return self._vector(self.v.unary("sqrt", a.name))

    def if_less(self, x: Value, y: Value, a: Value, b: Value) -> Value:
        """Return `a` where ``x < y``, else `b`."""
        return self._vector(self.v.select(self.v.compare("lt", x.name, y.name), a.name, b.name))

    def elementary(self, function: Callable[..., str], x: Value) -> Value:
        """Return a function of `linsolve.engines.elementary` of numbers between -700 and 700."""
        return self._vector(function(self.v, x.name, moderate=True))

    def _vector(self, name: str) -> Value:
        return Value(self, name, self.v.real)

    def _splat(self, number: str) -> Value:
        kind, lanes = self.v.real, self.v.lanes
        one = self.v.pure(f"insertelement {kind} poison, double {number}, i64 0")
        return self._vector(self.v.pure(f"shufflevector {kind} {one}, {kind} poison, <{lanes} x i32> zeroinitializer"))

    # memory

    def load(self, array: str, at: Value | int) -> Value:
        """Return vector `at` of an array of vectors."""
        return self._vector(self.v.emit(f"load {self.v.real}, ptr {self._place(array, at, self.v.real)}, align 8"))

    def store(self, array: str, at: Value | int, value: Value) -> None:
        """Set vector `at` of an array of vectors."""
        self._store(value.name, array, at, self.v.real)

    def entry(self, array: str, at: Value | int) -> Value:
        """Return the vector whose entries are all entry `at` of an array of doubles."""
        return self._splat(self._double(array, at))

    def index(self, array: str, at: Value | int) -> Value:
        """Return entry `at` of an array of integers."""
        return Value(self, self.v.emit(f"load i64, ptr {self._place(array, at, 'i64')}"), _INTEGER)

    def copy(self, array: str, at: Value, into: str, where: Value) -> None:
        """Copy one double from an array to another."""
        self._store(self._double(array, at), into, where, "double")

    def multiply(self, array: str, a: Value, b: Value, into: str, where: Value) -> None:
        """Set one double of an array to the product of two of another."""
        product = self.v.emit(f"fmul double {self._double(array, a)}, {self._double(array, b)}")
        self._store(product, into, where, "double")

    def begin(self, array: str, at: Value) -> None:
        """Let an array begin at its entry `at`, until the end of the innermost loop or branch."""
        self.arrays[array] = self._place(array, at, "double")

    def prefetch(self, array: str, at: Value) -> None:
        """Ask for the memory of entry `at` of an array of doubles, which will be written."""
        self.v.declared["llvm.prefetch"] = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
        self.v.lines.append(
            f"  call void @llvm.prefetch.p0(ptr {self._place(array, at, 'double')}, i32 1, i32 3, i32 1)"
        )

    def unpack(self, array: str, at: Value, into: str, where: Value, step: Value) -> None:
        """Transpose `lanes` vectors from `at` on: the numbers of lane k go to entry ``where + k step`` and after."""
        lanes = self.v.lanes
        rows = [self.load(array, at + k).name for k in range(lanes)]
        half = lanes // 2
        for _ in range(lanes.bit_length() - 1):  # rounds of interleaving
            rows = [self._interleaved(rows[k], rows[k + half], high) for k in range(half) for high in (0, half)]
        for k, row in enumerate(rows):
            place = self._place(into, where + step * k, "double")
            self.v.lines.append(f"  store {self.v.real} {row}, ptr {place}, align 8")

    def _interleaved(self, a: str, b: str, begin: int) -> str:
        lanes, kind = self.v.lanes, self.v.real
        order = [k + other * lanes for k in range(begin, begin + lanes // 2) for other in (0, 1)]
        pick = f"<{lanes} x i32> <{', '.join(f'i32 {k}' for k in order)}>"
        return self.v.emit(f"shufflevector {kind} {a}, {kind} {b}, {pick}")

    def _double(self, array: str, at: Value | int) -> str:
        return self.v.emit(f"load double, ptr {self._place(array, at, 'double')}")

    def _store(self, name: str, array: str, at: Value | int, kind: str) -> None:
        self.v.lines.append(f"  store {kind} {name}, ptr {self._place(array, at, kind)}, align 8")

    def _place(self, array: str, at: Value | int, kind: str) -> str:
        return self.v.pure(f"getelementptr {kind}, ptr {self.arrays[array]}, i64 {self.integer(at).name}")

    # control

    def loop(
        self, begin: Value | int, end: Value | int, body: Callable[..., Any], *carried: Value, step: int = 1
    ) -> tuple[Value, ...]:
        """Write ``for i in range(begin, end, step): carried = body(i, *carried)``, and return `carried` at the end."""
        v, name, before = self.v, self._name("loop"), self.block
        v.lines += [f"  br label %{name}", f"{name}:"]
        mark = len(v.lines)
        counter = Value(self, f"%{name}.i", _INTEGER)
        held = tuple(Value(self, f"%{name}.{k}", value.kind) for k, value in enumerate(carried))
        v.lines += [f"  %{name}.more = icmp slt i64 {counter.name}, {self.integer(end).name}"]
        v.lines += [f"  br i1 %{name}.more, label %{name}.body, label %{name}.done"]
        known, arrays = v.known(), self.arrays.copy()
        self._enter(f"{name}.body", known)
        found = body(counter, *held) or ()
        after = counter + step
        v.lines += [f"  br label %{name}"]
        v.lines[mark:mark] = [
            self._either(into, self.integer(first).name, before, last.name, self.block)
            for into, first, last in zip((counter, *held), (begin, *carried), (after, *found), strict=True)
        ]
        self.arrays = arrays
        self._enter(f"{name}.done", known)
        return held

    def choose(
        self, condition: str, then: Callable[[], Any], otherwise: Callable[[], Any] = lambda: ()
    ) -> tuple[Value, ...]:
        """Return the values of `then` if a condition on integers holds, else those of `otherwise`; run only one."""
        v, name = self.v, self._name("if")
        v.lines += [f"  br i1 {condition}, label %{name}.then, label %{name}.else"]
        known, arrays, ends = v.known(), self.arrays, []
        for label, branch in (("then", then), ("else", otherwise)):
            self.arrays = arrays.copy()
            self._enter(f"{name}.{label}", known)
            ends.append((branch() or (), self.block))
            v.lines += [f"  br label %{name}.done"]
        self.arrays = arrays
        self._enter(f"{name}.done", known)
        (first, one), (second, other) = ends
        found = tuple(Value(self, f"%{name}.{k}", value.kind) for k, value in enumerate(first))
        v.lines += [
            self._either(into, a.name, one, b.name, other) for into, a, b in zip(found, first, second, strict=True)
        ]
        return found

    def _either(self, into: Value, a: str, first: str, b: str, second: str) -> str:
        return f"  {into.name} = phi {into.kind} [ {a}, %{first} ], [ {b}, %{second} ]"

    def _enter(self, block: str, known: dict[str, str]) -> None:
        """Begin a basic block, in which the registers `known` are valid."""
        self.block = block
        self.v.lines.append(f"{block}:")
        self.v.forget(known.copy())

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"
