"""Closed forms in one pass: evaluated in cache-sized blocks, compiled into one loop, reduced without being stored.

`program_of` writes a flow's formulas down as a straight-line program; `evaluate` and `reduce` run it over times and
members of an ensemble with one of the engines "plain", "blocks" (NumPy, no compiler) and "compiled" (extra ``[fast]``).
"""

from linsolve.fused.evaluate import ENGINES, evaluate
from linsolve.fused.order import order_parameters
from linsolve.fused.program import elementwise, program_of
from linsolve.fused.reduce import reduce

__all__ = ["ENGINES", "elementwise", "evaluate", "order_parameters", "program_of", "reduce"]
