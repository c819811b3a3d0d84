"""Trajectories leave no cycles of references, which would keep many arrays until a garbage collection."""

import gc

import numpy as np
import pytest

import linsolve as ls


def left_to_collector(run) -> list[str]:
    """Return the functions that are freed only by the garbage collector, after a first run."""
    run()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        run()
        gc.collect()
        return [each.__qualname__ for each in gc.garbage if hasattr(each, "__qualname__")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("name", ls.flows.WHERE)
def test_trajectories_are_freed_at_once(name):
    flow, z0 = getattr(ls.flows, name).example(np.random.default_rng(0))
    assert left_to_collector(lambda: flow([0.1, 0.2], z0)["loss"]) == []


def test_trajectories_of_a_network_are_freed_at_once():
    weights = ls.WhitenedTwoLayer.init(3, 2, 2, scale=0.1, rng=0)
    target = np.array([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    assert left_to_collector(lambda: ls.solve(weights, (np.eye(3), target.T), t=[0.0, 1.0])["loss"]) == []


def test_a_cycle_is_found():
    def run():
        found = ls.core.trajectory.Deferred(two=lambda: 2, four=lambda: found["two"] ** 2)
        return found["two"]

    assert left_to_collector(run) != []
