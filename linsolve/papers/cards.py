"""One-page cards of flows and laws, generated from class, docstring and records of published formulas."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

import numpy as np

from linsolve.core.flow import Flow
from linsolve.core.law import Expansion
from linsolve.core.map import Map
from linsolve.papers.card_blocks import Block, Formula, Paragraph, Table, blocks, paragraphs, sections
from linsolve.papers.card_text import as_html, as_markdown, as_text

__all__ = ["Card", "card"]

# section of each paragraph of the notes, by its first words; empty sections are omitted
_ABOUT = {
    "Exact for": "Exact for, not for",
    "Approximates": "Exact for, not for",
    "Valid": "Exact for, not for",
    "Source": "Sources",
    "Accuracy": "Accuracy",
    "Errat": "left out",  # the table shows the records
}

# sentence of a docstring that points to the card itself
_POINTER = re.compile(r"\s*``linsolve\s+card\s+\w+``\s+lists\s+the\s+published\s+formulas\s+and\s+their\s+verdicts\.")


@dataclasses.dataclass(frozen=True)
class Card:
    """One-page description of a flow or law: printed as text, shown with typeset formulas in a notebook.

    Parameters
    ----------
    name : str
        The flow or law.
    body : list of (str, list)
        Sections: title and blocks.
    """

    name: str
    body: list[tuple[str, list[Block]]]

    @property
    def sections(self) -> list[str]:
        """Titles of the sections."""
        return [title for title, _ in self.body]

    def __str__(self) -> str:
        return as_text(self.name, self.body)

    def __repr__(self) -> str:
        return f"Card({self.name}: {', '.join(self.sections)})"

    def _repr_markdown_(self) -> str:
        return as_markdown(self.name, self.body)

    def _repr_html_(self) -> str:
        return as_html(self.name, self.body)


def card(item: Any) -> Card:
    """Return the card of a flow or law: statement, closed form, parameters, conditions, accuracy, published formulas.

    Parameters
    ----------
    item : Flow, Law, class or str
        A flow or law, its class or its name.

    Returns
    -------
    Card
        ``print`` shows text; notebooks show it with typeset formulas.

    Raises
    ------
    ValueError
        If there is no flow or law of that name.
    TypeError
        If the argument is neither a flow nor a law.

    Examples
    --------
    >>> import linsolve as ls
    >>> ls.card("BalancedMode").sections[:3]
    ['Statement', 'From the code', 'Parameters']
    """
    from linsolve.papers.references import solved, sources

    cls = solved("card", item)
    found = sections(inspect.getdoc(cls) or "")
    notes = _notes(found.get("Notes", ""))
    notes.pop("left out", None)
    body: list[tuple[str, list[Block]]] = [("Statement", blocks(found[""]))]
    if issubclass(cls, Flow):
        body += [("From the code", _from_code(cls)), ("Parameters", [_parameters(cls)]), ("State", [_state(cls)])]
        body.append(("Conditions", _conditions(cls)))
    else:
        body += [("Parameters", [_parameters(cls)]), ("Your network", [_applied(cls)])]
    body.append(("Exact for, not for", notes.pop("Exact for, not for", []) + _kind(cls) + _descent(cls)))
    body.append(("Accuracy", notes.pop("Accuracy", []) or _measured(cls)))
    remarks = notes.pop("", [])
    papers: list[Block] = [Paragraph(f"• [{each.key}] {each}") for each in sources(cls)]
    body.append(("Sources", notes.pop("Sources", []) + papers))
    body.append(("Published formulas", _published(cls.__name__)))
    if remarks:
        body.append(("Remarks", remarks))
    return Card(cls.__name__, body)


def _descent(cls: type) -> list[Block]:
    """Return the methods of gradient descent and the rules that they include, for a `Map`."""
    if not issubclass(cls, Map):
        return []
    rules = f"with {', '.join(cls.rules)}" if cls.rules else "plain steps"
    return [Paragraph(f"Gradient descent with finite steps: discrete ({rules}), first_step (plain steps).")]


def _notes(text: str) -> dict[str, list[Block]]:
    """Return the paragraphs of the notes by section; paragraphs without a section are remarks.

    A table, a list or a formula belongs to the paragraph above it.
    """
    found: dict[str, list[Block]] = {}
    subject = ""
    for part in paragraphs(_POINTER.sub("", text)):
        continued = part.lstrip().startswith((".. math::", "==", "- ", "* "))
        if not continued:
            opened = [name for words, name in _ABOUT.items() if part.lstrip().startswith(words)]
            subject = opened[0] if opened else ""
        found.setdefault(subject, []).extend(blocks(part))
    return found


def _from_code(cls: type[Flow]) -> list[Block]:
    """Return loss and closed form evaluated by SymPy from the code, if possible."""
    import sympy

    try:
        parameters, start, _ = cls.symbols()
    except NotImplementedError:
        return [
            Paragraph("The closed form is not elementary in SymPy's terms; the code evaluates the statement above.")
        ]
    command = f"``linsolve verify {cls.__name__} --latex``"
    if any(len(x.free_symbols) != 1 for x in np.asarray(start[0], dtype=object).flat):
        told = f"SymPy proves the closed form for one hidden unit; it is long, and {command} prints it."
        return [Paragraph(told)]

    from linsolve.core.verify.symbols import closed_form

    flow, xp, _, z0, state = closed_form(cls)
    found: list[Block] = [Formula(f"L(0) = {sympy.latex(flow.loss(xp, z0).flat[0])}")]
    for name, value in zip(state._fields, state, strict=True):
        for k, entry in enumerate(value.flat):
            label = name if value.size == 1 else f"{name}_{{{k + 1}}}"
            found.append(Formula(f"{label}(t) = {sympy.latex(sympy.factor_terms(entry))}"))
    given = {**parameters, **dict(zip(cls.State._fields, start, strict=True))}  # type: ignore[attr-defined]
    renamed = {name: value for name, value in given.items() if not _plain(name, value)}
    if renamed:
        shown = r",\quad ".join(rf"\mathtt{{{name}}} = {sympy.latex(value)}" for name, value in renamed.items())
        found += [Paragraph("where parameters and start are named by"), Formula(shown.replace("eta_", r"eta\_"))]
    return [*found, Paragraph(f"on the region of these symbols; {command} proves it.")]


def _plain(name: str, value: Any) -> bool:
    """Return whether a symbol is the parameter or the start itself."""
    return str(value) in (name, f"{name}_0")


def _parameters(cls: type) -> Table:
    described = sections(inspect.getdoc(cls) or "").get("Parameters", "")
    rows = []
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        about = field.metadata
        if "symbol" not in about:
            continue
        shape = ", ".join(about["axes"])
        rows.append((f"``{field.name}``", f"${about['symbol']}$", about["doc"], f"``{about['domain']}``", shape))
    if not rows:
        return Table((("name", "meaning"), ("none", " ".join(described.split()) or "no parameters")))
    return Table((("name", "symbol", "meaning", "domain", "own axes"), *rows))


def _state(cls: type[Flow]) -> Table:
    rows = [(f"``{name}``", ", ".join(cls.axes[name]) or "a number") for name in cls.State._fields]  # type: ignore[attr-defined]
    return Table((("field", "own axes"), *rows))


def _conditions(cls: type[Flow]) -> list[Block]:
    flow, z0 = cls.example(np.random.default_rng(0))
    found = flow.conditions(np, z0)
    if not found:
        return [Paragraph("None: every start of the state above.")]
    names = ", ".join(f"``{name}``" for name in found)
    return [
        Paragraph(f"Zero up to {cls.tolerance:g}, else the flow raises `NotExact` with the name and the size: {names}.")
    ]


def _kind(cls: Any) -> list[Block]:
    if issubclass(cls, Flow):
        return []
    orders = dict(cls.orders) if issubclass(cls, Expansion) else {}
    if orders:
        stated = ", ".join(f"{name}: {order:g}" for name, order in orders.items())
        return [Paragraph(f"An expansion of: {cls.approximates}. Order of the relative error: {stated}.")]
    return [Paragraph(f"A statement on averages: {cls.approximates}.")]


def _applied(cls: Any) -> Paragraph:
    """Return the call that applies a law to one network, or the reason why there is none."""
    if reason := cls.without_network():
        return Paragraph(f"The law has no network of its own: {reason}.")
    asked = inspect.signature(cls.of).parameters.values()
    more = "".join(
        f", {each.name}=..." for each in asked if each.kind is each.KEYWORD_ONLY and each.default is each.empty
    )
    call = (
        f"``law = ls.laws.{cls.__name__}.of(weights, (X, Y), rates{more})``, then ``law({'t' if cls.timed else ''})``"
    )
    described = inspect.getdoc(cls.of if "of" in vars(cls) else cls.applied) or ""
    said = " ".join(described.splitlines()[0].removeprefix("Return ").split())
    return Paragraph(f"{call}: {said} ``traj.error`` estimates the error of each quantity.")


def _measured(cls: type) -> list[Block]:
    measured = "the orders of its errors against the exact flow" if issubclass(cls, Expansion) else "sampled means"
    command = f"linsolve verify {cls.__name__}"
    return [Paragraph(f"``{command}`` measures {measured}; ``tests/core/test_verify.py`` runs it.")]


def _published(name: str) -> list[Block]:
    """Return the records of published formulas of a flow or law, corrected ones first."""
    from linsolve.papers import published

    found = sorted(published.about(name), key=lambda each: not each.corrected)
    if not found:
        return [Paragraph("No formula of the sources is on record.")]
    head = ("place", "as published", "formula that holds", "verdict")
    rows = [
        (
            f"{each.source}, {each.place}",
            each.quote if each.corrected else "",
            f"${each.latex}$",
            f"{each.verdict} ({each.reason})" if each.reason else each.verdict,
        )
        for each in found
    ]
    command = f"``linsolve published --source {found[0].source} --check`` evaluates them and prints the errors."
    return [Table((head, *rows)), Paragraph(command)]
