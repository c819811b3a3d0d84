"""Sweeps: the same bits whoever evaluates which blocks, refusals before any work, results that can be drawn."""

import builtins
import dataclasses
import functools
import inspect
import itertools
import math
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

import linsolve as ls
from linsolve.ensembles import BlockError, axes
from linsolve.ensembles.execute import IN_FLIGHT, run

A, B, C = np.linspace(0.1, 2.0, 23), np.geomspace(1e-3, 10.0, 31), np.array([1, 2, 5])


def plain(a, b, c):
    return {"power": np.exp(a) * b**c, "pair": np.stack(np.broadcast_arrays(a, b, c), axis=-1)}


def noisy(a, b, rng):
    shape = np.broadcast_shapes(a.shape, b.shape)
    return {"noise": a + b * rng.standard_normal(shape), "count": rng.integers(0, 9, shape)}


def drawn(sigma, rng):
    return ls.TwoLayerOrder.State(*(sigma * rng.random((2, *sigma.shape))), R=0.0 * sigma)


def fails_at(a, b):
    if np.any(a == A[7]):
        raise ValueError("no such network")
    return a * b


ORDER = ls.ensembles.of(ls.TwoLayerOrder, "P", "loss", "ntk", start=drawn, y=1.0, eta_u=0.7)


def identical(one, other):
    assert one.names == other.names
    for name in one.names:
        assert one[name].dtype == other[name].dtype
        assert one[name].tobytes() == other[name].tobytes(), name


# results


def test_values_and_shapes():
    d = ls.sweep(plain, a=A, b=B, c=C)
    assert d["power"].shape == d.shape == (23, 31, 3)
    assert np.array_equal(d["power"], np.exp(A)[:, None, None] * B[:, None] ** C)
    assert d["pair"].shape == (23, 31, 3, 3)
    assert np.array_equal(d["pair"][4, 5, 2], [A[4], B[5], C[2]])
    assert np.array_equal(d["a"], A)
    assert d["c"].dtype.kind == "i"
    with pytest.raises(KeyError, match="did you mean 'power'"):
        d["powr"]


def test_single_values_named_tuples_and_what_does_not_vary():
    class Pair(NamedTuple):
        x: float
        y: np.ndarray

    assert np.array_equal(ls.sweep(lambda a, b: a - b, a=A, b=B)["value"], A[:, None] - B)
    d = ls.sweep(lambda a, b: Pair(3.0, b), a=A, b=B)
    assert np.array_equal(d["x"], np.full((23, 31), 3.0))
    assert np.array_equal(d["y"], np.broadcast_to(B, (23, 31)))
    assert ls.sweep(lambda a, **rest: a * rest["z"], a=[2.0], z=[3.0, 4.0])["value"].tolist() == [[6.0, 8.0]]


@pytest.mark.parametrize("observe", [noisy, functools.partial(noisy)])
def test_random_numbers_do_not_depend_on_blocks_or_workers(observe):
    one = ls.sweep(observe, a=A, b=B, rng=5, threads=1)
    for block, threads in itertools.product((None, 1, 17, 100, 10**9), (1, 2, 5)):
        identical(one, ls.sweep(observe, a=A, b=B, rng=5, threads=threads, block=block))
    assert (ls.sweep(observe, a=A, b=B, rng=6)["noise"] != one["noise"]).all()
    assert len(np.unique(one["noise"])) == one["noise"].size


