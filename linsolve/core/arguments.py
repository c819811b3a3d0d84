"""Argument checks for arrays, numbers, integers and names; errors state name, value, rule, meaning and fix."""

from __future__ import annotations

import contextlib
import math
import numbers
import operator
import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from linsolve import arithmetic

__all__ = [
    "Interval",
    "boolean",
    "booleans",
    "bounds",
    "choice",
    "extreme",
    "integer",
    "known_array",
    "lengths",
    "number",
    "printable",
    "real_array",
    "refuse_beyond_memory",
    "refuse_fractions",
    "refuse_shape",
    "rounded_up",
    "shown",
    "step_counts",
    "times",
    "unknown_name",
]


class Interval:
    """A real interval in standard notation, such as ``"(0, inf)"`` or ``"[1, inf]"``.

    Parameters
    ----------
    text : str
        Round brackets exclude an endpoint, square brackets include it; an included ``inf`` is an allowed value.
    who, name : str
        Function that was called and its argument, for the error.
    """

    def __init__(self, text: str, who: str = "Interval", name: str = "text") -> None:
        low = high = math.nan
        if isinstance(text, str):
            with contextlib.suppress(ValueError):
                low, high = (float(end) for end in text[1:-1].split(","))
        if not (low <= high and text[0] in "[(" and text[-1] in "])"):
            rule = "must be two ends in brackets (allowed values)"
            raise ValueError(f"{who}: {name} = {shown(text)} {rule}; say '[0, inf)'")
        self.text, self.low, self.high = text, low, high
        self.closed_low, self.closed_high = text[0] == "[", text[-1] == "]"

    def __repr__(self) -> str:
        return self.text

    def example(self) -> float:
        """Return a typical finite number of the interval: 1 or 0.5, else the geometric mean, an end or the middle."""
        low, high = self.low, self.high
        mean = math.sqrt(low) * math.sqrt(high) if low > 0 and high < math.inf else math.nan
        likely = (1.0, 0.5, mean, low, high, low + 1, high - 1, (low + high) / 2)
        return next((value for value in likely if math.isfinite(value) and value in self), 0.0)

    def __contains__(self, value: float) -> bool:
        above = value >= self.low if self.closed_low else value > self.low
        below = value <= self.high if self.closed_high else value < self.high
        return above and below


_FINITE, _ANY_TIME = Interval("(-inf, inf)"), Interval("[-inf, inf]")


def _first(bad: np.ndarray, values: np.ndarray) -> str:
    index = tuple(int(i) for i in np.argwhere(bad)[0])
    where = f" at index {index}" if index else ""
    return f"{values[index]}{where}"


def real_array(who: str, what: str, value: Any, *, meaning: str, domain: Interval | None = None) -> Any:
    """Return `value` as a real array of its own library, in double precision, every entry inside `domain`.

    Raises
    ------
    TypeError
        If the entries are not real numbers.
    ValueError
        If the array is empty, or an entry is nan or outside the domain.
    """
    plain = arithmetic.is_double(value)
    if not plain and not arithmetic.is_object(xp := _namespace(who, what, value, meaning)):
        value = _as_float(who, what, value, xp, meaning)
    if math.prod(value.shape) == 0:
        raise ValueError(f"{who}: {what} has shape {tuple(value.shape)}, which is empty ({meaning}); give at least one")
    if not plain and not arithmetic.readable(value):
        return value
    domain = domain or _FINITE
    low, high = bounds(value)
    if low in domain and (high is low or high in domain):  # no interval contains nan
        return value
    numbers = arithmetic.to_numpy(value)
    bad = np.isnan(numbers)
    if bad.any():
        raise ValueError(f"{who}: {what} = {_first(bad, numbers)} is not a number ({meaning}); remove or replace it")
    above = numbers >= domain.low if domain.closed_low else numbers > domain.low
    below = numbers <= domain.high if domain.closed_high else numbers < domain.high
    bad = ~(above & below)
    if bad.any():
        found = f"{who}: {what} = {_first(bad, numbers)}"
        if domain.text == _FINITE.text:
            raise ValueError(f"{found} must be finite ({meaning}); remove or replace it")
        raise ValueError(f"{found} must lie in {domain} ({meaning}); say {domain.example():g}")
    return value


