import numpy as np
import pytest
from legibility import alike, covered

import linsolve as ls
from linsolve.__main__ import main
from linsolve.plot import figure
from linsolve.studies import figures
from linsolve.studies.figures import (
    accuracy,
    adaptation,
    alignment,
    attention,
    classes,
    depth,
    directions,
    generalization,
    lazy,
    lazy_deep,
    leaky_units,
    linearized,
    modalities,
    networks,
    pathways,
    phases,
    random_kernels,
    spikes,
    starts,
    task_sequences,
    transfer,
)


def panels(name, data, module):
    about = figures.FIGURES[name]
    with figure(1, about.panels, figsize=figures.size(about)) as (fig, axes):
        getattr(module, f"draw_{about.name}")(axes, data)
        fig.canvas.draw()
        ends = [*(ax.get_tightbbox().x0 for ax in axes[1:]), fig.bbox.x1 - 4]
        for ax, end in zip(axes, ends, strict=True):
            assert alike(ax) == []
            assert covered(ax) == []
            assert ax._left_title.get_window_extent().x1 <= end
            assert not ax.get_xlabel().endswith(("time $t$", "t_1$"))  # without a unit
            assert ax.get_xlabel()
            assert ax.get_ylabel()
            assert ax.get_title(loc="left")
        return [[len(ax.lines), len(ax.images) + len(ax.collections)] for ax in axes]


def test_figure_2_kernel_is_that_of_the_closed_form():
    data = phases.compute_2()
    np.testing.assert_allclose(data["simulated"], data["theory"], atol=1e-4)
    values = [np.linalg.eigvalsh(m) for m in data["theory"]]
    assert [v[1] / v[0] for v in values] == pytest.approx([1.0, 1.9, 2.0], abs=0.2)
    np.testing.assert_allclose(data["map"][-1] @ data["beta"], data["s"], atol=1e-3)
    assert len(panels("2", data, phases)) == 3


@pytest.mark.exhaustive
def test_figure_8_trained_kernels_learn_fastest_and_theory_lies_on_the_simulation():
    data = linearized.compute_8()
    for panel in data.values():
        for name, simulated in panel["simulated"].items():
            closed = getattr(panel["at_marks"], name)
            np.testing.assert_allclose(simulated, closed, atol=1e-7 * closed[0])
        later = panel["theory"]["initial"] > 1e-3 * panel["theory"]["initial"][0]
        later[:50] = False
        assert (panel["theory"]["final"][later] < panel["theory"]["initial"][later]).all()
    panels("8", data, linearized)


@pytest.mark.exhaustive
def test_figure_of_linear_attention_has_trained_heads_on_the_theory():
    data = attention.compute_attention()
    for curve in [*data["merged"].values(), data["separate"]]:
        assert np.max(np.abs(curve["trained"] - curve["at_marks"])) <= 0.06 * curve["theory"][0]  # of a finite sample
    stages, found = data["separate"]["stages"], data["separate"]
    assert stages.order.tolist() == [0, 1, 2, 3]
    for height in stages.losses:  # random heads pass the same plateaus
        assert np.min(np.abs(found["random"] - height)) <= 2e-3 * stages.losses[0]
    for curve in data["tests"]["curves"].values():
        np.testing.assert_allclose(curve["sampled"], curve["at_lengths"], rtol=0.1)
    panels("attention", data, attention)


@pytest.mark.exhaustive
def test_figure_1_of_xu_and_ziyin_aligned_or_disaligned():
    data = alignment.compute_xu_ziyin_1()
    kernel, feature, parallel, falling = data["curves"].values()
    for curve in data["curves"].values():
        theory = np.interp(curve["marks"], curve["t"], curve["theory"])
        assert np.max(np.abs(curve["simulated"] - theory)) <= 1e-3
    assert abs(feature["end"] - data["limit"]) <= 0.01
    assert data["bound"] <= feature["theory"][-1]
    assert abs(kernel["end"]) <= 5 / np.sqrt(alignment.WIDTH)
    assert np.min(parallel["simulated"]) >= 1 - 1e-9
    assert np.all(np.diff(feature["theory"]) > 0)
    assert np.all(np.diff(falling["simulated"]) < 0)
    panels("xu-ziyin-1", data, alignment)


