"""The compiled engine: elementary functions to an ulp, programs to what these make of them, wrong ones rejected."""

import re
import sys
import warnings

import mpmath
import numpy as np
import pytest
from fused_cases import FLOWS, IN_DOUBLES, NAMES, TIMES, beyond, drawn, through
from selection import quick

import linsolve as ls
from linsolve.core.query import pose
from linsolve.engines.constants import UFUNCS
from linsolve.engines.evaluate import evaluate, prepared
from linsolve.engines.plan import Grid, Tile
from linsolve.engines.program import Tracer
from linsolve.ensembles.reduce_members import reduce
from linsolve.systems.two_layer.order_sums import order_parameters

pytest.importorskip("llvmlite")

from linsolve.engines import compiled, elementary, loop
from linsolve.engines.compiled import Compiled
from linsolve.engines.loop import assembly
from linsolve.engines.plan import plan_of
from linsolve.systems.two_layer.sums_compiled import PARTIAL

mp = mpmath.MPContext()
mp.dps = 60
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e-310, -1e-310, 2.0**-1022, 1.7e308, -1.7e308,
                    1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 1 - 2.0**-53, 1 + 2.0**-52, -1 + 2.0**-53])  # fmt: skip
ONE = ("exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "abs", "neg", "sign")
TWO = ("add", "sub", "mul", "div", "hypot", "pow", "minimum", "maximum", "atan2", "mod")


def alone(op, *values):
    """Evaluate one operation of a program on arrays."""
    xp = Tracer()
    inputs = [xp.input(name).index for name in "xy"[: len(values)]]
    kind = "boolean" if op in ("lt", "le", "gt", "ge", "eq", "ne", "isnan", "isinf", "isfinite") else "real"
    xp.program.outputs["z"] = xp.program.add(op, tuple(inputs), kind)
    n = values[0].size
    given = {name: v.reshape(1, 1, n) for name, v in zip("xy", values, strict=False)}
    out = np.empty((1, 1, n))
    Compiled(xp.program, Grid((1, 1, n), given))(Tile(0, 1, 0, 1, 0, n), {"z": out})
    return out.ravel()


def draws(rng, op, n):
    """Return arguments of every magnitude, and many where the function is neither trivial nor infinite."""
    wide = rng.choice([-1.0, 1.0], n) * 2.0 ** rng.uniform(-1074, 1023, n)
    near = {"exp": rng.uniform(-746, 710, n), "expm1": rng.uniform(-40, 710, n)}.get(op)
    some = rng.choice([-1.0, 1.0], n) * 2.0 ** rng.uniform(-60, 4, n)
    close = rng.uniform(-2, 2, n)
    return np.concatenate([wide, some, close, rng.uniform(0.5, 1.5, n), *([] if near is None else [near])])


def pairs(rng, op, n):
    x, y = draws(rng, op, n), rng.permutation(draws(rng, op, n))
    if op == "pow":  # powers that are neither 0 nor infinite
        base = np.abs(draws(rng, op, n))
        with np.errstate(all="ignore"):
            exponent = rng.uniform(-745, 710, base.size) / np.log(base)
        keep = np.isfinite(exponent)
        x, y = np.concatenate([np.abs(x), base[keep]]), np.concatenate([y, exponent[keep]])
    if op == "hypot":
        x, y = np.concatenate([x, x]), np.concatenate([y, x * 2.0 ** -rng.uniform(0, 60, x.size)])
    return x, y


def exactly(op, *values):
    known = {"hypot": lambda x, y: mp.sqrt(x * x + y * y), "pow": mp.power, "expm1": mp.expm1, "log1p": mp.log1p}
    with mp.workdps(60 if op != "log1p" else 400):
        return known.get(op, getattr(mp, op, None))(*(mp.mpf(float(v)) for v in values))


def ulps(found, op, *values):
    """Return the error of a number in units of the last place of the rounded exact result."""
    exact = exactly(op, *values)
    rounded = float(exact)
    if np.isinf(rounded) or rounded == 0 or found == rounded:
        return 0.0 if found == rounded else abs(found) and float("inf") if np.isinf(rounded) else abs(found) / 5e-324
    return float(abs(mp.mpf(float(found)) - exact) / mp.mpf(float(np.spacing(abs(rounded)))))


@pytest.mark.parametrize("op", ["exp", "expm1", "log", "log1p", "hypot", "pow"])
@pytest.mark.quick(2)
def test_elementary_functions_are_within_an_ulp_over_the_whole_range(op):
    rng = np.random.default_rng(0)
    values = (draws(rng, op, 400),) if op not in ("hypot", "pow") else pairs(rng, op, 400)
    if op == "log":
        values = (np.abs(values[0]),)
    if op == "log1p":
        values = (values[0][values[0] > -1],)
    found = alone(op, *values)
    worst = max(ulps(f, op, *row) for f, row in zip(found.tolist(), zip(*values, strict=True), strict=True))
    assert worst <= 1.0


@pytest.mark.exhaustive
def test_of_many_arguments_expm1_is_a_little_beyond_an_ulp():
    x = draws(np.random.default_rng(1), "expm1", 4000)
    assert max(ulps(f, "expm1", v) for f, v in zip(alone("expm1", x).tolist(), x, strict=True)) <= 1.05


@pytest.mark.parametrize(
    ("op", "low", "high"),
    [("exp", -700, 700), ("exp", -1.2, 1.2), ("expm1", -40, 0), ("expm1", -1.1, 0), ("expm1", 0, 3)],
)
@pytest.mark.quick(1)
def test_the_worst_of_very_many_arguments_are_within_the_promise(op, low, high):
    x = np.random.default_rng(1).uniform(low, high, 300_000)
    found, finer = alone(op, x), getattr(np, op)(x.astype(np.longdouble))
    order = np.argsort(np.abs((found - finer) / np.spacing(np.abs(finer.astype(float)))))
    assert max(ulps(found[k], op, x[k]) for k in order[-5:]) <= 1.05


@pytest.mark.parametrize("op", ONE)
@pytest.mark.quick(4)
def test_special_numbers_have_the_values_of_numpy(op):
    with np.errstate(all="ignore"):
        expected = UFUNCS[op](SPECIAL)
    found = alone(op, SPECIAL)
    np.testing.assert_allclose(found, expected, rtol=4.5e-16, atol=5e-324)
    assert (np.signbit(found) == np.signbit(expected))[~np.isnan(expected)].all()


@pytest.mark.parametrize("op", TWO)
def test_special_pairs_have_the_values_of_numpy(op):
    x, y = (v.ravel() for v in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = UFUNCS[op](x, y)
    np.testing.assert_allclose(alone(op, x, y), expected, rtol=4.5e-16, atol=5e-324)


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "sqrt", "abs", "neg", "lt", "le", "gt", "ge", "eq", "ne",
                                "minimum", "maximum", "isnan", "isinf", "isfinite", "mod"])  # fmt: skip