def test_random_numbers_are_those_of_the_tiles():
    d = ls.sweep(noisy, a=A, b=B, rng=5)
    grid = axes.Grid([axes.Axis("a", A, ""), axes.Axis("b", B, "")], None, True)
    tiles = -(-23 // grid.tile[0]) * -(-31 // grid.tile[1])
    last = np.random.default_rng(np.random.SeedSequence(5, spawn_key=(tiles - 1,)))
    corner = d["noise"][-1:, -(31 % grid.tile[1] or grid.tile[1]) :]
    assert grid.tile[0] == 1
    assert np.array_equal(corner, A[-1] + B[-corner.size :] * last.standard_normal(corner.shape))


def test_every_kind_of_seed():
    seed = np.random.SeedSequence(5)
    identical(ls.sweep(noisy, a=A, b=B, rng=5), ls.sweep(noisy, a=A, b=B, rng=seed))
    child = ls.sweep(noisy, a=A, b=B, rng=seed.spawn(1)[0])
    assert (child["noise"] != ls.sweep(noisy, a=A, b=B, rng=5)["noise"]).all()
    first, again = (ls.sweep(noisy, a=A, b=B, rng=np.random.default_rng(5)) for _ in range(2))
    identical(first, again)
    generator = np.random.default_rng(5)
    identical(first, ls.sweep(noisy, a=A, b=B, rng=generator))
    assert (ls.sweep(noisy, a=A, b=B, rng=generator)["noise"] != first["noise"]).all()
    assert (ls.sweep(noisy, a=A, b=B)["noise"] != ls.sweep(noisy, a=A, b=B)["noise"]).all()


@pytest.fixture(scope="module")
def processes():
    from multiprocessing import get_context

    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        yield pool


def test_processes_give_the_same_bits(processes):
    identical(ls.sweep(plain, a=A, b=B, c=C), ls.sweep(plain, a=A, b=B, c=C, executor=processes))
    one = ls.sweep(ORDER, gamma=A, sigma=B, t=[0.0, 0.3, np.inf], rng=1, threads=1)
    for block in (None, 50):
        identical(one, ls.sweep(ORDER, gamma=A, sigma=B, t=[0.0, 0.3, np.inf], rng=1, executor=processes, block=block))
        identical(one, ls.sweep(ORDER, gamma=A, sigma=B, t=[0.0, 0.3, np.inf], rng=1, threads=3, block=block))


def test_loky_takes_what_was_defined_on_the_spot():
    import loky

    with loky.ProcessPoolExecutor(2) as pool:
        d = ls.sweep(lambda a, b: a * b, a=A, b=B, executor=pool)
    assert np.array_equal(d["value"], A[:, None] * B)


@pytest.mark.parametrize("shape", [(7, 5, 3), (1500, 1500), (3, 100_000), (1000, 3, 7), (1,), (64, 1, 64)])
@pytest.mark.parametrize("block", [None, 1, 100, 20_000, 10**12])
@pytest.mark.parametrize("whole", [True, False])
def test_blocks_and_tiles_partition_the_grid(shape, block, whole):
    grid = axes.Grid([axes.Axis(str(k), np.arange(float(n)), "") for k, n in enumerate(shape)], block, whole)
    assert sum(math.prod(part.shape) for part in (grid[0], grid[-1])) <= 2 * math.prod(shape)
    seen, numbers = np.zeros(shape, dtype=np.int8), []
    for part in grid if len(grid) < 5000 else ():
        for number, place in axes.tiles(part, grid.tile, shape):
            seen[part.where][place] += 1
            numbers.append(number)
    if numbers:
        assert (seen == 1).all()
        assert sorted(numbers) == list(range(len(numbers)))
    reference = axes.Grid(grid.axes, None, True)
    if whole:
        assert grid.tile == reference.tile


# flows


def test_flow_parameters_state_and_time_as_axes():
    times = [0.0, 0.5, 2.0, np.inf]
    d = ls.sweep(ls.ensembles.of(ls.BalancedMode, "loss", tau=2.0), s=A, t=times, a=[0.01, 0.5])
    direct = ls.BalancedMode(s=A[:, None], tau=2.0)(times, np.array([0.01, 0.5]))
    assert d.shape == (23, 4, 2)
    assert np.array_equal(d["loss"], np.moveaxis(direct["loss"], 0, 1))
    only = ls.sweep(ls.ensembles.of(ls.BalancedMode, "a", s=1.0, start=0.01), t=times)
    assert np.array_equal(only["a"], ls.BalancedMode(s=1.0)(times, 0.01)["a"])


def test_flow_with_own_axes_and_a_fixed_start():
    target = np.diag([3.0, 2.0])
    w1, w2 = 0.1 * np.eye(2), 0.1 * np.eye(2)
    start = ls.WhitenedTwoLayer.of(w1, w2)
    observed = ls.ensembles.of(ls.WhitenedTwoLayer, "product", "loss", "gram_in", target=target, start=start)
    d = ls.sweep(observed, tau=[1.0, 2.0], t=[0.0, 1.0, 2.0])
    direct = ls.WhitenedTwoLayer(target=target, tau=[1.0, 2.0])([0.0, 1.0, 2.0], start)
    assert np.array_equal(d["product"], np.swapaxes(direct["product"], 0, 1))
    assert d.to_xarray()["product"].dims == ("tau", "t", "n_out", "n_in")
    assert d.to_xarray()["gram_in"].dims == ("tau", "t", "n_in", "n_in_2")


def first(value, own):
    """Return the first of a batch."""
    value = np.asarray(value)
    return value[(0,) * (value.ndim - len(own))]


@pytest.mark.parametrize("cls", ls.flows.ALL, ids=lambda cls: cls.__name__)
def test_every_flow_can_be_swept_over_time(cls):
    flow, z0 = cls.example(np.random.default_rng(1))
    about = {field.name: field.metadata["axes"] for field in dataclasses.fields(cls)}
    given = {name: first(value, about[name]) for name, value in flow.parameters().items()}
    start = cls.State(*(first(value, cls.axes[name]) for name, value in zip(z0._fields, z0, strict=True)))
    t = np.array([0.0, 0.1, 0.2])
    d = ls.sweep(ls.ensembles.of(cls, start=start, **given), t=t)
    direct = cls(**given)(t, start)
    assert d.names == direct.names
    for name in d.names:  # BLAS rounds one time and three otherwise
        assert np.allclose(d[name], direct[name], rtol=1e-10, atol=1e-12), name
    assert set(d.to_xarray().data_vars) == set(d.names)


def test_everything_is_observed_by_default_at_the_limit():
    d = ls.sweep(ls.ensembles.of(ls.BalancedMode, start=0.01, t=np.inf), s=[1.0, 2.0])
    assert d["loss"].tolist() == [0.0, 0.0]
    assert {"a", "loss"} <= set(d.names)


def test_start_gets_parameters_of_the_flow_too():
    def start(gamma, scale=1.0):
        return ls.TwoLayerOrder.State(P=scale / gamma, Q=0.0 * gamma, R=0.0 * gamma)

    d = ls.sweep(ls.ensembles.of(ls.TwoLayerOrder, "output", start=start, t=0.0, y=1.0), gamma=A, scale=[1.0, 3.0])
    assert np.allclose(d["output"], [1.0, 3.0])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ls.ensembles.of(ls.BalancedMode, "los"), "did you mean 'loss'"),
        (lambda: ls.ensembles.of(ls.BalancedMode, "loss", tauu=1.0), "did you mean 'tau'"),
        (lambda: ls.ensembles.of(ls.BalancedMode, "loss", tau=[1.0, 2.0]), "tau has shape"),
        (lambda: ls.ensembles.of(ls.BalancedMode, "loss", tau=-1.0), "tau = -1.0"),
        (lambda: ls.ensembles.of(ls.BalancedMode, "loss", t=[1.0, 2.0]), "t has shape"),
        (lambda: ls.ensembles.of(ls.BalancedMode, "loss", t=math.nan), "t = nan"),
        (
            lambda: ls.ensembles.of(ls.TwoLayerOrder, "loss", start={"p": 1.0}),
            "'p' is unknown; did you mean 'P'\\? one of P, Q, R",
        ),
        (lambda: ls.ensembles.of(ls.TwoLayerOrder, "loss", start=lambda t: t), "takes t"),
        (lambda: ls.ensembles.of(ls.TwoLayerOrder, "loss", start=([1.0, 2.0], 0.0, 0.0)), "P of shape"),
        (lambda: ls.ensembles.of(ls.TwoLayerOrder, "loss", start={"P": [1.0, 2.0]}), "P of shape"),
        (lambda: ls.ensembles.of(ls.TwoLayerOrder, "loss", start={"P": math.nan}), "P = nan"),
        (lambda: ls.ensembles.of(ls.TwoLayerOrder, "loss", start=(1.0, 1.0, 2.0)), "at most sqrt"),
        (lambda: ls.ensembles.of(len, "loss"), "must be the class of a flow"),
        (lambda: ls.sweep(ls.ensembles.of(ls.BalancedMode, "loss", t=1.0), s=A), "needs a as well"),
        (
            lambda: ls.sweep(ls.ensembles.of(ls.BalancedMode, "loss", t=1.0), s=[1.0], tau=[1.0, 0.0], a=[1.0]),
            "tau = 0.0 at",
        ),
        (lambda: ls.sweep(ls.ensembles.of(ls.BalancedMode, "loss", t=1.0), s=A, a=[1.0], t=[1.0]), "t"),
        (
            lambda: ls.sweep(ls.ensembles.of(ls.BalancedMode, "loss", tau=1.0), tau=A, s=A, a=[1.0], t=A),
            "fixed parameter",
        ),
        (lambda: ls.sweep(ls.ensembles.of(ls.WhitenedTwoLayer, t=1.0, start=lambda z: z), target=A, z=A), "fix it in"),
        (
            lambda: ls.sweep(ls.ensembles.of(ls.FrozenKernel, t=1.0, y=[1.0], kernel=[[1.0]]), f=A),
            "let start be a function",
        ),
        (
            lambda: ls.sweep(ls.ensembles.of(ls.DeepMode, "loss", t=1.0, a=0.1), a=A, s=A, depth=[2.0]),
            "fixed parameter",
        ),
        (
            lambda: ls.sweep(ls.ensembles.of(ls.BalancedMode, "loss", t=1.0, start=0.1), s=A, t=A),
            "t is both an axis and a fixed",
        ),
        (
            lambda: ls.sweep(ls.ensembles.of(ls.DeepMode, "loss", t=1.0, start={"a": 0.1}), s=A, a=A),
            "a is both an axis and a fix",
        ),
        (
            lambda: ls.sweep(ls.ensembles.of(ls.BalancedMode, "a", t=1.0), s=A, a=A),
            "and also observed; rename the axis",
        ),
        (lambda: ls.sweep(ls.ensembles.of(ls.BalancedMode, t=1.0), s=A, a=A), "start=lambda a0: "),
        (lambda: ls.ensembles.of(ls.BalancedMode, "loss", start=lambda **any: 1.0), "takes any name"),
        (lambda: ls.ensembles.of(ls.BalancedMode, "loss", start=np.sin), "start takes x by position only"),
        (lambda: ls.ensembles.of(ls.TwoLayer, "loss", x=1.0), "give one such array"),
    ],
)
def test_flows_refuse_before_any_work(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


class Halving(ls.Flow):
    """One weight that decays; without an example."""

    rate: Any = ls.parameter("r", "rate of decay")

    class State(NamedTuple):
        w: Any

    axes: ClassVar = {"w": ()}

    def loss(self, xp, z):
        return self.rate * z.w**2 / 2

    def solution(self, xp, t, z0):
        return self.State(z0.w * xp.exp(-self.rate * t))


def test_a_flow_without_an_example_can_be_swept():
    d = ls.sweep(ls.ensembles.of(Halving, "w", start=2.0, t=1.0), rate=A)
    assert np.array_equal(d["w"], 2 * np.exp(-A))
    assert ls.sweep(ls.ensembles.of(Halving, start=2.0, t=1.0), rate=A).names == ["w", "loss"]
    with pytest.raises(BlockError, match="'lass' is unknown; did you mean 'loss'"):
        ls.sweep(ls.ensembles.of(Halving, "lass", start=2.0, t=1.0), rate=A)


@pytest.mark.parametrize("start", [lambda s: np.zeros(7), lambda s: np.zeros((len(s), 2))])
def test_a_start_of_another_batch_is_refused(start):
    with pytest.raises(BlockError, match="start has batch shape"):
        ls.sweep(ls.ensembles.of(ls.BalancedMode, "loss", start=start), s=A, t=[0.0, 1.0])


def test_the_axis_of_a_start_may_have_a_name_of_its_own():
    d = ls.sweep(ls.ensembles.of(ls.BalancedMode, t=1.0, start=lambda a0: a0), s=A, a0=[0.1, 0.2])
    assert np.array_equal(d["a"][:, 1], ls.BalancedMode(s=A)(1.0, 0.2)["a"])


def test_small_integers_are_widened_as_small_floats_are():
    d = ls.sweep(lambda a, b: a * b, a=np.array([100], np.int8), b=np.array([200], np.uint8))
    assert d["value"].tolist() == [[20000]]


def test_names_can_be_listed_and_looked_for():
    d = ls.sweep(plain, a=A, b=B, c=C)
    assert list(d) == ["power", "pair", "a", "b", "c"]
    assert "pair" in d
    assert "pears" not in d


@pytest.mark.parametrize("name", ["file", "allow_pickle"])
def test_an_archive_never_loses_a_name(tmp_path, name):
    d = ls.sweep(lambda a: {name: a}, a=A)
    with pytest.raises(ValueError, match=f"{name}.* reserved in NumPy's archives"):
        d.save(tmp_path / "d.npz")
    assert not list(tmp_path.iterdir())


def test_an_archive_goes_where_a_file_can_be(tmp_path):
    d = ls.sweep(lambda a: a, a=A)
    (tmp_path / "d.npz").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="is a folder"):
        d.save(tmp_path / "d.npz")
    with pytest.raises(ValueError, match=r"Diagram.save: out = .*file is not a folder"):
        d.save(tmp_path / "file" / "d.npz")


