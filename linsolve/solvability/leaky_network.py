"""Leaky ReLU network of any depth: signals, gradients and tangent kernel, from its own weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.network_observables import kronecker
from linsolve.solvability.activation import Activation

__all__ = ["gradients", "signals", "tangent_kernel"]


def signals(xp: Any, unit: Activation, layers: Any, X: Any) -> tuple[list[Any], list[Any]]:
    """Return the signals of each layer, of the last one the outputs, and the inputs of each layer; rows are samples."""
    found, inputs = [X @ xp.matrix_transpose(layers[0])], [X]
    for layer in layers[1:]:
        inputs.append(unit.value(xp, found[-1]))
        found.append(inputs[-1] @ xp.matrix_transpose(layer))
    return found, inputs


def gradients(xp: Any, unit: Activation, layers: Any, X: Any, Y: Any) -> list[Any]:
    """Return minus the gradients of half the squared error, summed over samples."""
    made, inputs = signals(xp, unit, layers, X)
    pull, found = Y - made[-1], []
    for i in reversed(range(len(layers))):
        found.append(xp.matrix_transpose(pull) @ inputs[i])
        if i:
            pull = (pull @ layers[i]) * unit.slope(xp, made[i - 1])
    return found[::-1]


def tangent_kernel(
    unit: Activation, first: np.ndarray, last: np.ndarray, X: np.ndarray, rates: np.ndarray
) -> np.ndarray:
    r"""Return the tangent kernel of two layers on samples, shape (P n_out, P n_out).

    Its even part, with sums such as :math:`\sum_i |w_i \cdot x| |w_i \cdot x'|`, has no counterpart in the linear
    network. It does not act on the residual, which is odd.
    """
    signal, outputs = X @ first.T, len(last)
    hidden, slope = unit.value(np, signal), unit.slope(np, signal)
    back = (slope[:, None] * last).reshape(len(X) * outputs, -1)
    inputs = kronecker(X @ X.T, np.ones((outputs, outputs)))
    return np.asarray(rates[0] * inputs * (back @ back.T) + rates[1] * kronecker(hidden @ hidden.T, np.eye(outputs)))
