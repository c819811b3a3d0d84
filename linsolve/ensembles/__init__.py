"""Observables over grids of parameters and over ensembles of networks, in blocks, on any executor."""

from __future__ import annotations

from linsolve.core.registry import on_use

# module of each name, imported on first access
_MODULES = {
    "BlockError": "execute",
    "Diagram": "diagram",
    "Ensemble": "result",
    "Histogram": "reductions",
    "Quantiles": "quantiles",
    "StoreError": "store",
    "ensemble": "stream",
    "of": "observe",
    "random_networks": "factories",
    "run": "execute",
    "sweep": "sweep_grid",
}
__all__ = [*_MODULES]

__getattr__, __dir__ = on_use(__name__, {name: f"{__name__}.{module}" for name, module in _MODULES.items()})
