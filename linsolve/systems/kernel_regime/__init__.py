"""Training under a constant tangent kernel: any kernel, block-structured kernels, linearization of a network."""

from __future__ import annotations

from linsolve.core.registry import on_use

FLOWS = {
    "BlockKernel": "block_kernel",
    "FrozenKernel": "frozen_kernel",
    "SpecializedKernel": "specialized_kernel",
}
LAWS = {"TwoPhaseKernel": "two_phase"}
PUBLISHED = {
    "ortiz_jimenez_2021": ("published",),
}
_MORE = {
    "Convergence": "tangent",
    "anisotropy_directions": "tangent",
    "Regression": "least_norm",
    "convergence": "tangent",
    "input_kernel": "tangent",
    "linearize": "tangent",
    "tangent_kernel": "tangent",
    "BlockFit": "block_fit",
    "fit_blocks": "block_fit",
    "alignment": "measures",
    "alignment_from_jacobian": "measures",
    "cosine_alignment": "measures",
    "energy_concentration": "measures",
    "regression": "least_norm",
    "rkhs_norm": "measures",
    "rkhs_norm_bound": "measures",
}

_WHERE = {name: f"{__name__}.{module}" for name, module in {**FLOWS, **LAWS, **_MORE}.items()}
__all__ = ["FLOWS", "LAWS", "PUBLISHED", *_WHERE]

__getattr__, __dir__ = on_use(__name__, _WHERE)
