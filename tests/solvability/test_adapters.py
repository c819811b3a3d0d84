"""`applies` and `solve` for a frozen map with a linear update (LoRA), against simulated adapters."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from selection import quick

import linsolve as ls
from linsolve.__main__ import main
from linsolve.solvability.directions import Directions


def white(rng, count, n_in, kappa=1.0):
    return np.sqrt(kappa * count) * np.linalg.qr(rng.normal(size=(count, n_in)))[0]


def simulated(a, b, X, Y, base, scale, rates, t):
    """Return A and B at increasing times by gradient flow of half the mean squared error of ``W0 x + c B A x``."""

    def rate(_, z):
        down, up = z[: a.size].reshape(a.shape), z[a.size :].reshape(b.shape)
        error = (Y - X @ (base + scale * up @ down).T).T @ X / len(X)
        return np.concatenate([rates[0] * scale * (up.T @ error).ravel(), rates[1] * scale * (error @ down.T).ravel()])

    path = solve_ivp(
        rate, (0.0, t[-1]), np.concatenate([a.ravel(), b.ravel()]), "DOP853", t, rtol=3e-14, atol=1e-15
    ).y.T
    return path[:, : a.size].reshape(-1, *a.shape), path[:, a.size :].reshape(-1, *b.shape)


def drawn(seed):
    rng = np.random.default_rng(seed)
    n_in, n_out = (int(n) for n in rng.integers(2, 5, 2))
    rank = int(rng.integers(1, n_in + 1))
    X = white(rng, 15, n_in, rng.uniform(0.5, 2.0))
    base, Y = rng.normal(size=(n_out, n_in)), rng.normal(size=(15, n_out))
    a, b = ls.LoRA.init(n_in, rank, n_out, size=rng.uniform(0.2, 1.0), rng=rng)
    return (a, b, X, Y, base, rng.uniform(0.3, 3.0), rng.uniform(0.5, 2.0, 2)), rng


@pytest.mark.parametrize("seed", quick(range(100), 4))
def test_a_hundred_starts_of_lora_are_named_and_equal_simulated_adapters(seed):
    (a, b, X, Y, base, scale, rates), _ = drawn(seed)
    verdict = ls.applies([a, b], (X, Y), rates, base=base, scale=scale)
    assert "LoRA" in verdict.exact
    assert verdict.errors["LoRA"] <= 1e-9
    t = np.array([0.2, 0.7]) * verdict.until
    down, up = simulated(a, b, X, Y, base, scale, rates, t)
    match = verdict.match("LoRA")
    traj = match.flow(t, match.z0)
    np.testing.assert_allclose(match.map(traj), scale * up @ down, rtol=0, atol=1e-11)
    best = Y.T @ X / len(X) / (np.sum(X**2) / X.size)
    residual = np.sum((best - base - scale * up @ down) ** 2, axis=(1, 2)) / 2
    np.testing.assert_allclose(traj["loss"], residual, rtol=0, atol=1e-10)
    found = ls.solve([a, b], (X, Y), t, rates, base=base, scale=scale)
    assert found.route.startswith("closed form: ")
    assert "WhitenedTwoLayer" not in found.route  # the name that `applies` gives is LoRA
    for name, exact in (("w1", down), ("w2", up), ("map", base + scale * up @ down)):
        np.testing.assert_allclose(found[name], exact, rtol=0, atol=1e-10)
    losses = [np.sum((Y - X @ m.T) ** 2) / 2 / len(X) for m in base + scale * up @ down]
    np.testing.assert_allclose(found["loss"], losses, rtol=1e-10)


def test_directions_of_the_change_are_learned_at_their_times():
    rng = np.random.default_rng(0)
    u, v = (np.linalg.qr(rng.normal(size=(n, 3)))[0] for n in (4, 3))
    base, s = rng.normal(size=(4, 3)), np.array([3.0, 1.5, 0.5])
    a, b = ls.LoRA.init(3, 2, 4, size=0.05, rng=rng)
    X = white(rng, 20, 3)
    verdict = ls.applies([a, b], (X, X @ (base + (u * s) @ v.T).T), [1.0, 4.0], base=base, scale=2.0)
    flow = ls.LoRA(base + (u * s) @ v.T, base, 2.0, ratio=4.0)

    def half(k):
        return brentq(lambda t: float(flow(t, flow.of(a, b))["strengths"][k]) - s[k] / 2, 0.0, 5.0, xtol=1e-13)

    found = verdict.directions
    np.testing.assert_allclose(found.values, s, rtol=1e-12)
    np.testing.assert_allclose(found.times[:2], [half(0), half(1)], rtol=1e-7)
    assert found.times[2] == np.inf  # rank 2 learns two directions
    assert f"3 at t = {half(0):.4g}; 1.5 at t = {half(1):.4g}; 0.5 never." in str(verdict)
    assert found.never.tolist() == [False, False, True]
    later = ls.applies([a, b], (X, X @ (base + (u * s) @ v.T).T), [1.0, 4.0], base=base, scale=2.0, until=1e-9)
    assert later.directions.until == pytest.approx(1e-5)
    assert not later.directions.never[:2].any()
    assert "1.5 not by t = 1e-05; 0.5 never." in str(later)


def test_a_direction_that_the_start_has_is_learned_from_the_start():
    found = Directions("size", np.array([2.0, 1.0]), np.array([0.0, np.inf]), 3.0, np.array([False, False]))
    assert str(found) == "Half learned, by size: 2 from the start; 1 not by t = 3."


def test_gaussian_adapters_are_refused_with_their_distance_a_bound_and_times_of_the_integration():
    (_, b, X, Y, base, scale, rates), rng = drawn(7)
    a = rng.normal(size=(2, X.shape[1]))
    b = np.zeros((len(b), 2))
    verdict = ls.applies([a, b], (X, Y), rates, base=base, scale=scale)
    near = verdict.nearest
    assert not verdict.exact
    assert near.name == "LoRA"
    assert 0 < near.measured <= near.bound.value
    (failed,) = next(each for each in verdict.assessments if each.name == "LoRA").violated
    assert failed.name == "solvable imbalance"
    assert failed.distance > 0.1
    with pytest.raises(ls.NotExact, match=r"LoRA: solvable imbalance = .*linsolve\.solve integrates"):
        verdict.flow("LoRA")
    t = np.array([0.5, 1.0]) * verdict.until
    down, up = simulated(a, b, X, Y, base, scale, rates, t)
    found = ls.solve([a, b], (X, Y), t, rates, base=base, scale=scale)
    assert found.route.startswith("DOP853: ")
    assert not any("closed form is that" in note for note in found.notes)
    np.testing.assert_allclose(found["map"], base + scale * up @ down, atol=1e-8)
    time = verdict.directions.times[0]
    down, up = simulated(a, b, X, Y, base, scale, rates, np.array([time / 2, time]))
    left, s, right = np.linalg.svd(Y.T @ X / np.sum(X[:, 0] ** 2) - base)
    np.testing.assert_allclose(left[:, 0] @ (scale * up[-1] @ down[-1]) @ right[0], s[0] / 2, rtol=1e-6)
    exact = match_error(verdict, near, (a, b, X, Y, base, scale, rates))
    np.testing.assert_allclose(exact, near.measured, rtol=1e-6)


def match_error(verdict, near, problem):
    """Return the largest root mean square error of a nearby flow, from simulated adapters."""
    _, _, X, _, _, scale, _ = problem
    times = np.linspace(0.0, verdict.until, 129)
    down, up = simulated(*problem, times)
    gap = near.match.map(near.match.flow(times, near.match.z0)) - scale * up @ down
    return np.sqrt(np.mean(np.sum((X @ np.swapaxes(gap, 1, 2)) ** 2, axis=2), axis=1)).max()


def test_a_base_that_solves_the_task_leaves_no_direction():
    (a, b, X, _, base, scale, _), _ = drawn(4)
    verdict = ls.applies([a, b], (X, X @ base.T), base=base, scale=scale)
    assert verdict.directions.values.size == 0
    assert "Nothing is left to learn" in str(verdict)


def test_inputs_that_are_not_white_are_named():
    (a, b, X, Y, base, scale, _), _ = drawn(11)
    verdict = ls.applies([a, b], (X * np.linspace(1, 2, X.shape[1]), Y), base=base, scale=scale)
    failed = next(each for each in verdict.assessments if each.name == "LoRA").violated
    assert [each.name for each in failed] == ["white inputs"]


def test_test_samples_and_descent_are_those_of_the_adapted_map():
    (a, b, X, Y, base, scale, rates), rng = drawn(5)
    held_out = rng.normal(size=(6, X.shape[1])), rng.normal(size=(6, len(base)))
    t = np.array([0.3, 1.0])
    found = ls.solve([a, b], (X, Y), t, rates, base=base, scale=scale, test=held_out)
    down, up = simulated(a, b, X, Y, base, scale, rates, t)
    losses = [np.sum((held_out[1] - held_out[0] @ m.T) ** 2) / 12 for m in base + scale * up @ down]
    np.testing.assert_allclose(found["test_loss"], losses, rtol=1e-9)
    step, now = 0.05, [a, b]
    left = ls.applies([a, b], (X, Y), rates, base=base, scale=scale, step=step, within=0.01, until=1.0).departure
    grid = step * np.arange(21)
    maps, moves = simulated(a, b, X, Y, base, scale, rates, grid), []
    flow = scale * maps[1] @ maps[0]
    for _ in grid:
        moves.append(scale * now[1] @ now[0])
        error = (Y - X @ (base + moves[-1]).T).T @ X / len(X)
        now = [now[0] + step * rates[0] * scale * now[1].T @ error, now[1] + step * rates[1] * scale * error @ now[0].T]
    size = np.linalg.norm(X @ np.swapaxes(flow, 1, 2), axis=(1, 2))
    gap = np.linalg.norm(X @ np.swapaxes(np.array(moves) - flow, 1, 2), axis=(1, 2))
    np.testing.assert_allclose(left.time, grid[np.argmax(gap > 0.01 * size.max())], atol=1e-12)
    np.testing.assert_allclose(left.largest, gap.max() / size.max(), rtol=1e-6)


def test_a_frozen_map_beside_one_and_three_layers():
    rng = np.random.default_rng(3)
    X, Y, base = rng.normal(size=(12, 3)), rng.normal(size=(12, 2)), rng.normal(size=(2, 3))
    assert ls.applies([np.zeros((2, 3))], (X, Y), base=base).exact == ("DeepMode",)
    deep = [0.5 * rng.normal(size=shape) for shape in ((3, 3), (3, 3), (2, 3))]
    found = ls.solve(deep, (X, Y), [0.8], base=base, scale=1.7)
    whole = [1.7 ** (1 / 3) * w for w in deep]
    plain = ls.solve(whole, (X, Y - X @ base.T), [0.8], rates=[1.7 ** (2 / 3)] * 3)
    np.testing.assert_allclose(found["map"], base + plain["map"], rtol=1e-12)
    np.testing.assert_allclose(found["map"], base + 1.7 * found["w3"] @ found["w2"] @ found["w1"], rtol=1e-12)
    moments = ls.solve(deep, (X.T @ X / 12, Y.T @ X / 12), [0.8], base=base, scale=1.7, covariances=True)
    np.testing.assert_allclose(moments["map"], found["map"], rtol=1e-8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"base": np.ones((3, 2))}, r"applies: base has shape \(3, 2\).*\(2, 3\).*frozen map"),
        ({"base": np.nan * np.ones((2, 3))}, "applies: base = nan"),
        ({"base": 1e101 * np.ones((2, 3))}, r"applies: base reaches 1e\+101"),
        ({"scale": 0.0}, "applies: scale = 0.0 must be a number in"),
        ({"scale": 2.0, "bias": 0.0}, "applies: bias does not go with base or scale"),
        ({"scale": 2.0, "context": 3}, "applies: scale = 2.0 does not go with context"),
    ],
)
def test_errors_name_the_argument(arguments, message):
    (X, Y), layers = (np.eye(3), np.ones((3, 2))), [np.eye(2, 3), np.zeros((2, 2))]
    with pytest.raises(ValueError, match=message):
        ls.applies(layers, (X, Y), **arguments)


def test_the_command_reads_a_frozen_map(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (a, b, X, Y, base, scale, rates), _ = drawn(2)
    np.savez("adapters.npz", W1=a, W2=b)
    np.savez("data.npz", X=X, Y=Y)
    np.savez("base.npz", W0=base)
    words = ["applies", "adapters.npz", "data.npz", "--base", "base.npz", "--scale", repr(scale)]
    assert main([*words, "--rates", ",".join(map(repr, rates.tolist()))]) == 0
    assert str(ls.applies([a, b], (X, Y), rates, base=base, scale=scale)) == capsys.readouterr().out.rstrip("\n")
    np.savez("base.npz", W0=base, W1=base)
    assert main(words) == 2
    assert "base = base.npz has the arrays W0, W1 but must have one" in capsys.readouterr().err
