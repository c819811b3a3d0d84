"""Neural collapse of one network, followed by theory and by simulation, and kernels of matrix blocks."""

from __future__ import annotations

from linsolve.studies.collapse.run import Collapsed, collapse
from linsolve.studies.collapse.starts import KINDS
from linsolve.systems.collapse.general_blocks import GeneralBlocks
from linsolve.systems.collapse.limits import aligned_limit, balanced_limit
from linsolve.systems.collapse.network import BlockNetwork, follow
from linsolve.systems.collapse.zero_target import ZeroTarget
from linsolve.systems.collapse.zero_target_rates import ZeroTargetRates

__all__ = [
    "KINDS",
    "BlockNetwork",
    "Collapsed",
    "GeneralBlocks",
    "ZeroTarget",
    "ZeroTargetRates",
    "aligned_limit",
    "balanced_limit",
    "collapse",
    "follow",
]
