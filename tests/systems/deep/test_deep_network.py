"""Deep balanced networks: layers and kernels in time, and learning with a deep network."""

import re

import numpy as np
import pytest
from deep_networks import DEPTHS, chain, generic, modes_of, orthonormal
from scipy.integrate import solve_ivp
from selection import quick

import linsolve as ls
from linsolve import data
from linsolve.__main__ import main
from linsolve.arithmetic import precise
from linsolve.studies.learn.run import learn
from linsolve.systems.deep import DeepNetwork, closed_forms, deep_weights

T = np.array([0.0, 0.3, 1.0, 3.0])


def samples(network, covariance, rng, count=12):
    """Inputs of exactly this covariance, targets that they explain but for a part that they do not correlate with."""
    q = orthonormal(rng, count, 5 + 4)
    X = np.sqrt(count) * q[:, :5] @ np.linalg.cholesky(covariance).T
    return X, X @ np.asarray(network.target).T + q[:, 5:]


def mean_loss(weights, X, Y):
    return np.sum((Y - X @ chain(weights).T) ** 2) / (2 * len(X))


def jacobians(weights, x):
    """Derivatives of the outputs by each layer, shape (m, n_out, entries), by central differences."""
    found = []
    for k, w in enumerate(weights):
        own = np.empty((len(x), weights[-1].shape[0], w.size))
        for i in range(w.size):
            outputs = []
            for h in (1e-5, -1e-5):
                moved = [layer.copy() for layer in weights]
                moved[k].ravel()[i] += h
                outputs.append(x @ chain(moved).T)
            own[:, :, i] = (outputs[0] - outputs[1]) / 2e-5
        found.append(own)
    return found


# the layers in time


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.quick(1)
def test_layers_follow_the_gradient_of_the_loss_on_the_data(depth):
    network, covariance = generic(depth)
    X, Y = samples(network, covariance, np.random.default_rng(7))
    start = network.layers(0.0)
    cuts = np.cumsum([w.size for w in start])[:-1]

    def unpack(y):
        return [part.reshape(w.shape) for part, w in zip(np.split(y, cuts), start, strict=True)]

    def rate(_, y):
        weights, moves = unpack(y), []
        for k in range(depth):
            before = chain([np.eye(5), *weights[:k]])
            after = chain([np.eye(weights[k].shape[0]), *weights[k + 1 :]])
            error = Y - X @ chain(weights).T
            moves.append(network.rates[k] * after.T @ error.T @ X @ before.T / len(X))
        return np.concatenate([move.ravel() for move in moves])

    packed = np.concatenate([w.ravel() for w in start])
    found = solve_ivp(rate, (0, T[-1]), packed, "DOP853", T, rtol=1e-12, atol=1e-14)
    exact = network.layers(T)
    offset = mean_loss(start, X, Y) - float(network.loss(0.0))
    for k, y in enumerate(found.y.T):
        for there, here in zip(unpack(y), exact, strict=True):
            np.testing.assert_allclose(there, here[k], atol=1e-10)
        assert mean_loss(unpack(y), X, Y) == pytest.approx(float(network.loss(T[k])) + offset, abs=1e-10)
    # the offset is the part that no linear map explains
    assert offset == pytest.approx(mean_loss([np.linalg.lstsq(X, Y, rcond=None)[0].T], X, Y), rel=1e-12)


@pytest.mark.parametrize("depth", DEPTHS)
def test_raw_weights_descend_the_loss(depth):
    network, covariance = generic(depth)
    flow = deep_weights(network.target, depth, rates=network.rates, covariance=covariance)
    rng = np.random.default_rng(2)
    weights = [rng.normal(size=w.shape) for w in network.layers(0.0)]
    velocity = flow.velocity(np, flow.state(tuple(weights)))
    for k, w in enumerate(weights):
        direction = rng.normal(size=w.shape)
        sides = [
            float(flow.loss(np, flow.state(tuple(w + h * direction if j == k else q for j, q in enumerate(weights)))))
            for h in (1e-5, -1e-5)
        ]
        slope = (sides[0] - sides[1]) / 2e-5
        assert -np.sum(velocity[k] * direction) / network.rates[k] == pytest.approx(slope, rel=1e-7)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.quick(2)
