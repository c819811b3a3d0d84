"""Block-structured kernels against dense ones: `eigvalsh`, `FrozenKernel`, fifty digits, and steps taken one by one."""

import mpmath
import numpy as np
import pytest
from mutants.block import BLOCK
from selection import quick

import linsolve as ls
from benchmarks import accuracy_block_kernel as accuracy
from linsolve import arithmetic
from linsolve.core.verify import CHECKS

CASES = {
    "equal": ((2.0, 1.2, 0.3), [4, 4, 4]),
    "unequal": ((2.0, 1.2, 0.3), [7, 1, 4, 4]),
    "between negative": ((2.0, 1.1, -0.2), [3, 5, 2]),
    "between zero": ((1.0, 0.4, 0.0), [2, 6]),
    "all alike": ((1.0, 1.0, 1.0), [2, 3]),
    "singular on classes": ((1.0, 0.5, -0.75), [2, 2]),
    "one each": ((1.0, 0.5, 0.25), [1, 1, 1]),
    "no contrast": ((1.5, 1.5, 0.5), [3, 3]),
}
every_case = pytest.mark.parametrize("case", CASES)


def block(case, eta=0.7):
    (d, w, b), sizes = CASES[case]
    return ls.BlockKernel(diagonal=d, within=w, between=b, sizes=sizes, eta=eta)


def dense(case):
    """Return the kernel, entry by entry."""
    (d, w, b), sizes = CASES[case]
    label = np.repeat(np.arange(len(sizes)), sizes)
    return np.where(np.eye(len(label), dtype=bool), d, np.where(label[:, None] == label, w, b)), label


def residuals(case, seed=0, lead=()):
    return np.random.default_rng(seed).normal(size=(*lead, sum(CASES[case][1])))


@every_case
def test_kernel_and_its_spectrum(case):
    flow, (kernel, _) = block(case), dense(case)
    np.testing.assert_array_equal(flow.kernel(np), kernel)
    values, counts = flow.eigenstructure()
    found = np.sort(np.repeat(values, counts))
    expected = np.linalg.eigvalsh(kernel)
    assert len(found) == len(expected)
    assert np.max(np.abs(found - expected)) <= 1e-13 * np.max(expected)


@pytest.mark.parametrize("seed", range(5))
def test_spectra_of_random_blocks(seed):
    rng = np.random.default_rng(seed)
    d, w, b = np.sort(rng.uniform(0.0, 3.0, 3))[::-1]
    sizes = rng.integers(1, 12, rng.integers(2, 7))
    flow = ls.BlockKernel(d, w, b, sizes)
    values, counts = flow.eigenstructure()
    expected = np.linalg.eigvalsh(flow.kernel(np))
    assert np.max(np.abs(np.sort(np.repeat(values, counts)) - expected)) <= 1e-13 * np.max(expected)


def test_eigenvalues_of_equal_classes_are_those_of_table_1():
    d, w, b, m, C = 2.0, 1.2, 0.3, 4, 3
    values, counts = block("equal").eigenstructure()
    np.testing.assert_allclose(values, [d - w, d - w + m * (w - b), d - w + m * (w - b) + C * m * b], rtol=1e-15)
    assert counts.tolist() == [C * m - C, C - 1, 1]
    assert np.all(np.diff(values) > 0)  # erratum: the first two are the smallest, not the largest as said after (39)
    # Table 1 lists N contrasts for its N - C: they span so many dimensions, and are not orthogonal
    label = np.repeat(np.arange(C), m)
    listed = np.eye(C * m) - (label[:, None] == label) / m
    assert np.linalg.matrix_rank(listed) == C * m - C
    assert abs(listed[0] @ listed[1]) > 0.1
    np.testing.assert_allclose(block("equal").kernel(np) @ listed, (d - w) * listed, atol=1e-15)


@every_case
def test_agrees_with_the_dense_frozen_kernel(case):
    flow, (kernel, _) = block(case), dense(case)
    n = len(kernel)
    frozen = ls.FrozenKernel(kernel, np.zeros(n), eta=0.7)
    r, t = residuals(case, lead=(3,)), np.array([0.0, 1e-6, 0.1, 1.0, 7.0, 1e3, np.inf])
    found, expected = flow(t, r), frozen(t, r)
    # what still moves when the fastest has gone is known to eps lam_max t, in the dense kernel's eigenvectors
    np.testing.assert_allclose(found["r"], expected["f"], rtol=0, atol=2e-12)
    np.testing.assert_allclose(flow.limit(np, flow.State(r)).r, expected["f"][-1], atol=1e-13)


