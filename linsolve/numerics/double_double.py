"""Double-double arithmetic: sums and products in twice the working precision, in array-API operations only."""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import isfinite
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.arithmetic import holds
from linsolve.numerics.scalar import column, full_like, largest, power, total, unless, where

__all__ = ["DoubleDouble", "cosine", "length", "power_of_two", "two_prod", "two_sum"]

_LARGE, _SMALL = 2.0**400, 2.0**-400  # sizes between them have squares far inside the range of doubles
_SPLIT = 2**27 + 1
_FEW = 64  # so many numbers are added faster as floats of Python than in arrays


def two_sum(xp: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Return the rounded sum and its rounding error: ``s + e = a + b`` exactly (Knuth).

    In object arithmetic, whose precision the user chooses, the error is returned as 0.

    Examples
    --------
    >>> import numpy as np
    >>> [float(v) for v in two_sum(np, np.asarray(1.0), np.asarray(1e-20))]
    [1.0, 1e-20]
    """
    s = a + b
    if xp is not np and arithmetic.is_object(xp):
        return s, xp.zeros_like(s)
    part = s - a
    e = (a - (s - part)) + (b - part)
    return s, e if xp is np else arithmetic.constant(xp, e)


def two_prod(xp: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Return the rounded product and its rounding error: ``p + e = a b`` exactly, barring underflow (Dekker).

    In object arithmetic the error is returned as 0.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.numerics.double_double import two_prod
    >>> x = np.array(1 + 2.0**-30)
    >>> p, e = two_prod(np, x, x)
    >>> float(e) == 2.0**-60  # what x^2 = 1 + 2^-29 + 2^-60 loses
    True
    """
    p = a * b
    if xp is not np:
        if arithmetic.is_object(xp):
            return p, xp.zeros_like(p)
        if arithmetic.is_jax(xp):
            p = xp.rounded(p)
    # Veltkamp splitting: the high parts have 26 bits, so that products of parts are exact; requires |a|, |b| < 2^996
    shifted = _SPLIT * a
    a1 = shifted - (shifted - a)
    b1, a2 = a1, a - a1
    b2 = a2
    if b is not a:
        shifted = _SPLIT * b
        b1 = shifted - (shifted - b)
        b2 = b - b1
    e = a2 * b2 - (((p - a1 * b1) - a2 * b1) - a1 * b2)
    return p, e if xp is np else arithmetic.constant(xp, e)


def _renewed(hi: Any, lo: Any) -> tuple[Any, Any]:
    """Return ``hi + lo`` as a rounded number and its rounding error, for ``|lo| <= |hi|``."""
    total = hi + lo
    return total, lo - (total - hi)


def _added(xp: Any, a: Any, a_low: Any, b: Any, b_low: Any) -> tuple[Any, Any]:
    """Return the sum of ``a + a_low`` and ``b + b_low`` in double-double; a low part of 0 may be None."""
    s, e = two_sum(xp, a, b)
    if a_low is None or b_low is None:
        low = b_low if a_low is None else a_low
        return (s, e) if low is None else _renewed(s, e + low)
    low, rest = two_sum(xp, a_low, b_low)
    hi, lo = _renewed(s, e + low)
    return _renewed(hi, lo + rest)


def _added_floats(a: float, a_low: float | None, b: float, b_low: float | None) -> tuple[float, float]:
    """Return `_added` of floats of Python, in one function for speed."""
    s = a + b
    part = s - a
    e = (a - (s - part)) + (b - part)
    if a_low is None or b_low is None:
        low = b_low if a_low is None else a_low
        if low is None:
            return s, e
        e = e + low
        total = s + e
        return total, e - (total - s)
    low = a_low + b_low
    part = low - a_low
    rest = (a_low - (low - part)) + (b_low - part)
    e = e + low
    hi = s + e
    lo = (e - (hi - s)) + rest
    total = hi + lo
    return total, lo - (total - hi)


def _summed(parts: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Return the sum of pairs of floats of Python, in the order of `DoubleDouble.sum`."""
    while (n := len(parts)) > 1:
        half = n // 2
        pairs = [_added_floats(*parts[k], *parts[half + k]) for k in range(half)]
        parts = pairs + [(hi, 0.0 if lo is None else lo) for hi, lo in parts[2 * half :]]
    return parts[0]


def _sum_of_few(hi: Any, lo: Any) -> tuple[Any, Any] | None:
    """Return the sum over the last axis in floats of Python; None if it is not finite, for the flags of NumPy."""
    *lead, n = hi.shape
    rows = hi.reshape(-1, n).tolist()
    lows = [[None] * n] * len(rows) if lo is None else lo.reshape(-1, n).tolist()
    sums = [_summed(list(zip(row, low, strict=True))) for row, low in zip(rows, lows, strict=True)]
    if not all(isfinite(part) for pair in sums for part in pair):
        return None
    total, rest = (np.array(parts).reshape(lead)[()] for parts in zip(*sums, strict=True))
    return total, rest


def power_of_two(xp: Any, size: Any) -> Any:
    """Return a power of two that scales `size` into ``[2^-64, 2^64]``; 1 in object arithmetic without overflow."""
    factor = full_like(xp, size, 1)
    if arithmetic.is_object(xp):
        return factor
    for e in (512, 256, 128, 64):
        step = power(xp, e)
        big, small = size * factor >= step, size * factor <= 1 / step
        factor = where(xp, big, factor / step, where(xp, small, factor * step, factor))
    return factor


def _scale(xp: Any, size: Any) -> Any:
    """Return a power of two that scales `size` into ``[2^-480, 2^480]``, where squares are doubles."""
    one = full_like(xp, size, 1)
    if arithmetic.is_object(xp):
        return one
    far, unit = power(xp, 400), power(xp, 600)
    return unless(xp, size >= far, unless(xp, size <= 1 / far, one, unit), 1 / unit)


def length(xp: Any, v: Any) -> Any:
    """Return the Euclidean length along the last axis; the squares neither overflow nor underflow.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.numerics.double_double import length
    >>> round(float(length(np, np.array([3e200, 4e200]))) / 1e200, 6)  # the squares would overflow
    5.0
    """
    size = largest(xp, xp.abs(v))
    if xp is np and not holds((size >= _LARGE) | (size <= _SMALL)):
        return np.sqrt(total(np, v * v))
    factor = _scale(xp, size)
    scaled = v * column(factor)
    return xp.sqrt(total(xp, scaled * scaled)) / factor


def cosine(xp: Any, a: Any, b: Any, sizes: tuple[Any, Any] | None = None) -> Any:
    """Return the cosine of the angle between vectors along the last axis, in [-1, 1]; 0 where one of them is 0.

    `sizes` are the lengths of the vectors, if known.
    """
    sizes = sizes or (length(xp, a), length(xp, b))
    none = (sizes[0] == 0) | (sizes[1] == 0)
    safe_a, safe_b = (column(unless(xp, none, v)) for v in sizes)
    found = unless(xp, none, xp.sum(a / safe_a * (b / safe_b), axis=-1), 0)
    one = full_like(xp, found, 1)
    return xp.minimum(xp.maximum(found, -one), one)


class DoubleDouble:
    """Double-double numbers ``hi + lo`` of twice the working precision.

    In object arithmetic ``lo`` is always 0.

    Parameters
    ----------
    xp : namespace
    hi : array
        The rounded number.
    lo : array, optional
        The rounding error, 0 by default. Products and sums with a number without it take half of the operations.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.numerics.double_double import DoubleDouble
    >>> x = DoubleDouble(np, np.array(1.0)) + np.array(1e-20)
    >>> float(x.hi), float(x.lo), float((x - np.array(1.0)).hi)
    (1.0, 1e-20, 1e-20)
    """

    __slots__ = ("_lo", "hi", "xp")

    def __init__(self, xp: Any, hi: Any, lo: Any = None) -> None:
        self.xp, self.hi, self._lo = xp, hi, lo

    @property
    def _object(self) -> bool:
        return self.xp is not np and arithmetic.is_object(self.xp)

    @property
    def lo(self) -> Any:
        """The rounding error."""
        return self.xp.zeros_like(self.hi) if self._lo is None else self._lo

    def _like(self, other: Any) -> DoubleDouble:
        if isinstance(other, DoubleDouble):
            return other
        return DoubleDouble(self.xp, other if hasattr(other, "shape") else full_like(self.xp, self.hi, other))

    def _renew(self, hi: Any, lo: Any) -> DoubleDouble:
        return DoubleDouble(self.xp, *_renewed(hi, lo))

    def _each(self, function: Callable[[Any], Any]) -> DoubleDouble:
        """Return `function` of both parts; it is linear and exact."""
        return DoubleDouble(self.xp, function(self.hi), None if self._lo is None else function(self._lo))

    def column(self) -> DoubleDouble:
        """Return the numbers as `linsolve.numerics.scalar.column` does."""
        return self._each(column)

    def __getitem__(self, key: Any) -> DoubleDouble:
        return self._each(lambda part: part[key])

    def __neg__(self) -> DoubleDouble:
        return self._each(operator.neg)

    def __add__(self, other: Any) -> DoubleDouble:
        other = other if type(other) is DoubleDouble else self._like(other)
        if self.xp is not np and self._object:
            return DoubleDouble(self.xp, self.hi + other.hi)
        return DoubleDouble(self.xp, *_added(self.xp, self.hi, self._lo, other.hi, other._lo))

    def __sub__(self, other: Any) -> DoubleDouble:
        return self + -self._like(other)

    def __mul__(self, other: Any) -> DoubleDouble:
        other = other if type(other) is DoubleDouble else self._like(other)
        if self.xp is not np and self._object:
            return DoubleDouble(self.xp, self.hi * other.hi)
        p, e = two_prod(self.xp, self.hi, other.hi)
        if other._lo is None:
            return DoubleDouble(self.xp, p, e) if self._lo is None else self._renew(p, e + other.hi * self._lo)
        mixed = self.hi * other._lo
        return self._renew(p, e + (mixed if self._lo is None else mixed + other.hi * self._lo))

    def __truediv__(self, other: Any) -> DoubleDouble:
        other = self._like(other)
        ratio = self.hi / other.hi
        if self._object:
            return DoubleDouble(self.xp, ratio)
        rest = self - other * ratio
        return self._renew(ratio, (rest.hi + rest.lo) / other.hi)

    def scaled(self, factor: Any) -> DoubleDouble:
        """Return the product with a power of two, which is exact."""
        return self._each(lambda part: part * factor)

    def sqrt(self) -> DoubleDouble:
        """Return the square root, 0 at 0."""
        root = self.xp.sqrt(self.hi)
        if self._object:
            return DoubleDouble(self.xp, root)
        p, e = two_prod(self.xp, root, root)
        rest = (self.hi - p) - e
        rest = rest if self._lo is None else rest + self._lo
        return self._renew(root, rest / (2 * unless(self.xp, root == 0, root)))

    def sum(self) -> DoubleDouble:
        """Return the sum over the last axis, by pairwise summation."""
        if self._object:
            return DoubleDouble(self.xp, self.xp.sum(self.hi, axis=-1))
        if self.xp is np and 1 < self.hi.shape[-1] <= self.hi.size <= _FEW and (few := _sum_of_few(self.hi, self._lo)):
            return DoubleDouble(np, *few)
        part = self
        while (n := part.hi.shape[-1]) > 1:
            half = n // 2
            pairs = part[..., :half] + part[..., half : 2 * half]
            if n % 2:
                hi = self.xp.concat([pairs.hi, part.hi[..., 2 * half :]], axis=-1)
                lo = self.xp.concat([pairs.lo, part.lo[..., 2 * half :]], axis=-1)
                pairs = DoubleDouble(self.xp, hi, lo)
            part = pairs
        return part[..., 0]

    def length(self) -> DoubleDouble:
        """Return the Euclidean length along the last axis, without overflow or underflow of the squares."""
        xp = self.xp
        factor = _scale(xp, xp.max(xp.abs(self.hi), axis=-1))
        scaled = self.scaled(column(factor))
        return (scaled * scaled).sum().sqrt().scaled(1 / factor)

    def hypot(self, other: Any) -> DoubleDouble:
        """Return ``sqrt(self^2 + other^2)``, without overflow or underflow of the squares."""
        other = self._like(other)
        xp = self.xp
        factor = _scale(xp, xp.maximum(xp.abs(self.hi), xp.abs(other.hi)))
        a, b = self.scaled(factor), other.scaled(factor)
        return (a * a + b * b).sqrt().scaled(1 / factor)