def known_array(who: str, what: str, value: Any, *, meaning: str, domain: Interval | None = None) -> np.ndarray:
    """Return `value` as by `real_array`, as a NumPy copy.

    Raises
    ------
    TypeError
        If the entries are not real numbers, or JAX traces them.
    ValueError
        If the array is empty, or an entry is nan or outside the domain.
    """
    found = real_array(who, what, value, meaning=meaning, domain=domain)
    if not arithmetic.readable(found):
        raise TypeError(
            f"{who}: {what} = {type(value).__name__} of shape {tuple(found.shape)} must be known numbers ({meaning}; "
            f"{who} cannot be traced by jax.jit or jax.grad); trace the call of a flow instead"
        )
    return np.array(found)


def _namespace(who: str, what: str, value: Any, meaning: str) -> Any:
    """Return the namespace of an array; raise TypeError if it belongs to no array library."""
    try:
        return arithmetic.namespace(value)
    except TypeError:
        dense = ".toarray()" if hasattr(value, "toarray") else ""
        raise TypeError(
            f"{who}: {what} = {type(value).__name__} must be an array ({meaning}); pass "
            f"{f'{what}{dense}' if dense else 'a NumPy array'}"
        ) from None


def _on_host(who: str, what: str, value: Any, meaning: str) -> np.ndarray:
    """Return `value` as a NumPy array; masked entries raise, and integers beyond 64 bits become floats."""
    parts = value if isinstance(value, list | tuple) else ()
    if np.ma.is_masked(value) or any(part is np.ma.masked for part in parts):
        raise ValueError(f"{who}: {what} has masked entries ({meaning}); fill or drop them")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise TypeError(
            f"{who}: {what} = {shown(value)} is not a rectangular array ({meaning}); make its rows equal in length"
        ) from error
    except (TypeError, RuntimeError) as error:  # tensors with gradients, or on a device
        name = type(value).__name__
        raise TypeError(f"{who}: {what} of type {name} is no NumPy array ({meaning}); convert it: {error}") from error
    if array.dtype.kind == "O" and all(type(entry) in (int, float) for entry in array.flat):  # integers beyond 64 bits
        try:
            return array.astype(float)
        except OverflowError:
            raise ValueError(
                f"{who}: {what} = {shown(value)} is beyond the range of doubles ({meaning}); rescale"
            ) from None
    return array


def shown(value: Any) -> str:
    """Return a value as text for an error: one line, large arrays by their shapes, other long text abbreviated."""
    plain = value.tolist() if isinstance(value, np.ndarray | np.generic) and 0 < value.size < 64 else value
    try:
        text = " ".join(repr(plain).split())
    except ValueError:  # Python does not print integers of more than 4300 digits
        from decimal import Decimal

        text = f"{Decimal(value):.3g}" if isinstance(value, int) else type(value).__name__
    if len(text) <= 120:
        return text
    if isinstance(value, tuple | list) and any(_shaped(entry) for entry in value[:4]):
        few = ", ".join(_shaped(entry) or shown(entry) for entry in value[:4])
        return f"{type(value).__name__} of {len(value)} ({few}{', ...' if len(value) > 4 else ''})"
    return _shaped(value) or f"{text[:100]} ... {text[-10:]}"


