"""The tangent kernel of random networks at the start: moments, limits, infinite width, first step, and samples."""

from __future__ import annotations

from linsolve.ntk import first_step, limits, mean_field, printed, sampling
from linsolve.ntk.moments import Moments, correlation, gradient_norms, log_moments, moments, parametrization, spread

__all__ = [
    "Moments",
    "correlation",
    "first_step",
    "gradient_norms",
    "limits",
    "log_moments",
    "mean_field",
    "moments",
    "parametrization",
    "printed",
    "sampling",
    "spread",
]
