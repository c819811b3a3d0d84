"""Arithmetics in which every formula can be evaluated.

Every formula of the package is a pure function of ``(xp, ...)`` that uses array-API names only. `xp` may be NumPy,
CuPy (through ``array_api_compat.cupy``), JAX, ``array_api_strict``, or one of the object arithmetics of this package:

>>> from linsolve import arithmetic
>>> xp = arithmetic.precise(50)
>>> x = xp.asarray([2.0])
>>> arithmetic.namespace(x) is xp
True
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np

from linsolve.arithmetic.jax_arrays import JaxNamespace, is_staged, is_traced, jax_namespace
from linsolve.arithmetic.object_array import ObjectArray
from linsolve.arithmetic.objects import ObjectNamespace

__all__ = [
    "balls",
    "cast",
    "constant",
    "exact",
    "first_order",
    "holds",
    "implicit",
    "is_cupy",
    "is_double",
    "is_jax",
    "is_object",
    "is_traced",
    "namespace",
    "precise",
    "precision",
    "ratio",
    "readable",
    "repeated",
    "spacing",
    "symbolic",
    "to_numpy",
]


_DOUBLE = np.dtype(float)
_SMALL = 2**16  # size of arrays that are compared bitwise


@lru_cache(maxsize=8)
def precise(dps: int = 50) -> Any:
    """Return the namespace of `dps`-digit decimal arithmetic (mpmath), independent of mpmath's global precision.

    Parameters
    ----------
    dps : int
        Decimal digits of every operation.

    Examples
    --------
    >>> from linsolve.arithmetic import precise
    >>> xp = precise(30)
    >>> print(xp.sqrt(xp.asarray([2.0]))[0])
    1.41421356237309504880168872421
    """
    from linsolve.arithmetic.high_precision import Precise

    return Precise(dps)


def precision(xp: Any) -> Any:
    """Return the machine epsilon of a namespace: the spacing of its numbers near one.

    Raises
    ------
    NotImplementedError
        If the namespace is symbolic or a ball arithmetic.
    """
    if is_object(xp):
        if not hasattr(xp, "dps"):
            raise NotImplementedError(f"matrix Riccati: xp = {xp} has no eigenvectors; use precise(dps) or floats")
        return xp.asarray(10) ** (1 - xp.dps)
    return float(xp.finfo(xp.float64).eps)


def spacing(value: Any) -> float:
    """Return the machine epsilon of the type of `value`, at least that of doubles."""
    if is_double(value):
        return 2.0**-52
    kind = str(getattr(value, "dtype", "")).rpartition(".")[2]
    return {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}.get(kind, 2.0**-52)


def symbolic(at: dict[Any, Any] | None = None) -> Any:
    """Return a namespace of SymPy expressions.

    Parameters
    ----------
    at : dict of Symbol to number, optional
        A generic point. Comparisons that SymPy cannot decide from the assumptions on its symbols are decided at this
        point and recorded in ``xp.assumed``. The resulting expression holds on the region where these relations hold.

    Examples
    --------
    >>> import sympy
    >>> import linsolve as ls
    >>> a = sympy.Symbol("a", positive=True)
    >>> xp = ls.arithmetic.symbolic()
    >>> flow = ls.BalancedMode(s=1.0).cast(xp)
    >>> flow.velocity(xp, flow.State(xp.asarray(a))).a.item()
    2*a*(1 - a)
    """
    from linsolve.arithmetic.symbols import Symbolic

    return Symbolic(at or {})


@lru_cache(maxsize=8)
def balls(bits: int = 212) -> Any:
    """Return the namespace of rigorous real balls of `bits` bits (python-flint, extra ``[balls]``).

    Parameters
    ----------
    bits : int
        Binary digits of every operation.

    Examples
    --------
    >>> from linsolve.arithmetic import balls
    >>> xp = balls(100)
    >>> third = xp.asarray([1.0]) / 3
    >>> (3 * third).item().contains(1)  # every result encloses the exact one
    True
    """
    from linsolve.arithmetic.enclosures import Balls

    return Balls(bits)


def _is_array(value: Any) -> bool:
    """Return whether a value belongs to an array library; containers of NumPy numbers (pandas, xarray) do not."""
    if not (hasattr(value, "shape") and hasattr(value, "dtype")) or isinstance(value, np.generic):
        return False
    return isinstance(value, np.ndarray) or not _converts(value)


def _converts(value: Any) -> bool:
    """Return whether NumPy converts a value, which has no array namespace (pandas, xarray, h5py)."""
    if isinstance(value, ObjectArray) or is_cupy(value) or _is_jax(value):
        return False
    return hasattr(value, "__array__") and not hasattr(value, "__array_namespace__")


def holds(mask: Any, everywhere: bool = False) -> bool:
    """Return whether a mask holds in some entry, or in every one; unknown entries count as both True and False."""
    if type(mask) is np.bool_:
        return bool(mask)
    numbers = mask
    if type(mask) is not np.ndarray:
        if not readable(mask):
            return not everywhere
        numbers = to_numpy(mask)
    if numbers.size == 1:
        return bool(numbers.item())
    count = np.count_nonzero(numbers)  # takes a quarter of the time of the methods for few entries
    return bool(count == numbers.size if everywhere else count)


def constant(xp: Any, value: Any) -> Any:
    """Return `value`, which JAX does not differentiate: a rounding error, or a choice between equal expressions."""
    return xp.constant(value) if is_jax(xp) else value


def exact(xp: Any, flag: Any, value: Any, found: Any, constant: Any) -> Any:
    """Return the exact `value` where `flag` holds, else `found`; JAX differentiates `found`, unless it is constant.

    Parameters
    ----------
    xp : namespace
    flag : array of bool
    value, found : array
    constant : array of bool
        Entries in which JAX differentiates `value`.
    """
    if not is_jax(xp):
        return xp.where(flag, value, found)
    return xp.exact(flag, value, xp.where(constant, value, found))


def first_order(xp: Any, value: Any, change: Callable[[], Any]) -> Any:
    """Return `value`, the limit of a removable singularity; JAX adds the derivative of ``change()``, 0 there."""
    if not is_jax(xp):
        return value
    small = change()
    return value + (small - xp.constant(small))


def ratio(xp: Any, over: Any, under: Any) -> Any:
    """Return ``over / under``; the derivative in JAX does not divide by the square of `under`, which may underflow."""
    return xp.divide(over, under) if is_jax(xp) else over / under


def repeated(xp: Any, count: int, step: Callable[..., Any], *state: Any) -> Any:
    """Return the arrays `state` after `count` applications of ``state = step(*state)``; one loop in JAX.

    The loop ends early if NumPy arrays repeat bitwise, or alternate: later steps would only repeat them.
    """
    if is_jax(xp):
        return xp.repeated(count, step, state)
    last, before = _bits(state), None  # of the last two states
    for left in reversed(range(count)):
        previous, state = state, step(*state)
        bits = _bits(state)
        if bits is not None and bits == last:
            return state
        if bits is not None and bits == before:
            return previous if left % 2 else state
        last, before = bits, last
    return state


def _bits(state: tuple[Any, ...]) -> list[bytes] | None:
    """Return the bytes of NumPy numbers and small arrays, None for others."""
    small = all(isinstance(v, np.generic) or (type(v) is np.ndarray and v.size <= _SMALL) for v in state)
    return [v.tobytes() for v in state] if small else None


def implicit(xp: Any, solve: Callable[..., Any], equation: Callable[..., Any], *given: Any) -> Any:
    """Return ``x = solve(*given)``, which JAX differentiates by ``equation(x, *given) = 0`` and not by its algorithm.

    Parameters
    ----------
    xp : namespace
    solve, equation : callable
        Elementwise in the solution: `equation` has the shape of `x`.
    *given : array, or tuple of array
        All arguments with a derivative.
    """
    return xp.implicit(solve, equation, given) if is_jax(xp) else solve(*given)


def is_double(value: Any) -> bool:
    """Return whether a value is a NumPy array of doubles, which needs no conversion."""
    return type(value) is np.ndarray and value.dtype == _DOUBLE


def is_jax(xp: Any) -> bool:
    """Return whether `xp` is the namespace of JAX arrays."""
    return isinstance(xp, JaxNamespace)


def is_object(xp: Any) -> bool:
    """Return whether `xp` computes on object arrays (mpmath, SymPy, balls) rather than in hardware floats.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import arithmetic
    >>> arithmetic.is_object(np), arithmetic.is_object(arithmetic.precise(50))
    (False, True)
    """
    return isinstance(xp, ObjectNamespace)


def readable(*values: Any) -> bool:
    """Return whether the entries of arrays are known numbers, neither symbols nor traced by JAX or an engine.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import arithmetic
    >>> arithmetic.readable(np.array(1.0)), arithmetic.readable(arithmetic.symbolic().asarray(1.0))
    (True, False)
    """
    return not any(
        type(v) is not np.ndarray
        and (is_staged(v) or hasattr(v, "recorded") or (isinstance(v, ObjectArray) and _symbolic(v.namespace)))
        for v in values
    )


def _symbolic(xp: Any) -> bool:
    return getattr(xp, "symbolic", False)


def namespace(*values: Any) -> Any:
    """Return the common array namespace of all arrays among `values`.

    Python numbers, NumPy scalars, lists and None are compatible with every namespace; without arrays the result is
    NumPy.

    Raises
    ------
    TypeError
        If arrays of different libraries are mixed, other than NumPy and JAX.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import arithmetic
    >>> xp = arithmetic.precise(50)
    >>> arithmetic.namespace([1.0], 2.0) is np, arithmetic.namespace(xp.asarray([1.0]), 2.0) is xp
    (True, True)
    """
    found: dict[int, tuple[Any, Any]] = {}
    for value in values:
        if type(value) is np.ndarray:
            found[id(np)] = (np, value)
        elif _is_array(value):
            xp = _namespace_of(value)
            found[id(xp)] = (xp, value)
    if len(found) == 2 and id(np) in found and any(_is_jax(array) for _, array in found.values()):
        return jax_namespace()  # JAX converts NumPy arrays itself
    if len(found) > 1:
        kinds = " and ".join(sorted(_kind(xp, v) for xp, v in found.values()))
        raise TypeError(f"namespace: arrays = {kinds} do not mix; convert them to one library first")
    return next(iter(found.values()))[0] if found else np


def _kind(xp: Any, array: Any) -> str:
    return repr(xp) if is_object(xp) else f"{type(array).__module__}.{type(array).__name__}"


def _namespace_of(array: Any) -> Any:
    if isinstance(array, ObjectArray):
        return array.namespace
    if isinstance(array, np.ndarray):
        return np
    if is_cupy(array):
        return _cupy()
    if _is_jax(array):
        return jax_namespace()
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__()
    raise TypeError(f"namespace: array = {type(array).__name__} is not of an array-API library; pass a NumPy array")


def _is_jax(array: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(array, jax.Array)


def is_cupy(array: Any) -> bool:
    """Return whether an array is one of CuPy."""
    return type(array).__module__.split(".")[0] == "cupy"


def _cupy() -> ModuleType:
    try:
        import array_api_compat.cupy as xp
    except ImportError as error:
        raise ImportError(
            'namespace: CuPy arrays need array-api-compat; pip install ".[cuda12]" (or ".[cuda13]") in the clone'
        ) from error
    return xp


def to_numpy(array: Any) -> np.ndarray:
    """Return `array` as a NumPy array of float64, from a device or from high precision; booleans stay booleans.

    Raises
    ------
    TypeError
        If JAX traces the array.

    Examples
    --------
    >>> from linsolve import arithmetic
    >>> xp = arithmetic.precise(50)
    >>> arithmetic.to_numpy(xp.exp(xp.asarray([0.0, 1.0]))).round(6).tolist()
    [1.0, 2.718282]
    """
    if type(array) is np.ndarray:
        return array
    if is_traced(array):
        raise TypeError(
            f"to_numpy: array = {array} is traced by JAX, so that its entries are unknown (values for a check or a "
            "choice); call this function outside jax.jit, jax.grad and jax.vmap, or close over concrete arrays"
        )
    if isinstance(array, ObjectArray):
        return np.asarray([array.namespace.to_float(v) for v in array.flat], dtype=float).reshape(array.shape)
    if is_cupy(array):
        return array.get()
    return np.asarray(array)


def cast(xp: Any, value: Any) -> Any:
    """Return `value` as a real array of `xp`, exactly: a double is the same number in every arithmetic.

    Examples
    --------
    >>> from linsolve import arithmetic
    >>> print(arithmetic.cast(arithmetic.precise(20), [0.1])[0])  # the double 0.1, not one tenth
    0.10000000000000000555
    """
    if xp is np and is_double(value):
        return value
    if getattr(xp, "__name__", "") == "jax.numpy":
        xp = jax_namespace()
    if _is_array(value) and _namespace_of(value) is xp:
        if is_object(xp) or value.dtype == xp.float64:
            return value
        return xp.astype(value, xp.float64)
    if is_object(xp):
        return xp.asarray(value)
    return xp.asarray(to_numpy(value) if _is_array(value) else value, dtype=xp.float64)