@pytest.mark.quick(6)
def test_exactly_rounded_operations_are_those_of_numpy_bit_by_bit(op):
    rng = np.random.default_rng(1)
    x, y = pairs(rng, op, 1000)
    values = (x,) if UFUNCS[op].nin == 1 else (x, y)
    with np.errstate(all="ignore"):
        expected = UFUNCS[op](*values).astype(float)
    assert ((alone(op, *values) == expected) | np.isnan(expected)).all()


@pytest.mark.parametrize("op", ["exp", "expm1", "log", "log1p", "hypot", "pow"])
def test_elementary_functions_are_within_two_ulps_of_numpys(op):
    rng = np.random.default_rng(2)
    values = (draws(rng, op, 20_000),) if op not in ("hypot", "pow") else pairs(rng, op, 20_000)
    with np.errstate(all="ignore"):
        expected = UFUNCS[op](*values)
        found = alone(op, *values)
        apart = np.abs(found - expected) / np.spacing(np.abs(expected))
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    assert apart[~same].max() <= 2


@pytest.mark.parametrize("degree", [8, 5])
def test_a_polynomial_that_is_wrong_is_rejected(degree, monkeypatch):
    good = elementary.polynomials()
    bad = list(good["exp"])
    bad[degree] *= 1 + 1e-9 * 10 ** (degree - 2)
    monkeypatch.setattr(elementary, "polynomials", lambda: good | {"exp": tuple(bad)})
    x = np.random.default_rng(3).uniform(-700, 700, 500)
    found = alone("exp", x)
    assert max(ulps(f, "exp", v) for f, v in zip(found.tolist(), x, strict=True)) > 1.5


