"""Depth against initialization: curves against integrals and closed forms, the map against the curves."""

import dataclasses

import mpmath
import numpy as np
import pytest
from scipy.special import lambertw

import linsolve as ls
from linsolve import phases
from linsolve.studies.phases import depth as depth_map

mp = mpmath.MPContext()
mp.dps = 30


@pytest.fixture(scope="module")
def drawn():
    return phases.diagram("depth", 40)


def points(drawn, boundary):
    """Return starts and inverse depths of a boundary."""
    return next((each.x, each.y) for each in drawn.curves if each.boundary == boundary)


def integral(low, high, inverse):
    """Return the time from `low` to `high` under ``y' = y^(2 - 2/L) (1 - y)``, to thirty digits."""
    p = 2 - 2 * mp.mpf(float(inverse))
    a, b = (mp.log(mp.mpf(v) / (1 - mp.mpf(v))) for v in (low, high))

    def pace(z):
        y = 1 / (1 + mp.exp(-z))
        return y ** (1 - p)

    return mp.quad(pace, mp.linspace(a, b, 8))


@pytest.mark.parametrize("t", depth_map.TIMES)
@pytest.mark.quick(3)
def test_isochrones_are_exact(drawn, t):
    y, x = points(drawn, f"t = {t}")
    assert len(y) > 40
    assert np.max(y[1:] / y[:-1]) <= 1.2  # the lines between neighbors look like the curve
    for k in range(0, len(y), 12):
        found = integral(float(y[k]), 1 - (1 - mp.mpf(float(y[k]))) / 10, x[k])
        assert float(found) == pytest.approx(t, rel=1e-9)


def test_at_two_layers_isochrones_are_elementary(drawn):
    t = np.array([3.0, 10.0])
    y = 9 / np.expm1(t)
    np.testing.assert_allclose(depth_map._time(y, 1 - (1 - y) / 10, np.full(2, 0.5)), t, rtol=1e-13)
    starts, x = points(drawn, "t = 10")
    assert np.interp(0.5, x[::-1], np.log(starts[::-1])) == pytest.approx(np.log(y[1]), abs=1e-2)


def test_the_wait_is_as_long_as_the_rise_on_its_curve(drawn):
    y, x = points(drawn, "wait = rise")
    for k in range(0, len(y), 15):
        wait, rise = integral(float(y[k]), "0.1", x[k]), integral("0.1", "0.9", x[k])
        assert float(wait / rise) == pytest.approx(1, rel=1e-9)
    assert np.interp(0.5, x[::-1], np.log(y[::-1])) == pytest.approx(np.log(1 / 730), abs=1e-2)
    wait, rise = depth_map._time(np.array([1 / 730, 0.1]), np.array([0.1, 0.9]), np.full(2, 0.5))
    assert wait == pytest.approx(rise, rel=1e-13)
    # at infinite depth 1/y - 1 is a Lambert W
    w = lambertw(np.exp(18 - 1 / 9 + 3 * np.log(9))).real
    assert (x[-1], y[-1]) == (0, pytest.approx(1 / (1 + w), rel=1e-10))


def test_growth_is_fastest_relative_to_itself_on_the_curve_of_escape(drawn):
    y, x = points(drawn, "escape")
    np.testing.assert_allclose(y, (1 - 2 * x) / (2 - 2 * x), rtol=1e-7)
    # d log(y'/y)/d log y = m - y/(1 - y), m = 1 - 2/L
    np.testing.assert_allclose(1 - 2 * x, y / (1 - y), atol=1e-14)


def test_each_e_fold_of_the_start_costs_more_only_above_two_layers():
    y = np.array([1e-8, 1e-6, 1e-4])
    for depth, gain in ((1.6, -1), (2.0, 0), (3.0, 1), (np.inf, 1)):
        times = depth_map._time(y, 0.5, np.full(3, 1 / depth))
        more = (times[0] - times[1]) / (times[1] - times[2]) - 1
        assert np.sign(more) * (abs(more) > 1e-3) == gain
        if gain > 0:  # a power of the start
            assert times[0] / times[1] == pytest.approx(100 ** (1 - 2 / depth), rel=0.05)


def test_the_kernel_doubles_on_its_curve(drawn):
    y, x = points(drawn, "kernel doubles")
    np.testing.assert_allclose(y, 2 ** (-1 / (2 - 2 * x)), rtol=1e-6)
    some = (x > 0.01) & (x < 0.99)
    flow = ls.DeepMode(s=1.3, depth=1 / x[some])
    metric = [flow.velocity(np, flow.State(a)).a / (1.3 - a) for a in (1.3 * y[some], np.full(some.sum(), 1.3 - 1e-9))]
    np.testing.assert_allclose(metric[1] / metric[0], 2, rtol=1e-7)


def test_the_map_is_the_time_of_the_closed_form(drawn):
    y, inverse = drawn.x.values, drawn.y.values[:, None]
    exact = depth_map._time(y + 0 * inverse, 1 - (1 - y) / 10, inverse + 0 * y)
    np.testing.assert_allclose(drawn.values, np.log10(exact), atol=1e-9)


def test_units_and_depth_are_those_of_the_mode():
    # eta = 0.4, s = 1.7: the time on the axis is eta L s^(2 - 2/L) times that of the mode
    depth, s, eta, y = np.array([1.5, 2.0, 4.0]), 1.7, 0.4, 1e-3
    flow = ls.DeepMode(s=s, depth=depth, tau=1 / eta)
    t = flow.time_to(np, flow.State(np.full(3, s * y)), loss=0.01 * (s - s * y) ** 2 / 2)
    found = depth_map._time(np.full(3, y), 1 - (1 - y) / 10, 1 / depth)
    np.testing.assert_allclose(t * eta * depth * s ** (2 - 2 / depth), found, rtol=1e-12)


# known-wrong forms


def replaced(drawn, boundary, x, y):
    curves = tuple(c._replace(x=x, y=y) if c.boundary == boundary else c for c in drawn.curves)
    return dataclasses.replace(drawn, curves=curves).misfit()[boundary]


def test_the_printed_learning_time_is_off_by_the_depth(drawn):
    """Atanasov et al. 2022, section 4.1.1: ``L/(s (L - 2)) sigma^(2 - L)``, an ``L`` too many."""
    x = np.linspace(0.01, 0.3, 100)
    small = {}
    for name, factor in (("as it should be", 1), ("as printed", 1 / x)):
        m = 1 - 2 * x
        small[name] = replaced(drawn, "t = 10000", (m * 1e4 / factor) ** (-1 / m), x)
    assert small["as it should be"] <= 1
    assert small["as printed"] > 4


def test_curves_of_another_depth_would_be_seen(drawn):
    for boundary in drawn.sides:
        y, x = points(drawn, boundary)
        assert replaced(drawn, boundary, y, x) <= 1
        off = x / (1 + 2 * x)  # two layers more
        assert replaced(drawn, boundary, y, off) > 1
