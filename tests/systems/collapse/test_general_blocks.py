"""Kernels of matrix blocks against the network that realizes them, and against the signs that are printed."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import linsolve as ls
from linsolve.studies.collapse import GeneralBlocks

C, M, N, FEATURES = 3, 2, 6, 4
Y = np.repeat(np.eye(C), M, axis=1)


def example(seed=0):
    return GeneralBlocks.example(np.random.default_rng(seed))


def root(a):
    value, vector = np.linalg.eigh(a)
    return vector * np.sqrt(np.maximum(value, 0)) @ vector.T


class Realized:
    """The network ``h(x_i) = A_d^(1/2) V1 e_i + A_c^(1/2) V2 e_c(i) + A_n^(1/2) v3`` with W and b, in its weights."""

    def __init__(self, flow, z, rng):
        self.roots = [root(a) for a in (flow.A_d, flow.A_c, flow.A_n)]
        v2, v3 = 0.3 * rng.normal(size=(FEATURES, C)), 0.3 * rng.normal(size=(FEATURES, 1))
        v1 = np.linalg.solve(self.roots[0], z.h - self.roots[1] @ v2 @ Y - self.roots[2] @ v3)
        self.start = [v1, v2, v3, z.w, z.b]

    def features(self, v1, v2, v3):
        return self.roots[0] @ v1 + self.roots[1] @ v2 @ Y + self.roots[2] @ v3

    def gradient(self, v1, v2, v3, w, b):
        h = self.features(v1, v2, v3)
        r = w @ h + b[:, None] - Y
        back = [a @ w.T @ r for a in self.roots]
        return [back[0], back[1] @ Y.T, back[2].sum(axis=1, keepdims=True), r @ h.T, r.sum(axis=1)]

    def followed(self, times):
        cuts = np.cumsum([v.size for v in self.start])[:-1]

        def parts(a):
            return [p.reshape(v.shape) for p, v in zip(np.split(a, cuts), self.start, strict=True)]

        def rate(_, a):
            return -np.concatenate([g.ravel() for g in self.gradient(*parts(a))])

        start = np.concatenate([v.ravel() for v in self.start])
        path = solve_ivp(rate, (0, times[-1]), start, "DOP853", times, rtol=1e-12, atol=1e-14).y.T
        return [parts(a) for a in path]


@pytest.mark.parametrize("seed", range(3))
def test_velocity_and_rate_of_e_are_proved_from_the_loss(seed):
    report = ls.verify(*example(seed), checks=["velocity", "rates"])
    assert report.ok, str(report)


class PrintedSigns(GeneralBlocks):
    """Eq. (72) as printed: ``H' = -A_d W^T R + m A_c W^T R_class + N A_n W^T R_global``."""

    classes, whole = True, True

    def velocity(self, xp, z):
        v, y = super().velocity(xp, z), self._members(xp, z)
        pulled = xp.matrix_transpose(z.w) @ self.residual(xp, z)
        h = v.h + 2 * (self.A_c @ pulled @ xp.matrix_transpose(y) @ y) if self.classes else v.h
        return v._replace(h=h + 2 * (self.A_n @ xp.sum(pulled, axis=-1, keepdims=True)) if self.whole else h)


class SignOfTheClassTerm(PrintedSigns):
    whole = False


class SignOfTheGlobalTerm(PrintedSigns):
    classes = False


class Antisymmetric(GeneralBlocks):
    """Eqs. (77), (78) as printed: minus the transpose, although E is symmetric."""

    def rates(self, xp, z):
        half = self._half_rate(xp, z)
        return {"imbalance": half - xp.matrix_transpose(half)}


class WithoutTheWhole(GeneralBlocks):
    """Eqs. (77), (78) without the term of ``A_n``."""

    def rates(self, xp, z):
        other = type(self)(self.A_d, self.A_c, 0 * self.A_n, self.c_1, self.c_2)
        return super(WithoutTheWhole, other.cast(xp)).rates(xp, z)


@pytest.mark.parametrize(
    ("mutant", "seen_by"),
    [
        (PrintedSigns, "velocity"), (SignOfTheClassTerm, "velocity"), (SignOfTheGlobalTerm, "velocity"),
        (Antisymmetric, "rates"), (WithoutTheWhole, "rates"),
    ],
)  # fmt: skip
def test_the_printed_signs_are_rejected(mutant, seen_by):
    flow, z0 = example()
    assert seen_by in ls.verify(mutant(**flow.parameters()), z0, checks=["velocity", "rates"]).failed


