"""Late and early times of the kernels, and the threads of a process."""

import numpy as np

from linsolve.numerics import threads
from linsolve.numerics.scalar import logistic
from linsolve.numerics.spectrum import reach_backward


def test_logistic_does_not_overflow_at_the_latest_times():
    """At s = 0 the solution is ``1/(1/a0 + t)``, here below the normal doubles."""
    a, gap = logistic(np, np.full(3, 1.7e308), np.array([1.5, 1e10, 1e150]), np.zeros(3))
    np.testing.assert_allclose(a, 1 / 1.7e308, rtol=1e-14)
    np.testing.assert_allclose(gap, -1 / 1.7e308, rtol=1e-14)


def test_backward_times_end_only_if_something_grows():
    rates = np.array([[0.0, 0.0], [-1.0, 0.0], [2.0, -1.0]])
    found = reach_backward(np, rates)
    assert found[:2].tolist() == [-np.inf, -np.inf]
    assert -400 < found[2] < -100
    assert np.isfinite(np.exp(-2 * rates[2, 0] * found[2]))


def test_threads_are_those_of_this_process(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {1, 5, 6} if pid == 0 else {1}, raising=False)
    assert threads.processors() == threads.workers() == 3
    monkeypatch.delattr("os.sched_getaffinity")
    monkeypatch.setattr("os.cpu_count", lambda: None)
    assert threads.processors() == 1
