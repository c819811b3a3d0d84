"""Kernels that differ from class to class against dense ones, `BlockKernel`, fifty digits, and steps one by one."""

import mpmath
import numpy as np
import pytest
from mutants.specialized import SPECIALIZED

import linsolve as ls
from benchmarks import accuracy_block_kernel as accuracy
from linsolve import arithmetic

CASES = {
    "three classes": ([3.0, 2.0, 2.5], [[1.5, 0.2, 0.1], [0.2, 1.0, 0.4], [0.1, 0.4, 0.9]], [3, 5, 2]),
    "of one sample": ([1.0, 2.5, 1.0], [[0.9, 0.1, 0.0], [0.1, 1.1, 0.3], [0.0, 0.3, 4.0]], [1, 4, 1]),
    "negative between": ([3.0, 2.0], [[1.5, -0.6], [-0.6, 1.0]], [2, 4]),
    "class without contrasts": ([1.5, 2.0], [[1.5, 0.3], [0.3, 1.0]], [3, 3]),
    "singular on averages": ([4.0, 3.0], [[0.0, -2.0], [-2.0, 1.0]], [2, 2]),
    "all alike": ([1.0, 1.0], [[1.0, 1.0], [1.0, 1.0]], [2, 3]),
    "nothing": ([0.0, 0.0], [[0.0, 0.0], [0.0, 0.0]], [1, 2]),
}
every_case = pytest.mark.parametrize("case", CASES)
every_output = pytest.mark.parametrize("k", range(3))
OUTPUTS = {"own": (4.0, 3.0, 0.5), "other": (2.0, 1.0, 0.25), "sizes": [4, 2, 3]}


def special(case, eta=0.7):
    return ls.SpecializedKernel(*CASES[case], eta=eta)


def dense(case):
    """Return the kernel, entry by entry, and the class of each sample."""
    diagonal, pairs, sizes = CASES[case]
    label = np.repeat(np.arange(len(sizes)), sizes)
    kernel = np.array(pairs)[label[:, None], label]
    return np.where(np.eye(len(label), dtype=bool), np.array(diagonal)[label], kernel), label


def residuals(case, seed=0, lead=()):
    return np.random.default_rng(seed).normal(size=(*lead, sum(CASES[case][2])))


@every_case
def test_kernel_and_its_spectrum(case):
    flow, (kernel, _) = special(case), dense(case)
    np.testing.assert_array_equal(flow.kernel(np), kernel)
    values, counts = flow.eigenstructure()
    found, expected = np.sort(np.repeat(values, counts)), np.linalg.eigvalsh(kernel)
    assert len(found) == len(expected)
    assert np.max(np.abs(found - expected)) <= 1e-13 * np.max(expected)


@pytest.mark.parametrize("seed", range(8))
def test_spectra_of_random_kernels_are_those_of_the_assembled_matrix(seed):
    d = accuracy.draw(np.random.default_rng(seed), "specialized", dense=True)
    flow = accuracy.flow_of(d, "specialized")
    values, counts = flow.eigenstructure()
    expected = np.linalg.eigvalsh(flow.kernel(np))
    assert np.max(np.abs(np.sort(np.repeat(values, counts)) - expected)) <= 1e-13 * np.max(expected)


@pytest.mark.parametrize("kind", ["block", "specialized"])
@pytest.mark.parametrize("seed", range(3))
def test_within_1e_13_of_fifty_digits_over_sizes_rates_and_times(kind, seed):
    found = accuracy.errors(accuracy.draw(np.random.default_rng(seed), kind, dense=True), kind)
    assert max(found.values()) <= 1e-13, found


@every_case
def test_every_case_within_1e_13_of_fifty_digits(case):
    mp = mpmath.MPContext()
    mp.dps = 50
    values, vectors = mp.eigsy(mp.matrix(dense(case)[0].tolist()))
    r, flow = residuals(case, 1), special(case)
    c = vectors.T * mp.matrix(r.tolist())
    for t in (1e-6, 1e-2, 1.0, 10.0, 1e3):
        left = [mp.exp(-mp.mpf(0.7) * v * mp.mpf(t)) * x for v, x in zip(values, c, strict=True)]
        expected = np.array([float(v) for v in vectors * mp.matrix(left)])
        assert np.max(np.abs(flow(t, r)["r"] - expected)) <= 1e-13 * np.max(np.abs(r))


