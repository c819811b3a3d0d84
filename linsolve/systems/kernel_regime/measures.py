r"""Measures of a target under a tangent kernel: norm, alignment, concentration.

On n inputs with Gram matrix K, expectations are means over the inputs: ``|f|_2^2 = f.f/n``, and the kernel's operator
is ``K/n`` (Ortiz-Jimenez, Moosavi-Dezfooli, Frossard 2021, sections 2 and 3). Kernel and target are scaled by powers of
two before squaring, so that intermediate results neither overflow nor underflow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from linsolve import arithmetic
from linsolve.core.arguments import integer, number, real_array
from linsolve.core.parameters import batch_shape
from linsolve.numerics.checked import in_range
from linsolve.numerics.double_double import length, power_of_two
from linsolve.numerics.spectrum import Spectrum, rows_times
from linsolve.systems.kernel_regime.kernel_matrix import refuse_indefinite, refuse_negative, symmetric

__all__ = [
    "alignment",
    "alignment_from_jacobian",
    "cosine_alignment",
    "energy_concentration",
    "rkhs_norm",
    "rkhs_norm_bound",
]


class _Scaled(NamedTuple):
    """Kernel (or Jacobian) and target, each scaled by a power of two, of shapes batch."""

    xp: Any
    matrix: Any
    f: Any
    powers: tuple[Any, Any]
    given: dict[str, Any]

    @classmethod
    def of(cls, who: str, name: str, matrix: Any, f: Any) -> _Scaled:
        """Check the shape of the target and return both scaled."""
        f = real_array(who, "f", f, meaning="function values on the inputs")
        n = matrix.shape[-2]
        if f.ndim < 1 or f.shape[-1] != n:
            raise ValueError(
                f"{who}: f has shape {tuple(f.shape)} but must have a last axis of {n} (one value for each row of "
                f"{name}); reshape it"
            )
        batch_shape(who, {name: matrix.shape[:-2], "f": f.shape[:-1]})
        xp = arithmetic.namespace(matrix, f)
        matrix, f = arithmetic.cast(xp, matrix), arithmetic.cast(xp, f)
        powers = power_of_two(xp, xp.max(xp.abs(matrix), axis=(-2, -1))), power_of_two(xp, xp.max(xp.abs(f), axis=-1))
        return cls(xp, matrix * powers[0][..., None, None], f * powers[1][..., None], powers, {name: matrix, "f": f})

    def unscaled(self, who: str, value: Callable[[], Any], *powers: Any) -> Any:
        """Return a value divided by powers of two; opposite powers cancel first, so that nothing overflows."""
        xp = self.xp

        def divided() -> Any:
            first, rest = 1 / powers[0], []
            for power in powers[1:]:
                opposite = (first > 1) != (1 / power > 1)
                first, kept = xp.where(opposite, first / power, first), xp.where(opposite, 1 + 0 * power, 1 / power)
                rest.append(kept)
            found = value() * first
            for factor in rest:
                found = found * factor
            return found

        return in_range(who, divided, **self.given)


def _given(who: str, kernel: Any, f: Any) -> _Scaled:
    """Return a kernel, checked to be symmetric, and a target, scaled."""
    return _Scaled.of(who, "kernel", symmetric(who, kernel), f)


def _form(scaled: _Scaled) -> Any:
    return scaled.xp.sum(scaled.f * rows_times(scaled.xp, scaled.f, scaled.matrix), axis=-1)


def rkhs_norm(kernel: Any, f: Any, *, tolerance: float = 1e-9) -> Any:
    r"""Return the norm of a function in the kernel's Hilbert space, ``sqrt(f^T K^+ f)``.

    It is the norm of the smallest change of parameters by which a linearized network fits `f` (eq. (3)).

    Parameters
    ----------
    kernel : array_like, shape batch + (n, n)
        Gram matrix of the inputs, symmetric and positive semi-definite.
    f : array_like, shape batch + (n,)
        Function values on the inputs.
    tolerance : float
        The norm is inf if the component of `f` in the kernel's null space is larger than this fraction of `f`.

    Returns
    -------
    array, shape batch

    Raises
    ------
    ValueError
        If the kernel is not symmetric or has a negative eigenvalue, and for shapes that do not fit.
    OverflowError
        If the norm is beyond the range of doubles.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import kernels
    >>> kernel = np.diag([4.0, 1.0])
    >>> float(kernels.rkhs_norm(kernel, [2.0, 0.0])), float(kernels.rkhs_norm(kernel, [0.0, 2.0]))  # easy, hard
    (1.0, 2.0)
    """
    who = "rkhs_norm"
    tolerance = number(
        who, "tolerance", tolerance, meaning="share of f in the null space", domain="[0, 1]", example=1e-9
    )
    scaled = _given(who, kernel, f)
    xp, spectrum = scaled.xp, Spectrum.of(scaled.xp, scaled.matrix)
    refuse_negative(who, spectrum, scaled.powers[0])
    c, positive = spectrum.coordinates(xp, scaled.f), spectrum.values > 0
    inside = xp.where(positive, c, xp.zeros_like(c))
    roots = xp.sqrt(xp.where(positive, spectrum.values, xp.ones_like(spectrum.values)))
    norm = scaled.unscaled(who, lambda: length(xp, inside / roots), scaled.powers[1], 1 / xp.sqrt(scaled.powers[0]))
    return xp.where(length(xp, c - inside) > tolerance * length(xp, c), xp.full_like(norm, xp.inf), norm)


def alignment(kernel: Any, f: Any) -> Any:
    """Return ``alpha(f) = f^T K f / n^2``, the mean of ``f(x) K(x, x') f(x')`` over pairs of inputs, shape batch.

    Parameters
    ----------
    kernel, f
        As for `rkhs_norm`.

    Raises
    ------
    ValueError, OverflowError
        As for `rkhs_norm`.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import kernels
    >>> kernel = np.diag([4.0, 1.0])
    >>> float(kernels.alignment(kernel, [2.0, 0.0])), float(kernels.alignment(kernel, [0.0, 2.0]))
    (4.0, 1.0)
    """
    who, scaled = "alignment", _given("alignment", kernel, f)
    refuse_indefinite(who, scaled.xp, scaled.matrix, scaled.powers[0])
    by_kernel, by_f = scaled.powers
    return scaled.unscaled(who, lambda: _form(scaled) / scaled.f.shape[-1] ** 2, by_kernel, by_f, by_f)


def alignment_from_jacobian(jacobian: Any, f: Any) -> Any:
    """Return ``alpha(f) = |mean of f(x) grad f_theta(x)|^2``, without the Gram matrix (Lemma 1).

    Parameters
    ----------
    jacobian : array_like, shape batch + (n, p)
        Derivative of each output with respect to the parameters.
    f : array_like, shape batch + (n,)
        Function values on the inputs.

    Raises
    ------
    ValueError, OverflowError
        For shapes that do not fit, and for an alignment beyond the range of doubles.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import kernels
    >>> jacobian = np.array([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]])  # of two outputs by three parameters
    >>> float(kernels.alignment_from_jacobian(jacobian, [2.0, 0.0]))
    4.0
    >>> float(kernels.alignment(jacobian @ jacobian.T, [2.0, 0.0]))
    4.0
    """
    who = "alignment_from_jacobian"
    jacobian = real_array(who, "jacobian", jacobian, meaning="derivative of outputs by parameters")
    if jacobian.ndim < 2:
        raise ValueError(
            f"{who}: jacobian has shape {tuple(jacobian.shape)} but must be batch + (n, p) (outputs by parameters); "
            "reshape it"
        )
    scaled = _Scaled.of(who, "jacobian", jacobian, f)
    xp, powers = scaled.xp, [power[..., None] for power in scaled.powers]
    gradient = scaled.unscaled(who, lambda: rows_times(xp, scaled.f, scaled.matrix), *powers)
    return in_range(who, lambda: xp.sum(gradient**2, axis=-1) / scaled.f.shape[-1] ** 2, **scaled.given)


def rkhs_norm_bound(kernel: Any, f: Any) -> Any:
    """Return the lower bound ``|f|_2^2 / sqrt(alpha(f))`` of `rkhs_norm` (Lemma 1), sharp on eigenfunctions, 0 at 0.

    Parameters
    ----------
    kernel, f
        As for `rkhs_norm`.

    Raises
    ------
    ValueError, OverflowError
        As for `rkhs_norm`.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import kernels
    >>> kernel, f = np.diag([4.0, 1.0]), [1.0, 1.0]
    >>> round(float(kernels.rkhs_norm_bound(kernel, f)), 4), round(float(kernels.rkhs_norm(kernel, f)), 4)
    (0.8944, 1.118)
    """
    who, scaled = "rkhs_norm_bound", _given("rkhs_norm_bound", kernel, f)
    refuse_indefinite(who, scaled.xp, scaled.matrix, scaled.powers[0])
    xp, (by_kernel, by_f) = scaled.xp, scaled.powers
    square, form = xp.sum(scaled.f**2, axis=-1), _form(scaled)
    root = xp.sqrt(xp.where(form > 0, form, xp.ones_like(form)))
    bound = scaled.unscaled(who, lambda: square / root, by_f, 1 / xp.sqrt(by_kernel))
    return xp.where((form > 0) | (square == 0), bound, xp.full_like(bound, xp.inf))


def cosine_alignment(kernel: Any, f: Any) -> Any:
    """Return ``f^T K f / (|K|_F |f|^2)``, the cosine between K and ``f f^T``, in [0, 1]; 0 where one of them is 0.

    Parameters
    ----------
    kernel, f
        As for `rkhs_norm`.

    Raises
    ------
    ValueError
        As for `rkhs_norm`.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import kernels
    >>> y = np.array([1.0, -1.0])
    >>> [round(float(kernels.cosine_alignment(kernel, y)), 6) for kernel in (np.outer(y, y), np.eye(2))]
    [1.0, 0.707107]
    """
    who, scaled = "cosine_alignment", _given("cosine_alignment", kernel, f)
    xp = scaled.xp
    refuse_indefinite(who, xp, scaled.matrix, scaled.powers[0])
    size = xp.sqrt(xp.sum(scaled.matrix**2, axis=(-2, -1))) * xp.sum(scaled.f**2, axis=-1)
    cosine = _form(scaled) / xp.where(size > 0, size, xp.ones_like(size))
    return xp.minimum(xp.maximum(cosine, xp.zeros_like(cosine)), xp.ones_like(cosine))


def energy_concentration(kernel: Any, f: Any, top: int) -> Any:
    """Return ``|Phi f| / |f|``, Phi the `top` leading eigenvectors as rows (section 4.1); 0 for ``f = 0``.

    It is not unique if the eigenvalues `top` and `top` + 1, in decreasing order, are equal.

    Parameters
    ----------
    kernel, f
        As for `rkhs_norm`.
    top : int
        Number of eigenvectors, from 1 to n.

    Raises
    ------
    ValueError
        As for `rkhs_norm`, and if `top` is not an integer from 1 to n.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import kernels
    >>> round(float(kernels.energy_concentration(np.diag([4.0, 1.0]), [3.0, 4.0], top=1)), 6)
    0.6
    """
    who, scaled = "energy_concentration", _given("energy_concentration", kernel, f)
    xp, n = scaled.xp, scaled.f.shape[-1]
    top = integer(who, "top", top, meaning="eigenvectors", high=n, example=min(n, 10))
    spectrum = Spectrum.of(xp, scaled.matrix)
    refuse_negative(who, spectrum, scaled.powers[0])
    c = spectrum.coordinates(xp, scaled.f)
    size = length(xp, c)
    return length(xp, c[..., n - top :]) / xp.where(size > 0, size, xp.ones_like(size))
