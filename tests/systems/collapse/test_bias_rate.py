"""The learning rate of the bias, zero included: raw weights, proof, limits, a condition that was too weak."""

import numpy as np
import pytest
from mutants.collapse import EXAMPLE, HEAD, UNEVEN, UNEVEN_START
from test_neural_collapse import constant_apart

import linsolve as ls
from linsolve.studies.collapse import follow

TIMES = np.array([0.05, 0.4, 1.5, 4.0])
RATES = [0.0, 0.4, 2.5]


def with_rate(flow, rate):
    return type(flow)(**{**flow.parameters(), "eta_b": rate})


@pytest.mark.parametrize("rate", RATES)
def test_a_constant_mode_follows_the_raw_weights(rate):
    f, *weights = constant_apart(0)
    f = with_rate(f, rate)
    found, expected = f(TIMES, f.of(*weights)), follow(ls.integrate, f, TIMES, weights, rtol=1e-12)
    for a, b in zip(found.state, expected.state, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-11)
    assert (np.ptp(found["b"], axis=0).max() == 0) == (rate == 0)


@pytest.mark.parametrize("rate", RATES)
def test_any_start_follows_the_raw_weights(rate):
    rng = np.random.default_rng(1)
    f = with_rate(ls.NeuralCollapse(2.0, 1.0, 0.5, 3, [3, 1, 2]), rate)
    weights = 0.5 * rng.normal(size=(4, 6)), 0.5 * rng.normal(size=(3, 4)), rng.normal(size=3)
    found = ls.integrate(f, TIMES, f.of(*weights), rtol=1e-12)
    expected = follow(ls.integrate, f, TIMES, weights, rtol=1e-12)
    for a, b in zip(found.state, expected.state, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("problem", [(HEAD[0], HEAD[1]), (UNEVEN, UNEVEN_START), EXAMPLE], ids=["head", "sizes", "all"])
@pytest.mark.quick(1)
def test_it_is_proved_from_the_loss(problem, rate):
    flow, z0 = problem
    report = ls.verify(with_rate(flow, rate), z0, checks=["definition", "velocity", "residual", "dop853"])
    assert report.ok, str(report)


class AtUnitRate(ls.FrozenHead):
    """The learning rate of the bias left out of its decay."""

    def _decays(self, xp, t, s):
        return super(AtUnitRate, with_rate(self, 1.0).cast(xp))._decays(xp, t, s)


class AtUnitRateAlone(ls.NeuralCollapse):
    """The learning rate of the bias left out where it relaxes alone."""

    def _bias_done(self, xp, t):
        return -xp.expm1(-self._count * t)


@pytest.mark.parametrize(("mutant", "problem"), [(AtUnitRate, HEAD), (AtUnitRateAlone, EXAMPLE)])
def test_mutants_are_rejected_by_the_residual(mutant, problem):
    flow, z0 = problem
    wrong = mutant(**{**flow.parameters(), "eta_b": 0.4})
    assert "residual" in ls.verify(wrong, z0, checks=["residual"]).failed


def test_without_a_bias_all_outputs_are_learned_by_the_features():
    # kernel of the constant direction mu_g: from small weights, H -> Y-like features of nonzero mean
    f = ls.FrozenHead(2.0, 1.0, 0.5, 3, 2, np.eye(3), 0.0)
    end = f(np.inf, (np.zeros((3, 6)), np.zeros(3)))
    np.testing.assert_allclose(end["h"], np.repeat(np.eye(3), 2, axis=1), atol=1e-14)
    np.testing.assert_array_equal(end["b"], 0)
    dead = ls.FrozenHead(2.0, 1.0, 0.5, 3, 2, np.zeros((3, 3)), 0.0)
    start = np.random.default_rng(0).normal(size=(3, 6))
    np.testing.assert_allclose(dead(np.inf, (start, np.ones(3)))["h"], start, rtol=1e-14)


def test_a_bias_of_even_and_uneven_parts_is_seen():
    # W^T (C b - 1) = 0, but class means turn the uneven part of the bias into the even one
    f, w = ls.NeuralCollapse(2.0, 1.0, 0.5, 3, 2), np.zeros((3, 4))
    w[1, 0] = w[2, 1] = 0.7
    start = f.of(np.zeros((4, 6)), w, np.full(3, 1 / 3) + np.array([0.5, 0.0, 0.0]))
    with pytest.raises(ls.NotExact, match=r"bias that classifier or features see = 0.354 must vanish"):
        f(1.0, start)


def test_negative_rates_are_refused():
    with pytest.raises(ValueError, match=r"FrozenHead: eta_b = -1.0 must lie in \[0, 1e300\] \(learning rate"):
        ls.FrozenHead(2.0, 1.0, 0.5, 3, 2, np.eye(3), -1.0)
