"""The tangent kernel and the first step of gradient descent: derivatives, exact means, limits, the printed proof."""

from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from mutants.ntk import OnlyNeighboringLayers, between
from scipy.integrate import quad

import linsolve as ls
from linsolve import ntk
from linsolve.systems.random_networks import first_step, limits, printed

SLOPES = (0.0, 0.25, 1.0, -0.5)


def numbers(*values):
    return [np.asarray(v, dtype=float) for v in values]


# the derivative


@pytest.mark.parametrize("slope", SLOPES)
def test_the_derivative_is_that_of_a_step_taken(slope):
    """One step of gradient descent that flips no gate, the kernel computed anew; the rest is of second order."""
    rng = np.random.default_rng(5)
    omega, beta = rng.uniform(0.5, 2, (2, 4))
    networks = first_step.draw(rng, 40, [3, 6, 8, 7], 1.5, slope, 0.8)
    here = networks.evaluate()
    kernel = here.kernel(omega, beta)
    slope_of_kernel = -(here.output - 0.7) * first_step.tangent(networks, here, omega, beta)
    moved = [(networks.step(r, 0.7, omega, beta).evaluate().kernel(omega, beta) - kernel) / r for r in (2e-6, 1e-6)]
    size = np.abs(slope_of_kernel).max()
    assert np.abs(moved[1] - slope_of_kernel).max() < 1e-4 * size
    np.testing.assert_allclose(2 * moved[1] - moved[0], slope_of_kernel, rtol=0, atol=1e-8 * size)


def test_kernels_are_those_of_the_other_sampler():
    rng = np.random.default_rng(2)
    here = first_step.draw(rng, 3, [3, 5, 4], 1.7, 0.2, 0.6).evaluate()
    x, d = (np.stack([np.sum(v**2, axis=-1) for v in part], axis=-1) for part in here[:2])
    omega, beta = rng.uniform(0.5, 2, (2, 3))
    weights, biases = ntk.sampling.Norms(x, d).kernels(omega, beta)
    np.testing.assert_allclose(here.kernel(omega, beta), weights + biases, rtol=1e-14)
    np.testing.assert_allclose(x[:, 0], 0.6, rtol=1e-14)


def test_a_step_of_one_hidden_layer_of_linear_units():
    """Without biases Theta changes by -4 g |x|^2 f + g^2 |x|^2 Theta, so that a large step raises it."""
    networks = first_step.draw(np.random.default_rng(0), 50, [3, 4], 1.0, 1.0, 0.9)
    one, none = np.ones(2), np.zeros(2)
    here = networks.evaluate()
    kernel, g = here.kernel(one, none), 0.3 * (here.output + 0.4)
    change = networks.step(0.3, -0.4, one, none).evaluate().kernel(one, none) - kernel
    np.testing.assert_allclose(change, -4 * g * 0.9 * here.output + g**2 * 0.9 * kernel, rtol=0, atol=1e-13)
    large = networks.step(300.0, -0.4, one, none).evaluate().kernel(one, none)
    assert np.all(large > kernel)


# the mean


@pytest.mark.parametrize(("seed", "setting"), list(enumerate(product(([3, 4, 6], [2, 9], [4, 20, 12, 15]), SLOPES))))
@pytest.mark.quick(4)
def test_the_mean_is_that_of_sampled_networks(seed, setting):
    widths, slope = setting
    rng = np.random.default_rng(seed)
    omega, beta, (variance, norm) = *rng.uniform(0.5, 2, (2, len(widths))), rng.uniform(0.8, 2, 2)
    networks = first_step.draw(rng, 20_000, widths, variance, slope, norm)
    here = networks.evaluate()
    fall = (here.output - 0.2) * first_step.tangent(networks, here, omega, beta)
    exact = np.exp(first_step.log_change(np, *numbers(widths, variance, slope, omega, beta, norm))[-1])
    assert abs(fall.mean() - exact) < 3.5 * fall.std(ddof=1) / np.sqrt(len(fall))


ONE_UNIT = {"widths": [1, 1], "weight_variance": 2.0, "slope": 0.0}  # with omega = beta = (1, 1)


@pytest.mark.parametrize("target", [0.0, 3.0])
def test_one_unit_with_its_gate_held(target):
    """The mean derivative is -16 for every target."""
    law = ls.laws.NTKFirstStep(**ONE_UNIT, omega=[1.0, 1.0], beta=[1.0, 1.0], target=target)
    assert law.prediction(np)["change"] == pytest.approx(-16, rel=1e-14)
    networks = first_step.draw(np.random.default_rng(3), 200_000, **ONE_UNIT)
    here = networks.evaluate()
    found = -(here.output - target) * first_step.tangent(networks, here, np.ones(2), np.ones(2))
    assert abs(found.mean() + 16) <= 3.5 * found.std(ddof=1) / np.sqrt(len(found))


