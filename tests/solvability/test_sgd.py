"""Averages of minibatch SGD against all sequences of minibatches, sampled runs, and limits."""

import itertools
import math
import re
from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np
import pytest

import linsolve as ls
from linsolve import arithmetic
from linsolve.systems.kernel_regime.loss_spread import loss_deviation, partition_weight
from linsolve.systems.kernel_regime.minibatch import Asked, Model, Sampling, averages

XP = arithmetic.precise(50)
MODES = pytest.mark.parametrize("replacement", [False, True])


def data(seed, n, d, outputs=1, noise=0.5):
    """Return inputs, targets and a start, all multiples of 1/16."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Y = X @ rng.normal(size=(d, outputs)) + noise * rng.normal(size=(n, outputs))
    return tuple(np.round(16 * v) / 16 for v in (X, Y, rng.normal(size=(outputs, d))))


def batches(n, m, replacement):
    """Return all minibatches, equally likely."""
    return list(itertools.product(range(n), repeat=m) if replacement else itertools.combinations(range(n), m))


def all_runs(X, Y, W, m, step, replacement, steps):
    """Return the weights of every run after `steps` steps, by raw SGD."""
    runs = [W]
    for _ in range(steps):
        after = []
        for w, batch in itertools.product(runs, batches(len(X), m, replacement)):
            x, y = X[list(batch)], Y[list(batch)]
            after.append(w - step / m * (w @ x.T - y.T) @ x)
        runs = after
    return runs


def mean(values):
    return sum(values[1:], start=values[0]) / len(values)


def far(a, b):
    """Return the largest difference in units of the largest entry."""
    a, b = (arithmetic.to_numpy(v) for v in (a, b))
    return np.max(np.abs(a - b)) / np.max(np.abs(b))


# every sequence of minibatches


@MODES
@pytest.mark.parametrize(
    ("n", "m", "steps"), [(3, 1, 3), (3, 2, 2), pytest.param(4, 3, 2, marks=pytest.mark.exhaustive)]
)
def test_averages_equal_those_over_all_sequences_to_fifty_digits(n, m, steps, replacement):
    X, Y, W = (XP.asarray(v) for v in data(n + m, n, 2))
    step = XP.asarray(0.375)
    runs = all_runs(X, Y, W, m, step, replacement, steps)
    model = Model(X, -Y, step, Sampling(n, m, replacement).factor(XP))
    found = averages("test", XP, model, XP.matrix_transpose(W), steps)
    average = mean(runs)
    gaps = [w - average for w in runs]
    covariance = mean([XP.matrix_transpose(gap) @ gap for gap in gaps])
    squares = mean([(X @ w[0] - Y[:, 0]) ** 2 for w in runs])
    for value, exact in ((found.delta[:, 0], average[0]), (found.covariance, covariance), (found.squares, squares)):
        assert float(XP.max(XP.abs(value - exact))) <= 1e-45
    losses = [XP.sum((X @ w[0] - Y[:, 0]) ** 2) / (2 * n) for w in runs]
    loss = mean(losses)
    variance = mean([(each - loss) ** 2 for each in losses])
    draw, start = Sampling(n, m, replacement), XP.matrix_transpose(W)
    assert float(abs(loss_deviation("test", XP, model, start, np.array(steps), draw) ** 2 - variance)) <= 1e-45
    if n > m > 1:
        wrong = loss_deviation("test", XP, model, start, np.array(steps), draw._replace(replacement=not replacement))
        assert float(abs(wrong**2 - variance)) > 1e-4


@MODES
@pytest.mark.parametrize(("n", "m"), [(5, 4), (3, 3), (6, 1), (4, 2)])
def test_weights_of_set_partitions_are_those_of_all_minibatches(n, m, replacement):
    values = np.array([Fraction(v) for v in (1, -2, 5, 3, 7, -4)[:n]])
    p = [np.mean(values**k) for k in range(5)]
    draw, means = Sampling(n, m, replacement), [sum(values[list(b)]) / m for b in batches(n, m, replacement)]
    partitions = {
        2: {(2,): 1, (1, 1): 1},
        3: {(3,): 1, (2, 1): 3, (1, 1, 1): 1},
        4: {(4,): 1, (3, 1): 4, (2, 2): 3, (2, 1, 1): 6, (1, 1, 1, 1): 1},
    }
    for order, types in partitions.items():
        found = sum(c * partition_weight(s, draw) * math.prod(p[k] for k in s) for s, c in types.items())
        assert found == sum(each**order for each in means) / len(means)


@MODES
def test_the_variance_factor_of_the_other_draw_is_rejected(replacement):
    X, Y, W = (XP.asarray(v) for v in data(1, 4, 2))
    squares = mean([(X @ w[0] - Y[:, 0]) ** 2 for w in all_runs(X, Y, W, 2, XP.asarray(0.25), replacement, 2)])
    wrong = Model(X, -Y, XP.asarray(0.25), Sampling(4, 2, not replacement).factor(XP))
    found = averages("test", XP, wrong, XP.matrix_transpose(W), 2)
    assert float(XP.max(XP.abs(found.squares - squares))) > 1e-3


@MODES
@pytest.mark.parametrize(("n", "d", "outputs"), [(4, 2, 2), (3, 5, 1), (2, 4, 3)])
def test_your_data_with_several_outputs_or_more_inputs_than_samples(n, d, outputs, replacement):
    X, Y, W = data(10 * n + d, n, d, outputs)
    m, step = 2, 0.25
    traj = ls.sgd(W, (X, Y), [0, 1, 2], batch=m, step=step, replacement=replacement)
    for steps in range(3):
        runs = np.array(all_runs(X, Y, W, m, step, replacement, steps))
        gaps = runs - runs.mean(axis=0)
        assert far(traj["w1"][steps], runs.mean(axis=0)) <= 1e-14
        assert far(traj["loss"][steps], np.mean((runs @ X.T - Y.T) ** 2) * outputs / 2) <= 1e-14
        exact = np.einsum("rij,rkl->ijkl", gaps, gaps) / len(runs)
        assert np.max(np.abs(traj["covariance"][steps] - exact)) <= 1e-14
        if outputs == 1:
            spread = np.std(np.mean((runs[:, 0] @ X.T - Y[:, 0]) ** 2, axis=-1)) / 2
            assert abs(traj["loss_std"][steps] - spread) <= 1e-14 * max(1, spread)
    assert traj.keys() == ["w1", "map", "loss", "train_loss", "covariance"] + ["loss_std"] * (outputs == 1)
    assert np.array_equal(traj["w1"][0], W)
    assert np.array_equal(traj.t, [0.0, step, 2 * step])


@MODES
def test_a_frozen_kernel_is_a_linear_model_in_sample_space(replacement):
    X, Y, W = data(5, 4, 2)
    kernel, y, f0 = X @ X.T, Y[:, 0], X @ W[0] + [0.5, 0.0, 0.0, -0.25]  # of rank 2, a start outside of its range
    flow = ls.FrozenKernel(*(XP.asarray(v) for v in (kernel, y, 0.5)))
    traj = flow.sgd([0, 1, 2], XP.asarray(f0), batch=2, step=0.25, replacement=replacement)
    runs = [XP.asarray(f0)]
    for _ in range(2):
        runs = [
            f - XP.asarray(0.125) * 2 * sum(XP.asarray(kernel[i]) * (f[i] - XP.asarray(y[i])) for i in batch)
            for f in runs
            for batch in batches(4, 2, replacement)
        ]
    average = mean(runs)
    covariance = mean([(f - average)[:, None] * (f - average) for f in runs])
    loss = mean([XP.sum((f - XP.asarray(y)) ** 2) / 2 for f in runs])
    for value, exact in ((traj["f"], average), (traj["loss"], loss), (traj["covariance"], covariance)):
        assert float(XP.max(XP.abs(value[2] - exact))) <= 1e-44
    variance = mean([(XP.sum((f - XP.asarray(y)) ** 2) / 2 - loss) ** 2 for f in runs])
    assert float(XP.abs(traj["loss_std"][2] ** 2 - variance)) <= 1e-44
    assert far(traj["f"], flow.discrete([0, 1, 2], XP.asarray(f0), step=0.25)["f"]) <= 1e-15
    plain = ls.FrozenKernel(kernel, y, 0.5).sgd([0, 1, 2], f0, batch=2, step=0.25, replacement=replacement)
    for name in ("f", "residual", "loss", "covariance", "loss_std"):
        exact = arithmetic.to_numpy(traj[name])
        assert np.max(np.abs(plain[name] - exact)) <= 1e-14 * max(1, np.max(np.abs(exact))), name
    assert np.array_equal(plain["f"][0], f0)


def test_kernels_in_a_batch_are_solved_together():
    rng = np.random.default_rng(2)
    J = rng.normal(size=(2, 5, 3))
    kernel, y, eta = J @ np.swapaxes(J, -1, -2), rng.normal(size=5), np.array([[0.1], [0.2], [0.3]])
    f0 = rng.normal(size=5)
    found = ls.FrozenKernel(kernel, y, eta).sgd([[0, 3]], f0, batch=2, step=0.2)
    assert found["loss"].shape == (1, 2, 3, 2)
    assert found["covariance"].shape == (1, 2, 3, 2, 5, 5)
    alone = ls.FrozenKernel(kernel[1], y, eta[2, 0]).sgd(3, f0, batch=2, step=0.2)
    for name in ("f", "loss", "covariance"):
        assert far(found[name][0, 1, 2, 1], alone[name]) <= 1e-13, name


# sampled runs


def sampled(X, y, w, m, step, replacement, steps, count, seed):
    """Return the weights of sampled runs after each step, shape (steps, count, d), by raw SGD."""
    rng, runs, found = np.random.default_rng(seed), np.tile(w, (count, 1)), []
    for _ in range(steps):
        if replacement:
            drawn = rng.integers(0, len(X), (count, m))
        else:
            drawn = np.argpartition(rng.random((count, len(X))), m - 1, axis=-1)[:, :m]
        x = X[drawn]
        residual = np.einsum("cmd,cd->cm", x, runs) - y[drawn]
        runs = runs - step / m * np.einsum("cm,cmd->cd", residual, x)
        found.append(runs)
    return np.array(found)


@MODES
@pytest.mark.parametrize("count", [4000, pytest.param(40_000, marks=pytest.mark.exhaustive)])
def test_sampled_runs_at_every_one_of_forty_steps(count, replacement):
    X, Y, W = data(8, 30, 4)
    m, step, k = 5, 0.2, np.arange(1, 41)
    traj = ls.sgd(W, (X, Y), k, batch=m, step=step, replacement=replacement)
    other = ls.sgd(W, (X, Y), k, batch=m, step=step, replacement=not replacement)
    runs = sampled(X, Y[:, 0], W[0], m, step, replacement, len(k), count, seed=1)
    losses = np.mean((runs @ X.T - Y[:, 0]) ** 2, axis=-1) / 2
    gaps = runs - traj["w1"]
    for drawn, value in (
        (losses, traj["loss"]),
        ((losses - traj["loss"][:, None]) ** 2, traj["loss_std"] ** 2),
        (runs, traj["w1"][:, 0]),
        (gaps[..., :, None] * gaps[..., None, :], traj["covariance"][:, 0, :, 0]),
    ):
        z = (drawn.mean(axis=1) - value) / (drawn.std(axis=1) / np.sqrt(count))
        assert np.max(np.abs(z)) <= (4.5 if drawn.ndim > 2 else 4)  # 640 and 160 scores, or 40
    if count > 4000:  # 1/m against (n - m)/(m (n - 1))
        wrong = (losses.mean(axis=1) - other["loss"]) / (losses.std(axis=1) / np.sqrt(count))
        assert np.max(np.abs(wrong)) > 10


# limits and arguments


@MODES
@pytest.mark.parametrize(("n", "d", "m"), [(5, 2, 1), (6, 1, 2), (8, 3, 2), (4, 2, 4)])
def test_at_the_largest_step_the_update_of_second_moments_has_spectral_radius_one(n, d, m, replacement):
    X, Y, W = data(n, n, d)
    step = float(ls.sgd(W, (X, Y), 0, batch=m, step=1.0, replacement=replacement).largest_step())
    total = 0
    for batch in batches(n, m, replacement):
        after = np.eye(d) - step / m * X[list(batch)].T @ X[list(batch)]
        total = total + np.kron(after, after) / len(batches(n, m, replacement))
    assert np.max(np.abs(np.linalg.eigvals(total))) == pytest.approx(1, abs=1e-8)


def test_the_largest_step_of_kernels_is_that_of_their_features_and_has_no_bound_for_inputs_of_zero():
    X, Y, W = data(5, 6, 2)
    flow = ls.FrozenKernel(np.stack([X @ X.T, 2 * X @ X.T]), Y[:, 0])
    found = flow.sgd(0, np.zeros(6), batch=2, step=0.01).largest_step()
    assert found.tolist() == pytest.approx(
        [ls.sgd(W, (X, Y), 0, batch=2, step=1.0).largest_step() / 6 / k for k in (1, 2)]
    )
    assert ls.FrozenKernel(np.zeros((2, 2)), [1.0, 2.0]).sgd(0, np.zeros(2), batch=1, step=1.0).largest_step() == np.inf


def test_the_route_says_that_averages_diverge():
    X = np.random.default_rng(0).normal(size=(20, 2))
    Y = X[:, ::-1]  # without residuals at the minimum, whose noise also raises the loss
    largest = float(ls.sgd(np.zeros((2, 2)), (X, Y), 0, batch=8, step=1.0).largest_step())
    for share, end in ((0.9, "without replacement"), (1.1, "; diverging, the step is 1.1 times largest_step")):
        traj = ls.sgd(np.zeros((2, 2)), (X, Y), [0, 400], batch=8, step=share * largest)
        assert traj.route.endswith(end)
        assert (traj["loss"][1] > traj["loss"][0]) == (share > 1)


def test_a_loss_is_drawn_as_a_mean_with_a_band_of_one_standard_deviation():
    X, Y, W = data(8, 30, 4)
    traj = ls.sgd(W, (X, Y), np.arange(20), batch=2, step=0.2)
    for log in (False, True):
        ax = traj.plot(log=log)
        assert [text.get_text() for text in ax.get_legend().get_texts()] == [
            "mean over runs",
            "± standard deviation of a run",
        ]
        assert ax.get_ylabel() == "mean of the loss $L$"
        edge = ax.collections[0].get_paths()[0].vertices
        assert edge[:, 1].max() == np.max(traj["loss"] + traj["loss_std"]) <= ax.get_ylim()[1]
        assert edge[:, 1].min() == max(np.min(traj["loss"] - traj["loss_std"]), ax.get_ylim()[0])
    assert not ls.sgd(np.eye(2), (X[:, :2], X[:, :2]), [0, 1, 2], batch=2, step=0.2).plot("train_loss").collections
    assert traj.plot("loss_std").get_ylabel() == "loss std"
    plt.close("all")


def test_the_whole_data_set_as_minibatch_is_gradient_descent():
    X, Y, W = data(6, 12, 3, 2)
    traj = ls.sgd(W, (X, Y), [1, 10, 50], batch=12, step=0.2)
    for i, k in enumerate((1, 10, 50)):
        w = W.copy()
        for _ in range(k):
            w = w - 0.2 / 12 * (w @ X.T - Y.T) @ X
        assert far(traj["w1"][i], w) <= 1e-13
    assert np.array_equal(traj["covariance"], np.zeros((3, 2, 3, 2, 3)))
    alone = ls.sgd(W[0], (X, Y[:, 0]), [1, 10, 50], batch=12, step=0.2)
    assert np.array_equal(alone["loss_std"], np.zeros(3))
    alone = ls.sgd(W[:, :1], (X[:1, :1], Y[:1]), 3, batch=1, step=0.2)
    assert not alone["covariance"].any()


def test_losses_that_vanish_keep_their_digits():
    X, Y, W = data(7, 3, 6)  # fits every sample
    start, *late = ls.sgd(W, (X, Y), [0, 3000, 3500, 4000], batch=1, step=0.2)["loss"]
    assert 0 < late[2] < 1e-36 * start
    assert late[2] / late[1] == pytest.approx(late[1] / late[0], rel=1e-6)


@pytest.mark.exhaustive
def test_a_fixed_point_ends_the_recursion(monkeypatch):
    flow = ls.FrozenKernel(kernel=np.eye(2) + 0.5, y=[1.0, 2.0])
    ended = dict(flow.sgd([3, 200, 4_000, 10**7], np.zeros(2), batch=1, step=0.3))  # evaluated before the patch
    monkeypatch.setattr(Asked, "_equal", lambda *given: False)
    whole = flow.sgd([3, 200], np.zeros(2), batch=1, step=0.3)
    for name in ended:
        assert ended[name][:2].tolist() == whole[name].tolist(), name
        assert ended[name][3].tolist() == ended[name][2].tolist(), name


@pytest.mark.parametrize("period", [1, 2, 3, 7])
def test_a_cycle_ends_the_recursion_and_repeats(period):
    def value(step):
        return step if step < 100 else 100 + (step - 100) % period

    counts, found, step = np.array([0, 5, 5, 101, 1000, 10**6, 10**7 + 1, 10**15 + 4]), {}, 0
    asked = Asked(np, counts)
    while not asked.done:
        found |= dict.fromkeys(asked.at(step, (np.array([value(step)]),)), value(step))
        step += 1
    assert found == {count: value(count) for count in counts.tolist()}
    assert step <= 64 * 4 * (period + 2)


def test_averages_that_end_in_a_cycle_of_the_smallest_doubles_end():
    rng = np.random.default_rng(0)
    rng.integers(3, 6), rng.integers(1, 4)
    X = rng.normal(size=(5, 2))
    Y = X @ rng.normal(size=2)
    size = 0.5 / np.linalg.norm(X, 2) ** 2 * 5
    traj = ls.sgd(np.zeros(2), (X, Y), [0, 5000, 10**7], batch=1, step=size)
    assert traj["loss"][1] == traj["loss"][2] <= 1e-30 * traj["loss"][0]


def test_bad_arguments_are_named():
    X, Y, W = data(0, 5, 2)
    use = {"batch": 2, "step": 0.1}
    for error, message, arguments in (
        (
            ValueError,
            r"sgd: batch = 6 must be .* from 1 to 5 .*; say at most 5, or replacement=True",
            {**use, "batch": 6},
        ),
        (ValueError, r"sgd: batch = 2.5 must be a positive integer", {**use, "batch": 2.5}),
        (ValueError, r"sgd: step = 0 must be positive", {**use, "step": 0}),
        (ValueError, r"sgd: replacement = 'shuffle' must be True or False .*epochs", {**use, "replacement": "shuffle"}),
    ):
        with pytest.raises(error, match=message):
            ls.sgd(W, (X, Y), 3, **arguments)
    assert ls.sgd(W, (X, Y), 3, batch=6, step=0.1, replacement=True)["loss"] > 0
    with pytest.raises(ValueError, match=r"sgd: weights has 2 layers but must have one .*linearize"):
        ls.sgd([np.eye(2), W], (X, Y), 3, **use)
    with pytest.raises(ValueError, match=r"sgd: X has 2 columns \(inputs\) but the weights have 3"):
        ls.sgd([0.0, 0.0, 0.0], (X, Y), 3, **use)
    with pytest.raises(ValueError, match=r"sgd: k = -1 must be whole numbers"):
        ls.sgd(W, (X, Y), -1, **use)
    with pytest.raises(ValueError, match=r"sgd: k = 100000000 must be at most 10000000 .*each step is evaluated"):
        ls.sgd(W, (X, Y), 10**8, **use)
    with pytest.raises(OverflowError, match=r"sgd: k = 10000 is beyond step \d+, .*SGD diverges") as caught:
        ls.sgd(W, (X, Y), 10_000, batch=2, step=5.0)
    ratio = float(re.search(r"the step is ([\d.]+) times largest_step", str(caught.value))[1])
    assert ls.sgd(W, (X, Y), 10_000, batch=2, step=5.0 / ratio / 1.01)["loss"] > 0
    assert 5.0 / ls.sgd(W, (X, Y), 0, batch=2, step=5.0).largest_step() == pytest.approx(ratio, rel=1e-3)
    with pytest.raises(
        OverflowError, match=r"k = 3 is beyond step 0, .*doubles \(the step is 0\.1 times .*rescale the"
    ):
        ls.FrozenKernel(np.eye(2), [0.0, 0.0]).sgd(3, [1e200, 0.0], batch=1, step=0.1)["loss"]
    with pytest.raises(
        OverflowError, match=r"sgd: k = \d+ is beyond the step at which the variance .*\(SGD diverges: "
    ):
        ls.sgd(W[0], (X, Y[:, 0]), [1, 40], batch=2, step=1000.0)["loss_std"]
    with pytest.raises(KeyError, match="did you mean 'loss'"):
        ls.sgd(W, (X, Y), 3, **use)["los"]
    with pytest.raises(KeyError, match=r"'loss_std' is missing for 2 outputs \(it is evaluated for one\); one of w1"):
        ls.sgd(np.eye(2), (X, X), 3, **use)["loss_std"]
    with pytest.raises(
        KeyError, match=r"'loss_std' is missing for inputs of rank 33 \(it is evaluated up to rank 32\)"
    ):
        ls.sgd(np.ones(33), (np.eye(33), np.ones(33)), 3, **use)["loss_std"]
    flow = ls.FrozenKernel(X @ X.T, Y[:, 0])
    with pytest.raises(KeyError, match=r"'loss_std' is missing for a batch of networks"):
        flow.sgd(3, Y[:, :1].T, batch=1, step=0.1)["loss_std"]
    with pytest.raises(OverflowError, match=r"FrozenKernel.sgd: step of magnitude 1.7e\+308 leads beyond"):
        flow.sgd(3, Y[:, 0], batch=1, step=1.7e308)
    with pytest.raises(ValueError, match=r"FrozenKernel.sgd: batch = 0 must be a positive integer"):
        flow.sgd(3, Y[:, 0], batch=0, step=0.1)
    with pytest.raises(ValueError, match=r"FrozenKernel.sgd: step = nan must be positive"):
        flow.sgd(3, Y[:, 0], batch=1, step=float("nan"))


@pytest.mark.parametrize("size", [1e-90, 1e-99, 1e60])
def test_inputs_of_any_size_move_the_weights_as_scaled_ones_do(size):
    """Inputs of another unit, with weights and steps of its inverse and its inverse square; no false divergence."""
    X, Y, W = data(3, 5, 2)
    use = {"batch": 2, "replacement": False}
    plain, scaled = ls.sgd(W, (X, Y), [0, 7], step=0.1, **use), ls.sgd(W, (X * size, Y), [0], step=0.1, **use)
    assert scaled["loss"][0] == pytest.approx(np.mean((X * size @ W.T - Y) ** 2) / 2, rel=1e-12)
    moved = ls.sgd(0 * W, (X * size, Y), [7], step=0.1 / size**2, **use)
    expected = ls.sgd(0 * W, (X, Y), [7], step=0.1, **use)
    np.testing.assert_allclose(moved["w1"] * size, expected["w1"], rtol=1e-12)
    np.testing.assert_allclose(moved["loss"], expected["loss"], rtol=1e-12)
    assert plain["loss"][1] < plain["loss"][0]


def test_weights_that_move_by_less_than_the_rounding_of_the_minimum_move():
    """The minimum is at 1e180, the step moves the weights by about 1."""
    X, Y, W = data(3, 5, 2)
    found = ls.sgd(W, (1e-90 * X, 1e90 * Y), [0, 1], batch=5, step=0.1)
    np.testing.assert_allclose(found["w1"][1] - W, 0.1 * Y.T @ X / 5, rtol=1e-12)


def test_kernels_of_different_ranks_in_one_batch_are_averaged_as_alone():
    kernels, y = np.array([[[2.0, 1.0], [1.0, 2.0]], [[1.0, 1.0], [1.0, 1.0]]]), np.array([1.0, 0.5])
    together = ls.FrozenKernel(kernels, y).sgd([0, 1, 5], [0.0, 0.0], batch=1, step=0.1)
    for k, kernel in enumerate(kernels):
        alone = ls.FrozenKernel(kernel, y).sgd([0, 1, 5], [0.0, 0.0], batch=1, step=0.1)
        for name in ("f", "loss", "covariance"):
            np.testing.assert_allclose(together[name][:, k], alone[name], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("size", [1e-100, 1e-80, 1e76, 1e100])
def test_products_beyond_doubles_do_not_change_the_band(size):
    kernel = np.array([[1.87, 0.485], [0.485, 1.966]])
    names = ("f", "residual", "loss", "covariance", "loss_std")

    def band(rate, target):
        flow = ls.FrozenKernel(kernel=kernel * rate, y=np.array([0.9, -0.3]) * target)
        found = flow.sgd([3], np.array([0.2, 0.1]) * target, batch=1, step=0.05 / rate)
        powers = (1, 1, 2, 2, 2)
        return [found[name] / target**power for name, power in zip(names, powers, strict=True)]

    for other in (band(size, 1.0), band(1.0, size), band(size, 1 / size)):
        for value, expected in zip(other, band(1.0, 1.0), strict=True):
            np.testing.assert_allclose(value, expected, rtol=1e-12)


def test_equal_samples_and_whole_batches_have_no_spread():
    n = 4
    cases = [
        ls.sgd([0.1, 0.2], (np.full((n, 2), 0.7), np.full(n, 0.37)), [0, 5, 100], batch=1, step=0.13),
        ls.sgd([0.1, 0.2], ([[0.3, 0.7]], [0.37]), [0, 5, 100], batch=3, step=0.13, replacement=True),
        ls.sgd([0.1, 0.2], (np.eye(2), [0.37, 1.0]), [0, 5, 100], batch=2, step=0.13),
        ls.FrozenKernel(np.full((n, n), 0.37), np.full(n, 0.9)).sgd([0, 5, 100], np.full(n, 0.2), batch=1, step=0.05),
    ]
    for found in cases:
        for name in ("loss_std", "covariance"):
            assert (found[name] == 0).all()
            assert not np.signbit(found[name]).any()


def test_variances_at_rounding_level_are_not_negative():
    X = np.array([[1.0, 0.3], [1.0, 0.3], [2.0, 0.6]])  # residuals vanish together: a spread of rounding errors
    found = ls.sgd([0.1, 0.2], (X, X @ [0.5, -0.4]), np.arange(60), batch=1, step=0.3)
    assert (np.einsum("kijij->kij", found["covariance"]) >= 0).all()
    assert (found["loss_std"] >= 0).all()