def printable(text: str) -> str:
    """Return text with control characters escaped."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def _shaped(value: Any) -> str:
    """Return type and shape of an array, "" for anything else."""
    shape = getattr(value, "shape", None)
    return f"{type(value).__name__} of shape {tuple(shape)}" if isinstance(shape, tuple) else ""


def _as_float(who: str, what: str, value: Any, xp: Any, meaning: str) -> Any:
    given = value
    if xp is np:
        value = _on_host(who, what, value, meaning)
    kind = value.dtype.kind if xp is np else next((k for k in ("complex", "bool") if k in str(value.dtype)), "f")[0]
    if kind == "c":
        raise TypeError(f"{who}: {what} is complex ({meaning}); pass its real part if the imaginary part is zero")
    if kind == "b" and not value.shape:
        raise TypeError(f"{who}: {what} = {shown(value)} is a boolean ({meaning}); pass a number")
    if kind not in "fiub":
        some = given if isinstance(given, list | tuple) and given else [given]
        exact = any(hasattr(each, "__float__") for each in some)  # as numbers of more digits have
        more = ", or numbers of more digits as an array of linsolve.arithmetic.precise(50)" if exact else ""
        raise TypeError(f"{who}: {what} = {shown(given)} is not made of real numbers ({meaning}); pass floats{more}")
    return arithmetic.cast(xp, value)


def bounds(values: Any) -> tuple[float, float]:
    """Return the smallest and the largest entry of an array, nan if an entry is nan; a GPU finds those of its arrays.

    Examples
    --------
    >>> bounds([2.0, -1.0, 0.5])
    (-1.0, 2.0)
    """
    held = values if arithmetic.is_double(values) or arithmetic.is_cupy(values) else arithmetic.to_numpy(values)
    if held.size == 1:
        return (only := float(held.item()), only)
    if isinstance(held, np.ndarray):  # the methods take twice the time for few numbers
        return float(np.minimum.reduce(held, axis=None)), float(np.maximum.reduce(held, axis=None))
    return float(held.min()), float(held.max())


def extreme(values: Any) -> float:
    """Return the finite nonzero magnitude farthest from 1, 1 if there is none.

    Examples
    --------
    >>> extreme([0.0, 1e-300, 1e200])
    1e-300
    """
    sizes = np.abs(np.asarray(values, dtype=float))
    sizes = np.append(sizes[(sizes > 0) & np.isfinite(sizes)], 1.0)
    return float(sizes[np.argmax(np.abs(np.log(sizes)))])


def refuse_fractions(who: str, what: str, value: Any, meaning: str) -> None:
    """Raise ValueError if an entry of an array is not an integer."""
    if not arithmetic.readable(value):
        return
    numbers = arithmetic.to_numpy(value)
    bad = numbers != np.floor(numbers)
    if bad.any():
        raise ValueError(f"{who}: {what} = {_first(bad, numbers)} must be a whole number ({meaning}); round it")


def refuse_shape(who: str, name: str, value: Any, wanted: tuple[int, ...], *, meaning: str, fix: str) -> None:
    """Raise ValueError unless an array has the shape `wanted`.

    Examples
    --------
    >>> refuse_shape("solve", "rates", np.ones(3), (2,), meaning="learning rates", fix="give one for each layer")
    Traceback (most recent call last):
    ValueError: solve: rates has shape (3,) but must be (2,) (learning rates); give one for each layer
    """
    if tuple(value.shape) != wanted:
        rule = f"has shape {tuple(value.shape)} but must be {wanted}"
        raise ValueError(f"{who}: {name} {rule} ({meaning}); {fix}")


def rounded_up(value: float) -> str:
    """Return a positive number as text of three digits that is not below it.

    Examples
    --------
    >>> rounded_up(1 / 3), rounded_up(2.0)
    ('0.334', '2')
    """
    from decimal import ROUND_CEILING, Context

    return f"{float(Context(prec=3, rounding=ROUND_CEILING).create_decimal(value)):.3g}"


def integer(
    who: str, name: str, value: Any, *, meaning: str, low: int = 1, high: int | None = None, example: int | None = None
) -> int:
    """Return `value` as a Python integer.

    Parameters
    ----------
    who : str
        Function or class that was called.
    name : str
        Name of the argument.
    value : int
        Python or NumPy integer.
    meaning : str
        Quantity that the integer counts, for the error.
    low, high : int, optional
        Smallest and largest allowed value.
    example : int, optional
        Value that the error recommends; by default `low`.

    Raises
    ------
    ValueError
        If the value is a bool, a float or a string, or is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> integer("init", "width", np.int8(4), meaning="hidden units")
    4
    >>> integer("init", "width", 2.5, meaning="hidden units", example=8)
    Traceback (most recent call last):
    ValueError: init: width = 2.5 must be a positive integer (hidden units); say 8
    """
    try:
        whole = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        whole = None
    if whole is None or whole < low or (high is not None and whole > high):
        rule = f"an integer from {low} to {high}" if high is not None else f"an integer of at least {low}"
        rule = "a positive integer" if (low, high) == (1, None) else rule
        raise ValueError(
            f"{who}: {name} = {shown(value)} must be {rule} ({meaning}); say {low if example is None else example}"
        )
    return whole


def lengths(who: str, name: str, value: Any, *, meaning: str) -> tuple[int, ...]:
    """Return a positive integer or a sequence of them as a shape.

    Raises
    ------
    ValueError, TypeError
        If the value or a part of it is not a positive integer.

    Examples
    --------
    >>> lengths("init", "batch", 3, meaning="shape of the batch"), lengths("init", "batch", (), meaning="shape")
    ((3,), ())
    """
    try:
        parts = (value,) if isinstance(value, int | np.integer) else tuple(value)
    except TypeError:
        rule = "must be a tuple of positive integers"
        raise TypeError(f"{who}: {name} = {shown(value)} {rule} ({meaning}); say (2,)") from None
    return tuple(integer(who, name, part, meaning=meaning, example=2) for part in parts)


_RULES = {"(0, inf)": "be positive and finite", "[0, inf)": "be finite and not negative", "(-inf, inf)": "be finite"}


def number(who: str, name: str, value: Any, *, meaning: str, domain: str = "(0, inf)", example: float) -> float:
    """Return `value`, a real number of Python or NumPy, as a float.

    Parameters
    ----------
    who, name, meaning : str
        Function that was called, its argument, and the argument's meaning, for the error.
    value : float
    domain : str
        Allowed interval, as for `Interval`.
    example : float
        Value that the error recommends.

    Raises
    ------
    ValueError
        If the value is a bool, a string, nan, an integer beyond the range of doubles, or outside the domain.

    Examples
    --------
    >>> number("descend", "step", 1, meaning="units of time", example=1e-3)
    1.0
    >>> number("descend", "step", "fast", meaning="units of time", example=1e-3)
    Traceback (most recent call last):
    ValueError: descend: step = 'fast' must be positive and finite (units of time); say 0.001
    """
    plain = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 and not np.ma.is_masked(value) else value
    try:
        real = float(plain) if isinstance(plain, numbers.Real) and not isinstance(plain, bool) else math.nan
    except OverflowError:
        real = math.nan
    if real not in Interval(domain):
        rule = _RULES.get(domain, f"be a number in {domain}")
        raise ValueError(f"{who}: {name} = {shown(value)} must {rule} ({meaning}); say {example:g}")
    return real


def listed(value: Any) -> tuple[Any, ...]:
    """Return the entries of an iterable; text, an array without axes and anything else is the only entry.

    Examples
    --------
    >>> import numpy as np
    >>> listed("loss"), listed(["loss", "ntk"]), listed(np.array(3)), listed(None)
    (('loss',), ('loss', 'ntk'), (array(3),), (None,))
    """
    single = isinstance(value, str) or not isinstance(value, Iterable) or getattr(value, "ndim", 1) == 0
    return (value,) if single else tuple(value)


def choice(who: str, name: str, value: Any, known: Collection[str]) -> str:
    """Return `value`, one of the strings `known`.

    Raises
    ------
    ValueError
        For any other value; the message suggests the nearest name.

    Examples
    --------
    >>> choice("sweep", "spacing", "logs", ("linear", "log"))
    Traceback (most recent call last):
    ValueError: sweep: spacing = 'logs' is unknown; did you mean 'log'? one of linear, log
    """
    if not (isinstance(value, str) and value in known):
        raise ValueError(unknown_name(who, name, value, known))
    return value


def boolean(who: str, name: str, value: Any, *, meaning: str) -> bool:
    """Return `value`, True or False of Python or NumPy, as a bool.

    Raises
    ------
    ValueError
        For any other value.

    Examples
    --------
    >>> boolean("whiten", "center", "no", meaning="whether to remove the means")
    Traceback (most recent call last):
    ValueError: whiten: center = 'no' must be True or False (whether to remove the means); say True
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{who}: {name} = {shown(value)} must be True or False ({meaning}); say True")
    return bool(value)


