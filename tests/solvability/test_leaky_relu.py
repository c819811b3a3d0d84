"""Leaky ReLU networks that train as linear networks, against simulations of the nonlinear networks themselves."""

import itertools
import json

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from selection import quick
from trained import orthonormal

import linsolve as ls
from linsolve.__main__ import main
from linsolve.solvability import leaky_relu
from linsolve.solvability.activation import Activation
from linsolve.solvability.leaky_network import gradients
from linsolve.solvability.mirrors import mirror
from linsolve.systems.whitened.starts import init

ALPHAS = (0.0, 0.2, 0.01, -0.5, 3.0)


def forward(layers, X, alpha):
    """Return the signals of every layer before its activation, and the inputs of every layer."""
    signals, inputs = [], [X]
    for i, w in enumerate(layers):
        signals.append(inputs[-1] @ w.T)
        if i + 1 < len(layers):
            inputs.append(np.where(signals[-1] > 0, signals[-1], alpha * signals[-1]))
    return signals, inputs


def velocity(layers, X, Y, alpha, rates=None):
    """Return minus the gradient of the mean loss by backpropagation, times the learning rates."""
    signals, inputs = forward(layers, X, alpha)
    back, found = (Y - signals[-1]) / len(X), []
    for i in reversed(range(len(layers))):
        found.append(back.T @ inputs[i] * (1.0 if rates is None else rates[i]))
        back = (back @ layers[i]) * np.where(signals[i - 1] > 0, 1.0, alpha) if i else back
    return found[::-1]


def simulate(layers, X, Y, alpha, rates, times):
    """Return each layer at all times, integrated by DOP853 in the raw weights of the nonlinear network."""
    cuts, shapes = np.cumsum([w.size for w in layers])[:-1], [w.shape for w in layers]

    def split(y):
        return [part.reshape(shape) for part, shape in zip(np.split(y, cuts), shapes, strict=True)]

    def rate(_, y):
        return np.concatenate([each.ravel() for each in velocity(split(y), X, Y, alpha, rates)])

    found = [np.concatenate([w.ravel() for w in layers])]
    # rounding breaks the symmetry; its decay, faster than the linear network, limits the stable step
    options = {"method": "DOP853", "rtol": 3e-14, "atol": 1e-16, "max_step": 0.05}
    for span in itertools.pairwise(times):  # up to each time: interpolation within a step is less accurate
        done = solve_ivp(rate, span, found[-1], **options)
        assert done.success
        found.append(done.y[:, -1])
    return [np.stack(each) for each in zip(*(split(y) for y in found), strict=True)]


def kernel(layers, X, alpha, rates):
    """Return the tangent kernel from the Jacobian of the outputs by central differences."""
    found = 0.0
    for i, w in enumerate(layers):
        columns = []
        for index in np.ndindex(w.shape):
            bump = np.zeros(w.shape)
            bump[index] = 1e-6
            up, down = ([*layers[:i], w + sign * bump, *layers[i + 1 :]] for sign in (1, -1))
            columns.append((forward(up, X, alpha)[0][-1] - forward(down, X, alpha)[0][-1]).ravel() / 2e-6)
        found = found + rates[i] * np.stack(columns).T @ np.stack(columns)
    return found


def paired(first, last, gen=None):
    """Return the layers of units and of their mirrored units, in random order."""
    order = np.arange(2 * len(first)) if gen is None else gen.permutation(2 * len(first))
    return [np.concatenate([first, -first])[order], np.concatenate([last, -last], axis=1)[:, order]]


def both_sides(X, Y, gen=None):
    """Return samples and mirrored samples, in random order."""
    order = np.arange(2 * len(X)) if gen is None else gen.permutation(2 * len(X))
    return np.concatenate([X, -X])[order], np.concatenate([Y, -Y])[order]


def line(gen):
    """One output, data on a line, any weights."""
    n_in, width, count = gen.integers(1, 6, 3)
    X = gen.normal(size=(count, 1)) * gen.normal(size=n_in)
    return paired(gen.normal(size=(width, n_in)), gen.normal(size=(1, width)), gen), X, gen.normal(size=(count, 1))


def white(gen):
    """White inputs, pairs of balanced units."""
    n_in, n_out = gen.integers(2, 4, 2)
    first, last = init(int(n_in), int(n_in + n_out), int(n_out), scale=0.6, rng=gen)
    X = np.sqrt(8) * orthonormal(gen, 8, n_in)
    return paired(first, last, gen), X, X @ gen.normal(size=(n_in, n_out)) + 0.2 * gen.normal(size=(8, n_out))


