"""The CUDA source of flows, run on the host: the same numbers as the formulas', reductions, blocks, and wrong sources.

No GPU takes part. What the compiler of the host makes of the very text that CuPy would compile is compared with the
formulas in NumPy: bit by bit where NumPy is given the functions of the host's mathematical library, and to a few units
in the last place with its own.
"""

import ctypes
import ctypes.util
import sys
import types

import numpy as np
import pytest
from host_cuda import DeviceArray, FakeCupy, Generator, compiled, needs_compiler

import linsolve as ls
from linsolve import arithmetic
from linsolve.engines import cuda
from linsolve.engines.cuda_source import KINDS, TIMES, evaluation, gram, reduction
from linsolve.engines.program import Program, Tracer, program_of
from linsolve.ensembles import Histogram, cuda_reduce, random_networks
from linsolve.studies.phases import wishart

FLOWS = (ls.BalancedMode, ls.TwoLayerOrder, ls.DeepMode)
every_flow = pytest.mark.parametrize("cls", FLOWS, ids=lambda c: c.__name__)
TIMES_OF_ALL_SIZES = np.array([0.0, 5e-324, 1e-300, 1e-12, 1e-3, 0.1, 1.0, 3.0, 10.0, 1e3, 1e12, 1e300, np.inf])


class Libm:
    """NumPy with the elementary functions of the host's mathematical library, one number after another."""

    names = ("exp", "expm1", "log", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh")

    def __init__(self):
        library = ctypes.CDLL(ctypes.util.find_library("m"))
        for name in self.names:
            setattr(self, name, np.vectorize(self._function(library, name, 1), otypes=[float]))
        for name in ("hypot", "atan2"):
            setattr(self, name, np.vectorize(self._function(library, name, 2), otypes=[float]))
        pow_ = np.vectorize(self._function(library, "pow", 2), otypes=[float])
        self.pow = lambda a, b: a * a if np.ndim(b) == 0 and b == 2 else pow_(a, b)

    @staticmethod
    def _function(library, name, count):
        function = getattr(library, name)
        function.argtypes, function.restype = [ctypes.c_double] * count, ctypes.c_double
        return function

    def __getattr__(self, name):
        return getattr(np, name)


class Powered(np.ndarray):
    """An array whose operator ** is that of the host's library, too."""

    def __pow__(self, other):
        return LIBM.pow(self, other).view(Powered)


LIBM = Libm()


def by_libm(flow, t, z0):
    """Return the closed form as the functions of the host's library give it."""
    there = {name: np.asarray(v).view(Powered) for name, v in flow.parameters().items()}
    start = type(z0)(*(np.asarray(v).view(Powered) for v in z0))
    with np.errstate(all="ignore"):
        return type(flow)(**there).solution(LIBM, t[:, None].view(Powered), start)


def sizes(rng, count, decades, signed=True):
    values = 10 ** rng.uniform(-decades, decades, count)
    return values * rng.choice([-1.0, 1.0], count) if signed else values


def everything(cls, count=400, seed=0):
    """Return a flow and a start of all sizes, the special ones among them."""
    rng = np.random.default_rng(seed)
    if cls is ls.BalancedMode:
        s, a = sizes(rng, count, 30), sizes(rng, count, 30)
        s[:6], a[:6] = [0.0, 1.0, -1.0, 0.0, 5e-324, 1e300], [1.0, 0.0, 1.0, -0.0, 5e-324, 1e-300]
        return cls(s=s, tau=sizes(rng, count, 3, signed=False)), cls.State(a)
    if cls is ls.DeepMode:
        s, depth = sizes(rng, count, 10), rng.choice([1, 2, 2.5, 3, 4, 5, 7.3, np.inf], count)
        a = s * sizes(rng, count, 6, signed=False)
        a[:2], s[2] = 0.0, 0.0
        return cls(s=s, depth=depth, tau=sizes(rng, count, 2, signed=False)), cls.State(a)
    P, Q = (sizes(rng, count, 8, signed=False) for _ in range(2))
    P[:2], Q[1:3] = 0.0, 0.0
    own = {"y": sizes(rng, count, 4), "gamma": sizes(rng, count, 3)}
    rates = {name: sizes(rng, count, 2, signed=False) for name in ("eta_u", "eta_w", "rho")}
    return cls(**own, **rates), cls.State(P, Q, np.sqrt(P) * np.sqrt(Q) * rng.uniform(-1, 1, count))


@pytest.fixture
def gpu(monkeypatch):
    """A CuPy that is NumPy, whose kernels are compiled by the compiler of the host."""
    fake = FakeCupy()
    for module in (cuda, cuda_reduce):
        monkeypatch.setattr(module, "device", lambda: fake)
    monkeypatch.setattr(arithmetic, "_cupy", lambda: fake)
    for cached in (cuda.compiled, cuda_reduce._compiled):
        cached.cache_clear()
    return fake


def same(found, expected):
    return np.array_equal(np.asarray(found), np.asarray(expected), equal_nan=True)


# the source


@needs_compiler
@every_flow
def test_the_source_computes_what_the_formula_does_to_the_last_bit(cls, gpu):
    flow, z0 = everything(cls, 60 if cls is ls.DeepMode else 400)
    t = TIMES_OF_ALL_SIZES[::3] if cls is ls.DeepMode else TIMES_OF_ALL_SIZES
    found = cuda.evaluate(flow, t, z0)
    exact = by_libm(flow, t, z0)
    for name in z0._fields:
        assert same(found[name], np.broadcast_to(getattr(exact, name), found[name].shape)), name


@needs_compiler
def test_balanced_modes_of_all_sizes_are_numpys_within_four_ulp(gpu):
    flow, z0 = everything(ls.BalancedMode, 4000)
    with np.errstate(all="ignore"):
        plain = flow(TIMES_OF_ALL_SIZES, z0)["a"]
    found = np.asarray(cuda.evaluate(flow, TIMES_OF_ALL_SIZES, z0)["a"])
    assert np.all(np.abs(found - plain) <= 4 * np.spacing(np.abs(plain)))


@needs_compiler
@every_flow
def test_every_observable_is_numpys_to_rounding(cls, gpu):
    # the formulas are the same; what differs is the last place of exp and its kin, times what it weighs in the result
    flow, z0 = cls.example(np.random.default_rng(0))
    t = np.array([0.0, 0.1, 0.5, 2.0, np.inf])
    plain = flow(t, z0)
    found = cuda.evaluate(flow, t, z0, plain.names)
    assert list(found) == plain.names
    for name in plain.names:
        size = np.max(np.abs(plain[name]))
        assert np.all(np.abs(np.asarray(found[name]) - plain[name]) <= 4 * 2.0**-52 * max(size, 1e-300)), name


@needs_compiler
def test_every_operation_of_a_program_is_numpys():
    values = np.array([0.0, -0.0, 0.5, -0.5, 1.0, 2.5, -3.0, 1e300, -1e-300, 5e-324, np.inf, -np.inf, np.nan])
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    unary = ("neg", "abs", "sqrt", "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sign")
    operators = {"neg": lambda a: -a, "abs": abs}

    def formulas(xp, a, b):
        found = {name: operators[name](a) if name in operators else getattr(xp, name)(a) for name in unary}
        found |= {"add": a + b, "sub": a - b, "mul": a * b, "div": a / b, "mod": a % b, "square": a**2, "cube": a**3}
        found |= {name: getattr(xp, name)(a, b) for name in ("hypot", "atan2", "minimum", "maximum", "pow")}
        tests = {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "eq": a == b, "ne": a != b, "nan": xp.isnan(a)}
        tests |= {"inf": xp.isinf(a), "finite": xp.isfinite(b), "not": ~(a < b), "xor": (a < 0) ^ (b < 0)}
        tests |= {"and": (a < 0) & (b < 0), "or": (a < 0) | (b < 0)}
        found |= {f"is {name}": xp.where(v, a, -xp.inf) for name, v in tests.items()}
        return found | {"astype": xp.astype(a < b, xp.float64), "constant": xp.where(a == 0, xp.nan, 1e-17) * b}

    tracer = Tracer()
    for name, value in formulas(tracer, tracer.input("x"), tracer.input("y")).items():
        tracer.program.outputs[name] = value.index
    source = evaluation(tracer.program, {"x": "member", "y": "member"})
    outs = [np.empty((1, len(x))) for _ in tracer.program.outputs]
    arguments = [0, len(x), len(x), 1, 1, np.zeros(1).ctypes.data, x.ctypes.data, y.ctypes.data]
    compiled(source, "follow")(3, 1, *arguments, *(out.ctypes.data for out in outs))
    with np.errstate(all="ignore"):
        expected = formulas(np, x, y)
    for (name, exact), out in zip(expected.items(), outs, strict=True):
        # where NumPy has loops of its own, they and the library may differ in the last place
        np.testing.assert_allclose(out[0], exact, rtol=2e-15, atol=0, err_msg=name)
        zero = (exact == 0) & ~np.isin(name, ("minimum", "maximum"))
        assert np.array_equal(np.signbit(out[0][zero]), np.signbit(exact[zero])) or name == "sign", name


@needs_compiler
def test_inputs_of_every_kind_are_the_same_numbers(gpu):
    s, tau = np.linspace(0.5, 3.0, 4)[:, None, None], np.linspace(0.5, 2.0, 5)[:, None]
    start = np.linspace(0.1, 0.3, 4 * 6).reshape(4, 1, 6)  # varies along two axes with another between them
    flow, t = ls.BalancedMode(s=s, tau=tau), [0.0, 0.7, 2.0]
    kinds = [cuda.given(np.asarray(v), (4, 5, 6)).kind for v in (s, tau, start, np.ones(()), np.ones((1, 1, 6)))]
    assert kinds == ["axis", "axis", "member", "scalar", "axis"]
    for block in (None, 7, 50):
        found = cuda.evaluate(flow, t, start, "a", block=block)["a"]
        np.testing.assert_allclose(found, flow(t, start)["a"], rtol=1e-15)
    alone = cuda.evaluate(ls.BalancedMode(s=2.0), 0.5, 0.1)["a"]
    assert alone.shape == ()
    assert float(alone) == pytest.approx(float(ls.BalancedMode(s=2.0)(0.5, 0.1)["a"]), rel=1e-15)


@needs_compiler
def test_arrays_with_gaps_are_read_right(gpu):
    t, s, tau = np.linspace(0.0, 3.0, 12)[::3], np.linspace(0.5, 3.0, 20)[::-2], np.linspace(0.5, 2.0, 9)[::3, None]
    flow, plain = ls.BalancedMode(s=s, tau=tau), ls.BalancedMode(s=s.copy(), tau=tau.copy())(t, 0.1)["a"]
    np.testing.assert_allclose(cuda.evaluate(flow, t, 0.1)["a"], plain, rtol=1e-15)
    found = cuda_reduce.reduce(flow, t, 0.1, "a", ("mean", Histogram(edges=np.linspace(0, 6, 9)[::2])))["a"]
    np.testing.assert_allclose(found["mean"], plain.mean((-1, -2)), rtol=1e-14)
    assert found["histogram"].tolist() == [np.histogram(v, np.linspace(0, 6, 9)[::2])[0].tolist() for v in plain]


@needs_compiler
def test_one_member_at_many_times_takes_both_axes_of_the_grid(gpu):
    t = np.linspace(0.0, 5.0, 70_001)
    found = cuda.evaluate(ls.BalancedMode(s=2.0), t, 0.1)["a"]
    np.testing.assert_allclose(found, ls.BalancedMode(s=2.0)(t, 0.1)["a"], rtol=1e-15)


def places(source):
    """Return how many steps run once a thread, once a member, at every time."""
    depth = [len(line) - len(line.lstrip()) for line in source.split("\n") if line.lstrip().startswith("const ")]
    return [depth.count(2 * k) for k in (1, 2, 3)]


def test_what_does_not_depend_on_the_time_is_computed_once():
    program = program_of(ls.TwoLayerOrder)
    names = [name for name in program.inputs if name != "t"]
    members = places(evaluation(program, dict.fromkeys(names, "member")))
    assert members[2] == sum(program.depends({"t"})[k] for k in program.used())
    assert members[2] < members[1]
    parts = {name: "member" if name.startswith("start") else "scalar" for name in names}
    mixed = places(evaluation(program, parts))
    assert sum(mixed) == sum(members)
    assert mixed[0] > 5
    with pytest.raises(ValueError, match="cuda: kind of s = 'many' is unknown"):
        evaluation(program_of(ls.BalancedMode), {"s": "many", "tau": "scalar", "start.a": "scalar"})
    assert KINDS == ("scalar", "member", "axis")


# wrong sources


@needs_compiler
def test_a_dropped_where_is_seen(gpu, monkeypatch):
    monkeypatch.setitem(cuda_source_forms(), "where", "{1}")
    flow, z0 = everything(ls.BalancedMode)
    found = cuda.evaluate(flow, TIMES_OF_ALL_SIZES, z0)["a"]
    assert not same(found, by_libm(flow, TIMES_OF_ALL_SIZES, z0).a)


@needs_compiler
def test_a_contracted_product_is_seen(gpu, monkeypatch):
    # what --fmad=true would do: a rounding is left out
    import linsolve.engines.cuda_source as module

    monkeypatch.setitem(module._INFIX, "mul", "* 0x1.0000000000001p+0 *")
    flow, z0 = everything(ls.BalancedMode)
    found = cuda.evaluate(flow, TIMES_OF_ALL_SIZES, z0)["a"]
    assert not same(found, by_libm(flow, TIMES_OF_ALL_SIZES, z0).a)


@needs_compiler
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("* ({x} - mean{o}[q])", "* d{o}"),  # the square of the distance from the earlier mean
        ("e{o} = d{o} * share", "e{o} = d{o} * share * 0.999"),
        ("low{o}[q] = smaller", "low{o}[q] = larger"),
    ],
)
def test_a_wrong_recurrence_is_seen(gpu, monkeypatch, right, wrong):
    import linsolve.engines.cuda_source as module

    assert right in module._MOMENTS
    monkeypatch.setattr(module, "_MOMENTS", module._MOMENTS.replace(right, wrong))
    with pytest.raises((AssertionError, ValueError)):
        compare_reductions()


