"""Kernels with standard weights and variances of trained outputs: explicit networks, dense matrices, limits; tanh."""

from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy.integrate import dblquad

import linsolve as ls
from linsolve import arithmetic
from linsolve.systems.random_networks import hyperbolic_tangent, mean_field

GRAM = np.array([[1.2, 0.3], [0.3, 0.8]])
PHI = {
    "linear": (lambda h: h, lambda h: 1 + 0 * h),
    "relu": (lambda h: np.maximum(h, 0), lambda h: (h > 0) * 1.0),
    "tanh": (np.tanh, lambda h: 1 - np.tanh(h) ** 2),
}


def explicit(name, x, widths, variance, bias, count, rng):
    """Return outputs and tangent kernels of explicit networks with standard weights, by backpropagation."""
    phi, slope = PHI[name]
    sizes, inputs, slopes, layers = [*widths, 1], [np.broadcast_to(x, (count, *x.shape))], [], []
    for before, after in pairwise(sizes):
        w = rng.normal(size=(count, after, before)) * np.sqrt(variance / before)
        h = w @ inputs[-1] + np.sqrt(bias) * rng.normal(size=(count, after, 1))
        layers.append(w)
        slopes.append(slope(h))
        inputs.append(phi(h))
    output, delta, kernel = h[:, 0, :], np.ones((count, 1, x.shape[1])), 0
    for k in range(len(layers) - 1, -1, -1):
        turned = np.swapaxes(inputs[k], -1, -2)
        kernel = kernel + (np.swapaxes(delta, -1, -2) @ delta) * (turned @ inputs[k] + 1)
        if k:
            delta = slopes[k - 1] * (np.swapaxes(layers[k], -1, -2) @ delta)
    return output, kernel


def inputs(n):
    """Return two inputs of n entries with the products of GRAM."""
    rows = np.linalg.qr(np.random.default_rng(0).normal(size=(n, 2)))[0]
    return np.sqrt(n) * rows @ np.linalg.cholesky(GRAM).T


@pytest.mark.parametrize(
    ("name", "entries"), [("linear", [(0, 0), (0, 1), (1, 1)]), ("relu", [(0, 0), (1, 1)])], ids=["linear", "relu"]
)
@pytest.mark.parametrize("bias", [0.0, 0.3])
@pytest.mark.quick(1)
def test_the_mean_is_exact_at_every_width(name, entries, bias):
    widths, rng = [3, 5, 4], np.random.default_rng(1)
    output, kernel = explicit(name, inputs(3), widths, 1.4, bias, 100_000, rng)
    found = ls.ntk.standard_kernel(np, name, GRAM, widths, 1.4, bias)
    theta = found.weights + found.biases
    for i, j in entries:
        for drawn, exact in ((kernel[:, i, j], theta[i, j]), (output[:, i] * output[:, j], found.output[i, j])):
            assert abs(drawn.mean() - exact) <= 4 * drawn.std() / np.sqrt(len(drawn)), (i, j)
    # the mutant without the share of the biases, as Lemma 2 prints it, is seen at these widths
    drawn = kernel[:, 0, 0]
    assert abs(drawn.mean() - found.weights[0, 0]) > 20 * drawn.std() / np.sqrt(len(drawn))


@pytest.mark.parametrize("name", ["relu", "tanh"])
def test_pairs_of_wide_networks(name):
    widths = [4, 150, 150]
    _, kernel = explicit(name, inputs(4), widths, 1.6, 0.2, 400, np.random.default_rng(2))
    found = ls.ntk.standard_kernel(np, name, GRAM, widths, 1.6, 0.2)
    theta = found.weights + found.biases
    np.testing.assert_allclose(kernel.mean(axis=0), theta, rtol=0.03)


def test_widths_of_one_size_are_the_kernel_with_ntk_weights():
    # n_l = sigma_w^2 n times, biases by sigma_b^2: the NTK weights have the same terms
    variance, bias, depth = 1.5, 0.4, 4
    found = ls.ntk.standard_kernel(np, "erf", GRAM, np.ones(depth), variance, bias)
    theta = mean_field.kernels(np, "erf", GRAM, depth, variance, bias)[1]
    np.testing.assert_allclose(variance * found.weights + bias * found.biases, theta, rtol=1e-13)


def ratio(name, depth, variance, bias, gram=0.5):
    kernel = ls.ntk.standard_kernel(np, name, [[1.0, gram], [gram, 1.0]], np.ones(depth), variance, bias).weights
    return kernel[0, 0] / kernel[0, 1]


