"""Simulator of the raw weights of linear networks: any depth, bias, input covariance, rates and batch axes.

No closed form is used here. A network is a list of layers, ``f(x) = W_L ... W_1 x``, under gradient flow of the loss
``E|y - f(x)|^2 / 2``, which depends on the data through the regression map ``S`` and the second moment of the inputs.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np

from linsolve.core.arguments import boolean, integer, real_array
from linsolve.core.flow import Flow
from linsolve.core.integrate import first_zero, integrate
from linsolve.core.parameters import parameter

__all__ = [
    "affine_maps",
    "deep_weights",
    "follow",
    "gradient_flow",
    "layer_scales",
    "layers_of",
    "maps",
    "march",
    "pulls",
    "time_to_reach",
    "trained",
]

Layers = list[np.ndarray]
_LATEST = 1e15  # latest time of the search for events


def maps(layers: Sequence[Any]) -> list[Any]:
    """Return the partial products ``W_1, W_2 W_1, ...`` of the layers; leading axes are batch axes."""
    found = [layers[0]]
    for layer in layers[1:]:
        found.append(layer @ found[-1])
    return found


def affine_maps(xp: Any, layers: Sequence[Any], biases: Sequence[Any]) -> list[Any]:
    """Return the partial products ``[M_l, c_l]`` of layers with biases: the signals are ``M_l x + c_l``.

    Parameters
    ----------
    xp : namespace
    layers : sequence of array, shape batch + (n_l, n_{l-1})
        First layer first.
    biases : sequence of array, shape batch + (n_l,), or None
        One entry for each layer, None where it has no bias.

    Examples
    --------
    >>> import numpy as np
    >>> [made.tolist() for made in affine_maps(np, [np.eye(1), 2 * np.eye(1)], [np.ones(1), None])]
    [[[1.0, 1.0]], [[2.0, 2.0]]]
    """
    found: list[Any] = []
    for layer, bias in zip(layers, biases, strict=True):
        made = layer @ found[-1] if found else xp.concat([layer, xp.zeros_like(layer[..., :1])], axis=-1)
        if bias is not None:
            made = xp.concat([made[..., :-1], made[..., -1:] + bias[..., :, None]], axis=-1)
        found.append(made)
    return found


def pulls(xp: Any, layers: Sequence[Any], pull: Any) -> list[Any]:
    """Return ``W_{l+1}^T ... W_L^T G`` for each layer l, with ``G`` as in `gradient_flow`."""
    found = [pull]
    for layer in layers[:0:-1]:
        found.append(xp.matrix_transpose(layer) @ found[-1])
    return found[::-1]


def gradient_flow(xp: Any, layers: Sequence[Any], made: Sequence[Any], pull: Any, rates: Sequence[Any]) -> list[Any]:
    """Return ``dW_l/dt = rates_l (W_L ... W_{l+1})^T G (W_{l-1} ... W_1)^T``.

    Parameters
    ----------
    xp : namespace
    layers : sequence of array, shape batch + (n_l, n_{l-1})
        First layer first.
    made : sequence of array
        The partial products, as returned by `maps`.
    pull : array, shape batch + (n_L, n_0)
        ``G``, minus the gradient of the loss with respect to the network's map.
    rates : sequence of array
        Learning rate of each layer; it broadcasts against the layer.

    Examples
    --------
    >>> import numpy as np
    >>> layers = [np.array([[2.0]]), np.array([[3.0]])]
    >>> made = maps(layers)
    >>> [float(move[0, 0]) for move in gradient_flow(np, layers, made, 7.0 - made[-1], [1.0, 10.0])]
    [3.0, 20.0]
    """
    found = pulls(xp, layers, pull)
    return [
        rates[k] * (each @ xp.matrix_transpose(made[k - 1]) if k else each)  # the first layer acts on the inputs
        for k, each in enumerate(found)
    ]


def layer_scales(layers: Sequence[Any], goal: float, most: float) -> list[float]:
    """Return the size of each layer, for absolute tolerances.

    One small layer is driven by the others to its size at the end, which is returned. Two or more small layers grow
    exponentially from their initial values, and errors grow with them: their sizes at time 0 are returned.

    Parameters
    ----------
    layers : sequence of ndarray
        Layers at time 0, first layer first; their sizes may differ by many powers of ten.
    goal : float
        Size of the map to be learned. At the end a layer makes it out of the other layers.
    most : float
        Largest size to return for two or more layers, which learn slowly while all are small.

    Examples
    --------
    >>> import numpy as np
    >>> layer_scales([1e9 * np.ones((1, 1)), np.zeros((1, 1))], 3.0, 1e9)
    [1000000000.0, 3e-09]
    >>> layer_scales([[[1e-9]], [[2e-9]], [[1e3]]], 3.0, 1e3)
    [1e-09, 2e-09, 1000.0]
    """
    sizes = [float(np.abs(layer).max()) for layer in layers]
    if len(sizes) == 1:
        return [max(sizes[0], goal)]
    ends = [_end(goal, sizes[:k] + sizes[k + 1 :], most) for k in range(len(sizes))]
    small = [size for size, end in zip(sizes, ends, strict=True) if size < end]
    if len(small) < 2 or not any(small):
        return [min(max(size, end), most) for size, end in zip(sizes, ends, strict=True)]
    return [(size or max(small)) if size < end else min(size, most) for size, end in zip(sizes, ends, strict=True)]


def _end(goal: float, others: Sequence[float], most: float) -> float:
    """Return the size, at most `most`, at which a layer makes a map of size `goal` out of layers of the other sizes."""
    product = math.prod(others)
    return min(goal / product, most) if product > 0 else most


class _Weights(Flow):
    r"""Gradient flow of the raw weights of a deep linear network, for `integrate` and `descend`.

    .. math:: L = \tfrac12 \mathrm{tr}\,(S - W) \Sigma (S - W)^T, \quad W = W_L \cdots W_1, \qquad
        \dot W_\ell = \eta_\ell\, W_{>\ell}^T (S - W) \Sigma\, W_{<\ell}^T .

    Parameters
    ----------
    target : array_like, shape (n_out, n_in)
        Input-output map :math:`S`.
    covariance : array_like, shape (n_in, n_in)
        Second moment :math:`\Sigma` of the inputs.
    rates : array_like, shape (L,)
        Learning rates of the layers (one over units of time).
    """

    target: Any = parameter("S", "input-output map", axes=("n_out", "n_in"))
    covariance: Any = parameter(r"\Sigma", "covariance of the inputs", axes=("n_in", "n_in"))
    rates: Any = parameter(r"\eta", "learning rates of the layers", axes=("layer",), domain="(0, inf)")

    def _gap(self, xp: Any, z: Any) -> tuple[list[Any], Any]:
        """Return the partial products of the layers, and ``S - W``."""
        made = maps(z)
        return made, self.target - made[-1]

    def weight_scales(self, z0: Any, most: float) -> list[float]:
        """Return the size of each field of the state, for `integrate`: at most `most`; see `layer_scales`."""
        return layer_scales(z0, float(np.abs(self.target).max()), most)

    def _moves(self, xp: Any, layers: Sequence[Any], made: Sequence[Any], pull: Any) -> list[Any]:
        return gradient_flow(xp, layers, made, pull, [self.rates[..., k, None, None] for k in range(len(layers))])

    def loss(self, xp: Any, z: Any) -> Any:
        """Return ``tr (S - W) Sigma (S - W)^T / 2``, the loss minus its minimum."""
        gap = self._gap(xp, z)[1]
        return xp.sum((gap @ self.covariance) * gap, axis=(-2, -1)) / 2

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return minus the gradient of the loss times the rates."""
        made, gap = self._gap(xp, z)
        return self.pulled(xp, z, made, gap @ self.covariance)

    def pulled(self, xp: Any, z: Any, made: Sequence[Any], pull: Any) -> Any:
        """Return the velocity for minus the gradient with respect to the map; `made` are the partial products."""
        return self.State(*self._moves(xp, z, made, pull))


