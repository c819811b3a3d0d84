"""Centering and whitening in the span of the data, and the singular modes of the whitened problem."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.arguments import boolean, real_array

__all__ = ["Modes", "Whitened", "modes", "samples", "whiten"]

EPS = float(np.finfo(float).eps)


class Modes(NamedTuple):
    """Singular modes of an input-output map, strongest first: ``target = u @ diag(s) @ v.T``.

    Parameters
    ----------
    u : ndarray, shape (n_out, k)
        Output directions.
    s : ndarray, shape (k,)
        Singular values, all above rounding.
    v : ndarray, shape (rank, k)
        Directions in the whitened inputs.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import data
    >>> animals = data.tree(2)
    >>> u, s, v = data.modes(animals.inputs, animals.targets)
    >>> u.shape, s.shape, v.shape
    ((6, 3), (3,), (3, 3))
    """

    u: np.ndarray
    s: np.ndarray
    v: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Whitened:
    """A data set with white inputs, made by `whiten`.

    Parameters
    ----------
    inputs : ndarray, shape (P, rank)
        White inputs: ``inputs.T @ inputs / P = I``.
    targets : ndarray, shape (P, n_out)
        Centered targets.
    target : ndarray, shape (n_out, rank)
        The target map, ``targets.T @ inputs / P``; it is the parameter `target` of `WhitenedTwoLayer`.
    offset : float
        The part of the mean loss that cannot be removed by a linear map:
        ``|targets - inputs @ W.T|^2 / (2 P) = |target - W|^2 / 2 + offset`` for every ``W``.
    transform : ndarray, shape (D, rank)
        ``inputs = (X - input_mean) @ transform``.
    input_mean, target_mean : ndarray, shapes (D,), (n_out,)
        Means removed by centering.
    dropped : tuple of int
        Constant input columns, which have no effect.
    tolerance : float
        Directions of the standardized inputs below this fraction of the strongest are dropped as rounding.

    Examples
    --------
    >>> from linsolve import data
    >>> problem = data.whiten([[0.0], [1.0], [2.0], [3.0]], [1.0, 3.0, 5.0, 7.0])  # y = 2 x + 1
    >>> weights, bias = problem.raw(problem.target)
    >>> weights.round(6).tolist(), bias.round(6).tolist()
    ([[2.0]], [1.0])
    """

    inputs: np.ndarray
    targets: np.ndarray
    target: np.ndarray
    offset: float
    transform: np.ndarray
    input_mean: np.ndarray
    target_mean: np.ndarray
    dropped: tuple[int, ...]
    tolerance: float

    @property
    def rank(self) -> int:
        """Numerical rank of the inputs."""
        return self.inputs.shape[1]

    def raw(self, product: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return `product` as a map ``(W, b)`` on the raw inputs, shapes (..., n_out, D) and (..., n_out).

        The network's output on a raw input ``x`` is ``W @ x + b``.
        """
        product = self._map("Whitened.raw", product)
        with np.errstate(over="ignore", invalid="ignore"):
            weights = product @ self.transform.T
            bias = self.target_mean - weights @ self.input_mean
        _refuse_nonfinite("Whitened.raw", product, weights, bias)
        return weights, bias

    def _map(self, who: str, product: Any) -> np.ndarray:
        product = real_array(who, "product", product, meaning="map of the white inputs")
        need = (len(self.target_mean), self.rank)
        if product.shape[-2:] != need:
            raise ValueError(
                f"{who}: product has shape {product.shape} but needs (..., {need[0]}, {need[1]}) (map of the white "
                "inputs); give one like target"
            )
        return product

    def predict(self, product: Any, X: Any) -> np.ndarray:
        """Return the outputs of the network, shape (..., P, n_out), on raw inputs of shape (P, D)."""
        who = "Whitened.predict"
        product, X = self._map(who, product), real_array(who, "X", X, meaning="raw inputs")
        if X.shape[-1:] != self.input_mean.shape or X.ndim > 2:
            raise ValueError(
                f"{who}: X has shape {X.shape} but needs (P, {len(self.input_mean)}) (raw inputs); give a sample a row"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            outputs = (X - self.input_mean) @ self.transform @ product.mT + self.target_mean
        _refuse_nonfinite(who, product, outputs)
        return outputs


def _refuse_nonfinite(who: str, product: np.ndarray, *results: np.ndarray) -> None:
    """Raise OverflowError if a result is not finite."""
    if not all(np.isfinite(v).all() for v in results):
        raise OverflowError(
            f"{who}: product of up to {np.abs(product).max():.3g} leaves the range of doubles when multiplied by the "
            "inputs (map of the white inputs); rescale it"
        )


def whiten(X: Any, Y: Any, *, center: bool = True) -> Whitened:
    r"""Whiten inputs in the span of the data, and express the targets in the white inputs.

    Columns are centered, divided by their standard deviation, and decomposed, ``X = U diag(sigma) V^T``; the white
    inputs are :math:`\sqrt P` times the columns of ``U`` with singular values above rounding. Standardization does not
    change the span, and makes the numerical rank independent of the units of the columns.

    Parameters
    ----------
    X : array_like, shape (P, D) or (P,)
        Inputs; constant columns are dropped and reported in `Whitened.dropped`.
    Y : array_like, shape (P, n_out) or (P,)
        Targets, one-hot or real.
    center : bool
        Whether to remove the means of inputs and targets first.

    Returns
    -------
    Whitened

    Raises
    ------
    ValueError
        If an entry is not finite or is masked, the lengths differ, there are fewer than two samples, all inputs or one
        target column are constant, inputs and targets are uncorrelated to rounding, or the spread of a column is so
        large or small (inputs beyond 1e300, targets beyond 1e150) that its square or inverse overflows.

    Notes
    -----
    A direction is kept where ``sigma > max(P, D) * eps * max(sigma)``, as in ``numpy.linalg.matrix_rank``.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import data
    >>> X = np.array([[0.0, 0.0], [2.0, 2.0], [0.0, 0.0], [2.0, 2.0]])  # two equal columns: one direction
    >>> problem = data.whiten(X, [1.0, 3.0, 1.0, 3.0])
    >>> problem.rank, abs(problem.target).round(12).tolist()
    (1, [[1.0]])
    """
    X, Y = samples("data.whiten", "X", X), samples("data.whiten", "Y", Y)
    center = boolean("data.whiten", "center", center, meaning="whether to remove the means")
    if len(X) != len(Y):
        raise ValueError(f"data.whiten: Y has {len(Y)} rows but X has {len(X)}; give one target for every sample")
    if len(X) < 2:
        raise ValueError("data.whiten: X has 1 row but at least 2 samples are needed; add data")
    centered, input_mean, spread = _standardize(X, center)
    dropped = tuple(int(i) for i in np.flatnonzero(spread == 0))
    if len(dropped) == X.shape[1]:
        raise ValueError("data.whiten: X is constant in every column; there is nothing to learn from")
    targets, target_mean = _center_targets(Y, center)
    for name, size, limit in (("X", spread[spread > 0], 1e300), ("Y", np.abs(targets).max(keepdims=True), 1e150)):
        _refuse_beyond(name, size, limit)
    kept = np.flatnonzero(spread)
    standard = centered[:, kept] / spread[kept]
    left, sigma, right = np.linalg.svd(standard, full_matrices=False)
    tolerance = max(X.shape) * EPS
    rank = int(np.count_nonzero(sigma > tolerance * sigma[0]))
    root = np.sqrt(len(X))
    inputs = root * left[:, :rank]
    transform = np.zeros((X.shape[1], rank))
    transform[kept] = root * (right[:rank].T / sigma[:rank]) / spread[kept, None]
    target = targets.T @ inputs / len(X)
    power = float(np.sum(targets**2) / len(X))
    if np.linalg.norm(target) <= tolerance * np.sqrt(power):
        raise ValueError("data.whiten: X and Y are uncorrelated; a linear network has nothing to learn from them")
    residual = targets - inputs @ target.T  # sum of squares; the difference of the two norms would cancel
    offset = float(np.sum(residual**2) / (2 * len(X)))
    return Whitened(inputs, targets, target, offset, transform, input_mean, target_mean, dropped, tolerance)


def modes(X: Any, Y: Any, *, center: bool = True) -> Modes:
    """Return the singular modes of the input-output map of a data set, in the order in which a network learns them.

    Parameters
    ----------
    X, Y, center
        As in `whiten`.

    Returns
    -------
    Modes
        Modes above rounding; centered one-hot targets of C classes have at most C - 1.

    Examples
    --------
    >>> from linsolve import data
    >>> data.modes([[0.0], [1.0], [2.0], [3.0]], [[0.0, 0.0], [1.0, 2.0], [2.0, 4.0], [3.0, 6.0]]).s.round(12).tolist()
    [2.5]
    """
    return modes_of(whiten(X, Y, center=center).target)


def modes_of(target: np.ndarray) -> Modes:
    """Return the singular modes of a map."""
    u, s, vt = np.linalg.svd(target, full_matrices=False)
    keep = s > max(target.shape) * EPS * s[0]
    return Modes(u[:, keep], s[keep], vt[keep].T)


def samples(who: str, what: str, values: Any) -> np.ndarray:
    """Return finite real samples as a (P, D) array of doubles; further axes (images) are flattened.

    Raises
    ------
    ValueError
        If the array is ragged, not made of real numbers, empty, or has an entry that is masked or not finite.
    """
    if np.ma.is_masked(values):
        raise ValueError(f"{who}: {what} is masked in places (missing); fill or remove them")
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{who}: {what} is not a rectangular array; give equally long rows") from None
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{who}: {what} has entries of type {array.dtype}, not real numbers; convert them first")
    if array.ndim == 0 or array.size == 0:
        raise ValueError(f"{who}: {what} has shape {array.shape}, which is empty; give one row for every sample")
    with np.errstate(over="ignore"):  # overflowing values raise as infinite
        array = array.reshape(len(array), -1).astype(float)
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        row, column = (int(i) for i in bad[0])
        more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        raise ValueError(
            f"{who}: {what}[{row}, {column}] = {array[row, column]} must be finite{more}; remove or fill it"
        )
    return array


def _standardize(X: np.ndarray, center: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return centered columns, their means and spreads; the spread is exactly 0 for a column that is constant."""
    size = np.abs(X).max(axis=0)
    unit = np.where(size > 0, size, 1.0)  # avoids overflow and underflow of the squares of extreme columns
    scaled = X / unit
    mean = scaled.mean(axis=0) if center else np.zeros(X.shape[1])
    centered = scaled - mean
    if center:  # centered twice: a mean far larger than the spread leaves its rounding error
        rest = centered.mean(axis=0)
        centered, mean = centered - rest, mean + rest
    spread = np.sqrt(np.mean(centered**2, axis=0))
    constant = np.ptp(scaled, axis=0) <= 4 * EPS if center else size == 0
    return centered * unit, mean * unit, np.where(constant, 0.0, spread * unit)


def _refuse_beyond(name: str, size: np.ndarray, limit: float) -> None:
    """Raise for spreads whose inverse, or targets whose square, overflows."""
    for value in size[(size > limit) | (size < 1 / limit)][:1]:
        raise ValueError(
            f"data.whiten: {name} varies by {value:.3g}, which must lie in [{1 / limit:g}, {limit:g}] (in double "
            "precision); rescale it"
        )


def _center_targets(Y: np.ndarray, center: bool) -> tuple[np.ndarray, np.ndarray]:
    centered, mean, spread = _standardize(Y, center)
    constant = np.flatnonzero(spread == 0)
    if len(constant):
        column = int(constant[0])
        raise ValueError(
            f"data.whiten: Y column {column} is constant (= {Y[0, column]:g}) and cannot be learned; remove it"
        )
    return centered, mean
