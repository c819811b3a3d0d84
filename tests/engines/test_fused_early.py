"""Values and buffers kept between calls of blocks: the same bits, warnings, and no aliases."""

import threading
import warnings

import numpy as np
import pytest
from fused_cases import TIMES, drawn

import linsolve as ls
from linsolve.engines import blocks, constants
from linsolve.engines.blocks import Blocks
from linsolve.engines.constants import early_values
from linsolve.engines.evaluate import evaluate
from linsolve.engines.plan import Grid, plan_of, share_of
from linsolve.engines.program import Tracer, program_of

NUMBERS = [0.0, -0.0, 5e-324, -(2.0**-1030), 2.0**-1022, 1e-160, 0.1, -0.5, 1.0, 3.0, -40.0, 1e160, -1.7e308, np.inf,
           -np.inf, np.nan, -np.nan]  # fmt: skip


def every_operation():
    """Return a program of all that formulas do, of two numbers, a time and a member, twice over."""
    xp = Tracer()
    a, b, t, m = (xp.input(name) for name in "abtm")
    found = [a, b]
    for x, y in ((a, b), (b, a), (a * b, a - b)):
        found += [x + y, x - y, x * y, x / y, -x, abs(x), x**2, xp.sqrt(x), xp.exp(x), xp.log1p(y), xp.minimum(x, y)]
        truths = [x < y, x <= y, x > y, x >= y, x == y, x != y, xp.isinf(x), xp.isnan(y), xp.isfinite(x)]
        truths += [truths[0] & truths[4], truths[1] | truths[6], ~truths[2]]
        found += [xp.astype(v, "real") for v in truths] + [xp.where(v, x, y) for v in truths[:3]]
        found += [xp.where(truths[0], x, y) ** 2, xp.where(truths[0], x, y) / y, t * x, (t - x) / y]
    for k, value in enumerate(found):
        xp.program.outputs[f"y{k}"] = value.index
        xp.program.outputs[f"m{k}"] = (m * value).index
    return xp.program


def numbers(a, b, t=(0.0, 0.5, np.inf), shape=()):
    t = np.reshape(t, (-1, 1, 1))
    m = np.linspace(1.0, 2.0, 3).reshape(1, 1, 3)
    return Grid((len(t), 1, 3), {"a": np.full(shape, a), "b": np.full(shape, b), "t": t, "m": m})


def by_numpy(plan, given):
    """Return the values with NumPy alone."""
    values, steps = {}, plan.program.steps
    for k in plan.early:
        step = steps[k]
        if step.op == "constant" and step.kind == "boolean":
            values[k] = step.data
        else:
            values[k] = constants.by_numpy(step, [values[a] for a in step.args], given)
    return {k: np.asarray(values[k], dtype=bool if steps[k].kind == "boolean" else float) for k in plan.common}


def same(found, expected):
    assert found.keys() == expected.keys()
    return all(found[k].shape == expected[k].shape and found[k].tobytes() == expected[k].tobytes() for k in expected)


