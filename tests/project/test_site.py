"""The pages that the documentation writes of the package: one for each thing, and no link among them leads nowhere.

The build itself, warnings as errors, is the last step of ``.ci/run``.
"""

import importlib.util
import json
import posixpath
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import linsolve as ls
from linsolve import published
from linsolve.cli import COMMANDS
from linsolve.papers.references import REFERENCES
from linsolve.studies.explorables import EXPLORABLES

SITE = Path(__file__).parents[2] / "notebooks" / "site"
SOLVED = [*ls.flows.WHERE, *ls.laws.WHERE]
TOCTREE = re.compile(r"```\{toctree\}\n(.*?)```|\.\. toctree::\n(.*?)(?=\n\S|\Z)", re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+\.(?:md|rst|ipynb))\)")


def load(name):
    """Import a file of the site under a name of its own."""
    spec = importlib.util.spec_from_file_location(f"site_{name.strip('_')}", SITE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def main():
    before = dict(sys.modules)
    sys.path.insert(0, str(SITE))
    try:
        yield load("__main__")
    finally:
        sys.path.remove(str(SITE))
        for name in {"alt", "gallery", "links", "pages", "portraits", "reference", "solved", "speeds", "tree"} - set(
            before
        ):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def staged(main, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    chosen = main.gallery.pictures()
    main.stage(folder, chosen, {each.name: f"axes and curves of {each.name}" for each in chosen}, "its axes")
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}


def text(path):
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SOLVED)
def test_every_flow_and_law_has_one_page_with_all_parts(staged, name):
    card = text(staged[f"cards/{name}.md"])
    assert card.startswith(f"# {name}\n")
    titles = re.findall(r"^## (.*)$", card, re.MULTILINE)
    assert {"Statement", "Exact for, not for", "Accuracy", "Sources", "Published formulas", "Code"} <= set(titles)
    assert titles.count("Code") == 1
    assert re.search(rf"```\{{figure\}} ../pictures/{name}\.png\n:alt: .{{40,}}\n", card)
    assert ">>> " in card
    assert f"linsolve verify {name} " in card
    assert f".. autoclass:: {name}\n" in card
    assert f"]({name}.md)" in text(staged["cards/index.md"])
    assert f"(cards/{name}.md)" in text(staged["which.md"]), "notebooks/site/which.md does not say when it is needed"


def test_every_link_from_page_to_page_leads_somewhere(staged):
    found = 0
    for name, path in staged.items():
        if name.endswith(".md") and name != "README.md":
            for link in LINK.findall(text(path)):
                assert posixpath.normpath(posixpath.join(posixpath.dirname(name), link)) in staged, f"{name}: {link}"
                found += 1
    assert found > 2 * len(SOLVED)


def test_every_page_is_in_a_table_of_contents(staged):
    named = {"index"}
    for name, path in staged.items():
        if name.endswith((".md", ".rst")) and name != "README.md":
            for block in re.findall(
                r"```\{toctree\}\n(.*?)```|\.\. toctree::\n(.*?)(?=\n\S|\Z)", text(path), re.DOTALL
            ):
                lines = (line.strip() for line in "".join(block).splitlines())
                folder = posixpath.dirname(name)
                named |= {posixpath.join(folder, line) for line in lines if line and not line.startswith(":")}
    pages = {
        name.rpartition(".")[0] for name in staged if name.endswith((".md", ".rst", ".ipynb")) and name != "README.md"
    }
    assert pages == named


def test_every_checked_formula_paper_and_command_is_there(staged):
    checked, papers, commands = (text(staged[f"{name}.md"]) for name in ("errata", "papers", "commands"))
    for each in published.find():
        assert f"({each.name})=\n" in checked
        assert each.latex in checked
        assert f"*{each.verdict.capitalize()}*" in checked
    assert checked.count("\n> ") == len(published.find())
    assert "open an issue" in " ".join(checked.split())
    assert all(f"({key})=\n" in papers and paper.bibtex() in papers for key, paper in REFERENCES.items())
    assert all(f"\n## linsolve {name}\n" in commands and f"usage: linsolve {name} " in commands for name in COMMANDS)


