"""Representation of a network as a flow: the flow, its start, and the network's map from its state."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from linsolve.core.flow import Flow
from linsolve.core.network_arguments import Network
from linsolve.core.reduced_network import Joint, Reduced, row_space, weights_along
from linsolve.core.trajectory import Trajectory
from linsolve.systems.mode.deep_mode import DeepMode
from linsolve.systems.two_layer.two_layer import TwoLayer
from linsolve.systems.whitened.whitened_two_layer import WhitenedTwoLayer

__all__ = ["DeepMatch", "LineMatch", "LinearMatch", "Match", "PlaneMatch", "WhiteMatch"]


@dataclasses.dataclass(frozen=True, eq=False)
class Match:
    """A network represented as a flow with the same time.

    Parameters
    ----------
    name : str
        Name of the flow.
    flow : Flow
    z0 : State
        Start.
    inputs, outputs : ndarray, shapes (n_in, r), (n_out, c)
        Orthonormal axes of the flow's coordinates.
    """

    name: str
    flow: Flow
    z0: Any
    inputs: np.ndarray
    outputs: np.ndarray

    def product(self, state: Any) -> np.ndarray:
        """Return the map in the flow's coordinates, shape t.shape + (c, r)."""
        raise NotImplementedError

    def map(self, state: Any) -> np.ndarray:
        """Return the network's map ``W_L ... W_1`` on the span of the data, shape t.shape + (n_out, n_in).

        Parameters
        ----------
        state : State or Trajectory
            Of `flow`.

        Notes
        -----
        The loss does not depend on the map outside the span of the data; most flows' states do not contain it.
        """
        if isinstance(state, Trajectory):
            state = state.state
        return self.outputs @ self.product(state) @ self.inputs.T

    def layers(self, state: Any, network: Network) -> list[np.ndarray] | None:
        """Return ``W_1 ... W_L``, shapes t.shape + (n_l, n_{l-1}), or None if the state does not determine them.

        Directions that the flow leaves out keep their weights of time 0.
        """
        return None

    def sizes(self, state: Any) -> np.ndarray:
        """Return the spectral norm of every layer (rates made equal), shape t.shape + (L,)."""
        raise NotImplementedError

    def pushed(self, state: Any, change: np.ndarray) -> np.ndarray:
        """Return the norm of the change of the velocity if the gradient of the loss changes by `change`."""
        raise NotImplementedError


def _pushed(change: np.ndarray, gram_in: np.ndarray, gram_out: np.ndarray) -> np.ndarray:
    """Return ``sqrt(|U_2^T D|^2 + |D U_1^T|^2)`` of two layers from their Gram matrices."""
    square = np.sum(change * (gram_out @ change), axis=(-2, -1)) + np.sum(change * (change @ gram_in), axis=(-2, -1))
    return np.sqrt(np.maximum(square, 0))


def _scales(network: Network) -> np.ndarray:
    """Return the factors of the layers that make their learning rates equal."""
    return np.asarray(np.sqrt(np.exp(np.mean(np.log(network.rates))) / network.rates))


def _largest(gram: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[..., -1], 0))


