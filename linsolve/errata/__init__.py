"""Published formulas as executable statements: what five papers print, what holds, and the evaluation that decides.

Every record names its source, the equation, the flow or law to which it belongs, and a check that evaluates the
formula against something found without it: an integration of the raw weights, fifty digits, quadrature, an identity of
matrices. For a misprint the same check evaluates what is printed, too, and it must fail by a factor of at least 100.

Examples
--------
>>> from linsolve import errata
>>> formula = errata.find("atanasov_2022", misprints=True)[0]
>>> formula.holds(formula.errors())
True
"""

from __future__ import annotations

import importlib
from typing import Any

from linsolve.errata.formula import MISPRINT, Errors, Evidence, Formula, Order
from linsolve.inputs import unknown_name

__all__ = ["MISPRINT", "SOURCES", "Errors", "Evidence", "Formula", "Order", "about", "find"]

# a paper's key in `linsolve.references` and the file of its formulas, imported on use
SOURCES = {
    "xu_ziyin_2024": ("two_layer_line", "two_layer_phases"),
    "atanasov_2022": (
        "alignment",
        "alignment_phases",
        "alignment_deep",
        "alignment_strength",
        "alignment_outputs",
    ),
    "seleznova_2024": (
        "neural_collapse",
        "neural_collapse_end",
        "neural_collapse_limits",
        "random_networks",
        "deep_networks",
    ),
    "geiger_2020": ("lazy_training",),
    "ortiz_jimenez_2021": ("linearized_networks",),
}


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
    >>> from linsolve import errata
    >>> {formula.verdict for formula in errata.find("atanasov_2022", misprints=True)}
    {'misprint'}
    """
    if source is not None and not (isinstance(source, str) and source in SOURCES):
        raise ValueError(unknown_name("errata", "source", source, SOURCES))
    files = [name for key, names in SOURCES.items() if source in (None, key) for name in names]
    found = [each for name in files for each in importlib.import_module(f"linsolve.errata.{name}").FORMULAS]
    return tuple(each for each in found if each.verdict == MISPRINT or not misprints)


def about(name: str) -> tuple[Formula, ...]:
    """Return the formulas that belong to a flow or law, by its name.

    Parameters
    ----------
    name : str
        Such as ``"LearningTime"``.

    Examples
    --------
    >>> from linsolve import errata
    >>> sorted({formula.source for formula in errata.about("LearningTime")})
    ['atanasov_2022']
    """
    return tuple(each for each in find() if name in each.about)


def __dir__() -> list[Any]:
    return sorted(__all__)
