import os
import subprocess
import sys
import threading
import time
import warnings
from contextlib import ExitStack

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from linsolve.numerics import threads
from linsolve.numerics.threads import shared, workers


@pytest.mark.parametrize("count", [1, 2, 7, 200])
def test_results_come_in_the_order_of_the_parts(count):
    def work(k):
        time.sleep(0.001 * (k % 3))
        return k**2

    assert shared(work, iter(range(50)), count) == [k**2 for k in range(50)]


def test_no_parts_give_no_results():
    assert shared(abs, [], 4) == []


def test_the_caller_works_too_and_each_part_is_done_once():
    names, done, both = set(), [], threading.Barrier(2, timeout=60)

    def work(k):
        if k < 2:
            both.wait()  # reached by two threads, or the barrier breaks
        names.add(threading.current_thread().name)
        done.append(k)

    shared(work, range(40), 2)
    assert sorted(done) == list(range(40))
    assert len(names) == 2
    assert threading.current_thread().name in names


@pytest.mark.parametrize("failing", ["caller", "helper"])
def test_an_error_in_any_thread_is_raised_and_ends_the_others(failing):
    done, both, here = [], threading.Barrier(2, timeout=60), threading.current_thread()

    def work(k):
        if k < 2:
            both.wait()
            if (threading.current_thread() is here) == (failing == "caller"):
                raise ZeroDivisionError(f"part {k}")
        time.sleep(0.01)
        done.append(k)

    with pytest.raises(ZeroDivisionError, match="part"):
        shared(work, range(10_000), 2)
    assert len(done) < 100


def test_parts_do_not_start_threads_of_their_own(monkeypatch):
    monkeypatch.setattr(threads, "processors", lambda: 3)
    assert workers() == 3
    assert shared(lambda _: workers(), range(20)) == [1] * 20
    assert workers() == 3


@pytest.mark.parametrize("count", [1, 2])
def test_parts_inherit_the_rules_of_numpy_for_errors(count):
    both = threading.Barrier(count, timeout=60)

    def work(k):
        if k < count:
            both.wait()
        return np.float64(1.0) / np.float64(0.0)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with np.errstate(divide="ignore"):
            assert shared(work, range(4), count) == [np.inf] * 4
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            shared(lambda k: np.float64(k) / np.float64(0.0), range(1, 5), count)


def test_helpers_are_kept_and_one_that_is_busy_is_not_waited_for():
    held, free = threading.Event(), threading.Event()
    shared(abs, range(8), 2)
    before = threading.active_count()
    for _ in range(5):
        shared(lambda k: time.sleep(0.002), range(8), 2)
    assert threading.active_count() <= max(before, 1 + threads._pool()._max_workers)
    # all threads of the pool hold a part of one call; another call works alone
    most = threads._pool()._max_workers
    parts, whole = threading.Barrier(most + 1, timeout=60), []

    def hold(_):
        if parts.wait() == 0:
            held.set()
        assert free.wait(60)

    other = threading.Thread(target=lambda: whole.append(shared(hold, range(most + 1), most + 1)))
    other.start()
    assert held.wait(60)
    assert shared(abs, range(-3, 0), 2) == [3, 2, 1]
    free.set()
    other.join(60)
    assert whole == [[None] * (most + 1)]


def test_parts_may_share_their_own_parts_among_threads():
    assert shared(lambda k: sum(shared(abs, range(-k, 0), 3)), range(40), 3) == [k * (k + 1) // 2 for k in range(40)]


FORK = """
import os, threading, time
from linsolve.numerics.threads import shared
assert shared(abs, range(-3, 0), 2) == [3, 2, 1]
child = os.fork()
found = shared(lambda k: time.sleep(0.01) or threading.get_ident(), range(20), 2)
assert len(set(found)) == 2
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_starts_helpers_of_its_own():
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=60)


COMPILING = """
import os, threading, time
import numpy as np
import linsolve as ls
from linsolve.engines import compiled
held, lock = threading.Event(), compiled._making
def hold():
    with lock:
        held.set()
        time.sleep(0.3)
threading.Thread(target=hold).start()
held.wait()
child = os.fork()
if not child:
    ls.BalancedMode(s=np.linspace(1.0, 2.0, 70_000))(1.0, 0.1, engine="compiled")
    os._exit(0)
time.sleep(0.1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
ENDING = """
import atexit
import numpy as np
import linsolve as ls
flow = ls.BalancedMode(s=np.linspace(1.0, 2.0, 200_000))
atexit.register(lambda: print(flow([0.0, 1.0], 0.1)["a"].shape))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_while_another_thread_compiles_can_compile():
    pytest.importorskip("llvmlite")
    subprocess.run([sys.executable, "-c", COMPILING], check=True, timeout=60)


@pytest.mark.parametrize("first", ["", 'flow([0.0, 1.0], 0.1, engine="blocks", threads=2)'])
def test_calls_work_when_the_interpreter_ends(first):
    found = subprocess.run([sys.executable, "-c", ENDING + first], capture_output=True, text=True, timeout=60)
    assert (found.stdout, found.stderr) == ("(2, 200000)\n", "")


def test_after_an_interrupt_no_helper_writes(monkeypatch):
    written, wait = [], threads.wait
    begun, calls = threading.Event(), iter([True])

    def interrupted(futures):
        if next(calls, False):
            raise KeyboardInterrupt
        return wait(futures)

    def work(k):
        if threading.current_thread() is threading.main_thread():
            assert begun.wait(60)
            return
        begun.set()
        time.sleep(0.2)
        written.append(k)

    monkeypatch.setattr(threads, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        shared(work, range(2), 2)
    assert len(written) == 1


def blas_threads():
    return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}


def test_the_limit_of_blas_ends_with_the_last_context_that_holds_it():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        first, second = ExitStack(), ExitStack()
        for each in (first, second):
            each.enter_context(threads.one_blas_thread)
        first.close()
        assert blas_threads() == {1}
        second.close()
        assert blas_threads() == before == {2}


def test_the_limit_of_blas_ends_in_another_thread_than_that_which_set_it():
    first, other = threading.Barrier(2, timeout=60), threading.Barrier(2, timeout=60)

    def hold():
        with threads.one_blas_thread:
            first.wait()
            first.wait()
        other.wait()
        other.wait()  # alive until the other thread has left

    helper = threading.Thread(target=hold)
    original = blas_threads()
    helper.start()
    first.wait()
    with threads.one_blas_thread:
        first.wait()
        other.wait()
    found = blas_threads()
    other.wait()
    helper.join()
    assert found == original