@needs_compiler
@pytest.mark.parametrize("forgotten", ["t", "s"])
def test_a_step_hoisted_above_what_it_needs_does_not_compile(forgotten, monkeypatch):
    right = Program.depends
    monkeypatch.setattr(Program, "depends", lambda self, names: right(self, set(names) - {forgotten}))
    source = evaluation(program_of(ls.BalancedMode), {"s": "member", "tau": "scalar", "start.a": "member"})
    with pytest.raises(SyntaxError, match=r"not declared|undeclared"):
        compiled(source, "follow")


def cuda_source_forms():
    import linsolve.engines.cuda_source as module

    return module._FORM


# blocks


class Full(Exception):
    pass


def test_blocks_halve_until_they_fit_and_the_run_continues():
    done, freed = [], []

    def work(first, last):
        if last - first > 3000:
            raise Full
        done.append((first, last))

    assert cuda.in_blocks(work, 10_000, 9000, Full, lambda: freed.append(1)) == 2250
    assert [first for first, _ in done] == [0, *(last for _, last in done[:-1])]
    assert done[-1][1] == 10_000
    assert len(freed) == 2


def test_a_block_that_cannot_be_smaller_is_said():
    def work(first, last):
        raise Full

    with pytest.raises(MemoryError, match="cuda: memory for 1250 members is lacking") as caught:
        cuda.in_blocks(work, 10_000, 10_000, Full, lambda: None)
    assert isinstance(caught.value.__cause__, Full)


