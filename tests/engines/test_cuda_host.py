"""The CUDA source of flows, compiled and run on the host: the numbers of the formulas, and wrong sources rejected.

No GPU takes part. The results of the very text that CuPy compiles are compared with the formulas in NumPy: bit by bit
where NumPy is given the functions of the host's mathematical library, and with its own within the bounds of the engine
"compiled", on a million inputs of each flow.
"""

import ctypes
import ctypes.util
import sys
import types

import numpy as np
import pytest
from cuda_operations import by_member, compare_observables, compare_operations, pairs, recorded
from fused_cases import FLOWS, NAMES, TIMES, beyond, drawn
from host_cuda import DeviceArray, compiled, needs_compiler, simulated
from selection import quick
from test_fused_ranges import random_program

import linsolve as ls
from benchmarks.device import functions
from linsolve.core.query import pose
from linsolve.engines import cuda, cuda_source, cuda_statements
from linsolve.engines.cuda_source import evaluation
from linsolve.engines.plan import COLUMN, TIME, plan_for
from linsolve.engines.program import Tracer, program_of
from linsolve.engines.specialize import range_of

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


class Paired:
    """The library, with the exponentials of the kernels where both are needed."""

    def exp(self, x):
        return both_exponentials(x)[0]

    def expm1(self, x):
        return both_exponentials(x)[1]

    def __getattr__(self, name):
        return getattr(LIBM, name)


def both_exponentials(x):
    """Return exp and expm1 of an array from one program."""
    tracer = Tracer()
    given = tracer.input("x")
    for name in ("exp", "expm1"):
        tracer.program.outputs[name] = getattr(tracer, name)(given).index
    source = evaluation(by_member(tracer.program))
    assert "exponentials(v0, v1, v2);" in source
    flat = np.ascontiguousarray(x, dtype=float).reshape(-1)
    return [v.reshape(np.shape(x)).view(Powered) for v in run(tracer.program, x=flat)[0]]


def by_libm(cls, flow, t, z0):
    """Return the closed form with the functions of the host's library."""
    there = {name: np.asarray(v).view(Powered) for name, v in flow.parameters().items()}
    start = type(z0)(*(np.asarray(v).view(Powered) for v in z0))
    with np.errstate(all="ignore"):
        library = Paired() if cls is ls.BalancedMode else LIBM
        return type(flow)(**there).solution(library, t[:, None].view(Powered), start)


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
    """A CuPy of NumPy arrays, whose kernels are compiled by the compiler of the host."""
    return simulated(monkeypatch)


def computed(flow, t, z0, names=None):
    """Return observables of the kernel, finite or not, by name."""
    return cuda.computed(pose(flow, t, z0), names or z0._fields)[0]


def same(found, expected):
    return np.array_equal(np.asarray(found), np.asarray(expected), equal_nan=True)


def formulas_bits(cls=ls.BalancedMode):
    """Whether the kernel has every bit of the formula."""
    flow, z0 = everything(cls, 60 if cls is ls.DeepMode else 400)
    t = TIMES_OF_ALL_SIZES[::3] if cls is ls.DeepMode else TIMES_OF_ALL_SIZES
    found, exact = computed(flow, t, z0), by_libm(cls, flow, t, z0)
    return all(same(found[name], np.broadcast_to(getattr(exact, name), found[name].shape)) for name in z0._fields)


# the source


@needs_compiler
@every_flow
@pytest.mark.quick(2)
def test_the_source_computes_what_the_formula_does_to_the_last_bit(cls, gpu, monkeypatch):
    if cls is ls.DeepMode:  # which has both exponentials of some arguments, and one of others
        monkeypatch.setattr(cuda_statements, "_twins", lambda steps, own: {})
    assert formulas_bits(cls)


without_the_deep_one = pytest.mark.parametrize(
    "cls", quick(FLOWS, lambda cls: cls is not ls.DeepMode), ids=lambda c: c.__name__
)


