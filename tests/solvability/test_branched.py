"""`applies` and `solve` for gated networks and late fusion, against simulated raw weights on the samples."""

import json

import branching
import numpy as np
import pytest
from mutants.gated import BRANCHES, UNSEEN
from scipy.integrate import solve_ivp
from selection import quick

import linsolve as ls


def names(weights):
    return [f"{layer}_{k}" for k in range(1, len(weights) + 1) for layer in ("first", "last")]


def distance(found, exact):
    return np.max(np.abs(found - exact)) / np.max(np.abs(exact))


def deviation(traj, weights, raw):
    """Return the largest relative distance of a layer from the simulated one."""
    return max(distance(traj[name], w) for name, w in zip(names(weights), raw, strict=True))


def draw(rng, make):
    rates = (1.0, 1.0) if rng.random() < 0.5 else tuple(rng.uniform(0.5, 2.0, 2))
    weights, data, labels, gates = make(rng, rates)
    return weights, data, {"rates": rates, "contexts": labels, "gates": gates}


def simulated(weights, data, t, given):
    return branching.train(weights, *data, t, given["contexts"], given["gates"], given.get("rates", (1.0, 1.0)))


def loss_of(raw, data, given):
    """Return the loss of the simulated layers at the second time, sample by sample."""
    return branching.loss([w[1] for w in raw], *data, given["contexts"], given["gates"])


@pytest.mark.parametrize("seed", quick(range(100), 4))
def test_a_hundred_races_are_named_and_equal_simulated_branches(seed):
    rng = np.random.default_rng(seed)
    weights, data, given = draw(rng, branching.race)
    verdict = ls.applies(weights, data, **given)
    assert verdict.exact == ("NeuralRace",)
    assert verdict.errors["NeuralRace"] <= 1e-10
    t = np.array([0.3, 0.7, 1.5]) * verdict.until
    traj, raw = ls.solve(weights, data, t, **given), simulated(weights, data, t, given)
    assert traj.route == "closed form: NeuralRace"
    assert deviation(traj, weights, raw) <= 1e-11
    assert (
        distance(traj["loss"][1], branching.loss([w[1] for w in raw], *data, given["contexts"], given["gates"])) <= 1e-9
    )
    flow, z0 = verdict.flow()
    maps = verdict.match().map(flow(t, z0)).reshape(traj["map"].shape)
    assert distance(maps, traj["map"]) <= 1e-13
    last = ls.solve(weights, data, np.inf, **given)
    assert float(last["loss"]) <= 1e-25
    assert np.isfinite(last["first_1"]).all()


@pytest.mark.parametrize("seed", quick(range(100), 4))
def test_a_hundred_networks_of_separate_branches_are_named_and_equal_simulated_branches(seed):
    rng = np.random.default_rng(seed)
    weights, data, given = draw(rng, branching.separate)
    verdict = ls.applies(weights, data, **given)
    flows = {name.partition(" of ")[0] for name in verdict.exact}
    assert "WhitenedTwoLayer" in flows
    assert max(verdict.errors.values()) <= 1e-9
    t = np.array([0.3, 0.7, 1.5]) * verdict.until
    traj, raw = ls.solve(weights, data, t, rtol=1e-12, **given), simulated(weights, data, t, given)
    assert traj.route.startswith("closed form: ")
    assert deviation(traj, weights, raw) <= 1e-10
    assert (
        distance(traj["loss"][1], branching.loss([w[1] for w in raw], *data, given["contexts"], given["gates"]))
        <= 1e-10
    )
    assert np.isfinite(ls.solve(weights, data, np.inf, **given)["map"]).all()


