"""The kernel regime against fifty digits, DOP853, loops of gradient descent, and the formulas that fail."""

import copy
import pickle

import array_api_strict
import mpmath
import numpy as np
import pytest
import scipy.linalg
from mutants.kernel import KERNEL, WithTestPoints
from selection import quick

import linsolve as ls
from benchmarks.accuracy_frozen_kernel import Reference, draw, errors
from linsolve import arithmetic
from linsolve.numerics.spectrum import Spectrum, decayed_integral
from linsolve.systems.kernel_regime.descent import descent_power, heavy_ball

EPS = 2.0**-52
mp = mpmath.MPContext()
mp.dps = 50


def example(seed=0):
    return ls.FrozenKernel.example(np.random.default_rng(seed))


def size(v):
    return np.linalg.norm(v, axis=-1)


# the proof


@pytest.mark.parametrize("seed", quick(range(20), 2))
def test_the_flow_is_proved(seed):
    report = ls.verify(*example(seed))
    assert report.ok, str(report)


def test_a_batch_of_kernels_is_proved():
    members = [example(seed) for seed in (0, 1)]
    flow = ls.FrozenKernel(*(np.stack([getattr(f, name) for f, _ in members]) for name in ("kernel", "y", "eta")))
    report = ls.verify(flow, np.stack([z0.f for _, z0 in members]), checks=["definition", "observables"])
    assert report.ok, str(report)


@pytest.mark.parametrize("name", KERNEL)
@pytest.mark.quick(3)
def test_mutants_are_rejected_by_the_check_that_should_see_them(name):
    flow, z0, seen_by = KERNEL[name]
    assert seen_by in ls.verify(flow, z0, checks=[seen_by]).failed


@pytest.mark.parametrize("seed", range(3))
def test_predictions_are_proved_as_a_flow_of_training_and_test_points(seed):
    report = ls.verify(*WithTestPoints.example(np.random.default_rng(seed)))
    assert report.ok, str(report)


def test_kernels_that_are_singular_up_to_rounding_are_proved_too():
    rng = np.random.default_rng(27)
    J = rng.normal(size=(5, 3))
    flow = ls.FrozenKernel(J @ J.T, rng.normal(size=5), 0.4)
    with_noise = flow.cast(arithmetic.precise(60)).spectrum(arithmetic.precise(60)).values
    assert np.any((with_noise != 0) & (abs(with_noise) < 1e-14))  # what the doubles say, taken at their word
    report = ls.verify(flow, rng.normal(size=5))
    assert report.ok, str(report)


# accuracy


large = pytest.mark.parametrize("n", [20, pytest.param(40, marks=pytest.mark.exhaustive)])


