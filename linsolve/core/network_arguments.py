"""Checked layers, second moments of the data and learning rates of a network.

They are copies, since values are evaluated later, when the caller may have changed the arrays.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.arguments import Interval, boolean, known_array, number, real_array, refuse_shape, shown
from linsolve.core.biases import Biases, read_biases
from linsolve.core.matrix_arguments import semidefinite

__all__ = ["Network", "coarsest", "meeting", "read", "read_tolerance", "refuse_unpaired"]

EPS = float(np.finfo(float).eps)
TOLERANCE = 1e-9
UNITS = 16  # tolerance of a condition on rounded numbers, in units of their rounding

Layer = tuple[str, Any, str, str]  # name, value, meaning and names of the axes


class Network(NamedTuple):
    """Linear network ``f(x) = W_L ... W_1 x`` under gradient flow of half the mean squared error.

    Parameters
    ----------
    weights : tuple of ndarray
        ``W_l``, shape (n_l, n_{l-1}).
    span : ndarray, shape (n_in, rank)
        Orthonormal basis of the span of the inputs, eigenvectors of their second moment.
    power : ndarray, shape (rank,)
        Eigenvalues, decreasing, all above rounding; one 0 if all inputs are 0.
    cross : ndarray, shape (n_out, n_in)
        ``Sigma_yx``.
    rates : ndarray, shape (L,)
        Learning rates.
    tolerance : float
        Relative distance up to which a condition holds; weaker directions are ignored.
    precision : str
        Coarsest floating-point type of the arguments, such as "float32".
    biases : tuple of (ndarray or None)
        Bias of each layer, shape (n_l,), None where it has none; empty if no layer has one.
    """

    weights: tuple[np.ndarray, ...]
    span: np.ndarray
    power: np.ndarray
    cross: np.ndarray
    rates: np.ndarray
    tolerance: float = TOLERANCE
    precision: str = "float64"
    biases: Biases = ()

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers of units: inputs, hidden layers, outputs."""
        return (self.weights[0].shape[1], *(len(w) for w in self.weights))

    def at(self, tolerance: float) -> Network:
        """Return the network with another tolerance, without the directions of the inputs that are weaker."""
        kept = np.sqrt(self.power) > tolerance * np.sqrt(self.power[0])
        return self._replace(span=self.span[:, kept], power=self.power[kept], tolerance=tolerance)


def read(
    who: str,
    weights: Any,
    data: Any,
    rates: Any,
    covariances: bool,
    tolerance: Any = None,
    names: Sequence[str] | None = None,
    bias: Any = None,
    *,
    idle: bool = False,
) -> Network:
    """Return the arguments of the caller `who` as a `Network`; errors name the layers W1, W2, ... or by `names`.

    With `idle` all inputs may be 0: the span is then one direction of power 0, and only biases learn.
    """
    layers, names = _layers(who, weights, names)
    covariances = boolean(who, "covariances", covariances, meaning="whether the data are moments")
    inputs, outputs = _pair(who, data, covariances)
    if not covariances:
        _refuse_swapped(who, layers, inputs, outputs)
    _refuse_unchained(who, layers, names, inputs.shape[1], outputs.shape[0 if covariances else 1])
    _refuse_misplaced(who, (inputs, outputs), (layers[0].shape[1], len(layers[-1])), covariances)
    biases = read_biases(who, bias, layers)
    if biases and covariances:
        raise ValueError(
            f"{who}: bias needs the means of the data, which second moments lack (bias of the layers); pass samples "
            "(X, Y), or leave it out"
        )
    precision = coarsest([*weights, *data, *(bias if isinstance(bias, list | tuple) else [])])
    tolerance = read_tolerance(who, tolerance, precision)
    moments = _moments if covariances else partial(_from_samples, idle=idle)
    span, power, cross = moments(who, inputs, outputs, layers[0].shape[1], len(layers[-1]), tolerance)
    return Network(layers, span, power, cross, _rates(who, rates, len(layers)), tolerance, precision, biases)


