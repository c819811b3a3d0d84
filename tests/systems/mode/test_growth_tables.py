import mpmath
import numpy as np
import pytest
from selection import quick

from linsolve.systems.mode.growth_tables import cut, tables_of
from linsolve.systems.mode.growth_time import horner, unfolded

DEPTHS = [1.02, 1.5, 2.0, 2.3, 3.0, 5.0, 9.0, 100.0, 1e8, np.inf]


def decayed(w, m):
    """Return ``w exp(int_0^w ((1 + u)^m - 1)/u du)``, by quadrature."""
    with mpmath.workdps(30):
        return w * mpmath.exp(mpmath.quad(lambda u: mpmath.expm1(m * mpmath.log1p(u)) / u, [0, mpmath.mpf(w)]))


def table(depth):
    return tables_of(np, np.asarray(depth), np.asarray(depth < 2.25))


@pytest.mark.parametrize("depth", quick(DEPTHS, lambda depth: depth in DEPTHS[::3]))
@pytest.mark.quick(1)
def test_the_tail_is_a_polynomial_of_what_decays_exponentially(depth):
    m = 1 - 2 / mpmath.mpf(depth)
    for end, coefficients in ((2 / 3, table(depth).below), (-2 / 5, table(depth).above)):
        for w in end * np.linspace(0, 1, 30)[1:]:
            E = decayed(w, m)
            u = unfolded(np, -cut(np, np.asarray(float(m))) * float(E))
            assert float(E) * horner(u, coefficients) == pytest.approx(w, rel=1.5e-15)


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_cut_is_where_the_tail_is_singular_or_before(depth):
    # there w = -1, and int_0^{-1} ((1 + u)^m - 1)/u du = -digamma(1 + m) - Euler's constant
    m = 1 - 2 / mpmath.mpf(depth)
    exact = float(mpmath.exp(mpmath.digamma(1 + m) + mpmath.euler))
    assert exact * 0.985 < cut(np, np.asarray(float(m))) < exact * 1.05 + 0.1


def test_tables_of_many_depths_are_those_of_each():
    depth = np.array(DEPTHS[3:])
    for name, several in table(depth)._asdict().items():
        for k, d in enumerate(depth):
            alone = np.array(list(getattr(table(d), name)), dtype=float)
            np.testing.assert_array_equal([c[k] for c in np.broadcast_arrays(*several)], alone)


def test_tables_of_large_arrays_are_those_of_few():
    few = np.array([3.0, 7.0])
    repeated, all_different = np.resize(few, 100), np.concatenate([few, np.linspace(8, 9, 98)])
    for a, b, c in zip(table(few), table(repeated), table(all_different), strict=True):
        for x, y, z in zip(a, b, c, strict=True):
            np.testing.assert_array_equal(np.resize(x, 100), y)
            np.testing.assert_array_equal(x, z[:2])
