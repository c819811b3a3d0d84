"""Reading of branched networks: checked layers, samples, contexts and gates."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from linsolve.core.arguments import Interval, known_array, refuse_beyond_memory, refuse_shape, shown
from linsolve.core.network_arguments import coarsest
from linsolve.solvability.branched.branches import Branch, Branches
from linsolve.systems.gated.branched_weights import Wire

__all__ = ["axes_of", "paired", "read_branches", "refuse_unbranched"]

LARGEST_WEIGHT, LARGEST_DATA, SMALLEST_DATA = 1e30, 1e100, 1e-100
RATES = Interval("[1e-100, 1e100]")


RULE = "must be a list of branches, each the pair [W1, W2]"


def paired(weights: Any) -> Any:
    """Return branches as a list of pairs of layers, also those of one array, None for other weights."""
    whole = isinstance(weights, np.ndarray) and weights.dtype == object
    if (whole or getattr(weights, "ndim", 0) == 4) and weights.ndim >= 2 and weights.shape[1] == 2:
        return [[pair[0], pair[1]] for pair in weights]
    pair = isinstance(weights, tuple | list) and len(weights) > 0 and isinstance(weights[0], tuple | list)
    return weights if pair and len(weights[0]) > 0 and axes_of(weights[0][0]) >= 2 else None


def axes_of(value: Any) -> int:
    """Return the number of axes of an array or of nested lists."""
    if isinstance(value, tuple | list):
        return 1 + (axes_of(value[0]) if len(value) else 0)
    return len(getattr(value, "shape", ()))


def refuse_unbranched(who: str, weights: Any, data: Any, contexts: Any, gates: Any) -> None:
    """Raise ValueError if weights that are no branches have arguments of branches."""
    given = [name for name, value in (("contexts", contexts), ("gates", gates)) if value is not None]
    if given:
        raise ValueError(
            f"{who}: weights = {shown(weights)} {RULE}, because {' and '.join(given)} "
            f"{'are' if len(given) > 1 else 'is'} given (gated networks); pass [[W1, W2], ...], or leave "
            f"{' and '.join(given)} out for a network of layers"
        )
    inputs = data[0] if isinstance(data, tuple | list) and len(data) == 2 else None
    if isinstance(inputs, tuple | list) and axes_of(inputs) == 3:
        raise ValueError(
            f"{who}: weights {RULE}, because X is a {type(inputs).__name__} of {len(inputs)} arrays, one for each "
            "branch (late fusion); pass [[W1, W2], [W1, W2], ...], or one array X for a network of layers"
        )


def _array(who: str, name: str, value: Any, meaning: str, most: float) -> np.ndarray:
    found = known_array(who, name, value, meaning=meaning)
    size = float(np.abs(found).max())
    if size > most:
        raise ValueError(f"{who}: {name} reaches {size:.3g} but must not exceed {most:g} ({meaning}); rescale it")
    return found


def read_branches(who: str, weights: Any, data: Any, rates: Any, contexts: Any, gates: Any) -> Branches:
    """Return checked branches on checked samples."""
    pairs = _pairs(who, weights)
    inputs, columns, outputs = _samples(who, data, pairs)
    labels, acting = _gating(who, len(inputs), len(pairs), contexts, gates)
    refuse_beyond_memory(
        who, {"contexts": acting.shape[1], "columns": inputs.shape[1], "rows": inputs.shape[1]}, "moments of the inputs"
    )
    found = tuple(
        _branch(who, k, pair, span, acting[k - 1], outputs.shape[1], gated=contexts is not None)
        for k, (pair, span) in enumerate(zip(pairs, columns, strict=True), start=1)
    )
    for each in found:
        seen = inputs[np.isin(labels, each.contexts), each.columns]
        if not seen.any():
            raise ValueError(
                f"{who}: X of branch {each.number} = 0 must have an entry other than 0 in the contexts in which the "
                "branch acts (inputs; it learns nothing from them); leave the branch out"
            )
    meaning = "learning rates of first layers and heads"
    speeds = np.ones(2) if rates is None else known_array(who, "rates", rates, meaning=meaning, domain=RATES)
    refuse_shape(who, "rates", speeds, (2,), meaning=meaning, fix="give 2")
    given = data[0] if isinstance(data[0], tuple | list) and columns[-1][0] > 0 else [data[0]]
    precision = coarsest([*(w for pair in weights for w in pair), *given, data[1]])
    return Branches(found, inputs, outputs, labels, acting.shape[1], speeds, contexts is not None, precision)


def _pairs(who: str, weights: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the layers of all branches, the heads with two or three axes."""
    rule = f"{RULE} (layers of gated branches or of late fusion)"
    found = []
    for k, pair in enumerate(weights, start=1):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            what = f"{len(pair)} layers" if isinstance(pair, tuple | list) else f"a {type(pair).__name__}"
            raise ValueError(f"{who}: weights {rule}, but branch {k} is {what}; pass [[W1, W2], ...]")
        first, last = (
            _array(who, f"W{i} of branch {k}", w, "layer", LARGEST_WEIGHT) for i, w in enumerate(pair, start=1)
        )
        last = last[None] if last.ndim == 1 else last
        if first.ndim != 2 or last.ndim not in (2, 3):
            name, w = ("W1", first) if first.ndim != 2 else ("W2", last)
            shape = "(units, inputs)" if name == "W1" else "(outputs, units) or (contexts, outputs, units)"
            raise ValueError(f"{who}: {name} of branch {k} has shape {w.shape} but must be {shape}; reshape it")
        if last.shape[-1] != len(first):
            raise ValueError(
                f"{who}: W2 of branch {k} has shape {last.shape} but must have {len(first)} columns (the units of W1, "
                f"shape {first.shape}); order the layers from the first to the last"
            )
        found.append((first, last))
    return found


