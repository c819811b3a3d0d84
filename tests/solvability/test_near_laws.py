"""`applies` names the laws that are nearer to a network than every exact case."""

import json

import numpy as np
import pytest
from trained import product, train

import linsolve as ls


def white(gen, samples, n_in):
    return np.sqrt(1.3 * samples) * np.linalg.qr(gen.normal(size=(samples, n_in)))[0]


def network(sigma, outputs=1, seed=0):
    gen = np.random.default_rng(seed)
    weights = [sigma * gen.normal(size=(7, 5)), sigma * gen.normal(size=(outputs, 7))]
    X = white(gen, 20, 5)
    return weights, (X, X @ gen.normal(size=(5, outputs))), [0.7, 1.9]


@pytest.mark.parametrize(
    ("outputs", "names"), [(1, ["MatchedOutputs", "RefinedMatchedSolution"]), (3, ["MatchedOutputs"])]
)
def test_a_small_white_start_is_nearer_to_a_law_than_to_any_flow(outputs, names):
    weights, (X, Y), rates = network(3e-3, outputs)
    verdict = ls.applies(weights, (X, Y), rates)
    assert [law.name for law in verdict.laws] == names
    times = np.linspace(0.0, verdict.until, 9)
    true = np.stack([product(layers) for layers in train(weights, X, Y, rates, times)])
    for law in verdict.laws:
        traj = getattr(ls.laws, law.name).of(weights, (X, Y), rates)(times)
        error = np.sqrt(np.mean(np.sum(((traj["map"] - true) @ X.T) ** 2, axis=1), axis=1)).max()
        assert 0.5 * law.measured <= error <= 1.01 * law.measured + 1e-9  # `verdict` measures at more times
        assert 1 / 30 <= law.measured / law.scale / law.estimate <= 30
    assert verdict.laws[0].measured < 1e-3 * verdict.nearest.measured
    text = str(verdict)
    assert (
        f"Nearer: laws of small starts, not exact; linsolve.laws.NAME.of(weights, data, rates):\n  {names[0]}: error"
        in text
    )
    assert "% (estimated" in verdict.report()
    found = json.loads(verdict.to_json())["laws"]
    assert [law["name"] for law in found] == names
    assert found[0]["measured"] == verdict.laws[0].measured


def test_a_law_is_offered_where_the_first_layer_has_a_part_outside_the_data():
    gen = np.random.default_rng(0)
    X = 2.0 * np.linalg.qr(gen.normal(size=(6, 4)))[0].T
    weights = [0.003 * gen.normal(size=(8, 6)), 0.003 * gen.normal(size=(2, 8))]
    verdict = ls.applies(weights, (X, X @ gen.normal(size=(6, 2))))
    assert [law.name for law in verdict.laws] == ["MatchedOutputs"]


def test_laws_are_not_offered_where_they_do_not_hold():
    weights, (X, Y), rates = network(3e-3, 3)
    colored = X * [1.0, 1.0, 2.0, 1.0, 1.0]
    assert ls.applies(weights, (colored, Y), rates).laws == ()  # not white
    assert ls.applies(network(3.0, 3)[0], (X, Y), rates).laws == ()  # not small
    deep = [weights[0], 0.003 * np.eye(7) + weights[0] @ weights[0].T, weights[1]]
    assert ls.applies(deep, (X, Y), [1.0, 1.0, 1.0], until=1.0).laws == ()  # three layers


def test_laws_are_not_offered_where_a_flow_is_exact():
    weights = [0.01 * np.eye(5), 0.01 * np.eye(5)]
    X = white(np.random.default_rng(0), 20, 5)
    verdict = ls.applies(weights, (X, X @ np.diag([5.0, 4.0, 3.0, 2.0, 1.0])))
    assert verdict.exact
    assert verdict.laws == ()
    assert "Nearer" not in str(verdict)
