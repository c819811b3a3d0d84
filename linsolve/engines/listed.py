"""LLVM IR that evaluates a branch for those vectors that need it, several at once; part of `loop`.

The lanes of a vector are times of a few members, which take different branches at different times (W4 in
``benchmarks/RESULTS.md``). Vectors are cut into pieces of eight times of one member. Steps that all pieces need are
evaluated first, without a jump; pieces that need a branch are listed, and evaluated afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

from linsolve.engines.branches import Branch, Literal, Stage, branches, stages
from linsolve.engines.instructions import Instructions
from linsolve.engines.plan import Plan
from linsolve.engines.program import BOOLEAN, Program
from linsolve.engines.vectors import Vectors

__all__ = ["CHUNK", "EIGHT", "PIECES", "WORTH", "Listed", "branches_of", "scratch_of"]

CHUNK = 64  # times of one member that scratch memory holds at once
EIGHT = 8  # times of one member in a piece: a line of the cache
WORTH = 40  # least cost of a branch that is skipped, in additions
_MOST_GIVEN = 8  # values that are stored for a branch; more cost as much time as is saved
PIECES = CHUNK // EIGHT  # of each member
_LINE = f"<{EIGHT} x double>"


def branches_of(plan: Plan) -> list[Branch]:
    """Return the branches of a plan that are evaluated apart; other stages stay in their place."""
    return _branches(plan.program, tuple(plan.full), tuple(plan.kept), tuple(plan.early))


@lru_cache(maxsize=64)
def _branches(program: Program, full: tuple[int, ...], kept: tuple[int, ...], early: tuple[int, ...]) -> list[Branch]:
    known = {*kept, *early, *(k for k, step in enumerate(program.steps) if step.op == "constant")}
    return [branch for branch in branches(program, list(full), known, WORTH) if len(branch.given) <= _MOST_GIVEN]


def scratch_of(plan: Plan, wide: int) -> int:
    """Return the doubles of scratch memory of a chunk of `wide` members, besides what is kept of them."""
    found = branches_of(plan)
    rows = len(plan.program.outputs) + len(_stored_for(found))
    return wide * CHUNK * rows + _list_of(wide) * max(1, len(found))


def _stored_for(found: list[Branch]) -> list[int]:
    """Return the values that all pieces store for the branches."""
    return sorted({k for branch in found for k in branch.given})


def _list_of(wide: int) -> int:
    """Return the doubles of a list: its length, the pieces, and which lanes of each need the branch."""
    return EIGHT + wide * PIECES + EIGHT + wide + EIGHT


class Listed(Instructions):
    """Stages of one vector, the lists of pieces that need a branch, and the evaluation of these.

    The number of a piece is that of its member in a part, times the pieces of a member, plus that of its times in a
    chunk.

    Parameters
    ----------
    plan : Plan
    v : Vectors
    common : list of int
        Steps in the table of values that do not depend on members.
    wide : int
        Members of a part.
    pitch : int
        Bytes between rows of scratch memory of what is kept of members.
    """

    def __init__(self, plan: Plan, v: Vectors, common: list[int], wide: int, pitch: int) -> None:
        super().__init__(plan.program, v)
        self.plan, self.common, self.wide, self.pitch = plan, common, wide, pitch
        self.many, self.times = v.of_lanes(2 * v.lanes) if v.wide and v.shallow else v, v.lanes
        self.branches: list[Branch] = []
        self.stored: list[int] = []
        self.outputs_at = self.pace = ""
        self.lists: list[tuple[str, str, str]] = []

    def _lay_out(self, begin: str) -> str:
        """Place outputs, values for branches and empty lists in scratch memory; return the address of the lists."""
        self.branches, block = branches_of(self.plan), 8 * self.wide * CHUNK
        self.stored = _stored_for(self.branches)
        self.outputs_at, self.lists = begin, []
        end = self._at(begin, str(block * (len(self.program.outputs) + len(self.stored))))
        for j in range(len(self.branches)):
            number = self._at(end, str(8 * _list_of(self.wide) * j))
            pieces = self._at(number, str(8 * EIGHT))
            self.lists.append((number, pieces, self._at(pieces, str(8 * (self.wide * PIECES + EIGHT)))))
            self.v.lines.append(f"  store i64 0, ptr {number}")
        return end

    def _staged(self, loop: str) -> str:
        """Write the steps that depend on members and times; return the last label.

        Branches are left out, and their results are 0. Other stages are skipped if no lane needs them.
        """
        before, postponed = f"{loop}.body", {j for branch in self.branches for j in branch.places}
        for j, stage in enumerate(stages(self.program, self.plan.full, WORTH)):
            if j in postponed:
                self.values.update((k, "zeroinitializer") for k in stage.results)
            elif stage.when:
                before = self._skipped(f"{loop}.{j}", before, stage)
            else:
                self._steps(stage.steps)
        return before

    @contextmanager
    def _lanes_of(self, other: Vectors) -> Iterator[Vectors]:
        """Write instructions for vectors of other length."""
        before, self.v = self.v, other
        self.v.forget()
        yield self.v
        self.v = before

    def _needed(self, when: frozenset[Literal]) -> str:
        """Return the lanes for which conditions hold."""
        v, needed = self.v, self.v.boolean(True)
        for c, holds in sorted(when):
            needed = v.logic("and", needed, self.values[c] if holds else v.opposite(self.values[c]))
        return needed

    def _skipped(self, name: str, before: str, stage: Stage) -> str:
        """Write steps that are skipped if no lane needs them; return the label of the last block."""
        v = self.v
        any_lane = v.call("i1", f"llvm.vector.reduce.or.v{v.lanes}i1", (v.truth, self._needed(stage.when)))
        v.lines += [f"  br i1 {any_lane}, label %{name}, label %{name}.done", f"{name}:"]
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

    def _listed(self, m: str, t: str) -> None:
        """Store outputs and what branches need, of some times of a few members from `m` and `t` on; list the pieces."""
        v = self.v
        piece = v.emit(f"add i64 {v.emit(f'mul i64 {m}, {PIECES}')}, {v.emit(f'udiv i64 {t}, {EIGHT}')}")
        pieces = [
            (first, v.emit(f"add i64 {piece}, {first // self.times * PIECES + first % self.times // EIGHT}"))
            for first in range(0, v.lanes, EIGHT)
        ]
        for j, k in enumerate([*self.program.outputs.values(), *self.stored]):
            value = self._as_real(k)
            for first, number in pieces:
                some = v.part(value, range(first, first + EIGHT))
                v.lines.append(f"  store {_LINE} {some}, ptr {self._piece_at(j, number)}, align 64")
        for branch, (length, listed, lanes) in zip(self.branches, self.lists, strict=True):
            needed, count = self._needed(branch.when), v.emit(f"load i64, ptr {length}")
            for first, number in pieces:  # each is written over the one before unless that is needed
                bits = v.part(needed, range(first, first + EIGHT), v.truth)
                byte = v.emit(f"bitcast <{EIGHT} x i1> {bits} to i8")
                at = self._at(listed, v.emit(f"shl i64 {count}, 3"))
                v.lines += [f"  store i64 {number}, ptr {at}", f"  store i8 {byte}, ptr {self._at(lanes, count)}"]
                some = v.emit(f"icmp ne i8 {byte}, 0")
                count = v.emit(f"add i64 {count}, {v.emit(f'zext i1 {some} to i64')}")
            v.lines.append(f"  store i64 {count}, ptr {length}")

    def _piece_at(self, j: int, number: str) -> str:
        """Return the address of a piece of the outputs, or of the values that branches need, which follow them."""
        return self._at(self._at(self.outputs_at, str(8 * self.wide * CHUNK * j)), self.v.emit(f"shl i64 {number}, 6"))

    def _branch(self, j: int, p: str, *, count: str, t0: str) -> str:
        """Evaluate a branch for pieces of its list from `p` on, up to `count`; return the label of the last block."""
        with self._lanes_of(self.many) as v:
            branch, (pieces, bits) = self.branches[j], self._entries(j, p, count)
            self._begin(self._loader(pieces, t0))
            self.values.update((c, v.boolean(holds)) for c, holds in branch.when)
            self.decided, last = dict(branch.when), f"branch{j}.body"
            for i, part in enumerate(branch.parts):
                if part.when:
                    last = self._skipped(f"branch{j}.{i}", last, part)
                else:
                    self._steps(part.steps)
            self.decided = {}
            for place, k in enumerate(self.program.outputs.values()):
                if k in branch.outputs:
                    self._put(place, self._as_real(k), pieces, bits)
            return last

    def _entries(self, j: int, p: str, count: str) -> tuple[list[str], list[str]]:
        """Return some pieces of a list, and which of their lanes need the branch; those beyond the list repeat one."""
        v, (_, listed, lanes) = self.v, self.lists[j]
        several = range(v.lanes // EIGHT)
        inside = [v.emit(f"icmp slt i64 {v.emit(f'add i64 {p}, {i}')}, {count}") for i in several]

        def entries(begin: str, size: int, kind: str) -> list[str]:
            found = [v.emit(f"load {kind}, ptr {self._at(begin, str(size * i))}") for i in several]
            return [
                v.emit(f"select i1 {some}, {kind} {a}, {kind} {found[0]}")
                for a, some in zip(found, inside, strict=True)
            ]

        return entries(self._at(listed, v.emit(f"shl i64 {p}, 3")), 8, "i64"), entries(self._at(lanes, p), 1, "i8")

    def _loader(self, pieces: list[str], t0: str) -> Callable[[int], str]:
        """Return a function that loads values for these pieces, of a chunk of times from `t0` on."""
        v = self.v
        members = [v.emit(f"shl i64 {v.emit(f'udiv i64 {piece}, {PIECES}')}, 3") for piece in pieces]
        times = [v.emit(f"mul i64 {v.emit(f'urem i64 {piece}, {PIECES}')}, {EIGHT}") for piece in pieces]
        instants = [v.emit(f"shl i64 {v.emit(f'add i64 {time}, {t0}')}, 3") for time in times]

        def load(k: int) -> str:
            if k in self.plan.kept:
                row = self._row_of(k)
                return self._of_kind(k, self._each([self._at(row, eight) for eight in members], EIGHT))
            if k in self.stored:
                place = len(self.program.outputs) + self.stored.index(k)
                return self._of_kind(k, self._lines([self._piece_at(place, piece) for piece in pieces]))
            row = self._common_row(k)
            if self.plan.axes[k]:
                return self._of_kind(k, self._lines([self._at(row, eight) for eight in instants]))
            return self._of_kind(k, self._splat(v.emit(f"load double, ptr {row}")))

        return load

    def _put(self, place: int, value: str, pieces: list[str], bits: list[str]) -> None:
        """Store the lanes of an output that need the branch."""
        v, name, truth = self.v, f"llvm.masked.store.v{EIGHT}f64.p0", f"<{EIGHT} x i1>"
        v.declared[name] = f"declare void @{name}({_LINE}, ptr, i32, {truth})"
        for i, (piece, byte) in enumerate(zip(pieces, bits, strict=True)):
            some, mask = v.part(value, range(i * EIGHT, (i + 1) * EIGHT)), v.emit(f"bitcast i8 {byte} to {truth}")
            at = self._piece_at(place, piece)
            v.lines.append(f"  call void @{name}({_LINE} {some}, ptr {at}, i32 64, {truth} {mask})")

    def _lines(self, places: list[str]) -> str:
        """Return a vector of pieces in memory."""
        return self.v.joined([self.v.emit(f"load {_LINE}, ptr {place}, align 8") for place in places], EIGHT)

    def _each(self, places: list[str], lanes: int) -> str:
        """Return a vector of numbers in memory, each repeated for so many lanes."""
        v, some, found = self.v, f"<{lanes} x double>", []
        for place in places:
            one = v.emit(f"insertelement {some} poison, double {v.emit(f'load double, ptr {place}')}, i64 0")
            found.append(v.emit(f"shufflevector {some} {one}, {some} poison, <{lanes} x i32> zeroinitializer"))
        return v.joined(found, lanes)

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
