"""Page of the recorded speed of small calls, with its picture; see ``benchmarks/history.py``."""

from __future__ import annotations

import sys
from pathlib import Path

import alt

import linsolve as ls

sys.path.append(str(Path(__file__).resolve().parents[2]))
from benchmarks import history  # of the repository, not of the package

__all__ = ["draw", "page"]

PICTURE = "history.png"


def draw(folder: Path) -> str:
    """Write the picture into a folder and return the text that stands for it."""
    folder.mkdir(parents=True, exist_ok=True)
    with ls.plot.figure(figsize=(9.0, 5.0)) as (fig, ax):
        history.draw(history.recorded(), ax)
        fig.savefig(folder / PICTURE, dpi=110)
        return alt.described(fig)


def page(said: str) -> dict[str, str]:
    """Return the page; `said` stands for the picture."""
    parts = [
        "# Speed over time",
        "Processor time of small calls at recorded commits, measured by asv on one computer. `python -m benchmarks "
        "history` adds the last commit, and `python -m benchmarks history --check` measures it in turns with the last "
        "recorded one and fails if a call has become slower. `benchmarks/RESULTS.md` has the speed of large "
        "computations, against other tools.",
        f"```{{figure}} pictures/{PICTURE}\n:alt: {said}\n\nTime of each call over that at the first commit.\n```",
        history.text(),
    ]
    return {"speed.md": "\n\n".join(parts) + "\n"}
