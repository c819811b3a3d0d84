"""LLVM IR of the loop of a program over rows, columns and times; compiled by `compiled`."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from linsolve.engines.listed import CHUNK, EIGHT, PIECES, WORTH, Listed, scratch_of
from linsolve.engines.plan import Plan
from linsolve.engines.vectors import Vectors

__all__ = ["INNER", "LANES", "WORTH", "Loop", "assembly"]

LANES = 16  # two vectors of AVX-512, so that independent instruction chains overlap; without it half as many
INNER = 512  # columns whose member-only steps stay in the cache
_MANY, _FEW_COLUMNS = 32, 64
LONG = 1000  # member-only steps above which shorter vectors halve the time of compilation and cost none afterwards
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
    With `by_member` the lanes of a vector are times of one or two members, which are more often in the same branch of a
    formula than members at one time; branches are evaluated afterwards, for the vectors that need them (`listed`).
    """
    program = plan.program
    inputs = [k for k in plan.member if program.steps[k].op == "input"]
    early = set(plan.early)
    wanted = [a for k in [*plan.member, *plan.full] for a in program.steps[k].args] + list(program.outputs.values())
    common = sorted({k for k in wanted if k in early and program.steps[k].op != "constant"})
    wide = INNER if len(plan.kept) <= _MANY and not by_member else _FEW_COLUMNS
    scratch = (wide + _GAP) * max(1, len(plan.kept)) + (scratch_of(plan, wide) if by_member else 0) + LANES
    lanes = LANES if avx512 or totals else LANES // 2  # sums have the same bits with and without AVX-512
    writer = _Writer(plan, inputs, common, wide, scratch, Vectors(lanes, avx512, by_member), totals, by_member)
    return Loop(writer.text() if text else "", inputs, common, scratch, wide)


