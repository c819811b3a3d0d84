"""Limit and final rates of neural collapse, predicted without integration."""

import numpy as np
import pytest
from selection import quick

import linsolve as ls
from linsolve.studies.collapse import aligned_limit, balanced_limit, collapse
from linsolve.studies.collapse.starts import draw
from linsolve.systems.collapse.limits import fitted

METRICS = ("nc1", "nc2_norms", "nc2_angles", "nc3", "nc4")


def flow(classes=3, m=4, kappas=(2.0, 1.0, 0.5)):
    return ls.NeuralCollapse(*kappas, classes, m)


def drawn(seed):
    """Return a flow of random kernels and sizes."""
    rng = np.random.default_rng(seed)
    n = rng.uniform(0, 0.8)
    c = n + rng.uniform(0, 1)
    return flow(int(rng.integers(2, 9)), int(rng.integers(1, 6)), (c + rng.uniform(0.3, 1.5), c, n))


def numbers(f):
    m, (sample, middle, large) = int(f.m), (float(v) for v in f.rates_of_features(np))
    return m, sample, middle, large


def simplex(f):
    classes, m, middle = int(f.classes), int(f.m), float(f.rates_of_features(np)[1])
    return np.sqrt(m / middle) * (np.eye(classes) - 1 / classes)


# Done when: E = 0 collapses


@pytest.mark.parametrize("seed", quick(range(20), 4))
def test_random_balanced_starts_collapse_in_closed_form(seed):
    f = drawn(seed)
    weights = draw(f, "balanced", int(f.classes) + seed % 3, 0.3, 0.0, None if seed % 2 else 0.4, seed)
    np.testing.assert_allclose(f.imbalance_of(*weights[:2]), 0, atol=1e-13)
    z0 = f.of(*weights)
    end = f(np.inf, z0)
    assert max(float(end[name]) for name in METRICS) < 1e-8
    np.testing.assert_allclose(end["gram_w"], simplex(f), atol=1e-8)
    assert float(end["loss"]) < 1e-15
    if int(f.classes) > 2:
        assert f.observables(np, z0)["nc2_angles"] > 0.01


@pytest.mark.parametrize(("seed", "kind", "bias"), [(3, "balanced", None), (4, "scatter", 0.1), (5, "scatter", 0.3)])
def test_random_balanced_starts_collapse_by_integration(seed, kind, bias):
    f = flow()
    weights = draw(f, kind, 5, 0.3, 0.0, bias, seed)
    np.testing.assert_allclose(f.imbalance_of(*weights[:2]), 0, atol=1e-13)
    traj = ls.integrate(f, [0.0, 30.0], f.of(*weights), rtol=1e-11)
    assert max(float(traj[name][-1]) for name in METRICS) < 1e-8
    np.testing.assert_allclose(traj["gram_w"][-1], simplex(f), atol=1e-8)
    assert (traj["nc1"][0] > 0.01) == (kind == "scatter")


# and others do not


@pytest.mark.parametrize("imbalance", [0.05, 0.5, 2.0])
def test_aligned_starts_end_with_the_spread_of_their_modes(imbalance):
    f = flow(4)
    h, w, b = draw(f, "aligned", 6, 0.3, imbalance, None, 0)
    epsilon = np.linspace(-imbalance, imbalance, 3)
    ww, hh = aligned_limit(f, epsilon)
    np.testing.assert_allclose(ww * hh, 1, rtol=1e-14)
    m, _, middle, _ = numbers(f)
    np.testing.assert_allclose(ww / m - hh / middle, epsilon, atol=1e-13)
    traj = ls.integrate(f, [0.0, 12.0], f.of(h, w, b), rtol=1e-11)
    np.testing.assert_allclose(np.sort(np.linalg.eigvalsh(traj["gram_w"][-1]))[1:], np.sort(ww), rtol=1e-8)
    assert float(traj["nc3"][-1]) == pytest.approx(1 - 3 / np.sqrt(ww.sum() * hh.sum()), rel=1e-6)
    assert traj["loss"][-1] < 1e-20
    assert min(traj["nc2_angles"][-1], traj["nc3"][-1]) > 1e-3
    # class means: the modes' lengths on their directions, so NC2 follows from hh alone
    means = traj["gram_h"][-1][:: int(f.m), :: int(f.m)]
    modes = np.linalg.svd(w)[0][:, :3]
    lengths = aligned_limit(f, np.diag(np.linalg.svd(w)[2][:3] @ f.imbalance_of(h, w) @ np.linalg.svd(w)[2][:3].T))[1]
    np.testing.assert_allclose(means, modes * lengths @ modes.T, atol=1e-8)


