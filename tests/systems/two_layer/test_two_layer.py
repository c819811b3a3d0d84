"""The two-layer network on a line of data: accuracy, every special case, both routes from outside."""

import importlib.util
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
import sympy
from scipy.integrate import solve_ivp
from selection import quick

from linsolve import NotExact, TwoLayer, TwoLayerOrder, arithmetic
from linsolve.arithmetic.identities import prove_zero
from linsolve.numerics.double_double import DoubleDouble, length, two_prod, two_sum

_PATH = Path(__file__).parents[3] / "benchmarks" / "accuracy_two_layer.py"
_SPEC = importlib.util.spec_from_file_location("accuracy_two_layer", _PATH)
bench = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(bench)

STATED = {
    "u": 1e-13,
    "w": 1e-13,
    "ntk": 1e-13,
    "output": 1e-13,
    "residual": 5e-13,
    "loss": 1e-12,
    "alignment": 1e-13,
    "limit": 1e-12,
    "time_to": 1e-12,
    "blow_up_time": 1e-13,
}


def raw_gradient_flow(t, z, y, gamma, eta_u, eta_w, x):
    """The equations of motion, written out once more."""
    d, d0 = len(z) // (1 + len(x)), len(x)
    u, w = z[:d], z[d:].reshape(d, d0)
    r = gamma * u @ (w @ x) - y
    return np.concatenate([-2 * eta_u * gamma * r * (w @ x), (-2 * eta_w * gamma * r * np.outer(u, x)).ravel()])


def follow(flow, u, w, t):
    p = [np.asarray(v) for v in flow.parameters().values()]
    z0 = np.concatenate([np.ravel(u), np.ravel(w)]).astype(float)
    found = solve_ivp(raw_gradient_flow, (0, t), z0, "DOP853", args=p, rtol=1e-12, atol=1e-13 * np.abs(z0).max())
    assert found.success
    return found.y[: np.size(u), -1], found.y[np.size(u) :, -1].reshape(np.shape(w))


@pytest.mark.parametrize("draws", quick([100, 400, 5000], 1))
def test_accuracy_is_as_stated(draws):
    found = {name: worst for name, worst, _ in bench.rows(draws=draws, seed=0)}
    assert found.keys() == STATED.keys()
    assert all(found[name] <= STATED[name] for name in STATED), found
    assert all(found[name] > 0 for name in STATED if name != "alignment")  # an error of exactly 0 compares nothing


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.quick(1)
def test_fifty_digits_agree_with_a_taylor_integrator(seed):
    rng = np.random.default_rng(seed)
    values = {"y": rng.uniform(-1, 1), "gamma": -0.8, "eta_u": rng.uniform(0.2, 1), "eta_w": 1.4}
    values["x"] = rng.uniform(-1, 1, 2)
    u, w, t = rng.uniform(-1, 1, 2), rng.uniform(-1, 1, (2, 2)), 0.4
    mp = mpmath.MPContext()
    mp.dps = 30
    y, gamma, eta_u, eta_w = (mp.mpf(float(values[k])) for k in ("y", "gamma", "eta_u", "eta_w"))
    x = [mp.mpf(float(v)) for v in values["x"]]

    def rate(_, z):
        h = [z[2] * x[0] + z[3] * x[1], z[4] * x[0] + z[5] * x[1]]
        r = gamma * (z[0] * h[0] + z[1] * h[1]) - y
        return [-2 * eta_u * gamma * r * h[i] for i in range(2)] + [
            -2 * eta_w * gamma * r * z[i] * x[j] for i in range(2) for j in range(2)
        ]

    ode = mp.odefun(rate, 0, [mp.mpf(float(v)) for v in (*u, *w.ravel())])(mp.mpf(t))
    xp = arithmetic.precise(50)
    state = TwoLayer(**values).cast(xp).solution(xp, xp.asarray(t), TwoLayer.State(xp.asarray(u), xp.asarray(w)))
    found = [*state.u.flat, *state.w.flat]
    assert max(abs(mp.mpf(a) - b) for a, b in zip(found, ode, strict=True)) < mp.mpf("1e-27")


