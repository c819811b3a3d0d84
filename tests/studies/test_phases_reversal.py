"""A second task over angle and imbalance: times against raw weights, the start that never learns it."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from linsolve import phases
from linsolve.studies.phases import reversal


@pytest.fixture(scope="module")
def drawn():
    return phases.diagram("reversal", 24)


def raw(angle, imbalance, t):
    """Return output weight and input weights of one hidden unit at time t of the second task, after the first."""

    def trained(start, target, until):
        def rate(_, z):
            u, w = z[0], z[1:]
            error = target - u * w
            return np.append(w @ error, u * error)

        return solve_ivp(rate, (0, until), start, "DOP853", rtol=1e-13, atol=1e-15).y[:, -1]

    w = np.sqrt(max(-imbalance, 0) + 0.2)
    first = trained(np.array([np.sqrt(w**2 + imbalance), w, 0.0]), np.array([1.0, 0.0]), 40.0)
    return trained(first, np.array([np.cos(angle), np.sin(angle)]), t)


@pytest.mark.parametrize(("angle", "imbalance"), [(0.5, 1.0), (1.5, -1.0), (2.8, 0.3), (2.8, -1.5), (3.1, 0.0)])
def test_times_are_those_of_raw_weights(angle, imbalance):
    t = float(reversal.measured(np.array([angle]), np.array([imbalance]))[0, 0])
    u, *w = raw(angle, imbalance, t)
    target = np.array([np.cos(angle), np.sin(angle)])
    left = ((target - u * np.array(w)) ** 2).sum() / 2 / (1 - np.cos(angle))
    assert abs(np.log(left / reversal.SHARE)) <= 5e-3  # times are found to 3e-4
    for k in (0.99 * t, 1.01 * t):
        assert bool(reversal.unlearned(k, np.array(angle), np.array(imbalance))) == (k < t)


def test_beside_the_trap_the_output_weight_changes_its_sign_or_does_not():
    for imbalance in (-0.5, -2.0):
        trap = float(reversal._trap(np.array(imbalance)))
        omega = np.hypot(1, imbalance / 2)
        assert np.cos(trap) == pytest.approx(-(omega + imbalance / 2) / (omega - imbalance / 2), rel=1e-12)
        signs = [np.sign(raw(trap + move, imbalance, 40.0)[0]) for move in (-1e-3, 1e-3)]
        assert signs == [1.0, -1.0]
    assert reversal._trap(np.array([0.0, 2.0])).tolist() == [np.pi, np.pi]


def test_curves_follow_the_map_and_a_shifted_curve_does_not(drawn):
    misfit = drawn.misfit()
    assert max(misfit.values()) <= 1, misfit
    shifted = [each._replace(x=each.x - 15) if each.boundary == "never learned" else each for each in drawn.curves]
    assert type(drawn)(**{**vars(drawn), "curves": tuple(shifted)}).misfit()["never learned"] > 1.5


def test_balanced_layers_meet_a_plateau_that_grows_like_the_logarithm_of_the_distance_from_reversal():
    angle = np.pi - np.array([1e-2, 1e-3, 1e-4])
    times = reversal.measured(angle, np.array([0.0]))[0]
    assert np.abs(np.diff(times) - np.log(100)).max() <= 2e-3  # 1 + cos(angle) falls by 100 each time