@pytest.mark.exhaustive
def test_figure_5_of_geiger_networks_lie_on_infinite_width():
    data = lazy.compute_geiger_5()
    line, theory = data["kernel change"]["theory"]
    wide = data["kernel change"]["networks"][lazy.WIDTHS[-1]]
    limit = np.exp(np.interp(np.log(lazy.SCALED), np.log(line), np.log(theory)))
    feature = lazy.SCALED < 1
    assert np.max(np.abs(wide / limit - 1)[feature]) < 0.1
    assert wide[-1] > 2 * limit[-1]  # the fluctuation of fixed width
    line, theory = data["half time"]["theory"]
    limit = np.exp(np.interp(np.log(lazy.SCALED), np.log(line), np.log(theory)))
    assert np.max(np.abs(data["half time"]["networks"][lazy.WIDTHS[-1]] / limit - 1)) < 0.1
    for curve in data["losses"].values():
        assert np.max(np.abs(curve["network"] - curve["theory"][::8])) < 0.1
    panels("geiger-5", data, lazy)


@pytest.mark.exhaustive
def test_figure_9_of_geiger_weights_lie_on_infinite_width():
    data = lazy.compute_geiger_9()
    line, theory = data["theory"]
    limit = np.exp(np.interp(np.log(lazy.SCALED), np.log(line), np.log(theory)))
    assert np.max(np.abs(data["networks"][lazy.WIDTHS[-1]] / limit - 1)) < 0.1
    panels("geiger-9", data, lazy)


@pytest.mark.exhaustive
def test_figure_4a_of_geiger_variance_falls_as_one_over_the_width():
    data = lazy.compute_geiger_4a()
    for h, theory, mean, error in data.values():
        assert np.max((np.abs(mean - theory) - 3 * theory / h) / error) < 4
        np.testing.assert_allclose(theory * h, theory[0] * h[0], rtol=1e-12)
    one_panel("geiger-4a", data, lazy)


@pytest.mark.exhaustive
def test_figure_4b_of_geiger_variances_times_width_lie_on_one_curve(monkeypatch):
    monkeypatch.setattr(lazy_deep, "TWO", (8, 24))
    monkeypatch.setattr(lazy_deep, "DRAWS", 8)
    monkeypatch.setattr(lazy_deep, "ONE", (16, 256))
    monkeypatch.setattr(lazy_deep, "SAMPLES", 500)
    data = lazy_deep.compute_geiger_4b()
    limit = np.exp(np.interp(np.log(lazy_deep.SCALED), np.log(data["line"]), np.log(data["theory"])))
    for h, (mean, error) in data["one"].items():
        assert np.all(np.abs(mean - limit) <= 4 * error + 3 * limit / h)
    for h, (mean, error) in data["two"].items():
        assert abs(mean[-1] - data["lazy"]) <= 4 * error[-1] + data["lazy"] / h
        assert 0.9 <= mean[0] / lazy_deep.SCALED[0] ** (2 / 3) <= 1.05
    panels("geiger-4b", data, lazy_deep)


@pytest.mark.exhaustive
def test_figure_10_of_geiger_outputs_are_linear_until_the_half_time(monkeypatch):
    monkeypatch.setattr(lazy_deep, "WIDTHS", (16,))
    monkeypatch.setattr(lazy_deep, "WIDTH", 16)
    monkeypatch.setattr(lazy_deep, "REPEATS", 1)
    monkeypatch.setattr(lazy_deep, "SCALES", (1e-3, 10.0))
    data = lazy_deep.compute_geiger_10()
    early = lazy_deep.TIMES < 0.05
    for scaled, curve in data["scales"].items():
        assert np.max(np.abs(curve["moved"] / curve["linear"] - 1)[early]) <= 0.2
        assert abs(curve["moved"][-1] * scaled - 1) <= 0.2
    small = data["scales"][1e-3]
    assert np.max(np.abs(small["moved"][: len(small["leading"])] / small["leading"] - 1)) <= 0.02
    panels("geiger-10", data, lazy_deep)