@pytest.mark.parametrize("seed", quick(range(100), 4))
def test_a_hundred_other_networks_are_integrated_and_equal_simulated_branches(seed):
    weights, data, labels, gates = branching.general(np.random.default_rng(seed))
    given = {"contexts": labels, "gates": gates}
    verdict = ls.applies(weights, data, **given)
    assert verdict.exact == ()
    assert "To make it exact as" in str(verdict)
    t = np.array([0.5, 3.0])
    traj, raw = ls.solve(weights, data, t, **given), simulated(weights, data, t, given)
    assert traj.route.startswith("DOP853: ")
    assert deviation(traj, weights, raw) <= 1e-8
    assert distance(traj["loss"][1], loss_of(raw, data, given)) <= 1e-8


def test_branches_with_equal_gates_are_one_wider_branch():
    rng = np.random.default_rng(0)
    X, Y, labels = (
        np.concatenate([branching.white(rng, 6, 3) for _ in range(2)]),
        rng.normal(size=(12, 2)),
        np.repeat([0, 1], 6),
    )
    first, last = 0.7 * branching.orthonormal(rng, 3, 2).T, np.zeros((4, 2))
    heads = last.reshape(2, 2, 2)
    weights = [[first[:1], heads[..., :1]], [first[1:], heads[..., 1:]]]
    assert ls.applies(weights, (X, Y), contexts=labels).exact == ("WhitenedTwoLayer",)
    t = np.array([0.5, 4.0])
    traj, raw = ls.solve(weights, (X, Y), t, contexts=labels, rtol=1e-12), branching.train(weights, X, Y, t, labels)
    assert traj.route == "closed form: WhitenedTwoLayer"
    assert deviation(traj, weights, raw) <= 1e-11


def test_one_head_for_all_contexts_makes_a_faster_pathway():
    rng = np.random.default_rng(1)
    v, u = branching.orthonormal(rng, 3, 2), branching.orthonormal(rng, 2, 2)
    labels, X = np.repeat([0, 1, 2], 5), np.concatenate([branching.white(rng, 5, 3) for _ in range(3)])
    weights = [[np.diag([0.3, 0.2]) @ v.T, u * [0.3, 0.2]]]
    for _ in range(3):
        weights.append([np.diag([0.5, 0.6]) @ v.T, u * [0.5, 0.6]])
    gates, data = np.concatenate([np.ones((1, 3)), np.eye(3)]), (X, X @ (u * [2.0, 1.0] @ v.T).T)
    verdict = ls.applies(weights, data, contexts=labels, gates=gates)
    assert verdict.exact == ("NeuralRace",)
    assert verdict.flow()[0].served[0].tolist() == [9.0, 1.0]
    t = np.array([0.5, 2.0])
    raw = branching.train(weights, *data, t, labels, gates)
    assert deviation(ls.solve(weights, data, t, contexts=labels, gates=gates), weights, raw) <= 1e-12


# near misses


def fixed():
    """Return a race of one shared and three private branches of two modes, on three inputs and outputs."""
    rng = np.random.default_rng(5)
    v, labels, s = branching.orthonormal(rng, 3, 3), np.repeat([0, 1, 2], 6), np.array([2.0, 1.0])
    frames, a = [branching.orthonormal(rng, 3, 2) for _ in range(3)], np.array([0.2, 0.1])
    X = np.concatenate([branching.white(rng, 6, 3) * [1.0, 0.8, 1.3] @ v.T for _ in range(3)])
    maps = np.stack([u * s @ v[:, :2].T for u in frames])
    shared = [np.diag(np.sqrt(np.sqrt(3) * a)) @ v[:, :2].T, np.stack([u * np.sqrt(a / np.sqrt(3)) for u in frames])]
    private = [[np.diag(np.sqrt(2 * a)) @ v[:, :2].T, (u * np.sqrt(2 * a))[None]] for u in frames]
    gates = np.concatenate([np.ones((1, 3)), np.eye(3)])
    return [shared, *private], X, np.einsum("poi,pi->po", maps[labels], X), labels, gates


def shifted(w, size=1e-6):
    return w + size * np.random.default_rng(9).normal(size=w.shape)