@pytest.mark.parametrize("shape", [(), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("a", NUMBERS, ids=repr)
@pytest.mark.quick(11)
def test_numbers_of_python_have_the_bits_of_numpy(a, shape):
    program = every_operation()
    for b in NUMBERS:
        grid = numbers(a, b, shape=shape)
        plan = plan_of(program, grid)
        with np.errstate(all="ignore"):
            expected = by_numpy(plan, grid.given)
            assert same(constants._computed(plan, grid.given), expected)
            assert same(early_values(plan, grid), expected)
            assert same(early_values(plan, grid), expected)  # kept


def test_a_function_that_rounds_otherwise_is_rejected(monkeypatch):
    program, grid = every_operation(), numbers(0.1, 3.0)
    plan = plan_of(program, grid)
    monkeypatch.setitem(constants._PRODUCTS, "div", lambda x, y: x * (1 / y))
    constants._recipe.cache_clear()
    with np.errstate(all="ignore"):
        assert not same(constants._computed(plan, grid.given), by_numpy(plan, grid.given))
    constants._recipe.cache_clear()


@pytest.mark.parametrize(("a", "b", "kind"), [(1.0, 0.0, "divide"), (1e200, 1e200, "over"), (-1.0, 1.0, "invalid"),
                                              (1e-200, 1e-200, "under")])  # fmt: skip
def test_numpy_has_its_say_every_time(a, b, kind):
    xp = Tracer()
    x, y = xp.input("a"), xp.input("b")
    value = xp.sqrt(x) if kind == "invalid" else x / y if kind == "divide" else x * y
    xp.program.outputs["y"] = (value * xp.input("m")).index
    grid = numbers(a, b)
    plan = plan_of(xp.program, grid)
    with np.errstate(all="ignore"):
        early_values(plan, grid)
    for _ in range(2):
        with np.errstate(**{kind: "raise"}), pytest.raises(FloatingPointError):
            early_values(plan, grid)
        with np.errstate(**{kind: "warn"}), warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            early_values(plan, grid)
        assert len(seen) == 1


def test_values_that_are_kept_are_not_those_of_the_caller():
    xp = Tracer()
    xp.program.outputs["y"] = (xp.input("t") + xp.input("m")).index
    xp.program.outputs["t"] = xp.program.inputs["t"]
    grid = numbers(1.0, 1.0, t=[1.0, 2.0])
    plan = plan_of(xp.program, grid)
    k = xp.program.inputs["t"]
    assert early_values(plan, grid)[k].ravel().tolist() == [1.0, 2.0]
    grid.given["t"][0] = 7.0
    assert early_values(plan, grid)[k].ravel().tolist() == [7.0, 2.0]
    grid.given["t"][0] = 1.0
    assert early_values(plan, grid)[k].ravel().tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        early_values(plan, grid)[k][0] = 3.0


@pytest.fixture
def none_idle(monkeypatch):
    found = []
    monkeypatch.setattr(blocks, "_idle", found)
    return found


def ensemble(seed, members=9000):
    return drawn(ls.BalancedMode, np.random.default_rng(seed), (members,), 1)


def test_buffers_are_used_by_the_next_call_and_nothing_handed_out_is_in_them(none_idle, monkeypatch):
    made = []
    monkeypatch.setattr(
        blocks._Bench, "__init__", lambda self, *a, of=blocks._Bench.__init__: made.append(1) or of(self, *a)
    )
    answers = []
    for seed in range(4):
        flow, z0 = ensemble(seed)
        answers.append((flow, z0, evaluate(flow, TIMES, z0, ("a", "loss"), engine="blocks", threads=1)))
    assert len(made) < 6  # two a call without: of the conditions, and of the program, of which there may be variants
    for flow, z0, found in answers:
        plain = flow(TIMES, z0, engine="plain")
        assert all(found[name].tobytes() == plain[name].tobytes() for name in found)
    for bench in none_idle:
        assert all(v is None for v in bench.values)
        assert not bench.inputs
        assert not bench.timed
        pools = [v for pair in bench.pools.values() for pool in pair for v in pool]
        assert not any(np.may_share_memory(v, array) for v in pools for _, _, f in answers for array in f.values())


def test_threads_do_not_share_buffers_and_give_them_back(none_idle):
    def work(k):
        flow, z0 = ensemble(k % 2, 40_000)
        found[k] = evaluate(flow, TIMES, z0, "a", engine="blocks", threads=3)["a"]

    found = {}
    several = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in several:
        thread.start()
    for thread in several:
        thread.join()
    for k, v in found.items():
        flow, z0 = ensemble(k % 2, 40_000)
        assert v.tobytes() == flow(TIMES, z0, engine="plain")["a"].tobytes()
    assert len(found) == 6
    assert len({id(bench) for bench in none_idle}) == len(none_idle) > 0


def test_idle_buffers_are_few(none_idle, monkeypatch):
    flow, z0 = ensemble(0)
    monkeypatch.setattr(blocks, "_IDLE", 2**20)
    for names in ("a", "loss", ("a", "loss")):
        for members in (9000, 3000, 500):
            part = ls.BalancedMode(s=flow.s[:members], tau=flow.tau[:members])
            evaluate(part, TIMES, z0.a[:members], names, engine="blocks")
            assert sum(bench.bytes for bench in none_idle) <= 2**20


def test_shapes_of_blocks_that_are_kept_are_few(none_idle):
    for members in range(300, 400):
        flow, z0 = ensemble(1, members)
        evaluate(flow, TIMES, z0, "a", engine="blocks")
    assert all(len(bench.calls) <= 20 for bench in none_idle)


def test_an_error_leaves_no_bad_buffers(none_idle):
    class Careless(ls.BalancedMode):
        def solution(self, xp, t, z0):
            return self.State(1 / (t * z0.a))

    z0 = np.full(5000, 0.1)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        Careless(s=1.0)(TIMES, z0, engine="blocks")
    with np.errstate(divide="ignore"):
        found = Careless(s=1.0)(TIMES, z0, engine="blocks")["a"]
    assert np.isinf(found[0]).all()
    assert (found[4] == 1 / (TIMES[4] * 0.1)).all()
    assert all(v is None for bench in none_idle for v in bench.values)


@pytest.mark.parametrize("members", [1, 100, 4000, 100_000])
def test_tiles_are_worth_a_thread_each_and_nothing_is_left_out(members):
    program = program_of(ls.TwoLayerOrder, ("loss",))
    given = {name: np.ones((1, 1, members) if name.startswith("start") else ()) for name in program.inputs}
    grid = Grid((64, 1, members), {**given, "t": np.ones((64, 1, 1))})
    plan = plan_of(program, grid)
    size = 64 * len(plan.full) + len(plan.member) + 1
    part = share_of(plan, grid, 2**22)
    assert part == members or part * size >= 2**22
    made = Blocks(program, grid).tiles()
    assert sum((tile.c1 - tile.c0) * (tile.t1 - tile.t0) for tile in made) == 64 * members
    assert (len(made) == 1) == (members * size < 2 * blocks._SHARE)
