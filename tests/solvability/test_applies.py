import itertools
import json
import subprocess
import sys

import numpy as np
import pytest
from selection import quick
from trained import orthonormal, product, train

import linsolve as ls
from linsolve.__main__ import main
from linsolve.core import network_arguments as network_module
from linsolve.core.reduced_network import reduced
from linsolve.solvability import integration
from linsolve.solvability.decision import judge
from linsolve.solvability.files import read_weights
from linsolve.systems.whitened.starts import init


def rng(seed=0):
    return np.random.default_rng(seed)


def assert_followed(verdict, weights, X, Y, rates, name, tolerance=1e-8):
    """Follow the flow that the verdict hands back and compare its map on the data with the trained network's."""
    times = np.linspace(0.0, verdict.until, 7)
    match = verdict.match(name)
    flow, z0 = verdict.flow(name)
    assert flow is match.flow
    found = match.map(flow(times, z0)) @ X.T
    right = np.stack([product(layers) @ X.T for layers in train(weights, X, Y, rates, times)])
    assert np.linalg.norm(right[-1] - right[0]) > 0.1 * np.linalg.norm(right[-1])  # something was learned
    assert np.abs(found - right).max() <= tolerance * np.abs(right).max()


def white_samples(gen, count, n_in, rank, kappa=1.0):
    """Return samples whose second moment is kappa times a projector of the given rank."""
    span = orthonormal(gen, n_in, rank)
    return np.sqrt(kappa * count) * orthonormal(gen, count, rank) @ span.T


def unreduced(layers, rates):
    """Return weights that have these layers where learning rates are made equal."""
    mean = np.exp(np.mean(np.log(rates)))
    return [np.sqrt(eta / mean) * u for u, eta in zip(layers, rates, strict=True)]


def isotropic(gen, n_in, n_out, kappa, tau, size):
    """Return a two-eigenvalue start of width n_in + n_out."""
    y = size * gen.normal(size=(n_out, n_in))

    def root(a):
        value, q = np.linalg.eigh(a)
        return (q * np.sqrt(value)) @ q.T

    x = root(kappa**2 * np.eye(n_in) + y.T @ y) - tau / 2 * np.eye(n_in)
    z = root(kappa**2 * np.eye(n_out) + y @ y.T) + tau / 2 * np.eye(n_out)
    q = np.linalg.cholesky(np.block([[x, y.T], [y, z]]))
    q = q @ orthonormal(gen, n_in + n_out, n_in + n_out)
    return q[:n_in].T, q[n_in:]


# what is exact


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.quick(1)
def test_scalar_output_on_a_line_is_two_layer_from_any_start_at_any_rates(seed):
    gen = rng(seed)
    width, n_in = int(gen.integers(1, 9)), int(gen.integers(1, 5))
    X = gen.normal(size=(12, 1)) * gen.normal(size=n_in)
    y = gen.normal(size=12) + 2 * X[:, 0]
    weights = [gen.normal(size=(width, n_in)), gen.normal(size=width)]
    rates = gen.uniform(0.2, 3.0, 2)
    verdict = ls.applies(weights, (X, y), rates)
    assert verdict.exact[0] == "TwoLayer"
    assert verdict.errors["TwoLayer"] < 1e-8
    full = [weights[0], weights[1][None]]
    assert_followed(verdict, full, X, y[:, None], rates, "TwoLayer")
    flow, z0 = verdict.flow()  # every weight, not only the map
    times = np.linspace(0.0, verdict.until, 5)
    traj = flow(times, z0)
    for i, (w, u) in enumerate(train(full, X, y[:, None], rates, times)):
        np.testing.assert_allclose(traj["w"][i], w, atol=1e-8)
        np.testing.assert_allclose(traj["u"][i], u[0], atol=1e-8)


STARTS = {
    "balanced": lambda gen: init(4, 3, 3, scale=0.5, rng=gen),
    "bottleneck": lambda gen: init(4, 1, 3, scale=0.5, rng=gen),
    "lambda > 0": lambda gen: init(4, 2, 3, scale=0.4, imbalance=0.7, rng=gen),
    "lambda < 0": lambda gen: init(4, 3, 3, scale=0.4, imbalance=-0.7, rng=gen),
    "single unit": lambda gen: (gen.normal(size=(1, 4)), gen.normal(size=(3, 1))),
    "isotropic": lambda gen: isotropic(gen, 4, 3, 0.5, 0.3, 0.2),
}


@pytest.mark.parametrize("start", ["balanced", "bottleneck", "lambda > 0", "lambda < 0", "single unit", "isotropic"])
@pytest.mark.parametrize(("kappa", "rates"), [(1.0, (1.0, 1.0)), (2.5, (0.4, 1.7))])
@pytest.mark.quick(2)
def test_white_inputs_and_two_eigenvalues_are_whitened_two_layer(start, kappa, rates):
    gen = rng(len(start))
    weights = unreduced(STARTS[start](gen), rates)
    X = white_samples(gen, 20, 4, 4, kappa)
    Y = X @ gen.normal(size=(4, 3)) + 0.3 * gen.normal(size=(20, 3))
    verdict = ls.applies(weights, (X, Y), rates)
    assert "WhitenedTwoLayer" in verdict.exact
    assert_followed(verdict, weights, X, Y, rates, "WhitenedTwoLayer")
    moments = ls.applies(weights, (X.T @ X / 20, Y.T @ X / 20), rates, covariances=True)
    assert moments.exact == verdict.exact
    np.testing.assert_allclose(moments.until, verdict.until, rtol=1e-6)


@pytest.mark.parametrize("rates", [(1.0, 1.0), (3.0, 0.2)])
def test_rank_deficient_whitening_needs_balance_in_the_span_only(rates):
    gen = rng(5)
    X = white_samples(gen, 3, 6, 3, 0.7)  # three samples in six dimensions
    Y = gen.normal(size=(3, 2))
    span = np.linalg.svd(X)[2]
    w1, w2 = init(3, 2, 2, scale=0.5, rng=gen)
    outside = gen.normal(size=(2, 3))  # frozen, anything
    weights = unreduced((w1 @ span[:3] + outside @ span[3:], w2), rates)
    verdict = ls.applies(weights, (X, Y), rates)
    assert verdict.exact == ("WhitenedTwoLayer",)
    assert_followed(verdict, weights, X, Y, rates, None)


def aligned(gen, depth, widths, strengths, inputs, outputs):
    """Return balanced layers whose modes have these directions and strengths."""
    k = len(strengths)
    bases = [inputs, *(orthonormal(gen, n, k) for n in widths), outputs]
    weight = np.abs(strengths) ** (1 / depth)
    layers = [(b * weight) @ a.T for a, b in itertools.pairwise(bases)]
    layers[-1] = (outputs * weight * np.sign(strengths)) @ bases[-2].T
    return layers


