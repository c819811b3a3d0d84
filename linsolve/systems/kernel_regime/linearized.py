r"""What a frozen tangent kernel says about a target: norm, alignment, concentration, anisotropy, speed.

On n inputs with Gram matrix K, expectations are means over the inputs: ``|f|_2^2 = f.f/n``, and the kernel's operator
is ``K/n`` (Ortiz-Jimenez, Moosavi-Dezfooli, Frossard 2021, sections 2 and 3).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import real_array, shown
from linsolve.numerics.double_double import length
from linsolve.numerics.spectrum import Spectrum, rows_times
from linsolve.systems.kernel_regime.given import refuse_negative, symmetric
from linsolve.systems.kernel_regime.tangent import (
    Convergence,
    anisotropy_directions,
    convergence,
    input_kernel,
    linearize,
    tangent_kernel,
)

__all__ = [
    "Convergence",
    "alignment",
    "alignment_from_jacobian",
    "anisotropy_directions",
    "convergence",
    "cosine_alignment",
    "energy_concentration",
    "input_kernel",
    "linearize",
    "rkhs_norm",
    "rkhs_norm_bound",
    "tangent_kernel",
]


def _given(who: str, kernel: Any, f: Any) -> tuple[Any, Any, Any]:
    """Return namespace, kernel and function values, checked."""
    kernel, f = symmetric(who, kernel), real_array(who, "f", f, meaning="function values on the inputs")
    n = kernel.shape[-1]
    if f.ndim < 1 or f.shape[-1] != n:
        raise ValueError(f"{who}: f has shape {tuple(f.shape)} but needs a last axis of {n} (one value for each input)")
    xp = arithmetic.namespace(kernel, f)
    return xp, kernel, f


def _spectrum(who: str, xp: Any, kernel: Any) -> Spectrum:
    spectrum = Spectrum.of(xp, kernel)
    refuse_negative(who, spectrum)
    return spectrum


def rkhs_norm(kernel: Any, f: Any, *, tolerance: float = 1e-9) -> Any:
    r"""Return the norm of a function in the kernel's Hilbert space, ``sqrt(f^T K^+ f)``.

    The length of the shortest change of parameters by which a linearized network learns `f` (eq. (3)).

    Parameters
    ----------
    kernel : array_like, shape batch + (n, n)
        Gram matrix of the inputs, symmetric and positive semi-definite.
    f : array_like, shape batch + (n,)
        Function values on the inputs.
    tolerance : float
        The norm is inf where more than this share of `f` lies in the kernel's null space.

    Returns
    -------
    array, shape batch

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import kernels
    >>> kernel = np.diag([4.0, 1.0])
    >>> float(kernels.rkhs_norm(kernel, [2.0, 0.0])), float(kernels.rkhs_norm(kernel, [0.0, 2.0]))  # easy, hard
    (1.0, 2.0)
    """
    xp, kernel, f = _given("rkhs_norm", kernel, f)
    spectrum = _spectrum("rkhs_norm", xp, kernel)
    c, positive = spectrum.coordinates(xp, f), spectrum.values > 0
    inside = xp.where(positive, c, xp.zeros_like(c))
    norm = length(xp, inside / xp.sqrt(xp.where(positive, spectrum.values, xp.ones_like(spectrum.values))))
    return xp.where(length(xp, c - inside) > tolerance * length(xp, c), xp.full_like(norm, xp.inf), norm)


def alignment(kernel: Any, f: Any) -> Any:
    """Return ``alpha(f) = f^T K f / n^2``, the mean of ``f(x) K(x, x') f(x')`` over pairs of inputs, shape batch.

    Parameters
    ----------
    kernel : array_like, shape batch + (n, n)
        Gram matrix of the inputs, symmetric.
    f : array_like, shape batch + (n,)
        Function values on the inputs.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import kernels
    >>> kernel = np.diag([4.0, 1.0])
    >>> float(kernels.alignment(kernel, [2.0, 0.0])), float(kernels.alignment(kernel, [0.0, 2.0]))
    (4.0, 1.0)
    """
    xp, kernel, f = _given("alignment", kernel, f)
    return xp.sum(f * rows_times(xp, f, kernel), axis=-1) / f.shape[-1] ** 2


def alignment_from_jacobian(jacobian: Any, f: Any) -> Any:
    """Return ``alpha(f) = |mean of f(x) grad f_theta(x)|^2``, which needs no Gram matrix (Lemma 1).

    Parameters
    ----------
    jacobian : array_like, shape batch + (n, p)
        Derivative of each output with respect to the parameters.
    f : array_like, shape batch + (n,)
        Function values on the inputs.

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
    f = real_array(who, "f", f, meaning="function values on the inputs")
    if jacobian.ndim < 2 or f.ndim < 1 or jacobian.shape[-2] != f.shape[-1]:
        shapes = f"{tuple(jacobian.shape)}, {tuple(f.shape)}"
        raise ValueError(f"{who}: jacobian, f have shapes {shapes}, which must be batch + (n, p) and batch + (n,)")
    xp = arithmetic.namespace(jacobian, f)
    return xp.sum(rows_times(xp, f, jacobian) ** 2, axis=-1) / f.shape[-1] ** 2