@pytest.mark.exhaustive
def test_figure_6_tends_to_4_to_7_quarters_to_3_and_to_1():
    near, far = (abs(ratio("relu", depth, 2.0, 0.0) - 4) for depth in (400, 4000))
    assert far <= 0.02
    assert far <= near / 4
    near, far = (abs(ratio("relu", depth, 2.0, 0.1) - 1.75) for depth in (400, 4000))
    assert far <= 0.06
    assert far <= near / 2
    assert ratio("relu", 400, 1.2, 0.1) == pytest.approx(1.0, abs=1e-6)
    edge = mean_field.edge_of_chaos(np, np.array(1.0))
    assert ratio("erf", 4000, *edge) == pytest.approx(3.0, abs=0.03)
    assert ratio("erf", 40, 3.0, 0.5) > 10 * ratio("erf", 20, 3.0, 0.5) > 100


# Theorem 3


def dense(samples, q, pair):
    return pair + (q - pair) * np.eye(samples + 1)


@pytest.mark.parametrize("samples", [1, 2, 7])
@pytest.mark.parametrize("t", [0.0, 0.3, 2.0, np.inf])
def test_theorem_3_at_all_times_is_that_of_the_matrices(samples, t):
    q, q_pair, theta, theta_pair = 1.3, 0.4, 5.0, 1.5
    found = ls.ntk.equicorrelated_variance(samples, q, q_pair, theta, theta_pair, t)
    K, kernel = dense(samples, q, q_pair), dense(samples, theta, theta_pair)
    assert ls.ntk.trained_variance(K, kernel, samples, t)[0] == pytest.approx(float(found), rel=1e-14)
    # independent: a dense exponential and inverse
    X = slice(0, samples)
    decay = mpmath.expm(mpmath.matrix((-kernel[X, X] * min(t, 1e3) / samples).tolist()))
    decay = np.array(decay.tolist(), dtype=float)
    weights = np.linalg.solve(kernel[X, X], (np.eye(samples) - decay) @ kernel[X, samples])
    expected = K[-1, -1] - 2 * weights @ K[X, samples] + weights @ K[X, X] @ weights
    assert float(found) == pytest.approx(expected, rel=1e-13)
    if t == np.inf:  # as printed
        a = samples / (theta / theta_pair + samples - 1)
        assert float(found) == pytest.approx((1 + a**2 / samples) * (q - q_pair) + (a - 1) ** 2 * q_pair, rel=1e-14)
    if t == 0:
        assert float(found) == q


def test_trained_variances_are_those_of_simulated_outputs():
    rng = np.random.default_rng(4)
    x, S, t = rng.normal(size=(9, 6)), 6, 1.5
    output, kernel = mean_field.kernels(np, "relu", x @ x.T / 6, 3, 1.7, 0.2)
    moved, h = np.eye(9), t / 2000  # the map of initial outputs to later ones, for targets 0, by Runge-Kutta steps

    def rate(f):
        return -kernel[:, :S] @ f[:S] / S

    for _ in range(2000):
        k1 = rate(moved)
        k2 = rate(moved + h / 2 * k1)
        k3 = rate(moved + h / 2 * k2)
        moved = moved + h / 6 * (k1 + 2 * k2 + 2 * k3 + rate(moved + h * k3))
    expected = np.diag(moved @ output @ moved.T)[S:]
    np.testing.assert_allclose(ls.ntk.trained_variance(output, kernel, S, t), expected, rtol=1e-11)


def test_a_minimum_where_the_tangent_kernel_is_flatter_than_the_covariance():
    t = np.linspace(0, 60, 2000)
    falling, rising = (ls.ntk.equicorrelated_variance(5, 1.0, 0.5, 1.0, pair, t) for pair in (0.2, 0.9))
    assert np.all(np.diff(falling) <= 0)
    assert rising.min() < rising[-1] - 1e-3
    best = 1 - 0.5 - 0.5 * 5 / (1 / 0.5 + 4) + 0.5  # q - q_sr A*, the posterior variance
    assert rising.min() == pytest.approx(best, abs=1e-5)


# tanh


@pytest.mark.parametrize(
    ("s11", "s22", "s12"), [(1.0, 1.0, 0.5), (0.3, 2.0, -0.4), (1.75, 1.75, 1.75), (0.0, 1.0, 0.0)]
)
@pytest.mark.quick(1)
def test_tanh_averages_by_adaptive_quadrature(s11, s22, s12):
    rest = max(s11 * s22 - s12**2, 0)
    a, b = (s12 / np.sqrt(s11), np.sqrt(rest / s11)) if s11 else (0.0, np.sqrt(s22))

    def mean(f):
        def inside(z2, z1):
            return f(np.sqrt(s11) * z1) * f(a * z1 + b * z2) * np.exp(-(z1**2 + z2**2) / 2) / (2 * np.pi)

        return dblquad(inside, -9, 9, -9, 9, epsabs=1e-11, epsrel=1e-11)[0]

    found = hyperbolic_tangent.averages(np, *map(np.array, (s11, s22, s12)))
    assert float(found[0]) == pytest.approx(mean(np.tanh), abs=1e-9)
    assert float(found[1]) == pytest.approx(mean(lambda u: np.cosh(u) ** -2), abs=1e-9)


