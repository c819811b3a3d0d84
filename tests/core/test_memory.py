"""Trajectories leave no cycles of references, which would keep the arrays of many networks until they are collected."""

import gc

import numpy as np
import pytest

import linsolve as ls


@pytest.fixture
def left_to_collector():
    """A function that returns what a call, after a first one, leaves to the garbage collector."""

    def left(call):
        call()
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)
        call()
        gc.collect()
        gc.set_debug(0)
        found = [each.__qualname__ for each in gc.garbage if hasattr(each, "__qualname__")]
        gc.garbage.clear()
        return found

    gc.collect()
    gc.freeze()  # leaves out what was there before
    gc.disable()
    yield left
    gc.enable()
    gc.unfreeze()


def test_trajectories_are_freed_at_once(left_to_collector):
    found = {}
    for name in ls.flows.WHERE:
        flow, z0 = getattr(ls.flows, name).example(np.random.default_rng(0))
        found[name] = left_to_collector(lambda flow=flow, z0=z0: flow([0.1, 0.2], z0)["loss"])
    assert found == {name: [] for name in ls.flows.WHERE}


def test_trajectories_of_a_network_are_freed_at_once(left_to_collector):
    weights = ls.WhitenedTwoLayer.init(3, 2, 2, scale=0.1, rng=0)
    data = np.eye(3), np.array([[2.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    assert left_to_collector(lambda: ls.solve(weights, data, t=[0.0, 1.0])["loss"]) == []
    assert left_to_collector(lambda: ls.solve(weights, data, t=[0.0, 1.0], test=data)["loss"]) == []


def test_a_cycle_is_found(left_to_collector):
    def run():
        found = ls.core.trajectory.Deferred(two=lambda: 2, four=lambda: found["two"] ** 2)
        return found["two"]

    assert left_to_collector(run) != []
