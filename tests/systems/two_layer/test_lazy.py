"""Lazy and feature training (Geiger et al. 2020): the flow against its definition, the laws against networks."""

import numpy as np
import pytest
from mutants.lazy import FLOWS, LAWS
from scipy.integrate import solve_ivp
from selection import quick

import linsolve as ls
from linsolve import LazyTwoLayer, NotExact, TwoLayer, arithmetic
from linsolve.systems.two_layer.lazy_fluctuations import sampled
from linsolve.systems.two_layer.lazy_training import network

LAWS_HERE = (
    ls.laws.LazyTraining,
    ls.laws.LazyRegime,
    ls.laws.FeatureRegime,
    ls.laws.LazyFluctuations,
    ls.laws.FixedWidthKernelChange,
)


# the flow against its definition


def relative(found, truth):
    return np.max(np.abs(arithmetic.to_numpy((truth - found) / truth)))


@pytest.mark.parametrize("h", quick([4, 1, 60], 1))
@pytest.mark.parametrize("alpha", [1e-3, 0.1, 1.0, 1e3, 1e6, 1e12])
@pytest.mark.quick(2)
def test_accuracy_is_as_stated_for_every_alpha(alpha, h):
    """Against `TwoLayer` to 80 digits, whose target f0 + y/alpha is formed there, so that nothing is lost."""
    xp = arithmetic.precise(80)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        flow, z0 = TwoLayer.from_lazy(alpha, h, rng.normal(size=3), rng.normal(), rng=rng)
        first = (flow.y / alpha) ** 2
        t = flow.time_to(np, z0, loss=first * np.array([0.99, 0.5, 1e-3, 1e-9]))
        exact, start = flow.cast(xp), flow.State(*(xp.asarray(v) for v in z0))
        f0 = exact.gamma * xp.sum(start.u * xp.sum(start.w * exact.x, axis=-1))
        plain = TwoLayer(
            y=f0 + exact.y / exact.alpha, gamma=exact.gamma, eta_u=exact.eta_u, eta_w=exact.eta_w, x=exact.x
        )
        truth, found = plain.along(xp, xp.asarray(t), start), flow(t, z0)
        assert relative(found["loss"], truth["loss"]) < 1e-13
        assert relative(found["residual"], truth["residual"]) < 1e-13
        assert relative(found["F"], exact.alpha * (truth["output"] - f0)) < 1e-13
        for name, value in plain.solution(xp, xp.asarray(t), start)._asdict().items():
            gap = arithmetic.to_numpy(found[name] - value)
            assert np.linalg.norm(gap) < 1e-13 * np.linalg.norm(found[name])
        kernel = plain.ntk(xp, start)
        change = truth["ntk"] / kernel - 1
        g = plain.gamma * xp.sqrt(xp.sum(plain.x**2))
        tanh = 2 * g * (truth["output"] - f0) / (truth["ntk"] + kernel)
        # relative to the two terms of the change, which may nearly cancel
        terms = (xp.abs(4 * g * f0 / kernel * tanh) + 2 * tanh**2) / (1 - tanh**2)
        assert np.max(arithmetic.to_numpy(xp.abs(found["kernel_change"] - change) / terms)) < 1e-13
        level = first * np.array([0.9, 0.5, 1e-3])
        times = plain.time_to(xp, start, loss=xp.asarray(level))
        assert relative(flow.time_to(np, z0, loss=level), times) < 1e-13


def test_the_difference_of_output_and_target_would_lose_it():
    flow, z0 = TwoLayer.from_lazy(1e12, 60, [1.0, 2.0, 0.5], 0.7, rng=1)
    target = flow.output(np, z0) + flow.y / flow.alpha
    naive = TwoLayer(y=target, gamma=flow.gamma, x=flow.x)(0.1, z0)["loss"]
    assert abs(naive / flow(0.1, z0)["loss"] - 1) > 1e-6


def geiger(_, z, alpha, h, X, y, z0):
    """Minus the gradient of (1/(alpha^2 n)) sum_k (alpha (f(x_k) - f_0(x_k)) - y_k)^2, weight by weight."""
    d_in, n = X.shape[1], X.shape[0]

    def split(v):
        return v[:h], v[h:].reshape(h, d_in)

    (a, w), (a0, w0) = split(z), split(z0)
    scale = (h * d_in) ** -0.5
    F = alpha * scale * (X @ (w.T @ a) - X @ (w0.T @ a0))
    pull = -2 / (alpha * n) * scale * (F - y) @ X
    return np.concatenate([w @ pull, np.outer(a, pull).ravel()])