def test_layers_solve_the_flow_to_fifty_digits(depth):
    network, _ = generic(depth)
    xp = precise(50)
    c0, s, rates = (xp.asarray(np.asarray(v)) for v in (network.start, network.s, network.rates))
    frames = [xp.asarray(np.eye(n, 3)) for n in (5, *[3 + k for k in range(depth - 1)], 4)]  # orthonormal to any digit
    flow = ls.DeepMode(s, xp.asarray(float(depth)), 1 / closed_forms.mean_rate(xp, rates))

    def layers(t):
        c = flow.solution(xp, xp.asarray(t), flow.State(c0)).a
        return closed_forms.layers(xp, c, frames, rates), closed_forms.product(xp, c, frames[-1], frames[0])

    h = xp.asarray(2.0**-40)
    (ahead, _), (behind, _), (here, product) = layers(0.5 + h), layers(0.5 - h), layers(0.5)
    gap = closed_forms.product(xp, s, frames[-1], frames[0]) - product
    for k in range(depth):
        before, after = frames[0] @ frames[0].mT * 0 + xp.eye(5), xp.eye(here[k].shape[0])
        for w in here[:k]:
            before = w @ before
        for w in here[k + 1 :]:
            after = w @ after
        rate = rates[k] * (after.mT @ gap @ before.mT)
        off = (ahead[k] - behind[k]) / (2 * h) - rate
        assert max(abs(float(v)) for v in off.flat) < 1e-20  # h^2 times a third derivative


def test_modes_at_zero_stay_unlearned_but_at_depth_one():
    u, s, v = modes_of(np.random.default_rng(0))
    for depth, learned in ((1, 0.7), (3, 0.0)):
        network = DeepNetwork.init((u, s, v), [0.1, 0.1, 0.0], depth=depth, rates=0.5)
        assert float(network.strengths(np.inf)[2]) == learned
    assert [w.shape for w in network.layers(0.0)] == [(2, 5), (2, 2), (4, 2)]
    assert float(network.loss(np.inf)) == pytest.approx(0.7**2 / 2, rel=1e-15)


def test_learning_times_are_when_the_strength_is_reached():
    network, _ = generic(3)
    times = network.learning_times(0.25)
    assert times[1] == np.inf  # negative start: the saddle
    assert network.strengths(times[0])[0] == pytest.approx(0.25 * 2.0, rel=1e-12)


# kernels


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("n_out", [4, 1])
def test_tangent_kernel_is_that_of_the_jacobian(depth, n_out):
    rng = np.random.default_rng(depth)
    count = min(n_out, 3)
    u, v = orthonormal(rng, n_out, count), orthonormal(rng, 5, count)
    rates = rng.uniform(0.4, 2.5, depth)
    network = DeepNetwork.init((u, np.array([2.0, 1.2, 0.7])[:count], v), 0.2, depth=depth, rates=rates, rng=1)
    x1, x2 = rng.normal(size=(3, 5)), rng.normal(size=(2, 5))
    weights = network.layers(0.6)
    one, two = jacobians(weights, x1), jacobians(weights, x2)
    each = [np.einsum("icp,jdp->ijcd", a, b) for a, b in zip(one, two, strict=True)]
    plain, driving = sum(each), sum(r * k for r, k in zip(rates, each, strict=True))
    np.testing.assert_allclose(network.ntk(0.6, x1, x2, weighted=False), plain, atol=1e-6 * abs(plain).max())
    np.testing.assert_allclose(network.ntk(0.6, x1, x2), driving, atol=1e-6 * abs(driving).max())


def test_tangent_kernel_drives_the_outputs():
    network, covariance = generic(3)
    X, Y = samples(network, covariance, np.random.default_rng(3))
    slope = (network.output(0.5 + 1e-5, X) - network.output(0.5 - 1e-5, X)) / 2e-5
    error = network.output(0.5, X) - Y
    driven = -np.einsum("ijcd,jd->ic", network.ntk(0.5, X), error) / len(X)
    np.testing.assert_allclose(driven, slope, atol=1e-8)


@pytest.mark.parametrize("depth", DEPTHS)
def test_layer_kernels_are_those_of_the_activations(depth):
    network, _ = generic(depth)
    x = np.random.default_rng(0).normal(size=(3, 5))
    h = np.broadcast_to(x, (2, 3, 5))
    t = [0.4, np.inf]
    for layer, w in enumerate([None, *network.layers(t)]):
        h = h if w is None else h @ w.mT
        np.testing.assert_allclose(network.layer_kernel(t, layer, x), h @ h.mT, atol=1e-12)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("weighted", [True, False])
