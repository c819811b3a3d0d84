"""`linsolve ntk-stats`: what it samples, computes, prints, draws and refuses."""

from itertools import pairwise

import numpy as np
import pytest
from legibility import covered

import linsolve as ls
from linsolve import ntk
from linsolve.__main__ import main
from linsolve.cli.ntk_stats import EXAMPLE
from linsolve.plot.style import ladder
from linsolve.studies.ntk_stats.figures import draw
from linsolve.studies.ntk_stats.report import SIZE, table
from linsolve.studies.ntk_stats.survey import deepest_sampled, survey
from linsolve.systems.random_networks import limits, printed


def names_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.fixture(scope="module")
def found():
    return survey(width=40, inputs=30, depth=20, networks=20_000, seed=1)


def test_lines_of_close_variances_keep_their_names():
    given = [2.0, 2.0000001, 2.0000002]
    found = survey(width=5, depth=2, weight_variances=given, networks=1_000)
    arrays = found.arrays()
    for variance, key in zip(given, ("2", "2.0000001", "2.0000002"), strict=True):
        assert arrays[f"{key} weight_variance"] == variance
    per_line = sum(name.endswith("weight_variance") for name in arrays)
    assert per_line == len(given)


def test_lines_are_the_sums_and_limits(found):
    assert [line.found for line in found.lines] == ["ordered", "ordered", "edge of chaos", "chaotic", "chaotic"]
    widths, ratio, alpha = np.array([30.0] + [40.0] * 19), np.arange(1, 21) / 40, np.asarray(0.75)
    for line in found.lines:
        exact = np.exp(ntk.moments(widths, line.weight_variance).log_dispersion(np))
        np.testing.assert_allclose(line.exact, exact, rtol=1e-14)
        np.testing.assert_allclose(line.limit, limits.dispersion(np, line.found, ratio, np.asarray(5.0), alpha))
        np.testing.assert_array_equal(line.printed, printed.finite(widths, line.weight_variance))
    np.testing.assert_array_equal(found.lines[2].printed_limit, printed.edge_limit(np, ratio, alpha))
    np.testing.assert_array_equal(found.lines[4].printed_limit, printed.weights_limit(np, ratio))


def test_samples_agree_with_the_sums_and_not_with_the_printed_ones(found):
    samples = [s for line in found.lines for s in (line.sampled, line.explicit, line.stepped)]
    assert sum(len(s.depths) for s in samples) > 30
    assert max(np.abs(s.scores()).max() for s in samples) < 3.5
    for line in found.lines:
        off = (line.sampled.mean - line.printed[line.sampled.depths - 1]) / line.sampled.error
        assert np.abs(off).max() > 20


def test_only_what_means_something_is_sampled(found):
    assert max(line.sampled.depths.max() for line in found.lines) == found.sampled_depth < 0.3 * 40
    wide = np.full(1000, 100.0)
    assert deepest_sampled(wide, 5.0, 10**12) == 29  # never L/M = 0.3
    for networks in (2_000, 50_000):
        last = deepest_sampled(wide, 5.0, networks)
        assert np.exp(20 * last / 100) <= 0.03**2 * networks < np.exp(20 * (last + 1) / 100)


def test_the_seed_is_all_that_is_random():
    one, two, three = (survey(width=10, depth=4, networks=5_000, seed=seed).lines[0].sampled.mean for seed in (3, 3, 4))
    np.testing.assert_array_equal(one, two)
    assert np.all(one != three)


@pytest.mark.parametrize(("activation", "slope"), [("linear", 1.0), ("0.2", 0.2), ("relu", 0.0)])
def test_other_units_have_nothing_printed(activation, slope):
    found = survey(width=20, depth=6, activation=activation, networks=3_000)
    assert found.slope == slope
    assert [line.found for line in found.lines].count("edge of chaos") == 1
    assert all((len(line.printed) > 0) == (slope == 0) == (len(line.printed_limit) > 0) for line in found.lines)
    with ls.plot.figure(1, 3) as (_, axes):
        draw(axes, found)
        names = [text.get_text() for ax in axes for text in ax.get_legend().get_texts()]
        assert any("printed" in name for name in names) == (slope == 0)
    assert ("-  " in table(found)) == (slope != 0)


