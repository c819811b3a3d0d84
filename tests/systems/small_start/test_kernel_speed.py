"""Speed of the features against that of the loss."""

from itertools import pairwise

import numpy as np
import pytest
from mutants.alignment import LAWS

import linsolve as ls
from linsolve.core.network import deep_weights, gradient_flow, maps
from linsolve.systems.kernel_regime.tangent_deep import map_kernel
from linsolve.systems.small_start.kernel_speed import feature_speed


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_the_law_has_its_order(seed):
    report = ls.verify(ls.laws.KernelSpeed.example(np.random.default_rng(seed)))
    assert report.ok, str(report)


def test_a_wrong_law_is_rejected():
    mutant = LAWS["loss in the denominator"]
    assert mutant.seen_by in ls.verify(mutant.law.example(np.random.default_rng(1))).failed


def test_speeds_are_those_of_the_jacobian_by_differences():
    rng = np.random.default_rng(0)
    layers = [rng.normal(size=size) for size in ((4, 3), (5, 4), (2, 5))]
    target = rng.normal(size=(2, 3))
    moves = gradient_flow(np, layers, maps(layers), target - maps(layers)[-1], [1.0] * 3)

    def jacobian(h):
        moved, columns = [w + h * m for w, m in zip(layers, moves, strict=True)], []
        for k, layer in enumerate(layers):
            for index in np.ndindex(layer.shape):
                probe = [w.astype(complex) for w in moved]
                probe[k][index] += 1e-30j
                columns.append(maps(probe)[-1].imag.ravel() / 1e-30)
        return np.stack(columns)

    size, speed = feature_speed(np, layers, moves)
    assert abs(size / np.linalg.norm(jacobian(0.0)) - 1) <= 1e-13
    assert abs(size**2 / np.trace(map_kernel(np, layers, np.ones(3))) - 1) <= 1e-13
    h = 1e-4
    change = (8 * (jacobian(h) - jacobian(-h)) - (jacobian(2 * h) - jacobian(-2 * h))) / (12 * h)
    assert abs(speed / np.linalg.norm(change) - 1) <= 1e-9


def test_two_layers_have_the_closed_constant():
    """s sqrt((D |w|^2 + |a|^2) / (D |a|^2 + |W|_F^2)) / (2 (|a|^2 + |w|^2)), one output, white inputs."""
    rng, sigma = np.random.default_rng(1), 1e-3
    W, a, target = rng.normal(size=(5, 4)), rng.normal(size=5), rng.normal(size=4)
    s, w, D = np.linalg.norm(target), W @ target / np.linalg.norm(target), 4
    size = np.sum(a**2) + np.sum(w**2)
    inner = (D * np.sum(w**2) + np.sum(a**2)) / (D * np.sum(a**2) + np.sum(W**2))
    start = np.zeros((2, 5, 5))
    start[0][:, :4], start[1][0] = W, a
    law = ls.laws.KernelSpeed(start=start, target=target[None])
    closed = s * np.sqrt(inner) / (2 * size) / sigma**2
    assert abs(float(law.approximation(np, np.asarray(sigma))["ratio"]) / closed - 1) <= 1e-13


@pytest.mark.parametrize("widths", [(3, 4, 2), (6, 2, 3)])
def test_the_law_of_a_network_against_its_own_motion(widths):
    rng, rates = np.random.default_rng(2), np.array([0.5, 2.0])
    weights = [0.1 * rng.normal(size=(b, a)) for a, b in pairwise(widths)]
    X = np.sqrt(20.0) * np.linalg.qr(rng.normal(size=(20, widths[0])))[0]
    target = rng.normal(size=(widths[-1], widths[0]))
    traj = ls.laws.KernelSpeed.of(weights, (X, X @ target.T), rates)()
    equal = [np.sqrt(np.sqrt(np.prod(rates)) / rate) * w for rate, w in zip(rates, weights, strict=True)]
    flow = deep_weights(target, 2)
    moves = flow.velocity(np, flow.State(*equal))
    size, speed = feature_speed(np, equal, moves)
    fall = sum(np.sum(move**2) for move in moves)
    truth = speed / size * np.sum((target - equal[1] @ equal[0]) ** 2) / 2 / fall
    assert abs(traj["ratio"] / truth - 1) <= 5 * traj.error["ratio"]
    with pytest.raises(ValueError, match=r"^KernelSpeed: start = layers without gradient must have a gradient"):
        ls.laws.KernelSpeed(start=np.zeros((3, 2, 2)), target=[[1.0]]).approximation(np, 0.1)