def test_kernel_alignment_is_that_of_the_kernel_matrix(depth, weighted):
    network, _ = generic(depth)
    X = 3 * orthonormal(np.random.default_rng(0), 9, 5)  # white: X^T X / 9 = 1
    y = (X @ network.target.T).ravel()
    for t in (0.0, 0.7, np.inf):
        K = network.ntk(t, X, weighted=weighted).transpose(0, 2, 1, 3).reshape(36, 36)
        expected = y @ K @ y / (np.linalg.norm(K) * (y @ y))
        assert float(network.kernel_alignment(t, weighted=weighted)) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize(
    ("rates", "rank", "weighted", "trained"),
    [
        ([1.0, 1.0], 4, False, 0.755929),
        ([3.0, 1.0], 4, False, 0.917663),
        ([2.0, 0.5, 1.3], 5, False, 0.956264),
        ([2.0, 0.5, 1.3], 5, True, 0.832050),
    ],
)
def test_final_alignment_of_trained_networks(rates, rank, weighted, trained):
    modes = np.ones((1, 1)), np.array([1.7]), orthonormal(np.random.default_rng(0), rank, 1)
    network = DeepNetwork.init(modes, 0.01, depth=len(rates), rates=rates)
    assert float(network.kernel_alignment(np.inf, weighted=weighted)) == pytest.approx(trained, abs=6e-7)


# data: the tree, and Saxe's picture


@pytest.mark.parametrize("levels", [1, 2, 3, 5])
def test_tree_has_its_singular_values(levels):
    dataset = data.tree(levels)
    count = 2**levels
    expected = np.concatenate([np.full(2**j, np.sqrt((2 ** (levels - j) - 1) / count)) for j in range(levels)])
    np.testing.assert_allclose(data.modes(dataset.inputs, dataset.targets).s, expected, rtol=1e-13)
    assert dataset.targets.shape == (count, 2 * count - 2)
    assert (dataset.targets.sum(axis=1) == levels).all()


def test_tree_is_loaded_by_name_and_checked():
    np.testing.assert_array_equal(data.load("tree").targets, data.tree(3).targets)
    for levels in (0, 10, 2.5, True, "3"):
        with pytest.raises(ValueError, match=r"data\.tree: levels = .* must be a whole number"):
            data.tree(levels)


@pytest.mark.parametrize("name", quick(["tree", "digits"], 1))
def test_each_mode_of_the_simulated_network_is_learned_at_its_own_time(name):
    found = learn(data.load(name), depth=3)
    network, t = found.network, found.exact.t
    assert found.differences["integrated"].product < 1e-8
    assert 1.9 < found.order < 2.1
    strengths = np.einsum("ck,tcd,dk->tk", network.u, found.integrated["product"], network.v)
    for mode, (s, time) in enumerate(zip(network.s, network.learning_times(), strict=True)):
        assert np.interp(time, t, strengths[:, mode]) == pytest.approx(s / 2, rel=0.01)
        if s > network.s[-1] * 1.001:
            assert time < network.learning_times()[-1]


# the command


@pytest.mark.parametrize(
    ("depth", "words"),
    [
        (3, "three-layer"),
        *(pytest.param(*case, marks=pytest.mark.exhaustive) for case in ((1, "one-layer"), (7, "7-layer"))),
    ],
)
@pytest.mark.usefixtures("undrawn")
@pytest.mark.exhaustive
def test_learn_writes_a_deep_network(tmp_path, capsys, depth, words):
    out = tmp_path / "found"
    assert main(["learn", "tree", "--depth", str(depth), "--rate", "2", "--out", str(out)]) == 0
    assert re.search(rf"depth +{depth}  \(layers\)", capsys.readouterr().out)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert f"{words} linear network" in page
    assert "$" not in page
    assert ("W₂W₁x" in page) == (depth == 3)
    with np.load(out / "trajectories.npz", allow_pickle=False) as found:
        layers = [found[f"w{k + 1}"] for k in range(depth)]
        np.testing.assert_allclose(chain(layers), found["exact_product"], atol=1e-13)
        # the layers in the file solve the flow of the target in the file, two of their times apart
        start = tuple(w[40] for w in layers)
        later = ls.integrate(deep_weights(found["target"], depth, rates=2.0), found["t"][50] - found["t"][40], start)
        np.testing.assert_allclose(chain(later.state), found["exact_product"][50], atol=1e-7)


