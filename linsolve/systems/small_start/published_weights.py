"""Weights of two layers, trained and linearized, on which the formulas of Atanasov et al. (2022) are checked."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from linsolve.systems.small_start.published_start import A0, BETA, ETA, W0, D, N, S, ode, pull

__all__ = ["linearized", "overlaps", "trained"]


@cache
def trained(sigma: float, t: float) -> tuple[Any, Any]:
    """Return the weights at time t on white inputs, integrated one by one."""

    def rate(z: Any) -> Any:
        da, dW = pull(z[:N], z[N:].reshape(N, D))
        return np.concatenate([da, dW.ravel()])

    z = ode(rate, sigma * np.concatenate([A0, W0.ravel()]), t).y[:, -1]
    return z[:N], z[N:].reshape(N, D)


def linearized(t: float, covariance: Any = None, eta: float = ETA) -> tuple[Any, Any]:
    """Return the weights under (6), or (20) and (21), by a matrix exponential."""
    from scipy.linalg import expm

    step = S * (np.eye(D) if covariance is None else covariance) @ BETA
    system = np.zeros((N + N * D,) * 2)
    system[:N, N:] = np.kron(np.eye(N), step[None])
    system[N:, :N] = np.kron(np.eye(N), step[:, None])
    z = expm(eta * t * system) @ np.concatenate([A0, W0.ravel()])
    return z[:N], z[N:].reshape(N, D)


def overlaps(a: Any, W: Any) -> tuple[float, float]:
    """Return q and r."""
    w = W @ BETA
    return (a @ a + w @ w) / 2, a @ w
