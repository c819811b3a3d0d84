"""CUDA C++ of a program: one kernel writes every member of a batch at all times, one reduces them without writing.

The source depends on CUDA only through its index variables, so that a host compiler compiles it, too. See the device
table in ``benchmarks/RESULTS.md``.
"""

from __future__ import annotations

from linsolve.engines.cuda_statements import exponentials, statements
from linsolve.engines.plan import COLUMN, Plan

__all__ = ["OPTIONS", "THREADS", "TIMES", "evaluation", "prelude", "reduction"]

OPTIONS = ("--std=c++17", "--fmad=false")  # no contraction: rounding as in NumPy
TIMES = 8  # times held in registers by a thread of a reduction
THREADS, BLOCKS = 128, 4  # threads of a block, and blocks that share a multiprocessor: 128 registers a thread

_PRELUDE = r"""
#define INF __longlong_as_double(0x7ff0000000000000LL)
#define NAN_ __longlong_as_double(0x7ff8000000000000LL)
typedef long long whole;

__device__ __forceinline__ double sign_of(double x) { return x != x ? x : (double)((x > 0.0) - (x < 0.0)); }
__device__ __forceinline__ double smaller(double x, double y) { return x < y || x != x ? x : y; }
__device__ __forceinline__ double larger(double x, double y) { return x > y || x != x ? x : y; }
__device__ __forceinline__ double modulo(double x, double y) {  // of the sign of y, as in Python
  const double r = fmod(x, y);
  return r == 0.0 ? copysign(0.0, y) : (r < 0.0) != (y < 0.0) ? r + y : r;
}
"""

_EVALUATION = """
extern "C" __global__ __launch_bounds__({THREADS}, {BLOCKS}) void follow(
    const whole count, const int times, const double* __restrict__ same, const double* __restrict__ row,
    {inputs}
    {outputs}, int* __restrict__ lost) {{
  const whole j = blockIdx.x * (whole)blockDim.x + threadIdx.x;
  if (j >= count) return;
{member}
  for (int k = blockIdx.y; k < times; k += gridDim.y) {{
{time}
  }}
}}
"""

_MOMENTS = """
struct Moments {  // of the members so far, by Welford's recurrence
  double mean, spread, low, high;
  __device__ __forceinline__ void add(double x, double share) {
    const double away = x - mean;
    mean += away * share;
    spread += away * (x - mean);
    low = smaller(x, low);
    high = larger(x, high);
  }
};

// as numpy.histogram: a bin has its lower edge, the last one both; 0 is below the edges, `count` above
__device__ __forceinline__ int bin(double x, const double* edges, int count) {
  int a = 0, b = count;
  while (a < b) { const int m = (a + b) / 2; if (x < edges[m]) b = m; else a = m + 1; }
  return a - (x == edges[count - 1]);
}
"""

_REDUCTION = """
extern "C" __global__ void reduce(
    const whole first, const whole count, const whole lanes, const int times,
    const double* __restrict__ same, const double* __restrict__ row,
    {inputs}
    Moments* __restrict__ kept, const int edges, const double* __restrict__ edge, unsigned long long* counts) {{
  const whole lane = blockIdx.x * (whole)blockDim.x + threadIdx.x;
  const int from = blockIdx.y * {TIMES}, here = times - from < {TIMES} ? times - from : {TIMES};
  Moments sums[{outputs}][{TIMES}];
#pragma unroll
  for (int q = 0; q < {TIMES}; ++q)
    for (int o = 0; o < {outputs}; ++o)
      if (q < here) sums[o][q] = kept[(o * (whole)times + from + q) * lanes + lane];
  double number = (double)(first / lanes);
  for (whole j = lane; j < count; j += lanes) {{
    number += 1.0;
    const double share = 1.0 / number;
{member}
#pragma unroll
    for (int q = 0; q < {TIMES}; ++q) if (q < here) {{
      const int k = from + q;
{time}
    }}
  }}
#pragma unroll
  for (int q = 0; q < {TIMES}; ++q)
    for (int o = 0; o < {outputs}; ++o)
      if (q < here) kept[(o * (whole)times + from + q) * lanes + lane] = sums[o][q];
}}
"""

