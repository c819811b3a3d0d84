"""The tangent kernel at the start: exact moments, samplers, limits, infinite width and the printed errors."""

from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from mutants.ntk import (
    LAWS,
    between,
    correlation,
    printed_error_function,
    printed_kernel,
    weights_squared,
)
from scipy.integrate import quad
from selection import quick

import linsolve as ls
from linsolve import ntk
from linsolve.systems.random_networks import limits, mean_field
from linsolve.systems.random_networks.sampling import explicit, explicit_kernels, layer_by_layer

MINE = (
    ls.laws.NTKMoments,
    ls.laws.NTKDispersionLimit,
    ls.laws.NTKDispersionCrossover,
    ls.laws.NTKFirstStep,
    ls.laws.NTKFirstStepLimit,
)
WIDTHS = ([3, 4, 6, 5], [2, 9, 3], [5, 1, 4], [4, 30, 20, 30, 25], [1, 2, 3, 2], [6, 200, 100, 150, 100, 200])
SLOPES = (0.0, 0.25, 1.0, -0.5)
WIDTHS_DRAWN = ([3, 4, 6, 5], [2, 1, 3], [2, 2, 1, 2, 4])


def z_score(draws, mean):
    return (np.mean(draws, axis=0) - mean) / (np.std(draws, axis=0, ddof=1) / np.sqrt(len(draws)))


# moments


def test_the_moments_agree_with_sampled_networks():
    """24 settings of widths and units, each with its own parts of the kernel; layer by layer."""
    worst = {}
    for seed, (widths, slope) in enumerate(product(WIDTHS, SLOPES)):
        rng = np.random.default_rng(seed)
        omega, beta, (variance, norm) = *rng.uniform(0.5, 2, (2, len(widths))), rng.uniform(0.8, 2, 2)
        weights, biases = layer_by_layer(rng, 60_000, widths, variance, slope, norm).kernels(omega, beta)
        drawn = (weights, biases, weights**2, weights * biases, biases**2)
        given = (np.asarray(v) for v in (widths, variance, slope, omega, beta, norm))
        for name, draws, log in zip(
            ntk.Moments._fields, drawn, ntk.log_moments(np, *given)._asdict().values(), strict=True
        ):
            worst[name, str(widths), slope] = z_score(draws, np.exp(log[-1]))
    assert len(worst) == 5 * 24
    assert max(map(abs, worst.values())) < 3.5, {key: z for key, z in worst.items() if abs(z) > 3}


@pytest.mark.parametrize(
    ("widths", "slope"),
    [
        ([3, 4, 6, 5], 0.0),
        ([2, 1, 3], 0.25),
        ([2, 2, 1, 2, 4], 0.0),
        ([2, 1, 3], 1.0),
        ([2, 1, 3], -0.5),
        *(pytest.param(w, s, marks=pytest.mark.exhaustive) for w, s in product(WIDTHS_DRAWN, SLOPES)),
    ],
)
@pytest.mark.quick(1)
@pytest.mark.exhaustive
def test_the_sampler_has_the_law_of_explicit_networks(widths, slope):
    """Means of functions that see every pair of norms, two samples; dead layers and single units included."""

    def features(drawn):
        norms = np.concatenate([drawn.inputs[:, 1:], drawn.gradients[:, :-1]], axis=1)
        pairs = np.sqrt(norms[:, :, None] * norms[:, None, :])
        return np.concatenate([pairs.reshape(len(norms), -1), np.exp(-norms), norms == 0], axis=1)

    rng, count = np.random.default_rng(11), 100_000
    found, truth = (features(draw(rng, count, widths, 1.5, slope, 0.7)) for draw in (layer_by_layer, explicit))
    error = np.sqrt((found.var(axis=0) + truth.var(axis=0)) / count)
    off = np.abs(found.mean(axis=0) - truth.mean(axis=0))
    assert np.all(off[error == 0] == 0)
    assert np.max(off[error > 0] / error[error > 0]) < 4


