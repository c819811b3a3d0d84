"""Test loss of networks against integration and 50 digits; when to stop; predictions against drawn data; mutants."""

import dataclasses
import json

import mpmath
import numpy as np
import pytest

import linsolve as ls
from linsolve.__main__ import main
from linsolve.systems.generalization.prediction import Prediction, predictions
from linsolve.systems.generalization.raw_weights import flowed
from linsolve.systems.generalization.variance_components import VarianceComponents


def problem(seed, n, d, noise=0.25, tests=200, power=0.5):
    """Return training and test samples of a linear teacher, inputs of a power-law spectrum."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + tests, d)) * np.arange(1, d + 1) ** -power
    Y = X @ rng.normal(size=d) / np.sqrt(d) + np.sqrt(noise) * rng.normal(size=n + tests)
    return (X[:n], Y[:n]), (X[n:], Y[n:])


# test loss


def test_the_test_loss_of_a_linear_model_is_that_of_fifty_digits():
    (X, Y), (inputs, targets) = problem(0, 4, 3, tests=5)
    mp = mpmath.MPContext()
    mp.dps = 50
    A, y, w0 = mp.matrix(X.tolist()), mp.matrix(Y.tolist()), mp.matrix([0.5, -1.0, 0.25])
    H, t = A.T * A / 4, np.array([0.0, 0.7, 9.0])
    best = mp.lu_solve(H, A.T * y / 4)
    found = ls.solve([[[0.5, -1.0, 0.25]]], (X, Y), t, test=(inputs, targets))["test_loss"]
    for each, value in zip(t, found, strict=True):
        off = mp.matrix(inputs.tolist()) * (best + mp.expm(-H * each) * (w0 - best)) - mp.matrix(targets.tolist())
        assert abs(float(value / (mp.fsum(v**2 for v in off) / 10)) - 1) <= 1e-13, each


@pytest.mark.parametrize("shape", [(30, 20), (20, 30)])
def test_the_test_loss_of_a_linear_model_is_that_of_its_eigenvectors(shape):
    train, test = problem(1, *shape)
    t = np.array([0.0, 0.4, 3.0, 40.0, 1e4])
    found = ls.solve([np.full((1, shape[1]), 0.1)], train, t, test=test)["test_loss"]
    off = flowed(*train, np.full(shape[1], 0.1), t) @ test[0].T - test[1]
    assert found == pytest.approx(np.mean(off**2, axis=1) / 2, rel=1e-11)


def test_the_test_loss_of_a_network_with_biases_is_that_of_its_outputs():
    rng = np.random.default_rng(2)
    weights = [rng.normal(size=shape) / 2 for shape in ((4, 3), (3, 4), (2, 3))]
    X, Y = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    given = {"bias": [np.full(4, 0.1), None, np.array([0.2, -0.3])]}
    traj = ls.solve(weights, (X[:12], Y[:12]), [[0.0, 1.0], [2.0, 0.3]], test=(X[12:], Y[12:]), **given)
    assert traj["test_loss"].shape == (2, 2)
    for at in np.ndindex(2, 2):
        h = traj["w1"][at] @ X[12:].T + traj["b1"][at][:, None]
        out = (traj["w3"][at] @ traj["w2"][at] @ h).T + traj["b3"][at]
        assert traj["test_loss"][at] == pytest.approx(np.sum((out - Y[12:]) ** 2) / 16, rel=1e-12)


# when to stop, and the delay of test accuracy


@pytest.mark.exhaustive
def test_the_time_to_stop_is_where_the_test_loss_is_least():
    train, test = problem(3, 60, 40)
    start = [np.zeros((1, 40))]
    found = ls.applies(start, train, test=test).generalization
    t = found.stop * np.geomspace(1e-3, 1e3, 4001)
    losses = ls.solve(start, train, t, test=test)["test_loss"]
    assert 0 < found.least <= losses.min() * (1 + 1e-12)
    assert found.stop == pytest.approx(t[np.argmin(losses)], rel=5e-3)
    near = ls.solve(start, train, found.stop * np.array([1 - 1e-4, 1, 1 + 1e-4]), test=test)["test_loss"]
    assert near[1] <= min(near[0], near[2])
    assert (found.until, found.end) == (np.inf, ls.solve(start, train, np.inf, test=test)["test_loss"].item())
    quiet = ls.applies(start, *problem(3, 60, 40, noise=0.0)[:1], test=problem(3, 60, 40, noise=0.0)[1]).generalization
    assert (quiet.stop, quiet.parting) == (np.inf, np.inf)
    assert quiet.end <= 1e-20
    assert "Do not stop early" in str(quiet)


@pytest.mark.exhaustive
def test_the_delay_is_that_of_the_accuracies():
    train, test = problem(4, 50, 40, noise=0.0, power=0.0)
    found = ls.applies([np.zeros((1, 40))], train, rates=[2.0], test=test, threshold=0.02).generalization
    t = np.geomspace(1e-2, 1e4, 20_001)
    path = ls.solve([np.zeros((1, 40))], train, t, [2.0])["map"][:, 0]
    for (X, Y), time in ((train, found.train_time), (test, found.test_time)):
        shares = np.mean((path @ X.T - Y) ** 2 <= 0.02, axis=1)
        assert time == pytest.approx(t[np.argmax(shares >= 0.95)], rel=1e-3)
    assert found.delay == found.test_time / found.train_time > 2
    assert f"{found.delay:.3g} times later" in str(found)
    few, held_out = problem(5, 20, 40, noise=0.0, power=0.0)
    never = ls.applies([np.zeros((1, 40))], few, test=held_out, threshold=0.02).generalization
    assert (never.train_time < np.inf, never.test_time) == (True, np.inf)
    assert f"Test accuracy: never 95 %; {never.test_share:.1%} in the end." in str(never)
    own = never.predicted["spectrum"]
    floor = own.floor()
    assert abs(never.end - own.test_loss(np.inf)) <= 4 * own.test_loss_std(np.inf)
    assert f"{floor:.3g} from directions without samples" in str(never)


@pytest.mark.exhaustive
def test_networks_with_hidden_units_are_followed_to_their_horizon_or_to_the_end():
    train, test = problem(6, 40, 4, power=0.0)
    deep = [0.3 * np.ones((3, 4)), 0.2 * np.eye(3), 0.1 * np.ones((1, 3))]
    found = ls.applies(deep, train, test=test, until=50.0).generalization
    assert (found.until, found.predicted) == (50.0, {})
    assert found.least == ls.solve(deep, train, found.stop, test=test)["test_loss"].item()
    line = (train[0][:, :1], train[1]), (test[0][:, :1], test[1])
    exact = ls.applies([[[0.1], [0.2]], [[0.1, 0.3]]], line[0], test=line[1]).generalization
    assert exact.until == np.inf
    shifted = ls.applies([np.zeros((1, 4))], train, bias=[0.5], test=test).generalization
    assert shifted.predicted["spectrum"].law.inputs.shape == (40, 5)


def test_rises_of_rounding_give_no_advice_and_a_fitted_start_has_a_threshold():
    found = ls.applies([[[1.0]]], ([[1.0], [2.0]], [1.0, 2.0]), test=([[3.0]], [3.0])).generalization
    assert (found.stop, found.least) == (np.inf, 0.0)
    assert found.end <= 1e-28
    assert found.threshold == pytest.approx(0.25)  # a tenth of the mean of 1 and 4
    assert "Do not stop early: the test loss does not rise by more than rounding." in str(found)
    away = ls.applies([[[1.0]]], ([[1.0], [2.0]], [2.0, 4.0]), test=([[3.0]], [3.0])).generalization
    assert (away.stop, away.least, away.end) == (0.0, 0.0, pytest.approx(4.5))
    assert "the test loss of 0 rises later, to 4.5 in the end." in str(away)
    rng = np.random.default_rng(1)
    X, w = rng.normal(size=(40, 3)).astype("f"), rng.normal(size=(1, 3)).astype("f")
    single = ls.applies([w], (X[:30], X[:30] @ w.T), test=(X[30:], X[30:] @ w.T)).generalization
    assert single.stop == np.inf
    assert 0.01 <= single.threshold <= 10


def test_a_network_followed_to_a_horizon_says_so_and_never_says_never():
    train, test = problem(6, 40, 4, power=0.0, noise=0.0)
    deep = [0.3 * np.ones((3, 4)), 0.2 * np.eye(3), 0.1 * np.ones((1, 3))]
    text = str(ls.applies(deep, train, test=test, until=0.5, threshold=1e-9).generalization)
    assert "Up to t = 0.5 the test loss still falls; later times were not computed (until=, --until)." in text
    assert "Test accuracy: 95 % not reached by t = 0.5, " in text
    assert "never" not in text
    rising = str(ls.applies([[[1.0]], [[1.0]]], ([[1.0], [2.0]], [2.0, 4.0]), test=([[3.0]], [3.0]), until=0.1))
    assert "at t = 0.1; later times were not computed" in rising
    held = str(ls.applies([np.zeros((1, 4))], train, test=test, until=0.5).generalization)
    assert "at no time up to t = 0.5" in held


def test_grokking_is_a_delay_by_a_factor_of_ten():
    found = ls.applies([np.zeros((1, 40))], *problem(4, 50, 40)[:1], test=problem(4, 50, 40)[1]).generalization
    lines = {
        (1.0, 1.12): "Test accuracy comes 1.12 times later than train accuracy.",
        (2.0, 1.0): "Test accuracy comes 2 times earlier than train accuracy.",
        (3.0, 3.0): "Test accuracy comes at the same time as train accuracy.",
        (1.0, 25.0): "Test accuracy comes 25 times later than train accuracy: grokking (a delay by a factor of at "
        "least 10).",
    }
    for (train_time, test_time), line in lines.items():
        text = str(dataclasses.replace(found, train_time=train_time, test_time=test_time))
        assert line in text.split("\n")
        assert ("grokking" in text.lower()) == (test_time == 25.0)


def test_predictions_that_fail_say_so():
    found = ls.applies([np.zeros((1, 40))], *problem(3, 60, 40)[:1], test=problem(3, 60, 40)[1]).generalization
    for deviation, end in (
        (2.4e156, "The prediction fails: the test loss differs from it by more than 10 standard deviations."),
        (1.0, "The test loss differs from this prediction by at most 1 standard deviation."),
        (3.21, "The test loss differs from this prediction by at most 3.2 standard deviations."),
    ):
        text = str(dataclasses.replace(found, deviations={"spectrum": deviation, "isotropic": 2.0}))
        assert f" in the end. {end}\n" in text
    assert "from label noise, if the test targets are as noisy as the training targets." in text
    assert "half the mean squared error" in text
    assert "the mean +- the standard deviation over teachers, label noise and test samples, with the errors" in text


def test_the_parts_that_remain_have_the_standard_errors_of_their_estimates():
    """Estimates from many data sets deviate by their standard errors."""
    found = []
    for seed in range(40):
        train, test = problem(100 + seed, 60, 40, power=0.0)
        found.append(ls.applies([np.zeros((1, 40))], train, test=test).generalization.predicted["spectrum"])
    noise, error = np.array([(each.noise, each.noise_error) for each in found]).T
    assert 0.8 <= np.std(noise) / np.mean(error) <= 1.25  # 40 data sets: within 22 %, two standard errors
    few, held_out = problem(3, 20, 40, power=0.0)
    report = ls.applies([np.zeros((1, 40))], few, test=held_out).generalization
    own = report.predicted["spectrum"]
    assert own.floor_error() == pytest.approx(
        own.floor() * np.sqrt(own.components.covariance[0, 0]) / own.components.signal
    )
    assert f" {own.floor():.3g} +- {own.floor_error():.2g} from directions without samples; " in str(report)
    assert f" {own.noise:.3g} +- {own.noise_error:.2g} from label noise, " in str(report)


def test_a_rise_above_the_least_loss_has_no_exponent():
    found = ls.applies([np.zeros((1, 40))], *problem(3, 60, 40)[:1], test=problem(3, 60, 40)[1]).generalization
    for end, size in ((2.2, "by 120 %"), (1.0345, "by 3.45 %"), (9.99, "by 899 %"), (10.5, "to 10.5")):
        assert f"rises later, {size} in the end." in str(dataclasses.replace(found, least=1.0, stop=1.0, end=end))


# predictions


@pytest.mark.parametrize(("n", "d", "noise"), [(300, 100, 0.25), (100, 300, 0.25), (150, 100, 0.0), (100, 150, 4.0)])
def test_signal_and_noise_are_within_four_standard_errors(n, d, noise):
    rng, z = np.random.default_rng(n), []
    for _ in range(8):
        X = rng.normal(size=(n, d))
        Y = X @ rng.normal(size=(d, 2)) / np.sqrt(d) + np.sqrt(noise) * rng.normal(size=(n, 2))
        found = VarianceComponents.of(X, Y)
        spread = np.sqrt(np.diagonal(found.covariance))
        z.append((np.array([found.signal - 1, found.noise - noise])) / np.where(spread > 0, spread, 1e-12))
    assert np.max(np.abs(np.sum(z, axis=0))) <= 4 * np.sqrt(8), z


def test_signal_and_noise_are_the_most_likely():
    (X, Y), _ = problem(7, 30, 12)
    found = VarianceComponents.of(X, Y[:, None])

    def cost(signal, noise):
        covariance = signal / 12 * X @ X.T + noise * np.eye(30)
        return np.linalg.slogdet(covariance)[1] + Y @ np.linalg.solve(covariance, Y)

    for a in (0.99, 1.0, 1.01):
        for b in (0.99, 1.0, 1.01):
            assert cost(found.signal, found.noise) <= cost(a * found.signal, b * found.noise)
    assert VarianceComponents.of(X, 0 * Y[:, None])[:2] == (0.0, 0.0)


class WithoutTestNoise(Prediction):
    """The variance without the label noise of the test samples."""

    def test_loss_std(self, t):
        return np.sqrt(self.outputs) * self.size / 2 * self.law.test_error_std(self.clock * t)


class OneOutput(Prediction):
    """The standard deviation of outputs that fluctuate together."""

    def test_loss_std(self, t):
        return np.sqrt(self.outputs) * super().test_loss_std(t)


def scores(kind, name, count=400):
    """Return z-scores of mean and variance of the test loss, for drawn teachers, noise and, if isotropic, inputs."""
    rng, n, d, m, noise, t = np.random.default_rng(8), 60, 90, 12, 1.0, np.array([0.0, 0.5, 4.0])
    scale = np.arange(1, d + 1) ** (-0.7 if name == "spectrum" else 0.0)
    X, inputs = (rng.normal(size=(size, d)) * scale for size in (n, m))
    found, drawn = predictions(X, np.ones((n, 2)), inputs, 2.0)[name], []
    unit = np.sqrt(np.mean(X**2)) if name == "spectrum" else 1.0
    law = found.law._with(signal=np.array(unit**2), noise_variance=np.array(noise))
    known = VarianceComponents(1.0, noise, np.zeros((2, 2)))
    found = kind(law, 2, m, 2.0 * unit**2, 1.0, found.fresh, known)
    for _ in range(count):
        if name == "isotropic":
            X, inputs = rng.normal(size=(n, d)), rng.normal(size=(m, d))
        teachers = rng.normal(size=(2, d)) / np.sqrt(d)
        y, tests = (teachers @ each.T + rng.normal(size=(2, len(each))) for each in (X, inputs))
        off = flowed(X, y, np.zeros((2, d)), 2.0 * t) @ inputs.T - tests[:, None]
        drawn.append(np.mean(np.sum(off**2, axis=0), axis=-1) / 2)
    mean, spread = found.test_loss(t), found.test_loss_std(t)
    z = (np.mean(drawn, axis=0) - mean) / (spread / np.sqrt(count))
    squares = (np.array(drawn) - mean) ** 2
    return z, (squares.mean(axis=0) - spread**2) / (squares.std(axis=0) / np.sqrt(count))


@pytest.mark.parametrize("name", ["spectrum", "isotropic"])
def test_drawn_test_losses_are_within_four_standard_errors_of_the_prediction(name):
    z, square = scores(Prediction, name)
    assert np.max(np.abs(z)) <= 4, z
    assert np.max(np.abs(square)) <= 4, square


@pytest.mark.parametrize("kind", [WithoutTestNoise, OneOutput])
def test_mutants_of_the_spread_are_rejected_by_the_variance(kind):
    assert np.max(np.abs(scores(kind, "spectrum")[1])) > 4


@pytest.mark.exhaustive
def test_the_predictions_part_on_inputs_of_an_unequal_spectrum():
    train, test = problem(9, 400, 300, noise=0.1, power=1.0, tests=1000)
    found = ls.applies([np.zeros((1, 300))], train, test=test).generalization
    assert found.deviations["spectrum"] <= 4 < found.deviations["isotropic"]
    own, isotropic = (found.predicted[name].test_loss(found.parting) for name in ("spectrum", "isotropic"))
    spread = found.predicted["spectrum"].test_loss_std(found.parting)
    assert abs(own - isotropic) == pytest.approx(2 * spread, rel=1e-2)
    even, held_out = problem(9, 400, 300, noise=0.1, power=0.0)
    assert ls.applies([np.zeros((1, 300))], even, test=held_out).generalization.deviations["isotropic"] <= 4


# command and arguments


def test_the_command_answers_with_test_samples(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train, test = problem(3, 60, 40)
    np.savez("w.npz", W1=np.zeros((1, 40)))
    np.savez("train.npz", X=train[0], Y=train[1])
    np.savez("test.npz", X=test[0], Y=test[1])
    np.savez("both.npz", X_train=train[0], y_train=train[1], X_test=test[0], y_test=test[1])
    assert main(["applies", "w.npz", "both.npz"]) == 0
    whole = capsys.readouterr().out
    assert main(["applies", "w.npz", "train.npz", "--test", "test.npz"]) == 0
    assert capsys.readouterr().out == whole
    expected = ls.applies([np.zeros((1, 40))], train, test=test).generalization
    assert str(expected) in whole
    for start in (
        "Test loss (200 samples, half ",
        "Stop at t = ",
        "Train accuracy: ",
        "Predicted for your inputs: ",
    ):
        assert f"\n{start}" in whole
    assert main(["applies", "w.npz", "both.npz", "--json", "--threshold", "0.5"]) == 0
    found = json.loads(capsys.readouterr().out)["generalization"]
    assert (found["stop"], found["threshold"], found["until"]) == (expected.stop, 0.5, None)
    assert found["predicted"]["isotropic"]["stop"] == expected.predicted["isotropic"].stopping_time()
    assert main(["solve", "w.npz", "both.npz", "--t", "0:20:5", "--out", "o"]) == 0
    printed = capsys.readouterr().out
    right = ls.solve([np.zeros((1, 40))], train, np.linspace(0, 20, 5), test=test)["test_loss"]
    assert np.load("o/trajectories.npz")["test_loss"].tolist() == right.tolist()
    line = (
        f"\ntest loss: {right[0]:.6g} at t = 0, {right[-1]:.6g} at t = 20; least of the 5 times: {right.min():.6g} at"
    )
    assert line in printed
    page = (tmp_path / "o" / "report.html").read_text(encoding="utf-8")
    assert "test samples</th><td>200</td>" in page
    assert f"{right[0]:.4g} to {right[-1]:.4g}" in page


def test_bad_test_samples_are_named(tmp_path, capsys):
    train, test = problem(3, 20, 4)
    start = [np.zeros((1, 4))]
    moments = np.eye(4), np.ones((1, 4))
    cases = [
        (lambda: ls.solve(start, train, 1.0, test=test[0]), r"solve: test must be the pair \(X, Y\), not ndarray"),
        (lambda: ls.solve(start, train, 1.0, test=(test[0][:, :3], test[1])), r"test\[0\] has shape \(200, 3\)"),
        (lambda: ls.applies(start, train, test=(test[0], test[1][:5])), r"applies: test\[1\] has 5 rows but"),
        (lambda: ls.solve(start, train, 1.0, test=(test[0], np.nan * test[1])), r"test\[1\] = nan at"),
        (lambda: ls.solve(start, train, 1.0, test=(1e200 * test[0], test[1])), r"test\[0\] reaches"),
        (lambda: ls.solve([np.zeros((2, 4))], (train[0], train[0][:, :2]), 1.0, test=(test[0], test[1])),
         r"test\[1\] has shape \(200,\) but must be \(samples, 2\)"),
        (lambda: ls.applies(start, train, threshold=0.1), r"applies: threshold = 0.1 needs test samples"),
        (lambda: ls.applies(start, train, test=test, threshold=0.0), r"applies: threshold = 0.0 must be positive"),
        (lambda: ls.applies(start, moments, covariances=True, test=test), r"applies: test needs training samples"),
    ]  # fmt: skip
    for call, message in cases:
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(KeyError, match=r"'test_loss' is missing .* give test=\(X, Y\)"):
        ls.solve(start, train, 1.0)["test_loss"]
    with pytest.raises(ValueError, match="test needs a horizon"):
        ls.applies([np.ones((2, 4)), np.ones((1, 2))], (train[0] + 1, train[1]), bias=[[1.0, 1.0], [1.0]], test=test)
