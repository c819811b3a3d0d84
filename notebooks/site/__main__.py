"""``python notebooks/site OUT``: build the documentation in ``OUT/html``, with warnings as errors, and check it.

Sphinx reads ``OUT/sources``: the pages beside this file, the pages generated from the package, the notebooks, and the
repository files that pages include. The checkout is not modified.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import runpy
import shutil
import sys
from pathlib import Path

import gallery
import links
import pages
import portraits
import reference
import solved
import speeds
import tree

from linsolve.studies.explorables import EXPLORABLES, write

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
MADE = ("sources", "doctrees", "html", "jupyter_execute")
# files of the repository that pages include
INCLUDED = (
    "README.md",
    "notebooks/site/home.py",
    "linsolve/systems/mode/__init__.py",
    "linsolve/systems/mode/balanced_mode.py",
    "notebooks/figures/digits-routes.png",
    "tests/mutants/__init__.py",
)


def stage(sources: Path, chosen: list[gallery.Picture], alternatives: dict[str, str], speed: str) -> list[str]:
    """Write all sources of Sphinx except the pictures, and return the paths of the pages."""
    notebooks = sorted((REPOSITORY / "notebooks").glob("*.ipynb"))
    texts = {path.name: path.read_text(encoding="utf-8") for path in HERE.glob("*.md")}
    texts["which.md"] = texts["which.md"].replace("<!-- decision tree -->\n", tree.page())
    texts |= pages.generated() | solved.generated() | reference.generated() | speeds.page(speed)
    texts |= {
        "gallery.md": gallery.page(chosen, alternatives),
        "notebooks/index.md": pages.lessons([path.stem for path in notebooks]),
    }
    texts |= {f"notebooks/{path.name}": pages.lesson(path.read_text(encoding="utf-8")) for path in notebooks}
    for name, text in texts.items():
        (sources / name).parent.mkdir(parents=True, exist_ok=True)
        (sources / name).write_text(text, encoding="utf-8")
    for name in INCLUDED:
        (sources / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / name, sources / name)
    return sorted(texts)


def clear(out: Path) -> None:
    """Create the folder, or remove an earlier build from it.

    Raises
    ------
    ValueError
        If the folder contains other files.
    """
    out.mkdir(parents=True, exist_ok=True)
    others = sorted(path.name for path in out.iterdir() if path.name not in MADE)
    if others:
        raise ValueError(
            f"site: out = {out} holds other files ({others[0]}) and is not overwritten; choose another folder"
        )
    for name in MADE:
        shutil.rmtree(out / name, ignore_errors=True)


def draw_home(pictures: Path) -> None:
    """Run the lines of the home page; they save its picture."""
    with contextlib.chdir(pictures), contextlib.redirect_stdout(io.StringIO()):
        runpy.run_path(str(HERE / "home.py"))


def build(out: Path, processes: int) -> int:
    """Build the site and return the exit status."""
    from sphinx.cmd.build import main as sphinx

    clear(out)
    os.environ.setdefault("MPLBACKEND", "Agg")
    sources, doctrees, html = (out / name for name in MADE[:3])
    chosen, pictures = gallery.pictures(), sources / "pictures"
    stage(sources, chosen, gallery.draw(pictures, chosen, processes), speeds.draw(pictures))
    portraits.draw(pictures, solved.SOLVED, processes)
    draw_home(pictures)
    paths = ["-c", str(HERE), "-d", str(doctrees), str(sources), str(html)]
    status = sphinx(["-W", "--keep-going", "-q", "-j", str(processes), "-b", "html", *paths])
    for name in EXPLORABLES:
        write(name, html / "explorables" / f"{name}.html")
    faults = links.faults(html)
    for each in faults:
        print(each, file=sys.stderr)
    return status or bool(faults)


def main() -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python notebooks/site", description="Build the documentation into OUT/html.")
    parser.add_argument("out", type=Path, metavar="OUT", help="output folder, created if missing")
    parser.add_argument("--processes", type=int, default=2, help="number of processes (default 2)")
    options = parser.parse_args()
    try:
        status = build(options.out.resolve(), options.processes)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    if not status:
        print(f"Open {options.out / 'html' / 'index.html'}")
    return status


if __name__ == "__main__":
    sys.exit(main())