@pytest.mark.parametrize("depth", [2, 3, 5])
@pytest.mark.parametrize("white", [True, False])
@pytest.mark.quick(2)
def test_aligned_balanced_chain_is_deep_mode(depth, white):
    gen = rng(depth)
    inputs, outputs = orthonormal(gen, 4, 3), orthonormal(gen, 3, 3)
    power = np.full(4, 1.3) if white else np.array([1.6, 0.9, 0.4, 0.7])
    axes = np.concatenate([inputs, np.linalg.svd(inputs)[0][:, 3:]], axis=1)
    X = np.sqrt(20 * power) * orthonormal(gen, 20, 4) @ axes.T
    s = np.array([2.0, 1.1, 0.8])
    Y = X @ inputs @ np.diag(s) @ outputs.T
    rates = gen.uniform(0.3, 2.0, depth)
    layers = aligned(gen, depth, [4, 3, 5, 4][: depth - 1], np.array([0.3, 0.2, -0.1]), inputs, outputs)
    weights = unreduced(layers, rates)
    verdict = ls.applies(weights, (X, Y), rates)
    assert "DeepMode" in verdict.exact
    flow, z0 = verdict.flow("DeepMode")
    np.testing.assert_allclose(np.sort(flow.s), np.sort(s), rtol=1e-10)
    np.testing.assert_allclose(np.sort(z0.a), [-0.1, 0.2, 0.3], rtol=1e-10)
    assert any("sign opposite" in remark for remark in verdict.remarks)
    assert_followed(verdict, weights, X, Y, rates, "DeepMode")


@pytest.mark.parametrize(
    ("power", "cross", "start"),
    [
        ([1.0, 2.0, 3.0], [2.0, 2.0, 2.0], [0.5, 0.5, 0.5]),  # only Sigma_xx says which the modes are
        ([3.0, 1.0, 2.0, 0.5], [2.0, 2.0, 2.0, 1.0], [0.5, 0.5, 0.5, 0.3]),
        ([1.0, 1.0], [2.0, 2.0], [0.5, 0.2]),  # only the start
        ([1.0, 1.0], [2.0, 2.0], [0.5, -0.5]),  # only its sign
        ([1.0, 1.0], [2.0, 1.0], [0.5, 0.5]),  # only the target
    ],
)
def test_modes_are_told_apart_by_whatever_differs(power, cross, start):
    v, u = orthonormal(rng(1), len(power), len(power)), orthonormal(rng(2), len(power), len(power))
    w = np.diag(np.sqrt(np.abs(start)))
    moments = v @ np.diag(power) @ v.T, u @ np.diag(cross) @ v.T
    verdict = ls.applies([w @ v.T, u * np.sign(start) @ w], moments, covariances=True)
    assert "DeepMode" in verdict.exact
    flow, z0 = verdict.flow("DeepMode")
    np.testing.assert_allclose(np.sort(flow.s), np.sort(np.divide(cross, power)), rtol=1e-12)
    np.testing.assert_allclose(np.sort(z0.a), np.sort(start), rtol=1e-12)
    assert verdict.errors["DeepMode"] < 1e-8


def test_orthogonal_planes_are_two_layer_mode_by_mode_whatever_the_imbalance():
    gen = rng(8)
    inputs, outputs = orthonormal(gen, 3, 2), orthonormal(gen, 3, 2)
    power = np.array([1.7, 0.6, 0.9])
    axes = np.concatenate([inputs, np.linalg.svd(inputs)[0][:, 2:]], axis=1)
    X = np.sqrt(20 * power) * orthonormal(gen, 20, 3) @ axes.T
    Y = X @ inputs @ np.diag([1.5, -0.8]) @ outputs.T
    hidden = orthonormal(gen, 6, 4)
    u, v = (np.concatenate([hidden[:, :2] @ gen.normal(size=(2, 1)), hidden[:, 2:] @ gen.normal(size=(2, 1))], axis=1)
            for _ in range(2))  # fmt: skip
    rates = (0.5, 1.4)
    weights = unreduced((v @ inputs.T, outputs @ u.T), rates)
    verdict = ls.applies(weights, (X, Y), rates)
    assert verdict.exact == ("TwoLayer per mode",)
    assert_followed(verdict, weights, X, Y, rates, "TwoLayer per mode")


def test_single_layer_is_deep_mode_of_depth_one_on_any_data():
    gen = rng(9)
    X, Y, W = gen.normal(size=(15, 3)), gen.normal(size=(15, 2)), gen.normal(size=(2, 3))
    verdict = ls.applies([W], (X, Y), [0.7])
    assert verdict.exact == ("DeepMode",)
    assert_followed(verdict, [W], X, Y, [0.7], None)


def test_inputs_and_outputs_that_nothing_uses_do_not_count():
    # anisotropic inputs and three outputs, but start and target live in one direction of each
    gen = rng(10)
    covariance, cross = np.diag([2.0, 1.0, 0.3]), np.zeros((3, 3))
    cross[1, 0] = 1.5
    w1, w2 = np.zeros((4, 3)), np.zeros((3, 4))
    w1[:, 0], w2[1] = gen.normal(size=(2, 4))
    verdict = ls.applies([w1, w2], (covariance, cross), covariances=True)
    assert {"TwoLayer", "WhitenedTwoLayer"} <= set(verdict.exact)
    assert max(verdict.errors.values()) < 1e-8
    w1[0, 1] = 1e-3
    assert not ls.applies([w1, w2], (covariance, cross), covariances=True).exact


def test_rows_along_the_target_are_exact_in_a_white_space_of_any_dimension():
    # imbalanced, with two eigenvalues of its own; the directions across the target stay empty
    gen = rng(11)
    beta, a, w = orthonormal(gen, 4, 1)[:, 0], gen.normal(size=5), gen.normal(size=5)
    verdict = ls.applies([np.outer(w, beta), a], (np.eye(4), 1.5 * beta), covariances=True)
    assert {"WhitenedTwoLayer", "TwoLayer"} <= set(verdict.exact)
    assert verdict.errors["WhitenedTwoLayer"] < 1e-8


# what is not


def gaussian_case(seed, widths=(3, 5, 4), scale=0.4):
    gen = rng(seed)
    weights = [scale * gen.normal(size=(b, a)) for a, b in itertools.pairwise(widths)]
    X = gen.normal(size=(30, widths[0]))
    return weights, (X, X @ gen.normal(size=(widths[0], widths[-1])) + gen.normal(size=(30, widths[-1])))


