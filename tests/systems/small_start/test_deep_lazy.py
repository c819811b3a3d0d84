"""Lazy training of several hidden layers: the law of one draw, averages over draws, and the sampler of products."""

from functools import cache

import numpy as np
import pytest

import linsolve as ls
from linsolve.systems.small_start.deep_lazy import GaussianLayer, kernel_jet

MINE = (ls.laws.DeepLazyRegime, ls.laws.DeepLazyFluctuations)


@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.exhaustive) for k in (1, 2))])
@pytest.mark.parametrize("cls", MINE, ids=lambda c: c.__name__)
def test_law_holds(cls, seed):
    report = ls.verify(cls.example(np.random.default_rng(seed)))
    assert report.ok, str(report)


@pytest.mark.parametrize("hidden", [1, pytest.param(4, marks=pytest.mark.exhaustive)])
def test_averages_hold_at_other_depths(hidden):
    law = ls.laws.DeepLazyFluctuations(hidden=hidden, h=4000)
    for name, score in law.scores(np.random.default_rng(hidden), 200).items():
        assert abs(score) <= 4, name


def test_one_hidden_layer_is_the_law_of_lazy_regime():
    """dK/K_0 = G^2/2, standard deviation G h^(-1/2), Var F_perp = y^2/(4 h)."""
    found = ls.laws.DeepLazyFluctuations(hidden=1).prediction(np)
    lazy = ls.laws.LazyFluctuations(y=1.0, scaled_alpha=1e6, times=[1.0]).prediction(np)
    assert found["kernel"] == ls.laws.LazyRegime().approximation(np, np.asarray(1.0))["kernel change"]
    assert found["kernel slope squared"] == 1
    assert abs(found["output across"] - lazy["F across"]) <= 1e-12


@pytest.mark.exhaustive
def test_four_layers_have_order_two():
    start = np.random.default_rng(3).normal(size=(4, 3, 3)) / np.sqrt(3)
    law = ls.laws.DeepLazyRegime(start=start, target=[-1.0], rates=[1.0] * 4)
    for name, slopes in law.measured_orders().items():
        assert np.abs(slopes - 2).max() <= 0.15, name


def pairings(word):
    """Return the number of non-crossing pairings of each letter with a letter of the same layer, transposed."""

    @cache
    def count(low, high):
        if low == high:
            return 1
        fits = (k for k in range(low + 1, high, 2) if word[low] == (word[k][0], not word[k][1]))
        return sum(count(low + 1, k) * count(k + 1, high) for k in fits)

    return count(0, len(word))


def terms(hidden):
    """Return the words in the inner layers 2..L of the terms of the slope: V_L .. V_l P P^T V_(l-1) .. V_2."""
    for last in range(2, hidden + 2):
        for first in range(1, last):
            product = [(k, False) for k in range(last - 1, first, -1)]
            back = [(k, True) for k, _ in product[::-1]]
            yield (
                [(k, False) for k in range(hidden, last - 1, -1)]
                + product
                + back
                + [(k, False) for k in range(last - 1, 1, -1)]
            )


@pytest.mark.parametrize("hidden", [1, 2, 3, 4, 5, *(pytest.param(k, marks=pytest.mark.exhaustive) for k in (7, 8, 9))])
def test_slopes_are_counts_of_pairings(hidden):
    found = ls.laws.DeepLazyFluctuations(hidden=hidden).prediction(np)
    words, output = list(terms(hidden)), [(k, True) for k in range(2, hidden + 1)]
    square = sum(pairings(tuple(a + [(k, not t) for k, t in b[::-1]])) for a in words for b in words)
    assert found["kernel slope squared"] * (hidden + 1) ** 4 / 16 == pytest.approx(square, rel=1e-12)
    assert found["slope times output"] * (hidden + 1) / 4 == pytest.approx(
        sum(pairings(tuple(word + output)) for word in words), rel=1e-12
    )


def test_products_of_unseen_layers_have_the_law_of_drawn_ones():
    rng, h, count = np.random.default_rng(1), 6, 20000
    drawn = [rng.standard_normal((count, *shape)) / np.sqrt(h) for shape in ((h, 1), (h, h), (h, h), (1, h))]
    one = kernel_jet(drawn)
    other = kernel_jet([drawn[0], GaussianLayer(rng, count, h), GaussianLayer(rng, count, h), drawn[3]])
    for measure in (
        lambda jet: jet.kernel**2,
        lambda jet: (jet.slope / jet.kernel) ** 2,
        lambda jet: jet.slope * jet.output / jet.kernel,
        lambda jet: jet.curvature / jet.kernel**2,
        lambda jet: np.sum(jet.back**2, axis=(-2, -1)),
    ):
        a, b = measure(one), measure(other)
        assert abs(a.mean() - b.mean()) <= 4 * np.sqrt((a.var() + b.var()) / count)


def test_bad_input_names_the_argument():
    with pytest.raises(ValueError, match=r"^DeepLazyFluctuations: hidden = 1\.5"):
        ls.laws.DeepLazyFluctuations(hidden=1.5)
    with pytest.raises(ValueError, match=r"^DeepLazyRegime: target = \[2\.0\] must be \[1\] or \[-1\]"):
        ls.laws.DeepLazyRegime(start=np.ones((3, 1, 1)), target=[2.0], rates=[1.0] * 3)
    flat = np.zeros((3, 2, 2))
    flat[0, 0, 0] = 1.0
    with pytest.raises(ValueError, match=r"^DeepLazyRegime: start = layers whose output has no gradient"):
        ls.laws.DeepLazyRegime(start=flat, target=[1.0], rates=[1.0] * 3)
