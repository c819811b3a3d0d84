"""Raw weights of the network whose features obey `NeuralCollapse`, for simulation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve.core.flow import Flow
from linsolve.core.network import gradient_flow, maps
from linsolve.core.parameters import parameter
from linsolve.core.trajectory import Trajectory
from linsolve.systems.collapse.contrasts import members
from linsolve.systems.collapse.features import bias_rate

__all__ = ["BlockNetwork", "follow", "kernel"]


class BlockNetwork(Flow):
    r"""A linear network on fixed inputs, with a bias; for `integrate` and `descend`, from any start.

    .. math:: L = |R|_F^2/2, \quad R = W V \Phi + b 1^T - Y, \qquad
        \dot W = -R\, (V \Phi)^T, \quad \dot V = -W^T R\, \Phi^T, \quad \dot b = -\eta_b R 1 .

    Parameters
    ----------
    inputs : array_like, shape (K, N)
        :math:`\Phi`. If :math:`\Phi^T \Phi` is the block kernel, ``V Phi`` are the features of `NeuralCollapse`.
    targets : array_like, shape (C, N)
        ``Y``.
    eta_b : float
        Learning rate of the bias; 0 freezes it.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> flow = ls.collapse.BlockNetwork(inputs=np.eye(2), targets=np.eye(2))
    >>> start = flow.State(w=0.1 * np.eye(2), v=0.1 * np.eye(2), b=np.zeros(2))
    >>> ls.integrate(flow, [0.0, 20.0], start)["loss"].round(4).tolist()  # (1 - 0.01)^2 at the start
    [0.9801, 0.0]
    """

    inputs: Any = parameter(r"\Phi", "inputs, one a column", axes=("K", "N"))
    targets: Any = parameter("Y", "targets, one a column", axes=("C", "N"))
    eta_b: Any = bias_rate()

    class State(NamedTuple):
        """Classifier ``w`` (C, n), first layer ``v`` (n, K), bias ``b`` (C,)."""

        w: Any
        v: Any
        b: Any

    axes: ClassVar = {"w": ("C", "n"), "v": ("n", "K"), "b": ("C",)}

    def loss(self, xp: Any, z: Any) -> Any:
        """Return ``|W V Phi + b 1^T - Y|^2 / 2``."""
        return xp.sum((z.w @ z.v @ self.inputs + z.b[..., :, None] - self.targets) ** 2, axis=(-2, -1)) / 2

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return minus the gradient of the loss."""
        pull = self.targets - z.w @ z.v @ self.inputs - z.b[..., :, None]
        layers = z.v, z.w
        v, w = gradient_flow(xp, layers, maps(layers), pull @ xp.matrix_transpose(self.inputs), (1.0, 1.0))
        return self.State(w, v, self.eta_b[..., None] * xp.sum(pull, axis=-1))


def kernel(flow: Any) -> np.ndarray:
    """Return the feature kernel ``K`` of a `NeuralCollapse` without batch, entry by entry, shape (N, N)."""
    own, mate, other = (float(v) for v in (flow.kappa_d, flow.kappa_c, flow.kappa_n))
    label = np.repeat(np.arange(int(flow.classes)), flow.sizes)
    found = np.where(label[:, None] == label, mate, other)
    np.fill_diagonal(found, own)
    return found


def follow(
    route: Callable[..., Trajectory], flow: Any, t: Any, weights: tuple[Any, Any, Any], **options: Any
) -> Trajectory:
    """Simulate the weights by `integrate` or `descend`; return the trajectory in the state of `NeuralCollapse`.

    Parameters
    ----------
    route : callable
        ``linsolve.integrate`` or ``linsolve.descend``.
    flow : NeuralCollapse
    t : array_like, shape (T,)
    weights : (h, w, b)
        Initial features (n, N), classifier (C, n) and bias (C,).
    **options
        Passed to `route`.

    Examples
    --------
    >>> import linsolve as ls
    >>> flow = ls.NeuralCollapse(kappa_d=2.0, kappa_c=1.0, kappa_n=0.5, classes=3, m=4)
    >>> weights = flow.init(5, scale=0.3, rng=0)
    >>> simulated = ls.collapse.follow(ls.integrate, flow, [0.5], weights)
    >>> bool(abs(simulated["loss"] - flow([0.5], flow.of(*weights))["loss"])[0] < 1e-8)
    True
    """
    h, w, b = weights
    values, vectors = np.linalg.eigh(kernel(flow))
    root = np.sqrt(values)
    inputs, inverse = (vectors * root) @ vectors.T, (vectors / root) @ vectors.T
    network = BlockNetwork(inputs, members(np, int(flow.classes), flow.sizes), flow.eta_b)
    found = route(network, t, (w, h @ inverse, b), **options)
    return Trajectory(flow, found.t, flow.of(found["v"] @ inputs, found["w"], found["b"]), found.route)
