"""Pages generated from the package: cards, checked formulas, commands, papers.

Every function returns a dict from path on the site to text in MyST Markdown.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import re
from collections.abc import Callable, Sequence
from unittest import mock

import linsolve as ls
from linsolve import published
from linsolve.__main__ import main
from linsolve.cli import COMMANDS
from linsolve.papers.references import REFERENCES, Reference, sources
from linsolve.papers.standalone import STANDALONE

__all__ = ["cards", "commands", "generated", "lessons", "mistakes", "papers"]

SOLVED = [*ls.flows.ALL, *ls.laws.ALL]
_TEXT_WIDTH = "88"


def generated() -> dict[str, str]:
    """Return all pages of this module."""
    return cards() | mistakes() | commands() | papers()


def first_line(item: object) -> str:
    """Return the first line of a docstring in Markdown."""
    line = (inspect.getdoc(item) or "").splitlines()[0].replace("``", "`")
    return re.sub(r":math:`([^`]+)`", r"$\1$", line)


def _toctree(pages: list[str], **options: str) -> str:
    lines = [f":{name}: {value}".rstrip() for name, value in options.items()]
    return "\n".join(["```{toctree}", *lines, "", *pages, "```"])


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


# cards


def cards() -> dict[str, str]:
    """Return one page for each flow and law, and their index."""
    found = {f"cards/{cls.__name__}.md": _card(cls) for cls in SOLVED}
    parts = [
        "# Solved systems",
        "A card describes a flow or a law on one page: the statement, the closed form as implemented, parameters, "
        "conditions, accuracy with the test that shows it, the sources, and their formulas with the form that holds. "
        'Show it by `ls.card("TwoLayer")` as the last line of a notebook cell, or by `linsolve card TwoLayer` in a '
        "terminal.",
        "## Flows: exact at every time",
        _listed(ls.flows.ALL),
        "## Laws: in a limit, to an order, or on average",
        _listed(ls.laws.ALL),
        _toctree([cls.__name__ for cls in ls.flows.ALL], hidden="", caption="Flows"),
        _toctree([cls.__name__ for cls in ls.laws.ALL], hidden="", caption="Laws"),
    ]  # fmt: skip
    return found | {"cards/index.md": "\n\n".join(parts) + "\n"}


def _listed(classes: tuple[type, ...]) -> str:
    rows = [f"| [{cls.__name__}]({cls.__name__}.md) | {first_line(cls)} |" for cls in classes]
    return "\n".join(["| name | statement |", "| --- | --- |", *rows])


def _card(cls: type) -> str:
    name = cls.__name__
    body = re.sub(r"(?m)^#(#+ )", r"\1", ls.card(cls)._repr_markdown_())
    commands = [f"linsolve card {name}    # this card in the terminal", f"linsolve verify {name}  # its proof"]
    parts = [body, "## Commands", _fenced("sh", "\n".join(commands))]
    parts.append(
        f"Methods and attributes: [reference](../reference/{name}.rst). [Published formulas, checked](../errata.md)."
    )
    if name in STANDALONE:
        parts += ["### As a function of NumPy alone", _fenced("python", ls.to_code(cls).strip())]
    parts += ["### To cite", _fenced("bibtex", ls.cite(cls))]
    return "\n\n".join(parts) + "\n"


# errata


def mistakes() -> dict[str, str]:
    """Return the page of all checked formulas."""
    found = published.find()
    wrong = [each for each in found if each.verdict == published.CORRECTED]
    head = [
        "# Published formulas, checked",
        f"{len(found)} formulas of {len(published.SOURCES)} papers, each evaluated against an independent reference. "
        f"For {len(wrong)} of them the published form and the form that holds differ. `tests/papers/test_published.py` "
        "runs the test named below each formula; `linsolve errata --check` prints the errors.",
        _verdicts(),
    ]
    parts = [part for key in published.SOURCES for part in _paper_checked(key)]
    return {"errata.md": "\n\n".join([*head, *parts]) + "\n"}


def _verdicts() -> str:
    kinds = list(dict.fromkeys(each.verdict for each in published.find()))
    rows = []
    for key in published.SOURCES:
        of_paper = [each.verdict for each in published.find(key)]
        counts = " | ".join(str(of_paper.count(kind)) for kind in kinds)
        rows.append(f"| [{_short(REFERENCES[key])}](#checked-{key}) | {counts} |")
    return "\n".join([f"| paper | {' | '.join(kinds)} |", "| --- |" + " ---: |" * len(kinds), *rows])


def _short(paper: Reference) -> str:
    names = [name.split(",")[0] for name in paper.authors]
    return _accents(f"{', '.join(names)} ({paper.year})")


def _accents(text: str) -> str:
    return text.replace("{\\'e}", "é").replace('{\\"a}', "ä").replace('{\\"u}', "ü")


def _paper_checked(key: str) -> list[str]:
    parts = [f"(checked-{key})=\n## {_short(REFERENCES[key])}", _accents(str(REFERENCES[key])) + "."]
    for each in published.find(key):
        condition = f" ({each.condition})" if each.condition else ""
        parts.append(f"({each.name})=\n**{each.number}**, {_plain(each.states)}: *{each.verdict}*{condition}.")
        if each.printed:
            parts += ["published form", f"$$\n{each.printed}\n$$", "form that holds"]
        about = ", ".join(f"[{name}](cards/{name}.md)" for name in each.about)
        shown = f"{_plain(each.evidence)} Test: `{each.name}`."
        parts += [f"$$\n{each.latex}\n$$", f"{shown} Card: {about}." if about else shown]
    return parts


def _plain(text: str) -> str:
    """Return running text with stars and underscores escaped outside code and formulas."""
    parts = re.split(r"(``[^`]+``|`[^`]+`|\$[^$]+\$)", text)
    return "".join(part if k % 2 else re.sub(r"([*_<>])", r"\\\1", part) for k, part in enumerate(parts))


# commands


def commands() -> dict[str, str]:
    """Return the page of the command line, from its help texts."""
    parts = [
        "# Command line",
        "The help texts of `linsolve`. Invalid input gives one line on standard error and status 2; a failed check "
        "gives status 1.",
        _fenced("text", _help(main)),
    ]
    for name in COMMANDS:
        parts += [f"## linsolve {name}", _fenced("text", _help(main, name))]
    return {"commands.md": "\n\n".join(parts) + "\n"}


def _help(command: Callable[[Sequence[str]], int], *names: str) -> str:
    shown = io.StringIO()
    plain = mock.patch.dict(os.environ, COLUMNS=_TEXT_WIDTH, NO_COLOR="1")
    with plain, contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):  # argparse exits after it
        command([*names, "--help"])
    return shown.getvalue().strip()


# papers


def papers() -> dict[str, str]:
    """Return the page of the papers, with the flows and laws based on each."""
    used: dict[str, list[str]] = {key: [] for key in REFERENCES}
    for cls in SOLVED:
        for paper in sources(cls):
            used[paper.key].append(cls.__name__)
    parts = [
        "# Papers",
        '`ls.cite("TwoLayer")` or `linsolve card TwoLayer --bibtex` print the sources of a flow or a law.',
    ]
    for key, paper in REFERENCES.items():
        linked = ", ".join(f"[{name}](cards/{name}.md)" for name in used[key])
        checked = f" [Its formulas, checked](#checked-{key})." if key in published.SOURCES else ""
        parts += [f"({key})=\n## {_short(paper)}", f"{_accents(str(paper))}."]
        parts += [f"Used by {linked or 'none'}.{checked}", _fenced("bibtex", paper.bibtex())]
    return {"papers.md": "\n\n".join(parts) + "\n"}


# notebooks


def lessons(names: list[str]) -> str:
    """Return the index page of the notebooks of these names."""
    parts = [
        "# Notebooks",
        "One question each, with the equation and its source, exercises, and a last cell that asserts the statements "
        "of the text. They run in the tests and when this site is built.",
        _toctree(names, maxdepth="1") if names else "",
    ]
    return "\n\n".join(parts).rstrip() + "\n"