def test_other_errors_are_not_taken_for_a_lack_of_memory():
    def work(first, last):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cuda.in_blocks(work, 10, 10, Full, lambda: None)


@needs_compiler
def test_results_larger_than_the_device_go_to_the_host_in_blocks(gpu):
    flow, t = ls.BalancedMode(s=np.linspace(0.5, 3.0, 20_000)), np.linspace(0.0, 5.0, 11)
    whole = np.asarray(cuda.evaluate(flow, t, 0.1)["a"])
    gpu.limit, out = 11 * 3000, {"a": np.full((11, 20_000), np.nan)}
    assert cuda.evaluate(flow, t, 0.1, "a", out=out)["a"] is out["a"]
    assert gpu.refused == 3
    assert same(out["a"], whole)
    with pytest.raises(MemoryError, match="a of 11 times and 20000 members do not fit the device; give NumPy arrays"):
        cuda.evaluate(flow, t, 0.1, "a")


@needs_compiler
def test_arrays_of_the_device_are_written_in_place(gpu):
    flow, t = ls.BalancedMode(s=np.linspace(0.5, 3.0, 50)), np.array([0.5, 1.0])
    out = {name: np.empty((2, 50)).view(DeviceArray) for name in ("loss", "a")}
    found = cuda.evaluate(flow, t, 0.1, ("a", "loss"), out=out)
    assert found["a"] is out["a"]
    np.testing.assert_allclose(out["a"], flow(t, 0.1)["a"], rtol=1e-15)
    np.testing.assert_allclose(out["loss"], flow(t, 0.1)["loss"], rtol=1e-14)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"names": "b"}, ValueError, "'b' is unknown"),
        ({"out": {"b": np.empty((1, 3))}}, ValueError, "out = 'b' is unknown"),
        ({"out": {"a": np.empty((3, 1))}}, ValueError, r"out\['a'\] has shape \(3, 1\)"),
        ({"out": {"a": np.empty((1, 3), dtype=np.float32)}}, ValueError, "dtype float32 but must be"),
        ({"out": {"a": np.empty((1, 6))[:, ::2]}}, ValueError, "must be C-contiguous"),
        ({"block": 0}, ValueError, "block = 0 must be a positive integer"),
        ({"block": True}, ValueError, "block = True must be"),
        ({"t": [-1e9]}, ValueError, "BalancedMode: t ="),
    ],
)
def test_what_cannot_be_computed_is_refused(gpu, change, error, message):
    given = {"t": [1.0], "names": "a"} | change
    with pytest.raises(error, match=message):
        cuda.evaluate(ls.BalancedMode(s=[1.0, 2.0, -1.0]), given.pop("t"), 5.0, given.pop("names"), **given)


