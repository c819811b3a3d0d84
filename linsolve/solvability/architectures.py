"""Architectures that `applies` and `solve` answer besides networks of layers: adapters, attention, branches."""

from __future__ import annotations

from typing import Any

from linsolve.core.arguments import shown
from linsolve.solvability.activation import read_activation
from linsolve.solvability.adapters import adapted
from linsolve.solvability.branched.branches import Branches
from linsolve.solvability.branched.read import axes_of, paired, read_branches, refuse_unbranched
from linsolve.solvability.equivalent import Equivalent
from linsolve.solvability.heads import attending
from linsolve.solvability.rank_one import Heads, read_heads

__all__ = ["recognized"]

ATTENTION = "context and these heads (linear attention)"


def recognized(
    who: str, weights: Any, data: Any, rates: Any, covariances: Any, tolerance: Any, bias: Any, test: Any, names: Any,
    step: Any, activation: Any, base: Any, scale: Any, context: Any, contexts: Any, gates: Any,
) -> Branches | Heads | Equivalent | None:  # fmt: skip
    """Return branches, rank-one heads, the network that moves as adapters or merged heads do, or None for layers."""
    _refuse_labels(who, context)
    branches = paired(weights)
    if branches is not None:
        given = {
            "activation": read_activation(who, activation) and activation,
            "covariances": None if covariances is False else covariances,
        }
        given |= {"bias": bias, "test": test, "step": step, "base": base, "scale": scale, "context": context}
        _refuse_besides(who, "branches (gated networks, late fusion)", **given)
        return read_branches(who, branches, data, rates, contexts, gates)
    refuse_unbranched(who, weights, None if context is not None else data, contexts, gates)
    _refuse_nonlinear(who, activation, base=base, scale=scale, context=context)
    if context is not None:
        _refuse_besides(who, ATTENTION, bias=bias, base=base, scale=scale)
        if isinstance(weights, tuple | list) and len(weights) == 3:
            _refuse_besides(who, ATTENTION, test=test, step=step)
            return read_heads(who, weights, data, rates, covariances, context)
        return attending(who, weights, data, rates, covariances, test, context)
    if base is None and scale is None:
        return None
    return adapted(who, weights, data, rates, covariances, tolerance, bias, test, names, base, scale)


def _refuse_labels(who: str, context: Any) -> None:
    """Raise ValueError for labels of samples as `context`."""
    if axes_of(context) > 0:
        raise ValueError(
            f"{who}: context = {shown(context)} must be one number (tokens of a context, linear attention); for the "
            "context of each sample, did you mean contexts?"
        )


def _refuse_besides(who: str, kind: str, **others: Any) -> None:
    """Raise ValueError for an argument that a kind of network does not have."""
    for name, value in others.items():
        if value is not None:
            raise ValueError(f"{who}: {name} = {shown(value)} does not go with {kind}; leave it out")


def _refuse_nonlinear(who: str, activation: Any, **given: Any) -> None:
    """Raise ValueError for a nonlinear activation beside an argument of adapters or attention."""
    unit = read_activation(who, activation)
    name = next((name for name, value in given.items() if value is not None), None)
    if unit is not None and name is not None:
        raise ValueError(
            f"{who}: activation = {unit.given} does not go with {name} (adapters and attention are linear); leave one "
            "of them out"
        )
