"""Checks of block-structured kernels: class sizes, entries by class, eigenvalues, test points."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import Interval, real_array, refuse_beyond_memory, refuse_fractions, rounded_up, shown
from linsolve.core.parameters import batch_shape
from linsolve.systems.kernel_regime.block_matrix import Blocks
from linsolve.systems.kernel_regime.kernel_matrix import MARGIN, refuse_infinite

__all__ = [
    "counted",
    "one_set",
    "refuse_asymmetry",
    "refuse_disorder",
    "refuse_drift",
    "refuse_mixed_batches",
    "refuse_negative",
    "test_points",
    "three",
]

_EPS = 2.0**-52


def counted(who: str, sizes: Any) -> tuple[int, bool]:
    """Return the number of samples and whether all classes have equal size; raise for fewer than two classes."""
    if arithmetic.is_traced(sizes):
        raise TypeError(f"{who}: sizes = {sizes} must be known numbers (samples of each class); use Python integers")
    sizes = arithmetic.to_numpy(sizes)
    if sizes.shape[-1] < 2:
        raise ValueError(
            f"{who}: sizes has {sizes.shape[-1]} entry but must have at least two (samples of each class); for one "
            "class use FrozenKernel"
        )
    with np.errstate(over="ignore"):
        totals = np.unique(sizes.sum(axis=-1))
    if len(totals) > 1:
        raise ValueError(
            f"{who}: sum of sizes = {totals[0]:g} and {totals[1]:g} must be the same over a batch (samples of all "
            "classes); make one flow for each number of samples"
        )
    count = int(min(totals[0], 2.0**1000))
    refuse_beyond_memory(who, {"sum of sizes": count, "classes": sizes.shape[-1]}, "membership of the samples")
    return count, bool((sizes == sizes.reshape(-1)[0]).all())


def one_set(who: str, sizes: Any) -> Any:
    """Return the sizes of the classes of one data set, checked."""
    meaning = "samples of each class"
    sizes = real_array(who, "sizes", sizes, meaning=meaning, domain=Interval("[1, inf)"))
    if sizes.ndim != 1:
        raise ValueError(f"{who}: sizes has shape {tuple(sizes.shape)} but needs one axis ({meaning}); say [2, 2]")
    refuse_fractions(who, "sizes", sizes, meaning)
    counted(who, sizes)
    return sizes


def refuse_mixed_batches(who: str, values: Mapping[str, np.ndarray], axes: Mapping[str, int]) -> None:
    """Raise if the batch axes of the entries, those before the own axes, do not broadcast."""
    batch_shape(who, {name: v.shape[: v.ndim - axes.get(name, 0)] for name, v in values.items()})


def refuse_disorder(who: str, values: Mapping[str, np.ndarray]) -> None:
    """Raise unless ``diagonal >= within >= between``."""
    for high, low in itertools.pairwise(("diagonal", "within", "between")):
        small, large = np.broadcast_arrays(values[low], values[high])
        bad = small > large
        if bad.any():
            raise ValueError(
                f"{who}: {low} = {small[bad][0]:g} must be at most {high} = {large[bad][0]:g} (kernels of samples that "
                "are farther apart are smaller); order them diagonal >= within >= between"
            )


def refuse_asymmetry(who: str, pairs: np.ndarray) -> None:
    """Raise if the values of pairs of classes are not symmetric."""
    bad = np.argwhere(pairs != np.swapaxes(pairs, -1, -2))
    if len(bad):
        *batch, i, j = bad[0].tolist()
        one, two = pairs[(*batch, i, j)], pairs[(*batch, j, i)]
        raise ValueError(
            f"{who}: pairs = {one:.17g} at [{i}, {j}] and {two:.17g} at [{j}, {i}] must be equal (kernel of two "
            "samples, in either order); if that is rounding, pass (pairs + pairs.T) / 2"
        )


def three(who: str, name: str, values: Any) -> np.ndarray:
    """Return the three values of a kernel: of a sample with itself, within a class, between classes."""
    meaning = "kernel of a sample with itself, within a class, between classes"
    found = np.asarray(real_array(who, name, values, meaning=meaning))
    if found.shape != (3,):
        raise ValueError(f"{who}: {name} has shape {found.shape} but must be three numbers ({meaning}); say 2, 1, 0.5")
    if not found[0] >= 0:
        raise ValueError(f"{who}: {name} = {found[0]:g} at index (0,) must lie in [0, inf) ({meaning}); say 2, 1, 0.5")
    return found


def refuse_negative(
    who: str,
    blocks: Blocks,
    fix: str,
    *,
    kernel: str = "the kernel",
    contrasts: str = "raise diagonal of class {place} by {size}",
) -> None:
    """Raise if an eigenvalue is negative beyond rounding, or overflows; `contrasts` is the fix for contrasts."""
    values, classes = np.asarray(arithmetic.to_numpy(blocks.values)), blocks.roots.shape[-1]
    refuse_infinite(who, values, kernel)
    top, least, where = np.abs(values).max(axis=-1), values.min(axis=-1), values.argmin(axis=-1)
    bad = least < -MARGIN * classes * _EPS * top
    if not bad.any():
        return
    value, place = float(least[bad].min()), int(where[bad][least[bad].argmin()])
    of = "on class averages"
    if place < values.shape[-1] - classes:
        of, fix = f"of contrasts within class {place}: diagonal - pairs", contrasts
    fix = fix.format(place=place, size=rounded_up(-value))
    raise ValueError(
        f"{who}: smallest eigenvalue of {kernel} = {value:.6g} ({of}) must not be negative (tangent kernels are "
        f"positive semi-definite); {fix}"
    )


def test_points(problem: Any, labels: Any, f0_x: Any) -> tuple[Any, Any]:
    """Return classes and initial outputs of test points as arrays of the query's library."""
    who, classes = f"{type(problem.flow).__name__}.predict", problem.flow.sizes.shape[-1]
    try:
        found = np.asarray(labels)
    except ValueError:
        found = np.asarray("ragged")
    if found.dtype.kind not in "iu" or found.ndim != 1 or found.size == 0:
        raise ValueError(
            f"{who}: labels = {shown(labels)} must be whole numbers, shape (k,) (class of each test point); say [0, 1]"
        )
    bad = (found < 0) | (found >= classes)
    if bad.any():
        raise ValueError(
            f"{who}: labels = {found[bad][0]} must lie in range({classes}) (class of each test point); count from 0"
        )
    outputs = real_array(who, "f0_x", f0_x, meaning="outputs at the test points at time 0")
    if outputs.ndim == 0 or outputs.shape[-1] != found.size:
        raise ValueError(
            f"{who}: f0_x has shape {tuple(outputs.shape)} but needs {found.size} as its last axis (test points in "
            "labels); give one output each"
        )
    return arithmetic.cast(problem.xp, found), arithmetic.cast(problem.xp, outputs)


def refuse_drift(problem: Any, blocks: Blocks, pull: Any) -> None:
    """Raise at ``t = inf`` if a null vector of the kernel changes test outputs, which then grow without bound.

    `pull`, shape batch + (k, C), is the effect of each mode of the class averages on each test point.
    """
    moves = np.abs(arithmetic.to_numpy(pull))
    null = np.asarray(arithmetic.to_numpy(blocks.averages) <= 0)[..., None, :]
    drifts = null & (moves > MARGIN * moves.shape[-1] * _EPS * moves.max())
    if np.isinf(arithmetic.to_numpy(problem.t)).any() and drifts.any():
        raise ValueError(
            f"{type(problem.flow).__name__}.predict: t = inf must be finite for this kernel (it is singular on class "
            "averages, and outputs at test points grow without bound); give a finite time"
        )