def _samples(who: str, data: Any, pairs: list[Any]) -> tuple[np.ndarray, list[tuple[int, int]], np.ndarray]:
    """Return all inputs, the columns of each branch, and the outputs."""
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise ValueError(
            f"{who}: data must be the pair (X, Y), not {shown(data)} (samples; X is one array that all branches read, "
            "or a tuple of one for each branch); pass (X, Y) as one argument"
        )
    if isinstance(data[0], Mapping):
        raise TypeError(
            f"{who}: X is a {type(data[0]).__name__} but must be an array, or a tuple of one for each branch (inputs); "
            "pass (tuple(X.values()), Y), in the order of the branches"
        )
    separate = isinstance(data[0], tuple) or (isinstance(data[0], list) and axes_of(data[0]) == 3)
    given = list(data[0]) if separate else [data[0]]
    if separate and len(given) != len(pairs):
        raise ValueError(
            f"{who}: X has {len(given)} arrays but weights has {len(pairs)} branches (inputs of each branch); give one "
            "array for each, or a single one that all branches read"
        )
    names = [f"X of branch {k}" for k in range(1, len(given) + 1)] if separate else ["X"]
    arrays = [_array(who, name, x, "inputs", LARGEST_DATA) for name, x in zip(names, given, strict=True)]
    outputs = _array(who, "Y", data[1], "outputs", LARGEST_DATA)
    outputs = outputs[:, None] if outputs.ndim == 1 else outputs
    for name, x in zip([*names, "Y"], [*arrays, outputs], strict=True):
        if x.ndim != 2:
            stacked = name == "X" and x.ndim == 3 and len(x) == len(pairs)
            fix = "pass (tuple(X), Y), an array for each branch" if stacked else "reshape it"
            raise ValueError(f"{who}: {name} has shape {x.shape} but must be a matrix (a row a sample); {fix}")
        if len(x) != len(arrays[0]):
            raise ValueError(
                f"{who}: {name} has {len(x)} rows but {names[0]} has {len(arrays[0])} (samples); give a row for each"
            )
    for name, x in zip(names, arrays, strict=True):
        if 0 < np.abs(x).max() < SMALLEST_DATA:
            raise ValueError(
                f"{who}: {name} reaches {np.abs(x).max():.3g} but must reach {SMALLEST_DATA:g} (inputs); rescale it"
            )
    ends = np.cumsum([0, *(x.shape[1] for x in arrays)])
    columns = [(int(ends[k]), int(ends[k + 1])) if separate else (0, int(ends[1])) for k in range(len(pairs))]
    for k, ((first, last), (begin, end)) in enumerate(zip(pairs, columns, strict=True), start=1):
        for name, size, wanted, axis in (
            ("W1", first.shape[1], end - begin, "columns"),
            ("W2", last.shape[-2], outputs.shape[1], "rows"),
        ):
            if size != wanted:
                what = "inputs" if name == "W1" else "outputs"
                fix = "check the order of branches, layers and axes"
                if name == "W1" and not separate:
                    fix = _cut(pairs, wanted) or fix
                raise ValueError(
                    f"{who}: {name} of branch {k} has {size} {axis} but the samples have {wanted} {what} (they must "
                    f"fit); {fix}"
                )
    return np.concatenate(arrays, axis=1), columns, outputs