@pytest.mark.parametrize("alpha", [3e-3, 1.0, 300.0])
def test_agrees_with_direct_integration_of_the_paper_s_network(alpha):
    rng = np.random.default_rng(int(alpha) + 4)
    h, n = 6, 5
    X = np.outer(rng.normal(size=n), rng.normal(size=3))
    y = rng.normal(size=n)
    flow, z0 = TwoLayer.from_lazy(alpha, h, X, y, rng=rng)
    z = np.concatenate([z0.u, z0.w.ravel()])
    times = np.array([0.3, 1.0, 3.0]) * float(flow.time_to(np, z0, loss=(flow.y / alpha) ** 2 / 2))
    ode = solve_ivp(
        geiger, (0, times[-1]), z, "DOP853", times, args=(alpha, h, X, y, z), rtol=1e-12, atol=1e-14 * np.abs(z).max()
    )
    traj = flow(times, z0)
    a, w = ode.y[:h].T, ode.y[h:].T.reshape(3, h, 3)
    np.testing.assert_allclose(traj["u"], a, rtol=1e-8, atol=1e-9 * np.abs(a).max())
    np.testing.assert_allclose(traj["w"], w, rtol=1e-8, atol=1e-9 * np.abs(w).max())
    f, f0 = np.einsum("th,thi,ki->tk", a, w, X) / np.sqrt(3 * h), X @ (z0.w.T @ z0.u) / np.sqrt(3 * h)
    F = alpha * (f - f0)
    share = X @ flow.x / np.sum(flow.x**2)  # F on a sample is F on x times its place on the line
    np.testing.assert_allclose(traj["F"][:, None] * share, F, rtol=1e-8)
    rest = (np.mean(y**2) - flow.y**2) / alpha**2  # what no linear map learns
    np.testing.assert_allclose(traj["loss"] + rest, np.mean((F - y) ** 2, axis=1) / alpha**2, rtol=1e-8)


@pytest.mark.parametrize("checks", quick([("residual", "along", "conditions", "dop853"), None], 1))
def test_a_start_beside_the_reference_is_followed_as_exactly(checks):
    flow, z0 = LazyTwoLayer.example(np.random.default_rng(5))
    report = ls.verify(flow, (1.2 * z0.u, z0.w - 0.1), checks=checks)
    assert report.ok, str(report)
    # the residual at its start is that of the definition, not -y/alpha
    beside = flow(0.0, (1.2 * z0.u, z0.w - 0.1))
    np.testing.assert_allclose(beside["F"], flow.alpha * (beside["output"] - flow(0.0, z0)["output"]), rtol=1e-12)
    assert np.min(np.abs(beside["F"])) > 0.01


def test_kernel_change_of_special_starts():
    zero = LazyTwoLayer(y=1.0, alpha=1.0, u0=[0.0], w0=[[0.0]])
    assert zero(1.0, ([0.0], [[0.0]]))["kernel_change"] == 0  # nothing moves
    aligned = LazyTwoLayer(y=-9.0, alpha=1.0, u0=[2.0], w0=[[2.0]])  # q = 0, f from 4 to the saddle at 0
    np.testing.assert_allclose(aligned([0.0, np.inf], ([2.0], [[2.0]]))["kernel_change"], [0.0, -1.0], atol=1e-15)


def test_a_batch_of_alpha_shares_one_start():
    flow, z0 = TwoLayer.from_lazy([0.1, 1.0, 10.0], 5, [0.5, 1.0], 0.8, rng=0)
    together = flow([0.1, 1.0], z0)
    assert together["F"].shape == (2, 3)
    alone = TwoLayer.from_lazy(1.0, 5, [0.5, 1.0], 0.8, z0=z0)[0]([0.1, 1.0], z0)
    np.testing.assert_allclose(together["F"][:, 1], alone["F"], rtol=1e-14)


