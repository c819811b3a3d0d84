"""`linsolve solve`: every file is complete and right, whichever route holds; bad input leaves nothing."""

import csv
import json
import warnings

import numpy as np
import pytest

import linsolve as ls
from linsolve.__main__ import main
from linsolve.solvability.files import Data
from linsolve.studies.network.figures import FIGURES as DRAWN
from linsolve.studies.network.figures import best

FILES = {"linsolve.json", "report.html", "trajectories.npz", "scalars.csv"}
FILES |= {f"{name}.{kind}" for name in ("loss", "map") for kind in ("png", "pdf")}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    gen = np.random.default_rng(0)
    X, Y = gen.normal(size=(30, 4)), gen.normal(size=(30, 2))
    np.savez(
        tmp_path / "deep.npz", **{f"W{i}": gen.normal(size=(4, 4)) / 2 for i in (1, 2)}, W3=gen.normal(size=(2, 4))
    )
    np.savez(tmp_path / "one.npz", **{"0.weight": gen.normal(size=(2, 4)), "0.bias": gen.normal(size=2)})
    np.savez(tmp_path / "data.npz", X=X, Y=Y)
    np.savez(tmp_path / "moments.npz", Sigma_xx=X.T @ X / 30, Sigma_yx=Y.T @ X / 30)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_integrated_network_is_written_whole_and_its_route_is_named(folder, capsys, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert main(["solve", "deep.npz", "data.npz", "--t", "0:2:5", "--rates", "1,0.5,1", "--out", "here"]) == 0
    out = capsys.readouterr().out
    with np.load("deep.npz") as file, np.load("data.npz") as data:
        traj = ls.solve([file[f"W{i}"] for i in (1, 2, 3)], (data["X"], data["Y"]), np.linspace(0, 2, 5), [1, 0.5, 1])
    assert out.startswith(f"route: {traj.route}\n")
    assert traj.route.startswith("DOP853: ")
    assert all(f"note: {note}" in out for note in traj.notes)
    assert {path.name for path in (folder / "here").iterdir()} == FILES
    assert all(f"here/{name}" in out for name in FILES - {"linsolve.json"})
    with np.load("here/trajectories.npz", allow_pickle=False) as found:
        assert set(found.files) == {"t", *traj.keys()}
        for name in traj:
            np.testing.assert_array_equal(found[name], traj[name])
    with open("here/scalars.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["loss"]) for row in rows] == traj["loss"].tolist()
    assert [float(row["singular_value_2"]) for row in rows] == traj["singular_values"][:, 1].tolist()
    page = (folder / "here" / "report.html").read_text(encoding="utf-8")
    assert "Training of a 4-4-4-2 linear network on data" in page
    assert "DOP853: " in page
    command = "linsolve solve deep.npz data.npz --t 0:2:5 --rates 1,0.5,1 --out here"
    assert f"Written by <code>{command}</code>, linsolve {ls.__version__}, 1970-01-02." in page
    assert all(f'href="{name}"' in page or f"{name[:-4]}.png" in page for name in FILES - {"linsolve.json"})
    assert main(["solve", "deep.npz", "data.npz", "--t", "0,1", "--out", "here"]) == 0  # replaced
    capsys.readouterr()
    assert main(["solve", "deep.npz", "data.npz", "--t", "0,1", "--test", "data.npz", "--out", "here"]) == 2
    assert "solve: out = here holds results of linsolve solve on" in capsys.readouterr().err


def test_an_exact_network_with_a_bias_prints_json(folder, capsys):
    assert main(["solve", "one.npz", "data.npz", "--t", "0,1,1e6", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["route"] == "closed form: DeepMode"
    assert found["exact"] is True
    assert "solve-one/report.html" in found["files"]
    with np.load("data.npz") as data:
        inputs = np.c_[data["X"], np.ones(30)]
        least = np.sum((data["Y"] - inputs @ np.linalg.lstsq(inputs, data["Y"], rcond=None)[0]) ** 2) / 60
    assert found["loss"] == found["train_loss"]
    assert found["loss"][-1] == pytest.approx(least, rel=1e-12)


@pytest.mark.exhaustive
def test_second_moments_and_kernels_beyond_the_file_are_left_out_and_said_to_be(folder, capsys, monkeypatch):
    from linsolve.studies.network import report

    assert main(["solve", "deep.npz", "moments.npz", "--t", "0,1"]) == 0
    with np.load("solve-deep/trajectories.npz") as found:
        assert "ntk" not in found
    monkeypatch.setattr(report, "LARGE", 1)
    assert main(["solve", "deep.npz", "data.npz", "--t", "0,1", "--out", "small"]) == 0
    with np.load("small/trajectories.npz") as found:
        assert "ntk" not in found
        assert "w3" in found
    assert "the tangent kernel has more than 1 entries" in (folder / "small" / "report.html").read_text("utf-8")
    assert "the tangent kernel has more than 1 entries and is not written" in capsys.readouterr().out


def other_networks(gen):
    """Return arrays of the files of networks that are not layers alone, options, arguments of `ls.solve`, and words."""
    a, b = ls.LoRA.init(4, 2, 2, size=0.1, rng=0)
    X, Y, base = gen.normal(size=(30, 4)), gen.normal(size=(30, 2)), gen.normal(size=(2, 4))
    lora = {"base": base, "scale": 2.0}
    value, key_query = ls.LinearAttention.init(2, 3, scale=0.2, rng=0)
    merged, single = (
        {"value": value, "key_query": key_query},
        {"value": np.ones(2), "key": np.eye(2), "query": np.eye(2)},
    )
    covariance, sequences = (
        np.diag([1.0, 2.0]),
        {"tokens": gen.normal(size=(50, 9, 2)), "targets": gen.normal(size=(50, 9))},
    )
    return {
        "LoRA": ({"W1": a, "W2": b}, {"X": X, "Y": Y}, lora, ([a, b], (X, Y)), "a 4-2-2 linear update of a frozen map"),
        "merged heads": (merged, {"covariance": covariance}, {}, ((value, key_query), covariance), "linear attention"),
        "heads": (single, {"covariance": covariance}, {}, (tuple(single.values()), covariance), "linear attention"),
        "sequences": (merged, sequences, {}, ((value, key_query), tuple(sequences.values())), "linear attention"),
    }


@pytest.mark.parametrize("name", ["LoRA", "merged heads", "heads", "sequences"])
def test_adapters_and_heads_are_those_of_solve(folder, capsys, name):
    weights, data, options, arguments, words = other_networks(np.random.default_rng(1))[name]
    options = options or {"context": 8}
    given = [f"--{key}={value}" for key, value in options.items() if key != "base"]
    if "base" in options:
        np.savez("base.npz", W0=options["base"])
        given += ["--base", "base.npz"]
    np.savez("heads.npz", **weights)
    np.savez("its.npz", **data)
    assert main(["solve", "heads.npz", "its.npz", "--t", "0,0.5,2", "--out", "here", *given]) == 0
    traj = ls.solve(*arguments, [0.0, 0.5, 2.0], **options)
    assert capsys.readouterr().out.startswith(f"route: {traj.route}\n")
    with np.load("here/trajectories.npz", allow_pickle=False) as found:
        assert set(found.files) == {"t", *traj.keys()}
        for each in traj:
            np.testing.assert_array_equal(found[each], traj[each])
    page = (folder / "here" / "report.html").read_text("utf-8")
    assert f"Training of {words} on its" in page
    reached = ls.solve(*arguments, 300.0, **options)  # the dashed lines are where training ends
    run = best(traj, Data("its", arguments[1], False, context=options.get("context")))
    if name in ("LoRA", "merged heads"):
        assert np.abs(reached["map"] - run.map).max() <= 1e-6 * np.abs(run.map).max()
        assert abs(reached["loss"] - run.loss) <= 1e-6 * run.loss
    assert run.loss <= reached["loss"] * (1 + 1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--t", "0:1"], "solve: t = '0:1' must be times A,B,... or FIRST:LAST:NUMBER"),
        (["--t", "0:1:1"], "must have 2 to 1000000 times"),
        (["--t", f"0:1:{10**20}"], "must have 2 to 1000000 times"),
        (["--t", "1,0"], "finite and increasing from 0 or later"),
        (["--t", "0,inf"], "finite and increasing from 0 or later"),
        (["--t", "0,1", "--base", "w.npz"], "solve: base = w.npz does not exist"),
        (
            ["--t", "0,1", "--base", "moments.npz"],
            "solve: base = moments.npz has the arrays Sigma_xx, Sigma_yx but must",
        ),
        (["--t", "0,1", "--scale", "0"], "solve: scale = 0.0 must be"),
        (
            ["--t", "0,1", "--context", "3"],
            "solve: weights = deep.npz has the arrays W1, W2, W3 but must have value and",
        ),
        (["--t", "0,1", "--context", "3", "--center"], "solve: --center does not go with --context"),
        (["--t", "0,1", "--center", "--center"], "argument --center: given twice; give it once"),
        (["--t", "0,1", "--json", "--json"], "argument --json: given twice; give it once"),
        (["--t", "0,x"], "solve: t = '0,x' must be times"),
        (["--t", "0,1", "--rates", "1,2"], "solve: rates has shape (2,) but must be (3,)"),
        (["--t", "0,1", "--rtol", "0"], "solve: rtol = 0.0 must be"),
        (["--t", "0,1", "--out", "data.npz"], "solve: out = data.npz is not a folder"),
        (["--t", "0,1", "--out", "/proc/x"], "solve: out = /proc/x cannot be written"),
    ],
)
def test_bad_uses_are_one_line_and_leave_nothing(folder, capsys, arguments, message):
    before = {path.name for path in folder.iterdir()}
    assert main(["solve", "deep.npz", "data.npz", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert message in err
    assert {path.name for path in folder.iterdir()} == before


def test_the_destination_is_checked_before_the_computation(folder, capsys, monkeypatch):
    from linsolve.solvability import solve

    monkeypatch.setattr(solve, "solved", lambda *a, **options: pytest.fail("computed"))
    (folder / "mine").mkdir()
    (folder / "mine" / "notes.txt").write_text("mine")
    assert main(["solve", "deep.npz", "data.npz", "--t", "0,1", "--out", "mine"]) == 2
    assert "holds other files" in capsys.readouterr().err


def test_both_losses_are_drawn_whole_on_one_axis(folder):
    gen = np.random.default_rng(1)
    X, inputs, w = gen.normal(size=(30, 4)), gen.normal(size=(9, 4)), gen.normal(size=(1, 4))
    for factor in (1.0, 50.0):  # of the test targets, above the axis of the training loss
        for last in (0.01, 50.0):  # little, and more than tenfold
            pair, times = (X, X @ w.T), np.linspace(0, last, 20)
            traj = ls.solve([np.zeros((1, 4))], pair, times, test=(inputs, factor * inputs @ w.T))
            with ls.plot.figure() as (_, ax), warnings.catch_warnings():
                warnings.simplefilter("error")
                DRAWN["loss"].draw(best(traj, Data("", pair, covariances=False)), ax)
                assert ax.get_ylim()[1] >= max(traj["test_loss"].max(), traj["loss"].max())
                assert ax.get_yscale() == ("log" if last > 1 else "linear")
                assert ax.get_ylabel() == "loss $L$"
                names = [each.get_text() for each in ax.get_legend().get_texts()]
                assert names[:2] == ["this network, training samples", "this network, test samples"]


def test_the_route_fits_above_the_losses():
    gen = np.random.default_rng(0)
    pair = gen.normal(size=(20, 4)), gen.normal(size=(20, 3))
    deep = [gen.normal(size=(4, 4)), gen.normal(size=(4, 4)), gen.normal(size=(3, 4))]  # three conditions fail
    with ls.plot.figure() as (figure, ax):
        DRAWN["loss"].draw(best(ls.solve(deep, pair, [0.0, 1.0]), Data("", pair, covariances=False)), ax)
        figure.canvas.draw()
        (box,) = (each.get_window_extent() for each in (ax.title, ax._left_title) if each.get_text())
        assert box.x1 <= figure.bbox.x1