class _BiasedWeights(_Weights):
    r"""Gradient flow of layers with biases: the map ``[W, c]`` acts on the inputs ``(x, 1)``."""

    biased: ClassVar[tuple[bool, ...]]  # whether each layer has a bias

    def parts(self, z: Any) -> tuple[list[Any], list[Any]]:
        """Return layers and biases, None where a layer has none."""
        depth, rest = len(self.biased), iter(z[len(self.biased) :])
        return list(z[:depth]), [next(rest) if has else None for has in self.biased]

    def weight_scales(self, z0: Any, most: float) -> list[float]:
        """Return the size of each field of the state; a bias adds to its layer, and ends at the size of its signal."""
        layers, biases = self.parts(z0)
        both = [w if b is None else np.append(w, b) for w, b in zip(layers, biases, strict=True)]
        goal = float(np.abs(self.target).max())
        sizes = [float(np.abs(v).max()) for v in both]
        ends = [_end(goal, sizes[k + 1 :], most) for k in range(len(both))]
        own = [max(float(np.abs(b).max()), end) for b, end in zip(biases, ends, strict=True) if b is not None]
        return [*layer_scales(both, goal, most), *own]

    def _gap(self, xp: Any, z: Any) -> tuple[list[Any], Any]:
        """Return the partial products of the layers, and ``S - [W, c]``."""
        made = affine_maps(xp, *self.parts(z))
        return made, self.target - made[-1]

    def pulled(self, xp: Any, z: Any, made: Sequence[Any], pull: Any) -> Any:
        """Return the velocity for minus the gradient with respect to the map; a bias has the rate of its layer."""
        layers, _ = self.parts(z)
        first, *others = self._moves(xp, layers, made, pull)
        back = pulls(xp, layers, pull)
        turns = [self.rates[..., k, None] * back[k][..., -1] for k, has in enumerate(self.biased) if has]
        return self.State(first[..., :-1], *others, *turns)


