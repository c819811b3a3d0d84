"""Table and files of `linsolve ntk-stats`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from linsolve.core.results import folder_to_fill, whole_files
from linsolve.studies.comparison import save_arrays, save_figure

if TYPE_CHECKING:
    from linsolve.studies.ntk_stats.survey import Sample, Survey

__all__ = ["table", "write"]

SIZE = 16.5, 6.4  # of the figure, in inches


def table(found: Survey) -> str:
    """Return the dispersion at some depths as text: exact, in the limit, as printed, and sampled with its error."""
    rows = [
        f"{'':>9}  {'':<13}  {'':>5}  {'':>6}  {'exact':>9}  {'':>9}  {'printed':>9}  {'printed':>9}",
        f"{'sigma_w^2':>9}  {'phase':<13}  {'depth':>5}  {'L/M':>6}  {'sums':>9}  {'limit':>9}  {'(8)-(10)':>9}  "
        f"{'(11)-(15)':>9}  sampled (z)",
    ]
    for line in found.lines:
        depths = sorted({*line.sampled.depths[-2:].tolist(), len(line.exact)})
        for d in depths:
            values = [line.exact, line.limit, line.printed_limit, line.printed]
            numbers = "  ".join(f"{v[d - 1]:9.4g}" if len(v) else f"{'-':>9}" for v in values)
            rows.append(
                f"{line.weight_variance:9.4g}  {line.found:<13}  {d:5d}  {d / found.width:6.2f}  {numbers}  "
                f"{_measured(line.sampled, d)}"
            )
    scores = np.concatenate([s.scores() for line in found.lines for s in (line.sampled, line.explicit, line.stepped)])
    most = f"largest |z| {np.abs(scores).max():.1f} of {len(scores)}" if len(scores) else "nothing can be sampled"
    return "\n".join([*rows, f"sampled up to depth {found.sampled_depth} over {found.networks} networks: {most}"])


def _measured(sample: Sample, depth: int) -> str:
    """Return a sampled value at a depth with its standard error as text."""
    if depth not in sample.depths:
        return "not sampled: too few networks"
    k = int(np.flatnonzero(sample.depths == depth)[0])
    return f"{sample.mean[k]:.4g} +- {sample.error[k]:.2g} ({sample.scores()[k]:+.1f})"


def write(found: Survey, out: str | os.PathLike[str]) -> list[Path]:
    """Write ``ntk-stats.png``, ``.pdf`` and ``.npz`` into a folder, created if missing; each is written atomically.

    Raises
    ------
    ValueError
        If `out` is a file.
    """
    from linsolve.plot.style import figure
    from linsolve.studies.ntk_stats.figures import draw

    folder = folder_to_fill("ntk-stats", out)
    paths = [folder / f"ntk-stats.{ending}" for ending in ("png", "pdf", "npz")]
    with whole_files(folder) as made, figure(1, 3, figsize=SIZE) as (fig, axes):
        draw(axes, found)
        save_figure(fig, made, "ntk-stats")
        save_arrays(made / "ntk-stats.npz", found.arrays())
    return paths