@every_case
def test_within_1e_13_of_fifty_digits(case):
    mp = mpmath.MPContext()
    mp.dps = 50
    kernel, _ = dense(case)
    exact = mp.matrix(kernel.tolist())
    values, vectors = mp.eigsy(exact)
    r = residuals(case, 1)
    c = vectors.T * mp.matrix(r.tolist())
    flow = block(case)
    for t in (1e-6, 1e-2, 1.0, 10.0):
        left = [mp.exp(-mp.mpf(0.7) * v * mp.mpf(t)) * x for v, x in zip(values, c, strict=True)]
        expected = np.array([float(v) for v in vectors * mp.matrix(left)])
        assert np.max(np.abs(flow(t, r)["r"] - expected)) <= 1e-13 * np.max(np.abs(r))
        np.testing.assert_allclose(
            flow(t, r)["loss"], float(mp.fsum(x * x for x in left) / 2), rtol=1e-13 * max(1, np.max(kernel) * 4 * t)
        )


def test_late_residuals_of_equal_classes_keep_every_digit():
    # lam_max t = 1e5: an eigendecomposition of the dense kernel would lose five digits
    flow = ls.BlockKernel(diagonal=1.0 + 2.0**-20, within=1.0, between=0.5, sizes=[50, 50])
    r = np.zeros(100)
    r[:2] = 1.0, -1.0
    t = 2.0**20
    np.testing.assert_allclose(flow(t, r)["r"][:2], [np.exp(-1.0), -np.exp(-1.0)], rtol=1e-14)


@pytest.mark.parametrize("gap", [1e-2, 1e-5, 1e-9, 1e-12])
def test_eigenvalues_of_unequal_classes_are_accurate_relative_to_themselves(gap):
    # values that almost agree: the sum of matrices would know its small eigenvalues to eps lam_max
    flow = ls.BlockKernel(1 + gap, 1.0, 1 - gap, [40, 7, 1, 13])
    mp = mpmath.MPContext()
    mp.dps = 50
    d, w, b = (mp.mpf(float(v)) for v in (flow.diagonal, flow.within, flow.between))
    B = mp.matrix(4, 4)
    for i, m in enumerate((40, 7, 1, 13)):
        for j, n in enumerate((40, 7, 1, 13)):
            B[i, j] = b * mp.sqrt(m * n) + (d - w + (w - b) * m if i == j else 0)
    exact = [float(v) for v in mp.eigsy(B, eigvals_only=True)]
    np.testing.assert_allclose(flow.blocks(np).averages, sorted(exact), rtol=1e-13)
    r = np.repeat([1.0, -2.0, 0.5, 1.5], [40, 7, 1, 13])
    t = 1 / exact[0]
    values, vectors = mp.eigsy(B)
    start = mp.matrix([r_c * mp.sqrt(m) for r_c, m in zip((1.0, -2.0, 0.5, 1.5), (40, 7, 1, 13), strict=True)])
    y = vectors * mp.matrix([mp.exp(-v * t) * c for v, c in zip(values, vectors.T * start, strict=True)])
    expected = [float(y[c] / mp.sqrt(m)) for c, m in enumerate((40, 7, 1, 13))]
    np.testing.assert_allclose(flow(t, r)["class_mean"], expected, atol=1e-13)


@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("lift", [1e-9, 3.0])
@pytest.mark.quick(2)
def test_slow_modes_move_test_points_by_little_and_exactly_that(gap, lift):
    # what moves a test point is nearly orthogonal to a slow mode, and is divided by its eigenvalue
    pairs, sizes = np.where(np.eye(3, dtype=bool), 1.0, 1 - gap), np.array([9, 1, 4])
    r0 = np.random.default_rng(5).normal(size=14)
    found = accuracy.errors(accuracy.Draw(np.full(3, 1 + lift), pairs, sizes, 0.5, r0, True, True), "block")
    assert max(found.values()) <= 1e-13, found


@every_case
def test_the_loss_splits_into_global_class_and_sample(case):
    flow, r = block(case), residuals(case, 2)
    _, label = dense(case)
    traj = flow([0.0, 0.4], r)
    for k in range(2):
        now = traj["r"][k]
        mean = np.array([now[label == c].mean() for c in range(label.max() + 1)])
        sizes = np.bincount(label)
        parts = len(r) * now.mean() ** 2 / 2, sizes @ (mean - now.mean()) ** 2 / 2, np.sum((now - mean[label]) ** 2) / 2
        for name, value in zip(("loss_global", "loss_class", "loss_sample"), parts, strict=True):
            assert traj[name][k] == pytest.approx(value, rel=1e-12, abs=1e-15)
        np.testing.assert_allclose(traj["class_mean"][k], mean, rtol=1e-12, atol=1e-15)


