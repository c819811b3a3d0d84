"""Classes of unequal sizes: the flows of neural collapse against raw weights, at 50 digits, at their ends."""

import numpy as np
import pytest
from mutants.collapse import UNEQUAL, hadamard
from scipy.integrate import solve_ivp

import linsolve as ls
from linsolve import arithmetic
from linsolve.studies.collapse import GeneralBlocks, balanced_limit, follow

TIMES = np.array([0.1, 0.7, 2.5])
DRAWS = [range(2), pytest.param(range(2, 200), marks=pytest.mark.exhaustive)]
EXACT = {"rtol": 1e-13, "atol": 1e-15}


def drawn(seed, *, white=False):
    """Return a generator, class sizes that are not all equal, and a kernel; ``kappa_c = kappa_n`` if `white`."""
    rng = np.random.default_rng(seed)
    classes = int(rng.integers(2, 5))
    sizes = rng.integers(1, 5, classes)
    if len(set(sizes)) == 1:
        sizes[0] += 1
    kappa_n = rng.uniform(0, 0.5)
    kappa_c = kappa_n if white else kappa_n + rng.uniform(0.1, 0.8)
    return rng, sizes, (kappa_c + rng.uniform(0.4, 1.2), kappa_c, kappa_n)


def weights(rng, n, sizes, scale=0.6):
    return (
        scale * rng.normal(size=(n, sizes.sum())),
        scale * rng.normal(size=(len(sizes), n)),
        rng.normal(size=len(sizes)),
    )


def worst(found, expected):
    return max(np.max(np.abs(a - b)) for a, b in zip(found, expected, strict=True))


def simulated(sizes, features, gradient, start):
    """Return features, classifier and bias at TIMES, from weights under plain gradient flow."""
    cuts = np.cumsum([a.size for a in start])[:-1]

    def parts(flat):
        return [p.reshape(a.shape) for p, a in zip(np.split(flat, cuts), start, strict=True)]

    def rate(_, flat):
        return -np.concatenate([g.ravel() for g in gradient(*parts(flat))])

    first = np.concatenate([a.ravel() for a in start])
    path = solve_ivp(rate, (0, TIMES[-1]), first, "DOP853", TIMES, rtol=1e-13, atol=1e-15).y.T
    return [features(*parts(flat)) for flat in path]


def kernel(sizes, kappas):
    y = np.repeat(np.eye(len(sizes)), sizes, axis=1)
    return y, (kappas[0] - kappas[1]) * np.eye(sizes.sum()) + (kappas[1] - kappas[2]) * y.T @ y + kappas[2]


@pytest.mark.parametrize("seeds", DRAWS)
def test_neural_collapse_follows_the_raw_weights_from_any_start(seeds):
    for seed in seeds:
        rng, sizes, kappas = drawn(seed)
        # below full width, rounding of products would leave the bottleneck
        start = weights(rng, len(sizes) + int(rng.integers(0, 3)), sizes)
        flow = ls.NeuralCollapse(*kappas, len(sizes), sizes)
        found, expected = (
            ls.integrate(flow, TIMES, flow.of(*start), **EXACT),
            follow(ls.integrate, flow, TIMES, start, **EXACT),
        )
        assert worst(found.state, expected.state) <= 1e-11, seed


@pytest.mark.parametrize("seeds", DRAWS)
def test_the_closed_form_of_neural_collapse_follows_the_raw_weights(seeds):
    for seed in seeds:
        rng, sizes, kappas = drawn(seed, white=True)
        flow = ls.NeuralCollapse(*kappas, len(sizes), sizes)
        lam = rng.choice([0.0, 0.3, -0.3])
        start = flow.init(int(rng.integers(1, 7)), scale=0.6, imbalance=lam, rng=rng)
        e = np.abs(np.linalg.eigvalsh(flow.imbalance_of(*start[:2])))
        assert np.minimum(e, np.abs(e - abs(lam))).max() <= 1e-14
        assert flow(0.0, flow.of(*start))["nc1"] > 1e-6  # samples scatter within classes
        found, expected = flow(TIMES, flow.of(*start)), follow(ls.integrate, flow, TIMES, start, **EXACT)
        assert worst(found.state, expected.state) <= 1e-11, seed


