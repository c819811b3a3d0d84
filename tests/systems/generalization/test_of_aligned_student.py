"""The aligned student of a noisy teacher: 50-digit quadrature, identities, overlaps, raw weights, mutants."""

import mpmath
import numpy as np
import pytest
from selection import quick

import linsolve as ls
from linsolve.core.network import follow
from linsolve.systems.generalization.spikes import bulk_overlap, overlap, spike

LAW = ls.laws.GeneralizationOfAlignedStudent

mp = mpmath.MPContext()
mp.dps = 50


def errors(strengths, inputs, outputs, start, t):
    """Return test and train error of two layers, by quadrature over the angle of the bulk."""
    A, t, start = mp.mpf(outputs) / inputs, mp.mpf(t), mp.mpf(start)
    root = mp.sqrt(A)

    def mode(s):
        return s / (1 + (s / start - 1) * mp.exp(-2 * s * t)) if s else start / (1 + 2 * start * t)

    def over(function):
        return mp.quad(lambda x: function(x, mp.sqrt(1 + A + 2 * root * mp.cos(x))), mp.linspace(0, mp.pi, 13))

    found = {mp.mpf(s): mp.sqrt((1 + s**2) * (A + s**2)) / s for s in map(mp.mpf, strengths) if s**4 > A}
    pull = sum((s**4 - A) / (s * mp.sqrt((A + s**2) * (1 + s**2))) * mode(v) for s, v in found.items())
    for s in map(mp.mpf, strengths):
        q = s**2 / root
        pull += (
            2 * s**2 / mp.pi * over(lambda x, v, q=q: mode(v) / v * mp.sin(x) ** 2 / (1 - 2 * q * mp.cos(x) + q * q))
        )

    def total(function):
        main = outputs * 2 / mp.pi * over(lambda x, v: mp.sin(x) ** 2 / v**2 * function(v))
        ends = (function(1 + root) + function(abs(1 - root))) / 4 - over(lambda x, v: function(v)) / (2 * mp.pi)
        moved = sum(
            over(lambda x, v, q=q: function(v) * (q * mp.cos(x) - q * q) / (1 - 2 * q * mp.cos(x) + q * q)) / mp.pi
            for q in (mp.mpf(s) ** 2 / root for s in strengths)
        )
        return main + ends + moved + sum(function(v) for v in found.values())

    test = sum(mp.mpf(s) ** 2 for s in strengths) - 2 * pull + total(lambda v: mode(v) ** 2)
    return test, total(lambda v: (v - mode(v)) ** 2)


@pytest.mark.parametrize("t", quick([2.0, 0.3, 5.0], 1))
@pytest.mark.parametrize("outputs", quick([50, 160, 90], 1))
def test_curves_are_those_of_fifty_digits(outputs, t):
    law = LAW([2.5, 0.5], 100, outputs, 1e-3)
    test, train = errors([2.5, 0.5], 100, outputs, 1e-3, t)
    assert abs(float(float(law.test_error(t)) / test - 1)) <= 1e-12
    assert abs(float(float(law.train_error(t)) / train - 1)) <= 1e-12


