"""Rigorous arithmetic on real balls (python-flint): every result encloses the exact one, rounding included.

A comparison of two balls is certainly true, certainly false, or undetermined. Where a condition is undetermined,
`Balls.where` returns a ball that encloses both branches, so that a formula with branches stays rigorous.
"""

from __future__ import annotations

import fractions
import numbers
import operator
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from linsolve.arithmetic.object_array import ObjectArray
from linsolve.arithmetic.objects import ObjectNamespace

__all__ = ["Balls", "Truth"]

_OPPOSITE: dict[Any, Any] = {
    operator.lt: operator.ge,
    operator.le: operator.gt,
    operator.gt: operator.le,
    operator.ge: operator.lt,
    operator.eq: operator.ne,
    operator.ne: operator.eq,
}
# NumPy functions that are safe for ball arrays; others, such as maximum and comparisons, would select a branch
_ARITHMETIC = (
    np.add, np.subtract, np.multiply, np.divide, np.power, np.square, np.negative, np.positive, np.absolute, np.matmul
)  # fmt: skip


def _and(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return True if left and right else None


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _or(left: bool | None, right: bool | None) -> bool | None:
    return _not(_and(_not(left), _not(right)))


class Truth(np.ndarray):
    """An array of True, False and None (undetermined), with Kleene's ``&``, ``|`` and ``~``."""

    @classmethod
    def of(cls, values: Any) -> Truth:
        """Return booleans, or a Truth, as a Truth."""
        return np.asarray(values).astype(object).view(cls)

    def _combine(self, function: Callable[..., bool | None], *others: Any) -> Truth:
        arrays = np.broadcast_arrays(*(Truth.of(a).view(np.ndarray) for a in (self, *others)))
        out = np.empty(arrays[0].shape, dtype=object)
        out.ravel()[:] = [function(*items) for items in zip(*(a.flat for a in arrays), strict=True)]
        return out.view(Truth)

    def __and__(self, other: Any) -> Truth:
        return self._combine(_and, other)

    def __or__(self, other: Any) -> Truth:
        return self._combine(_or, other)

    __rand__, __ror__ = __and__, __or__

    def __invert__(self) -> Truth:
        return self._combine(_not)

    def __bool__(self) -> bool:
        if any(value is None for value in self.flat):
            raise ValueError("balls: truth = undetermined must be decided (balls overlap); use more bits, or xp.where")
        return bool(self.view(np.ndarray))


class Balls(ObjectNamespace):
    """Real balls of `bits` bits, on python-flint's ``arb``.

    The precision of python-flint is global. It is set before each operation and restored afterwards, so that other uses
    of python-flint are not affected. Concurrent threads must not use ball arithmetic.

    Parameters
    ----------
    bits : int
        Binary digits of every operation.
    """

    def __init__(self, bits: int) -> None:
        try:
            import flint
        except ImportError as error:
            raise ImportError('balls: python-flint is missing; pip install ".[balls]" in the clone') from error
        if not isinstance(bits, int) or bits < 2:
            raise ValueError(f"balls: bits = {bits!r} must be an integer of at least 2 (binary digits); say 212")
        self.bits, self.flint = bits, flint
        self.inf = flint.arb.pos_inf()
        self.pi = self.apply(flint.arb.pi)
        self.linalg = SimpleNamespace(
            solve=self._solve,
            inv=self._inv,
            **{name: self._missing(name) for name in ("eigh", "eigvalsh", "svd", "qr", "cholesky")},
        )
        super().__init__()

    def __repr__(self) -> str:
        return f"balls({self.bits})"

    def apply(self, function: Callable[..., Any], *arrays: Any, **options: Any) -> Any:
        """Call a function at this precision; NumPy functions only if they make no comparisons."""
        ufunc = getattr(function, "__self__", None)
        if isinstance(ufunc, np.ufunc) and ufunc not in _ARITHMETIC:
            raise TypeError(f"{self}: np.{ufunc.__name__} is not rigorous on balls; use xp.{ufunc.__name__}")
        with self.flint.ctx.workprec(self.bits):
            return function(*arrays, **options)

    def element(self, value: Any) -> Any:
        """Return one number as a ball, of radius zero unless it is a fraction without a finite binary expansion."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, self.flint.arb):
            return value
        if isinstance(value, fractions.Fraction):
            return self.apply(operator.truediv, self.flint.arb(value.numerator), self.flint.arb(value.denominator))
        if isinstance(value, numbers.Real) or hasattr(value, "_mpf_"):
            return self.flint.arb(value)
        raise TypeError(f"{self}: value = {value!r} must be a real number (or a ball); convert it first")

    def to_float(self, value: Any) -> float:
        """Return the nearest double to the midpoint."""
        return float(value)

    def scalar(self, name: str) -> Callable[..., Any]:
        """Return arb's function of that name."""
        arb = self.flint.arb
        own: dict[str, Callable[..., Any]] = {
            "abs": abs,
            "sign": arb.sgn,
            # a sum of squares is not negative, but its ball may contain negative numbers
            "hypot": lambda a, b: (a * a + b * b).nonnegative_part().sqrt(),
            "isnan": lambda x: None if x.is_nan() else False,
            "isinf": self._is_infinite,
            "isfinite": lambda x: _not(self._is_infinite(x)),
        }
        return own[name] if name in own else getattr(arb, name)

    def _is_infinite(self, x: Any) -> bool | None:
        if x.is_finite():
            return False
        return True if x.is_exact() and not x.is_nan() else None

    # three-valued conditions

    def truths(self, values: list[Any], shape: tuple[int, ...]) -> Truth:
        """Return True, False and None as a `Truth`."""
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array.reshape(shape).view(Truth)

    def holds(self, relation: Callable[[Any, Any], Any], a: Any, b: Any) -> bool | None:
        """Return whether a relation between two balls is certainly true, certainly false or undetermined (None)."""
        if relation(a, b):
            return True
        return False if _OPPOSITE[relation](a, b) else None

    def where(self, condition: Any, yes: Any, no: Any) -> ObjectArray:
        """Choose elementwise; where the condition is undetermined, enclose both."""
        arrays = np.broadcast_arrays(Truth.of(condition).view(np.ndarray), self.asarray(yes), self.asarray(no))
        return self.apply(self._choose, *arrays)

    def _choose(self, condition: Any, yes: Any, no: Any) -> ObjectArray:
        values = [
            a.union(b) if c is None else (a if c else b)
            for c, a, b in zip(condition.flat, yes.flat, no.flat, strict=True)
        ]
        return self.pack(values, condition.shape)

    def astype(self, array: Any, dtype: Any) -> Any:
        """Return conditions as the numbers 1 and 0, and undetermined ones as a ball that encloses both."""
        return self.where(array, 1, 0) if dtype is self.float64 else np.asarray(array).astype(dtype)

    def logical_and(self, left: Any, right: Any) -> Truth:
        """Elementwise and."""
        return Truth.of(left) & right

    def logical_or(self, left: Any, right: Any) -> Truth:
        """Elementwise or."""
        return Truth.of(left) | right

    def logical_not(self, value: Any) -> Truth:
        """Elementwise not."""
        return ~Truth.of(value)

    def all(self, array: Any, *, axis: Any = None, keepdims: bool = False) -> Truth:
        """Return whether all conditions are true."""
        function = np.frompyfunc(_and, 2, 1, identity=True)
        return Truth.of(function.reduce(Truth.of(array).view(np.ndarray), axis=axis, keepdims=keepdims))

    def any(self, array: Any, *, axis: Any = None, keepdims: bool = False) -> Truth:
        """Return whether any condition is true."""
        return ~self.all(~Truth.of(array), axis=axis, keepdims=keepdims)

    def larger(self, a: Any, b: Any) -> Any:
        """Return a ball that encloses the larger of two numbers."""
        return a.max(b)

    def smaller(self, a: Any, b: Any) -> Any:
        """Return a ball that encloses the smaller of two numbers."""
        return a.min(b)

    # radii and enclosures

    def radius(self, array: Any) -> np.ndarray:
        """Return the radii as doubles, rounded up."""
        radii = [float(v.rad().upper()) if v.is_finite() else np.inf for v in self.asarray(array).flat]
        return np.nextafter(np.asarray(radii), np.inf, where=np.asarray(radii) > 0, out=np.zeros(len(radii))).reshape(
            self.asarray(array).shape
        )

    def contains(self, array: Any, values: Any) -> np.ndarray:
        """Return whether each ball contains the corresponding number or ball of `values`."""
        balls, values = np.broadcast_arrays(self.asarray(array), self.asarray(values), subok=True)
        inside = [a.contains(b) for a, b in zip(balls.flat, values.flat, strict=True)]
        return np.asarray(inside, dtype=bool).reshape(balls.shape)

    # linear algebra

    def _each(self, function: Callable[..., Any], *stacks: Any) -> ObjectArray:
        arrays = [self.asarray(s).view(np.ndarray) for s in stacks]
        batch = np.broadcast_shapes(*(a.shape[:-2] for a in arrays))
        shape = arrays[-1].shape[-2:]
        out = np.empty((*batch, *shape), dtype=object)
        for index in np.ndindex(batch):
            items = [np.broadcast_to(a, batch + a.shape[-2:])[index].tolist() for a in arrays]
            found = self.apply(lambda *m: function(*map(self.flint.arb_mat, m)).tolist(), *items)
            out[index] = np.asarray(found, dtype=object).reshape(shape)
        return self.own(out)

    def _solve(self, a: Any, b: Any) -> ObjectArray:
        return self._each(lambda m, r: m.solve(r), a, b)

    def _inv(self, a: Any) -> ObjectArray:
        return self._each(lambda m: m.inv(), a)

    def _missing(self, name: str) -> Callable[..., Any]:
        def refuse(*_: Any, **__: Any) -> Any:
            raise NotImplementedError(
                f"{self}: linalg.{name} is not available in balls (no rigorous algorithm here); "
                "use precise(dps) for high precision, or a formula through linalg.solve"
            )

        return refuse
