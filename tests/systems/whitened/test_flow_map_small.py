"""The flow map of small networks at many times: as accurate as block by block, and left to steps where it is not."""

import numpy as np
import pytest
from riccati_starts import random

from linsolve import WhitenedTwoLayer, arithmetic
from linsolve.systems.whitened import flow_map, flow_map_small
from linsolve.systems.whitened.factorizations import RELIABLE
from linsolve.systems.whitened.flow_map_start import prepared
from linsolve.systems.whitened.matrix_riccati import matrix_riccati
from linsolve.systems.whitened.start_frame import start_frame

TIMES = np.append(np.linspace(0.3, 20.0, 40), [40.0, 80.0])
STARTS = [
    ((10, 10, 10), 0.0),  # half of these end on a saddle
    ((10, 20, 10), 0.0),
    ((3, 10, 5), 0.0),
    ((5, 2, 5), 0.0),
    ((5, 2, 5), -1.0),
    ((2, 3, 4), 1.0),
    ((8, 3, 8), 1e-3),
    ((1, 1, 1), 0.5),
]


def apart(found, right):
    """Largest difference relative to the largest entry of the state, per time and network."""
    size = np.max([np.abs(v).max(axis=(-2, -1)) for v in right], axis=0)
    return np.max([np.abs(a - b).max(axis=(-2, -1)) for a, b in zip(found, right, strict=True)], axis=0) / size


def exact(target, start, times):
    xp = arithmetic.precise(50)
    found = matrix_riccati(xp, xp.asarray(times), xp.asarray(target), *(xp.asarray(v) for v in start))
    return [arithmetic.to_numpy(v) for v in found]


@pytest.fixture
def used(monkeypatch):
    """The numbers of times of the calls of the kernel."""
    seen, fill = [], flow_map.fill_small
    monkeypatch.setattr(flow_map, "fill_small", lambda t, *others: seen.append(len(t)) or fill(t, *others))
    return seen


@pytest.mark.parametrize("scale", [1e-8, 1e-2, 1.0])
@pytest.mark.parametrize(("shape", "lam"), STARTS, ids=str)
@pytest.mark.quick(8)
def test_small_networks_agree_with_fifty_digits(shape, lam, scale, used):
    target, start = random(shape, lam, scale=scale, batch=(12,), seed=sum(shape))
    found = matrix_riccati(np, TIMES[:, None], target, *start)
    assert sum(used) > 0
    right = matrix_riccati(np, TIMES[:, None], target, *start, method="steps")
    differ = apart(found, right) > 1e-13
    assert differ.sum() <= 1
    for i, k in [*np.argwhere(differ), (2, 0), (len(TIMES) - 1, 11)]:
        best = exact(target[k], [v[k] for v in start], TIMES[i : i + 1])
        assert apart([v[i : i + 1, k] for v in found], best).max() <= 1e-13


def test_an_ill_conditioned_start_is_known_and_left_to_steps(used):
    w1 = np.asarray([[1e-3, 1.0], [0.0, 1.0]])  # the fastest mode is nearly absent, and the next nearly as fast
    target, start = np.diag([1.001, 1.0]), WhitenedTwoLayer.of(w1, w1.T)
    times = np.linspace(12.0, 20.0, 20)
    found, right = matrix_riccati(np, times, target, *start), exact(target, start, times)
    assert sum(used) == 20
    assert apart(found, right).max() <= 1e-13
    frame = start_frame(np, *(a[None] for a in (target, *start)))
    *raw, excess = flow_map.flow_map(np, times[:, None], prepared(np, frame, 2))
    assert (excess > RELIABLE).all()
    assert apart([v[:, 0] for v in raw], right).max() > 1e-11


def test_a_bracket_that_is_not_positive_has_the_excess_nan():
    target, start = random((2, 3, 2), batch=(3,))
    frame = start_frame(np, target, *start)
    begin = prepared(np, frame, 2)
    begin = begin._replace(rows=begin.rows * np.asarray([1.0, np.nan, 1.0])[:, None, None])
    t = np.tile(np.linspace(1.0, 2.0, 16)[:, None], 3)
    out = [np.empty((16, 3, *own)) for own in ((2, 2), (2, 2), (2, 2), ())]
    flow_map_small.fill_small(t, begin, flow_map.Buffers(np), out)
    assert np.isnan(out[3][:, 1]).all()
    assert (np.abs(out[3][:, [0, 2]]) < RELIABLE).all()


def test_times_in_any_order_give_the_same_states(used):
    """Short and very late times lie between the others."""
    times = np.concatenate([TIMES[:20], [1e-3, 1e3, 0.0], TIMES[20:], [np.inf, 1e-9]])
    target, start = random((4, 6, 3), batch=(5,), seed=2)
    found = matrix_riccati(np, times[:, None], target, *start)
    assert sum(used) > 35
    order = np.random.default_rng(0).permutation(len(times))
    other = matrix_riccati(np, times[order, None], target, *start)
    for a, b in zip(found, other, strict=True):
        assert (np.abs(a[order] - b) <= 1e-14 * np.abs(a).max()).all()
    right = matrix_riccati(np, times[:, None], target, *start, method="steps")
    assert apart(found, right).max() <= 1e-13


def falling_rows_that_do_not_decay(patch):
    weights = flow_map_small._weights

    def wrong(start, t):
        pull, square = weights(start, t)
        return np.where(start.rate[:, None, :] < 0, 1.0, pull), square

    patch.setattr(flow_map_small, "_weights", wrong)


def factors_in_other_units(patch):
    factors = flow_map_small._inverse_factors
    patch.setattr(flow_map_small, "_inverse_factors", lambda *given: (2 * factors(*given)[0], factors(*given)[1]))


@pytest.mark.parametrize("mutant", [falling_rows_that_do_not_decay, factors_in_other_units])
def test_wrong_forms_differ_from_steps(mutant, monkeypatch):
    target, start = random((3, 5, 4), batch=(4,), seed=3)
    right = matrix_riccati(np, TIMES[:, None], target, *start, method="steps")
    assert apart(matrix_riccati(np, TIMES[:, None], target, *start), right).max() <= 1e-13
    mutant(monkeypatch)
    assert apart(matrix_riccati(np, TIMES[:, None], target, *start), right).max() > 1e-3
