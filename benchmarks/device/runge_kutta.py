"""A flow integrated by the classical Runge-Kutta method in one kernel, with parameters and state in registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linsolve.core.query import Problem
from linsolve.engines.cuda import THREADS, column
from linsolve.engines.cuda_source import prelude
from linsolve.engines.cuda_statements import statements
from linsolve.engines.plan import COLUMN, plan_for
from linsolve.engines.program import traced

__all__ = ["runge_kutta", "source"]

_KERNEL = """
__device__ __forceinline__ void velocity(const double* p, const double* z, double* slope) {{
{body}
}}

extern "C" __global__ void integrate(
    const whole count, const int times, const int steps, const double* __restrict__ clock, {inputs} {outputs}) {{
  const whole j = blockIdx.x * (whole)blockDim.x + threadIdx.x;
  if (j >= count) return;
  const double p[] = {{{parameters}}}, reach[4] = {{0.0, 0.5, 0.5, 1.0}}, weight[4] = {{1.0, 2.0, 2.0, 1.0}};
  double z[] = {{{state}}};
  for (int k = 0; k < times; ++k) {{
    const double h = (clock[k] - (k ? clock[k - 1] : 0.0)) / steps;
    for (int n = 0; n < steps; ++n) {{
      double y[{size}], slope[{size}] = {{}}, sum[{size}] = {{}};
#pragma unroll
      for (int stage = 0; stage < 4; ++stage) {{
        for (int i = 0; i < {size}; ++i) y[i] = z[i] + h * reach[stage] * slope[i];
        velocity(p, y, slope);
        for (int i = 0; i < {size}; ++i) sum[i] += weight[stage] * slope[i];
      }}
      for (int i = 0; i < {size}; ++i) z[i] += h / 6.0 * sum[i];
    }}
{stores}
  }}
}}
"""


def source(flow: type) -> str:
    """Return the source of the kernel for a flow of single numbers, from its recorded velocity."""
    xp, own, z = traced(flow)
    program = xp.program
    for name, value in own.velocity(xp, z)._asdict().items():
        program.outputs[name] = xp.asarray(value).index
    starts = [name for name in program.inputs if name.startswith("start.")]
    parameters = [name for name in program.inputs if name not in starts]
    loads = {name: f"p[{i}]" for i, name in enumerate(parameters)} | {name: f"z[{i}]" for i, name in enumerate(starts)}
    body = statements(plan_for(program, tuple((name, COLUMN) for name in program.inputs)), loads)
    places = {name: f"in{k}[j]" for k, name in enumerate(program.inputs)}
    lines = [*body.member, *(f"slope[{i}] = {value};" for i, value in enumerate(body.outputs))]
    return prelude() + _KERNEL.format(
        body="\n".join(f"  {line}" for line in lines),
        inputs=" ".join(f"const double* __restrict__ in{k}," for k in range(len(program.inputs))),
        outputs=", ".join(f"double* __restrict__ out{i}" for i in range(len(starts))),
        parameters=", ".join(places[name] for name in parameters),
        state=", ".join(places[name] for name in starts),
        size=len(starts),
        stores="\n".join(f"    out{i}[k * count + j] = z[{i}];" for i in range(len(starts))),
    )


def runge_kutta(xp: Any, problem: Problem, steps: int) -> Callable[[], dict[str, Any]]:
    """Return a call that integrates a query of one batch axis, with equal steps between ascending times."""
    kernel = xp.RawKernel(source(type(problem.flow)), "integrate", options=("--std=c++17",))
    (count,), clock = problem.batch, xp.asarray(problem.t)
    values = (*problem.flow.parameters().values(), *problem.z0)
    inputs = [column(xp, value, problem.batch) for value in values]
    out = {name: xp.empty((clock.size, count)) for name in problem.z0._fields}
    sizes = np.int64(count), np.int32(clock.size), np.int32(steps)

    def call() -> dict[str, Any]:
        kernel((-(-count // THREADS), 1), (THREADS,), (*sizes, clock, *inputs, *out.values()))
        return out

    return call
