"""The raw network behind a flow: weights, learning rates, output and target, from which `verify` derives all else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic

__all__ = ["Definition"]

Weights = Mapping[str, Any]


def _nothing(w: Weights, kernel: Callable[..., Any]) -> dict[str, Any]:
    return {}


class Definition(NamedTuple):
    """A network with loss ``share |output - target|^2``, trained by gradient descent with one learning rate per array.

    Parameters
    ----------
    weights : mapping of str to tuple of int
        Own shape of each array of weights; batch axes lead.
    rates : mapping of str to array, shape batch
        Learning rate of each array (per unit of the flow's time); 0 freezes the array.
    output : callable
        Output on the training inputs as a function of the weights, shape batch + any.
    target : array
        Target of the output, of the same shape.
    state : callable
        The flow's state as a function of the weights.
    observables : callable
        ``(weights, kernel) -> dict``: each observable of the flow by its definition. ``kernel(weights)`` is the tangent
        kernel, from finite differences of the output; ``kernel(weights, rates=False)`` omits the learning rates.
    share : array, shape batch, or float
    """

    weights: Mapping[str, tuple[int, ...]]
    rates: Mapping[str, Any]
    output: Callable[[Weights], Any]
    target: Any
    state: Callable[[Weights], Any]
    observables: Callable[[Weights, Callable[..., Any]], dict[str, Any]] = _nothing
    share: Any = 0.5

    def draw(self, xp: Any, rng: np.random.Generator, batch: tuple[int, ...]) -> dict[str, Any]:
        """Return random weights of both signs and of sizes between 0.3 and 1.1."""

        def of(shape: tuple[int, ...]) -> np.ndarray:
            return rng.choice([-1.0, 1.0], shape) * rng.uniform(0.3, 1.1, shape)

        return {name: arithmetic.cast(xp, np.asarray(of(batch + own))) for name, own in self.weights.items()}

    def residual(self, xp: Any, w: Weights, batch: tuple[int, ...]) -> Any:
        """Return ``output - target``, shape batch + (k,)."""
        error = self.output(w) - self.target
        return xp.reshape(error, (*batch, int(np.prod(error.shape[len(batch) :]))))

    def loss(self, xp: Any, w: Weights, batch: tuple[int, ...]) -> Any:
        """Return ``share |output - target|^2``, shape batch."""
        return self.share * xp.sum(self.residual(xp, w, batch) ** 2, axis=-1)

    def jacobian(self, xp: Any, w: Weights, batch: tuple[int, ...], step: Any) -> dict[str, Any]:
        """Return the finite-difference Jacobian of the output by each array of weights, shape batch + (k, size)."""
        found = {}
        for name, own in self.weights.items():
            columns = []
            for index in np.ndindex(own):
                bump = np.zeros(own, dtype=int)
                bump[index] = 1
                up, down = ({**w, name: w[name] + sign * step * xp.asarray(bump)} for sign in (1, -1))
                columns.append((self.residual(xp, up, batch) - self.residual(xp, down, batch)) / (2 * step))
            found[name] = xp.stack(columns, axis=-1)
        return found

    def kernel(self, xp: Any, jacobian: Weights, *, rates: bool = True) -> Any:
        """Return the tangent kernel, shape batch + (k, k); each array is weighted with its learning rate if `rates`."""
        total = 0
        for name, columns in jacobian.items():
            gram = columns @ xp.matrix_transpose(columns)
            total = total + (self.rates[name][..., None, None] * gram if rates else gram)
        return total

    def descended(self, xp: Any, w: Weights, batch: tuple[int, ...], jacobian: Weights, h: Any) -> dict[str, Any]:
        """Return the weights after one step of gradient descent of length `h` in units of time."""
        share = self.share[..., None] if hasattr(self.share, "shape") else self.share
        pull, new = 2 * share * self.residual(xp, w, batch), {}
        for name, columns in jacobian.items():
            slope = xp.sum(pull[..., :, None] * columns, axis=-2)
            move = h * self.rates[name][..., None] * slope
            new[name] = w[name] - xp.reshape(move, batch + tuple(self.weights[name]))
        return new