@pytest.mark.parametrize("sign_y", [-1, 0, 1])
@pytest.mark.parametrize("sign_gamma", [-1, 1])
@pytest.mark.parametrize("rates", [(0.3, 1.7), (0.0, 1.2), (0.7, 0.0), (0.0, 0.0)])
@pytest.mark.quick(8)
def test_agrees_with_direct_integration(sign_y, sign_gamma, rates):
    rng = np.random.default_rng(5)
    for d, d0 in ((1, 1), (1, 3), (4, 1), (3, 2)):
        x = rng.standard_normal(d0)
        flow = TwoLayer(y=0.9 * sign_y, gamma=0.6 * sign_gamma, eta_u=rates[0], eta_w=rates[1], x=x)
        u, w = rng.standard_normal(d), rng.standard_normal((d, d0))
        for t in (0.2, 2.0):
            state = flow(t, flow.State(u, w)).state
            ode_u, ode_w = follow(flow, u, w, t)
            np.testing.assert_allclose(state.u, ode_u, atol=3e-11)
            np.testing.assert_allclose(state.w, ode_w, atol=3e-11)


def test_backward_in_time_down_to_the_blow_up():
    rng = np.random.default_rng(2)
    flow, z0 = TwoLayer.example(rng)
    end = flow.blow_up_time(np, z0)
    assert (end < 0).all()
    for i in range(3):
        one = TwoLayer(**{k: (v[i] if k in ("y", "gamma") else v) for k, v in flow.parameters().items()})
        start = one.State(z0.u[i], z0.w[i])
        t = 0.8 * end[i]
        state = one(t, start).state
        u, w = follow(one, *start, t)
        np.testing.assert_allclose(state.u, u, rtol=1e-9)
        np.testing.assert_allclose(state.w, w, rtol=1e-9)
        assert one(end[i] * (1 - 1e-9), start)["u_norm"] > 1e3
        with pytest.raises(ValueError, match="must be later than"):
            one(end[i], start)


SADDLES = [  # aligned layers: P = 0 for u.h < 0, Q = 0 for u.h > 0, exactly, since 3, 4, 5 are exact
    (-1, 1, 1, True), (-1, -1, 1, False), (1, 1, 1, False), (1, -1, 1, True), (-1, 1, -1, False), (1, 1, -1, True),
]  # fmt: skip


@pytest.mark.parametrize(("side", "y", "gamma", "saddle"), SADDLES)
def test_aligned_layers_end_at_the_target_or_at_the_saddle(side, y, gamma, saddle):
    flow = TwoLayer(y=y, gamma=gamma, x=[3.0, 4.0])
    z0 = flow.State(*(np.array(v) for v in ([side * 0.5, side * -1.0], [[0.5, 0.25], [-1.0, -0.5]])))
    order, parameters = TwoLayerOrder.of(flow, z0)
    assert (parameters.P == 0) == (side < 0)
    assert (parameters.Q == 0) == (side > 0)
    end = flow([np.inf, 0.3], z0)
    assert end["output"][0] == (0 if saddle else y)
    if saddle:
        assert (end["u"][0] == 0).all()
        assert end["h_norm"][0] == 0
        assert end["alignment"][0] == 0
        assert flow.time_to(np, z0, loss=0.5) == np.inf
    u, w = follow(flow, *z0, 0.3)  # not much longer: an integrator drifts off a saddle along its unstable direction
    np.testing.assert_allclose(end["u"][1], u, atol=1e-8)
    np.testing.assert_allclose(end["w"][1], w, atol=1e-8)
    limit = order.limit(np, parameters)
    np.testing.assert_allclose(limit.P - limit.Q, end["output"][0] * gamma / 5, rtol=1e-15)


