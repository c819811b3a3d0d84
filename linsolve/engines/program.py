"""Program of a flow: its formulas, recorded as a straight-line program on single numbers.

A formula is a pure function of ``(xp, ...)``. If `xp` is a `Tracer`, every operation is recorded instead of computed,
and equal operations are recorded once. The program is evaluated in NumPy blocks or as machine code, or printed as a GPU
kernel. See the rows of ``benchmarks/RESULTS.md`` with an engine: W1, W3, W4, sweeps.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.arguments import unknown_name

__all__ = [
    "BOOLEAN", "FUSED", "REAL", "Program", "Step", "Tracer", "Value", "elementwise", "limits_of", "program_of",
    "traced",
]  # fmt: skip

REAL, BOOLEAN = "real", "boolean"
FUSED = "fused"
_TO_REAL = (
    "neg", "abs", "sqrt", "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "sinh", "cosh", "tanh", "sign"
)  # fmt: skip
_TWO_TO_REAL = ("add", "sub", "mul", "div", "mod", "pow", "hypot", "atan2", "minimum", "maximum")
_COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")
_LOGIC = ("and", "or", "xor")


class Step(NamedTuple):
    """One step of a program.

    Parameters
    ----------
    op : str
        "input", "constant", "where", "not", "isinf", "isnan", "isfinite", "astype" (a boolean to a real), or one of
        the array-API's elementwise functions and operators: neg, abs, sqrt, exp, expm1, log, log1p, sin, cos, tan,
        asin, sinh, cosh, tanh, sign; add, sub, mul, div, mod, pow, hypot, atan2, minimum, maximum; lt, le, gt, ge, eq,
        ne; and, or, xor. "nodes" is a number of a list, "sum" the sum over the list of a step that depends on it; only
        `linsolve.engines.javascript` evaluates these two.
    args : tuple of int
        Earlier steps.
    kind : str
        `REAL` or `BOOLEAN`.
    data : str, float or bool, optional
        Name of an input, value of a constant, the list of numbers of "nodes", "square" for a ``mul`` written as
        ``x**2`` in the formula, or `FUSED` for an ``add`` to a product that machine code may round once.
    """

    op: str
    args: tuple[int, ...]
    kind: str
    data: Any = None


class Program:
    """Steps in order, each after its arguments, and the names of inputs and outputs.

    Attributes
    ----------
    steps : list of Step
    inputs, outputs : dict of str to int
        Step of each input and output.
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.inputs: dict[str, int] = {}
        self.outputs: dict[str, int] = {}
        self._known: dict[Any, int] = {}

    def add(self, op: str, args: tuple[int, ...], kind: str, data: Any = None) -> int:
        """Return the index of a step, which is appended if it is new."""
        # repr distinguishes 0.0 from -0.0, and True from 1.0
        key = (op, args, repr(data))
        if key not in self._known:
            self._known[key] = len(self.steps)
            self.steps.append(Step(op, args, kind, data))
        return self._known[key]

    def used(self) -> list[int]:
        """Return, in order, the steps required by the outputs."""
        needed, waiting = set(), list(self.outputs.values())
        while waiting:
            index = waiting.pop()
            if index not in needed:
                needed.add(index)
                waiting.extend(self.steps[index].args)
        return sorted(needed)

    def depends(self, names: Any) -> list[bool]:
        """Return, for each step, whether it depends on one of the inputs `names`."""
        found: list[bool] = []
        for step in self.steps:
            found.append(step.data in names if step.op == "input" else any(found[k] for k in step.args))
        return found

    def varies(self) -> list[bool]:
        """Return, for each step, whether it varies over the list of "nodes"."""
        found: list[bool] = []
        for step in self.steps:
            found.append(step.op == "nodes" or (step.op != "sum" and any(found[k] for k in step.args)))
        return found


class Value:
    """Recorded number with the operators of an array, without a value or a truth value."""

    __slots__ = ("index", "xp")
    shape, ndim, size = (), 0, 1
    recorded = True  # for `arithmetic.readable`

    def __init__(self, xp: Tracer, index: int) -> None:
        self.xp = xp
        self.index = index

    @property
    def kind(self) -> str:
        """`REAL` or `BOOLEAN`."""
        return self.xp.program.steps[self.index].kind

    @property
    def dtype(self) -> str:
        """`kind` as a dtype of the namespace."""
        return self.kind

    def __array_namespace__(self, api_version: str | None = None) -> Tracer:
        return self.xp

    def __bool__(self) -> bool:
        raise TypeError("trace: a value = step of a program cannot decide a Python branch; use xp.where")

    def __getitem__(self, key: Any) -> Value:
        return self  # a single number: indexing its batch or new axes returns the number itself

    def __hash__(self) -> int:
        return hash((id(self.xp), self.index))

    def fused(self, factor: Any, term: Any) -> Value:
        """Return ``factor self + term``, which an engine may round once."""
        xp = self.xp
        product = xp._record("mul", (factor, self), REAL)
        return Value(xp, xp.program.add("add", (product.index, xp._value(term).index), REAL, FUSED))


