"""Functions of ``ls.ntk``: every argument checked by name, results right at every magnitude or refused."""

import inspect

import mpmath
import numpy as np
import pytest

import linsolve as ls
from linsolve import ntk
from linsolve.systems.random_networks import first_step, limits, mean_field, printed, sampling

ONE = {"xp": np, "weight_variance": 1.5, "bias_variance": 0.1, "slope": 0.0}
LAYERS = ONE | {"widths": [3, 4, 2], "omega": [1.0, 0.5, 2.0], "beta": [1.0, 1.0, 0.5], "norm_squared": 0.7}
LIMITS = {"xp": np, "z": 0.3, "ratio": 0.5, "c": 5.0, "biases": 0.8, "gain": 0.4, "found": "edge of chaos"}
FIELD = ONE | {"activation": "erf", "gram": [[1.0, 0.2], [0.2, 0.5]], "depth": 3, "q": 0.4}
FIELD |= {"s11": 0.5, "s22": 0.7, "s12": 0.3}
DRAW = LAYERS | {"rng": np.random.default_rng(0), "count": 5}
CALLS = {
    **dict.fromkeys((limits.phi_1, limits.phi_2, limits.phi_3, limits.of_weights, limits.of_biases), LIMITS),
    **dict.fromkeys((limits.of_both, limits.dispersion, limits.crossover, limits.first_step), LIMITS),
    **dict.fromkeys((printed.weights_limit, printed.edge_limit), LIMITS),
    printed.finite: LAYERS,
    **dict.fromkeys((mean_field.kernels, mean_field.fixed_point, mean_field.chi, mean_field.edge_of_chaos), FIELD),
    **dict.fromkeys((mean_field.error_function, mean_field.piecewise_linear), FIELD),
    **dict.fromkeys((ntk.log_moments, ntk.gradient_norms, ntk.correlation, ntk.spread, first_step.log_change), LAYERS),
    ntk.moments: LAYERS | {"weights": "ntk"},
    ntk.parametrization: LAYERS | {"name": "ntk"},
    **dict.fromkeys((sampling.layer_by_layer, sampling.explicit, first_step.draw), DRAW),
}
NUMBERS = {"z", "ratio", "c", "biases", "gain", "weight_variance", "bias_variance", "slope", "widths", "omega", "beta"}
NUMBERS |= {"norm_squared", "gram", "q", "s11", "s22", "s12"}
NOT_NEGATIVE = NUMBERS - {"z", "gain", "slope", "s12", "gram"}
BAD = {"nan": np.nan, "inf": np.inf, "text": "much", "complex": 1j, "masked": np.ma.masked_array([1.0], mask=[True])}
every_function = pytest.mark.parametrize("function", CALLS, ids=lambda f: f.__name__)


def arguments(function):
    names = inspect.signature(function).parameters
    return {name: value for name, value in CALLS[function].items() if name in names}


def result_or_refusal(function, given):
    try:
        return function(**given)
    except (ValueError, OverflowError) as refusal:
        return str(refusal)


def like(value, bad):
    """Return a bad value in the shape of a good one, where that has a shape."""
    shape = np.shape(value)
    return np.full(shape, bad) if shape and isinstance(bad, float) else bad


@every_function
def test_good_arguments_are_accepted(function):
    assert function(**arguments(function)) is not None


@every_function
def test_each_bad_argument_is_refused_by_its_name(function):
    given = arguments(function)
    tried = 0
    for name in NUMBERS & set(given):
        cases = BAD | ({"negative": -1.0} if name in NOT_NEGATIVE else {})
        for bad in cases.values():
            with pytest.raises((ValueError, TypeError), match=f"^{function.__name__}: {name} "):
                function(**given | {name: like(given[name], bad)})
            tried += 1
    assert tried >= 5 * (len(NUMBERS & set(given)) > 0)


@every_function
def test_batches_that_do_not_broadcast_are_refused(function):
    given = arguments(function)
    single = sorted(name for name in NUMBERS & set(given) if np.ndim(given[name]) == 0)
    if len(single) >= 2 and "rng" not in given:
        bad = {single[0]: np.full(2, given[single[0]]), single[1]: np.full(3, given[single[1]])}
        with pytest.raises(ValueError, match=f"^{function.__name__}: batch shapes = .* do not broadcast"):
            function(**given | bad)


@pytest.mark.parametrize("function", [sampling.layer_by_layer, sampling.explicit, first_step.draw, printed.finite])
def test_functions_of_one_network_refuse_batches(function):
    given = arguments(function)
    for name in ("widths", "weight_variance", "slope", "norm_squared"):
        if name in given:
            with pytest.raises(ValueError, match=rf"^{function.__name__}: {name} has shape \(2,.* without batch axes"):
                function(**given | {name: np.stack([np.asarray(given[name])] * 2)})