def exact_moments(widths, variance, slope, omega, beta, norm):
    """The double sums of `log_moments` in rational numbers, at full depth."""
    a, kappa = variance * (1 + slope**2) / 2, 2 * (1 + slope**4) / (1 + slope**2) ** 2
    c, depth = 3 * kappa - 1, len(widths)

    def chain(low, high, shift):
        found = Fraction(1)
        for n in widths[low + 1 : high + 1]:
            found *= 1 + shift / n
        return found

    def alive(layer):
        found = Fraction(1)
        for n in widths[1 : layer + 1] if slope == 0 and layer < depth - 1 else []:
            found *= 1 - Fraction(1, 2**n)
        return found

    def mixed(low, high):
        return chain(low, high, c) / 3 + chain(low, high, Fraction(-1)) * 2 / 3

    last, layers = depth - 1, range(depth)
    p = [norm * a**last * omega[k] * Fraction(widths[k], widths[0]) for k in layers]
    b = [beta[k] * a ** (last - k) for k in layers]
    ww = bb = wb = Fraction(0)
    for i, j in product(layers, layers):
        low, high = min(i, j), max(i, j)
        ww += p[i] * p[j] * chain(0, low, c) * mixed(low, high) * chain(high, last, c)
        bb += b[i] * b[j] * alive(low) * chain(high, last, c)
        wb += p[i] * b[j] * chain(high, last, c) * (mixed(j, i) if j < i else 1)
    return sum(p), sum(b[k] * alive(k) for k in layers), ww, wb, bb


@pytest.mark.parametrize("slope", [Fraction(0), Fraction(1, 4), Fraction(1)])
def test_the_recursions_are_the_double_sums(slope):
    rng = np.random.default_rng(3)
    for widths in ([3, 4, 6, 5], [7], [2, 1], [5, 1, 3, 2, 2, 9, 4]):
        omega, beta = ([Fraction(int(v), 8) for v in rng.integers(0, 20, len(widths))] for _ in range(2))
        omega[0], beta[-1] = Fraction(1), Fraction(3)
        numbers = (widths, Fraction(7, 4), slope, omega, beta, Fraction(5, 8))
        found = ntk.log_moments(np, *(np.asarray(v, dtype=float) for v in numbers))
        for depth in range(1, len(widths) + 1):
            part = (widths[:depth], *numbers[1:3], omega[:depth], beta[:depth], numbers[5])
            logs = [log[depth - 1] for log in found]
            np.testing.assert_allclose(np.exp(logs), [float(v) for v in exact_moments(*part)], rtol=1e-13)


def test_printed_and_corrected_sums_are_those_derived():
    widths = np.array([3.0, 5, 5, 5, 5])
    found = ntk.moments(widths, 2.0)
    assert np.exp(found.weights_squared[-1]) == pytest.approx(559.6, abs=0.05)
    assert np.exp(found.cross[-1]) == pytest.approx(149.25, abs=5e-3)
    assert weights_squared(widths) == pytest.approx(np.exp(found.weights_squared[-1]), rel=1e-13)
    assert weights_squared(widths, coupled=between(widths, 1)) == pytest.approx(506.6, abs=0.05)
    printed = weights_squared(widths, twice=1.0, split=False, coupled=between(widths, 1))
    assert printed == pytest.approx(730.4, abs=0.05)
    six = np.array([6.0] * 3)
    assert correlation(six, 5)[0, 2] == pytest.approx(1.5833, abs=5e-5)
    assert between(six, 1)[0, 2] == pytest.approx(1.3611, abs=5e-5)


