r"""A network reduced to what learns: equal learning rates, the span of the data, directions that move.

With :math:`U_l = \sqrt{\bar\eta/\eta_l} W_l`, :math:`\bar\eta = (\prod \eta_l)^{1/L}`, the product is the same, and
every layer learns at the rate :math:`\bar\eta`. Parts of the first layer outside the span of the data are frozen and
leave no trace in the loss; so do input directions that neither start nor target has, and such output directions.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property, reduce

import numpy as np

from linsolve.solvability.network import EPS, Network

__all__ = ["TOLERANCE", "Reduced", "norm", "reduced", "whiteness"]

TOLERANCE = 1e-9


def norm(a: np.ndarray) -> float:
    """Return the Frobenius norm."""
    return float(np.linalg.norm(a))


@dataclasses.dataclass(frozen=True, eq=False)
class Reduced:
    """A network with equal learning rates, in orthonormal coordinates of the directions that learn.

    Parameters
    ----------
    layers : tuple of ndarray
        ``U_l``.
    covariance : ndarray, shape (r, r)
        Second moment of the inputs, not singular.
    cross : ndarray, shape (c, r)
        ``Sigma_yx``.
    inputs, outputs : ndarray, shapes (n_in, r), (n_out, c)
        Where the coordinates lie.
    clock : float
        Learning rate of every layer.
    """

    layers: tuple[np.ndarray, ...]
    covariance: np.ndarray
    cross: np.ndarray
    inputs: np.ndarray
    outputs: np.ndarray
    clock: float

    @property
    def depth(self) -> int:
        """Number of layers."""
        return len(self.layers)

    @cached_property
    def product(self) -> np.ndarray:
        """The network's map, shape (c, r)."""
        return reduce(lambda done, layer: layer @ done, self.layers)

    @cached_property
    def target(self) -> np.ndarray:
        """The map of the data, ``Sigma_yx Sigma_xx^-1``, shape (c, r)."""
        return np.linalg.solve(self.covariance, self.cross.T).T

    @cached_property
    def root(self) -> np.ndarray:
        """Square root of the second moment."""
        power, axes = np.linalg.eigh(self.covariance)
        return (axes * np.sqrt(power)) @ axes.T

    def rms(self, product: np.ndarray) -> np.ndarray:
        """Return the root mean square over samples of the outputs of maps, shape t.shape + (c, r)."""
        return np.linalg.norm(product @ self.root, axis=(-2, -1))

    @cached_property
    def grams(self) -> tuple[np.ndarray, np.ndarray]:
        """``U_1^T U_1`` and ``U_L U_L^T``."""
        return self.layers[0].T @ self.layers[0], self.layers[-1] @ self.layers[-1].T


def whiteness(covariance: np.ndarray) -> tuple[float, float]:
    """Return the relative Frobenius distance of a second moment from the identity's multiples, and the nearest one."""
    kappa = float(np.trace(covariance)) / len(covariance)
    return norm(covariance - kappa * np.eye(len(covariance))) / norm(covariance), kappa


def _row_space(*blocks: np.ndarray) -> np.ndarray:
    """Return orthonormal columns that span the rows of all blocks, each taken in its own unit; at least one."""
    scaled = [block / size for block in blocks if (size := norm(block)) > 0]
    if not scaled:
        return np.eye(blocks[0].shape[1])[:, :1]
    _, s, vt = np.linalg.svd(np.concatenate(scaled), full_matrices=False)
    return vt[s > 64 * max(vt.shape) * EPS * s[0]].T


def _active(first: np.ndarray, cross: np.ndarray) -> np.ndarray:
    """Return which eigenvectors of the second moment (columns) the start or the target has; at least one."""
    grain = 64 * max(first.shape) * EPS
    used = [np.linalg.norm(block, axis=0) > grain * norm(block) for block in (first, cross)]
    active = used[0] | used[1]
    if not active.any():
        active[0] = True
    return active


def reduced(network: Network) -> Reduced:
    """Return the network reduced to what learns."""
    clock = float(np.exp(np.mean(np.log(network.rates))))
    layers = [np.sqrt(clock / rate) * w for w, rate in zip(network.weights, network.rates, strict=True)]
    kept = _active(layers[0] @ network.span, network.cross @ network.span)
    inputs, covariance = network.span[:, kept], np.diag(network.power[kept])
    if whiteness(covariance)[0] <= TOLERANCE:  # then every rotation keeps it white
        turn = _row_space(layers[0] @ inputs, network.cross @ inputs)
        inputs, covariance = inputs @ turn, turn.T @ covariance @ turn
    cross = network.cross @ inputs
    if len(layers) == 1:  # its rows are independent; all are kept
        return Reduced((layers[0] @ inputs,), covariance, cross, inputs, np.eye(len(cross)), clock)
    outputs = _row_space(layers[-1].T, cross.T)
    first, last = layers[0] @ inputs, outputs.T @ layers[-1]
    if len(layers) == 2 and len(first) > first.shape[1] + len(last):
        # hidden units may be rotated: those beyond the span of both layers are idle
        corner = np.linalg.qr(np.concatenate([first, last.T], axis=1))[1]
        first, last = corner[:, : first.shape[1]], corner[:, first.shape[1] :].T
    return Reduced((first, *layers[1:-1], last), covariance, outputs.T @ cross, inputs, outputs, clock)
