"""CUDA C++ of a program: kernels that evaluate, or reduce, every member of a batch at all times.

Each line of a kernel is a step of the program, in double precision and in the order of the formula. Steps that depend
only on scalars are computed once per thread, steps that depend on the member once per member, and the rest at every
time. The source depends on CUDA only through its index variables, so that a host compiler can also compile it. See the
device bench in ``benchmarks/RESULTS.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.arguments import unknown_name
from linsolve.engines.program import BOOLEAN, Program, Step

__all__ = ["GRAM", "KINDS", "OPTIONS", "TIMES", "evaluation", "gram", "reduction"]

KINDS = ("scalar", "member", "axis")
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

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==",
    "ne": "!=", "and": "&", "or": "|", "xor": "!=",
}  # fmt: skip
_CALL = {
    name: name
    for name in ("sqrt", "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "hypot", "atan2")
} | {"abs": "fabs", "sign": "sign_of", "minimum": "smaller", "maximum": "larger", "mod": "modulo", "pow": "pow"}
_FORM = {
    "neg": "-{}", "not": "!{}", "where": "{} ? {} : {}", "astype": "(double){}",
    "isnan": "{0} != {0}", "isinf": "fabs({}) == INF", "isfinite": "fabs({}) < INF",
}  # fmt: skip


class _Lines(NamedTuple):
    """Lines of a program by frequency: once per thread, once per member, at every time."""

    thread: list[str]
    member: list[str]
    time: list[str]


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


def _expression(step: Step, steps: list[Step], name: Callable[[int], str]) -> str:
    args = [name(k) for k in step.args]
    if step.op == "pow" and steps[step.args[1]].op == "constant" and steps[step.args[1]].data == 2:
        return f"{args[0]} * {args[0]}"  # as in NumPy
    if step.op in _INFIX:
        return f"{args[0]} {_INFIX[step.op]} {args[1]}"
    if step.op in _CALL:
        return f"{_CALL[step.op]}({', '.join(args)})"
    return _FORM[step.op].format(*args)


def _loads(program: Program, kinds: Mapping[str, str]) -> dict[int, str]:
    """Return the C++ expression that loads each input."""
    found = {}
    for k, (name, index) in enumerate(program.inputs.items()):
        if name == "t":
            found[index] = "clock[k]"
        elif kinds[name] == "axis":
            found[index] = f"in{k}[(first + j) / inner{k} % size{k}]"
        else:
            found[index] = f"in{k}[j]" if kinds[name] == "member" else f"in{k}"
    return found


def _lines(program: Program, kinds: Mapping[str, str]) -> _Lines:
    steps, loads = program.steps, _loads(program, kinds)
    timed = program.depends({"t"})
    own = program.depends({name for name in program.inputs if name != "t" and kinds[name] != "scalar"})

    def name(index: int) -> str:
        return _literal(steps[index].data) if steps[index].op == "constant" else f"v{index}"

    lines = _Lines([], [], [])
    for index in program.used():
        step = steps[index]
        if step.op == "constant":
            continue
        value = loads[index] if step.op == "input" else _expression(step, steps, name)
        kind = "bool" if step.kind == BOOLEAN else "double"
        lines[2 if timed[index] else 1 if own[index] else 0].append(f"const {kind} v{index} = {value};")
    return lines


def _result(program: Program, name: str) -> str:
    index = program.outputs[name]
    return _literal(program.steps[index].data) if program.steps[index].op == "constant" else f"v{index}"


def _arguments(program: Program, kinds: Mapping[str, str]) -> list[str]:
    """Return the declarations of all inputs except the time, used or not."""
    found = []
    for k, name in enumerate(program.inputs):
        if name == "t":
            continue
        if kinds.get(name) not in KINDS:
            raise ValueError(unknown_name("cuda", f"kind of {name}", str(kinds.get(name)), KINDS))
        found.append(f"const double in{k}" if kinds[name] == "scalar" else f"const double* __restrict__ in{k}")
        if kinds[name] == "axis":
            found.append(f"const whole inner{k}, const whole size{k}")
    return found


def _indented(lines: list[str], depth: int) -> str:
    return "".join("  " * depth + line + "\n" for line in lines)


def evaluation(program: Program, kinds: Mapping[str, str], name: str = "follow") -> str:
    """Return the source of a kernel that writes a program's outputs for members and times.

    Parameters
    ----------
    program : Program
        Result of `program_of`.
    kinds : dict of str
        Kind of every input except ``t``: ``"scalar"``, a single number; ``"member"``, one number per member of the
        launch; ``"axis"``, entry ``i // inner % size`` for member ``i`` of the whole batch, for an input that varies
        only along some adjacent axes of the batch.
    name : str
        Name of the kernel.

    Returns
    -------
    str
        ``name(first, count, pitch, times, chunk, clock, inputs..., outputs...)``: `count` members of the batch from
        `first`, with outputs of shape (times, pitch), whose first `count` columns are written. Each index of the second
        grid axis covers `chunk` times. An axis input is followed by its ``inner`` and ``size``.

    Examples
    --------
    >>> from linsolve import BalancedMode
    >>> from linsolve.engines.program import program_of
    >>> text = evaluation(program_of(BalancedMode), {"s": "member", "tau": "scalar", "start.a": "member"})
    >>> text.count("exp(")
    1
    """
    lines = _lines(program, kinds)
    outputs = [f"double* __restrict__ out{k}" for k in range(len(program.outputs))]
    heads = ["const whole first, const whole count, const whole pitch", "const int times, const int chunk"]
    arguments = [*heads, "const double* __restrict__ clock", *_arguments(program, kinds), *outputs]
    stores = [f"out{k}[k * pitch + j] = {_result(program, output)};" for k, output in enumerate(program.outputs)]
    return (
        f'{PRELUDE}\nextern "C" __global__ void {name}(\n    {", ".join(arguments)}) {{\n'
        "  const int from = (int)blockIdx.y * chunk, to = from + chunk < times ? from + chunk : times;\n"
        f"{_indented(lines.thread, 1)}"
        "  for (whole j = blockIdx.x * (whole)blockDim.x + threadIdx.x; j < count; j += (whole)gridDim.x * blockDim.x)"
        " {\n"
        f"{_indented(lines.member, 2)}    for (whole k = from; k < to; ++k) {{\n{_indented([*lines.time, *stores], 3)}"
        "    }\n  }\n}\n"
    )


_MOMENTS = """\
const double d{o} = {x} - mean{o}[q], e{o} = d{o} * share;
mean{o}[q] += e{o};
spread{o}[q] += d{o} * ({x} - mean{o}[q]);
low{o}[q] = smaller({x}, low{o}[q]);
high{o}[q] = larger({x}, high{o}[q]);"""

_BIN = """\
{{  // as numpy.histogram: a bin has its lower edge, the last one both; below and above are counted too
  int a = 0, b = {edges};
  while (a < b) {{ const int m = (a + b) / 2; if ({x} < edges[m]) b = m; else a = m + 1; }}
  atomicAdd(&counts[({o} * {times} + q) * {cells} + a - ({x} == edges[{edges} - 1])], 1u);
}}"""


def reduction(program: Program, kinds: Mapping[str, str], edges: int = 0, name: str = "reduce") -> str:
    """Return the source of a kernel that reduces a program's outputs to moments, extremes and counts in bins.

    Thread ``l`` of ``lanes`` adds the members ``l, l + lanes, ...`` of the launch, in order, to its results of earlier
    launches, whose numbers of members were multiples of `lanes`. The result therefore does not depend on the division
    of the members into launches. Counts are integers, independent of the order.

    Parameters
    ----------
    program, kinds
        As for `evaluation`.
    edges : int
        Number of edges of a histogram, at least 2; 0 for no histogram.

    Returns
    -------
    str
        ``name(first, count, lanes, times, clock, inputs..., mean, spread, low, high[, edges, histogram])``: arrays of
        shape (outputs, times, lanes), which are read and written, with `spread` the sum of squared deviations from the
        mean; ``edges`` ascending, ``histogram`` unsigned 64-bit, shape (outputs, times, edges + 1). Each index of the
        second grid axis covers `TIMES` times.
    """
    lines, outputs = _lines(program, kinds), list(program.outputs)
    heads = ["const whole first, const whole count, const whole lanes, const int times"]
    arguments = [*heads, "const double* __restrict__ clock", *_arguments(program, kinds)]
    arguments.append("double* __restrict__ mean, double* __restrict__ spread, double* __restrict__ low")
    arguments.append("double* __restrict__ high")
    if edges:
        arguments.append("const double* __restrict__ edges, unsigned long long* __restrict__ histogram")
    cells = len(outputs) * TIMES * (edges + 1)
    fields, declared, loaded, stored, each = ("mean", "spread", "low", "high"), [], [], [], []
    for o, output in enumerate(outputs):
        declared.append("double " + ", ".join(f"{field}{o}[{TIMES}]" for field in fields) + ";")
        place = f"({o} * (whole)times + k) * lanes + lane"
        loaded += [f"{field}{o}[q] = {field}[{place}];" for field in fields]
        stored += [f"{field}[{place}] = {field}{o}[q];" for field in fields]
        x = _result(program, output)
        each += _MOMENTS.format(o=o, x=x).split("\n")
        if edges:
            each += _BIN.format(o=o, x=x, edges=edges, times=TIMES, cells=edges + 1).split("\n")
    loop = f"for (int q = 0; q < {TIMES}; ++q) if (from + q < times) {{"
    zero = [
        f"__shared__ unsigned int counts[{cells}];",
        f"for (int c = threadIdx.x; c < {cells}; c += blockDim.x) counts[c] = 0u;",
        "__syncthreads();",
    ]
    flush = [
        "__syncthreads();",
        f"for (int c = threadIdx.x; c < {cells}; c += blockDim.x) {{",
        f"  const int o = c / {TIMES * (edges + 1)}, q = c / {edges + 1} % {TIMES}, b = c % {edges + 1};",
        f"  if (counts[c]) atomicAdd(&histogram[(o * (whole)times + from + q) * {edges + 1} + b],",
        "                           (unsigned long long)counts[c]);",
        "}",
    ]
    return (
        f'{PRELUDE}\nextern "C" __global__ void {name}(\n    {", ".join(arguments)}) {{\n'
        f"  const int from = (int)blockIdx.y * {TIMES};\n"
        "  const whole lane = blockIdx.x * (whole)blockDim.x + threadIdx.x;\n"
        f"{_indented([*(zero if edges else []), *lines.thread, *declared], 1)}"
        f"  if (lane < lanes) {{\n#pragma unroll\n    {loop}\n      const whole k = from + q;\n{_indented(loaded, 3)}"
        "    }\n"
        "    double number = (double)(first / lanes);\n"
        "    for (whole j = lane; j < count; j += lanes) {\n"
        "      number += 1.0;\n      const double share = 1.0 / number;\n"
        f"{_indented(lines.member, 3)}#pragma unroll\n      {loop}\n        const whole k = from + q;\n"
        f"{_indented([*lines.time, *each], 4)}      }}\n    }}\n"
        f"#pragma unroll\n    {loop}\n      const whole k = from + q;\n{_indented(stored, 3)}    }}\n  }}\n"
        f"{_indented(flush if edges else [], 1)}}}\n"
    )


# inner products of weights

GRAM_THREADS = 32  # threads per network

GRAM = r"""
typedef long long whole;