def turned(weights, X, Y, labels, gates):
    turn = np.eye(3) + 1e-6 * np.array([[0.0, 1.0, 2.0], [1.0, 0.0, -1.0], [2.0, -1.0, 0.0]])
    maps = np.stack([np.linalg.lstsq(X[labels == k], Y[labels == k])[0].T for k in range(3)])
    return weights, X @ turn, np.einsum("poi,pi->po", maps[labels], X @ turn), labels, gates


def scaled(rows):
    """Return a change of context 0: inputs and outputs, or outputs alone, by 1e-6."""

    def change(w, X, Y, labels, gates):
        here = 1 + 1e-6 * (labels == 0)[:, None]
        return w, X * here if rows == "both" else X, Y * here, labels, gates

    return change


def first(change):
    return lambda w, *rest: ([change(*w[0]), *w[1:]], *rest)


def second(change):
    return lambda w, *rest: ([w[0], change(*w[1]), *w[2:]], *rest)


RACES = {
    "alignment": first(lambda w1, w2: [shifted(w1), w2]),
    "equal heads": first(lambda w1, w2: [w1, w2 * np.array([1 + 1e-6, 1, 1])[:, None, None]]),
    "balance": first(lambda w1, w2: [(1 + 1e-6) * w1, w2]),
    "same sign": first(lambda w1, w2: [w1, -w2]),
    "equal strengths": second(lambda w1, w2: [(1 + 1e-6) * w1, (1 + 1e-6) * w2]),
    "same kinds of branches": lambda w, X, Y, labels, gates: (w[:3], X, Y, labels, gates[:3]),
    "equal frequencies": lambda w, X, Y, labels, gates: (
        w, np.concatenate([X, X[:6]]), np.concatenate([Y, Y[:6]]), np.concatenate([labels, labels[:6]]), gates,
    ),
    "same input moments": scaled("both"),
    "same singular values": scaled("outputs"),
    "commuting covariance": turned,
    "one input for all": lambda w, X, *rest: (w, (X, shifted(X), X, X), *rest),
    "maps other than 0": lambda w, X, Y, *rest: (w, X, 0 * Y, *rest),
}  # fmt: skip


def test_the_fixed_race_is_exact():
    weights, X, Y, labels, gates = fixed()
    verdict = ls.applies(weights, (X, Y), contexts=labels, gates=gates)
    assert verdict.exact == ("NeuralRace",)
    assert verdict.flow()[0].speeds().shape == (2, 2)


@pytest.mark.parametrize("failing", RACES)
def test_near_misses_of_a_race_name_the_condition_and_are_integrated(failing):
    weights, X, Y, labels, gates = RACES[failing](*fixed())
    given = {"contexts": labels, "gates": gates}
    verdict = ls.applies(weights, (X, Y), **given)
    assert verdict.exact == ()
    (race,) = (each for each in verdict.assessments if each.name == "NeuralRace")
    assert failing in [each.name for each in race.violated]
    assert f"FAIL {failing}" in verdict.report()
    assert f"FAIL {failing}" in str(verdict)  # the race is the nearest case
    with pytest.raises(ls.NotExact, match=f"{failing} = "):
        verdict.flow("NeuralRace")
    found, t = ls.solve(weights, (X, Y), [0.5, 2.0], **given), np.array([0.5, 2.0])
    assert found.route.startswith("DOP853: NeuralRace needs")
    assert deviation(found, weights, simulated(weights, (X, Y), t, given)) <= 1e-8


def test_contexts_that_differ_by_less_than_the_tolerance_are_integrated_unless_it_is_accepted():
    weights, X, Y, labels, gates = RACES["balance"](*fixed())
    given = {"contexts": labels, "gates": gates, "tolerance": 1e-5}
    assert ls.applies(weights, (X, Y), **given).exact == ("NeuralRace",)
    assert ls.solve(weights, (X, Y), [1.0], **given).route.startswith("closed form: NeuralRace, error up to")


