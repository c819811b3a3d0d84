"""Regression with kernels of linear networks, and the linearization of deep networks."""

from itertools import pairwise

import numpy as np
import pytest

import linsolve as ls
from linsolve import arithmetic, kernels
from linsolve.core.network import maps, trained
from linsolve.systems.kernel_regime.tangent_deep import map_kernel


def layers(seed, widths):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(b, a)) / np.sqrt(a) for a, b in pairwise(widths)]


# regression


def test_every_kernel_of_training_learns_one_function():
    """(49)-(52): a balanced deep network at any time, one output, inputs that are not white, fewer than dimensions."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4, 6)) @ np.diag([3.0, 1.0, 1.0, 0.5, 2.0, 1.0])
    beta = X.T @ rng.normal(size=4)
    beta /= np.linalg.norm(beta)
    y = X @ (1.7 * beta) + 0.3 * rng.normal(size=4)
    network = ls.deep.DeepNetwork.init((np.eye(1), [1.7], beta[:, None]), 1e-2, depth=3, widths=(3, 4))
    norms = []
    for t in (0.0, 3.0, 8.0, np.inf):
        found = kernels.regression(kernels.input_kernel(network.layers(t)), X, y)
        np.testing.assert_allclose(found.map, np.linalg.pinv(X) @ y, atol=1e-10)
        norms.append(float(found.norm_squared))
    assert norms == sorted(norms, reverse=True)


def test_norm_of_the_regression_to_fifty_digits():
    xp, rng = arithmetic.precise(60), np.random.default_rng(1)
    X, A = xp.asarray(rng.normal(size=(3, 5))), arithmetic.cast(xp, 2.3)
    beta = xp.matrix_transpose(X) @ xp.asarray(rng.normal(size=3))
    beta = beta / xp.sqrt(xp.sum(beta**2))
    across = xp.matrix_transpose(X) @ xp.asarray(rng.normal(size=3))
    across = across - xp.sum(across * beta) * beta
    found = kernels.regression(A * beta[:, None] * beta[None, :] + xp.eye(5), X, X @ (2 * beta + across))
    gap = found.norm_squared - (4 / (1 + A) + xp.sum(across**2))
    assert abs(float(gap)) <= 1e-50
    assert np.max(arithmetic.to_numpy(xp.abs(found.map - 2 * beta - across))) <= 1e-50


def test_a_direction_outside_the_span_changes_the_function():
    X, beta = np.array([[1.0, 0.0]]), np.array([0.6, 0.8])
    found = [kernels.regression(A * np.outer(beta, beta) + np.eye(2), X, [1.0]).map for A in (0.0, 5.0)]
    assert np.abs(found[0] - found[1]).max() > 0.1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([[1.0, 2.0], [0.0, 1.0]], np.eye(2), [1.0, 1.0]), "kernel"),
        ((-np.eye(2), np.eye(2), [1.0, 1.0]), "smallest eigenvalue of kernel = -1"),
        ((np.eye(2), np.eye(3), [1.0, 1.0]), r"X has shape \(3, 3\) but must be \(P, n_in\)"),
        ((np.eye(2), np.eye(2), [1.0]), r"y has shape \(1,\) but must be \(2,\)"),
    ],
)
def test_bad_regressions_are_refused(given, message):
    with pytest.raises(ValueError, match=f"^regression: {message}"):
        kernels.regression(*given)


# linearization


@pytest.mark.parametrize("widths", [(3, 4, 2), (3, 4, 4, 2), (2, 3, 3, 3, 1)])
def test_the_kernel_of_the_map_is_that_of_its_gradients(widths):
    weights, rates, step = layers(0, widths), np.linspace(0.5, 1.5, len(widths) - 1), 1e-30j
    columns = []
    for k, layer in enumerate(weights):
        for index in np.ndindex(layer.shape):
            moved = [each.astype(complex) for each in weights]
            moved[k][index] += step
            columns.append(np.sqrt(rates[k]) * maps(moved)[-1].imag.ravel() / 1e-30)
    jacobian = np.stack(columns, axis=1)
    np.testing.assert_allclose(map_kernel(np, weights, rates), jacobian @ jacobian.T, atol=1e-13)


@pytest.mark.parametrize("depth", [2, 3])
def test_the_linearization_moves_as_the_linearized_weights(depth):
    """Gradient flow of the weights under the map linearized in them, integrated, on a covariance that is not white."""
    from scipy.integrate import solve_ivp

    rng, widths = np.random.default_rng(3), (3, *[4] * (depth - 1), 2)
    weights, target = layers(1, widths), rng.normal(size=(2, 3))
    root = rng.normal(size=(3, 5)) / 2
    sigma, rates = root @ root.T, np.linspace(0.5, 1.5, depth)
    flow = ls.deep.deep_weights(target, depth, covariance=sigma, rates=rates)
    z, start, M = flow.State(*weights), maps(weights)[-1], map_kernel(np, weights, rates)
    frozen = kernels.linearize(flow, z)

    def rate(_, b):
        return M @ ((target - b.reshape(2, 3)) @ sigma).ravel()

    end = solve_ivp(rate, (0, 2.0), start.ravel(), "DOP853", rtol=1e-12, atol=1e-14).y[:, -1].reshape(2, 3)
    values, vectors = np.linalg.eigh(sigma)
    half = (vectors * np.sqrt(values)) @ vectors.T
    np.testing.assert_allclose(frozen(2.0, (start @ half).ravel())["f"], (end @ half).ravel(), atol=1e-10)


def test_the_linearization_of_two_white_layers_is_that_of_their_flow():
    w1, w2 = layers(2, (3, 4, 2))
    target = np.ones((2, 3))
    one = kernels.linearize(ls.deep.deep_weights(target, 2), (w1, w2))
    two = kernels.linearize(ls.WhitenedTwoLayer(target), ls.WhitenedTwoLayer.of(w1, w2))
    np.testing.assert_allclose(one.kernel, two.kernel, atol=1e-14)
    np.testing.assert_allclose(one.y, two.y)


def test_eigenvalues_of_a_balanced_network():
    """sum_l mu_a^(L-l) mu_b^(l-1) on the pairs of modes a and b, mu = |c|^(2/L)."""
    network = ls.deep.DeepNetwork.init((np.eye(2), [3.0, 1.0], np.eye(2)), [2.0, 0.5], depth=3)
    mu = np.array([2.0, 0.5]) ** (2 / 3)
    found = np.linalg.eigvalsh(map_kernel(np, network.layers(0.0), np.ones(3)))
    truth = [sum(a ** (3 - k) * b ** (k - 1) for k in (1, 2, 3)) for a in mu for b in mu]
    np.testing.assert_allclose(found, np.sort(truth), rtol=1e-13)


def test_the_final_kernel_of_three_layers_learns_fastest():
    target = np.diag([1.5, 0.8]) @ np.eye(2, 3)
    flow, z0 = ls.deep.deep_weights(target, 3), tuple(0.3 * w for w in layers(4, (3, 5, 5, 2)))
    found = kernels.convergence(flow, np.linspace(0.0, 40.0, 9), z0)
    np.testing.assert_allclose([found.initial[0], found.final[0]], found.network[0], rtol=1e-12)
    assert np.all(found.final[1:] < found.network[1:])
    end = trained(list(z0), target)
    frozen = kernels.linearize(flow, end)
    at = frozen(5.0, maps(z0)[-1].ravel())["loss"]
    np.testing.assert_allclose(at, found.final[1], rtol=1e-6)


def test_states_of_a_deep_network_are_linearized_one_at_a_time():
    flow = ls.deep.deep_weights(np.eye(2), 3)
    with pytest.raises(ValueError, match=r"^linearize: z has batch axes"):
        kernels.linearize(flow, [np.ones((2, 2, 2))] * 3)
