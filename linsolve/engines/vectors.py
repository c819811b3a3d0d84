"""LLVM IR of operations on vectors of doubles; used by `loop`, `elementary` and the compiled sums and kernels."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Iterable

__all__ = ["Vectors", "hexadecimal"]

_SIMPLE = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_COMPARED = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}


def hexadecimal(value: float) -> str:
    """Return a double as an exact LLVM literal."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


class Vectors:
    """Lines of LLVM IR and the functions called in them.

    Values are names of registers or constants, of type ``real`` (doubles), ``whole`` (64-bit integers) or ``truth``
    (single bits), each a vector of `lanes`.

    Parameters
    ----------
    lanes : int
        Numbers per vector; more than the processor's width give independent instruction chains.
    wide : bool
        Whether the processor has AVX-512, of which one instruction is used by name.
    shallow : bool
        Whether polynomials are sums of pairs of terms, of which a long program has fewer in sequence; short programs,
        of which several iterations overlap, are faster by Horner's rule.
    """

    def __init__(self, lanes: int, wide: bool = False, shallow: bool = False) -> None:
        self.lanes, self.wide, self.shallow = lanes, wide and lanes % 8 == 0, shallow
        self.real, self.whole, self.truth = (f"<{lanes} x {kind}>" for kind in ("double", "i64", "i1"))
        self.lines: list[str] = []
        self.declared: dict[str, str] = {}
        self._numbers = itertools.count(1)
        self._done: dict[str, str] = {}

    def of_lanes(self, lanes: int) -> Vectors:
        """Return vectors of other length in the same lines."""
        other = Vectors(lanes, self.wide, self.shallow)
        other.lines, other.declared, other._numbers = self.lines, self.declared, self._numbers
        return other

    def emit(self, text: str) -> str:
        """Append an instruction with a result, and return its register."""
        name = f"%v{next(self._numbers)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def pure(self, text: str) -> str:
        """Return the register of an instruction without side effects, emitted once."""
        if text not in self._done:
            self._done[text] = self.emit(text)
        return self._done[text]

    def known(self) -> dict[str, str]:
        """Return the registers of this basic block that later ones may use."""
        return self._done.copy()

    def forget(self, but: dict[str, str] | None = None) -> None:
        """Begin a basic block that cannot use the registers of the previous one, `but` some."""
        self._done = but or {}

    def call(self, result: str, name: str, *args: tuple[str, str]) -> str:
        """Call a function of vectors or numbers, passed as pairs of type and value."""
        self.declared[name] = f"declare {result} @{name}({', '.join(kind for kind, _ in args)})"
        return self.pure(f"call {result} @{name}({', '.join(f'{kind} {value}' for kind, value in args)})")

    # constants

    def number(self, value: float) -> str:
        """Return a constant real vector."""
        return f"splat (double {hexadecimal(value)})"

    def integer(self, value: int) -> str:
        """Return a constant whole vector."""
        return f"splat (i64 {value})"

    def boolean(self, value: bool) -> str:
        """Return a constant vector of truth values."""
        return f"splat (i1 {int(value)})"

    # arithmetic

    def op(self, name: str, a: str, b: str) -> str:
        """Add, sub, mul or div two real vectors."""
        return self.pure(f"{_SIMPLE[name]} {self.real} {a}, {b}")

    def fma(self, a: str, b: str, c: str) -> str:
        """Return ``a b + c``, rounded once."""
        return self.call(self.real, f"llvm.fma.v{self.lanes}f64", (self.real, a), (self.real, b), (self.real, c))

    def unary(self, name: str, a: str) -> str:
        """Apply an LLVM intrinsic, such as fabs, sqrt or rint."""
        return self.call(self.real, f"llvm.{name}.v{self.lanes}f64", (self.real, a))

    def copysign(self, a: str, sign: str) -> str:
        """Return the magnitude of `a` with the sign of `sign`."""
        return self.call(self.real, f"llvm.copysign.v{self.lanes}f64", (self.real, a), (self.real, sign))

    def negative(self, a: str) -> str:
        """Return ``-a``."""
        return self.pure(f"fneg {self.real} {a}")

    def whole_op(self, name: str, a: str, b: str) -> str:
        """Apply an instruction to two whole vectors: add, sub, mul, shl, ashr, and."""
        return self.pure(f"{name} {self.whole} {a}, {b}")

    def bits(self, a: str) -> str:
        """Return a real vector's bits as integers."""
        return self.pure(f"bitcast {self.real} {a} to {self.whole}")

    def of_bits(self, a: str) -> str:
        """Return the real vector with these bits."""
        return self.pure(f"bitcast {self.whole} {a} to {self.real}")

    # order

    def part(self, a: str, lanes: range, kind: str | None = None) -> str:
        """Return some lanes of a vector, by default a real one."""
        kind, places = kind or self.real, ", ".join(f"i32 {k}" for k in lanes)
        return self.pure(f"shufflevector {kind} {a}, {kind} poison, <{len(lanes)} x i32> <{places}>")

    def joined(self, parts: list[str], lanes: int) -> str:
        """Return the vector of parts that have so many lanes each, a power of two of them."""
        while len(parts) > 1:
            part, places = f"<{lanes} x double>", ", ".join(f"i32 {k}" for k in range(2 * lanes))
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [
                self.pure(f"shufflevector {part} {a}, {part} {b}, <{2 * lanes} x i32> <{places}>") for a, b in pairs
            ]
            lanes *= 2
        return parts[0]

    def turned(self, rows: list[str]) -> list[str]:
        """Return the columns of a matrix of eight rows of eight numbers."""

        def pick(a: str, b: str, lanes: Iterable[int]) -> str:
            places = ", ".join(f"i32 {k}" for k in lanes)
            return self.pure(f"shufflevector <8 x double> {a}, <8 x double> {b}, <8 x i32> <{places}>")

        even, odd = (0, 8, 2, 10, 4, 12, 6, 14), (1, 9, 3, 11, 5, 13, 7, 15)
        low, high = (0, 1, 4, 5, 8, 9, 12, 13), (2, 3, 6, 7, 10, 11, 14, 15)
        pairs = [[pick(rows[k], rows[k + 1], lanes) for k in range(0, 8, 2)] for lanes in (even, odd)]
        found = [""] * 8
        for column, (a, b, c, d) in enumerate(pairs):
            for shift, lanes in ((0, low), (2, high)):
                first, second = pick(a, b, lanes), pick(c, d, lanes)
                found[column + shift] = pick(first, second, low)
                found[column + shift + 4] = pick(first, second, high)
        return found

    # truth

    def compare(self, name: str, a: str, b: str) -> str:
        """Compare two real vectors: lt, le, gt, ge, eq, ne; only ne is true for nan."""
        return self.pure(f"fcmp {_COMPARED[name]} {self.real} {a}, {b}")

    def logic(self, name: str, a: str, b: str) -> str:
        """And, or, xor of two truth vectors."""
        return self.pure(f"{name} {self.truth} {a}, {b}")

    def opposite(self, a: str) -> str:
        """Return the negation of `a`."""
        return self.logic("xor", a, self.boolean(True))

    def select(self, condition: str, a: str, b: str, kind: str | None = None) -> str:
        """Return `a` where the condition holds, else `b`."""
        kind = kind or self.real
        return self.pure(f"select {self.truth} {condition}, {kind} {a}, {kind} {b}")

    def is_nan(self, a: str) -> str:
        """Whether `a` is not a number."""
        return self.pure(f"fcmp uno {self.real} {a}, {a}")

    def polynomial(self, coefficients: tuple[float, ...], x: str) -> str:
        """Return ``c0 + c1 x + ...``."""
        return self.summed([self.number(c) for c in coefficients], x)

    def summed(self, coefficients: list[str], x: str) -> str:
        """Return ``c0 + c1 x + ...`` by Horner's rule; if `shallow`, ``c0 + x (...)`` from pairs of terms."""
        if self.shallow and len(coefficients) > 4:
            first, terms, power = coefficients[0], coefficients[1:], x
            while len(terms) > 1:
                pairs = [self.fma(b, power, a) for a, b in zip(terms[::2], terms[1::2], strict=False)]
                terms, power = pairs + terms[len(terms) & ~1 :], self.op("mul", power, power)
            return self.fma(terms[0], x, first)
        total = coefficients[-1]
        for c in coefficients[-2::-1]:
            total = self.fma(total, x, c)
        return total

    def lane_by_lane(self, name: str, *args: str) -> str:
        """Call a function of the C library for each number of a vector."""
        result = "poison"
        for k in range(self.lanes):
            given = [("double", self.pure(f"extractelement {self.real} {a}, i64 {k}")) for a in args]
            value = self.call("double", name, *given)
            result = self.pure(f"insertelement {self.real} {result}, double {value}, i64 {k}")
        return result

    # powers of two and integers

    def power_of_two(self, k: str) -> str:
        """Return ``2^k`` for integers ``-1023 <= k <= 1023`` (0 for the first)."""
        return self.of_bits(self.whole_op("shl", self.whole_op("add", k, self.integer(1023)), self.integer(52)))

    def scaled(self, x: str, n: str, k: str) -> str:
        """Return ``x 2^n``, for ``|n| <= 2046`` as a real and as a whole, including gradual underflow."""
        if not self.wide:
            first = self.whole_op("ashr", k, self.integer(1))
            partly = self.op("mul", x, self.power_of_two(first))
            return self.op("mul", partly, self.power_of_two(self.whole_op("sub", k, first)))
        parts = []
        for begin in range(0, self.lanes, 8):
            pick = f"<8 x i32> <{', '.join(f'i32 {begin + j}' for j in range(8))}>"
            one, other = (self.pure(f"shufflevector {self.real} {a}, {self.real} poison, {pick}") for a in (x, n))
            eight, name = "<8 x double>", "llvm.x86.avx512.mask.scalef.pd.512"
            given = ((eight, one), (eight, other), (eight, "zeroinitializer"), ("i8", "-1"), ("i32", "4"))
            parts.append((8, self.call(eight, name, *given)))
        while len(parts) > 1:
            (count, a), (_, b) = parts.pop(0), parts.pop(0)
            both = ", ".join(f"i32 {j}" for j in range(2 * count))
            kind = f"<{count} x double>"
            joined = self.pure(f"shufflevector {kind} {a}, {kind} {b}, <{2 * count} x i32> <{both}>")
            parts.append((2 * count, joined))
        return parts[0][1]

    def to_real(self, k: str) -> str:
        """Return small integers as reals."""
        magic = 1.5 * 2.0**52
        shifted = self.of_bits(self.whole_op("add", k, self.integer(struct.unpack("<q", struct.pack("<d", magic))[0])))
        return self.op("sub", shifted, self.number(magic))

    def nearest(self, a: str, factor: float) -> tuple[str, str, str]:
        """Return the integer `k` nearest to ``a factor``, below 2^50, as a real and as a whole, and ``2^k``.

        ``2^k`` is valid for ``-1023 <= k <= 1023`` (0 for ``k = -1023``), as in `power_of_two`, and costs one shift.
        """
        magic = 1.5 * 2.0**52 + 1023  # the last bits of the sum are the exponent of 2^k
        shifted = self.fma(a, self.number(factor), self.number(magic))
        bits = self.bits(shifted)
        whole = self.whole_op("sub", bits, self.integer(struct.unpack("<q", struct.pack("<d", magic))[0]))
        power = self.of_bits(self.whole_op("shl", bits, self.integer(52)))
        return self.op("sub", shifted, self.number(magic)), whole, power

    @property
    def infinity(self) -> str:
        """The constant inf."""
        return self.number(math.inf)

    @property
    def nan(self) -> str:
        """The constant nan."""
        return self.number(math.nan)
