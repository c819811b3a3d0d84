"""Time to redraw the pages with sliders in Chromium."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.browser import Browser, chromium
from linsolve.studies.explorables import EXPLORABLES, write

__all__ = ["rows"]

POSITIONS, PASSES = 12, 5  # of each slider; over all moves, of which the fastest counts
MOVE = """(() => {
  const input = controls[NAME].input, [low, high] = [input.min, input.max].map(Number);
  input.value = low + SHARE * (high - low);
  input.dispatchEvent(new Event("input"));
  return lastRedraw;
})()"""


def rows() -> Iterator[tuple[str, ...]]:
    """Yield for each page its size, the number of moves of a slider, and the median and the largest time of a move."""
    if chromium() is None:
        return
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        for name, page in EXPLORABLES.items():
            path = Path(folder) / f"{name}.html"
            write(name, path)
            browser.open(path.as_uri())
            moves = [
                MOVE.replace("NAME", json.dumps(slider.name)).replace("SHARE", f"{share:g}")
                for slider in page.sliders
                for share in np.linspace(0, 1, POSITIONS)
            ]
            times = np.min([[browser.evaluate(move) for move in moves] for _ in range(PASSES)], axis=0)
            size = f"{path.stat().st_size / 1024:.0f} KiB"
            yield name, size, str(len(moves)), f"{np.median(times):.1f} ms", f"{times.max():.1f} ms"
