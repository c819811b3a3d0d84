"""Programs specialized to the ranges of their inputs: valid ranges, the same bits, wrong bounds rejected."""

import itertools
import math

import numpy as np
import pytest
from fused_cases import FLOWS, NAMES, TIMES, drawn
from selection import quick

import linsolve as ls
from linsolve.core.query import pose
from linsolve.engines import interval, specialize
from linsolve.engines.blocks import Blocks
from linsolve.engines.constants import UFUNCS
from linsolve.engines.evaluate import _grid, _made, evaluate, prepared
from linsolve.engines.interval import Range, Truth
from linsolve.engines.plan import Grid, Tile
from linsolve.engines.program import Tracer, program_of
from linsolve.engines.specialize import range_of, rounded, specialized, without
from linsolve.ensembles.reduce_members import reduce

ENDS = [0.0, -0.0, 5e-324, -5e-324, 2.0**-1030, -(2.0**-1030), 1e-160, 0.5, -0.5, 1.0, -1.0, 3.0, -3.0, 40.0, -40.0,
        800.0, -800.0, 1e160, -1e160, 1.7e308, -1.7e308, np.inf, -np.inf]  # fmt: skip
ONE = ["neg", "abs", "sqrt", "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sign",
       "isinf", "isnan", "isfinite"]  # fmt: skip
TWO = ["add", "sub", "mul", "div", "mod", "pow", "hypot", "atan2", "minimum", "maximum", "lt", "le", "gt", "ge", "eq",
       "ne"]  # fmt: skip
TRUTHS = ("isinf", "isnan", "isfinite", "lt", "le", "gt", "ge", "eq", "ne")


@pytest.fixture(autouse=True)
def always_folded(monkeypatch):
    monkeypatch.setattr(specialize, "ENOUGH", 1)
    monkeypatch.setattr(specialize, "ENOUGH_TO_COMPILE", 1)
    monkeypatch.setattr(specialize, "SHARE", 0)
    monkeypatch.setattr(specialize, "_variants", {})


def holds(may, value):
    """Whether a range, or what a truth value may be, holds a value."""
    if isinstance(may, Truth):
        return may.true if value else may.false
    if math.isnan(value):
        return may.nan
    if value == 0:
        sign = math.copysign(1, value)
        below = may.low < 0 or (may.low == 0 and math.copysign(1, may.low) <= sign)
        return below and (may.high > 0 or (may.high == 0 and math.copysign(1, may.high) >= sign))
    return may.low <= value <= may.high


def between(rng, low, high):
    """Return a range of everything between two numbers, and many of them."""
    low, high = sorted((low, high), key=lambda v: (v, math.copysign(1, v)))
    inside = [v for v in ENDS if low <= v <= high]
    if math.isfinite(high - low):
        inside += rng.uniform(low, high, 6).tolist()
    inside += [v for v in (math.nextafter(low, math.inf), math.nextafter(high, -math.inf)) if low <= v <= high]
    may = Range(low, high, bool(rng.random() < 0.2))
    inside = [v for v in inside if holds(may, v)]
    return may, np.array([*inside, *([np.nan] if may.nan else [])])


def escaped(op, tries=400, seed=0):
    """Return what an operation gives, of numbers within ranges, outside of the range that it is said to have."""
    rng, found = np.random.default_rng([seed, ONE.index(op) if op in ONE else TWO.index(op)]), []
    count = UFUNCS[op].nin
    for _ in range(tries):
        drawn_from = [between(rng, *rng.choice(ENDS, 2).tolist()) for _ in range(count)]
        may = interval.OF.get(op, interval.unknown)(*(r for r, _ in drawn_from))
        grid = np.meshgrid(*(v for _, v in drawn_from))
        with np.errstate(all="ignore"):
            values = UFUNCS[op](*grid)
        found += [(drawn_from, v) for v in values.ravel().tolist() if not holds(may, v)]
    return found


@pytest.mark.parametrize("op", ONE + TWO)
@pytest.mark.quick(12)
def test_every_operation_stays_within_its_range(op):
    assert not escaped(op)


def test_the_same_factor_twice_is_a_square():
    rng = np.random.default_rng(1)
    for _ in range(300):
        may, values = between(rng, *rng.choice(ENDS, 2).tolist())
        with np.errstate(all="ignore"):
            assert all(holds(interval.square(may), v) for v in (values * values).tolist())


