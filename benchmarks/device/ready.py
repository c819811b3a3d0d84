"""Which flows are ready for a GPU, read off what they call: one fused kernel, or array functions that CuPy has."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.flow import Flow
from linsolve.core.query import pose
from linsolve.engines.program import elementwise

__all__ = ["BATCHED", "Ready", "ready"]

# of cupy.linalg, those documented to take batches of matrices; `diagonal` is array-api-compat's
BATCHED = ("cholesky", "diagonal", "eigh", "inv", "qr", "solve", "svd")


class Ready(NamedTuple):
    """What a device would run of a flow.

    Parameters
    ----------
    fused : bool
        Whether the closed form is one kernel.
    linalg : tuple of str
        Linear algebra that it calls.
    moving : tuple of str
        What of it the closed form calls for every time; the rest serves its start, or observables.
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
    """``numpy.linalg``, counting the matrices that each of its functions is given."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        function = getattr(np.linalg, name)

        def call(matrices: Any, *args: Any, **kwargs: Any) -> Any:
            self._asked[name] += math.prod(np.shape(matrices)[:-2])
            return function(matrices, *args, **kwargs)

        return call


class _Recorder:
    """NumPy with such linear algebra."""

    def __init__(self) -> None:
        self.linalg = _Linalg()

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def ready(flow: type[Flow]) -> Ready:
    """Return what a device would run of a flow: of its closed form, its velocity and its observables.

    Notes
    -----
    It says that the calls exist, not that they are fast or exact there: QR and eigendecompositions of large batches of
    matrices are slow on a GPU, and no flow has been run on one yet.

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
    """Return the linear algebra of the closed form that has more to do the more times there are."""
    once, again = _Recorder(), _Recorder()
    flow.solution(once, clock, z0)
    flow.solution(again, np.concatenate([clock, clock[1:] / 2]), z0)
    return tuple(sorted(name for name, count in again.linalg._asked.items() if count > once.linalg._asked[name]))
