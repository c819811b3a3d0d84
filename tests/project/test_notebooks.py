"""The notebooks run as committed: every cell, every folded-away solution, every slider; outputs are those of a run."""

import base64
import copy
import importlib.util
import io
import re
from pathlib import Path

import nbformat
import pytest
from jupyter_client.channels import ZMQSocketChannel
from nbclient.exceptions import CellExecutionError
from PIL import Image
from selection import quick

HERE = Path(__file__).parents[2] / "notebooks"
INDEX, *NOTEBOOKS = sorted(HERE.glob("*.ipynb"))
SOLUTION = re.compile(r"<details><summary>Solution</summary>\n(.*?)</details>", re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
BLOCK_WIDGETS = "import sys\n\nsys.modules['ipywidgets'] = None"
DRAW = """import linsolve as ls


def draw(k=1):
    with ls.plot.figure() as (fig, ax):
        ax.plot([0, k])
    return fig"""
SLIDER = "ls.plot.interact(draw, k=(0, 3))"
MOVING = {"01-learning-in-stages", "05-parity-obstruction", "08-neural-collapse"}
LARGEST = 900_000  # bytes of a notebook


def _load():
    spec = importlib.util.spec_from_file_location("run_notebooks", HERE / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


run = _load()


def read(path):
    book = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(book)
    return book


def solutions(book):
    texts = [cell.source for cell in book.cells if cell.cell_type == "markdown"]
    return [block for text in texts for solution in SOLUTION.findall(text) for block in PYTHON.findall(solution)]


def execute(book, folder, monkeypatch, first=()):
    """Run a notebook in a folder; fail with the cell's number, name, source and error, or with its warning."""
    for name in ("MPLBACKEND", "OPENBLAS_NUM_THREADS", "IPYTHONDIR"):
        monkeypatch.setenv(name, "")  # restored after the test
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    try:
        run.execute(book, folder, (*first, *run.DESCRIBE))
    except CellExecutionError as error:
        failed = [k for k, cell in enumerate(book.cells) if any(o.output_type == "error" for o in outputs(cell))]
        where = [f"cell {k} ({book.cells[k].id})" for k in failed]
        pytest.fail(f"{where} failed:\n{error}", pytrace=False)
    for cell in book.cells:
        for output in outputs(cell):
            if output.get("name") == "stderr":
                pytest.fail(f"cell {cell.id} warned:\n{output.text}", pytrace=False)
    return [output for cell in book.cells for output in outputs(cell)]


def outputs(cell):
    return cell.outputs if cell.cell_type == "code" else []


def pictures(found):
    return [output.data for output in found if "image/png" in output.get("data", {})]


@pytest.mark.parametrize("path", quick(NOTEBOOKS, 1), ids=lambda path: path.stem)
def test_notebook_gives_its_committed_outputs_and_its_solutions_run(path, tmp_path, monkeypatch):
    kept = read(path)
    book = copy.deepcopy(kept)
    blocks = [nbformat.v4.new_code_cell(block) for block in solutions(book)]
    book.cells += blocks
    execute(book, tmp_path, monkeypatch)
    del book.cells[-len(blocks) :]
    run.clean(book)
    assert run.differences(kept, book) == []


def test_sliders_degrade_to_a_picture(tmp_path, monkeypatch):
    for first, views in (((BLOCK_WIDGETS,), 0), ((), 1)):
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(f"{DRAW}\n\n\n{SLIDER}")])
        (output,) = execute(book, tmp_path, monkeypatch, first=first)
        assert sum("widget-view" in kind for kind in output.data) == views
        run.clean(book)
        assert set(book.cells[0].outputs[0].data) == {"image/png", "text/plain"}


@pytest.mark.parametrize(
    ("slider", "messages"),
    [(SLIDER, False), pytest.param("__import__('ipywidgets').interact(draw)", True, marks=pytest.mark.exhaustive)],
)
def test_sliders_make_a_client_send_nothing_to_the_kernel(slider, messages, tmp_path, monkeypatch):
    """A message that is sent while the client waits for a reply can take the wake-up of the waiting socket with it.

    The cell then ends at its time limit. The output area of ``ipywidgets.interact`` makes nbclient send such messages.
    """
    sent, send = [], ZMQSocketChannel.send
    monkeypatch.setattr(
        ZMQSocketChannel, "send", lambda self, message: sent.append(message["msg_type"]) or send(self, message)
    )
    cells = [nbformat.v4.new_code_cell(source) for source in (DRAW, slider)]
    execute(nbformat.v4.new_notebook(cells=cells), tmp_path, monkeypatch)
    assert "execute_request" in sent
    assert ("comm_msg" in sent) == messages


