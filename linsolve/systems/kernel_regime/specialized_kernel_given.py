"""What is given to a specialized kernel, checked: entries by class, their symmetry, the sign of its eigenvalues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from linsolve.core.arguments import real_array
from linsolve.systems.kernel_regime.block_matrix import Blocks

__all__ = ["refuse_asymmetry", "refuse_negative", "refuse_unmatched", "three"]

_EPS = 2.0**-52
_MARGIN = 100  # by how much rounding may exceed it, in units of C eps, before it is called a mistake


def three(who: str, name: str, values: Any) -> np.ndarray:
    """Return the three numbers of a kernel: of a sample with itself, within a class, between classes."""
    found = np.asarray(real_array(who, name, values, meaning="kernel with itself, within a class, between classes"))
    if found.shape != (3,):
        raise ValueError(
            f"{who}: {name} has shape {found.shape} but must be three numbers (kernel of a sample with itself, within "
            "a class, between classes); say (2.0, 1.0, 0.5)"
        )
    return found


def refuse_asymmetry(who: str, pairs: np.ndarray) -> None:
    """Refuse values of pairs of classes that depend on their order."""
    bad = np.argwhere(pairs != np.swapaxes(pairs, -1, -2))
    if len(bad):
        *batch, i, j = bad[0].tolist()
        one, two = pairs[(*batch, i, j)], pairs[(*batch, j, i)]
        raise ValueError(
            f"{who}: pairs = {one:.17g} at [{i}, {j}] and {two:.17g} at [{j}, {i}] must be equal (kernel of two "
            "samples, in either order); if that is rounding, pass (pairs + pairs.T) / 2"
        )


def refuse_unmatched(who: str, values: Mapping[str, np.ndarray]) -> None:
    """Refuse batches that do not broadcast."""
    own = {"diagonal": 1, "pairs": 2, "sizes": 1, "eta": 0}
    shapes = [v.shape[: v.ndim - own[name]] for name, v in values.items()]
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"{who}: batch shapes = {shapes} do not broadcast; leading axes must match") from None


def refuse_negative(who: str, blocks: Blocks) -> None:
    """Refuse a kernel with a negative eigenvalue, of contrasts within a class or on class averages."""
    top = np.abs(blocks.values).max(axis=-1)
    least, where = blocks.values.min(axis=-1), blocks.values.argmin(axis=-1)
    bad = least < -_MARGIN * blocks.roots.shape[-1] * _EPS * top
    if bad.any():
        value, place = least[bad].min(), int(where[bad][least[bad].argmin()])
        of, raised = "on class averages", "diagonal"
        if place < blocks.roots.shape[-1]:
            of, raised = f"of contrasts within class {place}: diagonal - pairs", f"diagonal of class {place}"
        unit = 10 ** (np.floor(np.log10(-value)) - 2)
        raise ValueError(
            f"{who}: smallest eigenvalue of the kernel = {value:.6g} ({of}) must not be negative (tangent kernels are "
            f"positive semi-definite); raise {raised} by {np.ceil(-value / unit) * unit:.3g}"
        )
