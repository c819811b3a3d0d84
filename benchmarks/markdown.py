"""Markdown tables and their markers in a file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

__all__ = ["refuse_unmarked", "table", "write"]


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def refuse_unmarked(path: Path, names: Iterable[str]) -> None:
    """Exit with an error unless a Markdown file has the two markers of each table."""
    for name in names:
        _replaced(path, name, "")


def write(path: Path, name: str, text: str) -> None:
    """Write a table between its two markers in a Markdown file."""
    path.write_text(_replaced(path, name, text), encoding="utf-8")


def _replaced(path: Path, name: str, text: str) -> str:
    """Return the content of a Markdown file with `text` between two markers."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    try:
        old = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SystemExit(
            f"benchmarks: --write = {path} cannot be read ({error.strerror}); give a Markdown file"
        ) from None
    new, count = re.subn(
        re.escape(begin) + ".*?" + re.escape(end), lambda _: begin + text + "\n" + end, old, flags=re.S
    )
    if count != 1:
        raise SystemExit(f"benchmarks: {path} has no place marked {name!r}; add the lines {begin.strip()} and {end}")
    return new