def test_flows_with_arrays_of_their_own_are_refused(gpu):
    flow, z0 = ls.TwoLayer.example(np.random.default_rng(0))
    with pytest.raises(ValueError, match="TwoLayer: parameters or states have axes of their own"):
        cuda.evaluate(flow, 1.0, z0)


# reductions


@needs_compiler
def test_reductions_are_numpys_and_do_not_depend_on_the_blocks(gpu):
    compare_reductions()


def compare_reductions():
    members, t = 40_001, np.array([[0.0, 0.3, 0.6], [1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, np.inf]])
    flow, edges = ls.BalancedMode(s=np.linspace(0.5, 3.0, members)), np.linspace(0.0, 2.5, 31)
    assert t.size > TIMES
    what = ("mean", "variance", "standard_error", "count", "min", "max", Histogram(edges=edges))
    plain = flow(t, 0.1)
    whole, parts = (cuda_reduce.reduce(flow, t, 0.1, ("a", "loss"), what, block=b) for b in (None, cuda_reduce.LANES))
    for name in ("a", "loss"):
        found, values = whole[name], plain[name]
        assert all(same(found[key], parts[name][key]) for key in found)
        np.testing.assert_allclose(found["mean"], values.mean(-1), rtol=1e-14)
        np.testing.assert_allclose(found["variance"], values.var(-1, ddof=1), rtol=1e-12, atol=1e-30)
        np.testing.assert_allclose(
            found["standard_error"] ** 2, values.var(-1, ddof=1) / members, rtol=1e-12, atol=1e-30
        )
        np.testing.assert_allclose(found["min"], values.min(-1), rtol=1e-14)
        np.testing.assert_allclose(found["max"], values.max(-1), rtol=1e-14)
        assert (found["count"] == members).all()
        counts = np.stack([np.histogram(v, edges)[0] for v in values.reshape(-1, members)]).reshape(4, 3, 30)
        # a value may be an ulp to the other side of an edge
        assert np.abs(found["histogram"] - counts).max() <= 1
        assert (found["histogram"].sum(-1) + found["below"] + found["above"] == members).all()


