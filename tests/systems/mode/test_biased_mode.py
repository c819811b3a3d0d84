"""The mode with a bias, against integrals and roots taken from its raw equation, and limits in closed form."""

import mpmath
import numpy as np
import pytest
from mutants.block import BIASED
from scipy.special import lambertw
from selection import quick

import linsolve as ls
from linsolve import arithmetic
from linsolve.numerics.quadrature import legendre
from linsolve.systems.mode.relaxation import Relaxation, rising_root

mp = mpmath.MPContext()
mp.dps = 50
PARTS = (1e-6, 0.1, 0.5, 0.9, 0.99, 1 - 1e-4, 1 - 1e-7, 1 - 1e-10)


class Raw:
    """The equation in sigma, as it is written, to fifty digits."""

    def __init__(self, m, mu, N, w, h, B):
        self.m, self.mu, self.N, self.B = (mp.mpf(float(v)) for v in (m, mu, N, B))
        self.w, self.h = ([mp.mpf(float(v)) for v in u] for u in (w, h))
        self.s = mp.sqrt(self.m * self.mu)

    def weights(self, sigma):
        c, s = mp.cosh(self.s * sigma), mp.sinh(self.s * sigma)
        w = [x * c + self.m / self.s * y * s for x, y in zip(self.w, self.h, strict=True)]
        return w, [y * c + self.mu / self.s * x * s for x, y in zip(self.w, self.h, strict=True)]

    def residual(self, sigma):
        w, h = self.weights(sigma)
        return mp.fsum(x * y for x, y in zip(w, h, strict=True)) + self.B + self.N * sigma - 1

    def end(self):
        """Return sigma(inf) by bisection."""
        low, high = mp.mpf(0), -self.residual(0) / self.N
        for _ in range(180):
            middle = (low + high) / 2
            low, high = (middle, high) if self.residual(middle) * self.residual(0) > 0 else (low, middle)
        return low

    def times(self, sigmas):
        """Return the times at which each sigma is reached."""
        found, total, before = [], mp.mpf(0), mp.mpf(0)
        for sigma in sigmas:
            total += mp.quad(lambda v: -1 / self.residual(v), [before, (before + sigma) / 2, sigma])
            before = sigma
            found.append(total)
        return found


def draws(count):
    rng = np.random.default_rng(11)
    for _ in range(count):
        m, mu, N = 10 ** rng.uniform(-0.5, 1, 3)
        w, h = (10 ** rng.uniform(-4, 0.4) * rng.normal(size=2) for _ in range(2))
        yield m, mu, N, w, h, rng.uniform(-2, 3)


@pytest.mark.parametrize("count", quick([2, 10], 1))
def test_state_residual_and_inverse_within_1e_12_of_fifty_digits(count):
    worst = dict.fromkeys(("w", "h", "B", "residual", "time"), 0.0)
    for m, mu, N, w, h, B in draws(count):
        raw, flow = Raw(m, mu, N, w, h, B), ls.BiasedMode(m=m, mu=mu, N=N)
        sigmas = [mp.mpf(part) * raw.end() for part in PARTS]
        times = raw.times(sigmas)
        traj = flow(np.array([float(t) for t in times]), (w, h, B))
        size = max(np.abs(w).max(), np.abs(h).max(), abs(B))
        for k, (sigma, t) in enumerate(zip(sigmas, times, strict=True)):
            exact_w, exact_h = raw.weights(sigma)
            for name, exact in (("w", exact_w), ("h", exact_h), ("B", [raw.B + raw.N * sigma])):
                error = max(abs(float(x - e)) for x, e in zip(np.ravel(traj[name][k]).tolist(), exact, strict=True))
                worst[name] = max(worst[name], error / max(size, *(abs(float(e)) for e in exact)))
            r = raw.residual(sigma)
            rounding = 1 + float(t) * traj["ntk"][k]  # of the time alone, which doubles hold to eps
            worst["residual"] = max(worst["residual"], abs(float((traj["residual"][k].item() - r) / r)) / rounding)
            z0 = flow.State(*(np.asarray(v) for v in (w, h, B)))
            found = flow.time_to(np, z0, loss=np.asarray(float(r * r / 2)))
            slack = 1 + float(abs(raw.residual(0) / (t * traj["ntk"][k] * r)))  # of the loss alone, at early times
            worst["time"] = max(worst["time"], abs(float((found.item() - t) / t)) / slack)
    assert max(worst.values()) <= 1e-12, worst


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("B", [-0.5, 0.3, 2.0])
def test_final_bias_of_a_balanced_start_is_a_lambert_w(sign, B):
    m, mu, N = 3.0, 0.7, 5.0
    w = np.array([0.4, -0.2])
    h = sign * np.sqrt(mu / m) * w
    k, p0 = N / (2 * np.sqrt(m * mu)), w @ h
    p = sign * k * lambertw(abs(p0) / k * np.exp(sign * (1 - B) / k)).real
    end = ls.BiasedMode(m=m, mu=mu, N=N)(np.inf, (w, h, B))
    assert end["B"] == pytest.approx(1 - p, rel=1e-13)
    assert end["w"] @ end["h"] == pytest.approx(p, rel=1e-13)
    assert end["loss"] == pytest.approx(0.0, abs=1e-300)


