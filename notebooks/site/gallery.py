"""The gallery: commands and the pictures that they draw."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import alt

from linsolve.__main__ import main
from linsolve.studies.figures import FIGURES
from linsolve.studies.phases import DIAGRAMS

__all__ = ["Picture", "draw", "page", "pictures"]


class Picture(NamedTuple):
    """A picture of the gallery: section, title, command, and the file that the command writes."""

    section: str
    title: str
    command: str
    file: str

    @property
    def name(self) -> str:
        """File name on the site."""
        return self.file.replace("/", "-")


_LEARN, _PHASE, _FIGURE = "Networks on data, three routes", "Phase diagrams", "Figures of papers"
_COLLAPSE, _RANDOM = "Neural collapse", "Kernels of random networks"
_DIGITS, _BALANCED = "linsolve learn digits --out digits", "linsolve collapse --start balanced --out collapse-balanced"
_DEEP = "linsolve learn digits --depth 3 --out digits-deep"
_SCATTER = "linsolve collapse --start scatter --out collapse-scatter"
_SPREAD = "linsolve ntk-stats --networks 20000"


def pictures() -> list[Picture]:
    """Return all pictures, in the order of the page."""
    diagrams = (
        Picture(_PHASE, title, f"linsolve phase {name}", f"phase-{name}/{name}.png") for name, title in DIAGRAMS.items()
    )
    figures = (
        Picture(
            _FIGURE,
            f"{about.source}, {about.title}",
            f"linsolve figure {name}",
            f"figure-{name}.png",
        )
        for name, about in FIGURES.items()
    )
    return [
        Picture(_LEARN, "handwritten digits, the modes of a two-layer network", _DIGITS, "digits/routes.png"),
        Picture(_LEARN, "the same network: differences between the routes", _DIGITS, "digits/differences.png"),
        Picture(_LEARN, "the same data, three layers", _DEEP, "digits-deep/routes.png"),
        *diagrams,
        *figures,
        Picture(_COLLAPSE, "measures of collapse, theory and simulation", _BALANCED, "collapse-balanced/metrics.png"),
        Picture(_COLLAPSE, "residuals with the rates predicted", _SCATTER, "collapse-scatter/residuals.png"),
        Picture(_COLLAPSE, "the kernels, from start to end", _BALANCED, "collapse-balanced/kernels.png"),
        Picture(_RANDOM, "dispersion by depth and phase", _SPREAD, "ntk-stats/ntk-stats.png"),
    ]


def run(command: str, folder: Path) -> dict[str, str]:
    """Run a command of this package in a folder, as in a terminal; return the alternative text of each picture.

    Raises
    ------
    RuntimeError
        If the command fails.
    """
    from matplotlib.figure import Figure

    words, here, texts, save = shlex.split(command), Path.cwd(), dict[str, str](), Figure.savefig

    def saved(fig: Any, path: Any, *args: Any, **kwargs: Any) -> None:
        texts[Path(str(path)).name] = alt.described(fig)
        save(fig, path, *args, **kwargs)

    os.environ.setdefault("MPLBACKEND", "Agg")
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(io.StringIO()), mock.patch.object(Figure, "savefig", saved):
            status = main(words[1:])
    finally:
        os.chdir(here)
    if status:
        raise RuntimeError(f"gallery: {command} ended with status {status}")
    return texts


def draw(folder: Path, chosen: Iterable[Picture], processes: int = 2) -> dict[str, str]:
    """Run every command once, copy the pictures into a folder, and return their alternative texts by name."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = list(chosen)
    with tempfile.TemporaryDirectory() as scratch, ProcessPoolExecutor(processes) as pool:
        commands = dict.fromkeys(each.command for each in wanted)
        jobs = {command: pool.submit(run, command, Path(scratch)) for command in commands}
        texts = {command: job.result() for command, job in jobs.items()}
        for each in wanted:
            shutil.copyfile(Path(scratch) / each.file, folder / each.name)
    return {each.name: texts[each.command][Path(each.file).name] for each in wanted}


def page(chosen: Iterable[Picture], texts: dict[str, str], folder: str = "pictures") -> str:
    """Return the page in Markdown, with pictures relative to it and their alternative texts."""
    parts = ["# Gallery", "Every picture is drawn by the command below it when this site is built."]
    section = ""
    for each in chosen:
        if each.section != section:
            section = each.section
            parts.append(f"## {section}")
        options = f":alt: {texts[each.name]}\n:target: _images/{each.name}"  # the full-size copy by Sphinx
        parts.append(f"```{{figure}} {folder}/{each.name}\n{options}\n\n{each.title}\n```")
        parts.append(f"```sh\n{each.command}\n```")
    return "\n\n".join(parts) + "\n"
