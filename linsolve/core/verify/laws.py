"""The checks of a law: order and size of an expansion's error, z-scores of a statistic, refused counterexamples."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.law import Expansion, Law, Statistic
from linsolve.core.query import NotExact

__all__ = ["ORDER_TOLERANCE", "Z_TOLERANCE", "check_law"]

ORDER_TOLERANCE = 0.1
Z_TOLERANCE = 3.5
_ROUNDING = 1e-8  # tolerance for the integration of a special case

Row = tuple[str, float, float, str]


def check_law(law: Law, seed: int = 0) -> list[Row]:
    """Return ``(name, value, tolerance, detail)`` for every quantity of a law."""
    if isinstance(law, Expansion):
        rows = _expansion(law)
    elif isinstance(law, Statistic):
        rows = _statistic(law, np.random.default_rng(seed))
    else:
        raise TypeError(
            f"verify: law = {type(law).__name__} is neither an Expansion nor a Statistic; derive it from one"
        )
    return rows + _conditions(law)


def _expansion(law: Expansion) -> list[Row]:
    errors = law.errors()
    rows: list[Row] = []
    for name, slopes in law.measured_orders(errors).items():
        stated = law.orders[name]
        detail = f"order of the error minus {stated:g} (measured {', '.join(f'{s:.3f}' for s in slopes)})"
        off = float(np.max(np.abs(slopes - stated)))
        rows.append((f"order {name}", off, ORDER_TOLERANCE, detail))
        if name in law.constants and off <= ORDER_TOLERANCE:  # the constant is meaningful only if the order is correct
            size = float(np.max(errors[name] / np.power(law.scales, stated)))
            rows.append((f"size {name}", size, law.constants[name], f"error over small**{stated:g}, at every scale"))
    special = [float(np.max(case.errors_at((small,))[name])) for case, small, name in law.special_cases()]
    if special:
        rows.append(("special cases", float(np.max(special)), _ROUNDING, "error where the law is exact"))
    return rows


def _statistic(law: Statistic, rng: np.random.Generator) -> list[Row]:
    rows = []
    for name, (value, mean, error) in law.measured(rng).items():
        z = np.max(np.abs((mean - value) / error))
        rows.append((f"z {name}", float(z), Z_TOLERANCE, f"largest |z| of {np.size(mean)} means of {law.draws} draws"))
        size = np.broadcast_to(np.abs(value), np.shape(mean))
        if (size > 0).any():
            seen = Z_TOLERANCE * np.max(np.broadcast_to(error, size.shape)[size > 0] / size[size > 0])
            detail = "relative deviation that the draws would show"
            rows.append((f"resolution {name}", float(seen), law.resolution, detail))
    return rows


def _conditions(law: Law) -> list[Row]:
    """Count the conditions without a counterexample, and the counterexamples that do not raise a named `NotExact`."""
    xp = arithmetic.namespace(*law.parameters().values())
    stated, known = law.conditions(xp), type(law).counterexamples(np.random.default_rng(0))
    if not stated and not known:
        return []
    open_ = [name for name in {**stated, **known} if name not in known or not _refused(type(law), name, known[name])]
    detail = "conditions whose violation is not refused" + (f": {', '.join(open_)}" if open_ else "")
    return [("conditions", float(len(open_)), 0.0, detail)]


def _refused(cls: Any, name: str, parameters: dict[str, Any]) -> bool:
    try:
        cls(**parameters)
    except NotExact as refusal:
        return name in str(refusal)
    return False