@pytest.mark.parametrize("seeds", DRAWS)
def test_a_frozen_head_follows_the_raw_weights(seeds):
    for seed in seeds:
        rng, sizes, kappas = drawn(seed, white=seed % 5 == 0)
        h, w, b = weights(rng, int(rng.integers(1, 6)), sizes, 1.0)
        if seed % 3 == 0:
            w = np.outer(rng.integers(-3, 4, len(w)), rng.integers(-3, 4, w.shape[1])) / 4
        y, k = kernel(sizes, kappas)
        root = np.linalg.cholesky(k).T

        def gradient(v, b, w=w, y=y, root=root):
            r = w @ v @ root + b[:, None] - y
            return w.T @ r @ root.T, r.sum(axis=1)

        path = simulated(sizes, lambda v, b, root=root: (v @ root, b), gradient, [h @ np.linalg.inv(root), b])
        found = ls.FrozenHead(*kappas, len(sizes), sizes, w)(TIMES, (h, b))
        for at, state in enumerate(path):
            assert worst((found["h"][at], found["b"][at]), state) <= 1e-11, seed


@pytest.mark.parametrize("seeds", DRAWS)
@pytest.mark.exhaustive
def test_matrix_blocks_follow_the_raw_weights(seeds):
    for seed in seeds:
        rng, sizes, _ = drawn(seed)
        n = int(rng.integers(1, 5))
        h, w, b = weights(rng, n, sizes)
        roots = rng.normal(size=(3, n, n)) / 6 + np.eye(n)
        y, one = np.repeat(np.eye(len(sizes)), sizes, axis=1), np.ones((1, sizes.sum()))

        def features(v1, v2, v3, w, b, roots=roots, y=y, one=one):
            return roots[0] @ v1 + roots[1] @ v2 @ y + roots[2] @ v3 @ one, w, b

        def gradient(v1, v2, v3, w, b, features=features, roots=roots, y=y, one=one):
            h = features(v1, v2, v3, w, b)[0]
            r = w @ h + b[:, None] - y
            pulled = [a.T @ w.T @ r for a in roots]
            return pulled[0], pulled[1] @ y.T, pulled[2] @ one.T, r @ h.T, r.sum(axis=1)

        v2, v3 = rng.normal(size=(n, len(sizes))) / 2, rng.normal(size=(n, 1)) / 2
        v1 = np.linalg.solve(roots[0], h - roots[1] @ v2 @ y - roots[2] @ v3 @ one)
        flow = GeneralBlocks(*(a @ a.T for a in roots), m=sizes)
        found = ls.integrate(flow, TIMES, (h, w, b), **EXACT)
        for at, state in enumerate(simulated(sizes, features, gradient, [v1, v2, v3, w, b])):
            assert worst((found["h"][at], found["w"][at], found["b"][at]), state) <= 1e-11, seed
        assert np.ptp(found["trace"]) <= 1e-10 * abs(found["trace"][0])


# proof


def frozen(seed, w=None):
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(3, 4)) if w is None else w
    flow = ls.FrozenHead(2.0, 1.0, 0.4, 3, [3, 1, 2], w)
    return flow, flow.State(rng.normal(size=(w.shape[1], 6)), rng.normal(size=3))


def blocks():
    flow, z0 = GeneralBlocks.example(np.random.default_rng(0))
    return GeneralBlocks(flow.A_d, flow.A_c, flow.A_n, flow.c_1, flow.c_2, m=[3, 1, 2]), z0