def test_batches_are_their_networks_one_by_one():
    widths, variance = np.array([[3, 4, 6], [5, 2, 2]]), np.array([1.5, 2.5])
    together = ntk.moments(widths, variance, [0.0, 0.5], bias_variance=0.3, weights="ntk")
    for k in range(2):
        alone = ntk.moments(widths[k], variance[k], [0.0, 0.5][k], bias_variance=0.3, weights="ntk")
        for both, one in zip(together, alone, strict=True):
            np.testing.assert_allclose(both[k], one, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("gain", [0.6, 1.0, 3.0])
@pytest.mark.quick(1)
def test_great_depth_neither_overflows_nor_vanishes(gain):
    found = ntk.moments(np.full(5000, 20), 2 * gain)
    logs = found.log_dispersion(np)
    assert np.all(np.isfinite(logs))
    assert np.all(logs >= -1e-9)
    growth = max(np.log1p(5 / 20) + 2 * np.log(gain), 0)  # of E Theta^2 by a layer, to leading order
    found = found.log_square(np)
    assert found[-1] - found[-2] == pytest.approx(growth, rel=1e-2, abs=2.0**-20)  # the chance of a dead layer


def test_wide_networks_have_the_mean_kernel_of_infinite_width():
    """NTK weights, no biases, every depth: the means of weights' parts do not depend on the widths."""
    for slope, variance in ((0.0, 1.7), (1.0, 0.9), (0.3, 1.2)):
        found = ntk.moments([4, 7, 3, 5], variance, slope, weights="ntk")
        for depth in range(1, 5):
            unit = mean_field.named(slope)
            _, theta = mean_field.kernels(np, unit, np.array([[1 / 4]]), depth, variance, 0.0)
            assert np.exp(found.weights[depth - 1]) == pytest.approx(theta[0, 0], rel=1e-13)


# limits


@pytest.mark.parametrize("c", [2, 5, 3.3])
def test_limits_have_full_accuracy_at_every_ratio(c):
    ratios = np.array([0, 1e-300, 1e-12, 1e-5, 1e-3, 0.05, 0.19, 0.2, 0.21, 0.49, 0.99, 1, 1.01, 4, 30])
    found = [f(np, ratios, np.asarray(c)) for f in (limits.of_weights, limits.of_biases, limits.of_both)]
    for k, ratio in enumerate(ratios):
        with mpmath.workdps(700 if ratio else 15):
            v, c_ = mpmath.mpf(ratio), mpmath.mpf(c)
            truth = exact_limits(v, c_) if ratio else (1, 1, 1)
            for value, exact in zip(found, truth, strict=True):
                assert abs(value[k] - exact) < 4e-15 * (1 + c * ratio) * exact


def exact_limits(v, c):
    """V_W, V_b and V_Wb as integrals over layers, done by hand."""
    one, two = (lambda z: mpmath.expm1(z) / z), (lambda z: (mpmath.expm1(z) - z) / z**2)
    x = c * v
    both = (one(x) - two(x)) / 3 + (one(x) - one(-v)) * 2 / 3 / ((c + 1) * v) + two(x)
    return mpmath.exp(x) * (mpmath.mpf(1) / 3 + two(-(c + 1) * v) * 4 / 3), 2 * two(x), both


def test_limits_are_integrals_over_layers():
    """Of X C X over pairs of layers, at a constant density 5/M of growth."""
    v = 0.7

    def mean(f):
        return 2 * quad(lambda t: quad(lambda s: f(s, t), 0, t)[0], 0, v)[0] / v**2

    def mixed(s):
        return np.exp(5 * s) / 3 + 2 / 3 * np.exp(-s)

    given = (np, np.asarray(v), np.asarray(5.0))
    assert limits.of_weights(*given) == pytest.approx(
        mean(lambda s, t: np.exp(5 * (v - t + s)) * mixed(t - s)), rel=1e-10
    )
    assert limits.of_biases(*given) == pytest.approx(mean(lambda s, t: np.exp(5 * (v - t))), rel=1e-10)
    both = mean(lambda s, t: np.exp(5 * (v - t)) * (1 + mixed(t - s)) / 2)
    assert limits.of_both(*given) == pytest.approx(both, rel=1e-10)


def test_printed_limits_are_those_derived():
    for ratio, part in ((0.25, 0.966), (0.5, 0.891), (1, 0.728), (2, 0.503)):
        v = np.asarray(float(ratio))
        assert ntk.printed.weights_limit(np, v) / limits.of_weights(np, v, np.asarray(5.0)) == pytest.approx(
            part, abs=5.1e-4
        )
    one = np.asarray(1.0)
    assert ntk.printed.edge_limit(np, one, 1.0) == pytest.approx(23.166, abs=5e-4)
    assert limits.dispersion(np, "edge of chaos", one, 5 * one, one) == pytest.approx(30.506, abs=3e-3)
    assert limits.of_weights(np, one, 5 * one) == pytest.approx(76.969, abs=5e-4)


def test_an_ordered_network_of_width_1000_is_nearly_deterministic():
    found = np.exp(ntk.moments(np.full(1000, 1000), 1.2).log_dispersion(np)[-1])
    assert found == pytest.approx(1.0028, abs=5e-5)


# laws


@pytest.mark.parametrize("cls", MINE, ids=lambda c: c.__name__)
@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.exhaustive) for k in (1, 2))])
@pytest.mark.quick(3)
def test_laws_hold(cls, seed):
    report = ls.verify(cls.example(np.random.default_rng(seed)))
    assert report.ok, str(report)