def test_networks_too_narrow_to_sample_are_computed_all_the_same():
    found = survey(width=2, depth=5, networks=1_000)
    assert found.sampled_depth < 2
    assert "nothing can be sampled" in table(found)
    with ls.plot.figure(1, 3, figsize=SIZE) as (_, axes):
        draw(axes, found)
        assert not any("networks" in name for ax in axes for name in names_of(ax))
        assert axes[1].get_title(loc="left") == "(b) the same at small depth, not sampled"


def test_the_picture_of_the_example_of_the_help_names_its_samples_and_limits():
    words = EXAMPLE.split()
    numbers = {word[2:]: int(value) for word, value in pairwise(words) if word.startswith("--")}
    found = survey(**numbers)
    with ls.plot.figure(1, 3, figsize=SIZE) as (fig, axes):
        draw(axes, found)
        fig.canvas.draw()
        for ax in axes:
            assert covered(ax) == []
        assert [text.get_text() for text in axes[0].texts] == ["ordered", "edge of chaos", "chaotic"]
        assert {"networks drawn layer by layer", "explicit networks"} < set(names_of(axes[1]))
        dashed = [line.get_color() for line in axes[2].lines if line.get_linestyle() == "--" and len(line.get_xdata())]
        assert [tuple(color) for color in dashed] == [tuple(color) for color in ladder(5)]


def test_the_command_prints_and_writes(tmp_path, capsys):
    out = tmp_path / "new" / "folder"
    arguments = ["ntk-stats", "--width", "20", "--depth", "8", "--weight-variance", "1.5,2,2.5", "--networks", "5000"]
    assert main([*arguments, "--out", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3:] == [str(out / f"ntk-stats.{ending}") for ending in ("png", "pdf", "npz")]
    assert sorted(path.name for path in out.iterdir()) == ["ntk-stats.npz", "ntk-stats.pdf", "ntk-stats.png"]
    assert {line.split()[1] for line in lines if line.split()[0] in ("1.5", "2", "2.5")} == {
        "ordered", "edge", "chaotic",
    }  # fmt: skip
    with np.load(out / "ntk-stats.npz") as grid:
        exact = np.exp(ntk.moments(np.full(8, 20), 2.5).log_dispersion(np))
        np.testing.assert_allclose(grid["2.5 exact"], exact, rtol=1e-14)
        assert grid["2 sampled mean"].shape == grid["2 sampled error"].shape == grid["2 sampled depths"].shape
        assert int(grid["networks"]) == 5000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--width", "1"], "ntk-stats: width = 1 must be at least 2"),
        (["--depth", "1"], "ntk-stats: depth = 1 must be at least 2"),
        (["--inputs", "0"], "ntk-stats: inputs = 0 must be at least 1"),
        (["--networks", "10"], "ntk-stats: networks = 10 must be at least 1000"),
        (["--seed", "-1"], "ntk-stats: seed = -1 must be at least 0"),
        (["--width", "4", "--depth", "100"], "ntk-stats: depth = 100 is more than 20 times the width"),
        (["--activation", "erf"], "ntk-stats: activation = 'erf' has no exact moments"),
        (["--activation", "nan"], "ntk-stats: activation = 'nan' has no exact moments"),
        (["--weight-variance", "2,x"], "ntk-stats: weight_variance = '2,x' is not a list of numbers"),
        (["--weight-variance", "2,-1"], "ntk-stats: weight_variance = [2.0, -1.0] must be positive numbers"),
        (["--weight-variance", "2,nan"], "ntk-stats: weight_variance = [2.0, nan] must be positive numbers"),
        (["--weight-variance", "2,2"], "ntk-stats: weight_variance = [2.0, 2.0] has a number twice"),
        (
            ["--weight-variance", "1e300"],
            "ntk-stats: weight_variance = 1e+300 leaves the range of numbers at depth 100",
        ),
        (["--out", "taken"], "ntk-stats: out = taken is not a folder"),
    ],
)
def test_the_command_refuses_in_one_line(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("")
    assert main(["ntk-stats", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"linsolve: {message}")
    assert captured.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize(
    ("name", "value"), [("width", 10**9 + 1), ("inputs", 10**9 + 1), ("depth", 10**5 + 1), ("networks", 10**7 + 1)]
)
def test_sizes_beyond_the_limits_are_refused(name, value):
    with pytest.raises(ValueError, match=f"ntk-stats: {name} = {value} must be at most {value - 1}"):
        survey(**{name: value})
