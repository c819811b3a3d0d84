"""Speed of every workload: our times, floors and peers, interleaved in one run, with the error of each result."""

from __future__ import annotations

import json
import math
import platform
import re
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import floors, ours, speed_matrix
from benchmarks.peers import LIBRARIES, NOT_MEASURED, Worker
from benchmarks.timing import Timing, Watch, interleaved

__all__ = ["REACH", "Reach", "judged", "measure", "write"]

ROUNDS = 3
MORE = {"W6": 5}  # times as many rounds: calls of milliseconds beside those of seconds vary by a tenth
GOOD = 1e-5  # largest error of a result that is compared


class Reach(NamedTuple):
    """Target of a ratio of times, ours over another.

    Parameters
    ----------
    workload, who : str
        Workload and label of our timing; "ours" is the faster one.
    against, other : str
        Workload and prefix of the label of the other timing, of which the fastest sufficiently accurate one counts.
    ratio : float
        Largest ratio of times.
    parts : tuple of str
        Prefixes of the labels of floors, of either workload, that are parts of our time.
    """

    workload: str
    who: str
    against: str
    other: str
    ratio: float
    parts: tuple[str, ...] = ()


NUMPY, FAST, JAX = "ours, NumPy", "ours, compiled", "ours, JAX"
CHECKS, LOOP = "floor: checks of the call", "floor: the compiled loop alone"
READ, CALLS = "floor: read of the weights", "floor: NumPy's calls alone"
OF_ONE_TIME = "floor: matrix operations alone", "floor: same steps"
REACH = (
    Reach("W1", NUMPY, "W1", "floor: fill", 9, (CALLS,)),
    Reach("W1", FAST, "W1", "floor: fill", 2, (LOOP, CHECKS)),
    Reach("W1", "ours", "W2", "heyoka, 1e-15", 1 / 150, (LOOP, CHECKS)),
    Reach("W1", "ours", "W2", "diffrax", 1 / 800, (LOOP, CHECKS)),
    Reach("W1", "ours", "W2", "solve_ivp, loop", 1e-5, (LOOP, CHECKS)),
    Reach("W1, mean over members", FAST, "W1", "floor: fill", 2, (LOOP, CHECKS)),
    Reach("W3", NUMPY, "W3", READ, 5, (CALLS,)),
    Reach("W3", FAST, "W3", READ, 1.5, (READ, LOOP, CHECKS)),
    Reach("W3", "ours", "W3", "diffrax", 1 / 5000, (READ, LOOP, CHECKS)),
    *(
        reach
        for depth in ("3", "4", "5", "inf")
        for name in (f"W4, L = {depth}",)
        for reach in (
            Reach(name, NUMPY, name, "floor: fill", 100),
            Reach(name, FAST, name, "floor: fill", 15),
            Reach(name, FAST, name, "heyoka", 1 / 30),
            Reach(name, FAST, name, "diffrax", 1 / 150),
        )
    ),
    Reach("W5, one network 100-200-100, 200 times", NUMPY, "", "floor", 3),
    Reach("W5, one network 100-200-100, 200 times", NUMPY, "", "DOP853", 1 / 2),
    *(
        Reach(f"W5, one network 100-200-100, one time, a {what}", NUMPY, "", "limit: 3 ms", 1, OF_ONE_TIME)
        for what in ("new flow", "new start", "further time")
    ),
    # 0.2 s and 0.74 s on a computer on which the products took 0.48 s and 0.565 s on one of two cores (commit 302c8f4)
    Reach("W5, 1000 networks 10-10-10, 200 times", FAST, "", "floor", 1 / 1.2),
    Reach("W5, 1000 networks 10-20-10, 200 times", NUMPY, "", "floor", 2.62),
    Reach("W5, 1000 networks 10-10-10, 200 times", "ours", "", "diffrax", 1 / 25),
    Reach("W5, 1000 networks 10-10-10, 200 times", "ours", "", "a loop of DOP853", 1 / 50),
    Reach("W6", NUMPY, "W6", "floor", 1, ("floor",)),
    Reach("W6, further call", NUMPY, "W6, further call", "floor", 1.5),
    Reach("W6, one target", NUMPY, "W6, one target", "eigh", 1 / 15),
    Reach("W6, one target", NUMPY, "W6, one target", "expm_multiply", 1),
    Reach("W6, one target, stiff", NUMPY, "W6, one target", "eigh", 1),
    Reach("W7", NUMPY, "W7", "limit: 3 s", 1),
    Reach("W7", FAST, "W7", "limit: 0.5 s", 1),
    Reach("W8", NUMPY, "W8", "explicit", 1 / 50),  # by the exact law of the layers
    Reach("W8", NUMPY, "W8", "explicit", 1 / 2000),  # and with a few random variates per layer
)


