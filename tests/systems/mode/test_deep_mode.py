import array_api_strict
import mpmath
import numpy as np
import pytest
from mutants.deep import MUTANTS
from selection import quick

import linsolve as ls
from benchmarks import accuracy_deep_mode
from benchmarks.accuracy_deep_mode import DEPTHS, draw, errors, primitive, time_between
from linsolve import arithmetic
from linsolve.core.verify import CHECKS
from linsolve.systems.mode import growth as growth_inverse


def path(flow, t, a0, xp=np):
    return flow.solution(xp, xp.asarray(t), flow.State(xp.asarray(a0))).a


# the proof


# the first is proved with all other flows
@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(3))
def test_examples_are_proved(seed):
    flow, z0 = ls.DeepMode.example(np.random.default_rng(seed))
    report = ls.verify(flow, z0)
    assert report.ok, str(report)


@pytest.mark.parametrize("left_out", quick([("limit", "time_to", "lifetime"), ("limit",)], 1))
@pytest.mark.exhaustive
def test_modes_that_fall_or_cross_are_proved(left_out):
    flow = ls.DeepMode(s=[1.3, -0.8, 1.1, 0.0], depth=[1.0, 3.3, np.inf, 4.0], tau=[0.7, 1.2, 0.9, 1.0])
    # those that fall by a power of time are far from their limit at the time of that check
    report = ls.verify(flow, [-0.4, 1.9, -0.5, 0.7], checks=[name for name in CHECKS if name not in left_out])
    assert report.ok, str(report)


@pytest.mark.parametrize("name", MUTANTS)
@pytest.mark.quick(1)
def test_mutants_are_rejected_by_the_check_that_should_see_them(name):
    mutant = MUTANTS[name]
    report = ls.verify(mutant.flow, mutant.z0, checks=["velocity", "residual"])
    assert report.failed == [mutant.seen_by]


# against closed forms that share nothing with the package


@pytest.mark.parametrize("count", quick([300, 2000], 1))
def test_within_1e_13_of_the_closed_forms_at_eighty_digits(count):
    flow, a0, t = draw(np.random.default_rng(3), count)
    assert set(flow.depth.tolist()) == set(DEPTHS)
    for name, values in errors(flow, a0, t).items():
        assert values.size > 0.75 * count, name
        assert values.max() < 1e-13, name


@pytest.mark.parametrize("depth", [1.9, 2.1, 2.2])
def test_depths_near_two_invert_the_closed_form_of_their_time(depth):
    mp = mpmath.MPContext()
    mp.dps = 40
    strengths = [1e-11, 1e-6, 0.01, 0.5, 0.99]
    t = [float(time_between(mp, mp.mpf(1e-12), mp.mpf(a), mp.mpf(1), depth)) for a in strengths]
    np.testing.assert_allclose(path(ls.DeepMode(s=1.0, depth=depth), t, 1e-12), strengths, rtol=3e-13)


@pytest.mark.parametrize("depth", quick([1.5, 3.0, np.inf, 2.5, 100.0], 3))
@pytest.mark.parametrize(("a0", "share"), [(1e-9, 0.02), (1e-9, 0.99), (0.9, 0.95), (4.0, 1.02), (2.7, 1.5)])
@pytest.mark.quick(6)
def test_high_precision_inverts_the_closed_form(depth, a0, share):
    xp = arithmetic.precise(60)
    mp = xp.context
    s = mp.mpf("1.3")
    t = time_between(mp, mp.mpf(a0), s * mp.mpf(share), s, depth)
    flow = ls.DeepMode(s=1.0, depth=depth).cast(xp)
    object.__setattr__(flow, "s", xp.asarray([s]))
    found = path(flow, [t], [a0], xp)[0].item()
    assert abs(found / (s * mp.mpf(share)) - 1) < 1e-48  # of 60 digits, the condition of a long plateau takes 11


def test_without_a_target_the_mode_decays_by_a_power_of_time():
    t, depth, a0 = np.array([1e-9, 0.4, 30.0, 1e9]), 2.7, -1.6
    p = 2 - 2 / depth
    exact = a0 * (1 + p * depth * abs(a0) ** p * t / 0.8) ** (-1 / p)
    np.testing.assert_allclose(path(ls.DeepMode(s=0.0, depth=depth, tau=0.8), t, a0), exact, rtol=4e-15)


