"""Low-rank adaptation (LoRA) of a linear map, as a two-layer network on white inputs."""

from __future__ import annotations

from linsolve.core.registry import on_use

FLOWS = {
    "LoRA": "low_rank_adaptation",
}
LAWS: dict[str, str] = {}
PUBLISHED: dict[str, tuple[str, ...]] = {}

_WHERE = {name: f"{__name__}.{module}" for name, module in {**FLOWS, **LAWS}.items()}
__all__ = ["FLOWS", "LAWS", "PUBLISHED", *_WHERE]

__getattr__, __dir__ = on_use(__name__, _WHERE)
