"""Moments of the kernel with random biases: the law over networks, special cases, sixty digits, extreme depth."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from mutants.ntk import LAWS

import linsolve as ls
from linsolve import arithmetic
from linsolve.systems.random_networks.biased_moments import _moments


@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.exhaustive) for k in (1, 2, 3))])
def test_law_holds(seed):
    report = ls.verify(ls.laws.NTKMomentsWithBiases.example(np.random.default_rng(seed)))
    assert report.ok, str(report)


@pytest.mark.parametrize("name", ["biases start at zero", "dispersion of zero biases"])
def test_wrong_formula_is_rejected(name):
    mutant = LAWS[name]
    assert mutant.seen_by in ls.verify(mutant.law.example(np.random.default_rng(mutant.seed))).failed


@pytest.mark.parametrize("slope", [0.3, 1.0, -0.5])
def test_tiny_biases_give_the_moments_of_zero_biases(slope):
    widths = np.array([3, 5, 4, 6, 2])
    found = ls.ntk.moments_with_biases(widths, 1.7, 1e-250, slope, 1 / 3)
    zero = ls.ntk.moments(widths, 1.7, slope)
    np.testing.assert_allclose(found.mean, zero.log_mean(np), rtol=0, atol=1e-14)
    np.testing.assert_allclose(found.square, zero.log_square(np), rtol=0, atol=1e-14)


def test_two_linear_layers_by_hand():
    """K = (w x + b)^2 + 1 + u^2 (x^2 + 1) with one unit: E K and E K^2 by Gaussian moments."""
    v, b, x = Fraction(3, 2), Fraction(1, 3), Fraction(2)
    h2 = v * x**2 + b
    mean, square = h2 + 1 + v * (x**2 + 1), 3 * h2**2 + 2 * h2 + 1 + 3 * v**2 * (x**2 + 1) ** 2
    square += 2 * (h2 + 1) * v * (x**2 + 1)
    found = ls.ntk.moments_with_biases([1, 1], float(v), float(b), 1.0, float(x**2))
    assert np.exp(found.mean[-1]) == pytest.approx(float(mean), rel=1e-14)
    assert np.exp(found.square[-1]) == pytest.approx(float(square), rel=1e-14)


def test_sixty_digits_agree():
    widths, xp = [7, 30, 12, 50, 9], arithmetic.precise(60)
    values = (1.5, 0.7, 0.0, 7.0)
    exact = _moments(xp, xp.asarray([float(n) for n in widths]), *(xp.asarray(v) for v in values))
    found = ls.ntk.moments_with_biases(widths, 1.5, 0.7)
    for a, b in zip(found, exact, strict=True):
        np.testing.assert_allclose(a, arithmetic.to_numpy(b), rtol=0, atol=1e-13)


def test_wide_networks_have_the_kernel_of_infinite_width():
    widths = np.full(6, 10**7)
    found = np.exp(ls.ntk.moments_with_biases(widths, 1.8, 0.4).mean[-1])
    kernel = ls.ntk.standard_kernel(np, "relu", np.eye(1), widths, 1.8, 0.4)
    assert found == pytest.approx(float(kernel.weights[0, 0] + kernel.biases[0, 0]), rel=1e-6)


def test_great_depth_stays_in_range_and_zero_biases_are_refused():
    found = ls.ntk.moments_with_biases(np.full(3000, 10), [0.5, 5.0], [1.0, 2.0]).log_dispersion()
    assert np.all(np.isfinite(found))
    assert found[1, -1] > 1000
    with pytest.raises(ValueError, match=r"^moments_with_biases: bias_variance = 0.0 must lie in \(0, inf\)"):
        ls.ntk.moments_with_biases([3, 4], 2.0, 0.0)


@pytest.mark.parametrize("name", ["weight_variance", "bias_variance", "slope"])
def test_moments_beyond_doubles_are_one_error_without_a_warning(name):
    given = {"widths": [4, 5, 6], "weight_variance": 1.5, "bias_variance": 1.0, "slope": 0.0} | {name: 1e300}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(OverflowError, match=f"NTKMomentsWithBiases: {name} of magnitude 1e\\+300"):
            ls.laws.NTKMomentsWithBiases(**given).prediction(np)