CHEAP = ("(13) as printed", "neighbors in theorem 4.1", "only neighbors in theorem 4.1", "sign of (21)")


@pytest.mark.parametrize("name", quick(LAWS, lambda name: name in CHEAP))
@pytest.mark.quick(1)
def test_each_mutant_is_rejected_by_the_check_that_should_see_it(name):
    mutant = LAWS[name]
    assert mutant.seen_by in ls.verify(mutant.law.example(np.random.default_rng(mutant.seed))).failed


# infinite width


def by_angle(function, s11, s22, s12):
    """E f(u) f(v) of a function of degree 1 or 0, over the angle of a standard pair; the radius by hand."""
    turn = np.arccos(s12 / np.sqrt(s11 * s22))
    degree = 1 if function(2.0) == 2 * function(1.0) else 0
    breaks = np.sort(np.mod([np.pi / 2, 3 * np.pi / 2, np.pi / 2 + turn, 3 * np.pi / 2 + turn], 2 * np.pi))
    mean = quad(lambda t: function(np.cos(t)) * function(np.cos(t - turn)), 0, 2 * np.pi, points=breaks, epsabs=1e-13)[
        0
    ]
    return (2 * np.sqrt(s11 * s22)) ** degree * mean / (2 * np.pi)


@pytest.mark.parametrize("slope", [0.0, 0.3, 1.0, -0.7])
@pytest.mark.parametrize("s12", [-0.9, -0.2, 0.0, 0.6, 1.1])
def test_averages_of_piecewise_linear_units_are_integrals(slope, s12):
    unit = mean_field.named(slope)
    value, slopes = unit.averages(np, *(np.asarray(v) for v in (1.7, 0.8, s12)))
    assert value == pytest.approx(by_angle(unit.function, 1.7, 0.8, s12), abs=1e-12)
    assert slopes == pytest.approx(by_angle(unit.derivative, 1.7, 0.8, s12), abs=1e-12)


def by_gauss(function, s11, s22, s12):
    x, w = np.polynomial.hermite_e.hermegauss(120)
    u, v = np.sqrt(s11) * x[:, None], s12 / np.sqrt(s11) * x[:, None] + np.sqrt(s22 - s12**2 / s11) * x
    return np.sum(w[:, None] * w * function(u) * function(v)) / (2 * np.pi)


@pytest.mark.parametrize("s", [(0.5, 0.7, 0.3), (0.3, 0.2, -0.15), (1.1, 0.4, 0.0)])
def test_averages_of_the_error_function_are_integrals_where_the_printed_ones_are_not(s):
    unit = mean_field.ACTIVATIONS["erf"]
    truth = by_gauss(unit.function, *s), by_gauss(unit.derivative, *s)
    given = [np.asarray(v) for v in s]
    np.testing.assert_allclose(unit.averages(np, *given), truth, rtol=0, atol=1e-9)
    assert abs(printed_error_function(np, *given)[1] - truth[1]) > 1e-2


@pytest.mark.parametrize(("name", "variance"), [("relu", 1.8), ("erf", 1.5), ("linear", 1.2)])
def test_kernel_of_infinite_width_is_that_of_wide_networks(name, variance):
    """Networks of width 300 and three layers, two inputs, with biases; the printed kernel is many errors away."""
    rng, unit, depth = np.random.default_rng(4), mean_field.ACTIVATIONS[name], 3
    x = rng.normal(size=(5, 2))
    drawn = np.stack([explicit_kernels(rng, unit, x, [300] * (depth - 1), variance, 0.4) for _ in range(100)])
    gram = x.T @ x / 5
    _, theta = mean_field.kernels(np, unit, gram, depth, variance, 0.4)
    assert np.max(np.abs(z_score(drawn, theta))) < 3.5
    assert np.max(np.abs(z_score(drawn, printed_kernel(unit, gram, depth, variance, 0.4)))) > 10


