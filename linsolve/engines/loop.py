"""LLVM IR of the loop of a program over rows, columns and times; compiled by `compiled`."""

from __future__ import annotations

from typing import NamedTuple

from linsolve.engines.branches import Stage, stages
from linsolve.engines.instructions import Instructions
from linsolve.engines.plan import Plan
from linsolve.engines.program import BOOLEAN
from linsolve.engines.vectors import Vectors

__all__ = ["INNER", "LANES", "WORTH", "Loop", "assembly"]

LANES = 16  # two of the widest vectors, so that independent instruction chains overlap
INNER = 512  # columns whose member-only steps stay in the cache
_MANY, _FEW_COLUMNS = 32, 64
_CHUNK = 64  # times of one member that are written at once
LONG = 1000  # member-only steps above which shorter vectors halve the time of compilation and cost none afterwards
WORTH = 40  # least cost of a branch that is skipped, in additions
_GAP = 8  # doubles between rows of scratch memory, without which a column would fall into few sets of the cache


class Loop(NamedTuple):
    """LLVM IR of a loop, with its inputs and scratch memory.

    Parameters
    ----------
    text : str
    inputs : list of int
        Steps that are inputs of members.
    common : list of int
        Steps that do not depend on members, passed as a table with one row per step, followed by `LANES` more times.
    scratch : int
        Doubles of scratch memory per thread. The last `LANES` must be zero before a call; afterwards they are nan if a
        written value is not finite.
    wide : int
        Columns per part.
    """

    text: str
    inputs: list[int]
    common: list[int]
    scratch: int
    wide: int


def assembly(
    plan: Plan, text: bool = True, avx512: bool = False, totals: bool = False, by_member: bool = False
) -> Loop:
    """Return the loop of a plan, optionally for AVX-512; without `text`, the IR itself is omitted.

    With `totals` the loop does not write outputs but sums them: one vector for each row of each part of `wide` columns.
    With `by_member` the lanes of a vector are times of one member, which are more often in the same branch of a formula
    than members at one time.
    """
    program = plan.program
    inputs = [k for k in plan.member if program.steps[k].op == "input"]
    early = set(plan.early)
    wanted = [a for k in [*plan.member, *plan.full] for a in program.steps[k].args] + list(program.outputs.values())
    common = sorted({k for k in wanted if k in early and program.steps[k].op != "constant"})
    wide = INNER if len(plan.kept) <= _MANY else _FEW_COLUMNS
    rows = max(1, len(plan.kept)) + (_CHUNK * len(program.outputs) if by_member else 0)
    scratch = (wide + _GAP) * rows + LANES
    writer = _Writer(plan, inputs, common, wide, scratch, Vectors(LANES, avx512), totals, by_member)
    return Loop(writer.text() if text else "", inputs, common, scratch, wide)


