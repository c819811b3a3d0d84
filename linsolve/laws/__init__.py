"""The asymptotic and statistical statements, one file each; `ALL` is the registry that everything generic reads."""

from linsolve.registry import on_use

# a law's name and its file; one line makes it known to tests, command line and proof
WHERE = {
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
    "FinalKernel": "final_kernel",
    "FinalKernelAnisotropic": "final_kernel",
    "FinalKernelOutputs": "final_kernel",
    "KernelRegression": "kernel_regression",
    "LayerKernels": "layer_kernels",
    "WidthCorrection": "layer_kernels",
    "LayerImbalance": "layer_kernels",
    "TransferError": "transfer_error",
    "LazyTraining": "lazy",
    "LazyRegime": "lazy_regimes",
    "FeatureRegime": "lazy_regimes",
    "LazyFluctuations": "lazy_fluctuations",
    "FixedWidthKernelChange": "lazy_fluctuations",
    "NTKMoments": "ntk_dispersion",
    "NTKDispersionLimit": "ntk_dispersion",
    "NTKDispersionCrossover": "ntk_dispersion",
    "NTKFirstStep": "ntk_first_step",
    "NTKFirstStepLimit": "ntk_first_step",
}
__all__ = ["ALL", *WHERE]

__getattr__, __dir__ = on_use(__name__, WHERE)
