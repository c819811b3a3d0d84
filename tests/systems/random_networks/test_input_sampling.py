"""The sampler of the kernel of several inputs against explicit networks, exact moments, and bounds."""

import numpy as np
import pytest
from test_standard_weights import explicit, inputs

import linsolve as ls
from linsolve.systems.random_networks import input_sampling

GRAM = np.array([[1.2, 0.3], [0.3, 0.8]])


def moments(outputs, kernel):
    """Return quantities whose means determine the joint law of outputs and kernel to second order."""
    a, b, c = kernel[:, 0, 0], kernel[:, 0, 1], kernel[:, 1, 1]
    f, g = outputs.T
    return np.stack([a, b, c, b * b, a * b, a * c, f * g, f * f * b, f * g * b])


def scores(name, widths, variance, bias, count, seed):
    rng = np.random.default_rng(seed)
    drawn = ls.ntk.sample_kernels(rng, count, name, GRAM, widths, variance, bias)
    found = moments(drawn.outputs, drawn.weights + drawn.biases)
    expected = moments(*explicit(name, inputs(widths[0]), widths, variance, bias, count, rng))
    error = np.hypot(found.std(axis=1), expected.std(axis=1)) / np.sqrt(count)
    return (found.mean(axis=1) - expected.mean(axis=1)) / error


@pytest.mark.parametrize(("name", "bias"), [("relu", 0.0), ("relu", 0.3), ("tanh", 0.2), ("linear", 0.0)])
@pytest.mark.quick(2)
def test_it_has_the_law_of_explicit_networks(name, bias):
    found = scores(name, [3, 5, 4], 1.4, bias, 40_000, 1)
    assert np.all(np.abs(found) <= 4), found


def test_a_wrong_backward_pass_is_seen(monkeypatch):
    # the mutant draws the weights afresh, although h^l is known
    def fresh(rng, unit, h, s, bias, q, b):
        delta = unit.derivative(h) * input_sampling._normal(rng, h.shape[1], s * q)
        back = np.swapaxes(delta, -1, -2)
        return back @ delta, back @ h

    monkeypatch.setattr(input_sampling, "_back", fresh)
    assert np.max(np.abs(scores("relu", [3, 5, 4], 1.4, 0.0, 40_000, 1))) > 6


@pytest.mark.exhaustive
def test_the_diagonal_has_the_exact_moments():
    widths, variance = [4, 8, 8, 8], 2.0
    drawn = ls.ntk.sample_kernels(2, 60_000, "relu", np.eye(2), widths, variance, 0.0)
    log, theta = ls.ntk.moments(widths, variance), drawn.weights / 4  # moments are those of |x|^2 = 1
    for values, exact in ((theta[:, 0, 0], log.weights), (theta[:, 1, 1] ** 2, log.weights_squared)):
        assert abs(values.mean() - np.exp(exact[-1])) <= 4 * values.std() / np.sqrt(len(values))
    found, exact = ls.ntk.estimate_dispersion(drawn.weights[:, 0, 0]), log.weights_squared[-1] - 2 * log.weights[-1]
    assert abs(found.value - np.exp(exact)) <= 4 * found.error


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_theorem_3_3_bounds_the_ratio_and_the_mean_field_is_its_limit(rho):
    gram, widths = np.array([[1.0, rho], [rho, 1.0]]), np.full(6, 120)
    drawn = ls.ntk.sample_kernels(3, 1500, "relu", gram, widths, 2.0, 0.0)
    mean = (drawn.weights + drawn.biases).mean(axis=0)
    ratio = mean[0, 1] / mean[0, 0]
    wide = ls.ntk.standard_kernel(np, "relu", gram, widths, 2.0, 0.0)
    theta = wide.weights + wide.biases
    assert 1 / 4 <= ratio <= 1
    assert ratio == pytest.approx(theta[0, 1] / theta[0, 0], abs=0.03)


def test_equal_and_opposite_inputs():
    gram = np.array([[1.0, 1.0, -1.0], [1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]])
    drawn = ls.ntk.sample_kernels(4, 50, "relu", gram, [3, 6, 6], 2.0, 0.0)
    np.testing.assert_allclose(drawn.weights[:, 0, 0], drawn.weights[:, 0, 1], rtol=1e-6)
    np.testing.assert_allclose(drawn.outputs[:, 0], drawn.outputs[:, 1], atol=1e-6)
    line = ls.ntk.sample_kernels(4, 50, "linear", gram, [3, 6, 6], 2.0, 0.0)
    np.testing.assert_allclose(line.weights[:, 0, 0], -line.weights[:, 0, 2], rtol=1e-6)
    again = ls.ntk.sample_kernels(4, 50, "linear", gram, [3, 6, 6], 2.0, 0.0)
    np.testing.assert_array_equal(line.weights, again.weights)


def test_bad_input_is_refused():
    good = {"rng": 0, "count": 3, "activation": "relu", "gram": np.eye(2), "widths": [2, 3], "weight_variance": 2.0}
    for changes, message in (
        ({"gram": 2 - np.eye(2)}, "sample_kernels: gram has the eigenvalue -1, which must not be negative"),
        ({"count": 0}, "sample_kernels: count = 0 must be a positive integer"),
        ({"widths": [2, 0]}, r"sample_kernels: widths = 0.0 .* must lie in \[1"),
        ({"weight_variance": 0.0}, r"sample_kernels: weight_variance = 0.0 must lie in \[1e-300, inf\)"),
        ({"activation": "gelu"}, "activation = 'gelu' is unknown"),
        ({"count": 10**15}, "sample_kernels: count = .* more than the memory"),
    ):
        with pytest.raises(ValueError, match=message):
            ls.ntk.sample_kernels(**{**good, "bias_variance": 0.0, **changes})


def test_sizes_beyond_doubles_are_named():
    cases = [("gram", ("relu", np.eye(2) * 1e-320)), ("activation", (1e200, np.eye(2)))]
    for name, (unit, gram) in cases:
        with pytest.raises(OverflowError, match=f"sample_kernels: {name} of magnitude"):
            ls.ntk.sample_kernels(0, 50, unit, gram, [5, 10, 10], 2.0, 0.0)
