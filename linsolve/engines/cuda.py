"""Closed forms of ensembles on a GPU: the kernels of `cuda_source` through CuPy.

Kernels are printed from the program of the flow, compiled once and cached. See the device table in
``benchmarks/RESULTS.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.query import Problem, pose, refuse_inexact, refuse_outside_lifetime, refuse_overflow
from linsolve.engines.constants import early_values
from linsolve.engines.cuda_source import OPTIONS, THREADS, evaluation
from linsolve.engines.cuda_statements import early
from linsolve.engines.interval import UNKNOWN, Range
from linsolve.engines.plan import COLUMN, TIME, Grid, Plan, plan_for
from linsolve.engines.program import Program, program_of
from linsolve.engines.specialize import range_of, rounded, variant

__all__ = ["Prepared", "checked", "column", "computed", "device", "evaluate", "kernel", "prepared"]

BUSY = 1 << 18  # number of threads that saturates a device
LAST = 65535  # largest number of blocks along the second axis of the grid
Inputs = tuple[tuple[str, int], ...]  # names of inputs, and the axes along which each varies
_known: Callable[..., Program] = lru_cache(maxsize=64)(program_of)


def device() -> Any:
    """Return CuPy if a device is available.

    Raises
    ------
    ImportError
        If CuPy is missing.
    OSError
        If there is no device, or no driver.
    """
    try:
        import cupy
    except ImportError as error:
        raise ImportError(
            'cuda: CuPy is missing (arrays on a GPU); pip install ".[cuda12]" in the clone for drivers of CUDA 12, '
            'or ".[cuda13]"'
        ) from error
    try:
        found = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise OSError(
            f"cuda: device = none can be used ({error}); install a driver that fits the extra, [cuda12] or [cuda13]"
        ) from error
    if not found:
        raise OSError("cuda: devices = 0 must be at least 1 (GPUs); [cuda12] and [cuda13] need one, NumPy does not")
    return cupy


@lru_cache(maxsize=64)
def kernel(xp: Any, source: Callable[[Plan], str], name: str, program: Program, inputs: Inputs) -> Any:
    """Return the kernel `name` that `source` prints for the plan of a program, compiled at its first launch."""
    return xp.RawKernel(source(plan_for(program, inputs)), name, options=OPTIONS)


class Prepared(NamedTuple):
    """Program and inputs of a plan for a checked query, the number of times, and the arrays that its kernel reads."""

    program: Program
    inputs: Inputs
    times: int
    arrays: list[Any]


def checked(flow: Any, t: Any, z0: Any) -> Problem:
    """Return the checked query."""
    problem = pose(flow, t, z0)
    refuse_inexact(problem)
    refuse_outside_lifetime(problem)
    return problem


def prepared(xp: Any, problem: Problem, names: tuple[str, ...]) -> Prepared:
    """Return the program of some observables, without the branches that no member takes, and its inputs."""
    start = {f"start.{name}": value for name, value in problem.z0._asdict().items()}
    values = {**problem.flow.parameters(), **start}
    times = np.ascontiguousarray(arithmetic.to_numpy(problem.t).reshape(-1))
    program = _known(type(problem.flow), names)
    one = {name: arithmetic.to_numpy(v).reshape(()) for name, v in values.items() if math.prod(v.shape) == 1}
    given = {**values, **one, "t": times}
    program = variant(program, _ranges(xp, {name: given[name] for name in program.inputs}))
    inputs = tuple((name, TIME if name == "t" else 0 if name in one else COLUMN) for name in program.inputs)
    columns = [column(xp, given[name], problem.batch) for name, axes in inputs if axes & COLUMN]
    return Prepared(program, inputs, times.size, [*_early(xp, plan_for(program, inputs), one, times), *columns])


def _early(xp: Any, plan: Plan, one: dict[str, np.ndarray], times: np.ndarray) -> list[Any]:
    """Return the values that are equal for all members, and those that vary with time only, on the device."""
    with np.errstate(all="ignore"):  # overflow is told by the results
        found = early_values(plan, Grid((times.size, 1, 2), {**one, "t": times}))
    # a kernel takes no empty array
    return [xp.asarray(np.array([found[k] for k in read] if read else [0.0], dtype=float)) for read in early(plan)]


def _ranges(xp: Any, values: dict[str, Any]) -> dict[str, Range]:
    """Return ranges that hold all entries of arrays, found on their device; zeros there may have either sign."""
    found = {name: range_of(value) for name, value in values.items() if not arithmetic.is_cupy(value)}
    held = [name for name in values if name not in found]
    if held:  # one transfer for all
        ends = arithmetic.to_numpy(xp.stack([end for name in held for end in (values[name].min(), values[name].max())]))
        for name, low, high in zip(held, *ends.reshape(-1, 2).T.tolist(), strict=True):
            wide = math.isnan(low + high)
            found[name] = UNKNOWN if wide else rounded(Range(low or -0.0, high or 0.0, False))
    return found


def column(xp: Any, value: Any, batch: tuple[int, ...]) -> Any:
    """Return an input as an array of one number per member."""
    return xp.ascontiguousarray(xp.asarray(arithmetic.namespace(value).broadcast_to(value, batch)))


def computed(problem: Problem, names: tuple[str, ...]) -> tuple[dict[str, Any], bool]:
    """Return observables of a checked query, and whether all of them are finite."""
    xp, members = device(), math.prod(problem.batch)
    program, inputs, times, arrays = prepared(xp, problem, names)
    found = {name: xp.empty((*problem.t.shape, *problem.batch)) for name in names}
    lost = xp.zeros(1, dtype=xp.int32)
    grid = -(-members // THREADS), min(times, LAST, -(-BUSY // members))
    arguments = (np.int64(members), np.int32(times), *arrays, *found.values(), lost)
    kernel(xp, evaluation, "follow", program, inputs)(grid, (THREADS,), arguments)
    return found, not int(lost[0])


def evaluate(flow: Any, t: Any, z0: Any, names: Iterable[str] | str | None = None) -> dict[str, Any]:
    """Return state and observables of the closed form, computed on a GPU in one pass.

    Parameters
    ----------
    flow : Flow
        A flow whose parameters and state are single numbers.
    t, z0
        Times and start, as for the flow itself; arrays of NumPy or CuPy.
    names : str or iterable of str, optional
        State fields and observables of a `Trajectory`; by default the state.

    Returns
    -------
    dict of str to array
        CuPy arrays of shape ``t.shape + batch``.

    Raises
    ------
    ImportError, OSError
        If CuPy or a device is missing.
    ValueError, TypeError, NotExact, OverflowError
        As for the flow; also for an unknown name.
    MemoryError
        If results do not fit in device memory.

    Notes
    -----
    Every operation is rounded as in NumPy, without contraction to fused multiply-adds; elementary functions are those
    of CUDA. ``tests/engines/test_cuda_host.py`` compiles the same source with the host compiler: a million inputs of
    each flow are within the bounds of the engine "compiled". ``tests/engines/test_cuda_compiler.py`` reads registers
    and local memory from the report of NVIDIA's compiler. ``python -m benchmarks device`` measures speed and accuracy
    on a device.
    """
    xp, problem = device(), checked(flow, t, z0)
    wanted = (
        problem.z0._fields if names is None else (names,) if isinstance(names, str) else tuple(dict.fromkeys(names))
    )
    if not wanted:
        raise ValueError("cuda: names = () must have an entry (state fields and observables); say names='loss'")
    try:
        found, finite = computed(problem, wanted)
    except xp.cuda.memory.OutOfMemoryError as error:
        raise MemoryError(
            f"cuda: {' and '.join(wanted)} of shape {(*problem.t.shape, *problem.batch)} (times and members) do not "
            "fit the device; use fewer members or times at once, or reduce"
        ) from error
    if not finite:
        refuse_overflow(problem)
    return found
