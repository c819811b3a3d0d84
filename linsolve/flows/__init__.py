"""The exactly solvable networks, one file each; `ALL` is the registry that everything generic reads."""

from linsolve.registry import on_use

# a flow's name and its file; one line makes it known to tests, command line, plots and proof
WHERE = {
    "BalancedMode": "balanced_mode",
    "BiasedMode": "biased_mode",
    "BlockKernel": "block_kernel",
    "DeepMode": "deep_mode",
    "FrozenHead": "frozen_head",
    "FrozenKernel": "frozen_kernel",
    "HiddenMode": "hidden_mode",
    "LazyTwoLayer": "two_layer_lazy",
    "NeuralCollapse": "neural_collapse",
    "SpecializedKernel": "specialized_kernel",
    "TwoLayer": "two_layer",
    "TwoLayerOrder": "two_layer_order",
    "WhitenedTwoLayer": "whitened_two_layer",
}
__all__ = ["ALL", *WHERE]

__getattr__, __dir__ = on_use(__name__, WHERE)
