"""Parameters of flows and laws: symbol, meaning, domain, validation, and conversion to any arithmetic."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, Self, dataclass_transform
from weakref import WeakValueDictionary

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import Interval, number, real_array, refuse_fractions, shown
from linsolve.core.named_arguments import named_arguments
from linsolve.core.notebook import html_table
from linsolve.core.pytrees import register

__all__ = ["Parametrized", "axis_names", "batch_shape", "own_axes", "own_sizes", "parameter"]


def parameter(
    symbol: str,
    doc: str,
    *,
    domain: str = "(-inf, inf)",
    typical: tuple[float, float] = (0.5, 2.0),
    axes: tuple[str, ...] = (),
    default: Any = dataclasses.MISSING,
    whole: bool = False,
    uniform: bool = False,
) -> Any:
    """Declare a parameter of a flow or a law.

    Parameters
    ----------
    symbol : str
        Symbol in TeX, without dollar signs.
    doc : str
        Meaning of the parameter, in a few words; it appears in error messages.
    domain : str
        Allowed interval, e.g. ``"(0, inf)"``.
    typical : (float, float)
        Typical range, for examples and sliders.
    axes : tuple of str
        Names of the trailing axes; all other axes are batch axes.
    default : float, optional
        Default value.
    whole : bool
        Whether the entries must be integers.
    uniform : bool
        Whether one number may stand for all entries along `axes`.

    Examples
    --------
    >>> from typing import Any
    >>> import linsolve as ls
    >>> class TwoRates(ls.BalancedMode):
    ...     eta: Any = ls.parameter("k", "learning rate", domain="(0, inf)", default=1.0)
    >>> TwoRates(s=2.0, eta=[0.1, 0.2]).eta.tolist()
    [0.1, 0.2]
    """
    who = "parameter"
    axes, allowed = axis_names(who, axes), Interval(domain, who, "domain")
    if default is not dataclasses.MISSING:
        real_array(who, "default", default, meaning=doc, domain=allowed)
    if not isinstance(typical, tuple | list) or len(typical) != 2:
        raise ValueError(f"{who}: typical = {shown(typical)} must be two numbers (typical range); say (0.5, 2.0)")
    for end in typical:
        number(who, "typical", end, meaning="end of the typical range", domain="(-inf, inf)", example=0.5)
    metadata = {"symbol": symbol, "doc": doc, "domain": allowed, "typical": typical, "axes": axes, "whole": whole}
    metadata["uniform"] = uniform
    return dataclasses.field(default=default, metadata=metadata)


def axis_names(who: str, axes: Any) -> tuple[str, ...]:
    """Return names of axes; raise TypeError unless they are a tuple of strings."""
    if not isinstance(axes, tuple) or not all(isinstance(name, str) for name in axes):
        raise TypeError(f"{who}: axes = {axes!r} must be a tuple of strings (names of trailing axes); such as ('d',)")
    return axes


def own_axes(field: Any, value: Any) -> tuple[str, ...]:
    """Return the names of the trailing axes of a parameter's value; none for one number that stands for all."""
    return () if field.metadata["uniform"] and value.ndim == 0 else field.metadata["axes"]


def own_sizes(who: str, name: str, shape: tuple, axes: tuple, sizes: dict) -> tuple[int, ...]:
    """Return the batch part of a shape, after checking its own axes against `sizes`."""
    if not axes:
        return tuple(shape)
    if len(shape) < len(axes):
        raise ValueError(f"{who}: {name} has shape {tuple(shape)} but needs trailing axes {axes}; add them")
    cut = len(shape) - len(axes)
    for axis, size in zip(axes, shape[cut:], strict=True):
        known, owner = sizes.setdefault(axis, (size, name))
        if known != size and owner == name:
            raise ValueError(
                f"{who}: {name} has shape {tuple(shape)}, so {axis} = {known} and {axis} = {size}, but must be square; "
                "pass as many rows as columns"
            )
        if known != size:
            raise ValueError(
                f"{who}: {name} has shape {tuple(shape)}, so {axis} = {size}, but {owner} has {axis} = {known}; "
                f"its trailing axes are ({', '.join(axes)}); order its axes so, or change one of the two"
            )
    return tuple(shape[:cut])