def booleans(who: str, name: str, value: Any, *, meaning: str) -> np.ndarray:
    """Return `value`, True or False or an array of them, as an array of bool.

    Raises
    ------
    TypeError
        For any other value.

    Examples
    --------
    >>> booleans("classify", "zero_output", [True, False], meaning="whether the output is 0").tolist()
    [True, False]
    """
    found = _on_host(who, name, value, meaning)
    if found.dtype.kind != "b" or found.size == 0:
        raise TypeError(
            f"{who}: {name} = {shown(value)} must be True or False, or an array of them ({meaning}); say True"
        )
    return found


def refuse_beyond_memory(who: str, sizes: Mapping[str, int], meaning: str) -> None:
    """Raise ValueError if an array of doubles of these integer sizes exceeds the physical memory.

    Raises
    ------
    ValueError
        The message names the largest size.

    Examples
    --------
    >>> refuse_beyond_memory("init", {"width": 10**20, "n_in": 2}, "first layer")
    Traceback (most recent call last):
    ValueError: init: width = 1.00e+20 makes arrays of 1.6e+21 bytes (first layer), more than the memory; reduce it
    """
    size = 8 * math.prod(sizes.values())
    if size > _MEMORY:
        from decimal import Decimal

        name = max(sizes, key=sizes.__getitem__)
        raise ValueError(
            f"{who}: {name} = {Decimal(sizes[name]):.3g} makes arrays of {Decimal(size):.2g} bytes ({meaning}), more "
            "than the memory; reduce it"
        )


