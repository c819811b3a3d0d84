"""The matrix Riccati kernel: 50 digits, every algorithm and array library, extremes, saddles and limits."""

import array_api_strict
import numpy as np
import pytest
from riccati_starts import random
from selection import quick

from benchmarks import accuracy_whitened as accuracy
from linsolve import NeuralCollapse, WhitenedTwoLayer, arithmetic
from linsolve.systems.whitened.imbalance import imbalance
from linsolve.systems.whitened.matrix_riccati import matrix_riccati

TIMES = np.asarray([0.0, 1e-300, 1e-6, 0.3, 1.0, 3.0, 10.0, 40.0, 400.0, np.inf])
METHODS = ("flow_map", "steps", "graded")


def exact(target, start, times=TIMES, dps=50):
    xp = arithmetic.precise(dps)
    found = matrix_riccati(xp, xp.asarray(times), xp.asarray(target), *(xp.asarray(v) for v in start))
    return [arithmetic.to_numpy(v) for v in found]


def distance(found, right):
    """Largest difference relative to the largest entry of the state, per time."""
    size = np.max([np.abs(v).max(axis=(-2, -1)) for v in right], axis=0)
    error = np.max([np.abs(np.asarray(a) - b).max(axis=(-2, -1)) for a, b in zip(found, right, strict=True)], axis=0)
    return error / np.where(size > 0, size, 1.0)


def random_start(n_in, width, n_out, *, scale=0.1, lam=0.0, seed=0):
    rng = np.random.default_rng(seed)
    weights = WhitenedTwoLayer.init(n_in, width, n_out, scale=scale, imbalance=lam, rng=rng)
    return rng.normal(size=(n_out, n_in)), WhitenedTwoLayer.of(*weights)


def aligned(values, u, v):
    return (u * values) @ v.T, (v * values) @ v.T, (u * values) @ u.T


def rotation(rng, n):
    return np.linalg.qr(rng.normal(size=(n, n)))[0]


def two_eigenvalues(product, kappa, total):
    u, s, vh = np.linalg.svd(product)
    inner, outer = np.zeros(product.shape[1]), np.zeros(product.shape[0])
    inner[: s.size], outer[: s.size] = s, s
    x = np.hypot(kappa, inner) - total / 2
    z = np.hypot(kappa, outer) + total / 2
    return product, (vh.T * x) @ vh, (u * z) @ u.T


def refuse_inaccurate(shape, imbalances, scales):
    rng = np.random.default_rng(sum(shape))
    times, well, count = np.append(accuracy.TIMES[:-3], np.inf), 0, 0
    for lam in imbalances:
        for case in accuracy.cases(shape, lam, rng, times=times, scales=scales):
            # where rounding the weights moves the exact trajectory by more than that, no method can know better
            allowed = np.maximum(1e-12, 10 * case.condition)
            for method in METHODS:
                found = matrix_riccati(np, times, case.target, *case.start, method=method)
                assert (accuracy.difference(found, case.exact) <= allowed).all(), (lam, case.scale, method)
            well, count = well + int((allowed == 1e-12).sum()), count + allowed.size
    assert well > 0.85 * count  # the condition must not excuse much


def legal(shape):
    return [lam for lam in accuracy.IMBALANCES if accuracy.legal(shape, lam)]


@pytest.mark.parametrize("shape", quick(accuracy.SHAPES, lambda shape: sum(shape) < 12), ids=str)
@pytest.mark.quick(1)
def test_accuracy_against_sixty_digits(shape):
    refuse_inaccurate(shape, legal(shape)[::2], accuracy.SCALES[::4])


@pytest.mark.exhaustive
@pytest.mark.parametrize("shape", accuracy.SHAPES, ids=str)
def test_accuracy_against_sixty_digits_of_every_scale_and_imbalance(shape):
    refuse_inaccurate(shape, legal(shape), accuracy.SCALES if sum(shape) < 12 else accuracy.SCALES[::2])


def test_late_times_against_sixty_digits():
    rng = np.random.default_rng(8)
    times = np.asarray([100.0, 400.0])
    for lam in (0.0, 1e-6, -1.0):
        for case in accuracy.cases((3, 2, 3), lam, rng, times=times, scales=(1e-8, 10.0)):
            for method in METHODS:
                found = matrix_riccati(np, times, case.target, *case.start, method=method)
                assert accuracy.difference(found, case.exact).max() < 1e-12


