"""Each law of one network against `solve`: the order of its error, and its estimate within a factor of 30."""

import re
from pathlib import Path

import numpy as np
import pytest
from laws_of_networks import aligned, learned, measured, network, on_line, pace, trained
from scipy.optimize import brentq

import linsolve as ls
from linsolve.core.network_law import GivenNetwork, NetworkLaw
from linsolve.systems.small_start.linearized import LinearizedNetwork
from linsolve.systems.small_start.small_network import SmallNetwork

FACTOR = 30.0
SIZES = (0.04, 0.02, 0.01)


def check(found, order=0.2):
    """Assert the stated order of every error, and estimates within `FACTOR`; return the largest ratio."""
    small, errors, estimates, traj = found
    worst = 1.0
    for name, error in errors.items():
        logs = np.log(1 / small) if "log" in traj.scalings[name] else 1.0
        slopes = np.diff(np.log(error / logs)) / np.diff(np.log(small))
        assert np.abs(slopes - traj.orders[name]).max() <= order, (name, slopes)
        ratio = error / estimates[name]
        assert ratio.max() <= FACTOR, (name, ratio)
        assert ratio.min() >= 1 / FACTOR, (name, ratio)
        worst = max(worst, ratio.max(), 1 / ratio.min())
    return worst


def whole(law):
    """Return times over all of training."""
    return np.linspace(0.0, 12.0 + 2 * np.log(1 / law.small), 60) / pace(law.given)


def early(law):
    """Return times of phase I."""
    return np.linspace(0.0, 2.0, 7) / pace(law.given)


ONE = {"deep data": ((5, 7, 1), 20), "fewer samples than inputs": ((6, 30, 1), 4), "narrow": ((12, 3, 1), 15)}
SEVERAL = {
    "three outputs": ((5, 7, 3), 20),
    "fewer samples than inputs": ((6, 12, 2), 4),
    "bottleneck": ((5, 2, 3), 9),
    "one output": ((4, 12, 1), 9),
}
DEEP = {"two layers": ((5, 7, 1), 20), "three layers": ((5, 6, 6, 1), 12)}


def sized(shape, sizes=SIZES, seed=0, kind="white"):
    widths, samples = shape
    return [network(seed, sigma, widths=widths, samples=samples, kind=kind) for sigma in sizes]


@pytest.mark.parametrize("shape", SEVERAL)
@pytest.mark.quick(2)
def test_several_outputs_over_all_of_training(shape):
    check(measured(ls.laws.MatchedOutputs, sized(SEVERAL[shape]), whole))


@pytest.mark.parametrize("shape", ONE)
@pytest.mark.parametrize("name", ["MatchedSolution", "RefinedMatchedSolution", "KernelAlignment"])
@pytest.mark.quick(4)
def test_one_output_over_all_of_training(name, shape):
    check(measured(getattr(ls.laws, name), sized(ONE[shape], (0.02, 0.01, 0.005), seed=1), whole), order=0.35)


@pytest.mark.parametrize("shape", ONE)
@pytest.mark.parametrize("name", ["EarlyAlignment", "EarlyAnisotropic"])
def test_phase_one(name, shape):
    kind = "white" if name == "EarlyAlignment" else "anisotropic"
    check(measured(getattr(ls.laws, name), sized(ONE[shape], (0.02, 0.01, 0.005), kind=kind), early))


@pytest.mark.parametrize("shape", ONE)
def test_direction_of_the_kernel_late_in_phase_one(shape):
    widths, samples = ONE[shape]
    weights, data, rates = network(0, 1e-7, widths=widths, samples=samples, kind="anisotropic")
    phases, errors = np.array([5.0, 6.0, 7.0]), []
    for phase in phases:
        _, error, estimate, traj = measured(
            ls.laws.EarlyKernelDirection, [(weights, data, rates)], lambda law, x=phase: np.array([x]) / pace(law.given)
        )
        errors.append(error["kernel direction"][0])
        assert 1 / FACTOR <= errors[-1] / estimate["kernel direction"][0] <= FACTOR
    slopes = -np.diff(np.log(errors)) / np.diff(phases)
    assert np.abs(slopes - traj.orders["kernel direction"]).max() <= 0.15