def test_tanh_to_fifty_digits_and_its_edge_of_chaos():
    xp = arithmetic.precise(50)
    for q in (1e-8, 0.3, 3.0, 40.0):
        for a, b in zip(
            hyperbolic_tangent.line(np, np.array(q)), hyperbolic_tangent.line(xp, xp.asarray(q)), strict=True
        ):
            assert float(a) == pytest.approx(float(arithmetic.to_numpy(b)), rel=4e-15)
    exact = mpmath.quad(lambda z: mpmath.tanh(mpmath.sqrt(3) * z) ** 2 * mpmath.npdf(z), [-12, -3, 0, 3, 12])
    assert float(hyperbolic_tangent.line(np, np.array(3.0))[0]) == pytest.approx(float(exact), rel=1e-14)
    edge = mean_field.edge_of_chaos(np, np.array([0.0, 3.036396394623702968]), "tanh")
    np.testing.assert_allclose(edge.weight_variance, [1.0, 3.443210912265440468], rtol=1e-14)
    np.testing.assert_allclose(edge.bias_variance, [0.0, 1.0], atol=1e-14)
    assert float(mean_field.chi(np, "tanh", edge.weight_variance[1], edge.bias_variance[1])) == pytest.approx(
        1, rel=1e-13
    )


@pytest.mark.exhaustive
def test_every_point_of_the_edge_of_tanh_is_on_the_edge():
    """The biases are of third order in q: 4/3 q^3 at small q."""
    q = np.concatenate([[0.0, 1e-300, 1e-60], np.logspace(-20, 2.5, 46)])
    edge = mean_field.edge_of_chaos(np, q, "tanh")
    assert {mean_field.phase(found) for found in mean_field.chi(np, "tanh", *edge)} == {"edge of chaos"}
    np.testing.assert_allclose(edge.bias_variance[1:13], 4 / 3 * q[1:13] ** 3, rtol=1e-12)
    for at in (0.03, 1.0, 30.0):
        with mpmath.workdps(40):
            means = [
                mpmath.quad(lambda z, f=f, at=at: f(mpmath.tanh(mpmath.sqrt(at) * z)) * mpmath.npdf(z), range(-12, 13))
                for f in (lambda t: t**2, lambda t: (1 - t**2) ** 2)
            ]
            exact = at - means[0] / means[1]
        assert mean_field.edge_of_chaos(np, at, "tanh").bias_variance == pytest.approx(float(exact), rel=1e-13)


def test_bad_input_is_refused():
    for call, message in (
        (lambda: ls.ntk.standard_kernel(np, "relu", GRAM, [2, 0], 1.0, 0.0), r"widths = 0.0 .* must lie in \[1, inf\)"),
        (
            lambda: ls.ntk.standard_kernel(np, "relu", [[1.0, 2.0], [2.0, 1.0]], [2, 2], 1.0, 0.0),
            "gram must be symmetric",
        ),
        (lambda: ls.ntk.standard_kernel(np, "gelu", GRAM, [2, 2], 1.0, 0.0), "activation = 'gelu' is unknown"),
        (lambda: ls.ntk.equicorrelated_variance(0, 1.0, 0.5, 1.0, 0.5, 1.0), "samples = 0 must be a positive integer"),
        (lambda: ls.ntk.equicorrelated_variance(5, 1.0, 1.5, 1.0, 0.5, 1.0), "q_pair = 1.5 must lie between"),
        (lambda: ls.ntk.equicorrelated_variance(5, 1.0, 0.5, 1.0, -0.5, 1.0), "theta_pair = -0.5 must lie between"),
        (lambda: ls.ntk.trained_variance(np.eye(3), np.eye(3), 3, 1.0), "samples = 3 must be"),
        (lambda: ls.ntk.trained_variance(np.triu(np.ones((3, 3))), np.eye(3), 2, 1.0), r"covariance - covariance\^T"),
        (lambda: ls.ntk.trained_variance(np.eye(3), np.eye(3), 2, -1.0), r"t = -1.0 must lie in \[0, inf\]"),
        (lambda: hyperbolic_tangent.line(np, np.array(1e9)), "q = 1e.09 needs .* nodes"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