def degenerate():
    rng = np.random.default_rng(0)
    target, start = random_start(3, 3, 3, seed=1)
    yield "zero target", 0 * target, start
    yield "zero start", target, tuple(0 * v for v in start)
    yield "both zero", 0 * target, tuple(0 * v for v in start)
    yield "identity target", np.eye(3), start
    yield "rank-one target", np.outer([1.0, 2.0, 3.0], [1.0, 0.0, 2.0]), start
    target, start = random_start(5, 2, 5, seed=2)
    yield "identity target at a bottleneck", np.eye(5), start
    yield "tiny target", 1e-150 * target, start
    for scale in (1e-150, 1e-60, 1e3, 1e6):
        yield f"scale {scale}", *random_start(5, 5, 5, scale=scale, seed=5)
    yield "no first layer", *random_start(3, 2, 4, scale=0.0, lam=1.0, seed=2)
    yield "no second layer", *random_start(3, 2, 4, scale=0.0, lam=-1.0, seed=2)
    yield "graded blocks", *random_start(3, 2, 4, scale=1e-8, lam=1.0, seed=3)
    yield "only dead directions", *random_start(2, 3, 4, scale=1e-3, lam=1.0, seed=3)
    u, v = rotation(rng, 5), rotation(rng, 5)
    target = (u * np.asarray([3.0, 2.0, 1.5, 1.0, 0.5])) @ v.T
    yield "saddle", target, aligned(np.asarray([0.0, 0.1, 0.0, 0.2, 0.0]), u, v)
    yield "degenerate saddle", target, aligned(np.asarray([0.0, 0.1, 0.1, 0.1, 0.0]), u, v)
    for kappa, total in ((0.5, 0.3), (0.5, 0.0), (10.0, 1.0), (1.0, -1.5)):
        for scale in (1e-8, 0.1, 10.0):
            yield f"two eigenvalues {kappa, total, scale}", *two_case(rng, kappa, total, scale)


def representative(case):
    name = case[0]
    return name == "scale 1e-150" or name.endswith("0.1)") or not name.startswith(("scale", "two eigenvalues"))


def two_case(rng, kappa, total, scale):
    return rng.normal(size=(4, 3)), two_eigenvalues(scale * rng.normal(size=(4, 3)), kappa, total)


@pytest.mark.parametrize("case", quick(degenerate(), representative), ids=lambda case: case[0])
@pytest.mark.quick(3)
def test_degenerate_and_extreme(case):
    _, target, start = case
    right = exact(target, start)
    for method in METHODS:
        found = matrix_riccati(np, TIMES, target, *start, method=method)
        assert all(np.isfinite(v).all() for v in found)
        assert all(np.array_equal(v[0], s) for v, s in zip(found, start, strict=True))
        assert distance(found, right).max() < 3e-13


def test_two_eigenvalue_class_agrees_with_an_integrator():
    import linsolve

    rng = np.random.default_rng(4)
    for kappa, total in ((0.5, 0.3), (0.02, 0.0)):
        target, start = two_case(rng, kappa, total, 0.3)
        flow, times = WhitenedTwoLayer(target, tau=0.7), np.asarray([0.1, 0.5, 1.0])
        assert imbalance(np, *start).spread > 0
        right = linsolve.integrate(flow, times, start, rtol=1e-12).state
        assert distance(flow(times, start).state, right).max() < 1e-9


@pytest.mark.parametrize("shape", [(3, 2, 4), (5, 5, 5), (2, 3, 4)], ids=str)
def test_array_api_strict_runs_the_same_code(shape):
    xp = array_api_strict
    rng = np.random.default_rng(3)
    lam = 0.5 if shape[1] <= shape[2] else 0.0
    w1, w2 = WhitenedTwoLayer.init(*shape, scale=0.3, imbalance=lam, batch=(3,), rng=rng)
    target, start = rng.normal(size=(3, shape[2], shape[0])), WhitenedTwoLayer.of(w1, w2)
    times = TIMES[:, None]
    found = matrix_riccati(xp, xp.asarray(times), xp.asarray(target), *(xp.asarray(v) for v in start))
    for a, b in zip(found, matrix_riccati(np, times, target, *start), strict=True):
        assert isinstance(a, type(xp.asarray(1.0)))
        np.testing.assert_allclose(np.asarray(a), b, rtol=0, atol=1e-13 * np.abs(b).max())