def test_generic_start_is_nothing_and_says_why():
    weights, data = gaussian_case(0)
    verdict = ls.applies(weights, data)
    assert verdict.exact == ()
    judged = {a.name: a for a in verdict.assessments}
    assert {c.name for c in judged["WhitenedTwoLayer"].violated} == {"white inputs", "solvable imbalance"}
    assert {c.name for c in judged["TwoLayer"].violated} == {"data on a line", "one output"}
    assert {c.name for c in judged["DeepMode"].violated} == {"commuting covariance", "alignment", "balance"}
    assert all(0.01 < c.distance < 10 for a in verdict.assessments for c in a.violated)
    with pytest.raises(ls.NotExact, match=r"white inputs = 0\.\d+.*verdict.nearest is WhitenedTwoLayer \(start"):
        verdict.flow("WhitenedTwoLayer")
    with pytest.raises(ls.NotExact, match="alignment"):
        verdict.flow()
    with pytest.raises(ValueError, match="did you mean 'DeepMode'"):
        verdict.flow("DeepMod")
    said = " ".join(verdict.remarks)
    assert "general input covariance" in said
    assert "general imbalance" in said


def test_deep_and_unaligned_or_unbalanced_is_said_aloud():
    weights, data = gaussian_case(1, (3, 4, 4, 2))
    assert any("3 layers, not aligned" in r for r in ls.applies(weights, data).remarks)
    layers = aligned(rng(0), 3, [3, 3], np.array([0.5, 0.3]), np.eye(3)[:, :2], np.eye(2))
    layers[1] *= 1.5
    verdict = ls.applies(layers, (np.eye(3), np.eye(2, 3)), covariances=True)
    assert verdict.exact == ()
    assert any("aligned but not balanced" in r for r in verdict.remarks)


def test_distances_are_those_of_the_definitions():
    w1, w2 = np.diag([1.0, 2.0]), np.diag([3.0, 2.0])
    verdict = ls.applies([w1, w2], (np.diag([1.0, 3.0]), np.eye(2)), covariances=True)
    found = {c.name: c for a in verdict.assessments for c in a.conditions if a.name == "WhitenedTwoLayer"}
    assert found["white inputs"].distance == pytest.approx(np.sqrt(2 / 10))  # diag(1, 3) from diag(2, 2)
    assert found["balance"].distance == pytest.approx(8 / 18)  # diag(9, 4) - diag(1, 4)
    assert found["lambda-balance"].distance == pytest.approx(np.sqrt(32) / 18)
    assert "lambda 4" in found["lambda-balance"].detail
    line = {c.name: c for a in verdict.assessments for c in a.conditions if a.name == "TwoLayer"}
    assert line["data on a line"].distance == pytest.approx(0.5)


@pytest.mark.parametrize("widths", [(2, 3, 2), (2, 400, 2), (2, 3, 4, 2)])
def test_frozen_kernel_is_never_claimed_and_its_change_is_the_kernels(widths):
    gen = rng(3)
    weights = [gen.normal(size=(b, a)) / np.sqrt(a) for a, b in itertools.pairwise(widths)]
    X, Y = gen.normal(size=(6, 2)), gen.normal(size=(6, 2))
    rates = gen.uniform(0.5, 2.0, len(weights))
    verdict = ls.applies(weights, (X, Y), rates, until=0.4)
    assert "FrozenKernel" not in verdict.exact
    kernels = []
    for layers in (weights, train(weights, X, Y, rates, np.array([0.0, 0.4]))[1]):
        kernel = 0
        for i, rate in enumerate(rates):
            after, before = product([*layers[i + 1 :], np.eye(2)]), product([np.eye(2), *layers[:i]])
            kernel = kernel + rate * np.kron(after @ after.T, X @ before.T @ before @ X.T)
        kernels.append(kernel)
    change = np.linalg.norm(kernels[1] - kernels[0]) / np.linalg.norm(kernels[0])
    condition = next(a for a in verdict.assessments if a.name == "FrozenKernel").conditions[0]
    assert condition.distance == pytest.approx(change, rel=1e-6)
    with pytest.raises(ls.NotExact, match="constant kernel"):
        verdict.flow("FrozenKernel")


# bounds


def assert_bounded(verdict):
    assert verdict.neighbors
    for near in verdict.neighbors:
        assert near.measured <= near.bound.value
        assert near.bound.value <= min(near.bound.gronwall, near.bound.energy)
        assert near.measured <= near.bound.gronwall


@pytest.mark.parametrize("widths", [(3, 5, 4), (2, 9, 1), (4, 2, 3), (3, 4, 4, 2), (2, 2, 2, 2, 2)])
@pytest.mark.parametrize("scale", quick([0.4, 0.02, 1.0], 1))
@pytest.mark.quick(2)
def test_bound_dominates_the_measured_error(widths, scale):
    weights, data = gaussian_case(len(widths), widths, scale)
    rates = rng(1).uniform(0.3, 2.0, len(weights))
    assert_bounded(verdict := ls.applies(weights, data, rates))
    for part in (0.01, 0.1, 0.4):  # where Gronwall's bound is finite too
        assert_bounded(early := ls.applies(weights, data, rates, until=part * verdict.until))
    assert np.isfinite(early.neighbors[0].bound.energy)


def test_measured_error_is_that_of_the_trained_network():
    weights, (X, Y) = gaussian_case(4)
    verdict = ls.applies(weights, (X, Y), until=1.5)
    near = verdict.nearest
    times = np.linspace(0.0, 1.5, 129)
    found = near.match.map(near.match.flow(times, near.match.z0)) @ X.T
    right = np.stack([product(layers) @ X.T for layers in train(weights, X, Y, (1.0, 1.0), times)])
    error = np.sqrt(np.sum((found - right) ** 2, axis=(-2, -1)) / len(X)).max()
    assert near.measured == pytest.approx(error, rel=1e-7)
    assert near.measured == min(n.measured for n in verdict.neighbors)


def perturbed(kind, eps):
    gen = rng(12)
    if kind == "deep":
        weights = aligned(gen, 3, [3, 4], np.array([0.6, 0.4]), np.eye(3)[:, :2], np.eye(2))
        moments = np.eye(3), np.diag([2.0, 1.0]) @ np.eye(2, 3)
    else:
        weights = list(init(3, 3, 3, scale=1.0, imbalance=-0.5 if kind == "lambda" else 0.0, rng=gen))
        moments = np.eye(3), gen.normal(size=(3, 3))
    if kind == "inputs":
        noise = gen.normal(size=(3, 3))
        covariance = np.eye(3) + eps * (noise + noise.T)
        return weights, (covariance, moments[1] @ covariance)
    return [w + eps * gen.normal(size=w.shape) for w in weights], moments


