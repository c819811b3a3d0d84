"""Closed forms of ensembles on a GPU: the kernels of `cuda_source` through CuPy, in blocks that fit its memory.

Kernels are generated from the program of the flow, compiled once and cached. Members are evaluated in blocks, which are
halved if the device runs out of memory. See the device bench in ``benchmarks/RESULTS.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import integer, unknown_name
from linsolve.core.query import Problem, pose, refuse_inexact, refuse_outside_lifetime
from linsolve.engines.cuda_source import OPTIONS, evaluation
from linsolve.engines.program import Program, program_of

__all__ = ["Given", "Kernel", "device", "evaluate", "given", "in_blocks", "known_program"]

THREADS = 256  # threads per block of the device
BUSY = 1 << 18  # number of threads that saturates a device
LEAST = 1 << 10  # smallest number of members of a halved block
BUFFER = 1 << 25  # largest number of outputs of a block in transfer to the host
known_program: Callable[..., Program] = lru_cache(maxsize=64)(program_of)


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


class Given(NamedTuple):
    """Input of a program on a batch: its kind as in `cuda_source`, its values, and their layout in the batch."""

    kind: str
    values: Any
    inner: int = 1

    def on(self, xp: Any, first: int, last: int) -> tuple[Any, ...]:
        """Return the arguments of a kernel for members `first` to `last`."""
        if self.kind == "scalar":
            return (self.values,)
        if self.kind == "member":
            return (xp.ascontiguousarray(xp.asarray(self.values[first:last])),)
        values = xp.ascontiguousarray(xp.asarray(self.values))
        return values, np.int64(self.inner), np.int64(values.size)


def given(value: Any, batch: tuple[int, ...]) -> Given:
    """Return a parameter or field as a kernel argument: a scalar, one number per member, or one along some axes.

    Examples
    --------
    >>> import numpy as np
    >>> given(np.ones((3, 1)), (3, 5)).kind, given(np.ones((3, 1)), (3, 5)).inner
    ('axis', 5)
    """
    shape = (1,) * (len(batch) - len(value.shape)) + tuple(value.shape)
    along = [k for k, n in enumerate(shape) if n > 1]
    if not along:
        return Given("scalar", np.float64(arithmetic.to_numpy(value).reshape(())))
    inside = range(along[0], along[-1] + 1)
    if any(shape[k] != batch[k] for k in inside):
        # varying axes that are not adjacent: the full array is written out
        xp = arithmetic.namespace(value)
        return Given("member", xp.reshape(xp.broadcast_to(value, batch), (-1,)))
    flat, inner = value.reshape(-1), math.prod(batch[along[-1] + 1 :])
    return Given("member" if inner * len(flat) == math.prod(batch) and inner == 1 else "axis", flat, inner)


def in_blocks(
    work: Callable[[int, int], None],
    count: int,
    block: int,
    failure: type[BaseException],
    free: Callable[[], None],
    least: int = LEAST,
) -> int:
    """Process members in blocks; a block that runs out of memory is halved and tried again.

    Parameters
    ----------
    work : callable
        ``work(first, last)``; it must have no effect if it fails.
    count, block : int
        Number of members, and initial number of members per block.
    failure : type
        Exception raised when memory is exhausted.
    free : callable
        Function that frees unused memory.
    least : int
        Smallest number of members of a halved block.

    Returns
    -------
    int
        Final number of members per block.

    Raises
    ------
    MemoryError
        If even blocks of less than ``2 least`` members do not fit.
    """
    first = 0
    while first < count:
        last = min(first + block, count)
        try:
            work(first, last)
        except failure as error:
            half = block // 2
            if half < least:
                raise MemoryError(
                    f"cuda: memory for {last - first} members is lacking (a block cannot be smaller); ask for fewer "
                    "times or names, reduce instead, or free memory of the device"
                ) from error
            block = half
            free()
            continue
        first = last
    return block


class Kernel:
    """The compiled closed form of a flow, for inputs of certain kinds.

    Parameters
    ----------
    xp : module
        CuPy.
    flow : type
        Flow of single numbers; see `linsolve.engines.elementwise`.
    names : tuple of str
        State fields and observables; the launch takes one array for each.
    kinds : tuple of (str, str)
        Kind of each input except ``t``.
    """

    def __init__(self, xp: Any, flow: type, names: tuple[str, ...], kinds: tuple[tuple[str, str], ...]) -> None:
        self.xp, self.program = xp, known_program(flow, names)
        self.raw = xp.RawKernel(evaluation(self.program, dict(kinds)), "follow", options=OPTIONS)

    def __call__(self, clock: Any, inputs: Mapping[str, Given], first: int, last: int, outs: Iterable[Any]) -> None:
        """Write members `first` to `last` into arrays of shape (times, members), or views of constant row stride."""
        outs, count, times = list(outs), last - first, int(clock.size)
        pitch = outs[0].strides[0] // outs[0].itemsize if times > 1 else count
        chunk = max(1, -(-times // 65535), min(times, times * count // BUSY))
        grid = (min(-(-count // THREADS), 1 << 30), -(-times // chunk))
        arguments: list[Any] = [np.int64(first), np.int64(count), np.int64(pitch), np.int32(times), np.int32(chunk)]
        arguments.append(clock)
        for name in self.program.inputs:
            if name != "t":
                arguments += inputs[name].on(self.xp, first, last)
        self.raw(grid, (THREADS,), (*arguments, *outs))


compiled: Callable[..., Kernel] = lru_cache(maxsize=64)(Kernel)


def inputs_of(problem: Problem, program: Program) -> dict[str, Given]:
    """Return the inputs of a program from a checked query."""
    start = {f"start.{name}": value for name, value in zip(problem.z0._fields, problem.z0, strict=True)}
    values = {**problem.flow.parameters(), **start}
    return {name: given(values[name], problem.batch) for name in program.inputs if name != "t"}


def kinds_of(inputs: Mapping[str, Given]) -> tuple[tuple[str, str], ...]:
    """Return the kinds of inputs by name, as `Kernel` takes them."""
    return tuple((name, value.kind) for name, value in inputs.items())


def asked(flow: Any, t: Any, z0: Any) -> Problem:
    """Return the checked query."""
    problem = pose(flow, t, z0)
    refuse_inexact(problem)
    refuse_outside_lifetime(problem)
    return problem


def evaluate(
    flow: Any,
    t: Any,
    z0: Any,
    names: Iterable[str] | str | None = None,
    *,
    out: Mapping[str, Any] | None = None,
    block: int | None = None,
) -> dict[str, Any]:
    """Return state and observables of the closed form, computed on a GPU in one pass.

    Parameters
    ----------
    flow : Flow
        A flow whose parameters and state are single numbers.
    t, z0
        Times and start, as for the flow itself; arrays of NumPy or CuPy.
    names : str or iterable of str, optional
        State fields and observables of a `Trajectory`; by default the state.
    out : mapping of str to array, optional
        Arrays to write into, C-contiguous doubles of shape ``t.shape + batch``. CuPy arrays are written in place. NumPy
        arrays are filled block by block, so that they may be larger than the device memory.
    block : int, optional
        Members per launch; halved automatically if memory is insufficient.

    Returns
    -------
    dict of str to array
        CuPy arrays, or those of `out`.

    Raises
    ------
    ImportError, OSError
        If CuPy or a device is missing.
    ValueError, TypeError, NotExact
        As for the flow; also for an unknown name, or an `out` that does not fit.
    MemoryError
        If results do not fit in device memory (pass NumPy arrays as `out`), or even a small block does not fit.

    Notes
    -----
    Every operation is rounded as in NumPy, without contraction to fused multiply-adds; elementary functions are those
    of CUDA. ``tests/engines/test_cuda_source.py`` compiles the same source with the host compiler: with the same
    library functions the results are bitwise equal to the formulas. Input is checked on a host copy.
    ``python -m benchmarks.device --gpu`` measures speed and accuracy on a device.
    """
    xp = device()
    problem = asked(flow, t, z0)
    wanted = (
        problem.z0._fields if names is None else (names,) if isinstance(names, str) else tuple(dict.fromkeys(names))
    )
    program = known_program(type(flow), tuple(wanted))
    shape, members = (*problem.t.shape, *problem.batch), math.prod(problem.batch)
    times = math.prod(problem.t.shape)
    found = _where(type(flow).__name__, out, wanted, shape)
    failure = xp.cuda.memory.OutOfMemoryError
    try:
        found = {name: found[name] if name in found else xp.empty(shape) for name in wanted}
    except failure as error:
        raise MemoryError(
            f"cuda: {' and '.join(wanted)} of {times} times and {members} members do not fit the device; give NumPy "
            "arrays as out, or reduce"
        ) from error
    inputs = inputs_of(problem, program)
    kernel = compiled(xp, type(flow), tuple(wanted), kinds_of(inputs))
    clock = xp.asarray(np.ascontiguousarray(arithmetic.to_numpy(problem.t).reshape(-1)))
    flat = {name: value.reshape(times, members) for name, value in found.items()}
    to_host = any(type(value) is np.ndarray for value in found.values())

    def work(first: int, last: int) -> None:
        places = [
            xp.empty((times, last - first)) if type(value) is np.ndarray else value[:, first:last]
            for value in flat.values()
        ]
        kernel(clock, inputs, first, last, places)
        for value, place in zip(flat.values(), places, strict=True):
            if type(value) is np.ndarray:
                value[:, first:last] = place.get()

    if block is None:
        block = min(members, max(LEAST, BUFFER // (times * len(wanted)))) if to_host else members
    else:
        block = integer("cuda", "block", block, meaning="members at once", example=1_000_000)
    in_blocks(work, members, block, failure, xp.get_default_memory_pool().free_all_blocks)
    return found


def _where(who: str, out: Mapping[str, Any] | None, names: tuple[str, ...], shape: tuple[int, ...]) -> dict[str, Any]:
    """Return the arrays to write into; raise if they do not fit."""
    for name, value in (out or {}).items():
        if name not in names:
            raise ValueError(unknown_name(who, "out", name, names))
        if tuple(value.shape) != shape or value.dtype != np.float64 or not value.flags.c_contiguous:
            raise ValueError(
                f"{who}: out[{name!r}] has shape {tuple(value.shape)} and dtype {value.dtype} but must be C-contiguous "
                f"doubles of shape {shape} (times and members); make it by empty{shape}"
            )
    return dict(out or {})