def test_a_bias_alone_relaxes_exponentially():
    t = np.array([0.0, 1e-9, 0.3, 2.0, 100.0, np.inf])
    traj = ls.BiasedMode(m=1.3, mu=0.4, N=2.5)(t, ([0.0, 0.0], [0.0, 0.0], 4.0))
    np.testing.assert_allclose(traj["B"], 1 + 3 * np.exp(-2.5 * t), rtol=1e-15)
    np.testing.assert_allclose(traj["residual"], 3 * np.exp(-2.5 * t), rtol=1e-13)
    assert not traj["w"].any()


def test_a_slow_bias_leaves_the_mode_without_one():
    t, w, h = np.linspace(0.0, 4.0, 9), [0.2, -0.1], [0.1, 0.5]
    biased = ls.BiasedMode(m=1.5, mu=0.6, N=1e-13)(t, (w, h, 0.0))
    mode = ls.HiddenMode(s=1.0, eta_w=1.5, eta_h=0.6)(t, (w, h))
    for name in ("w", "h", "residual"):
        np.testing.assert_allclose(biased[name], mode[name], rtol=1e-11, atol=1e-12)


def test_start_at_rest_stays_and_late_losses_are_exact():
    flow = ls.BiasedMode(m=1.0, mu=2.0, N=3.0)
    rest = flow([0.0, 1.0, np.inf], ([1.0], [0.25], 0.75))
    assert np.array_equal(rest["w"], np.ones((3, 1)))
    assert np.array_equal(rest["loss"], np.zeros(3))
    traj = flow([10.0, 30.0], ([0.6], [0.2], 0.1))
    assert traj["loss"][1] < 1e-60
    assert np.log(traj["loss"][0] / traj["loss"][1]) / 40.0 == pytest.approx(traj["ntk"][1], rel=1e-12)


def test_early_changes_are_accurate_relative_to_themselves():
    # w starts at 0 beside a large h: all of it is change, -m r0 h0 t to first order
    flow, h, t = ls.BiasedMode(m=2.0, mu=0.7, N=3.0), np.array([20.0, -7.0]), 1e-12
    w = flow(t, ([0.0, 0.0], h, 0.25))["w"]
    np.testing.assert_allclose(w, 2.0 * 0.75 * h * t, rtol=1e-8)
    xp = arithmetic.precise(40)
    exact = flow.cast(xp)(xp.asarray(t), flow.State(*(xp.asarray(v) for v in (np.zeros(2), h, 0.25))))
    np.testing.assert_allclose(w, arithmetic.to_numpy(exact["w"]), rtol=1e-14)


def test_time_to_ends():
    flow, z0 = ls.BiasedMode.example(np.random.default_rng(0))
    assert np.array_equal(flow.time_to(np, z0, loss=np.zeros(2)), np.full(2, np.inf))
    assert np.array_equal(flow.time_to(np, z0, loss=1.01 * flow.loss(np, z0)), np.zeros(2))


def test_growth_beyond_doubles_is_refused():
    flow, start = ls.BiasedMode(m=1e3, mu=1e3, N=0.1), ([1e-160], [1e-160], 0.0)
    with pytest.raises(ls.NotExact, match=r"BiasedMode: span = .* must vanish .*use integrate"):
        flow(1.0, start)


LONG = [(400.0, 0.9, 1e-60, 3.0), (1.3, 0.01, 1e-27, 0.4), (300.0, 1.0, 0.0, 5.0)]


@pytest.mark.parametrize("numbers", quick(LONG, 1), ids=str)
def test_long_ways(numbers):
    """Panels of width four, alone and with the long panel between them, against quadrature in thirty digits."""
    T, N, G, F = numbers
    way = Relaxation.of(np, *(np.asarray(v) for v in (T, N, G, F)))
    assert way.span > 40
    context = mpmath.MPContext()
    context.dps = 30
    T, N, G, F = (context.mpf(v) for v in (T, N, G, F))

    def rate(x):
        return (T - 2 * N * x - G * context.expm1(x) + F * context.expm1(-x)) / 2

    span = context.findroot(rate, float(way.span))
    assert float(way.span) == pytest.approx(float(span), rel=1e-14)
    for part in (0.1, 0.5, 0.9):
        x = context.mpf(part) * span
        exact = context.quad(lambda v: 1 / rate(v), context.linspace(0, x, 40))
        found = way.time_at(np, np.asarray(float(span - x)))
        assert float(found) == pytest.approx(float(exact), rel=1e-12)
        left = way.span * np.exp(-way.fallen(np, np.asarray(float(exact))))
        assert float(left) == pytest.approx(float(span - x), rel=1e-12)


