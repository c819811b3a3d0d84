"""Loss and tangent kernel of a network on its samples, from its map, its layers or its Gram matrices."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from linsolve.core.arguments import refuse_beyond_memory
from linsolve.core.network import affine_maps
from linsolve.core.network_arguments import Network

__all__ = ["NetworkObservables", "kronecker"]


class NetworkObservables:
    """Base of classes that have a `network`, `times`, and `samples` ``(X, Y)``, None if only moments are known."""

    who: ClassVar[str]
    network: Network
    times: np.ndarray
    samples: tuple[np.ndarray, np.ndarray] | None

    @property
    def frozen(self) -> np.ndarray:
        """The part of the first layer outside the span of the data."""
        w1, span = self.network.weights[0], self.network.span
        return np.asarray(w1 - (w1 @ span) @ span.T)

    @property
    def inputs(self) -> np.ndarray:
        """Inputs of the samples in the coordinates of their span."""
        X, _ = self.samples  # type: ignore[misc]
        return np.asarray(X @ self.network.span)

    @cached_property
    def _triangle(self) -> np.ndarray:
        """The triangle R of ``(inputs, Y) / sqrt(2 P) = Q R``, or this matrix itself if it has few rows."""
        both = np.concatenate([self.inputs, self.samples[1]], axis=1)  # type: ignore[index]
        both = both / np.sqrt(2 * len(both))
        return np.asarray(np.linalg.qr(both, mode="r")) if len(both) > both.shape[1] else both

    def loss(self, span_map: np.ndarray) -> np.ndarray:
        """Return the loss of maps on the span of the data, from second moments above its minimum."""
        if self.samples is None:
            net = self.network
            gap = ((net.cross @ net.span) / net.power - span_map) * np.sqrt(net.power)
            return np.asarray(np.sum(gap**2, axis=(-2, -1)) / 2)
        size = span_map.shape[-1]
        inputs, targets = self._triangle[:, :size], self._triangle[:, size:]
        return np.asarray(np.sum((targets - inputs @ np.swapaxes(span_map, -1, -2)) ** 2, axis=(-2, -1)))

    def refuse_large_kernel(self) -> np.ndarray:
        """Return the inputs of the samples if their kernel fits into the memory."""
        X, Y = self.samples  # type: ignore[misc]
        sizes = {"samples * outputs": Y.size, "columns": Y.size, "times": self.times.size}
        refuse_beyond_memory(self.who, sizes, "ntk on the samples")
        return X

    def ntk(self, weights: list[np.ndarray]) -> np.ndarray:
        """Return the tangent kernel of weights on the samples."""
        X, depth = self.refuse_large_kernel(), len(self.network.weights)
        layers, biases = weights[:depth], self.biases(weights)
        signals = [X.T, *(each[..., :-1] @ X.T + each[..., -1:] for each in affine_maps(np, layers, biases)[:-1])]
        after, total = np.eye(len(self.network.cross)), np.zeros(())
        for layer, bias, rate, signal in list(zip(layers, biases, self.network.rates, signals, strict=True))[::-1]:
            inner = np.swapaxes(signal, -1, -2) @ signal + (0.0 if bias is None else 1.0)
            total = total + kronecker(inner, rate * after @ np.swapaxes(after, -1, -2))
            after = after @ layer
        return np.broadcast_to(total, self.times.shape + total.shape[-2:])

    def biases(self, weights: list[np.ndarray]) -> list[Any]:
        """Return the bias of each layer among the weights, None where there is none."""
        return [None] * len(self.network.weights)

    def ntk_of_grams(
        self, inputs: np.ndarray, outputs: np.ndarray, gram_in: np.ndarray, gram_out: np.ndarray, clock: float
    ) -> np.ndarray:
        """Return the tangent kernel of two layers from their Gram matrices at equal rates `clock`, in given bases."""
        X = self.refuse_large_kernel()
        moved = X @ inputs
        first = kronecker(X @ X.T, clock * (outputs @ gram_out @ outputs.T))
        return first + kronecker(moved @ gram_in @ moved.T, clock * np.eye(len(self.network.cross)))


def kronecker(samples: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """Return Kronecker products, shape t.shape + (P n_out, P n_out)."""
    size = samples.shape[-1] * outputs.shape[-1]
    found = np.einsum("...pq,...ij->...piqj", samples, outputs)
    return found.reshape(*found.shape[:-4], size, size)
