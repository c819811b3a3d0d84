"""The flow map of the matrix Riccati kernel: as accurate as steps, left to them elsewhere; wrong forms rejected."""

import array_api_strict
import numpy as np
import pytest
from riccati_starts import random
from selection import quick

import linsolve
from linsolve import WhitenedTwoLayer, arithmetic
from linsolve.systems.whitened import flow_map as module
from linsolve.systems.whitened import matrix_riccati as matrix
from linsolve.systems.whitened.factorizations import RELIABLE, factored, inverted
from linsolve.systems.whitened.flow_map import flow_map
from linsolve.systems.whitened.flow_map_start import prepared
from linsolve.systems.whitened.matrix_riccati import matrix_riccati
from linsolve.systems.whitened.start_frame import Frame, start_frame

TIMES = np.asarray([1e-300, 1e-6, 0.01, 0.3, 1.0, 3.0, 10.0, 20.0, 60.0, 400.0])
STARTS = [
    ((3, 10, 5), 0.0),
    ((5, 5, 5), 0.0),  # half of these end on a saddle
    ((5, 2, 5), 0.0),
    ((5, 2, 5), -1.0),
    ((2, 3, 4), 1.0),
    ((4, 4, 2), -1e-6),
    ((8, 3, 8), 1e-3),
    ((1, 1, 1), 0.5),
]


def hard(small=1e-3):
    """The fastest mode is nearly absent, what there is of it lies along the next, and that is nearly as fast."""
    w1 = np.asarray([[small, 1.0], [0.0, 1.0]])
    return np.diag([1.001, 1.0]), WhitenedTwoLayer.of(w1, w1.T)


def two_eigenvalues(rng, count, kappa=0.5, total=0.3):
    product = 0.2 * rng.normal(size=(count, 4, 3))
    u, s, vh = np.linalg.svd(product)
    inner, outer = s, np.concatenate([s, np.zeros((count, 1))], axis=-1)
    x = (np.swapaxes(vh, -1, -2) * (np.hypot(kappa, inner) - total / 2)[:, None, :]) @ vh
    z = (u * (np.hypot(kappa, outer) + total / 2)[:, None, :]) @ np.swapaxes(u, -1, -2)
    return rng.normal(size=(count, 4, 3)), (product, x, z)


def raw(target, start, times=TIMES):
    """The flow map of one network, whatever its excess."""
    seen = start_frame(np, target, *start)
    *found, excess = flow_map(np, times[:, None], prepared(np, Frame(*(a[None] for a in seen)), target.shape[-1]))
    return [v[:, 0] for v in found], excess[:, 0]


def apart(found, right):
    """Largest difference relative to the largest entry of the state, per time and network."""
    size = np.max([np.abs(v).max(axis=(-2, -1)) for v in right], axis=0)
    error = np.max([np.abs(np.asarray(a) - b).max(axis=(-2, -1)) for a, b in zip(found, right, strict=True)], axis=0)
    return error / size


def exact(target, start, times):
    xp = arithmetic.precise(50)
    found = matrix_riccati(xp, xp.asarray(times), xp.asarray(target), *(xp.asarray(v) for v in start))
    return [arithmetic.to_numpy(v) for v in found]


@pytest.fixture
def no_steps(monkeypatch):
    def refuse(*_):
        raise AssertionError("a typical start was left to steps")

    monkeypatch.setattr(matrix, "steps", refuse)


@pytest.mark.parametrize("scale", [1e-8, 1e-2, 1.0, 10.0])
@pytest.mark.parametrize(("shape", "lam"), STARTS, ids=str)
@pytest.mark.quick(10)
def test_flow_map_and_steps_agree(shape, lam, scale):
    target, start = random(shape, lam, scale=scale, batch=(12,), seed=sum(shape))
    found = matrix_riccati(np, TIMES[:, None], target, *start)
    right = matrix_riccati(np, TIMES[:, None], target, *start, method="steps")
    differ = apart(found, right) > 1e-13
    assert differ.sum() <= 1
    for i, k in np.argwhere(differ):  # then it is the steps that lost digits
        best = exact(target[k], [v[k] for v in start], TIMES[i : i + 1])
        assert apart([v[i : i + 1, k] for v in found], best) < 1e-13


