"""The scalar kernels against references written independently in mpmath at 300 digits."""

import mpmath
import numpy as np
import pytest

from linsolve import arithmetic
from linsolve.numerics.scalar import integral_of_decay, log1p_ratio, logistic, phi, smallest

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


def logistic_reference(t, a0, s):
    integral = t if s == 0 else (1 - mp.exp(-s * t)) / s
    return a0 / (mp.exp(-s * t) + a0 * integral)


def gap_reference(t, a0, s):
    integral = t if s == 0 else (1 - mp.exp(-s * t)) / s
    return (s - a0) * mp.exp(-s * t) / (mp.exp(-s * t) + a0 * integral)


def logistic_lifetime(a0, s):
    """Return the ends of the solution of ``a' = a (s - a)``: ``exp(s t) = 1 - s/a0`` where it blows up."""
    with np.errstate(all="ignore"):
        end = np.where(s == 0, -1 / a0, np.log1p(-s / a0) / s)
    end = np.where(np.isfinite(end), end, np.inf)
    return np.where(end < 0, end, -np.inf), np.where(end > 0, end, np.inf)


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
    low, high = logistic_lifetime(a0, s)
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


def test_logistic_from_below_takes_one_exponential_and_meets_the_other_formula_at_its_edges():
    """At ``r = a0/s`` on both sides of 1 and of 2^-500, and at the ends of s, forward and backward in time."""
    edges = np.nextafter(1.0, [0, 1, 2])
    s = np.concatenate([2 * edges, [2.0**-500, 2.0**500, 2.0**-501, 1e300]])
    t = np.array([0.0, 1e-17, 0.3, *(40.0 * edges), 300.0])[:, None, None] / s
    shares = np.array([1e-310, 2.0**-499, 2.0**-501, 1e-30, 0.3, 0.5, *edges, 1.5, *np.linspace(2.1, 2.9, 9)])
    a0 = (shares[:, None] * s)[None] + 0 * t
    for sign in (1.0, -0.01, -1.0):  # backward in time a solution from above the target would blow up
        few = a0[:, shares <= 1] if sign < 0 else a0
        draws = [v.ravel() for v in np.broadcast_arrays(sign * t, few, s)]
        least = draws[1] * np.exp(np.minimum(draws[0] * draws[2], 0))
        draws = [v[least > 2.0**-1022] for v in draws]  # below, doubles have fewer digits
        a, gap = logistic(np, *draws)
        assert excess(a, logistic_reference, draws) <= 1.5
        assert excess(gap, gap_reference, draws) <= 1.5
        begun = draws[0] == 0
        assert a[begun].tolist() == draws[1][begun].tolist()


def test_logistic_returns_its_start_bit_for_bit():
    rng = np.random.default_rng(9)
    a0, s = signed(rng, 300, DRAWS), signed(rng, 300, DRAWS, zeros=0.1)
    assert logistic(np, 0 * a0, a0, s)[0].tolist() == a0.tolist()


def test_logistic_stays_at_its_target_bit_for_bit():
    s = signed(np.random.default_rng(11), 100, DRAWS)
    for t in (-np.inf, -1e3, -1.0, 0.0, 1.0, np.inf):
        a, gap = logistic(np, np.full(DRAWS, t), s, s)
        assert (a.tolist(), gap.tolist()) == (s.tolist(), [0.0] * DRAWS)


def test_logistic_ends_at_the_target_bit_for_bit():
    rng = np.random.default_rng(10)
    s = np.abs(signed(rng, 100, DRAWS))
    for share in (10 ** rng.uniform(-100, 0, DRAWS), 10 ** rng.uniform(-100, 1, DRAWS)):
        assert logistic(np, np.full(DRAWS, np.inf), share * s, s)[0].tolist() == s.tolist()
    assert logistic(np, np.full(1, np.inf), np.full(1, 1e-200), np.full(1, 1e200))[0] == 1e200  # a0/s underflows


def test_logistic_at_the_ends_of_time():
    a0 = np.asarray([0.1, 3.0, 0.1, 0.0, 0.1, 1e-200])
    s = np.asarray([2.0, 2.0, -2.0, 2.0, 0.0, 1e200])
    a, gap = logistic(np, np.full(6, np.inf), a0, s)
    assert a.tolist() == [2.0, 2.0, 0.0, 0.0, 0.0, 1e200]
    assert gap.tolist() == [0.0, 0.0, -2.0, 2.0, 0.0, 0.0]
    start, first_gap = logistic(np, np.zeros(6), a0, s)
    assert start.tolist() == a0.tolist()
    assert first_gap.tolist() == (s - a0).tolist()


def test_logistic_at_fifty_digits_agrees_with_the_reference():
    xp, rng = arithmetic.precise(50), np.random.default_rng(8)
    a0, s, t = np.abs(signed(rng, 3, 60)), signed(rng, 3, 60), np.abs(signed(rng, 2, 60))
    found, _ = logistic(xp, *(xp.asarray(v) for v in (t, a0, s)))
    for f, row in zip(found.flat, zip(t, a0, s, strict=True), strict=True):
        value, total = condition(logistic_reference, row)
        assert abs(mp.mpf(f) - value) <= mp.mpf(10) ** -48 * total
