"""Errors of calls with an argument that does not exist: the call, the argument, the nearest name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from linsolve.core.arguments import unknown_name

__all__ = ["named_arguments"]

Function = TypeVar("Function", bound=Callable[..., Any])


def named_arguments(who: str | None = None, what: str = "argument") -> Callable[[Function], Function]:
    """Return a decorator of a function that raises TypeError with the nearest name for an unknown keyword.

    Parameters
    ----------
    who : str, optional
        Name of the call for the error; by default, the class of the object whose method it is.
    what : str
        Kind of its arguments.

    Examples
    --------
    >>> @named_arguments("trained")
    ... def trained(weights, rates=None):
    ...     return weights
    >>> trained([1.0], rate=0.1)
    Traceback (most recent call last):
    TypeError: trained: argument = 'rate' is unknown; did you mean 'rates'? one of rates, weights
    """

    def decorate(function: Function) -> Function:
        given = inspect.signature(function).parameters.values()
        known = [each.name for each in given if each.name != "self"]
        if any(each.kind is each.VAR_KEYWORD for each in given):
            return function

        @wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            for name in named:
                if name not in known and name != "self" and (who or args):  # Python reports a missing `self`
                    raise TypeError(unknown_name(who or type(args[0]).__name__, what, name, known))
            return function(*args, **named)

        return call  # type: ignore[return-value]

    return decorate