def test_flow_map_and_steps_agree_with_two_eigenvalues():
    target, start = two_eigenvalues(np.random.default_rng(1), 20)
    found = matrix_riccati(np, TIMES[:, None], target, *start)
    right = matrix_riccati(np, TIMES[:, None], target, *start, method="steps")
    assert apart(found, right).max() < 1e-14


def test_typical_starts_need_no_steps(no_steps):
    """Obstructed ones, bottlenecks, two eigenvalues and graded blocks included."""
    times = np.append(np.linspace(0, 20, 30), [100.0, 400.0, np.inf])
    for shape in ((10, 10, 10), (10, 20, 10), (5, 10, 3), (20, 5, 20), (3, 2, 4)):
        for scale in (1e-8, 1e-3, 0.1):
            target, start = random(shape, scale=scale, batch=(50,), seed=1)
            matrix_riccati(np, times[:, None], target, *start)
    matrix_riccati(np, times[:, None], *(lambda a, b: (a, *b))(*two_eigenvalues(np.random.default_rng(0), 50)))
    target, start = random((3, 2, 4), 1.0, scale=1e-8, batch=(50,))
    matrix_riccati(np, times[:, None], target, *start)


def test_a_wide_network_of_a_hundred_inputs_needs_no_steps(no_steps):
    target, start = random((100, 200, 100), seed=2)
    found = matrix_riccati(np, np.asarray([0.0, 0.1, 0.5, 2.0, 40.0]), target, *start)
    flow = WhitenedTwoLayer(target)
    for state in list(zip(*found, strict=True))[1:4]:
        kept = flow.invariants(np, flow.State(*state))["imbalance"]
        assert abs(kept) < 1e-11 * np.abs(state[0]).max()
    np.testing.assert_array_equal(found[0][0], start.product)


def test_hard_start_is_refused_by_the_flow_map_and_right_by_default():
    times = np.asarray([12.0, 15.0, 20.0])
    target, start = hard()
    right = exact(target, start, times)
    found, excess = raw(target, start, times)
    assert (excess > 1000 * RELIABLE).all()
    assert apart(found, right).max() > 1e-11  # the flow map is wrong there, and knows it
    assert apart(matrix_riccati(np, times, target, *start), right).max() < 1e-13


@pytest.mark.parametrize("small", [0.3, 0.1, 0.03, 0.01, 1e-3])
def test_the_excess_bounds_what_the_flow_map_loses(small):
    times = np.linspace(4, 20, 9)
    target, start = hard(small)
    found, excess = raw(target, start, times)
    right = matrix_riccati(np, times, target, *start, method="steps")
    # beside what rounding the start to doubles does to the exact flow, which steps suffer alike
    assert (apart(found, right) <= 4 * np.finfo(float).eps * (2 + excess) + 1e-15).all()
    assert (apart(found, right)[excess <= RELIABLE] < 1e-13).all()


def test_only_members_and_times_that_need_steps_take_them(monkeypatch):
    target, start = random((2, 4, 2), batch=(6,), seed=3)
    target[4], at = hard()[0], hard()[1]
    for whole, own in zip(start, at, strict=True):
        whole[4] = own
    asked, steps = [], matrix.steps
    monkeypatch.setattr(matrix, "steps", lambda xp, t, seen: asked.append(t.shape) or steps(xp, t, seen))
    times = np.asarray([0.0, 0.5, 12.0, 15.0, np.inf])
    found = matrix_riccati(np, times[:, None], target, *start)
    assert asked == [(2, 1)]
    for k in range(6):
        alone = matrix_riccati(np, times, target[k], *(v[k] for v in start))
        assert apart([v[:, k] for v in found], alone).max() < 1e-14


