"""linsolve: exact training dynamics of solvable linear networks, proved against simulation."""

from __future__ import annotations

import importlib
from typing import Any

from linsolve import arithmetic, flows
from linsolve.flow import Flow, NotExact, Trajectory, observable, parameter
from linsolve.flows import BalancedMode
from linsolve.integrate import descend, integrate
from linsolve.verify import verify

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


def __getattr__(name: str) -> Any:
    if name in ("data", "plot"):  # what costs time to import is imported when first asked for
        return importlib.import_module(f"linsolve.{name}")
    raise AttributeError(f"module 'linsolve' has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)
