"""Closed forms in blocks: bit by bit the plain ones, on any grid, in any arrays, on any number of threads."""

import pickle

import numpy as np
import pytest
from fused_cases import FLOWS, IN_DOUBLES, NAMES, TIMES, drawn, through

import linsolve as ls
from linsolve.core.query import pose
from linsolve.engines.blocks import Blocks
from linsolve.engines.evaluate import evaluate, prepared, traceable
from linsolve.engines.plan import COLUMN, ROW, TIME, buffers, grid_of, plan_of
from linsolve.engines.program import Tracer, program_of
from linsolve.ensembles import Histogram
from linsolve.ensembles.reduce_members import reduce
from linsolve.systems.two_layer import order_sums
from linsolve.systems.two_layer.order_sums import order_parameters

SHAPES = {  # times, parameters, start
    "many members": ((9,), (3000,), (3000,)),
    "one of everything": ((), (), ()),
    "one member, many times": ((500,), (), ()),
    "one member in a list": ((500,), (1,), ()),
    "few members, many times": ((700,), (7,), (7,)),
    "rows and columns": ((), (80, 1), (90,)),
    "rows and columns and times": ((3, 2), (70, 1), (90,)),
    "three axes": ((4,), (5, 1, 6), (7, 1)),
    "parameters of all": ((9,), (), (2500,)),
    "narrow columns": ((3,), (400, 1), (3,)),
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("cls", FLOWS, ids=lambda c: c.__name__)
@pytest.mark.quick(8)
def test_blocks_give_the_bits_of_plain_evaluation_on_every_grid(cls, shape):
    times, parameters, start = SHAPES[shape]
    rng = np.random.default_rng(0)
    flow, _ = drawn(cls, rng, parameters)
    _, z0 = drawn(cls, rng, start)
    if cls is ls.DeepMode:  # of one sign, for every depth
        flow, z0 = cls(s=np.abs(flow.s), depth=flow.depth, tau=flow.tau), cls.State(np.abs(z0.a))
    t = np.resize(TIMES, times) * rng.uniform(0.5, 2.0, times)
    plain, found = flow(t, z0, engine="plain"), flow(t, z0, engine="blocks")
    for a, b in zip(plain.state, found.state, strict=True):
        assert a.shape == b.shape
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    for name, value in evaluate(flow, t, z0, NAMES[cls], engine="blocks").items():
        assert np.asarray(plain[name]).tobytes() == value.tobytes()


@pytest.mark.parametrize("decades", [1, 40])
@pytest.mark.parametrize("cls", FLOWS, ids=lambda c: c.__name__)
@pytest.mark.quick(2)
def test_blocks_give_the_bits_of_plain_evaluation_over_all_magnitudes(cls, decades):
    flow, z0 = drawn(cls, np.random.default_rng(decades), (10_000,), decades)
    plain = flow(TIMES, z0, engine="plain").state
    for threads in (1, 3):
        found = flow(TIMES, z0, engine="blocks", threads=threads).state
        assert all(a.tobytes() == b.tobytes() for a, b in zip(plain, found, strict=True))


@pytest.mark.parametrize("cls", FLOWS, ids=lambda c: c.__name__)
@pytest.mark.quick(1)
def test_the_flow_as_its_blocks_is_proved(cls):
    flow, z0 = cls.example(np.random.default_rng(1))
    report = ls.verify(through(cls, "blocks")(**flow.parameters()), z0, checks=IN_DOUBLES)
    assert report.ok, str(report)


def test_large_ensembles_take_the_blocks_by_themselves(monkeypatch):
    seen = []
    monkeypatch.setattr(Blocks, "tiles", lambda self, tiles=Blocks.tiles: seen.append(1) or tiles(self))
    flow, z0 = drawn(ls.BalancedMode, np.random.default_rng(2), (8000,))
    assert flow(TIMES, z0)["a"].tobytes() == flow(TIMES, z0, engine="plain")["a"].tobytes()
    assert seen == [1]
    ls.BalancedMode(s=1.0)(TIMES, 0.1)
    assert seen == [1]


def test_a_formula_that_is_no_program_is_evaluated_as_it_stands():
    class Sorted(ls.BalancedMode):
        def solution(self, xp, t, z0):
            return super().solution(xp, t, self.State(xp.sort(z0.a)))

    z0 = np.random.default_rng(3).uniform(0.1, 1.0, 20_000)
    found = Sorted(s=2.0)(TIMES, z0)["a"]
    assert found.tobytes() == ls.BalancedMode(s=2.0)(TIMES, np.sort(z0), engine="plain")["a"].tobytes()


def test_observables_do_not_need_the_state():
    flow, z0 = drawn(ls.TwoLayerOrder, np.random.default_rng(4), (50,))
    asked = program_of(ls.TwoLayerOrder, ("loss",))
    assert len(asked.used()) < len(program_of(ls.TwoLayerOrder, ("loss", "P", "ntk")).used())
    assert list(evaluate(flow, TIMES, z0, "loss")) == ["loss"]
    with pytest.raises(ValueError, match="did you mean 'loss'"):
        evaluate(flow, TIMES, z0, "los")
    with pytest.raises(ValueError, match="did you mean 'loss'"):
        evaluate(flow, TIMES, z0, "los", engine="blocks")


def test_arrays_to_write_into():
    flow, z0 = drawn(ls.BalancedMode, np.random.default_rng(5), (9000,))
    plain = flow(TIMES, z0, engine="plain")["a"]
    for engine in ("plain", "blocks"):
        for out in (np.empty(plain.shape), np.empty(plain.shape[::-1]).T, np.empty((9, 2, 9000))[:, 1]):
            found = flow(TIMES, z0, out=out, engine=engine)["a"]
            assert np.shares_memory(found, out)
            assert (out == plain).all()
    given = {"loss": np.empty(plain.shape)}
    assert evaluate(flow, TIMES, z0, "loss", out=given)["loss"] is given["loss"]
    weights, start = ls.TwoLayer.example(np.random.default_rng(0))
    state = weights([0.0, 1.0], start).state
    out = weights.State(*(np.empty_like(v) for v in state))
    assert np.shares_memory(weights([0.0, 1.0], start, out=out).state.w, out.w)
    assert (out.w == state.w).all()


@pytest.mark.parametrize(
    ("out", "kind", "message"),
    [
        (np.empty(3), ValueError, r"out\['a'\] has shape \(3,\) but must begin with \(9, 4\)"),
        (np.empty((9, 4), np.float32), TypeError, r"out\['a'\] has dtype float32 but must be float64"),
        (np.broadcast_to(0.0, (9, 4)), ValueError, r"out\['a'\] is read-only"),
        ([[0.0] * 4] * 9, ValueError, r"out has 9 arrays but needs a"),
        ({"b": np.empty((9, 4))}, ValueError, r"out = 'b' is unknown"),
        ("compiled", TypeError, r"out = 'compiled' must be NumPy arrays .* engine='compiled'"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(out, kind, message):
    with pytest.raises(kind, match=f"BalancedMode: {message}"):
        ls.BalancedMode(s=1.0)(TIMES, np.full(4, 0.1), out=out)


def test_engines_and_threads_that_are_none_are_refused():
    flow, z0 = ls.BalancedMode(s=1.0), np.full(4, 0.1)
    with pytest.raises(ValueError, match="did you mean 'blocks'"):
        flow(TIMES, z0, engine="block")
    with pytest.raises(ValueError, match="threads = 0 must be a positive integer"):
        flow(TIMES, z0, engine="blocks", threads=0)
    weights, start = ls.TwoLayer.example(np.random.default_rng(0))
    with pytest.raises(ValueError, match="axes of their own"):
        weights([0.0, 1.0], start, engine="blocks")
    with pytest.raises(ValueError, match="did you mean 'blocks'"):
        reduce(flow, TIMES, z0, "a", engine="block")


def test_starts_and_times_without_an_answer_are_refused_as_ever():
    rng = np.random.default_rng(6)
    start = np.where(np.arange(20_000) == 11_111, -1.0, rng.uniform(0.1, 1, 20_000))
    with pytest.raises(ls.NotExact, match="start of the sign opposite"):
        ls.DeepMode(s=1.0, depth=1.5)(TIMES, start)
    start = np.where(np.arange(20_000) == 11_111, 3.0, 0.1)
    for engine in ("plain", "blocks"):
        with pytest.raises(ValueError, match="must be later than") as caught:
            ls.BalancedMode(s=1.0)([-1.0, 0.0, 1.0, 2.0], start, engine=engine)
        assert "-0.20273" in str(caught.value)
        assert np.isfinite(ls.BalancedMode(s=1.0)([-0.2, 0.0, 1.0, 2.0], start, engine=engine)["a"]).all()


@pytest.mark.parametrize("depth", [2.25, 3.0, 4.0, 8.0, np.inf])
@pytest.mark.parametrize("least", [1e-3, 0.2])
def test_powers_of_one_depth_have_the_bits_of_plain_evaluation(depth, least):
    """NumPy rounds some powers otherwise if their exponent is one number for all."""
    rng = np.random.default_rng(14)
    flow = ls.DeepMode(s=rng.uniform(0.2, 2, 4000), depth=depth)
    start = rng.uniform(least, 20 * least, 4000)
    plain, blocks = (flow([0.3, 1.0, 5.0], start, engine=engine)["a"] for engine in ("plain", "blocks"))
    assert plain.tobytes() == blocks.tobytes()


def test_settings_of_numpy_reach_every_thread():
    class Careless(ls.BalancedMode):
        def solution(self, xp, t, z0):
            return self.State(1 / (t * z0.a))

    z0 = np.full(50_000, 0.1)
    with np.errstate(divide="ignore"):
        assert np.isinf(Careless(s=1.0)(TIMES, z0, engine="blocks", threads=4)["a"][0]).all()
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        Careless(s=1.0)(TIMES, z0, engine="blocks", threads=4)


def test_what_depends_on_members_only_is_computed_once_for_each():
    flow, z0 = drawn(ls.TwoLayerOrder, np.random.default_rng(7), (1000,))
    made = prepared(pose(flow, TIMES, z0), "blocks", ("loss",))
    assert len(made.plan.member) > 5 * len(made.plan.full)
    assert all(made.plan.axes[k] & TIME for k in made.plan.full)
    assert not any(made.plan.axes[k] & TIME for k in made.plan.member)


def test_verify_rejects_early_values_of_the_first_time_only():
    class Forgetful(Blocks):
        """Takes steps that depend on time alone from the first time."""

        def __init__(self, program, grid):
            super().__init__(program, grid)
            self.early = {k: v if v.ndim == 0 else np.broadcast_to(v[:1], v.shape) for k, v in self.early.items()}

    def wrong(flow, t, z0):
        problem = pose(flow, t, z0)
        made = prepared(problem, "blocks", None)
        bad = Forgetful(made.program, made.grid)
        out = np.empty(made.grid.shape)
        for tile in bad.tiles():
            bad(tile, {"a": tile.of(out)})
        return flow.State(out.reshape(problem.t.shape + problem.batch))

    flow, z0 = ls.BalancedMode.example(np.random.default_rng(1))
    made = prepared(pose(flow, TIMES, z0), "blocks", None)
    assert any(v.size == len(TIMES) for v in made.early.values())  # steps that vary with time, whose change is tested
    report = ls.verify(through(ls.BalancedMode, "wrong", wrong)(**flow.parameters()), z0, checks=["dop853"])
    assert report.failed == ["dop853"]


def test_buffers_are_used_again_but_never_too_early():
    program = program_of(ls.DeepMode)
    grid = grid_of(TIMES, {n: np.linspace(1, 2, 500) for n in program.inputs if n != "t"}, (500,))
    plan = plan_of(program, grid)
    found = buffers(program, plan.full, set(), set())
    assert found.reals < 50 < len(plan.full) / 10
    written = {}
    for k in plan.full:  # whoever reads a buffer finds in it what was put there for him
        step = program.steps[k]
        for a in step.args:
            if a in found.of:
                assert written[program.steps[a].kind, found.of[a]] == a
        if k in found.of:
            written[step.kind, found.of[k]] = k


def test_axes_along_which_the_same_inputs_vary_are_one():
    shapes = {"a": np.zeros((2, 3, 1, 80)), "b": np.zeros((3, 1, 80)), "c": np.zeros(())}
    assert grid_of(np.zeros(4), {"a": np.zeros((2, 3, 80)), "b": np.zeros((2, 3, 80))}, (2, 3, 80)).shape == (4, 1, 480)
    grid = grid_of(np.zeros(4), {"a": np.zeros((6, 1)), "b": np.zeros(80)}, (6, 80))
    assert grid.shape == (4, 6, 80)
    assert (grid.axes("a"), grid.axes("b"), grid.axes("t")) == (ROW, COLUMN, TIME)
    assert grid_of(np.zeros(4), shapes, (2, 3, 1, 80)).shape in ((4, 2, 240), (4, 1, 480))
    assert grid_of(np.zeros((4, 2)), {"c": np.zeros(())}, ()).shape == (1, 1, 8)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_reductions_are_those_of_the_stored_ensemble_whatever_the_threads(threads):
    flow, z0 = drawn(ls.BalancedMode, np.random.default_rng(8), (30_000,), 1)
    t = TIMES.reshape(3, 3)
    stored = flow(t, z0)
    edges = np.linspace(-3, 3, 13)
    what = ("mean", "variance", "min", "max", Histogram(edges=edges))
    found = reduce(flow, t, z0, ("a", "loss"), what, threads=threads)
    again = reduce(flow, t, z0, ("a", "loss"), what, threads=1)
    for name in ("a", "loss"):
        assert found[name]["mean"].shape == (3, 3)
        assert found[name]["mean"] == pytest.approx(stored[name].mean(-1), rel=1e-12)
        assert found[name]["variance"] == pytest.approx(stored[name].var(-1, ddof=1), rel=1e-12)
        assert (found[name]["max"] == stored[name].max(-1)).all()
        assert found[name]["histogram"].shape == (3, 3, 12)
        assert found[name]["histogram"][2, 1].tolist() == np.histogram(stored[name][2, 1], edges)[0].tolist()
        assert all(found[name][key].tobytes() == again[name][key].tobytes() for key in again[name])
    mean = reduce(flow, t, z0, "a", threads=threads)["a"]["mean"]
    assert mean.tobytes() == reduce(flow, t, z0, "a", threads=1)["a"]["mean"].tobytes()
    assert mean == pytest.approx(stored["a"].mean(-1), rel=1e-12)


def test_a_reduction_over_one_member_is_refused():
    with pytest.raises(ValueError, match=r"reduce: batch = .* must have several members"):
        reduce(ls.BalancedMode(s=1.0), TIMES, 0.1, "a")


def test_a_square_is_a_product_and_a_power_of_a_number_is_what_numpy_makes_of_it():
    flow = ls.TwoLayerOrder(y=0.3, gamma=1.1234567, rho=0.7654321)
    P = np.random.default_rng(9).uniform(0.1, 1.0, 100)
    z0 = flow.State(P, P / 2, 0 * P)
    found = evaluate(flow, TIMES, z0, "ntk", engine="blocks")["ntk"]
    assert found.tobytes() == np.asarray(flow(TIMES, z0, engine="plain")["ntk"]).tobytes()


@pytest.mark.parametrize("d0", [1, 3])
def test_order_parameters_in_one_pass_are_those_of_twice_the_digits(d0):
    rng = np.random.default_rng(10)
    flow = ls.TwoLayer(y=0.4, gamma=0.3, eta_u=rng.uniform(0.5, 2, 70), eta_w=1.3, x=rng.uniform(0.5, 1, d0))
    z0 = flow.State(rng.standard_normal((70, 1000)), rng.uniform(0.1, 1.0, (70, 1000, d0)))
    (order, expected), (same, found) = ls.TwoLayerOrder.of(flow, z0), order_parameters(flow, z0, threads=3)
    assert same.rho == pytest.approx(order.rho, rel=4e-16)
    for a, b, size in zip(found, expected, (expected.P, expected.Q, np.sqrt(expected.P * expected.Q)), strict=True):
        assert (np.abs(a - b) <= 2 * (1000 + d0 + 8) * 2.0**-53 * size).all()
    assert all(a.tobytes() == b.tobytes() for a, b in zip(found, order_parameters(flow, z0, threads=1)[1], strict=True))
    with pytest.raises(ValueError, match="order_parameters: x = 0"):
        order_parameters(ls.TwoLayer(y=0.4, x=np.zeros(d0)), z0)
    with pytest.raises(ValueError, match="order_parameters: engine = 'plain' is unknown"):
        order_parameters(flow, z0, engine="plain")


@pytest.mark.parametrize("rate", [1.0, 0.3, 2.0**56, 2.0**-56, 2.0**70])
def test_order_parameters_of_equal_rates_are_right_at_every_magnitude(rate):
    """Equal rates are factored out of the sums, except from sums that would lose digits."""
    rng = np.random.default_rng(11)
    sizes = 2.0 ** np.array([-540.0, -500, -455, -300, 0, 300, 440, 455, 480, 540])[:, None]
    sizes = np.clip(sizes, 2.0**-500 / np.sqrt(rate), 2.0**490 / np.sqrt(rate))
    u, w = sizes * rng.standard_normal((2, len(sizes), 300))
    u[4], w[4, 3:] = 0.0, 0.0
    flow = ls.TwoLayer(y=0.4, eta_u=rate, eta_w=rate, x=[3.0])
    z0 = flow.State(u, w[..., None])
    expected, found = ls.TwoLayerOrder.of(flow, z0)[1], order_parameters(flow, z0)[1]
    for a, b, size in zip(
        found, expected, (expected.P, expected.Q, np.sqrt(expected.P) * np.sqrt(expected.Q)), strict=True
    ):
        assert (np.abs(a - b) <= 2 * (300 + 1 + 8) * 2.0**-53 * size).all()


def off(flow, z0, **how):
    """Return the largest errors of the order parameters, in units of the stated bound."""
    expected, found = ls.TwoLayerOrder.of(flow, z0)[1], order_parameters(flow, z0, **how)[1]
    sizes = expected.P, expected.Q, np.sqrt(expected.P) * np.sqrt(expected.Q)
    bound = 3 * (z0.u.shape[-1] + 9) * 2.0**-53
    return max((np.abs(a - b) / size).max() / bound for a, b, size in zip(found, expected, sizes, strict=True))


@pytest.mark.parametrize("engine", ["blocks", "compiled"])
@pytest.mark.parametrize("width", [5, 64, 255, 256, 700])
def test_order_parameters_of_nearly_parallel_layers_keep_their_digits(width, engine):
    if engine == "compiled":
        pytest.importorskip("llvmlite")
    rng = np.random.default_rng(width)
    w, other = rng.standard_normal((2, 40, width))
    near = 1 - 10.0 ** -np.linspace(1, 14, 40)[:, None]
    u = rng.choice([-1, 1], (40, 1)) * near * w + np.sqrt(1 - near**2) * other
    flow = ls.TwoLayer(y=0.4, eta_u=0.0061, eta_w=0.0061, x=[1.3])  # the factor rounds every weight
    assert off(flow, flow.State(u, w[..., None]), engine=engine) < 1


def test_sums_of_the_layers_serve_layers_that_are_not_parallel(monkeypatch):
    rng = np.random.default_rng(13)
    u, w = rng.standard_normal((2, 6, 512))
    w[1:5] = u[1:5] * [[1 + 1e-5], [-1.0], [1.0], [-1 - 1e-7]] + 1e-4 * w[1:5]
    flow = ls.TwoLayer(y=0.4, eta_u=0.7, eta_w=0.7, x=[3.0])
    z0 = flow.State(u, w[..., None])
    assert off(flow, z0, threads=2) < 1
    monkeypatch.setattr(order_sums, "_APART", 1.0)
    assert off(flow, z0) > 1


@pytest.mark.parametrize("engine", ["blocks", "compiled"])
@pytest.mark.parametrize(("bad", "what"), [(np.inf, "u = inf"), (np.nan, "u = nan"), (1e200, "P, Q, R = inf overflow")])
def test_weights_without_order_parameters_are_refused_without_one_more_pass(engine, bad, what):
    if engine == "compiled":
        pytest.importorskip("llvmlite")
    flow, u = ls.TwoLayer(y=0.4, x=[0.0, 1.0]), np.ones((5, 40))
    u[3, 7] = bad
    with pytest.raises(ValueError, match=what):
        order_parameters(flow, flow.State(u, np.ones((5, 40, 2))), engine=engine)
    w = np.ones((5, 40, 2))
    w[3, 7, 0] = np.nan  # where the data point is 0
    with pytest.raises(ValueError, match="w = nan"):
        order_parameters(flow, flow.State(np.ones((5, 40)), w), engine=engine)


def test_constants_of_a_recorded_formula_are_those_of_numpy():
    for name in ("e", "pi", "inf"):
        assert getattr(Tracer, name) == getattr(np, name)
    assert np.isnan(Tracer.nan)


@pytest.mark.parametrize("cls", FLOWS)
def test_observables_of_a_large_trajectory_are_those_of_its_parts(cls):
    flow, z0 = drawn(cls, np.random.default_rng(6), (2 * 2**16 // len(TIMES) + 3,), 1)
    whole, at = flow(TIMES, z0), slice(0, 2**15 // len(TIMES))
    few = {name: v[at] if v.ndim else v for name, v in flow.parameters().items()}
    part = cls(**few)(TIMES, cls.State(*(v[at] for v in z0)), engine="plain")
    for name in [name for name in part if name not in part.state._fields]:
        assert name not in whole._evaluated
        assert whole[name][:, at].tobytes() == part[name].tobytes(), name
        assert whole._evaluated[name] is not None or not traceable(cls, (name,))
        assert np.shares_memory(whole[name], whole[name])  # evaluated once
    assert whole._evaluated["loss"] is not None
    again = pickle.loads(pickle.dumps(whole))
    assert again["loss"].tobytes() == whole["loss"].tobytes()
    with pytest.raises(KeyError, match="did you mean 'loss'"):
        _ = whole["los"]


def test_an_observable_of_a_large_trajectory_beyond_doubles_is_refused():
    found = ls.BalancedMode(s=np.full(2**16, 1e160))([0.0, 1e-170], 1e-3)
    with pytest.raises(OverflowError, match="BalancedMode: loss leaves the range of doubles"):
        _ = found["loss"]