def section(name: str, workers: Iterable[Worker], small: bool, rounds: int) -> list[Timing]:
    """Return the interleaved timings of one section: ours, floors and peers."""
    watches = [Watch(way) for way in ours.SECTIONS[name](small)]
    errors: dict[int, float] = {}
    known: list[tuple[str, str, str]] = [(w.way.workload, w.way.who, w.way.remark) for w in watches]
    calls: list[tuple[Callable[[], float], Callable[[], float]]] = [(w, w.error) for w in watches]
    for worker in workers:
        for k, way in enumerate(worker.ways):
            if way[0] == name or way[0].startswith(f"{name},") or (name, way[0]) == ("W1", "W2"):
                known.append(way)
                calls.append((partial(worker.run, k), partial(worker.error, k)))

    def taken(k: int) -> float:
        seconds = calls[k][0]()
        if k not in errors:  # immediately: the next call may overwrite the result
            errors[k] = calls[k][1]()
        return seconds

    medians = interleaved({k: partial(taken, k) for k in range(len(calls))}, rounds)
    return [Timing(w, who, medians[k], errors[k], remark) for k, (w, who, remark) in enumerate(known)]


def matrix_rows(workers: Iterable[Worker]) -> list[Timing]:
    """Return W5, measured with BLAS on one thread."""
    found: dict[tuple[str, str], Timing] = {}
    peers = [
        speed_matrix.Peer(*way[:2], partial(worker.run, k), partial(worker.error, k), way[2])
        for worker in workers
        for k, way in enumerate(worker.ways)
        if way[0].startswith("W5")
    ]
    for row in speed_matrix.rows(peers):
        name, other = row.name.rsplit(", and ", 1)
        off = re.search(r"\(off by (\S+)\)", other)
        other = other.split(" (off")[0].removeprefix("the ")
        workload, floor = f"W5, {name}", any(word in other for word in ("products", "operations", "same steps"))
        remark = "BLAS on one thread"
        who = FAST if workload.endswith(", compiled") else NUMPY
        workload = workload.removesuffix(", compiled")
        found[workload, who] = Timing(workload, who, row.ours, row.error, remark)
        other = f"floor: {other}" if floor else other
        error = float(off[1]) if off else math.nan
        found[workload, other] = Timing(workload, other, row.other, error, row.remark or remark)
    return list(found.values())


def measure(small: bool = False, rounds: int = ROUNDS, say: Callable[[str], Any] = lambda _: None) -> list[Timing]:
    """Return all timings.

    Parameters
    ----------
    small : bool
        Tiny workloads, for tests; their times are meaningless.
    rounds : int
        Number of timed runs, after one warm-up; more in sections of `MORE`.
    say : callable
        Receives the name of each section before it runs.
    """
    found: list[Timing] = []
    with ExitStack() as stack:
        workers = {name: stack.enter_context(Worker(name, small)) for name in LIBRARIES}
        peers = [w for w in workers.values() if not w.absent]
        for name in ours.SECTIONS:
            say(name)
            found += section(name, peers, small, rounds * MORE.get(name, 1))
        absent = {name: worker.absent for name, worker in workers.items() if worker.absent}
        if not small:
            say("W5")
            try:
                found += matrix_rows(peers)
            except ModuleNotFoundError as error:  # the reference in 400 bits needs the extra [balls]
                absent["W5"] = str(error)
    found += [Timing("absent", name, math.nan, math.nan, why) for name, why in (absent | NOT_MEASURED).items()]
    return found


def fastest(timings: Iterable[Timing], workload: str, who: str) -> Timing | None:
    """Return the fastest timing whose label has this prefix and whose error is below `GOOD` or undefined."""
    fits = [t for t in timings if t.workload == workload and t.who.startswith(who) and not t.error > GOOD]
    return min(fits, key=lambda t: t.seconds, default=None)


def judged(timings: list[Timing]) -> list[tuple[Reach, Timing | None, Timing | None, float]]:
    """Return each target with our timing, the other, and the ratio of their times (nan if one is absent)."""
    found = []
    for reach in REACH:
        mine = fastest(timings, reach.workload, reach.who)
        other = fastest(timings, reach.against or reach.workload, reach.other)
        ratio = mine.seconds / other.seconds if mine and other else math.nan
        found.append((reach, mine, other, ratio))
    return found


def computer() -> str:
    """Return a description of the machine."""
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}"
    return f"{floors.processors()} cores, {platform.machine()}, {versions}"


def write(timings: list[Timing], text: str, folder: Path) -> None:
    """Write Markdown, JSON and the picture."""
    from benchmarks.picture import work_precision

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "speed.md").write_text(text + "\n", encoding="utf-8")
    plain = [t._asdict() | {k: None for k in ("seconds", "error") if math.isnan(getattr(t, k))} for t in timings]
    (folder / "speed.json").write_text(
        json.dumps({"on": computer(), "timings": plain}, indent=1) + "\n", encoding="utf-8"
    )
    work_precision(timings, folder / "speed.png")
