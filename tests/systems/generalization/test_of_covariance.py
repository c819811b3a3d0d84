"""Deterministic equivalents: contour integrals of 50 digits, limits, equal variances, sampled networks, arguments."""

import mpmath
import numpy as np
import pytest
from selection import quick

import linsolve as ls
from linsolve.systems.generalization.deterministic_equivalents import Equivalents

LAW = ls.laws.GeneralizationOfCovariance
VALUES, COUNTS, POWERS = (2.0, 0.5, 0.125), (3, 5, 4), (0.25, 0.5, 1.0)

mp = mpmath.MPContext()
mp.dps = 50


def kappa(p, samples):
    """Return kappa at p: the root of the polynomial of the self-consistent equation on the physical sheet."""
    factors = [[mp.mpf(1), mp.mpf(v)] for v in VALUES]

    def product(polynomials):
        found = [mp.mpf(1)]
        for each in polynomials:
            found = [
                sum((found[i] * each[k - i] for i in range(len(found)) if 0 <= k - i < len(each)), mp.mpf(0))
                for k in range(len(found) + len(each) - 1)
            ]
        return found

    whole = product(factors)
    total = [a - p * b for a, b in zip([*whole, mp.mpf(0)], [mp.mpf(0), *whole], strict=True)]
    for k, (v, m) in enumerate(zip(VALUES, COUNTS, strict=True)):
        part = product([[mp.mpf(m) * v / samples, mp.mpf(0)], *factors[:k], *factors[k + 1 :]])
        total = [a - b for a, b in zip(total, [mp.mpf(0)] * (len(total) - len(part)) + part, strict=True)]
    roots = mp.polyroots(total, maxsteps=500, extraprec=200)
    sizes = [sum(m * v**2 / abs(v + r) ** 2 for v, m in zip(VALUES, COUNTS, strict=True)) for r in roots]
    return roots[min(range(len(roots)), key=lambda k: sizes[k])]


