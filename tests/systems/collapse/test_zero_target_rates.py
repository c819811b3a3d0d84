"""One weight and inputs of several rates with target zero: raw weights, sixty digits, limits, mutants."""

import mpmath
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import linsolve as ls
from linsolve import arithmetic
from linsolve.systems.collapse.zero_target_rates import ZeroTargetRates

MP = mpmath.MPContext()
MP.dps = 60
TIMES = np.array([0.03, 0.4, 1.5, 6.0, 40.0])


def drawn(seed):
    """Return a flow and a start of either sign of E; rates differ by up to 1000."""
    rng = np.random.default_rng(seed)
    d = rng.integers(1, 6)
    flow = ZeroTargetRates(eta_w=rng.uniform(0.3, 3), mu=10 ** rng.uniform(-1.5, 1.5, d))
    return flow, (rng.normal() * rng.choice([0.3, 1, 2]), rng.normal(size=d) * rng.choice([0.3, 1.0, 2.0]))


def simulated(flow, w, h, times):
    mu, eta = flow.mu, float(flow.eta_w)

    def rate(_, y):
        return np.append(-eta * y[0] * np.sum(y[1:] ** 2), -mu * y[0] ** 2 * y[1:])

    return solve_ivp(rate, (0, times[-1]), np.append(w, h), "DOP853", times, rtol=1e-13, atol=1e-16).y


@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(6, 200), marks=pytest.mark.exhaustive)])
def test_it_follows_the_raw_weights(seeds):
    for seed in seeds:
        flow, (w, h) = drawn(seed)
        found, (first, *rest) = flow(TIMES, (w, h)), simulated(flow, w, h, TIMES)
        assert np.max(np.abs(found["w"] - first)) <= 1e-11 * abs(w), seed
        assert np.max(np.abs(found["h"].T - rest)) <= 1e-11 * np.abs(h).max(), seed


def reference(flow, w, h, t):
    """Return w and h at a time by a root of the integral in sigma, to sixty digits."""
    eta, mu, w = MP.mpf(float(flow.eta_w)), [MP.mpf(float(m)) for m in flow.mu], MP.mpf(float(w))
    parts = [eta * MP.mpf(float(x)) ** 2 / m for x, m in zip(h, mu, strict=True)]

    def square(x):
        return w**2 + sum(a * MP.expm1(-2 * m * x) for a, m in zip(parts, mu, strict=True))

    sigma, step = MP.mpf(0), MP.mpf(t) / 50  # classical steps, then Newton steps on the integral
    for _ in range(50):
        k1 = square(sigma)
        k2 = square(sigma + step * k1 / 2)
        k3 = square(sigma + step * k2 / 2)
        sigma += step * (k1 + 2 * k2 + 2 * k3 + square(sigma + step * k3)) / 6
    for _ in range(4):
        edges = [sigma * k / 4 for k in range(5)]
        sigma -= (MP.quad(lambda x: 1 / square(x), edges) - t) * square(sigma)
    sign = 1 if w > 0 else -1
    return float(sign * MP.sqrt(square(sigma))), [
        float(MP.mpf(float(x)) * MP.exp(-m * sigma)) for x, m in zip(h, mu, strict=True)
    ]


@pytest.mark.parametrize("w", [-0.5, pytest.param(1.4, marks=pytest.mark.exhaustive)])
def test_within_1e_12_of_sixty_digits(w):
    flow, h = ZeroTargetRates(eta_w=1.3, mu=[0.4, 1.0, 7.0]), np.array([0.6, -0.9, 0.5])
    for t in (0.05, 2.0):
        found, (first, rest) = flow(t, (w, h)), reference(flow, w, h, t)
        assert abs(found["w"] - first) <= 1e-12 * abs(w)
        assert np.max(np.abs(found["h"] - rest)) <= 1e-12


def of_one_rate(eta, mu, h, w, t):
    """Return w and h by the closed form of one rate, of y = exp(2 mu sigma) with y' = 2 mu (E y + a)."""
    eta, mu, h, w, t = map(MP.mpf, (eta, mu, h, w, t))
    part = eta * h**2 / mu
    rest = w**2 - part
    y = MP.exp(2 * mu * rest * t) + (part / rest * MP.expm1(2 * mu * rest * t) if rest else 2 * mu * part * t)
    return float(MP.sqrt(max(rest + part / y, MP.mpf(0)))), float(h / MP.sqrt(y))


