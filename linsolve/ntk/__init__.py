"""The tangent kernel of random networks at the start: moments at finite width, limits, infinite width, and samples."""

from __future__ import annotations

from linsolve.ntk import limits, mean_field, sampling
from linsolve.ntk.moments import Moments, correlation, gradient_norms, log_moments, moments, parametrization, spread

__all__ = [
    "Moments",
    "correlation",
    "gradient_norms",
    "limits",
    "log_moments",
    "mean_field",
    "moments",
    "parametrization",
    "sampling",
    "spread",
]
