r"""``exp(-K t) v`` and ``t phi(K t) v`` for one vector, by the Lanczos process, without eigendecomposition of K.

In the Krylov space of ``K`` and ``v``, with orthonormal rows ``V`` and tridiagonal ``T = V K V^T``, the approximation
``|v| V^T exp(-T t) e_1`` satisfies the differential equation up to a defect along the next Lanczos vector. The defect
is integrated exactly, which bounds the error (Saad 1992, "Analysis of some Krylov subspace approximations to the matrix
exponential operator", SIAM J. Numer. Anal. 29, section 5): for ``t >= 0``,

.. math:: |e(t)| \le |v|\, h \int_0^t |e_k^T e^{-T s} e_1|\, ds = |v|\, h\, |e_k^T\, t\, \varphi(T t)\, e_1| ,

where h is the next off-diagonal entry of T. The integral requires no quadrature: off-diagonal entries of T are
positive, so the integrand has the sign ``(-1)^(k-1)`` for all s.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.numerics.spectrum import Spectrum, exponents, integral_weights

__all__ = ["Krylov", "krylov"]

_EPS = 2.0**-52
_ROUNDING = 32  # rounding error of products with K in unconverged modes, in units of eps (1 + lam_max t) |v|
_NEGATIVE = 100  # largest negative Ritz value accepted as rounding, in units of n eps of the largest
_FOREVER = 1e300  # replaces the infinite weight of a null direction at t = inf, so that its product with 0 is 0


class Krylov(NamedTuple):
    """``exp(-K t) v`` and its integral over time, with an error bound.

    Parameters
    ----------
    decayed : array, shape t.shape + (n,)
        ``exp(-K t) v``.
    integral : array, shape t.shape + (n,)
        ``t phi(K t) v``, the integral of `decayed` from 0 to t; its error is at most t times the error of `decayed`.
    error : ndarray, shape t.shape
        Bound of the norm of the error of `decayed`, from truncation of the space and from rounding.
    converged : bool
        Whether the truncation error is below the tolerance or the rounding error at every time, and no Ritz value is
        negative.
    steps : int
        Dimension of the space, the number of products with K.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.numerics.lanczos import krylov
    >>> found = krylov(np, np.diag(np.arange(1.0, 101.0)), np.array([0.1]), np.ones(100))
    >>> found.converged, found.steps < 100
    (True, True)
    """

    decayed: Any
    integral: Any
    error: np.ndarray
    converged: bool
    steps: int


def krylov(xp: Any, matrix: Any, t: Any, v: Any, tolerance: float = 1e-13, most: int = 200) -> Krylov:
    """Return ``exp(-K t) v`` and ``t phi(K t) v`` from a Krylov space that grows until the tolerance is met.

    Parameters
    ----------
    matrix : array, shape (n, n)
        Symmetric and positive semi-definite.
    t : array, any shape
        Times, not negative; ``inf`` is the limit.
    v : array, shape (n,)
        Vector to which the functions of K are applied.
    tolerance : float
        Largest error relative to ``|v|``, in addition to the rounding error of products with K.
    most : int
        Largest dimension of the space; beyond about 200 an eigendecomposition is as fast.

    Notes
    -----
    Full reorthogonalization, applied twice, keeps the basis orthogonal in floats: without it copies of converged
    eigenvalues appear. Ritz values below ``n eps`` of the largest are set to zero, as in `Spectrum`. Arrays of floats
    only, on any device; the small tridiagonal problem is solved on the host.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.numerics.lanczos import krylov
    >>> found = krylov(np, np.diag([1.0, 2.0, 3.0]), np.array([0.0, 1.0]), np.ones(3))
    >>> found.decayed.round(6).tolist()  # exp(-t), exp(-2 t), exp(-3 t)
    [[1.0, 1.0, 1.0], [0.367879, 0.135335, 0.049787]]
    """
    n, clock = v.shape[-1], np.asarray(arithmetic.to_numpy(t), dtype=float)
    lanczos, most = _Lanczos(xp, matrix, v, min(n, most)), min(n, most)
    target, before = min(8, most), np.full(clock.shape, np.inf)
    while True:
        lanczos.grow(target)
        small = _Small.of(lanczos, n, clock)
        enough = small.missed <= tolerance * lanczos.size
        settled = (small.missed <= small.rounding) & (2 * small.missed > before)  # the error is rounding
        if lanczos.steps >= most or lanczos.closed or np.all(enough | settled):
            break
        target, before = min(most, target + max(4, target // 4)), small.missed
    rows, shape = lanczos.rows[: lanczos.steps, :], (*clock.shape, n)
    decayed, integral = (
        xp.reshape(xp.asarray(c.reshape(-1, lanczos.steps)) @ rows, shape) for c in (small.decayed, small.integral)
    )
    reached = small.missed <= np.maximum(tolerance * lanczos.size, small.rounding)
    converged = bool(np.all(reached)) and not small.negative
    return Krylov(decayed, integral, small.missed + small.rounding, converged, lanczos.steps)


class _Lanczos:
    """The Lanczos process: orthonormal `rows`, and the diagonal and off-diagonal of T."""

    def __init__(self, xp: Any, matrix: Any, v: Any, most: int) -> None:
        self.xp, self.matrix = xp, matrix
        self.size = _length(xp, v)
        self.rows = xp.zeros((most + 1, v.shape[-1]), dtype=xp.float64)
        self.rows[0, :] = v / self.size if self.size > 0 else v
        self.diagonal: list[float] = []
        self.off: list[float] = []
        self.closed = self.size == 0

    @property
    def steps(self) -> int:
        return len(self.diagonal)

    def grow(self, steps: int) -> None:
        """Extend the space to dimension `steps`, or until it is invariant under K."""
        while self.steps < max(1, steps) and not (self.closed and self.steps):
            k = self.steps + 1
            w = self.matrix @ self.rows[k - 1, :]
            self.diagonal.append(float(self.rows[k - 1, :] @ w))
            whole = _length(self.xp, w)
            for _ in range(2):
                w = w - (self.rows[:k, :] @ w) @ self.rows[:k, :]
            h = _length(self.xp, w)
            top = max(whole, *map(abs, self.diagonal), *self.off, 0.0)
            self.closed = self.closed or h <= w.shape[-1] * _EPS * top or k == w.shape[-1]
            self.off.append(0.0 if self.closed else h)
            if not self.closed:
                self.rows[k, :] = w / h


def _length(xp: Any, v: Any) -> float:
    """Return the norm of a vector whose squares may leave the range of doubles."""
    scale = float(xp.max(xp.abs(v)))
    if not 0 < scale < np.inf:
        return scale
    v = v / scale
    return scale * float(v @ v) ** 0.5


class _Small(NamedTuple):
    """Results in the Krylov space, truncation and rounding error bounds, and whether a Ritz value is negative."""

    decayed: np.ndarray
    integral: np.ndarray
    missed: np.ndarray
    rounding: np.ndarray
    negative: bool

    @classmethod
    def of(cls, lanczos: _Lanczos, n: int, t: np.ndarray) -> _Small:
        """Solve the tridiagonal problem at times `t`."""
        k, size = lanczos.steps, lanczos.size
        off = lanczos.off[: k - 1]
        spectrum = Spectrum.of(np, np.diag(lanczos.diagonal) + np.diag(off, 1) + np.diag(off, -1))
        top = float(np.max(np.abs(spectrum.values)))
        values = np.where(spectrum.values <= n * _EPS * top, 0.0, spectrum.values)
        first, last = spectrum.vectors[0], spectrum.vectors[-1]
        x, weights = exponents(np, values, t), integral_weights(np, values, t)
        never = (values == 0) & np.isinf(t)[..., None]
        with np.errstate(over="ignore"):  # the bound may be inf
            left = np.abs(np.sum(np.where(never, _FOREVER, weights) * first * last, axis=-1))
            missed = size * lanczos.off[-1] * left
            rounding = size * _ROUNDING * _EPS * (1 + top * np.where(np.isinf(t), 0.0, t))
        decayed, integral = (size * (w * first) @ spectrum.vectors.T for w in (np.exp(-x), weights))
        negative = float(spectrum.least) < -_NEGATIVE * n * _EPS * top
        return cls(decayed, integral, missed, rounding, negative)
