"""The kernel off the diagonal: rates of one layer, the limit against simulated angles, exact small cases, bad input."""

from functools import cache

import numpy as np
import pytest

import linsolve as ls
from linsolve.systems.random_networks import input_pairs


@pytest.mark.parametrize("angle", [0.01, 0.003])
def test_one_layer_has_the_rates_of_the_limit(angle):
    """A vector along the difference y stays with 1 - 4 angle/(3 pi) and feeds the bulk with -2 angle/(3 pi)."""
    turn = (np.arange(4_000_000) + 0.5) / 4_000_000 * 2 * np.pi
    first, across = np.cos(turn), np.sin(turn)  # preactivations of x and of the vector, weights of degree two
    second = first + angle * across
    one, other = first > 0, second > 0
    y = other * second - one * first
    size = 4 * np.mean(y * y)
    stays = 16 * np.mean(one * across * y) * np.mean(other * across * y) / size
    whole = 4 * np.mean((one & other) * across**2)
    assert abs((1 - stays) * np.pi / angle - 4 / 3) <= angle
    assert abs((whole - stays) * np.pi / angle + 2 / 3) <= angle
    assert abs((1 - size / angle**2) * np.pi / angle - 2 / 3) <= angle  # the angle falls by its square over 3 pi
    bulk = 4 * np.mean(one & other) / 2  # of a vector at random, not seen by the gates
    assert abs((1 - bulk) * np.pi / angle - 1) <= angle


def simulated(ratio, steps, paths, rng):
    """Return mean and standard error of the ratio of a random term, by Euler steps of the angle and of the state."""
    dt, u = ratio / steps, np.full(paths, 1e-12)
    begin, state, weight = rng.uniform(0, ratio, paths), np.zeros(paths, int), np.ones(paths)
    for k in range(steps):
        after = k * dt >= begin
        psi = 1 / np.maximum(u, dt / 20)
        bulk, along = after & (state == 0), after & (state == 2)
        weight *= np.exp(-dt * psi / np.pi * (bulk + along * 2 / 3))  # the jump with factor -1 spares 2/3 of 4/3
        jump = rng.uniform(size=paths)
        to_x = (bulk | along) & (jump < 2 * dt)
        to_y = bulk & (jump >= 2 * dt) & (jump < 4 * dt)
        back = along & (jump >= 2 * dt) & (jump < 2 * dt + 2 * psi * dt / (3 * np.pi))
        weight[back] *= -1
        mu = np.where(after, np.where(state == 2, 2.0, 0.0), -2.0)
        u = u + ((2 - mu) * u + 1 / (3 * np.pi)) * dt - np.sqrt(2 * dt) * u * rng.standard_normal(paths)
        u = np.maximum(u, 1e-12)
        state = np.where(to_x, 1, np.where(to_y, 2, np.where(back, 0, state)))
    return weight.mean(), weight.std() / np.sqrt(paths)


@cache
def drawn(ratio, steps=200):
    """Return the mean over simulated angles, and how far it may be from the limit by noise and by its steps."""
    found, error = simulated(ratio, steps, 100_000, np.random.default_rng(0))
    return found, 3 * error + ratio * 0.6 / steps


@pytest.mark.parametrize("ratio", [1.0, *(pytest.param(k, marks=pytest.mark.exhaustive) for k in (0.25, 2.0))])
@pytest.mark.exhaustive
def test_the_limit_is_the_mean_over_simulated_angles(ratio):
    found, margin = drawn(ratio)
    assert abs(found - ls.ntk.pair_limit(ratio)) <= margin


def test_a_vector_along_the_difference_that_leaves_by_its_jumps_is_rejected(monkeypatch):
    """With w_2 - w_0 for -w_0 in the second equation, a jump of probability, the limit at 1 is 0.4947."""
    right = input_pairs._equations

    def wrong(c):
        matrix, start = right(c)
        n = input_pairs._NODES
        matrix[n : 2 * n, n : 2 * n] += matrix[n : 2 * n, :n]  # -2/(3 pi u) once more, on w_2 itself
        return matrix, start

    monkeypatch.setattr(input_pairs, "_equations", wrong)
    found, margin = drawn(1.0)
    assert abs(found - ls.ntk.pair_limit(1.0)) > margin