def test_lines_join_neighbors_whatever_the_order_of_the_axis():
    line = ls.sweep(lambda a: a**2, a=[3.0, 1.0, 2.0]).plot().lines[0]
    assert line.get_xdata().tolist() == [1.0, 2.0, 3.0]
    assert line.get_ydata().tolist() == [1.0, 4.0, 9.0]


def test_complex_values_are_not_drawn():
    with pytest.raises(ValueError, match="value is complex"):
        ls.sweep(lambda a: a * 1j, a=A).plot()


# bad input

CALLS = []


def counted(a, b):
    CALLS.append(1)
    return a * b


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"axes": {}}, "needs|at least one"),
        ({"axes": {"a": A}}, "needs b as well"),
        ({"axes": {"a": A, "b": B, "c": C}}, "axis of counted = 'c' is unknown"),
        ({"axes": {"a": A, "b": []}}, "b has shape .0,., which is empty"),
        ({"axes": {"a": A, "b": np.ones((2, 3))}}, "b has shape .2, 3. but needs one axis"),
        ({"axes": {"a": A, "b": 1.0}}, "functools.partial"),
        ({"axes": {"a": A, "b": [1.0, math.nan]}}, "b = nan at index 1"),
        ({"axes": {"a": A, "b": ["x"]}}, "not of real numbers"),
        ({"axes": {"a": A, "b": [1j]}}, "not of real numbers"),
        ({"axes": {"a": A, "b": [True]}}, "not of real numbers"),
        ({"axes": {"a": A, "b": [[1.0], [1.0, 2.0]]}}, "not a rectangular array"),
        ({"block": 0}, "block = 0 must be a positive integer"),
        ({"block": 1.5}, "block = 1.5"),
        ({"block": True}, "block = True"),
        ({"threads": 0}, "threads = 0 must be a positive integer"),
        ({"threads": 2.0}, "threads = 2.0"),
        ({"executor": 3}, "executor = 3 must be a concurrent.futures.Executor"),
        ({"executor": ThreadPoolExecutor(1), "threads": 2}, "give one"),
        ({"rng": 3}, "takes no rng"),
        ({"progress": 3}, "progress = 3"),
        ({"store": 3}, "store = 3 must be a path"),
        ({"store": ""}, "must be a path"),
        ({"store": "a\0b"}, "has a NUL character"),
        ({"observe": 3}, "observe = 3 must be callable"),
        ({"observe": np.hypot}, "wrap it in a function"),
        ({"observe": ls.BalancedMode}, "ensembles.of"),
        ({"observe": ls.BalancedMode(s=1.0)}, "is a flow; name the observable"),
        ({"observe": lambda *any: 1.0}, "names no parameters"),
        ({"observe": lambda a, b, block: a}, "block, an argument of sweep itself"),
        ({"axes": {"a": A, "b": np.ma.masked_less(B, 1.0)}}, "b has masked entries"),
        ({"axes": {"a": A, "b": np.array(["1.0", "1e4000"], np.longdouble)}}, r"b = 1e\+4000 at index 1"),
        ({"observe": functools.partial(counted, b=2.0)}, "b is both an axis and a fixed parameter"),
        ({"observe": noisy, "rng": -1}, "rng = -1"),
        ({"observe": noisy, "rng": "x"}, "rng = 'x'"),
        ({"observe": noisy, "rng": True}, "rng = True"),
    ],
)
def test_bad_input_is_refused_before_any_work(given, words):
    CALLS.clear()
    given = {"observe": counted, "axes": {"a": A, "b": B}} | given
    with pytest.raises((ValueError, TypeError), match=words):
        ls.sweep(given.pop("observe"), **given.pop("axes"), **given)
    assert not CALLS


