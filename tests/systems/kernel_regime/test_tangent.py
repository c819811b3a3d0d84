"""Tangent kernels of networks: in input space, along training, linearized before and after training."""

import itertools

import numpy as np
import pytest

import linsolve as ls
from linsolve import kernels


def size(v):
    return np.linalg.norm(v, axis=-1)


def test_anisotropy_of_two_layers_is_that_of_the_first():
    rng = np.random.default_rng(20)
    W, a = rng.normal(size=(6, 4)), rng.normal(size=(1, 6))
    directions, alignments = kernels.anisotropy_directions([W, a])
    _, s, Vh = np.linalg.svd(W)
    assert alignments == pytest.approx(s**2 + np.sum(a**2), rel=1e-12)
    assert np.abs(np.sum(directions * Vh, axis=1)) == pytest.approx(np.ones(4), abs=1e-12)


def outputs(theta, shapes, x, scale):
    f, cut = x.T, 0
    for rows, columns in shapes:
        f, cut = theta[cut : cut + rows * columns].reshape(rows, columns) @ f, cut + rows * columns
    return scale * f[0]


def jacobian(function, theta, h=1e-5):
    return np.stack([(function(theta + h * e) - function(theta - h * e)) / (2 * h) for e in np.eye(theta.size)], axis=1)


def test_theorem_1_for_a_deep_network_by_differences_and_by_sampling():
    rng, shapes = np.random.default_rng(21), [(4, 3), (5, 4), (1, 5)]
    theta = rng.normal(size=sum(a * b for a, b in shapes))
    cuts = np.cumsum([a * b for a, b in shapes])[:-1]
    layers = [part.reshape(s) for part, s in zip(np.split(theta, cuts), shapes, strict=True)]
    M = kernels.input_kernel(layers, scale=0.5)
    mixed = jacobian(
        lambda p: outputs(p, shapes, np.eye(3), 0.5), theta
    )  # f is linear in x: row i is d^2 f/dx_i dtheta
    assert np.allclose(M, mixed @ mixed.T, rtol=1e-8)
    u = rng.normal(size=3)
    u /= size(u)
    samples = rng.normal(size=(20_000, 3))
    per_sample = (samples @ u)[:, None] * (samples @ mixed)  # g_u(x) grad f(x)
    z = (per_sample.mean(axis=0) - u @ mixed) / (per_sample.std(axis=0) / np.sqrt(len(samples)))
    assert np.max(np.abs(z)) < 5
    estimate = kernels.alignment_from_jacobian(samples @ mixed, samples @ u)
    assert estimate == pytest.approx(u @ M @ u, rel=0.1)


def test_rates_scale_the_layers():
    rng = np.random.default_rng(22)
    W, a = rng.normal(size=(4, 3)), rng.normal(size=(1, 4))
    M = kernels.input_kernel([W, a], rates=[0.3, 2.0])
    assert np.allclose(M, 2.0 * W.T @ W + 0.3 * np.sum(a**2) * np.eye(3), rtol=1e-13)


# linearizing a trained network


def network(seed=23):
    return ls.TwoLayer.example(np.random.default_rng(seed))


def test_tangent_kernels_along_training_are_gram_matrices_of_jacobians():
    flow, z0 = network()
    x = np.random.default_rng(24).normal(size=(4, 3))
    traj = flow([0.0, 0.5, np.inf], z0)
    found = kernels.tangent_kernel(flow, traj.state, x)
    assert found.shape == (3, 3, 4, 4)
    for time, member in np.ndindex(3, 3):
        u, w = traj["u"][time, member], traj["w"][time, member]
        gamma = flow.gamma[member]
        J = jacobian(lambda p, g=gamma: g * p[:5] @ p[5:].reshape(5, 3) @ x.T, np.concatenate([u, w.ravel()]))
        rates = np.repeat([flow.eta_u, flow.eta_w], [5, 15])
        assert np.allclose(found[time, member], J * rates @ J.T, atol=1e-8)
    ntk = kernels.tangent_kernel(flow, traj.state, flow.x[None])[..., 0, 0]
    assert np.allclose(ntk, traj["ntk"], rtol=1e-12)


