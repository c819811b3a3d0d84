"""Deep linear networks of aligned, balanced layers: singular modes, weights and kernels."""

from __future__ import annotations

from linsolve.core.registry import on_use

FLOWS = {"BalancedMap": "balanced_map"}
LAWS: dict[str, str] = {}
PUBLISHED: dict[str, tuple[str, ...]] = {}
_MORE = {
    "BlowUp": "leading",
    "DeepNetwork": "network",
    "blow_up": "leading",
    "distances": "recognition",
    "nahm": "leading_closed",
}

_WHERE = {name: f"{__name__}.{module}" for name, module in {**FLOWS, **LAWS, **_MORE}.items()}
_WHERE["deep_weights"] = "linsolve.core.network"
__all__ = ["FLOWS", "LAWS", "PUBLISHED", *_WHERE]

__getattr__, __dir__ = on_use(__name__, _WHERE)
