"""The two-layer network on white inputs as a flow: the weights behind it, its starts, observables and refusals."""

import array_api_strict
import numpy as np
import pytest

import linsolve
from benchmarks.accuracy_whitened import simulated, starts
from linsolve import NotExact, WhitenedTwoLayer, arithmetic
from linsolve.systems.whitened.raw_weights import simulate
from linsolve.systems.whitened.starts import dyadic

LEGAL = [
    (3, 2, 4, 0.5),
    (3, 2, 4, -0.5),
    (2, 3, 4, 1.0),
    (4, 4, 2, -1.0),
    (5, 2, 2, 0.8),
    (3, 10, 5, 0.0),
    (1, 1, 1, -2.0),
]


def network(n_in=3, width=2, n_out=4, *, scale=0.4, lam=0.3, tau=0.8, seed=0, batch=()):
    rng = np.random.default_rng(seed)
    w1, w2 = WhitenedTwoLayer.init(n_in, width, n_out, scale=scale, imbalance=lam, batch=batch, rng=rng)
    return WhitenedTwoLayer(rng.normal(size=(*batch, n_out, n_in)), tau=tau), w1, w2


@pytest.mark.parametrize(("n_in", "width", "n_out", "lam"), LEGAL)
@pytest.mark.quick(2)
def test_agrees_with_weights_simulated(n_in, width, n_out, lam):
    flow, w1, w2 = network(n_in, width, n_out, lam=lam)
    times = np.asarray([0.1, 0.5, 1.5])
    found = flow(times * 0.8, flow.of(w1, w2))["product"]
    np.testing.assert_allclose(found, simulated(flow.target, w1, w2, times), atol=1e-9 * np.abs(found).max())


@pytest.mark.parametrize("count", [10, pytest.param(30, marks=pytest.mark.exhaustive)])
def test_random_balanced_starts_are_all_solved(count):
    for name, _, refused, obstructed, worst in starts(count=count, seed=3):
        assert refused == 0
        assert count // 5 <= obstructed <= count - count // 5, name
        assert worst < 1e-9


@pytest.mark.parametrize("lam", [0.0, 0.5, -0.5])
@pytest.mark.quick(1)
def test_residual_at_fifty_digits_from_a_start_in_doubles(lam):
    flow, w1, w2 = network(lam=lam)
    xp = arithmetic.precise(50)
    flow, start = flow.cast(xp), flow.State(*(xp.asarray(v) for v in flow.of(w1, w2)))
    t, h = xp.asarray(1) / 2, xp.asarray(10) ** -12
    after, here, before = (flow.solution(xp, s, start) for s in (t + h, t, t - h))
    for a, v, b in zip(after, flow.velocity(xp, here), before, strict=True):
        assert np.abs(arithmetic.to_numpy((a - b) / (2 * h) - v)).max() < 1e-22


def test_weights_of_rank_one_in_doubles_are_followed_in_fifty_digits():
    xp = arithmetic.precise(50)
    for seed in range(25):  # the second singular value is the rounding error of the doubles, its imbalance another one
        rng = np.random.default_rng(seed)
        a, b, c = rng.normal(size=(3, 2))
        first, last = np.outer(a, b) / np.linalg.norm(b), np.outer(c, a) / np.linalg.norm(c)
        flow = WhitenedTwoLayer(rng.normal(size=(2, 2)))
        found = flow(0.7, flow.of(xp.asarray(first), xp.asarray(last)))
        for exact, double in zip(found.state, flow(0.7, flow.of(first, last)).state, strict=True):
            np.testing.assert_allclose(arithmetic.to_numpy(exact), double, rtol=0, atol=1e-12 * np.abs(double).max())


@pytest.mark.parametrize(("total", "weak"), [(3.8e-4, 4e-7), (-2.2e-4, 7e-7)])
def test_a_mode_too_weak_for_the_imbalance_is_the_distance_from_the_class(total, weak):
    rng = np.random.default_rng(1)
    u, v = (np.linalg.qr(rng.normal(size=(n, n)))[0] for n in (2, 3))
    ahead, behind = (np.diag([np.sqrt(1 + max(lam, 0)), np.sqrt(weak / 2)]) for lam in (-total, total))
    first, last = ahead @ u.T, v[:, :2] @ behind
    flow = WhitenedTwoLayer(rng.normal(size=(3, 2)))
    found = flow(1.5, flow.of(first, last))["product"]
    wanted = simulated(flow.target, first, last, np.asarray([1.5]))[0]
    assert np.abs(found - wanted).max() < 20 * weak


