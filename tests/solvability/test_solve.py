"""`solve`: closed forms and integration against an independent integration of the raw weights."""

import itertools
import pickle
import warnings

import matplotlib.pyplot as plt
import mpmath
import numpy as np
import pytest
import trained
from selection import quick
from trained import orthonormal, product

import linsolve as ls
from linsolve.core.network_arguments import read
from linsolve.core.reduced_network import fastest_rate
from linsolve.solvability import integration, problem
from linsolve.systems.whitened.starts import init


def train(*case):
    """Return each layer of the trained network at all times."""
    return [np.stack(each) for each in zip(*trained.train(*case), strict=True)]


def kernel(layers, X, rates):
    """Return the tangent kernel at one time from the Jacobian of the outputs, by its definition."""
    size, n_out = len(X), len(layers[-1])
    found = np.zeros((size * n_out,) * 2)
    for i, (layer, eta) in enumerate(zip(layers, rates, strict=True)):
        before = X.T if i == 0 else product(layers[:i]) @ X.T
        after = product(layers[i + 1 :]) if i + 1 < len(layers) else np.eye(n_out)
        jacobian = np.einsum("ia,bp->piab", after, before).reshape(size * n_out, layer.size)
        found += eta * jacobian @ jacobian.T
    return found


def close(found, right, tolerance):
    assert found.shape == right.shape
    assert np.abs(found - right).max() <= tolerance * max(1.0, np.abs(right).max())


def assert_right(case, route, tolerance, layer_tolerance=None, times=(0.0, 0.4, 1.5, 4.0)):
    """Compare every observable with an integration of the raw weights, and return the trajectory."""
    weights, X, Y, rates = case
    times = np.array(times)
    traj = ls.solve(weights, (X, Y), times, rates)
    assert traj.route.startswith(route)
    assert (traj.flow is None) == (not route.startswith("closed form"))
    right = train(weights, X, Y, rates, times)
    maps = np.stack([product([w[i] for w in right]) for i in range(len(times))])
    assert np.linalg.norm(maps[-1] - maps[0]) > 1e-2 * np.linalg.norm(maps[-1])  # something was learned
    close(traj["map"], maps, tolerance)
    close(traj["loss"], np.sum((Y - X @ np.swapaxes(maps, -1, -2)) ** 2, axis=(1, 2)) / (2 * len(X)), tolerance)
    assert np.array_equal(traj["train_loss"], traj["loss"])
    close(traj["ntk"][-1], kernel([w[-1] for w in right], X, rates), 10 * tolerance)
    for i, w in enumerate(right, start=1):
        close(traj[f"w{i}"], w, layer_tolerance or tolerance)
    return traj


def samples(gen, n_in, n_out, count=12):
    X = gen.normal(size=(count, n_in))
    return X, X @ gen.normal(size=(n_in, n_out)) + 0.3 * gen.normal(size=(count, n_out))


def white(gen, n_in, n_out, rank=None, kappa=1.0):
    X = np.sqrt(12 * kappa) * orthonormal(gen, 12, rank or n_in) @ orthonormal(gen, n_in, rank or n_in).T
    return X, X @ gen.normal(size=(n_in, n_out)) + 0.3 * gen.normal(size=(12, n_out))


def unequal(layers, rates):
    """Return weights that have these layers where learning rates are made equal."""
    mean = np.exp(np.mean(np.log(rates)))
    return [np.sqrt(eta / mean) * u for u, eta in zip(layers, rates, strict=True)]


def aligned(gen, depth, widths, powers, rates, size=0.6):
    """Return a balanced, aligned network, and data with its modes; one mode starts with the sign against its target."""
    k, count = len(powers), 12
    frames = [orthonormal(gen, n, k) for n in widths]
    flip = np.where(np.arange(k) == 1, -1.0, 1.0)
    frames[-1] = frames[-1] * flip
    d = size * (1 + gen.random(k))
    layers = [(b * d) @ a.T for a, b in itertools.pairwise(frames)]
    X = np.sqrt(count) * (orthonormal(gen, count, k) * np.sqrt(powers)) @ frames[0].T
    target = frames[-1] * flip * (1 + np.arange(k))
    return unequal(layers, rates), X, X @ frames[0] @ target.T, rates


# exact solutions


@pytest.mark.parametrize("seed", range(4))
def test_data_on_a_line_give_every_weight_of_two_layer(seed):
    gen = np.random.default_rng(seed)
    n_in, width, n_out = (int(n) for n in gen.integers(1, 8, 3))
    X = gen.normal(size=(12, 1)) * gen.normal(size=n_in)
    outputs = gen.normal(size=(n_out, 1))
    Y = gen.normal(size=(12, 1)) @ outputs.T
    weights = [gen.normal(size=(width, n_in)), outputs @ gen.normal(size=(1, width))]
    assert_right((weights, X, Y, gen.uniform(0.3, 2.0, 2)), "closed form: TwoLayer", 1e-9)


