"""Edges of the flows of neural collapse: impossible states, late times, extreme sizes."""

import numpy as np
import pytest
from collapse_network import C, M, N, Y, assert_state, flow

import linsolve as ls

KAPPAS = {"kappa_d": 2.2, "kappa_c": 1.1, "kappa_n": 0.4}


def state(seed=0, scale=1.0, f=None):
    f = f or flow()
    h, w, b = f.init(5, scale=0.4, rng=seed)
    return f.of(scale * h, scale * w, b)


IMPOSSIBLE = {
    "product beyond the Gram matrices": (lambda z: z._replace(product=100 * z.product), "product"),
    "product alone": (lambda z: z._replace(gram_w=0 * z.gram_w, gram_h=0 * z.gram_h), "product"),
    "negative features": (lambda z: z._replace(gram_h=-z.gram_h), "gram_h"),
    "negative classifier": (lambda z: z._replace(gram_w=-z.gram_w), "gram_w"),
    "asymmetric": (lambda z: z._replace(gram_h=z.gram_h + 1e-3 * np.triu(np.ones((N, N)), 1)), "gram_h"),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_states_that_no_weights_have_are_refused(name, scale):
    change, field = IMPOSSIBLE[name]
    f, z = flow(), state(scale=1.0)
    z = z._replace(**{k: scale * getattr(z, k) for k in ("product", "gram_w", "gram_h")})
    wrong = change(z) if name != "asymmetric" else change(z)._replace(gram_h=scale * change(state()).gram_h)
    both = type(z)(*(np.stack([a, b]) for a, b in zip(z, wrong, strict=True)))
    for start in (wrong, both):
        for route in (lambda start: f(1.0, start), lambda start: ls.integrate(f, 1.0, start)):
            with pytest.raises(ValueError, match=rf"^NeuralCollapse: {field} = .*no weights have this state; compute"):
                route(start)


def test_states_along_a_trajectory_are_possible():
    f, z = flow(), state()
    for t in (1e-3, 0.5, 3.0, np.inf):
        later = f(t, z).state
        assert_state(f(0.3, later).state, f(0.3 + t, z).state, 1e-9)
    integrated = ls.integrate(f, 0.7, z, rtol=1e-10).state
    assert_state(ls.integrate(f, 0.5, integrated).state, f(1.2, z).state, 1e-7)


@pytest.mark.parametrize(
    ("kappas", "classes", "m"),
    [((1e6, 1e5, 1e4), 3, 2), ((1e6, 1e5, 1e4), 8, 4), ((2.0, 1.0, 0.5), 3, 2), ((2e-6, 1e-6, 0.0), 3, 2)],
)
def test_late_times_are_the_limit(kappas, classes, m):
    f, count = ls.NeuralCollapse(*kappas, classes, m), classes * m
    alternating = np.tile([1.0, -1.0], count // 2)
    starts = [
        f.of(*f.init(classes + 2, scale=0.3, rng=0)),
        f.of(np.zeros((2, count)), np.zeros((classes, 2)), np.zeros(classes)),
        f.of(np.ones((1, count)), np.ones((classes, 1)), np.zeros(classes)),
        f.of(0.3 * alternating[None], np.full((classes, 1), 0.2), np.full(classes, 1 / classes)),
    ]
    for z in starts:
        end = f(np.inf, z).state
        together = f([0.0, 1.0, 1e290, 1e297, 1e300, 1e305, 1.7e308], z).state
        for k in range(2, 7):
            assert_state(type(z)(*(v[k] for v in together)), end, 1e-13)


@pytest.mark.parametrize(
    "w", [np.eye(2), np.zeros((2, 2)), [[1.0, 0.0], [-1.0, 0.0]], [[1.0], [2.0]], 1e100 * np.eye(2)]
)
def test_a_frozen_head_at_late_times(w):
    f, w = ls.FrozenHead(**KAPPAS, classes=2, m=2, w=w), np.asarray(w)
    z = f.State(np.ones((w.shape[1], 4)), np.array([0.1, 0.0]))
    for t in (1e297, 1e300, 1.7e308):
        assert_state(f(t, z).state, f(np.inf, z).state, 1e-13)


@pytest.mark.parametrize("cls", [ls.NeuralCollapse, ls.FrozenHead])
@pytest.mark.parametrize(
    ("name", "sizes"), [("m", (2, 1e308)), ("m", (2, 1e20)), ("classes", (1e20, 2)), ("classes", (1e7, 1e5))]
)
def test_sizes_beyond_memory_are_refused(cls, name, sizes):
    more = {"w": np.eye(2)} if cls is ls.FrozenHead else {}
    with pytest.raises(ValueError, match=rf"^{cls.__name__}: {name} = .* more than the memory; reduce it"):
        cls(**KAPPAS, classes=sizes[0], m=sizes[1], **more)


@pytest.mark.parametrize("scale", [1e-150, 1e-100, 1e-30])
def test_tiny_starts_are_followed(scale):
    f, z = flow(), state()
    tiny = z._replace(**{k: scale * scale * getattr(z, k) for k in ("product", "gram_w", "gram_h")})
    early = f(1e-3, tiny).state
    assert 0 < np.abs(early.product).max() < 1e3 * scale**2
    end = f(np.inf, z).state
    assert_state(f(np.inf, tiny).state, end, 1e-9)


def test_weights_and_states_out_of_range_are_named():
    f, (h, w, b) = flow(), flow().init(5, scale=0.4, rng=0)
    with pytest.raises(OverflowError, match=r"NeuralCollapse.of: h = .* leaves the range of doubles when squared"):
        f.of(1e160 * h, w, b)
    with pytest.raises(OverflowError, match=r"NeuralCollapse.of: w = .* leaves the range of doubles when squared"):
        f.of(h, 1e160 * w, b)
    with pytest.raises(ValueError, match=r"NeuralCollapse: gram_h = .* must be 0 or at least 2.23e-308"):
        f(1.0, f.of(1e-160 * h, 1e-160 * w, b))


def test_one_feature_one_sample_two_classes():
    f = ls.NeuralCollapse(**KAPPAS, classes=2, m=1)
    z = f.of([[0.3, -0.3]], [[0.2], [-0.2]], [0.5, 0.5])
    truth = ls.integrate(f, [0.5, 2.0], z, rtol=1e-11).state
    for a, b in zip(f([0.5, 2.0], z).state, truth, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
    assert C * M == N == Y.shape[1]


def test_imbalance_of_weights_whose_squares_overflow_is_refused_by_name():
    h, w, _ = ls.NeuralCollapse(2.0, 1.0, 0.5, 3, 4).init(4, scale=0.3, rng=0)
    with pytest.raises(OverflowError, match=r"NeuralCollapse.imbalance_of: h of magnitude"):
        ls.NeuralCollapse(2.0, 1.0, 0.5, 3, 4).imbalance_of(1e200 * h, w)
