"""The simulator of raw weights: gradients of its loss, closed forms, batches, biases and events."""

from itertools import pairwise

import numpy as np
import pytest

import linsolve as ls
from linsolve.core.integrate import first_zero
from linsolve.core.network import affine_maps, deep_weights, follow, maps, march, time_to_reach, trained


def layers(rng, sizes, batch=()):
    return [rng.normal(size=(*batch, b, a)) / 2 for a, b in pairwise(sizes)]


def moments(rng, n):
    root = rng.normal(size=(n, n))
    return root @ root.T / n + 0.1 * np.eye(n)


@pytest.mark.parametrize("bias", ["none", "last", "every", "first", "all but the first"])
@pytest.mark.parametrize("sizes", [(3, 2), (3, 4, 2), (3, 4, 5, 2)], ids=str)
def test_velocity_is_the_gradient_of_the_loss_times_the_rates(sizes, bias):
    rng, depth = np.random.default_rng(0), len(sizes) - 1
    has = {
        "none": [False] * depth,
        "last": [*[False] * (depth - 1), True],
        "every": [True] * depth,
        "first": [True] + [False] * (depth - 1),
        "all but the first": [False] + [True] * (depth - 1),
    }[bias]
    n, owners = sizes[0] + any(has), [*range(depth), *np.flatnonzero(has)]
    bias = bias == "last" or has
    rates = rng.uniform(0.5, 2.0, depth)
    flow = deep_weights(rng.normal(size=(2, n)), depth, rates=rates, covariance=moments(rng, n), bias=bias)
    z = flow.State(*layers(rng, sizes), *(rng.normal(size=sizes[k + 1]) for k in np.flatnonzero(has)))
    found = flow.velocity(np, z)
    for k, (field, moved) in enumerate(zip(z, found, strict=True)):
        for index in np.ndindex(field.shape):
            step = np.zeros_like(field)
            step[index] = 1e-5
            ends = [flow.loss(np, z._replace(**{z._fields[k]: field + s * step})) for s in (1, -1)]
            slope = (ends[0] - ends[1]) / 2e-5
            assert abs(moved[index] + rates[owners[k]] * slope) <= 1e-8


def test_a_bias_is_that_of_the_last_layer_of_data():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(3, 20)) + 1.0, rng.normal(size=(2, 20)) + 2.0
    inputs = np.vstack([x, np.ones(20)])
    second = inputs @ inputs.T / 20
    flow = deep_weights(np.linalg.solve(second, inputs @ y.T / 20).T, 2, covariance=second, bias=True)
    z = flow.State(*layers(rng, (3, 4, 2)), rng.normal(size=2))
    w1, w2, b = z
    residual = y - w2 @ w1 @ x - b[:, None]
    expected = w2.T @ residual @ x.T / 20, residual @ (w1 @ x).T / 20, residual.mean(axis=1)
    for a, e in zip(flow.velocity(np, z), expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-12, atol=1e-12)


def test_biases_of_every_layer_give_the_outputs_and_the_loss_of_data():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(3, 20)) + 1.0, rng.normal(size=(2, 20)) + 2.0
    inputs = np.vstack([x, np.ones(20)])
    second = inputs @ inputs.T / 20
    target = np.linalg.solve(second, inputs @ y.T / 20).T
    flow = deep_weights(target, 3, covariance=second, bias=[True, False, True])
    w1, w2, w3 = layers(rng, (3, 4, 5, 2))
    b1, b3 = rng.normal(size=4), rng.normal(size=2)
    outputs = w3 @ w2 @ (w1 @ x + b1[:, None]) + b3[:, None]
    np.testing.assert_allclose(affine_maps(np, [w1, w2, w3], [b1, None, b3])[-1] @ inputs, outputs, atol=1e-13)
    least = np.sum((y - target @ inputs) ** 2) / 40
    loss = flow.loss(np, flow.State(w1, w2, w3, b1=b1, b3=b3))
    assert abs(loss - (np.sum((y - outputs) ** 2) / 40 - least)) <= 1e-12 * loss


