"""Tables in HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["html_table"]


def html_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str] = ()) -> str:
    """Return a titled table with notes below it; all text is escaped.

    Examples
    --------
    >>> html_table("a < b", ["x"], [["1"]])
    '<p><b>a &lt; b</b></p><table><tr><th>x</th></tr><tr><td>1</td></tr></table>'
    """
    import html

    lines = [f"<p><b>{html.escape(title)}</b></p>"]
    cells = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows]
    if cells:
        named = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
        lines.append(f"<table><tr>{named}</tr>{''.join(f'<tr>{each}</tr>' for each in cells)}</table>")
    return "".join([*lines, *(f"<p>{html.escape(note)}</p>" for note in notes)])
