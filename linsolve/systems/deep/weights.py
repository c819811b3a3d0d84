"""A deep linear network in its weights, to be simulated: the network itself, not the modes that solve it."""

from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any

from linsolve.core.arguments import real_array
from linsolve.core.flow import Flow
from linsolve.core.layers import gradient_flow, maps
from linsolve.core.parameters import parameter
from linsolve.systems.deep.starts import layer_rates, symmetric, whole_depth

__all__ = ["deep_weights"]


class _DeepWeights(Flow):
    r"""A deep linear network in its weights; for `integrate` and `descend`, as it has no closed form from every start.

    .. math:: L = \tfrac12 \mathrm{tr}\,(S - W) \Sigma (S - W)^T, \quad W = W_L \cdots W_1, \qquad
        \dot W_\ell = \eta_\ell\, W_{>\ell}^T (S - W) \Sigma\, W_{<\ell}^T .

    Parameters
    ----------
    target : array_like, shape (n_out, n_in)
        Input-output map :math:`S`.
    covariance : array_like, shape (n_in, n_in)
        Of the inputs.
    rates : array_like, shape (L,)
        Learning rates of the layers (one over units of time).
    """

    target: Any = parameter("S", "input-output map", axes=("n_out", "n_in"))
    covariance: Any = parameter(r"\Sigma", "covariance of the inputs", axes=("n_in", "n_in"))
    rates: Any = parameter(r"\eta", "learning rates of the layers", axes=("layer",), domain="(0, inf)")

    def loss(self, xp: Any, z: Any) -> Any:
        """Return ``tr (S - W) Sigma (S - W)^T / 2``."""
        gap = self.target - maps(z)[-1]
        return xp.sum((gap @ self.covariance) * gap, axis=(-2, -1)) / 2

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return minus the gradient of the loss times the rates."""
        made, rates = maps(z), [self.rates[..., k, None, None] for k in range(len(z))]
        return self.State(*gradient_flow(xp, z, made, (self.target - made[-1]) @ self.covariance, rates))


@cache
def _of_depth(depth: int) -> type[Flow]:
    fields = [f"w{k}" for k in range(1, depth + 1)]
    sizes = ["n_in", *(f"width{k}" for k in range(1, depth)), "n_out"]
    about = {
        "State": namedtuple("State", fields),
        "axes": {name: (sizes[k + 1], sizes[k]) for k, name in enumerate(fields)},
        "__doc__": _DeepWeights.__doc__,
    }
    return type("DeepWeights", (_DeepWeights,), about)


def deep_weights(target: Any, depth: int, *, rates: Any = 1.0, covariance: Any = None) -> Flow:
    """Return the gradient flow of a deep linear network's raw weights, for `integrate` and `descend`.

    Parameters
    ----------
    target : array_like, shape (n_out, n_in)
        Map to be learned, ``Sigma_yx Sigma_xx^-1``.
    depth : int
        Number of layers.
    rates : array_like, shape (depth,) or ()
        Learning rates of the layers.
    covariance : array_like, shape (n_in, n_in), optional
        Of the inputs; white by default.

    Returns
    -------
    Flow
        Its state has fields ``w1 ... wL``, first layer first; it has no `solution`.

    Examples
    --------
    >>> import numpy as np, linsolve as ls
    >>> from linsolve.systems.deep import deep_weights
    >>> w = 0.5 * np.eye(2)
    >>> traj = ls.integrate(deep_weights(np.diag([3.0, 1.0]), 3), [0.0, 1.0], (w, w, w))
    >>> np.diagonal(traj["w3"] @ traj["w2"] @ traj["w1"], axis1=1, axis2=2).round(6).tolist()
    [[0.125, 0.125], [2.996559, 0.489348]]
    """
    depth = whole_depth("deep_weights", depth)
    target = real_array("deep_weights", "target", target, meaning="map to be learned")
    if target.ndim != 2:
        raise ValueError(f"deep_weights: target has shape {tuple(target.shape)} but needs (n_out, n_in); add an axis")
    covariance = symmetric("deep_weights", covariance, target.shape[1])
    rates = layer_rates("deep_weights", rates, depth)
    return _of_depth(depth)(target=target, covariance=covariance, rates=rates)  # type: ignore[call-arg]