STARTS = {
    "balanced": {"scale": 0.5},
    "lambda": {"scale": 0.4, "imbalance": 0.7, "width": 2},
    "bottleneck": {"scale": 0.5, "width": 1},
}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("rates", [(1.0, 1.0), (0.4, 1.7)])
def test_white_inputs_have_closed_maps_losses_and_kernels(start, rates):
    gen = np.random.default_rng(len(start))
    options = {"width": 3} | STARTS[start]
    weights = unequal(init(4, options.pop("width"), 3, rng=gen, **options), rates)
    X, Y = white(gen, 4, 3, kappa=1.3)
    traj = assert_right((weights, X, Y, rates), "closed form: WhitenedTwoLayer", 1e-9, 1e-8)
    close(ls.solve(weights, (X, Y), np.inf, rates)["loss"], traj["loss"][-1], 0.5)
    with pytest.raises(ValueError, match=r"solve: t = inf must be finite \(time; the weights are integrated\)"):
        ls.solve(weights, (X, Y), np.inf, rates)["w1"]


def test_white_inputs_that_span_a_part_leave_the_rest_of_the_map_to_the_frozen_weights():
    gen = np.random.default_rng(5)
    X, Y = white(gen, 5, 2, rank=2)
    span = np.linalg.svd(X)[2][:2]
    first, second = init(2, 3, 2, scale=0.5, rng=gen)
    weights = [first @ span + gen.normal(size=(3, 5)) @ (np.eye(5) - span.T @ span), second]
    traj = assert_right((weights, X, Y, (1.0, 1.0)), "closed form: WhitenedTwoLayer", 1e-8)
    assert "layers" not in traj


def test_hidden_units_beyond_the_span_of_both_layers_keep_their_weights():
    gen = np.random.default_rng(6)
    frames = orthonormal(gen, 8, 4)  # two modes, each in a plane of its own
    inputs, outputs = orthonormal(gen, 2, 2), orthonormal(gen, 3, 2)
    weights = [frames[:, :2] @ np.diag([0.5, 0.8]) @ inputs.T]
    weights.append(outputs @ (0.6 * frames[:, :2] + 0.4 * frames[:, 2:]).T)
    X = np.sqrt(12) * (orthonormal(gen, 12, 2) * [1.0, 1.6]) @ inputs.T
    Y = X @ inputs @ np.diag([2.0, 1.0]) @ outputs.T
    assert_right((weights, X, Y, (0.7, 1.2)), "closed form: TwoLayer per mode", 1e-9)


@pytest.mark.parametrize(
    ("depth", "widths"), [(2, (3, 5, 4)), (3, (4, 3, 6, 3)), (4, (3, 3, 4, 5, 3)), (5, (2, 2, 2, 2, 2, 2))]
)
def test_aligned_balanced_layers_are_deep_mode(depth, widths):
    gen = np.random.default_rng(depth)
    rates = gen.uniform(0.5, 1.5, depth)
    case = aligned(gen, depth, widths, np.linspace(1.5, 0.5, min(widths)), rates)
    route = "closed form: TwoLayer per mode" if depth == 2 else "closed form: DeepMode"
    assert_right(case, route, 1e-9, times=(0.0, 0.2, 0.7, 1.5))


@pytest.mark.parametrize("n_in", [1, 4])
def test_a_single_layer_has_a_closed_form_on_any_data(n_in):
    gen = np.random.default_rng(n_in)
    X, Y = samples(gen, n_in, 2)
    case = ([gen.normal(size=(2, n_in))], X, Y, (0.7,))
    assert_right(case, "closed form: DeepMode", 1e-9)
    best = np.linalg.lstsq(X, Y, rcond=None)[0].T
    close(ls.solve(case[0], (X, Y), np.inf)["w1"], best, 1e-12)


# integration


@pytest.mark.parametrize("seed", quick(range(12), 4))
@pytest.mark.quick(2)
def test_generic_networks_are_integrated(seed):
    gen = np.random.default_rng(100 + seed)
    depth = 2 + seed % 3
    sizes = gen.integers(1, 9, depth + 1)
    sizes[[0, -1]] = gen.integers(2, 6, 2)
    sizes[1:-1] = np.maximum(sizes[1:-1], 2)
    weights = [gen.normal(size=(b, a)) / np.sqrt(a) for a, b in itertools.pairwise(sizes)]
    X, Y = samples(gen, sizes[0], sizes[-1], count=3 if seed % 4 == 0 else 12)
    traj = assert_right((weights, X, Y, gen.uniform(0.3, 2.0, depth)), "DOP853: ", 1e-8)
    assert "needs" in traj.route
    assert "relative distance" in traj.route


def moved(size, depth=3):
    """Return an aligned network whose weights are moved by this size."""
    gen = np.random.default_rng(2)
    rates = (1.0, 0.6, 1.2)[:depth]
    weights, X, Y, rates = aligned(gen, depth, (3, 4, 4, 3)[: depth + 1], np.array([1.0, 0.8, 0.5]), rates)
    return [w + size * gen.normal(size=w.shape) for w in weights], X, Y, rates


@pytest.mark.parametrize(
    ("size", "route", "tolerance"),
    [
        (1e-15, "closed form: DeepMode", 1e-10),
        (1e-12, "DOP853: DeepMode, error up to", 1e-8),
        (1e-7, "DOP853: DeepMode needs", 1e-8),
    ],
)
def test_nearly_exact_networks_are_right_on_either_side_of_the_tolerance(size, route, tolerance):
    assert_right(moved(size), route, tolerance)


