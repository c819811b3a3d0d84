"""The hierarchical data set of Saxe, McClelland and Ganguli (2019): items at the leaves of a balanced binary tree."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from linsolve.data.dataset import Dataset

__all__ = ["tree"]

MOST_LEVELS = 9  # 512 items; whitening that many one-hot inputs takes seconds


def tree(levels: int = 3) -> Dataset:
    r"""Return items at the leaves of a balanced binary tree, with a feature for every branch.

    Item ``i`` of :math:`P = 2^n` is a one-hot input. Its target is 1 for each of the ``n`` branches on the path from
    the root to its leaf, else 0, so that items share the features of common branches. The root has no feature, which
    would be constant. With centering, the default of ``data.modes``, the singular values are

    .. math:: s_j = \sqrt{(2^{n-j} - 1) / P}, \qquad j = 0, \dots, n - 1, \quad 2^j \text{ times each}:

    There is one mode for each branching, positive on one side and negative on the other. The broadest branchings have
    the largest singular values. A deep linear network learns the modes in this order, broad before narrow: progressive
    differentiation.

    Parameters
    ----------
    levels : int
        ``n``, 1 to 9.

    Returns
    -------
    Dataset
        ``P`` samples, ``P`` inputs, ``2 P - 2`` real targets, level after level from the root.

    Raises
    ------
    ValueError
        If `levels` is not an integer from 1 to 9.

    Notes
    -----
    Source: Saxe, McClelland, Ganguli, "A mathematical theory of semantic development in deep neural networks" (2019),
    hierarchical data set of canary, salmon, oak and rose (``levels = 2``), without the feature common to all. The
    singular values follow from ``Y Y^T``, the numbers of branches shared by pairs of items: a vector that is 1 and -1
    on the two sides of a branching at depth ``j`` is an eigenvector with eigenvalue ``sum over l > j of 2^(n-l)``.

    Examples
    --------
    >>> from linsolve import data
    >>> animals = data.tree(2)
    >>> animals.targets.astype(int).tolist()
    [[1, 0, 1, 0, 0, 0], [1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0], [0, 1, 0, 0, 0, 1]]
    >>> data.modes(animals.inputs, animals.targets).s.round(6).tolist()
    [0.866025, 0.5, 0.5]
    """
    return Dataset("tree", *items(levels), (), tuple(f"item {i + 1}" for i in range(2**levels)))


def items(levels: Any = 3) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and targets of `tree`."""
    try:
        count = operator.index(levels)
    except TypeError:
        count = 0
    if isinstance(levels, bool) or not 1 <= count <= MOST_LEVELS:
        raise ValueError(
            f"data.tree: levels = {levels!r} must be a whole number from 1 to {MOST_LEVELS} (branchings from the root "
            "to a leaf); say 3"
        )
    leaves = np.eye(2**count)
    features = [np.repeat(np.eye(2**level), 2 ** (count - level), axis=0) for level in range(1, count + 1)]
    return leaves, np.hstack(features)
