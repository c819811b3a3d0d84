"""The array-API subset of linsolve on object arrays, for arithmetics that NumPy does not know.

An `ObjectNamespace` supplies the elementwise functions of one arithmetic (mpmath, SymPy, balls); NumPy supplies
shapes, broadcasting and indexing. Its arrays are `ObjectArray`, which never collapse to a bare scalar at zero
dimensions, so formulas may use ``.shape`` and ``[..., None]`` everywhere.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

__all__ = ["ObjectArray", "ObjectNamespace"]


class ObjectArray(np.ndarray):
    """An object array that remembers the arithmetic of its elements."""

    namespace: Any

    def __array_finalize__(self, parent: Any) -> None:
        self.namespace = getattr(parent, "namespace", None)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return self.namespace

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        if array.dtype != object:
            return array[()] if return_scalar else array.view(np.ndarray)
        wrapped = array.view(type(self))
        wrapped.namespace = self.namespace
        return wrapped

    def __getitem__(self, key: Any) -> Any:
        item = super().__getitem__(key)
        return item if isinstance(item, np.ndarray) else self.namespace.asarray(item)

    def __repr__(self) -> str:
        return f"{self.namespace}.asarray({self.view(np.ndarray)})"

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


class ObjectNamespace:
    """Array-API functions over object arrays; a subclass supplies the arithmetic of one element.

    A subclass defines `element` (exact conversion of one number), the constants `pi` and `inf`, and `scalar(name)`:
    the function of one or two elements behind the array function `name` (`exp`, `expm1`, `sqrt`, ...).
    """

    float64 = np.dtype(object)
    exact = True
    elementwise = (
        "exp expm1 log log1p sqrt abs sign sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh hypot atan2 "
        "isnan isinf isfinite"
    ).split()
    pi: Any
    inf: Any

    def __init__(self) -> None:
        for name in self.elementwise:
            setattr(self, name, self._vectorized(name))

    def element(self, value: Any) -> Any:
        """Return one number in this arithmetic, without rounding what was exact."""
        raise NotImplementedError

    def scalar(self, name: str) -> Callable[..., Any]:
        """Return the function of elements behind the array function `name`."""
        raise NotImplementedError

    def _vectorized(self, name: str) -> Callable[..., Any]:
        function = self.scalar(name)

        def call(*arrays: Any) -> Any:
            arrays = np.broadcast_arrays(*(self.asarray(a) for a in arrays), subok=True)
            values = [function(*items) for items in zip(*(a.flat for a in arrays), strict=True)]
            shape = arrays[0].shape
            if name.startswith("is"):
                return np.asarray(values, dtype=bool).reshape(shape)
            return self._pack(values, shape)

        call.__name__ = name
        return call

    def _pack(self, values: list[Any], shape: tuple[int, ...]) -> ObjectArray:
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return self._own(array.reshape(shape))

    def _own(self, array: np.ndarray) -> ObjectArray:
        owned = array.view(ObjectArray)
        owned.namespace = self
        return owned

    def asarray(self, value: Any, dtype: Any = None) -> ObjectArray:
        """Return `value` as an array of this arithmetic."""
        if isinstance(value, ObjectArray) and value.namespace is self:
            return value
        array = np.asarray(value, dtype=object if not isinstance(value, np.ndarray) else None)
        return self._pack([self.element(v) for v in array.ravel().tolist()], array.shape)

    def compare(self, left: Any, right: Any, relation: Callable[[Any, Any], Any]) -> np.ndarray:
        """Compare elementwise; the plain answer is a boolean array."""
        left, right = np.broadcast_arrays(self.asarray(left), self.asarray(right), subok=True)
        return np.asarray(
            [bool(relation(a, b)) for a, b in zip(left.flat, right.flat, strict=True)], dtype=bool
        ).reshape(left.shape)

    def where(self, condition: Any, yes: Any, no: Any) -> ObjectArray:
        """Choose elementwise."""
        return self._own(np.where(condition, self.asarray(yes), self.asarray(no)))

    def astype(self, array: Any, dtype: Any) -> Any:
        """Return booleans and integers as numbers of this arithmetic."""
        return self.asarray(np.asarray(array).astype(int)) if dtype is self.float64 else np.asarray(array).astype(dtype)

    # shapes: NumPy's own, on the same buffer

    def reshape(self, array: Any, shape: tuple[int, ...]) -> Any:
        """Return `array` in another shape."""
        return np.reshape(array, shape)

    def broadcast_to(self, array: Any, shape: tuple[int, ...]) -> Any:
        """Return `array` broadcast to `shape`."""
        return np.broadcast_to(array, shape, subok=True)

    def broadcast_arrays(self, *arrays: Any) -> Any:
        """Broadcast arrays against one another."""
        return np.broadcast_arrays(*arrays, subok=True)

    def expand_dims(self, array: Any, *, axis: int = 0) -> Any:
        """Insert an axis of length one."""
        return np.expand_dims(array, axis)

    def squeeze(self, array: Any, axis: int) -> Any:
        """Drop an axis of length one."""
        return np.squeeze(array, axis)

    def stack(self, arrays: Any, *, axis: int = 0) -> Any:
        """Join arrays along a new axis."""
        return self._own(np.stack([self.asarray(a) for a in arrays], axis=axis))

    def concat(self, arrays: Any, *, axis: int = 0) -> Any:
        """Join arrays along an axis."""
        return self._own(np.concatenate([self.asarray(a) for a in arrays], axis=axis))

    def matrix_transpose(self, array: Any) -> Any:
        """Swap the last two axes."""
        return np.swapaxes(array, -1, -2)

    def permute_dims(self, array: Any, axes: tuple[int, ...]) -> Any:
        """Permute the axes."""
        return np.transpose(array, axes)

    def take(self, array: Any, indices: Any, *, axis: int) -> Any:
        """Pick along an axis."""
        return self._own(np.take(array.view(np.ndarray), np.asarray(indices), axis=axis))

    def zeros(self, shape: Any, dtype: Any = None) -> ObjectArray:
        """Return zeros."""
        return self.full(shape, 0)

    def ones(self, shape: Any, dtype: Any = None) -> ObjectArray:
        """Return ones."""
        return self.full(shape, 1)

    def full(self, shape: Any, value: Any, dtype: Any = None) -> ObjectArray:
        """Return a constant array."""
        array = np.empty(shape, dtype=object)
        array.fill(self.element(value))
        return self._own(array)

    def zeros_like(self, array: Any) -> ObjectArray:
        """Return zeros of the same shape."""
        return self.full(array.shape, 0)

    def ones_like(self, array: Any) -> ObjectArray:
        """Return ones of the same shape."""
        return self.full(array.shape, 1)

    def full_like(self, array: Any, value: Any) -> ObjectArray:
        """Return a constant of the same shape."""
        return self.full(array.shape, value)

    def eye(self, rows: int, columns: int | None = None, dtype: Any = None) -> ObjectArray:
        """Return the identity matrix."""
        return self.asarray(np.eye(rows, columns, dtype=int))

    # reductions and contractions

    def _reduce(self, function: Callable[[Any, Any], Any], array: Any, axis: Any, keepdims: bool, empty: Any) -> Any:
        array = self.asarray(array)
        axes = range(array.ndim) if axis is None else (axis if isinstance(axis, tuple) else (axis,))
        axes = sorted(a % array.ndim for a in axes) if array.ndim else []
        rest = [a for a in range(array.ndim) if a not in axes]
        shape = tuple(array.shape[a] for a in rest)
        rows = np.transpose(array.view(np.ndarray), (*rest, *axes)).reshape(int(np.prod(shape, dtype=int)), -1)
        out = self._pack([reduce(function, row) if len(row) else self.element(empty) for row in rows.tolist()], shape)
        return np.expand_dims(out, tuple(axes)) if keepdims else out

    def sum(self, array: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
        """Sum over axes."""
        return self._reduce(operator.add, array, axis, keepdims, 0)

    def prod(self, array: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
        """Multiply over axes."""
        return self._reduce(operator.mul, array, axis, keepdims, 1)

    def max(self, array: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
        """Largest element over axes."""
        return self._reduce(max, array, axis, keepdims, 0)

    def min(self, array: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
        """Smallest element over axes."""
        return self._reduce(min, array, axis, keepdims, 0)

    def maximum(self, left: Any, right: Any) -> Any:
        """Elementwise larger of two."""
        left, right = self.asarray(left), self.asarray(right)
        return self.where(left >= right, left, right)

    def minimum(self, left: Any, right: Any) -> Any:
        """Elementwise smaller of two."""
        left, right = self.asarray(left), self.asarray(right)
        return self.where(left <= right, left, right)

    def square(self, array: Any) -> Any:
        """Elementwise square."""
        return array * array

    def pow(self, base: Any, exponent: Any) -> Any:
        """Elementwise power."""
        return self.asarray(base) ** self.asarray(exponent)

    def any(self, array: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
        """Whether any element is true."""
        return np.any(np.asarray(array, dtype=bool), axis=axis, keepdims=keepdims)

    def all(self, array: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
        """Whether all elements are true."""
        return np.all(np.asarray(array, dtype=bool), axis=axis, keepdims=keepdims)

    def logical_and(self, left: Any, right: Any) -> Any:
        """Elementwise and."""
        return np.logical_and(left, right)

    def logical_or(self, left: Any, right: Any) -> Any:
        """Elementwise or."""
        return np.logical_or(left, right)

    def logical_not(self, value: Any) -> Any:
        """Elementwise not."""
        return np.logical_not(value)

    def matmul(self, left: Any, right: Any) -> Any:
        """Matrix product over the last two axes."""
        return self._own(np.matmul(self.asarray(left).view(np.ndarray), self.asarray(right).view(np.ndarray)))

    def vecdot(self, left: Any, right: Any, *, axis: int = -1) -> Any:
        """Inner product along one axis."""
        return self.sum(left * right, axis=axis)
