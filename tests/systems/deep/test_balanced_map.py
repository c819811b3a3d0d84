"""The map of a balanced deep network as a flow: proved, checked against raw weights, and its directions."""

from itertools import pairwise

import numpy as np
import pytest
from deep_networks import chain, modes_of, orthonormal
from selection import quick

import linsolve as ls
from linsolve import BalancedMap
from linsolve.systems.deep import DeepNetwork, deep_weights

T = np.array([0.0, 0.3, 1.0, 3.0])


# the first is proved with all other flows
@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [0, 1])
def test_balanced_map_is_proved(seed):
    report = ls.verify(*BalancedMap.example(np.random.default_rng(seed)), 40)
    assert report.ok, str(report)


@pytest.mark.exhaustive
def test_equation_without_the_factor_of_depth_is_rejected():
    class Printed(BalancedMap):  # as in eq. (39) of Atanasov et al.
        def _mode(self):
            return ls.DeepMode(self.s, self.depth[..., None], (self.tau * self.depth)[..., None])

    flow, start = BalancedMap.example(np.random.default_rng(0))
    report = ls.verify(Printed(**flow.parameters()), start, 40)
    assert {"residual", "dop853"} <= {check.name for check in report if not check.ok}


@pytest.mark.parametrize("depth", [2, 3, 5])
@pytest.mark.quick(1)
def test_equation_of_the_map_holds_for_balanced_layers_that_are_not_aligned(depth):
    rng = np.random.default_rng(depth)
    frames = [orthonormal(rng, n, 3) for n in (5, *[4] * (depth - 1), 3)]
    d = np.array([0.9, 0.8, 0.5])
    layers = [b * d @ a.T for a, b in pairwise(frames)]
    u, s, v = orthonormal(rng, 3, 3), np.array([2.0, 1.2, 0.7]), orthonormal(rng, 5, 3)
    flow = BalancedMap(u, s, v, depth=depth, tau=0.8)
    with pytest.raises(ls.NotExact, match="misalignment"):
        flow(1.0, chain(layers))
    followed = ls.integrate(flow, [0.5, 2.0], chain(layers), rtol=1e-11)["product"]
    raw = ls.integrate(deep_weights(flow.target, depth, rates=1 / 0.8), [0.5, 2.0], tuple(layers), rtol=1e-11)
    np.testing.assert_allclose(chain(raw.state), followed, atol=1e-9)


def test_balanced_map_agrees_with_the_two_layer_solution_and_the_network():
    rng = np.random.default_rng(4)
    modes = modes_of(rng)
    network = DeepNetwork.init(modes, [0.1, 0.02, 0.3], depth=2, rates=0.5, rng=0)
    traj = BalancedMap(*modes, depth=2, tau=2.0)(T, network.product(0.0))
    two = ls.WhitenedTwoLayer(network.target, 2.0)(T, ls.WhitenedTwoLayer.of(*network.layers(0.0)))
    for name in ("product", "loss", "kernel_alignment"):
        np.testing.assert_allclose(traj[name], two[name], atol=1e-13)
    np.testing.assert_allclose(network.kernel_alignment(T), two["kernel_alignment"], atol=1e-13)
    x = rng.normal(size=(3, 5))
    kernel = two.flow.ntk(np, two.state, x, x)
    np.testing.assert_allclose(network.ntk(T, x, weighted=False), kernel, atol=1e-12)


def test_the_flow_is_in_the_registry():
    assert BalancedMap in ls.flows.ALL
    assert ls.flows.BalancedMap is ls.deep.BalancedMap is BalancedMap


