"""Nodes and weights of quadrature in doubles and in many digits."""

import numpy as np
import pytest

from linsolve import arithmetic
from linsolve.numerics.quadrature import legendre


@pytest.mark.parametrize("count", [2, 5, 20])
def test_quadrature_has_all_digits_of_its_arithmetic(count):
    """Nodes integrate polynomials of degree ``2 count - 1`` exactly."""
    for xp, error in ((np, 1e-13), (arithmetic.precise(60), 1e-57)):
        nodes, weights = legendre(xp, count)
        for degree in (1, 2 * count - 2, 2 * count - 1):
            found = float(arithmetic.to_numpy(xp.abs(xp.sum(weights * nodes**degree) * (degree + 1) - 1)))
            assert found <= error