def test_a_nearly_exact_network_has_a_closed_form_if_its_error_is_within_rtol_or_accepted():
    weights, X, Y, rates = moved(1e-12, 3)
    times = np.array([0.0, 0.2, 0.4])
    right = train(weights, X, Y, rates, times)
    for options in ({"rtol": 1e-5}, {"tolerance": 1e-9}):
        traj = ls.solve(weights, (X, Y), times, rates, **options)
        assert traj.route.startswith("closed form: DeepMode, error up to ")
        error = float(traj.route.split("up to ")[1].split()[0])
        off = max(np.abs(traj[f"w{i}"] - w).max() for i, w in enumerate(right, start=1))
        assert 1e-14 < off <= error <= 1e-5
    with pytest.raises(ValueError, match=r"solve: t = inf must be finite .*tolerance=1e-09 accepts it"):
        ls.solve(weights, (X, Y), np.inf, rates)
    assert ls.solve(weights, (X, Y), np.inf, rates, tolerance=1e-9).route.startswith("closed form: DeepMode, error wi")


@pytest.mark.parametrize("make", ["white", "line", "left out"])
def test_the_error_of_a_nearly_exact_closed_form_is_bounded(make):
    gen = np.random.default_rng(11)
    weights, (X, Y), size = init(4, 3, 3, scale=0.5, rng=gen), white(gen, 4, 3), 1e-8
    if make == "line":
        weights = [gen.normal(size=(3, 4)), gen.normal(size=(1, 3))]
        X, Y = X[:, :1] * [1.0, -1.0, 0.5, 0.2], Y[:, :1]
    elif make == "left out":  # one direction of the inputs is below the tolerance
        (first, last), (X, Y) = init(3, 3, 3, scale=0.5, rng=gen), white(gen, 3, 3)
        weights, X = [np.pad(first, ((0, 0), (0, 1))), last], np.pad(X, ((0, 0), (0, 1)))
    X = X + size * gen.normal(size=X.shape)
    times = np.array([0.0, 0.5, 2.0])
    traj = ls.solve(weights, (X, Y), times, tolerance=1e-4)
    right = train(weights, X, Y, (1.0, 1.0), times)
    off = max(np.abs(traj[f"w{i}"] - w).max() for i, w in enumerate(right, start=1)) if make != "white" else 0.0
    off = max(off, np.abs(traj["map"] - np.stack([product([w[i] for w in right]) for i in range(3)])).max())
    assert traj.route.startswith("closed form: ")
    assert 1e-10 < off <= float(traj.route.split("up to ")[1].split()[0]) * 3


def test_the_route_names_the_condition_that_fails():
    gen = np.random.default_rng(3)
    weights = init(4, 3, 3, scale=0.5, rng=gen)
    X, Y = white(gen, 4, 3)
    traj = ls.solve(weights, (X * [1.0, 1.0, 1.0, 1.01], Y), 1.0)
    assert traj.route.startswith("DOP853: WhitenedTwoLayer needs white inputs, relative distance 0.00")
    assert any("no closed form is known" in note for note in traj.notes)


@pytest.mark.parametrize("seed", range(8))
def test_the_route_names_the_nearest_case_of_applies_and_all_its_conditions_that_fail(seed):
    gen = np.random.default_rng(seed)
    weights, (X, Y) = [gen.normal(size=(3, 4)), gen.normal(size=(2, 3))], samples(gen, 4, 2)
    if seed % 2:  # modes of the start near those of the data
        u, _, vt = np.linalg.svd(np.linalg.lstsq(X, Y)[0].T)
        near = [0.3 * np.eye(3, 4) @ vt + 0.01 * weights[0], 0.3 * u @ np.eye(2, 3) + 0.01 * weights[1]]
        weights, X = near, X * [2.0, 1.0, 1.0, 1.0]
    base = {"base": np.ones((2, 4)), "scale": 2.0} if seed % 4 == 2 else {}
    verdict = ls.applies(weights, (X, Y), **base)
    near = next(each for each in verdict.assessments if each.name == verdict.nearest.name)
    traj = pickle.loads(pickle.dumps(ls.solve(weights, (X, Y), 1.0, **base)))
    needs = sorted(near.violated, key=lambda each: -each.distance)
    stated = "; ".join(f"{each.name}, {each.distance:.2g}" for each in needs).replace(", ", ", relative distance ", 1)
    assert traj.route == f"DOP853: {near.name} needs {stated}"


@pytest.mark.parametrize("weights", [[np.zeros((2, 3)), np.zeros((3, 2))], [np.ones((2, 3))] + [np.zeros((2, 2))] * 2])
def test_a_stationary_start_is_solved_as_it_stays(weights):
    X, Y = samples(np.random.default_rng(0), 3, len(weights[-1]))
    if len(weights) == 3:
        weights = [weights[0], weights[1], np.zeros((len(Y.T), 2))]
    traj, verdict = ls.solve(weights, (X, Y), [0.0, 3.0, np.inf], [1.0] * len(weights)), ls.applies(weights, (X, Y))
    assert traj.route == "closed form: stationary point"
    assert traj.notes[0].startswith("saddle: ")
    for i, w in enumerate(weights, start=1):
        assert (traj[f"w{i}"] == w).all()
    assert verdict.exact == ("stationary point",)
    assert verdict.errors == {"stationary point": 0.0}
    assert verdict.remarks[0] == traj.notes[0]
    flow, z0 = verdict.flow()
    assert (verdict.match().map(flow([0.0, np.inf], z0)) == product(weights)).all()
    moved = [weights[0] + 1e-3, *weights[1:-1], weights[-1] + 1e-3]
    assert "stationary point" not in [each.name for each in ls.applies(moved, (X, Y)).assessments]