def mean_of_a_step(rate, target):
    """Mean change of one unit's kernel over the rate by the midpoint rule; an inactive unit keeps its kernel."""
    one, v = np.ones(2), (np.arange(500) - 249.5) / 28
    # cells of a tenth of the rate, where gates flip, then cells of 1/150
    cell = np.repeat([rate / 10, 1 / 150], [600, 1400])
    h = np.cumsum(cell) - cell / 2
    share = np.outer(cell * np.exp(-(h**2) / 4), np.exp(-(v**2) / 4) / 28).ravel() / (4 * np.pi)
    h, v = (a.reshape(-1, 1, 1) for a in np.meshgrid(h, v, indexing="ij"))
    none = np.zeros((h.size, 1))
    networks = first_step.Networks([h, v], [none, none], none + 1, 0.0)
    both = networks.step(rate, target, one, one), networks
    moved, here = (each.evaluate().kernel(one, one) for each in both)
    return np.sum(share * (moved - here)) / rate


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", [0.5, 1.0, 3.0])
def test_one_unit_whose_gate_flips(target):
    """A step changes the kernel by -16 - 8 |y|/pi times the rate: the gates that flip add to the law."""
    steps = [mean_of_a_step(rate, target) for rate in (2e-3, 1e-3)]
    assert 2 * steps[1] - steps[0] == pytest.approx(-16 - 8 * target / np.pi, rel=2e-3)


@pytest.mark.parametrize("slope", [Fraction(0), Fraction(1, 4), Fraction(1)])
@pytest.mark.parametrize("widths", [[3, 4, 6, 5], [7], [2, 1], [5, 1, 3, 2, 2, 9, 4]])
def test_the_recursion_is_the_double_sum(widths, slope):
    variance, norm = Fraction(7, 4), Fraction(5, 8)
    omega, beta = ([Fraction((k + shift) % 6, 8) for k in range(len(widths))] for shift in (3, 5))
    a, c = variance * (1 + slope**2) / 2, 6 * (1 + slope**4) / (1 + slope**2) ** 2 - 1
    given = numbers(widths, variance, slope, omega, beta, norm)
    logs = first_step.log_change(np, *given)

    def chain(low, high, shift):
        found = Fraction(1)
        for n in widths[low + 1 : high + 1]:
            found *= 1 + shift / n
        return found

    for depth in range(1, len(widths) + 1):
        last = depth - 1
        p = [norm * a**last * omega[k] * Fraction(widths[k], widths[0]) for k in range(depth)]
        b = [beta[k] * a ** (last - k) for k in range(depth)]
        total = sum(
            4 * p[k] * (p[m] * chain(0, m, c) + b[m]) * (chain(m, k, c) - chain(m, k, Fraction(-1))) / 3
            * chain(k, last, c)
            for k in range(depth) for m in range(k)
        )  # fmt: skip
        assert np.exp(logs[last]) == pytest.approx(float(total), rel=1e-13)


def test_batches_are_their_networks_one_by_one():
    widths, one = np.array([[3.0, 4, 6], [5, 2, 2]]), np.ones((2, 3))
    variance, slope, norm = numbers([1.5, 2.5], [0.0, 0.5], [1.0, 2.0])
    together = first_step.log_change(np, widths, variance, slope, one, one, norm)
    for k in range(2):
        alone = first_step.log_change(np, widths[k], variance[k], slope[k], one[k], one[k], norm[k])
        np.testing.assert_allclose(np.exp(together[k]), np.exp(alone), rtol=1e-14)


# the printed proof


def test_one_hidden_layer_has_neighbors_only():
    """So that the mutant is wrong in what it leaves out, and in nothing else."""
    for cls in (ls.laws.NTKFirstStep, OnlyNeighboringLayers):
        law = cls(widths=[3, 5], weight_variance=1.3, slope=0.0, omega=[0.7, 1.2], beta=[1.1, 0.4], norm_squared=1.4)
        a = 1.3 / 2
        by_hand = 4 * 1.2 * 2 * a**2 / 3 * (0.7 * 1.4**2 + 1.1 * 1.4)
        assert law.prediction(np)["change"] == pytest.approx(-by_hand, rel=1e-14)