@needs_compiler
@pytest.mark.parametrize("decades", quick([40, 1], 1))
@without_the_deep_one  # its code takes seconds to compile
@pytest.mark.quick(1)
@pytest.mark.exhaustive
def test_a_million_inputs_are_within_the_bounds_of_the_compiled_engine(cls, decades, gpu):
    flow, z0 = drawn(cls, np.random.default_rng(decades), (-(-(10**6) // len(TIMES)),), decades)
    found = computed(flow, TIMES, z0, NAMES[cls])
    assert sum(v.size for v in found.values()) >= 10**6 * len(NAMES[cls])
    assert beyond(cls, found, flow(TIMES, z0, engine="blocks")) == []


@needs_compiler
@without_the_deep_one
def test_every_observable_is_numpys_to_rounding(cls, gpu):
    # the formulas are the same; elementary functions differ in the last place, times its weight in the result
    compare_observables(cls, ulps=4)


def run(program, **inputs):
    """Return the outputs of a program on arrays, from its source, and whether one is not finite."""
    count = len(next(iter(inputs.values())))
    outs, lost, nothing = [np.empty(count) for _ in program.outputs], np.zeros(1, np.int32), np.zeros(1)
    given = (nothing, nothing, *(inputs[name] for name in program.inputs), *outs, lost)
    compiled(evaluation(by_member(program)), "follow")(count, 1, count, 1, *(v.ctypes.data for v in given))
    return outs, bool(lost[0])


@needs_compiler
def test_every_operation_of_a_program_is_numpys():
    x, y = pairs()
    outs, lost = run(recorded(), x=x, y=y)
    assert lost
    # some loops of NumPy differ from the library in the last place
    compare_operations(outs, x, y, rtol=2e-15)


@needs_compiler
@pytest.mark.parametrize(("x", "lost"), [(1.0, False), (np.inf, True), (-np.inf, True), (np.nan, True)])
def test_an_output_that_is_not_finite_is_told(x, lost):
    tracer = Tracer()
    tracer.program.outputs["x"] = tracer.input("x").index
    assert run(tracer.program, x=np.array([2.0, x, 3.0]))[1] is lost


@needs_compiler
def test_an_overflow_is_raised_by_name(gpu):
    with pytest.raises(OverflowError, match="BalancedMode: s of up to 1e\\+200 leaves the range of doubles"):
        cuda.evaluate(ls.BalancedMode(s=[1.0, 1e200]), [0.0, 1.0], 0.1, "loss")


@needs_compiler
def test_inputs_along_any_axes_are_the_same_numbers(gpu):
    s, tau = np.linspace(0.5, 3.0, 4)[:, None, None], np.linspace(0.5, 2.0, 5)[:, None]
    start = np.linspace(0.1, 0.3, 4 * 6).reshape(4, 1, 6)
    flow, t = ls.BalancedMode(s=s, tau=tau), [0.0, 0.7, 2.0]
    np.testing.assert_allclose(cuda.evaluate(flow, t, start, "a")["a"], flow(t, start)["a"], rtol=1e-15)
    alone = cuda.evaluate(ls.BalancedMode(s=2.0), 0.5, 0.1)["a"]
    assert alone.shape == ()
    assert float(alone) == pytest.approx(float(ls.BalancedMode(s=2.0)(0.5, 0.1)["a"]), rel=1e-15)


@needs_compiler
def test_arrays_with_gaps_are_read_right(gpu):
    t, s, tau = np.linspace(0.0, 3.0, 12)[::3], np.linspace(0.5, 3.0, 20)[::-2], np.linspace(0.5, 2.0, 9)[::3, None]
    flow, plain = ls.BalancedMode(s=s, tau=tau), ls.BalancedMode(s=s.copy(), tau=tau.copy())(t, 0.1)["a"]
    np.testing.assert_allclose(cuda.evaluate(flow, t, 0.1)["a"], plain, rtol=1e-15)


@needs_compiler
@pytest.mark.parametrize("last", [40, 7])
def test_one_member_at_many_times_takes_both_axes_of_the_grid(gpu, monkeypatch, last):
    monkeypatch.setattr(cuda, "LAST", last)
    t = np.linspace(0.0, 5.0, 101)
    found = cuda.evaluate(ls.BalancedMode(s=2.0), t, 0.1)["a"]
    np.testing.assert_allclose(found, ls.BalancedMode(s=2.0)(t, 0.1)["a"], rtol=1e-15)


def test_steps_independent_of_the_time_are_computed_once():
    program = program_of(ls.TwoLayerOrder)
    plan, timed = by_member(program), program.depends({"t"})
    found = cuda_statements.statements(plan, {name: name for name in program.inputs})
    assert plan.full == [k for k in program.used() if timed[k] and plan.axes[k] != TIME]
    assert sum(" = " in line for line in found.time) == len(plan.full)
    assert len(found.member) == len(plan.member) > len(plan.full)
    first = [line.split(" = ")[0].split()[-1] for line in found.member]
    assert not any(f"{name} = " in line for name in first for line in found.time)


def test_steps_equal_for_all_members_are_computed_on_the_host(gpu):
    def read(**parameters):
        problem = pose(ls.TwoLayerOrder(**parameters), [0.1, 0.2, 0.3], ls.TwoLayerOrder.State(*np.full((3, 5), 0.1)))
        program, inputs, times, arrays = cuda.prepared(gpu, problem, ("loss",))
        return inputs, arrays[0], arrays[1].reshape(-1, times), cuda_statements.early(plan_for(program, inputs))

    inputs, same, row, (alone, timed) = read(y=1.0, eta_u=2.0)
    assert {name for name, axes in inputs if axes & COLUMN} == {"start.P", "start.Q"}
    assert (len(same), len(row)) == (len(alone), len(timed))
    assert min(len(same), len(row)) > 1
    assert len(read(y=np.linspace(1, 2, 5), eta_u=np.linspace(1, 2, 5))[1]) < len(same)


@needs_compiler
@pytest.mark.parametrize("s", [0.0, -0.0, 1.0, -1.0, 1e-300, 5e-324, 1e150])
def test_parameters_equal_for_all_members_may_have_any_size(gpu, s):
    start = np.array([0.0, -0.0, 0.1, -0.1, 1.0, 5e-324])
    for tau in (1e-300, 1.0, 1e300):  # without a warning of NumPy, where steps on the host overflow
        flow = ls.BalancedMode(s=s, tau=tau)
        for t in ([0.0, 0.5, np.inf], [1e300]):
            found = cuda.evaluate(flow, t, start, ["a", "loss"])
            for name, value in found.items():
                np.testing.assert_allclose(value, flow(t, start)[name], rtol=1e-13, atol=5e-324)


@needs_compiler
def test_branches_that_no_member_takes_are_not_printed(gpu):
    flow, t, rng = ls.DeepMode(s=[1.0, 2.0], depth=3.0), [0.5, 1.0], np.random.default_rng(0)
    whole, some = program_of(ls.DeepMode), cuda.prepared(gpu, pose(flow, t, 0.1), ("a",)).program
    assert len(some.used()) < len(whole.used()) / 2
    for values in (np.array([0.0, 2.0]), np.array([-0.0, 1.0]), rng.normal(size=9), np.array([1.0, np.nan])):
        found, exact = cuda._ranges(gpu, {"x": values.view(DeviceArray)})["x"], range_of(values)
        assert found.low <= exact.low
        assert found.high >= exact.high
        assert found.nan >= exact.nan
        assert not (found.unsigned and np.signbit(values).any())


# wrong sources


@needs_compiler
def test_a_dropped_where_is_seen(gpu, monkeypatch):
    monkeypatch.setitem(cuda_statements._FORM, "where", "{1}")
    assert not formulas_bits()


@needs_compiler
def test_a_wrong_literal_is_seen(gpu, monkeypatch):
    real = cuda_statements._literal
    # one bit in the last place of one constant
    monkeypatch.setattr(cuda_statements, "_literal", lambda v: real(np.nextafter(v, 9).item() if v == 1.0 else v))
    assert not formulas_bits()


@needs_compiler
def test_a_missing_restriction_of_contraction_is_seen(gpu, monkeypatch):
    monkeypatch.setattr(cuda, "OPTIONS", tuple(option for option in cuda.OPTIONS if "fmad" not in option))
    assert cuda.OPTIONS != cuda_source.OPTIONS
    assert not formulas_bits(ls.TwoLayerOrder)


@needs_compiler
def test_a_step_hoisted_out_of_the_loop_over_times_does_not_compile(monkeypatch):
    plan = by_member(program_of(ls.BalancedMode))
    wrong = plan._replace(member=sorted(plan.member + plan.full[:2]), full=plan.full[2:])
    with pytest.raises(SyntaxError, match=r"not declared|undeclared"):
        compiled(evaluation(wrong), "follow")


@needs_compiler
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.quick(4)
def test_branches_of_random_programs_keep_every_bit(seed, monkeypatch):
    rng = np.random.default_rng([11, seed])
    program, size = random_program(rng, 80), 500
    inputs = {name: 10 ** rng.uniform(-2, 2, size) * rng.choice([-1, 1], size) for name in program.inputs}
    inputs["a"][:5] = [0.0, -0.0, np.inf, -np.inf, np.nan]
    # every step varies with member and time, so that the host computes none and none is computed once
    axes = tuple((name, COLUMN | TIME) for name in program.inputs)
    monkeypatch.setattr(cuda_statements, "_twins", lambda steps, own: {})  # a pair may be divided by a branch
    found = []
    for worth in (2, 10**9):
        monkeypatch.setattr(cuda_statements, "WORTH", worth)
        outs, nothing = [np.empty(size) for _ in program.outputs], np.zeros(1)
        given = (nothing, nothing, *inputs.values(), *outs, np.zeros(1, np.int32))
        source = evaluation(plan_for(program, axes))
        compiled(source, "follow")(size, 1, size, 1, *(v.ctypes.data for v in given))
        found.append(b"".join(np.where(np.isnan(v), np.nan, v).tobytes() for v in outs))
    assert found[0] == found[1]


@needs_compiler
def test_a_branch_of_the_wrong_members_is_seen(gpu, monkeypatch):
    right = cuda_statements._condition
    turned = {"!": "", "v": "!v"}
    monkeypatch.setattr(
        cuda_statements, "_condition", lambda c, names: turned[right(c, names)[0]] + right(c, names)[1:]
    )
    assert not formulas_bits()


@needs_compiler
def test_exponentials_that_share_their_reduction_are_within_an_ulp():
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [
            rng.uniform(-745, 709, 3000),
            rng.uniform(-3, 3, 9000),
            rng.choice([-1, 1], 3000) * 10 ** rng.uniform(-20, 1, 3000),
        ]
    )
    for name, found in zip(("exp", "expm1"), both_exponentials(x), strict=True):
        normal = np.abs(np.asarray(found)) > 1e-300
        assert functions.worst(name, np.asarray(found)[normal], (x[normal],)) <= 1.0, name
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -800.0, 800.0])
    for found, right in zip(both_exponentials(special), (np.exp, np.expm1), strict=True):
        with np.errstate(over="ignore"):
            exact = right(special)
        assert np.array_equal(found, exact, equal_nan=True)
        assert np.array_equal(np.signbit(found), np.signbit(exact))


