"""Laws of streaming SGD: exact averages of raw steps, sampled runs, stability, the typical run, mutants."""

import mpmath
import numpy as np
import pytest
from exact_step import squares_after
from mutants.streaming import LAWS

import linsolve as ls
from linsolve import arithmetic
from linsolve.systems.streaming_sgd.stream import losses
from linsolve.systems.streaming_sgd.typical import log_rate

ISOTROPIC, ANISOTROPIC = ls.laws.StreamingSGD, ls.laws.StreamingSGDAnisotropic
XP = arithmetic.precise(50)
DRAWS = 100_000


def anisotropic(m=2, step=0.3, spectrum=(1.5, 0.5), squares=(1.0, 0.25), noise=0.5, xp=np):
    values = (xp.asarray(v) for v in (m, step, np.array(spectrum), np.array(squares), noise))
    return ANISOTROPIC(*values)


# raw steps, averaged exactly


@pytest.mark.parametrize(
    ("m", "spectrum", "starts"),
    [
        (1, (1.5,), [(0.75,), (-2.0,)]),
        (2, (0.5,), [(1.25,), (0.5,)]),
        (1, (1.5, 0.25), [(0.5, -1.0), (1.5, 0.25)]),
        pytest.param(3, (2.0,), [(1.0,), (-0.5,)], marks=pytest.mark.exhaustive),
        pytest.param(2, (1.5, 0.25), [(0.5, -1.0), (1.5, 0.25)], marks=pytest.mark.exhaustive),
        pytest.param(1, (1.5, 0.5, 0.25), [(0.5, -1.0, 2.0), (1.5, 0.25, 0.5)], marks=pytest.mark.exhaustive),
    ],
)
def test_one_step_equals_the_average_over_all_inputs_to_fifty_digits(m, spectrum, starts):
    step, noise = 0.3125, 0.75
    law = anisotropic(m, step, spectrum, np.ones(len(spectrum)), noise, XP)
    after = [squares_after(spectrum, start, m, step, noise) for start in starts]
    squares = XP.asarray(np.array(starts)) ** 2
    c, second = XP.sum(squares, axis=0) / 2, XP.sum(squares[:, :, None] * squares[:, None], axis=0) / 2
    found, covariance = law.modes(XP, c), law.covariance(XP, c, second - c[:, None] * c)
    means = (XP.asarray(after[0][0]) + XP.asarray(after[1][0])) / 2
    fourth = (XP.asarray(after[0][1]) + XP.asarray(after[1][1])) / 2
    assert float(XP.max(XP.abs(found - means))) <= 1e-45
    assert float(XP.max(XP.abs(covariance + found[:, None] * found - fourth))) <= 1e-45


def test_the_isotropic_law_is_the_anisotropic_one_to_forty_five_digits():
    k = np.array([0, 1, 2, 7, 20])
    values = [XP.asarray(v) for v in (3, 0.25, 4, 0.375, 1.5, 0.75)]
    same = anisotropic(3, 0.25, (0.75,) * 4, (0.5, 0.25, 0.75, 0.0), 0.375, XP)
    law = ISOTROPIC(*values)
    for name in ("mean", "std"):
        one, other = getattr(law, name)(k), getattr(same, name)(k)
        assert float(XP.max(XP.abs(one - other))) <= 1e-45, name
    assert float(same.cast(np).largest_step()) == pytest.approx(float(law.cast(np).largest_step()), rel=1e-14)
    assert float(same.cast(np).stationary_mean()) == pytest.approx(float(law.cast(np).stationary_mean()), rel=1e-13)


def test_powers_of_many_steps_keep_their_digits():
    k = np.array([0, 1, 3, 1000, 10**6, 10**15])
    for step in (1e-3, 1e-14, 0.14545454):  # fast, so slow that it still descends at the end, next to divergence
        values = (4, step, 50, 0.25, 1.0, 1.0)
        law, fine = ISOTROPIC(*values), ISOTROPIC(*(XP.asarray(v) for v in values))
        for name in ("mean", "std"):
            exact = arithmetic.to_numpy(getattr(fine, name)(k[: 6 if step < 0.1 else 4]))
            found = getattr(law, name)(k[: len(exact)])
            assert np.all(np.abs(found - exact) <= 1e-12 * exact), (step, name)
    assert law.mean(7).shape == ()
    assert law.std([[1, 2], [3, 4]]).shape == (2, 2)


# sampled runs of the weights

SPECTRA = {"equal": np.ones(6), "powers": np.arange(1, 9) ** -1.5, "two scales": np.array([2.0, 2.0, 0.1, 0.1, 0.1])}


