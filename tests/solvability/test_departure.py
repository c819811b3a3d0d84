"""Departure of gradient descent from gradient flow, against descent of raw weights by code of its own."""

import json

import numpy as np
import pytest

import linsolve as ls
from linsolve.__main__ import main
from linsolve.solvability import departure

RNG = np.random.default_rng(0)
LINE = np.array([[1.0, 2.0], [2.0, 4.0]]), np.array([[1.0], [3.0]])
CLOUD = (X := RNG.normal(size=(30, 3)), X[:, :2] + 0.1 * RNG.normal(size=(30, 2)))


def layers(*shapes):
    return [0.4 * RNG.normal(size=shape) for shape in shapes]


NETWORKS = {
    "line": (layers((3, 2), (1, 3)), LINE, [0.5, 2.0], 0.02, 5.0, "exact descent of TwoLayer"),
    "one layer": (layers((2, 3)), CLOUD, [1.0], 0.1, 10.0, "exact descent of DeepMode"),
    "two layers": ([0.1 * np.eye(3)[:2], 0.2 * np.eye(2)], CLOUD, [1.0, 1.0], 0.05, 20.0, "simulated descent"),
    "deep": (layers((4, 3), (4, 4), (2, 4)), CLOUD, [1.0, 0.5, 2.0], 0.05, 20.0, "simulated descent"),
}


def simulated(weights, X, Y, rates, step, count, biases=None):
    """Return the outputs after each step of descent on half the mean square."""
    weights, biases, path = [w.copy() for w in weights], list(biases or [0.0] * len(weights)), []
    trained = [np.ndim(b) > 0 for b in biases]
    for _ in range(count + 1):
        signals = [X.T]
        for w, b in zip(weights, biases, strict=True):
            signals.append(w @ signals[-1] + (b[:, None] if np.ndim(b) else 0.0))
        path.append(signals[-1])
        back, moves = (signals[-1] - Y.T) / len(X), []
        for w, signal in zip(reversed(weights), reversed(signals[:-1]), strict=True):
            moves.insert(0, (back @ signal.T, back.sum(axis=1)))
            back = w.T @ back
        for k, (move, shift) in enumerate(moves):
            weights[k] = weights[k] - step * rates[k] * move
            biases[k] = biases[k] - step * rates[k] * shift if trained[k] else biases[k]
    return np.array(path)


def truth(flow_outputs, descent_outputs, step, within):
    """Return the first time of a difference above `within`, and the largest difference."""
    gap, size = (
        np.sqrt(np.mean(np.sum(v**2, axis=1), axis=-1)) for v in (descent_outputs - flow_outputs, flow_outputs)
    )
    above = np.nonzero(gap > within * size.max())[0]
    return step * above[0] if above.size else np.inf, float(gap.max() / size.max())


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.quick(1)
def test_first_time_and_size_are_those_of_simulated_descent(name):
    weights, (X, Y), rates, step, until, method = NETWORKS[name]
    count = round(until / step)
    path = ls.solve(weights, (X, Y), step * np.arange(count + 1), rates)["map"] @ X.T
    descent = simulated(weights, X, Y, rates, step, count)
    largest = truth(path, descent, step, 1.0)[1]
    for within in (0.3 * largest, 0.9 * largest, 2 * largest):
        found = ls.solve(weights, (X, Y), [0.0, until], rates, step=step, within=within).departure
        first, size = truth(path, descent, step, within)
        assert found.time == pytest.approx(first, rel=1e-9)
        assert found.largest == pytest.approx(size, rel=1e-6)
        assert found.method == method


def test_biases_are_simulated():
    weights, (X, Y) = layers((3, 3), (2, 3)), CLOUD
    biases, step, count = [0.1 * np.ones(3), np.zeros(2)], 0.05, 100
    t = step * np.arange(count + 1)
    traj = ls.solve(weights, (X, Y), t, bias=biases, step=step, within=0.005)
    path = traj["map"] @ X.T + traj["offset"][..., None]
    first, size = truth(path, simulated(weights, X, Y, [1.0, 1.0], step, count, biases), step, 0.005)
    assert np.isfinite(first)
    assert (traj.departure.time, traj.departure.largest) == (pytest.approx(first), pytest.approx(size, rel=1e-6))
    assert traj.notes[0] == str(traj.departure)
    assert f"from t = {first:.4g} on, by more than 0.5 % of the largest output up to t = 5; " in traj.notes[0]


def test_one_sample_with_biases_has_a_finite_difference():
    weights, (X, Y), step, count = [np.full((1, 2), 0.5), np.full((1, 1), 0.5)], ([[1.0, -2.0]], [[1.0]]), 0.1, 50
    X, Y, biases = np.array(X), np.array(Y), [np.full(1, 0.1), np.array([0.2])]
    traj = ls.solve(weights, (X, Y), step * np.arange(count + 1), bias=biases, step=step)
    path = traj["map"] @ X.T + traj["offset"][..., None]
    first, size = truth(path, simulated(weights, X, Y, [1.0, 1.0], step, count, biases), step, 0.01)
    assert (traj.departure.time, traj.departure.largest) == (pytest.approx(first), pytest.approx(size, rel=1e-6))


@pytest.mark.parametrize("until", [300.0, 1000.0, 3000.0, 1e6])
def test_late_horizons_of_an_exact_descent_change_nothing(until):
    X, weights, step, count = np.array([[1.0], [-1.0]]), [np.array([[0.1]])] * 2, 0.1, 200
    path = ls.solve(weights, (X, X), step * np.arange(count + 1))["map"] @ X.T
    first, size = truth(path, simulated(weights, X, X, [1.0, 1.0], step, count), step, 0.01)
    found = ls.solve(weights, (X, X), [0.0, until], step=step).departure
    assert (found.time, found.largest) == (pytest.approx(first), pytest.approx(size, rel=1e-5))
    assert found.until == until
    assert found.method.endswith("which has converged by t = 1e+04") == (until == 1e6)


