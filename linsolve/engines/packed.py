"""LLVM IR that packs the numbers of a dear branch into full vectors; part of `loop`.

The head of a deep mode is a few of the times of each member, see W4 in ``benchmarks/RESULTS.md``. Evaluated where it
stands, most lanes of its vectors would be wasted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from linsolve.engines.branches import Stage, dear_stages, stages
from linsolve.engines.instructions import Instructions
from linsolve.engines.plan import Plan
from linsolve.engines.program import BOOLEAN
from linsolve.engines.vectors import Vectors

__all__ = ["CHUNK", "WORTH", "Packed", "postponed"]

CHUNK = 64  # times of one member that are written at once
WORTH = 40  # least cost of a branch that is skipped, in additions
_DEAR, _MOST_KEPT = 150, 24  # least cost of a branch that is packed; most values of members that are gathered
_BITS = CHUNK.bit_length() - 1


def postponed(plan: Plan) -> set[int]:
    """Return the places of the stages of a plan whose numbers are packed."""
    if len(plan.kept) > _MOST_KEPT:
        return set()
    return dear_stages(plan.program, stages(plan.program, plan.full, WORTH), _DEAR)


class Packed(Instructions):
    """Stages of one vector; those that are postponed for the lanes that need them, and their evaluation.

    A position is ``CHUNK`` times the member plus the time, both from the begin of a part and of a chunk.

    Parameters
    ----------
    plan : Plan
    v : Vectors
    common : list of int
        Steps in the table of values that do not depend on members.
    pitch : int
        Bytes between rows of scratch memory.
    """

    def __init__(self, plan: Plan, v: Vectors, common: list[int], pitch: int) -> None:
        super().__init__(plan.program, v)
        self.plan, self.common, self.pitch = plan, common, pitch
        self.many, self.times = v.of_lanes(2 * v.lanes) if v.wide and v.shallow else v, v.lanes
        self.postponed: set[int] = set()
        self.written = self.listed = self.number = self.pace = ""

    def _staged(self, loop: str, postponed: set[int]) -> tuple[str, str]:
        """Write the steps of members and times; branches that no lane takes are skipped.

        Return the label of the last block, and the lanes that need a postponed stage.
        """
        before, later = f"{loop}.body", ""
        for j, stage in enumerate(stages(self.program, self.plan.full, WORTH)):
            if j in postponed:
                needed = self._needed(stage)
                later = self.v.logic("or", later, needed) if later else needed
                for k in stage.results:
                    self.values[k] = "zeroinitializer"
            elif stage.when:
                before = self._skipped(f"{loop}.{j}", before, stage)
            else:
                self._steps(stage.steps)
        return before, later

    @contextmanager
    def _lanes_of(self, other: Vectors) -> Iterator[Vectors]:
        """Write instructions for vectors of other length."""
        before, self.v = self.v, other
        self.v.forget()
        yield self.v
        self.v = before

    def _needed(self, stage: Stage) -> str:
        """Return the lanes that need a stage."""
        v, needed = self.v, self.v.boolean(True)
        for c, holds in sorted(stage.when):
            needed = v.logic("and", needed, self.values[c] if holds else v.opposite(self.values[c]))
        return needed

    def _any(self, truth: str) -> str:
        return self.v.call("i1", f"llvm.vector.reduce.or.v{self.v.lanes}i1", (self.v.truth, truth))

    def _skipped(self, name: str, before: str, stage: Stage) -> str:
        """Write steps that are skipped if no lane needs them; return the label of the last block."""
        v = self.v
        v.lines += [f"  br i1 {self._any(self._needed(stage))}, label %{name}, label %{name}.done", f"{name}:"]
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

    def _listed(self, loop: str, later: str, member: str, time: str, length: str) -> str:
        """Append the positions of some lanes, from `time` on and below `length`, to the list; return the last label."""
        v, times = self.v, self.times
        ramp = f"<{', '.join(f'i64 {k % times}' for k in range(v.lanes))}>"
        left = self._splat(v.emit(f"sub i64 {length}, {time}"), "i64")
        later = v.logic("and", later, v.emit(f"icmp slt {v.whole} {ramp}, {left}"))
        v.lines += [f"  br i1 {self._any(later)}, label %{loop}.list, label %{loop}.listed", f"{loop}.list:"]
        known = v.known()
        place = v.emit(f"add i64 {v.emit(f'shl i64 {member}, {_BITS}')}, {time}")
        number = v.emit(f"load i64, ptr {self.number}")
        number = (self._appended_by_eight if v.wide else self._appended)(later, place, number)
        v.lines.append(f"  store i64 {number}, ptr {self.number}")
        v.forget(known)
        v.lines += [f"  br label %{loop}.listed", f"{loop}.listed:"]
        return f"{loop}.listed"

    def _offset(self, lane: int) -> int:
        """Return the position of a lane from that of the first."""
        return lane // self.times * CHUNK + lane % self.times

    def _appended(self, later: str, place: str, number: str) -> str:
        """Append positions one by one, each over the one before unless it is needed; return the new number."""
        v = self.v
        for lane in range(v.lanes):
            at = self._at(self.listed, v.emit(f"shl i64 {number}, 3"))
            v.lines.append(f"  store i64 {v.emit(f'add i64 {place}, {self._offset(lane)}')}, ptr {at}")
            one = v.emit(f"zext i1 {v.emit(f'extractelement {v.truth} {later}, i64 {lane}')} to i64")
            number = v.emit(f"add i64 {number}, {one}")
        return number

    def _appended_by_eight(self, later: str, place: str, number: str) -> str:
        """Append positions by an instruction of AVX-512, which LLVM 22 splits wrongly beyond eight lanes."""
        v, name = self.v, "llvm.experimental.vector.compress.v8i64"
        eight = "<8 x i64>"
        v.declared[name] = f"declare {eight} @{name}({eight}, <8 x i1>, {eight})"
        v.declared["llvm.ctpop.i8"] = "declare i8 @llvm.ctpop.i8(i8)"
        one = v.emit(f"insertelement {eight} poison, i64 {place}, i64 0")
        first = v.emit(f"shufflevector {eight} {one}, {eight} poison, <8 x i32> zeroinitializer")
        for begin in range(0, v.lanes, 8):
            lanes = range(begin, begin + 8)
            pick = f"<8 x i32> <{', '.join(f'i32 {k}' for k in lanes)}>"
            mask = v.emit(f"shufflevector {v.truth} {later}, {v.truth} poison, {pick}")
            ramp = f"<{', '.join(f'i64 {self._offset(k)}' for k in lanes)}>"
            places = v.emit(f"add {eight} {first}, {ramp}")
            packed = v.emit(f"call {eight} @{name}({eight} {places}, <8 x i1> {mask}, {eight} poison)")
            at = self._at(self.listed, v.emit(f"shl i64 {number}, 3"))
            v.lines.append(f"  store {eight} {packed}, ptr {at}, align 8")
            count = v.emit(f"call i8 @llvm.ctpop.i8(i8 {v.emit(f'bitcast <8 x i1> {mask} to i8')})")
            number = v.emit(f"add i64 {number}, {v.emit(f'zext i8 {count} to i64')}")
        return number

    def _packed(self, p: str, count: str, t0: str) -> str:
        """Evaluate the positions of the list from `p` on, up to `count`, and write them; lanes beyond repeat one."""
        with self._lanes_of(self.many) as v:
            return self._evaluated(v, p, count, t0)

    def _evaluated(self, v: Vectors, p: str, count: str, t0: str) -> str:
        kept = set(self.plan.kept)
        ramp = f"<{', '.join(f'i64 {k}' for k in range(v.lanes))}>"
        here = self._at(self.listed, v.emit(f"shl i64 {p}, 3"))
        inside = v.emit(f"icmp slt {v.whole} {ramp}, {self._splat(v.emit(f'sub i64 {count}, {p}'), 'i64')}")
        first = self._splat(v.emit(f"load i64, ptr {here}"), "i64")
        places = v.select(inside, v.emit(f"load {v.whole}, ptr {here}, align 8"), first, v.whole)
        member = v.whole_op("shl", v.whole_op("ashr", places, v.integer(_BITS)), v.integer(3))
        time = v.whole_op("and", places, v.integer(CHUNK - 1))
        instant = v.whole_op("shl", v.whole_op("add", time, self._splat(t0, "i64")), v.integer(3))

        def load(k: int) -> str:
            if k in kept:
                return self._of_kind(k, self._gathered(self._row_of(k), member))
            row = self._common_row(k)
            if self.plan.axes[k]:
                return self._of_kind(k, self._gathered(row, instant))
            return self._of_kind(k, self._splat(v.emit(f"load double, ptr {row}")))

        self._begin(load)
        last, _ = self._staged("packed", set())
        below = v.whole_op("add", member, v.whole_op("mul", time, v.integer(self.pitch)))
        for j, k in enumerate(self.program.outputs.values()):
            base = self._at(self.written, str(self.pitch * CHUNK * j))
            name = f"llvm.masked.scatter.v{v.lanes}f64.v{v.lanes}p0"
            v.declared[name] = f"declare void @{name}({v.real}, <{v.lanes} x ptr>, i32, {v.truth})"
            given = f"{v.real} {self._as_real(k)}, <{v.lanes} x ptr> {self._several(base, below)}, i32 8"
            v.lines.append(f"  call void @{name}({given}, {v.truth} {v.boolean(True)})")
        return last

    def _several(self, base: str, offsets: str) -> str:
        return self.v.emit(f"getelementptr i8, ptr {base}, {self.v.whole} {offsets}")

    def _gathered(self, base: str, offsets: str) -> str:
        v = self.v
        name, pointers = f"llvm.masked.gather.v{v.lanes}f64.v{v.lanes}p0", f"<{v.lanes} x ptr>"
        v.declared[name] = f"declare {v.real} @{name}({pointers}, i32, {v.truth}, {v.real})"
        given = f"{pointers} {self._several(base, offsets)}, i32 8, {v.truth} {v.boolean(True)}, {v.real} poison"
        return v.emit(f"call {v.real} @{name}({given})")

    def _row_of(self, k: int) -> str:
        """Return the address of a value kept per member."""
        return self._at("%scratch", str(self.plan.kept.index(k) * self.pitch))

    def _common_row(self, k: int) -> str:
        """Return the address of the values of a step that does not depend on members."""
        return self._at("%common", self.v.emit(f"mul i64 {self.pace}, {self.common.index(k)}"))

    def _of_kind(self, k: int, value: str) -> str:
        """Return a stored number, converted to a truth value if needed."""
        if self.program.steps[k].kind == BOOLEAN:
            return self.v.compare("ne", value, self.v.number(0.0))
        return value

    def _as_real(self, k: int) -> str:
        if self.program.steps[k].kind != BOOLEAN:
            return self.values[k]
        return self.v.select(self.values[k], self.v.number(1.0), self.v.number(0.0))
