"""Test samples of a network: their check, and the test loss of its outputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.arguments import known_array
from linsolve.core.network_arguments import Network

__all__ = ["read_test", "squared_errors", "test_loss"]

Samples = tuple[np.ndarray, np.ndarray]
_LARGEST = 1e100  # entry whose square is a double


def read_test(who: str, test: Any, network: Network) -> Samples:
    """Return checked test samples as two matrices.

    Raises
    ------
    ValueError, TypeError
        If `test` is not a pair of finite arrays that fit the network.
    """
    if not isinstance(test, tuple | list) or len(test) != 2:
        count = f" of {len(test)}" if isinstance(test, tuple | list) else ""
        raise ValueError(
            f"{who}: test must be the pair (X, Y), not {type(test).__name__}{count} (test samples); pass (X_test, "
            "Y_test) as one argument"
        )
    X, Y = (
        known_array(who, f"test[{k}]", each, meaning=f"test {word}")
        for k, (word, each) in enumerate(zip(("inputs", "targets"), test, strict=True))
    )
    shapes = X.shape, Y.shape
    Y = Y[:, None] if Y.ndim == 1 else Y
    cases = (("test[0]", "inputs", X, 0), ("test[1]", "targets", Y, -1))
    for shape, (name, meaning, values, width) in zip(shapes, cases, strict=True):
        if values.ndim != 2 or values.shape[1] != network.widths[width]:
            raise ValueError(
                f"{who}: {name} has shape {shape} but must be (samples, {network.widths[width]}) (test "
                f"{meaning}, one sample a row); reshape it"
            )
        if (largest := float(np.abs(values).max())) > _LARGEST:
            raise ValueError(
                f"{who}: {name} reaches {largest:.3g} but must not exceed 1e100 (test {meaning}); rescale it"
            )
    if len(X) != len(Y):
        raise ValueError(
            f"{who}: test[1] has {len(Y)} rows but test[0] has {len(X)} (test samples); give one target for every "
            "sample"
        )
    return X, Y


def squared_errors(values: Any, test: Samples) -> np.ndarray:
    """Return the squared error of each sample, shape t.shape + (samples,), of a trajectory's `values`."""
    X, Y = test
    maps, offset = values["map"], values["offset"] if "offset" in values else np.zeros(Y.shape[1])
    flat = maps.reshape(-1, *maps.shape[-2:])
    shifts = np.broadcast_to(offset, maps.shape[:-1]).reshape(-1, maps.shape[-2])
    found = [np.sum((X @ w.T + b - Y) ** 2, axis=1) for w, b in zip(flat, shifts, strict=True)]
    return np.reshape(found, (*maps.shape[:-2], len(X)))


def test_loss(values: Any, test: Samples) -> np.ndarray:
    """Return half the mean squared error on test samples, shape t.shape."""
    return np.asarray(np.mean(squared_errors(values, test), axis=-1) / 2)
