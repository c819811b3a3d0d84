"""Evaluation engine of a flow on a part of a grid: the plain formula, NumPy blocks, or machine code."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

from linsolve.core.arguments import unknown_name
from linsolve.core.flow import Flow
from linsolve.core.query import pose

__all__ = ["check_engine", "observed"]

ENOUGH = 2**12  # numbers, from which blocks are faster than the formula as it stands


def check_engine(who: str, flow: type[Flow], names: tuple[str, ...], engine: Any) -> None:
    """Refuse an engine that is unknown, cannot evaluate the flow, or whose extra is missing.

    Raises
    ------
    ValueError, ModuleNotFoundError
    """
    from linsolve.engines.evaluate import ENGINES, traceable

    if engine is not None and engine not in ENGINES:
        raise ValueError(unknown_name(who, "engine", engine, ENGINES))
    if engine in (None, "plain"):
        return
    own = engine == "compiled" and hasattr(flow, "compiled_solution")
    if not own and not traceable(flow, names):
        raise ValueError(
            f"{who}: engine = {engine!r} cannot evaluate {', '.join(names)} of {flow.__name__} (only single numbers "
            "of each network, from elementary functions, can be one program); leave it out"
        )
    maker = "numba" if own else "llvmlite"
    if engine == "compiled" and importlib.util.find_spec(maker) is None:
        raise ModuleNotFoundError(
            f"{who}: engine = 'compiled' needs {maker} (compiler); pip install \".[fast]\" in the clone, "
            "or leave the engine out"
        )


def observed(
    flow: Flow, t: np.ndarray, start: Any, names: tuple[str, ...], engine: str | None
) -> tuple[tuple[int, ...], dict[str, np.ndarray]]:
    """Return the batch shape, and observables by name, of shape t.shape + batch + own, from one thread."""
    from linsolve.engines.evaluate import observables

    problem = pose(flow, t, start)
    found = observables(problem, names, None, engine, 1, ENOUGH)
    return problem.batch, {name: np.asarray(value) for name, value in found.items()}
