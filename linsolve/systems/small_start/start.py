"""What the laws of a two-layer network from a small start share: the start, and the kernel of its weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.law import Expansion
from linsolve.core.parameters import parameter

__all__ = ["SmallStart", "kernel", "outer", "split"]


class SmallStart(Expansion):
    """A law of the network ``f = a.W x`` whose layers start at `small` times `last` and `first`.

    Parameters
    ----------
    last : array_like, shape (width,)
    first : array_like, shape (width, n_in)
    target : array_like, shape (n_in,)
    """

    last: Any = parameter("a", "second layer at the start, over sigma", axes=("width",))
    first: Any = parameter("W", "first layer at the start, over sigma", axes=("width", "n_in"))
    target: Any = parameter(r"s\beta", "map to be learned", axes=("n_in",))

    def layers_at_start(self, small: Any) -> list[np.ndarray]:
        """Return the layers that are to be integrated, first and last, the latter of shape (1, width)."""
        return [float(small) * self.first, float(small) * self.last[None, :]]


def outer(a: Any, b: Any) -> Any:
    """Return ``a b^T``, leading axes being batch axes."""
    return a[..., :, None] * b[..., None, :]


def split(xp: Any, first: Any, target: Any) -> tuple[Any, Any, Any, Any]:
    """Return ``s``, ``beta``, ``w = W beta`` and what is left of the first layer, ``W - w beta^T``."""
    s = xp.sqrt(xp.sum(target**2))
    beta = target / s
    w = xp.sum(first * beta, axis=-1)
    return s, beta, w, first - outer(w, beta)


def kernel(xp: Any, a: Any, w: Any, rest: Any, beta: Any) -> Any:
    """Return ``M = W^T W + |a|^2 I`` for ``W = rest + w beta^T``, shape (T, n_in, n_in); a, w have shape (T, width)."""
    first = rest + outer(w, beta)
    return xp.matrix_transpose(first) @ first + xp.sum(a * a, axis=-1)[..., None, None] * xp.eye(beta.shape[-1])