def test_parts_of_equal_classes_decay_with_their_own_eigenvalues():
    flow, r, t = block("equal"), residuals("equal", 3), 2.0
    traj = flow([0.0, t], r)
    sample, classes, whole = flow.eigenstructure().values
    for name, value in (("loss_sample", sample), ("loss_class", classes), ("loss_global", whole)):
        assert traj[name][1] / traj[name][0] == pytest.approx(np.exp(-2 * 0.7 * value * t), rel=1e-12)


@every_case
@pytest.mark.parametrize("momentum", [0.0, 0.6])
def test_discrete_descent_is_its_steps(case, momentum):
    flow, r = block(case), residuals(case, 4)
    kernel, _ = dense(case)
    step = 0.9 * flow.largest_step()
    now = before = r
    for _ in range(37):
        now, before = now - step * 0.7 * kernel @ now + momentum * (now - before), now
    found = flow.discrete([0, 37], r, step=step, momentum=momentum)
    np.testing.assert_allclose(found["r"][1], now, atol=1e-12 * np.max(np.abs(r)))
    assert np.array_equal(found["r"][0], r)


@every_case
def test_steps_are_bounded_and_best(case):
    flow, r = block(case), residuals(case, 5)
    values = np.linalg.eigvalsh(dense(case)[0])
    positive = values[values > 1e-12]
    assert flow.largest_step() == pytest.approx(2 / (0.7 * values[-1]), rel=1e-13)
    assert flow.best_step() == pytest.approx(2 / (0.7 * (positive[0] + positive[-1])), rel=1e-12)
    with pytest.raises(ValueError, match=r"BlockKernel.discrete: step = .* must be below .*take best_step"):
        flow.discrete(5, r, step=1.01 * flow.largest_step())


def test_diverging_descent_says_so():
    flow, r = block("equal"), residuals("equal")
    assert flow.discrete(50, r, step=1.1 * flow.largest_step(), allow_divergence=True)["loss"] > 10 * r @ r
    with pytest.raises(
        ArithmeticError, match=r"BlockKernel.discrete: outputs after k = 100000 steps are beyond doubles"
    ):
        flow.discrete(100000, r, step=3 * flow.largest_step(), allow_divergence=True)


@every_case
def test_test_points_follow_the_dense_kernel(case):
    flow, (kernel, label) = block(case), dense(case)
    (_, w, b), _ = CASES[case]
    r, labels = residuals(case, 6, lead=(2,)), np.array([1, 0])
    k_x, f0_x = np.where(labels[:, None] == label, w, b), np.array([0.3, -0.2])
    frozen = ls.FrozenKernel(kernel, np.zeros(len(kernel)), eta=0.7)
    t = np.array([0.0, 0.5, 30.0]) if case == "singular on classes" else np.array([0.0, 0.5, 30.0, np.inf])
    expected = frozen.predict(t, r, np.broadcast_to(k_x, (2, *k_x.shape)), np.broadcast_to(f0_x, (2, 2)))
    np.testing.assert_allclose(flow.predict(t, r, labels, f0_x), expected, rtol=1e-11, atol=1e-11)


def test_outputs_that_drift_for_ever_have_no_limit():
    flow = block("singular on classes")
    with pytest.raises(ValueError, match=r"BlockKernel.predict: t = inf must be finite for this kernel"):
        flow.predict(np.inf, residuals("singular on classes"), [0], [0.0])


def test_class_sizes_may_vary_over_a_batch():
    flow = ls.BlockKernel(2.0, [1.2, 1.0], 0.3, [[3, 3], [1, 5]], eta=0.7)
    r = np.random.default_rng(8).normal(size=6)
    together = flow([0.0, 0.7], r)
    for k, (w, sizes) in enumerate(((1.2, [3, 3]), (1.0, [1, 5]))):
        alone = ls.BlockKernel(2.0, w, 0.3, sizes, eta=0.7)([0.0, 0.7], r)
        for name in alone.names:
            np.testing.assert_allclose(together[name][:, k], alone[name], rtol=1e-13, atol=1e-14)


