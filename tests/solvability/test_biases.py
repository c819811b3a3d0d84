"""Networks with biases through `solve` and `applies`, against an integration of their raw weights."""

import itertools

import numpy as np
import pytest
import trained

import linsolve as ls
from linsolve.systems.whitened.starts import init

TIMES = np.array([0.0, 0.4, 1.5, 4.0])


def close(found, right, tolerance):
    assert found.shape == right.shape
    assert np.abs(found - right).max() <= tolerance * max(1.0, np.abs(right).max())


def kernel(layers, biases, X, rates):
    """Return the tangent kernel at one time from the Jacobian of the outputs, by its definition."""
    size, n_out = len(X), len(layers[-1])
    found, before = np.zeros((size * n_out,) * 2), X.T
    for i, (layer, bias, eta) in enumerate(zip(layers, biases, rates, strict=True)):
        after = trained.product(layers[i + 1 :]) if i + 1 < len(layers) else np.eye(n_out)
        jacobian = [np.einsum("ia,bp->piab", after, before).reshape(size * n_out, layer.size)]
        if bias is not None:
            jacobian.append(np.tile(after, (size, 1)))
        found += eta * sum(j @ j.T for j in jacobian)
        before = layer @ before + (0.0 if bias is None else bias[:, None])
    return found


def assert_right(weights, biases, data, route, tolerance, rates=None):
    """Compare every observable with an integration of the raw weights, and return the trajectory."""
    (X, Y), count = data, len(weights)
    rates = np.linspace(0.5, 1.5, count) if rates is None else rates
    traj = ls.solve(weights, data, TIMES, rates, bias=biases)
    assert traj.route.startswith(route)
    right = [np.stack(each) for each in zip(*trained.train(weights, X, Y, rates, TIMES, biases), strict=True)]
    names = [f"w{i + 1}" for i in range(count)] + [f"b{i}" for i, b in enumerate(biases, 1) if b is not None]
    assert traj.keys() == [*names, "map", "offset", "singular_values", "loss", "train_loss", "ntk"]
    for name, each in zip(names, right, strict=True):
        close(traj[name], each, tolerance)
    for i in range(len(TIMES)):
        layers, rest = [w[i] for w in right[:count]], iter(right[count:])
        now = [None if b is None else next(rest)[i] for b in biases]
        outputs = X.T
        for w, b in zip(layers, now, strict=True):
            outputs = w @ outputs + (0.0 if b is None else b[:, None])
        close(traj["map"][i], trained.product(layers), tolerance)
        close(X @ traj["map"][i].T + traj["offset"][i], outputs.T, tolerance)
        close(traj["singular_values"][i], np.linalg.svd(trained.product(layers))[1], tolerance)
        close(traj["loss"][i], np.asarray(np.sum((Y.T - outputs) ** 2) / (2 * len(X))), tolerance)
        close(traj["ntk"][i], kernel(layers, now, X, rates), 10 * tolerance)
    assert np.array_equal(traj["train_loss"], traj["loss"])
    return traj


def network(gen, sizes, has):
    weights = [gen.normal(size=(b, a)) / np.sqrt(a) for a, b in itertools.pairwise(sizes)]
    return weights, [gen.normal(size=n) if each else None for n, each in zip(sizes[1:], has, strict=True)]


def samples(gen, n_in, n_out, count=12):
    X = gen.normal(size=(count, n_in)) + 0.7
    return X, X @ gen.normal(size=(n_in, n_out)) + gen.normal(size=(count, n_out)) - 1.5


def centered_white(gen, n_in, n_out, count=12):
    X = np.sqrt(count) * trained.orthonormal(gen, count, count)
    X = np.linalg.qr(X[:, :n_in] - X[:, :n_in].mean(axis=0))[0] * np.sqrt(count)
    return X, X @ gen.normal(size=(n_in, n_out)) + 0.3 * gen.normal(size=(count, n_out)) + 2.0


@pytest.mark.parametrize("has", ["111", "101", "011", "001", "010"])
@pytest.mark.parametrize("count", [12, 3], ids=["", "fewer samples than inputs"])
@pytest.mark.quick(2)
def test_biases_of_generic_networks_are_integrated(has, count):
    gen = np.random.default_rng(int(has, 2) + count)
    weights, biases = network(gen, (4, 5, 3, 2), [each == "1" for each in has])
    traj = assert_right(weights, biases, samples(gen, 4, 2, count), "DOP853: biases need ", 1e-8)
    assert any(note.startswith("biases: a closed form is known") for note in traj.notes)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_bias_of_the_first_layer_is_a_weight_of_the_input_1(depth):
    gen = np.random.default_rng(depth)
    weights, biases = network(gen, (3, *[4] * (depth - 1), 2), [True] + [False] * (depth - 1))
    route = "closed form: DeepMode" if depth == 1 else "DOP853: "
    assert_right(weights, biases, samples(gen, 3, 2), route, 1e-8)