@every_case
def test_agrees_with_the_dense_frozen_kernel(case):
    flow, (kernel, label) = special(case), dense(case)
    frozen = ls.FrozenKernel(kernel, np.zeros(len(kernel)), eta=0.7)
    r, t = residuals(case, lead=(3,)), np.array([0.0, 1e-6, 0.1, 1.0, 7.0, np.inf])
    found, expected = flow(t, r), frozen(t, r)
    np.testing.assert_allclose(found["r"], expected["f"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(found["loss"], expected["loss"], rtol=1e-10, atol=1e-20)
    labels, f0_x = np.array([1, 0]), np.array([0.3, -0.2])
    k_x = np.broadcast_to(np.array(CASES[case][1])[labels][:, label], (3, 2, len(label)))
    t = t[:-1] if case == "singular on averages" else t
    expected = frozen.predict(t, r, k_x, np.broadcast_to(f0_x, (3, 2)))
    np.testing.assert_allclose(flow.predict(t, r, labels, f0_x), expected, rtol=1e-11, atol=1e-11)


def test_equal_blocks_are_a_block_kernel():
    r, t = np.random.default_rng(4).normal(size=9), np.array([0.0, 0.3, 5.0, np.inf])
    one = ls.BlockKernel(2.0, 1.0, 0.25, [4, 2, 3], eta=0.3)(t, r)
    all_outputs = ls.SpecializedKernel.of_outputs((2.0, 1.0, 0.25), (2.0, 1.0, 0.25), [4, 2, 3], 0.3)(t, r)
    assert all_outputs.names == one.names
    for name in one.names:
        for k in range(3):
            np.testing.assert_allclose(all_outputs[name][:, k], one[name], rtol=1e-12, atol=1e-14)


@every_output
def test_each_output_is_specialized_on_its_class(k):
    flow = ls.SpecializedKernel.of_outputs(**OUTPUTS)
    label = np.repeat(np.arange(3), [4, 2, 3])
    mine, same = label == k, label[:, None] == label
    touched = mine[:, None] | mine
    kernel = np.where(same, np.where(touched, 3.0, 1.0), np.where(touched, 0.5, 0.25))
    kernel[np.arange(9), np.arange(9)] = np.where(mine, 4.0, 2.0)
    np.testing.assert_array_equal(flow.kernel(np)[k], kernel)
    members = np.eye(3)[:, label]
    expected = [y @ kernel @ y / np.linalg.norm(kernel) / (y @ y) for y in members]
    np.testing.assert_allclose(flow.alignment()[k], expected, rtol=1e-14)
    equal = ls.SpecializedKernel.of_outputs(**OUTPUTS | {"sizes": [3, 3, 3]})
    assert np.argmax(equal.alignment()[k]) == k


def test_an_output_learns_its_own_class_first():
    flow = ls.SpecializedKernel.of_outputs(**OUTPUTS | {"sizes": [3, 3, 3]})
    left = np.abs(flow(0.1, np.ones(9))["class_mean"])
    assert np.argmin(left, axis=-1).tolist() == [0, 1, 2]


def test_parts_of_the_loss_and_their_sum():
    flow, r, label = special("three classes"), residuals("three classes", 2), dense("three classes")[1]
    traj = flow([0.0, 0.4], r)
    for k, now in enumerate(traj["r"]):
        mean = np.array([now[label == c].mean() for c in range(3)])
        parts = 10 * now.mean() ** 2 / 2, [3, 5, 2] @ (mean - now.mean()) ** 2 / 2, np.sum((now - mean[label]) ** 2) / 2
        for name, value in zip(("loss_global", "loss_class", "loss_sample"), parts, strict=True):
            assert traj[name][k] == pytest.approx(value, rel=1e-12)
        assert traj["loss"][k] == pytest.approx(sum(parts), rel=1e-12)
        np.testing.assert_allclose(traj["class_mean"][k], mean, rtol=1e-12)


@every_case
@pytest.mark.parametrize("momentum", [0.0, 0.6])
def test_discrete_descent_is_its_steps(case, momentum):
    flow, r, (kernel, _) = special(case), residuals(case, 4), dense(case)
    step = min(0.9 * flow.largest_step(), 1.0)
    now = before = r
    for _ in range(37):
        now, before = now - step * 0.7 * kernel @ now + momentum * (now - before), now
    found = flow.discrete([0, 37], r, step=step, momentum=momentum)
    np.testing.assert_allclose(found["r"][1], now, atol=1e-12 * np.max(np.abs(r)))
    assert np.array_equal(found["r"][0], r)


@pytest.mark.parametrize("case", [name for name in CASES if name != "nothing"])
def test_steps_are_bounded_and_best(case):
    flow, values = special(case), np.linalg.eigvalsh(dense(case)[0])
    positive = values[values > 1e-12]
    assert flow.largest_step() == pytest.approx(2 / (0.7 * values[-1]), rel=1e-13)
    assert flow.best_step() == pytest.approx(2 / (0.7 * (positive[0] + positive[-1])), rel=1e-12)
    with pytest.raises(ValueError, match=r"SpecializedKernel.discrete: step = .* must be below .*use best_step"):
        flow.discrete(5, residuals(case), step=1.01 * flow.largest_step())


def test_the_steps_of_a_batch_are_those_of_its_outputs():
    flow = ls.SpecializedKernel.of_outputs(**OUTPUTS)
    top = np.linalg.eigvalsh(flow.kernel(np))[:, -1]
    np.testing.assert_allclose(flow.largest_step(), 2 / top, rtol=1e-13)
    with pytest.raises(ValueError, match="must be below"):
        flow.discrete(1, np.ones(9), step=1.01 * flow.largest_step().min())


def test_outputs_that_drift_for_ever_have_no_limit():
    case = "singular on averages"
    with pytest.raises(ValueError, match=r"SpecializedKernel.predict: t = inf must be finite for this kernel"):
        special(case).predict(np.inf, residuals(case), [0], [0.0])


def test_high_precision_agrees():
    xp, flow, r = arithmetic.precise(40), special("three classes"), residuals("three classes")
    exact = flow.cast(xp)(xp.asarray([0.5]), flow.State(xp.asarray(r)))
    np.testing.assert_allclose(arithmetic.to_numpy(exact["r"])[0], flow(0.5, r)["r"], atol=1e-14)


GOOD = {"diagonal": [2.0, 3.0], "pairs": [[1.0, 0.5], [0.5, 1.0]], "sizes": [2, 2]}
BAD = {
    "contrasts": (
        {"diagonal": [2.0, 0.5]},
        r"smallest eigenvalue of the kernel = -0.5 \(of contrasts within class 1: diagonal - pairs\) must not be "
        r"negative .*; raise diagonal of class 1 by 0.5",
    ),
    "averages": (
        {"pairs": [[1.0, 4.0], [4.0, 1.0]]},
        r"smallest eigenvalue of the kernel = -4.51561 \(on class averages\) must not .*; raise diagonal by 4.52",
    ),
    "order": ({"pairs": [[1.0, 0.5], [0.4, 1.0]]}, r"pairs = 0.5 at \[0, 1\] and 0.4.* at \[1, 0\] must be equal"),
    "classes": ({"sizes": [2, 2, 2]}, r"sizes has shape \(3,\), so classes = 3, but diagonal has classes = 2"),
    "square": ({"pairs": [[1.0, 0.5]]}, r"pairs has shape \(1, 2\), so classes = 1, but diagonal has classes = 2"),
    "fractions": ({"sizes": [2, 2.5]}, r"sizes = 2.5 at index \(1,\) must be a whole number \(samples of each class\)"),
    "empty class": ({"sizes": [2, 0]}, r"sizes = 0.0 at index \(1,\) must lie in \[1, inf\)"),
    "totals": ({"sizes": [[2, 2], [2, 3]]}, r"sum of sizes = 4 and 5 must be the same over a batch"),
    "batches": ({"eta": [1.0, 1.0], "diagonal": np.ones((3, 2)) * 3}, r"batch shapes = .* do not broadcast"),
    "one class": ({"diagonal": [2.0], "pairs": [[1.0]], "sizes": [4]}, "sizes has 1 entry but must have at least two"),
    "not numbers": ({"pairs": [[1.0, np.nan], [np.nan, 1.0]]}, "pairs = nan"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_kernels_are_refused(name):
    change, message = BAD[name]
    with pytest.raises(ValueError, match="SpecializedKernel: " + message):
        ls.SpecializedKernel(**{**GOOD, **change})


def test_the_fix_that_is_named_is_one():
    ls.SpecializedKernel(**GOOD | {"diagonal": [2.0, 0.5 + 0.5]})
    ls.SpecializedKernel(**GOOD | {"pairs": [[1.0, 4.0], [4.0, 1.0]], "diagonal": [2.0 + 4.52, 3.0 + 4.52]})


def test_bad_questions_are_refused():
    flow = ls.SpecializedKernel(**GOOD)
    with pytest.raises(ValueError, match=r"SpecializedKernel: r has shape \(3,\), so N = 3, but sizes add up to 4"):
        flow(1.0, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"SpecializedKernel.predict: labels = 2 must lie in range\(2\)"):
        flow.predict(1.0, np.ones(4), [0, 2], [0.0, 0.0])
    with pytest.raises(ValueError, match=r"of_outputs: own has shape \(2,\) but must be three numbers"):
        ls.SpecializedKernel.of_outputs((1.0, 2.0), (2.0, 1.0, 0.5), [2, 2])
    for own, other, message in [
        ((3.0, 2.0, 1.0), (0.0, 1.0, 0.5), r"the kernel by own and other = -1 .* raise the first number of each by 1"),
        ((4.0, 1.0, 0.5), (2.0, 3.0, 0.5), "the kernel by own and other = -1 "),
        ((-1e-8, 2.0, 1.0), (2.0, 1.0, 0.5), r"own = -1e-08 at index \(0,\) must lie in \[0, inf\)"),
        ((3.0, 2.0, 1.0), (2.0, np.ma.masked, 0.5), "other has masked entries"),
    ]:
        with pytest.raises(ValueError, match="^SpecializedKernel.of_outputs: .*" + message):
            ls.SpecializedKernel.of_outputs(own, other, [2, 2])
    with pytest.raises(ValueError, match=r"discrete: allow_divergence = 'no' must be True or False"):
        flow.discrete([1], np.ones(4), step=0.1, allow_divergence="no")
    with pytest.raises(ValueError, match=r"SpecializedKernel.of_outputs: sizes has shape \(\) but needs one axis"):
        ls.SpecializedKernel.of_outputs((4.0, 1.0, 0.5), (2.0, 1.0, 0.5), 2)


@pytest.mark.parametrize("name", SPECIALIZED)
def test_mutants_are_rejected_by_the_check_that_should_see_them(name):
    mutant = SPECIALIZED[name]
    checks = list(dict.fromkeys(["velocity", "residual", mutant.seen_by]))
    assert mutant.seen_by in ls.verify(mutant.flow, mutant.z0, checks=checks).failed


# the first is proved with all other flows
@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(3))
def test_examples_are_proved(seed):
    report = ls.verify(*ls.SpecializedKernel.example(np.random.default_rng(seed)))
    assert report.ok, str(report)


def test_all_outputs_at_once_are_proved():
    r = np.random.default_rng(3).normal(size=(3, 9))
    report = ls.verify(ls.SpecializedKernel.of_outputs(**OUTPUTS, eta=0.3), r)
    assert report.ok, str(report)
