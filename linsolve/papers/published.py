"""Published formulas as executable statements: what five papers print, what holds, and the evaluation that decides.

Every record names its source, the equation, the flow or law to which it belongs, and a check that evaluates the
formula against something found without it: an integration of the raw weights, fifty digits, quadrature, an identity of
matrices. For a misprint the same check evaluates what is printed, too, and it must fail by a factor of at least 100.

Examples
--------
>>> from linsolve import published
>>> formula = published.find("atanasov_2022", misprints=True)[0]
>>> formula.holds(formula.errors())
True
"""

from __future__ import annotations

import importlib
from typing import Any

from linsolve.core.arguments import unknown_name
from linsolve.core.published_formula import MISPRINT, Errors, Evidence, Formula, Order
from linsolve.systems import packages

__all__ = ["MISPRINT", "SOURCES", "Errors", "Evidence", "Formula", "Order", "about", "find"]


def _sources() -> dict[str, tuple[str, ...]]:
    """Return the modules of each paper's formulas, by the paper's key in `linsolve.papers.references`."""
    found: dict[str, tuple[str, ...]] = {}
    for package in packages():
        for key, modules in package.PUBLISHED.items():
            found[key] = (*found.get(key, ()), *(f"{package.__name__}.{module}" for module in modules))
    return found


SOURCES = _sources()


def find(source: str | None = None, *, misprints: bool = False) -> tuple[Formula, ...]:
    """Return the formulas of a paper, or of all.

    Parameters
    ----------
    source : str, optional
        Key of the paper, one of `SOURCES`.
    misprints : bool
        Whether to return only those that are misprinted.

    Returns
    -------
    tuple of Formula

    Raises
    ------
    ValueError
        If the source is unknown.

    Examples
    --------
    >>> from linsolve import published
    >>> {formula.verdict for formula in published.find("atanasov_2022", misprints=True)}
    {'misprint'}
    """
    if source is not None and not (isinstance(source, str) and source in SOURCES):
        raise ValueError(unknown_name("published", "source", source, SOURCES))
    files = [name for key, names in SOURCES.items() if source in (None, key) for name in names]
    found = [each for name in files for each in importlib.import_module(name).FORMULAS]
    return tuple(each for each in found if each.verdict == MISPRINT or not misprints)


def about(name: str) -> tuple[Formula, ...]:
    """Return the formulas that belong to a flow or law, by its name.

    Parameters
    ----------
    name : str
        Such as ``"LearningTime"``.

    Examples
    --------
    >>> from linsolve import published
    >>> sorted({formula.source for formula in published.about("LearningTime")})
    ['atanasov_2022']
    """
    return tuple(each for each in find() if name in each.about)


def __dir__() -> list[Any]:
    return sorted(__all__)