def scores(law, k, count, seed=0):
    """Return the z-scores of mean and variance of sampled losses."""
    found, mean, variance = losses(np.random.default_rng(seed), count, law, k), law.mean(k), law.std(k) ** 2
    spread = (found - mean) ** 2
    return [
        (drawn.mean(axis=0) - value) / (drawn.std(axis=0) / np.sqrt(count))
        for drawn, value in ((found, mean), (spread, variance))
    ]


@pytest.mark.parametrize("noise", [0.0, 0.4])
@pytest.mark.parametrize("m", [2, pytest.param(8, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.exhaustive] * (n != "equal")) for n in SPECTRA])
@pytest.mark.quick(1)
@pytest.mark.exhaustive
def test_mean_and_spread_of_a_hundred_thousand_runs(name, m, noise):
    spectrum = SPECTRA[name]
    parameters = {"batch": m, "noise_variance": noise, "spectrum": spectrum, "distances_squared": 1 + spectrum}
    longest = float(ANISOTROPIC(step=1.0, **parameters).largest_step())
    law = ANISOTROPIC(step=0.2 * longest, **parameters)
    z = scores(law, (1, 2, 5, 12), DRAWS)
    assert np.max(np.abs(z)) <= 4, z
    if name == "equal":
        same = ISOTROPIC(m, 0.2 * longest, 6, noise, 12.0)
        z = scores(same, (1, 2, 5, 12), DRAWS, seed=1)
        assert np.max(np.abs(z)) <= 4, z


@pytest.mark.parametrize("cls", [ISOTROPIC, ANISOTROPIC])
@pytest.mark.parametrize("seed", range(3))
def test_laws_hold(cls, seed):
    report = ls.verify(cls.example(np.random.default_rng(seed)))
    assert report.ok, str(report)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.quick(2)
def test_each_mutant_is_rejected_by_the_check_that_should_see_it(name):
    mutant = LAWS[name]
    report = ls.verify(mutant.law.example(np.random.default_rng(mutant.seed)))
    assert any(each.startswith(mutant.seen_by) for each in report.failed), str(report)


# stability and stationary state


def test_the_largest_step_is_where_the_spectral_radius_is_one():
    rng = np.random.default_rng(0)
    for m in (1, 3, 20):
        spectrum = rng.uniform(0.05, 3.0, 12)
        law = ANISOTROPIC(m, 1.0, spectrum, np.ones(12))
        longest = float(law.largest_step())
        matrix = np.diag((1 - longest * spectrum) ** 2)
        matrix += longest**2 / m * (np.diag(spectrum**2) + np.outer(spectrum, spectrum))
        assert np.max(np.abs(np.linalg.eigvals(matrix))) == pytest.approx(1.0, abs=1e-12)
        for factor, limit in ((0.9, 0.0), (1.1, np.inf)):
            assert float(ANISOTROPIC(m, factor * longest, spectrum, np.ones(12)).stationary_mean()) == limit
    one_mode = ANISOTROPIC(2, 1.0, [0.5], [1.0])
    assert float(one_mode.largest_step()) == pytest.approx(2.0, rel=1e-15)  # 2m / (lam (m + 2))


@pytest.mark.parametrize("step", [0.1, 0.3])
def test_runs_forget_their_start(step):
    for law in (ISOTROPIC(3, step, 5, 0.5, 4.0), anisotropic(3, step, (1.0, 0.5, 0.25), (1.0, 2.0, 3.0))):
        assert float(law.mean(2000)) == pytest.approx(float(law.stationary_mean()), rel=1e-12)
    law = ISOTROPIC(3, step, 5, 0.5, 4.0)
    assert float(law.std(2000)) == pytest.approx(float(law.stationary_std()), rel=1e-12)
    tiny = ISOTROPIC(3, 1e-20, 5, 0.5)  # std / mean = sqrt(2/d) for a Gaussian error
    assert float(tiny.stationary_std() / tiny.stationary_mean()) == pytest.approx(np.sqrt(2 / 5), rel=1e-12)
    assert np.isinf(ISOTROPIC(3, 0.62, 5, 0.5).stationary_std())  # the mean converges, its variance does not
    assert np.isfinite(ISOTROPIC(3, 0.62, 5, 0.5).stationary_mean())
    assert np.isinf(ISOTROPIC(3, 0.67, 5, 0.5).stationary_mean())


def test_large_batches_are_gradient_descent():
    k = np.array([0, 1, 5, 20])
    for step in (0.3, 1.0, 1.9):
        law = ANISOTROPIC(10**14, step, (1.0, 0.5), (1.0, 3.0))
        assert np.allclose(law.mean(k), ((1 - step) ** (2 * k) + 1.5 * (1 - step / 2) ** (2 * k)) / 2, atol=1e-12)
        assert np.all(law.std(k) <= 1e-5)
    for m, size in ((10**6, 1e-5), (10**12, 1e-11)):
        law = ISOTROPIC(m, 0.3, 4)
        descent = 0.7 ** (2 * k) / 2
        assert np.all(np.abs(law.mean(k) / descent - 1) <= 40 * size)
        assert np.all(law.std(k) <= 20 * np.sqrt(size) * descent)