@pytest.mark.parametrize("shape", DEEP)
@pytest.mark.parametrize("name", ["FinalKernel", "FinalKernelAnisotropic", "LayerKernels"])
@pytest.mark.quick(2)
def test_kernels_at_the_end_of_training(name, shape):
    kind = "white" if name == "FinalKernel" else "anisotropic"
    sizes, seed = ((0.1, 0.05, 0.025), 3) if shape == "two layers" else ((0.15, 0.1, 0.07), 4)
    check(measured(getattr(ls.laws, name), sized(DEEP[shape], sizes, seed, kind)))


@pytest.mark.parametrize("widths", [(5, 7, 3), pytest.param((4, 6, 5, 2), marks=pytest.mark.exhaustive)])
def test_kernel_of_several_outputs_at_the_end_of_training(widths):
    check(measured(ls.laws.FinalKernelOutputs, sized((widths, 12), (0.1, 0.07, 0.05))))


@pytest.mark.parametrize("shape", [((9, 7, 1), 4), ((12, 2, 1), 4)])
def test_kernel_regression_with_the_final_kernel(shape):
    check(measured(ls.laws.KernelRegression, sized(shape, (0.1, 0.05, 0.025))))


def test_regression_does_not_depend_on_the_kernel_of_a_full_span():
    weights, data, rates = network(0, 0.01, widths=(5, 7, 1), samples=20)
    law = ls.laws.KernelRegression.of(weights, data, rates)
    assert np.abs(law()["gap"]).max() <= 1e-15
    np.testing.assert_allclose(law()["map"], learned(law.given), rtol=1e-12)


def halves(weights, data, rates, law):
    """Return the times of `solve` to half of the output along the target and to half of the loss."""
    target, times = learned(law.given), law()
    end = trained(weights, data, rates, law.given)["loss"]
    start = ls.solve(weights, data, 0.0, rates)["loss"]

    def at(t):
        return ls.solve(weights, data, t, rates, rtol=1e-12)

    gaps = {
        "half of the target": lambda t: np.sum(at(t)["map"] * target) / np.sum(target**2) - 0.5,
        "half of the loss": lambda t: at(t)["loss"] - (start + end) / 2,
    }
    return {name: brentq(gaps[name], 0.98 * times[name], 1.02 * times[name], xtol=1e-10) for name in times}


@pytest.mark.parametrize("shape", ["deep data", "narrow"])
@pytest.mark.quick(1)
def test_learning_times(shape):
    errors, small = [], []
    for weights, data, rates in sized(ONE[shape], (0.02, 0.005)):
        law = ls.laws.LearningTime.of(weights, data, rates)
        traj, truth = law(), halves(weights, data, rates, law)
        errors.append([abs(traj[name] / truth[name] - 1) for name in truth])
        small.append(law.small)
        ratio = max(errors[-1]) / traj.error["half of the loss"]
        assert 1 / FACTOR <= ratio <= FACTOR
    slopes = np.diff(np.log(np.max(errors, axis=1))) / np.diff(np.log(small))
    assert np.abs(slopes - 2).max() <= 0.3


