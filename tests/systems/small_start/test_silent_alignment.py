import numpy as np
import pytest
from mutants.laws import LAWS

import linsolve as ls
from linsolve import arithmetic
from linsolve.core import network as simulated
from linsolve.systems.small_start.final_kernel import tangent_kernel

MINE = (
    ls.laws.EarlyAlignment,
    ls.laws.InitialOverlaps,
    ls.laws.EarlyAnisotropic,
    ls.laws.EarlyKernelDirection,
    ls.laws.MatchedSolution,
    ls.laws.RefinedMatchedSolution,
    ls.laws.KernelAlignment,
    ls.laws.MatchedOutputs,
    ls.laws.LearningTime,
    ls.laws.DeepLearningTime,
    ls.laws.FinalKernel,
    ls.laws.FinalKernelAnisotropic,
    ls.laws.FinalKernelOutputs,
    ls.laws.KernelRegression,
    ls.laws.LayerKernels,
    ls.laws.WidthCorrection,
    ls.laws.LayerImbalance,
    ls.laws.TransferError,
)


def unit(rng, size):
    vector = rng.normal(size=size)
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.exhaustive) for k in (1, 2))])
@pytest.mark.parametrize("cls", MINE, ids=lambda c: c.__name__)
def test_law_holds(cls, seed):
    report = ls.verify(cls.example(np.random.default_rng(seed)))
    assert report.ok, str(report)


def test_laws_are_registered():
    assert set(MINE) <= set(ls.laws.ALL)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.quick(6)