@needs_compiler
@pytest.mark.parametrize(("right", "wrong"), [("part + t", "r"), ("product - (sum - less)", "0.0")])
def test_lost_digits_of_exponentials_are_seen(right, wrong, monkeypatch):
    text = cuda_statements._EXPONENTIALS
    assert right in text
    monkeypatch.setattr(cuda_statements, "_EXPONENTIALS", text.replace(right, wrong))
    cuda_statements.exponentials.cache_clear()
    x = np.random.default_rng(0).uniform(-1, 1, 3000)
    errors = [
        functions.worst(name, np.asarray(found), (x,))
        for name, found in zip(("exp", "expm1"), both_exponentials(x), strict=True)
    ]
    cuda_statements.exponentials.cache_clear()
    assert not max(errors) <= 1.0


# a call


@needs_compiler
def test_results_larger_than_the_device_are_refused(gpu):
    flow, t = ls.BalancedMode(s=np.linspace(0.5, 3.0, 2000)), np.linspace(0.0, 5.0, 11)
    gpu.limit = 11 * 1000
    with pytest.raises(MemoryError, match=r"a of shape \(11, 2000\) \(times and members\) do not fit the device"):
        cuda.evaluate(flow, t, 0.1, "a")
    with pytest.raises(ValueError, match=r"cuda: names = \(\) must have an entry"):
        cuda.evaluate(flow, t, 0.1, [])


@pytest.mark.parametrize(("t", "names", "message"), [(1.0, "b", "'b' is unknown"), (-1e9, "a", "BalancedMode: t =")])
def test_impossible_calls_are_refused(gpu, t, names, message):
    with pytest.raises(ValueError, match=message):
        cuda.evaluate(ls.BalancedMode(s=[1.0, 2.0, -1.0]), t, 5.0, names)


def test_flows_with_arrays_of_their_own_are_refused(gpu):
    flow, z0 = ls.TwoLayer.example(np.random.default_rng(0))
    with pytest.raises(ValueError, match="TwoLayer: parameters or states have axes of their own"):
        cuda.evaluate(flow, 1.0, z0)


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
