"""Docstrings as blocks: sections, paragraphs, formulas and tables of their reStructuredText."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Block", "Formula", "Paragraph", "Table", "blocks", "paragraphs", "sections"]


class Paragraph(NamedTuple):
    """Running text with the inline marks of docstrings."""

    text: str


class Formula(NamedTuple):
    """A displayed formula, in LaTeX."""

    latex: str


class Table(NamedTuple):
    """Rows of cells; the first row is the header."""

    rows: tuple[tuple[str, ...], ...]


Block = Paragraph | Formula | Table


def sections(doc: str) -> dict[str, str]:
    """Return a docstring's sections by title; the text above the first has the title ""."""
    found, title, lines = {}, "", doc.splitlines()
    found[title] = list[str]()
    k = 0
    while k < len(lines):
        underlined = k + 1 < len(lines) and lines[k].strip() and re.fullmatch(r"-{3,}", lines[k + 1].strip())
        if underlined:
            title = lines[k].strip()
            found[title] = []
            k += 2
        else:
            found[title].append(lines[k])
            k += 1
    return {name: "\n".join(body).strip("\n") for name, body in found.items()}


def paragraphs(text: str) -> list[str]:
    """Return the parts of a text between blank lines; a formula is kept with its continuation."""
    return [part.strip("\n") for part in re.split(r"\n\s*\n", text) if part.strip()]


def blocks(text: str) -> list[Block]:
    """Return a text as blocks."""
    found: list[Block] = []
    for part in paragraphs(text):
        head = part.lstrip()
        if head.startswith(".. math::"):
            found.append(Formula(" ".join(head.removeprefix(".. math::").split())))
        elif re.match(r"=+(\s+=+)+\s*$", part.splitlines()[0]):
            found.append(_table(part))
        elif re.match(r"[*-] ", head):
            items = re.split(r"(?m)^\s*[*-] ", part)
            found += [Paragraph("• " + " ".join(item.split())) for item in items if item.strip()]
        else:
            found.append(Paragraph(" ".join(part.split())))
    return found


def _table(part: str) -> Table:
    """Return a simple table, with columns read from its rule."""
    lines = part.splitlines()
    columns = [match.span() for match in re.finditer(r"=+", lines[0])]
    starts = [start for start, _ in columns]
    ends = [*starts[1:], None]
    kept = [line for line in lines if not re.fullmatch(r"[=\s]+", line)]
    cells = ((line[a:b].strip() for a, b in zip(starts, ends, strict=True)) for line in kept)
    return Table(tuple(tuple(row) for row in cells))
