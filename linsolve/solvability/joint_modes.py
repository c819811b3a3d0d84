"""Modes that the data and the network share: directions in which all of their matrices are diagonal at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from linsolve.solvability.reduction import Reduced, norm

__all__ = ["Joint", "commutator", "joint", "unaligned"]


class Joint(NamedTuple):
    """Pairs of input and output directions; what is in neither is learned by no mode.

    Parameters
    ----------
    inputs, outputs : ndarray, shapes (r, r), (c, c)
        Orthonormal columns; the first `number` of each are pairs.
    number : int
        Number of modes.
    power, target, strength : ndarray, shape (number,)
        Second moment of the inputs, value to be learned, value at the start.
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
    """Return the modes of the data, or those that the data shares with the start.

    Where all matrices are diagonal in one pair of bases, so is any product of them in this order, and generic
    coefficients make its singular values distinct wherever one of the matrices tells two modes apart.
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
    power = np.einsum("rk,rs,sk->k", v, red.covariance, v)
    target = np.einsum("ck,cr,rk->k", w, red.cross, v) / power
    flip = np.where(target < 0, -1.0, 1.0)  # of the two signs of a mode, the one that makes its target positive
    w, target = w * flip, target * flip
    outputs = np.concatenate([w, outputs[:, number:]], axis=1)
    sign = np.where(np.einsum("ck,cr,rk->k", w, red.product, v) < 0, -1.0, 1.0)
    # balanced layers share one weight a mode; its power is more accurate than the entry of the product
    size = np.linalg.norm(red.layers[0] @ v, axis=0) ** red.depth
    return Joint(inputs, outputs, number, power, target, sign * size)


def commutator(red: Reduced) -> float:
    """Return the relative size of the commutator of ``Sigma_xx`` and ``Sigma_yx^T Sigma_yx``."""
    back = red.cross.T @ red.cross
    size = norm(red.covariance) * norm(back)
    return norm(red.covariance @ back - back @ red.covariance) / size if size > 0 else 0.0


def _off(matrix: np.ndarray, modes: Joint, left: np.ndarray, right: np.ndarray, *, gram: bool) -> float:
    """Return the relative size of what couples modes; within the rest, a Gram matrix couples nothing that moves."""
    seen = left.T @ matrix @ right
    size = norm(seen)
    k = modes.number
    rest = seen.copy()
    rest[:k, :k] -= np.diag(np.diag(seen[:k, :k]))
    if gram:
        rest[k:, k:] = 0
    return norm(rest) / size if size > 0 else 0.0


def unaligned(red: Reduced, modes: Joint) -> float:
    """Return how far data, product and outer layers are from diagonal in the modes, the largest of relative parts.

    Two layers decouple into their modes exactly where it vanishes: the hidden planes span(U_1 v_k, U_2^T u_k) are then
    mutually orthogonal, whatever happens inside each. Deeper networks need balance besides.
    """
    gram_in, gram_out = red.grams
    v, u = modes.inputs, modes.outputs
    grams = [(red.covariance, v, v), (gram_in, v, v), (gram_out, u, u)]
    maps = [(red.cross, u, v), (red.product, u, v)]
    found = [_off(m, modes, a, b, gram=True) for m, a, b in grams] + [
        _off(m, modes, a, b, gram=False) for m, a, b in maps
    ]
    return max(found)
