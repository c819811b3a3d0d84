"""Blocks of a card as plain text, Markdown and HTML."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Callable

from linsolve.papers.card_blocks import Block, Formula, Paragraph
from linsolve.papers.plain_math import plain_math

__all__ = ["as_html", "as_markdown", "as_text", "plain_line"]

_INLINE = re.compile(r":math:`([^`]+)`|``([^`]+)``|`([^`]+)`|(\$[^$]+\$)", re.DOTALL)
_WIDTH = 110


def _inline(text: str, math: Callable[[str], str], code: Callable[[str], str], plain: Callable[[str], str]) -> str:
    """Return running text with inline marks replaced; `plain` is applied to the rest."""
    found, end = [], 0
    for match in _INLINE.finditer(text):
        found.append(plain(text[end : match.start()]))
        formula, literal, name, dollars = match.groups()
        found.append(math(formula or dollars.strip("$")) if formula or dollars else code(literal or name))
        end = match.end()
    return "".join([*found, plain(text[end:])])


def as_text(title: str, body: list[tuple[str, list[Block]]]) -> str:
    """Return a card for the terminal."""
    lines = [title, "=" * len(title)]
    for name, parts in body:
        lines += ["", name, "-" * len(name)]
        lines += [line for part in parts for line in _text(part)]
    return "\n".join(lines)


def plain_line(text: str) -> str:
    """Return running text without inline marks, its formulas as plain Unicode."""
    return _inline(text, plain_math, str, lambda rest: plain_math(rest) if "\\" in rest else rest)


def _statements(formula: str) -> list[str]:
    """Return the lines of a formula, broken between its statements, which two spaces separate, where possible."""
    lines: list[str] = []
    for statement in formula.split("  "):
        if lines and len(lines[-1]) + 2 + len(statement) <= _WIDTH - 4:
            lines[-1] += f"  {statement}"
        else:
            lines += textwrap.wrap(statement, _WIDTH - 4, break_long_words=False)
    return lines


def _text(part: Block) -> list[str]:
    if isinstance(part, Formula):
        return [f"    {line}" for line in _statements(plain_math(part.latex))]
    if isinstance(part, Paragraph):
        return textwrap.wrap(plain_line(part.text), _WIDTH, break_long_words=False)
    head, *rows = ([plain_line(cell) for cell in row] for row in part.rows)
    found = []
    for row in rows:
        first, *rest = row
        found.append(f"  {first}")
        for name, cell in zip(head[1:], rest, strict=True):
            if cell:
                lines = textwrap.wrap(f"{name}: {cell}", _WIDTH - 8, break_long_words=False)
                found += [f"      {lines[0]}", *(f"        {line}" for line in lines[1:])]
    return found


def as_markdown(title: str, body: list[tuple[str, list[Block]]]) -> str:
    """Return a card in Markdown, its formulas between dollars."""
    parts = [f"## {title}"]
    for name, each in body:
        parts += [f"### {name}", *map(_markdown, each)]
    return "\n\n".join(parts)


def _markdown_line(text: str) -> str:
    return _inline(text, lambda m: f"${m}$", lambda c: f"`{c}`", lambda t: re.sub(r"([*_|<>])", r"\\\1", t))


def _markdown(part: Block) -> str:
    if isinstance(part, Formula):
        return f"$$\n{part.latex}\n$$"
    if isinstance(part, Paragraph):
        return _markdown_line(part.text)
    head, *rows = [[_cell(cell) for cell in row] for row in part.rows]
    rule = ["---" for _ in head]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows))


def _cell(text: str) -> str:
    """Return the text of a table cell, with vertical bars escaped, also in formulas."""
    return _markdown_line(text).replace("\\|", "|").replace("|", r"\vert " if "$" in text else r"\|")


def as_html(title: str, body: list[tuple[str, list[Block]]]) -> str:
    """Return a card in HTML, its formulas between dollars, as MathJax reads them."""
    parts = [f"<h2>{html.escape(title)}</h2>"]
    for name, each in body:
        parts += [f"<h3>{html.escape(name)}</h3>", *map(_html, each)]
    return '<div class="linsolve-card">\n' + "\n".join(parts) + "\n</div>"


def _html_line(text: str) -> str:
    return _inline(text, lambda m: f"${html.escape(m)}$", lambda c: f"<code>{html.escape(c)}</code>", html.escape)


def _html(part: Block) -> str:
    if isinstance(part, Formula):
        return f"$$\n{html.escape(part.latex)}\n$$"
    if isinstance(part, Paragraph):
        return f"<p>{_html_line(part.text)}</p>"
    head, *rows = (["".join(_html_line(cell)) for cell in row] for row in part.rows)
    lines = ["<tr>" + "".join(f"<th>{cell}</th>" for cell in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
    return '<div style="overflow-x: auto; margin: 0.8em 0"><table>\n' + "\n".join(lines) + "\n</table></div>"
