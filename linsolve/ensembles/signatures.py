"""Parameters of a function that can be axes of a grid."""

from __future__ import annotations

import inspect
from typing import Any

__all__ = ["named", "signature"]


def named(what: str, function: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function that can be given by name."""
    found = signature(what, function)
    return {name: p for name, p in found.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}


def signature(what: str, function: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function, refused where it is a flow, says nothing of them, or takes them by position.

    Raises
    ------
    TypeError
    """
    from linsolve.core.flow import Flow

    kind = function if isinstance(function, type) else type(function)
    if issubclass(kind, Flow):
        raise TypeError(
            f"sweep: {what} = {kind.__name__} is a flow; say what of it: sweeps.of(ls.{kind.__name__}, 'loss', t=1.0)"
        )
    try:
        found = dict(inspect.signature(function).parameters)
    except (TypeError, ValueError) as error:
        raise TypeError(f"sweep: {what} = {function!r} names no parameters; wrap it in a function") from error
    if nameless := [name for name, p in found.items() if p.kind is p.POSITIONAL_ONLY and p.default is p.empty]:
        raise TypeError(f"sweep: {what} takes {', '.join(nameless)} by position only; wrap it in a function")
    return found
