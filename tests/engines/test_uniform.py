"""Conditions that hold for all members or for none, minima known from ranges: the same bits, wrong ones rejected."""

import math

import numpy as np
import pytest

from linsolve.engines import specialize, uniform
from linsolve.engines.interval import Range
from linsolve.engines.plan import Grid
from linsolve.engines.program import Tracer
from linsolve.engines.specialize import ORDERED, Argument
from linsolve.engines.uniform import uniform_conditions

ENDS = [0.0, -0.0, 0.5, -0.5, 3.0, -3.0, 5e-324, -5e-324, np.inf, -np.inf]


def comparison(steps=600):
    """Return a program whose long branch is chosen by comparing two inputs of members, and the step of the choice."""
    xp = Tracer()
    a, b, t = (xp.input(name) for name in "abt")
    below = xp.abs(a) < xp.abs(b)
    total = a * t
    for k in range(steps):
        total = total * 0.5 + k
    xp.program.outputs["y"] = xp.where(below, total, b + t).index
    return xp.program, below.index


def on(a, b):
    members = len(a)
    given = {"a": np.reshape(a, (1, 1, -1)), "b": np.reshape(b, (1, 1, -1)), "t": np.ones((2, 1, 1))}
    return Grid((2, 1, members), given)


@pytest.mark.parametrize("place", [0, 77_777, 99_999])
def test_one_member_on_the_other_side_is_seen(place):
    program, below = comparison()
    a, b = np.linspace(-1, 1, 100_000), np.full(100_000, 2.0)
    assert uniform_conditions(program, on(a, b)) == {(below, True)}
    assert uniform_conditions(program, on(b, a)) == {(below, False)}
    a[place] = 3.0
    assert uniform_conditions(program, on(a, b)) == frozenset()


def test_a_cheap_program_is_not_asked():
    program, _ = comparison(steps=3)
    assert uniform_conditions(program, on([1.0, 1.5], [2.0, 2.5])) == frozenset()


def test_conditions_of_time_or_of_many_steps_are_not_evaluated():
    program, below = comparison()
    xp = Tracer()
    xp.program = program
    t, a = xp.input("t"), xp.input("a")
    long = a
    for k in range(1, 40):
        long = long * a + k
    program.outputs["z"] = xp.where((t > 0) | (long > 0) | (xp.exp(a) > 0), a, t).index
    assert uniform_conditions(program, on([1.0, 1.5], [2.0, 2.5])) == {(below, True)}


def test_the_conditions_shorten_the_program_and_keep_its_bits(monkeypatch):
    monkeypatch.setattr(specialize, "ENOUGH", 1)
    monkeypatch.setattr(specialize, "SHARE", 0)
    program, _ = comparison()
    rng = np.random.default_rng(0)
    grid = on(rng.uniform(2, 4, 50), rng.uniform(-4, -2, 50))  # overlapping ranges of the sizes
    assert len(specialize.specialized(program, grid).used()) > 600
    grid.given["b"] = -grid.given["a"] * 0.9
    assert len(specialize.specialized(program, grid).used()) < 10
    monkeypatch.setattr(uniform, "_SHARE", 10**6)
    assert len(specialize.specialized(program, grid).used()) > 600


def bits(v):
    return np.float64(v).tobytes()


def wrong_orders(order):
    """Return ranges for which a minimum or maximum is not the argument said, in any bit."""
    found = []
    ranges = [Range(a, b, False) for a in ENDS for b in ENDS if (a, math.copysign(1, a)) <= (b, math.copysign(1, b))]
    for op, function in (("minimum", np.minimum), ("maximum", np.maximum)):
        for first in ranges:
            for second in ranges:
                said = order(op, first, second)
                if not isinstance(said, Argument):
                    continue
                for x in (first.low, first.high):
                    for y in (second.low, second.high):
                        found += [(op, x, y)] * (bits(function(x, y)) != bits((x, y)[said.which]))
    return found


def test_a_minimum_known_from_ranges_has_the_bits_of_its_argument():
    assert not wrong_orders(specialize._order)
    assert specialize._order("minimum", Range(1.0, 2.0, False), Range(2.0, 3.0, False)) == Argument(0)
    assert specialize._order("maximum", Range(1.0, 2.0, False), Range(0.0, 1.0, False)) == Argument(0)
    assert specialize._order("maximum", Range(1.0, 2.0, False), Range(0.0, 1.5, False)) == ORDERED
    assert specialize._order("minimum", Range(1.0, 2.0, True), Range(5.0, 6.0, False)) is None


def test_ties_of_zeros_taken_for_equal_are_rejected():
    def careless(op, a, b):
        below = a.high <= b.low
        return Argument(int((op == "minimum") != below)) if below or b.high <= a.low else ORDERED

    assert wrong_orders(careless)
