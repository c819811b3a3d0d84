"""Errors of calls with an argument that does not exist, or without one that is needed: the call and its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from linsolve.core.arguments import unknown_name

__all__ = ["named_arguments"]

Function = TypeVar("Function", bound=Callable[..., Any])


def named_arguments(who: str | None = None, what: str = "argument") -> Callable[[Function], Function]:
    """Return a decorator of a function that raises TypeError for unknown, missing and superfluous arguments.

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
    >>> trained(rates=0.1)
    Traceback (most recent call last):
    TypeError: trained: weights is missing (argument); give weights
    """

    def decorate(function: Function) -> Function:
        given = [each for each in inspect.signature(function).parameters.values() if each.name != "self"]
        known = [each.name for each in given]
        if any(each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL) for each in given):
            return function
        own = len(inspect.signature(function).parameters) - len(given)  # `self`
        placed = [each.name for each in given if each.kind is not each.KEYWORD_ONLY]
        needed = [each.name for each in given if each.default is each.empty]
        usual = len(needed) if set(needed) <= set(placed) else -1  # positional arguments of a call without names

        def refuse(caller: str, count: int, named: dict[str, Any]) -> None:
            for name in named:
                if name not in known:
                    raise TypeError(unknown_name(caller, what, name, known))
            if count > len(placed):
                others = [name for name in known if name not in placed]
                fix = f"give {', '.join(others)} by name" if others else "leave the others out"
                raise TypeError(
                    f"{caller}: {count} arguments without a name ({what}s) must be at most {len(placed)}: "
                    f"{', '.join(placed)}; {fix}"
                )
            for name in placed[:count]:
                if name in named:
                    raise TypeError(f"{caller}: {name} is given twice ({what}); leave one of them out")
            missing = [name for name in needed if name not in placed[:count] and name not in named]
            if missing:
                verb = "is" if len(missing) == 1 else "are"
                call = ", ".join(name if name in placed else f"{name}=..." for name in needed)
                raise TypeError(f"{caller}: {', '.join(missing)} {verb} missing ({what}); give {call}")

        @wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            count = len(args) - own
            if count >= 0 and (named or count != usual):  # Python reports a missing `self`
                refuse(who or type(args[0]).__name__, count, named)
            return function(*args, **named)

        return call  # type: ignore[return-value]

    return decorate
