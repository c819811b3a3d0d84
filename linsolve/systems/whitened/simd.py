"""SIMD vectors of doubles as a type of compiled code (extra ``[fast]``): eight cases side by side.

Auto-vectorization of short loops is unreliable, so SIMD instructions are emitted explicitly. A `Vector` holds one
number of each of `WIDTH` cases and supports the arithmetic operators. An array of vectors is a flat array of doubles
that stores the numbers of all cases side by side.
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

__all__ = [
    "WIDTH",
    "broadcast",
    "broadcast_entry",
    "exp",
    "expm1",
    "fma",
    "if_less",
    "load",
    "sqrt",
    "store",
    "unpack",
    "zeros",
]

# cases side by side: one vector of the widest processors, one cache line
WIDTH = 8
_REAL, _WHOLE = ir.VectorType(ir.DoubleType(), WIDTH), ir.VectorType(ir.IntType(64), WIDTH)


class Vector(types.Type):  # type: ignore[misc]
    """One number of each of `WIDTH` cases."""

    def __init__(self) -> None:
        super().__init__("Vector")


@register_model(Vector)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _REAL)


_vector = Vector()


class _Instructions(Vectors):
    """Vector instructions of `linsolve.engines`, appended to the function that numba builds."""

    def __init__(self, builder: Any) -> None:
        super().__init__(WIDTH)
        self.builder = builder

    def number(self, value: float) -> Any:
        return ir.Constant(_REAL, [value] * WIDTH)

    def integer(self, value: int) -> Any:
        return ir.Constant(_WHOLE, [value] * WIDTH)

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
        return cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.{name}.v{WIDTH}f64")


def _operation(of: Any, name: str) -> None:
    """Define an operator on two vectors."""

    @type_callable(of)
    def typed(context: Any) -> Callable[[Any, Any], Any]:
        return lambda a, b: _vector if a == b == _vector else None

    @lower_builtin(of, Vector, Vector)
    def lowered(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _Instructions(builder).op(name, *args)


for _of, _name in ((operator.add, "add"), (operator.sub, "sub"), (operator.mul, "mul"), (operator.truediv, "div")):
    _operation(_of, _name)


def _place(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """Return the address of an array entry, as a pointer to a vector."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _REAL.as_pointer())


@intrinsic
def load(context: Any, array: Any, at: Any):  # type: ignore[no-untyped-def]
    """Return vector `at` of an array of vectors."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        index = builder.mul(args[1], ir.Constant(args[1].type, WIDTH))
        return builder.load(_place(context, builder, signature.args[0], args[0], index), align=8)

    return _vector(array, types.intp), generate


@intrinsic
def store(context: Any, array: Any, at: Any, value: Any):  # type: ignore[no-untyped-def]
    """Set vector `at` of an array of vectors."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        index = builder.mul(args[1], ir.Constant(args[1].type, WIDTH))
        builder.store(args[2], _place(context, builder, signature.args[0], args[0], index), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, _vector), generate


def _broadcast(builder: Any, number: Any) -> Any:
    none = ir.Constant(_REAL, ir.Undefined)
    first = builder.insert_element(none, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, none, ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH))


@intrinsic
def broadcast(context: Any, number: Any):  # type: ignore[no-untyped-def]
    """Return the vector whose entries are all the same number."""
    return _vector(types.float64), lambda context, builder, signature, args: _broadcast(builder, args[0])


@intrinsic
def broadcast_entry(context: Any, array: Any, at: Any):  # type: ignore[no-untyped-def]
    """Return the vector whose entries are all entry `at` of a flat array; `at` is not negative."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return _broadcast(builder, builder.load(builder.gep(data, [args[1]])))

    return _vector(array, types.intp), generate


@intrinsic
def fma(context: Any, a: Any, b: Any, c: Any):  # type: ignore[no-untyped-def]
    """Return ``a b + c``, rounded once."""
    return _vector(_vector, _vector, _vector), lambda context, builder, signature, args: _Instructions(builder).fma(
        *args
    )


@intrinsic
def sqrt(context: Any, a: Any):  # type: ignore[no-untyped-def]
    """Return the square root."""
    return _vector(_vector), lambda context, builder, signature, args: _Instructions(builder).unary("sqrt", *args)


@intrinsic
def if_less(context: Any, x: Any, y: Any, a: Any, b: Any):  # type: ignore[no-untyped-def]
    """Return `a` where ``x < y``, else `b`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        instructions, (x, y, a, b) = _Instructions(builder), args
        return instructions.select(instructions.compare("lt", x, y), a, b)

    return _vector(_vector, _vector, _vector, _vector), generate


@intrinsic
def exp(context: Any, x: Any):  # type: ignore[no-untyped-def]
    """Return the exponential of numbers between -700 and 700."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return elementary.exp(_Instructions(builder), args[0], moderate=True)

    return _vector(_vector), generate


@intrinsic
def expm1(context: Any, x: Any):  # type: ignore[no-untyped-def]
    """Return ``exp(x) - 1`` of numbers between -700 and 700."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return elementary.expm1(_Instructions(builder), args[0], moderate=True)

    return _vector(_vector), generate


@intrinsic
def unpack(context: Any, array: Any, at: Any, into: Any, where: Any, step: Any):  # type: ignore[no-untyped-def]
    """Transpose `WIDTH` vectors from `at` on: the numbers of case k go to ``where + k step`` and after."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array, at, into, where, step = args
        kinds, width = signature.args, ir.Constant(at.type, WIDTH)
        rows = []
        for k in range(WIDTH):
            index = builder.mul(builder.add(at, ir.Constant(at.type, k)), width)
            rows.append(builder.load(_place(context, builder, kinds[0], array, index), align=8))
        # transpose by log2(WIDTH) rounds of interleaving
        half = WIDTH // 2
        for _ in range(WIDTH.bit_length() - 1):
            rows = [_interleaved(builder, rows[k], rows[k + half], high) for k in range(half) for high in (0, half)]
        for k, row in enumerate(rows):
            index = builder.add(where, builder.mul(step, ir.Constant(step.type, k)))
            builder.store(row, _place(context, builder, kinds[2], into, index), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, into, types.intp, types.intp), generate


def _interleaved(builder: Any, a: Any, b: Any, begin: int) -> Any:
    order = [k + other * WIDTH for k in range(begin, begin + WIDTH // 2) for other in (0, 1)]
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), order))


@njit(nogil=True)
def zeros(count: int) -> Any:
    """Return an array of `count` zero vectors, each within one cache line."""
    whole = np.zeros((count + 1) * WIDTH)
    skipped = -(whole.ctypes.data // whole.itemsize) % WIDTH
    return whole[skipped : skipped + count * WIDTH]
