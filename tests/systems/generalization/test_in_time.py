"""The law of generalization in time: kernels and curves to 50 digits, identities, limits, sampled networks, mutants."""

import numpy as np
import pytest
from density import errors, kernels, mp
from mutants.generalization import LAWS
from selection import quick

import linsolve as ls
from linsolve import arithmetic
from linsolve.numerics.quadrature import legendre
from linsolve.systems.generalization.marchenko_pastur import bulk, mean_decay, weighted_decay
from linsolve.systems.generalization.raw_weights import flowed

LAW = ls.laws.GeneralizationInTime
XP = arithmetic.precise(50)
ONE = np.array(1.0)
RATIOS = (1.0, 2.5, 0.4, 1e-4, 1e4, 0.999, 1 + 1e-9, 0.01, 100.0)


def relative(found, exact):
    return abs(float((mp.mpf(float(found)) - exact) / exact))


# kernels


@pytest.mark.parametrize("gamma", quick(RATIOS, 1))
def test_kernels_are_those_of_fifty_digits(gamma):
    ratio = np.array(gamma)
    for tau in np.array([0.1, 30.0, 1e4]):
        survival, weighted = kernels(gamma, tau)
        if weighted > 1e-60:
            assert relative(bulk(np, ratio, ONE, tau).decayed(np, tau, 1.0), survival) <= 1e-14, tau
            assert relative(weighted_decay(np, ratio, ONE, tau), weighted) <= 1e-14, tau


@pytest.mark.parametrize("gamma", [0.4, 1.0, 2.5])
def test_values_and_times_over_sixty_decades(gamma):
    """K against Bessel functions of 50 digits: values of 1 to 1e-60, or, at gamma = 1, times of 1e-30 to 1e30."""
    last = 30 if gamma == 1 else np.log10(140 / (1 - np.sqrt(gamma)) ** 2)
    for tau in np.logspace(-30, last, 61):
        z = 2 * mp.sqrt(gamma) * mp.mpf(tau)
        scaled = mp.besseli(1, z) * mp.exp(-z) if z < 1e6 else asymptotic(z)
        exact = 2 * scaled / z * mp.exp(-((1 - mp.sqrt(gamma)) ** 2) * mp.mpf(tau))
        assert relative(weighted_decay(np, np.array(gamma), ONE, np.array(tau)), exact) <= 1e-14, tau


def asymptotic(z):
    """Return ``exp(-z) I_1(z)`` at large z."""
    terms = [mp.mpf(1)]
    for k in range(1, 9):
        terms.append(-terms[-1] * (4 - (2 * k - 1) ** 2) / (8 * k * z))
    return mp.fsum(terms) / mp.sqrt(2 * mp.pi * z)


@pytest.mark.parametrize("gamma", [0.25, 1.0, 2.5])
@pytest.mark.exhaustive  # more digits of what is compared with quadrature above
def test_the_kernels_are_bessel_functions_and_skellam_probabilities(gamma):
    ratio, one = XP.asarray(gamma), XP.asarray(1.0)
    for tau in (0.5, 6.0):
        z, outer = 2 * mp.sqrt(gamma) * tau, mp.exp(-(1 + mp.mpf(gamma)) * tau)
        survival, weighted = (f(XP, ratio, one, XP.asarray(tau)).item() for f in (mean_decay, weighted_decay))
        assert abs(weighted - outer * mp.besseli(1, z) * 2 / z) <= 1e-45
        mass = {k: outer * mp.mpf(gamma) ** (mp.mpf(k) / 2) * mp.besseli(abs(k), z) for k in range(120)}
        skellam = mp.fsum(mass.values()) - mp.fsum(v for k, v in mass.items() if k >= 2) / gamma
        assert abs(survival - skellam) <= 1e-45
        if gamma == 1:
            assert abs(survival - mp.exp(-z) * (mp.besseli(0, z) + mp.besseli(1, z))) <= 1e-45


@pytest.mark.parametrize("gamma", [2.5, 1.0])
@pytest.mark.exhaustive  # of two functions that are compared with fifty digits above
def test_the_derivative_of_one_kernel_is_the_other(gamma):
    ratio, one, h = XP.asarray(gamma), XP.asarray(1.0), mp.mpf(10) ** -12
    survival = [mean_decay(XP, ratio, one, XP.asarray(2 + k * h)).item() for k in (-2, -1, 1, 2)]
    slope = (survival[0] - 8 * survival[1] + 8 * survival[2] - survival[3]) / (12 * h)
    assert abs(slope + weighted_decay(XP, ratio, one, XP.asarray(2.0)).item()) <= 1e-36