def test_equal_imbalances_keep_the_simplex():
    f = flow(4)
    ww, hh = aligned_limit(f, np.full(3, 0.7))
    assert 1 - 3 / np.sqrt(ww.sum() * hh.sum()) == pytest.approx(0, abs=1e-15)


@pytest.mark.exhaustive
def test_the_limit_is_no_function_of_imbalance_and_bias():
    f, rng = flow(), np.random.default_rng(2)
    y = np.repeat(np.eye(3), 4, axis=1)
    means = rng.normal(size=(5, 3))
    h, w, b = (means - means.mean(axis=1, keepdims=True)) @ y, rng.normal(size=(3, 5)), np.full(3, 1 / 3)
    turned = np.linalg.qr(rng.normal(size=(3, 3)))[0] @ w
    np.testing.assert_allclose(f.imbalance_of(h, w), f.imbalance_of(h, turned), atol=1e-14)
    ends = [ls.integrate(f, 15.0, f.of(h, each, b), rtol=1e-9) for each in (w, turned)]
    for end in ends:
        assert end["loss"] < 1e-12
        np.testing.assert_allclose(end["b"], 1 / 3, atol=1e-12)  # never moves
    assert np.linalg.norm(ends[0]["gram_w"] - ends[1]["gram_w"]) > 0.5


@pytest.mark.parametrize("scale", [0.5, *(pytest.param(k, marks=pytest.mark.exhaustive) for k in (0.1, 1.0))])
def test_generic_starts_do_not_collapse(scale):
    f = flow(m=3)
    end = ls.integrate(f, 60.0, f.of(*draw(f, "generic", 5, scale, 0.0, None, 1)), rtol=1e-9)
    assert end["nc1"] > 1e-3
    assert end["nc3"] > 1e-4
    assert end["nc2_angles"] > 1e-2


@pytest.mark.exhaustive
def test_a_positive_imbalance_loses_scatter_but_keeps_no_simplex():
    f = flow()
    h, w, b = draw(f, "scatter", 5, 0.4, 0.0, None, 1)
    assert np.linalg.eigvalsh(f.imbalance_of(h, 1.5 * w)).min() > -1e-14
    end = ls.integrate(f, 200.0, f.of(h, 1.5 * w, b), rtol=1e-9)
    assert end["nc1"] < 1e-8
    assert end["nc2_angles"] > 0.01
    assert end["nc3"] > 0.01


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.quick(1)
def test_other_biases_end_where_eqs_29_and_60_say(seed):
    f, rng = flow(), np.random.default_rng(seed)
    m, _, middle, large = numbers(f)
    w = 0.5 * rng.normal(size=(3, 5))
    frame = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    mean = np.full((3, 3), 1 / 3)
    means = w.T @ frame @ (np.sqrt(middle) * (np.eye(3) - mean) + np.sqrt(large) * mean) / np.sqrt(m)
    h = means @ np.repeat(np.eye(3), 4, axis=1)
    np.testing.assert_allclose(f.imbalance_of(h, w), 0, atol=1e-14)
    end = ls.integrate(f, 80.0, f.of(h, w, 0.3 * rng.normal(size=3)), rtol=1e-11)
    assert end["loss"] < 1e-16
    for a, b in zip(end.state, balanced_limit(f, end["b"]), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-7)
    assert end["nc2_angles"] > 1e-3
    assert float(end["nc1"]) < 1e-12


def test_equal_biases_are_a_case_of_eqs_29_and_60():
    f = flow()
    for a, b in zip(balanced_limit(f, np.full(3, 0.1)), f.equal_bias_limit(0.1), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-13)
    with pytest.raises(ValueError, match=r"balanced_limit: b has shape \(2,\) but must be \(3,\)"):
        balanced_limit(f, [0.1, 0.2])


