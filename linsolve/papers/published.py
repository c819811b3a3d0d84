"""Published formulas as executable records: place, verbatim quote, verdict with its reason, and a check.

Formulas are read under the assumptions and to the order that their source states, in every consistent reading. The six
verdicts are: holds; holds under a condition; leading order, as the source says; convention, if a reading of signs,
indices or normalization makes it hold; typographical; incorrect, with a proof or a measured counterexample there. The
last two together are found as ``"corrected"``. A record that repeats an earlier slip names it.

The check compares the form that holds with an independent result: integrated weights, fifty-digit arithmetic,
quadrature or a matrix identity. For a corrected formula it also evaluates the printed form, whose error must exceed the
tolerance by a factor of at least 100.

Examples
--------
>>> from linsolve import published
>>> formula = published.find("atanasov_2022", verdict="corrected")[0]
>>> formula.holds(formula.errors())
True
"""

from __future__ import annotations

import importlib
from typing import Any

from linsolve.core.arguments import shown, unknown_name
from linsolve.core.published_formula import CORRECTED, VERDICTS, Errors, Evidence, Formula, Order
from linsolve.systems import packages

__all__ = ["CORRECTED", "SOURCES", "VERDICTS", "Errors", "Evidence", "Formula", "Order", "about", "find"]


def _sources() -> dict[str, tuple[str, ...]]:
    """Return the modules of each paper's formulas, by the paper's key in `linsolve.papers.references`."""
    found: dict[str, tuple[str, ...]] = {}
    for package in packages():
        for key, modules in getattr(package, "PUBLISHED", {}).items():
            found[key] = (*found.get(key, ()), *(f"{package.__name__}.{module}" for module in modules))
    return found


SOURCES = _sources()


def find(source: str | None = None, *, verdict: str | None = None) -> tuple[Formula, ...]:
    """Return the formulas of one paper, or of all papers.

    Parameters
    ----------
    source : str, optional
        Key of the paper, one of `SOURCES`.
    verdict : str, optional
        One of `VERDICTS`, or ``"corrected"`` for ``"typographical"`` and ``"incorrect"`` together.

    Returns
    -------
    tuple of Formula
        In the order of sections and equation numbers, paper by paper.

    Raises
    ------
    ValueError
        If the source or the verdict is unknown.

    Examples
    --------
    >>> from linsolve import published
    >>> sorted({formula.verdict for formula in published.find("xu_ziyin_2024", verdict="corrected")})
    ['incorrect', 'typographical']
    """
    if source is not None and not (isinstance(source, str) and source in SOURCES):
        raise ValueError(unknown_name("published", "source", source, SOURCES))
    known = (*VERDICTS, CORRECTED)
    if verdict is not None and not (isinstance(verdict, str) and verdict in known):
        raise ValueError(unknown_name("published", "verdict", verdict, known))
    keys = [key for key in SOURCES if source in (None, key)]
    found = [each for key in keys for each in sorted(_of(key), key=lambda each: each.order)]
    return tuple(each for each in found if verdict in (None, each.verdict, CORRECTED if each.corrected else None))


def _of(key: str) -> list[Formula]:
    return [each for name in SOURCES[key] for each in importlib.import_module(name).FORMULAS]


def about(name: str) -> tuple[Formula, ...]:
    """Return the formulas that belong to a flow or law, by its name.

    Parameters
    ----------
    name : str
        Name of the flow or law, such as ``"LearningTime"``.

    Examples
    --------
    >>> from linsolve import published
    >>> sorted({formula.source for formula in published.about("LearningTime")})
    ['atanasov_2022']
    """
    if not isinstance(name, str):
        raise TypeError(f"published.about: name = {shown(name)} must be a string (flow or law); such as 'LearningTime'")
    return tuple(each for each in find() if name in each.about)


def __dir__() -> list[Any]:
    return sorted(__all__)
