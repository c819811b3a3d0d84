"""Branches that no number takes are skipped: the same bits, whatever numbers stand side by side."""

import numpy as np
import pytest
from fused_cases import FLOWS, NAMES, TIMES, drawn

from linsolve.engines import blocks, branches
from linsolve.engines.blocks import Blocks, _Bench
from linsolve.engines.branches import Stage, stages
from linsolve.engines.constants import UFUNCS
from linsolve.engines.plan import Grid, Tile, plan_of
from linsolve.engines.program import BOOLEAN, Tracer, program_of

LONG = 70  # operations of a branch that is worth skipping


def long(v, step):
    for k in range(LONG):
        v = v * step + k
    return v


def two_branches():
    """Return a program with two long branches, one of which has a long branch of its own."""
    xp = Tracer()
    x, t = xp.input("x"), xp.input("t")
    u = x * t
    inner = xp.where(u < -1, long(u, 0.5), xp.exp(u))
    below, above = long(inner + u, 0.25), long(u, 0.125)
    xp.program.outputs["y"] = xp.where(u < 0, below, above).index
    xp.program.outputs["z"] = xp.where(u < 0, below * 2, x).index
    return xp.program


def nested_branches():
    """Return a program with a branch of which a number may need several parts, and one that excludes it."""
    xp = Tracer()
    x, t = xp.input("x"), xp.input("t")
    u = xp.exp(x * t)
    inner = xp.where(t > 1, long(u, 0.5), long(x + t, 0.25))
    outer = xp.where(x < 0, inner, xp.where(u > 2, long(u, 0.125), u))
    xp.program.outputs["y"] = (outer + u).index
    xp.program.outputs["z"] = xp.where(x < 0, xp.where(u < 0.5, long(outer * u, 0.5), outer), x).index
    return xp.program


def shared_branches():
    """Return a program with a branch that excludes each of two others, but not what is common to these."""
    xp = Tracer()
    x, t = xp.input("x"), xp.input("t")
    u = xp.exp(x * t)
    first, second = xp.where(u < 0.5, long(u, 0.5), 0.0), xp.where(t > 1, long(u + t, 0.25), 0.0)
    third = xp.where(u < 0.5, 0.0, xp.where(t > 1, 0.0, long(u, 0.125)))
    xp.program.outputs["y"] = xp.where(x < 0, first + second + third, u).index
    return xp.program


def polynomial_branches():
    """Return a program with a polynomial whose coefficients are of branches that exclude each other."""
    xp = Tracer()
    x, t = xp.input("x"), xp.input("t")
    u = x * t
    first, second = xp.where(u < 0, long(u, 0.5), 0.0), xp.where(u < 0, 0.25, long(u, 0.125))
    xp.program.outputs["y"] = u.fused(u.fused(second, 2.5), first).index
    return xp.program


def chosen_twice():
    """Return a program with results of long branches that are chosen twice, or as truth values, or within a branch."""
    xp = Tracer()
    x, t = xp.input("x"), xp.input("t")
    u = x * t
    slow, rare = long(u, 1.0), long(u + t, 0.875)
    mixed = xp.where(u < 0, slow, xp.where(u < 0.2, xp.where(t > 1, long(u, 0.125), x) + rare, t))
    sign = xp.where(u < -0.1, long(u, 0.75) > 2, u > 1)
    xp.program.outputs["y"] = xp.where(sign, mixed, xp.where(u < 0, slow, u)).index
    within = long(xp.where(u < -1, long(u, 1.0), x), 1.0)
    xp.program.outputs["z"] = (xp.where(u < 0.2, rare, 1.0) + xp.where(x < 0, within, u)).index
    return xp.program


def simulated(program, steps, found, given):
    """Evaluate the stages; a step that is skipped where its conditions do not hold is a wrong number there."""
    shape, values = np.broadcast_shapes(*(v.shape for v in given.values())), {}
    for k in program.used():
        step = program.steps[k]
        if step.op in ("input", "constant"):
            values[k] = np.broadcast_to(given[step.data] if step.op == "input" else step.data, shape)

    def compute(k):
        step = program.steps[k]
        function = {"where": np.where, "astype": lambda v: v.astype(float)}.get(step.op) or UFUNCS[step.op]
        values[k] = function(*(values[a] for a in step.args))

    with np.errstate(all="ignore"):
        for k in (k for k in program.used() if k not in values and k not in steps):
            compute(k)
        for stage in found:
            taken = np.ones(shape, dtype=bool)
            for c, holds in stage.when:
                taken = taken & (values[c] == holds)
            for k in stage.steps:
                assert k in steps
                compute(k)
                values[k] = np.where(taken, values[k], False if program.steps[k].kind == BOOLEAN else 7.25)
    return {name: values[k] for name, k in program.outputs.items()}


def whole(program):
    return [k for k in program.used() if program.steps[k].op not in ("input", "constant")]