def meeting(who: str, first: Layer, second: Layer, counted: str) -> tuple[Any, Any]:
    """Return two matrices as real arrays, batch axes leading; raise unless they agree along the axis that both have.

    Parameters
    ----------
    who : str
        Name of the caller for error messages.
    first, second : tuple
        Name, value, meaning, and the names of the last two axes, such as ``"width, n_in"``; one of them is shared.
    counted : str
        Units along the shared axis.
    """
    matrices, sizes = [], []
    (shared,) = set(first[3].split(", ")) & set(second[3].split(", "))
    for name, value, meaning, axes in (first, second):
        a = real_array(who, name, value, meaning=meaning)
        if a.ndim < 2:
            raise ValueError(f"{who}: {name} has shape {tuple(a.shape)} but needs trailing axes ({axes}); add them")
        matrices.append(a)
        sizes.append(a.shape[-2:][axes.split(", ").index(shared)])
    if sizes[0] != sizes[1]:
        (one, *_, its), (other, *_, others) = first, second
        shapes = [tuple(a.shape) for a in matrices]
        raise ValueError(
            f"{who}: {shared} = {sizes[0]} in {one}, shape {shapes[0]}, must equal {shared} = {sizes[1]} in {other}, "
            f"shape {shapes[1]} ({counted}); {one} is ({its}), {other} is ({others})"
        )
    return matrices[0], matrices[1]


def coarsest(arrays: list[Any]) -> str:
    """Return the coarsest floating-point type of the arrays."""
    kinds = [np.asarray(each).dtype for each in arrays if each is not None]
    coarse = [kind for kind in kinds if kind.kind == "f" and np.finfo(kind).eps > EPS]
    return str(max(coarse, key=lambda kind: float(np.finfo(kind).eps))) if coarse else "float64"


def read_tolerance(who: str, given: Any, precision: str) -> float:
    """Return the checked tolerance of conditions, by default that of numbers of a precision."""
    if given is None:
        return max(TOLERANCE, UNITS * float(np.finfo(precision).eps)) if precision != "float64" else TOLERANCE
    meaning = "relative distance up to which a condition holds"
    return number(who, "tolerance", given, meaning=meaning, domain="[1e-15, 0.1]", example=1e-8)


def _refuse_swapped(who: str, layers: tuple[np.ndarray, ...], inputs: np.ndarray, outputs: np.ndarray) -> None:
    """Raise if the weights are samples of inputs and outputs, and the data two layers between them."""
    samples = len(layers) == 2 and len(layers[0]) == len(layers[1]) != layers[1].shape[1]
    if not samples or len(inputs) == len(outputs):
        return
    if outputs.shape[1] == len(inputs) and [len(a.T) for a in layers] == [inputs.shape[1], len(outputs)]:
        raise ValueError(
            f"{who}: weights have shapes {layers[0].shape} and {layers[1].shape}, and data {inputs.shape} and "
            f"{outputs.shape} (layers, and samples); weights and data are swapped: pass the layers first"
        )


def _refuse_unchained(who: str, layers: tuple[np.ndarray, ...], names: Sequence[str], n_in: int, n_out: int) -> None:
    """Raise if neighboring layers do not fit, or fit the data only when transposed or reversed."""
    first, last = layers[0].shape, layers[-1].shape
    pairs = list(itertools.pairwise(layers))
    back = all(before.shape[1] == len(after) for before, after in pairs)
    turned = back and (first[0], last[1]) == (n_in, n_out)
    reverse = back and len(layers) > 1 and (last[1], first[0]) == (n_in, n_out)
    fix = "order the layers from the first to the last"
    if turned and reverse:
        fix = "the layers are in reversed order, last to first, or transposed; order them from the first to the last"
    elif turned:
        fix = f"the layers are transposed: pass {', '.join(f'{name}.T' for name in names)}"
    elif reverse:
        fix = f"the layers are in reversed order, last to first: pass [{', '.join(reversed(names))}]"
    for i, (w, after) in enumerate(pairs):
        if after.shape[1] != len(w):
            raise ValueError(
                f"{who}: {names[i + 1]} has shape {after.shape} but must have {len(w)} columns (the units of "
                f"{names[i]}, shape {w.shape}); {fix}"
            )
    if (first[1], last[0]) != (n_in, n_out) and (turned or reverse):
        raise ValueError(
            f"{who}: {names[0]} has shape {first} but must be (units, {n_in}) (a layer acts on columns); {fix}"
        )


