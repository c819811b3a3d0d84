"""What is given to a block-structured kernel, checked: class sizes, the order of its values, test points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import real_array, shown
from linsolve.systems.kernel_regime.block_matrix import Blocks

__all__ = ["counted", "refuse_disorder", "refuse_drift", "refuse_negative", "test_points"]

_EPS = 2.0**-52
_MARGIN = 100  # by how much rounding may exceed it, in units of N eps, before it is called a mistake


def counted(who: str, sizes: np.ndarray) -> tuple[int, bool]:
    """Return the number of samples and whether all classes are of one size; refuse fewer than two classes."""
    if sizes.shape[-1] < 2:
        raise ValueError(
            f"{who}: sizes has {sizes.shape[-1]} entry but must have at least two (samples of each class); for one "
            "class use FrozenKernel"
        )
    totals = np.unique(sizes.sum(axis=-1))
    if len(totals) > 1:
        raise ValueError(
            f"{who}: sum of sizes = {totals[0]:g} and {totals[1]:g} must be the same over a batch (samples of all "
            "classes); make one flow for each number of samples"
        )
    return int(totals[0]), bool((sizes == sizes.reshape(-1)[0]).all())


def refuse_disorder(who: str, values: Mapping[str, np.ndarray]) -> None:
    """Refuse values that are not ordered, and batches that do not broadcast."""
    shapes = [v.shape[:-1] if name == "sizes" else v.shape for name, v in values.items()]
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"{who}: batch shapes = {shapes} do not broadcast; leading axes must match") from None
    for low, high in (("within", "diagonal"), ("between", "within")):
        small, large = np.broadcast_arrays(values[low], values[high])
        bad = small > large
        if bad.any():
            raise ValueError(
                f"{who}: {low} = {small[bad][0]:g} must be at most {high} = {large[bad][0]:g} (kernels of samples that "
                "are farther apart are smaller); order them diagonal >= within >= between"
            )


def refuse_negative(who: str, values: np.ndarray) -> None:
    """Refuse a kernel with a negative eigenvalue, which an ordered kernel has only for a negative `between`."""
    top, least = values.max(axis=-1), values.min(axis=-1)
    bad = least < -_MARGIN * values.shape[-1] * _EPS * np.abs(top)
    if bad.any():
        raise ValueError(
            f"{who}: smallest eigenvalue of the kernel = {least[bad].min():.3g} must not be negative (for equal sizes "
            "it is diagonal - within + m (within - between) + N between); raise between"
        )


def test_points(problem: Any, labels: Any, f0_x: Any) -> tuple[Any, Any]:
    """Return classes and initial outputs of test points as arrays of the question's library."""
    who, classes = f"{type(problem.flow).__name__}.predict", problem.flow.sizes.shape[-1]
    found = np.asarray(labels)
    if found.dtype.kind not in "iu" or found.ndim != 1 or found.size == 0:
        raise ValueError(
            f"{who}: labels = {shown(labels)} must be whole numbers, shape (k,) (class of each test point)"
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
    """Refuse the limit where a null vector of the kernel still moves test outputs, which then drift for ever.

    `pull`, shape batch + (k, C), is how much each mode of the class averages moves each test point.
    """
    moves = np.abs(arithmetic.to_numpy(pull))
    null = np.asarray(arithmetic.to_numpy(blocks.averages) <= 0)[..., None, :]
    drifts = null & (moves > _MARGIN * moves.shape[-1] * _EPS * moves.max())
    if np.isinf(arithmetic.to_numpy(problem.t)).any() and drifts.any():
        raise ValueError(
            f"{type(problem.flow).__name__}.predict: t = inf must be finite for this kernel (it is singular on class "
            "averages, and outputs at test points grow for ever); ask for a finite time"
        )
