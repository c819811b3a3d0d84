"""Random two-layer networks of any width, sampled by three numbers each."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import Interval, real_array, shown, unknown_name
from linsolve.core.parameters import batch_shape
from linsolve.systems.two_layer.order_parameters import TwoLayerOrder
from linsolve.systems.two_layer.phase_measures import wishart

__all__ = ["RandomNetworks", "random_networks"]

LARGEST = 1e150  # largest norm of a layer; order parameters are squares


@dataclasses.dataclass(frozen=True, eq=False)
class RandomNetworks:
    """Factory of `TwoLayerOrder` networks for `ensemble`, returned by `random_networks`.

    Parameters
    ----------
    flow : TwoLayerOrder
    width, sigma_u, sigma_w : array
        Number of hidden units; standard deviations of the weights.
    zero_output : bool
    """

    flow: TwoLayerOrder
    width: np.ndarray
    sigma_u: np.ndarray
    sigma_w: np.ndarray
    zero_output: bool = False

    def __call__(self, rng: Any, count: int) -> tuple[TwoLayerOrder, Any]:
        """Return the flow and `count` initial states drawn from `rng`, on the GPU for a ``cupy.random.Generator``."""
        flow = self.flow
        sizes = (self.width, self.sigma_u, self.sigma_w, *flow.parameters().values())
        width = np.broadcast_to(self.width, np.broadcast_shapes(*(np.shape(v) for v in sizes)))
        r, along, across = wishart(width, count, rng=rng)
        xp = arithmetic.namespace(r)  # the namespace of rng: NumPy or CuPy
        flow = flow.cast(xp)
        if self.zero_output:
            along = xp.zeros_like(along)
        a = xp.sqrt(flow.eta_w) * xp.asarray(self.sigma_u) / 2
        b = xp.sqrt(flow.eta_u) * xp.asarray(self.sigma_w) / 2
        rest = (b * across) ** 2
        P, Q = (b * along + a * r) ** 2 + rest, (b * along - a * r) ** 2 + rest
        return flow, TwoLayerOrder.State(P, Q, (b * along - a * r) * (b * along + a * r) + rest)


def random_networks(
    width: Any, sigma_u: Any = 1.0, sigma_w: Any = 1.0, *, zero_output: bool = False, **parameters: Any
) -> RandomNetworks:
    r"""Return a factory of networks with independent Gaussian weights, for `ensemble`.

    The order parameters of ``u_i ~ N(0, sigma_u^2)``, ``w_ij ~ N(0, sigma_w^2)`` depend only on two vectors of
    independent Gaussians, ``u/sigma_u`` and ``W x/(sigma_w rho)``, through their Gram matrix, a 2x2 Wishart matrix.
    With ``(r, a, b)`` from `wishart`,

    .. math:: P, Q = \tfrac14 \left[ (\beta a \pm \alpha r)^2 + \beta^2 b^2 \right], \qquad
        R = \tfrac14 \left[ \beta^2 (a^2 + b^2) - \alpha^2 r^2 \right], \qquad
        \alpha = \sqrt{\eta_w} \sigma_u, \; \beta = \sqrt{\eta_u} \sigma_w .

    Parameters
    ----------
    width : array_like
        Number of hidden units, at least 1. The cost does not depend on it.
    sigma_u, sigma_w : array_like
        Standard deviations of the weights.
    zero_output : bool
        Whether to remove from ``W x`` its component along ``u``, so that the initial output is 0.
    **parameters
        Parameters of `TwoLayerOrder`; ``y`` is 1 by default. The initial state does not depend on ``rho = |x|``.

    Returns
    -------
    RandomNetworks
        ``factory(rng, count)`` returns a flow and a state with a batch of shape ``(count,)`` plus the shape to which
        all arguments broadcast. The factory can be pickled.

    Raises
    ------
    ValueError, TypeError
        If a width is below 1, a standard deviation is negative or so large that order parameters overflow, shapes do
        not broadcast, a name is not a parameter of the flow, or `zero_output` is neither True nor False.

    Notes
    -----
    Exact in distribution, for Gaussian weights (``tests/ensembles/test_ensemble_networks.py``).

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import ensembles
    >>> flow, z0 = ensembles.random_networks(10**9, 1e-5, 1e-5)(np.random.default_rng(0), 3)
    >>> z0.P.round(4).tolist()
    [0.05, 0.05, 0.05]
    """
    who = "random_networks"
    known = {field.name for field in dataclasses.fields(TwoLayerOrder)}  # type: ignore[arg-type]
    for name in parameters:
        if name not in known:
            raise ValueError(unknown_name(who, "parameter", name, known))
    if not isinstance(zero_output, bool | np.bool_):
        rule = "must be True or False (whether the start has output 0); say False"
        raise TypeError(f"{who}: zero_output = {shown(zero_output)} {rule}")
    flow = TwoLayerOrder(**({"y": 1.0} | parameters))
    width = np.asarray(real_array(who, "width", width, meaning="number of hidden units", domain=Interval("[1, inf)")))
    deviations = {"sigma_u": sigma_u, "sigma_w": sigma_w}
    scale_u, scale_w = (
        np.asarray(real_array(who, name, value, meaning="standard deviation", domain=Interval("[0, inf)")))
        for name, value in deviations.items()
    )
    given = {"width": width, "sigma_u": scale_u, "sigma_w": scale_w, **flow.parameters()}
    batch_shape(who, {name: np.shape(value) for name, value in given.items()})
    for name, scale, rate in (("sigma_u", scale_u, flow.eta_w), ("sigma_w", scale_w, flow.eta_u)):
        _refuse_large(who, name, scale, np.sqrt(width) * np.sqrt(arithmetic.to_numpy(rate)))
    return RandomNetworks(flow, width, scale_u, scale_w, bool(zero_output))


def _refuse_large(who: str, name: str, scale: np.ndarray, per_unit: np.ndarray) -> None:
    """Raise if the squared norm of a layer, times a learning rate, overflows for these standard deviations."""
    with np.errstate(over="ignore"):
        length = scale * per_unit
    if (length > LARGEST).any():
        raise ValueError(
            f"{who}: {name} = {scale.max():g} makes layers of length {length.max():.3g}, which must be at most "
            f"{LARGEST:g} (standard deviation; order parameters are squares); reduce it, and rescale y by its square"
        )
