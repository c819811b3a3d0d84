"""CUDA C++ of a program: one kernel writes every member of a batch at all times, one reduces them without writing.

Each line of a kernel is a step of the program, in double precision and in the order of the formula. Steps that do not
depend on the time are computed once per member. The source depends on CUDA only through its index variables, so that a
host compiler compiles it, too. See the device table in ``benchmarks/RESULTS.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from linsolve.engines.program import BOOLEAN, Program, Step

__all__ = ["OPTIONS", "PRELUDE", "TIMES", "Statements", "evaluation", "reduction", "statements"]

OPTIONS = ("--std=c++17", "--fmad=false")  # no contraction: rounding as in NumPy
TIMES = 8  # times held in registers by a thread of a reduction

PRELUDE = r"""
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
extern "C" __global__ void follow(
    const whole count, const int times, const double* __restrict__ clock, {inputs}
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
    const whole first, const whole count, const whole lanes, const int times, const double* __restrict__ clock,
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

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==",
    "ne": "!=", "and": "&", "or": "|", "xor": "!=",
}  # fmt: skip
_LIBRARY = (
    "sqrt", "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "sinh", "cosh", "tanh", "hypot", "atan2"
)  # fmt: skip
_CALL = {name: name for name in _LIBRARY} | {
    "abs": "fabs", "sign": "sign_of", "minimum": "smaller", "maximum": "larger", "mod": "modulo", "pow": "pow",
}  # fmt: skip
_FORM = {
    "neg": "-{}", "not": "!{}", "where": "{} ? {} : {}", "astype": "(double){}",
    "isnan": "{0} != {0}", "isinf": "fabs({}) == INF", "isfinite": "fabs({}) < INF",
}  # fmt: skip


class Statements(NamedTuple):
    """Statements of a program: those that do not depend on the time, the others, and the name of each output."""

    member: list[str]
    time: list[str]
    outputs: list[str]


def statements(program: Program, loads: Mapping[str, str]) -> Statements:
    """Return a program in C++; `loads` has an expression for each input."""
    steps, timed, found = program.steps, program.depends({"t"}), Statements([], [], [])
    for k in program.used():
        if steps[k].op != "constant":
            kind = "bool" if steps[k].kind == BOOLEAN else "double"
            value = loads[steps[k].data] if steps[k].op == "input" else _expression(steps[k], steps)
            found[timed[k]].append(f"const {kind} {_name(k, steps)} = {value};")
    found.outputs.extend(_name(k, steps) for k in program.outputs.values())
    return found


def _name(k: int, steps: list[Step]) -> str:
    return _literal(steps[k].data) if steps[k].op == "constant" else f"v{k}"


def _literal(value: Any) -> str:
    """Return an exact C++ literal of a constant."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value != value:
        return "NAN_"
    if value in (float("inf"), float("-inf")):
        return "INF" if value > 0 else "(-INF)"
    text = repr(value)
    return f"({text})" if text.startswith("-") else text


def _expression(step: Step, steps: list[Step]) -> str:
    args = [_name(k, steps) for k in step.args]
    if step.op == "pow" and steps[step.args[1]].op == "constant" and steps[step.args[1]].data == 2:
        return f"{args[0]} * {args[0]}"  # as in NumPy
    if step.op in _INFIX:
        return f"{args[0]} {_INFIX[step.op]} {args[1]}"
    if step.op in _CALL:
        return f"{_CALL[step.op]}({', '.join(args)})"
    return _FORM[step.op].format(*args)


def _inputs(program: Program) -> tuple[str, dict[str, str]]:
    """Return the declarations of the inputs except the time, and the expression that loads each input."""
    declared, loads = "", {"t": "clock[k]"}
    for k, name in enumerate(name for name in program.inputs if name != "t"):
        declared += f"const double* __restrict__ in{k}, const int step{k}, "
        loads[name] = f"in{k}[j * step{k}]"
    return declared, loads


def _indented(lines: list[str], depth: int) -> str:
    return "\n".join("  " * depth + line for line in lines)


def evaluation(program: Program) -> str:
    """Return the source of a kernel that writes a program's outputs for all members and times.

    Parameters
    ----------
    program : Program
        Result of `program_of`.

    Returns
    -------
    str
        ``follow(count, times, clock, (input, step)..., outputs..., lost)``. An input of step 1 has one number per
        member; of step 0, one for all. Outputs have shape (times, count). The second grid axis divides the times.
        ``lost`` is set to 1 if an output is not finite.

    Examples
    --------
    >>> from linsolve import BalancedMode
    >>> from linsolve.engines.program import program_of
    >>> evaluation(program_of(BalancedMode)).count("exp(")
    1
    """
    inputs, loads = _inputs(program)
    made = statements(program, loads)
    stores = [f"out{o}[k * count + j] = {x};" for o, x in enumerate(made.outputs)]
    stores.append(f"if (!({' && '.join(f'fabs({x}) < INF' for x in made.outputs)})) *lost = 1;")
    outputs = ", ".join(f"double* __restrict__ out{o}" for o in range(len(made.outputs)))
    member, time = _indented(made.member, 1), _indented([*made.time, *stores], 2)
    return PRELUDE + _EVALUATION.format(inputs=inputs, outputs=outputs, member=member, time=time)


def reduction(program: Program) -> str:
    """Return the source of a kernel that reduces a program's outputs to moments, extremes and counts in bins.

    Thread ``l`` of ``lanes`` adds the members ``l, l + lanes, ...`` of the launch, in order, to its results of earlier
    launches, whose numbers of members were multiples of `lanes`. The result therefore does not depend on the division
    of the members into launches. Counts are integers, independent of the order.

    Parameters
    ----------
    program : Program
        Result of `program_of`.

    Returns
    -------
    str
        ``reduce(first, count, lanes, times, clock, (input, step)..., kept, edges, edge, counts)``. ``kept`` is read and
        written, of shape (outputs, times, lanes, 4): mean, sum of squared deviations, minimum, maximum. ``edge`` holds
        `edges` ascending numbers (0: no histogram), ``counts`` unsigned 64-bit integers of shape (outputs, times,
        edges + 1). Each index of the second grid axis covers `TIMES` times.
    """
    inputs, loads = _inputs(program)
    made = statements(program, loads)
    adds = [f"sums[{o}][q].add({x}, share);" for o, x in enumerate(made.outputs)]
    counts = [_COUNT.format(o=o, x=x) for o, x in enumerate(made.outputs)]
    member, time = _indented(made.member, 2), _indented([*made.time, *adds, *counts], 3)
    kernel = _REDUCTION.format(inputs=inputs, outputs=len(made.outputs), TIMES=TIMES, member=member, time=time)
    return PRELUDE + _MOMENTS + kernel