@pytest.mark.parametrize("unbiased", [False, True])
def test_convergence_of_a_network_and_its_two_linearizations(unbiased):
    flow, z0 = network()
    t = np.array([0.0, 0.05, 0.2, 0.6])
    curves = kernels.convergence(flow, t, z0, unbiased=unbiased)
    assert np.allclose(curves.network, ls.integrate(flow, t, z0)["loss"], rtol=1e-8, atol=1e-16)
    f0 = np.zeros(3) if unbiased else flow.output(np, z0)
    for found, state in ((curves.initial, z0), (curves.final, flow.limit(np, z0))):
        kernel = flow.ntk(np, state)
        r = f0 - flow.y
        for before, after in itertools.pairwise(t):  # f' = -2 K (f - y), by a fine Runge-Kutta
            h = (after - before) / 2000
            for _ in range(2000):
                a = -2 * kernel * r
                b = -2 * kernel * (r + h / 2 * a)
                r = r + h * b
        assert np.allclose(found[-1], r**2, rtol=1e-5)
    assert np.array_equal(curves.initial[0], curves.final[0])


def test_a_whitened_network_is_linearized_in_its_weights():
    rng = np.random.default_rng(25)
    w1, w2, target = rng.normal(size=(3, 2)), rng.normal(size=(2, 3)), rng.normal(size=(2, 2))
    flow = ls.WhitenedTwoLayer(target=target, tau=0.8)
    z0, theta = flow.of(w1, w2), np.concatenate([w1.ravel(), w2.ravel()])
    frozen = kernels.linearize(flow, z0)
    J = jacobian(lambda p: (p[6:].reshape(2, 3) @ p[:6].reshape(3, 2)).ravel(), theta)
    assert np.allclose(frozen.kernel, J @ J.T, atol=1e-8)
    assert np.allclose(frozen.velocity(np, frozen.State(z0.product.ravel())).f, flow.velocity(np, z0).product.ravel())


def test_convergence_of_whitened_networks_is_their_loss_and_that_of_two_linear_equations():
    flow, z0 = ls.WhitenedTwoLayer.example(np.random.default_rng(26))
    t = np.array([0.0, 0.1, 0.5, np.inf])
    curves = kernels.convergence(flow, t, z0)
    assert np.array_equal(curves.network, flow(t, z0)["loss"])
    for found, z in ((curves.initial, z0), (curves.final, flow(np.inf, z0).state)):
        product, h = z0.product, 1e-4
        for step in range(5000):
            if step == 1000:
                assert found[1] == pytest.approx(np.sum((product - flow.target) ** 2) / 2, rel=1e-6)
            half = product + h / 2 * _pull(flow, z, product)
            product = product + h * _pull(flow, z, half)
        assert found[2] == pytest.approx(np.sum((product - flow.target) ** 2) / 2, rel=1e-6)
        assert found[3] <= found[2] <= found[1] <= found[0] == pytest.approx(flow.loss(np, z0), rel=1e-12)


def _pull(flow, z, product):
    gap = flow.target - product
    return (gap @ z.gram_in + z.gram_out @ gap) / flow.tau


def test_the_trained_kernel_learns_fastest_and_the_network_turns_from_one_into_the_other():
    flow = ls.TwoLayer(y=1.5, x=[1.0, -0.5])
    z0 = ls.TwoLayer.init(6, 2, sigma_u=0.1, sigma_w=0.1, rng=0)
    t = np.array([1.0, 3.0, 10.0])
    curves = kernels.convergence(flow, t, z0)
    assert np.all(curves.final < curves.network)
    assert np.all(curves.network < curves.initial)
    late = kernels.convergence(flow, np.array([8.0, 9.0]), z0)
    speeds = [np.log(c[0] / c[1]) for c in (late.network, late.final, late.initial)]
    assert speeds[0] == pytest.approx(speeds[1], rel=1e-3)
    assert speeds[2] < 0.1 * speeds[1]


def test_only_networks_with_a_data_set_are_linearized():
    with pytest.raises(TypeError, match="linearize: flow = BalancedMode has no data set here"):
        kernels.linearize(ls.BalancedMode(s=1.0), ls.BalancedMode.State(np.asarray(0.1)))