@pytest.mark.parametrize("depth", [3, 4])
@pytest.mark.quick(1)
@pytest.mark.exhaustive
def test_learning_times_of_balanced_modes(depth):
    errors, small = [], []
    for sigma in (0.04, 0.02, 0.01):
        weights, data, rates = aligned(0, sigma, depth=depth)
        law = ls.laws.DeepLearningTime.of(weights, data, rates)
        traj = law()
        u, s, vt = np.linalg.svd(learned(law.given))
        name = "half of the target"
        assert traj[name].shape == (2,)

        def gap(t, k, given=(weights, data), eta=rates, modes=(u, s, vt)):
            left, values, right = modes
            return left[:, k] @ ls.solve(*given, t, eta)["map"] @ right[k] - values[k] / 2

        truth = [brentq(gap, t / 2, 2 * t, args=(k,)) for k, t in enumerate(traj[name])]
        errors.append(np.abs(traj[name] / truth - 1).max())
        small.append(law.small)
        assert 1 / FACTOR <= errors[-1] / traj.error[name] <= FACTOR
    slopes = np.diff(np.log(errors)) / np.diff(np.log(small))
    assert np.abs(slopes - traj.orders[name]).max() <= 0.15


@pytest.mark.parametrize("gap", [0.5, -2.0, 10.0])
def test_lazy_training_with_the_fluctuations_of_the_network(gap):
    networks = [on_line(0, overlap, gap=gap) for overlap in (0.04, 0.02, 0.01)]

    def times(law):
        return np.append(np.linspace(0.0, 6.0, 40) / pace(law.given), np.inf)

    check(measured(ls.laws.LazyTraining, networks, times))


@pytest.mark.parametrize(("name", "gaps"), [("LazyRegime", (0.2, 0.1, 0.05)), ("FeatureRegime", (1e2, 1e3, 1e4))])
def test_limits_of_lazy_and_feature_training(name, gaps):
    errors, small = {}, []
    for gap in gaps:
        weights, data, rates = on_line(0, 0.0, gap=gap)
        law = getattr(ls.laws, name).of(weights, data, rates)
        traj, ends = law(), ls.solve(weights, data, [0.0, np.inf], rates)
        n, scales = law.given.network.span[:, 0], np.sqrt(np.sqrt(np.prod(rates)) / rates)
        start, end = (np.append(scales[0] * ends["w1"][k] @ n, scales[1] * ends["w2"][k]) for k in (0, 1))
        half = traj["half time"]
        truth = {
            "kernel change": ends["ntk"][1].max() / ends["ntk"][0].max() - 1,
            "weights": np.linalg.norm(end - start) / np.linalg.norm(start),
            "half time": brentq(
                lambda t, w=weights, d=data, r=rates, e=ends: ls.solve(w, d, t, r)["loss"] - e["loss"].sum() / 2,
                half / 3, 3 * half, xtol=1e-14,
            ),
        }  # fmt: skip
        small.append(law.small)
        for key, value in truth.items():
            errors.setdefault(key, []).append(abs(traj[key] / value - 1))
            assert 1 / FACTOR <= errors[key][-1] / traj.error[key] <= FACTOR, key
    for key, error in errors.items():
        slopes = np.diff(np.log(error)) / np.diff(np.log(small))
        assert np.abs(slopes - traj.orders[key]).max() <= 0.25, (key, slopes)


def test_fluctuations_of_the_overlap_dominate_very_lazy_training():
    traj = ls.laws.LazyRegime.of(*on_line(0, 0.03, gap=0.01))()
    assert traj.error["kernel change"] > 0.5
    assert traj.error["half time"] < 1e-3


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.quick(1)
@pytest.mark.exhaustive
def test_kernel_at_the_start_over_random_networks(depth):
    rng, rates, spreads = np.random.default_rng(depth), RATES_OF[depth], []
    X, Y, widths = rng.normal(size=(2, 5)), rng.normal(size=2), (8, 24, 72)
    for width in widths:
        sizes = [(width, 5), *[(width, width)] * (depth - 2), (1, width)]
        scales, ratios, stated = [1.3, *[0.8] * (depth - 2), 0.6], [], []
        for _ in range(80):
            weights = [c * rng.normal(size=size) / np.sqrt(size[1]) for c, size in zip(scales, sizes, strict=True)]
            law = ls.laws.NTKMoments.of(weights, (X, Y), rates)
            traj = law()
            kernel = law.given.ntk(weights)
            np.testing.assert_allclose(kernel.shape, traj["ntk"].shape)
            ratios.append(kernel[0, 0] / traj["ntk"][0, 0])
            stated.append(traj.error["ntk"])
        assert abs(np.mean(ratios) - 1) <= 4 * np.mean(stated) / np.sqrt(80) + 2 / width
        spreads.append(np.std(ratios))
        assert 0.5 <= spreads[-1] / np.mean(stated) <= 2.0
    slopes = np.diff(np.log(spreads)) / np.diff(np.log(np.asarray(widths) ** -0.5))
    assert np.abs(slopes - traj.orders["ntk"]).max() <= 0.3


