"""Sums of squares and products of two linear combinations of vectors, in one pass (extra ``[fast]``).

Written in LLVM IR with 32 partial sums, so that results do not depend on the vector width of the processor (W3 of
``benchmarks/RESULTS.md``).
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from linsolve.engines.vectors import Vectors
from linsolve.numerics.threads import forkable_lock

__all__ = ["PARTIAL", "Sums", "assembly"]

PARTIAL = 32  # partial sums, independent of the processor's vector width, so that results are reproducible
_making = forkable_lock()
_made: list[Sums] = []


def assembly() -> str:
    """Return the LLVM IR of the loop over rows: whole vectors, and a masked remainder."""
    v = Vectors(PARTIAL)
    v.lines += [
        "define void @sums(i64 %rows, i64 %width, ptr %b, i64 %b.pace, ptr %u, i64 %u.pace, ptr %x, ptr %scale, "
        "ptr noalias %out) #0 {",
        "entry:",
        f"  %whole = and i64 %width, -{PARTIAL}",
        "  %left = sub i64 %width, %whole",
        "  br label %row.test",
        "row.test:",
        "  %row = phi i64 [ 0, %entry ], [ %row.next, %done ]",
        "  %row.more = icmp slt i64 %row, %rows",
        "  br i1 %row.more, label %row.body, label %end",
        "row.body:",
    ]
    starts = [_at(v, f"%{name}", v.emit(f"mul i64 %row, %{name}.pace")) for name in "bu"]
    eight = v.emit("shl i64 %row, 3")
    factors = [_splat(v, v.emit(f"load double, ptr {_at(v, f'%{name}', eight)}"), "double") for name in ("x", "scale")]
    v.lines += ["  br label %column.test", "column.test:"]
    v.lines += ["  %column = phi i64 [ 0, %row.body ], [ %column.next, %column.body ]"]
    zero, sums = "zeroinitializer", ("%s0", "%s1", "%s2")
    mark = len(v.lines)
    v.lines += ["  %column.more = icmp slt i64 %column, %whole"]
    v.lines += ["  br i1 %column.more, label %column.body, label %rest", "column.body:"]
    offset = v.emit("shl i64 %column, 3")
    pair = [v.emit(f"load {v.real}, ptr {_at(v, start, offset)}, align 8") for start in starts]
    inside = _added(v, pair, factors, sums)
    v.lines[mark:mark] = [
        f"  {s} = phi {v.real} [ {zero}, %row.body ], [ {value}, %column.body ]"
        for s, value in zip(sums, inside, strict=True)
    ]
    v.lines += [f"  %column.next = add i64 %column, {PARTIAL}", "  br label %column.test", "rest:"]
    v.forget()
    v.lines += ["  %any = icmp sgt i64 %left, 0", "  br i1 %any, label %masked, label %done", "masked:"]
    ramp = f"<{', '.join(f'i64 {k}' for k in range(PARTIAL))}>"
    mask = v.emit(f"icmp slt {v.whole} {ramp}, {_splat(v, '%left', 'i64')}")
    offset, name = v.emit("shl i64 %whole, 3"), f"llvm.masked.load.v{PARTIAL}f64.p0"
    v.declared[name] = f"declare {v.real} @{name}(ptr, i32, {v.truth}, {v.real})"
    pair = [
        v.emit(f"call {v.real} @{name}(ptr {_at(v, start, offset)}, i32 8, {v.truth} {mask}, {v.real} {zero})")
        for start in starts
    ]
    last = _added(v, pair, factors, sums)
    v.lines += ["  br label %done", "done:"]
    v.forget()
    ends = [v.emit(f"phi {v.real} [ {s}, %rest ], [ {value}, %masked ]") for s, value in zip(sums, last, strict=True)]
    place = _at(v, "%out", v.emit("mul i64 %row, 24"))
    for k, end in enumerate(ends):
        v.lines += [f"  store double {_folded(v, end)}, ptr {_at(v, place, str(8 * k))}"]
    v.lines += ["  %row.next = add i64 %row, 1", "  br label %row.test", "end:", "  ret void", "}", ""]
    return "\n".join([*v.lines, *v.declared.values(), 'attributes #0 = { "prefer-vector-width"="512" nounwind }', ""])


def _at(v: Vectors, base: str, offset: str) -> str:
    return v.emit(f"getelementptr i8, ptr {base}, i64 {offset}")


def _splat(v: Vectors, number: str, kind: str) -> str:
    vector, zeros = f"<{PARTIAL} x {kind}>", f"<{PARTIAL} x i32> zeroinitializer"
    one = v.emit(f"insertelement {vector} poison, {kind} {number}, i64 0")
    return v.emit(f"shufflevector {vector} {one}, {vector} poison, {zeros}")


def _added(v: Vectors, pair: list[str], factors: list[str], sums: tuple[str, ...]) -> list[str]:
    """Return the sums plus the next vectors of both squares and of the product, by fused multiply-add."""
    b, a = (v.op("mul", given, factor) for given, factor in zip(pair, factors, strict=True))
    p, q = v.op("add", b, a), v.op("sub", b, a)
    return [v.fma(*two, s) for two, s in zip(((p, p), (q, q), (p, q)), sums, strict=True)]


def _folded(v: Vectors, total: str) -> str:
    """Return the sum of the entries of a vector, by repeated addition of its halves."""
    count = PARTIAL
    while count > 1:
        half, kind = count // 2, f"<{count} x double>"
        low, high = (
            v.emit(
                f"shufflevector {kind} {total}, {kind} poison, "
                f"<{half} x i32> <{', '.join(f'i32 {k}' for k in range(begin, begin + half))}>"
            )
            for begin in (0, half)
        )
        total, count = v.emit(f"fadd <{half} x double> {low}, {high}"), half
    return v.emit(f"extractelement <1 x double> {total}, i64 0")


class Sums:
    """Machine code of the sums, callable from any thread."""

    def __init__(self) -> None:
        from linsolve.engines.compiled import machine_code

        self.engine, address, *_ = machine_code(lambda _: assembly(), "sums")
        whole, pointer = ctypes.c_int64, ctypes.c_void_p
        self.call: Any = ctypes.CFUNCTYPE(
            None, whole, whole, pointer, whole, pointer, whole, pointer, pointer, pointer
        )(address)

    @classmethod
    def ready(cls) -> Sums:
        """Return the machine code, compiled on first use."""
        with _making:
            if not _made:
                _made.append(cls())
        return _made[0]

    def __call__(self, b: np.ndarray, u: np.ndarray, x: np.ndarray, scale: np.ndarray, out: np.ndarray) -> None:
        """Write ``p.p, q.q, p.q`` of ``p, q = x b + scale u, x b - scale u`` for each row into the rows of `out`."""
        b, u = (v if v.strides[1] == 8 else np.ascontiguousarray(v) for v in (b, u))
        self.call(
            *b.shape, b.ctypes.data, b.strides[0], u.ctypes.data, u.strides[0], x.ctypes.data, scale.ctypes.data,
            out.ctypes.data,
        )  # fmt: skip
