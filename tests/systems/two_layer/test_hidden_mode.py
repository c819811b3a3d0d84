"""One mode with vector hidden units, against formulas and simulations that share nothing with the package."""

import mpmath
import numpy as np
import pytest
from mutants.block import HIDDEN

import linsolve as ls

DPS = 60


def reference(t, s, a, b, w, h, lost=5 * DPS):
    """Return w, h and r at time t by the Riccati solution of ``G``, to sixty digits; needs ``g+, g- != 0``."""
    mp = mpmath.MPContext()
    mp.dps = DPS + lost  # the differences of this form cancel
    t, s, a, b = (mp.mpf(float(v)) for v in (t, s, a, b))
    w, h = ([mp.mpf(float(v)) for v in u] for u in (w, h))
    k = mp.sqrt(a * b)
    plus, minus = ([mp.sqrt(b) * x + sign * mp.sqrt(a) * y for x, y in zip(w, h, strict=True)] for sign in (1, -1))
    g0, d0 = (mp.fsum(x * x for x in v) for v in (plus, minus))
    big = mp.sqrt(4 * k * k * s * s + g0 * d0)
    turn = mp.tanh(big * t / 2) if mp.isfinite(t) else mp.mpf(1)
    g = (g0 * (big + 2 * k * s * turn) + g0 * d0 * turn) / (big + (g0 - 2 * k * s) * turn)
    up, p = mp.sqrt(g / g0), (g - g0 * d0 / g) / (4 * k)
    rotated = [(x * up, y / up) for x, y in zip(plus, minus, strict=True)]
    return [(x + y) / (2 * mp.sqrt(b)) for x, y in rotated], [(x - y) / (2 * mp.sqrt(a)) for x, y in rotated], p - s


def starts(count):
    rng = np.random.default_rng(5)
    for _ in range(count):
        s = rng.choice([-1, 1]) * 10 ** rng.uniform(-2, 2)
        a, b = 10 ** rng.uniform(-2, 2, 2)
        w, h = (10 ** rng.uniform(-12, 1) * rng.normal(size=3) for _ in range(2))
        clock = 1 / (np.sqrt(a * b) * abs(s) + a * h @ h + b * w @ w)  # the loss stays a double
        yield s, a, b, w, h, clock * 10 ** rng.uniform(-3, 1.5)


@pytest.mark.parametrize("count", [60, pytest.param(300, marks=pytest.mark.exhaustive)])
def test_weights_within_1e_13_and_loss_within_1e_12_of_sixty_digits(count):
    worst = {"w": 0.0, "h": 0.0, "residual": 0.0, "loss": 0.0}
    for s, a, b, w, h, t in starts(count):
        flow = ls.HiddenMode(s=s, eta_w=a, eta_h=b)
        traj = flow(t, (w, h))
        exact_w, exact_h, r = reference(t, s, a, b, w, h)
        for name, exact in (("w", exact_w), ("h", exact_h)):
            error = max(abs(float(x - e)) for x, e in zip(traj[name].tolist(), exact, strict=True))
            worst[name] = max(worst[name], error / max(abs(float(e)) for e in exact))
        worst["residual"] = max(worst["residual"], abs(float((traj["residual"].item() - r) / r)))
        worst["loss"] = max(worst["loss"], abs(float((traj["loss"].item() - r * r / 2) / (r * r / 2))))
    assert worst["w"] <= 1e-13, worst
    assert worst["h"] <= 1e-13, worst
    assert worst["residual"] <= 1e-12, worst
    assert worst["loss"] <= 1e-12, worst


def test_final_weights_of_the_thesis():
    # (29) for one mode: w^2 = m/2 (e + sqrt(e^2 + 4/(m mu))), h^2 = mu/2 (-e + sqrt(...)), e = w^2/m - h^2/mu
    m, mu, w, h = 3.0, 0.7, 0.4, 0.9
    end = ls.HiddenMode(s=1.0, eta_w=m, eta_h=mu)(np.inf, ([w], [h]))
    e = w**2 / m - h**2 / mu
    root = np.sqrt(e**2 + 4 / (m * mu))
    np.testing.assert_allclose(end["w"] ** 2, [m / 2 * (e + root)], rtol=1e-14)
    np.testing.assert_allclose(end["h"] ** 2, [mu / 2 * (root - e)], rtol=1e-14)
    assert end["loss"] == 0