RATES_OF = {2: [0.5, 2.0], 3: [0.5, 2.0, 1.3]}


@pytest.mark.parametrize(("n_in", "samples", "ridge"), [(60, 30, 0.0), (60, 20, 5.0)])
def test_error_of_regression_on_a_new_task(n_in, samples, ridge):
    rng = np.random.default_rng(0)
    weights, data, rates = network(1, 0.03, widths=(n_in, 5, 1), samples=2 * n_in)
    given = GivenNetwork.read("test", weights, data, rates)
    beta = learned(given)[0]
    beta, across = beta / np.linalg.norm(beta), rng.normal(size=n_in)
    across = across - (across @ beta) * beta
    tasks = np.stack([2 * beta, beta + 0.5 * across / np.linalg.norm(across)])
    traj = ls.laws.TransferError.of(weights, data, rates, task=tasks, samples=samples, ridge=ridge)()
    end = trained(weights, data, rates, given)
    kernel = rates[1] * end["w1"].T @ end["w1"] + rates[0] * np.sum(end["w2"] ** 2) * np.eye(n_in)
    unit, errors = rates[0] * np.sum(end["w2"] ** 2), []
    for _ in range(1000):
        x = rng.normal(size=(samples, n_in))
        dual = np.linalg.solve(x @ kernel @ x.T + ridge * unit * np.eye(samples), x @ tasks.T)
        errors.append(np.sum((tasks - dual.T @ x @ kernel) ** 2, axis=1))
    mean, noise = np.mean(errors, axis=0), np.std(errors, axis=0) / np.sqrt(1000)
    assert np.all(np.abs(traj["error"] - mean) <= 3 * noise + traj.error["error"] * mean)
    assert traj.error["error"] <= 0.1


def test_the_error_of_transfer_has_the_shape_of_the_tasks():
    weights, data, rates = network(1, 0.03, widths=(6, 5, 1), samples=12)
    task = np.ones(6)
    one = ls.laws.TransferError.of(weights, data, rates, task=task, samples=3)()["error"]
    two = ls.laws.TransferError.of(weights, data, rates, task=[task, 2 * task], samples=3)()["error"]
    assert one.shape == ()
    np.testing.assert_allclose(two, [one, 4 * one], rtol=1e-12)


def test_tasks_along_the_learned_one_differ_by_their_size_alone():
    """Rounding puts the cosine of some of them above 1."""
    weights, data, rates = network(1, 0.03, widths=(6, 5, 1), samples=12)
    sizes = np.random.default_rng(0).uniform(0.5, 2.0, 300)
    tasks = sizes[:, None] * np.linalg.lstsq(*data)[0][:, 0]
    errors = ls.laws.TransferError.of(weights, data, rates, task=tasks, samples=3)()["error"]
    np.testing.assert_allclose(errors / sizes**2, errors[0] / sizes[0] ** 2, rtol=1e-12)


def test_phase_one_equals_the_formulas_of_the_law():
    weights, data, rates = network(0, 0.01, widths=(5, 7, 1), samples=20)
    given = GivenNetwork.read("test", weights, data, rates)
    net, t = LinearizedNetwork.of(given), np.linspace(0.0, 2.0, 5)
    (first, last), scale = net.layers, net.red.inputs
    t = t / net.rate
    law = ls.laws.EarlyAlignment(last=last[0], first=first, target=net.target[0], times=t * net.clock)
    kernel = law.approximation(np, 1.0)["kernel"]
    inputs = data[0] @ scale
    found = ls.laws.EarlyAlignment.of(weights, data, rates)(t)["ntk"]
    np.testing.assert_allclose(found, net.red.clock * inputs @ kernel @ inputs.T, rtol=1e-10, atol=1e-18)