def _binary(op: str, kind: str = REAL) -> tuple[Callable, Callable]:
    def forward(a: Value, b: Any) -> Value:
        return a.xp._record(op, (a, b), kind)

    def backward(a: Value, b: Any) -> Value:
        return a.xp._record(op, (b, a), kind)

    return forward, backward


def _power(a: Value, exponent: Any) -> Value:
    """Record ``a**exponent`` as computed by NumPy: a square is a product, not a power."""
    xp = a.xp
    if isinstance(exponent, int) and exponent == 2:
        return Value(xp, xp.program.add("mul", (a.index, a.index), REAL, "square"))
    return xp._record("pow", (a, exponent), REAL)


for _op, _name in {"add": "add", "sub": "sub", "mul": "mul", "div": "truediv", "mod": "mod"}.items():
    _forward, _backward = _binary(_op)
    setattr(Value, f"__{_name}__", _forward)
    setattr(Value, f"__r{_name}__", _backward)
for _op in _COMPARE:
    setattr(Value, f"__{_op}__", _binary(_op, BOOLEAN)[0])
for _op in _LOGIC:
    _forward, _backward = _binary(_op, BOOLEAN)
    setattr(Value, f"__{_op}__", _forward)
    setattr(Value, f"__r{_op}__", _backward)
Value.__pow__ = _power  # type: ignore[attr-defined, operator]
Value.__rpow__ = _binary("pow")[1]  # type: ignore[attr-defined, operator]
Value.__neg__ = lambda a: a.xp._record("neg", (a,), REAL)  # type: ignore[attr-defined, operator]
Value.__pos__ = lambda a: a  # type: ignore[attr-defined, operator]
Value.__abs__ = lambda a: a.xp._record("abs", (a,), REAL)  # type: ignore[attr-defined, operator]
Value.__invert__ = lambda a: a.xp._record("not", (a,), BOOLEAN)  # type: ignore[attr-defined, operator]


class Tracer:
    """Recording namespace; one instance per program.

    Examples
    --------
    >>> xp = Tracer()
    >>> x = xp.input("x")
    >>> xp.program.outputs["y"] = xp.where(x < 0, -x, x * 2).index
    >>> [step.op for step in xp.program.steps]
    ['input', 'constant', 'lt', 'neg', 'constant', 'mul', 'where']
    """

    inf = float("inf")
    nan = float("nan")
    pi = 3.141592653589793
    e = 2.718281828459045
    float64 = REAL
    bool = BOOLEAN

    def __init__(self) -> None:
        self.program = Program()

    def input(self, name: str) -> Value:
        """Return a real input."""
        index = self.program.inputs[name] = self.program.add("input", (), REAL, name)
        return Value(self, index)

    def _value(self, value: Any) -> Value:
        if isinstance(value, Value):
            return value
        if isinstance(value, bool):
            return Value(self, self.program.add("constant", (), BOOLEAN, value))
        return Value(self, self.program.add("constant", (), REAL, float(value)))

    def _record(self, op: str, args: tuple[Any, ...], kind: str) -> Value:
        return Value(self, self.program.add(op, tuple(self._value(a).index for a in args), kind))

    def where(self, condition: Any, a: Any, b: Any) -> Value:
        """Return `a` or `b`; both are evaluated."""
        a, b = self._value(a), self._value(b)
        return a if a.index == b.index else self._record("where", (condition, a, b), a.kind)

    def isinf(self, a: Any) -> Value:
        """Whether infinite."""
        return self._record("isinf", (a,), BOOLEAN)

    def isnan(self, a: Any) -> Value:
        """Whether not a number."""
        return self._record("isnan", (a,), BOOLEAN)

    def isfinite(self, a: Any) -> Value:
        """Whether finite."""
        return self._record("isfinite", (a,), BOOLEAN)

    def astype(self, a: Any, kind: str) -> Value:
        """Return a boolean as 0 or 1."""
        a = self._value(a)
        return a if a.kind == kind else self._record("astype", (a,), kind)

    def asarray(self, a: Any, dtype: Any = None) -> Value:
        """Return a number as a value, and a list of numbers as a value that stands for each of them."""
        if isinstance(a, list):
            return Value(self, self.program.add("nodes", (), REAL, tuple(float(v) for v in a)))
        return self._value(a)

    def sum(self, a: Any, axis: Any = None) -> Value:
        """Return the sum over a list of numbers; a single number is an axis of length one, and its own sum."""
        a = self._value(a)
        return self._record("sum", (a,), REAL) if self.program.varies()[a.index] else a

    @staticmethod
    def finfo(kind: str) -> Any:
        """Return the properties of doubles."""
        return np.finfo(np.float64)

    def full(self, shape: Any, fill: Any, dtype: Any = None) -> Value:
        """Return the number `fill`."""
        return self._value(fill)

    def full_like(self, a: Any, fill: Any, dtype: Any = None) -> Value:
        """Return the number `fill`."""
        return self._value(fill)

    def zeros_like(self, a: Any, dtype: Any = None) -> Value:
        """Return 0."""
        return self._value(0)

    def ones_like(self, a: Any, dtype: Any = None) -> Value:
        """Return 1."""
        return self._value(1)

    def broadcast_arrays(self, *values: Any) -> list[Value]:
        """Return the values."""
        return [self._value(v) for v in values]

    def broadcast_to(self, a: Any, shape: Any) -> Value:
        """Return the value."""
        return self._value(a)

    def __getattr__(self, name: str) -> Any:
        if name in _TO_REAL:
            return lambda a: self._record(name, (a,), REAL)
        if name in _TWO_TO_REAL:
            return lambda a, b: self._record(name, (a, b), REAL)
        if name.startswith("_") or name in ("symbolic", "dps"):
            raise AttributeError(name)
        raise AttributeError(unknown_name("trace", "function", name, [*_TO_REAL, *_TWO_TO_REAL, "where"]))


