"""One singular mode: balanced, of any depth, or with a bias."""

from __future__ import annotations

from linsolve.core.registry import on_use

FLOWS = {
    "BalancedMode": "balanced_mode",
    "BiasedMode": "biased_mode",
    "DeepMode": "deep_mode",
}
LAWS: dict[str, str] = {}
PUBLISHED: dict[str, tuple[str, ...]] = {}

_WHERE = {name: f"{__name__}.{module}" for name, module in {**FLOWS, **LAWS}.items()}
__all__ = ["FLOWS", "LAWS", "PUBLISHED", *_WHERE]

__getattr__, __dir__ = on_use(__name__, _WHERE)
