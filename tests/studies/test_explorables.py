"""The pages with sliders: their JavaScript, run by Node.js, against the formulas in NumPy and the Python code shown."""

import inspect
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from linsolve.__main__ import main
from linsolve.studies import explorables
from linsolve.studies.explorables import EXPLORABLES, page

RUNNER = Path(__file__).with_suffix("").with_name("explorables.mjs")
DRAWS = 10_000  # random inputs of a page
STEPS = 40  # of a recursion
# outputs that vanish between their terms, and the outputs whose largest one is the unit of the error
NORMWISE = {"u": ("u", "w"), "w": ("u", "w")}
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="no Node.js on this computer")
every_page = pytest.mark.parametrize("name", EXPLORABLES)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for name in EXPLORABLES:
        explorables.write(name, folder / f"{name}.html")
    return folder


def answers(questions):
    """Return the outputs of formulas of pages, evaluated by Node.js; nan where a number is not finite."""

    def plain(columns):
        return {name: ["Infinity" if v == np.inf else v for v in values.tolist()] for name, values in columns.items()}

    lines = [json.dumps(q | {"inputs": plain(q["inputs"]), "over": plain(q["over"])}) for q in questions]
    run = subprocess.run(["node", RUNNER], input="\n".join(lines), capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    found = [json.loads(line) for line in run.stdout.splitlines()]
    return [{name: np.array(values, dtype=float) for name, values in each.items()} for each in found]


def inputs_of(formula):
    return list(inspect.signature(formula).parameters)[1:]


def drawn(about, rng, count):
    """Return random values of all inputs of the formulas of a page, over its sliders, grids and curves."""
    sliders = {slider.name: slider for slider in about.sliders}
    found = {}
    for name, ends in page.ranges(about).items():
        each = sliders.get(name)
        panels = [panel for panel in about.panels if panel.over == name]
        log = each.step == 0 if each else any(panel.grid[2] == "log" for panel in panels)
        high = min(ends.high, 1e300)
        high = high if ends.high < np.inf else max([p.grid[1] for p in panels if p.grid[1] < np.inf] or [10 * ends.low])
        values = (
            np.exp(rng.uniform(np.log(ends.low), np.log(high), count)) if log else rng.uniform(ends.low, high, count)
        )
        found[name] = np.where(rng.random(count) < 0.05, ends.high, np.clip(values, ends.low, high))
    return found


def ulps(found, expected, sizes):
    """Return errors in units in the last place of `sizes`."""
    assert np.isfinite(expected).all()
    return np.abs(found - expected) / np.spacing(np.abs(sizes))


def errors_of(name, written, rng):
    """Return the largest error of each output of each formula of a page, in ulp, and those of its recursions."""
    about = EXPLORABLES[name]
    uses = page.uses(about)
    file, questions, expected = str(written / f"{name}.html"), [], []
    for formula, over in uses:
        given = drawn(about, rng, DRAWS // len(uses))
        function, known = about.formulas[formula], page.ranges(about)
        given = {key: given[key] for key in inputs_of(function) if key in given}
        state = [key for key in over if key not in known]
        if state:
            begin = next(c.orbit.begin for p in about.panels for c in p.curves if c.orbit and c.orbit.step == formula)
            start = about.formulas[begin](np, **{key: given[key] for key in inputs_of(about.formulas[begin])})
            varying = {key: start[key] + 0 * next(iter(given.values())) for key in state}
            now = varying
            with np.errstate(all="ignore"):  # descent may diverge
                for _ in range(STEPS):
                    now = function(np, **given, **now)
            expected.append(now)
        else:
            varying = {key: given.pop(key) for key in over}
            expected.append(function(np, **given, **varying))
        key = page.key_of(formula, over)
        questions.append({"page": file, "key": key, "inputs": given, "over": varying, "steps": STEPS * bool(state)})
    found, worst = answers(questions), {}
    for question, one, other in zip(questions, found, expected, strict=True):
        for output, values in one.items():
            truth = np.broadcast_to(other[output], values.shape)
            if question["steps"]:
                truth = np.where(np.isfinite(truth), truth, np.nan)
                np.testing.assert_array_equal(values, truth)
                worst[question["key"], output] = 0.0
            else:
                sizes = np.max([np.abs(other[each]) for each in NORMWISE.get(output, (output,))], axis=0)
                worst[question["key"], output] = ulps(values, truth, sizes).max()
    return worst


@needs_node
@every_page
def test_a_page_has_the_numbers_of_numpy(name, written):
    worst = errors_of(name, written, np.random.default_rng(0))
    assert all(error <= 4 for error in worst.values()), worst


@needs_node
@every_page
def test_the_python_code_gives_the_same_numbers(name, written):
    about, rng = EXPLORABLES[name], np.random.default_rng(1)
    for values in ({slider.name: slider.value for slider in about.sliders}, settings(about, rng)):
        held = {}
        exec(re.sub(r"\{(\w+)\}", lambda found: repr(values[found[1]]), about.code), held)  # noqa: B023
        compared = 0
        for formula, over in page.uses(about):
            function = about.formulas[formula]
            if len(over) != 1 or over[0] not in held or not set(inputs_of(function)) <= {*values, *over}:
                continue
            grid = np.asarray(held[over[0]])
            given = {key: np.full(grid.shape, values[key]) for key in inputs_of(function) if key not in over}
            key = page.key_of(formula, over)
            asked = {"page": str(written / f"{name}.html"), "key": key, "inputs": given, "over": {over[0]: grid}}
            for output, curve in answers([asked])[0].items():
                if output in held:
                    sizes = np.max([np.abs(held[each]) for each in NORMWISE.get(output, (output,))], axis=0)
                    assert ulps(curve, held[output], sizes).max() <= 4, (output, values)
                    compared += 1
        assert compared > 0


def settings(about, rng):
    """Return random values of the sliders that their positions have."""
    found = {}
    for slider in about.sliders:
        if slider.step:
            count = round((slider.high - slider.low) / slider.step)
            found[slider.name] = round(slider.low + slider.step * int(rng.integers(count + 1)), 9)
        else:
            value = float(np.exp(rng.uniform(np.log(slider.low), np.log(slider.high))))
            found[slider.name] = min(slider.high, max(slider.low, float(f"{value:.3g}")))
    return found


@every_page
def test_a_page_is_one_file_that_loads_nothing(name, written):
    text = (written / f"{name}.html").read_text(encoding="utf-8")
    assert re.findall(r"""(?:src|href)=["']([^"']*)|url\(|@import|https?://(?!www\.w3\.org)""", text) == ["data:,"]
    assert not re.search(r"\$[a-z]+\b", re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL))
    assert "default-src 'none'" in text
    assert EXPLORABLES[name].title in text


def test_the_command_lists_and_writes_pages(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["explore"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(EXPLORABLES)
    assert main(["explore", "stages"]) == 0
    assert capsys.readouterr().out == "stages.html\n"
    assert (tmp_path / "stages.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("explore stagse", "name = 'stagse' is unknown; did you mean 'stages'"),
        ("explore stages --out page.pdf", r"out = page.pdf must be a file ending in .html \(the page\)"),
        ("explore --out a.html", "out = a.html does not go with the list"),
    ],
)
def test_bad_uses_are_one_line(tmp_path, monkeypatch, capsys, command, message):
    monkeypatch.chdir(tmp_path)
    assert main(command.split()) == 2
    shown = capsys.readouterr()
    assert re.search(message, shown.err)
    assert len(shown.err.splitlines()) == 1
    assert not list(tmp_path.iterdir())
