"""Factorizations of one matrix by LAPACK itself: the same as those of `numpy.linalg`, with the same refusals."""

import subprocess
import sys

import numpy as np
import pytest

from linsolve.numerics import one_matrix
from linsolve.numerics.one_matrix import cholesky, inverted_triangle, is_one, qr

SHAPES = [(), (1,), (1, 1)]


def test_lapack_is_imported_before_its_threads_are_limited():
    code = """
import sys
import numpy as np
from threadpoolctl import threadpool_info
from linsolve.systems.whitened.matrix_riccati import _one_thread
assert "scipy.linalg" not in sys.modules
with _one_thread(np, 200):
    assert "scipy.linalg" in sys.modules
    print({each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"})
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert told.stdout == "{1}\n"


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def test_what_counts_as_one_large_matrix():
    n = one_matrix.LEAST
    assert all(is_one(np.ones((*lead, n, n + 1))) for lead in SHAPES)
    others = [(n - 1, n), (2, n, n), (0, n, n), (1, 2, n, n)]
    assert not any(is_one(np.ones(shape)) for shape in others)
    assert not is_one(np.ones((n, n), dtype=np.float32))
    assert not is_one(np.ones((n, n), dtype=object))


@pytest.mark.parametrize("lead", SHAPES)
@pytest.mark.parametrize("n", [1, 60, 150])
def test_factors_are_those_of_numpy(lead, n):
    a = drawn(*lead, n, n)
    square = a @ a.mT + np.eye(n)
    kept = square.copy()
    factor = cholesky(square)
    np.testing.assert_array_equal(square, kept)
    assert factor.shape == square.shape
    np.testing.assert_allclose(factor, np.linalg.cholesky(square), rtol=0, atol=1e-12)
    assert not np.triu(factor, 1).any()
    inverse = inverted_triangle(factor)
    assert np.abs(inverse @ factor - np.eye(n)).max() < 1e-12
    assert not np.triu(inverse, 1).any()
    np.testing.assert_array_equal(inverted_triangle(np.asfortranarray(factor)), inverse)
    np.testing.assert_array_equal(cholesky(square, overwrite=True), factor)


def test_only_the_lower_triangle_is_read():
    a = drawn(60, 60)
    square = a @ a.T + np.eye(60)
    np.testing.assert_array_equal(cholesky(np.tril(square)), cholesky(square))


@pytest.mark.parametrize("entry", [-1.0, 0.0])
def test_a_matrix_that_is_not_positive_definite_is_refused(entry):
    square = np.eye(60)
    square[7, 7] = entry
    with pytest.raises(np.linalg.LinAlgError):
        cholesky(square)


def test_the_inverse_of_a_singular_triangle_is_nan():
    factor = np.eye(60)
    factor[3, 3] = 0
    assert np.isnan(inverted_triangle(factor)).all()


@pytest.mark.parametrize("lead", SHAPES)
@pytest.mark.parametrize(("m", "n"), [(60, 60), (60, 100), (1, 1), (150, 151)])
def test_a_product_of_a_rotation_and_a_triangle(lead, m, n):
    a = drawn(*lead, m, n, seed=1)
    kept = a.copy()
    turn, upper = qr(a)
    np.testing.assert_array_equal(a, kept)
    assert turn.shape == (*lead, m, m)
    assert upper.shape == a.shape
    assert np.abs(turn @ upper - a).max() < 1e-12
    assert np.abs(turn.mT @ turn - np.eye(m)).max() < 1e-13
    assert not np.tril(upper, -1).any()