@pytest.mark.parametrize("depth", [1.25, 2.0, 3.7, 6.0, np.inf])
@pytest.mark.parametrize(("a0", "a1"), [(0.01, 0.4), (0.3, 1.1), (3.0, 1.3), (9.0, 2.6)])
def test_time_is_the_integral_of_the_inverse_velocity(depth, a0, a1):
    flow = ls.DeepMode(s=1.2, depth=depth, tau=0.8)
    gain, power = (1 if depth == np.inf else depth), 2 - 2 / mpmath.mpf(depth)
    exact = mpmath.quad(lambda a: 0.8 / (gain * a**power * (1.2 - a)), np.geomspace(a0, a1, 5).tolist())
    assert flow.time_to(np, flow.State(np.asarray(a0)), loss=(1.2 - a1) ** 2 / 2) == pytest.approx(
        float(exact), rel=1e-12
    )


@pytest.mark.parametrize("a0", [1e-3, 0.4, 1.9, 30.0, -0.02, -0.9, -20.0])
def test_infinite_depth_is_the_lambert_function(a0):
    s, t = 0.9, np.array([0.02, 0.7, 3.0, 40.0])
    w0 = mpmath.mpf(s) / mpmath.mpf(a0) - 1
    found = path(ls.DeepMode(s=s, depth=np.inf), t, a0)
    with mpmath.workdps(400):
        w0 = mpmath.mpf(s) / mpmath.mpf(a0) - 1
        branch = 0 if a0 > 0 else -1
        w = [mpmath.lambertw(w0 * mpmath.exp(w0 - mpmath.mpf(s) ** 2 * mpmath.mpf(v)), branch).real for v in t]
        exact = np.array([float(mpmath.mpf(s) / (1 + x)) for x in w])
    np.testing.assert_allclose(found, exact, rtol=2e-14)


def test_falling_time_is_an_incomplete_beta_function():
    with mpmath.workdps(40):
        for depth, y in ((3.0, mpmath.mpf("-0.4")), (2.5, mpmath.mpf("-7"))):
            p = 2 - 2 / mpmath.mpf(depth)
            # B_x(p, 1 - p) by its definition
            exact = mpmath.quad(lambda u, p=p: u ** (p - 1) * (1 - u) ** (-p), [0, 1 / (1 - y)])
            assert abs(primitive(mpmath.mp, y, depth) / exact - 1) < 1e-30


@pytest.mark.parametrize("s", [1.4, -0.6, 0.0])
@pytest.mark.parametrize("a0", [-2.0, -1e-3, 0.0, 1e-12, 0.5, 3.0])
def test_depth_two_is_the_balanced_mode(s, a0):
    t = np.array([0.0, 1e-8, 0.3, 4.0, 60.0, np.inf])
    deep, shallow = ls.DeepMode(s=s, depth=2, tau=0.7), ls.BalancedMode(s=s, tau=0.7)
    np.testing.assert_allclose(deep(t, a0)["a"], shallow(t, a0)["a"], rtol=4e-14, atol=0)
    # one rounding of s t is amplified by s t in the tail of the loss
    np.testing.assert_allclose(deep(t, a0)["loss"], shallow(t, a0)["loss"], rtol=1e-12, atol=0)


@pytest.mark.parametrize("a0", [-2.0, 0.0, 0.5, 3.0])
def test_depth_one_is_linear_and_crosses_zero(a0):
    t = np.array([0.0, 0.3, 4.0, np.inf])
    found = ls.DeepMode(s=1.3, depth=1, tau=0.7)(t, a0)["a"]
    np.testing.assert_allclose(found, 1.3 + (a0 - 1.3) * np.exp(-t / 0.7), rtol=1e-15, atol=1e-15)


def test_half_loss_times_of_the_corrected_estimate():
    # sigma^(2 - L)/((L - 2) s), of which the paper's are L times or sigma^(-2 L) as much; a0 = sigma^L
    for depth, s, sigma, expected in ((3, 1.0, 1e-3, 998.747), (4, 2.0, 1e-3, 2.5e5), (6, 1.0, 1e-2, 2.5e7)):
        flow = ls.DeepMode(s=s, depth=depth)
        assert flow.time_to(np, flow.State(np.asarray(sigma**depth)), loss=s**2 / 4) == pytest.approx(
            expected, rel=1e-5
        )


# numerics