@pytest.mark.parametrize("path", [INDEX, *NOTEBOOKS], ids=lambda path: path.stem)
def test_outputs_are_those_of_a_clean_run_small_and_of_no_machine(path):
    book = read(path)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert path.stat().st_size < LARGEST
    assert not re.search(r"/(?:tmp|home|work|root|Users)/", path.read_text(encoding="utf-8"))
    found = [output for cell in code for output in cell.outputs]
    assert {output.output_type for output in found} <= {"stream", "display_data", "execute_result"}
    assert all(output.get("name") != "stderr" for output in found)
    assert all(run.joined(cell.outputs) == cell.outputs for cell in code)
    assert all("widget" not in kind for output in found for kind in output.get("data", {}))
    frames = []
    for data in pictures(found):
        assert len(data["text/plain"]) > 20, "a picture has a text that names its axes"
        assert not data["text/plain"].startswith("<")
        frames.append(getattr(Image.open(io.BytesIO(base64.b64decode(data["image/png"]))), "n_frames", 1))
    assert (max(frames, default=1) > 10) == (path.stem in MOVING)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_has_the_form_of_the_course(path):
    book = read(path)
    assert (book.nbformat, book.nbformat_minor) == (4, 5)
    assert book.metadata.kernelspec.name == "python3"
    assert len({cell.id for cell in book.cells}) == len(book.cells)
    title, *_, last = book.cells
    assert re.match(r"# .+\n\n\*\*.+\?\*\*", title.source, re.DOTALL), "the first cell is a title and a question"
    assert "assert " in last.source, "the last cell asserts the statements of the text"
    assert len(solutions(book)) >= 2
    text = "\n".join(cell.source for cell in book.cells)
    assert text.count("ls.plot.interact(") >= 1
    assert "ipywidgets" not in text
    grades = re.findall(r"(?m)^\*\*\d\.\*\* \*\((this week|this month|research)\)\*", text)
    assert {"this week", "this month", "research"} == set(grades)
    assert len(grades) == len(re.findall(r"(?m)^\*\*\d\.\*\*", text))
    assert not re.search(r"^(?:import|from) linsolve\b(?! as ls$)", text, re.MULTILINE), "only import linsolve as ls"


def test_the_index_names_every_notebook_with_audience_prerequisites_goal_and_minutes():
    text = "\n".join(cell.source for cell in read(INDEX).cells)
    rows = re.findall(r"^\| \[.+?\]\((.+?\.ipynb)\) \|(.*)\|$", text, re.MULTILINE)
    assert [name for name, _ in rows] == [path.name for path in NOTEBOOKS]
    for _, row in rows:
        *words, minutes = (part.strip() for part in row.split("|"))
        assert len(words) == 4
        assert all(words)
        assert int(minutes) > 0


@pytest.mark.parametrize(
    ("before", "after", "agree"),
    [
        ("error 3.1e-13 of s", "error 8.7e-12 of s", True),
        ("error 3.1e-13 of s", "error 3.1e-3 of s", False),
        ("400 networks, cosine 0.512", "400 networks, cosine 0.513", True),
        ("400 networks", "200 networks", False),
        ("kernel", "feature", False),
        ("value 1.0", "value nan", False),
        ("1 2", "1 2 3", False),
    ],
)
def test_texts_of_outputs_agree_up_to_rounding(before, after, agree):
    assert run.same(before, after) == agree


@pytest.mark.exhaustive
def test_a_failing_cell_is_named(tmp_path, monkeypatch):
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in ("x = 1", "assert x == 2")])
    with pytest.raises(pytest.fail.Exception, match=r"cell 1 .*failed[\s\S]*assert x == 2"):
        execute(copy.deepcopy(book), tmp_path, monkeypatch)
    book.cells[1].source = "import warnings; warnings.warn('odd')"
    with pytest.raises(pytest.fail.Exception, match="warned"):
        execute(book, tmp_path, monkeypatch)
    book.cells[1].source = "import linsolve as ls\nls.plot.interact(lambda k=1: 1 / 0, k=(0, 2))"
    with pytest.raises(pytest.fail.Exception, match="ZeroDivisionError"):
        execute(book, tmp_path, monkeypatch)


def test_parts_of_a_stream_are_joined():
    """A fast kernel sends two lines at once, a slow one each alone."""
    parts = [
        nbformat.v4.new_output("stream", name=name, text=text) for name, text in (("stdout", "a\n"), ("stdout", "b\n"))
    ]
    other = nbformat.v4.new_output("stream", name="stderr", text="c")
    assert [each.text for each in run.joined([*parts, other])] == ["a\nb\n", "c"]
