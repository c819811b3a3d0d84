"""Architectures that `applies` and `solve` reduce to linear networks: adapters (LoRA) and linear attention."""

from __future__ import annotations

from typing import Any

from linsolve.core.arguments import shown
from linsolve.solvability.activation import read_activation
from linsolve.solvability.adapters import adapted
from linsolve.solvability.equivalent import Equivalent
from linsolve.solvability.heads import attending

__all__ = ["equivalent", "is_rank_one", "refuse_besides", "refuse_nonlinear"]


def is_rank_one(weights: Any) -> bool:
    """Return whether the weights of attention heads are (value, key, query)."""
    return isinstance(weights, tuple | list) and len(weights) == 3


def refuse_besides(who: str, **others: Any) -> None:
    """Raise ValueError for an argument that attention heads do not have."""
    for name, value in others.items():
        if value is not None:
            raise ValueError(
                f"{who}: {name} = {shown(value)} does not go with context and these heads (linear attention); leave it "
                "out"
            )


def refuse_nonlinear(who: str, activation: Any, **given: Any) -> None:
    """Raise ValueError for a nonlinear activation beside an argument of adapters or attention."""
    unit = read_activation(who, activation)
    name = next((name for name, value in given.items() if value is not None), None)
    if unit is not None and name is not None:
        raise ValueError(
            f"{who}: activation = {unit.given} does not go with {name} (adapters and attention are linear); leave one "
            "of them out"
        )


def equivalent(
    who: str, weights: Any, data: Any, rates: Any, covariances: Any, tolerance: Any, bias: Any, test: Any, names: Any,
    base: Any, scale: Any, context: Any,
) -> Equivalent | None:  # fmt: skip
    """Return the linear network that moves as adapters or attention heads do, None for a linear network."""
    if context is not None:
        refuse_besides(who, bias=bias, base=base, scale=scale)
        return attending(who, weights, data, rates, covariances, test, context)
    if base is None and scale is None:
        return None
    return adapted(who, weights, data, rates, covariances, tolerance, bias, test, names, base, scale)
