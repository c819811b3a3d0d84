"""Vectors of doubles as a type of compiled code (extra ``[fast]``): what is written for one case is done for eight.

What a compiler makes of loops over short arrays is a matter of luck; these instructions are its own. `Lanes` are one
number of each of `LANES` cases, added, subtracted, multiplied and divided like a number. An array of them is a flat
array of doubles, each number stored for all cases side by side.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

from linsolve.engines import elementary
from linsolve.engines.vectors import Vectors

__all__ = ["LANES", "alike", "everywhere", "exp", "expm1", "fma", "if_less", "load", "room", "root", "store", "unpack"]

# cases side by side: one vector of the widest processors, and what the cache moves at once
LANES = 8
_REAL, _WHOLE = ir.VectorType(ir.DoubleType(), LANES), ir.VectorType(ir.IntType(64), LANES)


class Lanes(types.Type):  # type: ignore[misc]
    """One number of each of `LANES` cases."""

    def __init__(self) -> None:
        super().__init__("Lanes")


@register_model(Lanes)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _REAL)


_lanes = Lanes()


class _Instructions(Vectors):
    """Instructions of `linsolve.engines` appended to the function that numba builds, instead of written as text."""

    def __init__(self, builder: Any) -> None:
        super().__init__(LANES)
        self.builder = builder

    def number(self, value: float) -> Any:
        return ir.Constant(_REAL, [value] * LANES)

    def integer(self, value: int) -> Any:
        return ir.Constant(_WHOLE, [value] * LANES)

    def op(self, name: str, a: Any, b: Any) -> Any:
        return getattr(self.builder, f"f{name}")(a, b)

    def whole_op(self, name: str, a: Any, b: Any) -> Any:
        return getattr(self.builder, name)(a, b)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        return self.builder.call(self._known("fma", 3), [a, b, c])

    def unary(self, name: str, a: Any) -> Any:
        return self.builder.call(self._known(name, 1), [a])

    def copysign(self, a: Any, sign: Any) -> Any:
        return self.builder.call(self._known("copysign", 2), [a, sign])

    def negative(self, a: Any) -> Any:
        return self.builder.fneg(a)

    def bits(self, a: Any) -> Any:
        return self.builder.bitcast(a, _WHOLE)

    def of_bits(self, a: Any) -> Any:
        return self.builder.bitcast(a, _REAL)

    def compare(self, name: str, a: Any, b: Any) -> Any:
        return self.builder.fcmp_ordered({"gt": ">", "lt": "<"}[name], a, b)

    def select(self, condition: Any, a: Any, b: Any, kind: str | None = None) -> Any:
        return self.builder.select(condition, a, b)

    def _known(self, name: str, count: int) -> Any:
        kind = ir.FunctionType(_REAL, [_REAL] * count)
        return cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.{name}.v{LANES}f64")


def _operation(of: Any, name: str) -> None:
    """Let an operator act on two of these."""

    @type_callable(of)
    def typed(context: Any) -> Callable[[Any, Any], Any]:
        return lambda a, b: _lanes if a == b == _lanes else None

    @lower_builtin(of, Lanes, Lanes)
    def lowered(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _Instructions(builder).op(name, *args)


for _of, _name in ((operator.add, "add"), (operator.sub, "sub"), (operator.mul, "mul"), (operator.truediv, "div")):
    _operation(_of, _name)


def _place(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """Return the address of a number of an array, as one of lanes."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _REAL.as_pointer())


@intrinsic
def load(context: Any, array: Any, at: Any):  # type: ignore[no-untyped-def]
    """Return lanes `at` of an array of them."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        index = builder.mul(args[1], ir.Constant(args[1].type, LANES))
        return builder.load(_place(context, builder, signature.args[0], args[0], index), align=8)

    return _lanes(array, types.intp), generate


@intrinsic
def store(context: Any, array: Any, at: Any, value: Any):  # type: ignore[no-untyped-def]
    """Set lanes `at` of an array of them."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        index = builder.mul(args[1], ir.Constant(args[1].type, LANES))
        builder.store(args[2], _place(context, builder, signature.args[0], args[0], index), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, _lanes), generate