# the typical run


def reference(m, d, kappa):
    """Return E ln((1 - kappa G)^2 + kappa^2 G Z) by adaptive quadrature; the mean over Z in closed form."""
    mp = mpmath.MPContext()
    mp.dps = 25
    m, kappa = mp.mpf(m), mp.mpf(kappa)

    def inner(x):
        square, scale = (1 - kappa * x) ** 2, 2 * kappa**2 * x
        if d == 1:
            return mp.log(square)
        y = square / scale  # Z / 2 is exponential for d = 3
        tail = (
            mp.exp(y) * mp.e1(y) if y < 200 else mp.fsum((-1) ** j * mp.factorial(j) / y ** (j + 1) for j in range(12))
        )
        return mp.log(square) + tail

    def density(x):
        return mp.exp((m / 2 - 1) * mp.log(x) - x / 2 - m / 2 * mp.log(2) - mp.loggamma(m / 2))

    points = [0, 1 / (4 * kappa), 1 / kappa, 2 / kappa, 20 / kappa + 100, mp.inf]
    return float(mp.quad(lambda x: density(x) * inner(x), points))


@pytest.mark.parametrize(("m", "d", "kappa"), [(1, 1, 0.5), (1, 1, 1.5), (2, 1, 0.3), (4, 3, 0.2), (1, 3, 0.3)])
@pytest.mark.quick(1)
def test_the_typical_rate_is_an_average_of_logarithms(m, d, kappa):
    assert log_rate(m, d, kappa) == pytest.approx(reference(m, d, kappa), abs=2e-12)


def test_most_runs_converge_where_the_mean_diverges():
    law = ISOTROPIC(batch=1, step=1.2, dimension=2)
    assert law.largest_step() == 0.5
    assert law.typical_largest_step() > law.largest_step()
    law = ISOTROPIC(1, 0.6, 2)
    assert law.typical_rate() < 0 < np.log(law.mean(1) / law.mean(0))
    assert float(ISOTROPIC(1, law.typical_largest_step(), 2).typical_rate()) == pytest.approx(0.0, abs=1e-12)
    k, count = 40, 4000
    logs = np.log(losses(np.random.default_rng(3), count, law, (0, k)))
    slope = (logs[:, 1] - logs[:, 0]) / k
    assert abs(slope.mean() - law.typical_rate()) <= 4 * slope.std() / np.sqrt(count)


@pytest.mark.parametrize(("m", "d"), [(1, 1), (3, 10), (100, 7), (1000, 1000), (10, 10**6), (3, 10**12), (10**12, 3)])
def test_the_typical_rate_is_below_that_of_the_mean(m, d):
    assert ISOTROPIC(m, 1.0, d).typical_largest_step() >= ISOTROPIC(m, 1.0, d).largest_step() * (1 - 1e-12)
    for share in (1e-6, 0.1, 0.9):
        law = ISOTROPIC(m, share * 2 * m / (m + d + 1), d)
        a = float(law.coefficients(np)[0])
        assert -12 < law.typical_rate() <= np.log(a) + 1e-14


# arguments


def test_bad_arguments_are_named():
    law = ISOTROPIC(2, 0.1, 3)
    with pytest.raises(ValueError, match=r"StreamingSGD.mean: k = 1.5 must be whole numbers"):
        law.mean(1.5)
    with pytest.raises(ValueError, match=r"StreamingSGD.std: k = \[-1\] must be whole numbers"):
        law.std([-1])
    with pytest.raises(ValueError, match=r"StreamingSGD: batch = 1.5 must be a whole number"):
        ISOTROPIC(1.5, 0.1, 3)
    with pytest.raises(ValueError, match=r"StreamingSGD: step = 0.0 must lie in \(0, inf\)"):
        ISOTROPIC(2, 0.0, 3)
    with pytest.raises(ValueError, match="StreamingSGDAnisotropic: distances_squared has shape"):
        ANISOTROPIC(2, 0.1, [1.0, 2.0], [1.0])
    with pytest.raises(
        ValueError, match=r"StreamingSGDAnisotropic.mean: k = 10000001 must be at most .*stationary_mean"
    ):
        ANISOTROPIC(2, 0.1, [1.0, 2.0], [1.0, 1.0]).mean(10**7 + 1)


