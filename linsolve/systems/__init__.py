"""The solved systems: a folder each, with its flows, starts, kernels, laws and published formulas.

The ``__init__.py`` of a system declares `FLOWS` and `LAWS`, dictionaries of the module of each name, and
`PUBLISHED`, the modules of its published formulas by paper; each may be left out. A new system is a folder and its line
in `SYSTEMS`.
"""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = ["SYSTEMS", "packages"]

SYSTEMS = (
    "mode",
    "two_layer",
    "whitened",
    "attention",
    "lora",
    "gated",
    "deep",
    "small_start",
    "kernel_regime",
    "collapse",
    "random_networks",
    "streaming_sgd",
    "generalization",
)


def packages() -> list[ModuleType]:
    """Return the packages of the systems, in the order of `SYSTEMS`; importing them imports no formula."""
    return [importlib.import_module(f"linsolve.systems.{name}") for name in SYSTEMS]
