"""Steps that only one branch of a `where` needs, which a loop skips, or evaluates apart for the numbers that take it.

See W4 in ``benchmarks/RESULTS.md``: most outputs are in the tail of a deep mode, and need no step of its head.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from linsolve.engines.program import FUSED, Program

__all__ = ["Branch", "Literal", "Stage", "branches", "stages"]

Literal = tuple[int, bool]  # a condition, and whether it holds
_COST = {"exp": 20, "expm1": 30, "log": 30, "log1p": 40, "pow": 80, "hypot": 40, "div": 5, "sqrt": 5, "where": 1}
_CALL = 100  # cost of a function of the C library
_CHEAP = {"add", "sub", "mul", "neg", "abs", "minimum", "maximum", "sign", "lt", "le", "gt", "ge", "eq", "ne", "and",
          "or", "xor", "not", "isinf", "isnan", "isfinite", "astype"}  # fmt: skip


class Stage(NamedTuple):
    """Steps, in order, needed only where all conditions hold as given; without conditions, needed everywhere.

    Parameters
    ----------
    when : frozenset of (int, bool)
        Conditions, and whether each must hold.
    steps : list of int
    given : list of int
        Earlier steps that are arguments.
    results : list of int
        Steps that are outputs, or arguments or conditions of later stages.
    """

    when: frozenset[Literal]
    steps: list[int]
    given: list[int]
    results: list[int]


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


def stages(program: Program, steps: list[int], worth: int) -> list[Stage]:
    """Return the steps, given in order, as stages in an order in which each step follows its arguments.

    A step that is needed under conditions is computed in a stage with these conditions or fewer of them; the conditions
    are known before. The least cost of a stage with conditions is `worth`, in additions.
    """
    return _stages(program, tuple(steps), worth)


@lru_cache(maxsize=64)
def _stages(program: Program, steps: tuple[int, ...], worth: int) -> list[Stage]:
    own = set(steps)
    chosen = _worth_skipping(program, _needed(program, steps), steps, worth)
    known, left, found = set[int](), list(steps), list[tuple[frozenset[Literal], list[int]]]()

    def ready(k: int, when: frozenset[Literal]) -> bool:
        known_before = all(a in known or a not in own for a in (*program.steps[k].args, *(c for c, _ in when)))
        return chosen[k] == when and known_before

    when = frozenset[Literal]()
    while left:
        taken = []
        for k in left:
            if ready(k, when):
                known.add(k)
                taken.append(k)
        if taken:
            found.append((when, taken))
            left = [k for k in left if k not in known]
        # unconditional steps first, then the conditions of the first step that waits for nothing
        when = frozenset() if when else next((chosen[k] for k in left if ready(k, chosen[k])), when)
    return _with_ends(program, found)


def _cost(program: Program, k: int) -> int:
    op = program.steps[k].op
    return _COST.get(op, 1 if op in _CHEAP else _CALL)


def _with_ends(program: Program, parts: list[tuple[frozenset[Literal], list[int]]]) -> list[Stage]:
    """Return the stages with the steps that they take from earlier ones, and that others take from them."""
    found, later = list[Stage](), set(program.outputs.values())
    for when, steps in reversed(parts):
        given = {a for k in steps for a in program.steps[k].args} - set(steps)
        found.append(Stage(when, steps, sorted(given), [k for k in steps if k in later]))
        later |= given | {c for c, _ in when}
    return found[::-1]


def _needed(program: Program, steps: tuple[int, ...]) -> dict[int, frozenset[Literal]]:
    """Return conditions that hold wherever a step is needed."""
    found: dict[int, frozenset[Literal]] = {k: frozenset() for k in program.outputs.values()}
    for k in reversed(steps):
        step, here = program.steps[k], found[k]
        for place, a in enumerate(step.args):
            when = here
            if step.op == "where" and place and step.args.count(a) == 1:
                when = here | {(step.args[0], place == 1)}
            found[a] = found[a] & when if a in found else when
    return found


def _worth_skipping(
    program: Program, needed: dict[int, frozenset[Literal]], steps: tuple[int, ...], worth: int
) -> dict[int, frozenset[Literal]]:
    """Return the conditions of each step, without those under which only a few cheap steps would be skipped."""
    costs: dict[frozenset[Literal], int] = {}
    for k in steps:
        costs[needed[k]] = costs.get(needed[k], 0) + _cost(program, k)
    kept = sorted((when for when, cost in costs.items() if cost >= worth and when), key=len, reverse=True)
    return {k: next((when for when in kept if when <= needed[k]), frozenset()) for k in steps}


def branches(program: Program, steps: list[int], known: set[int], worth: int) -> list[Branch]:
    """Return the branches that no number needs together with another one; other stages are not among them.

    Values of the steps `known` are at hand, and are not among what a branch is given.
    """
    found = stages(program, steps, worth)
    groups: list[tuple[frozenset[Literal], list[int]]] = []  # common conditions, and the stages
    for j in (j for j, stage in enumerate(found) if stage.when):
        when, group = found[j].when, [j]
        while near := [other for other in groups if not _exclude(when, other[0])]:
            groups = [other for other in groups if other not in near]
            when = frozenset.intersection(when, *(common for common, _ in near))
            group = sorted([*group, *(i for _, others in near for i in others)])
        groups.append((when, group))
    return [_branch(program, found, group, when, known) for when, group in groups if when]


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
            given = {a for k in steps for a in _arguments(program, k, decided)} - set(steps)
            parts.append(Stage(rest, steps, sorted(given), stage.results))
            used.update(given, (c for c, _ in rest))
    outputs = [k for k in program.outputs.values() if k in own]
    return Branch(when, frozenset(group), parts, sorted(used - own - known - set(decided)), outputs)


def _dependent(program: Program, steps: list[int], own: set[int], decided: dict[int, bool]) -> list[int]:
    """Return the steps that depend on `own`, and the polynomials that they are terms of, which are one operation."""
    found = set[int]()
    for k in steps:
        if any(a in own or a in found for a in _arguments(program, k, decided)):
            found.add(k)
    for k in reversed(steps):
        if k in found and program.steps[k].data == FUSED:
            product = program.steps[k].args[0]
            found |= {product, *(a for a in program.steps[product].args if program.steps[a].data == FUSED)}
    return [k for k in steps if k in found]


def _arguments(program: Program, k: int, decided: dict[int, bool]) -> tuple[int, ...]:
    """Return the arguments of a step that it needs where some conditions are known."""
    step = program.steps[k]
    if step.op == "where" and step.args[0] in decided:
        return (step.args[1 if decided[step.args[0]] else 2],)
    return step.args