def test_two_branches_and_one_within_are_stages():
    program = two_branches()
    found = stages(program, whole(program), 60)
    assert sorted(k for stage in found for k in stage.steps) == whole(program)
    assert len({stage.when for stage in found}) == 4  # none, below 0, below -1, above 0
    assert sum(len(stage.steps) for stage in found if not stage.when) < 0.1 * len(whole(program))
    for j, stage in enumerate(found):
        others = found[j + 1 :]
        taken = {k for other in others for k in other.given} | {c for other in others for c, _ in other.when}
        assert set(stage.results) == set(stage.steps) & (taken | set(program.outputs.values()))


def test_a_cheap_branch_is_not_skipped():
    program = two_branches()
    assert [stage.steps for stage in stages(program, whole(program), 10**6)] == [whole(program)]


@pytest.mark.parametrize("worth", [1, 20, 60])
@pytest.mark.parametrize("cls", FLOWS, ids=lambda c: c.__name__)
@pytest.mark.quick(3)
def test_steps_are_skipped_only_where_no_output_needs_them(cls, worth):
    flow, z0 = drawn(cls, np.random.default_rng(0), (500,))
    program = program_of(cls, NAMES[cls])
    given = {**flow.parameters(), **{f"start.{n}": v for n, v in zip(z0._fields, z0, strict=True)}, "t": TIMES[:, None]}
    grid = Grid((9, 1, 500), {n: np.reshape(v, (-1, 1, 1) if n == "t" else (1, 1, -1)) for n, v in given.items()})
    steps = plan_of(program, grid).full
    every = simulated(program, steps, [Stage(frozenset(), steps, [], [])], given)
    for name, v in simulated(program, steps, stages(program, steps, worth), given).items():
        assert v.tobytes() == every[name].tobytes()


@pytest.mark.parametrize("wrong", [False, True])
def test_machine_code_skips_nothing_that_a_lane_needs(wrong, monkeypatch):
    pytest.importorskip("llvmlite")
    from linsolve.engines import compiled, listed
    from linsolve.engines.compiled import Compiled

    program, rng = two_branches(), np.random.default_rng(1)
    x = np.sort(rng.uniform(-2, 2, 200))  # lanes of one branch, of both, and across their border
    grid = Grid((4, 1, 200), {"x": x.reshape(1, 1, -1), "t": np.array([-1.0, 0.0, 0.7, 3.0]).reshape(-1, 1, 1)})

    def computed(worth):
        monkeypatch.setattr(compiled, "_made", {})
        monkeypatch.setattr(listed, "WORTH", worth)
        made, out = Compiled(program, grid), {name: np.empty(grid.shape) for name in program.outputs}
        assert ("llvm.vector.reduce.or" in made.machine.text) == (worth == 40)  # the jumps over a stage
        assert made(Tile(0, 4, 0, 1, 0, 200), out)
        return np.stack(list(out.values()))

    every = computed(10**6)
    if wrong:  # a stage that takes one condition the other way
        needed = branches._needed
        turned = lambda *args: {k: frozenset((c, not h) for c, h in w) for k, w in needed(*args).items()}  # noqa: E731
        monkeypatch.setattr(branches, "_needed", turned)
        branches._stages.cache_clear()
    assert (computed(40).tobytes() == every.tobytes()) is not wrong


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 1.0])
@pytest.mark.quick(4)
def test_blocks_evaluate_a_branch_where_it_is_taken(share, monkeypatch):
    program, rng = two_branches(), np.random.default_rng(2)
    x = np.where(rng.random(300) < share, -1.0, 1.0) * rng.uniform(0.1, 2.0, 300)
    grid = Grid((5, 1, 300), {"x": x.reshape(1, 1, -1), "t": rng.uniform(0.5, 3, (5, 1, 1))})
    seen = []
    some = _Bench._run_some
    monkeypatch.setattr(_Bench, "_run_some", lambda self, *args: seen.append(args[2].size) or some(self, *args))
    found = {name: np.empty(grid.shape) for name in program.outputs}
    assert Blocks(program, grid)(Tile(0, 5, 0, 1, 0, 300), found)
    given = {"x": x, "t": grid.given["t"][:, :, 0]}
    every = simulated(program, whole(program), [Stage(frozenset(), whole(program), [], [])], given)
    for name, v in found.items():
        assert v[:, 0].tobytes() == every[name].tobytes()
    taken = 5 * np.count_nonzero(x < 0)
    assert taken in seen or taken > 900  # a branch that most numbers take is evaluated for the whole block


@pytest.mark.parametrize("program", [two_branches, nested_branches, shared_branches, polynomial_branches, chosen_twice])
def test_blocks_with_few_and_many_numbers_in_a_branch_keep_every_bit(program, monkeypatch):
    program, rng, shape = program(), np.random.default_rng(5), (60, 1, 300)
    monkeypatch.setattr(blocks, "OUTPUTS", shape[2])
    monkeypatch.setattr(blocks, "_BRANCHED", 1)  # one time in a block
    share = rng.choice([0.0, 0.02, 0.5, 1.0], shape[:1]).reshape(-1, 1, 1)
    x = np.where(rng.random(shape) < share, -1, 1) * rng.uniform(0, 2, shape)
    t = rng.choice([-1e-3, 0.0, 0.01, 0.9, 3.0, 40.0], shape[:1]).reshape(-1, 1, 1)
    for v in (x, x[:1]):
        found = {name: np.empty(shape) for name in program.outputs}
        with np.errstate(all="ignore"):
            Blocks(program, Grid(shape, {"x": v, "t": t}))(Tile(0, shape[0], 0, 1, 0, shape[2]), found)
        steps = [Stage(frozenset(), whole(program), [], [])]
        every = simulated(program, whole(program), steps, {"x": v[:, 0], "t": t[:, 0]})
        for name, value in found.items():
            np.testing.assert_array_equal(value[:, 0], every[name])


