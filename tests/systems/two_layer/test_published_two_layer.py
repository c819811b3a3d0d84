"""Formulas of Xu and Ziyin (2024) on the two-layer network: the published form and the form that holds.

Every number here comes from integrating the weights directly; each printed formula is evaluated as printed and as
corrected.
"""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from linsolve import TwoLayer, TwoLayerOrder

GAMMA, ETA_U, ETA_W, Y, T = 0.8, 0.5, 1.9, 1.3, 0.35
X = np.array([0.9, -0.4, 0.7])
RNG = np.random.default_rng(11)
U0, W0 = RNG.standard_normal(4), RNG.standard_normal((4, 3))
RHO = np.sqrt(np.sum(X**2))


def split(z):
    return z[:4], z[4:].reshape(4, 3)


def rate(_, z):
    u, w = split(z)
    r = GAMMA * u @ w @ X - Y
    return -2 * GAMMA * r * np.concatenate([ETA_U * w @ X, (ETA_W * np.outer(u, X)).ravel()])


@pytest.fixture(scope="module")
def trained():
    z0 = np.concatenate([U0, W0.ravel()])
    times = [1e-4, T, 12.0]
    return [split(z) for z in solve_ivp(rate, (0, 12), z0, "DOP853", times, rtol=1e-12, atol=1e-14).y.T]


def pq(u, w, rho):
    a, b = np.sqrt(ETA_W) * u, np.sqrt(ETA_U) * w @ X / rho
    return (b + a) / 2, (b - a) / 2


def amplification(rho, t=T, signed=True):
    """Eqs. (5)-(8), in the one sign convention that is consistent, for some `rho`."""
    p, q = pq(U0, W0, rho)
    P, Q = p @ p, q @ q
    g, kP, kQ = np.sqrt(ETA_U * ETA_W) * GAMMA * rho, (GAMMA * rho) ** 2 * P, (GAMMA * rho) ** 2 * Q
    c = np.sqrt((g * Y) ** 2 + 4 * kP * kQ)
    plus, minus = (g * Y + c) / (2 * kP), (g * Y - c) / (2 * kP)
    xi = (1 - plus) / (1 - minus) * np.exp(-4 * c * t)
    signs = 1 if signed else -1
    return (plus - xi * signs * minus) / (1 - xi)


def distance(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def test_the_theorem_holds_with_rho_the_length_of_x(trained):
    u, _ = trained[1]
    for rho, right in ((RHO, True), (RHO / np.sqrt(3), False)):
        p, q = pq(U0, W0, rho)
        A = amplification(rho)
        found = (p * np.sqrt(A) - q / np.sqrt(A)) / np.sqrt(ETA_W)
        assert (distance(found, u) < 1e-10) == right
    assert distance(TwoLayer(y=Y, gamma=GAMMA, eta_u=ETA_U, eta_w=ETA_W, x=X)(T, (U0, W0))["u"], u) < 1e-10


def test_p_times_q_is_conserved_only_with_rho_the_length_of_x(trained):
    for rho, right in ((RHO, True), (RHO / np.sqrt(3), False)):
        before, after = (np.multiply(*pq(u, w, rho)) for u, w in ((U0, W0), trained[1]))
        assert (distance(after, before) < 1e-10) == right


def test_alpha_minus_must_keep_one_sign_throughout():
    order = TwoLayerOrder(y=Y, gamma=GAMMA, eta_u=ETA_U, eta_w=ETA_W, rho=RHO)
    p, q = pq(U0, W0, RHO)
    shipped = order(0.05, (p @ p, q @ q, p @ q))["P"] / (p @ p)
    assert amplification(RHO, 0.05) == pytest.approx(shipped, rel=1e-12)
    assert abs(amplification(RHO, 0.05, signed=False) / shipped - 1) > 1e-2


def test_w_is_recovered_through_the_rate_of_u(trained):
    _, w = trained[1]
    p, q = pq(U0, W0, RHO)
    root = np.sqrt(amplification(RHO))
    change = (p * (root - 1) + q * (1 / root - 1))[:, None] * X / RHO
    assert distance(W0 + change / np.sqrt(ETA_U), w) < 1e-10
    assert distance(W0 + change / np.sqrt(ETA_W), w) > 1e-2  # as printed


def test_the_kernel_has_the_rates_the_other_way_round(trained):
    probe = np.array([0.2, 1.1, -0.5])
    (u, w), dt = trained[0], 1e-4
    change = GAMMA * (u @ w @ probe - U0 @ W0 @ probe) / dt
    r, inner = GAMMA * U0 @ W0 @ X - Y, X @ probe
    hidden = (W0 @ X) @ (W0 @ probe)
    right = GAMMA**2 * (ETA_U * hidden + ETA_W * U0 @ U0 * inner)
    printed = GAMMA**2 * (ETA_W * hidden + ETA_U * U0 @ U0 * inner)
    assert change == pytest.approx(-2 * right * r, rel=1e-2)
    assert abs(change / (-2 * printed * r) - 1) > 0.2
    assert np.sign(change) == -np.sign(2 * right * r)  # printed with a plus
    flow = TwoLayer(y=Y, gamma=GAMMA, eta_u=ETA_U, eta_w=ETA_W, x=X)
    assert flow.ntk_between(np, flow.State(U0, W0), probe, X) == pytest.approx(right, rel=1e-14)


def test_signs_of_the_products(trained):
    p, q = pq(U0, W0, RHO)
    v = W0 @ X / RHO
    np.testing.assert_allclose(4 * p * q, ETA_U * v**2 - ETA_W * U0**2, rtol=1e-12)
    kP, kQ = (GAMMA * RHO) ** 2 * (p @ p), (GAMMA * RHO) ** 2 * (q @ q)
    g = np.sqrt(ETA_U * ETA_W) * GAMMA * RHO
    c = np.sqrt((g * Y) ** 2 + 4 * kP * kQ)
    plus, minus = (g * Y + c) / (2 * kP), (g * Y - c) / (2 * kP)
    assert plus * minus == pytest.approx(-(q @ q) / (p @ p), rel=1e-12)  # printed +Q/P
    u, _ = trained[2]
    np.testing.assert_allclose((p * np.sqrt(plus) - q / np.sqrt(plus)) / np.sqrt(ETA_W), u, atol=1e-10)  # eq. (9)


@pytest.mark.parametrize("y", [-2.0, 0.4, 2.0])
@pytest.mark.parametrize("gamma", [-0.7, 1.2])
def test_statements_that_hold_as_printed(y, gamma):
    flow = TwoLayer(y=y, gamma=gamma, eta_u=0.6, eta_w=1.7, x=X)
    traj = flow(np.linspace(0, 6, 60), (U0, W0))
    f0 = traj["output"][0]
    # alignment is monotone, and rises where gamma (y - f0) > 0
    steps = np.diff(traj["alignment"])
    assert (np.sign(gamma * (y - f0)) * steps >= -1e-15).all()
    assert abs(steps[0]) > 1e-4
    # the kernel's change on the data has one closed form
    K0 = traj["ntk"][0]
    g = np.sqrt(0.6 * 1.7) * gamma * RHO
    expected = np.sqrt(1 + 4 * g**2 * (y**2 - f0**2) / K0**2)
    assert flow(np.inf, (U0, W0))["ntk"] / K0 == pytest.approx(expected, rel=1e-12)
    # Q >= P exactly where u.Wx <= 0
    _, order = TwoLayerOrder.of(flow, (U0, W0))
    assert (order.Q >= order.P) == (U0 @ W0 @ X <= 0)