def test_no_target_and_one_aligned_side_decay_algebraically():
    flow = TwoLayer(y=0.0, x=[3.0, 4.0])  # y = 0, Q = 0, so c = 0 and p = p0/sqrt(1 + 4 kP t)
    z0 = flow.State(u=[0.5], w=[[0.5, 0.25]])  # h = 2.5 = 5 u
    t = np.array([1e-3, 1.0, 1e6, 1e200, np.inf])
    k = 25 * 0.25
    np.testing.assert_allclose(flow(t, z0)["u"][:, 0], 0.5 / np.sqrt(1 + 4 * k * t), rtol=1e-15)


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        ({"gamma": 0.0}, ([0.3, 0.1], [[1.0, 2.0], [0.5, 0.5]])),
        ({"x": [0.0, 0.0]}, ([0.3, 0.1], [[1.0, 2.0], [0.5, 0.5]])),
        ({"eta_u": 0.0, "eta_w": 0.0}, ([0.3, 0.1], [[1.0, 2.0], [0.5, 0.5]])),
        ({}, ([0.0, 0.0], [[2.0, -1.0], [0.5, -0.25]])),  # u = 0 and W x = 0 although W is not: P = Q = 0
        ({"y": 1.0}, ([1.0, 0.0], [[1.0, 0.0], [0.0, 0.0]])),  # on the target
    ],
)
def test_stationary_starts_stay_bitwise(changes, start):
    flow = TwoLayer(**{"y": 0.7, "x": [1.0, 2.0], **changes})
    z = flow([-0.1, 0.0, 1.0, 1e300, np.inf], start).state
    for found, was in zip(z, start, strict=True):
        np.testing.assert_array_equal(found, np.broadcast_to(was, found.shape))
    assert flow.blow_up_time(np, flow.State(*(np.array(v) for v in start))) == -np.inf


def test_a_frozen_layer_does_not_move_and_the_other_relaxes_exponentially():
    u, w = np.array([0.3, -0.7]), np.array([[1.0, 2.0, 0.1], [0.5, -0.5, 0.4]])
    x, t = np.array([0.3, 0.4, 1.2]), np.array([0.1, 1.0, 4.0])
    for rates in ((0.0, 0.6), (0.6, 0.0)):
        flow = TwoLayer(y=2.0, gamma=-0.5, eta_u=rates[0], eta_w=rates[1], x=x)
        traj = flow(t, (u, w))
        frozen, was = (traj["u"], u) if rates[0] == 0 else (traj["w"], w)
        np.testing.assert_array_equal(frozen, np.broadcast_to(was, frozen.shape))
        kernel = 0.25 * (rates[0] * np.sum((w @ x) ** 2) + rates[1] * (u @ u) * (x @ x))
        np.testing.assert_allclose(traj["residual"], (-0.5 * u @ w @ x - 2) * np.exp(-2 * kernel * t), rtol=1e-14)


def test_a_single_used_input_leaves_the_others_bitwise():
    rng = np.random.default_rng(0)
    w = rng.standard_normal((3, 4)) * 1e3
    flow = TwoLayer(y=1.0, x=[0.0, 0.0, -2.0, 0.0])
    found = flow(np.inf, (rng.standard_normal(3) * 1e3, w))["w"]
    np.testing.assert_array_equal(found[:, [0, 1, 3]], w[:, [0, 1, 3]])
    assert (found[:, 2] != w[:, 2]).all()


def test_time_zero_is_bitwise_the_start_and_nothing_is_ever_nan():
    rng = np.random.default_rng(3)
    sizes, n = [0, 1e-150, 1e-80, 1e-20, 1e-8, 1, 1e3, 1e20, 1e60], 3000
    for d, d0 in ((1, 1), (1, 2), (3, 2)):
        size = rng.choice(sizes, (n, 1))
        other = np.where(rng.random((n, 1)) < 0.5, size, rng.choice(sizes, (n, 1)))
        z = TwoLayer.State(
            rng.choice([-1, 0, 1, 0.3, 0.7], (n, d)) * size, rng.choice([-1, 0, 1, 0.3], (n, d, d0)) * other[..., None]
        )
        flow = TwoLayer(
            y=rng.choice([0, 1, -1, 1e-15, -1e15, 1e-150], n),
            gamma=rng.choice([0, 1, -1, 1e-4, 1e4], n),
            eta_u=rng.choice([0, 1, 1e-6, 1e6, 1], n),
            eta_w=rng.choice([0, 1, 1e-6, 1e6, 1], n),
            x=rng.choice([0, 1, -1, 1e-4, 1e4, 0.3], (n, d0)),
        )
        t = rng.choice([1e-300, 1e-20, 1e-3, 1, 10, 1e5, 1e100, 1e300, np.inf], n)
        start = flow.solution(np, 0 * np.ones(n), z)
        np.testing.assert_array_equal(start.u, z.u)
        np.testing.assert_array_equal(start.w, z.w)
        found = [*flow.solution(np, t, z), *flow.along(np, t, z).values(), *flow.limit(np, z)]
        assert all(np.isfinite(v).all() for v in found)
        time, end = flow.time_to(np, z, loss=rng.choice([0, 1e-10, 1, 1e-300], n)), flow.blow_up_time(np, z)
        assert (time >= 0).all()
        assert (end < 0).all()
        back = flow.solution(np, np.where(np.isfinite(end), end * rng.choice([1e-6, 0.5, 1 - 1e-9], n), 0), z)
        assert all(np.isfinite(v).all() for v in back)