def test_a_stiff_network_is_integrated_implicitly(monkeypatch):
    monkeypatch.setattr(problem, "EVALUATIONS", 200)
    gen = np.random.default_rng(4)
    X, Y = samples(gen, 2, 2)
    weights = [gen.normal(size=(3, 2)), gen.normal(size=(2, 3))]
    times = np.array([0.0, 1.0, 3.0])
    traj = ls.solve(weights, (X * [4.0, 1.0], Y), times, rtol=1e-9)
    assert traj.route.startswith("Radau: ")
    for i, w in enumerate(train(weights, X * [4.0, 1.0], Y, (1.0, 1.0), times), start=1):
        close(traj[f"w{i}"], w, 1e-7)
    monkeypatch.setattr(problem, "SMALL", 1)
    with pytest.raises(ArithmeticError, match=r"solve: t = 3 is too late \(time\): the network is stiff"):
        ls.solve(weights, (X * [4.0, 1.0], Y), times)


# times, types, data


def test_times_have_any_order_and_shape():
    gen = np.random.default_rng(7)
    X, Y = samples(gen, 3, 2)
    for sizes, start in (((3, 2), "closed form"), ((3, 4, 2), "DOP853")):
        weights = [gen.normal(size=(b, a)) for a, b in itertools.pairwise(sizes)]
        times = np.array([[2.0, 0.0, 0.5], [0.5, 3.0, 1.0]])
        traj = ls.solve(weights, (X, Y), times)
        assert traj.route.startswith(start)
        assert traj["loss"].shape == traj.t.shape == (2, 3)
        for index in np.ndindex(2, 3):
            close(traj["w1"][index], ls.solve(weights, (X, Y), times[index])["w1"], 1e-8)
        assert traj["ntk"].shape == (2, 3, 24, 24)


def test_single_precision_is_integrated_in_double_unless_its_rounding_is_accepted():
    gen = np.random.default_rng(8)
    weights, (X, Y) = init(4, 3, 3, scale=0.5, rng=gen), white(gen, 4, 3)
    rounded = [np.float32(w) for w in weights], (np.float32(X), np.float32(Y))
    traj, loose = ls.solve(*rounded, [0.0, 1.0]), ls.solve(*rounded, [0.0, 1.0], tolerance=2e-6)
    assert traj.route.startswith("DOP853: WhitenedTwoLayer, error up to ")
    assert traj.route.endswith("tolerance=1.9e-06 accepts it")
    assert loose.route.startswith("closed form: WhitenedTwoLayer, error up to ")
    right = train([np.float64(w) for w in rounded[0]], *map(np.float64, rounded[1]), (1.0, 1.0), np.array([0.0, 1.0]))
    close(traj["map"], product(right), 1e-9)
    close(loose["map"], product(right), 1e-6)
    assert traj["w1"].dtype == np.float64
    generic = [np.float32(gen.normal(size=(3, 4))), np.float32(gen.normal(size=(3, 3)))]
    double = [np.float64(w) for w in generic]
    pair = np.float32(X + 0.1 * gen.normal(size=X.shape)), np.float32(Y)
    right = train(double, np.float64(pair[0]), np.float64(pair[1]), (1.0, 1.0), np.array([0.0, 1.0]))
    traj = ls.solve(generic, pair, [0.0, 1.0])
    assert traj.route.startswith("DOP853: ")
    close(traj["w2"], right[1], 1e-8)


def test_weak_directions_below_a_large_tolerance_are_integrated_too():
    gen = np.random.default_rng(9)
    X, Y = samples(gen, 3, 2)
    X = X * [1.0, 1.0, 0.02]
    weights, times = [gen.normal(size=(3, 3)), gen.normal(size=(2, 3))], np.array([0.0, 2.0])
    traj = ls.solve(weights, (X, Y), times, tolerance=0.05)
    assert traj.route.startswith("DOP853: ")
    close(traj["w1"], train(weights, X, Y, (1.0, 1.0), times)[0], 1e-8)


@pytest.mark.parametrize("depth", [1, 3])
def test_second_moments_give_the_same_weights_and_the_loss_above_its_minimum(depth):
    gen = np.random.default_rng(10 + depth)
    X, Y = samples(gen, 3, 3)
    weights, times = [gen.normal(size=(3, 3)) for _ in range(depth)], [0.0, 1.0]
    traj = ls.solve(weights, (X.T @ X / 12, Y.T @ X / 12), times, covariances=True)
    other = ls.solve(weights, (X, Y), times)
    close(traj[f"w{depth}"], other[f"w{depth}"], 1e-8)
    residual = Y - X @ np.linalg.lstsq(X, Y, rcond=None)[0]
    close(traj["loss"] + np.sum(residual**2) / 24, other["loss"], 1e-9)
    assert "ntk" not in traj
    assert "train_loss" not in traj
    with pytest.raises(KeyError, match="second moments have no samples"):
        traj["ntk"]


