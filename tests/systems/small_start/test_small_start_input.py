"""Edges of the laws of small starts: the right answer, or one error that names the parameter."""

import re

import numpy as np
import pytest

import linsolve as ls
from linsolve import arithmetic
from linsolve.core import network as simulated
from linsolve.systems.small_start.final_kernel import tangent_kernel

TWO_LAYERS = ("EarlyAlignment", "MatchedSolution", "RefinedMatchedSolution", "KernelAlignment", "LearningTime")
ANISOTROPIC = ("EarlyAnisotropic", "EarlyKernelDirection", "FinalKernelAnisotropic", "LayerKernels")
DEEP = ("FinalKernel", "FinalKernelAnisotropic", "FinalKernelOutputs", "LayerKernels")


def example(name, seed=0):
    """Return a law's class and the parameters of its example."""
    cls = getattr(ls.laws, name)
    return cls, cls.example(np.random.default_rng(seed)).parameters()


def refused(name, argument, **change):
    cls, given = example(name)
    with pytest.raises(ValueError, match=rf"^{name}: {argument} ") as refusal:
        cls(**given | change)
    assert ";" in str(refusal.value)  # how to go on


@pytest.mark.parametrize("name", [*TWO_LAYERS, *ANISOTROPIC, "FinalKernel", "KernelRegression"])
def test_a_target_without_direction_is_refused(name):
    refused(name, "target", target=0 * example(name)[1]["target"])


@pytest.mark.parametrize("name", ["MatchedOutputs", "FinalKernelOutputs"])
def test_a_zero_map_is_refused(name):
    refused(name, "target", target=0 * example(name)[1]["target"])


@pytest.mark.parametrize("name", ["MatchedSolution", "RefinedMatchedSolution", "KernelAlignment", "LearningTime"])
def test_a_start_without_the_growing_mode_is_refused(name):
    given = example(name)[1]
    along = given["first"] @ given["target"] / np.linalg.norm(given["target"])
    refused(name, "last", last=-along)
    refused(name, "last", last=0 * along, first=0 * given["first"])


@pytest.mark.parametrize("name", ANISOTROPIC)
@pytest.mark.parametrize("kind", ["negative", "asymmetric", "zero", "blind"])
def test_matrices_that_are_no_covariances_are_refused(name, kind):
    given = example(name)[1]
    sigma, y = given["covariance"], given["target"]
    across = np.eye(len(y)) - np.outer(y, y) / (y @ y)
    wrong = {
        "negative": -sigma, "asymmetric": sigma + np.triu(np.ones_like(sigma), 1), "zero": 0 * sigma,
        "blind": across @ sigma @ across,
    }[kind]  # fmt: skip
    refused(name, "covariance", covariance=wrong)


@pytest.mark.parametrize("name", ["FinalKernelAnisotropic", "LayerKernels"])
def test_singular_covariances_are_refused_at_the_end_of_training(name):
    refused(name, "covariance", covariance=np.diag([1.0, 2.0, 0.5, 0.0]))


def test_singular_covariances_are_right_in_phase_one():
    cls, given = example("EarlyAnisotropic")
    report = ls.verify(cls(**given | {"covariance": np.diag([1.0, 2.0, 0.5, 0.0])}))
    assert report.ok, str(report)
    cls, given = example("EarlyKernelDirection")
    assert ls.verify(cls(**given | {"covariance": np.diag([1.0, 2.0, 0.5, 0.0])})).ok


@pytest.mark.parametrize("name", ["EarlyAlignment", "EarlyAnisotropic"])
def test_times_long_after_phase_one_are_refused(name):
    refused(name, "times", times=[0.0, 1e3])


def test_one_input_has_no_direction_across():
    law = ls.laws.EarlyAlignment(last=[0.3, -0.2], first=[[0.5], [0.1]], target=[-1.2], times=[0.0, 0.5, 1.0])
    assert ls.verify(law).ok


def test_early_alignment_counts_growth_from_the_start():
    cls, given = example("EarlyAlignment")
    late = cls(**given | {"times": given["times"][3:]})
    for route in (late.approximation, late.exact):
        early = getattr(cls(**given), route.__name__)(np, np.asarray(1e-3))["across"][3:]
        np.testing.assert_allclose(route(np, np.asarray(1e-3))["across"], early, rtol=1e-9)


def test_inputs_that_are_not_white_and_targets_off_their_span_are_refused():
    given = example("KernelRegression")[1]
    x, y = given["inputs"], given["target"]
    refused("KernelRegression", "inputs", inputs=1.1 * x)
    refused("KernelRegression", "inputs", inputs=x + 1e-6 * np.eye(*x.shape))
    refused("KernelRegression", "inputs", inputs=np.vstack([x, x[:1]]))
    refused("KernelRegression", "target", target=y + 1e-6)
    refused("KernelRegression", "last", last=-given["first"] @ y / np.linalg.norm(y))


