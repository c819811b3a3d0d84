"""What the flows of one mode with hidden units share: the lengths of its two vectors of weights."""

from __future__ import annotations

from typing import Any

from linsolve.core.flow import Flow, observable
from linsolve.numerics.double_double import length

__all__ = ["HiddenUnits"]


class HiddenUnits(Flow):
    """A flow whose state has weights ``w`` and ``h``, shape batch + (d,), of d hidden units."""

    @observable(bounds="[0, inf)")
    def w_norm(self, xp: Any, z: Any) -> Any:
        """Return ``|w|``, shape batch."""
        return length(xp, z.w)

    @observable(bounds="[0, inf)")
    def h_norm(self, xp: Any, z: Any) -> Any:
        """Return ``|h|``, shape batch."""
        return length(xp, z.h)