@pytest.mark.exhaustive
def test_figure_1_of_seleznova_samples_lie_on_the_exact_dispersion(monkeypatch):
    monkeypatch.setattr(random_kernels, "DEPTHS", (5, 10))
    monkeypatch.setattr(random_kernels, "NETWORKS", 400)
    data = random_kernels.compute_seleznova_311()
    assert data["tanh"]["edge"] == pytest.approx(3.443210912265440, rel=1e-9)
    for layers, (value, error) in data["relu"]["sampled"].items():
        exact = np.interp(data["relu"]["variances"], data["relu"]["fine"], data["relu"]["exact"][layers])
        assert np.max(np.abs(value - exact) / error) <= 5
    low, high = (data["tanh"]["sampled"][layers][0] for layers in (5, 10))
    assert high[-1] > low[-1] > 1
    panels("seleznova-3.1-1", data, random_kernels)


@pytest.mark.exhaustive
def test_figure_3_of_seleznova_ratios_lie_on_infinite_width_at_small_depth(monkeypatch):
    monkeypatch.setattr(random_kernels, "PAIR_DEPTHS", (2, 5))
    monkeypatch.setattr(random_kernels, "PAIR_NETWORKS", 200)
    data = random_kernels.compute_seleznova_323()
    for phase in random_kernels.PAIRS:
        for line in data[phase].values():
            value, error, wide = line["sampled"]
            assert np.all(np.abs(value - wide) <= 4 * error + 0.02)
    assert np.all(np.diff(data["limit"]) > 0)
    panels("seleznova-3.2-3", data, random_kernels)


def one_panel(name, data, module):
    with figure(1, 1) as (fig, ax):
        getattr(module, f"draw_{figures.FIGURES[name].name}")(ax, data)
        fig.canvas.draw()
        assert ax.get_xlabel()
        assert ax.get_ylabel()


def test_figure_6_of_ortiz_jimenez_energy_rises_before_the_loss_falls():
    data = directions.compute_ortiz_6()
    for sigma, curve in data["curves"].items():
        assert np.max(np.abs(curve["theory"][::6] - curve["simulated"])) < 5 * sigma**2
        assert curve["simulated"][0] < 0.5
        assert 1 - curve["simulated"][-1] < max(10 * sigma**6, 1e-8)
    assert curve["theory"][curve["loss"] > 0.9].max() > 0.98  # silent alignment at the smaller start
    one_panel("ortiz-6", data, directions)


def test_figure_7_of_ortiz_jimenez_ends_at_the_closed_form():
    data = directions.compute_ortiz_7()
    assert np.max(np.abs(data["end"] - data["theory"])) < 5 * data["sigma"] ** 2
    assert np.argmax(data["end"]) == data["task"]
    assert np.argmax(data["start"]) == 0
    panels("ortiz-7", data, directions)


@pytest.mark.parametrize("seed", [2, 9])  # the length of the target rounds above 1; kernels far from one spike at first
def test_figure_9_of_ortiz_jimenez_needs_the_task_of_the_training(seed):
    data = directions.compute_ortiz_9(seed)
    for name in ("the trained task", "a task across it"):
        mean, error = data[name]["sampled"].T
        theory = np.interp(data["t"], data["line"], data[name]["theory"])
        assert np.max(np.abs(mean - theory) / error) < 4
    assert data["the trained task"]["sampled"][-1, 0] < 0.6 * data["the trained task"]["sampled"][0, 0]
    assert data["a task across it"]["theory"][-1] > data["a task across it"]["theory"][0]
    one_panel("ortiz-9", data, directions)


