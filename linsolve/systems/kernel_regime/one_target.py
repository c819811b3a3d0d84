"""One target under a frozen kernel at given times, by Lanczos if its error bound meets the tolerance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import Interval, integer, number, real_array, times
from linsolve.numerics.checked import in_range
from linsolve.numerics.lanczos import krylov
from linsolve.numerics.spectrum import decayed_integral
from linsolve.systems.kernel_regime.kernel_matrix import is_symmetric

__all__ = ["OneTarget", "follow"]


class OneTarget(NamedTuple):
    r"""Solution for one target: outputs, residual, and the dual vector of predictions.

    Parameters
    ----------
    f : array, shape t.shape + (n,)
        Outputs on the training inputs.
    residual : array, shape t.shape + (n,)
        ``f - y``, computed without cancellation.
    dual : array, shape t.shape + (n,)
        :math:`\eta\, t\, \varphi(\eta K t) (f_0 - y)`: outputs at test points are ``f0_x - dual @ k_x.T``, parameters
        ``theta0 - dual @ jacobian``. Its error is at most ``eta t`` times that of `residual`.
    error : ndarray, shape t.shape
        Bound of the norm of the error of `residual`; nan for the eigendecomposition, whose accuracy is that of the
        flow.
    steps : int
        Number of products with the kernel; 0 for the eigendecomposition.
    route : str
        "Lanczos" or "eigh".
    """

    f: Any
    residual: Any
    dual: Any
    error: np.ndarray
    steps: int
    route: str


def follow(
    who: str, flow: Callable[..., Any], kernel: Any, y: Any, t: Any, f0: Any, eta: Any, tolerance: float, most: int
) -> OneTarget:
    """Return the solution by Lanczos if that meets the tolerance, otherwise by the spectrum of `flow`."""
    on_host = arithmetic.namespace(kernel) is np
    if on_host and not (type(kernel) is np.ndarray and kernel.dtype == np.float64):
        kernel = real_array(who, "kernel", kernel, meaning="tangent kernel on the training inputs")
    y, f0 = (real_array(who, name, v, meaning=what) for name, v, what in (("y", y, "targets"), ("f0", f0, "outputs")))
    t, eta = times(who, t), real_array(who, "eta", eta, meaning="learning rate", domain=Interval("(0, inf)"))
    shapes = tuple(np.shape(kernel)), tuple(y.shape), tuple(f0.shape), tuple(eta.shape)
    n = y.shape[-1] if y.ndim == 1 else 0
    if shapes != ((n, n), (n,), (n,), ()):
        raise ValueError(
            f"{who}: kernel, y, f0, eta have shapes {shapes} but must be (n, n), (n,), (n,), () (one target); "
            "for batches call the flow, which diagonalizes the kernel once for all targets"
        )
    tolerance = number(
        who, "tolerance", tolerance, meaning="error relative to |f0 - y|", domain="(0, 1)", example=1e-13
    )
    most = integer(who, "most", most, meaning="products with K", example=200)
    if _suits(kernel, y, f0, t):
        xp = arithmetic.namespace(kernel)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            found = krylov(xp, kernel, arithmetic.to_numpy(t) * float(eta), f0 - y, tolerance, most)
        if found.converged and bool(xp.all(xp.isfinite(found.integral))):
            start = (arithmetic.cast(xp, t) == 0)[..., None]
            f = xp.where(start, f0, y + found.decayed)
            return OneTarget(f, found.decayed, found.integral, found.error, found.steps, "Lanczos")
    return _by_eigenvectors(who, flow(kernel, y, eta), t, f0)


def _suits(kernel: Any, y: Any, f0: Any, t: Any) -> bool:
    """Return whether Lanczos applies: doubles of one library, no negative time, finite, bitwise symmetric.

    Invalid kernels are left to the flow, which raises with the reason.
    """
    xp = arithmetic.namespace(kernel)
    if not hasattr(kernel, "dtype") or arithmetic.is_object(xp) or kernel.dtype != xp.float64:
        return False
    if any(arithmetic.namespace(v) is not xp for v in (y, f0)) or np.min(arithmetic.to_numpy(t)) < 0:
        return False
    # nan is not equal to itself, and a sum with an infinity is not finite
    with np.errstate(over="ignore"):
        return is_symmetric(xp, kernel) and bool(xp.isfinite(xp.sum(kernel)))


def _by_eigenvectors(who: str, flow: Any, t: Any, f0: Any) -> OneTarget:
    traj = flow(t, f0)
    xp, flow = arithmetic.namespace(traj["f"]), traj.flow
    spectrum, residual = flow.spectrum(xp), arithmetic.cast(xp, f0) - flow.y
    dual = in_range(who, lambda: decayed_integral(xp, spectrum, traj.t * flow.eta, residual), t=t, f0=f0, y=flow.y)
    return OneTarget(traj["f"], traj["residual"], dual, np.full(tuple(traj.t.shape), np.nan), 0, "eigh")