def test_the_limit_at_both_ends_and_between(monkeypatch):
    small, large = np.array([0.5e-6, 2e-6, 1e-3]), np.array([400.0, 0.9e3, 1.1e3])
    np.testing.assert_allclose(ls.ntk.pair_limit(small), 0.25 + 0.3 * small, rtol=0, atol=1e-6)
    np.testing.assert_allclose(ls.ntk.pair_limit(large), 1 - 0.75 / large, rtol=0, atol=1e-6)
    ratios = np.array([0.05, 0.3, 1.0, 3.0, 10.0])
    found = ls.ntk.pair_limit(ratios)
    assert np.all(np.diff(found) > 0)
    monkeypatch.setattr(input_pairs, "_NODES", 96)
    np.testing.assert_allclose(ls.ntk.pair_limit(ratios), found, rtol=0, atol=1e-6)
    assert ls.ntk.pair_limit([0.0, np.inf]).tolist() == [0.25, 1.0]


def two_layers(width, variance, cosine):
    """Return the exact ratio of one hidden layer of ReLU units: E Q and E G are those of one unit."""
    angle = np.arccos(cosine)
    kernel = variance * (np.sin(angle) + (np.pi - angle) * cosine) / (2 * np.pi)
    gates = variance * (np.pi - angle) / (2 * np.pi)
    off = (cosine * width + 1) * gates + width * kernel + 1
    return off / ((width + 1) * variance / 2 + width * variance / 2 + 1)


@pytest.mark.parametrize("cosine", [-0.4, 0.0, 0.7])
def test_samples_lie_on_the_exact_ratio(cosine):
    relu = ls.ntk.pair_ratio(1, 20_000, [6, 6], 1.7, cosine)
    assert abs(relu.value - two_layers(6, 1.7, cosine)) <= 4 * relu.error
    linear = ls.ntk.pair_ratio(2, 5000, [5, 7, 4], 1.2, cosine, slope=1.0)
    shares = np.exp(ls.ntk.moments([5, 7, 4], 1.2, 1.0).weights[-1]) * 5, 1 + 1.2 + 1.44
    assert abs(linear.value - (cosine * shares[0] + shares[1]) / sum(shares)) <= 4 * linear.error


def test_the_sampled_ratio_approaches_infinite_width_and_its_error_is_fair():
    wide = ls.ntk.pair_ratio(0, 300, [2000] * 3, 2.0, 0.3)
    assert abs(wide.value - wide.wide) <= 4 * wide.error + 2e-3
    many = [ls.ntk.pair_ratio(k, 200, [8] * 4, 2.0, 0.3) for k in range(40)]
    assert 0.7 <= np.std([each.value for each in many]) / np.mean([each.error for each in many]) <= 1.4


def test_a_sample_of_dead_networks_has_no_standard_error():
    for widths, count in (([2] * 30, 1000), ([2] * 8, 3)):
        with pytest.raises(ValueError, match=rf"pair_ratio: count = {count} gives [0-2] networks of living units"):
            ls.ntk.pair_ratio(0, count, widths, 2.0, 0.5)
    linear = ls.ntk.pair_ratio(0, 3, [5], 2.0, 0.5)  # (x.x' + 1) / (|x|^2 + 1), not random
    assert linear == pytest.approx((3.5 / 6, 0.0, 3.5 / 6), abs=1e-12)


def test_the_estimate_18_is_the_biases_part_at_infinite_width():
    gram = np.array([[1.0, 0.3], [0.3, 1.0]])
    found = ls.ntk.printed.pair_bound(6, 0.7, 0.3)
    for depth in (1, 3, 6):
        biases = ls.ntk.standard_kernel(np, "relu", gram, np.ones(depth), 1.4, 0.0).biases
        assert found[depth - 1] == pytest.approx(biases[0, 1] / biases[0, 0], rel=1e-12)


def test_bad_input_names_the_argument():
    for call, message in (
        (lambda: ls.ntk.pair_limit(-1.0), r"^pair_limit: ratio = -1"),
        (lambda: ls.ntk.pair_ratio(0, 2, [3, 3], 2.0, 0.5), r"^pair_ratio: count = 2 must be an integer of at least 3"),
        (lambda: ls.ntk.pair_ratio(0, 10, [3, 3], 2.0, 1.5), r"^pair_ratio: cosine = 1.5 must lie in \[-1, 1\]"),
        (
            lambda: ls.ntk.pair_ratio(0, 10, [3, 3], 2.0, 0.5, 1e31),
            r"^pair_ratio: slope = 1e\+31 must lie in \[-1e30, 1e30\]",
        ),
        (lambda: ls.ntk.printed.pair_bound(0, 1.0, 0.5), r"^pair_bound: depth = 0"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
