"""Random networks whose products follow the matrix Riccati equation, for the tests of its kernels."""

import numpy as np

from linsolve import WhitenedTwoLayer


def random(shape, lam=0.0, *, scale=0.1, batch=(), seed=0):
    rng = np.random.default_rng(seed)
    weights = WhitenedTwoLayer.init(*shape, scale=scale, imbalance=lam, batch=batch, rng=rng)
    return rng.normal(size=(*batch, shape[2], shape[0])), WhitenedTwoLayer.of(*weights)