def test_parameters_are_not_shared_with_the_caller():
    within = np.array(1.0)
    flow = ls.BlockKernel(2.0, within, 0.3, [2, 2])
    within[...] = 2.0
    assert flow.within == 1.0


def test_high_precision_equal_and_unequal():
    xp = arithmetic.precise(40)
    for case in ("equal", "unequal"):
        flow, r = block(case), residuals(case)
        exact = flow.cast(xp)(xp.asarray([0.5]), flow.State(xp.asarray(r)))
        np.testing.assert_allclose(arithmetic.to_numpy(exact["r"])[0], flow(0.5, r)["r"], atol=1e-14)


GOOD = {"diagonal": 2.0, "within": 1.0, "between": 0.5, "sizes": [2, 2]}
BAD = {
    "within above diagonal": ({"within": 2.5}, r"within = 2.5 must be at most diagonal = 2 .*order them"),
    "between above within": ({"between": 1.5}, r"between = 1.5 must be at most within = 1 .*order them"),
    "not positive": (
        {"between": -4.0},
        r"smallest eigenvalue of the kernel = -5 \(on class averages\) must not be negative .*raise between",
    ),
    "fractions": ({"sizes": [2, 2.5]}, r"sizes = 2.5 at index \(1,\) must be a whole number \(samples of each class\)"),
    "empty class": ({"sizes": [2, 0]}, r"sizes = 0.0 at index \(1,\) must lie in \[1, inf\) \(samples of each class\)"),
    "one class": ({"sizes": [4]}, r"sizes has 1 entry but must have at least two .*use FrozenKernel"),
    "totals": ({"sizes": [[2, 2], [2, 3]]}, r"sum of sizes = 4 and 5 must be the same over a batch"),
    "batches": ({"diagonal": [2.0, 2.0], "within": [1.0, 1.0, 1.0]}, r"batch shapes = .* do not broadcast"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_kernels_are_refused(name):
    change, message = BAD[name]
    with pytest.raises(ValueError, match="BlockKernel: " + message):
        ls.BlockKernel(**{**GOOD, **change})


def test_kernels_beyond_doubles_are_refused():
    with pytest.raises(
        OverflowError, match=r"beyond the range of doubles \(within of up to 1, between of up to 1\.7e\+308\)"
    ):
        ls.BlockKernel(**GOOD | {"between": -1.7e308})


def test_bad_questions_are_refused():
    flow = ls.BlockKernel(**GOOD)
    for route in (
        lambda r: flow(1.0, r),
        lambda r: ls.integrate(flow, 1.0, r),
        lambda r: ls.descend(flow, 1.0, r, step=0.1),
    ):
        with pytest.raises(ValueError, match=r"BlockKernel: r has shape \(3,\), so N = 3, but sizes add up to 4"):
            route([1.0, 2.0, 3.0])
    r = np.ones(4)
    with pytest.raises(ValueError, match=r"BlockKernel.predict: labels = 2 must lie in range\(2\)"):
        flow.predict(1.0, r, [0, 2], [0.0, 0.0])
    with pytest.raises(ValueError, match=r"BlockKernel.predict: labels = \[0.5\] must be whole numbers"):
        flow.predict(1.0, r, [0.5], [0.0])
    with pytest.raises(ValueError, match=r"BlockKernel.predict: f0_x has shape \(1,\) but needs 2 as its last axis"):
        flow.predict(1.0, r, [0, 1], [0.0])


@pytest.mark.parametrize("name", BLOCK)
@pytest.mark.quick(2)
def test_mutants_are_rejected_by_the_check_that_should_see_them(name):
    mutant = BLOCK[name]
    checks = list(dict.fromkeys(["velocity", "residual", mutant.seen_by]))
    assert ls.verify(mutant.flow, mutant.z0, checks=checks).failed == [mutant.seen_by]


# the first is proved with all other flows
@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(20))
def test_examples_are_proved(seed):
    report = ls.verify(*ls.BlockKernel.example(np.random.default_rng(seed)))
    assert report.ok, str(report)


@pytest.mark.parametrize("case", quick(CASES, lambda case: case in ("unequal", "between negative", "all alike")))
@pytest.mark.quick(1)
def test_every_kind_of_kernel_is_proved(case):
    # where one mode learns, and is small in the start, nothing is left of it after two of the flow's clocks
    checks = [name for name in CHECKS if (case, name) != ("all alike", "descent")]
    report = ls.verify(block(case), residuals(case, 9), checks=checks)
    assert report.ok, str(report)
