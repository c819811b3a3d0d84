"""Gradient flow with a block-structured tangent kernel, up to neural collapse."""

from __future__ import annotations

from linsolve.core.registry import on_use

FLOWS = {
    "FrozenHead": "frozen_head",
    "NeuralCollapse": "neural_collapse",
}
LAWS: dict[str, str] = {}
PUBLISHED = {
    "seleznova_2024": ("published", "published_outputs", "published_end", "published_limits", "published_blocks"),
}
_MORE = {
    "BlockNetwork": "network",
    "GeneralBlocks": "general_blocks",
    "ZeroTarget": "zero_target",
    "aligned_limit": "limits",
    "balanced_limit": "limits",
    "follow": "network",
}

_WHERE = {name: f"{__name__}.{module}" for name, module in {**FLOWS, **LAWS, **_MORE}.items()}
__all__ = ["FLOWS", "LAWS", "PUBLISHED", *_WHERE]

__getattr__, __dir__ = on_use(__name__, _WHERE)
