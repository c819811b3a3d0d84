"""The rotation from N and D themselves or from their roots: right on both sides of the threshold, of each."""

import sys

import mpmath
import numpy as np
import pytest

import linsolve as ls
from linsolve import arithmetic
from linsolve.numerics.scalar import integral_of_decay
from linsolve.systems.two_layer import moderate_rotation
from linsolve.systems.two_layer.hyperbolic_rotation import Rotation, RotationFixed, RotationStart, rotation

EXACT = arithmetic.precise(80)
mp = mpmath.MPContext()
mp.dps = 60
TIMES = (0.0, 1e-300, 1e-9, 0.3, 1.0, 3.0, 20.0, np.inf)  # in units of 1/c; the last digits of exp are those of t


def networks(exponents, rng):
    """Return order parameters with lengths near these powers of two, and targets that matter beside them."""
    p, q = (np.ldexp(rng.uniform(0.6, 1.9, exponents[0].shape), e) for e in exponents)
    y = rng.choice([-1.0, 1.0], p.shape) * p * q * 2.0 ** rng.uniform(-3, 3, p.shape)
    flow = ls.TwoLayerOrder(y=y, gamma=rng.choice([-1.0, 1.0], p.shape))
    return flow, ls.TwoLayerOrder.State(p**2, q**2, p * q * rng.uniform(-1, 1, p.shape))


def worst(flow, z0):
    """Return the largest relative error of P, Q and the loss at several times, against 80 digits, times apart."""
    rate = np.hypot(flow.y, 2 * np.sqrt(z0.P) * np.sqrt(z0.Q))
    exact, start = flow.cast(EXACT), type(z0)(*(EXACT.asarray(v) for v in z0))
    found = []
    for time in TIMES:
        t = time / rate
        state, loss = flow.solution(np, t, z0), flow.along(np, t, z0)["loss"]
        far = EXACT.asarray(t)
        true, loss_true = exact.solution(EXACT, far, start), exact.along(EXACT, far, start)["loss"]
        for value, other in ((state.P, true.P), (state.Q, true.Q), (loss, loss_true)):
            size = np.abs(arithmetic.to_numpy(other))
            gap = np.abs(arithmetic.to_numpy(value.astype(object) - other))
            found.append(np.where(size > 1e-290, gap / np.where(size > 0, size, 1), 0).max())
    return max(found)


@pytest.mark.parametrize("middle", [0, 45, 99, -99, 140, -140])
@pytest.mark.quick(2)
def test_moderate_or_not_the_rotation_is_right(middle):
    rng = np.random.default_rng(abs(middle))
    shifts = rng.integers(-3, 4, (2, 20)) + middle
    flow, z0 = networks(shifts, rng)
    mild = flow._start(np, z0).mild
    assert mild.all() if abs(middle) < 49 else not mild.all()
    assert worst(flow, z0) < 1e-12


@pytest.mark.exhaustive
def test_lengths_of_very_different_size():
    rng = np.random.default_rng(7)
    flow, z0 = networks((rng.integers(-90, 90, 30), rng.integers(-90, 90, 30)), rng)
    assert worst(flow, z0) < 1e-12


def test_forming_sums_whatever_the_size_is_rejected(monkeypatch):
    """The known wrong form, N and D everywhere: small starts lose the time at which they leave the saddle."""
    P, Q = np.array([0.7]), np.array([1e-322])  # away from the saddle, when e^2 has long underflowed
    flow, z0 = ls.TwoLayerOrder(y=-1.3), ls.TwoLayerOrder.State(P, Q, np.array([0.0]))
    t = np.array([150.0])
    exact, start = flow.cast(EXACT), type(z0)(*(EXACT.asarray(v) for v in z0))
    true = float(exact.solution(EXACT, EXACT.asarray(t), start).Q[0])
    assert flow.solution(np, t, z0).Q[0] == pytest.approx(true, rel=1e-12)
    monkeypatch.setattr(sys.modules[RotationStart.__module__], "_mild", lambda xp, p, q, g, y: p + q > -1)
    with np.errstate(all="ignore"):
        assert flow.solution(np, t, z0).Q[0] != pytest.approx(true, rel=1e-6)


def test_hostile_values_stay_as_they_were():
    """Zeros, saddles, ends and denormals: no warning, no nan; the start itself at t = 0."""
    P, Q = (v.ravel() for v in np.meshgrid([0.0, 5e-324, 1e-300, 1.0, 1e30], [0.0, 5e-324, 1e-300, 1.0, 1e30]))
    for y in (-1e30, -1.0, 0.0, 1.0, 1e-200):
        for gamma in (0.0, 1e-120, -1.0, 1e15):
            flow, z0 = ls.TwoLayerOrder(y=y, gamma=gamma), ls.TwoLayerOrder.State(P, Q, 0 * P)
            for t in (0.0, 1e-300, 1.0, 1e300, np.inf):
                state = flow.solution(np, np.full(P.shape, t), z0)
                assert not any(np.isnan(v).any() for v in state)
                assert t or all(a.tobytes() == b.tobytes() for a, b in zip(state, z0, strict=True))