PROVED = {
    "white features": hadamard,
    "white features, one feature": lambda: hadamard(1),
    "frozen head": lambda: frozen(0),
    "frozen head of rank one": lambda: frozen(1, np.outer([1, 2, -1], [1.0, -1])),
    "frozen head of more classes than features": lambda: frozen(2, np.array([[1.0, 0.5], [0.25, -1], [2, 1]])),
}


@pytest.mark.parametrize("name", PROVED)
@pytest.mark.quick(1)
def test_it_is_proved_from_the_loss(name):
    report = ls.verify(*PROVED[name]())
    assert report.ok, str(report)


def test_velocity_and_rates_of_matrix_blocks_are_proved():
    report = ls.verify(*blocks(), checks=["velocity", "rates"])
    assert report.ok, str(report)


@pytest.mark.parametrize("name", UNEQUAL)
@pytest.mark.quick(1)
def test_mutants_are_rejected_by_the_check_that_should_see_them(name):
    mutant = UNEQUAL[name]
    assert mutant.seen_by in ls.verify(mutant.flow, mutant.z0, checks=["velocity", "residual", mutant.seen_by]).failed


# limits


def test_equal_sizes_given_one_by_one_are_one_number():
    one, many = (ls.NeuralCollapse(2.0, 1.0, 0.5, 3, m) for m in (2, [2, 2, 2]))
    start = one.of(*one.init(5, scale=0.3, rng=0))
    for a, b in zip(one([0.3, np.inf], start).state, many([0.3, np.inf], start).state, strict=True):
        np.testing.assert_array_equal(a, b)


def test_nearly_white_kernels_are_continuous():
    # the closed form at kappa_c = kappa_n is the limit of the integration at kappa_c -> kappa_n
    white, near = (ls.NeuralCollapse(2.0, 0.5 + small, 0.5, 3, [3, 1, 2]) for small in (0.0, 1e-7))
    start = white.of(*white.init(5, scale=0.5, rng=1))
    for a, b in zip(white(TIMES, start).state, ls.integrate(near, TIMES, start, rtol=1e-12).state, strict=True):
        np.testing.assert_allclose(a, b, atol=3e-6)


