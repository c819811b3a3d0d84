"""Gradient descent of adapted steps, (8) and (9) of Geiger et al. (2020)."""

import mpmath
import numpy as np
import pytest

import linsolve as ls


def test_one_linear_mode_has_the_closed_step_and_clock():
    for epsilon in (1e-4, 1e-2):
        x = (np.sqrt(epsilon**2 + 4 * epsilon) - epsilon) / 2
        flow = ls.FrozenKernel(kernel=[[2.0]], y=[1.0])
        path = ls.adaptive_descent(flow, [0.0], 1.0, epsilon=epsilon)
        steps = np.diff(path.t)[:-1] * 2.0
        np.testing.assert_allclose(steps, x, rtol=1e-5)
        assert path.by_gradient[:-1].all()
        fast = -np.log1p(-x) / x
        np.testing.assert_allclose(path.state.f[:-1], flow(fast * path.t[:-1], [0.0])["f"], atol=1e-6)
        assert abs(fast - 1 - np.sqrt(epsilon) / 2) <= epsilon


def test_the_closed_step_solves_the_condition_to_fifty_digits():
    with mpmath.workdps(60):
        epsilon = mpmath.mpf("1e-4")
        x = (mpmath.sqrt(epsilon**2 + 4 * epsilon) - epsilon) / 2
        assert abs(x**2 / (1 - x) - epsilon) <= mpmath.mpf(10) ** -55


def test_both_conditions_hold_on_every_step_and_one_of_them_binds():
    flow, z0 = ls.LazyTwoLayer.from_lazy(0.02, 12, [1.0, 2.0], 3.0, rng=0)
    path = ls.adaptive_descent(flow, z0, 0.01, output="F")
    F = flow.F(np, path.state)
    assert np.abs(np.diff(F)).max() < 0.1 * (1 + 1e-9)
    flat = np.concatenate([np.reshape(v, (len(path.t), -1)) for v in flow.velocity(np, path.state)], axis=1)
    norms = np.linalg.norm(flat, axis=1)
    turned = np.sum(np.diff(flat, axis=0) ** 2, axis=1) / (norms[1:] * norms[:-1])
    assert turned.max() < 1e-4 * (1 + 1e-9)
    binding = np.maximum(turned / 1e-4, np.abs(np.diff(F)) / 0.1)
    np.testing.assert_allclose(binding[:-1], 1.0, rtol=1e-5)
    np.testing.assert_array_equal(path.by_gradient[:-1], turned[:-1] / 1e-4 > 1 - 1e-5)


def test_the_output_limits_the_steps_of_a_large_target():
    path = ls.adaptive_descent(ls.FrozenKernel(kernel=[[1.0]], y=[1e3]), [0.0], 0.01, output="f", epsilon=0.5)
    assert not path.by_gradient.any()
    np.testing.assert_allclose(np.abs(np.diff(path.state.f[:, 0]))[:-1], 0.1, rtol=1e-5)


def test_results_are_independent_of_epsilon_to_its_root():
    """Appendix G: 'independent of epsilon <= 1e-4', to O(sqrt(epsilon))."""
    flow, z0 = ls.LazyTwoLayer.from_lazy(0.5, 8, [1.0], 2.0, rng=1)
    t, errors = 0.2, []
    exact = float(flow(t, z0)["F"])
    for epsilon in (1e-4, 2.5e-5):
        path = ls.adaptive_descent(flow, z0, t, epsilon=epsilon)
        errors.append(abs(float(flow.F(np, type(z0)(*(v[-1] for v in path.state)))) - exact))
    assert errors[0] <= 0.02 * abs(exact)
    assert 1.8 <= errors[0] / errors[1] <= 2.2


def test_descent_stays_at_its_end():
    path = ls.adaptive_descent(ls.BalancedMode(s=2.0), 0.5, 1e4, epsilon=1e-2)
    assert path.t[-1] == 1e4
    assert abs(path.state.a[-1] - 2.0) <= 1e-8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"until": np.inf}, "until = inf"),
        ({"until": -1.0}, "until = -1"),
        ({"epsilon": 0.0}, "epsilon = 0"),
        ({"output": "g"}, "output = 'g' is unknown"),
        ({"z0": [0.1, 0.2]}, r"z0 has batch shape \(2,\) but must be one network"),
        ({"change": np.nan}, "change = nan"),
    ],
)
def test_bad_arguments_are_refused_by_name(change, message):
    given = {"flow": ls.BalancedMode(s=2.0), "z0": 0.5, "until": 1.0} | change
    with pytest.raises(ValueError, match=f"^adaptive_descent: {message}"):
        ls.adaptive_descent(**given)


def test_too_many_steps_are_refused():
    with pytest.raises(ArithmeticError, match=r"^adaptive_descent: until = 1 is too late .* 10 steps have"):
        ls.adaptive_descent(ls.BalancedMode(s=2.0), 0.5, 1.0, max_steps=10)