def test_one_sample_is_a_data_set_of_one():
    z0 = TwoLayer.init(4, 2, rng=3)
    one, _ = TwoLayer.from_lazy(2.0, 4, [0.6, -0.8], 1.5, z0=z0)
    set_of_one, _ = TwoLayer.from_lazy(2.0, 4, [[0.6, -0.8]], [1.5], z0=z0)
    np.testing.assert_allclose(one(0.7, z0)["F"], set_of_one(0.7, z0)["F"], rtol=1e-13)
    whole = LazyTwoLayer.from_dataset([[0.6, -0.8]], [1.5], reference=z0, alpha=2.0, gamma=8**-0.5)
    np.testing.assert_allclose(whole(0.7, z0)["F"], one(0.7, z0)["F"], rtol=1e-13)


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match=r"TwoLayer.from_lazy: h = 0 must be a positive integer"):
        TwoLayer.from_lazy(1.0, 0, [1.0], 1.0)
    with pytest.raises(ValueError, match=r"from_lazy: h = 3 must be the number of hidden units of z0, .* shape \(4,\)"):
        TwoLayer.from_lazy(1.0, 3, [1.0], 1.0, z0=TwoLayer.init(4, 1, rng=0))
    with pytest.raises(ValueError, match=r"LazyTwoLayer: alpha = 0.0 must lie in \(0, inf\) \(scale of the output\)"):
        TwoLayer.from_lazy(0.0, 3, [1.0], 1.0)
    with pytest.raises(NotExact, match=r"from_lazy: distance of the samples from a line"):
        TwoLayer.from_lazy(1.0, 3, [[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])


# the laws


@pytest.mark.parametrize("seed", quick(range(4), 1))
@pytest.mark.parametrize("law", LAWS_HERE, ids=lambda c: c.__name__)
def test_every_law_holds(law, seed):
    report = ls.verify(law.example(np.random.default_rng(seed)))
    assert report.ok, str(report)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.quick(2)
def test_each_printed_claim_is_rejected_where_it_is_wrong_and_only_there(name):
    mutant = LAWS[name]
    assert ls.verify(mutant.law.example(np.random.default_rng(mutant.seed))).failed == [mutant.seen_by]


@pytest.mark.parametrize("name", FLOWS)
def test_each_wrong_flow_is_rejected(name):
    mutant = FLOWS[name]
    assert mutant.seen_by in ls.verify(mutant.flow, mutant.z0, checks=["velocity", "residual"]).failed


@pytest.mark.parametrize("G", [1e-9, -1e-3, 1.0, -1e4, 1e9])
def test_the_limits_lose_no_digits(G):
    law = ls.laws.LazyTraining(
        y=G, scaled_alpha=1.0, xi=[0.7, -0.4, 0.2], times=np.array([1e-3, 0.3, 2.0]) / (1 + abs(G))
    )
    xp = arithmetic.precise(60)
    exact = law.cast(xp).approximation(xp, xp.asarray(0.125))
    found = law.approximation(np, 0.125)
    for name, value in found.items():
        assert relative(value, exact[name]) < 1e-14, name


def test_two_units_train_as_sixty_with_the_same_overlaps():
    flow, z0 = TwoLayer.from_lazy(0.3, 60, [1.4], -0.9, rng=2)
    u, v = z0.u, z0.w[:, 0]
    xi = np.sqrt(60) * np.array([(u @ u + v @ v) / 120 - 1, u @ v / 60, (u @ u - v @ v) / 120])
    small, start = network(np, np.asarray(60**-0.5), flow.y, flow.alpha * np.sqrt(60), np.asarray(1.4), xi)
    t = np.array([0.0, 0.05, 0.2, np.inf])
    for name in ("F", "loss", "kernel_change", "u_norm", "h_norm"):
        np.testing.assert_allclose(small(t, start)[name], flow(t, z0)[name], rtol=1e-12, atol=1e-14)


def trained(flow, z0, times, across):
    """Return F at the times, the kernel's change, and the output across the line, per network."""
    end = flow(np.inf, z0)
    return np.stack([*flow(times, z0)["F"], end["kernel_change"], across(end["u"])])


@pytest.mark.parametrize("count", quick([8000, 40000], 1))
def test_sampled_order_parameters_are_those_of_random_weights(count):
    """Networks of 12 units on 2 inputs, weight by weight, against the Wishart matrix of their layers."""
    rng, h, y, alpha = np.random.default_rng(8), 12, 1.3, 0.4
    times, rho = np.array([0.05, 0.4]), np.asarray(0.9)
    x = rho * np.sqrt(2) * np.array([0.6, 0.8])
    z0 = TwoLayer.init(h, 2, batch=(count,), rng=rng)
    full = LazyTwoLayer(y=y, gamma=(2 * h) ** -0.5, x=x, alpha=alpha, u0=z0.u, w0=z0.w)
    other = z0.w @ np.array([-0.8, 0.6]) * np.sqrt(2)  # a point across, of length sqrt(d_in): W x there never moves
    explicit = trained(full, z0, times, lambda u: alpha * (2 * h) ** -0.5 * np.sum((u - z0.u) * other, axis=-1))
    two, start = sampled(rng, count, h, y, alpha, rho)
    noise = rng.standard_normal(count)
    short = trained(two, start, times, lambda u: alpha * h**-0.5 * np.linalg.norm(u - start.u, axis=-1) * noise)
    middle, size = explicit.mean(axis=1, keepdims=True), explicit.std(axis=1)
    for power in (1, 2):
        a, b = (explicit - middle) ** power, (short - middle) ** power
        error = np.sqrt((a.var(axis=1) + b.var(axis=1)) / count)
        assert np.max(np.abs(a.mean(axis=1) - b.mean(axis=1)) / error) < 3.5
        assert np.all(error < 0.1 * size**power)  # the comparison resolves something


def test_wide_networks_weight_by_weight_double_their_kernel_at_alpha_star():
    h, y, d_in = 10000, 1.7, 2
    x = np.array([0.9, -0.5])
    law = ls.laws.LazyTraining(y=y, scaled_alpha=1.0, xi=[0.0] * 3, times=[1.0], rho=np.linalg.norm(x) / np.sqrt(d_in))
    flow, z0 = TwoLayer.from_lazy(law.alpha_star(np, h), h, x, y, rng=np.random.default_rng(0))
    assert abs(flow(np.inf, z0)["kernel_change"] - 1) < 5 / np.sqrt(h)


def test_the_whole_kernel_of_wide_networks_weight_by_weight():
    h, y, d_in = 20000, 1.7, 3
    x = np.array([0.9, -0.5, 0.3])
    law = ls.laws.LazyTraining(y=y, scaled_alpha=0.8, xi=[0.0] * 3, times=[1.0], rho=np.linalg.norm(x) / np.sqrt(d_in))
    flow, z0 = TwoLayer.from_lazy(0.8 / np.sqrt(h), h, x, y, rng=np.random.default_rng(1))

    def matrix(z):  # the kernel between inputs x1, x2 is x1^T M x2 / (h d_in)
        return z.w.T @ z.w + z.u @ z.u * np.eye(d_in)

    before, after = matrix(z0), matrix(flow.limit(np, z0))
    found = np.linalg.norm(after - before) / np.linalg.norm(before)
    expected = law.kernel_change_over(np, d_in)
    assert abs(found - expected) < 5 / np.sqrt(h)
    on_the_line = flow(np.inf, z0)["kernel_change"]
    assert abs(on_the_line - expected) > 20 / np.sqrt(h)  # another number


# what the paper finds elsewhere and does not hold here


def test_lazy_exponent_is_two_at_infinite_width_and_one_at_fixed_width():
    alpha = np.array([1e4, 2e4])
    still = [network(np, np.asarray(1e-6), np.asarray(1.0), np.asarray(a), np.asarray(1.0), np.zeros(3)) for a in alpha]
    change = [float(flow(np.inf, start)["kernel_change"]) for flow, start in still]
    assert change[0] / change[1] == pytest.approx(4, rel=1e-6)
    ratios = []
    for seed in range(20):
        flow, z0 = TwoLayer.from_lazy(alpha, 64, [1.0], 1.0, rng=seed)
        first, second = np.abs(flow(np.inf, z0)["kernel_change"])
        ratios.append(first / second)
    np.testing.assert_allclose(ratios, 2, rtol=0.02)


def test_half_time_over_alpha_grows_like_a_logarithm():
    found = []
    for G in 10.0 ** np.arange(1, 6):
        flow, start = network(np, np.asarray(1.0), np.asarray(1.0), np.asarray(1 / G), np.asarray(1.0), np.zeros(3))
        found.append(float(flow.time_to(np, start, loss=flow.loss(np, start) / 2)) * G)
    np.testing.assert_allclose(found, [0.51, 1.10, 1.68, 2.26, 2.83], atol=0.011)
    np.testing.assert_allclose(np.diff(found)[1:], np.log(10) / 4, rtol=0.02)


@pytest.mark.parametrize("alpha", [0.01, 100.0])  # sqrt(h) alpha
def test_weights_of_one_hidden_layer_move_as_far_at_any_width(alpha):
    """(29), (30) have a factor h^(-1/2) here, 1/10 between these widths."""
    moved = []
    for h in (400, 40000):
        flow, z0 = TwoLayer.from_lazy(alpha / np.sqrt(h), h, [1.0], 1.0, rng=h)
        end = flow.limit(np, z0)
        moved.append(np.hypot(np.linalg.norm(end.u - z0.u), np.linalg.norm(end.w - z0.w)) / np.sqrt(2 * h))
    assert moved[1] / moved[0] == pytest.approx(1, abs=0.15)
    G = 1 / alpha
    expected = G / 2 if G < 1 else np.sqrt(1 + np.sqrt(1 + G**2) - np.sqrt(2 + 2 * np.sqrt(1 + G**2)))
    assert moved[1] == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("alpha", [1e-3, 0.5, 1.0, 30.0])
def test_what_is_made_of_a_lazy_network_keeps_its_target(alpha):
    """Order parameters from both constructors, and linearizations: the target is ``f_ref + y/alpha``."""
    from linsolve.systems.two_layer.order_sums import order_parameters

    flow, z0 = ls.TwoLayer.from_lazy(alpha, 50, [1.0, 2.0], 3.0, rng=0)
    t = np.array([0.0, 0.1, 1.0, np.inf])
    true = flow(t, z0)
    for order, start in (ls.TwoLayerOrder.of(flow, z0), order_parameters(flow, z0)):
        found = order(t, start)
        for name in ("loss", "ntk", "output", "u_norm", "h_norm"):
            np.testing.assert_allclose(found[name], true[name], rtol=1e-9, atol=1e-12)
    frozen = ls.kernels.linearize(flow, z0)
    np.testing.assert_allclose(frozen.y, flow.output(np, z0) + 3.0 / alpha, rtol=1e-13)


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 1e12])
def test_linearizations_of_a_lazy_network_start_at_its_loss(alpha):
    flow, z0 = ls.TwoLayer.from_lazy(alpha, 50, [1.0, 2.0], 3.0, rng=0)
    found = ls.kernels.convergence(flow, [0.0, 0.01, 0.1], z0)
    np.testing.assert_allclose([found.network[0], found.initial[0], found.final[0]], 9 / alpha**2, rtol=1e-12)
    if alpha == 1e12:  # lazy: the kernel is constant, and the loss exponential
        np.testing.assert_allclose(found.initial, found.network, rtol=1e-9)


