"""Neural collapse against the network that it describes, against fifty digits, and against what the thesis predicts."""

import numpy as np
import pytest
from collapse_network import (
    MP,
    PI,
    C,
    J,
    M,
    N,
    Y,
    assert_state,
    basis,
    exact,
    flow,
    generic_flow,
    many,
    rates,
    simulated,
)
from mutants.collapse import COLLAPSE, EXAMPLE, PullOfTheOtherSign, scattered
from selection import quick

import linsolve as ls
from linsolve import arithmetic
from linsolve.systems.collapse.starts import dyadic

TURN = np.array([[2.0, 2, -1], [-1, 2, 2], [2, -1, 2]]) / 3  # orthogonal, and leaves 1 where it is


def generic(seed, n=5, scale=0.5):
    """Return features with scatter, mean and imbalance, a classifier and a bias."""
    rng = np.random.default_rng(seed)
    return scale * rng.normal(size=(n, N)), scale * rng.normal(size=(C, n)), 0.3 * rng.normal(size=C)


# proof


# the first three are proved with all other flows
@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(3, 7))
def test_examples_are_proved(seed):
    report = ls.verify(*ls.NeuralCollapse.example(np.random.default_rng(seed)))
    assert report.ok, str(report)


@pytest.mark.parametrize("name", COLLAPSE)
@pytest.mark.quick(4)
def test_mutants_are_rejected_by_the_check_that_should_see_them(name):
    mutant = COLLAPSE[name]
    assert ls.verify(mutant.flow, mutant.z0, checks=[mutant.seen_by]).failed == [mutant.seen_by]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", COLLAPSE)
def test_no_other_check_rejects_the_mutants(name):
    mutant = COLLAPSE[name]
    checks = [mutant.seen_by] if mutant.seen_by == "velocity" else ["velocity", "residual", mutant.seen_by]
    report = ls.verify(mutant.flow, mutant.z0, checks=dict.fromkeys(checks))
    assert report.failed == [mutant.seen_by], str(report)


def test_only_scatter_within_classes_shows_the_sign_of_eq_40():
    assert ls.verify(EXAMPLE[0], scattered(), checks=["velocity"]).ok
    wrong = PullOfTheOtherSign(**EXAMPLE[0].parameters())
    without = type(EXAMPLE[1])(*(v[:2] for v in EXAMPLE[1]))
    assert ls.verify(wrong, without, checks=["velocity"]).ok


# against the network itself


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.quick(1)
def test_any_start_follows_the_network(seed):
    f, weights, times = flow(), generic(seed), np.array([0.1, 0.7, 3.0])
    path = simulated(f, *weights, times)
    states = ls.integrate(f, times, f.of(*weights), rtol=1e-12).state
    for k, later in enumerate(path):
        assert_state(type(states)(*(v[k] for v in states)), f.of(*later), 1e-10)
        # eq. (26), conserved with all its factors, and its power sums
        e = f.imbalance_of(*weights[:2])
        np.testing.assert_allclose(f.imbalance_of(*later[:2]), e, atol=1e-10 * np.abs(e).max())
        for p, value in enumerate(f.invariants(np, f.of(*later)).values(), 1):
            assert value == pytest.approx(np.trace(np.linalg.matrix_power(M * e, p)), rel=1e-9)


@pytest.mark.parametrize(("n", "imbalance"), [(5, 0.0), (5, 0.3), (4, -0.25), (2, 0.0), (2, 0.2), (1, -0.1)])
def test_closed_form_follows_the_network(n, imbalance):
    f, times = flow(), np.array([0.05, 0.4, 1.0, 2.5, 6.0])
    h, w, b = f.init(n, scale=0.4, imbalance=imbalance, rng=7)
    e, span = f.imbalance_of(h, w), np.linalg.matrix_rank(w, tol=1e-9)
    np.testing.assert_allclose(np.sort(np.abs(np.linalg.eigvalsh(e)))[::-1][:span], abs(imbalance), atol=1e-14)
    assert np.abs(w.sum(axis=0)).max() > 0.01  # not the special case of zero sums
    states = f(times, f.of(h, w, b)).state
    for k, later in enumerate(simulated(f, h, w, b, times)):
        assert_state(type(states)(*(v[k] for v in states)), f.of(*later), 1e-9)


