"""The format of all speed measurements, and interleaved timing of calls in one run."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Timing", "Watch", "Way", "interleaved", "one_thread", "short", "stolen", "unknown"]


class Timing(NamedTuple):
    """Time of one computation of one workload.

    Parameters
    ----------
    workload : str
        Its name in the table, beginning with "W1" to "W8"; rows of one name are compared.
    who : str
        "ours, NumPy", "ours, compiled", "ours, JAX", the name of a peer, or "floor: ...".
    seconds : float
        Median wall time of the whole workload, scaled up if only a part was run; nan if absent.
    error : float
        Largest error against at least 50 digits, in the measure of the workload; nan for floors.
    remark : str
        Size of the run and scaling, or the reason for absence.
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
    """One computation of one workload.

    Parameters
    ----------
    workload, who : str
        As in `Timing`.
    call : callable
        Runs the workload, or a part of it, and returns the result.
    scale : float
        Size of the whole workload over that of the part.
    error : callable
        Error of a result.
    remark : str
        As in `Timing`.
    told : bool
        Whether the result is the time in seconds, measured by the callee.
    """

    workload: str
    who: str
    call: Callable[[], Any]
    scale: float = 1.0
    error: Callable[[Any], float] = unknown
    remark: str = ""
    told: bool = False


def interleaved(calls: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Return the median of the values of each call, interleaved; the first round is a warm-up and is not counted."""
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name, call in calls.items():
            taken = call()
            if turn:
                spent[name].append(taken)
    return {name: statistics.median(times) for name, times in spent.items()}


class Watch:
    """A timed computation, with its last result."""

    def __init__(self, way: Way) -> None:
        self.way = way
        self.answer: Any = None

    def __call__(self) -> float:
        self.answer = None  # release the previous result
        begin = time.perf_counter()
        self.answer = self.way.call()
        taken = self.answer if self.way.told else time.perf_counter() - begin
        return taken * self.way.scale

    def error(self) -> float:
        """Return the error of the last result."""
        return self.way.error(self.answer)


def short(seconds: float) -> str:
    """Return a time with its unit, to three digits."""
    if math.isnan(seconds):
        return "absent"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def one_thread() -> AbstractContextManager[Any]:
    """Return a context in which BLAS runs on one thread, that of SciPy too."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1)


def stolen() -> tuple[int, int]:
    """Return ticks that other virtual computers took from the processors, and ticks of all work, since the start.

    Both are 0 where the system does not count them.
    """
    counts = Path("/proc/stat")
    if not counts.exists():
        return 0, 0
    user, nice, system, _, _, irq, soft, taken = map(int, counts.read_text(encoding="ascii").split()[1:9])
    return taken, user + nice + system + irq + soft + taken
