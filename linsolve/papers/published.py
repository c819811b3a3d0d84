"""Published formulas as executable records: the published form, the corrected form, and the check that compares them.

Every record names its source, the equation and the flow or law to which it belongs. Its check compares the formula
with an independent result: integrated weights, fifty-digit arithmetic, quadrature or a matrix identity. For a corrected
formula the check also evaluates the published form, whose error must exceed the tolerance by a factor of at least 100.

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
        One of `VERDICTS`, such as ``"corrected"``.

    Returns
    -------
    tuple of Formula

    Raises
    ------
    ValueError
        If the source or the verdict is unknown.

    Examples
    --------
    >>> from linsolve import published
    >>> {formula.verdict for formula in published.find("atanasov_2022", verdict="corrected")}
    {'corrected'}
    """
    if source is not None and not (isinstance(source, str) and source in SOURCES):
        raise ValueError(unknown_name("published", "source", source, SOURCES))
    if verdict is not None and not (isinstance(verdict, str) and verdict in VERDICTS):
        raise ValueError(unknown_name("published", "verdict", verdict, VERDICTS))
    files = [name for key, names in SOURCES.items() if source in (None, key) for name in names]
    found = [each for name in files for each in importlib.import_module(name).FORMULAS]
    return tuple(each for each in found if verdict in (None, each.verdict))


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
