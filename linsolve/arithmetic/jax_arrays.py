"""JAX: one namespace for its arrays and tracers, with the derivatives that the closed forms need.

Formulas select between forms by `where`, and the derivative of a form that is not selected must be finite: JAX
multiplies it by 0. The functions below have finite derivatives at the points where `jax.numpy` returns nan or inf.
"""

from __future__ import annotations

import sys
import warnings
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

__all__ = ["JaxNamespace", "is_staged", "is_traced", "jax_namespace"]


def is_traced(value: Any) -> bool:
    """Return whether JAX traces `value`, so that its entries are unknown."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.core.Tracer)


def is_staged(value: Any) -> bool:
    """Return whether results computed from `value` are traced: it is, or JAX is tracing a function around the call."""
    jax = sys.modules.get("jax")
    if jax is None or not isinstance(value, jax.Array):
        return False
    return is_traced(value) or is_traced(jax.numpy.zeros(()))


@lru_cache(maxsize=1)
def jax_namespace() -> JaxNamespace:
    """Return the namespace of JAX arrays; warn once if JAX computes in single precision."""
    import jax

    if not getattr(jax.config, "jax_enable_x64"):  # noqa: B009 - declared at run time
        warnings.warn(
            "linsolve: JAX computes in float32 (seven digits; closed forms with cancellations and long times lose "
            'more); for double precision call jax.config.update("jax_enable_x64", True) before the first array',
            UserWarning,
            stacklevel=2,
        )
    return JaxNamespace(jax)


class JaxNamespace:
    """`jax.numpy` as formulas use it, where `float64` is the widest type that JAX is configured for.

    Examples
    --------
    >>> from linsolve.arithmetic.jax_arrays import is_traced
    >>> is_traced(1.0)  # jax.jit, jax.grad and jax.vmap pass tracers, whose entries are unknown
    False
    """

    def __init__(self, jax: Any) -> None:
        self._jax, self._numpy, self.__name__ = jax, jax.numpy, "jax.numpy"

    def __repr__(self) -> str:
        return "jax.numpy"

    def __getattr__(self, name: str) -> Any:
        if name in ("symbolic", "dps"):  # of object arithmetics
            raise AttributeError(name)
        return getattr(self._numpy, name)

    @property
    def float64(self) -> Any:
        """The type of double precision, or of single precision unless ``jax_enable_x64`` is set."""
        return self._jax.dtypes.canonicalize_dtype(self._numpy.float64)

    def where(self, flag: Any, yes: Any, no: Any) -> Any:
        """Return `yes` where `flag` holds, else `no`; a constant beyond the range of `float64` is inf."""
        yes, no = (self._in_range(value) if isinstance(value, float) else value for value in (yes, no))
        return self._numpy.where(flag, yes, no)

    def _in_range(self, value: float) -> float:
        largest = float(self._numpy.finfo(self.float64).max)
        return value if abs(value) <= largest else value * np.inf

    @cached_property
    def abs(self) -> Any:
        """Magnitude, of derivative 1 at 0; that of -0.0 is 0.0, in compiled functions, too."""
        numpy = self._numpy

        @self._jax.custom_jvp
        def magnitude(x: Any) -> Any:
            return numpy.abs(x)

        @magnitude.defjvp
        def _(primals: Any, tangents: Any) -> Any:
            return magnitude(*primals), numpy.where(primals[0] < 0, -tangents[0], tangents[0])

        return magnitude

    @cached_property
    def hypot(self) -> Any:
        """``sqrt(x^2 + y^2)``, of derivative 0 at the origin."""
        numpy = self._numpy

        @self._jax.custom_jvp
        def hypot(x: Any, y: Any) -> Any:
            return numpy.hypot(x, y)

        @hypot.defjvp
        def _(primals: Any, tangents: Any) -> Any:
            (x, y), found = primals, hypot(*primals)
            safe = numpy.where(found == 0, numpy.ones_like(found), found)
            return found, x / safe * tangents[0] + y / safe * tangents[1]

        return hypot

    @cached_property
    def sqrt(self) -> Any:
        """Square root, of derivative 0 at 0: there it is a length, or is not selected."""
        numpy = self._numpy

        @self._jax.custom_jvp
        def sqrt(x: Any) -> Any:
            return numpy.sqrt(x)

        @sqrt.defjvp
        def _(primals: Any, tangents: Any) -> Any:
            found = sqrt(*primals)
            safe = numpy.where(found == 0, numpy.inf * numpy.ones_like(found), found)
            return found, tangents[0] / (2 * safe)

        return sqrt

    def divide(self, x: Any, y: Any) -> Any:
        """Return ``q = x/y``, of change ``(dx - q dy)/y``; `jax.numpy` divides by ``y^2``, which underflows."""

        def derivative(found: Any, given: Any, changes: Any) -> Any:
            return (changes[0] - found * changes[1]) / given[1]

        return self.with_derivative(self._numpy.divide, derivative, x, y)

    def constant(self, value: Any) -> Any:
        """Return `value` with derivative 0."""
        return self._jax.lax.stop_gradient(value)

    @cached_property
    def rounded(self) -> Any:
        """The value itself, as an integer in between: the compiler cannot round its product and a later sum as one."""
        jax, numpy = self._jax, self._numpy

        @jax.custom_jvp
        def rounded(x: Any) -> Any:
            whole = numpy.int64 if x.dtype.itemsize == 8 else numpy.int32
            bits = jax.lax.bitcast_convert_type(x, whole) | numpy.isnan(x)  # unchanged, but not known to be
            return jax.lax.bitcast_convert_type(bits, x.dtype)

        @rounded.defjvp
        def _(primals: Any, tangents: Any) -> Any:
            return rounded(*primals), tangents[0]

        return rounded

    def repeated(self, count: int, step: Any, state: Any) -> Any:
        """Return the arrays `state` after `count` applications of ``state = step(*state)``."""
        return self._jax.lax.fori_loop(0, count, lambda _, held: tuple(step(*held)), tuple(state))

    def implicit(self, solve: Any, equation: Any, given: Any) -> Any:
        """Return ``x = solve(*given)`` with the derivative of the solution of ``equation(x, *given) = 0``."""

        def derivative(x: Any, given: Any, changes: Any) -> Any:
            moved = self.jvp(lambda *given: equation(x, *given), given, changes)[1]
            slope = self.jvp(lambda x: equation(x, *given), (x,), (self.ones_like(x),))[1]
            flat = slope == 0
            return self.where(flat, 0, -moved / self.where(flat, 1, slope))

        return self.with_derivative(solve, derivative, *given)

    def with_derivative(self, formula: Any, derivative: Any, *given: Any) -> Any:
        """Return ``formula(*given)``, of derivative ``derivative(found, given, changes)``, linear in the changes."""
        evaluated = self._jax.custom_jvp(formula)

        @evaluated.defjvp
        def _(primals: Any, tangents: Any) -> Any:
            found = evaluated(*primals)
            return found, derivative(found, primals, tangents)

        return evaluated(*given)

    def exact(self, flag: Any, value: Any, found: Any) -> Any:
        """Return `value` where `flag` holds, else `found`, with the derivative of `found`."""

        def derivative(result: Any, given: Any, changes: Any) -> Any:
            return self.broadcast_to(changes[2], result.shape)

        return self.with_derivative(self.where, derivative, flag, value, found)

    def jvp(self, formula: Any, given: Any, changes: Any) -> Any:
        """Return a formula and its change."""
        return self._jax.jvp(formula, given, changes)

    def scan(self, step: Any, state: Any, over: Any) -> Any:
        """Return `state` after ``state, _ = step(state, entry)`` for the entries of `over` along the first axis."""
        return self._jax.lax.scan(step, state, over)[0]

    @property
    def expm(self) -> Any:
        """Exponential of a matrix."""
        from jax.scipy.linalg import expm

        return expm

    @cached_property
    def linalg(self) -> _Linear:
        """`jax.numpy.linalg`, with a derivative of the complete singular value decomposition."""
        return _Linear(self._jax)

    def on_host(self, formula: Any, shapes: Any, *given: Any) -> Any:
        """Return ``formula(*given)`` of NumPy arrays, evaluated by the host; `shapes` are those of the results."""
        jax, double = self._jax, self.float64
        results = tuple(jax.ShapeDtypeStruct(shape, double) for shape in shapes)

        def evaluated(*given: Any) -> Any:
            arrays = [np.asarray(value, dtype=float) for value in given]
            with np.errstate(all="ignore"):
                return tuple(np.asarray(value, dtype=double) for value in formula(*arrays))

        return jax.pure_callback(evaluated, results, *given, vmap_method="broadcast_all")


class _Linear:
    """`jax.numpy.linalg`, with a derivative of the complete singular value decomposition."""

    def __init__(self, jax: Any) -> None:
        self._jax, self._linalg = jax, jax.numpy.linalg

    def __getattr__(self, name: str) -> Any:
        return getattr(self._linalg, name)

    def svd(self, a: Any, full_matrices: bool = True) -> Any:
        """Return the decomposition; its derivative is nan at equal singular values, where the vectors have none."""
        if not full_matrices:
            return self._linalg.svd(a, full_matrices=False)
        return self._complete(a)

    @cached_property
    def _complete(self) -> Any:
        numpy = self._jax.numpy

        @self._jax.custom_jvp
        def complete(a: Any) -> Any:
            return tuple(self._linalg.svd(a, full_matrices=True))

        @complete.defjvp
        def _(primals: Any, tangents: Any) -> Any:
            u, s, vh = complete(*primals)
            inside = numpy.matrix_transpose(u) @ tangents[0] @ numpy.matrix_transpose(vh)
            k = s.shape[-1]
            ds = numpy.linalg.diagonal(inside)
            turn_u = _turn(numpy, inside[..., :, :k] * s[..., None, :], s)
            turn_v = _turn(numpy, numpy.matrix_transpose(inside[..., :k, :]) * s[..., None, :], s)
            return (u, s, vh), (u @ turn_u, ds, -turn_v @ vh)

        return complete


def _turn(numpy: Any, weighted: Any, s: Any) -> Any:
    """Return the antisymmetric rotation ``(M + M^T)_ij / (s_j^2 - s_i^2)``, 0 among the vectors beyond `s`."""
    n, k = weighted.shape[-2:]
    pad = [(0, 0)] * (weighted.ndim - 1) + [(0, n - k)]
    whole, squares = numpy.pad(weighted, pad), numpy.pad(s * s, pad[1:])
    gap = squares[..., None, :] - squares[..., :, None]
    index = numpy.arange(n)
    free = ((index[:, None] >= k) & (index >= k)) | (index[:, None] == index)
    equal = numpy.abs(gap) <= 64 * numpy.finfo(s.dtype).eps * numpy.max(squares, axis=-1)[..., None, None]
    safe = numpy.where(equal, 1, gap)
    weight = numpy.where(free, 0, numpy.where(equal, numpy.nan, 1 / safe))
    return weight * (whole + numpy.matrix_transpose(whole))