def test_a_bias_off_its_goal_relaxes_alone_with_a_zero_sum_classifier():
    f, times = flow(), np.array([0.05, 0.4, 1.0, 2.5])
    h, _, _ = f.init(5, scale=0.4, rng=1)
    w = (h[:, ::M] @ TURN).T * np.sqrt(M / rates(f)[1])  # zero sums, balanced, not aligned
    b = np.full(C, 0.9)
    states = f(times, f.of(h, w, b)).state
    for k, later in enumerate(simulated(f, h, w, b, times)):
        assert_state(type(states)(*(v[k] for v in states)), f.of(*later), 1e-9)
        np.testing.assert_allclose(later[2], 1 / C + (0.9 - 1 / C) * np.exp(-N * times[k]), atol=1e-11)


@pytest.mark.parametrize("seed", range(3))
def test_two_classes_with_zero_sums_are_solvable_whatever_the_imbalance(seed):
    rng = np.random.default_rng(seed)
    f, y = flow(classes=2, m=3), np.repeat(np.eye(2), 3, axis=1)
    one = np.array([[1.0, -1.0]])
    h, w = rng.normal(size=(4, 1)) * one @ y, one.T * rng.normal(size=(1, 4))
    b, times = np.full(2, 0.2), np.array([0.1, 0.5, 2.0])
    states = f(times, f.of(h, w, b)).state
    assert np.linalg.matrix_rank(f.imbalance_of(h, w)) == 2
    for k, later in enumerate(simulated(f, h, w, b, times, y)):
        assert_state(type(states)(*(v[k] for v in states)), f.of(*later), 1e-9)


# against high precision


def lambda_balanced(rng, mu_c, lam):
    """Return ``[M^T/sqrt(mu_c); W/sqrt(m)]`` of a start with ``E = lam P_S``, outputs generic, to sixty digits."""
    sizes = exact(rng.uniform(0.2, 0.7, C - 1))
    wide = np.array([MP.sqrt(v * v + abs(lam)) for v in sizes])
    own, other = (wide, sizes) if lam >= 0 else (sizes, wide)
    outputs = exact(rng.normal(size=(C, C - 1)))
    outputs = np.array(MP.qr(MP.matrix(outputs.tolist()), mode="skinny")[0].tolist(), dtype=object)
    inputs = basis(rng, C)[:, 1:] @ basis(rng, C - 1)
    return np.concatenate([inputs * other, outputs * own])


def riccati_of_the_theory(q, s, lam, t):
    """Return ``P = e^(sFt) Q0 [1 + s/2 Q0^T F^-1 (e^(2sFt) - 1) Q0]^-1 Q0^T e^(sFt)``, outputs 1 included."""
    half, one = lam * s / 2, np.full((C, 1), 1 / MP.sqrt(MP.mpf(C)), dtype=object)
    pi = exact(np.eye(C)) - one @ one.T
    omega = MP.sqrt(1 + half * half)
    big = np.concatenate([np.concatenate([-half * pi, pi], axis=1), np.concatenate([pi, half * pi], axis=1)])
    flat = np.concatenate([0 * q[:C], one @ one.T @ q[C:]])  # the output that no input has: F is lam s/2 there
    bent = q - flat
    x, y = s * omega * t, s * half * t
    grow = MP.cosh(x) * bent + MP.sinh(x) / omega * (big @ bent) + MP.exp(y) * flat
    twice = ((MP.cosh(2 * x) - 1) * (big @ bent) / omega**2 + MP.sinh(2 * x) / omega * bent
             + (2 * s * t if half == 0 else MP.expm1(2 * y) / half) * flat)  # fmt: skip
    bracket = exact(np.eye(q.shape[1])) + s / 2 * (q.T @ twice)
    inverse = np.array(MP.inverse(MP.matrix(bracket.tolist())).tolist(), dtype=object)
    return grow @ inverse @ grow.T


