"""Least time of W1, W3 and W4 by counting: the instructions of the compiled loop, in their measured mix.

The counts are those of the IR, without loads, stores, branches and moves. Each mix is timed as independent instructions
on vectors of eight numbers in one thread: no order of them is faster. A branch counts with the share of
the numbers that need it, as if vectors had no other lanes. Writing the output, checks of the input and latency are left
out.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator

import numpy as np

from benchmarks import workloads
from linsolve.core.query import pose
from linsolve.engines.branches import stages
from linsolve.engines.compiled import machine_code
from linsolve.engines.evaluate import prepared
from linsolve.engines.instructions import Instructions
from linsolve.engines.loop import WORTH
from linsolve.engines.plan import Plan
from linsolve.engines.vectors import Vectors
from linsolve.systems.two_layer.order_sums import order_parameters

__all__ = ["HEAD", "rows"]

LANES, CHAINS, REPEATS = 8, 12, 40_000
FREE = ("bitcast", "extractelement", "insertelement", "shufflevector", "load", "getelementptr")
KINDS = "products", "sums and others", "divisions", "square roots"
HEAD = ("workload", "part", *KINDS, "least time of one", "how many, of a number", "least time of a number")
Counts = tuple[int, ...]


def least(counts: Counts) -> float:
    """Return nanoseconds per number of independent instructions of each kind of `KINDS`."""
    times = max(1, 200 // sum(counts))
    mix = sorted((j / (n * times), k) for k, n in enumerate(counts) for j in range(n * times))

    def write(wide: bool) -> str:
        v = Vectors(LANES, wide)
        of = [
            lambda a: v.fma(a, "%c", "%c"),
            lambda a: v.op("add", a, "%c"),
            lambda a: v.op("div", a, "%c"),
            lambda a: v.unary("sqrt", a),
        ]
        v.lines += [f"define void @f(ptr %p, i64 %n) {{\nentry:\n  %c = load {v.real}, ptr %p\n  br label %loop\nloop:"]
        v.lines += ["  %k = phi i64 [ 0, %entry ], [ %more, %loop ]"]
        mark, chains = len(v.lines), [f"%x{j}" for j in range(CHAINS)]
        for j, (_, kind) in enumerate(mix):
            chains[j % CHAINS] = of[kind](chains[j % CHAINS])
        v.lines[mark:mark] = [f"  %x{j} = phi {v.real} [ %c, %entry ], [ {a}, %loop ]" for j, a in enumerate(chains)]
        v.lines += ["  %more = add i64 %k, 1", "  %again = icmp slt i64 %more, %n"]
        v.lines += ["  br i1 %again, label %loop, label %end", "end:"]
        for j, a in enumerate(chains):
            place = v.emit(f"getelementptr i8, ptr %p, i64 {8 * LANES * j}")
            v.lines.append(f"  store {v.real} {a}, ptr {place}, align 8")
        return "\n".join([*v.lines, "  ret void\n}", *v.declared.values(), ""])

    _engine, address, _, _ = machine_code(write, "f")
    space, call = np.ones(LANES * CHAINS + LANES), ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(address)
    start = space.ctypes.data + -space.ctypes.data % (8 * LANES)
    spent = []
    for _ in range(7):
        space[:] = 0.5
        begin = time.process_time()
        call(start, REPEATS)
        spent.append(time.process_time() - begin)
    return 1e9 * min(spent) / (REPEATS * LANES * times)


def counted(plan: Plan, steps: list[int]) -> Counts:
    """Return the numbers of instructions of some steps, by kind."""
    v = Vectors(LANES, True, True)
    writer = Instructions(plan.program, v)
    writer._begin(lambda k: f"%step{k}")
    writer._steps(steps)
    found = [0, 0, 0, 0]
    for line in v.lines:
        text = line.split(" = ", 1)[1]
        if not text.startswith(FREE):
            products = text.startswith("fmul") or ".fma." in text
            found[2 if text.startswith("fdiv") else 3 if ".sqrt." in text else 0 if products else 1] += 1
    return tuple(found)


def parts_of(plan: Plan) -> dict[str, Counts]:
    """Return the counts of the steps of members, of all numbers, and of the short and the long branches."""
    found, all_stages = {"member": counted(plan, plan.member)}, stages(plan.program, plan.full, WORTH)
    longest = max(len(stage.steps) for stage in all_stages)
    for stage in all_stages:
        name = "every time" if not stage.when else "head" if len(stage.steps) == longest else "tail"
        own = found.get(name, (0,) * len(KINDS))
        found[name] = tuple(a + b for a, b in zip(own, counted(plan, stage.steps), strict=True))
    return found


def shares(problem: workloads.Modes, a: np.ndarray) -> dict[str, float]:
    """Return the shares of the numbers of deep modes in the head, ``a < 3 s/5``, and in the tail until ``a = s``."""
    head = a < 3 * problem.s / 5
    return {"head": float(head.mean()), "tail": float((~head & (a != problem.s)).mean())}


def programs(members: int | None = None) -> Iterator[tuple[str, Plan, dict[str, float]]]:
    """Yield the workloads, of `members` if given, with their plans and the shares of their branches."""
    for depth in (2.0, *workloads.DEPTHS):
        given = workloads.modes() if depth == 2 else workloads.deep_modes(depth)
        problem = given.few(members) if members else given
        posed = pose(problem.flow, problem.t, problem.flow.State(problem.a0))
        plan = prepared(posed, "compiled", None).plan
        if depth == 2:
            yield "W1", plan, {}
        else:
            yield f"W4, L = {depth:g}", plan, shares(problem, problem.flow(problem.t, problem.a0).state.a)
    nets = workloads.networks()
    flow, z0 = order_parameters(nets.flow, nets.flow.State(u=nets.u, w=nets.w[..., None]))
    yield "W3", prepared(pose(flow, nets.t, z0), "compiled", nets.names).plan, {}


def rows(members: int | None = None) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each part of each workload, and of their sum."""
    for name, plan, taken in programs(members):
        whole = 0.0
        for part, counts in parts_of(plan).items():
            one, share = least(counts), 1 / workloads.TIMES if part == "member" else taken.get(part, 1.0)
            whole += share * one
            yield name, part, *map(str, counts), f"{one:.2g} ns", f"{share:.2g}", f"{share * one:.2g} ns"
        yield name, "sum", "", "", "", "", "", "", f"{whole:.2g} ns"
