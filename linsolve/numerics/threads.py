"""Threads for parts of an array; NumPy's linear algebra and compiled code release the global interpreter lock."""

from __future__ import annotations

import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

__all__ = ["processors", "shared", "workers"]

_inside = contextvars.ContextVar("inside", default=False)  # whether this thread works on a part for `shared`


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def workers() -> int:
    """Return the number of threads to use: one per processor in the main thread, one in others and within `shared`."""
    return processors() if threading.current_thread() is threading.main_thread() and not _inside.get() else 1


def shared(work: Callable[[Any], Any], parts: Iterable[Any], threads: int | None = None) -> list[Any]:
    """Return `work(part)` for each part in order, on `threads` threads including the caller's, by default `workers()`.

    Each thread inherits the caller's context, such as ``numpy.errstate``. The parts must not depend on the number of
    threads, so that the result is bitwise identical on any number.
    """
    parts = list(parts)
    helpers = min(workers() if threads is None else threads, len(parts)) - 1
    if helpers < 1:
        return [work(part) for part in parts]
    found: list[Any] = [None] * len(parts)
    left = deque(enumerate(parts))

    def take() -> None:
        _inside.set(True)
        try:
            while left:
                try:
                    k, part = left.popleft()
                except IndexError:  # another thread took the last part
                    return
                found[k] = work(part)
        except BaseException:
            left.clear()  # the other threads stop
            raise

    with ThreadPoolExecutor(helpers) as pool:  # starting a thread takes longer than a small part: no idle caller
        asked = [pool.submit(contextvars.copy_context().run, take) for _ in range(helpers)]
        contextvars.copy_context().run(take)
    for each in asked:
        each.result()
    return found