@pytest.mark.parametrize("seeds", many(20, 4))
@pytest.mark.parametrize("sign", [-1, 0, 1])
@pytest.mark.quick(1)
def test_generic_starts_within_1e_12_of_the_riccati_formula_in_many_digits(sign, seeds):
    for seed in seeds:
        rng = np.random.default_rng(seed)
        f = generic_flow(rng)
        mu_c = MP.mpf(float(f.kappa_d)) - MP.mpf(float(f.kappa_c))
        mu_c += M * (MP.mpf(float(f.kappa_c)) - MP.mpf(float(f.kappa_n)))
        lam, s = MP.mpf(sign * float(rng.uniform(0.1, 0.5))), MP.sqrt(M * mu_c)
        q, y = lambda_balanced(rng, mu_c, lam), exact(Y)

        def state(t, f=f, q=q, s=s, lam=lam, mu_c=mu_c, y=y):
            p = riccati_of_the_theory(q, s, lam, MP.mpf(t))
            return f.State(p[C:, :C] * s @ y, p[C:, C:] * M, y.T @ p[:C, :C] @ y * mu_c, exact(np.full(C, 1 / C)))

        z0 = f.State(*(a.astype(float) for a in state(0)))
        for t in (1e-6, 1e-3, 0.1, 1.0, 10.0, 1e3):
            with MP.workdps(60 + int(9 * t)):  # what the bracket loses
                expected = state(t)
            for name, a, b in zip(z0._fields, f(t, z0).state, expected, strict=True):
                error = float(np.max(np.abs(a - b)) / np.max(np.abs(b)))
                assert error <= 1e-12, (seed, t, name, error)


@pytest.mark.parametrize("imbalance", [0.0, 0.4, -0.3])
@pytest.mark.quick(1)
def test_generic_classifiers_within_1e_12_of_fifty_digits(imbalance):
    f, xp = flow(), arithmetic.precise(50)
    z0 = f.of(*f.init(5, scale=0.2, imbalance=imbalance, rng=3))
    t = np.array([1e-6, 1e-3, 0.1, 1.0, 10.0, 1e3, np.inf])
    found = f(t, z0).state
    exact = f.cast(xp)(xp.asarray(t), f.State(*(xp.asarray(v) for v in z0))).state
    for a, b in zip(found, exact, strict=True):
        for k in range(len(t)):
            assert np.max(np.abs(a[k] - arithmetic.to_numpy(b)[k])) <= 1e-12 * np.max(np.abs(a[k]))


# what the thesis predicts


def collapse_of(traj, k=-1):
    return {name: float(traj[name][k]) for name in ("nc1", "nc2_norms", "nc2_angles", "nc3", "nc4")}


@pytest.mark.parametrize("classes", [2, 3, 5, 8])
def test_balanced_starts_collapse(classes):
    f = flow(classes=classes, m=3)
    for seed in range(5):
        traj = f([0.0, 200.0, np.inf], f.of(*f.init(classes + 2, scale=0.3, rng=seed)))
        assert max(collapse_of(traj).values()) < 1e-8
        assert collapse_of(traj, 0)["nc3"] > 0.01  # not aligned at the start
        assert traj["loss"][-1] < 1e-25
        pi, y = np.eye(classes) - 1 / classes, np.repeat(np.eye(classes), 3, axis=1)
        root = np.sqrt(float(f.kappa_d - f.kappa_c + 3 * (f.kappa_c - f.kappa_n)) / 3)
        np.testing.assert_allclose(traj["gram_w"][-1], pi / root, atol=1e-12)  # Theorem 5.2
        np.testing.assert_allclose(traj["gram_h"][-1], y.T @ pi @ y * root, atol=1e-12)
        # erratum of NC2: class means do not tend to one another, only their lengths do
        apart = traj["gram_h"][-1, 0, 0] + traj["gram_h"][-1, 3, 3] - 2 * traj["gram_h"][-1, 0, 3]
        assert apart == pytest.approx(2 * root)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.quick(1)
def test_other_imbalances_fit_without_collapse(seed):
    f, rng = flow(), np.random.default_rng(seed)
    h = 0.7 * rng.normal(size=(5, C)) @ PI @ Y
    start = f.of(h, 0.7 * rng.normal(size=(C, 5)), np.full(C, 1 / C))
    with pytest.raises(ls.NotExact, match=r"NeuralCollapse: distance of the imbalance .*integrate\(flow, t, z0\)"):
        f(1.0, start)
    traj = ls.integrate(f, [0.0, 40.0], start, rtol=1e-10)
    assert traj["loss"][-1] < 1e-12
    assert traj["nc2_angles"][-1] > 0.02
    assert traj["nc3"][-1] > 0.01


def test_lambda_balanced_starts_on_all_contrasts_collapse_too():
    # hypothesis (55), relaxed: E a multiple of the final W^T W
    f = flow()
    start = f.of(*f.init(4, scale=0.3, imbalance=-0.4, rng=2))
    assert max(collapse_of(f([np.inf], start)).values()) < 1e-8


