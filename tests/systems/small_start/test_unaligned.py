"""Three and more layers from any small start: the laws against integrated networks."""

from itertools import pairwise

import numpy as np
import pytest
from mutants.alignment import LAWS
from scipy.optimize import brentq

import linsolve as ls

MINE = (ls.laws.UnalignedLearningTime, ls.laws.FirstLayerAlignment, ls.laws.SaddleToSaddle, ls.laws.DeepFeatureRegime)
OF_NETWORKS = MINE[:3]
WRONG = [name for name, mutant in LAWS.items() if issubclass(mutant.law, MINE)]


@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.exhaustive) for k in (1, 2))])
@pytest.mark.parametrize("cls", MINE, ids=lambda c: c.__name__)
def test_law_holds(cls, seed):
    report = ls.verify(cls.example(np.random.default_rng(seed)))
    assert report.ok, str(report)


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.quick(1)
def test_wrong_formula_is_rejected(name):
    law = LAWS[name].law.example(np.random.default_rng(LAWS[name].seed))
    object.__setattr__(law, "scales", law.scales[:2])
    report = ls.verify(law)
    assert LAWS[name].seen_by in report.failed, str(report)


@pytest.mark.exhaustive
def test_four_layers_have_the_orders_of_their_depth():
    start = np.random.default_rng(5).normal(size=(4, 4, 4)) / 2
    law = ls.laws.UnalignedLearningTime(start=start, target=[0.9, 0.3], rates=[1.0, 0.5, 2.0, 1.0])
    object.__setattr__(law, "scales", (0.2, 0.1))
    for name, slopes in law.measured_orders().items():
        assert np.abs(slopes - 4).max() <= 0.15, name


def network(seed, widths, sigma):
    rng = np.random.default_rng(seed)
    X = np.linalg.qr(rng.normal(size=(30, widths[0])))[0] * np.sqrt(60.0)  # second moment 2
    weights = [sigma * rng.normal(size=(b, a)) / np.sqrt(a) for a, b in pairwise(widths)]
    u, v = (np.linalg.qr(rng.normal(size=(n, widths[-1])))[0] for n in (widths[-1], widths[0]))
    target = u @ np.diag(np.array([1.5, 0.8])[: widths[-1]]) @ v.T
    return weights, (X, X @ target.T), np.array([0.5, 1.5, 1.0])


@pytest.mark.exhaustive
def test_times_of_a_network_have_the_stated_error():
    for sigma in (0.2, 0.1):
        weights, data, rates = network(1, (4, 5, 5, 1), sigma)
        law = ls.laws.UnalignedLearningTime.of(weights, data, rates)
        traj = law()
        loss = ls.solve(weights, data, 0.0, rates)["loss"] / 2
        truth = brentq(
            lambda t, w=weights, d=data, r=rates, half=loss: ls.solve(w, d, t, r, rtol=1e-11)["loss"] - half,
            0.9 * traj["half of the loss"], 1.1 * traj["half of the loss"], xtol=1e-6,
        )  # fmt: skip
        assert abs(traj["half of the loss"] / truth - 1) <= 20 * traj.error["half of the loss"]
        first = ls.solve(weights, data, np.array([0.0, traj["alignment"]]), rates)["w1"]
        target = data[1][:, 0] @ data[0]
        beta = target / np.linalg.norm(target)
        gram = np.swapaxes(first, 1, 2) @ first
        cosine = np.einsum("i,tij,j->t", beta, gram, beta) / np.linalg.norm(gram, axis=(1, 2))
        assert abs(cosine[1] - (1 + cosine[0]) / 2) <= 20 * traj.error["alignment"]


def test_first_layer_of_a_network_over_time():
    weights, data, rates = network(1, (4, 5, 5, 1), 0.05)
    law = ls.laws.FirstLayerAlignment.of(weights, data, rates)
    t = np.array([0.0, 0.8, 0.2, 0.4, 0.6]) * law.latest
    found, first = law(t)["cosine"], ls.solve(weights, data, t, rates)["w1"]
    target = data[1][:, 0] @ data[0]
    beta, gram = target / np.linalg.norm(target), np.swapaxes(first, 1, 2) @ first
    cosine = np.einsum("i,tij,j->t", beta, gram, beta) / np.linalg.norm(gram, axis=(1, 2))
    np.testing.assert_allclose(found, cosine, atol=law(t).error["cosine"])
    assert found[1] > found[0]
    with pytest.raises(ValueError, match=r"^FirstLayerAlignment: t = .* must be at most"):
        law(1.1 * law.latest)


