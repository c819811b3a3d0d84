r"""Distance of a set of points from mirror symmetry, as far as absolute values of linear functions detect it.

For points :math:`p = s r \hat p` on lines through the origin, :math:`s = \pm 1`, with values :math:`v_p`, the sums

.. math:: \sum_p p\, |w \cdot p|, \qquad \sum_p v_p\, |w \cdot p|

vanish for every :math:`w` if and only if :math:`\sum s r^2 = 0` and :math:`\sum v r = 0` on each line, because the
functions :math:`|w \cdot \hat p|` of different lines are linearly independent. A set that contains :math:`(-p, -v)` for
each :math:`(p, v)` has this property.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from linsolve.core.reduced_network import norm

__all__ = ["Mirror", "mirror"]

SEARCHED = 32  # points without a mirror image whose nearest candidate is found


class Mirror(NamedTuple):
    """Relative distance from mirror symmetry, the point that is farthest from it, and its best candidate.

    `other` is None if the line of the point has points on both sides, or if there is no other point.
    """

    distance: float
    point: int = 0
    other: int | None = None


def mirror(points: np.ndarray, values: np.ndarray, tolerance: float, least: float = 0.0) -> Mirror:
    """Return the relative distance from mirror symmetry of `points`, shape (n, d), with `values`, shape (n, m).

    Points at the origin, or closer to it than `least` times the farthest, do not count. Directions that differ by less
    than `tolerance` are one line.
    """
    if not points.any():
        return Mirror(0.0)
    points = points / np.abs(points).max()
    values = values / (norm(values) / np.sqrt(len(values)) or 1.0)
    sizes = np.linalg.norm(points, axis=1)
    kept = np.flatnonzero(sizes > least * sizes.max())
    sizes = sizes[kept]
    # a generic linear function tells lines and their two sides apart
    key = points[kept] / sizes[:, None] @ np.random.default_rng(0).normal(size=points.shape[1])
    order = np.argsort(np.abs(key), kind="stable")
    kept, sizes, side = kept[order], sizes[order], np.where(key[order] < 0, -1.0, 1.0)
    first = np.flatnonzero(np.diff(np.abs(key[order]), prepend=-np.inf) > max(tolerance, 1e-14))

    def summed(each: np.ndarray) -> np.ndarray:
        return np.add.reduceat(each, first, axis=0)

    squares = np.abs(summed(side * sizes**2)) / summed(sizes**2)
    moments = np.linalg.norm(summed(sizes[:, None] * values[kept]), axis=1) / summed(sizes)
    alone = np.abs(summed(side)) == summed(np.ones_like(side))
    both = np.where(alone, 0.0, np.maximum(squares, moments))
    worst = int(np.argmax(both))
    found = [Mirror(float(both[worst]), int(kept[first[worst]]))]
    joint = np.concatenate([points / sizes.max(), values], axis=1)
    found += [_nearest(joint, int(kept[i])) for i in first[alone][:SEARCHED]]
    return max(found, key=lambda each: each.distance)


def _nearest(joint: np.ndarray, point: int) -> Mirror:
    """Return the distance of a point's mirror image from the nearest other point, relative to the point."""
    gaps = np.linalg.norm(joint + joint[point], axis=1)
    gaps[point] = np.inf
    other = int(np.argmin(gaps))
    distance = min(float(gaps[other] / np.linalg.norm(joint[point])), 1.0)
    return Mirror(distance, point, other if np.isfinite(gaps[other]) else None)
