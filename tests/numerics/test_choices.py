"""Choices by one flag or by many: the values and shapes of ``numpy.where``, whichever side Python takes."""

import itertools

import numpy as np
import pytest

from linsolve.numerics.scalar import largest, total, uniform, where

SIDES = (1.5, np.float64(-0.0), 2, np.array([1.0, -0.0, np.nan]), np.array([[3.0], [4.0]]), np.array(5.0))


@pytest.mark.parametrize("flag", [np.True_, np.False_, np.array([True, False, True]), np.array([[True], [True]])])
def test_a_choice_has_the_bits_and_the_shape_of_numpy(flag):
    for yes, no in itertools.product(SIDES, SIDES):
        found, wanted = where(np, flag, yes, no), np.where(flag, yes, no)
        assert np.shape(found) == wanted.shape
        assert np.asarray(found, dtype=float).tobytes() == wanted.astype(float).tobytes()


def test_flags_that_are_equal_become_one():
    for flags in (np.ones(3, dtype=bool), np.zeros((2, 1), dtype=bool)):
        assert uniform(np, flags) is np.bool_(flags.flat[0])
    mixed, one = np.array([True, False]), np.False_
    assert uniform(np, mixed) is mixed
    assert uniform(np, one) is one


def test_sums_and_maxima_have_the_bits_of_numpy():
    for shape in ((1,), (5,), (3, 100), (2, 3, 7)):
        v = np.random.default_rng(0).normal(size=shape)
        assert total(np, v).tobytes() == np.sum(v, axis=-1).tobytes()
        assert largest(np, v).tobytes() == np.max(v, axis=-1).tobytes()