@pytest.mark.parametrize("depth", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("outputs", [40.0, 100.0, 250.0])
def test_in_the_end_all_noise_is_learned(outputs, depth):
    """The map ends at the noisy matrix: the test error is the square of the noise, the number of outputs."""
    law = LAW([3.0, 1.5, 0.4], 100.0, outputs, 1e-4, depth)
    tolerance = 1e-12 if outputs != 100 else 1e-9  # the smallest modes of a square matrix are never learned
    assert float(law.test_error(np.inf)) == pytest.approx(outputs, rel=tolerance)
    assert float(law.train_error(np.inf)) <= 1e-9
    quiet = LAW([3.0, 1.5, 0.4], 100.0, outputs, 1e-12)
    assert float(quiet.train_error(0.0)) == pytest.approx(outputs + 9 + 2.25 + 0.16, rel=1e-9)
    assert float(quiet.test_error(0.0)) == pytest.approx(9 + 2.25 + 0.16, rel=1e-9)


def test_the_threshold_hides_the_teacher():
    law = LAW([0.8, 0.9], 100.0, 50.0)
    assert law.threshold() == pytest.approx(0.5**0.25)
    assert law.learned().tolist() == [False, True]
    assert law.learning_time()[0] == np.inf
    near = np.array(0.5**0.25 * (1 + 1e-9))
    assert float(spike(np, near, np.array(0.5))[1]) == pytest.approx(1 + np.sqrt(0.5), rel=1e-8)
    assert 0 < float(overlap(np, near, np.array(0.5))) <= 1e-8
    turned = spike(np, near / np.sqrt(0.5), np.array(2.0))  # the transposed matrix, in units of its noise
    assert float(turned[1]) == pytest.approx((1 + np.sqrt(0.5)) / np.sqrt(0.5), rel=1e-8)


def test_the_learning_time_is_that_of_half_the_spike():
    law = LAW([3.0, 2.0], 100.0, 50.0, 1e-2)
    top = spike(np, law.strengths, np.array(0.5))[1]
    grown = ls.DeepMode(s=top, depth=2.0, tau=1.0)
    times = law.learning_time()
    for k in range(2):
        assert float(grown(times[k], 1e-2)["a"][k]) == pytest.approx(float(top[k] / 2), rel=1e-10)
    assert (LAW([3.0], 100.0, 50.0, 100.0).learning_time() == 0).all()
    assert (LAW([3.0], 100.0, 50.0, 0.45 * top[0]).learning_time() > 0).all()
    assert (LAW([3.0], 100.0, 50.0, 0.55 * top[0]).learning_time() == 0).all()


@pytest.mark.exhaustive
def test_the_time_to_stop_is_where_the_error_is_least():
    law = LAW([3.0], 100.0, 50.0, 1e-3)
    best = law.optimal_stopping_time()
    t = best * np.geomspace(0.1, 10, 801)
    assert best == pytest.approx(t[np.argmin(law.test_error(t))], rel=1e-2)
    assert float(law.test_error(best)) <= float(np.min(law.test_error(t))) * (1 + 1e-12)
    assert LAW([0.1], 100.0, 50.0, 1e-3).optimal_stopping_time() == 0  # nothing is learned but noise


@pytest.mark.parametrize("aspect", quick([0.4, 2.5], 1))
def test_overlaps_of_drawn_matrices(aspect):
    rng, n, s, count = np.random.default_rng(0), 300, np.array([0.6, 2.0]), 40
    m, drawn = round(aspect * n), []
    for _ in range(count):
        W = rng.normal(size=(m, n)) / np.sqrt(n)
        W[0, 0] += s[0]
        W[1, 1] += s[1]
        left, values, right = np.linalg.svd(W, full_matrices=False)
        products = sum(s[k] * left[k] * right[:, k] for k in range(2))
        drawn.append([values[0], s[1] * left[1, 0] * right[0, 1], np.sum(products[1:] * values[1:] ** 2)])
    values, weights = bulk_overlap(np, s, np.array(aspect))
    expected = [spike(np, s, np.array(aspect))[1][1], s[1] * overlap(np, s, np.array(aspect))[1]]
    expected.append(np.sum(weights * values**2))
    error = np.std(drawn, axis=0, ddof=1) / np.sqrt(count)
    z = (np.mean(drawn, axis=0) - expected) / error
    assert np.max(np.abs(z)) <= 4, z


def test_raw_weights_follow_the_modes():
    """Two layers that start aligned with the noisy matrix, integrated as weights, have the errors of a draw."""
    law, t = LAW([2.0], 8.0, 5.0, 0.05), np.array([0.0, 0.7, 2.0, 6.0])
    rng = np.random.default_rng(4)
    test, train = law.sample_errors(np.random.default_rng(4), 1, t)
    teacher = np.zeros((5, 8))
    teacher[0, 0] = 2.0
    noisy = teacher + rng.normal(size=(5, 8)) / np.sqrt(8)
    left, _, right = np.linalg.svd(noisy, full_matrices=False)
    weights = [np.sqrt(0.05) * right, np.sqrt(0.05) * left]
    path = follow(weights, noisy, t, rtol=1e-11)
    map_ = path[1] @ path[0]
    assert np.sum((map_ - teacher) ** 2, axis=(1, 2)) == pytest.approx(test[0], rel=1e-7)
    assert np.sum((map_ - noisy) ** 2, axis=(1, 2)) == pytest.approx(train[0], rel=1e-7, abs=1e-10)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.quick(1)
def test_the_law_holds(seed):
    report = ls.verify(LAW.example(np.random.default_rng(seed)))
    assert report.ok, str(report)


def test_bad_arguments_are_named():
    cases = [
        (lambda: LAW([0.0], 10, 10), r"GeneralizationOfAlignedStudent: strengths = 0.0 at index \(0,\) must lie in"),
        (lambda: LAW([1.0], 0, 10), r"inputs = 0.0 must lie in \[1, 1e12\] \(number of inputs and samples\)"),
        (lambda: LAW([1.0], 10, -1), r"outputs = -1.0 must lie in \[1, 1e12\]"),
        (lambda: LAW([1.0], 10, 10, 0.0), r"start = 0.0 must lie in \[1e-30, 1e30\]"),
        (lambda: LAW([1.0], 10, 10, 0.1, 0.5), r"depth = 0.5 must lie in \[1, 100\]"),
        (lambda: LAW([1.0], 10, 10).test_error(-1.0), r"test_error: t = -1.0 must lie in \[0, inf\]"),
        (lambda: LAW([1.0], 10.5, 10).sample(np.random.default_rng(0), 2), r"inputs = 10.5 must be a whole number"),
        (lambda: LAW([1.0] * 3, 10, 2).sample(np.random.default_rng(0), 2), r"strengths has 3 entries but"),
    ]  # fmt: skip
    for call, message in cases:
        with pytest.raises(ValueError, match=message):
            call()


def test_shares_of_several_outputs_and_of_training_samples_are_refused():
    several, one = LAW([3.0], inputs=60, outputs=30), LAW([3.0], inputs=60, outputs=1)
    for call in (lambda: several.accuracy(5.0, 1.0), lambda: one.train_accuracy(5.0, 1.0)):
        with pytest.raises(ls.NotExact, match=r"use t(est|rain)_error"):
            call()
    assert 0 < one.accuracy(5.0, 1.0) < 1
    with pytest.raises(ValueError, match="strengths has 8 entries but at most 5 fit"):
        LAW([3.0] * 8, inputs=5, outputs=5)
