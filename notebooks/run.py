"""Execute the notebooks and keep their outputs, or check that the outputs are still those of a clean run.

``python notebooks/run.py`` executes all notebooks in place, ``python notebooks/run.py 01 05`` those of these numbers.
Outputs are kept small: pictures have few colors, and sliders are kept as their first picture. ``--check`` executes
copies and compares the text of all outputs. Pixels are not compared; the text of a picture names its axes and curves.
Another processor rounds otherwise: no output may depend on it, as the sign of an SVD and the escape from a saddle do.
"""

from __future__ import annotations

import argparse
import base64
import io
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat

HERE = Path(__file__).resolve().parent
SECONDS = 300  # for one cell
COLORS = 128  # of a picture
ROUNDING = 1e-6  # numbers below it are errors of rounding and differ between machines
AGREEMENT = 0.02  # relative difference up to which two numbers are the same
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
# cells that are executed first and not kept; the inline backend sets its formatters after the first figure
DESCRIBE = (
    "import matplotlib.pyplot as plt\n\nplt.close(plt.figure())",
    f"""import sys
sys.path.insert(0, {str(HERE / "site")!r})
import alt
from matplotlib.figure import Figure
get_ipython().display_formatter.formatters["text/plain"].for_type(
    Figure, lambda fig, p, cycle: p.text(alt.described(fig)))
sys.path.pop(0)""",
)


def execute(book: Any, folder: Path, first: Sequence[str] = DESCRIBE) -> None:
    """Run a notebook in a folder, after first cells that are not kept.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        If a cell fails.
    """
    from nbclient import NotebookClient

    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ["IPYTHONDIR"] = str(folder / "ipython")  # no profile of the user
    book.cells[:0] = [nbformat.v4.new_code_cell(each) for each in first]
    resources = {"metadata": {"path": str(folder)}}
    try:
        client = NotebookClient(book, timeout=SECONDS, kernel_name="python3", resources=resources)
        client.record_timing = False
        client.execute()
    finally:
        del book.cells[: len(first)]


def clean(book: Any) -> None:
    """Clean outputs in place: cells numbered from 1, small pictures, sliders as pictures, no data of the machine."""
    book.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for count, cell in enumerate((cell for cell in book.cells if cell.cell_type == "code"), 1):
        cell.execution_count, cell.metadata = count, {}
        cell.outputs = joined([output for output in cell.outputs if output.output_type != "clear_output"])
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = count
            if "data" in output:
                output.metadata = {}
                output.data.pop("application/vnd.jupyter.widget-view+json", None)
                if "image/png" in output.data:
                    output.data["image/png"] = small(output.data["image/png"])


def joined(outputs: list[Any]) -> list[Any]:
    """Return outputs with successive parts of one stream joined: a fast kernel sends two lines at once."""
    found: list[Any] = []
    for output in outputs:
        last = found[-1] if found else {}
        if output.output_type == "stream" and (last.get("output_type"), last.get("name")) == ("stream", output.name):
            last.text += output.text
        else:
            found.append(output)
    return found


def small(picture: str) -> str:
    """Return a picture in base64 with few colors; animations are returned as they are."""
    from PIL import Image

    image = Image.open(io.BytesIO(base64.b64decode(picture)))
    if getattr(image, "n_frames", 1) > 1:
        return picture.replace("\n", "")
    made = io.BytesIO()
    few = image.convert("RGB").quantize(COLORS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(made, "PNG", optimize=True)
    return base64.b64encode(made.getvalue()).decode()


def texts(book: Any) -> list[tuple[str, str]]:
    """Return cell and text of every output."""
    found = []
    for cell in book.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            found.append((cell.id, output.get("text", data.get("text/plain", ""))))
    return found


def differences(kept: Any, run: Any) -> list[str]:
    """Return a line for every output of a run whose text is not the kept one.

    Words are compared exactly. Numbers agree within 2 %, or are both below 1e-6, as errors of rounding are.
    """
    old, new = texts(kept), texts(run)
    if [cell for cell, _ in old] != [cell for cell, _ in new]:
        return [f"outputs of cells {[cell for cell, _ in new]} instead of {[cell for cell, _ in old]}"]
    return [
        f"cell {cell}: {after!r} instead of {before!r}"
        for (cell, before), (_, after) in zip(old, new, strict=True)
        if not same(before, after)
    ]


def same(before: str, after: str) -> bool:
    """Return whether two texts have the same words and agreeing numbers."""
    if [part.split() for part in NUMBER.split(before)] != [part.split() for part in NUMBER.split(after)]:
        return False
    pairs = zip(NUMBER.findall(before), NUMBER.findall(after), strict=True)
    return all(_agree(float(p), float(q)) for p, q in pairs)


def _agree(p: float, q: float) -> bool:
    return max(abs(p), abs(q)) <= ROUNDING or abs(p - q) <= AGREEMENT * max(abs(p), abs(q))


def chosen(numbers: list[str]) -> list[Path]:
    """Return the notebooks of these numbers, all if there are none.

    Raises
    ------
    ValueError
        If there is no notebook of a number.
    """
    found = sorted(HERE.glob("*.ipynb"))
    for number in numbers:
        if not any(path.name.startswith(number) for path in found):
            raise ValueError(f"run: number = {number} names no notebook; there are {found[0].name} to {found[-1].name}")
    return [path for path in found if not numbers or path.name.startswith(tuple(numbers))]


def main() -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python notebooks/run.py", description=__doc__.splitlines()[0])
    parser.add_argument("numbers", nargs="*", help="numbers of notebooks, such as 01; default all")
    parser.add_argument("--check", action="store_true", help="compare with the outputs that are kept; change nothing")
    options = parser.parse_args()
    try:
        paths = chosen(options.numbers)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    wrong = []
    for path in paths:
        book = nbformat.read(path, as_version=4)
        with tempfile.TemporaryDirectory() as folder:
            execute(book, Path(folder))
        clean(book)
        if options.check:
            found = differences(nbformat.read(path, as_version=4), book)
            print(f"{path.name}: {len(found)} differences", *found, sep="\n  ")
            wrong += [path.name] if found else []
        else:
            path.write_text(nbformat.writes(book) + "\n", encoding="utf-8")
            print(f"{path.name}: {path.stat().st_size // 1000} kB")
    if wrong:
        advice = "python notebooks/run.py keeps the outputs of this run"
        print(f"run: {', '.join(wrong)} differ from their outputs; {advice}", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
