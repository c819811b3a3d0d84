"""Nested loops in machine code: each operation as NumPy computes it, loops, branches, and transposition to lanes."""

import ctypes

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from linsolve.engines import elementary
from linsolve.engines.compiled import machine_code
from linsolve.engines.nested_loops import NestedLoops

LANES = 8
SPECIAL = np.asarray([0.0, -0.0, 5e-324, -1e-310, 1e-20, -0.3, 1.0, 599.0])


def run(write, arrays, sizes=()):
    """Run the function that `write` gives a writer, on arrays and integers named a, b, c, ... and k, l, m."""
    loops = NestedLoops("run", "abcdefgh"[: len(arrays)], "klm"[: len(sizes)], LANES)
    write(loops)
    engine, address, *_ = machine_code(lambda _: loops.text(), "run")
    pointers = np.array([v.ctypes.data for v in arrays], dtype=np.uintp)
    numbers = np.array(sizes, dtype=np.int64)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)(pointers.ctypes.data, numbers.ctypes.data)
    del engine


def applied(function, *given):
    """Values of ``function(loops, a, b, c)`` for arrays of numbers that fill whole vectors."""
    given = [np.ascontiguousarray(v, dtype=float) for v in (*given, *given, *given)[:3]]
    into = np.empty_like(given[0])

    def write(loops):
        def one(at):
            loops.store("d", at, function(loops, *(loops.load(name, at) for name in "abc")))

        loops.loop(0, loops.sizes["k"], one)

    run(write, [*given, into], [into.size // LANES])
    return into


@pytest.mark.parametrize("name", ["exp", "expm1"])
def test_exponentials_within_two_spacings(name):
    x = np.concatenate([np.random.default_rng(0).uniform(-650, 650, 4000), np.linspace(-2, 2, 4000), SPECIAL])
    found = applied(lambda loops, a, b, c: loops.elementary(getattr(elementary, name), a), x)
    right = getattr(np, name)(x)
    assert (np.abs(found - right) <= 2 * np.spacing(np.abs(right))).all()


def test_arithmetic_bit_by_bit():
    a, b, c = np.random.default_rng(1).normal(size=(3, 10 * LANES))
    a[:4], b[:4] = [np.nan, np.inf, 0.0, 1.0], [1.0, np.inf, 0.0, np.nan]
    with np.errstate(invalid="ignore", divide="ignore"):
        for function, right in (
            (lambda loops, a, b, c: a + b, a + b),
            (lambda loops, a, b, c: a - b, a - b),
            (lambda loops, a, b, c: a * b, a * b),
            (lambda loops, a, b, c: a / b, a / b),
            (lambda loops, a, b, c: loops.sqrt(a), np.sqrt(a)),
            (lambda loops, a, b, c: loops.if_less(a, b, b, c), np.where(a < b, b, c)),
            (lambda loops, a, b, c: loops.number(2.5) * c, 2.5 * c),
            (lambda loops, a, b, c: loops.real(loops.sizes["k"]) - c, 10.0 - c),
        ):
            np.testing.assert_array_equal(applied(function, a, b, c), right)


def test_a_product_and_sum_are_rounded_once():
    a = np.full(LANES, 1 + 2.0**-30)
    found = applied(lambda loops, a, b, c: loops.fma(a, b, c), a, a, np.full(LANES, -1 - 2.0**-29))
    np.testing.assert_array_equal(found, 2.0**-60)


def test_transposition_to_lanes_and_an_entry_for_all_lanes():
    numbers, first, step = np.random.default_rng(2).normal(size=(12, LANES)), 3, LANES + 5
    into, same = np.zeros(2 + LANES * step), np.zeros(LANES)

    def write(loops):
        first, step = loops.sizes["k"], loops.sizes["l"]
        loops.unpack("a", first, "b", loops.integer(2), step)
        loops.begin("a", loops.integer(4))
        loops.store("c", 0, loops.entry("a", 1))

    run(write, [numbers, into, same], [first, step])
    lanes = into[2:].reshape(LANES, step)
    np.testing.assert_array_equal(lanes[:, :LANES], numbers[first : first + LANES].T)
    assert not into[:2].any()
    assert not lanes[:, LANES:].any()
    assert (same == numbers.ravel()[5]).all()


@pytest.mark.parametrize(("count", "limit"), [(0, 3), (1, 3), (5, 3), (12, 4), (12, 0)])
def test_loops_carry_values_and_branches_choose_them(count, limit):
    """Sum of j + 10 k over pairs j <= k, below a limit of k as products, kept in memory row by row."""
    weights, found, rows = np.random.default_rng(3).normal(size=max(count, 1)), np.zeros(2 * LANES), np.zeros(count + 1)

    def write(loops):
        count, limit = loops.sizes["k"], loops.sizes["l"]

        def row(k, total, last):
            def entry(j, inner):
                return (inner + loops.real(j + k * 10),)

            def product():
                loops.multiply("a", k, k, "c", k)
                return (loops.entry("a", k),)

            def plain():
                loops.copy("a", k, "c", k)
                return (loops.number(1.0),)

            (inner,) = loops.loop(0, k + 1, entry, loops.number(0.0), step=2)
            (factor,) = loops.choose(k < limit, product, plain)
            return loops.fma(inner, factor, total), loops.largest(last, loops.least(k * k, 50, 7))

        zero = loops.number(0.0)
        total, last = loops.loop(0, count, row, zero, loops.integer(-1))
        loops.store("b", 0, total)
        loops.store("b", 1, loops.real(last))

    run(write, [weights, found, rows], [count, limit])
    total, last = 0.0, -1
    for k in range(count):
        total += sum(j + 10 * k for j in range(0, k + 1, 2)) * (weights[k] if k < limit else 1.0)
        last = max(last, min(k * k, 50, 7))
    assert np.allclose(found[:LANES], total, rtol=1e-14, atol=0)
    assert (found[LANES:] == last).all()
    chosen = np.arange(count) < limit
    np.testing.assert_array_equal(rows[:count], np.where(chosen, weights[:count] ** 2, weights[:count]))
    assert rows[count] == 0
