"""Reductions of one observable over passes through the members of an ensemble."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

import numpy as np

__all__ = ["Gatherer", "OnePass", "TileFunction"]

TileFunction = Callable[[np.ndarray, np.ndarray | None], Any]


class Gatherer(Protocol):
    """Reduction of one observable over passes through the members.

    In each pass `question` returns a function of the values of a tile, an array of shape (rows, members), and of the
    mask of finite values (None if all are finite). Workers evaluate it in any order; `absorb` receives the results in
    the order of the tiles.
    """

    def question(self) -> TileFunction | None:
        """Return the function of a tile for the next pass, or None after the last."""

    def absorb(self, answer: Any) -> None:
        """Merge the result of the next tile."""

    def close(self) -> None:
        """End the pass."""

    def results(self) -> Mapping[str, np.ndarray]:
        """Return the results by name, each with the rows as its first axis unless noted."""


class OnePass:
    """Base of the reductions that need one pass; a subclass sets `of_tile`, the function of a tile."""

    of_tile: ClassVar[Any]
    closed = False

    def question(self) -> Any:
        """Return the function of a tile until the pass has ended, then None."""
        return None if self.closed else self.of_tile

    def close(self) -> None:
        """End the only pass."""
        self.closed = True