def test_batch_of_different_classes_is_its_members():
    rng = np.random.default_rng(6)
    members = [two_case(rng, 0.5, 0.3, 0.2), random_start(3, 2, 4, lam=0.7), random_start(3, 2, 4, lam=-0.7, seed=1)]
    members += [
        random_start(3, 6, 4),
        random_start(3, 1, 4),
        (rng.normal(size=(4, 3)), random_start(3, 1, 4, scale=0)[1]),
    ]
    target = np.stack([m[0] for m in members])
    start = [np.stack([m[1][i] for m in members]) for i in range(3)]
    whole = matrix_riccati(np, TIMES[:, None], target, *start)
    for k, (one, z) in enumerate(members):
        alone = matrix_riccati(np, TIMES, one, *z)
        assert distance([v[:, k] for v in whole], alone).max() < 1e-13


def test_exact_saddles_are_not_left():
    """Parity: square, balanced, ``det Y det S < 0``. In floats a saddle is otherwise left after ln(1/eps) e-folds."""
    rng = np.random.default_rng(2)
    for n, width in ((2, 4), (5, 5), (8, 8)):
        w1, w2 = WhitenedTwoLayer.init(n, width, n, scale=0.5, batch=(100,), rng=rng)
        u, v = (np.linalg.qr(rng.normal(size=(100, n, n)))[0] for _ in range(2))
        target = (u * np.linspace(1.0, 2.0, n)) @ np.swapaxes(v, -1, -2)
        flow, start = WhitenedTwoLayer(target), WhitenedTwoLayer.of(w1, w2)
        stuck = np.linalg.det(start.product) * np.linalg.det(target) < 0
        assert 20 < stuck.sum() < 80
        np.testing.assert_array_equal(flow.obstructed(np, start), stuck)
        for t in (150.0, 400.0, np.inf):
            loss = flow(t, start)["loss"]
            np.testing.assert_allclose(loss[stuck], 0.5, rtol=1e-12)
            assert loss[~stuck].max() < 1e-15


def test_bottleneck_keeps_the_largest_modes():
    target, start = random_start(5, 2, 5, seed=9)
    values = np.linalg.svd(target, compute_uv=False)
    loss = WhitenedTwoLayer(target)([400.0, np.inf], start)["loss"]
    np.testing.assert_allclose(loss, (values[2:] ** 2).sum() / 2, rtol=1e-13)


def test_times_in_any_order_and_number():
    target, start = random_start(4, 3, 2, lam=-0.2)
    times = np.random.default_rng(0).uniform(0, 50, (7, 5))
    whole = matrix_riccati(np, times, target, *start)
    for index in ((0, 0), (3, 2), (6, 4)):
        alone = matrix_riccati(np, times[index], target, *start)
        assert distance([v[index] for v in whole], alone) < 1e-13


def test_members_may_disagree_about_which_time_comes_first():
    rng = np.random.default_rng(7)
    w1, w2 = WhitenedTwoLayer.init(3, 2, 4, scale=0.3, imbalance=0.2, batch=(2,), rng=rng)
    target, start = rng.normal(size=(2, 4, 3)), WhitenedTwoLayer.of(w1, w2)
    times = np.asarray([[1.0, 5.0], [2.0, 3.0], [np.inf, 1.0], [0.0, 2.0]])
    whole = matrix_riccati(np, times, target, *start)
    for k in range(2):
        alone = matrix_riccati(np, times[:, k], target[k], *(v[k] for v in start))
        assert distance([v[:, k] for v in whole], alone).max() < 1e-14


