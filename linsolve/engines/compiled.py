"""Compilation of a program to SIMD loops over members and times (extra ``[fast]``).

LLVM IR is written as text because it compiles in 0.1 to 1 s, while numba takes 0.7 s to minutes, and because
auto-vectorization of short loops is unreliable. See the rows "ours, compiled" of W1, W3, W4 and W7 in
``benchmarks/RESULTS.md``.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from linsolve.engines.branches import stages
from linsolve.engines.constants import early_values
from linsolve.engines.listed import CHUNK
from linsolve.engines.loop import INNER, LANES, WORTH, assembly
from linsolve.engines.plan import Grid, Plan, Tile, plan_of, share_of, tiles
from linsolve.engines.program import Program
from linsolve.numerics.threads import forkable_lock, workers

__all__ = ["Compiled", "machine_code"]

_LINE, _LARGE = 64, 2**25  # bytes of a cache line, and of arrays too large to stay in the cache
_TIMES = 32  # least number of times for which the lanes of a vector are times of one member
_TILES = 8  # number of tiles for each thread
_LONG = 2**15  # largest number of members of a tile
_SHARE = 2**22  # least work per thread, in steps x outputs: a quarter of a millisecond
_made: dict[tuple, Machine] = {}
_making = forkable_lock()


class Machine:
    """Machine code of a loop."""

    def __init__(self, plan: Plan, **how: bool) -> None:
        self.loop = assembly(plan, text=False, **how)
        self.engine, address, self.text, self.assembly = machine_code(
            lambda wide: assembly(plan, avx512=wide, **how).text, "loop"
        )
        self.call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 7)(address)


def machine_code(write: Callable[[bool], str], name: str) -> tuple[Any, int, str, Callable[[], str]]:
    """Return the execution engine, the function address, the LLVM IR and a disassembler.

    Parameters
    ----------
    write : callable
        Function that returns LLVM IR, given whether this processor has AVX-512.
    name : str
        Name of the function in the IR.
    """
    binding = _binding()
    target = binding.Target.from_default_triple()
    features = binding.get_host_cpu_features()
    text = write(features.get("avx512f", False))
    machine = target.create_target_machine(
        cpu=binding.get_host_cpu_name(), features=features.flatten(), opt=2, codemodel="jitdefault", jit=True
    )
    module = binding.parse_assembly(text)
    module.verify()
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine, engine.get_function_address(name), text, lambda: machine.emit_assembly(module)


def _binding() -> Any:
    try:
        import llvmlite.binding as binding
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'engine: compiled needs llvmlite (compiler); pip install ".[fast]" in the clone, or leave the engine out'
        ) from error
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


class Compiled:
    """A program on a grid as machine code, evaluated tile by tile from any thread.

    Sums, products, quotients and square roots are bitwise equal to those of NumPy; other functions are within 1.05 ulp
    (``tests/engines/test_fused_compiled.py``). Polynomials recorded with `Value.fused` round once per term, not twice.
    A branch of a `where` is skipped if no number of a vector takes it (`branches`), or evaluated afterwards for the
    vectors that take it (`listed`). In programs with branches, at 32 times or more, polynomials are sums of pairs of
    terms: last digits may depend on the number of times.
    Steps that depend only on time are computed with NumPy. Machine code is cached for each program and each set of
    varying inputs until the process ends.

    Parameters
    ----------
    program : Program
    grid : Grid
    """

    def __init__(self, program: Program, grid: Grid) -> None:
        self.program, self.grid, self.plan = program, grid, plan_of(program, grid)
        self.early = early_values(self.plan, grid)
        by_member = grid.shape[0] >= _TIMES and any(stage.when for stage in stages(program, self.plan.full, WORTH))
        self.machine = self._machine(by_member=by_member)
        self.loop = self.machine.loop
        count = grid.shape[0]
        # one row per step that does not depend on members
        self.common = np.ones((max(1, len(self.loop.common)), count + LANES))
        for j, k in enumerate(self.loop.common):
            self.common[j, :count] = np.asarray(self.early[k], dtype=float).reshape(-1)
        self.inputs = [_on_columns(grid.given[self.program.steps[k].data]) for k in self.loop.inputs]
        self._local = threading.local()

    def tiles(self, most: int | None = None) -> list[Tile]:
        """Return a division into tiles of moderate size, by default a few for each thread.

        With `most`, their number is at most about that, and each has all times.
        """
        times, rows, columns = self.grid.shape
        if times == 1:
            return list(tiles(self.grid.shape, _LONG))
        # large tiles, because all threads share the interpreter
        wanted = most or _TILES * workers()
        members = share_of(self.plan, self.grid, _SHARE, rows * columns // wanted, 1 if most else workers())
        members = max(INNER, min(-(-members // LANES) * LANES, _LONG))
        parts = -(-rows * columns // members)
        if most or parts >= wanted:
            return list(tiles(self.grid.shape, members))
        least = _SHARE // (min(members, rows * columns) * (len(self.plan.full) + 1))
        long = max(times // (wanted // parts), least) // CHUNK * CHUNK
        return list(tiles(self.grid.shape, members, max(long, CHUNK)))

    def __call__(self, tile: Tile, outputs: dict[str, np.ndarray]) -> bool:
        """Write the outputs in a tile into arrays of its shape, by name; return whether all of them are finite."""
        direct = {name: v if v.strides[2] == 8 else np.empty(v.shape) for name, v in outputs.items()}
        finite = self._run(self.machine, tile, list(direct.values()), _past_the_cache(direct.values()))
        for name, v in outputs.items():
            if direct[name] is not v:
                np.copyto(v, direct[name])
        return finite

    def sums(self, tile: Tile) -> dict[str, np.ndarray]:
        """Return the sums of the outputs over the members of a tile, for each time, by name."""
        times, rows, columns = tile.shape
        parts = -(-columns // self.loop.wide)
        found = {name: np.zeros((times, rows, parts * LANES)) for name in self.program.outputs}
        self._run(self._machine(totals=True), tile, list(found.values()), (0, False))
        return {name: v.reshape(times, -1).sum(axis=-1) for name, v in found.items()}

    def _machine(self, **how: bool) -> Machine:
        """Return the machine code of the program, or of its sums over members, from the cache or newly compiled."""
        key = (self.program, tuple(self.plan.axes[k] for k in self.program.inputs.values()), *how.items())
        with _making:
            if key not in _made:
                _made[key] = Machine(self.plan, **how)
        return _made[key]

    def _run(self, machine: Machine, tile: Tile, outputs: list[np.ndarray], where: tuple[int, bool]) -> bool:
        given = [tile.of(v) for v in self.inputs]
        scratch = self._scratch(machine.loop.scratch)
        judged = scratch[machine.loop.scratch - LANES : machine.loop.scratch]
        judged[:] = 0
        inputs, outs = (np.array([v.ctypes.data for v in each], dtype=np.uintp) for each in (given, outputs))
        steps = np.array([v.strides[1] if v.shape[1] > 1 else 0 for v in given], dtype=np.int64)
        strides = np.array([v.strides[:2] for v in outputs], dtype=np.int64)
        sizes = np.array([*tile.shape, self.common.strides[0], *where], dtype=np.int64)
        common = self.common[:, tile.t0 :]
        machine.call(*(v.ctypes.data for v in (sizes, inputs, steps, common, outs, strides, scratch)))
        return bool(np.isfinite(judged).all())

    def _scratch(self, size: int) -> np.ndarray:
        """Return at least so many aligned doubles of this thread; loops of values and of sums differ in their needs."""
        if not hasattr(self._local, "scratch") or len(self._local.scratch) < size:
            space = np.empty(size + 8)
            self._local.scratch = space[(-space.ctypes.data % 64) // 8 :]
        return self._local.scratch


def _on_columns(v: np.ndarray) -> np.ndarray:
    return v if v.shape[2] == 1 or v.strides[2] == 8 else np.ascontiguousarray(v)


def _past_the_cache(outputs: Iterable[np.ndarray]) -> tuple[int, bool]:
    """Return the column, 0 or before, at which all outputs are aligned, and whether to use non-temporal stores.

    Non-temporal stores avoid reading memory before it is overwritten; they are used for arrays larger than the cache.
    """
    offsets = {v.ctypes.data % _LINE for v in outputs}
    even = len(offsets) == 1 and not any(v.strides[k] % _LINE for v in outputs for k in (0, 1) if v.shape[k] > 1)
    if not even or any(v.shape[0] * v.strides[0] < _LARGE for v in outputs):
        return 0, False
    return -(offsets.pop() // 8), True
