"""The exactly solvable networks, one file each; `ALL` is the registry that everything generic reads."""

from linsolve.flows.balanced_mode import BalancedMode

__all__ = ["ALL", "BalancedMode"]

ALL = (BalancedMode,)
