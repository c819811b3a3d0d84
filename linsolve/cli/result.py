"""Results of commands as JSON and as rows of text."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

__all__ = ["add_json", "print_json", "print_rows"]


def add_json(parser: Any, what: str = "the result") -> None:
    """Declare ``--json``."""
    parser.add_argument("--json", action="store_true", help=f"print {what} as JSON")


def print_json(options: argparse.Namespace, result: Any) -> bool:
    """Print a result as JSON if the command was asked to, and return whether it was."""
    if options.json:
        from linsolve.core.json_text import json_text

        print(json_text(result, indent=1))
    return bool(options.json)


def print_rows(rows: Iterable[tuple[str, str]]) -> None:
    """Print names and texts in two columns."""
    rows = list(rows)
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        print(f"{name:<{width}}  {text}")
