"""The square root ``(W1^T; W2)`` of an initial state, with the modes that its Gram matrices lose."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linsolve.arithmetic import precision

__all__ = ["LayerRoot"]


class LayerRoot(NamedTuple):
    """An initial state, and the square root ``(W1^T; W2)`` of it.

    Squares of weights below 1e-8 of the largest ones are rounding errors of the Gram matrices; the weights hold modes
    down to 1e-16.

    Parameters
    ----------
    state : tuple of ndarray
        Product and Gram matrices.
    root : ndarray, shape batch + (n_in + n_out, r)
        ``P0 = root root^T``, with as many columns as the rank of the weights; unused columns come first, and are zero.
    """

    state: tuple[Any, ...]
    root: np.ndarray

    @classmethod
    def of(cls, state: Any, w1: Any, w2: Any) -> LayerRoot | None:
        """Return the root of weights, None for arrays other than NumPy arrays of doubles."""
        if not all(type(w) is np.ndarray and w.dtype == np.float64 for w in (w1, w2, *state)):
            return None
        turned = np.matrix_transpose
        batch = np.broadcast_shapes(w1.shape[:-2], w2.shape[:-2])
        blocks = [np.broadcast_to(w, (*batch, *w.shape[-2:])) for w in (turned(w1), w2)]
        whole = np.concatenate(blocks, axis=-2)
        _, size, turn = np.linalg.svd(whole, full_matrices=False)
        used = size > 16 * whole.shape[-2] * precision(np) * size[..., :1]
        first = slice(max(1, int(used.sum(axis=-1).max())))
        # each block times the hidden directions, since one block may be far smaller than the other
        root = whole @ (turned(turn) * used[..., None, :])[..., first]
        return cls(tuple(a.copy() for a in state), np.ascontiguousarray(root[..., ::-1]))

    def fits(self, start: tuple[Any, ...]) -> bool:
        """Return whether `start` is the state, bit by bit, in NumPy arrays."""
        return all(
            type(a) is np.ndarray and a.dtype == b.dtype and np.array_equal(a, b)
            for a, b in zip(start, self.state, strict=True)
        )
