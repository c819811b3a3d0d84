"""Record of a published formula: the printed form, the correct form, and a numerical check of both."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

__all__ = ["CORRECTED", "DIFFERENT", "REJECTED", "VERDICTS", "Errors", "Evidence", "Formula", "Order", "Source"]

CORRECTED, DIFFERENT = "corrected", "different setting"
VERDICTS = ("exact", "exact under a condition", "leading order", CORRECTED, DIFFERENT)
REJECTED = 100  # a printed form counts as wrong if its error is at least this many tolerances


class Errors(NamedTuple):
    """Error of the correct form, and of the printed form if the two differ.

    Examples
    --------
    >>> from linsolve.papers.published import Errors
    >>> errors = Errors(stated=1e-12, printed=0.5)
    >>> errors.stated < errors.printed
    True
    """

    stated: float
    printed: float | None


class Evidence(NamedTuple):
    """Independent value, value of the correct form, and value of the printed form.

    The error is the largest difference divided by the largest entry of `truth` (by 1 if that is 0).

    Examples
    --------
    >>> from linsolve.papers.published import Evidence
    >>> Evidence(truth=[1.0, 2.0], stated=[1.0, 2.0], printed=[2.0, 4.0]).errors()
    Errors(stated=0.0, printed=1.0)
    """

    truth: Any
    stated: Any
    printed: Any = None

    def errors(self) -> Errors:
        """Return the errors of the two forms."""
        return Errors(self._error(self.stated), None if self.printed is None else self._error(self.printed))

    def _error(self, form: Any) -> float:
        truth, form = np.asarray(self.truth, dtype=float), np.asarray(form, dtype=float)
        return float(np.max(np.abs(form - truth)) / (np.max(np.abs(truth)) or 1))


class Order(NamedTuple):
    """Errors of an expansion at values of its small parameter; the order is the slope in logarithms.

    Parameters
    ----------
    scales, found : array_like, shape (k,)
        Values of the small parameter, and the errors there; the last two determine the slope.
    stated, printed : float
        Orders of the correct form, and of the printed form if it differs.

    Examples
    --------
    >>> from linsolve.papers.published import Order
    >>> expansion = Order(scales=[0.1, 0.01], found=[3e-2, 3e-4], stated=2.0, printed=1.0)
    >>> round(expansion.measured(), 6)
    2.0
    """

    scales: Any
    found: Any
    stated: float
    printed: float | None = None

    def measured(self) -> float:
        """Return the slope between the last two values."""
        return float(np.diff(np.log(self.found))[-1] / np.diff(np.log(self.scales))[-1])

    def errors(self) -> Errors:
        """Return the distances of the measured order from the stated and from the printed order."""
        slope = self.measured()
        return Errors(abs(slope - self.stated), None if self.printed is None else abs(slope - self.printed))


@dataclasses.dataclass(frozen=True)
class Formula:
    """One published formula, checked.

    Parameters
    ----------
    source : str
        Key of the paper in ``linsolve.papers.references``.
    number : str
        Equation number or place in the paper.
    states : str
        The statement, in words.
    latex : str
        The correct formula, in LaTeX.
    printed : str
        The printed form, in LaTeX, if it is wrong; else empty.
    condition : str
        Condition under which the formula holds, if any; for expansions their measured order.
    about : tuple of str
        The flows and laws to which the formula belongs.
    check : callable
        Returns `Evidence`, or `Order` for an expansion; its docstring describes the independent computation.
    tolerance : float
        Largest error of the correct form; a wrong printed form has at least 100 times this error.
    expansion : bool
        Whether the formula holds to leading order only.
    elsewhere : bool
        Whether the published form holds in a different setting and not for these networks.

    Examples
    --------
    >>> from linsolve import published
    >>> formula = published.find("xu_ziyin_2024", verdict="corrected")[0]
    >>> errors = formula.errors()
    >>> errors.stated <= formula.tolerance, errors.printed > 100 * formula.tolerance
    (True, True)
    """

    source: str
    number: str
    states: str
    latex: str
    printed: str
    condition: str
    about: tuple[str, ...]
    check: Callable[[], Evidence | Order]
    tolerance: float
    expansion: bool = False
    elsewhere: bool = False

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`: "exact", "exact under a condition", "leading order", "corrected", "different setting"."""
        if self.elsewhere:
            return DIFFERENT
        if self.printed:
            return CORRECTED
        if self.expansion:
            return "leading order"
        return "exact under a condition" if self.condition else "exact"

    @property
    def name(self) -> str:
        """Name of the formula in ``tests/papers/test_published.py``."""
        return f"{self.source}-{self.check.__name__}"

    @property
    def evidence(self) -> str:
        """Method of the independent computation, as a sentence."""
        return " ".join((self.check.__doc__ or "").split())

    def errors(self) -> Errors:
        """Return the errors of the correct form, and of the printed form if it differs."""
        return self.check().errors()

    def holds(self, errors: Errors) -> bool:
        """Return whether the correct form passes the check and the printed form, if it differs, fails it."""
        right = errors.stated <= self.tolerance
        return right and (errors.printed is None or errors.printed >= REJECTED * self.tolerance)


class Source:
    """Formulas of one paper, in the order of their checks; used as a decorator, it adds a check."""

    def __init__(self, key: str) -> None:
        self.key = key
        self._found: list[Formula] = []

    @property
    def formulas(self) -> tuple[Formula, ...]:
        """All formulas of the paper."""
        return tuple(self._found)

    def __call__(
        self,
        number: str,
        states: str,
        latex: str,
        *,
        printed: str = "",
        condition: str = "",
        about: tuple[str, ...] = (),
        tolerance: float = 1e-9,
        expansion: bool = False,
        elsewhere: bool = False,
    ) -> Callable[[Callable[[], Evidence | Order]], Callable[[], Evidence | Order]]:
        """Return the decorator that adds a check as a `Formula`."""

        def add(check: Callable[[], Evidence | Order]) -> Callable[[], Evidence | Order]:
            flags = expansion, elsewhere
            record = Formula(self.key, number, states, latex, printed, condition, about, check, tolerance, *flags)
            self._found.append(record)
            return check

        return add