def test_narrow_network_learns_the_strongest_modes():
    found = learn(data.load("digits"), depth=3, width=2)
    np.testing.assert_allclose(found.exact["singular_values"][-1, :2], found.modes.s[:2], rtol=0.02)
    assert found.integrated["singular_values"][-1, 2] < 1e-12
    assert float(found.exact["loss"][-1]) == pytest.approx(np.sum(found.modes.s[2:] ** 2) / 2, rel=1e-3)


def test_two_layers_stay_the_default():
    dataset = data.load("tree")
    one, two = learn(dataset, seed=3), learn(dataset, depth=2.0, scale=1e-3, seed=3)
    np.testing.assert_array_equal(one.exact["product"], two.exact["product"])
    assert one.network is None


BAD = {
    "--depth 2.5": "depth = 2.5 must be a whole number",
    "--depth inf": "depth = inf must be a whole number",
    "--depth nan": "depth = nan is not a number",
    "--depth 0.5": "depth = 0.5 must lie in",
    "--depth 0": "depth = 0.0 must lie in",
    "--depth three": "invalid float value: 'three'",
    "--depth 3 --imbalance 0.1": "imbalance = 0.1 must be 0 at depth = 3",
    "--depth 3 --step 9": "step = 9 must be below",
    "--depth 3 --scale 1e-200": "scale = 1e-200 must lie in [1e-30, 1e+30]",
    "--depth 8 --scale 1e-5": "use a larger step",
    "--depth 3 --width 0": "width = 0 must be at least 1",
}


@pytest.mark.parametrize("options", BAD)
def test_bad_depths_are_one_line(tmp_path, capsys, options):
    assert main(["learn", "tree", *options.split(), "--out", str(tmp_path / "found")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert BAD[options] in error
    assert not list(tmp_path.iterdir())


def test_bad_networks_are_refused_by_name():
    u, s, v = modes = modes_of(np.random.default_rng(0))
    for options, message in [
        ({"depth": 2.5}, "depth = 2.5 must be a whole number"),
        ({"depth": np.inf}, "depth = inf must be a whole number"),
        ({"depth": 1e8}, "depth = 100000000.0 must be a whole number up to 10000"),
        ({"depth": 3, "widths": 10**20}, r"widths = 1\.00e\+20 makes arrays"),
        ({"depth": 3, "widths": [4]}, r"widths = 1 numbers must be 2"),
        ({"depth": 3, "widths": 2}, "width = 2 must be at least 3"),
        ({"depth": 3, "widths": 4.5}, "width = 4.5 must be a positive integer"),
        ({"depth": 3, "rates": [1.0, 2.0]}, r"rates has shape \(2,\) but must be \(3,\)"),
        ({"depth": 3, "rates": 0.0}, "rates = 0.0 must lie in"),
        ({"depth": 3, "variances": [1.0, 2.0]}, r"variances has shape \(2,\) but needs \(3,\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            DeepNetwork.init(modes, 0.1, **options)
    with pytest.raises(ValueError, match="orthonormal columns"):
        DeepNetwork.init((2 * u, s, v), 0.1, depth=2)
    network = DeepNetwork.init(modes, 0.1, depth=2)
    with pytest.raises(ValueError, match="layer = 3 must be an integer from 0 to 2"):
        network.layer_kernel(0.0, 3, np.eye(5))
    with pytest.raises(ValueError, match="weighted = 1 must be True or False"):
        network.kernel_alignment(0.0, weighted=1)
    with pytest.raises(OverflowError, match=r"DeepNetwork: x2 of magnitude 1.7e\+308 leads beyond"):
        network.ntk(0.0, np.eye(5), np.full((1, 5), 1.7e308))
    with pytest.raises(ValueError, match=r"v.T @ v - 1 = .*e\+300 must vanish"):
        DeepNetwork.init((u, s, 1e300 * v), 0.1, depth=2)
    with pytest.raises(ValueError, match=r"x1 has shape \(4, 4\) but needs \(m, 5\)"):
        network.ntk(0.0, np.eye(4))
    for fraction in (1, None, [0.5, 0.2]):
        with pytest.raises(ValueError, match=r"fraction = .* must be a number in"):
            network.learning_times(fraction)
    with pytest.raises(ValueError, match="must chain"):
        DeepNetwork.of([u, v], network.target)
    with pytest.raises(ValueError, match="target has shape"):
        DeepNetwork.of(network.layers(0.0), network.target.T)
    with pytest.raises(ValueError, match="must vanish, relative to the largest entry"):
        DeepNetwork.of(network.layers(0.0), network.target, covariance=np.triu(np.ones((5, 5))))
