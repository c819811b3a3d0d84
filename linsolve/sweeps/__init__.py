"""Observables over whole grids of parameters and over ensembles of networks, in blocks, on any executor."""

from __future__ import annotations

from linsolve.registry import on_use

# a name and its file; each is imported when first asked for
WHERE = {
    "BlockError": "execute",
    "Diagram": "diagram",
    "Ensemble": "reduced",
    "Histogram": "reductions_histogram",
    "Quantiles": "reductions_quantiles",
    "StoreError": "store",
    "of": "observe",
    "random_networks": "factories",
    "run": "execute",
    "sweep": "grid",
}
__all__ = [*WHERE]

__getattr__, __dir__ = on_use(__name__, WHERE)