def test_the_printed_lower_bound_may_exceed_what_it_bounds():
    """4 |x|^4 a^(2L-1)/n_0 sum prod (1 + 1/n) prod (1 + 5/n), in networks of one hidden layer with a > 4."""
    a = 5.0
    exact = np.exp(first_step.log_change(np, *numbers([6, 6], 2 * a, 0, [1, 1], [1, 1], 1))[-1])
    assert 4 * a**3 / 6 > exact
    assert exact == pytest.approx(16 * a**2 / 6, rel=1e-14)


@pytest.mark.parametrize("gain", [0.5, 0.7])
def test_the_ordered_phase_falls_as_the_gain_to_the_depth(gain):
    depths = np.array([60, 61])
    given = numbers(np.full(61, 100), 2 * gain, 0, np.ones(61), np.ones(61), 1)
    falls = np.exp(first_step.log_change(np, *given))[depths - 1]
    assert falls[1] / falls[0] == pytest.approx(gain, rel=2e-3)


@pytest.mark.parametrize("variance", [1.3, 2.0, 3.0])
@pytest.mark.parametrize("widths", [[3, 5, 5, 5, 5], [4, 7, 3, 9], [6]])
def test_printed_sums_are_11_to_15(widths, variance):
    n = np.array(widths, dtype=float) / widths[0]
    a, depth = variance / 2, len(widths)
    grown, coupled = between(np.array(widths, dtype=float), 5), between(np.array(widths, dtype=float), 1)
    layers = np.arange(1, depth + 1)
    weights = biases = both = 0.0
    for i, j in product(range(depth), range(depth)):
        if i == j:
            weights += grown[0, -1] * n[i] ** 2
            biases += grown[i, -1] / a ** (2 * layers[i])
            both += n[i] * grown[i, -1] / a ** layers[i]
        elif i < j:
            weights += grown[0, -1] * n[i] * n[j] * coupled[i, j]
            biases += 2 * grown[j, -1] / a ** (layers[i] + layers[j])
            ratio = n[j] / n[i] * coupled[i, j] + a ** layers[i] / a ** layers[j]
            both += grown[j, -1] / a ** layers[i] * n[i] * ratio
    square = weights * a ** (2 * depth - 2) + 2 * both * a ** (2 * depth - 1) + biases * a ** (2 * depth)
    mean = a ** (depth - 1) * n.sum() + np.sum(a ** (depth - layers))
    assert printed.finite(np.array(widths, dtype=float), variance)[-1] == pytest.approx(square / mean**2, rel=1e-13)


def test_printed_sums_are_no_dispersion():
    """Below 1, which no distribution has; at great depth neither they nor the powers in them overflow."""
    widths = np.full(10, 100.0)
    assert printed.finite(widths, 2.0).min() < 0.97
    assert np.exp(ntk.moments(widths, 2.0).log_dispersion(np)).min() >= 1 - 1e-12
    assert np.all(np.isfinite(printed.finite(np.full(1000, 100.0), 9.0)))
    assert np.all(np.isfinite(printed.finite(np.full(1000, 100.0), 0.1)))


# limits


def integral(f):
    """The integral over pairs of layers s < t of the unit interval."""
    return quad(lambda t: quad(lambda s: f(s, t), 0, t)[0], 0, 1)[0]


@pytest.mark.parametrize("c", [2.0, 5.0])
@pytest.mark.parametrize("ratio", [0.05, 0.7])
def test_limits_of_the_first_step_are_integrals_over_layers(ratio, c):
    x = c * ratio

    def mixed(u):
        return (np.exp(x * u) - np.exp(-ratio * u)) / 3

    weights = integral(lambda s, t: np.exp(x * (1 - t + s)) * mixed(t - s))
    biases = integral(lambda s, t: np.exp(x * (1 - t)) * mixed(t - s))
    alpha = 0.6
    found = {name: limits.first_step(np, name, *numbers(ratio, c, alpha, 0.5)) for name in limits.PHASES}
    assert found["chaotic"] == pytest.approx(4 * weights / alpha, rel=1e-9)
    assert found["edge of chaos"] == pytest.approx(4 * (weights + alpha * biases) / alpha / (1 + alpha), rel=1e-9)
    assert found["ordered"] == pytest.approx(4 * (c + 1) / 3 / alpha / 0.25, rel=1e-14)


