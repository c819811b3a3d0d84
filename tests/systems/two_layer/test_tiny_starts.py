"""Starts down to the smallest doubles: when they leave the saddle, and where they go, against textbook formulas."""

import sys

import mpmath
import numpy as np
import pytest
from test_hidden_mode import reference
from test_two_layer import bench

import linsolve as ls

SIZES = (1e-100, 1e-200, 1e-212, 1e-250, 1e-290, 2.3e-308)
AROUND = (1e-3, 0.3, 0.9, 0.98, 1.0, 1.02, 1.1, 1.3, 2.0, 1e4, np.inf)  # in units of the time of escape
LOST = 1400  # digits that the textbook's differences may lose: squares of 1e-308, times of 1e4 escapes

mp = mpmath.MPContext()
mp.dps = 60 + LOST


def off(found, exact):
    """Return the distance of two vectors in units of the second, or of the denormal numbers it is made of."""
    found, exact = [mp.mpf(float(v)) for v in np.ravel(found)], [mp.mpf(v) for v in exact]
    gap = mp.sqrt(mp.fsum((a - b) ** 2 for a, b in zip(found, exact, strict=True)))
    size = mp.sqrt(mp.fsum(b * b for b in exact))
    return float(gap / max(size, mp.mpf(2) ** -1022))


def escape(size, rate):
    return -np.log(size) / rate


def modes(size, count=8):
    """Return flows of one mode and starts of this size: all layers tiny, either of them far larger, with zeros."""
    rng = np.random.default_rng(3)
    for kind in np.resize(["both", "w", "h", "zeros", "nearly aligned"], count):
        s, a, b = rng.choice([-1.0, 1.0]) * 10 ** rng.uniform(-3, 3), *10 ** rng.uniform(-3, 3, 2)
        w, h = (rng.choice([-1.0, 1.0], 3) * rng.uniform(1, 1.9, 3) * size for _ in range(2))
        if kind in ("w", "h"):
            larger = 10 ** rng.uniform(0, -np.log10(size))
            w, h = (w * larger, h) if kind == "w" else (w, h * larger)
        elif kind == "zeros":
            w[0] = h[2] = 0
        elif kind == "nearly aligned":
            b, h = a, -w * np.sign(s) * (1 + 2.0**-30)  # little of what grows, all of what decays
        yield kind, ls.HiddenMode(s=s, eta_w=a, eta_h=b), (w, h), escape(size, np.sqrt(a * b) * abs(s))


def worst_mode(size, **how):
    """Return the largest error of weights, residual and loss of modes from starts of this size."""
    found = {}
    for _, flow, start, clock in modes(size):
        t = clock * np.array(AROUND)
        traj = flow(t, start)
        for k, time in enumerate(t):
            s, a, b = (float(v) for v in (flow.s, flow.eta_w, flow.eta_h))
            w, h, r = reference(time, s, a, b, *start, lost=LOST, **how)
            now = {"w": w, "h": h, "residual": [r], "loss": [r * r / 2]}
            if time == np.inf:
                now |= {"residual": [0], "loss": [0]}
            for name, exact in now.items():
                found[name] = max(found.get(name, 0), off(traj[name][k], exact))
    return found


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.quick(2)
def test_a_mode_leaves_the_saddle_when_it_should(size):
    found = worst_mode(size)
    assert max(found["w"], found["h"]) < 1e-13, found
    assert max(found["residual"], found["loss"]) < 1e-12, found


@pytest.mark.parametrize("size", [1e-310, 5e-324])
def test_denormal_starts_are_as_exact_as_the_numbers_they_are_given_as(size):
    for pair in (([size, 0.0], [0.0, size]), ([-3 * size], [2 * size]), ([0.0, 2 * size], [0.0, 0.0])):
        start = [np.array(v) for v in pair]
        for s in (-2.0, 2.0):
            flow, clock = ls.HiddenMode(s=s, eta_w=0.5), escape(size, np.sqrt(0.5) * 2)
            t = clock * np.array([0.5, 0.9, 0.999, 1.01, 3.0])
            traj = flow(t, start)
            for k, time in enumerate(t):
                w, h, r = reference(time, s, 0.5, 1.0, *start, lost=LOST)
                assert max(off(traj["w"][k], w), off(traj["h"][k], h)) < 1e-13
                assert off(traj["loss"][k], [r * r / 2]) < 1e-12


