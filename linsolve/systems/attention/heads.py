"""Heads of merged keys and queries: checks and random draws of values and key-query matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.arguments import integer, number, real_array, refuse_beyond_memory
from linsolve.core.parameters import batch_shape
from linsolve.core.randomness import seeded

__all__ = ["checked", "init"]


def checked(who: str, value: Any, key_query: Any) -> tuple[Any, Any]:
    """Return value weights and key-query matrices as real arrays; raise ValueError if their shapes do not fit."""
    v = real_array(who, "value", value, meaning="value weights")
    u = real_array(who, "key_query", key_query, meaning="key-query matrices")
    for name, weights, own in (("value", v, ("heads",)), ("key_query", u, ("heads", "d", "d"))):
        if weights.ndim < len(own):
            raise ValueError(f"{who}: {name} has shape {tuple(weights.shape)} but needs trailing axes {own}; add them")
    if u.shape[-1] != u.shape[-2] or u.shape[-3] != v.shape[-1]:
        raise ValueError(
            f"{who}: key_query has shape {tuple(u.shape)} but must have trailing axes (heads, d, d) with "
            f"heads = {v.shape[-1]} of value (a square matrix for each head); reshape it"
        )
    batch_shape(who, {"value": v.shape[:-1], "key_query": u.shape[:-3]})
    d = u.shape[-1]
    refuse_beyond_memory(who, {"d": d, "columns": d, "rows": d, "entries": d}, "Gram tensor of key_query")
    return v, u


def init(
    dim: int, heads: int = 1, *, scale: float, rng: np.random.Generator | int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return balanced random heads: ``value = scale n`` and ``key_query = scale n Q`` with ``|n| = |Q| = 1``.

    Parameters
    ----------
    dim, heads : int
        Dimension of the tokens, number of heads.
    scale : float
        Length of the value weights, not negative.
    rng : Generator or int, optional

    Returns
    -------
    value : array, shape (heads,)
    key_query : array, shape (heads, dim, dim)
    """
    who = "LinearAttention.init"
    sizes = {
        "heads": integer(who, "heads", heads, meaning="attention heads", example=8),
        "dim": integer(who, "dim", dim, meaning="dimension of the tokens", example=4),
    }
    refuse_beyond_memory(who, sizes | {"columns": sizes["dim"]}, "key-query matrices")
    scale = number(who, "scale", scale, meaning="size of the weights", domain="[0, 1e150]", example=0.01)
    drawn = seeded(who, rng)
    n, q = drawn.normal(size=sizes["heads"]), drawn.normal(size=(sizes["dim"], sizes["dim"]))
    value = scale * n / np.linalg.norm(n)
    return value, value[:, None, None] * (q / np.linalg.norm(q))