def contour(samples):
    """Return nodes and steps of an ellipse around the spectrum, and kappa at the nodes."""
    count, center, half = 160, mp.mpf(-3), mp.mpf("3.6")
    angles = [2 * mp.pi * (k + mp.mpf(1) / 2) / count for k in range(count)]
    nodes = [center + half * mp.cos(a) + 1j * 3 * mp.sin(a) for a in angles]
    steps = [(-half * mp.sin(a) + 3j * mp.cos(a)) / count / 1j for a in angles]
    upper = [kappa(p, samples) for p in nodes[: count // 2]]
    return nodes, steps, [*upper, *(mp.conj(each) for each in reversed(upper))]


def errors(samples, t, noise, nodes, steps, k):
    """Return test and train error, without label noise on new samples, by the trapezoidal rule."""
    modes = list(zip(VALUES, COUNTS, POWERS, strict=True))
    ratio = [w * mp.exp(p * t) * c / p for w, p, c in zip(steps, nodes, k, strict=True)]
    test = mp.mpf(0)
    for a, c in list(zip(ratio, k, strict=True))[: len(k) // 2]:
        for b, e in zip(ratio, k, strict=True):
            shared = [(v, m, f, 1 / ((v + c) * (v + e))) for v, m, f in modes]
            overlap = 1 - sum(m * v**2 * g for v, m, _, g in shared) / samples
            test += a * b * sum(m * f * v * g for v, m, f, g in shared) / overlap
    fitted = sum(-w * (1 - mp.exp(p * t)) ** 2 / p * (c / p - 1) for w, p, c in zip(steps, nodes, k, strict=True))
    decay = [w * mp.exp(2 * p * t) for w, p in zip(steps, nodes, strict=True)]
    train = -sum(w * c * sum(m * f / (v + c) for v, m, f in modes) for w, c in zip(decay, k, strict=True))
    left = sum(w / c for w, c in zip(decay, k, strict=True))
    return 2 * mp.re(test) + mp.re(noise * fitted), mp.re(train + noise * left)


def law(samples, noise):
    spread = [np.repeat(each, COUNTS) for each in (VALUES, POWERS)]
    return LAW(spread[0], samples, spread[1], noise)


@pytest.mark.parametrize("t", quick([0.05, 4.0], 1))
@pytest.mark.parametrize("samples", quick([7.0, 30.0, 13.5], 1))
def test_curves_are_those_of_fifty_digits(samples, t):
    """The contour of the check is an ellipse, and kappa a root of a polynomial."""
    around = contour(mp.mpf(samples))
    test, train = errors(mp.mpf(samples), mp.mpf(t), mp.mpf("0.25"), *around)
    found = law(samples, 0.25)
    assert abs(float((float(found.test_mean(np, np.array(t))) - test) / test)) <= 1e-12
    assert abs(float((float(found.train_error(t)) - train) / train)) <= 1e-12


@pytest.mark.parametrize("sizes", quick([(0.7, 0.25), (1.0, 0.0), (0.0, 1.0)], 1))
@pytest.mark.parametrize("gamma", quick([1.0, 0.4, 2.5, 0.1, 0.9, 1.1, 10.0], 1))
def test_equal_variances_are_the_isotropic_law(gamma, sizes):
    t = np.array([1e-3, 0.1, 1.0, 5.0, 30.0])
    isotropic = ls.laws.GeneralizationInTime(50.0, 50 / gamma, sizes[0], 0.0, sizes[1])
    found = LAW(np.ones(50), 50 / gamma, np.full(50, sizes[0] / 50), sizes[1])
    assert found.test_error(t) == pytest.approx(isotropic.test_error(t), rel=1e-12)
    assert found.train_error(t) == pytest.approx(isotropic.train_error(t), rel=1e-12)
    if sizes[1] == 0 or gamma != 1:
        assert float(found.test_error(np.inf)) == pytest.approx(float(isotropic.test_error(np.inf)), rel=1e-13)
    assert float(found.train_error(np.inf)) == pytest.approx(float(isotropic.train_error(np.inf)), rel=1e-13)
    assert found.floor() == pytest.approx(float(isotropic.floor()), rel=1e-13, abs=1e-300)
    if all(sizes):
        stop = float(isotropic.optimal_stopping_time())
        assert found.optimal_stopping_time() == pytest.approx(stop, rel=1e-6)
    assert LAW(np.ones(50), 50.0, np.ones(50), 0.1).test_error(np.inf) == np.inf


@pytest.mark.exhaustive
def test_the_units_of_inputs_and_time_are_exchangeable():
    one = LAW([2.0, 1.0, 0.5], 2.0, [0.1, 0.2, 0.3], 0.25)
    other = LAW([2e-6, 1e-6, 0.5e-6], 2.0, [1e5, 2e5, 3e5], 0.25)
    t = np.array([0.0, 0.4, 7.0, np.inf])
    assert other.test_error(1e6 * t) == pytest.approx(one.test_error(t), rel=1e-12)
    assert other.optimal_stopping_time() == pytest.approx(1e6 * one.optimal_stopping_time(), rel=1e-6)
    idle = LAW([2.0, 0.0, 1.0, 0.5], 2.0, [0.1, 9.0, 0.2, 0.3], 0.25)
    assert idle.test_error(t).tolist() == one.test_error(t).tolist()


@pytest.mark.parametrize("samples", [120.0, 400.0])
@pytest.mark.quick(1)
@pytest.mark.exhaustive
def test_late_curves_reach_their_limits_over_many_decades_of_the_spectrum(samples):
    found = LAW(np.logspace(0, -10, 300), samples, np.full(300, 0.01), 0.1)
    for curve in (found.test_error, found.train_error):
        values = curve([1e11, 1e13])
        assert values[1] == pytest.approx(float(curve(np.inf)), rel=1e-4)
    k = Equivalents(np.logspace(0, -10, 300), samples)
    late = k.residual_signal(np.array([1e13]), np.ones(300))
    assert 0 <= late[0] <= 1e-10


SIZES = [(100, 300), (400, 40)]


@pytest.mark.parametrize("power", [0.5, 1.0])
@pytest.mark.parametrize("size", quick(SIZES, 1))
@pytest.mark.quick(1)
@pytest.mark.exhaustive
def test_sampled_networks_are_within_four_standard_errors(size, power):
    d, count = size
    rank = np.arange(1.0, d + 1)
    for ratio in (0.5, 1.0, 2.0):
        found, t = LAW(rank**-power, round(ratio * d), rank**-0.5 / d, 0.05), np.array([0.0, 0.5, 3.0, 30.0])
        drawn = found.sample_errors(np.random.default_rng(d), count, t)
        for values, expected in zip(drawn, (found.test_error(t) - 0.05, found.train_error(t)), strict=True):
            z = (values.mean(axis=0) - expected) / (values.std(axis=0, ddof=1) / np.sqrt(count))
            assert np.max(np.abs(z)) <= 4, (ratio, z)


def test_bad_arguments_are_named():
    cases = [
        (lambda: LAW([1.0, -1.0], 2.0, [1.0, 1.0]), r"GeneralizationOfCovariance: variances = -1.0 at index"),
        (lambda: LAW([0.0, 0.0], 2.0, [1.0, 1.0]), r"variances = 0 must have an entry above 0"),
        (lambda: LAW([1.0, 2.0], 0.0, [1.0, 1.0]), r"samples = 0.0 must lie in"),
        (lambda: LAW([1.0, 2.0], 2.0, [1.0, 1.0, 1.0]), r"signal"),
        (lambda: LAW([[1.0, 2.0]], 2.0, [1.0, 1.0]), r"variances has shape \(1, 2\) but must have axes"),
        (lambda: LAW([1.0], [2.0, 3.0], [1.0]), r"samples has shape \(2,\) but must have no axes"),
        (lambda: LAW([1.0], 2.0, [1.0], -0.1), r"noise_variance = -0.1 must lie in"),
        (lambda: LAW([1.0], 2.0, [1.0]).test_error(-1.0), r"GeneralizationOfCovariance.test_error: t = -1.0 must"),
        (lambda: LAW([1.0], 2.5, [1.0]).sample(np.random.default_rng(0), 2), r"samples = 2.5 must be a whole number"),
    ]  # fmt: skip
    for call, message in cases:
        with pytest.raises(ValueError, match=message):
            call()


def test_very_early_and_very_late_times_have_the_limits():
    for samples in (2.0, 5.0):
        found = LAW([1.0, 0.5, 0.1], samples, [1.0, 1.0, 1.0], 0.1)
        for curve in (found.test_error, found.train_error):
            early, late = curve([0.0, 1e-300, 1e-20, 1e-9]), curve([1e10, 1e30, np.inf])
            assert early == pytest.approx(np.full(4, 1.7), rel=1e-8)
            assert late == pytest.approx(np.full(3, float(late[2])), rel=1e-12, abs=1e-300)


def test_the_time_to_stop_of_inputs_of_any_size():
    variances, signal = np.array([1.0, 0.5, 0.2]), np.ones(3)
    one = ls.laws.GeneralizationOfCovariance(variances, 9, signal, 0.1).optimal_stopping_time()
    small = ls.laws.GeneralizationOfCovariance(1e-305 * variances, 9, signal, 1e-306)
    assert small.optimal_stopping_time() == pytest.approx(1e305 * one, rel=1e-6)
    assert ls.laws.GeneralizationOfCovariance(2e-308 * variances, 9, signal, 0.0).optimal_stopping_time() == np.inf
    with pytest.raises(OverflowError, match=r"variances = 5.67e-308 on average .* measure them in smaller units"):
        ls.laws.GeneralizationOfCovariance(1e-307 * variances, 9, signal, 1e-308).optimal_stopping_time()