def test_loss_stays_accurate_long_after_convergence():
    flow, z0 = TwoLayer(y=1.0, eta_u=0.7), TwoLayer.State(np.array([0.3, 0.4]), np.array([[0.2], [0.9]]))
    loss = flow([10.0, 30.0], z0)["loss"]
    rate = 2 * float(flow(np.inf, z0)["ntk"])
    assert loss[1] < 1e-80
    assert loss[1] / loss[0] == pytest.approx(np.exp(-2 * rate * 20), rel=1e-11)


def test_time_to_a_loss():
    flow, z0 = TwoLayer.example(np.random.default_rng(1))
    first = flow.loss(np, z0)
    t = flow.time_to(np, z0, loss=first / 100)
    np.testing.assert_allclose(np.diagonal(flow(t, z0)["loss"]), first / 100, rtol=1e-13)
    assert (flow.time_to(np, z0, loss=first * 2) == 0).all()
    assert (flow.time_to(np, z0, loss=0.0) == np.inf).all()


def test_kernel_between_probes_is_the_response_of_the_output():
    rng = np.random.default_rng(8)
    flow, z = TwoLayer.example(rng)
    probe = rng.standard_normal(3)
    velocity, hidden = flow.velocity(np, z), z.w @ probe
    change = flow.gamma * (np.sum(velocity.u * hidden, -1) + np.sum(z.u * (velocity.w @ probe), -1))
    kernel = flow.ntk_between(np, z, probe, flow.x)
    np.testing.assert_allclose(change, -2 * kernel * flow.residual(np, z), rtol=1e-13)
    np.testing.assert_array_equal(flow.ntk(np, z), flow.ntk_between(np, z, flow.x, flow.x))


def test_a_data_set_on_a_line_trains_like_its_flow():
    rng = np.random.default_rng(4)
    X, y = rng.standard_normal((6, 1)) * [0.6, 0.0, -0.8], rng.standard_normal(6)
    flow = TwoLayer.from_dataset(X, y, gamma=0.7, eta_u=0.5, eta_w=1.5)
    z0 = TwoLayer.init(4, 3, sigma_u=0.5, rng=1)

    def rate(_, z):
        u, w = z[:4], z[4:].reshape(4, 3)
        r = 0.7 * (X @ w.T) @ u - y
        back = [0.5 * (r[:, None] * (X @ w.T)).mean(0), 1.5 * (r[:, None, None] * u[:, None] * X[:, None]).mean(0)]
        return -2 * 0.7 * np.concatenate([v.ravel() for v in back])

    def empirical(u, w):
        return np.mean((0.7 * (X @ w.T) @ u - y) ** 2)

    found = solve_ivp(rate, (0, 1.5), np.concatenate([v.ravel() for v in z0]), "DOP853", rtol=1e-12, atol=1e-13)
    u, w = found.y[:4, -1], found.y[4:, -1].reshape(4, 3)
    traj = flow(1.5, z0)
    np.testing.assert_allclose(traj["u"], u, atol=1e-11)
    np.testing.assert_allclose(traj["w"], w, atol=1e-11)
    a = X @ [0.6, 0.0, -0.8]
    offset = np.mean(y**2) - np.mean(a * y) ** 2 / np.mean(a**2)
    assert empirical(u, w) - traj["loss"] == pytest.approx(offset, rel=1e-11)


