"""Flows, laws and trajectories as pytrees of JAX: their arrays are leaves, everything else is static."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import numpy as np

from linsolve import arithmetic

__all__ = ["leaves", "register", "register_trajectory"]

_REGISTERED: set[type] = set()


def register(cls: type) -> None:
    """Register a class of flows or laws with JAX, if JAX is imported."""
    jax = sys.modules.get("jax")
    if jax is None or cls in _REGISTERED or not hasattr(jax, "tree_util"):
        return
    _REGISTERED.add(cls)
    jax.tree_util.register_pytree_with_keys(
        cls,
        lambda flow: (
            [(jax.tree_util.GetAttrKey(name), value) for name, value in leaves(flow).items()], _static(flow),
        ),
        lambda static, leaves: _restored(cls, static, leaves),
        lambda flow: (list(leaves(flow).values()), _static(flow)),
    )  # fmt: skip


def register_trajectory(cls: type) -> None:
    """Register the class of trajectories; quantities shared with observables are evaluated again where needed."""
    jax = sys.modules.get("jax")
    if jax is None or cls in _REGISTERED or not hasattr(jax, "tree_util"):
        return
    _REGISTERED.add(cls)
    names = ("flow", "t", "state", "start", "given")

    def restored(route: str, leaves: Any) -> Any:
        trajectory: Any = object.__new__(cls)
        trajectory.__dict__.update(zip(names, leaves, strict=True), route=route, shared=None)
        return trajectory

    jax.tree_util.register_pytree_with_keys(
        cls,
        lambda found: ([(jax.tree_util.GetAttrKey(name), getattr(found, name)) for name in names], found.route),
        restored,
    )


def _whole(flow: Any, name: str) -> bool:
    """Return whether a parameter counts something: its value determines shapes, so that it is static."""
    return bool(type(flow).__dataclass_fields__[name].metadata["whole"]) and not arithmetic.is_traced(
        getattr(flow, name)
    )


def leaves(flow: Any) -> dict[str, Any]:
    """Return the parameters that JAX may trace and differentiate, by name."""
    return {name: value for name, value in flow.parameters().items() if not _whole(flow, name)}


def _static(flow: Any) -> tuple[tuple[str, Any], ...]:
    """Return everything but the leaves, hashable; a cache is represented by its class."""
    found: list[tuple[str, Any]] = []
    for name, value in vars(flow).items():
        if name in flow.parameters():
            if _whole(flow, name):
                found.append((name, _Counts(np.asarray(value))))
        elif name != "_left":  # of `once_a_call`, which a call leaves behind
            found.append((name, value if isinstance(value, int | float | str | bool | tuple) else type(value)))
    return tuple(found)


class _Counts(tuple):
    """Shape and entries of an array of whole numbers, hashable."""

    def __new__(cls, value: np.ndarray) -> _Counts:
        return super().__new__(cls, (value.shape, tuple(value.reshape(-1).tolist())))

    def array(self) -> np.ndarray:
        return np.asarray(self[1], dtype=float).reshape(self[0])


def _restored(cls: type, static: tuple[tuple[str, Any], ...], leaves: Any) -> Any:
    flow: Any = object.__new__(cls)
    for name, value in static:
        value = value.array() if isinstance(value, _Counts) else value() if isinstance(value, type) else value
        object.__setattr__(flow, name, value)
    fields: tuple[Any, ...] = dataclasses.fields(cls)  # type: ignore[arg-type]
    names = [field.name for field in fields if field.name not in dict(static)]
    for name, value in zip(names, leaves, strict=True):
        object.__setattr__(flow, name, value)
    return flow
