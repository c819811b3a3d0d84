"""Blow-up of the leading system of three or more layers: closed forms, bounds, Nahm's equations, simulation."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import elliprf

import linsolve as ls
from linsolve import arithmetic
from linsolve.core.network import follow, maps
from linsolve.systems.deep.leading import Growth
from linsolve.systems.deep.leading_closed import closed_time, narrow_time, scalar_time


def integrated(layers, target):
    growth = Growth(layers, np.atleast_2d(target))
    time, end = growth.until()
    return time + growth.left(end)


def draw(seed, widths):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(after, before)) for before, after in pairwise(widths)]


@pytest.mark.parametrize(
    ("depth", "sign"), [(3, -1), *(pytest.param(*k, marks=pytest.mark.exhaustive) for k in ((3, 1), (5, -1)))]
)
@pytest.mark.exhaustive
def test_the_time_of_scalars_falls_as_fast_as_time_passes_to_fifty_digits(depth, sign):
    """Along the flow w_l' = prod_{k != l} w_k, the derivative of tau* is -1."""
    xp, w = arithmetic.precise(90), np.abs(np.random.default_rng(depth).normal(size=depth)) + 0.3
    w[0] *= sign
    weights = xp.asarray(w)
    rate, h = xp.prod(weights) / weights, arithmetic.cast(xp, 2.0**-90)
    ends = [scalar_time(xp, weights + way * h * rate, step=0.09) for way in (1, -1)]
    assert abs(float((ends[0] - ends[1]) / (2 * h) + 1)) <= 1e-50


def test_the_time_of_three_scalars_is_carlsons_integral():
    for seed in range(20):
        w = np.random.default_rng(seed).normal(size=3) * 10.0 ** np.random.default_rng(seed).uniform(-2, 2, 3)
        x, y, z = np.sort(w**2)
        truth = elliprf(x, y, z)
        if np.prod(w) < 0:
            truth = 2 * elliprf(0.0, y - x, z - x) - truth
        assert abs(scalar_time(np, w) / truth - 1) <= 1e-12


def test_equal_weights_have_the_published_time_and_a_tie_never_leaves():
    for depth in (3, 4, 7):
        assert abs(scalar_time(np, np.ones(depth)) * (depth - 2) - 1) <= 1e-14
    assert scalar_time(np, np.array([-1.0, 1.0, 2.0])) == np.inf
    assert ls.deep.blow_up([[[-1.0]], [[1.0]], [[2.0]]], [[1.0]]).time == np.inf


@pytest.mark.parametrize("widths", [(1, 1, 1, 1), (1, 1, 1, 1, 1), (2, 1, 3, 1), (2, 3, 1, 1)])
@pytest.mark.quick(1)
def test_closed_times_equal_the_integrated_system(widths):
    for seed in range(3):
        layers, target = draw(seed, widths), np.random.default_rng(99).normal(size=(1, widths[0]))
        assert abs(closed_time(layers, target) / integrated(layers, target) - 1) <= 1e-12


def test_a_narrow_layer_that_turns_back():
    a, m, w = np.array([1.0, 0.2]), np.array([-1.1, 0.1]), 0.1  # a + m is small: w vanishes on the way
    layers = [np.array([[w]]), m[:, None], a[None]]
    assert abs(narrow_time(a, m, w) / integrated(layers, [[1.0]]) - 1) <= 1e-12
    assert narrow_time(a, -a, 2.0) == np.inf  # a + m = 0, and w does not vanish: no growth


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(k, marks=pytest.mark.exhaustive) for k in range(4, 60))])
@pytest.mark.quick(2)
def test_the_time_lies_within_its_bounds(seed):
    widths = [(2, 3, 2, 1), (3, 2, 2, 2), (2, 2, 2, 2, 1)][seed % 3]
    found = ls.deep.blow_up(draw(seed, widths), np.random.default_rng(seed).normal(size=(widths[-1], widths[0])))
    assert found.lower <= found.time <= found.upper
    assert not found.closed
    for layer in found.layers:
        values = np.linalg.svd(layer, compute_uv=False)
        assert abs(values[0] - 1) <= 1e-5
        assert np.all(values[1:] <= 1e-5)


def test_raw_weights_blow_up_at_the_time():
    """Half of the target is reached at sigma^(2-L) tau*/s up to O(1) in time."""
    layers, target = draw(1, (3, 4, 4, 1)), np.array([0.6, 0.0, 0.8])
    found = ls.deep.blow_up(layers, target)
    for sigma in (1e-2, 1e-3):
        t = found.time / sigma + np.array([-4.0, 8.0])
        made = maps(follow([sigma * v for v in layers], target, t, rtol=1e-10))[-1][:, 0] @ target
        assert made[0] <= 0.2
        assert made[1] >= 0.9


def test_nahms_matrices_refuse_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match=r"^nahm: M has shape \(2, 3\) but must be \(n_2, n_1\)"):
        ls.deep.nahm(np.ones(2), np.ones((2, 3)), np.ones(3))


def test_nahms_equations_hold_and_conserve_the_spectrum():
    rng = np.random.default_rng(3)
    w, M, a = (rng.normal(size=size) for size in (2, (3, 2), 3))
    first = ls.deep.nahm(w, M, a)
    moved = ls.deep.nahm(M.T @ a, np.outer(a, w), M @ w)
    for k in range(3):
        one, two = first[(k + 1) % 3], first[(k + 2) % 3]
        np.testing.assert_allclose(moved[k], one @ two - two @ one, atol=1e-15)

    def spectrum(layers, z):
        T = ls.deep.nahm(layers[0][:, 0], layers[1], layers[2][0])
        return np.poly(T[0] + 1j * T[1] + 2j * z * T[2] + z**2 * (T[0] - 1j * T[1]))

    start = [w[:, None], M, a[None]]
    path = Growth(start, np.eye(1)).at([0.0, 0.1, 0.2])
    for k in range(3):
        now = [v[k] for v in path]
        for z in (0.3, -1.1 + 0.5j):
            np.testing.assert_allclose(spectrum(now, z), spectrum(start, z), atol=1e-10)


@pytest.mark.parametrize(
    ("layers", "target", "message"),
    [
        ([np.eye(2)] * 2, np.eye(2), "^blow_up: layers has 2 matrices but needs at least 3"),
        ([np.eye(2), np.ones((3, 2)), np.eye(2)], np.eye(2), "^blow_up: layers have shapes"),
        ([np.eye(2)] * 3, np.eye(3), r"^blow_up: target has shape \(3, 3\)"),
        ([np.zeros((2, 2))] * 3, np.eye(2), "^blow_up: layers = 0"),
        ([np.eye(2)] * 3, np.zeros((2, 2)), "^blow_up: target = 0"),
    ],
)
def test_bad_arguments_are_refused_by_name(layers, target, message):
    with pytest.raises(ValueError, match=message):
        ls.deep.blow_up(layers, target)
