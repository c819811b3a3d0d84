import json
import re
import subprocess
import sys

import numpy as np
import pytest

import linsolve as ls
from linsolve.__main__ import main

FIGURES = ("loss", "modes", "alignment", "routes", "differences")


def test_learn_names_its_own_arguments(capsys):
    cases = {
        "nowhere.csv": "data = nowhere.csv does not exist",
        "digitz": "data = 'digitz' is unknown",
        "tree --classes 1": "classes = 1 cannot be chosen",
        "tree --target a": "target = 'a' needs a .csv file",
    }
    for words, message in cases.items():
        assert main(["learn", *words.split()]) == 2
        assert f"linsolve: learn: {message}" in capsys.readouterr().err


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A folder with two small learning problems, as the working directory."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 3))
    labels = np.digitize(X[:, 0] + 0.3 * rng.normal(size=30), [-0.4, 0.4])
    np.savez(tmp_path / "tiny.npz", X=X, Y=labels)
    rows = [f"{a:.4f},{b:.4f},7,{'ab'[int(k > 0)]}" for (a, b, _), k in zip(X, labels, strict=True)]
    (tmp_path / "tiny.csv").write_text("\n".join(["first,second,same,kind & <b>", *rows]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines(text):
    return [line for line in text.splitlines() if line]


# list and verify


def test_verify_prints_what_it_proved_in_symbols(capsys):
    assert main(["verify", "BalancedMode", "--latex"]) == 0
    assert r"BalancedMode: a = \frac{a_{0}}{" in capsys.readouterr().out


def test_list_names_every_flow(capsys):
    assert main(["list"]) == 0
    out = lines(capsys.readouterr().out)
    assert [line.split()[0] for line in out] == [cls.__name__ for cls in (*ls.flows.ALL, *ls.laws.ALL)]
    assert "sigmoid in time" in next(line for line in out if line.startswith("BalancedMode "))


def test_module_runs_as_a_program():
    done = subprocess.run([sys.executable, "-m", "linsolve", "list"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(ls.flows.ALL[0].__name__)


def test_verify_prints_a_table(capsys):
    assert main(["verify", "BalancedMode", "--seeds", "2", "--dps", "30"]) == 0
    out = lines(capsys.readouterr().out)
    assert out[0] == "BalancedMode: passed"
    assert any(re.match(r"  ok   residual +\d\.\de-\d+ <=   1e-18  ", line) for line in out)
    assert "2 examples each" in out[-1]
    assert out[-1].endswith("none failed")


def test_verify_gives_json(capsys):
    assert main(["verify", "BalancedMode", "--json", "--dps", "20"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is True
    assert {"velocity", "residual"} <= {row["check"] for row in found["checks"]}


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_failed_check_is_seen_and_gives_status_1(capsys, monkeypatch, form):
    right = ls.BalancedMode.solution

    def wrong(self, xp, t, z0, shared=None):
        return self.State(right(self, xp, t, z0).a * 2)

    monkeypatch.setattr(ls.BalancedMode, "solution", wrong)
    assert main(["verify", "BalancedMode", "--dps", "20", *form]) == 1
    out = capsys.readouterr().out
    if form:
        assert json.loads(out)["ok"] is False
    else:
        assert "FAILED: residual" in out
        assert "FAIL residual" in out


# learn


def test_the_smallest_options_are_accepted():
    from linsolve.studies.learn.learned import LARGEST, refuse_options

    refuse_options(3, 1.5 / LARGEST, 0.0, 1 / LARGEST, None, 0)
    refuse_options(3, np.array(0.1, dtype=np.float16), np.float16(0.1), np.float16(1.0), np.float16(0.1), 0)
    with pytest.raises(ValueError, match="scale = 9e-31 must lie in"):
        refuse_options(3, 0.9 / LARGEST, 0.0, 1.0, None, 0)


def test_learn_writes_everything_and_the_routes_agree(tiny, capsys):
    assert main(["learn", "tiny.npz", "--out", "here/result"]) == 0
    folder = tiny / "here" / "result"
    figures = {f"{name}.{kind}" for name in FIGURES for kind in ("png", "pdf")}
    data = {"linsolve.json", "trajectories.npz", "trajectories.nc", "report.html"}
    assert {path.name for path in folder.iterdir()} == figures | data
    assert [path.name for path in (tiny / "here").iterdir()] == ["result"]
    out = capsys.readouterr().out
    assert lines(out)[-1] == f"Open {folder.relative_to(tiny) / 'report.html'}"
    assert float(re.search(r"ODE integrator +(\S+)", out)[1]) < 1e-8
    assert 1.9 < float(re.search(r"error ratio when the step is halved +(\S+)", out)[1]) < 2.1


@pytest.mark.usefixtures("undrawn")
def test_learned_arrays_solve_the_flow(tiny):
    assert main(["learn", "tiny.npz", "--out", "result", "--rate", "2", "--json"]) == 0
    with np.load("result/trajectories.npz", allow_pickle=False) as found:
        flow = ls.WhitenedTwoLayer(found["target"], tau=0.5)
        z = flow.State(found["exact_product"], found["gram_in"], found["gram_out"])
        later = flow(found["t"][7] - found["t"][3], flow.State(*(field[3] for field in z)))
        np.testing.assert_allclose(later["product"], z.product[7], atol=1e-10)
        np.testing.assert_allclose(found["integrated_product"], z.product, atol=1e-8)
        assert found["classes"].tolist() == ["0", "1", "2"]
        assert found["exact_singular_values"][-1, :2] == pytest.approx(np.linalg.svd(found["target"])[1][:2], rel=0.02)


@pytest.mark.usefixtures("undrawn")
def test_netcdf_can_be_read_back(tiny):
    xarray = pytest.importorskip("xarray")
    assert main(["learn", "tiny.npz", "--out", "result"]) == 0
    with xarray.open_dataset("result/trajectories.nc") as found, np.load("result/trajectories.npz") as arrays:
        np.testing.assert_array_equal(found["product"], arrays["exact_product"])


@pytest.mark.usefixtures("undrawn")
def test_report_shows_figures_numbers_and_escapes_text(tiny):
    assert main(["learn", "tiny.csv", "--out", "result"]) == 0
    page = (tiny / "result" / "report.html").read_text(encoding="utf-8")
    sources = re.findall(r'<img src="([^"]+)" alt="([^"]+)">', page)
    assert [source for source, _ in sources] == [f"{name}.png" for name in FIGURES]
    assert "1 constant and left out: same" in page
    assert "$" not in page  # no placeholder of the template is left
    assert not re.findall(r'(?:src|href)="(?:http|/)', page)


@pytest.mark.usefixtures("undrawn")
def test_hostile_names_are_text_in_the_report(tiny):
    text = (tiny / "tiny.csv").read_text().replace("same", "<script>alert(1)</script>")
    (tiny / "a&b.csv").write_text(text)
    assert main(["learn", "a&b.csv", "--out", "result"]) == 0
    page = (tiny / "result" / "report.html").read_text(encoding="utf-8")
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "on a&amp;b</h1>" in page


def test_control_characters_in_labels_do_not_reach_the_terminal(tiny, capsys):
    labels = {"a": "\x1b[31mred\x1b[0m", "b": "blue\x07"}
    header, *rows = (tiny / "tiny.csv").read_text().splitlines()
    hostile = [row[:-1] + labels[row[-1]] for row in rows]
    (tiny / "red.csv").write_text("\n".join([header.replace("same", "sa\x1bme"), *hostile]))
    assert main(["learn", "red.csv", "--out", "result"]) == 0
    shown = capsys.readouterr().out
    assert r"\x1b[31mred\x1b[0m, blue\x07" in shown
    assert all(c.isprintable() or c == "\n" for c in shown)
    page = (tiny / "result" / "report.html").read_text(encoding="utf-8")
    assert "\x1b" not in page
    assert main(["learn", "red.csv", "--classes", "z"]) == 2
    assert capsys.readouterr().err.rstrip("\n").isprintable()


@pytest.mark.usefixtures("undrawn")
def test_earlier_result_is_replaced(tiny):
    assert main(["learn", "tiny.csv"]) == 0
    before = (tiny / "learn-tiny-csv" / "report.html").read_text(encoding="utf-8")
    assert main(["learn", "tiny.csv", "--scale", "0.01"]) == 0
    after = (tiny / "learn-tiny-csv" / "report.html").read_text(encoding="utf-8")
    assert before != after
    assert "<td>0.01</td>" in after


@pytest.mark.usefixtures("undrawn")
def test_results_of_other_data_are_not_replaced(tiny, capsys):
    (tiny / "other").mkdir()
    assert main(["learn", "tiny.csv"]) == 0
    assert main(["learn", "tiny.npz"]) == 0
    assert {path.name for path in tiny.glob("learn-*")} == {"learn-tiny-csv", "learn-tiny-npz"}
    capsys.readouterr()
    assert main(["learn", "tiny.npz", "--out", "learn-tiny-csv"]) == 2
    assert re.search(r"out = learn-tiny-csv holds results of linsolve learn on .*tiny\.csv", capsys.readouterr().err)
    for name in ("report.html", "trajectories.npz"):
        (tiny / "other" / name).write_text("mine")
    assert main(["learn", "tiny.npz", "--out", "other"]) == 2
    assert {path.read_text() for path in (tiny / "other").iterdir()} == {"mine"}


@pytest.mark.usefixtures("undrawn")
@pytest.mark.usefixtures("undrawn")
def test_parity_obstruction_is_reported(tiny, capsys):
    from linsolve.studies.learn.run import learn

    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    np.savez("square.npz", X=X, Y=X @ rng.normal(size=(2, 2)) + 0.1 * rng.normal(size=(50, 2)))
    verdicts = []
    for seed in range(3):
        found = learn(ls.data.load("square.npz"), seed=seed)
        sign = np.linalg.det(found.problem.target) * np.linalg.det(found.exact["product"][0])
        verdicts.append(found.obstructed)
        assert found.obstructed == (sign < 0)
    seed = str(verdicts.index(True))
    assert main(["learn", "square.npz", "--seed", seed, "--out", "result"]) == 0
    assert "target not reachable: the exact solution ends on a saddle" in capsys.readouterr().out
    assert "This start is obstructed by parity" in (tiny / "result" / "report.html").read_text(encoding="utf-8")


@pytest.mark.exhaustive
def test_learn_compares_descent_with_its_exact_theory(tiny, capsys):
    assert main(["learn", "tiny.npz", "--descent", "--out", "result"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "theory of gradient descent" in line)
    assert float(row.split()[4]) <= 1e-13
    page = (tiny / "result" / "report.html").read_text(encoding="utf-8")
    assert "descent.png" in page
    assert "along the singular modes" in page
    saved = np.load(tiny / "result" / "trajectories.npz")
    far = {name: np.abs(saved["descended_product"] - saved[f"{name}_product"]).max() for name in ("theory", "exact")}
    assert far["theory"] <= 1e-13
    assert far["exact"] >= 1e-3
    assert main(["learn", "tiny.npz", "--descent", "--imbalance", "0.1", "--out", "other"]) == 2
    assert "imbalance = 0.1 must be 0 at depth = 2 (descent is solved for balanced layers)" in capsys.readouterr().err


@pytest.mark.exhaustive
def test_learn_waits_for_the_smallest_starts():
    from linsolve.studies.learn.run import learn

    found = learn(ls.data.load("tree"), scale=1e-30)
    assert found.exact["loss"][-1] < 1e-2 * found.exact["loss"][0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 2.0}, "width = 2.0 must be an integer"),
        ({"width": True}, "width = True must be an integer"),
        ({"seed": None}, "seed = None must be an integer"),
        ({"seed": 1.5}, "seed = 1.5 must be an integer"),
        ({"rate": "1"}, "rate = '1' must be a number"),
        ({"scale": [1.0]}, r"scale = \[1.0\] must be a number"),
    ],
)
def test_learn_refuses_options_of_other_types(options, message):
    from linsolve.studies.learn.run import learn

    with pytest.raises(TypeError, match=f"learn: {message}"):
        learn(ls.data.load("tree"), **options)
    with pytest.raises(TypeError, match=r"learn: dataset = '.*' must be a Dataset .* pass ls\.data\.load"):
        learn("tree")


def test_bottleneck_stays_a_bottleneck():
    from linsolve.studies.learn.run import learn

    found = learn(ls.data.load("digits", classes=range(6)), width=2, imbalance=0.2)
    assert found.differences["integrated"].product < 1e-7
    assert found.integrated["singular_values"][-1, 2] < 1e-12


@pytest.mark.usefixtures("undrawn")
def test_netcdf_is_optional(tiny, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    assert main(["learn", "tiny.csv", "--out", "result"]) == 0
    assert "trajectories.nc: not written" in capsys.readouterr().out
    assert not (tiny / "result" / "trajectories.nc").exists()
    assert "trajectories.nc" not in (tiny / "result" / "report.html").read_text(encoding="utf-8")


BAD = {
    "digit": "did you mean 'digits'",
    "none.csv": "does not exist",
    "tiny.npz --target kind": "needs a .csv file",
    "tiny.csv --target knid": "target column = 'knid' is unknown",
    "tiny.csv --classes a": "only one class",
    "tiny.csv --classes a,z": "class = 'z' is unknown",
    "tiny.csv --target same": "is not a number",
    "nan.csv": "line 3, column 'x' = nan must be finite",
    "flat.csv": "X is constant in every column",
    "flat_target.npz": r"Y column 1 is constant",
    "many.csv": "classes = 3 are too many for 3 samples",
    "tiny.csv --width 0": "width = 0 must be at least 1",
    "tiny.csv --width 7 --imbalance 1": "width = 7 must be at most",
    "tiny.csv --scale -1": "scale = -1.0 must be positive",
    "tiny.csv --rate nan": "rate = nan must be positive",
    "tiny.csv --imbalance inf": "imbalance = inf must be finite",
    "tiny.csv --step 100": "step = 100 must be below",
    "tiny.csv --step 1e-9": "use a larger step",
    "tiny.csv --width 1000000000": "width = 1000000000 must be at least 1 and at most 100000",
    "tiny.csv --scale 1e-300": r"scale = 1e-300 must lie in \[1e-30, 1e\+30\]",
    "tiny.csv --scale 1e6": "takes .* steps .* or smaller weights",
    "tiny.csv --rate 1e300": "rate = 1e.300 must lie in",
    "tiny.csv --imbalance -1e300": "imbalance = -1e.300 must be at most 1e.30 in size",
    "tiny.csv --scale 1000 --step 0.1": "step = 0.1 must be below",
    "tiny.csv --seed -1": "seed = -1 must not be negative",
    "tiny.csv --depth 1e300": "depth = 1e.300 must be a whole number up to 10000",
    "tiny.csv --depth 1000": r"more than 10000 \(each of 1000 layers\); .* or fewer layers",
    "tiny.csv --classes \x1b[31m": r"class = '.x1b\[31m' is unknown",
    "tiny.csv --out .": "holds other files and is not overwritten",
    "tiny.csv --out tiny.npz": "is not a folder",
    "tiny.csv --wdith 3": "unrecognized arguments: --wdith 3",
    "tiny.csv --width many": "invalid int value: 'many'",
}


@pytest.mark.parametrize("command", BAD)
def test_bad_input_is_one_line_and_leaves_nothing(tiny, capsys, command):
    (tiny / "nan.csv").write_text("x,y\n1,a\nnan,b\n2,a\n3,b\n")
    (tiny / "flat.csv").write_text("x,y\n1,a\n1,b\n1,a\n1,b\n")
    (tiny / "many.csv").write_text("x,y\n1,a\n2,b\n3,c\n")
    np.savez(tiny / "flat_target.npz", X=np.arange(6.0), Y=np.column_stack([np.arange(6.0) ** 2, np.ones(6)]))
    before = sorted(tiny.rglob("*"))
    assert main(["learn", *command.split()]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(lines(shown.err)) == 1
    assert shown.err.startswith("linsolve: ")
    assert re.search(BAD[command], shown.err)
    assert sorted(tiny.rglob("*")) == before


def test_failure_while_writing_leaves_nothing(tiny, capsys, monkeypatch):
    def full(*args, **kwargs):
        raise OSError("No space left on device")

    monkeypatch.setattr("numpy.savez_compressed", full)
    before = sorted(tiny.rglob("*"))
    assert main(["learn", "tiny.csv", "--out", "result"]) == 2
    assert capsys.readouterr().err == "linsolve: No space left on device\n"
    assert sorted(tiny.rglob("*")) == before


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("verify BalancdMode", "did you mean 'BalancedMode'"),
        ("verify --seeds 0", "seeds = 0 must be an integer from 1 to 100000"),
        ("verify --json --latex", "argument --latex: not allowed with argument --json"),
        ("verify --dps 3", "dps = 3 must be an integer of at least 15"),
        ("verify --dps 5000000000", "dps = 5000000000 must be at most 1000"),
        ("ntk-stats --seed -1", "seed = -1 must be at least 0 (seed of random networks); say 0"),
        ("learn", "the following arguments are required: DATA"),
        ("", "the following arguments are required: COMMAND"),
        ("lern digits", "command = 'lern' is unknown; did you mean learn?"),
    ],
)
def test_bad_commands_are_one_line(capsys, command, message):
    assert main(command.split()) == 2
    shown = capsys.readouterr()
    assert len(lines(shown.err)) == 1
    assert message in shown.err


def test_an_interrupted_command_says_so_in_a_line(capsys, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(ls, "verify", interrupted)
    assert main(["verify", "BalancedMode"]) == 130
    assert capsys.readouterr() == ("", "linsolve: interrupted\n")


@pytest.mark.parametrize("closed", [[1], [1, 2]])
@pytest.mark.quick(1)
def test_closed_streams_are_no_failure(closed):
    close = f"import os; [os.close(k) for k in {closed}]; "
    run = [sys.executable, "-m", "linsolve", "list"]
    done = subprocess.run(
        [sys.executable, "-c", close + f"os.execv({run[0]!r}, {run})"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("value", ["-1e-3", "-.5", "-1E-3", "-inf"])
def test_negative_numbers_are_no_options(tiny, capsys, value):
    code = main(["learn", "tiny.csv", "--imbalance", value, "--width", "1", "--rate", "-1"])
    assert code == 2
    assert "rate = -1.0 must be positive" in capsys.readouterr().err


def test_version_is_that_of_the_package(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"linsolve {ls.__version__}\n"


def test_help_gives_status_0(capsys):
    assert main(["learn", "--help"]) == 0
    assert "--imbalance" in capsys.readouterr().out