@pytest.mark.parametrize("scale", [1.0, 2.0**-60])
def test_a_network_that_is_right_already_stays_as_it_is(scale):
    flow = ls.TwoLayer(y=0.25 * scale**2, x=[1.0])
    z0 = flow.State(u=scale * np.array([0.5, 0.0]), w=scale * np.array([[0.5], [0.25]]))
    followed = flow(np.array([-1e9, -50.0, 0.0, 1e-9, 50.0, np.inf]) / scale**2, z0)
    for name in ("u", "w", "loss", "output", "ntk", "alignment"):
        value = followed[name]
        assert (value == value[2]).all() or (name == "output" and np.allclose(value, value[2], rtol=1e-15)), name
    order, start = ls.TwoLayerOrder.of(flow, z0)
    followed = order(np.array([-1e9, 0.0, 1.0, np.inf]) / scale**2, start)
    assert all((followed[name] == followed[name][1]).all() for name in ("P", "Q", "R", "ntk"))


def test_the_integral_of_decay_is_right_for_every_rate_and_time():
    rng = np.random.default_rng(1)
    rate = np.concatenate([rng.choice([-1.0, 1.0], 300) * 2.0 ** rng.uniform(-1000, 500, 300), np.zeros(3)])
    x = 2.0 ** rng.uniform(-80, 12, 303)
    with np.errstate(all="ignore"):
        t = np.clip(np.where(rate == 0, x, x / np.abs(rate)), 1e-300, 1e300) * rng.choice([-1.0, 1.0], 303)
    t = np.concatenate([t, [0.0, np.inf, -np.inf, np.inf]])
    rate = np.concatenate([rate, [2.0, 2.0, -4.0, 0.0]])
    found = integral_of_decay(np, t, rate)
    for a, b, value in zip(t.tolist(), rate.tolist(), found.tolist(), strict=True):
        if b == 0 or a == 0 or np.isinf(a):
            assert value == (a if b == 0 or a == 0 else np.sign(a) / abs(b))
            continue
        true = mp.sign(a) * -mp.expm1(-abs(mp.mpf(a) * mp.mpf(b))) / abs(mp.mpf(b))
        assert abs(value - true) <= 2.5 * mp.mpf(2) ** -52 * abs(true), (a, b)


def without_exceptions(flow, z0, rng):
    """Return the fields of the rotation whose bits differ between `moderate` and the formula with every branch."""
    own = flow._with(**{name: v[()] for name, v in flow.parameters().items()})  # numbers, if one network
    start = own._start(np, type(z0)(*(v[()] for v in z0)))
    fixed = RotationFixed.of(np, start)
    assert fixed.moderate
    shape = (-1,) + (1,) * np.ndim(start.p)
    times = np.concatenate([[0.0], 10.0 ** rng.uniform(-25, 5, 12), rng.uniform(0, 40, 12)]).reshape(shape)
    times = times / start.c.hi * rng.uniform(0.5, 1.0, np.shape(start.p))  # a quotient alone returns from the product
    found = set()
    for t in (times, *(np.float64(t) for t in times.reshape(-1)[:20])):
        short, whole = rotation(np, t, start, fixed), rotation(np, t, start, fixed._replace(moderate=False))
        assert type(short) is not type(whole)
        for name in Rotation._fields:
            one, other = np.broadcast_arrays(getattr(short, name), getattr(whole, name))
            found |= {name} if one.tobytes() != other.tobytes() else set()
    return found


@pytest.mark.parametrize("middle", [0, 20, -20])
@pytest.mark.quick(2)
def test_without_exceptions_the_rotation_has_the_same_bits(middle):
    rng = np.random.default_rng(abs(middle))
    flow, z0 = networks(rng.integers(-9, 10, (2, 30)) + middle, rng)
    assert not without_exceptions(flow, z0, rng)
    for k in range(5):
        one = {name: v[k] for name, v in flow.parameters().items() if v.ndim}
        assert not without_exceptions(flow._with(**one), type(z0)(*(v[k] for v in z0)), rng)


def test_one_form_of_the_integral_at_all_times_is_rejected(monkeypatch):
    rng = np.random.default_rng(3)
    flow, z0 = networks(rng.integers(-9, 10, (2, 30)), rng)
    monkeypatch.setattr(moderate_rotation, "_SHORT", 0.0)
    assert "lift" in without_exceptions(flow, z0, rng)


def test_a_moderate_rotation_has_no_other_attributes():
    flow, z0 = networks(np.zeros((2, 1), dtype=int), np.random.default_rng(0))
    start = flow._start(np, z0)
    found = rotation(np, np.ones((3, 1)), start)
    assert type(found) is moderate_rotation.ModerateRotation
    with pytest.raises(AttributeError, match="unknown"):
        _ = found.unknown
