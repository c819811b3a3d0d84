"""The machine that `python -m benchmarks.device` measures, a processor or a GPU, and evaluation of flows on it."""

from __future__ import annotations

import dataclasses
import importlib.util
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.flow import Flow
from linsolve.engines.cuda import Given, Kernel, in_blocks, kinds_of

__all__ = ["Following", "Machine", "Measured", "Sample", "copy_bandwidth", "engine"]

SAMPLES = 16


def engine() -> str:
    """Return the fastest engine of the processor that is installed."""
    return "compiled" if importlib.util.find_spec("numba") else "blocks"


class Machine(NamedTuple):
    """A processor (``xp`` is NumPy) or a GPU (CuPy)."""

    xp: Any

    @property
    def is_device(self) -> bool:
        """Whether it is a GPU."""
        return self.xp is not np

    def wait(self) -> None:
        """Wait until all work is done."""
        if self.is_device:
            self.xp.cuda.Stream.null.synchronize()

    def seconds(self, work: Callable[[], Any]) -> float:
        """Return the seconds that `work` takes."""
        self.wait()
        start = time.perf_counter()
        work()
        self.wait()
        return time.perf_counter() - start

    def blocks(self, work: Callable[[int, int], None], count: int, block: int) -> int:
        """Run `work(first, last)` on blocks of members, halved if memory is lacking; return the last block size."""
        if self.is_device:
            pool = self.xp.get_default_memory_pool()
            return in_blocks(work, count, block, self.xp.cuda.memory.OutOfMemoryError, pool.free_all_blocks)
        return in_blocks(work, count, block, MemoryError, lambda: None)

    def generator(self, seed: int) -> Any:
        """Return a random number generator on the machine."""
        if self.is_device:
            return self.xp.random.Generator(self.xp.random.Philox4x3210(seed))
        return np.random.default_rng(seed)


class Sample(NamedTuple):
    """Sampled members: a flow, times and start as NumPy arrays, and the results of the machine by name."""

    flow: Flow
    t: np.ndarray
    start: Any
    found: dict[str, np.ndarray]


class Measured(NamedTuple):
    """Result of a workload: seconds, number of outputs, minimal bytes moved (0: not memory-bound), samples."""

    seconds: float
    outputs: int
    bytes: int
    sample: Sample | None
    note: str = ""


@dataclasses.dataclass
class Following:
    """Evaluation of a flow on a machine: one fused kernel on a GPU, the evaluation engines on the processor."""

    machine: Machine
    flow: type[Flow]
    names: tuple[str, ...]
    inputs: dict[str, Given]
    t: np.ndarray

    def __post_init__(self) -> None:
        xp = self.machine.xp
        self.clock = xp.asarray(self.t)
        if self.machine.is_device:
            self.kernel = Kernel(xp, self.flow, self.names, kinds_of(self.inputs))

    def __call__(self, first: int, last: int, outs: list[Any]) -> None:
        """Write members `first` to `last` into arrays of shape (times, members)."""
        if self.machine.is_device:
            self.kernel(self.clock, self.inputs, first, last, outs)
            return
        from linsolve.engines.evaluate import evaluate

        flow, start = self.members(np.arange(first, last))
        evaluate(flow, self.t, start, self.names, out=dict(zip(self.names, outs, strict=True)), engine=engine())

    def members(self, which: np.ndarray) -> tuple[Flow, Any]:
        """Return the members `which` as a flow and a start of NumPy arrays."""

        def of(value: Given) -> Any:
            if value.kind == "scalar":
                return value.values
            place = which if value.kind == "member" else which // value.inner % value.values.size
            return arithmetic.to_numpy(value.values[self.machine.xp.asarray(place)])

        values = {name: of(value) for name, value in self.inputs.items()}
        start = {name.removeprefix("start."): v for name, v in values.items() if name.startswith("start.")}
        flow = self.flow(**{name: v for name, v in values.items() if not name.startswith("start.")})
        some = np.zeros(len(which))
        return flow, self.flow.State(**{name: v + some for name, v in start.items()})  # type: ignore[attr-defined]

    def sample(self, count: int) -> Sample:
        """Return sampled members with the results of the machine."""
        which = np.unique(np.linspace(0, count - 1, min(SAMPLES, count)).astype(np.int64))
        times = np.unique(np.linspace(0, len(self.t) - 1, min(len(self.t), 8)).astype(np.int64))
        found: dict[str, list[Any]] = {name: [] for name in self.names}
        for member in which:
            outs = [self.machine.xp.empty((len(self.t), 1)) for _ in self.names]
            self(int(member), int(member) + 1, outs)
            for name, out in zip(self.names, outs, strict=True):
                found[name].append(arithmetic.to_numpy(out)[times, 0])
        values = {name: np.stack(v, axis=-1) for name, v in found.items()}
        return Sample(*_between(self.members(which), self.t[times]), values)


def _between(pair: tuple[Flow, Any], t: np.ndarray) -> tuple[Flow, np.ndarray, Any]:
    return pair[0], t, pair[1]


def copy_bandwidth(machine: Machine, scale: float) -> float:
    """Return bytes read and written per second by a copy of 64 MiB, or 2 GiB at full scale."""
    source = machine.xp.ones(max(1 << 23, int(scale * (1 << 28))))
    target = machine.xp.empty(source.shape)

    def copy() -> None:
        target[...] = source

    copy()
    return 2 * 8 * source.size / sorted(machine.seconds(copy) for _ in range(5))[2]
