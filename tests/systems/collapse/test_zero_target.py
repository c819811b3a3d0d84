"""Two layers with target zero: raw weights, sixty digits, the end of training, scatter that turns."""

import mpmath
import numpy as np
import pytest
from mutants.collapse import ZERO
from scipy.integrate import solve_ivp

import linsolve as ls
from linsolve import arithmetic
from linsolve.systems.collapse import ZeroTarget

MP = mpmath.MPContext()
MP.dps = 60
TIMES = np.array([0.05, 0.4, 1.5, 6.0])


def drawn(seed):
    """Return a flow, ``W`` and ``D`` of any sizes, ranks and imbalance."""
    rng = np.random.default_rng(seed)
    n, outputs, samples = rng.integers(1, 6, 3)
    flow = ZeroTarget(eta_w=rng.uniform(0.3, 4), eta_d=rng.uniform(0.3, 2))
    scale = rng.choice([0.3, 1.0, 1.6], 2)
    return flow, scale[0] * rng.normal(size=(outputs, n)), scale[1] * rng.normal(size=(n, samples))


def simulated(flow, w, d, times):
    """Return the weights under plain gradient flow."""

    def rate(_, flat):
        w_, d_ = flat[: w.size].reshape(w.shape), flat[w.size :].reshape(d.shape)
        r = w_ @ d_
        return -np.concatenate([(flow.eta_w * r @ d_.T).ravel(), (flow.eta_d * w_.T @ r).ravel()])

    path = solve_ivp(rate, (0, times[-1]), np.r_[w.ravel(), d.ravel()], "DOP853", times, rtol=1e-13, atol=1e-15).y.T
    return [(flat[: w.size].reshape(w.shape), flat[w.size :].reshape(d.shape)) for flat in path]


def assert_close(found, expected, tolerance):
    for a, b in zip(found, expected, strict=True):
        assert np.max(np.abs(a - b)) <= tolerance * np.max(np.abs(b), initial=1e-300)


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 200), marks=pytest.mark.exhaustive)])
def test_it_follows_the_raw_weights(seeds):
    for seed in seeds:
        flow, w, d = drawn(seed)
        states = flow(TIMES, flow.of(w, d)).state
        for k, later in enumerate(simulated(flow, w, d, TIMES)):
            scale = max(np.abs(v).max() for v in flow.of(w, d))
            for a, b in zip((v[k] for v in states), flow.of(*later), strict=True):
                assert np.max(np.abs(a - b)) <= 1e-11 * scale, (seed, k)


def reference(flow, w, d, t):
    """Return both Gram matrices by the formula of the docstring, to sixty digits, with an inverse of the imbalance."""
    w, d = MP.matrix(w.tolist()), MP.matrix(d.tolist())
    a, b, t = MP.mpf(float(flow.eta_w)), MP.mpf(float(flow.eta_d)), MP.mpf(t)
    e = b * w.T * w - a * d * d.T

    def one(e, root, eta):
        decay = MP.expm(-e * t)
        phi = MP.inverse(e) * (MP.eye(e.rows) - decay * decay)
        bracket = MP.eye(root.cols) + eta * root.T * phi * root
        return decay * root * MP.inverse(bracket) * root.T * decay

    return [np.array(m.tolist(), dtype=float) for m in (one(-e, w.T, b), one(e, d, a))]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.quick(2)
def test_within_1e_12_of_sixty_digits(seed):
    rng = np.random.default_rng(seed)
    flow = ZeroTarget(eta_w=rng.uniform(0.5, 4), eta_d=rng.uniform(0.3, 2))
    w, d = rng.normal(size=(2, 3)), rng.normal(size=(3, 4))
    fast = np.abs(np.linalg.eigvalsh(flow.imbalance(np, flow.of(w, d)))).max()
    for t in (1e-6, 1e-3, 0.1, 1.0, 5.0):
        with MP.workdps(60 + int(2 * fast * t)):  # the bracket loses 0.87 digits per time constant
            expected = reference(flow, w, d, t)
        assert_close(flow(t, flow.of(w, d)).state, expected, 1e-12)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.quick(1)
def test_it_is_proved_from_the_loss(seed):
    report = ls.verify(*ZeroTarget.example(np.random.default_rng(seed)))
    assert report.ok, str(report)


@pytest.mark.parametrize("name", ZERO)
@pytest.mark.quick(1)
def test_mutants_are_rejected_by_the_check_that_should_see_them(name):
    mutant = ZERO[name]
    assert mutant.seen_by in ls.verify(mutant.flow, mutant.z0, checks=[mutant.seen_by]).failed


# limits


@pytest.mark.parametrize("seed", range(4))
def test_the_limits_are_the_two_parts_of_the_imbalance(seed):
    rng = np.random.default_rng(seed)
    flow = ZeroTarget(eta_w=rng.uniform(0.5, 4), eta_d=rng.uniform(0.3, 2))
    z0 = flow.of(rng.normal(size=(2, 3)), rng.normal(size=(3, 4)))
    value, vector = np.linalg.eigh(flow.imbalance(np, z0))
    end = flow([1e3, 1e300, np.inf], z0).state
    for k in range(3):
        np.testing.assert_allclose(end.gram_w[k], vector * np.maximum(value, 0) @ vector.T / flow.eta_d, atol=1e-12)
        np.testing.assert_allclose(end.gram_d[k], vector * np.maximum(-value, 0) @ vector.T / flow.eta_w, atol=1e-12)


