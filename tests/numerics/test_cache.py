"""`once_a_call`: conditions leave a result for the solution of the same parameters and start, which takes it once."""

import copy
import pickle

import numpy as np

import linsolve as ls
from linsolve.numerics.cache import KEPT, once_a_call

ZERO, ONE = (ls.BalancedMode.state(value) for value in (0.0, 1.0))


def asked(flow, *starts):
    """Return whether ``answer()`` is called by a solution for each start, after conditions for the first."""
    calls, found = [], []
    once_a_call(flow, starts[0], lambda: calls.append(0), last=False)
    for z0 in starts:
        before = len(calls)
        once_a_call(flow, z0, lambda: calls.append(0), last=True)
        found.append(len(calls) > before)
    return found


def test_a_result_is_taken_once():
    assert asked(ls.BalancedMode(s=1.0), ONE, ONE) == [False, True]


def test_another_start_or_parameter_has_its_own_result():
    flow = ls.BalancedMode(s=1.0)
    minus = ls.BalancedMode.State(-ZERO.a)
    for first, other in ((ONE, ZERO), (ZERO, minus)):  # zeros of both signs are equal, their results may differ
        once_a_call(flow, first, lambda: "first", last=False)
        assert once_a_call(flow, other, lambda: "other", last=True) == "other"
    once_a_call(flow, ONE, lambda: "first", last=False)
    other = copy.copy(flow)._with(s=np.asarray(2.0))
    assert once_a_call(other, ONE, lambda: "other", last=True) == "other"


def test_conditions_compute_it_always():
    flow, calls = ls.BalancedMode(s=1.0), []
    for _ in range(3):
        once_a_call(flow, ONE, lambda: calls.append(0), last=False)
    assert len(calls) == 3


def test_copies_large_arrays_and_other_arithmetics_have_none():
    flow = ls.BalancedMode(s=1.0)
    once_a_call(flow, ONE, lambda: "first", last=False)
    assert once_a_call(pickle.loads(pickle.dumps(flow)), ONE, lambda: "copy", last=True) == "copy"
    precise = ls.arithmetic.precise(30)
    for z0 in (ls.BalancedMode.State(np.zeros(KEPT + 1)), ls.BalancedMode.State(precise.asarray(1.0))):
        assert asked(ls.BalancedMode(s=1.0), z0) == [True]