def rkhs_norm_bound(kernel: Any, f: Any) -> Any:
    """Return ``|f|_2^2 / sqrt(alpha(f))``, at most `rkhs_norm` (Lemma 1), equal on eigenfunctions; 0 for ``f = 0``.

    Parameters
    ----------
    kernel : array_like, shape batch + (n, n)
        Gram matrix of the inputs, symmetric.
    f : array_like, shape batch + (n,)
        Function values on the inputs.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import kernels
    >>> kernel, f = np.diag([4.0, 1.0]), [1.0, 1.0]
    >>> round(float(kernels.rkhs_norm_bound(kernel, f)), 4), round(float(kernels.rkhs_norm(kernel, f)), 4)
    (0.8944, 1.118)
    """
    xp, kernel, f = _given("rkhs_norm_bound", kernel, f)
    square, seen = xp.sum(f**2, axis=-1), xp.sum(f * rows_times(xp, f, kernel), axis=-1)
    bound = square / xp.sqrt(xp.where(seen > 0, seen, xp.ones_like(seen)))
    return xp.where((seen > 0) | (square == 0), bound, xp.full_like(bound, xp.inf))


def cosine_alignment(kernel: Any, f: Any) -> Any:
    """Return ``f^T K f / (|K|_F |f|^2)``, the cosine between K and ``f f^T``, in [0, 1]; 0 where one of them is 0.

    Parameters
    ----------
    kernel : array_like, shape batch + (n, n)
        Gram matrix of the inputs, symmetric.
    f : array_like, shape batch + (n,)
        Function values on the inputs.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import kernels
    >>> y = np.array([1.0, -1.0])
    >>> [round(float(kernels.cosine_alignment(kernel, y)), 6) for kernel in (np.outer(y, y), np.eye(2))]
    [1.0, 0.707107]
    """
    xp, kernel, f = _given("cosine_alignment", kernel, f)
    size = xp.sqrt(xp.sum(kernel**2, axis=(-2, -1))) * xp.sum(f**2, axis=-1)
    return xp.sum(f * rows_times(xp, f, kernel), axis=-1) / xp.where(size > 0, size, xp.ones_like(size))


def energy_concentration(kernel: Any, f: Any, top: int) -> Any:
    """Return ``|Phi f| / |f|``, Phi the `top` eigenvectors of largest eigenvalue (section 4.1); 0 for ``f = 0``.

    Not well-defined where the eigenvalues on both sides of the cut are equal.

    Parameters
    ----------
    kernel : array_like, shape batch + (n, n)
        Gram matrix of the inputs, symmetric and positive semi-definite.
    f : array_like, shape batch + (n,)
        Function values on the inputs.
    top : int
        Number of eigenvectors, from 1 to n.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import kernels
    >>> round(float(kernels.energy_concentration(np.diag([4.0, 1.0]), [3.0, 4.0], top=1)), 6)
    0.6
    """
    who = "energy_concentration"
    xp, kernel, f = _given(who, kernel, f)
    n = f.shape[-1]
    if isinstance(top, bool) or not isinstance(top, int | np.integer) or not 1 <= top <= n:
        raise ValueError(
            f"{who}: top = {shown(top)} must be a whole number from 1 to {n} (of eigenvectors); say {min(n, 10)}"
        )
    c = _spectrum(who, xp, kernel).coordinates(xp, f)
    size = length(xp, c)
    return length(xp, c[..., n - top :]) / xp.where(size > 0, size, xp.ones_like(size))
