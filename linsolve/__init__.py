"""linsolve: exact training dynamics of solvable linear networks, proved against simulation."""

from __future__ import annotations

import importlib
from typing import Any

from linsolve import arithmetic, flows
from linsolve.flow import Flow, NotExact, Trajectory, observable, parameter
from linsolve.flows import BalancedMode

__all__ = [
    "BalancedMode",
    "Flow",
    "NotExact",
    "Trajectory",
    "arithmetic",
    "data",
    "descend",
    "flows",
    "integrate",
    "observable",
    "parameter",
    "plot",
    "verify",
]

__version__ = "0.1.0"

# what costs time to import is imported when first asked for
_ON_USE = {
    "data": ("linsolve.data", None),
    "descend": ("linsolve.integrate", "descend"),
    "integrate": ("linsolve.integrate", "integrate"),
    "plot": ("linsolve.plot", None),
    "verify": ("linsolve.verify", "verify"),
}


def __getattr__(name: str) -> Any:
    if name not in _ON_USE:
        raise AttributeError(f"module 'linsolve' has no attribute {name!r}; it has {', '.join(__all__)}")
    module, attribute = _ON_USE[name]
    found = importlib.import_module(module)
    value = getattr(found, attribute) if attribute else found
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
