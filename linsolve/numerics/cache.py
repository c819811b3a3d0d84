"""A cache of results computed from arrays, compared by their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

__all__ = ["Memory"]

Found = TypeVar("Found")
KEPT = 2**20  # largest total size of the arguments of a cached result


class Memory:
    """The last result of each of several functions, with copies of its arguments.

    Arguments are compared by value, so that in-place changes are detected. Only NumPy arrays are cached: arrays of
    other arithmetics may contain equal numbers but require more digits. A copy or pickle of a `Memory` is empty.
    Threads may share a `Memory`; at worst a result is computed twice.
    """

    def __init__(self) -> None:
        self._last: dict[str, tuple[tuple[np.ndarray, ...], Any]] = {}

    def __reduce__(self) -> tuple[type[Memory], tuple[()]]:
        return Memory, ()

    def recall(self, question: str, answer: Callable[[], Found], *about: Any) -> Found:
        """Return the last result under the name `question` if its arguments had the same values, else ``answer()``."""
        known = self._last.get(question)
        if known is not None and all(map(_same, known[0], about)):
            return known[1]
        found = answer()
        if all(type(a) is np.ndarray for a in about) and sum(a.size for a in about) <= KEPT:
            self._last[question] = tuple(a.copy() for a in about), found
        return found


def _same(known: np.ndarray, given: Any) -> bool:
    return type(given) is np.ndarray and known.dtype == given.dtype and np.array_equal(known, given)