def test_only_networks_are_linearized_by_name():
    for call in (
        lambda: kernels.linearize(3, 4),
        lambda: kernels.convergence(3, 1.0, 4),
        lambda: kernels.tangent_kernel(3, 4, [[1.0]]),
        lambda: kernels.input_kernel(3),
    ):
        with pytest.raises(TypeError, match=r"(linearize|convergence|tangent_kernel|input_kernel): (flow|z|layers) = "):
            call()


@pytest.mark.parametrize("alpha", [0.3, 1.0, 1e10, 1e16])
def test_lazy_networks_are_linearized_about_their_own_target(alpha):
    """The target is ``f_ref + y/alpha``; the losses start at ``(F - y)^2/alpha^2``, which ``f - target`` may lose."""
    flow, z0 = ls.TwoLayer.from_lazy(alpha, 50, [1.0, 2.0], 3.0, rng=0)
    t = np.array([0.0, 0.01, 0.1])
    curves = kernels.convergence(flow, t, z0)
    network = flow(t, z0)
    np.testing.assert_allclose(curves.network, network["loss"], rtol=1e-12)
    np.testing.assert_allclose(curves.initial[0], 9 / alpha**2, rtol=1e-12)
    speed = 2 * network["ntk"][0]
    np.testing.assert_allclose(curves.initial, 9 / alpha**2 * np.exp(-2 * speed * t), rtol=1e-12)
    if alpha >= 1e10:  # the lazy regime: the kernel hardly moves
        np.testing.assert_allclose(curves.initial, network["loss"], rtol=1e-6)
    target = kernels.linearize(flow, z0).y
    reference = flow.output(np, ls.TwoLayer.State(flow.u0, flow.w0))
    np.testing.assert_allclose(target, [reference + 3 / alpha], rtol=1e-14)


def test_kernels_beyond_doubles_are_refused_by_name():
    flow, z = ls.TwoLayer(y=1.0, x=[1.0]), ls.TwoLayer.State(u=np.array([1e200]), w=np.array([[1e200]]))
    for call in (
        lambda: kernels.linearize(flow, z),
        lambda: kernels.tangent_kernel(flow, z, [[1.0]]),
        lambda: kernels.input_kernel([[[1e200]], [[1e200]]]),
    ):
        with pytest.raises(OverflowError, match=r"(u|w|layers\[0\]) of magnitude 1e\+200 leads beyond the range"):
            call()


def test_the_scale_of_a_kernel_may_be_beyond_the_root_of_doubles():
    assert kernels.input_kernel([[[1e-150]], [[1.0]]], scale=1e150)[0, 0] == pytest.approx(1e300, rel=1e-15)
    assert kernels.input_kernel([[[1e-150]], [[1e-150]]], scale=1e200)[0, 0] == pytest.approx(2e100, rel=1e-15)
    with pytest.raises(OverflowError, match=r"input_kernel: scale of magnitude 1e\+200 leads beyond the range"):
        kernels.input_kernel([[[1.0]], [[1.0]]], scale=1e200)


@pytest.mark.parametrize("flow", [1, None, {}, "TwoLayer", np.eye(2), ls.BalancedMode(s=1.0), ls.TwoLayer])
def test_kernels_name_a_flow_that_is_none(flow):
    for name, arguments in {"linearize": (0.1,), "tangent_kernel": (0.1, np.eye(2)), "convergence": (1.0, 0.1)}.items():
        with pytest.raises(TypeError, match=f"^{name}: flow = "):
            getattr(ls.kernels, name)(flow, *arguments)


@pytest.mark.parametrize(
    "u",
    ["a", [[1.0], [2.0, 3.0]], np.nan, [1j, 0.0], np.ones(3)],
    ids=["text", "ragged", "nan", "complex", "width"],
)
def test_kernels_name_weights_that_are_none(u):
    flow, z = ls.TwoLayer(y=1.0, x=[1.0, 0.0]), ls.TwoLayer.State(u, np.ones((2, 2)))
    for call in (lambda: ls.kernels.linearize(flow, z), lambda: ls.kernels.tangent_kernel(flow, z, np.eye(2))):
        with pytest.raises((TypeError, ValueError), match=r"^TwoLayer: "):
            call()
