"""Tidy tables, figures by method and notebook representations of trajectories, verdicts, proofs and diagrams."""

import csv
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

import linsolve as ls

every_flow = pytest.mark.parametrize("cls", ls.flows.ALL, ids=lambda c: c.__name__)
TIMES = [0.5, [0.0, 0.5, 1.0], [[0.0, 0.5], [2.0, 3.0]]]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def rebuilt(table, name, shape):
    """Return an array from its rows, which must be each index once."""
    rows = table[table["name"] == name]
    own = [
        rows[axis].to_numpy(dtype=int) for axis in rows.columns if axis.startswith("axis") and rows[axis].notna().all()
    ]
    assert len(rows) == np.prod(shape, dtype=int)
    if own:
        tail = np.stack(own, axis=1).reshape(-1, int(np.prod(shape[len(shape) - len(own) :])), len(own))
        assert (tail == np.stack([i.ravel() for i in np.indices(shape[len(shape) - len(own) :])], axis=1)).all()
    return rows["value"].to_numpy().reshape(shape)


@every_flow
@pytest.mark.parametrize("t", TIMES, ids=["scalar", "line", "grid"])
def test_a_table_has_one_row_for_each_number(cls, t):
    pytest.importorskip("pandas")
    pytest.importorskip("xarray")
    flow, z0 = cls.example(np.random.default_rng(0))
    traj = flow(t, z0)
    table = traj.to_dataframe()
    assert list(dict.fromkeys(table["name"])) == traj.names
    labelled = traj.to_xarray()
    assert len(table) == sum(labelled[name].size for name in traj)
    assert set(np.unique(table["t"])) == set(np.ravel(t))
    for name in flow.axes:
        np.testing.assert_array_equal(rebuilt(table, name, traj[name].shape), traj[name])


def test_fields_are_listed_below_each_other_and_not_crossed():
    pytest.importorskip("pandas")
    flow = ls.WhitenedTwoLayer(target=np.eye(5))
    traj = flow(np.linspace(0, 1, 5), flow.of(*ls.WhitenedTwoLayer.init(5, 5, 5, scale=0.1, rng=0)))
    table = traj.to_dataframe()
    assert len(table) == sum(traj[name].size for name in traj) < 2000
    assert list(table.columns) == ["t", "name", "axis0", "axis1", "value"]
    row = table[(table["name"] == "product") & (table["t"] == 0.5) & (table["axis0"] == 1) & (table["axis1"] == 3)]
    assert row["value"].item() == traj["product"][2, 1, 3]
    assert table[table["name"] == "loss"]["axis0"].isna().all()


def test_members_of_a_batch_have_their_index_and_parameters():
    pytest.importorskip("pandas")
    traj = ls.BalancedMode(s=[[1.0], [2.0]], tau=0.5)([0.0, 1.0], [0.1, 0.2, 0.3])
    table = traj.to_dataframe("a")
    assert list(table.columns) == ["t", "batch0", "batch1", "parameter_s", "name", "value"]
    assert len(table) == 12
    for row in table.itertuples():
        assert row.value == traj["a"][int(row.t), row.batch0, row.batch1]
        assert row.parameter_s == [1.0, 2.0][row.batch0]


def test_a_file_has_the_rows_of_the_table(tmp_path):
    pandas = pytest.importorskip("pandas")
    traj = ls.solve([np.eye(2), np.ones((1, 2))], (np.eye(2), [1.0, 2.0]), [0.0, 0.3])
    path = traj.to_csv(tmp_path / "t.csv")
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    table = traj.to_dataframe()
    assert rows[0] == list(table.columns) == ["t", "name", "axis0", "axis1", "value"]
    assert "ntk" not in set(table["name"])
    assert [float(row[-1]) for row in rows[1:]] == table["value"].tolist()
    assert [row[2] == "" for row in rows[1:]] == table["axis0"].isna().tolist()
    pandas.testing.assert_frame_equal(pandas.read_csv(path), table, check_dtype=False)
    assert len(traj.to_dataframe(["ntk"])) == 8
    assert traj.to_csv(path, "loss").read_text(encoding="utf-8").startswith("t,name,value\n0.0,loss,")