@pytest.mark.parametrize(
    ("kind", "name"),
    [("balanced", "Whitened"), ("lambda", "Whitened"), ("inputs", "Whitened"), ("deep", "DeepMode")],
)
@pytest.mark.quick(2)
@pytest.mark.exhaustive
def test_bound_and_error_shrink_with_the_distance(kind, name):
    found = []
    for eps in (1e-3, 1e-5, 1e-7):
        verdict = ls.applies(*perturbed(kind, eps), covariances=True, until=1.0)
        assert verdict.exact == ()
        near = verdict.nearest
        assert near.name.startswith(name)
        assert near.moved_start <= 10 * eps
        assert near.moved_data <= 10 * eps
        assert_bounded(verdict)
        found.append((near.measured / eps, near.bound.gronwall / eps))
    errors, bounds = np.array(found).T
    np.testing.assert_allclose(errors[1:], errors[1], rtol=0.05)  # both linear in the distance
    np.testing.assert_allclose(bounds[1:], bounds[1], rtol=0.05)
    assert np.all(bounds < 100 * errors)
    exact = ls.applies(*perturbed(kind, 0.0), covariances=True, until=1.0)
    assert exact.exact[0].startswith(name)


@pytest.mark.exhaustive
def test_wide_random_start_is_recognized_and_approximate_at_one_over_root_width():
    # mean errors of the nearest case over seeds, at widths 16 apart: a factor 4
    means = []
    for width in (100, 1600):
        errors = []
        for seed in range(6):
            gen = rng(seed)
            sigma = np.sqrt(0.5 / width)  # lambda = 2 sigma^2 h = 1
            weights = [sigma * gen.normal(size=(width, 3)), sigma * gen.normal(size=(2, width))]
            verdict = ls.applies(weights, (np.eye(3), np.diag([1.5, 1.0]) @ np.eye(2, 3)), covariances=True, until=1.0)
            assert verdict.exact == ()
            assert "isotropic" in verdict.nearest.projection
            assert verdict.nearest.moved_start < 3 / np.sqrt(width)
            assert_bounded(verdict)
            said = next(r for r in verdict.remarks if "wide random" in r)
            assert f"{width} hidden units" in said
            assert "O(h^(-1/2))" in said
            assert abs(float(said.split("2 sigma^2 h = ")[1].split()[0]) - 1) < 5 / np.sqrt(width)
            errors.append(verdict.nearest.measured)
        means.append(np.mean(errors))
    assert 2.5 < means[0] / means[1] < 6.5
    few = ls.applies(*gaussian_case(0, (3, 5, 2)))
    assert not any("wide random" in remark for remark in few.remarks)


# warnings by the way


def test_parity_is_a_warning_not_a_violation():
    w = 0.5 * np.eye(2)
    verdict = ls.applies([w, w], (np.eye(2), np.diag([2.0, -1.0])), covariances=True)
    assert {"WhitenedTwoLayer", "DeepMode"} <= set(verdict.exact)
    assert sum("parity" in remark for remark in verdict.remarks) == 2
    right = ls.applies([w, w], (np.eye(2), np.diag([2.0, 1.0])), covariances=True)
    assert right.remarks == ()


@pytest.mark.parametrize(
    ("layers", "named"),
    [
        ((np.eye(2), np.eye(2)), "zero"),
        ((np.eye(2), 2 * np.eye(2)), "lambda = 3"),
        ((2 * np.eye(4, 2), np.eye(2, 4, 2)), "eigenvalues 1, -4"),
    ],
)
def test_the_condition_of_the_imbalance_names_the_nearest_solvable_one(layers, named):
    X = np.sqrt(2) * np.eye(2)
    (found,) = (
        c for a in ls.applies(layers, (X, X)).assessments for c in a.conditions if c.name.startswith("solvable")
    )
    assert found.ok
    assert found.detail == f"distance of the imbalance from a solvable one (nearest: {named})"


def test_saddle_of_the_line_and_missing_rank_are_said():
    u = np.array([0.3, -0.4])
    verdict = ls.applies([-u[:, None], u], ([[1.0], [2.0]], [1.0, 2.0]))
    assert any("stable manifold" in remark for remark in verdict.remarks)
    w1, w2 = init(3, 1, 3, scale=0.5, rng=0)
    bottleneck = ls.applies([w1, w2], (np.eye(3), np.diag([3.0, 2.0, 1.0])), covariances=True)
    assert any("3 modes, the narrowest layer 1 units; the loss stays above 2.5" in r for r in bottleneck.remarks)


@pytest.mark.parametrize("scale", [0.0, 1e-8])
def test_starts_at_zero_and_close_to_it(scale):
    gen = rng(2)
    weights = [scale * gen.normal(size=(3, 2)), scale * gen.normal(size=(2, 3))]
    verdict = ls.applies(weights, (np.eye(2), np.diag([2.0, 1.0])), covariances=True)
    assert bool(verdict.exact) == (scale == 0)
    assert np.isfinite(verdict.until)
    json.loads(verdict.to_json())


# what is printed


def test_table_and_json():
    weights, data = gaussian_case(0)
    verdict = ls.applies(weights, data)
    text, report = str(verdict), verdict.report()
    assert text.startswith("3-5-4 linear network: NOT EXACT\nNearest exact case: WhitenedTwoLayer, start balanced")
    assert f"error of using it: {verdict.nearest.measured:.2g} (" in text
    assert "To make it exact as WhitenedTwoLayer, bring to 0:\n  FAIL white inputs" in text
    assert "DeepMode" not in text  # other flows only in the report
    assert report.startswith("3-5-4 linear network: NOT EXACT\nTwoLayer: not exact")
    assert "DeepMode: not exact" in report
    assert "bound of the first: Gronwall inf" in report
    found = json.loads(verdict.to_json())
    assert found["exact"] == []
    assert found["neighbors"][0]["bound"]["gronwall"] is None
    assert found["neighbors"][0]["measured"] == verdict.nearest.measured
    assert {flow["name"] for flow in found["flows"]} >= {"TwoLayer", "WhitenedTwoLayer", "DeepMode", "FrozenKernel"}
    exact = str(ls.applies([np.eye(2), np.eye(2)], (np.eye(2), np.diag([3.0, 2.0])), covariances=True))
    assert exact.startswith("2-2-2 linear network: exact as WhitenedTwoLayer")
    assert "WhitenedTwoLayer: differs by" in exact
    assert "Near" not in exact
    assert "FAIL" not in exact


@pytest.mark.parametrize("zero", [0, 1])
def test_a_layer_of_zeros_is_judged(zero):
    gen = np.random.default_rng(3)
    layers = [gen.normal(size=(3, 4)), gen.normal(size=(2, 3))]
    layers[zero] *= 0
    X = gen.normal(size=(20, 4))
    verdict = ls.applies(layers, (X, X @ gen.normal(size=(4, 2))))
    assert not verdict.exact
    assert all(np.isfinite(neighbor.measured) for neighbor in verdict.neighbors)


# what is refused

GOOD = ([[1.0, 2.0], [3.0, 5.0], [0.0, 1.0]], [[1.0], [2.0], [0.0]])
LAYERS = [np.ones((3, 2)), np.ones((1, 3))]


