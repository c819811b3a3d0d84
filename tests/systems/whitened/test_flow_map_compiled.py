"""The compiled flow map: as accurate as the plain one, left to it where it does not apply; wrong forms rejected."""

import importlib.util

import array_api_strict
import numpy as np
import pytest
from riccati_starts import random

import linsolve
from linsolve import WhitenedTwoLayer, arithmetic
from linsolve.engines.evaluate import evaluate
from linsolve.systems.whitened import whitened_two_layer
from linsolve.systems.whitened.matrix_riccati import matrix_riccati

TIMES = np.asarray([0.0, 1e-300, 1e-6, 0.01, 0.3, 1.0, 3.0, 10.0, 20.0, 60.0, 400.0, np.inf])
STARTS = [
    ((10, 10, 10), 0.0),  # half of these end on a saddle
    ((10, 20, 10), 0.0),
    ((3, 10, 5), 0.0),
    ((6, 9, 2), 0.0),
    ((5, 2, 5), 0.0),
    ((5, 2, 5), -1.0),
    ((2, 3, 4), 1.0),
    ((8, 3, 8), 1e-3),
    ((1, 1, 1), 0.5),
]


def apart(found, right):
    """Largest difference relative to the largest entry of the state, per time and network."""
    size = np.max([np.abs(v).max(axis=(-2, -1)) for v in right], axis=0)
    error = np.max([np.abs(np.asarray(a) - b).max(axis=(-2, -1)) for a, b in zip(found, right, strict=True)], axis=0)
    return error / size


def compiled(xp, *given, **options):
    """Use the compiled kernel in floats, the default in high precision."""
    return matrix_riccati(xp, *given, method="compiled" if xp is np else None, **options)


def test_other_libraries_are_refused():
    xp = array_api_strict
    target, start = random((2, 3, 2))
    with pytest.raises(ValueError, match="method = 'compiled' must be 'flow_map' for arrays of array_api_strict"):
        matrix_riccati(xp, xp.asarray(1.0), xp.asarray(target), *(xp.asarray(v) for v in start), method="compiled")


