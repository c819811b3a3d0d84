"""The scalar kernels against references written independently in mpmath at 300 digits."""

import mpmath
import numpy as np
import pytest

from linsolve import arithmetic
from linsolve.numerics.scalar import integral_of_decay, log1p_ratio, logistic, phi, riccati, riccati_lifetime, smallest

mp = mpmath.MPContext()
mp.dps = 300
EPS = 2.0**-52
DRAWS = 600


def signed(rng, decades, size, *, zeros=0.0):
    values = rng.choice([-1.0, 1.0], size) * 10 ** rng.uniform(-decades, decades, size)
    return np.where(rng.random(size) < zeros, 0.0, values)


def exactly(function, *arrays):
    """Evaluate a reference, a function of mpf, on the exact values of doubles."""
    arrays = np.broadcast_arrays(*arrays)
    return [function(*(mp.mpf(float(v)) for v in row)) for row in zip(*(a.ravel() for a in arrays), strict=True)]


def relative_errors(found, expected):
    return np.array(
        [
            float(abs(mp.mpf(float(f)) - e) / abs(e)) if e != 0 else float(f != 0)
            for f, e in zip(np.ravel(found), expected, strict=True)
        ]
    )


def phi_reference(x):
    return mp.mpf(1) if x == 0 else (1 - mp.exp(-x)) / x


def riccati_reference(t, a0, A, B, C):
    """Return the solution through one complex hyperbolic tangent, which needs no case distinction but w = 0."""
    k, v0, w = A * a0 - B / 2, C + B * a0 - A * a0 * a0, mp.sqrt(mp.mpc(B * B / 4 + A * C))
    if mp.isinf(t):
        if w == 0:
            return a0 + v0 / k if k != 0 else a0
        T = (1 if t > 0 else -1) / w
    else:
        T = mp.tanh(w * t) / w if w != 0 else t
    return (a0 + v0 * T / (1 + k * T)).real


def blow_up_reference(a0, A, B, C):
    """Return the first positive root of ``1 + k tanh(w t)/w``, infinite where there is none."""
    k, square = A * a0 - B / 2, B * B / 4 + A * C
    w = mp.sqrt(abs(square))
    if square < 0:
        return mp.atan2(w, -k) / w
    if square == 0:
        return -1 / k if k < 0 else mp.inf
    return mp.atanh(-w / k) / w if k < -w else mp.inf


def logistic_reference(t, a0, s):
    integral = t if s == 0 else (1 - mp.exp(-s * t)) / s
    return a0 / (mp.exp(-s * t) + a0 * integral)


def gap_reference(t, a0, s):
    integral = t if s == 0 else (1 - mp.exp(-s * t)) / s
    return (s - a0) * mp.exp(-s * t) / (mp.exp(-s * t) + a0 * integral)


def two_root_textbook(t, a0, A, B, C):
    """Return the textbook's formula through the two fixed points."""
    root = np.sqrt(B * B + 4 * A * C)
    high, low = (B + root) / (2 * A), (B - root) / (2 * A)
    ratio = (a0 - high) / (a0 - low) * np.exp(-root * t)
    return (high - low * ratio) / (1 - ratio)


def riccati_draws(seed, decades, size=DRAWS):
    """Return times inside the lifetime, starts and coefficients of every sign, some of them zero."""
    rng = np.random.default_rng(seed)
    a0, A, B, C = (signed(rng, decades, size, zeros=0.08) for _ in range(4))
    low, high = riccati_lifetime(np, a0, A, B, C)
    clock = np.minimum(1 / (np.abs(B) + np.sqrt(np.abs(A)) * np.sqrt(np.abs(C)) + np.abs(A * a0) + 1e-300), 1e200)
    t = signed(rng, 2, size) * clock
    t = np.clip(t, 0.95 * low, 0.95 * high)
    return t, a0, A, B, C


def condition(reference, arguments):
    """Return by how much, relative to eps, rounding each argument may change the reference."""
    arguments = [mp.mpf(float(x)) for x in arguments]
    value, bump = reference(*arguments), mp.mpf(10) ** -100
    if mp.isinf(value):
        return value, mp.mpf(0)
    total = abs(value)
    for k, x in enumerate(arguments):
        moved = list(arguments)
        moved[k] = x * (1 + bump)
        total += abs(reference(*moved) - value) / bump
    return value, total


def excess(found, reference, draws):
    """Return the worst error in units of eps times what rounding the arguments alone may cause."""
    worst = 0.0
    for f, row in zip(found.tolist(), zip(*draws, strict=True), strict=True):
        value, total = condition(reference, row)
        if total == 0 or mp.isinf(value):
            assert f == value
        else:
            worst = max(worst, float(abs(mp.mpf(f) - value) / total) / EPS)
    return worst


