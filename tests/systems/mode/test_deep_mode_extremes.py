"""DeepMode from starts, at times and with rates of every size, against the closed form of its time at many digits."""

import mpmath
import numpy as np
import pytest
from selection import quick

import linsolve as ls
from benchmarks.accuracy_deep_mode import time_between

DEPTHS = [1.5, 2.0, 2.0001, 2.5, 100.0, 1e8, np.inf]


def far_modes(rng, count):
    """Return depths, targets, time constants, starts and times, sizes drawn from 1e-300 to 1e300 or near 1."""
    depth = rng.choice(DEPTHS, count)
    s, a0, tau = (10.0 ** np.where(rng.random(count) < 0.5, rng.uniform(-300, 300, count), 0) for _ in range(3))
    s, a0 = s * rng.choice([-1, 1], count), a0 * rng.choice([-1, 1], count) * rng.uniform(0.1, 10, count)
    a0 = np.where(depth < 2, np.sign(s) * np.abs(a0), a0)
    s = np.where(rng.random(count) < 0.1, 0.0, s)
    context, t = mpmath.MPContext(), np.empty(count)
    for k in range(count):  # times of the order of the fall from a0, or of the approach to s
        size = abs(context.mpf(a0[k] if rng.random() < 0.5 or s[k] == 0 else s[k]))
        gain = 1 if depth[k] == np.inf else depth[k]
        rate = gain * size ** (2 - 2 / context.mpf(depth[k])) / context.mpf(tau[k])
        t[k] = min(max(float(10 ** rng.uniform(-3, 2) / rate), 5e-324), 1e308)
    return depth, s, tau, a0, t


def error(depth, s, tau, a0, t, a):
    """Return the relative error of `a` over one plus the condition: exact time of `a` minus `t`, times the speed."""
    mp = mpmath.MPContext()
    mp.dps = 700
    x, goal, start, time = (mp.mpf(float(v)) for v in (a, s, a0, t))
    time /= mp.mpf(float(tau))
    gain, p = 1 if depth == np.inf else mp.mpf(float(depth)), 2 - 2 / mp.mpf(float(depth))
    speed = gain * abs(x) ** p * (goal - x)
    off = (time_between(mp, start, x, goal, float(depth)) - time) * speed
    return float(abs(off / x) / (1 + abs(time * speed / x)))


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.exhaustive)])
@pytest.mark.exhaustive
def test_strengths_of_every_size_are_those_of_the_closed_form(count):
    checked = 0
    for depth, s, tau, a0, t in zip(*far_modes(np.random.default_rng(count), count), strict=True):
        a = float(ls.DeepMode(s=s, depth=depth, tau=tau)(t, a0)["a"])
        if abs(a) < 1e-300 or abs(a - s) < 1e-9 * abs(s) or a == a0:
            continue  # subnormal, converged or not yet moved: checked below
        checked += 1
        assert error(depth, s, tau, a0, t, a) <= 1e-12, (depth, s, tau, a0, t, a)
    assert checked > count / 3


@pytest.mark.parametrize("seed", range(2))
def test_strengths_of_every_size_move_from_the_start_to_the_limit(seed):
    depth, s, tau, a0, t = far_modes(np.random.default_rng(seed), 500)
    times = np.stack([0 * t, t / 1e6, t / 10, t, np.minimum(t, 1e307) * 10, np.full(t.shape, np.inf)])
    flow = ls.DeepMode(s=s, depth=depth, tau=tau)
    with np.errstate(over="ignore"):  # in branches that are not chosen, as in a call of the flow
        found = np.stack([flow.solution(np, row, flow.State(a0)).a for row in times])
    np.testing.assert_array_equal(found[0], a0)
    np.testing.assert_array_equal(found[-1], flow.limit(np, flow.State(a0)).a)
    steps = np.diff(found, axis=0) * np.where(found[-1] >= a0, 1, -1)
    assert (steps >= -1e-12 * np.maximum(np.abs(found[1:]), np.abs(found[:-1]))).all()


def test_a_start_of_any_size_falls_to_the_target_after_an_infinitesimal_time():
    # as Lambert's function; the time to fall from -1e140 to order 1 is below 1e-100
    found = ls.DeepMode(s=2, depth=np.inf)([0.1, 1.0], [-1e140, -1e300])["a"]
    np.testing.assert_allclose(found[:, 0], found[:, 1], rtol=1e-15)
    near = ls.DeepMode(s=2, depth=np.inf)([0.1, 1.0], -1e60)["a"]
    np.testing.assert_allclose(found[:, 0], near, rtol=1e-13)  # eighth roots


@pytest.mark.parametrize("engine", quick(["blocks", "compiled"], 1))  # the code of deep modes takes seconds to compile
def test_every_engine_returns_the_same_extreme_strengths(engine):
    if engine == "compiled":
        pytest.importorskip("llvmlite")
    depth, s, tau, a0, _ = far_modes(np.random.default_rng(7), 60)
    flow = ls.DeepMode(s=s, depth=depth, tau=tau)
    times = np.array([0.0, 1e-300, 1e-30, 1.0, 1e30, 1e300, np.inf])
    np.testing.assert_allclose(flow(times, a0, engine=engine)["a"], flow(times, a0, engine="plain")["a"], rtol=1e-13)
