"""Inputs and targets of a learning problem."""

from __future__ import annotations

import dataclasses

import numpy as np

__all__ = ["Dataset"]


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs and targets of a learning problem.

    Parameters
    ----------
    name : str
        Name of the data set.
    inputs : ndarray, shape (P, D)
        One sample per row.
    targets : ndarray, shape (P, n_out)
        Targets, one-hot for classes, otherwise real.
    classes : tuple of str
        Names of the classes in the order of the columns of `targets`; empty for real targets.
    features : tuple of str
        Names of the columns of `inputs`.
    test : (ndarray, ndarray), optional
        Inputs and targets of test samples, with the same columns.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import data
    >>> from linsolve.data import Dataset
    >>> x, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [3.0], [5.0]])
    >>> line = Dataset("line", inputs=x, targets=y, classes=(), features=("x",))
    >>> data.modes(line.inputs, line.targets).s.shape
    (1,)
    """

    name: str
    inputs: np.ndarray
    targets: np.ndarray
    classes: tuple[str, ...]
    features: tuple[str, ...]
    test: tuple[np.ndarray, np.ndarray] | None = None
