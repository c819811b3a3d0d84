"""Object arrays that store their arithmetic and stay arrays at zero dimensions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["ObjectArray"]


class ObjectArray(np.ndarray):
    """An object array that stores the arithmetic of its elements."""

    namespace: Any

    def __array_finalize__(self, parent: Any) -> None:
        self.namespace = getattr(parent, "namespace", None)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return self.namespace

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        xp = self.namespace
        for value in inputs:
            if isinstance(value, ObjectArray) and value.namespace is not xp:
                raise TypeError(f"{xp}: operand = an array of {value.namespace} does not mix; convert one with asarray")
        raw = [v.view(np.ndarray) if isinstance(v, ObjectArray) else xp.operand(v) for v in inputs]
        if out is not None:
            options["out"] = tuple(v.view(np.ndarray) for v in out)
        found = xp.apply(getattr(ufunc, method), *raw, **options)
        if out is not None:
            return out[0]
        if isinstance(found, np.ndarray):
            return xp.own(found) if found.dtype == object else found
        return found if found is NotImplemented or isinstance(found, bool | np.bool_) else xp.asarray(found)

    def __getitem__(self, key: Any) -> Any:
        item = super().__getitem__(key)
        return item if isinstance(item, np.ndarray) else self.namespace.asarray(item)

    def __repr__(self) -> str:
        return f"{self.namespace}.asarray({self.view(np.ndarray)})"

    def __str__(self) -> str:
        return str(self.view(np.ndarray))

    def __pow__(self, exponent: Any, modulus: None = None) -> Any:
        return self.namespace.pow(self, exponent)

    def _compare(self, other: Any, relation: Callable[[Any, Any], Any]) -> Any:
        return self.namespace.compare(self, other, relation)

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, operator.lt)

    def __le__(self, other: Any) -> Any:
        return self._compare(other, operator.le)

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, operator.gt)

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, operator.ge)

    def __eq__(self, other: Any) -> Any:  # type: ignore[override]
        return self._compare(other, operator.eq)

    def __ne__(self, other: Any) -> Any:  # type: ignore[override]
        return self._compare(other, operator.ne)

    __hash__ = None  # type: ignore[assignment]
