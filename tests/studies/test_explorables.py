"""The pages with sliders: their JavaScript, run by Node.js, against the formulas in NumPy and the Python code shown."""

import json
import re
import shutil
import subprocess
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from selection import quick

from linsolve.__main__ import main
from linsolve.studies import explorables
from linsolve.studies.explorables import EXPLORABLES, page

ANSWER = Path(__file__).with_name("answer.js").read_text(encoding="utf-8")
# reads questions from standard input, one a line, and prints the answers
RUNNER = r"""
import {readFileSync} from "node:fs";
ANSWER
for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  const question = JSON.parse(line), page = readFileSync(question.page, "utf8");
  const text = page.match(/<script id="formulas">([^]*?)<\/script>/)[1];
  console.log(JSON.stringify(answer(new Function(text + "return formulas;")(), question)));
}
"""
STEPS = 40  # of a recursion
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="no Node.js on this computer")
every_page = pytest.mark.parametrize("name", EXPLORABLES)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for name in EXPLORABLES:
        explorables.write(name, folder / f"{name}.html")
    return folder


def plain(question):
    """Return a question as JSON, in which infinity is a string."""

    def columns(values):
        return {name: ["Infinity" if v == np.inf else v for v in each.tolist()] for name, each in values.items()}

    return json.dumps(question | {part: columns(question[part]) for part in ("inputs", "over")})


