"""Deep networks for tests: orthonormal frames, modes, unequal rates, widths and variances."""

import numpy as np

from linsolve.systems.deep import DeepNetwork

DEPTHS = (1, 2, 3, 5)


def orthonormal(rng, rows, columns):
    return np.linalg.qr(rng.normal(size=(rows, columns)))[0]


def modes_of(rng, n_out=4, n_in=5):
    return orthonormal(rng, n_out, 3), np.array([2.0, 1.2, 0.7]), orthonormal(rng, n_in, 3)


def generic(depth, seed=1):
    """A network with unequal rates, widths and input variances, and a covariance that commutes with its modes."""
    rng = np.random.default_rng(seed)
    u, s, v = modes_of(rng)
    start = np.array([-0.3, 0.2, 1.1]) if depth == 1 else np.array([0.1, -0.2, 1.1])
    network = DeepNetwork.init(
        (u, s, v),
        start,
        depth=depth,
        widths=[3 + k for k in range(depth - 1)],
        rates=rng.uniform(0.4, 2.5, depth),
        variances=rng.uniform(0.5, 2.0, 3),
        rng=3,
    )
    rest = np.linalg.svd(v)[0][:, 3:]
    spread = rng.normal(size=(2, 2))
    covariance = v * network.variances @ v.T + rest @ spread @ spread.T @ rest.T
    return network, covariance


def chain(weights):
    product = weights[0]
    for w in weights[1:]:
        product = w @ product
    return product