def batch_shape(who: str, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Return the common batch shape of named arrays; raise ValueError unless they broadcast."""
    found: tuple[int, ...] = ()
    for name, shape in shapes.items():
        if not shape or shape == found:
            continue
        try:
            found = np.broadcast_shapes(found, shape)
        except ValueError:
            other, size = next((n, s) for n, s in shapes.items() if not _broadcast(s, shape))
            raise ValueError(
                f"{who}: batch shapes = {other} {size}, {name} {shape} do not broadcast (leading axes are batch axes); "
                "make them equal or 1"
            ) from None
    return found


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(a[::-1], b[::-1], strict=False))


# read-only copies by their identity: an array that the caller froze may have a writable view
_COPIES: WeakValueDictionary[int, np.ndarray] = WeakValueDictionary()


def _own(value: Any) -> Any:
    """Return a NumPy array as a read-only copy, itself if it is such a copy; arrays of other libraries unchanged."""
    if type(value) is not np.ndarray or (not value.flags.writeable and _COPIES.get(id(value)) is value):
        return value
    value = value.copy(order="K")
    value.flags.writeable = False
    _COPIES[id(value)] = value
    return value


def _tex(value: Any) -> str:
    """Return a number in TeX."""
    mantissa, _, exponent = f"{float(np.ravel(arithmetic.to_numpy(value))[0]):.6g}".partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa.replace("inf", r"\infty")


@dataclass_transform(frozen_default=True, field_specifiers=(parameter,))
class Parametrized:
    """Base of flows and laws: each field declared by `parameter` is a checked real array."""

    _declarations: ClassVar[Mapping[str, dataclasses.Field]]  # the parameters as they are declared

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclasses.dataclass(frozen=True, eq=False)(cls)
        cls.__init__ = named_arguments(cls.__name__, "parameter")(cls.__init__)  # type: ignore[method-assign]
        cls._declarations = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        for field in cls._declarations.values():
            if "domain" not in field.metadata:
                raise TypeError(
                    f"{cls.__name__}: {field.name} is a field without symbol and meaning (fields are parameters); "
                    f"declare {field.name}: Any = parameter('{field.name}', 'its meaning'), or as a ClassVar"
                )

    def __post_init__(self) -> None:
        register(type(self))
        who = type(self).__name__
        sizes: dict[str, tuple[int, str]] = {}
        for name, field in self._declarations.items():
            about = field.metadata
            value = real_array(who, name, getattr(self, name), meaning=about["doc"], domain=about["domain"])
            own_sizes(who, name, value.shape, own_axes(field, value), sizes)
            if about["whole"]:
                refuse_fractions(who, name, value, about["doc"])
            object.__setattr__(self, name, _own(value))
        arithmetic.namespace(*(v for v in self.parameters().values() if arithmetic.namespace(v) is not np))

    def __setstate__(self, state: dict[str, Any]) -> None:  # NumPy's copies and pickles of arrays are writable
        self.__dict__.update({name: _own(v) if name in self._declarations else v for name, v in state.items()})

    def parameters(self) -> dict[str, Any]:
        """Return the parameters by name, as arrays."""
        return {name: getattr(self, name) for name in self._declarations}

    def _repr_latex_(self) -> str:
        shown = {name: "" if np.size(value) > 1 else f" = {_tex(value)}" for name, value in self.parameters().items()}
        parts = r",\; ".join(self._declarations[name].metadata["symbol"] + text for name, text in shown.items())
        return rf"$\displaystyle \mathrm{{{type(self).__name__}}}\;({parts})$"

    def _repr_html_(self) -> str:
        first = (inspect.getdoc(type(self)) or type(self).__name__).split("\n", 1)[0]
        about = self._declarations
        rows = [
            (name, about[name].metadata["doc"], str(v) if np.size(v) == 1 else f"shape {tuple(v.shape)}")
            for name, v in self.parameters().items()
        ]
        return html_table(f"{type(self).__name__}: {first}", ("parameter", "meaning", "value"), rows)

    def cast(self, xp: Any) -> Self:
        """Return these parameters as arrays of `xp`: a copy, or the same object if they are such arrays already."""
        given = self.parameters()
        cast = {name: arithmetic.cast(xp, value) for name, value in given.items()}
        return self if all(cast[name] is given[name] for name in given) else self._with(**cast)

    def _with(self, **values: Any) -> Self:
        """Return a copy with these parameters, unchecked arrays."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, **values)
        return other