@pytest.mark.parametrize("seed", range(3))
def test_follows_the_network_that_realizes_it(seed):
    flow, z0 = example(seed)
    network, times = Realized(flow, z0, np.random.default_rng(seed + 9)), np.array([0.1, 0.7, 3.0])
    traj = ls.integrate(flow, times, z0, rtol=1e-12)
    for k, (v1, v2, v3, w, b) in enumerate(network.followed(times)):
        np.testing.assert_allclose(traj["h"][k], network.features(v1, v2, v3), atol=1e-10)
        np.testing.assert_allclose(traj["w"][k], w, atol=1e-10)
        np.testing.assert_allclose(traj["b"][k], b, atol=1e-10)
        # what the features do not say, how they are shared between V1, V2 and v3, is conserved apart
        np.testing.assert_allclose(traj["trace"][k], flow.invariants(np, z0)["trace"], atol=1e-9)
    assert np.linalg.norm(traj["h"][-1] - z0.h) > 0.1


def test_a_step_is_one_of_gradient_descent_on_the_weights():
    flow, z0 = example(1)
    network = Realized(flow, z0, np.random.default_rng(3))
    v1, v2, v3, w, b = (a - 0.05 * g for a, g in zip(network.start, network.gradient(*network.start), strict=True))
    stepped = flow.step(np, z0, 0.05)
    for found, expected in zip(stepped, (network.features(v1, v2, v3), w, b), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-13)


def test_multiples_of_the_identity_are_neural_collapse():
    own, mate, other = 2.2, 1.1, 0.4
    one, z = np.eye(FEATURES), example()[1]
    flow = GeneralBlocks((own - mate) * one, (mate - other) * one, other * one)
    scalar = ls.NeuralCollapse(own, mate, other, C, M)
    times = [0.3, 2.0]
    general, special = ls.integrate(flow, times, z), ls.integrate(scalar, times, scalar.of(*z))
    found = scalar.of(general["h"], general["w"], general["b"])
    for a, b in zip(found, special.state, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-8)


def test_e_is_conserved_with_the_coefficients_of_eq_79_put_right():
    own, mate, other = 2.2, 1.1, 0.4
    one, z = np.eye(FEATURES), example()[1]
    means = z.h @ Y.T / M
    z = z._replace(h=z.h - means.mean(axis=1, keepdims=True), b=np.full(C, 1 / C))
    blocks = (own - mate) * one, (mate - other) * one, other * one
    sample, classes = own - mate, own - mate + M * (mate - other)
    right = GeneralBlocks(*blocks, M / classes, M / sample)
    e = ls.integrate(right, [0.0, 0.5, 3.0], z, rtol=1e-12)["imbalance"]
    np.testing.assert_allclose(e[1:], np.stack([e[0]] * 2), atol=1e-10)
    assert np.abs(right.rates(np, z)["imbalance"]).max() < 1e-14
    printed = GeneralBlocks(*blocks, M / (own + M * mate), M / own)  # kappa_c, kappa_d in place of their differences
    assert np.abs(printed.rates(np, z)["imbalance"]).max() > 0.01
    # a mean of the features breaks it, although the trace of the whole is kept
    moved = z._replace(h=z.h + 0.3)
    e = ls.integrate(right, [0.0, 3.0], moved)["imbalance"]
    assert np.abs(e[1] - e[0]).max() > 0.01


def test_a_singular_kernel_leaves_features_where_they_are():
    flow, z = example()
    thin = np.diag([1.0, 0.5, 0.0, 0.0])
    flow = GeneralBlocks(thin, thin, thin)
    traj = ls.integrate(flow, [0.0, 2.0], z)
    np.testing.assert_array_equal(traj["h"][1, 2:], z.h[2:])
    assert np.abs(traj["h"][1, :2] - z.h[:2]).max() > 0.1
    assert flow.invariants(np, z) == {}
    with pytest.raises(KeyError, match="trace"):
        traj["trace"]


def test_there_is_no_closed_form():
    flow, z = example()
    with pytest.raises(ls.NotExact, match=r"GeneralBlocks: no closed form .* integrate\(flow, t, z0\)"):
        flow(1.0, z)


def test_bad_input_is_refused():
    one, z = np.eye(FEATURES), example()[1]
    skew = one + np.triu(np.ones((FEATURES, FEATURES)), 1)
    for blocks, message in (
        ((skew, one, one), r"A_d - A_d\^T = 1 must vanish"),
        ((one, -one, one), r"A_c has the eigenvalue -1, which must not be negative"),
        ((one, one, np.eye(3)), r"A_n has shape \(3, 3\), so n = 3, but A_d has n = 4"),
    ):
        with pytest.raises(ValueError, match="GeneralBlocks: " + message):
            GeneralBlocks(*blocks)
    with pytest.raises(ValueError, match="h has 5 columns and w has 3 rows but samples must be a multiple"):
        ls.integrate(GeneralBlocks(one, one, one), 1.0, z._replace(h=z.h[:, :5]))