def test_a_divergent_loss_stops_at_its_first_overflow():
    for law in (ISOTROPIC(2, 5.0, 3), ANISOTROPIC(4, 0.1, [1.0, 200.0], [1.0, 2.0])):
        for name, what in (("mean", "mean"), ("std", "variance")):
            ask = getattr(law, name)
            with pytest.raises(
                OverflowError, match=rf"step = .* diverges \(largest_step = .*the {what} of the loss leaves"
            ) as end:
                ask(10**5)
            first = int(str(end.value).split("at step ")[1].split()[0])
            assert np.isfinite(ask(first - 1))
            with pytest.raises(OverflowError, match=f"at step {first} of k = {first};"):
                ask([0, first])
    heavy = ISOTROPIC(1, 0.33, 4)  # the mean converges below a step of 1/3
    assert heavy.mean(10**5) < 1e-100
    with pytest.raises(OverflowError, match=r"step = 0.33 is too large for the variance \(the mean converges; larg"):
        heavy.std(10**5)


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e200, 1e300])
@pytest.mark.quick(1)
def test_a_step_measured_in_other_units_gives_the_same_law(scale):
    """Inputs of another variance, and steps of its inverse; also where their squares leave the doubles."""
    plain, scaled = (ISOTROPIC(4, 0.1 / v, 10, noise_variance=0.5, input_variance=v) for v in (1.0, scale))
    for name in ("stationary_mean", "stationary_std", "typical_rate"):
        assert getattr(scaled, name)() == pytest.approx(getattr(plain, name)(), rel=1e-12)
    for name in ("largest_step", "typical_largest_step"):
        assert getattr(scaled, name)() * scale == pytest.approx(getattr(plain, name)(), rel=1e-12)


def test_extreme_steps_noise_and_batches_are_answered_or_refused_by_name():
    assert ISOTROPIC(4, 1e300, 10, noise_variance=1.0).stationary_std() == np.inf
    noisy = ISOTROPIC(4, 0.1, 10, noise_variance=1e300)  # its square leaves the doubles
    assert noisy.stationary_std() / 1e300 == pytest.approx(ISOTROPIC(4, 0.1, 10, 1.0).stationary_std(), rel=1e-12)
    for m in (10**8, 10**15):
        assert ANISOTROPIC(m, 0.1, [1.0, 0.5], [1.0, 1.0]).largest_step() == pytest.approx(2, rel=3 / m + 1e-15)
    with pytest.raises(
        ValueError, match=r"StreamingSGDAnisotropic: batch = 1e\+17 must lie in \[1, 9007199254740992\]"
    ):
        ANISOTROPIC(1e17, 0.1, [1.0, 0.5], [1.0, 1.0])
    with pytest.raises(OverflowError, match=r"StreamingSGD.largest_step: input_variance of magnitude 4.94e-324"):
        ISOTROPIC(4, 0.1, 10, input_variance=5e-324).largest_step()
    with pytest.raises(OverflowError, match=r"StreamingSGD: step of magnitude 1e\+300 leads beyond"):
        ISOTROPIC(4, 1e300, 10).prediction(np)


def test_the_typical_rate_keeps_its_digits_at_small_and_large_steps():
    """It is -2 k m for small k, and 2 ln k + E ln G + E ln(G + Z) for large k, with chi-squared variates."""
    for k in (1e-300, 1e-22, 1e-19, 1e-17):
        assert log_rate(4.0, 10.0, k) == pytest.approx(-8 * k, rel=1e-14)
    for k in (1e28, 1e200):  # digamma at 2 and at 13/2
        expected = 2 * np.log(2 * k) + (1 - np.euler_gamma) + float(mpmath.digamma(6.5))
        assert log_rate(4.0, 10.0, k) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("size", [1e-162, 1e-100, 1e160])
@pytest.mark.parametrize("rate", [1e-100, 1.0, 1e80])
def test_products_beyond_doubles_do_not_change_the_band(size, rate):
    given = {"batch": 5, "step": 0.4, "noise_variance": 0.1}
    one = ls.laws.StreamingSGDAnisotropic(spectrum=[1.0, 0.5], distances_squared=[1.0, 2.0], **given)
    given |= {"step": 0.4 / rate, "noise_variance": 0.1 * size}
    other = ls.laws.StreamingSGDAnisotropic(
        spectrum=np.array([1.0, 0.5]) * rate, distances_squared=np.array([1.0, 2.0]) * (size / rate), **given
    )
    for name in ("mean", "std"):
        np.testing.assert_allclose(getattr(other, name)([1, 8]) / size, getattr(one, name)([1, 8]), rtol=1e-12)


@pytest.mark.parametrize("size", [1e-162, 1e160])
def test_a_tiny_or_huge_start_keeps_the_standard_deviation(size):
    laws_of = [ls.laws.StreamingSGD(5, 0.4, 2, 0.0, distance) for distance in (1.0, size)]
    one, other = (law.std([1, 8]) for law in laws_of)
    np.testing.assert_allclose(other / size, one, rtol=1e-12)