def test_an_error_leaves_no_choice_behind():
    xp = Tracer()
    u = xp.input("x") * xp.input("t")
    below = long(u, 0.25)
    xp.program.outputs["l"] = xp.log(xp.where(u < 0, below, u)).index
    xp.program.outputs["w"] = xp.where(u < 0, long(below, 0.5), u + 0.5).index
    shape, t = (5, 1, 300), np.linspace(1, 1.1, 5).reshape(5, 1, 1)

    def ask(x):
        out = {name: np.empty(shape) for name in xp.program.outputs}
        Blocks(xp.program, Grid(shape, {"x": x.reshape(1, 1, -1), "t": t}))(Tile(0, 5, 0, 1, 0, 300), out)
        return out

    with np.errstate(all="ignore"):
        right = ask(np.full(300, -1.0))
    x = np.ones(300)
    x[3], x[7] = -1, 0
    with np.errstate(divide="raise", invalid="ignore"), pytest.raises(FloatingPointError):
        ask(x)
    with np.errstate(all="ignore"):
        found = ask(np.full(300, -1.0))
    for name, v in right.items():
        np.testing.assert_array_equal(found[name], v)


def test_a_result_that_is_only_chosen_is_written_over_the_other_value():
    program = two_branches()
    grid = Grid((5, 1, 300), {"x": np.ones((1, 1, 300)), "t": np.ones((5, 1, 1))})
    assert _Bench(plan_of(program, grid), 300).joined


def test_times_of_one_member_side_by_side_give_the_bits_of_members_at_one_time(monkeypatch):
    pytest.importorskip("llvmlite")
    from linsolve.engines import compiled
    from linsolve.engines.compiled import Compiled

    program, rng = two_branches(), np.random.default_rng(3)
    monkeypatch.setattr(compiled, "_made", {})
    for times, rows, columns in ((130, 1, 201), (33, 3, 7), (64, 1, 64), (40, 5, 1)):
        given = {"x": rng.uniform(-2, 2, (1, rows, columns)), "t": rng.uniform(-1, 3, (times, 1, 1))}
        found = []
        for least in (10**6, 32):
            monkeypatch.setattr(compiled, "_TIMES", least)
            made = Compiled(program, Grid((times, rows, columns), given))
            out = {name: np.empty((times, rows, columns)) for name in program.outputs}
            assert all(made(tile, {name: tile.of(v) for name, v in out.items()}) for tile in made.tiles())
            found.append(np.stack(list(out.values())))
        np.testing.assert_array_equal(*found)
        given["x"][0, -1, -1] = np.inf
        assert not all(made(tile, {name: tile.of(v) for name, v in out.items()}) for tile in made.tiles())


@pytest.mark.parametrize("wrong", [False, True])
@pytest.mark.parametrize("program", [two_branches, nested_branches, shared_branches, polynomial_branches])
def test_branches_of_listed_vectors_keep_every_bit(program, wrong, monkeypatch):
    pytest.importorskip("llvmlite")
    from linsolve.engines import compiled, listed
    from linsolve.engines.compiled import Compiled

    program, rng = program(), np.random.default_rng(4)
    if wrong:  # a list that leaves out the last lane of a vector
        needed = listed.Listed._needed

        def short(self, when):
            most = ", ".join(f"i1 {int(k < self.v.lanes - 1)}" for k in range(self.v.lanes))
            return self.v.logic("and", needed(self, when), f"<{most}>")

        monkeypatch.setattr(listed.Listed, "_needed", short)
    same, every = [], listed.branches_of
    for times, rows, columns in ((130, 1, 201), (33, 3, 7), (64, 1, 64), (40, 5, 1), (64, 1, 2)):
        given = {"x": rng.uniform(-2, 2, (1, rows, columns)), "t": rng.uniform(-1, 3, (times, 1, 1))}
        found = []
        for chosen in (every, lambda plan: []):
            monkeypatch.setattr(listed, "branches_of", chosen)
            monkeypatch.setattr(compiled, "_made", {})
            made = Compiled(program, Grid((times, rows, columns), given))
            assert bool(listed.branches_of(made.plan)) == (chosen is every)
            out = {name: np.zeros((times, rows, columns)) for name in program.outputs}
            assert all(made(tile, {name: tile.of(v) for name, v in out.items()}) for tile in made.tiles())
            found.append(np.stack(list(out.values())))
        same.append(found[0].tobytes() == found[1].tobytes())
    assert all(same) is not wrong