@pytest.mark.parametrize("depths", [DEPTHS, (2.2501, 2.3, 3.5, 6.1, 12.0, 1e3, 1e8)])
def test_one_step_reaches_the_accuracy_of_a_double(monkeypatch, depths):
    monkeypatch.setattr(accuracy_deep_mode, "DEPTHS", depths)
    flow, a0, t = draw(np.random.default_rng(8), 20000)
    one, worst = path(flow, t, a0), {}
    with monkeypatch.context() as patched:
        patched.setattr(growth_inverse, "_step", lambda xp, off, n, z: 0 * off)
        none = path(flow, t, a0)
    monkeypatch.setattr(growth_inverse, "_more", lambda xp: 2)
    many = path(flow, t, a0)
    for steps, few in enumerate((none, one)):
        # on a plateau whose end is within a rounding of t, every strength up to s has the time t
        speed = np.maximum(*(np.abs(flow.velocity(np, flow.State(a)).a) for a in (few, many)))
        worst[steps] = np.max(np.abs(few - many) / (np.abs(many) + t * speed))
    assert worst[1] < 3e-14
    assert 1e-6 < worst[0] < 0.02  # of the guess


def test_no_nan_no_infinity_no_warning_over_all_magnitudes():
    sizes = np.array([0.0, 1e-150, 1e-12, 1e-3, 0.3, 1.0, 5.0, 1e8, 1e70])
    both = np.concatenate([sizes, -sizes])
    a0, s, depth = np.meshgrid(both, both, [*DEPTHS, 1.001, 1.99999, 2.00001, 1e8], indexing="ij")
    lost = (depth > 1) & (depth < 2) & (np.sign(a0) * np.sign(s) < 0)
    flow, start = ls.DeepMode(s=s[~lost], depth=depth[~lost]), a0[~lost]
    t = np.array([0.0, 1e-300, 1e-9, 1.0, 1e6, 1e250, 1e300, np.inf])
    traj = flow(t, start)
    assert np.isfinite(traj["a"]).all()
    assert np.isfinite(flow.gap(np, t[:, None], flow.State(start))).all()
    np.testing.assert_array_equal(traj["a"][0], start)
    np.testing.assert_array_equal(traj["a"][-1], flow.limit(np, flow.State(start)).a)
    signed = flow.depth >= 2
    assert (traj["a"] * start >= 0)[:, signed].all()
    # between start and limit, up to rounding
    low, high = np.minimum(start, traj["a"][-1]), np.maximum(start, traj["a"][-1])
    slack = 1e-15 * (np.abs(low) + np.abs(high))
    assert ((traj["a"] >= low - slack) & (traj["a"] <= high + slack)).all()


def test_array_api_strict_gives_the_numbers_of_numpy():
    flow, a0, t = draw(np.random.default_rng(2), 300)
    xp = array_api_strict
    z0 = flow.State(xp.asarray(a0))
    strict = np.asarray(flow.cast(xp).solution(xp, xp.asarray(t), z0).a)
    np.testing.assert_allclose(strict, path(flow, t, a0), rtol=1e-14)
    loss = flow.along(np, t, flow.State(a0))["loss"] / 3
    asked = np.asarray(flow.cast(xp).time_to(xp, z0, loss=xp.asarray(loss)))
    np.testing.assert_allclose(asked, flow.time_to(np, flow.State(a0), loss=loss), rtol=1e-14)
    stepped = np.asarray(flow.cast(xp).step(xp, z0, xp.asarray(1e-3)).a)
    np.testing.assert_allclose(stepped, flow.step(np, flow.State(a0), 1e-3).a, rtol=1e-14)


def test_a_batch_is_its_members_bitwise():
    flow, a0, t = draw(np.random.default_rng(4), 60)
    together = path(flow, t, a0)
    for k in range(60):
        alone = ls.DeepMode(s=flow.s[k], depth=flow.depth[k])
        assert path(alone, t[k], a0[k]) == together[k]


# what it states beside the solution


@pytest.mark.parametrize("depth", [2, 3, 5])
def test_step_is_gradient_descent_of_all_layers(depth):
    flow, u = ls.DeepMode(s=[1.5, -1.5], depth=depth, tau=0.7), np.array([0.8, 0.8])
    for h in (0.01, 0.3, 3.0):  # the last carries the weights of the second mode across 0
        new = u + h / 0.7 * u ** (depth - 1) * (flow.s - u**depth)
        np.testing.assert_allclose(flow.step(np, flow.State(u**depth), h).a, new**depth, rtol=1e-13)