def test_saddles_are_noted_without_a_warning(recwarn):
    gen = np.random.default_rng(12)
    X, Y = samples(gen, 3, 2)
    for weights in ([np.zeros((4, 3)), np.zeros((2, 4))], [np.eye(3), np.zeros((3, 3)), np.zeros((2, 3))]):
        traj = ls.solve(weights, (X, Y), [0.0, 1.0])
        assert traj.notes[0].startswith("saddle: ")
        assert "rounding decides" in traj.notes[0]
        close(traj["map"], np.zeros((2, 2, 3)), 1e-15)
        assert np.array_equal(ls.solve(weights, (X, Y), np.inf)["w1"], weights[0])  # every gradient is exactly 0
    assert not ls.solve([np.ones((4, 3)), np.ones((2, 4))], (X, Y), 1.0).notes[0].startswith("saddle")
    assert not recwarn.list


def test_the_trajectory_is_drawn_and_lists_its_names():
    traj = ls.solve([np.eye(2), np.eye(2), np.ones(2)], (np.eye(2), [1.0, 2.0]), np.linspace(0.0, 1.0, 5))
    assert traj.keys() == list(traj) == ["w1", "w2", "w3", "map", "singular_values", "loss", "train_loss", "ntk"]
    assert "loss" in traj
    assert "w4" not in traj
    assert traj["w3"].shape == (5, 1, 2)
    assert len(ls.plot.trajectory(traj, "loss").lines) == 1
    plt.close("all")
    assert repr(traj).startswith("NetworkTrajectory(t: shape (5,), route: DOP853: DeepMode needs ")
    with pytest.raises(KeyError, match=r"solve: observable = 'w4' is unknown; did you mean 'w3'\?"):
        traj["w4"]


# refusals

SQUARE = [np.eye(2), np.array([[1.0, 2.0], [3.0, 5.0]])]
PAIR = np.array([[1.0, 0.3], [0.2, 2.0]]), np.eye(2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bias": [0.0, 0.3, 0.0]}, r"solve: bias = \[0.0, 0.3, 0.0\] must have 2 entries \(one a layer"),
        ({"bias": [np.zeros(2), np.zeros(3)]}, r"solve: bias\[1\] has shape \(3,\) but must be \(2,\)"),
        ({"bias": [np.zeros(2), np.array([0.0, np.nan])]}, r"solve: bias\[1\] = nan at index \(1,\) is not a number"),
        ({"bias": 1e31}, r"solve: bias reaches 1e\+31 but must not exceed"),
        ({"bias": "none"}, r"solve: bias = .* real numbers"),
        ({"bias": {1: 0.0}}, r"solve: bias = .* real numbers"),
        ({"bias": 0.0, "covariances": True}, r"solve: bias needs the means of the data, .*; pass samples"),
        (
            {"activation": "relu"},
            r"solve: activation = 'relu' needs mirrored units, relative distance 1; also",
        ),
        ({"activation": np.tanh}, r"solve: activation = .* must be None, 'linear', 'relu' or"),
        ({"t": -1.0}, r"solve: t = -1.0 must lie in \[0, inf\]"),
        ({"t": np.nan}, r"solve: t = nan is not a number"),
        ({"t": [1.0, np.inf]}, r"solve: t = inf must be finite \(time; no closed form holds, "),
        ({"rtol": 0.0}, r"solve: rtol = 0.0 must be a number in"),
        ({"rates": [1.0, -1.0]}, r"solve: rates = -1.0 at index \(1,\) must lie in"),
        ({"tolerance": 0.5}, r"solve: tolerance = 0.5 must be a number in"),
        ({"data": (PAIR[0], np.eye(3))}, r"solve: Y has 3 columns \(outputs\) but the weights have 2"),
        ({"data": PAIR[0]}, r"solve: data must be the pair \(X, Y\)"),
        ({"weights": [np.eye(2), np.eye(3)]}, r"solve: W2 has shape \(3, 3\) but must have 2 columns"),
        ({"weights": [np.eye(2), np.full((2, 2), np.nan)]}, r"solve: W2 = nan at index \(0, 0\) is not a number"),
        ({"weights": []}, r"solve: weights = \[\] must be a list"),
        ({"weights": np.array(1.0)}, r"solve: weights = 1\.0 must be a list"),
        ({"weights": np.zeros((0, 2, 2))}, r"solve: weights = array.* must be a list"),
    ],
)
def test_bad_input_is_refused_by_name(change, message):
    given = {"weights": SQUARE, "data": PAIR, "t": 1.0} | change
    with pytest.raises((ValueError, TypeError), match=message):
        ls.solve(**given)


def test_a_kernel_beyond_the_memory_is_refused_with_its_size():
    gen = np.random.default_rng(13)
    X = gen.normal(size=(300_000, 1))
    traj = ls.solve([[[0.5]], [[0.4]]], (X, X[:, 0]), np.linspace(0, 1, 20))
    assert traj["loss"].shape == (20,)
    with pytest.raises(ValueError, match=r"solve: .* makes arrays of 1.4e\+13 bytes \(ntk on the samples\)"):
        traj["ntk"]