def _memory() -> int:
    """Return the physical memory in bytes, 2^40 if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**40


_MEMORY = _memory()


def step_counts(who: str, k: Any, *, most: int = 2**53, fix: str = "for the limit call flow.limit") -> np.ndarray:
    """Return numbers of steps as an array of integers.

    Raises
    ------
    ValueError
        Unless the entries are whole numbers from 0 to `most`; the message of larger ones ends with `fix`.

    Examples
    --------
    >>> step_counts("sgd", 10**9, most=10**7, fix="each step is evaluated")
    Traceback (most recent call last):
    ValueError: sgd: k = 1000000000 must be at most 10000000 (numbers of steps); each step is evaluated
    """
    try:
        counts = np.asarray(k)
    except ValueError:
        counts = np.asarray("ragged")
    if counts.dtype.kind not in "iu" or (counts < 0).any() or counts.size == 0:
        near: Any = 100
        if counts.dtype.kind in "iuf" and 0 < counts.size <= 8 and np.isfinite(counts).all():
            near = np.clip(np.rint(counts), 0, most).astype(np.int64).tolist()
        raise ValueError(f"{who}: k = {shown(k)} must be whole numbers, not negative (numbers of steps); say {near}")
    if (counts > most).any():
        limit = "2^53" if most == 2**53 else most
        raise ValueError(f"{who}: k = {counts.max()} must be at most {limit} (numbers of steps); {fix}")
    return counts.astype(np.int64)


def times(who: str, t: Any) -> Any:
    """Return times as an array of any shape; infinite times are allowed, nan is not."""
    return real_array(who, "t", t, meaning="time", domain=_ANY_TIME)


def unknown_name(who: str, what: str, name: object, known: Iterable[str]) -> str:
    """Return the error message for an unknown name, with the nearest known name."""
    import difflib

    spelled = {each.lower(): each for each in known}
    wanted = str(name).lower()
    close = difflib.get_close_matches(wanted, spelled, n=1, cutoff=0.6 if len(wanted) > 2 else 0.5)
    hint = f"did you mean {spelled[close[0]]!r}? " if close else ""
    return f"{who}: {what} = {shown(name)} is unknown; {hint}one of {', '.join(sorted(spelled.values()))}"