def test_prediction_of_any_kernel_is_that_of_transfer_error_for_one_spike():
    beta, task, strength = np.eye(40)[0], np.array([0.6, 0.8, *np.zeros(38)]), 3.0
    law = ls.laws.TransferError(strength=[strength], overlap=[0.6], samples=[15.0], ridge=[0.0], n_in=40)
    own = directions._predicted(7 * (np.eye(40) + strength * np.outer(beta, beta))[None], task, 15)
    assert own == pytest.approx(law.prediction(np)["error"], rel=1e-10)


@pytest.mark.parametrize("name", figures.FIGURES)
def test_titles_fit_into_their_figures(name):
    about = figures.FIGURES[name]
    with figure(1, about.panels, figsize=figures.size(about)) as (fig, _):
        figures.write_title(fig, about)
        fig.canvas.draw()
        assert fig.texts[0].get_window_extent().x1 <= fig.bbox.x1


def test_figure_3_theory_lies_on_the_simulation():
    data = phases.compute_3()
    for sigma, curve in data["curves"].items():
        for key, unit in (("loss", 1.0), ("alignment", 1.0)):
            assert np.max(np.abs(curve["theory"][key] - curve["simulated"][key])) < unit * sigma**2 + 1e-6
    assert data["curves"][1e-4]["simulated"]["alignment"][-1] == pytest.approx(data["final"], abs=1e-6)
    waits = np.interp(np.log(list(data["found"])), np.log(data["sigma"]), data["wait"])
    np.testing.assert_allclose(list(data["found"].values()), waits, rtol=5e-3)
    panels("3", data, phases)


def test_curves_of_double_descent_are_labelled_by_their_times():
    assert generalization.TIMES[list(generalization.AT)].tolist() == [0.05, 4.0, 60.0, 2000.0]
    assert "in the limit of many inputs" in figures.FIGURES["double-descent"].title


@pytest.mark.exhaustive
def test_double_descent_theory_is_within_four_standard_errors_of_sampled_networks():
    data, noise = generalization.compute_double_descent(), generalization.NOISE
    for (d, ratio), (test, _) in data["sampled"].items():
        law = ls.laws.GeneralizationInTime(d, round(ratio * d), noise_variance=noise)
        kept = (np.inf if ratio != 1 else d) > generalization.TIMES  # at n = d later times are those of finite size
        error = law.test_error_std(generalization.TIMES) / np.sqrt(len(test))
        z = (test.mean(axis=0) + noise - law.test_error(generalization.TIMES)) / error
        assert np.abs(z[kept]).max() <= 4, (d, ratio)
    for exact, share in zip(data["accuracy"], data["shares"], strict=True):
        assert np.abs(np.interp(np.log(generalization.TIMES), np.log(data["t"]), exact) - share).max() <= 0.1
    panels("double-descent", data, generalization)


@pytest.mark.exhaustive
def test_spikes_of_lampinen_and_ganguli_lie_on_the_theory(monkeypatch):
    monkeypatch.setattr(spikes, "DEPTHS", (2.0,))
    monkeypatch.setattr(spikes, "STRENGTHS", (2.0,))
    data = spikes.compute_lampinen_spikes()
    for aspect, curve in data["spikes"].items():
        for k, exact in enumerate(curve["theory"]):
            theory = np.interp(spikes.DOTS, data["line"], exact)
            error = curve["drawn"][..., k].std(axis=1, ddof=1) / np.sqrt(spikes.DRAWS)
            far = 1.15 * curve["threshold"] < spikes.DOTS  # nearer the finite size of the bulk's edge is seen
            assert np.max(np.abs((curve["drawn"][..., k].mean(axis=1) - theory) / error)[far]) <= 4, aspect
    (curve,) = data["curves"].values()
    error = curve["drawn"].std(axis=0, ddof=1) / np.sqrt(spikes.DRAWS)
    theory = ls.laws.GeneralizationOfAlignedStudent([2.0], 200, 50, spikes.START).test_error(spikes.TIMES) / 4
    assert np.max(np.abs((curve["drawn"].mean(axis=0) - theory) / error)) <= 4
    monkeypatch.setattr(spikes, "DEPTHS", (2.0, 3.0))
    panels("lampinen-spikes", data, spikes)