# the first is proved with all other flows
@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(3))
def test_verified(seed):
    report = linsolve.verify(*WhitenedTwoLayer.example(np.random.default_rng(seed)))
    assert report.ok, str(report)


def test_example_is_in_the_class_without_rounding():
    w1, w2 = dyadic(np.random.default_rng(0), 3, 2, 4)
    spread = w2.T @ w2 - w1 @ w1.T
    assert spread[0, 0] != 0
    assert np.array_equal(spread, spread[0, 0] * np.eye(2))


def test_step_is_gradient_descent_on_the_weights():
    flow, w1, w2 = network(tau=0.6)
    h = 0.05
    gap = flow.target - w2 @ w1
    right = flow.of(w1 + h / 0.6 * w2.T @ gap, w2 + h / 0.6 * gap @ w1.T)
    for a, b in zip(flow.step(np, flow.of(w1, w2), h), right, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-15)


def test_invariants_are_power_sums_of_the_imbalance():
    rng = np.random.default_rng(1)
    w1, w2 = WhitenedTwoLayer.gaussian(3, 5, 4, sigma1=0.5, sigma2=0.7, rng=rng)
    flow = WhitenedTwoLayer(rng.normal(size=(4, 3)))
    eigenvalues = np.linalg.eigvalsh(w2.T @ w2 - w1 @ w1.T)
    traj = linsolve.integrate(flow, [0.0, 0.7], flow.of(w1, w2), rtol=1e-12)
    for power, name in enumerate(("imbalance", "imbalance_squared", "imbalance_cubed"), start=1):
        np.testing.assert_allclose(traj[name], (eigenvalues**power).sum(), rtol=1e-9)


def test_tangent_kernel_and_alignment_against_jacobians():
    flow, w1, w2 = network()
    rng = np.random.default_rng(2)
    x1, x2 = rng.normal(size=(2, 3)), rng.normal(size=(5, 3))

    def jacobian(x):
        # outputs by all weights: d f_c / d W1 = W2_c x, d f_c / d W2 = delta_c (W1 x)
        first = np.einsum("ch,ni->nchi", w2, x).reshape(len(x), 4, -1)
        second = np.einsum("cd,nh->ncdh", np.eye(4), x @ w1.T).reshape(len(x), 4, -1)
        return np.concatenate([first, second], axis=-1)

    right = np.einsum("acp,bdp->abcd", jacobian(x1), jacobian(x2))
    state = flow.of(w1, w2)
    np.testing.assert_allclose(flow.ntk(np, state, x1, x2), right, atol=1e-14)
    white = np.eye(3)
    kernel = flow.ntk(np, state, white, white).swapaxes(1, 2).reshape(12, 12)
    y = flow.target.T.ravel()
    cosine = y @ kernel @ y / (np.linalg.norm(kernel) * (y @ y))
    assert flow.kernel_alignment(np, state) == pytest.approx(cosine, rel=1e-13)
    batch = flow([0.0, 1.0], state)
    assert flow.ntk(np, batch.state, x1, x2).shape == (2, 2, 5, 4, 4)


def test_observables_by_name():
    flow, w1, w2 = network()
    traj = flow([0.0, 1.0, np.inf], flow.of(w1, w2))
    assert {"loss", "singular_values", "kernel_alignment", "obstructed", "imbalance"} <= set(traj.names)
    values = np.linalg.svd(traj["product"], compute_uv=False)
    np.testing.assert_allclose(traj["singular_values"], values, atol=1e-14)
    np.testing.assert_allclose(flow.limit(np, flow.of(w1, w2)).product, traj["product"][2], atol=1e-14)


def test_obstruction_says_where_the_flow_ends():
    flow, w1, w2 = network(3, 3, 3, lam=0.0, seed=4)
    for sign in (1.0, -1.0):
        start = flow.of(w1, w2 * np.asarray([sign, 1.0, 1.0])[:, None])
        stuck = bool(flow.obstructed(np, start))
        least = np.linalg.svd(flow.target, compute_uv=False)[-1]
        assert flow.final_loss(np, start) == pytest.approx(least**2 / 2 if stuck else 0.0, abs=1e-14)
        assert ("saddle" in flow.prospect(start)) == stuck
    assert flow.obstructed(np, flow.of(w1, w2)) + stuck == 1


def test_obstruction_needs_a_square_balanced_network():
    for arguments in ({"n_in": 3, "width": 2, "n_out": 4, "lam": 0.0}, {"n_in": 3, "width": 3, "n_out": 3, "lam": 0.1}):
        flow, w1, w2 = network(**arguments, batch=(30,))
        assert not flow.obstructed(np, flow.of(w1, w2)).any()