@pytest.mark.parametrize(
    ("weights", "data", "options", "message"),
    [
        ([], GOOD, {}, r"weights = \[\] must be a list"),
        (3.0, GOOD, {}, "weights = 3.0 must be a list"),
        (np.ones((3, 2)), GOOD, {}, r"W1 has shape \(2,\) but must be"),
        ([np.ones((3, 2)), np.ones((1, 4))], GOOD, {}, r"W2 has shape \(1, 4\) but must have 3 columns"),
        ([np.ones((3, 2)), np.ones((0, 3))], GOOD, {}, "W2 has shape .* empty"),
        ([np.full((3, 2), np.nan), np.ones(3)], GOOD, {}, "W1 = nan at index .* is not a number"),
        ([np.ones((3, 2)), [1.0, np.inf, 0.0]], GOOD, {}, "W2 = inf .* must be finite"),
        (LAYERS, GOOD[0], {}, r"data must be the pair \(X, Y\), not list"),
        (LAYERS, (np.ones((3, 4)), GOOD[1]), {}, "X has 4 columns .* but the weights have 2"),
        (LAYERS, (GOOD[0], np.ones((3, 2))), {}, "Y has 2 columns .* but the weights have 1"),
        (LAYERS, (GOOD[0], [1.0, 2.0]), {}, "Y has 2 rows but X has 3"),
        (LAYERS, (np.zeros((3, 2)), GOOD[1]), {}, "X = 0 must have"),
        (LAYERS, (np.ones(3), GOOD[1]), {}, r"X has shape \(3,\) but must be \(samples, n_in\)"),
        (LAYERS, GOOD, {"rates": [1.0]}, r"rates has shape \(1,\) but must be \(2,\)"),
        (LAYERS, GOOD, {"rates": [1.0, -2.0]}, r"rates = -2.0 at index \(1,\) must lie in \[1e-100, 1e100\]"),
        (LAYERS, GOOD, {"rates": [1.0, 1e300]}, r"rates = 1e\+300 at index \(1,\) must lie in \[1e-100, 1e100\]"),
        ([1e100 * LAYERS[0], LAYERS[1]], GOOD, {}, r"W1 reaches .* but must not exceed 1e\+30"),
        (LAYERS, (1e200 * np.array(GOOD[0]), GOOD[1]), {}, r"X reaches .* but must not exceed 1e\+100"),
        (LAYERS, (1e-200 * np.array(GOOD[0]), GOOD[1]), {}, r"X reaches .* but must reach 1e-100"),
        (LAYERS, (np.ma.masked_less(GOOD[0], 1e9), GOOD[1]), {}, "X has masked entries"),
        (LAYERS, GOOD, {"until": -1.0}, r"until = -1.0 must be a number in \[1e-300, inf\)"),
        (LAYERS, GOOD, {"until": 1e-320}, r"until = 1e-320 must be a number in \[1e-300, inf\)"),
        (LAYERS, GOOD, {"until": 1e300}, r"until = 1e\+300 is .* times the time constant of the fastest mode but must"),
        (LAYERS, GOOD, {"until": np.ones(999)}, r"until = ndarray of shape \(999,\) must be a number"),
        (LAYERS, GOOD, {"covariances": True}, "Sigma_xx has 3 rows .* but the weights have 2"),
        (
            LAYERS,
            ([[1.0, 2.0], [0.0, 1.0]], [1.0, 0.0]),
            {"covariances": True},
            r"Sigma_xx - Sigma_xx\^T = 1 must vanish",
        ),
        (LAYERS, ([[1.0, 2.0], [2.0, 1.0]], [1.0, 0.0]), {"covariances": True}, "Sigma_xx has the eigenvalue -1"),
        (LAYERS, (np.zeros((2, 2)), [1.0, 0.0]), {"covariances": True}, "Sigma_xx = 0 must have an entry other than 0"),
        (
            LAYERS,
            ([[1.0, 0.0], [0.0, 0.0]], [1.0, 1.0]),
            {"covariances": True},
            "part of Sigma_yx outside the span of Sigma_xx = 1 ",
        ),
    ],
)
def test_bad_input_is_refused_by_name(weights, data, options, message):
    with pytest.raises(ValueError, match=f"^applies: {message}"):
        ls.applies(weights, data, **options)


def test_text_is_no_weight():
    with pytest.raises(TypeError, match=r"applies: W1 = .* is not made of real numbers"):
        ls.applies([np.array([["a", "b"]]), np.ones((1, 1))], GOOD)


# the command


@pytest.fixture
def files(tmp_path, monkeypatch):
    gen = rng(0)
    np.savez(tmp_path / "w.npz", W1=gen.normal(size=(5, 3)), W2=gen.normal(size=(2, 5)))
    np.savez(tmp_path / "lower.npz", w1=gen.normal(size=(5, 3)), w2=gen.normal(size=5))
    np.savez(tmp_path / "gap.npz", W1=np.eye(3), W3=np.eye(3))
    np.savez(tmp_path / "pickled.npz", W1=np.array([{}], dtype=object))
    np.savez(tmp_path / "text.npz", W1=np.array([["a"]]))
    np.savez(tmp_path / "d.npz", X=gen.normal(size=(20, 3)), Y=gen.normal(size=(20, 2)))
    np.savez(tmp_path / "line.npz", X=gen.normal(size=(20, 1)) * [1.0, 2.0, 0.5] + 1.0, Y=gen.normal(size=20) + 0.5)
    (tmp_path / "broken.npz").write_bytes(b"no archive")
    monkeypatch.chdir(tmp_path)


def test_command_prints_the_verdict(files, capsys):
    assert main(["applies", "w.npz", "d.npz", "--rates", "0.5,2"]) == 3
    assert "3-5-2 linear network: NOT EXACT" in capsys.readouterr().out
    assert main(["applies", "lower.npz", "line.npz", "--center", "--until", "0.2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["exact"][0] == "TwoLayer"
    assert found["until"] == 0.2
    assert main(["applies", "lower.npz", "line.npz"]) == 3  # not centered, off the line through the origin
    assert "NOT EXACT" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.npz", "d.npz"], "weights = none.npz does not exist"),
        (["gap.npz", "d.npz"], "without a gap"),
        (["pickled.npz", "d.npz"], "not an archive of plain arrays (W1 holds pickled objects)"),
        (["broken.npz", "d.npz"], "not an archive of plain arrays (it is text)"),
        (["text.npz", "d.npz"], "not real numbers"),
        (["d.npz", "d.npz"], "has an array X (neither a layer nor a bias)"),
        (["w.npz", "d.npz", "--rates", "1,x"], "rates = '1,x'"),
        (["w.npz", "d.npz", "--rates", "1,2,3"], "rates has shape (3,)"),
        (["w.npz", "line.npz"], "Y has 1 columns"),
    ],
)
def test_command_refuses_in_one_line(files, capsys, arguments, message):
    assert main(["applies", *arguments]) == 2
    caught = capsys.readouterr()
    assert caught.out == ""
    assert caught.err.count("\n") == 1
    assert message in caught.err