def test_processes_need_what_can_be_sent(processes):
    with pytest.raises(TypeError, match="cannot be sent to other processes"):
        ls.sweep(lambda a: a, a=A, executor=processes)


@pytest.mark.parametrize(
    ("observe", "words"),
    [
        (lambda a, b: np.ones(3), r"value of shape \(3,\)"),
        (lambda a, b: {"x": np.ones((2, 2))}, r"gave x of shape \(2, 2\).*axes a, b have \(\d+, \d+\)"),
        (lambda a, b: {"x": a * b, "y": "text"}, "y made of"),
        (lambda a, b: {"a": a * b}, "is the name of an axis"),
        (lambda a, b: {"../x": a * b}, "cannot name an array of a store"),
        (lambda a, b: {}, "gave nothing"),
        (lambda a, b: np.ma.masked_less(a * b, 1.0), "gave value with masked entries"),
        (lambda a, b: {f"x{float(a[0, 0]):.2f}": a * b}, "return the same everywhere"),
        (lambda a, b: np.ones((*np.broadcast_shapes(a.shape, b.shape), 1 + int(10 * a[0, 0]))), "own axes"),
    ],
)
def test_wrong_results_are_named(observe, words):
    with pytest.raises((BlockError, ValueError), match=words):
        ls.sweep(observe, a=A, b=B, block=200)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_failing_block_is_named_and_ends_the_sweep(threads):
    with pytest.raises(
        BlockError, match=r"a = 0\.704\d* \(index 7\), b = .* failed: ValueError: no such net"
    ) as caught:
        ls.sweep(fails_at, a=A, b=B, threads=threads)
    assert isinstance(caught.value.__cause__, ValueError)