@pytest.mark.parametrize("name", DEEP)
def test_starts_that_do_not_fit_are_refused(name):
    given = example(name)[1]
    start, rates = given["start"], given["rates"]
    refused(name, "start", start=0 * start)
    refused(name, "start", start=start[:1], rates=rates[:1])
    narrow = getattr(ls.laws, name)(**given | {"start": start[:, :3, :3]})
    assert narrow.approximation(np, 1e-2)  # knows the depth of the start alone
    with pytest.raises(ValueError, match=rf"^{name}: start has shape \(., 3, 3\) but needs a width of at least 4"):
        narrow.exact(np, 1e-2)
    refused(name, "rates", rates=np.append(rates, 1.0))


@pytest.mark.parametrize("depth", [2, 4])
def test_layer_kernels_at_other_depths(depth):
    cls, given = example("LayerKernels", seed=1)
    rng = np.random.default_rng(depth)
    law = cls(**given | {"start": rng.normal(size=(depth, 6, 6)) / 2, "rates": rng.uniform(0.7, 1.4, depth)})
    assert sorted(law.orders) == sorted(f"{part} {k}" for part in ("layer", "across") for k in range(1, depth))
    object.__setattr__(law, "scales", (1.2e-2, 6e-3))
    for name, slopes in law.measured_orders().items():
        np.testing.assert_allclose(slopes, law.orders[name], atol=0.1, err_msg=name)


@pytest.mark.parametrize(("shape", "depth"), [((2, 3), 2), ((3, 2), 2), ((3, 3), 2), ((2, 3), 3)])
@pytest.mark.quick(1)
def test_final_kernel_of_a_target_of_rank_one(shape, depth):
    rng = np.random.default_rng(3)
    target = 1.1 * np.outer(*(v / np.linalg.norm(v) for v in (rng.normal(size=n) for n in shape)))
    law = ls.laws.FinalKernelOutputs(start=rng.normal(size=(depth, 4, 4)) / 2, target=target, rates=np.ones(depth))
    errors, scales = [], np.array([3e-2, 1e-2])
    for small in scales:
        late = 30.0 if depth == 2 else 30.0 + 3 / small
        layers = simulated.follow(law.layers_at_start(small), target, [0.0, late], rtol=1e-11)
        found, said = tangent_kernel([layer[-1] for layer in layers]), law.approximation(np, small)
        errors.append(np.max(np.abs(found - said["kernel"])))
        fit = np.einsum("ci,cdij,dj->", target, found, target) / np.linalg.norm(found) / np.sum(target**2)
        assert fit == pytest.approx(float(said["alignment"]), abs=10 * small**2)
    assert np.log(errors[0] / errors[1]) / np.log(3) == pytest.approx(2, abs=0.15)
    with pytest.raises(ValueError, match=r"^FinalKernelOutputs: target = a matrix with singular value"):
        law.exact(np, 1e-2)


@pytest.mark.parametrize("shape", [(2, 4), (4, 2), (1, 1), (3, 3)])
def test_final_kernel_of_more_outputs_than_inputs_mirrors_that_of_fewer(shape):
    rng = np.random.default_rng(4)
    target, rates = rng.normal(size=shape), rng.uniform(0.5, 2.0, 3)
    law, start = ls.laws.FinalKernelOutputs, rng.normal(size=(3, 4, 4))
    one = law(start=start, target=target, rates=rates).approximation(np, 0.0)
    other = law(start=start, target=target.T, rates=rates[::-1]).approximation(np, 0.0)
    np.testing.assert_allclose(one["kernel"], np.transpose(other["kernel"], (2, 3, 0, 1)), atol=1e-13)
    assert one["alignment"] == pytest.approx(float(other["alignment"]), rel=1e-14)


@pytest.mark.parametrize("depth", [[6, 7, 8], [6], 3, 2.5, [[3, 4], [5, 6]], [3, 3], [30]])
@pytest.mark.quick(3)
def test_deep_learning_times_are_named_by_their_depth(depth):
    law = ls.laws.DeepLearningTime(s=1.3, depth=depth)
    flat = np.ravel(depth).astype(float)
    found = law.approximation(np, 1e-2)
    assert len(found) == 2 * flat.size
    for name, time in found.items():
        each = float(name.split("depth ")[1].split(" ")[0])
        assert each in flat
        assert time == pytest.approx(1e-2 ** (2 - each) / ((each - 2) * 1.3), rel=1e-12)
    for name, slopes in law.measured_orders().items():
        np.testing.assert_allclose(slopes, law.orders[name], atol=0.05, err_msg=name)