@pytest.mark.exhaustive
def test_drops_of_a_network_with_two_outputs():
    errors = []
    for sigma in (0.1, 0.02):
        weights, data, rates = network(2, (4, 6, 6, 2), sigma)
        law = ls.laws.SaddleToSaddle.of(weights, data, rates)
        traj, target = law(), data[1].T @ data[0] / 60.0
        u, s, vt = np.linalg.svd(target, full_matrices=False)

        def gap(t, k, given=(weights, data, rates), modes=(u, s, vt)):
            made = ls.solve(given[0], given[1], t, given[2])["map"]
            return modes[0][:, k] @ made @ modes[2][k] - modes[1][k] / 2

        for k, name in enumerate(("drop 1", "drop 2")):
            truth = brentq(gap, 0.3 * traj[name], 3 * traj[name], args=(k,), xtol=1e-3)
            errors.append(abs(traj[name] / truth - 1) / traj.error[name])
    assert max(errors) <= 5


@pytest.mark.exhaustive
def test_equal_singular_values_are_learned_in_directions_that_the_start_chooses():
    rng = np.random.default_rng(3)
    u, v = np.linalg.qr(rng.normal(size=(2, 2)))[0], np.linalg.qr(rng.normal(size=(4, 2)))[0]
    law = ls.laws.SaddleToSaddle(start=rng.normal(size=(3, 5, 5)) / 2, target=u @ v.T, rates=[1.0] * 3)
    assert list(law.orders) == ["drop 1", "drop 2"]  # after the first, half of the loss is a plateau
    object.__setattr__(law, "scales", (1e-2, 5e-3))
    for name, slopes in law.measured_orders().items():
        assert np.abs(slopes - 1).max() <= 0.1, name
    for _, z, right, s in law.modes:
        np.testing.assert_allclose((u @ v.T).T @ z, right, atol=1e-6)
        assert s == pytest.approx(1, abs=1e-9)


@pytest.mark.exhaustive
def test_a_weaker_mode_is_learned_first_if_its_start_is_larger():
    start = [np.diag([0.3, 1.0])] * 3
    law = ls.laws.SaddleToSaddle(start=start, target=np.diag([1.0, 0.9]), rates=[1.0] * 3)
    found = law.approximation(np, 0.01)
    assert float(found["drop 1"]) == pytest.approx(100 / 0.9, rel=1e-9)
    assert float(found["drop 2"]) == pytest.approx(100 / 0.3, rel=1e-6)
    exact = law.exact(np, 0.01)
    for name, time in found.items():
        assert abs(float(exact[name]) / float(time) - 1) <= 0.02, name


@pytest.mark.exhaustive
def test_half_of_the_loss_after_the_second_drop():
    """With s = (1, 0.8, 0.7, 0.6) the second mode halves the loss."""
    rng = np.random.default_rng(4)
    law = ls.laws.SaddleToSaddle(
        start=rng.normal(size=(3, 5, 5)) / 2, target=np.diag([1.0, 0.8, 0.7, 0.6]), rates=[1.0] * 3
    )
    found = {name: float(time) for name, time in law.approximation(np, 1e-3).items()}
    assert abs(found["half of the loss"] / found["drop 2"] - 1) <= 0.01
    assert law.orders["half of the loss"] == 1


@pytest.mark.parametrize("depth", [4, 3])
@pytest.mark.quick(1)
def test_no_network_has_half_of_its_loss_before_the_bound(depth):
    rng = np.random.default_rng(depth)
    for sigma in (0.6, 0.2):
        start = rng.normal(size=(depth, 3, 3)) / np.sqrt(3)
        law = ls.laws.SaddleToSaddle(start=start, target=np.diag([1.1, 0.6]), rates=rng.uniform(0.5, 2.0, depth))
        layers = law.layers_at_start(sigma)
        weights, X = layers, np.sqrt(2) * np.eye(2)
        t = np.linspace(0.0, float(law.earliest(sigma)), 20)
        loss = ls.solve(weights, (X, X @ np.diag([1.1, 0.6])), t, np.asarray(law.rates))["loss"]
        assert np.all(loss >= loss[0] / 2)
    scalar = ls.laws.SaddleToSaddle(start=np.ones((depth, 1, 1)), target=[[1.0]], rates=np.ones(depth))
    truth = float(scalar.exact(np, 0.01)["half of the loss"])
    assert 0.99 * truth <= float(scalar.earliest(0.01)) <= truth  # equal layers saturate it but for the target's pull


@pytest.mark.parametrize("hidden", [2, pytest.param(3, marks=pytest.mark.exhaustive)])
@pytest.mark.exhaustive
def test_exponents_of_table_2(hidden):
    """Kernel and weights of trained networks in G: a = 2/(1 + 1/L), and b = 1/(L + 1), approached from above."""
    rng = np.random.default_rng(hidden)
    start = rng.normal(size=(hidden + 1, 5, 5)) / np.sqrt(5)
    law = ls.laws.DeepFeatureRegime(start=start, target=[1.0], rates=np.ones(hidden + 1))
    found = [law.exact(np, small) for small in (1e-4, 1e-5)]
    slopes = {name: float(np.log10(found[1][name] / found[0][name])) for name in law.orders}
    assert abs(slopes["kernel"] - 2 / (1 + 1 / hidden)) <= 1e-3
    assert 1 / (hidden + 1) <= slopes["weights"] <= 1 / (hidden + 1) + 0.03