def test_zero_imbalance_decays_algebraically():
    # eta_w A -> 1/(2 t) in every direction of the start
    rng = np.random.default_rng(0)
    flow, d = ZeroTarget(eta_w=2.0, eta_d=2.0), rng.normal(size=(3, 3))
    w = np.linalg.qr(rng.normal(size=(3, 3)))[0] @ d.T
    for t in (1e4, 1e8, 1e150):
        np.testing.assert_allclose(flow(t, flow.of(w, d))["gram_d"] * 2 * t * flow.eta_w, np.eye(3), atol=1e-3)
    assert float(flow(np.inf, flow.of(w, d))["loss"]) == 0


def test_one_hidden_unit_is_a_hidden_mode():
    flow = ZeroTarget(eta_w=3.0, eta_d=0.5)
    mode = ls.HiddenMode(s=0.0, eta_w=3.0, eta_h=0.5)
    found, expected = flow(TIMES, flow.of([[0.7]], [[0.9]])), mode(TIMES, ([0.7], [0.9]))
    np.testing.assert_allclose(found["gram_w"][:, 0, 0], expected["w"][:, 0] ** 2, rtol=1e-13)
    np.testing.assert_allclose(found["gram_d"][:, 0, 0], expected["h"][:, 0] ** 2, rtol=1e-13)


# what it stands for


def test_scatter_that_turns_is_the_part_of_neural_collapse_that_had_no_closed_form():
    # the mean output c and scatter on hidden units of their own, D^T c no eigenvector of D^T D
    f, y = ls.NeuralCollapse(2.0, 1.0, 0.5, 2, 3), np.repeat(np.eye(2), 3, axis=1)
    rng = np.random.default_rng(2)
    d = rng.normal(size=(3, 6))
    d = d - d @ y.T @ y / 3
    c = rng.normal(size=3)
    h, w, b = np.zeros((4, 6)), np.zeros((2, 4)), np.full(2, 0.5)
    h[0], w[:, 0] = np.array([1, -1]) @ y, [0.5, -0.5]  # the contrast of classes, on a hidden unit of its own
    h[1:], w[:, 1:] = d, c / np.sqrt(2)
    with pytest.raises(ls.NotExact, match="turning of the scatter"):
        f(1.0, f.of(h, w, b))
    mu_s = float(f.kappa_d - f.kappa_c)
    flow = ZeroTarget(eta_w=1.0, eta_d=mu_s)
    part, whole = flow(TIMES, flow.of(c[None], d)), ls.integrate(f, TIMES, f.of(h, w, b), rtol=1e-12)
    scatter = np.einsum("tij->t", whole["gram_h"] * (np.eye(6) - y.T @ y / 3))
    np.testing.assert_allclose(part["scatter"], scatter, atol=1e-9)
    mean = whole["gram_w"].sum(axis=(-2, -1)) / 2
    np.testing.assert_allclose(np.trace(part["gram_w"], axis1=-2, axis2=-1), mean, atol=1e-9)


def test_it_is_the_end_of_training_of_eq_44():
    rng, m, mu_s = np.random.default_rng(3), 4, 0.7
    flow, w, h2 = ZeroTarget(eta_w=m, eta_d=mu_s), rng.normal(size=(3, 5)), rng.normal(size=(5, 9)) / 2
    velocity = flow.velocity(np, flow.of(w, h2))
    dw, dh = -m * w @ h2 @ h2.T, -mu_s * w.T @ w @ h2
    np.testing.assert_allclose(velocity.gram_w, dw.T @ w + w.T @ dw, atol=1e-12)
    np.testing.assert_allclose(velocity.gram_d, dh @ h2.T + h2 @ dh.T, atol=1e-12)
    # (45)-(49), corrected: with alpha the matrix of H2 H2^T in the eigenbasis of E
    value, vector = np.linalg.eigh(flow.imbalance(np, flow.of(w, h2)))
    alpha, turned = (vector.T @ a @ vector for a in (h2 @ h2.T, velocity.gram_d))
    np.testing.assert_allclose(turned, -(value[:, None] + value) * alpha - 2 * m * alpha @ alpha, atol=1e-12)


# other arithmetics, bad input


def test_batches_and_other_libraries():
    flow, z0 = ZeroTarget.example(np.random.default_rng(0))
    both = flow([0.0, 0.5, np.inf], z0)
    for k in range(2):
        one = flow([0.0, 0.5, np.inf], flow.State(*(v[k] for v in z0)))
        np.testing.assert_allclose(both["gram_d"][:, k], one["gram_d"], atol=1e-14)
    xp = arithmetic.precise(50)
    exact = flow.cast(xp)(xp.asarray([0.5, np.inf]), flow.State(*(xp.asarray(v) for v in z0)))
    np.testing.assert_allclose(both["gram_w"][1:], arithmetic.to_numpy(exact["gram_w"]), atol=1e-13)
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        found = flow(0.5, flow.State(*(jax.numpy.asarray(v) for v in z0)))
        np.testing.assert_allclose(np.asarray(found["gram_w"]), both["gram_w"][1], atol=1e-12)


def test_states_and_weights_that_are_none_are_refused():
    flow = ZeroTarget()
    for call, message in (
        (lambda: flow.of(np.ones((2, 3)), np.ones((2, 4))), r"n = 3 in w, shape \(2, 3\), must equal n = 2 in d"),
        (lambda: flow.of(np.ones(3), np.ones((3, 4))), r"w has shape \(3,\) but needs trailing axes \(C, n\)"),
        (lambda: flow(1.0, (np.eye(2), -np.eye(2))), r"gram_d = 1 .* must have no negative eigenvalue"),
        (lambda: flow(1.0, (np.triu(np.ones((2, 2))), np.eye(2))), r"gram_w = 1 .* must be symmetric"),
        (lambda: ZeroTarget(eta_w=0.0), r"eta_w = 0.0 must lie in \(0, inf\)"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
