"""`linsolve collapse`: what it finds, what it draws and writes, and what it refuses."""

import json
import re

import numpy as np
import pytest
from selection import quick

import linsolve as ls
from linsolve.__main__ import main
from linsolve.studies.collapse import KINDS, BlockNetwork, collapse, follow
from linsolve.studies.collapse.figures import FIGURES, _known
from linsolve.studies.collapse.report import numbers, summary, write
from linsolve.studies.collapse.starts import draw
from linsolve.systems.collapse import limits
from linsolve.systems.collapse.contrasts import contrasts
from linsolve.systems.collapse.network import kernel

SHORT = ["--until", "2", "--step", "0.01"]
FILES = {f"{name}.{kind}" for name in FIGURES for kind in ("png", "pdf")} | {
    "linsolve.json",
    "metrics.json",
    "collapse.npz",
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def flow(classes=3, m=4):
    return ls.NeuralCollapse(2.0, 1.0, 0.5, classes, m)


# what it finds


def test_the_module_is_a_lazy_attribute():
    assert "collapse" in dir(ls)
    assert ls.collapse.collapse is collapse


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.quick(3)
def test_theory_and_simulations_of_every_kind_agree(kind):
    found = collapse(flow(), start=kind, until=3.0, step=0.005, seed=2)
    assert found.differences["simulated"] < 1e-8
    assert found.differences["descended"] < 0.05
    assert (found.theory.route == "closed form") == (not found.reason)
    assert np.array_equal(found.theory.t, found.descended.t)
    for name, traj in found.routes.items():
        parts = sum(found.part(part, name) ** 2 for part in ("sample", "class", "global"))
        np.testing.assert_allclose(parts, 2 * traj["loss"], atol=1e-12)


@pytest.mark.parametrize(("kind", "bias"), [("balanced", 0.1), ("balanced", -2.0), ("mean", None)])
@pytest.mark.parametrize("classes", quick([3, 2, 4], 1))
@pytest.mark.quick(1)
def test_a_start_of_the_wrong_parity_is_named(kind, bias, classes):
    right = draw(flow(classes), kind, 5, 0.5, 0.0, bias, 0)
    contrast = contrasts(np, classes)[:, 0]
    wrong = right[0], right[1] - 2 * np.outer(contrast, contrast) @ right[1], right[2]
    options = {"start": kind, "step": 0.01}
    found = collapse(flow(classes), weights=wrong, until=12.0, **options)
    assert found.obstructed
    for route in found.routes.values():  # one contrast is not learned; rounding may learn it later
        assert np.count_nonzero(np.abs(route["loss"] - flow(classes).m / 2) < 0.01) > 5
    said = numbers(found)
    assert said["obstructed"] is True
    assert {name: end["loss"] for name, end in said["end"].items()} == {
        name: float(route["loss"][-1]) for name, route in found.routes.items()
    }
    for name, route in found.routes.items():
        last = type(route.state)(*(field[-1] for field in route.state))
        assert (said["end"][name]["gamma"], said["end"][name]["theta"]) == limits.frame_of(found.flow, last)
    assert dict(summary(found))["parity"].startswith("obstructed: the flow ends at a saddle")
    found = collapse(flow(classes), weights=right, until=1.0, **options)
    assert not found.obstructed
    assert "parity" not in dict(summary(found))


def test_parity_obstructs_no_start_that_can_turn():
    opposite = np.diag([-1.0, 1.0, 1.0])
    for kind, imbalance in (("balanced", 0.0), ("lambda", 0.5), ("scatter", 0.0), ("generic", 0.0)):
        for turn in (np.eye(3), opposite):
            h, w, b = draw(flow(), kind, 5, 0.5, imbalance, None, 1)
            assert not limits.obstructed(flow(), (h, turn @ w, b))


def test_half_the_step_halves_the_distance_of_descent():
    coarse, fine = (collapse(flow(), until=2.0, step=step).differences["descended"] for step in (0.008, 0.004))
    assert coarse / fine == pytest.approx(2, abs=0.1)


def test_it_says_which_condition_of_the_closed_form_fails_and_by_how_much():
    found = collapse(flow(), start="generic", until=1.0, step=0.01)
    failing = {name: size for name, size in found.conditions.items() if size > ls.NeuralCollapse.tolerance}
    assert failing
    assert "NeuralCollapse: " in found.reason
    name, size = re.match(r"NeuralCollapse: (.*) = (\S+) must vanish", found.reason).groups()
    assert failing[name] == pytest.approx(float(size), rel=0.01)
    rows = dict(summary(found))
    assert rows["theory"] == "no closed form from this start; closed flow integrated"
    assert rows["because"].startswith(name)
    assert not found.predicted


@pytest.mark.parametrize("kind", ["balanced", "lambda"])
def test_starts_that_are_solvable_are_followed_in_closed_form(kind):
    found = collapse(flow(), start=kind, until=2.0, step=0.01, bias=0.2)
    assert found.theory.route == "closed form"
    assert max(found.conditions.values()) < 1e-9


@pytest.mark.parametrize("bias", [None, 0.1])
@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.quick(2)
def test_balanced_weights_of_either_classifier_reach_the_simplex_whatever_the_seed(classes, bias):
    f = flow(classes)
    for kind in ("balanced", "mean", "aligned"):
        for seed in range(6):
            imbalance = 0.3 if kind == "aligned" else 0.0
            end = f(np.inf, f.of(*draw(f, kind, classes + 1, 0.3, imbalance, bias, seed)))
            assert end["loss"] < 1e-12  # no start of the wrong parity, which would stay on a saddle


def test_given_weights_are_followed():
    f = flow()
    weights = f.init(5, scale=0.4, rng=9)
    found = collapse(f, weights=weights, until=2.0, step=0.01)
    np.testing.assert_array_equal(found.weights[0], weights[0])
    assert found.settings["features"] == 5


def test_weights_of_another_imbalance_are_refused():
    f = flow()
    h, w, b = f.init(5, scale=0.4, imbalance=0.3, rng=9)
    for start, options, message in (
        ("balanced", {}, r"start = 'balanced' has E = 0 but these weights miss it by 0.3, .* say start = 'generic'"),
        ("lambda", {"imbalance": 0.2}, r"start = 'lambda' has E = 0.2 P_S but these weights miss it by 0.1"),
        (
            "aligned",
            {},
            r"start = 'aligned' has class means M with W M and M W symmetric, no scatter but these weights",
        ),
    ):
        with pytest.raises(ValueError, match="collapse: " + message):
            collapse(f, weights=(h, w, b), start=start, **options)
    assert collapse(f, weights=(h, w, b), start="lambda", imbalance=0.3, until=1.0, step=0.01).predicted


def test_network_is_its_own_statement():
    rng = np.random.default_rng(0)
    network = BlockNetwork(rng.normal(size=(3, 4)), rng.normal(size=(2, 4)))
    z = network.State(rng.normal(size=(2, 3)), rng.normal(size=(3, 3)), rng.normal(size=2))
    # its velocity is minus the gradient of the loss, without any kernel
    for name, v in zip(z._fields, network.velocity(np, z), strict=True):
        for index in np.ndindex(v.shape):
            bump = np.zeros(v.shape)
            bump[index] = 1e-6
            up, down = (network.loss(np, z._replace(**{name: getattr(z, name) + s * bump})) for s in (1, -1))
            assert v[index] == pytest.approx(-(up - down) / 2e-6, abs=1e-7)


def test_kernel_has_the_eigenvalues_of_the_flow():
    f = flow()
    sample, middle, large = (float(v) for v in f.rates_of_features(np))
    expected = [sample] * 9 + [middle] * 2 + [large]
    np.testing.assert_allclose(np.linalg.eigvalsh(kernel(f)), expected, atol=1e-13)


def test_simulation_does_not_use_the_velocity_of_the_flow(monkeypatch):
    f = flow()
    weights = f.init(4, scale=0.3, rng=0)
    before = follow(ls.integrate, f, [1.0], weights)["loss"]
    monkeypatch.setattr(ls.NeuralCollapse, "velocity", None)
    np.testing.assert_array_equal(follow(ls.integrate, f, [1.0], weights)["loss"], before)


# what it draws


def drawn(found, name):
    import matplotlib.pyplot as plt

    fig = plt.figure(layout="constrained")
    FIGURES[name][0](found, fig)
    fig.canvas.draw()
    plt.close(fig)
    return fig


LONG = [pytest.param(kind, 3, marks=pytest.mark.exhaustive) for kind in ("scatter", "generic")]


@pytest.mark.parametrize(("kind", "classes"), [("balanced", 2), *LONG])
def test_figures_have_their_scales_marks_and_source(kind, classes):
    found = collapse(flow(classes), start=kind, until=6.0, step=0.01)
    metrics, residuals, kernels = (drawn(found, name) for name in FIGURES)
    assert [ax.get_yscale() for ax in metrics.axes] == ["log"] * 3 + ["linear"]
    assert residuals.axes[0].get_yscale() == "log"
    assert residuals.axes[0].get_xscale() == ("log" if kind == "scatter" else "linear")
    for ax in (*metrics.axes, *residuals.axes):
        assert ax.get_xlabel()
        assert ax.get_ylabel()
    nc1 = metrics.axes[0]
    assert len(nc1.lines) == (0 if kind == "balanced" else 3)  # theory, integrator, descent
    assert bool(nc1.texts) == (kind == "balanced")
    assert len([ax for ax in kernels.axes if ax.images]) == 7
    for fig in (metrics, residuals, kernels):
        assert "Seleznova" in fig.get_supxlabel()


def test_dashes_of_the_residual_have_the_predicted_slope():
    found = collapse(flow(), bias=0.1, seed=1, step=0.01)
    dashed = [line for line in drawn(found, "residuals").axes[0].lines if line.is_dashed()]
    slopes = [-np.polyfit(line.get_xdata(), np.log(line.get_ydata()), 1)[0] for line in dashed]
    expected = [found.rates[name].predicted for name in ("global", "class")]
    np.testing.assert_allclose(slopes, expected, rtol=1e-9)


@pytest.mark.parametrize(("kind", "levels_off"), [("aligned", False), ("balanced", True)])
def test_only_a_picture_with_a_descent_that_levels_off_says_so(kind, levels_off):
    found = collapse(flow(4), start=kind, step=0.002)
    assert (found.descended["nc3"][-1] > 2 * max(found.theory["nc3"][-1], 1e-14)) == levels_off
    assert ("levels off" in drawn(found, "metrics").get_supxlabel()) == levels_off
    assert "levels off" not in drawn(found, "residuals").get_supxlabel()


def test_the_time_axis_of_the_residual_ends_with_its_lines():
    found = collapse(flow(4), start="aligned", step=0.002)
    ax = drawn(found, "residuals").axes[0]
    whole = np.sqrt(2 * found.theory["loss"])
    last = found.theory.t[whole > ax.get_ylim()[0]][-1]
    assert last < found.theory.t[-1] / 2
    assert last <= ax.get_xlim()[1] <= 1.05 * last


# what it writes


def test_lines_of_the_residual_end_where_their_route_is_accurate_no_more():
    found = collapse(start="scatter", bias=0.1, until=12.0, step=0.05)
    for route, above in (("theory", 1e-10), ("simulated", 1e-10), ("descended", 0.0)):
        own, shown = found.part("global", route), _known(found, "global", route)
        seen = np.isfinite(shown)
        assert np.all(own[seen] >= above * own[0])
        assert np.all(np.diff(seen.astype(int)) <= 0)
        assert seen.all() == (route == "descended")


def test_command_writes_everything_and_says_what_it_found(here, capsys):
    assert main(["collapse", "--start", "balanced", "--out", "a/b", *SHORT]) == 0
    assert {path.name for path in (here / "a" / "b").iterdir()} == FILES
    assert [path.name for path in (here / "a").iterdir()] == ["b"]
    out = capsys.readouterr().out
    assert "closed form" in out
    assert float(re.search(r"DOP853 on the weights +(\S+)", out)[1]) < 1e-8
    assert re.search(r"gamma at the end .*; W W\^T ~ I - gamma J, J all ones", out)
    assert re.search(r"theta at the end .*; Gram matrix of the class means ~ I - theta J", out)
    found = json.loads((here / "a" / "b" / "metrics.json").read_text(encoding="utf-8"))
    assert found["settings"]["start"] == "balanced"
    assert found["end"]["theory"]["loss"] == pytest.approx(found["end"]["simulated"]["loss"], rel=1e-5)
    assert found["rates"]["sample"] == {"law": "none", "predicted": None, "measured": None}
    with np.load(here / "a" / "b" / "collapse.npz", allow_pickle=False) as arrays:
        f = flow()
        again = f(arrays["t"], f.of(arrays["h"], arrays["w"], arrays["b"]))
        for name in again.state._fields:
            np.testing.assert_allclose(arrays[f"theory_{name}"], again[name], atol=1e-12)
        np.testing.assert_allclose(arrays["simulated_gram_w"], again["gram_w"], atol=1e-8)


@pytest.mark.exhaustive
def test_by_default_all_parts_of_the_residual_decay_the_global_one_first(here, monkeypatch, capsys):
    monkeypatch.setattr("linsolve.studies.collapse.figures.FIGURES", {})
    assert main(["collapse"]) == 0
    found = json.loads((here / "collapse-scatter" / "metrics.json").read_text(encoding="utf-8"))
    rates = [found["rates"][name] for name in ("global", "class", "sample")]
    assert [rate["law"] for rate in rates] == ["exp"] * 3
    assert rates[0]["measured"] > rates[1]["measured"] > rates[2]["measured"] > 0
    assert [rate["measured"] for rate in rates] == pytest.approx([rate["predicted"] for rate in rates], rel=1e-3)


def test_a_rate_is_not_measured_across_a_change_of_sign():
    t = np.linspace(0, 40, 161)
    for late, seen in ((0.0, 0.7), (1e-3, None)):  # exp(-.7 t) - late exp(-.3 t) changes its sign at t = 17.3
        size = np.abs(np.exp(-0.7 * t) - late * np.exp(-0.3 * t))
        assert limits.fitted(t, size, "exp", 1e-7) == (pytest.approx(seen) if seen else None)


def test_earlier_result_is_replaced_and_anything_else_is_kept(here, monkeypatch):
    monkeypatch.setattr("linsolve.studies.collapse.figures.FIGURES", {})  # they are drawn elsewhere
    found = collapse(flow(), until=1.0, step=0.01)
    write(found, "result")
    write(collapse(flow(), until=1.0, step=0.01, seed=1), "result")
    assert json.loads((here / "result" / "metrics.json").read_text())["settings"]["seed"] == 1
    (here / "mine").mkdir()
    (here / "mine" / "metrics.json").write_text("mine")
    (here / "file").write_text("mine")
    for place, message in (("mine", "holds other files and is not overwritten"), ("file", "is not a folder")):
        with pytest.raises(ValueError, match=f"collapse: out = {place} {message}"):
            write(found, place)
    assert (here / "mine" / "metrics.json").read_text() == (here / "file").read_text() == "mine"


def test_json_has_no_nan():
    found = collapse(flow(), weights=(np.zeros((4, 12)), np.zeros((3, 4)), np.zeros(3)), until=1.0, step=0.01)
    text = json.dumps(numbers(found), allow_nan=False)
    assert '"gamma": null' in text
    assert dict(summary(found))["gamma at the end"].startswith("not defined")


def test_list_says_what_the_kinds_are(capsys):
    assert main(["collapse", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(KINDS)


# what it refuses

BAD = {
    "--kappas 1,2,0.5": "kappa_c = 2 must be less than kappa_d = 1",
    "--kappas 2,0.5,1": "kappa_n = 1 must be at most kappa_c = 0.5",
    "--kappas 2,1": "kappas = '2,1' must be three numbers",
    "--kappas 2,one,0": "kappas = '2,one,0' must be three numbers",
    "--classes 1": "classes = 1.0 must lie in [2, inf)",
    "--samples 0": "m = 0.0 must lie in [1, inf)",
    "--features 0": "features = 0 must be a whole number of at least 1",
    "--features 2 --start mean": "features = 2 must be a whole number of at least 3",
    "--features 1 --start aligned": "features = 1 must be a whole number of at least 2",
    "--scale 0": "scale = 0.0 must be a number in (0, 100]",
    "--scale nan": "scale = nan must be a number in (0, 100]",
    "--start lamda": "start = 'lamda' is unknown; did you mean 'lambda'?",
    "--imbalance 0.3": "imbalance = 0.3 must not be given with start = 'scatter'",
    "--start lambda --imbalance 0": "imbalance = 0.0 must be at most 100 and not zero",
    "--start aligned --imbalance inf": "imbalance = inf must be at most 100 and not zero",
    "--start scatter --samples 1": "m = 1 must be at least 2",
    "--bias nan": "bias = nan must be a number in [-100, 100]",
    "--seed -1": "seed = -1 must be a whole number of at least 0",
    "--until 0": "until = 0.0 must be positive and finite",
    "--step -1": "step = -1.0 must be positive and finite",
    "--step 1 --until 100": "diverged",
    "--weights none.npz": "weights = none.npz does not exist",
    "--weights text.npz": "weights = text.npz is not an archive of plain arrays",
    "--weights short.npz": "weights = short.npz has no w, b",
    "--weights wrong.npz": "h has 5 columns but needs 12",
    "--out text.npz": "out = text.npz is not a folder",
}


@pytest.mark.parametrize(("options", "message"), BAD.items())
def test_bad_commands_are_one_line_and_write_nothing(here, capsys, options, message):
    (here / "text.npz").write_text("no archive")
    np.savez(here / "short.npz", h=np.ones((2, 12)))
    np.savez(here / "wrong.npz", h=np.ones((2, 5)), w=np.ones((3, 2)), b=np.ones(3))
    before = sorted(path.name for path in here.iterdir())
    assert main(["collapse", *options.split()]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1
    assert sorted(path.name for path in here.iterdir()) == before


def test_other_misuse_is_refused():
    with pytest.raises(TypeError, match="collapse: flow = 3 must be a NeuralCollapse"):
        collapse(3)
    with pytest.raises(ValueError, match=r"collapse: kappa_d has shape \(2,\) but must be a number"):
        collapse(ls.NeuralCollapse([2.0, 3.0], 1.0, 0.5, 3, 4))
    with pytest.raises(ValueError, match="collapse: weights must be three arrays"):
        collapse(flow(), weights=(np.ones((3, 4)), np.ones(3)))
    with pytest.raises(ValueError, match="NeuralCollapse: w has shape"):
        collapse(flow(), weights=(np.ones((3, 12)), 3.0, np.ones(3)))
    with pytest.raises(ValueError, match="collapse: weights have batch axes"):
        collapse(flow(), weights=(np.ones((2, 4, 12)), np.ones((3, 4)), np.ones(3)))


def test_prediction_follows_the_bias_that_given_weights_end_with():
    f = flow()
    weights = draw(f, "mean", 5, 0.4, 0.0, 0.1, 3)
    found = collapse(f, weights=weights, start="balanced", step=0.01)
    assert found.predicted["nc3"] > 0.01
    for name, value in found.predicted.items():
        if name not in ("gamma", "theta"):
            assert value == pytest.approx(float(found.theory[name][-1]), abs=1e-8)


@pytest.mark.parametrize("start", [np.ma.masked, [], {}, None, 1.5], ids=str)
def test_a_start_that_is_no_name_is_refused(start):
    with pytest.raises(ValueError, match=r"collapse: start = .* is unknown"):
        ls.collapse.collapse(start=start)