def test_order_parameters_of_a_network_too_lazy_for_doubles_are_refused():
    flow, z0 = ls.TwoLayer.from_lazy(1e12, 50, [1.0, 2.0], 3.0, rng=0)
    with pytest.raises(ValueError, match=r"TwoLayerOrder: alpha = 1e\+12 leaves too few digits of y/alpha"):
        ls.TwoLayerOrder.of(flow, z0)


@pytest.mark.parametrize("rules", [{}, {"momentum": 0.5}, {"momentum": 0.5, "decay": 1e-3}, {"decay": 1e-14}])
@pytest.mark.parametrize("alpha", quick([1e16, 1e-3, 1e8, 1e200], 1))
@pytest.mark.quick(1)
@pytest.mark.exhaustive
def test_descent_keeps_the_digits_of_small_changes(alpha, rules):
    """Kernel change, residual and F of finite steps against 60 digits; the weights move by 1/alpha of themselves."""
    xp, step, k = arithmetic.precise(60), 0.002 * min(alpha, 1.0), [1, 30, 300]
    flow, z0 = TwoLayer.from_lazy(alpha, 50, [1.0, 2.0], 3.0, rng=0)
    found = flow.discrete(k, z0, step=step, **rules)
    exact = flow.cast(xp).discrete(k, flow.State(*(xp.asarray(v) for v in z0)), step=step, **rules)
    for name, tolerance in (("kernel_change", 1e-13), ("residual", 1e-11), ("F", 1e-11)):
        assert relative(found[name], exact[name]) < tolerance, name
