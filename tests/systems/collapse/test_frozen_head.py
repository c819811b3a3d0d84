"""A frozen classifier against its network, against matrix exponentials to sixty digits, and at its edges."""

import mpmath
import numpy as np
import pytest
from collapse_network import C, M, N, Y, kernel, many, simulated
from mutants.collapse import FROZEN

import linsolve as ls
from linsolve import arithmetic

MP = mpmath.MPContext()
MP.dps = 60
KAPPAS = {"kappa_d": 2.2, "kappa_c": 1.1, "kappa_n": 0.4, "classes": C, "m": M}


def drawn(seed, *, rank=None, n=4):
    """Return a flow with generic kernel and classifier, of a rank below the full one in whole numbers, and a start."""
    rng = np.random.default_rng(seed)
    kappa_n = rng.uniform(0.1, 0.5)
    kappa_c = kappa_n + rng.uniform(0.2, 0.8)
    w = rng.normal(size=(C, n))
    if rank is not None:
        w = (rng.integers(-3, 4, (C, rank)) @ rng.integers(-3, 4, (rank, n))) / 8
    f = ls.FrozenHead(kappa_c + rng.uniform(0.4, 1.2), kappa_c, kappa_n, C, M, w)
    return f, f.State(rng.normal(size=(n, N)), rng.normal(size=C))


def evolved(b, t, v):
    """Return ``e^(-B t) v`` and its integral from 0 to t by exponentials, of ``[[-B, 1], [0, 0]]`` for singular B."""
    k = b.rows
    if abs(MP.det(b)) > 1e-12:
        left = MP.expm(-b * t) * v
        return left, MP.inverse(b) * (v - left)
    whole = MP.zeros(2 * k)
    whole[:k, :k], whole[:k, k:] = -b * t, MP.eye(k) * t
    e = MP.expm(whole)
    return e[:k, :k] * v, e[:k, k:] * v


def reference(f, t, z0):
    """Return H, b and the loss by residuals, part by part of the kernel, to sixty digits."""
    w, h, b, y = (MP.matrix(np.asarray(a, dtype=float).tolist()) for a in (f.w, z0.h, z0.b, Y))
    d, c, n = (MP.mpf(float(v)) for v in (f.kappa_d, f.kappa_c, f.kappa_n))
    mu_c = d - c + M * (c - n)
    r = w * h + b * MP.ones(1, N) - y
    means = r * y.T * y / M
    whole = r * MP.ones(N) / N
    t, gram, loss = MP.mpf(t), w * w.T, MP.mpf(0)
    for mu, more, part in ((d - c, 0, r - means), (mu_c, 0, means - whole), (mu_c + N * n, N, whole)):
        left, grown = evolved(mu * gram + more * MP.eye(C), t, part)
        h = h - mu * w.T * grown
        loss += MP.fsum(x * x for x in left) / 2
        if more:
            b = b - grown * MP.ones(N, 1)
    return h, b, loss


def array(a):
    return np.array(a.tolist(), dtype=float)


@pytest.mark.parametrize("seeds", many(20, 1))
@pytest.mark.parametrize("rank", [None, 0, 1, 2])
def test_within_1e_12_of_sixty_digits(rank, seeds):
    for seed in seeds:
        f, z0 = drawn(seed, rank=rank)
        for t in (1e-6, 1e-3, 0.1, 1.0, 10.0, 1e3):
            traj, (h, b, loss) = f(t, z0), reference(f, t, z0)
            for found, expected in ((traj["h"], array(h)), (traj["b"], array(b)[:, 0])):
                assert np.max(np.abs(found - expected)) <= 1e-12 * np.max(np.abs(expected)), (seed, t)
            if t <= 1.0:
                assert float(traj["loss"]) == pytest.approx(float(loss), rel=1e-12)