@pytest.mark.parametrize("activation", [None, "linear"])
def test_a_linear_activation_is_accepted(activation):
    close(ls.solve(SQUARE, PAIR, 0.0, activation=activation)["w2"], SQUARE[1], 0.0)


@pytest.mark.exhaustive
def test_a_time_too_late_for_integration_is_answered_at_rest_and_else_refused_at_once():
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(9, 3)), [rng.normal(size=(4, 3)), rng.normal(size=(2, 4))]
    data, rates = (X, X[:, :2]), [1.0, 0.5]
    traj = ls.solve(weights, data, [0.0, 1e4, 1e200], rates)
    assert traj.route.startswith("Radau")
    np.testing.assert_allclose(traj["map"][2], np.eye(2, 3), atol=1e-10)
    for name in ("w1", "w2"):
        close(traj[name][2], traj[name][1], 1e-9)  # at rest since 1e4
    narrow = [weights[0][:1], weights[1][:, :1]]
    with pytest.raises(ValueError, match=r"solve: t = 1e\+200 is .* must be at most 1e\+14 \(time"):
        ls.solve(narrow, data, [0.0, 1e200], rates)


def test_a_network_that_still_moves_is_not_at_rest():
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(9, 3)), [rng.normal(size=(4, 3)), rng.normal(size=(2, 4))]
    network = read("solve", weights, (X, X[:, :2]), None, False)
    w1, w2 = train(weights, X, X[:, :2], np.ones(2), [0.0, 4.0, 40.0])
    later = list(zip(w1, w2, strict=True))
    posed = problem.Problem(network, np.zeros(1), 1e-10, None)
    left = [posed.remaining([w[0] @ network.span, w[1]]) for w in later]
    gone = max(np.linalg.norm(a - b) / np.linalg.norm(a) for a, b in zip(later[1], later[2], strict=True))
    assert left[1] == pytest.approx(gone, rel=0.1)  # the rest of the way of a layer, to first order
    assert left[2] < 1e-3 * left[1] < left[0]


def nearly_collinear(digits):
    """Return a deep network on inputs with a direction of relative size 10^-digits."""
    gen = np.random.default_rng(0)
    X = gen.normal(size=(50, 5))
    X[:, 4] = X[:, 0] + X[:, 1]
    Y = gen.normal(size=(50, 3))
    return [gen.normal(size=shape) / 2 for shape in ((6, 5), (6, 6), (3, 6))], X.round(digits), Y, np.ones(3)


@pytest.mark.parametrize("digits", [6, 9, 12, 14])
@pytest.mark.quick(1)
def test_nearly_collinear_inputs_limit_neither_time_nor_the_accuracy_of_the_loss(digits):
    case = nearly_collinear(digits)
    found = ls.solve(case[0], case[1:3], [0.0, 10.0])
    assert found.route.startswith("DOP853")
    direct = np.sum((case[2] - case[1] @ np.swapaxes(found["map"], 1, 2)) ** 2, axis=(1, 2)) / 100
    np.testing.assert_allclose(found["loss"], direct, rtol=1e-13)
    close(found["map"][1], product([w[1] for w in train(*case, [0.0, 10.0])]), 1e-9)


@pytest.mark.parametrize("rate", [lambda t: 0.00089, lambda t: 7.0 if t < 3.3e7 else 1e12, lambda t: t])
def test_the_time_that_a_refusal_names_is_accepted(rate):
    with pytest.raises(ValueError, match="time constant") as refused:
        integration.refuse_endless("solve", "t", 1e20, rate, 1e14)
    latest = float(str(refused.value).rsplit("say ", 1)[1])
    integration.refuse_endless("solve", "t", latest, rate, 1e14)
    with pytest.raises(ValueError, match="time constant"):
        integration.refuse_endless("solve", "t", 1.2 * latest, rate, 1e14)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"bias": 1e20}, r"solve: t = 0.5 is too late \(time\)", marks=pytest.mark.exhaustive),
        ({"X": 1e99}, r"solve: t = 0.5 is [\d.e+]+ times the time constant"),
    ],
    ids=["bias", "inputs"],
)
def test_large_data_are_refused_by_name_without_a_warning(given, message):
    rng = np.random.default_rng(0)
    X, layers = rng.normal(size=(9, 3)), [rng.normal(size=shape) / 2 for shape in ((4, 3), (2, 4))]
    Y = X @ rng.normal(size=(3, 2))
    with pytest.raises((ValueError, ArithmeticError), match=message):
        ls.solve(layers, (X * given.get("X", 1.0), Y * given.get("Y", 1.0)), [0.0, 0.5], bias=given.get("bias"))


@pytest.mark.parametrize("small", [1e-155, 1e-160, 5e-324])
@pytest.mark.parametrize("layer", [0, 1])
def test_small_layers_are_solved_without_a_warning(layer, small):
    """A layer whose Gram matrix leaves the doubles; the other starts the learning."""
    rng = np.random.default_rng(0)
    X, layers = rng.normal(size=(9, 3)), [rng.normal(size=shape) / 2 for shape in ((4, 3), (2, 4))]
    zero = [0.0 * w if k == layer else w for k, w in enumerate(layers)]
    data = (X, X @ rng.normal(size=(3, 2)))
    layers[layer] = small * layers[layer] / np.abs(layers[layer]).max()
    found, expected = (ls.solve(each, data, [0.0, 0.5]) for each in (layers, zero))
    np.testing.assert_allclose(found["map"][1], expected["map"][1], rtol=1e-6)


