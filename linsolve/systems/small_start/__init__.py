"""Networks with small initial weights: silent alignment, learning times and final kernels."""

from __future__ import annotations

from linsolve.core.registry import on_use

FLOWS: dict[str, str] = {}
LAWS = {
    "EarlyAlignment": "early_alignment",
    "InitialOverlaps": "early_alignment",
    "EarlyAnisotropic": "early_anisotropic",
    "EarlyKernelDirection": "early_anisotropic",
    "MatchedSolution": "matched",
    "RefinedMatchedSolution": "matched",
    "KernelAlignment": "matched",
    "MatchedOutputs": "matched_outputs",
    "LearningTime": "learning_times",
    "DeepLearningTime": "learning_times",
    "UnalignedLearningTime": "unaligned",
    "FirstLayerAlignment": "first_layer",
    "KernelSpeed": "kernel_speed",
    "DeepFeatureRegime": "deep_feature",
    "DeepLazyRegime": "deep_lazy",
    "DeepLazyFluctuations": "deep_lazy",
    "SaddleToSaddle": "saddle_to_saddle",
    "FinalKernel": "final_kernel",
    "FinalKernelAnisotropic": "final_kernel",
    "FinalKernelOutputs": "final_kernel",
    "KernelRegression": "kernel_regression",
    "LayerKernels": "layer_kernels",
    "WidthCorrection": "layer_kernels",
    "LayerImbalance": "layer_kernels",
    "TransferError": "transfer_error",
}
PUBLISHED = {
    "atanasov_2022": (
        "published_start",
        "published_early",
        "published_times",
        "published_deep",
        "published_strength",
        "published_outputs",
    ),
}

_WHERE = {name: f"{__name__}.{module}" for name, module in {**FLOWS, **LAWS}.items()}
__all__ = ["FLOWS", "LAWS", "PUBLISHED", *_WHERE]

__getattr__, __dir__ = on_use(__name__, _WHERE)