def test_every_ordinary_start_is_answered():
    """Weights that nearly cancel in g+, at rates of all sizes: the residual ends at 0, times to a loss are inverted."""
    rng = np.random.default_rng(8)
    mu, B = 10 ** rng.uniform(3, 8, 300), rng.uniform(-2, 2, 300)
    w = np.full((300, 1), 0.1)
    flow, start = ls.BiasedMode(m=4.0, mu=mu, N=12.0), (w, -w * np.sqrt(mu / 4)[:, None], B)
    end = flow(np.inf, start)
    np.testing.assert_allclose(end["output"], 1.0, rtol=1e-12)
    loss = flow.loss(np, flow.state(start)) * rng.uniform(0.01, 0.9, 300)
    np.testing.assert_allclose(np.diagonal(flow(flow.when(start, loss=loss), start)["loss"]), loss, rtol=1e-11)


def test_small_outputs_keep_their_digits():
    t, B = np.array([0.0, 1e-20, 1e-12, 1e-5, 1.0, np.inf]), np.array([1e-20, -1e-10, 1e-3])
    flow, start = ls.BiasedMode(m=1.0, mu=2.0, N=0.5), ([1e-9, 1e-5], [1e-3, 1e-8], B)
    xp = arithmetic.precise(50)
    exact = flow.cast(xp)(xp.asarray(t), tuple(xp.asarray(np.asarray(v)) for v in start))["output"]
    np.testing.assert_allclose(flow(t, start)["output"], arithmetic.to_numpy(exact), rtol=1e-14)


@pytest.mark.parametrize("rate", [1.0, 1e3, 1e6])
def test_a_bias_alone_is_answered_at_every_ratio_of_the_rates(rate):
    t = np.array([0.0, 0.1, 1.0, 5.0, np.inf])
    traj = ls.BiasedMode(m=rate, mu=rate, N=1.0)(t, ([0.0], [0.0], -1.0))
    np.testing.assert_allclose(traj["residual"], -2 * np.exp(-t), rtol=1e-12)


def test_roots_of_all_magnitudes():
    rng = np.random.default_rng(4)
    T, N, G, F = 10 ** rng.uniform(-12, 12, (4, 5000))
    G[:500], F[200:700] = 0.0, 0.0
    x = rising_root(np, T, N, G, F)
    inside = (x < 700) | (G == 0)
    terms = 2 * N * x, G * np.expm1(np.minimum(x, 700)), -F * np.expm1(-x)
    assert inside.mean() > 0.9
    # the slope turns a rounding of x into one of T: at most 1 + x of it
    assert np.max((np.abs(sum(terms) - T) / T / (1 + x))[inside]) <= 1e-14


def test_invariants_are_conserved_and_antisymmetric():
    flow, z0 = ls.BiasedMode.example(np.random.default_rng(0))
    assert ls.verify(flow, z0, 30, checks=["invariants"]).ok
    bivector = flow(0.5, z0)["bivector"]
    np.testing.assert_array_equal(bivector, -np.swapaxes(bivector, -1, -2))


def test_nodes_integrate_polynomials_in_every_arithmetic():
    for xp, tolerance in ((np, 1e-15), (arithmetic.precise(60), 1e-58)):
        nodes, weights = legendre(xp, 20)
        for power in (0, 1, 17, 39):
            found = xp.sum(weights * nodes**power)
            assert abs(float((found * (power + 1) - 1).item())) <= 40 * tolerance


@pytest.mark.parametrize("name", BIASED)
@pytest.mark.quick(3)
def test_mutants_are_rejected_by_the_check_that_should_see_them(name):
    mutant = BIASED[name]
    assert ls.verify(mutant.flow, mutant.z0, checks=[mutant.seen_by]).failed == [mutant.seen_by]


@pytest.mark.parametrize("check", sorted({mutant.seen_by for mutant in BIASED.values()}))
@pytest.mark.quick(2)
@pytest.mark.exhaustive
def test_the_right_flow_passes_the_checks_of_its_mutants(check):
    assert ls.verify(*ls.BiasedMode.example(np.random.default_rng(3)), checks=[check]).ok


# the first is proved with all other flows
@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(2))
def test_examples_are_proved(seed):
    report = ls.verify(*ls.BiasedMode.example(np.random.default_rng(seed)))
    assert report.ok, str(report)


def test_bad_starts_are_refused():
    with pytest.raises(ValueError, match=r"BiasedMode: h has shape \(3,\), so d = 3, but w has d = 2"):
        ls.BiasedMode(m=1.0, mu=1.0, N=1.0)(1.0, ([0.1, 0.2], [0.1, 0.2, 0.3], 0.0))
    with pytest.raises(ValueError, match=r"BiasedMode: t = -1.0 must be at least 0 \(time\)"):
        ls.BiasedMode(m=1.0, mu=1.0, N=1.0)(-1.0, ([0.1], [0.1], 0.0))
