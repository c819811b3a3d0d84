"""Branches with inputs that are weak and have large weights: conditions do not overlook them, stiff ones are solved."""

import branching
import numpy as np
import pytest
from mutants.gated import WEAK

import linsolve as ls
from linsolve.solvability.branched import trajectory
from linsolve.solvability.branched.branches import Branches

A, B, C = np.array([[1, 1, 1], [1, -1, 1], [1, 1, -1], [1, -1, -1]], dtype=float).T
TIMES = np.array([0.5, 1.0, 2.0, 5.0])
LABELS = np.repeat([0, 1], 4)


def sharing(d):
    """Return two branches of one unit that share an input of size d; their other inputs are orthogonal."""
    inputs = np.stack([A, d * C], axis=1), np.stack([B, d * C], axis=1)
    return [[[[0.0, 1 / d]], [[0.1]]]] * 2, (inputs, C), {}


def contexts(d):
    """Return inputs whose second moment along the weak one is 9 times as large in the second context, and targets."""
    inputs = np.concatenate([np.stack([A, d * C], axis=1), np.stack([A, 3 * d * C], axis=1)])
    return inputs, np.concatenate([C, C / 3])


def heads(d):
    """Return one unit with a head in each of two contexts that differ in a weak input."""
    return [[[[0.0, 1 / d]], [[[0.1]], [[0.1]]]]], contexts(d), {"contexts": LABELS}


def race(d):
    """Return aligned branches, one shared and two private, in two contexts that differ in a weak input."""
    size = np.sqrt(0.1 / d)
    shared = [[[0.0, 2**0.25 * size]], np.full((2, 1, 1), size / 2**0.25)]
    private = [[[0.0, size]], [[[size]]]]
    inputs, outputs = contexts(d)
    return [shared, private, private], (inputs, 2 * outputs), {"contexts": LABELS, "gates": [[1, 1], [1, 0], [0, 1]]}


def losses(weights, data, given, t, method="DOP853"):
    """Return the loss of simulated layers at times t, sample by sample."""
    raw = branching.train(weights, *data, t, given.get("contexts"), given.get("gates"), method=method)
    each = ([w[i] for w in raw] for i in range(len(t)))
    return [branching.loss(w, *data, given.get("contexts"), given.get("gates")) for w in each]


@pytest.mark.parametrize("d", [2.0**-15, 2.0**-23, 2.0**-26])
@pytest.mark.parametrize("make", [sharing, heads])
def test_weak_inputs_count_in_the_conditions_and_the_network_equals_simulated_branches(make, d):
    weights, data, given = make(d)
    assert ls.applies(weights, data, until=20.0, **given).exact == ()
    found = ls.solve(weights, data, TIMES, **given)
    assert not found.route.startswith("closed form")
    np.testing.assert_allclose(found["loss"], losses(weights, data, given, TIMES), rtol=1e-6, atol=1e-11)


@pytest.mark.parametrize("d", [2.0**-15, 2.0**-23])
def test_a_race_whose_contexts_differ_in_a_weak_input_is_integrated(d):
    weights, data, given = race(d)
    verdict = ls.applies(weights, data, **given)
    assert verdict.exact == ()
    (failed,) = (c for a in verdict.assessments for c in a.violated if c.name == "same input moments")
    assert failed.distance == pytest.approx(0.8)
    found = ls.solve(weights, data, [0.1, 1.0], **given)  # ten weights, stiff if d is small
    assert "needs same input moments, relative distance 0.8" in found.route
    assert found["loss"][1] < found["loss"][0]


@pytest.mark.parametrize(("name", "make"), [("correlation", sharing), ("equal_contexts", heads)])
def test_norms_of_whole_blocks_overlook_weak_inputs(monkeypatch, name, make):
    weights, data, given = make(2.0**-23)
    monkeypatch.setattr(Branches, name, WEAK[name])
    found = ls.solve(weights, data, TIMES, **given)
    assert found.route.startswith("closed form: TwoLayer")
    assert abs(float(found["loss"][-1]) - losses(weights, data, given, TIMES)[-1]) > 0.1


