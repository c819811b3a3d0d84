"""LLVM IR that evaluates a branch for those vectors that need it, side by side; part of `loop`.

The lanes of a vector are times of a few members, which take different branches at different times (W4 in
``benchmarks/RESULTS.md``). Vectors are cut into pieces of eight times of one member. What all of them need is evaluated
first, without a jump; pieces that need a branch are listed, and evaluated several at once afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

from linsolve.engines.branches import Literal, Stage, stages
from linsolve.engines.instructions import Instructions
from linsolve.engines.plan import Plan
from linsolve.engines.program import BOOLEAN, FUSED, Program
from linsolve.engines.vectors import Vectors

__all__ = ["CHUNK", "EIGHT", "WORTH", "Branch", "Packed", "branches_of", "scratch_of"]

CHUNK = 64  # times of one member that are written at once
EIGHT = 8  # times of one member in a piece: a line of the cache
WORTH = 40  # least cost of a branch that is skipped, in additions
_MOST_GIVEN = 8  # values that are stored for a branch; more cost as much time as is saved
_PIECES = CHUNK // EIGHT  # of each member
_LINE = f"<{EIGHT} x double>"


class Branch(NamedTuple):
    """Stages under common conditions, and the steps that depend on them, evaluated apart from the others.

    Parameters
    ----------
    when : frozenset of (int, bool)
        The common conditions.
    places : frozenset of int
        Places of the stages among all stages.
    parts : list of Stage
        These stages, with their further conditions, and the steps without conditions that depend on them, in order.
    given : list of int
        Earlier values that they need, besides those of members, of times, and constants.
    outputs : list of int
        Steps among them that are outputs.
    """

    when: frozenset[Literal]
    places: frozenset[int]
    parts: list[Stage]
    given: list[int]
    outputs: list[int]


def branches_of(plan: Plan) -> list[Branch]:
    """Return the branches of a plan that no number needs together with another; other stages stay in their place."""
    return _branches(plan.program, tuple(plan.full), tuple(plan.kept), tuple(plan.early))


@lru_cache(maxsize=64)
def _branches(program: Program, full: tuple[int, ...], kept: tuple[int, ...], early: tuple[int, ...]) -> list[Branch]:
    found = stages(program, list(full), WORTH)
    groups: list[tuple[frozenset[Literal], list[int]]] = []  # common conditions, and the stages
    for j in (j for j, stage in enumerate(found) if stage.when):
        when, group = found[j].when, [j]
        while near := [other for other in groups if not _exclude(when, other[0])]:
            groups = [other for other in groups if other not in near]
            when = frozenset.intersection(when, *(common for common, _ in near))
            group = sorted([*group, *(i for _, others in near for i in others)])
        groups.append((when, group))
    known = {*kept, *early, *(k for k, step in enumerate(program.steps) if step.op == "constant")}
    made = [_branch(program, found, group, when, known) for when, group in groups if when]
    return [branch for branch in made if len(branch.given) <= _MOST_GIVEN]


def _exclude(when: frozenset[Literal], other: frozenset[Literal]) -> bool:
    return any((c, not holds) in other for c, holds in when)


def _branch(
    program: Program, found: list[Stage], group: list[int], when: frozenset[Literal], known: set[int]
) -> Branch:
    decided, own, parts, used = dict(when), set[int](), list[Stage](), set[int]()
    for j, stage in enumerate(found):
        if j in group:
            steps, rest = stage.steps, stage.when - when
        elif not stage.when:
            steps, rest = _dependent(program, stage.steps, own, decided), frozenset[Literal]()
        else:
            continue
        if steps:
            own.update(steps)
            parts.append(Stage(rest, steps, [], stage.results))
            used.update(a for k in steps for a in _arguments(program, k, decided))
            used.update(c for c, _ in rest)
    outputs = [k for k in program.outputs.values() if k in own]
    return Branch(when, frozenset(group), parts, sorted(used - own - known - set(decided)), outputs)


def _dependent(program: Program, steps: list[int], own: set[int], decided: dict[int, bool]) -> list[int]:
    """Return the steps that depend on `own`, and the products that are fused with their sums."""
    found = set[int]()
    for k in steps:
        if any(a in own or a in found for a in _arguments(program, k, decided)):
            found.add(k)
    fused = {program.steps[k].args[0] for k in found if program.steps[k].data == FUSED}
    return [k for k in steps if k in found or k in fused]


def _arguments(program: Program, k: int, decided: dict[int, bool]) -> tuple[int, ...]:
    """Return the arguments of a step that it needs where some conditions are known."""
    step = program.steps[k]
    if step.op == "where" and step.args[0] in decided:
        return (step.args[1 if decided[step.args[0]] else 2],)
    return step.args


def scratch_of(plan: Plan, wide: int) -> int:
    """Return the doubles of scratch memory of a chunk of `wide` members, besides what is kept of them."""
    found = branches_of(plan)
    given = {k for branch in found for k in branch.given}
    return wide * CHUNK * (len(plan.program.outputs) + len(given)) + _list_of(wide) * max(1, len(found))


def _list_of(wide: int) -> int:
    """Return the doubles of a list: its length, the pieces, and which lanes of each need the branch."""
    return EIGHT + wide * _PIECES + EIGHT + wide + EIGHT


class Packed(Instructions):
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
        self.written = self.pace = ""
        self.lists: list[tuple[str, str, str]] = []

    def _lay_out(self, begin: str) -> str:
        """Place outputs, values that branches need, and lists in scratch memory; write empty lists."""
        self.branches, block = branches_of(self.plan), 8 * self.wide * CHUNK
        self.stored = sorted({k for branch in self.branches for k in branch.given})
        self.written, self.lists = begin, []
        end = self._at(begin, str(block * (len(self.program.outputs) + len(self.stored))))
        for j in range(len(self.branches)):
            number = self._at(end, str(8 * _list_of(self.wide) * j))
            pieces = self._at(number, str(8 * EIGHT))
            self.lists.append((number, pieces, self._at(pieces, str(8 * (self.wide * _PIECES + EIGHT)))))
            self.v.lines.append(f"  store i64 0, ptr {number}")
        return end

    def _staged(self, loop: str) -> str:
        """Write the steps of members and times, without those of branches, whose results are 0; return the last label.

        Other stages are skipped if no lane needs them.
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
        piece = v.emit(f"add i64 {v.emit(f'mul i64 {m}, {_PIECES}')}, {v.emit(f'sdiv i64 {t}, {EIGHT}')}")
        pieces = [
            (first, v.emit(f"add i64 {piece}, {first // self.times * _PIECES + first % self.times // EIGHT}"))
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
                places = f"<{EIGHT} x i32> <{', '.join(f'i32 {k}' for k in range(first, first + EIGHT))}>"
                bits = v.emit(f"shufflevector {v.truth} {needed}, {v.truth} poison, {places}")
                byte = v.emit(f"bitcast <{EIGHT} x i1> {bits} to i8")
                at = self._at(listed, v.emit(f"shl i64 {count}, 3"))
                v.lines += [f"  store i64 {number}, ptr {at}", f"  store i8 {byte}, ptr {self._at(lanes, count)}"]
                some = v.emit(f"icmp ne i8 {byte}, 0")
                count = v.emit(f"add i64 {count}, {v.emit(f'zext i1 {some} to i64')}")
            v.lines.append(f"  store i64 {count}, ptr {length}")

    def _piece_at(self, j: int, number: str) -> str:
        """Return the address of a piece of the outputs, or of the values that branches need, which follow them."""
        return self._at(self._at(self.written, str(8 * self.wide * CHUNK * j)), self.v.emit(f"shl i64 {number}, 6"))

    def _packed(self, j: int, p: str, *, count: str, t0: str) -> str:
        """Evaluate a branch for the pieces of its list from `p` on, up to `count`; pieces beyond repeat one."""
        with self._lanes_of(self.many) as v:
            return self._evaluated(v, j, p, count, t0)

    def _evaluated(self, v: Vectors, j: int, p: str, count: str, t0: str) -> str:
        branch, (_, listed, lanes) = self.branches[j], self.lists[j]
        several = range(v.lanes // EIGHT)
        here = self._at(listed, v.emit(f"shl i64 {p}, 3")), self._at(lanes, p)
        inside = [v.emit(f"icmp slt i64 {v.emit(f'add i64 {p}, {i}')}, {count}") for i in several]

        def entries(begin: str, size: int, kind: str) -> list[str]:
            found = [v.emit(f"load {kind}, ptr {self._at(begin, str(size * i))}") for i in several]
            return [
                v.emit(f"select i1 {some}, {kind} {a}, {kind} {found[0]}")
                for a, some in zip(found, inside, strict=True)
            ]

        pieces, bits = entries(here[0], 8, "i64"), entries(here[1], 1, "i8")
        members = [v.emit(f"ashr i64 {piece}, {_PIECES.bit_length() - 1}") for piece in pieces]
        times = [v.emit(f"and i64 {piece}, {_PIECES - 1}") for piece in pieces]
        instants = [v.emit(f"add i64 {v.emit(f'mul i64 {time}, {EIGHT}')}, {t0}") for time in times]

        def load(k: int) -> str:
            if k in self.plan.kept:
                row = self._row_of(k)
                return self._of_kind(k, self._each([self._at(row, v.emit(f"shl i64 {m}, 3")) for m in members], EIGHT))
            if k in self.stored:
                place = len(self.program.outputs) + self.stored.index(k)
                return self._of_kind(k, self._lines([self._piece_at(place, piece) for piece in pieces]))
            row = self._common_row(k)
            if self.plan.axes[k]:
                return self._of_kind(k, self._lines([self._at(row, v.emit(f"shl i64 {t}, 3")) for t in instants]))
            return self._of_kind(k, self._splat(v.emit(f"load double, ptr {row}")))

        self._begin(load)
        self.decided = dict(branch.when)
        self.values.update((c, v.boolean(holds)) for c, holds in branch.when)
        last = f"packed{j}.body"
        for i, part in enumerate(branch.parts):
            if part.when:
                last = self._skipped(f"packed{j}.{i}", last, part)
            else:
                self._steps(part.steps)
        self.decided = {}
        name = f"llvm.masked.store.v{EIGHT}f64.p0"
        v.declared[name] = f"declare void @{name}({_LINE}, ptr, i32, <{EIGHT} x i1>)"
        for place, k in enumerate(self.program.outputs.values()):
            if k not in branch.outputs:
                continue
            value = self._as_real(k)
            for i, (piece, byte) in enumerate(zip(pieces, bits, strict=True)):
                some = v.part(value, range(i * EIGHT, (i + 1) * EIGHT))
                mask = v.emit(f"bitcast i8 {byte} to <{EIGHT} x i1>")
                given = f"{_LINE} {some}, ptr {self._piece_at(place, piece)}, i32 64, <{EIGHT} x i1> {mask}"
                v.lines.append(f"  call void @{name}({given})")
        return last

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
