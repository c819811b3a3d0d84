"""Work on parts of an array, shared among threads: NumPy's linear algebra and compiled code let others run."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

__all__ = ["processors", "shared", "workers"]


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def workers() -> int:
    """Return on how many threads to share work: the processors, but one in a thread among others, which share them."""
    return processors() if threading.current_thread() is threading.main_thread() else 1


def shared(work: Callable[[Any], Any], parts: Iterable[Any], together: bool = True) -> list[Any]:
    """Return what `work` gives for each part, on as many threads as there are processors.

    A thread among others works alone. The parts must not depend on the number of threads, so that bits do not.
    """
    count = workers() if together else 1
    if count > 1:
        with ThreadPoolExecutor(max_workers=count) as pool:
            return list(pool.map(work, parts))
    return [work(part) for part in parts]
