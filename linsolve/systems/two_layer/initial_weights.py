"""Where `TwoLayer` networks come from: lazy training, random weights, symbols."""

from __future__ import annotations

from typing import Any

from linsolve.core.flow import Flow
from linsolve.systems.two_layer.line_data import gaussian

__all__ = ["TwoLayerNetworks"]


class TwoLayerNetworks(Flow):
    """The ways to a `TwoLayer` flow and its start, for it and for the flows that extend it."""

    @classmethod
    def from_lazy(cls, alpha: Any, h: int, X: Any, y: Any, *, z0: Any = None, rng: Any = None) -> tuple[Any, Any]:
        r"""Return the flow and the start of a network of Geiger et al. (2020): scaled, its initial output subtracted.

        .. math:: F = \alpha (f - f_0), \quad f = (h\, d_{\rm in})^{-1/2}\, u \cdot W x, \qquad
            L = \frac{1}{\alpha^2} E (F - y)^2, \qquad \dot u = -\partial L/\partial u, \quad
            \dot W = -\partial L/\partial W .

        Parameters
        ----------
        alpha : array_like, shape batch
            Scale of the output, positive.
        h : int
            Number of hidden units.
        X : array_like, shape (N, d_in), or (d_in,) for one sample
            Samples on a line through the origin.
        y : array_like, shape (N,), or a number for one sample
            Targets of ``F``.
        z0 : State, optional
            Initial weights; standard Gaussian by default.
        rng : None, int or numpy.random.Generator
            For the initial weights, as in SPEC 7.

        Returns
        -------
        LazyTwoLayer, State
            ``flow(t, z0)["F"]`` is ``F`` on `LazyTwoLayer.x`, ``["loss"]`` is ``L`` less what no linear map learns.

        Raises
        ------
        NotExact
            If the samples are off every line through the origin.
        """
        from linsolve.systems import flows

        # by name, since LazyTwoLayer extends this class and implements from_lazy
        return flows.LazyTwoLayer.from_lazy(alpha, h, X, y, z0=z0, rng=rng)  # type: ignore[no-any-return]

    @classmethod
    def init(
        cls,
        width: int,
        d0: int,
        *,
        sigma_u: float = 1.0,
        sigma_w: float = 1.0,
        batch: tuple[int, ...] | int = (),
        rng: Any = None,
    ) -> Any:
        """Return independent Gaussian weights of standard deviations `sigma_u`, `sigma_w`.

        Parameters
        ----------
        width, d0 : int
            Numbers of hidden units and of inputs, positive.
        sigma_u, sigma_w : float
            Standard deviations, not negative.
        batch : tuple of int
            Shape of the batch.
        rng : None, int or numpy.random.Generator
            As in SPEC 7: handed to ``numpy.random.default_rng``.
        """
        who, sizes, sigmas = (
            f"{cls.__name__}.init",
            {"width": width, "d0": d0},
            {"sigma_u": sigma_u, "sigma_w": sigma_w},
        )
        return cls.State(*gaussian(who, (("width",), ("width", "d0")), sizes, sigmas, batch, rng))

    @classmethod
    def symbols(cls) -> tuple[dict[str, Any], tuple[Any, ...], dict[Any, Any]]:
        """Return one unit on one input; ``p, q, k > 0`` name its start and its target so that ``c`` is rational."""
        import sympy

        p, q, k, gamma, a, b, s = sympy.symbols("p q k gamma a b s", positive=True)
        parameters = {
            "y": gamma * (k * p**2 - q**2 / k) / (a * b * s), "gamma": gamma, "eta_u": b**2, "eta_w": a**2, "x": [s],
        }  # fmt: skip
        point = {p: 0.3, q: 0.2, k: 0.4, gamma: 1.3, a: 0.7, b: 1.1, s: 0.9}
        return parameters, ([(p - q) / (a * s)], [[(p + q) / (b * s)]]), point