# the code of deep modes takes seconds to compile, for every shape of the arguments
@pytest.mark.parametrize("cls", quick(FLOWS, lambda cls: cls is not ls.DeepMode), ids=lambda c: c.__name__)
def test_compiled_flows_are_proved(cls):
    flow, z0 = cls.example(np.random.default_rng(1))
    report = ls.verify(through(cls, "compiled")(**flow.parameters()), z0, checks=IN_DOUBLES)
    assert report.ok, str(report)


def test_a_compiled_flow_with_a_wrong_coefficient_is_not_proved(monkeypatch):
    good = elementary.polynomials()
    bad = good | {"exp": (good["exp"][0], good["exp"][1] * 1.001, *good["exp"][2:])}
    monkeypatch.setattr(elementary, "polynomials", lambda: bad)
    monkeypatch.setattr(compiled, "_made", {})
    flow, z0 = ls.BalancedMode.example(np.random.default_rng(1))
    assert "dop853" in ls.verify(through(ls.BalancedMode, "compiled")(**flow.parameters()), z0).failed


@pytest.mark.parametrize("decades", [1, 40])
@pytest.mark.parametrize("cls", quick(FLOWS, lambda cls: cls is not ls.DeepMode), ids=lambda c: c.__name__)
def test_compiled_flows_agree_with_plain_ones_over_all_magnitudes(cls, decades):
    flow, z0 = drawn(cls, np.random.default_rng(decades), (4000,), decades)
    plain = flow(TIMES, z0, engine="plain")
    for threads in (1, 3):
        found = evaluate(flow, TIMES, z0, NAMES[cls], engine="compiled", threads=threads)
        assert beyond(cls, found, plain) == []


@pytest.mark.parametrize("depth", quick([np.inf, 3.0, 2.0, [1.5, 6.5]], 1), ids=str)
def test_deep_modes_at_many_times_agree_with_plain_ones(depth):
    rng = np.random.default_rng(12)
    flow, t = ls.DeepMode(s=rng.uniform(0.5, 3.0, (500, 2)), depth=depth, tau=0.8), np.linspace(0, 40, 70)
    z0 = flow.State(flow.s * rng.uniform(0.02, 1.5, (500, 2)))
    plain = flow(t, z0, engine="plain")
    found = evaluate(flow, t, z0, NAMES[ls.DeepMode], engine="compiled")
    assert beyond(ls.DeepMode, found, plain) == []
    assert np.abs(found["a"] / plain["a"] - 1).max() <= 2e-14


GRIDS = [((), (), ()), ((300,), (), ()), ((), (80, 1), (90,)), ((3, 2), (70, 1), (90,)), ((4,), (5, 1, 6), (7, 1)),
         ((5,), (), (1001,)), ((700,), (7,), (7,))]  # fmt: skip


@pytest.mark.parametrize("shape", GRIDS, ids=str)
def test_every_grid(shape):
    times, parameters, start = shape
    rng = np.random.default_rng(0)
    flow = ls.BalancedMode(s=rng.uniform(0.5, 3, parameters), tau=1.3)
    t, a0 = rng.uniform(0, 4, times), rng.uniform(0.01, 1, start)
    plain = flow(t, a0, engine="plain")["a"]
    for out in (None, np.empty(plain.shape), np.empty(plain.shape[::-1]).T):
        found = flow(t, a0, out=out, engine="compiled")["a"]
        assert found.shape == plain.shape
        assert np.abs(found / plain - 1).max() < 4e-15


def test_threads_do_not_change_a_bit_and_reductions_are_those_of_the_stored_ensemble():
    flow, z0 = drawn(ls.BalancedMode, np.random.default_rng(4), (30_001,), 1)
    stored = flow(TIMES, z0, engine="compiled", threads=1)["a"]
    assert flow(TIMES, z0, engine="compiled", threads=3)["a"].tobytes() == stored.tobytes()
    found = [reduce(flow, TIMES, z0, "a", "mean", engine="compiled", threads=k)["a"]["mean"] for k in (1, 3)]
    assert found[0].tobytes() == found[1].tobytes()
    assert found[0] == pytest.approx(stored.mean(-1), rel=1e-12)