def test_no_ill_conditioned_start_escapes_its_saddle():
    """About one in 500 does, at n = 8, if rows are cleared one by one without their common null vector first."""
    stuck, escaped = 0, 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        w1, w2 = WhitenedTwoLayer.init(8, 8, 8, scale=0.5, batch=(400,), rng=rng)
        flow, start = WhitenedTwoLayer(rng.normal(size=(400, 8, 8))), WhitenedTwoLayer.of(w1, w2)
        obstructed = flow.obstructed(np, start) > 0
        least = np.linalg.svd(flow.target, compute_uv=False)[obstructed, -1]
        loss = flow(np.inf, start)["loss"][obstructed]
        stuck, escaped = stuck + obstructed.sum(), escaped + (np.abs(2 * loss / least**2 - 1) > 1e-8).sum()
    assert stuck > 900
    assert escaped == 0


def test_formulas_write_into_no_array(monkeypatch):
    """Libraries whose arrays cannot change, such as JAX, run the same code; hard starts and every kind of time too."""
    xp = array_api_strict

    def refuse(*_):
        raise TypeError("arrays of this library cannot be changed")

    monkeypatch.setattr(type(xp.asarray(0.0)), "__setitem__", refuse)
    rng = np.random.default_rng(0)
    cases = [random_start(3, 2, 4, lam=0.5), random_start(14, 20, 14), random_start(5, 5, 5, seed=3)]
    w1 = np.asarray([[1e-3, 1.0], [0.0, 1.0]])  # left to steps
    cases += [two_case(rng, 0.5, 0.3, 0.2), (np.diag([1.001, 1.0]), WhitenedTwoLayer.of(w1, w1.T))]
    times = np.asarray([0.0, 0.1, 15.0, 400.0, np.inf])
    for target, start in cases:
        given = [xp.asarray(v) for v in (target, *start)]
        for method in (None, "steps")[: 2 if len(target) < 10 else 1]:
            found = matrix_riccati(xp, xp.asarray(times), *given, method=method)
            right = matrix_riccati(np, times, target, *start)
            assert distance([np.asarray(v) for v in found], right).max() < 1e-13
    monkeypatch.setattr("linsolve.systems.whitened.flow_map.DEVICE", 40)  # in many pieces
    rng = np.random.default_rng(1)
    weights = WhitenedTwoLayer.init(3, 2, 4, scale=0.1, batch=(5,), rng=rng)
    target, start, times = rng.normal(size=(5, 4, 3)), WhitenedTwoLayer.of(*weights), np.linspace(0.1, 3.0, 7)[:, None]
    found = matrix_riccati(xp, xp.asarray(times), xp.asarray(target), *(xp.asarray(v) for v in start))
    assert distance([np.asarray(v) for v in found], matrix_riccati(np, times, target, *start)).max() < 1e-13


@pytest.mark.parametrize("flow", [WhitenedTwoLayer, NeuralCollapse])
@pytest.mark.quick(1)
def test_high_precision_refuses_times_that_need_too_many_digits(flow):
    xp = arithmetic.precise(60)
    problem, start = flow.example(np.random.default_rng(0))
    start = flow.State(*(xp.asarray(v) for v in start))
    with pytest.raises(ValueError, match=r"t = .* time constants .* digits .*t = inf"):
        problem(1e7, start)
    limit = problem(np.inf, start)
    assert all(np.isfinite(np.asarray(v, dtype=float)).all() for v in limit.state)


@pytest.mark.parametrize("lam", [0.01, 0.3, 3.0])
@pytest.mark.parametrize("scale", [1.0, 3.0, 10.0])
@pytest.mark.parametrize("shape", [(1, 3, 127), (1, 3, 200), (1, 2, 40), (2, 3, 100)], ids=str)
def test_a_block_of_many_rows_is_not_taken_for_a_small_one(shape, scale, lam):
    # its entries are far smaller than those of the other block, its singular values are not
    for turned in (False, True):
        sizes, sign = (shape[::-1], -1) if turned else (shape, 1)
        target, start = random(sizes, sign * lam, scale=scale, seed=1)
        flow = WhitenedTwoLayer(target)
        t = 1e-9 / (scale**2 * np.linalg.norm(target - start.product))
        early, late = (flow(time, start).state for time in (t, np.inf))
        for found, first, speed in zip(early, start, flow.velocity(np, start), strict=True):
            assert np.abs(found - first - t * speed).max() <= 1e-12 * np.abs(first).max()
        assert np.abs(late.product - target).max() <= 1e-11 * np.abs(target).max()
        (distance,) = flow.conditions(np, late).values()
        assert distance <= 1e-12