def test_white_inputs_and_a_first_bias_are_whitened_two_layer():
    gen = np.random.default_rng(5)
    X, Y = centered_white(gen, 3, 2)  # with the input 1 of power 1: white
    first, second = init(4, 3, 2, scale=0.5, rng=gen)
    weights, biases = [first[:, :3], second], [first[:, 3], None]
    assert_right(weights, biases, (X, Y), "closed form: WhitenedTwoLayer", 1e-8, (1.0, 1.0))
    late = ls.solve(weights, (X, Y), np.inf, bias=biases)
    best = np.linalg.lstsq(np.c_[X, np.ones(12)], Y, rcond=None)[0]
    close(late["map"], best[:3].T, 1e-9)
    close(late["offset"], best[3], 1e-9)


def test_a_last_bias_on_centered_inputs_relaxes_to_the_mean_of_the_targets():
    gen = np.random.default_rng(6)
    X, Y = centered_white(gen, 3, 2)
    weights, rates = list(init(3, 3, 2, scale=0.5, rng=gen)), (1.0, 1.0)
    biases = [None, gen.normal(size=2)]
    assert_right(weights, biases, (X, Y), "closed form: WhitenedTwoLayer", 1e-8, rates)
    traj = ls.solve(weights, (X, Y), [0.0, np.inf], rates, bias=biases)
    close(traj["offset"], np.stack([biases[1], Y.mean(axis=0)]), 1e-12)
    # generic weights are integrated, with their bias
    assert_right([2 * weights[0], weights[1]], biases, (X * [1.0, 2.0, 0.5], Y), "DOP853: ", 1e-8, rates)


def test_zero_hidden_biases_stay_zero_if_the_mean_is_learned():
    gen = np.random.default_rng(7)
    X, Y = centered_white(gen, 3, 2)
    weights = list(init(3, 3, 2, scale=0.5, rng=gen))
    mean, rates = Y.mean(axis=0), (1.0, 1.0)
    traj = assert_right(weights, [np.zeros(3), mean], (X, Y), "closed form: WhitenedTwoLayer", 1e-8, rates)
    assert not traj["b1"].any()
    off = [np.full(3, 1e-3), mean]
    assert_right(weights, off, (X, Y), "DOP853: biases need zero hidden biases", 1e-8, rates)
    off = [np.zeros(3), mean + 1e-3]
    assert_right(weights, off, (X, Y), "DOP853: biases need learned mean of the targets", 1e-8, rates)


def test_hidden_biases_without_a_last_one_need_centered_targets():
    gen = np.random.default_rng(7)
    frame = trained.orthonormal(gen, 3, 3)
    X, Y = centered_white(gen, 3, 3)
    Y = X @ (frame * [2.0, 1.5, 1.0]) @ frame.T
    weights, biases = [(frame * [0.5, 0.6, 0.7]) @ frame.T] * 3, [None, np.zeros(3), None]
    assert_right(weights, biases, (X, Y), "closed form: DeepMode", 1e-8, (1.0, 1.0, 1.0))
    assert_right(weights, biases, (X, Y + 0.1), "DOP853: biases need learned mean of", 1e-8, (1.0, 1.0, 1.0))


def test_zero_biases_on_data_that_are_not_centered_are_trained():
    gen = np.random.default_rng(8)
    weights, _ = network(gen, (3, 4, 2), (False, False))
    data = samples(gen, 3, 2)
    traj = ls.solve(weights, data, [0.0, 1.0], bias=0.0)
    assert traj.route.startswith("DOP853: biases need ")
    assert np.abs(traj["b2"][1]).max() > 0.1
    with pytest.raises(ValueError, match=r"solve: t = inf must be finite \(time; no closed form holds, biases need"):
        ls.solve(weights, data, np.inf, bias=0.0)


@pytest.mark.parametrize("has", ["001", "010", "101", "100", "111"])
@pytest.mark.parametrize("count", [5, 1])
@pytest.mark.quick(3)
def test_biases_learn_alone_if_all_inputs_are_0(has, count):
    gen = np.random.default_rng(3)
    weights, biases = network(gen, [3, 4, 4, 2], map(int, has))
    route = "constant: all inputs are 0" if has == "001" else "DOP853"
    assert_right(weights, biases, (np.zeros((count, 3)), gen.normal(size=(count, 2))), route, 1e-8)


def test_inputs_that_are_all_0_have_a_limit_or_are_refused():
    weights, data = [np.ones((2, 3)), np.ones((2, 2))], (np.zeros((1, 3)), np.array([[1.0, 2.0]]))
    found = ls.solve(weights, data, [0.0, np.inf], bias=[None, np.zeros(2)])
    assert np.array_equal(found["b2"], [[0.0, 0.0], [1.0, 2.0]])
    assert np.array_equal(found["w1"][1], weights[0])
    assert np.array_equal(found["loss"], [2.5, 0.0])
    for call in (lambda: ls.solve(weights, data, 1.0), lambda: ls.applies(weights, data, bias=0.1)):
        with pytest.raises(
            ValueError, match=r"X = 0 must have an entry .*; biases alone are trained by linsolve.solve"
        ):
            call()


