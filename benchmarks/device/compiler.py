"""Registers, local memory and memory accesses of the printed kernels, from the report of NVIDIA's compiler."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

import linsolve as ls
from benchmarks.markdown import table
from linsolve.core.query import pose
from linsolve.engines.cuda import prepared
from linsolve.engines.cuda_source import OPTIONS, evaluation, reduction
from linsolve.engines.plan import plan_for

__all__ = ["ARCHITECTURE", "KERNELS", "Resources", "kernels", "resources", "source_of"]

ARCHITECTURE = "sm_90"  # H100
NETWORK = ls.TwoLayerOrder(y=1.0), ls.TwoLayerOrder.State(*np.array([[0.3, 0.2], [0.2, 0.3], [0.1, -0.1]]))
# flow and start, typical of an ensemble; observables; kernel
KERNELS = {
    "W1, BalancedMode, a": (ls.BalancedMode(s=[0.5, 3.0]), np.array([1e-4, 1e-2]), ("a",), evaluation),
    "the same, reduced": (ls.BalancedMode(s=[0.5, 3.0]), np.array([1e-4, 1e-2]), ("a",), reduction),
    "W3, TwoLayerOrder, loss, alignment, ntk": (*NETWORK, ("loss", "alignment", "ntk"), evaluation),
    "the loss, reduced": (*NETWORK, ("loss",), reduction),
    "W4, DeepMode of depth 3, a": (ls.DeepMode(s=[0.5, 3.0], depth=3.0), np.array([0.02, 0.2]), ("a",), evaluation),
}


class Resources(NamedTuple):
    """Registers of a thread, bytes of its stack and of spilled registers, and places that access global memory."""

    registers: int
    stack: int
    spilled: int
    loads: int
    stores: int
    fused: int


def resources(source: str, options: tuple[str, ...] = OPTIONS) -> Resources:
    """Return the resources of the kernel of a source, compiled for `ARCHITECTURE`; no device is needed.

    Raises
    ------
    FileNotFoundError
        If there is no compiler of CUDA.
    """
    if (compiler := shutil.which("nvcc")) is None:
        raise FileNotFoundError("device: nvcc = none is on the path (compiler of CUDA); install the CUDA toolkit")
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "kernel.cu"
        text.write_text(source)
        command = [compiler, "-cubin", "-keep", f"-arch={ARCHITECTURE}", *options, "-Xptxas", "-v", text.name]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        ptx = (Path(folder) / "kernel.ptx").read_text()
    entry = done.stderr.split("Compiling entry function")[1]
    stack, stores, loads = (int(v) for v in re.search(r"(\d+) bytes stack.*?(\d+) bytes.*?(\d+) bytes", entry).groups())
    registers = int(re.search(r"Used (\d+) registers", entry)[1])
    places = [len(re.findall(name, ptx)) for name in (r"\bld\.global", r"\bst\.global", r"\bfma\.rn\.f64")]
    return Resources(registers, stack, stores + loads, *places)


def source_of(name: str) -> tuple[str, int]:
    """Return the source of one of `KERNELS` at 64 times after the start, and the number of its steps."""
    flow, start, names, text = KERNELS[name]
    program, inputs, *_ = prepared(np, pose(flow, np.linspace(0.1, 10, 64), start), names)
    return text(plan_for(program, inputs)), len(program.used())


def kernels() -> str:
    """Return the resources of the printed kernels, or the reason for having none."""
    head = ("kernel", "steps of the formula", "registers", "stack and spills", "loads and stores", "threads of 2048")
    rows = []
    for name in KERNELS:
        source, steps = source_of(name)
        try:
            found = resources(source)
        except FileNotFoundError as error:
            return f"Not measured: {error}"
        # a multiprocessor has 65536 registers, given to 256 threads at a time, 8 at a time to each
        threads = min(2048, 65536 // (256 * -(-found.registers // 8) * 8) * 256)
        memory = f"{found.stack} + {found.spilled} B"
        rows.append((name, str(steps), str(found.registers), memory, f"{found.loads} + {found.stores}", str(threads)))
    return table(head, rows)