@pytest.mark.parametrize("gamma", [0.4, 1.0, 2.5])
@pytest.mark.quick(1)
@pytest.mark.exhaustive
def test_the_kernel_is_the_busy_period_of_a_queue(gamma):
    """The Laplace transform solves ``B = 1/(1 + s + gamma - gamma B)``; and a queue is simulated."""
    found = bulk(XP, XP.asarray(gamma), XP.asarray(1.0), XP.asarray(0.0))
    for s in (0.3, 5.0):
        transform = found.mean(XP, found.values / (found.values + s)).item()
        assert abs(transform * (1 + mp.mpf(s) + gamma - gamma * transform) - 1) <= 1e-45
    rng, count, tau = np.random.default_rng(0), 4000, 3.0
    waiting, time, busy = np.ones(count), np.zeros(count), np.ones(count, dtype=bool)
    while (going := busy & (time < tau)).any():
        time[going] += rng.exponential(1 / (1 + gamma), going.sum())
        moved = going & (time < tau)
        waiting[moved] += np.where(rng.random(moved.sum()) < gamma / (1 + gamma), 1, -1)
        busy &= waiting > 0
    expected = float(mean_decay(np, np.array(gamma), ONE, np.array(tau)))
    assert abs(busy.mean() - expected) <= 4 * np.sqrt(expected * (1 - expected) / count)


# curves


@pytest.mark.parametrize("gamma", quick(RATIOS, 1))
def test_curves_are_those_of_fifty_digits(gamma):
    law = LAW(gamma, 1.0, 0.7, 0.3, 0.25)
    for t in (1.0, 1e8):
        test, train = errors(gamma, t, mp.mpf(0.7) + mp.mpf(0.3), 0.25)
        assert relative(law.test_error(t), test) <= 1e-12, t
        found = law.train_error(t)
        assert found == 0 if train < 1e-320 else relative(found, train) <= 1e-12, t


@pytest.mark.parametrize("gamma", [0.4, 1.0, 2.5])
def test_the_curves_are_the_closed_forms_of_the_kernels(gamma):
    ratio, size, noise = np.array(gamma), 0.75, 0.125
    law, t = LAW(gamma, 1.0, 0.5, 0.25, noise), np.array([0.1, 1.5, 9.0])
    nodes, weights = legendre(np, 60)
    inner = mean_decay(np, ratio, ONE, t[:, None] * nodes) - mean_decay(np, ratio, ONE, 2 * t[:, None] * nodes)
    survival = mean_decay(np, ratio, ONE, 2 * t)
    test = size * survival + noise * (1 + 2 * gamma * t * (inner @ weights))
    train = size * weighted_decay(np, ratio, ONE, 2 * t) + noise * (1 + gamma * (survival - 1))
    assert law.test_error(t) == pytest.approx(test, rel=1e-13)
    assert law.train_error(t) == pytest.approx(train, rel=1e-13)


def test_limits_in_time_and_in_the_ratio():
    for gamma in (1e-4, 0.4, 2.5, 1e4):
        law = LAW(gamma, 1.0, 0.7, 0.3, 0.25)
        excess = 0.25 * gamma / (1 - gamma) if gamma < 1 else 0.25 / (gamma - 1)
        end = max(0.0, 1 - 1 / gamma) + 0.25 + excess
        assert float(law.test_error(np.inf)) == pytest.approx(end, rel=1e-12)
        assert float(law.test_error(1e200)) == pytest.approx(end, rel=1e-12)
        assert float(law.train_error(np.inf)) == pytest.approx(0.25 * max(0.0, 1 - gamma), rel=1e-12)
        assert float(law.floor()) == max(0.0, (gamma - 1) / gamma)
        for error in (law.test_error, law.train_error):
            assert float(error(0.0)) == pytest.approx(1.25, rel=1e-13)
        drop = (float(law.test_error(1e-9 / gamma)) - 1.25) / (1e-9 / gamma)
        assert drop == pytest.approx(-2.0, rel=1e-5 * max(gamma, 1 / gamma) ** 0.5)
    law, t = LAW(1.0, 1.0, 1.0, 0.0, 0.25), 1e8
    growth = 1 / np.sqrt(2 * np.pi * t) + 0.25 + 2 * (2 - np.sqrt(2)) * 0.25 * np.sqrt(t / np.pi)
    assert float(law.test_error(t)) == pytest.approx(growth, rel=1e-3)
    assert float(law.test_error(np.inf)) == np.inf
    assert float(LAW(1.0, 1.0).test_error(np.inf)) == 0
    assert float(LAW(1.0, 1.0).test_error(1e12)) == pytest.approx(1 / np.sqrt(2 * np.pi * 1e12), rel=1e-10)
    assert float(law.train_error(np.inf)) == 0


