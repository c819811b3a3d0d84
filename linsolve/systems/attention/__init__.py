"""In-context linear regression by linear attention: merged keys and queries, and separate ones of rank one."""

from __future__ import annotations

from linsolve.core.registry import on_use

FLOWS = {
    "LinearAttention": "linear_attention",
    "RankOneAttention": "rank_one_attention",
}
LAWS: dict[str, str] = {}
PUBLISHED: dict[str, tuple[str, ...]] = {}

_WHERE = {name: f"{__name__}.{module}" for name, module in {**FLOWS, **LAWS}.items()}
__all__ = ["FLOWS", "LAWS", "PUBLISHED", *_WHERE]

__getattr__, __dir__ = on_use(__name__, _WHERE)