def test_overlaps_of_phase_one_equal_the_formulas_of_the_law():
    weights, data, rates = network(0, 0.01, widths=(5, 7, 1), samples=20, kind="anisotropic")
    net, t = LinearizedNetwork.of(GivenNetwork.read("test", weights, data, rates)), np.linspace(0.0, 0.5, 5)
    t = t / net.rate
    (first, last), target = net.layers, net.target[0]
    law = ls.laws.EarlyAnisotropic(
        last=last[0], first=first, target=target, covariance=net.red.covariance, times=t * net.red.clock
    )
    found = ls.laws.EarlyAnisotropic.of(weights, data, rates)(t)
    output = found["map"][:, 0] @ net.red.inputs @ target / np.linalg.norm(target) * net.red.outputs[0, 0]
    np.testing.assert_allclose(output, law.approximation(np, 1.0)["output"], rtol=1e-9, atol=1e-16)


# bad input


def case(**change):
    about = {"widths": (5, 7, 1), "samples": 20, "kind": "white"} | change
    return network(0, 0.01, **about)


COLORED = {"kind": "anisotropic"}
REFUSED = [
    ("MatchedOutputs", case(**COLORED), "whiteness"),
    ("MatchedOutputs", case(widths=(5, 4, 4, 2)), "depth = 3 must be 2"),
    ("MatchedOutputs", network(0, 3.0, widths=(5, 7, 2), samples=9), "sigma = "),
    ("MatchedSolution", case(widths=(5, 7, 3)), "outputs = 3 must be 1"),
    ("RefinedMatchedSolution", network(0, 5.0, widths=(5, 7, 1), samples=9), "sigma = "),
    ("KernelAlignment", case(**COLORED), "whiteness"),
    ("EarlyAlignment", case(**COLORED), "whiteness"),
    ("EarlyAnisotropic", case(widths=(5, 7, 2)), "outputs = 2"),
    ("EarlyKernelDirection", case(widths=(5, 7, 7, 1)), "depth = 3"),
    ("LearningTime", case(**COLORED), "whiteness"),
    ("DeepLearningTime", case(), "depth = 2 must be above 2"),
    ("DeepLearningTime", case(widths=(5, 7, 7, 1)), "imbalance"),
    ("FinalKernel", case(**COLORED), "whiteness"),
    ("FinalKernel", case(widths=(5, 1)), "depth = 1 must be at least 2"),
    ("FinalKernelAnisotropic", case(widths=(5, 7, 2)), "outputs = 2"),
    ("FinalKernelOutputs", case(**COLORED), "whiteness"),
    ("LayerKernels", network(0, 5.0, widths=(5, 7, 1), samples=9), "sigma = "),
    ("KernelRegression", case(**COLORED), "whiteness"),
    ("LazyTraining", case(), "distance from a line"),
    ("LazyRegime", on_line(0, 0.0, gap=3.0), "G = 3"),
    ("FeatureRegime", on_line(0, 0.0, gap=0.5), "1/G = 2"),
    ("NTKMoments", case(widths=(5, 7, 2)), "outputs = 2"),
    ("FinalAlignment", case(), "distance from a line"),
]


@pytest.mark.parametrize(("name", "given", "condition"), REFUSED)
def test_a_condition_that_fails_is_named_with_its_value(name, given, condition):
    with pytest.raises(ls.NotExact, match=rf"^{name}\.of: {condition}"):
        getattr(ls.laws, name).of(*given)