@pytest.mark.parametrize("most", [20_000, 2000])
@pytest.mark.quick(1)
@pytest.mark.exhaustive
def test_late_horizons_of_a_simulation_change_nothing(monkeypatch, most):
    monkeypatch.setattr(departure, "SIMULATED", most)
    weights, data, rates, step, *_ = NETWORKS["deep"]
    found, short = (ls.solve(weights, data, [0.0, t], rates, step=step).departure for t in (400.0, 60.0))
    assert np.isfinite(short.time)
    assert (found.time, found.largest) == (pytest.approx(short.time), pytest.approx(short.largest, rel=1e-4))
    assert found.method == "simulated descent" + (", which has converged by t = 100" if most == 2000 else "")


def test_short_steps_are_judged_by_their_leading_correction(monkeypatch):
    weights, data, rates, _, until, _ = NETWORKS["deep"]
    whole = ls.solve(weights, data, [0.0, until], rates, step=0.005).departure
    monkeypatch.setattr(departure, "SIMULATED", 1000)
    found = ls.solve(weights, data, [0.0, until], rates, step=0.005).departure
    assert found.method == "leading correction, O(step), measured at step 0.02"
    assert found.largest == pytest.approx(whole.largest, rel=0.05)
    assert whole.method == "simulated descent"


@pytest.mark.exhaustive
def test_divergence_is_an_infinite_difference():
    weights, data, rates, *_ = NETWORKS["line"]
    found = ls.solve(weights, data, [0.0, 100.0], rates, step=2.0).departure
    assert (found.largest, found.time) == (np.inf, 2.0)
    long = ls.solve(weights, data, [0.0, 0.5], rates, step=2.0).departure
    assert (long.time, long.until) == (2.0, 2.0)
    deep = ls.solve(NETWORKS["deep"][0], CLOUD, [0.0, 1000.0], step=10.0).departure
    assert (deep.largest, deep.time) == (np.inf, 10.0)


def test_applies_says_it_with_its_horizon(tmp_path, capsys):
    weights, (X, Y), rates, step, *_ = NETWORKS["line"]
    verdict = ls.applies(weights, (X, Y), rates, step=step)
    assert verdict.departure.until == verdict.until
    assert str(verdict.departure) in str(verdict)
    assert json.loads(verdict.to_json())["departure"]["step"] == step
    assert ls.applies(weights, (X, Y), rates).departure is None
    np.savez(tmp_path / "weights.npz", W1=weights[0], W2=weights[1])
    np.savez(tmp_path / "data.npz", X=X, Y=Y)
    files = [str(tmp_path / name) for name in ("weights.npz", "data.npz")]
    assert main(["applies", *files, "--rates", "0.5,2", "--step", "0.02"]) == 0
    assert "exact descent of TwoLayer" in capsys.readouterr().out


@pytest.mark.exhaustive
def test_without_a_horizon_of_its_own_the_network_needs_one(tmp_path, capsys):
    weights, (X, Y), rates, *_ = NETWORKS["line"]
    biases = [np.full(len(w), 0.1) for w in weights]
    with pytest.raises(ValueError, match=r"^applies: step = 0.1 needs a horizon .*; say until=10, .* --until 10$"):
        ls.applies(weights, (X, Y), rates, bias=biases, step=0.1)
    assert ls.applies(weights, (X, Y), rates, bias=biases, step=0.1, until=10.0).departure.until == 10.0
    np.savez(tmp_path / "weights.npz", W1=weights[0], W2=weights[1], b1=biases[0], b2=biases[1])
    np.savez(tmp_path / "data.npz", X=X, Y=Y)
    files = [str(tmp_path / name) for name in ("weights.npz", "data.npz")]
    assert main(["applies", *files, "--step", "0.1"]) == 2
    assert "step = 0.1 needs a horizon" in capsys.readouterr().err
    assert main(["applies", *files, "--step", "0.1", "--until", "10"]) == 3


def test_errors_name_the_argument():
    weights, data, *_ = NETWORKS["line"]
    for call, message in (
        (lambda: ls.solve(weights, data, [0.0, 1.0], step=5e-324), r"solve: step = 5e-324 must be at least"),
        (lambda: ls.solve(weights, data, [0.0, 1.0], step=-1.0), r"solve: step = -1\.0 must be"),
        (lambda: ls.solve(weights, data, [0.0, 1.0], step=0.1, within=0.0), r"solve: within = 0\.0 must be"),
        (lambda: ls.solve(weights, data, [0.0, 1.0], within=0.1), r"solve: within = 0\.1 needs a step"),
        (lambda: ls.applies(weights, data, within=0.1), r"applies: within = 0\.1 needs a step"),
        (lambda: ls.applies(weights, data, step="x"), r"applies: step = 'x' must be"),
        (lambda: ls.solve(weights, data, [0.0, np.inf], step=0.1), r"solve: t must hold a finite time after 0"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            call()


@pytest.mark.exhaustive
def test_a_step_beyond_the_end_of_training_departs_at_once():
    departure = ls.solve(NETWORKS["deep"][0], CLOUD, [0.0, 1.0], step=1e308).departure
    assert departure.time == 1e308
    assert departure.largest == np.inf
