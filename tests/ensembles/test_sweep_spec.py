"""`linsolve sweep`: what a file describes is done and nothing else; bad files cost one line."""

import dataclasses
import json
import re

import numpy as np
import pytest

import linsolve as ls
from linsolve import BalancedMode, TwoLayerOrder, ensembles
from linsolve.__main__ import main
from linsolve.ensembles import spec as specs
from linsolve.ensembles.from_spec import Draws, perform, write

GRID = {
    "flow": "BalancedMode",
    "time": 1.0,
    "axes": {"s": [1.0, 2.0, 3.0], "a": {"start": 1e-3, "stop": 1.0, "num": 4, "spacing": "log"}},
}
ENSEMBLE = {
    "flow": "TwoLayerOrder",
    "time": [0.0, 1.0],
    "parameters": {"y": 1.0},
    "ensemble": {
        "members": 500,
        "reduce": ["mean", "quantiles"],
        "levels": [0.1, 0.9],
        "weights": {"width": 20, "sigma_u": 0.1, "sigma_w": 0.1},
    },
}


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Return a function that runs the command on a text, and gives its status, output and errors."""
    monkeypatch.chdir(tmp_path)

    def run(text, *options, name="spec.toml"):
        (tmp_path / name).write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
        status = main(["sweep", name, *options])
        return status, *capsys.readouterr()

    return run


def changed(table, **changes):
    """Return a table with entries changed by their paths; None removes one."""
    table = json.loads(json.dumps(table))
    for path, value in changes.items():
        *way, last = path.split("__")
        place = table
        for key in way:
            place = place.setdefault(key, {})
        place[last] = value
        if value is None:
            del place[last]
    return table


def test_the_example_runs(command, tmp_path):
    status, out, err = command(specs.EXAMPLE.replace("20_000", "300"))
    assert (status, err) == (0, "")
    assert "300 members" in out
    assert out.endswith("sweep.npz\nsweep.png\n")
    with np.load(tmp_path / "sweep.npz", allow_pickle=False) as found:
        assert found["loss_quantiles"].shape == (5, 41)
        assert found["ntk_mean"][0] == pytest.approx(2.0, rel=1e-4)
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_example_is_printed(capsys):
    assert main(["sweep", "--example"]) == 0
    assert capsys.readouterr().out == specs.EXAMPLE


def test_everything_in_the_example_is_a_key():
    text = specs.EXAMPLE
    for line in ("[start]", "[axes]", "gamma =", "y = [0.5", "bins = 64", "[ensemble.draw]", "y = {normal", "P = {log"):
        assert f"# {line}" in text  # all that is commented out is read by the tests below
    for name in (field.name for field in dataclasses.fields(specs.Spec)):
        key = f"[{name.replace('population', 'ensemble')}]"
        assert re.search(rf"^(# )?({name} = |{re.escape(key)})", text, re.MULTILINE), name


def test_the_example_with_a_store_is_resumed(command, tmp_path, capsys):
    pytest.importorskip("zarr")
    text = specs.EXAMPLE[: specs.EXAMPLE.index("[ensemble]")]
    for line in ('store = "sweep.zarr"', "block = 65_536", "[start]", "P = 0.02"):
        assert f"# {line}" in text
        text = text.replace(f"# {line}", line)
    text = text.replace("P = 0.02", "P = 0.02\nQ = 0.02\nR = 0.0")
    assert command(text)[0] == 0
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "sweep.zarr" / "loss").rglob("c/*")}
    assert before
    assert command(text, "--overwrite")[0] == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert main(["sweep", "--help"]) == 0
    assert "interrupted sweep is resumed" in " ".join(capsys.readouterr().out.split())


def test_a_grid_from_the_command_line(command, tmp_path):
    status, out, err = command(GRID, "--out", "grid.npz", name="spec.json")
    assert (status, err) == (0, "")
    assert "s: 3, a: 4" in out
    s, a = np.array([1.0, 2.0, 3.0])[:, None], np.geomspace(1e-3, 1.0, 4)
    with np.load(tmp_path / "grid.npz", allow_pickle=False) as found:
        assert np.array_equal(found["loss"], BalancedMode(s=s)(1.0, (a,))["loss"])
        assert np.array_equal(found["a"], a)
    assert (tmp_path / "grid.png").exists()


def test_a_result_is_replaced_only_when_asked(command, tmp_path):
    (tmp_path / "sweep.png").write_text("mine")
    status, _, err = command(GRID, name="spec.json")
    assert (status, err.count("\n")) == (2, 1)
    assert "sweep.png is there already" in err
    assert (tmp_path / "sweep.png").read_text() == "mine"
    assert command(GRID, "--overwrite", name="spec.json")[0] == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["spec.json", "sweep.npz", "sweep.png"]


def test_times_store_and_limits(tmp_path):
    table = changed(GRID, axes__a=None, start={"a": 0.01}, time=[0.0, "inf"], store=str(tmp_path / "kept.zarr"))
    pytest.importorskip("zarr")
    found = perform(specs.parse(table))
    assert found["loss"][:, 1].tolist() == [0.0, 0.0, 0.0]
    assert found["t"].tolist() == [0.0, np.inf]
    assert (tmp_path / "kept.zarr").is_dir()


def test_an_ensemble_is_that_of_the_library():
    found = perform(specs.parse(ENSEMBLE | {"seed": 7}))
    networks = ensembles.random_networks(20, 0.1, 0.1, y=1.0)
    reduce = ("mean", ensembles.Quantiles((0.1, 0.9)))
    right = ls.ensemble(networks, 500, [0.0, 1.0], reduce=reduce, rng=7)
    for key, value in right.values.items():
        assert np.array_equal(found.values[key], value)


def test_ensembles_over_a_grid(tmp_path):
    table = changed(ENSEMBLE, ensemble__weights__width=None, axes={"width": [1, 1e9], "gamma": [0.5, 1.0, 2.0]})
    found = perform(specs.parse(table))
    assert found["loss_mean"].shape == (2, 3, 2)
    networks = ensembles.random_networks(1e9, 0.1, 0.1, y=1.0, gamma=2.0)
    right = ls.ensemble(networks, 500, [0.0, 1.0], reduce="mean", rng=0)
    assert np.array_equal(found["loss_mean"][1, 2], right["loss", "mean"])
    dataset = found.to_xarray()
    assert dataset["loss_quantiles"].dims == ("width", "gamma", "level", "time")
    assert dataset["times"][0, 0].values.tolist() == [0.0, 1.0]
    flat = perform(specs.parse(table | {"time": 0.5}))
    assert [path.name for path in write(flat, tmp_path / "map.nc")] == ["map.nc", "map.png"]


def test_numbers_are_drawn_as_described():
    draw = {"s": ("normal", 2.0, 0.1), "tau": ("uniform", 1.0, 3.0), "a": ("lognormal", 0.01, 0.5)}
    flow, z0 = Draws(BalancedMode, {}, {}, draw)(np.random.default_rng(0), 40_000)
    assert (flow.s.mean(), flow.s.std()) == pytest.approx((2.0, 0.1), rel=0.02)
    assert (flow.tau.mean(), flow.tau.std()) == pytest.approx((2.0, 2 / np.sqrt(12)), rel=0.02)
    assert (np.median(z0.a), np.log(z0.a).std()) == pytest.approx((0.01, 0.5), rel=0.02)
    table = {
        "flow": "BalancedMode",
        "time": {"start": 0.0, "stop": 1.0, "num": 3},
        "axes": {"tau": [1.0, 2.0]},
        "ensemble": {"members": 50, "draw": {"s": {"normal": [2.0, 0.1]}, "a": {"lognormal": [0.01, 0.5]}}},
    }
    found = perform(specs.parse(table))
    assert found["loss_mean"].shape == (2, 3)
    assert (found["loss_mean"][1, 1:] > found["loss_mean"][0, 1:]).all()


DRAWN = {"s": {"normal": [1.0, 0.1]}}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (changed(GRID, flow=None), "flow is missing"),
        (changed(GRID, time=None), "time is missing"),
        (changed(GRID, flow="BalancedMod"), "did you mean 'BalancedMode'"),
        (changed(GRID, flow="os.system"), "flow = 'os.system' is unknown"),
        (changed(GRID, flow=3), "flow = 3 must be a text"),
        (changed(GRID, tiem=1.0), "did you mean 'time'"),
        (changed(GRID, tau=2.0), r"tau belongs to the parameters of BalancedMode; put it under \[parameters\]"),
        (changed(GRID, axes__a=None, a=2.0), r"a belongs to the start of BalancedMode; put it under \[start\]"),
        ([1.0], r"spec = \[1.0\] must be a table"),
        (changed(GRID, axes__ss=[1.0]), "axes of BalancedMode = 'ss' is unknown"),
        (changed(GRID, axes__s="__import__('os').system('touch owned')"), "axes.s = .* must be a number, or 'inf'"),
        (changed(GRID, axes__s="1 + 1"), "axes.s = '1 [+] 1' must be a number"),
        (changed(GRID, axes__s=[]), "axes.s has shape"),
        (changed(GRID, axes__s=[1.0, True]), r"axes.s\[1\] = True must be a number"),
        (changed(GRID, axes__s=[1.0, [2.0]]), "axes.s must be a number or a rectangular array"),
        (changed(GRID, axes__s=[1.0, float("nan")]), r"axes.s\[1\] = nan"),
        (changed(GRID, axes__s=10**400), "a double can hold"),
        (changed(GRID, axes__a__num=0), "axes.a.num = 0 must be an integer of at least 1"),
        (changed(GRID, axes__a__num=2.0), "axes.a.num = 2.0 must be an integer"),
        (changed(GRID, axes__a__stop=None), "axes.a.stop is missing"),
        (changed(GRID, axes__a__step=1), "key axes.a = 'step' is unknown"),
        (changed(GRID, axes__a__start=0), "axes.a.start = 0.0 must be positive"),
        (changed(GRID, axes__a__spacing="lag"), "did you mean 'log'"),
        (changed(GRID, axes__a__stop="inf"), "axes.a.stop = inf must be positive and finite"),
        (changed(GRID, observe=[]), "observe = .* must be a list of names"),
        (changed(GRID, observe=["a"]), "observe = 'a' is an axis"),
        (changed(GRID, observe=["lss"]), "did you mean 'loss'"),
        (changed(GRID, parameters={"s": 1.0}), "s is given in parameters and in axes"),
        (changed(GRID, parameters={"tua": 1.0}), "did you mean 'tau'"),
        (changed(GRID, parameters={"tau": -1.0}), "tau = -1.0 must lie in"),
        (changed(GRID, parameters=[1.0]), "parameters = .1.0. must be a table"),
        (changed(GRID, threads=0), "threads = 0 must be an integer of at least 1"),
        (changed(GRID, seed=-1), "seed = -1 must be an integer of at least 0"),
        (changed(GRID, out="x.csv"), "must end in .npz or .nc"),
        (changed(GRID, axes=None), "axes is missing"),
        (changed(ENSEMBLE, ensemble__members=0), "ensemble.members = 0"),
        (changed(ENSEMBLE, ensemble__members=None), "ensemble.members is missing"),
        (changed(ENSEMBLE, ensemble__reduce=["meen"]), "did you mean 'mean'"),
        (changed(ENSEMBLE, ensemble__bins=10), "ensemble.bins belongs to 'histogram'"),
        (changed(ENSEMBLE, ensemble__levels=[0.9, 0.1]), "must ascend"),
        (changed(ENSEMBLE, ensemble__exact="yes"), "ensemble.exact = 'yes' must be true or false"),
        (changed(ENSEMBLE, ensemble__weights__width=0.5), "width = 0.5 must lie in"),
        (changed(ENSEMBLE, ensemble__weights__depth=3), "key ensemble.weights = 'depth' is unknown"),
        (changed(ENSEMBLE, ensemble__weights=None), "neither 'draw' nor 'weights'"),
        (changed(ENSEMBLE, start={"P": 1.0}), "gives the whole start"),
        (changed(ENSEMBLE, axes={"width": [1.0]}), "width is given in ensemble.weights and in axes"),
        (changed(ENSEMBLE, store="x.zarr"), "store = 'x.zarr' does not go with"),
        (changed(ENSEMBLE, flow="TwoLayer"), "does not go with TwoLayer"),
        (changed(ENSEMBLE, time=[1.0, 0.5]), "times that ascend"),
        (changed(GRID, axes=None, ensemble={"members": 9, "draw": {"s": 1}}), "ensemble.draw.s = 1 must be a table"),
        (changed(GRID, axes=None, ensemble={"members": 9, "draw": {"z": {}}}), "ensemble.draw.z must have one"),
        (changed(GRID, axes=None, ensemble={"members": 9, "draw": {"s": {"gauss": 1}}}), "'gauss' is unknown"),
        (changed(GRID, axes=None, ensemble={"members": 9, "draw": {"s": {"normal": 1}}}), "must be two finite numbers"),
        (changed(GRID, axes=None, ensemble={"members": 9, "draw": {"s": {"normal": [1, -1]}}}), "at least 0"),
        (changed(GRID, axes=None, ensemble={"members": 9, "draw": {"a": {"lognormal": [0, 1]}}}), "median above 0"),
        (
            changed(GRID, axes__a=None, ensemble={"members": 9, "draw": DRAWN}),
            "s is given in axes and in ensemble.draw",
        ),
        (changed(GRID, axes=None, ensemble={"members": 9, "draw": DRAWN}), "state"),
        (
            {"flow": "BalancedMode", "time": 1, "axes": {"a": [1.0, 2.0]}},
            "parameters.s is missing .parameter of Balanced",
        ),
        ({"flow": "BalancedMode", "time": 1, "axes": {"s": [1.0, 2.0]}}, "start.a is missing .state of BalancedMode"),
        (
            {"flow": "HiddenMode", "time": 1, "ensemble": {"members": 2, "draw": {"w": {"normal": [0.0, 1.0]}}}},
            "ensemble.draw.w is an array with axes",
        ),
        ([1], "spec = .1. must be a table"),
    ],
)
def test_bad_specs_cost_one_line_and_leave_nothing(table, message, command, tmp_path):
    status, out, err = command(table, name="spec.json")
    assert (status, out) == (2, "")
    assert err.startswith("linsolve: ")
    assert err.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["spec.json"]
    assert re.search(message, err), err


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("flow = ", "spec.toml", "not valid TOML"),
        ("{", "spec.json", "not valid JSON"),
        ('{"flow": "TwoLayer", "flow": "DeepMode"}', "spec.json", "'flow' is there twice"),
        ("[" * 100_000, "spec.json", "not valid JSON"),
        ("flow: x", "spec.yaml", "must end in .toml or .json"),
    ],
)
def test_bad_files(text, name, message, command):
    status, _, err = command(text, name=name)
    assert (status, err.count("\n")) == (2, 1)
    assert message in err


def test_no_file(capsys):
    assert main(["sweep"]) == 2
    assert "SPEC is missing" in capsys.readouterr().err
    assert main(["sweep", "nowhere.toml"]) == 2
    assert "nowhere.toml" in capsys.readouterr().err


def test_every_flow_can_be_named():
    for name in ls.flows.WHERE:
        assert specs.parse({"flow": name, "time": [0.0, 1.0]}).flow is getattr(ls, name)
    assert specs.parse(ENSEMBLE).flow is TwoLayerOrder


def test_a_store_of_another_sweep_costs_one_line(command, tmp_path):
    table = changed(GRID, store=str(tmp_path / "s.zarr"))
    assert command(table, name="spec.json")[0] == 0
    status, out, err = command(changed(table, time=0.25), "--overwrite", name="spec.json")
    assert (status, out) == (2, "")
    assert "was made by another sweep: fixed parameter t" in err


def test_a_folder_where_the_result_goes_is_refused_before_any_work(command, tmp_path):
    (tmp_path / "x.npz").mkdir()
    status, out, err = command(changed(GRID, out=str(tmp_path / "x.npz")), "--overwrite", name="spec.json")
    assert (status, out) == (2, "")
    assert "x.npz is a folder" in err
