r"""A network restricted to the directions that learn, and the joint modes of its layers and the data.

With :math:`U_l = \sqrt{\bar\eta/\eta_l} W_l`, :math:`\bar\eta = (\prod \eta_l)^{1/L}`, the product is unchanged, and
every layer has the learning rate :math:`\bar\eta`. Parts of the first layer outside the span of the data are constant
and do not enter the loss. The same holds for input and output directions absent from both start and target.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.network_arguments import EPS, TOLERANCE, Network

__all__ = [
    "Joint",
    "Reduced",
    "commutator",
    "diagonal",
    "fastest_rate",
    "joint",
    "norm",
    "reduced",
    "row_space",
    "spectral",
    "unaligned",
    "weights_along",
    "whiteness",
]


GROWTH = 0.1  # of a layer's norm, below which an input direction is not learned


def norm(a: np.ndarray) -> float:
    """Return the Frobenius norm, also where the squares of the entries leave the range of doubles."""
    unit = _scale(a)
    return float(np.linalg.norm(a / unit)) * unit


def column_norms(a: np.ndarray) -> np.ndarray:
    """Return the norms of the columns, also where the squares of the entries leave the range of doubles."""
    unit = _scale(a)
    return np.linalg.norm(a / unit, axis=0) * unit


def _scale(a: np.ndarray) -> float:
    size = float(np.abs(a).max(initial=0.0))
    return size if size > 1e150 or 0 < size < 1e-150 else 1.0


def diagonal(left: np.ndarray, matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the diagonal of ``left^T matrix right``."""
    return np.sum(left * (matrix @ right), axis=0)


def spectral(a: np.ndarray) -> float:
    """Return the largest singular value, from the smaller Gram matrix where `a` is large."""
    if min(a.shape) < 100:
        return float(np.linalg.norm(a, 2))
    gram = a @ a.T if len(a) <= a.shape[1] else a.T @ a
    return float(np.sqrt(max(np.linalg.eigvalsh(gram)[-1], 0.0)))


def _grown(squares: np.ndarray, goal: float) -> np.ndarray:
    """Return squared norms, all larger by one number, whose product is at least ``goal^(2L)``."""

    def enough(more: float) -> bool:
        return bool(np.sum(np.log(squares + more)) >= 2 * len(squares) * np.log(goal))

    if enough(0.0):
        return squares
    low, high = 0.0, goal**2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return squares + high


def _curvature(squares: np.ndarray) -> Any:
    """Return the sum over the layers of the product of the squared norms of all others."""
    return sum(np.prod(np.delete(squares, k)) for k in range(len(squares)))


