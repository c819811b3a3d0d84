"""Pages generated from the package: checked formulas, statements, commands, papers.

Every function returns a dict from path on the site to text in MyST Markdown.
"""

from __future__ import annotations

import contextlib
import html
import io
import json
import os
import re
from collections.abc import Callable, Sequence
from unittest import mock

import linsolve as ls
from linsolve import published
from linsolve.__main__ import main
from linsolve.cli import COMMANDS
from linsolve.papers.references import REFERENCES, Reference, sources
from linsolve.papers.statements import STATEMENTS
from linsolve.studies.explorables import EXPLORABLES
from linsolve.studies.explorables.page import with_math

__all__ = ["checked", "commands", "explored", "generated", "lesson", "lessons", "papers", "statements"]

SOLVED = [*ls.flows.ALL, *ls.laws.ALL]
_TEXT_WIDTH = "88"


def generated() -> dict[str, str]:
    """Return all pages of this module."""
    return checked() | statements() | explored() | commands() | papers()


def _toctree(pages: list[str], **options: str) -> str:
    lines = [f":{name}: {value}".rstrip() for name, value in options.items()]
    return "\n".join(["```{toctree}", *lines, "", *pages, "```"])


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


# published formulas


_READING = """\
Every formula below was read under the assumptions of its source and to the order that the source states; signs such as
$\\sim$, $\\approx$ and $O(\\cdot)$ are quoted as printed and judged as such. Before a formula is called
typographical, every consistent reading is tried: a sign convention, a normalization, the other branch of a root,
another count of indices. If one of them works, the record says which, and the verdict is *convention*. *Incorrect*
needs a proof or a measured counterexample in the setting of the source. A slip that returns in later equations is one
slip: the records of its consequences name it.

| verdict | meaning |
| --- | --- |
| holds | holds as printed |
| holds under a condition | holds as printed under the condition that is named |
| leading order | holds to the order, or in the limit, that the source states |
| convention | holds as printed with the convention that is named |
| typographical | a sign, factor or index differs; the context of the source has the form that holds |
| incorrect | does not hold in the setting of the source; the reason says what fails and what is unaffected |

**To the authors.** If a reading is wrong, or an edition newer than the one named below is to be read, please open an
issue in the repository of this package, with the name of the test under the formula: the record is changed, or the
answer is quoted beside it.

`linsolve published` lists the records, `linsolve published --check` evaluates them, and
`tests/papers/test_published.py` runs each under its name. The texts read carry no page numbers."""


def checked() -> dict[str, str]:
    """Return the page of all published formulas on record, by paper and section."""
    parts = [part for key in published.SOURCES for part in _paper_checked(key)]
    return {"errata.md": "\n\n".join(["# Published formulas, checked", _READING, *parts]) + "\n"}


def _short(paper: Reference) -> str:
    names = [name.split(",")[0] for name in paper.authors]
    return _accents(f"{', '.join(names)} ({paper.year})")


def _accents(text: str) -> str:
    return text.replace("{\\'e}", "é").replace('{\\"a}', "ä").replace('{\\"u}', "ü")


def _paper_checked(key: str) -> list[str]:
    paper = REFERENCES[key]
    parts = [f"(checked-{key})=\n## {_short(paper)}", f"{_accents(str(paper))}. Read: {paper.edition}."]
    section = ""
    for each in published.find(key):
        title = _section(each)
        if title != section:
            section = title
            parts.append(f"### {title[0].upper()}{title[1:]}")
        parts += _record(each)
    return parts


def _section(each: published.Formula) -> str:
    """Return the section of a record; sections 3.1 to 3.3 of the thesis are its papers 1 to 3."""
    return re.sub(r"^(section 3\.(\d)), its ", r"\1 (paper \2), ", each.place.removesuffix(f", {each.number}"))


def _verdict(each: published.Formula) -> str:
    """Return the verdict, with a link to the record of which it is a consequence, and the reason."""
    reason, verdict = each.reason, each.verdict.capitalize()
    if each.follows:
        root = next(one for one in published.find(each.source) if one.check.__name__ == each.follows)
        verdict += f" (consequence of [{_plain(root.number)}](#{root.name}))"
        reason = re.sub(r"^Consequence of [^:]*: ", "", reason)
    return f"*{verdict}*" + (f": {_plain(reason)}" if reason else "")