def test_a_bracket_singular_to_rounding_is_marked_and_no_other():
    stack = np.broadcast_to(np.eye(3), (3, 5, 3, 3)).copy()
    stack[1, 2] = 1.0
    factor = factored(np, stack)
    bad = np.isnan(factor).any(axis=(-2, -1))
    assert bad[1, 2]
    assert bad.sum() == 1
    np.testing.assert_array_equal(factor[0], stack[0])


@pytest.mark.parametrize("late", [20.0, 25.0, 60.0, 400.0])
def test_a_start_deficient_to_rounding_is_refused(late):
    """Two modes of nearly one rate, of the faster only a billionth, and that along the other: singular brackets."""
    q = np.asarray([[[0.0, 1e-9], [1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]])
    rate = np.asarray([[1 + 1e-9, 1.0, -1.0, -1 - 1e-9]])
    seen = Frame(np.eye(4)[None], rate, q, q, np.zeros(1), np.zeros(1), rate)
    times = np.asarray([0.1, late])[:, None]
    *_, excess = flow_map(np, times, prepared(np, seen, 2))
    assert excess[0, 0] < 1
    assert not excess[1, 0] <= RELIABLE
    found, right = (matrix.moved(np, times, seen, 2, method=method) for method in (None, "graded"))
    assert apart(found, right).max() < 1e-13


@pytest.mark.parametrize("n", [1, 2, 5, 7, 12, 13, 30, 100])
def test_inverse_of_triangular_factors(n):
    factor = np.tril(np.random.default_rng(n).normal(size=(4, n, n)) / n) + np.eye(n)
    inverse = inverted(np, factor)
    assert np.abs(inverse @ factor - np.eye(n)).max() < 1e-13
    assert not np.triu(inverse, 1).any()


def test_products_and_logarithms_of_weights_agree(monkeypatch):
    target, start = random((5, 4, 6), scale=1e-4, seed=5)
    times = np.asarray([1e-6, 0.1, 1.0, 5.0, 20.0])
    near, _ = raw(target, start, times)
    monkeypatch.setattr(module, "FAR", 0)
    far, _ = raw(target, start, times)
    assert apart(near, far).max() < 1e-13


@pytest.mark.parametrize("shape", [(40, 40, 40), (50, 40, 36), (36, 60, 50)], ids=str)
@pytest.mark.parametrize("against", quick([20, 0, 33], 1))
@pytest.mark.quick(1)
@pytest.mark.exhaustive
def test_zeros_that_are_not_multiplied_are_zeros(shape, against, monkeypatch):
    """Starts that are aligned with the target, some directions with the wrong sign: those never grow."""
    target, start = random(shape, seed=11)
    u, _, vh = np.linalg.svd(target)
    k = min(shape)
    root = 0.1 * np.linspace(1, 2, k)
    w1, w2 = root[:, None] * vh[:k], u[:, :k] * root * np.where(np.arange(k) < k - against, 1, -1)
    turn = np.linalg.qr(np.random.default_rng(12).normal(size=(k, k)))[0]
    times = np.asarray([0.3, 1.0, 4.0, 10.0])  # so late that weights overflow nothing is left out
    aligned = WhitenedTwoLayer.of(turn @ w1, w2 @ turn.T)
    for z in (start, aligned):
        found, _ = raw(target, z, times)
        monkeypatch.setattr(module, "WIDE", 10**6)
        whole, _ = raw(target, z, times)
        monkeypatch.undo()
        assert apart(found, whole).max() < 1e-14
    graded = matrix_riccati(np, times, target, *aligned, method="graded")
    assert apart(found, graded).max() < 1e-13


def test_blocks_change_nothing(monkeypatch):
    target, start = random((4, 4, 4), batch=(7,), seed=6)
    whole = matrix_riccati(np, TIMES[:, None], target, *start)
    for size in (1, 100, 300):
        monkeypatch.setattr(module, "CACHED", size)
        parts = matrix_riccati(np, TIMES[:, None], target, *start)
        assert apart(parts, whole).max() < 1e-14


def test_late_products_of_unequal_layers_are_kept_down_to_the_last_doubles():
    w1 = np.diag([1e-20, 2e-20])
    start = WhitenedTwoLayer.of(w1, np.sqrt(w1**2 + np.eye(2)))  # without a target the first layer decays
    for t in (630.0, 640.0):
        product = matrix_riccati(np, np.asarray(t), np.zeros((2, 2)), *start)[0]
        np.testing.assert_allclose(np.diagonal(product), np.diagonal(w1) * np.exp(-t), rtol=1e-13, atol=0)


def test_late_products_of_nearly_balanced_layers_are_kept_down_to_the_last_doubles():
    w2 = np.asarray([[-100.0], [1e11]])  # an imbalance that the rates of the target's 1e40 do not show
    start = WhitenedTwoLayer.of(np.asarray([[100.0]]), w2)
    target, t = np.asarray([[1e40], [0.0]]), np.asarray(690e-40)
    found, right = (matrix_riccati(np, t, target, *start, method=way)[0] for way in (None, "graded"))
    assert right[1, 0] > 1e-287
    np.testing.assert_allclose(found[1, 0], right[1, 0], rtol=1e-12, atol=0)


def test_late_saddles_keep_what_multiplies_a_large_column():
    s = 1e-145 * np.asarray([1.0, 1.3e-3, 1.2e-3, 1.1e-3])
    w1 = 1e76 * np.asarray([[0.0, 1e-6, 1.0, 1e-3], [0.0, 1.0, 0.0, 1e-150]])
    given = np.diag(s), *WhitenedTwoLayer.of(w1, -w1.T)
    root = {"layer_root": np.concatenate([w1.T, -w1.T])}
    t = np.asarray(300 / 1e-145)
    found, right = (matrix_riccati(np, t, *given, method=way, **root) for way in (None, "graded"))
    assert apart(found, right) < 1e-12


@pytest.mark.parametrize("way", ["flow_map", "compiled", "steps"])
@pytest.mark.parametrize("small", [1e-12, 1e-10, 1e-8, 1e-6, 1e-4])
def test_a_small_share_along_the_next_mode_keeps_its_digits(small, way):
    if way == "compiled":
        pytest.importorskip("llvmlite")
    xp, t = arithmetic.precise(80), 20.0
    target, w = np.diag([1.02, 1.01, 1.0]), np.asarray([[small, 10 * small, 1.0], [0.0, 1.0, 0.0]])
    right = matrix_riccati(xp, xp.asarray(t), xp.asarray(target), *[xp.asarray(w).mT @ xp.asarray(w)] * 3)
    found = matrix_riccati(np, np.asarray(t), target, *WhitenedTwoLayer.of(w, w.T), method=way)
    assert apart(found, [arithmetic.to_numpy(v) for v in right]) < 1e-14


def test_late_products_of_slight_weights_beside_a_fast_mode_are_kept():
    w = 2.0**-252 * np.diag([0.0, 1.0, 1e-5])  # the fast mode is at zero, and the others have no time to move
    start = WhitenedTwoLayer.of(w, w)
    found = matrix_riccati(np, np.asarray(3.5e-148), np.diag([1e150, 0.0, 0.0]), *start)
    assert apart(found, start) < 1e-12


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 1, 2), (2, 3, 4), (10, 10, 10), (40, 50, 40)], ids=str)
def test_gram_matrices_are_symmetric_to_the_last_bit(shape):
    target, start = random(shape, batch=(3,), seed=8)
    for gram in matrix_riccati(np, TIMES[:, None], target, *start)[1:]:
        np.testing.assert_array_equal(gram, np.swapaxes(gram, -1, -2))


