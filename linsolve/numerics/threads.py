"""Thread pools for parts of an array; NumPy's linear algebra and compiled code release the global interpreter lock."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

__all__ = ["processors", "shared", "workers"]


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def workers() -> int:
    """Return the number of threads to use: one per processor in the main thread, one in other threads."""
    return processors() if threading.current_thread() is threading.main_thread() else 1


def shared(work: Callable[[Any], Any], parts: Iterable[Any], together: bool = True) -> list[Any]:
    """Return `work(part)` for each part, on `workers()` threads if `together`.

    The parts must not depend on the number of threads, so that the result is bitwise identical on any number.
    """
    count = workers() if together else 1
    if count > 1:
        with ThreadPoolExecutor(max_workers=count) as pool:
            return list(pool.map(work, parts))
    return [work(part) for part in parts]
