"""Record of a published formula: its place, quote, verdict and corrected form, and a numerical check."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.arguments import unknown_name

__all__ = ["CORRECTED", "REJECTED", "VERDICTS", "Errors", "Evidence", "Formula", "Order", "Source"]

VERDICTS = ("holds", "holds under a condition", "leading order", "convention", "typographical", "incorrect")
CORRECTIONS = VERDICTS[-2:]
CORRECTED = "corrected"  # both of them
REJECTED = 100  # a printed form counts as wrong if its error is at least this many tolerances


class Errors(NamedTuple):
    """Error of the form that holds, and of the printed form if the two differ.

    Parameters
    ----------
    stated : float
        Error of the form that holds, relative to the largest entry of the independent value.
    printed : float or None
        Error of the printed form; None if it is the form that holds.

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
    """Independent value, value of the form that holds, and value of the printed form if it differs.

    The error is the largest difference divided by the largest entry of `truth` (by 1 if that is 0).

    Parameters
    ----------
    truth : array_like, any shape
        Value from an independent computation.
    stated : array_like
        Value of the form that holds; it broadcasts against `truth`.
    printed : array_like, optional
        Value of the printed form, if it differs.

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
        Orders of the form that holds, and of the printed form if it differs.

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
        Key of the paper in ``linsolve.papers.references``, which names the edition read.
    section : str
        Section or appendix; ``"3.3/B.2"`` is appendix B.2 of the paper reprinted in section 3.3.
    number : str
        Equation number or other place within the section.
    states : str
        The statement, in words.
    quote : str
        Verbatim quote, with formulas in LaTeX; ``[...]`` marks an omission.
    latex : str
        The form that holds, in LaTeX.
    verdict : str
        One of `VERDICTS`.
    reason : str
        Condition, order, convention or correction behind the verdict; empty only for ``"holds"``.
    setting : str
        Setting of the source in which the formula is judged.
    follows : str
        Name of the check of the record whose slip is repeated here, if any; a slip is counted once.
    about : tuple of str
        The flows and laws to which the formula belongs.
    check : callable
        Returns `Evidence`, or `Order` for an expansion; its docstring describes the independent computation.
    tolerance : float
        Largest error of the form that holds; a printed form that does not hold has at least 100 times this error.

    Raises
    ------
    ValueError
        If the verdict is unknown, or a quote, a setting or a reason is missing.

    Examples
    --------
    >>> from linsolve import published
    >>> formula = published.find("xu_ziyin_2024", verdict="corrected")[0]
    >>> errors = formula.errors()
    >>> errors.stated <= formula.tolerance, errors.printed > 100 * formula.tolerance
    (True, True)
    """

    source: str
    section: str
    number: str
    states: str
    quote: str
    latex: str
    verdict: str
    reason: str
    setting: str
    follows: str
    about: tuple[str, ...]
    check: Callable[[], Evidence | Order]
    tolerance: float

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(unknown_name("Formula", "verdict", self.verdict, VERDICTS))
        needed = ("section", "number", "quote", "latex", "setting") + ("reason",) * (self.verdict != "holds")
        for field in needed:
            if not getattr(self, field):
                rule = f"must not be empty for the verdict {self.verdict!r}"
                raise ValueError(f"Formula: {field} = '' {rule} ({self.name}); state it")

    @property
    def place(self) -> str:
        """Section and equation number, as "section 3.3, its appendix B.2, (40)"."""
        first, *inner = (f"{'appendix' if part[0].isalpha() else 'section'} {part}" for part in self.section.split("/"))
        return ", ".join([first, *(f"its {part}" for part in inner), self.number])

    @property
    def order(self) -> tuple[Any, ...]:
        """Sort key: section, appendices last, then equation number."""
        section = tuple((part.isalpha(), int(part) if part.isdigit() else part) for part in _parts(self.section))
        number = re.search(r"\((\d+)(?:\.(\d+))?", self.number)
        return section, tuple(int(part or 0) for part in number.groups()) if number else (0, 0)

    @property
    def corrected(self) -> bool:
        """Whether the printed form needs a correction."""
        return self.verdict in CORRECTIONS

    @property
    def name(self) -> str:
        """Name of the formula in ``tests/papers/test_published.py``."""
        return f"{self.source}-{self.check.__name__}"

    @property
    def evidence(self) -> str:
        """Method of the independent computation, as a sentence."""
        return " ".join((self.check.__doc__ or "").split())

    def errors(self) -> Errors:
        """Return the errors of the form that holds, and of the printed form if the check compares it."""
        return self.check().errors()

    def holds(self, errors: Errors) -> bool:
        """Return whether the form that holds passes the check and a printed form that does not hold fails it."""
        if errors.printed is None:
            return errors.stated <= self.tolerance and not self.corrected
        return errors.stated <= self.tolerance and errors.printed >= REJECTED * self.tolerance


def _parts(section: str) -> list[str]:
    return re.split(r"[/.]", section)


class Source:
    """Formulas of one paper, in the order of their checks; used as a decorator, it adds a check.

    Parameters
    ----------
    key : str
        Key of the paper.
    setting : str
        Setting of the records that name none.
    """

    def __init__(self, key: str, setting: str) -> None:
        self.key = key
        self.setting = setting
        self._found: list[Formula] = []

    @property
    def formulas(self) -> tuple[Formula, ...]:
        """All formulas of the paper."""
        return tuple(self._found)

    def __call__(
        self,
        section: str,
        number: str,
        states: str,
        *,
        quote: str,
        latex: str,
        verdict: str = "holds",
        reason: str = "",
        setting: str = "",
        follows: str = "",
        about: tuple[str, ...] = (),
        tolerance: float = 1e-9,
    ) -> Callable[[Callable[[], Evidence | Order]], Callable[[], Evidence | Order]]:
        """Return the decorator that adds a check as a `Formula`."""

        def add(check: Callable[[], Evidence | Order]) -> Callable[[], Evidence | Order]:
            judged = verdict, reason, setting or self.setting, follows
            record = Formula(self.key, section, number, states, quote, latex, *judged, about, check, tolerance)
            self._found.append(record)
            return check

        return add
