"""Independent tasks on threads, processes or a cluster: bounded number in flight, yielded as they finish."""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from linsolve.core.arguments import integer, shown
from linsolve.numerics.threads import one_blas_thread, processors

__all__ = ["BlockError", "check_workers", "run"]

IN_FLIGHT = 3  # tasks per worker: enough that it never waits, few enough to bound memory
UNKNOWN = 64  # number of workers assumed if the executor does not report it


class BlockError(RuntimeError):
    """Raised if a task fails; the message names the task, and ``__cause__`` is its exception.

    Examples
    --------
    >>> from linsolve import ensembles
    >>> try:
    ...     list(ensembles.run([1.0, 0.0], lambda x: 1 / x, threads=1))
    ... except ensembles.BlockError as error:
    ...     print(type(error.__cause__).__name__)
    ZeroDivisionError
    """


def check_workers(who: str, executor: Any, threads: Any, progress: Any) -> None:
    """Raise for an invalid executor, number of threads or `progress`, and for an executor together with threads.

    Raises
    ------
    TypeError, ValueError
    """
    if executor is not None and not isinstance(executor, Executor):
        raise TypeError(
            f"{who}: executor = {shown(executor)} must be a concurrent.futures.Executor (of the tasks); pass "
            "ThreadPoolExecutor(), ProcessPoolExecutor(), or Client(...).get_executor() of a Dask cluster"
        )
    if progress is not None and not isinstance(progress, bool | np.bool_):
        raise TypeError(
            f"{who}: progress = {shown(progress)} must be True, False or None (whether a bar is shown); say True"
        )
    if threads is None:
        return
    integer(who, "threads", threads, meaning="threads of this process", example=2)
    if executor is not None:
        raise ValueError(f"{who}: threads = {threads} does not go with executor = ... (it has its own); give one")


def run(
    tasks: Sequence[Any],
    work: Callable[[Any], Any],
    *,
    executor: Executor | None = None,
    threads: int | None = None,
    progress: bool | None = None,
    label: str = "",
    describe: Callable[[Any], str] | None = None,
    finished: int = 0,
) -> Iterator[tuple[int, Any]]:
    """Yield ``(k, work(tasks[k]))`` as they finish, in any order.

    Parameters
    ----------
    tasks : sequence
        Arguments of `work`; each is indexed only when it is submitted.
    work : callable
        Function of one task. For executors in other processes, function and tasks must be picklable.
    executor : concurrent.futures.Executor, optional
        Threads, processes, ``loky``, ``mpi4py.futures``, ``Client.get_executor()`` of a Dask cluster; it is not shut
        down. By default threads of this process.
    threads : int, optional
        Number of threads, by default the number of cores available to this process; 1 means the calling thread.
    progress : bool, optional
        Whether a progress bar is shown; by default where the standard error is a terminal.
    label : str
        Name of the computation in the progress bar and in errors.
    describe : callable, optional
        Function that returns the name of a task for errors.
    finished : int
        Number of tasks finished earlier, for the progress bar.

    Raises
    ------
    BlockError
        If a task fails. Pending tasks are cancelled; running tasks are completed and yielded before the error is
        raised.
    TypeError, ValueError
        If the executor or the number of threads is invalid.

    Notes
    -----
    While a task runs, BLAS uses one thread, so that threads do not compete for cores and results do not depend on their
    number. Closing the iterator cancels pending tasks. At most `IN_FLIGHT` tasks per worker are in flight. Threads
    inherit the caller's context, such as `numpy.errstate`.

    Examples
    --------
    >>> from linsolve import ensembles
    >>> sorted(ensembles.run([1, 2, 3], lambda x: x**2, threads=2))
    [(0, 1), (1, 4), (2, 9)]
    """
    check_workers(label or "run", executor, threads, progress)
    return _run(tasks, work, executor, threads, progress, label, describe or str, finished)


