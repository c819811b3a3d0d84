"""Test and train error of linear models in time: double descent, overfitting, optimal stopping, grokking."""

from __future__ import annotations

from linsolve.core.registry import on_use

FLOWS: dict[str, str] = {}
LAWS = {
    "GeneralizationInTime": "in_time",
    "GeneralizationOfData": "of_data",
    "GeneralizationOfCovariance": "of_covariance",
    "GeneralizationOfAlignedStudent": "of_aligned_student",
}

_WHERE = {name: f"{__name__}.{module}" for name, module in {**FLOWS, **LAWS}.items()}
__all__ = ["FLOWS", "LAWS", *_WHERE]

__getattr__, __dir__ = on_use(__name__, _WHERE)
