"""Report page of a study: plain HTML and CSS, readable when printed."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from string import Template
from typing import NamedTuple

from linsolve.core.provenance import provenance

__all__ = ["Row", "document", "figure", "links", "table"]


class Row(NamedTuple):
    """One line of a table: name, value and meaning."""

    name: str
    value: str
    meaning: str = ""


_DOCUMENT = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
  body { max-width: 46rem; margin: 2.5rem auto; padding: 0 1.2rem; color: #222; background: #fff;
         font: 17px/1.55 "Source Serif 4", Charter, "Bitstream Charter", Georgia, serif; }
  h1, h2, table, figcaption { font-family: system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
  h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 1rem; }
  h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem; }
  .equation { text-align: center; font-style: italic; margin: 1rem 0; }
  table { border-collapse: collapse; width: 100%; font-size: .84rem; line-height: 1.4; }
  th, td { text-align: left; vertical-align: top; padding: .34rem .7rem .34rem 0; border-bottom: 1px solid #e4e4e4; }
  th { font-weight: 600; width: 32%; } td:nth-child(2) { width: 28%; } td:nth-child(3) { color: #555; }
  figure { margin: 0; break-inside: avoid; } img { width: 100%; height: auto; }
  figcaption { font-size: .88rem; line-height: 1.45; color: #444; }
  a { color: #003E65; } code { font-size: .88em; }
  footer { margin-top: 2.5rem; border-top: 1px solid #e4e4e4; font-size: .85rem; color: #555; }
</style>
</head>
<body>
$body
<footer><p>Files: $files.</p><p>$provenance</p></footer>
</body>
</html>
""")


def document(title: str, body: str, files: Mapping[str, str]) -> str:
    """Return a whole page; its end has links to the files with descriptions, version, command and date."""
    return _DOCUMENT.substitute(title=html.escape(title), body=body, files=links(files), provenance=_provenance())


def _provenance() -> str:
    version, command, date = provenance()
    made = f"by <code>{html.escape(command)}</code>" if command else "from Python"
    return f"Written {made}, {version}, {date}."


def links(files: Mapping[str, str]) -> str:
    """Return links to files with their descriptions."""
    return ", ".join(f'<a href="{name}">{name}</a> ({html.escape(text)})' for name, text in files.items())


def table(title: str, rows: Iterable[Row]) -> str:
    """Return a section with a table."""
    body = "".join(
        f'<tr><th scope="row">{html.escape(row.name)}</th><td>{html.escape(row.value)}</td>'
        f"<td>{html.escape(row.meaning)}</td></tr>"
        for row in rows
    )
    return f"<h2>{html.escape(title)}</h2>\n<table>{body}</table>"


def figure(name: str, title: str, alt: str, caption: str) -> str:
    """Return a figure, ``name.png`` with a link to ``name.pdf``."""
    return (
        f'<figure id="{name}"><h2>{html.escape(title)}</h2>'
        f'<a href="{name}.pdf"><img src="{name}.png" alt="{html.escape(alt)}"></a>'
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
    )