def test_parameters_and_times_broadcast():
    law = LAW(np.array([40.0, 100.0, 250.0]), 100.0, noise_variance=np.array([[0.0], [0.25]]))
    t = np.array([[0.5, 1.0], [2.0, np.inf]])
    found = law.test_error(t)
    assert found.shape == (2, 2, 2, 3)
    assert float(found[1, 0, 1, 2]) == float(LAW(250.0, 100.0, noise_variance=0.25).test_error(2.0))
    assert law.optimal_stopping_time().shape == (2, 3)


# accuracy and optimal stopping


def test_the_accuracy_of_the_cases_on_record():
    law = LAW(dimension=1000, samples=500)
    assert law.accuracy([0.0, np.inf], 1e-3) == pytest.approx([0.02522712, 0.03567059], abs=1e-7)
    for x in (1e-9, 0.3, 2.0, 6.0):
        law = LAW(1.0, 10.0, signal=1.0)
        assert float(law.accuracy(0.0, 2 * x**2)) == pytest.approx(float(mp.erf(x)), rel=1e-14)
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(100, 150))
    teacher = rng.normal(size=150) / np.sqrt(150)
    weights = flowed(inputs, inputs @ teacher, np.zeros(150), np.array([1.0]))[0]
    right = (rng.normal(size=(20_000, 150)) @ (weights - teacher)) ** 2 <= 0.1
    law = LAW(150, 100)
    spread = float(law.test_error_std(1.0) / law.test_error(1.0)) / 2
    assert abs(right.mean() / float(law.accuracy(1.0, 0.1)) - 1) <= 4 * spread
    kept = (inputs @ (weights - teacher)) ** 2 <= 0.1
    assert abs(kept.mean() - float(law.train_accuracy(1.0, 0.1))) <= 4 * 0.5 / np.sqrt(100)


def test_the_optimal_stopping_time_is_where_the_error_is_least():
    law = LAW(np.array([160.0, 400.0, 800.0]), 400.0, noise_variance=0.25)
    best = law.optimal_stopping_time()
    assert best == pytest.approx([4.318254, 2.465107, 1.118578], abs=1e-6)
    for k, gamma in enumerate((0.4, 1.0, 2.0)):
        t = np.array(best[k])
        turn = 0.25 * gamma * (mean_decay(np, np.array(gamma), ONE, t) - mean_decay(np, np.array(gamma), ONE, 2 * t))
        assert float(turn) == pytest.approx(float(weighted_decay(np, np.array(gamma), ONE, 2 * t)), rel=1e-13)
        times = best[k] * np.geomspace(1e-3, 1e3, 2001)  # the derivative changes its sign once
        curve = LAW(400 * gamma, 400, noise_variance=0.25).test_error(times)
        assert np.all(np.diff(curve[:1001]) <= 0)
        assert np.all(np.diff(curve[1000:]) >= -1e-15)
    ends = LAW(400.0, 400.0, np.array([1.0, 0.0, 1.0]), 0.0, np.array([0.0, 0.5, 1e-9])).optimal_stopping_time()
    assert ends[0] == np.inf
    assert ends[1] == 0
    assert np.isfinite(ends[2])


# sampled networks


def test_the_simulated_weights_are_those_of_the_flow():
    rng = np.random.default_rng(0)
    for n, d in ((7, 5), (5, 7)):
        X, start = rng.normal(size=(n, d)), rng.normal(size=d)
        y, t = rng.normal(size=n), np.array([0.0, 0.5, 4.0])
        traj = ls.solve([start[None]], (X, y), t)
        assert np.abs(traj["map"][:, 0] - flowed(X, y, start, t)).max() <= 1e-7
        before, after = (flowed(X, y, start, np.array([s]), 0.3)[0] for s in (1 - 1e-5, 1 + 1e-5))
        now = flowed(X, y, start, np.array([1.0]), 0.3)[0]
        assert (after - before) / 2e-5 == pytest.approx(-X.T @ (X @ now - y) / n - 0.3 * now, abs=1e-8)