def test_step_at_infinite_depth_is_the_limit_of_many_layers():
    endless, many = ls.DeepMode(s=1.5, depth=np.inf, tau=0.7), ls.DeepMode(s=1.5, depth=1e7, tau=0.7e7)
    start = endless.State(np.asarray(0.6))
    assert endless.step(np, start, 0.4).a == pytest.approx(many.step(np, start, 0.4).a, rel=1e-6)


def test_times_that_are_never_reached_and_that_have_passed():
    flow = ls.DeepMode(s=1.0, depth=[1.0, 2.0, 3.0, np.inf, 3.0])
    z0 = flow.State(np.array([-0.5, -0.5, 0.2, 0.2, 0.0]))
    np.testing.assert_array_equal(flow.time_to(np, z0, loss=0.5) == np.inf, [False, True, False, False, False])
    np.testing.assert_array_equal(flow.time_to(np, z0, loss=0.1) == np.inf, [False, True, False, False, True])
    np.testing.assert_array_equal(flow.time_to(np, z0, loss=0.0), np.full(5, np.inf))
    np.testing.assert_array_equal(flow.time_to(np, z0, loss=2.0), np.zeros(5))


def test_a_start_at_zero_stays_unless_the_depth_is_one():
    found = ls.DeepMode(s=1.3, depth=[1.0, 1.5, 2.0, 4.0, np.inf])([0.0, 1.0, np.inf], 0.0)["a"]
    np.testing.assert_allclose(found[:, 0], [0.0, 1.3 * -np.expm1(-1), 1.3], rtol=1e-15)
    np.testing.assert_array_equal(found[:, 1:], np.zeros((3, 4)))


# refusals


def test_finite_time_to_zero_is_refused_by_name():
    with pytest.raises(ls.NotExact, match=r"sign opposite to s at 1 < depth < 2 .*not unique"):
        ls.DeepMode(s=1.0, depth=[3.0, 1.5])(1.0, -1e-12)
    assert np.isfinite(ls.DeepMode(s=1.0, depth=[1.0, 2.0])(1.0, -0.3)["a"]).all()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("depth", 0.5, r"DeepMode: depth = 0.5 must lie in \[1, inf\] \(number of layers"),
        ("depth", float("nan"), r"DeepMode: depth = nan is not a number \(number of layers"),
        ("tau", 0.0, r"DeepMode: tau = 0.0 must lie in \(0, inf\) \(time constant\)"),
    ],
)
def test_bad_parameters_are_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        ls.DeepMode(**{"s": 1.0, "depth": 3.0, field: value})


def test_negative_times_are_refused():
    with pytest.raises(ValueError, match="must be at least 0"):
        ls.DeepMode(s=1.0, depth=3.0)(-0.1, 0.2)


@pytest.mark.parametrize("depth", [1.0, 2.0, 3.0, 7.0, np.inf])
@pytest.mark.quick(1)
def test_the_minimum_attracts_descent_up_to_a_closed_step(depth):
    s, tau = 1.7, 0.6
    edge = 2 * tau / (s**2 if depth == np.inf else depth * s ** (2 - 2 / depth))
    flow, near = ls.DeepMode(s=s, depth=depth, tau=tau), s * (1 + 1e-4)
    gaps = [np.abs(s - flow.discrete([1000, 1001], near, step=share * edge)["a"]) for share in (0.999, 1.001)]
    assert max(gaps[0]) <= 0.5e-4 * s  # (1 - 0.002)^1000 is 0.14
    assert max(gaps[1]) >= 2e-4 * s


@pytest.mark.parametrize("excess", [1e-8, 2e-10, 1e-10, 1e-12, 2.0**-52])
def test_depths_next_to_1_are_answered(excess):
    rng = np.random.default_rng(0)
    s, ratio, t = 10.0 ** rng.uniform(-2, 2, 200), 10.0 ** rng.uniform(-3, 2, 200), 10.0 ** rng.uniform(-2, 1, 200)
    linear = s + (ratio - 1) * s * np.exp(-t)
    for k in range(200):
        found = ls.DeepMode(s=s[k], depth=1 + excess)(t[k], ratio[k] * s[k])["a"]
        np.testing.assert_allclose(found, linear[k], rtol=1e-13 + 500 * excess)
    flow = ls.DeepMode(s=1.0, depth=[1.0, 1 + excess, 1.5, 3.0])
    assert np.isfinite(flow([0.0, 1.0, 1e300, np.inf], 0.3)["a"]).all()