@np.errstate(over="ignore", invalid="ignore")
def fastest_rate(
    layers: Sequence[np.ndarray], target: np.ndarray, covariance: np.ndarray, rate: float
) -> Callable[[float], float]:
    """Return an estimate of the rate of a network's fastest mode up to a time, as a function of this time.

    It is the largest curvature of aligned layers: ``|Sigma_xx|`` times the learning rate times the sum over l of the
    product of all ``s_j^2`` but that of l. The norms ``s_l`` are those of the start, or for the learned part of the
    target: all squares grow by the same number, as in gradient flow. Along an input direction of power p the first one
    grows at most at the speed ``eta s^(L-1) sqrt(p) |r|``, with the largest norms s of a layer and r of the residual. A
    direction in which it grows by less than a tenth of s is not learned: its target, of order ``1 / sqrt(p)``, does not
    count.
    """
    depth, start = len(layers), max(spectral(w) for w in layers)
    power, axes = np.linalg.eigh(covariance)
    power, axes = np.maximum(power[::-1], 0.0), axes[:, ::-1]
    goals = np.minimum(np.sqrt(np.cumsum(np.sum((target @ axes) ** 2, axis=0))), spectral(target)) ** (1 / depth)
    residual = norm((target @ axes) * np.sqrt(power)) + np.sqrt(power[0]) * np.float64(start) ** depth
    speeds = rate * np.sqrt(power) * residual
    squares = np.array([spectral(w) for w in layers], dtype=float) ** 2

    @np.errstate(over="ignore", divide="ignore", invalid="ignore")
    def fastest(until: float) -> float:
        learned = 0.0  # goals ascend
        for speed, goal in zip(speeds, goals, strict=True):
            if until * speed * np.maximum(np.float64(start), learned) ** max(depth - 2, 0) < GROWTH:
                break
            learned = goal
        return float(rate * power[0] * _curvature(_grown(squares, learned)))

    return fastest


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
        Orthonormal bases of the coordinates.
    clock : float
        Learning rate of every layer.
    tolerance : float
        Relative distance up to which a condition holds.
    """

    layers: tuple[np.ndarray, ...]
    covariance: np.ndarray
    cross: np.ndarray
    inputs: np.ndarray
    outputs: np.ndarray
    clock: float
    tolerance: float = TOLERANCE

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
        outputs = product @ self.root
        unit = _scale(outputs)
        return np.linalg.norm(outputs / unit, axis=(-2, -1)) * unit

    @cached_property
    def grams(self) -> tuple[np.ndarray, np.ndarray]:
        """``U_1^T U_1`` and ``U_L U_L^T``."""
        return self.layers[0].T @ self.layers[0], self.layers[-1] @ self.layers[-1].T


def whiteness(covariance: np.ndarray) -> tuple[float, float]:
    """Return the relative Frobenius distance of a second moment from multiples of the identity, and the nearest."""
    kappa = float(np.trace(covariance)) / len(covariance)
    return norm(covariance - kappa * np.eye(len(covariance))) / norm(covariance), kappa


def row_space(*blocks: np.ndarray, cut: float = 0.0) -> np.ndarray:
    """Return an orthonormal basis of the rows of all blocks, each normalized, above `cut`; at least one column."""
    scaled = [block / size for block in blocks if (size := norm(block)) > 0]
    if not scaled:
        return np.eye(blocks[0].shape[1])[:, :1]
    _, s, vt = np.linalg.svd(np.concatenate(scaled), full_matrices=False)
    return vt[s > max(64 * max(vt.shape) * EPS, cut) * s[0]].T


def _active(first: np.ndarray, cross: np.ndarray, cut: float) -> np.ndarray:
    """Return the eigenvectors of the second moment (columns) that overlap with start or target; at least one."""
    grain = max(64 * max(first.shape) * EPS, cut)
    used = [column_norms(block) > grain * norm(block) for block in (first, cross)]
    active = used[0] | used[1]
    if not active.any():
        active[0] = True
    return active


def _rank(layer: np.ndarray) -> int:
    """Return the rank of a layer up to rounding; one entry in each row and column has no rounding errors."""
    entries = layer != 0
    if entries.sum(axis=0).max() <= 1 and entries.sum(axis=1).max() <= 1:
        return int(entries.sum())
    return int(np.linalg.matrix_rank(layer, rtol=4 * max(layer.shape) * EPS))


def weights_along(layer: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Return the weights of a layer along directions of its modes; modes beyond its rank have rounding errors, here 0.

    The directions of such weights are not orthogonal to those of the other modes, and a mode without weights stays.
    """
    found = layer @ directions
    found[:, np.argsort(-column_norms(found))[_rank(layer) :]] = 0.0
    return found


def reduced(network: Network, *, idle: bool = False) -> Reduced:
    """Return the network in the coordinates that learn; with `idle` all hidden units of two layers are kept."""
    clock = float(np.exp(np.mean(np.log(network.rates))))
    layers = [np.sqrt(clock / rate) * w for w, rate in zip(network.weights, network.rates, strict=True)]
    cut = network.tolerance
    kept = _active(layers[0] @ network.span, network.cross @ network.span, cut)
    inputs, covariance = network.span[:, kept], np.diag(network.power[kept])
    if whiteness(covariance)[0] <= cut:  # a white second moment is invariant under rotations
        turn = row_space(layers[0] @ inputs, network.cross @ inputs, cut=cut)
        inputs, covariance = inputs @ turn, turn.T @ covariance @ turn
    cross = network.cross @ inputs
    if len(layers) == 1:  # the rows of a single layer are independent, and all are kept
        return Reduced((layers[0] @ inputs,), covariance, cross, inputs, np.eye(len(cross)), clock, cut)
    outputs = row_space(layers[-1].T, cross.T, cut=cut)
    first, last = layers[0] @ inputs, outputs.T @ layers[-1]
    if not idle and len(layers) == 2 and len(first) > first.shape[1] + len(last):
        # hidden units may be rotated: those beyond the span of both layers are idle
        corner = np.linalg.qr(np.concatenate([first, last.T], axis=1))[1]
        first, last = corner[:, : first.shape[1]], corner[:, first.shape[1] :].T
    return Reduced((first, *layers[1:-1], last), covariance, outputs.T @ cross, inputs, outputs, clock, cut)


