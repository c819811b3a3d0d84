"""Modes of neural collapse on hidden units of their own, and scatter on its own: network, sixty digits, limits."""

import numpy as np
import pytest
from collapse_network import C, M, N, Y, assert_state, exact_apart, exact_set, flow, many, rates, simulated, weights_of
from mutants.collapse import EndOfTrainingForEver, end_of_training, seen_scatter
from selection import quick

import linsolve as ls
from linsolve import arithmetic

TIMES = [1e-6, 1e-3, 0.1, 1.0, 10.0, 1e3, np.inf]
KINDS = ["modes", "rest", "apart", "scatter", "wide"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.quick(5)
def test_closed_form_follows_the_network(seed, kind):
    f, h, w, b = weights_of(seed, kind)
    values = np.linalg.eigvalsh(f.imbalance_of(h, w))
    assert len(np.unique(np.round(values, 6))) >= 5  # far from two eigenvalues
    times = np.array([0.05, 0.4, 1.0, 3.0])
    states = f(times, f.of(h, w, b)).state
    for k, later in enumerate(simulated(f, h, w, b, times)):
        assert_state(type(states)(*(v[k] for v in states)), f.of(*later), 1e-9)


@pytest.mark.parametrize("seeds", many(20, 2))
@pytest.mark.parametrize("kind", ["none", "plus", "minus", "zero", "askew"])
@pytest.mark.quick(2)
def test_within_1e_12_of_sixty_digits(kind, seeds):
    for seed in seeds:
        f, at = exact_set(seed, kind)
        z0 = f.State(*(a.astype(float) for a in at(0)))
        for t in TIMES:
            for name, a, b in zip(z0._fields, f(t, z0).state, at(t), strict=True):
                error = float(np.max(np.abs(a - b)) / np.max(np.abs(b)))
                assert error <= 1e-12, (seed, t, name, error)


@pytest.mark.parametrize("seeds", many(20, 5))
@pytest.mark.exhaustive
def test_a_constant_mode_apart_from_modes_within_1e_12_of_sixty_digits(seeds):
    for seed in seeds:
        f, z0, path = exact_apart(seed)
        for t, exact in path:
            for name, a, b in zip(z0._fields, f(t, z0).state, exact, strict=True):
                error = float(np.max(np.abs(a - b)) / np.max(np.abs(b)))
                assert error <= 1e-12, (seed, t, name, error)


def test_sets_share_a_batch():
    f = flow()
    starts = []
    for kind in KINDS:
        g, h, w, b = weights_of(4, kind)
        starts.append((g, g.of(h, w, b)))
    kappas = {k: np.stack([getattr(g, k) for g, _ in starts]) for k in ("kappa_d", "kappa_c", "kappa_n")}
    z0 = f.State(*(np.stack(v) for v in zip(*(z for _, z in starts), strict=True)))
    together = flow(**kappas)([0.0, 0.7, np.inf], z0)
    for k, (g, z) in enumerate(starts):
        for a, b in zip(together.state, g([0.0, 0.7, np.inf], z).state, strict=True):
            np.testing.assert_allclose(a[:, k], b, rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", ["plus", "minus", "zero", "askew"])
def test_scatter_ends_as_its_imbalance_says(kind):
    # eq. (44) where it holds exactly: E = mu_s c c^T - D D^T is conserved, and D D^T tends to its negative part
    f, at = exact_set(3, kind)
    z0 = f.State(*(a.astype(float) for a in at(0)))
    mu_s, inside = float(rates(f)[0]), np.eye(N) - Y.T @ Y / M

    def within(z):
        return np.trace(inside @ z.gram_h @ inside)

    x, a = within(z0), z0.gram_w.sum() / C
    p = np.linalg.norm(z0.product.sum(axis=0) @ inside) / np.sqrt(C)
    gap = np.sqrt(max((mu_s * a + x) ** 2 - 4 * mu_s * p**2, 0.0))  # between the two eigenvalues of E
    end = within(f(np.inf, z0).state)
    assert end == pytest.approx((gap - (mu_s * a - x)) / 2, abs=2e-8 if kind == "zero" else 1e-13)
    assert (end > 0.01) == (kind in ("minus", "askew"))
    if kind == "zero":
        # algebraic: 2 m t |H2|^2 -> 1, which is 2 t |D|^2, D the scatter of all N samples
        misfits = [abs(2 * t * within(f(t, z0).state) - 1) for t in (1e3, 1e4)]
        assert misfits[1] < 1e-3
        assert misfits[0] / misfits[1] == pytest.approx(10, rel=0.05)
    else:
        # exponential: to nothing, or to the plateau, at twice the gap
        late = [within(f(k / gap, z0).state) - end for k in (5, 6)]
        assert np.log(late[0] / late[1]) == pytest.approx(2, rel=0.02)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.quick(1)
def test_array_api_strict_agrees(kind):
    strict = pytest.importorskip("array_api_strict")
    f, h, w, b = weights_of(1, kind)
    z0 = f.of(h, w, b)
    found = f([0.0, 0.5, np.inf], f.State(*(strict.asarray(v) for v in z0))).state
    for a, b in zip(found, f([0.0, 0.5, np.inf], z0).state, strict=True):
        assert type(a).__module__.startswith("array_api_strict")
        np.testing.assert_allclose(arithmetic.to_numpy(a), b, rtol=0, atol=1e-13)


def test_each_condition_names_what_is_violated_and_how_far():
    f, h, w, b = weights_of(2, "scatter")
    rng = np.random.default_rng(0)
    one = np.ones((C, 1)) / np.sqrt(C)
    inside = np.eye(N) - Y.T @ Y / M
    far = {
        "scatter within classes on shared hidden units": (1e-4 * rng.normal(size=h.shape) @ inside, 0 * w),
        "coupling of the constant mode": (0 * h, 1e-4 * one @ rng.normal(size=(1, 8))),
    }
    for name, (dh, dw) in far.items():
        found = f.conditions(np, f.of(h + dh, w + dw, b))
        assert 1e-6 < found[name] < 1e-2, found
        less = f.conditions(np, f.of(h + dh / 10, w + dw / 10, b))
        assert less[name] == pytest.approx(found[name] / 10, rel=0.05)
        with pytest.raises(ls.NotExact, match=rf"NeuralCollapse: {name} = .* must vanish"):
            f(1.0, f.of(h + dh, w + dw, b))


def test_modes_that_share_hidden_units_are_named():
    f, h, w, b = weights_of(2, "modes")
    tilted = w + 1e-4 * np.random.default_rng(0).normal(size=w.shape)
    tilted -= tilted.mean(axis=0)
    found = f.conditions(np, f.of(h, tilted, b))
    assert 1e-6 < found["coupling of the modes"] < 1e-2
    with pytest.raises(ls.NotExact, match=r"NeuralCollapse: coupling of the modes = .* must vanish"):
        f(1.0, f.of(h, tilted, b))


def test_scatter_seen_along_no_eigenvector_is_refused():
    f, h, w, b = weights_of(2, "wide")
    inside = h - h @ Y.T @ Y / M
    mean = w.mean(axis=0)
    # another scattered unit, which the average output does not see, takes part in what it does see
    other = inside @ inside.T @ mean
    other = np.linalg.svd(inside - np.outer(other, other) @ inside / (other @ other))[0][:, 0]
    turned = h + 0.1 * np.outer(other, mean @ inside)
    found = f.conditions(np, f.of(turned, w, b))
    assert found["scatter within classes on shared hidden units"] < 1e-14
    assert found["turning of the scatter within classes"] > 1e-5
    with pytest.raises(ls.NotExact, match=r"turning of the scatter within classes = .* must vanish"):
        f(1.0, f.of(turned, w, b))


def test_modes_at_rest_stay_at_rest():
    # a mode that has not started stays on its saddle in floats, too
    f, h, w, b = weights_of(0, "modes")
    q = np.linalg.svd(w)[0][:, :1]
    mode_w, mode_h = q @ q.T @ w, h @ Y.T @ q @ q.T @ Y / M
    end = f(np.inf, f.of(mode_h, mode_w, b)).state
    np.testing.assert_allclose(end.product[:, ::M], q @ q.T, atol=1e-13)


def test_scatter_alone_stays_alone():
    # class means and contrasts of outputs are zero to rounding only, and a saddle: nothing of it may grow
    f, rng = flow(), np.random.default_rng(1)
    q = np.linalg.qr(rng.normal(size=(5, 2)))[0].T
    d = rng.normal(size=N)
    h, w = np.outer(q[0] + q[1], d - d @ Y.T @ Y / M), np.ones((C, 1)) * q[:1]
    z0 = f.of(h, w, np.full(C, 1 / C))
    end = f(np.inf, z0).state
    assert 0 < np.abs(z0.gram_h @ Y.T).max() < 1e-15
    np.testing.assert_allclose(end.product, 0, atol=1e-13)
    np.testing.assert_allclose(end.gram_h @ Y.T, 0, atol=1e-14)
    assert end.gram_w == pytest.approx(np.full((C, C), end.gram_w[0, 0]), abs=1e-14)


@pytest.mark.parametrize("checks", quick([("velocity", "residual", "conditions", "dop853"), None], 1))
def test_scatter_that_the_average_sees_is_proved(checks):
    report = ls.verify(*seen_scatter(), checks=checks)
    assert report.ok, str(report)


def test_eq_44_holds_at_the_first_instant_only():
    # printed as what holds at the end of training: class means at R1 = 0 do not stay there
    f, z0 = end_of_training()
    y = np.repeat(np.eye(2), 2, axis=1)
    assert np.abs((z0.product + z0.b[:, None] - y) @ y.T).max() == 0
    wrong = EndOfTrainingForEver(**f.parameters())
    t = np.array([1e-3, 1e-2, 1.0])
    truth = ls.integrate(f, t, z0, rtol=1e-12).state
    off = [max(np.abs(a[k] - b[k]).max() for a, b in zip(wrong(t, z0).state, truth, strict=True)) for k in range(3)]
    assert off[1] / off[0] == pytest.approx(1000, rel=0.1)  # of third order in time
    assert off[2] > 0.03
    with pytest.raises(ls.NotExact, match="scatter within classes on shared hidden units"):
        f(1.0, z0)


def test_invariants_of_eqs_27_and_54_as_they_should_be():
    rng = np.random.default_rng(3)
    f = flow()
    h, w, b = 0.5 * rng.normal(size=(5, N)), 0.5 * rng.normal(size=(C, 5)), 0.3 * rng.normal(size=C)
    mu_s, mu_c, mu_g = rates(f)
    later = simulated(f, h, w, b, [0.5, 1.0])[-1]
    # (27) is conserved by the flow (20), not by (19), which conserves m E
    ends = [w.T @ w - h @ h.T / mu_s for h, w in ((h, w), later[:2])]
    assert np.abs(ends[1] - ends[0]).max() > 0.1
    e = f.imbalance_of(h, w)
    np.testing.assert_allclose(f.imbalance_of(*later[:2]), e, atol=1e-10)
    # (54), without scatter: no m in front of alpha
    means = h @ Y.T / M
    e, mean, alpha = f.imbalance_of(means @ Y, w), means.mean(axis=1), f.kappa_n * M / mu_g
    left = w.T @ w / M - means @ means.T / mu_c
    pull = alpha * C**2 / mu_c * np.outer(mean, mean)
    np.testing.assert_allclose(left, e - pull, atol=1e-14)
    assert np.abs(left - (e - M * pull)).max() > 0.003