@pytest.mark.parametrize("d", [2.0**-15, 2.0**-23])
def test_weak_inputs_of_equal_contexts_and_separate_branches_keep_the_closed_form(d):
    (first, second), targets = sharing(d)[1]
    apart = first, np.stack([B, d * A * B * C], axis=1)  # orthogonal to A, B and C
    unit = [[[0.0, 1 / d]], [[0.1]]]
    found = ls.solve([unit, unit], (apart, targets), TIMES)
    assert found.route == "closed form: TwoLayer of branch 1, TwoLayer of branch 2"
    np.testing.assert_allclose(found["loss"], losses([unit, unit], (apart, targets), {}, TIMES), rtol=1e-8, atol=1e-12)
    same = np.concatenate([second, second]), np.concatenate([C, C])
    weights, given = heads(d)[0], {"contexts": LABELS}
    found = ls.solve(weights, same, TIMES, **given)
    assert found.route.startswith("closed form: ")
    np.testing.assert_allclose(found["loss"], losses(weights, same, given, TIMES), rtol=1e-8, atol=1e-12)


def test_directions_below_rounding_are_left_out():
    rng = np.random.default_rng(1)
    X = branching.white(rng, 12, 4)
    mixed = [x @ rng.normal(size=(2, 3)) for x in (X[:, :2], X[:, 2:])]  # rank 2, its third direction is rounding
    weights = [[rng.normal(size=(1, 3)), rng.normal(size=(1, 1))] for _ in range(2)]
    verdict = ls.applies(weights, (tuple(mixed), rng.normal(size=12)))
    assert "uncorrelated inputs" not in [c.name for a in verdict.assessments for c in a.conditions]
    single = tuple(x.astype(np.float32) for x in mixed)
    verdict = ls.applies(weights, (single, rng.normal(size=12)))
    assert verdict.precision == "float32"
    assert "uncorrelated inputs" not in [c.name for a in verdict.assessments for c in a.conditions]


def test_small_branches_beyond_the_evaluations_of_dop853_are_integrated_by_radau(monkeypatch):
    weights, data, given = race(2.0**-4)
    monkeypatch.setattr(trajectory, "EVALUATIONS", 30)
    t = np.array([0.5, 40.0])
    found = ls.solve(weights, data, t, **given)
    assert found.route.startswith("Radau: NeuralRace needs same input moments")
    np.testing.assert_allclose(found["loss"], losses(weights, data, given, t), rtol=1e-8)
    monkeypatch.setattr(trajectory, "SMALL", 1)
    monkeypatch.setattr(trajectory, "EXPLICIT", 30)
    with pytest.raises(ArithmeticError, match=r"t = 40 is too late .* stiff, with 10 weights; use earlier times"):
        ls.solve(weights, data, t, **given)


def test_times_too_late_for_an_integrator_are_refused():
    weights, data, given = sharing(2e-7)
    with pytest.raises(ValueError, match=r"until = 2e\+08 is .* must be at most 1e\+06"):
        ls.applies(weights, data, until=40 / 2e-7, **given)
    with pytest.raises(ValueError, match=r"t = 1e\+30 is .* must be at most 1e\+14"):
        ls.solve(weights, data, 1e30, **given)


@pytest.mark.parametrize("make", [sharing, heads, race])
def test_no_times_and_negative_ones_are_refused(make):
    weights, data, given = make(2.0**-15)
    with pytest.raises(ValueError, match=r"t has shape .* is empty"):
        ls.solve(weights, data, [], **given)
    with pytest.raises(ValueError, match=r"t = -1\.0 at index \(0,\) must"):
        ls.solve(weights, data, [-1.0, 1.0], **given)