def test_flows_that_do_not_hold_are_named():
    # R^2 > P Q is no network
    observed = ls.ensembles.of(ls.TwoLayerOrder, "loss", t=1.0, y=1.0, start={"P": 1.0, "Q": 1.0})
    with pytest.raises(BlockError, match=r"R = .*sqrt\(P Q\)"):
        ls.sweep(observed, R=[0.0, 0.5, 2.0])


# who does the work


class Slow(Executor):
    """Counts what is in flight; nothing finishes before it is waited for."""

    def __init__(self):
        self.pool, self.flying, self.most, self.lock = ThreadPoolExecutor(2), 0, 0, threading.Lock()
        self._max_workers = 2

    def submit(self, function, /, *args):
        with self.lock:
            self.flying += 1
            self.most = max(self.most, self.flying)
        future = self.pool.submit(function, *args)
        future.add_done_callback(self._ended)
        return future

    def _ended(self, future):
        with self.lock:
            self.flying -= 1


def test_few_blocks_are_in_flight():
    pool = Slow()
    assert sorted(run(range(200), math.sqrt, executor=pool)) == [(k, math.sqrt(k)) for k in range(200)]
    assert 2 <= pool.most <= IN_FLIGHT * 2
    pool.pool.shutdown()


def test_closing_cancels_the_rest():
    done = []
    pairs = run(range(1000), done.append, threads=2)
    next(pairs)
    pairs.close()
    assert len(done) <= 1 + IN_FLIGHT * 2 + 2