@pytest.mark.parametrize("size", [1e3, 1e9, 1e12])
@pytest.mark.parametrize("bias", [None, [None, 0.0]])
def test_layers_of_very_different_size_are_integrated_to_full_accuracy(size, bias):
    X = np.random.default_rng(7).normal(size=(30, 3))
    Y = X[:, :2] - X[:, 1:]
    first, times = size * np.eye(3), np.array([0.1, 1.0, 20.0]) / size**2
    traj = ls.solve([first, np.zeros((2, 3))], (X, Y), times, bias=bias)
    # the first layer keeps its value to 1/size^2, and so do biases; the second learns the map at the rate size^2
    values, vectors = np.linalg.eigh(X.T @ X / len(X))
    learned = -np.expm1(-values * size**2 * times[:, None])
    right = (Y.T @ X / len(X)) @ (vectors * (learned / values)[:, None, :]) @ vectors.T
    assert np.abs(traj["map"] - right).max() <= 1e-9 + 10 / size**2
    assert traj.flow is None


@pytest.mark.parametrize("scales", [(1e8, 1e-8), (1e9, 1e-5, 1e-4)])
def test_layers_scaled_together_with_their_rates_make_the_same_maps(scales):
    """(c W_l) at the rate c^2 eta is the same network if the product of the scales is 1."""
    gen, depth = np.random.default_rng(len(scales)), len(scales)
    X, Y, times = gen.normal(size=(20, 3)), gen.normal(size=(20, 2)), np.array([0.0, 0.3, 2.0, 8.0])
    weights = [gen.normal(size=shape) for shape in ((4, 3), (4, 4), (2, 4))[:: 3 - depth + 1][:depth]]
    found = ls.solve([c * w for c, w in zip(scales, weights, strict=True)], (X, Y), times, np.square(scales))
    right = ls.solve(weights, (X, Y), times)
    assert found.route.split(":")[0] == right.route.split(":")[0] == "DOP853"
    close(found["map"], right["map"], 1e-9)