def _everywhere(builder: Any, number: Any) -> Any:
    none = ir.Constant(_REAL, ir.Undefined)
    first = builder.insert_element(none, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, none, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


@intrinsic
def everywhere(context: Any, number: Any):  # type: ignore[no-untyped-def]
    """Return lanes that are all the same number."""
    return _lanes(types.float64), lambda context, builder, signature, args: _everywhere(builder, args[0])


@intrinsic
def alike(context: Any, array: Any, at: Any):  # type: ignore[no-untyped-def]
    """Return lanes that are all the number `at` of a flat array, which is not counted from its end."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return _everywhere(builder, builder.load(builder.gep(data, [args[1]])))

    return _lanes(array, types.intp), generate


@intrinsic
def fma(context: Any, a: Any, b: Any, c: Any):  # type: ignore[no-untyped-def]
    """Return ``a b + c``, rounded once."""
    return _lanes(_lanes, _lanes, _lanes), lambda context, builder, signature, args: _Instructions(builder).fma(*args)


@intrinsic
def root(context: Any, a: Any):  # type: ignore[no-untyped-def]
    """Return the square root."""
    return _lanes(_lanes), lambda context, builder, signature, args: _Instructions(builder).unary("sqrt", *args)


@intrinsic
def if_less(context: Any, x: Any, y: Any, a: Any, b: Any):  # type: ignore[no-untyped-def]
    """Return `a` where ``x < y``, else `b`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        instructions, (x, y, a, b) = _Instructions(builder), args
        return instructions.select(instructions.compare("lt", x, y), a, b)

    return _lanes(_lanes, _lanes, _lanes, _lanes), generate


@intrinsic
def exp(context: Any, x: Any):  # type: ignore[no-untyped-def]
    """Return the exponential of numbers within 700 of 0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return elementary.exp(_Instructions(builder), args[0], moderate=True)

    return _lanes(_lanes), generate


@intrinsic
def expm1(context: Any, x: Any):  # type: ignore[no-untyped-def]
    """Return ``exp(x) - 1`` of numbers within 700 of 0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return elementary.expm1(_Instructions(builder), args[0], moderate=True)

    return _lanes(_lanes), generate


@intrinsic
def unpack(context: Any, array: Any, at: Any, into: Any, where: Any, step: Any):  # type: ignore[no-untyped-def]
    """Write `LANES` lanes from `at` on, those of each case side by side: the first at `where`, then by steps."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array, at, into, where, step = args
        kinds, width = signature.args, ir.Constant(at.type, LANES)
        rows = []
        for k in range(LANES):
            index = builder.mul(builder.add(at, ir.Constant(at.type, k)), width)
            rows.append(builder.load(_place(context, builder, kinds[0], array, index), align=8))
        # as often as a half can be halved: two by two, of halves that lie apart, numbers take turns
        half = LANES // 2
        for _ in range(LANES.bit_length() - 1):
            rows = [_by_turns(builder, rows[k], rows[k + half], high) for k in range(half) for high in (0, half)]
        for k, row in enumerate(rows):
            index = builder.add(where, builder.mul(step, ir.Constant(step.type, k)))
            builder.store(row, _place(context, builder, kinds[2], into, index), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, into, types.intp, types.intp), generate


def _by_turns(builder: Any, a: Any, b: Any, begin: int) -> Any:
    order = [k + other * LANES for k in range(begin, begin + LANES // 2) for other in (0, 1)]
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), LANES), order))


@njit(nogil=True)
def room(count: int) -> Any:
    """Return zeros for so many lanes, none of which lie on two lines of the cache."""
    whole = np.zeros((count + 1) * LANES)
    skipped = -(whole.ctypes.data // whole.itemsize) % LANES
    return whole[skipped : skipped + count * LANES]