@needs_compiler
def test_bins_have_their_lower_edges_and_the_last_one_both():
    tracer = Tracer()
    x = tracer.input("x")
    tracer.program.outputs["x"] = x.index
    values, edges = np.array([-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 2.0, 2.5, -np.inf, np.inf]), np.array([0.0, 1.0, 2.0])
    state = [np.zeros((1, 1, 1)), np.zeros((1, 1, 1)), np.full((1, 1, 1), np.inf), np.full((1, 1, 1), -np.inf)]
    counts = np.zeros((1, 1, 4), np.uint64)
    pointers = [a.ctypes.data for a in (np.zeros(1), values, *state, edges, counts)]
    compiled(reduction(tracer.program, {"x": "member"}, 3), "reduce")(1, 1, 0, len(values), 1, 1, *pointers)
    assert counts.ravel().tolist() == [2, 2, 4, 2]


@needs_compiler
def test_values_that_are_not_finite_are_refused(gpu):
    kind = {"s": cuda.Given("scalar", np.float64(1.0)), "tau": cuda.Given("scalar", np.float64(1.0))}
    gathering = cuda_reduce.Reduction(gpu, ls.BalancedMode, ("a",), np.array([1.0]))
    start = np.full(5, 0.1)
    start[3] = np.nan
    gathering.absorb(kind | {"start.a": cuda.Given("member", start)}, 0, 5)
    with pytest.raises(ValueError, match="ensemble: a = nan or inf for some member must be finite"):
        gathering.results()


