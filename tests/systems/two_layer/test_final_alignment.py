"""Alignment of the layers at the end of training (Xu and Ziyin 2024): law, bound, closed form."""

import numpy as np
import pytest
from mutants.alignment import LAWS

import linsolve as ls
from linsolve import TwoLayer, arithmetic
from linsolve.core.network import trained


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_the_law_has_its_orders(seed):
    report = ls.verify(ls.laws.FinalAlignment.example(np.random.default_rng(seed)))
    assert report.ok, str(report)


@pytest.mark.parametrize(
    "name", [name for name, mutant in LAWS.items() if mutant.law.__base__ is ls.laws.FinalAlignment]
)
def test_a_wrong_law_is_rejected(name):
    report = ls.verify(LAWS[name].law.example(np.random.default_rng(LAWS[name].seed)))
    assert LAWS[name].seen_by in report.failed, str(report)


def test_alignment_is_output_over_output_and_bivector_to_fifty_digits():
    rng, xp = np.random.default_rng(0), arithmetic.precise(60)
    flow, z0 = TwoLayer.example(rng)
    flow, z0 = flow.cast(xp), flow.State(*(xp.asarray(v) for v in z0))
    h = flow.hidden(xp, z0)
    squares = xp.sum(z0.u**2, axis=-1) * xp.sum(h**2, axis=-1) - xp.sum(z0.u * h, axis=-1) ** 2
    omega = xp.abs(flow.gamma) * xp.sqrt(squares)
    for t in (0.0, 0.3, 2.0):
        found = flow.along(xp, xp.asarray(t), z0)
        closed = xp.sign(flow.gamma) * found["output"] / xp.sqrt(found["output"] ** 2 + omega**2)
        assert np.max(arithmetic.to_numpy(xp.abs(found["alignment"] - closed))) <= 1e-50


@pytest.mark.parametrize("rates", [(1.0, 1.0), (3.0, 0.2)])
def test_trained_weights_end_as_the_formula_at_any_rates(rates):
    rng = np.random.default_rng(2)
    u, v, y = rng.normal(size=(1, 5)) / 2, rng.normal(size=(5, 1)) / 2, 0.9
    first, last = trained([v, u], [y], rates=rates)
    omega = np.sqrt(np.sum(u**2) * np.sum(v**2) - (u @ v).item() ** 2)
    cosine = (last @ first).item() / (np.linalg.norm(last) * np.linalg.norm(first))
    assert abs(cosine - y / np.hypot(y, omega)) <= 1e-10


def test_the_bound_holds_under_the_assumptions_of_the_source_and_not_beyond():
    K = np.logspace(-3, 3, 200)
    bounds = np.array([float(ls.laws.FinalAlignment(strength=k, xi=np.zeros(3)).bound(np)) for k in K])
    limits = K / np.hypot(K, 1)
    assert np.all(bounds <= limits)
    assert abs(bounds[0] / limits[0] - 1) <= K[0]  # equal to first order in K
    # Q = 5 P, K = 1: p = (u + v)/2 across q = (v - u)/2
    p, q = np.array([1.0, 0.0]), np.sqrt(5) * np.array([0.0, 1.0])
    flow, start = TwoLayer(y=2.0), TwoLayer.State(u=p - q, w=(p + q)[:, None])
    zeta = float(flow(np.inf, start)["alignment"])
    first, last = trained([start.w, start.u[None]], [2.0])
    assert abs(zeta - (last @ first).item() / (np.linalg.norm(last) * np.linalg.norm(first))) <= 1e-10
    assert zeta < bounds[np.argmin(abs(K - 1))]


def test_the_law_of_a_network_has_the_stated_error():
    errors, small = [], []
    for scale in (0.1, 0.05, 0.025):
        angle, u = np.pi / 2 - scale, np.array([1.0 + scale, 0.0])
        v = np.array([np.cos(angle), np.sin(angle)])
        weights = [np.outer(v, [0.6, 0.8]), 2.0 * u[None]]
        weights[0] *= 2.0
        X = np.outer([1.0, -2.0, 0.5], [0.6, 0.8])
        law = ls.laws.FinalAlignment.of(weights, (X, 3.0 * X @ [0.6, 0.8]))
        state = ls.solve(weights, (X, 3.0 * X @ [0.6, 0.8]), np.inf)
        h, a = state["w1"] @ [0.6, 0.8], state["w2"][0]
        errors.append(abs(law()["alignment"] / (a @ h / np.linalg.norm(a) / np.linalg.norm(h)) - 1))
        small.append(law.small)
        assert 0.99 <= errors[-1] / law().error["alignment"] <= 1.01
        assert law().orders["alignment"] == 2
    slopes = np.diff(np.log(errors)) / np.diff(np.log(small))
    assert np.abs(slopes - 2).max() <= 0.15
