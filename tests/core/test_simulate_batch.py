"""The batched simulator: its order, its error estimate, and the closed forms against it on two array libraries."""

import array_api_strict
import numpy as np
import pytest
from selection import quick

import linsolve as ls
from linsolve import arithmetic
from linsolve.core.integrate_batch import _midpoint, simulate_batch

every_flow = pytest.mark.parametrize("cls", ls.flows.ALL, ids=lambda c: c.__name__)


def worst(found, exact):
    return max(
        float(np.max(np.abs(arithmetic.to_numpy(a) - arithmetic.to_numpy(b))))
        for a, b in zip(found, exact, strict=True)
    )


@pytest.mark.parametrize("order", [2, 4, 6, 8])
def test_the_order_is_what_it_says(order):
    flow = ls.TwoLayerOrder(y=[1.0, -0.5, 2.0], gamma=[1.0, 0.7, 1.2])
    z0 = ls.TwoLayerOrder.State(P=[0.5, 0.2, 0.3], Q=[0.1, 0.4, 0.3], R=[0.1, -0.2, 0.0])
    exact = flow([1.0], z0).state
    steps = {2: (0.02, 0.01), 4: (0.1, 0.05), 6: (0.25, 0.125), 8: (0.5, 0.25)}[order]
    errors = [worst(simulate_batch(flow, [1.0], z0, step=step, order=order).trajectory.state, exact) for step in steps]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.8)


def test_a_method_of_lower_order_is_seen(monkeypatch):
    # mutant: the odd number of substeps, whose error is not even in the step
    def wrong(flow, xp, z, slope, h, count):
        return _midpoint(flow, xp, z, slope, h, count + count // 2 % 2)

    monkeypatch.setattr("linsolve.core.integrate_batch._midpoint", wrong)
    flow = ls.BalancedMode(s=[1.0, 2.0])
    exact = flow([1.0], 0.3).state
    errors = [worst(simulate_batch(flow, [1.0], 0.3, step=h, order=8).trajectory.state, exact) for h in (0.25, 0.125)]
    assert np.log2(errors[0] / errors[1]) < 6


@pytest.mark.parametrize("order", [4, 8])
def test_the_error_estimate_is_the_error_of_the_coarse_steps(order):
    flow, t = ls.BalancedMode(s=np.linspace(0.5, 2.0, 7)), [0.5, 1.5, 1.0]
    found = simulate_batch(flow, t, 0.2, step=0.25, order=order)
    true = np.abs(found.trajectory["a"] - flow(t, 0.2)["a"])
    assert (true <= found.error.a + 1e-15).all()
    coarse = np.abs(simulate_batch(flow, t, 0.2, step=0.5, order=order).trajectory["a"] - flow(t, 0.2)["a"])
    big = coarse > 1e-13
    assert big.any()
    np.testing.assert_allclose(found.error.a[big], coarse[big], rtol=0.3)


@every_flow
@pytest.mark.parametrize("xp", quick([np, array_api_strict], 1), ids=["numpy", "strict"])
def test_closed_forms_are_what_is_simulated(cls, xp):
    flow, z0 = cls.example(np.random.default_rng(5))
    t = np.array([[0.0, 0.3], [0.1, 0.2]])
    there = flow.cast(xp), xp.asarray(t), cls.State(*(arithmetic.cast(xp, v) for v in z0))
    found = simulate_batch(*there, step=0.05, order=8)
    exact = flow(t, z0)
    assert all(arithmetic.namespace(v) is xp for v in found.trajectory.state)
    for name in z0._fields:
        assert tuple(found.trajectory[name].shape) == exact[name].shape
        size = 1 + np.max(np.abs(exact[name]))
        difference = np.abs(arithmetic.to_numpy(found.trajectory[name]) - exact[name])
        error = arithmetic.to_numpy(getattr(found.error, name))
        assert np.all(difference <= np.maximum(error, 1e-13 * size)), name
        assert np.max(difference) <= 1e-6 * size, name
    assert found.trajectory.route == "extrapolated midpoint rule of order 8"


def test_only_the_velocity_is_used():
    class Bare(ls.BalancedMode):
        def solution(self, xp, t, z0):
            raise AssertionError

    assert simulate_batch(Bare(s=1.0), 0.5, 0.1, step=0.1).trajectory["a"].shape == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": 5}, "simulate_batch: order = 5 must be an even integer"),
        ({"order": True}, "simulate_batch: order = True must be"),
        ({"step": 0.0}, "simulate_batch: step = 0.0 must be positive"),
        ({"step": 1e-12}, "simulate_batch: t / step = 1e.12 must be at most"),
        ({"t": -1.0}, "simulate_batch: t = -1.0 must be finite and not negative"),
        ({"t": np.inf}, "simulate_batch: t = inf must be finite"),
    ],
)
def test_what_cannot_be_simulated_is_refused(change, message):
    given = {"t": 1.0, "step": 0.1} | change
    with pytest.raises(ValueError, match=message):
        simulate_batch(ls.BalancedMode(s=1.0), given.pop("t"), 0.1, **given)


def test_divergence_is_said():
    with pytest.raises(ArithmeticError, match="BalancedMode diverged before t = 40 at step = 20"):
        simulate_batch(ls.BalancedMode(s=100.0), 40.0, 0.1, step=20.0)
