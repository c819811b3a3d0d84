"""Raw weights of two-layer networks with late fusion: one branch for each of two modalities, one output."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from linsolve.core.flow import Flow
from linsolve.core.parameters import parameter

__all__ = ["LateFusion"]


class LateFusion(Flow):
    r"""Gradient flow of the weights of two branches whose outputs are added, for `integrate` and `first_zero`.

    .. math:: L = \tfrac12 (\beta_* - \beta) \Sigma (\beta_* - \beta)^\top, \quad \beta = (a_A W_A, a_B W_B), \qquad
        \dot a_m = \rho_m W_m^\top, \; \dot W_m = a_m^\top \rho_m, \quad (\rho_A, \rho_B) = (\beta_* - \beta) \Sigma .

    Parameters
    ----------
    target : array_like, shape (d_a + d_b,)
        Regression of the output on both modalities, :math:`\beta_* = \Sigma_{yx} \Sigma^{-1}`.
    covariance : array_like, shape (d_a + d_b, d_a + d_b)
        Second moments of the inputs, :math:`\Sigma`.
    """

    target: Any = parameter(r"\beta_*", "regression on both modalities", axes=("n_in",))
    covariance: Any = parameter(r"\Sigma", "second moments of the inputs", axes=("n_in", "n_in"))

    class State(NamedTuple):
        """Second and first layers of the two branches."""

        last_a: Any
        first_a: Any
        last_b: Any
        first_b: Any

    axes: ClassVar = {
        "last_a": ("width_a",),
        "first_a": ("width_a", "d_a"),
        "last_b": ("width_b",),
        "first_b": ("width_b", "d_b"),
    }

    def _gap(self, xp: Any, z: Any) -> Any:
        pairs = (z.last_a, z.first_a), (z.last_b, z.first_b)
        return self.target - xp.concat([xp.sum(a[..., None] * w, axis=-2) for a, w in pairs], axis=-1)

    def _pull(self, xp: Any, z: Any) -> Any:
        return xp.sum(self._gap(xp, z)[..., None] * self.covariance, axis=-2)

    def loss(self, xp: Any, z: Any) -> Any:
        """Return the loss minus that of the regression."""
        return xp.sum(self._gap(xp, z) * self._pull(xp, z), axis=-1) / 2

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return minus the gradient of the loss."""
        pull, cut = self._pull(xp, z), z.first_a.shape[-1]
        moves = []
        for a, w, rho in ((z.last_a, z.first_a, pull[..., :cut]), (z.last_b, z.first_b, pull[..., cut:])):
            moves += [xp.sum(w * rho[..., None, :], axis=-1), a[..., :, None] * rho[..., None, :]]
        return self.State(*moves)
