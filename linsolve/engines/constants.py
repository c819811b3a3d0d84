"""Constant subexpressions, evaluated once in plain Python, which rounds identically and is faster.

Steps that depend only on time are also evaluated once, with NumPy. This matters for small ensembles and sweeps, where
the set-up dominates (W7 in ``benchmarks/RESULTS.md``).
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from linsolve.engines.plan import COLUMN, ROW, Grid, Plan, plan_for
from linsolve.engines.program import BOOLEAN, Program, Step

__all__ = ["UFUNCS", "by_numpy", "early_values"]

_SAME = (
    "exp expm1 log log1p sqrt sin cos tan asin sinh cosh tanh sign isinf isnan isfinite minimum maximum hypot pow atan2"
)
UFUNCS: dict[str, Any] = {name: getattr(np, name) for name in _SAME.split()} | {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "mod": np.remainder, "neg": np.negative,
    "abs": np.abs, "not": np.logical_not, "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
_OPERATORS = {"add": "add", "sub": "sub", "mul": "mul", "div": "truediv", "mod": "mod", "neg": "neg"}
_FEW = 1024  # largest number of cached values
_TINY, _MOST = sys.float_info.min, sys.float_info.max


def _choose(condition: bool, a: Any, b: Any) -> Any:
    return a if condition else b


# correctly rounded operations, equal in Python and NumPy
_SUMS: dict[str, Callable] = {
    "add": operator.add, "sub": operator.sub, "neg": operator.neg, "abs": operator.abs, "sqrt": math.sqrt,
}  # fmt: skip
_PRODUCTS: dict[str, Callable] = {"mul": operator.mul, "div": operator.truediv}
_SURE: dict[str, Callable] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne,
    "not": operator.not_, "and": operator.and_, "or": operator.or_, "xor": operator.xor, "isinf": math.isinf,
    "isnan": math.isnan, "isfinite": math.isfinite, "where": _choose,
}  # fmt: skip
_KINDS = ((_SUMS, 0.0), (_PRODUCTS, _TINY), (_SURE, None))


def early_values(plan: Plan, grid: Grid) -> dict[int, np.ndarray]:
    """Return the values of the steps that do not depend on members, bitwise equal to plain evaluation.

    They are cached for ensembles with equal parameters and times, unless NumPy would warn.
    """
    given = [(name, grid.given[name]) for name, axes in plan.inputs if not axes & (ROW | COLUMN)]
    if sum(v.size for _, v in given) <= _FEW and all(v.dtype == np.float64 for _, v in given):
        found = _quiet(plan.program, plan.inputs, tuple((name, v.shape, v.tobytes()) for name, v in given))
        if found is not None:
            return found
    return _computed(plan, dict(given))


@lru_cache(maxsize=32)
def _quiet(program: Program, inputs: tuple[tuple[str, int], ...], given: tuple[tuple, ...]) -> Any:
    """Return the values, read-only, or None if an operation overflows, underflows or is invalid."""
    own = {name: np.frombuffer(data).reshape(shape) for name, shape, data in given}
    try:
        with np.errstate(all="raise"):
            found = _computed(plan_for(program, inputs), own)
    except FloatingPointError:
        return None
    for v in found.values():
        v.flags.writeable = False
    return found


def _computed(plan: Plan, given: dict[str, np.ndarray]) -> dict[int, np.ndarray]:
    """Return the values; finite normal numbers are computed in Python, which is faster."""
    steps = plan.program.steps
    recipe, constants = _recipe(plan.program, plan.inputs)
    numbers, values = constants.copy(), list[Any]([None] * len(steps))
    for k, function, args, least in recipe:
        of = [numbers[a] for a in args]
        if function is not None and None not in of:
            try:
                value = function(*of)
            except (ZeroDivisionError, ValueError):
                pass
            else:
                if least is None or least < abs(value) <= _MOST or (value == 0 and (not least or 0 in of)):
                    numbers[k] = value
                    continue
        found = by_numpy(steps[k], [_as_numpy(steps[a], values[a], numbers[a]) for a in args], given)
        values[k] = found
        if found.ndim == 0 and found == found:  # not nan
            numbers[k] = found.item()
    return {
        k: np.asarray(numbers[k] if values[k] is None else values[k], dtype=bool if steps[k].kind == BOOLEAN else float)
        for k in plan.common
    }


@lru_cache(maxsize=64)
def _recipe(program: Program, inputs: tuple[tuple[str, int], ...]) -> tuple[list[tuple], list[Any]]:
    """Return for each step its function of Python numbers, its arguments, and the smallest magnitude of its result."""
    found, constants = list[tuple](), list[Any]([None] * len(program.steps))
    for k in plan_for(program, inputs).early:
        step = program.steps[k]
        if step.op == "constant" and step.data == step.data:
            constants[k] = step.data if step.kind == BOOLEAN else float(step.data)
        else:
            table, least = next(((t, least) for t, least in _KINDS if step.op in t), ({}, None))
            function = None if step.data == "square" else table.get(step.op)
            found.append((k, function, step.args, least))
    return found, constants


def _as_numpy(step: Step, value: Any, number: Any) -> Any:
    """Return a number with the NumPy type of plain evaluation."""
    if value is not None:
        return value
    if step.kind == BOOLEAN:
        return np.bool_(number)
    return np.asarray(number) if step.op == "where" else np.float64(number)  # NumPy numbers may be divided by 0


def by_numpy(step: Step, given: list[Any], inputs: dict[str, np.ndarray]) -> Any:
    """Return the value of a step as in plain evaluation, given those of its arguments, and the inputs by name."""
    if step.op == "input":
        return inputs[step.data]
    if step.op == "constant":
        return np.float64(step.data)
    if step.op == "where":
        return np.where(*given)
    if step.data == "square":
        return given[0] ** 2
    if step.op == "astype":
        return np.asarray(given[0], dtype=float)
    if step.op in _OPERATORS:
        return getattr(operator, _OPERATORS[step.op])(*given)
    return UFUNCS[step.op](*given)