def _run(
    tasks: Sequence[Any],
    work: Callable[[Any], Any],
    executor: Executor | None,
    threads: int | None,
    progress: bool | None,
    label: str,
    describe: Callable[[Any], str],
    finished: int,
) -> Iterator[tuple[int, Any]]:
    count = min(int(threads or processors()), len(tasks))
    with ExitStack() as stack:
        tick = stack.enter_context(_bar(progress, label, len(tasks) + finished, finished))
        if executor is not None:
            pairs = _pooled(tasks, work, executor, _workers(executor))
        elif count > 1:
            pool = stack.enter_context(ThreadPoolExecutor(count, thread_name_prefix="linsolve"))
            pairs = _pooled(tasks, work, _Inheriting(pool), count)
        else:
            pairs = ((k, _outcome(lambda k=k: single(work, tasks[k]))) for k in range(len(tasks)))  # type: ignore[misc]
        stack.callback(pairs.close)  # type: ignore[attr-defined]
        failure: tuple[int, Exception] | None = None
        for k, (value, error) in pairs:
            if error is None:
                yield k, value
                tick()
            elif failure is None:
                failure = k, error
                if executor is None and count <= 1:
                    break
        if failure is not None:
            k, error = failure
            name = f"{label}: " if label else ""
            raise BlockError(f"{name}{describe(tasks[k])} failed: {type(error).__name__}: {error}") from error


def _outcome(call: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return call(), None
    except Exception as error:
        return None, error


def _pooled(
    tasks: Sequence[Any], work: Callable[[Any], Any], executor: Any, workers: int
) -> Iterator[tuple[int, tuple[Any, Exception | None]]]:
    """Yield outcomes of tasks as they finish; after the first error no further task is started."""
    flying: dict[Future, int] = {}
    begun, end = 0, len(tasks)
    try:
        while begun < end or flying:
            ended: list[tuple[int, tuple[Any, Exception | None]]] = []
            while begun < end and len(flying) < IN_FLIGHT * workers:
                future, error = _outcome(lambda k=begun: executor.submit(single, work, tasks[k]))  # type: ignore[misc]
                if error is None:
                    flying[future] = begun
                else:  # the executor is shut down or has lost its workers
                    ended, end = [(begun, (None, error))], begun
                begun += 1
                del future  # a cluster keeps referenced results
            done = wait(flying, return_when=FIRST_COMPLETED).done
            ended += [(flying.pop(future), _outcome(future.result)) for future in done]
            if any(error is not None for _, (_, error) in ended):
                end = begun
                for future in [future for future in flying if future.cancel()]:
                    del flying[future]
            del done
            yield from ended
    finally:
        for future in flying:
            future.cancel()


def _workers(executor: Any) -> int:
    """Return the number of workers of an executor, if it reports one."""
    count = getattr(executor, "_max_workers", None)  # threads, processes, loky
    client = getattr(executor, "_client", None)  # Dask
    if client is not None and hasattr(client, "ncores"):
        count = sum(client.ncores().values())
    return count if isinstance(count, int) and count > 0 else UNKNOWN


class _Inheriting:
    """Thread pool whose tasks inherit the caller's context variables."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.pool = pool

    def submit(self, function: Callable[..., Any], *args: Any) -> Future:
        return self.pool.submit(contextvars.copy_context().run, function, *args)


@contextmanager
def _bar(progress: bool | None, label: str, total: int, finished: int) -> Iterator[Callable[[], Any]]:
    if progress if progress is not None else sys.stderr is not None and sys.stderr.isatty():
        from tqdm import tqdm

        with tqdm(total=total, initial=finished, desc=label or None) as bar:
            yield bar.update
    else:
        yield lambda: None


def single(work: Callable[[Any], Any], task: Any) -> Any:
    """Return ``work(task)``, evaluated with one BLAS thread in this process."""
    with one_blas_thread:
        return work(task)