def test_every_law_is_applied_or_gives_the_reason():
    weights, data, rates = case()
    without = [law for law in ls.laws.ALL if law.without_network()]
    assert len(ls.laws.ALL) - len(without) == 24
    for law in without:
        with pytest.raises(TypeError, match=rf"^{law.__name__}\.of: the law has no network of its own \(.+\); pass"):
            law.of(weights, data, rates)
        assert law.unapplied, law.__name__


def test_the_how_to_runs(capsys):
    page = Path(__file__).parents[2] / "notebooks" / "site" / "laws.md"
    told, names = page.read_text(encoding="utf-8"), {}
    for block in re.findall(r"```python\n(.*?)```", told, re.DOTALL):
        exec(compile(block, page.name, "exec"), names)
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "law MatchedOutputs, relative error O(sigma^2), about 4e-05"
    assert shown[2] == "True"
    assert shown[3].startswith("MatchedOutputs.of: whiteness = 0.6 must be at most 1e-09 (")
    for law in ls.laws.ALL:
        assert f"(cards/{law.__name__}.md)" in told, law.__name__


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": lambda w: [w[0].T, w[1]]}, r"MatchedOutputs\.of: W"),
        ({"weights": lambda w: [w[0] * np.nan, w[1]]}, r"MatchedOutputs\.of: W1"),
        ({"data": lambda d: (d[0][:, :3], d[1])}, r"MatchedOutputs\.of: "),
        ({"rates": lambda r: [1.0]}, r"MatchedOutputs\.of: rates"),
        ({"t": -1.0}, r"MatchedOutputs: t = -1\.0 must lie"),
        ({"t": [0.0, np.nan]}, "MatchedOutputs: t = nan"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(change, message):
    weights, data, rates = case()
    given = {"weights": weights, "data": data, "rates": rates}
    for name, value in change.items():
        if name != "t":
            given[name] = value(given[name])
    with pytest.raises(ValueError, match=f"^{message}"):
        ls.laws.MatchedOutputs.of(**given)(change.get("t", 1.0))


def test_phase_one_ends():
    law = ls.laws.EarlyAlignment.of(*case())
    with pytest.raises(ls.NotExact, match="largest output"):
        law(20.0 / pace(law.given))
    with pytest.raises(ValueError, match=r"^EarlyAlignment: t = inf must be at most"):
        law(np.inf)


def test_a_law_is_called_with_its_time():
    with pytest.raises(TypeError, match=r"MatchedOutputs: the law needs times; call it as law\(t\)"):
        ls.laws.MatchedOutputs.of(*case())()
    with pytest.raises(TypeError, match=r"FinalKernel: the law has no time; call it as law\(\)"):
        ls.laws.FinalKernel.of(*case())(1.0)


def test_the_end_of_training_is_the_limit_of_the_matched_law():
    for name in ("MatchedOutputs", "RefinedMatchedSolution", "KernelAlignment"):
        law = getattr(ls.laws, name).of(*case())
        np.testing.assert_allclose(law(np.inf)["map"], learned(law.given), atol=1e-5)


def test_moments_give_the_same_law_without_the_samples():
    weights, (X, Y), rates = case(widths=(5, 7, 3))
    moments = X.T @ X / len(X), Y.T @ X / len(X)
    t = np.linspace(0.0, 5.0, 7)
    full = ls.laws.MatchedOutputs.of(weights, (X, Y), rates)(t)
    bare = ls.laws.MatchedOutputs.of(weights, moments, rates, covariances=True)(t)
    assert bare.keys() == ["map", "loss"]
    np.testing.assert_allclose(bare["map"], full["map"], atol=1e-12)
    with pytest.raises(KeyError, match="ntk"):
        bare["ntk"]


def test_a_map_that_the_law_does_not_determine_is_named():
    traj = ls.laws.MatchedOutputs.of(*case(widths=(6, 5, 2), samples=4))(1.0)
    with pytest.raises(KeyError, match=r"'map' is unknown; .* \(the law does not determine the map outside the span"):
        traj["map"]


def test_values_over_time_are_tabled():
    pytest.importorskip("pandas")
    law = ls.laws.MatchedOutputs.of(*case())
    frame = law([0.0, 1.0]).to_dataframe(["loss"])
    assert frame["value"].tolist() == law([0.0, 1.0])["loss"].tolist()
    assert len(ls.laws.LearningTime.of(*case())().to_dataframe()) == 2
    assert "O(sigma^2)" in law(1.0)._repr_html_()


def test_a_trajectory_of_a_law_is_drawn():
    law = ls.laws.MatchedOutputs.of(*case())
    traj = law(np.linspace(0.0, 10.0, 20))
    assert traj.route.startswith("law MatchedOutputs, relative error O(sigma^2), about ")
    with ls.plot.figure() as (_, ax):
        assert len(ls.plot.trajectory(traj, "loss", ax).lines) == 1


@pytest.mark.parametrize("lost", ["rates", "second moment", "imbalance"])
def test_a_wrong_coordinate_is_noticed(lost, monkeypatch):
    """The order of the error detects a law that drops rates or moments; the estimate a wrong imbalance."""
    if lost == "imbalance":
        monkeypatch.setattr(SmallNetwork, "imbalance", property(lambda net: 1e-3 * net.small**2))
    else:
        monkeypatch.setattr(
            SmallNetwork, "clock", property(lambda net: net.kappa if lost == "rates" else net.red.clock)
        )
    with pytest.raises(AssertionError):
        check(measured(ls.laws.MatchedOutputs, sized(SEVERAL["three outputs"]), whole, names=["map", "loss"]))


def test_a_balanced_start_of_any_size_is_exact():
    rng = np.random.default_rng(0)
    weights, X = [np.diag([1.0, 0.5, 0.2]) @ np.eye(3, 4), np.diag([1.0, 0.5, 0.2])], rng.normal(size=(20, 4))
    data, t = (np.linalg.qr(X)[0], rng.normal(size=(20, 3))), np.linspace(0.0, 50.0, 9)
    traj = ls.laws.MatchedOutputs.of(weights, data)(t)
    assert traj.error["map"] == 1e-12
    np.testing.assert_allclose(traj["map"], ls.solve(weights, data, t)["map"], atol=1e-11)


@pytest.mark.parametrize("name", ["MatchedSolution", "RefinedMatchedSolution"])
def test_the_estimate_contains_the_start_that_the_law_neglects(name):
    """The laws start at an output of 0; over early times alone that is the largest error."""
    weights, data, rates = case()
    _, error, estimate, _ = measured(getattr(ls.laws, name), [(weights, data, rates)], lambda law: 0.1 * early(law))
    assert error["output"][0] > 0.05
    assert 1 / FACTOR <= error["output"] / estimate["output"] <= FACTOR


@pytest.mark.parametrize("name", ["FinalKernel", "LayerKernels", "FinalKernelOutputs", "TransferError"])
def test_a_start_that_never_learns_is_refused(name):
    weights, data, rates = case()
    task = {"task": np.ones(5), "samples": 3} if name == "TransferError" else {}
    with pytest.raises(ls.NotExact, match=rf"^{name}\.of: gradient at the start = 0 must not vanish"):
        getattr(ls.laws, name).of([0 * each for each in weights], data, rates, **task)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(1, 9))