def test_threads_change_nothing():
    from concurrent.futures import ThreadPoolExecutor

    times = np.linspace(0.0, 20.0, 60)[:, None]
    target, start = random((10, 20, 10), batch=(200,), seed=9)
    with ThreadPoolExecutor(1) as pool:  # a thread among others works alone
        alone = pool.submit(matrix_riccati, np, times, target, *start).result()
    for a, b in zip(matrix_riccati(np, times, target, *start), alone, strict=True):
        np.testing.assert_array_equal(a, b)


def test_array_api_strict_takes_the_same_ways():
    xp = array_api_strict
    target, start = random((2, 4, 2), batch=(4,), seed=7)
    target[2], at = hard()[0], hard()[1]
    for whole, own in zip(start, at, strict=True):
        whole[2] = own
    times = np.asarray([0.0, 0.2, 12.0, 200.0, np.inf])[:, None]
    right = matrix_riccati(np, times, target, *start)
    found = matrix_riccati(xp, xp.asarray(times), xp.asarray(target), *(xp.asarray(v) for v in start))
    for a, b in zip(found, right, strict=True):
        assert isinstance(a, type(xp.asarray(1.0)))
        np.testing.assert_allclose(np.asarray(a), b, rtol=0, atol=1e-14 * np.abs(b).max())