def two_heads():
    """Return one unit with a head for each of two contexts, white inputs, outputs and labels."""
    rng = np.random.default_rng(2)
    labels, X, Y = (
        np.repeat([0, 1], 6),
        np.concatenate([branching.white(rng, 6, 2) for _ in range(2)]),
        rng.normal(size=(12, 1)),
    )
    return [[rng.normal(size=(1, 2)), rng.normal(size=(2, 1, 1))]], X, Y, labels


def test_unequal_contexts_of_one_branch_with_heads_are_named():
    weights, X, Y, labels = two_heads()
    assert ls.applies(weights, (X, Y), contexts=labels).exact == ("WhitenedTwoLayer",)
    more = np.concatenate([X, X[:6]]), np.concatenate([Y, Y[:6]]), np.concatenate([labels, labels[:6]])
    wide = X * (1 + 1e-6 * labels[:, None]), Y, labels
    for (x, y, k), failing in ((more, "equal frequencies"), (wide, "same input moments")):
        verdict = ls.applies(weights, (x, y), contexts=k)
        assert verdict.exact == ()
        assert all(failing in [c.name for c in each.violated] for each in verdict.assessments)
        found = ls.solve(weights, (x, y), [1.0], contexts=k)
        assert f"needs {failing}" in found.route
        assert deviation(found, weights, branching.train(weights, x, y, np.array([1.0]), k)) <= 1e-9


def test_correlated_inputs_are_named_with_their_correlation():
    rng = np.random.default_rng(3)
    X = branching.white(rng, 9, 4)
    weights = [branching.solvable(rng, 2, 2) for _ in range(2)]
    data = (X[:, :2], X[:, 2:] + 1e-6 * X[:, :2]), rng.normal(size=(9, 2))
    assert ls.applies(weights, ((X[:, :2], X[:, 2:]), data[1])).exact[0] == "WhitenedTwoLayer of branch 1"
    verdict = ls.applies(weights, data)
    assert verdict.exact == ()
    assert verdict.assessments[0].name == "separate branches"
    (failed,) = (c for c in verdict.assessments[0].violated if c.name == "uncorrelated inputs")
    assert 0.5e-6 <= failed.distance <= 2e-6
    assert "To make it exact as separate branches" in str(verdict)
    found = ls.solve(weights, data, [1.0])
    assert deviation(found, weights, branching.train(weights, *data, np.array([1.0]))) <= 1e-9


def test_a_part_that_is_exact_does_not_make_the_network_exact():
    rng = np.random.default_rng(4)
    X = branching.white(rng, 12, 4) * [1.0, 1.0, 1.0, 2.0]
    data, pair = ((X[:, :2], X[:, 2:]), rng.normal(size=(12, 2))), branching.solvable(rng, 2, 2)
    verdict = ls.applies([pair, [rng.normal(size=(2, 2)), rng.normal(size=(2, 2))]], data)
    assert verdict.exact == ()
    assert "exact by itself: WhitenedTwoLayer of branch 1" in str(verdict)
    assert verdict.nearest.name.endswith("of branch 2")
    assert verdict.nearest.measured <= verdict.nearest.bound.value


# late fusion