def test_weights_follow_the_ode_of_the_weights():
    flow, w1, w2 = network(tau=1.0, batch=(2,))
    times = np.asarray([0.0, 0.5, 1.0])
    a, b = flow.weights(times, w1, w2)
    assert a.shape == (3, 2, 2, 3)
    assert b.shape == (3, 2, 4, 2)
    assert np.array_equal(a[0], w1)
    traj = flow(times, flow.of(w1, w2))
    np.testing.assert_allclose(b @ a, traj["product"], atol=1e-9)
    np.testing.assert_allclose(np.swapaxes(a, -1, -2) @ a, traj["gram_in"], atol=1e-9)
    np.testing.assert_allclose(b[1:, 1] @ a[1:, 1], simulated(flow.target[1], w1[1], w2[1], times[1:]), atol=1e-9)
    rate = (flow.weights(0.5 + 1e-4, w1, w2)[0] - flow.weights(0.5 - 1e-4, w1, w2)[0]) / 2e-4
    gap = flow.target - b[1] @ a[1]
    np.testing.assert_allclose(rate, np.swapaxes(b[1], -1, -2) @ gap, atol=1e-6)


@pytest.mark.parametrize("size", [1.0, 1e-70, 1e70])
@pytest.mark.quick(1)
def test_weights_are_constant_once_the_limit_is_reached(size):
    flow, w1, w2 = network(tau=1.0)
    flow = WhitenedTwoLayer(target=flow.target * size**2, tau=flow.tau)
    w1, w2 = size * w1, size * w2
    times = np.asarray([1e3, 1e16, 1e155]) / size**2
    a, b = flow.weights(times, w1, w2)
    np.testing.assert_array_equal(a[1], a[2])
    for k in range(3):
        np.testing.assert_allclose(b[k] @ a[k], flow(np.inf, flow.of(w1, w2))["product"], atol=1e-8 * size**2)


def test_weights_name_what_is_wrong():
    flow, w = WhitenedTwoLayer(target=np.diag([1.0, 0.0])), 0.1 * np.eye(2)
    with pytest.raises(ValueError, match=r"weights: t = 1e\+16 must be at most .* \(rounding errors exceed rtol"):
        flow.weights(1e16, w, w)  # the zero mode decays as 1/t
    with pytest.raises(ValueError, match=r"weights: w1 has shape \(2, 1\), so n_in = 1, but target has n_in = 2"):
        flow.weights(1.0, w[:, :1], w)
    with pytest.raises(OverflowError, match=r"weights: w1 = 1e\+154 and w2 = 0\.1 \(largest entries\)"):
        flow.weights(1.0, 1e155 * w, w)
    with pytest.raises(OverflowError, match=r"target = 1\.7e\+308 \(largest entry\) must be below"):
        WhitenedTwoLayer(target=1.7e308 * np.eye(3))


@pytest.mark.parametrize(("n_in", "width", "n_out", "lam"), LEGAL)
def test_init_is_balanced(n_in, width, n_out, lam):
    w1, w2 = WhitenedTwoLayer.init(n_in, width, n_out, scale=0.7, imbalance=lam, batch=(4,), rng=0)
    assert w1.shape == (4, width, n_in)
    assert w2.shape == (4, n_out, width)
    spread = np.swapaxes(w2, -1, -2) @ w2 - w1 @ np.swapaxes(w1, -1, -2)
    np.testing.assert_allclose(spread, np.broadcast_to(lam * np.eye(width), spread.shape), atol=1e-14)
    assert np.abs(w1[0] - w1[1]).max() > 0.01
    distances = WhitenedTwoLayer(np.ones((n_out, n_in))).conditions(np, WhitenedTwoLayer.of(w1, w2)).values()
    assert max(d.max() for d in distances) < 1e-14


def test_init_has_the_spectrum_of_a_gaussian_layer():
    w1, _ = WhitenedTwoLayer.init(6, 6, 6, scale=0.7, batch=(400,), rng=0)
    drawn = np.random.default_rng(1).normal(size=(400, 6, 6)) * 0.7 / np.sqrt(6)
    ours, theirs = (np.linalg.svd(w, compute_uv=False).mean(axis=0) for w in (w1, drawn))
    np.testing.assert_allclose(ours, theirs, atol=0.03)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, 5, 4, 0.1, 0.5), "width = 5 must be at most n_out = 4"),
        ((3, 4, 5, 0.1, -0.5), "width = 4 must be at most n_in = 3"),
        ((3, 0, 5, 0.1, 0.0), "width = 0 must be a positive integer"),
        ((3, 4, 5, -1.0, 0.0), r"scale = -1.0 must be a number in \[0, 1e150\]"),
        ((3, 4, 5, 1.0, np.inf), "imbalance = inf must be finite"),
    ],
)
def test_init_refuses_by_name(arguments, message):
    *sizes, scale, lam = arguments
    with pytest.raises(ValueError, match=message):
        WhitenedTwoLayer.init(*sizes, scale=scale, imbalance=lam)


