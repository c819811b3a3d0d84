"""Sentences of `applies` and `solve` about branches: each names the cause, and its remedy works."""

import re

import branching
import numpy as np
import pytest
from selection import quick

import linsolve as ls
from linsolve.__main__ import main
from linsolve.solvability.branched.fusion_conditions import Fusion
from linsolve.solvability.conditions import Condition


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


def test_a_branch_that_overtakes_by_its_larger_start_is_named(monkeypatch):
    weights, data = drawn(1.0)
    weights = [[1e-12 * w for w in weights[0]], [1e-4 * w for w in weights[1]]]
    law, failed = fusion(weights, data)
    assert failed == {
        "order of the correlations": "branch 2 starts so much larger that it is learned first: start both alike"
    }
    assert (law.order, law.times, law.integrated) == ((), (), ())
    monkeypatch.setattr(Fusion, "ahead", lambda self, time: Condition("order of the correlations", 0.0, ""))
    law, _ = fusion(weights, data)  # without the condition
    assert law.holds
    assert law.times[1] < law.times[0] < law.integrated[1] - 0.5


# tangent kernel


def outputs(layers, data, labels, gates):
    """Return the outputs of layers, sample by sample."""
    X, found = data[0], np.zeros(np.shape(data[1]))
    for i, context in enumerate(labels):
        for b in np.flatnonzero(gates[:, context]):
            w1, w2 = layers[2 * b : 2 * b + 2]
            head = w2[int(gates[b, :context].sum())] if w2.ndim == 3 else w2
            found[i] += head @ w1 @ (X[b] if isinstance(X, tuple) else X)[i]
    return found


@pytest.mark.parametrize("seed", quick(range(40), 6))
def test_the_tangent_kernel_moves_the_outputs_as_simulated_branches_do(seed):
    weights, data, labels, gates = branching.general(np.random.default_rng(seed))
    rates, step, t = (0.5, 2.0), 1e-3, np.array([[0.0, 0.4], [0.8, 1.2]])
    traj = ls.solve(weights, data, t, rates=rates, contexts=labels, gates=gates)
    kernel, size = traj["ntk"], data[1].size
    assert kernel.shape == (2, 2, size, size)
    np.testing.assert_array_equal(traj["train_loss"], traj["loss"])
    near = np.array([0.4 - step, 0.4, 0.4 + step])
    layers = branching.train(weights, *data, near, labels, gates, rates)
    before, now, after = (outputs([w[k] for w in layers], data, labels, gates) for k in range(3))
    moved = -kernel[0, 1] @ (now - data[1]).ravel() / len(labels)
    np.testing.assert_allclose(moved, (after - before).ravel() / 2 / step, rtol=0, atol=1e-4 * np.abs(moved).max())
    wrong = kernel[1, 0] @ (now - data[1]).ravel() / len(labels)  # the kernel of another time
    assert np.abs(moved + wrong).max() > 1e-3 * np.abs(moved).max()


# arguments

PAIR = [np.ones((2, 3)), np.ones((1, 2))]
X4, Y4, TWO = np.arange(12.0).reshape(4, 3), np.ones((4, 1)), {"contexts": [0, 0, 1, 1]}
ONE, TOLD = [np.ones((2, 2)), np.ones((1, 2))], "weights = .* must be a list of branches, each the pair"
WRONG = [{"W1": 1.0}, [], [[], []], ["a", "b"], None, 3.0, [1.0, 2.0], [[1.0, 2.0], [3.0, 4.0]], PAIR]
CASES = [
    ([ONE, [np.ones((2, 1)), PAIR[1]]], (X4, Y4), {}, r"pass \(\(X\[:, 0:2\], X\[:, 2:3\]\), Y\), an array for each"),
    ([ONE, [np.ones((2, 3)), PAIR[1]]], (X4, Y4), {}, r"pass \(\(X_a, X_b, ...\), Y\), an array for each branch"),
    (PAIR, ((X4, X4[:, :2]), Y4), {}, r"list of branches, .* because X is a tuple of 2 arrays, one for each branch"),
    (PAIR, ((X4, X4), Y4), {}, r"list of branches, .* because X is a tuple of 2 arrays"),
    ([PAIR, PAIR], (np.stack([X4, X4]), Y4), {}, r"X has shape \(2, 4, 3\) .*; pass \(tuple\(X\), Y\)"),
    ([PAIR, PAIR], ({"a": X4, "b": X4}, Y4), {}, r"X is a dict .*; pass \(tuple\(X.values\(\)\), Y\)"),
    ([PAIR], (X4, Y4), {"contexts": list("aabb")}, r"whole numbers .*; pass numpy.unique\(contexts, return_inverse"),
    ([PAIR], (X4, Y4), {"contexts": [1, 1, 2, 5]}, r"contexts\[3\] = 5 must .* by numpy.unique\(contexts, return_inv"),
    ([PAIR], (X4, Y4), {"contexts": [[0], [0, 1]]}, "contexts = .* is not a rectangular array"),
    ([[PAIR[0], np.ones((2, 1, 2))]], (X4, Y4), {}, "for each of 2 contexts, but contexts is missing .*give contexts"),
    ([PAIR], (X4, np.full((4, 1), np.inf)), {}, r"Y = inf at index \(0, 0\) must be finite .*; remove or replace it"),
    ([PAIR], (X4, Y4), {"context": [0, 0, 1, 1]}, "context = .* must be one number .* did you mean contexts"),
    (PAIR, (X4, Y4), {"context": [0, 0, 1, 1]}, "context = .* must be one number .* did you mean contexts"),
    *((wrong, (X4, Y4), TWO, f"{TOLD}.* because contexts is given") for wrong in WRONG),
    (PAIR, ({"a": X4}, Y4), {}, "X = {'a': .* is not made of real numbers"),
]