def raw_times(weights, data):
    """Return the times at which the loss has lost half of what the first branch explains, and half of the rest."""
    (a, b), y = data[0], data[1]

    def least(*inputs):
        x = np.concatenate(inputs, axis=1)
        gap = y - x @ np.linalg.lstsq(x, y)[0]
        return gap @ gap / 2 / len(y)

    none, alone, both = y @ y / 2 / len(y), least(a), least(a, b)
    held = [w for pair in weights for w in pair]
    cuts = np.cumsum([w.size for w in held])[:-1]

    def parts(z):
        return [p.reshape(w.shape) for p, w in zip(np.split(z, cuts), held, strict=True)]

    def error(z):
        wa, va, wb, vb = parts(z)
        return y - (a @ wa.T @ va.T + b @ wb.T @ vb.T)[:, 0]

    def rate(_, z):
        (wa, va, wb, vb), e = parts(z), error(z)
        pulls = e @ a / len(y), e @ b / len(y)
        moves = [np.outer(va, pulls[0]), (wa @ pulls[0])[None], np.outer(vb, pulls[1]), (wb @ pulls[1])[None]]
        return np.concatenate([move.ravel() for move in moves])

    def until(goal):
        event = lambda _, z: error(z) @ error(z) / 2 / len(y) / goal - 1  # noqa: E731
        event.direction = -1
        return event

    z0 = np.concatenate([w.ravel() for w in held])
    events = until((none + alone) / 2), until((alone + both) / 2)
    events[1].terminal = True
    found = solve_ivp(rate, (0, 1e4), z0, "DOP853", events=events, rtol=1e-12, atol=1e-15 * np.abs(z0).max())
    return [float(each[0]) for each in found.t_events]


@pytest.mark.parametrize("seed", quick(range(100), 3))
def test_a_hundred_late_fusions_name_the_law_whose_times_are_those_of_raw_weights(seed):
    rng = np.random.default_rng(seed)
    weights, data = branching.fusion(rng, 1e-8, int(rng.integers(2, 4)), int(rng.integers(2, 4)))
    turn = bool(rng.integers(2))
    given = (weights[::-1], (data[0][::-1], data[1])) if turn else (weights, data)
    verdict = ls.applies(*given)
    law, raw = verdict.fusion, raw_times(weights, data)
    assert verdict.exact == ()
    assert law.holds
    assert law.order == ((2, 1) if turn else (1, 2))
    np.testing.assert_allclose(law.integrated, raw, rtol=1e-7)
    for time, exact, power in zip(law.times, raw, law.powers, strict=True):
        assert abs(time - exact) <= 30 * law.size**power
    (xa, xb), y = data
    cross = [x.T @ y / len(y) for x in (xa, xb)]
    rest = cross[1] - xb.T @ xa @ np.linalg.solve(xa.T @ xa, cross[0])
    np.testing.assert_allclose(
        law.limit, 1 + (np.linalg.norm(cross[0]) - np.linalg.norm(cross[1])) / np.linalg.norm(rest), rtol=1e-10
    )
    assert f"branch {law.order[0]} is learned at t = {law.times[0]:.5g}" in str(verdict)
    assert json.loads(verdict.to_json())["fusion"]["limit"] == pytest.approx(law.limit)


def test_the_law_of_late_fusion_runs_in_the_time_of_the_learning_rates():
    weights, data = branching.fusion(np.random.default_rng(0), 1e-5)
    rates = 0.5, 8.0
    scales = np.sqrt(np.array(rates) / 2.0)
    own = [[scales[0] * w1, scales[1] * w2] for w1, w2 in weights]
    plain, found = ls.applies(weights, data).fusion, ls.applies(own, data, rates=rates).fusion
    np.testing.assert_allclose(np.multiply(found.times, 2.0), plain.times, rtol=1e-10)
    np.testing.assert_allclose(found.clock * np.array(found.law.times(found.size)), found.times, rtol=1e-14)


def fused(change):
    return change(*branching.fusion(np.random.default_rng(0), 1e-5))


def tied(weights, data):
    (a, b), y = data
    flat, moment = np.concatenate([a, b], axis=1), np.concatenate([a, b], axis=1).T @ np.concatenate([a, b], axis=1)
    pull = np.array([1.0, 0.0, 0.6, 0.8])
    return weights, (data[0], flat @ np.linalg.solve(moment / len(y), pull))


FUSIONS = {
    "two branches": lambda w, d: ([*w, w[1]], ((*d[0], np.random.default_rng(1).normal(size=d[0][1].shape)), d[1])),
    "one output": lambda w, d: (
        [[w1, np.repeat(w2, 2, axis=0)] for w1, w2 in w],
        (d[0], np.stack([d[1], d[1][::-1]], axis=1)),
    ),
    "unequal correlations": tied,
    "small start": lambda w, d: ([[1e4 * w1, 1e4 * w2] for w1, w2 in w], d),
    "growing start of branch 1": lambda w, d: ([[0 * w[0][0], 0 * w[0][1]], w[1]], d),
}