def _record(each: published.Formula) -> list[str]:
    """Return the parts of one record: place, quote, setting, verdict with reason, the form that holds, evidence."""
    about = ", ".join(f"[{name}](cards/{name}.md)" for name in each.about)
    shown = f"{_plain(re.sub('^Compare ', 'Compared ', each.evidence))} Test: `{each.name}`."
    return [
        f"({each.name})=\n**{each.number}**, {_plain(each.states)}",
        f"> {_plain(each.quote)}",
        f"Setting: {_plain(each.setting)}. {_verdict(each)}.",
        f"$$\n{each.latex}\n$$",
        f"{shown} Card: {about}." if about else shown,
    ]


# statements


def statements() -> dict[str, str]:
    """Return the page of the numbered statements and figures of the papers, with the call that gives each."""
    parts = [
        "# Statements and figures of the papers",
        "Every numbered statement and every figure of the five papers, with the call that gives it for a typical "
        "network; rows without a call say why. `tests/papers/test_statements.py` runs each call. The calls follow",
        _fenced("python", "import numpy as np\nimport linsolve as ls\n\nrng, t = np.random.default_rng(0), 0.5"),
    ]
    for key, rows in STATEMENTS.items():
        parts += [f"## {_short(REFERENCES[key])}", "| place | statement | call |\n| --- | --- | --- |"]
        parts[-1] += "".join(f"\n| {row.place} | {row.states} | {_call(row.call, row.reason)} |" for row in rows)
    return {"statements.md": "\n\n".join(parts) + "\n"}


def _call(call: str, reason: str) -> str:
    return f"`{call}`" if call else f"*{reason}*"


def _plain(text: str) -> str:
    """Return running text with stars and underscores escaped outside code and formulas."""
    parts = re.split(r"(``[^`]+``|`[^`]+`|\$[^$]+\$)", text)
    return "".join(part if k % 2 else re.sub(r"([*_<>])", r"\\\1", part) for k, part in enumerate(parts))


# explorables


def explored() -> dict[str, str]:
    """Return the list of the pages with sliders, which stand beside the site as files of their own."""
    rows = (
        f'<dt><a href="explorables/{name}.html">{html.escape(page.title)}</a></dt>\n<dd>{with_math(page.text)}</dd>'
        for name, page in EXPLORABLES.items()
    )
    parts = [
        "# Pages with sliders",
        "Each page is one file that works without a network. Its curves are the formulas of this package, printed to "
        "JavaScript; `tests/studies/test_explorables.py` compares them with NumPy. The address of a page holds the "
        "values of its sliders, and each page shows Python code that gives the same numbers. `linsolve explore NAME` "
        "writes a page.",
        _fenced("{raw} html", "\n".join(["<dl>", *rows, "</dl>"])),
    ]
    return {"explorables.md": "\n\n".join(parts) + "\n"}


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
    """Return the page of the notebooks of these names."""
    parts = [
        "# Notebooks",
        "One question each, with the equation and its source, exercises, and a last cell that asserts the statements "
        "of the text. The first one has audience, prerequisites, goal and minutes of each. Outputs are those of a "
        "clean run; `python notebooks/run.py --check` executes the notebooks again and compares.",
        _toctree(names, maxdepth="1") if names else "",
    ]
    return "\n\n".join(parts).rstrip() + "\n"


def lesson(source: str) -> str:
    """Return a notebook whose pictures have alternative texts: the text that stands beside each in its outputs."""
    book = json.loads(source)
    for cell in book["cells"]:
        pictures = [each["data"] for each in cell.get("outputs", []) if "image/png" in each.get("data", {})]
        said = " ".join("".join(data["text/plain"]) for data in pictures)
        if said:
            cell["metadata"]["mystnb"] = {"image": {"alt": said}}
    return json.dumps(book)