# precision of the numbers given


def at_precision(kind, dtype):
    """Return weights and samples of an exact case, rounded to a type."""
    gen = rng(7)
    X = white_samples(gen, 20, 4, 4)
    if kind == "line":
        X = gen.normal(size=(12, 1)) * gen.normal(size=4)
        weights, Y = [gen.normal(size=(5, 4)), gen.normal(size=(1, 5))], gen.normal(size=(12, 1))
    elif kind == "deep":
        inputs, outputs = orthonormal(gen, 4, 3), orthonormal(gen, 3, 3)
        weights = aligned(gen, 3, [4, 3], np.array([0.3, 0.2, 0.1]), inputs, outputs)
        Y = X @ inputs @ np.diag([2.0, 1.1, 0.8]) @ outputs.T
    else:
        weights = list(STARTS["lambda > 0" if kind == "imbalanced" else "balanced"](gen))
        if kind == "rank-deficient":
            X = white_samples(gen, 20, 4, 3)
            w1, w2 = init(3, 3, 3, scale=0.5, rng=gen)
            weights = [w1 @ np.linalg.svd(X)[2][:3], w2]
        Y = X @ gen.normal(size=(4, 3))
    return [w.astype(dtype) for w in weights], (X.astype(dtype), Y.astype(dtype))


EXACT_AT = {
    "balanced": "WhitenedTwoLayer",
    "imbalanced": "WhitenedTwoLayer",
    "rank-deficient": "WhitenedTwoLayer",
    "line": "TwoLayer",
    "deep": "DeepMode",
}


@pytest.mark.parametrize("kind", EXACT_AT)
@pytest.mark.parametrize(
    ("dtype", "unit"), [(np.float64, 1e-9), (np.float32, 16 * 2.0**-23), (np.float16, 16 * 2.0**-10)]
)
@pytest.mark.quick(6)
def test_numbers_are_judged_at_their_own_precision(kind, dtype, unit):
    weights, data = at_precision(kind, dtype)
    verdict = ls.applies(weights, data)
    assert EXACT_AT[kind] in verdict.exact
    assert verdict.tolerance == unit
    assert verdict.errors[EXACT_AT[kind]] <= (1e-8 if dtype is np.float64 else unit)
    said = f"a relative distance of {unit:.2g}, the precision of {np.dtype(dtype)} numbers" in str(verdict)
    assert said == (dtype is not np.float64)
    found = json.loads(verdict.to_json())
    assert (found["tolerance"], found["precision"]) == (unit, str(np.dtype(dtype)))


@pytest.mark.parametrize("kind", EXACT_AT)
@pytest.mark.parametrize("noise", quick([1e-12, 1e-3, 1e-7], 2))
@pytest.mark.quick(2)
def test_noise_within_the_tolerance_is_accepted_and_beyond_it_refused(kind, noise):
    weights, (X, Y) = at_precision(kind, np.float64)
    gen = rng(3)
    weights = [w + noise * gen.normal(size=w.shape) for w in weights]
    X = X + noise * gen.normal(size=X.shape)
    wide = ls.applies(weights, (X, Y), tolerance=100 * noise)
    assert EXACT_AT[kind] in wide.exact
    assert wide.errors[EXACT_AT[kind]] <= 1000 * noise
    strict = ls.applies(weights, (X, Y))
    assert (EXACT_AT[kind] in strict.exact) == (noise < 1e-9 / 20)


@pytest.mark.parametrize("value", [0.0, -1e-6, np.nan, 1.0, np.inf, "x", [1e-6, 1e-6]])
def test_bad_tolerances_are_refused(value):
    with pytest.raises((ValueError, TypeError), match=r"^applies: tolerance "):
        ls.applies(LAYERS, GOOD, tolerance=value)


# wide networks


WIDE = [(60, 60, 60, 2), (2, 50, 60, 10), (3, 80, 2), (50, 60, 3), (3, 70, 60, 1), (1, 120, 100, 110, 1)]


