"""Gated deep linear networks: pathways that contexts share, and late fusion of two modalities."""

from __future__ import annotations

from linsolve.core.registry import on_use

FLOWS = {
    "NeuralRace": "neural_race",
}
LAWS = {
    "UnimodalBias": "unimodal_bias",
}
PUBLISHED: dict[str, tuple[str, ...]] = {}

_WHERE = {name: f"{__name__}.{module}" for name, module in {**FLOWS, **LAWS}.items()}
__all__ = ["FLOWS", "LAWS", "PUBLISHED", *_WHERE]

__getattr__, __dir__ = on_use(__name__, _WHERE)
