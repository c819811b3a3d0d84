"""The format that all measurements of speed share, and calls timed by turns in one run."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

__all__ = ["Timing", "Watch", "Way", "interleaved", "short", "unknown"]


class Timing(NamedTuple):
    """How long one way of computing one workload took.

    Parameters
    ----------
    workload : str
        Its name in the table, "W1" to "W8" first: rows of one name are compared with each other.
    who : str
        "ours, NumPy", "ours, compiled", a peer's name, or "floor: ...".
    seconds : float
        Median wall time of the whole workload, scaled up where only a part was run; nan if absent.
    error : float
        Largest error against at least 50 digits, in the measure that the workload has; nan for floors.
    remark : str
        What was run and how it was scaled, or why it is absent.
    """

    workload: str
    who: str
    seconds: float
    error: float = math.nan
    remark: str = ""


def unknown(_: Any) -> float:
    """Return nan: no error is defined."""
    return math.nan


class Way(NamedTuple):
    """One way of computing one workload, ready to be run.

    Parameters
    ----------
    workload, who : str
        As in `Timing`.
    call : callable
        Does the work, or a part of it, and returns the answer.
    scale : float
        By how much the whole workload is larger.
    error : callable
        Error of an answer.
    remark : str
        As in `Timing`.
    told : bool
        Whether the answer is the number of seconds itself, measured where the work was done.
    """

    workload: str
    who: str
    call: Callable[[], Any]
    scale: float = 1.0
    error: Callable[[Any], float] = unknown
    remark: str = ""
    told: bool = False


def interleaved(calls: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Return the median of what each call measures, taken by turns; the first round warms up and does not count."""
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name, call in calls.items():
            taken = call()
            if turn:
                spent[name].append(taken)
    return {name: statistics.median(times) for name, times in spent.items()}


class Watch:
    """A way under a stopwatch; remembers its last answer."""

    def __init__(self, way: Way) -> None:
        self.way = way
        self.answer: Any = None

    def __call__(self) -> float:
        self.answer = None  # what was allocated before is free again
        begin = time.perf_counter()
        self.answer = self.way.call()
        taken = self.answer if self.way.told else time.perf_counter() - begin
        return taken * self.way.scale

    def error(self) -> float:
        """Return the error of the last answer."""
        return self.way.error(self.answer)


def short(seconds: float) -> str:
    """Return a time with its unit, to three digits."""
    if math.isnan(seconds):
        return "absent"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