_COUNT = "if (edges) atomicAdd(&counts[({o} * (whole)times + k) * (edges + 1) + bin({x}, edge, edges)], 1ULL);"


def prelude() -> str:
    """Return the functions that the statements of a program call."""
    return _PRELUDE + exponentials()


def _inputs(plan: Plan) -> tuple[str, dict[str, str]]:
    """Return the declarations of the inputs that vary between members, and the expression that loads each of them."""
    wide = [name for name, axes in plan.inputs if axes & COLUMN]
    declared = " ".join(f"const double* __restrict__ in{i}," for i in range(len(wide)))
    return declared, {name: f"in{i}[j]" for i, name in enumerate(wide)}


def _indented(lines: list[str], depth: int) -> str:
    return "\n".join("  " * depth + line for line in lines)


def evaluation(plan: Plan) -> str:
    """Return the source of a kernel that writes a program's outputs for all members and times.

    Parameters
    ----------
    plan : Plan
        Plan of a program of `program_of`; inputs vary along `TIME` (the time), `COLUMN` (members) or not at all.

    Returns
    -------
    str
        ``follow(count, times, same, row, inputs..., outputs..., lost)``. ``same`` and ``row`` have the values of the
        steps of `early`, those in ``row`` at each time. Inputs have one number per member. Outputs have shape
        (times, count). The second grid axis divides the times. ``lost`` is set to 1 if an output is not finite.

    Examples
    --------
    >>> from linsolve import BalancedMode
    >>> from linsolve.engines.plan import COLUMN, TIME, plan_for
    >>> from linsolve.engines.program import program_of
    >>> plan = plan_for(program_of(BalancedMode), (("s", COLUMN), ("tau", 0), ("start.a", COLUMN), ("t", TIME)))
    >>> evaluation(plan).count("exponentials(v")
    1
    """
    inputs, loads = _inputs(plan)
    made = statements(plan, loads)
    stores = [f"out{o}[k * count + j] = {x};" for o, x in enumerate(made.outputs)]
    stores.append(f"if (!({' && '.join(f'fabs({x}) < INF' for x in made.outputs)})) *lost = 1;")
    outputs = ", ".join(f"double* __restrict__ out{o}" for o in range(len(made.outputs)))
    member, time = _indented(made.member, 1), _indented([*made.time, *stores], 2)
    bounds = {"THREADS": THREADS, "BLOCKS": BLOCKS}
    kernel = _EVALUATION.format(inputs=inputs, outputs=outputs, member=member, time=time, **bounds)
    return prelude() + kernel


def reduction(plan: Plan) -> str:
    """Return the source of a kernel that reduces a program's outputs to moments, extremes and counts in bins.

    Thread ``l`` of ``lanes`` adds the members ``l, l + lanes, ...`` of the launch, in order, to its results of earlier
    launches, whose numbers of members were multiples of `lanes`. The result therefore does not depend on the division
    of the members into launches. Counts are integers, independent of the order.

    Parameters
    ----------
    plan : Plan
        Plan of a program of `program_of`; inputs vary along `TIME` (the time), `COLUMN` (members) or not at all.

    Returns
    -------
    str
        ``reduce(first, count, lanes, times, same, row, inputs..., kept, edges, edge, counts)``. ``kept`` is read and
        written, of shape (outputs, times, lanes, 4): mean, sum of squared deviations, minimum, maximum. ``edge`` holds
        `edges` ascending numbers (0: no histogram), ``counts`` unsigned 64-bit integers of shape (outputs, times,
        edges + 1). Each index of the second grid axis covers `TIMES` times.
    """
    inputs, loads = _inputs(plan)
    made = statements(plan, loads)
    adds = [f"sums[{o}][q].add({x}, share);" for o, x in enumerate(made.outputs)]
    counts = [_COUNT.format(o=o, x=x) for o, x in enumerate(made.outputs)]
    member, time = _indented(made.member, 2), _indented([*made.time, *adds, *counts], 3)
    kernel = _REDUCTION.format(inputs=inputs, outputs=len(made.outputs), TIMES=TIMES, member=member, time=time)
    return prelude() + _MOMENTS + kernel
