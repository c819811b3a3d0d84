"""Block values of an empirical kernel: least squares, all permutations of the labels, eq. (23), bad input."""

from itertools import permutations

import numpy as np
import pytest

import linsolve as ls
from linsolve import arithmetic
from linsolve.core.arguments import shown
from linsolve.systems.kernel_regime import block_fit


def kernel(seed, n):
    a = np.random.default_rng(seed).normal(size=(n, 2 * n))
    return a @ a.T / n


def labels_of(sizes, seed=0):
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))


def least_squares(k, labels):
    """Return diagonal, within, between and distance by a least-squares fit of the three block patterns."""
    same = labels[:, None] == labels
    one = np.eye(len(labels), dtype=bool)
    patterns = np.stack([one, same & ~one, ~same], axis=-1).reshape(-1, 3).astype(float)
    values, *_ = np.linalg.lstsq(patterns, k.ravel(), rcond=None)
    return (*values, np.linalg.norm(k.ravel() - patterns @ values) / np.linalg.norm(k))


@pytest.mark.parametrize("sizes", [[3, 9, 12], [4, 4], [1, 5, 2], [2, 2, 2, 2]])
def test_averages_over_pairs_are_the_nearest_blocks(sizes):
    labels, k = labels_of(sizes), kernel(1, sum(sizes))
    np.testing.assert_allclose(ls.kernels.fit_blocks(k, labels)[:4], least_squares(k, labels), rtol=1e-12)


def test_averages_over_classes_are_those_of_eq_23():
    labels, k = labels_of([3, 9, 12]), kernel(2, 24)
    within, between = [], []
    for c in range(3):
        own, other = np.flatnonzero(labels == c), np.flatnonzero(labels != c)
        within.append(np.mean([k[i, j] for i in own for j in own if i != j]))
        between.append(np.mean(k[np.ix_(own, other)]))
    found = ls.kernels.fit_blocks(k, labels, average="classes")
    np.testing.assert_allclose(found[:3], [np.mean(np.diag(k)), np.mean(within), np.mean(between)], rtol=1e-12)
    pooled = ls.kernels.fit_blocks(k, labels)
    assert abs(found.within - pooled.within) > 1e-3
    assert pooled.distance < found.distance
    even, k = labels_of([6, 6, 6]), kernel(3, 18)
    both = (ls.kernels.fit_blocks(k, even, average=v) for v in ("samples", "classes"))
    np.testing.assert_allclose(*both, rtol=1e-12)


def scores(k, labels):
    """Return the gap of averages over pairs divided by its exact standard deviation over all permutations."""
    same = [np.equal.outer(p, p) & ~np.eye(len(p), dtype=bool) for p in map(np.array, permutations(labels))]
    off = ~np.eye(len(labels), dtype=bool)
    gaps = np.array([k[s].mean() - k[off & ~s].mean() for s in same])
    assert abs(gaps.mean()) <= 1e-13
    return gaps[0] / gaps.std()


@pytest.mark.parametrize("sizes", [[2, 2], [3, 2, 1], [2, 2, 2], [4, 2], [1, 1, 3]])
def test_the_score_has_the_variance_of_all_permutations(sizes):
    labels, k = labels_of(sizes), kernel(4, sum(sizes))
    assert ls.kernels.fit_blocks(k, labels).score == pytest.approx(scores(k, labels), rel=1e-12)


def test_a_wrong_variance_is_seen(monkeypatch):
    # the mutant forgets that two pairs may share a sample
    labels, k = labels_of([3, 2, 1]), kernel(4, 6)
    original = block_fit._score

    def forgetful(xp, k, y, sizes):
        rest = k - np.sum(k * (1 - np.eye(6))) / 30
        rest = rest * (1 - np.eye(6))
        two = (sizes * (sizes - 1)).sum() / 30
        wrong = 2 * np.sum(rest**2) * (two - two**2)
        return np.sum(rest * (y.T @ y)) / np.sqrt(wrong)

    monkeypatch.setattr(block_fit, "_score", forgetful)
    assert abs(ls.kernels.fit_blocks(k, labels).score - scores(k, labels)) > 0.01
    monkeypatch.setattr(block_fit, "_score", original)


def test_a_kernel_with_blocks_is_found_whatever_the_order_and_the_names():
    flow = ls.kernels.BlockKernel(diagonal=2.0, within=1.0, between=0.5, sizes=[3, 2, 4])
    order = np.random.default_rng(0).permutation(9)
    k = np.asarray(flow.kernel(np))[np.ix_(order, order)]
    for labels in (np.repeat([7, -1, 3], [3, 2, 4]), np.repeat(["cat", "dog", "a"], [3, 2, 4])):
        for average in ("samples", "classes"):
            fit = ls.kernels.fit_blocks(k, labels[order], average=average)
            np.testing.assert_allclose(fit[:4], [2.0, 1.0, 0.5, 0.0], atol=1e-15)
            assert fit.score > 3
    blind = ls.kernels.fit_blocks(np.eye(4) + 1, [0, 0, 1, 1])
    assert blind[:] == (2.0, 1.0, 1.0, 0.0, 0.0)


def test_batches_scales_and_fifty_digits():
    labels, k = labels_of([3, 2, 4]), np.stack([kernel(5, 9), kernel(6, 9)])
    both = ls.kernels.fit_blocks(k, labels)
    for j in range(2):
        one = ls.kernels.fit_blocks(1e200 * k[j], labels)
        expected = [*(1e200 * v[j] for v in both[:3]), both.distance[j], both.score[j]]
        np.testing.assert_allclose([*one], expected, rtol=1e-13)
    xp = arithmetic.precise(50)
    exact = ls.kernels.fit_blocks(xp.asarray(k), labels)
    for a, b in zip(both, exact, strict=True):
        np.testing.assert_allclose(a, arithmetic.to_numpy(b), rtol=1e-13)


BAD = {
    "asymmetric": (np.triu(np.ones((4, 4))), [0, 0, 1, 1], {}, r"kernel - kernel\^T = .* must vanish"),
    "too few labels": (np.eye(4), [0, 1], {}, r"labels = \[0, 1\] must be 4 numbers or strings"),
    "nan": (np.eye(4), [0, 0, 1, np.nan], {}, r"labels = .* must be 4 numbers or strings"),
    "one class": (np.eye(4), [0] * 4, {}, r"labels = \[0, 0, 0, 0\] must name at least two classes"),
    "three samples": (np.eye(3), [0, 0, 1], {}, r"labels = .* must name .* at least four samples"),
    "all alone": (np.eye(4), [0, 1, 2, 3], {}, r"labels = .* must have a class two samples or more"),
    "one alone": (np.eye(4), [0, 0, 0, 1], {"average": "classes"}, r"labels = .* must have in each class two samples"),
    "other average": (np.eye(4), [0, 0, 1, 1], {"average": "sample"}, r"average = 'sample' is unknown; did you mean"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused(name):
    k, labels, options, message = BAD[name]
    with pytest.raises(ValueError, match="^fit_blocks: " + message):
        ls.kernels.fit_blocks(k, labels, **options)
    assert shown(labels)


def test_masked_labels_are_refused():
    labels = np.ma.array([0, 0, 1, 1], mask=[True, False, False, False])
    with pytest.raises(ValueError, match="fit_blocks: labels has masked entries"):
        ls.kernels.fit_blocks(np.eye(4), labels)
