"""The exactly solvable networks; `ALL` is the registry that everything generic reads."""

from __future__ import annotations

from typing import Any

from linsolve.core.registry import on_use
from linsolve.systems import packages

# full name of the module of each flow, by the flow's name
WHERE = dict(sorted((n, f"{p.__name__}.{m}") for p in packages() for n, m in getattr(p, "FLOWS", {}).items()))
__all__ = ["ALL", *WHERE]  # noqa: F822 (ALL is made on access)

_get, _names = on_use(__name__, WHERE)


def __getattr__(name: str) -> Any:
    return tuple(_get(each) for each in WHERE) if name == "ALL" else _get(name)


def __dir__() -> list[str]:
    return ["ALL", *_names()]