def test_modes_are_those_of_the_closed_form():
    start, t = [np.diag([0.3, 0.2])] * 2, [0.0, 0.7, 2.0]
    path = follow(start, np.diag([3.0, 1.0]), t)
    exact = ls.BalancedMode(s=[3.0, 1.0])(t, [0.09, 0.04])["a"]
    np.testing.assert_allclose(np.diagonal(maps(path)[-1], axis1=1, axis2=2), exact, rtol=1e-11)


def test_a_batch_is_followed_like_its_members_adaptively_and_in_fixed_steps():
    rng = np.random.default_rng(2)
    batch = layers(rng, (3, 4, 2), (5,))
    target = rng.normal(size=(2, 3))
    together = follow(batch, target, [1.0], rtol=1e-12)
    fixed = march(batch, target, 1.0, 200)
    for k in range(5):
        alone = follow([w[k] for w in batch], target, [1.0], rtol=1e-12)
        for a, b, c in zip(alone, together, fixed, strict=True):
            np.testing.assert_allclose(b[0, k], a[0], rtol=1e-11)  # the absolute tolerance is common
            np.testing.assert_allclose(c[k], a[0], atol=1e-8)


def test_the_time_to_half_the_loss_is_that_of_the_closed_form():
    a0 = 0.01
    flow = ls.BalancedMode(s=1.0)
    found = time_to_reach([np.full((1, 1), np.sqrt(a0))] * 2, [1.0], loss=True)
    assert found == pytest.approx(float(flow.when(a0, loss=(1 - a0) ** 2 / 4)), rel=1e-11)


def test_training_ends_at_the_target_with_conserved_imbalance():
    rng = np.random.default_rng(3)
    start, target = layers(rng, (3, 4, 2)), rng.normal(size=(2, 3))
    first, last = trained(start, target, rates=[2.0, 0.5])
    np.testing.assert_allclose(last @ first, target, atol=1e-9)
    kept = [w1 @ w1.T / 2.0 - w2.T @ w2 / 0.5 for w1, w2 in (start, (first, last))]
    np.testing.assert_allclose(kept[1], kept[0], atol=1e-9)


def test_an_event_that_does_not_happen_is_an_error():
    flow = deep_weights([[1.0]], 2)
    start = flow.State(np.full((1, 1), 0.5), np.full((1, 1), 0.5))
    with pytest.raises(ArithmeticError, match="first_zero: t = 5 is reached without the event"):
        first_zero(flow, start, lambda z: float(z.w1[0, 0]) + 1.0, until=5.0, rtol=1e-9, atol=1e-12)
    with pytest.raises(ArithmeticError, match=r"first_zero: t = 1e\+15 is too late .* max_evaluations = 500"):
        first_zero(flow, start, lambda z: 1.0, until=1e15, rtol=1e-9, atol=1e-12, max_evaluations=500)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: deep_weights([1.0, 2.0], 2), r"target has shape \(2,\) but needs \(n_out, n_in\)"),
        (lambda: deep_weights(np.eye(2), 2.0), "depth = 2.0 must be an integer from 1 to 1000"),
        (lambda: deep_weights(np.eye(2), 10**20), "depth = 1.* must be an integer from 1 to 1000"),
        (lambda: deep_weights(np.eye(2), 2, rates=[1.0]), r"rates has shape \(1,\) but must be \(2,\)"),
        (lambda: deep_weights(np.eye(2), 2, bias=[True]), "bias has 1 entries but needs 2"),
        (lambda: deep_weights(np.eye(2), 2, covariance=np.eye(3)), r"covariance has shape \(3, 3\), so n_in = 3"),
        (lambda: follow([np.eye(3), np.eye(2)], np.eye(2), [1.0]), "w2 has shape .* but w1 has width1 = 3"),
    ],
)
def test_shapes_that_do_not_fit_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("name", ["target", "rates", "covariance"])
def test_ragged_arrays_are_named(name):
    given = {"target": np.eye(2), "rates": 1.0, "covariance": np.eye(2)} | {name: [[1.0], [1.0, 2.0]]}
    with pytest.raises(TypeError, match=f"{name} = .* is not a rectangular array"):
        deep_weights(given.pop("target"), 2, **given)