@pytest.mark.parametrize("processors", [1, 2, 7])
def test_means_have_the_same_bits_on_any_computer(processors, monkeypatch):
    monkeypatch.setattr(compiled, "_SHARE", 1)  # so that tiles are many
    flow, z0 = drawn(ls.BalancedMode, np.random.default_rng(3), (40_000,), 1)
    found = []
    for count in (3, processors):
        monkeypatch.setattr(compiled, "workers", lambda count=count: count)
        found.append(reduce(flow, TIMES, z0, "a", "mean", engine="compiled")["a"]["mean"])
    assert found[0].tobytes() == found[1].tobytes()
    made = prepared(pose(flow, TIMES, z0), "compiled", ("a",))
    assert len(made.tiles()) == 8 * processors
    assert len(made.tiles(32)) == 32


def test_loops_of_values_and_of_sums_have_the_memory_that_each_needs():
    flow, z0 = drawn(ls.TwoLayerOrder, np.random.default_rng(4), (300,), 1)
    made = prepared(pose(flow, np.linspace(0, 3, 33), z0), "compiled", ("P",))
    sums, values = made._machine(totals=True).loop.scratch, made.machine.loop.scratch
    assert sums > values  # so that the memory of the values is too small
    for size in (values, sums, values):
        assert len(made._scratch(size)) >= size
    mean = reduce(flow, np.linspace(0, 3, 33), z0, "P", "mean", engine="compiled")["P"]["mean"]
    np.testing.assert_allclose(mean, flow(np.linspace(0, 3, 33), z0)["P"].mean(axis=1), rtol=1e-13)


@pytest.mark.parametrize("cls", FLOWS)
def test_few_members_at_many_times_are_divided_by_times(cls, monkeypatch):
    flow, z0 = drawn(cls, np.random.default_rng(5), (5,), 1)
    t, name = np.linspace(0.0, 4.0, 1001), NAMES[cls][0]
    whole = evaluate(flow, t, z0, name, engine="compiled")[name]
    monkeypatch.setattr(compiled, "_SHARE", 2**23)
    assert len(prepared(pose(flow, t, z0), "compiled", (name,)).tiles()) == 1
    monkeypatch.setattr(compiled, "_SHARE", 1)
    monkeypatch.setattr(compiled, "workers", lambda: 3)
    made = prepared(pose(flow, t, z0), "compiled", (name,))
    assert [(tile.t0, tile.t1) for tile in made.tiles()] == [(k, min(k + 64, 1001)) for k in range(0, 1001, 64)]
    assert evaluate(flow, t, z0, name, engine="compiled")[name].tobytes() == whole.tobytes()
    t = np.linspace(0.0, 4.0, 5 * 4096)
    few = prepared(pose(flow, t, z0), "blocks", (name,)).tiles()
    assert len(few) == 5
    assert all(tile.c1 - tile.c0 == 5 for tile in few)


def test_machine_code_is_made_once():
    flow, z0 = drawn(ls.BalancedMode, np.random.default_rng(5), (100,))
    flow(TIMES, z0, engine="compiled")
    count = len(compiled._made)
    flow(TIMES, z0, engine="compiled")
    assert len(compiled._made) == count


def test_code_for_any_processor_gives_the_same_bits(monkeypatch):
    x = np.concatenate([SPECIAL, draws(np.random.default_rng(6), "exp", 300)])
    wide = {op: alone(op, x) for op in ("exp", "expm1", "log1p")} | {"hypot": alone("hypot", x, x[::-1])}
    monkeypatch.setattr(compiled, "assembly", lambda plan, text=True, avx512=False, **how: assembly(plan, text, **how))
    narrow = {op: alone(op, x) for op in ("exp", "expm1", "log1p")} | {"hypot": alone("hypot", x, x[::-1])}
    for op in wide:
        np.testing.assert_array_equal(wide[op], narrow[op])


