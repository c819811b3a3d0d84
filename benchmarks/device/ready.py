"""GPU evaluation of each flow, from the functions it calls: one fused kernel, or array functions of CuPy."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.flow import Flow
from linsolve.core.query import pose
from linsolve.engines.program import elementwise

__all__ = ["BATCHED", "Ready", "ready"]

# functions of cupy.linalg that take batches of matrices; `diagonal` is from array-api-compat
BATCHED = ("cholesky", "diagonal", "eigh", "inv", "qr", "solve", "svd")


class Ready(NamedTuple):
    """GPU evaluation of a flow.

    Parameters
    ----------
    fused : bool
        Whether the closed form is one fused kernel.
    linalg : tuple of str
        Linear algebra functions that the flow calls.
    moving : tuple of str
        Those that the closed form calls at every time; the others serve the start or observables.
    """

    fused: bool
    linalg: tuple[str, ...]
    moving: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.fused:
            return "one fused kernel"
        lacking = [name for name in self.linalg if name not in BATCHED]
        calls = f"array functions and {', '.join(self.linalg)}" if self.linalg else "array functions only"
        calls += f" (at every time {', '.join(self.moving)})" if self.moving else ""
        return calls + (f"; CuPy has no batched {', '.join(lacking)}" if lacking else "")


class _Linalg:
    """``numpy.linalg`` with a count of the matrices passed to each function."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        function = getattr(np.linalg, name)

        def call(matrices: Any, *args: Any, **kwargs: Any) -> Any:
            self._asked[name] += math.prod(np.shape(matrices)[:-2])
            return function(matrices, *args, **kwargs)

        return call


class _Recorder:
    """NumPy with counted linear algebra."""

    def __init__(self) -> None:
        self.linalg = _Linalg()

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def ready(flow: type[Flow]) -> Ready:
    """Return the GPU evaluation of a flow: of its closed form, its velocity and its observables.

    Notes
    -----
    The result states that the calls exist on a GPU, not their speed or accuracy: QR and eigendecompositions of large
    batches of matrices are slow there. No run on a GPU is recorded yet.

    Examples
    --------
    >>> import linsolve as ls
    >>> str(ready(ls.BalancedMode)), str(ready(ls.HiddenMode))
    ('one fused kernel', 'array functions only')
    """
    xp = _Recorder()
    posed, z0 = flow.example(np.random.default_rng(0))
    problem = pose(posed, [0.0, 0.5], z0)
    own, clock = problem.flow, np.reshape(problem.t, (2, *[1] * len(problem.batch)))
    state = own.solution(xp, clock, problem.z0)
    own.along(xp, clock, problem.z0)
    own.conditions(xp, problem.z0)
    own.velocity(xp, problem.z0)
    own.loss(xp, state)
    own.observables(xp, state)
    moving = _moving(own, clock, problem.z0)
    return Ready(elementwise(flow), tuple(sorted(xp.linalg._asked)), moving)


def _moving(flow: Flow, clock: Any, z0: Any) -> tuple[str, ...]:
    """Return the linear algebra of the closed form whose number of matrices grows with the number of times."""
    once, again = _Recorder(), _Recorder()
    flow.solution(once, clock, z0)
    flow.solution(again, np.concatenate([clock, clock[1:] / 2]), z0)
    return tuple(sorted(name for name, count in again.linalg._asked.items() if count > once.linalg._asked[name]))