@pytest.mark.parametrize("cls", OF_NETWORKS, ids=lambda c: c.__name__)
def test_conditions_are_named(cls):
    weights, data, rates = network(0, (4, 5, 1), 0.05)
    with pytest.raises(ls.NotExact, match=rf"^{cls.__name__}\.of: depth = 2 must be at least 3"):
        cls.of(weights, data, rates[:2])
    more = {"across": [0.0, 1.0], "fractions": [0.5]} if cls is ls.laws.FirstLayerAlignment else {}
    target = np.diag([2.0, 1.0]) if cls is ls.laws.SaddleToSaddle else [1.0, 0.0]
    with pytest.raises(ValueError, match=rf"^{cls.__name__}: start = layers of shape \(2, 2, 2\) must have at least 3"):
        cls(start=np.ones((2, 2, 2)), target=target, rates=[1.0, 1.0], **more)


@pytest.mark.exhaustive
def test_a_first_layer_along_the_target_is_aligned_at_once():
    law = ls.laws.UnalignedLearningTime(start=[[[1.0]], [[2.0]], [[1.0]]], target=[1.0], rates=[1.0] * 3)
    found = law.approximation(np, 0.01)
    assert found["alignment"] == 0
    assert abs(found["half of the target"] / law.exact(np, 0.01)["half of the target"] - 1) <= 1e-5


def test_odd_parameters_are_refused_by_name():
    start, rates = [np.eye(2)] * 3, [1.0] * 3
    with pytest.raises(ValueError, match=r"^FirstLayerAlignment: across = a vector at cosine 1 must be orthogonal"):
        ls.laws.FirstLayerAlignment(start=start, target=[1.0, 0.0], rates=rates, across=[1.0, 0.0], fractions=[0.5])
    tied = [np.diag([-1.0, 0.0]), np.diag([1.0, 0.0]), np.diag([2.0, 0.0])]
    with pytest.raises(ValueError, match=r"^DeepFeatureRegime: target = \[2\.0\] must be \[1\] or \[-1\]"):
        ls.laws.DeepFeatureRegime(start=start, target=[2.0], rates=rates)
    with pytest.raises(ValueError, match=r"^DeepFeatureRegime: rates = \[1\.0, 2\.0, 1\.0\] must be 1"):
        ls.laws.DeepFeatureRegime(start=start, target=[1.0], rates=[1.0, 2.0, 1.0])
    with pytest.raises(ValueError, match=r"^UnalignedLearningTime: start = a start that converges to 0 output must"):
        ls.laws.UnalignedLearningTime(start=tied, target=[1.0, 0.0], rates=rates).approximation(np, 0.1)


@pytest.mark.parametrize("method", ["approximation", "exact", "earliest"])
@pytest.mark.parametrize("small", [0.0, -1.0, np.nan, "a", None, [0.1, 0.2], 2.0])
def test_scales_of_saddle_to_saddle_are_checked(method, small):
    law = ls.laws.SaddleToSaddle(start=[np.eye(2)] * 3, target=np.diag([2.0, 1.0]), rates=[1.0] * 3)
    given = (small,) if method == "earliest" else (np, small)
    with pytest.raises(ValueError, match=rf"SaddleToSaddle\.{method}: small = .* must be a number in \[1e-30, 1\]"):
        getattr(law, method)(*given)


@pytest.mark.parametrize("depth", [11, pytest.param(20, marks=pytest.mark.exhaustive)])
def test_drops_of_many_layers(depth):
    target, rates = np.diag([2.0, 1.0]), [1.0] * depth
    law = ls.laws.SaddleToSaddle(start=[np.eye(2)] * depth, target=target, rates=rates)
    times = law.approximation(np, 0.3)  # each mode grows alone: dv/dtau = s v^(L-1)
    for name, s in (("drop 1", 2.0), ("drop 2", 1.0)):
        assert float(times[name]) == pytest.approx(0.3 ** (2 - depth) / ((depth - 2) * s), rel=1e-9)
    start = np.random.default_rng(depth).normal(size=(depth, 1, 1))  # a product of one sign, by quadrature
    start[-1] *= np.sign(np.prod(start))
    drawn = ls.laws.SaddleToSaddle(start=start, target=[[1.0]], rates=rates)
    found = ls.deep.blow_up(list(start), [[1.0]])
    assert found.closed
    assert float(drawn.approximation(np, 1.0)["drop 1"]) == pytest.approx(found.time, rel=1e-9)