@pytest.mark.parametrize("members", [2, 7, 40, 90])
@pytest.mark.parametrize("cls", [ls.BalancedMode, ls.TwoLayerOrder])
def test_shorter_vectors_of_members_give_the_same_bits(cls, members, monkeypatch):
    flow, z0 = drawn(cls, np.random.default_rng(8), (members,), 2)
    found, steps = [], []
    for longest in (10**6, -1):
        monkeypatch.setattr(loop, "LONG", longest)
        monkeypatch.setattr(compiled, "_made", {})
        state = flow(TIMES, z0, engine="compiled").state
        totals = reduce(flow, TIMES, z0, NAMES[cls], "mean", engine="compiled")
        found.append([*state, *(v["mean"] for v in totals.values())])
        steps.append([int(n) for m in compiled._made.values() for n in re.findall(r"add i64 %member, (\d+)\n", m.text)])
    assert steps[0] == [2 * n for n in steps[1]] != []
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("cls", [ls.BalancedMode, ls.DeepMode, ls.TwoLayerOrder])
def test_longer_vectors_give_the_same_bits(cls, monkeypatch):
    """Without AVX-512 the vectors of a loop are half as long."""
    (flow, z0), found = drawn(cls, np.random.default_rng(9), (90,), 2), []
    for lanes in (16, 32):
        for module in (loop, compiled):
            monkeypatch.setattr(module, "LANES", lanes)
        monkeypatch.setattr(compiled, "_made", {})
        found.append(flow(np.linspace(0.0, 3.0, 40), z0, engine="compiled").state)
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_no_loop_calls_out_for_what_is_written_out():
    program = Tracer()
    x, t = program.input("x"), program.input("t")
    program.program.outputs["z"] = program.exp(program.log1p(program.pow(x, t))).index
    plan = plan_of(program.program, Grid((2, 1, 8), {"x": np.ones((1, 1, 8)), "t": np.ones((2, 1, 1))}))
    text = assembly(plan).text
    assert {line.split("@")[1].split("(")[0].split(".")[0] for line in text.splitlines() if "declare" in line} == {
        "llvm"
    }


def test_without_the_extra_the_message_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    monkeypatch.setattr(compiled, "_made", {})
    with pytest.raises(ModuleNotFoundError, match=r'pip install "\.\[fast\]"'):
        ls.BalancedMode(s=1.0)(TIMES, np.full(4, 0.1), engine="compiled")


@pytest.mark.parametrize("first", range(8))
def test_arrays_written_past_the_cache_have_the_bits_of_small_ones(first, monkeypatch):
    members, t = 1000, np.linspace(0, 5, 16)
    flow = ls.BalancedMode(s=np.linspace(0.5, 3, members))
    space = np.full(16 * 1024 + 8, 7.0)
    whole = space[-space.ctypes.data % 64 // 8 :][: 16 * 1024].reshape(16, 1024)
    out = whole[:, first : first + members]
    small = evaluate(flow, t, 0.01, "a", engine="compiled")["a"]
    monkeypatch.setattr(compiled, "_LARGE", 1)
    assert compiled._past_the_cache([out[:, None]]) == (-first, True)
    evaluate(flow, t, 0.01, "a", out={"a": out}, engine="compiled", threads=2)
    assert out.tobytes() == small.tobytes()
    assert (whole[:, :first] == 7).all()
    assert (whole[:, first + members :] == 7).all()


@pytest.mark.parametrize("width", [PARTIAL - 1, PARTIAL, PARTIAL + 1, 1000])
@pytest.mark.parametrize("d0", [1, 3])
@pytest.mark.quick(2)
def test_compiled_order_parameters_are_those_of_twice_the_digits(d0, width):
    rng = np.random.default_rng(10)
    flow = ls.TwoLayer(y=0.4, gamma=0.3, eta_u=rng.uniform(0.5, 2, 700), eta_w=1.3, x=rng.uniform(0.5, 1, d0))
    z0 = flow.State(rng.standard_normal((700, width)), rng.uniform(0.1, 1.0, (700, width, d0)))
    expected, found = ls.TwoLayerOrder.of(flow, z0)[1], order_parameters(flow, z0, engine="compiled", threads=3)[1]
    for a, b, size in zip(found, expected, (expected.P, expected.Q, np.sqrt(expected.P * expected.Q)), strict=True):
        assert (np.abs(a - b) <= 2 * (width / PARTIAL + d0 + 8) * 2.0**-53 * size).all()
    again = order_parameters(flow, z0, engine="compiled", threads=1)[1]
    assert all(a.tobytes() == b.tobytes() for a, b in zip(found, again, strict=True))
    half = flow.State(z0.u[:, ::-1], z0.w[:, ::-1])  # not side by side in memory
    other = order_parameters(flow, half, engine="compiled")[1]
    np.testing.assert_allclose(other.P, expected.P, rtol=1e-13)
