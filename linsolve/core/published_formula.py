"""A published formula as a record: the form as published, the form that holds, and the evaluation that decides."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

__all__ = ["CORRECTED", "DIFFERENT", "REJECTED", "VERDICTS", "Errors", "Evidence", "Formula", "Order", "Source"]

CORRECTED, DIFFERENT = "corrected", "different setting"
VERDICTS = ("exact", "exact under a condition", "leading order", CORRECTED, DIFFERENT)
REJECTED = 100  # a printed form is wrong where its error is at least this many tolerances


class Errors(NamedTuple):
    """Error of the form that holds, and of the printed one where the two differ.

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
    """Independent value, value of the formula, and value of the printed form.

    Errors are the largest difference over the largest entry of `truth` (over 1 where that is 0).

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
    """Errors of an expansion at values of its small parameter: its order is the slope of their logarithms.

    Parameters
    ----------
    scales, found : array_like, shape (k,)
        Values of the small parameter, and the errors there; of the last two the slope is taken.
    stated, printed : float
        Orders of the form that holds and of the printed one, where that differs.

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
        """Return how far the measured order is from the stated and from the printed one."""
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
        Its number, or its place, there.
    states : str
        The statement, in words.
    latex : str
        The formula that holds, in LaTeX.
    printed : str
        As printed, in LaTeX, where that is wrong; else empty.
    condition : str
        Under which it holds, where there is one; for expansions their order, as measured.
    about : tuple of str
        The flows and laws to which it belongs.
    check : callable
        Returns `Evidence`, or `Order` for an expansion; its docstring says how the truth was found.
    tolerance : float
        Largest error of the form that holds; a printed form that is wrong has at least 100 times as much.
    expansion : bool
        Whether it holds to leading order.
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
        """Name of its test: ``tests/papers/test_published.py`` runs it under this name."""
        return f"{self.source}-{self.check.__name__}"

    @property
    def evidence(self) -> str:
        """Method by which the independent value was found, in a sentence."""
        return " ".join((self.check.__doc__ or "").split())

    def errors(self) -> Errors:
        """Evaluate the formula, and the printed form where that differs, against the truth."""
        return self.check().errors()

    def holds(self, errors: Errors) -> bool:
        """Return whether the form that holds does, and the printed one, where there is one, does not."""
        right = errors.stated <= self.tolerance
        return right and (errors.printed is None or errors.printed >= REJECTED * self.tolerance)


class Source:
    """The formulas of one paper, in the order in which their checks are written; decorate a check to add one."""

    def __init__(self, key: str) -> None:
        self.key = key
        self._found: list[Formula] = []

    @property
    def formulas(self) -> tuple[Formula, ...]:
        """All of them."""
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