def elementwise(flow: Any) -> bool:
    """Return whether a flow's parameters and state are single numbers for each network, as a program requires."""
    own = [field.metadata["axes"] for field in dataclasses.fields(flow)]  # type: ignore[arg-type]
    return not any(own) and not any(flow.axes.values())


def program_of(flow: Any, names: Iterable[str] | None = None) -> Program:
    """Return the program of a flow's closed form.

    Parameters
    ----------
    flow : type
        A flow whose parameters and state are single numbers; see `elementwise`.
    names : iterable of str, optional
        State fields and observables of a `Trajectory`; by default the state.

    Returns
    -------
    Program
        Program whose inputs are the parameters, the fields of the start and ``t``, by name.

    Raises
    ------
    ValueError
        If the flow has own axes, or a name is unknown.
    """
    xp, own, z0 = traced(flow)
    t = xp.input("t")
    state = own.solution(xp, t, z0)
    found = _Found(own, xp, t, z0, state)
    for name in names if names is not None else flow.State._fields:  # type: ignore[attr-defined]
        xp.program.outputs[name] = xp.asarray(found[name]).index
    return xp.program


def limits_of(flow: Any, forward: bool = False) -> Program:
    """Return the program of a flow's `conditions`, by name, and of its `lifetime`, as "low" and "high".

    "low" is omitted if all times are nonnegative, `forward`.
    """
    xp, own, z0 = traced(flow)
    low, high = own.lifetime(xp, z0)
    found = {**own.conditions(xp, z0), **({} if forward else {"low": low}), "high": high}
    for name, value in found.items():
        xp.program.outputs[name] = xp.asarray(value).index
    return xp.program


def traced(flow: Any) -> tuple[Tracer, Any, Any]:
    """Return a recording namespace, and a flow and a start made of its inputs."""
    if not elementwise(flow):
        raise ValueError(
            f"{flow.__name__}: parameters or states have axes of their own but must be single numbers (an engine runs "
            "one program for all networks); leave the engine out"
        )
    xp = Tracer()
    own = object.__new__(flow)
    for name in (field.name for field in dataclasses.fields(flow)):  # type: ignore[arg-type]
        object.__setattr__(own, name, xp.input(name))
    return xp, own, flow.State(*(xp.input(f"start.{name}") for name in flow.State._fields))  # type: ignore[attr-defined]


class _Found:
    """State and observables by name, in the order of preference of `Trajectory`."""

    def __init__(self, flow: Any, xp: Any, t: Any, z0: Any, state: Any) -> None:
        self.flow, self.xp, self.state = copy.copy(flow), xp, state
        self.along = flow.along(xp, t, z0)

    def __getitem__(self, name: str) -> Any:
        if name in self.state._fields:
            return getattr(self.state, name)
        if name in self.along:
            return self.along[name]
        if name == "loss" or name in self.flow.declared:
            return getattr(self.flow, name)(self.xp, self.state)
        invariants = self.flow.invariants(self.xp, self.state)
        if name in invariants:
            return invariants[name]
        known = dict.fromkeys([*self.state._fields, "loss", *self.along, *self.flow.declared, *invariants])
        raise ValueError(unknown_name(type(self.flow).__name__, "observable", name, list(known)))
