"""Checks around pure formulas ``(xp, ...)``: declared arguments, batch shapes, results in the range of doubles."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import Interval, extreme, real_array, refuse_fractions, shown
from linsolve.core.parameters import batch_shape, own_sizes

__all__ = ["Argument", "checked", "in_range", "law_in_range"]

T = TypeVar("T")
Formula = TypeVar("Formula", bound=Callable[..., Any])
# whether a checked formula is being evaluated; nested calls are not checked again
_INSIDE: ContextVar[bool] = ContextVar("inside", default=False)


class Argument(NamedTuple):
    """Meaning, allowed interval and trailing axes of an argument, and whether its entries are integers."""

    meaning: str
    domain: str = "(-inf, inf)"
    axes: tuple[str, ...] = ()
    whole: bool = False


def checked(
    table: Mapping[str, Argument], *, logarithm: bool = False, single: bool = False, **others: Argument
) -> Callable[[Formula], Formula]:
    """Return a decorator for a formula ``(xp, ...)`` that checks its arguments, their shapes and its result.

    Parameters
    ----------
    table : mapping of str to Argument
        Declarations by name, shared by the formulas of a module; parameters without declaration are not checked.
    logarithm : bool
        Whether the result may be -inf, the logarithm of 0.
    single : bool
        Whether arguments must have their trailing axes alone, without batch axes.
    **others : Argument
        Declarations that replace those of `table` for this formula.

    Raises
    ------
    TypeError, ValueError
        Raised by the decorated formula if an argument violates its declaration or shapes do not broadcast.
    OverflowError
        Raised by the decorated formula if the result is beyond the range of doubles.

    Examples
    --------
    >>> import numpy as np
    >>> @checked({"ratio": Argument("depth over width", "[0, inf)")})
    ... def growth(xp, ratio):
    ...     return xp.exp(5 * ratio)
    >>> float(growth(np, 0.0))
    1.0
    >>> growth(np, -1.0)
    Traceback (most recent call last):
    ValueError: growth: ratio = -1.0 must lie in [0, inf) (depth over width); say 1
    """

    def decorate(formula: Formula) -> Formula:
        signature, who = inspect.signature(formula), formula.__name__
        known = {**table, **others}
        declared = {name: known[name] for name in signature.parameters if name in known}

        @functools.wraps(formula)
        def call(*args: Any, **kwargs: Any) -> Any:
            if _INSIDE.get():
                return formula(*args, **kwargs)
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{who}: {error}; call {who}({', '.join(signature.parameters)})") from None
            bound.apply_defaults()
            given, named, shapes = bound.arguments, {}, {}
            if not hasattr(given.get("xp", np), "asarray"):
                rule = "must be a namespace of arrays (library that evaluates the formula)"
                raise TypeError(f"{who}: xp = {shown(given['xp'])} {rule}; pass numpy")
            sizes: dict[str, tuple[int, str]] = {}
            for name, about in declared.items():
                domain = Interval(about.domain)
                value = real_array(who, name, given[name], meaning=about.meaning, domain=domain)
                shapes[name] = own_sizes(who, name, value.shape, about.axes, sizes)
                if about.whole:
                    refuse_fractions(who, name, value, about.meaning)
                named[name] = value
            for name in [name for name in shapes if single and shapes[name]]:
                own = tuple(named[name].shape[len(shapes[name]) :])
                rule = f"has shape {tuple(named[name].shape)} but needs {own}, without batch axes"
                raise ValueError(f"{who}: {name} {rule} ({declared[name].meaning}); call it for each")
            batch_shape(who, shapes)
            xp = given["xp"] if "xp" in given else arithmetic.namespace(*named.values())
            named = {name: arithmetic.cast(xp, value) for name, value in named.items()}
            given.update(named)
            token = _INSIDE.set(True)
            try:
                return in_range(who, lambda: formula(*bound.args, **bound.kwargs), logarithm=logarithm, **named)
            finally:
                _INSIDE.reset(token)

        return call  # type: ignore[return-value]

    return decorate


def in_range(who: str, formula: Callable[[], T], *, logarithm: bool = False, **given: Any) -> T:
    """Return ``formula()``; for nan or infinities raise OverflowError, naming the most extreme argument."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        found = formula()
    for value in _leaves(found):
        xp = arithmetic.namespace(value)
        if arithmetic.is_object(xp) or not arithmetic.readable(value):
            continue
        fine = xp.isfinite(value)
        if not bool(xp.all(fine | (value == -xp.inf) if logarithm else fine)):
            sizes = {name: extreme(arithmetic.to_numpy(v)) for name, v in given.items()}
            name = max(sizes, key=lambda key: abs(np.log(sizes[key])))
            raise OverflowError(
                f"{who}: {name} of magnitude {sizes[name]:.3g} leads beyond the range of doubles; rescale it, or give "
                "arrays of linsolve.arithmetic.precise(50)"
            )
    return found


def law_in_range(formula: Formula) -> Formula:
    """Return a law's method ``(xp, ...)`` that raises OverflowError for nan or infinities, naming a parameter."""

    @functools.wraps(formula)
    def call(self: Any, xp: Any, *args: Any) -> Any:
        return in_range(type(self).__name__, lambda: formula(self, xp, *args), **self.parameters())

    return call  # type: ignore[return-value]


def _leaves(found: Any) -> Iterable[Any]:
    found = tuple(found.values()) if isinstance(found, Mapping) else found
    return [leaf for part in found for leaf in _leaves(part)] if isinstance(found, tuple | list) else (found,)
