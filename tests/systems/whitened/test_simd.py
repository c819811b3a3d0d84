"""SIMD vectors as a type of compiled code: each operation as NumPy computes it, and the transposition to cases."""

import numpy as np
import pytest

numba = pytest.importorskip("numba")

from linsolve.systems.whitened import simd  # noqa: E402
from linsolve.systems.whitened.simd import WIDTH  # noqa: E402

SPECIAL = np.asarray([0.0, -0.0, 5e-324, -1e-310, 1e-20, -0.3, 1.0, 599.0])


def applied(function, *given):
    """Values of a function of vectors for arrays of numbers that fill whole vectors."""

    @numba.njit
    def one(a, b, c, into):
        for k in range(a.shape[0] // WIDTH):
            simd.store(into, k, function(simd.load(a, k), simd.load(b, k), simd.load(c, k)))

    given = [np.ascontiguousarray(v, dtype=float) for v in (*given, *given, *given)[:3]]
    into = np.empty_like(given[0])
    one(*given, into)
    return into


@pytest.mark.parametrize("name", ["exp", "expm1"])
def test_exponentials_within_two_spacings(name):
    of = getattr(simd, name)
    x = np.concatenate([np.random.default_rng(0).uniform(-650, 650, 4000), np.linspace(-2, 2, 4000), SPECIAL])
    found, right = applied(numba.njit(lambda a, b, c: of(a)), x), getattr(np, name)(x)
    assert (np.abs(found - right) <= 2 * np.spacing(np.abs(right))).all()


def test_arithmetic_bit_by_bit():
    a, b, c = np.random.default_rng(1).normal(size=(3, 10 * WIDTH))
    a[:4], b[:4] = [np.nan, np.inf, 0.0, 1.0], [1.0, np.inf, 0.0, np.nan]
    with np.errstate(invalid="ignore", divide="ignore"):
        for function, right in (
            (numba.njit(lambda a, b, c: a + b), a + b),
            (numba.njit(lambda a, b, c: a - b), a - b),
            (numba.njit(lambda a, b, c: a * b), a * b),
            (numba.njit(lambda a, b, c: a / b), a / b),
            (numba.njit(lambda a, b, c: simd.sqrt(a)), np.sqrt(a)),
            (numba.njit(lambda a, b, c: simd.if_less(a, b, b, c)), np.where(a < b, b, c)),
            (numba.njit(lambda a, b, c: simd.broadcast(2.5) * c), 2.5 * c),
        ):
            np.testing.assert_array_equal(applied(function, a, b, c), right)


def test_a_product_and_sum_are_rounded_once():
    a = np.full(WIDTH, 1 + 2.0**-30)
    found = applied(numba.njit(lambda a, b, c: simd.fma(a, b, c)), a, a, np.full(WIDTH, -1 - 2.0**-29))
    np.testing.assert_array_equal(found, 2.0**-60)


def test_transposition_to_cases_and_broadcast_of_an_entry():
    numbers, first, step = np.random.default_rng(2).normal(size=(12, WIDTH)), 3, WIDTH + 5

    @numba.njit
    def call(a, into, same):
        simd.unpack(a, first, into, 2, step)
        simd.store(same, 0, simd.broadcast_entry(a, 5))

    into, same = np.zeros(2 + WIDTH * step), np.zeros(WIDTH)
    call(numbers.ravel(), into, same)
    cases = into[2:].reshape(WIDTH, step)
    np.testing.assert_array_equal(cases[:, :WIDTH], numbers[first : first + WIDTH].T)
    assert not into[:2].any()
    assert not cases[:, WIDTH:].any()
    assert (same == numbers.ravel()[5]).all()


def test_arrays_are_aligned_with_cache_lines():
    for count in (1, 3, 50):
        found = simd.zeros(count)
        assert found.shape == (count * WIDTH,)
        assert not found.any()
        assert found.ctypes.data % (WIDTH * found.itemsize) == 0
