"""Laws of the tangent kernel's derivative along the first gradient step: mean, and order in each phase."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from linsolve.core.parameters import parameter
from linsolve.numerics.checked import in_range
from linsolve.systems.random_networks import first_step, limits
from linsolve.systems.random_networks.dispersion_laws import DeepLimit, RandomNetworks
from linsolve.systems.random_networks.kernel_moments import log_moments, spread
from linsolve.systems.random_networks.limits import PHASES

__all__ = ["NTKFirstStep", "NTKFirstStepLimit"]


class NTKFirstStep(RandomNetworks):
    r"""Mean of the tangent kernel's derivative along a gradient step, gates held, at every width and depth.

    For the loss :math:`(f - y)^2/2` at the input of the kernel, with learning rate :math:`\eta` and fixed gates
    (the signs of the units' arguments),

    .. math:: \frac{E\Delta\Theta}{\eta} = -4 \sum_{m<k} p_k (p_m \mathcal X_{1m} + b_m)
        \,\mathcal S_{mk} \mathcal X_{kL}, \qquad
        \mathcal S_{ij} = \tfrac13 \mathcal X_{ij} - \tfrac13 \prod_{k=i}^{j-1} \Bigl(1 - \frac1{n_k}\Bigr),

    independent of ``y``, with the symbols of `linsolve.ntk.log_moments`; and for neighboring layers

    .. math:: E f^2 |\delta^{\ell+1}|^2 |x^{\ell-1}|^2
        = |x^0|^4 \sigma_w^2 a^{2L-3} \frac{n_{\ell-1}}{n_0^2} \mathcal X_{1\ell} \mathcal X_{\ell+1, L} .

    Parameters
    ----------
    widths, weight_variance, slope, norm_squared
        As for `NTKMoments`; at least two widths.
    omega, beta : array_like, shape (layer,)
        Learning rates of the layers' weights and biases, which are also their factors in the kernel.
    target : array_like
        ``y``.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, or shapes do not fit.
    NotExact
        If there is no hidden layer.

    Notes
    -----
    Exact for this derivative; checked against explicit networks, whose kernel is differentiated exactly along the
    gradient step. Linear units (slope 1) have no gates: there it is the mean change to first order in the rate.

    For other slopes a step of size :math:`\eta` flips a gate with a probability of order :math:`\eta`, and a flip
    changes :math:`|\delta|^2` by order 1. The flips therefore add a term of first order that depends on the target. For
    a single ReLU unit with one input, weight variance 2, ``omega = beta = (1, 1)`` and :math:`|x| = 1` the law is -16;
    the flips add :math:`-2 |y| E|v|^3/\sqrt{4\pi} = -8 |y|/\pi`, ``v`` the weight of the output: 16 % at ``y = 1``.
    The source holds the gates fixed, too.

    The sampled quantity has the degree of :math:`\Theta^2` in the weights and a relative variance of the order of
    :math:`e^{20 L/M}` for ReLU units, so the example has few layers. Source:
    `linsolve.systems.random_networks.first_step.log_change`. ``linsolve card NTKFirstStep`` lists the published
    formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> law = ls.laws.NTKFirstStep(widths=[1, 3], weight_variance=1.0, slope=1.0, omega=[1.0, 1.0], beta=[1e-12, 1e-12])
    >>> round(float(law.prediction(np)["change"]), 6)  # -4 E f^2 of linear units without biases
    -4.0
    """

    target: Any = parameter("y", "target", default=0.0)

    approximates: ClassVar[str] = "averages over random ReLU, leaky or linear networks, gates held during the step"
    unapplied: ClassVar[str] = "an average over random starts whose spread is not known"
    draws: ClassVar[int] = 30_000

    def conditions(self, xp: Any) -> dict[str, Any]:
        """Return the number of missing hidden layers: the kernel of a single layer of weights is constant."""
        return {"missing hidden layers": float(max(2 - self.widths.shape[-1], 0))}

    @classmethod
    def counterexamples(cls, rng: np.random.Generator) -> dict[str, dict[str, Any]]:
        """Return a network without hidden layers."""
        alone = {"widths": [3], "weight_variance": 1.0, "slope": 0.0, "omega": [1.0], "beta": [1.0]}
        return {"missing hidden layers": alone}

    def prediction(self, xp: Any) -> dict[str, Any]:
        """Return the mean derivative over the rate, and the means of neighboring layers."""
        logs = first_step.log_change(xp, *self.numbers())
        change, neighbors = in_range(
            "NTKFirstStep", lambda: (-xp.exp(logs[-1]), self.neighbors(xp)), **self.parameters()
        )
        return {"change": change, "neighbors": neighbors}

    def neighbors(self, xp: Any) -> Any:
        """Return the means of squared output and neighboring layers, shape batch + (layer,), for all but the last."""
        second, c = (value[..., None] for value in spread(self.slope))
        variance, n = self.weight_variance[..., None], self.widths
        grown = 1 + c / n
        one = xp.ones_like(grown[..., :1])
        before = xp.concat([one, xp.cumprod(grown[..., 1:-1], axis=-1)], axis=-1)
        after = xp.concat([one, xp.cumprod(xp.flip(grown[..., 2:], axis=-1), axis=-1)], axis=-1)
        power = variance * (variance * second) ** (2 * n.shape[-1] - 3)
        shares = power * n[..., :-1] / n[..., :1] ** 2 * before * xp.flip(after, axis=-1)
        return self.norm_squared[..., None] ** 2 * shares

    def sample(self, rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
        """Draw `count` explicit networks and differentiate their kernels."""
        numbers = (float(v) for v in (self.weight_variance, self.slope, self.norm_squared))
        networks = first_step.draw(rng, count, self.widths, *numbers)
        here = networks.evaluate()
        x, d = here.norms()
        change = first_step.tangent(networks, here, self.omega, self.beta)
        return {
            "change": -(here.output - self.target) * change,
            "neighbors": here.output[:, None] ** 2 * d[:, 1:] * x[:, :-1],
        }

    @classmethod
    def example(cls, rng: np.random.Generator) -> NTKFirstStep:
        """Return ReLU networks with three hidden layers, generic learning rates and a target without effect."""
        return cls(
            widths=np.concatenate([rng.integers(2, 5, 1), rng.permutation([10, 12, 16])]),
            weight_variance=rng.uniform(1.6, 2.0),
            slope=0.0,
            omega=rng.uniform(0.8, 1.2, 4),
            beta=rng.uniform(0.8, 1.2, 4),
            norm_squared=rng.uniform(0.5, 1.5),
            target=rng.uniform(-0.5, 0.5),
        )


class NTKFirstStepLimit(DeepLimit):
    r"""Relative derivative of the kernel along the first step, gates held, in the limit of depth and width.

    For constant width ``M``, depth :math:`L = \lambda M` and standard weights,
    :math:`r = -E\Delta\Theta/(\eta E\Theta)` is of order :math:`a^L/M` in the ordered phase, ``L`` at the edge of
    chaos, and :math:`L a^L` in the chaotic phase, with the factors of
    `linsolve.systems.random_networks.limits.first_step`. The relative error is of order ``1/M``, the small parameter.

    Parameters
    ----------
    ratio, biases, slope : array_like
        As for `NTKDispersionLimit`; `biases` is not 0.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, or shapes do not fit.

    Notes
    -----
    Approximates the means of `NTKFirstStep`: the derivative with gates held, without the gates that a step of ReLU
    networks flips. Source: Seleznova (2024), theorem 4.1: the limit is 0 in the ordered phase
    and infinity in the chaotic phase. ``linsolve card NTKFirstStepLimit`` lists the published formulas and their
    verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> law = ls.laws.NTKFirstStepLimit(ratio=0.5, biases=1.0)
    >>> limit, deep = law.approximation(np, 1e-3), law.exact(np, 1e-3)  # depth 500, width 1000
    >>> {name: round(float(deep[name] / limit[name]), 1) for name in limit}
    {'ordered': 1.0, 'edge of chaos': 1.0, 'chaotic': 1.0}
    """

    biases: Any = parameter(r"\alpha", "mean of the biases' part over that of the weights'", domain="(0, inf)")
    slope: Any = parameter("s", "slope of the units at negative arguments", default=0.0)

    approximates: ClassVar[str] = "NTKFirstStep of deep networks, as their width grows"
    unapplied: ClassVar[str] = "a limit of large depth and width of an average over random starts"
    orders: ClassVar[dict[str, float]] = dict.fromkeys(PHASES, 1.0)
    scales: ClassVar[tuple[float, ...]] = (1e-3, 5e-4, 2.5e-4)
    gains: ClassVar[tuple[float, ...]] = (0.6, 1.0, 3.0)

    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the three limits."""
        _, c = spread(self.slope)
        return {
            name: limits.first_step(xp, name, self.ratio, c, self.biases, gain)
            for name, gain in zip(PHASES, self.gains, strict=True)
        }

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the exact sums at width ``1/small``, for `gains` ``a`` below, at and above 1, in their units."""
        width, depth = self.sizes(xp, small)
        widths = width * xp.ones((len(self.gains), depth))
        gains, units = xp.asarray(self.gains), 0 * widths + 1
        # an input of width M whose squared norm gives the ratio alpha
        given = (
            widths, gains / spread(self.slope)[0], self.slope, units, units, 1 / self.biases
        )  # fmt: skip
        relative = first_step.log_change(xp, *given)[:, -1] - log_moments(xp, *given).log_mean(xp)[:, -1]
        powers = xp.log(gains) * xp.asarray([depth, 0, depth - 1])
        values = xp.exp(relative - powers) * xp.stack([width, 1.0 / depth, 1.0 / depth])
        return dict(zip(PHASES, values, strict=True))

    @classmethod
    def example(cls, rng: np.random.Generator) -> NTKFirstStepLimit:
        """Return ReLU networks about half as deep as wide."""
        return cls(ratio=rng.integers(2, 9) / 10, biases=rng.uniform(0.5, 2.0))