def test_the_threshold_that_was_absolute_is_rejected(monkeypatch):
    """The known wrong form: without its unit, the smallest starts are taken for the saddle, or lose their digits."""
    monkeypatch.setattr(
        sys.modules["linsolve.systems.two_layer.rotated_layers"], "unit_for", lambda xp, tiny, like: 0 * like + 1
    )
    with np.errstate(all="ignore"):
        assert max(worst_mode(2.3e-308).values()) > 1e-3


def drawn(size, count, d, d0):
    """Return networks with starts of this size, couplings of all sizes, some of them special, and their clocks."""
    rng = np.random.default_rng(5)

    def sign(*shape):
        return rng.choice([-1.0, 1.0], shape)

    y, gamma = (10 ** rng.uniform(-3, 3, count) * sign(count) for _ in range(2))
    rates = [10 ** rng.uniform(-3, 3, count) for _ in range(2)]
    x = rng.uniform(1, 2, (count, d0)) * sign(count, d0)
    u, w = (rng.uniform(1, 2, shape) * sign(*shape) * size for shape in ((count, d), (count, d, d0)))
    kind = np.arange(count) % 6
    u = np.where((kind == 1)[:, None], 0, u)
    w = np.where((kind == 2)[:, None, None], 0, w)
    w = np.where((kind == 3)[:, None, None], w * 1e40, w)
    aligned = kind == 4  # exactly: on the stable, or the unstable, manifold of the saddle
    x = np.where(aligned[:, None], np.eye(d0)[0], x)
    rates = [np.where(aligned, 1.0, rate) for rate in rates]
    u = np.where(aligned[:, None], sign(count, 1) * w[:, :, 0], u)
    flow = ls.TwoLayer(y=y, gamma=gamma, eta_u=rates[0], eta_w=rates[1], x=x)
    return flow, flow.State(u, w), escape(size, 2 * bench._rate(flow, flow.State(u, w)))


@pytest.mark.parametrize("size", [*SIZES[:-1], 1e-303])
@pytest.mark.parametrize(("d", "d0"), [(3, 2), pytest.param(1, 1, marks=pytest.mark.exhaustive)])
@pytest.mark.quick(2)
def test_a_network_leaves_the_saddle_when_it_should(size, d, d0):
    """Weights, observables, limit, time to a loss and blow-up, from Theorem 1 in 1500 digits."""
    flow, start, clock = drawn(size, 12, d, d0)
    rng = np.random.default_rng(int(-np.log10(size)))
    loss = flow.y**2 * rng.random(12) ** rng.integers(1, 30, 12)
    for time in (0.5, 0.99, 1.02, 2.0):
        found = bench.errors(bench.Draws(flow, start, time * clock, loss), digits=60 + LOST)
        assert {name: v.max() for name, v in found.items() if v.max() > 1e-13} == {}


@pytest.mark.parametrize("size", [1e-212, 1e-290, 1e-303])
@pytest.mark.quick(1)
def test_backward_in_time_too(size):
    flow, start, _ = drawn(size, 12, 2, 1)
    end = flow.blow_up_time(np, start)
    assert (np.isfinite(end) | (np.arange(12) % 6 == 4)).all()  # on a manifold of the saddle it may last for ever
    t = np.where(np.isfinite(end), end, -1.0)
    for part in (1e-3, 0.5, 0.9, 0.97):
        found = bench.errors(bench.Draws(flow, start, part * t, flow.y**2 / 2), digits=60 + LOST)
        assert max(found[name].max() for name in ("u", "w", "ntk", "residual")) < 1e-12, part


def test_only_what_is_exactly_zero_stays_at_the_saddle():
    sizes = np.array([0.0, 5e-324, 1e-307, 1e-250, 1e-200])[:, None] * np.array([1.0, 1.0])
    for sign in (-1, 1):
        end = ls.HiddenMode(s=sign)(np.inf, (sizes, sign * sizes))
        np.testing.assert_array_equal(end["loss"], [0.5, 0, 0, 0, 0])
        np.testing.assert_allclose(np.abs(end["w"][1:]), np.sqrt(0.5), rtol=1e-15)
        stays = ls.HiddenMode(s=-sign)(np.array([1e3, np.inf]), (sizes, sign * sizes))  # aligned: no way out
        assert (np.abs(stays["w"]) <= 1e-200).all()
        assert (stays["loss"] == 0.5).all()
    never = ls.HiddenMode(s=1.0).when((sizes, sizes), loss=0.125)
    assert never[0] == np.inf
    assert np.isfinite(never[1:]).all()
    # p' = p (1 - p^2/a) ...: loss 1/8 is output 1/2, reached when 2 |w|^2 = 1: exp(2 t) = 1/(2 w^2) - 1 of two units
    np.testing.assert_allclose(never[2:], -np.log(sizes[2:, 0]) - np.log(2) / 2, rtol=1e-15)


