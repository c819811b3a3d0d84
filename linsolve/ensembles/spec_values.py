"""Checks of the values of a spec; an error gives the path in the file, the value and the rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from linsolve.core.arguments import unknown_name

__all__ = ["WHO", "array", "drawn", "fields", "number", "numbers", "table", "text", "texts", "truth", "values", "whole"]

WHO = "sweep"


def fields(
    where: str, value: Any, known: Mapping[str, Callable[[str, Any], Any]], needed: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the checked entries of a table."""
    entries = table(where or "spec", value)
    for name in entries:
        if name not in known:
            raise ValueError(unknown_name(WHO, f"key {where or 'of the spec'}", name, known))
    for name in needed:
        if name not in entries:
            raise ValueError(f"{WHO}: {path(where, name)} is missing; linsolve sweep --example shows one")
    return {name: known[name](path(where, name), entry) for name, entry in entries.items()}


def path(where: str, name: str) -> str:
    """Return the path of a key in the file."""
    return f"{where}.{name}" if where else name


def table(key: str, value: Any) -> Mapping[str, Any]:
    """Return a table."""
    if not isinstance(value, Mapping):
        raise ValueError(
            f"{WHO}: {key} = {value!r:.60} must be a table (names and values); linsolve sweep --example shows one"
        )
    return value


def text(key: str, value: Any) -> str:
    """Return a nonempty text."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{WHO}: {key} = {value!r:.60} must be a text; put it in quotes")
    return value


def texts(key: str, value: Any) -> tuple[str, ...]:
    """Return texts, from one or a list of them."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names:
        raise ValueError(f"{WHO}: {key} = {value!r:.60} must be a list of names; say ['loss']")
    return tuple(text(f"{key}[{k}]", v) for k, v in enumerate(names))


def truth(key: str, value: Any) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{WHO}: {key} = {value!r:.60} must be true or false, without quotes; say true")
    return value


def whole(key: str, value: Any, least: int = 1) -> int:
    """Return an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{WHO}: {key} = {value!r:.60} must be an integer of at least {least}; say {max(least, 1)}")
    return value


def number(key: str, value: Any) -> float:
    """Return a number, possibly infinite but not nan."""
    if isinstance(value, str) and value.strip() in ("inf", "+inf", "-inf"):  # JSON has no infinite numbers
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{WHO}: {key} = {value!r:.60} must be a number, or 'inf'; say 1.0")
    try:
        found = float(value)
    except OverflowError:
        raise ValueError(
            f"{WHO}: {key} = {value!r:.20}... must be a number that a double can hold; give a smaller one"
        ) from None
    if math.isnan(found):
        raise ValueError(f"{WHO}: {key} = nan must be a number; remove or replace it")
    return found


def array(key: str, value: Any) -> Any:
    """Return a number or nested lists of numbers as an array."""

    def floats(key: str, value: Any) -> Any:
        if isinstance(value, list):
            return [floats(f"{key}[{k}]", v) for k, v in enumerate(value)]
        return number(key, value)

    try:
        return np.array(floats(key, value))
    except ValueError as error:
        if str(error).startswith(WHO):
            raise
        raise ValueError(
            f"{WHO}: {key} must be a number or a rectangular array of numbers; make its rows equally long"
        ) from None


def numbers(key: str, value: Any) -> dict[str, Any]:
    """Return a table of numbers and arrays."""
    return {name: array(f"{key}.{name}", v) for name, v in table(key, value).items()}


def values(key: str, value: Any) -> np.ndarray:
    """Return a number, a list of numbers or a range as an array."""
    if not isinstance(value, Mapping):
        found = array(key, value)
        if found.ndim > 1 or found.size == 0:
            raise ValueError(
                f"{WHO}: {key} has shape {found.shape} but must be a number or a list of numbers; say [0.0, 1.0]"
            )
        return found
    known = {"start": number, "stop": number, "num": whole, "spacing": text}
    about = fields(key, value, known, ("start", "stop", "num"))
    spacing = about.get("spacing", "linear")
    if spacing not in ("linear", "log"):
        raise ValueError(unknown_name(WHO, f"{key}.spacing", spacing, ("linear", "log")))
    for end in ("start", "stop"):
        if not math.isfinite(about[end]) or (spacing == "log" and about[end] <= 0):
            rule = "positive and finite (spacing 'log')" if spacing == "log" else "finite"
            raise ValueError(f"{WHO}: {key}.{end} = {about[end]} must be {rule}; say 1.0")
    return (np.geomspace if spacing == "log" else np.linspace)(about["start"], about["stop"], about["num"])


def drawn(key: str, value: Any) -> tuple[str, float, float]:
    """Return a distribution's name and its two numbers."""
    known = ("normal", "uniform", "lognormal")
    entries = table(key, value)
    for name in entries:
        if name not in known:
            raise ValueError(unknown_name(WHO, f"distribution {key}", name, known))
    if len(entries) != 1:
        raise ValueError(f"{WHO}: {key} must have one distribution; say {{normal = [0.0, 1.0]}}")
    ((name, pair),) = entries.items()
    found = np.atleast_1d(array(f"{key}.{name}", pair))
    if found.shape != (2,) or not np.isfinite(found).all():
        raise ValueError(f"{WHO}: {key}.{name} = {pair!r:.60} must be two finite numbers; say [0.0, 1.0]")
    first, second = found.tolist()
    if (name == "uniform" and first > second) or (name != "uniform" and second < 0):
        rule = "[low, high], low first" if name == "uniform" else "[center, deviation], the deviation at least 0"
        raise ValueError(f"{WHO}: {key}.{name} = {pair!r:.60} must be {rule}; say [1.0, 2.0]")
    if name == "lognormal" and first <= 0:
        raise ValueError(f"{WHO}: {key}.lognormal = {pair!r:.60} must have a median above 0; say [1.0, 0.5]")
    return name, first, second