@pytest.mark.parametrize("nu", [-30.0, -3.5, -1e-3, 0.0, 0.4, 3.0, 25.0])
def test_the_crossover_is_an_integral_over_layers(nu):
    ratio, alpha, x = 0.7, 0.8, 3.5

    def coupled(u):
        return np.exp(x * u) / 3 + 2 / 3 * np.exp(-ratio * u)

    def gain(s):
        return alpha * np.exp(nu * (1 - s) - max(nu, 0.0))

    p = np.exp(min(nu, 0.0))
    square = 2 * integral(
        lambda s, t: (
            np.exp(x * (1 - t))
            * (p**2 * np.exp(x * s) * coupled(t - s) + p * gain(t) + p * gain(s) * coupled(t - s) + gain(s) * gain(t))
        )
    )
    truth = square / (p + quad(gain, 0, 1)[0]) ** 2
    assert limits.crossover(np, *numbers(ratio, 5, alpha, nu)) == pytest.approx(truth, rel=1e-7)


@pytest.mark.parametrize("ratio", [0.05, 0.2, 0.6])
def test_the_crossover_ends_in_the_three_phases(ratio):
    """At the edge at once, and on both sides as 1/nu."""
    given = numbers(ratio, 5, 0.8)
    edge = limits.dispersion(np, "edge of chaos", *given)
    assert limits.crossover(np, *given, np.asarray(0.0)) == pytest.approx(edge, rel=1e-13)
    for sign, name in ((-1, "ordered"), (1, "chaotic")):
        end = limits.dispersion(np, name, *given)
        near, far = (limits.crossover(np, *given, np.asarray(sign * nu)) / end - 1 for nu in (150.0, 300.0))
        assert near / far == pytest.approx(2, rel=0.15)
        assert abs(far) < 0.1


def test_differences_have_full_accuracy_wherever_their_points_meet():
    points = (-30.0, -2.5, -1.0, -0.3, -1e-6, 0.0, 1e-9, 0.4, 1.0, 2.5, 2.5 + 1e-9, 30.0)
    for x, y in product(points, points):
        steep, flat = exact_difference(x, y), exact_difference(x, x)
        assert limits._steepness(np, *numbers(x, y)) == pytest.approx(float(steep), rel=2e-14)
        if x > 0 > y:  # all that the limit of the first step needs, x = c lambda and y = -lambda
            assert limits._bent(np, *numbers(x, y)) == pytest.approx(float(flat - steep), rel=1e-12)


def exact_difference(x, y):
    """The divided difference of phi_1 to 25 digits or more."""
    with mpmath.workdps(80):
        u, v = mpmath.mpf(x), mpmath.mpf(y) + (mpmath.mpf(10) ** -25 if x == y else 0)
        one = [mpmath.expm1(z) / z if z else mpmath.mpf(1) for z in (u, v)]
        return (one[0] - one[1]) / (u - v)


@pytest.mark.parametrize("z", [-40.0, -3.0, -1.0, -0.2, 0.0, 1e-8, 0.9, 2.0])
def test_phi_3(z):
    with mpmath.workdps(60):
        v = mpmath.mpf(z)
        truth = (mpmath.expm1(v) - v - v**2 / 2) / v**3 if z else mpmath.mpf(1) / 6
    assert limits.phi_3(np, np.asarray(z)) == pytest.approx(float(truth), rel=1e-14)


def test_errors():
    with pytest.raises(ValueError, match="first_step: found = 'chaos' is unknown"):
        limits.first_step(np, "chaos", *numbers(1, 5, 1, 1))


def test_draws_that_take_minutes_are_refused():
    with pytest.raises(ValueError, match=r"draw: widths = 100000000, 3 and count = 5 must have a product of at most"):
        first_step.draw(np.random.default_rng(0), 5, [3, 10**8, 2], weight_variance=1.5, slope=0.0)


def test_the_printed_sum_of_two_layers_by_hand():
    """2 a^5 sum_l (prod of later layers) at a = 0.7 and n = 2: 2 * 0.16807 * (1 + 1/2) and 2 * 0.16807 * (1 + 5/2)."""
    (formula,) = (each for each in ls.published.find() if each.name.endswith("neighboring_layers"))
    np.testing.assert_allclose(formula.check().printed, [0.50421, 1.17649, 0.0], rtol=1e-12)


def test_widths_beyond_a_billion_are_refused():
    law = ls.laws.NTKDispersionLimit(ratio=0.5, biases=1.0)
    with pytest.raises(ValueError, match=r"NTKDispersionLimit.exact: 1 / small = 1.5e\+09 must be a positive integer"):
        law.exact(np, 1 / 1.5e9)