@cache
def _of_depth(depth: int, biased: tuple[bool, ...], names: tuple[str, ...]) -> type[Flow]:
    """Return the flow of networks of this depth, whose State has a field for each layer and each bias."""
    fields, base = [f"w{k}" for k in range(1, depth + 1)], _BiasedWeights if any(biased) else _Weights
    sizes = ["n_x" if any(biased) else "n_in", *(f"width{k}" for k in range(1, depth)), "n_out"]
    axes: dict[str, tuple[str, ...]] = {name: (sizes[k + 1], sizes[k]) for k, name in enumerate(fields)}
    axes |= {name: (sizes[k + 1],) for name, k in zip(names, np.flatnonzero(biased), strict=True)}
    about = {"State": namedtuple("State", axes), "axes": axes, "__doc__": base.__doc__}  # type: ignore[misc]
    return type("DeepWeights", (base,), about | ({"biased": biased} if any(biased) else {}))


def deep_weights(
    target: Any, depth: int, *, rates: Any = 1.0, covariance: Any = None, bias: bool | Sequence[bool] = False
) -> Flow:
    """Return the gradient flow of a deep linear network's raw weights, for `integrate` and `descend`.

    Parameters
    ----------
    target : array_like, shape batch + (n_out, n_in)
        Map to be learned, ``Sigma_yx Sigma_xx^-1``.
    depth : int
        Number of layers.
    rates : array_like, shape batch + (depth,), or a number
        Learning rates of the layers.
    covariance : array_like, shape batch + (n_in, n_in), optional
        Second moment of the inputs; the identity by default.
    bias : bool or sequence of bool
        Whether each layer has a bias; True stands for a bias of the last layer. With a bias, `target` and `covariance`
        are those of the inputs ``(x, 1)``, and a bias has the learning rate of its layer.

    Returns
    -------
    Flow
        Its state has fields ``w1 ... wL``, first layer first, then the biases: ``b`` for ``bias=True``, otherwise
        ``b1 ... bL`` of the layers that have one. It has no `solution`.

    Raises
    ------
    ValueError
        If an argument is out of range, or shapes do not fit.

    Examples
    --------
    >>> import numpy as np, linsolve as ls
    >>> from linsolve.core.network import deep_weights
    >>> w = 0.5 * np.eye(2)
    >>> traj = ls.integrate(deep_weights(np.diag([3.0, 1.0]), 3), [0.0, 1.0], (w, w, w))
    >>> np.diagonal(traj["w3"] @ traj["w2"] @ traj["w1"], axis1=1, axis2=2).round(6).tolist()
    [[0.125, 0.125], [2.996559, 0.489348]]

    A bias learns the mean of the targets: inputs of mean 1 and variance 1, y = 2 x + 3.

    >>> flow = deep_weights([[2.0, 3.0]], 1, covariance=[[2.0, 1.0], [1.0, 1.0]], bias=True)
    >>> traj = ls.integrate(flow, 60.0, (np.zeros((1, 1)), np.zeros(1)))
    >>> [traj[name].round(6).tolist() for name in ("w1", "b")]
    [[[2.0]], [3.0]]
    """
    who = "deep_weights"
    depth = integer(who, "depth", depth, meaning="number of layers", high=1000, example=2)
    target = real_array(who, "target", target, meaning="input-output map")
    if target.ndim < 2:
        raise ValueError(f"{who}: target has shape {target.shape} but needs (n_out, n_in); add an axis")
    covariance = np.eye(target.shape[-1]) if covariance is None else covariance
    rates = real_array(who, "rates", rates, meaning="learning rates of the layers")
    rates = np.broadcast_to(rates, (depth,)) if rates.ndim == 0 else rates
    if rates.shape[-1] != depth:
        rule = f"has shape {rates.shape} but must be ({depth},) (learning rates of the layers)"
        raise ValueError(f"{who}: rates {rule}; give one for each layer")
    if not isinstance(bias, Sequence | np.ndarray) or isinstance(bias, str) or getattr(bias, "ndim", 1) == 0:
        last = boolean(who, "bias", bias, meaning="whether the last layer has one")
        biased, names = (False,) * (depth - 1) + (last,), ("b",) * last
    else:
        given = list(bias)  # type: ignore[arg-type]
        biased = tuple(boolean(who, f"bias[{k}]", has, meaning="of a layer") for k, has in enumerate(given))
        if len(biased) != depth:
            raise ValueError(
                f"{who}: bias has {len(biased)} entries but needs {depth} (whether each layer has one); add them"
            )
        names = tuple(f"b{k}" for k, has in enumerate(biased, start=1) if has)
    return _of_depth(depth, biased, names)(target=target, covariance=covariance, rates=rates)  # type: ignore[call-arg]


