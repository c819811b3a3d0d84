"""The tangent kernel of random networks at initialization: moments, limits, infinite width, first step, sampling."""

from __future__ import annotations

from linsolve.core.registry import on_use

FLOWS: dict[str, str] = {}
LAWS = {
    "NTKMoments": "dispersion_laws",
    "NTKDispersionLimit": "dispersion_laws",
    "NTKDispersionCrossover": "dispersion_laws",
    "NTKFirstStep": "first_step_laws",
    "NTKFirstStepLimit": "first_step_laws",
}
PUBLISHED = {
    "seleznova_2024": (
        "published",
        "published_variance",
        "published_deep",
        "published_limits",
        "published_first_step",
        "published_sample",
        "published_background",
    ),
}
_MORE = {
    "Moments": "kernel_moments",
    "DispersionEstimate": "dispersion_estimate",
    "estimate_dispersion": "dispersion_estimate",
    "KernelDraws": "input_sampling",
    "sample_kernels": "input_sampling",
    "StandardKernel": "standard_weights",
    "equicorrelated_variance": "standard_weights",
    "standard_kernel": "standard_weights",
    "trained_variance": "standard_weights",
    "correlation": "kernel_moments",
    "gradient_norms": "kernel_moments",
    "log_moments": "kernel_moments",
    "moments": "kernel_moments",
    "parametrization": "kernel_moments",
    "spread": "kernel_moments",
    "first_step": "first_step:",
    "limits": "limits:",
    "mean_field": "mean_field:",
    "printed": "printed:",
    "sampling": "sampling:",
}

_WHERE = {name: f"{__name__}.{module}" for name, module in {**FLOWS, **LAWS, **_MORE}.items()}
__all__ = ["FLOWS", "LAWS", "PUBLISHED", *_WHERE]

__getattr__, __dir__ = on_use(__name__, _WHERE)
