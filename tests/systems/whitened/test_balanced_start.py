"""Large balanced states are recognized by their square root, and by nothing less than balance to rounding."""

import numpy as np
import pytest
from riccati_starts import random

from linsolve import WhitenedTwoLayer
from linsolve.arithmetic import precision
from linsolve.systems.whitened import matrix_riccati as matrix
from linsolve.systems.whitened.balanced_start import balanced_start
from linsolve.systems.whitened.imbalance import imbalance
from linsolve.systems.whitened.start_frame import square_root

SHAPES = [(100, 200, 100), (90, 64, 64), (20, 130, 110), (110, 130, 20)]
ROTATIONS = [np.linalg.qr(np.random.default_rng(k).normal(size=(70, 70)))[0] for k in range(3)]


def of_modes(first, second):
    """Return the state of 70-70-70 weights with these singular values, by mode."""
    inputs, hidden, outputs = ROTATIONS
    return WhitenedTwoLayer.of((hidden * first) @ inputs.T, (outputs * second) @ hidden.T)


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 0.1, 1e70])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_imbalance_is_zero_and_the_root_the_same(shape, scale):
    _, start = random(shape, scale=scale, seed=3)
    kind, root = balanced_start(*start)
    right = imbalance(np, *start)
    assert kind.total == right.total == 0
    assert kind.spread == right.spread == 0
    assert right.distance <= kind.distance <= 8 * (shape[0] + shape[2]) * precision(np)
    np.testing.assert_array_equal(root, square_root(np, *start, right))


@pytest.mark.parametrize("size", [1e-3, 1e-8, 1e-11])
def test_modes_that_are_not_balanced_are_noticed(size):
    values = np.linspace(0.5, 1.0, 70)
    other = values * (1 + size * np.where(np.arange(70) % 2, 1, -1))
    second = other * np.sqrt((values**2).sum() / (other**2).sum())  # Gram matrices of the same trace
    assert balanced_start(*of_modes(values, values)) is not None
    assert balanced_start(*of_modes(values, second)) is None


@pytest.mark.parametrize("size", [1e-3, 1e-8, 1e-11])
def test_a_gram_matrix_of_other_weights_is_noticed(size):
    start = of_modes(*[np.linspace(0.5, 1.0, 70)] * 2)
    turn = np.linalg.qr(np.eye(70) + size * np.random.default_rng(0).normal(size=(70, 70)))[0]
    assert balanced_start(*start._replace(gram_out=turn @ start.gram_out @ turn.T)) is None


@pytest.mark.parametrize("n_in", [400, 1600])
def test_the_rest_is_also_measured_in_the_unit_of_each_gram_matrix(n_in):
    # a mode that is spread over all inputs, whose Gram matrix has small entries
    values, rng = np.array([1.0] + 19 * [1e-3]), np.random.default_rng(0)
    inputs = np.linalg.qr(np.column_stack([np.ones(n_in), rng.normal(size=(n_in, 19))]))[0]
    start = WhitenedTwoLayer.of((inputs * values).T, np.diag(values))
    change = 3.6 * (n_in + 20) * precision(np)  # of one entry, within rounding of the largest one
    start.gram_in[0, 1] += change
    assert (balanced_start(*start) is None) == (change > 1e-9 * start.gram_in[0, 0])


@pytest.mark.parametrize("name", ["gram_in", "gram_out"])
def test_a_gram_matrix_that_is_not_symmetric_is_noticed(name):
    start = of_modes(*[np.linspace(0.5, 1.0, 70)] * 2)
    start = start._replace(**{name: start._asdict()[name] + 5e-10 * np.triu(np.ones((70, 70)), 1)})
    assert balanced_start(*start) is None
    flow = WhitenedTwoLayer(np.eye(70))
    (distance,) = flow.conditions(np, flow.state(start)).values()
    assert distance == imbalance(np, *start).distance > 1e-10


@pytest.mark.parametrize("n", [20, 70])
def test_states_whose_squares_overflow_are_refused_at_any_size(n):
    z = WhitenedTwoLayer.of(*WhitenedTwoLayer.init(n, 2 * n, n - 4, scale=1e80, rng=2))
    with pytest.raises(OverflowError, match="when squared"):
        WhitenedTwoLayer(np.eye(n - 4, n))(1e-160, z)


@pytest.mark.parametrize("total", [1e-11, 1e-3, -1.0])
def test_a_trace_is_noticed(total):
    first = np.linspace(0.5, 1.0, 70)
    second = np.sqrt(first**2 + total) if total > 0 else first
    first = first if total > 0 else np.sqrt(first**2 - total)
    assert balanced_start(*of_modes(first, second)) is None


def test_ill_conditioned_and_zero_states_are_left_to_the_imbalance():
    assert balanced_start(*of_modes(*[np.geomspace(1e-9, 1.0, 70)] * 2)) is None
    assert balanced_start(*of_modes(*[np.zeros(70)] * 2)) is None


def test_a_flow_uses_it(monkeypatch):
    target, start = random((100, 200, 100), seed=5)
    times = np.asarray([0.01, 1.0, 20.0, np.inf])
    seen = []

    def counted(*given):
        seen.append(balanced_start(*given))
        return seen[-1]

    monkeypatch.setattr(matrix, "balanced_start", counted)
    found = WhitenedTwoLayer(target)(times, start).state
    assert len(seen) == 1
    assert seen[0] is not None
    monkeypatch.setattr(matrix, "balanced_start", lambda *_: None)
    for a, b in zip(found, WhitenedTwoLayer(target)(times, start).state, strict=True):
        np.testing.assert_array_equal(a, b)
