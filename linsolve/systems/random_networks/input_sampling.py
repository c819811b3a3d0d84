"""Exact sampling of the tangent kernel of several inputs, without drawing the weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linsolve.core.arguments import integer, refuse_beyond_memory, shown
from linsolve.core.matrix_arguments import semidefinite
from linsolve.core.randomness import seeded
from linsolve.numerics.checked import Argument, checked, in_range
from linsolve.systems.random_networks.mean_field import Activation, named

__all__ = ["KernelDraws", "sample_kernels"]

MOST = 1 << 28  # largest number of normal numbers, minutes of work
NULL = 1e-13  # eigenvalues below this share of the largest are zero: equal, opposite or dead inputs


class KernelDraws(NamedTuple):
    """Outputs and tangent kernels of random networks.

    Parameters
    ----------
    outputs : ndarray, shape (draw, sample)
    weights, biases : ndarray, shape (draw, sample, sample)
        The two parts of the tangent kernel, which is their sum.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import ntk
    >>> drawn = ntk.sample_kernels(0, 1000, "linear", np.eye(2), [2], 1.0, 0.0)
    >>> drawn.weights[0].tolist()  # one layer: the products of the inputs
    [[2.0, 0.0], [0.0, 2.0]]
    """

    outputs: np.ndarray
    weights: np.ndarray
    biases: np.ndarray


@checked(
    {
        "gram": Argument("x.x'/n_0 of the inputs", axes=("sample", "sample")),
        "widths": Argument("input and hidden widths", f"[1, {2**31}]", ("layer",), whole=True),
        "weight_variance": Argument("variance of the weights times fan-in", "[1e-300, inf)"),
        "bias_variance": Argument("variance of the biases", "[0, inf)"),
    },
    single=True,
)
def sample_kernels(
    rng: Any,
    count: int,
    activation: Activation | str | float,
    gram: Any,
    widths: Any,
    weight_variance: float,
    bias_variance: float,
) -> KernelDraws:
    r"""Draw outputs and tangent kernels of random networks at k inputs, exactly, at a cost linear in the widths.

    Forward, the rows of :math:`h^\ell` are independent normal vectors with covariance
    :math:`s^2 G^{\ell-1} + \sigma_b^2 J`, :math:`s^2 = \sigma_w^2/n_{\ell-1}`, ``G`` the products of the activations.
    Backward, :math:`h` determines the weights of a layer along their inputs; orthogonal to these they are independent.
    With :math:`\bar x` the activations and a row :math:`\sigma_b/s`, and z of independent rows of covariance
    :math:`s^2 Q^{\ell+1}`,

    .. math:: Y = z + \bar x\, (\bar x^\top \bar x)^+ (B^\top - \bar x^\top z), \quad
        \delta^\ell = \phi'(h^\ell) \circ Y, \quad Q^\ell = \delta^\top \delta, \quad B^\ell = \delta^\top h^\ell,
        \qquad \Theta = \sum_\ell Q^\ell \circ (G^{\ell-1} + 1) .

    Parameters
    ----------
    rng : numpy.random.Generator or int
    count : int
        Number of networks.
    activation : Activation, str or float
        Units, see `linsolve.ntk.mean_field.named`.
    gram : array_like, shape (k, k)
        :math:`x \cdot x' / n_0`.
    widths : array_like, shape (L,)
        :math:`n_0, \dots, n_{L-1}`; one output.
    weight_variance, bias_variance : float
        :math:`\sigma_w^2`, positive, and :math:`\sigma_b^2`; standard weights.

    Returns
    -------
    KernelDraws
        The tangent kernel is the sum of ``weights`` and ``biases``.

    Raises
    ------
    ValueError
        If `gram` is not a Gram matrix, or an argument is invalid.

    Notes
    -----
    The law of explicit networks, for any unit (``tests/systems/random_networks/test_input_sampling.py``). Sample means
    of squares are unreliable for L/M > 0.3, as in `estimate_dispersion`, which gives their standard error.

    Source: Seleznova, thesis (2024), section 3.2, Theorem 3.3, (16)-(18), Figures 3, 7, 8; the sampler is derived here.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import ntk
    >>> gram = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> drawn = ntk.sample_kernels(0, 500, "relu", gram, np.full(10, 40), 2.5, 0.0)  # chaotic, orthogonal inputs
    >>> mean = drawn.weights.mean(axis=0)
    >>> bool(0.2 < mean[0, 1] / mean[0, 0] < 0.4)  # below Theorem 3.3's upper bound, 1
    True
    """
    who = "sample_kernels"
    unit = activation if isinstance(activation, Activation) else named(activation, who)
    count = integer(who, "count", count, meaning="networks", example=1000)
    rng, sizes, k = seeded(who, rng), [int(n) for n in widths], gram.shape[-1]
    refuse_beyond_memory(who, {"count": count, "widths": 2 * sum(sizes), "inputs": k}, "preactivations")
    if count * sum(sizes) * k > MOST:
        raise ValueError(
            f"{who}: widths = {shown(widths)} for {count} networks and {k} inputs make {count * sum(sizes) * k:.2g} "
            f"normal numbers but must make at most {MOST} (minutes); use smaller widths or fewer networks"
        )
    gram = np.asarray(gram)
    semidefinite(who, "gram", gram, meaning="x.x'/n_0 of the inputs", margin=1e-9)
    given = {"gram": gram, "weight_variance": weight_variance, "bias_variance": bias_variance}
    given |= {"activation": activation} if isinstance(activation, int | float | np.number) else {}
    bias, variances = float(bias_variance), [float(weight_variance) / n for n in sizes]

    def found() -> Any:
        try:
            return _drawn(rng, (count, unit, bias), gram, sizes, variances)
        except np.linalg.LinAlgError:  # of covariances that are subnormal or not finite
            return np.array(np.nan)

    return in_range(who, found, **given)


def _drawn(
    rng: np.random.Generator,
    network: tuple[int, Activation, float],
    gram: np.ndarray,
    sizes: list[int],
    variances: list[float],
) -> KernelDraws:
    """Return outputs and kernels of networks with a number of draws, a unit and a variance of the biases."""
    (count, unit, bias), k = network, gram.shape[-1]
    grams, hidden = [np.broadcast_to(gram * sizes[0], (count, k, k))], []
    for n, s in zip(sizes[1:], variances, strict=False):
        hidden.append(_normal(rng, n, s * grams[-1] + bias))
        x = unit.function(hidden[-1])
        grams.append(np.swapaxes(x, -1, -2) @ x)
    outputs = _normal(rng, 1, variances[-1] * grams[-1] + bias)[:, 0, :]
    q, b = np.ones((count, k, k)), np.broadcast_to(outputs[:, None, :], (count, k, k))
    weights, biases = q * grams[-1], q
    for layer in range(len(hidden) - 1, -1, -1):
        q, b = _back(rng, unit, hidden[layer], variances[layer + 1], bias, q, b)
        weights, biases = weights + q * grams[layer], biases + q
    return KernelDraws(outputs, weights, biases)


def _normal(rng: np.random.Generator, rows: int, covariance: np.ndarray) -> np.ndarray:
    """Return independent normal rows with a covariance for each draw, shape (draw, rows, k)."""
    values, vectors = np.linalg.eigh(covariance)
    root = np.sqrt(np.maximum(values, 0))[:, None, :] * vectors
    return rng.standard_normal((len(covariance), rows, covariance.shape[-1])) @ np.swapaxes(root, -1, -2)


def _back(
    rng: np.random.Generator, unit: Activation, h: np.ndarray, s: float, bias: float, q: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return ``Q`` and ``B`` of the layer with preactivations `h`, from those of the layer after it."""
    x, n = unit.function(h), h.shape[1]
    if bias:
        x = np.concatenate([x, np.full((len(h), 1, h.shape[2]), np.sqrt(bias / s))], axis=1)
    turned = np.swapaxes(x, -1, -2)
    z = _normal(rng, x.shape[1], s * q)
    known = np.linalg.pinv(turned @ x, rcond=NULL, hermitian=True) @ (np.swapaxes(b, -1, -2) - turned @ z)
    delta = unit.derivative(h) * (z + x @ known)[:, :n, :]
    back = np.swapaxes(delta, -1, -2)
    return back @ delta, back @ h
