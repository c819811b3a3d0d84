r"""Functions of a symmetric positive semi-definite matrix K: one eigendecomposition, then matrix products.

The form ``(1 - exp(-K t)) K^{-1}`` requires an invertible K. In doubles a zero eigenvalue is computed as about 1e-17 of
either sign, and the quotients are dominated by rounding errors. Here eigenvalues below ``n eps`` of the largest are set
to zero, where ``t phi(K t)``, the integral of ``exp(-K s)`` from 0 to t, has the limit t.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.arithmetic import precision
from linsolve.numerics.quadrature import legendre
from linsolve.numerics.scalar import phi

__all__ = [
    "Spectrum",
    "decayed_integral",
    "exponents",
    "integral_weights",
    "reach_backward",
    "rows_times",
    "traced_decay",
    "traced_integral",
]

_STEEPEST = 300  # largest exponent: squares of such exponentials, times other numbers, are doubles


def rows_times(xp: Any, rows: Any, matrix: Any) -> Any:
    """Return ``row @ matrix`` for every row, shapes ``... + (n,)`` and ``batch + (n, m)``; one product if no batch."""
    if matrix.ndim > 2:
        return (rows[..., None, :] @ matrix)[..., 0, :]
    if xp is np and rows.ndim == 2:
        return rows @ matrix
    n, shape = rows.shape[-1], (*rows.shape[:-1], matrix.shape[-1])
    if xp is np:  # the methods take half the time for few numbers
        return (rows.reshape(-1, n) @ matrix).reshape(shape)
    return xp.reshape(xp.reshape(rows, (-1, n)) @ matrix, shape)


class Spectrum(NamedTuple):
    """Eigenvalues and eigenvectors of a symmetric matrix.

    Parameters
    ----------
    values : array, shape batch + (n,)
        Eigenvalues in increasing order; values at rounding level are set to zero.
    vectors : array, shape batch + (n, n)
        The eigenvectors, as columns.
    least : array, shape batch
        The smallest computed eigenvalue, before it is set to zero.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.numerics.spectrum import Spectrum
    >>> spectrum = Spectrum.of(np, np.array([[2.0, 2.0], [2.0, 2.0]]))
    >>> spectrum.values.round(6).tolist(), spectrum.null_part(np, np.array([1.0, 0.0])).round(6).tolist()
    ([0.0, 4.0], [0.5, -0.5])
    """

    values: Any
    vectors: Any
    least: Any

    @classmethod
    def of(cls, xp: Any, matrix: Any) -> Spectrum:
        """Return the spectrum of `matrix`, from one of its triangles.

        In floats every eigenvalue below ``n eps`` of the largest is set to zero, including negative ones. In high
        precision the entries count as exact, so only eigenvalues below the rounding error of that arithmetic are set to
        zero.
        """
        values, vectors = xp.linalg.eigh(matrix)
        floor = matrix.shape[-1] * precision(xp) * xp.max(xp.abs(values), axis=-1, keepdims=True)
        none = (xp.abs(values) if arithmetic.is_object(xp) else values) < floor  # a strict inequality keeps inf
        return cls(xp.where(none, xp.zeros_like(values), values), vectors, values[..., 0])

    def coordinates(self, xp: Any, v: Any) -> Any:
        """Return ``V^T v``, shape ``... + (n,)``."""
        return rows_times(xp, v, self.vectors)

    def vector(self, xp: Any, c: Any) -> Any:
        """Return ``V c``, shape ``... + (n,)``."""
        return rows_times(xp, c, self.vectors.mT if xp is np else xp.matrix_transpose(self.vectors))

    def null_part(self, xp: Any, v: Any) -> Any:
        """Return the projection of `v` on the null space, which is independent of the basis of the null space."""
        c = self.coordinates(xp, v)
        return self.vector(xp, xp.where(self.values == 0, c, xp.zeros_like(c)))


def exponents(xp: Any, values: Any, t: Any) -> Any:
    """Return ``lam t``, shape ``t.shape + (n,)`` broadcast; at infinite times it is t, and 0 where lam is 0."""
    t = t[..., None]
    forever = xp.isinf(t)
    if not arithmetic.holds(forever):
        return values * t
    # in high precision the zero eigenvalue of a rounded matrix may be negative; it is treated as 0
    end = xp.where(values > 0, t, xp.zeros_like(values))
    return xp.where(forever, end, values * xp.where(forever, xp.zeros_like(t), t))


def reach_backward(xp: Any, rates: Any) -> Any:
    """Return a negative time down to which ``exp(-rate t)`` and its square are doubles, shape ``rates.shape[:-1]``.

    It is -inf where no rate is positive, and in object arithmetic, which cannot overflow.
    """
    top = xp.max(rates, axis=-1)
    endless = xp.full_like(top, -xp.inf)
    if arithmetic.is_object(xp):
        return endless
    # squares in a loss need half of the range of exponents
    return xp.where(top > 0, -_STEEPEST / xp.where(top > 0, top, xp.ones_like(top)), endless)


def decayed_integral(xp: Any, spectrum: Spectrum, t: Any, v: Any) -> Any:
    """Return ``t phi(K t) v``, the integral of ``exp(-K s) v`` from 0 to t; at ``t = inf`` it is ``K^+ v``.

    Parameters
    ----------
    xp : namespace
    spectrum : Spectrum
        Spectrum of K.
    t : array
        Times, inf allowed.
    v : array, shape ... + (n,)
        Vector; ``...`` broadcasts against ``t.shape``.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.numerics.spectrum import Spectrum, decayed_integral
    >>> spectrum = Spectrum.of(np, np.array([[2.0, 2.0], [2.0, 2.0]]))
    >>> decayed_integral(np, spectrum, np.array(np.inf), np.array([1.0, 0.0])).round(6).tolist()  # K^+ v
    [0.125, 0.125]
    """
    return spectrum.vector(xp, integral_weights(xp, spectrum.values, t) * spectrum.coordinates(xp, v))


def traced_decay(xp: Any, matrix: Any, spectrum: tuple[Any, Any], t: Any, v: Any) -> Any:
    r"""Return ``exp(-K t) v`` for JAX, differentiable at equal eigenvalues, at which eigenvectors are not.

    .. math:: d\, e^{-Kt} = -V \left(\Phi \circ V^\top dK\, V\right) V^\top, \quad
        \Phi_{ij} = \int_0^t e^{-\lambda_i s - \lambda_j (t - s)} ds ,

    the formula of Daleckii and Krein.

    Parameters
    ----------
    xp : namespace
        JAX.
    matrix : array, shape batch + (n, n)
        K, symmetric.
    spectrum : (array, array)
        Eigenvalues, 0 in the null space, and eigenvectors of K.
    t : array
        Times, inf allowed.
    v : array, shape ... + (n,)
    """

    def value(values: Any, t: Any) -> Any:
        return xp.exp(-exponents(xp, values, t))

    def differences(values: Any, t: Any) -> Any:
        gap, slow = _pairs(xp, values)
        return xp.exp(-exponents(xp, slow, t[..., None])) * integral_weights(xp, gap, t[..., None])

    def speed(values: Any, t: Any) -> Any:
        left = value(values, t)
        return -xp.where(left > 0, values * left, xp.zeros_like(left))

    return _traced(xp, (value, differences, speed), matrix, spectrum, t, v)


def traced_integral(xp: Any, matrix: Any, spectrum: tuple[Any, Any], t: Any, v: Any) -> Any:
    r"""Return ``t phi(K t) v``, the integral of `traced_decay` from 0 to t, in the same way; at inf ``K^+ v``.

    .. math:: \Phi_{ij} = \int_0^t\!\int_0^s e^{-\lambda_i u - \lambda_j (s - u)} du\, ds
        = t^2 \int_0^1 u\, e^{-m u} \varphi(\delta u)\, du
        = t^2\, \frac{\varphi(m) - e^{-m} \varphi(\delta)}{m + \delta},

    .. math:: m = t \min(\lambda_i, \lambda_j), \quad \delta = t |\lambda_i - \lambda_j| .

    At ``t = inf`` the rank of K is constant.
    """

    def value(values: Any, t: Any) -> Any:
        return integral_weights(xp, values, t)

    def differences(values: Any, t: Any) -> Any:
        (gap, slow), t = _pairs(xp, values), t[..., None, None]
        clock = xp.where(xp.isinf(t), xp.zeros_like(t), t)
        m, d = slow * clock, gap * clock
        near = m + d <= 2
        low = [xp.where(near, x, xp.zeros_like(x)) for x in (m, d)]
        nodes, weights = legendre(xp, 16)
        inside = xp.exp(-low[0][..., None] * nodes) * phi(xp, low[1][..., None] * nodes)
        finite = xp.where(
            near,
            xp.sum(weights * nodes * inside, axis=-1),
            (phi(xp, m) - xp.exp(-m) * phi(xp, d)) / xp.where(near, xp.ones_like(m), m + d),
        )
        fast = xp.where(slow + gap > 0, slow + gap, xp.ones_like(gap))
        end = xp.where(slow > 0, slow, fast)
        last = xp.where(slow + gap > 0, 1 / (end * fast), xp.zeros_like(gap))
        return xp.where(xp.isinf(t), last, clock * clock * finite)

    def speed(values: Any, t: Any) -> Any:
        return xp.exp(-exponents(xp, values, t))

    return _traced(xp, (value, differences, speed), matrix, spectrum, t, v)


def _pairs(xp: Any, values: Any) -> tuple[Any, Any]:
    """Return the difference and the smaller one of every pair of eigenvalues, shapes batch + (n, n)."""
    pairs = values[..., :, None], values[..., None, :]
    return xp.abs(pairs[0] - pairs[1]), xp.minimum(*pairs)


def _traced(xp: Any, function: tuple[Any, Any, Any], matrix: Any, spectrum: tuple[Any, Any], t: Any, v: Any) -> Any:
    """Return ``f(K, t) v`` for JAX; `function` holds f, minus its divided differences, and its time derivative."""
    at, differences, speed = function

    def value(matrix: Any, values: Any, vectors: Any, t: Any, v: Any) -> Any:
        return rows_times(xp, at(values, t) * rows_times(xp, v, vectors), xp.matrix_transpose(vectors))

    def derivative(found: Any, given: Any, changes: Any) -> Any:
        (_, values, vectors, t, v), (dk, _, _, dt, dv) = given, changes
        turned = xp.matrix_transpose(vectors)
        c, dc = rows_times(xp, v, vectors), rows_times(xp, dv, vectors)
        turn = ((differences(values, t) * (turned @ dk @ vectors)) @ c[..., :, None])[..., 0]
        moved = xp.where(xp.isinf(t), xp.zeros_like(dt), dt)[..., None]
        return rows_times(xp, at(values, t) * dc - turn + speed(values, t) * c * moved, turned)

    return xp.with_derivative(value, derivative, matrix, *spectrum, t, v)


def integral_weights(xp: Any, values: Any, t: Any) -> Any:
    """Return ``t phi(lam t)``, the integral of ``exp(-lam s)`` from 0 to t, for eigenvalues, shape ``t.shape + (n,)``.

    In the null space it is t. At ``t = inf`` it is ``1 / lam``, and 0 in the null space, as in the pseudo-inverse.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.numerics.spectrum import integral_weights
    >>> values = np.array([0.0, 2.0])
    >>> integral_weights(np, values, np.array([1.0, np.inf])).round(6).tolist()
    [[1.0, 0.432332], [0.0, 0.5]]
    """
    t = t[..., None]
    forever = xp.isinf(t)
    t = xp.where(forever, xp.zeros_like(t), t)
    positive = values > 0
    with np.errstate(over="ignore"):  # the inverse of a denormal number is used at t = inf only
        inverse = 1 / xp.where(positive, values, xp.ones_like(values))
    inverse = xp.where(positive, inverse, xp.zeros_like(inverse))
    x = values * t
    return xp.where(forever | (x == xp.inf), inverse, t * phi(xp, x))