def test_public_names_are_in_the_reference(main, staged):
    package = text(staged["reference/package.rst"])
    for name in set(ls.__all__) - set(SOLVED) - set(main.reference.MODULES) - {"flows", "laws"}:
        assert re.search(rf":: {name}$", package, re.MULTILINE)
    assert all(f"reference/{name}.rst" in staged for name in main.reference.MODULES)


def test_stars_and_underscores_of_running_text_mean_themselves(main):
    assert main.pages._plain("of p_i * q in `a_b` and $c_d$") == r"of p\_i \* q in `a_b` and $c_d$"


def test_the_gallery_has_every_diagram_and_figure_under_names_of_their_own(main):
    found = main.gallery.pictures()
    commands = {each.command for each in found}
    assert {f"linsolve phase {name}" for name in ls.phases.DIAGRAMS} <= commands
    assert {f"linsolve figure {name}" for name in main.gallery.FIGURES} <= commands
    assert len({each.name for each in found}) == len(found)
    page = main.gallery.page(found, {each.name: f"text of {each.name}" for each in found})
    assert all(f"{{figure}} pictures/{each.name}\n:alt: text of {each.name}\n" in page for each in found)
    assert all(each.command in page for each in found)


def test_every_explorable_is_listed(staged):
    listed = text(staged["explorables.md"])
    assert all(f'href="explorables/{name}.html">{page.title}<' in listed for name, page in EXPLORABLES.items())


def test_a_picture_is_what_its_command_leaves(main, tmp_path):
    chosen = [each for each in main.gallery.pictures() if each.command == "linsolve phase chaos"]
    texts = main.gallery.run(chosen[0].command + " --cells 15", tmp_path)
    assert texts["chaos.png"].startswith("Panel 1: Order and chaos of infinitely wide networks at the start: ")
    assert "edge of chaos, ReLU" in texts["chaos.png"]
    assert (tmp_path / chosen[0].file).read_bytes().startswith(b"\x89PNG")
    with pytest.raises(RuntimeError, match="linsolve phase chaoss ended with status 2"):
        main.gallery.run("linsolve phase chaoss", tmp_path)


def test_broken_links_of_a_built_site_are_found(main, tmp_path):
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here">x</a><a href="https://example.org/#no">y</a><img src="c.png">'
    )
    (tmp_path / "b.html").write_text('<p id="here"><a href="a.html">z</a><a href="a.html#gone">w</a>')
    assert main.links.broken(tmp_path) == ["a.html: c.png", "b.html: a.html#gone"]


def test_what_needs_the_network_and_raw_formulas_are_found(main, tmp_path):
    (tmp_path / "a.html").write_text(
        '<script src="https://cdn.example/x.js"></script><link rel="stylesheet" href="a.css"><a href="https://a.b/">a</a>'
        r'<p>with <span class="math notranslate">\(a_0\)</span> and <code>\frac{1}{2}</code> and $\sigma$</p>'
    )
    assert main.links.loaded(tmp_path) == ["a.html: https://cdn.example/x.js"]
    assert main.links.raw(tmp_path) == [r"a.html: and $\sigma$"]


@pytest.mark.parametrize("name", ["TwoLayer", "EarlyAlignment", "InitialOverlaps"])
def test_pictures_of_a_flow_an_expansion_and_a_statistic_have_named_axes_and_text(main, name):
    cls = getattr(ls.flows if name in ls.flows.WHERE else ls.laws, name)
    with ls.plot.figure() as (fig, ax):
        main.portraits.portrait(cls, ax)
        assert ax.get_ylabel()
        assert len(main.gallery.alt.described(fig)) > 20
        assert all(np.isfinite(line.get_ydata()).all() for line in ax.lines)


def test_the_speed_of_recorded_commits_is_drawn_and_listed(main, tmp_path, staged):
    said = main.speeds.draw(tmp_path)
    assert (tmp_path / "history.png").read_bytes().startswith(b"\x89PNG")
    assert "time over that at the first commit" in said
    page, commits = text(staged["speed.md"]), main.speeds.history.recorded()
    assert len(commits) >= 2
    assert all(each.hash[:8] in page for each in commits)
    assert all(f"| {name} |" in page for name in main.speeds.history.names(commits))