def answers(questions):
    """Return the outputs of formulas of pages, evaluated by Node.js; nan where a number is not finite."""
    node = ["node", "--input-type=module", "--eval", RUNNER.replace("ANSWER", ANSWER)]
    run = subprocess.run(node, input="\n".join(map(plain, questions)), capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    found = [json.loads(line) for line in run.stdout.splitlines()]
    return [{name: np.array(values, dtype=float) for name, values in each.items()} for each in found]


def drawn(about, rng, count):
    """Return random values of the inputs of a page's formulas: over its sliders and grids, and those of its curves."""
    found, sliders = {}, {slider.name: slider for slider in about.sliders}
    for name, ends in page.ranges(about).items():
        grids = [panel.grid for panel in about.panels if panel.over == name]
        numbers = [v for curve in curves_of(about) if isinstance(v := curve.given.get(name), float)]
        slider = sliders.get(name)
        low, high, log = (slider.low, slider.high, slider.step == 0) if slider else (ends.low, ends.high, False)
        if grids and not slider:
            low, high = (
                end if isinstance(end, float) else getattr(sliders[end], k)
                for end, k in zip(grids[0][:2], ("low", "high"), strict=True)
            )
            log = grids[0][2] == "log"
        values = np.exp(rng.uniform(np.log(low), np.log(high), count)) if log else rng.uniform(low, high, count)
        values = np.clip(values, low, high)
        found[name] = np.where(rng.random(count) < 0.1, rng.choice(numbers, count), values) if numbers else values
    return found


def curves_of(about):
    return [curve for panel in about.panels for curve in panel.curves]


class Rounded:
    """NumPy whose elementary functions are rounded from a higher precision; its own depend on the processor."""

    def __getattr__(self, name):
        function = getattr(np, name)
        return partial(self.rounded, function) if name in ("exp", "expm1", "log", "log1p", "pow") else function

    def rounded(self, function, *args):
        return np.asarray(function(*(np.asarray(a, dtype=np.longdouble) for a in args)), dtype=float)


class Nudged(Rounded):
    """These functions, off by one unit in the last place, up or down: all the same way, or by the seed each its own."""

    def __init__(self, way, seed=None):
        self.way, self.rng = way, None if seed is None else np.random.default_rng(seed)

    def rounded(self, function, *args):
        value = super().rounded(function, *args)
        return np.nextafter(value, self.way if self.rng is None else self.way * self.rng.choice([-1, 1], value.shape))


def slack(formula, given):
    """Return, by output, the effect of one unit in the last place of every elementary function on a formula.

    Errors of one sign may cancel, to the last bit.
    """
    truth, found = formula(Rounded(), **given), []
    for seed in (None, 0, 1, 2):
        up, down = (formula(Nudged(way, seed), **given) for way in (np.inf, -np.inf))
        with np.errstate(invalid="ignore"):  # of two infinite values
            found.append({name: np.abs(up[name] - v) + np.abs(down[name] - v) for name, v in truth.items()})
    return {name: np.max([each[name] for each in found], axis=0) for name in truth}


def excess(found, truth, slack):
    """Return errors in ulp: all of each, and the part beyond the `slack`; values that are not finite must agree.

    Values below 1e-12, far below what a plot shows, count as 1e-12.
    """
    finite = np.isfinite(truth)
    np.testing.assert_array_equal(np.isfinite(found), finite)
    gap, unit = np.where(finite, found - truth, 0), np.spacing(np.where(finite, np.maximum(np.abs(truth), 1e-12), 1.0))
    return np.abs(gap) / unit, np.maximum(np.abs(gap) - np.where(finite, slack, 0), 0) / unit


def recursion(about, formula, state, given):
    """Return the numbers of a recursion at its start and after `STEPS` steps, in NumPy."""
    begin = about.formulas[next(c.orbit.begin for c in curves_of(about) if c.orbit and c.orbit.step == formula)]
    step = about.formulas[formula]
    start = begin(np, **{key: given[key] for key in page.inputs_of(begin)})
    start = now = {key: start[key] + np.zeros(len(given[next(iter(given))])) for key in state}
    with np.errstate(all="ignore"):  # descent may diverge
        for _ in range(STEPS):
            now = step(np, **now, **{key: given[key] for key in page.inputs_of(step) if key not in now})
    return start, {key: np.where(np.isfinite(v), v, np.nan) for key, v in now.items()}


def errors_of(name, written, rng, count):
    """Return, for each output of each formula of a page: the largest `excess`, the share beyond 4 ulp, the maximum."""
    about, known = EXPLORABLES[name], page.ranges(EXPLORABLES[name])
    uses, questions, expected, worst = page.uses(about), [], [], {}
    for formula, over in uses:
        function, given = about.formulas[formula], drawn(about, rng, count // len(uses))
        own = {key: given[key] for key in page.inputs_of(function) if key in known and key not in over}
        steps = STEPS if set(over) - set(known) else 0
        if steps:
            varying, truth = recursion(about, formula, over, given)
        else:
            varying = {key: given[key] for key in over}
            truth = function(Rounded(), **own, **varying)
        key = page.key_of(formula, over)
        questions.append(
            {"page": str(written / f"{name}.html"), "key": key, "inputs": own, "over": varying, "steps": steps}
        )
        expected.append((truth, {} if steps else slack(function, own | varying)))
    for question, found, (truth, room) in zip(questions, answers(questions), expected, strict=True):
        for output, values in found.items():
            if question["steps"]:
                np.testing.assert_array_equal(values, truth[output])  # sums and products only
            else:
                whole, beyond = excess(values, truth[output], room[output])
                worst[question["key"], output] = beyond.max(), (whole > 4).mean(), whole.max()
    return worst


@needs_node
@every_page
@pytest.mark.parametrize("seed", quick(range(4), 1))
def test_a_page_has_the_numbers_of_numpy(name, seed, written):
    """Within 4 ulp and the effect of one ulp in every exponential and logarithm; nearly always within 4 ulp."""
    count = 2000 if (name, seed) == ("double-descent", 0) else 10_000  # of which each is a loop over nodes
    worst = errors_of(name, written, np.random.default_rng(seed), count)
    assert all(beyond <= 4 and share <= 0.001 for beyond, share, _ in worst.values()), worst


@needs_node
@every_page
@pytest.mark.parametrize("seed", [None, 1])
def test_the_python_code_gives_the_same_numbers(name, seed, written):
    about = EXPLORABLES[name]
    values = {slider.name: slider.value for slider in about.sliders}
    values = values if seed is None else settings(about, np.random.default_rng(seed))
    held, diverged = {}, False
    try:
        exec(re.sub(r"\{(\w+)\}", lambda found: repr(values[found[1]]), about.code), held)
    except ArithmeticError:
        diverged = True
    compared = 0
    for formula, over in page.uses(about):
        function, key = about.formulas[formula], page.key_of(formula, over)
        asked = {"page": str(written / f"{name}.html"), "key": key}
        if set(over) - set(page.ranges(about)):
            given = {each: np.full(1, value) for each, value in values.items()}
            start, _ = recursion(about, formula, over, given)
            own = {each: given[each] for each in page.inputs_of(function) if each not in over}
            (found,) = answers([asked | {"inputs": own, "over": start, "steps": int(held["k"][-1])}])
            for output in {"residual", "descended"} & set(found):
                compared += 1
                assert np.isnan(found[output][0]) if diverged else found[output][0] == held[output][-1]
        elif over and np.ndim(held.get(over[0])) and set(page.inputs_of(function)) <= {*values, *over}:
            grid = held[over[0]]
            given = {each: np.full(grid.shape, values[each]) for each in page.inputs_of(function) if each not in over}
            (found,) = answers([asked | {"inputs": given, "over": {over[0]: grid}, "steps": 0}])
            for output in found:
                if np.shape(held.get(output)) == grid.shape:
                    room = 2 * slack(function, given | {over[0]: grid})[output]  # NumPy may be off by an ulp, too
                    assert excess(found[output], held[output], room)[1].max() <= 4, (output, values)
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
    assert main(["explore", "stages", "--out", "new/folder/page.html"]) == 0
    assert capsys.readouterr().out == "new/folder/page.html\n"
    assert (tmp_path / "new" / "folder" / "page.html").is_file()
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