def test_saddles_of_biases_are_noted():
    gen = np.random.default_rng(9)
    X, Y = samples(gen, 3, 2)
    traj = ls.solve([np.zeros((4, 3)), np.zeros((2, 4))], (X, Y), [0.0, 1.0], bias=[np.zeros(4), Y.mean(axis=0)])
    assert traj.notes[0].startswith("saddle: ")
    assert not any(note.startswith("saddle") for note in ls.solve([np.eye(3)], (X, X), 1.0, bias=1.0).notes)


def test_a_stationary_start_with_biases_states_that_it_is_one():
    X, Y = np.eye(2), np.array([1.0, -1.0])  # the inputs are not centered
    layers = [np.zeros((2, 2)), np.zeros((1, 2))]
    traj = ls.solve(layers, (X, Y), [0.0, np.inf], bias=[None, np.zeros(1)])
    assert traj.route == "constant: the start is a stationary point"
    assert not traj["b2"].any()
    for seed in range(5):  # a least-squares fit of these has a rounded mean
        drawn = np.random.default_rng(seed).normal(size=(2, 2)), Y
        assert ls.solve(layers, drawn, [0.0, np.inf], bias=[None, np.zeros(1)]).route == traj.route
    assert ls.solve(layers, (X, Y), 1.0, bias=[None, np.ones(1)]).route.startswith(
        "DOP853: biases need centered inputs"
    )


def test_numbers_stand_for_all_units_and_none_for_no_bias():
    gen = np.random.default_rng(10)
    weights, _ = network(gen, (3, 4, 2), (False, False))
    data = samples(gen, 3, 2)
    for short, long in ((0.3, [np.full(4, 0.3), np.full(2, 0.3)]), ([None, 1], [None, np.ones(2)])):
        found, right = (ls.solve(weights, data, TIMES, bias=each) for each in (short, long))
        assert found.keys() == right.keys()
        assert np.array_equal(found["loss"], right["loss"])
    for none in (None, [None, None]):
        assert "offset" not in ls.solve(weights, data, TIMES, bias=none)


# applies


def test_applies_judges_biases_by_the_equivalent_network():
    gen = np.random.default_rng(11)
    X, Y = centered_white(gen, 3, 2)
    weights = list(init(3, 3, 2, scale=0.5, rng=gen))
    for bias in ([None, 0.4], [0.0, Y.mean(axis=0)]):
        verdict = ls.applies(weights, (X, Y), bias=bias)
        assert verdict.exact[0] == "WhitenedTwoLayer"
        assert verdict.errors["WhitenedTwoLayer"] <= 1e-8
        assert verdict.remarks[0].startswith("biases: on centered inputs the weights move as without biases")
    first = init(4, 3, 2, scale=0.5, rng=gen)
    verdict = ls.applies([first[0][:, :3], first[1]], (X, Y), bias=[first[0][:, 3], None])
    assert "WhitenedTwoLayer" in verdict.exact
    assert verdict.widths == (3, 3, 2)


@pytest.mark.parametrize(
    ("shift", "bias", "name"),
    [
        (0.5, [None, 0.4], "centered inputs"),
        (0.0, [0.1, 0.4], "zero hidden biases"),
        (0.0, [0.0, 0.4], "learned mean of the targets"),
    ],
)
def test_applies_names_the_condition_on_biases_that_fails(shift, bias, name):
    gen = np.random.default_rng(12)
    X, Y = centered_white(gen, 3, 2)
    verdict = ls.applies(list(init(3, 3, 2, scale=0.5, rng=gen)), (X + shift, Y), bias=bias)
    assert verdict.exact == ()
    assert name in verdict.remarks[1]
    assert "NOT EXACT" in str(verdict)
    assert "biases: a closed form is known for" in str(verdict)
    assert verdict.nearest is None
    assert name in {c.name for c in verdict.assessments[1].violated}
    with pytest.raises(ls.NotExact, match=name):
        verdict.flow()
    verdict.report()
    verdict.to_json()


def test_the_condition_on_centered_inputs_is_that_of_the_network():
    """The error of the closed form on inputs that are not centered is of the size of their mean."""
    gen = np.random.default_rng(13)
    X, Y = centered_white(gen, 3, 2)
    weights, bias = list(init(3, 3, 2, scale=0.5, rng=gen)), [None, np.zeros(2)]
    errors = []
    for shift in (1e-4, 1e-5):
        moved = X + shift
        exact = ls.solve(weights, (moved, Y), TIMES, bias=bias, tolerance=1e-2)
        assert exact.route.startswith("closed form")
        right = ls.solve(weights, (moved, Y), TIMES, bias=bias)
        assert right.route.startswith("DOP853: biases need centered inputs")
        errors.append(np.abs(exact["map"] - right["map"]).max())
    assert 5 <= errors[0] / errors[1] <= 20
