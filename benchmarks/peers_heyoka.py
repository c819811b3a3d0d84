"""heyoka: Taylor series compiled to vector instructions, driven batch by batch on all cores."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import heyoka as hy
import numpy as np

from benchmarks import floors, workloads
from benchmarks.timing import Way


class Ensemble:
    """Modes of one depth, one integrator per thread, with one member per vector lane."""

    def __init__(self, problem: workloads.Modes, tolerance: float) -> None:
        self.problem, self.size = problem, hy.recommended_simd_size()
        a = hy.make_vars("a")
        gain = 1.0 if np.isinf(problem.depth) else problem.depth
        grown = a if problem.depth == 2 else a ** (2 - 2 / problem.depth)
        system = [(a, gain * grown * (hy.par[0] - a))]
        shape = (1, self.size)
        made = hy.taylor_adaptive_batch(system, np.ones(shape), pars=np.ones(shape), tol=tolerance)
        self.integrators = [made] + [made.__copy__() for _ in range(floors.processors() - 1)]
        self.pool = ThreadPoolExecutor(len(self.integrators))

    def __call__(self) -> np.ndarray:
        members, size = len(self.problem.s), self.size
        out = np.empty((len(self.problem.t), members))
        grid = np.ascontiguousarray(np.repeat(self.problem.t[:, None], size, axis=1))
        count = len(self.integrators)

        def work(k: int) -> None:
            ta = self.integrators[k]
            for low in range(k * size, members, count * size):
                part = slice(low, min(low + size, members))
                kept = part.stop - part.start
                ta.set_time(0.0)
                ta.state[0], ta.pars[0] = 1.0, 1.0
                ta.state[0, :kept], ta.pars[0, :kept] = self.problem.a0[part], self.problem.s[part]
                out[:, part] = ta.propagate_grid(grid)[-1][:, 0, :kept]

        list(self.pool.map(work, range(count)))
        return out


def ways(small: bool) -> list[Way]:
    """Return the computations."""
    members, times = (16, 8) if small else (4096, 64)
    full, found = workloads.FULL, []
    remark = f"{members} members, {hy.recommended_simd_size()} at once on each thread, scaled"
    balanced = workloads.modes(members, times)
    wrong = partial(workloads.error_of_modes, balanced)
    for tolerance in (1e-15,) if small else (1e-6, 1e-10, 1e-15):
        call = Ensemble(balanced, tolerance)
        found.append(Way("W2", f"heyoka, {tolerance:.0e}", call, full["W2"] / members, wrong, remark))
    for depth in workloads.DEPTHS[:1] if small else workloads.DEPTHS:
        deep = workloads.deep_modes(depth, members, times)
        call, wrong = Ensemble(deep, 1e-15), partial(workloads.error_of_modes, deep)
        found.append(Way(f"W4, L = {depth:g}", "heyoka, 1e-15", call, full["W4"] / members, wrong, remark))
    return found
