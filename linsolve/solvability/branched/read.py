"""Reading of branched networks: checked layers, samples, contexts and gates."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.arguments import Interval, known_array, refuse_beyond_memory, refuse_shape, shown
from linsolve.core.network_arguments import coarsest
from linsolve.solvability.branched.branches import Branch, Branches
from linsolve.systems.gated.branched_weights import Wire

__all__ = ["is_branched", "read_branches"]

LARGEST_WEIGHT, LARGEST_DATA, SMALLEST_DATA = 1e30, 1e100, 1e-100
RATES = Interval("[1e-100, 1e100]")


def is_branched(weights: Any) -> bool:
    """Return whether the weights are branches, pairs of layers in a list."""
    pair = isinstance(weights, tuple | list) and len(weights) > 0 and isinstance(weights[0], tuple | list)
    return pair and len(weights[0]) > 0 and _nesting(weights[0][0]) >= 2


def _nesting(value: Any) -> int:
    """Return the number of axes of an array or of nested lists."""
    if isinstance(value, tuple | list):
        return 1 + (_nesting(value[0]) if len(value) else 0)
    return len(getattr(value, "shape", ()))


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
        _branch(who, k, pair, span, acting[k - 1], outputs.shape[1])
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
    rule = "must be a list of branches, each the pair [W1, W2] (layers of gated branches or of late fusion)"
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
    separate = isinstance(data[0], tuple) or (isinstance(data[0], list) and _nesting(data[0]) == 3)
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
            raise ValueError(f"{who}: {name} has shape {x.shape} but must be a matrix (a row a sample); reshape it")
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
                raise ValueError(
                    f"{who}: {name} of branch {k} has {size} {axis} but the samples have {wanted} {what} (they must "
                    "fit); check the order of branches, layers and axes"
                )
    return np.concatenate(arrays, axis=1), columns, outputs


def _gating(who: str, samples: int, count: int, contexts: Any, gates: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the context of each sample, and whether each branch acts in each context, shape (branches, contexts)."""
    if contexts is None:
        if gates is not None:
            raise ValueError(f"{who}: gates needs contexts (the context of each sample); give contexts as well")
        return np.zeros(samples, dtype=int), np.ones((count, 1), dtype=bool)
    labels = known_array(who, "contexts", contexts, meaning="context of each sample")
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
    for value in labels[(labels % 1 != 0) | (labels < 0) | (labels >= total)][:1]:
        rule = f"a whole number from 0 to {total - 1}"
        raise ValueError(f"{who}: contexts = {value:g} must be {rule} (there are {total} contexts); change it")
    for value in acting[(acting != 0) & (acting != 1)][:1]:
        raise ValueError(f"{who}: gates = {value:g} must be 0 or 1 (whether a branch acts in a context); change it")
    for context in np.flatnonzero(np.bincount(labels.astype(int), minlength=total) == 0)[:1]:
        raise ValueError(
            f"{who}: contexts lacks {context} (a context without samples, of {total}); leave its column of gates out, "
            "number contexts from 0, or add samples"
        )
    for context in np.flatnonzero(~acting.any(axis=0))[:1]:
        raise ValueError(
            f"{who}: gates has no 1 in column {context} (a context in which no branch acts; its samples are not "
            "learned); leave the column and its samples out"
        )
    for k in np.flatnonzero(~acting.any(axis=1))[:1]:
        raise ValueError(f"{who}: gates has no 1 in row {k} (branch {k + 1} acts in no context); leave the branch out")
    return labels.astype(int), acting.astype(bool)


def _branch(who: str, number: int, pair: Any, columns: tuple[int, int], acting: np.ndarray, n_out: int) -> Branch:
    first, last = pair
    contexts = tuple(int(k) for k in np.flatnonzero(acting))
    headed = last.ndim == 3
    if headed and len(last) != len(contexts):
        raise ValueError(
            f"{who}: W2 of branch {number} has shape {last.shape} but must be ({len(contexts)}, {n_out}, {len(first)}) "
            f"(one head for each of the {len(contexts)} contexts in which it acts) or ({n_out}, {len(first)}) (one for "
            "all); change gates or W2"
        )
    return Branch(number, first, last if headed else last[None], Wire(columns, contexts, headed))
