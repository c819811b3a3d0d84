"""What was computed of arrays, kept for the next time that the same numbers are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

__all__ = ["Memory"]

Found = TypeVar("Found")
# up to so many numbers are kept: of more, what was computed is no longer much beside what it is computed for
KEPT = 2**20


class Memory:
    """The last answer to each of several questions, with copies of the arrays that were asked about.

    Arrays are compared by their numbers: one that was changed in place since is another. Of NumPy arrays only, and not
    of other arithmetics' arrays, which may hold the same numbers but ask for more digits. A copy or a pickle of a
    memory is empty; threads may share one, at worst they compute the same twice.
    """

    def __init__(self) -> None:
        self._last: dict[str, tuple[tuple[np.ndarray, ...], Any]] = {}

    def __reduce__(self) -> tuple[type[Memory], tuple[()]]:
        return Memory, ()

    def recall(self, question: str, answer: Callable[[], Found], *about: Any) -> Found:
        """Return the last answer to a question if it was about the same numbers, else a new one."""
        known = self._last.get(question)
        if known is not None and all(map(_same, known[0], about)):
            return known[1]
        found = answer()
        if all(type(a) is np.ndarray for a in about) and sum(a.size for a in about) <= KEPT:
            self._last[question] = tuple(a.copy() for a in about), found
        return found


def _same(known: np.ndarray, given: Any) -> bool:
    return type(given) is np.ndarray and known.dtype == given.dtype and np.array_equal(known, given)
