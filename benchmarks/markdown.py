"""Markdown tables and their markers in a file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

__all__ = ["table", "write"]


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write(path: Path, name: str, text: str) -> None:
    """Write a table between its two markers in a Markdown file."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    old = path.read_text(encoding="utf-8")
    new, count = re.subn(
        re.escape(begin) + ".*?" + re.escape(end), lambda _: begin + text + "\n" + end, old, flags=re.S
    )
    if count != 1:
        raise SystemExit(f"benchmarks: {path} has no place marked {name!r}; add the lines {begin.strip()} and {end}")
    path.write_text(new, encoding="utf-8")
