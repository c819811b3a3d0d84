"""One page for each flow and law, and their index."""

from __future__ import annotations

import inspect
import re

import portraits

import linsolve as ls
from linsolve.papers.card_blocks import sections
from linsolve.papers.standalone import STANDALONE

__all__ = ["SOLVED", "generated"]

SOLVED = [*ls.flows.ALL, *ls.laws.ALL]
_BASES = "Flow, Expansion, Statistic, Law, tuple"  # members of these base classes are on their own pages


def generated() -> dict[str, str]:
    """Return path and text of the pages in MyST Markdown."""
    found = {f"cards/{cls.__name__}.md": _page(cls) for cls in SOLVED}
    parts = [
        "# Solved systems",
        "One page for each flow and law: statement, picture, conditions, accuracy with the test that shows it, code, "
        'the sources, and their formulas with the form that holds. The text is that of `ls.card("TwoLayer")`, or of '
        "`linsolve card TwoLayer` in a terminal.",
        "## Flows: exact at every time",
        _listed(ls.flows.ALL),
        "## Laws: in a limit, to an order, or on average",
        _listed(ls.laws.ALL),
        _toctree([cls.__name__ for cls in ls.flows.ALL], "Flows"),
        _toctree([cls.__name__ for cls in ls.laws.ALL], "Laws"),
    ]
    return found | {"cards/index.md": "\n\n".join(parts) + "\n"}


def first_line(item: object) -> str:
    """Return the first line of a docstring in Markdown."""
    line = (inspect.getdoc(item) or "").splitlines()[0].replace("``", "`")
    return re.sub(r":math:`([^`]+)`", r"$\1$", line)


def _toctree(pages: list[str], caption: str) -> str:
    return "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```"])


def _listed(classes: tuple[type, ...]) -> str:
    rows = [f"| [{cls.__name__}]({cls.__name__}.md) | {first_line(cls)} |" for cls in classes]
    return "\n".join(["| name | statement |", "| --- | --- |", *rows])


def _page(cls: type) -> str:
    name = cls.__name__
    body = re.sub(r"(?m)^#(#+ )", r"\1", ls.card(cls)._repr_markdown_())
    title, rest = body.split("\n", 1)
    said = portraits.described(cls)
    parts = [title, f"```{{figure}} ../pictures/{name}.png\n:alt: {said}\n\n{said}\n```", rest.strip()]
    parts += ["## Code", f"```pycon\n{_example(cls)}\n```"]
    parts.append(
        f"```sh\nlinsolve card {name}    # this page in the terminal\nlinsolve verify {name}  # its proof\n```"
    )
    if name in STANDALONE:
        parts += ["### As a function of NumPy alone", f"```python\n{ls.to_code(cls).strip()}\n```"]
    parts += ["## Methods and attributes", f"```{{eval-rst}}\n{_directive(cls)}\n```"]
    parts += ["## To cite", f"```bibtex\n{ls.cite(cls)}\n```", "[Published formulas, checked](../errata.md)."]
    return "\n\n".join(parts) + "\n"


def _example(cls: type) -> str:
    return sections(inspect.getdoc(cls) or "")["Examples"].strip()


def _directive(cls: type) -> str:
    """Return the directive for the methods of a flow or law."""
    name = cls.__name__
    lines = [".. currentmodule:: " + ("linsolve" if name in ls.flows.WHERE else "linsolve.systems.laws"), ""]
    lines += [f".. autoclass:: {name}", "   :members:", f"   :inherited-members: {_BASES}"]
    state = getattr(cls, "State", None)
    if state is not None and any(vars(other).get("State") is state for other in ls.flows.ALL if other is not cls):
        lines.append("   :exclude-members: State")  # documented with the flow that defines it
    return "\n".join(lines)