class Joint(NamedTuple):
    """Pairs of input and output directions in which all matrices are diagonal; nothing is learned outside them.

    Parameters
    ----------
    inputs, outputs : ndarray, shapes (r, r), (c, c)
        Orthonormal columns; the first `number` of each are pairs.
    number : int
        Number of modes.
    power, target, strength : ndarray, shape (number,)
        Second moment of the inputs, target value, initial value.
    """

    inputs: np.ndarray
    outputs: np.ndarray
    number: int
    power: np.ndarray
    target: np.ndarray
    strength: np.ndarray

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Input and output directions of the modes, shapes (r, number), (c, number)."""
        return self.inputs[:, : self.number], self.outputs[:, : self.number]


def _unit(a: np.ndarray) -> np.ndarray:
    size = norm(a)
    return a / size if size > 0 else a


def joint(red: Reduced, *, start: bool = True) -> Joint:
    """Return the modes of the data, or the joint modes of data and start.

    If all matrices are diagonal in one pair of bases, so is any product of them in this order. With generic
    coefficients its singular values differ for any two modes that differ in one of the matrices.
    """
    r, c = red.covariance.shape[0], red.cross.shape[0]
    gram_in, gram_out = red.grams
    mixed, left, right = _unit(red.cross), np.eye(c), np.eye(r) + 0.4142 * _unit(red.covariance)
    if start:
        mixed = mixed + 0.6180 * _unit(red.product)
        left, right = left + 0.7321 * _unit(gram_out), right @ (np.eye(r) + 0.2361 * _unit(gram_in))
    u, s, vt = np.linalg.svd(left @ mixed @ right, full_matrices=True)
    number = max(1, int(np.count_nonzero(s > 1e-13 * s[0]))) if s[0] > 0 else 1
    inputs, outputs = vt.T, u
    v, w = inputs[:, :number], outputs[:, :number]
    power = diagonal(v, red.covariance, v)
    target = diagonal(w, red.cross, v) / power
    flip = np.where(target < 0, -1.0, 1.0)  # choose the sign of a mode so that its target is positive
    w, target = w * flip, target * flip
    outputs = np.concatenate([w, outputs[:, number:]], axis=1)
    sign = np.where(diagonal(w, red.product, v) < 0, -1.0, 1.0)
    # balanced layers have one weight per mode; its power is more accurate than the entry of the product
    size = column_norms(weights_along(red.layers[0], v)) ** red.depth
    return Joint(inputs, outputs, number, power, target, sign * size)


def commutator(red: Reduced) -> float:
    """Return the relative size of the commutator of ``Sigma_xx`` and ``Sigma_yx^T Sigma_yx``."""
    covariance, cross = (m / (norm(m) or 1.0) for m in (red.covariance, red.cross))
    back = cross.T @ cross
    size = norm(back)
    return norm(covariance @ back - back @ covariance) / size if size > 0 else 0.0


def _off(matrix: np.ndarray, modes: Joint, left: np.ndarray, right: np.ndarray, *, gram: bool) -> float:
    """Return the relative size of the entries that couple modes; a Gram matrix is arbitrary outside the modes."""
    seen = left.T @ matrix @ right
    size = norm(seen)
    k = modes.number
    rest = seen.copy()
    rest[:k, :k] -= np.diag(np.diag(seen[:k, :k]))
    if gram:
        rest[k:, k:] = 0
    return norm(rest) / size if size > 0 else 0.0


def unaligned(red: Reduced, modes: Joint) -> float:
    """Return the largest relative off-diagonal part of data, product and outer layers in the modes.

    Two layers decouple into their modes if and only if it vanishes: the hidden planes span(U_1 v_k, U_2^T u_k) are then
    mutually orthogonal. Deeper networks must also be balanced.
    """
    gram_in, gram_out = red.grams
    v, u = modes.inputs, modes.outputs
    grams = [(red.covariance, v, v), (gram_in, v, v), (gram_out, u, u)]
    maps = [(red.cross, u, v), (red.product, u, v)]
    parts = [*((*each, True) for each in grams), *((*each, False) for each in maps)]
    return max(_off(m, modes, a, b, gram=gram) for m, a, b, gram in parts)