def test_labels_are_read_without_tex(main):
    assert main.gallery.alt.plain(r"time $t$  (units of $\tau / L$)") == "time t (units of tau / L)"
    assert main.gallery.alt.plain(r"$1/\eta\gamma^2 d$") == "1/ eta gamma^2 d"
    assert main.gallery.alt.plain(r"$\mathrm{NC}_3$, $\sqrt{s}$") == "NC_3, root of s"


def test_the_lines_of_the_home_page_are_twelve_and_draw_its_picture(main, tmp_path, monkeypatch):
    lines = (SITE / "home.py").read_text(encoding="utf-8").splitlines()
    assert sum(bool(line.strip()) for line in lines) == 12
    main.draw_home(tmp_path)
    assert (tmp_path / "stages.png").read_bytes().startswith(b"\x89PNG")


def test_the_decision_tree_names_every_flow_and_its_code_runs(main, capsys):
    ends = list(main.tree.leaves())
    assert {name for each in ends for name in each.names} >= set(ls.flows.WHERE)
    for code in dict.fromkeys(each.code for each in ends):
        scope: dict = {}
        exec(compile(f"{main.tree.PREAMBLE}\n{code}", "tree", "exec"), scope)
        values = scope["traj"]["loss"] if "traj" in scope and "loss" in scope["traj"] else scope.get("value", 0.0)
        flat = values.values() if isinstance(values, dict) else values if isinstance(values, tuple) else [values]
        assert all(np.isfinite(each).all() for each in flat)
    assert "proved" not in capsys.readouterr().err


def test_the_edge_of_stability_of_your_own_network_is_as_printed(capsys):
    told = text(SITE / "which.md")
    (code,) = re.findall(r"```python\n(.*?)```", told, re.DOTALL)
    exec(compile(code, "which.md", "exec"), {})
    assert re.findall(r"print\(.*\)  # ([^,:\n]+)", code) == capsys.readouterr().out.splitlines()
    of_sharpness = {cls.__name__ for cls in ls.flows.ALL if "sharpness" in cls.declared}
    assert of_sharpness == set(re.findall(r"cards/(\w+)\.md", told.split("## Edge of stability")[1].split("```")[0]))


def test_the_course_names_sections_that_the_notebooks_have(staged):
    sections = []
    for name, path in staged.items():
        if name.endswith(".ipynb"):
            cells = json.loads(text(path))["cells"]
            sections += re.findall(r"(?m)^#+ (.*)$", "\n".join("".join(cell["source"]) for cell in cells))
    rows = [line.split("|") for line in text(staged["course.md"]).splitlines() if re.match(r"\| \d+-\d+ ", line)]
    named = [title for row in rows for title in re.findall(r"\*([^*]+)\*", row[3])]
    assert len(named) > 12
    assert all(any(section.startswith(title) for section in sections) for title in named)
    ends = [int(part) for row in rows for part in row[1].strip().split("-")]
    assert ends.count(0) == ends.count(90) == 2


def test_pictures_of_notebooks_have_the_texts_of_their_outputs(main):
    picture = {
        "output_type": "display_data",
        "data": {"image/png": "", "text/plain": ["loss over time."]},
        "metadata": {},
    }
    cell = {"cell_type": "code", "metadata": {}, "outputs": [picture], "source": [], "execution_count": 1}
    made = json.loads(main.pages.lesson(json.dumps({"cells": [cell]})))
    assert made["cells"][0]["metadata"]["mystnb"]["image"]["alt"] == "loss over time."


def test_a_folder_of_other_files_is_left_alone(main, tmp_path):
    (tmp_path / "thesis.tex").write_text("all of it")
    (tmp_path / "html").mkdir()
    with pytest.raises(ValueError, match=r"holds other files \(thesis.tex\)"):
        main.clear(tmp_path)
    (tmp_path / "thesis.tex").unlink()
    main.clear(tmp_path)
    assert not list(tmp_path.iterdir())
