"""The check of a law: the order of an expansion's error, or the z-scores of a statistic."""

from __future__ import annotations

import numpy as np

from linsolve.core.law import Expansion, Law, Statistic

__all__ = ["ORDER_TOLERANCE", "Z_TOLERANCE", "check_law"]

ORDER_TOLERANCE = 0.1
Z_TOLERANCE = 3.5

Row = tuple[str, float, float, str]


def check_law(law: Law, seed: int = 0) -> list[Row]:
    """Return ``(name, value, tolerance, detail)`` for every quantity that a law states."""
    if isinstance(law, Expansion):
        return [_order(law, name, slopes) for name, slopes in law.measured_orders().items()]
    if isinstance(law, Statistic):
        scores = law.scores(np.random.default_rng(seed))
        return [_score(law, name, z) for name, z in scores.items()]
    raise TypeError(f"verify: law = {type(law).__name__} is neither an Expansion nor a Statistic; derive it from one")


def _order(law: Expansion, name: str, slopes: np.ndarray) -> Row:
    stated = law.orders[name]
    detail = f"order of the error minus {stated:g} (measured {', '.join(f'{s:.3f}' for s in slopes)})"
    return f"order {name}", float(np.max(np.abs(slopes - stated))), ORDER_TOLERANCE, detail


def _score(law: Statistic, name: str, z: np.ndarray) -> Row:
    detail = f"largest |z| of {np.size(z)} means of {law.draws} draws"
    return f"z {name}", float(np.max(np.abs(z))), Z_TOLERANCE, detail
