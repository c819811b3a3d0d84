"""The tangent kernel of two inputs over that of one: its limit of large depth and width, and samples at any width."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linsolve.core.arguments import Interval, integer, real_array
from linsolve.core.randomness import seeded
from linsolve.numerics.checked import Argument, checked
from linsolve.systems.random_networks.input_sampling import sample_kernels
from linsolve.systems.random_networks.kernel_moments import ARGUMENTS, log_moments
from linsolve.systems.random_networks.standard_weights import standard_kernel

__all__ = ["PairRatio", "pair_limit", "pair_ratio"]

_NODES = 64  # of the spectral grid
_FIRST, _LAST = 1e-6, 1e3  # ratios below and above are evaluated by the expansion at their end


class PairRatio(NamedTuple):
    r"""Estimate of :math:`E \Theta(x, x') / E \Theta(x, x)`, its standard error, and the value at infinite width.

    Examples
    --------
    >>> from linsolve import ntk
    >>> found = ntk.pair_ratio(0, 1000, [20] * 5, 2.0, 0.5)
    >>> bool(abs(found.value - found.wide) < 0.1)
    True
    """

    value: float
    error: float
    wide: float


@checked(
    ARGUMENTS
    | {
        "cosine": Argument("cosine of the two inputs", "[-1, 1]"),
        "mean_square": Argument("mean square of the entries of an input", "[1e-150, 1e150]"),
        "slope": Argument("slope of the units at negative arguments", "[-1e30, 1e30]"),
    },
    single=True,
)
def pair_ratio(
    rng: Any,
    count: int,
    widths: Any,
    weight_variance: float,
    cosine: float,
    slope: float = 0.0,
    mean_square: float = 1.0,
) -> PairRatio:
    r"""Return :math:`E \Theta(x, x') / E \Theta(x, x)` over networks with zero initial biases, by exact sampling.

    The denominator is exact. The numerator is the mean of `count` exact draws (`sample_kernels`, at a cost linear in
    the widths), less the part of its error that is linear in the sampled diagonal, whose mean is known.

    Parameters
    ----------
    rng : numpy.random.Generator or int
    count : int
        Number of networks, at least 3.
    widths : array_like, shape (L,)
        :math:`n_0, \dots, n_{L-1}`; one output, standard weights.
    weight_variance : float
        :math:`\sigma_w^2`.
    cosine : float
        Cosine of the two inputs.
    slope : float
        Slope of the units at negative arguments: 0 for ReLU.
    mean_square : float
        :math:`|x|^2 / n_0` of both inputs.

    Returns
    -------
    PairRatio

    Raises
    ------
    ValueError
        If an argument is out of its range, or the units are dead in all but two networks.

    Notes
    -----
    No closed form is known for ReLU networks of three and more layers. In the chaotic phase the ratio is larger at
    finite width than at infinite width; `pair_limit` is its limit there.

    Source: Seleznova, thesis (2024), section 3.2, Theorem 3.3, (16)-(18), Figures 3 and 7.

    Examples
    --------
    >>> from linsolve import ntk
    >>> found = ntk.pair_ratio(0, 500, [40] * 20, 2.5, 0.0)  # chaotic phase, orthogonal inputs
    >>> bool(found.value > found.wide + 4 * found.error), round(found.wide, 2)
    (True, 0.31)
    """
    count = integer("pair_ratio", "count", count, meaning="networks, for a standard error", low=3, example=1000)
    rng = seeded("pair_ratio", rng)
    gram = mean_square * np.array([[1.0, cosine], [cosine, 1.0]])
    drawn = sample_kernels(rng, count, float(slope), gram, widths, weight_variance, 0.0)
    kernel = drawn.weights + drawn.biases
    own, pair = (kernel[:, 0, 0] + kernel[:, 1, 1]) / 2, kernel[:, 0, 1]
    one = np.ones(len(widths))
    logs = log_moments(np, widths, weight_variance, slope, one, one, mean_square * widths[0])
    mean = float(np.exp(logs.log_mean(np)[-1]))
    alive = int(np.sum(own > own.min() * (1 + 1e-12)))  # with dead units only the last bias learns
    if alive < 3 and not np.allclose(own, mean, rtol=1e-9, atol=0.0):
        rule = f"gives {alive} networks of living units (a standard error needs 3)"
        raise ValueError(f"pair_ratio: count = {count} {rule}; take more networks, or wider layers")
    centered, spread = own - own.mean(), float(np.var(own))
    share = float(centered @ pair) / (count * spread) if spread > 0 else 0.0
    rest = (pair - share * (own - mean)) / mean
    wide = _wide(gram, widths, weight_variance, float(slope))
    return PairRatio(float(rest.mean()), float(rest.std(ddof=2) / np.sqrt(count)), wide)


def _wide(gram: np.ndarray, widths: np.ndarray, weight_variance: float, slope: float) -> float:
    found = standard_kernel(np, slope, gram, widths, np.asarray(weight_variance), np.zeros(()))
    kernel = found.weights + found.biases
    return float(kernel[0, 1] / kernel[0, 0])


def pair_limit(ratio: Any) -> Any:
    r"""Return the limit of :math:`E \Theta(x, x') / E \Theta(x, x)` for ReLU units, ``L`` and ``M`` large.

    At fixed :math:`\lambda = L/M` in the chaotic phase, with zero initial biases and any inputs that are not parallel,
    the angle between the signals is :math:`\psi / M` with

    .. math:: d\psi = \Bigl(\mu \psi - \frac{\psi^2}{3\pi}\Bigr) dt + \sqrt2\, \psi\, dB, \qquad \psi(0) = \infty,
        \quad t = \ell / M,

    :math:`\mu = -2` under the weight :math:`|x|^2` of the layers before a term of the kernel. The layers after it carry
    a vector ``a`` at random to the signals (:math:`\mu = 0`), along their difference (:math:`\mu = 2`) or along ``x``
    (then the ratio is 1). With :math:`u = 1/\psi`, :math:`A_\mu = u^2 \partial_u^2 + [(2 - \mu) u + \frac{1}{3\pi}]
    \partial_u` and the expected ratios :math:`w_0, w_2` and their integral ``v``,

    .. math:: \dot w_0 = \Bigl(A_0 - \frac{1}{\pi u}\Bigr) w_0 + 2 (1 - w_0) + 2 (w_2 - w_0), \qquad
        \dot w_2 = \Bigl(A_2 - \frac{4}{3\pi u}\Bigr) w_2 + 2 (1 - w_2) - \frac{2}{3\pi u} w_0,

    .. math:: \dot v = A_{-2} v + w_0, \qquad w_0 = w_2 = 1, \; v = 0 \text{ at } t = 0, \qquad
        R(\lambda) = \frac{v(0, \lambda)}{\lambda} .

    Parameters
    ----------
    ratio : array_like
        :math:`\lambda = L/M \ge 0`, or inf.

    Returns
    -------
    array, shape of ratio
        From :math:`1/4 + 3\lambda/10` at 0 to :math:`1 - 3/(4\lambda)` at infinity.

    Raises
    ------
    ValueError
        If a ratio is negative or nan.

    Notes
    -----
    The equations are solved by a Chebyshev method in :math:`u/(u + c)` and an exponential of its matrix, to 1e-6. In
    the ordered phase the limit is 1. Convergence in ``L`` is slow, :math:`O(\log L / L)`: at finite width take
    `pair_ratio`. The bound 1/4 of Theorem 3.3 is reached at :math:`\lambda = 0` only.

    Source: Seleznova, thesis (2024), section 3.2, Theorem 3.3, (16), (17); the limit is derived here. The rates of one
    layer and the equations are checked in ``tests/systems/random_networks/test_input_pairs.py``.

    Examples
    --------
    >>> from linsolve import ntk
    >>> ntk.pair_limit([0.0, 0.25, 1.0, float("inf")]).round(5).tolist()
    [0.25, 0.32283, 0.5055, 1.0]
    """
    given = real_array("pair_limit", "ratio", ratio, meaning="depth over width", domain=Interval("[0, inf]"))
    given = np.asarray(given, dtype=np.float64)
    return np.reshape([_limit(float(value)) for value in given.ravel()], given.shape)


def _limit(ratio: float) -> float:
    from scipy.linalg import expm

    if ratio <= _FIRST:
        return 0.25 + 0.3 * ratio
    if ratio >= _LAST:
        return 1 - 0.75 / ratio
    # 3 pi u = c z / (1 - z) grows at first as the time does
    matrix, start = _equations(min(ratio, 20.0) / 2)
    return float((expm(ratio * matrix) @ start)[2 * _NODES] / ratio)


def _equations(c: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrix of the linear equations of ``w_0, w_2`` without their zeros at ``u = 0``, ``v`` and 1."""
    z, D = _chebyshev(_NODES)
    n, one = len(z), np.eye(len(z))
    along = (z * (1 - z))[:, None] * D  # u d/du
    drift = ((1 - z) ** 2 / c)[:, None] * D  # d/d(3 pi u)
    killed = np.zeros(n)
    killed[1:] = (1 - z[1:]) / (c * z[1:])  # 1 / (3 pi u)

    def generator(mu: float) -> np.ndarray:
        return along @ along + (1 - mu) * along + drift

    whole = np.zeros((3 * n + 1, 3 * n + 1))
    first, second, total = slice(0, n), slice(n, 2 * n), slice(2 * n, 3 * n)
    whole[first, first] = generator(0) - np.diag(3 * killed) - 4 * one
    whole[first, second], whole[first, -1] = 2 * one, 2
    whole[second, second] = generator(2) - np.diag(4 * killed) - 2 * one
    whole[second, first], whole[second, -1] = -np.diag(2 * killed), 2
    whole[total, total], whole[total, first] = generator(-2), one
    kept = np.delete(np.arange(3 * n + 1), [0, n])
    start = np.concatenate([np.ones(2 * n), np.zeros(n), np.ones(1)])
    return whole[np.ix_(kept, kept)], start[kept]


def _chebyshev(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Chebyshev nodes on [0, 1] and the matrix of derivatives."""
    k = np.arange(count + 1)
    nodes = np.sin(np.pi * k / (2 * count)) ** 2
    signs = np.where((k == 0) | (k == count), 2.0, 1.0) * (-1.0) ** k
    matrix = np.outer(signs, 1 / signs) / (nodes[:, None] - nodes + np.eye(count + 1))
    return nodes, matrix - np.diag(matrix.sum(axis=1))
