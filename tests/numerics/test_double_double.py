"""Double-double numbers against rationals: operations to about 2^-104, sums of any length, range of the scalings."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from linsolve.numerics.double_double import DoubleDouble, cosine, length, power_of_two, two_prod, two_sum

TINY = Fraction(1, 2**100)


def exact(value):
    return Fraction(float(value.hi)) + Fraction(float(value.lo))


def drawn(seed, shape=()):
    """Return numbers of both signs and of two decades, with low parts."""
    rng = np.random.default_rng(seed)
    hi = rng.choice([-1, 1], shape) * 10.0 ** rng.uniform(-1, 1, shape)
    return DoubleDouble(np, hi, hi * rng.uniform(-1, 1, shape) * 2.0**-54)


@pytest.mark.parametrize("seed", range(20))
def test_operations_have_twice_the_digits(seed):
    a, b = drawn(seed), drawn(seed + 100)
    x, y = exact(a), exact(b)
    pairs = ((a + b, x + y), (a - b, x - y), (a * b, x * y), (a / b, x / y), (-a, -x), (a + 0.1, x + Fraction(0.1)))
    for found, true in pairs:
        assert abs(exact(found) - true) <= TINY * max(abs(true), abs(x), abs(y))
        assert abs(float(found.lo)) <= abs(float(found.hi)) * 2.0**-52


@pytest.mark.parametrize("seed", range(10))
def test_roots_and_hypotenuses_have_twice_the_digits(seed):
    a, b = drawn(seed), drawn(seed + 100)
    square = a * a
    with mpmath.workdps(60):
        x, y = (mpmath.mpf(float(v.hi)) + mpmath.mpf(float(v.lo)) for v in (a, b))
        for found, true in ((square.sqrt(), abs(x)), (a.hypot(b), mpmath.hypot(x, y))):
            assert abs(mpmath.mpf(float(found.hi)) + mpmath.mpf(float(found.lo)) - true) <= 2.0**-100 * true


@pytest.mark.parametrize("n", range(1, 18))
def test_sums_of_every_length_have_twice_the_digits(n):
    parts = drawn(n, (2, n))
    found, found_length = parts.sum(), parts.length()
    assert found.hi.shape == (2,)
    for k in range(2):
        each = [exact(parts[k, i]) for i in range(n)]
        size = sum(abs(part) for part in each)
        assert abs(exact(found[k]) - sum(each)) <= 8 * TINY * size
        assert abs(exact(found_length[k]) ** 2 - sum(part**2 for part in each)) <= 64 * TINY * size**2


@pytest.mark.parametrize("n", range(1, 18))
def test_few_numbers_are_summed_as_in_arrays(n):
    def bits(value):
        return value.hi.tobytes(), value.lo.tobytes()

    for parts in (drawn(n, (n,)), DoubleDouble(np, drawn(n, (n,)).hi), -DoubleDouble(np, np.zeros(n))):
        many = parts[None, :][np.zeros(100, dtype=int)]  # so many numbers that they are added in arrays
        assert bits(parts.sum()) == bits(many.sum()[7])


def test_a_sum_of_few_numbers_that_overflows_is_heard():
    with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow"):
        DoubleDouble(np, np.array([1.5e308, 1.5e308])).sum()


@pytest.mark.parametrize("seed", range(10))
def test_sums_and_products_are_without_error(seed):
    a, b = (10.0 ** np.random.default_rng(seed + k).uniform(-9, 9) for k in range(2))
    for made, true in ((two_sum, Fraction(a) + Fraction(b)), (two_prod, Fraction(a) * Fraction(b))):
        hi, lo = made(np, np.array(a), np.array(b))
        assert Fraction(float(hi)) + Fraction(float(lo)) == true


@pytest.mark.parametrize("size", [1e-300, 1e-100, 1.0, 1.5 * 2.0**64, 1e100, 1e300])
def test_lengths_and_angles_of_any_size(size):
    v, w = np.array([3.0, 4.0]) * size, np.array([4.0, 3.0]) * size
    assert length(np, v) == pytest.approx(5 * size, rel=4e-16)
    assert cosine(np, v, w) == pytest.approx(0.96, rel=4e-16)
    unit = float(power_of_two(np, np.array(size)))
    assert np.frexp(unit)[0] == 0.5
    assert 2.0**-64 <= unit * size <= 2.0**64