@pytest.mark.parametrize("rank", [0, 1, 2, None])
def test_at_infinity_all_is_learned_that_the_head_can_express(rank):
    for seed in range(5):
        f, z0 = drawn(seed, rank=rank)
        traj = f(np.inf, z0)
        u, s, _ = np.linalg.svd(f.w)
        kept = u[:, np.append(s, 0 * s)[:C] > 1e-12]
        gone = np.eye(C) - kept @ kept.T
        residual = f.residual(np, traj.state)
        start = f.residual(np, z0)
        start = start - start.mean(axis=1, keepdims=True)
        np.testing.assert_allclose(residual, gone @ start, atol=1e-12)
        still = np.eye(4) - np.linalg.pinv(f.w) @ f.w
        np.testing.assert_allclose(still @ traj["h"], still @ z0.h, atol=1e-13)
        # with the residual and the unseen, what is conserved fixes the end
        kept = (f.invariants(np, z)["mean_and_bias"] for z in (traj.state, z0))
        np.testing.assert_allclose(*kept, atol=1e-11)
        if rank is None:
            continue
        h, b, _ = reference(f, 1e4, z0)  # slowest mode of these whole numbers long gone
        np.testing.assert_allclose(traj["h"], array(h), atol=1e-12)
        np.testing.assert_allclose(traj["b"], array(b)[:, 0], atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_follows_the_network_with_its_head_held(seed):
    f, z0 = drawn(seed)
    times = np.array([0.05, 0.3, 1.0, 4.0])
    traj = f(times, z0)
    for k, (h, _, b) in enumerate(simulated(f, z0.h, np.asarray(f.w), z0.b, times, frozen=True)):
        np.testing.assert_allclose(traj["h"][k], h, atol=1e-10)
        np.testing.assert_allclose(traj["b"][k], b, atol=1e-10)


def test_a_simplex_head_collapses_class_means_but_not_what_it_does_not_see():
    # a fixed simplex head in as many features as classes: NC1 to NC4 up to the null space of the head
    w = np.eye(C) - 1 / C
    rng = np.random.default_rng(0)
    f = ls.FrozenHead(**KAPPAS, w=w)
    start = f.State(w @ rng.normal(size=(C, N)), np.full(C, 1 / C))
    traj = f([0.0, np.inf], start)
    names = ("nc1", "nc2_norms", "nc2_angles", "nc3", "nc4")
    assert max(float(traj[name][-1]) for name in names) < 1e-12
    assert min(float(traj[name][0]) for name in ("nc1", "nc2_angles", "nc3")) > 0.01
    away = f.State(rng.normal(size=(C, N)), np.full(C, 1 / C))
    assert float(f(np.inf, away)["nc1"]) > 0.1


def test_it_is_neural_collapse_at_the_first_instant():
    f, z0 = drawn(5)
    free = ls.NeuralCollapse(*(getattr(f, k) for k in KAPPAS))
    state = free.of(z0.h, f.w, z0.b)
    velocity = f.velocity(np, z0)
    np.testing.assert_allclose(free.velocity(np, state).b, velocity.b, atol=1e-13)
    np.testing.assert_allclose(f.loss(np, z0), free.loss(np, state), rtol=1e-14)
    for name, value in f.observables(np, z0).items():
        np.testing.assert_allclose(value, free.observables(np, state)[name], rtol=1e-12)
    np.testing.assert_allclose(-f.w.T @ f.residual(np, z0) @ kernel(f), velocity.h, atol=1e-13)


def test_backward_in_time_and_back():
    f, z0 = drawn(6)
    before = f(-0.2, z0).state
    again = f(0.2, before).state
    for a, b in zip(again, z0, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-11 * np.abs(before.h).max())


def test_array_api_strict_agrees():
    strict = pytest.importorskip("array_api_strict")
    f, z0 = ls.FrozenHead.example(np.random.default_rng(0))
    found = f([0.0, 0.5, np.inf], f.State(*(strict.asarray(v) for v in z0)))
    for name in ("h", "b", "loss", "nc3"):
        np.testing.assert_allclose(
            arithmetic.to_numpy(found[name]), f([0.0, 0.5, np.inf], z0)[name], rtol=1e-12, atol=1e-13
        )


@pytest.mark.parametrize("name", FROZEN)
@pytest.mark.quick(1)
def test_mutants_are_rejected_by_the_check_that_should_see_them(name):
    mutant = FROZEN[name]
    report = ls.verify(mutant.flow, mutant.z0, checks=["velocity", "residual", mutant.seen_by])
    assert mutant.seen_by in report.failed, str(report)


@pytest.mark.parametrize("seeds", many(17, 1))
def test_examples_are_proved(seeds):
    for seed in seeds:  # the first three are proved with all other flows
        example = ls.FrozenHead.example(np.random.default_rng(seed + 3))
        report = ls.verify(*example, checks=["residual", "semigroup", "along"])
        assert report.ok, str(report)


def test_bad_classifiers_and_starts_are_refused():
    with pytest.raises(ValueError, match=r"FrozenHead: w has 2 rows but needs 3 \(classifier, one row a class\)"):
        ls.FrozenHead(**KAPPAS, w=np.ones((2, 4)))
    with pytest.raises(ValueError, match=r"FrozenHead: kappa_c = 3 must be less than kappa_d = 2.2"):
        ls.FrozenHead(**KAPPAS | {"kappa_c": 3.0}, w=np.ones((3, 4)))
    f, z0 = drawn(0)
    with pytest.raises(ValueError, match=r"FrozenHead: h has 5 columns but needs 6 \(samples of all classes"):
        f(1.0, f.State(z0.h[:, :5], z0.b))
    with pytest.raises(ValueError, match=r"FrozenHead: h has shape \(3, 6\), so n = 3, but w has n = 4"):
        f(1.0, f.State(z0.h[:3], z0.b))