@pytest.mark.parametrize("scale", [0.3, 1.0])
@pytest.mark.parametrize("widths", quick(WIDE, lambda widths: widths in WIDE[:2]))
@pytest.mark.quick(1)
def test_a_wide_network_is_integrated_by_the_series_of_its_signals(monkeypatch, widths, scale):
    gen = rng(sum(widths))
    weights = [scale * gen.normal(size=(b, a)) / np.sqrt(a) for a, b in itertools.pairwise(widths)]
    X = gen.normal(size=(20, widths[0]))
    data, rates = (X, gen.normal(size=(20, widths[-1]))), gen.uniform(0.5, 2.0, len(weights))
    monkeypatch.setattr(integration, "SMALL", 10**9)
    whole = ls.applies(weights, data, rates)
    monkeypatch.setattr(integration, "SMALL", 0)
    monkeypatch.setattr(integration, "FEW", 0)
    network = network_module.read("applies", weights, data, rates, False)
    red = reduced(network)
    path = integration.followed(network, red, 0.05 * whole.until)  # before errors of either integration grow
    assert isinstance(path.model, integration.Signals)
    right = train(weights, *data, rates, path.times[:: len(path.times) // 4])
    into = [red.outputs.T @ product(layers) @ red.inputs for layers in right]
    gap = path.maps[:: len(path.times) // 4] - into
    assert np.abs(gap).max() <= 1e-12 * np.abs(path.maps).max()
    small = ls.applies(weights, data, rates, until=whole.until)
    assert [n.measured for n in small.neighbors] == pytest.approx([n.measured for n in whole.neighbors], rel=1e-8)
    assert [n.bound for n in small.neighbors] == [n.bound for n in whole.neighbors]
    change = [v.assessments[-1].conditions[0].distance for v in (small, whole)]
    assert change[0] == pytest.approx(change[1], rel=1e-9)
    assert ls.applies(weights, data, rates).until == pytest.approx(whole.until, rel=0.4)  # coarse steps


@pytest.mark.parametrize("zero", quick([0, 1, 2], 1))
@pytest.mark.exhaustive
def test_the_series_leaves_a_layer_that_is_zero_and_a_plateau(monkeypatch, zero):
    gen = rng(zero)
    weights = [0.2 * gen.normal(size=(b, a)) for a, b in itertools.pairwise((3, 6, 6, 2))]
    weights[zero] *= 0
    X = gen.normal(size=(9, 3))
    network = network_module.read("applies", weights, (X, X[:, :2]), None, False)
    red, end = reduced(network), 60.0
    whole = integration.followed(network, red, end)
    monkeypatch.setattr(integration, "SMALL", 0)
    monkeypatch.setattr(integration, "FEW", 0)
    found = integration.followed(network, red, end)
    assert isinstance(found.model, integration.Signals)
    assert np.abs(whole.maps[1]).max() < 0.2 < 0.7 < np.abs(whole.maps[-1]).max()
    assert np.abs(found.maps - whole.maps).max() <= 1e-9


def test_a_large_network_of_three_layers_is_judged_through_its_signals():
    gen = rng(1)
    weights = [gen.normal(size=(b, a)) / np.sqrt(a) for a, b in itertools.pairwise((120, 120, 120, 3))]
    X = gen.normal(size=(240, 120))
    network = network_module.read("applies", weights, (X, X[:, :3]), None, False)
    path = integration.followed(network, reduced(network), 0.2)
    assert isinstance(path.model, integration.Signals)
    right = train(weights, X, X[:, :3], np.ones(3), path.times[[0, -1]])[-1]
    red = reduced(network)
    gap = path.maps[-1] - red.outputs.T @ product(right) @ red.inputs
    assert np.abs(gap).max() <= 1e-12 * np.abs(path.maps).max()


# files of weights

W1, W2, W3 = (rng(k).normal(size=s) for k, s in enumerate([(5, 3), (4, 5), (2, 4)]))
NAMES = {
    "numbered": {"W1": W1, "W2": W2, "W3": W3},
    "lower case": {"w3": W3, "w1": W1, "w2": W2},
    "from zero": {"W0": W1, "W1": W2, "W2": W3},
    "savez": {"arr_0": W1, "arr_1": W2, "arr_2": W3},
    "two numbers": {"net.1.2.weight": W3, "net.1.0.weight": W1, "net.1.1.weight": W2},
    "torch sequential": {"0.weight": W1, "1.weight": W2, "2.weight": W3},
    "torch": {"fc1.weight": W1, "fc2.weight": W2, "fc3.weight": W3},
    "torch with biases": {"fc1.weight": W1, "fc1.bias": np.ones(5), "fc2.weight": W2, "fc3.weight": W3},
    "keras with biases": {"fc1.kernel": W1.T, "fc1.bias": np.ones(5), "fc2.kernel": W2.T, "fc3.kernel": W3.T},
    "keras": {"layers.0.kernel": W1.T, "layers.1.kernel": W2.T, "layers.2.kernel": W3.T},
    "flax": {"params/Dense_0/kernel": W1.T, "params/Dense_1/kernel": W2.T, "params/Dense_2/kernel": W3.T},
    "keras by default": {"dense_1/kernel:0": W2.T, "dense_2/kernel:0": W3.T, "dense/kernel:0": W1.T},
    "torch by default": {"net.fc_1.weight": W2, "net.fc.weight": W1, "net.fc_2.weight": W3},
    "numbered biases": {"W1": W1, "b1": np.zeros(5), "W2": W2, "W3": W3, "b3": np.ones((2, 1))},
}


@pytest.mark.parametrize("case", NAMES)
def test_every_layer_of_a_file_is_read_under_the_names_of_common_frameworks(tmp_path, case):
    np.savez(tmp_path / "w.npz", **NAMES[case])
    found = read_weights(tmp_path / "w.npz")
    for layer, right in zip(found.layers, (W1, W2, W3), strict=True):
        np.testing.assert_array_equal(layer, right)
    given = {1: "b1" in NAMES[case] or "fc1.bias" in NAMES[case], 2: False, 3: "b3" in NAMES[case]}
    assert (found.biases is None) == (not any(given.values()))
    for k, bias in enumerate(found.biases or [None] * 3, start=1):
        assert (bias is not None) == given[k]
    assert any("transposed" in note for note in found.notes) == ("keras" in case or case == "flax")
    assert any(note.startswith("layers, first to last") for note in found.notes) == ("W3" not in found.names)


@pytest.mark.parametrize("end", ["", ":0"])
def test_biases_of_chosen_layers_are_read(tmp_path, end):
    layers = {f"dense/kernel{end}": W1.T, f"dense_1/kernel{end}": W2.T, f"dense_2/kernel{end}": W3.T}
    biases = {f"dense/bias{end}": np.arange(5.0), f"dense_2/bias{end}": np.ones(2), f"out/bias{end}": np.ones(2)}
    np.savez(tmp_path / "w.npz", **layers, **biases)
    for names in (list(layers), list(layers)[:2]):
        found = read_weights(tmp_path / "w.npz", names=",".join(names))
        assert found.names == names
        np.testing.assert_array_equal(found.biases[0], np.arange(5.0))
        assert [b is None for b in found.biases] == [False, True, False][: len(names)]
        assert f"out/bias{end}" in found.notes[-1]
        assert f"dense/bias{end}" not in found.notes[-1]


REFUSED = {
    "gap of default names": ({"dense/kernel:0": W1.T, "dense_2/kernel:0": W2.T}, "dense_2/kernel:0 but must have all"),
    "zero twice": ({"fc.weight": W1, "fc_0.weight": W2, "fc_1.weight": W3}, "layers .* but must have all"),
    "bias of no layer": ({"W1": W1, "W2": W2, "b3": np.ones(5)}, "a bias b3 that belongs to none of the layers W1, W2"),
    "two biases": ({"W1": W1, "b1": np.ones(5), "B1": np.ones(5)}, "a bias B1 that belongs to none of the layers W1"),
    "bias of another shape": ({"W1": W1, "b1": np.ones(4)}, r"b1 of .* has shape \(4,\) but must be \(5,\)"),
    "bias of other names": ({"fc1.weight": W1, "fc.bias": np.ones(5)}, r"a bias fc\.bias that belongs to none"),
    "unknown array": ({"W1": W1, "W2": W2, "step": np.array(3)}, "an array step .neither a layer nor a bias"),
    "data": ({"W1": W1, "X": W1}, "an array X .neither a layer nor a bias"),
    "gap": ({"W1": W1, "W3": W3}, "layers W1, W3 but must have all of them"),
    "late start": ({"W2": W1, "W3": W2}, "layers W2, W3 but must have all of them"),
    "gap of a nonlinearity": ({"0.weight": W1, "2.weight": W2}, r"layers 0\.weight, 2\.weight but must have all"),
    "two cases": ({"W1": W1, "w2": W2}, "layers W1, w2 .their order cannot be told"),
    "one number twice": ({"W1": W1, "W01": W2}, "layers W1, W01 but must have"),
    "two kinds": ({"fc1.weight": W1, "out.weight": W2}, "their order cannot be told"),
    "weights and kernels": ({"a1.weight": W1, "a2.kernel": W2}, "their order cannot be told"),
    "only biases": ({"b1": np.zeros(3)}, r"must hold the layers W1, W2, \.\.\. .not b1"),
    "nothing": ({}, r"must hold the layers W1, W2, \.\.\. .not nothing"),
    "nan": ({"fc1.weight": W1 * np.nan}, r"fc1\.weight of .* = nan at index .0, 0. must be finite"),
    "inf": ({"W1": W1, "W2": np.full((4, 5), np.inf)}, "W2 of .* = inf at index"),
    "complex": ({"W1": W1 * 1j}, "W1 of .* has entries of type complex128"),
    "pickled": ({"W1": np.array([{}], dtype=object)}, "W1 holds pickled objects"),
    "pickled beside layers": ({"W1": W1, "opt": np.array([{}], dtype=object)}, "opt holds pickled objects"),
    "empty": ({"W1": np.zeros((0, 3))}, r"W1 of .* has shape \(0, 3\), which is empty"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_no_array_of_a_file_is_dropped(tmp_path, case):
    arrays, message = REFUSED[case]
    np.savez(tmp_path / "w.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        read_weights(tmp_path / "w.npz")


@pytest.mark.parametrize("names", [None, ["fc1.weight", "fc2.weight", "fc3.weight"]])
def test_transposed_layers_are_said_to_be(names):
    X, Y = rng(0).normal(size=(9, 3)), rng(1).normal(size=(9, 2))
    first = (names or ["W1"])[0]
    with pytest.raises(ValueError, match=rf"the layers are transposed: pass {first}\.T, "):
        judge([W1.T, W2.T, W3.T], (X, Y), None, False, None, None, names)
    with pytest.raises(ValueError, match=r"W1 has shape \(3, 2\) .* the layers are transposed: pass W1\.T"):
        ls.applies([np.ones((3, 2))], (X, Y))
    with pytest.raises(ValueError, match=r"W2 has shape \(4, 6\) but must have 5 columns"):
        ls.applies([W1, np.ones((4, 6)), W3], (X, Y))


def test_layers_in_reversed_order_are_said_to_be():
    X, Y = rng(0).normal(size=(9, 3)), rng(1).normal(size=(9, 2))
    with pytest.raises(ValueError, match=r"last to first: pass \[W3, W2, W1\]"):
        ls.applies([W3, W2, W1], (X, Y))
    either = "the layers are in reversed order, last to first, or transposed; order them"
    with pytest.raises(ValueError, match=either):
        ls.applies([np.ones((3, 4)), np.ones((4, 3))], (X, X))
    with pytest.raises(ValueError, match=rf"W1 has shape \(2, 3\) but must be \(units, 2\) .*{either}"):
        ls.applies([np.ones((2, 3)), np.ones((3, 2))], (Y, Y))


@pytest.mark.parametrize("ask", [lambda *given: ls.solve(*given, 1.0), ls.applies], ids=["solve", "applies"])
def test_weights_and_data_that_are_swapped_are_named(ask):
    layers, data = [np.ones((5, 3)), np.ones((2, 5))], (np.ones((20, 3)), np.ones((20, 2)))
    with pytest.raises(
        ValueError, match=r"weights have shapes \(20, 3\) and \(20, 2\), .*weights and data are swapped"
    ):
        ask(data, layers)


def test_a_transposed_layer_is_not_taken_for_swapped_arguments():
    first, last = np.ones((7, 3)), np.ones((7, 2))
    for data, covariances in (((np.eye(3), np.ones((2, 3))), True), ((np.ones((2, 3)), np.ones((2, 2))), False)):
        with pytest.raises(ValueError, match=r"W2 has shape \(7, 2\) but must have 7 columns"):
            ls.applies([first, last], data, covariances=covariances)


def test_data_must_be_a_pair():
    X, Y = rng(0).normal(size=(9, 3)), rng(1).normal(size=(9, 2))
    with pytest.raises(ValueError, match=r"solve: data must be the pair \(X, Y\), not ndarray .*as one argument"):
        ls.solve([W1, W2, W3], X, Y, 1.0)
    with pytest.raises(ValueError, match=r"applies: data must be the pair \(Sigma_xx, Sigma_yx\), not tuple of 3"):
        ls.applies([W1, W2, W3], (X, Y, Y), covariances=True)


def test_the_command_tells_what_it_read_and_how_it_ends(files, capsys):
    np.savez("keras.npz", **{"d0.kernel": rng(0).normal(size=(3, 5)), "d1.kernel": rng(1).normal(size=(5, 1))})
    np.savez("zero.npz", W1=rng(0).normal(size=(5, 3)), W2=rng(1).normal(size=(1, 5)), b1=np.zeros(5))
    assert main(["applies", "keras.npz", "line.npz", "--center"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("3-5-1 linear network: exact as TwoLayer")
    assert "Note: layers, first to last: d0.kernel, d1.kernel.\nNote: d0.kernel, d1.kernel: shape" in out
    assert main(["applies", "zero.npz", "line.npz", "--center", "--all"]) == 0
    out = capsys.readouterr().out
    assert "Note: biases: the bias of the first layer acts as the weight of a constant input 1." in out
    assert "FrozenKernel: not exact" in out
    assert main(["applies", "w.npz", "d.npz", "--tolerance", "1e-20"]) == 2


def test_one_layer_of_zero_weights_has_a_horizon():
    X = rng().normal(size=(40, 4))
    verdict = ls.applies([np.zeros(4)], (X, X[:, 0]))
    assert "DeepMode" in verdict.exact
    assert 0.5 < verdict.until < 50.0


def test_applies_costs_nothing_to_import():
    code = "import sys, linsolve; print('scipy' in sys.modules, 'linsolve.solvability.decision' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("size", [1e6, 1e9, 1e12])
def test_the_error_of_an_imbalanced_network_is_that_of_the_closed_form(size):
    target = rng(3).normal(size=(2, 3))
    samples = np.sqrt(3) * np.eye(3), np.sqrt(3) * target.T
    verdict = ls.applies([size * np.eye(3), np.zeros((2, 3))], samples)
    assert set(verdict.exact) == {"WhitenedTwoLayer", "TwoLayer per mode"}
    assert all(error <= 1e-11 for error in verdict.errors.values())
    assert 1.0 <= verdict.until * size**2 <= 3.0  # about log(20)/2 learning times


@pytest.mark.parametrize("shapes", [((1, 1), (1, 1)), ((9, 3), (2, 9)), ((4, 3), (2, 4)), ((2, 3),)])
def test_a_tiny_layer_is_judged_by_the_flows_whose_state_has_no_squares(shapes):
    weights = [rng(k).normal(size=shape) for k, shape in enumerate(shapes)]
    weights[0] *= 1e-160
    X = rng(5).normal(size=(20, shapes[0][1]))
    verdict = ls.applies(weights, (X, X[:, : shapes[-1][0]]))
    assert all(error <= 1e-10 for error in verdict.errors.values())
    assert ("TwoLayer" in verdict.exact) == (shapes[0] == (1, 1))
    if len(shapes) == 2:
        white = next(each for each in verdict.assessments if each.name == "WhitenedTwoLayer")
        assert "range of doubles" in [condition.name for condition in white.violated]
        assert "WhitenedTwoLayer" not in verdict.exact