def test_estimates_over_random_networks(seed):
    rng = np.random.default_rng(seed)
    for name in ("MatchedOutputs", "RefinedMatchedSolution", "KernelAlignment", "EarlyAlignment"):
        n_in, width = (int(n) for n in rng.integers(2, 25, 2))
        outputs = int(rng.integers(1, 4)) if name == "MatchedOutputs" else 1
        shape = ((n_in, width, outputs), int(rng.integers(2, 40)))
        _, errors, estimates, _ = measured(
            getattr(ls.laws, name), sized(shape, (0.01,), seed), early if name == "EarlyAlignment" else whole
        )
        for key, error in errors.items():
            assert 1 / FACTOR <= error / estimates[key] <= FACTOR, (name, key, shape)


def test_laws_of_networks_are_shown():
    law = ls.laws.MatchedOutputs.of(*case())
    assert isinstance(law, NetworkLaw)
    assert repr(law).startswith("MatchedOutputs.of(5-7-1 network; sigma = ")
    assert "route: law MatchedOutputs" in repr(law(1.0))


DEEP_LAWS = ("UnalignedLearningTime", "FirstLayerAlignment", "SaddleToSaddle")


@pytest.mark.parametrize("name", DEEP_LAWS)
@pytest.mark.quick(1)
def test_layers_decades_apart_are_refused_by_name_and_smaller_ones_answered(name):
    weights, data, rates = network(0, 0.02, widths=(4, 5, 5, 1), samples=9)
    cls = getattr(ls.laws, name)
    for k in range(3):
        given = [layer * (1e-8 if j == k else 1.0) for j, layer in enumerate(weights)]
        assert cls.of(given, data, rates).small < 1
        given[k] = 1e-100 * weights[k]
        with pytest.raises(ValueError, match=r"start = .* must lie between 1e-20 .* layer by layer"):
            cls.of(given, data, rates)
    with pytest.raises(ls.NotExact, match=r"sigma = .* must be below 1"):
        cls.of([1e30 * layer for layer in weights], data, rates)


