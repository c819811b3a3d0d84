"""Two layers on data on a line: any width, initialization and learning rates; lazy training; phases."""

from __future__ import annotations

from linsolve.core.registry import on_use

FLOWS = {
    "HiddenMode": "hidden_mode",
    "LazyTwoLayer": "lazy",
    "TwoLayer": "two_layer",
    "TwoLayerOrder": "order_parameters",
}
LAWS = {
    "FinalAlignment": "final_alignment",
    "LazyTraining": "lazy_training",
    "LazyRegime": "lazy_regimes",
    "FeatureRegime": "lazy_regimes",
    "LazyFluctuations": "lazy_fluctuations",
    "FixedWidthKernelChange": "lazy_fluctuations",
}
PUBLISHED = {
    "xu_ziyin_2024": ("published_line", "published_phases", "published_rescaling", "published_scales"),
    "geiger_2020": ("published_lazy", "published_feature"),
}

_WHERE = {name: f"{__name__}.{module}" for name, module in {**FLOWS, **LAWS}.items()}
__all__ = ["FLOWS", "LAWS", "PUBLISHED", *_WHERE]

__getattr__, __dir__ = on_use(__name__, _WHERE)