@pytest.mark.exhaustive
def test_starts_of_advani_saxe_and_sompolinsky_lie_on_the_theory():
    data = starts.compute_advani_starts()
    for start, curve in data["one"].items():
        law = ls.laws.GeneralizationInTime(
            starts.INPUTS, round(starts.RATIO * starts.INPUTS), 1.0, start, 1 / starts.SNR
        )
        error = law.test_error_std(starts.TIMES) / np.sqrt(starts.DRAWS)
        assert np.max(np.abs(curve["drawn"].mean(axis=0) - law.test_error(starts.TIMES)) / error) <= 4
    least = [curve["theory"].min() for curve in data["two"].values()]
    assert least == sorted(least)  # small starts generalize best
    panels("advani-starts", data, starts)


def test_optimal_stopping_has_no_peak_and_never_a_larger_error_than_the_end(monkeypatch):
    for name, value in {"STARTS": (0.0, 0.5), "ALIGNED": (), "INPUTS": 20, "DRAWS": 2}.items():
        monkeypatch.setattr(starts, name, value)
    data = starts.compute_advani_starts()
    for start in (0, 0.5):
        end, best = (data[f"samples {start}"][name] for name in ("end", "best"))
        assert np.all(best <= end)
        assert np.all(np.diff(best) < 0)


@pytest.mark.exhaustive
def test_accuracies_of_levi_beck_and_bar_sinai():
    data = accuracy.compute_levi_accuracy()
    assert (100 * data["curves"][2.0]["ends"]).round(2).tolist() == [2.52, 3.57]
    for curve in data["curves"].values():
        for exact, drawn in zip(curve["theory"], curve["drawn"], strict=True):
            assert np.max(np.abs(np.interp(np.log(accuracy.TIMES), np.log(data["t"]), exact) - drawn)) <= 0.1
    train, test = data["times"]
    assert np.all(test >= train)
    panels("levi-accuracy", data, accuracy)


def test_figure_b1_on_digits():
    data = phases.compute_b1()
    for found in data.values():
        for key in ("q", "r"):
            assert np.max(np.abs(found["theory"][key] - found[key])) < 1e-3 * found["s"]
    assert max(np.max(np.abs(found["printed"] - found["r"])) / found["s"] for found in data.values()) > 0.03
    panels("B.1", data, phases)


@pytest.mark.exhaustive
def test_figure_4_times_are_powers():
    data = depth.compute_4()
    for layers, times in data["exact"].items():
        slope = np.log(times[0] / times[1]) / np.log(data["sigma"][0] / data["sigma"][1])
        assert slope == pytest.approx(2 - layers, abs=0.01)
    for curve in data["curves"].values():
        assert curve["aligned"] < curve["half"]
    panels("4", data, depth)


def test_figure_d1_spike_is_the_ratio_of_the_rates():
    data = depth.compute_d1()
    for ratio, curve in data["curves"].items():
        assert curve["spike"] == pytest.approx(ratio, rel=1e-3)
        np.testing.assert_allclose(curve["theory"], curve["loss"], atol=1e-3)
    panels("D.1", data, depth)


@pytest.mark.exhaustive
def test_figure_d3_ends_at_the_closed_form():
    data = depth.compute_d3()
    finals = [curve["final"] for curve in data.values()]
    assert np.all(np.diff(finals) > 0)
    for curve in data.values():
        assert curve["alignment"][-1] == pytest.approx(curve["final"], abs=0.5 * curve["sigma"] ** 2)
    panels("D.3", data, depth)