def test_finished_work_is_given_back_before_the_error():
    first = threading.Event()

    def work(k):
        if k == 0:
            first.wait(10)
            return 0
        first.set()
        raise ValueError("one")

    found = []
    with pytest.raises(BlockError, match="1 failed: ValueError: one"):
        found.extend(run(range(2), work, threads=2))
    assert found == [(0, 0)]


def test_an_executor_that_is_shut_down_is_an_error_not_a_hang():
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(BlockError, match="after shutdown"):
        ls.sweep(fails_at, a=A, b=B, executor=pool)


def test_a_worker_that_dies_is_an_error_not_a_hang():
    from multiprocessing import get_context

    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool, pytest.raises(BlockError, match="Broken"):
        list(run([3], os._exit, executor=pool))


def test_threads_inherit_how_numpy_warns():
    with np.errstate(all="raise"), pytest.raises(BlockError, match="FloatingPointError"):
        ls.sweep(lambda a, b: a / (b - b), a=A, b=B, threads=2)


def test_blas_has_one_thread_during_work():
    from threadpoolctl import threadpool_info

    def counts(_):
        return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

    before = counts(None)
    for threads in (1, 2):
        assert all(n == 1 for _, found in run(range(4), counts, threads=threads) for n in found)
    assert counts(None) == before