extern "C" __global__ void gram(
    const whole count, const whole width, const double b, const double a, const double* __restrict__ h,
    const double* __restrict__ u, double* __restrict__ out) {
  __shared__ double sums[96];
  double pp = 0.0, qq = 0.0, pq = 0.0;
  const whole row = (whole)blockIdx.x * width;
#pragma unroll 4
  for (whole i = threadIdx.x; i < width; i += blockDim.x) {
    const double x = b * h[row + i], y = a * u[row + i], p = x + y, q = x - y;
    pp += p * p;
    qq += q * q;
    pq += p * q;
  }
  sums[threadIdx.x] = pp;
  sums[32 + threadIdx.x] = qq;
  sums[64 + threadIdx.x] = pq;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {  // in pairs, always the same
    if (threadIdx.x < half)
      for (int k = 0; k < 96; k += 32) sums[k + threadIdx.x] += sums[k + threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0)
    for (int k = 0; k < 3; ++k) out[k * count + blockIdx.x] = sums[32 * k];
}
"""

_kernels: dict[Any, Any] = {}


def gram(xp: Any, h: Any, u: Any, b: float, a: float) -> Any:
    """Return ``|p|^2``, ``|q|^2``, ``p.q`` of ``p, q = b h + a u, b h - a u`` for each row, reading each weight once.

    With ``b = sqrt(eta_u)/2``, ``a = sqrt(eta_w)/2`` and ``h = W x/rho`` these are the order parameters of
    `TwoLayerOrder`.

    Parameters
    ----------
    xp : module
        CuPy; with NumPy three products are computed instead.
    h, u : array, shape (networks, width)
        C-contiguous doubles.
    b, a : float

    Returns
    -------
    array, shape (3, networks)
        The order of summation is fixed, so that results are reproducible.
    """
    count, width = h.shape
    if xp is np:
        p, q = b * h + a * u, b * h - a * u
        return np.stack([np.vecdot(p, p), np.vecdot(q, q), np.vecdot(p, q)])
    if id(xp) not in _kernels:
        _kernels[id(xp)] = xp.RawKernel(GRAM, "gram", options=OPTIONS)
    out = xp.empty((3, count))
    _kernels[id(xp)](
        (count,), (GRAM_THREADS,), (np.int64(count), np.int64(width), np.float64(b), np.float64(a), h, u, out)
    )
    return out
