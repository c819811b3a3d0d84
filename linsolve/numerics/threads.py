"""Threads for parts of an array; NumPy's linear algebra and compiled code release the global interpreter lock."""

from __future__ import annotations

import contextvars
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from contextlib import ExitStack, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

__all__ = ["forkable_lock", "one_blas_thread", "processors", "shared", "workers"]

_inside = contextvars.ContextVar("inside", default=False)  # whether this thread works on a part for `shared`


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def workers() -> int:
    """Return the number of threads to use: one per processor in the main thread, one in others and within `shared`."""
    return processors() if threading.current_thread() is threading.main_thread() and not _inside.get() else 1


def forkable_lock() -> Any:
    """Return a lock that is free in a forked process: forking waits until no other thread holds it."""
    lock = threading.Lock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    """Return the helpers, which are started when first needed and kept: starting one takes longer than a small part."""
    from concurrent.futures import ThreadPoolExecutor  # refuses to be imported when the interpreter ends

    return ThreadPoolExecutor(max(1, processors() - 1), thread_name_prefix="linsolve")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a fork has no threads but its own


def shared(work: Callable[[Any], Any], parts: Iterable[Any], threads: int | None = None) -> list[Any]:
    """Return `work(part)` for each part in order, on `threads` threads including the caller's, by default `workers()`.

    Helpers are no more than the other processors, and serve all callers; a caller does the parts that no helper takes.
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

    asked: list[Future[None]] = []
    with suppress(RuntimeError):  # no thread can be started, as when the interpreter ends
        for _ in range(helpers):
            asked.append(_pool().submit(contextvars.copy_context().run, take))
    try:
        contextvars.copy_context().run(take)
    finally:
        begun = [each for each in asked if not each.cancel()]  # helpers that another call keeps busy are not needed
        try:
            wait(begun)
        except BaseException:  # an interrupt: no helper may write after this call
            left.clear()
            wait(begun)
            raise
    for each in begun:
        each.result()
    return found


class _OneThread:
    """Limit of the BLAS of this process to one thread, as a context; threads may share it, and contexts may nest.

    The limit is one of the process: it ends when the last context that holds it ends.
    """

    def __init__(self) -> None:
        self.lock, self.inside, self.modules = forkable_lock(), 0, 0
        self.controller: Any = None
        self.limits = ExitStack()

    def __enter__(self) -> None:
        with self.lock:
            if self.inside == 0:
                # the search for BLAS libraries takes a millisecond, and only imports load further ones
                if len(sys.modules) != self.modules:
                    from threadpoolctl import ThreadpoolController

                    self.controller, self.modules = ThreadpoolController(), len(sys.modules)
                blas = (each for each in self.controller.lib_controllers if each.user_api == "blas")
                if any(each.num_threads != 1 for each in blas):
                    self.limits.enter_context(self.controller.limit(limits=1, user_api="blas"))
            self.inside += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                import threadpoolctl

                # newer versions let only the thread that set the limit end it, which may be another one
                blas: Any = getattr(threadpoolctl, "OpenBLASController", None)
                if hasattr(blas, "clear_controlling_thread"):
                    blas.clear_controlling_thread(force=True)
                self.limits.close()


one_blas_thread = _OneThread()
