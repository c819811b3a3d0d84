"""Errors of a law of a network with biases, from those of the network without."""

import numpy as np
import pytest

from linsolve.core.biased_law import _of_part
from linsolve.core.network_law import Estimate


@pytest.mark.parametrize("error", [0.1, lambda: 0.1])
def test_the_error_of_a_part_is_relative_to_the_part(error):
    whole = Estimate(lambda: np.array([2.0, -8.0]), 1, error)
    assert _of_part(whole, lambda: np.array([0.5, 2.0]))() == pytest.approx(0.4)
    assert _of_part(whole, lambda: np.zeros(2))() == pytest.approx(0.1)
