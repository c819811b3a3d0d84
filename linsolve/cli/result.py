"""Results of commands as JSON and as rows of text."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["add_json", "print_json", "print_rows"]


def add_json(parser: Any, what: str = "the result") -> None:
    """Declare ``--json``."""
    parser.add_argument("--json", action="store_true", help=f"print {what} as JSON")


def print_json(options: argparse.Namespace, result: Any) -> bool:
    """Print a result as JSON if the command was asked to, and return whether it was."""
    if options.json:
        print(json.dumps(_plain(result), allow_nan=False, indent=1))
    return bool(options.json)


def print_rows(rows: Iterable[tuple[str, str]]) -> None:
    """Print names and texts in two columns."""
    rows = list(rows)
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        print(f"{name:<{width}}  {text}")


def _plain(value: Any) -> Any:
    """Return a value of JSON: arrays as lists, paths as text, null for numbers that are not finite."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
