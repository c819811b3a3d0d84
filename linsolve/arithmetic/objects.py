"""The array-API subset used by linsolve on object arrays, for arithmetics that NumPy does not support.

An `ObjectNamespace` supplies the elementwise functions of one arithmetic (mpmath, SymPy, balls); NumPy supplies
shapes, broadcasting and indexing. Its arrays are of type `ObjectArray` and stay arrays at zero dimensions, so that
formulas may use ``.shape`` and ``[..., None]`` everywhere.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from linsolve.arithmetic.object_array import ObjectArray

__all__ = ["ObjectArray", "ObjectNamespace"]


class ObjectNamespace:
    """Array-API functions over object arrays; a subclass supplies the arithmetic of one element.

    A subclass defines `element` (exact conversion of one number), the constants `pi` and `inf`, and `scalar(name)`:
    the function of one or two elements that implements the array function `name` (`exp`, `expm1`, `sqrt`, ...).
    """

    float64 = np.dtype(object)
    exact = True
    elementwise = (
        *("exp", "expm1", "log", "log1p", "sqrt", "abs", "sign", "hypot", "isnan", "isinf", "isfinite"),
        *("sin", "cos", "tan", "asin", "acos", "atan", "atan2"),
        *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    )
    pi: Any
    inf: Any

    def __init__(self) -> None:
        for name in self.elementwise:
            setattr(self, name, self._vectorized(name))

    def element(self, value: Any) -> Any:
        """Return one number in this arithmetic, by exact conversion."""
        raise NotImplementedError

    def scalar(self, name: str) -> Callable[..., Any]:
        """Return the function of elements that implements the array function `name`."""
        raise NotImplementedError

    def operand(self, value: Any) -> Any:
        """Return the other operand of an array in ``+ - * / **``, converted for the arithmetic of the elements."""
        return value

    def apply(self, function: Callable[..., Any], *arrays: Any, **options: Any) -> Any:
        """Call a NumPy function of object arrays; subclasses set global state of the elements' library here."""
        return function(*arrays, **options)

    def _vectorized(self, name: str) -> Callable[..., Any]:
        function = self.scalar(name)

        def call(*arrays: Any) -> Any:
            arrays = np.broadcast_arrays(*(self.asarray(a) for a in arrays), subok=True)
            values = self.apply(lambda: [function(*items) for items in zip(*(a.flat for a in arrays), strict=True)])
            return (self.truths if name.startswith("is") else self.pack)(values, arrays[0].shape)

        call.__name__ = name
        return call

    def pack(self, values: list[Any], shape: tuple[int, ...]) -> ObjectArray:
        """Return elements as an array of this arithmetic."""
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return self.own(array.reshape(shape))

    def own(self, array: np.ndarray) -> ObjectArray:
        """Return an object array of elements as an array of this arithmetic, on the same buffer."""
        owned = np.asarray(array, dtype=object).view(ObjectArray)
        owned.namespace = self
        return owned

    def asarray(self, value: Any, dtype: Any = None) -> ObjectArray:
        """Return `value` as an array of this arithmetic."""
        if isinstance(value, ObjectArray) and value.namespace is self:
            return value
        array = np.asarray(value, dtype=object if not isinstance(value, np.ndarray) else None)
        values = (v.item() if isinstance(v, ObjectArray) and v.ndim == 0 else v for v in array.ravel().tolist())
        return self.pack([self.element(v) for v in values], array.shape)

    def holds(self, relation: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
        """Return whether a relation between two elements holds."""
        return bool(relation(a, b))

    def truths(self, values: list[Any], shape: tuple[int, ...]) -> Any:
        """Return results of `holds` as an array of conditions for `where`."""
        return np.asarray(values, dtype=bool).reshape(shape)

    def compare(self, left: Any, right: Any, relation: Callable[[Any, Any], Any]) -> Any:
        """Compare elementwise."""
        left, right = np.broadcast_arrays(self.asarray(left), self.asarray(right), subok=True)
        return self.truths([self.holds(relation, a, b) for a, b in zip(left.flat, right.flat, strict=True)], left.shape)

    def larger(self, a: Any, b: Any) -> Any:
        """Return the larger of two elements."""
        return b if self.holds(operator.gt, b, a) else a

    def smaller(self, a: Any, b: Any) -> Any:
        """Return the smaller of two elements."""
        return b if self.holds(operator.lt, b, a) else a

    def where(self, condition: Any, yes: Any, no: Any) -> ObjectArray:
        """Choose elementwise."""
        return self.own(np.where(condition, self.asarray(yes), self.asarray(no)))

    def astype(self, array: Any, dtype: Any) -> Any:
        """Return booleans and integers as numbers of this arithmetic."""
        return self.asarray(np.asarray(array).astype(int)) if dtype is self.float64 else np.asarray(array).astype(dtype)

    # shapes: NumPy functions on the same buffer

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
        return self.own(np.stack([self.asarray(a) for a in arrays], axis=axis))

    def concat(self, arrays: Any, *, axis: int = 0) -> Any:
        """Join arrays along an axis."""
        return self.own(np.concatenate([self.asarray(a) for a in arrays], axis=axis))

    def matrix_transpose(self, array: Any) -> Any:
        """Swap the last two axes."""
        return np.swapaxes(array, -1, -2)

    def permute_dims(self, array: Any, axes: tuple[int, ...]) -> Any:
        """Permute the axes."""
        return np.transpose(array, axes)

    def take(self, array: Any, indices: Any, *, axis: int) -> Any:
        """Take elements along an axis."""
        return self.own(np.take(array.view(np.ndarray), np.asarray(indices), axis=axis))

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
        return self.own(array)

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
        chosen = range(array.ndim) if axis is None else (axis if isinstance(axis, tuple) else (axis,))
        axes = sorted(a % array.ndim for a in chosen) if array.ndim else []
        rest = [a for a in range(array.ndim) if a not in axes]
        shape = tuple(array.shape[a] for a in rest)
        rows = np.transpose(array.view(np.ndarray), (*rest, *axes)).reshape(int(np.prod(shape, dtype=int)), -1)
        values = self.apply(lambda: [reduce(function, row) if row else self.element(empty) for row in rows.tolist()])
        out = self.pack(values, shape)
        return np.expand_dims(out, tuple(axes)) if keepdims else out

    def sum(self, array: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
        """Sum over axes."""
        return self._reduce(operator.add, array, axis, keepdims, 0)

    def prod(self, array: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
        """Multiply over axes."""
        return self._reduce(operator.mul, array, axis, keepdims, 1)

    def max(self, array: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
        """Largest element over axes."""
        return self._reduce(self.larger, array, axis, keepdims, 0)

    def min(self, array: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
        """Smallest element over axes."""
        return self._reduce(self.smaller, array, axis, keepdims, 0)

    def _pairwise(self, function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        left, right = np.broadcast_arrays(self.asarray(left), self.asarray(right), subok=True)
        values = self.apply(lambda: [function(a, b) for a, b in zip(left.flat, right.flat, strict=True)])
        return self.pack(values, left.shape)

    def argmax(self, array: Any, *, axis: int) -> Any:
        """Index of the (first) largest element along an axis."""
        rows = np.moveaxis(self.asarray(array).view(np.ndarray), axis, -1)

        def first(row: np.ndarray) -> int:
            return reduce(lambda i, j: j if self.holds(operator.gt, row[j], row[i]) else i, range(len(row)))

        found = [first(row) for row in rows.reshape(-1, rows.shape[-1])]
        return np.asarray(found).reshape(rows.shape[:-1])

    def arange(self, stop: int) -> Any:
        """Return the integers from 0 to `stop - 1`, for comparison with indices."""
        return np.arange(stop)

    def maximum(self, left: Any, right: Any) -> Any:
        """Elementwise larger of two."""
        return self._pairwise(self.larger, left, right)

    def minimum(self, left: Any, right: Any) -> Any:
        """Elementwise smaller of two."""
        return self._pairwise(self.smaller, left, right)

    def square(self, array: Any) -> Any:
        """Elementwise square."""
        return array * array

    def pow(self, base: Any, exponent: Any) -> Any:
        """Elementwise power."""
        return np.power(self.asarray(base), self.asarray(exponent))

    def any(self, array: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
        """Return whether any element is true."""
        return np.any(np.asarray(array, dtype=bool), axis=axis, keepdims=keepdims)

    def all(self, array: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
        """Return whether all elements are true."""
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
        return self.asarray(left) @ self.asarray(right)

    def vecdot(self, left: Any, right: Any, *, axis: int = -1) -> Any:
        """Inner product along one axis."""
        return self.sum(left * right, axis=axis)