@pytest.mark.parametrize("seed", range(2))
def test_the_law_holds(seed):
    report = ls.verify(LAW.example(np.random.default_rng(seed)))
    assert report.ok, str(report)


TIMES = np.array([0.0, 0.3, 1.0, 3.0, 10.0])
SIZES = [(100, 200), (400, 60), (1600, 12)]


def draws(gamma, d, count):
    law = LAW(d, round(d / gamma), 1.0, 0.0, 0.25)
    return law, law.sample_errors(np.random.default_rng(d), count, TIMES)


@pytest.mark.parametrize("gamma", [0.4, 1.0, 2.5])
@pytest.mark.parametrize("size", quick(SIZES, 1))
@pytest.mark.quick(1)
def test_sampled_networks_are_within_four_standard_errors(gamma, size):
    d, count = size
    law, (test, train) = draws(gamma, d, count)
    z = (test.mean(axis=0) + 0.25 - law.test_error(TIMES)) / (law.test_error_std(TIMES) / np.sqrt(count))
    assert np.max(np.abs(z)) <= 4, z
    early = slice(4)  # later the train error is exponentially small, and given by the least eigenvalues
    z = (train.mean(axis=0) - law.train_error(TIMES)) / (law.train_error_std(TIMES) / np.sqrt(count))
    assert np.max(np.abs(z[early])) <= 4, z
    ratio = test.std(axis=0, ddof=1) / law.test_error_std(TIMES)  # the fluctuation falls as 1/sqrt(d)
    assert np.max(np.abs(ratio - 1)) <= 4 / np.sqrt(2 * count), ratio


def test_the_fluctuation_is_proportional_to_one_over_the_root_of_the_dimension():
    for gamma in (0.4, 1.0, 2.5):
        small, large = (LAW(d, d / gamma, noise_variance=0.25) for d in (100.0, 1600.0))
        for name in ("test_error_std", "train_error_std"):
            assert getattr(small, name)(TIMES) / getattr(large, name)(TIMES) == pytest.approx(4.0, rel=1e-12)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.quick(2)
def test_each_mutant_is_rejected_by_the_check_that_should_see_it(name):
    mutant = LAWS[name]
    report = ls.verify(mutant.law.example(np.random.default_rng(mutant.seed)))
    assert any(each.startswith(mutant.seen_by) for each in report.failed), str(report)


# arguments


def test_bad_arguments_are_named():
    cases = [
        (lambda: LAW(0, 10), r"GeneralizationInTime: dimension = 0.0 must lie in \(0, inf\) \(number of inputs\)"),
        (lambda: LAW(10, -1), r"GeneralizationInTime: samples = -1.0 must lie in \(0, inf\)"),
        (lambda: LAW(10, 10, noise_variance=-0.1), r"noise_variance = -0.1 must lie in \[0, inf\)"),
        (lambda: LAW(10, 10).test_error(-1.0), r"GeneralizationInTime.test_error: t = -1.0 must lie in \[0, inf\]"),
        (lambda: LAW(10, 10).accuracy(1.0, 0.0), r"accuracy: threshold = 0.0 must lie in \(0, inf\)"),
        (lambda: LAW(10, 10).accuracy(1.0, [0.1, 0.2]), r"accuracy: threshold has shape \(2,\) but must be one number"),
        (lambda: LAW(10, 10).train_error(1e260), r"train_error: t = 1e\+260 must be at most 1e\+250 \(time\); say inf"),
        (lambda: LAW([1.0, 2.0], [1.0, 2.0, 3.0]), r"dimension \(2,\), samples \(3,\) do not broadcast"),
        (lambda: LAW([5.0, 6.0], 2).sample(np.random.default_rng(0), 2), r"sample: dimension has shape \(2,\)"),
        (lambda: LAW(10.5, 10).sample(np.random.default_rng(0), 2), r"dimension = 10.5 must be a whole number"),
    ]  # fmt: skip
    for call, message in cases:
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(OverflowError, match="optimal_stopping_time: noise_variance of magnitude 1e-260"):
        LAW(10, 10, noise_variance=1e-260).optimal_stopping_time()
