"""Statements of a program in CUDA C++, one for each step, in double precision.

Steps that do not vary between members are read; steps that do not depend on the time are computed once per member;
steps that only one branch of a `where` needs are computed by the members that take it. ``exp(x)`` and ``expm1(x)`` of
the same argument share their reduction, since instructions bound W1 on a device (GPU in ``benchmarks/RESULTS.md``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from linsolve.engines.branches import Literal, Stage, stages
from linsolve.engines.elementary import low_of_ln2, polynomials
from linsolve.engines.plan import TIME, Plan
from linsolve.engines.program import BOOLEAN, Step

__all__ = ["Statements", "early", "exponentials", "statements"]

WORTH = 30  # least cost of a branch, in additions
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
# x = n log 2 + r; r is the sum of `part`, exact, and `missing`, so that no digit of expm1 is lost
_EXPONENTIALS = """
__device__ __forceinline__ void exponentials(const double x, double& all, double& rest) {{  // exp(x) and expm1(x)
  const double shifted = fma(x, {inverse}, {shift}), n = shifted - {shift};
  const double part = fma(n, {minus_ln2}, x), missing = n * {minus_low}, r = part + missing;
  double p = {last};
{terms}
  const double t = fma(r * r, p, missing);
  const double power = __longlong_as_double((whole)((int)__double_as_longlong(shifted) + 1023) << 52);
  const double less = power - 1.0, product = power * part, sum = less + product;
  all = fma(power, part + t, power);
  rest = sum + fma(power, t, product - (sum - less));
  if (x == 0.0 || !(fabs(x) < {most})) {{
    all = exp(x);
    rest = expm1(x);
  }}
}}
"""
_SHIFT = 1.5 * 2.0**52  # added to a number, leaves the nearest integer in the last bits
_MOST = 700.0  # bound of arguments whose exponentials are normal numbers


@lru_cache(maxsize=1)
def exponentials() -> str:
    """Return the source of a function of both exponentials, each within an ulp."""
    *terms, last = polynomials()["exp"]
    return _EXPONENTIALS.format(
        inverse=repr(1 / math.log(2)),
        shift=repr(_SHIFT),
        minus_ln2=repr(-math.log(2)),
        minus_low=repr(-low_of_ln2()),
        last=repr(last),
        terms="\n".join(f"  p = fma(p, r, {term!r});" for term in reversed(terms)),
        most=repr(_MOST),
    )


class Statements(NamedTuple):
    """Statements of a program: those that do not depend on the time, the others, and the expression of each output."""

    member: list[str]
    time: list[str]
    outputs: list[str]


def early(plan: Plan) -> tuple[list[int], list[int]]:
    """Return the steps that a kernel reads: those equal for all members and times, and those that vary with time."""
    read = [k for k in plan.common if plan.program.steps[k].op != "constant"]
    return [k for k in read if not plan.axes[k]], [k for k in read if plan.axes[k] == TIME]


def statements(plan: Plan, loads: Mapping[str, str]) -> Statements:
    """Return a program in C++; `loads` has an expression for each input that varies between members."""
    text = _Text(plan, loads)
    member = text.stage(Stage(frozenset(), plan.member, [], []))
    time = [line for stage in stages(plan.program, plan.full, WORTH) for line in text.stage(stage)]
    return Statements(member, time, [text.names[k] for k in plan.program.outputs.values()])


class _Text:
    """Names and statements of the steps of a plan."""

    def __init__(self, plan: Plan, loads: Mapping[str, str]) -> None:
        self.steps, self.loads = plan.program.steps, loads
        self.names = {k: f"v{k}" for k in range(len(self.steps))}
        for k, step in enumerate(self.steps):
            if step.op == "constant":
                self.names[k] = _literal(step.data)
        for place, read in zip(("same[{}]", "row[{} * (whole)times + k]"), early(plan), strict=True):
            for i, k in enumerate(read):
                value = place.format(i)
                self.names[k] = f"({value} != 0.0)" if self.steps[k].kind == BOOLEAN else value
        self.twins = _twins(self.steps, plan.member) | _twins(self.steps, plan.full)
        self.known: set[int] = set()

    def kind(self, k: int) -> str:
        return "bool" if self.steps[k].kind == BOOLEAN else "double"

    def step(self, k: int, declared: set[int]) -> str:
        """Return the statement of a step, whose variable may be declared before."""
        step = self.steps[k]
        value = self.loads[step.data] if step.op == "input" else _expression(step, self.steps, self.names)
        return f"{'' if k in declared else f'const {self.kind(k)} '}{self.names[k]} = {value};"

    def stage(self, stage: Stage) -> list[str]:
        """Return the statements of a stage, after its conditions."""
        own = [k for k in stage.steps if k not in self.known]
        shared = {k for k in stage.results if k in own} if stage.when else set()
        found = list[str]()
        for k in own:
            if k in self.known:
                continue
            twin = self.twins.get(k)
            if twin is not None and (twin in own or not stage.when):
                found += self.pair(k, twin, shared)
            else:
                found.append(self.step(k, shared))
        if not stage.when or not found:
            return found
        condition = " && ".join(_condition(c, self.names) for c in sorted(stage.when))
        declared = [f"{self.kind(k)} {self.names[k]};" for k in sorted(shared)]
        return [*declared, f"if ({condition}) {{", *(f"  {line}" for line in found), "}"]

    def pair(self, k: int, twin: int, declared: set[int]) -> list[str]:
        """Return the statements of both exponentials of an argument."""
        self.known |= {k, twin}
        all_, rest = (k, twin) if self.steps[k].op == "exp" else (twin, k)
        argument, names = self.names[self.steps[k].args[0]], (self.names[all_], self.names[rest])
        new = [f"double {self.names[one]};" for one in (all_, rest) if one not in declared]
        return [*new, f"exponentials({argument}, {', '.join(names)});"]


def _twins(steps: list[Step], own: list[int]) -> dict[int, int]:
    """Return for each exponential the other one of the same argument, if both are among some steps."""
    of = {(steps[k].op, steps[k].args): k for k in own if steps[k].op in ("exp", "expm1")}
    pairs = [(k, of["expm1", args]) for (op, args), k in of.items() if op == "exp" and ("expm1", args) in of]
    return dict(pairs) | {b: a for a, b in pairs}


def _condition(literal: Literal, names: Mapping[int, str]) -> str:
    condition, holds = literal
    return names[condition] if holds else f"!{names[condition]}"


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


def _expression(step: Step, steps: list[Step], names: Mapping[int, str]) -> str:
    args = [names[k] for k in step.args]
    if step.op == "pow" and steps[step.args[1]].op == "constant" and steps[step.args[1]].data == 2:
        return f"{args[0]} * {args[0]}"  # as in NumPy
    if step.op in _INFIX:
        return f"{args[0]} {_INFIX[step.op]} {args[1]}"
    if step.op in _CALL:
        return f"{_CALL[step.op]}({', '.join(args)})"
    return _FORM[step.op].format(*args)