def test_phi_over_all_magnitudes():
    x = np.concatenate([signed(np.random.default_rng(0), 30, DRAWS), [0.0, -0.0, 1e308, -700.0, 700.0]])
    x = np.maximum(x, -700.0)  # beyond, the value itself overflows
    assert relative_errors(phi(np, x), exactly(phi_reference, x)).max() <= 4 * EPS
    assert phi(np, np.asarray([0.0, 5e-324, np.inf])).tolist() == [1.0, 1.0, 0.0]


def test_the_naive_phi_loses_all_digits_where_phi_does_not():
    x = np.asarray([1e-12])
    naive = (1 - np.exp(-x)) / x
    assert relative_errors(naive, exactly(phi_reference, x)).max() > 1e-6


def test_log1p_ratio_over_all_magnitudes():
    rng = np.random.default_rng(1)
    x = np.concatenate([10 ** rng.uniform(-30, 30, DRAWS), -(10 ** rng.uniform(-30, 0, DRAWS)), [0.0, -1 + EPS]])
    expected = exactly(lambda v: mp.log(1 + v) / v if v else mp.mpf(1), x)
    assert relative_errors(log1p_ratio(np, x), expected).max() <= 4 * EPS
    assert log1p_ratio(np, np.asarray([-1.0, -2.0, -1e300])).tolist() == [np.inf] * 3


def test_integral_of_decay_over_all_magnitudes_and_signs():
    rng = np.random.default_rng(2)
    t, rate = signed(rng, 60, DRAWS, zeros=0.05), signed(rng, 60, DRAWS, zeros=0.05)

    def reference(t, rate):
        size = abs(t) if rate == 0 else (1 - mp.exp(-abs(rate * t))) / abs(rate)
        return mp.sign(t) * size

    assert relative_errors(integral_of_decay(np, t, rate), exactly(reference, t, rate)).max() <= 4 * EPS
    t, rate = np.asarray([np.inf, -np.inf, np.inf, np.inf]), np.asarray([2.0, -2.0, 0.0, 2.0**-1000])
    assert integral_of_decay(np, t, rate).tolist() == [0.5, -0.5, np.inf, 2.0**1000]


def test_smallest_takes_the_value_of_the_smallest_bound():
    rng = np.random.default_rng(3)
    bounds, values = rng.integers(0, 4, (4, 50)).astype(float), rng.standard_normal((4, 50))
    found = smallest(np, *zip(bounds, values, strict=True))
    first = [min(range(4), key=lambda k: bounds[k, i]) for i in range(50)]  # ties go to the first
    assert found.tolist() == [values[k, i] for i, k in enumerate(first)]


@pytest.mark.parametrize("decades", [1, 8, 60])
@pytest.mark.quick(1)
def test_logistic_and_its_gap_are_accurate_up_to_their_own_conditioning(decades):
    rng = np.random.default_rng(decades)
    a0, s = signed(rng, decades, DRAWS, zeros=0.05), signed(rng, decades, DRAWS, zeros=0.05)
    low, high = riccati_lifetime(np, a0, np.ones(DRAWS), s, np.zeros(DRAWS))
    t = np.clip(signed(rng, 2, DRAWS) / (np.abs(s) + np.abs(a0) + 1e-200), 0.95 * low, 0.95 * high)
    a, gap = logistic(np, t, a0, s)
    assert excess(a, logistic_reference, (t, a0, s)) <= 4
    assert excess(gap, gap_reference, (t, a0, s)) <= 4


@pytest.mark.parametrize("decades", [1, 8, 60])
@pytest.mark.quick(1)
def test_logistic_of_networks_forward_in_time_adds_next_to_nothing_to_the_rounding_of_its_arguments(decades):
    rng = np.random.default_rng(100 + decades)
    a0, s = np.abs(signed(rng, decades, DRAWS, zeros=0.05)), signed(rng, decades, DRAWS, zeros=0.05)
    t = np.abs(signed(rng, 2, DRAWS)) / (np.abs(s) + a0 + 1e-200)
    a, gap = logistic(np, t, a0, s)
    assert excess(a, logistic_reference, (t, a0, s)) <= 1.5
    assert excess(gap, gap_reference, (t, a0, s)) <= 1.5


