"""The nearest block-structured matrix of an empirical tangent kernel, its distance, and its label-awareness."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import choice, shown
from linsolve.numerics.double_double import power_of_two
from linsolve.systems.kernel_regime.kernel_matrix import symmetric

__all__ = ["BlockFit", "fit_blocks"]


class BlockFit(NamedTuple):
    """Values of a block-structured kernel, its distance from the given one, and the score of its labels.

    Parameters
    ----------
    diagonal, within, between : array, shape batch
        Averages of the kernel over samples, over pairs in one class, and over pairs in different classes.
    distance : array, shape batch
        ``|K - B|_F / |K|_F``, ``B`` the kernel of these three values.
    score : array, shape batch
        Difference of the averages over pairs within and between classes, in units of its standard deviation under a
        uniformly random assignment of the same labels. It is 0 where the kernel has one value off the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import kernels
    >>> fit = kernels.fit_blocks(np.kron(np.eye(2), np.ones((3, 3))) + np.eye(6), [0, 0, 0, 1, 1, 1])
    >>> float(fit.diagonal), float(fit.within), float(fit.between), float(fit.distance), round(float(fit.score), 3)
    (2.0, 1.0, 0.0, 0.0, 3.0)
    """

    diagonal: Any
    within: Any
    between: Any
    distance: Any
    score: Any


def fit_blocks(kernel: Any, labels: Any, *, average: str = "samples") -> BlockFit:
    r"""Return averages of a tangent kernel on its diagonal, within and between classes, and its distance from blocks.

    .. math:: B = (d - w) I + (w - b)\, Y^\top Y + b\, 1 1^\top .

    Parameters
    ----------
    kernel : array_like, shape batch + (N, N)
        Tangent kernel of N samples, symmetric.
    labels : array_like, shape (N,)
        Class of each sample: numbers or strings, in any order.
    average : {"samples", "classes"}
        "samples" averages over all pairs: ``B`` is then the nearest kernel with blocks in the Frobenius norm. "classes"
        averages over the pairs of each class, then over classes, eq. (23) of the source. Both agree for classes of
        equal size.

    Returns
    -------
    BlockFit

    Raises
    ------
    ValueError
        If the kernel is not symmetric, labels do not fit, there are fewer than two classes or four samples, or no class
        (for ``average="classes"``, some class) has two samples.

    Notes
    -----
    Subtract from the kernel its mean off the diagonal, and set the diagonal to zero; let ``S`` be the sum of squares
    and ``R`` the sum of squared row sums of the rest. With ``s_ij = 1`` for samples of one class and random labels of
    the given class sizes, the sum of the rest over pairs within classes has mean 0 and variance

    .. math:: 2 S (\pi_2 - \pi_2^2) + 4 (R - S)(\pi_3 - \pi_2^2) + (2 S - 4 R)(\pi_4 - \pi_2^2), \quad
        \pi_2 = E s_{ij}, \; \pi_3 = E s_{ij} s_{ik}, \; \pi_4 = E s_{ij} s_{kl} .

    The difference of the averages over all pairs is proportional to this sum, so the ratio is its score.

    Source: Seleznova, thesis (2024), section 3.2, eq. (23) and Figure 4; the distance and the score are derived here.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import kernels
    >>> flow = kernels.BlockKernel(diagonal=2.0, within=1.0, between=0.5, sizes=[3, 2, 4])
    >>> fit = kernels.fit_blocks(flow.kernel(np), list("aaabbcccc"))
    >>> [round(float(v), 12) for v in fit[:4]]
    [2.0, 1.0, 0.5, 0.0]
    """
    who = "fit_blocks"
    kernel = symmetric(who, kernel)
    xp, n = arithmetic.namespace(kernel), kernel.shape[-1]
    sizes, y = _members(who, labels, n)
    choice(who, "average", average, ("samples", "classes"))
    pairs = sizes * (sizes - 1)
    if not (pairs.any() if average == "samples" else pairs.all()):
        raise ValueError(
            f"{who}: labels = {shown(labels)} must have {'a class' if average == 'samples' else 'in each class'} two "
            "samples or more (average over pairs of one class); add samples"
        )
    power = power_of_two(xp, xp.max(xp.abs(kernel), axis=(-2, -1)))
    scaled, y = kernel * power[..., None, None], arithmetic.cast(xp, y)
    diagonal, within, between, distance = _fitted(xp, scaled, y, sizes, average)
    return BlockFit(diagonal / power, within / power, between / power, distance, _score(xp, scaled, y, sizes))


def _members(who: str, labels: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return class sizes and membership, shape (C, N)."""
    if np.ma.is_masked(labels):
        raise ValueError(f"{who}: labels has masked entries (class of each row of the kernel); fill or drop them")
    try:
        found = np.asarray(labels)
    except ValueError:
        found = np.asarray(None)
    if found.shape != (n,) or found.dtype.kind not in "biufUS" or (found.dtype.kind == "f" and np.isnan(found).any()):
        raise ValueError(
            f"{who}: labels = {shown(labels)} must be {n} numbers or strings (class of each row of the kernel); give "
            "one a row"
        )
    names, index = np.unique(found, return_inverse=True)
    if len(names) < 2 or n < 4:
        raise ValueError(
            f"{who}: labels = {shown(labels)} must name at least two classes of at least four samples together "
            "(classes to compare); add samples"
        )
    y = (index == np.arange(len(names))[:, None]).astype(float)
    return y.sum(axis=1), y


