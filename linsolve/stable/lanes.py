"""Sums of products of short vectors, for compiled code (extra ``[fast]``): the sum stays in registers.

A matrix of vectors is a flat array, each number of it stored for `LANES` cases side by side. What a compiler makes of
loops over these is a matter of luck; two instructions written in its own language are not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["LANES", "dot", "mix"]

# cases side by side: two vectors of the widest processors
LANES = 16
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)


def _sum_of_products(same: bool) -> Callable[..., Any]:
    """Return code for ``out[o] = c out[o] + d sum_k a[i + k di] b[j + k dj]``; `a` may be the `same` in all lanes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        out, o, c, d, a, i, di, b, j, dj, count = args

        def place(kind: Any, array: Any, index: Any) -> Any:
            data = context.make_array(kind)(context, builder, array).data
            return builder.gep(data, [index])

        def load(kind: Any, array: Any, index: Any) -> Any:
            return builder.load(builder.bitcast(place(kind, array, index), _VECTOR.as_pointer()), align=8)

        def fma(x: Any, y: Any, z: Any) -> Any:
            kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
            return builder.call(
                cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{LANES}f64"), [x, y, z]
            )

        def everywhere(number: Any) -> Any:
            first = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
            lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
            return builder.shuffle_vector(first, ir.Constant(_VECTOR, ir.Undefined), lanes)

        kinds = signature.args
        total = cgutils.alloca_once_value(builder, ir.Constant(_VECTOR, [0.0] * LANES))
        with cgutils.for_range(builder, count) as loop:
            at_a = builder.add(i, builder.mul(loop.index, di))
            at_b = builder.add(j, builder.mul(loop.index, dj))
            x = everywhere(builder.load(place(kinds[4], a, at_a))) if same else load(kinds[4], a, at_a)
            builder.store(fma(x, load(kinds[7], b, at_b), builder.load(total)), total)
        # nothing of what was there, be it not a number, where c = 0
        new = builder.fcmp_ordered("==", c, ir.Constant(ir.DoubleType(), 0.0))
        none = ir.Constant(_VECTOR, [0.0] * LANES)
        before = builder.select(new, none, builder.fmul(everywhere(c), load(kinds[0], out, o)))
        after = fma(everywhere(d), builder.load(total), before)
        where = builder.bitcast(place(kinds[0], out, o), _VECTOR.as_pointer())
        builder.store(after, where, align=8)
        return context.get_dummy_value()

    return generate


def _signature(out: Any, c: Any, a: Any, b: Any) -> Any:
    whole, real = types.intp, types.float64
    return types.void(out, whole, real, real, a, whole, whole, b, whole, whole, whole)


@intrinsic
def dot(context: Any, out: Any, o: Any, c: Any, d: Any, a: Any, i: Any, di: Any, b: Any, j: Any, dj: Any, count: Any):  # type: ignore[no-untyped-def]
    """Set ``out[o] = c out[o] + d sum_k a[i + k di] b[j + k dj]``, for k below `count`, in every lane."""
    return _signature(out, c, a, b), _sum_of_products(same=False)


@intrinsic
def mix(context: Any, out: Any, o: Any, c: Any, d: Any, a: Any, i: Any, di: Any, b: Any, j: Any, dj: Any, count: Any):  # type: ignore[no-untyped-def]
    """Do the same with numbers `a` that do not differ from lane to lane."""
    return _signature(out, c, a, b), _sum_of_products(same=True)