@pytest.mark.parametrize(("weights", "data", "given", "message"), CASES)
def test_errors_name_the_wrong_argument_and_a_cure_that_fits(weights, data, given, message):
    for call in (lambda: ls.applies(weights, data, **given), lambda: ls.solve(weights, data, 1.0, **given)):
        with pytest.raises((ValueError, TypeError), match=f"^(applies|solve): .*{message}"):
            call()


def test_branches_of_one_array_are_read():
    stack = np.random.default_rng(0).normal(size=(3, 2, 2, 2))
    X, Y = np.random.default_rng(1).normal(size=(2, 8, 2))
    rows = np.empty((3, 2), dtype=object)
    for k, pair in enumerate(stack):
        rows[k, 0], rows[k, 1] = pair
    gates = {"contexts": np.arange(8) % 2, "gates": [[1, 1], [1, 0], [0, 1]]}
    for given in ({}, gates):
        wanted = ls.solve([list(pair) for pair in stack], (X, Y), [0.5], **given)["map"]
        for weights in (stack, stack.tolist(), rows):
            np.testing.assert_array_equal(ls.solve(weights, (X, Y), [0.5], **given)["map"], wanted)


def test_a_unit_that_is_nearly_mirrored_is_set_not_mirrored_again():
    rng = np.random.default_rng(0)
    W, u, X, Y = rng.normal(size=(3, 2)), rng.normal(size=(1, 3)), rng.normal(size=(5, 2)), rng.normal(size=5)
    W1, W2 = np.concatenate([W, -W]), np.concatenate([u, -u], axis=1)
    W1[4, 0] += 1e-6
    data = np.concatenate([X, -X]), np.concatenate([Y, -Y])
    (change,) = re.findall(r"; set (W1.*) and (W2.*)\.$", str(ls.applies([W1, W2], data, activation="relu")))
    for each in change:
        exec(each, {"W1": W1, "W2": W2})
    assert "linear of gain 0.5" in str(ls.applies([W1, W2], data, activation="relu"))


def test_the_command_names_python_for_contexts(capsys):
    for option in ("--contexts", "--gates=g.npz"):
        assert main(["applies", "weights.npz", "digits", option]) == 2
        assert "branches need Python: linsolve.applies([[W1, W2], ...]" in capsys.readouterr().err


# verdicts of several parts


def apart(rng, scalar):
    """Return two branches on inputs that are not correlated: of one unit each, or of several on inputs not white."""
    X = branching.white(rng, 12, 4)
    if scalar:
        return [[[[0.3]], [[0.2]]], [[[0.1]], [[0.5]]]], ((X[:, :1], X[:, 1:2]), X[:, 0] + X[:, 1])
    X = X @ np.diag([1.0, 2.0, 1.0, 3.0])
    pairs = [[rng.normal(size=(3, 2)), rng.normal(size=(2, 3))] for _ in range(2)]
    return pairs, ((X[:, :2], X[:, 2:]), rng.normal(size=(12, 2)))


def test_several_exact_parts_are_shown_once_each_and_flow_needs_a_name():
    verdict = ls.applies(*apart(np.random.default_rng(0), scalar=True))
    assert len(verdict.exact) > 4
    more = len(verdict.exact) - 2
    first = [next(name for name in verdict.exact if name.endswith(f"branch {k}")) for k in (1, 2)]
    title = f"linear network of 2 branches: exact as {first[0]}, {first[1]} ({more} more flows: verdict.exact)"
    assert str(verdict).split("\n")[0] == title
    assert str(verdict).count("differs by") == 2
    with pytest.raises(ValueError, match=f"^applies: flow = None must be the name .*say '{first[0]}' or '{first[1]}'"):
        verdict.flow()
    for name in verdict.exact:
        flow, z0 = verdict.flow(name)
        assert np.isfinite(flow(1.0, z0)["loss"])


def test_several_parts_that_are_not_exact_have_a_nearest_case_each_and_no_remark_twice():
    verdict = ls.applies(*apart(np.random.default_rng(0), scalar=False))
    lines = str(verdict).split("\n")
    for start in ("Nearest exact case: ", "To make it exact as "):
        assert [re.search("branch [12]", line)[0] for line in lines if line.startswith(start)] == [
            "branch 1",
            "branch 2",
        ]
    assert len(set(verdict.remarks)) == len(verdict.remarks)
    assert "general imbalance" in str(verdict)


def test_not_exact_says_once_that_solve_integrates():
    with pytest.raises(ls.NotExact) as caught:
        ls.applies(WEIGHTS, ((A, B), Y)).flow()
    assert str(caught.value).count("linsolve.solve") == 1
    assert ".;" not in str(caught.value)


def test_uncorrelated_inputs_name_the_pair_that_is_farthest_from_it():
    rng = np.random.default_rng(0)
    X = branching.white(rng, 20, 3)
    inputs = X[:, :1], X[:, 1:2] + 0.1 * X[:, :1], X[:, 2:] + 0.5 * X[:, 1:2]
    pairs = [[rng.normal(size=(1, 1)), rng.normal(size=(1, 1))] for _ in range(3)]
    text = str(ls.applies(pairs, (inputs, X.sum(axis=1))))
    assert re.search("FAIL uncorrelated inputs .* correlation of the inputs of branches 2, 3 in a context", text)
