"""One target under a frozen kernel at given times, without an eigendecomposition where that is safe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import Interval, real_array, times
from linsolve.numerics.lanczos import krylov
from linsolve.numerics.spectrum import decayed_integral
from linsolve.systems.kernel_regime.given import is_symmetric

__all__ = ["OneTarget", "follow"]


class OneTarget(NamedTuple):
    r"""One target followed: outputs, residual, and what predictions need.

    Parameters
    ----------
    f : array, shape t.shape + (n,)
        Outputs on the training inputs.
    residual : array, shape t.shape + (n,)
        ``f - y``, without the cancellation of that difference.
    dual : array, shape t.shape + (n,)
        :math:`\eta\, t\, \varphi(\eta K t) (f_0 - y)`: outputs at test points are ``f0_x - dual @ k_x.T``, parameters
        ``theta0 - dual @ jacobian``. Its error is at most ``eta t`` times that of `residual`.
    error : ndarray, shape t.shape
        Bound of the length of the error of `residual`; nan by eigendecomposition, which has the flow's own.
    steps : int
        Products with the kernel; 0 by eigendecomposition.
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
    """Return one target by Lanczos where that meets the tolerance, and else by the spectrum of `flow`."""
    y, f0 = (real_array(who, name, v, meaning=what) for name, v, what in (("y", y, "targets"), ("f0", f0, "outputs")))
    t, eta = times(who, t), real_array(who, "eta", eta, meaning="learning rate", domain=Interval("(0, inf)"))
    _refuse(who, kernel, y, f0, eta, tolerance, most)
    if _suits(kernel, y, f0, t):
        xp = arithmetic.namespace(kernel)
        found = krylov(xp, kernel, arithmetic.to_numpy(t) * float(eta), f0 - y, tolerance, most)
        if found.converged:
            start = (arithmetic.cast(xp, t) == 0)[..., None]
            f = xp.where(start, f0, y + found.decayed)
            return OneTarget(f, found.decayed, found.integral, found.error, found.steps, "Lanczos")
    return _by_eigenvectors(flow(kernel, y, eta), t, f0)


def _refuse(who: str, kernel: Any, y: Any, f0: Any, eta: Any, tolerance: float, most: int) -> None:
    """Refuse anything but one target, and limits that cannot be met."""
    shapes = tuple(np.shape(kernel)), tuple(y.shape), tuple(f0.shape), tuple(eta.shape)
    n = y.shape[-1] if y.ndim == 1 else 0
    if shapes != ((n, n), (n,), (n,), ()):
        raise ValueError(
            f"{who}: kernel, y, f0, eta have shapes {shapes} but must be (n, n), (n,), (n,), () (one target); "
            "for batches call the flow, whose spectrum serves all targets"
        )
    if not 0 < tolerance < 1:
        raise ValueError(f"{who}: tolerance = {tolerance!r} must lie in (0, 1) (error, of |f0 - y|); say 1e-13")
    if most != int(most) or most < 1:
        raise ValueError(f"{who}: most = {most!r} must be a whole number of at least 1 (products with K); say 200")


def _suits(kernel: Any, y: Any, f0: Any, t: Any) -> bool:
    """Whether Lanczos may be tried: doubles of one library, no time before 0, finite, and symmetric to the last bit.

    What is found wanting is judged, and refused with its reason, where the flow is built.
    """
    xp = arithmetic.namespace(kernel)
    if not hasattr(kernel, "dtype") or arithmetic.is_object(xp) or kernel.dtype != xp.float64:
        return False
    if any(arithmetic.namespace(v) is not xp for v in (y, f0)) or np.min(arithmetic.to_numpy(t)) < 0:
        return False
    # a nan differs from itself, and the sum of what holds an infinity is not finite
    with np.errstate(over="ignore"):
        return is_symmetric(xp, kernel) and bool(xp.isfinite(xp.sum(kernel)))


def _by_eigenvectors(flow: Any, t: Any, f0: Any) -> OneTarget:
    traj = flow(t, f0)
    xp, flow = arithmetic.namespace(traj["f"]), traj.flow
    dual = decayed_integral(xp, flow.spectrum(xp), traj.t * flow.eta, arithmetic.cast(xp, f0) - flow.y)
    return OneTarget(traj["f"], traj["residual"], dual, np.full(tuple(traj.t.shape), np.nan), 0, "eigh")
