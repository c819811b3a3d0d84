"""JavaScript of a program: a function of its inputs that returns a function of one of them, for pages in a browser.

Each line is a step of the program, in doubles and in the order of the formula. Sums, products, quotients and roots have
the same bits as in NumPy. Exponentials and logarithms are the nearest double for 99.4 % of arguments, and differ from
NumPy's, as powers and circular functions do, by at most one unit in the last place, hyperbolic functions by at most
three (``tests/engines/test_javascript.py``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import mpmath
import numpy as np

from linsolve.engines.constants import UFUNCS
from linsolve.engines.program import Program, Step

__all__ = ["function", "prelude"]

_PRELUDE = """\
const modulo = (x, y) => {  // of the sign of y, as in Python
  const r = x % y;
  return r !== 0 && r < 0 !== y < 0 ? r + y : r;
};
const hypot = (x, y) => {  // the root with a correction (Borges 2019); Math.hypot is off by two units in the last place
  const a = Math.max(Math.abs(x), Math.abs(y)), b = Math.min(Math.abs(x), Math.abs(y));
  if (!(a < 1e150 && b > 1e-140)) return Math.hypot(x, y);
  const root = Math.sqrt(a * a + b * b), near = root <= 2 * b, d = root - (near ? b : a);
  const first = near ? a * (2 * d - a) : 2 * d * (a - 2 * b);
  return root - (first + (near ? (d - 2 * (a - b)) * d : (4 * d - b) * b + d * d)) / (2 * root);
};
const scales = Float64Array.from({length: 2041}, (_, k) => 2 ** (k - 1020));
const roots = Float64Array.of(ROOTS);
const rests = Float64Array.of(RESTS);  // 2^(j/128) = roots[j] + rests[j] to 106 bits
const split = (x) => {  // exp(x) as a sum of two numbers, to 60 bits; the parts of x = k log(2)/128 + r + low
  const k = (x * INVERSE + 6755399441055744) - 6755399441055744, j = k & 127;
  const a = x - k * HIGH, b = k * LOW, r = a - b, low = (a - r) - b, scale = scales[(k >> 7) + 1020];
  const q = low + r * r * (1 / 2 + r * (1 / 6 + r * (1 / 24 + r / 120)));
  return [roots[j] * scale, (rests[j] + roots[j] * (r + q)) * scale];
};
const beyond = (x) => {  // expm1(x) as a sum of two numbers
  if (Math.abs(x) < 1 / 16) {
    const c = [1 / 3, 1 / 12, 1 / 60, 1 / 360, 1 / 2520, 1 / 20160, 1 / 181440, 1 / 1814400];
    return [x, x * x / 2 * (1 + x * c.reduceRight((sum, v) => v + x * sum, 0))];
  }
  const [a, b] = split(x), whole = a - 1, part = whole - a;  // the sum of two numbers and its rounding error
  return [whole, ((a - (whole - part)) + (-1 - part)) + b];
};
// within 0.505 to 0.63 units in the last place; those of Math are within one
const exp = (x) => {
  if (!(Math.abs(x) < 700)) return Math.exp(x);
  const [a, b] = split(x);
  return a + b;
};
const expm1 = (x) => {
  if (!(Math.abs(x) < 700 && Math.abs(x) > 1e-100)) return Math.expm1(x);
  const [a, b] = beyond(x);
  return a + b;
};
const log1p = (x) => {  // a Newton step
  const y = Math.log1p(x);
  if (!(Math.abs(y) < 700 && Math.abs(y) > 1e-100)) return y;
  const [a, b] = beyond(y);
  return y - ((a - x) + b) / (1 + x);
};
const log = (x) => {
  if (x > 0.5 && x < 2) return log1p(x - 1);
  const y = Math.log(x);
  if (!(Math.abs(y) < 700)) return y;
  const [a, b] = split(y);
  return y - ((a - x) + b) / x;
};
"""


@lru_cache(maxsize=1)
def prelude() -> str:
    """Return the functions that are called besides those of ``Math``, with constants from 40 digits."""
    context = mpmath.MPContext()
    context.dps = 40
    step, exact = context.log(2) / 128, [context.mpf(2) ** (context.mpf(j) / 128) for j in range(128)]
    high = math.ldexp(math.floor(math.ldexp(float(step), 42)), -42)  # its products with k are exact
    text = {
        "ROOTS": ", ".join(repr(float(v)) for v in exact),
        "RESTS": ", ".join(repr(float(v - float(v))) for v in exact),
        "INVERSE": repr(float(1 / step)),
        "HIGH": repr(high),
        "LOW": repr(float(step - high)),
    }
    return re.sub("|".join(text), lambda found: text[found[0]], _PRELUDE)


_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "===",
    "ne": "!==", "and": "&&", "or": "||", "xor": "!==",
}  # fmt: skip
_MATH = ("abs", "sqrt", "sin", "cos", "tan", "asin", "sinh", "cosh", "tanh")
_CALL = {name: f"Math.{name}" for name in (*_MATH, "sign", "atan2", "pow")} | {
    "minimum": "Math.min", "maximum": "Math.max", "mod": "modulo",
    "isnan": "Number.isNaN", "isfinite": "Number.isFinite", "astype": "Number",
} | {name: name for name in ("exp", "expm1", "log", "log1p", "hypot")}  # fmt: skip
_FORM = {"neg": "-{}", "not": "!{}", "where": "{} ? {} : {}", "isinf": "Math.abs({}) === Infinity"}


def function(program: Program, *over: str) -> str:
    """Return a program as a JavaScript expression.

    Parameters
    ----------
    program : Program
    *over : str
        Inputs that vary along a curve. The steps that do not depend on them are computed once per curve.

    Returns
    -------
    str
        A function of an object with the other inputs, by name. It returns a function of `over`: of a number if this is
        one input, of an object if there are several. The result is an object with the outputs, by name. ``start.`` in
        a name becomes ``start_``. `prelude` defines the functions that are called besides those of ``Math``.

    Raises
    ------
    ValueError
        If the program has an unknown operation, which the message names.

    Examples
    --------
    >>> from linsolve.engines.program import Tracer
    >>> xp = Tracer()
    >>> x, a = xp.input("x"), xp.input("a")
    >>> xp.program.outputs["y"] = (xp.exp(a) * x).index
    >>> print(function(xp.program, "x"))
    ({a}) => {
      const v2 = exp(a);
      return (x) => {
        const v3 = v2 * x;
        return {y: v3};
      };
    }
    """
    printer = _Printer(program, over)
    inner = over[0] if len(over) == 1 else _object(over) if over else ""
    outer = _object(name for name in program.inputs if name not in over)
    tables = [f"const n{k} = [{', '.join(map(_literal, v))}];" for k, v in printer.tables.items()]
    early = "".join(f"  {line}\n" for line in (*tables, *printer.lines(False)))
    late = "".join(f"    {line}\n" for line in printer.lines(True))
    outputs = _object(f"{_identifier(name)}: {printer.name(k)}" for name, k in program.outputs.items())
    return f"({outer}) => {{\n{early}  return ({inner}) => {{\n{late}    return {outputs};\n  }};\n}}"


def _object(parts: Iterable[str]) -> str:
    return f"{{{', '.join(_identifier(part) for part in parts)}}}"


def _identifier(name: str) -> str:
    return name.replace("start.", "start_")


class _Printer:
    """Lines of the steps of a program; steps of one list of numbers that depend on no input are printed as tables."""

    def __init__(self, program: Program, over: Iterable[str]) -> None:
        self.steps, self.used, self.varies = program.steps, program.used(), program.varies()
        self.late = program.depends(set(over))
        self.depth: list[int] = []  # number of sums of which a step is made, one in another
        for step in self.steps:
            self.depth.append(max((self.depth[a] for a in step.args), default=0) + (step.op == "sum"))
        values: dict[int, Any] = {}
        for k in self.used:
            step = self.steps[k]
            if step.op in ("constant", "nodes"):
                values[k] = np.asarray(step.data)
            elif step.op in UFUNCS and all(a in values for a in step.args):
                values[k] = UFUNCS[step.op](*(values[a] for a in step.args))
        wanted = {a for k in self.used if k not in values for a in self.steps[k].args}
        self.tables = {k: v.tolist() for k, v in values.items() if v.ndim and k in wanted}
        self.known = {k for k, v in values.items() if v.ndim}

    def lines(self, late: bool) -> list[str]:
        """Return the lines that depend on the varying input, or those that do not."""
        here = [k for k in self.used if self.late[k] == late and not self.varies[k]]
        found = []
        for depth in range(1 + max(self.depth)):
            at = [k for k in here if self.depth[k] == depth]
            found += self._loop([k for k in at if self.steps[k].op == "sum"])
            found += [self._line(k) for k in at if self.steps[k].op not in ("constant", "input", "sum")]
        return found

    def _loop(self, sums: list[int]) -> list[str]:
        """Return a loop over the list of numbers, with Neumaier's correction of the rounding errors of each sum."""
        if not sums:
            return []
        inside, waiting = set[int](), [self.steps[k].args[0] for k in sums]
        while waiting:
            k = waiting.pop()
            if self.varies[k] and k not in self.known and k not in inside:
                inside.add(k)
                waiting += self.steps[k].args
        count = len(next(iter(self.tables.values())))
        found = [f"let {', '.join(f's{k} = 0, e{k} = 0' for k in sums)};", f"for (let i = 0; i < {count}; ++i) {{"]
        found += [f"  {self._line(k)}" for k in sorted(inside)]
        for k in sums:
            x = self.name(self.steps[k].args[0])
            found.append(f"  const t{k} = s{k} + {x};")
            found.append(f"  e{k} += Math.abs(s{k}) < Math.abs({x}) ? ({x} - t{k}) + s{k} : (s{k} - t{k}) + {x};")
            found.append(f"  s{k} = t{k};")
        return [*found, "}", *(f"const v{k} = s{k} + e{k};" for k in sums)]

    def _line(self, k: int) -> str:
        return f"const v{k} = {self._expression(self.steps[k])};"

    def name(self, k: int) -> str:
        """Return the name of a step, or the literal of a constant."""
        step = self.steps[k]
        if step.op == "constant":
            return _literal(step.data)
        return _identifier(step.data) if step.op == "input" else f"n{k}[i]" if k in self.tables else f"v{k}"

    def _expression(self, step: Step) -> str:
        args = [self.name(a) for a in step.args]
        if step.op == "pow" and args[1] == "2.0":
            return f"{args[0]} * {args[0]}"  # as in NumPy
        if step.op in _INFIX:
            return f"{args[0]} {_INFIX[step.op]} {args[1]}"
        if step.op in _CALL:
            return f"{_CALL[step.op]}({', '.join(args)})"
        if step.op in _FORM:
            return _FORM[step.op].format(*args)
        raise ValueError(f"javascript: op = {step.op!r} is unknown (operation of a program); add it to the printer")


def _literal(value: Any) -> str:
    """Return an exact literal of a constant."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(float(value)).replace("inf", "Infinity").replace("nan", "NaN")
    return f"({text})" if text.startswith("-") else text
