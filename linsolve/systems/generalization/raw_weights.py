"""Simulation of linear models with random teachers and label noise: errors of the weights under gradient flow."""

from __future__ import annotations

import numpy as np

__all__ = ["errors", "flowed"]


def flowed(inputs: np.ndarray, labels: np.ndarray, start: np.ndarray, t: np.ndarray, decay: float = 0.0) -> np.ndarray:
    r"""Return the weights of :math:`\dot w = -X^T (X w - y)/n - \mu w` at times `t`, shape (..., times, d).

    Exact up to rounding, in the eigenvectors of :math:`X^T X/n`.

    Parameters
    ----------
    inputs : array, shape (n, d)
    labels : array, shape (..., n)
    start : array, shape (..., d)
    t : array, shape (times,)
    decay : float
        Weight decay, :math:`\mu`.

    Examples
    --------
    >>> import numpy as np
    >>> flowed(np.eye(2), np.array([1.0, 2.0]), np.zeros(2), np.array([0.0, 2.0])).round(4).tolist()
    [[0.0, 0.0], [0.6321, 1.2642]]
    """
    values, vectors = np.linalg.eigh(inputs.T @ inputs / len(inputs))
    x = t[:, None] * (np.maximum(values, 0) + decay)
    gain = t[:, None] * np.where(x > 0, -np.expm1(-x) / np.where(x > 0, x, 1), 1)
    forces = labels @ inputs / len(inputs) @ vectors
    return (np.exp(-x) * (start @ vectors)[..., None, :] + gain * forces[..., None, :]) @ vectors.T


def errors(
    rng: np.random.Generator, count: int, inputs: np.ndarray, t: np.ndarray, signal: float, start: float, noise: float,
    *, decay: float = 0.0, covariance: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Return test errors without label noise, and train errors, of `count` teachers, starts and label noises.

    Teachers and starts are isotropic Gaussian vectors of mean square `signal` and `start`. `covariance` is that of new
    inputs, the identity by default.
    """
    n, d = inputs.shape
    teachers, starts = (np.sqrt(size / d) * rng.normal(size=(count, d)) for size in (signal, start))
    labels = teachers @ inputs.T + np.sqrt(noise) * rng.normal(size=(count, n))
    weights = flowed(inputs, labels, starts, t, decay)
    off = weights - teachers[:, None]
    test = np.sum(off**2 if covariance is None else off * (off @ covariance), axis=-1)
    return test, np.mean((weights @ inputs.T - labels[:, None]) ** 2, axis=-1)
