"""linsolve: exact training dynamics of solvable linear networks, proved against simulation."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from linsolve import arithmetic, flows, laws
from linsolve.applies import applies
from linsolve.flow import Flow, NotExact, Trajectory, observable, parameter
from linsolve.inputs import unknown_name
from linsolve.integrate import descend, integrate
from linsolve.law import Expansion, Law, Statistic
from linsolve.verify import verify

# each flow and law is an attribute too, imported when first asked for, as are these modules and functions
_MODULES = (
    "collapse", "data", "deep", "errata", "figures", "fused", "linearized", "ntk", "phases", "plot", "stable", "sweeps",
)  # fmt: skip
_FUNCTIONS = {
    "card": "cards",
    "cite": "references",
    "ensemble": "sweeps.ensemble",
    "learn": "learn",
    "simulate": "simulate",
    "sweep": "sweeps.grid",
    "to_code": "standalone",
}

__all__ = [
    "Expansion",
    "Flow",
    "Law",
    "NotExact",
    "Statistic",
    "Trajectory",
    "applies",
    "arithmetic",
    "descend",
    "flows",
    "integrate",
    "laws",
    "observable",
    "parameter",
    "verify",
    *_MODULES,
    *_FUNCTIONS,
    *flows.WHERE,
    *laws.WHERE,
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"linsolve.{name}")
    if name in _FUNCTIONS:
        return getattr(importlib.import_module(f"linsolve.{_FUNCTIONS[name]}"), name)
    for registry in (flows, laws):
        if name in registry.WHERE:
            return getattr(registry, name)
    raise AttributeError(unknown_name("linsolve", "attribute", name, __all__))


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """A package in which importing the module of a function does not put the module in the function's place."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _FUNCTIONS and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __reduce__(self) -> Any:  # as cloudpickle, and with it Dask and loky, has it of plain modules only
        return importlib.import_module, (__name__,)


sys.modules[__name__].__class__ = _Package