def test_balanced_mode_is_the_balanced_case():
    t = np.array([0.0, 0.3, 1.0, 4.0, 30.0, np.inf])
    for s, sign in ((1.7, 1), (-0.8, -1), (1.2, -1), (0.0, 1)):
        flow, a0 = ls.HiddenMode(s=s, eta_w=0.8, eta_h=0.8), 0.09
        w = np.sqrt(a0) * np.array([0.6, 0.8])
        balanced = ls.BalancedMode(s=s, tau=1 / 0.8)(t, sign * a0)
        found = flow(t, (w, sign * w))
        np.testing.assert_allclose(found["output"], balanced["a"], rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(found["loss"], balanced["loss"], rtol=1e-12)


def test_two_layers_at_half_the_rates_agree():
    rng = np.random.default_rng(2)
    w, h = rng.normal(size=(2, 4))
    t = np.linspace(0.0, 3.0, 7)
    wide = ls.TwoLayer(y=-1.3, eta_u=0.4, eta_w=0.7)(t, (w, h[:, None]))
    mode = ls.HiddenMode(s=-1.3, eta_w=0.8, eta_h=1.4)(t, (w, h))
    np.testing.assert_allclose(mode["w"], wide["u"], rtol=1e-13)
    np.testing.assert_allclose(mode["h"], wide["w"][..., 0], rtol=1e-13)


def test_saddles_and_starts_at_rest():
    t = [0.0, 1.0, 1e3, np.inf]
    rest = ls.HiddenMode(s=2.0)(t, ([0.0, 0.0], [0.0, 0.0]))
    assert np.array_equal(rest["w"], np.zeros((4, 2)))
    assert np.array_equal(rest["loss"], np.full(4, 2.0))
    # the stable manifold of the saddle: w = -h for s > 0
    flow = ls.HiddenMode(s=2.0)
    falling = flow(t, ([0.5, 0.1], [-0.5, -0.1]))
    assert np.array_equal(falling["w"][-1], [0.0, 0.0])
    assert flow.time_to(np, flow.State(np.array([0.5, 0.1]), np.array([-0.5, -0.1])), loss=np.asarray(1.9)) == np.inf
    # target 0 is approached as a power of time: p = p0 / (1 + 2 p0 t) for w = h
    slow = ls.HiddenMode(s=0.0)(t, ([0.5], [0.5]))
    np.testing.assert_allclose(slow["output"], [0.25, 0.25 / 1.5, 0.25 / 501, 0.0], rtol=1e-14)


def test_loss_stays_accurate_long_after_convergence():
    # |r| falls at the final rate: far below eps of the output, its logarithm is a straight line
    traj = ls.HiddenMode(s=1.5, eta_w=0.5, eta_h=2.0)([30.0, 60.0], ([0.7], [0.9]))
    rate = traj["ntk"][-1]
    assert traj["loss"][-1] < 1e-70
    assert np.log(traj["loss"][0] / traj["loss"][1]) / 60.0 == pytest.approx(rate, rel=1e-12)


def test_time_to_inverts_the_loss_and_is_inf_below_its_end():
    flow, z0 = ls.HiddenMode.example(np.random.default_rng(0))
    for t in (1e-6, 0.1, 3.0, 20.0):
        found = flow.time_to(np, z0, loss=flow(t, z0)["loss"])
        np.testing.assert_allclose(found, np.full(3, t), rtol=1e-9 if t < 1e-3 else 1e-12)
    assert np.array_equal(flow.time_to(np, z0, loss=np.zeros(3)), np.full(3, np.inf))
    assert np.array_equal(flow.time_to(np, z0, loss=1.01 * flow.loss(np, z0)), np.zeros(3))


@pytest.mark.parametrize("name", HIDDEN)
@pytest.mark.quick(3)
def test_mutants_are_rejected_by_the_check_that_should_see_them(name):
    mutant = HIDDEN[name]
    checks = list(dict.fromkeys(["velocity", "residual", mutant.seen_by]))
    assert mutant.seen_by in ls.verify(mutant.flow, mutant.z0, checks=checks).failed


# the first is proved with all other flows
@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(20))
def test_examples_are_proved(seed):
    report = ls.verify(*ls.HiddenMode.example(np.random.default_rng(seed)))
    assert report.ok, str(report)


def test_wrong_widths_are_refused():
    with pytest.raises(ValueError, match=r"HiddenMode: h has shape \(3,\), so d = 3, but w has d = 2"):
        ls.HiddenMode(s=1.0)(1.0, ([0.1, 0.2], [0.1, 0.2, 0.3]))