def generic(gen):
    """Any covariance, any weights: integrated as a linear network."""
    n_in, width, n_out, count = gen.integers(1, 5, 4)
    weights = paired(gen.normal(size=(width, n_in)), gen.normal(size=(n_out, width)), gen)
    return weights, gen.normal(size=(count, n_in)), gen.normal(size=(count, n_out))


KINDS = {line: "closed form: TwoLayer;", white: "closed form: WhitenedTwoLayer;", generic: ""}


def drawn(seed):
    """Return a mirrored network, its data, alpha, learning rates, and the route of its solution."""
    gen = np.random.default_rng(seed)
    make = list(KINDS)[seed % 3]
    weights, X, Y = make(gen)
    rates = gen.uniform(0.3, 2.0, 2) if make is not white else np.full(2, gen.uniform(0.3, 2.0))
    alpha = ALPHAS[seed // 3] if seed < 15 else gen.uniform(-0.9, 1.0)
    return weights, both_sides(X, Y, gen), alpha, rates, KINDS[make]


def named(alpha):
    return "relu" if alpha == 0 else ("leaky_relu", alpha)


def distance(found, right):
    return np.abs(found - right).max() / max(1.0, np.abs(right).max())


def worst_distance(seed):
    """Return the largest relative distance of weights, outputs, losses and kernels from the nonlinear simulation."""
    weights, data, alpha, rates, route = drawn(seed)
    times, gen = np.array([0.0, 0.3, 1.0, 2.5]), np.random.default_rng(seed)
    unseen = gen.normal(size=(7, data[0].shape[1])), gen.normal(size=(7, data[1].shape[1]))
    traj = ls.solve(weights, data, times, rates, activation=named(alpha), rtol=1e-13, test=unseen)
    assert traj.route.startswith(route)
    right = simulate(weights, *data, alpha, rates, times)
    assert max(np.abs(w[-1] - w[0]).max() for w in right) > 1e-3  # something was learned
    found = [distance(traj[f"w{i}"], w) for i, w in enumerate(right, start=1)]
    for name, (X, Y) in (("loss", data), ("test_loss", unseen)):
        outputs = np.stack([forward(each, X, alpha)[0][-1] for each in zip(*right, strict=True)])
        found.append(distance(X @ np.swapaxes(traj["map"], -1, -2), outputs))
        found.append(distance(traj[name], np.sum((outputs - Y) ** 2, axis=(1, 2)) / (2 * len(X))))
    assert distance(traj["ntk"][-1], kernel([w[-1] for w in right], data[0], alpha, rates)) <= 1e-7
    return max(found)


@pytest.mark.parametrize("seed", quick(range(100), 9))
def test_weights_outputs_and_losses_are_those_of_the_simulated_nonlinear_network(seed):
    assert worst_distance(seed) <= 1e-12


@pytest.mark.parametrize("mutant", ["gain", "rates", "weights"])
def test_mutants_differ_from_the_simulated_nonlinear_network(mutant, monkeypatch):
    linear = leaky_relu.Reduction.linear
    if mutant == "gain":  # alpha for (1 + alpha) / 2
        monkeypatch.setattr(Activation, "gain", property(lambda self: self.alpha))
    elif mutant == "rates":
        monkeypatch.setattr(
            leaky_relu.Reduction, "linear", lambda self, net: linear(self, net)._replace(rates=net.rates)
        )
    else:
        monkeypatch.setattr(
            leaky_relu.Reduction, "linear", lambda self, net: linear(self, net)._replace(weights=net.weights)
        )
    monkeypatch.setattr(leaky_relu, "tangent_kernel", lambda unit, first, last, X, rates: np.full((1, 1), np.nan))
    with pytest.raises(AssertionError, match="1e-07"):  # the kernel is the last to be compared
        worst_distance(3)
    monkeypatch.undo()
    assert worst_distance(3) <= 1e-12


# optimizers


def descent(move, state):
    return [0.02 * m for m in move], state


def momentum(move, state):
    kept = [0.9 * v + m for v, m in zip(state or [0.0] * len(move), move, strict=True)]
    return [0.02 * v for v in kept], kept


def adam(move, state):
    k, first, second = state or (0, [0.0] * len(move), [0.0] * len(move))
    k += 1
    first = [0.9 * v + 0.1 * m for v, m in zip(first, move, strict=True)]
    second = [0.999 * v + 0.001 * m**2 for v, m in zip(second, move, strict=True)]
    sizes = [np.sqrt(v / (1 - 0.999**k)) + 1e-8 for v in second]
    return [3e-3 * v / (1 - 0.9**k) / size for v, size in zip(first, sizes, strict=True)], (k, first, second)


@pytest.mark.parametrize("optimizer", [descent, momentum, adam])
@pytest.mark.parametrize("alpha", quick((0.0, 0.3, -0.2), 2))
def test_weights_equal_those_of_the_linear_network_over_500_steps(optimizer, alpha):
    gen = np.random.default_rng(4)
    weights = paired(gen.normal(size=(4, 3)), gen.normal(size=(2, 4)), gen)
    X, Y = both_sides(gen.normal(size=(9, 3)), gen.normal(size=(9, 2)), gen)
    gain = (1 + alpha) / 2
    nonlinear, linear, states = weights, weights, [None, None]
    for _ in range(500):
        pull = (Y - gain * X @ linear[0].T @ linear[1].T).T @ X / len(X)
        moves = velocity(nonlinear, X, Y, alpha), [gain * linear[1].T @ pull, gain * pull @ linear[0].T]
        (one, states[0]), (two, states[1]) = (optimizer(*each) for each in zip(moves, states, strict=True))
        nonlinear = [w + move for w, move in zip(nonlinear, one, strict=True)]
        linear = [w + move for w, move in zip(linear, two, strict=True)]
        assert max(distance(*each) for each in zip(nonlinear, linear, strict=True)) <= 1e-13
    assert max(np.abs(w - start).max() for w, start in zip(linear, weights, strict=True)) > 0.1


def test_a_step_of_the_nonlinear_network_leaves_the_flow_at_the_predicted_time():
    weights, data, alpha, rates, _ = drawn(3)
    traj = ls.solve(weights, data, [0.0, 4.0], rates, activation=named(alpha), step=0.02, within=1e-3)
    steps, layers = np.arange(201), weights
    flow = ls.solve(weights, data, 0.02 * steps, rates, activation=named(alpha))["map"]
    sizes, gaps = [], []
    for k in steps:
        outputs = forward(layers, data[0], alpha)[0][-1]
        gaps.append(np.linalg.norm(outputs - data[0] @ flow[k].T))
        sizes.append(np.linalg.norm(data[0] @ flow[k].T))
        layers = [w + 0.02 * v for w, v in zip(layers, velocity(layers, *data, alpha, rates), strict=True)]
    late = np.array(gaps) > 1e-3 * max(sizes)
    assert late.any()
    assert traj.departure.time == pytest.approx(0.02 * int(np.argmax(late)), abs=0.021)


# 50 digits


@pytest.mark.parametrize(("alpha", "rejected"), [(0.0, False), (0.25, False), (-0.5, False), (0.25, True)])
def test_the_closed_form_obeys_the_nonlinear_network_to_50_digits(alpha, rejected):
    import mpmath

    with mpmath.workdps(50):
        xp, gen = ls.arithmetic.precise(50), np.random.default_rng(1)
        weights = paired(gen.normal(size=(2, 3)), gen.normal(size=(1, 2)))
        place, axis = np.array([1.0, -1.0, 2.0, -2.0]), np.array([0.5, -1.0, 0.25])
        X, Y = np.outer(place, axis), np.array([[1.0], [-1.0], [3.0], [-3.0]])
        power = mpmath.mpf(10) / 4  # mean of place squared; the targets of one sample of this size
        gain = mpmath.mpf(alpha if rejected else (1 + alpha) / 2)
        exact = ls.TwoLayer(
            y=xp.asarray(mpmath.mpf(7) / 2 / mpmath.sqrt(power)), gamma=xp.asarray(gain),
            x=xp.asarray([mpmath.sqrt(power) * mpmath.mpf(each) for each in axis]), eta_u=0.5, eta_w=0.5,
        )  # fmt: skip
        z0 = ls.TwoLayer.State(xp.asarray(weights[1][0]), xp.asarray(weights[0]))
        h = mpmath.mpf(10) ** -16
        traj = exact(xp.asarray([mpmath.mpf("0.4") + k * h for k in (-2, -1, 0, 1, 2)]), z0)

        def slope(w):
            return (w[0] - 8 * w[1] + 8 * w[3] - w[4]) / (12 * h)

        X, Y = (np.vectorize(mpmath.mpf)(each) for each in (X, Y))
        w, u = (np.asarray(traj[name]) for name in "wu")
        right = velocity([w[2], u[2][None]], X, Y, mpmath.mpf(alpha))
        worst = max(abs(slope(w) - right[0]).max(), abs(slope(u) - right[1][0]).max())
    assert (worst <= 1e-32) != rejected
    assert not rejected or worst > 1e-2


# conditions


def condition(verdict, name):
    """Return the condition of a verdict with this name."""
    return next(c for c in verdict.assessments[0].conditions if c.name == name)


def near_miss(name):
    """Return weights, data and biases that violate one condition, its name in the verdict, and its distance."""
    gen = np.random.default_rng(7)
    weights = paired(gen.normal(size=(3, 4)), gen.normal(size=(2, 3)))
    X, Y = both_sides(gen.normal(size=(8, 4)), gen.normal(size=(8, 2)))
    bias = None
    if name == "a unit is moved":
        weights[0][1, 2] += 1e-3
        return weights, (X, Y), bias, "mirrored units", (1e-4, 1e-3)
    if name == "a unit is missing":
        return [weights[0][:-1], weights[1][:, :-1]], (X, Y), bias, "mirrored units", (0.3, 1.0)
    if name == "an output weight is moved":
        weights[1][0, 4] *= 1 + 1e-6
        return weights, (X, Y), bias, "mirrored units", (1e-8, 1e-6)
    if name == "a sample is missing":
        return weights, (X[1:], Y[1:]), bias, "mirrored samples", (0.3, 1.0)
    if name == "a sample is twice":
        X, Y = np.concatenate([X, X[:1]]), np.concatenate([Y, Y[:1]])
        return weights, (X, Y), bias, "mirrored samples", (1 / 3 - 1e-9, 1.0)
    if name == "a label is moved":
        Y[5, 1] += 1e-4
        return weights, (X, Y), bias, "mirrored samples", (1e-5, 1e-3)
    if name == "inputs are moved":
        return weights, (X + 0.01, Y), bias, "mirrored samples", (1e-3, 1.0)
    if name == "hidden biases":
        return weights, (X, Y), [0.0, None], "no hidden bias", (1.0, 1.0)
    if name == "an output bias":
        return weights, (X, Y), [None, [0.0, 0.1]], "zero output bias", (0.01, 0.2)
    assert name == "a second hidden layer"
    return [*weights, np.ones((2, 2))], (X, Y), bias, "one hidden layer", (1 / 3, 1 / 3)


MISSES = (
    "a unit is moved", "a unit is missing", "an output weight is moved", "a sample is missing", "a sample is twice",
    "a label is moved", "inputs are moved", "hidden biases", "an output bias", "a second hidden layer",
)  # fmt: skip


@pytest.mark.parametrize("name", MISSES)
def test_near_misses_are_refused_by_name_with_their_distance(name):
    weights, data, bias, condition, (low, high) = near_miss(name)
    verdict = ls.applies(weights, data, bias=bias, activation=("leaky_relu", 0.2))
    assert verdict.exact == ()
    for each in verdict.assessments:
        (failed,) = [c for c in each.violated if c.name == condition]
        assert low <= failed.distance <= high
    assert f"not linear: {condition}, relative distance {failed.distance:.2g}: " in str(verdict)
    assert json.loads(verdict.to_json())["network"].endswith("-2 leaky ReLU network (alpha = 0.2)")
    with pytest.raises(ls.NotExact, match=rf"^solve: activation = \('leaky_relu', 0.2\) needs {condition}, relative"):
        ls.solve(weights, data, 1.0, bias=bias, activation=("leaky_relu", 0.2))
    with pytest.raises(ls.NotExact, match="the notes state the fix"):
        verdict.flow()
    if bias is None:  # the network is not odd after gradient descent, or odd but not linear
        layers, X = weights, np.random.default_rng(0).normal(size=(20, 4))
        for _ in range(100):
            layers = [w + 0.02 * v for w, v in zip(layers, velocity(layers, *data, 0.2), strict=True)]
        outputs = forward(layers, X, 0.2)[0][-1]
        if len(weights) == 2:
            assert np.abs(outputs + forward(layers, -X, 0.2)[0][-1]).max() > 1e-8
        else:
            assert np.abs(outputs - X @ np.linalg.lstsq(X, outputs, rcond=None)[0]).max() > 1e-2


def test_the_worst_point_is_named():
    for name, unit in (("a unit is moved", r"hidden unit W1\[4\] has"), ("a sample is missing", r"sample X\[7\] has")):
        weights, data, _, _, _ = near_miss(name)
        with pytest.raises(ls.NotExact, match=unit):
            ls.solve(weights, data, 1.0, activation="relu")


def test_several_conditions_are_named_together():
    weights, data, *_ = near_miss("a unit is missing")
    with pytest.raises(ls.NotExact, match=r"needs mirrored units, relative .*; also mirrored samples \(1\), no hidden"):
        ls.solve(weights, (data[0][:5], data[1][:5]), 1.0, bias=[1.0, None], activation="relu")
    verdict = ls.applies(weights, data, activation="relu", test=data, step=0.1)
    assert "test and step: not answered" in str(verdict)


def test_a_rounding_error_is_accepted_by_tolerance_and_stated():
    weights, data, *_ = near_miss("a label is moved")
    data[1][5, 1] += 1e-9 - 1e-4
    with pytest.raises(ls.NotExact, match=r"by tolerance=\d"):
        ls.solve(weights, data, 1.0, activation="relu")
    traj = ls.solve(weights, data, 1.0, activation="relu", tolerance=1e-8)
    assert any("the distance from the linear network has no bound" in note for note in traj.notes)


def test_units_and_samples_on_a_line_may_cancel_with_other_multiplicities():
    gen = np.random.default_rng(2)
    w, u, x, y = gen.normal(size=(1, 3)), gen.normal(size=(2, 1)), gen.normal(size=(2, 3)), gen.normal(size=(2, 2))
    weights = [np.concatenate([2 * w] + 4 * [-w]), np.concatenate([2 * u] + 4 * [-u], axis=1)]
    X = np.concatenate([2 * x, -x, -x, -x, -x, np.zeros((1, 3))])
    Y = np.concatenate([2 * y, -y, -y + 1, -y - 1, -y, np.ones((1, 2))])  # a sample at 0 learns nothing
    traj = ls.solve(weights, (X, Y), [0.0, 1.0], activation=("leaky_relu", 0.1), rtol=1e-13)
    right = simulate(weights, X, Y, 0.1, np.ones(2), [0.0, 1.0])
    assert max(distance(traj[f"w{i}"], each) for i, each in enumerate(right, start=1)) <= 1e-12
    outputs = forward([each[-1] for each in right], X, 0.1)[0][-1]
    assert traj["loss"][-1] == pytest.approx(np.sum((outputs - Y) ** 2) / (2 * len(X)), rel=1e-12)
    assert ls.applies(weights, (X, Y), activation="relu").integrable


def simulated_bias(weights, u, X, Y, steps, rate):
    """Return the output bias of a ReLU network after gradient descent of all weights and the bias."""
    bias = np.zeros(1)
    for _ in range(steps):
        hidden = np.maximum(X @ weights.T, 0.0)
        error = Y - hidden @ u.T - bias
        move = ((error @ u) * (X @ weights.T > 0)).T @ X / len(X)
        u, weights, bias = u + rate * error.T @ hidden / len(X), weights + rate * move, bias + rate * error.mean(axis=0)
    return bias


@pytest.mark.parametrize("case", ["a sample at 0", "other multiplicities"])
def test_samples_that_cancel_without_pairs_move_an_output_bias(case):
    x = np.array([[1.0, 2.0]])
    weights = [np.array([[0.5, 0.1], [-0.5, -0.1]]), np.array([[0.7, -0.7]])]
    if case == "a sample at 0":
        X, Y = np.concatenate([x, -x, 0 * x]), np.array([[1.0], [-1.0], [1.0]])
        low, high = 1 / 3, 1.0
    else:
        X, Y = np.concatenate([2 * x, -x, -x, -x, -x]), np.array([[2.0], [-1.0], [-1.0], [-1.0], [-1.0]])
        low, high = 0.3, 0.9
    assert ls.applies(weights, (X, Y), activation="relu").integrable  # without a bias it is linear
    assert abs(simulated_bias(*weights, X, Y, 200, 0.01)[0]) > 0.05
    verdict = ls.applies(weights, (X, Y), bias=[None, 0.0], activation="relu")
    assert not verdict.exact
    (failed,) = verdict.assessments[0].violated[:1]
    assert failed.name == "zero means"
    assert low <= failed.distance <= high
    with pytest.raises(ls.NotExact, match=r"needs zero means, relative distance 0\.\d+ \(a trained output bias moves"):
        ls.solve(weights, (X, Y), 2.0, bias=[None, 0.0], activation="relu")


def test_samples_on_a_kink_are_refused_and_a_small_step_off_it_is_answered():
    X, Y = both_sides(np.eye(2), np.array([[1.0], [2.0]]))
    axis, zero = (paired(np.array([w]), np.array([[0.7]])) for w in ([0.0, 1.0], [0.0, 0.0]))
    for weights, share in ((axis, 0.5), (zero, 1.0)):
        layers = weights
        for _ in range(100):
            layers = [w + 0.1 * v for w, v in zip(layers, velocity(layers, X, Y, 0.0), strict=True)]
        assert not layers[0][:, 0].any()  # descent with the slope 0 stays still
        assert np.abs(ls.solve([w / np.sqrt(2) for w in weights], (X, Y), 5.0)["w1"][:, 0]).min() > 0.1
        verdict = ls.applies(weights, (X, Y), activation="relu")
        assert "NOT EXACT" in str(verdict)
        assert condition(verdict, "no sample on a kink").distance == share
        with pytest.raises(
            ls.NotExact, match=f"needs no sample on a kink, relative distance {share:.2g} .*hidden unit 0"
        ):
            ls.solve(weights, (X, Y), 1.0, activation="relu")
        moved = [weights[0] + [[1e-3, 1e-3], [-1e-3, -1e-3]], weights[1]]
        right = simulate(moved, X, Y, 0.0, np.ones(2), [0.0, 1.0])
        traj = ls.solve(moved, (X, Y), [0.0, 1.0], activation="relu", rtol=1e-13)
        assert max(distance(traj[f"w{i}"], each) for i, each in enumerate(right, start=1)) <= 1e-12
    idle = [np.concatenate([axis[0] + 1e-3 * np.array([[1], [-1]]), np.zeros((1, 2))]), np.array([[0.7, -0.7, 0.0]])]
    assert ls.applies(idle, (X, Y), activation="relu").integrable  # a unit that is 0 does not learn
    X, Y = np.concatenate([X, np.zeros((2, 2))]), np.concatenate([Y, [[1.0], [-1.0]]])
    assert ls.applies(moved, (X, Y), activation="relu").integrable  # a sample at 0 moves no weight


@pytest.mark.parametrize("name", ["a unit is moved", "a label is moved", "inputs are moved"])
def test_a_distance_is_the_same_number_under_any_tolerance(name):
    weights, data, *_, broken, _ = near_miss(name)
    if name == "inputs are moved":
        data = data[0] - 0.01 + 1e-4 * np.random.default_rng(0).normal(size=data[0].shape), data[1]
    strict, loose = (
        condition(ls.applies(weights, data, activation="relu", tolerance=each), broken) for each in (1e-9, 1e-2)
    )
    assert loose.ok
    assert not strict.ok
    assert strict.distance == pytest.approx(loose.distance, rel=1e-12)
    notes = " ".join(ls.solve(weights, data, 1.0, activation="relu", tolerance=1e-2).notes)
    assert f"mirrored up to {strict.distance:.2g};" in notes
    with pytest.raises(ls.NotExact, match=f"relative distance {strict.distance:.2g} "):
        ls.solve(weights, data, 1.0, activation="relu")


def test_near_copies_of_a_sample_are_not_its_mirrored_samples():
    points, values = both_sides(np.array([[1.0, 2.0], [3.0, -1.0]]), np.array([[1.0], [2.0]]))
    copied = np.concatenate([points, points[:1] + 1e-5 * np.eye(2)[:1]]), np.concatenate([values, values[:1]])
    for tolerance in (1e-9, 1e-3):
        assert mirror(*copied, tolerance).distance > 0.3


def test_an_output_bias_of_zero_stays_zero():
    weights, data, alpha, rates, _ = drawn(5)
    bias = [None, np.zeros(data[1].shape[1])]
    traj = ls.solve(weights, data, [0.0, 1.0], rates, bias=bias, activation=named(alpha), rtol=1e-13)
    right = simulate(weights, *data, alpha, rates, [0.0, 1.0])
    assert max(distance(traj[f"w{i}"], each) for i, each in enumerate(right, start=1)) <= 1e-12
    assert np.abs(traj["b2"]).max() <= 1e-15
    hidden = kernel([each[-1] for each in right], data[0], alpha, rates)
    ones = np.kron(np.ones((len(data[0]),) * 2), rates[1] * np.eye(data[1].shape[1]))
    assert distance(traj["ntk"][-1], hidden + ones) <= 1e-7


def test_the_tangent_kernel_drives_the_outputs():
    weights, (X, Y), alpha, rates, _ = drawn(5)
    t, h = 0.5, 1e-4
    traj = ls.solve(weights, (X, Y), [t - h, t, t + h], rates, activation=named(alpha), rtol=1e-13)
    outputs = X @ np.swapaxes(traj["map"], -1, -2)
    pull = -traj["ntk"][1] @ (outputs[1] - Y).ravel() / len(X)
    assert distance(((outputs[2] - outputs[0]) / (2 * h)).ravel(), pull) <= 1e-6


def test_the_initial_gradient_is_measured_on_the_nonlinear_network():
    for seed in range(3):
        weights, data, alpha, _, _ = drawn(seed)
        (found,) = [
            c
            for c in ls.applies(weights, data, activation=named(alpha)).assessments[0].conditions
            if c.name == "gradient"
        ]
        assert found.distance <= 1e-13
    weights, data, *_ = near_miss("a unit is missing")
    (found,) = [
        c for c in ls.applies(weights, data, activation="relu").assessments[0].conditions if c.name == "gradient"
    ]
    linear = [0.5 * m for m in velocity([w / np.sqrt(2) for w in weights], *data, 1.0)]
    gap = [a - np.sqrt(2) * b for a, b in zip(velocity(weights, *data, 0.0), linear, strict=True)]
    size = [np.sqrt(2) * b for b in linear]
    joined = [np.linalg.norm(np.concatenate([each.ravel() for each in part])) for part in (gap, size)]
    assert found.distance == pytest.approx(joined[0] / max(joined), rel=1e-9)


def test_gradients_of_the_package_are_those_of_backpropagation_at_any_depth():
    gen = np.random.default_rng(5)
    for widths in ((3, 2), (3, 4, 2), (2, 5, 4, 3)):
        layers = [gen.normal(size=(after, before)) for before, after in itertools.pairwise(widths)]
        X, Y = gen.normal(size=(7, widths[0])), gen.normal(size=(7, widths[-1]))
        found = gradients(np, Activation(0.2), layers, X, Y)
        for each, right in zip(found, velocity(layers, X, Y, 0.2), strict=True):
            np.testing.assert_allclose(each / 7, right, rtol=1e-12, atol=1e-13)


def test_two_hidden_layers_of_mirrored_units_stay_odd_and_do_not_stay_linear():
    gen = np.random.default_rng(3)
    first, second, last = gen.normal(size=(3, 2)), gen.normal(size=(3, 3)), gen.normal(size=(1, 3))
    top = np.concatenate([second, -second], axis=1)
    weights = [np.concatenate([first, -first]), np.concatenate([top, -top]), np.concatenate([last, -last], axis=1)]
    data = both_sides(gen.normal(size=(8, 2)), gen.normal(size=(8, 1)))
    X, alpha = gen.normal(size=(30, 2)), 0.1
    before = forward(weights, X, alpha)[0][-1]
    np.testing.assert_allclose(before, 0.55**2 * X @ (weights[2] @ weights[1] @ weights[0]).T, atol=1e-12)
    layers = weights
    for _ in range(200):
        layers = [w + 0.01 * v for w, v in zip(layers, velocity(layers, *data, alpha), strict=True)]
    after = forward(layers, X, alpha)[0][-1]
    assert np.abs(after + forward(layers, -X, alpha)[0][-1]).max() <= 1e-12
    fitted = X @ np.linalg.lstsq(X, after, rcond=None)[0]
    assert np.linalg.norm(after - fitted) > 1e-3 * np.linalg.norm(after)
    verdict = ls.applies(weights, data, activation=("leaky_relu", alpha))
    assert condition(verdict, "gradient").distance > 1e-2


# arguments, notes


def test_linear_activations_and_networks_without_hidden_units_are_linear():
    weights, data, *_ = near_miss("a unit is missing")
    plain = ls.solve(weights, data, 1.0)
    for activation in ("linear", ("leaky_relu", 1.0), ["leaky_relu", 1]):
        traj = ls.solve(weights, data, 1.0, activation=activation)
        assert traj.route == plain.route
        np.testing.assert_array_equal(traj["map"], plain["map"])
    assert ls.solve([np.ones((2, 4))], data, 1.0, activation="relu").route == "closed form: DeepMode"


@pytest.mark.parametrize("call", [ls.applies, lambda *args, **kwargs: ls.solve(*args, 1.0, **kwargs)])
def test_bad_activations_are_named(call):
    weights, data, *_ = near_miss("a unit is moved")
    for activation in ("gelu", "leaky_relu", ("leaky_relu",), ("relu", 0.1), 0.1, ("leaky_relu", 0.1, 2)):
        with pytest.raises(
            ValueError, match=r"activation = .* must be None, 'linear', 'relu' or \('leaky_relu', alpha\)"
        ):
            call(weights, data, activation=activation)
    for alpha in (-1.0, np.nan, np.inf, "0.1", None, True):
        with pytest.raises(ValueError, match=r"activation\[1\] = .* must be a number in \(-1, 1e6\]"):
            call(weights, data, activation=("leaky_relu", alpha))
    moments = data[0].T @ data[0] / len(data[0]), data[1].T @ data[0] / len(data[0])
    with pytest.raises(ValueError, match="activation = 'relu' needs samples, not second moments"):
        call(weights, moments, covariances=True, activation="relu")


def test_notes_name_kinks_and_a_rank_that_is_too_small():
    gen = np.random.default_rng(0)
    weights = paired(np.array([[1.0, 0.0]]), np.array([[1.0], [0.5]]))
    inputs = np.concatenate([[[0.0, 1.0]], np.ones((19, 1)) * [1.0, 1.0]])
    X, Y = both_sides(inputs, gen.normal(size=(20, 2)))
    notes = " ".join(ls.solve(weights, (X, Y), 1.0, activation="relu", tolerance=0.06).notes)
    assert "kinks: hidden units are at 0 for 4 pairs of unit and sample" in notes
    assert "rank: mirrored units of rank 1 learn at most 1 of 2 directions" in notes
    weights, data, alpha, rates, _ = drawn(4)
    notes = " ".join(ls.solve(weights, data, 1.0, rates, activation=named(alpha)).notes)
    assert "kinks" not in notes
    assert "mirrored units of rank" not in notes


def test_the_flow_of_the_verdict_has_the_outputs_of_the_network():
    for seed in (0, 1):
        weights, data, alpha, rates, _ = drawn(seed)
        verdict = ls.applies(weights, data, rates, activation=named(alpha), test=data)
        match, times = verdict.match(), np.array([0.0, 1.0])
        found = match.map(match.flow(times, match.z0)) @ data[0].T
        right = simulate(weights, *data, alpha, rates, times)
        outputs = [forward(each, data[0], alpha)[0][-1].T for each in zip(*right, strict=True)]
        assert distance(found, np.stack(outputs)) <= 1e-10
        assert f"linear of gain {(1 + alpha) / 2:.4g}: exact as {match.name}" in str(verdict)
        assert verdict.generalization.start == pytest.approx(
            np.mean((outputs[0].T - data[1]) ** 2) / 2 * len(right[1][0])
        )


# mirror symmetry


def test_mirror_is_zero_for_mirrored_points_and_names_the_worst():
    gen = np.random.default_rng(0)
    points, values = both_sides(gen.normal(size=(40, 3)), gen.normal(size=(40, 2)), gen)
    assert mirror(points, values, 1e-9).distance <= 1e-15
    assert mirror(1e-200 * points, 1e-300 * values, 1e-9).distance <= 1e-15
    points[11] *= 1 + 1e-5
    found = mirror(points, values, 1e-9)
    assert found.distance == pytest.approx(1e-5, rel=1e-3)
    points[11] += 0.1
    assert 11 in mirror(points, values, 1e-9)
    small = np.concatenate([points, 1e-12 * gen.normal(size=(1, 3))]), np.concatenate([values, np.ones((1, 2))])
    assert mirror(*small, 1e-9).point == 80  # a small unit may grow
    assert mirror(*small, 1e-9, least=1e-9).point != 80  # a small sample does not count
    assert mirror(np.zeros((3, 2)), np.ones((3, 1)), 1e-9).distance == 0
    assert mirror(np.ones((1, 2)), 1e-200 * np.ones((1, 1)), 1e-9) == (1.0, 0, None)


# the command line


@pytest.fixture
def files(tmp_path, monkeypatch):
    weights, data, *_ = drawn(0)
    np.savez(tmp_path / "w.npz", W1=weights[0], W2=weights[1])
    np.savez(tmp_path / "d.npz", X=data[0], Y=data[1])
    np.savez(tmp_path / "bad.npz", X=data[0][1:], Y=data[1][1:])
    monkeypatch.chdir(tmp_path)
    return weights, data


def test_the_command_line_solves_leaky_relu_networks(files, capsys):
    weights, data = files
    assert main(["applies", "w.npz", "d.npz", "--activation", "leaky_relu:0.2"]) == 0
    assert "leaky ReLU network (alpha = 0.2), linear of gain 0.6: exact as TwoLayer" in capsys.readouterr().out
    assert main(["solve", "w.npz", "d.npz", "--t", "0,1", "--activation", "relu", "--json", "--out", "out"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["route"] == "closed form: TwoLayer; linear network of gain 0.5"
    right = simulate(weights, *data, 0.0, np.ones(2), [0.0, 1.0])
    with np.load("out/trajectories.npz") as arrays:
        assert max(distance(arrays[f"w{i}"], each) for i, each in enumerate(right, start=1)) <= 1e-12
    with open("out/report.html", encoding="utf-8") as page:
        assert "ReLU network, linear of gain 0.5 on d" in page.read()


def test_the_command_line_names_near_misses_and_bad_activations(files, capsys):
    assert main(["applies", "w.npz", "bad.npz", "--activation", "relu"]) == 3
    assert "not linear: mirrored samples" in capsys.readouterr().out
    assert main(["solve", "w.npz", "bad.npz", "--t", "0,1", "--activation", "relu"]) == 2
    assert "solve: activation = 'relu' needs mirrored samples" in capsys.readouterr().err
    for text in ("relu:0.1", "leaky_relu", "leaky_relu:x", "tanh", "leaky_relu:-1"):
        assert main(["applies", "w.npz", "d.npz", "--activation", text]) == 2
        assert "applies: activation" in capsys.readouterr().err