def test_members_out_of_order_are_refused(gpu):
    gathering = cuda_reduce.Reduction(gpu, ls.BalancedMode, ("a",), np.array([1.0]))
    for first in (5, cuda_reduce.LANES):
        with pytest.raises(ValueError, match=f"cuda: first = {first} must be 0"):
            gathering.absorb({}, first, first + 1)


@needs_compiler
def test_an_ensemble_on_a_device_is_that_of_its_members(gpu):
    members, tile, t = 40_000, 2 * cuda_reduce.LANES, np.array([0.0, 0.5, 2.0])
    factory = random_networks(10**6, 1e-3, 1e-3, gamma=0.7, y=1.5)
    edges = np.linspace(0, 4, 9)
    found = ls.ensemble(
        factory, members, t, observe=("loss", "ntk"), reduce=("mean", "variance", "max", Histogram(edges=edges)), rng=3,
        device="cuda", tile=tile,
    )  # fmt: skip
    drawn = []
    for k, count in enumerate((tile, members - tile)):
        flow, z0 = factory(cuda_reduce.generator(np.random.SeedSequence(3), k), count)
        drawn.append(flow(t, type(z0)(*(v.get() for v in z0)), engine="plain"))
    for name in ("loss", "ntk"):
        values = np.concatenate([traj[name] for traj in drawn], axis=-1)
        np.testing.assert_allclose(found[name, "mean"], values.mean(-1), rtol=1e-13)
        np.testing.assert_allclose(found[name, "variance"], values.var(-1, ddof=1), rtol=1e-9)
        np.testing.assert_allclose(found[name, "max"], values.max(-1), rtol=1e-13)
        assert (found[name, "histogram"].sum(-1) + found[name, "above"] + found[name, "below"] == members).all()
    assert found.edges["loss"].tolist() == edges.tolist()
    on_host = ls.ensemble(factory, members, t, observe="loss", reduce=("mean", "standard_error"), rng=3)
    assert np.all(np.abs(found["loss", "mean"] - on_host["loss", "mean"]) <= 8 * on_host["loss", "standard_error"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"device": "tpu"}, "ensemble: device = 'tpu' is unknown"),
        ({"threads": 2}, "ensemble: threads = 2 does not go with device = 'cuda'"),
        ({"nonfinite": "omit"}, "nonfinite = 'omit' must be 'raise' on a device"),
        ({"reduce": "quantiles"}, "statistic on a device = 'quantiles' is unknown"),
        ({"reduce": Histogram()}, "Histogram must have edges"),
        ({"reduce": Histogram(edges=np.arange(2000.0))}, "edges = 2000 for 1 names must be at most 1535"),
        ({"members": 1}, "members = 1 must be at least 2 for a variance"),
        ({"tile": 5000}, "tile = 5000 must be a multiple of 16384"),
        ({"members": 0}, "members = 0 must be a positive integer"),
    ],
)
def test_what_a_device_cannot_gather_is_refused(gpu, change, message):
    given = {"members": 10, "device": "cuda"} | change
    with pytest.raises(ValueError, match=message):
        ls.ensemble(random_networks(10), given.pop("members"), 1.0, **given)