@pytest.mark.parametrize("failing", FUSIONS)
def test_near_misses_of_late_fusion_name_the_condition(failing):
    verdict = ls.applies(*fused(FUSIONS[failing]))
    assert not verdict.fusion.holds
    assert verdict.fusion.times == ()
    assert failing in [each.name for each in verdict.fusion.conditions if not each.ok]
    assert f"does not hold: {failing}" in str(verdict) or f", {failing} (" in str(verdict)


def test_late_fusion_in_two_contexts_names_them():
    weights, data = branching.fusion(np.random.default_rng(0), 1e-5)
    verdict = ls.applies(weights, data, contexts=np.arange(40) % 2)
    assert [each.name for each in verdict.fusion.conditions if not each.ok] == ["one context"]


# shapes, values, errors


def test_values_have_the_axes_of_the_times():
    weights, X, Y, labels, gates = fixed()
    t = np.array([[0.0, 1.0], [2.0, 0.5]])
    traj = ls.solve(weights, (X, Y), t, contexts=labels, gates=gates)
    assert traj["map"].shape == (2, 2, 3, 3, 3)
    assert (traj["first_1"].shape, traj["last_1"].shape) == ((2, 2, 2, 3), (2, 2, 3, 3, 2))
    assert traj["singular_values"].shape == (2, 2, 3, 3)
    np.testing.assert_array_equal(traj["last_1"][0, 0], weights[0][1])
    np.testing.assert_array_equal(traj["first_2"][0, 0], weights[1][0])
    assert traj.flow.s.shape == (2,)
    assert "network of branches" in traj.kind
    rng = np.random.default_rng(0)
    fusing = ls.solve(*branching.fusion(rng, 0.1), 1.0)
    assert fusing["map"].shape == (1, 4)
    assert np.isscalar(fusing["loss"].item())


def test_lists_single_precision_and_one_output_as_a_vector_are_read():
    pair = [[[0.5, 0.1]], [0.3]]
    data = ([[1.0, 0.0], [0.0, 1.0]], [[2.0], [1.0]]), [1.0, 2.0]
    found = ls.solve([pair, [[[0.2]], [[0.4]]]], data, 1.0)
    assert found["map"].shape == (1, 3)
    weights, X, Y, labels, gates = fixed()
    single = [[w1.astype(np.float32), w2.astype(np.float32)] for w1, w2 in weights]
    verdict = ls.applies(single, (X, Y), contexts=labels, gates=gates)
    assert (verdict.exact, verdict.precision) == (("NeuralRace",), "float32")


def test_weights_of_zero_stay_and_small_ones_do_not_underflow():
    weights, X, Y, labels, gates = fixed()
    given = {"contexts": labels, "gates": gates}
    none = [[0 * w1, 0 * w2] for w1, w2 in weights]
    assert ls.applies(none, (X, Y), **given).exact == ("NeuralRace",)
    assert not ls.solve(none, (X, Y), np.inf, **given)["map"].any()
    tiny = [[1e-60 * w1, 1e-60 * w2] for w1, w2 in weights]
    assert ls.applies(tiny, (X, Y), **given).exact == ("NeuralRace",)
    assert float(ls.solve(tiny, (X, Y), np.inf, **given)["loss"]) <= 1e-25


PAIR, X2, Y2 = [np.ones((2, 3)), np.ones((1, 2))], np.arange(12.0).reshape(4, 3), np.ones((4, 1))
TWO = {"contexts": [0, 0, 1, 1]}