def equal_biases(f, beta, seed=0):
    """Return an ``E = 0`` start with a feature mean, whose hidden units of the mean and of contrasts are orthogonal."""
    rng = np.random.default_rng(seed)
    _, mu_c, mu_g = rates(f)
    u = np.linalg.svd(PI)[0][:, :2]
    frame = np.linalg.qr(rng.normal(size=(5, 3)))[0].T
    w = u @ np.diag([0.7, 0.4]) @ frame[:2] + 0.5 * np.ones((C, 1)) / np.sqrt(C) @ frame[2:]
    h = np.sqrt(mu_c) * w.T @ TURN @ (PI + J / C * np.sqrt(mu_g / mu_c))  # A^-1/2
    return h @ Y, np.sqrt(M) * w, np.full(C, beta)


def test_equal_biases_end_at_the_corrected_gamma_and_theta():
    f = flow()
    h, w, b = equal_biases(f, 0.1)
    np.testing.assert_allclose(f.imbalance_of(h, w), 0, atol=1e-14)
    h, w, b = simulated(f, h, w, b, [15.0])[-1]
    beta = b.mean()
    assert np.ptp(b) < 1e-10
    assert abs(beta - 1 / C) > 0.02
    assert_state(f.equal_bias_limit(beta), f.of(h, w, b), 1e-9)
    # errata of (30), (66), (68), and what is left of the collapse: NC1, NC2, NC4 but not NC3
    _, mu_c, mu_g = rates(f)
    q, root = np.sqrt(mu_c / mu_g), np.sqrt(M / mu_c)
    printed = np.eye(C) - J * (1 - abs(beta * C) * q) / C
    assert np.abs(root * printed - w @ w.T).max() > 0.05
    means = h[:, ::M]
    printed = np.eye(C) - J * (1 - abs(1 - beta * C) / (2 - q)) / C
    assert np.abs(printed / root - means.T @ means).max() > 0.05
    at = f.observables(np, f.of(h, w, b))
    assert max(at["nc1"], at["nc2_norms"], at["nc2_angles"], at["nc4"]) < 1e-8
    limit = f.observables(np, f.equal_bias_limit(1 / C))
    assert max(float(limit[k]) for k in ("nc1", "nc2_norms", "nc2_angles", "nc3", "nc4")) < 1e-12


def constant_apart(seed):
    """Return an example with a mean of features and of outputs on two hidden units of its own, of any imbalance."""
    rng = np.random.default_rng(seed)
    f, _ = ls.NeuralCollapse.example(rng)
    means, w = dyadic(rng, 5, np.sqrt(float(rates(f)[1]) / M))
    frame = np.array([[1, 1, -1, -1, 0], [0, 0, 0, 0, 2]]) / 2
    w = w + np.ones((C, 1)) * (rng.integers(-20, 20, 2) / 64 @ frame)
    means = means + (rng.integers(-20, 20, 2) / 64 @ frame)[:, None]
    return f, means @ Y, w, np.full(C, rng.integers(-10, 40) / 64)


@pytest.mark.parametrize("seed", quick(range(2), 1))
@pytest.mark.exhaustive
def test_a_constant_mode_apart_is_proved(seed):
    f, *weights = constant_apart(seed)
    report = ls.verify(f, f.of(*weights))
    assert report.ok, str(report)


@pytest.mark.parametrize("seed", range(2))
def test_a_constant_mode_apart_follows_the_network_and_fifty_digits(seed):
    f, *weights = constant_apart(seed)
    z0, times = f.of(*weights), np.array([0.05, 0.4, 1.0, 2.5])
    states = f(times, z0).state
    for k, later in enumerate(simulated(f, *weights, times)):
        assert_state(type(states)(*(v[k] for v in states)), f.of(*later), 1e-9)
    xp, times = arithmetic.precise(50), np.array([1e-6, 1e-3, 0.1, 1.0, 10.0, 1e3, np.inf])
    exact = f.cast(xp)(xp.asarray(times), f.State(*(xp.asarray(v) for v in z0))).state
    for a, b in zip(f(times, z0).state, exact, strict=True):
        for k in range(len(times)):
            assert np.max(np.abs(a[k] - arithmetic.to_numpy(b)[k])) <= 1e-12 * np.max(np.abs(a[k]))


