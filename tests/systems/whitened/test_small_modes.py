"""Modes of the initial weights far below the largest one, which Gram matrices lose and the weights hold."""

import copy
import pickle

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import linsolve as ls
from linsolve import WhitenedTwoLayer

TARGET = np.diag([2.0, 0.8])


def turn(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def weights(least, lam=0.0, largest=2.0):
    """Return lambda-balanced 2-2-2 weights with these singular values, those of the first layer."""
    s = np.array([least, largest])
    return (turn(0.3) * s) @ turn(1.0).T, (turn(2.0) * np.hypot(s, np.sqrt(lam))) @ turn(0.3).T


def trained(w1, w2, target, times):
    """Return the map of raw weights at times, by DOP853."""

    def speed(_, y):
        a, b = y[: w1.size].reshape(w1.shape), y[w1.size :].reshape(w2.shape)
        gap = target - b @ a
        return np.concatenate([(b.T @ gap).ravel(), (gap @ a.T).ravel()])

    start = np.concatenate([w1.ravel(), w2.ravel()])
    path = solve_ivp(speed, (0.0, times[-1]), start, "DOP853", times, rtol=2.3e-14, atol=1e-26).y.T
    return np.stack([y[w1.size :].reshape(w2.shape) @ y[: w1.size].reshape(w1.shape) for y in path])


def condition(w1, w2, target, times, size=1e-12):
    """Return the change of the map for weights changed by 1e-16, in proportion to that for `size`."""
    rng = np.random.default_rng(5)
    other = trained(w1 + size * rng.normal(size=w1.shape), w2 + size * rng.normal(size=w2.shape), target, times)
    return np.abs(other - trained(w1, w2, target, times)).max() * 1e-16 / size


def assert_trained(maps, losses, w1, w2, target, times):
    right = trained(w1, w2, target, times)
    allowed = 1e-11 + 30 * condition(w1, w2, target, times)
    assert np.abs(maps - right).max() <= allowed
    assert np.abs(losses - np.sum((target - right) ** 2, axis=(1, 2)) / 2).max() <= 2 * allowed
    assert allowed < 1e-6


@pytest.mark.parametrize("lam", [0.0, 1e-14, 1e-10, 1e-4, 1.0])
@pytest.mark.parametrize("least", [1e-3, 1e-5, 1e-6, 2.5e-7, 1e-8, 1e-9])
def test_small_modes_grow_as_in_trained_weights(least, lam):
    w1, w2 = weights(least, lam)
    times = np.array([0.5, 5.0, 10.0, 20.0, 25.0, 40.0])
    traj = ls.solve([w1, w2], (np.sqrt(2) * np.eye(2), np.sqrt(2) * TARGET), times)
    assert traj.route == "closed form: WhitenedTwoLayer"
    assert_trained(traj["map"], traj["loss"], w1, w2, TARGET, times)
    flow, z0 = WhitenedTwoLayer(TARGET).starting(w1, w2)
    found = flow(times, z0)
    assert_trained(found["product"], found["loss"], w1, w2, TARGET, times)


def test_small_modes_reach_the_target():
    w1, w2 = weights(2.5e-7)
    data = np.sqrt(2) * np.eye(2), np.sqrt(2) * TARGET
    traj = ls.solve([w1, w2], data, [25.0, 60.0, np.inf])
    np.testing.assert_allclose(traj["singular_values"][1:], [[2.0, 0.8]] * 2, rtol=1e-14)
    assert (traj["loss"][1:] < 1e-28).all()
    np.testing.assert_allclose(traj["loss"][0], 1.6e-9, rtol=0.02)
    np.testing.assert_allclose(
        ls.solve([w1, w2], data, 25.0)["w2"] @ ls.solve([w1, w2], data, 25.0)["w1"], traj["map"][0], atol=1e-10
    )
    assert max(ls.applies([w1, w2], data, until=20.0).errors.values()) < 1e-8


class WithoutTheWeights(WhitenedTwoLayer):
    """The closed form from Gram matrices alone."""

    def _layer_root(self, z0):
        return None


@pytest.mark.parametrize("least", [1e-6, 2.5e-7, 1e-8])
def test_a_root_of_gram_matrices_is_rejected(least):
    w1, w2 = weights(least)
    times = np.array([5.0, 20.0, 25.0])
    flow, z0 = WithoutTheWeights(TARGET).starting(w1, w2)
    found = flow(times, z0)
    with pytest.raises(AssertionError):
        assert_trained(found["product"], found["loss"], w1, w2, TARGET, times)


def test_the_gram_matrices_alone_lose_small_modes():
    """The limit in the notes of the flow, and the reason for the root of the weights."""
    w1, w2 = weights(1e-8)
    flow = WhitenedTwoLayer(TARGET)
    assert float(flow(np.inf, flow.of(w1, w2))["loss"]) > 0.3
    flow, z0 = flow.starting(w1, w2)
    assert float(flow(np.inf, z0)["loss"]) < 1e-28
    assert float(flow(np.inf, tuple(2 * v for v in z0))["loss"]) > 0.3  # another start


def test_rotated_zeros_stay():
    rng = np.random.default_rng(11)
    target = rng.normal(size=(3, 3))
    bases = [np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(3)]
    for s in ([2.0, 1e-6, 0.0], [2.0, 0.0, 0.0]):
        w1, w2 = (bases[0] * s) @ bases[1].T, (bases[2] * s) @ bases[0].T
        flow, z0 = WhitenedTwoLayer(target).starting(w1, w2)
        values = flow([10.0, 1000.0, np.inf], z0)["singular_values"]
        rank = np.count_nonzero(s)
        assert (values[:, rank:] < 1e-14).all()
        np.testing.assert_allclose(values[-1, :rank], np.linalg.svd(target)[1][:rank], rtol=1e-12)


def test_ensembles_copies_and_casts_keep_the_weights():
    pairs = [weights(10.0**-k, largest=1.0 + k / 200) for k in np.linspace(1, 9, 150)]
    w1, w2 = (np.stack(each) for each in zip(*pairs, strict=True))
    flow, z0 = WhitenedTwoLayer(TARGET).starting(w1, w2)
    times = np.array([0.0, 3.0, 12.0, np.inf])
    found = flow(times, z0)["product"]
    for k in (0, 80, 149):
        one, start = WhitenedTwoLayer(TARGET).starting(w1[k], w2[k])
        np.testing.assert_allclose(found[:, k], one(times, start)["product"], rtol=0, atol=1e-7)
        for same in (copy.deepcopy(one), pickle.loads(pickle.dumps(one)), one.cast(np)):
            assert np.array_equal(same(times, start)["product"], one(times, start)["product"])
    np.testing.assert_allclose(found[-1], np.broadcast_to(TARGET, found[-1].shape), atol=1e-12)
    assert np.array_equal(found[0], z0.product)


def test_weights_are_driven_by_the_map_of_the_weights():
    w1, w2 = weights(2.5e-7)
    times = np.array([5.0, 20.0, 25.0])
    a, b = WhitenedTwoLayer(TARGET).weights(times, w1, w2, rtol=1e-13)
    right = trained(w1, w2, TARGET, times)
    assert np.abs(b @ a - right).max() <= 1e-8


def test_wide_layers_and_layers_of_different_size():
    rng = np.random.default_rng(3)
    target, times = rng.normal(size=(2, 3)), np.array([1.0, 8.0, 30.0])
    hidden = np.linalg.qr(rng.normal(size=(7, 7)))[0][:, :2]
    s = np.array([1.5, 1e-7])
    w1 = (hidden * s) @ np.linalg.qr(rng.normal(size=(3, 3)))[0][:, :2].T
    w2 = (turn(0.7) * s) @ hidden.T
    flow, z0 = WhitenedTwoLayer(target).starting(w1, w2)
    found = flow(times, z0)
    assert_trained(found["product"], found["loss"], hidden.T @ w1, w2 @ hidden, target, times)