@pytest.mark.parametrize(
    ("weights", "data", "given", "message"),
    [
        ([[*PAIR, PAIR[1]]], (X2, Y2), {}, "branch 1 is 3 layers"),
        ([PAIR, PAIR[0]], (X2, Y2), {}, "but branch 2 is a ndarray"),
        (PAIR, (X2, Y2), TWO, r"weights = .* must be a list of branches, .* because contexts is given"),
        (PAIR, (X2, Y2), {"gates": 1}, r"weights = .* must be a list of branches, .* because gates is given"),
        (
            [[np.ones((2, 3)), np.ones((1, 3))]],
            (X2, Y2),
            {},
            r"W2 of branch 1 has shape \(1, 3\) but must have 2 columns",
        ),
        (
            [[np.ones((2, 3)), np.ones((1, 1, 1, 2))]],
            (X2, Y2),
            {},
            r"W2 of branch 1 has shape .* but must be \(outputs",
        ),
        ([[np.ones((2, 4)), np.ones((1, 2))]], (X2, Y2), {}, "W1 of branch 1 has 4 columns but the samples have 3"),
        ([[np.ones((2, 3)), np.ones((2, 2))]], (X2, Y2), {}, "W2 of branch 1 has 2 rows but the samples have 1"),
        ([[np.full((2, 3), np.nan), np.ones((1, 2))]], (X2, Y2), {}, "W1 of branch 1 = nan"),
        ([[1e40 * np.ones((2, 3)), np.ones((1, 2))]], (X2, Y2), {}, r"W1 of branch 1 reaches 1e\+40"),
        ([PAIR], X2, {}, r"data must be the pair \(X, Y\)"),
        ([PAIR], (X2, Y2[:3]), {}, "Y has 3 rows but X has 4"),
        ([PAIR], (X2[0], Y2), {}, r"X has shape \(3,\) but must be a matrix"),
        ([PAIR], (1.0, Y2), {}, r"X has shape \(\) but must be a matrix"),
        ([PAIR, PAIR], ((X2,), Y2), {}, "X has 1 arrays but weights has 2 branches"),
        ([PAIR, PAIR], ((X2, 0 * X2), Y2), {}, "X of branch 2 = 0 must have an entry other than 0"),
        ([PAIR], (1e-200 * X2, Y2), {}, "X reaches 1.1e-199 but must reach"),
        ([PAIR], (X2, Y2), {"gates": [[1.0]]}, "gates needs contexts"),
        ([PAIR], (X2, Y2), {"contexts": [0, 0, 1]}, r"contexts has shape \(3,\) but must be \(4,\)"),
        ([PAIR], (X2, Y2), {"contexts": [0, 0, 1, -1]}, r"contexts\[3\] = -1 must be a whole number from 0"),
        ([PAIR], (X2, Y2), {"contexts": [0, 0, 1, 0.5]}, r"contexts\[3\] = 0\.5 must be a whole number from 0 to 1"),
        ([PAIR], (X2, Y2), {"contexts": [0, 0, 1, 1e9]}, r"contexts\[3\] = 1e\+09 must be a whole number from 0 to 3"),
        ([PAIR], (X2, Y2), {"contexts": [0, 0, 2, 2]}, "contexts lacks 1"),
        ([PAIR], (X2, Y2), TWO | {"gates": [[1.0]]}, r"contexts\[2\] = 1 must be a whole number from 0 to 0"),
        ([PAIR], (X2, Y2), TWO | {"gates": [[1.0, 0.5]]}, r"gates\[0, 1\] = 0\.5 must be 0 or 1"),
        ([PAIR], (X2, Y2), TWO | {"gates": [[1.0, np.nan]]}, "gates = nan"),
        ([PAIR], (X2, Y2), TWO | {"gates": [1.0, 1.0]}, r"gates has shape \(2,\) but must be \(1, contexts\)"),
        ([PAIR], (X2, Y2), TWO | {"gates": [[1.0, 0.0]]}, r"gates\[:, 1\] has no 1"),
        ([PAIR, PAIR], (X2, Y2), TWO | {"gates": [[1, 1], [0, 0]]}, r"gates\[1\] has no 1 .branch 2"),
        (
            [[PAIR[0], np.ones((3, 1, 2))]],
            (X2, Y2),
            TWO,
            r"W2 of branch 1 has shape \(3, 1, 2\) but must be \(2, 1, 2\)",
        ),
        ([PAIR], (X2, Y2), {"rates": [1.0]}, r"rates has shape \(1,\) but must be \(2,\)"),
        ([PAIR], (X2, Y2), {"rates": [1.0, 0.0]}, r"rates = 0\.0 at index \(1,\) must lie in"),
        ([PAIR], (X2, Y2), {"bias": [None, None]}, "bias = .* does not go with branches"),
        ([PAIR], (X2, Y2), {"covariances": True}, "covariances = True does not go with branches"),
        ([PAIR], (X2, Y2), {"activation": "relu"}, "activation = 'relu' does not go with branches"),
        ([PAIR], (X2, Y2), {"base": np.ones((1, 3))}, "base = .* does not go with branches"),
        ([PAIR], (X2, Y2), {"context": 4}, "context = 4 does not go with branches"),
        ([PAIR], (X2, Y2), {"step": 0.1}, r"step = 0\.1 does not go with branches"),
        ([PAIR], (X2, Y2), {"tolerance": 2.0}, r"tolerance = 2\.0 must be a number"),
    ],
)
def test_errors_name_the_argument(weights, data, given, message):
    for call in (lambda: ls.applies(weights, data, **given), lambda: ls.solve(weights, data, 1.0, **given)):
        with pytest.raises(ValueError, match=f"(applies|solve): .*{message}"):
            call()


