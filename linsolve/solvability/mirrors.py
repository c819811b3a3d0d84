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

LINE = 1e-13  # directions that differ by less are one line up to rounding
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

    Points at the origin, or closer to it than `least` times the farthest, do not count. A point that is alone on its
    line is compared with the mirror image of its nearest candidate; other lines have the distances of their two sums.
    Lines merge up to rounding, and again up to `tolerance`, where near copies of a point count as copies. The distance
    is the larger of both; for a set of mirrored pairs that are moved a little it does not depend on `tolerance`.
    """
    if not points.any():
        return Mirror(0.0)
    points = points / np.abs(points).max()
    values = values / (norm(values) / np.sqrt(len(values)) or 1.0)
    sizes = np.linalg.norm(points, axis=1)
    kept = np.flatnonzero(sizes > least * sizes.max())
    found = (_distance(points / sizes.max(), values, kept, line) for line in (LINE, max(tolerance, LINE)))
    return max(found, key=lambda each: each.distance)


def _distance(points: np.ndarray, values: np.ndarray, kept: np.ndarray, line: float) -> Mirror:
    """Return the distance of the points `kept`; directions that differ by less than `line` are one line."""
    sizes = np.linalg.norm(points[kept], axis=1)
    # a generic linear function tells lines and their two sides apart
    key = points[kept] / sizes[:, None] @ np.random.default_rng(0).normal(size=points.shape[1])
    order = np.argsort(np.abs(key), kind="stable")
    kept, sizes, side = kept[order], sizes[order], np.where(key[order] < 0, -1.0, 1.0)
    first = np.flatnonzero(np.diff(np.abs(key[order]), prepend=-np.inf) > line)

    def summed(each: np.ndarray) -> np.ndarray:
        return np.add.reduceat(each, first, axis=0)

    squares = np.abs(summed(side * sizes**2)) / summed(sizes**2)
    moments = np.linalg.norm(summed(sizes[:, None] * values[kept]), axis=1) / summed(sizes)
    alone = np.abs(summed(side)) == summed(np.ones_like(side))
    both = np.where(alone, 0.0, np.maximum(squares, moments))
    worst = int(np.argmax(both))
    found = [Mirror(float(both[worst]), int(kept[first[worst]]))]
    lone = kept[np.repeat(alone, np.diff(first, append=len(kept)))]
    found += [_nearest(points, values, lone, int(kept[i])) for i in first[alone][:SEARCHED]]
    return max(found, key=lambda each: each.distance)


def _nearest(points: np.ndarray, values: np.ndarray, others: np.ndarray, point: int) -> Mirror:
    """Return the distance of a point from the mirror image of the nearest of the others, at least that of its sums."""
    joint = np.concatenate([points, values], axis=1)
    others = others[others != point]
    if not len(others):
        return Mirror(1.0, point)
    gaps = np.linalg.norm(joint[others] + joint[point], axis=1)
    gap, other = float(gaps.min()), int(others[np.argmin(gaps)])
    near, far = (float(np.linalg.norm(points[each])) for each in (point, other))
    ratio = min(near, far) / max(near, far)
    squares = (1 - ratio**2) / (1 + ratio**2)
    moments = float(np.linalg.norm(near * values[point] + far * values[other])) / (near + far)
    return Mirror(min(max(gap / float(np.linalg.norm(joint[point])), squares, moments), 1.0), point, other)
