"""Random numbers of the tangent kernel at the start: binomial counts from bits, and the law of the norms."""

import numpy as np
import pytest
from scipy import stats

from linsolve.core import randomness
from linsolve.core.randomness import halves
from linsolve.systems.random_networks.sampling import explicit, layer_by_layer

COUNTS = (1, 7, 63, 64, 65, 128, 200, 999, 1000, 1001)


def chance(found, n):
    """Return how likely counts as far as these from the binomial law are, in cells of at least 20 counts."""
    expected = stats.binom(n, 0.5).pmf(np.arange(n + 1)) * found.size
    seen = np.bincount(found.ravel(), minlength=n + 1)
    cell = np.minimum(np.cumsum(expected), np.cumsum(expected[::-1])[::-1]) >= 20
    low, high = np.flatnonzero(cell)[[0, -1]]
    cut = np.clip(np.arange(n + 1), low, high) - low
    return stats.chisquare(np.bincount(cut, seen), np.bincount(cut, expected)).pvalue


@pytest.mark.parametrize("n", COUNTS)
def test_heads_of_fair_coins_are_binomial(n):
    found = halves(np.random.default_rng(n), n, (3, 20_000))
    assert found.dtype == np.int64
    assert found.shape == (3, 20_000)
    assert found.min() >= 0
    assert found.max() <= n
    assert chance(found, n) > 1e-3


@pytest.mark.parametrize("n", [65, 200, 1000])
def test_other_laws_are_told_apart(n):
    rng = np.random.default_rng(0)
    one_bit_less, uneven = rng.binomial(n - 1, 0.5, 60_000), rng.binomial(n, 0.49, 60_000)
    rounded = np.clip(np.round(rng.normal(n / 2, np.sqrt(n + 1) / 2.2, 60_000)), 0, n).astype(int)
    whole_words = halves(rng, -(-n // 64) * 64, (60_000,))  # the last word not cut
    for wrong in (one_bit_less, uneven, rounded, np.minimum(whole_words, n)):
        assert chance(wrong, n) < 1e-4


def test_counts_are_independent():
    found = halves(np.random.default_rng(3), 130, (4, 50_000))
    each = np.concatenate([found[:, :-1], found[:, 1:]])  # of other rows, and of the next in each
    between = np.corrcoef(each)[~np.eye(8, dtype=bool)]
    assert np.abs(between).max() < 4.5 / np.sqrt(50_000)


def test_no_coin_shows_no_heads():
    assert halves(np.random.default_rng(0), 0, (3,)).tolist() == [0, 0, 0]


def test_other_generators_draw_binomials():
    class Other:
        def binomial(self, n, p, shape):
            return n, p, shape

    assert halves(Other(), 200, (3, 4)) == (200, 0.5, (3, 4))


@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_kernels_are_distributed_as_those_of_explicit_networks(slope):
    """Two samples of norms, kernels and their product, by Kolmogorov and Smirnov; widths that differ and repeat."""

    def seen(drawn):
        weights, biases = drawn.kernels(1.0, 0.7)
        return *drawn.inputs[:, 1:].T, *drawn.gradients[:, :-1].T, weights, biases, weights * drawn.inputs[:, -1]

    rng, widths = np.random.default_rng(7), [3, 8, 8, 8, 5, 12]
    pairs = zip(*(seen(draw(rng, 20_000, widths, 1.7, slope, 0.8)) for draw in (layer_by_layer, explicit)), strict=True)
    chances = [stats.ks_2samp(*pair).pvalue for pair in pairs]
    assert len(chances) == 13
    assert min(chances) > 1e-3


def test_bits_and_binomials_give_the_same_law(monkeypatch):
    rng, widths = np.random.default_rng(8), [40] * 6
    bits = layer_by_layer(rng, 30_000, widths, 2.0, 0.0).kernels(1.0, 1.0)
    monkeypatch.setattr(randomness, "_BITS", 0)
    binomials = layer_by_layer(rng, 30_000, widths, 2.0, 0.0).kernels(1.0, 1.0)
    assert min(stats.ks_2samp(*pair).pvalue for pair in zip(bits, binomials, strict=True)) > 1e-3


def test_a_wrong_number_of_active_units_shows(monkeypatch):
    """Rounded normal variates with the mean and variance of K are seen at a width of 5."""

    def normal(rng, n, shape):
        return np.clip(np.round(rng.normal(n / 2, np.sqrt(n) / 2, shape)), 0, n).astype(int)

    rng = np.random.default_rng(9)
    right = explicit(rng, 40_000, [5] * 5, 2.0, 0.0).kernels(1.0, 1.0)[1]
    monkeypatch.setattr("linsolve.systems.random_networks.sampling.halves", normal)
    wrong = layer_by_layer(rng, 40_000, [5] * 5, 2.0, 0.0).kernels(1.0, 1.0)[1]
    assert stats.ks_2samp(right, wrong).pvalue < 1e-6


def test_the_seed_decides():
    one, two = (layer_by_layer(np.random.default_rng(4), 30, [5, 200, 3, 2000], 2.0, 0.1) for _ in range(2))
    for a, b in zip(one, two, strict=True):
        assert a.shape == (30, 4)
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("slope", [0.0, 1e-200])
def test_what_is_dead_stays_dead(slope):
    """Of networks of width 1, half die in each layer; a slope whose square is 0 in doubles is none."""
    found = layer_by_layer(np.random.default_rng(5), 4000, [1] * 6, 2.0, slope)
    dead = found.inputs == 0
    assert np.all(dead[:, 1:] >= dead[:, :-1])
    np.testing.assert_allclose(dead.mean(axis=0), 1 - 0.5 ** np.arange(6), atol=0.04)
    gone = dead[:, -1]
    assert np.all(found.gradients[gone, :-1] == 0)
    assert np.all(found.gradients[~gone] > 0)
    assert np.all(found.gradients[:, -1] == 1)


def test_one_layer_and_no_network():
    one = layer_by_layer(np.random.default_rng(0), 3, [7], 2.0, 0.0, 0.4)
    assert one.inputs.tolist() == [[0.4]] * 3
    assert one.gradients.tolist() == [[1.0]] * 3
    assert layer_by_layer(np.random.default_rng(0), 0, [7, 5], 2.0, 0.0).inputs.shape == (0, 2)


def test_nothing_in_gives_nothing():
    found = layer_by_layer(np.random.default_rng(0), 50, [4, 4, 4], 2.0, 0.0, norm_squared=0.0)
    assert np.all(found.inputs == 0)
    assert np.all(found.gradients[:, :-1] == 0)