def test_infinite_and_late_times_of_integrated_branches_are_refused():
    weights, data, labels, gates = branching.general(np.random.default_rng(0))
    with pytest.raises(ValueError, match="solve: t = inf must be finite"):
        ls.solve(weights, data, np.inf, contexts=labels, gates=gates)
    with pytest.raises(ValueError, match=r"solve: t = -1\.0 must lie in"):
        ls.solve(weights, data, -1.0, contexts=labels, gates=gates)
    with pytest.raises(ValueError, match=r"applies: until = 0 must be"):
        ls.applies(weights, data, contexts=labels, gates=gates, until=0)


# mutants


@pytest.mark.parametrize("name", BRANCHES)
def test_wrong_formulas_are_rejected_by_the_simulation_and_by_the_measured_error(name, monkeypatch):
    weights, X, Y, labels, gates = fixed()
    given, t = {"contexts": labels, "gates": gates}, np.array([0.5, 2.0])
    raw = branching.train(weights, X, Y, t, labels, gates)
    assert deviation(ls.solve(weights, (X, Y), t, **given), weights, raw) <= 1e-12
    monkeypatch.setattr(*BRANCHES[name])
    assert deviation(ls.solve(weights, (X, Y), t, **given), weights, raw) >= 1e-3
    assert ls.applies(weights, (X, Y), **given).errors["NeuralRace"] >= 1e-3


@pytest.mark.parametrize("name", UNSEEN)
def test_conditions_that_are_left_out_are_seen_by_the_simulation(name, monkeypatch):
    weights, X, Y, labels, gates = fixed()
    if name == "unequal contexts":
        weights, X, Y, labels, gates = RACES["equal frequencies"](*two_heads(), np.ones((1, 2)))
    given, t = {"contexts": labels, "gates": gates}, np.array([0.5, 2.0])
    raw = branching.train(weights, X, Y, t, labels, gates)
    assert deviation(ls.solve(weights, (X, Y), t, **given), weights, raw) <= 1e-8
    monkeypatch.setattr(*UNSEEN[name])
    found = ls.solve(weights, (X, Y), t, **given)
    assert found.route.startswith("closed form")
    assert deviation(found, weights, raw) >= 1e-3