def test_a_root_of_200_digits():
    """Each Newton step doubles the digits; fewer steps leave some of them wrong."""
    xp = arithmetic.precise(200)
    with mpmath.workdps(220):
        eta, mu, h, w, t = (mpmath.mpf(x) / 7 for x in (9, 5, 11, 3, 10))
        found = ZeroTargetRates(xp.asarray(eta), xp.asarray([mu]))(xp.asarray(t), (xp.asarray(w), xp.asarray([h])))
        part = eta * h**2 / mu
        y = mpmath.exp(2 * mu * (w**2 - part) * t)
        y += part / (w**2 - part) * (y - 1)
        assert abs(found["w"].item() - mpmath.sqrt(w**2 - part + part / y)) <= mpmath.mpf(10) ** -198


@pytest.mark.parametrize("count", [30, pytest.param(3000, marks=pytest.mark.exhaustive)])
def test_starts_beside_balance_keep_all_digits(count):
    """E/w^2 of either sign down to its rounding, where the pole of E < 0 is far and its two parts would cancel."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        eta, mu, h = 10 ** rng.uniform(-1, 1, 3)
        w = np.sqrt(eta * h * h / mu) * (1 + rng.choice([-1, 1]) * 10 ** rng.uniform(-17, -0.5))
        t = 10 ** rng.uniform(-3, 1.5) / w**2
        found, (first, rest) = ZeroTargetRates(eta, [mu])(t, (w, [h])), of_one_rate(eta, mu, h, w, t)
        assert abs(found["w"] - first) <= 1e-12 * w
        assert abs(found["h"][0] - rest) <= 1e-12 * h


@pytest.mark.parametrize(
    ("eta", "w", "h", "t"),
    [
        (0.4404327790341691, 1.0660489217351803, (0.5207368780796188, -0.5991829605601064, -0.8123891042790585), 1e8),
        (1.6376868244332188, 3.1255140013307554, (1.116942674442043, 0.13135528984481942, -1.3106089423110556), 1e6),
        (0.5355111492168193, 1.0340407182898141, (0.5263089205264778, 0.6722404056810464, 0.5190643899793138), 1e8),
    ],
)
def test_the_end_of_a_nearly_balanced_start_is_found(eta, w, h, t):
    """The weight almost uses up its inputs: the root that ends the path lies where its equation is flat."""
    found, size = ZeroTargetRates(eta, [0.5] * 3)(t, (w, h)), np.linalg.norm(h)
    first, along = of_one_rate(eta, 0.5, size, w, t)
    np.testing.assert_allclose(found["w"], first, rtol=0, atol=1e-11)
    np.testing.assert_allclose(found["h"], along * np.array(h) / size, rtol=0, atol=1e-11)


def test_times_beyond_the_doubles_are_answered_without_a_warning():
    late = ZeroTargetRates(1.0, [1.0, 1.0])([0.0, 1.0, 1e300, np.inf], (1.0, [1e-150, 1e50]))
    np.testing.assert_array_equal(late["w"], [1.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(late["h"][:, 1], [1e50] * 4)
    balanced = ZeroTargetRates(1.0, [8.0])(3e4, (0.25, [0.25 * np.sqrt(8.0)]))
    assert 0 < balanced["w"] < 0.25


@pytest.mark.parametrize("check", ["velocity", pytest.param("residual", marks=pytest.mark.exhaustive)])
def test_it_is_proved_from_the_loss(check):
    report = ls.verify(*ZeroTargetRates.example(np.random.default_rng(0)), dps=30, checks=[check])
    assert report.ok, str(report)


class OneTimeForAll(ZeroTargetRates):
    """sigma = w(0)^2 t, as if the weight did not move."""

    def solution(self, xp, t, z0):
        found = super().solution(xp, t, z0)
        return found._replace(h=z0.h * xp.exp(-self.mu * (t * z0.w**2)[..., None]))


class MeanRate(ZeroTargetRates):
    """All inputs at their mean rate, the closed form of one rate."""

    def solution(self, xp, t, z0):
        mean = xp.sum(self.mu, axis=-1, keepdims=True) / self.mu.shape[-1]
        return ZeroTargetRates(eta_w=self.eta_w, mu=mean + 0 * self.mu).cast(xp).solution(xp, t, z0)


@pytest.mark.parametrize("cls", [MeanRate, pytest.param(OneTimeForAll, marks=pytest.mark.exhaustive)])
@pytest.mark.exhaustive
def test_mutants_are_rejected_by_the_residual(cls):
    flow, z0 = ZeroTargetRates.example(np.random.default_rng(0))
    one = cls.State(z0.w[0], z0.h[0])
    assert "residual" in ls.verify(cls(**flow.parameters()), one, dps=15, checks=["residual"]).failed


# limits


def test_the_limits_on_both_sides_of_balance():
    flow = ZeroTargetRates(eta_w=1.0, mu=[1.0, 3.0])
    above, below = flow([1e3, np.inf], (1.0, [0.5, 0.5])), flow([1e3, np.inf], (-0.4, [0.5, 0.5]))
    np.testing.assert_allclose(above["w"], np.sqrt(1 - 0.25 - 0.25 / 3), rtol=1e-14)
    assert np.all(above["h"] <= 1e-100)
    np.testing.assert_allclose(below["w"], 0, atol=1e-40)
    conserved = 0.16 - 0.25 - 0.25 / 3
    np.testing.assert_allclose(-np.sum(below["h"] ** 2 / [1.0, 3.0], axis=-1), conserved, rtol=1e-13)


def test_balance_decays_algebraically():
    """At E = 0 the slowest input alone is left: w^2 -> eta h^2/mu -> 1/(2 mu t)."""
    flow = ZeroTargetRates(eta_w=2.0, mu=[0.5, 2.0])
    w = np.sqrt(2.0 * (0.25 / 0.5 + 0.25 / 2.0))  # exact in doubles up to rounding of the root
    found = flow([1e3, 1e5], (w, [0.5, 0.5]))
    np.testing.assert_allclose(found["w"] ** 2 * 2 * 0.5 * np.array([1e3, 1e5]), 1, rtol=2e-2)


@pytest.mark.parametrize("t", [1e16, 1e30, 1e200, 1e280])
def test_balance_is_followed_to_late_times(t):
    """At E = 0 exactly and one rate, w = h = (1 + 2 t)^(-1/2)."""
    one = ZeroTargetRates(eta_w=1.0, mu=[1.0])
    found = one(t, (1.0, [1.0]))
    np.testing.assert_allclose([found["w"], found["h"][0]], (1 + 2 * t) ** -0.5, rtol=1e-11)


def test_one_rate_is_a_zero_target():
    flow, other = ZeroTargetRates(eta_w=3.0, mu=[0.5, 0.5]), ls.collapse.ZeroTarget(eta_w=3.0, eta_d=0.5)
    found = flow(TIMES, (0.7, [0.9, -0.4]))
    expected = other(TIMES, other.of([[0.7]], [[0.9, -0.4]]))
    np.testing.assert_allclose(found["w"] ** 2, expected["gram_w"][:, 0, 0], rtol=1e-11, atol=1e-300)
    np.testing.assert_allclose(found["scatter"], expected["gram_d"][:, 0, 0], rtol=1e-11)


def test_starts_at_rest_and_batches():
    flow = ZeroTargetRates(eta_w=[1.0, 2.0], mu=[[1.0, 2.0], [0.3, 0.4]])
    found = flow([0.0, 1.0, np.inf], ([0.0, 0.7], [[0.5, 0.1], [0.0, 0.0]]))
    assert np.array_equal(found["w"], [[0.0, 0.7]] * 3)
    assert np.array_equal(found["h"], [[[0.5, 0.1], [0.0, 0.0]]] * 3)
    with pytest.raises(ValueError, match=r"^ZeroTargetRates: mu = 0.0 at index"):
        ZeroTargetRates(eta_w=1.0, mu=[0.0])


@pytest.mark.exhaustive
def test_jax_has_the_values_and_derivatives_of_numpy():
    jax = pytest.importorskip("jax")
    flow, z0 = ZeroTargetRates.example(np.random.default_rng(0))
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        h0 = jax.numpy.asarray(z0.h)

        def weight(w):
            return flow(0.5, flow.State(w, h0))["w"].sum()

        w0 = jax.numpy.asarray(z0.w)
        found, slope = jax.value_and_grad(weight)(w0)
        assert float(found) == pytest.approx(float(flow(0.5, z0)["w"].sum()), rel=1e-12)
    for k in range(2):
        move = 1e-5 * np.eye(2)[k]
        up, down = (flow(0.5, (z0.w + sign * move, z0.h))["w"].sum() for sign in (1, -1))
        assert float(slope[k]) == pytest.approx((up - down) / 2e-5, rel=1e-7)