def test_progress_knows_the_total(capsys):
    ls.sweep(counted, a=A, b=B, block=31 * 6, progress=True)
    assert "4/4" in capsys.readouterr().err
    ls.sweep(counted, a=A, b=B, progress=False)
    assert capsys.readouterr().err == ""


# the result


def test_labels_and_meanings_reach_xarray_and_plots():
    import matplotlib.pyplot as plt

    d = ls.sweep(ORDER, gamma=A, sigma=(r"size $\sigma$", B), t=[0.0, 1.0], rng=0)
    data = d.to_xarray()
    assert data["loss"].dims == ("gamma", "sigma", "t")
    assert data["gamma"].attrs == {"long_name": "scale of the model", "symbol": r"scale of the model $\gamma$"}
    assert data["sigma"].attrs["long_name"] == r"size $\sigma$"
    assert data.attrs["seed"] == "0 at []"
    with pytest.raises(ValueError, match="one or two axes"):
        d.plot("loss")
    flat = ls.sweep(ls.ensembles.of(ls.BalancedMode, "loss", t=1.0), s=A, a=("start $a_0$", B))
    ax = flat.plot()
    assert (ax.get_xlabel(), ax.get_xscale(), ax.get_yscale()) == ("start $a_0$", "log", "linear")
    assert "singular value" in ax.get_ylabel()
    (mesh,) = ax.collections
    assert np.array_equal(mesh.get_array(), flat["loss"])
    line = ls.sweep(ls.ensembles.of(ls.BalancedMode, "loss", t=1.0, start=0.05), s=A).plot(log=True)
    assert np.array_equal(line.lines[0].get_ydata(), ls.BalancedMode(s=A)(1.0, 0.05)["loss"])
    assert line.get_yscale() == "log"
    for bad, words in (({"name": "lss"}, "did you mean 'loss'"), ({"log": True}, "must be positive")):
        with pytest.raises(ValueError, match=words):
            ls.sweep(ls.ensembles.of(ls.BalancedMode, "loss", t=np.inf), s=A, a=B).plot(**bad)
    plt.close("all")


