"""Mean and mean square of the tangent kernel of random networks whose biases are random, too; exact, in O(L)."""

from __future__ import annotations

import functools
from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve.core.law import Statistic
from linsolve.core.parameters import parameter
from linsolve.numerics.checked import Argument, checked, in_range
from linsolve.systems.random_networks.input_sampling import sample_kernels
from linsolve.systems.random_networks.kernel_moments import ARGUMENTS

__all__ = ["BiasedMoments", "NTKMomentsWithBiases", "moments_with_biases"]

_ARGUMENTS = ARGUMENTS | {
    "bias_variance": ARGUMENTS["bias_variance"]._replace(domain="(0, inf)"),
    "mean_square": Argument("mean square of the entries of the input", "[0, inf)"),
}
_checked = functools.partial(checked, _ARGUMENTS)


class BiasedMoments(NamedTuple):
    """Logarithms of mean and mean square of the kernel, of shape ``batch + (L,)``, by depth 1 to L.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import ntk
    >>> found = ntk.moments_with_biases(np.full(50, 50), weight_variance=1.5, bias_variance=1.0)
    >>> float(np.exp(found.log_dispersion()[-1]).round(5))  # 50 ReLU layers of width 50, in the ordered phase
    1.36055
    """

    mean: Any
    square: Any

    def log_dispersion(self) -> Any:
        """Return the logarithm of ``E Theta^2 / (E Theta)^2``."""
        return self.square - 2 * self.mean


@_checked(logarithm=True)
def moments_with_biases(
    widths: Any,
    weight_variance: Any,
    bias_variance: Any,
    slope: Any = 0.0,
    mean_square: Any = 1.0,
) -> BiasedMoments:
    r"""Return the logarithms of ``E Theta`` and ``E Theta^2`` at one input, by depth, with random initial biases.

    For standard weights, :math:`h^\ell = W^\ell x^{\ell-1} + b^\ell`, :math:`b \sim N(0, \sigma_b^2)`, and
    piecewise-linear units of slopes 1 and ``s``, the norms have the law of a linear network with independent masks
    (flip a row of the weights together with its bias). With ``n`` the width of a layer, :math:`v = \sigma_w^2 /
    n_{\ell-1}`, :math:`N_2 = n (n-1) m_2^2`, :math:`N_4 = n m_4`, :math:`m_k = (1 + s^k)/2`, the squared norms
    :math:`X_1, X_2` and :math:`T, S, U`, the sums over earlier layers of the means of :math:`(|x|^2 + 1)` times
    :math:`\mathrm{tr}\, A A^T |x|^2`, :math:`x^T A A^T x`, :math:`\mathrm{tr}\, A A^T`, ``A`` the Jacobian since that
    layer, go from layer to layer as

    .. math:: X_1 \gets n m_2 (v X_1 + \sigma_b^2), \qquad
        X_2 \gets (N_2 + 3 N_4) (v^2 X_2 + 2 v \sigma_b^2 X_1 + \sigma_b^4),

    .. math:: T \gets N_2 v (v T + \sigma_b^2 U) + V + (N_2 + N_4) w_1, \quad S \gets V + N_2 v^2 S + N_4 w_1, \quad
        U \gets n m_2 (v U + w_0),

    :math:`V = N_4 [v^2 (T + 2 S) + v \sigma_b^2 U]`, :math:`w_0 = X_1 + 1`,
    :math:`w_1 = v (X_2 + X_1) + \sigma_b^2 w_0`, and with :math:`v' = \sigma_w^2 / n` of the layer after it

    .. math:: E\Theta \gets \sigma_w^2 m_2\, E\Theta + X_1 + 1, \qquad
        E\Theta^2 \gets v'^2 (N_2 + 3 N_4)\, E\Theta^2 + X_2 + 2 X_1 + 1 + 2 v' (T + U) .

    Parameters
    ----------
    widths : array_like, shape batch + (L,)
        :math:`n_0, \dots, n_{L-1}`; one output.
    weight_variance, bias_variance : array_like, shape batch
        :math:`\sigma_w^2` and :math:`\sigma_b^2`, both positive; for zero initial biases take `linsolve.ntk.moments`.
    slope : array_like, shape batch
        Slope of the units at negative arguments: 0 for ReLU, 1 for linear units.
    mean_square : array_like, shape batch
        :math:`|x^0|^2 / n_0`.

    Returns
    -------
    BiasedMoments

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Notes
    -----
    Exact at every width; all terms are positive. Source: Seleznova, thesis (2024), section 3.1, Figures 1(b), 2 and 7;
    the moments are derived here. For the law over networks see `NTKMomentsWithBiases`.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import ntk
    >>> found = ntk.moments_with_biases([1, 1], 1.0, 1.0, slope=1.0)  # linear units: (w x + b)^2 + 1 + w'^2 (x^2 + 1)
    >>> np.exp(found.mean).round(6).tolist()
    [2.0, 5.0]
    """
    norm = mean_square * widths[..., 0]
    return _moments(np, widths, weight_variance, bias_variance, slope, norm)