def test_kinds_of_starts_share_a_batch():
    f, *weights = constant_apart(0)
    generic, narrow = f.init(5, scale=0.4, rng=0), f.init(2, scale=0.4, imbalance=0.2, rng=4)
    starts = [f.of(*weights), f.of(*generic), f.of(*narrow)]
    together = f([0.0, 0.7, np.inf], f.State(*(np.stack(v) for v in zip(*starts, strict=True))))
    for k, start in enumerate(starts):
        alone = f([0.0, 0.7, np.inf], start)
        for a, b in zip(together.state, alone.state, strict=True):
            np.testing.assert_allclose(a[:, k], b, rtol=0, atol=1e-13)


def test_the_closed_form_ends_at_gamma_and_theta():
    f = flow()
    z0 = f.of(*equal_biases(f, 0.1))
    end = f(np.inf, z0).state
    assert_state(f.equal_bias_limit(end.b[0]), end, 1e-13)
    with pytest.raises(ls.NotExact, match=r"unevenness of the biases = .* must vanish"):
        f(1.0, z0._replace(b=z0.b + np.array([1e-3, 0, -1e-3])))


def test_constant_mode_is_that_of_biased_mode():
    f = flow()
    h, w, b = equal_biases(f, 0.1)
    mode = ls.BiasedMode(m=M, mu=rates(f)[2], N=N)
    one = np.ones(C) / np.sqrt(C)
    end = mode(np.inf, (w.T @ one, h[:, ::M] @ one, C * b[0]))
    assert float(end["B"]) / C == pytest.approx(simulated(f, h, w, b, [15.0])[-1][2].mean(), abs=1e-10)


def test_limits_of_eq_28_have_a_plus():
    # E proportional to the final W^T W: it is the sum, not the difference, of the two Gram matrices of features
    f = flow()
    h, w, b = generic(11)
    mu_s, mu_c, _ = rates(f)
    later = simulated(f, h, w, b, [1.0])[-1]

    def sides(h, w, sign):
        h1 = h @ Y.T / M
        h2 = h - h1 @ Y
        a = np.eye(C) - J * float(f.kappa_n) * M / rates(f)[2]
        return w.T @ w - M * h1 @ a @ h1.T / mu_c - sign * h2 @ h2.T / mu_s

    np.testing.assert_allclose(sides(*later[:2], 1), sides(h, w, 1), atol=1e-10)
    assert np.abs(sides(*later[:2], -1) - sides(h, w, -1)).max() > 0.1


# what is observed


def test_observables_are_those_of_the_weights():
    f = flow()
    h, w, b = generic(4)
    at = f.observables(np, f.of(h, w, b))
    means = h @ Y.T / M
    scatter, centered = h - means @ Y, means @ PI
    between = np.sum(centered**2) / C
    assert at["nc1"] == pytest.approx(np.sum(scatter**2) / N / between, rel=1e-12)
    length = np.linalg.norm(centered, axis=0)
    assert at["nc2_norms"] == pytest.approx(np.std(length) / np.mean(length), rel=1e-12)
    cosine = (centered / length).T @ (centered / length)
    assert at["nc2_angles"] == pytest.approx(np.abs(cosine + 1 / (C - 1))[~np.eye(C, dtype=bool)].max(), rel=1e-12)
    apart = w / np.linalg.norm(w) - centered.T / np.linalg.norm(centered)
    assert at["nc3"] == pytest.approx(np.sum(apart**2) / 2, rel=1e-12)
    near = np.argmin(np.linalg.norm(h[:, None, :] - means[:, :, None], axis=0), axis=0)
    assert at["nc4"] == pytest.approx(np.mean(near != np.argmax(w @ h + b[:, None], axis=0)))
    assert 0 < at["nc4"] < 1
    r = w @ h + b[:, None] - Y
    classes = r @ Y.T / M
    assert at["loss_sample"] == pytest.approx(np.sum((r - classes @ Y) ** 2) / 2, rel=1e-12)
    assert at["loss_class"] == pytest.approx(M * np.sum((classes @ PI) ** 2) / 2, rel=1e-12)
    assert at["loss_global"] == pytest.approx(np.sum(r.sum(axis=1) ** 2) / N / 2, rel=1e-12)
    assert f.loss(np, f.of(h, w, b)) == pytest.approx(np.sum(r**2) / 2, rel=1e-12)


def test_nothing_learned_yet_is_no_error():
    f = flow()
    z0 = f.of(np.zeros((4, N)), np.zeros((C, 4)), np.zeros(C))
    traj = f([0.0, 1.0, np.inf], z0)
    np.testing.assert_allclose(traj["b"][-1], 1 / C, rtol=1e-15)
    assert np.isfinite(traj["nc3"]).all()
    assert traj["loss"][-1] == pytest.approx(N * (1 - 1 / C) / 2)


