"""Tangent kernel of branches on their samples."""

from __future__ import annotations

import numpy as np

from linsolve.core.arguments import refuse_beyond_memory
from linsolve.core.network_observables import kronecker
from linsolve.solvability.branched.branches import Branches

__all__ = ["tangent_kernel"]


def tangent_kernel(who: str, net: Branches, layers: list[np.ndarray]) -> np.ndarray:
    """Return the tangent kernel of all layers, shape t.shape + (P n_out, P n_out).

    Samples of two contexts share the first layer of a branch that acts in both, and its head if it has a single one.
    """
    lead, size = layers[0].shape[:-2], net.outputs.size
    refuse_beyond_memory(who, {"samples * outputs": size, "columns": size, "times": int(np.prod(lead))}, "ntk")
    count = net.outputs.shape[1]
    found = np.zeros((*lead, size, size))
    for k, branch in enumerate(net.branches):
        first, last = layers[2 * k], layers[2 * k + 1]
        rows = np.flatnonzero(np.isin(net.labels, branch.contexts))
        x, label = net.inputs[rows, branch.columns], net.labels[rows]
        heads = (
            last[..., np.searchsorted(branch.contexts, label), :, :] if branch.wire.headed else last[..., None, :, :]
        )
        heads = np.broadcast_to(heads, (*lead, len(rows), *heads.shape[-2:]))
        flat = heads.reshape(*lead, len(rows) * count, -1)
        inner = np.repeat(np.repeat(x @ x.T, count, axis=0), count, axis=1)
        same = label[:, None] == label if branch.wire.headed else 1.0
        hidden = x @ np.swapaxes(first, -1, -2)
        own = net.rates[0] * inner * (flat @ np.swapaxes(flat, -1, -2))
        own = own + kronecker(same * (hidden @ np.swapaxes(hidden, -1, -2)), net.rates[1] * np.eye(count))
        place = (rows[:, None] * count + np.arange(count)).ravel()
        found[..., place[:, None], place] += own
    return found