def test_a_data_set_off_every_line_is_refused_with_its_distance():
    X = np.array([[1.0, 0.0], [2.0, 1e-3], [-1.0, 0.0]])
    with pytest.raises(NotExact, match=r"TwoLayer.from_dataset: distance .* = 0.000[23]"):
        TwoLayer.from_dataset(X, np.ones(3))
    with pytest.raises(ValueError, match=r"must be \(N, d0\) and \(N,\)"):
        TwoLayer.from_dataset(X, np.ones(2))
    flow = TwoLayer.from_dataset(np.zeros((3, 2)), np.ones(3))
    assert (flow.x == 0).all()


def test_init_is_reproducible_and_refuses_nonsense():
    a, b = (TwoLayer.init(1000, 50, sigma_u=0.1, sigma_w=3.0, batch=(2,), rng=7) for _ in range(2))
    np.testing.assert_array_equal(a.w, b.w)
    assert a.u.shape == (2, 1000)
    assert a.w.shape == (2, 1000, 50)
    assert a.u.std() == pytest.approx(0.1, rel=0.1)
    assert a.w.std() == pytest.approx(3.0, rel=0.02)
    rng = np.random.default_rng(7)
    np.testing.assert_array_equal(TwoLayer.init(1000, 50, sigma_u=0.1, sigma_w=3.0, batch=2, rng=rng).u, a.u)
    for wrong, message in (
        ({"width": 0}, "width = 0 must be a positive integer"),
        ({"d0": 2.5}, "d0 = 2.5 must be a positive integer"),
        ({"batch": (2, -1)}, "batch = -1 must be a positive integer"),
        ({"sigma_u": -1.0}, "sigma_u = -1.0 must lie in"),
        ({"sigma_w": [1.0, 2.0]}, "must be one number"),
    ):
        with pytest.raises(ValueError, match=message):
            TwoLayer.init(**{"width": 3, "d0": 2, **wrong})


@pytest.mark.parametrize("t", [[0.0, 0.3, 2.0, np.inf, -0.02]])
def test_order_parameters_follow_the_weights(t):
    flow, z0 = TwoLayer.example(np.random.default_rng(6))
    order, start = TwoLayerOrder.of(flow, z0)
    weights, found = flow(t, z0), order(t, start)
    for name in ("loss", "output", "residual", "ntk", "alignment", "u_norm", "h_norm"):
        np.testing.assert_allclose(found[name], weights[name], rtol=1e-12, atol=1e-14, err_msg=name)
    _, expected = TwoLayerOrder.of(flow, weights.state)
    for name, value in zip(start._fields, expected, strict=True):
        np.testing.assert_allclose(found[name], value, rtol=1e-13, err_msg=name)
    _, stepped = TwoLayerOrder.of(flow, flow.step(np, z0, 0.05))
    for a, b in zip(stepped, order.step(np, start, 0.05), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)
    np.testing.assert_allclose(order.time_to(np, start, loss=1e-3), flow.time_to(np, z0, loss=1e-3), rtol=1e-13)
    np.testing.assert_allclose(order.blow_up_time(np, start), flow.blow_up_time(np, z0), rtol=1e-13)


def test_order_parameters_of_no_network_are_refused():
    order = TwoLayerOrder(y=1.0)
    with pytest.raises(ValueError, match=r"TwoLayerOrder: P = -0.1 must be at least 0"):
        order(1.0, (-0.1, 0.2, 0.0))
    with pytest.raises(ValueError, match=r"\|R\| = 0.5 must be at most sqrt\(P Q\) = 0.2"):
        order(1.0, (0.1, 0.4, 0.5))
    with pytest.raises(ValueError, match=r"eta_u = 0\.0 must lie in"):
        TwoLayerOrder.of(TwoLayer(y=1.0, eta_u=0.0), ([1.0], [[1.0]]))
    with pytest.raises(ValueError, match="x = 0"):
        TwoLayerOrder.of(TwoLayer(y=1.0, x=[0.0]), ([1.0], [[1.0]]))