@dataclasses.dataclass(frozen=True, eq=False)
class WhiteMatch(Match):
    """`WhitenedTwoLayer`, in all input coordinates or in those that change.

    `axes` (r, k) are the input directions of the flow. Outside them the product vanishes, and the Gram matrix of the
    inputs is `rest` times the identity.
    """

    axes: np.ndarray | None = None
    rest: float = 0.0

    @classmethod
    def of(cls, red: Reduced, state: Any, target: np.ndarray, kappa: float) -> WhiteMatch:
        """Return the match of a start, inputs of second moment `kappa` and the map `target`."""
        flow = WhitenedTwoLayer(target=target, tau=1 / (red.clock * kappa))
        if state.gram_in is red.grams[0]:  # the network's own start, not one in the class near it
            flow, state = flow.starting(*red.layers)
        return cls("WhitenedTwoLayer", flow, state, red.inputs, red.outputs)

    @classmethod
    def small(cls, red: Reduced, state: Any, target: np.ndarray, kappa: float, rest: float) -> WhiteMatch:
        """Return the match in the input directions that change, if the Gram matrix is `rest` in all others."""
        axes = row_space(state.product, target, state.gram_in - rest * np.eye(len(state.gram_in)), cut=1e-13)
        if 2 * axes.shape[1] > len(axes):
            return cls.of(red, state, target, kappa)
        inner = type(state)(state.product @ axes, axes.T @ state.gram_in @ axes, state.gram_out)
        match = cls.of(red, inner, target @ axes, kappa)
        return dataclasses.replace(match, axes=axes, rest=rest)

    def product(self, state: Any) -> np.ndarray:
        """Return the product."""
        return state.product if self.axes is None else state.product @ self.axes.T

    def sizes(self, state: Any) -> np.ndarray:
        """Return the roots of the Gram matrices' largest eigenvalues."""
        first = _largest(state.gram_in)
        if self.axes is not None:
            first = np.maximum(first, np.sqrt(max(self.rest, 0.0)))
        return np.stack([first, _largest(state.gram_out)], axis=-1)

    def pushed(self, state: Any, change: np.ndarray) -> np.ndarray:
        """Return the norm of the change of the velocity."""
        if self.axes is None:
            return _pushed(change, state.gram_in, state.gram_out)
        inside = change @ self.axes
        outside = np.sum(change**2, axis=(-2, -1)) - np.sum(inside**2, axis=(-2, -1))
        back = np.sum(change * (state.gram_out @ change), axis=(-2, -1))
        square = back + np.sum(inside * (inside @ state.gram_in), axis=(-2, -1)) + self.rest * np.maximum(outside, 0)
        return np.sqrt(np.maximum(square, 0))


@dataclasses.dataclass(frozen=True, eq=False)
class LineMatch(Match):
    """`TwoLayer` on one line of data, in the raw weights; `scale` makes the learning rates of the layers equal."""

    scale: tuple[float, float] = (1.0, 1.0)

    @classmethod
    def of(cls, red: Reduced, network: Network) -> LineMatch:
        """Return the match of raw weights on the line of the largest second moment."""
        (w1, w2), rates = network.weights, network.rates
        power, axes = np.linalg.eigh(red.covariance)
        size, axis = float(np.sqrt(power[-1])), axes[:, -1]
        y = float(red.cross[0] @ axis) / size
        # this loss is half of the flow's
        flow = TwoLayer(y=y, x=size * (red.inputs @ axis), eta_u=rates[1] / 2, eta_w=rates[0] / 2)
        z0 = TwoLayer.State(red.outputs[:, 0] @ w2, w1)
        scale = (float(np.sqrt(red.clock / rates[0])), float(np.sqrt(red.clock / rates[1])))
        return cls("TwoLayer", flow, z0, red.inputs, red.outputs, scale)

    def product(self, state: Any) -> np.ndarray:
        """Return ``u^T W`` on the inputs."""
        return (state.u[..., None, :] @ state.w) @ self.inputs

    def layers(self, state: Any, network: Network) -> list[np.ndarray]:
        """Return the weights themselves; of the last layer the row that learns."""
        move = (state.u - self.z0.u)[..., None, :]  # type: ignore[attr-defined]
        return [state.w, network.weights[1] + self.outputs @ move]

    def _grams(self, state: Any) -> tuple[np.ndarray, np.ndarray]:
        w, u = self.scale[0] * (state.w @ self.inputs), self.scale[1] * state.u
        return np.swapaxes(w, -1, -2) @ w, np.sum(u * u, axis=-1)[..., None, None]

    def sizes(self, state: Any) -> np.ndarray:
        """Return the spectral norms."""
        return np.stack([_largest(gram) for gram in self._grams(state)], axis=-1)

    def pushed(self, state: Any, change: np.ndarray) -> np.ndarray:
        """Return the norm of the change of the velocity."""
        return _pushed(change, *self._grams(state))


class PlaneMatch(Match):
    """`TwoLayer`, one for each of the decoupled modes of a two-layer network."""

    @classmethod
    def of(cls, red: Reduced, modes: Joint) -> PlaneMatch:
        """Return the match of modes in mutually orthogonal hidden planes."""
        v, u = modes.pairs
        root = np.sqrt(modes.power)
        flow = TwoLayer(y=root * modes.target, x=root[:, None], eta_u=red.clock / 2, eta_w=red.clock / 2)
        z0 = TwoLayer.State(weights_along(red.layers[1].T, u).T, weights_along(red.layers[0], v).T[..., None])
        return cls("TwoLayer per mode", flow, z0, red.inputs @ v, red.outputs @ u)

    def product(self, state: Any) -> np.ndarray:
        """Return the diagonal matrix of the modes' strengths."""
        strength = np.sum(state.u * state.w[..., 0], axis=-1)
        return strength[..., None] * np.eye(strength.shape[-1])

    def layers(self, state: Any, network: Network) -> list[np.ndarray]:
        """Return the weights; the hidden units must be those of the network."""
        scales, z0 = _scales(network), self.z0
        first = np.swapaxes(state.w[..., 0] - z0.w[..., 0], -1, -2) @ self.inputs.T / scales[0]  # type: ignore[attr-defined]
        last = self.outputs @ (state.u - z0.u) / scales[1]  # type: ignore[attr-defined]
        return [network.weights[0] + first, network.weights[1] + last]


