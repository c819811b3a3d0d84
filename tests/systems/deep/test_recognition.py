"""Balanced, aligned networks recognized from their weights, and refusals of deep networks and their raw weights."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from deep_networks import DEPTHS, generic, modes_of, orthonormal

import linsolve as ls
from linsolve import data
from linsolve.systems.deep import DeepNetwork, deep_weights, distances


@pytest.mark.parametrize("depth", DEPTHS)
def test_weights_are_recognized(depth):
    network, covariance = generic(depth)
    back = DeepNetwork.of(network.layers(0.4), network.target, rates=network.rates, covariance=covariance)
    for here, there in zip(network.layers([0.4, 1.5]), back.layers([0.0, 1.1]), strict=True):
        np.testing.assert_allclose(there, here, atol=1e-13)
    assert back.loss(1.1) == pytest.approx(float(network.loss(1.5)), rel=1e-11)


def test_equal_starts_and_equal_modes_are_recognized():
    dataset = data.tree(3)
    modes, target = data.modes(dataset.inputs, dataset.targets), data.whiten(dataset.inputs, dataset.targets).target
    network = DeepNetwork.init(modes, 1e-6, depth=4, widths=9, rng=0)  # the weights alone prefer no direction
    back = DeepNetwork.of(network.layers(0.0), target)
    np.testing.assert_allclose(np.sort(back.s)[::-1], modes.s, rtol=1e-13)
    np.testing.assert_allclose(back.product(40.0), network.product(40.0), atol=1e-11)


def test_what_weights_do_not_hold_is_found_in_the_target():
    rng = np.random.default_rng(0)
    u, s, v = modes_of(rng)
    network = DeepNetwork.init((u, s, v), [0.1, 0.0, 0.2], depth=3, rng=1)
    back = DeepNetwork.of(network.layers(0.0), network.target)
    assert sorted(back.s) == pytest.approx(sorted(s), rel=1e-14)
    assert float(back.loss(5.0)) == pytest.approx(float(network.loss(5.0)), rel=1e-12)
    nothing = [np.zeros((3, 5)), np.zeros((4, 3))]
    assert float(DeepNetwork.of(nothing, network.target).loss(9.0)) == pytest.approx(np.sum(s**2) / 2, rel=1e-14)


def test_distances_are_measured():
    network, covariance = generic(3)
    given = {"rates": network.rates, "covariance": covariance}
    layers = network.layers(0.0)
    assert max(distances(layers, network.target, **given).values()) < 1e-14
    # the last layer longer by 1 percent
    d = np.abs(np.asarray(network.start)) ** (1 / 3)
    expected = (1.01**2 - 1) * np.linalg.norm(d**2) / (1.01**2 * np.sum(d**2))
    longer = [*layers[:2], 1.01 * layers[2]]
    assert distances(longer, network.target, **given)["imbalance"] == pytest.approx(expected, rel=1e-10)
    with pytest.raises(ls.NotExact, match=r"imbalance = 0\.0\d+ must vanish"):
        DeepNetwork.of(longer, network.target, **given)
    # equal rates assumed where they are not
    with pytest.raises(ls.NotExact, match="imbalance"):
        DeepNetwork.of(layers, network.target, covariance=covariance)
    # a target turned by 0.1 in the plane of the first two outputs of the modes
    turn = np.eye(3)
    turn[:2, :2] = [[np.cos(0.1), -np.sin(0.1)], [np.sin(0.1), np.cos(0.1)]]
    turned = network.u @ turn * network.s @ network.v.T
    drive = turn * (network.s * network.variances)
    off = np.linalg.norm(drive - np.diag(np.diagonal(drive))) / np.linalg.norm(drive)
    assert distances(layers, turned, **given)["misalignment"] == pytest.approx(off, rel=1e-10)
    with pytest.raises(ls.NotExact, match=r"misalignment = 0\.0\d+ must vanish"):
        DeepNetwork.of(layers, turned, **given)
    # a target that couples a mode to what is outside of all modes, behind and ahead
    outside = np.linalg.svd(network.u)[0][:, 3]
    for extra in (np.outer(outside, network.v[:, 0]), np.outer(network.u[:, 0], np.linalg.svd(network.v)[0][:, 3])):
        coupled = network.target + 0.1 * extra
        off = np.linalg.norm(0.1 * extra @ covariance) / np.linalg.norm(coupled @ covariance)
        assert distances(layers, coupled, **given)["misalignment"] == pytest.approx(off, rel=1e-10)
        with pytest.raises(ls.NotExact, match="misalignment"):
            DeepNetwork.of(layers, coupled, **given)
    # a covariance that does not commute
    other = covariance + 0.01 * np.outer(network.v[:, 0], network.v[:, 1])
    other = (other + other.T) / 2
    found = distances(layers, network.target, rates=network.rates, covariance=other)
    assert found["covariance across modes"] == pytest.approx(0.01 / np.sqrt(2) / np.linalg.norm(other), rel=1e-9)
    with pytest.raises(ls.NotExact):
        DeepNetwork.of(layers, network.target, rates=network.rates, covariance=other)


def test_data_may_be_aligned_with_layers_that_are_not_balanced():
    found = distances([np.diag([2.0, 1.0]), np.diag([1.0, 3.0])], np.diag([3.0, 1.0]))
    assert found["misalignment"] < 1e-14
    assert found["imbalance"] > 0.1
    rng = np.random.default_rng(4)
    for _ in range(20):
        layers, target = [rng.normal(size=(4, 3)), rng.normal(size=(3, 4))], rng.normal(size=(3, 3))
        assert 0 < distances(layers, target)["misalignment"] <= np.sqrt(3)


def test_imbalance_of_a_weak_mode_is_seen():
    u, s, v = modes_of(np.random.default_rng(0))
    layers = DeepNetwork.init((u, s, v), [1.0, 1.0, 1e-18], depth=3, rng=1).layers(0.0)
    layers[2] = layers[2] + 0.5e-6 * np.outer(u[:, 2], np.linalg.svd(layers[1])[0][:, 2])
    found = distances(layers, u * s @ v.T)
    assert found["imbalance"] < 1e-9 < found["imbalance, mode by mode"]
    with pytest.raises(ls.NotExact, match="mode by mode"):
        DeepNetwork.of(layers, u * s @ v.T)


def test_random_network_is_not_exact():
    rng = np.random.default_rng(0)
    layers = [rng.normal(size=shape) for shape in ((6, 5), (6, 6), (2, 6))]
    with pytest.raises(ls.NotExact, match="follow these weights"):
        DeepNetwork.of(layers, rng.normal(size=(2, 5)))


def loss_apart(found, network, times=(0.0, 0.3, 1.0)):
    right = network.loss(np.asarray(times))
    return float(np.abs(found.loss(np.asarray(times)) - right).max() / right.max())


@pytest.mark.parametrize("depth", [1, 2, 3, 5, 30])
@pytest.mark.parametrize("equal", [False, True], ids=["different starts", "equal starts"])
@pytest.mark.quick(3)
def test_rounded_weights_are_recognized_within_a_tolerance(depth, equal):
    """Rounding makes weak spurious modes, which no other layer confirms; distances stay of the order of 1 or below."""
    rng = np.random.default_rng(depth)
    modes = orthonormal(rng, 4, 2), np.array([2.0, 1.0]), orthonormal(rng, 5, 2)
    network = DeepNetwork.init(modes, 0.3 if equal else [0.3, 0.2], depth=depth, widths=6, rng=1)
    layers, target = network.layers(0.0), network.target
    for digits, tolerance in ((12, None), (6, 1e-4), (3, 0.1)):
        rounded = [np.round(w, digits) for w in layers]
        assert (
            max(distances(rounded, target, tolerance=tolerance).values())
            < (10 if depth > 5 else 1) * 10.0**-digits * 30
        )
        found = DeepNetwork.of(rounded, target, tolerance=tolerance)
        assert len(found.s) == 2 or depth == 1
        assert loss_apart(found, network) < 300 * 10.0**-digits
    if depth > 1:
        with pytest.raises(ls.NotExact, match=r"at most 1e-09, for weights of float64.*pass a larger tolerance"):
            DeepNetwork.of([np.round(w, 6) for w in layers], target)


@pytest.mark.parametrize("depth", DEPTHS)
def test_single_precision_is_judged_at_its_own(depth):
    network, covariance = generic(depth)
    given = {"rates": network.rates, "covariance": covariance}
    layers = [w.astype(np.float32) for w in network.layers(0.0)]
    for target in (network.target, network.target.astype(np.float32)):
        assert loss_apart(DeepNetwork.of(layers, target, **given), network) < 1e-6
    as_doubles = [w.astype(float) for w in layers]
    assert loss_apart(DeepNetwork.of(as_doubles, network.target, tolerance=1e-5, **given), network) < 1e-6
    with pytest.raises(ls.NotExact, match="for weights of float64"):
        DeepNetwork.of(as_doubles, network.target, **given)
    bent = [*layers[:-1], layers[-1] + np.float32(0.01)]
    with pytest.raises(ls.NotExact, match="for weights of float32"):
        DeepNetwork.of(bent, network.target, **given)


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("size", [1e-250, 1e-100, 1e100, 1e250])
def test_networks_of_any_scale(depth, size):
    """Distances have no unit; a product of the weights beyond the doubles is refused as such."""
    rng = np.random.default_rng(0)
    modes = modes_of(rng)
    network = DeepNetwork.init(modes, [0.5, 0.2, 1.1], depth=depth, rng=1)
    layers = [w * size for w in network.layers(0.0)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert max(distances(layers, 1e200 * network.target).values()) < 1e-13
        s = DeepNetwork.of(network.layers(0.0), size * network.target).s
        np.testing.assert_allclose(np.sort(s) / size, np.sort(modes[1]), rtol=1e-12)
        if abs(np.log10(size)) * depth > 307:
            with pytest.raises(OverflowError, match=r"DeepNetwork\.of: layers = .* beyond the range of doubles"):
                DeepNetwork.of(layers, network.target)
        else:
            start = np.sort(DeepNetwork.of(layers, network.target).start / size**depth)
            np.testing.assert_allclose(start, [0.2, 0.5, 1.1], rtol=1e-12)


@pytest.mark.parametrize("rates", [(1.0, 1.7e308), (1.0, 1e-320), (1e-150, 1e150)])
def test_distances_of_very_different_rates_are_numbers(rates):
    layers = [np.sqrt(rate / max(rates)) * np.diag([0.3, 0.1]) for rate in rates]  # balanced
    assert max(distances(layers, np.diag([2.0, 1.0]), rates=rates).values()) <= 1e-12
    assert distances([2 * layers[0], layers[1]], np.diag([2.0, 1.0]), rates=rates)["imbalance"] > 0.1


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (3, 1), (2, 2)], ids=str)
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_small_and_empty_problems(shape, depth):
    n_out, n_in = shape
    for target in (np.zeros(shape), np.ones(shape)):
        widths = [n_in, *[3] * (depth - 1), n_out]
        nothing = DeepNetwork.of([np.zeros((b, a)) for a, b in pairwise(widths)], target)
        expected = np.sum(target**2) / 2
        late = 0.0 if depth == 1 else expected
        np.testing.assert_allclose(nothing.loss([0.0, 1e300, np.inf]), [expected, late, late], rtol=1e-13, atol=0)


BAD_NETWORKS = [
    ({"layers": 5}, TypeError, "layers = 5 must be a list of matrices"),
    ({"layers": []}, ValueError, "layers have shapes .* must chain"),
    ({"layers": [np.ones(3)]}, ValueError, "layers have shapes .* must chain"),
    ({"layers": [np.ones((2, 3)), np.ones((2, 3))]}, ValueError, "layers have shapes .* must chain"),
    ({"layers": [[[1.0, 2.0], [3.0]]]}, TypeError, r"layers\[0\] = .* is not a rectangular array"),
    ({"layers": [np.full((2, 2), np.nan)]}, ValueError, r"layers\[0\] = nan"),
    ({"target": np.ones((3, 2))}, ValueError, r"target has shape \(3, 2\)"),
    ({"target": "abc"}, TypeError, "target = .*abc"),
    ({"rates": [1.0, 2.0, 3.0]}, ValueError, r"rates have shape \(3,\) but need \(2,\)"),
    ({"rates": -1.0}, ValueError, "rates = -1.0 must lie in"),
    ({"covariance": np.triu(np.ones((2, 2)))}, ValueError, "covariance, shape .* must be symmetric"),
    ({"covariance": np.ones((3, 3))}, ValueError, "covariance, shape .* must be symmetric"),
    ({"covariance": np.diag([1.0, -1.0])}, ValueError, "covariance = 1 .* must have no negative eigenvalue"),
    ({"covariance": np.diag([1.0, 0.0])}, ValueError, "covariance = 0 along a mode must be positive"),
    ({"tolerance": 2.0}, ValueError, "tolerance = 2.0 must lie in"),
    ({"tolerance": [0.1, 0.2]}, ValueError, r"tolerance has shape \(2,\)"),
]


@pytest.mark.parametrize(("change", "kind", "message"), BAD_NETWORKS, ids=[m for *_, m in BAD_NETWORKS])
def test_bad_weights_are_refused_by_name(change, kind, message):
    given = {"layers": [np.eye(2), np.eye(2)], "target": np.diag([2.0, 1.0])} | change
    with pytest.raises(kind, match=rf"DeepNetwork\.of: {message}"):
        DeepNetwork.of(given.pop("layers"), given.pop("target"), **given)


BAD_RAW = [
    (([[1.0, 2.0], [3.0]], 2), {}, TypeError, "target = .* is not a rectangular array"),
    ((np.ones(3), 2), {}, ValueError, r"target has shape \(3,\) but needs \(n_out, n_in\)"),
    ((np.full((2, 2), np.inf), 2), {}, ValueError, "target = inf"),
    ((np.zeros((0, 2)), 2), {}, ValueError, r"target has shape \(0, 2\), which is empty"),
    ((np.eye(2), 2.5), {}, ValueError, "depth = 2.5 must be an integer from 1 to 1000"),
    ((np.eye(2), 0), {}, ValueError, "depth = 0"),
    ((np.eye(2), [2, 3]), {}, ValueError, r"depth = \[2, 3\] must be an integer from 1 to 1000"),
    ((np.eye(2), 2), {"rates": [1.0, 2.0, 3.0]}, ValueError, r"rates have shape \(3,\) but need \(2,\)"),
    ((np.eye(2), 2), {"rates": [[1.0], [2.0, 3.0]]}, TypeError, "rates = .* is not a rectangular array"),
    ((np.eye(2), 2), {"rates": 0.0}, ValueError, r"rates = 0\.0 (at index .* )?must lie in"),
]


@pytest.mark.parametrize(("given", "options", "kind", "message"), BAD_RAW, ids=[m for *_, m in BAD_RAW])
def test_bad_raw_weights_are_refused_by_name(given, options, kind, message):
    with pytest.raises(kind, match=rf"(?i:deep_?weights): {message}"):
        deep_weights(*given, **options)


BAD_PARTS = [
    ({"s": np.ones((1, 2))}, r"s has shape \(1, 2\) but needs one axis"),
    ({"start": np.ones(3)}, r"start has shape \(3,\) but needs \(2,\)"),
    ({"variances": np.ones(3)}, r"variances has shape \(3,\) but needs \(2,\)"),
    ({"variances": -np.ones(2)}, "variances = -1.0"),
    ({"rates": np.ones(3)}, r"rates have shape \(3,\) but need \(2,\)"),
    ({"rates": np.ones((1, 2))}, r"rates have shape \(1, 2\) but need \(2,\)"),
    ({"v": np.eye(3)}, r"v has shape \(3, 3\) but needs \(units, 2\)"),
    ({"hidden": (np.ones(4),)}, r"hidden\[0\] has shape \(4,\) but needs \(units, 2\)"),
    ({"u": 2 * np.eye(4, 2)}, r"u\.T @ u - 1 = 3 must vanish"),
    ({"hidden": (np.ones((4, 2)),)}, r"hidden\[0\]\.T @ hidden\[0\] - 1 = 4 must vanish"),
]


@pytest.mark.parametrize(("change", "message"), BAD_PARTS, ids=[m for *_, m in BAD_PARTS])
def test_bad_parts_are_refused_by_name(change, message):
    parts = {
        "u": np.eye(4, 2), "s": np.ones(2), "v": np.eye(3, 2), "start": np.full(2, 0.1), "rates": np.ones(2),
        "hidden": (np.eye(4, 2),), "variances": np.ones(2),
    }  # fmt: skip
    DeepNetwork(**parts)
    with pytest.raises(ValueError, match=rf"DeepNetwork: {message}"):
        DeepNetwork(**parts | change)


def test_directions_of_modes_that_stay_at_zero_are_free_in_hidden_layers():
    hidden = np.eye(4, 2)
    hidden[:, 1] = 7.0
    network = DeepNetwork(np.eye(4, 2), [2.0, 1.0], np.eye(3, 2), [0.1, 0.0], [1.0, 1.0], (hidden,), [1.0, 1.0])
    assert float(network.loss(np.inf)) == pytest.approx(0.5, rel=1e-15)
