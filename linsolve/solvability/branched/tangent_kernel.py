"""Tangent kernel of gated branches on their samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from linsolve.core.arguments import refuse_beyond_memory
from linsolve.core.network_observables import kronecker
from linsolve.solvability.branched.branches import Branches

__all__ = ["tangent_kernel"]


def tangent_kernel(who: str, net: Branches, layers: Sequence[np.ndarray]) -> np.ndarray:
    r"""Return the tangent kernel of all layers at their times, shape t.shape + (P n_out, P n_out).

    Samples p and q in contexts k and l, in which branch b acts, share its first layer; they share its head if it is the
    same in both contexts:

    .. math:: K_{pi, qj} = \sum_b \eta_1 (x_p \cdot x_q)\, (W_2^{bk} W_2^{bl\top})_{ij}
        + \eta_2 (W_1^b x_p \cdot W_1^b x_q)\, \delta_{ij} .
    """
    outputs, labels = net.outputs.shape[1], net.labels
    batch = layers[0].shape[:-2]
    size = len(labels) * outputs
    refuse_beyond_memory(who, {"samples * outputs": size, "columns": size, "times": int(np.prod(batch))}, "ntk")
    found = np.zeros((*batch, size, size))
    for k, branch in enumerate(net.branches):
        first, heads = layers[2 * k], layers[2 * k + 1]
        here = np.flatnonzero(np.isin(labels, branch.contexts))
        places = np.searchsorted(branch.contexts, labels[here])
        x = net.inputs[here, branch.columns]
        hidden = x @ np.swapaxes(first, -1, -2)
        shared = hidden @ np.swapaxes(hidden, -1, -2)
        if branch.wire.headed:
            back = heads[..., places, :, :].reshape(*batch, len(here) * outputs, -1)
            shared = shared * (places[:, None] == places)
        else:
            back = np.tile(heads, (len(here), 1))
        made = kronecker(x @ x.T, np.ones((outputs, outputs))) * (back @ np.swapaxes(back, -1, -2))
        rows = (here[:, None] * outputs + np.arange(outputs)).ravel()
        found[..., rows[:, None], rows] += net.rates[0] * made + net.rates[1] * kronecker(shared, np.eye(outputs))
    return found
