"""Error of a trained map on sequences with contexts of another length."""

from __future__ import annotations

from typing import Any

from linsolve import arithmetic
from linsolve.core.arguments import Interval, real_array
from linsolve.systems.attention.tokens import mean_error

__all__ = ["InContext"]


class InContext:
    """Base of flows of attention, which state their token variances and their map."""

    def _map(self, xp: Any, z: Any) -> tuple[Any, Any]:
        """Return the token variances, shape batch + (d,), and the map, shape batch + (d, d)."""
        raise NotImplementedError

    def test_error(self, xp: Any, z: Any, context: Any) -> Any:
        """Return the mean squared error ``E (y - yhat)^2`` on new sequences with contexts of another length.

        Parameters
        ----------
        xp : namespace
        z : State
        context : array_like
            Number of tokens in the new contexts; its shape broadcasts against the leading axes of the state.

        Returns
        -------
        array

        Raises
        ------
        ValueError
            If a context has less than one token, or is no number.
        """
        who, meaning = f"{type(self).__name__}.test_error", "tokens in a context"
        tokens = real_array(who, "context", context, meaning=meaning, domain=Interval("[1, inf]"))
        return mean_error(xp, arithmetic.cast(xp, tokens), *self._map(xp, z))