# wrong forms; the start, t = 0, is right in each


def flipped_falling(patch):
    """The falling rows with the wrong sign: ``X = D + E (G - B^T D B) E`` to first order in B's sign."""
    _weigh(patch, lambda pull, rate, t: np.where(rate < 0, -pull, pull))


def without_decay(patch):
    """Falling rows that do not decay: E missing on one side."""
    _weigh(patch, lambda pull, rate, t: np.where(rate < 0, 1.0, pull))


def unscaled_start(patch):
    """The 1 of the bracket left as it is when columns are scaled."""
    raised = module.Buffers.raised
    patch.setattr(module.Buffers, "raised", lambda self, a, diagonal: raised(self, a, np.ones_like(diagonal)))


def _weigh(patch, change):
    weights = module._weights

    def wrong(xp, t, start):
        found = weights(xp, t, start)
        return found._replace(pull=change(found.pull, start.rate, t[..., None]))

    patch.setattr(module, "_weights", wrong)


def verified(flow, start):
    try:
        return linsolve.verify(flow, start, checks=["residual", "semigroup", "dop853", "limit"]).ok
    except linsolve.NotExact:  # a wrong state at time t is not even a start with a closed form
        return False


@pytest.mark.parametrize("mutant", [flipped_falling, without_decay, unscaled_start])
@pytest.mark.quick(1)
def test_verify_rejects_wrong_flow_maps(mutant, monkeypatch):
    flow, start = WhitenedTwoLayer.example(np.random.default_rng(0))
    times = np.asarray([0.3, 1.0, 3.0, 10.0])
    right = matrix_riccati(np, times, flow.target, *start, method="steps")
    assert verified(flow, start)
    assert apart(matrix_riccati(np, times, flow.target, *start), right).max() < 1e-14
    mutant(monkeypatch)
    assert not verified(flow, start)
    assert apart(matrix_riccati(np, times, flow.target, *start), right).max() > 1e-3


def test_zeros_reach_no_farther_than_rows_keep_their_places():
    """Everything against the target, and nothing along its slowest mode: zeros would begin beyond the pairs."""
    n, rng = 64, np.random.default_rng(0)
    w = 0.1 * rng.normal(size=(n, n))
    w[:, -1] = 0
    target, start = np.diag(np.linspace(3, 1, n)), (-w.T @ w, w.T @ w, w.T @ w)
    times = np.asarray([0.5, 1.0, 2.0])
    assert (
        prepared(np, Frame(*(a[None] for a in start_frame(np, target, *start))), n).void >= n
    )  # the case is the one meant
    found, right = (matrix_riccati(np, times, target, *start, method=method) for method in (None, "graded"))
    assert apart(found, right).max() < 1e-13