def test_limits_name_flows_and_numbers_that_are_none():
    for limit in (balanced_limit, aligned_limit):
        for other in ({}, None, ls.BalancedMode(s=1.0), flow(kappas=([2.0, 3.0], 1.0, 0.5))):
            with pytest.raises(TypeError, match=rf"{limit.__name__}: flow = .* must be one NeuralCollapse"):
                limit(other, [0.1, 0.2, 0.3])
        for bad in (1e200, np.nan):
            with pytest.raises(ValueError, match=rf"{limit.__name__}: (b|epsilon) = "):
                limit(flow(), [bad, 0.2, 0.3])
    with pytest.raises(ValueError, match=r"equal_bias_limit: beta = -1\.7e\+308 must lie in"):
        flow().equal_bias_limit(-1.7e308)


# how fast


def rates(**options):
    return collapse(flow(), seed=1, step=0.01, **options).rates


@pytest.mark.parametrize(
    "options",
    quick([
        {}, {"bias": 0.1}, {"start": "lambda"}, {"start": "lambda", "bias": 0.1}, {"start": "aligned"},
        {"start": "lambda", "imbalance": -0.4}, {"start": "mean"}, {"start": "scatter", "bias": 0.1},
        {"start": "generic", "scale": 0.6},
    ], lambda options: "bias" not in options and options.get("start") != "generic"),
)  # fmt: skip
@pytest.mark.quick(1)
def test_rates_are_those_of_the_tangent_kernel_at_the_end(options):
    found = rates(**options)
    assert any(rate.law == "exp" for rate in found.values())
    for rate in found.values():
        assert rate.law in ("exp", "none")
        if rate.law == "exp":
            assert rate.measured == pytest.approx(rate.predicted, rel=2e-3)


@pytest.mark.exhaustive
def test_rates_in_closed_form():
    m, sample, middle, large = numbers(flow())
    pace = np.sqrt(m * middle)
    assert rates()["class"].predicted == pytest.approx(pace)  # the sum of the classifier is the last to go
    relaxed = rates(bias=0.1)  # and without it
    assert relaxed["class"].predicted == pytest.approx(2 * pace)
    assert relaxed["global"].predicted == pytest.approx(3 * m)
    skewed = rates(start="lambda", bias=0.1, imbalance=0.5)
    assert skewed["class"].predicted == pytest.approx(np.sqrt(m**2 * middle**2 / 4 + 4 * m * middle))
    scattered = rates(start="scatter", bias=0.1)
    assert scattered["sample"].predicted == pytest.approx(sample * np.sqrt(m / middle))
    assert scattered["class"].predicted == pytest.approx(2 * sample * np.sqrt(m / middle))  # driven by the samples
    # BiasedMode: mu_g |w|^2 + m |h|^2 + N
    found = collapse(flow(), start="mean", seed=1, step=0.01)
    one = np.full(3, 1 / np.sqrt(3))
    means = found.end.gram_h[::4, ::4]
    whole = large * one @ found.end.gram_w @ one + m * one @ means @ one + 3 * m
    assert found.rates["global"].predicted == pytest.approx(whole)


@pytest.mark.exhaustive
def test_scatter_along_the_sum_of_the_classifier_falls_as_one_over_t():
    sample = 0.7
    found = collapse(flow(kappas=(1 + sample, 1.0, 0.5)), start="scatter", seed=1, step=0.01, until=120.0)
    rate, t = found.rates["sample"], found.theory.t[-1]
    assert rate.law == "1/t"
    assert rate.measured == pytest.approx(1, abs=0.04)
    assert 2 * np.sqrt(sample) * t * found.part("sample")[-1] == pytest.approx(1, abs=0.04)
    # and the scatter itself, summed over samples, as 1/(2 t)
    y = np.repeat(np.eye(3), 4, axis=1)
    gram = found.theory["gram_h"][-1]
    scatter = np.trace(gram) - np.trace(y @ gram @ y.T) / 4
    assert 2 * t * scatter == pytest.approx(1, abs=0.04)


def test_a_fit_ends_where_rounding_begins():
    t = np.linspace(0, 20, 200)
    size = np.maximum(np.exp(-2 * t), 1e-13)
    assert fitted(t, size, "exp", 1e-12) == pytest.approx(2)
    assert fitted(t, np.exp(-0.01 * t), "exp", 1e-12) is None
    late = np.geomspace(1, 1e3, 50)
    assert fitted(late, 3 / late, "1/t", 0.0) == pytest.approx(1)