# random numbers and weights


def test_generators_of_a_device_draw_there(gpu):
    width = np.array([1.0, 5.0, 1e9])
    drawn = wishart(width, 4, rng=Generator(np.random.Philox(1)))
    host = wishart(width, 4, rng=np.random.Generator(np.random.Philox(1)))
    assert all(type(v) is DeviceArray and same(v, h) for v, h in zip(drawn, host, strict=True))
    norms, same_norms = (
        ls.ntk.sampling.layer_by_layer(rng, 7, [20, 1010, 1005], 2.0, 0.1)  # so wide that NumPy draws binomials too
        for rng in (Generator(np.random.Philox(2)), np.random.Generator(np.random.Philox(2)))
    )
    assert type(norms.inputs) is DeviceArray
    assert same(norms.gradients, same_norms.gradients)


@needs_compiler
def test_one_pass_over_the_weights_gives_the_order_parameters(gpu):
    rng = np.random.default_rng(0)
    flow = ls.TwoLayer(y=1.0, eta_u=0.7, eta_w=1.3, x=np.array([1.0]))
    h, u = rng.standard_normal((2, 5, 100))
    order = ls.TwoLayerOrder.of(flow, ls.TwoLayer.State(u, h[..., None]))[1]
    b, a = np.sqrt(flow.eta_u) / 2, np.sqrt(flow.eta_w) / 2
    device = gram(gpu, h.view(DeviceArray), u.view(DeviceArray), b, a)
    for found in (np.asarray(device), gram(np, h, u, b, a)):
        np.testing.assert_allclose(found, np.stack(order), rtol=1e-13, atol=1e-13)


# no device


def test_a_missing_cupy_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ImportError, match=r'"\.\[cuda12\]".*"\.\[cuda13\]"'):
        cuda.device()


@pytest.mark.parametrize("broken", [True, False])
def test_a_missing_device_names_the_extra(monkeypatch, broken):
    class CUDARuntimeError(RuntimeError):
        pass

    def count():
        if broken:
            raise CUDARuntimeError("cudaErrorInsufficientDriver")
        return 0

    cupy = types.ModuleType("cupy")
    cupy.cuda = types.SimpleNamespace(
        runtime=types.SimpleNamespace(getDeviceCount=count, CUDARuntimeError=CUDARuntimeError)
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    with pytest.raises(OSError, match=r"\[cuda12\] (or|and) \[cuda13\]"):
        cuda.device()