def test_the_loss_at_infinity_is_zero_and_the_limit_is_that_of_balanced_weights():
    flow = ls.NeuralCollapse(2.0, 0.5, 0.5, 3, [3, 1, 2])
    start = flow.of(*flow.init(5, scale=0.5, rng=3))
    end = flow(np.inf, start).state
    assert flow.loss(np, end) <= 1e-24
    for a, b in zip(end, balanced_limit(flow, [1 / 2, 1 / 6, 1 / 3]), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_balanced_weights_end_at_the_corrected_limit_for_any_kernel():
    # E = 0 and no scatter: W^T W = H K^-1 H^T at the start, and (29), (60) at the end, whatever the class sizes
    rng, sizes = np.random.default_rng(4), np.array([3, 1, 2])
    flow = ls.NeuralCollapse(2.0, 1.0, 0.5, 3, sizes)
    values, vectors = np.linalg.eigh(flow.kernel_of_classes(np))
    w = 0.5 * rng.normal(size=(3, 5))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    means = w.T @ turn @ (vectors * np.sqrt(values)) @ vectors.T / np.sqrt(sizes)
    weights = np.repeat(means, sizes, axis=1), w, np.zeros(3)
    np.testing.assert_allclose(flow.imbalance_of(*weights[:2]), 0, atol=1e-14)
    later = follow(ls.integrate, flow, [60.0], weights, rtol=1e-12)
    assert later["loss"][-1] <= 1e-16
    for a, b in zip(later.state, balanced_limit(flow, later["b"][-1]), strict=True):
        np.testing.assert_allclose(a[-1], b, atol=1e-7)


def test_a_frozen_head_learns_all_that_it_can_express():
    flow, z0 = frozen(3)
    end = flow(np.inf, z0)
    np.testing.assert_allclose(flow.residual(np, end.state), 0, atol=1e-12)
    late = flow(1e3, z0).state
    assert worst(late, end.state) <= 1e-12
    strict = pytest.importorskip("array_api_strict")
    found = flow([0.0, 0.5, np.inf], flow.State(*(strict.asarray(v) for v in z0)))
    for name in ("h", "b", "loss"):
        np.testing.assert_allclose(arithmetic.to_numpy(found[name]), flow([0.0, 0.5, np.inf], z0)[name], atol=1e-13)


# refused


def test_other_kernels_are_refused_by_the_closed_form():
    flow, white = (ls.NeuralCollapse(2.0, c, 0.5, 3, [3, 1, 2]) for c in (1.0, 0.5))
    h, w, b = white.init(5, scale=0.5, rng=1)
    with pytest.raises(ls.NotExact, match=r"kappa_c - kappa_n \(classes are of unequal size\) = 0.6 must .* integrate"):
        flow(1.0, flow.of(h, w, b))
    with pytest.raises(ls.NotExact, match=r"bias off the class frequencies = .* must vanish"):
        white(1.0, white.of(h, w, np.full(3, 1 / 3)))
    with pytest.raises(ls.NotExact, match=r"mean of the features = .* must vanish"):
        white(1.0, white.of(h + 0.1, w, b))
    with pytest.raises(ls.NotExact, match=r"distance of the imbalance from a solvable one = .* must vanish"):
        white(1.0, white.of(h, w + 0.1 * np.eye(3, 5), b))
    with pytest.raises(
        ValueError, match=r"NeuralCollapse.init: m = \[3, 1, 2\] must be one number .* kappa_n = kappa_c"
    ):
        flow.init(5, scale=0.5)


BAD = {
    "too few": ([3, 1], r"m has shape \(2,\) but must be one number or 3 \(samples of each class\)"),
    "an empty class": ([3, 0, 1], r"m = 0.0 at index \(1,\) must lie in \[1, inf\) \(samples of each class\)"),
    "half a sample": ([3, 1, 1.5], r"m = 1.5 at index \(2,\) must be a whole number"),
    "a batch": ([[3, 1, 2], [3, 2, 1]], r"m = 1 and 2 must be the same over a batch \(samples of class 1\)"),
    "beyond memory": ([1e9, 1e9, 1], r"sum of m = .* more than the memory; reduce it"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_sizes_are_refused(name):
    sizes, message = BAD[name]
    with pytest.raises(ValueError, match="NeuralCollapse: " + message):
        ls.NeuralCollapse(2.0, 1.0, 0.5, 3, sizes)


def test_starts_of_other_sizes_and_functions_of_equal_sizes_are_refused():
    flow = ls.NeuralCollapse(2.0, 0.5, 0.5, 3, [3, 1, 2])
    h, w, b = flow.init(5, scale=0.5, rng=1)

    def general(sizes):
        return GeneralBlocks(*[np.eye(5)] * 3, m=sizes)

    for call, message in (
        (lambda: flow.of(h[:, :5], w, b), r"h has 5 columns but needs 6 .* m = \[3, 1, 2\]"),
        (lambda: flow.rates_of_features(np), r"rates_of_features: m = \[3, 1, 2\] must be one number"),
        (lambda: flow.equal_bias_limit(0.1), r"equal_bias_limit: m = \[3, 1, 2\] must be one .*; use .*balanced_limit"),
        (lambda: ls.collapse.aligned_limit(flow, [0.0, 0.1]), r"aligned_limit: m = \[3, 1, 2\] must be one number"),
        (lambda: ls.integrate(general([3, 1, 1]), 1.0, (h, w, b)), r"GeneralBlocks: h has 6 columns but needs 5"),
        (lambda: general([3, 0, 3]), r"m = \[3, 0, 3\] must be at least 1 for each class"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            call()