def test_the_array_api_standard_is_enough():
    xp = pytest.importorskip("array_api_strict")
    t = np.array([0.0, 0.2, 3.0, np.inf, -0.02])
    for cls in (TwoLayer, TwoLayerOrder):
        flow, z0 = cls.example(np.random.default_rng(0))
        strict = cls(**{k: xp.asarray(v) for k, v in flow.parameters().items()})
        start = cls.State(*(xp.asarray(np.asarray(v)) for v in z0))
        plain, found = flow(t, z0), strict(xp.asarray(t), start)
        for name in plain.names:
            np.testing.assert_allclose(np.asarray(found[name]), plain[name], rtol=1e-14, atol=1e-15, err_msg=name)
        loss = xp.asarray(1e-3)
        np.testing.assert_allclose(np.asarray(strict.time_to(xp, start, loss=loss)), flow.time_to(np, z0, loss=1e-3))


def test_a_large_batch_is_its_members():
    flow, z0 = TwoLayer.example(np.random.default_rng(0))
    t = np.array([[0.1], [2.0]])
    together = flow(t, z0)
    assert together["u"].shape == (2, 1, 3, 5)
    assert together["w"].shape == (2, 1, 3, 5, 3)
    for i in range(3):
        one = TwoLayer(**{k: (v[i] if k in ("y", "gamma") else v) for k, v in flow.parameters().items()})
        alone = one(t, one.State(z0.u[i], z0.w[i]))
        for name in ("u", "w"):
            np.testing.assert_allclose(together[name][:, :, i], alone[name], rtol=1e-14)
        np.testing.assert_allclose(together["loss"][..., i], alone["loss"], rtol=1e-13)


def test_two_sum_and_two_prod_are_exact():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(200) * 10.0 ** rng.integers(-30, 30, 200) for _ in range(2))
    (s, e), (p, f) = two_sum(np, a, b), two_prod(np, a, b)
    for i in range(200):
        x, y = Fraction(float(a[i])), Fraction(float(b[i]))
        assert Fraction(float(s[i])) + Fraction(float(e[i])) == x + y
        assert Fraction(float(p[i])) + Fraction(float(f[i])) == x * y


def test_twofold_arithmetic_has_thirty_digits():
    rng = np.random.default_rng(1)
    a, b = DoubleDouble(np, *(rng.uniform(1, 2, 50) * s for s in (1, 1e-17))), DoubleDouble(np, rng.uniform(1, 2, 50))
    exact_a = [Fraction(float(h)) + Fraction(float(low)) for h, low in zip(a.hi, a.lo, strict=True)]
    exact_b = [Fraction(float(h)) for h in b.hi]

    def off(found, exact):
        pairs = zip(found.hi.ravel(), found.lo.ravel(), exact, strict=True)
        return max(abs(float((Fraction(float(h)) + Fraction(float(low)) - x) / x)) for h, low, x in pairs)

    assert off(a + b, [x + y for x, y in zip(exact_a, exact_b, strict=True)]) < 1e-31
    assert off(a * b, [x * y for x, y in zip(exact_a, exact_b, strict=True)]) < 1e-31
    assert off(a / b, [x / y for x, y in zip(exact_a, exact_b, strict=True)]) < 1e-31
    root = a.sqrt()
    assert off(root * root, exact_a) < 1e-30
    terms = DoubleDouble(np, np.array([1e16, 1.0, -1e16, 1e-16, 3.0]))
    assert Fraction(float(terms.sum().hi)) + Fraction(float(terms.sum().lo)) == 4 + Fraction(1e-16)
    assert length(np, np.array([3e-200, 4e-200])) == pytest.approx(5e-200, rel=1e-15)
    assert DoubleDouble(np, np.array([3e200, 4e200])).length().hi == pytest.approx(5e200, rel=1e-15)
    assert (DoubleDouble(np, np.zeros(3)).length().hi, length(np, np.zeros(3))) == (0, 0)


def test_order_parameters_are_proved_in_symbols():
    params, start, point = TwoLayerOrder.symbols()
    time = sympy.Symbol("t", positive=True)
    xp = arithmetic.symbolic({**point, time: sympy.Rational(7, 10)})
    flow = TwoLayerOrder(**{k: xp.asarray(v) for k, v in params.items()})
    state = flow.solution(xp, xp.asarray(time), flow.State(*(xp.asarray(v) for v in start)))
    velocity = flow.velocity(xp, state)
    for value, rate in zip(state, velocity, strict=True):
        assert prove_zero(value[()].item().diff(time) - rate[()].item())