def test_tables_refuse_unknown_names_folders_and_a_missing_library(tmp_path, monkeypatch):
    traj = ls.BalancedMode(s=1.0)([0.0, 1.0], 0.1)
    with pytest.raises(KeyError, match="did you mean 'loss'"):
        traj.to_csv(tmp_path / "a.csv", "los")
    with pytest.raises(ValueError, match=r"Trajectory.to_csv: names = \[\] must name at least one"):
        traj.to_csv(tmp_path / "a.csv", [])
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ValueError, match=r"Trajectory.to_csv: folder of path = .*file is not a folder"):
        traj.to_csv(file / "a.csv")
    with pytest.raises(ValueError, match=r"folder of path = .*deep cannot be written: .* in .*file "):
        traj.to_csv(file / "deep" / "a.csv")
    file.unlink()
    with pytest.raises(ValueError, match=r"Trajectory.to_csv: path = .* is a folder"):
        traj.to_csv(tmp_path)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        ImportError, match=r'to_dataframe: pandas is missing; pip install "\.\[labelled\]" in the clone'
    ):
        traj.to_dataframe()


def test_a_diagram_is_a_table_too(tmp_path):
    pytest.importorskip("pandas")
    found = ls.sweep(lambda s, tau: {"loss": s * tau, "a": s + tau}, s=[1.0, 2.0], tau=[0.5, 1.0, 2.0])
    table = found.to_dataframe()
    assert list(table.columns) == ["s", "tau", "name", "value"]
    row = table[(table["name"] == "loss") & (table["s"] == 2.0) & (table["tau"] == 0.5)]
    assert row["value"].item() == found["loss"][1, 0]
    assert len(found.to_csv(tmp_path / "d.csv", "a").read_text().splitlines()) == 7


# figures


def drawable():
    flow, t = ls.BalancedMode(s=[1.0, 2.0]), np.linspace(0.0, 3.0, 9)
    wide = ls.ensembles.random_networks(width=10**6, sigma_u=1e-3, sigma_w=1e-3, y=1.0)
    return {
        "Trajectory": flow(t, 0.01),
        "NetworkTrajectory": ls.solve([np.eye(2), np.ones((1, 2))], (np.eye(2), [1.0, 2.0]), t),
        "Diagram": ls.sweep(lambda s: {"loss": s**2}, s=[1.0, 2.0]),
        "Ensemble": ls.ensemble(wide, 50, t, rng=0),
    }


@pytest.mark.parametrize("kind", ["Trajectory", "NetworkTrajectory", "Diagram", "Ensemble"])
def test_everything_is_drawn_by_one_habit(kind):
    found = drawable()[kind]
    ax = found.plot()
    assert "loss" in ax.get_ylabel()
    _, own = plt.subplots()
    assert found.plot("loss", own, log=False, linewidth=3.0) is own
    assert own.get_yscale() == "linear"
    assert own.lines[0].get_linewidth() == 3.0
    with pytest.raises((KeyError, ValueError), match="did you mean 'loss'"):
        found.plot("los")
    keys = found._ipython_key_completions_()
    assert keys
    for key in keys:
        found[key]


# notebooks


def test_flows_trajectories_verdicts_proofs_are_tables_in_a_notebook():
    gen = np.random.default_rng(0)
    flow = ls.BalancedMode(s=2.0, tau=1e-7)
    verdict = ls.applies([gen.normal(size=(3, 2)), gen.normal(size=(2, 3))], (gen.normal(size=(9, 2)),) * 2)
    shown = {
        "BalancedMode: ": flow,
        "BalancedMode: closed form, t of shape (2,)": flow([0.0, 1.0], 0.1),
        "NOT EXACT": verdict,
        "Nearest exact case": verdict,
        "BalancedMode: passed": ls.verify(ls.BalancedMode(s=2.0), 0.1, 20),
        "closed form: DeepMode, t of shape (2,)": ls.solve([[[1.0]]], ([[1.0]], [3.0]), [0.0, 1.0]),
    }
    for text, each in shown.items():
        page = each._repr_html_()
        assert text in page
        assert page.count("<table>") == page.count("</table>") <= 1
        assert page.count("<td>") == page.count("</td>")
    assert flow._repr_latex_() == r"$\displaystyle \mathrm{BalancedMode}\;(s = 2,\; \tau = 1 \cdot 10^{-7})$"


def test_text_is_escaped_in_a_notebook():
    from linsolve.core.notebook import html_table

    page = html_table("<a>", ("<b>",), [("<c>",)], ["<d> & <e>"])
    for letter in "abcde":
        assert f"&lt;{letter}&gt;" in page


@every_flow
def test_every_flow_shows_its_parameters(cls):
    flow, _ = cls.example(np.random.default_rng(1))
    page, formula = flow._repr_html_(), flow._repr_latex_()
    for name in flow.parameters():
        assert f"<td>{name}</td>" in page
    assert formula.startswith("$")
    assert formula.endswith("$")
    import matplotlib.mathtext

    matplotlib.mathtext.MathTextParser("path").parse(formula.replace(r"\displaystyle", ""))
