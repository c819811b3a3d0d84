import threading
import time
import warnings

import numpy as np
import pytest

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