def test_order_parameters_from_tiny_starts_and_tiny_couplings():
    mp_y = mp.mpf(-3)
    for P, Q, gamma in (
        (1e-300, 1e-307, 1.0), (1e-307, 0.0, -2.0), (1e-200, 1e-300, 1e-100), (1e-300, 1e-300, 1e-60),
        (0.0, 1e-307, 1e-120), (1e-300, 1e-300, 1e-160), (1.0, 1e-300, 1e-80),
    ):  # fmt: skip
        for sign in (-1, 1):
            flow, z0 = ls.TwoLayerOrder(y=-3.0 * sign, gamma=gamma), ls.TwoLayerOrder.State(P, Q, 0.0)
            g, kP, kQ = mp.mpf(gamma), mp.mpf(gamma) ** 2 * mp.mpf(P), mp.mpf(gamma) ** 2 * mp.mpf(Q)
            y = mp_y * sign
            c = mp.sqrt((g * y) ** 2 + 4 * kP * kQ)
            clock = 400 / abs(3 * gamma)
            t = clock * np.array([1e-3, 0.5, 0.8, 0.9, 1.0, 1.2, 2.0])
            found = flow(t, z0)
            for k, time in enumerate(t):
                T = mp.tanh(2 * c * mp.mpf(time)) / c
                A = (1 + (2 * kQ + g * y) * T) / (1 + (2 * kP - g * y) * T)
                r = g * (mp.mpf(P) * A - mp.mpf(Q) / A) - y
                assert off(found["P"][k], [mp.mpf(P) * A]) < 1e-13
                assert off(found["Q"][k], [mp.mpf(Q) / A]) < 1e-13
                assert off(found["loss"][k], [r * r]) < 1e-12


@pytest.mark.parametrize("size", [1e-140, 1e-212, 1e-300])
def test_a_lazy_network_on_a_tiny_reference(size):
    u, w, x = size * np.array([1.0, -0.5]), size * np.array([[0.25], [1.5]]), np.array([2.0])
    flow = ls.LazyTwoLayer(y=1.0, x=x, alpha=2.0, u0=u, w0=w)
    one = ls.TwoLayer(y=[0.5], gamma=[1.0], eta_u=[1.0], eta_w=[1.0], x=[x])
    exact = bench.Reference(bench.Draws(one, one.State(u[None], w[None]), None, None), 0, 60 + LOST)
    first = exact.at(0.0)
    t = escape(size, 2.0) * np.array([1e-4, 1e-2, 0.3, 0.99, 1.05, 2.0])
    found = flow(t, (u, w))
    for k, time in enumerate(t):
        then = exact.at(float(time))
        assert off(found["u"][k], then["u"]) < 1e-13
        assert off(found["F"][k], [2 * (then["output"] - first["output"])]) < 1e-13
        change = then["ntk"] / first["ntk"] - 1
        if change < 1e308:
            assert off(flow(time, (u, w))["kernel_change"], [change]) < 1e-13
        else:
            with pytest.raises(OverflowError, match="LazyTwoLayer: kernel_change leaves the range of doubles"):
                flow(time, (u, w))["kernel_change"]


def test_a_start_is_followed_as_before_beside_a_tiny_one():
    flow = ls.HiddenMode(s=1.5)
    w, h = np.array([[0.3, -0.2], [1e-300, 2e-300]]), np.array([[0.1, 0.7], [3e-300, 1e-300]])
    t = np.array([0.1, 1.0, 700.0])
    both, alone = flow(t, (w, h)), flow(t, (w[0], h[0]))
    for name in ("w", "h", "loss", "ntk"):
        np.testing.assert_array_equal(both[name][:, 0], alone[name])