def _layers(who: str, weights: Any, names: Sequence[str] | None) -> tuple[tuple[np.ndarray, ...], Sequence[str]]:
    listed = isinstance(weights, Sequence | np.ndarray) and not isinstance(weights, str | bytes)
    if not listed or (isinstance(weights, np.ndarray) and weights.ndim == 0) or len(weights) == 0:
        raise ValueError(
            f"{who}: weights = {shown(weights)} must be a list W1, ..., WL (layers, first to last); pass [W1, W2]"
        )
    names = names or [f"W{i}" for i in range(1, len(weights) + 1)]
    layers = [_real(who, name, w, "layer", 1e30) for name, w in zip(names, weights, strict=True)]
    if layers[-1].ndim == 1 and (len(layers) == 1 or layers[-2].ndim == 2):
        layers[-1] = layers[-1][None]
    heads = [w.ndim for w in layers] in ([1, 3], [1, 2, 2])
    fix = "for heads of linear attention give context=, their number of tokens" if heads else "pass a list of matrices"
    for name, w in zip(names, layers, strict=True):
        if w.ndim != 2:
            raise ValueError(
                f"{who}: {name} has shape {w.shape} but must be (units, inputs of the layer) (a matrix; only the last "
                f"layer may be a vector); {fix}"
            )
    return tuple(layers), names


def _real(who: str, name: str, value: Any, meaning: str, most: float) -> np.ndarray:
    """Return a finite real array; raise if powers of its entries would overflow."""
    found = known_array(who, name, value, meaning=meaning)
    size = float(np.abs(found).max())
    if size > most:
        raise ValueError(f"{who}: {name} reaches {size:.3g} but must not exceed {most:g} ({meaning}); rescale it")
    return found


def refuse_unpaired(who: str, data: Any, covariances: bool) -> tuple[str, str]:
    """Return the names of a pair of data; raise for anything but a pair."""
    names = ("Sigma_xx", "Sigma_yx") if covariances else ("X", "Y")
    if not isinstance(data, tuple | list) or len(data) != 2:
        count = f" of {len(data)}" if isinstance(data, tuple | list) else ""
        raise ValueError(
            f"{who}: data must be the pair ({', '.join(names)}), not {type(data).__name__}{count} (samples, or second "
            f"moments); pass ({', '.join(names)}) as one argument, after the list of all layers"
        )
    return names


def _pair(who: str, data: Any, covariances: bool) -> tuple[np.ndarray, np.ndarray]:
    names = refuse_unpaired(who, data, covariances)
    first, second = (_real(who, name, value, "data", 1e100) for name, value in zip(names, data, strict=True))
    if first.ndim != 2:
        axes = "(n_in, n_in)" if covariances else "(samples, n_in)"
        raise ValueError(f"{who}: {names[0]} has shape {first.shape} but must be {axes} (a matrix); reshape it")
    if second.ndim == 1:  # one output
        second = second[None] if covariances else second[:, None]
    if second.ndim != 2:
        raise ValueError(f"{who}: {names[1]} has shape {second.shape} but must be a matrix or a vector; reshape it")
    return first, second


def _refuse_width(who: str, name: str, size: int, wanted: int, meaning: str) -> None:
    if size != wanted:
        raise ValueError(
            f"{who}: {name} has {size} {meaning} but the weights have {wanted} (they must fit); check the order of "
            "the layers and of the axes"
        )


