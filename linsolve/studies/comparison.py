"""Comparison of routes of one problem, with wall times, and the folder of results."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from linsolve.core.results import folder_of_results, mark, whole_folder
from linsolve.core.trajectory import Trajectory

__all__ = ["KINDS", "Comparison", "destination", "save_arrays", "save_figure", "timed", "whole_results"]

KINDS = ("png", "pdf")
SMALL = 400  # rows below which one BLAS thread multiplies faster than several


class Comparison(NamedTuple):
    """Trajectories and wall times of several routes, by name."""

    routes: dict[str, Trajectory]
    seconds: dict[str, float]


def timed(ways: Mapping[str, Callable[[], Trajectory]], size: int) -> Comparison:
    """Evaluate each route, and measure its wall time.

    Parameters
    ----------
    ways : mapping of name to callable
    size : int
        Rows of the largest matrix.
    """
    routes, seconds = {}, {}
    with threadpool_limits(1 if size < SMALL else None, user_api="blas"):
        for name, way in ways.items():
            begin = time.perf_counter()
            routes[name] = way()
            seconds[name] = time.perf_counter() - begin
    return Comparison(routes, seconds)


def destination(who: str, out: str | os.PathLike[str], of: str, figures: Mapping[str, Any], *others: str) -> Path:
    """Return the folder of the results of a command; raise if it contains anything but an earlier result on `of`.

    Raises
    ------
    ValueError
        If `out` is a file, or a folder with other contents or the results of another command or subject.
    """
    return folder_of_results(who, out, of, [*others, *(f"{name}.{kind}" for name in figures for kind in KINDS)])


@contextmanager
def whole_results(who: str, folder: Path, of: str) -> Iterator[Path]:
    """Yield a temporary folder that replaces `folder` if the block ends without an error."""
    with whole_folder(folder) as made:
        mark(made, who, of)
        yield made


def save_figure(fig: Any, folder: Path, name: str) -> None:
    """Write a figure as PNG and PDF."""
    for kind in KINDS:
        fig.savefig(folder / f"{name}.{kind}")
        fig.set_layout_engine("none")  # the next file keeps the layout; to find one takes as long as drawing


def save_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write plain arrays to an ``.npz`` file, compressed."""
    np.savez_compressed(path, allow_pickle=False, **{name: np.asarray(value) for name, value in arrays.items()})