def test_figure_5_two_layers_follow_the_closed_form_and_end_aligned():
    data = classes.compute_5()
    two = data[2]
    assert np.max(np.abs(two["theory"]["loss"] - two["loss"])) < 1e-3 * two["loss"][0]
    assert np.max(np.abs(two["theory"]["alignment"] - two["alignment"])) < 1e-3
    for found in data.values():
        assert found["alignment"][-1] == pytest.approx(found["final"], rel=0.01)
    three = data[3]
    learned = np.isfinite(three["theory"]["alignment"])
    assert np.max(np.abs(three["theory"]["loss"] - three["loss"])[learned]) < 0.1 * three["loss"][0]
    assert np.max(np.abs(three["theory"]["alignment"] - three["alignment"])[learned]) < 0.1 * three["final"]
    assert np.max(np.abs(three["theory"]["loss"] - three["loss"])) > 0.02 * three["loss"][0]  # the modes are coupled,
    assert "neglect the coupling" in figures.FIGURES["5"].title  # which the picture says
    with figure(1, 2) as (_, axes):
        classes.draw_5(axes, data)
        assert [ax.get_title(loc="left").split("lines: ")[1].split(",")[0] for ax in axes] == [
            "closed form", "uncoupled modes",
        ]  # fmt: skip
    panels("5", data, classes)


def test_figure_d4_final_kernel_is_the_closed_form():
    data = classes.compute_d4()
    assert np.max(np.abs(data["simulated"] - data["theory"])) < 0.05
    for layers, curve in data["curves"].items():
        assert curve["t"][0] == 0
        assert curve["alignment"][-1] == pytest.approx(curve["final"], abs=0.002 if layers < 4 else 0.02)
    assert panels("D.4", data, classes)[1][1] == 1


@pytest.mark.exhaustive
def test_figure_e1_samples_lie_on_the_theory():
    data = transfer.compute_e1()
    for name in ("strength", "overlap"):
        for pair, curve in data[name].items():
            mean, error = curve["sampled"].mean(axis=0), curve["sampled"].std(axis=0) / np.sqrt(transfer.DRAWS)
            theory = np.interp(data["dots"], data["line"], curve["theory"])
            finite = 0.1 * theory if pair[0] > 10 else 0.0  # the mean field is off by O(A/D) there
            assert np.max((np.abs(mean - theory) - finite) / error) < 4
    panels("E.1", data, transfer)


def test_crossing_is_interpolated():
    assert networks.crossing(np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.5, 1.5]), 1.0) == pytest.approx(1.5)


