"""JAX: one namespace for its arrays and tracers, with the derivatives that the closed forms need.

Formulas select between forms by `where`, and the derivative of a form that is not selected must be finite: JAX
multiplies it by 0. The functions below have finite derivatives at the points where `jax.numpy` returns nan or inf.
"""

from __future__ import annotations

import sys
import warnings
from functools import cached_property, lru_cache
from typing import Any

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

    if not jax.config.jax_enable_x64:
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