class _Writer(Instructions):
    """Writer of one loop."""

    def __init__(
        self,
        plan: Plan,
        inputs: list[int],
        common: list[int],
        wide: int,
        scratch: int,
        v: Vectors,
        totals: bool,
        by_member: bool,
    ) -> None:
        super().__init__(plan.program, v)
        self.plan, self.inputs, self.common, self.wide, self.scratch = plan, inputs, common, wide, scratch
        self.totals, self.by_member, self.pitch = totals, by_member, 8 * (wide + _GAP)

    def text(self) -> str:
        """Return the whole module."""
        v = self.v
        v.lines += [
            "define void @loop(ptr noalias %sizes, ptr noalias %inputs, ptr noalias %steps, ptr noalias %common, "
            "ptr noalias %outs, ptr noalias %strides, ptr noalias %scratch) #0 {",
            "entry:",
        ]
        times, rows, columns, self.pace, first, past = (self._loaded("%sizes", k, "i64") for k in range(6))
        self.first, self.past = first, v.emit(f"icmp ne i64 {past}, 0")
        self.start = [self._loaded("%inputs", k, "ptr") for k in range(len(self.inputs))]
        self.step = [self._loaded("%steps", k, "i64") for k in range(len(self.inputs))]
        self.out = [self._loaded("%outs", k, "ptr") for k in range(len(self.program.outputs))]
        self.stride = [self._loaded("%strides", k, "i64") for k in range(2 * len(self.out))]
        self.judged = self._at("%scratch", str(8 * (self.scratch - LANES)))
        self._loop("row", "entry", rows, 1, lambda r: self._row(r, times, columns))
        # sfence: make non-temporal stores visible to other threads
        v.lines += ["  fence seq_cst", "  ret void", "}", "", *v.declared.values()]
        v.lines += ['attributes #0 = { "prefer-vector-width"="512" nounwind }', "!0 = !{i32 1}", ""]
        return "\n".join(v.lines)

    def _product(self, a: str, b: str) -> str:
        return self.v.emit(f"mul i64 {a}, {b}")

    def _row(self, r: str, times: str, columns: str) -> str:
        at_row = [self._at(p, self._product(r, s)) for p, s in zip(self.start, self.step, strict=True)]
        out_row = [self._at(p, self._product(r, self.stride[2 * k + 1])) for k, p in enumerate(self.out)]

        def part(c: str) -> str:
            v = self.v
            left = v.emit(f"sub i64 {columns}, {c}")
            less = v.emit(f"icmp slt i64 {left}, {self.wide}")
            count = v.emit(f"select i1 {less}, i64 {left}, i64 {self.wide}")
            self.missing = v.emit(f"sub i64 0, {c}")  # columns of this part before the first
            eight = v.emit(f"shl i64 {c}, 3")
            varies = [self.plan.axes[k] & 4 for k in self.inputs]
            at = [self._at(p, eight) if vary else p for p, vary in zip(at_row, varies, strict=True)]
            begin = v.emit(f"sdiv i64 {self._product(c, str(8 * v.lanes))}, {self.wide}") if self.totals else eight
            out = [self._at(p, begin) for p in out_row]
            end = v.emit(f"and i64 {v.emit(f'add i64 {count}, {v.lanes - 1}')}, -{v.lanes}")
            self.v = v.of_lanes(LANES // 2) if len(self.plan.member) > LONG else v
            self._loop("member", "part.body", end, self.v.lanes, lambda m: self._member(m, count, at, varies))
            self.v = v
            if self.by_member:
                self._loop("chunk", "member.done", times, _CHUNK, lambda t: self._chunk(t, times, count, out))
                return "chunk.done"
            self._loop("time", "member.done", times, 1, lambda t: self._time(t, count, out))
            return "time.done"

        self._loop("part", "row.body", columns, self.wide, part, self.first)
        return "part.done"

    def _mask(self, m: str, count: str) -> str:
        """Return the mask of existing lanes from member `m` on."""
        v = self.v
        ramp = f"<{', '.join(f'i64 {k}' for k in range(v.lanes))}>"
        after, before = (
            v.emit(f"icmp {test} {v.whole} {ramp}, {self._splat(v.emit(f'sub i64 {end}, {m}'), 'i64')}")
            for test, end in (("slt", count), ("sge", self.missing))
        )
        return v.logic("and", after, before)

    def _of_time(self, k: int, eight: str, several: bool = False) -> str:
        """Return the value of a step that does not depend on members, or its values at several times, by its row."""
        row = self._at("%common", self._product(self.pace, str(self.common.index(k))))
        if several and self.plan.axes[k]:
            return self._of_kind(k, self.v.emit(f"load {self.v.real}, ptr {self._at(row, eight)}, align 8"))
        return self._of_kind(k, self._splat(self.v.emit(f"load double, ptr {self._at(row, eight)}")))

    def _of_members(self, k: int, eight: str, several: bool = True) -> str:
        """Return the values of a step computed once per member, at `eight` times the first member, or of this alone."""
        place = self._at(self._at("%scratch", str(self.plan.kept.index(k) * self.pitch)), eight)
        if several:
            return self._of_kind(k, self.v.emit(f"load {self.v.real}, ptr {place}, align 64"))
        return self._of_kind(k, self._splat(self.v.emit(f"load double, ptr {place}")))

    def _of_kind(self, k: int, value: str) -> str:
        """Return a stored number, converted to a truth value if needed."""
        if self.program.steps[k].kind == BOOLEAN:
            return self.v.compare("ne", value, self.v.number(0.0))
        return value

    def _member(self, m: str, count: str, at: list[str], varies: list[int]) -> str:
        v, eight = self.v, self.v.emit(f"shl i64 {m}, 3")
        mask = self._mask(m, count)
        self._begin(lambda k: self._of_time(k, "0"))
        for k, pointer, vary in zip(self.inputs, at, varies, strict=True):
            if vary:
                name = f"llvm.masked.load.v{v.lanes}f64.p0"
                self.values[k] = self._masked(name, self._at(pointer, eight), mask)
            else:
                self.values[k] = self._splat(v.emit(f"load double, ptr {pointer}"))
        self._steps(self.plan.member)
        for j, k in enumerate(self.plan.kept):
            place = self._at(self._at("%scratch", str(j * self.pitch)), eight)
            v.lines.append(f"  store {v.real} {self._as_real(k)}, ptr {place}, align 64")
        return "member.body"

    def _masked(self, name: str, pointer: str, mask: str) -> str:
        v = self.v
        v.declared[name] = f"declare {v.real} @{name}(ptr, i32, {v.truth}, {v.real})"
        return v.emit(f"call {v.real} @{name}(ptr {pointer}, i32 8, {v.truth} {mask}, {v.real} {v.number(1.0)})")

    def _as_real(self, k: int) -> str:
        if self.program.steps[k].kind != BOOLEAN:
            return self.values[k]
        return self.v.select(self.values[k], self.v.number(1.0), self.v.number(0.0))

    def _time(self, t: str, count: str, out: list[str]) -> str:
        at = self._at_time(t, out)
        row = self.v.emit(f"shl i64 {t}, 3")
        self._loop("place", "time.body", count, self.v.lanes, lambda m: self._place(m, count, row, at))
        return "place.done"

    def _at_time(self, t: str, out: list[str]) -> list[str]:
        return [self._at(p, self._product(t, self.stride[2 * k])) for k, p in enumerate(out)]

    def _place(self, m: str, count: str, row: str, at: list[str]) -> str:
        eight, kept = self.v.emit(f"shl i64 {m}, 3"), set(self.plan.kept)
        self._begin(lambda k: self._of_members(k, eight) if k in kept else self._of_time(k, row))
        self._staged("place")
        values = [self._as_real(k) for k in self.program.outputs.values()]
        return self._written(values, m, count, at if self.totals else [self._at(p, eight) for p in at])

    def _chunk(self, t0: str, times: str, count: str, out: list[str]) -> str:
        """Write all times of a chunk: member by member into scratch memory, then from there row by row."""
        v = self.v
        left = v.emit(f"sub i64 {times}, {t0}")
        less = v.emit(f"icmp slt i64 {left}, {_CHUNK}")
        length = v.emit(f"select i1 {less}, i64 {left}, i64 {_CHUNK}")
        self.written = self._at("%scratch", str(self.pitch * max(1, len(self.plan.kept))))
        at = self._at_time(t0, out)

        def each(m: str) -> str:
            eight = v.emit(f"shl i64 {m}, 3")
            self._loop("instant", "each.body", length, v.lanes, lambda t: self._instant(t, t0, eight))
            return "instant.done"

        def time(t: str) -> str:
            here = self._at_time(t, at)
            row = self._product(t, str(self.pitch))
            self._loop("place", "time.body", count, v.lanes, lambda m: self._copied(m, count, row, here))
            return "place.done"

        self._loop("each", "chunk.body", count, 1, each)
        self._loop("time", "each.done", length, 1, time)
        return "time.done"

    def _instant(self, t: str, t0: str, eight: str) -> str:
        """Compute a vector of times of one member, and put its numbers into a column of the scratch memory."""
        v, kept = self.v, set(self.plan.kept)
        row = v.emit(f"shl i64 {v.emit(f'add i64 {t0}, {t}')}, 3")
        self._begin(lambda k: self._of_members(k, eight, False) if k in kept else self._of_time(k, row, True))
        last = self._staged("instant")
        column = self._at(self._at(self.written, self._product(t, str(self.pitch))), eight)
        for j, k in enumerate(self.program.outputs.values()):
            value = self._as_real(k)
            for lane in range(v.lanes):
                place = self._at(column, str(self.pitch * (j * _CHUNK + lane)))
                number = v.pure(f"extractelement {v.real} {value}, i64 {lane}")
                v.lines.append(f"  store double {number}, ptr {place}")
        return last

    def _copied(self, m: str, count: str, row: str, at: list[str]) -> str:
        v, eight = self.v, self.v.emit(f"shl i64 {m}, 3")
        begin = self._at(self._at(self.written, row), eight)
        places = [self._at(begin, str(self.pitch * _CHUNK * j)) for j in range(len(at))]
        values = [v.emit(f"load {v.real}, ptr {place}, align 64") for place in places]
        return self._written(values, m, count, [self._at(p, eight) for p in at])

    def _written(self, values: list[str], m: str, count: str, places: list[str]) -> str:
        v = self.v
        end = v.emit(f"add i64 {m}, {v.lanes}")
        inside = v.emit(f"icmp sle i64 {end}, {count}"), v.emit(f"icmp sge i64 {m}, {self.missing}")
        whole = v.emit(f"and i1 {inside[0]}, {inside[1]}")
        v.lines += [f"  br i1 {whole}, label %place.whole, label %place.part", "place.whole:"]
        (self._add_up if self.totals else self._store)(list(zip(values, places, strict=True)), m, count)
        return "place.stored"

    def _staged(self, loop: str) -> str:
        """Write the steps of members and times; branches that no lane takes are skipped. Return the last label."""
        before = f"{loop}.body"
        for j, stage in enumerate(stages(self.program, self.plan.full, WORTH)):
            if stage.when:
                before = self._skipped(f"{loop}.{j}", before, stage)
            else:
                self._steps(stage.steps)
        return before

    def _skipped(self, name: str, before: str, stage: Stage) -> str:
        """Write steps that are skipped if no lane needs them; return the label of the last block."""
        v = self.v
        needed = v.boolean(True)
        for c, holds in sorted(stage.when):
            needed = v.logic("and", needed, self.values[c] if holds else v.opposite(self.values[c]))
        some = v.call("i1", f"llvm.vector.reduce.or.v{v.lanes}i1", (v.truth, needed))
        v.lines += [f"  br i1 {some}, label %{name}, label %{name}.done", f"{name}:"]
        outside, known = self.values, v.known()
        self.values = outside.copy()
        self._steps(stage.steps)
        found, self.values = {k: self.values[k] for k in stage.results}, outside
        v.forget(known)
        v.lines += [f"  br label %{name}.done", f"{name}.done:"]
        for k, value in found.items():
            kind = v.truth if self.program.steps[k].kind == BOOLEAN else v.real
            self.values[k] = v.emit(f"phi {kind} [ {value}, %{name} ], [ zeroinitializer, %{before} ]")
        return f"{name}.done"

    def _add_up(self, pairs: list[tuple[str, str]], m: str, count: str) -> None:
        """Add vectors to those in memory, the last ones only in existing lanes."""
        v = self.v
        for a, p in pairs:
            total = v.op("add", v.emit(f"load {v.real}, ptr {p}, align 8"), a)
            v.lines.append(f"  store {v.real} {total}, ptr {p}, align 8")
        v.lines += ["  br label %place.stored", "place.part:"]
        v.forget()
        mask = self._mask(m, count)
        for a, p in pairs:
            before = v.emit(f"load {v.real}, ptr {p}, align 8")
            v.lines.append(f"  store {v.real} {v.select(mask, v.op('add', before, a), before)}, ptr {p}, align 8")
        v.lines += ["  br label %place.stored", "place.stored:"]

    def _store(self, pairs: list[tuple[str, str]], m: str, count: str) -> None:
        """Write vectors: full ones by normal or, if aligned, non-temporal stores, others under a mask."""
        v = self.v
        self._judge([a for a, _ in pairs])
        v.lines += [f"  br i1 {self.past}, label %place.past, label %place.plain"]
        for label, how in (("past", "align 64, !nontemporal !0"), ("plain", "align 8")):
            v.lines += [f"place.{label}:", *(f"  store {v.real} {a}, ptr {p}, {how}" for a, p in pairs)]
            v.lines += ["  br label %place.stored"]
        v.lines += ["place.part:"]
        v.forget()
        mask, zero = self._mask(m, count), v.number(0.0)
        self._judge([v.select(mask, a, zero) for a, _ in pairs])
        name = f"llvm.masked.store.v{v.lanes}f64.p0"
        v.declared[name] = f"declare void @{name}({v.real}, ptr, i32, {v.truth})"
        for a, p in pairs:
            v.lines.append(f"  call void @{name}({v.real} {a}, ptr {p}, i32 8, {v.truth} {mask})")
        v.lines += ["  br label %place.stored", "place.stored:"]

    def _judge(self, values: list[str]) -> None:
        """Add 0 times each value to the check lanes, which become nan if a value is not finite."""
        v = self.v
        total = v.emit(f"load {v.real}, ptr {self.judged}, align 64")
        for a in values:
            total = v.fma(a, v.number(0.0), total)
        v.lines.append(f"  store {v.real} {total}, ptr {self.judged}, align 64")
