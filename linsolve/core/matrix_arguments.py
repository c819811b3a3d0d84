"""Checks of matrices: symmetric positive semi-definite ones, layers that chain, one learning rate for each layer."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import Interval, real_array, refuse_shape, rounded_up, shown

__all__ = ["chained", "layer_rates", "semidefinite"]


def semidefinite(
    who: str, name: str, matrix: Any, *, meaning: str, margin: float = 1e-12
) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues, increasing, and eigenvectors of symmetric positive semi-definite matrices.

    Parameters
    ----------
    who, name, meaning : str
        Function that was called, its argument, and the argument's meaning, for the error.
    matrix : array_like, shape batch + (n, n)
    margin : float
        Deviations up to this fraction of the largest entry count as rounding errors.

    Raises
    ------
    ValueError
        If a matrix is not symmetric or has a negative eigenvalue.

    Examples
    --------
    >>> semidefinite("kernels", "gram", [[2.0, 1.0], [1.0, 2.0]], meaning="inner products")[0].round(12).tolist()
    [1.0, 3.0]
    >>> semidefinite("kernels", "gram", [[1.0, 2.0], [2.0, 1.0]], meaning="inner products")
    Traceback (most recent call last):
    ValueError: kernels: gram has the eigenvalue -1, which must not be negative (inner products); add 1 to its diagonal
    """
    a = arithmetic.to_numpy(matrix).astype(float)
    if a.shape[-1] != a.shape[-2]:
        raise ValueError(f"{who}: {name} has shape {a.shape} but must be square ({meaning}); pass all its rows")
    size = np.abs(a).max(axis=(-2, -1), keepdims=True)
    unit = 2.0 ** np.floor(np.log2(np.where(size > 0, size, 1.0)))
    a, turned, size = a / unit, np.swapaxes(a / unit, -1, -2), size / unit
    gap = np.abs(a - turned).max(axis=(-2, -1), keepdims=True)
    if not (gap <= margin * size).all():
        share = (gap / np.where(size > 0, size, 1.0)).max()
        raise ValueError(
            f"{who}: {name} - {name}^T = {share:.3g} must vanish, relative to the largest entry ({meaning}); pass "
            f"({name} + {name}.T) / 2"
        )
    values, vectors = np.linalg.eigh((a + turned) / 2)
    with np.errstate(over="ignore"):
        scaled = values * unit[..., 0]
    bad = ~(values[..., 0] >= -margin * size[..., 0, 0])
    if bad.any():
        least = float(scaled[..., 0][bad].min())
        raise ValueError(
            f"{who}: {name} has the eigenvalue {least:.3g}, which must not be negative ({meaning}); add "
            f"{rounded_up(-least)} to its diagonal"
        )
    return scaled, vectors


def chained(who: str, layers: Any, *, least: int = 1) -> list[Any]:
    """Return the weights of layers as real matrices, the first layer first; each has a column for each unit before it.

    Raises
    ------
    TypeError, ValueError
        If `layers` is not a list of at least `least` matrices, or two neighboring matrices do not fit.

    Examples
    --------
    >>> chained("input_kernel", [[[1.0], [2.0]], [[1.0, 2.0, 3.0]]])
    Traceback (most recent call last):
    ValueError: input_kernel: layers have shapes [(2, 1), (1, 3)], which must chain (weights, first layer first); pass \
matrices of shapes (units, inputs of the layer)
    """
    meaning = "weights, first layer first"
    try:
        count = len(layers)
    except TypeError:
        rule = f"must be a list of matrices ({meaning}); such as [W1, W2]"
        raise TypeError(f"{who}: layers = {shown(layers)} {rule}") from None
    if count < least:
        raise ValueError(f"{who}: layers has {count} matrices but needs at least {least} ({meaning}); add layers")
    given = [real_array(who, f"layers[{k}]", w, meaning="weights of a layer") for k, w in enumerate(layers)]
    shapes = [tuple(w.shape) for w in given]
    if any(len(shape) != 2 for shape in shapes) or any(a[0] != b[1] for a, b in pairwise(shapes)):
        rule = f"must chain ({meaning}); pass matrices of shapes (units, inputs of the layer)"
        raise ValueError(f"{who}: layers have shapes {shapes}, which {rule}")
    return given


def layer_rates(who: str, rates: Any, depth: int, domain: str = "(0, inf)") -> Any:
    """Return one learning rate for each layer, from one for all layers or one for each; 1 by default.

    Raises
    ------
    TypeError, ValueError
        If a rate is outside `domain`, or their number is not `depth`.
    """
    meaning = "learning rates of the layers"
    found = real_array(who, "rates", 1.0 if rates is None else rates, meaning=meaning, domain=Interval(domain))
    if found.ndim == 0:
        return found * np.ones(depth)
    refuse_shape(who, "rates", found, (depth,), meaning=meaning, fix="give one for each layer")
    return found
