"""Separate keys and queries of rank one: simulated heads, learned order, plateaus and their times."""

import numpy as np
import pytest
from scipy.interpolate import PchipInterpolator
from selection import quick

import linsolve as ls
from linsolve import RankOneAttention
from linsolve.systems.attention.sequences import followed, population, sampled, separate_pull


def balanced(rng, strengths, frame):
    """Return balanced heads along the columns of a frame, with random signs of values, keys and queries."""
    size, signs = np.cbrt(np.abs(strengths)), rng.choice([-1.0, 1.0], (2, len(strengths)))
    value = size * np.sign(strengths) * signs[0] * signs[1]
    return value, (size * signs[0] * frame).T, (size * signs[1] * frame).T


@pytest.mark.parametrize("seed", quick(range(100), 4))
def test_simulated_heads_follow_the_closed_form(seed):
    rng = np.random.default_rng(seed)
    d, context = int(rng.integers(1, 5)), float(rng.integers(1, 40))
    flow = RankOneAttention(context, rng.uniform(0.4, 1.6, d), tau=rng.uniform(0.5, 2.0))
    start = rng.uniform(0.01, 1.5, d) * rng.choice([1.0, 1.0, -1.0], d)
    frame = np.linalg.qr(rng.normal(size=(d, d)))[0]
    moments, t = population(context, frame * flow.variance @ frame.T), np.array([0.0, 0.3, 1.0, 3.0, 10.0])
    t = t[:3] if (start < 0).any() else t  # the saddle that attracts them is unstable across the eigenvector
    value, key, query = followed(moments, separate_pull, balanced(rng, start, frame), t, rtol=1e-12)
    matrix, traj = np.einsum("th,tha,thb->tab", value, key, query), flow(t * flow.tau, start)
    assert np.max(np.abs(frame.T @ matrix @ frame - traj["strengths"][..., None] * np.eye(d))) <= 1e-10
    assert np.max(np.abs(moments.loss(matrix) - traj["loss"])) <= 1e-10


def test_order_times_and_plateaus_are_those_of_simulated_heads():
    rng, variance, context = np.random.default_rng(1), np.array([0.5, 2.0, 1.1]), 16
    flow, start = RankOneAttention(context, variance), np.full(3, 1e-6)
    stages = flow.stages(start)
    assert stages.order.tolist() == [1, 2, 0]
    ends = np.array([0.0, *stages.times, 1.3 * stages.times[-1]])
    t = np.sort([*ends, *(ends[:-1] + ends[1:]) / 2])  # ends and middles of the plateaus alternate
    moments = population(context, np.diag(variance))
    value, key, query = followed(moments, separate_pull, balanced(rng, start, np.eye(3)), t, rtol=1e-10)
    matrix = np.einsum("th,tha,thb->tab", value, key, query)
    c = variance + (variance + np.sum(variance)) / context
    strengths = [matrix[2 * k + 2, e, e] * c[e] for k, e in enumerate(stages.order)]
    np.testing.assert_allclose(strengths, 0.5, rtol=1e-6)
    np.testing.assert_allclose(stages.losses, moments.loss(matrix[1::2]), rtol=1e-3)  # error of the start
    ratio = 1 + (1 + np.sum(variance) / variance) / context
    heights = [np.sum(variance) - np.sum((variance / ratio)[stages.order[:k]]) for k in range(4)]
    np.testing.assert_allclose(2 * stages.losses, heights, rtol=1e-13)


def test_small_strengths_grow_in_a_time_of_the_inverse_square_of_the_variance():
    variance = np.array([2.0, 1.0, 0.5])
    times = [RankOneAttention(8, variance).stages(np.full(3, size)).times for size in (1e-9, 1e-12, 1e-15)]
    errors = np.abs(np.array(times) * variance**2 / np.array([[1e3], [1e4], [1e5]]) - 1)
    assert np.all(errors[1:] <= errors[:-1] / 9)  # relative order m^(1/3)
    assert np.all(errors[-1] <= 1e-3)


def test_stages_of_a_batch_of_learned_and_other_strengths():
    flow = RankOneAttention([4.0, 40.0], [1.0, 0.6])
    stages = flow.stages([[0.1, -0.1], [5.0, 0.01]])
    assert np.isinf(stages.times).tolist() == [[False, True], [False, False]]
    for k, context in enumerate((4.0, 40.0)):
        one = RankOneAttention(context, [1.0, 0.6]).stages([[0.1, -0.1], [5.0, 0.01]][k])
        for a, b in zip(stages, one, strict=True):
            np.testing.assert_array_equal(a[k], b)
    traj = flow([np.inf], [[0.1, -0.1], [5.0, 0.01]])
    np.testing.assert_allclose(stages.losses[:, -1], traj["loss"][0], rtol=1e-12)
    assert flow.stages([[0.6, 0.01], [5.0, 0.9]]).times[:, 0].tolist() == [0.0, 0.0]  # at least half learned


def test_merged_attention_has_the_same_loss_and_test_error():
    variance, strengths = np.array([0.5, 1.2]), np.array([0.4, 0.7])
    separate, merged = RankOneAttention(9, variance), ls.LinearAttention(9, 2, variance)
    z, same = separate.state(strengths), merged.of([1.0], np.diag(strengths)[None])
    np.testing.assert_allclose(separate.loss(np, z), merged.loss(np, same), rtol=1e-14)
    np.testing.assert_allclose(separate.least_loss(np), merged.least_loss(np), rtol=1e-14)
    for context in (1, 50, np.inf):
        a, b = separate.test_error(np, z, context), merged.test_error(np, same, context)
        np.testing.assert_allclose(a, b, rtol=1e-14)
        np.testing.assert_allclose(a, 2 * population(context, np.diag(variance)).loss(np.diag(strengths)), rtol=1e-13)


@pytest.mark.exhaustive
def test_training_on_sampled_sequences_has_the_learning_times_of_the_closed_form():
    """100,000 sequences in each of 12 data sets, from balanced heads along the eigenvectors."""
    rng, variance, start = np.random.default_rng(3), np.array([1.5, 1.0, 0.7]), np.full(3, 0.02)
    flow = RankOneAttention(8, variance)
    stages = flow.stages(start)
    t, c = np.outer(stages.times, np.linspace(0.85, 1.15, 13)).ravel(), variance + (variance + np.sum(variance)) / 8
    found = []
    for _ in range(12):
        moments = sampled(rng, 100_000, 8, np.diag(variance))
        value, key, query = followed(moments, separate_pull, balanced(rng, start, np.eye(3)), t, rtol=1e-7)
        strengths = np.einsum("th,tha,tha->ta", value, key, query)
        found.append(
            [PchipInterpolator(t, strengths[:, k] - 0.5 / c[k]).roots(extrapolate=False)[0] for k in stages.order]
        )
    error = np.std(found, axis=0, ddof=1) / np.sqrt(12)
    assert np.all(np.abs(np.mean(found, axis=0) - stages.times) <= 4 * error)
    assert np.all(np.std(found, axis=0) <= 0.03 * stages.times)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5, float("nan")])
def test_bad_shares_are_named(share):
    with pytest.raises(ValueError, match=r"share = .* must be a number in"):
        RankOneAttention(8, [1.0]).stages([0.1], share=share)