def rotation(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def test_two_small_layers_beside_a_large_one_keep_their_digits():
    """Against Taylor series in 40 digits."""
    weights, data = [[[1e-9]], [[2e-9]], [[1e3]]], ([[1.0]], [[3.0]])
    found = ls.solve(weights, data, [0.0, 1e-3, 3e-3, 5e-3])["map"].ravel()
    with mpmath.workdps(40):
        path = mpmath.odefun(
            lambda _, w: [(3 - w[0] * w[1] * w[2]) * w[1] * w[2], (3 - w[0] * w[1] * w[2]) * w[0] * w[2],
                          (3 - w[0] * w[1] * w[2]) * w[0] * w[1]],
            0, [mpmath.mpf(10) ** -9, 2 * mpmath.mpf(10) ** -9, mpmath.mpf(1000)], tol=mpmath.mpf(10) ** -20,
        )  # fmt: skip
        truth = [float(mpmath.fprod(path(mpmath.mpf(t) / 1000))) for t in (0, 1, 3, 5)]
    np.testing.assert_allclose(found, truth, rtol=1e-9)


@pytest.mark.parametrize(("sizes", "end", "loss"), [((-20, 0, -20), 90.0, 0.16), ((-30, 0, -30), 150.0, 0.16)])
def test_escapes_from_a_saddle_with_two_tiny_layers(sizes, end, loss):
    rng = np.random.default_rng(7)
    weights = [10.0**e * rng.normal(size=(2, 2)) / 1.5 for e in sizes]
    target = np.diag([1, 0.8]) @ rotation(0.4)
    assert ls.solve(weights, (np.eye(2), target), [end])["loss"] == pytest.approx(loss, rel=1e-7)


def test_starts_of_any_size_are_followed_to_the_end():
    rng = np.random.default_rng(7)
    weights = [1e-40 * rng.normal(size=(2, 2)) / 1.5 for _ in "ab"]
    target = np.diag([1, 0.8]) @ rotation(0.4)
    assert ls.solve(weights, (np.eye(2), target), [400.0])["loss"] <= 1e-15


@pytest.mark.exhaustive
def test_large_targets_are_learned_at_once():
    rng = np.random.default_rng(0)
    X, layers = rng.normal(size=(9, 3)), [rng.normal(size=shape) / 2 for shape in ((4, 3), (2, 4))]
    Y = 1e30 * X @ rng.normal(size=(3, 2))
    first, last = ls.solve(layers, (X, Y), [0.0, 0.5])["loss"]
    assert last <= 1e-16 * first


def test_the_time_constant_is_that_of_layers_of_different_size():
    """One rate of 3e6, from layers of 1e-3, 2e-3 and 1e6; the largest layer alone would give 1e24."""
    found = ls.solve([[[1e-3]], [[2e-3]], [[1e6]]], ([[1.0]], [[3.0]]), [0.0, 1e-7, 5e-7])["map"].ravel()
    assert found[0] < found[1] < found[2] < 3.0
    first, middle, last = 1e-3 * rotation(0.3), rotation(1.0), 1e8 * rotation(0.5)
    weights = [first @ np.diag([1, 0.7]), middle @ np.diag([1, 0.6]), last @ np.diag([1, 0.8])]
    early, late = (ls.solve(weights, (np.eye(2), np.eye(2)), t)["loss"] for t in (3e-16, 3e-15))
    assert late < 1e-3 * early


def test_a_time_has_one_answer_whatever_the_other_times_are():
    rng = np.random.default_rng(209)
    shapes = ((2, 1), (2, 2), (2, 2))
    weights, X = [rng.normal(size=shape) for shape in shapes], rng.normal(size=(8, 1))
    data, t = (X, rng.normal(size=(8, 2))), np.linspace(0.0, 5.0, 41)
    found = ls.solve(weights, data, t)["map"]
    for k in (7, 19, 33):
        alone = ls.solve(weights, data, t[k])["map"]
        assert np.abs(found[k] - alone).max() <= 1e-8 * np.abs(alone).max()


def test_a_trajectory_can_be_pickled_and_does_not_follow_changes_of_the_arguments():
    rng = np.random.default_rng(0)
    weights, X, t = [rng.normal(size=(3, 2)), rng.normal(size=(2, 3))], rng.normal(size=(9, 2)), np.array([0.0, 1.0])
    data = X, X @ rng.normal(size=(2, 2))
    first = ls.solve(weights, data, t)
    kept = {name: first[name].copy() for name in first}
    changed = ls.solve(weights, data, t)
    again = pickle.loads(pickle.dumps(ls.solve(weights, data, t)))
    for array in (*weights, *data, t):
        array *= 3.0
    for name, value in kept.items():
        np.testing.assert_array_equal(changed[name], value)
        np.testing.assert_array_equal(again[name], value)
    assert again.t.tolist() == changed.t.tolist() == [0.0, 1.0]


def test_the_fastest_rate_of_extreme_layers_leaks_no_warning():
    for sizes in ((1e200, 1e200), (1e-200, 1e-200), (0.0, 1e160)):
        rate = fastest_rate([size * np.eye(2) for size in sizes], np.eye(2), np.eye(2), 1.0)
        assert rate(1.0) >= 0  # inf beyond doubles


@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize("white", [True, False])
def test_modes_without_weights_are_never_learned(depth, white):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 6))
        moving = int(rng.integers(1, n))
        frames = [orthonormal(rng, n, n) for _ in range(depth + 1)]
        weights = [rng.uniform(0.2, 1.0, moving), np.zeros(n - moving)]
        layers = [(after * np.concatenate(weights)) @ before.T for before, after in itertools.pairwise(frames)]
        target = rng.uniform(0.5, 2.0, n)
        power = np.ones(n) if white else rng.uniform(0.5, 2.0, n)
        X = (orthonormal(rng, 60, n) * np.sqrt(60 * power)) @ frames[0].T
        data = X, X @ ((frames[-1] * target) @ frames[0].T).T
        traj = ls.solve(layers, data, [0.0, 1.0, 30.0, 1e12, np.inf], tolerance=1e-9)
        left = np.sum((power * target**2)[moving:]) / 2  # of the modes that stay
        assert "closed form" in traj.route
        np.testing.assert_allclose(traj["loss"][2:], left, rtol=1e-6)
        np.testing.assert_allclose(traj["loss"][3:], left, rtol=1e-12)
        assert np.all(np.diff(traj["loss"]) <= 1e-12)
        np.testing.assert_allclose(traj["singular_values"][-1, moving:], 0.0, atol=1e-12)


def test_tiny_weights_are_no_stationary_point():
    rng = np.random.default_rng(0)
    weights, X = [1e-200 * rng.normal(size=(3, 3)) for _ in range(3)], rng.normal(size=(10, 3))
    verdict = ls.applies(weights, (X, X @ rng.normal(size=(3, 3))))
    assert "NOT EXACT" in str(verdict).split("\n")[0]


@pytest.mark.parametrize("unit", [2.0**-264, 2.0**-272, 2.0**-330])
def test_data_of_any_unit_keep_the_directions_that_only_the_target_uses(unit):
    X = np.vstack([np.eye(2)] * 2) * np.sqrt(2)
    Y, layers, t = (
        X @ np.ones((2, 1)),
        [np.array([[0.5, 0.0], [0.0, 0.0]]), np.array([[0.5, 0.0]])],
        np.array([1.0, 5.0]),
    )
    right, found = ls.solve(layers, (X, Y), t), ls.solve(layers, (X * unit, Y * unit), t / unit**2)
    assert found.route == right.route
    np.testing.assert_allclose(found["map"], right["map"], rtol=1e-13)
    np.testing.assert_allclose(found["loss"] / unit / unit, right["loss"], rtol=1e-12)


@pytest.mark.parametrize("size", [1e-82, 1e-83, 1e-120])
def test_wide_networks_of_tiny_weights_are_judged(size):
    rng = np.random.default_rng(0)
    layers = [rng.normal(size=(30, 1)) * size, rng.normal(size=(1, 30)) * size]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        verdict = ls.applies(layers, (np.ones((5, 1)), np.ones((5, 1))))
        found = ls.solve(layers, (np.ones((5, 1)), np.ones((5, 1))), np.inf)
    assert verdict.exact[0] == "TwoLayer"
    assert found["map"] == pytest.approx(1.0, rel=1e-13)