def layers_of(start: Any, scale: Any, n_in: int, n_out: int = 1) -> Layers:
    """Return `scale` times the layers stored in `start`, shape (layer, width, width).

    The first layer uses the first `n_in` columns, the last layer the first `n_out` rows.
    """
    layers = [np.asarray(layer) * float(scale) for layer in start]
    layers[0], layers[-1] = layers[0][:, :n_in], layers[-1][:n_out, :]
    return layers


def _posed(layers: Sequence[Any], target: Any, covariance: Any, rates: Any, rtol: float) -> tuple[Any, Any, float]:
    """Return the flow of the network, its initial weights, and an absolute tolerance relative to its largest weight."""
    flow = deep_weights(
        np.atleast_2d(target), len(layers), covariance=covariance, rates=1.0 if rates is None else rates
    )
    start = flow.State(*(np.asarray(layer, dtype=float) for layer in layers))
    return flow, start, 1e-3 * rtol * (max(float(np.abs(layer).max()) for layer in start) or 1.0)


def follow(
    layers: Sequence[np.ndarray],
    target: Any,
    t: Any,
    *,
    covariance: Any = None,
    rates: Any = None,
    rtol: float = 1e-13,
) -> Layers:
    """Return each layer at times `t`, shape (T, rows, columns), by an eighth-order integrator.

    Parameters
    ----------
    layers : sequence of ndarray
        Weights at time 0, first layer first; leading axes are batch axes.
    target : array_like, shape (n_out, n_in) or (n_in,)
        Map to be learned, ``Sigma_yx Sigma_xx^-1``.
    t : array_like, shape (T,)
        Times.
    covariance : array_like, shape (n_in, n_in), optional
        Second moment of the inputs; the identity by default.
    rates : sequence of float, optional
        Learning rate of each layer; 1 by default.
    rtol : float
        Relative tolerance of the integrator.
    """
    flow, start, atol = _posed(layers, target, covariance, rates, rtol)
    return list(integrate(flow, t, start, rtol=rtol, atol=atol).state)


def trained(
    layers: Sequence[np.ndarray], target: Any, *, covariance: Any = None, rates: Any = None, rtol: float = 1e-12
) -> Layers:
    """Return the layers when the gradient with respect to the map has fallen to 1e-11 of its value at the zero map."""
    flow, start, atol = _posed(layers, target, covariance, rates, rtol)
    small = 1e-11 * np.linalg.norm(flow.target @ flow.covariance)

    def left(z: Any) -> float:
        return float(np.linalg.norm((flow.target - maps(z)[-1]) @ flow.covariance) - small)

    return list(first_zero(flow, start, left, until=_LATEST, rtol=rtol, atol=atol)[1])


def time_to_reach(layers: Sequence[np.ndarray], target: Any, *, loss: bool = False, rates: Any = None) -> float:
    """Return the first time at which the map's component along the target is half the target, or the loss is halved."""
    flow, start, atol = _posed(layers, target, None, rates, 1e-13)
    power = np.sum(flow.target**2)
    first = np.sum((flow.target - maps(start)[-1]) ** 2)

    def gap(z: Any) -> float:
        made = maps(z)[-1]
        if loss:
            return 0.5 - float(np.sum((flow.target - made) ** 2) / first)
        return float(np.sum(made * flow.target) / power) - 0.5

    return first_zero(flow, start, gap, until=_LATEST, rtol=1e-13, atol=atol, newton=2)[0]


def march(layers: Sequence[np.ndarray], target: Any, end: float, steps: int) -> Layers:
    """Return the layers of a batch of networks at time `end`, by `steps` steps of a Runge-Kutta method of order 4."""
    flow, z, _ = _posed(layers, target, None, None, 0.0)
    h = end / steps

    def moved(time: float, slope: Any) -> Any:
        return flow.State(*(a + time * v for a, v in zip(z, slope, strict=True)))

    for _ in range(steps):
        first = flow.velocity(np, z)
        second = flow.velocity(np, moved(h / 2, first))
        third = flow.velocity(np, moved(h / 2, second))
        last = flow.velocity(np, moved(h, third))
        z = moved(h / 6, (a + 2 * (b + c) + d for a, b, c, d in zip(first, second, third, last, strict=True)))
    return list(z)
