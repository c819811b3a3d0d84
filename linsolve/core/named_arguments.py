"""Errors of calls with an argument that does not exist, or without one that is needed: the call and its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, TypeVar

from linsolve.core.arguments import unknown_name

__all__ = ["named_arguments"]

Function = TypeVar("Function", bound=Callable[..., Any])


def named_arguments(
    who: str | None = None, what: str = "argument", *, bound: bool | None = None
) -> Callable[[Function], Function]:
    """Return a decorator of a function that raises TypeError for unknown, missing and superfluous arguments.

    Parameters
    ----------
    who : str, optional
        Name of the call for the error; by default, the class of the object whose method it is.
    what : str
        Kind of its arguments.
    bound : bool, optional
        Whether the first parameter is an object or a class; by default, whether it is called self.

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
        parameters = list(inspect.signature(function).parameters.values())
        if any(each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL) for each in parameters):
            return function
        of_object = bool(parameters) and parameters[0].name == "self" and bound is not False
        own = int(of_object if bound is None else bound)
        names = _Names.of(parameters[own:], what)
        # number of arguments of a call that gives what is needed by position
        usual = len(names.needed) if set(names.needed) <= set(names.placed) else -1

        @wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            count = len(args) - own
            if (named or count != usual) and not (of_object and "self" in named):
                if of_object and who is None and not _is_of(function, args):
                    raise TypeError(_called_on_class(function, names))
                names.check(who or _caller(function, args[0]), count, named)
            return function(*args, **named)

        return call  # type: ignore[return-value]

    return decorate


def _is_of(method: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """Return whether a method is called with an object of its class, known by name while the class is made."""
    owner = method.__qualname__.rpartition(".")[0].rpartition(".")[2]
    return bool(args) and any(each.__name__ == owner for each in type(args[0]).__mro__)


def _caller(function: Callable[..., Any], owner: Any) -> str:
    """Return the name of a call for errors: the class, and the method, but for calls of the object itself."""
    cls = owner if isinstance(owner, type) else type(owner)
    return cls.__name__ if function.__name__ == "__call__" else f"{cls.__name__}.{function.__name__}"


def _called_on_class(method: Callable[..., Any], names: _Names) -> str:
    """Return the error of a method without its object."""
    return (
        f"{method.__qualname__}: called on the class but must be called on an object of it (with its parameters); make "
        f"the object first, then call object.{method.__name__}({names.call()})"
    )


class _Names(NamedTuple):
    """Arguments of a function: all, those that may be given by position, those without a default; their kind."""

    known: list[str]
    placed: list[str]
    needed: list[str]
    what: str

    @classmethod
    def of(cls, given: list[inspect.Parameter], what: str) -> _Names:
        placed = [each.name for each in given if each.kind is not each.KEYWORD_ONLY]
        needed = [each.name for each in given if each.default is each.empty]
        return cls([each.name for each in given], placed, needed, what)

    def check(self, caller: str, count: int, named: dict[str, Any]) -> None:
        """Raise TypeError unless a call with `count` arguments by position and others by name is possible."""
        for name in named:
            if name not in self.known:
                raise TypeError(unknown_name(caller, self.what, name, self.known))
        if count > len(self.placed):
            others = [name for name in self.known if name not in self.placed]
            fix = f"give {', '.join(others)} by name" if others else "leave the others out"
            raise TypeError(
                f"{caller}: {count} arguments without a name ({self.what}s) must be at most {len(self.placed)}: "
                f"{', '.join(self.placed)}; {fix}"
            )
        first = self.placed[:count]
        for name in first:
            if name in named:
                raise TypeError(f"{caller}: {name} is given twice ({self.what}); leave one of them out")
        missing = [name for name in self.needed if name not in first and name not in named]
        if missing:
            verb = "is" if len(missing) == 1 else "are"
            raise TypeError(f"{caller}: {', '.join(missing)} {verb} missing ({self.what}); give {self.call()}")

    def call(self) -> str:
        """Return the arguments that are needed, as they are written in a call."""
        return ", ".join(name if name in self.placed else f"{name}=..." for name in self.needed)
