"""Cached frames, imbalances and buffers: the same results, for the same numbers only, and in no copy."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from riccati_starts import random
from threadpoolctl import threadpool_info

import linsolve as ls
from linsolve import WhitenedTwoLayer, arithmetic
from linsolve.numerics import threads
from linsolve.numerics.cache import KEPT, Memory
from linsolve.systems.whitened import buffers, factorizations
from linsolve.systems.whitened import matrix_riccati as matrix
from linsolve.systems.whitened import start_frame as frame
from linsolve.systems.whitened.buffers import Buffers
from linsolve.systems.whitened.matrix_riccati import matrix_riccati

TIMES = np.asarray([0.0, 0.01, 1.0, 5.0, 400.0, np.inf])


def same(found, right):
    for a, b in zip(found, right, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture
def counted(monkeypatch):
    """Number of decompositions of the target, of computations of the imbalance, of frames and of prepared ones."""
    counts = {"modes": 0, "imbalance": 0, "frame": 0, "prepared": 0}

    def counting(name, of):
        def call(*given, **options):
            counts[name] += 1
            return of(*given, **options)

        return call

    monkeypatch.setattr(frame.Modes, "of", counting("modes", frame.Modes.of))
    monkeypatch.setattr(matrix, "imbalance", counting("imbalance", matrix.imbalance))
    monkeypatch.setattr(matrix, "start_frame", counting("frame", matrix.start_frame))
    monkeypatch.setattr(matrix, "prepared", counting("prepared", matrix.prepared))
    return counts


def test_a_question_asks_for_each_thing_once(counted):
    target, start = random((6, 8, 5), 0.0, seed=1)
    flow, other = WhitenedTwoLayer(target), random((6, 8, 5), seed=2)[1]
    first = flow(TIMES, start).state
    assert counted == {"modes": 1, "imbalance": 1, "frame": 1, "prepared": 1}
    same(flow(TIMES[::-1], start).state, [v[::-1] for v in first])
    assert counted == {"modes": 1, "imbalance": 1, "frame": 1, "prepared": 1}
    found = flow(TIMES, other).state
    assert counted == {"modes": 1, "imbalance": 2, "frame": 2, "prepared": 2}
    same(found, WhitenedTwoLayer(target)(TIMES, other).state)


@pytest.mark.parametrize("imbalance", [0.0, 0.3])
def test_large_networks_are_prepared_on_two_threads_with_the_same_bits(imbalance, counted, monkeypatch):
    target, start = random((70, 66, 66), imbalance, seed=5)
    first = WhitenedTwoLayer(target)(TIMES, start).state
    assert counted == {"modes": 1, "imbalance": 1, "frame": 1, "prepared": 1}
    other = random((70, 66, 66), imbalance, seed=6)[1]
    monkeypatch.setattr(threads, "workers", lambda: 1)
    flow = WhitenedTwoLayer(target)
    flow(TIMES, other)
    same(flow(TIMES, start).state, first)
    assert counted == {"modes": 2, "imbalance": 3, "frame": 3, "prepared": 3}
    monkeypatch.setattr(matrix, "LARGE", 1000)
    same(WhitenedTwoLayer(target)(TIMES, start).state, first)
    unbalanced = WhitenedTwoLayer.of(*(v + 0.01 for v in WhitenedTwoLayer.init(70, 66, 66, scale=0.3, rng=7)))
    for size in (1000, 128):
        monkeypatch.setattr(matrix, "LARGE", size)
        with pytest.raises(ls.NotExact, match="distance of the imbalance"):
            WhitenedTwoLayer(target)(TIMES, unbalanced)


def test_refused_calls_leave_bits_and_threads_of_blas_as_they_were():
    target, start = random((100, 100, 100), seed=5)
    asymmetric = start._replace(gram_in=start.gram_in * np.where(np.eye(100, k=1) > 0, 1.1, 1.0))
    limits = [each["num_threads"] for each in threadpool_info()]
    first = WhitenedTwoLayer(target)(TIMES, start).state
    for k in range(10):
        with pytest.raises(ValueError, match="must be symmetric"):
            WhitenedTwoLayer(target + k)(TIMES, asymmetric)
        assert [each["num_threads"] for each in threadpool_info()] == limits
        same(WhitenedTwoLayer(target)(TIMES, start).state, first)


def test_a_root_that_is_not_of_this_start_is_noticed(monkeypatch):
    target, start = random((70, 66, 66), seed=5)
    other = random((70, 66, 66), seed=6)[1]
    right = WhitenedTwoLayer(target)(TIMES[1:3], start).state
    of = matrix.square_root
    monkeypatch.setattr(matrix, "square_root", lambda xp, *given: of(xp, *other, given[-1]))
    wrong = WhitenedTwoLayer(target)(TIMES[1:3], start).state
    assert all(np.abs(a - b).max() > 1e-3 * np.abs(a).max() for a, b in zip(right, wrong, strict=True))


def test_what_was_changed_in_place_is_another_start():
    target, start = random((4, 4, 4), seed=3)
    flow = WhitenedTwoLayer(target)
    flow(TIMES, start)
    for v in start:
        v *= 4
    same(flow(TIMES, start).state, WhitenedTwoLayer(target)(TIMES, start).state)
    start.gram_in[0, 0] = 1e3
    with pytest.raises(ls.NotExact):
        flow(TIMES, start)


def test_time_constants_are_no_part_of_it():
    target, start = random((3, 5, 4), seed=4)
    slow = WhitenedTwoLayer(target, tau=[1.0, 2.0])
    slow(TIMES, start)
    same([v[:, 1] for v in slow(TIMES, start).state], WhitenedTwoLayer(target)(TIMES / 2, start).state)


def test_other_arithmetics_are_not_answered_in_floats():
    target, start = random((2, 3, 2), seed=5)
    flow, xp = WhitenedTwoLayer(target), arithmetic.precise(40)
    flow(1.0, start)
    exact = flow(xp.asarray(1.0), [xp.asarray(v) for v in start])["product"]
    assert arithmetic.is_object(arithmetic.namespace(exact))
    loose = flow(1.0, start)["product"]
    assert type(loose) is np.ndarray
    assert np.abs(arithmetic.to_numpy(exact - xp.asarray(loose))).max() > 0
    np.testing.assert_allclose(loose, arithmetic.to_numpy(exact), rtol=0, atol=1e-15)


def test_copies_and_pickles_are_empty(counted):
    target, start = random((3, 3, 3), seed=6)
    flow = WhitenedTwoLayer(target)
    right = flow(TIMES, start).state
    empty = len(pickle.dumps(WhitenedTwoLayer(target)))
    assert len(pickle.dumps(flow)) == empty
    for other in (pickle.loads(pickle.dumps(flow)), copy.deepcopy(flow)):
        before = counted["frame"]
        same(other(TIMES, start).state, right)
        assert counted["frame"] == before + 1


def test_threads_may_share_a_flow():
    shape = (5, 6, 5)
    starts = [random(shape, seed=k)[1] for k in range(8)]
    target = random(shape, seed=0)[0]
    flow = WhitenedTwoLayer(target)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda z: flow(TIMES, z).state, starts * 3))
    for z, state in zip(starts * 3, found, strict=True):
        same(state, WhitenedTwoLayer(target)(TIMES, z).state)


def test_memory_has_bounds_and_knows_no_nan():
    memory, calls = Memory(), []
    for about in (np.zeros(KEPT + 1), np.asarray([np.nan]), 1.0):
        for _ in range(2):
            memory.recall("what", lambda: calls.append(1), about)
    assert len(calls) == 6
    for about in (np.zeros(2), np.zeros(3), np.zeros(2), np.zeros((1, 2)), np.zeros(2, dtype=np.float32)):
        memory.recall("what", lambda: calls.append(1), about)
    assert len(calls) == 11


def test_what_is_prepared_is_kept_only_for_a_frame_that_is_kept(counted, monkeypatch):
    for members, kept in ((1, True), (matrix.PART, True), (matrix.PART + 1, False)):
        target, start = np.ones((members, 2, 2)), [np.full((members, 2, 2), 0.5)] * 3
        memory, before = Memory(), dict(counted)
        first, second = (matrix_riccati(np, TIMES[:, None], target, *start, memory=memory) for _ in range(2))
        same(second, first)
        assert counted["prepared"] - before["prepared"] == (1 if kept else 2)
        assert ("prepared" in memory._last) == ("relaxed" in memory._last) == kept
    monkeypatch.setattr("linsolve.numerics.cache.KEPT", 0)  # a start that is too large, and what follows from it
    memory = Memory()
    matrix_riccati(np, TIMES[:, None], target, *start, memory=memory)
    assert not memory._last


def test_buffers_of_a_thread_are_used_again_and_large_ones_are_given_back():
    small, large = Buffers(np).buffer("here", (3, 4)), Buffers(np).buffer("here", (buffers.KEPT + 1,))
    assert Buffers(np).buffer("here", (2, 5)).base is small.base
    assert Buffers(np).buffer("here", (buffers.KEPT + 1,)).base is not large.base
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: Buffers(np).buffer("here", (3, 4)).base).result() is not small.base


def test_subnormal_numbers_are_replaced_by_zeros_in_place():
    least = np.finfo(float).smallest_normal
    given = np.asarray([1.0, -least, least, least * (1 - 2.0**-52), -5e-324, -0.0, np.inf, -3.0])
    found = Buffers(np).normal(given)
    assert found is given
    np.testing.assert_array_equal(found, [1.0, -least, least, 0.0, 0.0, 0.0, np.inf, -3.0])
    some = arithmetic.precise(20).asarray([1e-320])
    assert Buffers(arithmetic.precise(20)).normal(some)[0] == 1e-320


def test_products_at_late_times_have_no_subnormal_factors(monkeypatch):
    seen, usual = [], Buffers.product

    def product(self, name, a, b):
        seen.extend(float(np.abs(v[v != 0]).min()) for v in ((b,) if name == "q" else (a, b)))
        return usual(self, name, a, b)

    target, start = random((64, 64, 64), seed=3)
    monkeypatch.setattr(Buffers, "product", product)
    state = WhitenedTwoLayer(target)(400.0, start).state
    assert len(seen) == 7
    assert min(seen) >= np.finfo(float).smallest_normal
    exact = matrix_riccati(np, np.asarray(400.0), target, *start, method="graded")
    assert max(np.abs(a - b).max() for a, b in zip(state, exact, strict=True)) < 1e-12


def test_results_are_no_buffers():
    target, start = random((20, 20, 20), seed=7)
    flow = WhitenedTwoLayer(target)
    first = flow(1.0, start).state
    kept = [v.copy() for v in first]
    flow(2.0, start)
    same(first, kept)


# the echelon form of a start that parity forbids its target, by one factorization, and wrong forms of it


def seen(target, start):
    return frame.start_frame(np, target, *start)


def forbidden(n, seed):
    """A square balanced start that ends on a saddle."""
    target, start = random((n, n, n), scale=0.3, seed=seed)
    if np.linalg.det(target) * np.linalg.det(start.product) > 0:
        target[0] *= -1
    return target, start


@pytest.mark.parametrize("n", [1, 2, 5, 12, 40])
@pytest.mark.parametrize("seed", range(4))
def test_one_factorization_finds_what_parity_forbids(n, seed, monkeypatch):
    target, start = forbidden(n, seed)
    monkeypatch.setattr(factorizations, "_sorted", None)  # not needed
    fast = seen(target, start)
    monkeypatch.undo()
    monkeypatch.setattr(factorizations, "_independent", lambda xp, q, *others: ((q, q), np.zeros(q.shape[:-2], bool)))
    slow = seen(target, start)
    for found in (fast, slow):
        assert (found.q[:n, 0] == 0).all()  # the missing direction, exactly
        assert not np.triu(found.q[: n - 1, ::-1], 1).any()
        np.testing.assert_allclose(found.basis @ found.q, found.root, rtol=0, atol=1e-13)
    np.testing.assert_allclose(fast.root @ fast.root.T, slow.root @ slow.root.T, rtol=0, atol=1e-13)
    times = np.asarray([0.5, 5.0, 50.0, 500.0])
    fast, slow = (matrix.moved(np, times, found, n) for found in (fast, slow))
    for a, b in zip(fast, slow, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.abs(b).max())


def test_two_missing_directions_are_left_to_the_singular_value_decomposition(monkeypatch):
    called, sorted_ = [], factorizations._sorted
    monkeypatch.setattr(factorizations, "_sorted", lambda *given: called.append(1) or sorted_(*given))
    rng = np.random.default_rng(8)
    q = rng.normal(size=(3, 10, 5))
    for k in range(3):  # the fastest rows of five have rank 5, 4, 3
        q[k, :5] = q[k, :5, : 5 - k] @ rng.normal(size=(5 - k, 5))
    found, root = factorizations.echelon(np, q, q.copy(), 5, np.full(3, 1e-13))
    assert len(called) == 1
    assert [[int((row != 0).sum()) for row in each[:5]] for each in found] == [
        [1, 2, 3, 4, 5],
        [1, 2, 3, 4, 4],
        [1, 2, 3, 3, 3],
    ]
    for a in (found, root):
        np.testing.assert_allclose(a @ np.swapaxes(a, -1, -2), q @ np.swapaxes(q, -1, -2), rtol=0, atol=1e-12)


def test_a_missing_direction_that_is_not_made_zero_is_left_in_time():
    """The mutant: rounding leaves the saddle, as simulations do."""
    target, start = forbidden(5, 1)
    right = seen(target, start)
    q = right.q.copy()
    q[4, 0] = 1e-16
    late = np.asarray(2000.0)
    stays, leaves = (matrix.moved(np, late, found, 5)[0] for found in (right, right._replace(q=q)))
    assert np.linalg.norm(target - leaves) < 1e-9
    assert np.linalg.norm(target - stays) == pytest.approx(np.linalg.svd(target)[1][-1], rel=1e-9)


@pytest.mark.parametrize(("shape", "lam", "seed"), [((2, 3, 4), 1.0, 32), ((4, 4, 2), -1.0, 23), ((5, 5, 5), 0.0, 2)])
def test_steps_whose_bracket_is_singular_are_replaced_by_graded_elimination(shape, lam, seed, monkeypatch):
    calls, graded = [], matrix.graded
    monkeypatch.setattr(matrix, "graded", lambda *given: calls.append(1) or graded(*given))
    monkeypatch.setattr(
        matrix, "steps", lambda xp, t, seen: np.full((*t.shape, sum(shape[::2]), sum(shape[::2])), np.nan)
    )
    target, start = random(shape, lam, scale=10.0, batch=(2,), seed=seed)
    times = np.asarray([3.0, 60.0, 400.0])[:, None]
    found = matrix.matrix_riccati(np, times, target, *start, method="steps")
    assert len(calls) == 6
    for a, b in zip(found, matrix.matrix_riccati(np, times, target, *start), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-13 * np.abs(b).max())