@pytest.mark.parametrize("depth", [1.0, 2.0, 3.5])
def test_directions_that_are_not_orthonormal_are_refused(depth):
    """Also of a mode at 0, which the misalignment of the start does not see."""
    start = np.diag([0.1, 0.0])
    for u, v in ((np.diag([1.0, 2.0]), np.eye(2)), (np.eye(2), np.array([[1.0, 0.6], [0.0, 0.8]]))):
        with pytest.raises(ls.NotExact, match=r"orthonormal columns = \d.*integrate"):
            BalancedMap(u, [2.0, 1.0], v, depth=depth)(1.0, start)


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 4, 1), (3, 2, 2)], ids=str)
@pytest.mark.parametrize("depth", quick([1.0, 4.5, 2.0, 3.0], 2))
@pytest.mark.parametrize("size", [0.0, 1e-150, 1e-8, 1.0, 1e60])
@pytest.mark.quick(10)
def test_small_problems_of_any_size_at_any_time(shape, depth, size):
    n_out, n_in, count = shape
    rng = np.random.default_rng(0)
    u, v = orthonormal(rng, n_out, count), orthonormal(rng, n_in, count)
    s = size * np.linspace(1.0, 2.0, count)
    for strength in (0.0, size / 2, 1.0):
        flow = BalancedMap(u, s, v, depth=depth)
        traj = flow([0.0, 1e-300, 1.0, 1e300, np.inf], strength * u @ v.T)
        learned = s if depth == 1 or strength else 0 * s
        for name in ("product", "loss", "singular_values", "kernel_alignment"):
            assert np.isfinite(traj[name]).all(), name
        np.testing.assert_array_equal(traj["product"][0], strength * u @ v.T)
        if depth == 1 or size >= 1e-8:
            np.testing.assert_allclose(traj["product"][-1], u * learned @ v.T, rtol=0, atol=1e-14 * (size or 1e-300))
    with pytest.raises(ValueError, match="BalancedMap: t = -1"):
        flow(-1.0, u @ v.T)


def test_descent_from_strengths_whose_ratio_underflows_is_refused_by_name():
    flow, z = BalancedMap.example(np.random.default_rng(0))
    start = np.zeros_like(z.product)
    start.flat[0], start.flat[start.shape[-1] + 1] = 1.7e308, 1e-300
    with pytest.raises(ArithmeticError, match=r"descend: BalancedMap diverged before t = 0\.01 at"):
        ls.descend(flow, [0.0, 0.1], (start,), step=0.01)


@pytest.mark.parametrize("depth", [1.5, 2.0, 3.0, 10.0])
def test_a_strength_that_is_a_rounding_error_stays_0(depth):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        u, v, s = orthonormal(rng, 3, 3), orthonormal(rng, 4, 3), rng.uniform(0.5, 2.0, 3)
        start = np.array([1.0, 0.3, 0.0])
        traj = BalancedMap(u, s, v, depth=depth)([0.0, 1.0, 30.0, np.inf], u * start @ v.T)
        modes = ls.DeepMode(s, depth)([0.0, 1.0, 30.0, np.inf], start)
        np.testing.assert_allclose(traj["product"], u * modes["a"][:, None, :] @ v.T, rtol=0, atol=1e-13)
        np.testing.assert_allclose(traj["loss"], np.sum(modes["loss"], axis=-1), rtol=1e-12)


def test_a_weak_strength_without_rounding_errors_is_learned():
    eye = np.eye(2)
    traj = BalancedMap(eye, [1.0, 1.0], eye, depth=3)([0.0, 1e20], np.diag([1e-21, 0.5]))
    np.testing.assert_allclose(traj["singular_values"][-1], [1.0, 1.0], rtol=1e-13)


def test_signs_opposite_to_the_target_between_depths_1_and_2_are_refused_by_name():
    eye, start = np.eye(2), np.diag([-0.5, 0.5])
    flow = BalancedMap(eye, [1.0, 1.0], eye, depth=1.5)
    with pytest.raises(ls.NotExact, match=r"BalancedMap: start of the sign opposite to s at 1 < depth < 2"):
        flow(1.0, start)
    assert BalancedMap(eye, [-1.0, 1.0], eye, depth=1.5)(1.0, start)["product"][0, 0] < -0.5
    assert BalancedMap(eye, [1.0, 1.0], eye, depth=3.0)(1.0, start)["product"][0, 0] > -0.5