class LinearMatch(Match):
    """`DeepMode` of depth 1: the entries of a single layer in the eigenbasis of the inputs."""

    @classmethod
    def of(cls, red: Reduced) -> LinearMatch:
        """Return the match of a single layer; any data."""
        power, axes = np.linalg.eigh(red.covariance)
        flow = DeepMode(s=red.cross @ axes / power, depth=1.0, tau=1 / (red.clock * power))
        return cls("DeepMode", flow, DeepMode.State(red.product @ axes), red.inputs @ axes, red.outputs)

    def product(self, state: Any) -> np.ndarray:
        """Return the layer."""
        return state.a

    def layers(self, state: Any, network: Network) -> list[np.ndarray]:
        """Return the layer."""
        return [network.weights[0] + (state.a - self.z0.a) @ self.inputs.T]  # type: ignore[attr-defined]


@dataclasses.dataclass(frozen=True, eq=False)
class DeepMatch(Match):
    """`DeepMode`, one for each mode of a balanced, aligned network; `axes` are the modes in the coordinates."""

    axes: tuple[np.ndarray, np.ndarray] = (np.eye(1), np.eye(1))
    depth: int = 2

    @classmethod
    def of(cls, red: Reduced, modes: Joint, strength: np.ndarray) -> DeepMatch:
        """Return the match of modes that start at `strength`."""
        flow = DeepMode(s=modes.target, depth=float(red.depth), tau=1 / (red.clock * modes.power))
        z0 = DeepMode.State(strength)
        return cls("DeepMode", flow, z0, red.inputs, red.outputs, modes.pairs, red.depth)

    def _through(self, strength: np.ndarray) -> np.ndarray:
        v, u = self.axes
        return (u * strength[..., None, :]) @ v.T

    def product(self, state: Any) -> np.ndarray:
        """Return ``sum_k u_k a_k v_k^T``."""
        return self._through(state.a)

    def layers(self, state: Any, network: Network) -> list[np.ndarray]:
        """Return the weights: the frames of the modes in the hidden layers are constant."""
        start = self.z0.a  # type: ignore[attr-defined]
        grown = np.abs(state.a) ** (1 / self.depth) - np.abs(start) ** (1 / self.depth)
        frame, found = self.inputs @ self.axes[0], []
        for i, (w, scale) in enumerate(zip(network.weights, _scales(network), strict=True), start=1):
            if i < self.depth:
                signal = w @ frame
                size = np.linalg.norm(signal, axis=0)
                after = signal / np.where(size > 0, size, 1.0)
            else:
                after = self.outputs @ self.axes[1] * np.where(start < 0, -1.0, 1.0)
            found.append(w + (after * grown[..., None, :]) @ frame.T / scale)
            frame = after
        return found

    def sizes(self, state: Any) -> np.ndarray:
        """Return the largest root of the modes, the same for every layer."""
        size = np.max(np.abs(state.a), axis=-1) ** (1 / self.depth)
        return np.repeat(size[..., None], self.depth, axis=-1)

    def pushed(self, state: Any, change: np.ndarray) -> np.ndarray:
        """Return the norm of the change of the velocity."""
        v, u = self.axes
        root = np.abs(state.a) ** (1 / self.depth)
        square = np.zeros(change.shape[:-2])
        for layer in range(1, self.depth + 1):
            # adjacent layers project the gradient onto the modes; at the outer layers there is no projection
            part = change
            if layer < self.depth:
                part = root[..., :, None] ** (self.depth - layer) * (u.T @ part)
            if layer > 1:
                part = (part @ v) * root[..., None, :] ** (layer - 1)
            square = square + np.sum(part**2, axis=(-2, -1))
        return np.sqrt(square)
