"""Sentences of `applies` and `solve` about branches: each names the cause, and its remedy works."""

import re

import branching
import numpy as np
import pytest

import linsolve as ls


def drawn(size=1e-5):
    return branching.fusion(np.random.default_rng(0), size)


def fusion(weights, data):
    """Return the law of a network, and the details of the conditions that fail, by name."""
    law = ls.applies(weights, data).fusion
    return law, {each.name: each.detail for each in law.conditions if not each.ok}


# starts and samples outside the law of late fusion

WEIGHTS, ((A, B), Y) = drawn()
NONE = [0 * WEIGHTS[1][0], 0 * WEIGHTS[1][1]]
DEGENERATE = {
    "both starts 0": (
        [[0 * w for w in pair] for pair in WEIGHTS],
        ((A, B), Y),
        "growing start of branch 1",
        "it starts at 0",
    ),
    "one start 0": ([WEIGHTS[0], NONE], ((A, B), Y), "growing start of branch 2", "it starts at 0 and never learns"),
    "no target": (WEIGHTS, ((A, B), 0 * Y), "correlated with Y", "largest correlation of X and Y = 0"),
    "large X": (WEIGHTS, ((100 * A, B), Y), "independent inputs", "multiply X of branch 2 by"),
    "one sample": (WEIGHTS, ((A[:1], B[:1]), Y[:1]), "independent inputs", "1 sample cannot span 4 inputs"),
    "the same inputs": (WEIGHTS, ((A, 0.5 * A), Y), "independent inputs", "leave inputs out that others nearly"),
    "nothing left": (WEIGHTS, ((A, B), A @ [1.0, 2.0]), "separate information", "branch 2 adds nothing to branch 1"),
}


@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_starts_and_samples_name_their_cause_without_a_warning(case):
    weights, data, name, sentence = DEGENERATE[case]
    law, failed = fusion(weights, data)
    assert not law.holds
    assert sentence in failed[name]
    assert not re.search("nan|last_|first_|covariance|diagonal", str(law))  # no argument that was never given


def test_a_start_that_only_decays_names_its_branch():
    (a, b), y = (np.array([[1.0], [-1.0], [1.0], [-1.0]]), np.array([[1.0], [0.0], [0.0], [-1.0]])), [3.0, -2, 2, -3]
    pairs = [[[[1e-5]], [[1e-5]]], [[[1e-5]], [[-1e-5]]]]
    law, failed = fusion(pairs, ((a, b), y))
    assert failed == {
        "growing start of branch 2": "it only decays at first, W2 = -W1 n along n = X^T Y: change its sign"
    }
    assert law.order == ()


def test_the_stated_factor_makes_the_inputs_independent():
    _, failed = fusion(WEIGHTS, ((100 * A, B), Y))
    factor = float(re.search("by ([0-9.e+]+):", failed["independent inputs"])[1])
    assert "independent inputs" not in fusion(WEIGHTS, ((100 * A, factor * B), Y))[1]


def test_a_large_start_states_the_rule_and_a_factor_that_meets_it_and_keeps_the_integrated_times():
    weights, data = drawn(0.02)
    law, failed = fusion(weights, data)
    rule, power, size, most, factor = re.fullmatch(
        r"start (\S+): size\^(\S+) = (\S+) must be at most (\S+); multiply all weights by (\S+)", failed["small start"]
    ).groups()
    assert float(rule) ** float(power) == pytest.approx(float(size), rel=0.05)
    assert float(size) > float(most) == 0.03
    assert (law.times, law.order) == ((), (1, 2))
    assert f"branch 2 is learned at t = {law.integrated[1]:.5g} (integrated)" in str(law)
    assert law.as_dict()["integrated"] == law.integrated
    layers = branching.train(weights, *data, np.linspace(0, law.integrated[1], 3))
    losses = [branching.loss([w[k] for w in layers], *data) for k in range(3)]
    (a, b), y = data
    gaps = [y - x @ np.linalg.lstsq(x, y)[0] for x in (a, np.concatenate([a, b], axis=1))]
    assert losses[2] == pytest.approx(sum(gap @ gap for gap in gaps) / 4 / len(y), rel=1e-6)
    assert fusion([[float(factor) * w for w in pair] for pair in weights], data)[0].holds


def test_a_branch_that_overtakes_by_its_larger_start_is_named():
    weights, data = drawn(1.0)
    law, failed = fusion([[1e-12 * w for w in weights[0]], [1e-4 * w for w in weights[1]]], data)
    assert failed == {
        "order of the correlations": "branch 2 starts so much larger that it is learned first: start both alike"
    }
    assert (law.order, law.times, law.integrated) == ((), (), ())