def test_explicit_kernel_is_the_gram_matrix_of_the_gradients():
    """A network of one hidden unit by hand."""
    rng = np.random.default_rng(8)
    unit, x = mean_field.ACTIVATIONS["erf"], np.array([[0.7, -1.2]])
    found = explicit_kernels(rng, unit, x, [1], 1.7, 0.3)
    rng = np.random.default_rng(8)
    w1, b1, w2, _ = rng.standard_normal(4)
    h = np.sqrt(1.7) * w1 * x[0] + np.sqrt(0.3) * b1
    back = np.sqrt(1.7) * w2 * unit.derivative(h)
    grads = np.stack([np.sqrt(1.7) * unit.function(h), np.sqrt(0.3) * np.ones(2), np.sqrt(1.7) * x[0] * back,
                      np.sqrt(0.3) * back])  # fmt: skip
    np.testing.assert_allclose(found, grads.T @ grads, rtol=1e-13)


def test_equal_inputs_stay_equal_at_great_depth():
    """The angle of equal inputs is 0 to rounding, which no arccos of a cosine gives."""
    gram = np.outer([1.0, 3.0], [1.0, 3.0]) / 7
    sigma, theta = mean_field.kernels(np, mean_field.ACTIVATIONS["relu"], gram, 50, 2.0, 0.0)
    np.testing.assert_allclose(sigma, 2 * gram, rtol=1e-13)
    np.testing.assert_allclose(theta, 100 * gram, rtol=1e-6)


# phases


def test_phases():
    found = [mean_field.phase(mean_field.chi(np, "relu", np.asarray(v))) for v in (1.9, 2.0, 2.1)]
    assert found == ["ordered", "edge of chaos", "chaotic"]
    assert mean_field.phase(mean_field.chi(np, "linear", np.asarray(1.0))) == "edge of chaos"
    assert mean_field.chi(np, 0.5, np.asarray(1.6)) == pytest.approx(1.0, rel=1e-15)


@pytest.mark.parametrize("q", [0.0, 1e-8, 1e-3, 0.1, 0.12, 1.0, 30.0])
def test_edge_of_chaos_of_erf(q):
    weight, bias = mean_field.edge_of_chaos(np, np.asarray(q))
    with mpmath.workdps(60):
        v = mpmath.mpf(q)
        truth = v - mpmath.sqrt(1 + 4 * v) / 2 * mpmath.asin(2 * v / (1 + 2 * v))
        assert abs(bias - truth) <= 1e-14 * truth
    assert mean_field.fixed_point(np, weight, bias) == pytest.approx(q, rel=1e-9, abs=1e-9)
    assert mean_field.phase(mean_field.chi(np, "erf", weight, bias)) == "edge of chaos"
    assert mean_field.phase(mean_field.chi(np, "erf", 1.1 * weight, bias)) == "chaotic"
    assert mean_field.phase(mean_field.chi(np, "erf", 0.9 * weight, bias)) == "ordered"


# errors


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"widths": [3, 0]}, r"moments: widths = 0.* must lie in \[1, inf\)"),
        ({"widths": [3, 2.5]}, "moments: widths = 2.5.* must be a whole number"),
        ({"widths": 3}, r"moments: widths has shape \(\)"),
        ({"weight_variance": 0}, "moments: weight_variance = 0"),
        ({"bias_variance": -1}, "moments: bias_variance = -1"),
        ({"weights": "mean"}, "moments: weights = 'mean' is unknown"),
    ],
)
def test_errors_name_value_and_rule(given, message):
    with pytest.raises(ValueError, match=message):
        ntk.moments(**({"widths": [3, 4], "weight_variance": 2.0} | given))


def test_errors_of_mean_field_and_limits():
    with pytest.raises(ValueError, match="named: activation = 'rellu' is unknown; did you mean 'relu'"):
        mean_field.named("rellu")
    with pytest.raises(ValueError, match="kernels: depth = 0 must be an integer from 1 to 100000"):
        mean_field.kernels(np, mean_field.named("relu"), np.eye(2), 0, 2.0, 0.0)
    with pytest.raises(ValueError, match="dispersion: found = 'chaos' is unknown"):
        limits.dispersion(np, "chaos", np.ones(1), np.ones(1), np.ones(1))
