"""Least time of a value of W4 by counting: instructions of each branch times their measured cost on this processor.

The command is ``python -m benchmarks.throughput``; it needs the extra ``[fast]``. The counts are those of the IR of the
compiled engine, without loads, stores, branches and moves; the costs are those of independent instructions on vectors
of eight numbers in one thread.
"""

from __future__ import annotations

import ctypes
import time

import numpy as np

from benchmarks import workloads
from benchmarks.markdown import table
from linsolve.core.query import pose
from linsolve.engines.branches import stages
from linsolve.engines.compiled import machine_code
from linsolve.engines.evaluate import prepared
from linsolve.engines.instructions import Instructions
from linsolve.engines.loop import WORTH
from linsolve.engines.plan import Plan
from linsolve.engines.vectors import Vectors

__all__ = ["bounds", "cost"]

LANES, CHAINS, REPEATS = 8, 12, 400_000
FREE = ("bitcast", "extractelement", "insertelement", "shufflevector", "load", "getelementptr")
SHOWN = {"fma": "a fused multiply-add", "div": "a division", "sqrt": "a square root"}


def cost(kind: str) -> float:
    """Return nanoseconds per number of independent instructions: "fma", "div" or "sqrt"."""

    def write(wide: bool) -> str:
        v = Vectors(LANES, wide)
        of = {"fma": lambda a: v.fma(a, "%c", "%c"), "div": lambda a: v.op("div", a, "%c")}
        v.lines += [f"define void @f(ptr %p, i64 %n) {{\nentry:\n  %c = load {v.real}, ptr %p\n  br label %loop\nloop:"]
        v.lines += ["  %k = phi i64 [ 0, %entry ], [ %more, %loop ]"]
        mark = len(v.lines)
        found = [of.get(kind, lambda a: v.unary("sqrt", a))(f"%x{j}") for j in range(CHAINS)]
        v.lines[mark:mark] = [f"  %x{j} = phi {v.real} [ %c, %entry ], [ {a}, %loop ]" for j, a in enumerate(found)]
        v.lines += ["  %more = add i64 %k, 1", "  %again = icmp slt i64 %more, %n"]
        v.lines += ["  br i1 %again, label %loop, label %end", "end:"]
        for j, a in enumerate(found):
            place = v.emit(f"getelementptr i8, ptr %p, i64 {8 * LANES * j}")
            v.lines.append(f"  store {v.real} {a}, ptr {place}, align 8")
        return "\n".join([*v.lines, "  ret void\n}", *v.declared.values(), ""])

    _engine, address, _, _ = machine_code(write, "f")
    space, call = np.ones(LANES * CHAINS + LANES), ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(address)
    start = space.ctypes.data + -space.ctypes.data % (8 * LANES)
    spent = []
    for _ in range(5):
        space[:] = 1.0
        begin = time.process_time()
        call(start, REPEATS)
        spent.append(time.process_time() - begin)
    return 1e9 * min(spent) / (REPEATS * CHAINS * LANES)


def counted(plan: Plan, steps: list[int]) -> dict[str, int]:
    """Return the numbers of divisions, of square roots and of other instructions of some steps."""
    v = Vectors(LANES, True, True)
    writer = Instructions(plan.program, v)
    writer._begin(lambda k: f"%step{k}")
    writer._steps(steps)
    found = {"fma": 0, "div": 0, "sqrt": 0}
    for line in v.lines:
        text = line.split(" = ", 1)[1]
        if not text.startswith(FREE):
            found["div" if text.startswith("fdiv") else "sqrt" if ".sqrt." in text else "fma"] += 1
    return found


def bounds(depth: float, costs: dict[str, float]) -> list[tuple[str, ...]]:
    """Return the cells of each branch of W4 at one depth: instructions of each kind, and nanoseconds per number."""
    problem = workloads.deep_modes(depth)
    flow = problem.flow
    plan = prepared(pose(flow, problem.t, flow.State(problem.a0)), "compiled", None).plan
    found: dict[str, dict[str, int]] = {"member": counted(plan, plan.member)}
    for stage in stages(plan.program, plan.full, WORTH):
        long = "head" if len(stage.steps) > 100 else "tail"
        own = found.setdefault(long if stage.when else "every time", dict.fromkeys(costs, 0))
        for kind, count in counted(plan, stage.steps).items():
            own[kind] += count
    rows = []
    for branch, counts in found.items():
        least = sum(costs[kind] * count for kind, count in counts.items())
        rows.append((f"{depth:g}", branch, *(str(counts[kind]) for kind in costs), f"{least:.2g} ns"))
    return rows


if __name__ == "__main__":
    measured = {kind: cost(kind) for kind in SHOWN}
    print("; ".join(f"{name}: {measured[kind]:.3f} ns per number" for kind, name in SHOWN.items()))
    head = ("depth", "branch", "sums, products and others", "divisions", "square roots", "least time per number")
    print(table(head, [row for depth in workloads.DEPTHS for row in bounds(depth, measured)]))