def test_gradient_norms_have_the_batch_of_the_slopes():
    found = ntk.gradient_norms(np, [3, 4, 2], 1.5, np.array([0.0, 0.3]))
    for part, slope in zip(found, (0.0, 0.3), strict=True):
        np.testing.assert_allclose(part, ntk.gradient_norms(np, [3, 4, 2], 1.5, slope), rtol=1e-15)


@every_function
def test_every_magnitude_gives_numbers_or_a_named_refusal(function):
    """From the smallest to the largest double in each argument: finite results (or log 0), no warning."""
    given = arguments(function)
    for name in NUMBERS & set(given) - {"widths"}:
        for size in (0.0, 5e-324, 1e-300, 1e-20, 1e20, 1e300, 1.7e308):
            for value in {size, -size} if name not in NOT_NEGATIVE else {size}:
                found = result_or_refusal(function, given | {name: like(given[name], value)})
                if isinstance(found, str):
                    assert found.startswith(f"{function.__name__}: "), (name, value)
                    continue
                for part in found if isinstance(found, tuple) else (found,):
                    if isinstance(part, np.ndarray | float):
                        assert not np.isnan(part).any(), (name, value)
                        assert not np.isposinf(part).any(), (name, value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_field.phase(np.nan), "phase: found = nan must be finite and not negative"),
        (lambda: mean_field.phase(-0.1), "phase: found = -0.1 must be finite and not negative"),
        (lambda: mean_field.phase([1.0, 2.0]), r"phase: found = \[1.0, 2.0\] must be finite"),
        (lambda: mean_field.phase(1.0, error=-1.0), "phase: error = -1.0 must be finite and not negative"),
        (
            lambda: mean_field.kernels(np, "relu", np.eye(2), 1.5, 2.0, 0.0),
            "kernels: depth = 1.5 must be an integer from 1 to 100000",
        ),
        (
            lambda: mean_field.kernels(np, "relu", np.eye(2), 10**400, 2.0, 0.0),
            "kernels: depth = .* must be an integer",
        ),
        (lambda: ntk.moments([2, 4], 2.0, weights="nt"), "moments: weights = 'nt' is unknown; did you mean 'ntk'"),
        (lambda: mean_field.kernels(np, "relu", -np.eye(2), 3, 2.0, 0.0), "kernels: gram must be symmetric"),
        (lambda: mean_field.kernels(np, "relu", [[1, 2], [2, 1]], 3, 2.0, 0.0), "kernels: gram must be symmetric"),
        (lambda: mean_field.error_function(np, 1.0, 1.0, 2.0), "error_function: s12 = 2 must be at most"),
        (lambda: mean_field.named(np.nan), "named: activation = nan must be finite"),
        (lambda: limits.first_step(np, "ordered", 1.0, 5.0, 1.0, 1.0), r"first_step: gain = 1.0 must lie in \[0, 1\)"),
        (
            lambda: sampling.layer_by_layer(np.random.default_rng(0), 2.5, [3], 1.0, 0.0),
            "count = 2.5 must be an integer",
        ),
        (lambda: sampling.explicit(np.random.default_rng(0), 10**9, [2, 3000], 1.0, 0.0), "more than the memory"),
        (lambda: sampling.explicit(0, 5, [2, 1e30], 1.0, 0.0), r"draw: widths = 1\.00e\+30 makes arrays"),
        (lambda: sampling.layer_by_layer(0, 10**20, [3, 4], 1.0, 0.0), r"layer_by_layer: count = 1\.00e\+20 makes"),
        (
            lambda: sampling.layer_by_layer(0, 5, [3, 1e155], 1.0, 0.0),
            r"layer_by_layer: widths = 1e\+155 at index \(1,\)",
        ),
        (lambda: first_step.draw(-1, 5, [3, 4], 1.0, 0.0), "draw: rng = -1 must be None, an integer of at least 0"),
    ],
)
def test_other_errors_name_value_and_rule(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# chi_1 and the phase


def exact_chi(weight_variance, bias_variance):
    """Return chi_1 of erf networks to 50 digits."""
    mp = mpmath.MPContext()
    mp.dps = 60
    w, b = mp.mpf(float(weight_variance)), mp.mpf(float(bias_variance))

    if b == 0 and w * 4 / mp.pi <= 1:
        return w * 4 / mp.pi
    q = w + b
    for _ in range(120):  # Newton's iteration falls to the largest fixed point, the stable one
        root = mp.sqrt(1 + 4 * q)
        excess = w * 2 / mp.pi * mp.atan(2 * q / root) + b - q
        q += excess / (1 - w * 4 / mp.pi / (1 + 2 * q) / root)
    assert abs(excess) <= mp.mpf(10) ** -45 * q
    return w * 4 / mp.pi / root


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.quick(1)
def test_chi_is_accurate_enough_to_decide_the_phase(seed):
    """Within the error that `phase` allows for, all over the plane and within 1e-3 to 1e-12 of the edge."""
    rng = np.random.default_rng(seed)
    points = [tuple(10 ** rng.uniform(-3, 3, 2)) for _ in range(10)] + [(1.5, 0.0), (0.7, 0.0), (0.0, 0.3)]
    for q in 10 ** rng.uniform(-9, 6, 10):
        edge = mean_field.edge_of_chaos(np, q)
        points.append((edge[0] * (1 + 10 ** rng.uniform(-12, -3) * rng.choice([-1, 1])), edge[1]))
    for w, b in points:
        found, truth = float(mean_field.chi(np, "erf", w, b)), exact_chi(w, b)
        assert abs(found - truth) <= mean_field.CHI_ERROR * truth
        if abs(truth - 1) > 3 * mean_field.CHI_ERROR:
            assert mean_field.phase(found) == ("chaotic" if truth > 1 else "ordered")


def test_every_point_of_the_exact_edge_is_on_the_edge():
    q = np.concatenate([np.linspace(0.0, 40.0, 41), np.linspace(0.0, 4.0, 400) ** 2, np.logspace(-12, 200, 500)])
    found = mean_field.chi(np, "erf", *mean_field.edge_of_chaos(np, q))
    assert {mean_field.phase(value) for value in found} == {"edge of chaos"}
    assert {mean_field.phase(value * (1 + 2.0**-48)) for value in found} == {"chaotic"}
    assert {mean_field.phase(value * (1 - 2.0**-48)) for value in found} == {"ordered"}
    assert mean_field.phase(1.001, error=0.01) == "edge of chaos"


def test_chi_from_the_cancelling_form_of_the_averages_is_rejected(monkeypatch):
    """The mutant: the determinant as the difference of the published products, and a threshold of 1e-13."""

    def cancelling(xp, q):
        root = xp.sqrt((1 + 2 * q) * (1 + 2 * q) - 4 * q**2)
        return 2 / xp.pi * xp.atan2(2 * q, root), 4 / xp.pi / root

    q = np.pi * np.linspace(0.0, 40.0, 41) ** 2
    edge = mean_field.edge_of_chaos(np, q)
    assert np.max(np.abs(mean_field.chi(np, "erf", *edge) - 1)) <= mean_field.CHI_ERROR
    monkeypatch.setattr(mean_field, "_erf_averages", cancelling)
    assert np.max(np.abs(mean_field.chi(np, "erf", *edge) - 1)) > 1e-13


def test_error_function_keeps_its_digits_for_equal_inputs_of_any_variance():
    for s in (1e-12, 0.3, 1e4, 1e8, 1e100):
        value, slopes = mean_field.error_function(np, s, s, s)
        with mpmath.workdps(300):
            root = mpmath.sqrt(1 + 4 * mpmath.mpf(s))
            assert abs(value - 2 / mpmath.pi * mpmath.atan(2 * mpmath.mpf(s) / root)) <= 4e-16 * abs(value)
            assert abs(slopes - 4 / mpmath.pi / root) <= 4e-16 * abs(slopes)


def test_kernels_and_limits_in_high_precision():
    xp, gram = ls.arithmetic.precise(40), np.array([[1.0, 0.2], [0.2, 0.5]])
    for name in ("relu", "erf", 0.3):
        found = mean_field.kernels(xp, name, xp.asarray(gram), 4, xp.asarray(1.7), xp.asarray(0.1))
        for exact, usual in zip(found, mean_field.kernels(np, name, gram, 4, 1.7, 0.1), strict=True):
            np.testing.assert_allclose(ls.arithmetic.to_numpy(exact), usual, rtol=1e-14)
    exact = limits.crossover(xp, *(xp.asarray([v]) for v in (0.5, 5.0, 0.8, 400.0)))
    assert float(ls.arithmetic.to_numpy(exact)[0]) == pytest.approx(float(limits.crossover(np, 0.5, 5.0, 0.8, 400.0)))


# the crossover at every gain


def exact_crossover(ratio, c, biases, gain):
    """Return the limit between the phases from its formula, to 60 digits and more."""
    with mpmath.workdps(60 + int(2 * abs(gain) / 2.3) + 30):
        v, c, a, nu = (mpmath.mpf(x) for x in (ratio, c, biases, gain))

        def one(z):
            return mpmath.expm1(z) / z if z else mpmath.mpf(1)

        def two(z):
            return (one(z) - 1) / z if z else mpmath.mpf(1) / 2

        x = c * v
        both = (one(nu + x) + 2 * two(nu + x)) / 3 + 2 * (one(nu + x) - one(nu - v)) / (x + v) / 3
        weights = mpmath.exp(x) * (mpmath.mpf(1) / 3 + 4 * two(-(c + 1) * v) / 3)
        own = 2 * a**2 * (one(2 * nu + x) - one(nu)) / (nu + x)
        square = mpmath.exp(2 * nu) * weights + 2 * a * mpmath.exp(nu) * both + own
        return square / (mpmath.exp(nu) + a * one(nu)) ** 2


@pytest.mark.parametrize("ratio", [1e-9, 0.05, 0.7, 3.0])
@pytest.mark.parametrize("biases", [1e-6, 0.8, 1e6])
def test_the_crossover_agrees_with_sixty_digits_at_every_gain(ratio, biases):
    for gain in (-3000.0, -400.0, -30.0, -1.3, -1e-8, 1e-12, 0.4, 1.0, 7.0, 200.0, 301.0, 400.0, 3000.0):
        found, truth = limits.crossover(np, ratio, 5.0, biases, gain), exact_crossover(ratio, 5.0, biases, gain)
        assert abs(found - truth) <= 4e-15 * (1 + 5 * ratio) * truth


@pytest.mark.parametrize("gain", [1e10, 1e100, 1e300])
def test_the_crossover_ends_in_the_phases_at_any_distance(gain):
    given = (0.5, 5.0, 0.8)
    for sign, name in ((-1, "ordered"), (1, "chaotic")):
        found, end = limits.crossover(np, *given, sign * gain), limits.dispersion(np, name, *given)
        assert found == pytest.approx(float(end), rel=10 / gain + 1e-14)


def test_without_biases_all_phases_are_one():
    """The ordered limit 1 is that of the biases' part: without it the weights' part is left."""
    law = ls.laws.NTKDispersionLimit(ratio=0.5, biases=0.0)
    found, exact = law.approximation(np, 0.0), law.exact(np, 5e-4)
    for name in limits.PHASES:
        assert float(found[name]) == pytest.approx(float(limits.of_weights(np, 0.5, 5.0)), rel=1e-14)
        assert float(exact[name]) == pytest.approx(float(found[name]), rel=2e-2)
    for gain in (-1e5, -3.0, 0.0, 3.0, 1e5):
        assert limits.crossover(np, 0.5, 5.0, 0.0, gain) == pytest.approx(float(found["chaotic"]), rel=1e-14)


# laws


DEEP = {
    "limit": ls.laws.NTKDispersionLimit,
    "crossover": lambda **given: ls.laws.NTKDispersionCrossover(gain=1.0, **given),
    "first step": ls.laws.NTKFirstStepLimit,
}


@pytest.mark.parametrize("name", DEEP)
def test_exact_sums_need_whole_widths_and_depths_of_one_network(name):
    law = DEEP[name](ratio=0.5, biases=1.0)
    for small in (1e-2, 0.1):
        assert all(np.isfinite(value) for value in law.exact(np, small).values())
    for small, ratio in ((0.3, 0.5), (1e-2, 0.1234), (0.1, 0.001), (-0.1, 0.5)):
        with pytest.raises(ValueError, match=r"exact: .*small = .* must be a positive integer \(width and depth"):
            DEEP[name](ratio=ratio, biases=1.0).exact(np, small)
    with pytest.raises(ValueError, match=r"exact: ratio has shape \(2,\) but must be one number"):
        DEEP[name](ratio=[0.5, 0.1], biases=1.0).exact(np, 0.1)
    assert DEEP[name](ratio=[0.5, 0.1234], biases=1.0).approximation(np, 0.0)


def test_moments_beyond_doubles_are_refused_by_the_law():
    many = {"widths": [2] * 400, "weight_variance": 1e300, "slope": 0.0, "omega": np.ones(400), "beta": np.ones(400)}
    with pytest.raises(OverflowError, match=r"NTKMoments: weight_variance of magnitude 1e\+300 leads beyond the range"):
        ls.laws.NTKMoments(**many).prediction(np)
    with pytest.raises(OverflowError, match=r"(NTKFirstStep|log_change): weight_variance of magnitude 1e\+300"):
        ls.laws.NTKFirstStep(**many).prediction(np)


@pytest.mark.parametrize("slope", [0.0, 0.3, 1.0, -2.5, 1e3])
def test_spread_is_that_of_the_two_slopes(slope):
    second, c = ntk.spread(slope)
    ratio = 2 * (1 + mpmath.mpf(slope) ** 4) / (1 + mpmath.mpf(slope) ** 2) ** 2
    assert second == (1 + slope**2) / 2
    assert abs(c - (3 * ratio - 1)) <= 1e-15 * c
    assert ntk.spread(1e100)[1] == 5