def test_a_first_layer_of_zeros_has_no_direction_to_turn():
    weights, data, rates = network(0, 0.02, widths=(4, 5, 5, 1), samples=9)
    for name in DEEP_LAWS[:2]:
        with pytest.raises(ValueError, match="start = 0 in the first layer must not vanish"):
            getattr(ls.laws, name).of([0 * weights[0], *weights[1:]], data, rates)


@pytest.mark.parametrize(("factor", "refused"), [(1e-59, False), (1e-100, True), (0.0, True)])
def test_a_correlation_too_weak_for_a_direction_is_refused(factor, refused):
    weights, (X, Y), rates = network(0, 1e-40, widths=(3, 4, 1), samples=9, kind="anisotropic")

    def call():
        return ls.laws.EarlyKernelDirection.of(weights, (X, factor * Y), rates)(0.0)

    if refused:
        with pytest.raises(ls.NotExact, match=r"Sigma_yx = .* must have an entry of at least 1e-60"):
            call()
    else:
        assert np.isfinite(call()["kernel direction"]).all()


def test_a_last_layer_of_zeros_has_a_direction_as_soon_as_it_moves():
    weights, data, rates = network(0, 1e-7, widths=(3, 4, 1), samples=9, kind="anisotropic")
    law = ls.laws.EarlyKernelDirection.of([weights[0], 0 * weights[1]], data, rates)
    assert law(0.0).error["kernel direction"] == np.inf
    assert 0 < law(5.0 / pace(law.given)).error["kernel direction"] < 1


@pytest.mark.parametrize("task", [[1.7e308, 0.0, 1.0], [0.0, 0.0, 0.0], [5e-324, 0.0, 0.0]])
def test_a_task_of_an_extreme_size_is_refused(task):
    weights, data, rates = network(0, 0.02, widths=(3, 4, 1), samples=9)
    with pytest.raises(ValueError, match=r"TransferError.of: task = .* must have a largest entry between"):
        ls.laws.TransferError.of(weights, data, rates, task=task, samples=3)


def test_the_latest_times_are_the_limit():
    weights, data, rates = on_line(0, 0.0, gap=0.1)
    traj = ls.laws.LazyTraining.of(weights, data, rates)([1e3, 1.7e308])
    np.testing.assert_allclose(traj["output"][1], traj["output"][0], rtol=1e-14)
    weights, data, rates = network(0, 0.02, widths=(3, 4, 1), samples=9)
    traj = ls.laws.MatchedSolution.of(weights, data, rates)([1e6, 1.7e308])
    np.testing.assert_allclose(traj["map"][1], traj["map"][0], rtol=1e-14)