class _Writer(Listed):
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
        super().__init__(plan, v, common, wide, 8 * (wide + _GAP))
        self.inputs, self.scratch = inputs, scratch
        self.totals, self.by_member = totals, by_member

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
            few = v.of_lanes(v.lanes // 2) if len(self.plan.member) > LONG else self.many
            whole = self.many.lanes  # of the vectors that read what is kept
            end = v.emit(f"and i64 {v.emit(f'add i64 {count}, {whole - 1}')}, -{whole}")
            self._loop("member", "part.body", end, few.lanes, lambda m: self._members(few, m, count, at, varies))
            if self.by_member:
                self._loop("chunk", "member.done", times, CHUNK, lambda t: self._chunk(t, times, count, out))
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

    def _of_time(self, k: int, eight: str) -> str:
        """Return the value of a step that does not depend on members, by its place in a row of times."""
        row = self._common_row(k)
        return self._of_kind(k, self._splat(self.v.emit(f"load double, ptr {self._at(row, eight)}")))

    def _of_times(self, k: int, eight: str) -> str:
        """Return the values of such a step at several times, of each member of a vector."""
        if not self.plan.axes[k]:
            return self._of_time(k, "0")
        v, place = self.v, self._at(self._common_row(k), eight)
        few = v.emit(f"load <{self.times} x double>, ptr {place}, align 8")
        return self._of_kind(k, v.joined([few] * (v.lanes // self.times), self.times))

    def _of_members(self, k: int, eight: str) -> str:
        """Return the values of a step computed once per member, at `eight` times the first member."""
        place = self._at(self._row_of(k), eight)
        return self._of_kind(k, self.v.emit(f"load {self.v.real}, ptr {place}, align 64"))

    def _of_each(self, k: int, eight: str) -> str:
        """Return the values of such a step for the members of a vector of several times."""
        place, members = self._at(self._row_of(k), eight), range(self.v.lanes // self.times)
        return self._of_kind(k, self._each([self._at(place, str(8 * member)) for member in members], self.times))

    def _members(self, few: Vectors, m: str, count: str, at: list[str], varies: list[int]) -> str:
        with self._lanes_of(few) as v:
            return self._member(v, m, count, at, varies)

    def _member(self, v: Vectors, m: str, count: str, at: list[str], varies: list[int]) -> str:
        eight = v.emit(f"shl i64 {m}, 3")
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
        places = at if self.totals else [self._at(p, eight) for p in at]
        return self._written("place", list(zip(values, places, strict=True)), m, count)

    def _chunk(self, t0: str, times: str, count: str, out: list[str]) -> str:
        """Write all times of a chunk: member by member into scratch memory, then from there some rows at once."""
        v = self.v
        left = v.emit(f"sub i64 {times}, {t0}")
        less = v.emit(f"icmp slt i64 {left}, {CHUNK}")
        length = v.emit(f"select i1 {less}, i64 {left}, i64 {CHUNK}")
        lists = self._lay_out(self._at("%scratch", str(self.pitch * max(1, len(self.plan.kept)))))
        at = self._at_time(t0, out)

        def each(m: str) -> str:
            eight = v.emit(f"shl i64 {m}, 3")
            self._loop("instant", "each.body", length, v.lanes, lambda t: self._instant(m, t, t0, eight))
            return "instant.done"

        def time(t: str) -> str:
            rows = [self._at_time_below(v.emit(f"add i64 {t}, {j}"), length, at, lists) for j in range(EIGHT)]
            piece, before = v.emit(f"udiv i64 {t}, {EIGHT}"), "time.body"
            for j in range(len(out)):  # one after the other, as the registers hold eight rows
                below = [(inside, each[j]) for inside, each in rows]
                self._loop(f"place{j}", before, count, v.lanes, partial(self._copied, j, count, piece, below))
                before = f"place{j}.done"
            return before

        self._loop("each", "chunk.body", count, self.many.lanes // v.lanes, each)
        before = "each.done"
        for j, (number, _, _) in enumerate(self.lists):
            several = v.emit(f"load i64, ptr {number}")
            step = self.many.lanes // EIGHT
            self._loop(f"branch{j}", before, several, step, partial(self._branch, j, count=several, t0=t0))
            before = f"branch{j}.done"
        self._loop("time", before, length, EIGHT, time)
        return "time.done"

    def _at_time_below(self, t: str, length: str, out: list[str], lists: str) -> tuple[str, list[str]]:
        """Return whether a time is below `length`, and its rows: if it is not, the lists, no longer needed."""
        below = self.v.emit(f"icmp slt i64 {t}, {length}")
        return below, [self.v.emit(f"select i1 {below}, ptr {p}, ptr {lists}") for p in self._at_time(t, out)]

    def _instant(self, m: str, t: str, t0: str, eight: str) -> str:
        """Compute several times of one or two members, and store them in the scratch memory."""
        with self._lanes_of(self.many) as v:
            kept = set(self.plan.kept)
            row = v.emit(f"shl i64 {v.emit(f'add i64 {t0}, {t}')}, 3")
            self._begin(lambda k: self._of_each(k, eight) if k in kept else self._of_times(k, row))
            last = self._staged("instant")
            self._listed(m, t)
            return last

    def _copied(self, j: int, count: str, piece: str, rows: list[tuple[str, str]], m: str) -> str:
        """Write eight times of an output of some members from scratch memory, where each piece is of one member."""
        v, eight, zero = self.v, self.v.emit(f"shl i64 {m}, 3"), self.v.number(0.0)
        first = self._piece_at(j, v.emit(f"add i64 {v.emit(f'mul i64 {m}, {PIECES}')}, {piece}"))
        places = [self._at(first, str(8 * CHUNK * member)) for member in range(v.lanes)]
        given = [v.emit(f"load <{EIGHT} x double>, ptr {place}, align 64") for place in places]
        turned = [v.turned(given[k : k + EIGHT]) for k in range(0, v.lanes, EIGHT)]
        pairs = []
        for (below, row), parts in zip(rows, zip(*turned, strict=True), strict=True):
            value = v.emit(f"select i1 {below}, {v.real} {v.joined(list(parts), EIGHT)}, {v.real} {zero}")
            pairs.append((value, self._at(row, eight)))
        return self._written(f"place{j}", pairs, m, count)

    def _written(self, loop: str, pairs: list[tuple[str, str]], m: str, count: str) -> str:
        """Write vectors to their places; return the label of the last block."""
        v = self.v
        end = v.emit(f"add i64 {m}, {v.lanes}")
        inside = v.emit(f"icmp sle i64 {end}, {count}"), v.emit(f"icmp sge i64 {m}, {self.missing}")
        whole = v.emit(f"and i1 {inside[0]}, {inside[1]}")
        v.lines += [f"  br i1 {whole}, label %{loop}.whole, label %{loop}.part", f"{loop}.whole:"]
        (self._add_up if self.totals else self._store)(loop, pairs, m, count)
        return f"{loop}.stored"

    def _add_up(self, loop: str, pairs: list[tuple[str, str]], m: str, count: str) -> None:
        """Add vectors to those in memory, the last ones only in existing lanes."""
        v = self.v
        for a, p in pairs:
            total = v.op("add", v.emit(f"load {v.real}, ptr {p}, align 8"), a)
            v.lines.append(f"  store {v.real} {total}, ptr {p}, align 8")
        v.lines += [f"  br label %{loop}.stored", f"{loop}.part:"]
        v.forget()
        mask = self._mask(m, count)
        for a, p in pairs:
            before = v.emit(f"load {v.real}, ptr {p}, align 8")
            v.lines.append(f"  store {v.real} {v.select(mask, v.op('add', before, a), before)}, ptr {p}, align 8")
        v.lines += [f"  br label %{loop}.stored", f"{loop}.stored:"]

    def _store(self, loop: str, pairs: list[tuple[str, str]], m: str, count: str) -> None:
        """Write vectors: full ones by normal or, if aligned, non-temporal stores, others under a mask."""
        v = self.v
        self._judge([a for a, _ in pairs])
        v.lines += [f"  br i1 {self.past}, label %{loop}.past, label %{loop}.plain"]
        for label, how in (("past", "align 64, !nontemporal !0"), ("plain", "align 8")):
            v.lines += [f"{loop}.{label}:", *(f"  store {v.real} {a}, ptr {p}, {how}" for a, p in pairs)]
            v.lines += [f"  br label %{loop}.stored"]
        v.lines += [f"{loop}.part:"]
        v.forget()
        mask, zero = self._mask(m, count), v.number(0.0)
        self._judge([v.select(mask, a, zero) for a, _ in pairs])
        name = f"llvm.masked.store.v{v.lanes}f64.p0"
        v.declared[name] = f"declare void @{name}({v.real}, ptr, i32, {v.truth})"
        for a, p in pairs:
            v.lines.append(f"  call void @{name}({v.real} {a}, ptr {p}, i32 8, {v.truth} {mask})")
        v.lines += [f"  br label %{loop}.stored", f"{loop}.stored:"]

    def _judge(self, values: list[str]) -> None:
        """Add 0 times each value to the check lanes, which become nan if a value is not finite."""
        v = self.v
        total = v.emit(f"load {v.real}, ptr {self.judged}, align 64")
        for a in values:
            total = v.fma(a, v.number(0.0), total)
        v.lines.append(f"  store {v.real} {total}, ptr {self.judged}, align 64")