def _fitted(xp: Any, k: Any, y: Any, sizes: np.ndarray, average: str) -> tuple[Any, Any, Any, Any]:
    """Return the three averages and the relative distance."""
    n, one = y.shape[1], xp.eye(y.shape[1], dtype=xp.float64)
    diagonal = xp.sum(k * one, axis=(-2, -1)) / n
    off = k * (1 - one)
    sums = y @ off @ xp.matrix_transpose(y)  # over pairs of classes
    inside = xp.sum(sums * xp.eye(len(sizes), dtype=xp.float64), axis=-1)
    outside = xp.sum(sums, axis=-1) - inside
    near, far = sizes * (sizes - 1), sizes * (n - sizes)
    if average == "samples":
        within, between = xp.sum(inside, axis=-1) / near.sum(), xp.sum(outside, axis=-1) / far.sum()
    else:
        within, between = (
            xp.sum(total / arithmetic.cast(xp, count), axis=-1) / len(sizes)
            for total, count in ((inside, near), (outside, far))
        )
    same = xp.matrix_transpose(y) @ y
    values = (v[..., None, None] for v in (diagonal, within, between))
    d, w, b = values
    rest = k - xp.where(one > 0, d, xp.where(same > 0, w, b))
    size, distance = (xp.sqrt(xp.sum(a**2, axis=(-2, -1))) for a in (k, rest))
    return diagonal, within, between, distance / xp.where(size > 0, size, xp.ones_like(size))


def _score(xp: Any, k: Any, y: Any, sizes: np.ndarray) -> Any:
    """Return the difference of pooled averages divided by its standard deviation under random labels."""
    n = y.shape[1]
    near = float((sizes * (sizes - 1)).sum())
    if not near:
        return 0 * k[..., 0, 0]
    off = 1 - xp.eye(n, dtype=xp.float64)
    k = (k - xp.sum(k * off, axis=(-2, -1), keepdims=True) / (n * (n - 1))) * off
    squares, rows = xp.sum(k**2, axis=(-2, -1)), xp.sum(xp.sum(k, axis=-1) ** 2, axis=-1)
    two = near / (n * (n - 1))
    three = (sizes * (sizes - 1) * (sizes - 2)).sum() / (n * (n - 1) * (n - 2))
    falling = (sizes * (sizes - 1) * (sizes - 2) * (sizes - 3)).sum()
    apart = near**2 - ((sizes * (sizes - 1)) ** 2).sum()
    four = (falling + apart) / (n * (n - 1) * (n - 2) * (n - 3))
    variance = (
        2 * squares * (two - two**2)
        + 4 * (rows - squares) * (three - two**2)
        + (2 * squares - 4 * rows) * (four - two**2)
    )
    same = xp.matrix_transpose(y) @ y
    gap = xp.sum(k * same, axis=(-2, -1))
    # rounding errors of a kernel with one value off the diagonal are no difference
    some = variance > 1e-24 * squares
    return xp.where(some, gap / xp.sqrt(xp.where(some, variance, xp.ones_like(variance))), xp.zeros_like(gap))