def test_command_lists_and_draws(tmp_path, capsys):
    assert main(["figure"]) == 0
    listed = capsys.readouterr().out
    assert {line.split()[0] for line in listed.splitlines()} >= set(figures.FIGURES)
    out = tmp_path / "figure.png"
    assert main(["figure", "D.1", "--out", str(out)]) == 0
    assert out.stat().st_size > 10_000
    assert main(["figure", "D.2"]) == 2
    assert "figure: name = 'D.2' is unknown; did you mean 'D." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["2", "--out", "f.xyz"], "figure: out = f.xyz must be a file ending in .png, .pdf, .svg"),
        (["2", "--out", "f"], "figure: out = f must be a file ending in"),
        (["2", "--out", "."], "figure: out = . must be a file ending in"),
        (["2", "--out", "file/f.png"], "figure: out = file is not a folder"),
        (["2", "--seed", "-1"], "figure: seed = -1 must not be negative"),
        (["2", "3"], "unrecognized arguments: 3"),
    ],
)
def test_a_bad_figure_is_refused_before_it_is_computed(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    monkeypatch.setattr("linsolve.studies.figures.phases.compute_2", None)
    assert main(["figure", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err
    assert shown.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_low_rank_adaptation_lies_on_the_simulation():
    data = adaptation.compute_lora()
    for curve in (data["strengths"], *data["ranks"].values(), *data["ratios"].values()):
        assert np.max(np.abs(np.interp(curve["marks"], curve["t"], curve["theory"]) - curve["simulated"])) <= 0.02
    for (rank, curve), floor in zip(data["ranks"].items(), data["floors"].values(), strict=True):
        assert curve["theory"].min() >= floor * (1 - 1e-12), rank
    columns = zip(adaptation.CHANGES, data["strengths"]["strengths"].T[:4], strict=True)
    halves = [np.argmax(strength > s / 2) for s, strength in columns]
    assert halves == sorted(halves)
    panels("lora", data, adaptation)


@pytest.mark.exhaustive
def test_leaky_relu_networks_lie_on_the_closed_form_and_near_misses_do_not():
    data = leaky_units.compute_leaky_relu()
    for alpha, curve in data["losses"].items():
        assert curve["route"].startswith("closed form: WhitenedTwoLayer"), alpha
        at_marks = np.interp(data["marks"], data["t"], curve["theory"])  # marks are among the times
        assert np.max(np.abs(at_marks - curve["simulated"])) <= 1e-7
    for apart in (*data["optimizers"].values(), data["starts"]["mirrored"]):
        assert np.max(apart) <= 1e-12
    assert np.max(data["starts"]["one unit moved"]) > 1e-5
    assert np.max(data["starts"]["one sample without mirror"]) > 1e-2
    panels("leaky-relu", data, leaky_units)


def test_sequences_of_tasks_lie_on_the_simulation():
    data = task_sequences.compute_tasks()
    marks = data["simulated"]
    theory = np.stack([np.interp(data["marks"], data["t"], each) for each in data["losses"].T], axis=-1)
    smooth = np.min(np.abs(data["marks"][:, None] - data["ends"]), axis=-1) > 0.1
    assert np.max(np.abs(theory - marks)[smooth]) <= 0.05
    forgotten = data["forgetting"][-1, :3] / data["limits"][-1, :3]
    assert np.max(np.abs(forgotten - 1)) <= 0.01
    for curve in data["reversal"].values():
        smooth = np.abs(curve["marks"] - 5.0) > 0.1
        theory = np.interp(curve["marks"], curve["t"], curve["theory"])
        assert np.max(np.abs(theory - curve["simulated"])[smooth]) <= 1e-3
    assert data["reversal"][0.0]["theory"][-1] == pytest.approx(2.0, abs=1e-9)  # the saddle
    panels("tasks", data, task_sequences)


@pytest.mark.exhaustive
def test_pathways_lie_on_the_simulation_of_all_heads():
    data = pathways.compute_neural_race()
    for curve in (*data["speeds"].values(), data["race"]):
        theory = np.stack([np.interp(curve["marks"], curve["t"], each) for each in curve["theory"].T], axis=-1)
        assert np.max(np.abs(theory[..., None] - curve["simulated"])) <= 1e-3
    for curve in data["shares"].values():
        theory = np.interp(np.log(curve["marks"]), np.log(curve["size"]), curve["theory"])
        assert np.max(np.abs(theory - curve["simulated"])) <= 1e-3
        assert np.interp(np.log(curve["tie"]), np.log(curve["size"]), curve["theory"]) == pytest.approx(0.5, abs=1e-3)
    assert (
        min(curve["theory"][-1].sum() for curve in data["speeds"].values()) > 0.999
    )  # the slowest is drawn to its end
    panels("neural-race", data, pathways)


def test_the_times_of_two_modalities_lie_on_the_simulation():
    data = modalities.compute_unimodal_bias()
    assert np.abs(data["law"] / data["simulated"] - 1)[2:].max() <= 1e-4
    for small, (t, loss) in data["losses"].items():
        first, second = (np.interp(time, t, loss) for time in data["times"][small])
        wanted = (1 + data["plateau"]) / 2, data["plateau"] / 2
        assert [first, second] == pytest.approx(wanted, abs=0.01 if small < 1e-3 else 0.1)
    panels("unimodal-bias", data, modalities)
