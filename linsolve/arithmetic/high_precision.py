"""Arithmetic with any number of digits, based on mpmath."""

from __future__ import annotations

import fractions
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np
from mpmath.libmp import fone, mpf_exp, mpf_sub

from linsolve.arithmetic.object_array import ObjectArray
from linsolve.arithmetic.objects import ObjectNamespace

__all__ = ["Precise"]

_MPMATH_NAMES = {"abs": "fabs"}


class Precise(ObjectNamespace):
    """Arithmetic of `dps` decimal digits in a separate mpmath context, independent of mpmath's global precision.

    Parameters
    ----------
    dps : int
        Decimal digits of every operation.
    """

    def __init__(self, dps: int) -> None:
        if not isinstance(dps, int) or dps < 1:
            raise ValueError(f"precise: dps = {dps!r} must be a positive integer (decimal digits); say 50")
        self.dps = dps
        self.context = mpmath.MPContext()
        self.context.dps = dps
        self.pi = +self.context.pi
        self.inf = self.context.inf
        self.linalg = SimpleNamespace(
            eigh=self._eigh,
            eigvalsh=self._eigvalsh,
            svd=self._svd,
            solve=self._solve,
            cholesky=self._cholesky,
            qr=self._qr,
            inv=self._inv,
            det=self._det,
        )
        super().__init__()

    def __repr__(self) -> str:
        return f"precise({self.dps})"

    def element(self, value: Any) -> Any:
        """Return one number as a correctly rounded mpf of this context; a string is read as a decimal number."""
        if isinstance(value, np.generic):
            value = value.item()
        try:
            if isinstance(value, fractions.Fraction):
                return self.context.mpf(value.numerator) / value.denominator
            return self.context.mpf(value)
        except (TypeError, ValueError):
            raise TypeError(f"{self}: value = {value!r} must be a real number; convert it first") from None

    def to_float(self, value: Any) -> float:
        """Return the nearest double."""
        return float(value)

    def scalar(self, name: str) -> Callable[..., Any]:
        """Return the mpmath function `name`, with nan where its value is not real."""
        if name == "expm1":
            return self._expm1
        function = getattr(self.context, _MPMATH_NAMES.get(name, name))
        return function if name.startswith("is") else lambda *x: self._real(function(*x))

    def _expm1(self, x: Any) -> Any:
        """Return ``exp(x) - 1`` with one exponential; mpmath's own function takes three times as long."""
        precision = self.context.prec
        lost = -self.context.mag(x) if x and self.context.isfinite(x) else precision
        if lost >= precision:
            return self.context.expm1(x)
        exponential = mpf_exp(x._mpf_, precision + max(lost, 0) + 20)
        return self.context.make_mpf(mpf_sub(exponential, fone, precision, "n"))

    def _real(self, value: Any) -> Any:
        return value if isinstance(value, self.context.mpf) else self.context.nan

    def pow(self, base: Any, exponent: Any) -> ObjectArray:
        """Elementwise power, nan where it is not real."""
        if type(exponent) is int:
            array = self.asarray(base)
            return self.pack([v**exponent for v in array.ravel().tolist()], array.shape)
        return self._pairwise(lambda a, b: self._real(a**b), base, exponent)

    # linear algebra, one matrix of the batch at a time

    def _each(self, function: Callable[..., tuple[Any, ...]], *stacks: Any) -> list[ObjectArray]:
        stacks = tuple(self.asarray(s) for s in stacks)
        batch = np.broadcast_shapes(*(s.shape[:-2] for s in stacks))
        flat = [
            np.broadcast_to(s, batch + s.shape[-2:], subok=True).reshape((-1, *s.shape[-2:])).view(np.ndarray)
            for s in stacks
        ]
        results = [function(*(self.context.matrix(m.tolist()) for m in items)) for items in zip(*flat, strict=True)]
        return [self._gather(parts, batch) for parts in zip(*results, strict=True)]

    def _gather(self, matrices: Any, batch: tuple[int, ...]) -> ObjectArray:
        values = [np.array(m.tolist(), dtype=object).reshape(m.rows, m.cols) for m in matrices]
        return self.own(np.stack(values).reshape(batch + values[0].shape))

    def _eigh(self, a: Any) -> Any:
        values, vectors = self._each(lambda m: self.context.eigsy(m), a)
        return values[..., :, 0], vectors

    def _eigvalsh(self, a: Any) -> Any:
        return self._each(lambda m: (self.context.eigsy(m, eigvals_only=True),), a)[0][..., :, 0]

    def _svd(self, a: Any, *, full_matrices: bool = True) -> Any:
        u, s, vh = self._each(lambda m: self.context.svd_r(m, full_matrices=full_matrices), a)
        return u, s[..., :, 0], vh

    def _solve(self, a: Any, b: Any) -> Any:
        return self._each(lambda m, r: (self._lu_columns(m, r),), a, b)[0]

    def _lu_columns(self, a: Any, b: Any) -> Any:
        columns = [self.context.lu_solve(a, b[:, j]) for j in range(b.cols)]
        return self.context.matrix([[c[i] for c in columns] for i in range(a.cols)])

    def _cholesky(self, a: Any) -> Any:
        return self._each(lambda m: (self.context.cholesky(m),), a)[0]

    def _qr(self, a: Any) -> Any:
        q, r = self._each(lambda m: self.context.qr(m, mode="skinny"), a)
        return q, r

    def _inv(self, a: Any) -> Any:
        return self._each(lambda m: (self.context.inverse(m),), a)[0]

    def _det(self, a: Any) -> Any:
        return self._each(lambda m: (self.context.matrix([[self.context.det(m)]]),), a)[0][..., 0, 0]
