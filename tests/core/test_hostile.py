"""Hostile input: one clear line or exception each, no file written or lost, no warning."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import linsolve as ls
from linsolve import arithmetic, phases, published
from linsolve.__main__ import main
from linsolve.core.results import folder_of_results, folder_to_fill, mark, whole_files, whole_folder
from linsolve.studies.collapse import collapse

HUGE = "99999999999999999999"

GOOD = b"""
flow = "BalancedMode"
observe = ["loss"]
time = [0.0, 1.0]
out = "s.nc"
start = {a = 0.1}
axes = {s = [1.0, 2.0]}
"""

COMMANDS = {
    "collapse --classes 0": "NeuralCollapse: classes = 0.0 must lie in",
    "collapse --classes 3000 --samples 3000": "NeuralCollapse: classes = 3.00e+3 makes arrays of",
    "collapse --features 1000000000": "collapse: features = 1000000000 must be at most 2000",
    "collapse --kappas nan,1,1": "NeuralCollapse: kappa_d = nan is not a number",
    "collapse --kappas 1e300,1,0.5": "collapse: kappa_d = 1e+300 must be of size 1",
    "collapse --kappas 1,2": "collapse: kappas = '1,2' must be three numbers",
    "collapse --scale 1e300": "collapse: scale = 1e+300 must be a number in (0, 100]",
    "collapse --bias inf": "collapse: bias = inf must be a number in [-100, 100]",
    "collapse --start lambda --imbalance 1e300": "collapse: imbalance = 1e+300 must be at most 100",
    "collapse --until 1e300": "steps of the descent",
    "collapse --step 1e-300": "steps of the descent",
    "collapse --seed -1": "seed = -1",
    "collapse --weights folder": "collapse: weights = folder is a folder",
    "collapse --weights junk.npz": "is not an archive of plain arrays",
    "collapse --weights nowhere.npz": "does not exist",
    "collapse --out folder": "holds other files and is not overwritten",
    "collapse --out junk.npz": "is not a folder",
    f"ntk-stats --width {HUGE}": "ntk-stats: width",
    f"ntk-stats --networks {HUGE}": "ntk-stats: networks",
    "ntk-stats --depth 1000000": "ntk-stats: depth = 1000000 must be at most 100000",
    "ntk-stats --weight-variance nan": "must be positive numbers",
    "ntk-stats --weight-variance 1e300": "leaves the range of numbers",
    "ntk-stats --activation nan": "has no exact moments",
    "ntk-stats --out junk.npz": "is not a folder",
    "sweep": "SPEC is missing",
    "sweep nowhere.toml": "sweep: spec = nowhere.toml cannot be read (No such file or directory)",
    "sweep folder.toml": "sweep: spec = folder.toml cannot be read (Is a directory)",
    "sweep empty.toml": "flow is missing",
    "sweep list.json": "must be a table",
    "sweep broken.json": "is not valid JSON",
    "sweep junk.npz": "must end in .toml or .json",
    "sweep good.toml --out junk.npz/s.npz": "sweep: out = junk.npz is not a folder",
    "sweep good.toml --out junk.npz/deep/s.npz": "sweep: out = junk.npz/deep cannot be written",
    "sweep good.toml --out junk.npz": "sweep: out = junk.npz is there already",
    "errata --source nowhere": "published: source = 'nowhere' is unknown",
    "card nothing": "card: flow or law = 'nothing' is unknown",
    "card nothing --bibtex": "cite: flow or law = 'nothing' is unknown",
    "phase chaos --cells 1": "phase: cells = 1 must be an integer from 11 to 2001",
    "phase dispersion --cells 99999999": "phase: cells = 99999999 must be an integer from 11 to 2001",
    "phase depth --seed -1": "phase: seed = -1 must be an integer of at least 0",
    "phase depth --out junk.npz": "is not a folder",
    "phase nowhere": "phase: name = 'nowhere' is unknown",
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Working folder with files of other programs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder.toml").mkdir()
    files = {
        "folder/mine": b"mine", "junk.npz": bytes(range(256)), "good.toml": GOOD,"empty.toml": b"", "list.json": b"[]",
        "broken.json": b"{",
    }  # fmt: skip
    for name, held in files.items():
        (tmp_path / name).write_bytes(held)
    return files


@pytest.mark.parametrize("line", COMMANDS)
def test_a_bad_call_is_one_line_and_touches_no_file(here, tmp_path, capsys, line):
    before = sorted(tmp_path.rglob("*"))
    assert main(line.split()) == 2
    found = capsys.readouterr()
    assert found.err.startswith("linsolve: ")
    assert found.err.count("\n") == 1
    assert COMMANDS[line] in found.err
    assert found.out == ""
    assert sorted(tmp_path.rglob("*")) == before
    assert all((tmp_path / name).read_bytes() == held for name, held in here.items())


def test_a_grid_beyond_memory_is_one_line(monkeypatch, capsys):
    def filled(*_):
        raise MemoryError("Unable to allocate 7 TiB")

    monkeypatch.setattr(phases, "diagram", filled)
    assert main(["phase", "rates"]) == 2
    assert capsys.readouterr().err == "linsolve: out of memory: Unable to allocate 7 TiB; use a smaller problem\n"


def test_a_missing_extra_is_named_before_the_work(here, monkeypatch, capsys):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "xarray" else found(name, *rest)
    )
    assert main(["sweep", "good.toml"]) == 2
    said = 'linsolve: sweep: out = s.nc needs xarray and netCDF4; pip install ".[labelled]" in the clone\n'
    assert capsys.readouterr() == ("", said)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell with pipes that break")
@pytest.mark.parametrize("command", ["list", "errata"])
@pytest.mark.quick(1)
def test_a_reader_that_leaves_ends_the_command_quietly(command):
    program = subprocess.Popen(
        [sys.executable, "-m", "linsolve", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    program.stdout.close()  # before anything has been written
    _, err = b"", program.stderr.read()
    program.stderr.close()
    assert (program.wait(), err) == (141, b"")


def weights(size):
    return np.full((5, 12), size), np.ones((3, 5)), np.zeros(3)


CALLS = {
    "flow": (lambda: collapse(3), TypeError, "collapse: flow = 3 must be a NeuralCollapse"),
    "weights": (lambda: collapse(weights=weights(1e200)), ValueError, "collapse: weights reach 1e\\+200 in h"),
    "nan": (lambda: collapse(weights=weights(np.nan)), ValueError, "collapse: h = nan at index"),
    "imbalance": (lambda: collapse(imbalance="x"), ValueError, "imbalance = 'x' must not be given"),
    "errata": (lambda: published.find([]), ValueError, r"published: source = \[\] is unknown"),
    "cite": (lambda: ls.cite(3), TypeError, "cite: 3 is not a flow or a law"),
    "cells": (lambda: phases.diagram("chaos", np.nan), ValueError, "phase: cells = nan must be an integer"),
    "rng": (lambda: phases.diagram("depth", 11, "x"), ValueError, "phase: seed = 'x' must be an integer"),
    "rng of a sweep": (lambda: ls.sweep(lambda a, rng: a, a=[1.0], rng=-1), ValueError, "sweep: rng = -1 must be"),
    "pairs": (
        lambda: ls.SpecializedKernel(diagonal=[1.0, 1.0], pairs=[[1.0, 2.0], [0.0, 1.0]], sizes=[2, 2])(1.0, [1.0] * 4),
        ValueError,
        "SpecializedKernel: ",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_bad_call_in_python_says_what_is_wrong(name):
    call, kind, message = CALLS[name]
    with pytest.raises(kind, match=message):
        call()


# where results go


def test_results_replace_only_what_a_command_made(tmp_path):
    made = tmp_path / "made"
    made.mkdir()
    rules = {"of": "data.csv", "names": ("b",)}
    assert folder_of_results("who", made, **rules) == made
    (made / "b").touch()
    with pytest.raises(ValueError, match=r"who: out = .*made holds other files"):  # of the same names, not marked
        folder_of_results("who", made, **rules)
    mark(made, "who", "data.csv")
    assert folder_of_results("who", made, **rules) == made
    with pytest.raises(ValueError, match=r"who: out = .* holds results of linsolve who on data\.csv"):
        folder_of_results("who", made, of="data.npz", names=("b",))
    with pytest.raises(ValueError, match=r"other: out = .* holds results of linsolve who on data\.csv"):
        folder_of_results("other", made, **rules)
    (made / "notes").touch()
    with pytest.raises(ValueError, match=r"who: out = .*made holds other files"):
        folder_of_results("who", made, **rules)
    (made / "notes").unlink()
    (made / "b").unlink()
    (made / "b").mkdir()  # a folder by the name of a result
    with pytest.raises(ValueError, match="holds other files"):
        folder_of_results("who", made, **rules)


def test_a_link_to_nowhere_is_not_a_folder(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="is not a folder"):
        folder_to_fill("who", tmp_path / "link")


@pytest.mark.parametrize("whole", [whole_files, whole_folder])
def test_what_fails_leaves_the_earlier_result(tmp_path, whole):
    out = tmp_path / "out"
    with whole(out) as made:
        (made / "a").write_text("first")

    def fail():
        with whole(out) as made:
            (made / "a").write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [("a", "first")]
    assert list(tmp_path.iterdir()) == [out]


def test_a_folder_that_cannot_be_placed_leaves_the_earlier_one(tmp_path, monkeypatch):
    out = tmp_path / "out"
    with whole_folder(out) as made:
        (made / "a").write_text("first")
        (made / "b").write_text("first")
    move = type(out).replace

    def stuck(self, target):
        if (self.parent.name, self.name) == ("new", "b"):
            raise OSError("stuck")
        return move(self, target)

    monkeypatch.setattr(type(out), "replace", stuck)

    def write():
        with whole_folder(out) as made:
            (made / "a").write_text("second")
            (made / "b").write_text("second")

    with pytest.raises(OSError, match="stuck"):
        write()
    assert [(path.name, path.read_text()) for path in sorted(out.iterdir())] == [("a", "first"), ("b", "first")]


def test_a_folder_in_the_place_of_a_file_leaves_all_as_it_was(tmp_path):
    out = tmp_path / "out"
    (out / "b").mkdir(parents=True)
    (out / "a").write_text("first")

    def write():
        with whole_files(out) as made:
            for name in "abc":
                (made / name).write_text("second")

    with pytest.raises(ValueError, match=r"out = .*b is a folder \(where a file of results goes\)"):
        write()
    assert sorted(path.name for path in out.iterdir()) == ["a", "b"]
    assert (out / "a").read_text() == "first"


def test_files_of_which_one_cannot_be_placed_are_as_they_were(tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("mine")
    (out / "a").write_text("first")
    (out / "c").symlink_to(out / "mine")
    move = type(out).replace

    def stuck(self, target):
        if (self.parent.name, self.name) == ("new", "d"):
            raise OSError("stuck")
        return move(self, target)

    monkeypatch.setattr(type(out), "replace", stuck)

    def write():
        with whole_files(out) as made:
            for name in "abcd":
                (made / name).write_text("second")

    with pytest.raises(OSError, match="stuck"):
        write()
    assert sorted(path.name for path in out.iterdir()) == ["a", "c", "mine"]
    assert (out / "a").read_text() == "first"
    assert (out / "c").readlink() == out / "mine"
    assert (out / "mine").read_text() == "mine"
    monkeypatch.undo()
    write()
    assert [(out / name).read_text() for name in ("a", "b", "c", "d", "mine")] == ["second"] * 4 + ["mine"]


@pytest.mark.parametrize("name", [".", "../out", "../out/"])
def test_the_folder_one_is_in_takes_results_and_stays(tmp_path, monkeypatch, name):
    out = tmp_path / "out"
    out.mkdir()
    node = out.stat().st_ino
    monkeypatch.chdir(out)
    for text in ("first", "second"):
        with whole_folder(Path(name)) as made:
            (made / "a").write_text(text)
        assert [(path.name, path.read_text()) for path in Path.cwd().iterdir()] == [("a", text)]
    assert out.stat().st_ino == node
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("whole", [whole_files, whole_folder])
def test_what_fails_leaves_no_empty_folders(tmp_path, whole):
    def interrupted():
        with whole(tmp_path / "deep" / "out") as made:
            (made / "a").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not list(tmp_path.iterdir())
    (tmp_path / "deep").mkdir()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.rglob("*")) == [tmp_path / "deep"]


def test_what_a_killed_run_left_is_not_in_the_way(tmp_path):
    (tmp_path / ".linsolve-abc").mkdir()
    assert folder_of_results("who", tmp_path, of="a", names=()) == tmp_path


@pytest.mark.parametrize("name", ["FrozenKernel", "BlockKernel", "SpecializedKernel", "FrozenHead"])
def test_backward_in_time_a_kernel_flow_ends_where_doubles_do(name):
    flow, start = getattr(ls, name).example(np.random.default_rng(0))
    end = float(np.max(flow.lifetime(np, flow.state(start))[0]))
    assert -np.inf < end < 0
    assert np.isfinite(flow(0.99 * end, start)["loss"]).all()
    with pytest.raises(ValueError, match=r"t = -1e\+300 must be later than"):
        flow(-1e300, start)
    for value in flow.cast(arithmetic.precise(30)).lifetime(arithmetic.precise(30), start)[:1]:
        assert np.isinf(arithmetic.to_numpy(value)).all()