def test_deep_learning_times_need_shapes_that_fit():
    with pytest.raises(ValueError, match=r"DeepLearningTime: batch shapes = .* do not broadcast"):
        ls.laws.DeepLearningTime(s=[1.0, 2.0], depth=[3, 4, 5])


def test_counts_are_whole_and_tasks_fit_their_inputs():
    for name, argument in (("InitialOverlaps", "width"), ("LayerImbalance", "n_in"), ("TransferError", "n_in")):
        refused(name, argument, **{argument: 2.5})
    law = ls.laws.TransferError(**example("TransferError")[1] | {"samples": [1.5, 2.0, 3.0]})
    assert np.isfinite(law.prediction(np)["error"]).all()
    with pytest.raises(ValueError, match=r"TransferError: samples = 1.5 .* must be a whole number"):
        law.sample(np.random.default_rng(0), 5)
    refused("TransferError", "overlap", n_in=1, overlap=[1.0, -1.0, 0.5])
    one = {"strength": [1.0], "overlap": [-1.0], "samples": [3], "ridge": [0.5], "n_in": 1}
    law = ls.laws.TransferError(**one)
    assert 0 < law.prediction(np)["error"][0] < 1
    assert np.isfinite(law.sample(np.random.default_rng(0), 5)["error"]).all()
    refused("WidthCorrection", "sizes", sizes=[4])


@pytest.mark.parametrize("name", sorted({*TWO_LAYERS, *ANISOTROPIC, *DEEP, "MatchedOutputs", "KernelRegression"}))
@pytest.mark.parametrize("factor", [1e-300, 1e-80, 1e80, 1e300])
@pytest.mark.quick(8)
def test_extreme_sizes_are_right_or_refused(name, factor):
    (cls, given), refusals = example(name), []
    for argument, value in given.items():
        if argument in ("phases", "times"):
            continue
        try:
            law = cls(**given | {argument: factor * value})
        except ValueError as error:
            refusals.append(str(error))
            continue
        with np.errstate(all="raise", under="ignore"):
            found = law.approximation(np, np.asarray(1e-3))
        for value in found.values():
            assert np.isfinite(value).all()
    for refusal in refusals:
        assert re.match(rf"{name}: \w+ = .* must .*; ", refusal), refusal


def test_checks_hold_for_numbers_of_many_digits():
    xp = arithmetic.precise(30)
    cls, given = example("MatchedSolution")
    many = {argument: xp.asarray(value) for argument, value in given.items()}
    assert float(cls(**many).approximation(xp, xp.asarray(1e-3))["r"][-1]) == pytest.approx(
        float(cls(**given).approximation(np, 1e-3)["r"][-1]), rel=1e-12
    )
    with pytest.raises(ValueError, match=r"^MatchedSolution: target = 0 "):
        cls(**many | {"target": 0 * many["target"]})


@pytest.mark.parametrize("s", [1e-30, 1e-8, 1.0, 1e30])
@pytest.mark.parametrize("sizes", [[4, 9, 2, 7], [9, 4, 4, 1], [3, 3, 3], [5, 2]])
def test_strengths_of_unequal_widths_multiply_to_the_mode(s, sizes):
    law = ls.laws.WidthCorrection(s=s, sizes=sizes)
    found = law.exact(np, 0.3)["strengths squared"]
    assert np.prod(found / s ** (2 / len(found))) == pytest.approx(1, rel=1e-12)
    np.testing.assert_allclose(found - found[-1], 0.3**2 * law.offsets(np), atol=1e-14 * found.max())


def test_transfer_errors_of_every_size():
    sizes = [0.0, 1e-320, 1e-60, 1.0, 1e59]
    for n_in in (1, 50, 1e59):
        cases = np.array(np.meshgrid(sizes, [0, 1, 40, 1e9], sizes)).reshape(3, -1)
        law = {"strength": cases[0], "overlap": np.ones(cases.shape[1]), "samples": cases[1], "ridge": cases[2]}
        with np.errstate(all="raise", under="ignore"):
            error = ls.laws.TransferError(**law, n_in=n_in).prediction(np)["error"]
        assert np.isfinite(error).all()
        assert (error >= 0).all()
        assert (error <= 1 + 1e-12).all()
    given = {"strength": [0.0, 3.0, 50.0, 1e3], "overlap": [0.5] * 4, "samples": [20, 99, 100, 50]}
    law, xp = ls.laws.TransferError(**given, ridge=[0.0, 1e-3, 2.0, 0.0], n_in=100), arithmetic.precise(50)
    digits = arithmetic.to_numpy(law.cast(xp).prediction(xp)["error"])
    np.testing.assert_allclose(law.prediction(np)["error"], digits, rtol=1e-13)
