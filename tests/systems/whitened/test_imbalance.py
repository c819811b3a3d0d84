import numpy as np
import pytest

from linsolve.systems.whitened.imbalance import imbalance


@pytest.mark.parametrize("diagonal", [(-2e-17, 1e-17), (-2e-17, -1e-17), (1e-17, -3e-18), (0.0, 0.0)])
def test_a_block_that_rounding_made_negative_counts_as_zero(diagonal):
    gram_in, gram_out = (np.diag([v, v / 2]) for v in diagonal)
    found = imbalance(np, np.zeros((2, 2)), gram_in, gram_out)
    kept = imbalance(np, np.zeros((2, 2)), gram_in * (diagonal[0] > 0), gram_out * (diagonal[1] > 0))
    assert found.distance == kept.distance >= 0


def test_random_rounding_has_no_negative_distance():
    rng = np.random.default_rng(0)
    blocks = 1e-17 * rng.normal(size=(3, 500, 3, 3))
    gram_in, gram_out = (b + b.mT for b in blocks[:2])
    assert np.all(imbalance(np, blocks[2], gram_in, gram_out).distance >= 0)