def test_positive_values_of_many_decades_have_a_logarithmic_scale_above_rounding():
    import matplotlib.pyplot as plt

    wide = ls.sweep(ls.ensembles.of(ls.BalancedMode, "loss", start=0.05), s=[1.0, 2.0], t=np.linspace(0.0, 9.0, 5))
    assert 0 < wide["loss"].min() < 1e-16 * wide["loss"].max()
    (mesh,) = wide.plot().collections
    assert isinstance(mesh.norm, plt.matplotlib.colors.LogNorm)
    assert mesh.norm.vmin == pytest.approx(1e-12 * wide["loss"].max())
    assert type(wide.plot(log=False).collections[0].norm) is plt.Normalize
    own = plt.matplotlib.colors.PowerNorm(0.5)
    assert wide.plot(norm=own).collections[0].norm is own
    line = ls.sweep(ls.ensembles.of(ls.BalancedMode, "loss", s=2.0, start=0.05), t=np.linspace(0.0, 9.0, 5)).plot()
    assert line.get_yscale() == "log"
    assert line.get_ylim()[0] > 1e-13
    for values in ([1.0, 99.0], [-1.0, 500.0], [0.0, 500.0]):  # too near, or not positive
        assert ls.sweep(lambda a: a, a=values).plot().get_yscale() == "linear"
    plt.close("all")


def test_the_axis_of_times_has_a_unit():
    for flow, unit in (
        (ls.BalancedMode, r"in the unit of $\tau$"),
        (ls.TwoLayerOrder, r"learning rate $\times$ steps"),
    ):
        assert ls.ensembles.of(flow).labels["t"][0] == f"time $t$  ({unit})"


def test_arrays_are_saved_as_a_whole(tmp_path):
    d = ls.sweep(plain, a=A, b=B, c=C)
    path = d.save(tmp_path / "d.npz")
    with np.load(path) as found:
        assert {name: found[name].tobytes() for name in found} == {n: v.tobytes() for n, v in d.arrays().items()}
    assert os.listdir(tmp_path) == ["d.npz"]
    with pytest.raises(ValueError, match="must end in"):
        d.save(tmp_path / "d.txt")


def test_observations_of_flows_can_be_sent():
    again = pickle.loads(pickle.dumps(ORDER))
    identical(ls.sweep(ORDER, gamma=A, sigma=B, t=[1.0], rng=0), ls.sweep(again, gamma=A, sigma=B, t=[1.0], rng=0))


@pytest.mark.parametrize(
    ("missing", "extra", "call"),
    [
        ("xarray", "labelled", lambda path: ls.sweep(counted, a=A, b=B).to_xarray()),
        ("zarr", "store", lambda path: ls.sweep(counted, a=A, b=B, store=path / "s.zarr")),
    ],
)
def test_extras_are_named_where_they_are_missing(missing, extra, call, monkeypatch, tmp_path):
    real = builtins.__import__

    def blocked(name, *args, **kwargs):
        if name.partition(".")[0] == missing:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", blocked)
    with pytest.raises(ImportError, match=rf'pip install "\.\[{extra}\]"'):
        call(tmp_path)


def test_sweeps_load_nothing_heavy():
    code = (
        "import sys; sys.modules |= dict.fromkeys(['zarr', 'xarray', 'dask', 'distributed', 'loky'])\n"
        "import linsolve as ls; d = ls.sweep(lambda a: 2 * a, a=[1.0, 2.0]); assert d['value'].tolist() == [2.0, 4.0]\n"
        "assert not {'scipy', 'sympy', 'matplotlib', 'tqdm'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_memory_is_that_of_the_output():
    """The grid's parameters are never spread: the peak of all arrays is the output and a few blocks."""
    import tracemalloc

    def observe(a, b):
        return a * b

    side = np.linspace(0.0, 1.0, 2000)
    ls.sweep(observe, a=side[:10], b=side[:10])
    tracemalloc.start()
    d = ls.sweep(observe, a=side, b=side, threads=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 1.2 * d["value"].nbytes


def test_the_signature_is_the_public_one():
    assert list(inspect.signature(ls.sweep).parameters) == [
        "observe", "store", "executor", "threads", "block", "rng", "progress", "axes"
    ]  # fmt: skip