def _moments(xp: Any, widths: Any, weight_variance: Any, bias_variance: Any, slope: Any, norm: Any) -> BiasedMoments:
    """Return the logarithms.

    Squared lengths, the bias variance and 1 are in units of ``e^scale``, their squares in units of ``e^scale_2``, and
    `share` converts a product of two of the first into the second.
    """
    m2, m4 = (1 + slope**2) / 2, (1 + slope**4) / 2
    x1 = norm + 0 * (bias_variance * weight_variance * m2 * widths[..., 0])
    zero, unit = 0 * x1, xp.ones_like(x1)
    x2, share, bias = x1**2, unit, bias_variance * unit
    scale, scale_2, t, s, u, mean, square = (zero,) * 7
    means, squares = [], []
    for k in range(widths.shape[-1]):
        after = weight_variance / widths[..., k]
        if k:
            n, v = widths[..., k], weight_variance / widths[..., k - 1]
            n2, n4 = n * (n - 1) * m2**2, n * m4
            w0, spread = x1 + unit, share * bias
            w1 = v * (x2 + share * unit * x1) + spread * w0
            both = n4 * (v**2 * (t + 2 * s) + v * spread * u)
            t, s, u = (
                n2 * v * (v * t + spread * u) + both + (n2 + n4) * w1,
                both + n2 * v**2 * s + n4 * w1,
                n * m2 * (v * u + w0),
            )
            x2 = (n2 + 3 * n4) * (v**2 * x2 + spread * (2 * v * x1 + bias))
            x1 = n * m2 * (v * x1 + bias)
            mean, square = weight_variance * m2 * mean, after**2 * (n2 + 3 * n4) * square
        mean = mean + x1 + unit
        square = square + x2 + share * unit * (2 * x1 + unit) + 2 * after * (t + share * unit * u)
        means.append(xp.log(mean) + scale)
        squares.append(xp.log(square) + scale_2)
        size, size_2 = xp.maximum(mean, xp.ones_like(mean)), xp.maximum(square, xp.ones_like(square))
        scale, scale_2, share = scale + xp.log(size), scale_2 + xp.log(size_2), share * size * (size / size_2)
        x1, u, mean, unit, bias = (value / size for value in (x1, u, mean, unit, bias))
        x2, t, s, square = (value / size_2 for value in (x2, t, s, square))
    return BiasedMoments(xp.stack(means, axis=-1), xp.stack(squares, axis=-1))


class NTKMomentsWithBiases(Statistic):
    r"""Mean and mean square of the tangent kernel over random networks with random biases, exact at every width.

    See `linsolve.ntk.moments_with_biases`.

    Parameters
    ----------
    widths : array_like, shape (layer,)
        Input and hidden widths; one output.
    weight_variance, bias_variance : array_like
        :math:`\sigma_w^2`, times fan-in, and :math:`\sigma_b^2`.
    slope : array_like
        Slope of the units at negative arguments: 0 for ReLU, 1 for linear units.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, or shapes do not fit.

    Notes
    -----
    Exact; compared with exact draws of `linsolve.ntk.sample_kernels`, for an input with :math:`|x|^2 = n_0`. Source:
    Seleznova, thesis (2024), section 3.1, Figures 1(b), 2 and 7; derived here.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> law = ls.laws.NTKMomentsWithBiases(widths=[1, 1], weight_variance=1.0, bias_variance=1.0, slope=1.0)
    >>> {name: round(float(value), 6) for name, value in law.prediction(np).items()}
    {'kernel': 5.0, 'kernel squared': 41.0}
    """

    widths: Any = parameter("n", "input and hidden widths", domain="[1, inf)", axes=("layer",), whole=True)
    weight_variance: Any = parameter(r"\sigma_w^2", "variance of the weights times fan-in", domain="(0, inf)")
    bias_variance: Any = parameter(r"\sigma_b^2", "variance of the biases", domain="(0, inf)")
    slope: Any = parameter("s", "slope of the units at negative arguments", default=0.0)

    approximates: ClassVar[str] = "averages over random ReLU, leaky or linear networks with random biases"
    unapplied: ClassVar[str] = "an average over random biases; NTKMoments.of takes the widths of one network"
    draws: ClassVar[int] = 50_000

    def prediction(self, xp: Any) -> dict[str, Any]:
        """Return mean and mean square of the kernel."""

        def moments() -> tuple[Any, Any]:
            given = self.widths, self.weight_variance, self.bias_variance, self.slope, self.widths[..., 0]
            found = _moments(xp, *given)
            return xp.exp(found.mean[..., -1]), xp.exp(found.square[..., -1])

        values = in_range(type(self).__name__, moments, **self.parameters())
        return {"kernel": values[0], "kernel squared": values[1]}

    def sample(self, rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
        """Draw kernels."""
        drawn = sample_kernels(
            rng, count, float(self.slope), np.eye(1), self.widths, self.weight_variance, self.bias_variance
        )
        kernel = (drawn.weights + drawn.biases)[:, 0, 0]
        return {"kernel": kernel, "kernel squared": kernel**2}

    @classmethod
    def example(cls, rng: np.random.Generator) -> NTKMomentsWithBiases:
        """Return few layers of few units, ReLU or leaky."""
        return cls(
            widths=rng.integers(8, 13, 4),
            weight_variance=rng.uniform(1.0, 2.0),
            bias_variance=rng.uniform(0.5, 1.5),
            slope=rng.choice([0.0, 0.3]),
        )
