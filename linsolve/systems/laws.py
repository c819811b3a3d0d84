"""The laws: statements that hold in a limit or on average; `ALL` is the registry that everything generic reads."""

from __future__ import annotations

from typing import Any

from linsolve.core.law import Expansion, Statistic
from linsolve.core.registry import on_use
from linsolve.systems import packages

# full name of the module of each law, by the law's name
WHERE = {n: f"{p.__name__}.{m}" for p in packages() for n, m in getattr(p, "LAWS", {}).items()}
__all__ = ["ALL", "Expansion", "Statistic", *WHERE]  # noqa: F822 (ALL is made on access)

_get, _names = on_use(__name__, WHERE)


def __getattr__(name: str) -> Any:
    return tuple(_get(each) for each in WHERE) if name == "ALL" else _get(name)


def __dir__() -> list[str]:
    return ["ALL", "Expansion", "Statistic", *_names()]