def test_start_outside_the_class_is_refused_with_its_distance():
    w1, w2 = WhitenedTwoLayer.gaussian(3, 4, 5, sigma1=0.5, sigma2=0.5, rng=0)
    flow = WhitenedTwoLayer(np.ones((5, 3)))
    with pytest.raises(NotExact, match=r"a solvable one = 0\.\d+ must vanish.*integrate\(deep\.deep_weights"):
        flow(1.0, flow.of(w1, w2))
    linsolve.integrate(flow, 1.0, flow.of(w1, w2))


def test_always_solvable_starts_are_accepted():
    rng = np.random.default_rng(5)
    for n_in, width, n_out in ((4, 1, 3), (1, 6, 1)):
        w1, w2 = WhitenedTwoLayer.gaussian(n_in, width, n_out, sigma1=0.8, sigma2=0.4, rng=rng)
        flow, times = WhitenedTwoLayer(rng.normal(size=(n_out, n_in))), np.asarray([0.3, 1.0])
        found = flow(times, flow.of(w1, w2))["product"]
        np.testing.assert_allclose(found, simulated(flow.target, w1, w2, times), atol=1e-10)


def test_distance_grows_with_the_violation():
    flow, w1, w2 = network()
    noise = np.random.default_rng(0).normal(size=w1.shape)
    found = [max(flow.conditions(np, flow.of(w1 + e * noise, w2)).values()) for e in (0.0, 1e-10, 1e-6, 1e-2)]
    assert found[0] < 1e-15
    assert found[0] < found[1] < 1e-9 < found[2] < 1e-5 < found[3]


@pytest.mark.parametrize(
    ("w1", "w2", "message"),
    [
        (np.ones((2, 3)), np.ones((4, 5)), r"width = 2 in w1.*must equal width = 5"),
        (np.ones(3), np.ones((4, 1)), r"w1 has shape \(3,\) but needs trailing axes"),
        (np.full((2, 3), np.nan), np.ones((4, 2)), "w1 = nan"),
    ],
)
def test_of_refuses_by_name(w1, w2, message):
    with pytest.raises(ValueError, match=message):
        WhitenedTwoLayer.of(w1, w2)


def test_batches_of_parameters_and_states_broadcast():
    flow, w1, w2 = network(batch=(4, 1))
    flow = WhitenedTwoLayer(flow.target, tau=np.asarray([0.5, 1.0, 2.0]))
    traj = flow([0.0, 1.0, np.inf], flow.of(w1, w2))
    assert traj["product"].shape == (3, 4, 3, 4, 3)
    assert traj["loss"].shape == (3, 4, 3)
    one = WhitenedTwoLayer(flow.target[2, 0], tau=2.0)(1.0, flow.of(w1[2, 0], w2[2, 0]))
    np.testing.assert_allclose(traj["product"][1, 2, 2], one["product"], atol=1e-14)


def test_array_api_strict():
    xp = array_api_strict
    flow, w1, w2 = network(tau=0.5)
    times = [0.0, 0.3, 400.0, np.inf]
    strict = WhitenedTwoLayer(xp.asarray(flow.target), tau=xp.asarray(0.5))
    found = strict(xp.asarray(times), strict.of(xp.asarray(w1), xp.asarray(w2)))
    right = flow(times, flow.of(w1, w2))
    for name in right.names:
        assert isinstance(found[name], type(xp.asarray(1.0)))
        np.testing.assert_allclose(np.asarray(found[name]), right[name], atol=1e-13)


def test_simulated_weights_have_the_time_constant_of_the_flow():
    flow, w, t = WhitenedTwoLayer(np.diag([3.0, 1.0]), tau=2.5), 0.1 * np.eye(2), [0.5, 2.0]
    found = simulate(linsolve.integrate, flow, t, (w, w), rtol=1e-10)
    np.testing.assert_allclose(found["product"], flow(t, flow.of(w, w))["product"], rtol=1e-8)