def _cut(pairs: list[Any], columns: int) -> str:
    """Return the remedy of branches with separate inputs, "" if all branches take as many inputs."""
    sizes = [first.shape[1] for first, _ in pairs]
    ends = [0, *np.cumsum(sizes).tolist()]
    if len(pairs) == 1 or (len(set(sizes)) == 1 and ends[-1] != columns):
        return ""
    parts = ", ".join(f"X[:, {begin}:{end}]" for begin, end in pairwise(ends))
    given = f"({parts})" if ends[-1] == columns else "(X_a, X_b, ...)"
    return f"for late fusion pass ({given}, Y), an array for each branch"


def _labels(who: str, contexts: Any) -> np.ndarray:
    """Return the context of each sample as numbers; names raise."""
    fix = "pass numpy.unique(contexts, return_inverse=True)[1]"
    if isinstance(contexts, str) or (axes_of(contexts) and any(isinstance(each, str) for each in contexts)):
        raise TypeError(f"{who}: contexts = {shown(contexts)} must be whole numbers (context of each sample); {fix}")
    return known_array(who, "contexts", contexts, meaning="context of each sample")


def _gating(who: str, samples: int, count: int, contexts: Any, gates: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the context of each sample, and whether each branch acts in each context, shape (branches, contexts)."""
    if contexts is None:
        if gates is not None:
            raise ValueError(f"{who}: gates needs contexts (the context of each sample); give contexts as well")
        return np.zeros(samples, dtype=int), np.ones((count, 1), dtype=bool)
    labels = _labels(who, contexts)
    refuse_shape(
        who, "contexts", labels, (samples,), meaning="context of each sample", fix="give one for each row of X"
    )
    if gates is None:
        acting = np.ones((count, int(np.clip(labels.max(), 0, samples - 1)) + 1))
    else:
        acting = known_array(who, "gates", gates, meaning="whether each branch acts in each context")
    if acting.ndim != 2 or len(acting) != count:
        raise ValueError(
            f"{who}: gates has shape {acting.shape} but must be ({count}, contexts) (whether each branch acts in each "
            "context); give one row for each branch"
        )
    total = acting.shape[1]
    for (i,) in np.argwhere((labels % 1 != 0) | (labels < 0) | (labels >= total))[:1]:
        rule = f"a whole number from 0 to {total - 1} ({'columns of gates' if gates is not None else 'below P'})"
        raise ValueError(
            f"{who}: contexts[{i}] = {labels[i]:g} must be {rule}; number contexts from 0, by "
            "numpy.unique(contexts, return_inverse=True)[1]"
        )
    for k, context in np.argwhere((acting != 0) & (acting != 1))[:1]:
        raise ValueError(
            f"{who}: gates[{k}, {context}] = {acting[k, context]:g} must be 0 or 1 (whether branch {k + 1} acts in "
            f"context {context}); change it"
        )
    for context in np.flatnonzero(np.bincount(labels.astype(int), minlength=total) == 0)[:1]:
        raise ValueError(
            f"{who}: contexts lacks {context} (a context without samples, of {total}); leave its column of gates out, "
            "number contexts from 0 by numpy.unique(contexts, return_inverse=True)[1], or add samples"
        )
    for context in np.flatnonzero(~acting.any(axis=0))[:1]:
        raise ValueError(
            f"{who}: gates[:, {context}] has no 1 (no branch acts in context {context}; its samples are not learned); "
            "leave the column and its samples out"
        )
    for k in np.flatnonzero(~acting.any(axis=1))[:1]:
        raise ValueError(
            f"{who}: gates[{k}] has no 1 (branch {k + 1} acts in no context); leave the row and weights[{k}] out"
        )
    return labels.astype(int), acting.astype(bool)


def _branch(
    who: str, number: int, pair: Any, columns: tuple[int, int], acting: np.ndarray, n_out: int, *, gated: bool
) -> Branch:
    first, last = pair
    contexts = tuple(int(k) for k in np.flatnonzero(acting))
    headed = last.ndim == 3
    if headed and not gated and len(last) != 1:
        raise ValueError(
            f"{who}: W2 of branch {number} has shape {last.shape}, a head for each of {len(last)} contexts, but "
            f"contexts is missing (context of each sample); give contexts, or one head of shape ({n_out}, {len(first)})"
        )
    if headed and len(last) != len(contexts):
        raise ValueError(
            f"{who}: W2 of branch {number} has shape {last.shape} but must be ({len(contexts)}, {n_out}, {len(first)}) "
            f"(one head for each of the {len(contexts)} contexts in which it acts) or ({n_out}, {len(first)}) (one for "
            "all); change gates or W2"
        )
    return Branch(number, first, last if headed else last[None], Wire(columns, contexts, headed))
