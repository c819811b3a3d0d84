"""The dispersion from a sample: bias against its expansion, the standard error, limits, bad input."""

import numpy as np
import pytest

import linsolve as ls

R, G = 1.5, 2.0  # of the gamma distribution of shape 2: E X^2 / (E X)^2, and E X^3 / (E X E X^2)


def plain(x):
    return np.mean(x**2, axis=0) / np.mean(x, axis=0) ** 2


def corrected_source(x):
    """Return the estimator of appendix C.3 with the prefactor 1/N: each draw by the others."""
    n, first, second = len(x), x.sum(axis=0), (x**2).sum(axis=0)
    a, b = (first - x) / (n - 1), (second - x**2) / (n - 1)
    return np.mean(x**2 / ((n - 1) / (n - 2) * (a**2 - b / (n - 1))), axis=0)


def test_the_bias_is_of_second_order_and_that_of_the_others_as_stated():
    n, x = 40, np.random.default_rng(0).gamma(2.0, size=(40, 60_000))
    found = ls.ntk.estimate_dispersion(x)
    for values, bias, second in (
        (found.value, 0.0, 2), (plain(x), 3 * (R - 1) - 2 * (G - 1), 2), (corrected_source(x), 4 * (R - 1), 20),
    ):  # fmt: skip
        error = values.std(ddof=1) / np.sqrt(len(values))
        assert abs(values.mean() - R * (1 + bias / n)) <= 4 * error + second / n**2, bias
    # the stated standard error is that of the estimates
    assert np.sqrt(np.mean(found.error**2)) == pytest.approx(found.value.std(ddof=1), rel=0.15)


def test_it_agrees_with_the_exact_dispersion_of_random_networks():
    widths = [3, 20, 20]
    drawn = ls.ntk.sampling.layer_by_layer(np.random.default_rng(1), 200_000, widths, 2.0, 0.0)
    found = ls.ntk.estimate_dispersion(drawn.kernels(np.ones(3), np.ones(3))[0])
    log = ls.ntk.moments(widths, 2.0)
    exact = np.exp(log.weights_squared[-1] - 2 * log.weights[-1])
    assert exact > 1.2
    assert abs(found.value - exact) <= 4 * found.error


def test_scales_batches_and_a_constant():
    x = np.random.default_rng(2).gamma(2.0, size=(50, 3))
    both = ls.ntk.estimate_dispersion(x)
    for j, scale in enumerate((1.0, 1e200, 1e-200)):
        np.testing.assert_allclose(
            ls.ntk.estimate_dispersion(scale * x[:, j]), [both.value[j], both.error[j]], rtol=1e-10
        )
    assert ls.ntk.estimate_dispersion(np.full(5, -3.0)) == (1.0, 0.0)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match=r"^estimate_dispersion: kernels has shape \(2,\) but needs at least 3"):
        ls.ntk.estimate_dispersion([1.0, 2.0])
    with pytest.raises(ValueError, match=r"^estimate_dispersion: mean of kernels = 0 must not vanish"):
        ls.ntk.estimate_dispersion([1.0, -1.0, 2.0, -2.0])
    with pytest.raises(ValueError, match=r"^estimate_dispersion: kernels = nan"):
        ls.ntk.estimate_dispersion([1.0, np.nan, 2.0])
