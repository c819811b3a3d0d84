"""Frozen kernels at every scale: of numbers, up to the ends of the doubles, and of matrices, in blocks."""

import numpy as np
import pytest

from linsolve import FrozenKernel
from linsolve.systems.kernel_regime.kernel_matrix import is_symmetric

TIMES = [0.0, 1e-9, 0.1, 3.0, 100.0, np.inf]


def kernel_of(n, seed=0):
    rows = np.random.default_rng(seed).normal(size=(n, n + 3))
    return rows @ rows.T / n


@pytest.mark.parametrize("power", [-900, -500, 500, 900])
@pytest.mark.parametrize("still", ["y", "f0", "none"])
def test_outputs_scale_with_targets_and_start_to_the_last_bit(power, still):
    """Which of start and target outputs are counted from does not depend on squares that leave the doubles."""
    rng, kernel = np.random.default_rng(1), kernel_of(7)
    y, f0 = (rng.normal(size=7) * (0 if still == name else 1) for name in ("y", "f0"))
    usual = FrozenKernel(kernel, y)(TIMES, f0)["f"]
    scaled = FrozenKernel(kernel, np.ldexp(y, power))(TIMES, np.ldexp(f0, power))["f"]
    away = usual != 0
    np.testing.assert_array_equal(scaled[away], np.ldexp(usual, power)[away])
    assert np.all(np.isfinite(scaled))


def test_small_targets_keep_their_digits_late_and_small_starts_early():
    """Counted from the wrong one, outputs would be good to 1e-16 of the larger only."""
    kernel, ones = np.diag([1.0, 2.0]), np.ones(2)
    late = FrozenKernel(kernel, 1e-30 * ones)([20.0, 200.0], ones)["f"]
    right = 1e-30 + np.exp(-np.outer([20.0, 200.0], [1.0, 2.0])) * (1 - 1e-30)
    np.testing.assert_allclose(late, right, rtol=1e-14)
    early = FrozenKernel(kernel, ones)([0.0, 1e-20], 1e-30 * ones)["f"]
    right = 1e-30 - np.expm1(-np.outer([0.0, 1e-20], [1.0, 2.0]))
    np.testing.assert_allclose(early, right, rtol=1e-14)


def test_nothing_to_learn_and_backward_in_time():
    kernel, y = kernel_of(4), np.array([1.0, -2.0, 0.5, 0.0])
    np.testing.assert_allclose(FrozenKernel(kernel, y)(TIMES, y)["f"], np.tile(y, (6, 1)), rtol=0, atol=1e-15)
    f0, flow = np.zeros(4), FrozenKernel(kernel, y)
    back = flow([-2.0], f0)["f"]
    again = flow(2.0, back[0])["f"]
    np.testing.assert_allclose(again, f0, atol=1e-13 * np.abs(back).max())


@pytest.mark.parametrize("at", [(0, 1), (0, 299), (255, 256), (599, 3), (400, 599), (300, 20)])
def test_one_bit_of_asymmetry_is_seen_in_every_block(at):
    kernel = kernel_of(600)
    kernel = (kernel + kernel.T) / 2
    assert is_symmetric(np, kernel)
    kernel[at] = np.nextafter(kernel[at], np.inf)
    assert not is_symmetric(np, kernel)
    assert not is_symmetric(np, np.stack([kernel + kernel.T, kernel]))


def test_values_that_are_not_numbers_are_not_symmetric():
    assert not is_symmetric(np, np.array([[np.nan]]))
    assert is_symmetric(np, np.array([[0.0, -0.0], [0.0, np.inf]]))


def test_the_spectrum_is_that_of_the_kernel_to_the_last_bit():
    kernel = kernel_of(90)
    kernel = (kernel + kernel.T) / 2
    for given in (kernel, np.stack([kernel, 2 * kernel])):
        found = FrozenKernel(given, np.ones(90)).spectrum(np)
        values, vectors = np.linalg.eigh(given)
        np.testing.assert_array_equal(found.values, values)
        np.testing.assert_array_equal(found.vectors, vectors)