def test_wrong_formula_is_rejected(name):
    mutant = LAWS[name]
    law = mutant.law.example(np.random.default_rng(mutant.seed))
    fewer = {"draws": law.draws // 4} if isinstance(law, ls.laws.Statistic) else {"scales": law.scales[:2]}
    for field, value in fewer.items():  # enough to reject, and the smallest scales take longest
        object.__setattr__(law, field, value)
    report = ls.verify(law)
    assert mutant.seen_by in report.failed, str(report)


@pytest.mark.parametrize("cls", MINE, ids=lambda c: c.__name__)
def test_every_law_has_a_mutant(cls):
    assert any(issubclass(mutant.law, cls) for mutant in LAWS.values())


@pytest.mark.parametrize("cls", [c for c in MINE if c is not ls.laws.KernelRegression], ids=lambda c: c.__name__)
def test_formula_is_the_same_in_thirty_digits(cls):
    xp, law = arithmetic.precise(30), cls.example(np.random.default_rng(0))
    if issubclass(cls, ls.laws.Statistic):
        doubles, digits = law.prediction(np), law.cast(xp).prediction(xp)
    else:
        doubles = law.approximation(np, np.asarray(1e-2))
        digits = law.cast(xp).approximation(xp, arithmetic.cast(xp, 1e-2))
    for name, value in doubles.items():
        np.testing.assert_allclose(value, arithmetic.to_numpy(digits[name]), atol=1e-12 * np.max(np.abs(value)))


def test_last_layer_is_the_same_in_thirty_digits():
    xp, law = arithmetic.precise(30), ls.laws.KernelRegression.example(np.random.default_rng(0))
    digits = law.cast(xp).last_layer(xp, arithmetic.cast(xp, 1e-2))
    np.testing.assert_allclose(law.last_layer(np, np.asarray(1e-2)), arithmetic.to_numpy(digits), rtol=1e-13)


# the simulator, against closed forms that it does not know


def test_raw_network_follows_the_matrix_riccati_solution():
    rng = np.random.default_rng(0)
    turn, right, left = (np.linalg.qr(rng.normal(size=(n, n)))[0] for n in (2, 3, 2))
    w1, w2 = 0.2 * turn @ right[:2], 0.2 * left @ turn.T  # balanced
    flow = ls.WhitenedTwoLayer(target=rng.normal(size=(2, 3)))
    t = np.linspace(0.0, 4.0, 6)
    first, last = simulated.follow([w1, w2], flow.target, t)
    np.testing.assert_allclose(last @ first, flow(t, ls.WhitenedTwoLayer.of(w1, w2))["product"], atol=1e-11)


@pytest.mark.parametrize("depth", [3, 4])
def test_raw_deep_network_with_layer_wise_rates_is_learned_when_the_mode_is(depth):
    rng = np.random.default_rng(depth)
    rates, s, u = rng.uniform(0.5, 2.0, depth), 1.4, 0.3
    mean = np.exp(np.mean(np.log(rates)))
    directions = [unit(rng, 4) for _ in range(depth)] + [np.ones(1)]
    layers = [
        u * np.sqrt(rate / mean) * np.outer(after, before)
        for rate, before, after in zip(rates, directions[:-1], directions[1:], strict=True)
    ]
    flow = ls.DeepMode(s=s, depth=depth, tau=1 / mean)
    exact = flow.time_to(np, flow.State(np.asarray(u**depth)), loss=s**2 / 8)
    assert simulated.time_to_reach(layers, s * directions[0], rates=rates) == pytest.approx(float(exact), rel=1e-10)


def test_batch_of_networks_marches_as_each_network_is_followed():
    rng = np.random.default_rng(1)
    first, last = rng.normal(size=(5, 3, 4)) / 4, rng.normal(size=(5, 1, 3)) / 4
    target = rng.normal(size=4)
    ends = simulated.march([first, last], target[None, :], 2.0, 200)
    for k in range(5):
        alone = simulated.follow([first[k], last[k]], target, [2.0])
        np.testing.assert_allclose(ends[0][k], alone[0][0], atol=1e-9)


def test_integrator_that_cannot_go_on_says_where():
    with pytest.raises(ArithmeticError, match="integrate: DeepWeights stopped at t = "):
        simulated.follow([np.full((1, 1), 2.0)] * 2, [1.0], [-10.0])  # backward in time it blows up


# where a law is exact


def aligned(rng):
    """Return a two-layer network whose first layer lies along the target."""
    target = 1.7 * unit(rng, 5)
    a, w = rng.normal(size=(2, 3)) / 10
    return a, np.outer(w, unit_of(target)), target


def unit_of(vector):
    return vector / np.linalg.norm(vector)


def test_alignment_of_a_network_along_the_target_is_exact_at_all_times():
    a, first, target = aligned(np.random.default_rng(2))
    t = np.linspace(0.0, 5.0, 11)
    path, last = simulated.follow([first, a[None, :]], target, t)
    alpha = np.sum(last[:, 0] ** 2, axis=-1)
    both = alpha + np.sum((path @ unit_of(target)) ** 2, axis=-1)
    closed = both / np.sqrt(both**2 + 4 * alpha**2)
    law = ls.laws.KernelAlignment(last=a, first=first, target=target, phases=[0.0])
    raw = [law._of(np, last[k], path[k] @ unit_of(target), 0 * first)["alignment"] for k in range(len(t))]
    np.testing.assert_allclose(np.ravel(raw), closed, rtol=1e-13)
    kernels = np.stack([tangent_kernel([path[k], last[k]])[0, 0] for k in range(len(t))])
    beta = unit_of(target)
    np.testing.assert_allclose(
        np.einsum("i,tij,j->t", beta, kernels, beta) / np.linalg.norm(kernels, axis=(1, 2)), closed, rtol=1e-9
    )


def test_one_output_is_the_matched_solution_to_its_order():
    law = ls.laws.RefinedMatchedSolution.example(np.random.default_rng(0))
    several = ls.laws.MatchedOutputs(first=law.first, last=law.last[None, :], target=law.target[None, :], phases=[0.0])
    gaps = []
    for small in (np.asarray(1e-2), np.asarray(1e-3)):
        s, _, t = law.pace(np, small)
        gram = several.gram(np, small, t)
        r = gram[:, -1, :-1] @ law.target / s
        gaps.append(np.max(np.abs(r - law.approximation(np, small)["r"])))
    assert np.log10(gaps[0] / gaps[1]) == pytest.approx(2, abs=0.1)


def test_learning_times_of_a_balanced_network_are_exact():
    rng = np.random.default_rng(3)
    a, beta, s, eta = rng.normal(size=4) / 20, unit(rng, 6), 2.5, 0.7
    law = ls.laws.LearningTime(last=a, first=np.outer(a, beta), target=s * beta, eta=eta)
    c0 = a @ a
    flow = ls.BalancedMode(s=s, tau=1 / eta)
    found = law.approximation(np, np.asarray(1.0))
    assert found["half of the target"] == pytest.approx(
        float(flow.time_to(np, flow.State(c0), loss=s**2 / 8)), rel=1e-13
    )
    half = float(flow.time_to(np, flow.State(c0), loss=s**2 / 4))
    assert found["half of the loss"] == pytest.approx(half, rel=1e-13)
    exact = law.exact(np, np.asarray(1.0))
    assert found["half of the target"] == pytest.approx(float(exact["half of the target"]), rel=1e-11)


def test_learning_time_of_the_paper_s_example():
    u = 1e-4
    law = ls.laws.LearningTime(last=[u], first=[[u]], target=[2.5])
    assert law.approximation(np, np.asarray(1.0))["half of the target"] == pytest.approx(3.867394, abs=1e-6)


def test_deep_learning_time_of_the_paper_s_example():
    law = ls.laws.DeepLearningTime(s=[1.0, 2.0, 1.0], depth=[3, 4, 5])
    small = np.asarray(1e-3)
    assert law.exact(np, small)["half of the loss at depth 3"] == pytest.approx(998.747, abs=5e-4)
    assert law.approximation(np, small)["half of the loss at depth 3"] == pytest.approx(1000)
    assert law.approximation(np, small)["half of the target at depth 4"] == pytest.approx(2.5e5)


@pytest.mark.parametrize(
    ("rates", "rank", "plain", "driving"),
    [([1, 1], 4, 0.755929, 0.755929), ([3, 1], 4, 0.917663, 0.755929), ([2, 0.5, 1.3], 5, 0.956264, 0.832050)],
)
def test_published_final_alignments(rates, rank, plain, driving):
    law = ls.laws.FinalKernel(start=np.ones((len(rates), rank, rank)), target=np.eye(rank)[0], rates=rates)
    np.testing.assert_allclose(law.alignments(np), (plain, driving), atol=1e-6)


@pytest.mark.parametrize("rates", [[1.0, 1.0], [0.6, 1.7], [0.6, 1.7, 1.1, 0.9]])
def test_alignment_formulas_are_those_of_the_kernel_formulas(rates):
    target = np.random.default_rng(4).normal(size=5)
    law = ls.laws.FinalKernel(start=np.ones((len(rates), 5, 5)), target=target, rates=rates)
    beta = unit_of(target)
    direct = [beta @ k @ beta / np.linalg.norm(k) for k in law.kernels(np)]
    np.testing.assert_allclose(direct, law.alignments(np), rtol=1e-14)
    white = ls.laws.FinalKernelAnisotropic(start=law.start, target=target, rates=rates, covariance=3.0 * np.eye(5))
    assert white.approximation(np, 0.0)["alignment"] == pytest.approx(float(law.alignments(np)[0]), rel=1e-13)


def test_one_output_is_the_case_of_several():
    target = np.random.default_rng(5).normal(size=5)
    one = ls.laws.FinalKernel(start=np.ones((2, 5, 5)), target=target, rates=[0.6, 1.7])
    many = ls.laws.FinalKernelOutputs(start=np.ones((2, 5, 5)), target=target[None, :], rates=[0.6, 1.7])
    found = many.approximation(np, 0.0)
    np.testing.assert_allclose(found["kernel"][0, 0], one.kernels(np)[0], atol=1e-13)
    assert found["alignment"] == pytest.approx(2 / np.sqrt(8))


def test_regression_with_any_kernel_is_the_network_where_samples_fill_the_inputs():
    rng = np.random.default_rng(6)
    inputs = 2 * np.linalg.qr(rng.normal(size=(4, 4)))[0]
    law = ls.laws.KernelRegression(
        last=rng.normal(size=5), first=rng.normal(size=(5, 4)), inputs=inputs, target=rng.normal(size=4)
    )
    first, last = simulated.trained([0.3 * law.first, 0.3 * law.last[None, :]], law.target)
    np.testing.assert_allclose(law.regression(np, first, last[0]), last[0] @ first, atol=1e-9)


def test_width_correction_is_that_of_a_trained_chain():
    law, small = ls.laws.WidthCorrection(s=1.3, sizes=[5, 3, 8, 4, 2]), 0.2
    offsets = law.offsets(np)
    layers = [np.full((1, 1), small * np.sqrt(g - offsets.min() + 0.5)) for g in offsets]
    squared = np.ravel([layer[0, 0] ** 2 for layer in simulated.trained(layers, [[1.3]])])
    np.testing.assert_allclose(squared, law.exact(np, small)["strengths squared"], rtol=1e-9)
    equal = ls.laws.WidthCorrection(s=1.3, sizes=[5, 4, 4, 4, 4])
    np.testing.assert_allclose(equal.approximation(np, small)["strengths squared"], 1.3**0.5, rtol=1e-14)


def test_start_overlap_is_not_small_at_the_paper_s_sizes():
    found = ls.laws.InitialOverlaps(width=10, n_in=25).prediction(np)
    assert np.sqrt(found["r0 squared"]) / found["q0"] == pytest.approx(2 / 7)


def transfer(**given):
    return float(ls.laws.TransferError(**{k: [v] for k, v in given.items()}, n_in=100).prediction(np)["error"][0])


def test_transfer_error_where_it_is_known():
    assert transfer(strength=0, overlap=0.3, samples=30, ridge=0) == pytest.approx(0.7, rel=1e-12)
    assert transfer(strength=3, overlap=0.3, samples=0, ridge=0.4) == pytest.approx(1.0, rel=1e-12)
    assert transfer(strength=3, overlap=0.3, samples=100, ridge=0) == 0
    assert transfer(strength=3, overlap=0.3, samples=170, ridge=0) == 0


def test_a_related_task_is_easier_and_the_more_so_the_stronger_the_spike():
    errors = [transfer(strength=a, overlap=1.0, samples=20, ridge=0.0) for a in (0, 1, 3, 10)]
    assert np.all(np.diff(errors) < 0)
    errors = [transfer(strength=1, overlap=x, samples=20, ridge=0.0) for x in (0, 0.5, 1)]
    assert np.all(np.diff(errors) < 0)


# bad input


def test_wrong_shapes_are_named():
    with pytest.raises(
        ValueError, match=r"MatchedSolution: first has shape \(4, 3\), so width = 4, but last has width = 2"
    ):
        ls.laws.MatchedSolution(last=[1.0, 2.0], first=np.ones((4, 3)), target=np.ones(3), phases=[0.0])


def test_impossible_parameters_are_named():
    with pytest.raises(ValueError, match=r"TransferError: overlap = 1.5 at index \(0,\) must lie in \[-1, 1\]"):
        transfer(strength=1, overlap=1.5, samples=20, ridge=0.0)
    with pytest.raises(ValueError, match=r"DeepLearningTime: depth = 2.0 at index \(0,\) must lie in \(2, 60\]"):
        ls.laws.DeepLearningTime(s=[1.0], depth=[2.0])
