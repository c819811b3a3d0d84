"""Neural collapse of one network, followed by theory and by simulation, and kernels of matrix blocks."""

from __future__ import annotations

from linsolve.collapse.following import Collapsed, collapse
from linsolve.collapse.general_blocks import GeneralBlocks
from linsolve.collapse.limits import aligned_limit, balanced_limit
from linsolve.collapse.network import BlockNetwork, follow
from linsolve.collapse.starts import KINDS

__all__ = [
    "KINDS",
    "BlockNetwork",
    "Collapsed",
    "GeneralBlocks",
    "aligned_limit",
    "balanced_limit",
    "collapse",
    "follow",
]
