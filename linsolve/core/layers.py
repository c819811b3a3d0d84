"""A linear network layer by layer: the maps that its layers make, and the gradient flow of its weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["gradient_flow", "joined", "maps", "parted"]


def maps(layers: Sequence[Any]) -> list[Any]:
    """Return the maps from the input to after each layer, ``W_1, W_2 W_1, ...``; leading axes are batch axes."""
    found = [layers[0]]
    for layer in layers[1:]:
        found.append(layer @ found[-1])
    return found


def gradient_flow(xp: Any, layers: Sequence[Any], made: Sequence[Any], pull: Any, rates: Sequence[Any]) -> list[Any]:
    """Return ``dW_l/dt = rates_l (W_L ... W_{l+1})^T G (W_{l-1} ... W_1)^T``.

    Parameters
    ----------
    xp : namespace
    layers : sequence of array, shape batch + (n_l, n_{l-1})
        First layer first.
    made : sequence of array
        What ``maps`` gives of them.
    pull : array, shape batch + (n_L, n_0)
        ``G``, minus the gradient of the loss with respect to the network's map.
    rates : sequence of array
        Learning rate of each layer, which broadcasts to it.

    Examples
    --------
    >>> import numpy as np
    >>> layers = [np.array([[2.0]]), np.array([[3.0]])]
    >>> made = maps(layers)
    >>> [float(move[0, 0]) for move in gradient_flow(np, layers, made, 7.0 - made[-1], [1.0, 10.0])]
    [3.0, 20.0]
    """
    moves = []
    for k in range(len(layers) - 1, -1, -1):
        moves.append(rates[k] * (pull @ xp.matrix_transpose(made[k - 1]) if k else pull))
        pull = xp.matrix_transpose(layers[k]) @ pull
    return moves[::-1]


def joined(arrays: Sequence[Any]) -> np.ndarray:
    """Return all entries in one vector."""
    return np.concatenate([np.ravel(v) for v in arrays])


def parted(y: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Return the arrays of these shapes that lie one after the other on the last axis of `y`."""
    cuts = np.cumsum([int(np.prod(s, dtype=int)) for s in shapes])[:-1]
    return [part.reshape(y.shape[:-1] + tuple(s)) for part, s in zip(np.split(y, cuts, axis=-1), shapes, strict=True)]