def test_features_without_scatter_between_classes_have_infinite_nc1():
    f = flow()
    h = np.tile([[1.0, -1.0]], (2, C))
    assert f.nc1(np, f.of(h, np.zeros((C, 2)), np.zeros(C))) == np.inf


# refused


def test_each_condition_names_what_is_violated_and_how_far():
    f = flow()
    h, w, b = f.init(5, scale=0.4, rng=0)
    far = {
        "scatter within classes on shared hidden units": (h + 1e-3 * np.eye(5, N), w, b),
        "mean of the features": (h + 1e-3, w, b),
        "bias that classifier or features see": (h, w, b + 1e-3),
        "distance of the imbalance from a solvable one": (h, w + 1e-3 * np.eye(C, 5), b),
    }
    for name, weights in far.items():
        found = f.conditions(np, f.of(*weights))
        assert 1e-5 < found[name] < 1e-1
        with pytest.raises(ls.NotExact):
            f(1.0, f.of(*weights))
        # linear in the deviation: a tenth of it is a tenth as far
        less = [a + (x - a) / 10 for a, x in zip((h, w, b), weights, strict=True)]
        assert f.conditions(np, f.of(*less))[name] == pytest.approx(found[name] / 10, rel=0.05)
    with pytest.raises(ls.NotExact, match=r"scatter within classes on shared hidden units = .*must vanish .*use integ"):
        f(1.0, f.of(*far["scatter within classes on shared hidden units"]))


BAD = {
    "kappa_c above": ({"kappa_c": 2.2}, r"kappa_c = 2.2 must be less than kappa_d = 2.2 .*order them"),
    "kappa_n above": ({"kappa_n": 1.2}, r"kappa_n = 1.2 must be at most kappa_c = 1.1 .*order them"),
    "one class": ({"classes": 1}, r"classes = 1.0 must lie in \[2, inf\) \(number of classes\)"),
    "no samples": ({"m": 0}, r"m = 0.0 must lie in \[1, inf\) \(samples of each class\)"),
    "half a class": ({"classes": 2.5}, r"classes = 2.5 must be a whole number"),
    "two numbers": ({"m": [2, 3]}, r"m has shape \(2,\) but must be one number or 3 \(samples of each class\)"),
    "two counts": ({"classes": [3, 2]}, r"classes = 2 and 3 must be the same over a batch .*one flow for each"),
    "batches": ({"kappa_d": [3.0] * 2, "kappa_c": [1.0] * 3}, r"batch shapes = .* do not broadcast"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_kernels_are_refused(name):
    change, message = BAD[name]
    with pytest.raises(ValueError, match="NeuralCollapse: " + message):
        flow(**change)


def test_bad_starts_are_refused():
    f = flow()
    h, w, b = generic(0)
    for weights, message in (
        ((h[:, :5], w, b), r"h has 5 columns but needs 6 \(samples of all classes, ordered by class\)"),
        ((h, w[:2], b), r"w has 2 rows but needs 3 \(classes\)"),
        ((h, w, b[:2]), r"b has 2 rows but needs 3 \(classes\)"),
        ((h, w[:, :4], b), r"n = 5 in h, shape .* must equal n = 4 in w"),
        ((h[0], w, b), r"h has shape \(6,\) but needs trailing axes \(n, N\)"),
    ):
        with pytest.raises(ValueError, match="NeuralCollapse: " + message):
            f.of(*weights)
    z0 = f.of(h, w, b)
    other = flow(m=3)
    for route in (lambda: other(1.0, z0), lambda: ls.integrate(other, 1.0, z0)):
        with pytest.raises(ValueError, match=r"NeuralCollapse: product has shape \(3, 6\) but needs trailing \(3, 9\)"):
            route()
    for options, message in (
        ({"n": 0, "scale": 1.0}, "n = 0 must be a positive integer"),
        ({"n": 2, "scale": -1.0}, r"scale = -1.0 must be a number in \[0, 1e150\]"),
        ({"n": 2, "scale": 1.0, "imbalance": np.nan}, "imbalance = nan must be finite"),
    ):
        with pytest.raises(ValueError, match="NeuralCollapse.init: " + message):
            f.init(options.pop("n"), **options)
