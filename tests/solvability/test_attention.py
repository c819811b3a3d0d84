"""`applies` and `solve` for linear attention, against simulated heads on the moments of sequences."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from selection import quick

import linsolve as ls
from linsolve.__main__ import main
from linsolve.systems.attention.sequences import Moments, followed, merged_pull, population, separate_pull


def orthogonal(rng, d):
    return np.linalg.qr(rng.normal(size=(d, d)))[0]


def close(found, exact, tolerance):
    return np.max(np.abs(found - exact)) <= tolerance * np.max(np.abs(exact))


def sequences(rng, count, context, root):
    """Return tokens and targets, drawn sequence by sequence, and their moments."""
    d = len(root)
    tokens, task = rng.normal(size=(count, context + 1, d)) @ root.T, rng.normal(size=(count, d))
    targets = np.einsum("pnd,pd->pn", tokens, task)
    linear, quadratic = np.zeros((d, d)), np.zeros((d, d, d, d))
    for x, y in zip(tokens, targets, strict=True):
        seen = np.outer(x[:-1].T @ y[:-1] / context, x[-1])
        linear += y[-1] * seen / count
        quadratic += np.multiply.outer(seen, seen) / count
    return (tokens, targets), Moments(linear, quadratic, np.mean(targets[:, -1] ** 2))


# merged keys and queries


@pytest.mark.parametrize("seed", quick(range(100), 3))
def test_a_hundred_merged_layers_on_white_tokens_are_named_and_equal_simulated_heads(seed):
    rng = np.random.default_rng(seed)
    d, count, context, variance = int(rng.integers(1, 4)), int(rng.integers(1, 5)), 7, rng.uniform(0.5, 1.5)
    rates = rng.uniform(0.5, 2.0, 2)
    rate = np.sqrt(rates[0] * rates[1])
    heads = ls.LinearAttention.init(d, count, scale=rng.uniform(0.1, 0.8), rng=rng)  # balanced at equal rates
    heads = [w * np.sqrt(each / rate) for w, each in zip(heads, rates, strict=True)]
    verdict = ls.applies(heads, variance, rates, context=context)
    assert verdict.exact[0] == "LinearAttention"
    assert verdict.errors["LinearAttention"] <= 1e-8
    t = np.array([0.4, 1.0]) * verdict.until
    equal = [w / np.sqrt(each / rate) for w, each in zip(heads, rates, strict=True)]
    raw = followed(population(context, variance * np.eye(d)), merged_pull, tuple(equal), rate * t, 1e-12)
    match = verdict.match("LinearAttention")
    traj, maps = match.flow(t, match.z0), np.einsum("th,thab->tab", *raw)
    assert close(match.map(traj), maps, 1e-9)
    assert close(traj["loss"], population(context, variance * np.eye(d)).loss(maps), 1e-9)
    found = ls.solve(heads, variance, t, rates, context=context)
    value, key_query = (w * np.sqrt(each / rate) for w, each in zip(raw, rates, strict=True))
    for name, exact in (("value", value), ("key_query", key_query), ("map", maps)):
        assert close(found[name], exact, 1e-8), name
    assert close(found["loss"], traj["loss"], 1e-10)


def test_tokens_that_are_not_white_name_their_distance_and_are_integrated():
    rng = np.random.default_rng(0)
    axes, variance = orthogonal(rng, 3), np.array([0.5, 0.8, 1.0])
    covariance, heads = (axes * variance) @ axes.T, ls.LinearAttention.init(3, 4, scale=0.1, rng=1)
    verdict = ls.applies(heads, covariance, [1.0, 2.0], context=20)
    assert not verdict.exact
    (failed,) = verdict.assessments[0].violated
    assert (verdict.assessments[0].name, failed.name) == ("LinearAttention", "white tokens")
    np.testing.assert_allclose(failed.distance, 0.5, rtol=1e-12)
    assert verdict.nearest.measured <= verdict.nearest.bound.value
    assert "FAIL white tokens" in str(verdict)
    with pytest.raises(ls.NotExact, match=r"LinearAttention: white tokens = 0\.5"):
        verdict.flow("LinearAttention")
    moments = population(20, covariance)
    scaled = 2**0.25 * heads[0], 2**-0.25 * heads[1]  # rates 1, 2 are sqrt 2 for both
    t = np.array([0.5, 1.0]) * verdict.until
    raw = followed(moments, merged_pull, scaled, np.sqrt(2) * t, 1e-12)
    maps = np.einsum("th,thab->tab", *raw)
    found = ls.solve(heads, covariance, t, [1.0, 2.0], context=20)
    assert found.route.startswith("DOP853: WhitenedTwoLayer needs white inputs")
    for name, exact in (("map", maps), ("value", raw[0] / 2**0.25), ("loss", moments.loss(maps))):
        assert close(found[name], exact, 1e-8), name
    first, best = axes[:, 2], np.linalg.solve(moments.quadratic.reshape(9, 9), moments.linear.ravel()).reshape(3, 3)
    time = verdict.directions.times[0]
    then = followed(moments, merged_pull, scaled, np.sqrt(2) * np.array([time]), 1e-12)
    share = first @ np.einsum("th,thab->tab", *then)[0] @ first / (first @ best @ first)
    np.testing.assert_allclose(share, 0.5, rtol=1e-6)
    np.testing.assert_allclose(verdict.directions.values, variance[::-1], rtol=1e-12)


def test_two_heads_off_balance_name_the_imbalance():
    rng = np.random.default_rng(1)
    verdict = ls.applies((rng.normal(size=2), rng.normal(size=(2, 2, 2))), 1.0, context=5)
    assert [each.name for each in verdict.assessments[0].violated] == ["solvable imbalance"]


def test_sampled_sequences_are_the_network_of_their_moments():
    rng = np.random.default_rng(2)
    data, moments = sequences(rng, 60, 4, np.diag([1.0, 0.7]))
    test, held_out = sequences(rng, 20, 4, np.diag([1.0, 0.7]))
    heads, t = ls.LinearAttention.init(2, 3, scale=0.3, rng=3), np.array([0.5, 2.0])
    maps = np.einsum("th,thab->tab", *followed(moments, merged_pull, heads, t, 1e-12))
    found = ls.solve(heads, data, t, context=4, test=test)
    for name, exact in (("map", maps), ("loss", moments.loss(maps)), ("test_loss", held_out.loss(maps))):
        assert close(found[name], exact, 1e-8), name
    verdict = ls.applies(heads, data, context=4)
    assert not verdict.exact
    assert verdict.nearest.measured <= verdict.nearest.bound.value


# keys and queries of rank one


def aligned(rng, d, rates):
    """Return axes, variances, strengths and balanced heads along eigenvectors, in random order and signs."""
    axes, variance = orthogonal(rng, d), rng.uniform(0.4, 2.0, d)
    strengths = rng.uniform(0.02, 0.3, d) * rng.choice([-1.0, 1.0], d)
    signs = rng.choice([-1.0, 1.0], (3, d))
    signs[2] = np.sign(strengths) * signs[0] * signs[1]
    root = np.cbrt(np.abs(strengths)) * signs * np.sqrt(rates / np.exp(np.mean(np.log(rates))))[:, None]
    order = rng.permutation(d)
    value, key, query = root[0], root[1][:, None] * axes.T, root[2][:, None] * axes.T
    return axes, variance, strengths, (value[order], key[order], query[order])


@pytest.mark.parametrize("seed", quick(range(100), 3))
def test_a_hundred_rank_one_layers_are_named_and_equal_simulated_heads(seed):
    rng = np.random.default_rng(seed)
    d, context, rates = int(rng.integers(1, 4)), float(rng.integers(3, 30)), rng.uniform(0.5, 2.0, 3)
    axes, variance, strengths, heads = aligned(rng, d, rates)
    covariance, clock = (axes * variance) @ axes.T, np.exp(np.mean(np.log(rates)))
    verdict = ls.applies(heads, covariance, rates, context=context)
    assert verdict.exact == ("RankOneAttention",)
    assert verdict.errors["RankOneAttention"] <= 1e-7
    t = np.array([0.2, 0.6]) * verdict.until
    equal = [w * np.sqrt(clock / rate) for w, rate in zip(heads, rates, strict=True)]
    moments = population(context, covariance)
    raw = followed(moments, separate_pull, tuple(equal), clock * t, 1e-12)
    maps = np.einsum("th,tha,thb->tab", *raw)
    flow, z0 = verdict.flow()
    assert close(verdict.match().map(flow(t, z0)), maps, 1e-9)
    found = ls.solve(heads, covariance, t, rates, context=context)
    assert found.route == "closed form: RankOneAttention"
    for name, exact, rate in zip(("value", "key", "query"), raw, rates, strict=True):
        assert close(found[name], exact / np.sqrt(clock / rate), 1e-9), name
    assert close(found["loss"], moments.loss(maps), 1e-9)
    stages = ls.RankOneAttention(context, variance, tau=1 / clock).stages(strengths)
    np.testing.assert_allclose(np.sort(verdict.directions.times), stages.times, rtol=1e-9)
    np.testing.assert_allclose(verdict.directions.values, np.sort(variance)[::-1], rtol=1e-9)
    fastest = variance[stages.order[0]]
    if np.isfinite(stages.times[0]):
        np.testing.assert_allclose(verdict.directions.values[np.argmin(verdict.directions.times)], fastest, rtol=1e-9)


@pytest.mark.parametrize(
    ("failing", "change"),
    [
        ("along eigenvectors", lambda v, k, q, turn: (v, k @ turn, q @ turn)),
        ("key along query", lambda v, k, q, turn: (v, k, q[::-1])),
        ("one head each", lambda v, k, q, turn: (v, k[[0, 0]], q[[0, 0]])),
        ("balance", lambda v, k, q, turn: (1.1 * v, k, q)),
    ],
)
def test_near_misses_of_rank_one_heads_name_the_condition(failing, change):
    axes, variance, _, heads = aligned(np.random.default_rng(4), 2, np.ones(3))
    turn = np.array([[np.cos(0.1), -np.sin(0.1)], [np.sin(0.1), np.cos(0.1)]])
    heads, covariance = change(*heads, turn), (axes * variance) @ axes.T
    verdict = ls.applies(heads, covariance, context=6, until=3.0)
    failed = [each.name for each in verdict.assessments[0].violated]
    assert failing in failed
    assert f"FAIL {failing}" in str(verdict)
    with pytest.raises(ls.NotExact, match=f"{failing} = .*nearest: RankOneAttention"):
        verdict.flow()
    moments, t = population(6.0, covariance), np.array([0.5, 3.0])
    maps = np.einsum("th,tha,thb->tab", *followed(moments, separate_pull, tuple(heads), t, 1e-12))
    found = ls.solve(heads, covariance, t, context=6)
    assert found.route.startswith("DOP853: RankOneAttention needs")
    assert close(found["map"], maps, 1e-8)


@pytest.mark.parametrize("case", quick(["seed 3, 3 heads", "seed 4, 2 heads", "seed 1, 3 heads", "seed 5, 3 heads"], 2))
def test_the_default_horizon_of_heads_is_the_time_at_which_5_percent_of_the_removable_loss_is_left(case):
    """The heads are integrated from the gradient in matrix form, up to the last plateau."""
    seed, count = int(case.split()[1][:-1]), int(case.split()[2])
    rng = np.random.default_rng(seed)
    axes, variance = orthogonal(np.random.default_rng(0), 3), np.array([0.9, 1.2, 1.7])
    covariance, start = (axes * variance) @ axes.T, 0.3 * rng.normal(size=(count, 7))
    verdict = ls.applies((start[:, 0], start[:, 1:4], start[:, 4:]), covariance, context=31)
    c = variance + (variance + np.sum(variance)) / 31
    beta = (axes * (c * variance)) @ axes.T

    def maps(flat):
        v, k, q = np.split(flat.reshape(count, 7), [1, 4], axis=1)
        return (v * k).T @ q

    def velocity(_, flat):
        v, k, q = np.split(flat.reshape(count, 7), [1, 4], axis=1)
        pull = covariance @ covariance - beta @ maps(flat) @ covariance
        return np.hstack([np.sum(k @ pull * q, axis=1, keepdims=True), v * (q @ pull.T), v * (k @ pull)]).ravel()

    def removable(flat):
        gap = maps(flat) - (axes / c) @ axes.T
        return np.trace(gap.T @ beta @ gap @ covariance) / 2 - np.sum(np.sort(variance**2 / c)[: 3 - count]) / 2

    path = solve_ivp(velocity, (0.0, verdict.until), start.ravel(), "DOP853", rtol=1e-11, atol=1e-13, dense_output=True)
    assert abs(removable(path.y[:, -1]) / removable(start.ravel()) - 0.05) <= 1e-5
    for e, strength, time in zip(axes.T[::-1], 1 / c[::-1], verdict.directions.times, strict=True):
        share = e @ maps(path.sol(min(time, verdict.until))) @ e / strength
        assert abs(share - 0.5) <= 1e-4 if np.isfinite(time) else share < 0.5
    assert np.sum(np.isfinite(verdict.directions.times)) == count


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_default_horizon_of_exact_heads_is_set_by_the_closed_form(sign):
    size, flow = np.cbrt(1e-3) * np.ones(2), ls.RankOneAttention(31, [2.0, 1.0])
    verdict = ls.applies((sign * size, np.diag(size), np.diag(size)), [2.0, 1.0], context=31)
    first, now, last = flow([0.0, verdict.until, np.inf], sign * size**3)["loss"]
    np.testing.assert_allclose((now - last) / (first - last), 0.05, rtol=1e-9)


def test_heads_that_cannot_learn_all_are_followed_until_they_stay():
    size = 0.1 * np.ones(2)
    idle = ls.applies((size, np.zeros((2, 2)), np.zeros((2, 2))), [2.0, 1.0], context=31)
    assert 0 < idle.until < np.inf
    rng = np.random.default_rng(2)
    data, head = sequences(rng, 60, 4, np.eye(2))[0], (np.ones(1), *0.3 * rng.normal(size=(2, 1, 2)))
    until = ls.applies(head, data, context=4).until
    first, now, later = ls.solve(head, data, [0.0, until, 3 * until], context=4)["loss"]
    assert 0 <= now - later <= 1e-3 * (first - later)


def test_repeated_variances_take_the_keys_as_eigenvectors_and_an_idle_direction_stays():
    rng = np.random.default_rng(5)
    axes, root = orthogonal(rng, 3), np.cbrt([0.1, 0.2])
    heads = (root, root[:, None] * axes.T[:2], root[:, None] * axes.T[:2])
    verdict = ls.applies(heads, 0.7 * np.eye(3), context=9)
    assert verdict.exact == ("RankOneAttention",)
    found = ls.solve(heads, 0.7 * np.eye(3), [2.0, np.inf], context=9)
    c = 0.7 + 4 * 0.7 / 9
    assert close(found["map"][1], (axes[:, :2] / c) @ axes[:, :2].T, 1e-12)
    assert np.max(verdict.directions.times) == np.inf

    def half(start):
        return brentq(lambda t: ls.DeepMode(1 / c, 3)(0.49 * c * t, start)["a"] - 0.5 / c, 0, 50, xtol=1e-12)

    np.testing.assert_allclose(np.sort(verdict.directions.times)[:2], [half(0.2), half(0.1)], rtol=1e-9)


def test_sampled_sequences_of_rank_one_heads_name_the_distance_from_the_population():
    axes, variance, _, heads = aligned(np.random.default_rng(6), 2, np.ones(3))
    data, moments = sequences(np.random.default_rng(7), 300, 5, axes * np.sqrt(variance))
    verdict = ls.applies(heads, data, context=5, until=4.0)
    assert {"all sequences"} <= {each.name for each in verdict.assessments[0].violated}
    found = ls.solve(heads, data, [4.0], context=5)
    raw = followed(moments, separate_pull, heads, np.array([4.0]), 1e-12)
    assert close(found["map"], np.einsum("th,tha,thb->tab", *raw), 1e-8)
    assert close(found["loss"], moments.loss(found["map"]), 1e-12)


TOKENS, MERGED = np.ones((5, 4, 2)), (np.ones(3), np.ones((3, 2, 2)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((MERGED, np.eye(3)), r"applies: data has shape \(3, 3\)"),
        ((MERGED, [1.0, 0.0]), "applies: data has tokens of variances 0 to 1"),
        ((MERGED, [[1.0, 2.0], [2.0, 1.0]]), "applies: data has the eigenvalue -1"),
        ((MERGED, 1.0, [1.0]), r"applies: rates has shape \(1,\)"),
        ((MERGED, (TOKENS, np.ones((5, 3)))), r"applies: data\[1\] has shape \(5, 3\) but must be \(5, 4\)"),
        (
            (MERGED, (TOKENS[:, :2], np.ones((5, 2)))),
            r"applies: data\[0\] has shape \(5, 2, 2\) but must be \(5, 4, 2\)",
        ),
        ((MERGED, (TOKENS, np.ones((5, 4)))), r"applies: data\[0\] has tokens of variances"),
        (((np.ones(2), MERGED[1]), 1.0), r"applies: key_query has shape \(3, 2, 2\) but must"),
        (((1.0, MERGED[1]), 1.0), r"applies: weights = \(value, key_query\): value has shape \(\) but must be"),
        (((np.ones(3),), 1.0), r"applies: weights must be \(value, key_query\), or \(value, key, query\)"),
        (((np.ones(3), np.ones((2, 2)), np.ones((2, 2))), 1.0), r"applies: value has shape \(3,\)"),
        (((np.ones(2), np.ones(2), np.ones((2, 2))), 1.0), r"applies: key has shape \(2,\) but must be \(heads, d\)"),
        (((np.ones(2), 1e40 * np.ones((2, 2)), np.ones((2, 2))), 1.0), r"applies: key reaches 1e\+40"),
    ],
)
def test_errors_name_the_argument(arguments, message):
    with pytest.raises(ValueError, match=message):
        ls.applies(*arguments, context=3)


def test_sequences_without_targets_are_refused():
    tokens = np.random.default_rng(9).normal(size=(9, 4, 2))
    with pytest.raises(ValueError, match=r"applies: data\[1\] = 0 must have an entry other than 0"):
        ls.applies(MERGED, (tokens, np.zeros((9, 4))), context=3)


def test_arguments_that_do_not_go_with_context_are_refused():
    for name in ("bias", "base"):
        with pytest.raises(ValueError, match=f"applies: {name} = 1.0 does not go with context"):
            ls.applies(MERGED, 1.0, context=3, **{name: 1.0})
    with pytest.raises(ValueError, match=r"applies: context = 0\.5 must be a number"):
        ls.applies(MERGED, 1.0, context=0.5)
    with pytest.raises(ValueError, match="applies: test needs sampled sequences"):
        ls.applies(MERGED, 1.0, context=3, test=(TOKENS, np.ones((5, 4))))


def test_linear_is_an_activation_of_every_kind_of_heads():
    ones = np.cbrt(1e-3) * np.ones(2)
    for weights in (MERGED, (ones, np.diag(ones), np.diag(ones))):
        found = [ls.solve(weights, 1.0, [0.0, 0.5], context=3, activation=unit)["loss"] for unit in (None, "linear")]
        np.testing.assert_array_equal(*found)
        with pytest.raises(ValueError, match="solve: activation = 'relu' does not go with context"):
            ls.solve(weights, 1.0, 0.5, context=3, activation="relu")


def test_the_command_reads_heads_and_tokens(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    value, key_query = ls.LinearAttention.init(2, 2, scale=0.2, rng=0)
    np.savez("heads.npz", value=value, key_query=key_query)
    np.savez("tokens.npz", covariance=np.eye(2))
    assert main(["applies", "heads.npz", "tokens.npz", "--context", "8"]) == 0
    assert capsys.readouterr().out.startswith("linear attention, 2 heads on tokens of dimension 2: exact as LinearAtt")
    np.savez("tokens.npz", covariance=np.diag([1.0, 2.0]))
    assert main(["applies", "heads.npz", "tokens.npz", "--context", "8"]) == 3
    assert main(["applies", "tokens.npz", "tokens.npz", "--context", "8"]) == 2
    assert main(["applies", "heads.npz", "tokens.npz", "--context", "8", "--center"]) == 2


def test_heads_in_single_precision_are_judged_at_their_own_rounding():
    axes, variance, _, heads = aligned(np.random.default_rng(8), 3, np.ones(3))
    verdict = ls.applies([w.astype(np.float32) for w in heads], (axes * variance) @ axes.T, context=6, until=2.0)
    assert verdict.exact == ("RankOneAttention",)
    assert verdict.precision == "float32"
    for name, value in (("rtol", 2.0), ("tolerance", -1.0)):
        with pytest.raises(ValueError, match=f"solve: {name} = "):
            ls.solve(heads, (axes * variance) @ axes.T, [1.0], context=6, **{name: value})