def test_logistic_at_the_ends_of_time():
    a0 = np.asarray([0.1, 3.0, 0.1, 0.0, 0.1, 1e-200])
    s = np.asarray([2.0, 2.0, -2.0, 2.0, 0.0, 1e200])
    a, gap = logistic(np, np.full(6, np.inf), a0, s)
    assert a.tolist() == [2.0, 2.0, 0.0, 0.0, 0.0, 1e200]
    assert gap.tolist() == [0.0, 0.0, -2.0, 2.0, 0.0, 0.0]
    start, first_gap = logistic(np, np.zeros(6), a0, s)
    assert start.tolist() == a0.tolist()
    assert first_gap.tolist() == (s - a0).tolist()


@pytest.mark.parametrize("decades", [1, 4, 40])
@pytest.mark.quick(1)
def test_riccati_is_accurate_up_to_its_own_conditioning_for_all_signs_and_magnitudes(decades):
    draws = riccati_draws(decades, decades)
    assert excess(riccati(np, *draws), riccati_reference, draws) <= 4


def test_riccati_has_full_relative_accuracy_where_nothing_cancels():
    rng = np.random.default_rng(5)
    a0, A, C = (10 ** rng.uniform(-30, 30, DRAWS) for _ in range(3))
    B, t = signed(rng, 30, DRAWS), 10 ** rng.uniform(-60, 60, DRAWS)
    expected = exactly(riccati_reference, t, a0, A, B, C)
    assert relative_errors(riccati(np, t, a0, A, B, C), expected).max() <= 1e-14


def test_riccati_at_the_start_is_the_start_bitwise():
    _, a0, A, B, C = riccati_draws(6, 60)
    for zero in (0.0, -0.0):
        assert riccati(np, np.full(DRAWS, zero), a0, A, B, C).tobytes() == a0.tobytes()


def test_riccati_at_infinite_time_is_the_attracting_fixed_point():
    rng = np.random.default_rng(7)
    a0, A, B, C = signed(rng, 4, DRAWS), signed(rng, 4, DRAWS), signed(rng, 4, DRAWS), signed(rng, 4, DRAWS, zeros=0.1)
    low, high = riccati_lifetime(np, a0, A, B, C)
    for t, lives in ((np.inf, high == np.inf), (-np.inf, low == -np.inf)):
        draws = [v[lives] for v in (np.full(DRAWS, t), a0, A, B, C)]
        assert lives.sum() > 100
        assert excess(riccati(np, *draws), riccati_reference, draws) <= 4


def test_riccati_that_rests_or_decays_algebraically():
    # C = B = 0: a0/(1 + A a0 t); everything 0: constant; A = 0: linear
    t = np.asarray([0.0, 1.0, 1e150, np.inf])
    zero = np.zeros(4)
    slow = riccati(np, t, np.full(4, 2.0), np.full(4, 3.0), zero, zero)
    assert slow == pytest.approx([2.0, 2 / 7, 1e-150 / 3, 0.0], rel=4 * EPS, abs=0)
    assert riccati(np, t, np.full(4, 2.0), zero, zero, zero).tolist() == [2.0] * 4
    linear = riccati(np, t[:2], np.full(2, 2.0), zero[:2], np.full(2, -1.0), np.full(2, 5.0))
    assert linear == pytest.approx([2.0, 5 - 3 * np.exp(-1)], rel=4 * EPS, abs=0)


@pytest.mark.parametrize("decades", [1, 4, 40])
@pytest.mark.quick(1)
def test_riccati_lifetime_ends_where_the_denominator_first_vanishes(decades):
    _, *draws = riccati_draws(10 + decades, decades)
    low, high = riccati_lifetime(np, *draws)
    a0, A, B, C = draws
    assert excess(high, blow_up_reference, draws) <= 16
    assert excess(-low, blow_up_reference, (a0, -A, -B, -C)) <= 16
    assert np.isfinite(high).sum() > 100
    assert np.isinf(high).sum() > 100


def test_textbook_form_fails_on_the_same_draws():
    t, a0, A, B, C = riccati_draws(4, 4, 4000)
    with np.errstate(all="ignore"):
        lost = ~np.isfinite(two_root_textbook(t, a0, A, B, C))
    assert lost.sum() > 900
    assert np.isfinite(riccati(np, t, a0, A, B, C)).all()


def test_kernels_at_fifty_digits_agree_with_the_reference():
    xp = arithmetic.precise(50)
    t, a0, A, B, C = (v[:60] for v in riccati_draws(8, 3))
    found = riccati(xp, *(xp.asarray(v) for v in (t, a0, A, B, C)))
    for f, row in zip(found.flat, zip(t, a0, A, B, C, strict=True), strict=True):
        value, total = condition(riccati_reference, row)
        assert abs(mp.mpf(f) - value) <= mp.mpf(10) ** -48 * total