def test_without_the_extra_its_name_is_given(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    target, start = random((2, 3, 2))
    with pytest.raises(ModuleNotFoundError, match=r'"\.\[fast\]"'):
        WhitenedTwoLayer(target).compiled_solution(np.asarray(1.0), start)


class TestCompiled:
    """All that needs the extra."""

    @pytest.fixture(autouse=True)
    def _compiler(self):
        pytest.importorskip("llvmlite")

    @pytest.mark.parametrize("scale", [1e-8, 1e-2, 1.0, 10.0])
    @pytest.mark.parametrize(("shape", "lam"), STARTS, ids=str)
    @pytest.mark.quick(12)
    def test_agrees_with_the_plain_flow_map(self, shape, lam, scale):
        target, start = random(shape, lam, scale=scale, batch=(7,), seed=sum(shape))
        found = compiled(np, TIMES[:, None], target, *start)
        right = matrix_riccati(np, TIMES[:, None], target, *start)
        assert apart(found, right).max() < 1e-13
        for a, z in zip(found, start, strict=True):
            np.testing.assert_array_equal(a[0], z)
        for gram in found[1:]:
            np.testing.assert_array_equal(gram, np.swapaxes(gram, -1, -2))

    def test_sweeps_take_the_compiled_flow_map(self):
        flow, z0 = WhitenedTwoLayer.example(np.random.default_rng(0))

        def start(scale):
            return type(z0)(*(scale[..., None, None] * v for v in z0))

        how = {"t": 0.5, "target": flow.target, "start": start}
        found, plain = (
            linsolve.sweep(
                linsolve.ensembles.of(WhitenedTwoLayer, "product", engine=engine, **how), scale=[0.1, 0.2, 0.3]
            )["product"]
            for engine in ("compiled", None)
        )
        assert np.allclose(found, plain, rtol=0, atol=1e-12)

    @pytest.mark.parametrize(
        "shape", [(3, 2, 4), (10, 10, 10), pytest.param((10, 20, 10), marks=pytest.mark.exhaustive)], ids=str
    )
    @pytest.mark.quick(1)
    def test_against_fifty_digits(self, shape):
        """At most twice the plain flow map's error, in doubles' spacings times the bracket's condition."""
        xp, times = arithmetic.precise(50), np.asarray([0.1, 1.0, 6.0, 20.0])
        target, start = random(shape, batch=(2,), seed=3)
        found = compiled(np, times[:, None], target, *start)
        plain = matrix_riccati(np, times[:, None], target, *start)
        for k in range(2):
            given = (xp.asarray(v[k]) for v in (target, *start))
            right = [arithmetic.to_numpy(v) for v in matrix_riccati(xp, xp.asarray(times), *given)]
            error, usual = (apart([v[:, k] for v in each], right) for each in (found, plain))
            assert (error <= 2 * usual + 1e-14).all()
            assert error.max() < 1e-13

    def test_any_number_of_times_and_any_order(self):
        target, start = random((4, 5, 3), batch=(3,), seed=1)
        for count in (1, 15, 16, 17, 40):
            times = np.random.default_rng(count).uniform(0, 30, (count, 3))
            found = compiled(np, times, target, *start)
            assert apart(found, matrix_riccati(np, times, target, *start)).max() < 1e-13

    def test_hard_starts_are_still_refused(self):
        w1 = np.asarray([[1e-3, 1.0], [0.0, 1.0]])
        target, start = np.diag([1.001, 1.0]), WhitenedTwoLayer.of(w1, w1.T)
        times = np.asarray([0.2, 12.0, 15.0, 20.0])
        right = matrix_riccati(np, times, target, *start, method="graded")
        assert apart(compiled(np, times, target, *start), right).max() < 1e-13

    def test_two_eigenvalues_and_large_networks_go_the_plain_way(self, monkeypatch):
        from linsolve.systems.whitened import flow_map_compiled

        def refuse(*_):
            raise AssertionError("taken by the compiled kernel")

        monkeypatch.setattr(flow_map_compiled, "fill", refuse)
        kappa = 0.5 * np.eye(2)
        zero = np.zeros((2, 2))
        for target, start in ((np.diag([2.0, 1.0]), (zero, kappa, kappa)), random((40, 40, 40))):
            found = compiled(np, np.asarray([0.5, 2.0]), target, *start)
            right = matrix_riccati(np, np.asarray([0.5, 2.0]), target, *start)
            for a, b in zip(found, right, strict=True):
                np.testing.assert_array_equal(a, b)

    def test_threads_change_nothing(self):
        from concurrent.futures import ThreadPoolExecutor

        target, start = random((5, 6, 5), batch=(300,), seed=9)
        times = np.linspace(0.0, 20.0, 30)[:, None]
        with ThreadPoolExecutor(1) as pool:
            alone = pool.submit(compiled, np, times, target, *start).result()
        for a, b in zip(compiled(np, times, target, *start), alone, strict=True):
            np.testing.assert_array_equal(a, b)

    def test_threads_at_once(self):
        """Networks of several sizes, by turns from two threads, each with a place of its own, and from a third."""
        from concurrent.futures import ThreadPoolExecutor

        questions = []
        for seed, (shape, batch, count) in enumerate([((6, 7, 6), 150, 9), ((2, 3, 4), 5, 40), ((1, 1, 1), 7, 3)]):
            target, start = random(shape, batch=(batch,), seed=seed)
            questions.append((WhitenedTwoLayer(target), np.linspace(0.0, 20.0, count), start))
        start = random((2, 3, 4), batch=(5,), seed=9)[1]  # another of the same flow, which keeps one
        questions.append((*questions[1][:2], start))

        def ask(k):
            flow, t, start = questions[k % len(questions)]
            return flow.compiled_solution(t[:, None], start)

        right = [ask(k) for k in range(len(questions))]
        with ThreadPoolExecutor(2) as pool:
            several = [pool.submit(ask, k) for k in range(60)]
            found = [ask(k) for k in range(20)] + [each.result() for each in several]
        for k, state in enumerate(found):
            for a, b in zip(state, right[(k if k < 20 else k - 20) % len(questions)], strict=True):
                np.testing.assert_array_equal(a, b)

    def test_no_time_depends_on_the_others(self):
        target, start = random((4, 5, 4), batch=(2,), seed=11)
        times = np.concatenate([np.random.default_rng(0).uniform(0, 30, 21), [1e-3, 0.1]])
        whole = compiled(np, times[:, None], target, *start)
        for k in range(times.size):
            for a, b in zip(compiled(np, times[k], target, *start), whole, strict=True):
                np.testing.assert_array_equal(a, b[k])

    def test_no_network_depends_on_the_others(self):
        """Slow networks, whose times are short, beside fast ones."""
        target, start = random((1, 1, 1), scale=0.1, batch=(30,), seed=13)
        target[::2] *= 0.01
        times = np.linspace(0.1, 30.0, 43)
        whole = compiled(np, times[:, None], target, *start)
        for k in range(30):
            for a, b in zip(compiled(np, times, target[k], *(v[k] for v in start)), whole, strict=True):
                np.testing.assert_array_equal(a, b[:, k])

    @pytest.mark.parametrize("size", [0.0, 1e-310, 1e-150, 1e-8, 1e3], ids=str)
    @pytest.mark.parametrize("scale", [0.0, 1e-150, 1e-3, 1.0], ids=str)
    def test_extreme_targets_and_starts(self, size, scale):
        target, start = random((3, 4, 3), scale=scale, batch=(4,), seed=12)
        target, times = size * target, np.asarray([1e-300, 1e-3, 0.5, 5.0, 1e5])
        target[3, :, 1:] = 0.0
        found = compiled(np, times[:, None], target, *start)
        right = matrix_riccati(np, times[:, None], target, *start)
        assert all(np.isfinite(v).all() for v in found)
        unit = np.max([np.abs(v).max(axis=(-2, -1)) for v in right], axis=0)
        for a, b in zip(found, right, strict=True):
            assert (np.abs(a - b).max(axis=(-2, -1)) <= 1e-13 * unit).all()

    def test_verify_runs_through_it(self, monkeypatch):
        from linsolve.systems.whitened import flow_map_compiled

        calls, fill = [], flow_map_compiled.fill
        monkeypatch.setattr(flow_map_compiled, "fill", lambda *given: calls.append(1) or fill(*given))
        monkeypatch.setattr(whitened_two_layer, "matrix_riccati", compiled)
        flow, start = WhitenedTwoLayer.example(np.random.default_rng(0))
        assert linsolve.verify(flow, start).ok
        assert calls

    def test_a_flow_takes_it_by_name(self):
        flow, start = WhitenedTwoLayer.example(np.random.default_rng(0))
        t = np.linspace(0.0, 3.0, 40)
        found, plain = flow(t, start, engine="compiled"), flow(t, start)
        assert np.abs(found["product"] - plain["product"]).max() < 1e-13
        np.testing.assert_array_equal(found["product"], flow.compiled_solution(t, start).product)
        named = evaluate(flow, t, start, "singular_values", engine="compiled")["singular_values"]
        np.testing.assert_array_equal(named, found["singular_values"])

    @pytest.mark.parametrize("mutant", ["growing", "pairs", "start"])
    @pytest.mark.quick(1)
    def test_verify_rejects_wrong_kernels(self, mutant, monkeypatch):
        from linsolve.systems.whitened import flow_map_compiled

        fill = flow_map_compiled.fill

        def wrong(t, start, *others):
            basis, rate, q, root, first, size, pace = start
            if mutant == "growing":  # the falling rows' factor 1/c upside down
                rate = np.abs(rate)
            elif mutant == "pairs":  # rising and falling columns exchanged in the outputs
                basis = np.concatenate([basis[:, :3], -basis[:, 3:]], axis=1)
            else:  # the first row of every column twice as large
                q = np.where(np.arange(q.shape[1])[:, None] == first[:, None, :], 2 * q, q)
            fill(t, (basis, rate, q, root, first, size, pace), *others)

        monkeypatch.setattr(flow_map_compiled, "fill", wrong)
        monkeypatch.setattr(whitened_two_layer, "matrix_riccati", compiled)
        flow, start = WhitenedTwoLayer.example(np.random.default_rng(0))
        try:
            right = linsolve.verify(flow, start).ok
        except linsolve.NotExact:  # a wrong state at time t is not even a start with a closed form
            right = False
        assert not right