@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.quick(1)
def test_lengths_and_alignment_of_order_parameters_at_every_ratio_of_the_layers(size):
    """One unit, whose layers are parallel, and generic units: against the lengths of the weights at several times."""
    rng, t = np.random.default_rng(4), np.array([0.0, 0.1, 1.0, np.inf])
    for width in (1, 3):
        for ratio in (size, 1 / size):
            u, w = (
                ratio * rng.uniform(0.5, 1, width),
                rng.choice([-1, 1], width)[:, None] * rng.uniform(0.5, 1, (width, 1)),
            )
            flow = TwoLayer(y=0.7, x=[0.8], gamma=1.3, eta_u=0.6)
            order, start = TwoLayerOrder.of(flow, (u, w))
            weights, found = flow(t, (u, w)), order(t, start)
            # one rounding of P, Q or R against the square of the shorter length
            lost = 8 * 2.0**-53 / min(size, 1) ** (1 if width == 1 else 2)
            for name in ("u_norm", "h_norm", "alignment"):
                if lost < 0.1:
                    np.testing.assert_allclose(found[name], weights[name], rtol=1e-12 + lost, atol=1e-13 + lost)


def test_layers_that_are_parallel_are_seen_to_be():
    order, start = TwoLayerOrder.of(TwoLayer(y=1.0, x=[1.0]), ([1e-9], [[1.0]]))
    assert order.alignment(np, start) == order(0.0, start)["alignment"] == 1
    assert order.u_norm(np, start) == pytest.approx(1e-9, rel=1e-7)


def test_state_and_observables_evaluate_the_kernel_once(monkeypatch):
    """In one call, with all observables: one rotation; a subclass that overrides `solution` alone is followed too."""
    from linsolve.systems.two_layer import rotated_layers

    count, rotation = [], rotated_layers.rotation
    monkeypatch.setattr(rotated_layers, "rotation", lambda *a: count.append(1) or rotation(*a))
    flow, z0 = TwoLayer.example(np.random.default_rng(0))
    trajectory = flow([0.0, 0.3], z0)
    dict(trajectory)
    assert len(count) == 1

    class Faster(TwoLayer):
        def solution(self, xp, t, z0):
            return super().solution(xp, 2 * t, z0)

    fast = Faster(**flow.parameters())(0.15, z0)
    np.testing.assert_array_equal(fast["u"], trajectory["u"][1])
    np.testing.assert_array_equal(fast["loss"], flow(0.15, z0)["loss"])


@pytest.mark.parametrize("name", ["eta_u", "eta_w"])
@pytest.mark.parametrize("size", [1e-145, 1e-160, 1e-200, 1e-300])
def test_beside_a_tiny_frozen_layer_the_other_learns_by_linear_regression(name, size):
    """``r = r0 exp(-2 size^2 t)``: nothing is learned in finite time, everything at ``t = inf``."""
    flow, frozen = TwoLayer(y=1.0, x=[1.0], **{name: 0.0}), "u" if name == "eta_u" else "w"
    start = ([size], [[0.0]]) if frozen == "u" else ([0.0], [[size]])
    found = flow([1e300, np.inf], start)
    rate = size * (size * 1e300)
    grown, tolerance = -np.expm1(-2 * rate) / size, 1e-10 if size == 1e-160 else 1e-12  # a denormal kernel, 1e-320
    np.testing.assert_allclose(found["w" if frozen == "u" else "u"].ravel(), [grown, 1 / size], rtol=tolerance)
    np.testing.assert_allclose(found["loss"], [np.exp(-4 * rate), 0], rtol=1e-12)
    time = np.log(2) / 2 / size / size if size > 1e-150 else np.inf
    assert flow.when(start, loss=0.25) == pytest.approx(time, rel=1e-12)
    with pytest.raises(OverflowError, match="TwoLayer"):
        TwoLayer(y=1e30, x=[1.0], **{name: 0.0})(np.inf, ([1e-305], [[0.0]]) if frozen == "u" else ([0.0], [[1e-305]]))