WRONG = {
    "_add": lambda a, b: Range(a.low + b.high, a.high + b.high, a.nan or b.nan),
    "_mul": lambda a, b: Range(a.low * b.low, a.high * b.high, a.nan or b.nan),
    "_neg": lambda a: Range(-a.high + 0.0, -a.low + 0.0, a.nan),
    "_sqrt": lambda a: Range(math.sqrt(max(a.low, 0)), math.sqrt(max(a.high, 0)), a.nan),
    "_exp": lambda a: interval._wide(interval._safe(math.exp, a.high), interval._safe(math.exp, a.high), a.nan),
    "_lt": lambda a, b: Truth(a.high >= b.low, a.low < b.high),
    "_eq": lambda a, b: Truth(True, a.low == b.low and a.high == b.high),
    "_isinf": lambda a: Truth(True, False),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.quick(2)
def test_a_wrong_bound_is_rejected(name, monkeypatch):
    monkeypatch.setitem(interval.OF, name[1:], WRONG[name])
    assert escaped(name[1:])


def test_a_quotient_by_a_range_around_zero_may_be_anything(monkeypatch):
    assert interval._div(Range(1.0, 2.0, False), Range(-1.0, 3.0, False)) == Range(-math.inf, math.inf, False)
    monkeypatch.setitem(interval.OF, "div", lambda a, b: interval._corners(a, b, interval._quotient, True))
    assert escaped("div")


@pytest.mark.parametrize("seed", range(4))
def test_the_range_of_an_array_is_that_of_its_numbers(seed):
    rng = np.random.default_rng(seed)
    values = rng.choice([v for v in ENDS if v < 1], 5) if seed else np.array([0.0, -0.0])
    may = range_of(values)
    assert all(holds(may, v) for v in values.tolist())
    assert not may.nan
    assert range_of(np.array([1.0, 0.0])).unsigned
    assert not range_of(np.array([1.0, -0.0])).unsigned
    assert range_of(np.array([-1.0, -0.0])).signed
    assert not range_of(np.array([-1.0, 0.0])).signed
    assert range_of(np.array([1.0, np.nan, 2.0])) == interval.UNKNOWN
    wide = np.arange(100_000.0)
    assert range_of(wide[::-2]) == Range(1.0, 99_999.0, False)
    wide[77_777] = np.nan
    assert range_of(wide) == interval.UNKNOWN


def ends(may):
    """Return the ends of a range with the signs of zeros."""
    return math.copysign(1, may.low), may.low, math.copysign(1, may.high), may.high


def test_rounded_ranges_hold_the_range_and_keep_zeros_signs_and_infinities():
    rng = np.random.default_rng(2)
    values = [*ENDS, *(rng.standard_normal(40) * 10.0 ** rng.integers(-300, 300, 40)).tolist()]
    for low, high in itertools.product(values, values):
        if low <= high and (low, math.copysign(1, low)) <= (high, math.copysign(1, high)):
            may = Range(low, high, bool(rng.random() < 0.2))
            wide = rounded(may)
            assert holds(wide, low)
            assert holds(wide, high)
            assert (wide.nan, wide.signed, wide.unsigned, wide.zero) == (may.nan, may.signed, may.unsigned, may.zero)
            assert (math.isinf(wide.low), math.isinf(wide.high)) == (math.isinf(low), math.isinf(high))
            assert ends(rounded(wide)) == ends(wide)
            assert abs(wide.high) <= max(2 * abs(high), 5e-324)
    assert ends(rounded(Range(-0.0, 3.1, False))) == (-1, 0.0, 1, 4.0)
    assert ends(rounded(Range(0.0, 1.7e308, False))) == (1, 0.0, 1, np.finfo(float).max)
    assert ends(rounded(Range(-3.1, 10.0, False))) == (-1, -4.0, 1, 10.0)
    assert rounded(Range(0.3, 0.3, False)) == Range(0.3, 0.3, False)
    assert rounded(interval.UNKNOWN) == interval.UNKNOWN


@pytest.mark.parametrize("cls", FLOWS, ids=lambda c: c.__name__)
def test_fresh_members_of_the_same_kind_are_not_analysed_again(cls):
    _, _, t = learning()
    found = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        if cls is ls.TwoLayerOrder:
            P, Q = rng.uniform(2.1, 3.9, (2, 500))
            flow, z0 = cls(y=0.3, gamma=0.01), cls.State(P, Q, rng.uniform(-1.0, 1.0, 500) * np.sqrt(P * Q) / 2)
        else:
            flow = cls(s=rng.uniform(0.51, 3.0, 500), **({"depth": 4.7} if cls is ls.DeepMode else {}))
            z0 = cls.State(10 ** rng.uniform(-3.9, -2.15, 500))
        problem = pose(flow, t, z0)
        before = specialize._facts.cache_info()
        found.append(prepared(problem, "blocks", None).program)
        after = specialize._facts.cache_info()
        assert seed == 0 or (after.misses == before.misses and after.hits == before.hits + 1)
    assert len({id(program) for program in found}) == 1
    assert len(found[0].used()) < len(program_of(cls).used())


def any_of(rng, values, count):
    return tuple(values[k] for k in rng.integers(0, len(values), count))


def random_program(rng, size=60):
    """Return a program of random steps of three inputs, two of members and time, all of which matter."""
    xp = Tracer()
    reals = [xp.input("a"), xp.input("b"), xp.input("t"), *(xp.asarray(v) for v in (0.0, 1.0, -1.0, 700.0))]
    truths = [reals[0] < 0]
    one = [op for op in ONE if op not in TRUTHS]
    two = [op for op in TWO if op not in TRUTHS and op != "mod"]
    for _ in range(size):
        (x,), (y,) = any_of(rng, reals[:3] + reals[7:], 1), any_of(rng, reals, 1)
        kind = rng.random()
        if kind < 0.2:
            reals.append(xp._record(rng.choice(one), (x,), "real"))
        elif kind < 0.5:
            reals.append(xp._record(rng.choice(two), (x, y), "real"))
        elif kind < 0.7:
            op = rng.choice(TRUTHS)
            truths.append(xp._record(op, (x, y)[: UFUNCS[op].nin], "boolean"))
        elif kind < 0.75:
            truths.append(xp._record(rng.choice(["and", "or", "xor"]), any_of(rng, truths, 2), "boolean"))
        elif kind < 0.8:
            truths.append(xp._record("not", any_of(rng, truths, 1), "boolean"))
        elif kind < 0.82:
            reals.append(xp.astype(truths[-1], "real"))
        elif kind < 0.85:
            truths.append(1 + xp.abs(x) == 1)
        else:
            reals.append(xp.where(*any_of(rng, truths, 1), x, y))
    for k, value in enumerate(reals[-12:]):
        xp.program.outputs[f"y{k}"] = value.index
    return xp.program


def random_inputs(rng, members=9, times=8):
    """Return members and times of one sign or several, of few magnitudes or many, some of them hostile."""
    given, size = {}, {"a": (1, 1, members), "b": (1, 1, members), "t": (times, 1, 1)}
    for name, shape in size.items():
        kind = rng.integers(0, 4)
        v = 10 ** rng.uniform(-2, 2, shape) if kind < 3 else rng.choice(ENDS, shape)
        if kind == 1:
            v = v * rng.choice([-1, 1])
            v.reshape(-1)[0] = rng.choice([0.0, -0.0, v.flat[0]])
        if kind == 2 and rng.random() < 0.3:
            v.reshape(-1)[-1] = np.nan
        given[name] = v
    return Grid((times, 1, members), given)


def on_grid(a, t):
    return Grid((len(t), 1, len(a)), {"a": np.reshape(a, (1, 1, -1)), "t": np.reshape(t, (-1, 1, 1))})


def computed(program, grid, engine=Blocks):
    out = {name: np.empty(grid.shape) for name in program.outputs}
    with np.errstate(all="ignore"):
        engine(program, grid)(Tile(0, grid.shape[0], 0, 1, 0, grid.shape[2]), out)
    return out


def same_bits(found, expected):
    return all(found[name].tobytes() == expected[name].tobytes() for name in expected)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.quick(20)
def test_random_programs_keep_every_bit(seed):
    rng = np.random.default_rng([7, seed])
    program = random_program(rng)
    for _ in range(4):
        grid = random_inputs(rng)
        short = specialized(program, grid)
        assert len(short.used()) <= len(program.used()) + 10  # a sign of a member may be one step more
        assert same_bits(computed(short, grid), computed(program, grid))


def test_of_random_programs_many_steps_are_folded():
    count = 0
    for seed in range(20):
        rng = np.random.default_rng([7, seed])
        program, grid = random_program(rng), random_inputs(rng)
        count += len(program.used()) - len(specialized(program, grid).used())
    assert count > 100


def test_a_wrong_bound_changes_bits(monkeypatch):
    monkeypatch.setitem(interval.OF, "mul", WRONG["_mul"])
    monkeypatch.setattr(specialize, "_facts", specialize._facts.__wrapped__)
    xp = Tracer()
    product = xp.input("a") * xp.input("t")
    xp.program.outputs["y"] = xp.where(product > 0, product, -product).index
    grid = on_grid(a=[1.0, 2.0, 3.0], t=[-1.0, 2.0])
    assert same_bits(computed(specialized(xp.program, grid), grid), computed(xp.program, grid))
    grid.given["a"] = grid.given["a"] - 2  # from -1 to 1: the product may be -2, not as small as (-1) (-1)
    assert not same_bits(computed(specialized(xp.program, grid), grid), computed(xp.program, grid))


def posed(cls, kind, seed, t):
    """Return a flow's program, and a grid of members of one sign, of several, or of all magnitudes."""
    flow, z0 = drawn(cls, np.random.default_rng(seed), (500,), 40 if kind == "hostile" else 1)
    if kind == "positive":
        flow = cls(**{name: np.abs(v) + 1e-3 for name, v in flow.parameters().items()})
        z0 = cls.State(*(np.abs(v) + 1e-3 for v in z0))
        if cls is ls.TwoLayerOrder:
            z0 = z0._replace(R=np.sqrt(z0.P * z0.Q) / 2)
    return program_of(cls, NAMES[cls]), _grid(pose(flow, t, z0))


@pytest.mark.parametrize("seed", quick([0, 1], 1))
@pytest.mark.parametrize("kind", ["positive", "signed", "hostile"])
@pytest.mark.parametrize("cls", FLOWS, ids=lambda c: c.__name__)
@pytest.mark.quick(3)
def test_flows_keep_every_bit(cls, kind, seed):
    past = () if cls is ls.DeepMode else (-TIMES[1:4] / 1e3,)  # a deep mode has no times before 0
    for t in (TIMES[seed:-1], TIMES[seed:], *past):
        program, grid = posed(cls, kind, seed, t)
        short = _made("blocks", program, grid).program
        assert len(short.used()) < len(program.used())
        assert same_bits(computed(short, grid), computed(program, grid))


@pytest.mark.parametrize("cls", FLOWS, ids=lambda c: c.__name__)
@pytest.mark.quick(1)
def test_answers_are_those_of_plain_evaluation_bit_by_bit(cls):
    flow, z0 = cls.example(np.random.default_rng(1))
    for t in (TIMES, TIMES[1:-1]):
        plain, found = flow(t, z0, engine="plain"), evaluate(flow, t, z0, NAMES[cls], engine="blocks")
        assert all(np.asarray(plain[name]).tobytes() == found[name].tobytes() for name in NAMES[cls])
    assert specialize._variants


@pytest.mark.parametrize("kind", quick(["hostile", "positive", "signed"], 1))
@pytest.mark.parametrize("cls", [ls.BalancedMode, ls.TwoLayerOrder], ids=lambda c: c.__name__)
@pytest.mark.quick(1)
def test_machine_code_of_folded_flows_keeps_every_bit(cls, kind):
    check_machine_code(*posed(cls, kind, 0, TIMES))
    check_machine_code(*posed(cls, kind, 0, TIMES[:6]))


@pytest.mark.parametrize("seed", quick(range(8), 3))
@pytest.mark.quick(1)
def test_machine_code_of_folded_random_programs_keeps_every_bit(seed):
    rng = np.random.default_rng([8, seed])
    check_machine_code(random_program(rng, 40), random_inputs(rng))


def check_machine_code(program, grid):
    pytest.importorskip("llvmlite")
    from linsolve.engines.compiled import Compiled

    found, whole = (computed(p, grid, Compiled) for p in (specialized(program, grid, False), program))
    for name in whole:
        np.testing.assert_array_equal(found[name], whole[name])
        assert (np.signbit(found[name]) == np.signbit(whole[name]))[~np.isnan(whole[name])].all()


def learning(members=200):
    """Return modes that start small and learn, the case for which most is known."""
    rng = np.random.default_rng(2)
    return {"s": rng.uniform(0.5, 3.0, members)}, 10 ** rng.uniform(-4, -2, members), np.linspace(0, 10, 64)


@pytest.mark.parametrize(("cls", "most", "share"), [(ls.BalancedMode, 5, 0.2), (ls.DeepMode, 10_000, 0.95)])
def test_learning_from_small_starts_needs_few_choices(cls, most, share, monkeypatch):
    parameters, a0, t = learning()
    flow = cls(**parameters) if cls is ls.BalancedMode else cls(**parameters, depth=4.0)
    problem = pose(flow, t, flow.State(a0))
    short = prepared(problem, "blocks", None).plan
    monkeypatch.setattr(specialize, "ENOUGH", 2**60)
    whole = prepared(problem, "blocks", None).plan
    assert len(short.full) <= min(most, share * len(whole.full))
    assert len(short.kept) < len(whole.kept)


def test_one_time_zero_leaves_one_choice():
    """Of BalancedMode above its target only ``1 + x == 1`` remains, which holds at ``t = 0``."""
    parameters, a0, t = learning()
    flow = ls.BalancedMode(**parameters)
    problem = pose(flow, t, flow.State(10 + a0))
    made = prepared(problem, "blocks", None).program
    assert [made.steps[k].op for k in made.used()].count("where") == 1
    later = prepared(problem._replace(t=t[1:]), "blocks", None).program
    assert [later.steps[k].op for k in later.used()].count("where") == 0


def test_the_variants_of_a_program_are_few():
    program, seen = program_of(ls.BalancedMode), set()
    rng = np.random.default_rng(3)
    for signs in itertools.product((-1.0, 1.0, 0.0), repeat=3):
        s, a0, t = (sign + 0.5 * rng.uniform(-0.9, 0.9, n) for sign, n in zip(signs, (50, 50, 9), strict=True))
        grid = _grid(pose(ls.BalancedMode(s=s), t, ls.BalancedMode.State(a0)))
        short = specialized(program, grid)
        seen.add(id(short))
        assert same_bits(computed(short, grid), computed(program, grid))
    assert 3 < len(seen) <= specialize.VARIANTS + 1
    assert len(specialize._variants[program]) == specialize.VARIANTS


def test_few_outputs_are_not_looked_at(monkeypatch):
    monkeypatch.setattr(specialize, "ENOUGH", 2**17)
    program, grid = program_of(ls.BalancedMode), random_inputs(np.random.default_rng(0))
    assert specialized(program, grid) is program


@pytest.mark.parametrize("order", [1, -1])
def test_zeros_of_both_signs_are_not_taken_for_each_other(order):
    xp = Tracer()
    xp.program.outputs["y"] = xp.abs(xp.input("a") * xp.input("t")).index
    for zero in (0.0, -0.0)[::order]:
        grid = on_grid(a=[zero, 1.0], t=[0.0, 1.0])
        assert same_bits(computed(specialized(xp.program, grid), grid), computed(xp.program, grid))


def test_what_rounds_to_one():
    xp = Tracer()
    x = xp.input("x")
    xp.program.outputs["y"] = xp.astype(1 + xp.abs(x) == 1, "real").index
    near = 2.0**-53 * np.array([0.0, 0.5, 1 - 2.0**-53, 1.0, 1 + 2.0**-52, 1.5, 2.0, np.inf, np.nan, -1.0, 5e-324])
    grid = Grid((1, 1, near.size), {"x": near.reshape(1, 1, -1)})
    short = specialized(xp.program, grid)
    assert "le" in [step.op for step in short.steps]
    assert computed(short, grid)["y"].ravel().tolist() == (1 + np.abs(near) == 1).astype(float).tolist()


def test_facts_that_are_not_used_change_nothing():
    program = program_of(ls.BalancedMode)
    assert len(without(program, frozenset()).used()) <= len(program.used())


@pytest.mark.parametrize("engine", ["blocks", "compiled"])
@pytest.mark.parametrize("shapes", [((70, 1), (90,)), ((), (1001,)), ((5, 1), (700,))], ids=str)
def test_means_of_every_grid(engine, shapes):
    if engine == "compiled":
        pytest.importorskip("llvmlite")
    rng = np.random.default_rng(0)
    flow = ls.BalancedMode(s=rng.uniform(0.5, 3, shapes[0]))
    z0, t = flow.State(rng.uniform(0.01, 1, shapes[1])), np.linspace(0, 4, 7)
    stored = flow(t, z0, engine="plain")
    found = reduce(flow, t, z0, ("a", "loss"), "mean", engine=engine)
    for name in ("a", "loss"):
        mean = stored[name].reshape(7, -1).mean(-1)
        np.testing.assert_allclose(found[name]["mean"], mean, rtol=1e-14)


def test_means_of_very_many_times_hold_few_sums(monkeypatch):
    """With one number of 32 kept, a tile of all members would be as large as wanted only for few times."""
    pytest.importorskip("llvmlite")
    from linsolve.engines.compiled import Compiled

    seen = []
    sums = Compiled.sums
    monkeypatch.setattr(Compiled, "sums", lambda self, tile: seen.append(tile.shape[2]) or sums(self, tile))
    flow, z0, t = ls.BalancedMode(s=1.0), np.linspace(0.01, 1, 3000), np.linspace(0, 4, 40_000)
    found = reduce(flow, t, z0, "a", "mean", engine="compiled")["a"]["mean"]
    assert max(seen) <= 512
    few = [0, 1, 20_000, 39_999]
    np.testing.assert_allclose(found[few], flow(t[few], z0)["a"].mean(-1), rtol=1e-14)