def _refuse_misplaced(
    who: str, data: tuple[np.ndarray, np.ndarray], widths: tuple[int, int], covariances: bool
) -> None:
    """Raise ValueError for data that fit the weights only when transposed or swapped."""
    n_in, n_out = widths

    def fit(first: np.ndarray, second: np.ndarray) -> bool:
        if covariances:
            return first.shape == (n_in, n_in) and second.shape == (n_out, n_in)
        return first.shape[1] == n_in and second.shape[1] == n_out and len(first) == len(second)

    (a, b), names = data, ("Sigma_xx", "Sigma_yx") if covariances else ("X", "Y")
    if fit(a, b):
        return
    swapped = f"{names[0]} and {names[1]} are swapped: pass ({names[1]}, {names[0]})"
    turned = [f"{name} is transposed: pass {name}.T" for name in names]
    both = f"{names[0]} and {names[1]} are transposed: pass ({names[0]}.T, {names[1]}.T)"
    for first, second, fix in ((a.T, b, turned[0]), (a, b.T, turned[1]), (a.T, b.T, both), (b, a, swapped)):
        if fit(first, second):
            raise ValueError(
                f"{who}: {names[0]} has shape {a.shape} and {names[1]} {b.shape}, but the weights have {n_in} inputs "
                f"and {n_out} outputs (they must fit); {fix}"
            )


def _from_samples(
    who: str, X: np.ndarray, Y: np.ndarray, n_in: int, n_out: int, tolerance: float, *, idle: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return span, power and cross moment of samples from the SVD of the inputs, at full accuracy."""
    _refuse_width(who, "X", X.shape[1], n_in, "columns (inputs)")
    _refuse_width(who, "Y", Y.shape[1], n_out, "columns (outputs)")
    if len(X) != len(Y):
        raise ValueError(f"{who}: Y has {len(Y)} rows but X has {len(X)} (samples); give one target for every sample")
    if 0 < np.abs(X).max() < 1e-100:
        raise ValueError(f"{who}: X reaches {np.abs(X).max():.3g} but must reach 1e-100 (inputs); rescale it")
    if not X.any():
        if idle:
            return np.eye(n_in, 1), np.zeros(1), np.zeros((n_out, n_in))
        raise ValueError(
            f"{who}: X = 0 must have an entry other than 0 (inputs; weights learn nothing from it); biases alone are "
            "trained by linsolve.solve"
        )
    tall = len(X) > 2 * X.shape[1]  # then the triangle of X = Q R has the same singular values and right vectors
    _, sigma, vt = np.linalg.svd((np.linalg.qr(X, mode="r") if tall else X) / np.sqrt(len(X)), full_matrices=False)
    kept = sigma > max(max(X.shape) * EPS, tolerance) * sigma[0]
    return vt[kept].T, sigma[kept] ** 2, Y.T @ X / len(X)


def _moments(
    who: str, sxx: np.ndarray, syx: np.ndarray, n_in: int, n_out: int, tolerance: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    _refuse_width(who, "Sigma_xx", sxx.shape[1], n_in, "columns (inputs)")
    _refuse_width(who, "Sigma_xx", sxx.shape[0], n_in, "rows (inputs)")
    _refuse_width(who, "Sigma_yx", syx.shape[1], n_in, "columns (inputs)")
    _refuse_width(who, "Sigma_yx", syx.shape[0], n_out, "rows (outputs)")
    meaning = "second moment of the inputs"
    power, span = semidefinite(who, "Sigma_xx", sxx, meaning=meaning, margin=max(1e-10, tolerance))
    power, span = power[::-1], span[:, ::-1]
    if not power[0] > 0:
        raise ValueError(f"{who}: Sigma_xx = 0 must have an entry other than 0 ({meaning}); pass X.T @ X / P")
    loose = tolerance > TOLERANCE  # then rounding of the moments creates directions of this power
    kept = power > (tolerance if loose else 8 * n_in * EPS) * power[0]
    outside = float(np.linalg.norm(syx @ span[:, ~kept]))
    if outside > (np.sqrt(tolerance) if loose else 1e-8) * np.linalg.norm(syx):
        raise ValueError(
            f"{who}: part of Sigma_yx outside the span of Sigma_xx = {outside:.3g} must vanish (no data has one); pass "
            "Y.T @ X / P"
        )
    return span[:, kept], power[kept], syx


def _rates(who: str, rates: Any, depth: int) -> np.ndarray:
    if rates is None:
        return np.ones(depth)
    meaning = "one learning rate a layer"
    found = known_array(who, "rates", rates, meaning=meaning, domain=Interval("[1e-100, 1e100]"))
    refuse_shape(who, "rates", found, (depth,), meaning=meaning, fix=f"give {depth}")
    return found