@large
def test_rank_deficient_kernels_agree_with_fifty_digits(n):
    worst = errors(draw(np.random.default_rng(1), rank=5 * n // 8, n=n))
    assert max(worst.values()) <= 1e-13, worst


@large
def test_badly_conditioned_kernels_lose_what_rounding_the_kernel_loses(n):
    worst = errors(draw(np.random.default_rng(2), rank=n, slope=3.0, n=n))
    assert max(worst[name] for name in ("f, sloped", "residual", "loss", "parameters_at")) <= 1e-14, worst


@pytest.mark.parametrize("rank", [1, 25, 40])
def test_agrees_with_dop853(rank):
    d = draw(np.random.default_rng(rank), rank)
    t = np.array([0.1, 1.0, 10.0, 60.0]) / (d.eta * d.flow.spectrum(np).values[-1])
    exact, simulated = d.flow(t, d.f0)["f"], ls.integrate(d.flow, t, d.f0, rtol=1e-13)["f"]
    assert np.max(size(exact - simulated)) <= 1e-10 * (size(d.f0) + size(d.y))


def test_never_nan_whatever_the_rank_the_scale_and_the_time():
    rng = np.random.default_rng(3)
    t = np.array([0.0, 5e-324, 1e-300, 1e-8, 1.0, 1e8, 1e150, np.inf])
    for rank in range(7):
        for scale in (1e-150, 1e-8, 1.0, 1e8, 1e140):
            J = rng.normal(size=(6, rank)) if rank else np.zeros((6, 1))
            flow = ls.FrozenKernel(J @ J.T * scale, rng.normal(size=6), rng.uniform(0.1, 10))
            traj = flow(t, rng.normal(size=6))
            assert all(np.isfinite(traj[name]).all() for name in traj.names)
            assert np.all(traj["loss"][1:] <= traj["loss"][:-1] * (1 + 20 * EPS))


def test_the_textbook_inverse_fails_where_the_closed_form_does_not():
    d = draw(np.random.default_rng(1), rank=12, n=20)
    K, t = d.jacobian @ d.jacobian.T, 1.0 / d.eta
    values, V = np.linalg.eigh(K)
    decayed = V * np.exp(-d.eta * np.maximum(values, 0) * t) @ V.T
    rows = d.test @ d.jacobian.T
    change = d.jacobian.T @ np.array([float(v) for v in Reference(d).change(mp.mpf(t))])
    exact = d.test[:, 0] - d.test @ change
    naive = d.test[:, 0] - rows @ np.linalg.inv(K) @ (np.eye(20) - decayed) @ (d.f0 - d.y)
    scale = size(d.test[:, 0]) + size(d.test @ change)
    assert size(naive - exact) > 1e-4 * scale  # (2.61) as printed
    assert size(d.flow.predict(t, d.f0, rows, d.test[:, 0]) - exact) <= 1e-13 * scale


def gaussian(context, a, b):
    return [[context.exp(-((context.mpf(p) - context.mpf(q)) ** 2) / 2) for q in b] for p in a]


def test_the_null_space_of_a_smooth_kernel_is_not_frozen_at_test_points():
    # 20 points of a Gaussian kernel: half of its eigenvalues are below rounding, and come out of either sign
    rng = np.random.default_rng(4)
    x, x_new = np.sort(rng.uniform(-1, 1, 20)), np.array([1.5, 3.0])
    K, k_x = (np.array(gaussian(mp, p, x), dtype=float) for p in (x, x_new))
    y, t = rng.normal(size=20), 1e7
    wide = mpmath.MPContext()
    wide.dps = 80
    values, V = wide.eigsy(wide.matrix(gaussian(wide, x, x)))
    c = V.T * wide.matrix((-y).tolist())
    weights = wide.matrix([-wide.expm1(-v * t) / v * w for v, w in zip(values, c, strict=True)])
    exact = np.array([float(-v) for v in wide.matrix(gaussian(wide, x_new, x)) * (V * weights)])
    flow = ls.FrozenKernel(K, y)
    found = flow.predict(t, np.zeros(20), k_x, np.zeros(2))
    assert size(found - exact) <= 1e-8 * size(exact)  # t times the rounding of K and k_x: 1e7 * 1e-16, and more
    lam, vectors = np.linalg.eigh(K)
    assert lam[0] < 0
    naive = -np.expm1(-np.maximum(lam, 0) * t) / np.abs(lam)
    wrong = -(k_x @ vectors) @ (naive * (vectors.T @ -y))
    assert size(wrong - exact) > 1e-5 * size(exact)
    with pytest.warns(RuntimeWarning, match="invalid value"):  # and 0/0 where an eigenvalue is exactly 0
        assert np.isnan(-np.expm1(-np.array([0.0]) * t) / np.array([0.0]))


def test_late_losses_keep_their_relative_accuracy():
    flow = ls.FrozenKernel([[2.0, 1.0], [1.0, 2.0]], [1.0, -0.5])
    t, f0 = 200.0, np.array([0.3, 0.7])
    r = np.array([-0.7, 1.2])  # eigenvalues 1 and 3; the slow mode is (1, -1)
    exact = mp.exp(-2 * 200) * (mp.mpf(r[0]) - mp.mpf(r[1])) ** 2 / 4
    traj = flow(t, f0)
    assert abs(traj["loss"] - exact) <= 1e-13 * exact
    assert flow.loss(np, traj.state) < 1e-30 * 1e-3  # what f itself knows of it: nothing


def test_start_is_bitwise_and_the_null_space_is_frozen_at_infinity():
    J = np.array([[1.0, 2.0], [0.0, 1.0], [2.0, 2.0], [1.0, -1.0]])
    flow, f0 = ls.FrozenKernel(J @ J.T, [1.0, 2.0, 3.0, 4.0]), np.array([0.1, 0.2, 0.3, 0.4])
    traj = flow([0.0, np.inf], f0)
    assert np.array_equal(traj["f"][0], f0)
    projector = np.eye(4) - J @ np.linalg.pinv(J)
    assert np.allclose(traj["f"][1], flow.y + projector @ (f0 - flow.y), rtol=0, atol=1e-14)
    assert np.allclose(traj["unlearnable"], projector @ (f0 - flow.y), rtol=0, atol=1e-14)
    still = ls.FrozenKernel(np.zeros((4, 4)), flow.y)(np.array([1.0, np.inf]), f0)["f"]
    assert np.array_equal(still, [f0, f0])


def test_the_integral_of_a_singular_matrix_against_scipy():
    rng = np.random.default_rng(28)
    J, v = rng.normal(size=(6, 3)), rng.normal(size=(2, 6))
    K = J @ J.T
    spectrum, t = Spectrum.of(np, K), np.array([[0.0], [0.3], [-0.2], [np.inf]])
    integral = decayed_integral(np, spectrum, t, v)
    for i, time in enumerate([0.0, 0.3, -0.2]):
        both = scipy.linalg.expm(np.block([[-K * time, time * np.eye(6)], [np.zeros((6, 12))]]))
        assert np.allclose(integral[i], v @ both[:6, 6:].T, rtol=0, atol=1e-13)
    assert np.allclose(integral[3], v @ np.linalg.pinv(K), rtol=0, atol=1e-13)


# arithmetics, batches, one decomposition


@pytest.mark.parametrize("xp", [array_api_strict, arithmetic.precise(40)], ids=["array_api_strict", "precise"])
def test_one_formula_in_every_arithmetic(xp):
    flow, z0 = example(5)
    t = np.array([0.0, 0.3, 2.0, np.inf])
    there = ls.FrozenKernel(*(xp.asarray(v) for v in (flow.kernel, flow.y, flow.eta)))
    mine, other = flow(t, z0), there(xp.asarray(t), there.State(xp.asarray(z0.f)))
    for name in ("f", "loss", "residual", "unlearnable", "residual_alignment", "output_norm"):
        assert arithmetic.namespace(other[name]) is xp
        assert np.allclose(arithmetic.to_numpy(other[name]), mine[name], rtol=1e-13, atol=1e-14), name
    k_x, k = np.ones((2, 3)) @ np.linalg.qr(flow.kernel)[0].T[:3], [0, 3, 8]
    found = there.predict(xp.asarray(t[:3]), xp.asarray(z0.f), xp.asarray(k_x), xp.asarray([1.0, 2.0]))
    assert np.allclose(arithmetic.to_numpy(found), flow.predict(t[:3], z0, k_x, [1.0, 2.0]), rtol=1e-13, atol=1e-14)
    for momentum in (0.0, 0.5):
        step = 0.9 * float(flow.largest_step())
        found = there.discrete(k, xp.asarray(z0.f), step=step, momentum=momentum)["f"]
        assert np.allclose(
            arithmetic.to_numpy(found), flow.discrete(k, z0, step=step, momentum=momentum)["f"], atol=1e-13
        )


def test_batches_of_kernels_targets_rates_and_starts():
    rng = np.random.default_rng(6)
    J, y, f0, eta = rng.normal(size=(3, 1, 5, 2)), rng.normal(size=(2, 5)), rng.normal(size=(3, 2, 5)), [0.3, 0.8]
    flow = ls.FrozenKernel(J @ np.swapaxes(J, -1, -2), y, eta)
    t, k_x, g0 = np.array([[0.0], [0.7], [np.inf]]), rng.normal(size=(3, 2)), rng.normal(size=3)
    rows, theta0 = k_x @ np.swapaxes(J, -1, -2), rng.normal(size=2)
    traj = flow(t, f0)
    assert traj["f"].shape == (3, 1, 3, 2, 5)
    there, theta = flow.predict(t, f0, rows, g0), flow.parameters_at(t, theta0, J, f0)
    descent = flow.discrete([0, 4], f0, step=0.01, momentum=0.3)["f"]
    for i, j in np.ndindex(3, 2):
        one = ls.FrozenKernel(flow.kernel[i, 0], y[j], eta[j])
        assert np.allclose(traj["f"][..., i, j, :], one(t, f0[i, j])["f"], atol=1e-14)
        assert np.allclose(there[..., i, j, :], one.predict(t, f0[i, j], rows[i, 0], g0), atol=1e-13)
        assert np.allclose(theta[..., i, j, :], one.parameters_at(t, theta0, J[i, 0], f0[i, j]), atol=1e-13)
        single = one.discrete([0, 4], f0[i, j], step=0.01, momentum=0.3)["f"]
        assert np.allclose(descent[:, i, j], single, atol=1e-14)


def test_one_eigendecomposition_serves_times_observables_and_test_points(monkeypatch):
    rng, calls, eigh = np.random.default_rng(7), [], np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", lambda a: calls.append(a.shape) or eigh(a))
    J = rng.normal(size=(6, 4))
    flow = ls.FrozenKernel(J @ J.T, rng.normal(size=6))
    traj = flow(np.linspace(0, 5, 50), rng.normal(size=6))
    assert all(traj[name].shape[0] == 50 for name in traj.names)
    flow.predict([1.0, 2.0], rng.normal(size=6), J[:2] @ J.T, np.zeros(2))
    flow.discrete([5], rng.normal(size=6), step=flow.best_step())
    assert calls == [(6, 6)]
    again = pickle.loads(pickle.dumps(flow))
    assert np.array_equal(again(1.0, np.ones(6))["f"], copy.copy(flow)(1.0, np.ones(6))["f"])


def test_a_kernel_changed_after_the_fact_changes_nothing():
    K = np.diag([1.0, 2.0])
    flow = ls.FrozenKernel(K, [1.0, 1.0])
    K[0, 0] = 7.0
    assert flow.kernel[0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        flow.kernel[0, 0] = 7.0


# conventions


def test_mean_loss_runs_n_times_slower_than_the_thesis_prints():
    flow, z0 = example(8)
    mean = ls.FrozenKernel.for_mean_loss(flow.kernel, flow.y, flow.eta)
    h, n = 1e-6, 4
    gradient = [
        (np.mean((z0.f + h * e - flow.y) ** 2) - np.mean((z0.f - h * e - flow.y) ** 2)) / (4 * h) for e in np.eye(n)
    ]
    assert np.allclose(mean.velocity(np, z0).f, -flow.eta * flow.kernel @ gradient, rtol=1e-8)
    values, V = np.linalg.eigh(flow.kernel)
    printed = flow.y + V * np.exp(-flow.eta * values * 0.5) @ V.T @ (z0.f - flow.y)  # (2.60)
    assert np.allclose(mean(0.5 * n, z0)["f"], printed, atol=1e-14)
    assert size(mean(0.5, z0)["f"] - printed) > 0.01


# parameters and test points


def linear_model(seed):
    rng = np.random.default_rng(seed)
    J, theta0 = rng.normal(size=(5, 8)) * [1, 1, 1, 0, 0, 1, 1, 1], rng.normal(size=8)
    J[4] = J[0] - J[1]  # rank 4
    flow = ls.FrozenKernel(J @ J.T, rng.normal(size=5), 0.7)
    return flow, J, theta0, rng


def test_parameters_are_those_of_the_linear_model_under_gradient_flow():
    flow, J, theta0, _ = linear_model(9)
    f0, t = J @ theta0, np.array([0.0, 0.2, 1.5])
    theta = flow.parameters_at(t, theta0, J, f0)
    assert np.array_equal(theta[0], theta0)
    h = 2e-4
    moving = theta0
    for _ in range(round(1.5 / h)):  # midpoint rule on theta' = -eta J^T (J theta - y)
        half = moving - h / 2 * flow.eta * J.T @ (J @ moving - flow.y)
        moving = moving - h * flow.eta * J.T @ (J @ half - flow.y)
    assert size(theta[2] - moving) <= 1e-5 * size(theta0)
    assert np.allclose(theta @ J.T, flow(t, f0)["f"], atol=1e-13)


def test_the_end_is_the_nearest_solution_and_its_distance_the_kernel_norm():
    flow, J, theta0, rng = linear_model(10)
    target = J @ rng.normal(size=8)
    flow = ls.FrozenKernel(flow.kernel, target, 0.7)
    theta = flow.parameters_at(np.inf, theta0, J, J @ theta0)
    nearest = theta0 + np.linalg.lstsq(J, target - J @ theta0, rcond=1e-10)[0]
    assert np.allclose(theta, nearest, atol=1e-12)
    assert ls.kernels.rkhs_norm(flow.kernel, target - J @ theta0) == pytest.approx(size(theta - theta0), rel=1e-12)


def test_training_inputs_as_test_inputs_give_the_training_outputs():
    flow, z0 = example(11)
    t = np.array([0.0, 0.4, 3.0, np.inf])
    assert np.allclose(flow.predict(t, z0, flow.kernel, z0.f), flow(t, z0)["f"], atol=1e-14)


# gradient descent


@pytest.mark.parametrize("fraction", [0.3, 0.99])
def test_discrete_is_the_loop_of_gradient_descent(fraction):
    flow, z0 = example(12)
    step = fraction * float(flow.largest_step())
    loop = ls.descend(flow, step * np.arange(60), z0, step=step)
    found = flow.discrete(np.arange(60), z0, step=step)
    assert np.allclose(found["f"], loop["f"], rtol=0, atol=1e-13)
    assert np.allclose(found.t, loop.t, rtol=1e-15)


def heavy_ball_loop(kernel, f0, step, momentum, count):
    """Return the states of a loop of heavy-ball descent in extended precision."""
    kernel, now = kernel.astype(np.longdouble), f0.astype(np.longdouble)
    states, before = [now], now
    for _ in range(count - 1):
        before, now = now, now - step * kernel @ now + momentum * (now - before)
        states.append(now)
    return np.array(states)


@pytest.mark.parametrize("momentum", [1e-12, 0.25, 0.9])
def test_heavy_ball_is_its_loop_also_at_double_roots(momentum):
    beta = np.sqrt(momentum)
    values = np.array([0.0, 1e-9, (1 - beta) ** 2, 0.5, 1.0, 1 + momentum, (1 + beta) ** 2, 2.2])
    V = np.linalg.qr(np.random.default_rng(13).normal(size=(8, 8)))[0]
    flow, f0 = ls.FrozenKernel(V * values @ V.T, np.zeros(8)), V @ np.ones(8)
    step = 0.999 * float(flow.largest_step(momentum)) if momentum < 0.2 else 1.0
    found = flow.discrete(np.arange(80), f0, step=step, momentum=momentum, allow_divergence=True)["f"]
    exact = heavy_ball_loop(flow.kernel, f0, step, momentum, 80)
    # at double roots the state is ill-conditioned in the eigenvalues, which doubles know to a few units of rounding
    moved = heavy_ball_loop(flow.kernel * (1 + 1e-8), f0, step, momentum, 80)
    condition = np.linalg.norm((moved - exact).astype(float), axis=-1) / 1e-8
    error = np.linalg.norm((found - exact).astype(float), axis=-1)
    assert (error <= 1e-13 * size(f0) + 8 * np.finfo(float).eps * condition).all()


def recurrence(m, b, k):
    before, now = mp.mpf(1), mp.mpf(1)
    for _ in range(k):
        before, now = now, now - m * now + b * (now - before)
    return now


@pytest.mark.parametrize("b", [0.0, 1e-9, 0.25, 0.81, 0.999])
@pytest.mark.quick(1)
def test_modes_of_descent_against_fifty_digits_up_to_the_rounding_of_their_arguments(b):
    rng = np.random.default_rng(14)
    beta = np.sqrt(b)
    special = [0.0, 1.0, (1 - beta) ** 2, (1 + beta) ** 2, 1 + b, 1 - b, 2 * (1 + b)]
    for m in [*special, *rng.uniform(0, 2 * (1 + b), 10), *10.0 ** rng.uniform(-15, -2, 10)]:
        for k in (0, 1, 2, 7, 100):
            args = (np.asarray(float(k)), np.asarray((-1.0) ** k), np.asarray(m))
            found = heavy_ball(np, *args, np.asarray(b)) if b else descent_power(np, *args)
            exact, bump = recurrence(mp.mpf(m), mp.mpf(b), k), 1 + mp.mpf(10) ** -25
            moved = abs(recurrence(m * bump, mp.mpf(b), k) - exact) + abs(recurrence(mp.mpf(m), b * bump, k) - exact)
            allowed = (1 + k) * max(1, abs(exact)) + moved / (bump - 1)
            assert abs(mp.mpf(float(found)) - exact) <= 4 * EPS * allowed


def test_a_slow_mode_is_followed_for_a_trillion_steps():
    flow = ls.FrozenKernel(np.diag([1.0, 1e-12]), [0.0, 0.0])
    f = flow.discrete([10**12], [1.0, 1.0], step=1.0)["f"]
    exact = mp.exp(10**12 * mp.log1p(-mp.mpf(1e-12)))
    assert abs(f[0, 1] - exact) <= 4 * EPS * exact
    assert abs((1 - 1e-12) ** 1e12 - exact) > 1e-5 * exact  # 1 - m rounded first


def test_below_the_bound_descent_converges_and_above_it_diverges():
    flow, z0 = example(15)
    for momentum in (0.0, 0.6):
        bound = float(flow.largest_step(momentum))
        norms = [
            size(flow.discrete([3000], z0, step=f * bound, momentum=momentum, allow_divergence=True)["f"])
            for f in (0.99, 1.01)
        ]
        assert norms[0] < 10 < 1e5 < norms[1]


def test_the_best_step_beats_its_neighbors():
    flow, z0 = example(16)
    best = float(flow.best_step())
    end = flow.limit(np, z0).f
    left = size(flow.discrete([20], z0, step=best)["f"][0] - end)
    values = flow.spectrum(np).values
    worst = [np.max(np.abs(1 - f * best * flow.eta * values[values > 0])) for f in (0.9, 1.0, 1.1)]
    assert worst[1] < min(worst[0], worst[2])
    assert left <= worst[1] ** 20 * size(z0.f - end) * (1 + 1e-9)


# bad input

BAD = {
    "asymmetric": (([[1.0, 0.5], [0.4, 1.0]], [0, 0]), r"kernel - kernel\^T = 0.1 must vanish .*pass \(K \+ K.T\) / 2"),
    "negative": (([[1.0, 0.0], [0.0, -0.2]], [0, 0]), r"smallest eigenvalue of kernel = -0.2, -0.2 of the largest"),
    "all negative": (([[-1.0]], [0]), "with none positive"),
    "not square": (([[1.0, 2.0]], [0]), r"kernel has shape \(1, 2\) but must be square"),
    "a vector": (([1.0, 2.0], [0, 0]), r"kernel has shape \(2,\) but must be square"),
    "targets": ((np.eye(3), [0, 0]), r"y has shape \(2,\), so n = 2, but kernel has n = 3"),
    "rate": ((np.eye(2), [0, 0], 0.0), r"eta = 0.0 must lie in \(0, inf\)"),
    "nan": (([[np.nan]], [0]), "kernel = nan at index .* is not a number"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_kernels_are_refused(case):
    arguments, message = BAD[case]
    with pytest.raises(ValueError, match="FrozenKernel: .*" + message):
        ls.FrozenKernel(*arguments)


def test_rounding_of_kernels_is_not_refused():
    rng = np.random.default_rng(17)
    for _ in range(200):
        n, rank, p = rng.integers(2, 8), rng.integers(1, 4), rng.integers(1, 50)
        J = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, p))
        K = np.einsum("ip,jp->ij", J, J) * (1 + 2 * EPS * rng.normal(size=(n, n)))
        assert np.isfinite(ls.FrozenKernel(K, np.zeros(n))(np.inf, np.ones(n))["f"]).all()


CALLS = {
    "step": (lambda f: f.discrete([1], [0, 0], step=1.01), r"step = 1.01 must be below 1 \(2 \(1 \+ momentum\)"),
    "bound": (lambda f: f.discrete([1], [0, 0], step=1.0), "must be below 1"),
    "momentum": (lambda f: f.discrete([1], [0, 0], step=0.1, momentum=1.0), r"momentum = 1.0 must lie in \[0, 1\)"),
    "count": (lambda f: f.discrete([1.5], [0, 0], step=0.1), "k = .* must be whole numbers"),
    "negative count": (lambda f: f.discrete([-1], [0, 0], step=0.1), "not negative"),
    "test points": (lambda f: f.predict(1, [0, 0], [[1, 2, 3]], [0]), "k_x has shape"),
    "test outputs": (lambda f: f.predict(1, [0, 0], [[1, 2]], [0, 0]), "f0_x has shape .*m = 2"),
    "test batch": (lambda f: f.predict(1, [0, 0], np.ones((3, 1, 2)), [0]), r"k_x has batch shape \(3,\)"),
    "outside": (lambda f: f.predict(np.inf, [0, 0], [[1, 1]], [0]), "outside the range of the kernel = 0.707"),
    "jacobian": (lambda f: f.parameters_at(1, [0], [[1], [0]], [0, 0]), "jacobian jacobian.T - kernel = 1 must vanish"),
    "start": (lambda f: f(1.0, [0, 0, 0]), "n = 3"),
}


@pytest.mark.parametrize("case", CALLS)
def test_bad_questions_are_refused(case):
    call, message = CALLS[case]
    with pytest.raises(ValueError, match="FrozenKernel.*" + message):
        call(ls.FrozenKernel(np.diag([2.0, 0.0]), [1.0, 1.0]))


def test_divergence_is_allowed_with_a_flag_until_it_leaves_the_doubles():
    flow = ls.FrozenKernel([[1.0]], [0.0])
    assert flow.discrete([3], [1.0], step=3.0, allow_divergence=True)["f"] == pytest.approx(-8)
    with pytest.raises(ArithmeticError, match="after k = 10000 steps are beyond doubles"):
        flow.discrete([10_000], [1.0], step=3.0, allow_divergence=True)
